//! The csv encoder: one line a row, without its line break.

use arrow::{
    array::{Array, RecordBatch},
    datatypes::{DataType, SchemaRef},
};
use pelton_core::{
    error::{Result, RuntimeError},
    format::Encoder,
    options::OptionReader,
    records::BytesColumn,
};

use super::Dialect;
use crate::{
    cells::{Cells, NullKey, Style},
    sql_type::sql_type,
    write::Fraction,
};

/// Longer text is put in quotes without a look at it, as Jackson does.
const QUOTE_CHECK_CHARS_MAX: usize = 24;

/// See the module.
pub(crate) struct CsvEncoder {
    dialect: Dialect,
    style: Style,
    field: Vec<u8>,
}

impl CsvEncoder {
    pub(crate) fn new(options: &OptionReader<'_>, schema: &SchemaRef) -> Result<Self, String> {
        for field in schema.fields() {
            if matches!(field.data_type(), DataType::Map(_, _)) {
                return Err(format!("column '{}': format 'csv' cannot hold {}", field.name(), sql_type(field.data_type())));
            }
        }
        let plain_decimals = !options.flag("csv.write-bigdecimal-in-scientific-notation", true)?;
        Ok(Self { dialect: Dialect::new(options)?, style: style(plain_decimals), field: Vec::new() })
    }

    fn cell(&mut self, cells: &Cells<'_>, row: usize, out: &mut Vec<u8>) -> Result<(), String> {
        if cells.is_null(row) {
            out.extend_from_slice(self.dialect.null_literal.as_deref().unwrap_or_default());
            return Ok(());
        }
        self.field.clear();
        nested(cells, row, &self.dialect, &self.style, &mut self.field)?;
        let is_bare = cells.is_number() || matches!(cells, Cells::Boolean(_));
        match self.dialect.quote {
            Some(quote) if !is_bare && needs_quotes(&self.field, quote, &self.dialect) => {
                out.push(quote);
                for &byte in &self.field {
                    if byte == quote {
                        out.push(self.dialect.escape.unwrap_or(quote));
                    } else if Some(byte) == self.dialect.escape {
                        out.push(byte);
                    }
                    out.push(byte);
                }
                out.push(quote);
            }
            _ => out.extend_from_slice(&self.field),
        }
        Ok(())
    }
}

/// How csv writes values.
pub(crate) fn style(plain_decimals: bool) -> Style {
    Style {
        separator: b' ',
        timestamp: Fraction::Shortest,
        time: Fraction::Shortest,
        plain_decimals,
        spaced: false,
        sorted_maps: false,
        skip_nulls: false,
        null_key: NullKey::Fail,
        interval_text: false,
    }
}

/// Jackson's loose check: any character not above both the delimiter and the quote asks for quotes.
fn needs_quotes(text: &[u8], quote: u8, dialect: &Dialect) -> bool {
    let safe_from = dialect.delimiter.max(quote).max(b'\r');
    text.len() > QUOTE_CHECK_CHARS_MAX && String::from_utf8_lossy(text).chars().count() > QUOTE_CHECK_CHARS_MAX
        || text.iter().any(|&byte| byte <= safe_from || Some(byte) == dialect.escape)
}

/// Appends a value; elements of an ARRAY or ROW with the element delimiter between them.
fn nested(cells: &Cells<'_>, row: usize, dialect: &Dialect, style: &Style, out: &mut Vec<u8>) -> Result<(), String> {
    let element = |cells: &Cells<'_>, row: usize, out: &mut Vec<u8>| {
        if cells.is_null(row) {
            out.extend_from_slice(dialect.null_literal.as_deref().unwrap_or_default());
            return Ok(());
        }
        nested(cells, row, dialect, style, out)
    };
    match cells {
        Cells::List { array, items } => {
            let range = array.value_offsets();
            for item in range[row] as usize..range[row + 1] as usize {
                if item > range[row] as usize {
                    out.extend_from_slice(&dialect.element_delimiter);
                }
                element(items, item, out)?;
            }
            Ok(())
        }
        Cells::Struct { fields, .. } => {
            for (index, field) in fields.iter().enumerate() {
                if index > 0 {
                    out.extend_from_slice(&dialect.element_delimiter);
                }
                element(field, row, out)?;
            }
            Ok(())
        }
        _ => cells.text(row, style, out),
    }
}

impl Encoder for CsvEncoder {
    fn encode(&mut self, batch: &RecordBatch, out: &mut BytesColumn, bad: &mut Vec<(u32, String)>) -> Result<()> {
        let cells = batch.columns().iter().map(|column| Cells::new(column.as_ref() as &dyn Array)).collect::<Result<Vec<_>, _>>();
        let cells = cells.map_err(|reason| RuntimeError::Script(format!("encode csv: {reason}")))?;
        for row in 0..batch.num_rows() {
            let mut failed = None;
            for (index, cell) in cells.iter().enumerate() {
                if index > 0 {
                    out.buffer().push(self.dialect.delimiter);
                }
                if let Err(reason) = self.cell(cell, row, out.buffer()) {
                    failed = Some(reason);
                    break;
                }
            }
            if let Some(reason) = failed {
                out.abandon_row();
                out.finish_row(true);
                bad.push((u32::try_from(row).unwrap_or(u32::MAX), reason));
            } else {
                out.finish_row(false);
            }
        }
        Ok(())
    }
}
