//! Options of tables, formats and settings: what exists, how values are written, and what is near a misspelt name.
//!
//! Connectors and formats publish their options as [`OptionSpec`] lists; the planner checks scripts against them, so
//! that an unknown option is refused at its line with the nearest known name.

use std::{collections::BTreeMap, time::Duration};

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionSpec {
    /// Its key. One that ends in `*` stands for every key with that prefix (`properties.*`).
    pub key: &'static str,
    /// Whether it must be given.
    pub required: bool,
    /// Default as it would be written, empty if there is none.
    pub default: &'static str,
    /// One sentence: meaning and unit.
    pub doc: &'static str,
}

/// A connector, as the planner needs to know it.
#[derive(Debug, Clone, Copy)]
pub struct ConnectorInfo {
    /// The value of `'connector'`.
    pub name: &'static str,
    /// Its options, without those of formats.
    pub options: &'static [OptionSpec],
    /// Metadata keys it offers to tables it reads: key and SQL type. `headers.*` stands for single headers.
    pub readable_metadata: &'static [(&'static str, &'static str)],
    /// Metadata keys it takes from rows it writes.
    pub writable_metadata: &'static [(&'static str, &'static str)],
    /// Whether it can be read.
    pub is_source: bool,
    /// Whether it can be written.
    pub is_sink: bool,
    /// Whether its tables need a `format` (or `value.format`).
    pub needs_format: bool,
}

/// A format, as the planner needs to know it.
#[derive(Debug, Clone, Copy)]
pub struct FormatInfo {
    /// The value of `'format'`.
    pub name: &'static str,
    /// Its options with the format's name in front (`json.ignore-parse-errors`).
    pub options: &'static [OptionSpec],
}

/// Finds `key` in a list, `*` entries included.
pub fn find<'a>(specs: impl IntoIterator<Item = &'a OptionSpec>, key: &str) -> Option<&'a OptionSpec> {
    specs.into_iter().find(|spec| match spec.key.strip_suffix('*') {
        Some(prefix) => key.starts_with(prefix),
        None => spec.key == key,
    })
}

/// Reads a duration as Flink writes it: `10 s`, `500ms`, `1 min`, `2 h`, `1 d`; a bare number is milliseconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split_number(text)?;
    let millis_per_unit: u64 = match unit.as_str() {
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000,
        "h" | "hour" | "hours" => 3_600_000,
        "d" | "day" | "days" => 86_400_000,
        _ => return Err(format!("`{text}` is no duration: unit `{unit}` is not one of ms, s, min, h, d")),
    };
    number
        .checked_mul(millis_per_unit)
        .map(Duration::from_millis)
        .ok_or_else(|| format!("`{text}` is longer than can be counted"))
}

/// Reads a size in bytes as Flink writes it: `64 mb`, `1gb`, `512 kb`; a bare number is bytes; units are powers of 1024.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split_number(text)?;
    let factor: u64 = match unit.as_str() {
        "" | "b" | "bytes" => 1,
        "k" | "kb" | "kib" | "kibibytes" => 1 << 10,
        "m" | "mb" | "mib" | "mebibytes" => 1 << 20,
        "g" | "gb" | "gib" | "gibibytes" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return Err(format!("`{text}` is no size: unit `{unit}` is not one of b, kb, mb, gb, tb")),
    };
    number.checked_mul(factor).ok_or_else(|| format!("`{text}` is larger than can be counted"))
}

/// Reads `true` or `false`, in any case.
pub fn parse_bool(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("`{text}` is neither true nor false")),
    }
}

fn split_number(text: &str) -> Result<(u64, String), String> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = text[..digits].parse().map_err(|_| format!("`{text}` does not start with a whole number"))?;
    Ok((number, text[digits..].trim().to_ascii_lowercase()))
}

/// Typed reading of a table's options: errors name the key, the value and what is expected.
#[derive(Debug, Clone, Copy)]
pub struct OptionReader<'a>(pub &'a BTreeMap<String, String>);

impl<'a> OptionReader<'a> {
    /// The text of an option.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.0.get(key).map(String::as_str)
    }

    /// The text of an option that must be there.
    pub fn required(&self, key: &str) -> Result<&'a str, String> {
        self.text(key).ok_or_else(|| format!("option '{key}' is missing"))
    }

    /// A duration.
    pub fn duration(&self, key: &str) -> Result<Option<Duration>, String> {
        self.parsed(key, parse_duration)
    }

    /// A size in bytes.
    pub fn bytes(&self, key: &str) -> Result<Option<u64>, String> {
        self.parsed(key, parse_bytes)
    }

    /// A boolean with its default.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool, String> {
        Ok(self.parsed(key, parse_bool)?.unwrap_or(default))
    }

    /// A whole number.
    pub fn number(&self, key: &str) -> Result<Option<i64>, String> {
        self.parsed(key, |text| text.trim().parse().map_err(|_| format!("`{text}` is no whole number")))
    }

    /// One of several words.
    pub fn choice(&self, key: &str, choices: &[&'static str]) -> Result<Option<&'static str>, String> {
        self.parsed(key, |text| {
            choices
                .iter()
                .find(|choice| choice.eq_ignore_ascii_case(text))
                .copied()
                .ok_or_else(|| format!("`{text}` is not one of {}", choices.join(", ")))
        })
    }

    fn parsed<T>(&self, key: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<Option<T>, String> {
        self.text(key).map(|text| parse(text).map_err(|reason| format!("option '{key}': {reason}"))).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_durations_and_sizes_with_their_units() {
        assert_eq!(parse_duration("10 s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1 min"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_bytes("64 mb"), Ok(64 << 20));
        assert!(parse_duration("10 parsecs").is_err_and(|e| e.contains("parsecs")));
        assert!(parse_bytes("-1").is_err());
        assert!(parse_bytes("99999999999 tb").is_err());
    }

    #[test]
    fn finds_keys_by_prefix() {
        let specs = [OptionSpec { key: "properties.*", required: false, default: "", doc: "" }];
        assert!(find(&specs, "properties.group.id").is_some());
        assert!(find(&specs, "property").is_none());
    }
}
