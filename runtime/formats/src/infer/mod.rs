//! Finding a schema in samples of JSON records.
//!
//! [`infer`] looks at every value of every sample once and decides for each place: its type (whole numbers widen to
//! numbers, differing kinds to text), whether it may be null or missing, the format of its text (date-time, date, time,
//! uuid, email, uri, ipv4), whether few words keep coming back (an enum), and whether an object is a record with named
//! fields or a map with keys that are data. The result is neutral: [`InferredSchema::columns`] makes a table of it,
//! [`InferredSchema::json_schema`] a JSON Schema (draft-07), and [`InferredSchema::check`] reads the samples with those
//! columns, so that a schema is never handed out that does not fit what it came from.
//!
//! Promises: the same samples give the same schema; fields stand in the order in which they were first seen; cost is
//! linear in the bytes of the samples.

mod collect;
mod decide;
mod output;
mod words;

use self::collect::Place;
use crate::json::Cursor;

/// Samples nested deeper than this are taken as text below that depth.
const DEPTH_MAX: usize = 32;

/// What the samples have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferredSchema {
    /// The record's fields.
    pub fields: Vec<InferredField>,
    /// Samples that are no JSON object, by index, with the reason. They had no say.
    pub rejected: Vec<(usize, String)>,
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferredField {
    /// Its name.
    pub name: String,
    /// Its type.
    pub value: InferredValue,
    /// Whether every record had it.
    pub required: bool,
}

/// A type, and whether null was among its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferredValue {
    /// The type.
    pub kind: InferredKind,
    /// Whether null was seen.
    pub nullable: bool,
}

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InferredKind {
    /// Only nulls (or nothing, for the elements of empty arrays) were seen.
    Unknown,
    /// true and false.
    Boolean,
    /// Whole numbers within 64 bits.
    Integer,
    /// Whole numbers of at most 38 digits, some beyond 64 bits.
    BigInteger,
    /// Numbers with fractions or exponents, or larger than 38 digits.
    Number,
    /// Text.
    Text {
        /// The format that all texts have.
        format: Option<TextFormat>,
        /// The words that keep coming back, sorted; empty if it is no enum.
        words: Vec<String>,
    },
    /// Elements of one type.
    Array(Box<InferredValue>),
    /// Named fields.
    Record(Vec<InferredField>),
    /// Keys that are data, values of one type.
    Map(Box<InferredValue>),
    /// Values of different kinds: taken as text.
    Mixed(Vec<&'static str>),
}

/// A format of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// A day and a time of day.
    DateTime {
        /// `T` between day and time (ISO-8601), not a blank.
        is_iso: bool,
        /// `Z` at the end.
        is_utc: bool,
        /// Most digits of a fraction.
        digits: u8,
    },
    /// A day and a time with an offset other than `Z`: a date-time for JSON Schema, text for SQL.
    OffsetDateTime,
    /// `2020-01-01`.
    Date,
    /// `12:34:56`, fractions allowed.
    Time,
    /// `123e4567-e89b-12d3-a456-426614174000`.
    Uuid,
    /// Something@somewhere.
    Email,
    /// `scheme://…`.
    Uri,
    /// `127.0.0.1`.
    Ipv4,
}

/// Why no schema was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InferError {
    /// There are no samples. Remedy: wait for data, or declare the columns.
    NoSamples,
    /// Most samples are no JSON objects. Remedy: another format, or mend the data.
    NotJson {
        /// How many of them.
        bad: usize,
        /// How many samples there are.
        samples: usize,
        /// Why the first of them is not.
        reason: String,
    },
}

impl std::fmt::Display for InferError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSamples => f.write_str("there are no samples to infer a schema from"),
            Self::NotJson { bad, samples, reason } => write!(f, "{bad} of {samples} samples are no JSON objects, the first: {reason}"),
        }
    }
}

impl std::error::Error for InferError {}

/// Finds the schema of JSON records. Up to half of the samples may be broken; they are left out and reported.
pub fn infer<S: AsRef<[u8]>>(samples: &[S]) -> Result<InferredSchema, InferError> {
    let mut root = Place::default();
    let mut rejected = Vec::new();
    for (index, sample) in samples.iter().enumerate() {
        let bytes = sample.as_ref();
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        if let Err(reason) = readable(bytes) {
            rejected.push((index, reason));
            continue;
        }
        // Checked above: nothing in it can fail now.
        let _ = root.take(&mut Cursor::new(bytes), 0);
    }
    if samples.is_empty() {
        return Err(InferError::NoSamples);
    }
    if rejected.len() * 2 > samples.len() {
        let reason = rejected.into_iter().map(|(_, reason)| reason);
        let reasons: Vec<String> = reason.collect();
        return Err(InferError::NotJson { bad: reasons.len(), samples: samples.len(), reason: reasons[0].clone() });
    }
    Ok(InferredSchema { fields: decide::fields(&root), rejected })
}

fn readable(bytes: &[u8]) -> Result<(), String> {
    std::str::from_utf8(bytes).map_err(|error| format!("not UTF-8 from byte {} on", error.valid_up_to()))?;
    let mut cursor = Cursor::new(bytes);
    if cursor.peek() != b'{' {
        return Err("it does not begin with {".to_owned());
    }
    cursor.skip().and_then(|()| cursor.end()).map_err(|fault| format!("not JSON at byte {}: expected {}", fault.at, fault.expected))
}

#[cfg(test)]
mod tests;
