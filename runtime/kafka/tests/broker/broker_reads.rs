//! Where reading starts, where it ends, and what it hands out.

use std::{sync::Arc, time::Duration};

use pelton_core::{
    position::{Partition, ResumeOffset},
    source::Source,
};
use pelton_kafka::{Kafka, KafkaPosition, split_id};
use rdkafka::producer::Producer;

use crate::{
    server::{Server, send},
    tables::{Reading, assert_becomes, place, read, table, whole},
};

#[test]
fn start_modes_begin_where_they_say() {
    let server = Server::shared();
    server.topic("starts", 1);
    server.write("starts", 0, &["a", "b", "c"]);
    let kafka = Kafka::default();
    let from = |options: &[(&str, &str)]| {
        let bounded = [options, &[("scan.bounded.mode", "latest-offset")]].concat();
        read(&kafka, &table(&server, "starts", &bounded)).into_iter().map(|read| read.value.expect("value")).collect::<Vec<_>>()
    };
    assert_eq!(from(&[("scan.startup.mode", "earliest-offset")]), ["a", "b", "c"]);
    assert_eq!(from(&[("scan.startup.mode", "specific-offsets"), ("scan.startup.specific-offsets", "partition:0,offset:2")]), ["c"]);
    assert_eq!(from(&[("scan.startup.mode", "timestamp"), ("scan.startup.timestamp-millis", "1000")]), ["a", "b", "c"]);
    assert_eq!(from(&[("scan.startup.mode", "timestamp"), ("scan.startup.timestamp-millis", "33000000000000")]), [""; 0]);
    assert_eq!(from(&[("scan.startup.mode", "latest-offset")]), [""; 0]);
}

#[test]
fn ends_are_exact() {
    let server = Server::shared();
    server.topic("ends", 2);
    server.write("ends", 0, &["a0", "a1", "a2"]);
    server.write("ends", 1, &["b0"]);
    let kafka = Kafka::default();
    let to = |options: &[(&str, &str)]| {
        let bounded = [options, &[("scan.startup.mode", "earliest-offset")]].concat();
        read(&kafka, &table(&server, "ends", &bounded)).into_iter().map(|read| read.value.expect("value")).collect::<Vec<_>>()
    };
    assert_eq!(to(&[("scan.bounded.mode", "specific-offsets"), ("scan.bounded.specific-offsets", "partition:0,offset:2;partition:1,offset:1")]), ["a0", "a1", "b0"]);
    assert_eq!(to(&[("scan.bounded.mode", "timestamp"), ("scan.bounded.timestamp-millis", "1000")]), [""; 0]);
    assert_eq!(to(&[("scan.bounded.mode", "timestamp"), ("scan.bounded.timestamp-millis", "33000000000000")]), ["a0", "a1", "a2", "b0"]);
}

#[test]
fn a_latest_start_is_a_number_before_the_first_record_comes() {
    let server = Server::shared();
    server.topic("latest", 1);
    server.write("latest", 0, &["before"]);
    let mut reading = Reading::new(&Kafka::default(), &table(&server, "latest", &[("scan.startup.mode", "latest-offset")]), place("latest"));
    reading.until("the split", |reading| !reading.splits.is_empty());
    let positions = reading.source.positions().expect("positions");
    assert_eq!(KafkaPosition::decode(&positions[0].1).expect("ours").resume, ResumeOffset(1));
    server.write("latest", 0, &["after"]);
    assert_eq!(reading.records(1), ["after"]);
}

#[test]
fn a_bounded_read_ends_over_aborted_and_before_open_transactions() {
    let server = Server::shared();
    server.topic("aborted", 1);
    let producer = server.producer(Some("aborting"));
    let transaction = |values: &[&str], commits: bool| {
        producer.begin_transaction().expect("begin");
        send(&producer, "aborted", 0, values);
        let end = if commits { producer.commit_transaction(Duration::from_secs(30)) } else { producer.abort_transaction(Duration::from_secs(30)) };
        end.expect("end of transaction");
    };
    transaction(&["no", "no"], false);
    transaction(&["a", "b"], true);
    transaction(&["no", "no", "no"], false);
    // The last records are aborted: the end is never handed out as a record.
    assert_becomes(&server, "aborted", &["a", "b"]);
    producer.begin_transaction().expect("begin");
    send(&producer, "aborted", 0, &["open"]);
    assert_becomes(&server, "aborted", &["a", "b"]);
    producer.commit_transaction(Duration::from_secs(30)).expect("commit");
    assert_becomes(&server, "aborted", &["a", "b", "open"]);
}

#[test]
fn with_keyed_state_the_checkpoint_decides_where_reading_goes_on_not_the_group() {
    let server = Server::shared();
    server.topic("restored", 1);
    server.write("restored", 0, &["a", "b", "c", "d"]);
    let kafka = Kafka::default();
    let grouped = table(&server, "restored", &[("properties.group.id", "restored"), ("scan.startup.mode", "earliest-offset")]);
    let mut first = Reading::new(&kafka, &grouped, place("restored"));
    first.records(4);
    first.checkpoint(1);
    drop(first);
    let with_state = pelton_kafka::Place { needs_all: true, ..place("restored") };
    let mut again = kafka.source(&grouped, Default::default(), with_state).expect("a source");
    let position = KafkaPosition { resume: ResumeOffset(1), end: None, group: None };
    again.restore(&[(split_id("restored", Partition(0)), position.encode())]).expect("restore");
    let mut again = Reading { source: again, splits: Vec::new(), ended: Vec::new(), read: Vec::new() };
    let mut records = pelton_core::records::Records::default();
    again.source.changes().expect("changes");
    let split = split_id("restored", Partition(0));
    let began = std::time::Instant::now();
    while records.len() < 3 && began.elapsed() < crate::tables::LIMIT {
        again.source.changes().expect("changes");
        again.source.poll(&split, 10, &mut records).expect("poll");
        again.source.wait(Duration::from_millis(20));
    }
    assert_eq!(records.offsets.iter().map(|offset| offset.0).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn a_bounded_table_keeps_its_end_over_a_restart() {
    let server = Server::shared();
    server.topic("kept-end", 1);
    server.write("kept-end", 0, &["a", "b"]);
    let kafka = Kafka::default();
    let mut source: Box<dyn Source> = kafka.source(&whole(&server, "kept-end"), Default::default(), place("kept")).expect("a source");
    source.restore(&[]).expect("restore");
    source.changes().expect("changes");
    let positions = source.positions().expect("positions");
    drop(source);
    server.write("kept-end", 0, &["after the end"]);
    let mut source = kafka.source(&whole(&server, "kept-end"), Default::default(), place("kept")).expect("a source");
    source.restore(&positions).expect("restore");
    let mut reading = Reading { source, splits: Vec::new(), ended: Vec::new(), read: Vec::new() };
    let mut records = pelton_core::records::Records::default();
    reading.source.changes().expect("changes");
    let split = split_id("kept-end", Partition(0));
    let began = std::time::Instant::now();
    while reading.source.poll(&split, 10, &mut records).expect("poll") != pelton_core::source::Polled::End && began.elapsed() < crate::tables::LIMIT {
        reading.source.wait(Duration::from_millis(20));
    }
    assert_eq!(records.values.iter().flatten().collect::<Vec<_>>(), [b"a", b"b"]);
}

#[test]
fn offsets_that_retention_deleted_are_an_error_unless_the_table_says_where_to_go_on() {
    let server = Server::shared();
    server.topic("deleted", 1);
    server.write("deleted", 0, &["a", "b"]);
    let position = KafkaPosition { resume: ResumeOffset(77), end: None, group: None };
    let at = |options: &[(&str, &str)]| {
        let options = [options, &[("scan.startup.mode", "earliest-offset")]].concat();
        let mut source = Kafka::default().source(&table(&server, "deleted", &options), Default::default(), place("deleted")).expect("a source");
        source.restore(&[(split_id("deleted", Partition(0)), position.encode())]).expect("restore");
        let (split, mut records) = (split_id("deleted", Partition(0)), pelton_core::records::Records::default());
        let began = std::time::Instant::now();
        while records.is_empty() && began.elapsed() < crate::tables::LIMIT {
            source.changes().expect("changes");
            if let Err(error) = source.poll(&split, 10, &mut records) {
                return Err(error.to_string());
            }
            source.wait(Duration::from_millis(20));
        }
        Ok(records.offsets.iter().map(|offset| offset.0).collect::<Vec<_>>())
    };
    let error = at(&[]).expect_err("the offset is gone");
    assert!(error.contains("offset 77") && error.contains("deleted"), "{error}");
    assert_eq!(at(&[("properties.auto.offset.reset", "earliest")]), Ok(vec![0, 1]));
}

#[test]
fn several_topics_and_patterns_are_dealt_to_all_workers_once() {
    let server = Server::shared();
    for topic in ["many-a", "many-b"] {
        server.topic(topic, 3);
        (0..3).for_each(|partition| server.write(topic, partition, &[&format!("{topic}/{partition}")]));
    }
    let expected = ["many-a/0", "many-a/1", "many-a/2", "many-b/0", "many-b/1", "many-b/2"];
    let bounded = [("scan.startup.mode", "earliest-offset"), ("scan.bounded.mode", "latest-offset")];
    let listed = table(&server, "many-a;many-b", &bounded);
    let mut pattern = table(&server, "", &bounded);
    pattern.options.remove("topic");
    pattern.options.insert("topic-pattern".to_owned(), "many-.".to_owned());
    for table in [listed, pattern] {
        let kafka = Arc::new(Kafka::default());
        let mut all = Vec::new();
        let mut per_worker = Vec::new();
        let mut readings: Vec<_> = (0..2).map(|worker| Reading::new(&kafka, &table, pelton_kafka::Place { run: "many", worker, workers: 2, needs_all: false })).collect();
        for reading in &mut readings {
            reading.round();
            reading.until("the end", |reading| reading.splits.is_empty());
            per_worker.push(reading.ended.len());
            all.extend(reading.values());
        }
        all.sort();
        assert_eq!(all, expected);
        assert_eq!(per_worker, [3, 3]);
    }
}

#[test]
fn a_bounded_table_without_its_topic_is_an_error_that_names_it() {
    let server = Server::shared();
    let mut source = Kafka::default().source(&whole(&server, "no-such-topic"), Default::default(), place("missing")).expect("a source");
    source.restore(&[]).expect("restore");
    let error = source.changes().expect_err("no topic").to_string();
    assert!(error.contains("no-such-topic") && error.contains(&server.address), "{error}");
}

#[test]
fn samples_are_the_first_records_and_join_no_group() {
    let server = Server::shared();
    server.topic("sampled", 1);
    server.write("sampled", 0, &["a", "b", "c"]);
    let unbounded = table(&server, "sampled", &[("properties.group.id", "sampled"), ("scan.startup.mode", "latest-offset")]);
    let kafka = Kafka::default();
    assert_eq!(kafka.samples(&unbounded, 2).expect("samples"), [b"a", b"b"]);
    assert_eq!(kafka.samples(&unbounded, 100).expect("samples").len(), 3);
}
