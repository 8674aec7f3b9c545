//! Values as text, as Flink's CAST to STRING and JSON functions show them.

use std::fmt::Write as _;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{
        DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType,
        TimeUnit,
    },
};
use chrono_tz::Tz;
use datafusion::common::{Result, internal_err};

use super::times::{ticks, time_millis};
use crate::{
    civil::{date_of, to_local},
    func::collect_text,
    types::{digits, per_second},
};

/// Writes the value at a row; null is for the caller.
pub(crate) type Writer = Box<dyn Fn(usize, &mut String) + Send>;

/// A column as text.
pub(super) fn to_text(array: &ArrayRef, zone: Tz) -> Result<ArrayRef> {
    let writer = writer(array, zone)?;
    collect_text(array.len(), |row, out| {
        if array.is_null(row) {
            return Ok(None);
        }
        writer(row, out);
        Ok(Some(()))
    })
}

/// How to write the values of a column.
pub(crate) fn writer(array: &ArrayRef, zone: Tz) -> Result<Writer> {
    Ok(match array.data_type() {
        DataType::Null => Box::new(|_, _| {}),
        DataType::Boolean => {
            let flags = array.as_boolean().clone();
            Box::new(move |row, out| out.push_str(if flags.value(row) { "TRUE" } else { "FALSE" }))
        }
        DataType::Int8 => integers(array.as_primitive::<Int8Type>().unary::<_, Int64Type>(Into::into)),
        DataType::Int16 => integers(array.as_primitive::<Int16Type>().unary::<_, Int64Type>(Into::into)),
        DataType::Int32 => integers(array.as_primitive::<Int32Type>().unary::<_, Int64Type>(Into::into)),
        DataType::Int64 => integers(array.as_primitive::<Int64Type>().clone()),
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>().clone();
            Box::new(move |row, out| float(&format!("{:e}", values.value(row)), out))
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>().clone();
            Box::new(move |row, out| double(values.value(row), out))
        }
        DataType::Decimal128(_, scale) => {
            let (values, scale) = (array.as_primitive::<Decimal128Type>().clone(), *scale);
            Box::new(move |row, out| decimal(values.value(row), scale, out))
        }
        DataType::Utf8 => {
            let texts = array.as_string::<i32>().clone();
            Box::new(move |row, out| out.push_str(texts.value(row)))
        }
        DataType::Binary => {
            let bytes = array.as_binary::<i32>().clone();
            Box::new(move |row, out| out.push_str(&String::from_utf8_lossy(bytes.value(row))))
        }
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>().clone();
            Box::new(move |row, out| date(days.value(row).into(), out))
        }
        DataType::Time32(unit) => {
            let (ms, unit) = (time_millis(array, unit), *unit);
            Box::new(move |row, out| {
                let ms = ms.value(row);
                clock(ms.div_euclid(1_000), out);
                if unit != TimeUnit::Second {
                    let _ = write!(out, ".{:03}", ms.rem_euclid(1_000));
                }
            })
        }
        DataType::Timestamp(unit, local) => {
            let (ticks, unit, zone) = (ticks(array)?, *unit, if local.is_some() { zone } else { Tz::UTC });
            Box::new(move |row, out| timestamp(ticks.value(row), &unit, zone, out))
        }
        DataType::Interval(_) => {
            let values = array.as_primitive::<IntervalMonthDayNanoType>().clone();
            Box::new(move |row, out| interval(values.value(row), out))
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>().clone();
            let items = nullable(list.values(), zone)?;
            Box::new(move |row, out| {
                out.push('[');
                let offsets = list.value_offsets();
                for (position, index) in (offsets[row] as usize..offsets[row + 1] as usize).enumerate() {
                    if position > 0 {
                        out.push_str(", ");
                    }
                    items(index, out);
                }
                out.push(']');
            })
        }
        DataType::Map(..) => {
            let map = array.as_map().clone();
            let (keys, values) = (nullable(map.keys(), zone)?, nullable(map.values(), zone)?);
            Box::new(move |row, out| {
                out.push('{');
                let offsets = map.value_offsets();
                for (position, index) in (offsets[row] as usize..offsets[row + 1] as usize).enumerate() {
                    if position > 0 {
                        out.push_str(", ");
                    }
                    keys(index, out);
                    out.push('=');
                    values(index, out);
                }
                out.push('}');
            })
        }
        DataType::Struct(_) => {
            let columns = array.as_struct().columns().iter().map(|column| nullable(column, zone)).collect::<Result<Vec<_>>>()?;
            Box::new(move |row, out| {
                out.push('(');
                for (position, column) in columns.iter().enumerate() {
                    if position > 0 {
                        out.push_str(", ");
                    }
                    column(row, out);
                }
                out.push(')');
            })
        }
        other => return internal_err!("{other} as text"),
    })
}

fn nullable(array: &ArrayRef, zone: Tz) -> Result<Writer> {
    let (inner, nulls) = (writer(array, zone)?, array.logical_nulls());
    Ok(Box::new(move |row, out| {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            out.push_str("NULL");
        } else {
            inner(row, out);
        }
    }))
}

fn integers(values: arrow::array::Int64Array) -> Writer {
    Box::new(move |row, out| {
        let _ = write!(out, "{}", values.value(row));
    })
}

/// Java's `Double.toString`.
pub(crate) fn double(value: f64, out: &mut String) {
    float(&format!("{value:e}"), out);
}

/// Java's form of a number that Rust writes as `-1.25e7`.
pub(crate) fn float(scientific: &str, out: &mut String) {
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        out.push_str(match scientific {
            "inf" => "Infinity",
            "-inf" => "-Infinity",
            _ => "NaN",
        });
        return;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    out.push_str(sign);
    if digits == "0" {
        out.push_str("0.0");
    } else if (-3..7).contains(&exponent) {
        if exponent < 0 {
            out.push_str("0.");
            (1..-exponent).for_each(|_| out.push('0'));
            out.push_str(&digits);
        } else {
            let whole = exponent as usize + 1;
            if digits.len() <= whole {
                out.push_str(&digits);
                (digits.len()..whole).for_each(|_| out.push('0'));
                out.push_str(".0");
            } else {
                let _ = write!(out, "{}.{}", &digits[..whole], &digits[whole..]);
            }
        }
    } else {
        let rest = if digits.len() > 1 { &digits[1..] } else { "0" };
        let _ = write!(out, "{}.{rest}E{exponent}", &digits[..1]);
    }
}

/// A decimal with all digits of its scale.
pub(crate) fn decimal(value: i128, scale: i8, out: &mut String) {
    if value < 0 {
        out.push('-');
    }
    let scale = scale.max(0) as usize;
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    out.push_str(whole);
    if scale > 0 {
        out.push('.');
        out.push_str(fraction);
    }
}

/// `2020-02-29`.
pub(crate) fn date(days: i64, out: &mut String) {
    let date = date_of(days);
    if (0..=9_999).contains(&date.year) {
        let (y, m, d) = (date.year as u32, date.month, date.day);
        ascii([y / 1_000, y / 100 % 10, y / 10 % 10, y % 10, 10, m / 10, m % 10, 10, d / 10, d % 10], b'-', out);
    } else {
        let _ = write!(out, "{}-{:02}-{:02}", date.year, date.month, date.day);
    }
}

/// `12:34:56` of seconds of the day.
pub(crate) fn clock(seconds: i64, out: &mut String) {
    let (h, m, s) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    ascii([h / 10, h % 10, 10, m / 10, m % 10, 10, s / 10, s % 10].map(|digit| digit as u32), b':', out);
}

/// Digits; 10 stands for the sign between them.
fn ascii<const N: usize>(digits: [u32; N], sign: u8, out: &mut String) {
    let bytes = digits.map(|digit| if digit == 10 { sign } else { b'0' + digit as u8 });
    out.push_str(std::str::from_utf8(&bytes).unwrap_or_default());
}

/// `2020-02-29 12:34:56.123`, with the digits that the unit holds.
pub(crate) fn timestamp(ticks: i64, unit: &TimeUnit, zone: Tz, out: &mut String) {
    let per = per_second(unit);
    let (mut seconds, fraction) = (ticks.div_euclid(per), ticks.rem_euclid(per));
    if zone != Tz::UTC {
        seconds = to_local(zone, seconds.saturating_mul(1_000)) / 1_000;
    }
    date(seconds.div_euclid(86_400), out);
    out.push(' ');
    clock(seconds.rem_euclid(86_400), out);
    let width = digits(unit);
    if width > 0 {
        let _ = write!(out, ".{fraction:0width$}");
    }
}

/// `+1 02:03:04.567` or `+1-02`.
fn interval(value: arrow::datatypes::IntervalMonthDayNano, out: &mut String) {
    if value.months != 0 {
        let sign = if value.months < 0 { '-' } else { '+' };
        let months = value.months.unsigned_abs();
        let _ = write!(out, "{sign}{}-{:02}", months / 12, months % 12);
        return;
    }
    let ms = i64::from(value.days) * 86_400_000 + value.nanoseconds / 1_000_000;
    let sign = if ms < 0 { '-' } else { '+' };
    let ms = ms.unsigned_abs();
    let (h, m, s) = (ms / 3_600_000 % 24, ms / 60_000 % 60, ms / 1_000 % 60);
    let _ = write!(out, "{sign}{} {h:02}:{m:02}:{s:02}.{:03}", ms / 86_400_000, ms % 1_000);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: f64) -> String {
        let mut out = String::new();
        double(value, &mut out);
        out
    }

    #[test]
    fn doubles_look_as_in_java() {
        let cases = [
            (1.5, "1.5"), (-0.0, "-0.0"), (1e300, "1.0E300"), (1e7, "1.0E7"), (9_999_999.0, "9999999.0"), (1e-3, "0.001"),
            (1e-4, "1.0E-4"), (123_456_789.125, "1.23456789125E8"), (2e-323, "2.0E-323"), (f64::NAN, "NaN"), (f64::NEG_INFINITY, "-Infinity"),
            (100.0, "100.0"), (0.012_5, "0.0125"),
        ];
        for (value, expected) in cases {
            assert_eq!(shown(value), expected);
        }
    }

    #[test]
    fn times_before_1970_count_towards_the_past() {
        let mut out = String::new();
        timestamp(-1, &TimeUnit::Millisecond, Tz::UTC, &mut out);
        assert_eq!(out, "1969-12-31 23:59:59.999");
    }
}
