//! The csv format, both ways.

use std::{collections::BTreeMap, sync::Arc};

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use pelton_core::{
    format::Decoded,
    records::{BytesColumn, Records},
};

use crate::{decoder, encoder, render::json_lines};

fn columns() -> SchemaRef {
    let pair = Fields::from(vec![Field::new("x", DataType::Int32, true), Field::new("y", DataType::Utf8, true)]);
    let fields = [
        ("id", DataType::Int64),
        ("name", DataType::Utf8),
        ("amount", DataType::Decimal128(10, 2)),
        ("ok", DataType::Boolean),
        ("day", DataType::Date32),
        ("ts", DataType::Timestamp(TimeUnit::Millisecond, None)),
        ("list", DataType::List(Arc::new(Field::new("item", DataType::Int32, true)))),
        ("pair", DataType::Struct(pair)),
    ];
    Arc::new(Schema::new(fields.into_iter().map(|(name, data_type)| Field::new(name, data_type, true)).collect::<Fields>()))
}

fn options(given: &[(&str, &str)]) -> BTreeMap<String, String> {
    given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn decode(needed: &SchemaRef, given: &[(&str, &str)], lines: &[&str]) -> Decoded {
    let mut decoder = decoder("csv", &options(given), &columns(), needed).expect("decoder");
    let mut records = Records::default();
    lines.iter().for_each(|line| records.values.push(Some(line.as_bytes())));
    decoder.decode(&records).expect("decode")
}

fn check(given: &[(&str, &str)], lines: &[&str], rows: &[&str], bad: &[(u32, &str)]) {
    let decoded = decode(&columns(), given, lines);
    let mut out = Vec::new();
    json_lines(&decoded.batch, &mut out).expect("render");
    assert_eq!(String::from_utf8(out).expect("UTF-8").lines().collect::<Vec<_>>(), rows);
    assert_eq!(decoded.bad.iter().map(|(index, reason)| (*index, reason.as_str())).collect::<Vec<_>>(), bad);
}

const FULL: &str = r#"{"id": 1, "name": "a, b", "amount": 1.50, "ok": true, "day": "2020-02-01", "ts": "2020-01-01 00:00:00.500", "list": [1, 2], "pair": {"x": 7, "y": "z"}}"#;

#[test]
fn reads_every_type_by_position() {
    check(&[], &["1,\"a, b\",1.5,TRUE,2020-2-1,2020-01-01 00:00:00.5,1;2,7;z", ""], &[FULL], &[]);
    let tabs = [("csv.field-delimiter", "\\t"), ("csv.array-element-delimiter", "|"), ("csv.disable-quote-character", "true")];
    check(&tabs, &[" 1 \ta, b\t1.5\ttrue\t2020-02-01\t2020-01-01 00:00:00.5\t1|2\t7|z"], &[FULL], &[]);
}

#[test]
fn bad_records_say_what_is_wrong_and_are_left_out_on_wish() {
    let lines = ["x,,,,,,,", "1,a", "1,\"a", "1,n,1,true,2020-02-01,2020-01-01 00:00:00,1;x,7;z"];
    check(
        &[],
        &lines,
        &[],
        &[
            (0, "column 'id': found `x`, expected BIGINT"),
            (1, "8 fields expected, found 2"),
            (2, "field 2 has no closing quote"),
            (3, "column 'list': found `1;x`, expected ARRAY<INT>"),
        ],
    );
    let nulls = r#""amount": null, "ok": false, "day": null, "ts": null, "list": [], "pair": {"x": null, "y": null}}"#;
    let short = r#"{"id": 1, "name": "a", "amount": null, "ok": null, "day": null, "ts": null, "list": null, "pair": null}"#;
    let last = r#"{"id": 1, "name": "n", "amount": 1.00, "ok": true, "day": "2020-02-01", "ts": "2020-01-01 00:00:00.000", "list": [1, null], "pair": {"x": 7, "y": "z"}}"#;
    check(&[("csv.ignore-parse-errors", "true")], &lines, &[&format!(r#"{{"id": null, "name": "", {nulls}"#), short, last], &[]);
}

#[test]
fn null_literals_and_comments() {
    let given = [("csv.null-literal", "n/a"), ("csv.allow-comments", "true")];
    let row = r#"{"id": null, "name": "n/a", "amount": null, "ok": null, "day": null, "ts": null, "list": [1, null], "pair": null}"#;
    check(&given, &["# a comment", "n/a,\"n/a\",n/a,n/a,n/a,n/a,1;n/a,n/a"], &[row], &[]);
}

#[test]
fn only_needed_columns_are_read() {
    let needed = Arc::new(Schema::new(vec![Field::new("ok", DataType::Boolean, true), Field::new("id", DataType::Int64, true)]));
    let decoded = decode(&needed, &[], &["5,bad,bad,true,bad,bad,bad,bad"]);
    let mut out = Vec::new();
    json_lines(&decoded.batch, &mut out).expect("render");
    assert_eq!(out, b"{\"ok\": true, \"id\": 5}\n");
}

#[test]
fn writes_what_it_reads() {
    let decoded = decode(&columns(), &[], &["1,\"a, b\",1.5,true,2020-02-01,2020-01-01 00:00:00.5,1;2,7;z", "-2,say \"hi\",0,false,1969-12-31,1969-12-31 23:59:59,3,8;y"]);
    let mut encoder = encoder("csv", &BTreeMap::new(), &columns()).expect("encoder");
    let mut out = BytesColumn::default();
    encoder.encode(&decoded.batch, &mut out, &mut Vec::new()).expect("encode");
    let lines: Vec<_> = out.iter().map(|line| String::from_utf8_lossy(line.unwrap_or_default()).into_owned()).collect();
    assert_eq!(lines[0], "1,\"a, b\",1.50,true,2020-02-01,\"2020-01-01 00:00:00.5\",1;2,7;z");
    assert_eq!(lines[1], "-2,\"say \"\"hi\"\"\",0.00,false,1969-12-31,\"1969-12-31 23:59:59\",3,8;y");
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert_eq!(decode(&columns(), &[], &lines).batch, decoded.batch);
}
