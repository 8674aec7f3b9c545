//! From what was seen to types.

use super::{
    InferredField, InferredKind, InferredValue, TextFormat,
    collect::{KEYS_MAX, Place},
    words,
};

/// A word must come back at least so often on average for its place to be an enum.
const REPEATS_MIN: usize = 4;
/// An object with fewer different keys than this is a record, unless its keys are ids.
const MAP_KEYS_MIN: usize = 8;

/// The fields of a record.
pub(super) fn fields(place: &Place) -> Vec<InferredField> {
    place
        .fields
        .iter()
        .map(|field| InferredField { name: field.name.clone(), value: value(&field.value), required: field.objects == place.objects })
        .collect()
}

/// The type at one place.
fn value(place: &Place) -> InferredValue {
    InferredValue { kind: kind(place), nullable: place.nulls > 0 }
}

fn kind(place: &Place) -> InferredKind {
    let numbers = place.integers + place.big_integers + place.numbers;
    let nested = place.objects + place.arrays + place.deep;
    let kinds: Vec<&'static str> = [
        ("boolean", place.booleans),
        ("integer", if place.numbers == 0 { numbers } else { 0 }),
        ("number", if place.numbers > 0 { numbers } else { 0 }),
        ("string", place.texts.count),
        ("array", place.arrays),
        ("object", place.objects + place.deep),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(name, _)| name)
    .collect();
    match kinds.as_slice() {
        [] => InferredKind::Unknown,
        ["boolean"] => InferredKind::Boolean,
        ["integer"] if place.big_integers == 0 => InferredKind::Integer,
        ["integer"] => InferredKind::BigInteger,
        ["number"] => InferredKind::Number,
        ["string"] => text(place),
        ["array"] => InferredKind::Array(Box::new(place.elements.as_deref().map_or(
            InferredValue { kind: InferredKind::Unknown, nullable: false },
            value,
        ))),
        ["object"] if place.deep == 0 => object(place),
        _ => {
            debug_assert!(nested > 0 || kinds.len() > 1, "one kind alone is decided above");
            InferredKind::Mixed(kinds)
        }
    }
}

fn text(place: &Place) -> InferredKind {
    let texts = &place.texts;
    let is_enum = texts.format.is_none() && !texts.is_open && !texts.words.is_empty() && texts.count >= REPEATS_MIN * texts.words.len();
    let words = if is_enum { texts.words.keys().cloned().collect() } else { Vec::new() };
    InferredKind::Text { format: texts.format, words }
}

/// A record has names that come back in most objects. A map has keys that are data: ids, or many different ones of
/// which each object has few, with values alike.
fn object(place: &Place) -> InferredKind {
    let mut values = Place::default();
    place.fields.iter().for_each(|field| values.merge(&field.value));
    if let Some(overflow) = &place.overflow {
        values.merge(overflow);
    }
    if is_map(place, &values) { InferredKind::Map(Box::new(value(&values))) } else { InferredKind::Record(fields(place)) }
}

fn is_map(place: &Place, values: &Place) -> bool {
    let keys = place.fields.len();
    if keys == 0 || matches!(kind(values), InferredKind::Mixed(_)) {
        return false;
    }
    if keys >= 2 && place.fields.iter().all(|field| is_id(field.name.as_bytes())) {
        return true;
    }
    if keys == KEYS_MAX {
        return true;
    }
    // Objects must agree on hardly any key: the average key is in at most a third of them.
    let entries: usize = place.fields.iter().map(|field| field.objects).sum();
    keys >= MAP_KEYS_MIN && place.objects >= 3 && entries * 3 <= keys * place.objects
}

/// Keys nobody would name a column: numbers, uuids, days.
fn is_id(key: &[u8]) -> bool {
    key.iter().all(u8::is_ascii_digit)
        || matches!(words::format_of(key), Some(TextFormat::Uuid | TextFormat::Date | TextFormat::DateTime { .. } | TextFormat::Ipv4))
}
