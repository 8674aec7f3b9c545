//! Rules: the same rows with less work. Each holds on streams whatever the data.
//!
//! - Neighbouring filters and projections become one, unless that would compute something costly twice.
//! - Filters and computations that do not look at windows go below the window function.
//! - An aggregate right above a window function finds the windows from the time attribute itself, so that a row is not
//!   copied into each of its windows.
//! - Filters and projections above UNION ALL go into its branches.
//!
//! Leaves to others: unneeded columns (`prune.rs`).

use std::sync::Arc;

use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    logical_expr::{Expr, expr::ScalarFunction},
};

use super::rel::{Op, Rel, RelColumn, Role, Windowing, at, columns_of, conjunction, conjuncts, index_of, remap, substitute};

/// Applies the rules to `rel` and everything below it.
pub(crate) fn optimize(rel: &Arc<Rel>) -> Arc<Rel> {
    let rel = with_inputs(rel, &rel.inputs().into_iter().map(optimize).collect::<Vec<_>>());
    match &rel.op {
        Op::Calc { input, predicate, exprs } => calc(Arc::clone(input), predicate.clone(), exprs.clone(), rel.columns.clone()),
        Op::WindowAggregate { .. } => windows_by_time(&rel).unwrap_or(rel),
        Op::Union { inputs } => constant_rows(inputs, &rel).unwrap_or(rel),
        _ => rel,
    }
}

/// A union of constant rows: all of them in one relation.
fn constant_rows(inputs: &[Arc<Rel>], union: &Rel) -> Option<Arc<Rel>> {
    let rows = inputs.iter().map(|input| match &input.op {
        Op::Values { rows } => Some(rows.clone()),
        _ => None,
    });
    let rows = rows.collect::<Option<Vec<_>>>()?.concat();
    Some(Arc::new(Rel { op: Op::Values { rows }, columns: union.columns.clone() }))
}

/// `rel` over other inputs.
pub(crate) fn with_inputs(rel: &Arc<Rel>, inputs: &[Arc<Rel>]) -> Arc<Rel> {
    if rel.inputs().into_iter().zip(inputs).all(|(old, new)| Arc::ptr_eq(old, new)) {
        return Arc::clone(rel);
    }
    let mut op = rel.op.clone();
    match (&mut op, inputs) {
        (Op::Calc { input, .. } | Op::Assign { input, .. } | Op::WindowAggregate { input, .. } | Op::Unnest { input, .. }, [only]) => {
            *input = Arc::clone(only);
        }
        (Op::WindowJoin { left, right, .. } | Op::IntervalJoin { left, right, .. }, [first, second]) => {
            *left = Arc::clone(first);
            *right = Arc::clone(second);
        }
        (Op::Union { inputs: old }, new) => *old = new.to_vec(),
        _ => {}
    }
    Arc::new(Rel { op, columns: rel.columns.clone() })
}

/// A filter and projection over `input`, merged with what is below as far as the rules allow.
pub(crate) fn calc(input: Arc<Rel>, predicate: Option<Expr>, exprs: Vec<Expr>, columns: Vec<RelColumn>) -> Arc<Rel> {
    if predicate.is_none() && exprs.len() == input.columns.len() && exprs.iter().enumerate().all(|(i, e)| index_of(e) == Some(i)) {
        return if named_alike(&input.columns, &columns) { input } else { Arc::new(Rel { op: input.op.clone(), columns }) };
    }
    match &input.op {
        Op::Calc { input: below, predicate: lower, exprs: inner } if can_inline(&exprs, predicate.as_ref(), inner) => {
            let inline = |expr: &Expr| substitute(expr, &|i| inner[i].clone());
            let predicate = conjunction(lower.iter().cloned().chain(predicate.as_ref().map(inline)));
            calc(Arc::clone(below), predicate, exprs.iter().map(inline).collect(), columns)
        }
        Op::Assign { .. } => below_windows(&input, &predicate, &exprs, &columns)
            .unwrap_or_else(|| Arc::new(Rel { op: Op::Calc { input, predicate, exprs }, columns })),
        Op::Values { rows } if predicate.is_none() => {
            let row = |row: &Vec<Expr>| exprs.iter().map(|expr| substitute(expr, &|i| row[i].clone())).collect();
            Arc::new(Rel { op: Op::Values { rows: rows.iter().map(row).collect() }, columns })
        }
        Op::Union { inputs } => {
            let branch = |branch: &Arc<Rel>| calc(Arc::clone(branch), predicate.clone(), exprs.clone(), columns.clone());
            Arc::new(Rel { op: Op::Union { inputs: inputs.iter().map(branch).collect() }, columns: columns.clone() })
        }
        _ => Arc::new(Rel { op: Op::Calc { input, predicate, exprs }, columns }),
    }
}

fn named_alike(a: &[RelColumn], b: &[RelColumn]) -> bool {
    a == b && a.iter().zip(b).all(|(a, b)| a.name() == b.name())
}

/// A filter and projection above a window function, with everything that does not look at windows moved below it: there
/// it is done once a row, not once a window. `None` if there is nothing to move.
fn below_windows(assign: &Arc<Rel>, predicate: &Option<Expr>, exprs: &[Expr], columns: &[RelColumn]) -> Option<Arc<Rel>> {
    let Op::Assign { input: below, window, time } = &assign.op else { return None };
    let width = below.columns.len();
    let sees_windows = |expr: &Expr| columns_of(expr).iter().any(|&i| i >= width);
    let parts = predicate.clone().map(conjuncts).unwrap_or_default();
    let (above, lower): (Vec<_>, Vec<_>) = parts.into_iter().partition(sees_windows);
    let movable = |expr: &Expr| !sees_windows(expr) && index_of(expr).is_none() && !matches!(expr, Expr::Literal(..));
    let moved: Vec<usize> = (0..exprs.len()).filter(|&i| movable(&exprs[i])).collect();
    if lower.is_empty() && moved.is_empty() {
        return None;
    }
    let mut lower_exprs: Vec<Expr> = (0..width).map(at).collect();
    let mut lower_columns = below.columns.clone();
    for &i in &moved {
        lower_exprs.push(exprs[i].clone());
        lower_columns.push(columns[i].clone());
    }
    let input = calc(Arc::clone(below), conjunction(lower), lower_exprs, lower_columns.clone());
    let windows = assign.columns[width..].iter().cloned();
    let plain = |column: &RelColumn| RelColumn::new(Arc::clone(&column.field), Role::Plain);
    let assign_columns = lower_columns.iter().map(plain).chain(windows).collect();
    let op = Op::Assign { input, window: Arc::clone(window), time: *time };
    let assign = Arc::new(Rel { op, columns: assign_columns });
    let shift = |i: usize| if i < width { i } else { i + moved.len() };
    let upper = exprs.iter().enumerate().map(|(i, expr)| match moved.iter().position(|&m| m == i) {
        Some(position) => at(width + position),
        None => remap(expr, &shift),
    });
    let above = conjunction(above.iter().map(|expr| remap(expr, &shift)));
    Some(calc(assign, above, upper.collect(), columns.to_vec()))
}

/// Whether no costly expression of `inner` would be computed more than once.
fn can_inline(exprs: &[Expr], predicate: Option<&Expr>, inner: &[Expr]) -> bool {
    let mut uses = vec![0_usize; inner.len()];
    for expr in exprs.iter().chain(predicate) {
        let _ = expr.apply(|node| {
            if let Some(index) = index_of(node) {
                uses[index] += 1;
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }
    uses.iter().zip(inner).all(|(&count, expr)| count <= 1 || is_cheap(expr))
}

/// Columns, constants and fields of columns cost nothing to compute again.
fn is_cheap(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::Literal(..) => true,
        Expr::ScalarFunction(ScalarFunction { func, args }) => func.name() == "get_field" && args.iter().all(is_cheap),
        _ => false,
    }
}

/// An aggregate whose windows come from the time attribute instead of from columns.
fn windows_by_time(rel: &Arc<Rel>) -> Option<Arc<Rel>> {
    let Op::WindowAggregate { input, windowing: Windowing::Attached { window, start, end }, keys, aggregates, edges } = &rel.op else {
        return None;
    };
    let branches: Vec<&Arc<Rel>> = match &input.op {
        Op::Union { inputs } => inputs.iter().collect(),
        _ => vec![input],
    };
    let lowered = branches.into_iter().map(|branch| below_assign(branch, *start, *end)).collect::<Option<Vec<_>>>()?;
    let mut columns = input.columns.clone();
    columns[*start] = lowered.first()?.columns[*start].clone();
    let time = *start;
    let input = match <[_; 1]>::try_from(lowered) {
        Ok([only]) => only,
        Err(inputs) => Arc::new(Rel { op: Op::Union { inputs }, columns }),
    };
    let op = Op::WindowAggregate {
        input,
        windowing: Windowing::Time { window: Arc::clone(window), time },
        keys: keys.clone(),
        aggregates: aggregates.clone(),
        edges: edges.clone(),
    };
    Some(Arc::new(Rel { op, columns: rel.columns.clone() }))
}

/// `branch` without its window function: the time attribute stands where `window_start` stood, and again where
/// `window_end` did.
fn below_assign(branch: &Arc<Rel>, start: usize, end: usize) -> Option<Arc<Rel>> {
    let (assign, predicate, exprs) = match &branch.op {
        Op::Calc { input, predicate, exprs } => (input, predicate.clone(), exprs.clone()),
        _ => (branch, None, (0..branch.columns.len()).map(at).collect()),
    };
    let Op::Assign { input: below, time, .. } = &assign.op else { return None };
    let width = below.columns.len();
    let reads_windows = |expr: &Expr| columns_of(expr).iter().any(|&i| i >= width);
    let others = exprs.iter().enumerate().filter(|(i, _)| *i != start && *i != end).map(|(_, expr)| expr);
    if others.chain(&predicate).any(reads_windows) || index_of(&exprs[start]) != Some(width) || index_of(&exprs[end]) != Some(width + 1) {
        return None;
    }
    let mut exprs = exprs;
    let mut columns = branch.columns.clone();
    for edge in [start, end] {
        exprs[edge] = at(*time);
        columns[edge] = RelColumn::new(Arc::clone(&below.columns[*time].field), Role::Rowtime);
    }
    Some(calc(Arc::clone(below), predicate, exprs, columns))
}

/// Moves the columns of an aggregate call by `map`.
pub(crate) fn remap_all(exprs: &[Expr], map: &dyn Fn(usize) -> usize) -> Vec<Expr> {
    exprs.iter().map(|expr| remap(expr, map)).collect()
}
