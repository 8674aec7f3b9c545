//! Panes: the partial aggregates of keys, pane by pane, and which of them changed since the last barrier.
//!
//! A pane is the stretch between two neighbouring window edges (a whole window for TUMBLE and attached windows). Each
//! key has an entry per pane in which it has rows. Promises: adding a row costs a lookup and no allocation once its
//! entry exists; a pane is dropped in the time of its entries; what is written at a barrier is what changed.
//!
//! Where all aggregates are small (a number each), an entry is one slot, written whole. Otherwise it is two: `base` is
//! what the last checkpoint has, `delta` what came since; a barrier writes the delta and merges it into the base.
//! Over the memory budget all entries are let go after a barrier: their panes are then *paged*, and read back when a
//! window needs them (`pane_store`). Rows that come for a paged pane make a new entry, stored beside the old one.

use std::collections::BTreeMap;

use arrow::{array::ArrayRef, datatypes::DataType};
use hashbrown::HashMap;
use pelton_core::{error::Result, key_group::KeyGroup, position::Epoch};

use crate::{
    aggregates::{AggregateCall, AggregateSet, Arguments, Part},
    groups::Groups,
    keys::KeyTable,
    pane_store::PaneStore,
};

/// A pane by its end, then its start: panes that end first come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Pane {
    pub(crate) end: i64,
    pub(crate) start: i64,
}

pub(crate) const NONE: u32 = u32::MAX;
/// Stands in `delta` of a small entry that changed since the last barrier.
pub(crate) const DIRTY: u32 = 0;

/// The entries of one pane, in the order they came; columns side by side.
#[derive(Default)]
pub(crate) struct PaneEntries {
    pub(crate) keys: Vec<u32>,
    pub(crate) base: Vec<u32>,
    pub(crate) delta: Vec<u32>,
    /// Small entries: the epoch they are stored under, 0 if they are not.
    pub(crate) stored_as: Vec<u64>,
    /// Entries that changed since the last barrier.
    pub(crate) changed: Vec<u32>,
    /// Key groups with rows of this pane in the store.
    pub(crate) stored: Groups,
    /// Those of them of which rows are not in memory.
    pub(crate) paged: Groups,
    /// Entry by key, made once a row comes for a pane that is not its key's newest.
    index: Option<HashMap<u32, u32>>,
}

/// A key's newest pane, where nearly all of its rows belong.
#[derive(Clone, Copy)]
struct Newest {
    end: i64,
    place: u32,
    entry: u32,
}

const NOWHERE: Newest = Newest { end: i64::MIN, place: NONE, entry: 0 };

/// A row of a pane that had entered a window's running value before the row came.
pub(crate) struct Latecomer {
    pub(crate) row: u32,
    pub(crate) key: u32,
}

/// All panes of a step on one worker.
pub(crate) struct Panes {
    pub(crate) keys: KeyTable,
    pub(crate) set: AggregateSet,
    pub(crate) store: PaneStore,
    pub(crate) is_small: bool,
    entries: Vec<PaneEntries>,
    free: Vec<u32>,
    by_pane: BTreeMap<Pane, u32>,
    /// By key id.
    newest: Vec<Newest>,
    entry_count: usize,
    /// Panes of which something is paged.
    paged_panes: usize,
    // Buffers.
    ids: Vec<u32>,
    slots: Vec<u32>,
}

impl Panes {
    pub(crate) fn new(key_types: &[DataType], calls: &[AggregateCall], counts_rows: bool, group_count: u16) -> Result<Self> {
        let set = AggregateSet::new(calls, counts_rows)?;
        Ok(Self {
            keys: KeyTable::new(key_types, group_count)?,
            store: PaneStore::new(set.state_types()?)?,
            is_small: set.is_small(),
            set,
            entries: Vec::new(),
            free: Vec::new(),
            by_pane: BTreeMap::new(),
            newest: Vec::new(),
            entry_count: 0,
            paged_panes: 0,
            ids: Vec::new(),
            slots: Vec::new(),
        })
    }

    /// Adds rows: each to the entry of its key and pane. Rows of panes that end at or before `entered` are told.
    pub(crate) fn add(&mut self, keys: &[ArrayRef], panes: &[Pane], arguments: &Arguments, entered: i64, latecomers: &mut Vec<Latecomer>) -> Result<()> {
        let mut ids = std::mem::take(&mut self.ids);
        self.keys.ids(keys, panes.len(), &mut ids)?;
        let mut slots = std::mem::take(&mut self.slots);
        slots.clear();
        let mut last: Option<(Pane, u32)> = None;
        for (row, (&id, &pane)) in ids.iter().zip(panes).enumerate() {
            let place = match last {
                Some((same, place)) if same == pane => place,
                _ => self.place(pane),
            };
            last = Some((pane, place));
            let entry = self.entry(id, pane, place);
            slots.push(self.slot_to_change(place, entry));
            if pane.end <= entered {
                latecomers.push(Latecomer { row: row as u32, key: id });
            }
        }
        self.ids = ids;
        let updated = self.set.update(&slots, arguments, Part::All);
        self.slots = slots;
        updated
    }

    /// Where a pane's entries stand; a new pane gets a place.
    pub(crate) fn place(&mut self, pane: Pane) -> u32 {
        if let Some(place) = self.by_pane.get(&pane) {
            return *place;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.entries.push(PaneEntries::default());
            self.entries.len() as u32 - 1
        });
        self.by_pane.insert(pane, place);
        place
    }

    /// The entry of a key in a pane, made if there is none.
    pub(crate) fn entry(&mut self, id: u32, pane: Pane, place: u32) -> u32 {
        if self.newest.len() <= id as usize {
            self.newest.resize(self.keys.capacity(), NOWHERE);
        }
        let newest = &mut self.newest[id as usize];
        if newest.place == place && newest.end == pane.end {
            return newest.entry;
        }
        let entries = &mut self.entries[place as usize];
        if newest.place == NONE || newest.end < pane.end {
            // The key's first row in a pane newer than all it had: there is no entry yet.
            *newest = Newest { end: pane.end, place, entry: entries.keys.len() as u32 };
        } else {
            let index = entries.index.get_or_insert_with(|| entries.keys.iter().enumerate().map(|(entry, id)| (*id, entry as u32)).collect());
            if let Some(entry) = index.get(&id) {
                return *entry;
            }
        }
        let entry = entries.keys.len() as u32;
        entries.keys.push(id);
        entries.base.push(NONE);
        entries.delta.push(NONE);
        if self.is_small {
            entries.stored_as.push(0);
        }
        if let Some(index) = &mut entries.index {
            index.insert(id, entry);
        }
        self.keys.hold(id);
        self.entry_count += 1;
        entry
    }

    /// The slot that a row of an entry goes to; the entry counts as changed.
    fn slot_to_change(&mut self, place: u32, entry: u32) -> u32 {
        let entries = &mut self.entries[place as usize];
        let (base, delta) = (&mut entries.base[entry as usize], &mut entries.delta[entry as usize]);
        let is_first = *delta == NONE;
        if is_first {
            entries.changed.push(entry);
        }
        if self.is_small {
            *delta = DIRTY;
            if *base == NONE {
                *base = self.set.allocate();
            }
            return *base;
        }
        if is_first {
            *delta = self.set.allocate();
        }
        *delta
    }

    /// The first pane that ends at or after `end`.
    pub(crate) fn first_from(&self, end: i64) -> Option<Pane> {
        self.by_pane.range(Pane { end, start: i64::MIN }..).next().map(|(pane, _)| *pane)
    }

    /// Panes that end in `(after, to]`, first the first.
    pub(crate) fn between(&self, after: i64, to: i64) -> Vec<Pane> {
        if after >= to {
            return Vec::new();
        }
        let from = Pane { end: after.saturating_add(1), start: i64::MIN };
        self.by_pane.range(from..=Pane { end: to, start: i64::MAX }).map(|(pane, _)| *pane).collect()
    }

    pub(crate) fn entries(&self, pane: Pane) -> Option<&PaneEntries> {
        self.by_pane.get(&pane).map(|place| &self.entries[*place as usize])
    }

    pub(crate) fn entries_mut(&mut self, place: u32) -> &mut PaneEntries {
        &mut self.entries[place as usize]
    }

    /// All panes and where their entries stand.
    pub(crate) fn places(&self) -> Vec<(Pane, u32)> {
        self.by_pane.iter().map(|(pane, place)| (*pane, *place)).collect()
    }

    /// Whether something is not in memory.
    pub(crate) fn is_paged(&self) -> bool {
        self.paged_panes > 0
    }

    /// Notes that rows of a pane in this key group are in the store only.
    pub(crate) fn page(&mut self, pane: Pane, group: KeyGroup) {
        let place = self.place(pane);
        let entries = &mut self.entries[place as usize];
        self.paged_panes += usize::from(entries.paged.is_empty());
        entries.stored.insert(group);
        entries.paged.insert(group);
    }

    /// The entries of a few keys in a pane.
    pub(crate) fn find(&mut self, place: u32, keys: &[u32], mut each: impl FnMut(u32, u32)) {
        let entries = &mut self.entries[place as usize];
        if entries.keys.is_empty() {
            return;
        }
        let index = entries.index.get_or_insert_with(|| entries.keys.iter().enumerate().map(|(entry, id)| (*id, entry as u32)).collect());
        for &id in keys {
            if let Some(entry) = index.get(&id) {
                each(id, *entry);
            }
        }
    }

    /// The slots of an entry.
    pub(crate) fn parts_of(&self, place: u32, entry: u32) -> impl Iterator<Item = u32> {
        let entries = &self.entries[place as usize];
        let delta = if self.is_small { NONE } else { entries.delta[entry as usize] };
        [entries.base[entry as usize], delta].into_iter().filter(|slot| *slot != NONE)
    }

    /// Key and slot of each thing a pane holds in memory: bases, then deltas.
    pub(crate) fn parts(&self, pane: Pane) -> impl Iterator<Item = (u32, u32)> {
        let is_small = self.is_small;
        self.entries(pane).into_iter().flat_map(move |entries| {
            let bases = entries.keys.iter().copied().zip(entries.base.iter().copied());
            let deltas = entries.keys.iter().copied().zip(entries.delta.iter().copied()).filter(move |_| !is_small);
            bases.chain(deltas).filter(|(_, slot)| *slot != NONE)
        })
    }

    /// Drops a pane: no window needs it any more, nor its rows in the store.
    pub(crate) fn drop_pane(&mut self, pane: Pane) {
        let Some(place) = self.by_pane.remove(&pane) else { return };
        self.let_entries_go(place);
        let stored = std::mem::take(&mut self.entries[place as usize].stored);
        let paged = std::mem::take(&mut self.entries[place as usize].paged);
        self.paged_panes -= usize::from(!paged.is_empty());
        self.free.push(place);
        self.store.is_done(pane, &stored);
    }

    /// Lets all entries go, right after `epoch` was written: their panes are paged from now on.
    pub(crate) fn unload(&mut self, epoch: Epoch) {
        self.paged_panes = 0;
        for (_, place) in self.places() {
            self.let_entries_go(place);
            let entries = &mut self.entries[place as usize];
            entries.paged.extend(&entries.stored);
            self.paged_panes += usize::from(!entries.paged.is_empty());
        }
        self.store.unloaded(epoch);
        self.newest = Vec::new();
        self.ids = Vec::new();
        self.slots = Vec::new();
    }

    fn let_entries_go(&mut self, place: u32) {
        let entries = &mut self.entries[place as usize];
        let keys = std::mem::take(&mut entries.keys);
        let mut slots = std::mem::take(&mut entries.base);
        slots.extend(std::mem::take(&mut entries.delta).into_iter().filter(|_| !self.is_small));
        slots.retain(|slot| *slot != NONE);
        entries.stored_as = Vec::new();
        entries.changed = Vec::new();
        entries.index = None;
        self.entry_count -= keys.len();
        self.set.release(&slots);
        for &id in &keys {
            if let Some(newest) = self.newest.get_mut(id as usize).filter(|newest| newest.place == place) {
                *newest = NOWHERE;
            }
        }
        self.keys.let_all_go(&keys);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let entry = if self.is_small { 20 } else { 12 };
        let panes = self.entries.capacity() * size_of::<PaneEntries>();
        self.entry_count * entry + self.newest.capacity() * size_of::<Newest>() + panes + self.keys.memory_bytes() + self.set.memory_bytes()
    }
}
