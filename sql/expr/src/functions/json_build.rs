//! Functions that write JSON: JSON_OBJECT, JSON_ARRAY, JSON_STRING, JSON_QUOTE, JSON.

use std::{fmt::Write as _, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::DataType,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use chrono_tz::Tz;
use datafusion::{
    common::{Result, plan_err},
    logical_expr::Expr,
};

use super::{Bind, Call, Param, Spec};
use crate::{
    cast::render::{Writer, writer},
    error::bad_row,
    func::{Columns, Plan, Typed, collect_text},
};

use Param::{Any, Text};

pub(super) const SPECS: &[Spec] = &[
    Spec { name: "JSON_OBJECT", params: &[Text], optional: 0, rest: Some(Any), bind: object },
    Spec { name: "JSON_ARRAY", params: &[Text], optional: 0, rest: Some(Any), bind: array },
    Spec { name: "JSON_STRING", params: &[Any], optional: 0, rest: None, bind: |call| text(call, true) },
    Spec { name: "JSON_QUOTE", params: &[Text], optional: 0, rest: None, bind: |call| text(call, false) },
    Spec { name: "JSON", params: &[Text], optional: 0, rest: None, bind: |call| Ok(Bind::Expr(call.args[0].clone())) },
];

const RAW: &str = "raw_json";

/// Text that is JSON already and stays so inside other JSON.
pub(crate) fn raw_json(value: Typed) -> Typed {
    Plan::new(DataType::Utf8, |columns| columns.array(0)).call(RAW, String::new(), vec![value])
}

fn is_raw(value: &Typed) -> bool {
    matches!(&value.expr, Expr::ScalarFunction(call) if call.func.name() == RAW)
}

/// One argument's writer, and whether it is null at a row.
struct Part {
    array: ArrayRef,
    step: usize,
    write: Writer,
}

impl Part {
    fn of(columns: &Columns<'_>, index: usize, raw: bool, zone: Tz) -> Result<Self> {
        let (array, step) = columns.column(index)?;
        let write = if raw { writer(&array, zone)? } else { json_writer(&array, zone)? };
        Ok(Self { array, step, write })
    }

    fn is_null(&self, row: usize) -> bool {
        let index = row * self.step;
        self.array.is_null(index) || self.array.data_type() == &DataType::Null
    }

    fn write(&self, row: usize, out: &mut String) {
        if self.is_null(row) {
            out.push_str("null");
        } else {
            (self.write)(row * self.step, out);
        }
    }
}

fn parts(columns: &Columns<'_>, raw: &[bool], zone: Tz) -> Result<Vec<Part>> {
    raw.iter().enumerate().map(|(index, raw)| Part::of(columns, index + 1, *raw, zone)).collect()
}

fn object(call: &Call<'_>) -> Result<Bind> {
    let (absent, zone) = (call.constant(0) == Some("ABSENT"), call.zone());
    if call.args.len() % 2 == 0 {
        return plan_err!("JSON_OBJECT takes keys with values: JSON_OBJECT('k' VALUE v)");
    }
    if let Some(key) = call.args.iter().skip(1).step_by(2).find(|key| key.data_type != DataType::Utf8) {
        return plan_err!("JSON_OBJECT: a key is a text, got {}", crate::types::type_name(&key.data_type));
    }
    let raw: Vec<bool> = call.args[1..].iter().map(is_raw).collect();
    let plan = Plan::new(DataType::Utf8, move |columns| {
        let parts = parts(columns, &raw, zone)?;
        collect_text(columns.rows, |row, out| {
            out.push('{');
            let before = out.len();
            for pair in parts.chunks_exact(2) {
                let [key, value] = pair else { continue };
                if key.is_null(row) {
                    return Err(bad_row("JSON_OBJECT: a key is null"));
                }
                if absent && value.is_null(row) {
                    continue;
                }
                if out.len() > before {
                    out.push(',');
                }
                key.write(row, out);
                out.push(':');
                value.write(row, out);
            }
            out.push('}');
            Ok(Some(()))
        })
    });
    Ok(plan.fallible().into())
}

fn array(call: &Call<'_>) -> Result<Bind> {
    let (absent, zone) = (call.constant(0) == Some("ABSENT"), call.zone());
    let raw: Vec<bool> = call.args[1..].iter().map(is_raw).collect();
    let plan = Plan::new(DataType::Utf8, move |columns| {
        let parts = parts(columns, &raw, zone)?;
        collect_text(columns.rows, |row, out| {
            out.push('[');
            let before = out.len();
            for value in &parts {
                if absent && value.is_null(row) {
                    continue;
                }
                if out.len() > before {
                    out.push(',');
                }
                value.write(row, out);
            }
            out.push(']');
            Ok(Some(()))
        })
    });
    Ok(plan.into())
}

/// A value as JSON; null stays null.
fn text(call: &Call<'_>, any: bool) -> Result<Bind> {
    let (zone, raw) = (call.zone(), any && is_raw(&call.args[0]));
    Ok(Plan::new(DataType::Utf8, move |columns| {
        let part = Part::of(columns, 0, raw, zone)?;
        collect_text(columns.rows, |row, out| {
            if part.is_null(row) {
                return Ok(None);
            }
            part.write(row, out);
            Ok(Some(()))
        })
    })
    .into())
}

/// A text in JSON's quotes.
fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// How the values of a column stand in JSON.
fn json_writer(array: &ArrayRef, zone: Tz) -> Result<Writer> {
    Ok(match array.data_type() {
        DataType::Boolean => {
            let flags = array.as_boolean().clone();
            Box::new(move |row, out| out.push_str(if flags.value(row) { "true" } else { "false" }))
        }
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Decimal128(..) => writer(array, zone)?,
        DataType::Float32 | DataType::Float64 => {
            let write = writer(array, zone)?;
            Box::new(move |row, out| {
                let start = out.len();
                write(row, out);
                // NaN and the infinities have no form in JSON but as texts.
                if out[start..].ends_with(|c: char| c.is_ascii_alphabetic()) {
                    let word = out.split_off(start);
                    quoted(&word, out);
                }
            })
        }
        DataType::Binary => {
            let bytes = array.as_binary::<i32>().clone();
            Box::new(move |row, out| {
                out.push('"');
                STANDARD.encode_string(bytes.value(row), out);
                out.push('"');
            })
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>().clone();
            let (items, write) = (Arc::clone(list.values()), json_writer(list.values(), zone)?);
            Box::new(move |row, out| {
                out.push('[');
                let (start, end) = (list.value_offsets()[row] as usize, list.value_offsets()[row + 1] as usize);
                for item in start..end {
                    if item > start {
                        out.push(',');
                    }
                    write_or_null(&items, &write, item, out);
                }
                out.push(']');
            })
        }
        DataType::Map(..) => {
            let map = array.as_map().clone();
            let (keys, values) = (writer(map.keys(), zone)?, json_writer(map.values(), zone)?);
            Box::new(move |row, out| {
                out.push('{');
                let (start, end) = (map.value_offsets()[row] as usize, map.value_offsets()[row + 1] as usize);
                for entry in start..end {
                    if entry > start {
                        out.push(',');
                    }
                    let mut key = String::new();
                    keys(entry, &mut key);
                    quoted(&key, out);
                    out.push(':');
                    write_or_null(map.values(), &values, entry, out);
                }
                out.push('}');
            })
        }
        DataType::Struct(_) => {
            let row_array = array.as_struct().clone();
            let fields = row_array.column_names().into_iter().zip(row_array.columns()).map(|(name, column)| Ok((name.to_owned(), Arc::clone(column), json_writer(column, zone)?)));
            let fields = fields.collect::<Result<Vec<_>>>()?;
            Box::new(move |row, out| {
                out.push('{');
                for (position, (name, column, write)) in fields.iter().enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    quoted(name, out);
                    out.push(':');
                    write_or_null(column, write, row, out);
                }
                out.push('}');
            })
        }
        data_type => {
            let point = matches!(data_type, DataType::Timestamp(..));
            let write = writer(array, zone)?;
            Box::new(move |row, out| {
                let mut text = String::new();
                write(row, &mut text);
                quoted(&if point { text.replacen(' ', "T", 1) } else { text }, out);
            })
        }
    })
}

fn write_or_null(array: &ArrayRef, write: &Writer, row: usize, out: &mut String) {
    if array.is_null(row) || array.data_type() == &DataType::Null {
        out.push_str("null");
    } else {
        write(row, out);
    }
}
