//! Calculations with decimals.
//!
//! Promises: the result has the precision and scale it was given, rounded half away from zero; what does not fit is
//! null, division by zero a bad row. Cost: one multiplication a row where nothing can overflow (`0.908 * price`), 256
//! bits only where digits are cut.

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, Decimal128Array, PrimitiveArray},
    datatypes::{ArrowPrimitiveType, DataType, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type, i256},
};
use datafusion::common::{Result, internal_err};

use crate::{
    cast::rescale_wide,
    error::bad_row,
    func::{Columns, Plan, Typed},
    types::{Arithmetic, as_decimal},
};

/// `left op right` as DECIMAL(precision, scale); both are whole numbers or decimals.
pub(crate) fn calculation(op: Arithmetic, left: Typed, right: Typed, precision: u8, scale: i8) -> Typed {
    let (Some(a), Some(b)) = (as_decimal(&left.data_type), as_decimal(&right.data_type)) else {
        // Callers pass exact numbers only; anything else keeps its value and fails where it is evaluated.
        return left;
    };
    let plan = Plan::new(DataType::Decimal128(precision, scale), move |columns| {
        let done = kernel(columns, op, a, b, precision, scale)?;
        Ok(Arc::new(done.with_precision_and_scale(precision, scale)?))
    });
    let plan = if matches!(op, Arithmetic::Divide | Arithmetic::Modulo) { plan.fallible() } else { plan };
    let name = match op {
        Arithmetic::Add => "add",
        Arithmetic::Subtract => "subtract",
        Arithmetic::Multiply => "multiply",
        Arithmetic::Divide => "divide",
        Arithmetic::Modulo => "modulo",
    };
    plan.call(name, String::new(), vec![left, right])
}

fn kernel(columns: &Columns<'_>, op: Arithmetic, a: (u8, i8), b: (u8, i8), precision: u8, scale: i8) -> Result<Decimal128Array> {
    let (left, right) = (Operand::of(columns, 0)?, Operand::of(columns, 1)?);
    let exact = match op {
        Arithmetic::Multiply => a.0 + b.0 <= 38 && a.1 + b.1 == scale,
        Arithmetic::Add | Arithmetic::Subtract => (a.0 as i8 - a.1).max(b.0 as i8 - b.1) + a.1.max(b.1) < 38,
        _ => false,
    };
    if exact {
        return Ok(match op {
            Arithmetic::Multiply => each(columns.rows, &left, &right, |x, y| x.wrapping_mul(y)),
            Arithmetic::Add => {
                let (by_a, by_b) = (power(scale - a.1), power(scale - b.1));
                each(columns.rows, &left, &right, move |x, y| x.wrapping_mul(by_a).wrapping_add(y.wrapping_mul(by_b)))
            }
            _ => {
                let (by_a, by_b) = (power(scale - a.1), power(scale - b.1));
                each(columns.rows, &left, &right, move |x, y| x.wrapping_mul(by_a).wrapping_sub(y.wrapping_mul(by_b)))
            }
        });
    }
    let mut failed = None;
    let (s1, s2) = (i32::from(a.1), i32::from(b.1));
    let done = each_wide(columns.rows, &left, &right, |x, y| {
        if matches!(op, Arithmetic::Divide | Arithmetic::Modulo) && y == 0 {
            failed = Some(bad_row("division by zero"));
            return None;
        }
        wide(op, x, s1, y, s2, precision, scale)
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(done),
    }
}

fn power(exponent: i8) -> i128 {
    10_i128.pow(exponent.unsigned_abs().into())
}

fn wide(op: Arithmetic, x: i128, s1: i32, y: i128, s2: i32, precision: u8, scale: i8) -> Option<i128> {
    let ten = i256::from_i128(10);
    let raised = |value: i128, by: i32| i256::from_i128(value).checked_mul(ten.checked_pow(by as u32)?);
    match op {
        Arithmetic::Multiply => rescale_wide(i256::from_i128(x).checked_mul(i256::from_i128(y))?, s1 + s2, precision, scale),
        Arithmetic::Add | Arithmetic::Subtract => {
            let common = s1.max(s2);
            let (x, y) = (raised(x, common - s1)?, raised(y, common - s2)?);
            let sum = if op == Arithmetic::Add { x.checked_add(y)? } else { x.checked_sub(y)? };
            rescale_wide(sum, common, precision, scale)
        }
        Arithmetic::Divide => {
            // One digit more than the result, and then rounded: the digit behind it decides.
            let digits = i32::from(scale) + 1 + s2 - s1;
            let (x, y) = if digits >= 0 { (raised(x, digits)?, i256::from_i128(y)) } else { (i256::from_i128(x), raised(y, -digits)?) };
            rescale_wide(x.checked_div(y)?, i32::from(scale) + 1, precision, scale)
        }
        Arithmetic::Modulo => {
            let common = s1.max(s2);
            rescale_wide(raised(x, common - s1)?.checked_rem(raised(y, common - s2)?)?, common, precision, scale)
        }
    }
}

/// An operand: whole numbers are read as they are, without a column of decimals in between.
enum Operand {
    Constant(Option<i128>),
    Long(PrimitiveArray<Int64Type>),
    Decimal(Decimal128Array),
}

impl Operand {
    fn of(columns: &Columns<'_>, index: usize) -> Result<Self> {
        let (array, step) = columns.column(index)?;
        let operand = match array.data_type() {
            DataType::Int8 => Self::Long(widened(array.as_primitive::<Int8Type>())),
            DataType::Int16 => Self::Long(widened(array.as_primitive::<Int16Type>())),
            DataType::Int32 => Self::Long(widened(array.as_primitive::<Int32Type>())),
            DataType::Int64 => Self::Long(array.as_primitive::<Int64Type>().clone()),
            DataType::Decimal128(..) => Self::Decimal(array.as_primitive::<Decimal128Type>().clone()),
            other => return internal_err!("{other} in a calculation of decimals"),
        };
        if step == 0 { Ok(Self::Constant(operand.get(0))) } else { Ok(operand) }
    }

    fn get(&self, row: usize) -> Option<i128> {
        match self {
            Self::Constant(value) => *value,
            Self::Long(array) => array.is_valid(row).then(|| array.value(row).into()),
            Self::Decimal(array) => array.is_valid(row).then(|| array.value(row)),
        }
    }
}

fn widened<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>) -> PrimitiveArray<Int64Type>
where
    T::Native: Into<i64>,
{
    array.unary(Into::into)
}

/// For operations that cannot overflow: also evaluated for nulls, so that the loop has no branch.
fn each(rows: usize, left: &Operand, right: &Operand, op: impl Fn(i128, i128) -> i128) -> Decimal128Array {
    match (left, right) {
        (Operand::Constant(Some(x)), Operand::Long(array)) => array.unary(|y| op(*x, y.into())),
        (Operand::Constant(Some(x)), Operand::Decimal(array)) => array.unary(|y| op(*x, y)),
        (Operand::Long(array), Operand::Constant(Some(y))) => array.unary(|x| op(x.into(), *y)),
        (Operand::Decimal(array), Operand::Constant(Some(y))) => array.unary(|x| op(x, *y)),
        _ => each_wide(rows, left, right, |x, y| Some(op(x, y))),
    }
}

fn each_wide(rows: usize, left: &Operand, right: &Operand, mut op: impl FnMut(i128, i128) -> Option<i128>) -> Decimal128Array {
    (0..rows).map(|row| left.get(row).zip(right.get(row)).and_then(|(x, y)| op(x, y))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_results_round_and_overflow_to_null() {
        assert_eq!(wide(Arithmetic::Divide, 123_456, 4, 3, 0, 23, 15), Some(4_115_200_000_000_000));
        assert_eq!(wide(Arithmetic::Divide, -1, 4, 3, 0, 23, 15), Some(-33_333_333_333));
        assert_eq!(wide(Arithmetic::Divide, 2, 0, 3, 0, 10, 6), Some(666_667));
        assert_eq!(wide(Arithmetic::Modulo, -75, 1, 2, 0, 2, 1), Some(-15));
        assert_eq!(wide(Arithmetic::Multiply, i128::MAX / 2, 0, 10, 0, 38, 0), None);
    }
}
