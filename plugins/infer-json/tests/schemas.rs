//! Samples in, schema out.

use infer_json::{Options, infer};

const OPEN: &str = r#"{"$schema":"http://json-schema.org/draft-07/schema#","#;

fn check(samples: &[&str], expected: &str) {
    let outcome = infer(samples.iter().map(|sample| sample.as_bytes()), Options::default()).expect("schema");
    assert_eq!(outcome.schema, format!("{OPEN}{expected}}}"));
}

#[test]
fn widens_numbers_and_keeps_what_may_be_null_or_missing_apart() {
    check(
        &[r#"{"id":1,"n":1,"gone":true}"#, r#"{"id":2,"n":2.5}"#, r#"{"id":3,"n":null}"#],
        r#""type":"object","properties":{"id":{"type":"integer"},"n":{"type":["number","null"]},"gone":{"type":"boolean"}},"required":["id","n"]"#,
    );
}

#[test]
fn goes_into_objects_and_arrays() {
    check(
        &[r#"{"user":{"age":3},"tags":["a"],"empty":[],"rows":[{"x":1},{"y":2}]}"#],
        r#""type":"object","properties":{"user":{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"]},"tags":{"type":"array","items":{"type":"string"}},"empty":{"type":"array"},"rows":{"type":"array","items":{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}}}}},"required":["user","tags","empty","rows"]"#,
    );
}

#[test]
fn finds_formats_enums_and_big_integers() {
    let samples: Vec<String> = (0..20)
        .map(|i| format!(r#"{{"at":"2026-01-{:02}T00:00:00Z","status":"{}","big":{}}}"#, i + 1, ["ok", "error"][i % 2], u64::MAX - i as u64))
        .collect();
    let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
    check(
        &samples,
        r#""type":"object","properties":{"at":{"type":"string","format":"date-time"},"status":{"type":"string","enum":["error","ok"]},"big":{"type":"integer","minimum":18446744073709551596,"maximum":18446744073709551615}},"required":["at","status","big"]"#,
    );
}

#[test]
fn tells_maps_from_records() {
    let samples: Vec<String> = (0..40).map(|i| format!(r#"{{"scores":{{"user{i}":{i},"user{}":1.5}}}}"#, i + 100)).collect();
    let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
    check(
        &samples,
        r#""type":"object","properties":{"scores":{"type":"object","additionalProperties":{"type":"number"}}},"required":["scores"]"#,
    );
}

#[test]
fn mixed_kinds_are_named_and_noted() {
    let outcome = infer([&b"{\"x\":1}"[..], b"{\"x\":\"a\"}"], Options::default()).expect("schema");
    assert!(outcome.schema.contains(r#""x":{"type":["integer","string"]}"#), "{}", outcome.schema);
    assert_eq!(outcome.notes, ["x has values of several kinds: integer 1 times, string 1 times"]);
    assert!(outcome.confidence < 1.0);
}

#[test]
fn leaves_a_few_bad_samples_out_and_refuses_many() {
    let outcome = infer([&b"{\"x\":1}"[..], b"{\"x\":2}", b"{\"x\":"], Options::default()).expect("schema");
    assert_eq!(outcome.sampled, 2);
    assert!(outcome.notes[0].contains("1 samples were left out; the first: sample 2 is no JSON"), "{:?}", outcome.notes);
    for samples in [&[][..], &[&b"{}"[..], b"x"], &[b"[]"]] {
        assert!(infer(samples.iter().copied(), Options::default()).is_err());
    }
}

#[test]
fn types_do_not_depend_on_the_order_of_samples() {
    let samples = [&b"{\"a\":1,\"b\":null}"[..], b"{\"a\":1.5,\"b\":\"x\"}", b"{\"a\":null,\"b\":\"y\"}"];
    let forwards = infer(samples, Options::default()).expect("schema");
    let backwards = infer(samples.into_iter().rev(), Options::default()).expect("schema");
    assert_eq!(forwards.schema, backwards.schema);
}
