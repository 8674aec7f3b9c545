//! Functions of texts that make texts. Positions and lengths count characters (code points).

use datafusion::common::Result;
use arrow::datatypes::{DataType, Int64Type};

use super::{Bind, Call, Param, Spec};
use crate::func::{Columns, Plan, Texts, collect_text};

use Param::{Any, Int, Text};

pub(super) const SPECS: &[Spec] = &[
    Spec { name: "UPPER", params: &[Text], optional: 0, rest: None, bind: |_| Ok(each(upper)) },
    Spec { name: "LOWER", params: &[Text], optional: 0, rest: None, bind: |_| Ok(each(lower)) },
    Spec { name: "INITCAP", params: &[Text], optional: 0, rest: None, bind: |_| Ok(each(initcap)) },
    Spec { name: "REVERSE", params: &[Text], optional: 0, rest: None, bind: |_| Ok(each(|text, out| out.extend(text.chars().rev()))) },
    Spec { name: "TRIM", params: &[Text, Text], optional: 1, rest: None, bind: |_| Ok(trim(true, true)) },
    Spec { name: "BTRIM", params: &[Text, Text], optional: 1, rest: None, bind: |_| Ok(trim(true, true)) },
    Spec { name: "LTRIM", params: &[Text, Text], optional: 1, rest: None, bind: |_| Ok(trim(true, false)) },
    Spec { name: "RTRIM", params: &[Text, Text], optional: 1, rest: None, bind: |_| Ok(trim(false, true)) },
    Spec { name: "SUBSTRING", params: &[Text, Int, Int], optional: 1, rest: None, bind: |_| Ok(plan(substring)) },
    Spec { name: "LEFT", params: &[Text, Int], optional: 0, rest: None, bind: |_| Ok(plan(left)) },
    Spec { name: "RIGHT", params: &[Text, Int], optional: 0, rest: None, bind: |_| Ok(plan(right)) },
    Spec { name: "REPLACE", params: &[Text, Text, Text], optional: 0, rest: None, bind: |_| Ok(plan(replace)) },
    Spec { name: "LPAD", params: &[Text, Int, Text], optional: 0, rest: None, bind: |_| Ok(pad(true)) },
    Spec { name: "RPAD", params: &[Text, Int, Text], optional: 0, rest: None, bind: |_| Ok(pad(false)) },
    Spec { name: "REPEAT", params: &[Text, Int], optional: 0, rest: None, bind: |_| Ok(Plan::new(DataType::Utf8, repeat).fallible().into()) },
    Spec { name: "CONCAT", params: &[Text], optional: 0, rest: Some(Text), bind: |_| Ok(plan(concat)) },
    Spec { name: "||", params: &[Text, Text], optional: 0, rest: None, bind: |_| Ok(plan(concat)) },
    Spec { name: "CONCAT_WS", params: &[Text, Text], optional: 0, rest: Some(Text), bind: |_| Ok(plan(concat_ws)) },
    Spec { name: "OVERLAY", params: &[Text, Text, Int, Int], optional: 1, rest: None, bind: |_| Ok(plan(overlay)) },
    Spec { name: "TRANSLATE", params: &[Text, Text, Text], optional: 0, rest: None, bind: |_| Ok(plan(translate)) },
    Spec { name: "CHR", params: &[Int], optional: 0, rest: None, bind: |_| Ok(plan(chr)) },
    Spec { name: "PRINTF", params: &[Text], optional: 0, rest: Some(Any), bind: printf },
];

fn plan(kernel: impl Fn(&Columns<'_>) -> Result<arrow::array::ArrayRef> + Send + Sync + 'static) -> Bind {
    Plan::new(DataType::Utf8, kernel).into()
}

/// A text from a text.
fn each(write: fn(&str, &mut String)) -> Bind {
    plan(move |columns| {
        let texts = columns.texts(0)?;
        collect_text(columns.rows, |row, out| Ok(texts.get(row).map(|text| write(text, out))))
    })
}

fn upper(text: &str, out: &mut String) {
    if text.is_ascii() {
        let start = out.len();
        out.push_str(text);
        out[start..].make_ascii_uppercase();
    } else {
        out.push_str(&text.to_uppercase());
    }
}

fn lower(text: &str, out: &mut String) {
    if text.is_ascii() {
        let start = out.len();
        out.push_str(text);
        out[start..].make_ascii_lowercase();
    } else {
        out.push_str(&text.to_lowercase());
    }
}

/// As Flink's: words are runs of ASCII letters and digits, and only ASCII letters change.
fn initcap(text: &str, out: &mut String) {
    let mut inside = false;
    for c in text.chars() {
        out.push(if inside { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() });
        inside = c.is_ascii_alphanumeric();
    }
}

fn trim(start: bool, end: bool) -> Bind {
    plan(move |columns| {
        let texts = columns.texts(0)?;
        let set = if columns.len() > 1 { Some(columns.texts(1)?) } else { None };
        collect_text(columns.rows, |row, out| {
            let Some(mut text) = texts.get(row) else { return Ok(None) };
            match &set {
                None => {
                    text = if start { text.trim_start_matches(' ') } else { text };
                    text = if end { text.trim_end_matches(' ') } else { text };
                }
                Some(set) => {
                    let Some(set) = set.get(row) else { return Ok(None) };
                    text = if start { text.trim_start_matches(|c| set.contains(c)) } else { text };
                    text = if end { text.trim_end_matches(|c| set.contains(c)) } else { text };
                }
            }
            out.push_str(text);
            Ok(Some(()))
        })
    })
}

/// The byte at which character `index` begins, or the text's end.
fn byte_at(text: &str, index: usize) -> usize {
    if text.is_ascii() {
        return index.min(text.len());
    }
    text.char_indices().nth(index).map_or(text.len(), |(byte, _)| byte)
}

fn length(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// Position 1 is the first character, 0 too; negative ones count from the end, and before the beginning there is nothing.
fn substring(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let (texts, starts) = (columns.texts(0)?, columns.numbers::<Int64Type>(1)?);
    let lengths = if columns.len() > 2 { Some(columns.numbers::<Int64Type>(2)?) } else { None };
    collect_text(columns.rows, |row, out| {
        let (Some(text), Some(start)) = (texts.get(row), starts.get(row)) else { return Ok(None) };
        let count = match &lengths {
            None => i64::MAX,
            Some(lengths) => match lengths.get(row) {
                Some(count) if count >= 0 => count,
                _ => return Ok(None),
            },
        };
        let from = if start >= 0 {
            (start - 1).max(0) as usize
        } else {
            match (length(text) as i64).checked_add(start) {
                Some(from) if from >= 0 => from as usize,
                _ => return Ok(Some(())),
            }
        };
        let rest = &text[byte_at(text, from)..];
        out.push_str(&rest[..byte_at(rest, usize::try_from(count).unwrap_or(usize::MAX))]);
        Ok(Some(()))
    })
}

fn left(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let (texts, counts) = (columns.texts(0)?, columns.numbers::<Int64Type>(1)?);
    collect_text(columns.rows, |row, out| {
        let (Some(text), Some(count)) = (texts.get(row), counts.get(row)) else { return Ok(None) };
        out.push_str(&text[..byte_at(text, count.max(0) as usize)]);
        Ok(Some(()))
    })
}

fn right(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let (texts, counts) = (columns.texts(0)?, columns.numbers::<Int64Type>(1)?);
    collect_text(columns.rows, |row, out| {
        let (Some(text), Some(count)) = (texts.get(row), counts.get(row)) else { return Ok(None) };
        let skip = length(text).saturating_sub(count.max(0) as usize);
        out.push_str(&text[byte_at(text, skip)..]);
        Ok(Some(()))
    })
}

fn replace(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let (texts, searched, replacements) = (columns.texts(0)?, columns.texts(1)?, columns.texts(2)?);
    collect_text(columns.rows, |row, out| {
        let (Some(text), Some(search), Some(replacement)) = (texts.get(row), searched.get(row), replacements.get(row)) else { return Ok(None) };
        let mut last = 0;
        for (start, found) in text.match_indices(search) {
            out.push_str(&text[last..start]);
            out.push_str(replacement);
            last = start + found.len();
        }
        out.push_str(&text[last..]);
        Ok(Some(()))
    })
}

/// Longest result of LPAD, RPAD and REPEAT in characters: one row must not take a worker's memory.
const LONGEST: i64 = 64 << 20;

fn pad(front: bool) -> Bind {
    let kernel = move |columns: &Columns<'_>| {
        let (texts, counts, pads) = (columns.texts(0)?, columns.numbers::<Int64Type>(1)?, columns.texts(2)?);
        collect_text(columns.rows, |row, out| {
            let (Some(text), Some(count), Some(pad)) = (texts.get(row), counts.get(row), pads.get(row)) else { return Ok(None) };
            if count < 0 || pad.is_empty() {
                return Ok(None);
            }
            too_long("LPAD and RPAD", count)?;
            let have = length(text);
            let kept = &text[..byte_at(text, count as usize)];
            let fill = pad.chars().cycle().take((count as usize).saturating_sub(have));
            if front {
                out.extend(fill);
                out.push_str(kept);
            } else {
                out.push_str(kept);
                out.extend(fill);
            }
            Ok(Some(()))
        })
    };
    Plan::new(DataType::Utf8, kernel).fallible().into()
}

fn too_long(name: &str, count: i64) -> Result<()> {
    if count > LONGEST {
        return Err(crate::error::bad_row(format!("{name} make at most {LONGEST} characters, {count} are asked for")));
    }
    Ok(())
}

fn repeat(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let (texts, counts) = (columns.texts(0)?, columns.numbers::<Int64Type>(1)?);
    collect_text(columns.rows, |row, out| {
        let (Some(text), Some(count)) = (texts.get(row), counts.get(row)) else { return Ok(None) };
        too_long("REPEAT", count.saturating_mul(text.len() as i64))?;
        if !text.is_empty() {
            (0..count).for_each(|_| out.push_str(text));
        }
        Ok(Some(()))
    })
}

fn all_texts(columns: &Columns<'_>) -> Result<Vec<Texts>> {
    (0..columns.len()).map(|index| columns.texts(index)).collect()
}

fn concat(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let parts = all_texts(columns)?;
    collect_text(columns.rows, |row, out| {
        for part in &parts {
            let Some(text) = part.get(row) else { return Ok(None) };
            out.push_str(text);
        }
        Ok(Some(()))
    })
}

/// Nulls are left out; a null separator makes null.
fn concat_ws(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let parts = all_texts(columns)?;
    collect_text(columns.rows, |row, out| {
        let Some(separator) = parts[0].get(row) else { return Ok(None) };
        for (position, text) in parts[1..].iter().filter_map(|part| part.get(row)).enumerate() {
            if position > 0 {
                out.push_str(separator);
            }
            out.push_str(text);
        }
        Ok(Some(()))
    })
}

fn overlay(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let (texts, inserts, starts) = (columns.texts(0)?, columns.texts(1)?, columns.numbers::<Int64Type>(2)?);
    let lengths = if columns.len() > 3 { Some(columns.numbers::<Int64Type>(3)?) } else { None };
    collect_text(columns.rows, |row, out| {
        let (Some(text), Some(insert), Some(start)) = (texts.get(row), inserts.get(row), starts.get(row)) else { return Ok(None) };
        let count = match &lengths {
            None => length(insert) as i64,
            Some(lengths) => match lengths.get(row) {
                Some(count) => count,
                None => return Ok(None),
            },
        };
        if start <= 0 || start > length(text) as i64 {
            out.push_str(text);
            return Ok(Some(()));
        }
        let from = byte_at(text, (start - 1) as usize);
        out.push_str(&text[..from]);
        out.push_str(insert);
        let rest = &text[from..];
        // A negative length takes all that follows, as in Flink.
        if count >= 0 {
            out.push_str(&rest[byte_at(rest, count as usize)..]);
        }
        Ok(Some(()))
    })
}

fn translate(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let (texts, from, to) = (columns.texts(0)?, columns.texts(1)?, columns.texts(2)?);
    collect_text(columns.rows, |row, out| {
        let (Some(text), Some(from)) = (texts.get(row), from.get(row)) else { return Ok(None) };
        let to = to.get(row).unwrap_or_default();
        for c in text.chars() {
            match from.chars().position(|known| known == c) {
                None => out.push(c),
                Some(position) => out.extend(to.chars().nth(position)),
            }
        }
        Ok(Some(()))
    })
}

fn chr(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let codes = columns.numbers::<Int64Type>(0)?;
    collect_text(columns.rows, |row, out| {
        let Some(code) = codes.get(row) else { return Ok(None) };
        if code >= 0 {
            out.push(char::from((code % 256) as u8));
        }
        Ok(Some(()))
    })
}

/// PRINTF knows `%s %d %f %x %%` with width, `-`, `0` and precision.
fn printf(call: &Call<'_>) -> Result<Bind> {
    let Some(format) = call.constant(0) else { return datafusion::common::plan_err!("PRINTF: the format must be a constant text") };
    let pieces = super::hash::format_pieces(format, call.args.len() - 1).map_err(datafusion::common::DataFusionError::Plan)?;
    let zone = call.zone();
    Ok(plan(move |columns| {
        let arguments = (1..columns.len()).map(|index| columns.array(index)).collect::<Result<Vec<_>>>()?;
        super::hash::printf(columns.rows, &pieces, &arguments, zone)
    }))
}
