//! Aggregates over slots: one accumulator per slot, slots addressed by number, values in columns.
//!
//! COUNT, SUM, AVG, MIN and MAX are our own, typed; DISTINCT keeps the set of values and computes the inner aggregate
//! when asked; everything else runs DataFusion's accumulators, one per slot.

mod count;

mod distinct;

mod extremes;

mod generic;

mod sums;

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, BooleanArray, RecordBatch},
    datatypes::{DataType, SchemaRef},
};
use datafusion::logical_expr::AggregateUDF;
use pelton_core::error::Result;

use crate::expressions::{Expression, evaluate, internal};

/// One aggregate of a step.
#[derive(Debug, Clone)]
pub struct AggregateCall {
    /// The function. `count`, `sum`, `avg`, `min` and `max` are computed by our own accumulators.
    pub function: Arc<AggregateUDF>,
    /// Arguments over the input's columns; empty for COUNT(*).
    pub args: Vec<Expression>,
    /// Only rows for which it is true (FILTER).
    pub filter: Option<Expression>,
    /// Each value once.
    pub distinct: bool,
    /// Result type.
    pub return_type: DataType,
    /// The input's columns.
    pub input: SchemaRef,
}

/// Accumulators of one aggregate.
pub(crate) trait SlotAggregate: Send {
    /// Makes room for slots below `slots`; new ones are empty.
    fn grow(&mut self, slots: usize);

    /// Empties a slot.
    fn clear(&mut self, slot: u32);

    /// Adds each row to its slot; rows that `keep` does not hold true are left out.
    fn update(&mut self, slots: &[u32], args: &[ArrayRef], keep: Option<&BooleanArray>) -> Result<()>;

    /// Adds slot `pair.1` to slot `pair.0`, pair after pair.
    fn merge(&mut self, pairs: &[(u32, u32)]) -> Result<()>;

    /// The result of each slot. `consume`: the slots are cleared right after, so that their content may be used up.
    fn evaluate(&mut self, slots: &[u32], consume: bool) -> Result<ArrayRef>;

    /// Types of the columns that [`SlotAggregate::state`] gives.
    fn state_types(&self) -> Result<Vec<DataType>>;

    /// The content of each slot as columns; merged into an empty slot it gives the same results.
    fn state(&mut self, slots: &[u32]) -> Result<Vec<ArrayRef>>;

    /// Adds stored content to each slot.
    fn merge_state(&mut self, slots: &[u32], state: &[ArrayRef]) -> Result<()>;

    /// Estimate of the memory it takes.
    fn memory_bytes(&self) -> usize;
}

/// Accumulators for a call.
pub(crate) fn accumulators(call: &AggregateCall) -> Result<Box<dyn SlotAggregate>> {
    let arg_types = call.args.iter().map(|arg| arg.data_type(&call.input)).collect::<Result<Vec<_>, _>>().map_err(|error| internal("aggregate", &error))?;
    if call.distinct && !matches!(call.function.name(), "min" | "max") {
        return Ok(Box::new(distinct::Distinct::new(call.clone(), arg_types)?));
    }
    of_types(call, &arg_types)
}

pub(crate) fn of_types(call: &AggregateCall, arg_types: &[DataType]) -> Result<Box<dyn SlotAggregate>> {
    let own = match (call.function.name(), arg_types) {
        ("count", _) => Some(Box::new(count::Count::default()) as Box<dyn SlotAggregate>),
        ("sum", [arg]) => sums::sum(arg, &call.return_type),
        ("avg", [arg]) => sums::avg(arg, &call.return_type),
        ("min", [arg]) if *arg == call.return_type => extremes::extreme(arg, false),
        ("max", [arg]) if *arg == call.return_type => extremes::extreme(arg, true),
        _ => None,
    };
    match own {
        Some(own) => Ok(own),
        None => Ok(Box::new(generic::Generic::new(call)?)),
    }
}

/// All aggregates of a step over the same slots.
pub(crate) struct AggregateSet {
    calls: Vec<AggregateCall>,
    columns: Vec<Box<dyn SlotAggregate>>,
    free: Vec<u32>,
    slots: u32,
}

/// Arguments and filters of a batch, evaluated.
pub(crate) struct Arguments {
    args: Vec<Vec<ArrayRef>>,
    keep: Vec<Option<BooleanArray>>,
}

impl AggregateSet {
    pub(crate) fn new(calls: &[AggregateCall]) -> Result<Self> {
        let columns = calls.iter().map(accumulators).collect::<Result<_>>()?;
        Ok(Self { calls: calls.to_vec(), columns, free: Vec::new(), slots: 0 })
    }

    /// An empty slot.
    pub(crate) fn allocate(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        self.slots += 1;
        // Doubling keeps growth cheap however slots are asked for.
        if self.slots.is_power_of_two() || self.slots == 1 {
            let room = (self.slots as usize * 2).max(64);
            self.columns.iter_mut().for_each(|column| column.grow(room));
        }
        self.slots - 1
    }

    pub(crate) fn release(&mut self, slot: u32) {
        self.columns.iter_mut().for_each(|column| column.clear(slot));
        self.free.push(slot);
    }

    pub(crate) fn arguments(&self, batch: &RecordBatch) -> Result<Arguments> {
        let fault = |error| internal("aggregate", &error);
        let args = self.calls.iter().map(|call| call.args.iter().map(|arg| evaluate(arg, batch)).collect::<Result<_, _>>()).collect::<Result<_, _>>().map_err(fault)?;
        let keep = self
            .calls
            .iter()
            .map(|call| call.filter.as_ref().map(|filter| evaluate(filter, batch).map(|mask| arrow::array::AsArray::as_boolean(&mask).clone())).transpose())
            .collect::<Result<_, _>>()
            .map_err(fault)?;
        Ok(Arguments { args, keep })
    }

    /// Adds rows to their slots; `rows` picks the rows of the arguments (`None`: all).
    pub(crate) fn update(&mut self, slots: &[u32], arguments: &Arguments) -> Result<()> {
        for (index, column) in self.columns.iter_mut().enumerate() {
            column.update(slots, &arguments.args[index], arguments.keep[index].as_ref())?;
        }
        Ok(())
    }

    pub(crate) fn merge(&mut self, pairs: &[(u32, u32)]) -> Result<()> {
        if pairs.is_empty() { Ok(()) } else { self.columns.iter_mut().try_for_each(|column| column.merge(pairs)) }
    }

    pub(crate) fn evaluate(&mut self, slots: &[u32], consume: bool) -> Result<Vec<ArrayRef>> {
        self.columns.iter_mut().map(|column| column.evaluate(slots, consume)).collect()
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

    pub(crate) fn memory_bytes(&self) -> usize {
        self.columns.iter().map(|column| column.memory_bytes()).sum()
    }
}

/// Whether a row counts for an aggregate with a filter.
pub(crate) fn kept(keep: Option<&BooleanArray>, row: usize) -> bool {
    use arrow::array::Array as _;
    keep.is_none_or(|keep| keep.is_valid(row) && keep.value(row))
}
