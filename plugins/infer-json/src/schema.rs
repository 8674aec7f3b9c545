//! From what was seen to the schema's text, and what a person should know about it.

use std::fmt::Write;

use pelton_plugin::json::{self, Value, write_string};

use crate::{format, shape::Shape};

/// What the job may choose.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Strings with at most this many distinct values are enums; 0 for never.
    pub enum_values_max: usize,
    /// Objects with more different members than this, each in few samples, are maps.
    pub map_members_min: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { enum_values_max: 10, map_members_min: 16 }
    }
}

impl Options {
    /// Reads `{"enum_values_max": 10, "map_members_min": 16}`.
    pub fn read(config: &str) -> Result<Self, String> {
        let value = json::parse(config.as_bytes())?;
        let Value::Object(members) = &value else { return Err("the configuration is no JSON object".to_owned()) };
        let mut options = Self::default();
        for (name, value) in members {
            let number = match value {
                Value::Number(text) => text.parse::<usize>().ok(),
                _ => None,
            };
            let number = number.ok_or_else(|| format!("`{name}` is no whole number"))?;
            match name.as_ref() {
                "enum_values_max" => options.enum_values_max = number,
                "map_members_min" => options.map_members_min = number,
                _ => return Err(format!("unknown key `{name}`; known are enum_values_max, map_members_min")),
            }
        }
        Ok(options)
    }
}

/// A schema and what to know about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// JSON Schema draft-07 text.
    pub schema: String,
    /// Share of samples that counted, less a little where types were mixed.
    pub confidence: f32,
    /// Samples that counted.
    pub sampled: u32,
    /// Sentences.
    pub notes: Vec<String>,
}

/// An enum is believed from this many values on for each distinct one.
const ENUM_SUPPORT: u32 = 5;

/// Infers the schema of JSON objects.
pub fn infer<'a>(samples: impl IntoIterator<Item = &'a [u8]>, options: Options) -> Result<Outcome, String> {
    let mut top = Shape::default();
    let (mut left_out, mut first_fault) = (0_u32, None);
    for (index, sample) in samples.into_iter().enumerate() {
        let fault = match json::parse(sample) {
            Ok(value @ Value::Object(_)) => {
                top.add(&value);
                continue;
            }
            Ok(_) => "is no JSON object".to_owned(),
            Err(reason) => format!("is no JSON: {reason}"),
        };
        left_out += 1;
        first_fault.get_or_insert_with(|| format!("sample {index} {fault}"));
    }
    if top.count <= left_out {
        let fault = first_fault.unwrap_or_else(|| "there are no samples".to_owned());
        return Err(format!("{left_out} of {} samples are no JSON objects: {fault}", top.count + left_out));
    }
    let mut writer = Writer { options, out: String::new(), notes: Vec::new(), mixed: 0, places: 0 };
    writer.out.push_str(r#"{"$schema":"http://json-schema.org/draft-07/schema#","#);
    writer.record(&top, "");
    writer.out.push('}');
    if let Some(fault) = first_fault {
        writer.notes.push(format!("{left_out} samples were left out; the first: {fault}"));
    }
    let share = top.count as f32 / (top.count + left_out) as f32;
    let pure = 1.0 - writer.mixed as f32 / writer.places.max(1) as f32 / 2.0;
    Ok(Outcome { schema: writer.out, confidence: share * pure, sampled: top.count, notes: writer.notes })
}

struct Writer {
    options: Options,
    out: String,
    notes: Vec<String>,
    /// Places with values of several kinds, of all places.
    mixed: u32,
    places: u32,
}

impl Writer {
    /// A schema in braces.
    fn shape(&mut self, shape: &Shape, path: &str) {
        self.out.push('{');
        self.places += 1;
        match shape.kinds() {
            0 if shape.nulls > 0 => {
                self.notes.push(format!("{path} was null in every sample"));
                self.out.push_str(r#""type":"null""#);
            }
            0 => {}
            1 => self.single(shape, path),
            _ => self.several(shape, path),
        }
        self.out.push('}');
    }

    /// `"type":…` with null beside it if there were nulls.
    fn type_name(&mut self, name: &str, shape: &Shape) {
        let _ = if shape.nulls > 0 {
            write!(self.out, r#""type":["{name}","null"]"#)
        } else {
            write!(self.out, r#""type":"{name}""#)
        };
    }

    fn single(&mut self, shape: &Shape, path: &str) {
        if shape.booleans > 0 {
            self.type_name("boolean", shape);
        } else if shape.fractions > 0 {
            // Integers and fractions in one place: the wider type holds both.
            self.type_name("number", shape);
        } else if shape.integers > 0 {
            self.type_name("integer", shape);
            // Bounds only where 64 bits do not hold the values: others would be chance.
            if shape.smallest < i128::from(i64::MIN) || shape.largest > i128::from(i64::MAX) {
                let _ = write!(self.out, r#","minimum":{},"maximum":{}"#, shape.smallest, shape.largest);
            }
        } else if shape.strings.count > 0 {
            self.string(shape);
        } else if shape.arrays > 0 {
            self.type_name("array", shape);
            if let Some(items) = shape.items.as_ref().filter(|items| items.count > 0) {
                self.out.push_str(r#","items":"#);
                self.shape(items, &format!("{path}[]"));
            }
        } else if let Some(values) = self.as_map(shape) {
            self.notes.push(format!("{path} is read as a map: its {} members differ from sample to sample", shape.members.len()));
            self.type_name("object", shape);
            self.out.push_str(r#","additionalProperties":"#);
            self.shape(&values, &format!("{path}.*"));
        } else {
            self.record(shape, path);
        }
    }

    fn string(&mut self, shape: &Shape) {
        self.type_name("string", shape);
        let strings = &shape.strings;
        if let Some(format) = format::name(strings.formats) {
            let _ = write!(self.out, r#","format":"{format}""#);
        } else if !strings.many
            && strings.distinct.len() <= self.options.enum_values_max
            && strings.count >= ENUM_SUPPORT * strings.distinct.len() as u32
            && strings.distinct.len() > 1
        {
            self.out.push_str(r#","enum":["#);
            for (at, text) in strings.distinct.iter().enumerate() {
                if at > 0 {
                    self.out.push(',');
                }
                write_string(text, &mut self.out);
            }
            self.out.push_str(if shape.nulls > 0 { ",null]" } else { "]" });
        }
    }

    fn record(&mut self, shape: &Shape, path: &str) {
        self.type_name("object", shape);
        if shape.members.is_empty() {
            return;
        }
        self.out.push_str(r#","properties":{"#);
        for (at, (name, member)) in shape.members.iter().enumerate() {
            if at > 0 {
                self.out.push(',');
            }
            write_string(name, &mut self.out);
            self.out.push(':');
            self.shape(member, &if path.is_empty() { name.clone() } else { format!("{path}.{name}") });
        }
        self.out.push('}');
        let required: Vec<&String> = shape.members.iter().filter(|(_, m)| m.count >= shape.objects).map(|(name, _)| name).collect();
        if !required.is_empty() {
            self.out.push_str(r#","required":["#);
            for (at, name) in required.into_iter().enumerate() {
                if at > 0 {
                    self.out.push(',');
                }
                write_string(name, &mut self.out);
            }
            self.out.push(']');
        }
    }

    /// All members as one, if this is a map rather than a record: many names, each in few of the objects, and values of
    /// one kind.
    fn as_map(&self, shape: &Shape) -> Option<Shape> {
        let names = shape.members.len();
        let values: u32 = shape.members.iter().map(|(_, member)| member.count).sum();
        let seldom = u64::from(values) * 3 < names as u64 * u64::from(shape.objects);
        if names < self.options.map_members_min || !seldom {
            return None;
        }
        let mut all = Shape::default();
        for (_, member) in &shape.members {
            all.merge(member);
        }
        (all.kinds() <= 1).then_some(all)
    }

    fn several(&mut self, shape: &Shape, path: &str) {
        self.mixed += 1;
        let numbers = if shape.fractions > 0 { "number" } else { "integer" };
        let kinds = [
            ("boolean", shape.booleans),
            (numbers, shape.integers + shape.fractions),
            ("string", shape.strings.count),
            ("array", shape.arrays),
            ("object", shape.objects),
            ("null", shape.nulls),
        ];
        let found: Vec<_> = kinds.iter().filter(|(_, count)| *count > 0).collect();
        let names: Vec<_> = found.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        let _ = write!(self.out, r#""type":[{}]"#, names.join(","));
        let counts: Vec<_> = found.iter().map(|(name, count)| format!("{name} {count} times")).collect();
        self.notes.push(format!("{path} has values of several kinds: {}", counts.join(", ")));
    }
}
