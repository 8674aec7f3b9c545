//! Functions that read JSON: JSON_VALUE, JSON_QUERY, JSON_EXISTS, IS JSON.

use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, plan_err};

use super::{
    Bind, Call, Param, Spec,
    json_path::{Json, Path, quote},
};
use crate::{
    cast::{Mode, cast_to},
    error::{bad_row, shown},
    func::{Plan, Texts, Typed, collect_bool, collect_text},
    translate::{boolean, case_of},
    types::parse::parse,
};

use Param::{Any, Text};

/// json, path, returning, wrapper, on empty, its default, on error, its default: as the dialect writes them.
const PATH_CALL: &[Param] = &[Text, Text, Text, Text, Text, Any, Text, Any];

pub(super) const SPECS: &[Spec] = &[
    Spec { name: "JSON_VALUE", params: PATH_CALL, optional: 6, rest: None, bind: json_value },
    Spec { name: "JSON_QUERY", params: PATH_CALL, optional: 6, rest: None, bind: json_query },
    Spec { name: "JSON_EXISTS", params: PATH_CALL, optional: 6, rest: None, bind: json_exists },
    Spec { name: "IS_JSON", params: &[Text, Text], optional: 1, rest: None, bind: is_json },
    Spec { name: "JSON_QUOTE", params: &[Text], optional: 0, rest: None, bind: |_| Ok(each(quote_ascii)) },
    Spec { name: "JSON_UNQUOTE", params: &[Text], optional: 0, rest: None, bind: |_| Ok(each(unquote)) },
];

fn each(write: fn(&str, &mut String)) -> Bind {
    Plan::new(DataType::Utf8, move |columns| {
        let texts = columns.texts(0)?;
        collect_text(columns.rows, |row, out| Ok(texts.get(row).map(|text| write(text, out))))
    })
    .into()
}

/// A JSON string of ASCII: all other characters are escaped, as Flink's JSON_QUOTE does.
fn quote_ascii(text: &str, out: &mut String) {
    let mut quoted = String::new();
    quote(text, &mut quoted);
    for c in quoted.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
}

/// A JSON string's text; what is no JSON string stays as it is.
fn unquote(text: &str, out: &mut String) {
    match Json::parse(text) {
        Some(Json::Text(inner)) if text.starts_with('"') => out.push_str(&inner),
        _ => out.push_str(text),
    }
}

/// Paths: fixed, or another one for each row.
enum Paths {
    Fixed(Path),
    Varying,
}

impl Paths {
    fn of(call: &Call<'_>) -> Result<Self> {
        match call.constant(1) {
            Some(text) => Ok(Self::Fixed(Path::new(text).map_err(DataFusionError::Plan)?)),
            None => Ok(Self::Varying),
        }
    }

    fn get(&self, texts: &Texts, row: usize) -> Result<Option<Path>> {
        match self {
            Self::Fixed(path) => Ok(Some(path.clone())),
            Self::Varying => texts.get(row).map(|text| Path::new(text).map_err(bad_row)).transpose(),
        }
    }
}

/// What a path led to.
enum Outcome<'a> {
    Value(&'a str),
    Empty,
    Error,
}

fn option(call: &Call<'_>, index: usize) -> String {
    call.constant(index).unwrap_or("NULL").to_owned()
}

/// A single value as text, cast to RETURNING.
fn json_value(call: &Call<'_>) -> Result<Bind> {
    let target = match call.constant(2) {
        Some(name) => parse(name).map_err(DataFusionError::Plan)?,
        None => DataType::Utf8.into(),
    };
    let (empty, error) = (option(call, 4), option(call, 6));
    let allowed = |option: &str| matches!(option, "NULL" | "ERROR" | "DEFAULT");
    if !allowed(&empty) || !allowed(&error) {
        return plan_err!("JSON_VALUE: NULL, ERROR or DEFAULT … stand before ON EMPTY and ON ERROR");
    }
    let scalar = |wanted: u8| outcome(call, wanted, &empty, &error);
    let value = scalar(VALUE)?;
    let cast = cast_to(value, &target, Mode { zone: call.zone(), lenient: error != "ERROR" })?;
    let default = |index: usize| -> Result<Typed> {
        let value = call.args.get(index).cloned().unwrap_or_else(|| Typed::literal(datafusion::common::ScalarValue::Null));
        cast_to(value, &target, call.mode())
    };
    let (mut whens, mut results) = (Vec::new(), Vec::new());
    if empty == "DEFAULT" {
        whens.push(is_true(scalar(EMPTY)?));
        results.push(default(5)?);
    }
    if error == "DEFAULT" {
        whens.push(is_true(scalar(ERROR)?));
        results.push(default(7)?);
    }
    if whens.is_empty() {
        return Ok(Bind::Expr(cast));
    }
    results.push(cast);
    Ok(Bind::Expr(case_of(whens, results)))
}

fn is_true(text: Typed) -> Typed {
    boolean(datafusion::logical_expr::Expr::IsNotNull(Box::new(text.expr)))
}

const VALUE: u8 = 0;
const EMPTY: u8 = 1;
const ERROR: u8 = 2;

/// The scalar's text, or (for EMPTY and ERROR) some text where that is what came out.
fn outcome(call: &Call<'_>, wanted: u8, on_empty: &str, on_error: &str) -> Result<Typed> {
    let paths = Paths::of(call)?;
    let fails = (on_empty == "ERROR", on_error == "ERROR");
    let plan = Plan::new(DataType::Utf8, move |columns| {
        let (texts, path_texts) = (columns.texts(0)?, columns.texts(1)?);
        collect_text(columns.rows, |row, out| {
            let (Some(text), Some(path)) = (texts.get(row), paths.get(&path_texts, row)?) else { return Ok(None) };
            let json = Json::parse(text);
            let mut rendered = String::new();
            let outcome = match &json {
                // A lax path takes a text that is no JSON for nothing.
                None if path.is_lax() => Outcome::Empty,
                None => Outcome::Error,
                Some(json) => match path.find(json).as_slice() {
                    [] if path.is_lax() || path.is_multiple() => Outcome::Empty,
                    [Json::Null] => Outcome::Empty,
                    [Json::Text(inner)] => Outcome::Value(inner),
                    [scalar] if scalar.is_scalar() => {
                        scalar.write(&mut rendered);
                        Outcome::Value(&rendered)
                    }
                    _ => Outcome::Error,
                },
            };
            let why = |what: &str| bad_row(format!("{} of {}: {what}", "JSON_VALUE", shown(text)));
            match outcome {
                Outcome::Value(value) if wanted == VALUE => out.push_str(value),
                Outcome::Empty if wanted == EMPTY => out.push('x'),
                Outcome::Error if wanted == ERROR => out.push('x'),
                Outcome::Empty if fails.0 && wanted == VALUE => return Err(why("nothing is at the path")),
                Outcome::Error if fails.1 && wanted == VALUE => return Err(why("no single value is at the path, or the text is no JSON")),
                _ => return Ok(None),
            }
            Ok(Some(()))
        })
    });
    let fallible = fails.0 || fails.1 || call.constant(1).is_none();
    let plan = if fallible { plan.fallible() } else { plan };
    let name = match wanted {
        VALUE => "JSON_VALUE",
        EMPTY => "JSON_VALUE_IS_EMPTY",
        _ => "JSON_VALUE_IS_ERROR",
    };
    Ok(plan.call(name, format!("{fails:?} {}", call.constant(1).unwrap_or_default()), call.args[..2].to_vec()))
}

/// An object or array as JSON text.
fn json_query(call: &Call<'_>) -> Result<Bind> {
    if call.constant(2).is_some_and(|name| !name.trim().starts_with("STRING") && !name.trim().starts_with("VARCHAR")) {
        return plan_err!("JSON_QUERY returns STRING; RETURNING ARRAY<STRING> is not built");
    }
    let (wrapper, empty, error) = (option(call, 3), option(call, 4), option(call, 6));
    let known = |option: &str| matches!(option, "NULL" | "ERROR" | "EMPTY ARRAY" | "EMPTY OBJECT");
    if !known(&empty) || !known(&error) {
        return plan_err!("JSON_QUERY: NULL, EMPTY ARRAY, EMPTY OBJECT or ERROR stand before ON EMPTY and ON ERROR");
    }
    let fallible = empty == "ERROR" || error == "ERROR" || call.constant(1).is_none();
    let paths = Paths::of(call)?;
    let plan = Plan::new(DataType::Utf8, move |columns| {
        let (texts, path_texts) = (columns.texts(0)?, columns.texts(1)?);
        collect_text(columns.rows, |row, out| {
            let (Some(text), Some(path)) = (texts.get(row), paths.get(&path_texts, row)?) else { return Ok(None) };
            let json = Json::parse(text);
            let found = match &json {
                None if path.is_lax() => Err(&empty),
                None => Err(&error),
                Some(json) => {
                    let values = path.find(json);
                    if path.is_multiple() { Ok(Json::Array(values.into_iter().cloned().collect())) } else { single(values, path.is_lax(), &empty, &error) }
                }
            };
            let wrapped = found.and_then(|value| match (wrapper.as_str(), value.is_scalar()) {
                ("WITH", _) | ("CONDITIONAL", true) => Ok(Json::Array(vec![value])),
                (_, true) => Err(if value == Json::Null { &empty } else { &error }),
                (_, false) => Ok(value),
            });
            match wrapped.map_err(String::as_str) {
                Ok(value) => value.write(out),
                Err("EMPTY ARRAY") => out.push_str("[]"),
                Err("EMPTY OBJECT") => out.push_str("{}"),
                Err("ERROR") => return Err(bad_row(format!("JSON_QUERY of {}: no object or array is at the path", shown(text)))),
                Err(_) => return Ok(None),
            }
            Ok(Some(()))
        })
    });
    Ok(if fallible { plan.fallible() } else { plan }.into())
}

fn single<'a, 'o>(values: Vec<&Json<'a>>, lax: bool, empty: &'o String, error: &'o String) -> std::result::Result<Json<'a>, &'o String> {
    match values.into_iter().next() {
        Some(value) => Ok(value.clone()),
        None => Err(if lax { empty } else { error }),
    }
}

fn json_exists(call: &Call<'_>) -> Result<Bind> {
    let on_error = match option(call, 6).as_str() {
        "TRUE" => Some(true),
        "UNKNOWN" => None,
        "ERROR" => return plan_err!("JSON_EXISTS: TRUE, FALSE or UNKNOWN stand before ON ERROR"),
        _ => Some(false),
    };
    let paths = Paths::of(call)?;
    let plan = Plan::new(DataType::Boolean, move |columns| {
        let (texts, path_texts) = (columns.texts(0)?, columns.texts(1)?);
        collect_bool(columns.rows, |row| {
            let (Some(text), Some(path)) = (texts.get(row), paths.get(&path_texts, row)?) else { return Ok(None) };
            let Some(json) = Json::parse(text) else { return Ok(if path.is_lax() { Some(false) } else { on_error }) };
            Ok(match path.find(&json).as_slice() {
                [] if !path.is_lax() && !path.is_multiple() => on_error,
                [] => Some(false),
                // A null counts as nothing, as in Flink.
                [Json::Null] => Some(false),
                _ => Some(true),
            })
        })
    });
    Ok(if call.constant(1).is_none() { plan.fallible() } else { plan }.into())
}

fn is_json(call: &Call<'_>) -> Result<Bind> {
    let kind = call.constant(1).unwrap_or("VALUE").to_owned();
    Ok(Plan::new(DataType::Boolean, move |columns| {
        let texts = columns.texts(0)?;
        collect_bool(columns.rows, |row| {
            // Null is no JSON.
            Ok(Some(match (kind.as_str(), texts.get(row).and_then(Json::parse)) {
                (_, None) => false,
                ("OBJECT", Some(json)) => matches!(json, Json::Object(_)),
                ("ARRAY", Some(json)) => matches!(json, Json::Array(_)),
                ("SCALAR", Some(json)) => json.is_scalar(),
                _ => true,
            }))
        })
    })
    .into())
}
