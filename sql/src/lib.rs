//! SQL: from a script's text to operator graphs.
//!
//! `script` turns text into checked statements, `plan` turns queries into graphs. The expression dialect and Flink's
//! semantics live in `sql/expr`, the operators that graphs are made of in `sql/operators`.
//! Invariant: nothing here knows Kafka, RocksDB or wasmtime, reads a clock, or spawns a thread.

pub mod job;
mod script;
mod plan;

pub use plan::driver::plan_script;
