//! Connectors that follow a script.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::DataType,
};
use pelton_core::{
    error::{Result, RuntimeError},
    graph::TableSpec,
    options::ConnectorInfo,
    position::{Epoch, Offset, SplitId},
    records::{OutputRecords, Records},
    sink::{Prepared, Sink, TransactionCoordinator},
    source::{Polled, RecordParts, Source, SplitChange, SplitPosition},
};
use pelton_engine::{Connectors, Place};

/// What a split does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// Hands out a record.
    Record(String),
    /// Has nothing, this many times.
    Nothing(u32),
}

/// Tables in memory. Cheap to clone: clones share the tables.
#[derive(Clone, Default)]
pub struct Scripted {
    world: Arc<Mutex<World>>,
}

#[derive(Default)]
struct World {
    /// By table and split.
    splits: HashMap<String, BTreeMap<String, Vec<Item>>>,
    unbounded: Vec<String>,
    transactional: bool,
    /// Last epoch whose transaction was committed.
    committed: Option<Epoch>,
    /// Prepared rows by table, epoch and worker.
    hidden: BTreeMap<(String, u64, usize), Vec<String>>,
    visible: BTreeMap<(String, u64, usize), Vec<String>>,
}

impl Scripted {
    /// Gives a table a split; splits are dealt out to workers in name order.
    #[must_use]
    pub fn split(self, table: &str, split: &str, items: Vec<Item>) -> Self {
        self.lock().splits.entry(table.to_owned()).or_default().insert(split.to_owned(), items);
        self
    }

    /// Lets a table never end.
    #[must_use]
    pub fn unbounded(self, table: &str) -> Self {
        self.lock().unbounded.push(table.to_owned());
        self
    }

    /// Commits all sinks' rows by transactions.
    #[must_use]
    pub fn transactional(self) -> Self {
        self.lock().transactional = true;
        self
    }

    /// Rows that a table's readers see, sorted.
    pub fn rows(&self, table: &str) -> Vec<String> {
        let mut rows: Vec<_> =
            self.lock().visible.iter().filter(|((of, _, _), _)| of == table).flat_map(|(_, rows)| rows.clone()).collect();
        rows.sort();
        rows
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    /// Shows what was prepared for an epoch.
    fn publish(&mut self, matches: impl Fn(&(String, u64, usize)) -> bool) {
        let keys: Vec<_> = self.hidden.keys().filter(|key| matches(key)).cloned().collect();
        for key in keys {
            let rows = self.hidden.remove(&key).unwrap_or_default();
            assert!(self.visible.insert(key.clone(), rows).is_none(), "{key:?} is published twice");
        }
    }
}

impl Connectors for Scripted {
    fn infos(&self) -> Vec<ConnectorInfo> {
        Vec::new()
    }

    fn is_bounded(&self, table: &TableSpec) -> Result<bool> {
        Ok(!self.lock().unbounded.contains(&table.name))
    }

    fn source(&self, table: &TableSpec, _parts: RecordParts, place: Place<'_>) -> Result<Box<dyn Source>> {
        let world = self.lock();
        let splits = world.splits.get(&table.name).cloned().unwrap_or_default();
        let own = splits.into_iter().enumerate().filter(|(index, _)| index % place.workers == place.worker);
        let own = own.map(|(_, (name, items))| (SplitId(name.as_str().into()), ScriptedSplit { items, next: 0, nothing: 0 })).collect();
        let is_bounded = !world.unbounded.contains(&table.name);
        Ok(Box::new(ScriptedSource { topic: table.name.as_str().into(), splits: own, is_bounded, has_told: false }))
    }

    fn sink(&self, table: &TableSpec, place: Place<'_>) -> Result<Box<dyn Sink>> {
        let is_transactional = self.lock().transactional;
        Ok(Box::new(ScriptedSink { world: self.clone(), table: table.name.clone(), worker: place.worker, is_transactional, open: Vec::new() }))
    }

    fn transactions(&self, _sources: &[Arc<TableSpec>], _sinks: &[Arc<TableSpec>], _place: Place<'_>) -> Result<Option<Box<dyn TransactionCoordinator>>> {
        let is_transactional = self.lock().transactional;
        Ok(is_transactional.then(|| Box::new(ScriptedTransactions(self.clone())) as _))
    }

    fn metadata_column(&self, _table: &TableSpec, key: &str, _records: &Records, _data_type: &DataType) -> Result<ArrayRef> {
        Err(RuntimeError::Script(format!("metadata '{key}' is not scripted")))
    }
}

struct ScriptedSource {
    topic: Arc<str>,
    splits: BTreeMap<SplitId, ScriptedSplit>,
    is_bounded: bool,
    has_told: bool,
}

struct ScriptedSplit {
    items: Vec<Item>,
    next: usize,
    nothing: u32,
}

impl Source for ScriptedSource {
    fn restore(&mut self, positions: &[(SplitId, SplitPosition)]) -> Result<()> {
        for (id, position) in positions {
            if let (Some(split), Some(bytes)) = (self.splits.get_mut(id), position.0.first_chunk::<8>()) {
                split.next = usize::try_from(u64::from_le_bytes(*bytes)).unwrap_or(usize::MAX);
            }
        }
        Ok(())
    }

    fn changes(&mut self) -> Result<Vec<SplitChange>> {
        if std::mem::replace(&mut self.has_told, true) {
            return Ok(Vec::new());
        }
        Ok(self.splits.keys().cloned().map(SplitChange::Added).collect())
    }

    fn poll(&mut self, split: &SplitId, max_rows: usize, into: &mut Records) -> Result<Polled> {
        into.topic = Arc::clone(&self.topic);
        let Some(split) = self.splits.get_mut(split) else { return Ok(Polled::End) };
        let mut count = 0;
        while count < max_rows {
            match split.items.get(split.next) {
                Some(Item::Record(text)) => {
                    into.values.push(Some(text.as_bytes()));
                    into.offsets.push(Offset(split.next as i64));
                    split.next += 1;
                    count += 1;
                }
                Some(Item::Nothing(times)) => {
                    if count == 0 {
                        split.nothing += 1;
                        if split.nothing >= *times {
                            split.nothing = 0;
                            split.next += 1;
                        }
                    }
                    break;
                }
                None => break,
            }
        }
        Ok(if count > 0 {
            Polled::Records
        } else if self.is_bounded && split.next >= split.items.len() {
            Polled::End
        } else {
            Polled::Pending
        })
    }

    fn wait(&mut self, _timeout: Duration) {
        thread::yield_now();
    }

    fn positions(&mut self) -> Result<Vec<(SplitId, SplitPosition)>> {
        Ok(self.splits.iter().map(|(id, split)| (id.clone(), SplitPosition((split.next as u64).to_le_bytes().to_vec()))).collect())
    }

    fn committed(&mut self, _epoch: Epoch, _positions: &[(SplitId, SplitPosition)]) -> Result<()> {
        Ok(())
    }

    fn is_bounded(&self) -> bool {
        self.is_bounded
    }
}

struct ScriptedSink {
    world: Scripted,
    table: String,
    worker: usize,
    is_transactional: bool,
    open: Vec<String>,
}

impl Sink for ScriptedSink {
    fn takes_records(&self) -> bool {
        false
    }

    fn recover(&mut self, epoch: Epoch, prepared: &[Prepared]) -> Result<()> {
        let mut world = self.world.lock();
        if !prepared.is_empty() {
            world.publish(|(table, of, _)| *table == self.table && *of == epoch.0);
        }
        let worker = self.worker;
        world.hidden.retain(|(table, of, by), _| *table != self.table || *of <= epoch.0 || (*by != worker && worker != 0));
        Ok(())
    }

    fn write_batch(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut lines = Vec::new();
        pelton_formats::render::json_lines(batch, &mut lines)?;
        self.open.extend(String::from_utf8_lossy(&lines).lines().map(str::to_owned));
        Ok(())
    }

    fn write_records(&mut self, _records: &OutputRecords) -> Result<Vec<(u32, String)>> {
        Ok(Vec::new())
    }

    fn prepare(&mut self, epoch: Epoch) -> Result<Prepared> {
        let rows = std::mem::take(&mut self.open);
        self.world.lock().hidden.insert((self.table.clone(), epoch.0, self.worker), rows);
        Ok(Prepared(vec![1]))
    }

    fn commit(&mut self, epoch: Epoch) -> Result<()> {
        if !self.is_transactional {
            self.world.lock().publish(|(table, of, by)| *table == self.table && *of == epoch.0 && *by == self.worker);
        }
        Ok(())
    }
}

struct ScriptedTransactions(Scripted);

impl TransactionCoordinator for ScriptedTransactions {
    fn last_committed(&mut self) -> Result<Option<Epoch>> {
        Ok(self.0.lock().committed)
    }

    fn commit(&mut self, epoch: Epoch, _positions: &[(SplitId, SplitPosition)]) -> Result<()> {
        let mut world = self.0.lock();
        world.committed = Some(epoch);
        world.publish(|(_, of, _)| *of == epoch.0);
        Ok(())
    }
}
