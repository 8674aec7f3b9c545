//! Flink's types to Arrow's and back.

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::parser::Parser;
use pelton_sql_expr::FlinkDialect;

use crate::script::types::{field_type_name, parse_field};

fn read(text: &str) -> Result<arrow::datatypes::FieldRef, String> {
    let dialect = FlinkDialect::default();
    let mut parser = Parser::new(&dialect).try_with_sql(text).map_err(|error| error.to_string())?;
    parse_field(&mut parser, "x").map_err(|(_, message)| message)
}

/// As written, as Arrow has it, as it is written back.
const TYPES: [(&str, &str, &str); 39] = [
    ("boolean", "Boolean", "BOOLEAN"),
    ("TINYINT", "Int8", "TINYINT"),
    ("SMALLINT", "Int16", "SMALLINT"),
    ("INTEGER", "Int32", "INT"),
    ("BIGINT", "Int64", "BIGINT"),
    ("FLOAT", "Float32", "FLOAT"),
    ("DOUBLE PRECISION", "Float64", "DOUBLE"),
    ("DECIMAL", "Decimal128(10, 0)", "DECIMAL(10, 0)"),
    ("NUMERIC(5)", "Decimal128(5, 0)", "DECIMAL(5, 0)"),
    ("DEC(38, 38)", "Decimal128(38, 38)", "DECIMAL(38, 38)"),
    ("STRING", "Utf8", "STRING"),
    ("VARCHAR", "Utf8", "STRING"),
    ("VARCHAR(20)", "Utf8", "VARCHAR(20)"),
    ("VARCHAR(2147483647)", "Utf8", "STRING"),
    ("CHAR", "Utf8", "VARCHAR(1)"),
    ("CHARACTER VARYING(3)", "Utf8", "VARCHAR(3)"),
    ("BYTES", "Binary", "BYTES"),
    ("VARBINARY(9)", "Binary", "BYTES"),
    ("DATE", "Date32", "DATE"),
    ("TIME", "Time32(s)", "TIME(0)"),
    ("TIME(3)", "Time32(ms)", "TIME(3)"),
    ("TIME(9) WITHOUT TIME ZONE", "Time32(ms)", "TIME(3)"),
    ("TIMESTAMP", "Timestamp(µs)", "TIMESTAMP(6)"),
    ("TIMESTAMP(0)", "Timestamp(s)", "TIMESTAMP(0)"),
    ("TIMESTAMP(2)", "Timestamp(ms)", "TIMESTAMP(3)"),
    ("TIMESTAMP(9) WITHOUT TIME ZONE", "Timestamp(ns)", "TIMESTAMP(9)"),
    ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "Timestamp(ms, \"UTC\")", "TIMESTAMP_LTZ(3)"),
    ("TIMESTAMP_LTZ", "Timestamp(µs, \"UTC\")", "TIMESTAMP_LTZ(6)"),
    ("ARRAY<INT>", "List(Int32)", "ARRAY<INT>"),
    ("INT ARRAY", "List(Int32)", "ARRAY<INT>"),
    ("ARRAY<ARRAY<ARRAY<INT NOT NULL>>>", "List(List(List(non-null Int32)))", "ARRAY<ARRAY<ARRAY<INT NOT NULL>>>"),
    ("MAP<STRING, BIGINT>", "Map(\"entries\": non-null Struct(\"key\": non-null Utf8, \"value\": Int64), unsorted)", "MAP<STRING, BIGINT>"),
    ("MAP<INT, ARRAY<INT>>", "Map(\"entries\": non-null Struct(\"key\": non-null Int32, \"value\": List(Int32)), unsorted)", "MAP<INT, ARRAY<INT>>"),
    ("ROW<a INT, `b c` STRING>", "Struct(\"a\": Int32, \"b c\": Utf8)", "ROW<`a` INT, `b c` STRING>"),
    ("ROW(a INT)", "Struct(\"a\": Int32)", "ROW<`a` INT>"),
    ("ROW<a INT 'c', b ROW<c ARRAY<ROW<d INT>>>>", "Struct(\"a\": Int32, \"b\": Struct(\"c\": List(Struct(\"d\": Int32))))", "ROW<`a` INT, `b` ROW<`c` ARRAY<ROW<`d` INT>>>>"),
    ("ROW<`a``b` INT>", "Struct(\"a`b\": Int32)", "ROW<`a``b` INT>"),
    ("ARRAY<VARCHAR(3)>", "List(Utf8)", "ARRAY<STRING>"),
    ("ROW<s VARCHAR(3)>", "Struct(\"s\": Utf8)", "ROW<`s` STRING>"),
];

#[test]
fn types_of_flink_have_one_type_of_arrow_and_are_written_back() {
    let mut faults = Vec::new();
    for (written, arrow, back) in TYPES {
        let field = match read(written) {
            Ok(field) => field,
            Err(message) => {
                faults.push(format!("{written}: {message}"));
                continue;
            }
        };
        let got = (field.data_type().to_string(), field_type_name(&field));
        if got != (arrow.to_owned(), back.to_owned()) {
            faults.push(format!("{written}: {} written back {}", got.0, got.1));
        }
        match read(back) {
            Ok(again) if again.data_type() == field.data_type() && again.metadata() == field.metadata() => {}
            Ok(again) => faults.push(format!("{written} comes back as {again:?}")),
            Err(message) => faults.push(format!("{back}: {message}")),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn not_null_is_kept_at_every_level() {
    let field = read("ROW<a INT NOT NULL, b INT> NOT NULL").expect("a type");
    assert!(!field.is_nullable());
    let DataType::Struct(fields) = field.data_type() else { panic!("expected a row") };
    assert_eq!(fields.iter().map(|field| field.is_nullable()).collect::<Vec<_>>(), [false, true]);
}
