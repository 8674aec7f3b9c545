//! DISTINCT: the set of values per slot. COUNT is its size; any other aggregate is computed over the set when asked.
//!
//! Values are kept in Arrow's row format and computed over in its order, so that results do not depend on hash order.
//! Each stands with the number of rows that brought it, so that what was added can be taken away again.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Int64Array, ListArray},
    buffer::OffsetBuffer,
    compute::concat,
    datatypes::{DataType, Field, Int64Type},
    row::{RowConverter, SortField},
};
use hashbrown::{HashMap, hash_map::EntryRef};
use pelton_core::error::Result;

use super::{AggregateCall, SlotAggregate, kept, of_types};
use crate::expressions::internal;

/// Estimate of what a value takes besides its bytes.
const ENTRY: usize = 40;

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

pub(crate) struct Distinct {
    call: AggregateCall,
    arg_types: Vec<DataType>,
    converter: RowConverter,
    sets: Vec<HashMap<Box<[u8]>, i64>>,
    bytes: usize,
}

impl Distinct {
    pub(crate) fn new(call: AggregateCall, arg_types: Vec<DataType>) -> Result<Self> {
        let fields = arg_types.iter().map(|data_type| SortField::new(data_type.clone())).collect();
        let converter = RowConverter::new(fields).map_err(|error| internal("distinct", &error))?;
        Ok(Self { call, arg_types, converter, sets: Vec::new(), bytes: 0 })
    }

    /// Adds `rows` (which may be negative) rows with a value.
    fn count(&mut self, slot: u32, value: &[u8], rows: i64) {
        match self.sets[slot as usize].entry_ref(value) {
            EntryRef::Occupied(mut entry) => {
                *entry.get_mut() += rows;
                if *entry.get() == 0 {
                    entry.remove();
                    self.bytes -= value.len() + ENTRY;
                }
            }
            EntryRef::Vacant(entry) => {
                entry.insert(rows);
                self.bytes += value.len() + ENTRY;
            }
        }
    }

    fn count_all(&mut self, pairs: &[(u32, u32)], sign: i64) {
        for &(to, from) in pairs {
            let values = std::mem::take(&mut self.sets[from as usize]);
            for (value, rows) in &values {
                self.count(to, value, sign * rows);
            }
            self.sets[from as usize] = values;
        }
    }

    fn sorted(&self, slot: u32) -> Vec<(&[u8], i64)> {
        let mut values: Vec<(&[u8], i64)> = self.sets[slot as usize].iter().map(|(value, rows)| (value.as_ref(), *rows)).collect();
        values.sort_unstable();
        values
    }
}

impl SlotAggregate for Distinct {
    fn grow(&mut self, slots: usize) {
        self.sets.resize_with(slots.max(self.sets.len()), HashMap::new);
    }

    fn clear(&mut self, slots: &[u32]) {
        for &slot in slots {
            let set = std::mem::take(&mut self.sets[slot as usize]);
            self.bytes -= set.keys().map(|value| value.len() + ENTRY).sum::<usize>();
        }
    }

    fn update(&mut self, slots: &[u32], args: &[ArrayRef], keep: Option<&BooleanArray>) -> Result<()> {
        let rows = self.converter.convert_columns(args).map_err(|error| internal("distinct", &error))?;
        for (row, &slot) in slots.iter().enumerate() {
            if kept(keep, row) && args.iter().all(|arg| arg.is_valid(row)) {
                self.count(slot, rows.row(row).as_ref(), 1);
            }
        }
        Ok(())
    }

    fn merge(&mut self, pairs: &[(u32, u32)]) -> Result<()> {
        self.count_all(pairs, 1);
        Ok(())
    }

    fn is_linear(&self) -> bool {
        true
    }

    fn retract(&mut self, pairs: &[(u32, u32)]) -> Result<()> {
        self.count_all(pairs, -1);
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
                let columns = self.converter.convert_rows(values.iter().map(|(value, _)| parser.parse(value))).map_err(|error| internal("distinct", &error))?;
                inner.update(&vec![0; values.len()], &columns, None)?;
            }
            results.push(inner.evaluate(&[0], true)?);
        }
        let parts: Vec<&dyn Array> = results.iter().map(AsRef::as_ref).collect();
        if parts.is_empty() { Ok(arrow::array::new_empty_array(&self.call.return_type)) } else { concat(&parts).map_err(|error| internal("distinct", &error)) }
    }

    fn state_types(&self) -> Result<Vec<DataType>> {
        Ok(vec![list_of(DataType::Binary), list_of(DataType::Int64)])
    }

    fn state(&mut self, slots: &[u32]) -> Result<Vec<ArrayRef>> {
        let sets: Vec<Vec<(&[u8], i64)>> = slots.iter().map(|&slot| self.sorted(slot)).collect();
        let offsets = OffsetBuffer::<i32>::from_lengths(sets.iter().map(Vec::len));
        let values: BinaryArray = sets.iter().flatten().map(|(value, _)| Some(*value)).collect();
        let rows: Int64Array = sets.iter().flatten().map(|(_, rows)| *rows).collect();
        let list = |values: ArrayRef| Arc::new(ListArray::new(Arc::new(Field::new("item", values.data_type().clone(), true)), offsets.clone(), values, None)) as ArrayRef;
        Ok(vec![list(Arc::new(values)), list(Arc::new(rows))])
    }

    fn merge_state(&mut self, slots: &[u32], state: &[ArrayRef]) -> Result<()> {
        let (values, rows) = (state[0].as_list::<i32>(), state[1].as_list::<i32>());
        for (row, &slot) in slots.iter().enumerate() {
            let (values, rows) = (values.value(row), rows.value(row));
            for (value, rows) in values.as_binary::<i32>().iter().flatten().zip(rows.as_primitive::<Int64Type>().values()) {
                self.count(slot, value, *rows);
            }
        }
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        self.bytes + self.sets.capacity() * size_of::<HashMap<Box<[u8]>, i64>>()
    }
}
