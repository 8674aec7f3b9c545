//! Steps: the operators of `sql/operators`, filled in from relations.
//!
//! Expressions become DataFusion's physical ones here. They address columns by position, so that names of columns may
//! repeat.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::{
    common::ScalarValue,
    logical_expr::{Expr, expr::NullTreatment},
    sql::sqlparser::tokenizer::Span,
};
use pelton_core::{operator::OperatorFactory, source_step::SourceStepFactory};
use pelton_sql_operators as operators;
use pelton_sql_operators::Expression;

use super::{
    fault::{Fault, Planned, not_built},
    rel::{JoinKey, JoinKind, Op, Rel, RelColumn, Shape, Window, WindowEdge, Windowing, positional},
    translate::{field_of, message},
};

/// The first step of a source, before it is filled in.
pub(crate) struct SourceStep<'a> {
    /// Decoded and metadata columns.
    pub(crate) raw: &'a [RelColumn],
    /// Over `raw`.
    pub(crate) computed: &'a [(Expr, Arc<Field>)],
    /// `raw`, then the computed columns: what everything below is over.
    pub(crate) columns: &'a [RelColumn],
    /// The time attribute and the WATERMARK expression.
    pub(crate) time: Option<(usize, Expr)>,
    pub(crate) predicate: Option<Expr>,
    pub(crate) exprs: &'a [Expr],
    pub(crate) output: &'a [RelColumn],
}

/// Makes steps.
pub(crate) struct Steps;

impl Steps {
    fn compile(&self, expr: &Expr, columns: &[RelColumn]) -> Planned<Expression> {
        pelton_sql_expr::physical(expr, &positional(columns)).map_err(|error| Fault::at(Span::empty(), message(&error, columns)))
    }

    fn compile_all(&self, exprs: &[Expr], columns: &[RelColumn]) -> Planned<Vec<Expression>> {
        exprs.iter().map(|expr| self.compile(expr, columns)).collect()
    }

    fn compile_some(&self, expr: Option<&Expr>, columns: &[RelColumn]) -> Planned<Option<Expression>> {
        expr.map(|expr| self.compile(expr, columns)).transpose()
    }

    /// A filter and projection.
    pub(crate) fn calc(&self, columns: &[RelColumn], predicate: Option<&Expr>, exprs: &[Expr], rel: &Rel) -> Planned<Arc<dyn OperatorFactory>> {
        Ok(Arc::new(operators::Calc {
            predicate: self.compile_some(predicate, columns)?,
            exprs: self.compile_all(exprs, columns)?,
            schema: rel.schema(),
        }))
    }

    /// The first step of a source.
    pub(crate) fn source(&self, step: &SourceStep<'_>) -> Planned<Arc<dyn SourceStepFactory>> {
        let computed = step.computed.iter().map(|(expr, field)| Ok((self.compile(expr, step.raw)?, Arc::clone(field))));
        let time = match &step.time {
            Some((column, watermark)) => Some(operators::TimeAttribute {
                column: *column,
                watermark: self.compile(watermark, step.columns)?,
                plausible_ms: None,
            }),
            None => None,
        };
        Ok(Arc::new(operators::SourceCalc {
            input: schema(step.raw),
            computed: computed.collect::<Planned<Vec<_>>>()?,
            time,
            predicate: self.compile_some(step.predicate.as_ref(), step.columns)?,
            exprs: self.compile_all(step.exprs, step.columns)?,
            schema: schema(step.output),
        }))
    }

    /// A window function.
    pub(crate) fn assign(&self, window: &Window, time: usize, rel: &Rel) -> Planned<Arc<dyn OperatorFactory>> {
        Ok(Arc::new(operators::WindowAssign { window: spec(window)?, time, schema: rel.schema() }))
    }

    /// A window aggregate.
    pub(crate) fn window_aggregate(
        &self,
        rel: &Rel,
        input: &Rel,
        windowing: &Windowing,
        keys: &[usize],
        aggregates: &[Expr],
        edges: &[WindowEdge],
    ) -> Planned<Arc<dyn OperatorFactory>> {
        let edge = |edge: &WindowEdge| match edge {
            WindowEdge::Start => operators::WindowEdge::Start,
            WindowEdge::End => operators::WindowEdge::End,
            WindowEdge::Time => operators::WindowEdge::Time,
        };
        Ok(Arc::new(operators::WindowAggregate {
            window: spec(windowing.window())?,
            windowing: match windowing {
                Windowing::Time { time, .. } => operators::Windowing::Time { column: *time },
                Windowing::Attached { start, end, .. } => operators::Windowing::Attached { start: *start, end: *end },
            },
            keys: keys.to_vec(),
            aggregates: aggregates.iter().map(|call| self.aggregate(call, input)).collect::<Planned<Vec<_>>>()?,
            edges: edges.iter().map(edge).collect(),
            input: input.schema(),
            schema: rel.schema(),
        }))
    }

    fn aggregate(&self, call: &Expr, input: &Rel) -> Planned<operators::AggregateCall> {
        let fault = |error| Fault::at(Span::empty(), message(&error, &input.columns));
        let Expr::AggregateFunction(aggregate) = call else {
            return Err(Fault::at(Span::empty(), format!("`{call}` is no aggregate")));
        };
        let mut params = aggregate.params.clone();
        // IGNORE NULLS is a filter.
        if params.null_treatment == Some(NullTreatment::IgnoreNulls)
            && let [value, ..] = params.args.as_slice()
        {
            let there = value.clone().is_not_null();
            params.filter = Some(Box::new(match params.filter.take() {
                Some(filter) => filter.and(there),
                None => there,
            }));
        }
        // APPROX_PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x) has x among its arguments.
        let ordered = !params.order_by.is_empty() && !params.order_by.iter().all(|sort| sort.asc && params.args.contains(&sort.expr));
        if ordered {
            return Err(not_built(Span::empty(), "ORDER BY inside an aggregate is", "Rows are aggregated in the order in which they come"));
        }
        // COUNT of a constant counts rows.
        let counts_rows = aggregate.func.name() == "count"
            && !params.distinct
            && params.args.iter().all(|arg| matches!(arg, Expr::Literal(value, _) if *value != ScalarValue::Null && !value.is_null()));
        let args = if counts_rows { Vec::new() } else { self.compile_all(&params.args, &input.columns)? };
        Ok(operators::AggregateCall {
            function: Arc::clone(&aggregate.func),
            args,
            filter: self.compile_some(params.filter.as_deref(), &input.columns)?,
            distinct: params.distinct,
            return_type: field_of(call, &input.columns, "").map_err(fault)?.data_type().clone(),
            input: input.schema(),
        })
    }

    /// A window join or an interval join.
    pub(crate) fn join(&self, rel: &Rel) -> Planned<Arc<dyn OperatorFactory>> {
        match &rel.op {
            Op::WindowJoin { left, right, kind, keys, left_window, right_window, window, residual } => Ok(Arc::new(operators::WindowJoin {
                kind: join_kind(*kind),
                keys: join_keys(keys),
                left_window: *left_window,
                right_window: *right_window,
                window: spec(window)?,
                residual: self.residual(left, right, residual.as_ref())?,
                left: left.schema(),
                right: right.schema(),
                schema: rel.schema(),
            })),
            Op::IntervalJoin { left, right, kind, keys, left_time, right_time, lower_ms, upper_ms, residual } => {
                Ok(Arc::new(operators::IntervalJoin {
                    kind: join_kind(*kind),
                    keys: join_keys(keys),
                    left_time: *left_time,
                    right_time: *right_time,
                    lower_ms: *lower_ms,
                    upper_ms: *upper_ms,
                    residual: self.residual(left, right, residual.as_ref())?,
                    left: left.schema(),
                    right: right.schema(),
                    schema: rel.schema(),
                }))
            }
            _ => Err(Fault::at(Span::empty(), "this relation is no join")),
        }
    }

    fn residual(&self, left: &Rel, right: &Rel, residual: Option<&Expr>) -> Planned<Option<Expression>> {
        let columns: Vec<RelColumn> = left.columns.iter().chain(&right.columns).cloned().collect();
        self.compile_some(residual, &columns)
    }

    /// UNNEST.
    pub(crate) fn unnest(&self, input: &Rel, list: &Expr, outer: bool, ordinality: bool, rel: &Rel) -> Planned<Arc<dyn OperatorFactory>> {
        let field = field_of(list, &input.columns, "list").map_err(|error| Fault::at(Span::empty(), message(&error, &input.columns)))?;
        Ok(Arc::new(operators::Unnest {
            list: self.compile(list, &input.columns)?,
            list_type: field.data_type().clone(),
            outer,
            ordinality,
            schema: rel.schema(),
        }))
    }

    /// UNION ALL.
    pub(crate) fn union(rel: &Rel) -> Arc<dyn OperatorFactory> {
        Arc::new(operators::Union { schema: rel.schema() })
    }
}

fn schema(columns: &[RelColumn]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|column| Arc::clone(&column.field)).collect::<Vec<_>>()))
}

fn join_kind(kind: JoinKind) -> operators::JoinKind {
    match kind {
        JoinKind::Inner => operators::JoinKind::Inner,
        JoinKind::Left => operators::JoinKind::Left,
        JoinKind::Right => operators::JoinKind::Right,
        JoinKind::Full => operators::JoinKind::Full,
        JoinKind::Semi => operators::JoinKind::Semi,
        JoinKind::Anti => operators::JoinKind::Anti,
    }
}

fn join_keys(keys: &[JoinKey]) -> Vec<operators::JoinKey> {
    keys.iter().map(|key| operators::JoinKey { left: key.left, right: key.right, nulls_equal: key.nulls_equal }).collect()
}

fn spec(window: &Window) -> Planned<operators::WindowSpec> {
    let zone = match &window.zone {
        None => None,
        Some(zone) => Some(pelton_sql_expr::parse_zone(zone).map_err(|message| Fault::at(Span::empty(), message))?),
    };
    let kind = match window.shape {
        Shape::Tumble { size_ms } => operators::WindowKind::Tumble { size_ms },
        Shape::Hop { slide_ms, size_ms } => operators::WindowKind::Hop { slide_ms, size_ms },
        Shape::Cumulate { step_ms, size_ms } => operators::WindowKind::Cumulate { step_ms, size_ms },
    };
    Ok(operators::WindowSpec { kind, offset_ms: window.offset_ms, zone })
}
