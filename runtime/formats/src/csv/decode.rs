//! The csv decoder.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use pelton_core::{
    error::{Result, RuntimeError},
    format::{Decoded, Decoder},
    options::OptionReader,
    records::Records,
};

use super::{Dialect, fields::SplitFields};
use crate::{
    column::{Column, in_unit},
    sql_type::sql_type,
    text::{self, TimestampStandard},
};

/// See the module.
pub(crate) struct CsvDecoder {
    schema: SchemaRef,
    dialect: Dialect,
    ignore_errors: bool,
    allow_comments: bool,
    /// How many fields a record has.
    width: usize,
    /// For each needed column the field it stands in.
    places: Vec<usize>,
    columns: Vec<Column>,
    fields: SplitFields,
}

impl CsvDecoder {
    pub(crate) fn new(options: &OptionReader<'_>, physical: &SchemaRef, needed: SchemaRef) -> Result<Self, String> {
        let mut places = Vec::new();
        let mut columns = Vec::new();
        for field in needed.fields() {
            places.push(physical.index_of(field.name()).map_err(|_| format!("column '{}' is not in the table", field.name()))?);
            let column = Column::new(field.data_type(), 0)?;
            if let Column::Map(_) = column {
                return Err(format!("column '{}': format 'csv' cannot hold {}", field.name(), sql_type(field.data_type())));
            }
            columns.push(column);
        }
        Ok(Self {
            dialect: Dialect::new(options)?,
            ignore_errors: options.flag("csv.ignore-parse-errors", false)?,
            allow_comments: options.flag("csv.allow-comments", false)?,
            width: physical.fields().len(),
            schema: needed,
            places,
            columns,
            fields: SplitFields::default(),
        })
    }

    /// Reads one record into `row`; `Err` is why it is bad.
    fn record(&mut self, value: &[u8], row: usize) -> Result<(), String> {
        std::str::from_utf8(value).map_err(|error| format!("not UTF-8 from byte {} on", error.valid_up_to()))?;
        self.fields.split(value, &self.dialect)?;
        let found = self.fields.len();
        // A delimiter at the end of the line is let through, as Jackson does.
        let trailing = found == self.width + 1 && self.fields.get(self.width).is_empty();
        if found > self.width && !trailing || found < self.width && !self.ignore_errors {
            return Err(format!("{} fields expected, found {found}", self.width));
        }
        for (index, column) in self.columns.iter_mut().enumerate() {
            let place = self.places[index];
            if place >= found {
                continue;
            }
            let field = self.fields.get(place);
            if !self.fields.is_quoted(place) && self.dialect.null_literal.as_deref() == Some(field) {
                continue;
            }
            if set(field, column, row, &self.dialect, self.ignore_errors).is_none() {
                column.cut(row);
                if !self.ignore_errors {
                    let declared = self.schema.field(index);
                    let found = String::from_utf8_lossy(field);
                    let found: String = found.chars().take(60).collect();
                    return Err(format!("column '{}': found `{found}`, expected {}", declared.name(), sql_type(declared.data_type())));
                }
            }
        }
        Ok(())
    }
}

/// Writes a field's text into a column; `None` if it does not fit.
fn set(field: &[u8], column: &mut Column, row: usize, dialect: &Dialect, ignore_errors: bool) -> Option<()> {
    let trimmed = text::trim(field);
    match column {
        Column::Utf8(bytes) => bytes.set(row, field),
        Column::Boolean(bits) => bits.set(row, trimmed.eq_ignore_ascii_case(b"true")),
        Column::Int8(values) => values.set(row, i8::try_from(text::whole(trimmed)?).ok()?),
        Column::Int16(values) => values.set(row, i16::try_from(text::whole(trimmed)?).ok()?),
        Column::Int32(values) => values.set(row, i32::try_from(text::whole(trimmed)?).ok()?),
        Column::Int64(values) => values.set(row, text::whole(trimmed)?),
        Column::Float32(values) => values.set(row, text::float32(trimmed)?),
        Column::Float64(values) => values.set(row, text::float(trimmed)?),
        Column::Decimal { values, precision, scale } => {
            if let Some(value) = text::decimal(trimmed, *precision, *scale).ok()? {
                values.set(row, value);
            }
        }
        Column::Date(values) => values.set(row, text::date(&two_digits(field))?),
        Column::Time { values, unit } => {
            let (seconds, nanos) = text::time_of_day(field, false)?;
            values.set(row, i32::try_from(in_unit(i64::from(seconds), nanos, *unit)?).ok()?);
        }
        Column::Timestamp { values, unit, zone } => {
            let (seconds, nanos) = text::timestamp(&two_digits(field), TimestampStandard::Sql, zone.is_some())?;
            values.set(row, in_unit(seconds, nanos, *unit)?);
        }
        Column::Binary(bytes) => match text::base64(field, bytes.begin(row)) {
            Some(()) => bytes.end(),
            None => {
                bytes.give_up();
                return None;
            }
        },
        Column::List(list) => {
            let first = list.begin(row);
            let mut item = first;
            for element in elements(field, &dialect.element_delimiter) {
                if dialect.null_literal.as_deref() != Some(element) && set(element, &mut list.child, item, dialect, ignore_errors).is_none() {
                    list.child.cut(item);
                    if !ignore_errors {
                        return None;
                    }
                }
                item += 1;
            }
            list.end(item);
        }
        Column::Struct(inner) => {
            inner.begin(row);
            let mut parts = elements(field, &dialect.element_delimiter);
            for child in &mut inner.children {
                let Some(element) = parts.next() else {
                    if ignore_errors {
                        break;
                    }
                    return None;
                };
                if dialect.null_literal.as_deref() != Some(element) && set(element, child, row, dialect, ignore_errors).is_none() {
                    child.cut(row);
                    if !ignore_errors {
                        return None;
                    }
                }
            }
            if parts.next().is_some() && !ignore_errors {
                return None;
            }
            inner.set(row);
        }
        Column::Map(_) => return None,
    }
    Some(())
}

/// Elements of an ARRAY or ROW; an empty field has none.
fn elements<'a>(field: &'a [u8], delimiter: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = (!field.is_empty()).then_some(field);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = if delimiter.is_empty() { None } else { memchr::memmem::find(text, delimiter) };
        let (element, tail) = match end {
            Some(at) => (&text[..at], Some(&text[at + delimiter.len()..])),
            None => (text, None),
        };
        rest = tail;
        Some(element)
    })
}

/// A day with one-digit months and days filled up, as `java.sql.Date.valueOf` reads them.
fn two_digits(text: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let end = text.iter().position(|&byte| byte == b' ').unwrap_or(text.len());
    let (day, rest) = text.split_at(end);
    if day.len() >= 10 {
        return text.into();
    }
    let mut filled = Vec::with_capacity(text.len() + 2);
    for (index, part) in day.split(|&byte| byte == b'-').enumerate() {
        if index > 0 {
            filled.push(b'-');
        }
        if part.len() == 1 {
            filled.push(b'0');
        }
        filled.extend_from_slice(part);
    }
    filled.extend_from_slice(rest);
    filled.into()
}

impl Decoder for CsvDecoder {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn decode(&mut self, records: &Records) -> Result<Decoded> {
        crate::check_size(records)?;
        let mut origin = Vec::with_capacity(records.len());
        let mut bad = Vec::new();
        for (index, value) in records.values.iter().enumerate() {
            let Some(value) = value.filter(|value| !value.is_empty()) else { continue };
            if self.allow_comments && value[0] == b'#' {
                continue;
            }
            let number = u32::try_from(index).unwrap_or(u32::MAX);
            let row = origin.len();
            match self.record(value, row) {
                Ok(()) => origin.push(number),
                Err(reason) => {
                    self.columns.iter_mut().for_each(|column| column.cut(row));
                    if !self.ignore_errors {
                        bad.push((number, reason));
                    }
                }
            }
        }
        let rows = origin.len();
        let columns = self.columns.iter_mut().map(|column| column.finish(rows)).collect::<Result<Vec<_>, _>>();
        let columns = columns.map_err(|error| RuntimeError::Script(format!("decode csv: {error}")))?;
        let batch = crate::batch_of(&self.schema, columns, rows)?;
        Ok(Decoded { batch, origin: (rows != records.len()).then_some(origin), bad })
    }
}
