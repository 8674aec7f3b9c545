//! Broken records: the good ones pass, the broken ones are dead letters with their place, and the job goes on; or it
//! stops, if that was asked for or the format is plainly wrong.

use crate::harness::{Place, json, text};

/// Every one of them is wrong in its own way.
const BROKEN: [&str; 40] = [
    "{",
    "}",
    "[",
    "[1,2",
    "\"",
    "nul",
    "{\"id\":}",
    "{\"id\":1",
    "{\"id\":1,}",
    "{\"id\" 1}",
    "{id:1}",
    "{'id':1}",
    "{\"id\":1}{\"id\":2}",
    "{\"id\":01}",
    "{\"id\":1e}",
    "{\"id\":--1}",
    "{\"id\":\"one\"}",
    "{\"id\":{}}",
    "{\"id\":[1]}",
    "{\"id\":99999999999999999999}",
    "{\"id\":1,\"amount\":\"much\"}",
    "{\"id\":1,\"amount\":{\"a\":1}}",
    "{\"id\":1,\"price\":\"12,5\"}",
    "{\"id\":1,\"price\":[12.5]}",
    "{\"id\":1,\"ok\":[]}",
    "{\"id\":1,\"day\":\"2024-13-01\"}",
    "{\"id\":1,\"day\":\"yesterday\"}",
    "{\"id\":1,\"at\":\"2024-01-01T10:00:00Z\"}",
    "{\"id\":1,\"at\":\"10:00\"}",
    "{\"id\":1,\"at\":true}",
    "{\"id\":1,\"tags\":\"a\"}",
    "{\"id\":1,\"tags\":{\"a\":1}}",
    "{\"id\":1,\"tags\":[1,{}]}",
    "{\"id\":1,\"who\":\"ann\"}",
    "{\"id\":1,\"who\":{\"age\":\"old\"}}",
    "{\"id\":1,\"who\":[]}",
    "{\"id\":1,\"text\":\"\\x\"}",
    "{\"id\":1,\"text\":\"\\ud800\"",
    "{\"id\":1,\"text\":\"\\u12\"}",
    "<id>1</id>",
];

const TABLE: &str = "CREATE TABLE t (id INT, amount DOUBLE, price DECIMAL(10,2), ok BOOLEAN, `day` DATE, at TIMESTAMP(3), tags ARRAY<INT>, who ROW<name STRING, age INT>, text STRING)
WITH ('connector'='filesystem', 'path'='t.jsonl', 'format'='json'";

fn input() -> String {
    let mut lines = String::new();
    for (n, broken) in BROKEN.iter().enumerate() {
        for good in 0..2 {
            lines.push_str(&format!("{{\"id\":{}}}\n", 1_000 + n * 2 + good));
        }
        lines.push_str(broken);
        lines.push('\n');
    }
    lines
}

#[test]
fn good_records_pass_and_each_broken_one_is_a_dead_letter_with_its_line() {
    let place = Place::new();
    place.write("t.jsonl", input());
    // All columns are selected: a column nobody needs is not decoded, so it cannot be wrong.
    let script = format!("{TABLE}, 'pelton.dlq'='dead.jsonl');\nSELECT * FROM t;");
    let output = place.run(&script, &["--output", "jsonl"]);
    assert!(output.status.success(), "exit {:?}: {}", output.status.code(), text(&output.stderr));
    let ids: Vec<i64> = text(&output.stdout).lines().map(|row| json(row)["id"].as_i64().expect("id")).collect();
    let unexpected: Vec<_> = ids.iter().filter(|id| **id < 1_000).collect();
    assert!(unexpected.is_empty(), "broken records passed as rows: {unexpected:?}");
    assert_eq!(ids.len(), BROKEN.len() * 2);

    let dead = std::fs::read_to_string(place.path().join("dead.jsonl")).expect("dead letters are written");
    let dead: Vec<_> = dead.lines().map(json).collect();
    let lines: Vec<i64> = dead.iter().map(|letter| letter["offset"].as_i64().expect("offset")).collect();
    let expected: Vec<i64> = (0..BROKEN.len() as i64).map(|n| n * 3 + 2).collect();
    assert_eq!(lines, expected, "one dead letter per broken line, with its number");
    for letter in &dead {
        assert!(letter["reason"].as_str().is_some_and(|reason| reason.len() > 10), "{letter}");
        assert!(letter["topic"].as_str().is_some_and(|topic| topic.contains("t.jsonl")), "{letter}");
    }
    assert!(text(&output.stderr).contains("40"), "the number of dead letters is said at the end: {}", text(&output.stderr));
}

#[test]
fn a_job_that_shall_fail_on_a_bad_record_stops_at_the_first() {
    let place = Place::new();
    place.write("t.jsonl", input());
    let output = place.run(&format!("{TABLE}, 'pelton.on-error'='fail');\nSELECT * FROM t;"), &["--output", "jsonl"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let message = text(&output.stderr);
    assert!(message.contains("t.jsonl") && message.contains("offset 2"), "says where: {message}");
}

#[test]
fn a_wrong_format_stops_the_job_early() {
    let place = Place::new();
    place.write("t.jsonl", "id;amount\n1;2\n".repeat(2_000));
    let output = place.run(&format!("{TABLE});\nSELECT * FROM t;"), &["--output", "jsonl"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty());
}

#[test]
fn rows_without_event_time_or_from_an_impossible_time_do_not_close_windows() {
    let place = Place::new();
    place.write(
        "t.jsonl",
        r#"{"k":"a","ts":"2024-01-01 00:00:01.000"}
{"k":"a","ts":null}
{"k":"a"}
{"k":"a","ts":"2024-01-01 00:00:02.000"}
"#,
    );
    let rows = place.rows(
        "CREATE TABLE t (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem', 'path'='t.jsonl', 'format'='json');
         SELECT k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end;",
        &[],
    );
    assert_eq!(rows, [r#"{"k":"a","n":2}"#]);
}

#[test]
fn a_failing_expression_costs_its_row_not_the_job() {
    let place = Place::new();
    place.write("t.jsonl", "{\"s\":\"1\"}\n{\"s\":\"two\"}\n{\"s\":\"3\"}\n");
    let rows = place.rows(
        "CREATE TABLE t (s STRING) WITH ('connector'='filesystem', 'path'='t.jsonl', 'format'='json', 'pelton.dlq'='dead.jsonl');
         SELECT CAST(s AS INT) AS n FROM t;",
        &[],
    );
    assert_eq!(rows, [r#"{"n":1}"#, r#"{"n":3}"#]);
    let dead = std::fs::read_to_string(place.path().join("dead.jsonl")).expect("dead letters are written");
    assert_eq!(dead.lines().count(), 1, "{dead}");
    assert!(dead.contains("two"), "{dead}");
}
