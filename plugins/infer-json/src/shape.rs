//! What was seen in one place of the samples, merged value by value.

use std::borrow::Cow;

use pelton_plugin::json::Value;

use crate::format::{self, Formats};

/// Distinct strings kept to see whether a place is an enum.
const DISTINCT_MAX: usize = 12;
/// A string longer than this belongs to no enum.
const ENUM_BYTES_MAX: usize = 40;

/// Everything seen in one place.
#[derive(Default)]
pub(crate) struct Shape {
    /// Values of any kind.
    pub(crate) count: u32,
    pub(crate) nulls: u32,
    pub(crate) booleans: u32,
    pub(crate) integers: u32,
    pub(crate) fractions: u32,
    /// Smallest and largest integer, as far as 128 bits go.
    pub(crate) smallest: i128,
    pub(crate) largest: i128,
    pub(crate) strings: Strings,
    pub(crate) arrays: u32,
    /// All items of all arrays.
    pub(crate) items: Option<Box<Shape>>,
    pub(crate) objects: u32,
    /// In the order they were first seen.
    pub(crate) members: Vec<(String, Shape)>,
}

#[derive(Default)]
pub(crate) struct Strings {
    pub(crate) count: u32,
    pub(crate) formats: Formats,
    /// Distinct values in byte order, as long as they are few.
    pub(crate) distinct: Vec<String>,
    pub(crate) many: bool,
}

impl Shape {
    /// One more value here.
    pub(crate) fn add(&mut self, value: &Value<'_>) {
        self.count += 1;
        match value {
            Value::Null => self.nulls += 1,
            Value::Bool(_) => self.booleans += 1,
            Value::Number(text) => self.add_number(text),
            Value::String(text) => self.strings.add(text),
            Value::Array(items) => {
                self.arrays += 1;
                let shape = self.items.get_or_insert_with(Box::default);
                for item in items {
                    shape.add(item);
                }
            }
            Value::Object(members) => {
                self.objects += 1;
                self.add_members(members);
            }
        }
    }

    fn add_number(&mut self, text: &str) {
        match text.parse::<i128>() {
            Ok(number) => {
                if self.integers == 0 {
                    (self.smallest, self.largest) = (number, number);
                }
                self.smallest = self.smallest.min(number);
                self.largest = self.largest.max(number);
                self.integers += 1;
            }
            Err(_) => self.fractions += 1,
        }
    }

    /// Members mostly come in the same order: looking begins where the last one was found.
    fn add_members(&mut self, members: &[(Cow<'_, str>, Value<'_>)]) {
        let mut next = 0;
        for (name, value) in members {
            let known = self.members.len();
            let found = (0..known).map(|step| (next + step) % known).find(|&at| self.members[at].0 == name.as_ref());
            let at = found.unwrap_or_else(|| {
                self.members.push((name.to_string(), Self::default()));
                known
            });
            self.members[at].1.add(value);
            next = at + 1;
        }
    }

    /// Takes in everything another place saw: how members of a map become one.
    pub(crate) fn merge(&mut self, other: &Self) {
        if other.integers > 0 {
            let first = self.integers == 0;
            self.smallest = if first { other.smallest } else { self.smallest.min(other.smallest) };
            self.largest = if first { other.largest } else { self.largest.max(other.largest) };
        }
        self.count += other.count;
        self.nulls += other.nulls;
        self.booleans += other.booleans;
        self.integers += other.integers;
        self.fractions += other.fractions;
        self.strings.merge(&other.strings);
        self.arrays += other.arrays;
        if let Some(items) = &other.items {
            self.items.get_or_insert_with(Box::default).merge(items);
        }
        self.objects += other.objects;
        for (name, shape) in &other.members {
            let at = self.members.iter().position(|(have, _)| have == name).unwrap_or_else(|| {
                self.members.push((name.clone(), Self::default()));
                self.members.len() - 1
            });
            self.members[at].1.merge(shape);
        }
    }

    /// How many kinds of values were seen, nulls apart; integers and fractions are one.
    pub(crate) fn kinds(&self) -> usize {
        let numbers = self.integers + self.fractions;
        [self.booleans, numbers, self.strings.count, self.arrays, self.objects].iter().filter(|count| **count > 0).count()
    }
}

impl Strings {
    fn add(&mut self, text: &str) {
        if self.count == 0 {
            self.formats = format::ALL;
        }
        self.count += 1;
        self.formats = format::narrow(self.formats, text);
        if !self.many {
            self.remember(text);
        }
    }

    fn remember(&mut self, text: &str) {
        if let Err(at) = self.distinct.binary_search_by(|have| have.as_str().cmp(text)) {
            if self.distinct.len() >= DISTINCT_MAX || text.len() > ENUM_BYTES_MAX {
                self.many = true;
                self.distinct.clear();
            } else {
                self.distinct.insert(at, text.to_owned());
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.formats = if self.count == 0 { other.formats } else { self.formats & other.formats };
        self.count += other.count;
        self.many |= other.many;
        for text in &other.distinct {
            if !self.many {
                self.remember(text);
            }
        }
        if self.many {
            self.distinct.clear();
        }
    }
}
