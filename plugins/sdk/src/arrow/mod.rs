//! Arrow IPC messages, small: the types that functions mostly need, without the arrow crates (which alone pass 100 kB).
//!
//! Reads record batches of Boolean, Int32, Int64, Float64, Utf8 and Binary columns; writes schema messages and record
//! batches of those, and of lists and structs of them. Promises: a damaged message is an error, not a panic.

mod flat;
mod read;
mod write;

pub use read::{Batch, read_batch};
pub use write::{Column, schema_message, write_batch};

/// A column's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// SQL BOOLEAN.
    Boolean,
    /// SQL INT.
    Int32,
    /// SQL BIGINT.
    Int64,
    /// SQL DOUBLE.
    Float64,
    /// SQL STRING.
    Utf8,
    /// SQL BYTES.
    Binary,
    /// SQL ARRAY; what a table function returns.
    List(Box<Field>),
    /// SQL ROW.
    Struct(Vec<Field>),
}

/// A named, nullable column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub data_type: Type,
}

impl Field {
    /// A column.
    pub fn new(name: &str, data_type: Type) -> Self {
        Self { name: name.to_owned(), data_type }
    }

    /// A list column whose items are rows of these columns.
    pub fn list_of_rows(name: &str, columns: Vec<Field>) -> Self {
        Self::new(name, Type::List(Box::new(Field::new("item", Type::Struct(columns)))))
    }
}
