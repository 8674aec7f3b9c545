//! Exactly once: one transactional producer per job and process, and the coordinator that commits an epoch with it.
//!
//! An epoch's transaction holds the records of all exactly-once sinks and the offsets of all Kafka sources that commit
//! to the same brokers. Each offset's metadata says `epoch=N run=R`; if there are no such sources, an offset of a group
//! of our own says it. So the brokers know the last committed epoch, atomically with the records.
//!
//! `R` is the run: the same as long as the job goes on from its state. What an earlier fresh start committed counts for
//! nothing. Promises: `commit` returns only once the brokers have decided for the epoch, which nothing takes back (they
//! show it to readers a moment later); if it fails, nothing of the epoch is ever seen, unless the answer was lost: then
//! the next start's `last_committed` tells.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use pelton_core::{
    error::{Result, RuntimeError},
    position::{Epoch, SplitId},
    sink::TransactionCoordinator,
    source::SplitPosition,
};
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{Consumer, ConsumerGroupMetadata},
    error::{KafkaError, RDKafkaErrorCode},
    producer::Producer as _,
};

use crate::{
    client::REQUEST_TIMEOUT,
    group::GroupMember,
    lookup::{Lookup, TopicPartition},
    options::Topics,
    position::{KafkaPosition, partition_of},
    producer::Producer,
};

/// A request of a transaction; what is not done by then is asked again.
const STEP: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(100);
/// Always there where offsets are committed: holds the epoch when no sink has a topic of its own.
const LAST_RESORT: &str = "__consumer_offsets";

/// What sinks and coordinator share.
pub(crate) struct Transactions {
    pub(crate) producer: Arc<Producer>,
    /// Number of the open transaction; 0 before the first.
    current: AtomicU64,
}

impl Transactions {
    pub(crate) fn new(producer: Arc<Producer>) -> Self {
        Self { producer, current: AtomicU64::new(0) }
    }

    /// The open transaction's number.
    pub(crate) fn current(&self) -> u64 {
        self.current.load(Ordering::Acquire)
    }

    /// Opens the next one.
    fn begin(&self) -> Result<()> {
        self.producer.inner.begin_transaction().map_err(|error| self.failed("begin", &error))?;
        self.current.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Runs a step until it is done. An error that no retry mends aborts the transaction.
    fn step(&self, action: &str, step: impl Fn() -> Result<(), KafkaError>) -> Result<()> {
        loop {
            let Err(error) = step() else {
                self.producer.context().outage.up();
                return Ok(());
            };
            let is_retriable = match &error {
                KafkaError::Transaction(error) => error.is_retriable() && !error.is_fatal() && !error.txn_requires_abort(),
                KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut) => true,
                _ => false,
            };
            if !is_retriable {
                return Err(self.failed(action, &error));
            }
            self.producer.context().outage.down(&error.to_string());
            self.producer.check()?;
            thread::sleep(RETRY);
        }
    }

    /// The error of a step that failed for good; the transaction is aborted if it still can be.
    fn failed(&self, action: &str, error: &KafkaError) -> RuntimeError {
        let code = error.rdkafka_error_code();
        let is_fatal = matches!(error, KafkaError::Transaction(error) if error.is_fatal());
        let is_fenced = matches!(code, Some(RDKafkaErrorCode::Fenced | RDKafkaErrorCode::ProducerFenced | RDKafkaErrorCode::InvalidProducerEpoch));
        if is_fenced {
            return RuntimeError::Storage {
                action: format!("{action} of {}", self.producer.what()),
                reason: "another process has taken over this transactional id: stop one of them, or give each its own 'sink.transactional-id-prefix'. Nothing of the open transaction was written"
                    .to_owned(),
            };
        }
        if !is_fatal && matches!(error, KafkaError::Transaction(error) if error.txn_requires_abort()) {
            // On the next start `init_transactions` would abort it as well; now it frees readers sooner.
            if let Err(abort) = self.producer.inner.abort_transaction(STEP) {
                tracing::warn!("abort transaction: {abort}");
            }
        }
        self.producer.failed(action, error)
    }
}

/// A group whose offsets transactions carry.
pub(crate) struct CarriedGroup {
    pub(crate) group: String,
    pub(crate) topics: Vec<Topics>,
    /// `None` for bounded tables, which join no group.
    pub(crate) member: Option<Arc<GroupMember>>,
    pub(crate) lookup: Lookup,
}

/// See the module.
pub(crate) struct Coordinator {
    // Fixed at start.
    pub(crate) shared: Arc<Transactions>,
    pub(crate) run: String,
    pub(crate) groups: Vec<CarriedGroup>,
    /// A client in a group of our own, and the topics (partition 0) that its offset may be of, best first.
    pub(crate) marker: CarriedGroup,
    pub(crate) marker_topics: Vec<String>,
}

/// The text that an offset carries.
fn metadata(epoch: Epoch, run: &str) -> String {
    format!("epoch={epoch} run={run}")
}

/// The epoch in an offset's text, if this run wrote it.
fn epoch_of(metadata: &str, run: &str) -> Option<Epoch> {
    let (epoch, writer) = metadata.strip_prefix("epoch=")?.split_once(" run=")?;
    (writer == run).then(|| epoch.parse().ok().map(Epoch)).flatten()
}

impl Coordinator {
    /// Asks until there is an answer.
    fn asked<T>(lookup: &Lookup, ask: impl Fn(&Lookup) -> Result<T, KafkaError>) -> T {
        loop {
            match ask(lookup) {
                Ok(answer) => {
                    lookup.consumer.context().outage.up();
                    return answer;
                }
                Err(error) => {
                    lookup.consumer.context().outage.down(&error.to_string());
                    thread::sleep(RETRY);
                }
            }
        }
    }

    fn committed_epoch(&self, lookup: &Lookup, partitions: &[TopicPartition]) -> Option<Epoch> {
        let committed = Self::asked(lookup, |lookup| lookup.committed(partitions));
        committed.values().flatten().filter_map(|committed| epoch_of(&committed.metadata, &self.run)).max()
    }

    fn marker_partitions(&self) -> Vec<TopicPartition> {
        self.marker_topics.iter().map(String::as_str).chain([LAST_RESORT]).map(|topic| (topic.to_owned(), 0)).collect()
    }

    /// The first of the marker's topics that exists now.
    fn marker_topic(&self) -> String {
        let exists = |topic: &&String| {
            let topics = Topics::Names(vec![(*topic).clone()]);
            !Self::asked(&self.marker.lookup, |lookup| lookup.partitions(&topics)).0.is_empty()
        };
        self.marker_topics.iter().find(exists).map_or_else(|| LAST_RESORT.to_owned(), String::clone)
    }

    fn send_offsets(&self, offsets: &TopicPartitionList, group: &ConsumerGroupMetadata) -> Result<()> {
        self.shared.step("commit source offsets in a transaction", || self.shared.producer.inner.send_offsets_to_transaction(offsets, group, STEP))
    }

    /// What a transaction needs to commit these offsets. A member commits only what the group says is its own: what went
    /// to another process is read there, and this epoch must not count.
    fn group_metadata(group: &CarriedGroup, offsets: &BTreeMap<TopicPartition, i64>) -> Result<ConsumerGroupMetadata> {
        let metadata = match &group.member {
            Some(member) => {
                let held = member.held_as_member();
                if let Some((topic, partition)) = offsets.keys().find(|partition| !held.contains(*partition)) {
                    return Err(RuntimeError::Unavailable {
                        action: format!("commit offsets of group {}", group.group),
                        reason: format!("topic {topic}, partition {partition} went to another process meanwhile; start again from the last checkpoint"),
                    });
                }
                member.metadata()
            }
            None => group.lookup.consumer.group_metadata(),
        };
        metadata.ok_or_else(|| RuntimeError::Unavailable { action: format!("commit offsets of group {}", group.group), reason: "the client is in no group".to_owned() })
    }
}

fn list(offsets: &BTreeMap<TopicPartition, i64>, text: &str) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::with_capacity(offsets.len());
    for ((topic, partition), offset) in offsets {
        let mut element = list.add_partition(topic, *partition);
        element.set_offset(Offset::Offset(*offset))?;
        element.set_metadata(text);
    }
    Ok(list)
}

impl TransactionCoordinator for Coordinator {
    fn last_committed(&mut self) -> Result<Option<Epoch>> {
        self.shared.step("start transactions", || self.shared.producer.inner.init_transactions(STEP))?;
        let mut last = self.committed_epoch(&self.marker.lookup, &self.marker_partitions());
        for group in &self.groups {
            for topics in &group.topics {
                let (partitions, _) = Self::asked(&group.lookup, |lookup| lookup.partitions(topics));
                last = last.max(self.committed_epoch(&group.lookup, &partitions));
            }
        }
        self.shared.begin()?;
        Ok(last)
    }

    fn commit(&mut self, epoch: Epoch, positions: &[(SplitId, SplitPosition)]) -> Result<()> {
        let producer = &self.shared.producer;
        producer.drain()?;
        // Two sources of one group may stand at different places: the earlier one counts.
        let mut by_group: HashMap<&str, BTreeMap<TopicPartition, i64>> = HashMap::new();
        let decoded: Vec<_> = positions.iter().filter_map(|(split, position)| Some((partition_of(split)?, KafkaPosition::decode(position)?))).collect();
        for ((topic, partition), position) in &decoded {
            let Some(group) = &position.group else { continue };
            let offset = by_group.entry(group).or_default().entry(((*topic).to_owned(), partition.0)).or_insert(i64::MAX);
            *offset = position.resume.0.min(*offset);
        }
        let text = metadata(epoch, &self.run);
        let bad = |error: KafkaError| producer.failed("commit source offsets in a transaction", &error);
        let mut is_marked = false;
        for group in &self.groups {
            if let Some(offsets) = by_group.get(group.group.as_str()) {
                self.send_offsets(&list(offsets, &text).map_err(bad)?, &Self::group_metadata(group, offsets)?)?;
                is_marked = true;
            }
        }
        if !is_marked {
            let offsets = BTreeMap::from([((self.marker_topic(), 0), i64::try_from(epoch.0).unwrap_or(i64::MAX))]);
            self.send_offsets(&list(&offsets, &text).map_err(bad)?, &Self::group_metadata(&self.marker, &offsets)?)?;
        }
        self.shared.step("commit a transaction", || producer.inner.commit_transaction(STEP))?;
        self.shared.begin()
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        // A job that stops between epochs: what it wrote since the last one is not to be seen. A process that dies
        // leaves the same to its next start.
        if self.shared.current() > 0
            && let Err(error) = self.shared.producer.inner.abort_transaction(REQUEST_TIMEOUT)
        {
            tracing::debug!("abort transaction: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_epochs_of_the_same_run_count() {
        let text = metadata(Epoch(7), "a1");
        assert_eq!(epoch_of(&text, "a1"), Some(Epoch(7)));
        for other in ["", "epoch=7", "epoch=x run=a1", "epoch=7 run=a12", "consumer metadata"] {
            assert_eq!(epoch_of(other, "a1"), None, "{other}");
        }
    }
}
