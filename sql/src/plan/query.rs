//! Queries: WITH, UNION ALL, VALUES, and what may stand around a SELECT.
//!
//! Promises: every clause that is not planned is refused with its name and position. Leaves to others: a SELECT itself
//! (`select.rs`).

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use arrow::datatypes::Field;
use datafusion::{
    common::DataFusionError,
    logical_expr::Expr,
    sql::sqlparser::{
        ast::{Query, SetExpr, SetOperator, SetQuantifier, Spanned, Values},
        tokenizer::Span,
    },
};

use super::{
    fault::{Fault, Planned, not_built},
    rel::{Op, Rel, RelColumn, Role, at},
    scope::Scope,
    table::Catalog,
    translate::{Clause, Translator},
};

/// Relations by the names that WITH gave them.
pub(crate) type Ctes = HashMap<String, Arc<Rel>>;

/// Plans queries over a catalog.
pub(crate) struct Planner<'a> {
    pub(crate) catalog: &'a dyn Catalog,
    pub(crate) translator: Translator<'a>,
    /// `table.local-time-zone`.
    pub(crate) zone: String,
    /// Views being planned, outermost first: a view that reads itself is refused.
    pub(crate) open_views: RefCell<Vec<String>>,
}

impl Planner<'_> {
    /// Plans a query.
    pub(crate) fn query(&self, query: &Query, ctes: &Ctes) -> Planned<Arc<Rel>> {
        refuse_clauses(query)?;
        let mut ctes = ctes.clone();
        if let Some(with) = &query.with {
            if with.recursive {
                return Err(not_built(with.with_token.0.span, "WITH RECURSIVE is", "Streams have no end to recurse to"));
            }
            for cte in &with.cte_tables {
                let rel = self.query(&cte.query, &ctes)?;
                let columns: Vec<_> = cte.alias.columns.iter().map(|column| column.name.clone()).collect();
                let rel = rename_columns(&rel, &columns, cte.alias.name.span)?;
                ctes.insert(cte.alias.name.value.clone(), rel);
            }
        }
        self.body(&query.body, &ctes)
    }

    fn body(&self, body: &SetExpr, ctes: &Ctes) -> Planned<Arc<Rel>> {
        match body {
            SetExpr::Select(select) => self.select(select, ctes),
            SetExpr::Query(query) => self.query(query, ctes),
            SetExpr::Values(values) => self.values(values),
            SetExpr::SetOperation { left, op: SetOperator::Union, set_quantifier: SetQuantifier::All, right } => {
                let inputs = vec![self.body(left, ctes)?, self.body(right, ctes)?];
                self.union(inputs, right.span())
            }
            SetExpr::SetOperation { op, right, set_quantifier, .. } => {
                let quantifier = if *set_quantifier == SetQuantifier::All { " ALL" } else { "" };
                let hint = if *op == SetOperator::Union {
                    "UNION ALL is; UNION drops duplicates and would have to remember every row"
                } else {
                    "Within windows, join the two sides on window_start, window_end and all columns"
                };
                Err(not_built(right.span(), &format!("{op}{quantifier} is"), hint))
            }
            SetExpr::Table(table) => {
                let name = table.table_name.clone().unwrap_or_default();
                self.relation(&name, body.span(), ctes)
            }
            other => Err(Fault::at(other.span(), "expected a query")),
        }
    }

    fn values(&self, values: &Values) -> Planned<Arc<Rel>> {
        let scope = Scope::default();
        let mut rows = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            let exprs = row.iter().map(|ast| self.translator.expr(ast, &scope, Clause::Values)).collect::<Planned<Vec<_>>>()?;
            rows.push(exprs);
        }
        let width = rows.first().map_or(0, Vec::len);
        let at_row = |row: usize| values.rows[row].first().map_or_else(Span::empty, Spanned::span);
        if let Some(odd) = rows.iter().position(|row| row.len() != width) {
            let message = format!("row {} of VALUES has {} columns, the first has {width}", odd + 1, rows[odd].len());
            return Err(Fault::at(at_row(odd), message));
        }
        // Each row is a relation of its own; their union gives the columns their common types.
        let inputs = rows
            .into_iter()
            .enumerate()
            .map(|(row, exprs)| {
                let columns = exprs
                    .iter()
                    .enumerate()
                    .map(|(index, expr)| Ok(RelColumn::new(super::translate::field_of(expr, &[], &unnamed(index))?, Role::Plain)))
                    .collect::<Result<Vec<_>, DataFusionError>>()
                    .map_err(|error| Fault::at(at_row(row), super::translate::message(&error, &[])))?;
                Ok(Arc::new(Rel { op: Op::Values { rows: vec![exprs] }, columns }))
            })
            .collect::<Planned<Vec<_>>>()?;
        self.union(inputs, at_row(0))
    }

    /// All rows of `inputs`, with the first one's names.
    fn union(&self, inputs: Vec<Arc<Rel>>, span: Span) -> Planned<Arc<Rel>> {
        let Some(first) = inputs.first().cloned() else {
            return Err(Fault::at(span, "VALUES without rows"));
        };
        if inputs.len() == 1 {
            return Ok(first);
        }
        let mut columns = first.columns.clone();
        for input in &inputs[1..] {
            if input.columns.len() != columns.len() {
                let message =
                    format!("UNION ALL of {} and {} columns: each side must have the same columns", columns.len(), input.columns.len());
                return Err(Fault::at(span, message));
            }
            for (index, (ours, theirs)) in columns.iter_mut().zip(&input.columns).enumerate() {
                let common = self.translator.functions.common_type(ours.field.data_type(), theirs.field.data_type()).ok_or_else(|| {
                    Fault::at(
                        span,
                        format!(
                            "column {} (`{}`) of UNION ALL is {} on one side and {} on the other: cast one of them",
                            index + 1,
                            ours.name(),
                            self.translator.functions.type_name(ours.field.data_type()),
                            self.translator.functions.type_name(theirs.field.data_type()),
                        ),
                    )
                })?;
                let nullable = ours.field.is_nullable() || theirs.field.is_nullable();
                let role = if ours.role == theirs.role { ours.role.clone() } else { Role::Plain };
                *ours = RelColumn::new(Arc::new(Field::new(ours.name(), common, nullable)), role);
            }
        }
        let inputs = inputs.into_iter().map(|input| self.cast_to(input, &columns, span)).collect::<Planned<Vec<_>>>()?;
        // Unions of unions are one union.
        let inputs = inputs
            .into_iter()
            .flat_map(|input| match &input.op {
                Op::Union { inputs } => inputs.clone(),
                _ => vec![input],
            })
            .collect();
        Ok(Arc::new(Rel { op: Op::Union { inputs }, columns }))
    }

    /// `input` with the types (and names) of `columns`.
    fn cast_to(&self, input: Arc<Rel>, columns: &[RelColumn], span: Span) -> Planned<Arc<Rel>> {
        let same = |(ours, wanted): (&RelColumn, &RelColumn)| ours.field.data_type() == wanted.field.data_type();
        if input.columns.iter().zip(columns).all(same) {
            return Ok(input);
        }
        let exprs = (0..columns.len())
            .map(|index| {
                let wanted = &columns[index].field;
                let expr = self
                    .translator
                    .functions
                    .cast(at(index), input.columns[index].field.data_type(), wanted.data_type())
                    .map_err(|error| Fault::at(span, super::translate::message(&error, &input.columns)))?;
                Ok((expr, Arc::clone(wanted)))
            })
            .collect::<Planned<Vec<(Expr, _)>>>()?;
        Ok(Rel::project(input, exprs))
    }
}

/// The name of a column that has none.
pub(crate) fn unnamed(index: usize) -> String {
    format!("EXPR${index}")
}

/// `rel` with the columns renamed by an alias list, which may be empty.
pub(crate) fn rename_columns(
    rel: &Arc<Rel>,
    names: &[datafusion::sql::sqlparser::ast::Ident],
    span: Span,
) -> Planned<Arc<Rel>> {
    if names.is_empty() {
        return Ok(Arc::clone(rel));
    }
    if names.len() != rel.columns.len() {
        let message = format!("{} column names are given for {} columns", names.len(), rel.columns.len());
        return Err(Fault::at(names.first().map_or(span, |name| name.span), message));
    }
    let names: Vec<String> = names.iter().map(|name| name.value.clone()).collect();
    Ok(Rel::renamed(rel, &names))
}

fn refuse_clauses(query: &Query) -> Planned<()> {
    let span = query.span();
    if let Some(order) = &query.order_by {
        let hint = "Rows of a stream never end, so they cannot be sorted as a whole; leave ORDER BY out";
        return Err(not_built(order.span(), "ORDER BY is", hint));
    }
    if let Some(limit) = &query.limit_clause {
        let span = Spanned::span(limit);
        return Err(not_built(span, "LIMIT is", "A stream has no last row; filter with WHERE instead").or_at(query.span()));
    }
    if query.fetch.is_some() {
        return Err(not_built(span, "FETCH is", "A stream has no last row; filter with WHERE instead"));
    }
    if !query.locks.is_empty() || query.for_clause.is_some() {
        return Err(Fault::at(span, "FOR … after a query has no meaning here"));
    }
    if query.settings.is_some() || query.format_clause.is_some() || !query.pipe_operators.is_empty() {
        return Err(Fault::at(span, "SETTINGS, FORMAT and |> are not Flink SQL"));
    }
    Ok(())
}
