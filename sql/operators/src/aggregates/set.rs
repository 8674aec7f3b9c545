//! All aggregates of a step over the same slots.
//!
//! A slot is a number; each aggregate keeps its accumulators in a column addressed by it. Empty slots are used again.

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, UInt32Array},
    compute::take,
    datatypes::{DataType, Int64Type},
};
use pelton_core::error::Result;

use super::{AggregateCall, SlotAggregate, accumulators, count::Count};
use crate::expressions::{evaluate, internal};

/// Which aggregates of a set an operation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    All,
    /// Those from which what was added can be taken away again.
    Linear,
    /// The others.
    Rest,
}

/// The accumulators of a step.
pub(crate) struct AggregateSet {
    calls: Vec<AggregateCall>,
    columns: Vec<Box<dyn SlotAggregate>>,
    /// Whether the last column counts all rows: it is no result, but says when a slot is empty.
    counts_rows: bool,
    free: Vec<u32>,
    /// Slots below it have been given.
    slots: u32,
    /// Slots for which the columns have room.
    room: u32,
}

/// Arguments and filters of a batch, evaluated.
pub(crate) struct Arguments {
    args: Vec<Vec<ArrayRef>>,
    keep: Vec<Option<BooleanArray>>,
}

impl Arguments {
    /// Those of some of the rows.
    pub(crate) fn of_rows(&self, rows: &UInt32Array) -> Result<Self> {
        let fault = |error| internal("aggregate", &error);
        let pick = |array: &dyn Array| take(array, rows, None).map_err(fault);
        let args = self.args.iter().map(|args| args.iter().map(|arg| pick(arg.as_ref())).collect()).collect::<Result<_>>()?;
        let keep = self.keep.iter().map(|keep| keep.as_ref().map(|keep| Ok(pick(keep)?.as_boolean().clone())).transpose()).collect::<Result<_>>()?;
        Ok(Self { args, keep })
    }
}

impl AggregateSet {
    /// With `counts_rows` a slot knows how many rows it has seen.
    pub(crate) fn new(calls: &[AggregateCall], counts_rows: bool) -> Result<Self> {
        let mut columns = calls.iter().map(accumulators).collect::<Result<Vec<_>>>()?;
        if counts_rows {
            columns.push(Box::new(Count::default()));
        }
        Ok(Self { calls: calls.to_vec(), columns, counts_rows, free: Vec::new(), slots: 0, room: 0 })
    }

    /// How many rows each slot has seen.
    pub(crate) fn rows(&mut self, slots: &[u32]) -> Result<Int64Array> {
        match self.columns.last_mut().filter(|_| self.counts_rows) {
            Some(rows) => Ok(rows.evaluate(slots, false)?.as_primitive::<Int64Type>().clone()),
            None => Ok(Int64Array::from(vec![1; slots.len()])),
        }
    }

    /// Whether there is an aggregate of this part.
    pub(crate) fn has(&self, part: Part) -> bool {
        self.columns.iter().any(|column| is_of(column.as_ref(), part))
    }

    /// Whether all that a slot holds is about as large as a row.
    pub(crate) fn is_small(&self) -> bool {
        self.columns.iter().all(|column| column.is_small())
    }

    /// An empty slot.
    pub(crate) fn allocate(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        if self.slots == self.room {
            self.room = (self.room * 2).max(64);
            let room = self.room as usize;
            self.columns.iter_mut().for_each(|column| column.grow(room));
        }
        self.slots += 1;
        self.slots - 1
    }

    /// Empties slots and lets them be used again.
    pub(crate) fn release(&mut self, slots: &[u32]) {
        self.columns.iter_mut().for_each(|column| column.clear(slots));
        self.free.extend_from_slice(slots);
        if self.free.len() == self.slots as usize {
            self.forget_all();
        }
    }

    /// Nothing is held: memory goes back.
    fn forget_all(&mut self) {
        const WORTH_IT: usize = 1 << 12;
        if self.free.len() > WORTH_IT
            && let Ok(fresh) = Self::new(&self.calls, self.counts_rows)
        {
            *self = fresh;
        }
    }

    pub(crate) fn arguments(&self, batch: &RecordBatch) -> Result<Arguments> {
        let fault = |error| internal("aggregate", &error);
        let args = self.calls.iter().map(|call| call.args.iter().map(|arg| evaluate(arg, batch)).collect::<Result<_, _>>()).collect::<Result<_, _>>().map_err(fault)?;
        let keep = self
            .calls
            .iter()
            .map(|call| call.filter.as_ref().map(|filter| evaluate(filter, batch).map(|mask| mask.as_boolean().clone())).transpose())
            .collect::<Result<_, _>>()
            .map_err(fault)?;
        Ok(Arguments { args, keep })
    }

    /// Adds each row to its slot.
    pub(crate) fn update(&mut self, slots: &[u32], arguments: &Arguments, part: Part) -> Result<()> {
        for (index, column) in self.columns.iter_mut().enumerate() {
            if is_of(column.as_ref(), part) {
                match arguments.args.get(index) {
                    Some(args) => column.update(slots, args, arguments.keep[index].as_ref())?,
                    None => column.update(slots, &[], None)?,
                }
            }
        }
        Ok(())
    }

    /// Adds the second slot of each pair to the first.
    pub(crate) fn merge(&mut self, pairs: &[(u32, u32)], part: Part) -> Result<()> {
        if pairs.is_empty() {
            return Ok(());
        }
        self.columns.iter_mut().filter(|column| is_of(column.as_ref(), part)).try_for_each(|column| column.merge(pairs))
    }

    /// Takes the second slot of each pair from the first, for the linear aggregates.
    pub(crate) fn retract(&mut self, pairs: &[(u32, u32)]) -> Result<()> {
        if pairs.is_empty() {
            return Ok(());
        }
        self.columns.iter_mut().filter(|column| column.is_linear()).try_for_each(|column| column.retract(pairs))
    }

    /// The results: those of linear aggregates from `linear`, those of the others from `rest`, whose content may be used
    /// up if `consume` is set (they must be released right after).
    pub(crate) fn evaluate(&mut self, linear: &[u32], rest: &[u32], consume: bool) -> Result<Vec<ArrayRef>> {
        let results = self.calls.len();
        self.columns.iter_mut().take(results).map(|column| if column.is_linear() { column.evaluate(linear, false) } else { column.evaluate(rest, consume) }).collect()
    }

    pub(crate) fn state_types(&self) -> Result<Vec<DataType>> {
        let mut types = Vec::new();
        for column in &self.columns {
            types.extend(column.state_types()?);
        }
        Ok(types)
    }

    pub(crate) fn state(&mut self, slots: &[u32]) -> Result<Vec<ArrayRef>> {
        let mut state = Vec::new();
        for column in &mut self.columns {
            state.extend(column.state(slots)?);
        }
        Ok(state)
    }

    pub(crate) fn merge_state(&mut self, slots: &[u32], mut state: &[ArrayRef]) -> Result<()> {
        for column in &mut self.columns {
            let (mine, rest) = state.split_at(column.state_types()?.len());
            column.merge_state(slots, mine)?;
            state = rest;
        }
        Ok(())
    }

    /// Moves what `slots` hold together, all others being empty; gives their new numbers, in order. Memory goes back.
    pub(crate) fn compact(&mut self, slots: &[u32]) -> Result<Vec<u32>> {
        let state = self.state(slots)?;
        let mut fresh = Self::new(&self.calls, self.counts_rows)?;
        let moved: Vec<u32> = slots.iter().map(|_| fresh.allocate()).collect();
        fresh.merge_state(&moved, &state)?;
        *self = fresh;
        Ok(moved)
    }

    /// Whether most slots are empty.
    pub(crate) fn is_sparse(&self) -> bool {
        self.room > 1 << 12 && self.free.len() > self.room as usize / 2
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.columns.iter().map(|column| column.memory_bytes()).sum::<usize>() + self.free.capacity() * 4
    }
}

fn is_of(column: &dyn SlotAggregate, part: Part) -> bool {
    match part {
        Part::All => true,
        Part::Linear => column.is_linear(),
        Part::Rest => !column.is_linear(),
    }
}
