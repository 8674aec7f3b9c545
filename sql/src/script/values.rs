//! Values of options: whether a text is a duration, a size, a number or a boolean where one is expected.
//!
//! What an option takes is read from its default (`10 s`, `64 mb`, `128`, `false`), or from its name where it has none
//! (`….interval`, `….parallelism`). Any text is good for the others; those who use them say more.

use pelton_core::options::{OptionSpec, parse_bool, parse_bytes, parse_duration};

/// What an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bool,
    Duration,
    Size,
    Number,
    Text,
}

fn kind(spec: &OptionSpec) -> Kind {
    let default = spec.default;
    if matches!(default, "true" | "false") {
        return Kind::Bool;
    }
    if default.parse::<u64>().is_ok() {
        return Kind::Number;
    }
    if default.starts_with(|c: char| c.is_ascii_digit()) {
        return if parse_duration(default).is_ok() {
            Kind::Duration
        } else if parse_bytes(default).is_ok() {
            Kind::Size
        } else {
            Kind::Text
        };
    }
    let ends = |ends: &[&str]| ends.iter().any(|end| spec.key.ends_with(end));
    match default {
        "" if ends(&["interval", "timeout", "latency"]) => Kind::Duration,
        "" if ends(&[".parallelism", "-millis"]) => Kind::Number,
        "" if ends(&["-bytes"]) => Kind::Size,
        _ => Kind::Text,
    }
}

/// Checks a value.
///
/// # Errors
/// What is wrong with it and what is expected.
pub(crate) fn check(spec: &OptionSpec, key: &str, value: &str) -> Result<(), String> {
    let wrong = |what: &str| format!("'{key}' takes {what}, found '{value}'");
    let read = match kind(spec) {
        Kind::Bool => parse_bool(value).map(drop).map_err(|_| wrong("true or false")),
        Kind::Duration => parse_duration(value).map(drop).map_err(|_| wrong("a length of time like 10 s, 500 ms or 1 min")),
        Kind::Size => parse_bytes(value).map(drop).map_err(|_| wrong("a size like 64 mb or 1 gb")),
        Kind::Number => value.trim().parse::<i64>().map(drop).map_err(|_| wrong("a whole number")),
        Kind::Text => Ok(()),
    };
    // Every option may be given its own default.
    if value == spec.default { Ok(()) } else { read }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_values(key: &'static str, default: &'static str, good: &[&str], bad: &[&str]) {
        let spec = OptionSpec { key, required: false, default, doc: "" };
        for value in good {
            assert_eq!(check(&spec, key, value), Ok(()), "{key} {value}");
        }
        for value in bad {
            let message = check(&spec, key, value).expect_err(value);
            assert!(message.contains(key) && message.contains(value), "{message}");
        }
    }

    #[test]
    fn a_default_or_a_name_says_what_an_option_takes() {
        check_values("csv.allow-comments", "false", &["true", "FALSE"], &["yes", "1", ""]);
        check_values("idle-timeout", "0 ms", &["10 s", "250", "1min"], &["soon", "-1 s", "10 parsecs"]);
        check_values("file-size", "128MB", &["1 gb", "4096"], &["big", "1 light"]);
        check_values("rows", "8192", &["1", " 7 "], &["many", "1.5", "10 s"]);
        check_values("source.monitor-interval", "", &["1 s"], &["often"]);
        check_values("sink.parallelism", "", &["4"], &["4 s", "all"]);
        check_values("path", "", &["anything at all", ""], &[]);
        check_values("guarantee", "at-least-once", &["exactly-once"], &[]);
    }
}
