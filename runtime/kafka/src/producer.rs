//! A producer that all workers of a process share, and what it knows of topics.
//!
//! Promises: a record that was handed over arrives, or `drain` says why one did not; a full buffer makes the writer
//! wait, nothing is dropped. Delivery reports come for failures only: waiting for all is waiting for librdkafka's own
//! count to be zero, which costs nothing per record.

use std::{
    collections::HashMap,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use pelton_core::{
    error::{Result, RuntimeError},
    records::OutputRecords,
};
use rdkafka::{
    ClientConfig,
    bindings::rd_kafka_flush,
    error::{KafkaError, RDKafkaErrorCode},
    message::{Header, OwnedHeaders},
    producer::{BaseRecord, Producer as _, ThreadedProducer},
    types::RDKafkaRespErr,
};

use crate::{
    client::{Context, unavailable},
    options::valid_topic,
};

/// How long a topic that was just made may stay unknown before it counts as missing.
const MISSING_AFTER: Duration = Duration::from_secs(3);
/// How long the number of a topic's partitions is believed.
const FACTS_FOR: Duration = Duration::from_secs(60);
/// How long a topic that is missing is not asked for again.
const MISSING_FOR: Duration = Duration::from_secs(10);
/// Room kept for what a record takes besides key, value and headers, at most.
const OVERHEAD_BYTES: usize = 512;

/// How long a broker that did not answer about a topic is not asked again.
const SILENT_FOR: Duration = Duration::from_secs(5);
/// How long a writer waits for an answer about a topic.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// What is known of a topic.
#[derive(Debug, Clone)]
struct Facts {
    asked: Instant,
    partitions: Partitions,
}

/// A topic's partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Partitions {
    /// So many.
    Count(i32),
    /// There are none: why a record cannot go there.
    None(String),
    /// No broker answers. Records can be handed over all the same: the producer keeps them.
    Unknown,
}

/// See the module.
pub(crate) struct Producer {
    // Fixed at start.
    what: String,
    max_bytes: usize,
    // Handles.
    pub(crate) inner: ThreadedProducer<Context>,
    // Changing; looked at once per batch and topic.
    topics: Mutex<HashMap<Arc<str>, Facts>>,
}

/// Looked-up facts of one sink, so that a record costs no lock.
#[derive(Debug, Default)]
pub(crate) struct KnownTopics {
    topics: HashMap<Arc<str>, Facts>,
}

impl KnownTopics {
    /// A topic's partitions, asked for when they were not lately. With `must_know` the brokers are waited for.
    pub(crate) fn partitions(&mut self, producer: &Producer, topic: &Arc<str>, must_know: bool) -> Partitions {
        if let Some(facts) = self.topics.get(topic)
            && facts.is_fresh(must_know)
        {
            return facts.partitions.clone();
        }
        let mut facts = producer.facts(topic, must_know);
        while must_know && facts.partitions == Partitions::Unknown {
            facts = producer.facts(topic, must_know);
        }
        let partitions = facts.partitions.clone();
        self.topics.insert(Arc::clone(topic), facts);
        partitions
    }
}

impl Facts {
    fn is_fresh(&self, must_know: bool) -> bool {
        let lasts = match &self.partitions {
            Partitions::Count(_) => FACTS_FOR,
            Partitions::None(_) => MISSING_FOR,
            Partitions::Unknown if must_know => Duration::ZERO,
            Partitions::Unknown => SILENT_FOR,
        };
        self.asked.elapsed() < lasts
    }
}

impl Producer {
    pub(crate) fn new(what: String, config: &ClientConfig, context: Context) -> Result<Self, KafkaError> {
        let max_bytes = config.create_native_config()?.get("message.max.bytes")?.trim_end_matches('\0').parse().unwrap_or(1_000_000);
        let inner = config.create_with_context(context)?;
        Ok(Self { what, max_bytes, inner, topics: Mutex::default() })
    }

    /// For messages: the brokers, the transaction.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    pub(crate) fn context(&self) -> &Context {
        self.inner.context()
    }

    /// Asks the brokers about a topic.
    fn facts(&self, topic: &Arc<str>, must_know: bool) -> Facts {
        if let Err(reason) = valid_topic(topic) {
            return Facts { asked: Instant::now(), partitions: Partitions::None(reason) };
        }
        let mut topics = self.topics.lock();
        if let Some(facts) = topics.get(topic)
            && facts.is_fresh(must_know)
        {
            return facts.clone();
        }
        let began = Instant::now();
        let partitions = loop {
            match self.inner.client().fetch_metadata(Some(topic), ANSWER_TIMEOUT) {
                Err(error) => {
                    self.context().outage.down(&error.to_string());
                    break Partitions::Unknown;
                }
                Ok(metadata) => {
                    self.context().outage.up();
                    let found = metadata.topics().iter().find(|found| found.name() == topic.as_ref());
                    match found.map(|found| (found.error(), found.partitions().len())) {
                        Some((None, count)) if count > 0 => break Partitions::Count(i32::try_from(count).unwrap_or(i32::MAX)),
                        Some((Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED), _)) => break Partitions::None(format!("topic {topic} may not be written")),
                        _ if began.elapsed() > MISSING_AFTER => break Partitions::None(format!("there is no topic {topic}")),
                        // It may be in the making: brokers make topics on the first question.
                        _ => thread::sleep(Duration::from_millis(50)),
                    }
                }
            }
        };
        let facts = Facts { asked: Instant::now(), partitions };
        topics.insert(Arc::clone(topic), facts.clone());
        facts
    }

    /// Why a record is larger than may be sent, if it is.
    pub(crate) fn too_large(&self, records: &OutputRecords, row: usize) -> Option<String> {
        let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        let mut bytes = length(records.values.get(row));
        if !records.keys.is_empty() {
            bytes += length(records.keys.get(row));
        }
        if !records.headers.is_empty() {
            bytes += records.headers.row(row).map(|(name, value)| name.len() + length(value) + 10).sum::<usize>();
        }
        (bytes + OVERHEAD_BYTES > self.max_bytes).then(|| format!("the record has {bytes} bytes, at most {} can be sent ('properties.max.request.size')", self.max_bytes))
    }

    /// Hands a record over. Waits while the buffer is full.
    pub(crate) fn send(&self, records: &OutputRecords, row: usize, topic: &str, partition: Option<i32>) -> Result<()> {
        let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic);
        record.payload = records.values.get(row);
        record.key = if records.keys.is_empty() { None } else { records.keys.get(row) };
        record.partition = partition;
        record.timestamp = records.timestamps.get(row).copied().flatten().map(|time| time.as_millis());
        if !records.headers.is_empty() {
            let mut headers: Option<OwnedHeaders> = None;
            for (name, value) in records.headers.row(row) {
                headers = Some(headers.unwrap_or_default().insert(Header { key: name, value }));
            }
            record.headers = headers;
        }
        loop {
            match self.inner.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    self.check()?;
                    record = back;
                    thread::sleep(Duration::from_micros(200));
                }
                Err((error, _)) => {
                    self.check()?;
                    return Err(RuntimeError::Storage { action: format!("write to topic {topic}"), reason: error.to_string() });
                }
            }
        }
    }

    /// The error of a record that did not arrive, if there is one.
    pub(crate) fn check(&self) -> Result<()> {
        match self.context().failure() {
            None => Ok(()),
            Some(reason) => Err(RuntimeError::Unavailable { action: format!("write to {}", self.what), reason }),
        }
    }

    /// Sends what waits for company now, and waits until everything has arrived.
    pub(crate) fn drain(&self) -> Result<()> {
        while !self.flush(Duration::from_millis(100)) {
            self.check()?;
        }
        self.check()?;
        self.context().outage.up();
        Ok(())
    }

    /// Sends what waits for company without waiting for it to arrive.
    pub(crate) fn push(&self) {
        self.flush(Duration::ZERO);
    }

    /// Whether everything arrived within `timeout`. Not rdkafka's `flush`, which sleeps in steps of 100 ms.
    fn flush(&self, timeout: Duration) -> bool {
        let ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the client lives as long as `inner`; the call may come from any thread.
        let result = unsafe { rd_kafka_flush(self.inner.client().native_ptr(), ms) };
        result == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR
    }

    /// A failed request of a transaction.
    pub(crate) fn failed(&self, action: &str, error: &KafkaError) -> RuntimeError {
        unavailable(format!("{action} of {}", self.what), error)
    }
}
