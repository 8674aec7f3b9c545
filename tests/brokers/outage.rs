//! The broker goes away and comes back; processes join and leave the group.

use std::{process::Command, thread, time::Duration};

use crate::{
    broker::Broker,
    harness::{Place, count},
};

fn relay(servers: &str, topic: &str, name: &str) -> String {
    format!(
        "SET 'pipeline.name' = '{name}';\nSET 'execution.checkpointing.interval' = '200 ms';\n\
         CREATE TABLE source (line STRING) WITH ('connector'='kafka', 'topic'='{topic}', 'properties.bootstrap.servers'='{servers}', 'properties.group.id'='{topic}', \
         'scan.startup.mode'='earliest-offset', 'format'='raw');\n\
         CREATE TABLE sink (line STRING) WITH ('connector'='kafka', 'topic'='{topic}-out', 'properties.bootstrap.servers'='{servers}', 'format'='raw');\n\
         INSERT INTO sink SELECT line FROM source;\n"
    )
}

fn lines(from: usize, to: usize) -> String {
    (from..to).map(|i| format!("line {i}\n")).collect()
}

#[test]
fn a_job_waits_for_a_broker_that_is_stopped_and_goes_on_when_it_is_back() {
    let (broker, place) = (Broker::start(), Place::new());
    broker.topic("outage", 2);
    broker.topic("outage-out", 2);
    broker.fill(&place, "outage", &lines(0, 5_000));
    let script = relay(broker.servers(), "outage", "outage");
    let mut child = place.start(&script, &["--state-dir", "state", "--set", "pelton.source.rows-per-second=1000"]);
    thread::sleep(Duration::from_secs(3));
    broker.script(&["stop"]);
    thread::sleep(Duration::from_secs(3));
    assert!(child.try_wait().expect("status").is_none(), "the job waits, it does not end");
    broker.script(&["start"]);
    let mut got = Vec::new();
    for _ in 0..60 {
        thread::sleep(Duration::from_secs(1));
        got = broker.values(&place, "outage-out");
        if count(&got).len() >= 5_000 {
            break;
        }
    }
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill runs");
    child.wait().expect("reap");
    // At least once: nothing is lost; what was in flight may come twice.
    assert_eq!(count(&got).len(), 5_000, "distinct lines after the outage");
}

#[test]
fn a_second_process_takes_over_partitions_of_a_stateless_job_and_gives_them_back() {
    let (broker, place, other) = (Broker::shared(), Place::new(), Place::new());
    broker.topic("shared-work", 4);
    broker.topic("shared-work-out", 1);
    broker.fill(&place, "shared-work", &lines(0, 3_000));
    let first_script = relay(broker.servers(), "shared-work", "first");
    let second_script = relay(broker.servers(), "shared-work", "second");
    let slow = ["--state-dir", "state", "--set", "pelton.source.rows-per-second=400"];
    let mut first = place.start(&first_script, &slow);
    thread::sleep(Duration::from_secs(2));
    let mut second = other.start(&second_script, &slow);
    thread::sleep(Duration::from_secs(5));
    assert!(first.try_wait().expect("status").is_none() && second.try_wait().expect("status").is_none(), "both go on through the rebalance");
    Command::new("kill").args(["-TERM", &second.id().to_string()]).status().expect("kill runs");
    assert_eq!(second.wait().expect("reap").code(), Some(0));
    let mut got = Vec::new();
    for _ in 0..60 {
        thread::sleep(Duration::from_secs(1));
        got = broker.values(&place, "shared-work-out");
        if count(&got).len() >= 3_000 {
            break;
        }
    }
    Command::new("kill").args(["-TERM", &first.id().to_string()]).status().expect("kill runs");
    first.wait().expect("reap");
    assert_eq!(count(&got).len(), 3_000, "distinct lines");
}
