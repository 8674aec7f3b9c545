//! Scripts: from text to statements with exact positions, and what CREATE statements may say.
//!
//! `source` replaces `${NAME}` and knows which place of the script a position of the result is; `statement` holds the
//! statements, `parse` reads them, `types` reads and writes Flink's types, `options` checks WITH clauses and SET keys.
//! Leaves to others: what queries and expressions mean (`plan`).

pub(crate) mod source;

pub(crate) mod statement;

pub(crate) mod parse;

pub(crate) mod types;

pub(crate) mod options;
