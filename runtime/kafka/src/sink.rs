//! A table's sink on one worker: each record's topic and partition, and when it may go out.
//!
//! At least once: records go to the producer at once, `prepare` waits until all have arrived. Exactly once: records go
//! into the transaction of their epoch; those written after `prepare` wait here until `commit` has begun the next
//! transaction, so that they never become visible with the epoch before. What waits is bounded by what the worker
//! reads during one commit.

use std::{
    collections::VecDeque,
    sync::Arc,
};

use arrow::array::RecordBatch;
use pelton_core::{
    error::{Result, RuntimeError},
    position::{Epoch, OperatorId, Partition},
    records::OutputRecords,
    sink::{Prepared, Sink},
};

use crate::{
    options::{Partitioner, WriteOptions},
    producer::{KnownTopics, Partitions, Producer},
    transactions::Transactions,
};

/// How records of a sink go out.
pub(crate) enum Way {
    Plain { producer: Arc<Producer>, waits: bool },
    /// In transactions.
    Epochs(Arc<Transactions>),
}

/// See the module.
pub(crate) struct KafkaSink {
    // Fixed at start.
    worker: usize,
    topic: Option<Arc<str>>,
    partitioner: Partitioner,
    way: Way,
    // Changing.
    topics: KnownTopics,
    /// The next partition of `round-robin`.
    turn: usize,
    /// Number of the transaction that what is written now belongs to.
    transaction: u64,
    /// Written for a transaction that has not begun yet, in order, with topic and partition of each record.
    waiting: VecDeque<Batch>,
    // Buffers.
    routes: Vec<Option<Route>>,
}

type Route = (Arc<str>, Option<i32>);

struct Batch {
    records: OutputRecords,
    routes: Vec<Option<Route>>,
}

impl KafkaSink {
    pub(crate) fn new(options: &WriteOptions, way: Way, worker: usize) -> Self {
        let transaction = match &way {
            Way::Plain { .. } => 0,
            // The first may not have begun yet.
            Way::Epochs(transactions) => transactions.current().max(1),
        };
        Self {
            worker,
            topic: options.topic.as_deref().map(Into::into),
            partitioner: options.partitioner,
            way,
            topics: KnownTopics::default(),
            turn: worker,
            transaction,
            waiting: VecDeque::new(),
            routes: Vec::new(),
        }
    }

    fn producer(&self) -> Arc<Producer> {
        match &self.way {
            Way::Plain { producer, .. } => Arc::clone(producer),
            Way::Epochs(transactions) => Arc::clone(&transactions.producer),
        }
    }

    /// Where each record goes; those that cannot go anywhere are in `refused`.
    fn route(&mut self, producer: &Producer, records: &OutputRecords, refused: &mut Vec<(u32, String)>) {
        self.routes.clear();
        self.turn = self.turn.wrapping_add(1);
        for row in 0..records.len() {
            let route = match self.route_one(producer, records, row) {
                Ok(route) => Some(route),
                Err(reason) => {
                    refused.push((row as u32, reason));
                    None
                }
            };
            self.routes.push(route);
        }
    }

    fn route_one(&mut self, producer: &Producer, records: &OutputRecords, row: usize) -> Result<Route, String> {
        let own = records.topics.get(row).and_then(Option::as_ref);
        let topic = own.or(self.topic.as_ref()).ok_or("the record names no topic, and its table has none")?;
        let topic = Arc::clone(topic);
        let has_key = !records.keys.is_empty() && records.keys.get(row).is_some();
        let given = records.partitions.get(row).copied().flatten();
        let by_number = match self.partitioner {
            Partitioner::Fixed => Some(self.worker),
            Partitioner::RoundRobin if !has_key => Some(self.turn),
            Partitioner::RoundRobin | Partitioner::Default => None,
        };
        let count = match self.topics.partitions(producer, &topic, given.is_some() || by_number.is_some()) {
            Partitions::Count(count) => Some(count),
            Partitions::Unknown => None,
            Partitions::None(reason) => return Err(reason),
        };
        if let Some(reason) = producer.too_large(records, row) {
            return Err(reason);
        }
        let partition = match (given, count) {
            (Some(Partition(partition)), Some(count)) if !(0..count).contains(&partition) => {
                return Err(format!("topic {topic} has no partition {partition}: it has {count}"));
            }
            (Some(Partition(partition)), _) => Some(partition),
            (None, Some(count)) => by_number.and_then(|number| i32::try_from(number % usize::try_from(count).unwrap_or(1).max(1)).ok()),
            (None, None) => None,
        };
        Ok((topic, partition))
    }

    /// Hands over what waits for a transaction that has begun.
    fn release(&mut self) -> Result<()> {
        let Way::Epochs(transactions) = &self.way else { return Ok(()) };
        if self.waiting.is_empty() || transactions.current() != self.transaction {
            return Ok(());
        }
        let producer = Arc::clone(&transactions.producer);
        while let Some(batch) = self.waiting.pop_front() {
            send(&producer, &batch.records, &batch.routes)?;
        }
        Ok(())
    }
}

fn send(producer: &Producer, records: &OutputRecords, routes: &[Option<Route>]) -> Result<()> {
    for (row, route) in routes.iter().enumerate() {
        if let Some((topic, partition)) = route {
            producer.send(records, row, topic, *partition)?;
        }
    }
    Ok(())
}

impl Sink for KafkaSink {
    fn takes_records(&self) -> bool {
        true
    }

    fn recover(&mut self, _epoch: Epoch, _prepared: &[Prepared]) -> Result<()> {
        // The transactions' coordinator has settled everything before.
        Ok(())
    }

    fn write_batch(&mut self, _batch: &RecordBatch) -> Result<()> {
        Err(RuntimeError::Bug { operator: OperatorId(0), what: "a kafka sink was given columns".to_owned() })
    }

    fn write_records(&mut self, records: &OutputRecords) -> Result<Vec<(u32, String)>> {
        let producer = self.producer();
        let mut refused = Vec::new();
        self.route(&producer, records, &mut refused);
        self.release()?;
        match &self.way {
            Way::Epochs(transactions) if transactions.current() != self.transaction => {
                self.waiting.push_back(Batch { records: records.clone(), routes: self.routes.clone() });
            }
            _ => send(&producer, records, &self.routes)?,
        }
        Ok(refused)
    }

    fn poll(&mut self) -> Result<()> {
        self.release()
    }

    fn prepare(&mut self, _epoch: Epoch) -> Result<Prepared> {
        match &self.way {
            Way::Plain { producer, waits: true } => producer.drain()?,
            Way::Plain { producer, waits: false } => producer.push(),
            Way::Epochs(transactions) => {
                if transactions.current() != self.transaction || !self.waiting.is_empty() {
                    self.release()?;
                }
                let Way::Epochs(transactions) = &self.way else { return Ok(Prepared(Vec::new())) };
                if transactions.current() != self.transaction {
                    return Err(RuntimeError::Bug { operator: OperatorId(0), what: "a kafka sink was prepared twice before its commit".to_owned() });
                }
                transactions.producer.check()?;
                // The commit waits for what is under way; it can travel while the state is written.
                transactions.producer.push();
                self.transaction += 1;
            }
        }
        Ok(Prepared(Vec::new()))
    }

    fn commit(&mut self, _epoch: Epoch) -> Result<()> {
        self.release()
    }

    fn close(&mut self) -> Result<()> {
        self.release()?;
        match &self.way {
            Way::Plain { producer, waits: true } => producer.drain(),
            _ => Ok(()),
        }
    }
}

