//! Result rows for people and for comparison with Flink: JSON lines, csv, or a table.
//!
//! Values look the same everywhere: timestamps `2020-01-01 00:00:00.000` (TIMESTAMP_LTZ with `Z`, in UTC), times as Java
//! prints them (`00:00`, `12:34:56`), decimals exact and without exponent, floats Java style, BYTES as base64, MAP with
//! its keys as text in order. Nothing depends on the machine's time zone.

mod table;

use arrow::array::RecordBatch;
use pelton_core::error::{Result, RuntimeError};

use crate::{
    cells::{Cells, NullKey, Style, object, quoted},
    write::{self, Fraction},
};

pub use table::table;

fn style() -> Style {
    Style {
        separator: b' ',
        timestamp: Fraction::Digits(3),
        time: Fraction::JavaTime,
        plain_decimals: true,
        spaced: true,
        sorted_maps: true,
        skip_nulls: false,
        null_key: NullKey::Literal("null".to_owned()),
        interval_text: true,
    }
}

fn cells(batch: &RecordBatch) -> Result<Vec<Cells<'_>>> {
    let cells = batch.columns().iter().map(|column| Cells::new(column.as_ref()));
    cells.collect::<Result<_, _>>().map_err(|reason| RuntimeError::Script(format!("print rows: {reason}")))
}

/// Appends each row of `batch` as a JSON object and a line break: `{"id":1,"name":"a"}`.
pub fn json_lines(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
    let names: Vec<_> = batch.schema_ref().fields().iter().map(|field| quoted(field.name())).collect();
    let (cells, style) = (cells(batch)?, Style { spaced: false, ..style() });
    for row in 0..batch.num_rows() {
        object(&names, &cells, row, &style, out).map_err(RuntimeError::Script)?;
        out.push(b'\n');
    }
    Ok(())
}

/// One row of `batch` as a JSON object, for dead letters.
pub fn json_row(batch: &RecordBatch, row: usize) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    json_lines(&batch.slice(row, 1), &mut out)?;
    out.pop();
    Ok(out)
}

/// Appends the column names as a csv line.
pub fn csv_header(batch: &RecordBatch, out: &mut Vec<u8>) {
    for (index, field) in batch.schema_ref().fields().iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        csv_field(field.name().as_bytes(), out);
    }
    out.push(b'\n');
}

/// Appends each row of `batch` as a csv line; null is an empty field, an empty text is `""`.
pub fn csv_lines(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
    let (cells, style) = (cells(batch)?, style());
    let mut text = Vec::new();
    for row in 0..batch.num_rows() {
        for (index, cell) in cells.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            if !cell.is_null(row) {
                text.clear();
                cell.text(row, &style, &mut text).map_err(RuntimeError::Script)?;
                csv_field(&text, out);
            }
        }
        out.push(b'\n');
    }
    Ok(())
}

fn csv_field(text: &[u8], out: &mut Vec<u8>) {
    if !text.is_empty() && !text.iter().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        return out.extend_from_slice(text);
    }
    out.push(b'"');
    for &byte in text {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

/// Appends for each row of `batch` what Flink's `print` connector shows between the brackets of `+I[…]`: `1, alice, null`;
/// nested rows as `+I[…]`, arrays as `[…]`, maps as `{key=value}`, timestamps as Java prints them.
pub fn print_rows(batch: &RecordBatch, lines: &mut Vec<Vec<u8>>) -> Result<()> {
    let (cells, style) = (cells(batch)?, Style { separator: b'T', timestamp: Fraction::JavaTime, ..style() });
    for row in 0..batch.num_rows() {
        let mut line = Vec::new();
        for (index, cell) in cells.iter().enumerate() {
            if index > 0 {
                line.extend_from_slice(b", ");
            }
            java_text(cell, row, &style, &mut line).map_err(RuntimeError::Script)?;
        }
        lines.push(line);
    }
    Ok(())
}

fn java_text(cell: &Cells<'_>, row: usize, style: &Style, out: &mut Vec<u8>) -> Result<(), String> {
    if cell.is_null(row) {
        out.extend_from_slice(b"null");
        return Ok(());
    }
    match cell {
        Cells::List { array, items } => {
            let range = array.value_offsets();
            out.push(b'[');
            for item in range[row]..range[row + 1] {
                if item > range[row] {
                    out.extend_from_slice(b", ");
                }
                java_text(items, item as usize, style, out)?;
            }
            out.push(b']');
        }
        Cells::Map { array, keys, values } => {
            let range = array.value_offsets();
            out.push(b'{');
            for entry in range[row]..range[row + 1] {
                if entry > range[row] {
                    out.extend_from_slice(b", ");
                }
                java_text(keys, entry as usize, style, out)?;
                out.push(b'=');
                java_text(values, entry as usize, style, out)?;
            }
            out.push(b'}');
        }
        Cells::Struct { fields, .. } => {
            out.extend_from_slice(b"+I[");
            for (index, field) in fields.iter().enumerate() {
                if index > 0 {
                    out.extend_from_slice(b", ");
                }
                java_text(field, row, style, out)?;
            }
            out.push(b']');
        }
        Cells::Binary(array) => {
            out.push(b'[');
            for (index, &byte) in array.value(row).iter().enumerate() {
                if index > 0 {
                    out.extend_from_slice(b", ");
                }
                write::int(byte.cast_signed().into(), out);
            }
            out.push(b']');
        }
        _ => cell.text(row, style, out)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};
    use pelton_core::records::Records;

    use super::*;

    /// Reads rows with the json decoder, so that a test is a schema, some JSON and what is printed.
    fn batch(columns: Vec<(&str, DataType)>, lines: &[&str]) -> RecordBatch {
        let fields: Fields = columns.into_iter().map(|(name, data_type)| Field::new(name, data_type, true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let mut decoder = crate::decoder("json", &BTreeMap::new(), &schema, &schema).expect("decoder");
        let mut records = Records::default();
        lines.iter().for_each(|line| records.values.push(Some(line.as_bytes())));
        let decoded = decoder.decode(&records).expect("decode");
        assert!(decoded.bad.is_empty(), "{:?}", decoded.bad);
        decoded.batch
    }

    fn nested() -> RecordBatch {
        let map = Field::new("entries", DataType::Struct(Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Int32, true)])), false);
        batch(
            vec![
                ("id", DataType::Int32),
                ("r", DataType::Struct(Fields::from(vec![Field::new("a", DataType::Int32, true), Field::new("t", DataType::Utf8, true)]))),
                ("m", DataType::Map(Arc::new(map), false)),
                ("l", DataType::List(Arc::new(Field::new("item", DataType::Float64, true)))),
                ("day", DataType::Date32),
                ("t", DataType::Time32(TimeUnit::Second)),
                ("ts", DataType::Timestamp(TimeUnit::Microsecond, None)),
                ("b", DataType::Binary),
                ("d", DataType::Decimal128(20, 10)),
                ("ok", DataType::Boolean),
            ],
            &[
                r#"{"id":1,"r":{"a":5,"t":"x\"y"},"m":{"two":null,"one":1},"l":[1,null,1e22],"day":"2020-02-29","t":"00:00:00","ts":"2020-01-01 00:00:00.123456","b":"aGk=","d":-0.0000000001,"ok":true}"#,
                "{}",
            ],
        )
    }

    fn text(out: Vec<u8>) -> String {
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn json_lines_are_those_of_the_case_bank() {
        let mut out = Vec::new();
        json_lines(&nested(), &mut out).expect("render");
        let expected = concat!(
            r#"{"id":1,"r":{"a":5,"t":"x\"y"},"m":{"one":1,"two":null},"l":[1.0,null,1.0E22],"day":"2020-02-29","t":"00:00","#,
            r#""ts":"2020-01-01 00:00:00.123","b":"aGk=","d":-0.0000000001,"ok":true}"#,
            "\n",
            r#"{"id":null,"r":null,"m":null,"l":null,"day":null,"t":null,"ts":null,"b":null,"d":null,"ok":null}"#,
            "\n"
        );
        assert_eq!(text(out), expected);
        assert_eq!(text(json_row(&batch(vec![("id", DataType::Int32)], &["{}", r#"{"id":2}"#]), 1).expect("render")), r#"{"id":2}"#);
    }

    #[test]
    fn print_rows_look_like_javas() {
        let mut lines = Vec::new();
        print_rows(&nested(), &mut lines).expect("render");
        let expected = r#"1, +I[5, x"y], {two=null, one=1}, [1.0, null, 1.0E22], 2020-02-29, 00:00, 2020-01-01T00:00:00.123456, [104, 105], -0.0000000001, true"#;
        assert_eq!(text(lines.swap_remove(0)), expected);
    }

    #[test]
    fn csv_tells_null_from_empty() {
        let batch = batch(vec![("a", DataType::Utf8), ("b", DataType::Int64)], &[r#"{"a":"","b":1}"#, r#"{"a":"x,\"y\""}"#]);
        let mut out = Vec::new();
        csv_header(&batch, &mut out);
        csv_lines(&batch, &mut out).expect("render");
        assert_eq!(text(out), "a,b\n\"\",1\n\"x,\"\"y\"\"\",\n");
    }

    #[test]
    fn tables_are_aligned_and_cannot_steer_the_terminal() {
        let batch = batch(vec![("n", DataType::Int64), ("name", DataType::Utf8)], &[r#"{"n":1,"name":"a\u001b[2J"}"#, r#"{"n":100}"#]);
        let expected = [
            "+-----+-------+", "|   n | name  |", "+-----+-------+", "|   1 | a·[2J |", "| 100 | NULL  |", "+-----+-------+", "",
        ];
        assert_eq!(table(&[batch]).expect("render"), expected.join("\n"));
    }
}
