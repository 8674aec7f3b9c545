//! JSON Schema draft-07 to columns, and whether samples fit them.
//!
//! | JSON Schema | column |
//! |---|---|
//! | `integer` | BIGINT, with a bound outside of it DECIMAL(38, 0) |
//! | `number` | DOUBLE |
//! | `string` | STRING, whatever its format |
//! | `boolean` | BOOLEAN |
//! | `array` of items | ARRAY |
//! | `object` with properties | ROW |
//! | `object` with only `additionalProperties` | MAP of STRING |
//! | anything else, several types | STRING: the JSON text |
//!
//! A column is never NOT NULL: samples show what was there, not what must be.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};
use serde_json::Value;

/// Depth of nested types, so that a schema from a plugin cannot use up the stack.
const DEPTH_MAX: usize = 64;

/// The columns of a schema whose top is an object.
pub fn arrow_fields(text: &str) -> Result<Fields, String> {
    let schema: Value = serde_json::from_str(text).map_err(|e| format!("the JSON Schema is no JSON: {e}"))?;
    let properties = schema.get("properties").and_then(Value::as_object).filter(|properties| !properties.is_empty());
    let properties = properties.ok_or("the JSON Schema has no properties, so there are no columns")?;
    properties.iter().map(|(name, schema)| field(name, schema, 0)).collect()
}

fn field(name: &str, schema: &Value, depth: usize) -> Result<Field, String> {
    Ok(Field::new(name, data_type(schema, depth + 1).map_err(|reason| format!("{name}: {reason}"))?, true))
}

fn data_type(schema: &Value, depth: usize) -> Result<DataType, String> {
    if depth > DEPTH_MAX {
        return Err(format!("types nested deeper than {DEPTH_MAX}"));
    }
    Ok(match single_type(schema) {
        Some("integer") if is_big(schema) => DataType::Decimal128(38, 0),
        Some("integer") => DataType::Int64,
        Some("number") => DataType::Float64,
        Some("boolean") => DataType::Boolean,
        Some("array") => {
            let item = schema.get("items").map_or(Ok(DataType::Utf8), |items| data_type(items, depth + 1))?;
            DataType::List(Arc::new(Field::new("item", item, true)))
        }
        Some("object") => object(schema, depth)?,
        _ => DataType::Utf8,
    })
}

fn object(schema: &Value, depth: usize) -> Result<DataType, String> {
    let properties = schema.get("properties").and_then(Value::as_object).filter(|properties| !properties.is_empty());
    if let Some(properties) = properties {
        let fields = properties.iter().map(|(name, schema)| field(name, schema, depth)).collect::<Result<Fields, _>>()?;
        return Ok(DataType::Struct(fields));
    }
    match schema.get("additionalProperties").filter(|value| value.is_object()) {
        Some(values) => {
            let value = Field::new("value", data_type(values, depth + 1)?, true);
            let entries = Fields::from(vec![Field::new("key", DataType::Utf8, false), value]);
            Ok(DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false))
        }
        // An object of which nothing is known: its text.
        None => Ok(DataType::Utf8),
    }
}

/// The type beside `null`, if there is one only.
fn single_type(schema: &Value) -> Option<&str> {
    match schema.get("type")? {
        Value::String(name) => Some(name),
        Value::Array(names) => {
            let mut names = names.iter().filter_map(Value::as_str).filter(|name| *name != "null");
            let first = names.next()?;
            names.next().is_none().then_some(first)
        }
        _ => None,
    }
}

fn is_big(schema: &Value) -> bool {
    let outside = |key: &str| {
        schema.get(key).and_then(Value::as_number).is_some_and(|number| number.as_i64().is_none())
    };
    outside("minimum") || outside("maximum")
}

/// Whether samples fit the columns: more than a tenth that do not is an error that names the first.
pub fn check_samples(fields: &Fields, samples: &[Vec<u8>]) -> Result<(), String> {
    let mut first = None;
    let mut wrong = 0;
    for (index, sample) in samples.iter().enumerate() {
        // Samples that are no JSON are the decoder's business: they become dead letters one by one.
        let Ok(Value::Object(object)) = serde_json::from_slice::<Value>(sample) else { continue };
        let misfit = fields.iter().find(|field| object.get(field.name()).is_some_and(|value| !fits(value, field.data_type())));
        if let Some(field) = misfit {
            wrong += 1;
            first.get_or_insert_with(|| format!("sample {index}: {} is no {}", field.name(), field.data_type()));
        }
    }
    match first {
        Some(first) if wrong * 10 > samples.len() => Err(format!("{wrong} of {} samples do not fit; {first}", samples.len())),
        _ => Ok(()),
    }
}

fn fits(value: &Value, data_type: &DataType) -> bool {
    match (value, data_type) {
        (Value::Null, _) | (_, DataType::Utf8) => true,
        (Value::Bool(_), DataType::Boolean) => true,
        (Value::Number(number), DataType::Int64) => number.as_i64().is_some(),
        (Value::Number(_), DataType::Float64 | DataType::Decimal128(..)) => true,
        (Value::Array(items), DataType::List(item)) => items.iter().all(|value| fits(value, item.data_type())),
        (Value::Object(object), DataType::Struct(fields)) => {
            fields.iter().all(|field| object.get(field.name()).is_none_or(|value| fits(value, field.data_type())))
        }
        (Value::Object(object), DataType::Map(entries, _)) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => object.values().all(|value| fits(value, fields[1].data_type())),
            _ => false,
        },
        // Types of a plugin's own Arrow schema are the decoder's business.
        (Value::String(_) | Value::Number(_), _) => !matches!(data_type, DataType::Int64 | DataType::Float64 | DataType::Boolean | DataType::List(_) | DataType::Struct(_) | DataType::Map(..) | DataType::Decimal128(..)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_nested_types_maps_and_nullable_ones() {
        let fields = arrow_fields(
            r#"{"type":"object","properties":{
                "id":{"type":"string","format":"uuid"},
                "n":{"type":["integer","null"]},
                "big":{"type":"integer","maximum":18446744073709551615},
                "mixed":{"type":["integer","string"]},
                "tags":{"type":"array","items":{"type":"number"}},
                "user":{"type":"object","properties":{"age":{"type":"integer"}}},
                "labels":{"type":"object","additionalProperties":{"type":"boolean"}}}}"#,
        )
        .expect("schema");
        let types: Vec<_> = fields.iter().map(|field| field.data_type().to_string()).collect();
        assert_eq!(types[..4], ["Utf8", "Int64", "Decimal128(38, 0)", "Utf8"]);
        assert!(matches!(fields[4].data_type(), DataType::List(item) if *item.data_type() == DataType::Float64));
        assert!(matches!(fields[5].data_type(), DataType::Struct(inner) if inner.len() == 1));
        assert!(matches!(fields[6].data_type(), DataType::Map(..)));
        assert!(arrow_fields(r#"{"type":"object"}"#).is_err());
        assert!(arrow_fields("{").is_err());
    }

    #[test]
    fn refuses_columns_that_many_samples_do_not_fit() {
        let fields = arrow_fields(r#"{"properties":{"n":{"type":"integer"}}}"#).expect("schema");
        let good = vec![br#"{"n":1}"#.to_vec(), br#"{"n":null}"#.to_vec(), b"no json".to_vec()];
        assert_eq!(check_samples(&fields, &good), Ok(()));
        let bad = vec![br#"{"n":1}"#.to_vec(), br#"{"n":"x"}"#.to_vec()];
        assert!(check_samples(&fields, &bad).is_err_and(|e| e.contains("sample 1: n is no Int64")));
    }

    #[test]
    fn refuses_types_nested_without_end() {
        let text = format!("{}{{\"type\":\"string\"}}{}", "{\"type\":\"array\",\"items\":".repeat(100), "}".repeat(100));
        assert!(arrow_fields(&format!("{{\"properties\":{{\"deep\":{text}}}}}")).is_err_and(|e| e.contains("nested deeper")));
    }
}
