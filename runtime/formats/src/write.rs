//! Values as text, as Java and Flink write them: dates, times, decimals, floats.
//!
//! Promises: everything written is read back to the same value; nothing allocates but the output buffer.

use std::io::Write;

/// Appends a whole number.
#[inline]
pub(crate) fn whole(value: i128, out: &mut Vec<u8>) {
    let mut digits = [0; 40];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a 64-bit number.
#[inline]
pub(crate) fn int(value: i64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a number with leading zeros.
#[inline]
fn padded(value: u64, width: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut rest = value;
    let mut at = digits.len();
    while rest > 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&digits[at.min(digits.len() - width)..]);
}

/// Appends a decimal without exponent: `-0.05`.
pub(crate) fn decimal_plain(unscaled: i128, scale: i8, out: &mut Vec<u8>) {
    let Ok(places) = usize::try_from(scale) else {
        whole(unscaled, out);
        if unscaled != 0 {
            out.resize(out.len() + usize::from(scale.unsigned_abs()), b'0');
        }
        return;
    };
    if unscaled < 0 {
        out.push(b'-');
    }
    let start = out.len();
    whole(i128::try_from(unscaled.unsigned_abs()).unwrap_or(i128::MAX), out);
    let digits = out.len() - start;
    if digits <= places {
        out.splice(start..start, std::iter::repeat_n(b'0', places + 1 - digits));
    }
    if places > 0 {
        let point = out.len() - places;
        out.insert(point, b'.');
    }
}

/// Appends a decimal as `BigDecimal.toString` does: with an exponent when it is smaller than 10⁻⁶.
pub(crate) fn decimal_java(unscaled: i128, scale: i8, out: &mut Vec<u8>) {
    let mut digits = Vec::with_capacity(40);
    whole(i128::try_from(unscaled.unsigned_abs()).unwrap_or(i128::MAX), &mut digits);
    let exponent = i64::try_from(digits.len()).unwrap_or(0) - 1 - i64::from(scale);
    if scale >= 0 && exponent >= -6 {
        return decimal_plain(unscaled, scale, out);
    }
    if unscaled < 0 {
        out.push(b'-');
    }
    out.push(digits[0]);
    if digits.len() > 1 {
        out.push(b'.');
        out.extend_from_slice(&digits[1..]);
    }
    if exponent != 0 {
        out.push(b'E');
        if exponent > 0 {
            out.push(b'+');
        }
        int(exponent, out);
    }
}

/// Appends a float as `Double.toString` does: `1.0`, `1.0E10`, `1.0E-4`, `NaN`, `-Infinity`.
pub(crate) fn double(value: f64, out: &mut Vec<u8>) {
    float_text(value.is_finite(), value.is_nan(), value.is_sign_negative(), format_args!("{:e}", value.abs()), out);
}

/// Appends a float as `Float.toString` does.
pub(crate) fn float(value: f32, out: &mut Vec<u8>) {
    float_text(value.is_finite(), value.is_nan(), value.is_sign_negative(), format_args!("{:e}", value.abs()), out);
}

fn float_text(is_finite: bool, is_nan: bool, is_negative: bool, scientific: std::fmt::Arguments<'_>, out: &mut Vec<u8>) {
    if is_nan {
        return out.extend_from_slice(b"NaN");
    }
    if is_negative {
        out.push(b'-');
    }
    if !is_finite {
        return out.extend_from_slice(b"Infinity");
    }
    let mut buffer = [0_u8; 64];
    let mut rest = &mut buffer[..];
    // Shortest digits: `1.2345e-7`. They fit: at most 17 digits, a point and a three-digit exponent.
    let _ = rest.write_fmt(scientific);
    let length = 64 - rest.len();
    let text = &buffer[..length];
    let e = text.iter().position(|&byte| byte == b'e').unwrap_or(length);
    let exponent = crate::text::whole(text.get(e + 1..).unwrap_or_default()).unwrap_or(0);
    let mut digits = [0_u8; 32];
    let mut count = 0;
    for &byte in text[..e].iter().filter(|byte| byte.is_ascii_digit()) {
        digits[count] = byte;
        count += 1;
    }
    let digits = &digits[..count];
    match exponent {
        0..=6 => {
            let whole_digits = exponent as usize + 1;
            for place in 0..whole_digits {
                out.push(digits.get(place).copied().unwrap_or(b'0'));
            }
            fraction(digits.get(whole_digits..).unwrap_or_default(), out);
        }
        -3..=-1 => {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + (-exponent - 1) as usize, b'0');
            out.extend_from_slice(digits);
        }
        _ => {
            out.push(digits.first().copied().unwrap_or(b'0'));
            fraction(digits.get(1..).unwrap_or_default(), out);
            out.push(b'E');
            int(exponent, out);
        }
    }
}

fn fraction(digits: &[u8], out: &mut Vec<u8>) {
    out.push(b'.');
    out.extend_from_slice(if digits.is_empty() { b"0" } else { digits });
}

/// Appends a day as `yyyy-MM-dd`; years beyond four digits with their sign.
pub(crate) fn date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil_from_days(days);
    if year > 9_999 {
        out.push(b'+');
    } else if year < 0 {
        out.push(b'-');
    }
    padded(year.unsigned_abs(), 4, out);
    out.push(b'-');
    padded(month, 2, out);
    out.push(b'-');
    padded(day, 2, out);
}

/// How the fraction of a second is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fraction {
    /// As many digits as needed, none for a whole second.
    Shortest,
    /// Exactly so many digits; what is beyond is cut off.
    Digits(u8),
    /// `LocalTime.toString`: 0, 3, 6 or 9 digits, and no seconds if they are zero.
    JavaTime,
}

/// Appends a time of day.
pub(crate) fn time_of_day(seconds: u32, nanos: u32, style: Fraction, out: &mut Vec<u8>) {
    padded(u64::from(seconds / 3_600), 2, out);
    out.push(b':');
    padded(u64::from(seconds / 60 % 60), 2, out);
    if style == Fraction::JavaTime && seconds.is_multiple_of(60) && nanos == 0 {
        return;
    }
    out.push(b':');
    padded(u64::from(seconds % 60), 2, out);
    let digits = match style {
        Fraction::Digits(digits) => digits,
        _ if nanos == 0 => 0,
        Fraction::Shortest => (1..9).find(|&digits| nanos.is_multiple_of(10_u32.pow(9 - u32::from(digits)))).unwrap_or(9),
        Fraction::JavaTime => [3_u8, 6].into_iter().find(|&digits| nanos.is_multiple_of(10_u32.pow(9 - u32::from(digits)))).unwrap_or(9),
    };
    if digits > 0 {
        out.push(b'.');
        padded(u64::from(nanos / 10_u32.pow(9 - u32::from(digits))), usize::from(digits), out);
    }
}

/// Appends a timestamp: day, separator, time of day.
pub(crate) fn timestamp(seconds: i64, nanos: u32, separator: u8, style: Fraction, out: &mut Vec<u8>) {
    date(seconds.div_euclid(86_400), out);
    out.push(separator);
    time_of_day(u32::try_from(seconds.rem_euclid(86_400)).unwrap_or(0), nanos, style, out);
}

/// Year, month and day of a number of days since 1970-01-01.
fn civil_from_days(days: i64) -> (i64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month.unsigned_abs(), day.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn writes_floats_as_java_does() {
        for (value, expected) in [
            (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (1.5, "1.5"), (0.001, "0.001"), (0.000_999, "9.99E-4"), (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"), (12_345_678.9, "1.23456789E7"), (1e22, "1.0E22"), (123.456, "123.456"), (100.0, "100.0"), (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"), (f64::MAX, "1.7976931348623157E308"),
        ] {
            assert_eq!(text(|out| double(value, out)), expected);
        }
        assert_eq!(text(|out| float(0.1, out)), "0.1");
    }

    #[test]
    fn writes_decimals_plain_and_as_java_does() {
        for (unscaled, scale, plain, java) in [
            (0, 2, "0.00", "0.00"), (5, 2, "0.05", "0.05"), (-5, 2, "-0.05", "-0.05"), (12_345, 2, "123.45", "123.45"),
            (100, 0, "100", "100"), (-1, 10, "-0.0000000001", "-1E-10"), (270, 10, "0.0000000270", "2.70E-8"), (7, -2, "700", "7E+2"),
        ] {
            assert_eq!(text(|out| decimal_plain(unscaled, scale, out)), plain);
            assert_eq!(text(|out| decimal_java(unscaled, scale, out)), java);
        }
    }

    #[test]
    fn writes_times_in_each_style() {
        for (seconds, nanos, style, expected) in [
            (0, 0, Fraction::JavaTime, "00:00"), (45_296, 0, Fraction::JavaTime, "12:34:56"), (1, 5_000_000, Fraction::JavaTime, "00:00:01.005"),
            (1, 100_000_000, Fraction::Shortest, "00:00:01.1"), (1, 0, Fraction::Shortest, "00:00:01"), (1, 1, Fraction::Shortest, "00:00:01.000000001"),
            (1, 123_456_789, Fraction::Digits(3), "00:00:01.123"), (1, 0, Fraction::Digits(3), "00:00:01.000"),
        ] {
            assert_eq!(text(|out| time_of_day(seconds, nanos, style, out)), expected);
        }
    }

    #[test]
    fn days_read_back_to_themselves() {
        for days in [-719_162, -719_528, -1, 0, 59, 11_016, 18_262, 2_932_896, 2_932_897, 10_000_000] {
            let written = text(|out| date(days, out));
            assert_eq!(crate::text::date(written.as_bytes()).map(i64::from), Some(days), "{written}");
        }
        assert_eq!(text(|out| timestamp(-1, 0, b' ', Fraction::Digits(3), out)), "1969-12-31 23:59:59.000");
    }
}
