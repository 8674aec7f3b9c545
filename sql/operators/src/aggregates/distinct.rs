//! DISTINCT: the set of values per slot. COUNT is its size; any other aggregate is computed over the set when asked.
//!
//! Values are kept in Arrow's row format and computed over in its order, so that results do not depend on hash order.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Int64Array, ListArray},
    buffer::OffsetBuffer,
    compute::concat,
    datatypes::{DataType, Field},
    row::{RowConverter, SortField},
};
use hashbrown::HashSet;
use pelton_core::error::Result;

use super::{AggregateCall, SlotAggregate, kept, of_types};
use crate::expressions::internal;

pub(crate) struct Distinct {
    call: AggregateCall,
    arg_types: Vec<DataType>,
    converter: RowConverter,
    sets: Vec<HashSet<Box<[u8]>>>,
    bytes: usize,
}

impl Distinct {
    pub(crate) fn new(call: AggregateCall, arg_types: Vec<DataType>) -> Result<Self> {
        let fields = arg_types.iter().map(|data_type| SortField::new(data_type.clone())).collect();
        let converter = RowConverter::new(fields).map_err(|error| internal("distinct", &error))?;
        Ok(Self { call, arg_types, converter, sets: Vec::new(), bytes: 0 })
    }

    fn insert(&mut self, slot: u32, value: &[u8]) {
        let set = &mut self.sets[slot as usize];
        if !set.contains(value) {
            set.insert(value.into());
            self.bytes += value.len() + 24;
        }
    }

    fn sorted(&self, slot: u32) -> Vec<&[u8]> {
        let mut values: Vec<&[u8]> = self.sets[slot as usize].iter().map(AsRef::as_ref).collect();
        values.sort_unstable();
        values
    }
}

impl SlotAggregate for Distinct {
    fn grow(&mut self, slots: usize) {
        self.sets.resize_with(slots.max(self.sets.len()), HashSet::new);
    }

    fn clear(&mut self, slot: u32) {
        let set = std::mem::take(&mut self.sets[slot as usize]);
        self.bytes -= set.iter().map(|value| value.len() + 24).sum::<usize>();
    }

    fn update(&mut self, slots: &[u32], args: &[ArrayRef], keep: Option<&BooleanArray>) -> Result<()> {
        let rows = self.converter.convert_columns(args).map_err(|error| internal("distinct", &error))?;
        for (row, &slot) in slots.iter().enumerate() {
            if kept(keep, row) && args.iter().all(|arg| arg.is_valid(row)) {
                self.insert(slot, rows.row(row).as_ref());
            }
        }
        Ok(())
    }

    fn merge(&mut self, pairs: &[(u32, u32)]) -> Result<()> {
        for &(to, from) in pairs {
            let values = std::mem::take(&mut self.sets[from as usize]);
            for value in &values {
                self.insert(to, value);
            }
            self.sets[from as usize] = values;
        }
        Ok(())
    }

    fn evaluate(&mut self, slots: &[u32], _consume: bool) -> Result<ArrayRef> {
        if self.call.function.name() == "count" {
            return Ok(Arc::new(slots.iter().map(|&slot| self.sets[slot as usize].len() as i64).collect::<Int64Array>()));
        }
        let mut results = Vec::with_capacity(slots.len());
        for &slot in slots {
            let mut inner = of_types(&self.call, &self.arg_types)?;
            inner.grow(1);
            let values = self.sorted(slot);
            if !values.is_empty() {
                let parser = self.converter.parser();
                let columns = self.converter.convert_rows(values.iter().map(|value| parser.parse(value))).map_err(|error| internal("distinct", &error))?;
                inner.update(&vec![0; values.len()], &columns, None)?;
            }
            results.push(inner.evaluate(&[0], true)?);
        }
        let parts: Vec<&dyn Array> = results.iter().map(AsRef::as_ref).collect();
        if parts.is_empty() { Ok(arrow::array::new_empty_array(&self.call.return_type)) } else { concat(&parts).map_err(|error| internal("distinct", &error)) }
    }

    fn state_types(&self) -> Result<Vec<DataType>> {
        Ok(vec![DataType::List(Arc::new(Field::new("item", DataType::Binary, true)))])
    }

    fn state(&mut self, slots: &[u32]) -> Result<Vec<ArrayRef>> {
        let sets: Vec<Vec<&[u8]>> = slots.iter().map(|&slot| self.sorted(slot)).collect();
        let offsets = OffsetBuffer::from_lengths(sets.iter().map(Vec::len));
        let values: BinaryArray = sets.iter().flatten().map(|value| Some(*value)).collect();
        Ok(vec![Arc::new(ListArray::new(Arc::new(Field::new("item", DataType::Binary, true)), offsets, Arc::new(values), None))])
    }

    fn merge_state(&mut self, slots: &[u32], state: &[ArrayRef]) -> Result<()> {
        let lists = state[0].as_list::<i32>();
        for (row, &slot) in slots.iter().enumerate() {
            let values = lists.value(row);
            let values = values.as_binary::<i32>();
            for value in values.iter().flatten() {
                self.insert(slot, value);
            }
        }
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        self.bytes + self.sets.capacity() * size_of::<HashSet<Box<[u8]>>>()
    }
}
