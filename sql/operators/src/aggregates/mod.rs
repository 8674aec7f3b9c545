//! Aggregates over slots: one accumulator per slot, slots addressed by number, values in columns.
//!
//! COUNT, SUM, AVG, MIN and MAX are our own, typed; DISTINCT keeps the set of values and computes the inner aggregate
//! when asked; everything else runs DataFusion's accumulators, one per slot.

mod count;

mod distinct;

mod extremes;

mod generic;

mod set;

mod sums;

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, BooleanArray},
    datatypes::{DataType, SchemaRef},
};
use datafusion::logical_expr::AggregateUDF;
use pelton_core::error::Result;

pub(crate) use self::set::{AggregateSet, Arguments, Part};
use crate::expressions::{Expression, internal};

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

    /// Empties slots.
    fn clear(&mut self, slots: &[u32]);

    /// Adds each row to its slot; rows that `keep` does not hold true are left out.
    fn update(&mut self, slots: &[u32], args: &[ArrayRef], keep: Option<&BooleanArray>) -> Result<()>;

    /// Adds slot `pair.1` to slot `pair.0`, pair after pair.
    fn merge(&mut self, pairs: &[(u32, u32)]) -> Result<()>;

    /// Whether what was merged into a slot can be taken away again, in any order and without a trace.
    fn is_linear(&self) -> bool {
        false
    }

    /// Takes slot `pair.1` away from slot `pair.0`, which holds it; only called if [`SlotAggregate::is_linear`].
    fn retract(&mut self, pairs: &[(u32, u32)]) -> Result<()> {
        let _ = pairs;
        Ok(())
    }

    /// Whether a slot is about as large as one value: a barrier then writes the whole of it, else what was added.
    fn is_small(&self) -> bool {
        false
    }

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

/// Whether a row counts for an aggregate with a filter.
pub(crate) fn kept(keep: Option<&BooleanArray>, row: usize) -> bool {
    keep.is_none_or(|keep| keep.is_valid(row) && keep.value(row))
}
