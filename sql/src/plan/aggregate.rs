//! GROUP BY: aggregates over windows.
//!
//! A group that holds both edges of a window ends when the window does, so its result is final: that is a window
//! aggregate. Any other group could change with every row and is refused.
//!
//! GROUPING SETS, CUBE and ROLLUP give each row to every set, with the columns that are not in the set as null and the
//! set's number as one more key: a union of projections below one aggregate.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    common::{
        ScalarValue,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::{Case, Expr, expr::AggregateFunction, lit},
    sql::sqlparser::{
        ast::{Expr as Ast, GroupByExpr, Select, Spanned},
        tokenizer::Span,
    },
};

use super::{
    fault::{Fault, Planned, not_built},
    query::Planner,
    rel::{Op, Rel, RelColumn, Role, Window, WindowEdge, Windowing, at, index_of, window_columns},
    scope::Scope,
    select::{OutputColumn, position_of},
    translate::{Clause, field_of, message},
};

/// More sets than this are a slip of the pen: CUBE of n columns makes 2ⁿ.
const SETS_MAX: usize = 64;

/// GROUP BY, read.
#[derive(Default)]
struct Groups {
    exprs: Vec<Expr>,
    asts: Vec<Ast>,
    /// Indexes into `exprs`; one set for a plain GROUP BY.
    sets: Vec<Vec<usize>>,
}

/// Where a window's edges stand in the input.
struct Edges {
    window: Arc<Window>,
    start: usize,
    end: usize,
}

/// What the columns of the aggregate's output stand for.
struct Outputs {
    /// For each group expression, the output that carries it.
    groups: Vec<(Expr, Expr)>,
    aggregates: Vec<Expr>,
    first_aggregate: usize,
    /// The set number's output and, for each set, the group expressions it has.
    sets: Option<(usize, Vec<Vec<Expr>>)>,
}

impl Planner<'_> {
    /// Plans GROUP BY, HAVING and the SELECT list of an aggregating query.
    pub(crate) fn aggregate(&self, rel: Arc<Rel>, scope: &Scope, select: &Select, columns: &[OutputColumn]) -> Planned<Arc<Rel>> {
        let span = select.select_token.0.span;
        let groups = self.groups(&select.group_by, scope)?;
        let edges = window_edges(&rel, &groups, span)?;
        let exprs = columns
            .iter()
            .map(|column| match column.index {
                Some(index) => Ok(at(index)),
                None => self.translator.expr(&column.ast, scope, Clause::Select),
            })
            .collect::<Planned<Vec<_>>>()?;
        let having = select.having.as_ref().map(|having| self.translator.expr(having, scope, Clause::Select)).transpose()?;
        let mut aggregates = Vec::new();
        for expr in exprs.iter().chain(&having) {
            collect_aggregates(expr, &mut aggregates);
        }
        let (grouped, outputs) = self.window_aggregate(&rel, &groups, &edges, aggregates, span)?;
        let mut result = grouped;
        if let (Some(having), Some(ast)) = (&having, &select.having) {
            let predicate = outputs.rewrite(having, &rel, ast.span())?;
            result = Rel::filter(result, predicate);
        }
        let projected = exprs
            .iter()
            .zip(columns)
            .map(|(expr, column)| {
                let expr = outputs.rewrite(expr, &rel, column.ast.span())?;
                let field = self.translator.field(&expr, &result.columns, &column.name, &column.ast)?;
                Ok((expr, field))
            })
            .collect::<Planned<Vec<_>>>()?;
        Ok(Rel::project(result, projected))
    }

    /// SELECT DISTINCT: groups by every column.
    pub(crate) fn distinct(&self, rel: Arc<Rel>, span: Span) -> Planned<Arc<Rel>> {
        let exprs: Vec<Expr> = (0..rel.columns.len()).map(at).collect();
        let asts = vec![Ast::value(datafusion::sql::sqlparser::ast::Value::Null); exprs.len()];
        let sets = vec![(0..exprs.len()).collect()];
        let groups = Groups { exprs: exprs.clone(), asts, sets };
        let edges = window_edges(&rel, &groups, span).map_err(|_| {
            not_built(span, "SELECT DISTINCT outside windows is", "It would have to remember every row: select window_start and window_end of a window function with it")
        })?;
        let (grouped, outputs) = self.window_aggregate(&rel, &groups, &edges, Vec::new(), span)?;
        let projected = exprs
            .iter()
            .zip(&rel.columns)
            .map(|(expr, column)| Ok((outputs.rewrite(expr, &rel, span)?, Arc::clone(&column.field))))
            .collect::<Planned<Vec<_>>>()?;
        Ok(Rel::project(grouped, projected))
    }

    fn groups(&self, group_by: &GroupByExpr, scope: &Scope) -> Planned<Groups> {
        let mut groups = Groups { sets: vec![Vec::new()], ..Groups::default() };
        let GroupByExpr::Expressions(items, _) = group_by else { return Ok(groups) };
        for item in items {
            let alternatives: Vec<Vec<Ast>> = match item {
                Ast::GroupingSets(sets) => sets.clone(),
                Ast::Rollup(parts) => (0..=parts.len()).rev().map(|n| parts[..n].concat()).collect(),
                Ast::Cube(parts) if parts.len() <= 6 => {
                    let all = (0..1_usize << parts.len()).rev();
                    let chosen = |bits: usize| parts.iter().rev().enumerate().filter(move |(i, _)| bits >> i & 1 == 1);
                    all.map(|bits| chosen(bits).map(|(_, part)| part.clone()).collect::<Vec<_>>().into_iter().rev().flatten().collect()).collect()
                }
                Ast::Cube(_) => return Err(Fault::at(item.span(), "CUBE of more than 6 columns makes too many sets")),
                Ast::Tuple(parts) => vec![parts.clone()],
                other => vec![vec![other.clone()]],
            };
            let mut indexed = Vec::with_capacity(alternatives.len());
            for alternative in alternatives {
                indexed.push(alternative.iter().map(|ast| self.group(ast, scope, &mut groups)).collect::<Planned<Vec<_>>>()?);
            }
            groups.sets = groups
                .sets
                .iter()
                .flat_map(|set| indexed.iter().map(|more| set.iter().chain(more).copied().collect()))
                .collect();
            if groups.sets.len() > SETS_MAX {
                return Err(Fault::at(item.span(), format!("more than {SETS_MAX} grouping sets")));
            }
        }
        Ok(groups)
    }

    fn group(&self, ast: &Ast, scope: &Scope, groups: &mut Groups) -> Planned<usize> {
        if let Ast::Value(value) = ast {
            return Err(Fault::at(value.span, "GROUP BY takes expressions, not positions or constants: name the column"));
        }
        let expr = self.translator.expr(ast, scope, Clause::GroupBy)?;
        Ok(position_of(&groups.exprs, &expr).unwrap_or_else(|| {
            groups.exprs.push(expr);
            groups.asts.push(ast.clone());
            groups.exprs.len() - 1
        }))
    }

    /// The aggregate itself, over a projection that holds exactly what it needs.
    fn window_aggregate(
        &self,
        rel: &Arc<Rel>,
        groups: &Groups,
        edges: &Edges,
        aggregates: Vec<Expr>,
        span: Span,
    ) -> Planned<(Arc<Rel>, Outputs)> {
        let describe = |error| Fault::at(span, message(&error, &rel.columns));
        let is_edge = |expr: &Expr| index_of(expr).is_some_and(|i| edge_of(&rel.columns[i].role, &edges.window).is_some());
        let keys: Vec<usize> = (0..groups.exprs.len()).filter(|&i| !is_edge(&groups.exprs[i])).collect();
        // What the aggregate needs: keys, both edges, then arguments.
        let mut needed: Vec<(Expr, FieldRef)> = Vec::new();
        for &key in &keys {
            let field = field_of(&groups.exprs[key], &rel.columns, "").map_err(describe)?;
            let name = index_of(&groups.exprs[key]).map_or_else(|| format!("key{}", needed.len()), |i| rel.columns[i].name().to_owned());
            needed.push((groups.exprs[key].clone(), Arc::new(field.as_ref().clone().with_name(name))));
        }
        for edge in [edges.start, edges.end] {
            needed.push((at(edge), Arc::clone(&rel.columns[edge].field)));
        }
        let (start, end) = (keys.len(), keys.len() + 1);
        let mut arguments = Vec::with_capacity(aggregates.len());
        for aggregate in &aggregates {
            arguments.push(pull_arguments(aggregate, rel, &mut needed).map_err(describe)?);
        }
        let (input, set_key) = by_sets(rel, needed, groups, &keys);
        let mut key_columns: Vec<usize> = (0..keys.len()).collect();
        key_columns.extend(set_key);
        let mut columns: Vec<RelColumn> =
            key_columns.iter().map(|&i| RelColumn::new(Arc::clone(&input.columns[i].field), Role::Plain)).collect();
        let first_aggregate = columns.len();
        for (position, aggregate) in arguments.iter().enumerate() {
            let field = field_of(aggregate, &input.columns, &format!("agg{position}")).map_err(describe)?;
            columns.push(RelColumn::new(field, Role::Plain));
        }
        let time = rel.columns.iter().find(|c| matches!(&c.role, Role::WindowTime(w) if *w == edges.window));
        let zoned = DataType::Timestamp(arrow::datatypes::TimeUnit::Millisecond, Some("UTC".into()));
        let local = DataType::Timestamp(arrow::datatypes::TimeUnit::Millisecond, None);
        let time = time.map_or(if edges.window.zone.is_some() { zoned } else { local }, |c| c.field.data_type().clone());
        let first_edge = columns.len();
        columns.extend(window_columns(&edges.window, &time));
        let outputs = Outputs {
            groups: groups
                .exprs
                .iter()
                .enumerate()
                .map(|(i, expr)| {
                    let edge = index_of(expr).and_then(|c| edge_of(&rel.columns[c].role, &edges.window));
                    let output = match edge {
                        Some(edge) => first_edge + edge as usize,
                        None => keys.iter().position(|&key| key == i).unwrap_or_default(),
                    };
                    (expr.clone(), at(output))
                })
                .collect(),
            aggregates,
            first_aggregate,
            sets: set_key.map(|_| {
                let named = |set: &Vec<usize>| set.iter().map(|&i| groups.exprs[i].clone()).collect();
                (keys.len(), groups.sets.iter().map(named).collect())
            }),
        };
        let windowing = Windowing::Attached { window: Arc::clone(&edges.window), start, end };
        let op = Op::WindowAggregate {
            input,
            windowing,
            keys: key_columns,
            aggregates: arguments,
            edges: vec![WindowEdge::Start, WindowEdge::End, WindowEdge::Time],
        };
        Ok((Arc::new(Rel { op, columns }), outputs))
    }
}

/// The projection below the aggregate: one, or one per grouping set. Also the column that tells the sets apart.
fn by_sets(rel: &Arc<Rel>, needed: Vec<(Expr, FieldRef)>, groups: &Groups, keys: &[usize]) -> (Arc<Rel>, Option<usize>) {
    if groups.sets.len() <= 1 {
        return (Rel::project(Arc::clone(rel), needed), None);
    }
    let number = Arc::new(Field::new("grouping", DataType::Int32, false));
    let inputs: Vec<Arc<Rel>> = groups
        .sets
        .iter()
        .enumerate()
        .map(|(position, set)| {
            let mut exprs: Vec<(Expr, FieldRef)> = needed
                .iter()
                .enumerate()
                .map(|(i, (expr, field))| {
                    let Some(key) = keys.get(i) else { return (expr.clone(), Arc::clone(field)) };
                    let field = Arc::new(field.as_ref().clone().with_nullable(true));
                    if set.contains(key) {
                        return (expr.clone(), field);
                    }
                    let null = ScalarValue::try_from(field.data_type()).unwrap_or(ScalarValue::Null);
                    (Expr::Literal(null, None), field)
                })
                .collect();
            exprs.push((lit(position as i32), Arc::clone(&number)));
            Rel::project(Arc::clone(rel), exprs)
        })
        .collect();
    let columns = inputs[0].columns.clone();
    let set_key = columns.len() - 1;
    (Arc::new(Rel { op: Op::Union { inputs }, columns }), Some(set_key))
}

impl Outputs {
    /// `expr` over the aggregate's input, as an expression over its output.
    fn rewrite(&self, expr: &Expr, input: &Rel, span: Span) -> Planned<Expr> {
        let mut loose = None;
        let rewritten = expr.clone().transform_down(|node| {
            if let Some((_, output)) = self.groups.iter().find(|(group, _)| *group == node) {
                return Ok(Transformed::new(output.clone(), true, TreeNodeRecursion::Jump));
            }
            if let Expr::AggregateFunction(call) = &node {
                let output = match grouping(call) {
                    Some(args) => self.grouping(args),
                    None => position_of(&self.aggregates, &node).map_or_else(|| node.clone(), |i| at(self.first_aggregate + i)),
                };
                return Ok(Transformed::new(output, true, TreeNodeRecursion::Jump));
            }
            if let Some(index) = index_of(&node) {
                loose.get_or_insert(index);
            }
            Ok(Transformed::no(node))
        });
        if let Some(index) = loose {
            let name = input.columns[index].name();
            let message = format!("`{name}` is neither grouped nor aggregated: add it to GROUP BY, or use an aggregate such as MAX(`{name}`)");
            return Err(Fault::at(span, message));
        }
        rewritten.map(|t| t.data).map_err(|error| Fault::at(span, message(&error, &input.columns)))
    }

    /// GROUPING(a, b): a bit for each argument, 1 if the row's set leaves it out.
    fn grouping(&self, args: &[Expr]) -> Expr {
        let Some((number, sets)) = &self.sets else { return lit(0_i64) };
        let bits = |set: &Vec<Expr>| args.iter().fold(0_i64, |bits, arg| bits << 1 | i64::from(!set.contains(arg)));
        let when = sets.iter().enumerate().map(|(i, set)| (Box::new(at(*number).eq(lit(i as i32))), Box::new(lit(bits(set)))));
        Expr::Case(Case::new(None, when.collect(), Some(Box::new(lit(0_i64)))))
    }
}

fn grouping(call: &AggregateFunction) -> Option<&[Expr]> {
    matches!(call.func.name().to_ascii_lowercase().as_str(), "grouping" | "grouping_id").then_some(call.params.args.as_slice())
}

fn collect_aggregates(expr: &Expr, found: &mut Vec<Expr>) {
    let _ = expr.apply(|node| {
        let Expr::AggregateFunction(call) = node else { return Ok(TreeNodeRecursion::Continue) };
        if grouping(call).is_none() && !found.contains(node) {
            found.push(node.clone());
        }
        Ok(TreeNodeRecursion::Jump)
    });
}

/// `aggregate` with its arguments, filter and order as columns of the projection below it. Constants stay.
fn pull_arguments(
    aggregate: &Expr,
    rel: &Rel,
    needed: &mut Vec<(Expr, FieldRef)>,
) -> Result<Expr, datafusion::common::DataFusionError> {
    let Expr::AggregateFunction(call) = aggregate else { return Ok(aggregate.clone()) };
    let mut pull = |expr: &Expr| -> Result<Expr, datafusion::common::DataFusionError> {
        if matches!(expr, Expr::Literal(..)) {
            return Ok(expr.clone());
        }
        if let Some(known) = needed.iter().position(|(known, _)| known == expr) {
            return Ok(at(known));
        }
        let name = index_of(expr).map_or_else(|| format!("arg{}", needed.len()), |i| rel.columns[i].name().to_owned());
        needed.push((expr.clone(), field_of(expr, &rel.columns, &name)?));
        Ok(at(needed.len() - 1))
    };
    let mut call = call.clone();
    call.params.args = call.params.args.iter().map(&mut pull).collect::<Result<_, _>>()?;
    call.params.filter = call.params.filter.as_ref().map(|filter| pull(filter).map(Box::new)).transpose()?;
    for sort in &mut call.params.order_by {
        sort.expr = pull(&sort.expr)?;
    }
    Ok(Expr::AggregateFunction(call))
}

fn edge_of(role: &Role, window: &Arc<Window>) -> Option<WindowEdge> {
    match role {
        Role::WindowStart(found) if found == window => Some(WindowEdge::Start),
        Role::WindowEnd(found) if found == window => Some(WindowEdge::End),
        Role::WindowTime(found) if found == window => Some(WindowEdge::Time),
        _ => None,
    }
}

fn window_edges(rel: &Rel, groups: &Groups, span: Span) -> Planned<Edges> {
    let common: Vec<usize> = (0..groups.exprs.len()).filter(|i| groups.sets.iter().all(|set| set.contains(i))).collect();
    let role = |i: usize| index_of(&groups.exprs[i]).map(|c| (c, rel.columns[c].role.clone()));
    let starts = common.iter().filter_map(|&i| match role(i) {
        Some((column, Role::WindowStart(window))) => Some((column, window)),
        _ => None,
    });
    let mut only_start = None;
    for (start, window) in starts {
        let end = common.iter().filter_map(|&i| role(i)).find(|(_, role)| *role == Role::WindowEnd(Arc::clone(&window)));
        if let Some((end, _)) = end {
            return Ok(Edges { window, start, end });
        }
        only_start = Some(start);
    }
    let place = groups.asts.first().map_or(span, Spanned::span);
    let place = if place.start.line == 0 { span } else { place };
    let missing = if only_start.is_some() {
        Some("window_end")
    } else if groups.exprs.iter().any(|e| index_of(e).is_some_and(|c| matches!(rel.columns[c].role, Role::WindowEnd(_)))) {
        Some("window_start")
    } else {
        None
    };
    let hint = match missing {
        Some(edge) => format!("Group by both edges of the window: add `{edge}`"),
        None if rel.columns.iter().any(|c| matches!(c.role, Role::WindowStart(_))) => {
            "Its rows have windows: add window_start and window_end to GROUP BY".to_owned()
        }
        None => "Aggregate over windows: FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) … GROUP BY window_start, window_end".to_owned(),
    };
    Err(Fault::at(place, format!("updating aggregates are not built yet: a group without a window never ends. {hint}")))
}
