//! Scripts: from text to statements with exact positions, and what CREATE statements may say.
//!
//! `source` replaces `${NAME}` and knows which place of the script a position of the result is; `tokens` bounds what is
//! read and judges hints; `statement` holds the statements, `parse` and `create` read them by a `cursor`; `types` reads
//! and writes Flink's types; `options` checks WITH clauses and SET keys, `values` what they are set to.
//! Leaves to others: what queries and expressions mean (`plan`).

pub(crate) mod source;

pub(crate) mod statement;

pub(crate) mod tokens;

pub(crate) mod cursor;

pub(crate) mod parse;

pub(crate) mod create;

pub(crate) mod types;

pub(crate) mod options;

pub(crate) mod values;

#[cfg(test)]
mod tests;
