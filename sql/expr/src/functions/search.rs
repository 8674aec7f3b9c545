//! Functions that look into texts: lengths, positions, parts.

use std::sync::Arc;

use arrow::{
    array::ListBuilder,
    datatypes::{DataType, Int32Type, Int64Type},
};
use arrow::array::StringBuilder;
use datafusion::common::Result;

use super::{Bind, Param, Spec};
use crate::{
    func::{Columns, Plan, collect, collect_bool, collect_text},
    types::item_field,
};

use Param::{Any, Int, Text};

pub(super) const SPECS: &[Spec] = &[
    Spec { name: "CHAR_LENGTH", params: &[Text], optional: 0, rest: None, bind: |_| Ok(count(|text| if text.is_ascii() { text.len() } else { text.chars().count() } as i32)) },
    Spec { name: "OCTET_LENGTH", params: &[Text], optional: 0, rest: None, bind: |_| Ok(count(|text| text.len() as i32)) },
    Spec { name: "ASCII", params: &[Text], optional: 0, rest: None, bind: |_| Ok(count(|text| text.bytes().next().map_or(0, |b| i32::from(b as i8)))) },
    Spec { name: "POSITION", params: &[Text, Text], optional: 0, rest: None, bind: |_| Ok(position(0, 1)) },
    Spec { name: "LOCATE", params: &[Text, Text, Int], optional: 1, rest: None, bind: |_| Ok(position(0, 1)) },
    Spec { name: "INSTR", params: &[Text, Text, Int, Int], optional: 2, rest: None, bind: |_| Ok(Plan::new(DataType::Int32, instr).into()) },
    Spec { name: "STARTSWITH", params: &[Text, Text], optional: 0, rest: None, bind: |_| Ok(test(|a, b| a.starts_with(b))) },
    Spec { name: "ENDSWITH", params: &[Text, Text], optional: 0, rest: None, bind: |_| Ok(test(|a, b| a.ends_with(b))) },
    Spec { name: "CONTAINS", params: &[Text, Text], optional: 0, rest: None, bind: |_| Ok(test(|a, b| a.contains(b))) },
    Spec { name: "SPLIT_INDEX", params: &[Text, Any, Int], optional: 0, rest: None, bind: split_index },
    Spec { name: "SPLIT", params: &[Text, Text], optional: 0, rest: None, bind: |_| Ok(Plan::new(DataType::List(item_field(DataType::Utf8)), split).into()) },
    Spec { name: "IS_ALPHA", params: &[Any], optional: 0, rest: None, bind: |call| is(call, |text| text.chars().all(char::is_alphabetic)) },
    Spec { name: "IS_DIGIT", params: &[Any], optional: 0, rest: None, bind: |call| is(call, |text| text.chars().all(char::is_numeric)) },
    Spec { name: "IS_DECIMAL", params: &[Any], optional: 0, rest: None, bind: |call| is(call, |text| crate::cast::read_double(text).is_ok()) },
];

fn count(of: fn(&str) -> i32) -> Bind {
    Plan::new(DataType::Int32, move |columns| {
        let texts = columns.texts(0)?;
        Ok(Arc::new(collect::<Int32Type>(columns.rows, |row| Ok(texts.get(row).map(of)))?))
    })
    .into()
}

fn test(of: fn(&str, &str) -> bool) -> Bind {
    Plan::new(DataType::Boolean, move |columns| {
        let (a, b) = (columns.texts(0)?, columns.texts(1)?);
        collect_bool(columns.rows, |row| Ok(a.get(row).zip(b.get(row)).map(|(a, b)| of(a, b))))
    })
    .into()
}

/// Empty text and null are nothing of all this; what is no text is tested as text.
fn is(call: &super::Call<'_>, of: fn(&str) -> bool) -> Result<Bind> {
    let value = call.args[0].clone();
    let text = crate::cast::cast_to(value, &DataType::Utf8.into(), call.mode())?;
    let plan = Plan::new(DataType::Boolean, move |columns| {
        let texts = columns.texts(0)?;
        collect_bool(columns.rows, |row| Ok(Some(texts.get(row).is_some_and(|text| !text.is_empty() && of(text)))))
    });
    Ok(Bind::Expr(plan.call(call.name, String::new(), vec![text])))
}

/// Where `search` is first found at or after character `from`, counted from 1; 0 if nowhere.
fn find(text: &str, search: &str, from: i64) -> i32 {
    let skipped = (from - 1).max(0) as usize;
    let Some(start) = text.char_indices().map(|(byte, _)| byte).chain([text.len()]).nth(skipped) else { return 0 };
    match text[start..].find(search) {
        Some(byte) => (skipped + text[start..start + byte].chars().count()) as i32 + 1,
        None => 0,
    }
}

fn position(search: usize, text: usize) -> Bind {
    Plan::new(DataType::Int32, move |columns| {
        let (searched, texts) = (columns.texts(search)?, columns.texts(text)?);
        let starts = if columns.len() > 2 { Some(columns.numbers::<Int64Type>(2)?) } else { None };
        Ok(Arc::new(collect::<Int32Type>(columns.rows, |row| {
            let (Some(search), Some(text)) = (searched.get(row), texts.get(row)) else { return Ok(None) };
            let start = match &starts {
                None => 1,
                Some(starts) => match starts.get(row) {
                    Some(start) => start,
                    None => return Ok(None),
                },
            };
            Ok(Some(find(text, search, start)))
        })?))
    })
    .into()
}

/// The n-th place where the second text is found; a negative start searches backwards from the end.
fn instr(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let (texts, searched) = (columns.texts(0)?, columns.texts(1)?);
    let starts = if columns.len() > 2 { Some(columns.numbers::<Int64Type>(2)?) } else { None };
    let counts = if columns.len() > 3 { Some(columns.numbers::<Int64Type>(3)?) } else { None };
    Ok(Arc::new(collect::<Int32Type>(columns.rows, |row| {
        let (Some(text), Some(search)) = (texts.get(row), searched.get(row)) else { return Ok(None) };
        let option = |numbers: &Option<crate::func::Numbers<Int64Type>>| numbers.as_ref().map_or(Some(1), |numbers| numbers.get(row));
        let (Some(start), Some(nth)) = (option(&starts), option(&counts)) else { return Ok(None) };
        Ok(Some(if start == 0 || nth <= 0 { 0 } else { nth_place(text, search, start, nth as usize) }))
    })?))
}

fn nth_place(text: &str, search: &str, start: i64, nth: usize) -> i32 {
    let length = text.chars().count() as i64;
    // Places overlap, and each is the position of a character.
    let mut places = text.char_indices().zip(1_i64..).filter(|((byte, _), _)| text[*byte..].starts_with(search)).map(|(_, place)| place);
    if start > 0 {
        return places.filter(|place| *place >= start).nth(nth - 1).unwrap_or(0) as i32;
    }
    let last = length + start + 1;
    let mut found: Vec<i64> = places.by_ref().filter(|place| *place <= last).collect();
    found.reverse();
    found.get(nth - 1).copied().unwrap_or(0) as i32
}

/// The part between separators, counted from 0. Null if there is none, and for empty texts.
fn split_index(call: &super::Call<'_>) -> Result<Bind> {
    let separator = &call.args[1];
    if crate::types::is_integer(&separator.data_type) {
        let chr = super::call("CHR", vec![separator.clone()], call.session)?;
        let folded = crate::func::Typed::new(crate::fold(chr.expr)?, chr.data_type);
        return super::call("SPLIT_INDEX", vec![call.args[0].clone(), folded, call.args[2].clone()], call.session).map(Bind::Expr);
    }
    if separator.data_type != DataType::Utf8 {
        return datafusion::common::plan_err!("SPLIT_INDEX takes a text or a character's code as argument 2, got {}", crate::types::type_name(&separator.data_type));
    }
    Ok(Plan::new(DataType::Utf8, split_kernel).into())
}

fn split_kernel(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let (texts, separators, indexes) = (columns.texts(0)?, columns.texts(1)?, columns.numbers::<Int64Type>(2)?);
    // One byte as separator is by far the most frequent case, and needs no search of substrings.
    let byte = match separators.constant() {
        Some(Some(separator)) if separator.len() == 1 => separator.bytes().next(),
        _ => None,
    };
    collect_text(columns.rows, |row, out| {
        let (Some(text), Some(index)) = (texts.get(row), indexes.get(row)) else { return Ok(None) };
        if index < 0 || text.is_empty() {
            return Ok(None);
        }
        let part = match (byte, separators.get(row)) {
            (Some(byte), _) => nth_part(text, byte, index as usize),
            (None, Some("")) => (index == 0).then_some(text),
            (None, Some(separator)) => text.split(separator).nth(index as usize),
            (None, None) => None,
        };
        Ok(part.map(|part| out.push_str(part)))
    })
}

fn nth_part(text: &str, separator: u8, index: usize) -> Option<&str> {
    let mut separators = memchr::memchr_iter(separator, text.as_bytes());
    let start = if index == 0 { 0 } else { separators.nth(index - 1)? + 1 };
    text.get(start..separators.next().unwrap_or(text.len()))
}

fn split(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let (texts, separators) = (columns.texts(0)?, columns.texts(1)?);
    let mut list = ListBuilder::new(StringBuilder::new()).with_field(item_field(DataType::Utf8));
    for row in 0..columns.rows {
        match (texts.get(row), separators.get(row)) {
            (Some(text), Some("")) => {
                text.char_indices().for_each(|(byte, c)| list.values().append_value(&text[byte..byte + c.len_utf8()]));
                list.append(true);
            }
            (Some(text), Some(separator)) => {
                text.split(separator).for_each(|part| list.values().append_value(part));
                list.append(true);
            }
            _ => list.append(false),
        }
    }
    Ok(Arc::new(list.finish()))
}
