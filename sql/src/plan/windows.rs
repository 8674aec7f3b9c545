//! Window functions in FROM: TUMBLE, HOP and CUMULATE, in Flink's way and in RisingWave's.
//!
//! `TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '1' MINUTE [, offset]))`, the same with
//! `DATA => …, TIMECOL => …, SLIDE => …, SIZE => …, OFFSET => …`, and `HOP(t, ts, slide, size)`. The table may be a
//! sub-select. Each row stands once per window it falls into, with `window_start`, `window_end`, `window_time` behind
//! its own columns.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::{
    common::ScalarValue,
    logical_expr::Expr,
    sql::sqlparser::ast::{
        Expr as Ast, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Spanned,
    },
};

use super::{
    fault::{Fault, Planned, nearest, not_built},
    query::{Ctes, Planner},
    rel::{Op, Rel, RelColumn, Role, Shape, Window, window_columns},
    scope::{Scope, table_name},
    translate::Clause,
};

/// Parameters by function, in the order of unnamed arguments.
const PARAMETERS: [(&str, &[&str]); 3] = [
    ("TUMBLE", &["DATA", "TIMECOL", "SIZE", "OFFSET"]),
    ("HOP", &["DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"]),
    ("CUMULATE", &["DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"]),
];

/// Whether `name` is a window function, also one that is not built.
pub(crate) fn is_window_function(name: &str) -> bool {
    name.eq_ignore_ascii_case("SESSION") || PARAMETERS.iter().any(|(known, _)| name.eq_ignore_ascii_case(known))
}

impl Planner<'_> {
    /// The rows of a window function.
    pub(crate) fn window_function(&self, function: &Function, ctes: &Ctes) -> Planned<Arc<Rel>> {
        let span = function.name.span();
        let name = function.name.to_string().to_ascii_uppercase();
        let Some((_, parameters)) = PARAMETERS.iter().find(|(known, _)| *known == name) else {
            return Err(not_built(span, "SESSION windows are", "TUMBLE, HOP and CUMULATE are"));
        };
        let arguments = arguments(function, &name, parameters)?;
        let required = |index: usize| {
            let missing = || Fault::at(span, format!("{name} takes ({}): {} is missing", signature(parameters), parameters[index]));
            arguments[index].ok_or_else(missing)
        };
        let input = self.data(required(0)?, ctes)?;
        let time = time_column(required(1)?, &input, &name)?;
        let length = |index: usize| self.length(required(index)?, parameters[index]);
        let shape = match name.as_str() {
            "TUMBLE" => Shape::Tumble { size_ms: length(2)? },
            "HOP" => Shape::Hop { slide_ms: length(2)?, size_ms: length(3)? },
            _ => Shape::Cumulate { step_ms: length(2)?, size_ms: length(3)? },
        };
        let offset_ms = match arguments[parameters.len() - 1] {
            Some(ast) => self.interval(ast, "OFFSET")?,
            None => 0,
        };
        check_shape(shape, offset_ms).map_err(|message| Fault::at(span, message))?;
        let data_type = input.columns[time].field.data_type().clone();
        let zone = matches!(data_type, DataType::Timestamp(_, Some(_))).then(|| self.zone.clone());
        let window = Arc::new(Window { shape, offset_ms, zone });
        // As in Flink: behind the window function, window_time is the time attribute, and earlier windows are plain columns.
        let plain = |column: &RelColumn| RelColumn::new(Arc::clone(&column.field), Role::Plain);
        let columns = input.columns.iter().map(plain).chain(window_columns(&window, &data_type)).collect();
        Ok(Arc::new(Rel { op: Op::Assign { input, window, time }, columns }))
    }

    fn data(&self, ast: &Ast, ctes: &Ctes) -> Planned<Arc<Rel>> {
        match ast {
            Ast::Subquery(query) => self.query(query, ctes),
            Ast::Nested(inner) => self.data(inner, ctes),
            Ast::Identifier(ident) => self.relation(&ident.value, ident.span, ctes),
            Ast::CompoundIdentifier(parts) => {
                let name = datafusion::sql::sqlparser::ast::ObjectName::from(parts.clone());
                self.relation(&table_name(&name)?, ast.span(), ctes)
            }
            other => Err(Fault::at(other.span(), format!("expected TABLE name or (SELECT …), found `{other}`"))),
        }
    }

    fn length(&self, ast: &Ast, parameter: &str) -> Planned<i64> {
        let ms = self.interval(ast, parameter)?;
        if ms > 0 { Ok(ms) } else { Err(Fault::at(ast.span(), format!("{parameter} must be longer than zero"))) }
    }

    fn interval(&self, ast: &Ast, parameter: &str) -> Planned<i64> {
        let expr = self.translator.expr(ast, &Scope::default(), Clause::Argument)?;
        interval_ms(&expr).ok_or_else(|| {
            Fault::at(ast.span(), format!("{parameter} must be an interval of days, hours, minutes or seconds, such as INTERVAL '5' SECOND"))
        })
    }
}

fn signature(parameters: &[&str]) -> String {
    let names = ["TABLE t", "DESCRIPTOR(ts)"].into_iter().chain(parameters[2..parameters.len() - 1].iter().copied());
    format!("{} [, OFFSET]", names.collect::<Vec<_>>().join(", "))
}

fn arguments<'f>(function: &'f Function, name: &str, parameters: &[&str]) -> Planned<Vec<Option<&'f Ast>>> {
    let FunctionArguments::List(list) = &function.args else {
        return Err(Fault::at(function.name.span(), format!("{name} takes ({})", signature(parameters))));
    };
    let mut found = vec![None; parameters.len()];
    for (position, argument) in list.args.iter().enumerate() {
        let (index, value) = match argument {
            FunctionArg::Unnamed(value) => (position, value),
            FunctionArg::Named { name: parameter, arg, .. } => (named(&parameter.value, parameter.span, name, parameters)?, arg),
            FunctionArg::ExprNamed { name: parameter, arg, .. } => {
                (named(&parameter.to_string(), parameter.span(), name, parameters)?, arg)
            }
        };
        let FunctionArgExpr::Expr(value) = value else {
            return Err(Fault::at(function.name.span(), format!("{name} takes ({})", signature(parameters))));
        };
        let Some(slot) = found.get_mut(index) else {
            let message = format!("{name} takes at most {} arguments: ({})", parameters.len(), signature(parameters));
            return Err(Fault::at(value.span(), message));
        };
        *slot = Some(value);
    }
    Ok(found)
}

fn named(parameter: &str, span: datafusion::sql::sqlparser::tokenizer::Span, name: &str, parameters: &[&str]) -> Planned<usize> {
    parameters.iter().position(|known| known.eq_ignore_ascii_case(parameter)).ok_or_else(|| {
        Fault::at(span, format!("{name} has no parameter `{parameter}`{}", nearest(parameter, parameters.iter().copied())))
    })
}

/// The time attribute that DESCRIPTOR(ts), or a bare name, points to.
fn time_column(ast: &Ast, input: &Rel, name: &str) -> Planned<usize> {
    let ident = descriptor(ast).ok_or_else(|| Fault::at(ast.span(), "expected DESCRIPTOR(column)"))?;
    let (index, _) = Scope::of(&input.columns, None).find(std::slice::from_ref(ident))?;
    let column = &input.columns[index];
    if column.role.is_time_attribute() {
        return Ok(index);
    }
    let attributes: Vec<_> = input.columns.iter().filter(|c| c.role.is_time_attribute()).map(|c| format!("`{}`", c.name())).collect();
    let hint = if attributes.is_empty() {
        "declare one with WATERMARK FOR and pass it on unchanged (processing time is not built yet)".to_owned()
    } else {
        format!("time attributes here are {}", attributes.join(", "))
    };
    Err(Fault::at(ident.span, format!("{name} needs a time attribute, and `{}` is none: {hint}", ident.value)))
}

fn descriptor(ast: &Ast) -> Option<&Ident> {
    match ast {
        Ast::Identifier(ident) => Some(ident),
        Ast::Nested(inner) => descriptor(inner),
        Ast::Function(function) if function.name.to_string().eq_ignore_ascii_case("DESCRIPTOR") => match &function.args {
            FunctionArguments::List(list) => match list.args.as_slice() {
                [FunctionArg::Unnamed(FunctionArgExpr::Expr(Ast::Identifier(ident)))] => Some(ident),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

fn check_shape(shape: Shape, offset_ms: i64) -> Result<(), String> {
    match shape {
        Shape::Tumble { size_ms } if offset_ms.abs() >= size_ms => {
            Err(format!("the offset ({offset_ms} ms) must be shorter than the window ({size_ms} ms)"))
        }
        Shape::Hop { slide_ms, size_ms } if size_ms % slide_ms != 0 => {
            Err(format!("the size of HOP ({size_ms} ms) must be a multiple of its slide ({slide_ms} ms)"))
        }
        Shape::Cumulate { step_ms, size_ms } if size_ms % step_ms != 0 => {
            Err(format!("the size of CUMULATE ({size_ms} ms) must be a multiple of its step ({step_ms} ms)"))
        }
        _ => Ok(()),
    }
}

/// The length of an interval literal in ms; `None` for months, fractions of a ms and everything that is no literal.
pub(crate) fn interval_ms(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(value)), _) if value.months == 0 && value.nanoseconds % 1_000_000 == 0 => {
            i64::from(value.days).checked_mul(86_400_000)?.checked_add(value.nanoseconds / 1_000_000)
        }
        Expr::Literal(ScalarValue::IntervalDayTime(Some(value)), _) => {
            i64::from(value.days).checked_mul(86_400_000)?.checked_add(i64::from(value.milliseconds))
        }
        Expr::Negative(inner) => interval_ms(inner)?.checked_neg(),
        Expr::Cast(cast) => interval_ms(&cast.expr),
        _ => None,
    }
}
