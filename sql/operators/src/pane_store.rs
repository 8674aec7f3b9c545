//! Panes in state: how they are written at a barrier, read back, and deleted.
//!
//! Kind `panes`, per key group: `pane end (8) · pane start (8) · key bytes · epoch (8)` → the accumulators' states in
//! Arrow's row format. Numbers are big endian with the sign bit flipped, so that bytes sort as numbers do. An entry may
//! have several rows, of different epochs; together they are its content. Rows live until the last window that holds
//! their pane has fired: the next barrier then deletes everything up to that pane's end, one range per key group.

use std::ops::ControlFlow;

use arrow::{
    array::ArrayRef,
    datatypes::DataType,
    row::{RowConverter, SortField},
};
use pelton_core::{
    error::{Result, RuntimeError},
    key_group::KeyGroup,
    position::Epoch,
    state::{StateHandle, StateKind, prefix_end},
};

use crate::{
    aggregates::Part,
    expressions::internal,
    groups::Groups,
    panes::{DIRTY, NONE, Pane, Panes},
};

/// Rows that are read or written at once.
const CHUNK: usize = 8192;

/// Layout and bookkeeping of the stored panes.
pub(crate) struct PaneStore {
    states: RowConverter,
    has_states: bool,
    /// Everything that ends at or before it is done with.
    horizon: i64,
    /// What the last barrier deleted ends here: nothing is written there any more.
    deleted_to: i64,
    /// Key groups that have such rows.
    doomed: Groups,
    /// Rows of paged panes are in the store only if they are of this epoch or an earlier one; later ones are those of
    /// entries in memory.
    paged_to: u64,
}

/// A stored row: whose it is and what it holds.
struct Stored {
    pane: Pane,
    key: Vec<u8>,
    epoch: u64,
    value: Vec<u8>,
}

impl PaneStore {
    pub(crate) fn new(state_types: Vec<DataType>) -> Result<Self> {
        let has_states = !state_types.is_empty();
        let fields = state_types.into_iter().map(SortField::new).collect();
        let states = RowConverter::new(fields).map_err(|error| internal("window state", &error))?;
        Ok(Self { states, has_states, horizon: i64::MIN, deleted_to: i64::MIN, doomed: Groups::default(), paged_to: u64::MAX })
    }

    /// Rows of a pane in these groups are needed no more.
    pub(crate) fn is_done(&mut self, pane: Pane, stored: &Groups) {
        self.horizon = self.horizon.max(pane.end);
        self.doomed.extend(stored);
    }

    /// Nothing of what has been written up to `epoch` is in memory.
    pub(crate) fn unloaded(&mut self, epoch: Epoch) {
        self.paged_to = epoch.0;
    }

    fn delete_done(&mut self, state: &mut StateHandle) {
        let doomed = std::mem::take(&mut self.doomed);
        if doomed.is_empty() {
            return;
        }
        // From the last deletion on: ranges that do not overlap are cheap for the store.
        let (from, end) = (sortable(self.deleted_to), self.horizon.checked_add(1).map(sortable));
        for group in doomed.iter() {
            state.delete_range(StateKind::Panes, group, &from, end.as_ref().map(<[u8; 8]>::as_slice));
        }
        self.deleted_to = self.horizon;
    }

    fn decode<'a>(&self, values: impl Iterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>> {
        if !self.has_states {
            return Ok(Vec::new());
        }
        let parser = self.states.parser();
        self.states.convert_rows(values.map(|value| parser.parse(value))).map_err(|error| internal("window state", &error))
    }
}

impl Panes {
    /// Writes what changed since the last barrier, and deletes what no window needs any more.
    pub(crate) fn write(&mut self, epoch: Epoch, state: &mut StateHandle) -> Result<()> {
        if self.store.paged_to == u64::MAX {
            // The first barrier of this run: what is paged was written by an earlier one.
            self.store.paged_to = epoch.0.saturating_sub(1);
        }
        self.store.delete_done(state);
        for (pane, place) in self.places() {
            let mut changed = std::mem::take(&mut self.entries_mut(place).changed);
            if changed.is_empty() {
                continue;
            }
            // In the order of the store: its writes are then cheap.
            let keys: Vec<u32> = changed.iter().map(|&entry| self.entries_mut(place).keys[entry as usize]).collect();
            let order = self.keys.order(&keys);
            changed = order.into_iter().map(|position| changed[position as usize]).collect();
            for chunk in changed.chunks(CHUNK) {
                self.write_entries(pane, place, chunk, epoch, state)?;
            }
        }
        Ok(())
    }

    fn write_entries(&mut self, pane: Pane, place: u32, changed: &[u32], epoch: Epoch, state: &mut StateHandle) -> Result<()> {
        let is_small = self.is_small;
        let entries = self.entries_mut(place);
        let keys: Vec<u32> = changed.iter().map(|&entry| entries.keys[entry as usize]).collect();
        let slots: Vec<u32> = changed.iter().map(|&entry| if is_small { entries.base[entry as usize] } else { entries.delta[entry as usize] }).collect();
        let mut epochs = vec![epoch.0; changed.len()];
        let (mut merges, mut merged) = (Vec::new(), Vec::new());
        for (index, &entry) in changed.iter().enumerate() {
            let entry = entry as usize;
            if is_small {
                if entries.stored_as[entry] == 0 {
                    entries.stored_as[entry] = epoch.0;
                }
                epochs[index] = entries.stored_as[entry];
            } else if entries.base[entry] == NONE {
                entries.base[entry] = entries.delta[entry];
            } else {
                merges.push((entries.base[entry], entries.delta[entry]));
                merged.push(entries.delta[entry]);
            }
            entries.delta[entry] = NONE;
        }
        let columns = self.set.state(&slots)?;
        let rows = if self.store.has_states { Some(self.store.states.convert_columns(&columns).map_err(|error| internal("window state", &error))?) } else { None };
        let mut suffix = Vec::new();
        let groups: Vec<KeyGroup> = keys.iter().map(|&id| self.keys.group(id)).collect();
        self.keys.stored_bytes(&keys, |index, key| {
            suffix_into(pane, key, epochs[index], &mut suffix);
            let value = rows.as_ref().map_or_else(Vec::new, |rows| rows.row(index).as_ref().to_vec());
            state.put(StateKind::Panes, groups[index], &suffix, value);
        })?;
        let stored = &mut self.entries_mut(place).stored;
        groups.into_iter().for_each(|group| stored.insert(group));
        self.set.merge(&merges, Part::All)?;
        self.set.release(&merged);
        Ok(())
    }

    /// Reads what the store has of a pane in one key group.
    pub(crate) fn read_pane(&mut self, group: KeyGroup, pane: Pane, state: &StateHandle) -> Result<Vec<(u32, u32)>> {
        let mut from = sortable(pane.end).to_vec();
        from.extend_from_slice(&sortable(pane.start));
        self.read(group, &from, Some(&after_pane(pane)), state)
    }

    /// Reads what the store has of panes that end in `(after, to]` in one key group.
    pub(crate) fn read_between(&mut self, group: KeyGroup, after: i64, to: i64, state: &StateHandle) -> Result<Vec<(u32, u32)>> {
        let end = to.checked_add(1).map(sortable);
        self.read(group, &sortable(after.saturating_add(1)), end.as_ref().map(<[u8; 8]>::as_slice), state)
    }

    /// Key and a slot of its own for each stored row. The caller gives both back with [`Panes::give_back`].
    fn read(&mut self, group: KeyGroup, from: &[u8], to: Option<&[u8]>, state: &StateHandle) -> Result<Vec<(u32, u32)>> {
        let mut read = Vec::new();
        let paged_to = self.store.paged_to;
        self.scan(group, from, to, state, &mut |panes, rows| {
            let rows: Vec<&Stored> = rows.iter().filter(|row| row.epoch <= paged_to).collect();
            let slots: Vec<u32> = rows.iter().map(|_| panes.set.allocate()).collect();
            let ids = panes.ids_of(group, rows.iter().map(|row| row.key.as_slice()))?;
            ids.iter().for_each(|&id| panes.keys.hold(id));
            let columns = panes.store.decode(rows.iter().map(|row| row.value.as_slice()))?;
            panes.set.merge_state(&slots, &columns)?;
            read.extend(ids.into_iter().zip(slots));
            Ok(())
        })?;
        Ok(read)
    }

    /// Releases what was read.
    pub(crate) fn give_back(&mut self, read: Vec<(u32, u32)>) {
        let slots: Vec<u32> = read.iter().map(|(_, slot)| *slot).collect();
        self.set.release(&slots);
        read.into_iter().for_each(|(id, _)| self.keys.let_go(id));
    }

    /// Notes which panes the store has, without reading them: all of them are paged.
    pub(crate) fn register(&mut self, state: &StateHandle) -> Result<()> {
        /// Rows of the same pane after which looking for the next pane is cheaper than going on.
        const PATIENCE: u32 = 64;
        for group in state.groups().map(KeyGroup) {
            let mut from: Vec<u8> = Vec::new();
            loop {
                let (mut panes, mut rows, mut is_end, mut fault) = (Vec::new(), 0, true, None);
                state.scan(StateKind::Panes, group, &from, None, &mut |suffix, _| {
                    match split(suffix) {
                        Ok((pane, ..)) if panes.last() == Some(&pane) => rows += 1,
                        Ok((pane, ..)) => {
                            panes.push(pane);
                            rows = 0;
                        }
                        Err(error) => fault = Some(error),
                    }
                    is_end = rows < PATIENCE && fault.is_none();
                    if is_end { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                })?;
                if let Some(error) = fault {
                    return Err(error);
                }
                for &pane in &panes {
                    self.page(pane, group);
                }
                match panes.last().filter(|_| !is_end) {
                    Some(pane) => from = after_pane(*pane),
                    None => break,
                }
            }
        }
        Ok(())
    }

    /// Reads everything back. `each` gets every stored row as key and slot, pane by pane. The entries of a key group are
    /// kept in memory if `keeps` says so at its beginning; else they stay paged.
    pub(crate) fn restore(
        &mut self,
        state: &mut StateHandle,
        keeps: impl Fn(&Self) -> bool,
        mut each: impl FnMut(&mut Self, Pane, &[(u32, u32)]) -> Result<()>,
    ) -> Result<()> {
        for group in state.groups().map(KeyGroup) {
            let is_kept = keeps(self);
            let mut doubles = Vec::new();
            self.scan(group, &[], None, state, &mut |panes, rows| {
                for rows in rows.chunk_by(|a, b| a.pane == b.pane) {
                    let pane = rows[0].pane;
                    let slots: Vec<u32> = rows.iter().map(|_| panes.set.allocate()).collect();
                    let ids = panes.ids_of(group, rows.iter().map(|row| row.key.as_slice()))?;
                    ids.iter().for_each(|&id| panes.keys.hold(id));
                    let columns = panes.store.decode(rows.iter().map(|row| row.value.as_slice()))?;
                    panes.set.merge_state(&slots, &columns)?;
                    let parts: Vec<(u32, u32)> = ids.iter().copied().zip(slots.iter().copied()).collect();
                    each(panes, pane, &parts)?;
                    if is_kept {
                        panes.keep(pane, group, rows, &parts, &mut doubles)?;
                    } else {
                        panes.page(pane, group);
                        panes.set.release(&slots);
                    }
                    ids.into_iter().for_each(|id| panes.keys.let_go(id));
                }
                Ok(())
            })?;
            doubles.iter().for_each(|suffix: &Vec<u8>| state.delete(StateKind::Panes, group, suffix));
        }
        Ok(())
    }

    /// Makes stored rows entries in memory. A small entry is one stored row: of further ones the key goes to `doubles`,
    /// and the next barrier writes the whole under the first.
    fn keep(&mut self, pane: Pane, group: KeyGroup, rows: &[Stored], parts: &[(u32, u32)], doubles: &mut Vec<Vec<u8>>) -> Result<()> {
        let place = self.place(pane);
        let (mut merges, mut merged) = (Vec::new(), Vec::new());
        for (row, &(id, slot)) in rows.iter().zip(parts) {
            let entry = self.entry(id, pane, place);
            let is_small = self.is_small;
            let entries = self.entries_mut(place);
            let base = &mut entries.base[entry as usize];
            if *base == NONE {
                *base = slot;
                if is_small {
                    entries.stored_as[entry as usize] = row.epoch;
                }
                continue;
            }
            merges.push((*base, slot));
            merged.push(slot);
            if is_small {
                if std::mem::replace(&mut entries.delta[entry as usize], DIRTY) == NONE {
                    entries.changed.push(entry);
                }
                doubles.push(suffix(pane, &row.key, row.epoch));
            }
        }
        self.entries_mut(place).stored.insert(group);
        self.set.merge(&merges, Part::All)?;
        self.set.release(&merged);
        Ok(())
    }

    /// Visits a group's rows with suffixes in `[from, to)`, many at once.
    fn scan(
        &mut self,
        group: KeyGroup,
        from: &[u8],
        to: Option<&[u8]>,
        state: &StateHandle,
        each: &mut dyn FnMut(&mut Self, &[Stored]) -> Result<()>,
    ) -> Result<()> {
        let (mut rows, mut fault) = (Vec::new(), None);
        state.scan(StateKind::Panes, group, from, to, &mut |suffix, value| {
            match split(suffix) {
                Ok((pane, key, epoch)) => rows.push(Stored { pane, key: key.to_vec(), epoch, value: value.to_vec() }),
                Err(error) => fault = Some(error),
            }
            if rows.len() >= CHUNK {
                if let Err(error) = each(self, &rows) {
                    fault = Some(error);
                }
                rows.clear();
            }
            if fault.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        match fault {
            Some(error) => Err(error),
            None if rows.is_empty() => Ok(()),
            None => each(self, &rows),
        }
    }

    fn ids_of<'a>(&mut self, group: KeyGroup, keys: impl Iterator<Item = &'a [u8]>) -> Result<Vec<u32>> {
        let keys: Vec<&[u8]> = keys.collect();
        let mut ids = Vec::new();
        self.keys.ids_of_stored(group, &keys, &mut ids)?;
        Ok(ids)
    }
}

/// The key of a stored row, without operator and key group.
fn suffix(pane: Pane, key: &[u8], epoch: u64) -> Vec<u8> {
    let mut suffix = Vec::with_capacity(24 + key.len());
    suffix_into(pane, key, epoch, &mut suffix);
    suffix
}

fn suffix_into(pane: Pane, key: &[u8], epoch: u64, suffix: &mut Vec<u8>) {
    suffix.clear();
    suffix.extend_from_slice(&sortable(pane.end));
    suffix.extend_from_slice(&sortable(pane.start));
    suffix.extend_from_slice(key);
    suffix.extend_from_slice(&epoch.to_be_bytes());
}

/// Pane, key bytes and epoch of a stored row.
fn split(suffix: &[u8]) -> Result<(Pane, &[u8], u64)> {
    let parts = suffix.split_first_chunk::<8>().and_then(|(end, rest)| {
        let (start, rest) = rest.split_first_chunk::<8>()?;
        let (key, epoch) = rest.split_last_chunk::<8>()?;
        Some((Pane { end: unsortable(*end), start: unsortable(*start) }, key, u64::from_be_bytes(*epoch)))
    });
    parts.ok_or_else(|| RuntimeError::Recovery("a stored pane has a key that is too short: the state is damaged or of another program".to_owned()))
}

/// Where the rows of the next pane begin.
fn after_pane(pane: Pane) -> Vec<u8> {
    let mut from = sortable(pane.end).to_vec();
    from.extend_from_slice(&sortable(pane.start));
    prefix_end(&from).unwrap_or(from)
}

/// A number as bytes that sort as the numbers do.
pub(crate) fn sortable(value: i64) -> [u8; 8] {
    (value as u64 ^ (1 << 63)).to_be_bytes()
}

/// The number that [`sortable`] wrote.
pub(crate) fn unsortable(bytes: [u8; 8]) -> i64 {
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

    #[test]
    fn stored_keys_come_back_and_sort_by_pane_then_key_then_epoch() {
        let pane = |end, start| Pane { end, start };
        let rows = [(pane(-5, -10), "b", 9), (pane(0, -5), "a", 1), (pane(0, -5), "a", 2), (pane(0, -5), "b", 0), (pane(10, 0), "a", 3), (pane(10, 5), "", 0)];
        let suffixes: Vec<_> = rows.iter().map(|(pane, key, epoch)| suffix(*pane, key.as_bytes(), *epoch)).collect();
        assert!(suffixes.is_sorted());
        for (suffix, (pane, key, epoch)) in suffixes.iter().zip(rows) {
            assert_eq!(split(suffix).expect("it is whole"), (pane, key.as_bytes(), epoch));
        }
        assert!(suffixes[5] < after_pane(pane(10, 5)) && after_pane(pane(10, 0)) <= suffixes[5]);
        assert!(split(b"short").is_err());
    }
}
