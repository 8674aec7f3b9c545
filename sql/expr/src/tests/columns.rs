//! Expressions over columns against Flink's own answers: `columns.jsonl` is the input, `columns.tsv` holds expression,
//! type and one value a row as Flink 2.3 gave them. `DIFFERENCES` are answers that differ on purpose.

use std::{io::Cursor, sync::Arc};

use arrow::{
    array::{Array, RecordBatch},
    datatypes::{DataType, Field, Schema, TimeUnit},
    json::ReaderBuilder,
};
use datafusion::{common::DFSchema, sql::sqlparser::parser::Parser};

use super::flink::{comparable, same, shown};
use crate::{
    FlinkDialect, RowError, Session, physical, type_name,
    types::{item_field, map_type, utc},
};

const INPUT: &str = include_str!("columns.jsonl");
const ANSWERS: &str = include_str!("columns.tsv");

/// Expression and why our answer is not Flink's.
const DIFFERENCES: &[(&str, &str)] = &[
    ("CAST(m AS STRING)", "Flink's maps have the order of their hashes, ours that of the input"),
    ("MAP_KEYS(m)", "the same"),
    ("MAP_VALUES(m)", "the same"),
    ("MAP_ENTRIES(m)", "the same"),
    ("TIMESTAMPADD(DAY, i, TIMESTAMP '2020-01-01 00:00:00')", "Flink wraps around past the year 292 million"),
    ("LPAD(s, 8, '*')", "characters, not UTF-16 units"),
    ("RPAD(s, 8, '*')", "characters, not UTF-16 units"),
    ("JSON_QUOTE(s)", "Flink escapes 🙂 as half a surrogate pair"),
    ("ROW(i, ROW(s))", "fields of ROW(…) are f0, f1"),
    ("ROW(i, s)", "fields of ROW(…) are f0, f1"),
    ("ROW(i, s).EXPR$0", "fields of ROW(…) are f0, f1"),
];

fn input() -> RecordBatch {
    let row = vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Utf8, true)];
    let columns = [
        ("n", DataType::Int32),
        ("i", DataType::Int32),
        ("b", DataType::Int64),
        ("x", DataType::Float64),
        ("fl", DataType::Float32),
        ("d", DataType::Decimal128(12, 4)),
        ("s", DataType::Utf8),
        ("j", DataType::Utf8),
        ("ts", DataType::Timestamp(TimeUnit::Millisecond, None)),
        ("lts", DataType::Timestamp(TimeUnit::Millisecond, utc())),
        ("dt", DataType::Date32),
        ("tm", DataType::Time32(TimeUnit::Second)),
        ("flag", DataType::Boolean),
        ("arr", DataType::List(item_field(DataType::Utf8))),
        ("m", map_type(DataType::Utf8, DataType::Int32)),
        ("r", DataType::Struct(row.into())),
        ("nums", DataType::List(item_field(DataType::Int32))),
    ];
    let fields: Vec<_> = columns.into_iter().map(|(name, data_type)| Field::new(name, data_type, true)).collect();
    let mut reader = ReaderBuilder::new(Arc::new(Schema::new(fields))).build(Cursor::new(INPUT)).expect("a schema that can be read");
    reader.next().expect("one batch").expect("rows that fit the schema")
}

/// Type and values; a row that fails by itself is `bad row`.
fn answer(sql: &str, batch: &RecordBatch) -> Result<(String, Vec<String>), String> {
    let schema = DFSchema::try_from(batch.schema().as_ref().clone()).map_err(|error| error.to_string())?;
    let dialect = FlinkDialect::default();
    let ast = Parser::new(&dialect).try_with_sql(sql).and_then(|mut parser| parser.parse_expr()).map_err(|error| error.to_string())?;
    let expr = Session::default().translate(&ast, &schema).map_err(|error| error.strip_backtrace())?;
    let evaluator = physical(&expr, &schema).map_err(|error| error.strip_backtrace())?;
    let data_type = evaluator.data_type(batch.schema_ref()).map_err(|error| error.to_string())?;
    let values = |part: &RecordBatch| evaluator.evaluate(part).and_then(|value| value.into_array(part.num_rows()));
    let single = (0..batch.num_rows()).map(|row| match values(&batch.slice(row, 1)) {
        Ok(array) => shown(&array, 0),
        Err(error) => RowError::find(&error).map_or_else(|| format!("error: {error}"), |_| "bad row".to_owned()),
    });
    let single: Vec<String> = single.collect();
    match values(batch) {
        Ok(array) => {
            assert_eq!(array.data_type(), &data_type, "{sql}");
            let together: Vec<String> = (0..array.len()).map(|row| shown(&array, row)).collect();
            assert_eq!(together, single, "{sql}: the same in batches of six rows and of one");
        }
        Err(error) => assert!(single.iter().any(|value| value == "bad row"), "{sql}: {error}"),
    }
    Ok((type_name(&data_type), single))
}

#[test]
fn columns_are_flinks() {
    let batch = input();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for line in ANSWERS.lines() {
        let mut parts = line.split('\t');
        let (Some(sql), Some(data_type)) = (parts.next(), parts.next()) else { panic!("parts in {line}") };
        let data_type = comparable(data_type);
        if DIFFERENCES.iter().any(|(known, _)| *known == sql) {
            continue;
        }
        compared += 1;
        let expected: Vec<&str> = parts.collect();
        let found = match answer(sql, &batch) {
            Ok(found) => found,
            Err(error) => {
                wrong.push(format!("{sql}\n    refused: {error}"));
                continue;
            }
        };
        let equal = found.0 == data_type
            && expected.len() == found.1.len()
            && expected.iter().zip(&found.1).all(|(expected, found)| same(&format!("{found} {data_type}"), &format!("{expected} {data_type}")));
        if !equal {
            wrong.push(format!("{sql}\n    Flink {data_type} {}\n    ours  {} {}", expected.join(" | "), found.0, found.1.join(" | ")));
        }
    }
    assert!(compared > 250, "only {compared} answers compared");
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
}
