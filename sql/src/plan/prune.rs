//! Columns: each relation keeps exactly those that somebody above it reads.
//!
//! Works on all queries of a job at once: a relation that several read keeps what any of them needs, so that it is
//! still one relation afterwards.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use datafusion::logical_expr::Expr;

use super::{
    optimize::{calc, remap_all},
    rel::{JoinKey, JoinKind, Op, Rel, RelColumn, WindowEdge, Windowing, at, columns_of, remap},
};

type Needs = BTreeSet<usize>;

/// Prunes the relations below `roots`, whose own columns all stay.
pub(crate) fn prune(roots: &[Arc<Rel>]) -> Vec<Arc<Rel>> {
    let mut order = Vec::new();
    let mut known: HashMap<Arc<Rel>, usize> = HashMap::new();
    for root in roots {
        intern(root, &mut order, &mut known);
    }
    let mut needs: Vec<Needs> = vec![Needs::new(); order.len()];
    for root in roots {
        needs[known[root]].extend(0..root.columns.len());
    }
    // Users come after what they use.
    for index in (0..order.len()).rev() {
        let inputs = order[index].inputs();
        for (input, wanted) in inputs.iter().zip(input_needs(&order[index], &needs[index])) {
            needs[known[*input]].extend(wanted);
        }
    }
    let mut pruned: Vec<Arc<Rel>> = Vec::with_capacity(order.len());
    for (index, rel) in order.iter().enumerate() {
        let inputs: Vec<(Arc<Rel>, &Needs)> =
            rel.inputs().into_iter().map(|input| (Arc::clone(&pruned[known[input]]), &needs[known[input]])).collect();
        pruned.push(rebuild(rel, &needs[index], &inputs));
    }
    roots.iter().map(|root| Arc::clone(&pruned[known[root]])).collect()
}

fn intern(rel: &Arc<Rel>, order: &mut Vec<Arc<Rel>>, known: &mut HashMap<Arc<Rel>, usize>) {
    if known.contains_key(rel) {
        return;
    }
    for input in rel.inputs() {
        intern(input, order, known);
    }
    known.insert(Arc::clone(rel), order.len());
    order.push(Arc::clone(rel));
}

fn reads<'e>(exprs: impl IntoIterator<Item = &'e Expr>) -> Needs {
    exprs.into_iter().flat_map(columns_of).collect()
}

/// What `rel` needs of each input to give the columns `needs`.
fn input_needs(rel: &Rel, needs: &Needs) -> Vec<Needs> {
    match &rel.op {
        Op::Scan { .. } | Op::Values { .. } => Vec::new(),
        Op::Calc { predicate, exprs, .. } => vec![reads(needs.iter().map(|&i| &exprs[i]).chain(predicate))],
        Op::Assign { input, time, .. } => {
            let width = input.columns.len();
            vec![needs.iter().copied().filter(|&i| i < width).chain([*time]).collect()]
        }
        Op::WindowAggregate { windowing, keys, aggregates, .. } => {
            let kept = (0..aggregates.len()).filter(|i| needs.contains(&(keys.len() + i))).map(|i| &aggregates[i]);
            let mut wanted = reads(kept);
            wanted.extend(keys);
            match windowing {
                Windowing::Time { time, .. } => wanted.extend([*time]),
                Windowing::Attached { start, end, .. } => wanted.extend([*start, *end]),
            }
            vec![wanted]
        }
        Op::WindowJoin { left, keys, left_window, right_window, residual, .. } => {
            let [mut a, mut b] = side_needs(left.columns.len(), needs, keys, residual.as_ref());
            a.extend([left_window.0, left_window.1]);
            b.extend([right_window.0, right_window.1]);
            vec![a, b]
        }
        Op::IntervalJoin { left, keys, left_time, right_time, residual, .. } => {
            let [mut a, mut b] = side_needs(left.columns.len(), needs, keys, residual.as_ref());
            a.insert(*left_time);
            b.insert(*right_time);
            vec![a, b]
        }
        Op::Union { inputs } => vec![needs.clone(); inputs.len()],
        Op::Unnest { input, list, .. } => {
            let width = input.columns.len();
            vec![needs.iter().copied().filter(|&i| i < width).chain(columns_of(list)).collect()]
        }
    }
}

fn side_needs(width: usize, needs: &Needs, keys: &[JoinKey], residual: Option<&Expr>) -> [Needs; 2] {
    let all: Needs = needs.iter().copied().chain(residual.into_iter().flat_map(columns_of)).collect();
    let left = all.iter().copied().filter(|&i| i < width).chain(keys.iter().map(|key| key.left)).collect();
    let right = all.iter().filter(|&&i| i >= width).map(|i| i - width).chain(keys.iter().map(|key| key.right)).collect();
    [left, right]
}

/// Where an input's column went.
fn rank(needs: &Needs, index: usize) -> usize {
    needs.range(..index).count()
}

/// `rel` over the pruned inputs, with exactly the columns `needs`, in their old order.
fn rebuild(rel: &Arc<Rel>, needs: &Needs, inputs: &[(Arc<Rel>, &Needs)]) -> Arc<Rel> {
    let kept = |wanted: &Needs| -> Vec<RelColumn> { wanted.iter().map(|&i| rel.columns[i].clone()).collect() };
    match (&rel.op, inputs) {
        (Op::Scan { .. }, _) => Rel::pick(Arc::clone(rel), &needs.iter().copied().collect::<Vec<_>>()),
        (Op::Values { rows }, _) => {
            let rows = rows.iter().map(|row| needs.iter().map(|&i| row[i].clone()).collect()).collect();
            Arc::new(Rel { op: Op::Values { rows }, columns: kept(needs) })
        }
        (Op::Calc { predicate, exprs, .. }, [(input, below)]) => {
            let map = |i: usize| rank(below, i);
            let exprs = needs.iter().map(|&i| remap(&exprs[i], &map)).collect();
            calc(Arc::clone(input), predicate.as_ref().map(|p| remap(p, &map)), exprs, kept(needs))
        }
        (Op::Assign { input: old, window, time }, [(input, below)]) => {
            let width = old.columns.len();
            let made: Vec<usize> = below.iter().copied().chain(width..width + 3).collect();
            let columns = made.iter().map(|&i| rel.columns[i].clone()).collect();
            let op = Op::Assign { input: Arc::clone(input), window: Arc::clone(window), time: rank(below, *time) };
            exactly(Rel { op, columns }, &made, needs)
        }
        (Op::WindowAggregate { windowing, keys, aggregates, edges, .. }, [(input, below)]) => {
            let map = |i: usize| rank(below, i);
            let windowing = match windowing {
                Windowing::Time { window, time } => Windowing::Time { window: Arc::clone(window), time: map(*time) },
                Windowing::Attached { window, start, end } => {
                    Windowing::Attached { window: Arc::clone(window), start: map(*start), end: map(*end) }
                }
            };
            let first_edge = keys.len() + aggregates.len();
            let kept_aggregates: Vec<usize> = (0..aggregates.len()).filter(|i| needs.contains(&(keys.len() + i))).collect();
            let kept_edges: Vec<usize> = (0..edges.len()).filter(|i| needs.contains(&(first_edge + i))).collect();
            let made: Vec<usize> = (0..keys.len())
                .chain(kept_aggregates.iter().map(|i| keys.len() + i))
                .chain(kept_edges.iter().map(|i| first_edge + i))
                .collect();
            let columns = made.iter().map(|&i| rel.columns[i].clone()).collect();
            let op = Op::WindowAggregate {
                input: Arc::clone(input),
                windowing,
                keys: keys.iter().map(|&key| map(key)).collect(),
                aggregates: remap_all(&kept_aggregates.iter().map(|&i| aggregates[i].clone()).collect::<Vec<_>>(), &map),
                edges: kept_edges.iter().map(|&i| edges[i]).collect::<Vec<WindowEdge>>(),
            };
            exactly(Rel { op, columns }, &made, needs)
        }
        (Op::WindowJoin { left, kind, keys, left_window, right_window, window, residual, .. }, [(a, below_a), (b, below_b)]) => {
            let sides = Sides { width: left.columns.len(), below: [below_a, below_b] };
            let op = Op::WindowJoin {
                left: Arc::clone(a),
                right: Arc::clone(b),
                kind: *kind,
                keys: sides.keys(keys),
                left_window: (rank(below_a, left_window.0), rank(below_a, left_window.1)),
                right_window: (rank(below_b, right_window.0), rank(below_b, right_window.1)),
                window: Arc::clone(window),
                residual: residual.as_ref().map(|r| sides.residual(r)),
            };
            sides.finish(rel, op, *kind, needs)
        }
        (
            Op::IntervalJoin { left, kind, keys, left_time, right_time, lower_ms, upper_ms, residual, .. },
            [(a, below_a), (b, below_b)],
        ) => {
            let sides = Sides { width: left.columns.len(), below: [below_a, below_b] };
            let op = Op::IntervalJoin {
                left: Arc::clone(a),
                right: Arc::clone(b),
                kind: *kind,
                keys: sides.keys(keys),
                left_time: rank(below_a, *left_time),
                right_time: rank(below_b, *right_time),
                lower_ms: *lower_ms,
                upper_ms: *upper_ms,
                residual: residual.as_ref().map(|r| sides.residual(r)),
            };
            sides.finish(rel, op, *kind, needs)
        }
        (Op::Union { .. }, _) => {
            // A branch that others read too may have kept more than this union needs.
            let branch = |(input, below): &(Arc<Rel>, &Needs)| {
                let picked: Vec<usize> = needs.iter().map(|&i| rank(below, i)).collect();
                let columns = picked.iter().map(|&i| input.columns[i].clone()).collect();
                calc(Arc::clone(input), None, picked.into_iter().map(at).collect(), columns)
            };
            Arc::new(Rel { op: Op::Union { inputs: inputs.iter().map(branch).collect() }, columns: kept(needs) })
        }
        (Op::Unnest { input: old, list, outer, ordinality }, [(input, below)]) => {
            let width = old.columns.len();
            let made: Vec<usize> = below.iter().copied().chain(width..rel.columns.len()).collect();
            let columns = made.iter().map(|&i| rel.columns[i].clone()).collect();
            let list = remap(list, &|i| rank(below, i));
            let op = Op::Unnest { input: Arc::clone(input), list, outer: *outer, ordinality: *ordinality };
            exactly(Rel { op, columns }, &made, needs)
        }
        _ => Arc::clone(rel),
    }
}

struct Sides<'a> {
    width: usize,
    below: [&'a Needs; 2],
}

impl Sides<'_> {
    fn keys(&self, keys: &[JoinKey]) -> Vec<JoinKey> {
        let moved = |key: &JoinKey| JoinKey { left: rank(self.below[0], key.left), right: rank(self.below[1], key.right), ..*key };
        keys.iter().map(moved).collect()
    }

    fn residual(&self, residual: &Expr) -> Expr {
        let left = self.below[0].len();
        let map = |i: usize| if i < self.width { rank(self.below[0], i) } else { left + rank(self.below[1], i - self.width) };
        remap(residual, &map)
    }

    fn finish(&self, rel: &Rel, op: Op, kind: JoinKind, needs: &Needs) -> Arc<Rel> {
        let right = self.below[1].iter().map(|i| self.width + i);
        let made: Vec<usize> = match kind.left_only() {
            true => self.below[0].iter().copied().collect(),
            false => self.below[0].iter().copied().chain(right).collect(),
        };
        let columns = made.iter().map(|&i| rel.columns[i].clone()).collect();
        exactly(Rel { op, columns }, &made, needs)
    }
}

/// `rel`, which made the old columns `made`, cut to those of `needs`.
fn exactly(rel: Rel, made: &[usize], needs: &Needs) -> Arc<Rel> {
    let picked: Vec<usize> = (0..made.len()).filter(|&i| needs.contains(&made[i])).collect();
    Rel::pick(Arc::new(rel), &picked)
}
