//! The cells of a batch, ready to be written as text: each array's type is found out once per batch, not once per row.
//!
//! One writer serves the json encoder, csv and the result rows for people; a [`Style`] says how they differ.

use arrow::{
    array::{
        Array, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array,
        Int64Array, IntervalMonthDayNanoArray, LargeStringArray, ListArray, MapArray, PrimitiveArray, StringArray, StringViewArray,
        StructArray, Time32MillisecondArray, Time32SecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
        TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
    },
    datatypes::{ArrowPrimitiveType, DataType, TimeUnit},
    util::display::{ArrayFormatter, FormatOptions},
};
use base64::{Engine, engine::general_purpose::STANDARD};

use crate::{
    json::escape_into,
    write::{self, Fraction},
};

/// How values are written where formats differ.
#[derive(Debug, Clone)]
pub(crate) struct Style {
    /// Between day and time of a timestamp.
    pub(crate) separator: u8,
    /// Fraction of a timestamp.
    pub(crate) timestamp: Fraction,
    /// Fraction of a time of day.
    pub(crate) time: Fraction,
    /// Decimals without exponent.
    pub(crate) plain_decimals: bool,
    /// A blank after each comma and colon.
    pub(crate) spaced: bool,
    /// Entries of a MAP in the order of their keys' text.
    pub(crate) sorted_maps: bool,
    /// Null fields of a ROW are left out.
    pub(crate) skip_nulls: bool,
    /// What becomes of a null key of a MAP.
    pub(crate) null_key: NullKey,
    /// Intervals as Java's Period and Duration, not as numbers.
    pub(crate) interval_text: bool,
}

/// What becomes of a null key of a MAP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NullKey {
    Fail,
    Drop,
    Literal(String),
}

/// One array of a known type.
pub(crate) enum Cells<'a> {
    Null,
    Boolean(&'a BooleanArray),
    Int8(&'a Int8Array),
    Int16(&'a Int16Array),
    Int32(&'a Int32Array),
    Int64(&'a Int64Array),
    UInt64(&'a UInt64Array),
    Float32(&'a Float32Array),
    Float64(&'a Float64Array),
    Decimal(&'a Decimal128Array),
    Utf8(&'a StringArray),
    LargeUtf8(&'a LargeStringArray),
    Utf8View(&'a StringViewArray),
    Binary(&'a BinaryArray),
    Date(&'a Date32Array),
    TimeSecond(&'a Time32SecondArray),
    TimeMilli(&'a Time32MillisecondArray),
    /// Any unit, read as raw 64-bit values; `zoned` is TIMESTAMP_LTZ.
    Timestamp { values: &'a [i64], nulls: Option<&'a arrow::buffer::NullBuffer>, unit: TimeUnit, zoned: bool },
    Interval(&'a IntervalMonthDayNanoArray),
    List { array: &'a ListArray, items: Box<Cells<'a>> },
    Map { array: &'a MapArray, keys: Box<Cells<'a>>, values: Box<Cells<'a>> },
    Struct { array: &'a StructArray, names: Vec<Vec<u8>>, fields: Vec<Cells<'a>> },
    /// Types that SQL does not produce but a plugin might.
    Other { array: &'a dyn Array, formatter: ArrayFormatter<'a> },
}

fn cast<T: 'static>(array: &dyn Array) -> Result<&T, String> {
    array.as_any().downcast_ref::<T>().ok_or_else(|| format!("array of type {} is built as something else", array.data_type()))
}

fn raw<'a, T: ArrowPrimitiveType<Native = i64>>(array: &'a PrimitiveArray<T>, unit: TimeUnit, zoned: bool) -> Cells<'a> {
    Cells::Timestamp { values: array.values(), nulls: array.nulls(), unit, zoned }
}

impl<'a> Cells<'a> {
    pub(crate) fn new(array: &'a dyn Array) -> Result<Self, String> {
        Ok(match array.data_type() {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Boolean(cast(array)?),
            DataType::Int8 => Self::Int8(cast(array)?),
            DataType::Int16 => Self::Int16(cast(array)?),
            DataType::Int32 => Self::Int32(cast(array)?),
            DataType::Int64 => Self::Int64(cast(array)?),
            DataType::UInt64 => Self::UInt64(cast(array)?),
            DataType::Float32 => Self::Float32(cast(array)?),
            DataType::Float64 => Self::Float64(cast(array)?),
            DataType::Decimal128(_, _) => Self::Decimal(cast(array)?),
            DataType::Utf8 => Self::Utf8(cast(array)?),
            DataType::LargeUtf8 => Self::LargeUtf8(cast(array)?),
            DataType::Utf8View => Self::Utf8View(cast(array)?),
            DataType::Binary => Self::Binary(cast(array)?),
            DataType::Date32 => Self::Date(cast(array)?),
            DataType::Time32(TimeUnit::Second) => Self::TimeSecond(cast(array)?),
            DataType::Time32(_) => Self::TimeMilli(cast(array)?),
            DataType::Timestamp(unit, zone) => match unit {
                TimeUnit::Second => raw(cast::<TimestampSecondArray>(array)?, *unit, zone.is_some()),
                TimeUnit::Millisecond => raw(cast::<TimestampMillisecondArray>(array)?, *unit, zone.is_some()),
                TimeUnit::Microsecond => raw(cast::<TimestampMicrosecondArray>(array)?, *unit, zone.is_some()),
                TimeUnit::Nanosecond => raw(cast::<TimestampNanosecondArray>(array)?, *unit, zone.is_some()),
            },
            DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano) => Self::Interval(cast(array)?),
            DataType::List(_) => {
                let array: &ListArray = cast(array)?;
                Self::List { array, items: Box::new(Self::new(array.values().as_ref())?) }
            }
            DataType::Map(_, _) => {
                let array: &MapArray = cast(array)?;
                let keys = Box::new(Self::new(array.keys().as_ref())?);
                Self::Map { array, keys, values: Box::new(Self::new(array.values().as_ref())?) }
            }
            DataType::Struct(fields) => {
                let array: &StructArray = cast(array)?;
                Self::Struct {
                    array,
                    names: fields.iter().map(|field| quoted(field.name())).collect(),
                    fields: array.columns().iter().map(|column| Self::new(column.as_ref())).collect::<Result<_, _>>()?,
                }
            }
            _ => {
                const OPTIONS: FormatOptions<'static> = FormatOptions::new();
                let formatter = ArrayFormatter::try_new(array, &OPTIONS).map_err(|error| error.to_string())?;
                Self::Other { array, formatter }
            }
        })
    }

    #[inline]
    pub(crate) fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Null => true,
            Self::Boolean(array) => array.is_null(row),
            Self::Int8(array) => array.is_null(row),
            Self::Int16(array) => array.is_null(row),
            Self::Int32(array) => array.is_null(row),
            Self::Int64(array) => array.is_null(row),
            Self::UInt64(array) => array.is_null(row),
            Self::Float32(array) => array.is_null(row),
            Self::Float64(array) => array.is_null(row),
            Self::Decimal(array) => array.is_null(row),
            Self::Utf8(array) => array.is_null(row),
            Self::LargeUtf8(array) => array.is_null(row),
            Self::Utf8View(array) => array.is_null(row),
            Self::Binary(array) => array.is_null(row),
            Self::Date(array) => array.is_null(row),
            Self::TimeSecond(array) => array.is_null(row),
            Self::TimeMilli(array) => array.is_null(row),
            Self::Timestamp { nulls, .. } => nulls.is_some_and(|nulls| nulls.is_null(row)),
            Self::Interval(array) => array.is_null(row),
            Self::List { array, .. } => array.is_null(row),
            Self::Map { array, .. } => array.is_null(row),
            Self::Struct { array, .. } => array.is_null(row),
            Self::Other { array, .. } => array.is_null(row),
        }
    }

    /// Whether the value's text is a number, to be aligned right.
    pub(crate) fn is_number(&self) -> bool {
        matches!(
            self,
            Self::Int8(_) | Self::Int16(_) | Self::Int32(_) | Self::Int64(_) | Self::UInt64(_) | Self::Float32(_) | Self::Float64(_) | Self::Decimal(_)
        )
    }

    /// Appends the value as JSON.
    pub(crate) fn json(&self, row: usize, style: &Style, out: &mut Vec<u8>) -> Result<(), String> {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        match self {
            Self::Utf8(array) => escape_into(array.value(row).as_bytes(), out),
            Self::LargeUtf8(array) => escape_into(array.value(row).as_bytes(), out),
            Self::Utf8View(array) => escape_into(array.value(row).as_bytes(), out),
            Self::Float32(array) if !array.value(row).is_finite() => self.in_quotes(row, style, out)?,
            Self::Float64(array) if !array.value(row).is_finite() => self.in_quotes(row, style, out)?,
            Self::Binary(_) | Self::Date(_) | Self::TimeSecond(_) | Self::TimeMilli(_) | Self::Timestamp { .. } => {
                self.in_quotes(row, style, out)?;
            }
            Self::Interval(_) if style.interval_text => self.in_quotes(row, style, out)?,
            Self::List { array, items } => {
                out.push(b'[');
                let range = array.value_offsets();
                let (start, end) = (range[row] as usize, range[row + 1] as usize);
                for item in start..end {
                    if item > start {
                        comma(style, out);
                    }
                    items.json(item, style, out)?;
                }
                out.push(b']');
            }
            Self::Map { array, keys, values } => self::map(array, keys, values, row, style, out)?,
            Self::Struct { names, fields, .. } => object(names, fields, row, style, out)?,
            Self::Other { formatter, .. } => escape_into(formatter.value(row).to_string().as_bytes(), out),
            _ => self.text(row, style, out)?,
        }
        Ok(())
    }

    fn in_quotes(&self, row: usize, style: &Style, out: &mut Vec<u8>) -> Result<(), String> {
        out.push(b'"');
        self.text(row, style, out)?;
        out.push(b'"');
        Ok(())
    }

    /// Appends a value that is not null as bare text: what stands in a csv field.
    pub(crate) fn text(&self, row: usize, style: &Style, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Boolean(array) => out.extend_from_slice(if array.value(row) { b"true" } else { b"false" }),
            Self::Int8(array) => write::int(array.value(row).into(), out),
            Self::Int16(array) => write::int(array.value(row).into(), out),
            Self::Int32(array) => write::int(array.value(row).into(), out),
            Self::Int64(array) => write::int(array.value(row), out),
            Self::UInt64(array) => write::whole(array.value(row).into(), out),
            Self::Float32(array) => write::float(array.value(row), out),
            Self::Float64(array) => write::double(array.value(row), out),
            Self::Decimal(array) if style.plain_decimals => write::decimal_plain(array.value(row), array.scale(), out),
            Self::Decimal(array) => write::decimal_java(array.value(row), array.scale(), out),
            Self::Utf8(array) => out.extend_from_slice(array.value(row).as_bytes()),
            Self::LargeUtf8(array) => out.extend_from_slice(array.value(row).as_bytes()),
            Self::Utf8View(array) => out.extend_from_slice(array.value(row).as_bytes()),
            Self::Binary(array) => out.extend_from_slice(STANDARD.encode(array.value(row)).as_bytes()),
            Self::Date(array) => write::date(array.value(row).into(), out),
            Self::TimeSecond(array) => time(array.value(row).into(), 1_000, style, out),
            Self::TimeMilli(array) => time(array.value(row).into(), 1, style, out),
            Self::Timestamp { values, unit, zoned, .. } => {
                let (seconds, nanos) = split(values[row], *unit);
                write::timestamp(seconds, nanos, style.separator, style.timestamp, out);
                if *zoned {
                    out.push(b'Z');
                }
            }
            Self::Interval(array) => {
                let value = array.value(row);
                interval(value.months, value.days, value.nanoseconds, style, out);
            }
            Self::Other { formatter, .. } => out.extend_from_slice(formatter.value(row).to_string().as_bytes()),
            Self::List { .. } | Self::Map { .. } | Self::Struct { .. } => self.json(row, style, out)?,
        }
        Ok(())
    }
}

/// Seconds and nanoseconds within the second.
fn split(value: i64, unit: TimeUnit) -> (i64, u32) {
    let (per_second, nanos) = match unit {
        TimeUnit::Second => return (value, 0),
        TimeUnit::Millisecond => (1_000, 1_000_000),
        TimeUnit::Microsecond => (1_000_000, 1_000),
        TimeUnit::Nanosecond => (1_000_000_000, 1),
    };
    (value.div_euclid(per_second), u32::try_from(value.rem_euclid(per_second) * nanos).unwrap_or(0))
}

fn time(value: i64, millis_per_unit: i64, style: &Style, out: &mut Vec<u8>) {
    let millis = (value * millis_per_unit).rem_euclid(86_400_000);
    let seconds = u32::try_from(millis / 1_000).unwrap_or(0);
    write::time_of_day(seconds, u32::try_from(millis % 1_000).unwrap_or(0) * 1_000_000, style.time, out);
}

/// Java's `Period.toString` for months, `Duration.toString` for the rest; without `interval_text` months or millis.
fn interval(months: i32, days: i32, nanos: i64, style: &Style, out: &mut Vec<u8>) {
    let nanos_all = i128::from(days) * 86_400_000_000_000 + i128::from(nanos);
    if !style.interval_text {
        return write::whole(if months != 0 { months.into() } else { nanos_all / 1_000_000 }, out);
    }
    let mut text = String::new();
    if months != 0 {
        text.push('P');
        let (years, rest) = (months / 12, months % 12);
        if years != 0 {
            text.push_str(&format!("{years}Y"));
        }
        if rest != 0 {
            text.push_str(&format!("{rest}M"));
        }
    } else {
        text.push_str("PT");
        let (hours, rest) = (nanos_all / 3_600_000_000_000, nanos_all % 3_600_000_000_000);
        let (minutes, rest) = (rest / 60_000_000_000, rest % 60_000_000_000);
        if hours != 0 {
            text.push_str(&format!("{hours}H"));
        }
        if minutes != 0 {
            text.push_str(&format!("{minutes}M"));
        }
        if rest != 0 || (hours == 0 && minutes == 0) {
            let sign = if rest < 0 { "-" } else { "" };
            let (seconds, fraction) = (rest.abs() / 1_000_000_000, rest.abs() % 1_000_000_000);
            let fraction = if fraction == 0 { String::new() } else { format!(".{fraction:09}").trim_end_matches('0').to_owned() };
            text.push_str(&format!("{sign}{seconds}{fraction}S"));
        }
    }
    out.extend_from_slice(text.as_bytes());
}

fn comma(style: &Style, out: &mut Vec<u8>) {
    out.extend_from_slice(if style.spaced { b", " } else { b"," });
}

fn colon(style: &Style, out: &mut Vec<u8>) {
    out.extend_from_slice(if style.spaced { b": " } else { b":" });
}

/// A name as a JSON string.
pub(crate) fn quoted(name: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len() + 2);
    escape_into(name.as_bytes(), &mut out);
    out
}

/// Appends `{"name":value,…}`.
pub(crate) fn object(names: &[Vec<u8>], fields: &[Cells<'_>], row: usize, style: &Style, out: &mut Vec<u8>) -> Result<(), String> {
    out.push(b'{');
    let mut first = true;
    for (name, field) in names.iter().zip(fields) {
        if style.skip_nulls && field.is_null(row) {
            continue;
        }
        if !std::mem::take(&mut first) {
            comma(style, out);
        }
        out.extend_from_slice(name);
        colon(style, out);
        field.json(row, style, out)?;
    }
    out.push(b'}');
    Ok(())
}

fn map(array: &MapArray, keys: &Cells<'_>, values: &Cells<'_>, row: usize, style: &Style, out: &mut Vec<u8>) -> Result<(), String> {
    let range = array.value_offsets();
    let mut entries = Vec::new();
    for entry in range[row] as usize..range[row + 1] as usize {
        let mut key = Vec::new();
        if keys.is_null(entry) {
            match &style.null_key {
                NullKey::Fail => return Err("a MAP has a null key, and 'json.map-null-key.mode' is FAIL".to_owned()),
                NullKey::Drop => continue,
                NullKey::Literal(literal) => key.extend_from_slice(literal.as_bytes()),
            }
        } else {
            keys.text(entry, style, &mut key)?;
        }
        entries.push((key, entry));
    }
    if style.sorted_maps {
        entries.sort();
    }
    out.push(b'{');
    for (index, (key, entry)) in entries.iter().enumerate() {
        if index > 0 {
            comma(style, out);
        }
        escape_into(key, out);
        colon(style, out);
        values.json(*entry, style, out)?;
    }
    out.push(b'}');
    Ok(())
}
