//! A table for terminals: a frame, columns as wide as their widest value, numbers to the right.
//!
//! +----+-------+
//! | id | name  |
//! +----+-------+
//! |  1 | alice |
//! +----+-------+

use arrow::array::RecordBatch;
use pelton_core::error::{Result, RuntimeError};

use super::{cells, style};

/// Values longer than this (in characters) are cut, with an ellipsis.
const VALUE_CHARS_MAX: usize = 60;

/// The rows of all batches (of one schema) as a table; without batches nothing.
pub fn table(batches: &[RecordBatch]) -> Result<String> {
    let Some(first) = batches.first() else { return Ok(String::new()) };
    let names: Vec<String> = first.schema_ref().fields().iter().map(|field| field.name().clone()).collect();
    let mut right = vec![false; names.len()];
    let mut rows = Vec::new();
    for batch in batches {
        let (cells, style) = (cells(batch)?, style());
        for (align, cell) in right.iter_mut().zip(&cells) {
            *align = cell.is_number();
        }
        for row in 0..batch.num_rows() {
            let mut line = Vec::with_capacity(names.len());
            for cell in &cells {
                let mut text = Vec::new();
                if cell.is_null(row) {
                    text.extend_from_slice(b"NULL");
                } else {
                    cell.text(row, &style, &mut text).map_err(RuntimeError::Script)?;
                }
                line.push(shown(&String::from_utf8_lossy(&text)));
            }
            rows.push(line);
        }
    }
    let names: Vec<String> = names.iter().map(|name| shown(name)).collect();
    let mut widths: Vec<usize> = names.iter().map(|name| width(name)).collect();
    for line in &rows {
        for (most, value) in widths.iter_mut().zip(line) {
            *most = (*most).max(width(value));
        }
    }
    let frame: String = widths.iter().map(|&width| format!("+{}", "-".repeat(width + 2))).collect::<String>() + "+\n";
    let mut out = frame.clone();
    push_line(&names, &widths, &right, &mut out);
    out.push_str(&frame);
    for line in &rows {
        push_line(line, &widths, &right, &mut out);
    }
    if !rows.is_empty() {
        out.push_str(&frame);
    }
    Ok(out)
}

fn push_line(values: &[String], widths: &[usize], right: &[bool], out: &mut String) {
    for ((value, &wide), &right) in values.iter().zip(widths).zip(right) {
        let blanks = " ".repeat(wide - width(value));
        if right {
            out.push_str(&format!("| {blanks}{value} "));
        } else {
            out.push_str(&format!("| {value}{blanks} "));
        }
    }
    out.push_str("|\n");
}

/// On one line, without control characters (a value must not steer the terminal), not too long.
fn shown(text: &str) -> String {
    let mut out = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == VALUE_CHARS_MAX {
            out.push('…');
            break;
        }
        match character {
            '\n' => out.push('⏎'),
            control if control.is_control() => out.push('·'),
            other => out.push(other),
        }
    }
    out
}

/// Columns on a terminal: two for wide East Asian characters and emoji.
fn width(text: &str) -> usize {
    text.chars()
        .map(|character| match u32::from(character) {
            0x300..=0x36F | 0x200B..=0x200D | 0xFE00..=0xFE0F => 0,
            0x1100..=0x115F | 0x2E80..=0xA4CF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF | 0xFE30..=0xFE6F | 0xFF00..=0xFF60
            | 0xFFE0..=0xFFE6 | 0x1F300..=0x1F64F | 0x1F900..=0x1F9FF | 0x20000..=0x3FFFD => 2,
            _ => 1,
        })
        .sum()
}
