//! The json format against Flink's answers: what each kind of record becomes, and why bad ones are bad.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit},
};
use pelton_core::{
    format::Decoded,
    records::{BytesColumn, Records},
};

use crate::{decoder, encoder, render::json_lines};

const IGNORE: (&str, &str) = ("json.ignore-parse-errors", "true");
const ISO: (&str, &str) = ("json.timestamp-format.standard", "ISO-8601");

fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    let fields: Fields = columns.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect();
    Arc::new(Schema::new(fields))
}

fn row(columns: &[(&str, DataType)]) -> DataType {
    DataType::Struct(schema(columns).fields().clone())
}

fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

fn map(value: DataType) -> DataType {
    let pair = Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", value, true)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(pair), false)), false)
}

fn timestamp(unit: TimeUnit) -> DataType {
    DataType::Timestamp(unit, None)
}

fn options(given: &[(&str, &str)]) -> BTreeMap<String, String> {
    given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn decode(columns: &[(&str, DataType)], given: &[(&str, &str)], lines: &[&[u8]]) -> Decoded {
    let schema = schema(columns);
    let mut decoder = decoder("json", &options(given), &schema, &schema).expect("decoder");
    let mut records = Records::default();
    lines.iter().for_each(|line| records.values.push(Some(line)));
    decoder.decode(&records).expect("decode")
}

/// Rows as JSON lines and reasons of bad records.
fn check(columns: &[(&str, DataType)], given: &[(&str, &str)], lines: &[&str], rows: &[&str], bad: &[(u32, &str)]) {
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    let decoded = decode(columns, given, &lines);
    assert_eq!(shown(&decoded.batch), rows);
    let found: Vec<_> = decoded.bad.iter().map(|(index, reason)| (*index, reason.as_str())).collect();
    assert_eq!(found, bad);
}

fn shown(batch: &RecordBatch) -> Vec<String> {
    let mut out = Vec::new();
    json_lines(batch, &mut out).expect("render");
    String::from_utf8(out).expect("UTF-8").lines().map(str::to_owned).collect()
}

fn people() -> [(&'static str, DataType); 5] {
    [
        ("id", DataType::Int32),
        ("name", DataType::Utf8),
        ("amt", DataType::Float64),
        ("ok", DataType::Boolean),
        ("ts", timestamp(TimeUnit::Millisecond)),
    ]
}

#[test]
fn missing_extra_null_and_reordered_fields_are_nothing_special() {
    check(
        &people(),
        &[],
        &[
            r#"{"id":1,"name":"a","amt":1.5,"ok":true,"ts":"2020-01-01 00:00:00"}"#,
            r#"{"id":2}"#,
            r#"{"id":3,"name":null,"amt":null,"extra":{"x":[1]},"ok":false}"#,
            r#" { "name" : "no id" , "id" : 4 , "amt" : 2 } "#,
            r#"{"id":5,"name":"\u00e9\n\"q\"","amt":-1e-3,"ok":null}"#,
            r#"{"\u0069d":6}"#,
            "{}",
        ],
        &[
            r#"{"id": 1, "name": "a", "amt": 1.5, "ok": true, "ts": "2020-01-01 00:00:00.000"}"#,
            r#"{"id": 2, "name": null, "amt": null, "ok": null, "ts": null}"#,
            r#"{"id": 3, "name": null, "amt": null, "ok": false, "ts": null}"#,
            r#"{"id": 4, "name": "no id", "amt": 2.0, "ok": null, "ts": null}"#,
            r#"{"id": 5, "name": "é\n\"q\"", "amt": -0.001, "ok": null, "ts": null}"#,
            r#"{"id": 6, "name": null, "amt": null, "ok": null, "ts": null}"#,
            r#"{"id": null, "name": null, "amt": null, "ok": null, "ts": null}"#,
        ],
        &[],
    );
}

#[test]
fn with_ignore_parse_errors_bad_fields_are_null_and_broken_records_go() {
    check(
        &people(),
        &[IGNORE],
        &[
            r#"{"id":"6","name":7,"amt":"8.5","ok":"true"}"#,
            r#"{"id":"x","name":"bad id"}"#,
            "{broken",
            r#"{"id":9,"name":{"obj": 1},"amt":[1,2],"ok":{"a":{}}}"#,
            r#"{"id":10,"ts":"yesterday","name":"fine"}"#,
            r#"{"id":11,"name":"cut"#,
        ],
        &[
            r#"{"id": 6, "name": "7", "amt": 8.5, "ok": true, "ts": null}"#,
            r#"{"id": null, "name": "bad id", "amt": null, "ok": null, "ts": null}"#,
            r#"{"id": 9, "name": "{\"obj\":1}", "amt": null, "ok": null, "ts": null}"#,
            r#"{"id": 10, "name": "fine", "amt": null, "ok": null, "ts": null}"#,
        ],
        &[],
    );
}

#[test]
fn bad_records_say_column_found_and_expected() {
    let columns = [
        ("id", DataType::Int32),
        ("r", row(&[("a", DataType::Int64), ("l", list(DataType::Int8))])),
        ("m", map(DataType::Date32)),
    ];
    check(
        &columns,
        &[],
        &[
            r#"{"id":"x"}"#,
            r#"{"id":1}"#,
            r#"{"id":3000000000}"#,
            r#"{"id":true}"#,
            r#"{"id":1,"r":[1]}"#,
            r#"{"r":{"a":{"b":1}}}"#,
            r#"{"r":{"l":[1,128]}}"#,
            r#"{"m":{"k":"2020-02-30"}}"#,
            "{\"id\":1",
            "[1]",
            r#"{"id":1} x"#,
            r#"{"id":1,}"#,
            "null",
            r#"{"id":2}"#,
        ],
        &[r#"{"id": 1, "r": null, "m": null}"#, r#"{"id": 2, "r": null, "m": null}"#],
        &[
            (0, r#"column 'id': found `"x"`, expected INT"#),
            (2, "column 'id': found `3000000000`, expected INT"),
            (3, "column 'id': found `true`, expected INT"),
            (4, "column 'r': found `[1]`, expected ROW<a BIGINT, l ARRAY<TINYINT>>"),
            (5, r#"column 'r.a': found `{"b":1}`, expected BIGINT"#),
            (6, "column 'r.l[2]': found `128`, expected TINYINT"),
            (7, r#"column 'm["k"]': found `"2020-02-30"`, expected DATE"#),
            (8, "not JSON at byte 7: expected a comma or }, found the end of the record"),
            (9, "not JSON at byte 0: expected a JSON object, found `[1]`"),
            (10, "not JSON at byte 9: expected the end of the record, found `x`"),
            (11, "not JSON at byte 8: expected a key in quotes, found `}`"),
            (12, "not JSON at byte 0: expected a JSON object, found `null`"),
        ],
    );
}

#[test]
fn numbers_are_exact() {
    check(
        &[("id", DataType::Int64), ("d", DataType::Decimal128(38, 10)), ("x", DataType::Float64), ("s", DataType::Utf8)],
        &[],
        &[
            r#"{"id":9007199254740993,"d":12345678901234567890.0123456789,"x":1e22,"s":9007199254740993}"#,
            r#"{"id":-9223372036854775808,"d":-0.0000000001,"x":-0.0,"s":1.50}"#,
            r#"{"id":1.9,"d":"1e3","x":"NaN","s":true}"#,
            r#"{"id":"  7 ","d":123456789012345678901234567890,"x":123456789012345678901234567890,"s":[1, {"a" : 2.50}, "\u0041\/"]}"#,
        ],
        &[
            r#"{"id": 9007199254740993, "d": 12345678901234567890.0123456789, "x": 1.0E22, "s": "9007199254740993"}"#,
            r#"{"id": -9223372036854775808, "d": -0.0000000001, "x": -0.0, "s": "1.50"}"#,
            r#"{"id": 1, "d": 1000.0000000000, "x": "NaN", "s": "true"}"#,
            r#"{"id": 7, "d": null, "x": 1.2345678901234568E29, "s": "[1,{\"a\":2.5},\"A/\"]"}"#,
        ],
        &[],
    );
}

#[test]
fn timestamps_keep_their_precision_and_standard() {
    let units = [
        ("t0", timestamp(TimeUnit::Second)),
        ("t3", timestamp(TimeUnit::Millisecond)),
        ("t9", timestamp(TimeUnit::Nanosecond)),
        ("z", DataType::Timestamp(TimeUnit::Millisecond, Some(Arc::from("UTC")))),
    ];
    let text = r#"{"t0":"2020-01-01T10:11:12.9","t3":"2020-01-01T10:11:12.345678","t9":"2020-01-01T10:11","z":"2020-01-01T10:11:12.345Z"}"#;
    let expected = r#"{"t0": "2020-01-01 10:11:12.000", "t3": "2020-01-01 10:11:12.345", "t9": "2020-01-01 10:11:00.000", "z": "2020-01-01 10:11:12.345Z"}"#;
    check(&units, &[ISO], &[text], &[expected], &[]);
    check(
        &units,
        &[],
        &[r#"{"t3":"2020-01-01T00:00:00"}"#, r#"{"z":"2020-01-01 00:00:00"}"#, r#"{"t9":"2999-01-01 00:00:00"}"#],
        &[],
        &[
            (0, r#"column 't3': found `"2020-01-01T00:00:00"`, expected TIMESTAMP(3)"#),
            (1, r#"column 'z': found `"2020-01-01 00:00:00"`, expected TIMESTAMP_LTZ(3)"#),
            (2, r#"column 't9': found `"2999-01-01 00:00:00"`, expected TIMESTAMP(9)"#),
        ],
    );
}

#[test]
fn nested_values_of_every_kind() {
    check(
        &[
            ("r", row(&[("a", DataType::Int32), ("b", row(&[("c", DataType::Utf8)]))])),
            ("arr", list(DataType::Utf8)),
            ("m", map(DataType::Int32)),
            ("objs", list(row(&[("k", DataType::Utf8), ("v", DataType::Float64)]))),
            ("bin", DataType::Binary),
        ],
        &[],
        &[
            r#"{"r":{"a":5,"b":{"c":"x"}},"arr":["p",null,"q"],"m":{"one":1,"two":null},"objs":[{"k":"k1","v":1.5},{"v":2}],"bin":"aGk="}"#,
            r#"{"r":{"b":null},"arr":[],"m":{},"objs":[]}"#,
            r#"{"r":null,"arr":null,"m":{"k":1,"j":2,"k":3},"objs":[null,{"k":"z"}]}"#,
            r#"{"arr":["only"]}"#,
        ],
        &[
            r#"{"r": {"a": 5, "b": {"c": "x"}}, "arr": ["p", null, "q"], "m": {"one": 1, "two": null}, "objs": [{"k": "k1", "v": 1.5}, {"k": null, "v": 2.0}], "bin": "aGk="}"#,
            r#"{"r": {"a": null, "b": null}, "arr": [], "m": {}, "objs": [], "bin": null}"#,
            r#"{"r": null, "arr": null, "m": {"j": 2, "k": 3}, "objs": [null, {"k": "z", "v": null}], "bin": null}"#,
            r#"{"r": null, "arr": ["only"], "m": null, "objs": null, "bin": null}"#,
        ],
        &[],
    );
}

#[test]
fn the_last_of_equal_keys_counts() {
    check(
        &[("a", DataType::Int32), ("r", row(&[("x", DataType::Int32), ("y", DataType::Int32)]))],
        &[],
        &[r#"{"a":1,"r":{"x":1},"a":2,"r":{"y":2}}"#, r#"{"a":1,"a":null,"r":{"x":1},"r":null}"#],
        &[r#"{"a": 2, "r": {"x": null, "y": 2}}"#, r#"{"a": null, "r": null}"#],
        &[],
    );
}

#[test]
fn a_broken_record_leaves_no_trace_in_the_rows_around_it() {
    let columns = [("l", list(DataType::Int32)), ("m", map(DataType::Int32)), ("s", DataType::Utf8), ("r", row(&[("a", DataType::Int32)]))];
    let good = r#"{"l":[1,2],"m":{"k":1},"s":"x","r":{"a":1}}"#;
    let broken = r#"{"l":[3,4],"m":{"k":2},"s":"y","r":{"a":2},"#;
    let lines = [good, broken, "{}", broken, good, broken];
    let decoded = decode(&columns, &[IGNORE], &lines.map(str::as_bytes));
    assert_eq!(decoded.origin, Some(vec![0, 2, 4]));
    let full = r#"{"l": [1, 2], "m": {"k": 1}, "s": "x", "r": {"a": 1}}"#;
    assert_eq!(shown(&decoded.batch), [full, r#"{"l": null, "m": null, "s": null, "r": null}"#, full]);
}

#[test]
fn what_is_not_utf8_is_bad_alone_also_when_only_its_neighbour_makes_it_look_whole() {
    let decoded = decode(&[("s", DataType::Utf8)], &[], &[b"{\"s\":\"\xC3", b"\xA9\"}", b"{\"s\":\"\xFF\"}", b"{\"s\":\"ok\"}"]);
    assert_eq!(shown(&decoded.batch), [r#"{"s": "ok"}"#]);
    assert_eq!(decoded.origin, Some(vec![3]));
    assert_eq!(decoded.bad[2], (2, "not UTF-8 from byte 6 on".to_owned()));
    assert_eq!(decoded.bad.len(), 3);
}

#[test]
fn tombstones_and_empty_records_are_neither_rows_nor_bad() {
    let schema = schema(&[("a", DataType::Int32)]);
    let mut decoder = decoder("json", &BTreeMap::new(), &schema, &schema).expect("decoder");
    let mut records = Records::default();
    for value in [None, Some(&b""[..]), Some(b"{\"a\":1}")] {
        records.values.push(value);
    }
    let decoded = decoder.decode(&records).expect("decode");
    assert_eq!((decoded.batch.num_rows(), decoded.origin, decoded.bad.len()), (1, Some(vec![2]), 0));
}

#[test]
fn no_columns_still_count_rows() {
    let decoded = decode(&[], &[], &[b"{\"a\":1}", b"{}"]);
    assert_eq!((decoded.batch.num_rows(), decoded.batch.num_columns()), (2, 0));
}

#[test]
fn missing_fields_can_be_forbidden() {
    let given = [("json.fail-on-missing-field", "true")];
    let columns = [("a", DataType::Int32), ("r", row(&[("b", DataType::Int32)]))];
    let lines = [r#"{"a":1}"#, r#"{"a":1,"r":{}}"#, r#"{"a":1,"r":{"b":null}}"#];
    check(
        &columns,
        &given,
        &lines,
        &[r#"{"a": 1, "r": {"b": null}}"#],
        &[
            (0, "the record lacks a field, and 'json.fail-on-missing-field' is true"),
            (1, "column 'r' lacks a field, and 'json.fail-on-missing-field' is true"),
        ],
    );
    let schema = schema(&columns);
    let both = options(&[given[0], IGNORE]);
    assert!(decoder("json", &both, &schema, &schema).is_err());
}

#[test]
fn many_columns_are_found_by_name() {
    let names: Vec<String> = (0..40).map(|index| format!("column_{index}")).collect();
    let columns: Vec<_> = names.iter().map(|name| (name.as_str(), DataType::Int32)).collect();
    let reversed: Vec<_> = names.iter().enumerate().rev().map(|(index, name)| format!("\"{name}\":{index}")).collect();
    let line = format!("{{{}}}", reversed.join(","));
    let expected: Vec<_> = names.iter().enumerate().map(|(index, name)| format!("\"{name}\": {index}")).collect();
    let expected = format!("{{{}}}", expected.join(", "));
    check(&columns, &[], &[&line, &line], &[&expected, &expected], &[]);
}

fn encode(columns: &[(&str, DataType)], given: &[(&str, &str)], lines: &[&str]) -> Vec<Result<String, String>> {
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    let decoded = decode(columns, &[], &lines);
    assert!(decoded.bad.is_empty(), "{:?}", decoded.bad);
    let mut encoder = encoder("json", &options(given), &schema(columns)).expect("encoder");
    let (mut out, mut bad) = (BytesColumn::default(), Vec::new());
    encoder.encode(&decoded.batch, &mut out, &mut bad).expect("encode");
    let text = |value: Option<&[u8]>| value.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    out.iter().map(|value| text(value).ok_or_else(|| bad.iter().map(|(_, reason)| reason.clone()).collect())).collect()
}

#[test]
fn writes_what_flink_writes() {
    let columns = [
        ("id", DataType::Int32),
        ("ts", timestamp(TimeUnit::Millisecond)),
        ("z", DataType::Timestamp(TimeUnit::Second, Some(Arc::from("UTC")))),
        ("t", DataType::Time32(TimeUnit::Millisecond)),
        ("d", DataType::Decimal128(20, 10)),
        ("x", DataType::Float64),
        ("b", DataType::Binary),
        ("m", map(DataType::Int32)),
        ("s", DataType::Utf8),
    ];
    let line = r#"{"id":1,"ts":"2020-01-01 00:00:00.100","z":"2020-01-01 00:00:00Z","t":"12:34:56.789","d":0.0000000270,"x":1e10,"b":"aGk=","m":{"b":1,"a":null},"s":"\u0001\"é"}"#;
    let sql = r#"{"id":1,"ts":"2020-01-01 00:00:00.1","z":"2020-01-01 00:00:00Z","t":"12:34:56","d":2.70E-8,"x":1.0E10,"b":"aGk=","m":{"b":1,"a":null},"s":"\u0001\"é"}"#;
    assert_eq!(encode(&columns, &[], &[line]), [Ok(sql.to_owned())]);
    let iso = sql.replace("2020-01-01 ", "2020-01-01T").replace("2.70E-8", "0.0000000270");
    assert_eq!(encode(&columns, &[ISO, ("json.encode.decimal-as-plain-number", "true")], &[line]), [Ok(iso)]);
    assert_eq!(encode(&columns[..2], &[], &["{}"]), [Ok(r#"{"id":null,"ts":null}"#.to_owned())]);
    assert_eq!(encode(&columns[..2], &[("json.encode.ignore-null-fields", "true")], &[r#"{"id":1}"#]), [Ok(r#"{"id":1}"#.to_owned())]);
}

/// Records spoilt at random places: the decoder must call broken what an independent parser calls broken, and take the
/// rest, whether it reads a field or passes it by. Shows agreement and that nothing panics, not what values become.
#[test]
fn agrees_with_another_parser_on_what_is_json() {
    let good = br#"{"a":[1,-2.5e3,"x\\n\u00e9"],"b":{"c":true,"d":null,"e":[{},[]]},"s":"quite a long text, with \"quotes\" inside","n":10}"#;
    let spoilers = br#"{}[]",:\0123456789.eE+-ntfalsu /"#;
    let read = [("a", list(DataType::Utf8)), ("b", map(DataType::Utf8)), ("s", DataType::Utf8), ("n", DataType::Utf8)];
    let mut seed = 1_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap_or(0) % below
    };
    let mut verdicts = [0, 0];
    for _ in 0..20_000 {
        let mut record = good.to_vec();
        for _ in 0..=random(2) {
            let (place, byte) = (random(record.len()), spoilers[random(spoilers.len())]);
            match random(3) {
                0 => record[place] = byte,
                1 => record.insert(place, byte),
                _ => drop(record.remove(place)),
            }
        }
        let is_object = record.trim_ascii_start().starts_with(b"{");
        let is_json = is_object && serde_json::from_slice::<serde::de::IgnoredAny>(&record).is_ok();
        verdicts[usize::from(is_json)] += 1;
        let text = String::from_utf8_lossy(&record);
        for columns in [&read[..], &[]] {
            let decoded = decode(columns, &[IGNORE], &[&record]);
            assert_eq!(decoded.batch.num_rows() == 1, is_json, "{text}");
        }
    }
    assert!(verdicts.iter().all(|count| *count > 2_000), "{verdicts:?}");
}
