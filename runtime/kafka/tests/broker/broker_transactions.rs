//! Exactly once: what is visible when, and what a process that died leaves behind.

use std::{mem, sync::Arc};

use pelton_core::{
    error::RuntimeError,
    graph::TableSpec,
    position::Epoch,
    sink::{Sink, TransactionCoordinator},
};
use pelton_kafka::{Kafka, KafkaPosition};

use crate::{
    server::Server,
    tables::{Reading, assert_becomes, place, table, values, write},
};

/// A job of one worker with one exactly-once sink, and perhaps a Kafka source.
struct Job {
    kafka: Kafka,
    coordinator: Box<dyn TransactionCoordinator>,
    sink: Box<dyn Sink>,
    last: Option<Epoch>,
    reading: Option<Reading>,
}

fn out(server: &Server, topic: &str) -> TableSpec {
    table(server, topic, &[("sink.delivery-guarantee", "exactly-once"), ("sink.transactional-id-prefix", topic)])
}

impl Job {
    fn start(server: &Server, topic: &str, source: Option<&TableSpec>, run: &str) -> Self {
        let kafka = Kafka::default();
        let sources: Vec<_> = source.into_iter().cloned().map(Arc::new).collect();
        let mut coordinator = kafka.transactions(&sources, &[Arc::new(out(server, topic))], run).expect("options").expect("a coordinator");
        let last = coordinator.last_committed().expect("last epoch");
        let sink = kafka.sink(&out(server, topic), place(run)).expect("a sink");
        let reading = source.map(|table| Reading::new(&kafka, table, place(run)));
        Self { kafka, coordinator, sink, last, reading }
    }

    fn prepare(&mut self, epoch: u64) {
        self.sink.prepare(Epoch(epoch)).expect("prepare");
    }

    fn commit(&mut self, epoch: u64) -> Result<(), RuntimeError> {
        let positions = self.reading.as_mut().map(|reading| reading.source.positions().expect("positions")).unwrap_or_default();
        self.coordinator.commit(Epoch(epoch), &positions)?;
        self.sink.commit(Epoch(epoch))?;
        if let Some(reading) = &mut self.reading {
            reading.source.committed(Epoch(epoch), &positions)?;
        }
        Ok(())
    }

    /// As by kill −9: nothing is closed or aborted. (Its threads live on, as a zombie's would.)
    fn kill(self) {
        mem::forget(self);
    }
}

#[test]
fn an_epoch_is_visible_once_committed_and_what_is_written_behind_it_is_not() {
    let server = Server::shared();
    server.topic("epochs", 2);
    let mut job = Job::start(&server, "epochs", None, "r1");
    assert_eq!(job.last, None);
    write(job.sink.as_mut(), &["1a", "1b"]);
    job.prepare(1);
    write(job.sink.as_mut(), &["2a"]);
    assert_eq!(values(&server, "epochs"), [""; 0]);
    job.commit(1).expect("commit");
    assert_becomes(&server, "epochs", &["1a", "1b"]);
    write(job.sink.as_mut(), &["2b"]);
    job.prepare(2);
    job.commit(2).expect("commit");
    assert_becomes(&server, "epochs", &["1a", "1b", "2a", "2b"]);
}

#[test]
fn a_process_that_dies_before_the_commit_leaves_nothing_and_after_it_everything() {
    let server = Server::shared();
    server.topic("dying", 1);
    let mut job = Job::start(&server, "dying", None, "r1");
    write(job.sink.as_mut(), &["1"]);
    job.prepare(1);
    job.commit(1).expect("commit");
    write(job.sink.as_mut(), &["2"]);
    job.prepare(2);
    job.kill();
    // The open transaction would hold readers up: the next start settles it.
    let mut job = Job::start(&server, "dying", None, "r1");
    assert_eq!(job.last, Some(Epoch(1)));
    write(job.sink.as_mut(), &["2 again"]);
    job.prepare(2);
    job.commit(2).expect("commit");
    job.kill();
    let job = Job::start(&server, "dying", None, "r1");
    assert_eq!(job.last, Some(Epoch(2)));
    assert_becomes(&server, "dying", &["1", "2 again"]);
}

#[test]
fn offsets_of_sources_are_committed_with_the_records() {
    let server = Server::shared();
    server.topic("carried-in", 2);
    server.topic("carried-out", 1);
    server.write("carried-in", 0, &["a", "b"]);
    server.write("carried-in", 1, &["c"]);
    let source = table(&server, "carried-in", &[("properties.group.id", "carried"), ("scan.startup.mode", "earliest-offset")]);
    let mut job = Job::start(&server, "carried-out", Some(&source), "r1");
    let read = job.reading.as_mut().expect("a source").records(3);
    write(job.sink.as_mut(), &read.iter().map(String::as_str).collect::<Vec<_>>());
    job.prepare(1);
    let positions = job.reading.as_mut().expect("a source").source.positions().expect("positions");
    assert_eq!(KafkaPosition::decode(&positions[0].1).expect("ours").group.as_deref(), Some("carried"));
    job.commit(1).expect("commit");
    drop(job);
    let job = Job::start(&server, "carried-out", Some(&source), "r1");
    assert_eq!(job.last, Some(Epoch(1)));
    drop(job);
    // Who reads the group's offsets finds those of the transaction.
    let bounded = table(&server, "carried-in", &[("properties.group.id", "carried"), ("scan.startup.mode", "group-offsets"), ("scan.bounded.mode", "latest-offset")]);
    assert_eq!(crate::tables::read(&Kafka::default(), &bounded), []);
    assert_becomes(&server, "carried-out", &["a", "b", "c"]);
}

#[test]
fn a_fresh_start_does_not_count_what_an_earlier_run_committed() {
    let server = Server::shared();
    server.topic("fresh", 1);
    let mut job = Job::start(&server, "fresh", None, "old");
    write(job.sink.as_mut(), &["old"]);
    job.prepare(1);
    job.commit(1).expect("commit");
    drop(job);
    assert_eq!(Job::start(&server, "fresh", None, "new").last, None);
}

#[test]
fn a_process_that_was_replaced_is_told_so_and_writes_nothing() {
    let server = Server::shared();
    server.topic("fenced", 1);
    let mut zombie = Job::start(&server, "fenced", None, "r1");
    write(zombie.sink.as_mut(), &["zombie"]);
    let mut job = Job::start(&server, "fenced", None, "r1");
    write(job.sink.as_mut(), &["live"]);
    job.prepare(1);
    job.commit(1).expect("commit");
    let error = match zombie.sink.prepare(Epoch(1)) {
        Ok(_) => zombie.commit(1).expect_err("fenced"),
        Err(error) => error,
    };
    assert!(error.to_string().contains("sink.transactional-id-prefix"), "{error}");
    assert_becomes(&server, "fenced", &["live"]);
}

#[test]
fn sinks_without_a_fixed_topic_have_their_epoch_kept_too() {
    let server = Server::shared();
    server.topic("template-a", 1);
    let kafka = Kafka::default();
    let options = [("sink.delivery-guarantee", "exactly-once"), ("sink.transactional-id-prefix", "template")];
    let template = Arc::new(table(&server, "template-${k}", &options));
    let start = || kafka.transactions(&[], &[Arc::clone(&template)], "r1").expect("options").expect("a coordinator");
    let mut coordinator = start();
    assert_eq!(coordinator.last_committed().expect("last"), None);
    let mut sink = kafka.sink(&template, place("r1")).expect("a sink");
    let mut records = crate::tables::output(&["x"]);
    records.topics.push(Some("template-a".into()));
    assert_eq!(sink.write_records(&records).expect("write"), []);
    sink.prepare(Epoch(5)).expect("prepare");
    coordinator.commit(Epoch(5), &[]).expect("commit");
    drop((sink, coordinator));
    assert_eq!(start().last_committed().expect("last"), Some(Epoch(5)));
    assert_becomes(&server, "template-a", &["x"]);
}

#[test]
fn exactly_once_sinks_that_disagree_are_refused() {
    let server = Server::shared();
    let kafka = Kafka::default();
    let sink = |topic: &str, id: &str| {
        Arc::new(table(&server, topic, &[("sink.delivery-guarantee", "exactly-once"), ("sink.transactional-id-prefix", id)]))
    };
    let error = kafka.transactions(&[], &[sink("x", "one"), sink("y", "two")], "r1").err().expect("refused").to_string();
    assert!(error.contains("'one'") && error.contains("'two'"), "{error}");
    let plain = Arc::new(table(&server, "x", &[]));
    assert!(kafka.transactions(&[], &[plain], "r1").expect("options").is_none());
    let job = Job::start(&server, "x", None, "r2");
    assert!(job.kafka.sink(&sink("x", "x"), place("another run")).is_err());
}

#[test]
fn a_partition_that_goes_to_another_process_within_an_epoch_drops_the_epoch() {
    let server = Server::shared();
    server.topic("moving-in", 2);
    server.topic("moving-out", 1);
    (0..2).for_each(|partition| server.write("moving-in", partition, &["a"]));
    let source = table(&server, "moving-in", &[("properties.group.id", "moving"), ("scan.startup.mode", "earliest-offset")]);
    let mut job = Job::start(&server, "moving-out", Some(&source), "p1");
    let reading = job.reading.as_mut().expect("a source");
    let read = reading.records(2);
    write(job.sink.as_mut(), &read.iter().map(String::as_str).collect::<Vec<_>>());
    let other_process = Kafka::default();
    let mut other = Reading::new(&other_process, &source, place("p2"));
    let began = std::time::Instant::now();
    let error = loop {
        other.round();
        match reading.source.changes() {
            Err(error) => break error.to_string(),
            Ok(_) => assert!(began.elapsed() < crate::tables::LIMIT, "no rebalance"),
        }
    };
    assert!(error.contains("another process") && error.contains("moving-in/"), "{error}");
    drop(job);
    // Its new owner reads it from the last committed offset: the start.
    assert_eq!(other.records(1), ["a"]);
    assert_becomes(&server, "moving-out", &[]);
}
