//! Times from texts and numbers, and texts from times.

use std::sync::Arc;

use arrow::{
    array::{Array, PrimitiveArray},
    datatypes::{DataType, Date32Type, Int64Type, Time32SecondType, TimeUnit},
};
use chrono_tz::Tz;
use datafusion::common::{DataFusionError, Result, plan_err};

use super::{Bind, Call, Param, Spec, java_time::Pattern};
use crate::{
    cast::{cast_to, convert, ticks, timestamps},
    civil::{DAY_MS, days_of, offset_ms, to_local, to_utc},
    error::{bad_row, shown},
    func::{Columns, Plan, Texts, Typed, collect, collect_text},
    types::{is_numeric, type_name, utc},
};

use Param::{Any, Int, Text};

pub(super) const SPECS: &[Spec] = &[
    Spec { name: "DATE_FORMAT", params: &[Any, Text], optional: 0, rest: None, bind: date_format },
    Spec { name: "TO_DATE", params: &[Text, Text], optional: 1, rest: None, bind: to_date },
    Spec { name: "TO_TIMESTAMP", params: &[Text, Text], optional: 1, rest: None, bind: to_timestamp },
    Spec { name: "TO_TIMESTAMP_LTZ", params: &[Any, Any, Text], optional: 2, rest: None, bind: to_timestamp_ltz },
    Spec { name: "FROM_UNIXTIME", params: &[Int, Text], optional: 1, rest: None, bind: from_unixtime },
    Spec { name: "UNIX_TIMESTAMP", params: &[Text, Text], optional: 2, rest: None, bind: unix_timestamp },
    Spec { name: "CONVERT_TZ", params: &[Text, Text, Text], optional: 0, rest: None, bind: |_| Ok(Plan::new(DataType::Utf8, convert_tz).into()) },
    Spec { name: "CURRENT_TIMESTAMP", params: &[], optional: 0, rest: None, bind: |call| now(call, Now::Instant) },
    Spec { name: "CURRENT_ROW_TIMESTAMP", params: &[], optional: 0, rest: None, bind: |call| now(call, Now::Instant) },
    Spec { name: "PROCTIME", params: &[], optional: 0, rest: None, bind: |call| now(call, Now::Instant) },
    Spec { name: "LOCALTIMESTAMP", params: &[], optional: 0, rest: None, bind: |call| now(call, Now::Local) },
    Spec { name: "CURRENT_DATE", params: &[], optional: 0, rest: None, bind: |call| now(call, Now::Date) },
    Spec { name: "CURRENT_TIME", params: &[], optional: 0, rest: None, bind: |call| now(call, Now::Time) },
];

const DEFAULT: &str = "yyyy-MM-dd HH:mm:ss";

fn millisecond(instant: bool) -> DataType {
    DataType::Timestamp(TimeUnit::Millisecond, if instant { utc() } else { None })
}

/// A pattern that is fixed, or another one for each row.
enum Patterns {
    Fixed(Pattern),
    Varying { reading: bool },
}

impl Patterns {
    fn of(call: &Call<'_>, index: usize, reading: bool) -> Result<Self> {
        if call.args.len() <= index {
            return Ok(Self::Fixed(Pattern::new(DEFAULT, reading).map_err(DataFusionError::Plan)?));
        }
        match call.constant(index) {
            Some(text) => Ok(Self::Fixed(Pattern::new(text, reading).map_err(DataFusionError::Plan)?)),
            None => Ok(Self::Varying { reading }),
        }
    }

    /// The pattern of each row.
    fn reader<'a>(&'a self, columns: &Columns<'_>, index: usize) -> Result<impl FnMut(usize) -> Result<Option<Pattern>> + use<'a>> {
        let texts: Option<Texts> = match self {
            Self::Fixed(_) => None,
            Self::Varying { .. } => Some(columns.texts(index)?),
        };
        let mut last: Option<(String, Pattern)> = None;
        Ok(move |row: usize| match (self, &texts) {
            (Self::Varying { reading }, Some(texts)) => {
                let Some(text) = texts.get(row) else { return Ok(None) };
                if last.as_ref().is_none_or(|(known, _)| known != text) {
                    last = Some((text.to_owned(), Pattern::new(text, *reading).map_err(bad_row)?));
                }
                Ok(last.as_ref().map(|(_, pattern)| pattern.clone()))
            }
            (Self::Fixed(pattern), _) => Ok(Some(pattern.clone())),
            _ => Ok(None),
        })
    }
}

/// Times as text by a pattern. Texts are read as times first.
fn date_format(call: &Call<'_>) -> Result<Bind> {
    let mut value = call.args[0].clone();
    match &value.data_type {
        DataType::Timestamp(..) => {}
        // Null for texts that are no time.
        DataType::Utf8 | DataType::Null => value = cast_to(value, &millisecond(false).into(), crate::cast::Mode { lenient: true, ..call.mode() })?,
        DataType::Date32 => value = cast_to(value, &millisecond(false).into(), call.mode())?,
        other => return plan_err!("DATE_FORMAT takes a timestamp as argument 1, got {}", type_name(other)),
    }
    let DataType::Timestamp(unit, instant) = value.data_type.clone() else { return plan_err!("DATE_FORMAT takes a timestamp") };
    let zone = if instant.is_some() { call.zone() } else { Tz::UTC };
    let patterns = Patterns::of(call, 1, false)?;
    let plan = Plan::new(DataType::Utf8, move |columns| {
        let ticks = ticks(&columns.array(0)?)?;
        let mut write = writer(&patterns, columns, zone)?;
        collect_text(columns.rows, |row, out| {
            if ticks.is_null(row) {
                return Ok(None);
            }
            let tick = ticks.value(row);
            let ms = convert(tick, &unit, &TimeUnit::Millisecond);
            let nanos = if matches!(unit, TimeUnit::Microsecond | TimeUnit::Nanosecond) { convert(tick - convert(ms, &TimeUnit::Millisecond, &unit), &unit, &TimeUnit::Nanosecond) } else { 0 };
            write(row, ms, nanos, out)
        })
    });
    let key = format!("{} {}", call.zone().name(), call.constant(1).unwrap_or_default());
    let mut args = vec![value];
    args.extend(call.args.get(1).cloned());
    Ok(Bind::Expr(plan.call(call.name, key, args)))
}

type WriteRow<'a> = Box<dyn FnMut(usize, i64, i64, &mut String) -> Result<Option<()>> + 'a>;

fn writer<'a>(patterns: &'a Patterns, columns: &Columns<'_>, zone: Tz) -> Result<WriteRow<'a>> {
    if let Patterns::Fixed(pattern) = patterns {
        return Ok(Box::new(move |_, ms, nanos, out| {
            let offset = offset_ms(zone, ms);
            pattern.write(ms + offset, nanos, offset, zone.name(), out);
            Ok(Some(()))
        }));
    }
    let mut pattern = patterns.reader(columns, 1)?;
    Ok(Box::new(move |row, ms, nanos, out| {
        let Some(pattern) = pattern(row)? else { return Ok(None) };
        let offset = offset_ms(zone, ms);
        pattern.write(ms + offset, nanos, offset, zone.name(), out);
        Ok(Some(()))
    }))
}

/// Null for texts that are no date.
fn to_date(call: &Call<'_>) -> Result<Bind> {
    if call.args.len() == 1 {
        return Ok(Plan::new(DataType::Date32, |columns| {
            let texts = columns.texts(0)?;
            Ok(Arc::new(collect::<Date32Type>(columns.rows, |row| Ok(texts.get(row).and_then(|text| crate::cast::read_date(text).ok()).map(|day| day as i32)))?))
        })
        .into());
    }
    let patterns = Patterns::of(call, 1, true)?;
    Ok(Plan::new(DataType::Date32, move |columns| {
        let texts = columns.texts(0)?;
        let mut pattern = patterns.reader(columns, 1)?;
        Ok(Arc::new(collect::<Date32Type>(columns.rows, |row| {
            let (Some(text), Some(pattern)) = (texts.get(row), pattern(row)?) else { return Ok(None) };
            Ok(pattern.read(text).map(|(ms, _)| ms.div_euclid(DAY_MS) as i32))
        })?))
    })
    .into())
}

/// Local milliseconds of a text: by the pattern, or in the form of CAST.
fn read_local(text: &str, pattern: Option<&Pattern>) -> Option<i64> {
    match pattern {
        Some(pattern) => pattern.read(text).map(|(ms, _)| ms),
        None => crate::cast::read_timestamp(text, &TimeUnit::Millisecond, Tz::UTC).ok(),
    }
}

/// Null for texts that are no time.
fn to_timestamp(call: &Call<'_>) -> Result<Bind> {
    let patterns = if call.args.len() > 1 { Some(Patterns::of(call, 1, true)?) } else { None };
    Ok(Plan::new(millisecond(false), move |columns| {
        let texts = columns.texts(0)?;
        let read: PrimitiveArray<Int64Type> = match &patterns {
            None => collect(columns.rows, |row| Ok(texts.get(row).and_then(|text| read_local(text, None))))?,
            Some(Patterns::Fixed(pattern)) => collect(columns.rows, |row| Ok(texts.get(row).and_then(|text| read_local(text, Some(pattern)))))?,
            Some(varying) => {
                let mut pattern = varying.reader(columns, 1)?;
                collect(columns.rows, |row| {
                    let (Some(text), Some(pattern)) = (texts.get(row), pattern(row)?) else { return Ok(None) };
                    Ok(read_local(text, Some(&pattern)))
                })?
            }
        };
        Ok(timestamps(read, &millisecond(false)))
    })
    .into())
}

/// Instants outside the years 1 to 9999 are null.
fn plausible(ms: i64) -> Option<i64> {
    let range = days_of(0, 1, 1) * DAY_MS..days_of(10_000, 1, 1) * DAY_MS;
    range.contains(&ms).then_some(ms)
}

/// From seconds or milliseconds since 1970, or from a text in a zone.
fn to_timestamp_ltz(call: &Call<'_>) -> Result<Bind> {
    let first = call.data_type(0).clone();
    if is_numeric(&first) {
        if call.args.len() > 2 {
            return plan_err!("TO_TIMESTAMP_LTZ takes a number and 0 (seconds) or 3 (milliseconds), got {} arguments", call.args.len());
        }
        let factor = match call.args.get(1).map(Typed::value) {
            None => 1,
            Some(Some(value)) => match value.cast_to(&DataType::Int64) {
                Ok(datafusion::common::ScalarValue::Int64(Some(0))) => 1_000,
                Ok(datafusion::common::ScalarValue::Int64(Some(3))) => 1,
                _ => return plan_err!("TO_TIMESTAMP_LTZ: the precision is 0 (seconds) or 3 (milliseconds), got {value}"),
            },
            Some(None) => return plan_err!("TO_TIMESTAMP_LTZ: the precision must be constant, 0 (seconds) or 3 (milliseconds)"),
        };
        let mut value = call.args[0].clone();
        if crate::types::is_float(&value.data_type) {
            value = super::call("FLOOR", vec![value], call.session)?;
        }
        let value = cast_to(value, &DataType::Int64.into(), call.mode())?;
        let plan = Plan::new(millisecond(true), move |columns| {
            let values = columns.numbers::<Int64Type>(0)?;
            let read = collect::<Int64Type>(columns.rows, |row| Ok(values.get(row).and_then(|value| value.checked_mul(factor)).and_then(plausible)))?;
            Ok(timestamps(read, &millisecond(true)))
        });
        return Ok(Bind::Expr(plan.call(call.name, factor.to_string(), vec![value])));
    }
    if first != DataType::Utf8 && first != DataType::Null {
        return plan_err!("TO_TIMESTAMP_LTZ takes a number or a text as argument 1, got {}", type_name(&first));
    }
    let patterns = if call.args.len() > 1 { Some(Patterns::of(call, 1, true)?) } else { None };
    if call.args.len() > 1 && call.data_type(1) != &DataType::Utf8 {
        return plan_err!("TO_TIMESTAMP_LTZ takes a pattern as argument 2 when argument 1 is a text, got {}", type_name(call.data_type(1)));
    }
    let zone = match call.args.get(2) {
        None => call.zone(),
        Some(_) => match call.constant(2) {
            Some(name) => crate::parse_zone(name).map_err(DataFusionError::Plan)?,
            None => return plan_err!("TO_TIMESTAMP_LTZ: the zone must be a constant text"),
        },
    };
    let value = cast_to(call.args[0].clone(), &DataType::Utf8.into(), call.mode())?;
    let mut args = vec![value];
    args.extend(call.args.iter().skip(1).take(1).cloned());
    let key = format!("{} {}", zone.name(), call.constant(1).unwrap_or_default());
    let plan = Plan::new(millisecond(true), move |columns| {
        let texts = columns.texts(0)?;
        let mut pattern = patterns.as_ref().map(|patterns| patterns.reader(columns, 1)).transpose()?;
        let read = collect::<Int64Type>(columns.rows, |row| {
            let Some(text) = texts.get(row) else { return Ok(None) };
            let pattern = match &mut pattern {
                None => None,
                Some(pattern) => match pattern(row)? {
                    None => return Ok(None),
                    found => found,
                },
            };
            match read_local(text, pattern.as_ref()) {
                Some(ms) => Ok(plausible(to_utc(zone, ms))),
                None => Err(bad_row(format!("TO_TIMESTAMP_LTZ({}): does not fit the pattern", shown(text)))),
            }
        })?;
        Ok(timestamps(read, &millisecond(true)))
    });
    Ok(Bind::Expr(plan.fallible().call(call.name, key, args)))
}

/// Seconds since 1970 as local time in text.
fn from_unixtime(call: &Call<'_>) -> Result<Bind> {
    let patterns = Patterns::of(call, 1, false)?;
    let zone = call.zone();
    Ok(Plan::new(DataType::Utf8, move |columns| {
        let seconds = columns.numbers::<Int64Type>(0)?;
        let mut write = writer(&patterns, columns, zone)?;
        collect_text(columns.rows, |row, out| match seconds.get(row).map(|seconds| seconds.wrapping_mul(1_000)) {
            Some(ms) => write(row, ms, 0, out),
            None => Ok(None),
        })
    })
    .into())
}

/// Local time in text as seconds since 1970; what does not fit is the smallest BIGINT, as in Flink.
fn unix_timestamp(call: &Call<'_>) -> Result<Bind> {
    if call.args.is_empty() {
        return now(call, Now::Seconds);
    }
    let patterns = Patterns::of(call, 1, true)?;
    let zone = call.zone();
    Ok(Plan::new(DataType::Int64, move |columns| {
        let texts = columns.texts(0)?;
        let mut pattern = patterns.reader(columns, 1)?;
        Ok(Arc::new(collect::<Int64Type>(columns.rows, |row| {
            let (Some(text), Some(pattern)) = (texts.get(row), pattern(row)?) else { return Ok(None) };
            // What follows behind the pattern is left out, as by Java's SimpleDateFormat.
            Ok(Some(pattern.read_start(text).map_or(i64::MIN, |((ms, _), _)| to_utc(zone, ms) / 1_000)))
        })?))
    })
    .into())
}

fn convert_tz(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let (texts, from, to) = (columns.texts(0)?, columns.texts(1)?, columns.texts(2)?);
    let pattern = Pattern::new(DEFAULT, true).map_err(DataFusionError::Plan)?;
    collect_text(columns.rows, |row, out| {
        let (Some(text), Some(from), Some(to)) = (texts.get(row), from.get(row), to.get(row)) else { return Ok(None) };
        let (Ok(from), Ok(to), Some(((ms, _), _))) = (crate::parse_zone(from), crate::parse_zone(to), pattern.read_start(text)) else { return Ok(None) };
        pattern.write(to_local(to, to_utc(from, ms)), 0, 0, to.name(), out);
        Ok(Some(()))
    })
}

#[derive(Debug, Clone, Copy)]
enum Now {
    Instant,
    Local,
    Date,
    Time,
    Seconds,
}

/// The session's clock, read once for each batch.
fn now(call: &Call<'_>, what: Now) -> Result<Bind> {
    let Some(clock) = call.session.clock.clone() else {
        return plan_err!("{} needs a clock, and this session has none: results must not depend on when a job runs", call.name);
    };
    let zone = call.zone();
    let result = match what {
        Now::Instant => millisecond(true),
        Now::Local => millisecond(false),
        Now::Date => DataType::Date32,
        Now::Time => DataType::Time32(TimeUnit::Second),
        Now::Seconds => DataType::Int64,
    };
    let target = result.clone();
    Ok(Plan::new(result, move |columns| {
        let now = clock.now().as_millis();
        let local = to_local(zone, now);
        let all = |value: i64| PrimitiveArray::<Int64Type>::from_value(value, columns.rows);
        Ok(match what {
            Now::Instant => timestamps(all(now), &target),
            Now::Local => timestamps(all(local), &target),
            Now::Date => Arc::new(PrimitiveArray::<Date32Type>::from_value(local.div_euclid(DAY_MS) as i32, columns.rows)),
            Now::Time => Arc::new(PrimitiveArray::<Time32SecondType>::from_value((local.rem_euclid(DAY_MS) / 1_000) as i32, columns.rows)),
            Now::Seconds => Arc::new(all(now.div_euclid(1_000))),
        })
    })
    .volatile()
    .into())
}
