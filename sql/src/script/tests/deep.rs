//! Deep and long scripts: what is too deep is refused with its place, what is only long is read.

use std::time::{Duration, Instant};

use super::{plan, statements};

/// A pattern, repeated between an opening and an end.
const DEEP: [(&str, &str, &str, &str); 24] = [
    ("SELECT ", "(", "1", ")"),
    ("SELECT ", "NOT ", "TRUE", ""),
    ("SELECT ", "- ", "1", ""),
    ("SELECT ", "-(", "1", ")"),
    ("SELECT ", "1 + ", "1", ""),
    ("SELECT ", "TRUE AND ", "TRUE", ""),
    ("SELECT 'a'", " || 'a'", "", ""),
    ("SELECT 1", " IS NULL", "", ""),
    ("SELECT 1", "::INT", "", ""),
    ("SELECT a", "[1]", "", ""),
    ("SELECT ", "CASE WHEN TRUE THEN ", "1", " END"),
    ("SELECT ", "CASE ", "1", " WHEN 1 THEN 1 END"),
    ("SELECT ", "UPPER(", "'a'", ")"),
    ("SELECT ", "ARRAY[", "1", "]"),
    ("SELECT ", "INTERVAL ", "'1' SECOND", ""),
    ("SELECT ", "(SELECT ", "1", ")"),
    ("", "SELECT * FROM (", "SELECT 1", ")"),
    ("", "SELECT * FROM ((", "SELECT 1", "))"),
    ("SELECT * FROM ", "(", "t", ")"),
    ("SELECT 1", " UNION ALL SELECT 1", "", ""),
    ("SELECT 1 FROM t", " JOIN t ON TRUE", "", ""),
    ("SELECT CAST(1 AS ", "ARRAY<", "INT", ">"),
    ("CREATE TABLE t (a ", "ARRAY<", "INT", ">"),
    ("CREATE TABLE t (a ", "ROW<a ", "INT", ">"),
];

#[track_caller]
fn quick<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = run();
    assert!(started.elapsed() < Duration::from_secs(20), "{what} took {:?}", started.elapsed());
    result
}

#[test]
fn what_is_too_deep_is_refused_and_does_not_overflow_the_stack() {
    for (open, again, middle, close) in DEEP {
        for depth in [1, 10, 25, 59, 100, 400, 990, 1_500, 20_000, 200_000] {
            let script = format!("{open}{}{middle}{}", again.repeat(depth), close.repeat(depth));
            let result = quick(&format!("{open}{again} × {depth}"), || plan(&script));
            if depth > 1_500 {
                let error = result.map(|_| ()).expect_err(again);
                assert!(error.line == 1 && error.column >= 1, "{error}");
            }
        }
    }
}

#[test]
fn what_is_unfinished_is_refused_in_bounded_time() {
    for (open, again, middle, _) in DEEP {
        for depth in [5, 15, 25, 40, 55] {
            let script = format!("{open}{}{middle}", again.repeat(depth));
            let _ = quick(&format!("{open}{again} × {depth}, unfinished"), || plan(&script));
        }
    }
}

#[test]
fn what_is_only_long_is_read() {
    let list = |one: &str, count: usize| vec![one; count].join(", ");
    let numbers: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
    let branches: String = (0..1_500).map(|number| format!(" WHEN a = {number} AND b > 1 THEN {number} + 1")).collect();
    let columns: Vec<String> = (0..2_000).map(|number| format!("c{number} INT")).collect();
    let or: Vec<String> = (0..300).map(|number| format!("(a = {number} AND b <> {number})")).collect();
    for script in [
        format!("SELECT {}", list("a + 1", 3_000)),
        format!("SELECT a IN ({})", numbers.join(", ")),
        format!("SELECT CASE{branches} ELSE 0 END + CASE{branches} END FROM t"),
        format!("CREATE TABLE t ({}) WITH ('a' = 'b')", columns.join(", ")),
        format!("SELECT * FROM t WHERE {}", or.join(" OR ")),
        format!("INSERT INTO t VALUES {}", list("(1, -2, 'x')", 5_000)),
        "SELECT 1;".repeat(5_000),
        format!("SELECT '{}'", "x".repeat(1_000_000)),
        format!("SELECT 1 -- {}", "x".repeat(1_000_000)),
        "\n".repeat(100_000),
    ] {
        let read = quick("reading", || statements(&script));
        if let Err(error) = read {
            panic!("{error} in {}…", script.chars().take(60).collect::<String>());
        }
    }
}

#[test]
fn long_names_do_not_cost_time() {
    let script = format!("SELECT {}", "x".repeat(1_000_000));
    let error = quick("a long name", || plan(&script)).map(|_| ()).expect_err("no such column");
    assert!(error.message.contains("longer than"), "{error}");
}
