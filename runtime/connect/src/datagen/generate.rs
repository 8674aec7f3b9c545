//! Making up one value after the other, as JSON text.

use std::io::Write;

use arrow::datatypes::{DataType, Field};
use pelton_core::{graph::TableSpec, options::OptionReader};
use rand::{Rng, RngCore, rngs::SmallRng};

/// Options that a column may have behind its name.
const FIELD_OPTIONS: &[&str] = &["kind", "min", "max", "start", "end", "length", "var-len", "null-rate", "max-past"];
/// Length of text, bytes, arrays and maps unless given; Flink's.
const TEXT_LENGTH: u64 = 100;
const COLLECTION_LENGTH: u64 = 3;
const TEXT_LENGTH_MAX: u64 = 1 << 20;

/// Makes up a value.
#[derive(Debug)]
pub(crate) struct Generator {
    null_rate: f64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Boolean,
    Whole { min: i64, max: i64 },
    Float { min: f64, max: f64 },
    /// Unscaled ends and the scale.
    Decimal { min: i128, max: i128, scale: u32 },
    /// From `start` on, one more per row; as text for STRING.
    Sequence { start: i64, end: i64, quoted: bool },
    Text { length: Length },
    Bytes { length: Length },
    Date { max_past_ms: i64 },
    Time,
    Timestamp { max_past_ms: i64, zulu: bool },
    Array { length: Length, element: Box<Generator> },
    Map { length: Length, key: Box<Generator>, value: Box<Generator> },
    Row(Vec<(Vec<u8>, Generator)>),
}

#[derive(Debug, Clone, Copy)]
struct Length {
    most: u64,
    varies: bool,
}

impl Length {
    fn pick(self, random: &mut SmallRng) -> u64 {
        if self.varies { random.random_range(0..=self.most) } else { self.most }
    }
}

impl Generator {
    /// For the whole table; every `fields.…` option is checked.
    pub(crate) fn row(table: &TableSpec) -> Result<Self, String> {
        let options = OptionReader(&table.options);
        for key in table.options.keys().filter(|key| key.starts_with("fields.")) {
            check_key(key, table)?;
        }
        Ok(Self { null_rate: 0.0, kind: row_kind(table.physical.fields(), "fields", &options)? })
    }

    /// Rows until the shortest sequence ends.
    pub(crate) fn length(&self) -> Option<u64> {
        match &self.kind {
            Kind::Sequence { start, end, .. } => Some(end.abs_diff(*start).saturating_add(1)),
            Kind::Row(fields) => fields.iter().filter_map(|(_, field)| field.length()).min(),
            _ => None,
        }
    }

    fn new(field: &Field, path: &str, options: &OptionReader<'_>) -> Result<Self, String> {
        let null_rate = match options.text(&format!("{path}.null-rate")) {
            None => 0.0,
            Some(text) => text
                .parse::<f64>()
                .ok()
                .filter(|rate| (0.0..=1.0).contains(rate))
                .ok_or_else(|| format!("option '{path}.null-rate': `{text}` is no number from 0 to 1"))?,
        };
        let is_sequence = options.choice(&format!("{path}.kind"), &["random", "sequence"])? == Some("sequence");
        let kind = if is_sequence { sequence(field.data_type(), path, options)? } else { random(field.data_type(), path, options)? };
        Ok(Self { null_rate, kind })
    }

    /// Appends the value of row `row`, made at `time_ms`.
    pub(crate) fn json(&self, row: u64, time_ms: i64, random: &mut SmallRng, out: &mut Vec<u8>) {
        if self.null_rate > 0.0 && random.random_bool(self.null_rate) {
            return out.extend_from_slice(b"null");
        }
        match &self.kind {
            Kind::Boolean => put(out, random.random_bool(0.5)),
            Kind::Whole { min, max } => put(out, random.random_range(*min..=*max)),
            Kind::Float { min, max } => {
                let part: f64 = random.random();
                put(out, format_args!("{:?}", min * (1.0 - part) + max * part));
            }
            Kind::Decimal { min, max, scale } => decimal(random.random_range(*min..=*max), *scale, out),
            Kind::Sequence { start, quoted, .. } => {
                let value = start.saturating_add(i64::try_from(row).unwrap_or(i64::MAX));
                if *quoted { put(out, format_args!("\"{value}\"")) } else { put(out, value) }
            }
            Kind::Text { length } => text(length.pick(random), random, out),
            Kind::Bytes { length } => base64(length.pick(random), random, out),
            Kind::Date { max_past_ms } => put(out, format_args!("\"{}\"", Day(past(time_ms, *max_past_ms, random).div_euclid(86_400_000)))),
            Kind::Time => put(out, format_args!("\"{}\"", Clock(random.random_range(0..86_400) * 1_000))),
            Kind::Timestamp { max_past_ms, zulu } => {
                let time = past(time_ms, *max_past_ms, random);
                let (day, clock) = (Day(time.div_euclid(86_400_000)), Clock(time.rem_euclid(86_400_000)));
                put(out, format_args!("\"{day} {clock}{}\"", if *zulu { "Z" } else { "" }));
            }
            Kind::Array { length, element } => {
                out.push(b'[');
                for index in 0..length.pick(random) {
                    if index > 0 {
                        out.push(b',');
                    }
                    element.json(row, time_ms, random, out);
                }
                out.push(b']');
            }
            Kind::Map { length, key, value } => {
                out.push(b'{');
                for index in 0..length.pick(random) {
                    if index > 0 {
                        out.push(b',');
                    }
                    key.json(row, time_ms, random, out);
                    out.push(b':');
                    value.json(row, time_ms, random, out);
                }
                out.push(b'}');
            }
            Kind::Row(fields) => {
                out.push(b'{');
                for (index, (name, field)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(name);
                    field.json(row, time_ms, random, out);
                }
                out.push(b'}');
            }
        }
    }
}

fn put(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    // Writing to memory does not fail.
    let _ = write!(out, "{value}");
}

fn row_kind(fields: &arrow::datatypes::Fields, path: &str, options: &OptionReader<'_>) -> Result<Kind, String> {
    let fields = fields.iter().map(|field| {
        let generator = Generator::new(field, &format!("{path}.{}", field.name()), options)?;
        Ok((format!("{}:", quoted(field.name())).into_bytes(), generator))
    });
    Ok(Kind::Row(fields.collect::<Result<_, String>>()?))
}

fn quoted(name: &str) -> String {
    let mut text = String::from('"');
    for character in name.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            control if control < ' ' => text.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => text.push(other),
        }
    }
    text.push('"');
    text
}

/// `fields.a.b.min`: `a` must be a column, `b` something below it, `min` an option.
fn check_key(key: &str, table: &TableSpec) -> Result<(), String> {
    let rest = &key["fields.".len()..];
    let (path, option) = rest.rsplit_once('.').unwrap_or((rest, ""));
    let is_column = table.physical.fields().iter().any(|field| {
        path.strip_prefix(field.name().as_str()).is_some_and(|below| below.is_empty() || below.starts_with('.'))
    });
    if !is_column {
        return Err(format!("option '{key}': there is no column of that name"));
    }
    if !FIELD_OPTIONS.contains(&option) {
        return Err(format!("option '{key}': there is no field option '{option}'"));
    }
    Ok(())
}

fn sequence(data_type: &DataType, path: &str, options: &OptionReader<'_>) -> Result<Kind, String> {
    let end_of = |name: &str| {
        let key = format!("{path}.{name}");
        options.number(&key)?.ok_or_else(|| format!("option '{key}' is missing: a sequence needs its start and its end"))
    };
    let (start, end) = (end_of("start")?, end_of("end")?);
    if end < start {
        return Err(format!("option '{path}.end': {end} is less than the start {start}"));
    }
    let quoted = match data_type {
        DataType::Utf8 => true,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Float32 | DataType::Float64 | DataType::Decimal128(_, _) => false,
        other => return Err(format!("option '{path}.kind': type {other} cannot be a sequence")),
    };
    Ok(Kind::Sequence { start, end, quoted })
}

fn random(data_type: &DataType, path: &str, options: &OptionReader<'_>) -> Result<Kind, String> {
    let whole = |low: i64, high: i64| {
        let min = options.number(&format!("{path}.min"))?.unwrap_or(low).max(low);
        let max = options.number(&format!("{path}.max"))?.unwrap_or(high).min(high);
        if min > max { Err(format!("option '{path}.max': {max} is less than the minimum {min}")) } else { Ok(Kind::Whole { min, max }) }
    };
    let length = |default: u64| {
        let key = format!("{path}.length");
        let most = match options.number(&key)? {
            None => default,
            Some(number) => u64::try_from(number)
                .ok()
                .filter(|&most| most <= TEXT_LENGTH_MAX)
                .ok_or_else(|| format!("option '{key}': `{number}` is not from 0 to {TEXT_LENGTH_MAX}"))?,
        };
        Ok::<_, String>(Length { most, varies: options.flag(&format!("{path}.var-len"), false)? })
    };
    let max_past_ms = || {
        let span = options.duration(&format!("{path}.max-past"))?.unwrap_or_default();
        Ok::<_, String>(i64::try_from(span.as_millis()).unwrap_or(i64::MAX))
    };
    Ok(match data_type {
        DataType::Boolean => Kind::Boolean,
        DataType::Int8 => whole(i8::MIN.into(), i8::MAX.into())?,
        DataType::Int16 => whole(i16::MIN.into(), i16::MAX.into())?,
        DataType::Int32 => whole(i32::MIN.into(), i32::MAX.into())?,
        DataType::Int64 => whole(i64::MIN, i64::MAX)?,
        DataType::Float32 => float(path, options, f32::MAX.into())?,
        DataType::Float64 => float(path, options, f64::MAX)?,
        &DataType::Decimal128(precision, scale) => decimal_kind(path, options, precision, scale)?,
        DataType::Utf8 => Kind::Text { length: length(TEXT_LENGTH)? },
        DataType::Binary => Kind::Bytes { length: length(TEXT_LENGTH)? },
        DataType::Date32 => Kind::Date { max_past_ms: max_past_ms()? },
        DataType::Time32(_) => Kind::Time,
        DataType::Timestamp(_, zone) => Kind::Timestamp { max_past_ms: max_past_ms()?, zulu: zone.is_some() },
        DataType::List(item) => Kind::Array {
            length: length(COLLECTION_LENGTH)?,
            element: Box::new(Generator::new(item, &format!("{path}.element"), options)?),
        },
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => Kind::Map {
                length: length(COLLECTION_LENGTH)?,
                key: Box::new(Generator::new(&pair[0], &format!("{path}.key"), options)?),
                value: Box::new(Generator::new(&pair[1], &format!("{path}.value"), options)?),
            },
            other => return Err(format!("column '{path}': entries of type {other}")),
        },
        DataType::Struct(fields) => row_kind(fields, path, options)?,
        other => return Err(format!("column '{path}': type {other} cannot be made up")),
    })
}

fn number_option<T: std::str::FromStr>(key: &str, options: &OptionReader<'_>) -> Result<Option<T>, String> {
    options.text(key).map(|text| text.trim().parse().map_err(|_| format!("option '{key}': `{text}` is no number"))).transpose()
}

fn float(path: &str, options: &OptionReader<'_>, largest: f64) -> Result<Kind, String> {
    let min: f64 = number_option(&format!("{path}.min"), options)?.unwrap_or(0.0);
    let max: f64 = number_option(&format!("{path}.max"), options)?.unwrap_or(largest);
    if !(min <= max && min.is_finite() && max.is_finite()) {
        return Err(format!("option '{path}.max': {max} is less than the minimum {min}"));
    }
    Ok(Kind::Float { min, max })
}

fn decimal_kind(path: &str, options: &OptionReader<'_>, precision: u8, scale: i8) -> Result<Kind, String> {
    let scale = u32::from(scale.unsigned_abs());
    let largest = 10_i128.pow(u32::from(precision.min(38))) - 1;
    let unscaled = |name: &str, default: i128| {
        let value: Option<f64> = number_option(&format!("{path}.{name}"), options)?;
        Ok::<_, String>(value.map_or(default, |value| (value * 10_f64.powi(scale.cast_signed())).round() as i128).clamp(-largest, largest))
    };
    let (min, max) = (unscaled("min", 0)?, unscaled("max", largest)?);
    if min > max {
        return Err(format!("option '{path}.max': it is less than the minimum"));
    }
    Ok(Kind::Decimal { min, max, scale })
}

fn decimal(unscaled: i128, scale: u32, out: &mut Vec<u8>) {
    let sign = if unscaled < 0 { "-" } else { "" };
    let (value, factor) = (unscaled.unsigned_abs(), 10_u128.pow(scale));
    if scale == 0 {
        put(out, unscaled);
    } else {
        put(out, format_args!("{sign}{}.{:0width$}", value / factor, value % factor, width = scale as usize));
    }
}

/// Hexadecimal digits in quotes, as Flink's.
fn text(length: u64, random: &mut SmallRng, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut left = length;
    while left > 0 {
        let mut bits = random.next_u64();
        for _ in 0..left.min(16) {
            out.push(b"0123456789abcdef"[(bits & 15) as usize]);
            bits >>= 4;
        }
        left -= left.min(16);
    }
    out.push(b'"');
}

/// Random bytes as base64 in quotes.
fn base64(length: u64, random: &mut SmallRng, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.push(b'"');
    let mut left = length;
    while left > 0 {
        let bytes = left.min(3);
        let mut bits = random.next_u32() & 0x00FF_FFFF;
        // Bits behind the last byte are zero.
        bits &= !0_u32 << (8 * (3 - bytes));
        for place in 0..4_u64 {
            out.push(if place <= bytes { DIGITS[(bits >> (18 - 6 * place) & 63) as usize] } else { b'=' });
        }
        left -= bytes;
    }
    out.push(b'"');
}

fn past(time_ms: i64, max_past_ms: i64, random: &mut SmallRng) -> i64 {
    if max_past_ms == 0 { time_ms } else { time_ms.saturating_sub(random.random_range(0..=max_past_ms)) }
}

/// A number of days since 1970 as `yyyy-MM-dd`.
struct Day(i64);

impl std::fmt::Display for Day {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shifted = self.0 + 719_468;
        let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        write!(f, "{year:04}-{month:02}-{:02}", day_of_year - (153 * shifted_month + 2) / 5 + 1)
    }
}

/// Milliseconds of a day as `HH:mm:ss.SSS`.
struct Clock(i64);

impl std::fmt::Display for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (seconds, millis) = (self.0 / 1_000, self.0 % 1_000);
        write!(f, "{:02}:{:02}:{:02}.{millis:03}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
    }
}
