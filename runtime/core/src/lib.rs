//! Words and laws of Pelton: time, positions, records, messages, operators, state, sources and sinks, as types and traits.
//!
//! Invariant: nothing here does I/O, reads a clock, spawns a thread, or knows Kafka, RocksDB, DataFusion or wasmtime.
//! Read in this order: [`time`], [`position`], [`records`], [`message`], [`operator`], [`state`], [`graph`].

pub mod time;
pub mod position;
pub mod records;
pub mod message;
pub mod watermark;
pub mod key_group;
pub mod operator;
pub mod state;
pub mod format;
pub mod source;
pub mod source_step;
pub mod sink;
pub mod plugin;
pub mod graph;
pub mod dead_letter;
pub mod options;
pub mod error;
