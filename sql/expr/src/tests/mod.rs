//! Expressions from text to rows.

mod columns;
mod flink;
mod results;
