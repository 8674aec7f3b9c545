//! The JSON decoder: a batch of records to a batch of columns.
//!
//! The record's bytes are read in place and once: keys by comparison with those of the record before, values straight
//! into the columns, everything nobody asked for is only checked. UTF-8 is checked for the whole batch at a time.
//! A record that is no JSON object, or (unless `json.ignore-parse-errors`) holds a value that does not fit its column,
//! is bad; with the option it is skipped, or the value is null.

use std::sync::Arc;

use arrow::{
    array::{Array, RecordBatch, StructArray},
    datatypes::{DataType, SchemaRef},
};
use pelton_core::{
    error::{Result, RuntimeError},
    format::{Decoded, Decoder},
    options::OptionReader,
    records::Records,
};

use super::{
    scan::{Cursor, Syntax},
    shape::Shape,
    standard,
    value::{Fault, FieldFault, Reader, Why},
};
use crate::{column::Column, sql_type::sql_type};

/// How much of a value is quoted in a reason.
const QUOTED_BYTES_MAX: usize = 60;

/// See the module.
pub(crate) struct JsonDecoder {
    schema: SchemaRef,
    reader: Reader,
    shape: Shape,
    /// The row itself, as a ROW column; always the `Struct` variant.
    root: Column,
}

impl JsonDecoder {
    pub(crate) fn new(options: &OptionReader<'_>, schema: SchemaRef) -> Result<Self, String> {
        let ignore_errors = options.flag("json.ignore-parse-errors", false)?;
        let fail_on_missing = options.flag("json.fail-on-missing-field", false)?;
        if ignore_errors && fail_on_missing {
            return Err("options 'json.fail-on-missing-field' and 'json.ignore-parse-errors' cannot both be true".to_owned());
        }
        for field in schema.fields() {
            Column::new(field.data_type(), 0).map_err(|reason| format!("column '{}': {reason}", field.name()))?;
        }
        let root = Column::new(&DataType::Struct(schema.fields().clone()), 0)?;
        let shape = Shape::new(schema.fields());
        Ok(Self { reader: Reader::new(standard(options)?, ignore_errors, fail_on_missing), shape, root, schema })
    }

    fn record(&mut self, value: &[u8], row: usize) -> Result<(), Fault> {
        let mut cursor = Cursor::new(value.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(value));
        if cursor.peek() != b'{' {
            return Err(cursor.fault("a JSON object").into());
        }
        let Column::Struct(root) = &mut self.root else {
            return Err(cursor.fault("a ROW").into());
        };
        self.reader.object(&mut cursor, &mut self.shape, root, row)?;
        root.set(row);
        cursor.end()?;
        Ok(())
    }

    fn batch(&mut self, rows: usize) -> Result<RecordBatch> {
        let broken = |reason: String| RuntimeError::Script(format!("decode json: {reason}"));
        let array = self.root.finish(rows).map_err(|error| broken(error.to_string()))?;
        let row = array.as_any().downcast_ref::<StructArray>().ok_or_else(|| broken("a row is a ROW".to_owned()))?;
        crate::batch_of(&self.schema, row.columns().to_vec(), rows)
    }
}

impl Decoder for JsonDecoder {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn decode(&mut self, records: &Records) -> Result<Decoded> {
        let values = &records.values;
        let (data, _) = values.parts();
        crate::check_size(records)?;
        let all_utf8 = std::str::from_utf8(data).is_ok();
        let mut origin = Vec::new();
        let mut one_to_one = true;
        let mut bad = Vec::new();
        let mut rows = 0;
        for index in 0..values.len() {
            let record = values.get(index).filter(|value| !value.is_empty());
            let outcome = match record {
                None => None,
                Some(value) if !all_utf8 || is_continuation(value[0]) => match std::str::from_utf8(value) {
                    Ok(_) => Some(self.record(value, rows).map_err(|fault| (value, fault))),
                    Err(error) => {
                        let fault = Syntax { at: error.valid_up_to(), expected: "UTF-8" };
                        Some(Err((value, Fault::Syntax(fault))))
                    }
                },
                Some(value) => Some(self.record(value, rows).map_err(|fault| (value, fault))),
            };
            let number = u32::try_from(index).unwrap_or(u32::MAX);
            if matches!(outcome, Some(Ok(()))) {
                if !one_to_one {
                    origin.push(number);
                }
                rows += 1;
                continue;
            }
            if one_to_one {
                one_to_one = false;
                origin.extend(0..number);
            }
            if let Some(Err((value, fault))) = outcome {
                self.root.cut(rows);
                if !self.reader.ignore_errors {
                    bad.push((number, reason(&fault, value, &self.schema)));
                }
            }
        }
        Ok(Decoded { batch: self.batch(rows)?, origin: (!one_to_one).then_some(origin), bad })
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// What was found and what was expected.
fn reason(fault: &Fault, value: &[u8], schema: &SchemaRef) -> String {
    let value = value.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(value);
    match fault {
        Fault::Syntax(Syntax { at, expected: "UTF-8" }) => format!("not UTF-8 from byte {at} on"),
        Fault::Syntax(Syntax { at, expected }) => {
            let found = match value.get(*at..) {
                None | Some([]) => "the end of the record".to_owned(),
                Some(rest) => format!("`{}`", shortened(rest, 20)),
            };
            format!("not JSON at byte {at}: expected {expected}, found {found}")
        }
        Fault::Field(fault) => field_reason(fault, value, schema),
    }
}

fn field_reason(fault: &FieldFault, value: &[u8], schema: &SchemaRef) -> String {
    let path = fault.path.join(".").replace(".[", "[");
    if fault.why == Why::Missing {
        let place = if path.is_empty() { "the record".to_owned() } else { format!("column '{path}'") };
        return format!("{place} lacks a field, and 'json.fail-on-missing-field' is true");
    }
    let mut cursor = Cursor::new(value);
    cursor.rewind(fault.at);
    let found = match cursor.skip() {
        Ok(()) => cursor.since(fault.at),
        Err(_) => value.get(fault.at..).unwrap_or_default(),
    };
    let expected = type_at(&fault.path, schema).map_or_else(|| "another type".to_owned(), |t| sql_type(&t));
    format!("column '{path}': found `{}`, expected {expected}", shortened(found, QUOTED_BYTES_MAX))
}

fn type_at(path: &[String], schema: &SchemaRef) -> Option<DataType> {
    let mut current = DataType::Struct(schema.fields().clone());
    for step in path {
        current = match &current {
            DataType::Struct(fields) => fields.iter().find(|field| field.name() == step)?.data_type().clone(),
            DataType::List(item) => item.data_type().clone(),
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(pair) => pair.get(1)?.data_type().clone(),
                _ => return None,
            },
            _ => return None,
        };
    }
    Some(current)
}

fn shortened(bytes: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(most)]);
    let text = text.trim_end_matches('\u{FFFD}');
    if bytes.len() > most { format!("{text}…") } else { text.to_owned() }
}
