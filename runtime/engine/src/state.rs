//! What the engine itself keeps with each epoch: facts of the job, source positions, what sinks prepared, dead letters.
//!
//! Layouts, all in key group 0 of the operator (`pelton_core::state::key_prefix`):
//! `positions`: key `prefix · split name`, value `running watermark · due watermark (i64, little endian) · position`;
//! `sinks`: key `prefix · worker (u32, big endian)`, value what the sink prepared for the last epoch;
//! `plugins`: key `prefix · worker (u32, big endian) · the host's key`, value the host's;
//! `dead-letters`: key `s · epoch (u64, big endian) · number (u32, big endian)`, value the letter as JSON; and
//! `f · path`, value `length of the file before (u64, big endian) · lines appended`, so that a restart can append them
//! again after a crash between commit and append;
//! `meta`: key `#job`, value [`StoredJob`] as JSON.

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use pelton_core::{
    dead_letter::DeadLetter,
    error::{Result, RuntimeError},
    graph::{Graph, NodeKind},
    key_group::KeyGroup,
    position::{Epoch, OperatorId, SplitId},
    sink::Prepared,
    source::SplitPosition,
    state::{ChangeSet, StateBackend, StateKind, key_prefix, prefix_end},
    time::{EventTime, Watermark},
};
use pelton_state::Store;
use serde::{Deserialize, Serialize};

use crate::letters::letter_from_json;

const JOB_KEY: &[u8] = b"#job";
const STORED: u8 = b's';
const FILE: u8 = b'f';

/// Facts of a job that outlive a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredJob {
    /// Its name.
    pub name: String,
    /// Identity of its output: new for each fresh start.
    pub run: String,
    /// Units of keyed state.
    pub key_groups: u16,
    /// Operators by id and name: what the state belongs to.
    pub operators: Vec<(u32, String)>,
    /// Whether a bounded job is done.
    pub finished: bool,
    /// `name version hash` of the plugins.
    pub plugins: BTreeMap<String, String>,
}

impl StoredJob {
    /// The facts of a graph.
    pub(crate) fn operators_of(graph: &Graph) -> Vec<(u32, String)> {
        graph.nodes.iter().map(|node| (node.id.0, node.name.clone())).collect()
    }

    /// Refuses to go on with another graph than the state's, by name.
    pub(crate) fn check_fits(&self, graph: &Graph) -> Result<()> {
        let ours = Self::operators_of(graph);
        let lists = |of: &[(u32, String)], not_in: &[(u32, String)]| {
            of.iter().filter(|node| !not_in.contains(node)).map(|(_, name)| format!("`{name}`")).collect::<Vec<_>>()
        };
        let (gone, new) = (lists(&self.operators, &ours), lists(&ours, &self.operators));
        if gone.is_empty() && new.is_empty() {
            return Ok(());
        }
        let mut parts = Vec::new();
        if !gone.is_empty() {
            parts.push(format!("it holds {} that the script no longer has", gone.join(", ")));
        }
        if !new.is_empty() {
            parts.push(format!("it knows nothing of {}", new.join(", ")));
        }
        let what = parts.join("; ");
        Err(RuntimeError::Recovery(format!(
            "the state of job '{}' does not fit this script: {what}. Run the script it came from, or start anew with --fresh",
            self.name
        )))
    }
}

/// A split's place at the checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredSplit {
    pub(crate) split: SplitId,
    pub(crate) position: SplitPosition,
    pub(crate) running: Watermark,
    pub(crate) due: Watermark,
}

impl StoredSplit {
    pub(crate) fn put(&self, operator: OperatorId, into: &mut ChangeSet) {
        let key = [&key_prefix(operator, KeyGroup(0))[..], self.split.0.as_bytes()].concat();
        let mut value = self.running.time().as_millis().to_le_bytes().to_vec();
        value.extend_from_slice(&self.due.time().as_millis().to_le_bytes());
        value.extend_from_slice(&self.position.0);
        into.put(StateKind::Positions, key, value);
    }

    fn read(name: &[u8], value: &[u8]) -> Option<Self> {
        let (running, rest) = value.split_first_chunk::<8>()?;
        let (due, position) = rest.split_first_chunk::<8>()?;
        let mark = |bytes: &[u8; 8]| Watermark::at(EventTime::from_millis(i64::from_le_bytes(*bytes)));
        Some(Self {
            split: SplitId(std::str::from_utf8(name).ok()?.into()),
            position: SplitPosition(position.to_vec()),
            running: mark(running),
            due: mark(due),
        })
    }
}

/// Forgets a split that was taken away.
pub(crate) fn forget_split(operator: OperatorId, split: &SplitId, into: &mut ChangeSet) {
    into.delete(StateKind::Positions, [&key_prefix(operator, KeyGroup(0))[..], split.0.as_bytes()].concat());
}

/// An entry of a plugin's state: the place it was written at (a worker, a split), key, value.
pub(crate) type PluginEntry = (u32, Vec<u8>, Vec<u8>);

/// Everything the engine kept with the last epoch.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    pub(crate) epoch: Epoch,
    pub(crate) positions: HashMap<OperatorId, Vec<StoredSplit>>,
    pub(crate) prepared: HashMap<OperatorId, Vec<Prepared>>,
    pub(crate) plugins: HashMap<OperatorId, Vec<PluginEntry>>,
    /// Path, length before, lines.
    pub(crate) files: Vec<(PathBuf, u64, Vec<u8>)>,
}

impl Restored {
    pub(crate) fn read(backend: &dyn StateBackend, graph: &Graph) -> Result<Self> {
        let mut restored = Self { epoch: backend.last_applied()?, ..Self::default() };
        let damaged = |what: &str| RuntimeError::Recovery(format!("the stored {what} cannot be read: start anew with --fresh"));
        for node in &graph.nodes {
            if let NodeKind::Source(_) = node.kind {
                let mut splits = Vec::new();
                for (name, value) in of_operator(backend, StateKind::Positions, node.id)? {
                    splits.push(StoredSplit::read(&name, &value).ok_or_else(|| damaged("source positions"))?);
                }
                restored.positions.insert(node.id, splits);
            }
            let prepared = of_operator(backend, StateKind::Sinks, node.id)?.into_iter().map(|(_, value)| Prepared(value)).collect();
            restored.prepared.insert(node.id, prepared);
            let mut plugins = Vec::new();
            for (key, value) in of_operator(backend, StateKind::Plugins, node.id)? {
                let (worker, key) = key.split_first_chunk::<4>().ok_or_else(|| damaged("plugin state"))?;
                plugins.push((u32::from_be_bytes(*worker), key.to_vec(), value));
            }
            restored.plugins.insert(node.id, plugins);
        }
        for (key, value) in scan(backend, StateKind::DeadLetters, &[FILE], Some(&[FILE + 1]))? {
            let (before, lines) = value.split_first_chunk::<8>().ok_or_else(|| damaged("dead letters"))?;
            let path = std::str::from_utf8(&key[1..]).map_err(|_| damaged("dead letters"))?;
            restored.files.push((path.into(), u64::from_be_bytes(*before), lines.to_vec()));
        }
        Ok(restored)
    }
}

fn of_operator(backend: &dyn StateBackend, kind: StateKind, operator: OperatorId) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let prefix = key_prefix(operator, KeyGroup(0));
    let rows = scan(backend, kind, &prefix, prefix_end(&prefix).as_deref())?;
    Ok(rows.into_iter().map(|(key, value)| (key[prefix.len()..].to_vec(), value)).collect())
}

fn scan(backend: &dyn StateBackend, kind: StateKind, from: &[u8], to: Option<&[u8]>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut rows = Vec::new();
    backend.scan(kind, from, to, &mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

/// Adds what all workers' sinks prepared, in place of the epoch before.
pub(crate) fn put_prepared(operators: &[OperatorId], prepared: Vec<(OperatorId, usize, Prepared)>, into: &mut ChangeSet) {
    for operator in operators {
        let prefix = key_prefix(*operator, KeyGroup(0));
        into.delete_range(StateKind::Sinks, prefix.to_vec(), prefix_end(&prefix).unwrap_or_else(|| vec![u8::MAX; 8]));
    }
    for (operator, worker, prepared) in prepared {
        let key = [&key_prefix(operator, KeyGroup(0))[..], &(worker as u32).to_be_bytes()].concat();
        into.put(StateKind::Sinks, key, prepared.0);
    }
}

/// Adds a change of a plugin's state.
pub(crate) fn put_plugin(operator: OperatorId, worker: usize, key: &[u8], value: Option<Vec<u8>>, into: &mut ChangeSet) {
    let key = [&key_prefix(operator, KeyGroup(0))[..], &(worker as u32).to_be_bytes(), key].concat();
    match value {
        Some(value) => into.put(StateKind::Plugins, key, value),
        None => into.delete(StateKind::Plugins, key),
    }
}

/// Adds a letter of the job's own store.
pub(crate) fn put_letter(epoch: Epoch, number: u32, line: Vec<u8>, into: &mut ChangeSet) {
    let key = [&[STORED][..], &epoch.0.to_be_bytes(), &number.to_be_bytes()].concat();
    into.put(StateKind::DeadLetters, key, line);
}

/// Adds the lines that this epoch appends to a file.
pub(crate) fn put_letter_file(path: &std::path::Path, before: u64, lines: &[u8], into: &mut ChangeSet) {
    let key = [&[FILE][..], path.to_string_lossy().as_bytes()].concat();
    into.put(StateKind::DeadLetters, key, [&before.to_be_bytes()[..], lines].concat());
}

/// Adds the job's facts.
pub(crate) fn put_job(job: &StoredJob, into: &mut ChangeSet) {
    into.put(StateKind::Meta, JOB_KEY.to_vec(), serde_json::to_vec(job).unwrap_or_default());
}

/// The facts of the job a state belongs to, `None` for an empty one.
pub fn stored_job(backend: &dyn StateBackend) -> Result<Option<StoredJob>> {
    let Some(bytes) = backend.get(StateKind::Meta, JOB_KEY)? else { return Ok(None) };
    let job = serde_json::from_slice(&bytes);
    job.map(Some).map_err(|error| RuntimeError::Recovery(format!("the job's stored facts cannot be read ({error}): start anew with --fresh")))
}

/// Letters of the job's own store, oldest first, with their epoch.
pub fn stored_letters(backend: &dyn StateBackend) -> Result<Vec<(Epoch, DeadLetter)>> {
    let rows = scan(backend, StateKind::DeadLetters, &[STORED], Some(&[STORED + 1]))?;
    let read = |(key, value): (Vec<u8>, Vec<u8>)| {
        let epoch = key.get(1..9)?.first_chunk::<8>().map(|bytes| Epoch(u64::from_be_bytes(*bytes)))?;
        Some((epoch, letter_from_json(&value)?))
    };
    Ok(rows.into_iter().filter_map(read).collect())
}

/// A temporary store that is opened when the first epoch is written, so that a short job never opens one.
pub(crate) struct TemporaryStore {
    memory_bytes: usize,
    store: OnceLock<Store>,
}

impl TemporaryStore {
    pub(crate) fn new(memory_bytes: usize) -> Self {
        Self { memory_bytes, store: OnceLock::new() }
    }

    fn opened(&self) -> Result<&Store> {
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let store = Store::temporary(self.memory_bytes)?;
        Ok(self.store.get_or_init(|| store))
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.store.get().map_or(0, Store::size_bytes)
    }
}

impl StateBackend for TemporaryStore {
    fn get(&self, kind: StateKind, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.store.get().map_or(Ok(None), |store| store.get(kind, key))
    }

    fn scan(&self, kind: StateKind, from: &[u8], to: Option<&[u8]>, visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<()> {
        self.store.get().map_or(Ok(()), |store| store.scan(kind, from, to, visit))
    }

    fn apply(&self, epoch: Epoch, changes: &[Arc<ChangeSet>]) -> Result<()> {
        self.opened()?.apply(epoch, changes)
    }

    fn prepare(&self, epoch: Epoch, changes: &[Arc<ChangeSet>]) -> Result<()> {
        self.opened()?.prepare(epoch, changes)
    }

    fn pending(&self) -> Result<Option<Epoch>> {
        self.store.get().map_or(Ok(None), StateBackend::pending)
    }

    fn settle(&self, epoch: Epoch, keep: bool) -> Result<()> {
        self.opened()?.settle(epoch, keep)
    }

    fn last_applied(&self) -> Result<Epoch> {
        self.store.get().map_or(Ok(Epoch::default()), StateBackend::last_applied)
    }
}
