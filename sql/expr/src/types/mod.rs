//! Types: Flink's names of Arrow's types, the type that two others share, and the types of arithmetic.
//!
//! Promises: precisions and scales are Flink 2.3's. INT in a decimal calculation counts as DECIMAL(10, 0), BIGINT as
//! DECIMAL(19, 0), and so on; what does not fit 38 digits loses digits behind the point, but keeps six of them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, IntervalUnit, TimeUnit};

pub(crate) mod parse;

/// The most digits of a DECIMAL.
pub(crate) const MAX_PRECISION: u8 = 38;

/// Flink's name of a type, as messages, DESCRIBE and TYPEOF show it.
pub fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "NULL".to_owned(),
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Int8 => "TINYINT".to_owned(),
        DataType::Int16 => "SMALLINT".to_owned(),
        DataType::Int32 => "INT".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::Float32 => "FLOAT".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "STRING".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BYTES".to_owned(),
        DataType::FixedSizeBinary(length) => format!("BINARY({length})"),
        DataType::Date32 => "DATE".to_owned(),
        DataType::Time32(unit) | DataType::Time64(unit) => format!("TIME({})", digits(unit)),
        DataType::Timestamp(unit, None) => format!("TIMESTAMP({})", digits(unit)),
        DataType::Timestamp(unit, Some(_)) => format!("TIMESTAMP_LTZ({})", digits(unit)),
        DataType::Interval(IntervalUnit::YearMonth) => "INTERVAL YEAR TO MONTH".to_owned(),
        DataType::Interval(_) | DataType::Duration(_) => "INTERVAL".to_owned(),
        DataType::List(item) => format!("ARRAY<{}>", type_name(item.data_type())),
        DataType::Map(entries, _) => match map_types(entries) {
            Some((key, value)) => format!("MAP<{}, {}>", type_name(key), type_name(value)),
            None => "MAP".to_owned(),
        },
        DataType::Struct(fields) => {
            let fields: Vec<_> = fields.iter().map(|field| format!("`{}` {}", field.name(), type_name(field.data_type()))).collect();
            format!("ROW<{}>", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// Digits behind the second that a unit holds.
pub(crate) fn digits(unit: &TimeUnit) -> usize {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

/// Ticks of a unit in a second.
pub(crate) fn per_second(unit: &TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// The zone that marks TIMESTAMP_LTZ: values are always UTC.
pub(crate) fn utc() -> Option<Arc<str>> {
    Some(Arc::from("UTC"))
}

/// The field inside a list.
pub(crate) fn item_field(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("item", data_type, true))
}

/// MAP of keys and values.
pub(crate) fn map_type(key: DataType, value: DataType) -> DataType {
    let fields = Fields::from(vec![Field::new("key", key, false), Field::new("value", value, true)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(fields), false)), false)
}

/// Key and value type of a map's entries.
pub(crate) fn map_types(entries: &FieldRef) -> Option<(&DataType, &DataType)> {
    match entries.data_type() {
        DataType::Struct(fields) => match fields.as_ref() {
            [key, value] => Some((key.data_type(), value.data_type())),
            _ => None,
        },
        _ => None,
    }
}

pub(crate) fn is_integer(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64)
}

pub(crate) fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64)
}

pub(crate) fn is_numeric(data_type: &DataType) -> bool {
    is_integer(data_type) || is_float(data_type) || matches!(data_type, DataType::Decimal128(..))
}

pub(crate) fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_))
}

/// An exact number as DECIMAL(precision, scale).
pub(crate) fn as_decimal(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Int8 => Some((3, 0)),
        DataType::Int16 => Some((5, 0)),
        DataType::Int32 => Some((10, 0)),
        DataType::Int64 => Some((19, 0)),
        DataType::Decimal128(precision, scale) => Some((*precision, *scale)),
        _ => None,
    }
}

/// The type all of `types` become where they meet: in CASE, COALESCE, ARRAY, IN, UNION.
pub fn common_type(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{Date32, Float32, Float64, List, Map, Null, Struct, Time32, Timestamp, Utf8};
    if a == b {
        return Some(a.clone());
    }
    match (a, b) {
        (Null, other) | (other, Null) => Some(other.clone()),
        _ if is_integer(a) && is_integer(b) => Some(if as_decimal(a) > as_decimal(b) { a.clone() } else { b.clone() }),
        (Float32, other) | (other, Float32) if is_integer(other) => Some(Float32),
        (Float32 | Float64, other) | (other, Float32 | Float64) if is_numeric(other) => Some(Float64),
        _ if is_numeric(a) && is_numeric(b) => {
            let ((p1, s1), (p2, s2)) = (as_decimal(a)?, as_decimal(b)?);
            let scale = s1.max(s2);
            let whole = (p1 as i8 - s1).max(p2 as i8 - s2);
            Some(DataType::Decimal128((whole + scale).min(MAX_PRECISION as i8) as u8, scale))
        }
        (Timestamp(u1, z1), Timestamp(u2, z2)) => {
            let unit = if digits(u1) > digits(u2) { u1 } else { u2 };
            Some(Timestamp(*unit, z1.clone().or_else(|| z2.clone())))
        }
        (Timestamp(..), Date32) => Some(a.clone()),
        (Date32, Timestamp(..)) => Some(b.clone()),
        (Time32(u1), Time32(u2)) => Some(Time32(if digits(u1) > digits(u2) { *u1 } else { *u2 })),
        (List(x), List(y)) => Some(List(item_field(common_type(x.data_type(), y.data_type())?))),
        (Map(x, _), Map(y, _)) => {
            let ((k1, v1), (k2, v2)) = (map_types(x)?, map_types(y)?);
            Some(map_type(common_type(k1, k2)?, common_type(v1, v2)?))
        }
        (Struct(x), Struct(y)) if x.len() == y.len() => {
            let fields = x.iter().zip(y.iter()).map(|(x, y)| Some(Field::new(x.name(), common_type(x.data_type(), y.data_type())?, true)));
            Some(Struct(fields.collect::<Option<Vec<_>>>()?.into()))
        }
        _ if is_text(a) && is_text(b) => Some(Utf8),
        _ => None,
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8)
}

/// Which decimal calculation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Arithmetic {
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
        }
    }
}

/// Precision and scale of a decimal calculation.
pub(crate) fn decimal_result(op: Arithmetic, (p1, s1): (u8, i8), (p2, s2): (u8, i8)) -> (u8, i8) {
    let (p1, s1, p2, s2) = (i32::from(p1), i32::from(s1), i32::from(p2), i32::from(s2));
    let (precision, scale) = match op {
        Arithmetic::Add | Arithmetic::Subtract => {
            let scale = s1.max(s2);
            ((p1 - s1).max(p2 - s2) + scale + 1, scale)
        }
        Arithmetic::Multiply => (p1 + p2 + 1, s1 + s2),
        Arithmetic::Divide => {
            let scale = (s1 + p2 + 1).max(6);
            (p1 - s1 + s2 + scale, scale)
        }
        Arithmetic::Modulo => {
            let scale = s1.max(s2);
            ((p1 - s1).min(p2 - s2) + scale, scale)
        }
    };
    let max = i32::from(MAX_PRECISION);
    if precision <= max {
        return (precision.max(1) as u8, scale as i8);
    }
    let whole = precision - scale;
    (MAX_PRECISION, (max - whole).max(scale.min(6)) as i8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_results_are_flinks() {
        let check = |op, a, b, expected| assert_eq!(decimal_result(op, a, b), expected, "{op:?} {a:?} {b:?}");
        check(Arithmetic::Add, (10, 0), (2, 1), (12, 1));
        check(Arithmetic::Add, (38, 10), (38, 0), (38, 6));
        check(Arithmetic::Multiply, (4, 3), (19, 0), (24, 3));
        check(Arithmetic::Multiply, (20, 10), (20, 10), (38, 17));
        check(Arithmetic::Multiply, (38, 10), (38, 10), (38, 6));
        check(Arithmetic::Divide, (2, 1), (10, 0), (13, 12));
        check(Arithmetic::Divide, (10, 2), (5, 1), (17, 8));
        check(Arithmetic::Divide, (38, 10), (38, 10), (38, 6));
        check(Arithmetic::Modulo, (10, 2), (5, 1), (6, 2));
    }

    #[test]
    fn common_types_widen() {
        let decimal = DataType::Decimal128;
        assert_eq!(common_type(&DataType::Int32, &decimal(2, 1)), Some(decimal(11, 1)));
        assert_eq!(common_type(&DataType::Int8, &DataType::Int64), Some(DataType::Int64));
        assert_eq!(common_type(&DataType::Float32, &decimal(2, 1)), Some(DataType::Float64));
        assert_eq!(common_type(&DataType::Utf8, &DataType::Int32), None);
        assert_eq!(common_type(&DataType::Null, &DataType::Utf8), Some(DataType::Utf8));
    }
}
