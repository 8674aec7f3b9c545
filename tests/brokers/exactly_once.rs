//! Every input's effect once, whenever the process dies.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::SmallRng};

use crate::{
    broker::Broker,
    harness::{Place, json, seed},
};

const RECORDS: usize = 60_000;

fn input() -> String {
    let mut lines = String::new();
    for i in 0..RECORDS {
        let stamp = format!("2024-03-01 10:{:02}:{:02}.{:03}", i / 60 / 100 % 60, i / 100 % 60, i % 100 * 10);
        writeln!(lines, r#"{{"id":{i},"k":"k{}","ts":"{stamp}"}}"#, i % 17).expect("a string takes all");
    }
    lines
}

fn script(servers: &str, from: &str) -> String {
    let sink = |name: &str, columns: &str| {
        format!(
            "CREATE TABLE {name} ({columns}) WITH ('connector'='kafka', 'topic'='{from}-{name}', 'properties.bootstrap.servers'='{servers}', 'format'='json', \
             'sink.delivery-guarantee'='exactly-once', 'sink.transactional-id-prefix'='{from}');\n"
        )
    };
    format!(
        "SET 'pipeline.name' = '{from}';\nSET 'execution.checkpointing.interval' = '100 ms';\n\
         CREATE TABLE source (id BIGINT, k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='kafka', 'topic'='{from}', \
         'properties.bootstrap.servers'='{servers}', 'properties.group.id'='{from}', 'scan.startup.mode'='earliest-offset', 'format'='json');\n\
         {}{}EXECUTE STATEMENT SET BEGIN\n\
         INSERT INTO passed SELECT id FROM source;\n\
         INSERT INTO windows SELECT k, window_start, COUNT(*), MIN(id), MAX(id) FROM TABLE(TUMBLE(TABLE source, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end;\n\
         END;\n",
        sink("passed", "id BIGINT"),
        sink("windows", "k STRING, ws TIMESTAMP(3), n BIGINT, lo BIGINT, hi BIGINT")
    )
}

fn terminate(child: &mut std::process::Child) {
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill runs");
    child.wait().expect("reap");
}

/// Runs until the output holds `count` records or a minute has passed.
fn run_until(broker: &Broker, place: &Place, script: &str, arguments: &[&str], topic: &str, count: usize) {
    let mut child = place.start(script, arguments);
    let begin = Instant::now();
    while broker.values(place, topic).len() < count && begin.elapsed() < Duration::from_secs(60) {
        assert!(child.try_wait().expect("status").is_none(), "the job ended by itself");
        thread::sleep(Duration::from_millis(500));
    }
    terminate(&mut child);
}

#[test]
fn twenty_kills_at_random_moments_lose_and_double_nothing() {
    let (broker, place, seed) = (Broker::shared(), Place::new(), seed());
    let topic = "twenty";
    for (name, partitions) in [(topic.to_owned(), 4), (format!("{topic}-passed"), 3), (format!("{topic}-windows"), 2)] {
        broker.topic(&name, partitions);
    }
    broker.fill(&place, topic, &input());
    let script = script(broker.servers(), topic);
    let mut random = SmallRng::seed_from_u64(seed);
    for cycle in 0..20 {
        let workers = ["1", "2", "4"][cycle % 3];
        let mut child = place.start(&script, &["--state-dir", "state", "--parallelism", workers, "--set", "pelton.source.rows-per-second=3000"]);
        thread::sleep(Duration::from_millis(random.random_range(200..1_500)));
        assert!(child.try_wait().expect("status").is_none(), "cycle {cycle}: the job ended by itself, SEED={seed}");
        child.kill().expect("kill");
        child.wait().expect("reap");
    }
    run_until(&broker, &place, &script, &["--state-dir", "state", "--parallelism", "2"], "twenty-passed", RECORDS);

    let passed = broker.values(&place, "twenty-passed");
    let ids: BTreeSet<i64> = passed.iter().map(|row| json(row)["id"].as_i64().expect("id")).collect();
    assert_eq!(passed.len(), RECORDS, "records in the output, SEED={seed}");
    assert_eq!(ids.len(), RECORDS, "distinct records in the output, SEED={seed}");

    // Ten seconds hold 1,000 records; the bound of the watermark keeps the last window or two open.
    let windows = broker.values(&place, "twenty-windows");
    let mut seen: BTreeMap<(String, String), i64> = BTreeMap::new();
    for row in windows.iter().map(|row| json(row)) {
        let key = (row["k"].as_str().expect("k").to_owned(), row["ws"].as_str().expect("ws").to_owned());
        let n = row["n"].as_i64().expect("n");
        assert!(seen.insert(key.clone(), n).is_none(), "window {key:?} came twice, SEED={seed}");
        assert!((58..=59).contains(&n), "window {key:?} counts {n} of 1,000 records over 17 keys, SEED={seed}");
    }
    // The job is stopped as soon as the last record has passed, some windows before the last.
    assert!(seen.len() >= 17 * 40, "only {} windows came, SEED={seed}", seen.len());
}

#[test]
fn what_a_killed_job_left_uncommitted_is_never_seen_and_does_not_block_readers() {
    let (broker, place) = (Broker::shared(), Place::new());
    let topic = "left-open";
    for name in [topic.to_owned(), format!("{topic}-passed"), format!("{topic}-windows")] {
        broker.topic(&name, 1);
    }
    broker.fill(&place, topic, &input().lines().take(5_000).map(|line| format!("{line}\n")).collect::<String>());
    let script = script(broker.servers(), topic);
    // No checkpoint happens within this run: everything written stays in one open transaction.
    let slow = script.replace("'100 ms'", "'10 min'");
    let mut child = place.start(&slow, &["--state-dir", "state", "--parallelism", "1"]);
    thread::sleep(Duration::from_secs(4));
    child.kill().expect("kill");
    child.wait().expect("reap");
    assert_eq!(broker.values(&place, "left-open-passed").len(), 0, "uncommitted records are hidden");
    run_until(&broker, &place, &script, &["--state-dir", "state", "--parallelism", "1"], "left-open-passed", 5_000);
    assert_eq!(broker.values(&place, "left-open-passed").len(), 5_000);
}
