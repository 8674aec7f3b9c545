//! JSON, small: a reader that gives a tree, and one that looks up a single value without making one.
//!
//! Promises: RFC 8259 and nothing else is accepted; numbers keep their text; nesting is bounded; no panic on any input.

use std::borrow::Cow;

/// Deepest nesting that is read.
const DEPTH_MAX: usize = 128;

/// A JSON value. Object members stay in order, duplicates included.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number as it was written.
    Number(&'a str),
    /// A string, escapes undone.
    String(Cow<'a, str>),
    /// An array.
    Array(Vec<Value<'a>>),
    /// An object.
    Object(Vec<(Cow<'a, str>, Value<'a>)>),
}

impl<'a> Value<'a> {
    /// The last member of that name, if this is an object that has one.
    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        match self {
            Value::Object(members) => members.iter().rev().find(|(n, _)| n == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value of a number, exact to about 15 digits (the standard library's exact parser brings 16 kB of tables).
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Number(text) => Some(to_f64(text)),
            _ => None,
        }
    }

    /// The value of a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The items of an array.
    pub fn as_array(&self) -> Option<&[Value<'a>]> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }
}

/// The value of a number's text.
fn to_f64(text: &str) -> f64 {
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let mut exponent: i32 = exponent.parse().unwrap_or(0);
    let (mut value, mut after_point) = (0.0, false);
    for byte in digits.bytes() {
        match byte {
            b'.' => after_point = true,
            b'0'..=b'9' => {
                value = value * 10.0 + f64::from(byte - b'0');
                exponent = exponent.saturating_sub(i32::from(after_point));
            }
            _ => {}
        }
    }
    let value = if exponent < 0 { value / 10_f64.powi(-exponent) } else { value * 10_f64.powi(exponent) };
    if text.starts_with('-') { -value } else { value }
}

/// Reads one JSON text.
pub fn parse(bytes: &[u8]) -> Result<Value<'_>, String> {
    let mut reader = Reader { bytes, at: 0 };
    let value = reader.value(0)?;
    reader.end()?;
    Ok(value)
}

/// Looks up the value under a path of member names and array indexes: `None` if it is not there. What lies behind it
/// is not checked.
pub fn find<'a>(bytes: &'a [u8], path: &[String]) -> Result<Option<Value<'a>>, String> {
    let mut reader = Reader { bytes, at: 0 };
    reader.space();
    for step in path {
        if !reader.enter(step)? {
            return Ok(None);
        }
    }
    reader.value(path.len()).map(Some)
}

/// The steps of a JSON pointer (`/user/name`, `~1` for `/`, `~0` for `~`); the empty pointer is the whole value.
pub fn pointer(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let rest = text.strip_prefix('/').ok_or_else(|| format!("`{text}` is no JSON pointer: it does not begin with /"))?;
    Ok(rest.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect())
}

/// Writes a string with quotes and escapes.
pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 => {
                out.push_str("\\u00");
                for shift in [4, 0] {
                    out.push(char::from_digit((c as u32 >> shift) & 15, 16).unwrap_or('0'));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn error<T>(&self, expected: &str) -> Result<T, String> {
        match self.peek() {
            Some(byte) => Err(format!("at byte {}: expected {expected}, found `{}`", self.at, byte as char)),
            None => Err(format!("ends at byte {}: expected {expected}", self.at)),
        }
    }

    fn take(&mut self, byte: u8, expected: &str) -> Result<(), String> {
        if self.peek() == Some(byte) {
            self.at += 1;
            Ok(())
        } else {
            self.error(expected)
        }
    }

    fn end(&mut self) -> Result<(), String> {
        self.space();
        if self.at == self.bytes.len() { Ok(()) } else { self.error("the end") }
    }

    fn value(&mut self, depth: usize) -> Result<Value<'a>, String> {
        if depth > DEPTH_MAX {
            return Err(format!("nested deeper than {DEPTH_MAX}"));
        }
        self.space();
        match self.peek() {
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'{') => {
                let mut members = Vec::new();
                let mut more = self.open(b'}')?;
                while more {
                    let name = self.member_name()?;
                    members.push((name, self.value(depth + 1)?));
                    more = self.next(b'}')?;
                }
                Ok(Value::Object(members))
            }
            Some(b'[') => {
                let mut items = Vec::new();
                let mut more = self.open(b']')?;
                while more {
                    items.push(self.value(depth + 1)?);
                    more = self.next(b']')?;
                }
                Ok(Value::Array(items))
            }
            Some(b't') => self.word("true").map(|()| Value::Bool(true)),
            Some(b'f') => self.word("false").map(|()| Value::Bool(false)),
            Some(b'n') => self.word("null").map(|()| Value::Null),
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            _ => self.error("a value"),
        }
    }

    /// Past a value without making it.
    fn skip(&mut self, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("nested deeper than {DEPTH_MAX}"));
        }
        self.space();
        match self.peek() {
            Some(b'"') => self.skip_string(),
            Some(b'{') => {
                let mut more = self.open(b'}')?;
                while more {
                    self.space();
                    self.skip_string()?;
                    self.space();
                    self.take(b':', "`:`")?;
                    self.skip(depth + 1)?;
                    more = self.next(b'}')?;
                }
                Ok(())
            }
            Some(b'[') => {
                let mut more = self.open(b']')?;
                while more {
                    self.skip(depth + 1)?;
                    more = self.next(b']')?;
                }
                Ok(())
            }
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(b'-' | b'0'..=b'9') => self.number().map(drop),
            _ => self.error("a value"),
        }
    }

    /// Goes to the first member (or item) of that name; `false` if this value has none.
    fn enter(&mut self, step: &str) -> Result<bool, String> {
        self.space();
        match self.peek() {
            Some(b'{') => {
                let mut more = self.open(b'}')?;
                while more {
                    if self.member_name()? == step {
                        return Ok(true);
                    }
                    self.skip(0)?;
                    more = self.next(b'}')?;
                }
                Ok(false)
            }
            Some(b'[') => {
                let Ok(mut index) = step.parse::<usize>() else { return Ok(false) };
                let mut more = self.open(b']')?;
                while more {
                    if index == 0 {
                        return Ok(true);
                    }
                    index -= 1;
                    self.skip(0)?;
                    more = self.next(b']')?;
                }
                Ok(false)
            }
            _ => {
                self.skip(0)?;
                Ok(false)
            }
        }
    }

    /// Past the opening bracket; whether something is inside.
    fn open(&mut self, close: u8) -> Result<bool, String> {
        self.at += 1;
        self.space();
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// Past a comma or the closing bracket; whether more follows.
    fn next(&mut self, close: u8) -> Result<bool, String> {
        self.space();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                self.space();
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            _ => self.error("`,` or the end of the object or array"),
        }
    }

    fn member_name(&mut self) -> Result<Cow<'a, str>, String> {
        self.space();
        if self.peek() != Some(b'"') {
            return self.error("a name in quotes");
        }
        let name = self.string()?;
        self.space();
        self.take(b':', "`:`")?;
        Ok(name)
    }

    fn word(&mut self, word: &str) -> Result<(), String> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(())
        } else {
            self.error(word)
        }
    }

    fn digits(&mut self) -> Result<(), String> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { self.error("a digit") } else { Ok(()) }
    }

    fn number(&mut self) -> Result<&'a str, String> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        if let Some(b'0'..=b'9' | b'.') = self.peek() {
            return self.error("the end of the number");
        }
        std::str::from_utf8(&self.bytes[start..self.at]).map_err(|_| "a number is no text".to_owned())
    }

    fn skip_string(&mut self) -> Result<(), String> {
        self.take(b'"', "a string")?;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.at += 2,
                Some(0..=0x1f) => return self.error("no control character in a string"),
                Some(_) => self.at += 1,
                None => return self.error("the end of the string"),
            }
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, String> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek() {
                Some(b'"') => {
                    let text = std::str::from_utf8(&self.bytes[start..self.at]);
                    let text = text.map_err(|_| format!("the string at byte {start} is no UTF-8"))?;
                    self.at += 1;
                    return Ok(Cow::Borrowed(text));
                }
                Some(b'\\') => return self.escaped(start).map(Cow::Owned),
                Some(0..=0x1f) => return self.error("no control character in a string"),
                Some(_) => self.at += 1,
                None => return self.error("the end of the string"),
            }
        }
    }

    /// A string that holds escapes, from `start`; `at` stands on the first.
    fn escaped(&mut self, start: usize) -> Result<String, String> {
        let mut text = self.bytes[start..self.at].to_vec();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return String::from_utf8(text).map_err(|_| format!("the string at byte {start} is no UTF-8"));
                }
                Some(b'\\') => {
                    self.at += 1;
                    let c = self.escape()?;
                    text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Some(0..=0x1f) => return self.error("no control character in a string"),
                Some(byte) => {
                    text.push(byte);
                    self.at += 1;
                }
                None => return self.error("the end of the string"),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let c = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => return self.error("an escape"),
        };
        self.at += 1;
        Ok(c)
    }

    /// `uXXXX`, with its second half if it is a surrogate; a lone surrogate becomes the replacement character.
    fn unicode(&mut self) -> Result<char, String> {
        self.at += 1;
        let high = self.hex4()?;
        if !(0xd800..0xdc00).contains(&high) {
            return Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let before = self.at;
        if self.bytes[self.at..].starts_with(b"\\u") {
            self.at += 2;
            let low = self.hex4()?;
            if (0xdc00..0xe000).contains(&low) {
                let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = before;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex4(&mut self) -> Result<u32, String> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = self.peek().and_then(|byte| (byte as char).to_digit(16)) else {
                return self.error("a hex digit");
            };
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_values_with_escapes_and_keeps_numbers_as_text() {
        let value = parse(br#" {"a": [1, -2.5e3, true, null], "b": "x\n\u00e4\ud83d\ude00\ud800"} "#).expect("valid");
        let items = value.get("a").and_then(Value::as_array).expect("array");
        assert_eq!(items[1], Value::Number("-2.5e3"));
        assert_eq!(items[1].as_f64(), Some(-2_500.0));
        assert_eq!(Value::Number("0.18").as_f64(), Some(0.18));
        assert_eq!(value.get("b").and_then(Value::as_str), Some("x\nä😀\u{fffd}"));
    }

    #[test]
    fn refuses_what_is_no_json() {
        let deep = "[".repeat(200);
        for text in ["", "{", "[1,]", "{\"a\":1,}", "01", "1.", "+1", "nul", "\"a", "\"\x01\"", "1 2", "{1:2}", "\"\\x\"", "\"\\u12\"", "\\", &deep] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
            // Looking up may stop before the fault; it must not panic.
            let _ = find(text.as_bytes(), &["a".to_owned()]);
        }
        assert!(parse(b"\"\xff\"").is_err());
    }

    #[test]
    fn finds_values_by_pointer() {
        let text = br#"{"x":{"y":[{"z":"no"},{"z":"yes"}]},"a/b":2}"#;
        let at = |p: &str| find(text, &pointer(p).expect("pointer")).expect("json");
        assert_eq!(at("/x/y/1/z"), Some(Value::String("yes".into())));
        assert_eq!(at("/a~1b"), Some(Value::Number("2")));
        assert_eq!(at("/x/q"), None);
        assert_eq!(at("/a~1b/c"), None);
        assert!(pointer("x").is_err());
    }

    #[test]
    fn writes_strings_that_read_back() {
        let text = "a\"b\\c\n\u{1}ä";
        let mut json = String::new();
        write_string(text, &mut json);
        assert_eq!(parse(json.as_bytes()).expect("valid").as_str(), Some(text));
    }
}
