//! Queries to operator graphs.
//!
//! The way of a query: syntax tree → names resolved to positions (`scope`) → expressions with Flink's types
//! (`translate`) → relations (`query`, `select`, `from`, `windows`, `join`, `aggregate`) → rules (`optimize`, `prune`) →
//! graph (`lower`). What cannot be planned is refused on this way, at its position and with a hint.

pub(crate) mod fault;
pub(crate) mod rel;
pub(crate) mod table;
pub(crate) mod scope;
pub(crate) mod functions;
pub(crate) mod translate;
pub(crate) mod query;
pub(crate) mod select;
pub(crate) mod from;
pub(crate) mod windows;
pub(crate) mod join;
pub(crate) mod aggregate;
pub(crate) mod optimize;
pub(crate) mod prune;
pub(crate) mod show;
pub(crate) mod fields;
pub(crate) mod not_null;
pub(crate) mod insert;
pub(crate) mod steps;
pub(crate) mod source;
pub(crate) mod lower;
pub(crate) mod pinned;
pub(crate) mod objects;
pub(crate) mod driver;

#[cfg(test)]
mod tests;
