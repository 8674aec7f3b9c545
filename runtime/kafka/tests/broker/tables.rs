//! Tables, and ways to read and write them as the engine does.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::datatypes::Schema;
use pelton_core::{
    graph::TableSpec,
    position::{Epoch, SplitId},
    records::{OutputRecords, Records},
    sink::Sink,
    source::{Polled, RecordParts, Source, SplitChange},
};
use pelton_kafka::{Kafka, Place};

use crate::server::Server;

/// The longest a test waits for anything.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn table(server: &Server, topic: &str, options: &[(&str, &str)]) -> TableSpec {
    let given = [("connector", "kafka"), ("topic", topic), ("properties.bootstrap.servers", &server.address)];
    let options: BTreeMap<_, _> = given.iter().chain(options).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    TableSpec { name: format!("t-{topic}"), options, physical: Arc::new(Schema::empty()), primary_key: Vec::new(), partition_by: Vec::new(), line: 1 }
}

/// A table read from its start to its present end.
pub(crate) fn whole(server: &Server, topic: &str) -> TableSpec {
    table(server, topic, &[("scan.startup.mode", "earliest-offset"), ("scan.bounded.mode", "latest-offset")])
}

pub(crate) fn place(run: &str) -> Place<'_> {
    Place { run, worker: 0, workers: 1, needs_all: false }
}

/// A record as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) key: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) headers: Vec<(String, Option<String>)>,
    pub(crate) timestamp: i64,
}

fn text(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// A source under test with the splits it has now.
pub(crate) struct Reading {
    pub(crate) source: Box<dyn Source>,
    pub(crate) splits: Vec<SplitId>,
    pub(crate) ended: Vec<SplitId>,
    pub(crate) read: Vec<Read>,
}

impl Reading {
    pub(crate) fn new(kafka: &Kafka, table: &TableSpec, place: Place<'_>) -> Self {
        let parts = RecordParts { keys: true, headers: true, timestamps: true };
        let mut source = kafka.source(table, parts, place).expect("a source");
        source.restore(&[]).expect("restore");
        Self { source, splits: Vec::new(), ended: Vec::new(), read: Vec::new() }
    }

    /// One round of the engine: changes, then every split. Whether there were records.
    pub(crate) fn round(&mut self) -> bool {
        for change in self.source.changes().expect("changes") {
            match change {
                SplitChange::Added(split) => self.splits.push(split),
                SplitChange::Revoked(split) => self.splits.retain(|known| *known != split),
            }
        }
        let mut any = false;
        let mut records = Records::default();
        for split in self.splits.clone() {
            records.clear();
            let polled = self.source.poll(&split, 100, &mut records).expect("poll");
            for row in 0..records.len() {
                any = true;
                self.read.push(Read {
                    partition: records.partition.0,
                    offset: records.offsets[row].0,
                    key: text(records.key(row)),
                    value: text(records.values.get(row)),
                    headers: records.headers.row(row).map(|(name, value)| (name.to_owned(), text(value))).collect(),
                    timestamp: records.timestamps[row].as_millis(),
                });
            }
            if polled == Polled::End {
                self.splits.retain(|known| *known != split);
                self.ended.push(split);
            }
        }
        any
    }

    /// Rounds until `done` holds.
    pub(crate) fn until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let began = Instant::now();
        while !done(self) {
            assert!(began.elapsed() < LIMIT, "waited in vain for {what}; splits {:?}, read {:?}", self.splits, self.values());
            if !self.round() {
                self.source.wait(Duration::from_millis(20));
            }
        }
    }

    /// Rounds until that many records are there.
    pub(crate) fn records(&mut self, count: usize) -> Vec<String> {
        self.until("records", |reading| reading.read.len() >= count);
        self.values()
    }

    pub(crate) fn values(&self) -> Vec<String> {
        self.read.iter().map(|read| read.value.clone().unwrap_or_else(|| "null".to_owned())).collect()
    }

    /// As at a checkpoint that becomes durable.
    pub(crate) fn checkpoint(&mut self, epoch: u64) {
        let positions = self.source.positions().expect("positions");
        self.source.committed(Epoch(epoch), &positions).expect("committed");
    }
}

/// Reads a bounded table to its end.
pub(crate) fn read(kafka: &Kafka, table: &TableSpec) -> Vec<Read> {
    let mut reading = Reading::new(kafka, table, place("reader"));
    reading.round();
    reading.until("the end", |reading| reading.splits.is_empty());
    reading.read.sort_by_key(|read| (read.partition, read.offset));
    reading.read
}

/// The values that a topic holds for readers of committed records, sorted.
pub(crate) fn values(server: &Server, topic: &str) -> Vec<String> {
    let mut values: Vec<_> = read(&Kafka::default(), &whole(server, topic)).into_iter().map(|read| read.value.unwrap_or_else(|| "null".to_owned())).collect();
    values.sort();
    values
}

/// Waits until readers of committed records see as many values as expected, which must be those: brokers decide for a
/// transaction first and show it a moment later.
pub(crate) fn assert_becomes(server: &Server, topic: &str, expected: &[&str]) {
    let began = Instant::now();
    let mut now = values(server, topic);
    while now.len() < expected.len() && began.elapsed() < LIMIT {
        now = values(server, topic);
    }
    assert_eq!(now, expected, "topic {topic}");
}

/// Records with these values and nothing else.
pub(crate) fn output(values: &[&str]) -> OutputRecords {
    let mut records = OutputRecords::default();
    values.iter().for_each(|value| records.values.push(Some(value.as_bytes())));
    records
}

/// Writes values through a sink; nothing is refused.
pub(crate) fn write(sink: &mut dyn Sink, values: &[&str]) {
    let refused = sink.write_records(&output(values)).expect("write");
    assert_eq!(refused, [], "refused");
}
