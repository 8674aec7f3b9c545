//! Literals: numbers by how they are written, text, bytes, dates, times, intervals.
//!
//! `7` is INT, `3000000000` BIGINT, `1.50` DECIMAL(3, 2), `1e3` DOUBLE. A TIMESTAMP literal has the digits it is
//! written with, rounded up to a precision that Arrow has (0, 3, 6, 9).

use arrow::datatypes::{DataType, IntervalMonthDayNano, TimeUnit};
use chrono_tz::Tz;
use datafusion::{
    common::{Result, ScalarValue, plan_err},
    sql::sqlparser::ast::{DateTimeField, Expr as Ast, Interval, UnaryOperator, Value},
};

use crate::{
    cast::{read_date, read_timestamp},
    func::Typed,
    types::MAX_PRECISION,
};

/// A value as it stands in SQL; `negative` if a minus is in front of a number.
pub(crate) fn value(value: &Value, negative: bool) -> Result<Typed> {
    Ok(Typed::literal(match value {
        Value::Number(digits, _) => number(digits, negative)?,
        Value::SingleQuotedString(text) | Value::NationalStringLiteral(text) | Value::UnicodeStringLiteral(text) => ScalarValue::Utf8(Some(text.clone())),
        Value::HexStringLiteral(digits) => ScalarValue::Binary(Some(hex::decode(digits).map_err(|_| {
            datafusion::common::plan_datafusion_err!("X'{digits}': expected an even number of hexadecimal digits")
        })?)),
        Value::Boolean(flag) => ScalarValue::Boolean(Some(*flag)),
        Value::Null => ScalarValue::Null,
        Value::DoubleQuotedString(text) => return plan_err!("\"{text}\": text stands in single quotes, names in backticks"),
        Value::Placeholder(name) => return plan_err!("`{name}`: parameters are not built, ${{NAME}} is replaced from --var and the environment"),
        other => return plan_err!("{other} is no literal of Flink's SQL"),
    }))
}

fn number(digits: &str, negative: bool) -> Result<ScalarValue> {
    let signed = if negative { format!("-{digits}") } else { digits.to_owned() };
    if digits.contains(['e', 'E']) {
        return match signed.parse::<f64>() {
            Ok(value) => Ok(ScalarValue::Float64(Some(value))),
            Err(_) => plan_err!("{signed} is no number"),
        };
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if fraction.is_empty() {
        let signed = signed.trim_end_matches('.');
        if let Ok(value) = signed.parse::<i32>() {
            return Ok(ScalarValue::Int32(Some(value)));
        }
        return match signed.parse::<i64>() {
            Ok(value) => Ok(ScalarValue::Int64(Some(value))),
            Err(_) => plan_err!("{signed} is out of the range of BIGINT: write CAST('{signed}' AS DECIMAL({}, 0))", digits.len()),
        };
    }
    let count = whole.len() + fraction.len();
    let joined = format!("{whole}{fraction}");
    if count > usize::from(MAX_PRECISION) || !joined.bytes().all(|b| b.is_ascii_digit()) {
        return plan_err!("{signed} has more than {MAX_PRECISION} digits: write it as a DOUBLE with an exponent, such as 1.5e0");
    }
    let value: i128 = joined.parse().unwrap_or(0);
    Ok(ScalarValue::Decimal128(Some(if negative { -value } else { value }), count as u8, fraction.len() as i8))
}

/// DATE '…', TIME '…', TIMESTAMP '…'.
pub(crate) fn typed(name: &str, text: &str) -> Result<Typed> {
    let wrong = |why: String| datafusion::common::plan_datafusion_err!("{name} '{text}': {why}");
    let fraction = text.trim().rsplit_once('.').map_or(0, |(_, digits)| digits.len());
    let upper = name.to_ascii_uppercase();
    let scalar = match upper.split(['(', ' ']).next().unwrap_or_default() {
        "DATE" => ScalarValue::Date32(Some(read_date(text).map_err(wrong)? as i32)),
        "TIME" => {
            let ticks = read_timestamp(&format!("1970-01-01 {}", text.trim()), &TimeUnit::Millisecond, Tz::UTC).map_err(|_| wrong("expected a time such as 12:34:56".to_owned()))?;
            if fraction == 0 { ScalarValue::Time32Second(Some((ticks / 1_000) as i32)) } else { ScalarValue::Time32Millisecond(Some(ticks as i32)) }
        }
        "TIMESTAMP" => {
            let text = text.trim();
            let read = |unit: TimeUnit| read_timestamp(text, &unit, Tz::UTC).map(Some).map_err(wrong);
            match fraction {
                0 => ScalarValue::TimestampSecond(read(TimeUnit::Second)?, None),
                1..=3 => ScalarValue::TimestampMillisecond(read(TimeUnit::Millisecond)?, None),
                4..=6 => ScalarValue::TimestampMicrosecond(read(TimeUnit::Microsecond)?, None),
                _ => ScalarValue::TimestampNanosecond(read(TimeUnit::Nanosecond)?, None),
            }
        }
        _ => return plan_err!("{name} '{text}': literals with a type are DATE '…', TIME '…', TIMESTAMP '…' and INTERVAL '…'; use CAST('{text}' AS {name})"),
    };
    Ok(Typed::literal(scalar))
}

/// The interval type of all interval values.
pub(crate) fn interval_type() -> DataType {
    DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano)
}

/// An interval of months and milliseconds.
pub(crate) fn interval_value(months: i64, ms: i64) -> Option<ScalarValue> {
    let days = ms / 86_400_000;
    let nanos = (ms % 86_400_000).checked_mul(1_000_000)?;
    Some(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(months.try_into().ok()?, days.try_into().ok()?, nanos))))
}

/// INTERVAL '1:30' HOUR TO MINUTE.
pub(crate) fn interval(interval: &Interval) -> Result<Typed> {
    let shown = || interval.to_string();
    let (mut negative, mut text) = (false, String::new());
    let mut ast = interval.value.as_ref();
    loop {
        match ast {
            Ast::UnaryOp { op: UnaryOperator::Minus, expr } => {
                negative = !negative;
                ast = expr;
            }
            Ast::UnaryOp { op: UnaryOperator::Plus, expr } | Ast::Nested(expr) => ast = expr,
            Ast::Value(value) => {
                match &value.value {
                    Value::SingleQuotedString(value) => text.push_str(value.trim()),
                    _ => return plan_err!("{}: an interval's length stands in quotes, INTERVAL '{}' …", shown(), value.value),
                }
                break;
            }
            _ => return plan_err!("{}: an interval is a literal; multiply one, as in n * INTERVAL '1' SECOND", shown()),
        }
    }
    if let Some(rest) = text.strip_prefix('-') {
        negative = !negative;
        text = rest.to_owned();
    } else if let Some(rest) = text.strip_prefix('+') {
        text = rest.to_owned();
    }
    let Some(first) = &interval.leading_field else {
        return plan_err!("{}: a unit is missing, such as INTERVAL '{text}' SECOND", shown());
    };
    let (Some(first), Some(last)) = (rank(first), rank(interval.last_field.as_ref().unwrap_or(first))) else {
        return plan_err!("{}: units are YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE and SECOND", shown());
    };
    let read = if first == last { single(first, &text) } else { several(first, last, &text) };
    let Some((months, ms)) = read else {
        return plan_err!("{}: '{text}' does not have the form of {}", shown(), form(first, last));
    };
    let sign = if negative { -1 } else { 1 };
    match interval_value(months * sign, ms * sign) {
        Some(value) => Ok(Typed::literal(value)),
        None => plan_err!("{}: too long", shown()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
}

fn rank(field: &DateTimeField) -> Option<Unit> {
    Some(match field {
        DateTimeField::Year | DateTimeField::Years => Unit::Year,
        DateTimeField::Quarter => Unit::Quarter,
        DateTimeField::Month | DateTimeField::Months => Unit::Month,
        DateTimeField::Week(_) | DateTimeField::Weeks => Unit::Week,
        DateTimeField::Day | DateTimeField::Days => Unit::Day,
        DateTimeField::Hour | DateTimeField::Hours => Unit::Hour,
        DateTimeField::Minute | DateTimeField::Minutes => Unit::Minute,
        DateTimeField::Second | DateTimeField::Seconds => Unit::Second,
        _ => return None,
    })
}

/// Months and milliseconds of one of a unit.
fn size(unit: Unit) -> (i64, i64) {
    match unit {
        Unit::Year => (12, 0),
        Unit::Quarter => (3, 0),
        Unit::Month => (1, 0),
        Unit::Week => (0, 604_800_000),
        Unit::Day => (0, 86_400_000),
        Unit::Hour => (0, 3_600_000),
        Unit::Minute => (0, 60_000),
        Unit::Second => (0, 1_000),
    }
}

fn digits(text: &str) -> Option<i64> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// Seconds with a fraction, in ms.
fn seconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let nanos = crate::cast::fraction_nanos(fraction)?;
    digits(if whole.is_empty() { "0" } else { whole })?.checked_mul(1_000)?.checked_add(nanos / 1_000_000)
}

fn single(unit: Unit, text: &str) -> Option<(i64, i64)> {
    if unit == Unit::Second {
        return Some((0, seconds(text)?));
    }
    let (months, ms) = size(unit);
    let count = digits(text)?;
    Some((count.checked_mul(months)?, count.checked_mul(ms)?))
}

/// `1-2` of YEAR TO MONTH; `2 10:30:05.5` of DAY TO SECOND and its parts.
fn several(first: Unit, last: Unit, text: &str) -> Option<(i64, i64)> {
    if (first, last) == (Unit::Year, Unit::Month) {
        let (years, months) = text.split_once('-')?;
        let months = digits(months).filter(|months| *months < 12)?;
        return Some((digits(years)?.checked_mul(12)?.checked_add(months)?, 0));
    }
    if first < Unit::Day || last <= first {
        return None;
    }
    let (mut ms, mut clock, mut unit) = (0_i64, text, first);
    if first == Unit::Day {
        let (days, rest) = text.split_once(' ')?;
        ms = digits(days)?.checked_mul(86_400_000)?;
        (clock, unit) = (rest.trim(), Unit::Hour);
    }
    let parts: Vec<&str> = clock.split(':').collect();
    let units: Vec<Unit> = [Unit::Hour, Unit::Minute, Unit::Second].into_iter().filter(|u| *u >= unit && *u <= last).collect();
    if parts.len() != units.len() {
        return None;
    }
    for (position, (part, unit)) in parts.iter().zip(&units).enumerate() {
        let leading = first != Unit::Day && position == 0;
        let value = if *unit == Unit::Second { seconds(part)? } else { digits(part)?.checked_mul(size(*unit).1)? };
        let limit = match unit {
            Unit::Hour => 24 * 3_600_000,
            Unit::Minute => 60 * 60_000,
            _ => 60_000,
        };
        if !leading && value >= limit {
            return None;
        }
        ms = ms.checked_add(value)?;
    }
    Some((0, ms))
}

fn form(first: Unit, last: Unit) -> &'static str {
    match (first, last) {
        (Unit::Year, Unit::Month) => "YEAR TO MONTH, such as '1-6'",
        (Unit::Day, Unit::Hour) => "DAY TO HOUR, such as '2 10'",
        (Unit::Day, Unit::Minute) => "DAY TO MINUTE, such as '2 10:30'",
        (Unit::Day, Unit::Second) => "DAY TO SECOND, such as '2 10:30:05.5'",
        (Unit::Hour, Unit::Minute) => "HOUR TO MINUTE, such as '1:30'",
        (Unit::Hour, Unit::Second) => "HOUR TO SECOND, such as '1:30:05'",
        (Unit::Minute, Unit::Second) => "MINUTE TO SECOND, such as '30:05'",
        (Unit::Second, _) => "seconds, such as '5' or '0.5'",
        (a, b) if a == b => "a whole number, such as '5'",
        _ => "units from large to small, such as DAY TO SECOND",
    }
}
