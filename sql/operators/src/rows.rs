//! Rows that wait in a join: in memory as batches, in state as bytes.
//!
//! A waiting row is a place in a batch that lives as long as one of its rows does. In state (kind `join-rows`), per key
//! group: `side (1) · time (8, sortable) · epoch (8) · number (4)` → `matched (1) · row` in Arrow's row format. Times
//! come before everything that is random, so that what a watermark makes useless is one range per side and key group.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions},
    compute::interleave_record_batch,
    datatypes::SchemaRef,
    row::{RowConverter, SortField},
};
use pelton_core::{
    error::{Result, RuntimeError},
    key_group::{KeyGroup, hash_rows},
    state::{StateHandle, StateKind},
};

use crate::{
    expressions::internal,
    keys::normalised,
    pane_store::{sortable, unsortable},
};

/// A row in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) batch: u32,
    pub(crate) row: u32,
}

/// Batches by number, kept while rows of them wait.
#[derive(Default)]
pub(crate) struct Batches {
    held: Vec<Option<Held>>,
    free: Vec<u32>,
    bytes: usize,
}

struct Held {
    batch: RecordBatch,
    rows: u32,
    bytes: usize,
}

impl Batches {
    /// Keeps a batch of which `rows` rows wait.
    pub(crate) fn insert(&mut self, batch: RecordBatch, rows: u32) -> u32 {
        let bytes = bytes_of(&batch);
        self.bytes += bytes;
        let held = Some(Held { batch, rows, bytes });
        match self.free.pop() {
            Some(number) => {
                self.held[number as usize] = held;
                number
            }
            None => {
                self.held.push(held);
                self.held.len() as u32 - 1
            }
        }
    }

    /// One row of a batch waits no more.
    pub(crate) fn release(&mut self, number: u32) {
        let Some(slot) = self.held.get_mut(number as usize) else { return };
        let Some(held) = slot else { return };
        held.rows -= 1;
        if held.rows == 0 {
            self.bytes -= held.bytes;
            *slot = None;
            self.free.push(number);
        }
    }

    pub(crate) fn get(&self, number: u32) -> Option<&RecordBatch> {
        self.held.get(number as usize).and_then(|slot| slot.as_ref()).map(|held| &held.batch)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// Rows at places as one batch.
    pub(crate) fn gather(&self, places: &[Place], schema: &SchemaRef) -> Result<RecordBatch> {
        let mut numbers: BTreeMap<u32, usize> = BTreeMap::new();
        let mut batches = Vec::new();
        let mut indices = Vec::with_capacity(places.len());
        for place in places {
            let index = match numbers.get(&place.batch) {
                Some(index) => *index,
                None => {
                    batches.push(self.get(place.batch).ok_or_else(|| internal("join", &"a waiting row is gone"))?);
                    numbers.insert(place.batch, batches.len() - 1);
                    batches.len() - 1
                }
            };
            indices.push((index, place.row as usize));
        }
        if batches.is_empty() {
            return Ok(RecordBatch::new_empty(Arc::clone(schema)));
        }
        interleave_record_batch(&batches, &indices).map_err(|error| internal("join", &error))
    }
}

/// What a batch's own rows take: buffers it shares with others are counted by its part of them.
pub(crate) fn bytes_of(batch: &RecordBatch) -> usize {
    let column = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size());
    batch.columns().iter().map(column).sum::<usize>() + 128
}

/// Rows of one side as bytes and back.
pub(crate) struct RowCodec {
    converter: RowConverter,
    schema: SchemaRef,
}

impl RowCodec {
    pub(crate) fn new(schema: &SchemaRef) -> Result<Self> {
        let fields = schema.fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
        let converter = RowConverter::new(fields).map_err(|error| internal("join state", &error))?;
        Ok(Self { converter, schema: Arc::clone(schema) })
    }

    /// Each row's bytes, with a byte for "matched" in front.
    pub(crate) fn encode(&self, batch: &RecordBatch, matched: impl Iterator<Item = bool>) -> Result<Vec<Vec<u8>>> {
        let rows = self.converter.convert_columns(batch.columns()).map_err(|error| internal("join state", &error))?;
        Ok(rows
            .iter()
            .zip(matched)
            .map(|(row, matched)| {
                let mut bytes = Vec::with_capacity(row.as_ref().len() + 1);
                bytes.push(u8::from(matched));
                bytes.extend_from_slice(row.as_ref());
                bytes
            })
            .collect())
    }

    /// Rows and their "matched" flags.
    pub(crate) fn decode<'a>(&self, values: impl ExactSizeIterator<Item = &'a [u8]> + Clone) -> Result<(RecordBatch, Vec<bool>)> {
        let parser = self.converter.parser();
        let count = values.len();
        let matched = values.clone().map(|value| value.first() == Some(&1)).collect();
        let rows = values.map(|value| parser.parse(value.get(1..).unwrap_or_default()));
        let columns = self.converter.convert_rows(rows).map_err(|error| internal("join state", &error))?;
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options).map_err(|error| internal("join state", &error))?;
        Ok((batch, matched))
    }
}

/// Key groups of rows by their key columns, as the exchange in front computes them.
pub(crate) fn groups_of(keys: &[ArrayRef], rows: usize, group_count: u16) -> Vec<KeyGroup> {
    if keys.is_empty() {
        return vec![KeyGroup(0); rows];
    }
    let mut hashes = Vec::new();
    hash_rows(keys, rows, &mut hashes);
    hashes.into_iter().map(|hash| KeyGroup::of_hash(hash, group_count)).collect()
}

/// Keys as bytes that are equal when the keys are.
pub(crate) fn key_rows(converter: &RowConverter, keys: &[ArrayRef]) -> Result<arrow::row::Rows> {
    let keys: Vec<ArrayRef> = keys.iter().map(normalised).collect();
    converter.convert_columns(&keys).map_err(|error| internal("join", &error))
}

/// Where a stored row stands in its key group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StoredAt {
    pub(crate) side: u8,
    pub(crate) time: i64,
    pub(crate) epoch: u64,
    pub(crate) number: u32,
}

impl StoredAt {
    pub(crate) fn to_bytes(self) -> [u8; 21] {
        let mut suffix = [0; 21];
        suffix[0] = self.side;
        suffix[1..9].copy_from_slice(&sortable(self.time));
        suffix[9..17].copy_from_slice(&self.epoch.to_be_bytes());
        suffix[17..].copy_from_slice(&self.number.to_be_bytes());
        suffix
    }

    fn from_bytes(suffix: &[u8]) -> Option<Self> {
        let (side, rest) = suffix.split_first()?;
        let (time, rest) = rest.split_first_chunk::<8>()?;
        let (epoch, rest) = rest.split_first_chunk::<8>()?;
        let number = rest.try_into().ok().map(u32::from_be_bytes)?;
        (*side < 2).then_some(Self { side: *side, time: unsortable(*time), epoch: u64::from_be_bytes(*epoch), number })
    }
}

/// Deletes stored rows of a side with times in `[from, before)`.
pub(crate) fn delete_between(state: &mut StateHandle, group: KeyGroup, side: u8, from: i64, before: i64) {
    let at = |time: i64| {
        let mut suffix = vec![side];
        suffix.extend_from_slice(&sortable(time));
        suffix
    };
    state.delete_range(StateKind::JoinRows, group, &at(from), Some(&at(before)));
}

/// Visits stored rows of a key group: all of them, or those of one side and time.
pub(crate) fn stored(state: &StateHandle, group: KeyGroup, only: Option<(u8, i64)>, mut each: impl FnMut(StoredAt, &[u8]) -> Result<()>) -> Result<()> {
    let damaged = || RuntimeError::Recovery("a stored row of a join has a key that cannot be: the state is damaged or of another program".to_owned());
    let mut from = Vec::new();
    if let Some((side, time)) = only {
        from.push(side);
        from.extend_from_slice(&sortable(time));
    }
    let to = only.and_then(|_| pelton_core::state::prefix_end(&from));
    let mut fault = None;
    state.scan(StateKind::JoinRows, group, &from, to.as_deref(), &mut |suffix, value| {
        match StoredAt::from_bytes(suffix).ok_or_else(damaged).and_then(|at| each(at, value)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                fault = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    fault.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_state_come_back_and_sort_by_side_time_epoch_number() {
        let at = |side, time, epoch, number| StoredAt { side, time, epoch, number };
        let places = [at(0, i64::MIN, 9, 9), at(0, -1, 0, 0), at(0, 0, 1, 2), at(0, 0, 1, 3), at(0, 0, 2, 0), at(0, i64::MAX, 0, 0), at(1, i64::MIN, 0, 0)];
        let bytes: Vec<_> = places.iter().map(|place| place.to_bytes()).collect();
        assert!(bytes.is_sorted());
        assert!(bytes.iter().zip(places).all(|(bytes, place)| StoredAt::from_bytes(bytes) == Some(place)));
        assert_eq!(StoredAt::from_bytes(&bytes[0][1..]), None);
    }
}
