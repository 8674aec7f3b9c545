//! Values from text, as Flink's json and csv formats read them: whole numbers, floats, decimals, dates, times, base64.
//!
//! Promises: nothing is lost on the way (decimals are read digit by digit, floats are the nearest ones), nothing
//! panics, no time zone of the machine is looked at. `None` means "not written as such a value".

use base64::{Engine, engine::general_purpose::STANDARD};

/// Leading and trailing characters that Java's `trim` takes away.
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|&byte| byte > b' ').unwrap_or(text.len());
    let end = text.iter().rposition(|&byte| byte > b' ').map_or(start, |last| last + 1);
    &text[start..end]
}

/// A whole number, as `Long.parseLong` reads it: one sign allowed, nothing around.
#[inline]
pub(crate) fn whole(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_i64;
    if digits.len() <= 18 {
        for &byte in digits {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + i64::from(digit);
        }
        return Some(if negative { -value } else { value });
    }
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        let digit = i64::from(digit);
        value = value.checked_mul(10)?.checked_add(if negative { -digit } else { digit })?;
    }
    Some(value)
}

/// A float, as `Double.parseDouble` reads it (without its hexadecimal forms and type suffixes).
pub(crate) fn float(text: &[u8]) -> Option<f64> {
    match text {
        b"NaN" | b"+NaN" | b"-NaN" => return Some(f64::NAN),
        b"Infinity" | b"+Infinity" => return Some(f64::INFINITY),
        b"-Infinity" => return Some(f64::NEG_INFINITY),
        _ => {}
    }
    looks_like_number(text).then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

/// A 32-bit float, rounded once from the text.
pub(crate) fn float32(text: &[u8]) -> Option<f32> {
    match float(text)? {
        value if !value.is_finite() && !looks_like_number(text) => Some(value as f32),
        _ => std::str::from_utf8(text).ok()?.parse().ok(),
    }
}

/// Keeps out the words that Rust reads as floats and Java does not.
fn looks_like_number(text: &[u8]) -> bool {
    text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
}

/// A decimal of the given precision and scale: digits beyond the scale are rounded half up. `Err` if the text is no
/// number, `Ok(None)` if the number has too many digits for the precision (Flink makes it null).
pub(crate) fn decimal(text: &[u8], precision: u8, scale: i8) -> Result<Option<i128>, ()> {
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let exponent_at = rest.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (mantissa, exponent) = match exponent_at {
        Some(at) => (&rest[..at], whole(&rest[at + 1..]).ok_or(())?),
        None => (rest, 0),
    };
    let point = mantissa.iter().position(|&byte| byte == b'.');
    let (before, after) = point.map_or((mantissa, &b""[..]), |at| (&mantissa[..at], &mantissa[at + 1..]));
    if before.is_empty() && after.is_empty() || !before.iter().chain(after).all(u8::is_ascii_digit) {
        return Err(());
    }
    // The value is 0.d₁d₂d₃… × 10^magnitude; digits up to `keep` stay, the next one decides the rounding.
    let magnitude = i64::try_from(before.len()).unwrap_or(i64::MAX).saturating_add(exponent);
    let keep = magnitude.saturating_add(i64::from(scale));
    let mut value = 0_i128;
    let mut taken = 0_i64;
    for &digit in before.iter().chain(after) {
        if taken >= keep {
            if taken == keep && keep >= 0 && digit >= b'5' {
                value += 1;
            }
            break;
        }
        let Some(next) = value.checked_mul(10).and_then(|v| v.checked_add(i128::from(digit - b'0'))) else {
            return Ok(None);
        };
        value = next;
        taken += 1;
    }
    while taken < keep && value != 0 {
        let Some(next) = value.checked_mul(10) else { return Ok(None) };
        value = next;
        taken += 1;
    }
    if value >= 10_i128.pow(u32::from(precision.min(38))) {
        return Ok(None);
    }
    Ok(Some(if negative { -value } else { value }))
}

/// How a timestamp's text is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimestampStandard {
    /// `2020-01-01 10:11:12.345`, seconds required.
    Sql,
    /// `2020-01-01T10:11:12.345`, seconds may be missing.
    Iso8601,
}

/// Seconds since 1970 and nanoseconds within the second, from a timestamp's text. With `zulu`, a `Z` must end it.
#[inline]
pub(crate) fn timestamp(text: &[u8], standard: TimestampStandard, zulu: bool) -> Option<(i64, u32)> {
    let separator = if standard == TimestampStandard::Sql { b' ' } else { b'T' };
    let text = if zulu { text.strip_suffix(b"Z")? } else { text };
    let (days, time) = match text.get(10) {
        Some(&byte) if byte == separator => (date(&text[..10])?, &text[11..]),
        _ => {
            // A year of more than four digits, or of five with its sign.
            let at = text.iter().position(|&byte| byte == separator)?;
            (date(&text[..at])?, &text[at + 1..])
        }
    };
    let (seconds, nanos) = time_of_day(time, standard == TimestampStandard::Sql)?;
    Some((i64::from(days) * 86_400 + i64::from(seconds), nanos))
}

/// Days since 1970 from `yyyy-MM-dd`.
#[inline]
pub(crate) fn date(text: &[u8]) -> Option<i32> {
    if let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text {
        let year = two(y1, y2)? * 100 + two(y3, y4)?;
        return days_from_civil(i64::from(year), two(m1, m2)?, two(d1, d2)?);
    }
    let (sign, rest) = match text {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        _ => return None,
    };
    let at = rest.iter().position(|&byte| byte == b'-')?;
    let year_is_long = text[0] == b'-' && at >= 4 || at >= 5;
    let &[b'-', m1, m2, b'-', d1, d2] = rest.get(at..)? else { return None };
    if !year_is_long || at > 9 {
        return None;
    }
    days_from_civil(sign * whole(&rest[..at])?, two(m1, m2)?, two(d1, d2)?)
}

/// Second of the day and nanoseconds from `HH:mm:ss[.fraction]`; without `seconds_required` also from `HH:mm`.
#[inline]
pub(crate) fn time_of_day(text: &[u8], seconds_required: bool) -> Option<(u32, u32)> {
    let &[h1, h2, b':', m1, m2, ref rest @ ..] = text else { return None };
    let (hour, minute) = (two(h1, h2)?, two(m1, m2)?);
    let (second, fraction) = match rest {
        [] if !seconds_required => (0, &b""[..]),
        &[b':', s1, s2] => (two(s1, s2)?, &b""[..]),
        &[b':', s1, s2, b'.', ref fraction @ ..] => (two(s1, s2)?, fraction),
        _ => return None,
    };
    if hour > 23 || minute > 59 || second > 59 || fraction.len() > 9 {
        return None;
    }
    let mut nanos = 0;
    for place in 0..9 {
        let digit = match fraction.get(place) {
            Some(byte) if byte.is_ascii_digit() => u32::from(byte - b'0'),
            Some(_) => return None,
            None => 0,
        };
        nanos = nanos * 10 + digit;
    }
    Some((hour * 3_600 + minute * 60 + second, nanos))
}

#[inline]
fn two(tens: u8, ones: u8) -> Option<u32> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens <= 9 && ones <= 9).then(|| u32::from(tens) * 10 + u32::from(ones))
}

/// Days since 1970-01-01 of a day of the proleptic Gregorian calendar, `None` if there is no such day.
#[inline]
fn days_from_civil(year: i64, month: u32, day: u32) -> Option<i32> {
    const DAYS: [u32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = *DAYS.get(month.checked_sub(1)? as usize)? + u32::from(month == 2 && is_leap);
    if day == 0 || day > last {
        return None;
    }
    // Years begin in March, so that the leap day is the last one; eras are 400 years.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    i32::try_from(era * 146_097 + day_of_era - 719_468).ok()
}

/// Bytes from base64 with padding.
pub(crate) fn base64(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    STANDARD.decode_vec(text, out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_whole_numbers_to_the_ends_of_64_bits() {
        for value in [0, 7, -7, i64::MAX, i64::MIN, 999_999_999_999_999_999, 1_000_000_000_000_000_000] {
            assert_eq!(whole(value.to_string().as_bytes()), Some(value));
        }
        assert_eq!(whole(b"+5"), Some(5));
        for text in ["", "-", "1.0", "9223372036854775808", "1_0", " 1"] {
            assert_eq!(whole(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn reads_decimals_exactly_and_rounds_half_up() {
        for (text, precision, scale, value) in [
            ("12345678901234567890.0123456789", 38, 10, Ok(Some(123_456_789_012_345_678_900_123_456_789))),
            ("-0.0000000001", 38, 10, Ok(Some(-1))),
            ("1.005", 10, 2, Ok(Some(101))),
            ("-1.005", 10, 2, Ok(Some(-101))),
            ("1.0049", 10, 2, Ok(Some(100))),
            ("1e3", 10, 2, Ok(Some(100_000))),
            ("12e-1", 10, 0, Ok(Some(1))),
            ("0.5", 10, 0, Ok(Some(1))),
            ("0.05", 10, 0, Ok(Some(0))),
            ("99.995", 4, 2, Ok(None)),
            ("100", 4, 2, Ok(None)),
            ("1e999999999999", 38, 0, Ok(None)),
            ("0e999999999999", 38, 0, Ok(Some(0))),
            ("1e-999999999999", 38, 0, Ok(Some(0))),
            ("", 10, 0, Err(())),
            ("abc", 10, 0, Err(())),
            ("1e", 10, 0, Err(())),
        ] {
            assert_eq!(decimal(text.as_bytes(), precision, scale), value, "{text}");
        }
    }

    #[test]
    fn reads_timestamps_of_both_standards() {
        use TimestampStandard::{Iso8601, Sql};
        for (text, standard, zulu, value) in [
            ("2020-01-01 00:00:00", Sql, false, Some((1_577_836_800, 0))),
            ("2020-01-01 00:00:00.123456789", Sql, false, Some((1_577_836_800, 123_456_789))),
            ("1969-12-31 23:59:59.5", Sql, false, Some((-1, 500_000_000))),
            ("2020-02-29T10:11", Iso8601, false, Some((1_582_971_060, 0))),
            ("2020-02-29T10:11:12Z", Iso8601, true, Some((1_582_971_072, 0))),
            ("9999-12-31 23:59:59", Sql, false, Some((253_402_300_799, 0))),
            ("+12020-01-01 00:00:00", Sql, false, Some((317_147_356_800, 0))),
            ("2020-01-01 10:11", Sql, false, None),
            ("2020-02-30 00:00:00", Sql, false, None),
            ("2020-01-01T00:00:00", Sql, false, None),
            ("2020-01-01 24:00:00", Sql, false, None),
            ("2020-01-01 00:00:00.1234567890", Sql, false, None),
            ("2020-01-01 00:00:00", Sql, true, None),
            ("2020-01-01", Sql, false, None),
            ("", Sql, false, None),
        ] {
            assert_eq!(timestamp(text.as_bytes(), standard, zulu), value, "{text}");
        }
    }

    #[test]
    fn counts_days_across_centuries() {
        for (text, days) in [("1970-01-01", 0), ("1969-12-31", -1), ("2000-02-29", 11_016), ("0001-01-01", -719_162), ("9999-12-31", 2_932_896)] {
            assert_eq!(date(text.as_bytes()), Some(days), "{text}");
        }
        for text in ["1900-02-29", "2020-13-01", "2020-00-10", "2020-1-1", "20200101"] {
            assert_eq!(date(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn reads_floats_as_java_does() {
        assert_eq!(float(b"1e22"), Some(1e22));
        assert_eq!(float(b"-Infinity"), Some(f64::NEG_INFINITY));
        for text in ["inf", "nan", "infinity", "", "1.5.2", "0x1p3"] {
            assert!(float(text.as_bytes()).is_none(), "{text}");
        }
        assert_eq!(float32(b"0.1"), Some(0.1_f32));
    }
}
