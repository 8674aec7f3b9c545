//! Casts between numbers, and between numbers and booleans, as Java's conversions do them.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Decimal128Array, PrimitiveArray},
    datatypes::{DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, i256},
};
use datafusion::common::{Result, internal_err};

use super::{Mode, failed, read::read_decimal};
use crate::func::{collect, collect_bool};

/// A numeric or boolean column as another numeric type or BOOLEAN.
pub(super) fn between(array: &ArrayRef, to: &DataType, mode: Mode) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Boolean => {
            let flags = array.as_boolean();
            let one = |row: usize| Ok(flags.is_valid(row).then(|| i64::from(flags.value(row))));
            from_long(&collect::<Int64Type>(flags.len(), one)?, to)
        }
        DataType::Int8 => from_long(&widened(array.as_primitive::<Int8Type>()), to),
        DataType::Int16 => from_long(&widened(array.as_primitive::<Int16Type>()), to),
        DataType::Int32 => from_long(&widened(array.as_primitive::<Int32Type>()), to),
        DataType::Int64 => from_long(array.as_primitive::<Int64Type>(), to),
        DataType::Float32 => from_float(array.as_primitive::<Float32Type>(), to, mode),
        DataType::Float64 => from_float(array.as_primitive::<Float64Type>(), to, mode),
        DataType::Decimal128(_, scale) => from_decimal(array.as_primitive::<Decimal128Type>(), *scale, to),
        other => internal_err!("{other} is no number"),
    }
}

fn widened<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>) -> PrimitiveArray<Int64Type>
where
    T::Native: Into<i64>,
{
    array.unary(Into::into)
}

fn from_long(array: &PrimitiveArray<Int64Type>, to: &DataType) -> Result<ArrayRef> {
    Ok(match to {
        DataType::Boolean => collect_bool(array.len(), |row| Ok(array.is_valid(row).then(|| array.value(row) != 0)))?,
        DataType::Int8 => Arc::new(array.unary::<_, Int8Type>(|v| v as i8)),
        DataType::Int16 => Arc::new(array.unary::<_, Int16Type>(|v| v as i16)),
        DataType::Int32 => Arc::new(array.unary::<_, Int32Type>(|v| v as i32)),
        DataType::Int64 => Arc::new(array.clone()),
        DataType::Float32 => Arc::new(array.unary::<_, Float32Type>(|v| v as f32)),
        DataType::Float64 => Arc::new(array.unary::<_, Float64Type>(|v| v as f64)),
        DataType::Decimal128(precision, scale) => {
            let (precision, scale) = (*precision, *scale);
            decimals(array.len(), precision, scale, |row| Ok(array.is_valid(row).then(|| rescale(i128::from(array.value(row)), 0, precision, scale)).flatten()))?
        }
        other => return internal_err!("BIGINT to {other}"),
    })
}

/// Floats: whole numbers stop at the ends of INT and BIGINT, and TINYINT and SMALLINT are cut from INT, as in Java.
fn from_float<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, to: &DataType, mode: Mode) -> Result<ArrayRef>
where
    T::Native: Into<f64> + Copy + std::fmt::LowerExp,
{
    Ok(match to {
        DataType::Boolean => collect_bool(array.len(), |row| Ok(array.is_valid(row).then(|| array.value(row).into() != 0.0)))?,
        DataType::Int8 => Arc::new(array.unary::<_, Int8Type>(|v| v.into() as i32 as i8)),
        DataType::Int16 => Arc::new(array.unary::<_, Int16Type>(|v| v.into() as i32 as i16)),
        DataType::Int32 => Arc::new(array.unary::<_, Int32Type>(|v| v.into() as i32)),
        DataType::Int64 => Arc::new(array.unary::<_, Int64Type>(|v| v.into() as i64)),
        DataType::Float32 => Arc::new(array.unary::<_, Float32Type>(|v| v.into() as f32)),
        DataType::Float64 => Arc::new(array.unary::<_, Float64Type>(|v| v.into())),
        DataType::Decimal128(precision, scale) => decimals(array.len(), *precision, *scale, |row| {
            if array.is_null(row) {
                return Ok(None);
            }
            let value: f64 = array.value(row).into();
            if !value.is_finite() {
                return failed(mode, &value.to_string(), to, "no finite number");
            }
            // Through the shortest text, as BigDecimal.valueOf does.
            Ok(read_decimal(&format!("{:e}", array.value(row)), *precision, *scale).ok().flatten())
        })?,
        other => return internal_err!("DOUBLE to {other}"),
    })
}

/// A float as a decimal, null if it does not fit.
pub(crate) fn float_to_decimal(value: f64, precision: u8, scale: i8) -> Option<i128> {
    value.is_finite().then(|| read_decimal(&format!("{value:e}"), precision, scale).ok().flatten()).flatten()
}

fn from_decimal(array: &Decimal128Array, scale: i8, to: &DataType) -> Result<ArrayRef> {
    let divisor = 10_i128.pow(scale.unsigned_abs().into());
    let whole = |v: i128| (v / divisor) as i64;
    Ok(match to {
        DataType::Boolean => collect_bool(array.len(), |row| Ok(array.is_valid(row).then(|| array.value(row) != 0)))?,
        DataType::Int8 => Arc::new(array.unary::<_, Int8Type>(|v| whole(v) as i8)),
        DataType::Int16 => Arc::new(array.unary::<_, Int16Type>(|v| whole(v) as i16)),
        DataType::Int32 => Arc::new(array.unary::<_, Int32Type>(|v| whole(v) as i32)),
        DataType::Int64 => Arc::new(array.unary::<_, Int64Type>(whole)),
        DataType::Float32 => Arc::new(array.unary::<_, Float32Type>(|v| decimal_to_float(v, scale) as f32)),
        DataType::Float64 => Arc::new(array.unary::<_, Float64Type>(|v| decimal_to_float(v, scale))),
        DataType::Decimal128(precision, to_scale) => {
            let before = array.precision();
            if scale == *to_scale && before <= *precision {
                return Ok(Arc::new(array.clone().with_precision_and_scale(*precision, *to_scale)?));
            }
            let limit = 10_u128.pow((*precision).into());
            if scale == *to_scale {
                // The most frequent one: what a calculation made goes into a column with fewer digits.
                let fits = |v: &i128| v.unsigned_abs() < limit;
                return decimals(array.len(), *precision, *to_scale, |row| Ok(array.is_valid(row).then(|| array.value(row)).filter(fits)));
            }
            decimals(array.len(), *precision, *to_scale, |row| {
                Ok(array.is_valid(row).then(|| rescale(array.value(row), scale, *precision, *to_scale)).flatten())
            })?
        }
        other => return internal_err!("DECIMAL to {other}"),
    })
}

/// The nearest double. Values of up to 53 bits divide exactly rounded; longer ones go through their text.
fn decimal_to_float(value: i128, scale: i8) -> f64 {
    if value.unsigned_abs() < 1 << 53 && scale <= 22 {
        return value as f64 / 10_f64.powi(scale.into());
    }
    format!("{value}e-{scale}").parse().unwrap_or(f64::NAN)
}

fn decimals(rows: usize, precision: u8, scale: i8, value: impl FnMut(usize) -> Result<Option<i128>>) -> Result<ArrayRef> {
    Ok(Arc::new(collect::<Decimal128Type>(rows, value)?.with_precision_and_scale(precision, scale)?))
}

/// `value` of scale `from` with `scale` digits behind the point, rounded half away from zero; `None` if it has more
/// than `precision` digits.
pub(crate) fn rescale(value: i128, from: i8, precision: u8, scale: i8) -> Option<i128> {
    let rescaled = if scale >= from {
        value.checked_mul(10_i128.checked_pow((scale - from) as u32)?)?
    } else {
        let divisor = 10_i128.checked_pow((from - scale) as u32)?;
        let (quotient, rest) = (value / divisor, value % divisor);
        if rest.unsigned_abs() >= divisor.unsigned_abs() - rest.unsigned_abs() { quotient + value.signum() } else { quotient }
    };
    (rescaled.unsigned_abs() < 10_u128.pow(precision.into())).then_some(rescaled)
}

/// The same for values of up to 76 digits.
pub(crate) fn rescale_wide(value: i256, from: i32, precision: u8, scale: i8) -> Option<i128> {
    let ten = i256::from_i128(10);
    let rescaled = if i32::from(scale) >= from {
        value.checked_mul(ten.checked_pow((i32::from(scale) - from) as u32)?)?
    } else {
        let divisor = ten.checked_pow((from - i32::from(scale)) as u32)?;
        let (quotient, rest) = (value.checked_div(divisor)?, value.checked_rem(divisor)?);
        let rest = if rest.is_negative() { rest.wrapping_neg() } else { rest };
        let up = rest >= divisor.wrapping_sub(rest);
        let step = i256::from_i128(if value.is_negative() { -1 } else { 1 });
        if up { quotient.checked_add(step)? } else { quotient }
    };
    let narrow = rescaled.to_i128()?;
    (narrow.unsigned_abs() < 10_u128.pow(precision.into())).then_some(narrow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_half_away_from_zero_and_refuses_what_does_not_fit() {
        assert_eq!(rescale(12_345, 3, 10, 2), Some(1_235));
        assert_eq!(rescale(-12_345, 3, 10, 2), Some(-1_235));
        assert_eq!(rescale(12_344, 3, 10, 2), Some(1_234));
        assert_eq!(rescale(99_995, 4, 3, 2), None);
        assert_eq!(rescale(i128::MAX, 0, 38, 1), None);
        assert_eq!(rescale_wide(i256::from_i128(-12_345), 3, 10, 2), Some(-1_235));
    }
}
