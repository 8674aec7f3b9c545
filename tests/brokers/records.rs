//! Single records: keys, headers, timestamps, tombstones and poison.

use crate::{
    broker::Broker,
    harness::{Place, json, text},
};

fn table(servers: &str, topic: &str, columns: &str, more: &str) -> String {
    format!(
        "CREATE TABLE `{topic}` ({columns}) WITH ('connector'='kafka', 'topic'='{topic}', 'properties.bootstrap.servers'='{servers}', \
         'properties.group.id'='{topic}', 'scan.startup.mode'='earliest-offset', 'scan.bounded.mode'='latest-offset'{more});\n"
    )
}

#[test]
fn keys_headers_timestamps_and_metadata_survive_the_way_through_a_topic() {
    let (broker, place) = (Broker::shared(), Place::new());
    broker.topic("whole", 1);
    place.write("in.jsonl", "{\"id\":1,\"v\":\"a\",\"ts\":\"2024-03-01 10:00:00.123\"}\n{\"id\":2,\"v\":null,\"ts\":\"2024-03-01 10:00:01.000\"}\n");
    let out = table(
        broker.servers(),
        "whole",
        "id INT, v STRING, h MAP<STRING, BYTES> METADATA FROM 'headers', at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'",
        ", 'format'='json', 'key.format'='json', 'key.fields'='id'",
    );
    let write = format!(
        "CREATE TABLE f (id INT, v STRING, ts TIMESTAMP(3)) WITH ('connector'='filesystem', 'path'='in.jsonl', 'format'='json');\n{out}\
         INSERT INTO `whole` SELECT id, v, MAP['trace', ENCODE('t-1', 'UTF-8')], CAST(ts AS TIMESTAMP_LTZ(3)) FROM f;\n"
    );
    let output = place.run(&write, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let read = table(
        broker.servers(),
        "whole",
        "id INT, v STRING, trace STRING METADATA FROM 'headers.trace' VIRTUAL, none STRING METADATA FROM 'headers.none' VIRTUAL, p INT METADATA FROM 'partition' VIRTUAL, o BIGINT METADATA FROM 'offset' VIRTUAL, \
         top STRING METADATA FROM 'topic' VIRTUAL, at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'",
        ", 'format'='json'",
    );
    let rows = place.rows(&format!("{read}SELECT id, v, trace, `none`, p, o, top, at FROM `whole`;"), &[]);
    assert_eq!(
        rows,
        [
            r#"{"id":1,"v":"a","trace":"t-1","none":null,"p":0,"o":0,"top":"whole","at":"2024-03-01 10:00:00.123Z"}"#,
            r#"{"id":2,"v":null,"trace":"t-1","none":null,"p":0,"o":1,"top":"whole","at":"2024-03-01 10:00:01.000Z"}"#,
        ]
    );
}

#[test]
fn poison_records_are_dead_letters_with_partition_and_offset_and_tombstones_are_skipped() {
    let (broker, place) = (Broker::shared(), Place::new());
    broker.topic("poison", 1);
    broker.fill(&place, "poison", "{\"id\":1}\nnot json\n{\"id\":\"x\"}\n{\"id\":2}\n");
    // A tombstone: a record whose value is null.
    place.write("null.jsonl", "{\"k\":\"gone\"}\n");
    let null = format!(
        "CREATE TABLE f (k STRING, line STRING) WITH ('connector'='filesystem', 'path'='null.jsonl', 'format'='json');\n{}INSERT INTO `poison` SELECT k, line FROM f;\n",
        table(broker.servers(), "poison", "k STRING, line STRING", ", 'key.format'='raw', 'key.fields'='k', 'value.format'='raw', 'value.fields-include'='EXCEPT_KEY'")
    );
    let output = place.run(&null, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let script = format!("{}SELECT id FROM `poison`;", table(broker.servers(), "poison", "id INT", ", 'format'='json', 'pelton.dlq'='dead.jsonl'"));
    let rows = place.rows(&script, &[]);
    assert_eq!(rows, [r#"{"id":1}"#, r#"{"id":2}"#]);
    let dead = std::fs::read_to_string(place.path().join("dead.jsonl")).expect("dead letters are written");
    let dead: Vec<_> = dead.lines().map(json).collect();
    let places: Vec<_> = dead.iter().map(|d| (d["topic"].as_str().expect("topic"), d["partition"].as_i64(), d["offset"].as_i64())).collect();
    assert_eq!(places, [("poison", Some(0), Some(1)), ("poison", Some(0), Some(2))]);
}

#[test]
fn a_topic_template_sends_each_row_to_the_topic_of_its_columns() {
    let (broker, place) = (Broker::shared(), Place::new());
    for topic in ["by-a", "by-b"] {
        broker.topic(topic, 1);
    }
    place.write("in.jsonl", "{\"k\":\"a\",\"v\":1}\n{\"k\":\"b\",\"v\":2}\n{\"k\":\"a\",\"v\":3}\n");
    let script = format!(
        "CREATE TABLE f (k STRING, v INT) WITH ('connector'='filesystem', 'path'='in.jsonl', 'format'='json');\n\
         CREATE TABLE t (k STRING, v INT) WITH ('connector'='kafka', 'topic'='by-${{k}}', 'properties.bootstrap.servers'='{}', 'format'='json');\n\
         INSERT INTO t SELECT k, v FROM f;\n",
        broker.servers()
    );
    let output = place.run(&script, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(broker.values(&place, "by-a"), [r#"{"k":"a","v":1}"#, r#"{"k":"a","v":3}"#]);
    assert_eq!(broker.values(&place, "by-b"), [r#"{"k":"b","v":2}"#]);
}
