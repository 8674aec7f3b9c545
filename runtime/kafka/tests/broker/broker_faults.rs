//! A broker that goes away and comes back.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use pelton_core::position::Epoch;
use pelton_kafka::Kafka;

use crate::{
    server::Server,
    tables::{Reading, assert_becomes, place, table, write},
};

#[test]
fn reading_and_writing_go_on_when_the_broker_is_back_and_nothing_is_lost() {
    let server = Server::start(19_412);
    server.topic("outage", 1);
    server.topic("outage-once", 1);
    let kafka = Kafka::default();
    let options = [("sink.delivery-guarantee", "exactly-once"), ("sink.transactional-id-prefix", "outage")];
    let once = table(&server, "outage-once", &options);
    let source = table(&server, "outage", &[("properties.group.id", "outage"), ("scan.startup.mode", "earliest-offset"), ("properties.session.timeout.ms", "6000")]);
    let mut coordinator = kafka.transactions(&[Arc::new(source.clone())], &[Arc::new(once.clone())], "r1").expect("options").expect("a coordinator");
    coordinator.last_committed().expect("last");
    let mut in_epochs = kafka.sink(&once, place("r1")).expect("a sink");
    let mut plain = kafka.sink(&table(&server, "outage", &[]), place("r1")).expect("a sink");
    let mut reading = Reading::new(&kafka, &source, place("r1"));
    write(plain.as_mut(), &["1"]);
    plain.prepare(Epoch(1)).expect("prepare");
    reading.records(1);

    server.script(&["stop"]);
    write(plain.as_mut(), &["2"]);
    write(in_epochs.as_mut(), &["once"]);
    // Longer than the group's session: the process is thrown out of the group, and goes on all the same.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(9) {
        reading.round();
        reading.source.wait(Duration::from_millis(20));
    }
    assert_eq!(reading.splits.len(), 1);
    server.script(&["start"]);
    in_epochs.prepare(Epoch(1)).expect("prepare");
    coordinator.commit(Epoch(1), &reading.source.positions().expect("positions")).expect("commit");
    in_epochs.commit(Epoch(1)).expect("commit");

    plain.prepare(Epoch(2)).expect("prepare");
    assert_eq!(reading.records(2), ["1", "2"]);
    write(in_epochs.as_mut(), &["twice"]);
    in_epochs.prepare(Epoch(2)).expect("prepare");
    coordinator.commit(Epoch(2), &reading.source.positions().expect("positions")).expect("commit");
    assert_becomes(&server, "outage-once", &["once", "twice"]);
}

#[test]
fn a_job_may_start_before_its_broker() {
    let server = Server::start(19_432);
    server.topic("early", 1);
    server.write("early", 0, &["a"]);
    server.script(&["stop"]);
    let kafka = Kafka::default();
    let mut reading = Reading::new(&kafka, &table(&server, "early", &[("scan.startup.mode", "earliest-offset")]), place("early"));
    for _ in 0..20 {
        assert!(!reading.round());
        reading.source.wait(Duration::from_millis(20));
    }
    server.script(&["start"]);
    assert_eq!(reading.records(1), ["a"]);
}
