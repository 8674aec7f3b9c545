//! Flink's types as text, where CAST and RETURNING name them.

use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};

use super::{item_field, map_type, utc};

/// What CAST makes: a type, and the length that CHAR(n), VARCHAR(n), BINARY(n) and VARBINARY(n) cut or pad to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) data_type: DataType,
    pub(crate) length: Option<Length>,
}

/// How long text or bytes become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Length {
    /// Cut what is longer.
    AtMost(usize),
    /// Cut what is longer, pad what is shorter.
    Exactly(usize),
}

impl From<DataType> for Target {
    fn from(data_type: DataType) -> Self {
        Self { data_type, length: None }
    }
}

/// Reads a type.
pub(crate) fn parse(text: &str) -> Result<Target, String> {
    let mut reader = Reader { rest: text.trim(), depth: 0 };
    let target = reader.target()?;
    reader.skip();
    if reader.rest.is_empty() { Ok(target) } else { Err(format!("unexpected `{}` behind a type", reader.rest)) }
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn word(&mut self) -> Option<&'a str> {
        self.skip();
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        (end > 0).then(|| {
            let (word, rest) = self.rest.split_at(end);
            self.rest = rest;
            word
        })
    }

    fn accept(&mut self, wanted: &str) -> bool {
        let before = self.rest;
        let there = self.word().is_some_and(|word| word.eq_ignore_ascii_case(wanted));
        if !there {
            self.rest = before;
        }
        there
    }

    fn sign(&mut self, wanted: char) -> bool {
        self.skip();
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.sign(wanted) { Ok(()) } else { Err(format!("expected `{wanted}` in a type, found `{}`", self.rest)) }
    }

    /// `(n)` or `(n, m)`.
    fn numbers(&mut self) -> Result<Vec<i64>, String> {
        let mut numbers = Vec::new();
        if self.sign('(') {
            loop {
                let word = self.word().unwrap_or_default();
                numbers.push(word.parse().map_err(|_| format!("expected a number in a type, found `{word}`"))?);
                if !self.sign(',') {
                    break;
                }
            }
            self.expect(')')?;
        }
        Ok(numbers)
    }

    fn one(&mut self, name: &str, default: i64, range: std::ops::RangeInclusive<i64>) -> Result<i64, String> {
        match self.numbers()?.as_slice() {
            [] => Ok(default),
            [value] if range.contains(value) => Ok(*value),
            _ => Err(format!("{name}(n) takes one number from {} to {}", range.start(), range.end())),
        }
    }

    fn nested(&mut self) -> Result<DataType, String> {
        let data_type = self.target()?.data_type;
        if self.accept("NOT") && !self.accept("NULL") {
            return Err("expected NULL after NOT".to_owned());
        }
        self.accept("NULL");
        Ok(data_type)
    }

    fn target(&mut self) -> Result<Target, String> {
        self.depth += 1;
        if self.depth > 32 {
            return Err("types nest deeper than 32".to_owned());
        }
        let name = self.word().ok_or_else(|| format!("expected a type, found `{}`", self.rest))?.to_ascii_uppercase();
        let mut length = None;
        let mut data_type = match name.as_str() {
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
            "DECIMAL" | "DEC" | "NUMERIC" => match self.numbers()?.as_slice() {
                [] => DataType::Decimal128(10, 0),
                [p] if (1..=38).contains(p) => DataType::Decimal128(*p as u8, 0),
                [p, s] if (1..=38).contains(p) && (0..=*p).contains(s) => DataType::Decimal128(*p as u8, *s as i8),
                _ => return Err("DECIMAL(precision, scale) takes 1 to 38 digits, scale of them behind the point".to_owned()),
            },
            "STRING" => DataType::Utf8,
            "CHAR" | "CHARACTER" | "VARCHAR" => {
                let varying = name == "VARCHAR" || self.accept("VARYING");
                let n = self.one(&name, 1, 1..=2_147_483_647)? as usize;
                length = Some(if varying { Length::AtMost(n) } else { Length::Exactly(n) });
                DataType::Utf8
            }
            "BYTES" => DataType::Binary,
            "BINARY" | "VARBINARY" => {
                let varying = name == "VARBINARY" || self.accept("VARYING");
                let n = self.one(&name, 1, 1..=2_147_483_647)? as usize;
                length = Some(if varying { Length::AtMost(n) } else { Length::Exactly(n) });
                DataType::Binary
            }
            "DATE" => DataType::Date32,
            "TIME" => {
                let precision = self.one("TIME", 0, 0..=9)?;
                if self.accept("WITHOUT") {
                    self.accept("TIME");
                    self.accept("ZONE");
                }
                DataType::Time32(if precision == 0 { TimeUnit::Second } else { TimeUnit::Millisecond })
            }
            "TIMESTAMP" | "TIMESTAMP_LTZ" => {
                let precision = self.one(&name, 6, 0..=9)?;
                let mut local = name == "TIMESTAMP_LTZ";
                if self.accept("WITH") {
                    local = self.accept("LOCAL");
                    if !(local && self.accept("TIME") && self.accept("ZONE")) {
                        return Err("TIMESTAMP WITH TIME ZONE is not built: use TIMESTAMP_LTZ(p)".to_owned());
                    }
                } else if self.accept("WITHOUT") {
                    self.accept("TIME");
                    self.accept("ZONE");
                }
                let unit = match precision {
                    0 => TimeUnit::Second,
                    1..=3 => TimeUnit::Millisecond,
                    4..=6 => TimeUnit::Microsecond,
                    _ => TimeUnit::Nanosecond,
                };
                DataType::Timestamp(unit, if local { utc() } else { None })
            }
            "INTERVAL" => {
                while self.word().is_some() {
                    self.numbers()?;
                }
                DataType::Interval(IntervalUnit::MonthDayNano)
            }
            "ARRAY" => {
                self.expect('<')?;
                let item = self.nested()?;
                self.expect('>')?;
                DataType::List(item_field(item))
            }
            "MAP" => {
                self.expect('<')?;
                let key = self.nested()?;
                self.expect(',')?;
                let value = self.nested()?;
                self.expect('>')?;
                map_type(key, value)
            }
            "ROW" => {
                let close = if self.sign('<') {
                    '>'
                } else {
                    self.expect('(')?;
                    ')'
                };
                let mut fields = Vec::new();
                while !self.sign(close) {
                    let name = self.name()?;
                    fields.push(Field::new(name, self.nested()?, true));
                    self.sign(',');
                }
                DataType::Struct(fields.into())
            }
            _ => return Err(format!("`{name}` is no type: known are BOOLEAN, INT, BIGINT, DOUBLE, DECIMAL(p, s), STRING, DATE, TIME, TIMESTAMP(p), TIMESTAMP_LTZ(p), BYTES, ARRAY<…>, MAP<…>, ROW<…>")),
        };
        while self.accept("ARRAY") {
            data_type = DataType::List(item_field(data_type));
            length = None;
        }
        self.depth -= 1;
        Ok(Target { data_type, length })
    }

    fn name(&mut self) -> Result<String, String> {
        self.skip();
        if let Some(rest) = self.rest.strip_prefix('`') {
            let end = rest.find('`').ok_or("a name in backticks does not end")?;
            self.rest = &rest[end + 1..];
            return Ok(rest[..end].to_owned());
        }
        self.word().map(ToOwned::to_owned).ok_or_else(|| format!("expected a field's name, found `{}`", self.rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::type_name;

    fn check(text: &str, expected: &str) {
        let shown = parse(text).map_or_else(|error| error, |target| format!("{}{}", type_name(&target.data_type), target.length.map(|l| format!(" {l:?}")).unwrap_or_default()));
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn reads_flinks_types() {
        check("ROW<a INT NOT NULL,`b c` ARRAY<MAP<STRING,DECIMAL(10,2)>>>", "ROW<`a` INT, `b c` ARRAY<MAP<STRING, DECIMAL(10, 2)>>>");
        check("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP_LTZ(3)");
        check("TIMESTAMP", "TIMESTAMP(6)");
        check("VARCHAR(3)", "STRING AtMost(3)");
        check("CHAR", "STRING Exactly(1)");
        check("INT ARRAY", "ARRAY<INT>");
        check("DECIMAL(50, 2)", "DECIMAL(precision, scale) takes 1 to 38 digits, scale of them behind the point");
    }
}
