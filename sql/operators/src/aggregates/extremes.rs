//! MIN and MAX over numbers, times and text. Floats are ordered as Java's: NaN is the largest.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, StringArray},
    datatypes::{self as t, ArrowNativeTypeOp, DataType, TimeUnit},
};
use pelton_core::error::Result;

use super::{SlotAggregate, kept};

/// MIN or MAX over `arg`, if it is a type that is built here.
pub(crate) fn extreme(arg: &DataType, greatest: bool) -> Option<Box<dyn SlotAggregate>> {
    macro_rules! of {
        ($type:ty) => {
            Some(Box::new(Primitive::<$type> { values: Vec::new(), data_type: arg.clone(), greatest }))
        };
    }
    match arg {
        DataType::Int8 => of!(t::Int8Type),
        DataType::Int16 => of!(t::Int16Type),
        DataType::Int32 => of!(t::Int32Type),
        DataType::Int64 => of!(t::Int64Type),
        DataType::Float32 => of!(t::Float32Type),
        DataType::Float64 => of!(t::Float64Type),
        DataType::Decimal128(..) => of!(t::Decimal128Type),
        DataType::Date32 => of!(t::Date32Type),
        DataType::Time32(TimeUnit::Second) => of!(t::Time32SecondType),
        DataType::Time32(TimeUnit::Millisecond) => of!(t::Time32MillisecondType),
        DataType::Timestamp(TimeUnit::Second, _) => of!(t::TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => of!(t::TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => of!(t::TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => of!(t::TimestampNanosecondType),
        DataType::Utf8 => Some(Box::new(Text { values: Vec::new(), bytes: 0, greatest })),
        _ => None,
    }
}

struct Primitive<T: ArrowPrimitiveType> {
    values: Vec<Option<T::Native>>,
    data_type: DataType,
    greatest: bool,
}

impl<T: ArrowPrimitiveType> Primitive<T> {
    fn offer(&mut self, slot: u32, value: T::Native) {
        let held = &mut self.values[slot as usize];
        let better = held.is_none_or(|held| if self.greatest { value.is_gt(held) } else { value.is_lt(held) });
        if better {
            *held = Some(value);
        }
    }
}

impl<T: ArrowPrimitiveType> SlotAggregate for Primitive<T> {
    fn grow(&mut self, slots: usize) {
        self.values.resize(slots.max(self.values.len()), None);
    }

    fn clear(&mut self, slots: &[u32]) {
        slots.iter().for_each(|&slot| self.values[slot as usize] = None);
    }

    fn is_small(&self) -> bool {
        true
    }

    fn update(&mut self, slots: &[u32], args: &[ArrayRef], keep: Option<&BooleanArray>) -> Result<()> {
        let values = args[0].as_primitive::<T>();
        for (row, &slot) in slots.iter().enumerate() {
            if values.is_valid(row) && kept(keep, row) {
                self.offer(slot, values.value(row));
            }
        }
        Ok(())
    }

    fn merge(&mut self, pairs: &[(u32, u32)]) -> Result<()> {
        for &(to, from) in pairs {
            if let Some(value) = self.values[from as usize] {
                self.offer(to, value);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, slots: &[u32], _consume: bool) -> Result<ArrayRef> {
        let array: PrimitiveArray<T> = slots.iter().map(|&slot| self.values[slot as usize]).collect();
        Ok(Arc::new(array.with_data_type(self.data_type.clone())))
    }

    fn state_types(&self) -> Result<Vec<DataType>> {
        Ok(vec![self.data_type.clone()])
    }

    fn state(&mut self, slots: &[u32]) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(slots, false)?])
    }

    fn merge_state(&mut self, slots: &[u32], state: &[ArrayRef]) -> Result<()> {
        self.update(slots, state, None)
    }

    fn memory_bytes(&self) -> usize {
        self.values.capacity() * size_of::<Option<T::Native>>()
    }
}

struct Text {
    values: Vec<Option<Box<str>>>,
    bytes: usize,
    greatest: bool,
}

impl Text {
    fn offer(&mut self, slot: u32, value: &str) {
        let held = &mut self.values[slot as usize];
        let better = held.as_deref().is_none_or(|held| if self.greatest { value > held } else { value < held });
        if better {
            self.bytes = self.bytes + value.len() - held.as_ref().map_or(0, |held| held.len());
            *held = Some(value.into());
        }
    }
}

impl SlotAggregate for Text {
    fn grow(&mut self, slots: usize) {
        self.values.resize(slots.max(self.values.len()), None);
    }

    fn clear(&mut self, slots: &[u32]) {
        for &slot in slots {
            if let Some(held) = self.values[slot as usize].take() {
                self.bytes -= held.len();
            }
        }
    }

    fn is_small(&self) -> bool {
        true
    }

    fn update(&mut self, slots: &[u32], args: &[ArrayRef], keep: Option<&BooleanArray>) -> Result<()> {
        let values = args[0].as_string::<i32>();
        for (row, &slot) in slots.iter().enumerate() {
            if values.is_valid(row) && kept(keep, row) {
                self.offer(slot, values.value(row));
            }
        }
        Ok(())
    }

    fn merge(&mut self, pairs: &[(u32, u32)]) -> Result<()> {
        for &(to, from) in pairs {
            if let Some(value) = self.values[from as usize].clone() {
                self.offer(to, &value);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, slots: &[u32], _consume: bool) -> Result<ArrayRef> {
        Ok(Arc::new(slots.iter().map(|&slot| self.values[slot as usize].as_deref()).collect::<StringArray>()))
    }

    fn state_types(&self) -> Result<Vec<DataType>> {
        Ok(vec![DataType::Utf8])
    }

    fn state(&mut self, slots: &[u32]) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(slots, false)?])
    }

    fn merge_state(&mut self, slots: &[u32], state: &[ArrayRef]) -> Result<()> {
        self.update(slots, state, None)
    }

    fn memory_bytes(&self) -> usize {
        self.values.capacity() * size_of::<Option<Box<str>>>() + self.bytes
    }
}
