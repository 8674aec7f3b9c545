//! A process's membership of a consumer group: which partitions are its own, and where offsets are committed.
//!
//! One per group and job, shared by all tables that name the group. The member only learns its partitions; records are
//! read by consumers that are in no group (`source.rs`), so a rebalance never interrupts partitions that stay. Its
//! instance id is the job's run, so that a killed process that starts again takes its old place at once instead of
//! waiting for its own ghost to time out; a process that ends for good is missed after `session.timeout.ms`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use rdkafka::{
    TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer, ConsumerGroupMetadata},
    error::{KafkaError, KafkaResult},
};

use crate::{
    client::{Assignment, Context, consumer_config},
    lookup::TopicPartition,
    wake::Waker,
};

/// How long the member's thread waits for events, and so the longest it takes to end.
const POLL: Duration = Duration::from_millis(100);

/// What the group has given to this process.
#[derive(Debug, Default)]
struct Held {
    /// `None` before the first answer.
    partitions: Option<BTreeSet<TopicPartition>>,
    /// Thrown out of the group and not yet back. What it held it goes on reading until the group says otherwise: after
    /// an outage it mostly gets the same again.
    is_lost: bool,
}

#[derive(Default)]
struct Shared {
    held: Mutex<Held>,
    /// Readers that want to know of changes.
    listeners: Mutex<Vec<Weak<Waker>>>,
    is_stopped: AtomicBool,
    /// Told when the group has given partitions.
    joined: Condvar,
}

/// See the module.
pub(crate) struct GroupMember {
    pub(crate) group: String,
    pub(crate) instance: String,
    shared: Arc<Shared>,
    /// Dropped after its thread has ended, which leaves the group or keeps the static place.
    consumer: Arc<BaseConsumer<Context>>,
    topics: Mutex<BTreeSet<String>>,
    thread: Option<JoinHandle<()>>,
}

impl GroupMember {
    /// A member that has not joined yet: it does with its first topics.
    pub(crate) fn new(group: &str, properties: &BTreeMap<String, String>, run: &str, discovery: Option<Duration>) -> KafkaResult<Self> {
        let mut config = consumer_config(properties, Some(group)).map_err(KafkaError::ClientCreation)?;
        let instance = properties.get("group.instance.id").cloned().unwrap_or_else(|| format!("pelton-{run}"));
        config.set("group.instance.id", &instance);
        let has_new_protocol = properties.get("group.protocol").is_some_and(|protocol| protocol.eq_ignore_ascii_case("consumer"));
        if !has_new_protocol {
            // `range` with static ids: the same partitions after a restart, and equal partitions of several topics together.
            for (key, value) in [("partition.assignment.strategy", "range"), ("session.timeout.ms", "10000"), ("heartbeat.interval.ms", "1000")] {
                if !properties.contains_key(key) {
                    config.set(key, value);
                }
            }
        }
        let refresh = discovery.unwrap_or(Duration::from_secs(300)).clamp(Duration::from_secs(1), Duration::from_secs(300));
        config.set("topic.metadata.refresh.interval.ms", refresh.as_millis().to_string());
        let shared = Arc::new(Shared::default());
        let told = Arc::clone(&shared);
        let context = Context::member(&format!("group {group}"), properties, Box::new(move |assignment| told.take(assignment)));
        let consumer: Arc<BaseConsumer<Context>> = Arc::new(config.create_with_context(context)?);
        let (polled, stop) = (Arc::clone(&consumer), Arc::clone(&shared));
        let serve = move || {
            while !stop.is_stopped.load(Ordering::Acquire) {
                if let Some(Err(error)) = polled.poll(POLL) {
                    polled.context().note(error);
                }
            }
        };
        let thread = thread::Builder::new().name("kafka-group".to_owned()).spawn(serve);
        let thread = thread.map_err(|error| KafkaError::ClientCreation(error.to_string()))?;
        Ok(Self {
            group: group.to_owned(),
            instance,
            shared,
            consumer,
            topics: Mutex::default(),
            thread: Some(thread),
        })
    }

    /// Adds topics to those the member wants partitions of.
    pub(crate) fn want(&self, names: impl Iterator<Item = String>) -> KafkaResult<()> {
        let mut topics = self.topics.lock();
        let before = topics.len();
        topics.extend(names);
        if topics.len() > before {
            self.consumer.subscribe(&topics.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Has `waker` woken when the partitions change.
    pub(crate) fn listen(&self, waker: &Arc<Waker>) {
        self.shared.listeners.lock().push(Arc::downgrade(waker));
    }

    /// The partitions that are this process's own, `None` before the group has said.
    pub(crate) fn held(&self) -> Option<BTreeSet<TopicPartition>> {
        self.shared.held.lock().partitions.clone()
    }

    /// Waits until the process is a member (again), then tells what is its own. A broker that is away is waited for.
    pub(crate) fn held_as_member(&self) -> BTreeSet<TopicPartition> {
        let mut held = self.shared.held.lock();
        loop {
            match &held.partitions {
                Some(partitions) if !held.is_lost => return partitions.clone(),
                _ => drop(self.shared.joined.wait_for(&mut held, POLL)),
            }
        }
    }

    /// Commits offsets without waiting: a commit that fails is made up for by the next.
    pub(crate) fn commit(&self, offsets: &TopicPartitionList) {
        if let Err(error) = self.consumer.commit(offsets, CommitMode::Async) {
            tracing::debug!(group = %self.group, "commit offsets: {error}");
        }
    }

    /// What a transaction needs to commit offsets for this member.
    pub(crate) fn metadata(&self) -> Option<ConsumerGroupMetadata> {
        self.consumer.group_metadata()
    }
}

impl Shared {
    fn take(&self, assignment: Assignment) {
        let mut held = self.held.lock();
        let was_lost = std::mem::replace(&mut held.is_lost, matches!(assignment, Assignment::Lost));
        let partitions = held.partitions.get_or_insert_default();
        match assignment {
            Assignment::Given { list, is_all } => {
                if is_all || was_lost {
                    partitions.clear();
                }
                partitions.extend(list);
                tracing::info!(partitions = partitions.len(), "group gave partitions");
            }
            Assignment::Taken(list) => partitions.retain(|partition| !list.contains(partition)),
            Assignment::Lost => tracing::warn!("the group has dropped this process, joining again"),
        }
        drop(held);
        self.joined.notify_all();
        self.listeners.lock().retain(|listener| listener.upgrade().is_some_and(|waker| {
            waker.wake();
            true
        }));
    }
}

impl Drop for GroupMember {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(group = %self.group, "the group's thread panicked");
        }
    }
}
