//! CAST and TRY_CAST with Flink's results.
//!
//! Promises: whole numbers wrap as Java's do, floats stop at the ends of INT and BIGINT, a DECIMAL that does not fit is
//! null, text that cannot be read is a bad row (TRY_CAST: null), TIMESTAMP and TIMESTAMP_LTZ meet in the session's
//! zone. Parts: `numbers` and `times` between numbers and times, `render` to text, `read` from text.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, new_null_array},
    datatypes::DataType,
};
use chrono_tz::Tz;
use datafusion::{
    common::{Result, internal_err, plan_err},
    logical_expr::cast,
};

use crate::{
    error::{bad_row, shown},
    func::{Plan, Typed, collect_bytes, collect_text},
    types::{
        is_float, is_integer, is_interval, is_numeric, map_types,
        parse::{Length, Target},
        type_name,
    },
};

mod numbers;
mod read;
pub(crate) mod render;
mod times;

pub(crate) use numbers::{float_to_decimal, rescale, rescale_wide};
pub(crate) use read::{fraction_nanos, read_date, read_decimal, read_double, read_timestamp};
pub(crate) use times::{convert, millis, ticks, time_millis, timestamps, times as times_of_ms};

/// How a cast treats zones and values that cannot be cast.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mode {
    pub(crate) zone: Tz,
    /// Null instead of a bad row.
    pub(crate) lenient: bool,
}

/// `value` as `target`; an expression without a call where nothing changes.
pub(crate) fn cast_to(value: Typed, target: &Target, mode: Mode) -> Result<Typed> {
    if value.data_type == target.data_type && target.length.is_none() {
        return Ok(value);
    }
    check(&value.data_type, &target.data_type)?;
    if target.length.is_none() && is_plain(&value.data_type, &target.data_type) {
        return Ok(Typed::new(cast(value.expr, target.data_type.clone()), target.data_type.clone()));
    }
    let name = format!("{}CAST<{}{}>", if mode.lenient { "TRY_" } else { "" }, type_name(&target.data_type), length(target));
    let fallible = !mode.lenient && can_fail(&value.data_type, &target.data_type);
    let key = mode.zone.name().to_owned();
    let goal = target.clone();
    let plan = Plan::new(target.data_type.clone(), move |columns| cast_array(&columns.array(0)?, &goal, mode));
    let plan = if fallible { plan.fallible() } else { plan };
    Ok(plan.call(&name, key, vec![value]))
}

fn length(target: &Target) -> String {
    match target.length {
        Some(Length::AtMost(n)) => format!("({n})"),
        Some(Length::Exactly(n)) => format!("({n}) padded"),
        None => String::new(),
    }
}

/// Whether DataFusion's own cast gives Flink's result for every value: the optimizer and people can then look through it.
fn is_plain(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Float32, Float64, Int8, Int16, Int32, Int64, Timestamp};
    match (from, to) {
        (Int8, Int16 | Int32 | Int64) | (Int16, Int32 | Int64) | (Int32, Int64) => true,
        (Int8 | Int16 | Int32 | Int64, Float32 | Float64) | (Float32, Float64) => true,
        (Timestamp(a, x), Timestamp(b, y)) => x == y && crate::types::digits(a) < crate::types::digits(b),
        (Date32, Timestamp(_, None)) => true,
        _ => false,
    }
}

fn can_fail(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Utf8, DataType::Utf8 | DataType::Binary) => false,
        (DataType::Utf8, _) => true,
        (from, DataType::Decimal128(..)) => is_float(from),
        (DataType::List(a), DataType::List(b)) => can_fail(a.data_type(), b.data_type()),
        (DataType::Map(a, _), DataType::Map(b, _)) => match (map_types(a), map_types(b)) {
            (Some((k1, v1)), Some((k2, v2))) => can_fail(k1, k2) || can_fail(v1, v2),
            _ => true,
        },
        (DataType::Struct(a), DataType::Struct(b)) => a.iter().zip(b.iter()).any(|(a, b)| can_fail(a.data_type(), b.data_type())),
        _ => false,
    }
}

/// Refuses casts that Flink refuses.
fn check(from: &DataType, to: &DataType) -> Result<()> {
    use DataType::{Binary, Boolean, Date32, List, Map, Null, Struct, Time32, Timestamp, Utf8};
    let fine = match (from, to) {
        (Null, _) | (_, Utf8) => true,
        (Utf8, List(_) | Map(..) | Struct(_)) => false,
        (Utf8, _) => !is_interval(to),
        (Boolean, to) => *to == Boolean || is_numeric(to),
        (from, Boolean) => is_numeric(from),
        (from, to) if is_numeric(from) && is_numeric(to) => true,
        (Binary, Binary) => true,
        (Date32, Timestamp(..) | Date32) | (Timestamp(..), Date32 | Time32(_) | Timestamp(..)) | (Time32(_), Time32(_) | Timestamp(..)) => true,
        (List(a), List(b)) => return check(a.data_type(), b.data_type()),
        (Map(a, _), Map(b, _)) => match (map_types(a), map_types(b)) {
            (Some((k1, v1)), Some((k2, v2))) => return check(k1, k2).and_then(|()| check(v1, v2)),
            _ => false,
        },
        (Struct(a), Struct(b)) => {
            if a.len() != b.len() {
                return plan_err!("{} has {} fields and {} has {}: CAST keeps their number", type_name(from), a.len(), type_name(to), b.len());
            }
            return a.iter().zip(b.iter()).try_for_each(|(a, b)| check(a.data_type(), b.data_type()));
        }
        (from, to) => is_interval(from) && is_interval(to),
    };
    if fine {
        return Ok(());
    }
    let hint = match (from, to) {
        (Timestamp(..), to) if is_integer(to) => ": use UNIX_TIMESTAMP(CAST(t AS STRING)), or EXTRACT(EPOCH FROM t)",
        (from, Timestamp(..)) if is_integer(from) => ": use TO_TIMESTAMP_LTZ(n, 0) for seconds, TO_TIMESTAMP_LTZ(n, 3) for milliseconds",
        _ => "",
    };
    plan_err!("{} cannot be cast to {}{hint}", type_name(from), type_name(to))
}

/// A whole column cast; `target` must have passed [`check`].
pub(crate) fn cast_array(array: &ArrayRef, target: &Target, mode: Mode) -> Result<ArrayRef> {
    let to = &target.data_type;
    if array.data_type() == &DataType::Null {
        return Ok(new_null_array(to, array.len()));
    }
    let cast = match (array.data_type(), to) {
        (from, to) if from == to => Arc::clone(array),
        (DataType::Utf8, _) => read::from_text(array.as_string::<i32>(), to, mode)?,
        (DataType::Binary, DataType::Utf8) => {
            let bytes = array.as_binary::<i32>();
            collect_text(bytes.len(), |row, out| {
                if bytes.is_valid(row) {
                    out.push_str(&String::from_utf8_lossy(bytes.value(row)));
                }
                Ok(bytes.is_valid(row).then_some(()))
            })?
        }
        (_, DataType::Utf8) => render::to_text(array, mode.zone)?,
        (DataType::List(_), DataType::List(item)) => {
            let list = array.as_list::<i32>();
            let values = cast_array(list.values(), &item.data_type().clone().into(), mode)?;
            Arc::new(ListArray::try_new(Arc::clone(item), list.offsets().clone(), values, list.nulls().cloned())?)
        }
        (DataType::Map(..), DataType::Map(entries, sorted)) => {
            let (map, Some((key, value))) = (array.as_map(), map_types(entries)) else { return internal_err!("a map without key and value") };
            let keys = cast_array(map.keys(), &key.clone().into(), mode)?;
            let values = cast_array(map.values(), &value.clone().into(), mode)?;
            let DataType::Struct(fields) = entries.data_type() else { return internal_err!("a map without entries") };
            let pairs = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
            Arc::new(MapArray::try_new(Arc::clone(entries), map.offsets().clone(), pairs, map.nulls().cloned(), *sorted)?)
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let row = array.as_struct();
            let columns = row.columns().iter().zip(fields.iter()).map(|(column, field)| cast_array(column, &field.data_type().clone().into(), mode));
            Arc::new(StructArray::try_new(fields.clone(), columns.collect::<Result<_>>()?, row.nulls().cloned())?)
        }
        (from, to) if is_plain(from, to) => arrow::compute::cast(array, to)?,
        (from, to) if (is_numeric(from) || *from == DataType::Boolean) && (is_numeric(to) || *to == DataType::Boolean) => {
            numbers::between(array, to, mode)?
        }
        (from, to) if is_interval(from) && is_interval(to) => arrow::compute::cast(array, to)?,
        (_, to) => times::between(array, to, mode)?,
    };
    match target.length {
        Some(length) => fit(&cast, length),
        None => Ok(cast),
    }
}

/// Text cut or padded with spaces, bytes with zeros.
fn fit(array: &ArrayRef, length: Length) -> Result<ArrayRef> {
    let (Length::AtMost(most) | Length::Exactly(most)) = length;
    let pad = matches!(length, Length::Exactly(_));
    if let Some(texts) = array.as_string_opt::<i32>() {
        return collect_text(texts.len(), |row, out| {
            if texts.is_null(row) {
                return Ok(None);
            }
            let text = texts.value(row);
            match text.char_indices().nth(most) {
                Some((end, _)) => out.push_str(&text[..end]),
                None => {
                    out.push_str(text);
                    if pad {
                        (text.chars().count()..most).for_each(|_| out.push(' '));
                    }
                }
            }
            Ok(Some(()))
        });
    }
    let bytes = array.as_binary::<i32>();
    collect_bytes(bytes.len(), |row, out| {
        if bytes.is_null(row) {
            return Ok(None);
        }
        let value = bytes.value(row);
        out.extend_from_slice(&value[..value.len().min(most)]);
        if pad {
            out.extend(std::iter::repeat_n(0, most.saturating_sub(value.len())));
        }
        Ok(Some(()))
    })
}

/// A value that cannot be cast: null if lenient, else a bad row.
pub(crate) fn failed<T>(mode: Mode, text: &str, to: &DataType, why: &str) -> Result<Option<T>> {
    if mode.lenient {
        return Ok(None);
    }
    Err(bad_row(format!("CAST({} AS {}): {why}", shown(text), type_name(to))))
}
