//! Operators: arithmetic, comparison and time ± interval, with Flink's types.
//!
//! Promises: INT stays INT and wraps, whole division cuts towards zero, decimals have Flink's precision, comparisons
//! bring both sides to one type before they compare. Dividing by zero is a bad row, but for DOUBLE by DOUBLE.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray},
    datatypes::{
        ArrowNativeTypeOp, DataType, Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNano,
        IntervalMonthDayNanoType, TimeUnit,
    },
};
use datafusion::{
    common::{Result, ScalarValue, internal_err, plan_err},
    logical_expr::{BinaryExpr, Expr, Operator, cast, lit},
};

use crate::{
    cast::{Mode, cast_to, ticks, time_millis, times_of_ms, timestamps},
    civil::{DAY_MS, add_months},
    decimal,
    error::bad_row,
    func::{Columns, Plan, Typed, collect},
    literal::{interval_type, interval_value},
    types::{Arithmetic, as_decimal, common_type, decimal_result, is_float, is_integer, is_interval, is_numeric, per_second, type_name},
};

/// Name of `time + interval` as a call.
pub(crate) const SHIFT: &str = "plus_interval";
/// Name of `time - interval` as a call.
pub(crate) const SHIFT_BACK: &str = "minus_interval";

pub(crate) fn binary(left: Typed, op: Operator, right: Typed, data_type: DataType) -> Typed {
    Typed::new(Expr::BinaryExpr(BinaryExpr { left: Box::new(left.expr), op, right: Box::new(right.expr) }), data_type)
}

/// `+ - * / %`.
pub(crate) fn arithmetic(op: Arithmetic, left: Typed, right: Typed, mode: Mode) -> Result<Typed> {
    let (a, b) = (left.data_type.clone(), right.data_type.clone());
    if let Some(done) = intervals(op, &left, &right)? {
        return Ok(done);
    }
    let (left, right) = match (is_numeric(&a), is_numeric(&b)) {
        (true, true) => (left, right),
        (true, false) if b == DataType::Null => (left, cast_to(right, &a.clone().into(), mode)?),
        (false, true) if a == DataType::Null => (cast_to(left, &b.clone().into(), mode)?, right),
        _ => return refused(op, &a, &b),
    };
    let (a, b) = (left.data_type.clone(), right.data_type.clone());
    if is_float(&a) || is_float(&b) {
        return floats(op, left, right, mode);
    }
    if is_integer(&a) && is_integer(&b) {
        let Some(common) = common_type(&a, &b) else { return refused(op, &a, &b) };
        // The remainder has the type of the divisor.
        let result = if op == Arithmetic::Modulo { b } else { common.clone() };
        let done = binary(
            cast_to(left, &common.clone().into(), mode)?,
            operator(op),
            cast_to(right, &common.clone().into(), mode)?,
            common,
        );
        return cast_to(done, &result.into(), mode);
    }
    let (Some(x), Some(y)) = (as_decimal(&a), as_decimal(&b)) else { return refused(op, &a, &b) };
    let (precision, scale) = decimal_result(op, x, y);
    Ok(decimal::calculation(op, left, right, precision, scale))
}

fn operator(op: Arithmetic) -> Operator {
    match op {
        Arithmetic::Add => Operator::Plus,
        Arithmetic::Subtract => Operator::Minus,
        Arithmetic::Multiply => Operator::Multiply,
        Arithmetic::Divide => Operator::Divide,
        Arithmetic::Modulo => Operator::Modulo,
    }
}

fn refused<T>(op: Arithmetic, a: &DataType, b: &DataType) -> Result<T> {
    let point = |t: &DataType| matches!(t, DataType::Timestamp(..) | DataType::Date32 | DataType::Time32(_));
    let hint = match op {
        Arithmetic::Subtract if point(a) && point(b) => ": use TIMESTAMPDIFF(SECOND, from, to)",
        Arithmetic::Add | Arithmetic::Subtract if point(a) && is_numeric(b) => ": add an interval, such as INTERVAL '1' DAY",
        Arithmetic::Add if *a == DataType::Utf8 || *b == DataType::Utf8 => ": texts are joined by ||, numbers in texts need a CAST",
        _ if *a == DataType::Utf8 || *b == DataType::Utf8 => ": CAST the text to a number first",
        _ => "",
    };
    plan_err!("{} {} {} has no meaning{hint}", type_name(a), op.sign(), type_name(b))
}

fn floats(op: Arithmetic, left: Typed, right: Typed, mode: Mode) -> Result<Typed> {
    use DataType::{Float32, Float64};
    let (a, b) = (left.data_type.clone(), right.data_type.clone());
    let exact = |t: &DataType| matches!(t, DataType::Decimal128(..));
    let common = if exact(&a) || exact(&b) || a == Float64 || b == Float64 { Float64 } else { Float32 };
    // As in Flink, FLOAT before DOUBLE makes a FLOAT.
    let result = if a == Float32 && b == Float64 { Float32 } else { common.clone() };
    // By a column's 0 a double makes infinity, but a 0 in the script is a mistake.
    let zero = |value: &ScalarValue| value.cast_to(&Float64).is_ok_and(|value| value == ScalarValue::Float64(Some(0.0)));
    if matches!(op, Arithmetic::Divide | Arithmetic::Modulo) && !is_float(&b) && right.value().is_some_and(zero) {
        return plan_err!("division by zero");
    }
    let (left, right) = (cast_to(left, &common.clone().into(), mode)?, cast_to(right, &common.clone().into(), mode)?);
    let done = binary(left, operator(op), right, common);
    cast_to(done, &result.into(), mode)
}

/// Arithmetic with intervals; `None` if none takes part.
fn intervals(op: Arithmetic, left: &Typed, right: &Typed) -> Result<Option<Typed>> {
    let (a, b) = (&left.data_type, &right.data_type);
    let times = |t: &DataType| matches!(t, DataType::Timestamp(..) | DataType::Date32 | DataType::Time32(_));
    match (is_interval(a), is_interval(b)) {
        (false, false) => Ok(None),
        (true, true) => match op {
            Arithmetic::Add => Ok(Some(combined(left, right, 1))),
            Arithmetic::Subtract => Ok(Some(combined(left, right, -1))),
            _ => refused(op, a, b),
        },
        (false, true) if times(a) => match op {
            Arithmetic::Add => Ok(Some(shifted(left.clone(), right.clone(), false))),
            Arithmetic::Subtract => Ok(Some(shifted(left.clone(), right.clone(), true))),
            _ => refused(op, a, b),
        },
        (true, false) if times(b) && op == Arithmetic::Add => Ok(Some(shifted(right.clone(), left.clone(), false))),
        (true, false) if is_integer(b) && matches!(op, Arithmetic::Multiply | Arithmetic::Divide) => {
            Ok(Some(scaled(left.clone(), right.clone(), op == Arithmetic::Divide)))
        }
        (false, true) if is_integer(a) && op == Arithmetic::Multiply => Ok(Some(scaled(right.clone(), left.clone(), false))),
        _ => refused(op, a, b),
    }
}

/// `time ± interval`: a binary expression where DataFusion knows the type, else a call.
fn shifted(time: Typed, interval: Typed, back: bool) -> Typed {
    let data_type = time.data_type.clone();
    if matches!(data_type, DataType::Time32(_)) {
        return Typed::new(shift(time.expr, interval.expr, &data_type, back), data_type);
    }
    binary(time, if back { Operator::Minus } else { Operator::Plus }, interval, data_type)
}

fn months_and_ms(value: IntervalMonthDayNano) -> (i64, i64) {
    (value.months.into(), i64::from(value.days) * DAY_MS + value.nanoseconds / 1_000_000)
}

fn parts(value: &Typed) -> Option<(i64, i64)> {
    match value.value() {
        Some(ScalarValue::IntervalMonthDayNano(Some(value))) => Some(months_and_ms(*value)),
        _ => None,
    }
}

fn combined(left: &Typed, right: &Typed, sign: i64) -> Typed {
    let folded = || {
        let ((m1, t1), (m2, t2)) = (parts(left)?, parts(right)?);
        interval_value(m1 + sign * m2, t1.checked_add(sign * t2)?)
    };
    if let Some(value) = folded() {
        return Typed::literal(value);
    }
    let plan = Plan::new(interval_type(), move |columns| {
        let (a, b) = (columns.numbers::<IntervalMonthDayNanoType>(0)?, columns.numbers::<IntervalMonthDayNanoType>(1)?);
        Ok(Arc::new(collect::<IntervalMonthDayNanoType>(columns.rows, |row| {
            let (Some(a), Some(b)) = (a.get(row), b.get(row)) else { return Ok(None) };
            let ((m1, t1), (m2, t2)) = (months_and_ms(a), months_and_ms(b));
            as_interval(m1 + sign * m2, t1.saturating_add(sign * t2)).map(Some)
        })?))
    });
    plan.fallible().call(if sign > 0 { "add" } else { "subtract" }, String::new(), vec![left.clone(), right.clone()])
}

fn as_interval(months: i64, ms: i64) -> Result<IntervalMonthDayNano> {
    match interval_value(months, ms) {
        Some(ScalarValue::IntervalMonthDayNano(Some(value))) => Ok(value),
        _ => Err(bad_row(format!("an interval of {months} months and {ms} ms is too long"))),
    }
}

/// `interval * n` and `interval / n`.
fn scaled(interval: Typed, factor: Typed, divide: bool) -> Typed {
    let count = match factor.value() {
        Some(ScalarValue::Int32(Some(n))) => Some(i64::from(*n)),
        Some(ScalarValue::Int64(Some(n))) => Some(*n),
        _ => None,
    };
    let folded = || {
        let ((months, ms), count) = (parts(&interval)?, count?);
        if divide { interval_value(months.checked_div(count)?, ms.checked_div(count)?) } else { interval_value(months.checked_mul(count)?, ms.checked_mul(count)?) }
    };
    if let Some(value) = folded() {
        return Typed::literal(value);
    }
    let plan = Plan::new(interval_type(), move |columns| {
        let (interval, factor) = (columns.numbers::<IntervalMonthDayNanoType>(0)?, columns.numbers::<Int64Type>(1)?);
        Ok(Arc::new(collect::<IntervalMonthDayNanoType>(columns.rows, |row| {
            let (Some(interval), Some(n)) = (interval.get(row), factor.get(row)) else { return Ok(None) };
            let (months, ms) = months_and_ms(interval);
            if divide && n == 0 {
                return Err(bad_row("division by zero"));
            }
            let (months, ms) = if divide { (months / n, ms / n) } else { (months.saturating_mul(n), ms.saturating_mul(n)) };
            as_interval(months, ms).map(Some)
        })?))
    });
    let factor = if factor.data_type == DataType::Int64 { factor } else { Typed::new(cast(factor.expr, DataType::Int64), DataType::Int64) };
    plan.fallible().call(if divide { "divide" } else { "multiply" }, String::new(), vec![interval, factor])
}

/// The call that evaluates `time ± interval`.
pub(crate) fn shift(time: Expr, interval: Expr, of: &DataType, back: bool) -> Expr {
    let result = of.clone();
    let plan = Plan::new(result.clone(), move |columns| shift_kernel(columns, &result, back));
    let name = if back { SHIFT_BACK } else { SHIFT };
    plan.fallible().call(name, String::new(), vec![Typed::new(time, of.clone()), Typed::new(interval, interval_type())]).expr
}

fn shift_kernel(columns: &Columns<'_>, of: &DataType, back: bool) -> Result<ArrayRef> {
    let intervals = columns.numbers::<IntervalMonthDayNanoType>(1)?;
    let sign = if back { -1 } else { 1 };
    let too_far = || bad_row("a time moved by an interval leaves the range of its type");
    let times = columns.array(0)?;
    match of {
        DataType::Timestamp(unit, _) => {
            let (ticks, unit) = (ticks(&times)?, *unit);
            let per_ms = |ms: i64| match unit {
                TimeUnit::Second => Some(ms.div_euclid(1_000)),
                _ => ms.checked_mul(per_second(&unit) / 1_000),
            };
            let day = per_second(&unit) * 86_400;
            let moved = collect::<Int64Type>(columns.rows, |row| {
                let (true, Some(interval)) = (ticks.is_valid(row), intervals.get(row)) else { return Ok(None) };
                let (months, ms) = months_and_ms(interval);
                let mut value = ticks.value(row);
                if months != 0 {
                    let days = add_months(value.div_euclid(day), sign * months);
                    value = days.checked_mul(day).and_then(|v| v.checked_add(value.rem_euclid(day))).ok_or_else(too_far)?;
                }
                Ok(Some(per_ms(sign * ms).and_then(|by| value.checked_add(by)).ok_or_else(too_far)?))
            })?;
            Ok(timestamps(moved, of))
        }
        DataType::Date32 => {
            let days = times.as_primitive::<Date32Type>();
            Ok(Arc::new(collect::<Date32Type>(columns.rows, |row| {
                let (true, Some(interval)) = (days.is_valid(row), intervals.get(row)) else { return Ok(None) };
                let (months, ms) = months_and_ms(interval);
                let day = add_months(days.value(row).into(), sign * months) + (sign * ms).div_euclid(DAY_MS);
                i32::try_from(day).map(Some).map_err(|_| too_far())
            })?))
        }
        DataType::Time32(unit) => {
            let clock = time_millis(&times, unit);
            let moved = collect::<Int64Type>(columns.rows, |row| {
                let (true, Some(interval)) = (clock.is_valid(row), intervals.get(row)) else { return Ok(None) };
                Ok(Some((clock.value(row) + sign * months_and_ms(interval).1).rem_euclid(DAY_MS)))
            })?;
            Ok(times_of_ms(moved, unit))
        }
        other => internal_err!("{other} + interval"),
    }
}

/// The call that evaluates `/` and `%` of whole numbers.
pub(crate) fn whole_division(left: Expr, right: Expr, of: &DataType, modulo: bool) -> Expr {
    let result = of.clone();
    let plan = Plan::new(result.clone(), move |columns| match &result {
        DataType::Int8 => divided::<Int8Type>(columns, modulo),
        DataType::Int16 => divided::<Int16Type>(columns, modulo),
        DataType::Int32 => divided::<Int32Type>(columns, modulo),
        _ => divided::<Int64Type>(columns, modulo),
    });
    let name = if modulo { "modulo" } else { "divide" };
    plan.fallible().call(name, String::new(), vec![Typed::new(left, of.clone()), Typed::new(right, of.clone())]).expr
}

fn divided<T: ArrowPrimitiveType>(columns: &Columns<'_>, modulo: bool) -> Result<ArrayRef>
where
    T::Native: ArrowNativeTypeOp,
{
    let zero = T::Native::ZERO;
    let (left, step) = columns.column(0)?;
    let (right, right_step) = columns.column(1)?;
    if let (1, 0) = (step, right_step)
        && let Some(right) = right.as_primitive_opt::<T>()
        && right.is_valid(0)
        && right.value(0) != zero
    {
        // By a constant: no row can fail.
        let by = right.value(0);
        let left = left.as_primitive::<T>();
        let done: PrimitiveArray<T> = if modulo { left.unary(|v| v.mod_wrapping(by)) } else { left.unary(|v| v.div_wrapping(by)) };
        return Ok(Arc::new(done));
    }
    let (a, b) = (columns.numbers::<T>(0)?, columns.numbers::<T>(1)?);
    Ok(Arc::new(collect::<T>(columns.rows, |row| match (a.get(row), b.get(row)) {
        (Some(_), Some(b)) if b == zero => Err(bad_row("division by zero")),
        (Some(a), Some(b)) => Ok(Some(if modulo { a.mod_wrapping(b) } else { a.div_wrapping(b) })),
        _ => Ok(None),
    })?))
}

/// `= <> < <= > >= IS [NOT] DISTINCT FROM`.
pub(crate) fn comparison(op: Operator, left: Typed, right: Typed, mode: Mode) -> Result<Typed> {
    let (left, right) = comparable(op, left, right, mode)?;
    Ok(binary(left, op, right, DataType::Boolean))
}

/// Both sides as one type.
pub(crate) fn comparable(op: Operator, left: Typed, right: Typed, mode: Mode) -> Result<(Typed, Typed)> {
    let (a, b) = (left.data_type.clone(), right.data_type.clone());
    if a == b {
        return Ok((left, right));
    }
    if let (Some((p1, s1)), Some((p2, s2))) = (as_decimal(&a), as_decimal(&b))
        && (!is_integer(&a) || !is_integer(&b))
    {
        let (whole, scale) = ((p1 as i8 - s1).max(p2 as i8 - s2), s1.max(s2));
        if whole + scale > 38 {
            let wide = DataType::Decimal256(76, scale);
            let widened = |value: Typed| Typed::new(cast(value.expr, wide.clone()), wide.clone());
            return Ok((widened(left), widened(right)));
        }
    }
    if let Some(common) = common_type(&a, &b) {
        return Ok((cast_to(left, &common.clone().into(), mode)?, cast_to(right, &common.into(), mode)?));
    }
    let castable = |t: &DataType| is_numeric(t) || matches!(t, DataType::Boolean | DataType::Date32 | DataType::Time32(_) | DataType::Timestamp(..));
    let equality = matches!(op, Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom);
    match (&a, &b) {
        (DataType::Utf8, other) | (other, DataType::Utf8) if equality && is_numeric(other) => {
            plan_err!("{} and {} cannot be compared by {op}: CAST one of them to the other's type", type_name(&a), type_name(&b))
        }
        (DataType::Utf8, other) if castable(other) => Ok((cast_to(left, &other.clone().into(), mode)?, right)),
        (other, DataType::Utf8) if castable(other) => Ok((left, cast_to(right, &other.clone().into(), mode)?)),
        _ => plan_err!("{} and {} cannot be compared", type_name(&a), type_name(&b)),
    }
}

/// All as the type where they meet: the branches of CASE, the arguments of COALESCE, the items of ARRAY.
pub(crate) fn unified(what: &str, values: Vec<Typed>, mode: Mode) -> Result<Vec<Typed>> {
    let mut common = DataType::Null;
    for value in &values {
        common = match common_type(&common, &value.data_type) {
            Some(common) => common,
            None => return plan_err!("{what}: {} and {} have no common type, CAST one of them", type_name(&common), type_name(&value.data_type)),
        };
    }
    values.into_iter().map(|value| cast_to(value, &common.clone().into(), mode)).collect()
}

/// `-x`.
pub(crate) fn negative(value: Typed) -> Result<Typed> {
    let data_type = value.data_type.clone();
    if let Some((months, ms)) = parts(&value)
        && let Some(negated) = interval_value(-months, -ms)
    {
        return Ok(Typed::literal(negated));
    }
    if is_interval(&data_type) {
        return Ok(scaled(value, Typed::new(lit(-1_i64), DataType::Int64), false));
    }
    if !is_numeric(&data_type) && data_type != DataType::Null {
        return plan_err!("-{} has no meaning: expected a number or an interval", type_name(&data_type));
    }
    Ok(Typed::new(Expr::Negative(Box::new(value.expr)), data_type))
}
