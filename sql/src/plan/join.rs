//! Joins: which kind a join is, and why it cannot be planned if it is none.
//!
//! A join of two streams needs something that lets it forget rows. Equal windows on both sides do (window join), and so
//! does a range between two time attributes (interval join). Everything else would keep rows for ever and is refused.
//!
//! `l.id = r.id AND r.ts BETWEEN l.ts - 2 s AND l.ts + 3 s AND r.v > l.v`
//!   keys id = id · -2000 ≤ r.ts − l.ts ≤ 3000 · the rest is checked on each pair

use std::sync::Arc;

use datafusion::{
    common::ScalarValue,
    logical_expr::{Between, BinaryExpr, Expr, Operator},
    sql::sqlparser::tokenizer::Span,
};

use super::{
    fault::{Fault, Planned},
    query::Planner,
    rel::{JoinKey, JoinKind, Op, Rel, RelColumn, Role, at, columns_of, conjunction, index_of, remap},
    translate::field_of,
};

/// What the conditions of a join amount to.
#[derive(Default)]
struct Terms {
    keys: Vec<(Expr, Expr, bool)>,
    /// Equal window starts and ends: left column, right column.
    starts: Vec<(usize, usize)>,
    ends: Vec<(usize, usize)>,
    /// Bounds of right time minus left time: left column, right column, bound.
    lower: Vec<(usize, usize, i64)>,
    upper: Vec<(usize, usize, i64)>,
    rest: Vec<Expr>,
    /// Windows were compared, but they are not the same.
    unlike_windows: bool,
}

impl Planner<'_> {
    /// Decides what kind of join this is. Columns of `on` count over left then right.
    pub(crate) fn decide_join(&self, left: Arc<Rel>, right: Arc<Rel>, kind: JoinKind, on: Vec<Expr>, span: Span) -> Planned<Arc<Rel>> {
        let width = left.columns.len();
        let mut terms = Terms::default();
        for condition in on {
            terms.add(condition, &left.columns, &right.columns);
        }
        if let (Some(&(left_start, right_start)), Some(&(left_end, right_end))) = (terms.starts.first(), terms.ends.first()) {
            let Role::WindowStart(window) = &left.columns[left_start].role else {
                return Err(Fault::at(span, "this join's windows are not known"));
            };
            let window = Arc::clone(window);
            terms.rest.extend(terms.starts[1..].iter().chain(&terms.ends[1..]).map(|&(l, r)| at(l).eq(at(width + r))));
            terms.rest.extend(ranges(&terms, width, None));
            let sides = Sides::new(left, right, terms.keys, span)?;
            let residual = conjunction(terms.rest.iter().map(|expr| sides.moved(expr, width)));
            let (columns, shape) = (sides.columns(kind, false), sides.picked(kind));
            let op = Op::WindowJoin {
                left: sides.left,
                right: sides.right,
                kind,
                keys: sides.keys,
                left_window: (left_start, left_end),
                right_window: (right_start, right_end),
                window,
                residual,
            };
            return Ok(Rel::pick(Arc::new(Rel { op, columns }), &shape));
        }
        let time = terms.lower.iter().find(|(l, r, _)| terms.upper.iter().any(|(l2, r2, _)| (l, r) == (l2, r2))).map(|t| (t.0, t.1));
        if let Some((left_time, right_time)) = time
            && !kind.left_only()
        {
            let same = |(l, r, bound): &(usize, usize, i64)| ((*l, *r) == (left_time, right_time)).then_some(*bound);
            let lower_ms = terms.lower.iter().filter_map(same).max().unwrap_or(i64::MIN);
            let upper_ms = terms.upper.iter().filter_map(same).min().unwrap_or(i64::MAX);
            terms.rest.extend(ranges(&terms, width, Some((left_time, right_time))));
            terms.rest.extend(terms.starts.iter().chain(&terms.ends).map(|&(l, r)| at(l).eq(at(width + r))));
            let sides = Sides::new(left, right, terms.keys, span)?;
            let residual = conjunction(terms.rest.iter().map(|expr| sides.moved(expr, width)));
            let (columns, shape) = (sides.columns(kind, true), sides.picked(kind));
            let op = Op::IntervalJoin {
                left: sides.left,
                right: sides.right,
                kind,
                keys: sides.keys,
                left_time,
                right_time,
                lower_ms,
                upper_ms,
                residual,
            };
            return Ok(Rel::pick(Arc::new(Rel { op, columns }), &shape));
        }
        Err(refusal(&terms, &left, &right, kind, span))
    }
}

/// The two inputs, with key expressions added to them as columns where they are no columns yet.
struct Sides {
    left: Arc<Rel>,
    right: Arc<Rel>,
    keys: Vec<JoinKey>,
    /// Columns the sides had before.
    widths: (usize, usize),
}

impl Sides {
    fn new(left: Arc<Rel>, right: Arc<Rel>, keys: Vec<(Expr, Expr, bool)>, span: Span) -> Planned<Self> {
        let widths = (left.columns.len(), right.columns.len());
        let (mut left, mut right) = (left, right);
        let mut found = Vec::new();
        for (ours, theirs, nulls_equal) in keys {
            let key = JoinKey { left: column_for(&mut left, &ours, span)?, right: column_for(&mut right, &theirs, span)?, nulls_equal };
            if !found.contains(&key) {
                found.push(key);
            }
        }
        Ok(Self { left, right, keys: found, widths })
    }

    /// A condition over the sides as they were, over the sides as they are now.
    fn moved(&self, expr: &Expr, width: usize) -> Expr {
        remap(expr, &|index| if index < width { index } else { index - width + self.left.columns.len() })
    }

    fn columns(&self, kind: JoinKind, keep_times: bool) -> Vec<RelColumn> {
        let outer = |column: &RelColumn| column.outer();
        let same = |column: &RelColumn| if keep_times { without_windows(column) } else { column.clone() };
        let left = self.left.columns.iter();
        let right = self.right.columns.iter();
        match kind {
            JoinKind::Inner => left.map(same).chain(right.map(same)).collect(),
            JoinKind::Left => left.map(same).chain(right.map(outer)).collect(),
            JoinKind::Right => left.map(outer).chain(right.map(same)).collect(),
            JoinKind::Full => left.map(outer).chain(right.map(outer)).collect(),
            JoinKind::Semi | JoinKind::Anti => left.map(same).collect(),
        }
    }

    /// The output without the columns added for keys.
    fn picked(&self, kind: JoinKind) -> Vec<usize> {
        let right = self.left.columns.len()..self.left.columns.len() + self.widths.1;
        (0..self.widths.0).chain(if kind.left_only() { 0..0 } else { right }).collect()
    }
}

/// After an interval join a row no longer stands for its window alone.
fn without_windows(column: &RelColumn) -> RelColumn {
    match column.role {
        Role::WindowStart(_) | Role::WindowEnd(_) => RelColumn::new(Arc::clone(&column.field), Role::Plain),
        Role::WindowTime(_) => RelColumn::new(Arc::clone(&column.field), Role::Rowtime),
        Role::Plain | Role::Rowtime => column.clone(),
    }
}

fn column_for(rel: &mut Arc<Rel>, expr: &Expr, span: Span) -> Planned<usize> {
    if let Some(index) = index_of(expr) {
        return Ok(index);
    }
    let field = |expr: &Expr, name: &str| {
        field_of(expr, &rel.columns, name).map_err(|error| Fault::at(span, super::translate::message(&error, &rel.columns)))
    };
    let mut exprs = (0..rel.columns.len()).map(|i| (at(i), Arc::clone(&rel.columns[i].field))).collect::<Vec<_>>();
    exprs.push((expr.clone(), field(expr, "key")?));
    *rel = Rel::project(Arc::clone(rel), exprs);
    Ok(rel.columns.len() - 1)
}

impl Terms {
    fn add(&mut self, condition: Expr, left: &[RelColumn], right: &[RelColumn]) {
        let width = left.len();
        if let Expr::Between(Between { expr, negated: false, low, high }) = condition {
            self.add(expr.as_ref().clone().gt_eq(*low), left, right);
            self.add(expr.lt_eq(*high), left, right);
            return;
        }
        let Expr::BinaryExpr(BinaryExpr { left: a, op, right: b }) = &condition else {
            self.rest.push(condition);
            return;
        };
        if self.add_range(a, *op, b, left, right) {
            return;
        }
        let nulls_equal = *op == Operator::IsNotDistinctFrom;
        if nulls_equal || *op == Operator::Eq {
            let sides = [a, b].map(|expr| {
                let columns = columns_of(expr);
                (!columns.is_empty()).then(|| (columns.iter().all(|&i| i < width), columns.iter().all(|&i| i >= width)))
            });
            let (ours, theirs) = match sides {
                [Some((true, _)), Some((_, true))] => (a, b),
                [Some((_, true)), Some((true, _))] => (b, a),
                _ => {
                    self.rest.push(condition);
                    return;
                }
            };
            let theirs = remap(theirs, &|i| i - width);
            if let (Some(l), Some(r)) = (index_of(ours), index_of(&theirs)) {
                match (&left[l].role, &right[r].role) {
                    (Role::WindowStart(x), Role::WindowStart(y)) if x == y => return self.starts.push((l, r)),
                    (Role::WindowEnd(x), Role::WindowEnd(y)) if x == y => return self.ends.push((l, r)),
                    (Role::WindowStart(_), Role::WindowStart(_)) | (Role::WindowEnd(_), Role::WindowEnd(_)) => self.unlike_windows = true,
                    _ => {}
                }
            }
            self.keys.push((ours.as_ref().clone(), theirs, nulls_equal));
            return;
        }
        self.rest.push(condition);
    }

    /// Takes `a op b` as a bound between a left and a right time attribute, if it is one.
    fn add_range(&mut self, a: &Expr, op: Operator, b: &Expr, left: &[RelColumn], right: &[RelColumn]) -> bool {
        let width = left.len();
        let (Some((a, a_ms)), Some((b, b_ms))) = (time_term(a), time_term(b)) else { return false };
        // right + r op left + l
        let (l, l_ms, op, r, r_ms) = match (a < width, b < width) {
            (true, false) => (a, a_ms, op.swap().unwrap_or(op), b - width, b_ms),
            (false, true) => (b, b_ms, op, a - width, a_ms),
            _ => return false,
        };
        if !left[l].role.is_time_attribute() || !right[r].role.is_time_attribute() {
            return false;
        }
        let Some(bound) = l_ms.checked_sub(r_ms) else { return false };
        match op {
            Operator::GtEq => self.lower.push((l, r, bound)),
            Operator::Gt => self.lower.push((l, r, bound.saturating_add(1))),
            Operator::LtEq => self.upper.push((l, r, bound)),
            Operator::Lt => self.upper.push((l, r, bound.saturating_sub(1))),
            Operator::Eq => {
                self.lower.push((l, r, bound));
                self.upper.push((l, r, bound));
            }
            _ => return false,
        }
        true
    }
}

/// Ranges that are not the join's own, as conditions again.
fn ranges(terms: &Terms, width: usize, own: Option<(usize, usize)>) -> Vec<Expr> {
    let millis = |ms: i64| Expr::Literal(ScalarValue::new_interval_mdn(0, 0, ms.saturating_mul(1_000_000)), None);
    let other = |(l, r, _): &&(usize, usize, i64)| own != Some((*l, *r));
    let lower = terms.lower.iter().filter(other).map(|&(l, r, ms)| at(width + r).gt_eq(at(l) + millis(ms)));
    let upper = terms.upper.iter().filter(other).map(|&(l, r, ms)| at(width + r).lt_eq(at(l) + millis(ms)));
    lower.chain(upper).collect()
}

/// `column ± constant`, as the column and the constant in ms.
fn time_term(expr: &Expr) -> Option<(usize, i64)> {
    match expr {
        Expr::Column(_) => Some((index_of(expr)?, 0)),
        Expr::Cast(cast) if matches!(cast.field.data_type(), arrow::datatypes::DataType::Timestamp(..)) => time_term(&cast.expr),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus, right }) => shifted(left, right, 1).or_else(|| shifted(right, left, 1)),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) => shifted(left, right, -1),
        Expr::ScalarFunction(call) => super::functions::interval_shift(call).and_then(|(time, span, sign)| shifted(time, span, sign)),
        _ => None,
    }
}

fn shifted(time: &Expr, span: &Expr, sign: i64) -> Option<(usize, i64)> {
    let (column, before) = time_term(time)?;
    let ms = super::windows::interval_ms(span)?;
    Some((column, before.checked_add(ms.checked_mul(sign)?)?))
}

fn refusal(terms: &Terms, left: &Rel, right: &Rel, kind: JoinKind, span: Span) -> Fault {
    let windowed = |rel: &Rel| rel.columns.iter().any(|column| has_window(&column.role));
    let time = |rel: &Rel| rel.columns.iter().find(|column| column.role.is_time_attribute()).map(|column| column.name().to_owned());
    if terms.unlike_windows {
        return Fault::at(span, "the windows on both sides of this join are not the same: give both the same function, size, slide and offset");
    }
    if !terms.starts.is_empty() || !terms.ends.is_empty() {
        let missing = if terms.starts.is_empty() { "window_start" } else { "window_end" };
        return Fault::at(span, format!("a window join must compare both edges: add the equality of `{missing}`"));
    }
    if !terms.lower.is_empty() || !terms.upper.is_empty() {
        if kind.left_only() {
            return Fault::at(span, "[NOT] EXISTS and IN over a time range are not built yet: use a window join, or an interval join with LEFT JOIN and IS NULL");
        }
        let (have, miss) = if terms.lower.is_empty() { ("upper", "lower") } else { ("lower", "upper") };
        return Fault::at(
            span,
            format!("this join has only the {have} bound between its time attributes, so its state would grow for ever: add the {miss} bound (BETWEEN … AND …)"),
        );
    }
    let fix = if windowed(left) && windowed(right) {
        "Both sides have windows: add ON … AND l.window_start = r.window_start AND l.window_end = r.window_end".to_owned()
    } else if let (Some(l), Some(r)) = (time(left), time(right)) {
        format!("Bound it by time: AND r.`{r}` BETWEEN l.`{l}` - INTERVAL '10' SECOND AND l.`{l}` + INTERVAL '10' SECOND")
    } else {
        let side = if time(left).is_none() { "left" } else { "right" };
        format!("Its {side} side has no time attribute (a WATERMARK column that is passed on unchanged) by which it could be bounded")
    };
    Fault::at(span, format!("regular joins are not built yet: without a bound on time their state grows for ever. {fix}"))
}

fn has_window(role: &Role) -> bool {
    matches!(role, Role::WindowStart(_) | Role::WindowEnd(_) | Role::WindowTime(_))
}
