//! Keyed state as operators see it: ordered bytes, read at the last checkpoint plus what they changed since.
//!
//! Promises: reads see every earlier write of the same operator, in order. Changes of an epoch reach the store in one
//! atomic batch or not at all. Leaves to others: durability (`runtime/state`), the meaning of keys and values
//! (each operator documents its own layout).
//!
//! Key: `operator id (4 bytes, big endian) · key group (2, big endian) · the operator's own bytes`, so that one key
//! group of one operator is one contiguous range, which is what a restart at another parallelism reads.

use std::{
    collections::BTreeMap,
    ops::{Bound, ControlFlow},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    error::Result,
    key_group::KeyGroup,
    position::{Epoch, OperatorId},
};

/// What a piece of state is for. Each kind is a column family of its own. Codes are written to disk: never reuse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum StateKind {
    /// Job-wide facts: key-group count, plan fingerprint, plugin versions. Not keyed by group (group 0).
    Meta = 1,
    /// Resume positions of source splits and their watermarks. Group 0.
    Positions = 2,
    /// Partial aggregates of window panes.
    Panes = 3,
    /// Rows waiting in a join.
    JoinRows = 4,
    /// Event-time timers.
    Timers = 5,
    /// What sinks prepared for the epoch. Group 0.
    Sinks = 6,
    /// State of plugins.
    Plugins = 7,
    /// Dead letters of the job's own store. Group 0.
    DeadLetters = 8,
}

impl StateKind {
    /// Every kind, in code order.
    pub const ALL: [Self; 8] = [
        Self::Meta,
        Self::Positions,
        Self::Panes,
        Self::JoinRows,
        Self::Timers,
        Self::Sinks,
        Self::Plugins,
        Self::DeadLetters,
    ];

    /// The column family's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::Positions => "positions",
            Self::Panes => "panes",
            Self::JoinRows => "join-rows",
            Self::Timers => "timers",
            Self::Sinks => "sinks",
            Self::Plugins => "plugins",
            Self::DeadLetters => "dead-letters",
        }
    }
}

/// The prefix of every key of one operator and key group.
pub fn key_prefix(operator: OperatorId, group: KeyGroup) -> [u8; 6] {
    let mut prefix = [0; 6];
    prefix[..4].copy_from_slice(&operator.0.to_be_bytes());
    prefix[4..].copy_from_slice(&group.0.to_be_bytes());
    prefix
}

/// The smallest key greater than every key that starts with `prefix`; `None` if there is none.
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Some(end);
        }
    }
    None
}

/// Changes of one epoch: range deletions first, then puts and deletes of single keys.
///
/// `delete_range` drops the single changes inside the range that were made before it, so that the order
/// "ranges, then keys" always gives what the order of the calls would have given.
#[derive(Debug, Default, Clone)]
pub struct ChangeSet {
    /// Half-open ranges to delete, before `keys` is applied.
    pub ranges: Vec<(StateKind, Vec<u8>, Vec<u8>)>,
    /// New value, or `None` to delete.
    pub keys: BTreeMap<(StateKind, Vec<u8>), Option<Vec<u8>>>,
    bytes: usize,
}

impl ChangeSet {
    /// Sets a key.
    pub fn put(&mut self, kind: StateKind, key: Vec<u8>, value: Vec<u8>) {
        self.bytes += key.len() + value.len() + 64;
        self.keys.insert((kind, key), Some(value));
    }

    /// Removes a key.
    pub fn delete(&mut self, kind: StateKind, key: Vec<u8>) {
        self.bytes += key.len() + 64;
        self.keys.insert((kind, key), None);
    }

    /// Removes every key in `[from, to)`.
    pub fn delete_range(&mut self, kind: StateKind, from: Vec<u8>, to: Vec<u8>) {
        let inside: Vec<_> =
            self.keys.range((kind, from.clone())..(kind, to.clone())).map(|(key, _)| key.clone()).collect();
        for key in inside {
            self.keys.remove(&key);
        }
        self.bytes += from.len() + to.len() + 64;
        self.ranges.push((kind, from, to));
    }

    /// Appends the changes of another operator. Their keys never overlap: the operator id is part of each.
    pub fn append(&mut self, mut other: Self) {
        self.bytes += other.bytes;
        self.ranges.append(&mut other.ranges);
        self.keys.append(&mut other.keys);
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ranges.is_empty()
    }

    /// Estimate of the memory it takes.
    pub fn byte_len(&self) -> usize {
        self.bytes
    }

    /// What this set says of a key: `None` nothing, `Some(None)` deleted.
    fn lookup(&self, kind: StateKind, key: &[u8]) -> Option<Option<&[u8]>> {
        if let Some(value) = self.keys.get(&(kind, key.to_vec())) {
            return Some(value.as_deref());
        }
        let deleted = self.ranges.iter().any(|(k, from, to)| *k == kind && from.as_slice() <= key && key < to.as_slice());
        deleted.then_some(None)
    }
}

/// The durable store, as of its last applied epoch. Thread safe; implemented over RocksDB in `runtime/state` and in
/// memory for tests.
pub trait StateBackend: Send + Sync {
    /// The value of a key.
    fn get(&self, kind: StateKind, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Visits keys in `[from, to)` in byte order until `visit` breaks. `to == None` means to the kind's end.
    fn scan(
        &self,
        kind: StateKind,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Applies an epoch's changes atomically and durably, and remembers the epoch as applied.
    fn apply(&self, epoch: Epoch, changes: &[Arc<ChangeSet>]) -> Result<()>;

    /// Stores an epoch's changes durably without applying them (first half of a two-phase commit).
    fn prepare(&self, epoch: Epoch, changes: &[Arc<ChangeSet>]) -> Result<()>;

    /// The epoch that is prepared but not applied, if a run died in between.
    fn pending(&self) -> Result<Option<Epoch>>;

    /// Applies (`keep`) or drops the pending epoch.
    fn settle(&self, epoch: Epoch, keep: bool) -> Result<()>;

    /// The last epoch applied; `Epoch(0)` before the first.
    fn last_applied(&self) -> Result<Epoch>;
}

/// One operator's state on one worker. Owned by that worker's thread: no locks.
pub struct StateHandle {
    operator: OperatorId,
    backend: Arc<dyn StateBackend>,
    /// Groups this worker owns.
    groups: std::ops::Range<u16>,
    group_count: u16,
    /// Changes since the last barrier.
    current: ChangeSet,
    /// Changes handed over at a barrier and not yet known to be applied, oldest first.
    handed_over: Vec<(Epoch, Arc<ChangeSet>)>,
    /// Last epoch the store has applied, told by the coordinator.
    applied: Arc<AtomicU64>,
}

impl StateHandle {
    /// State of `operator` for the key groups in `groups`, read as of the backend's last applied epoch.
    pub fn new(
        operator: OperatorId,
        backend: Arc<dyn StateBackend>,
        groups: std::ops::Range<u16>,
        group_count: u16,
        applied: Arc<AtomicU64>,
    ) -> Self {
        Self { operator, backend, groups, group_count, current: ChangeSet::default(), handed_over: Vec::new(), applied }
    }

    /// Groups this worker owns.
    pub fn groups(&self) -> std::ops::Range<u16> {
        self.groups.clone()
    }

    /// How many groups the job has.
    pub fn group_count(&self) -> u16 {
        self.group_count
    }

    /// Sets a key of this operator.
    pub fn put(&mut self, kind: StateKind, group: KeyGroup, suffix: &[u8], value: Vec<u8>) {
        let key = self.key(group, suffix);
        self.current.put(kind, key, value);
    }

    /// Removes a key of this operator.
    pub fn delete(&mut self, kind: StateKind, group: KeyGroup, suffix: &[u8]) {
        let key = self.key(group, suffix);
        self.current.delete(kind, key);
    }

    /// Removes the keys of this operator and group whose suffix is in `[from, to)`; `to == None` means to the group's end.
    pub fn delete_range(&mut self, kind: StateKind, group: KeyGroup, from: &[u8], to: Option<&[u8]>) {
        let end = self.range_end(group, to);
        let start = self.key(group, from);
        self.current.delete_range(kind, start, end);
    }

    /// The value of a key, with all changes made so far.
    pub fn get(&self, kind: StateKind, group: KeyGroup, suffix: &[u8]) -> Result<Option<Vec<u8>>> {
        let key = self.key(group, suffix);
        for layer in self.layers() {
            if let Some(found) = layer.lookup(kind, &key) {
                return Ok(found.map(<[u8]>::to_vec));
            }
        }
        self.backend.get(kind, &key)
    }

    /// Visits the keys of one group whose suffix is in `[from, to)` (`to == None`: to the group's end) in byte order,
    /// with all changes made so far, until `visit` breaks. `visit` gets the suffix and the value.
    pub fn scan(
        &self,
        kind: StateKind,
        group: KeyGroup,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let start = self.key(group, from);
        let end = self.range_end(group, to);
        // What the layers above the store say of the range; an older layer never overrides a newer one.
        let mut changed: BTreeMap<&[u8], Option<&[u8]>> = BTreeMap::new();
        let mut newer_ranges: Vec<(&[u8], &[u8])> = Vec::new();
        for layer in self.layers() {
            let bounds = (Bound::Included((kind, start.clone())), Bound::Excluded((kind, end.clone())));
            for ((_, key), value) in layer.keys.range(bounds) {
                let hidden = newer_ranges.iter().any(|(from, to)| *from <= key.as_slice() && key.as_slice() < *to);
                if !hidden {
                    changed.entry(key).or_insert(value.as_deref());
                }
            }
            newer_ranges.extend(layer.ranges.iter().filter(|(k, _, _)| *k == kind).map(|(_, f, t)| (f.as_slice(), t.as_slice())));
        }
        let mut overlay = changed.into_iter().peekable();
        let mut stopped = false;
        self.backend.scan(kind, &start, Some(&end), &mut |key, value| {
            while let Some((changed_key, changed_value)) = overlay.peek().copied() {
                if changed_key > key {
                    break;
                }
                overlay.next();
                if let Some(new) = changed_value
                    && visit(&changed_key[6..], new).is_break()
                {
                    stopped = true;
                    return ControlFlow::Break(());
                }
                if changed_key == key {
                    return ControlFlow::Continue(());
                }
            }
            if newer_ranges.iter().any(|(from, to)| *from <= key && key < *to) {
                return ControlFlow::Continue(());
            }
            let flow = visit(&key[6..], value);
            stopped = flow.is_break();
            flow
        })?;
        if !stopped {
            for (key, value) in overlay {
                if let Some(new) = value
                    && visit(&key[6..], new).is_break()
                {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Hands over the changes since the last barrier as those of `epoch`. They stay readable here until the store has
    /// applied them.
    pub fn hand_over(&mut self, epoch: Epoch) -> Arc<ChangeSet> {
        let applied = Epoch(self.applied.load(Ordering::Acquire));
        self.handed_over.retain(|(epoch, _)| *epoch > applied);
        let changes = Arc::new(std::mem::take(&mut self.current));
        if !changes.is_empty() {
            self.handed_over.push((epoch, Arc::clone(&changes)));
        }
        changes
    }

    /// Memory of the changes that are not yet in the store.
    pub fn dirty_bytes(&self) -> usize {
        let applied = Epoch(self.applied.load(Ordering::Acquire));
        let waiting: usize =
            self.handed_over.iter().filter(|(epoch, _)| *epoch > applied).map(|(_, set)| set.byte_len()).sum();
        self.current.byte_len() + waiting
    }

    /// Newest first. A layer the store has applied meanwhile is still right to read: it says what the store says.
    fn layers(&self) -> impl Iterator<Item = &ChangeSet> {
        std::iter::once(&self.current).chain(self.handed_over.iter().rev().map(|(_, set)| set.as_ref()))
    }

    fn key(&self, group: KeyGroup, suffix: &[u8]) -> Vec<u8> {
        // Invariant: an operator writes only groups its worker owns.
        debug_assert!(self.groups.contains(&group.0), "group {group:?} is not owned by this worker");
        let mut key = Vec::with_capacity(6 + suffix.len());
        key.extend_from_slice(&key_prefix(self.operator, group));
        key.extend_from_slice(suffix);
        key
    }

    fn range_end(&self, group: KeyGroup, to: Option<&[u8]>) -> Vec<u8> {
        match to {
            Some(suffix) => self.key(group, suffix),
            None => prefix_end(&key_prefix(self.operator, group)).unwrap_or_else(|| vec![u8::MAX; 8]),
        }
    }
}

/// A store in memory, for tests and for bounded jobs that keep nothing.
#[derive(Default)]
pub struct MemoryBackend {
    inner: std::sync::Mutex<MemoryInner>,
}

#[derive(Default)]
struct MemoryInner {
    data: BTreeMap<(StateKind, Vec<u8>), Vec<u8>>,
    pending: Option<(Epoch, Vec<Arc<ChangeSet>>)>,
    applied: Epoch,
}

impl MemoryInner {
    fn apply(&mut self, changes: &ChangeSet) {
        for (kind, from, to) in &changes.ranges {
            let doomed: Vec<_> =
                self.data.range((*kind, from.clone())..(*kind, to.clone())).map(|(key, _)| key.clone()).collect();
            for key in doomed {
                self.data.remove(&key);
            }
        }
        for (key, value) in &changes.keys {
            match value {
                Some(value) => self.data.insert(key.clone(), value.clone()),
                None => self.data.remove(key),
            };
        }
    }
}

impl MemoryBackend {
    fn lock(&self) -> std::sync::MutexGuard<'_, MemoryInner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl StateBackend for MemoryBackend {
    fn get(&self, kind: StateKind, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.lock().data.get(&(kind, key.to_vec())).cloned())
    }

    fn scan(
        &self,
        kind: StateKind,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let rows: Vec<_> = self
            .lock()
            .data
            .range((kind, from.to_vec())..)
            .take_while(|((k, key), _)| *k == kind && to.is_none_or(|to| key.as_slice() < to))
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect();
        for (key, value) in rows {
            if visit(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn apply(&self, epoch: Epoch, changes: &[Arc<ChangeSet>]) -> Result<()> {
        let mut inner = self.lock();
        changes.iter().for_each(|set| inner.apply(set));
        inner.applied = epoch;
        Ok(())
    }

    fn prepare(&self, epoch: Epoch, changes: &[Arc<ChangeSet>]) -> Result<()> {
        self.lock().pending = Some((epoch, changes.to_vec()));
        Ok(())
    }

    fn pending(&self) -> Result<Option<Epoch>> {
        Ok(self.lock().pending.as_ref().map(|(epoch, _)| *epoch))
    }

    fn settle(&self, epoch: Epoch, keep: bool) -> Result<()> {
        let mut inner = self.lock();
        if let Some((pending, changes)) = inner.pending.take()
            && keep
            && pending == epoch
        {
            changes.iter().for_each(|set| inner.apply(set));
            inner.applied = epoch;
        }
        Ok(())
    }

    fn last_applied(&self) -> Result<Epoch> {
        Ok(self.lock().applied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const G: KeyGroup = KeyGroup(3);
    const K: StateKind = StateKind::JoinRows;

    fn handle(backend: &Arc<MemoryBackend>) -> StateHandle {
        let backend: Arc<dyn StateBackend> = Arc::<MemoryBackend>::clone(backend);
        StateHandle::new(OperatorId(7), backend, 0..128, 128, Arc::new(AtomicU64::new(0)))
    }

    fn all(handle: &StateHandle) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut rows = Vec::new();
        handle
            .scan(K, G, b"", None, &mut |key, value| {
                rows.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            })
            .expect("memory does not fail");
        rows
    }

    fn pair(key: &[u8], value: &[u8]) -> (Vec<u8>, Vec<u8>) {
        (key.to_vec(), value.to_vec())
    }

    #[test]
    fn reads_merge_the_store_the_handed_over_and_the_current_changes() {
        let backend = Arc::new(MemoryBackend::default());
        let mut state = handle(&backend);
        for key in [b"a", b"b", b"c", b"d"] {
            state.put(K, G, key, b"0".to_vec());
        }
        let first = state.hand_over(Epoch(1));
        backend.apply(Epoch(1), &[first]).expect("memory does not fail");
        state.put(K, G, b"b", b"1".to_vec());
        state.delete(K, G, b"c");
        state.hand_over(Epoch(2));
        state.put(K, G, b"bb", b"2".to_vec());
        state.delete_range(K, G, b"a", Some(b"b"));
        assert_eq!(all(&state), [pair(b"b", b"1"), pair(b"bb", b"2"), pair(b"d", b"0")]);
        assert_eq!(state.get(K, G, b"a").expect("get"), None);
        assert_eq!(state.get(K, G, b"b").expect("get"), Some(b"1".to_vec()));
    }

    #[test]
    fn a_key_put_after_a_range_delete_lives_and_one_put_before_does_not() {
        let backend = Arc::new(MemoryBackend::default());
        let mut state = handle(&backend);
        state.put(K, G, b"m", b"old".to_vec());
        state.delete_range(K, G, b"", None);
        state.put(K, G, b"n", b"new".to_vec());
        assert_eq!(all(&state), [pair(b"n", b"new")]);
        let set = state.hand_over(Epoch(1));
        backend.apply(Epoch(1), &[set]).expect("memory does not fail");
        assert_eq!(all(&handle(&backend)), [pair(b"n", b"new")]);
    }

    #[test]
    fn the_end_of_a_prefix_is_the_next_one() {
        assert_eq!(prefix_end(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(prefix_end(&[1, 255]), Some(vec![2]));
        assert_eq!(prefix_end(&[255, 255]), None);
    }

    #[test]
    fn pending_changes_count_only_once_they_are_settled() {
        let backend = Arc::new(MemoryBackend::default());
        let mut state = handle(&backend);
        state.put(K, G, b"x", b"1".to_vec());
        let set = state.hand_over(Epoch(5));
        backend.prepare(Epoch(5), &[set]).expect("prepare");
        assert!(all(&handle(&backend)).is_empty());
        assert_eq!(backend.pending().expect("pending"), Some(Epoch(5)));
        backend.settle(Epoch(5), true).expect("settle");
        assert_eq!(all(&handle(&backend)), [pair(b"x", b"1")]);
        assert_eq!(backend.last_applied().expect("applied"), Epoch(5));
    }
}
