//! Rows that wait in a join: in memory as batches, in state as bytes.
//!
//! A waiting row is a place in a batch that lives as long as one of its rows does. In state (kind `join-rows`), per key
//! group: `side (1) · time (8, sortable) · epoch (8) · number (4)` → `matched (1) · row` in Arrow's row format. Times
//! come before everything that is random, so that what a watermark makes useless is one range per side and key group.

use std::{collections::BTreeMap, ops::ControlFlow};

use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::SchemaRef,
    row::{RowConverter, SortField},
};
use pelton_core::{
    error::Result,
    key_group::{KeyGroup, hash_rows},
    position::Epoch,
    state::{StateHandle, StateKind},
};

use crate::{expressions::internal, panes::sortable};

/// A row in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) batch: u32,
    pub(crate) row: u32,
}

/// Batches by number, kept while rows of them wait.
#[derive(Default)]
pub(crate) struct Batches {
    held: Vec<Option<(RecordBatch, u32)>>,
    free: Vec<u32>,
    bytes: usize,
}

impl Batches {
    /// Keeps a batch of which `rows` rows wait.
    pub(crate) fn insert(&mut self, batch: RecordBatch, rows: u32) -> u32 {
        self.bytes += batch.get_array_memory_size();
        match self.free.pop() {
            Some(number) => {
                self.held[number as usize] = Some((batch, rows));
                number
            }
            None => {
                self.held.push(Some((batch, rows)));
                self.held.len() as u32 - 1
            }
        }
    }

    /// One row of a batch waits no more.
    pub(crate) fn release(&mut self, number: u32) {
        let Some(slot) = self.held.get_mut(number as usize) else { return };
        let Some((batch, rows)) = slot else { return };
        *rows -= 1;
        if *rows == 0 {
            self.bytes -= batch.get_array_memory_size();
            *slot = None;
            self.free.push(number);
        }
    }

    pub(crate) fn get(&self, number: u32) -> Option<&RecordBatch> {
        self.held.get(number as usize).and_then(|slot| slot.as_ref()).map(|(batch, _)| batch)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// Rows at places as one batch.
    pub(crate) fn gather(&self, places: &[Place], schema: &SchemaRef) -> Result<RecordBatch> {
        let mut numbers: BTreeMap<u32, usize> = BTreeMap::new();
        let mut batches = Vec::new();
        let indices: Vec<(usize, usize)> = places
            .iter()
            .map(|place| {
                let index = *numbers.entry(place.batch).or_insert_with(|| {
                    batches.extend(self.get(place.batch));
                    batches.len() - 1
                });
                (index, place.row as usize)
            })
            .collect();
        if batches.is_empty() {
            return Ok(RecordBatch::new_empty(std::sync::Arc::clone(schema)));
        }
        arrow::compute::interleave_record_batch(&batches, &indices).map_err(|error| internal("join", &error))
    }
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
        Ok(Self { converter, schema: std::sync::Arc::clone(schema) })
    }

    /// Each row's bytes, with a byte for "matched" in front.
    pub(crate) fn encode(&self, batch: &RecordBatch, matched: &[bool]) -> Result<Vec<Vec<u8>>> {
        let rows = self.converter.convert_columns(batch.columns()).map_err(|error| internal("join state", &error))?;
        Ok(rows
            .iter()
            .zip(matched)
            .map(|(row, &matched)| {
                let mut bytes = Vec::with_capacity(row.as_ref().len() + 1);
                bytes.push(u8::from(matched));
                bytes.extend_from_slice(row.as_ref());
                bytes
            })
            .collect())
    }

    /// Rows and their "matched" flags.
    pub(crate) fn decode(&self, values: &[Vec<u8>]) -> Result<(RecordBatch, Vec<bool>)> {
        let parser = self.converter.parser();
        let matched = values.iter().map(|value| value.first() == Some(&1)).collect();
        let rows = values.iter().map(|value| parser.parse(value.get(1..).unwrap_or_default()));
        let columns = self.converter.convert_rows(rows).map_err(|error| internal("join state", &error))?;
        let batch = RecordBatch::try_new(std::sync::Arc::clone(&self.schema), columns).map_err(|error| internal("join state", &error))?;
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

/// The suffix of a stored row.
pub(crate) fn suffix(side: u8, time: i64, epoch: Epoch, number: u32) -> Vec<u8> {
    let mut suffix = vec![side];
    suffix.extend_from_slice(&sortable(time));
    suffix.extend_from_slice(&epoch.0.to_be_bytes());
    suffix.extend_from_slice(&number.to_be_bytes());
    suffix
}

/// Deletes stored rows of a side whose time is below `before`.
pub(crate) fn delete_before(state: &mut StateHandle, group: KeyGroup, side: u8, before: i64) {
    let mut end = vec![side];
    end.extend_from_slice(&sortable(before));
    state.delete_range(StateKind::JoinRows, group, &[side], Some(&end));
}

/// A stored row: side, the suffix it stands under, its value.
pub(crate) struct Stored {
    pub(crate) side: u8,
    pub(crate) group: KeyGroup,
    pub(crate) suffix: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// All stored rows of this worker's key groups, those that came first of a side and time first.
pub(crate) fn stored(state: &StateHandle, mut each: impl FnMut(Stored) -> Result<()>) -> Result<()> {
    for group in state.groups() {
        let group = KeyGroup(group);
        let mut fault = None;
        state.scan(StateKind::JoinRows, group, &[], None, &mut |suffix, value| {
            let Some(&side) = suffix.first() else { return ControlFlow::Continue(()) };
            match each(Stored { side, group, suffix: suffix.to_vec(), value: value.to_vec() }) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    fault = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        if let Some(error) = fault {
            return Err(error);
        }
    }
    Ok(())
}
