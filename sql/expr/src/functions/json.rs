//! Functions that read JSON: JSON_VALUE, JSON_QUERY, JSON_EXISTS, IS JSON, JSON_UNQUOTE.
//!
//! The dialect writes their clauses as arguments: json, path, type, wrapper, ON EMPTY and its default, ON ERROR and its
//! default. What is no JSON is an error of ON ERROR; what a lax path does not find, and null, is ON EMPTY.

use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, plan_err};
use serde_json::Value;

use super::{Bind, Call, Param, Spec, json_path::Path};
use crate::{
    cast::{Mode, cast_to},
    error::{bad_row, shown},
    func::{Plan, Texts, collect_bool, collect_text},
    types::parse,
};

use Param::{Any, Text};

const CLAUSES: &[Param] = &[Text, Text, Text, Text, Text, Any, Text, Any];

pub(super) const SPECS: &[Spec] = &[
    Spec { name: "JSON_VALUE", params: CLAUSES, optional: 0, rest: None, bind: value },
    Spec { name: "JSON_QUERY", params: CLAUSES, optional: 0, rest: None, bind: query },
    Spec { name: "JSON_EXISTS", params: CLAUSES, optional: 0, rest: None, bind: exists },
    Spec { name: "IS_JSON", params: &[Text, Text], optional: 0, rest: None, bind: is_json },
    Spec { name: "JSON_UNQUOTE", params: &[Text], optional: 0, rest: None, bind: unquote },
];

/// What a path found.
enum Found {
    Value(Value),
    Empty,
    Error(String),
}

/// A path that is constant is compiled once.
enum Paths {
    Constant(Path),
    Column,
}

impl Paths {
    fn of(call: &Call<'_>) -> Result<Self> {
        match call.constant(1) {
            Some(text) => Ok(Self::Constant(Path::parse(text).map_err(|why| DataFusionError::Plan(format!("{}: {why}", call.name)))?)),
            None => Ok(Self::Column),
        }
    }

    /// What stands at the path of a row; `None` if JSON or path is null. `fits` tells values that may be returned.
    fn find(&self, json: &Texts, paths: &Texts, row: usize, fits: fn(&Value) -> bool) -> Option<Found> {
        let (json, written) = (json.get(row)?, paths.get(row)?);
        let parsed;
        let path = match self {
            Self::Constant(path) => path,
            Self::Column => match Path::parse(written) {
                Ok(path) => {
                    parsed = path;
                    &parsed
                }
                Err(why) => return Some(Found::Error(why)),
            },
        };
        let Ok(document) = serde_json::from_str::<Value>(json) else {
            return Some(Found::Error(format!("{} is no JSON", shown(json))));
        };
        Some(match path.find(&document) {
            Some(Value::Null) => Found::Empty,
            Some(value) if fits(&value) => Found::Value(value),
            Some(_) if path.lax => Found::Empty,
            Some(_) => Found::Error(format!("{written} leads to a value of another kind")),
            None if path.lax => Found::Empty,
            None => Found::Error(format!("{written} leads nowhere")),
        })
    }
}

fn clause(call: &Call<'_>, index: usize) -> String {
    call.constant(index).unwrap_or_default().to_owned()
}

fn value(call: &Call<'_>) -> Result<Bind> {
    let paths = Paths::of(call)?;
    let (on_empty, on_error) = (clause(call, 4), clause(call, 6));
    let target = match call.constant(2) {
        Some(text) => parse::parse(text).map_err(DataFusionError::Plan)?,
        None => DataType::Utf8.into(),
    };
    let mut args = vec![call.args[0].clone(), call.args[1].clone()];
    for default in [5, 7] {
        // A default is as good as a value only if it has the type that is returned.
        let checked = cast_to(call.args[default].clone(), &target, call.mode())?;
        args.push(cast_to(checked, &DataType::Utf8.into(), call.mode())?);
    }
    let key = format!("{} {on_empty} {on_error}", call.constant(1).unwrap_or_default());
    let name = call.name.to_owned();
    let fails = on_empty == "ERROR" || on_error == "ERROR";
    let plan = Plan::new(DataType::Utf8, move |columns| {
        let (json, written) = (columns.texts(0)?, columns.texts(1)?);
        let (if_empty, if_error) = (columns.texts(2)?, columns.texts(3)?);
        collect_text(columns.rows, |row, out| {
            let Some(found) = paths.find(&json, &written, row, |value| !value.is_array() && !value.is_object()) else { return Ok(None) };
            let (how, default, why) = match found {
                Found::Value(value) => {
                    scalar(&value, out);
                    return Ok(Some(()));
                }
                Found::Empty => (&on_empty, &if_empty, "nothing is there".to_owned()),
                Found::Error(why) => (&on_error, &if_error, why),
            };
            match how.as_str() {
                "ERROR" => Err(bad_row(format!("{name}: {why}"))),
                "DEFAULT" => Ok(default.get(row).map(|text| out.push_str(text))),
                _ => Ok(None),
            }
        })
    });
    let text = if fails { plan.fallible() } else { plan }.call(call.name, key, args);
    Ok(Bind::Expr(cast_to(text, &target, Mode { zone: call.zone(), lenient: true })?))
}

/// A value that is no array and no object, as text.
fn scalar(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => out.push_str(text),
        Value::Number(number) => match (number.is_f64(), number.as_f64()) {
            (true, Some(double)) => crate::cast::render::double(double, out),
            _ => out.push_str(&number.to_string()),
        },
        other => out.push_str(&other.to_string()),
    }
}

fn query(call: &Call<'_>) -> Result<Bind> {
    if let Some(returning) = call.constant(2)
        && parse::parse(returning).map_err(DataFusionError::Plan)?.data_type != DataType::Utf8
    {
        return plan_err!("JSON_QUERY RETURNING {returning} is not built, it returns STRING");
    }
    let paths = Paths::of(call)?;
    let (wrapper, on_empty, on_error) = (clause(call, 3), clause(call, 4), clause(call, 6));
    let name = call.name.to_owned();
    let key = format!("{} {wrapper} {on_empty} {on_error}", call.constant(1).unwrap_or_default());
    let fails = on_empty == "ERROR" || on_error == "ERROR";
    let wrapped = matches!(wrapper.as_str(), "WITH" | "CONDITIONAL");
    let plan = Plan::new(DataType::Utf8, move |columns| {
        let (json, written) = (columns.texts(0)?, columns.texts(1)?);
        let fits: fn(&Value) -> bool = if wrapped { |_| true } else { |value| value.is_array() || value.is_object() };
        collect_text(columns.rows, |row, out| {
            let Some(found) = paths.find(&json, &written, row, fits) else { return Ok(None) };
            let (how, why) = match found {
                Found::Value(value) => {
                    let value = match wrapper.as_str() {
                        "WITH" => Value::Array(vec![value]),
                        "CONDITIONAL" if !value.is_array() && !value.is_object() => Value::Array(vec![value]),
                        _ => value,
                    };
                    out.push_str(&value.to_string());
                    return Ok(Some(()));
                }
                Found::Empty => (&on_empty, "nothing is there".to_owned()),
                Found::Error(why) => (&on_error, why),
            };
            match how.as_str() {
                "ERROR" => Err(bad_row(format!("{name}: {why}"))),
                "EMPTY ARRAY" => {
                    out.push_str("[]");
                    Ok(Some(()))
                }
                "EMPTY OBJECT" => {
                    out.push_str("{}");
                    Ok(Some(()))
                }
                _ => Ok(None),
            }
        })
    });
    let plan = if fails { plan.fallible() } else { plan };
    Ok(Bind::Expr(plan.call(call.name, key, call.args[..2].to_vec())))
}

fn exists(call: &Call<'_>) -> Result<Bind> {
    let paths = Paths::of(call)?;
    let on_error = clause(call, 6);
    let key = format!("{} {on_error}", call.constant(1).unwrap_or_default());
    let fails = on_error == "ERROR";
    let plan = Plan::new(DataType::Boolean, move |columns| {
        let (json, written) = (columns.texts(0)?, columns.texts(1)?);
        collect_bool(columns.rows, |row| match paths.find(&json, &written, row, |_| true) {
            None => Ok(None),
            Some(Found::Value(_)) => Ok(Some(true)),
            Some(Found::Empty) => Ok(Some(false)),
            Some(Found::Error(why)) => match on_error.as_str() {
                "TRUE" => Ok(Some(true)),
                "UNKNOWN" => Ok(None),
                "ERROR" => Err(bad_row(format!("JSON_EXISTS: {why}"))),
                _ => Ok(Some(false)),
            },
        })
    });
    let plan = if fails { plan.fallible() } else { plan };
    Ok(Bind::Expr(plan.call(call.name, key, call.args[..2].to_vec())))
}

fn is_json(call: &Call<'_>) -> Result<Bind> {
    let kind = clause(call, 1);
    let plan = Plan::new(DataType::Boolean, move |columns| {
        let json = columns.texts(0)?;
        collect_bool(columns.rows, |row| {
            let parsed = json.get(row).and_then(|text| serde_json::from_str::<Value>(text).ok());
            Ok(Some(parsed.is_some_and(|value| match kind.as_str() {
                "OBJECT" => value.is_object(),
                "ARRAY" => value.is_array(),
                "SCALAR" => !value.is_object() && !value.is_array(),
                _ => true,
            })))
        })
    });
    Ok(plan.into())
}

/// A text in JSON's quotes without them; anything else as it is.
fn unquote(_: &Call<'_>) -> Result<Bind> {
    Ok(Plan::new(DataType::Utf8, |columns| {
        let json = columns.texts(0)?;
        collect_text(columns.rows, |row, out| {
            Ok(json.get(row).map(|text| match serde_json::from_str::<Value>(text) {
                Ok(Value::String(inner)) => out.push_str(&inner),
                _ => out.push_str(text),
            }))
        })
    })
    .into())
}


#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_flink_writes_them() {
        let check = |json: &str, expected: &str| {
            let mut out = String::new();
            scalar(&serde_json::from_str(json).expect("JSON"), &mut out);
            assert_eq!(out, expected);
        };
        check("1", "1");
        check("1e300", "1.0E300");
        check("\"x\"", "x");
        check("true", "true");
    }
}
