//! JSON as the JSON functions see it: a tree that keeps numbers as they are written, and paths into it.
//!
//! Paths: `$`, `.name`, `['name']`, `[n]`, `[*]`, `.*`, with `lax` or `strict` in front. As in Flink a path without
//! either is strict: what is missing is an error and not empty. Filters and `..` are refused when a script is planned.

use std::{borrow::Cow, fmt::Write as _};

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json<'a> {
    Null,
    Bool(bool),
    /// As it is written.
    Number(&'a str),
    Text(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

/// Deepest nesting that is read.
const DEPTH: usize = 200;

impl<'a> Json<'a> {
    /// A whole text as JSON; `None` if it is none.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0)?;
        reader.space();
        (reader.at == text.len()).then_some(value)
    }

    pub(crate) fn is_scalar(&self) -> bool {
        !matches!(self, Self::Array(_) | Self::Object(_))
    }

    /// Compact JSON.
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
            Self::Number(digits) => number(digits, out),
            Self::Text(text) => quote(text, out),
            Self::Array(items) => {
                out.push('[');
                for (position, item) in items.iter().enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(fields) => {
                // In the order of their names, as Flink writes them.
                let mut fields: Vec<_> = fields.iter().collect();
                fields.sort_by_key(|(name, _)| name);
                out.push('{');
                for (position, (name, value)) in fields.into_iter().enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    quote(name, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// A number as Java's BigDecimal writes it: `1e3` is `1E+3`.
pub(crate) fn number(digits: &str, out: &mut String) {
    let Some((mantissa, exponent)) = digits.split_once(['e', 'E']) else { return out.push_str(digits) };
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let unscaled = format!("{whole}{fraction}");
    let unscaled = match unscaled.trim_start_matches('0') {
        "" => "0",
        trimmed => trimmed,
    };
    let scale = fraction.len() as i64 - exponent;
    let adjusted = unscaled.len() as i64 - 1 - scale;
    out.push_str(sign);
    if scale >= 0 && adjusted >= -6 {
        let padded = format!("{unscaled:0>width$}", width = scale as usize + 1);
        let (whole, fraction) = padded.split_at(padded.len() - scale as usize);
        out.push_str(whole);
        if !fraction.is_empty() {
            out.push('.');
            out.push_str(fraction);
        }
        return;
    }
    let (first, rest) = unscaled.split_at(1);
    out.push_str(first);
    if !rest.is_empty() {
        out.push('.');
        out.push_str(rest);
    }
    let _ = write!(out, "E{adjusted:+}");
}

/// A JSON string with its quotes.
pub(crate) fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn space(&mut self) {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(|b| matches!(b, b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.space();
        self.text.as_bytes().get(self.at).copied()
    }

    fn accept(&mut self, wanted: u8) -> bool {
        let there = self.peek() == Some(wanted);
        self.at += usize::from(there);
        there
    }

    fn word(&mut self, word: &str, value: Json<'a>) -> Option<Json<'a>> {
        self.text[self.at..].starts_with(word).then(|| {
            self.at += word.len();
            value
        })
    }

    fn value(&mut self, depth: usize) -> Option<Json<'a>> {
        if depth > DEPTH {
            return None;
        }
        match self.peek()? {
            b'n' => self.word("null", Json::Null),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'"' => self.string().map(Json::Text),
            b'[' => {
                self.at += 1;
                let mut items = Vec::new();
                if self.accept(b']') {
                    return Some(Json::Array(items));
                }
                loop {
                    items.push(self.value(depth + 1)?);
                    if self.accept(b']') {
                        return Some(Json::Array(items));
                    }
                    if !self.accept(b',') {
                        return None;
                    }
                }
            }
            b'{' => {
                self.at += 1;
                let mut fields: Vec<(Cow<'a, str>, Json<'a>)> = Vec::new();
                if self.accept(b'}') {
                    return Some(Json::Object(fields));
                }
                loop {
                    self.space();
                    let name = self.string()?;
                    if !self.accept(b':') {
                        return None;
                    }
                    let value = self.value(depth + 1)?;
                    // Of equal names the last one holds.
                    match fields.iter_mut().find(|(known, _)| *known == name) {
                        Some(field) => field.1 = value,
                        None => fields.push((name, value)),
                    }
                    if self.accept(b'}') {
                        return Some(Json::Object(fields));
                    }
                    if !self.accept(b',') {
                        return None;
                    }
                }
            }
            _ => self.digits().map(Json::Number),
        }
    }

    fn digits(&mut self) -> Option<&'a str> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let run = |at: &mut usize| {
            let from = *at;
            while bytes.get(*at).is_some_and(u8::is_ascii_digit) {
                *at += 1;
            }
            *at > from
        };
        let mut at = start + usize::from(bytes.get(start) == Some(&b'-'));
        let first = at;
        if !run(&mut at) || (bytes[first] == b'0' && at > first + 1) {
            return None;
        }
        if bytes.get(at) == Some(&b'.') {
            at += 1;
            if !run(&mut at) {
                return None;
            }
        }
        if bytes.get(at).is_some_and(|b| matches!(b, b'e' | b'E')) {
            at += 1 + usize::from(bytes.get(at + 1).is_some_and(|b| matches!(b, b'+' | b'-')));
            if !run(&mut at) {
                return None;
            }
        }
        self.at = at;
        Some(&self.text[start..at])
    }

    fn string(&mut self) -> Option<Cow<'a, str>> {
        if self.text.as_bytes().get(self.at) != Some(&b'"') {
            return None;
        }
        let start = self.at + 1;
        let bytes = self.text.as_bytes();
        let mut at = start;
        let mut escaped = false;
        loop {
            match *bytes.get(at)? {
                b'"' => break,
                b'\\' => {
                    escaped = true;
                    at += 2;
                }
                0..0x20 => return None,
                _ => at += 1,
            }
        }
        let raw = self.text.get(start..at)?;
        self.at = at + 1;
        if escaped { unescape(raw).map(Cow::Owned) } else { Some(Cow::Borrowed(raw)) }
    }
}

/// The text that a JSON string without its quotes stands for.
fn unescape(raw: &str) -> Option<String> {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match rest.next()? {
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            c @ ('"' | '\\' | '/') => out.push(c),
            'u' => {
                let unit = |rest: &mut std::str::Chars<'_>| u32::from_str_radix(&rest.by_ref().take(4).collect::<String>(), 16).ok();
                let first = unit(&mut rest)?;
                if (0xD800..0xDC00).contains(&first) {
                    let mut ahead = rest.clone();
                    if ahead.next() == Some('\\') && ahead.next() == Some('u') {
                        let second = unit(&mut ahead)?;
                        if (0xDC00..0xE000).contains(&second) {
                            out.push(char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))?);
                            rest = ahead;
                            continue;
                        }
                    }
                }
                out.push(char::from_u32(first).unwrap_or('\u{FFFD}'));
            }
            _ => return None,
        }
    }
    Some(out)
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
}

/// A compiled path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Path {
    lax: bool,
    steps: Vec<Step>,
}

impl Path {
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let (lax, spec) = match trimmed.split_once(char::is_whitespace) {
            Some((mode, rest)) if mode.eq_ignore_ascii_case("lax") => (true, rest.trim()),
            Some((mode, rest)) if mode.eq_ignore_ascii_case("strict") => (false, rest.trim()),
            _ => (false, trimmed),
        };
        let wrong = |why: &str| format!("JSON path '{text}': {why}");
        let mut rest = spec.strip_prefix('$').ok_or_else(|| wrong("it begins with $"))?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(tail) = rest.strip_prefix("..") {
                let _ = tail;
                return Err(wrong("`..` is not built, name the way to the value"));
            }
            if let Some(tail) = rest.strip_prefix('.') {
                if let Some(tail) = tail.strip_prefix('*') {
                    steps.push(Step::All);
                    rest = tail;
                    continue;
                }
                let end = tail.find(['.', '[']).unwrap_or(tail.len());
                if end == 0 {
                    return Err(wrong("a name is missing behind `.`"));
                }
                steps.push(Step::Field(tail[..end].to_owned()));
                rest = &tail[end..];
            } else if let Some(tail) = rest.strip_prefix('[') {
                let end = bracket_end(tail).ok_or_else(|| wrong("`]` is missing"))?;
                let inside = tail[..end].trim();
                let quoted = ['\'', '"'].into_iter().find_map(|quote| inside.strip_prefix(quote)?.strip_suffix(quote));
                steps.push(match (inside, quoted) {
                    ("*", _) => Step::All,
                    (_, Some(name)) => Step::Field(name.replace("\\'", "'")),
                    _ => match inside.parse() {
                        Ok(index) => Step::Index(index),
                        Err(_) => return Err(wrong(&format!("[{inside}] is not built: [n], [*] and ['name'] are"))),
                    },
                });
                rest = &tail[end + 1..];
            } else {
                return Err(wrong(&format!("unexpected `{rest}`")));
            }
        }
        Ok(Self { lax, steps })
    }

    /// Whether the path stands for several values.
    pub(crate) fn is_multiple(&self) -> bool {
        self.steps.contains(&Step::All)
    }

    pub(crate) fn is_lax(&self) -> bool {
        self.lax
    }

    /// The values the path leads to.
    pub(crate) fn find<'j, 'a>(&self, json: &'j Json<'a>) -> Vec<&'j Json<'a>> {
        let mut found = vec![json];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in found {
                match (step, value) {
                    (Step::Field(name), Json::Object(fields)) => next.extend(fields.iter().find(|(known, _)| known == name).map(|(_, value)| value)),
                    (Step::Index(index), Json::Array(items)) => {
                        let index = if *index < 0 { items.len() as i64 + index } else { *index };
                        next.extend(usize::try_from(index).ok().and_then(|index| items.get(index)));
                    }
                    (Step::All, Json::Array(items)) => next.extend(items),
                    (Step::All, Json::Object(fields)) => next.extend(fields.iter().map(|(_, value)| value)),
                    _ => {}
                }
            }
            found = next;
        }
        found
    }
}

fn bracket_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, ']') => return Some(at),
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(json: &str, path: &str) -> String {
        let json = Json::parse(json).expect("JSON");
        let mut out = String::new();
        for value in Path::new(path).expect("a path").find(&json) {
            value.write(&mut out);
            out.push(' ');
        }
        out.trim_end().to_owned()
    }

    #[test]
    fn follows_paths() {
        let json = r#"{"a": {"b": [1, 2.50, {"c": "x\u00e9\ud83d\ude42"}]}, "a b": null, "e": 1e3}"#;
        assert_eq!(found(json, "$.a.b[1]"), "2.50");
        assert_eq!(found(json, "lax $.a.b[*]"), "1 2.50 {\"c\":\"xé🙂\"}");
        assert_eq!(found(json, "$['a b']"), "null");
        assert_eq!(found(json, "$.e"), "1E+3");
        assert_eq!(found(json, "$.a.b[9]"), "");
    }

    #[test]
    fn refuses_what_is_no_json_or_path() {
        for text in ["", "nope", "{", "[1,]", "{\"a\" 1}", "01", "1.", "\"a", "[1] 2", "{'a':1}", "\"\\x\"", "NaN"] {
            assert_eq!(Json::parse(text), None, "{text}");
        }
        assert_eq!(Json::parse(&"[".repeat(100_000)), None);
        for path in ["a", "$a", "$.", "$[", "$..a", "$[?(@.x)]"] {
            assert!(Path::new(path).is_err(), "{path}");
        }
    }

    #[test]
    fn numbers_look_as_big_decimals() {
        let shown = |digits: &str| {
            let mut out = String::new();
            number(digits, &mut out);
            out
        };
        assert_eq!((shown("1.50"), shown("1e3"), shown("1.5e-3"), shown("1e-9"), shown("-12.5e1")), ("1.50".into(), "1E+3".into(), "0.0015".into(), "1E-9".into(), "-125".into()));
    }
}
