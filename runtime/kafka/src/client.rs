//! Clients of librdkafka: a table's `properties.*` as its settings, its log lines as ours, outages told once.
//!
//! Properties carry the Java client's names, as in Flink scripts. Those that librdkafka knows by another name are
//! translated, those that mean nothing here (serializers, `max.poll.records`, …) are passed over, and any other name
//! that librdkafka does not know is refused.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use pelton_core::error::RuntimeError;
use rdkafka::{
    ClientConfig, ClientContext,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer, ConsumerContext},
    error::{KafkaError, RDKafkaErrorCode},
    message::DeliveryResult,
    producer::ProducerContext,
    types::RDKafkaRespErr,
    TopicPartitionList, Message,
};

use crate::options::{at_table, servers};

/// One request to a broker; retried when it fails.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Java settings that have no counterpart and change no result here.
const PASSED_OVER: &[&str] = &[
    "key.deserializer",
    "value.deserializer",
    "key.serializer",
    "value.serializer",
    "max.poll.records",
    "enable.auto.commit",
    "auto.commit.interval.ms",
    "default.api.timeout.ms",
    "exclude.internal.topics",
    "partition.discovery.interval.ms",
    "client.dns.lookup",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "auto.include.jmx.reporter",
    "interceptor.classes",
    "partitioner.class",
    "partitioner.ignore.keys",
    "max.block.ms",
    "commit.offsets.on.checkpoint",
    "register.consumer.metrics",
    "client.id.prefix",
    "flink.partition-discovery.interval-millis",
];

/// librdkafka's settings for a table's properties.
pub(crate) fn base_config(properties: &BTreeMap<String, String>) -> Result<ClientConfig, String> {
    let mut config = ClientConfig::new();
    config
        .set("client.id", "pelton")
        .set("socket.nagle.disable", "true")
        .set("reconnect.backoff.max.ms", "1000")
        // Brokers close idle connections; that is no event.
        .set("log.connection.close", "false")
        .set_log_level(RDKafkaLogLevel::Warning);
    for (key, value) in properties {
        let kilobytes = || value.trim().parse::<u64>().map(|bytes| (bytes / 1_024).max(1).to_string());
        match key.as_str() {
            key if PASSED_OVER.contains(&key) => {}
            "fetch.max.wait.ms" => drop(config.set("fetch.wait.max.ms", value)),
            "max.request.size" => drop(config.set("message.max.bytes", value)),
            "buffer.memory" => {
                let kilobytes = kilobytes().map_err(|_| format!("option 'properties.{key}': `{value}` is no whole number"))?;
                config.set("queue.buffering.max.kbytes", kilobytes);
            }
            "partition.assignment.strategy" => drop(config.set(key, assignors(value))),
            "sasl.jaas.config" => {
                let (user, password) = jaas(value).ok_or("option 'properties.sasl.jaas.config': no username and password in it; use properties.sasl.username and properties.sasl.password")?;
                config.set("sasl.username", user).set("sasl.password", password);
            }
            _ => drop(config.set(key, value)),
        }
    }
    Ok(config)
}

/// Names of Java's assignor classes as librdkafka's words.
fn assignors(classes: &str) -> String {
    let word = |class: &str| match class.trim().rsplit('.').next().unwrap_or_default() {
        "RangeAssignor" => "range".to_owned(),
        "RoundRobinAssignor" => "roundrobin".to_owned(),
        "CooperativeStickyAssignor" | "StickyAssignor" => "cooperative-sticky".to_owned(),
        other => other.to_owned(),
    };
    classes.split(',').map(word).collect::<Vec<_>>().join(",")
}

/// The user and password of a login module's line.
fn jaas(line: &str) -> Option<(String, String)> {
    let field = |name: &str| {
        let rest = &line[line.find(&format!("{name}="))? + name.len() + 1..];
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
        match quote {
            Some(quote) => rest[1..].split(quote).next().map(str::to_owned),
            None => rest.split([' ', ';']).next().map(str::to_owned),
        }
    };
    Some((field("username")?, field("password")?))
}

/// Settings of every consumer here. Offsets are committed by the engine's epochs only, and one that is gone is an
/// error, never a silent jump.
pub(crate) fn consumer_config(properties: &BTreeMap<String, String>, group: Option<&str>) -> Result<ClientConfig, String> {
    let mut with_defaults = BTreeMap::from(
        [
            ("isolation.level", "read_committed"),
            // The longest a broker holds back an answer with nothing in it; records are sent at once.
            ("fetch.wait.max.ms", "100"),
            ("fetch.queue.backoff.ms", "5"),
            ("fetch.error.backoff.ms", "100"),
            ("socket.timeout.ms", "15000"),
            ("fetch.max.bytes", "16777216"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    with_defaults.extend(properties.iter().map(|(key, value)| (key.clone(), value.clone())));
    let mut config = base_config(&with_defaults)?;
    config.set("enable.auto.commit", "false").set("enable.auto.offset.store", "false").set("auto.offset.reset", "error");
    if let Some(group) = group {
        config.set("group.id", group);
    }
    Ok(config)
}

/// Settings of every producer here.
pub(crate) fn producer_config(properties: &BTreeMap<String, String>, transactional_id: Option<&str>) -> Result<ClientConfig, String> {
    let mut with_defaults = BTreeMap::from(
        [
            ("linger.ms", "1"),
            ("enable.idempotence", "true"),
            // As the Java client: the same keys go to the same partitions.
            ("partitioner", "murmur2_random"),
            // A broker that is away is waited for, however long.
            ("message.timeout.ms", "0"),
            ("queue.buffering.max.kbytes", "65536"),
            ("topic.metadata.propagation.max.ms", "10000"),
            // A killed process's transaction is aborted by its next start; this is for one that never comes.
            ("transaction.timeout.ms", "900000"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    // A transaction's records wait no longer than it: librdkafka sees to that if nothing is said.
    if properties.contains_key("delivery.timeout.ms") || transactional_id.is_some() {
        with_defaults.remove("message.timeout.ms");
    }
    with_defaults.extend(properties.iter().map(|(key, value)| (key.clone(), value.clone())));
    let mut config = base_config(&with_defaults)?;
    config.set("delivery.report.only.error", "true");
    if let Some(id) = transactional_id {
        config.set("transactional.id", id);
    }
    Ok(config)
}

/// Why a client could not be made, in the words of the script.
pub(crate) fn config_error(table: &str, error: &KafkaError) -> RuntimeError {
    match error {
        KafkaError::ClientConfig(_, reason, key, value) => {
            let is_secret = ["password", "secret", "ssl.key", "oauthbearer"].iter().any(|part| key.contains(part));
            let value = if is_secret { "…" } else { value };
            at_table(table, format!("option 'properties.{key}' = '{value}': {}", reason.trim()))
        }
        other => at_table(table, other),
    }
}

/// A failed request.
pub(crate) fn unavailable(action: impl Into<String>, error: &impl std::fmt::Display) -> RuntimeError {
    RuntimeError::Unavailable { action: action.into(), reason: error.to_string() }
}

/// Whether brokers answer, told to people when it changes.
#[derive(Debug)]
pub(crate) struct Outage {
    /// Table, group or transaction, and the brokers.
    what: String,
    is_down: AtomicBool,
}

impl Outage {
    pub(crate) fn new(what: &str, properties: &BTreeMap<String, String>) -> Self {
        Self { what: format!("{what} at {}", servers(properties)), is_down: AtomicBool::new(false) }
    }

    pub(crate) fn down(&self, reason: &str) {
        if !self.is_down.swap(true, Ordering::Relaxed) {
            tracing::warn!(kafka = %self.what, reason, "broker does not answer, trying again");
        }
    }

    pub(crate) fn up(&self) {
        if self.is_down.load(Ordering::Relaxed) && self.is_down.swap(false, Ordering::Relaxed) {
            tracing::info!(kafka = %self.what, "broker answers again");
        }
    }
}

/// What every client tells us besides records.
pub(crate) struct Context {
    pub(crate) outage: Outage,
    /// First record that a producer could not deliver.
    failure: Mutex<Option<String>>,
    has_failed: AtomicBool,
    /// Last answer of the group's coordinator, for members only.
    on_assignment: Option<Box<dyn Fn(Assignment) + Send + Sync>>,
}

/// What the group says of this member.
pub(crate) enum Assignment {
    /// These are its partitions now, all of them (eager) or besides those it has (cooperative).
    Given { list: Vec<(String, i32)>, is_all: bool },
    /// These are no longer its own.
    Taken(Vec<(String, i32)>),
    /// It was thrown out of the group and joins again: nothing is its own until then.
    Lost,
}

impl Context {
    pub(crate) fn new(what: &str, properties: &BTreeMap<String, String>) -> Self {
        Self { outage: Outage::new(what, properties), failure: Mutex::new(None), has_failed: AtomicBool::new(false), on_assignment: None }
    }

    pub(crate) fn member(what: &str, properties: &BTreeMap<String, String>, on_assignment: Box<dyn Fn(Assignment) + Send + Sync>) -> Self {
        Self { on_assignment: Some(on_assignment), ..Self::new(what, properties) }
    }

    /// Takes note of a record that will not arrive.
    fn fail(&self, reason: String) {
        self.failure.lock().get_or_insert(reason);
        self.has_failed.store(true, Ordering::Release);
    }

    /// Takes note of an error that a consumer's poll gave.
    pub(crate) fn note(&self, error: KafkaError) {
        let reason = error.to_string();
        self.error(error, &reason);
    }

    /// Why some record did not arrive, if one did not.
    pub(crate) fn failure(&self) -> Option<String> {
        if self.has_failed.load(Ordering::Acquire) { self.failure.lock().clone() } else { None }
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, fac: &str, text: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => tracing::error!(fac, text, "librdkafka"),
            // Connections that fail are told by `error`, once.
            _ => tracing::debug!(fac, text, "librdkafka"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        use RDKafkaErrorCode::{AllBrokersDown, BrokerTransportFailure, OperationTimedOut, Resolve, UnknownTopicOrPartition};
        match error.rdkafka_error_code() {
            Some(AllBrokersDown | BrokerTransportFailure | Resolve | OperationTimedOut) => self.outage.down(reason),
            // The reader tells of topics that are not there.
            Some(UnknownTopicOrPartition) => tracing::debug!(kafka = %self.outage.what, reason, "{error}"),
            _ => tracing::warn!(kafka = %self.outage.what, reason, "{error}"),
        }
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        if let Err((error, message)) = result {
            // A purge is ours: the producer is being dropped, or its transaction aborted.
            let is_purge = matches!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight));
            if !is_purge {
                self.fail(format!("a record for topic {}, partition {} was not taken: {error}", message.topic(), message.partition()));
            }
        }
    }
}

fn pairs(list: &TopicPartitionList) -> Vec<(String, i32)> {
    list.elements().iter().map(|element| (element.topic().to_owned(), element.partition())).collect()
}

impl ConsumerContext for Context {
    /// A member only learns which partitions are its own; their records are read by consumers without a group, so that
    /// a rebalance never interrupts the reading of a partition that stays.
    fn rebalance(&self, consumer: &BaseConsumer<Self>, err: RDKafkaRespErr, list: &mut TopicPartitionList) {
        use rdkafka::consumer::RebalanceProtocol::Cooperative;
        let is_cooperative = matches!(consumer.rebalance_protocol(), Cooperative);
        let changed = pairs(list);
        let tell = |assignment| {
            if let Some(on_assignment) = &self.on_assignment {
                on_assignment(assignment);
            }
        };
        let done = if err == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            // From the end, and paused at once: the member itself reads nothing.
            let _ = list.set_all_offsets(rdkafka::Offset::End);
            let done = if is_cooperative { consumer.incremental_assign(list) } else { consumer.assign(list) };
            let _ = consumer.pause(list);
            tell(Assignment::Given { list: changed, is_all: !is_cooperative });
            done
        } else {
            match (consumer.assignment_lost(), is_cooperative) {
                (true, _) => tell(Assignment::Lost),
                (false, true) => tell(Assignment::Taken(changed)),
                // Eager: everything is taken for a moment; what stays is known with the next answer.
                (false, false) => {}
            }
            if is_cooperative { consumer.incremental_unassign(list) } else { consumer.unassign() }
        };
        if let Err(error) = done {
            tracing::warn!(kafka = %self.outage.what, "{error}");
        }
        self.outage.up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_names_are_translated_or_passed_over() {
        let properties = BTreeMap::from(
            [
                ("bootstrap.servers", "b:9092"),
                ("key.deserializer", "x"),
                ("buffer.memory", "2048"),
                ("fetch.max.wait.ms", "7"),
                ("partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"),
                ("sasl.jaas.config", "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"u\" password='p w';"),
            ]
            .map(|(key, value)| (key.to_owned(), value.to_owned())),
        );
        let config = base_config(&properties).expect("translates");
        assert_eq!(config.get("queue.buffering.max.kbytes"), Some("2"));
        assert_eq!(config.get("fetch.wait.max.ms"), Some("7"));
        assert_eq!(config.get("partition.assignment.strategy"), Some("cooperative-sticky"));
        assert_eq!((config.get("sasl.username"), config.get("sasl.password")), (Some("u"), Some("p w")));
        assert_eq!(config.get("key.deserializer"), None);
    }

    #[test]
    fn a_name_that_nobody_knows_is_refused_with_the_table() {
        let properties = BTreeMap::from([("bootstrap.servers".to_owned(), "b:9092".to_owned()), ("no.such.thing".to_owned(), "1".to_owned())]);
        let error = consumer_config(&properties, None).expect("a map").create::<BaseConsumer>().err().expect("refused");
        let text = config_error("t", &error).to_string();
        assert!(text.contains("'t'") && text.contains("properties.no.such.thing"), "{text}");
    }
}
