//! The partitions of one table, shared by its workers: which there are, who reads which, and from where to where.
//!
//! A thread of its own asks the brokers, as often and as long as it takes: sources never wait for an answer. It
//! publishes a partition only once its start (and end) is known as a number, so that a checkpoint before the first
//! record already holds it.
//!
//! Where reading starts, first that applies: the checkpoint (for a job without keyed state that shares its group: or the
//! group's offset if that is further, since another member has been there) · for a partition that came from another member of the
//! group, the group's offset · the table's start mode · for a partition that did not exist at the start, its beginning.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use parking_lot::Mutex;
use pelton_core::{
    error::{Result, RuntimeError},
    position::{Partition, SplitId},
    source::SplitPosition,
};
use rdkafka::{consumer::Consumer as _, error::KafkaResult};

use crate::{
    client::config_error,
    group::GroupMember,
    lookup::{Lookup, TopicPartition},
    options::{Place, ReadOptions, at_table, servers},
    position::{KafkaPosition, partition_of, split_id},
    wake::Waker,
};

/// Time between two tries of a request that failed.
const RETRY: Duration = Duration::from_millis(500);
/// Tries until a bounded table's missing topic is an error: a topic that was just made may not be known yet.
const MISSING_TRIES: u32 = 6;

/// A partition to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Published {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: Partition,
    pub(crate) worker: usize,
    pub(crate) start: i64,
    /// The first offset not to be read.
    pub(crate) end: Option<i64>,
    /// Differs when a partition went away and came back.
    pub(crate) serial: u64,
}

#[derive(Default)]
struct State {
    /// Positions of the checkpoint, once told.
    restored: Option<HashMap<SplitId, KafkaPosition>>,
    published: BTreeMap<SplitId, Published>,
    /// Whether the first set is published.
    is_ready: bool,
    fault: Option<RuntimeError>,
}

/// What the thread and the sources share.
pub(crate) struct Shared {
    pub(crate) options: ReadOptions,
    workers: usize,
    state: Mutex<State>,
    /// Counts changes of `published`; looked at without the lock.
    version: AtomicU64,
    is_stopped: AtomicBool,
    /// Wakes the thread.
    news: Arc<Waker>,
    /// Wake the workers' sources.
    pub(crate) wakers: Vec<Arc<Waker>>,
    /// Wakes who waits for the first set.
    ready: parking_lot::Condvar,
    pub(crate) member: Option<Arc<GroupMember>>,
    /// Whether a part of the partitions is not enough (keyed state).
    needs_all: bool,
}

/// See the module.
pub(crate) struct Reader {
    pub(crate) shared: Arc<Shared>,
    /// Workers whose source was made.
    taken: Mutex<HashSet<usize>>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    pub(crate) fn new(options: ReadOptions, member: Option<Arc<GroupMember>>, workers: usize, needs_all: bool) -> Result<Self> {
        let lookup = Lookup::new(&format!("table {}", options.table), &options.properties, options.group.as_deref());
        let lookup = lookup.map_err(|error| config_error(&options.table, &error))?;
        let news = Arc::new(Waker::default());
        if let Some(member) = &member {
            member.listen(&news);
        }
        let shared = Arc::new(Shared {
            options,
            workers,
            state: Mutex::default(),
            version: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
            news,
            wakers: (0..workers).map(|_| Arc::new(Waker::default())).collect(),
            ready: parking_lot::Condvar::new(),
            member,
            needs_all,
        });
        let told = Arc::clone(&shared);
        let spawned = thread::Builder::new().name("kafka-splits".to_owned()).spawn(move || {
            let mut search = Search { shared: &told, lookup, first: None, workers: HashMap::new(), seen: HashSet::new(), serial: 0 };
            if let Err(error) = search.run() {
                told.fail(error);
            }
        });
        let thread = spawned.map_err(|error| RuntimeError::Unavailable { action: "start a thread".to_owned(), reason: error.to_string() })?;
        Ok(Self { shared, taken: Mutex::default(), thread: Some(thread) })
    }

    /// Whether this worker's source can still be made of this reader: each gets one.
    pub(crate) fn take(&self, worker: usize) -> bool {
        self.taken.lock().insert(worker)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Release);
        self.shared.news.wake();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(table = %self.shared.options.table, "the thread that looks for partitions panicked");
        }
    }
}

impl Shared {
    /// The checkpoint's positions; every worker tells the same.
    pub(crate) fn restore(&self, positions: &[(SplitId, SplitPosition)]) -> Result<()> {
        let mut restored = HashMap::new();
        for (split, position) in positions {
            let read = KafkaPosition::decode(position).filter(|_| partition_of(split).is_some());
            let read = read.ok_or_else(|| RuntimeError::Recovery(format!("the stored position of {split} in table '{}' is not one of Kafka: start anew with --fresh", self.options.table)))?;
            restored.insert(split.clone(), read);
        }
        self.state.lock().restored.get_or_insert(restored);
        self.news.wake();
        Ok(())
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether partitions were published for the first time.
    pub(crate) fn is_ready(&self) -> bool {
        self.state.lock().is_ready
    }

    /// What `worker` reads now. The error that stopped the search goes to the first who asks.
    pub(crate) fn published(&self, worker: usize) -> Result<BTreeMap<SplitId, Published>> {
        let mut state = self.state.lock();
        // An unbounded table's partitions come when they come; a bounded one without any would be at its end.
        while self.options.is_bounded() && !state.is_ready && state.fault.is_none() && !self.is_stopped.load(Ordering::Acquire) {
            self.ready.wait_for(&mut state, Duration::from_secs(1));
        }
        if let Some(fault) = state.fault.take() {
            state.fault = Some(RuntimeError::Unavailable { action: format!("read table '{}'", self.options.table), reason: "it stopped before".to_owned() });
            return Err(fault);
        }
        Ok(state.published.iter().filter(|(_, published)| published.worker == worker).map(|(split, published)| (split.clone(), published.clone())).collect())
    }

    fn fail(&self, error: RuntimeError) {
        self.state.lock().fault = Some(error);
        self.tell();
    }

    fn tell(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
        self.ready.notify_all();
        self.wakers.iter().for_each(|waker| waker.wake());
    }
}

/// Where reading a partition starts and, if it does, ends.
type Range = (i64, Option<i64>);

/// The thread's own state.
struct Search<'a> {
    shared: &'a Shared,
    lookup: Lookup,
    /// All partitions there were when the first were published.
    first: Option<BTreeSet<TopicPartition>>,
    /// Who reads a partition, now or when it was here last.
    workers: HashMap<TopicPartition, usize>,
    /// Partitions that were here before: their checkpoint no longer counts.
    seen: HashSet<TopicPartition>,
    serial: u64,
}

impl Search<'_> {
    fn is_stopped(&self) -> bool {
        self.shared.is_stopped.load(Ordering::Acquire)
    }

    fn run(&mut self) -> Result<()> {
        while self.shared.state.lock().restored.is_none() && !self.is_stopped() {
            self.shared.news.wait(RETRY);
        }
        let options = &self.shared.options;
        let mut missing_tries = 0;
        while !self.is_stopped() {
            let Some((all, missing)) = self.retried("look for topics of", |lookup| lookup.partitions(&options.topics))? else { return Ok(()) };
            if !missing.is_empty() {
                missing_tries += 1;
                if options.is_bounded() && missing_tries >= MISSING_TRIES {
                    return Err(at_table(&options.table, format!("there is no topic {} at {}", missing.join(", "), servers(&options.properties))));
                }
                if missing_tries == 1 {
                    tracing::warn!(table = %options.table, topics = missing.join(", "), "topic is not there yet, waiting");
                }
                if options.is_bounded() {
                    self.shared.news.wait(RETRY);
                    continue;
                }
            }
            let all: BTreeSet<_> = all.into_iter().collect();
            if let Some(own) = self.own(&all)? {
                self.follow(&own, &all)?;
            }
            if options.is_bounded() && self.first.is_some() {
                return Ok(());
            }
            let pause = match options.discovery {
                _ if !missing.is_empty() => RETRY,
                Some(interval) => interval,
                None => Duration::from_secs(3_600),
            };
            self.shared.news.wait(pause);
        }
        Ok(())
    }

    /// Asks until there is an answer. `None` if reading stops meanwhile.
    fn retried<T>(&self, action: &str, ask: impl Fn(&Lookup) -> KafkaResult<T>) -> Result<Option<T>> {
        while !self.is_stopped() {
            match ask(&self.lookup) {
                Ok(answer) => return Ok(Some(answer)),
                Err(error) => {
                    tracing::debug!(table = %self.shared.options.table, "{action}: {error}");
                    self.lookup.consumer.context().outage.down(&error.to_string());
                    self.shared.news.wait(RETRY);
                }
            }
        }
        Ok(None)
    }

    /// The partitions that this process reads, `None` if that is not known yet.
    fn own(&self, all: &BTreeSet<TopicPartition>) -> Result<Option<BTreeSet<TopicPartition>>> {
        let Some(member) = &self.shared.member else { return Ok(Some(all.clone())) };
        let wanted = member.want(all.iter().map(|(topic, _)| topic.clone()));
        wanted.map_err(|error| at_table(&self.shared.options.table, error))?;
        let Some(held) = member.held() else { return Ok(None) };
        let own: BTreeSet<_> = held.intersection(all).cloned().collect();
        if self.shared.needs_all && own.len() < all.len() && (self.first.is_none() || !own.is_empty()) {
            return Err(at_table(
                &self.shared.options.table,
                format!(
                    "group '{}' gave this process {} of {} partitions, but a job with keyed state must read all of them: stop the group's other members, or give this job a group of its own",
                    member.group,
                    own.len(),
                    all.len()
                ),
            ));
        }
        Ok(Some(own))
    }

    /// Publishes what has changed.
    fn follow(&mut self, own: &BTreeSet<TopicPartition>, all: &BTreeSet<TopicPartition>) -> Result<()> {
        let name = |partition: &TopicPartition| split_id(&partition.0, Partition(partition.1));
        let (new, gone): (Vec<_>, Vec<_>) = {
            let state = self.shared.state.lock();
            let is_own = |published: &Published| own.contains(&(published.topic.to_string(), published.partition.0));
            (
                own.iter().filter(|partition| !state.published.contains_key(&name(partition))).cloned().collect(),
                state.published.iter().filter(|(_, published)| !is_own(published)).map(|(split, _)| split.clone()).collect(),
            )
        };
        if self.first.is_some() && new.is_empty() && gone.is_empty() {
            return Ok(());
        }
        // What went is taken back before anybody is asked: its new owner has begun.
        if !gone.is_empty() {
            self.shared.state.lock().published.retain(|split, _| !gone.contains(split));
            self.shared.tell();
        }
        let Some(places) = self.places(&new)? else { return Ok(()) };
        let mut state = self.shared.state.lock();
        for (partition, (start, end)) in new.iter().zip(places) {
            let worker = self.deal(partition, &state.published);
            self.serial += 1;
            self.seen.insert(partition.clone());
            state.published.insert(
                name(partition),
                Published { topic: partition.0.as_str().into(), partition: Partition(partition.1), worker, start, end, serial: self.serial },
            );
        }
        state.is_ready = true;
        drop(state);
        self.first.get_or_insert_with(|| all.clone());
        self.shared.tell();
        Ok(())
    }

    /// The worker that read it last, else the one that reads fewest.
    fn deal(&mut self, partition: &TopicPartition, published: &BTreeMap<SplitId, Published>) -> usize {
        *self.workers.entry(partition.clone()).or_insert_with(|| {
            let load = |worker: &usize| published.values().filter(|published| published.worker == *worker).count();
            (0..self.shared.workers).min_by_key(load).unwrap_or(0)
        })
    }

    /// Start and end of each new partition. `None` if reading stops meanwhile.
    fn places(&self, new: &[TopicPartition]) -> Result<Option<Vec<Range>>> {
        let options = &self.shared.options;
        let restored: HashMap<_, _> = {
            let state = self.shared.state.lock();
            let restored = state.restored.iter().flatten();
            restored.filter_map(|(split, position)| partition_of(split).map(|(topic, partition)| ((topic.to_owned(), partition.0), position.clone()))).collect()
        };
        let is_restored = |partition: &TopicPartition| restored.contains_key(partition) && !self.seen.contains(partition);
        let mut starts: HashMap<TopicPartition, Option<i64>> = HashMap::new();
        for partition in new.iter().filter(|partition| is_restored(partition)) {
            starts.insert(partition.clone(), Some(restored[partition].resume.0));
        }
        self.skip_what_others_did(&mut starts)?;
        let mut open: Vec<_> = new.iter().filter(|partition| !starts.contains_key(*partition)).cloned().collect();
        let mut ask = |open: &mut Vec<TopicPartition>, of: &dyn Fn(&TopicPartition) -> bool, place: &Place| -> Result<bool> {
            let asked: Vec<_> = open.iter().filter(|partition| of(partition)).cloned().collect();
            if asked.is_empty() {
                return Ok(true);
            }
            let Some(found) = self.retried("find offsets of", |lookup| lookup.offsets(&asked, place))? else { return Ok(false) };
            starts.extend(found.into_iter().filter(|(_, offset)| offset.is_some()));
            open.retain(|partition| !starts.contains_key(partition));
            Ok(true)
        };
        let comes_from_others = self.comes_from_others(&open)?;
        let is_new = |partition: &TopicPartition| self.first.as_ref().is_some_and(|first| !first.contains(partition));
        let everything = |_: &TopicPartition| true;
        let known = (!comes_from_others || ask(&mut open, &everything, &Place::Group)?)
            && ask(&mut open, &is_new, &Place::Earliest)?
            && ask(&mut open, &everything, &options.start)?
            && options.reset.as_ref().map_or(Ok(true), |reset| ask(&mut open, &everything, reset))?;
        if !known {
            return Ok(None);
        }
        if let Some((topic, partition)) = open.first() {
            return Err(at_table(
                &options.table,
                format!(
                    "group '{}' has no offset for topic {topic}, partition {partition}: set 'properties.auto.offset.reset' to earliest or latest, or another 'scan.startup.mode'",
                    options.group.as_deref().unwrap_or_default()
                ),
            ));
        }
        let mut ends: HashMap<TopicPartition, Option<i64>> = HashMap::new();
        if let Some(end) = &options.end {
            let asked: Vec<_> = new.iter().filter(|partition| !is_restored(partition)).cloned().collect();
            if !asked.is_empty() {
                let Some(found) = self.retried("find offsets of", |lookup| lookup.offsets(&asked, end))? else { return Ok(None) };
                // A group that has committed nothing: there is nothing before its offset.
                ends.extend(found.into_iter().map(|(partition, offset)| (partition, Some(offset.unwrap_or(0)))));
            }
            ends.extend(new.iter().filter(|partition| is_restored(partition)).map(|partition| (partition.clone(), restored[partition].end.map(|end| end.0))));
        }
        Ok(Some(new.iter().map(|partition| (starts[partition].unwrap_or(0), ends.get(partition).copied().flatten())).collect()))
    }

    /// While this process was away another member of the group may have gone on behind its checkpoint. Without keyed
    /// state that is nothing to be made up for; with it, the checkpoint's state wants its own records.
    fn skip_what_others_did(&self, starts: &mut HashMap<TopicPartition, Option<i64>>) -> Result<()> {
        if self.shared.member.is_none() || self.shared.needs_all || starts.is_empty() {
            return Ok(());
        }
        let partitions: Vec<_> = starts.keys().cloned().collect();
        let committed = self.retried("find offsets of", |lookup| lookup.committed(&partitions))?.unwrap_or_default();
        for (partition, found) in committed {
            let start = starts.entry(partition).or_default();
            *start = (*start).max(found.map(|found| found.offset));
        }
        Ok(())
    }

    /// Whether partitions without a checkpoint may have been read by another process before: then the group's offset
    /// is where it stopped. A process that is alone in its group at its first start begins where the table says.
    fn comes_from_others(&self, open: &[TopicPartition]) -> Result<bool> {
        let Some(member) = self.shared.member.as_ref().filter(|_| !open.is_empty()) else { return Ok(false) };
        if self.first.is_some() {
            return Ok(true);
        }
        let others = self.retried("describe the group of", |lookup| lookup.has_other_members(&member.group, &member.instance))?;
        Ok(others.unwrap_or(false))
    }
}
