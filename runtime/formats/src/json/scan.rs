//! Reading JSON text from left to right: white space, strings, numbers, and skipping values nobody needs.
//!
//! Promises: every byte that is passed over has been checked against the JSON grammar; nothing here recurses, so
//! nesting cannot exhaust the stack; nothing allocates but the escape-free copy of a string that has escapes. As in
//! Flink, raw control characters inside strings are let through and nesting deeper than 1,000 is refused.
//! Leaves to the caller: that the input is UTF-8 (checked once for a whole batch, not once per string).

/// Jackson's limit, and so Flink's.
pub(crate) const DEPTH_MAX: usize = 1_000;

/// Where the text stops being JSON, and what should stand there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Syntax {
    /// Byte position in the record.
    pub(crate) at: usize,
    /// What was expected.
    pub(crate) expected: &'static str,
}

/// A string's content.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Text<'a> {
    /// As it stands in the input.
    Plain(&'a [u8]),
    /// With escapes: the raw content, to be passed to [`unescape`].
    Escaped(&'a [u8]),
}

/// A number's text and whether it has a fraction or an exponent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) is_float: bool,
}

/// A position in one record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the start of a record.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Where it stands.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Back to where it stood before.
    pub(crate) fn rewind(&mut self, position: usize) {
        self.at = position;
    }

    /// What lies between an earlier position and here.
    pub(crate) fn since(&self, position: usize) -> &'a [u8] {
        &self.bytes[position..self.at]
    }

    /// The next byte that is no white space, not consumed; 0 at the end.
    #[inline]
    pub(crate) fn peek(&mut self) -> u8 {
        while let Some(&byte) = self.bytes.get(self.at) {
            if byte > b' ' || !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return byte;
            }
            self.at += 1;
        }
        0
    }

    /// Passes the byte that [`Cursor::peek`] returned.
    #[inline]
    pub(crate) fn bump(&mut self) {
        self.at += 1;
    }

    /// A fault at the current position.
    pub(crate) fn fault(&self, expected: &'static str) -> Syntax {
        Syntax { at: self.at.min(self.bytes.len()), expected }
    }

    /// Passes `byte`, white space before it allowed.
    #[inline]
    pub(crate) fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), Syntax> {
        if self.peek() == byte {
            self.at += 1;
            Ok(())
        } else {
            Err(self.fault(expected))
        }
    }

    /// Passes a quote, `rest` (a key and its closing quote) if exactly that stands here.
    #[inline]
    pub(crate) fn take_key(&mut self, rest: &[u8]) -> bool {
        let start = self.at + 1;
        if self.bytes.get(start..start + rest.len()) == Some(rest) {
            self.at = start + rest.len();
            true
        } else {
            false
        }
    }

    /// Nothing but white space may follow.
    pub(crate) fn end(&mut self) -> Result<(), Syntax> {
        self.peek();
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.fault("the end of the record")) }
    }

    /// Passes a string; the cursor stands at its opening quote.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<Text<'a>, Syntax> {
        if self.peek() != b'"' {
            return Err(self.fault("a string"));
        }
        let start = self.at + 1;
        let stop = self.find_quote_or_backslash(start)?;
        if self.bytes[stop] == b'"' {
            self.at = stop + 1;
            return Ok(Text::Plain(&self.bytes[start..stop]));
        }
        let end = self.end_of_escaped(stop)?;
        self.at = end + 1;
        Ok(Text::Escaped(&self.bytes[start..end]))
    }

    /// Eight bytes at a time while the string is short, then by vectors: most strings end before the latter pays off.
    #[inline]
    fn find_quote_or_backslash(&self, start: usize) -> Result<usize, Syntax> {
        const WORDS: usize = 6;
        let rest = self.bytes.get(start..).unwrap_or_default();
        let mut at = 0;
        for word in rest.as_chunks::<8>().0.iter().take(WORDS) {
            let found = quotes_and_backslashes(u64::from_le_bytes(*word));
            if found != 0 {
                return Ok(start + at + found.trailing_zeros() as usize / 8);
            }
            at += 8;
        }
        memchr::memchr2(b'"', b'\\', &rest[at..])
            .map(|found| start + at + found)
            .ok_or(Syntax { at: self.bytes.len(), expected: "a closing quote" })
    }

    /// From the first backslash to the closing quote; every escape on the way is checked.
    fn end_of_escaped(&self, backslash: usize) -> Result<usize, Syntax> {
        let mut at = backslash;
        loop {
            if self.bytes[at] == b'"' {
                return Ok(at);
            }
            let length = match self.bytes.get(at + 1) {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
                Some(b'u') if self.bytes.get(at + 2..at + 6).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) => 6,
                Some(b'u') => return Err(Syntax { at, expected: "four hexadecimal digits after \\u" }),
                _ => return Err(Syntax { at, expected: "an escape (one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u)" }),
            };
            at = self.find_quote_or_backslash(at + length)?;
        }
    }

    /// Passes a number; the cursor stands at its sign or first digit.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<Number<'a>, Syntax> {
        let start = self.at;
        if self.byte() == b'-' {
            self.at += 1;
        }
        match self.byte() {
            b'0' => self.at += 1,
            b'1'..=b'9' => self.digits(),
            _ => return Err(self.fault("a digit")),
        }
        let mut is_float = false;
        if self.byte() == b'.' {
            is_float = true;
            self.at += 1;
            self.some_digits()?;
        }
        if matches!(self.byte(), b'e' | b'E') {
            is_float = true;
            self.at += 1;
            if matches!(self.byte(), b'+' | b'-') {
                self.at += 1;
            }
            self.some_digits()?;
        }
        match self.byte() {
            b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t' => {}
            _ if self.at == self.bytes.len() => {}
            _ => return Err(self.fault("the end of a number")),
        }
        Ok(Number { text: &self.bytes[start..self.at], is_float })
    }

    #[inline]
    fn byte(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    #[inline]
    fn digits(&mut self) {
        while self.byte().is_ascii_digit() {
            self.at += 1;
        }
    }

    fn some_digits(&mut self) -> Result<(), Syntax> {
        if !self.byte().is_ascii_digit() {
            return Err(self.fault("a digit"));
        }
        self.digits();
        Ok(())
    }

    /// Passes `true`, `false` or `null`.
    #[inline]
    pub(crate) fn word(&mut self, word: &'static str) -> Result<(), Syntax> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(())
        } else {
            Err(self.fault(word))
        }
    }

    /// Passes any value, whatever is in it.
    pub(crate) fn skip(&mut self) -> Result<(), Syntax> {
        match self.peek() {
            b'"' => self.string().map(drop),
            b'{' | b'[' => self.skip_nested(),
            _ => self.skip_scalar(),
        }
    }

    #[inline]
    fn skip_scalar(&mut self) -> Result<(), Syntax> {
        match self.peek() {
            b'"' => self.string().map(drop),
            b'-' | b'0'..=b'9' => self.number().map(drop),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => Err(self.fault("a value")),
        }
    }

    fn skip_nested(&mut self) -> Result<(), Syntax> {
        let mut open = Nesting::default();
        loop {
            // Here a value is due.
            match self.peek() {
                byte @ (b'{' | b'[') => {
                    self.at += 1;
                    let is_object = byte == b'{';
                    let close = if is_object { b'}' } else { b']' };
                    if self.peek() == close {
                        self.at += 1;
                    } else {
                        open.push(is_object).map_err(|expected| self.fault(expected))?;
                        if is_object {
                            self.string()?;
                            self.expect(b':', "a colon")?;
                        }
                        continue;
                    }
                }
                _ => self.skip_scalar()?,
            }
            // Here a value is done.
            loop {
                let Some(in_object) = open.top() else { return Ok(()) };
                match self.peek() {
                    b',' => {
                        self.at += 1;
                        if in_object {
                            self.string()?;
                            self.expect(b':', "a colon")?;
                        }
                        break;
                    }
                    b'}' if in_object => self.at += 1,
                    b']' if !in_object => self.at += 1,
                    _ if in_object => return Err(self.fault("a comma or }")),
                    _ => return Err(self.fault("a comma or ]")),
                }
                open.pop();
            }
        }
    }
}

/// The high bit of each byte that is a quote or a backslash; bits above the lowest one set may be wrong.
#[inline]
fn quotes_and_backslashes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
    zero_bytes(word ^ (ONES * b'"' as u64)) | zero_bytes(word ^ (ONES * b'\\' as u64))
}

/// Which of the open brackets are objects: one bit each.
pub(crate) struct Nesting {
    bits: [u64; DEPTH_MAX.div_ceil(64)],
    depth: usize,
}

impl Default for Nesting {
    fn default() -> Self {
        Self { bits: [0; DEPTH_MAX.div_ceil(64)], depth: 0 }
    }
}

impl Nesting {
    pub(crate) fn push(&mut self, is_object: bool) -> Result<(), &'static str> {
        if self.depth == DEPTH_MAX {
            return Err("nesting of at most 1000");
        }
        let mask = 1 << (self.depth % 64);
        let word = &mut self.bits[self.depth / 64];
        *word = if is_object { *word | mask } else { *word & !mask };
        self.depth += 1;
        Ok(())
    }

    pub(crate) fn pop(&mut self) {
        self.depth -= 1;
    }

    pub(crate) fn top(&self) -> Option<bool> {
        let last = self.depth.checked_sub(1)?;
        Some(self.bits[last / 64] >> (last % 64) & 1 == 1)
    }
}

/// Appends the meaning of a string's raw content. Half of a surrogate pair becomes `?`, as Java encodes it.
pub(crate) fn unescape(raw: &[u8], out: &mut Vec<u8>) {
    let mut rest = raw;
    while let Some(backslash) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..backslash]);
        let escape = rest.get(backslash + 1).copied().unwrap_or(b'\\');
        rest = rest.get(backslash + 2..).unwrap_or_default();
        match escape {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => rest = unescape_unicode(rest, out),
            other => out.push(other),
        }
    }
    out.extend_from_slice(rest);
}

/// `rest` follows `\u`. Returns what follows the digits (and the second half of a pair).
fn unescape_unicode<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let unit = hex(rest);
    let rest = rest.get(4..).unwrap_or_default();
    let (code, rest) = match unit {
        0xD800..=0xDBFF if rest.starts_with(b"\\u") => match hex(&rest[2..]) {
            low @ 0xDC00..=0xDFFF => (0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00), &rest[6..]),
            _ => (unit, rest),
        },
        _ => (unit, rest),
    };
    let mut buffer = [0; 4];
    let text = char::from_u32(code).unwrap_or('?').encode_utf8(&mut buffer);
    out.extend_from_slice(text.as_bytes());
    rest
}

fn hex(digits: &[u8]) -> u32 {
    digits.iter().take(4).fold(0, |value, &digit| value * 16 + char::from(digit).to_digit(16).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<(), Syntax> {
        let mut cursor = Cursor::new(text.as_bytes());
        cursor.skip()?;
        cursor.end()
    }

    #[test]
    fn passes_what_is_json() {
        for text in [
            "1", "-0.5e+10", "\"\"", "\"a\\\"b\\u00e9\"", "[]", "{}", "[1,[2,{}],{\"a\":[]}]", " { \"a\" : [ true , null ] } ",
            "\"a rather long string that the vector search has to walk through\"", "\"tab\tinside\"",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_not_json_with_its_position() {
        for (text, at) in [
            ("", 0), ("{broken", 1), ("{\"a\"1}", 4), ("[1,]", 3), ("[1 2]", 3), ("{\"a\":1]", 6), ("01", 1), ("1.", 2), (".5", 0),
            ("+1", 0), ("1x", 1), ("tru", 0), ("\"abc", 4), ("\"\\x\"", 1), ("\"\\u12g4\"", 1), ("{} {}", 3), ("[", 1), ("nullx", 4),
        ] {
            assert_eq!(check(text).map_err(|fault| fault.at), Err(at), "{text}");
        }
    }

    #[test]
    fn refuses_a_depth_bomb_without_recursion() {
        assert_eq!(check(&("[".repeat(1_000) + &"]".repeat(1_000))), Ok(()));
        assert_eq!(check(&"[".repeat(1_000_000)).map_err(|fault| fault.expected), Err("nesting of at most 1000"));
        assert!(check(&"{\"a\":".repeat(1_000_000)).is_err());
    }

    #[test]
    fn unescapes_pairs_and_replaces_halves() {
        for (raw, text) in [("a\\n\\\"\\/", "a\n\"/"), ("\\ud83d\\ude00!", "😀!"), ("\\ud83dx", "?x"), ("\\u00e9", "é"), ("\\ude00", "?")] {
            let mut out = Vec::new();
            unescape(raw.as_bytes(), &mut out);
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
    }
}
