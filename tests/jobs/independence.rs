//! The same rows whatever the batch size, the number of workers and the machine's time zone.

use std::fmt::Write as _;

use rand::{Rng, SeedableRng, rngs::SmallRng};

use crate::harness::{Place, count, seed, text};

/// Two inputs with keys, nulls, out-of-order and late rows.
fn inputs(place: &Place, seed: u64) {
    let mut random = SmallRng::seed_from_u64(seed);
    for (name, rows) in [("l", 3_000), ("r", 2_500)] {
        let mut lines = String::new();
        for i in 0..rows {
            let back = if random.random_bool(0.02) { 20_000 } else { 900 };
            let ms = (i64::from(i) * 20 - random.random_range(0..back)).max(0);
            let key = if random.random_bool(0.02) { "null".to_owned() } else { format!("\"k{}\"", random.random_range(0..25)) };
            let value = if random.random_bool(0.05) { "null".to_owned() } else { random.random_range(-50..50).to_string() };
            let stamp = format!("2024-03-01 10:{:02}:{:02}.{:03}", ms / 60_000, ms / 1_000 % 60, ms % 1_000);
            writeln!(lines, r#"{{"k":{key},"v":{value},"s":"t{}","ts":"{stamp}"}}"#, random.random_range(0..9)).expect("a string takes all");
        }
        place.write(&format!("{name}.jsonl"), lines);
    }
}

fn script(query: &str) -> String {
    let table = |name: &str| {
        format!(
            "CREATE TABLE {name} (k STRING, v INT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)\n\
             WITH ('connector'='filesystem', 'path'='{name}.jsonl', 'format'='json');\n"
        )
    };
    format!("{}{}{query};\n", table("l"), table("r"))
}

const ONE_INPUT: [(&str, &str); 7] = [
    ("stateless", "SELECT k, v * 2 AS w, UPPER(s) AS u FROM l WHERE v > 0"),
    ("tumble", "SELECT k, window_start, COUNT(*) AS n, SUM(v) AS t, MIN(s) AS lo, MAX(s) AS hi FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY k, window_start, window_end"),
    ("hop", "SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS t, MIN(v) AS lo, COUNT(DISTINCT s) AS d FROM TABLE(HOP(TABLE l, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end"),
    ("cumulate", "SELECT k, window_start, window_end, COUNT(v) AS n, MAX(s) AS hi FROM TABLE(CUMULATE(TABLE l, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end"),
    ("global window", "SELECT window_start, COUNT(*) AS n, SUM(v) AS t FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '3' SECOND)) GROUP BY window_start, window_end"),
    ("filter and having", "SELECT k, window_end, COUNT(*) FILTER (WHERE v > 0) AS p, AVG(v) AS a FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY k, window_start, window_end HAVING COUNT(*) > 3"),
    ("cascade", "SELECT window_start, MAX(n) AS m FROM (SELECT k, window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY k, window_start, window_end) GROUP BY window_start, window_end"),
];

const TWO_INPUTS: [(&str, &str); 4] = [
    ("interval join", "SELECT l.k, l.v, r.v AS w, l.ts, r.ts AS rts FROM l JOIN r ON l.k = r.k AND r.ts BETWEEN l.ts - INTERVAL '1' SECOND AND l.ts + INTERVAL '2' SECOND"),
    ("full interval join", "SELECT l.k, l.v, l.ts, r.k AS rk, r.v AS w, r.ts AS rts FROM l FULL JOIN r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + INTERVAL '1' SECOND"),
    ("window join", "SELECT l.k, l.v, r.v AS w, l.window_start FROM (SELECT * FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '2' SECOND))) l LEFT JOIN (SELECT * FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '2' SECOND))) r ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end"),
    ("union", "SELECT k, window_start, COUNT(*) AS n FROM TABLE(TUMBLE((SELECT k, ts FROM l UNION ALL SELECT k, ts FROM r), DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY k, window_start, window_end"),
];

fn check_all(queries: &[(&str, &str)], place: &Place, settings: &[(usize, usize)]) {
    for (name, query) in queries {
        let script = script(query);
        let reference = place.rows(&script, &["--parallelism", "1"]);
        assert!(reference.len() > 10, "{name}: only {} rows, the test would show nothing", reference.len());
        for &(rows, workers) in settings {
            let workers = workers.to_string();
            let batch = format!("pelton.batch.rows={rows}");
            let got = place.rows(&script, &["--parallelism", &workers, "--set", &batch]);
            assert_eq!(count(&got), count(&reference), "{name}: batches of {rows}, {workers} workers");
        }
    }
}

#[test]
fn rows_of_one_input_do_not_depend_on_batch_size_or_workers() {
    let place = Place::new();
    inputs(&place, seed());
    check_all(&ONE_INPUT, &place, &[(1, 1), (7, 1), (8192, 2), (7, 4)]);
}

/// With two inputs a row can be late for the pair only by the order in which the inputs are read, which Flink leaves
/// open too; rows within the watermark's bound must never depend on it.
#[test]
fn rows_of_two_inputs_in_time_do_not_depend_on_batch_size_or_workers() {
    let place = Place::new();
    inputs(&place, seed());
    for name in ["l", "r"] {
        // Only rows in time: drop those more than the bound behind the highest so far.
        let path = place.path().join(format!("{name}.jsonl"));
        let all = std::fs::read_to_string(&path).expect("input");
        let (mut highest, mut kept) = (String::new(), String::new());
        for line in all.lines() {
            let stamp = line.rsplit('"').nth(1).expect("ts is last").to_owned();
            let seconds = |s: &str| s[14..16].parse::<f64>().expect("minutes") * 60.0 + s[17..].parse::<f64>().expect("seconds");
            if highest.is_empty() || seconds(&stamp) > seconds(&highest) - 1.0 {
                kept.push_str(line);
                kept.push('\n');
            }
            if stamp > highest {
                highest = stamp;
            }
        }
        std::fs::write(&path, kept).expect("write input");
    }
    check_all(&TWO_INPUTS, &place, &[(1, 1), (7, 1), (8192, 2), (7, 4)]);
}

#[test]
fn the_time_zone_of_the_machine_changes_nothing() {
    let place = Place::new();
    inputs(&place, 1);
    let script = script("SELECT k, window_start, COUNT(*) AS n, MAX(DATE_FORMAT(ts, 'yyyy-MM-dd HH')) AS h FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY k, window_start, window_end");
    place.write("job.sql", script);
    let run = |zone: &str| {
        let output = place.command(&["run", "job.sql", "--output", "jsonl"]).env("TZ", zone).output().expect("the binary starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let mut rows: Vec<_> = text(&output.stdout).lines().map(str::to_owned).collect();
        rows.sort();
        rows
    };
    assert_eq!(run("UTC"), run("Asia/Kolkata"));
    assert_eq!(run("UTC"), run("America/St_Johns"));
}
