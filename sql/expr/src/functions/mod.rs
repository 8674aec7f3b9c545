//! Built-in functions: by name, with the arguments they take.
//!
//! A function is a line in its part's table (`text`, `regex`, `number`, `time`, `json`, `nested`, `choice`, `hash`):
//! names, parameters, and `bind`, which gives result type and kernel once the arguments have their types. Number and
//! kind of arguments are checked here, in words that name the function.

use arrow::datatypes::{DataType, TimeUnit};
use chrono_tz::Tz;
use datafusion::common::{Result, ScalarValue, plan_err};

use crate::{
    cast::{Mode, cast_to},
    func::{Plan, Typed},
    session::Session,
    types::{is_float, is_integer, is_numeric, type_name},
};

mod choice;
mod hash;
mod java_time;
mod java_regex;
mod json;
mod json_build;
mod json_path;
mod nested;
mod arrays;
mod number;
mod regex;
mod search;
mod text;
mod time;
mod time_parts;
mod url;

pub(crate) use json_build::raw_json;
#[cfg(test)]
pub(crate) use json_path::quote;
pub(crate) use nested::field;
pub(crate) use regex::{like, similar};

/// What a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Param {
    /// STRING.
    Text,
    /// A whole number, read as BIGINT.
    Int,
    /// A number, read as DOUBLE.
    Double,
    /// A number as it is.
    Number,
    /// BOOLEAN.
    Bool,
    /// BYTES.
    Bytes,
    /// TIMESTAMP or TIMESTAMP_LTZ, DATE, TIME.
    Time,
    /// ARRAY.
    Array,
    /// MAP.
    Map,
    /// Everything.
    Any,
}

impl Param {
    fn word(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Int => "a whole number",
            Self::Double | Self::Number => "a number",
            Self::Bool => "a condition",
            Self::Bytes => "bytes",
            Self::Time => "a time",
            Self::Array => "an array",
            Self::Map => "a map",
            Self::Any => "a value",
        }
    }
}

/// A function's line.
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    pub(crate) params: &'static [Param],
    /// How many of the last parameters may be left out.
    pub(crate) optional: usize,
    /// What may follow the parameters, any number of times.
    pub(crate) rest: Option<Param>,
    pub(crate) bind: fn(&Call<'_>) -> Result<Bind>,
}

/// What a function becomes: a kernel over its arguments, or another expression.
pub(crate) enum Bind {
    Plan(Plan),
    Expr(Typed),
}

impl From<Plan> for Bind {
    fn from(plan: Plan) -> Self {
        Self::Plan(plan)
    }
}

/// One call whose arguments have passed the check.
pub(crate) struct Call<'a> {
    pub(crate) name: &'a str,
    pub(crate) args: &'a [Typed],
    pub(crate) session: &'a Session,
}

impl Call<'_> {
    pub(crate) fn zone(&self) -> Tz {
        self.session.zone
    }

    pub(crate) fn mode(&self) -> Mode {
        self.session.mode()
    }

    pub(crate) fn data_type(&self, index: usize) -> &DataType {
        self.args.get(index).map_or(&DataType::Null, |arg| &arg.data_type)
    }

    /// The text of a constant argument.
    pub(crate) fn constant(&self, index: usize) -> Option<&str> {
        self.args.get(index).and_then(Typed::text)
    }

    pub(crate) fn is_null(&self, index: usize) -> bool {
        self.args.get(index).and_then(Typed::value).is_some_and(ScalarValue::is_null)
    }
}

const TABLES: [&[Spec]; 13] = [
    text::SPECS, search::SPECS, url::SPECS, regex::SPECS, number::SPECS, time::SPECS, time_parts::SPECS, json::SPECS, json_build::SPECS, nested::SPECS,
    arrays::SPECS, choice::SPECS, hash::SPECS,
];

/// Other names of the same functions.
const ALIASES: [(&str, &str); 16] = [
    ("CHARACTER_LENGTH", "CHAR_LENGTH"), ("LENGTH", "CHAR_LENGTH"), ("LEN", "CHAR_LENGTH"), ("UCASE", "UPPER"), ("LCASE", "LOWER"),
    ("SUBSTR", "SUBSTRING"), ("POW", "POWER"), ("CEILING", "CEIL"), ("SHA", "SHA1"), ("NVL", "IFNULL"), ("RLIKE", "REGEXP"), ("REGEXP_LIKE", "REGEXP"),
    ("DAY", "DAYOFMONTH"), ("TRUNC", "TRUNCATE"), ("LOCALTIME", "CURRENT_TIME"), ("NOW", "CURRENT_TIMESTAMP"),
];

fn find(name: &str) -> Option<&'static Spec> {
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
    TABLES.iter().flat_map(|table| table.iter()).find(|spec| spec.name == name)
}

/// Whether a built-in has this name, in capitals.
pub(crate) fn is_function(name: &str) -> bool {
    find(name).is_some()
}

pub(crate) fn names() -> impl Iterator<Item = String> {
    let specs = TABLES.iter().flat_map(|table| table.iter()).map(|spec| spec.name);
    specs.chain(ALIASES.iter().map(|(alias, _)| *alias)).filter(|name| name.starts_with(|c: char| c.is_alphabetic())).map(ToOwned::to_owned)
}

/// The call of a built-in.
pub(crate) fn call(name: &str, arguments: Vec<Typed>, session: &Session) -> Result<Typed> {
    let Some(spec) = find(name) else { return plan_err!("function `{name}` not found") };
    check_count(name, spec, arguments.len())?;
    let mode = session.mode();
    let coerced = arguments.into_iter().enumerate().map(|(index, argument)| {
        let param = spec.params.get(index).copied().or(spec.rest).unwrap_or(Param::Any);
        coerce(name, index, param, argument, mode)
    });
    let args = coerced.collect::<Result<Vec<_>>>()?;
    let bound = (spec.bind)(&Call { name, args: &args, session })?;
    Ok(match bound {
        Bind::Plan(plan) => {
            let constants: Vec<_> = args.iter().filter_map(Typed::text).collect();
            let key = format!("{} {}", session.zone.name(), constants.join("\u{1f}"));
            plan.call(name, key, args)
        }
        Bind::Expr(typed) => typed,
    })
}

fn check_count(name: &str, spec: &Spec, given: usize) -> Result<()> {
    let (most, least) = (spec.params.len(), spec.params.len() - spec.optional);
    if given < least || (given > most && spec.rest.is_none()) {
        let plural = |n: usize| if n == 1 { "1 argument".to_owned() } else { format!("{n} arguments") };
        let expected = match (spec.rest.is_some(), least == most) {
            (true, _) => format!("at least {}", plural(least)),
            (false, true) => plural(most),
            (false, false) => format!("{least} to {}", plural(most)),
        };
        return plan_err!("{name} takes {expected}, got {given}");
    }
    Ok(())
}

fn coerce(name: &str, index: usize, param: Param, argument: Typed, mode: Mode) -> Result<Typed> {
    let found = argument.data_type.clone();
    let target = match param {
        Param::Any => return Ok(argument),
        Param::Text => (found == DataType::Null || found == DataType::Utf8).then_some(DataType::Utf8),
        Param::Int => (found == DataType::Null || is_integer(&found)).then_some(DataType::Int64),
        Param::Double => (found == DataType::Null || is_numeric(&found)).then_some(DataType::Float64),
        Param::Number if found == DataType::Null => Some(DataType::Int32),
        Param::Number => is_numeric(&found).then(|| found.clone()),
        Param::Bool => (found == DataType::Null || found == DataType::Boolean).then_some(DataType::Boolean),
        Param::Bytes => (found == DataType::Null || found == DataType::Binary).then_some(DataType::Binary),
        Param::Time if found == DataType::Null => Some(DataType::Timestamp(TimeUnit::Millisecond, None)),
        Param::Time => matches!(found, DataType::Timestamp(..) | DataType::Date32 | DataType::Time32(_)).then(|| found.clone()),
        Param::Array => matches!(found, DataType::List(_)).then(|| found.clone()),
        Param::Map => matches!(found, DataType::Map(..)).then(|| found.clone()),
    };
    let Some(target) = target else {
        let hint = match param {
            Param::Text if is_numeric(&found) || matches!(found, DataType::Date32 | DataType::Boolean | DataType::Timestamp(..)) => ": use CAST(… AS STRING)",
            Param::Int if is_float(&found) || matches!(found, DataType::Decimal128(..)) => ": use CAST(… AS INT)",
            Param::Time if found == DataType::Utf8 => ": use TO_TIMESTAMP(…)",
            Param::Double | Param::Number | Param::Int if found == DataType::Utf8 => ": CAST it to a number",
            _ => "",
        };
        return plan_err!("{name} takes {} as argument {}, got {}{hint}", param.word(), index + 1, type_name(&found));
    };
    let cast = cast_to(argument, &target.into(), mode)?;
    Ok(Typed::new(crate::fold(cast.expr)?, cast.data_type))
}
