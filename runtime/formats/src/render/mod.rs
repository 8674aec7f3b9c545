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
    write::Fraction,
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

/// Appends each row of `batch` as a JSON object and a line break: `{"id": 1, "name": "a"}`.
pub fn json_lines(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
    let names: Vec<_> = batch.schema_ref().fields().iter().map(|field| quoted(field.name())).collect();
    let (cells, style) = (cells(batch)?, style());
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

/// The values of one row as Flink's `print` connector shows them, comma and blank between: `1, a, null`.
pub fn plain_row(batch: &RecordBatch, out: &mut Vec<Vec<u8>>) -> Result<()> {
    let (cells, style) = (cells(batch)?, style());
    for row in 0..batch.num_rows() {
        let mut line = Vec::new();
        for (index, cell) in cells.iter().enumerate() {
            if index > 0 {
                line.extend_from_slice(b", ");
            }
            if cell.is_null(row) {
                line.extend_from_slice(b"null");
            } else {
                cell.text(row, &style, &mut line).map_err(RuntimeError::Script)?;
            }
        }
        out.push(line);
    }
    Ok(())
}
