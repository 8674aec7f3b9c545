//! Inferred columns as JSON, so that a job's columns stay the same from one start to the next.
//!
//! `{"columns": [{"name": "id", "type": "STRING", "nullable": true}, …]}`, types as CREATE TABLE writes them: a person
//! can read and change the file.

use arrow::datatypes::FieldRef;
use datafusion::sql::sqlparser::{parser::Parser, tokenizer::Token};
use pelton_sql_expr::FlinkDialect;
use serde_json::{Value, json};

use crate::script::types;

/// The JSON text of columns.
pub(crate) fn write(fields: &[FieldRef]) -> String {
    let columns: Vec<Value> = fields
        .iter()
        .map(|field| json!({"name": field.name(), "type": types::field_type_name(field), "nullable": field.is_nullable()}))
        .collect();
    format!("{:#}\n", json!({"columns": columns}))
}

/// The columns of a JSON text.
///
/// # Errors
/// What is wrong with the text.
pub(crate) fn read(text: &str) -> Result<Vec<FieldRef>, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let columns = value.get("columns").and_then(Value::as_array).ok_or("expected {\"columns\": […]}")?;
    columns
        .iter()
        .map(|column| {
            let text = |key: &str| column.get(key).and_then(Value::as_str).ok_or_else(|| format!("a column has no \"{key}\""));
            let (name, written) = (text("name")?, text("type")?);
            let nullable = column.get("nullable").and_then(Value::as_bool).unwrap_or(true);
            let dialect = FlinkDialect::default();
            let mut parser = Parser::new(&dialect).try_with_sql(written).map_err(|error| error.to_string())?;
            let field = types::parse_field(&mut parser, name).map_err(|(_, reason)| format!("type of `{name}`: {reason}"))?;
            if parser.peek_token_ref().token != Token::EOF {
                return Err(format!("type of `{name}`: `{written}` is no type"));
            }
            Ok(std::sync::Arc::new(field.as_ref().clone().with_nullable(nullable)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, TimeUnit};

    use super::*;

    #[test]
    fn columns_come_back_as_they_were() {
        let row = DataType::Struct(vec![Field::new("a b", DataType::Int64, true), Field::new("d", DataType::Decimal128(10, 2), true)].into());
        let fields: Vec<FieldRef> = vec![
            Arc::new(Field::new("id", DataType::Utf8, false)),
            Arc::new(Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), true)),
            Arc::new(Field::new("rows", DataType::List(Arc::new(Field::new("item", row, true))), true)),
        ];
        assert_eq!(read(&write(&fields)), Ok(fields));
        assert!(read("{\"columns\": [{\"name\": \"a\", \"type\": \"STRNG\"}]}").is_err_and(|e| e.contains("STRNG")));
        assert!(read("[]").is_err());
    }
}
