//! A table's source on one worker: its partitions' queues, their positions, and the group's offsets.
//!
//! Each worker has a consumer of its own, made with its first partition, that is in no group: the group decides
//! elsewhere (`group.rs`, `reader.rs`) which partitions this process reads, and the reader which worker reads them.
//! A broker that is away is no error: librdkafka tries again, `poll` finds nothing meanwhile, and it is told once.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use pelton_core::{
    error::{Result, RuntimeError},
    position::{Epoch, Partition, ResumeOffset, SplitId},
    records::Records,
    source::{Polled, RecordParts, Source, SplitChange, SplitPosition},
};
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer},
    error::{KafkaError, RDKafkaErrorCode},
};

use crate::{
    client::{Context, config_error, consumer_config, unavailable},
    options::Place,
    position::{KafkaPosition, partition_of},
    queue::{PartitionQueue, Taken},
    reader::{Published, Reader},
    wake::Waker,
};

/// Bytes of values after which a batch ends.
const BATCH_BYTES: usize = 8 << 20;
/// Kilobytes that a worker's consumer may read ahead, shared by its partitions, each of which gets at least a tenth
/// of the most.
const AHEAD_KB: usize = 64 << 10;
/// The most for one partition.
const AHEAD_KB_MAX: usize = 8 << 10;
/// How often librdkafka's own events (errors, throttling) are looked at.
const SERVE_EVERY: Duration = Duration::from_millis(100);

/// See the module.
pub(crate) struct KafkaSource {
    // Fixed at start.
    reader: Arc<Reader>,
    worker: usize,
    parts: RecordParts,
    /// Whether a transaction of the job commits the offsets, not this source.
    is_carried: bool,
    // Changing.
    splits: HashMap<SplitId, Split>,
    /// Where partitions that went away stood, should they come back.
    left: HashMap<SplitId, i64>,
    seen_version: Option<u64>,
    served_at: Instant,
    // Handles; queues (in `splits`) are dropped before the consumer they hold.
    waker: Arc<Waker>,
    consumer: Option<Arc<BaseConsumer<Context>>>,
    /// Commits a group's offsets where the process is no member of it.
    committer: Option<BaseConsumer<Context>>,
}

struct Split {
    published: Published,
    /// `None` if there is nothing to read.
    queue: Option<PartitionQueue>,
    /// The first record not handed out.
    next: i64,
    /// The same as of the last epoch that was committed.
    committed: i64,
}

impl KafkaSource {
    pub(crate) fn new(reader: Arc<Reader>, worker: usize, parts: RecordParts, is_carried: bool) -> Self {
        let waker = Arc::clone(&reader.shared.wakers[worker]);
        Self {
            reader,
            worker,
            parts,
            is_carried,
            splits: HashMap::new(),
            left: HashMap::new(),
            seen_version: None,
            served_at: Instant::now(),
            waker,
            consumer: None,
            committer: None,
        }
    }

    fn table(&self) -> &str {
        &self.reader.shared.options.table
    }

    /// The worker's consumer, made for about `partitions` of them.
    fn consumer(&mut self, partitions: usize) -> Result<Arc<BaseConsumer<Context>>> {
        if let Some(consumer) = &self.consumer {
            return Ok(Arc::clone(consumer));
        }
        let options = &self.reader.shared.options;
        let properties = options.properties.iter().filter(|(key, _)| !key.starts_with("group."));
        let properties: BTreeMap<_, _> = properties.map(|(key, value)| (key.clone(), value.clone())).collect();
        // librdkafka assigns partitions only to consumers that name a group; this one never joins it.
        let group = options.group.as_deref().unwrap_or("pelton");
        let mut config = consumer_config(&properties, Some(group)).map_err(|reason| crate::options::at_table(&options.table, reason))?;
        if !properties.contains_key("queued.max.messages.kbytes") {
            // librdkafka counts per partition, since each has a queue of its own.
            let ahead = (AHEAD_KB / partitions.max(1)).clamp(AHEAD_KB_MAX / 10, AHEAD_KB_MAX);
            config.set("queued.max.messages.kbytes", ahead.to_string());
        }
        config.set("enable.partition.eof", if options.is_bounded() { "true" } else { "false" });
        let context = Context::new(&format!("table {}", options.table), &properties);
        let consumer: BaseConsumer<Context> = config.create_with_context(context).map_err(|error| config_error(&options.table, &error))?;
        Ok(Arc::clone(self.consumer.insert(Arc::new(consumer))))
    }

    fn add(&mut self, split: SplitId, mut published: Published, partitions: usize) -> Result<()> {
        // What this process has read since its last checkpoint is in its state: it is not read twice.
        if let Some(left) = self.left.remove(&split) {
            published.start = published.start.max(left);
        }
        let next = published.start;
        let mut queue = None;
        if published.end.is_none_or(|end| next < end) {
            let consumer = self.consumer(partitions)?;
            let (topic, partition) = (published.topic.as_ref(), published.partition.0);
            queue = PartitionQueue::new(&consumer, topic, partition, &self.waker);
            let mut list = TopicPartitionList::with_capacity(1);
            let assigned = list.add_partition_offset(topic, partition, Offset::Offset(next)).and_then(|()| consumer.incremental_assign(&list));
            assigned.map_err(|error| unavailable(format!("read topic {topic}, partition {partition}"), &error))?;
        }
        self.splits.insert(split, Split { published, queue, next, committed: next });
        Ok(())
    }

    fn remove(&mut self, split: &SplitId) -> Result<()> {
        let Some(gone) = self.splits.remove(split) else { return Ok(()) };
        if self.is_carried && gone.next > gone.committed {
            // Its records are in the open transaction, and its new owner reads them again: only one of both may count.
            return Err(RuntimeError::Unavailable {
                action: format!("read {split}"),
                reason: "the group gave it to another process in the middle of a checkpoint; the open transaction is dropped, start again from the last checkpoint".to_owned(),
            });
        }
        self.left.insert(split.clone(), gone.next);
        if let (Some(_), Some(consumer)) = (&gone.queue, &self.consumer) {
            let mut list = TopicPartitionList::with_capacity(1);
            list.add_partition(&gone.published.topic, gone.published.partition.0);
            if let Err(error) = consumer.incremental_unassign(&list) {
                tracing::warn!(table = self.table(), "stop reading {split}: {error}");
            }
        }
        Ok(())
    }

    /// Serves librdkafka's own events now and then.
    fn serve(&mut self) {
        if self.served_at.elapsed() < SERVE_EVERY {
            return;
        }
        self.served_at = Instant::now();
        for consumer in self.consumer.as_deref().into_iter().chain(self.committer.as_ref()) {
            while let Some(event) = consumer.poll(Duration::ZERO) {
                match event {
                    // Every partition was split off before it was assigned.
                    Ok(message) => drop(message),
                    Err(error) => consumer.context().note(error),
                }
            }
        }
    }

    /// An error of one partition that librdkafka does not mend by itself.
    fn failed(&self, split: &SplitId, code: RDKafkaErrorCode) -> Result<()> {
        let Some(Split { published, next, .. }) = self.splits.get(split) else { return Ok(()) };
        let (topic, Partition(partition)) = (&published.topic, published.partition);
        match code {
            RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange => Err(RuntimeError::Recovery(format!(
                "table '{}': offset {next} of topic {topic}, partition {partition} is no longer there (deleted by retention, or the topic was made anew): \
                 start anew with --fresh, or set 'properties.auto.offset.reset' to go on from the earliest or latest",
                self.table()
            ))),
            RDKafkaErrorCode::TopicAuthorizationFailed | RDKafkaErrorCode::GroupAuthorizationFailed | RDKafkaErrorCode::ClusterAuthorizationFailed => {
                Err(RuntimeError::Storage { action: format!("read topic {topic}, partition {partition}"), reason: code.to_string() })
            }
            _ => {
                tracing::debug!(table = self.table(), "{split}: {code}");
                Ok(())
            }
        }
    }

    /// Goes on where the table says after an offset that is gone. Whether it could.
    fn jump(&mut self, split: &SplitId) -> Result<bool> {
        let to = match self.reader.shared.options.reset {
            Some(Place::Earliest) => Offset::Beginning,
            Some(_) => Offset::End,
            None => return Ok(false),
        };
        let (Some(found), Some(consumer)) = (self.splits.get(split), &self.consumer) else { return Ok(false) };
        let (topic, partition) = (&found.published.topic, found.published.partition.0);
        tracing::warn!(table = self.table(), offset = found.next, "{split}: the offset is gone, going on from the {to:?} as 'properties.auto.offset.reset' says");
        // After such an error librdkafka has stopped the partition, so it cannot be sought in, only assigned anew.
        let mut list = TopicPartitionList::with_capacity(1);
        let moved = list.add_partition_offset(topic, partition, to).and_then(|()| consumer.incremental_unassign(&list)).and_then(|()| consumer.incremental_assign(&list));
        moved.map_err(|error| unavailable(format!("read topic {topic}, partition {partition}"), &error))?;
        Ok(true)
    }

    fn commit(&mut self, offsets: &TopicPartitionList) -> Result<()> {
        if let Some(member) = &self.reader.shared.member {
            member.commit(offsets);
            return Ok(());
        }
        let options = &self.reader.shared.options;
        let Some(group) = options.group.as_deref() else { return Ok(()) };
        if self.committer.is_none() {
            let config = consumer_config(&options.properties, Some(group)).map_err(|reason| crate::options::at_table(&options.table, reason))?;
            let context = Context::new(&format!("group {group}"), &options.properties);
            self.committer = Some(config.create_with_context(context).map_err(|error: KafkaError| config_error(&options.table, &error))?);
        }
        if let Some(Err(error)) = self.committer.as_ref().map(|committer| committer.commit(offsets, CommitMode::Async)) {
            tracing::debug!(group, "commit offsets: {error}");
        }
        Ok(())
    }
}

impl Source for KafkaSource {
    fn restore(&mut self, positions: &[(SplitId, SplitPosition)]) -> Result<()> {
        self.reader.shared.restore(positions)
    }

    fn changes(&mut self) -> Result<Vec<SplitChange>> {
        self.serve();
        let version = self.reader.shared.version();
        if self.seen_version == Some(version) {
            return Ok(Vec::new());
        }
        let published = self.reader.shared.published(self.worker)?;
        // A bounded table's first set was waited for, so the count may have moved on.
        self.seen_version = Some(version);
        let mut changes = Vec::new();
        let is_gone = |(split, now): &(&SplitId, &Split)| published.get(*split).is_none_or(|published| published.serial != now.published.serial);
        let mut gone: Vec<_> = self.splits.iter().filter(is_gone).map(|(split, _)| split.clone()).collect();
        gone.sort();
        for split in gone {
            self.remove(&split)?;
            changes.push(SplitChange::Revoked(split));
        }
        let partitions = published.len();
        for (split, published) in published {
            if !self.splits.contains_key(&split) {
                self.add(split.clone(), published, partitions)?;
                changes.push(SplitChange::Added(split));
            }
        }
        Ok(changes)
    }

    fn poll(&mut self, split: &SplitId, max_rows: usize, into: &mut Records) -> Result<Polled> {
        let parts = self.parts;
        let Some(found) = self.splits.get_mut(split) else { return Ok(Polled::Pending) };
        into.topic = Arc::clone(&found.published.topic);
        into.partition = found.published.partition;
        let Some(queue) = &mut found.queue else { return Ok(Polled::End) };
        let taken = queue.take(max_rows, BATCH_BYTES, found.published.end, parts, into);
        if let Some(last) = into.offsets.last() {
            found.next = last.resume_after().0;
            if let Some(consumer) = &self.consumer {
                consumer.context().outage.up();
            }
        }
        match taken {
            Taken::End => {
                found.next = found.published.end.unwrap_or(found.next);
                // Records that come with the end are handed out first; the next poll ends the split.
                found.queue = None;
                Ok(if into.is_empty() { Polled::End } else { Polled::Records })
            }
            Taken::Failed(code) => {
                let is_gone = matches!(code, RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange);
                if !(is_gone && self.jump(split)?) {
                    self.failed(split, code)?;
                }
                Ok(if into.is_empty() { Polled::Pending } else { Polled::Records })
            }
            Taken::Some | Taken::Empty => Ok(if into.is_empty() { Polled::Pending } else { Polled::Records }),
        }
    }

    fn wait(&mut self, timeout: Duration) {
        self.waker.wait(timeout);
    }

    fn positions(&mut self) -> Result<Vec<(SplitId, SplitPosition)>> {
        let options = &self.reader.shared.options;
        let group = options.group.as_ref().filter(|_| self.is_carried);
        let position = |split: &Split| KafkaPosition { resume: ResumeOffset(split.next), end: split.published.end.map(ResumeOffset), group: group.cloned() };
        let mut positions: Vec<_> = self.splits.iter().map(|(name, split)| (name.clone(), position(split).encode())).collect();
        positions.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(positions)
    }

    fn committed(&mut self, epoch: Epoch, positions: &[(SplitId, SplitPosition)]) -> Result<()> {
        for (split, position) in positions {
            if let (Some(found), Some(position)) = (self.splits.get_mut(split), KafkaPosition::decode(position)) {
                found.committed = position.resume.0;
            }
        }
        if self.is_carried || self.reader.shared.options.group.is_none() {
            return Ok(());
        }
        let mut list = TopicPartitionList::with_capacity(positions.len());
        for (split, position) in positions {
            // A partition that was taken away meanwhile is no longer ours to commit.
            if let (Some((topic, partition)), Some(position), true) = (partition_of(split), KafkaPosition::decode(position), self.splits.contains_key(split)) {
                let mut element = list.add_partition(topic, partition.0);
                let set = element.set_offset(Offset::Offset(position.resume.0));
                set.map_err(|error| unavailable(format!("commit offset {} of {split} at checkpoint {epoch}", position.resume.0), &error))?;
            }
        }
        if list.count() > 0 { self.commit(&list) } else { Ok(()) }
    }

    fn is_bounded(&self) -> bool {
        self.reader.shared.options.is_bounded()
    }

    fn is_assigned(&self) -> bool {
        self.reader.shared.is_ready()
    }

    fn lag(&self) -> Option<u64> {
        let behind = |split: &Split| split.queue.as_ref()?.behind(&split.published.topic, split.published.partition.0, split.next);
        Some(self.splits.values().filter_map(behind).sum())
    }
}

impl Drop for KafkaSource {
    fn drop(&mut self) {
        // Queues hold the consumer: all go before it closes.
        self.splits.clear();
    }
}
