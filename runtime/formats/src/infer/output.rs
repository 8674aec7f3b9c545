//! The schema as columns and as JSON Schema.

use std::{collections::BTreeMap, sync::Arc};

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use pelton_core::{error::Result, records::Records};

use super::{InferredField, InferredKind, InferredSchema, InferredValue, TextFormat};
use crate::{json::escape_into, sql_type::sql_type};

impl InferredSchema {
    /// The columns of a table with format `json`. Timestamps become TIMESTAMP or (with `Z`) TIMESTAMP_LTZ if they are
    /// written as the table's `json.timestamp-format.standard` says (`iso`: ISO-8601), else they stay text.
    pub fn columns(&self, iso: bool) -> SchemaRef {
        Arc::new(Schema::new(arrow_fields(&self.fields, iso)))
    }

    /// Whether all date-times that SQL can read are ISO-8601, so that the table needs
    /// `'json.timestamp-format.standard'='ISO-8601'`.
    pub fn prefers_iso(&self) -> bool {
        let (mut iso, mut sql) = (0, 0);
        self.fields.iter().for_each(|field| count_layouts(&field.value, &mut iso, &mut sql));
        iso > sql
    }

    /// The columns as they stand in CREATE TABLE, one per line.
    pub fn ddl(&self, iso: bool) -> String {
        let columns = self.columns(iso);
        let lines = columns.fields().iter().map(|field| format!("  {} {}", sql_name(field.name()), sql_column(field)));
        lines.collect::<Vec<_>>().join(",\n")
    }

    /// Reads the samples with these columns: those that do not fit, by index, with the reason. Samples that were
    /// rejected before are not told again.
    pub fn check<S: AsRef<[u8]>>(&self, samples: &[S], iso: bool) -> Result<Vec<(usize, String)>> {
        let standard = if iso { "ISO-8601" } else { "SQL" };
        let options = BTreeMap::from([("json.timestamp-format.standard".to_owned(), standard.to_owned())]);
        let columns = self.columns(iso);
        let mut decoder = crate::decoder("json", &options, &columns, &columns)?;
        let mut records = Records::default();
        for sample in samples {
            records.values.push(Some(sample.as_ref()));
        }
        let bad = decoder.decode(&records)?.bad.into_iter().map(|(index, reason)| (index as usize, reason));
        Ok(bad.filter(|(index, _)| !self.rejected.iter().any(|(rejected, _)| rejected == index)).collect())
    }

    /// JSON Schema, draft-07, as readable text.
    pub fn json_schema(&self, title: &str) -> String {
        let mut out = Vec::new();
        out.extend_from_slice(b"{\n  \"$schema\": \"http://json-schema.org/draft-07/schema#\",\n  \"title\": ");
        escape_into(title.as_bytes(), &mut out);
        out.extend_from_slice(b",\n  \"type\": \"object\"");
        record(&self.fields, 1, &mut out);
        out.extend_from_slice(b"\n}\n");
        String::from_utf8_lossy(&out).into_owned()
    }
}

fn arrow_fields(fields: &[InferredField], iso: bool) -> Fields {
    fields.iter().map(|field| Field::new(&field.name, arrow_type(&field.value, iso), true)).collect()
}

fn arrow_type(value: &InferredValue, iso: bool) -> DataType {
    match &value.kind {
        InferredKind::Unknown | InferredKind::Mixed(_) => DataType::Utf8,
        InferredKind::Boolean => DataType::Boolean,
        InferredKind::Integer => DataType::Int64,
        InferredKind::BigInteger => DataType::Decimal128(38, 0),
        InferredKind::Number => DataType::Float64,
        InferredKind::Text { format, .. } => match format {
            Some(TextFormat::Date) => DataType::Date32,
            &Some(TextFormat::DateTime { is_iso, is_utc, digits }) if is_iso == iso => {
                let unit = match digits {
                    0..=3 => TimeUnit::Millisecond,
                    4..=6 => TimeUnit::Microsecond,
                    _ => TimeUnit::Nanosecond,
                };
                DataType::Timestamp(unit, is_utc.then(|| Arc::from("UTC")))
            }
            _ => DataType::Utf8,
        },
        InferredKind::Array(element) => DataType::List(Arc::new(Field::new("item", arrow_type(element, iso), true))),
        // A ROW without fields cannot be written in SQL: what is in it is not known yet.
        InferredKind::Record(fields) if fields.is_empty() => DataType::Utf8,
        InferredKind::Record(fields) => DataType::Struct(arrow_fields(fields, iso)),
        InferredKind::Map(value) => {
            let pair = Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", arrow_type(value, iso), true)]);
            DataType::Map(Arc::new(Field::new("entries", DataType::Struct(pair), false)), false)
        }
    }
}

fn count_layouts(value: &InferredValue, iso: &mut usize, sql: &mut usize) {
    match &value.kind {
        InferredKind::Text { format: Some(TextFormat::DateTime { is_iso, .. }), .. } => *(if *is_iso { iso } else { sql }) += 1,
        InferredKind::Array(inner) | InferredKind::Map(inner) => count_layouts(inner, iso, sql),
        InferredKind::Record(fields) => fields.iter().for_each(|field| count_layouts(&field.value, iso, sql)),
        _ => {}
    }
}

fn sql_name(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn sql_column(field: &Field) -> String {
    match field.data_type() {
        DataType::Struct(fields) => {
            let inner: Vec<_> = fields.iter().map(|field| format!("{} {}", sql_name(field.name()), sql_column(field))).collect();
            format!("ROW<{}>", inner.join(", "))
        }
        DataType::List(item) => format!("ARRAY<{}>", sql_column(item)),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => format!("MAP<{}, {}>", sql_column(&pair[0]), sql_column(&pair[1])),
            _ => "MAP".to_owned(),
        },
        other => sql_type(other),
    }
}

fn line(depth: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
    out.resize(out.len() + depth * 2, b' ');
}

/// Appends `, "properties": …, "required": …` of a record.
fn record(fields: &[InferredField], depth: usize, out: &mut Vec<u8>) {
    out.push(b',');
    line(depth, out);
    out.extend_from_slice(b"\"properties\": {");
    for (index, field) in fields.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        line(depth + 1, out);
        escape_into(field.name.as_bytes(), out);
        out.extend_from_slice(b": ");
        schema(&field.value, depth + 1, out);
    }
    if !fields.is_empty() {
        line(depth, out);
    }
    out.push(b'}');
    let mut required = fields.iter().filter(|field| field.required).peekable();
    // Draft-07 allows an empty list; older readers do not.
    if required.peek().is_some() {
        out.push(b',');
        line(depth, out);
        out.extend_from_slice(b"\"required\": [");
        for (index, field) in required.enumerate() {
            if index > 0 {
                out.extend_from_slice(b", ");
            }
            escape_into(field.name.as_bytes(), out);
        }
        out.push(b']');
    }
}

/// Appends the schema of one value.
fn schema(value: &InferredValue, depth: usize, out: &mut Vec<u8>) {
    let types: Vec<&str> = match &value.kind {
        InferredKind::Unknown => Vec::new(),
        InferredKind::Boolean => vec!["boolean"],
        InferredKind::Integer | InferredKind::BigInteger => vec!["integer"],
        InferredKind::Number => vec!["number"],
        InferredKind::Text { .. } => vec!["string"],
        InferredKind::Array(_) => vec!["array"],
        InferredKind::Record(_) | InferredKind::Map(_) => vec!["object"],
        InferredKind::Mixed(kinds) => kinds.clone(),
    };
    let mut types = types;
    if value.nullable {
        types.push("null");
    }
    out.push(b'{');
    let names: Vec<String> = types.iter().map(|name| format!("\"{name}\"")).collect();
    match names.as_slice() {
        [] => {}
        [one] => out.extend_from_slice(format!("\"type\": {one}").as_bytes()),
        many => out.extend_from_slice(format!("\"type\": [{}]", many.join(", ")).as_bytes()),
    }
    match &value.kind {
        InferredKind::Text { format, words } => text(*format, words, value.nullable, out),
        InferredKind::Array(element) => {
            out.extend_from_slice(b", \"items\": ");
            schema(element, depth, out);
        }
        InferredKind::Map(inner) => {
            out.extend_from_slice(b", \"additionalProperties\": ");
            schema(inner, depth, out);
        }
        InferredKind::Record(fields) => {
            record(fields, depth + 1, out);
            line(depth, out);
        }
        _ => {}
    }
    out.push(b'}');
}

fn text(format: Option<TextFormat>, words: &[String], nullable: bool, out: &mut Vec<u8>) {
    let name = match format {
        Some(TextFormat::DateTime { is_iso: true, is_utc: true, .. } | TextFormat::OffsetDateTime) => "date-time",
        Some(TextFormat::Date) => "date",
        Some(TextFormat::Uuid) => "uuid",
        Some(TextFormat::Email) => "email",
        Some(TextFormat::Uri) => "uri",
        Some(TextFormat::Ipv4) => "ipv4",
        // Draft-07's date-time and time demand an offset: these have none.
        Some(TextFormat::DateTime { is_iso, is_utc, .. }) => {
            let separator = if is_iso { 'T' } else { ' ' };
            let seconds = if is_iso { "(:[0-9]{2}(\\\\.[0-9]{1,9})?)?" } else { ":[0-9]{2}(\\\\.[0-9]{1,9})?" };
            let zone = if is_utc { "Z" } else { "" };
            let pattern = format!(", \"pattern\": \"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{separator}[0-9]{{2}}:[0-9]{{2}}{seconds}{zone}$\"");
            return out.extend_from_slice(pattern.as_bytes());
        }
        Some(TextFormat::Time) => {
            return out.extend_from_slice(b", \"pattern\": \"^[0-9]{2}:[0-9]{2}:[0-9]{2}(\\\\.[0-9]{1,9})?$\"");
        }
        None => {
            if !words.is_empty() {
                out.extend_from_slice(b", \"enum\": [");
                for (index, word) in words.iter().enumerate() {
                    if index > 0 {
                        out.extend_from_slice(b", ");
                    }
                    escape_into(word.as_bytes(), out);
                }
                out.extend_from_slice(if nullable { b", null]" } else { b"]" });
            }
            return;
        }
    };
    out.extend_from_slice(format!(", \"format\": \"{name}\"").as_bytes());
}
