//! Flink's types: as text in CREATE TABLE, and Arrow's as that text.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, IntervalUnit, TimeUnit};
use datafusion::sql::sqlparser::{
    parser::Parser,
    tokenizer::{Location, Token},
};

use super::cursor::{found, word_of};
use crate::plan::fault::nearest;

/// Metadata key under which a column keeps the length of CHAR(n) and VARCHAR(n).
pub(crate) const LENGTH: &str = "pelton.length";

/// A type could not be read: where and why.
pub(crate) type TypeFault = (Location, String);

/// The length of STRING, which is no bound.
const STRING: u32 = 2_147_483_647;

/// Deepest nesting of ROW, ARRAY and MAP.
const DEPTH: usize = 32;

const NAMES: [&str; 28] = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "DEC", "NUMERIC", "CHAR", "VARCHAR", "STRING",
    "BINARY", "VARBINARY", "BYTES", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "ARRAY", "MAP", "ROW", "MULTISET", "INTERVAL", "RAW", "VARIANT",
];

/// Reads a type, with NOT NULL behind it, as a field named `name`.
pub(crate) fn parse_field(parser: &mut Parser<'_>, name: &str) -> Result<FieldRef, TypeFault> {
    let mut reader = Reader { parser, half_shift: false, depth: 0 };
    let field = reader.field(name)?;
    if reader.half_shift {
        return Err(reader.fault("one `>` too many"));
    }
    Ok(Arc::new(field))
}

struct Reader<'a, 'b> {
    parser: &'a mut Parser<'b>,
    /// The first `>` of a `>>` was used.
    half_shift: bool,
    depth: usize,
}

impl Reader<'_, '_> {
    fn fault(&self, message: impl Into<String>) -> TypeFault {
        (self.parser.peek_token_ref().span.start, message.into())
    }

    fn expected(&self, what: &str) -> TypeFault {
        self.fault(format!("expected {what}, found {}", found(&self.parser.peek_token_ref().token)))
    }

    fn word(&self) -> Option<String> {
        word_of(&self.parser.peek_token_ref().token)
    }

    fn accept(&mut self, wanted: &str) -> bool {
        let there = self.word().is_some_and(|word| word == wanted);
        if there {
            self.parser.advance_token();
        }
        there
    }

    fn accept_token(&mut self, wanted: &Token) -> bool {
        let there = !self.half_shift && self.parser.peek_token_ref().token == *wanted;
        if there {
            self.parser.advance_token();
        }
        there
    }

    fn field(&mut self, name: &str) -> Result<Field, TypeFault> {
        let (mut data_type, mut length) = self.base()?;
        // Calcite's postfix form: INT ARRAY.
        while !self.half_shift && self.accept("ARRAY") {
            data_type = DataType::List(Arc::new(Field::new("item", data_type, true)));
            length = None;
        }
        if !self.half_shift && self.word().is_some_and(|word| word == "MULTISET") {
            return Err(self.fault("MULTISET columns are not built yet"));
        }
        let mut nullable = true;
        if self.accept("NOT") {
            if !self.accept("NULL") {
                return Err(self.expected("NULL after NOT"));
            }
            nullable = false;
        } else {
            self.accept("NULL");
        }
        let mut field = Field::new(name, data_type, nullable);
        // Inside other types a length would make types differ that hold the same.
        if let Some(length) = length.filter(|_| self.depth == 0) {
            field = field.with_metadata([(LENGTH.to_owned(), length.to_string())].into());
        }
        Ok(field)
    }

    fn base(&mut self) -> Result<(DataType, Option<u32>), TypeFault> {
        let at = self.parser.peek_token_ref().span.start;
        let Some(name) = self.word() else {
            return Err((at, format!("expected a type, found {}", found(&self.parser.peek_token_ref().token))));
        };
        self.depth += 1;
        if self.depth > DEPTH {
            return Err((at, format!("types nest deeper than {DEPTH}")));
        }
        self.parser.advance_token();
        let mut length = None;
        let data_type = match name.as_str() {
            "BOOLEAN" => DataType::Boolean,
            "TINYINT" => DataType::Int8,
            "SMALLINT" => DataType::Int16,
            "INT" | "INTEGER" => DataType::Int32,
            "BIGINT" => DataType::Int64,
            "FLOAT" | "REAL" => DataType::Float32,
            "DOUBLE" => {
                self.accept("PRECISION");
                DataType::Float64
            }
            "DECIMAL" | "DEC" | "NUMERIC" => self.decimal(at)?,
            "STRING" => DataType::Utf8,
            "CHAR" | "CHARACTER" | "VARCHAR" => {
                let varying = name == "VARCHAR" || self.accept("VARYING");
                length = self.length(&name, at)?.or((!varying).then_some(1)).filter(|&length| length < STRING);
                DataType::Utf8
            }
            "BYTES" => DataType::Binary,
            "BINARY" | "VARBINARY" => {
                self.length(&name, at)?;
                DataType::Binary
            }
            "DATE" => DataType::Date32,
            "TIME" => {
                let precision = self.precision(at, 0)?;
                if self.with_local_zone()? {
                    return Err((at, "TIME has no zone".to_owned()));
                }
                DataType::Time32(if precision == 0 { TimeUnit::Second } else { TimeUnit::Millisecond })
            }
            "TIMESTAMP" => {
                let unit = unit(self.precision(at, 6)?);
                DataType::Timestamp(unit, self.with_local_zone()?.then(|| "UTC".into()))
            }
            "TIMESTAMP_LTZ" => DataType::Timestamp(unit(self.precision(at, 6)?), Some("UTC".into())),
            "ARRAY" => {
                self.open()?;
                let item = self.field("item")?;
                self.close()?;
                DataType::List(Arc::new(item))
            }
            "MAP" => {
                self.open()?;
                let key = self.field("key")?.with_nullable(false);
                if !self.accept_token(&Token::Comma) {
                    return Err(self.expected("`,` between the key and the value type of MAP"));
                }
                let value = self.field("value")?;
                self.close()?;
                DataType::Map(Arc::new(Field::new("entries", DataType::Struct(Fields::from(vec![key, value])), false)), false)
            }
            "ROW" => self.row()?,
            "MULTISET" | "INTERVAL" | "RAW" | "VARIANT" => return Err((at, format!("{name} columns are not built yet"))),
            _ => return Err((at, format!("`{name}` is no type{}", nearest(&name, NAMES)))),
        };
        self.depth -= 1;
        Ok((data_type, length))
    }

    fn row(&mut self) -> Result<DataType, TypeFault> {
        let close = if self.accept_token(&Token::Lt) {
            None
        } else if self.accept_token(&Token::LParen) {
            Some(Token::RParen)
        } else {
            return Err(self.expected("`<` after ROW"));
        };
        let mut fields = Vec::new();
        loop {
            let name = match &self.parser.peek_token_ref().token {
                Token::Word(word) => word.value.clone(),
                other => return Err(self.fault(format!("expected the name of a field, found {}", found(other)))),
            };
            if fields.iter().any(|field: &Field| field.name() == &name) {
                return Err(self.fault(format!("field `{name}` stands twice")));
            }
            self.parser.advance_token();
            fields.push(self.field(&name)?);
            if let Token::SingleQuotedString(_) = self.parser.peek_token_ref().token {
                self.parser.advance_token();
            }
            if !self.accept_token(&Token::Comma) {
                break;
            }
        }
        match close {
            None => self.close()?,
            Some(token) if self.accept_token(&token) => {}
            Some(_) => return Err(self.expected("`,` or `)`")),
        }
        Ok(DataType::Struct(fields.into()))
    }

    fn open(&mut self) -> Result<(), TypeFault> {
        if self.accept_token(&Token::Lt) { Ok(()) } else { Err(self.expected("`<`")) }
    }

    fn close(&mut self) -> Result<(), TypeFault> {
        if self.half_shift {
            self.half_shift = false;
            self.parser.advance_token();
            return Ok(());
        }
        match self.parser.peek_token_ref().token {
            Token::Gt => self.parser.advance_token(),
            Token::ShiftRight => self.half_shift = true,
            _ => return Err(self.expected("`>`")),
        }
        Ok(())
    }

    /// `(n)` or `(n, m)`, empty if there is none.
    fn numbers(&mut self) -> Result<Vec<u32>, TypeFault> {
        let mut numbers = Vec::new();
        if !self.accept_token(&Token::LParen) {
            return Ok(numbers);
        }
        loop {
            let number = match &self.parser.peek_token_ref().token {
                Token::Number(text, _) => text.parse().ok(),
                _ => None,
            };
            numbers.push(number.ok_or_else(|| self.expected("a whole number"))?);
            self.parser.advance_token();
            if !self.accept_token(&Token::Comma) {
                break;
            }
        }
        if self.accept_token(&Token::RParen) { Ok(numbers) } else { Err(self.expected("`)`")) }
    }

    /// `(n)` of text and bytes.
    fn length(&mut self, name: &str, at: Location) -> Result<Option<u32>, TypeFault> {
        match self.numbers()?.as_slice() {
            [] => Ok(None),
            [length] if (1..=STRING).contains(length) => Ok(Some(*length)),
            _ => Err((at, format!("{name} takes one length, between 1 and {STRING}"))),
        }
    }

    fn precision(&mut self, at: Location, default: u32) -> Result<u32, TypeFault> {
        match self.numbers()?.as_slice() {
            [] => Ok(default),
            [precision] if *precision <= 9 => Ok(*precision),
            _ => Err((at, "the precision of a time is between 0 and 9".to_owned())),
        }
    }

    fn decimal(&mut self, at: Location) -> Result<DataType, TypeFault> {
        let (precision, scale) = match self.numbers()?.as_slice() {
            [] => (10, 0),
            [precision] => (*precision, 0),
            [precision, scale] => (*precision, *scale),
            _ => return Err((at, "DECIMAL takes a precision and a scale".to_owned())),
        };
        if !(1..=38).contains(&precision) || scale > precision {
            return Err((at, format!("DECIMAL({precision}, {scale}): the precision is between 1 and 38, the scale between 0 and the precision")));
        }
        let (precision, scale) = (u8::try_from(precision).unwrap_or(38), i8::try_from(scale).unwrap_or(38));
        Ok(DataType::Decimal128(precision, scale))
    }

    fn with_local_zone(&mut self) -> Result<bool, TypeFault> {
        let with = if self.accept("WITHOUT") {
            false
        } else if self.accept("WITH") {
            if !self.accept("LOCAL") {
                return Err(self.fault("TIMESTAMP WITH TIME ZONE is not built: use TIMESTAMP_LTZ"));
            }
            true
        } else {
            return Ok(false);
        };
        if self.accept("TIME") && self.accept("ZONE") { Ok(with) } else { Err(self.expected("TIME ZONE")) }
    }
}

fn unit(precision: u32) -> TimeUnit {
    match precision {
        0 => TimeUnit::Second,
        1..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    }
}

fn digits(unit: TimeUnit) -> u32 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

/// A field's type as Flink writes it, lengths included, without its own NOT NULL.
pub(crate) fn field_type_name(field: &Field) -> String {
    match (field.data_type(), field.metadata().get(LENGTH)) {
        (DataType::Utf8, Some(length)) => format!("VARCHAR({length})"),
        (data_type, _) => type_name(data_type),
    }
}

fn inner_type_name(field: &Field) -> String {
    let not_null = if field.is_nullable() { "" } else { " NOT NULL" };
    format!("{}{not_null}", field_type_name(field))
}

/// A type as Flink writes it.
pub(crate) fn type_name(data_type: &DataType) -> String {
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
        DataType::Date32 => "DATE".to_owned(),
        DataType::Time32(unit) | DataType::Time64(unit) => format!("TIME({})", digits(*unit)),
        DataType::Timestamp(unit, None) => format!("TIMESTAMP({})", digits(*unit)),
        DataType::Timestamp(unit, Some(_)) => format!("TIMESTAMP_LTZ({})", digits(*unit)),
        DataType::List(item) => format!("ARRAY<{}>", inner_type_name(item)),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => format!("MAP<{}, {}>", field_type_name(&pair[0]), inner_type_name(&pair[1])),
            _ => "MAP".to_owned(),
        },
        DataType::Struct(fields) => {
            let fields: Vec<_> = fields.iter().map(|field| format!("`{}` {}", field.name().replace('`', "``"), inner_type_name(field))).collect();
            format!("ROW<{}>", fields.join(", "))
        }
        DataType::Interval(IntervalUnit::YearMonth) => "INTERVAL YEAR TO MONTH".to_owned(),
        DataType::Interval(_) => "INTERVAL DAY TO SECOND".to_owned(),
        other => other.to_string(),
    }
}
