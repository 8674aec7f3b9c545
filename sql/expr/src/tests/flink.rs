//! Constant expressions against Flink's own answers: `flink.tsv` holds expression, value and type as Flink 2.3 gave them.
//!
//! A value is compared as text, a type without lengths and with the precisions that Arrow has. `ERR` says that Flink
//! refuses: then this may refuse, or be kinder. `DIFFERENCES` are answers that differ on purpose.

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::DataType,
};
use base64::Engine as _;
use chrono_tz::Tz;
use datafusion::{
    common::DFSchema,
    logical_expr::Expr,
    sql::sqlparser::parser::Parser,
};

use crate::{FlinkDialect, Session, cast::render, type_name};

const ANSWERS: &str = include_str!("flink.tsv");

/// Expression, our answer, why it is not Flink's.
const DIFFERENCES: &[(&str, &str, &str)] = &[
    ("TRUE = 'true'", "true BOOLEAN", "Flink compares texts, and TRUE's is 'TRUE'"),
    ("CAST(CAST(0.1 AS FLOAT) AS DOUBLE)", "0.10000000149011612 DOUBLE", "Flink folds the constant as a decimal; of a column it gives this"),
    ("CAST('0x1p3' AS DOUBLE)", "refused", "hexadecimal floats are not built"),
    ("CAST(TIMESTAMP '2020-01-01 10:11:12.5' AS STRING)", "\"2020-01-01 10:11:12.500\" STRING", "no TIMESTAMP(1) in Arrow"),
    ("CAST(TIMESTAMP '1969-12-30 13:45:10.5' AS STRING)", "\"1969-12-30 13:45:10.500\" STRING", "no TIMESTAMP(1) in Arrow"),
    ("INTERVAL '1' DAY + INTERVAL '2' HOUR", "\"+1 02:00:00.000\" INTERVAL", "the same length, shown as CAST shows it"),
    ("- INTERVAL '1' DAY", "\"-1 00:00:00.000\" INTERVAL", "the same length, shown as CAST shows it"),
    ("INTERVAL '10' MINUTES", "\"+0 00:10:00.000\" INTERVAL", "the same length, shown as CAST shows it"),
    ("INTERVAL '100' DAY(3)", "\"+100 00:00:00.000\" INTERVAL", "the same length, shown as CAST shows it"),
    ("INTERVAL '1' WEEK", "\"+7 00:00:00.000\" INTERVAL", "the same length, shown as CAST shows it"),
    ("(DATE '2020-01-31' - DATE '2020-01-01') DAY", "refused", "not built, TIMESTAMPDIFF is"),
    ("(TIMESTAMP '2020-01-31 00:00:00' - TIMESTAMP '2020-01-01 00:00:00') HOUR", "refused", "not built, TIMESTAMPDIFF is"),
    ("TO_TIMESTAMP_LTZ(-62135596800001, 3)", "\"0000-12-31 23:59:59.999Z\" TIMESTAMP_LTZ(3)", "FlinkRun shows the year of the era"),
    ("UPPER('straße')", "\"STRASSE\" STRING", "Flink cuts to the literal's CHAR(6)"),
    ("LOWER('ÀİI')", "\"ài̇i\" STRING", "Flink cuts to the literal's CHAR(3)"),
    ("RPAD('日', 3, '🙂')", "\"日🙂🙂\" STRING", "characters, not UTF-16 units"),
    ("REGEXP('hello', '[')", "refused", "a slip in a pattern is an error"),
    ("REGEXP_EXTRACT('foothebar', 'foo(.*', 1)", "refused", "a slip in a pattern is an error"),
    ("RAND(5)", "refused", "not repeatable"),
    ("RAND_INTEGER(5, 10)", "refused", "not repeatable"),
    ("UUID() IS NOT NULL", "refused", "not repeatable"),
    ("CURRENT_DATE IS NOT NULL", "refused", "not repeatable without a clock"),
    ("PERCENTILE(1, 0.5)", "refused", "an aggregate is no constant"),
    ("JSON_EXISTS('{\"a\": [{\"b\": 1}]}', '$.a[?(@.b > 0)]')", "refused", "filters in paths are not built"),
    ("JSON_OBJECT('a' VALUE ROW(1, 'x'))", "\"{\\\"a\\\":{\\\"f0\\\":1,\\\"f1\\\":\\\"x\\\"}}\" STRING", "fields of ROW(…) are f0, f1"),
    ("CAST(TIMESTAMP '1969-12-31 23:59:59.999' AS TIMESTAMP(0))", "\"1970-01-01 00:00:00.000\" TIMESTAMP(0)", "of a column Flink gives this too"),
    ("ARRAY[1, 2][3]", "null INT", "Flink folds a null to -1"),
    ("MAP['a', 1]['z']", "null INT", "Flink folds a null to -1"),
    ("TYPEOF(1)", "\"INT\" STRING", "NOT NULL is left out"),
];

/// A value as FlinkRun prints it.
pub(super) fn shown(array: &ArrayRef, row: usize) -> String {
    if array.data_type() == &DataType::Null || array.is_null(row) {
        return "null".to_owned();
    }
    let mut text = String::new();
    render::writer(array, Tz::UTC).expect("a value that has a text")(row, &mut text);
    let quoted = |text: &str| {
        let mut out = String::new();
        crate::functions::quote(text, &mut out);
        out
    };
    match array.data_type() {
        DataType::Boolean => text.to_lowercase(),
        DataType::Float32 | DataType::Float64 if text.ends_with(|c: char| c.is_ascii_digit()) => text,
        DataType::Timestamp(unit, zone) => {
            let text = match crate::types::digits(unit) {
                0 => format!("{text}.000"),
                digits => text[..text.len() - (digits - 3)].to_owned(),
            };
            quoted(&if zone.is_some() { format!("{text}Z") } else { text })
        }
        DataType::Time32(_) => {
            let text = text.strip_suffix(".000").unwrap_or(&text);
            quoted(text.strip_suffix(":00").unwrap_or(text))
        }
        DataType::Binary => quoted(&base64::engine::general_purpose::STANDARD.encode(array.as_binary::<i32>().value(row))),
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            let items: Vec<_> = (0..items.len()).map(|index| shown(&items, index)).collect();
            format!("[{}]", items.join(", "))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let pairs = map.value(row);
            let (keys, values) = (pairs.column(0), pairs.column(1));
            let write = render::writer(keys, Tz::UTC).expect("keys have texts");
            let pairs = (0..keys.len()).map(|index| {
                let mut key = String::new();
                write(index, &mut key);
                format!("{}: {}", quoted(&key), shown(values, index))
            });
            let mut pairs: Vec<_> = pairs.collect();
            pairs.sort();
            format!("{{{}}}", pairs.join(", "))
        }
        DataType::Struct(_) => {
            let fields = array.as_struct().columns().iter().enumerate().map(|(index, column)| format!("\"f{index}\": {}", shown(column, row)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Decimal128(..) => text,
        _ => quoted(&text),
    }
}

fn answer(sql: &str) -> Result<(String, String), String> {
    let dialect = FlinkDialect::default();
    let ast = Parser::new(&dialect).try_with_sql(sql).and_then(|mut parser| parser.parse_expr()).map_err(|error| error.to_string())?;
    let expr = Session::default().translate(&ast, &DFSchema::empty()).map_err(|error| error.strip_backtrace())?;
    let expr = crate::fold(expr).map_err(|error| error.strip_backtrace())?;
    let Expr::Literal(value, _) = expr else { return Err(format!("not constant: {expr}")) };
    let array = value.to_array().map_err(|error| error.to_string())?;
    Ok((shown(&array, 0), type_name(array.data_type())))
}

/// Flink's type as Arrow can hold it.
pub(super) fn comparable(name: &str) -> String {
    let mut out = name.replace(" NOT NULL", "");
    for text in ["VARCHAR", "CHAR"] {
        while let Some(start) = out.find(&format!("{text}(")) {
            let end = out[start..].find(')').map_or(out.len(), |end| start + end + 1);
            out.replace_range(start..end, "STRING");
        }
    }
    for (from, to) in [("(1)", "(3)"), ("(2)", "(3)")] {
        if out.starts_with("TIME") {
            out = out.replace(from, to);
        }
    }
    if out.starts_with("BINARY(") { "BYTES".to_owned() } else if out.starts_with("INTERVAL") { "INTERVAL".to_owned() } else { out }
}

/// Equal, floats within 1e-12.
pub(super) fn same(found: &str, expected: &str) -> bool {
    let single = |text: &str| text.strip_suffix(" FLOAT").and_then(|text| text.parse::<f32>().ok());
    if let (Some(a), Some(b)) = (single(found), single(expected)) {
        return a.to_bits() == b.to_bits();
    }
    let double = |text: &str| text.strip_suffix(" DOUBLE").and_then(|text| text.parse::<f64>().ok());
    match (double(found), double(expected)) {
        (Some(a), Some(b)) => a.to_bits() == b.to_bits() || (a - b).abs() <= 1e-12 * b.abs(),
        _ => found == expected,
    }
}

#[test]
fn constants_are_flinks() {
    let mut wrong = Vec::new();
    let mut compared = 0;
    for line in ANSWERS.lines() {
        let parts: Vec<&str> = line.split('\t').collect();
        let [sql, value, data_type] = parts.as_slice() else { panic!("three parts in {line}") };
        let ours = answer(sql);
        if *value == "ERR" {
            continue;
        }
        compared += 1;
        let expected = DIFFERENCES.iter().find(|(known, _, _)| known == sql).map_or_else(|| format!("{value} {}", comparable(data_type)), |(_, ours, _)| (*ours).to_owned());
        let found = ours.map_or_else(|error| format!("refused: {error}"), |(value, data_type)| format!("{value} {data_type}"));
        let found = if found.starts_with("refused") { "refused".to_owned() } else { found };
        if !same(&found, &expected) {
            wrong.push(format!("{sql}\n    Flink {expected}\n    ours  {found}"));
        }
    }
    assert!(compared > 700, "only {compared} answers compared");
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
}
