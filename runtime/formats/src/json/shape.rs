//! What a JSON object is expected to hold: which keys are columns, and in which order keys came last time.
//!
//! Records of one stream tend to have the same keys in the same order. So the key at each place is first compared with
//! the one that stood there before: a short memory comparison instead of a look-up. A wrong guess costs a look-up and
//! is replaced.

use std::collections::HashMap;

use arrow::datatypes::{DataType, Fields};

/// Objects with more columns than this are looked up in a hash map.
const LINEAR_MAX: usize = 12;
/// Places remembered and the longest key remembered: what a record with many or huge keys may cost in memory.
const PLACES_MAX: usize = 512;
const KEY_BYTES_MAX: usize = 128;

/// One ROW, and for each field what is below it.
#[derive(Debug)]
pub(crate) struct Shape {
    names: Vec<Box<[u8]>>,
    lookup: Option<HashMap<Box<[u8]>, usize>>,
    guesses: Vec<Guess>,
    /// For each field the shape of the ROW in it, behind any ARRAY or MAP.
    pub(crate) below: Vec<Option<Box<Shape>>>,
}

#[derive(Debug)]
struct Guess {
    /// The key and its closing quote.
    key: Vec<u8>,
    field: Option<usize>,
}

impl Shape {
    pub(crate) fn new(fields: &Fields) -> Self {
        let names: Vec<Box<[u8]>> = fields.iter().map(|field| field.name().as_bytes().into()).collect();
        let lookup = (names.len() > LINEAR_MAX)
            .then(|| names.iter().enumerate().map(|(index, name)| (name.clone(), index)).collect());
        let below = fields.iter().map(|field| Self::below(field.data_type())).collect();
        Self { names, lookup, guesses: Vec::new(), below }
    }

    pub(crate) fn below(data_type: &DataType) -> Option<Box<Self>> {
        match data_type {
            DataType::Struct(fields) => Some(Box::new(Self::new(fields))),
            DataType::List(item) => Self::below(item.data_type()),
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(pair) => pair.get(1).and_then(|value| Self::below(value.data_type())),
                _ => None,
            },
            _ => None,
        }
    }

    /// How many fields.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// The key that stood at `place` last time, with its closing quote, and its field.
    #[inline]
    pub(crate) fn guess(&self, place: usize) -> Option<(&[u8], Option<usize>)> {
        self.guesses.get(place).map(|guess| (guess.key.as_slice(), guess.field))
    }

    /// The field of a key; remembers the key for `place` if it stands in the input without escapes.
    pub(crate) fn find(&mut self, key: &[u8], place: usize, is_plain: bool) -> Option<usize> {
        let field = match &self.lookup {
            Some(lookup) => lookup.get(key).copied(),
            None => self.names.iter().position(|name| name.as_ref() == key),
        };
        if is_plain && key.len() <= KEY_BYTES_MAX && place <= self.guesses.len() && place < PLACES_MAX {
            if place == self.guesses.len() {
                self.guesses.push(Guess { key: Vec::new(), field: None });
            }
            let guess = &mut self.guesses[place];
            guess.field = field;
            guess.key.clear();
            guess.key.extend_from_slice(key);
            guess.key.push(b'"');
        }
        field
    }
}
