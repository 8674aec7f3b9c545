//! Raw: the record's bytes as the one column, as Flink's `raw` format does it.
//!
//! STRING takes the bytes as UTF-8, BYTES as they are, numbers as their binary form in `raw.endianness`, BOOLEAN as one
//! byte. Nothing is skipped: an empty record is an empty STRING.

use std::sync::Arc;

use arrow::{
    array::{Array, BinaryArray, BooleanArray, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray},
    datatypes::{DataType, SchemaRef},
};
use pelton_core::{
    error::{Result, RuntimeError},
    format::{Decoded, Decoder, Encoder},
    options::{OptionReader, OptionSpec},
    records::{BytesColumn, Records},
};

use crate::{column::Column, sql_type::sql_type};

/// The format's options.
pub(crate) const OPTIONS: &[OptionSpec] = &[
    OptionSpec { key: "raw.charset", required: false, default: "UTF-8", doc: "Encoding of STRING; only UTF-8 (and its subset US-ASCII) is known." },
    OptionSpec { key: "raw.endianness", required: false, default: "big-endian", doc: "Byte order of numbers: big-endian or little-endian." },
];

/// The one column's type and the byte order.
#[derive(Debug, Clone)]
struct Layout {
    data_type: DataType,
    little: bool,
}

impl Layout {
    fn new(options: &OptionReader<'_>, schema: &SchemaRef) -> Result<Self, String> {
        options.choice("raw.charset", &["UTF-8", "UTF8", "US-ASCII"])?;
        let little = options.choice("raw.endianness", &["big-endian", "little-endian"])? == Some("little-endian");
        let [field] = schema.fields().as_ref() else {
            return Err(format!("format 'raw' takes exactly one column, the table has {}", schema.fields().len()));
        };
        match field.data_type() {
            DataType::Utf8 | DataType::Binary | DataType::Boolean | DataType::Int8 | DataType::Int16 | DataType::Int32
            | DataType::Int64 | DataType::Float32 | DataType::Float64 => Ok(Self { data_type: field.data_type().clone(), little }),
            other => Err(format!("format 'raw' cannot hold {} (column '{}')", sql_type(other), field.name())),
        }
    }

    /// The bytes in big-endian order.
    fn ordered<const N: usize>(&self, value: &[u8]) -> Option<[u8; N]> {
        let mut bytes: [u8; N] = value.try_into().ok()?;
        if self.little {
            bytes.reverse();
        }
        Some(bytes)
    }

    fn read(&self, value: &[u8], column: &mut Column, row: usize) -> Option<()> {
        match column {
            Column::Utf8(text) => text.set(row, std::str::from_utf8(value).ok()?.as_bytes()),
            Column::Binary(bytes) => bytes.set(row, value),
            Column::Boolean(bits) => bits.set(row, self.ordered::<1>(value)?[0] != 0),
            Column::Int8(values) => values.set(row, i8::from_be_bytes(self.ordered(value)?)),
            Column::Int16(values) => values.set(row, i16::from_be_bytes(self.ordered(value)?)),
            Column::Int32(values) => values.set(row, i32::from_be_bytes(self.ordered(value)?)),
            Column::Int64(values) => values.set(row, i64::from_be_bytes(self.ordered(value)?)),
            Column::Float32(values) => values.set(row, f32::from_be_bytes(self.ordered(value)?)),
            Column::Float64(values) => values.set(row, f64::from_be_bytes(self.ordered(value)?)),
            _ => return None,
        }
        Some(())
    }

    fn put<const N: usize>(&self, mut bytes: [u8; N], out: &mut Vec<u8>) {
        if self.little {
            bytes.reverse();
        }
        out.extend_from_slice(&bytes);
    }
}

/// See the module.
pub(crate) struct RawDecoder {
    /// What is asked for: the table's column, or nothing (only rows are counted).
    schema: SchemaRef,
    layout: Layout,
    column: Column,
}

impl RawDecoder {
    pub(crate) fn new(options: &OptionReader<'_>, physical: &SchemaRef, needed: SchemaRef) -> Result<Self, String> {
        let layout = Layout::new(options, physical)?;
        let column = Column::new(&layout.data_type, 0)?;
        Ok(Self { schema: needed, layout, column })
    }
}

impl Decoder for RawDecoder {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn decode(&mut self, records: &Records) -> Result<Decoded> {
        crate::check_size(records)?;
        let mut origin = Vec::with_capacity(records.len());
        let mut bad = Vec::new();
        for (index, value) in records.values.iter().enumerate() {
            let Some(value) = value else { continue };
            let number = u32::try_from(index).unwrap_or(u32::MAX);
            match self.layout.read(value, &mut self.column, origin.len()) {
                Some(()) => origin.push(number),
                None => bad.push((number, format!("{} bytes cannot be read as {}", value.len(), sql_type(&self.layout.data_type)))),
            }
        }
        let array = self.column.finish(origin.len()).map_err(|error| RuntimeError::Script(format!("decode raw: {error}")))?;
        let columns = if self.schema.fields().is_empty() { Vec::new() } else { vec![array] };
        let batch = crate::batch_of(&self.schema, columns, origin.len())?;
        let one_to_one = origin.len() == records.len();
        Ok(Decoded { batch, origin: (!one_to_one).then_some(origin), bad })
    }
}

/// See the module.
pub(crate) struct RawEncoder {
    layout: Layout,
}

impl RawEncoder {
    pub(crate) fn new(options: &OptionReader<'_>, schema: &SchemaRef) -> Result<Self, String> {
        Ok(Self { layout: Layout::new(options, schema)? })
    }
}

impl Encoder for RawEncoder {
    /// A null becomes a null record, as in Flink.
    fn encode(&mut self, batch: &RecordBatch, out: &mut BytesColumn, _bad: &mut Vec<(u32, String)>) -> Result<()> {
        let array = batch.column(0).as_any();
        let layout = &self.layout;
        macro_rules! rows {
            ($type:ty, |$value:ident, $buffer:ident| $write:expr) => {{
                let typed = array.downcast_ref::<$type>().ok_or_else(|| RuntimeError::Script("encode raw: unexpected column type".to_owned()))?;
                for row in 0..typed.len() {
                    let is_null = typed.is_null(row);
                    if !is_null {
                        let $value = typed.value(row);
                        let $buffer = out.buffer();
                        $write;
                    }
                    out.finish_row(is_null);
                }
            }};
        }
        match layout.data_type {
            DataType::Utf8 => rows!(StringArray, |value, buffer| buffer.extend_from_slice(value.as_bytes())),
            DataType::Binary => rows!(BinaryArray, |value, buffer| buffer.extend_from_slice(value)),
            DataType::Boolean => rows!(BooleanArray, |value, buffer| buffer.push(u8::from(value))),
            DataType::Int8 => rows!(Int8Array, |value, buffer| layout.put(value.to_be_bytes(), buffer)),
            DataType::Int16 => rows!(Int16Array, |value, buffer| layout.put(value.to_be_bytes(), buffer)),
            DataType::Int32 => rows!(Int32Array, |value, buffer| layout.put(value.to_be_bytes(), buffer)),
            DataType::Int64 => rows!(Int64Array, |value, buffer| layout.put(value.to_be_bytes(), buffer)),
            DataType::Float32 => rows!(Float32Array, |value, buffer| layout.put(value.to_be_bytes(), buffer)),
            _ => rows!(Float64Array, |value, buffer| layout.put(value.to_be_bytes(), buffer)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::datatypes::{Field, Schema};

    use super::*;

    fn schema(data_type: DataType) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("v", data_type, true)]))
    }

    #[test]
    fn numbers_go_through_bytes_and_back_in_both_orders() {
        for (order, bytes) in [("big-endian", [0, 0, 1, 2]), ("little-endian", [2, 1, 0, 0])] {
            let options = BTreeMap::from([("raw.endianness".to_owned(), order.to_owned())]);
            let schema = schema(DataType::Int32);
            let mut records = Records::default();
            records.values.push(Some(&bytes));
            records.values.push(None);
            records.values.push(Some(b"xyz"));
            let mut decoder = RawDecoder::new(&OptionReader(&options), &schema, Arc::clone(&schema)).expect("decoder");
            let decoded = decoder.decode(&records).expect("decode");
            assert_eq!(decoded.origin, Some(vec![0]));
            assert_eq!(decoded.bad, [(2, "3 bytes cannot be read as INT".to_owned())]);
            let mut out = BytesColumn::default();
            let mut encoder = RawEncoder::new(&OptionReader(&options), &schema).expect("encoder");
            encoder.encode(&decoded.batch, &mut out, &mut Vec::new()).expect("encode");
            assert_eq!(out.get(0), Some(&bytes[..]));
        }
    }

    #[test]
    fn refuses_more_than_one_column() {
        let two = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, true), Field::new("b", DataType::Utf8, true)]));
        let reason = RawEncoder::new(&OptionReader(&BTreeMap::new()), &two).err();
        assert_eq!(reason.as_deref(), Some("format 'raw' takes exactly one column, the table has 2"));
    }
}
