//! Expressions from text to rows.

mod results;
