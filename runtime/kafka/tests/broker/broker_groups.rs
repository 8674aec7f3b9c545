//! Consumer groups: partitions that come and go, and offsets that are committed.

use pelton_core::source::SplitChange;
use pelton_kafka::{Kafka, Place};

use crate::{
    server::Server,
    tables::{LIMIT, Reading, place, table},
};

fn grouped(server: &Server, topic: &str) -> pelton_core::graph::TableSpec {
    table(server, topic, &[("properties.group.id", topic), ("scan.startup.mode", "earliest-offset"), ("properties.session.timeout.ms", "6000")])
}

#[test]
fn a_second_process_takes_over_half_where_the_first_stopped_and_gives_it_back() {
    let server = Server::shared();
    server.topic("halves", 4);
    let write = |round: &str| (0..4).for_each(|partition| server.write("halves", partition, &[&format!("{round}/{partition}")]));
    write("one");
    let table = grouped(&server, "halves");
    let (first_process, second_process) = (Kafka::default(), Kafka::default());
    let mut first = Reading::new(&first_process, &table, place("p1"));
    first.records(4);
    first.checkpoint(1);
    let mut second = Reading::new(&second_process, &table, place("p2"));
    let began = std::time::Instant::now();
    while second.splits.len() != 2 || first.splits.len() != 2 {
        assert!(began.elapsed() < LIMIT, "no rebalance: {:?} {:?}", first.splits, second.splits);
        first.round();
        second.round();
    }
    write("two");
    // Not from the start, as the table says for a first start: another member of the group was there already.
    second.records(2);
    first.records(6);
    let mut read = [first.values(), second.values()].concat();
    read.sort();
    assert_eq!(read, ["one/0", "one/1", "one/2", "one/3", "two/0", "two/1", "two/2", "two/3"]);
    second.checkpoint(1);
    first.checkpoint(2);
    drop(second);
    first.until("all partitions again", |first| first.splits.len() == 4);
    write("three");
    first.records(10);
    let mut rest: Vec<_> = first.values().split_off(6);
    rest.sort();
    assert_eq!(rest, ["three/0", "three/1", "three/2", "three/3"]);
}

#[test]
fn a_killed_process_takes_its_old_place_at_once() {
    let server = Server::shared();
    server.topic("ghost", 2);
    server.write("ghost", 0, &["a"]);
    // A session that outlives this test: waiting for it to end would show.
    let table = table(&server, "ghost", &[("properties.group.id", "ghost"), ("scan.startup.mode", "earliest-offset"), ("properties.session.timeout.ms", "120000")]);
    let mut killed = Reading::new(&Kafka::default(), &table, place("same run"));
    killed.records(1);
    std::mem::forget(killed);
    let mut again = Reading::new(&Kafka::default(), &table, place("same run"));
    again.records(1);
    assert_eq!(again.splits.len(), 2);
}

#[test]
fn a_partition_that_is_read_twice_in_one_job_is_read_twice_in_full() {
    let server = Server::shared();
    server.topic("twice", 2);
    server.write("twice", 0, &["a"]);
    server.write("twice", 1, &["b"]);
    let kafka = Kafka::default();
    let table = grouped(&server, "twice");
    let mut readings = [Reading::new(&kafka, &table, place("twice")), Reading::new(&kafka, &table, place("twice"))];
    for reading in &mut readings {
        let mut values = reading.records(2);
        values.sort();
        assert_eq!(values, ["a", "b"]);
    }
}

#[test]
fn a_job_with_keyed_state_that_gets_only_a_part_stops_with_the_reason() {
    let server = Server::shared();
    server.topic("keyed", 2);
    let table = grouped(&server, "keyed");
    let (first_process, second_process) = (Kafka::default(), Kafka::default());
    let mut other = Reading::new(&first_process, &table, place("p1"));
    other.until("both partitions", |reading| reading.splits.len() == 2);
    let mut keyed = Reading::new(&second_process, &table, Place { needs_all: true, ..place("p2") });
    let began = std::time::Instant::now();
    let error = loop {
        other.round();
        match keyed.source.changes() {
            Err(error) => break error.to_string(),
            Ok(changes) => assert!(began.elapsed() < LIMIT && changes.iter().all(|change| !matches!(change, SplitChange::Added(_))), "{changes:?}"),
        }
    };
    assert!(error.contains("1 of 2 partitions") && error.contains("'keyed'"), "{error}");
}

#[test]
fn a_group_without_offsets_is_an_error_unless_the_table_says_where_to_begin() {
    let server = Server::shared();
    server.topic("unset", 1);
    server.write("unset", 0, &["a"]);
    let bounded = |options: &[(&str, &str)]| {
        let all = [options, &[("properties.group.id", "unset"), ("scan.bounded.mode", "latest-offset")]].concat();
        let mut source = Kafka::default().source(&table(&server, "unset", &all), Default::default(), place("unset")).expect("a source");
        source.restore(&[]).expect("restore");
        source.changes().map(|changes| changes.len()).map_err(|error| error.to_string())
    };
    let error = bounded(&[]).expect_err("no offset");
    assert!(error.contains("auto.offset.reset") && error.contains("'unset'"), "{error}");
    assert_eq!(bounded(&[("properties.auto.offset.reset", "earliest")]), Ok(1));
}

#[test]
fn checkpoints_commit_the_groups_offsets_of_bounded_tables_too() {
    let server = Server::shared();
    server.topic("bounded-group", 1);
    server.write("bounded-group", 0, &["a", "b"]);
    let from = |mode: &str| table(&server, "bounded-group", &[("properties.group.id", "bounded-group"), ("scan.startup.mode", mode), ("scan.bounded.mode", "latest-offset")]);
    let kafka = Kafka::default();
    let mut reading = Reading::new(&kafka, &from("earliest-offset"), place("bounded-group"));
    reading.round();
    reading.until("the end", |reading| reading.splits.is_empty());
    reading.checkpoint(1);
    drop(reading);
    server.write("bounded-group", 0, &["c"]);
    let rest = crate::tables::read(&kafka, &from("group-offsets"));
    assert_eq!(rest.iter().filter_map(|read| read.value.as_deref()).collect::<Vec<_>>(), ["c"]);
}

#[test]
fn new_partitions_are_found_and_read_from_their_beginning() {
    let server = Server::shared();
    server.topic("growing-1", 1);
    let mut growing = table(&server, "", &[("scan.startup.mode", "latest-offset"), ("scan.topic-partition-discovery.interval", "100 ms")]);
    growing.options.remove("topic");
    growing.options.insert("topic-pattern".to_owned(), "growing-.*".to_owned());
    let kafka = Kafka::default();
    let mut reading = Reading::new(&kafka, &growing, place("growing"));
    reading.until("the first topic", |reading| reading.splits.len() == 1);
    server.topic("growing-2", 1);
    server.write("growing-2", 0, &["written before it was found"]);
    assert_eq!(reading.records(1), ["written before it was found"]);
}

#[test]
fn without_keyed_state_a_process_that_was_away_goes_on_where_others_stopped() {
    let server = Server::shared();
    server.topic("away", 1);
    server.write("away", 0, &["a", "b"]);
    let table = grouped(&server, "away");
    let kafka = Kafka::default();
    let mut first = Reading::new(&kafka, &table, place("p1"));
    first.records(2);
    let stale = pelton_kafka::KafkaPosition { resume: pelton_core::position::ResumeOffset(1), end: None, group: None };
    first.checkpoint(1);
    drop(first);
    let mut source = kafka.source(&table, pelton_core::source::RecordParts { keys: true, headers: true, timestamps: true }, place("p1")).expect("a source");
    source.restore(&[(pelton_kafka::split_id("away", pelton_core::position::Partition(0)), stale.encode())]).expect("restore");
    let mut again = Reading { source, splits: Vec::new(), ended: Vec::new(), read: Vec::new() };
    again.until("the partition", |reading| !reading.splits.is_empty());
    server.write("away", 0, &["c"]);
    assert_eq!(again.records(1), ["c"]);
}
