//! Casts between DATE, TIME, TIMESTAMP and TIMESTAMP_LTZ.
//!
//! Before 1970 Flink cuts towards zero where it takes the day or the time of day out of a TIMESTAMP
//! (1969-12-31 23:59:59.999 has the date 1970-01-01). So does this: same script, same rows.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, PrimitiveArray},
    datatypes::{
        DataType, Date32Type, Int64Type, Time32MillisecondType, Time32SecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType,
    },
};
use chrono_tz::Tz;
use datafusion::common::{Result, internal_err};

use super::Mode;
use crate::{
    civil::{DAY_MS, to_local, to_utc},
    types::per_second,
};

/// A column of times as another type of time.
pub(super) fn between(array: &ArrayRef, to: &DataType, mode: Mode) -> Result<ArrayRef> {
    let zone = mode.zone;
    match (array.data_type(), to) {
        (DataType::Timestamp(from, a), DataType::Timestamp(unit, b)) => {
            let (from, unit) = (*from, *unit);
            let shift: fn(Tz, i64) -> i64 = match (a.is_some(), b.is_some()) {
                (true, false) => to_local,
                (false, true) => to_utc,
                _ => |_, ms| ms,
            };
            let moved = ticks(array)?.unary::<_, Int64Type>(|value| shifted(value, &from, zone, shift));
            // Whole seconds are cut towards zero, finer units towards the past.
            if unit == TimeUnit::Second && from != TimeUnit::Second {
                let cut = |value| convert(value, &from, &TimeUnit::Millisecond) / 1_000;
                return Ok(timestamps(moved.unary(cut), to));
            }
            Ok(timestamps(moved.unary(|value| convert(value, &from, &unit)), to))
        }
        (DataType::Timestamp(from, local), DataType::Date32) => {
            let ms = millis(array, from, local.is_some(), zone)?;
            let instant = local.is_some();
            Ok(Arc::new(ms.unary::<_, Date32Type>(|ms| if instant { ms.div_euclid(DAY_MS) } else { ms / DAY_MS } as i32)))
        }
        (DataType::Timestamp(from, local), DataType::Time32(unit)) => {
            let ms = millis(array, from, local.is_some(), zone)?;
            let instant = local.is_some();
            Ok(times(ms.unary::<_, Int64Type>(|ms| if instant { ms.rem_euclid(DAY_MS) } else { (ms % DAY_MS).max(0) }), unit))
        }
        (DataType::Date32, DataType::Timestamp(unit, local)) => {
            let (unit, local) = (*unit, local.is_some());
            let days = array.as_primitive::<Date32Type>();
            let ticks = days.unary::<_, Int64Type>(|days| {
                let ms = i64::from(days) * DAY_MS;
                convert(if local { to_utc(zone, ms) } else { ms }, &TimeUnit::Millisecond, &unit)
            });
            Ok(timestamps(ticks, to))
        }
        (DataType::Time32(from), DataType::Time32(unit)) => Ok(times(time_millis(array, from), unit)),
        (DataType::Time32(from), DataType::Timestamp(unit, local)) => {
            let (unit, local) = (*unit, local.is_some());
            let ticks = time_millis(array, from)
                .unary::<_, Int64Type>(|ms| convert(if local { to_utc(zone, ms) } else { ms }, &TimeUnit::Millisecond, &unit));
            Ok(timestamps(ticks, to))
        }
        (from, to) => internal_err!("{from} to {to}"),
    }
}

/// A timestamp's ticks as plain numbers.
pub(crate) fn ticks(array: &ArrayRef) -> Result<PrimitiveArray<Int64Type>> {
    let (values, nulls) = match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => array.as_primitive::<TimestampSecondType>().clone().into_parts_of(),
        DataType::Timestamp(TimeUnit::Millisecond, _) => array.as_primitive::<TimestampMillisecondType>().clone().into_parts_of(),
        DataType::Timestamp(TimeUnit::Microsecond, _) => array.as_primitive::<TimestampMicrosecondType>().clone().into_parts_of(),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => array.as_primitive::<TimestampNanosecondType>().clone().into_parts_of(),
        other => return internal_err!("{other} is no TIMESTAMP"),
    };
    Ok(PrimitiveArray::try_new(values, nulls)?)
}

trait Parts {
    fn into_parts_of(self) -> (arrow::buffer::ScalarBuffer<i64>, Option<arrow::buffer::NullBuffer>);
}

impl<T: arrow::datatypes::ArrowPrimitiveType<Native = i64>> Parts for PrimitiveArray<T> {
    fn into_parts_of(self) -> (arrow::buffer::ScalarBuffer<i64>, Option<arrow::buffer::NullBuffer>) {
        let (_, values, nulls) = self.into_parts();
        (values, nulls)
    }
}

/// Plain ticks as a timestamp of type `to`.
pub(crate) fn timestamps(ticks: PrimitiveArray<Int64Type>, to: &DataType) -> ArrayRef {
    let DataType::Timestamp(unit, zone) = to else { return Arc::new(ticks) };
    let (_, values, nulls) = ticks.into_parts();
    match unit {
        TimeUnit::Second => Arc::new(PrimitiveArray::<TimestampSecondType>::new(values, nulls).with_timezone_opt(zone.clone())),
        TimeUnit::Millisecond => Arc::new(PrimitiveArray::<TimestampMillisecondType>::new(values, nulls).with_timezone_opt(zone.clone())),
        TimeUnit::Microsecond => Arc::new(PrimitiveArray::<TimestampMicrosecondType>::new(values, nulls).with_timezone_opt(zone.clone())),
        TimeUnit::Nanosecond => Arc::new(PrimitiveArray::<TimestampNanosecondType>::new(values, nulls).with_timezone_opt(zone.clone())),
    }
}

/// Ticks of one unit in another, towards the past.
pub(crate) fn convert(value: i64, from: &TimeUnit, to: &TimeUnit) -> i64 {
    let (from, to) = (per_second(from), per_second(to));
    if to >= from { value.saturating_mul(to / from) } else { value.div_euclid(from / to) }
}

/// Moves ticks by what `shift` moves their milliseconds.
fn shifted(value: i64, unit: &TimeUnit, zone: Tz, shift: fn(Tz, i64) -> i64) -> i64 {
    if zone == Tz::UTC {
        return value;
    }
    let ms = convert(value, unit, &TimeUnit::Millisecond);
    value.saturating_add(convert(shift(zone, ms).saturating_sub(ms), &TimeUnit::Millisecond, unit))
}

/// Local milliseconds of a timestamp.
pub(crate) fn millis(array: &ArrayRef, unit: &TimeUnit, instant: bool, zone: Tz) -> Result<PrimitiveArray<Int64Type>> {
    let unit = *unit;
    Ok(ticks(array)?.unary(|value| {
        let ms = convert(value, &unit, &TimeUnit::Millisecond);
        if instant { to_local(zone, ms) } else { ms }
    }))
}

/// Milliseconds of a TIME.
pub(crate) fn time_millis(array: &ArrayRef, unit: &TimeUnit) -> PrimitiveArray<Int64Type> {
    match unit {
        TimeUnit::Second => array.as_primitive::<Time32SecondType>().unary(|v| i64::from(v) * 1_000),
        _ => array.as_primitive::<Time32MillisecondType>().unary(i64::from),
    }
}

/// Milliseconds of the day as TIME.
pub(crate) fn times(ms: PrimitiveArray<Int64Type>, unit: &TimeUnit) -> ArrayRef {
    match unit {
        TimeUnit::Second => Arc::new(ms.unary::<_, Time32SecondType>(|ms| (ms / 1_000) as i32)),
        _ => Arc::new(ms.unary::<_, Time32MillisecondType>(|ms| ms as i32)),
    }
}
