//! The rows of one side that wait in an interval join: by key, in time order, in memory and in state.
//!
//! Promises: finding the partners of a row costs a search among its key's waiting rows and no more; rows leave in time
//! order. Over the memory budget rows themselves are let go, and read back one by one when they are needed: what stays
//! is a few numbers a row.

use std::collections::{BTreeMap, VecDeque};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use hashbrown::HashSet;
use pelton_core::{
    error::Result,
    position::Epoch,
    state::{StateHandle, StateKind},
};

use crate::{
    expressions::internal,
    keys::KeyTable,
    rows::{Batches, Place, RowCodec, StoredAt},
};

/// A row that waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) time: i64,
    /// Where it is in memory; its batch is [`ABSENT`] if it is in state only.
    pub(crate) place: Place,
    /// The epoch it is stored under, 0 if it is not.
    pub(crate) epoch: u64,
    pub(crate) number: u32,
    pub(crate) matched: bool,
    /// In state it stands as not matched.
    pub(crate) is_dirty: bool,
}

/// The batch of a row that is in state only.
pub(crate) const ABSENT: u32 = u32::MAX;

/// Rows that are read or written at once.
pub(crate) const CHUNK: usize = 8192;

/// One side's rows.
pub(crate) struct Waiting {
    // Fixed at start.
    side: u8,
    schema: SchemaRef,
    codec: RowCodec,
    // Changing.
    pub(crate) batches: Batches,
    /// By key id; each key's rows by time, equal ones as they came.
    rows: Vec<VecDeque<Row>>,
    count: usize,
    /// Keys of rows by time: whom to look at when the watermark moves.
    by_time: BTreeMap<i64, Vec<u32>>,
    /// Keys with rows that are not in state as they are now.
    changed: HashSet<u32>,
}

impl Waiting {
    pub(crate) fn new(side: u8, schema: &SchemaRef) -> Result<Self> {
        Ok(Self {
            side,
            schema: SchemaRef::clone(schema),
            codec: RowCodec::new(schema)?,
            batches: Batches::default(),
            rows: Vec::new(),
            count: 0,
            by_time: BTreeMap::new(),
            changed: HashSet::new(),
        })
    }

    pub(crate) fn grow(&mut self, keys: usize) {
        if self.rows.len() < keys {
            self.rows.resize_with(keys, VecDeque::new);
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.batches.memory_bytes() + self.count * (size_of::<Row>() + 16) + self.rows.capacity() * size_of::<VecDeque<Row>>()
    }

    /// Lets a row wait. The caller holds its key.
    pub(crate) fn insert(&mut self, id: u32, row: Row) {
        self.by_time.entry(row.time).or_default().push(id);
        if row.epoch == 0 {
            self.changed.insert(id);
        }
        self.count += 1;
        let rows = &mut self.rows[id as usize];
        // Rows come roughly in time order: nearly always at the end.
        if rows.back().is_none_or(|last| last.time <= row.time) {
            rows.push_back(row);
        } else {
            let index = rows.partition_point(|other| other.time <= row.time);
            rows.insert(index, row);
        }
    }

    /// Indexes of a key's rows with times in `[from, to]`.
    pub(crate) fn between(&self, id: u32, from: i64, to: i64) -> std::ops::Range<usize> {
        let rows = &self.rows[id as usize];
        if rows.is_empty() || from > to {
            return 0..0;
        }
        rows.partition_point(|row| row.time < from)..rows.partition_point(|row| row.time <= to)
    }

    pub(crate) fn row(&self, id: u32, index: usize) -> Row {
        self.rows[id as usize][index]
    }

    /// A row has found a partner; whether it had one must be known if its side is kept.
    pub(crate) fn mark_matched(&mut self, id: u32, index: usize, is_kept: bool) {
        let row = &mut self.rows[id as usize][index];
        if !std::mem::replace(&mut row.matched, true) && is_kept && row.epoch != 0 {
            row.is_dirty = true;
            self.changed.insert(id);
        }
    }

    /// Rows at or before the last time that `is_done` leave: their keys, first by time, then by key.
    pub(crate) fn take_done(&mut self, keys: &KeyTable, is_done: impl Fn(i64) -> bool) -> Vec<(u32, Row)> {
        let mut gone = Vec::new();
        while let Some(entry) = self.by_time.first_entry() {
            let time = *entry.key();
            if !is_done(time) {
                break;
            }
            let mut ids = entry.remove();
            ids.sort_unstable_by(|a, b| keys.compare(*a, *b));
            ids.dedup();
            for id in ids {
                let rows = &mut self.rows[id as usize];
                while let Some(row) = rows.pop_front_if(|row| row.time <= time) {
                    gone.push((id, row));
                }
                if rows.is_empty() {
                    // Keys come and go: nothing of theirs stays.
                    *rows = VecDeque::new();
                }
            }
        }
        self.count -= gone.len();
        gone
    }

    /// Rows as a batch, from memory and from state.
    pub(crate) fn gather(&self, rows: &[(u32, Row)], keys: &KeyTable, state: &StateHandle) -> Result<RecordBatch> {
        let absent: Vec<usize> = (0..rows.len()).filter(|&index| rows[index].1.place.batch == ABSENT).collect();
        if absent.is_empty() {
            let places: Vec<Place> = rows.iter().map(|(_, row)| row.place).collect();
            return self.batches.gather(&places, &self.schema);
        }
        let mut values = Vec::with_capacity(absent.len());
        for &index in &absent {
            let (id, row) = rows[index];
            let value = state.get(StateKind::JoinRows, keys.group(id), &self.stored_at(&row).to_bytes())?;
            values.push(value.ok_or_else(|| internal("interval join", &"a row that waits is not in state"))?);
        }
        let (read, _) = self.codec.decode(values.iter().map(Vec::as_slice))?;
        let present: Vec<Place> = rows.iter().map(|(_, row)| row.place).filter(|place| place.batch != ABSENT).collect();
        let present = self.batches.gather(&present, &self.schema)?;
        // Back into the order asked for.
        let (mut next_present, mut next_read) = (0, 0);
        let order: Vec<(usize, usize)> = rows
            .iter()
            .map(|(_, row)| {
                let (batch, next) = if row.place.batch == ABSENT { (1, &mut next_read) } else { (0, &mut next_present) };
                *next += 1;
                (batch, *next - 1)
            })
            .collect();
        arrow::compute::interleave_record_batch(&[&present, &read], &order).map_err(|error| internal("interval join", &error))
    }

    fn stored_at(&self, row: &Row) -> StoredAt {
        StoredAt { side: self.side, time: row.time, epoch: row.epoch, number: row.number }
    }

    /// Writes the rows that changed since the last barrier; gives the key groups it wrote to.
    pub(crate) fn write(&mut self, epoch: Epoch, number: &mut u32, keys: &KeyTable, state: &mut StateHandle) -> Result<Vec<u16>> {
        let mut wanted: Vec<(u32, usize)> = Vec::new();
        for id in self.changed.drain() {
            let rows = self.rows[id as usize].iter().enumerate();
            wanted.extend(rows.filter(|(_, row)| row.epoch == 0 || row.is_dirty).map(|(index, _)| (id, index)));
        }
        // By key and time, whatever the order of the set: numbers then do not depend on it.
        wanted.sort_unstable_by(|a, b| keys.compare(a.0, b.0).then(a.1.cmp(&b.1)));
        let mut groups = Vec::new();
        for chunk in wanted.chunks(CHUNK) {
            let rows: Vec<(u32, Row)> = chunk.iter().map(|&(id, index)| (id, self.row(id, index))).collect();
            let batch = self.gather(&rows, keys, state)?;
            let values = self.codec.encode(&batch, rows.iter().map(|(_, row)| row.matched))?;
            for (&(id, index), value) in chunk.iter().zip(values) {
                let row = &mut self.rows[id as usize][index];
                if row.epoch == 0 {
                    row.epoch = epoch.0;
                    row.number = *number;
                    *number = number.wrapping_add(1);
                }
                row.is_dirty = false;
                let at = StoredAt { side: self.side, time: row.time, epoch: row.epoch, number: row.number };
                let group = keys.group(id);
                state.put(StateKind::JoinRows, group, &at.to_bytes(), value);
                groups.push(group.0);
            }
            groups.sort_unstable();
            groups.dedup();
        }
        Ok(groups)
    }

    /// Lets the rows themselves go, right after a barrier wrote them: from now on they are in state only.
    pub(crate) fn unload(&mut self) {
        self.rows.iter_mut().flatten().for_each(|row| row.place.batch = ABSENT);
        self.batches = Batches::default();
    }

    /// A row has left: its batch is needed by one less.
    pub(crate) fn release(&mut self, row: &Row) {
        if row.place.batch != ABSENT {
            self.batches.release(row.place.batch);
        }
    }

    /// Rows that state stored, and whether each had a partner.
    pub(crate) fn decode(&self, values: &[Vec<u8>]) -> Result<(RecordBatch, Vec<bool>)> {
        self.codec.decode(values.iter().map(Vec::as_slice))
    }
}
