//! What a sink writes, and what it gives back.

use std::sync::Arc;

use pelton_core::{
    position::{Epoch, Partition},
    records::OutputRecords,
    time::EventTime,
};
use pelton_kafka::Kafka;

use crate::{
    server::Server,
    tables::{Read, output, place, read, table, values, whole, write},
};

#[test]
fn keys_headers_tombstones_timestamps_and_partitions_come_back_as_they_were() {
    let server = Server::shared();
    server.topic("round", 3);
    let kafka = Kafka::default();
    let mut sink = kafka.sink(&table(&server, "round", &[]), place("round")).expect("a sink");
    let mut records = OutputRecords::default();
    let timestamps = [1_709_287_200_123, 5, 1_709_287_200_124];
    for (value, key) in [(Some("value"), Some("key")), (None, Some("gone")), (Some(""), None)] {
        records.values.push(value.map(str::as_bytes));
        records.keys.push(key.map(str::as_bytes));
    }
    records.timestamps.extend(timestamps.map(|ms| Some(EventTime::from_millis(ms))));
    records.partitions.extend([2, 0, 1].map(|partition| Some(Partition(partition))));
    records.headers.push("a", Some(b"1"));
    records.headers.push("a", None);
    records.headers.push("b", Some(b""));
    records.headers.finish_row();
    records.headers.finish_row();
    records.headers.finish_row();
    assert_eq!(sink.write_records(&records).expect("write"), []);
    sink.prepare(Epoch(1)).expect("prepare");
    sink.commit(Epoch(1)).expect("commit");
    let text = |text: &str| Some(text.to_owned());
    let headers = vec![("a".to_owned(), text("1")), ("a".to_owned(), None), ("b".to_owned(), text(""))];
    assert_eq!(
        read(&kafka, &whole(&server, "round")),
        [
            Read { partition: 0, offset: 0, key: text("gone"), value: None, headers: vec![], timestamp: timestamps[1] },
            Read { partition: 1, offset: 0, key: None, value: text(""), headers: vec![], timestamp: timestamps[2] },
            Read { partition: 2, offset: 0, key: text("key"), value: text("value"), headers, timestamp: timestamps[0] },
        ]
    );
}

#[test]
fn records_that_cannot_go_come_back_by_index_and_the_others_are_written() {
    let server = Server::shared();
    server.topic("refusing", 2);
    let kafka = Kafka::default();
    let mut sink = kafka.sink(&table(&server, "refusing", &[]), place("refusing")).expect("a sink");
    let mut records = OutputRecords::default();
    let large = vec![b'x'; 2_000_000];
    for value in [&b"first"[..], &large, b"no partition", b"bad name", b"last"] {
        records.values.push(Some(value));
    }
    records.partitions.extend([Some(Partition(0)), None, Some(Partition(9)), None, Some(Partition(1))]);
    records.topics.extend([None, None, None, Some(Arc::from("a b")), None]);
    let refused = sink.write_records(&records).expect("write");
    assert_eq!(refused.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1, 2, 3]);
    for ((_, reason), part) in refused.iter().zip(["2000000 bytes", "no partition 9", "`a b`"]) {
        assert!(reason.contains(part), "{reason}");
    }
    sink.prepare(Epoch(1)).expect("prepare");
    assert_eq!(values(&server, "refusing"), ["first", "last"]);
}

#[test]
fn each_record_goes_to_its_own_topic_and_a_record_without_one_comes_back() {
    let server = Server::shared();
    server.topic("routed-a", 1);
    server.topic("routed-b", 1);
    let kafka = Kafka::default();
    let mut sink = kafka.sink(&table(&server, "routed-${k}", &[]), place("routed")).expect("a sink");
    let mut records = output(&["1", "2", "3"]);
    records.topics.extend([Some(Arc::from("routed-a")), Some(Arc::from("routed-b")), None]);
    let refused = sink.write_records(&records).expect("write");
    assert_eq!(refused.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [2]);
    sink.prepare(Epoch(1)).expect("prepare");
    assert_eq!((values(&server, "routed-a"), values(&server, "routed-b")), (vec!["1".to_owned()], vec!["2".to_owned()]));
}

#[test]
fn partitioners_choose_as_flink_says() {
    let server = Server::shared();
    let kafka = Kafka::default();
    let partitions = |topic: &str, partitioner: &str, worker: usize, key: Option<&str>| {
        let place = pelton_kafka::Place { run: "partitioners", worker, workers: 5, needs_all: false };
        let mut sink = kafka.sink(&table(&server, topic, &[("sink.partitioner", partitioner)]), place).expect("a sink");
        for _ in 0..3 {
            let mut records = output(&["x"]);
            if let Some(key) = key {
                records.keys.push(Some(key.as_bytes()));
            }
            assert_eq!(sink.write_records(&records).expect("write"), []);
        }
        sink.prepare(Epoch(1)).expect("prepare");
        read(&kafka, &whole(&server, topic)).into_iter().map(|read| read.partition).collect::<Vec<_>>()
    };
    ["fixed", "in-turn", "by-key"].iter().for_each(|topic| server.topic(topic, 3));
    assert_eq!(partitions("fixed", "fixed", 4, Some("any")), [1, 1, 1]);
    assert_eq!(partitions("in-turn", "round-robin", 0, None), [0, 1, 2]);
    // Java's murmur2 of "user-1" modulo 3.
    let by_key = partitions("by-key", "default", 0, Some("user-1"));
    assert_eq!(by_key, [by_key[0]; 3]);
}

#[test]
fn a_full_buffer_makes_the_writer_wait_and_drops_nothing() {
    let server = Server::shared();
    server.topic("full", 1);
    let kafka = Kafka::default();
    let options = [("properties.queue.buffering.max.messages", "10")];
    let mut sink = kafka.sink(&table(&server, "full", &options), place("full")).expect("a sink");
    let numbers: Vec<_> = (0..500).map(|i| format!("{i:03}")).collect();
    write(sink.as_mut(), &numbers.iter().map(String::as_str).collect::<Vec<_>>());
    sink.prepare(Epoch(1)).expect("prepare");
    assert_eq!(values(&server, "full"), numbers);
}
