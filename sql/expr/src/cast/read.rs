//! Text as values: what CAST accepts, and what it does not.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, StringArray},
    datatypes::{DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit},
};
use chrono_tz::Tz;
use datafusion::common::{Result, internal_err};

use super::{
    Mode, failed,
    times::{convert, timestamps, times},
};
use crate::{
    civil::{DAY_MS, days_of, month_length, to_utc},
    func::{collect, collect_bool, collect_bytes},
};

/// A text column as `to`.
pub(super) fn from_text(texts: &StringArray, to: &DataType, mode: Mode) -> Result<ArrayRef> {
    Ok(match to {
        DataType::Binary => collect_bytes(texts.len(), |row, out| {
            out.extend_from_slice(texts.value(row).as_bytes());
            Ok(texts.is_valid(row).then_some(()))
        })?,
        DataType::Boolean => collect_bool(texts.len(), |row| read(texts, row, to, mode, read_bool))?,
        DataType::Int8 => integers::<Int8Type>(texts, to, mode)?,
        DataType::Int16 => integers::<Int16Type>(texts, to, mode)?,
        DataType::Int32 => integers::<Int32Type>(texts, to, mode)?,
        DataType::Int64 => integers::<Int64Type>(texts, to, mode)?,
        DataType::Float32 => Arc::new(collect::<Float32Type>(texts.len(), |row| read(texts, row, to, mode, read_float))?),
        DataType::Float64 => Arc::new(collect::<Float64Type>(texts.len(), |row| read(texts, row, to, mode, read_double))?),
        DataType::Decimal128(precision, scale) => {
            let value = |row| {
                read(texts, row, to, mode, |text| match read_decimal(text, *precision, *scale)? {
                    Some(value) => Ok(value),
                    None => Err("more digits than the type has".to_owned()),
                })
            };
            Arc::new(collect::<Decimal128Type>(texts.len(), value)?.with_precision_and_scale(*precision, *scale)?)
        }
        DataType::Date32 => Arc::new(collect::<Date32Type>(texts.len(), |row| read(texts, row, to, mode, |text| read_date(text).map(|d| d as i32)))?),
        DataType::Time32(unit) => times(collect::<Int64Type>(texts.len(), |row| read(texts, row, to, mode, read_time))?, unit),
        DataType::Timestamp(unit, zone) => {
            let zone = if zone.is_some() { mode.zone } else { Tz::UTC };
            timestamps(collect::<Int64Type>(texts.len(), |row| read(texts, row, to, mode, |text| read_timestamp(text, unit, zone)))?, to)
        }
        other => return internal_err!("text to {other}"),
    })
}

fn read<T>(texts: &StringArray, row: usize, to: &DataType, mode: Mode, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>> {
    if texts.is_null(row) {
        return Ok(None);
    }
    let text = texts.value(row);
    match parse(text) {
        Ok(value) => Ok(Some(value)),
        Err(why) => failed(mode, text, to, &why),
    }
}

fn integers<T: ArrowPrimitiveType>(texts: &StringArray, to: &DataType, mode: Mode) -> Result<ArrayRef>
where
    T::Native: TryFrom<i64>,
{
    let value = |row| {
        read(texts, row, to, mode, |text| read_long(text).and_then(|v| T::Native::try_from(v).map_err(|_| "out of range".to_owned())))
    };
    Ok(Arc::new(collect::<T>(texts.len(), value)?))
}

/// Java's `trim`: everything up to the space goes.
fn trim(text: &str) -> &str {
    text.trim_matches(|c| c <= ' ')
}

fn read_bool(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "1" => Ok(true),
        "false" | "f" | "no" | "n" | "0" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// A whole number; digits behind a point are allowed and dropped.
pub(crate) fn read_long(text: &str) -> Result<i64, String> {
    let expected = || "expected a whole number".to_owned();
    let text = trim(text);
    let (negative, digits) = match text.as_bytes().first() {
        None => return Err("empty, expected a whole number".to_owned()),
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        Some(_) => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if digits.is_empty() || !all_digits(whole) || !all_digits(fraction) {
        return Err(expected());
    }
    let mut value = 0_i64;
    for digit in whole.bytes() {
        let next = value.checked_mul(10).and_then(|v| v.checked_sub(i64::from(digit - b'0')));
        value = next.ok_or("out of range")?;
    }
    if negative { Ok(value) } else { value.checked_neg().ok_or_else(|| "out of range".to_owned()) }
}

/// Java's `Double.parseDouble`, without hexadecimal numbers.
pub(crate) fn read_double(text: &str) -> Result<f64, String> {
    let text = trim(text);
    let plain = text.strip_suffix(['d', 'D', 'f', 'F']).filter(|rest| rest.ends_with(|c: char| c.is_ascii_digit() || c == '.')).unwrap_or(text);
    let body = plain.trim_start_matches(['+', '-']);
    match body {
        "NaN" => return Ok(f64::NAN),
        "Infinity" => return Ok(if plain.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY }),
        _ => {}
    }
    let number = body.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    number.then(|| plain.parse().ok()).flatten().ok_or_else(|| "expected a number".to_owned())
}

fn read_float(text: &str) -> Result<f32, String> {
    let wide = read_double(text)?;
    if !wide.is_finite() {
        return Ok(wide as f32);
    }
    Ok(trim(text).trim_end_matches(['d', 'D', 'f', 'F']).parse().unwrap_or(wide as f32))
}

/// A decimal, rounded half away from zero; `None` if it has more digits than `precision`.
pub(crate) fn read_decimal(text: &str, precision: u8, scale: i8) -> Result<Option<i128>, String> {
    let expected = || "expected a number".to_owned();
    let text = trim(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| expected())?),
        None => (text, 0),
    };
    let (negative, digits) = match mantissa.as_bytes().first() {
        Some(b'-') => (true, &mantissa[1..]),
        Some(b'+') => (false, &mantissa[1..]),
        _ => (false, mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() + fraction.len() == 0 || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return Err(expected());
    }
    // The last digit that is kept stands `shift` digits behind the first.
    let kept = whole.len() as i64 + i64::from(exponent) + i64::from(scale);
    let mut value = 0_u128;
    let limit = 10_u128.pow(precision.into());
    let mut all = whole.bytes().chain(fraction.bytes());
    let length = (whole.len() + fraction.len()) as i64;
    for position in 0..kept {
        let digit = if position < length { all.next().map_or(0, |b| u128::from(b - b'0')) } else { 0 };
        if position >= length && value == 0 {
            break;
        }
        value = value * 10 + digit;
        if value >= limit {
            return Ok(None);
        }
    }
    let next = if kept < 0 { None } else { all.next() };
    if next.is_some_and(|digit| digit >= b'5') {
        value += 1;
    }
    if value >= limit {
        return Ok(None);
    }
    Ok(Some(if negative { -(value as i128) } else { value as i128 }))
}

/// One to `width` digits.
fn number(text: &str, width: usize) -> Option<i64> {
    (!text.is_empty() && text.len() <= width && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// `2020-02-29`, `2020-2`, `2020`, what follows a space or T is left out: days since 1970.
pub(crate) fn read_date(text: &str) -> Result<i64, String> {
    let expected = || "expected a date such as 2020-02-29".to_owned();
    let text = trim(text);
    let day_part = text.split_once([' ', 'T']).map_or(text, |(day, _)| day);
    let mut parts = day_part.split('-');
    let year = parts.next().and_then(|part| number(part, 4)).ok_or_else(expected)?;
    let month = parts.next().map_or(Some(1), |part| number(part, 2)).ok_or_else(expected)?;
    let day = parts.next().map_or(Some(1), |part| number(part, 2)).ok_or_else(expected)?;
    if parts.next().is_some() {
        return Err(expected());
    }
    let valid = (1..=12).contains(&month) && (1..=i64::from(month_length(year, month as u32))).contains(&day);
    if valid { Ok(days_of(year, month as u32, day as u32)) } else { Err("there is no such day".to_owned()) }
}

/// `12:34:56.789`, `12:34`, `12`: milliseconds of the day.
fn read_time(text: &str) -> Result<i64, String> {
    let expected = || "expected a time such as 12:34:56".to_owned();
    let text = trim(text);
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = clock.split(':');
    let mut next = |limit: i64| match parts.next() {
        Some(part) => number(part, 2).filter(|value| *value < limit).ok_or_else(expected),
        None => Ok(0),
    };
    let (h, m, s) = (next(24)?, next(60)?, next(60)?);
    if parts.next().is_some() {
        return Err(expected());
    }
    Ok((h * 3_600 + m * 60 + s) * 1_000 + fraction_nanos(fraction).ok_or_else(expected)? / 1_000_000)
}

/// Digits behind the second, as nanoseconds.
pub(crate) fn fraction_nanos(digits: &str) -> Option<i64> {
    if digits.is_empty() {
        return Some(0);
    }
    let value = number(digits, 9)?;
    Some(value * 10_i64.pow(9 - digits.len() as u32))
}

/// `2020-02-29 12:34:56.123456789` or `2020-02-29`, in `zone`: ticks of `unit`.
///
/// As Java's smart resolver: a day of up to 31 that the month does not have becomes its last, 24:00:00 is the next day.
pub(crate) fn read_timestamp(text: &str, unit: &TimeUnit, zone: Tz) -> Result<i64, String> {
    let expected = || "expected a time such as 2020-02-29 12:34:56.123".to_owned();
    let (day, clock) = text.split_once(' ').map_or((text, None), |(day, clock)| (day, Some(clock)));
    let mut parts = day.split('-');
    let year = parts.next().filter(|part| part.len() == 4).and_then(|part| number(part, 4)).ok_or_else(expected)?;
    let month = parts.next().and_then(|part| number(part, 2)).filter(|m| (1..=12).contains(m)).ok_or_else(expected)?;
    let day = parts.next().and_then(|part| number(part, 2)).filter(|d| (1..=31).contains(d)).ok_or_else(expected)?;
    if parts.next().is_some() {
        return Err(expected());
    }
    let day = day.min(month_length(year, month as u32).into());
    let mut ms = days_of(year, month as u32, day as u32) * DAY_MS;
    let mut nanos = 0;
    if let Some(clock) = clock {
        let (clock, fraction) = clock.split_once('.').map_or((clock, None), |(clock, fraction)| (clock, Some(fraction)));
        let fields: Vec<_> = clock.split(':').map(|part| number(part, 2)).collect();
        let [Some(h), Some(m), Some(s)] = fields.as_slice() else { return Err(expected()) };
        nanos = match fraction {
            Some("") => return Err(expected()),
            Some(fraction) => fraction_nanos(fraction).ok_or_else(expected)?,
            None => 0,
        };
        let midnight = *h == 24 && *m == 0 && *s == 0 && nanos == 0;
        if !(midnight || *h < 24 && *m < 60 && *s < 60) {
            return Err("there is no such time of day".to_owned());
        }
        ms += (h * 3_600 + m * 60 + s) * 1_000;
    }
    let seconds = convert(to_utc(zone, ms), &TimeUnit::Millisecond, unit);
    let per = crate::types::per_second(unit);
    Ok(seconds.saturating_add(nanos / (1_000_000_000 / per)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_round_and_overflow() {
        assert_eq!(read_decimal("12.345", 10, 2), Ok(Some(1_235)));
        assert_eq!(read_decimal("-12.345", 10, 2), Ok(Some(-1_235)));
        assert_eq!(read_decimal("1e2", 10, 2), Ok(Some(10_000)));
        assert_eq!(read_decimal("1.5e-3", 10, 2), Ok(Some(0)));
        assert_eq!(read_decimal("5e-3", 10, 2), Ok(Some(1)));
        assert_eq!(read_decimal("5e-4", 10, 2), Ok(Some(0)));
        assert_eq!(read_decimal("123456789", 5, 2), Ok(None));
        assert_eq!(read_decimal("999.995", 5, 2), Ok(None));
        assert_eq!(read_decimal("0e999999999", 5, 2), Ok(Some(0)));
        assert_eq!(read_decimal("1e999999999", 5, 2), Ok(None));
        assert!(read_decimal(".", 5, 2).is_err());
        assert!(read_decimal("1e", 5, 2).is_err());
    }

    #[test]
    fn whole_numbers_drop_what_is_behind_the_point() {
        assert_eq!(read_long(" +12.7 "), Ok(12));
        assert_eq!(read_long("."), Ok(0));
        assert_eq!(read_long("-9223372036854775808"), Ok(i64::MIN));
        assert!(read_long("9223372036854775808").is_err());
        assert!(read_long("1e2").is_err() && read_long("").is_err() && read_long("-").is_err());
    }

    #[test]
    fn timestamps_resolve_smartly_and_dates_do_not() {
        let ms = |text| read_timestamp(text, &TimeUnit::Millisecond, Tz::UTC);
        assert_eq!(ms("2020-02-30 00:00:00"), ms("2020-02-29"));
        assert_eq!(ms("2020-01-01 24:00:00"), ms("2020-01-02"));
        assert_eq!(ms("1969-12-31 23:59:59.999"), Ok(-1));
        assert_eq!(ms("1970-1-1 0:0:0.0019"), Ok(1));
        assert!(ms("2020-01-01 10:11").is_err() && ms("2020-01-01T10:11:12").is_err() && ms("").is_err());
        assert!(read_date("2020-02-30").is_err());
        assert_eq!(read_date("2020-5"), read_date("2020-05-01 12:00:00"));
    }
}
