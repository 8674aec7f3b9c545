//! JSON: one object a record, read and written as Flink's `json` format does.

mod scan;
mod shape;
mod value;
mod decode;
mod encode;

pub(crate) use decode::JsonDecoder;
pub(crate) use encode::JsonEncoder;
pub(crate) use encode::escape_into;
pub(crate) use scan::{Cursor, Syntax, Text, unescape};

use pelton_core::options::{OptionReader, OptionSpec};

use crate::text::TimestampStandard;

/// The format's options.
pub(crate) const OPTIONS: &[OptionSpec] = &[
    OptionSpec { key: "json.ignore-parse-errors", required: false, default: "false", doc: "A field that cannot be read becomes null and a broken record is skipped, instead of becoming a dead letter." },
    OptionSpec { key: "json.fail-on-missing-field", required: false, default: "false", doc: "A record that lacks one of the columns read is a bad record." },
    OptionSpec { key: "json.timestamp-format.standard", required: false, default: "SQL", doc: "How timestamps are written: SQL (`2020-01-01 10:11:12.345`) or ISO-8601 (`2020-01-01T10:11:12.345`)." },
    OptionSpec { key: "json.map-null-key.mode", required: false, default: "FAIL", doc: "What to do with a MAP's null key when writing: FAIL, DROP or LITERAL." },
    OptionSpec { key: "json.map-null-key.literal", required: false, default: "null", doc: "Key written for a null key in mode LITERAL." },
    OptionSpec { key: "json.encode.decimal-as-plain-number", required: false, default: "false", doc: "Write decimals without an exponent, however small." },
    OptionSpec { key: "json.encode.ignore-null-fields", required: false, default: "false", doc: "Leave null fields out when writing." },
    OptionSpec { key: "json.decode.json-parser.enabled", required: false, default: "true", doc: "Accepted for Flink scripts; there is one parser here." },
];

fn standard(options: &OptionReader<'_>) -> Result<TimestampStandard, String> {
    Ok(match options.choice("json.timestamp-format.standard", &["SQL", "ISO-8601"])? {
        Some("ISO-8601") => TimestampStandard::Iso8601,
        _ => TimestampStandard::Sql,
    })
}

#[cfg(test)]
mod tests;
