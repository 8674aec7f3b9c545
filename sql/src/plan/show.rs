//! Expressions and windows as text, for EXPLAIN and for the names that operators keep across restarts.
//!
//! Promises: the same expression gives the same text in every run, whatever the order of maps.

use std::{fmt::Write as _, sync::Arc};

use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::{
    common::ScalarValue,
    logical_expr::{Between, BinaryExpr, Case, Expr},
};

use super::rel::{RelColumn, Shape, Window, index_of};

/// `expr` over `columns`, close to SQL.
pub(crate) fn show(expr: &Expr, columns: &[RelColumn]) -> String {
    let inner = |expr: &Expr| show(expr, columns);
    let list = |exprs: &[Expr]| exprs.iter().map(inner).collect::<Vec<_>>().join(", ");
    match expr {
        Expr::Column(_) => match index_of(expr).and_then(|index| columns.get(index)) {
            Some(column) => column.name().to_owned(),
            None => expr.to_string(),
        },
        Expr::Literal(value, _) => literal(value),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => format!("{} {op} {}", operand(left, columns), operand(right, columns)),
        Expr::Between(Between { expr, negated, low, high }) => {
            let not = if *negated { "NOT " } else { "" };
            format!("{} {not}BETWEEN {} AND {}", inner(expr), inner(low), inner(high))
        }
        Expr::Not(expr) => format!("NOT {}", operand(expr, columns)),
        Expr::Negative(expr) => format!("-{}", operand(expr, columns)),
        Expr::IsNull(expr) => format!("{} IS NULL", operand(expr, columns)),
        Expr::IsNotNull(expr) => format!("{} IS NOT NULL", operand(expr, columns)),
        Expr::Cast(cast) => format!("CAST({} AS {})", inner(&cast.expr), cast.field.data_type()),
        Expr::TryCast(cast) => format!("TRY_CAST({} AS {})", inner(&cast.expr), cast.field.data_type()),
        Expr::Case(Case { expr, when_then_expr, else_expr }) => {
            let mut text = String::from("CASE");
            if let Some(expr) = expr {
                let _ = write!(text, " {}", inner(expr));
            }
            for (when, then) in when_then_expr {
                let _ = write!(text, " WHEN {} THEN {}", inner(when), inner(then));
            }
            if let Some(expr) = else_expr {
                let _ = write!(text, " ELSE {}", inner(expr));
            }
            text + " END"
        }
        Expr::InList(list_expr) => {
            let not = if list_expr.negated { "NOT " } else { "" };
            format!("{} {not}IN ({})", inner(&list_expr.expr), list(&list_expr.list))
        }
        Expr::ScalarFunction(call) if call.func.name() == "get_field" && call.args.len() > 1 => {
            let fields = call.args[1..].iter().map(|name| match name {
                Expr::Literal(ScalarValue::Utf8(Some(name)), _) => name.clone(),
                other => inner(other),
            });
            format!("{}.{}", inner(&call.args[0]), fields.collect::<Vec<_>>().join("."))
        }
        Expr::ScalarFunction(call) => format!("{}({})", call.func.name(), list(&call.args)),
        Expr::AggregateFunction(call) => {
            let params = &call.params;
            let distinct = if params.distinct { "DISTINCT " } else { "" };
            let mut text = format!("{}({distinct}{}", call.func.name(), list(&params.args));
            if !params.order_by.is_empty() {
                let keys = params.order_by.iter().map(|sort| format!("{}{}", inner(&sort.expr), if sort.asc { "" } else { " DESC" }));
                let _ = write!(text, " ORDER BY {}", keys.collect::<Vec<_>>().join(", "));
            }
            text.push(')');
            if let Some(filter) = &params.filter {
                let _ = write!(text, " FILTER ({})", inner(filter));
            }
            text
        }
        other => other.to_string(),
    }
}

fn operand(expr: &Expr, columns: &[RelColumn]) -> String {
    let text = show(expr, columns);
    if matches!(expr, Expr::BinaryExpr(_) | Expr::Between(_) | Expr::Not(_) | Expr::InList(_)) { format!("({text})") } else { text }
}

fn literal(value: &ScalarValue) -> String {
    match value {
        _ if value.is_null() => "NULL".to_owned(),
        ScalarValue::Utf8(Some(text)) => format!("'{text}'"),
        ScalarValue::IntervalMonthDayNano(Some(interval)) if interval.months == 0 && interval.nanoseconds % 1_000_000 == 0 => {
            format!("INTERVAL {}", millis(i64::from(interval.days) * 86_400_000 + interval.nanoseconds / 1_000_000))
        }
        other => {
            // As Arrow writes it: times as times, not as numbers.
            let options = FormatOptions::default();
            let array = other.to_array().ok();
            let text = array.as_ref().and_then(|array| ArrayFormatter::try_new(array.as_ref(), &options).ok());
            text.map_or_else(|| other.to_string(), |text| text.value(0).to_string())
        }
    }
}

/// A length of time, in the largest unit that fits.
pub(crate) fn millis(ms: i64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    match units.iter().find(|(length, _)| ms != 0 && ms % length == 0) {
        Some((length, unit)) => format!("{} {unit}", ms / length),
        None => format!("{ms} ms"),
    }
}

/// A window function's windows.
pub(crate) fn window(window: &Arc<Window>) -> String {
    let mut text = match window.shape {
        Shape::Tumble { size_ms } => format!("tumble {}", millis(size_ms)),
        Shape::Hop { slide_ms, size_ms } => format!("hop {} by {}", millis(size_ms), millis(slide_ms)),
        Shape::Cumulate { step_ms, size_ms } => format!("cumulate {} by {}", millis(size_ms), millis(step_ms)),
    };
    if window.offset_ms != 0 {
        let _ = write!(text, ", offset {}", millis(window.offset_ms));
    }
    if let Some(zone) = &window.zone {
        let _ = write!(text, ", days of {zone}");
    }
    text
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::lit;

    use super::*;
    use crate::plan::rel::at;

    #[test]
    fn lengths_are_told_in_their_largest_unit() {
        assert_eq!(millis(90_000), "90 s");
        assert_eq!(millis(3_600_000), "1 h");
        assert_eq!(millis(0), "0 ms");
        assert_eq!(millis(-1_500), "-1500 ms");
    }

    #[test]
    fn operands_keep_their_parentheses() {
        let expr = (at(0) + lit(1_i64)) * at(1);
        assert_eq!(show(&expr, &[]), "($0 + 1) * $1");
    }
}
