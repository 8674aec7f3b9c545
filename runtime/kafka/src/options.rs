//! The connector's options: what there is, and a table's options read into types.
//!
//! Names and values are Flink's. Options of formats and keys (`format`, `key.fields`, …) are the engine's, not read here.

use std::{collections::BTreeMap, time::Duration};

use pelton_core::{
    error::{Result, RuntimeError},
    graph::TableSpec,
    options::{ConnectorInfo, OptionReader, OptionSpec},
};
use regex::Regex;

const fn optional(key: &'static str, default: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec { key, required: false, default, doc }
}

/// The connector, as the planner needs to know it.
pub const CONNECTOR: ConnectorInfo = ConnectorInfo {
    name: "kafka",
    options: &[
        optional("topic", "", "Topic; several to read, separated by `;`. Written topics may hold ${column}."),
        optional("topic-pattern", "", "Regular expression of the topics to read, instead of 'topic'."),
        optional("properties.*", "", "Settings of the Kafka client; properties.bootstrap.servers is needed."),
        optional("scan.startup.mode", "group-offsets", "Where a first start reads from: earliest-offset, latest-offset, group-offsets, timestamp, specific-offsets."),
        optional("scan.startup.specific-offsets", "", "For specific-offsets: partition:0,offset:42;partition:1,offset:300."),
        optional("scan.startup.timestamp-millis", "", "For timestamp: milliseconds since 1970."),
        optional("scan.bounded.mode", "unbounded", "Where reading ends: unbounded, latest-offset, group-offsets, timestamp, specific-offsets."),
        optional("scan.bounded.specific-offsets", "", "For specific-offsets: the first offset of each partition that is not read."),
        optional("scan.bounded.timestamp-millis", "", "For timestamp: milliseconds since 1970; the first record at or after it is not read."),
        optional("scan.topic-partition-discovery.interval", "5 min", "How often new topics and partitions are looked for; 0 is never."),
        optional("scan.parallelism", "", "Accepted for Flink's scripts; parallelism.default rules."),
        optional("sink.partitioner", "default", "default: by key, else sticky random; fixed: one partition per worker; round-robin."),
        optional("sink.delivery-guarantee", "at-least-once", "none, at-least-once, or exactly-once by transactions."),
        optional("sink.transactional-id-prefix", "", "For exactly-once: the transactional id; one per running process and job."),
        optional("sink.parallelism", "", "Accepted for Flink's scripts; parallelism.default rules."),
    ],
    readable_metadata: &[
        ("topic", "STRING NOT NULL"),
        ("partition", "INT NOT NULL"),
        ("offset", "BIGINT NOT NULL"),
        ("timestamp", "TIMESTAMP_LTZ(3) NOT NULL"),
        ("headers", "MAP<STRING, BYTES> NOT NULL"),
        ("headers.*", "STRING"),
        ("key", "BYTES"),
    ],
    writable_metadata: &[
        ("topic", "STRING"),
        ("partition", "INT"),
        ("timestamp", "TIMESTAMP_LTZ(3)"),
        ("headers", "MAP<STRING, BYTES>"),
    ],
    is_source: true,
    is_sink: true,
    needs_format: true,
};

/// Which topics are read.
#[derive(Debug, Clone)]
pub(crate) enum Topics {
    Names(Vec<String>),
    Pattern(Regex),
}

/// A place in each partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Earliest,
    Latest,
    Group,
    /// Milliseconds since 1970.
    Timestamp(i64),
    /// By partition.
    Offsets(BTreeMap<i32, i64>),
}

/// How a table is read.
#[derive(Debug, Clone)]
pub(crate) struct ReadOptions {
    pub(crate) table: String,
    pub(crate) topics: Topics,
    pub(crate) properties: BTreeMap<String, String>,
    pub(crate) group: Option<String>,
    pub(crate) start: Place,
    pub(crate) end: Option<Place>,
    pub(crate) discovery: Option<Duration>,
    /// Whether an offset that is gone, or a group without one, is an error (Flink's default) or a jump.
    pub(crate) reset: Option<Place>,
}

/// How keyless and keyed records find their partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Partitioner {
    Default,
    Fixed,
    RoundRobin,
}

/// What a sink promises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Guarantee {
    None,
    AtLeastOnce,
    /// With the transactional id.
    ExactlyOnce(String),
}

/// How a table is written.
#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    /// `None` for a template or a list: each record brings its own.
    pub(crate) topic: Option<String>,
    pub(crate) properties: BTreeMap<String, String>,
    pub(crate) partitioner: Partitioner,
    pub(crate) guarantee: Guarantee,
}

/// An error of a table's options.
pub(crate) fn at_table(table: &str, reason: impl std::fmt::Display) -> RuntimeError {
    RuntimeError::Script(format!("table '{table}': {reason}"))
}

/// The broker addresses.
pub(crate) fn servers(properties: &BTreeMap<String, String>) -> &str {
    properties.get("bootstrap.servers").map_or("", String::as_str)
}

fn properties(table: &TableSpec) -> Result<BTreeMap<String, String>, String> {
    let all = table.options.iter().filter_map(|(key, value)| Some((key.strip_prefix("properties.")?.to_owned(), value.clone())));
    let all: BTreeMap<_, _> = all.collect();
    if servers(&all).is_empty() {
        return Err("option 'properties.bootstrap.servers' is missing".to_owned());
    }
    Ok(all)
}

impl ReadOptions {
    pub(crate) fn new(table: &TableSpec) -> Result<Self> {
        Self::read(table).map_err(|reason| at_table(&table.name, reason))
    }

    fn read(table: &TableSpec) -> Result<Self, String> {
        let options = OptionReader(&table.options);
        let topics = match (options.text("topic"), options.text("topic-pattern")) {
            (Some(names), None) => {
                let names: Vec<_> = names.split(';').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
                if names.is_empty() {
                    return Err("option 'topic' names no topic".to_owned());
                }
                if let Some(name) = names.iter().find(|name| name.contains("${")) {
                    return Err(format!("option 'topic': '{name}' depends on a row, so the table can only be written"));
                }
                Topics::Names(names)
            }
            (None, Some(pattern)) => {
                // The whole name must match, as in Java.
                let regex = Regex::new(&format!("^(?:{pattern})$")).map_err(|error| format!("option 'topic-pattern': {error}"))?;
                Topics::Pattern(regex)
            }
            (Some(_), Some(_)) => return Err("options 'topic' and 'topic-pattern' exclude each other".to_owned()),
            (None, None) => return Err("option 'topic' is missing".to_owned()),
        };
        let mut properties = properties(table)?;
        let group = properties.remove("group.id").filter(|group| !group.is_empty());
        let reset = match properties.remove("auto.offset.reset").as_deref() {
            None | Some("none" | "error") => None,
            Some("earliest" | "smallest" | "beginning") => Some(Place::Earliest),
            Some("latest" | "largest" | "end") => Some(Place::Latest),
            Some(other) => return Err(format!("option 'properties.auto.offset.reset': `{other}` is not one of earliest, latest, none")),
        };
        const STARTS: &[&str] = &["earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets"];
        const ENDS: &[&str] = &["unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets"];
        let start = place(&options, "scan.startup", options.choice("scan.startup.mode", STARTS)?.unwrap_or("group-offsets"))?;
        let end = match options.choice("scan.bounded.mode", ENDS)?.unwrap_or("unbounded") {
            "unbounded" => None,
            mode => Some(place(&options, "scan.bounded", mode)?),
        };
        for (is_used, mode, key) in [(start == Place::Group, "group-offsets", "scan.startup.mode"), (end == Some(Place::Group), "group-offsets", "scan.bounded.mode")] {
            if is_used && group.is_none() {
                return Err(format!("option '{key}' is '{mode}', which needs 'properties.group.id'"));
            }
        }
        let discovery = options.duration("scan.topic-partition-discovery.interval")?.unwrap_or(Duration::from_secs(300));
        Ok(Self {
            table: table.name.clone(),
            topics,
            properties,
            group,
            start,
            end,
            discovery: (!discovery.is_zero()).then_some(discovery),
            reset,
        })
    }

    /// Whether reading ends by itself.
    pub(crate) fn is_bounded(&self) -> bool {
        self.end.is_some()
    }

    /// Whether the group decides which partitions this process reads.
    pub(crate) fn shares_group(&self) -> bool {
        self.group.is_some() && !self.is_bounded()
    }
}

fn place(options: &OptionReader<'_>, prefix: &str, mode: &str) -> Result<Place, String> {
    Ok(match mode {
        "earliest-offset" => Place::Earliest,
        "latest-offset" => Place::Latest,
        "timestamp" => {
            let key = format!("{prefix}.timestamp-millis");
            options.required(&key)?;
            Place::Timestamp(options.number(&key)?.filter(|ms| *ms >= 0).ok_or_else(|| format!("option '{key}' must not be negative"))?)
        }
        "specific-offsets" => {
            let key = format!("{prefix}.specific-offsets");
            let text = options.required(&key)?;
            Place::Offsets(offsets(text).ok_or_else(|| format!("option '{key}': `{text}` is not like partition:0,offset:42;partition:1,offset:300"))?)
        }
        _ => Place::Group,
    })
}

fn offsets(text: &str) -> Option<BTreeMap<i32, i64>> {
    let mut offsets = BTreeMap::new();
    for pair in text.split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (partition, offset) = pair.split_once(',')?;
        let partition = partition.trim().strip_prefix("partition:")?.trim().parse().ok().filter(|number| *number >= 0)?;
        let offset = offset.trim().strip_prefix("offset:")?.trim().parse().ok().filter(|number| *number >= 0)?;
        offsets.insert(partition, offset);
    }
    (!offsets.is_empty()).then_some(offsets)
}

impl WriteOptions {
    pub(crate) fn new(table: &TableSpec) -> Result<Self> {
        Self::read(table).map_err(|reason| at_table(&table.name, reason))
    }

    fn read(table: &TableSpec) -> Result<Self, String> {
        let options = OptionReader(&table.options);
        if options.text("topic-pattern").is_some() {
            return Err("a table with 'topic-pattern' can only be read".to_owned());
        }
        let has_router = options.text("pelton.router").is_some();
        let topic = match options.text("topic").map(str::trim).filter(|topic| !topic.is_empty()) {
            Some(topic) if topic.contains("${") || topic.contains(';') => None,
            Some(topic) => {
                valid_topic(topic).map_err(|reason| format!("option 'topic': {reason}"))?;
                Some(topic.to_owned())
            }
            None if has_router => None,
            None => return Err("option 'topic' is missing".to_owned()),
        };
        let mut properties = properties(table)?;
        properties.remove("group.id");
        properties.remove("auto.offset.reset");
        let own_id = properties.remove("transactional.id");
        let partitioner = match options.text("sink.partitioner").unwrap_or("default") {
            "default" => Partitioner::Default,
            "fixed" => Partitioner::Fixed,
            "round-robin" => Partitioner::RoundRobin,
            other => return Err(format!("option 'sink.partitioner': `{other}` is not one of default, fixed, round-robin; classes cannot be loaded")),
        };
        let guarantee = match options.choice("sink.delivery-guarantee", &["at-least-once", "exactly-once", "none"])?.unwrap_or("at-least-once") {
            "exactly-once" => {
                let id = options.text("sink.transactional-id-prefix").map(str::to_owned).or(own_id).filter(|id| !id.is_empty());
                Guarantee::ExactlyOnce(id.ok_or("'sink.delivery-guarantee'='exactly-once' needs 'sink.transactional-id-prefix'")?)
            }
            "none" => Guarantee::None,
            _ => Guarantee::AtLeastOnce,
        };
        Ok(Self { topic, properties, partitioner, guarantee })
    }
}

/// Kafka's rule for names of topics.
pub(crate) fn valid_topic(name: &str) -> Result<(), String> {
    let is_legal = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    if name.is_empty() || name.len() > 249 || name == "." || name == ".." || !is_legal {
        return Err(format!("`{name}` is no name of a topic: 1 to 249 letters, digits, `.`, `_` and `-`"));
    }
    Ok(())
}

/// A table's options for looking at its first records: from the start to the present end, without the job's group.
pub(crate) fn sampling(options: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut options = options.clone();
    options.retain(|key, _| !key.starts_with("scan.") && key != "properties.group.id" && key != "properties.group.instance.id");
    options.insert("scan.startup.mode".to_owned(), "earliest-offset".to_owned());
    options.insert("scan.bounded.mode".to_owned(), "latest-offset".to_owned());
    options
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn table(options: &[(&str, &str)]) -> TableSpec {
        let mut all: BTreeMap<String, String> = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        all.entry("properties.bootstrap.servers".to_owned()).or_insert_with(|| "b:9092".to_owned());
        TableSpec {
            name: "t".to_owned(),
            options: all,
            physical: Arc::new(arrow::datatypes::Schema::empty()),
            primary_key: Vec::new(),
            partition_by: Vec::new(),
            line: 1,
        }
    }

    fn read(options: &[(&str, &str)]) -> Result<ReadOptions, String> {
        ReadOptions::new(&table(options)).map_err(|error| error.to_string())
    }

    #[test]
    fn start_and_end_are_read_as_flink_writes_them() {
        let options = read(&[
            ("topic", "a;b"),
            ("scan.startup.mode", "specific-offsets"),
            ("scan.startup.specific-offsets", "partition:0,offset:42;partition:1,offset:300"),
            ("scan.bounded.mode", "timestamp"),
            ("scan.bounded.timestamp-millis", "1000"),
        ])
        .expect("reads");
        assert_eq!(options.start, Place::Offsets(BTreeMap::from([(0, 42), (1, 300)])));
        assert_eq!(options.end, Some(Place::Timestamp(1_000)));
        assert!(matches!(options.topics, Topics::Names(names) if names == ["a", "b"]));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let cases: [(&[(&str, &str)], &str); 7] = [
            (&[], "'topic' is missing"),
            (&[("topic", "a")], "properties.group.id"),
            (&[("topic", "a-${x}"), ("scan.startup.mode", "earliest-offset")], "only be written"),
            (&[("topic-pattern", "("), ("scan.startup.mode", "earliest-offset")], "topic-pattern"),
            (&[("topic", "a"), ("scan.startup.mode", "earliest")], "earliest-offset"),
            (&[("topic", "a"), ("scan.startup.mode", "specific-offsets"), ("scan.startup.specific-offsets", "0:1")], "partition:0,offset:42"),
            (&[("topic", "a"), ("scan.startup.mode", "timestamp")], "scan.startup.timestamp-millis"),
        ];
        for (options, part) in cases {
            let error = read(options).expect_err("refused");
            assert!(error.contains(part) && error.contains("'t'"), "{error}");
        }
        let write = |options: &[(&str, &str)]| WriteOptions::new(&table(options)).map_err(|error| error.to_string());
        let no_id = write(&[("topic", "a"), ("sink.delivery-guarantee", "exactly-once")]).expect_err("refused");
        assert!(no_id.contains("sink.transactional-id-prefix"), "{no_id}");
        assert!(write(&[("topic", "a b")]).expect_err("refused").contains("`a b`"));
        assert!(write(&[("topic", "a-${k}")]).expect("reads").topic.is_none());
    }
}
