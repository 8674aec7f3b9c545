//! Types as SQL writes them, for messages and CREATE TABLE.

use arrow::datatypes::{DataType, TimeUnit};

/// The SQL name of a type, for messages.
pub fn sql_type(data_type: &DataType) -> String {
    let precision = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    match data_type {
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Int8 => "TINYINT".to_owned(),
        DataType::Int16 => "SMALLINT".to_owned(),
        DataType::Int32 => "INT".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::Float32 => "FLOAT".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        DataType::Utf8 => "STRING".to_owned(),
        DataType::Binary => "BYTES".to_owned(),
        DataType::Date32 => "DATE".to_owned(),
        DataType::Time32(unit) => format!("TIME({})", precision(unit)),
        DataType::Timestamp(unit, None) => format!("TIMESTAMP({})", precision(unit)),
        DataType::Timestamp(unit, Some(_)) => format!("TIMESTAMP_LTZ({})", precision(unit)),
        DataType::List(item) => format!("ARRAY<{}>", sql_type(item.data_type())),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                format!("MAP<{}, {}>", sql_type(fields[0].data_type()), sql_type(fields[1].data_type()))
            }
            _ => "MAP".to_owned(),
        },
        DataType::Struct(fields) => {
            let fields: Vec<_> = fields.iter().map(|field| format!("{} {}", field.name(), sql_type(field.data_type()))).collect();
            format!("ROW<{}>", fields.join(", "))
        }
        other => other.to_string(),
    }
}
