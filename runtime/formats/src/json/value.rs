//! From a JSON value to a row of a column, as Flink's `JsonParserToRowDataConverters` converts it.
//!
//! Numbers are taken from strings and the other way round; STRING takes anything, objects and arrays as their JSON
//! text; BOOLEAN is true for the word "true" and false for any other word or number; whole-number columns cut
//! fractions off; a DECIMAL that does not fit is null; BYTES are base64. What does not fit is a [`Fault`].

use super::{
    encode::{escape_into, java_double},
    scan::{Cursor, Number, Syntax, Text, unescape},
    shape::Shape,
};
use crate::{
    column::{Bytes, Column, List, Map, Struct, in_unit},
    text::{self, TimestampStandard},
};

/// Why a record cannot be read.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It is not JSON.
    Syntax(Syntax),
    /// One field holds something else than its column takes.
    Field(Box<FieldFault>),
}

/// A field that does not fit.
#[derive(Debug)]
pub(crate) struct FieldFault {
    /// Names from the outside in; built on the way out.
    pub(crate) path: Vec<String>,
    /// Where the value begins in the record.
    pub(crate) at: usize,
    /// What is wrong with it, in addition to its type.
    pub(crate) why: Why,
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// It cannot be read as the column's type.
    Unreadable,
    /// It is missing and must not be.
    Missing,
}

impl From<Syntax> for Fault {
    fn from(syntax: Syntax) -> Self {
        Self::Syntax(syntax)
    }
}

type Outcome = Result<(), Fault>;

/// Reads values of one record after the other.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) standard: TimestampStandard,
    /// A field that does not fit becomes null.
    pub(crate) ignore_errors: bool,
    /// A field that is missing makes the record bad.
    pub(crate) fail_on_missing: bool,
    /// For strings with escapes, reused.
    scratch: Vec<u8>,
}

/// A scalar token.
enum Scalar<'a> {
    Text(&'a [u8]),
    Number(Number<'a>),
    Word(&'static str),
}

impl Reader {
    pub(crate) fn new(standard: TimestampStandard, ignore_errors: bool, fail_on_missing: bool) -> Self {
        Self { standard, ignore_errors, fail_on_missing, scratch: Vec::new() }
    }

    /// Reads an object into `row` of the children; the cursor stands at its brace.
    pub(crate) fn object(&mut self, cursor: &mut Cursor<'_>, shape: &mut Shape, into: &mut Struct, row: usize) -> Outcome {
        cursor.expect(b'{', "{")?;
        let mut seen = 0;
        if cursor.peek() == b'}' {
            cursor.bump();
        } else {
            let mut place = 0;
            loop {
                let field = self.key(cursor, shape, place)?;
                cursor.expect(b':', "a colon")?;
                match field {
                    Some(index) => {
                        seen += 1;
                        let below = shape.below[index].as_deref_mut();
                        if let Err(fault) = self.value(cursor, below, &mut into.children[index], row) {
                            return Err(within(fault, into.fields()[index].name()));
                        }
                    }
                    None => cursor.skip()?,
                }
                place += 1;
                match cursor.peek() {
                    b',' => cursor.bump(),
                    b'}' => {
                        cursor.bump();
                        break;
                    }
                    _ => return Err(cursor.fault("a comma or }").into()),
                }
            }
        }
        if self.fail_on_missing && seen < shape.len() {
            return Err(Fault::Field(Box::new(FieldFault { path: Vec::new(), at: 0, why: Why::Missing })));
        }
        Ok(())
    }

    #[inline]
    fn key(&mut self, cursor: &mut Cursor<'_>, shape: &mut Shape, place: usize) -> Result<Option<usize>, Syntax> {
        if cursor.peek() != b'"' {
            return Err(cursor.fault("a key in quotes"));
        }
        if let Some((key, field)) = shape.guess(place)
            && cursor.take_key(key)
        {
            return Ok(field);
        }
        Ok(match cursor.string()? {
            Text::Plain(key) => shape.find(key, place, true),
            Text::Escaped(raw) => {
                self.scratch.clear();
                unescape(raw, &mut self.scratch);
                shape.find(&self.scratch, place, false)
            }
        })
    }

    /// Reads any value into `row` of `column`: null leaves (or makes) it null.
    #[inline]
    fn value(&mut self, cursor: &mut Cursor<'_>, shape: Option<&mut Shape>, column: &mut Column, row: usize) -> Outcome {
        let first = cursor.peek();
        let start = cursor.position();
        if first == b'n' {
            cursor.word("null")?;
            column.cut(row);
            return Ok(());
        }
        match self.convert(cursor, first, shape, column, row) {
            Err(Fault::Field(_)) if self.ignore_errors => {
                cursor.rewind(start);
                cursor.skip()?;
                column.cut(row);
                Ok(())
            }
            outcome => outcome,
        }
    }

    #[inline]
    fn convert(&mut self, cursor: &mut Cursor<'_>, first: u8, shape: Option<&mut Shape>, column: &mut Column, row: usize) -> Outcome {
        let start = cursor.position();
        let fits = match column {
            Column::Utf8(bytes) => return self.text_value(cursor, first, bytes, row),
            Column::Int64(values) => match self.whole(cursor, first)? {
                Some(value) => { values.set(row, value); true }
                None => false,
            },
            Column::Int32(values) => match self.whole(cursor, first)?.and_then(|value| i32::try_from(value).ok()) {
                Some(value) => { values.set(row, value); true }
                None => false,
            },
            Column::Struct(into) => match (first, shape) {
                (b'{', Some(shape)) => {
                    into.begin(row);
                    self.object(cursor, shape, into, row)?;
                    into.set(row);
                    true
                }
                _ => false,
            },
            Column::List(list) => first == b'[' && self.array(cursor, shape, list, row)?,
            Column::Map(map) => first == b'{' && self.map(cursor, shape, map, row)?,
            Column::Timestamp { values, unit, zone } => {
                let (standard, zulu) = (self.standard, zone.is_some());
                let found = match self.scalar(cursor, first)? {
                    Some(Scalar::Text(text)) => text::timestamp(text, standard, zulu),
                    _ => None,
                };
                match found.and_then(|(seconds, nanos)| in_unit(seconds, nanos, *unit)) {
                    Some(value) => { values.set(row, value); true }
                    None => false,
                }
            }
            scalar => match self.scalar(cursor, first)? {
                Some(value) => set_scalar(&value, scalar, row),
                None => false,
            },
        };
        if fits { Ok(()) } else { Err(unreadable(start)) }
    }

    /// A scalar; `None` (nothing consumed) in front of an object or an array.
    #[inline]
    fn scalar<'s, 'c: 's>(&'s mut self, cursor: &mut Cursor<'c>, first: u8) -> Result<Option<Scalar<'s>>, Syntax> {
        Ok(Some(match first {
            b'"' => match cursor.string()? {
                Text::Plain(text) => Scalar::Text(text),
                Text::Escaped(raw) => {
                    self.scratch.clear();
                    unescape(raw, &mut self.scratch);
                    Scalar::Text(&self.scratch)
                }
            },
            b'-' | b'0'..=b'9' => Scalar::Number(cursor.number()?),
            b't' => {
                cursor.word("true")?;
                Scalar::Word("true")
            }
            b'f' => {
                cursor.word("false")?;
                Scalar::Word("false")
            }
            b'{' | b'[' => return Ok(None),
            _ => return Err(cursor.fault("a value")),
        }))
    }

    /// A whole number within 64 bits, from a number (fractions cut off) or from a string.
    #[inline]
    fn whole(&mut self, cursor: &mut Cursor<'_>, first: u8) -> Result<Option<i64>, Syntax> {
        Ok(match self.scalar(cursor, first)? {
            Some(Scalar::Number(number)) if !number.is_float => text::whole(number.text),
            Some(Scalar::Number(number)) => text::float(number.text).and_then(cut_fraction),
            Some(Scalar::Text(text)) => text::whole(text::trim(text)),
            _ => None,
        })
    }

    #[inline]
    fn text_value(&mut self, cursor: &mut Cursor<'_>, first: u8, bytes: &mut Bytes, row: usize) -> Outcome {
        match first {
            b'"' => match cursor.string()? {
                Text::Plain(text) => bytes.set(row, text),
                Text::Escaped(raw) => {
                    unescape(raw, bytes.begin(row));
                    bytes.end();
                }
            },
            b'{' | b'[' => {
                let start = cursor.position();
                cursor.skip()?;
                compact(cursor.since(start), bytes.begin(row));
                bytes.end();
            }
            b'-' | b'0'..=b'9' => bytes.set(row, cursor.number()?.text),
            _ => {
                if let Some(Scalar::Word(word)) = self.scalar(cursor, first)? {
                    bytes.set(row, word.as_bytes());
                }
            }
        }
        Ok(())
    }

    fn array(&mut self, cursor: &mut Cursor<'_>, mut shape: Option<&mut Shape>, list: &mut List, row: usize) -> Result<bool, Fault> {
        cursor.expect(b'[', "[")?;
        let first = list.begin(row);
        let mut item = first;
        if cursor.peek() == b']' {
            cursor.bump();
        } else {
            loop {
                if let Err(fault) = self.value(cursor, shape.as_deref_mut(), &mut list.child, item) {
                    return Err(within(fault, &format!("[{}]", item - first + 1)));
                }
                item += 1;
                match cursor.peek() {
                    b',' => cursor.bump(),
                    b']' => {
                        cursor.bump();
                        break;
                    }
                    _ => return Err(cursor.fault("a comma or ]").into()),
                }
            }
        }
        list.end(item);
        Ok(true)
    }

    fn map(&mut self, cursor: &mut Cursor<'_>, mut shape: Option<&mut Shape>, map: &mut Map, row: usize) -> Result<bool, Fault> {
        cursor.expect(b'{', "{")?;
        let first = map.begin(row);
        let mut item = first;
        if cursor.peek() == b'}' {
            cursor.bump();
        } else {
            loop {
                let start = cursor.position();
                match cursor.string()? {
                    Text::Plain(key) => map.keys.set(item, key),
                    Text::Escaped(raw) => {
                        unescape(raw, map.keys.begin(item));
                        map.keys.end();
                    }
                }
                let key = cursor.since(start);
                cursor.expect(b':', "a colon")?;
                if let Err(fault) = self.value(cursor, shape.as_deref_mut(), &mut map.values, item) {
                    return Err(within(fault, &format!("[{}]", String::from_utf8_lossy(key))));
                }
                item += 1;
                match cursor.peek() {
                    b',' => cursor.bump(),
                    b'}' => {
                        cursor.bump();
                        break;
                    }
                    _ => return Err(cursor.fault("a comma or }").into()),
                }
            }
        }
        map.end(first, item);
        Ok(true)
    }
}

fn unreadable(at: usize) -> Fault {
    Fault::Field(Box::new(FieldFault { path: Vec::new(), at, why: Why::Unreadable }))
}

/// The same fault, seen from one level further out.
#[cold]
fn within(fault: Fault, name: &str) -> Fault {
    match fault {
        Fault::Field(mut field) => {
            field.path.insert(0, name.to_owned());
            Fault::Field(field)
        }
        syntax => syntax,
    }
}

/// Java's `(long)` of a double in range.
fn cut_fraction(value: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    (-LIMIT..LIMIT).contains(&value).then_some(value as i64)
}

/// Writes a scalar into one of the plainer columns; `false` if it does not fit.
fn set_scalar(value: &Scalar<'_>, column: &mut Column, row: usize) -> bool {
    let text = match value {
        Scalar::Text(text) => text::trim(text),
        Scalar::Number(number) => number.text,
        Scalar::Word(word) => word.as_bytes(),
    };
    let done = match column {
        Column::Boolean(values) => {
            values.set(row, text.eq_ignore_ascii_case(b"true"));
            Some(())
        }
        Column::Int8(values) => text::whole(text).and_then(|v| i8::try_from(v).ok()).map(|v| values.set(row, v)),
        Column::Int16(values) => text::whole(text).and_then(|v| i16::try_from(v).ok()).map(|v| values.set(row, v)),
        Column::Float32(values) => text::float32(text).map(|v| values.set(row, v)),
        Column::Float64(values) => text::float(text).map(|v| values.set(row, v)),
        Column::Decimal { values, precision, scale } => match (value, text::decimal(text, *precision, *scale)) {
            (Scalar::Word(_), _) | (_, Err(())) => None,
            (_, Ok(Some(v))) => {
                values.set(row, v);
                Some(())
            }
            (_, Ok(None)) => Some(()),
        },
        Column::Date(values) => match value {
            Scalar::Text(text) => text::date(text).map(|v| values.set(row, v)),
            _ => None,
        },
        Column::Time { values, unit } => match value {
            Scalar::Text(text) => text::time_of_day(text, true).and_then(|(seconds, nanos)| {
                let value = in_unit(i64::from(seconds), nanos, *unit)?;
                values.set(row, i32::try_from(value).ok()?);
                Some(())
            }),
            _ => None,
        },
        Column::Binary(bytes) => match value {
            Scalar::Text(text) => match text::base64(text, bytes.begin(row)) {
                Some(()) => {
                    bytes.end();
                    Some(())
                }
                None => {
                    bytes.give_up();
                    None
                }
            },
            _ => None,
        },
        _ => None,
    };
    done.is_some()
}

/// Appends a value's JSON text as Jackson prints a tree: no white space, escapes only where needed, floats Java style.
fn compact(json: &[u8], out: &mut Vec<u8>) {
    let mut cursor = Cursor::new(json);
    let mut scratch = Vec::new();
    loop {
        match cursor.peek() {
            0 => return,
            b'"' => match cursor.string() {
                Ok(Text::Plain(text)) => escape_into(text, out),
                Ok(Text::Escaped(raw)) => {
                    scratch.clear();
                    unescape(raw, &mut scratch);
                    escape_into(&scratch, out);
                }
                Err(_) => return,
            },
            b'-' | b'0'..=b'9' => match cursor.number() {
                Ok(Number { text, is_float: true }) => match text::float(text) {
                    Some(value) => java_double(value, out),
                    None => out.extend_from_slice(text),
                },
                Ok(Number { text, .. }) => out.extend_from_slice(text),
                Err(_) => return,
            },
            byte => {
                out.push(byte);
                cursor.bump();
            }
        }
    }
}
