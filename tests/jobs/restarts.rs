//! kill −9 at random moments: after the restart the result is that of a run without it.

use std::{fmt::Write as _, thread, time::Duration};

use rand::{Rng, SeedableRng, rngs::SmallRng};

use crate::harness::{Place, count, seed, text};

/// Rows for about three seconds at the rate the jobs are held to.
fn inputs(place: &Place) {
    let (mut left, mut right) = (String::new(), String::new());
    let mut random = SmallRng::seed_from_u64(11);
    for i in 0..12_000_i64 {
        let ms = (i * 10 - random.random_range(0..900)).max(0);
        let stamp = format!("2024-03-01 10:{:02}:{:02}.{:03}", ms / 60_000, ms / 1_000 % 60, ms % 1_000);
        let key = random.random_range(0..40);
        writeln!(left, r#"{{"id":{i},"k":"k{key}","v":{},"ts":"{stamp}"}}"#, random.random_range(0..1_000)).expect("a string takes all");
        if random.random_bool(0.8) {
            writeln!(right, r#"{{"id":{i},"w":{},"ts":"{stamp}"}}"#, random.random_range(0..1_000)).expect("a string takes all");
        }
    }
    place.write("l.jsonl", left);
    place.write("r.jsonl", right);
}

const SCRIPT: &str = "
SET 'pipeline.name' = 'restarts';
SET 'execution.checkpointing.interval' = '100 ms';
CREATE TABLE l (id BIGINT, k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector'='filesystem', 'path'='l.jsonl', 'format'='json');
CREATE TABLE r (id BIGINT, w INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector'='filesystem', 'path'='r.jsonl', 'format'='json');
CREATE TABLE passed (id BIGINT, v INT) WITH ('connector'='filesystem', 'path'='${OUT}/passed', 'format'='json');
CREATE TABLE windows (k STRING, ws TIMESTAMP(3), we TIMESTAMP(3), n BIGINT, t BIGINT, lo INT, d BIGINT) WITH ('connector'='filesystem', 'path'='${OUT}/windows', 'format'='json');
CREATE TABLE pairs (id BIGINT, v INT, w INT) WITH ('connector'='filesystem', 'path'='${OUT}/pairs', 'format'='json');
EXECUTE STATEMENT SET BEGIN
INSERT INTO passed SELECT id, v FROM l WHERE v % 2 = 0;
INSERT INTO windows SELECT k, window_start, window_end, COUNT(*), SUM(CAST(v AS BIGINT)), MIN(v), COUNT(DISTINCT v)
  FROM TABLE(HOP(TABLE l, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end;
INSERT INTO pairs SELECT l.id, l.v, r.w FROM l LEFT JOIN r ON l.id = r.id AND r.ts BETWEEN l.ts AND l.ts + INTERVAL '2' SECOND;
END;
";

const SINKS: [&str; 3] = ["passed", "windows", "pairs"];

fn arguments<'a>(out: &'a str, workers: &'a str) -> Vec<&'a str> {
    vec!["--var", out, "--parallelism", workers, "--state-dir"]
}

#[test]
fn a_job_killed_again_and_again_gives_the_rows_of_an_uninterrupted_one() {
    let place = Place::new();
    inputs(&place);
    let output = place.run(SCRIPT, &[&arguments("OUT=whole", "1")[..], &["whole-state"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));

    let seed = seed();
    let mut random = SmallRng::seed_from_u64(seed);
    for round in 0..3 {
        let out = format!("OUT=torn{round}");
        let state = format!("torn{round}-state");
        // Every start uses another number of workers: state moves between them.
        for attempt in 0..6 {
            let workers = ["1", "2", "4"][attempt % 3];
            let mut all = arguments(&out, workers);
            all.extend([state.as_str(), "--set", "pelton.source.rows-per-second=4000"]);
            let mut child = place.start(SCRIPT, &all);
            thread::sleep(Duration::from_millis(random.random_range(50..900)));
            child.kill().expect("kill");
            child.wait().expect("reap");
        }
        let output = place.run(SCRIPT, &[&arguments(&out, "2")[..], &[state.as_str()]].concat());
        assert!(output.status.success(), "round {round}: {}", text(&output.stderr));
        for sink in SINKS {
            let whole = place.sink_rows(&format!("whole/{sink}"));
            let torn = place.sink_rows(&format!("torn{round}/{sink}"));
            assert!(!whole.is_empty(), "{sink}: the uninterrupted run wrote nothing");
            assert_eq!(count(&torn), count(&whole), "{sink}, round {round}, SEED={seed}");
        }
    }
}

#[test]
fn a_second_process_on_the_same_state_is_refused() {
    let place = Place::new();
    inputs(&place);
    let mut all = arguments("OUT=out", "1");
    all.extend(["state", "--set", "pelton.source.rows-per-second=1000"]);
    let mut first = place.start(SCRIPT, &all);
    thread::sleep(Duration::from_millis(700));
    let second = place.run(SCRIPT, &all);
    first.kill().expect("kill");
    first.wait().expect("reap");
    assert!(!second.status.success());
    let message = text(&second.stderr);
    assert!(message.contains("state"), "says which folder is in use: {message}");
}

#[test]
fn a_terminated_job_commits_what_it_has_and_goes_on_later() {
    let place = Place::new();
    inputs(&place);
    let mut all = arguments("OUT=out", "2");
    all.extend(["state", "--set", "pelton.source.rows-per-second=3000"]);
    let mut first = place.start(SCRIPT, &all);
    thread::sleep(Duration::from_millis(800));
    let pid = first.id().to_string();
    std::process::Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs");
    let status = first.wait().expect("reap");
    assert_eq!(status.code(), Some(0), "SIGTERM ends with 0");
    let output = place.run(SCRIPT, &[&arguments("OUT=out", "1")[..], &["state"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = place.run(SCRIPT, &[&arguments("OUT=whole", "1")[..], &["whole-state"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    for sink in SINKS {
        assert_eq!(count(&place.sink_rows(&format!("out/{sink}"))), count(&place.sink_rows(&format!("whole/{sink}"))), "{sink}");
    }
}
