//! Functions of numbers.

use std::{f64::consts, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{ArrowPrimitiveType, DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type},
};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};

use super::{Bind, Call, Param, Spec};
use crate::{
    cast::{float_to_decimal, rescale},
    func::{Columns, Plan, Typed, collect, collect_text},
    operators,
    types::Arithmetic,
};

use Param::{Any, Double, Int, Number};

macro_rules! double {
    ($name:literal, $of:expr) => {
        Spec { name: $name, params: &[Double], optional: 0, rest: None, bind: |_| Ok(one(|x: f64| -> f64 { $of(x) })) }
    };
}

pub(super) const SPECS: &[Spec] = &[
    Spec { name: "ABS", params: &[Number], optional: 0, rest: None, bind: |call| Ok(same(call, abs)) },
    Spec { name: "SIGN", params: &[Number], optional: 0, rest: None, bind: |call| Ok(same(call, sign)) },
    Spec { name: "MOD", params: &[Number, Number], optional: 0, rest: None, bind: modulo },
    Spec { name: "FLOOR", params: &[Any, Param::Text], optional: 1, rest: None, bind: |call| floor(call, false) },
    Spec { name: "CEIL", params: &[Any, Param::Text], optional: 1, rest: None, bind: |call| floor(call, true) },
    Spec { name: "ROUND", params: &[Number, Int], optional: 1, rest: None, bind: |call| round(call, false) },
    Spec { name: "TRUNCATE", params: &[Number, Int], optional: 1, rest: None, bind: |call| round(call, true) },
    double!("SQRT", f64::sqrt),
    double!("EXP", f64::exp),
    double!("LN", f64::ln),
    double!("LOG2", f64::log2),
    double!("LOG10", f64::log10),
    double!("SIN", f64::sin),
    double!("COS", f64::cos),
    double!("TAN", f64::tan),
    double!("COT", |x: f64| 1.0 / x.tan()),
    double!("ASIN", f64::asin),
    double!("ACOS", f64::acos),
    double!("ATAN", f64::atan),
    double!("SINH", f64::sinh),
    double!("COSH", f64::cosh),
    double!("TANH", f64::tanh),
    double!("DEGREES", f64::to_degrees),
    double!("RADIANS", f64::to_radians),
    Spec { name: "POWER", params: &[Double, Double], optional: 0, rest: None, bind: |_| Ok(two(f64::powf)) },
    Spec { name: "ATAN2", params: &[Double, Double], optional: 0, rest: None, bind: |_| Ok(two(f64::atan2)) },
    Spec { name: "LOG", params: &[Double, Double], optional: 1, rest: None, bind: |call| Ok(if call.args.len() == 1 { one(f64::ln) } else { two(|base, x| x.ln() / base.ln()) }) },
    Spec { name: "PI", params: &[], optional: 0, rest: None, bind: |_| Ok(Bind::Expr(Typed::literal(ScalarValue::Float64(Some(consts::PI))))) },
    Spec { name: "E", params: &[], optional: 0, rest: None, bind: |_| Ok(Bind::Expr(Typed::literal(ScalarValue::Float64(Some(consts::E))))) },
    Spec { name: "BIN", params: &[Int], optional: 0, rest: None, bind: |_| Ok(written(|value, out| out.push_str(&format!("{value:b}")))) },
    Spec { name: "HEX", params: &[Any], optional: 0, rest: None, bind: hex },
];

fn one(of: fn(f64) -> f64) -> Bind {
    Plan::new(DataType::Float64, move |columns| {
        let array = columns.array(0)?;
        Ok(Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(of)))
    })
    .into()
}

fn two(of: fn(f64, f64) -> f64) -> Bind {
    Plan::new(DataType::Float64, move |columns| {
        let (a, b) = (columns.numbers::<Float64Type>(0)?, columns.numbers::<Float64Type>(1)?);
        Ok(Arc::new(collect::<Float64Type>(columns.rows, |row| Ok(a.get(row).zip(b.get(row)).map(|(a, b)| of(a, b))))?))
    })
    .into()
}

/// A number from a number of the same type.
fn same(call: &Call<'_>, of: fn(&ArrayRef) -> Result<ArrayRef>) -> Bind {
    Plan::new(call.data_type(0).clone(), move |columns| of(&columns.array(0)?)).into()
}

fn map<T: ArrowPrimitiveType>(array: &ArrayRef, of: impl Fn(T::Native) -> T::Native) -> ArrayRef {
    Arc::new(array.as_primitive::<T>().unary::<_, T>(of).with_data_type(array.data_type().clone()))
}

fn abs(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Int8 => map::<Int8Type>(array, i8::wrapping_abs),
        DataType::Int16 => map::<Int16Type>(array, i16::wrapping_abs),
        DataType::Int32 => map::<Int32Type>(array, i32::wrapping_abs),
        DataType::Int64 => map::<Int64Type>(array, i64::wrapping_abs),
        DataType::Float32 => map::<Float32Type>(array, f32::abs),
        DataType::Float64 => map::<Float64Type>(array, f64::abs),
        DataType::Decimal128(..) => map::<Decimal128Type>(array, i128::wrapping_abs),
        other => return internal_err!("ABS of {other}"),
    })
}

fn sign(array: &ArrayRef) -> Result<ArrayRef> {
    let float = |x: f64| if x == 0.0 || x.is_nan() { x } else { x.signum() };
    Ok(match array.data_type() {
        DataType::Int8 => map::<Int8Type>(array, i8::signum),
        DataType::Int16 => map::<Int16Type>(array, i16::signum),
        DataType::Int32 => map::<Int32Type>(array, i32::signum),
        DataType::Int64 => map::<Int64Type>(array, i64::signum),
        DataType::Float32 => map::<Float32Type>(array, |x| float(x.into()) as f32),
        DataType::Float64 => map::<Float64Type>(array, float),
        DataType::Decimal128(_, scale) => {
            let unit = 10_i128.pow(scale.unsigned_abs().into());
            map::<Decimal128Type>(array, |x| x.signum() * unit)
        }
        other => return internal_err!("SIGN of {other}"),
    })
}

fn modulo(call: &Call<'_>) -> Result<Bind> {
    let [a, b] = call.args else { return plan_err!("MOD takes 2 arguments") };
    Ok(Bind::Expr(operators::arithmetic(Arithmetic::Modulo, a.clone(), b.clone(), call.mode())?))
}

/// FLOOR and CEIL of a number, or of a time to a unit.
fn floor(call: &Call<'_>, up: bool) -> Result<Bind> {
    if call.args.len() == 2 {
        return super::time_parts::rounded(call, up);
    }
    let data_type = call.data_type(0).clone();
    Ok(match data_type {
        DataType::Decimal128(precision, scale) => {
            let unit = 10_i128.pow(scale.unsigned_abs().into());
            let result = DataType::Decimal128(precision, 0);
            let target = result.clone();
            Plan::new(result, move |columns| {
                let array = columns.array(0)?;
                let rounded = array.as_primitive::<Decimal128Type>().unary::<_, Decimal128Type>(|v| {
                    let down = v.div_euclid(unit);
                    if up && v.rem_euclid(unit) != 0 { down + 1 } else { down }
                });
                Ok(Arc::new(rounded.with_data_type(target.clone())))
            })
            .into()
        }
        DataType::Float32 => Plan::new(data_type, move |columns| Ok(map::<Float32Type>(&columns.array(0)?, if up { f32::ceil } else { f32::floor }))).into(),
        DataType::Float64 => Plan::new(data_type, move |columns| Ok(map::<Float64Type>(&columns.array(0)?, if up { f64::ceil } else { f64::floor }))).into(),
        ref other if crate::types::is_integer(other) => Bind::Expr(call.args[0].clone()),
        DataType::Null => Bind::Expr(Typed::literal(ScalarValue::Int32(None))),
        other => return plan_err!("{} takes a number, or a time TO a unit as in FLOOR(ts TO HOUR), got {}", call.name, crate::types::type_name(&other)),
    })
}

/// ROUND (half away from zero) and TRUNCATE to digits behind the point, or before it if negative.
fn round(call: &Call<'_>, cut: bool) -> Result<Bind> {
    let digits = match call.args.get(1) {
        None => Some(0),
        Some(argument) => match argument.value() {
            Some(ScalarValue::Int64(digits)) => Some(digits.unwrap_or(0).clamp(-100, 100)),
            _ => None,
        },
    };
    if call.is_null(1) {
        return Ok(Bind::Expr(Typed::new(datafusion::logical_expr::Expr::Literal(ScalarValue::try_from(call.data_type(0))?, None), call.data_type(0).clone())));
    }
    let result = match (call.data_type(0), digits) {
        (DataType::Decimal128(precision, scale), Some(digits)) if digits < i64::from(*scale) => {
            let kept = digits.max(0) as i8;
            DataType::Decimal128((*precision as i8 - scale + kept + 1).clamp(1, 38) as u8, kept)
        }
        (other, _) => other.clone(),
    };
    let from = call.data_type(0).clone();
    let target = result.clone();
    Ok(Plan::new(result, move |columns| rounded(columns, &from, &target, cut)).into())
}

fn rounded(columns: &Columns<'_>, from: &DataType, to: &DataType, cut: bool) -> Result<ArrayRef> {
    let array = columns.array(0)?;
    let places = if columns.len() > 1 { Some(columns.numbers::<Int64Type>(1)?) } else { None };
    let digits = |row: usize| places.as_ref().map_or(Some(0), |places| places.get(row)).map(|digits| digits.clamp(-100, 100));
    let whole = |value: i64, row: usize| digits(row).map(|digits| round_whole(value, digits, cut));
    Ok(match from {
        DataType::Int8 => per_row::<Int8Type>(&array, |v, row| whole(v.into(), row).map(|v| v as i8))?,
        DataType::Int16 => per_row::<Int16Type>(&array, |v, row| whole(v.into(), row).map(|v| v as i16))?,
        DataType::Int32 => per_row::<Int32Type>(&array, |v, row| whole(v.into(), row).map(|v| v as i32))?,
        DataType::Int64 => per_row::<Int64Type>(&array, whole)?,
        DataType::Float32 => per_row::<Float32Type>(&array, |v, row| digits(row).map(|digits| round_float(&format!("{v:e}"), v.into(), digits, cut) as f32))?,
        DataType::Float64 => per_row::<Float64Type>(&array, |v, row| digits(row).map(|digits| round_float(&format!("{v:e}"), v, digits, cut)))?,
        DataType::Decimal128(_, scale) => {
            let DataType::Decimal128(precision, kept) = *to else { return internal_err!("ROUND of a decimal makes {to}") };
            let round = |v: i128, row: usize| round_decimal(v, *scale, digits(row)?, precision, kept, cut);
            let values = array.as_primitive::<Decimal128Type>();
            let done = collect::<Decimal128Type>(values.len(), |row| Ok(if values.is_valid(row) { round(values.value(row), row) } else { None }))?;
            Arc::new(done.with_precision_and_scale(precision, kept)?)
        }
        other => return internal_err!("ROUND of {other}"),
    })
}

fn per_row<T: ArrowPrimitiveType>(array: &ArrayRef, of: impl Fn(T::Native, usize) -> Option<T::Native>) -> Result<ArrayRef> {
    let values = array.as_primitive::<T>();
    Ok(Arc::new(collect::<T>(values.len(), |row| Ok(if values.is_valid(row) { of(values.value(row), row) } else { None }))?))
}

fn round_whole(value: i64, digits: i64, cut: bool) -> i64 {
    if digits >= 0 {
        return value;
    }
    let Some(unit) = 10_i128.checked_pow((-digits).min(30) as u32) else { return 0 };
    let value = i128::from(value);
    let (quotient, rest) = (value / unit, value % unit);
    let up = !cut && rest.abs() * 2 >= unit;
    ((quotient + if up { value.signum() } else { 0 }) * unit) as i64
}

fn round_decimal(value: i128, scale: i8, digits: i64, precision: u8, kept: i8, cut: bool) -> Option<i128> {
    let digits = digits.clamp(-38, i64::from(scale)) as i8;
    let unit = 10_i128.checked_pow((scale - digits) as u32)?;
    let (quotient, rest) = (value / unit, value % unit);
    let up = !cut && rest.unsigned_abs() >= unit.unsigned_abs() - rest.unsigned_abs();
    let shortened = quotient + if up { value.signum() } else { 0 };
    // The shortened number has `digits` digits behind the point; the result `kept`.
    if digits >= 0 { rescale(shortened, digits, precision, kept) } else { rescale(shortened.checked_mul(10_i128.checked_pow(digits.unsigned_abs().into())?)?, 0, precision, kept) }
}

/// Through the shortest decimal text, as BigDecimal.valueOf does.
fn round_float(shortest: &str, value: f64, digits: i64, cut: bool) -> f64 {
    if !value.is_finite() || digits > 30 {
        return value;
    }
    if cut {
        let Some((mantissa, exponent)) = shortest.split_once('e') else { return value };
        let exponent: i64 = exponent.parse().unwrap_or(0);
        // Digits that stay: one before the point of the mantissa, `exponent + digits` behind it.
        let keep = exponent + digits;
        if keep < 0 {
            return 0.0 * value.signum();
        }
        let sign = usize::from(mantissa.starts_with('-'));
        let end = (sign + 2 + keep as usize).min(mantissa.len());
        return format!("{}e{exponent}", mantissa[..end].trim_end_matches('.')).parse().unwrap_or(value);
    }
    if digits >= 0 {
        return match float_to_decimal(value, 38, digits as i8) {
            Some(rounded) => format!("{rounded}e-{digits}").parse().unwrap_or(value),
            None => value,
        };
    }
    let unit = 10_f64.powi((-digits) as i32);
    (value / unit).round() * unit
}

fn written(write: fn(i64, &mut String)) -> Bind {
    Plan::new(DataType::Utf8, move |columns| {
        let values = columns.numbers::<Int64Type>(0)?;
        collect_text(columns.rows, |row, out| Ok(values.get(row).map(|value| write(value, out))))
    })
    .into()
}

fn hex(call: &Call<'_>) -> Result<Bind> {
    let value = call.args[0].clone();
    let data_type = value.data_type.clone();
    let plan = match &data_type {
        DataType::Utf8 => Plan::new(DataType::Utf8, |columns| {
            let texts = columns.texts(0)?;
            collect_text(columns.rows, |row, out| Ok(texts.get(row).map(|text| out.push_str(&::hex::encode_upper(text)))))
        }),
        other if crate::types::is_integer(other) => {
            let wide = crate::cast::cast_to(value, &DataType::Int64.into(), call.mode())?;
            let plan = Plan::new(DataType::Utf8, |columns| {
                let values = columns.numbers::<Int64Type>(0)?;
                collect_text(columns.rows, |row, out| Ok(values.get(row).map(|value| out.push_str(&format!("{value:X}")))))
            });
            return Ok(Bind::Expr(plan.call("HEX", String::new(), vec![wide])));
        }
        other => return plan_err!("HEX takes a whole number or a text, got {}", crate::types::type_name(other)),
    };
    Ok(plan.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_as_flink_does() {
        assert_eq!(round_whole(12_355, -1, false), 12_360);
        assert_eq!(round_whole(-12_355, -1, false), -12_360);
        assert_eq!(round_whole(12_345, -2, true), 12_300);
        assert_eq!(round_whole(i64::MAX, -30, false), 0);
        assert_eq!(round_float("2.345e0", 2.345, 2, false), 2.35);
        assert_eq!(round_float("-2.5e0", -2.5, 0, false), -3.0);
        assert_eq!(round_float("4.2345e1", 42.345, 2, true), 42.34);
        assert_eq!(round_float("1e300", 1e300, 2, false), 1e300);
        assert_eq!(round_decimal(12_355, 3, 2, 5, 2, false), Some(1_236));
        assert_eq!(round_decimal(42_345, 3, -1, 3, 0, true), Some(40));
    }
}
