//! The JSON encoder: one object a row, as Flink writes it.

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use pelton_core::{
    error::{Result, RuntimeError},
    format::Encoder,
    options::OptionReader,
    records::BytesColumn,
};

use super::standard;
use crate::{
    cells::{Cells, NullKey, Style, object, quoted},
    text::TimestampStandard,
    write::{self, Fraction},
};

/// See the module.
pub(crate) struct JsonEncoder {
    style: Style,
    names: Vec<Vec<u8>>,
}

impl JsonEncoder {
    pub(crate) fn new(options: &OptionReader<'_>, schema: &SchemaRef) -> Result<Self, String> {
        let null_key = match options.choice("json.map-null-key.mode", &["FAIL", "DROP", "LITERAL"])? {
            Some("DROP") => NullKey::Drop,
            Some("LITERAL") => NullKey::Literal(options.text("json.map-null-key.literal").unwrap_or("null").to_owned()),
            _ => NullKey::Fail,
        };
        let style = Style {
            separator: if standard(options)? == TimestampStandard::Sql { b' ' } else { b'T' },
            timestamp: Fraction::Shortest,
            time: Fraction::Digits(0),
            plain_decimals: options.flag("json.encode.decimal-as-plain-number", false)?,
            spaced: false,
            sorted_maps: false,
            skip_nulls: options.flag("json.encode.ignore-null-fields", false)?,
            null_key,
            interval_text: false,
        };
        Ok(Self { style, names: schema.fields().iter().map(|field| quoted(field.name())).collect() })
    }
}

impl Encoder for JsonEncoder {
    fn encode(&mut self, batch: &RecordBatch, out: &mut BytesColumn, bad: &mut Vec<(u32, String)>) -> Result<()> {
        let cells = batch
            .columns()
            .iter()
            .map(|column| Cells::new(column.as_ref()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|reason| RuntimeError::Script(format!("encode json: {reason}")))?;
        for row in 0..batch.num_rows() {
            match object(&self.names, &cells, row, &self.style, out.buffer()) {
                Ok(()) => out.finish_row(false),
                Err(reason) => {
                    out.abandon_row();
                    out.finish_row(true);
                    bad.push((u32::try_from(row).unwrap_or(u32::MAX), reason));
                }
            }
        }
        Ok(())
    }
}

/// Appends text as a JSON string: quotes, backslashes and control characters escaped, everything else as it is.
pub(crate) fn escape_into(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            byte => {
                const HEX: &[u8; 16] = b"0123456789ABCDEF";
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Appends a float as Jackson prints it in a tree.
pub(crate) fn java_double(value: f64, out: &mut Vec<u8>) {
    write::double(value, out);
}
