//! DataFusion's accumulators, one per slot, for every aggregate that has no own one here.
//!
//! Some of them change when their state is taken, so a slot that lives on is rebuilt from the state it gave.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, BooleanArray, UInt32Array},
    compute::take,
    datatypes::DataType,
};
use datafusion::{
    common::{DataFusionError, ScalarValue},
    logical_expr::Accumulator,
    physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr},
};
use pelton_core::error::Result;

use super::{AggregateCall, SlotAggregate, kept};
use crate::expressions::internal;

pub(crate) struct Generic {
    function: Arc<AggregateFunctionExpr>,
    slots: Vec<Option<Box<dyn Accumulator>>>,
    /// What each slot was last seen to take, and their sum.
    sizes: Vec<u32>,
    bytes: usize,
}

fn fault(error: DataFusionError) -> pelton_core::error::RuntimeError {
    internal("aggregate", &error.find_root())
}

impl Generic {
    pub(crate) fn new(call: &AggregateCall) -> Result<Self> {
        let builder = AggregateExprBuilder::new(Arc::clone(&call.function), call.args.clone()).schema(Arc::clone(&call.input)).alias(call.function.name());
        Ok(Self { function: Arc::new(builder.build().map_err(fault)?), slots: Vec::new(), sizes: Vec::new(), bytes: 0 })
    }

    fn slot(&mut self, slot: u32) -> Result<&mut Box<dyn Accumulator>> {
        let held = &mut self.slots[slot as usize];
        if held.is_none() {
            *held = Some(self.function.create_accumulator().map_err(fault)?);
        }
        Ok(held.as_mut().expect("it was just made"))
    }

    /// The state of a slot, which stays as it was.
    fn state_of(&mut self, slot: u32) -> Result<Vec<ScalarValue>> {
        let state = self.slot(slot)?.state().map_err(fault)?;
        let mut fresh = self.function.create_accumulator().map_err(fault)?;
        fresh.merge_batch(&arrays(&state)?).map_err(fault)?;
        self.slots[slot as usize] = Some(fresh);
        Ok(state)
    }

    fn measure(&mut self, slot: u32) {
        let size = self.slots[slot as usize].as_ref().map_or(0, |held| held.size().try_into().unwrap_or(u32::MAX));
        let before = std::mem::replace(&mut self.sizes[slot as usize], size);
        self.bytes = self.bytes + size as usize - before as usize;
    }
}

fn arrays(state: &[ScalarValue]) -> Result<Vec<ArrayRef>> {
    state.iter().map(ScalarValue::to_array).collect::<Result<_, _>>().map_err(fault)
}

impl SlotAggregate for Generic {
    fn grow(&mut self, slots: usize) {
        let slots = slots.max(self.slots.len());
        self.slots.resize_with(slots, || None);
        self.sizes.resize(slots, 0);
    }

    fn clear(&mut self, slots: &[u32]) {
        for &slot in slots {
            self.slots[slot as usize] = None;
            self.measure(slot);
        }
    }

    fn update(&mut self, slots: &[u32], args: &[ArrayRef], keep: Option<&BooleanArray>) -> Result<()> {
        // Rows of each slot together, in input order.
        let mut rows: Vec<u32> = (0..slots.len() as u32).filter(|&row| kept(keep, row as usize)).collect();
        rows.sort_by_key(|&row| slots[row as usize]);
        let sorted = UInt32Array::from(rows);
        let columns = args.iter().map(|arg| take(arg, &sorted, None)).collect::<Result<Vec<_>, _>>().map_err(|error| internal("aggregate", &error))?;
        let mut begin = 0;
        for run in sorted.values().chunk_by(|a, b| slots[*a as usize] == slots[*b as usize]) {
            let part: Vec<_> = columns.iter().map(|column| column.slice(begin, run.len())).collect();
            let slot = slots[run[0] as usize];
            self.slot(slot)?.update_batch(&part).map_err(fault)?;
            self.measure(slot);
            begin += run.len();
        }
        Ok(())
    }

    fn merge(&mut self, pairs: &[(u32, u32)]) -> Result<()> {
        for &(to, from) in pairs {
            if self.slots[from as usize].is_some() {
                let state = arrays(&self.state_of(from)?)?;
                self.slot(to)?.merge_batch(&state).map_err(fault)?;
                self.measure(to);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, slots: &[u32], consume: bool) -> Result<ArrayRef> {
        let mut values = Vec::with_capacity(slots.len());
        for &slot in slots {
            let value = if consume {
                self.slot(slot)?.evaluate().map_err(fault)?
            } else {
                let state = arrays(&self.state_of(slot)?)?;
                let mut copy = self.function.create_accumulator().map_err(fault)?;
                copy.merge_batch(&state).map_err(fault)?;
                copy.evaluate().map_err(fault)?
            };
            values.push(value);
        }
        if values.is_empty() {
            return Ok(arrow::array::new_empty_array(self.function.field().data_type()));
        }
        ScalarValue::iter_to_array(values).map_err(fault)
    }

    fn state_types(&self) -> Result<Vec<DataType>> {
        Ok(self.function.state_fields().map_err(fault)?.iter().map(|field| field.data_type().clone()).collect())
    }

    fn state(&mut self, slots: &[u32]) -> Result<Vec<ArrayRef>> {
        let types = self.state_types()?;
        let mut columns: Vec<Vec<ScalarValue>> = vec![Vec::with_capacity(slots.len()); types.len()];
        for &slot in slots {
            for (column, value) in columns.iter_mut().zip(self.state_of(slot)?) {
                column.push(value);
            }
        }
        columns.into_iter().zip(&types).map(|(values, data_type)| if values.is_empty() { Ok(arrow::array::new_empty_array(data_type)) } else { ScalarValue::iter_to_array(values).map_err(fault) }).collect()
    }

    fn merge_state(&mut self, slots: &[u32], state: &[ArrayRef]) -> Result<()> {
        for (row, &slot) in slots.iter().enumerate() {
            let part: Vec<_> = state.iter().map(|column| column.slice(row, 1)).collect();
            self.slot(slot)?.merge_batch(&part).map_err(fault)?;
            self.measure(slot);
        }
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        self.bytes + self.slots.capacity() * 20
    }
}
