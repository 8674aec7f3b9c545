//! What was seen at each place of the samples.

use std::collections::{BTreeMap, HashMap};

use super::{DEPTH_MAX, TextFormat, words};
use crate::json::{Cursor, Syntax, Text, unescape};

/// More different words than this are no enum.
pub(super) const WORDS_MAX: usize = 16;
/// Longer texts are no words of an enum.
const WORD_BYTES_MAX: usize = 64;
/// More different keys than this make an object a map; those beyond share one place.
pub(super) const KEYS_MAX: usize = 2_000;

/// Everything seen at one place.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) nulls: usize,
    pub(super) booleans: usize,
    pub(super) integers: usize,
    pub(super) big_integers: usize,
    pub(super) numbers: usize,
    pub(super) texts: Texts,
    pub(super) arrays: usize,
    pub(super) objects: usize,
    /// Values below [`DEPTH_MAX`], not looked into.
    pub(super) deep: usize,
    pub(super) elements: Option<Box<Place>>,
    /// Keys in the order of their first coming.
    pub(super) fields: Vec<Field>,
    index: HashMap<Vec<u8>, usize>,
    /// Values of keys beyond [`KEYS_MAX`].
    pub(super) overflow: Option<Box<Place>>,
}

/// One key of an object.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    /// In how many objects it was.
    pub(super) objects: usize,
    pub(super) value: Place,
    /// The last object it was in, so that a key that comes twice counts once.
    last: usize,
}

/// Texts at one place.
#[derive(Debug, Default)]
pub(super) struct Texts {
    pub(super) count: usize,
    /// Of all texts so far; `None` before the first and after a text that breaks it.
    pub(super) format: Option<TextFormat>,
    broken: bool,
    pub(super) words: BTreeMap<String, usize>,
    pub(super) is_open: bool,
}

impl Texts {
    fn take(&mut self, text: &[u8]) {
        if !self.broken {
            let found = words::format_of(text);
            self.format = match (self.format, found) {
                (None, found) if self.count == 0 => found,
                (Some(known), Some(found)) => words::common(known, found),
                _ => None,
            };
            self.broken = self.format.is_none();
        }
        self.count += 1;
        if self.is_open {
            return;
        }
        let word = String::from_utf8_lossy(text);
        if let Some(count) = self.words.get_mut(word.as_ref()) {
            *count += 1;
        } else if text.len() > WORD_BYTES_MAX || self.words.len() == WORDS_MAX {
            self.is_open = true;
            self.words.clear();
        } else {
            self.words.insert(word.into_owned(), 1);
        }
    }
}

impl Place {
    /// Looks at the value at the cursor and passes it.
    pub(super) fn take(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<(), Syntax> {
        match cursor.peek() {
            b'{' | b'[' if depth == DEPTH_MAX => {
                self.deep += 1;
                cursor.skip()
            }
            b'{' => self.object(cursor, depth),
            b'[' => self.array(cursor, depth),
            b'"' => {
                match cursor.string()? {
                    Text::Plain(text) => self.texts.take(text),
                    Text::Escaped(raw) => {
                        let mut text = Vec::new();
                        unescape(raw, &mut text);
                        self.texts.take(&text);
                    }
                }
                Ok(())
            }
            b'n' => {
                self.nulls += 1;
                cursor.skip()
            }
            b't' | b'f' => {
                self.booleans += 1;
                cursor.skip()
            }
            _ => {
                let number = cursor.number()?;
                if number.is_float {
                    self.numbers += 1;
                } else if crate::text::whole(number.text).is_some() {
                    self.integers += 1;
                } else if number.text.len() <= 38 {
                    self.big_integers += 1;
                } else {
                    self.numbers += 1;
                }
                Ok(())
            }
        }
    }

    fn array(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<(), Syntax> {
        self.arrays += 1;
        cursor.bump();
        let elements = self.elements.get_or_insert_default();
        if cursor.peek() == b']' {
            cursor.bump();
            return Ok(());
        }
        loop {
            elements.take(cursor, depth + 1)?;
            let next = cursor.peek();
            cursor.bump();
            if next != b',' {
                return Ok(());
            }
        }
    }

    fn object(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<(), Syntax> {
        self.objects += 1;
        cursor.bump();
        if cursor.peek() == b'}' {
            cursor.bump();
            return Ok(());
        }
        loop {
            let mut unescaped = Vec::new();
            let key = match cursor.string()? {
                Text::Plain(key) => key,
                Text::Escaped(raw) => {
                    unescape(raw, &mut unescaped);
                    &unescaped
                }
            };
            cursor.expect(b':', "a colon")?;
            match self.field(key) {
                Some(field) => field.take(cursor, depth + 1)?,
                None => self.overflow.get_or_insert_default().take(cursor, depth + 1)?,
            }
            let next = cursor.peek();
            cursor.bump();
            if next != b',' {
                return Ok(());
            }
            cursor.peek();
        }
    }

    fn field(&mut self, key: &[u8]) -> Option<&mut Place> {
        let index = match self.index.get(key) {
            Some(&index) => index,
            None if self.fields.len() == KEYS_MAX => return None,
            None => {
                let name = String::from_utf8_lossy(key).into_owned();
                self.fields.push(Field { name, objects: 0, value: Place::default(), last: 0 });
                self.index.insert(key.to_vec(), self.fields.len() - 1);
                self.fields.len() - 1
            }
        };
        let field = &mut self.fields[index];
        if field.last != self.objects {
            field.last = self.objects;
            field.objects += 1;
        }
        Some(&mut field.value)
    }

    /// Adds what was seen at another place: the values of a map together.
    pub(super) fn merge(&mut self, other: &Place) {
        self.nulls += other.nulls;
        self.booleans += other.booleans;
        self.integers += other.integers;
        self.big_integers += other.big_integers;
        self.numbers += other.numbers;
        self.arrays += other.arrays;
        self.deep += other.deep;
        self.merge_texts(&other.texts);
        if let Some(elements) = &other.elements {
            self.elements.get_or_insert_default().merge(elements);
        }
        if let Some(overflow) = &other.overflow {
            self.overflow.get_or_insert_default().merge(overflow);
        }
        self.objects += other.objects;
        for field in &other.fields {
            let index = match self.index.get(field.name.as_bytes()) {
                Some(&index) => index,
                None => {
                    self.fields.push(Field { name: field.name.clone(), objects: 0, value: Place::default(), last: 0 });
                    self.index.insert(field.name.clone().into_bytes(), self.fields.len() - 1);
                    self.fields.len() - 1
                }
            };
            self.fields[index].objects += field.objects;
            self.fields[index].value.merge(&field.value);
        }
    }

    fn merge_texts(&mut self, other: &Texts) {
        if other.count == 0 {
            return;
        }
        let texts = &mut self.texts;
        texts.format = match (texts.count, texts.format, other.format) {
            (0, _, found) => found,
            (_, Some(one), Some(two)) => words::common(one, two),
            _ => None,
        };
        texts.broken = texts.format.is_none();
        texts.count += other.count;
        texts.is_open |= other.is_open;
        for (word, count) in &other.words {
            *texts.words.entry(word.clone()).or_default() += count;
        }
        if texts.is_open || texts.words.len() > WORDS_MAX {
            texts.is_open = true;
            texts.words.clear();
        }
    }
}
