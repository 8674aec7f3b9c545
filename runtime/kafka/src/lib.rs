//! Kafka: the one crate that names rdkafka. Sources, sinks and transactions over librdkafka.
//!
//! [`Kafka`] makes them; it keeps what the tables of a job share: members of groups, producers, the transaction. What a
//! job shares is found by its run, so that one `Kafka` can serve several jobs. Everything it keeps is weak: it goes
//! away with the last source or sink that uses it.
//!
//! ```text
//! options.rs       a table's options as types
//! client.rs        librdkafka's settings, logs and outages
//! lookup.rs        questions to the brokers
//! group.rs         membership of a consumer group: which partitions are ours
//! reader.rs        the partitions of a table: who reads which, from where to where
//! queue.rs         a partition's records in batches (all the `unsafe`)
//! source.rs        a table's source on one worker
//! producer.rs      the producer of a process
//! sink.rs          a table's sink on one worker
//! transactions.rs  exactly once
//! position.rs      names of splits, positions in checkpoints
//! ```

mod client;
mod group;
mod lookup;
mod options;
mod position;
mod producer;
mod queue;
mod reader;
mod sink;
mod source;
mod transactions;
mod wake;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use pelton_core::{
    error::Result,
    graph::TableSpec,
    records::Records,
    sink::{Sink, TransactionCoordinator},
    source::{Polled, RecordParts, Source, SplitChange},
};

use client::{Context, config_error, producer_config};
use group::GroupMember;
use lookup::Lookup;
use options::{Guarantee, ReadOptions, WriteOptions, at_table, servers};
use producer::Producer;
use reader::Reader;
use sink::{KafkaSink, Way};
use source::KafkaSource;
use transactions::{CarriedGroup, Coordinator, Transactions};

pub use options::CONNECTOR;
pub use position::{KafkaPosition, partition_of, split_id};

/// Where a source or sink works.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Identity of the job's output: the same when a job goes on from its state, new for each fresh start.
    pub run: &'a str,
    /// This worker, from 0.
    pub worker: usize,
    /// How many workers there are.
    pub workers: usize,
    /// Whether the job must read every partition itself (keyed state): a group that gives it only a part is an error.
    pub needs_all: bool,
}

/// Makes sources, sinks and transactions, and keeps what they share.
#[derive(Default)]
pub struct Kafka {
    shared: Mutex<SharedParts>,
}

#[derive(Default)]
struct SharedParts {
    /// By run, brokers and group.
    members: HashMap<(String, String, String), Weak<GroupMember>>,
    /// By run and table; several when several nodes of the graph read one table.
    readers: HashMap<(String, String), Vec<Weak<Reader>>>,
    /// By run and properties.
    producers: HashMap<(String, BTreeMap<String, String>), Weak<Producer>>,
    /// By run, with the brokers.
    transactions: HashMap<String, (String, Weak<Transactions>)>,
}

impl Kafka {
    /// Whether a table ends by itself when it is read.
    ///
    /// # Errors
    /// [`pelton_core::error::RuntimeError::Script`] for options that cannot be.
    pub fn is_bounded(&self, table: &TableSpec) -> Result<bool> {
        Ok(ReadOptions::new(table)?.is_bounded())
    }

    /// A table's options as they are when its first records are looked at before the job runs: from the start, to the
    /// present end, without joining the job's group.
    pub fn sampling_options(options: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        options::sampling(options)
    }

    /// The source of a table on one worker. Called after [`Kafka::transactions`]. If several nodes of a graph read one
    /// table, each worker asks for them in the same order.
    ///
    /// # Errors
    /// [`pelton_core::error::RuntimeError::Script`] for options that cannot be.
    pub fn source(&self, table: &TableSpec, parts: RecordParts, place: Place<'_>) -> Result<Box<dyn Source>> {
        let options = ReadOptions::new(table)?;
        let mut shared = self.shared.lock();
        let is_carried = shared.carries(place.run, &options);
        let key = (place.run.to_owned(), table.name.clone());
        let readers = shared.readers.entry(key.clone()).or_default();
        readers.retain(|reader| reader.strong_count() > 0);
        let known = readers.iter().filter_map(Weak::upgrade).find(|reader| reader.take(place.worker));
        let reader = match known {
            Some(reader) => reader,
            None => {
                let member = match options.shares_group() {
                    true => Some(shared.member(&options, place.run)?),
                    false => None,
                };
                let reader = Arc::new(Reader::new(options, member, place.workers, place.needs_all)?);
                reader.take(place.worker);
                shared.readers.entry(key).or_default().push(Arc::downgrade(&reader));
                reader
            }
        };
        Ok(Box::new(KafkaSource::new(reader, place.worker, parts, is_carried)))
    }

    /// The sink of a table on one worker.
    ///
    /// # Errors
    /// [`pelton_core::error::RuntimeError::Script`] for options that cannot be.
    pub fn sink(&self, table: &TableSpec, place: Place<'_>) -> Result<Box<dyn Sink>> {
        let options = WriteOptions::new(table)?;
        let mut shared = self.shared.lock();
        let way = match &options.guarantee {
            Guarantee::ExactlyOnce(_) => {
                let open = shared.transactions.get(place.run).and_then(|(_, transactions)| transactions.upgrade());
                Way::Epochs(open.ok_or_else(|| at_table(&table.name, "exactly-once works only where the job's transactions are committed"))?)
            }
            guarantee => Way::Plain { producer: shared.producer(table, &options, place.run)?, waits: *guarantee != Guarantee::None },
        };
        Ok(Box::new(KafkaSink::new(&options, way, place.worker)))
    }

    /// What commits the transactions of a job that reads and writes these tables; `None` if no sink is exactly-once.
    /// Tables of other connectors are passed over. Called before any source or sink is made.
    ///
    /// # Errors
    /// [`pelton_core::error::RuntimeError::Script`] if exactly-once sinks disagree about brokers or transactional id.
    pub fn transactions(&self, sources: &[Arc<TableSpec>], sinks: &[Arc<TableSpec>], run: &str) -> Result<Option<Box<dyn TransactionCoordinator>>> {
        let is_kafka = |table: &&Arc<TableSpec>| table.options.get("connector").map(String::as_str) == Some(CONNECTOR.name);
        let mut first: Option<(&TableSpec, String, WriteOptions)> = None;
        let mut marker_topics = Vec::new();
        for table in sinks.iter().filter(is_kafka) {
            let options = WriteOptions::new(table)?;
            let Guarantee::ExactlyOnce(id) = options.guarantee.clone() else { continue };
            marker_topics.extend(options.topic.clone());
            match &first {
                None => first = Some((table, id, options)),
                Some((_, known, _)) if *known != id => {
                    return Err(at_table(&table.name, format!("'sink.transactional-id-prefix' is '{id}', another table's is '{known}': one job commits one transaction, so give all its exactly-once tables the same")));
                }
                Some((other, _, known)) if servers(&known.properties) != servers(&options.properties) => {
                    return Err(at_table(&table.name, format!("it is on other brokers than table '{}': one transaction cannot span both, so make one of them at-least-once", other.name)));
                }
                Some(_) => {}
            }
        }
        let Some((table, id, options)) = first else { return Ok(None) };
        let what = format!("transaction {id}");
        let config = producer_config(&options.properties, Some(&id)).map_err(|reason| at_table(&table.name, reason))?;
        let producer = Producer::new(what.clone(), &config, Context::new(&what, &options.properties)).map_err(|error| config_error(&table.name, &error))?;
        let transactions = Arc::new(Transactions::new(Arc::new(producer)));
        let mut shared = self.shared.lock();
        shared.transactions.insert(run.to_owned(), (servers(&options.properties).to_owned(), Arc::downgrade(&transactions)));
        let mut groups: Vec<CarriedGroup> = Vec::new();
        for table in sources.iter().filter(is_kafka) {
            let read = ReadOptions::new(table)?;
            let (true, Some(group)) = (shared.carries(run, &read), read.group.clone()) else { continue };
            if let Some(known) = groups.iter_mut().find(|known| known.group == group) {
                known.topics.push(read.topics);
                continue;
            }
            let lookup = Lookup::new(&format!("group {group}"), &read.properties, Some(&group)).map_err(|error| config_error(&table.name, &error))?;
            let member = if read.shares_group() { Some(shared.member(&read, run)?) } else { None };
            groups.push(CarriedGroup { group, topics: vec![read.topics], member, lookup });
        }
        let group = format!("pelton.{id}");
        let lookup = Lookup::new(&what, &options.properties, Some(&group)).map_err(|error| config_error(&table.name, &error))?;
        let marker = CarriedGroup { group, topics: Vec::new(), member: None, lookup };
        Ok(Some(Box::new(Coordinator { shared: transactions, run: run.to_owned(), groups, marker, marker_topics })))
    }

    /// The first records of a table as they were written, at most `count`, for looking at before a job runs.
    ///
    /// # Errors
    /// [`pelton_core::error::RuntimeError::Script`] for options that cannot be or topics that are not there.
    pub fn samples(&self, table: &TableSpec, count: usize) -> Result<Vec<Vec<u8>>> {
        let table = TableSpec { options: options::sampling(&table.options), ..table.clone() };
        let mut source = self.source(&table, RecordParts::default(), Place { run: "samples", worker: 0, workers: 1, needs_all: false })?;
        source.restore(&[])?;
        let mut found = Vec::new();
        let mut records = Records::default();
        let mut splits: Vec<_> = source.changes()?;
        while !splits.is_empty() && found.len() < count {
            let before = found.len();
            let mut ended = Vec::new();
            for change in &splits {
                let SplitChange::Added(split) = change else { continue };
                records.clear();
                let polled = source.poll(split, count - found.len(), &mut records)?;
                found.extend(records.values.iter().flatten().map(<[u8]>::to_vec));
                if polled == Polled::End {
                    ended.push(change.clone());
                }
                if found.len() >= count {
                    break;
                }
            }
            splits.retain(|split| !ended.contains(split));
            if found.len() == before && ended.is_empty() {
                source.wait(std::time::Duration::from_millis(50));
            }
        }
        Ok(found)
    }
}

impl SharedParts {
    /// Whether the job's transaction commits this table's offsets.
    fn carries(&self, run: &str, options: &ReadOptions) -> bool {
        let is_open = |(brokers, transactions): &(String, Weak<Transactions>)| transactions.strong_count() > 0 && brokers == servers(&options.properties);
        options.group.is_some() && self.transactions.get(run).is_some_and(is_open)
    }

    fn member(&mut self, options: &ReadOptions, run: &str) -> Result<Arc<GroupMember>> {
        let group = options.group.as_deref().unwrap_or_default();
        let key = (run.to_owned(), servers(&options.properties).to_owned(), group.to_owned());
        if let Some(member) = self.members.get(&key).and_then(Weak::upgrade) {
            return Ok(member);
        }
        let member = GroupMember::new(group, &options.properties, run, options.discovery);
        let member = Arc::new(member.map_err(|error| config_error(&options.table, &error))?);
        self.members.insert(key, Arc::downgrade(&member));
        Ok(member)
    }

    fn producer(&mut self, table: &TableSpec, options: &WriteOptions, run: &str) -> Result<Arc<Producer>> {
        let key = (run.to_owned(), options.properties.clone());
        if let Some(producer) = self.producers.get(&key).and_then(Weak::upgrade) {
            return Ok(producer);
        }
        let config = producer_config(&options.properties, None).map_err(|reason| at_table(&table.name, reason))?;
        let what = format!("kafka at {}", servers(&options.properties));
        let producer = Producer::new(what, &config, Context::new(&format!("table {}", table.name), &options.properties));
        let producer = Arc::new(producer.map_err(|error| config_error(&table.name, &error))?);
        self.producers.insert(key, Arc::downgrade(&producer));
        Ok(producer)
    }
}
