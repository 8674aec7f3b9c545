//! Formats: bytes to columns and back, rows as people read them, and schemas found in samples.
//!
//! [`decoder`] and [`encoder`] make the formats that [`FORMATS`] lists; [`render`] prints result rows; [`infer`] finds
//! columns in samples. What text means is Flink's: the same records give the same rows.
//! Leaves to others: where bytes come from and go to (`runtime/connect`, `runtime/kafka`), and what happens to records
//! that are reported as bad (the engine makes dead letters of them).

mod text;
mod write;
mod column;
mod sql_type;
mod cells;
mod json;
mod csv;
mod raw;
pub mod render;
pub mod infer;

pub use sql_type::sql_type;

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions},
    datatypes::{DataType, Field, Fields, Schema, SchemaRef},
};
use pelton_core::{
    error::{Result, RuntimeError},
    format::{Decoder, Encoder},
    options::{FormatInfo, OptionReader},
    records::Records,
};

/// The formats there are.
pub const FORMATS: &[FormatInfo] = &[
    FormatInfo { name: "json", options: json::OPTIONS },
    FormatInfo { name: "csv", options: csv::OPTIONS },
    FormatInfo { name: "raw", options: raw::OPTIONS },
];

/// Makes a decoder.
///
/// `options` are the table's, with the format's name in front of the format's own (`json.ignore-parse-errors`); for
/// `value.format` or `key.format` take the prefix off first with [`unprefixed`]. `physical` are all columns that the
/// bytes hold (csv and raw go by position), `needed` those to decode, in the order wanted. Columns come out nullable
/// whatever was declared: input may lack any field.
pub fn decoder(format: &str, options: &BTreeMap<String, String>, physical: &SchemaRef, needed: &SchemaRef) -> Result<Box<dyn Decoder>> {
    let reader = OptionReader(options);
    let needed = nullable(needed);
    let made: Result<Box<dyn Decoder>, String> = match format {
        "json" => json::JsonDecoder::new(&reader, needed).map(|made| Box::new(made) as _),
        "csv" => csv::CsvDecoder::new(&reader, physical, needed).map(|made| Box::new(made) as _),
        "raw" => raw::RawDecoder::new(&reader, physical, needed).map(|made| Box::new(made) as _),
        other => Err(unknown(other)),
    };
    made.map_err(RuntimeError::Script)
}

/// Makes an encoder for rows of `schema`; options as for [`decoder`].
pub fn encoder(format: &str, options: &BTreeMap<String, String>, schema: &SchemaRef) -> Result<Box<dyn Encoder>> {
    let reader = OptionReader(options);
    let made: Result<Box<dyn Encoder>, String> = match format {
        "json" => json::JsonEncoder::new(&reader, schema).map(|made| Box::new(made) as _),
        "csv" => csv::CsvEncoder::new(&reader, schema).map(|made| Box::new(made) as _),
        "raw" => raw::RawEncoder::new(&reader, schema).map(|made| Box::new(made) as _),
        other => Err(unknown(other)),
    };
    made.map_err(RuntimeError::Script)
}

/// Options that begin with `prefix` (`value.`, `key.`) without it, over those that stand without: what a format of
/// `'value.format'` reads.
pub fn unprefixed(options: &BTreeMap<String, String>, prefix: &str) -> BTreeMap<String, String> {
    let mut plain = options.clone();
    plain.extend(options.iter().filter_map(|(key, value)| Some((key.strip_prefix(prefix)?.to_owned(), value.clone()))));
    plain
}

fn unknown(format: &str) -> String {
    let names: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
    format!("format '{format}' is not one of {}", names.join(", "))
}

/// The schema with every column and nested field nullable, keys of maps excepted.
fn nullable(schema: &SchemaRef) -> SchemaRef {
    let fields: Fields = schema.fields().iter().map(|field| nullable_field(field)).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn nullable_field(field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| nullable_field(field)).collect()),
        DataType::List(item) => DataType::List(Arc::new(nullable_field(item))),
        DataType::Map(entries, sorted) => {
            let pair = match entries.data_type() {
                DataType::Struct(pair) if pair.len() == 2 => {
                    DataType::Struct(Fields::from(vec![pair[0].as_ref().clone().with_nullable(false), nullable_field(&pair[1])]))
                }
                other => other.clone(),
            };
            DataType::Map(Arc::new(entries.as_ref().clone().with_data_type(pair).with_nullable(false)), *sorted)
        }
        other => other.clone(),
    };
    field.clone().with_data_type(data_type).with_nullable(true)
}

/// Bytes of records in one batch: far below what Arrow's 32-bit offsets reach, even if text grows by escapes. Sources
/// cut batches at a few MiB.
const BATCH_BYTES_MAX: usize = 256 << 20;

/// Refuses a batch that columns could not hold.
fn check_size(records: &Records) -> Result<()> {
    let bytes = records.values.byte_len();
    if bytes <= BATCH_BYTES_MAX {
        return Ok(());
    }
    Err(RuntimeError::Data {
        step: "decode".to_owned(),
        reason: format!("{} records of {bytes} bytes together are more than the 256 MiB that fit one batch", records.len()),
        topic: records.topic.to_string(),
        partition: Some(records.partition),
        offset: records.offsets.first().copied(),
    })
}

/// A batch that keeps its row count even without columns.
fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| RuntimeError::Script(format!("decode: {error}")))
}
