//! Regular expressions, LIKE and SIMILAR TO. A constant pattern is compiled once, when the script is planned.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{ListBuilder, StringBuilder},
    datatypes::{DataType, Int32Type, Int64Type},
};
use datafusion::{
    common::{DataFusionError, Result, ScalarValue, plan_err},
    logical_expr::{Expr, Like},
};
use regex::{NoExpand, Regex};

use super::{Bind, Call, Param, Spec, java_regex};
use crate::{
    cast::Mode,
    error::bad_row,
    func::{Columns, Plan, Texts, Typed, collect, collect_bool, collect_text},
    types::{item_field, type_name},
};

use Param::{Int, Text};

pub(super) const SPECS: &[Spec] = &[
    Spec { name: "REGEXP", params: &[Text, Text], optional: 0, rest: None, bind: regexp },
    Spec { name: "REGEXP_EXTRACT", params: &[Text, Text, Int], optional: 1, rest: None, bind: extract },
    Spec { name: "REGEXP_REPLACE", params: &[Text, Text, Text], optional: 0, rest: None, bind: replace },
    Spec { name: "REGEXP_COUNT", params: &[Text, Text], optional: 0, rest: None, bind: count },
    Spec { name: "REGEXP_INSTR", params: &[Text, Text], optional: 0, rest: None, bind: instr },
    Spec { name: "REGEXP_SUBSTR", params: &[Text, Text], optional: 0, rest: None, bind: substr },
    Spec { name: "REGEXP_EXTRACT_ALL", params: &[Text, Text, Int], optional: 1, rest: None, bind: extract_all },
];

/// How a pattern's text becomes a regular expression.
type Compile = Arc<dyn Fn(&str) -> Result<Regex, String> + Send + Sync>;

/// The pattern of a call: fixed, or another one for each row.
#[derive(Clone)]
enum Pattern {
    Fixed(Regex),
    Varying(Compile),
}

impl Pattern {
    fn of(argument: &Typed, compile: Compile) -> Result<Self> {
        match argument.text() {
            Some(text) => Ok(Self::Fixed(compile(text).map_err(DataFusionError::Plan)?)),
            None => Ok(Self::Varying(compile)),
        }
    }

    fn fixed(&self) -> bool {
        matches!(self, Self::Fixed(_))
    }

    fn reader(&self, texts: Texts) -> Reader<'_> {
        Reader { pattern: self, texts, compiled: HashMap::new() }
    }
}

/// Patterns of a batch, each compiled once.
struct Reader<'a> {
    pattern: &'a Pattern,
    texts: Texts,
    compiled: HashMap<String, Regex>,
}

impl Reader<'_> {
    /// By reference: a clone would lose the memory that matching works in, and matching is dear without it.
    fn get(&mut self, row: usize) -> Result<Option<&Regex>> {
        let compile = match self.pattern {
            Pattern::Fixed(regex) => return Ok(Some(regex)),
            Pattern::Varying(compile) => compile,
        };
        let Some(text) = self.texts.get(row) else { return Ok(None) };
        if !self.compiled.contains_key(text) {
            let regex = compile(text).map_err(bad_row)?;
            self.compiled.insert(text.to_owned(), regex);
        }
        Ok(self.compiled.get(text))
    }
}

fn java() -> Compile {
    Arc::new(java_regex::compile)
}

/// A function of text and pattern.
fn plan(
    call: &Call<'_>,
    result: DataType,
    kernel: impl Fn(&Columns<'_>, &Texts, &mut Reader<'_>) -> Result<arrow::array::ArrayRef> + Send + Sync + 'static,
) -> Result<Bind> {
    let pattern = Pattern::of(&call.args[1], java())?;
    let fixed = pattern.fixed();
    let plan = Plan::new(result, move |columns| kernel(columns, &columns.texts(0)?, &mut pattern.reader(columns.texts(1)?)));
    Ok(if fixed { plan } else { plan.fallible() }.into())
}

/// An empty pattern is found nowhere, as in Flink.
fn regexp(call: &Call<'_>) -> Result<Bind> {
    plan(call, DataType::Boolean, |columns, texts, patterns| {
        collect_bool(columns.rows, |row| Ok(texts.get(row).zip(patterns.get(row)?).map(|(text, regex)| !regex.as_str().is_empty() && regex.is_match(text))))
    })
}

fn group(columns: &Columns<'_>, default: i64) -> Result<impl Fn(usize) -> Option<usize> + use<>> {
    let groups = if columns.len() > 2 { Some(columns.numbers::<Int64Type>(2)?) } else { None };
    Ok(move |row: usize| match &groups {
        None => usize::try_from(default).ok(),
        Some(groups) => groups.get(row).and_then(|group| usize::try_from(group).ok()),
    })
}

fn extract(call: &Call<'_>) -> Result<Bind> {
    plan(call, DataType::Utf8, |columns, texts, patterns| {
        let group = group(columns, 0)?;
        let mut locations: Option<(String, regex::CaptureLocations)> = None;
        collect_text(columns.rows, |row, out| {
            let (Some(text), Some(regex), Some(group)) = (texts.get(row), patterns.get(row)?, group(row)) else { return Ok(None) };
            if group == 0 {
                return Ok(regex.find(text).map(|found| out.push_str(found.as_str())));
            }
            if locations.as_ref().is_none_or(|(pattern, _)| pattern != regex.as_str()) {
                locations = Some((regex.as_str().to_owned(), regex.capture_locations()));
            }
            let Some((_, locations)) = &mut locations else { return Ok(None) };
            let found = regex.captures_read(locations, text).and_then(|_| locations.get(group));
            Ok(found.map(|(start, end)| out.push_str(&text[start..end])))
        })
    })
}

/// The replacement is plain text, `$1` too, as in Flink.
fn replace(call: &Call<'_>) -> Result<Bind> {
    plan(call, DataType::Utf8, |columns, texts, patterns| {
        let replacements = columns.texts(2)?;
        collect_text(columns.rows, |row, out| {
            let (Some(text), Some(regex), Some(with)) = (texts.get(row), patterns.get(row)?, replacements.get(row)) else { return Ok(None) };
            out.push_str(&regex.replace_all(text, NoExpand(with)));
            Ok(Some(()))
        })
    })
}

fn count(call: &Call<'_>) -> Result<Bind> {
    plan(call, DataType::Int32, |columns, texts, patterns| {
        let counted = collect::<Int32Type>(columns.rows, |row| Ok(texts.get(row).zip(patterns.get(row)?).map(|(text, regex)| regex.find_iter(text).count() as i32)))?;
        Ok(Arc::new(counted))
    })
}

fn instr(call: &Call<'_>) -> Result<Bind> {
    plan(call, DataType::Int32, |columns, texts, patterns| {
        let place = |text: &str, regex: &Regex| regex.find(text).map_or(0, |found| text[..found.start()].chars().count() as i32 + 1);
        Ok(Arc::new(collect::<Int32Type>(columns.rows, |row| Ok(texts.get(row).zip(patterns.get(row)?).map(|(text, regex)| place(text, regex))))?))
    })
}

fn substr(call: &Call<'_>) -> Result<Bind> {
    plan(call, DataType::Utf8, |columns, texts, patterns| {
        collect_text(columns.rows, |row, out| {
            let (Some(text), Some(regex)) = (texts.get(row), patterns.get(row)?) else { return Ok(None) };
            Ok(regex.find(text).map(|found| out.push_str(found.as_str())))
        })
    })
}

fn extract_all(call: &Call<'_>) -> Result<Bind> {
    plan(call, DataType::List(item_field(DataType::Utf8)), |columns, texts, patterns| {
        let group = group(columns, 1)?;
        let mut list = ListBuilder::new(StringBuilder::new()).with_field(item_field(DataType::Utf8));
        for row in 0..columns.rows {
            let (Some(text), Some(regex), Some(group)) = (texts.get(row), patterns.get(row)?, group(row)) else {
                list.append(false);
                continue;
            };
            if group >= regex.captures_len() {
                list.append(false);
                continue;
            }
            regex.captures_iter(text).for_each(|found| list.values().append_option(found.get(group).map(|part| part.as_str())));
            list.append(true);
        }
        Ok(Arc::new(list.finish()))
    })
}

/// `text LIKE pattern [ESCAPE c]`: a constant pattern is DataFusion's LIKE, which knows fast paths for plain parts.
pub(crate) fn like([text, pattern]: [Typed; 2], escape: Option<char>, _mode: Mode) -> Result<Typed> {
    let (text, pattern) = (as_text("LIKE", text)?, as_text("LIKE", pattern)?);
    if let Some(constant) = pattern.text() {
        java_regex::like(constant, escape).map_err(DataFusionError::Plan)?;
        let pattern = Expr::Literal(ScalarValue::Utf8(Some(backslashed(constant, escape))), None);
        let like = Like { negated: false, expr: Box::new(text.expr), pattern: Box::new(pattern), escape_char: None, case_insensitive: false };
        return Ok(Typed::new(Expr::Like(like), DataType::Boolean));
    }
    let compile: Compile = Arc::new(move |pattern| java_regex::like(pattern, escape).and_then(|regex| Regex::new(&regex).map_err(|error| error.to_string())));
    matching("LIKE", text, pattern, escape, compile)
}

/// The pattern with `\` as escape, which is DataFusion's.
fn backslashed(pattern: &str, escape: Option<char>) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        match c {
            _ if Some(c) == escape => {
                out.push('\\');
                out.extend(rest.next());
            }
            '\\' => out.push_str("\\\\"),
            _ => out.push(c),
        }
    }
    out
}

/// `text SIMILAR TO pattern [ESCAPE c]`.
pub(crate) fn similar([text, pattern]: [Typed; 2], escape: Option<char>, _mode: Mode) -> Result<Typed> {
    let (text, pattern) = (as_text("SIMILAR TO", text)?, as_text("SIMILAR TO", pattern)?);
    let compile: Compile = Arc::new(move |pattern| {
        let regex = java_regex::similar(pattern, escape)?;
        Regex::new(&regex).map_err(|_| format!("SIMILAR TO '{pattern}': no pattern of SQL"))
    });
    matching("SIMILAR TO", text, pattern, escape, compile)
}

fn as_text(what: &str, value: Typed) -> Result<Typed> {
    match value.data_type {
        DataType::Utf8 => Ok(value),
        DataType::Null => Ok(Typed::literal(ScalarValue::Utf8(None))),
        other => plan_err!("{what} takes texts, got {}: use CAST(… AS STRING)", type_name(&other)),
    }
}

fn matching(name: &str, text: Typed, pattern: Typed, escape: Option<char>, compile: Compile) -> Result<Typed> {
    let compiled = Pattern::of(&pattern, compile)?;
    let fixed = compiled.fixed();
    let key = format!("{} {}", escape.unwrap_or(' '), pattern.text().unwrap_or_default());
    let plan = Plan::new(DataType::Boolean, move |columns| {
        let texts = columns.texts(0)?;
        let mut patterns = compiled.reader(columns.texts(1)?);
        collect_bool(columns.rows, |row| Ok(texts.get(row).zip(patterns.get(row)?).map(|(text, regex)| regex.is_match(text))))
    });
    let plan = if fixed { plan } else { plan.fallible() };
    Ok(plan.call(name, key, vec![text, pattern]))
}
