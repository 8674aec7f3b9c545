//! Panes: the partial aggregates of keys, pane by pane, and which of them changed since the last barrier.
//!
//! A pane is the stretch between two neighbouring window edges (a whole window for TUMBLE and attached windows). Each
//! key has an entry per pane in which it has rows: `base` holds what the last checkpoint has, `delta` what came since.
//! At a barrier deltas are written and merged into their bases; firing merges both.
//!
//! State (kind `panes`), per key group: `pane end (8) · pane start (8) · key bytes · epoch (8)` → the accumulators'
//! states in Arrow's row format. Numbers are big endian with the sign bit flipped, so that bytes sort as numbers do. An
//! entry may have a row per epoch: a restart merges them. Rows below the horizon (the lowest pane end that a window may
//! still need) are deleted at barriers, one range per key group.

use std::{collections::BTreeMap, ops::ControlFlow};

use arrow::{
    array::ArrayRef,
    row::{RowConverter, SortField},
};
use hashbrown::HashSet;
use pelton_core::{
    error::Result,
    key_group::{KeyGroup, hash_rows},
    position::Epoch,
    state::{StateHandle, StateKind},
};

use crate::{
    aggregates::{AggregateCall, AggregateSet, Arguments},
    expressions::internal,
    keys::KeyTable,
};

/// A pane by its end, then its start: panes that end first come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Pane {
    pub(crate) end: i64,
    pub(crate) start: i64,
}

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Entry {
    pane: Pane,
    base: u32,
    delta: u32,
}

/// All panes of a step on one worker.
pub(crate) struct Panes {
    pub(crate) keys: KeyTable,
    pub(crate) set: AggregateSet,
    /// By key id: its entries, in pane order.
    entries: Vec<Vec<Entry>>,
    /// Keys with an entry in a pane, in the order they came.
    by_pane: BTreeMap<Pane, Vec<u32>>,
    /// Entries with a delta.
    changed: Vec<(u32, Pane)>,
    states: RowConverter,
    group_count: u16,
    /// Key groups that have rows in the store.
    stored: HashSet<u16>,
    horizon: i64,
    deleted_to: i64,
    // Buffers.
    ids: Vec<u32>,
    slots: Vec<u32>,
}

impl Panes {
    pub(crate) fn new(key_types: &[arrow::datatypes::DataType], calls: &[AggregateCall], group_count: u16) -> Result<Self> {
        let set = AggregateSet::new(calls)?;
        let fields = set.state_types()?.into_iter().map(SortField::new).collect();
        Ok(Self {
            keys: KeyTable::new(key_types)?,
            set,
            entries: Vec::new(),
            by_pane: BTreeMap::new(),
            changed: Vec::new(),
            states: RowConverter::new(fields).map_err(|error| internal("window state", &error))?,
            group_count,
            stored: HashSet::new(),
            horizon: i64::MIN,
            deleted_to: i64::MIN,
            ids: Vec::new(),
            slots: Vec::new(),
        })
    }

    /// Adds rows: each to the entry of its key and pane. `touched` gets key and pane of each row of a pane that
    /// `is_old` (it has entered a window's running value already).
    pub(crate) fn add(&mut self, keys: &[ArrayRef], panes: &[Pane], arguments: &Arguments, is_old: impl Fn(Pane) -> bool, touched: &mut Vec<u32>) -> Result<()> {
        let mut ids = std::mem::take(&mut self.ids);
        self.keys.ids(keys, panes.len(), &mut ids)?;
        if self.entries.len() < self.keys.capacity() {
            self.entries.resize_with(self.keys.capacity(), Vec::new);
        }
        self.slots.clear();
        for (&id, &pane) in ids.iter().zip(panes) {
            let slot = self.delta(id, pane);
            self.slots.push(slot);
            if is_old(pane) {
                touched.push(id);
            }
        }
        self.ids = ids;
        self.set.update(&self.slots, arguments)
    }

    fn delta(&mut self, id: u32, pane: Pane) -> u32 {
        let entries = &mut self.entries[id as usize];
        // Rows come roughly in time order: the wanted entry is nearly always the last.
        let place = entries.iter().rposition(|entry| entry.pane <= pane);
        let index = match place {
            Some(index) if entries[index].pane == pane => index,
            other => {
                let index = other.map_or(0, |index| index + 1);
                entries.insert(index, Entry { pane, base: NONE, delta: NONE });
                self.by_pane.entry(pane).or_default().push(id);
                index
            }
        };
        if entries[index].delta == NONE {
            entries[index].delta = self.set.allocate();
            self.changed.push((id, pane));
        }
        entries[index].delta
    }

    pub(crate) fn first(&self) -> Option<Pane> {
        self.by_pane.keys().next().copied()
    }

    pub(crate) fn first_from(&self, end: i64) -> Option<Pane> {
        self.by_pane.range(Pane { end, start: i64::MIN }..).next().map(|(pane, _)| *pane)
    }

    /// Keys with an entry in a pane.
    pub(crate) fn keys_in(&self, pane: Pane) -> &[u32] {
        self.by_pane.get(&pane).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_pane.is_empty()
    }

    /// The slots that make up a key's entry in a pane: base, delta, or both.
    pub(crate) fn parts(&self, id: u32, pane: Pane) -> impl Iterator<Item = u32> {
        let entry = self.entries[id as usize].iter().rfind(|entry| entry.pane == pane).copied();
        let (base, delta) = entry.map_or((NONE, NONE), |entry| (entry.base, entry.delta));
        [base, delta].into_iter().filter(|slot| *slot != NONE)
    }

    /// Panes in which a key has an entry, oldest first.
    pub(crate) fn panes_of(&self, id: u32) -> impl DoubleEndedIterator<Item = Pane> {
        self.entries[id as usize].iter().map(|entry| entry.pane)
    }

    /// Whether a key has no entry left.
    pub(crate) fn is_gone(&self, id: u32) -> bool {
        self.entries[id as usize].is_empty()
    }

    /// Drops a pane. Gives the keys that had an entry in it; those that are gone now must be released by the caller
    /// once it holds nothing of them any more.
    pub(crate) fn drop_pane(&mut self, pane: Pane) -> Vec<u32> {
        let keys = self.by_pane.remove(&pane).unwrap_or_default();
        for &id in &keys {
            let entries = &mut self.entries[id as usize];
            if let Some(index) = entries.iter().position(|entry| entry.pane == pane) {
                let entry = entries.remove(index);
                for slot in [entry.base, entry.delta].into_iter().filter(|slot| *slot != NONE) {
                    self.set.release(slot);
                }
            }
        }
        self.horizon = self.horizon.max(pane.end);
        keys
    }

    /// Key groups of keys, as the exchange in front computes them.
    fn groups(&self, ids: &[u32]) -> Result<Vec<KeyGroup>> {
        let columns = self.keys.columns(ids)?;
        if columns.is_empty() {
            return Ok(vec![KeyGroup(0); ids.len()]);
        }
        let mut hashes = Vec::new();
        hash_rows(&columns, ids.len(), &mut hashes);
        Ok(hashes.into_iter().map(|hash| KeyGroup::of_hash(hash, self.group_count)).collect())
    }

    /// Writes what changed since the last barrier, and deletes what no window needs any more.
    pub(crate) fn store(&mut self, epoch: Epoch, state: &mut StateHandle) -> Result<()> {
        if self.horizon > self.deleted_to {
            for &group in &self.stored {
                state.delete_range(StateKind::Panes, KeyGroup(group), &[], Some(&sortable(self.horizon.saturating_add(1))));
            }
            self.deleted_to = self.horizon;
        }
        let (mut ids, mut panes, mut deltas, mut merges) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (id, pane) in std::mem::take(&mut self.changed) {
            let Some(entry) = self.entries[id as usize].iter_mut().rfind(|entry| entry.pane == pane && entry.delta != NONE) else { continue };
            ids.push(id);
            panes.push(pane);
            deltas.push(entry.delta);
            if entry.base != NONE {
                merges.push((entry.base, entry.delta));
            }
        }
        if ids.is_empty() {
            return Ok(());
        }
        let groups = self.groups(&ids)?;
        let columns = self.set.state(&deltas)?;
        let rows = if columns.is_empty() { None } else { Some(self.states.convert_columns(&columns).map_err(|error| internal("window state", &error))?) };
        for (index, &id) in ids.iter().enumerate() {
            let mut suffix = Vec::with_capacity(48);
            suffix.extend_from_slice(&sortable(panes[index].end));
            suffix.extend_from_slice(&sortable(panes[index].start));
            suffix.extend_from_slice(&self.keys.bytes(id)?);
            suffix.extend_from_slice(&epoch.0.to_be_bytes());
            let value = rows.as_ref().map_or_else(Vec::new, |rows| rows.row(index).as_ref().to_vec());
            state.put(StateKind::Panes, groups[index], &suffix, value);
            self.stored.insert(groups[index].0);
        }
        self.set.merge(&merges)?;
        for (&id, &pane) in ids.iter().zip(&panes) {
            let Some(entry) = self.entries[id as usize].iter_mut().rfind(|entry| entry.pane == pane) else { continue };
            if entry.base == NONE {
                entry.base = entry.delta;
            } else {
                self.set.release(entry.delta);
            }
            entry.delta = NONE;
        }
        Ok(())
    }

    /// Reads back what the checkpoint has for this worker's key groups.
    pub(crate) fn restore(&mut self, state: &StateHandle) -> Result<()> {
        const CHUNK: usize = 8192;
        let (mut slots, mut values): (Vec<u32>, Vec<Vec<u8>>) = (Vec::new(), Vec::new());
        for group in state.groups() {
            let mut fault = None;
            state.scan(StateKind::Panes, KeyGroup(group), &[], None, &mut |suffix, value| {
                match self.restored_slot(suffix) {
                    Ok(slot) => {
                        slots.push(slot);
                        values.push(value.to_vec());
                    }
                    Err(error) => fault = Some(error),
                }
                self.stored.insert(group);
                if slots.len() >= CHUNK
                    && let Err(error) = self.merge_stored(&mut slots, &mut values)
                {
                    fault = Some(error);
                }
                if fault.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if let Some(error) = fault {
                return Err(error);
            }
        }
        self.merge_stored(&mut slots, &mut values)
    }

    fn restored_slot(&mut self, suffix: &[u8]) -> Result<u32> {
        let damaged = || internal("window state", &"a stored key is too short");
        let (end, rest) = suffix.split_first_chunk::<8>().ok_or_else(damaged)?;
        let (start, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
        let (key, _epoch) = rest.split_last_chunk::<8>().ok_or_else(damaged)?;
        let pane = Pane { end: unsortable(*end), start: unsortable(*start) };
        let id = self.keys.id_of_stored(key)?;
        if self.entries.len() < self.keys.capacity() {
            self.entries.resize_with(self.keys.capacity(), Vec::new);
        }
        let entries = &mut self.entries[id as usize];
        let place = entries.iter().rposition(|entry| entry.pane <= pane);
        if let Some(index) = place.filter(|&index| entries[index].pane == pane) {
            return Ok(entries[index].base);
        }
        let base = self.set.allocate();
        entries.insert(place.map_or(0, |index| index + 1), Entry { pane, base, delta: NONE });
        self.by_pane.entry(pane).or_default().push(id);
        Ok(base)
    }

    fn merge_stored(&mut self, slots: &mut Vec<u32>, values: &mut Vec<Vec<u8>>) -> Result<()> {
        let parser = self.states.parser();
        if !slots.is_empty() && !self.set.state_types()?.is_empty() {
            let columns = self.states.convert_rows(values.iter().map(|value| parser.parse(value))).map_err(|error| internal("window state", &error))?;
            self.set.merge_state(slots, &columns)?;
        }
        slots.clear();
        values.clear();
        Ok(())
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let entries: usize = self.entries.iter().map(|entries| entries.capacity() * size_of::<Entry>() + 24).sum();
        entries + self.keys.memory_bytes() + self.set.memory_bytes()
    }
}

/// A number as bytes that sort as the numbers do.
pub(crate) fn sortable(value: i64) -> [u8; 8] {
    (value as u64 ^ (1 << 63)).to_be_bytes()
}

fn unsortable(bytes: [u8; 8]) -> i64 {
    (u64::from_be_bytes(bytes) ^ (1 << 63)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sort_as_bytes_and_come_back() {
        let numbers = [i64::MIN, -5, -1, 0, 1, 7, i64::MAX];
        for pair in numbers.windows(2) {
            assert!(sortable(pair[0]) < sortable(pair[1]));
        }
        assert!(numbers.iter().all(|&number| unsortable(sortable(number)) == number));
    }
}
