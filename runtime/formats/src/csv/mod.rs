//! CSV: one line of separated fields a record, read and written as Flink's `csv` format does.
//!
//! Columns go by position. Arrays and rows inside a field are separated by `csv.array-element-delimiter`. A record may
//! hold line breaks inside quotes; the file source keeps such records together.

mod fields;
mod decode;
mod encode;

pub(crate) use decode::CsvDecoder;
pub(crate) use encode::CsvEncoder;

use pelton_core::options::{OptionReader, OptionSpec};

/// The format's options.
pub(crate) const OPTIONS: &[OptionSpec] = &[
    OptionSpec { key: "csv.field-delimiter", required: false, default: ",", doc: "The character between fields; `\\t` stands for a tab." },
    OptionSpec { key: "csv.disable-quote-character", required: false, default: "false", doc: "Quotes have no meaning." },
    OptionSpec { key: "csv.quote-character", required: false, default: "\"", doc: "The character around fields that hold delimiters, quotes or line breaks." },
    OptionSpec { key: "csv.allow-comments", required: false, default: "false", doc: "Lines that begin with # are skipped." },
    OptionSpec { key: "csv.ignore-parse-errors", required: false, default: "false", doc: "A field that cannot be read becomes null and a broken record is skipped, instead of becoming a dead letter." },
    OptionSpec { key: "csv.array-element-delimiter", required: false, default: ";", doc: "Text between the elements of an ARRAY or ROW." },
    OptionSpec { key: "csv.escape-character", required: false, default: "", doc: "The character that takes the next one's meaning away; none by default." },
    OptionSpec { key: "csv.null-literal", required: false, default: "", doc: "Text that stands for null; none by default." },
    OptionSpec { key: "csv.write-bigdecimal-in-scientific-notation", required: false, default: "true", doc: "Small decimals are written with an exponent." },
];

/// The characters that give a line its structure.
#[derive(Debug, Clone)]
pub(crate) struct Dialect {
    pub(crate) delimiter: u8,
    pub(crate) quote: Option<u8>,
    pub(crate) escape: Option<u8>,
    pub(crate) element_delimiter: Vec<u8>,
    pub(crate) null_literal: Option<Vec<u8>>,
}

impl Dialect {
    fn new(options: &OptionReader<'_>) -> Result<Self, String> {
        let no_quotes = options.flag("csv.disable-quote-character", false)?;
        if no_quotes && options.text("csv.quote-character").is_some() {
            return Err("options 'csv.quote-character' and 'csv.disable-quote-character' exclude each other".to_owned());
        }
        Ok(Self {
            delimiter: character(options, "csv.field-delimiter")?.unwrap_or(b','),
            quote: if no_quotes { None } else { Some(character(options, "csv.quote-character")?.unwrap_or(b'"')) },
            escape: character(options, "csv.escape-character")?,
            element_delimiter: options.text("csv.array-element-delimiter").unwrap_or(";").as_bytes().to_vec(),
            null_literal: options.text("csv.null-literal").map(|text| text.as_bytes().to_vec()),
        })
    }
}

fn character(options: &OptionReader<'_>, key: &str) -> Result<Option<u8>, String> {
    let Some(text) = options.text(key) else { return Ok(None) };
    match text.as_bytes() {
        &[byte] if byte.is_ascii() => Ok(Some(byte)),
        b"\\t" => Ok(Some(b'\t')),
        b"\\\\" => Ok(Some(b'\\')),
        _ => Err(format!("option '{key}': `{text}` is not one ASCII character")),
    }
}

#[cfg(test)]
mod tests;
