//! Parts of times, rounding to units, and distances between times.
//!
//! Flink computes parts of a TIMESTAMP from its milliseconds by Java's `/` and `%`, which cut towards zero: before 1970
//! days and hours differ from the calendar's (1969-12-31 23:59:59.999 has the hour 0). The same here. Rounding to units
//! below a week goes towards the past, as in Flink.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, PrimitiveArray},
    datatypes::{DataType, Date32Type, Int32Type, Int64Type, IntervalMonthDayNanoType, TimeUnit},
};
use chrono_tz::Tz;
use datafusion::common::{Result, internal_err, plan_err};

use super::{Bind, Call, Param, Spec};
use crate::{
    cast::{cast_to, convert, millis, ticks, time_millis, times_of_ms, timestamps},
    civil::{DAY_MS, add_months, date_of, days_of, iso_week, iso_weekday, to_utc},
    error::bad_row,
    func::{Plan, Typed, collect},
    literal::{interval_type, interval_value},
    operators,
    types::{Arithmetic, is_interval, type_name},
};

use Param::{Any, Int, Text, Time};

pub(super) const SPECS: &[Spec] = &[
    Spec { name: "EXTRACT", params: &[Text, Any], optional: 0, rest: None, bind: extract },
    Spec { name: "YEAR", params: &[Time], optional: 0, rest: None, bind: |call| part_of(call, Unit::Year) },
    Spec { name: "QUARTER", params: &[Time], optional: 0, rest: None, bind: |call| part_of(call, Unit::Quarter) },
    Spec { name: "MONTH", params: &[Time], optional: 0, rest: None, bind: |call| part_of(call, Unit::Month) },
    Spec { name: "WEEK", params: &[Time], optional: 0, rest: None, bind: |call| part_of(call, Unit::Week) },
    Spec { name: "DAYOFYEAR", params: &[Time], optional: 0, rest: None, bind: |call| part_of(call, Unit::DayOfYear) },
    Spec { name: "DAYOFMONTH", params: &[Time], optional: 0, rest: None, bind: |call| part_of(call, Unit::Day) },
    Spec { name: "DAYOFWEEK", params: &[Time], optional: 0, rest: None, bind: |call| part_of(call, Unit::DayOfWeek) },
    Spec { name: "HOUR", params: &[Time], optional: 0, rest: None, bind: |call| part_of(call, Unit::Hour) },
    Spec { name: "MINUTE", params: &[Time], optional: 0, rest: None, bind: |call| part_of(call, Unit::Minute) },
    Spec { name: "SECOND", params: &[Time], optional: 0, rest: None, bind: |call| part_of(call, Unit::Second) },
    Spec { name: "TIMESTAMPADD", params: &[Text, Int, Time], optional: 0, rest: None, bind: add },
    Spec { name: "TIMESTAMPDIFF", params: &[Text, Time, Time], optional: 0, rest: None, bind: difference },
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Millennium,
    Century,
    Decade,
    Year,
    IsoYear,
    Quarter,
    Month,
    Week,
    Day,
    DayOfYear,
    DayOfWeek,
    IsoDayOfWeek,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
    Epoch,
}

fn unit(call: &Call<'_>, index: usize) -> Result<Unit> {
    let name = call.constant(index).unwrap_or_default().trim_start_matches("SQL_TSI_").to_owned();
    Ok(match name.as_str() {
        "MILLENNIUM" | "MILLENIUM" => Unit::Millennium,
        "CENTURY" => Unit::Century,
        "DECADE" => Unit::Decade,
        "YEAR" | "YEARS" => Unit::Year,
        "ISOYEAR" => Unit::IsoYear,
        "QUARTER" => Unit::Quarter,
        "MONTH" | "MONTHS" => Unit::Month,
        "WEEK" | "WEEKS" => Unit::Week,
        "DAY" | "DAYS" => Unit::Day,
        "DOY" | "DAYOFYEAR" => Unit::DayOfYear,
        "DOW" | "DAYOFWEEK" => Unit::DayOfWeek,
        "ISODOW" => Unit::IsoDayOfWeek,
        "HOUR" | "HOURS" => Unit::Hour,
        "MINUTE" | "MINUTES" => Unit::Minute,
        "SECOND" | "SECONDS" => Unit::Second,
        "MILLISECOND" | "MILLISECONDS" => Unit::Millisecond,
        "MICROSECOND" | "MICROSECONDS" => Unit::Microsecond,
        "NANOSECOND" | "NANOSECONDS" => Unit::Nanosecond,
        "EPOCH" => Unit::Epoch,
        other => return plan_err!("{}: `{other}` is no unit of time: YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND are", call.name),
    })
}

fn extract(call: &Call<'_>) -> Result<Bind> {
    let unit = unit(call, 0)?;
    let value = call.args[1].clone();
    let known = matches!(value.data_type, DataType::Timestamp(..) | DataType::Date32 | DataType::Time32(_)) || is_interval(&value.data_type);
    let value = if value.data_type == DataType::Null { cast_to(value, &DataType::Date32.into(), call.mode())? } else { value };
    if !known && value.data_type != DataType::Date32 {
        return plan_err!("EXTRACT takes a time or an interval, got {}", type_name(&value.data_type));
    }
    let plan = part(unit, &value.data_type, call.zone())?;
    Ok(Bind::Expr(plan.call("EXTRACT", format!("{unit:?} {}", call.zone().name()), vec![call.args[0].clone(), value])))
}

fn part_of(call: &Call<'_>, unit: Unit) -> Result<Bind> {
    let value = call.args[0].clone();
    let plan = part(unit, &value.data_type, call.zone())?;
    let name = Typed::literal(datafusion::common::ScalarValue::Utf8(Some(call.name.to_owned())));
    Ok(Bind::Expr(plan.call("EXTRACT", format!("{unit:?} {}", call.zone().name()), vec![name, value])))
}

/// A part of the second argument, as BIGINT.
fn part(unit: Unit, of: &DataType, zone: Tz) -> Result<Plan> {
    if is_interval(of) {
        return Ok(Plan::new(DataType::Int64, move |columns| {
            let values = columns.numbers::<IntervalMonthDayNanoType>(1)?;
            Ok(Arc::new(collect::<Int64Type>(columns.rows, |row| Ok(values.get(row).map(|value| interval_part(unit, value))))?))
        }));
    }
    let date_only = matches!(unit, Unit::Hour | Unit::Minute | Unit::Second | Unit::Millisecond | Unit::Microsecond | Unit::Nanosecond);
    match of {
        DataType::Date32 if date_only => plan_err!("a DATE has no {unit:?}: CAST it to TIMESTAMP"),
        DataType::Time32(_) if !date_only => plan_err!("a TIME has no {unit:?}"),
        _ => Ok(Plan::new(DataType::Int64, move |columns| {
            let array = columns.array(1)?;
            let (ms, nanos) = local(&array, zone)?;
            let done: PrimitiveArray<Int64Type> = match (unit, nanos) {
                (Unit::Microsecond | Unit::Nanosecond, Some(nanos)) => {
                    let per = if unit == Unit::Microsecond { 1_000 } else { 1 };
                    nanos.unary(|nanos| nanos % 1_000_000_000 / per)
                }
                // The most frequent ones without a call for each row.
                (Unit::Hour, _) => ms.unary(|ms| ms % DAY_MS / 3_600_000),
                (Unit::Minute, _) => ms.unary(|ms| ms % 3_600_000 / 60_000),
                (Unit::Second, _) => ms.unary(|ms| ms % 60_000 / 1_000),
                _ => ms.unary(|ms| date_part(unit, ms)),
            };
            Ok(Arc::new(done))
        })),
    }
}

type Longs = PrimitiveArray<Int64Type>;

/// Local milliseconds, and nanoseconds where the type has them.
fn local(array: &ArrayRef, zone: Tz) -> Result<(Longs, Option<Longs>)> {
    match array.data_type() {
        DataType::Timestamp(unit, instant) => {
            let fine = matches!(unit, TimeUnit::Microsecond | TimeUnit::Nanosecond);
            let nanos = if fine { Some(ticks(array)?.unary(|tick| convert(tick, unit, &TimeUnit::Nanosecond))) } else { None };
            Ok((millis(array, unit, instant.is_some(), zone)?, nanos))
        }
        DataType::Date32 => Ok((array.as_primitive::<Date32Type>().unary(|days| i64::from(days) * DAY_MS), None)),
        DataType::Time32(unit) => Ok((time_millis(array, unit), None)),
        other => internal_err!("{other} is no time"),
    }
}

fn date_part(unit: Unit, ms: i64) -> i64 {
    let days = ms / DAY_MS;
    let date = date_of(days);
    match unit {
        Unit::Millennium => (date.year + 999).div_euclid(1_000),
        Unit::Century => (date.year + 99).div_euclid(100),
        Unit::Decade => date.year.div_euclid(10),
        Unit::Year => date.year,
        Unit::IsoYear => iso_week(days).0,
        Unit::Quarter => i64::from(date.month.div_ceil(3)),
        Unit::Month => date.month.into(),
        Unit::Week => iso_week(days).1,
        Unit::Day => date.day.into(),
        Unit::DayOfYear => days - days_of(date.year, 1, 1) + 1,
        Unit::DayOfWeek => iso_weekday(days) % 7 + 1,
        Unit::IsoDayOfWeek => iso_weekday(days),
        Unit::Hour => ms % DAY_MS / 3_600_000,
        Unit::Minute => ms % 3_600_000 / 60_000,
        Unit::Second => ms % 60_000 / 1_000,
        Unit::Millisecond => ms % 1_000,
        Unit::Microsecond => ms % 1_000 * 1_000,
        Unit::Nanosecond => ms % 1_000 * 1_000_000,
        Unit::Epoch => ms / 1_000,
    }
}

fn interval_part(unit: Unit, value: arrow::datatypes::IntervalMonthDayNano) -> i64 {
    let ms = i64::from(value.days) * DAY_MS + value.nanoseconds / 1_000_000;
    let months = i64::from(value.months);
    match unit {
        Unit::Year => months / 12,
        Unit::Quarter => months % 12 / 3 + 1,
        Unit::Month => months % 12,
        Unit::Day => ms / DAY_MS,
        Unit::Epoch => ms / 1_000,
        Unit::Hour | Unit::Minute | Unit::Second | Unit::Millisecond | Unit::Microsecond | Unit::Nanosecond => date_part(unit, ms),
        _ => 0,
    }
}

/// FLOOR and CEIL of a time (argument 1) to a unit (argument 2).
pub(super) fn rounded(call: &Call<'_>, up: bool) -> Result<Bind> {
    let unit = unit(call, 1)?;
    if matches!(unit, Unit::IsoYear | Unit::DayOfYear | Unit::DayOfWeek | Unit::IsoDayOfWeek | Unit::Epoch | Unit::Microsecond | Unit::Nanosecond) {
        return plan_err!("{} TO {}: units are YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND, MILLISECOND", call.name, call.constant(1).unwrap_or_default());
    }
    let zone = call.zone();
    let data_type = call.data_type(0).clone();
    let target = data_type.clone();
    let plan = match &data_type {
        DataType::Timestamp(TimeUnit::Second, _) if unit == Unit::Millisecond => return Ok(Bind::Expr(call.args[0].clone())),
        DataType::Timestamp(of, instant) => {
            let (of, instant) = (*of, instant.is_some());
            Plan::new(data_type, move |columns| {
                let local = millis(&columns.array(0)?, &of, instant, zone)?;
                let done = local.unary::<_, Int64Type>(|ms| {
                    let ms = round(unit, ms, up);
                    convert(if instant { to_utc(zone, ms) } else { ms }, &TimeUnit::Millisecond, &of)
                });
                Ok(timestamps(done, &target))
            })
        }
        DataType::Date32 => Plan::new(data_type, move |columns| {
            let array = columns.array(0)?;
            let days = array.as_primitive::<Date32Type>();
            Ok(Arc::new(days.unary::<_, Date32Type>(|days| (round(unit, i64::from(days) * DAY_MS, up) / DAY_MS) as i32)))
        }),
        DataType::Time32(of) => {
            let of = *of;
            Plan::new(data_type, move |columns| {
                let ms = time_millis(&columns.array(0)?, &of);
                Ok(times_of_ms(ms.unary(|ms| round(unit, ms, up).rem_euclid(DAY_MS)), &of))
            })
        }
        DataType::Null => return Ok(Bind::Expr(call.args[0].clone())),
        other => return plan_err!("{} takes a time before TO, got {}", call.name, type_name(other)),
    };
    Ok(plan.into())
}

fn round(unit: Unit, ms: i64, up: bool) -> i64 {
    let fixed = match unit {
        Unit::Day => DAY_MS,
        Unit::Hour => 3_600_000,
        Unit::Minute => 60_000,
        Unit::Second => 1_000,
        Unit::Millisecond => 1,
        _ => return round_date(unit, ms, up) * DAY_MS,
    };
    let floor = ms.div_euclid(fixed) * fixed;
    if up && floor != ms { floor + fixed } else { floor }
}

/// Days since 1970 of the unit's beginning, or of the next one. Going up the time of day does not count, as in Flink.
fn round_date(unit: Unit, ms: i64, up: bool) -> i64 {
    let days = ms / DAY_MS;
    let date = date_of(days);
    let (floor, months) = match unit {
        Unit::Millennium => (days_of((date.year - 1).div_euclid(1_000) * 1_000 + 1, 1, 1), 12_000),
        Unit::Century => (days_of((date.year - 1).div_euclid(100) * 100 + 1, 1, 1), 1_200),
        Unit::Decade => (days_of(date.year.div_euclid(10) * 10, 1, 1), 120),
        Unit::Year => (days_of(date.year, 1, 1), 12),
        Unit::Quarter => (days_of(date.year, (date.month - 1) / 3 * 3 + 1, 1), 3),
        Unit::Month => (days_of(date.year, date.month, 1), 1),
        // Weeks begin on Sunday.
        _ => {
            let floor = days - iso_weekday(days) % 7;
            return if up && floor != days { floor + 7 } else { floor };
        }
    };
    if up && floor < days { add_months(floor, months) } else { floor }
}

/// TIMESTAMPADD(unit, n, time): time + n units.
fn add(call: &Call<'_>) -> Result<Bind> {
    let unit = unit(call, 0)?;
    let (months, ms) = match unit {
        Unit::Year => (12, 0),
        Unit::Quarter => (3, 0),
        Unit::Month => (1, 0),
        Unit::Week => (0, 7 * DAY_MS),
        Unit::Day => (0, DAY_MS),
        Unit::Hour => (0, 3_600_000),
        Unit::Minute => (0, 60_000),
        Unit::Second => (0, 1_000),
        Unit::Millisecond => (0, 1),
        _ => return plan_err!("TIMESTAMPADD: units are YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND"),
    };
    let mut time = call.args[2].clone();
    if time.data_type == DataType::Date32 && ms % DAY_MS != 0 {
        time = cast_to(time, &DataType::Timestamp(TimeUnit::Microsecond, None).into(), call.mode())?;
    }
    let plan = Plan::new(interval_type(), move |columns| {
        let counts = columns.numbers::<Int64Type>(0)?;
        Ok(Arc::new(collect::<IntervalMonthDayNanoType>(columns.rows, |row| {
            let Some(count) = counts.get(row) else { return Ok(None) };
            let value = months.checked_mul(&count).zip(ms.checked_mul(count)).and_then(|(months, ms)| interval_value(months, ms));
            match value {
                Some(datafusion::common::ScalarValue::IntervalMonthDayNano(value)) => Ok(value),
                _ => Err(bad_row(format!("TIMESTAMPADD: {count} is too far"))),
            }
        })?))
    });
    let interval = plan.fallible().call("interval_of", format!("{unit:?}"), vec![call.args[1].clone()]);
    let interval = Typed::new(crate::fold(interval.expr)?, interval.data_type);
    Ok(Bind::Expr(operators::arithmetic(Arithmetic::Add, time, interval, call.mode())?))
}

trait CheckedMul {
    fn checked_mul(&self, by: &i64) -> Option<i64>;
}

impl CheckedMul for i64 {
    fn checked_mul(&self, by: &i64) -> Option<i64> {
        i64::checked_mul(*self, *by)
    }
}

/// TIMESTAMPDIFF(unit, from, to): whole units between, towards zero.
fn difference(call: &Call<'_>) -> Result<Bind> {
    let unit = unit(call, 0)?;
    let length = match unit {
        Unit::Year | Unit::Quarter | Unit::Month => 0,
        Unit::Week => 7 * DAY_MS,
        Unit::Day => DAY_MS,
        Unit::Hour => 3_600_000,
        Unit::Minute => 60_000,
        Unit::Second => 1_000,
        Unit::Millisecond => 1,
        _ => return plan_err!("TIMESTAMPDIFF: units are YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND"),
    };
    let zone = call.zone();
    Ok(Plan::new(DataType::Int32, move |columns| {
        let ((from, _), (to, _)) = (local(&columns.array(1)?, zone)?, local(&columns.array(2)?, zone)?);
        Ok(Arc::new(collect::<Int32Type>(columns.rows, |row| {
            if from.is_null(row) || to.is_null(row) {
                return Ok(None);
            }
            let (from, to) = (from.value(row), to.value(row));
            Ok(Some(match unit {
                Unit::Year => months_between(from, to) / 12,
                Unit::Quarter => months_between(from, to) / 3,
                Unit::Month => months_between(from, to),
                _ => to.saturating_sub(from) / length,
            } as i32))
        })?))
    })
    .into())
}

/// Whole months, counted as Calcite does: days first, then one less if the time of day of the last is not reached.
fn months_between(from: i64, to: i64) -> i64 {
    let ((from_day, from_clock), (to_day, to_clock)) =
        ((from.div_euclid(DAY_MS), from.rem_euclid(DAY_MS)), (to.div_euclid(DAY_MS), to.rem_euclid(DAY_MS)));
    let months = if to_day < from_day { -months_up(to_day, from_day) } else { months_up(from_day, to_day) };
    if add_months(from_day, months) == to_day && to_clock < from_clock { months - 1 } else { months }
}

fn months_up(from: i64, to: i64) -> i64 {
    // No month is longer than 31 days, so this is never too much.
    let mut months = (to - from) / 31;
    while add_months(from, months) < to && add_months(from, months + 1) <= to {
        months += 1;
    }
    months
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(year: i64, month: u32, day: u32) -> i64 {
        days_of(year, month, day) * DAY_MS
    }

    #[test]
    fn months_count_whole_ones() {
        assert_eq!(months_between(at(2020, 1, 31), at(2020, 2, 29)), 1);
        assert_eq!(months_between(at(2020, 1, 31), at(2020, 3, 1)), 1);
        assert_eq!(months_between(at(2016, 2, 29), at(2020, 2, 28)) / 12, 3);
        assert_eq!(months_between(at(2020, 3, 31), at(2020, 2, 29)), -1);
        assert_eq!(months_between(at(2020, 3, 31) + 1, at(2020, 2, 29)), -2);
        assert_eq!(months_between(at(2020, 1, 1), at(2020, 1, 1)), 0);
    }

    #[test]
    fn rounding_goes_to_the_past_below_a_week() {
        assert_eq!(round(Unit::Hour, -1, false), -3_600_000);
        assert_eq!(round(Unit::Day, -1, true), 0);
        assert_eq!(round(Unit::Month, -1, false), 0, "as Flink: the day is cut towards zero");
        assert_eq!(round(Unit::Week, at(2020, 8, 19), false), at(2020, 8, 16));
        assert_eq!(round(Unit::Month, at(2020, 8, 1), true), at(2020, 8, 1));
    }
}
