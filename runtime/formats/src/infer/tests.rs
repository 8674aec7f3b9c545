//! Inference from samples to columns and JSON Schema.

use super::*;

fn schema(samples: &[&str]) -> InferredSchema {
    let found = infer(samples).expect("samples are JSON");
    let iso = found.prefers_iso();
    assert_eq!(found.check(samples, iso).expect("decode"), [], "the schema fits its samples");
    found
}

fn check(samples: &[&str], columns: &str) {
    let found = schema(samples);
    assert_eq!(found.ddl(found.prefers_iso()), columns);
}

#[test]
fn numbers_widen_and_kinds_that_differ_become_text() {
    check(
        &[
            r#"{"i":1,"n":1,"b":99999999999999999999,"x":1,"o":true,"m":{"a":1},"nothing":null}"#,
            r#"{"i":-9223372036854775808,"n":2.5,"b":1,"x":"one","o":false,"m":[1]}"#,
        ],
        "  `i` BIGINT,\n  `n` DOUBLE,\n  `b` DECIMAL(38, 0),\n  `x` STRING,\n  `o` BOOLEAN,\n  `m` STRING,\n  `nothing` STRING",
    );
}

#[test]
fn nested_objects_and_arrays() {
    check(
        &[
            r#"{"user":{"id":1,"tags":["a","b"]},"points":[{"x":1},{"x":1.5,"y":null}],"empty":[],"grid":[[1],[2,3]],"none":{}}"#,
            r#"{"user":{"id":2,"name":"n"},"points":[]}"#,
        ],
        concat!(
            "  `user` ROW<`id` BIGINT, `tags` ARRAY<STRING>, `name` STRING>,\n",
            "  `points` ARRAY<ROW<`x` DOUBLE, `y` STRING>>,\n  `empty` ARRAY<STRING>,\n  `grid` ARRAY<ARRAY<BIGINT>>,\n  `none` STRING"
        ),
    );
}

#[test]
fn text_formats_decide_types_only_when_all_texts_have_them() {
    check(
        &[
            r#"{"ts":"2020-01-01 00:00:00","micro":"2020-01-01 00:00:00.123456","day":"2020-01-01","mixed":"2020-01-01","iso":"2020-01-01T00:00:00Z"}"#,
            r#"{"ts":"2020-01-01 00:00:00.5","micro":"2020-01-01 00:00:00","day":"2020-02-29","mixed":"soon","iso":"2020-01-01T00:00:00Z"}"#,
        ],
        "  `ts` TIMESTAMP(3),\n  `micro` TIMESTAMP(6),\n  `day` DATE,\n  `mixed` STRING,\n  `iso` STRING",
    );
    let iso = schema(&[r#"{"z":"2020-01-01T00:00:00.123Z","l":"2020-01-01T00:00","o":"2020-01-01T00:00:00+02:00"}"#]);
    assert!(iso.prefers_iso());
    assert_eq!(iso.ddl(true), "  `z` TIMESTAMP_LTZ(3),\n  `l` TIMESTAMP(3),\n  `o` STRING");
}

#[test]
fn formats_are_told_apart() {
    for (text, format) in [
        ("123e4567-e89b-12d3-a456-426614174000", Some(TextFormat::Uuid)),
        ("a.b+c@example.com", Some(TextFormat::Email)),
        ("https://example.com/x?y=1", Some(TextFormat::Uri)),
        ("10.0.255.1", Some(TextFormat::Ipv4)),
        ("12:34:56", Some(TextFormat::Time)),
        ("2020-01-01T00:00:00-05:30", Some(TextFormat::OffsetDateTime)),
        ("10.0.256.1", None),
        ("2020-13-01", None),
        ("not@home", None),
        ("a word", None),
        ("12345678", None),
        ("", None),
    ] {
        assert_eq!(words::format_of(text.as_bytes()), format, "{text}");
    }
}

#[test]
fn maps_have_keys_that_are_data_and_records_have_names() {
    check(
        &[r#"{"by_id":{"17":1,"42":2},"by_day":{"2020-01-01":"a"}}"#, r#"{"by_id":{},"by_day":{"2020-01-02":"b"}}"#],
        "  `by_id` MAP<STRING, BIGINT>,\n  `by_day` MAP<STRING, STRING>",
    );
    let many: Vec<String> = (0..30).map(|n| format!(r#"{{"attributes":{{"key_{n}":{n},"also_{n}":1}},"fixed":{{"a":1,"b":2}}}}"#)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    check(&many, "  `attributes` MAP<STRING, BIGINT>,\n  `fixed` ROW<`a` BIGINT, `b` BIGINT>");
    // Optional fields alone do not make a map.
    check(&[r#"{"r":{"a":1}}"#, r#"{"r":{"b":1}}"#, r#"{"r":{"c":1}}"#], "  `r` ROW<`a` BIGINT, `b` BIGINT, `c` BIGINT>");
}

#[test]
fn json_schema_says_required_nullable_enum_and_format() {
    let mut samples: Vec<String> = (0..10).map(|n| format!(r#"{{"id":{n},"status":"{}","at":"2020-01-01T00:00:00Z"}}"#, ["ok", "failed"][n % 2])).collect();
    samples.push(r#"{"id":null,"status":"ok","note":"once","tags":{"1":true,"2":false}}"#.to_owned());
    let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
    let expected = r#"{
  "$schema": "http://json-schema.org/draft-07/schema#",
  "title": "requests",
  "type": "object",
  "properties": {
    "id": {"type": ["integer", "null"]},
    "status": {"type": "string", "enum": ["failed", "ok"]},
    "at": {"type": "string", "format": "date-time"},
    "note": {"type": "string"},
    "tags": {"type": "object", "additionalProperties": {"type": "boolean"}}
  },
  "required": ["id", "status"]
}
"#;
    assert_eq!(schema(&samples).json_schema("requests"), expected);
}

#[test]
fn broken_samples_are_left_out_but_not_most_of_them() {
    let found = infer(&["{\"a\":1}", "{broken", "{\"a\":2}"]).expect("most are JSON");
    assert_eq!(found.rejected, [(1, "not JSON at byte 1: expected a string".to_owned())]);
    let error = infer(&["hello", "world", "{}"]).expect_err("most are not JSON");
    assert_eq!(error.to_string(), "2 of 3 samples are no JSON objects, the first: it does not begin with {");
    assert_eq!(infer::<&str>(&[]), Err(InferError::NoSamples));
}

#[test]
fn deep_nesting_is_text_below_the_limit_and_ends() {
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(900), "]".repeat(900));
    let found = infer(&[deep.as_str()]).expect("valid JSON");
    assert_eq!(found.check(&[deep], false).expect("decode"), []);
}

#[test]
fn thousands_of_keys_are_a_map() {
    let entries: Vec<String> = (0..5_000).map(|n| format!("\"k{n}\":{n}")).collect();
    check(&[&format!("{{\"m\":{{{}}}}}", entries.join(","))], "  `m` MAP<STRING, BIGINT>");
}
