//! SUM and AVG with Flink's results: integers wrap in their own width, AVG of integers truncates, decimals keep scale.
//!
//! A slot is a sum and the number of values in it; no value gives null. Integers and decimals sum exactly in 128 bits
//! (a decimal sum that leaves its precision is null, as in Flink), floats in 64-bit floats.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array},
    datatypes::{self as t, DataType, DECIMAL128_MAX_PRECISION, Decimal128Type, Float64Type, Int64Type},
};
use pelton_core::error::Result;

use super::{SlotAggregate, kept};
use crate::expressions::internal;

/// SUM over `arg`, if the types are numbers.
pub(crate) fn sum(arg: &DataType, result: &DataType) -> Option<Box<dyn SlotAggregate>> {
    make(arg, result, false)
}

/// AVG over `arg`, if the types are numbers.
pub(crate) fn avg(arg: &DataType, result: &DataType) -> Option<Box<dyn SlotAggregate>> {
    make(arg, result, true)
}

fn make(arg: &DataType, result: &DataType, average: bool) -> Option<Box<dyn SlotAggregate>> {
    let exact = |data_type: &DataType| matches!(data_type, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Decimal128(..));
    let float = |data_type: &DataType| matches!(data_type, DataType::Float32 | DataType::Float64);
    let scale = match arg {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    };
    if exact(arg) && exact(result) {
        Some(Box::new(Exact { sums: Vec::new(), counts: Vec::new(), scale, result: result.clone(), average }))
    } else if float(arg) && float(result) {
        Some(Box::new(Floats { sums: Vec::new(), counts: Vec::new(), result: result.clone(), average }))
    } else {
        None
    }
}

struct Exact {
    sums: Vec<i128>,
    counts: Vec<i64>,
    /// Scale of the sums.
    scale: i8,
    result: DataType,
    average: bool,
}

impl Exact {
    fn result_of(&self, slot: u32) -> Option<i128> {
        let (sum, count) = (self.sums[slot as usize], self.counts[slot as usize]);
        if count == 0 {
            return None;
        }
        let target = match self.result {
            DataType::Decimal128(_, scale) => scale,
            _ => 0,
        };
        if target == self.scale && !self.average {
            return Some(sum);
        }
        if self.average && !matches!(self.result, DataType::Decimal128(..)) {
            // Division of 128 bits is slow, and seldom needed.
            return Some(i64::try_from(sum).map_or_else(|_| sum / i128::from(count), |sum| i128::from(sum / count)));
        }
        let shift = i32::from(target) - i32::from(self.scale);
        let power = 10_i128.checked_pow(shift.unsigned_abs())?;
        let (dividend, divisor) = if shift >= 0 { (sum.checked_mul(power)?, 1) } else { (sum, power) };
        let divisor = if self.average { divisor.checked_mul(i128::from(count))? } else { divisor };
        // Half up, away from zero.
        let (quotient, rest) = (dividend / divisor, dividend % divisor);
        Some(if rest.unsigned_abs() >= divisor.unsigned_abs().div_ceil(2) && rest != 0 { quotient + dividend.signum() } else { quotient })
    }
}

impl SlotAggregate for Exact {
    fn grow(&mut self, slots: usize) {
        self.sums.resize(slots.max(self.sums.len()), 0);
        self.counts.resize(slots.max(self.counts.len()), 0);
    }

    fn clear(&mut self, slots: &[u32]) {
        for &slot in slots {
            self.sums[slot as usize] = 0;
            self.counts[slot as usize] = 0;
        }
    }

    fn is_linear(&self) -> bool {
        // Wrapping sums come back exactly.
        true
    }

    fn retract(&mut self, pairs: &[(u32, u32)]) -> Result<()> {
        for &(to, from) in pairs {
            self.sums[to as usize] = self.sums[to as usize].wrapping_sub(self.sums[from as usize]);
            self.counts[to as usize] -= self.counts[from as usize];
        }
        Ok(())
    }

    fn is_small(&self) -> bool {
        true
    }

    fn update(&mut self, slots: &[u32], args: &[ArrayRef], keep: Option<&BooleanArray>) -> Result<()> {
        let Self { sums, counts, .. } = self;
        macro_rules! add {
            ($type:ty) => {{
                let values = args[0].as_primitive::<$type>();
                if keep.is_none() && values.null_count() == 0 {
                    for (&slot, &value) in slots.iter().zip(values.values()) {
                        sums[slot as usize] = sums[slot as usize].wrapping_add(i128::from(value));
                        counts[slot as usize] += 1;
                    }
                } else {
                    for (row, &slot) in slots.iter().enumerate() {
                        if values.is_valid(row) && kept(keep, row) {
                            sums[slot as usize] = sums[slot as usize].wrapping_add(i128::from(values.value(row)));
                            counts[slot as usize] += 1;
                        }
                    }
                }
            }};
        }
        match args[0].data_type() {
            DataType::Int8 => add!(t::Int8Type),
            DataType::Int16 => add!(t::Int16Type),
            DataType::Int32 => add!(t::Int32Type),
            DataType::Int64 => add!(t::Int64Type),
            DataType::Decimal128(..) => add!(t::Decimal128Type),
            other => return Err(internal("sum", &format!("{other} is no exact number"))),
        }
        Ok(())
    }

    fn merge(&mut self, pairs: &[(u32, u32)]) -> Result<()> {
        for &(to, from) in pairs {
            self.sums[to as usize] = self.sums[to as usize].wrapping_add(self.sums[from as usize]);
            self.counts[to as usize] += self.counts[from as usize];
        }
        Ok(())
    }

    fn evaluate(&mut self, slots: &[u32], _consume: bool) -> Result<ArrayRef> {
        let values = slots.iter().map(|&slot| self.result_of(slot));
        Ok(match &self.result {
            // Flink's sums of integers wrap in the width of their type.
            DataType::Int8 => Arc::new(values.map(|v| v.map(|v| v as i8)).collect::<Int8Array>()),
            DataType::Int16 => Arc::new(values.map(|v| v.map(|v| v as i16)).collect::<Int16Array>()),
            DataType::Int32 => Arc::new(values.map(|v| v.map(|v| v as i32)).collect::<Int32Array>()),
            DataType::Int64 => Arc::new(values.map(|v| v.map(|v| v as i64)).collect::<Int64Array>()),
            DataType::Decimal128(precision, scale) => {
                let limit = 10_i128.checked_pow(u32::from(*precision)).unwrap_or(i128::MAX);
                let array = values.map(|v| v.filter(|v| v.abs() < limit)).collect::<Decimal128Array>();
                Arc::new(array.with_precision_and_scale(*precision, *scale).map_err(|error| internal("sum", &error))?)
            }
            other => return Err(internal("sum", &format!("{other} is no exact number"))),
        })
    }

    fn state_types(&self) -> Result<Vec<DataType>> {
        Ok(vec![DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0), DataType::Int64])
    }

    fn state(&mut self, slots: &[u32]) -> Result<Vec<ArrayRef>> {
        let sums = slots.iter().map(|&slot| self.sums[slot as usize]).collect::<Vec<_>>();
        let sums = Decimal128Array::from(sums).with_precision_and_scale(DECIMAL128_MAX_PRECISION, 0).map_err(|error| internal("sum", &error))?;
        let counts = slots.iter().map(|&slot| self.counts[slot as usize]).collect::<Int64Array>();
        Ok(vec![Arc::new(sums), Arc::new(counts)])
    }

    fn merge_state(&mut self, slots: &[u32], state: &[ArrayRef]) -> Result<()> {
        let (sums, counts) = (state[0].as_primitive::<Decimal128Type>(), state[1].as_primitive::<Int64Type>());
        for (row, &slot) in slots.iter().enumerate() {
            self.sums[slot as usize] = self.sums[slot as usize].wrapping_add(sums.value(row));
            self.counts[slot as usize] += counts.value(row);
        }
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        self.sums.capacity() * 24
    }
}

struct Floats {
    sums: Vec<f64>,
    counts: Vec<i64>,
    result: DataType,
    average: bool,
}

impl SlotAggregate for Floats {
    fn grow(&mut self, slots: usize) {
        self.sums.resize(slots.max(self.sums.len()), 0.0);
        self.counts.resize(slots.max(self.counts.len()), 0);
    }

    fn clear(&mut self, slots: &[u32]) {
        for &slot in slots {
            self.sums[slot as usize] = 0.0;
            self.counts[slot as usize] = 0;
        }
    }

    fn is_small(&self) -> bool {
        true
    }

    fn update(&mut self, slots: &[u32], args: &[ArrayRef], keep: Option<&BooleanArray>) -> Result<()> {
        let average = self.average;
        let Self { sums, counts, .. } = self;
        macro_rules! add {
            ($type:ty, $round:expr) => {{
                let values = args[0].as_primitive::<$type>();
                for (row, &slot) in slots.iter().enumerate() {
                    if values.is_valid(row) && kept(keep, row) {
                        sums[slot as usize] = $round(sums[slot as usize] + f64::from(values.value(row)));
                        counts[slot as usize] += 1;
                    }
                }
            }};
        }
        // SUM(FLOAT) is summed as a FLOAT, AVG(FLOAT) as a DOUBLE, as in Flink.
        match args[0].data_type() {
            DataType::Float32 if !average => add!(t::Float32Type, |sum: f64| f64::from(sum as f32)),
            DataType::Float32 => add!(t::Float32Type, std::convert::identity),
            DataType::Float64 => add!(t::Float64Type, std::convert::identity),
            other => return Err(internal("sum", &format!("{other} is no float"))),
        }
        Ok(())
    }

    fn merge(&mut self, pairs: &[(u32, u32)]) -> Result<()> {
        for &(to, from) in pairs {
            self.sums[to as usize] += self.sums[from as usize];
            self.counts[to as usize] += self.counts[from as usize];
        }
        Ok(())
    }

    fn evaluate(&mut self, slots: &[u32], _consume: bool) -> Result<ArrayRef> {
        let values = slots.iter().map(|&slot| {
            let (sum, count) = (self.sums[slot as usize], self.counts[slot as usize]);
            (count > 0).then(|| if self.average { sum / count as f64 } else { sum })
        });
        Ok(match self.result {
            DataType::Float32 => Arc::new(values.map(|v| v.map(|v| v as f32)).collect::<Float32Array>()),
            _ => Arc::new(values.collect::<Float64Array>()),
        })
    }

    fn state_types(&self) -> Result<Vec<DataType>> {
        Ok(vec![DataType::Float64, DataType::Int64])
    }

    fn state(&mut self, slots: &[u32]) -> Result<Vec<ArrayRef>> {
        let sums = slots.iter().map(|&slot| self.sums[slot as usize]).collect::<Float64Array>();
        let counts = slots.iter().map(|&slot| self.counts[slot as usize]).collect::<Int64Array>();
        Ok(vec![Arc::new(sums), Arc::new(counts)])
    }

    fn merge_state(&mut self, slots: &[u32], state: &[ArrayRef]) -> Result<()> {
        let (sums, counts) = (state[0].as_primitive::<Float64Type>(), state[1].as_primitive::<Int64Type>());
        for (row, &slot) in slots.iter().enumerate() {
            self.sums[slot as usize] += sums.value(row);
            self.counts[slot as usize] += counts.value(row);
        }
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        self.sums.capacity() * 16
    }
}
