//! Functions that write JSON: JSON_OBJECT, JSON_ARRAY, JSON_STRING.
//!
//! As in Flink the fields of an object stand in the order of their names, and numbers look as Java's BigDecimal.

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{DataType, Float64Type, TimeUnit},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use chrono_tz::Tz;
use datafusion::{
    common::{Result, plan_err},
    logical_expr::Expr,
};

use super::{
    Bind, Call, Param, Spec,
    json_path::{Json, number, quote},
};
use crate::{
    cast::{cast_array, render},
    func::{Bound, Plan, Typed, collect_text},
    types::type_name,
};

use Param::{Any, Text};

pub(super) const SPECS: &[Spec] = &[
    Spec { name: "JSON_OBJECT", params: &[Text], optional: 0, rest: Some(Any), bind: object },
    Spec { name: "JSON_ARRAY", params: &[Text], optional: 0, rest: Some(Any), bind: array },
    Spec { name: "JSON_STRING", params: &[Any], optional: 0, rest: None, bind: string },
    Spec { name: "JSON", params: &[Text], optional: 0, rest: None, bind: |call| Ok(Bind::Expr(call.args[0].clone())) },
];

const RAW: &str = "JSON_AS_IS";

/// Marks a value that is JSON already, so that a JSON function around it takes it in as it is.
pub(crate) fn raw_json(value: Typed) -> Typed {
    let plan = Plan::new(DataType::Utf8, |columns| columns.array(0));
    // Not folded away: the mark is what counts. A constant inside is folded with the call around it.
    plan.call(RAW, String::new(), vec![value])
}

fn is_raw(value: &Typed) -> bool {
    matches!(&value.expr, Expr::ScalarFunction(call) if call.func.name() == RAW && Bound::of(&call.func).is_some())
}

/// How to write a column's values as JSON; nulls are for the caller.
type Writer = Box<dyn Fn(usize, &mut String)>;

fn writer(array: &ArrayRef, raw: bool, zone: Tz) -> Result<Writer> {
    let (quoted, text) = match array.data_type() {
        DataType::Utf8 if raw => {
            let texts = array.as_string::<i32>().clone();
            return Ok(Box::new(move |row, out| match Json::parse(texts.value(row)) {
                Some(json) => json.write(out),
                None => out.push_str("null"),
            }));
        }
        DataType::Boolean => {
            let flags = array.as_boolean().clone();
            return Ok(Box::new(move |row, out| out.push_str(if flags.value(row) { "true" } else { "false" })));
        }
        DataType::Float32 | DataType::Float64 => {
            let wide = arrow::compute::cast(array, &DataType::Float64)?;
            let values = wide.as_primitive::<Float64Type>().clone();
            return Ok(Box::new(move |row, out| {
                let finite = values.value(row).is_finite();
                let mut shown = String::new();
                render::double(values.value(row), &mut shown);
                let shown = if shown == "-0.0" { "0.0" } else { &shown };
                if finite { number(shown, out) } else { quote(shown, out) }
            }));
        }
        DataType::Binary => {
            let bytes = array.as_binary::<i32>().clone();
            return Ok(Box::new(move |row, out| quote(&STANDARD.encode(bytes.value(row)), out)));
        }
        DataType::Timestamp(unit, local) => {
            let (ticks, unit, local) = (crate::cast::ticks(array)?, *unit, local.is_some());
            return Ok(Box::new(move |row, out| iso(ticks.value(row), &unit, local, out)));
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>().clone();
            let items = nullable(list.values(), zone)?;
            return Ok(Box::new(move |row, out| {
                let offsets = list.value_offsets();
                joined(out, ('[', ']'), offsets[row]..offsets[row + 1], |index, out| items(index as usize, out));
            }));
        }
        DataType::Map(..) => {
            let map = array.as_map().clone();
            let keys = cast_array(map.keys(), &DataType::Utf8.into(), crate::cast::Mode { zone, lenient: false })?.as_string::<i32>().clone();
            let values = nullable(map.values(), zone)?;
            return Ok(Box::new(move |row, out| {
                let offsets = map.value_offsets();
                let mut places: Vec<i32> = (offsets[row]..offsets[row + 1]).collect();
                places.sort_by_key(|place| keys.value(*place as usize));
                joined(out, ('{', '}'), places.into_iter(), |index, out| {
                    quote(keys.value(index as usize), out);
                    out.push(':');
                    values(index as usize, out);
                });
            }));
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter().map(|column| nullable(column, zone)).collect::<Result<Vec<_>>>()?;
            let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
            let mut places: Vec<i32> = (0..names.len() as i32).collect();
            places.sort_by_key(|place| &names[*place as usize]);
            return Ok(Box::new(move |row, out| {
                joined(out, ('{', '}'), places.iter().copied(), |index, out| {
                    quote(&names[index as usize], out);
                    out.push(':');
                    columns[index as usize](row, out);
                });
            }));
        }
        DataType::Utf8 | DataType::Date32 | DataType::Time32(_) | DataType::Interval(_) => (true, render::writer(array, zone)?),
        _ => (false, render::writer(array, zone)?),
    };
    if !quoted {
        return Ok(text);
    }
    Ok(Box::new(move |row, out| {
        let mut shown = String::new();
        text(row, &mut shown);
        quote(&shown, out);
    }))
}

fn nullable(array: &ArrayRef, zone: Tz) -> Result<Writer> {
    let (inner, nulls) = (writer(array, false, zone)?, array.logical_nulls());
    Ok(Box::new(move |row, out| {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            out.push_str("null");
        } else {
            inner(row, out);
        }
    }))
}

fn joined(out: &mut String, (open, close): (char, char), places: impl Iterator<Item = i32>, item: impl Fn(i32, &mut String)) {
    out.push(open);
    for (position, index) in places.enumerate() {
        if position > 0 {
            out.push(',');
        }
        item(index, out);
    }
    out.push(close);
}

/// `2020-01-01T10:11:12.5`, without zeros at the end.
fn iso(ticks: i64, unit: &TimeUnit, local: bool, out: &mut String) {
    let mut shown = String::new();
    render::timestamp(ticks, unit, Tz::UTC, &mut shown);
    let shown = shown.replacen(' ', "T", 1);
    let short = if shown.contains('.') { shown.trim_end_matches('0').trim_end_matches('.') } else { &shown };
    quote(&if local { format!("{short}Z") } else { short.to_owned() }, out);
}

fn writable(call: &Call<'_>, values: &[Typed]) -> Result<()> {
    match values.iter().find(|value| matches!(value.data_type, DataType::Interval(_))) {
        Some(value) => plan_err!("{} cannot write {}", call.name, type_name(&value.data_type)),
        None => Ok(()),
    }
}

/// JSON_OBJECT(nulls, key, value, …).
fn object(call: &Call<'_>) -> Result<Bind> {
    let [_, pairs @ ..] = call.args else { return plan_err!("JSON_OBJECT takes KEY … VALUE …") };
    writable(call, pairs)?;
    if pairs.len() % 2 != 0 {
        return plan_err!("JSON_OBJECT takes pairs: KEY … VALUE …");
    }
    if let Some(key) = pairs.iter().step_by(2).find(|key| key.data_type != DataType::Utf8) {
        return plan_err!("JSON_OBJECT: a key is a text, got {}", type_name(&key.data_type));
    }
    let absent = call.constant(0) == Some("ABSENT");
    let raw: Vec<bool> = pairs.iter().map(is_raw).collect();
    let zone = call.zone();
    let plan = Plan::new(DataType::Utf8, move |columns| {
        let keys = (1..columns.len()).step_by(2).map(|index| columns.texts(index)).collect::<Result<Vec<_>>>()?;
        let values = (2..columns.len()).step_by(2).map(|index| columns.array(index)).collect::<Result<Vec<_>>>()?;
        let writers = values.iter().zip(raw.iter().skip(1).step_by(2)).map(|(array, raw)| writer(array, *raw, zone)).collect::<Result<Vec<_>>>()?;
        collect_text(columns.rows, |row, out| {
            let mut fields = Vec::with_capacity(keys.len());
            for (index, key) in keys.iter().enumerate() {
                let Some(key) = key.get(row) else { return Err(crate::error::bad_row("JSON_OBJECT: a key is null")) };
                let null = is_null(&values[index], row);
                if !(null && absent) {
                    // Of equal keys the last one holds.
                    fields.retain(|(known, _, _): &(&str, usize, bool)| *known != key);
                    fields.push((key, index, null));
                }
            }
            fields.sort_by_key(|(key, _, _)| *key);
            out.push('{');
            for (position, (key, index, null)) in fields.into_iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                quote(key, out);
                out.push(':');
                if null { out.push_str("null") } else { writers[index](row, out) }
            }
            out.push('}');
            Ok(Some(()))
        })
    });
    Ok(if pairs.iter().step_by(2).all(|key| key.text().is_some()) { plan } else { plan.fallible() }.into())
}

fn is_null(array: &ArrayRef, row: usize) -> bool {
    array.data_type() == &DataType::Null || array.is_null(row)
}

/// JSON_ARRAY(nulls, value, …).
fn array(call: &Call<'_>) -> Result<Bind> {
    let [_, values @ ..] = call.args else { return plan_err!("JSON_ARRAY takes values") };
    writable(call, values)?;
    let absent = call.constant(0) == Some("ABSENT");
    let raw: Vec<bool> = values.iter().map(is_raw).collect();
    let zone = call.zone();
    Ok(Plan::new(DataType::Utf8, move |columns| {
        let values = (1..columns.len()).map(|index| columns.array(index)).collect::<Result<Vec<_>>>()?;
        let writers = values.iter().zip(&raw).map(|(array, raw)| writer(array, *raw, zone)).collect::<Result<Vec<_>>>()?;
        collect_text(columns.rows, |row, out| {
            out.push('[');
            let mut first = true;
            for (value, write) in values.iter().zip(&writers) {
                let null = is_null(value, row);
                if null && absent {
                    continue;
                }
                if !first {
                    out.push(',');
                }
                first = false;
                if null { out.push_str("null") } else { write(row, out) }
            }
            out.push(']');
            Ok(Some(()))
        })
    })
    .into())
}

/// A value as JSON; null stays null.
fn string(call: &Call<'_>) -> Result<Bind> {
    writable(call, call.args)?;
    let (raw, zone) = (is_raw(&call.args[0]), call.zone());
    Ok(Plan::new(DataType::Utf8, move |columns| {
        let value = columns.array(0)?;
        let write = writer(&value, raw, zone)?;
        collect_text(columns.rows, |row, out| {
            if is_null(&value, row) {
                return Ok(None);
            }
            write(row, out);
            Ok(Some(()))
        })
    })
    .into())
}
