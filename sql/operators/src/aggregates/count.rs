//! COUNT(*) and COUNT(x, …): rows in which every argument is there.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array},
    datatypes::{DataType, Int64Type},
};
use pelton_core::error::Result;

use super::{SlotAggregate, kept};

#[derive(Default)]
pub(crate) struct Count {
    counts: Vec<i64>,
}

impl SlotAggregate for Count {
    fn grow(&mut self, slots: usize) {
        self.counts.resize(slots.max(self.counts.len()), 0);
    }

    fn clear(&mut self, slots: &[u32]) {
        slots.iter().for_each(|&slot| self.counts[slot as usize] = 0);
    }

    fn update(&mut self, slots: &[u32], args: &[ArrayRef], keep: Option<&BooleanArray>) -> Result<()> {
        let all_there = args.iter().all(|arg| arg.logical_null_count() == 0);
        if keep.is_none() && all_there {
            for &slot in slots {
                self.counts[slot as usize] += 1;
            }
            return Ok(());
        }
        let nulls: Vec<_> = args.iter().filter_map(Array::logical_nulls).collect();
        for (row, &slot) in slots.iter().enumerate() {
            if kept(keep, row) && nulls.iter().all(|nulls| nulls.is_valid(row)) {
                self.counts[slot as usize] += 1;
            }
        }
        Ok(())
    }

    fn merge(&mut self, pairs: &[(u32, u32)]) -> Result<()> {
        for &(to, from) in pairs {
            self.counts[to as usize] += self.counts[from as usize];
        }
        Ok(())
    }

    fn is_linear(&self) -> bool {
        true
    }

    fn retract(&mut self, pairs: &[(u32, u32)]) -> Result<()> {
        for &(to, from) in pairs {
            self.counts[to as usize] -= self.counts[from as usize];
        }
        Ok(())
    }

    fn is_small(&self) -> bool {
        true
    }

    fn evaluate(&mut self, slots: &[u32], _consume: bool) -> Result<ArrayRef> {
        Ok(Arc::new(slots.iter().map(|&slot| self.counts[slot as usize]).collect::<Int64Array>()))
    }

    fn state_types(&self) -> Result<Vec<DataType>> {
        Ok(vec![DataType::Int64])
    }

    fn state(&mut self, slots: &[u32]) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(slots, false)?])
    }

    fn merge_state(&mut self, slots: &[u32], state: &[ArrayRef]) -> Result<()> {
        for (&slot, &count) in slots.iter().zip(state[0].as_primitive::<Int64Type>().values()) {
            self.counts[slot as usize] += count;
        }
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        self.counts.capacity() * 8
    }
}
