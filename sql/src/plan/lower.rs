//! Lowering: relations to the nodes of the operator graph.
//!
//! Promises: equal relations become one node, whoever reads them; each table is read once, with the columns that anyone
//! needs; rows move between workers only where a key demands it; a node's id depends on what it computes and on nothing
//! else, so that state is found again after a restart. Leaves to others: what a step does (`steps.rs`).

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use arrow::datatypes::SchemaRef;
use datafusion::{logical_expr::Expr, sql::sqlparser::tokenizer::Span};
use pelton_core::{
    graph::{Exchange, Graph, Input, Node, NodeKind, SinkNode},
    position::OperatorId,
};
use xxhash_rust::xxh3::xxh3_64;

use super::{
    fault::{Fault, Planned},
    insert::SinkPlan,
    optimize::optimize,
    prune::prune,
    rel::{JoinKey, JoinKind, Op, Rel, RelColumn, WindowEdge, Windowing, at},
    show::{millis, show, window},
    source::{self, Consumer},
    steps::Steps,
    table::Table,
};

/// Makes the graph of a job that writes `sinks`.
pub(crate) fn lower(sinks: &[SinkPlan], steps: &Steps) -> Planned<Graph> {
    let roots: Vec<Arc<Rel>> = sinks.iter().map(|sink| optimize(&sink.rel)).collect();
    let roots = prune(&roots);
    let mut builder = Builder { steps, graph: Graph::default(), built: HashMap::new(), ids: HashSet::new(), consumers: BTreeMap::new(), sources: HashMap::new() };
    let mut seen = HashSet::new();
    for root in &roots {
        builder.find_consumers(root, &mut seen);
    }
    for (sink, root) in sinks.iter().zip(&roots) {
        builder.sink(sink, root)?;
    }
    Ok(builder.graph)
}

/// How the rows of a node are spread over the workers.
#[derive(Debug, Clone, PartialEq)]
enum Spread {
    Any,
    /// By the hash of these output columns; without any, all on one worker: the owner of the one key group there is.
    Hash(Vec<usize>),
}

/// A built relation: its node and how its rows are spread.
#[derive(Debug, Clone)]
struct Built {
    node: usize,
    spread: Spread,
}

struct Builder<'a> {
    steps: &'a Steps,
    graph: Graph,
    built: HashMap<Arc<Rel>, Built>,
    ids: HashSet<u32>,
    /// Relations that read a table directly, by table name, in order of appearance.
    consumers: BTreeMap<String, (Arc<Table>, Vec<Consumer>)>,
    sources: HashMap<String, (usize, source::Layout)>,
}

impl Builder<'_> {
    fn find_consumers(&mut self, rel: &Arc<Rel>, seen: &mut HashSet<Arc<Rel>>) {
        if !seen.insert(Arc::clone(rel)) {
            return;
        }
        if let Some((table, consumer)) = scan_consumer(rel) {
            self.consumers.entry(table.spec.name.clone()).or_insert_with(|| (table, Vec::new())).1.push(consumer);
            return;
        }
        for input in rel.inputs() {
            self.find_consumers(input, seen);
        }
    }

    fn add(&mut self, name: String, details: Vec<(String, String)>, kind: NodeKind, inputs: Vec<Input>, schema: SchemaRef) -> usize {
        let below = inputs.iter().map(|input| self.graph.nodes[input.from].id.0.to_string()).collect::<Vec<_>>().join(",");
        let what = match &kind {
            // A source is its table, however many of its columns are read.
            NodeKind::Source(_) => String::new(),
            _ => details.iter().map(|(key, value)| format!("{key}={value};")).collect(),
        };
        let mut id = xxh3_64(format!("{name}|{what}|{below}").as_bytes()) as u32;
        while !self.ids.insert(id) {
            id = id.wrapping_add(1);
        }
        self.graph.nodes.push(Node { id: OperatorId(id), name, details, kind, inputs, schema });
        self.graph.nodes.len() - 1
    }

    fn sink(&mut self, sink: &SinkPlan, root: &Arc<Rel>) -> Planned<()> {
        let mut input = self.build(root)?;
        // The same rows may go elsewhere under other names.
        let wanted = &sink.rel.columns;
        let names_of = |schema: &SchemaRef| schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        if names_of(&self.graph.nodes[input.node].schema) != names_of(&sink.rel.schema()) {
            let renamed = Rel { op: root.op.clone(), columns: wanted.clone() };
            let exprs: Vec<Expr> = (0..wanted.len()).map(at).collect();
            input = self.calc(&input, &root.columns, None, &exprs, &renamed)?;
        }
        let name = if sink.table.name == "select" { "Print".to_owned() } else { format!("Sink {}", sink.table.name) };
        let mut details = Vec::new();
        if let Some(connector) = sink.table.options.get("connector").filter(|c| *c != "select") {
            details.push(("connector".to_owned(), connector.clone()));
        }
        details.push(("columns".to_owned(), names(wanted)));
        let kind = NodeKind::Sink(SinkNode { table: Arc::clone(&sink.table), metadata: sink.metadata.clone() });
        self.add(name, details, kind, vec![forward(input.node)], sink.rel.schema());
        Ok(())
    }

    fn build(&mut self, rel: &Arc<Rel>) -> Planned<Built> {
        if let Some(built) = self.built.get(rel) {
            return Ok(built.clone());
        }
        let built = self.build_new(rel)?;
        self.built.insert(Arc::clone(rel), built.clone());
        Ok(built)
    }

    fn build_new(&mut self, rel: &Arc<Rel>) -> Planned<Built> {
        if let Some((table, consumer)) = scan_consumer(rel) {
            return self.scan(rel, &table, &consumer);
        }
        match &rel.op {
            // Invariant: a scan is a consumer, which was built above.
            Op::Scan { table } => Err(Fault::at(Span::empty(), format!("table `{}` is read by nobody", table.spec.name))),
            Op::Values { rows } => self.values(rel, rows),
            Op::Calc { input, predicate, exprs } => {
                let below = self.build(input)?;
                self.calc(&below, &input.columns, predicate.as_ref(), exprs, rel)
            }
            Op::Assign { input, window: windows, time } => {
                let below = self.build(input)?;
                let details = vec![detail("window", window(windows)), detail("time", input.columns[*time].name())];
                let factory = self.steps.assign(windows, *time, rel)?;
                let node = self.add("Windows".to_owned(), details, NodeKind::Operator(factory), vec![forward(below.node)], rel.schema());
                Ok(Built { node, spread: below.spread })
            }
            Op::WindowAggregate { input, windowing, keys, aggregates, edges } => {
                let below = self.build(input)?;
                self.window_aggregate(rel, &below, input, windowing, keys, aggregates, edges)
            }
            Op::WindowJoin { left, right, kind, keys, left_window, window: windows, residual, .. } => {
                let mut details = join_details(left, right, *kind, keys, residual.as_ref());
                details.push(detail("window", window(windows)));
                let edges = format!("{}, {}", left.columns[left_window.0].name(), left.columns[left_window.1].name());
                details.push(detail("state", format!("join-rows of both sides, until {edges} have passed")));
                let factory = self.steps.join(rel)?;
                self.join("WindowJoin", rel, left, right, *kind, keys, details, factory)
            }
            Op::IntervalJoin { left, right, kind, keys, left_time, right_time, lower_ms, upper_ms, residual } => {
                let mut details = join_details(left, right, *kind, keys, residual.as_ref());
                let (l, r) = (left.columns[*left_time].name(), right.columns[*right_time].name());
                details.push(detail("time", format!("{} <= right.{r} - left.{l} <= {}", millis(*lower_ms), millis(*upper_ms))));
                details.push(detail("state", "join-rows of both sides, bounded by the time range"));
                let factory = self.steps.join(rel)?;
                self.join("IntervalJoin", rel, left, right, *kind, keys, details, factory)
            }
            Op::Union { inputs } => {
                let below = inputs.iter().map(|input| self.build(input)).collect::<Planned<Vec<_>>>()?;
                let spread = below.first().map_or(Spread::Any, |first| {
                    if below.iter().all(|other| other.spread == first.spread) { first.spread.clone() } else { Spread::Any }
                });
                let factory = Steps::union(rel);
                let inputs = below.iter().map(|built| forward(built.node)).collect();
                let node = self.add("Union".to_owned(), Vec::new(), NodeKind::Operator(factory), inputs, rel.schema());
                Ok(Built { node, spread })
            }
            Op::Unnest { input, list, outer, ordinality } => {
                let below = self.build(input)?;
                let mut details = vec![detail("of", show(list, &input.columns))];
                if *outer {
                    details.push(detail("empty", "kept with nulls"));
                }
                let factory = self.steps.unnest(input, list, *outer, *ordinality, rel)?;
                let node = self.add("Unnest".to_owned(), details, NodeKind::Operator(factory), vec![forward(below.node)], rel.schema());
                Ok(Built { node, spread: below.spread })
            }
        }
    }

    fn calc(&mut self, below: &Built, columns: &[RelColumn], predicate: Option<&Expr>, exprs: &[Expr], rel: &Rel) -> Planned<Built> {
        let details = calc_details(columns, predicate, exprs, &rel.columns);
        let factory = self.steps.calc(columns, predicate, exprs, rel)?;
        let node = self.add("Calc".to_owned(), details, NodeKind::Operator(factory), vec![forward(below.node)], rel.schema());
        // A key stays a key where it is passed on unchanged.
        let passed = |key: &usize| exprs.iter().position(|expr| *expr == at(*key));
        let spread = match &below.spread {
            Spread::Hash(keys) => keys.iter().map(passed).collect::<Option<Vec<_>>>().map_or(Spread::Any, Spread::Hash),
            Spread::Any => Spread::Any,
        };
        Ok(Built { node, spread })
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one operation, taken apart by its only caller")]
    fn window_aggregate(
        &mut self,
        rel: &Arc<Rel>,
        below: &Built,
        input: &Arc<Rel>,
        windowing: &Windowing,
        keys: &[usize],
        aggregates: &[Expr],
        edges: &[WindowEdge],
    ) -> Planned<Built> {
        let windows = windowing.window();
        let mut details = vec![detail("window", window(windows))];
        if !keys.is_empty() {
            details.push(detail("keys", keys.iter().map(|&key| input.columns[key].name()).collect::<Vec<_>>().join(", ")));
        }
        details.push(match windowing {
            Windowing::Time { time, .. } => detail("time", input.columns[*time].name()),
            Windowing::Attached { start, end, .. } => {
                detail("time", format!("{}, {}", input.columns[*start].name(), input.columns[*end].name()))
            }
        });
        if !aggregates.is_empty() {
            let shown = aggregates.iter().map(|aggregate| show(aggregate, &input.columns)).collect::<Vec<_>>();
            details.push(detail("aggregates", shown.join(", ")));
        }
        if !edges.is_empty() {
            let words = edges.iter().map(|edge| match edge {
                WindowEdge::Start => "window_start",
                WindowEdge::End => "window_end",
                WindowEdge::Time => "window_time",
            });
            details.push(detail("edges", words.collect::<Vec<_>>().join(", ")));
        }
        details.push(detail("state", "panes, until the window's end has passed"));
        let factory = self.steps.window_aggregate(rel, input, windowing, keys, aggregates, edges)?;
        let (exchange, spread) = exchange_by(below, keys, (0..keys.len()).collect());
        let kind = NodeKind::Operator(factory);
        let inputs = vec![Input { from: below.node, exchange }];
        let node = self.add("WindowAggregate".to_owned(), details, kind, inputs, rel.schema());
        Ok(Built { node, spread })
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one operation, taken apart by its only caller")]
    fn join(
        &mut self,
        name: &str,
        rel: &Arc<Rel>,
        left: &Arc<Rel>,
        right: &Arc<Rel>,
        kind: JoinKind,
        keys: &[JoinKey],
        details: Vec<(String, String)>,
        factory: Arc<dyn pelton_core::operator::OperatorFactory>,
    ) -> Planned<Built> {
        let (left_built, right_built) = (self.build(left)?, self.build(right)?);
        let left_keys: Vec<usize> = keys.iter().map(|key| key.left).collect();
        let right_keys: Vec<usize> = keys.iter().map(|key| key.right).collect();
        let width = left.columns.len();
        // Keys of a side that may be missing are null there and say nothing about where the row is.
        let output = match kind {
            JoinKind::Inner | JoinKind::Left | JoinKind::Semi | JoinKind::Anti => Some(left_keys.clone()),
            JoinKind::Right => Some(right_keys.iter().map(|key| width + key).collect()),
            JoinKind::Full => None,
        };
        let (left_exchange, left_spread) = exchange_by(&left_built, &left_keys, output.clone().unwrap_or_default());
        let (right_exchange, _) = exchange_by(&right_built, &right_keys, Vec::new());
        let spread = match (&output, left_spread) {
            (None, Spread::Hash(_)) => Spread::Any,
            (_, spread) => spread,
        };
        let inputs = vec![
            Input { from: left_built.node, exchange: left_exchange },
            Input { from: right_built.node, exchange: right_exchange },
        ];
        let node = self.add(name.to_owned(), details, NodeKind::Operator(factory), inputs, rel.schema());
        Ok(Built { node, spread })
    }

    fn scan(&mut self, rel: &Arc<Rel>, table: &Arc<Table>, consumer: &Consumer) -> Planned<Built> {
        let consumers = &self.consumers[&table.spec.name].1;
        if consumers.len() == 1 {
            let source = source::fused(self.steps, table, consumer, rel)?;
            let node = self.source(table, source.node, source.details, rel.schema());
            return Ok(Built { node, spread: Spread::Any });
        }
        if !self.sources.contains_key(&table.spec.name) {
            let source = source::shared(self.steps, table, consumers)?;
            let schema = source.node.step.schema();
            let node = self.source(table, source.node, source.details, schema);
            self.sources.insert(table.spec.name.clone(), (node, source.layout));
        }
        let (node, layout) = &self.sources[&table.spec.name];
        let below = Built { node: *node, spread: Spread::Any };
        let columns = layout.columns.clone();
        let exprs: Vec<Expr> = consumer.exprs.iter().map(|expr| layout.moved(expr)).collect();
        let predicate = consumer.predicate.as_ref().map(|predicate| layout.moved(predicate));
        self.calc(&below, &columns, predicate.as_ref(), &exprs, rel)
    }

    fn source(&mut self, table: &Table, node: pelton_core::graph::SourceNode, details: Vec<(String, String)>, schema: SchemaRef) -> usize {
        self.add(format!("Source {}", table.spec.name), details, NodeKind::Source(node), Vec::new(), schema)
    }

    fn values(&mut self, rel: &Arc<Rel>, rows: &[Vec<Expr>]) -> Planned<Built> {
        let source = source::values(self.steps, rel, rows)?;
        let node = self.add("Values".to_owned(), source.details, NodeKind::Source(source.node), Vec::new(), rel.schema());
        Ok(Built { node, spread: Spread::Any })
    }
}

/// The exchange in front of a step keyed by `keys` of its input, and the spread of its output, where those keys stand
/// in the columns `output`.
fn exchange_by(below: &Built, keys: &[usize], output: Vec<usize>) -> (Exchange, Spread) {
    let wanted = Spread::Hash(keys.to_vec());
    let exchange = if below.spread == wanted { Exchange::Forward } else { Exchange::Hash { keys: keys.to_vec() } };
    (exchange, Spread::Hash(output))
}

/// `rel` as a reader of a table: a scan, or a filter and projection right above one.
fn scan_consumer(rel: &Rel) -> Option<(Arc<Table>, Consumer)> {
    match &rel.op {
        Op::Scan { table } => {
            let exprs = (0..rel.columns.len()).map(at).collect();
            Some((Arc::clone(table), Consumer { predicate: None, exprs }))
        }
        Op::Calc { input, predicate, exprs } => match &input.op {
            Op::Scan { table } => Some((Arc::clone(table), Consumer { predicate: predicate.clone(), exprs: exprs.clone() })),
            _ => None,
        },
        _ => None,
    }
}

fn forward(from: usize) -> Input {
    Input { from, exchange: Exchange::Forward }
}

pub(crate) fn detail(key: &str, value: impl Into<String>) -> (String, String) {
    (key.to_owned(), value.into())
}

pub(crate) fn names(columns: &[RelColumn]) -> String {
    columns.iter().map(RelColumn::name).collect::<Vec<_>>().join(", ")
}

/// Filter and projection lines; columns that are only passed on stand by name alone.
pub(crate) fn calc_details(input: &[RelColumn], predicate: Option<&Expr>, exprs: &[Expr], output: &[RelColumn]) -> Vec<(String, String)> {
    let mut details = Vec::new();
    if let Some(predicate) = predicate {
        details.push(detail("where", show(predicate, input)));
    }
    let shown = exprs.iter().zip(output).map(|(expr, column)| {
        let text = show(expr, input);
        if text == column.name() { text } else { format!("{text} AS {}", column.name()) }
    });
    details.push(detail("columns", shown.collect::<Vec<_>>().join(", ")));
    details
}

fn join_details(left: &Rel, right: &Rel, kind: JoinKind, keys: &[JoinKey], residual: Option<&Expr>) -> Vec<(String, String)> {
    let mut details = vec![detail("type", kind.word())];
    if !keys.is_empty() {
        let shown = keys.iter().map(|key| {
            let equals = if key.nulls_equal { "IS NOT DISTINCT FROM" } else { "=" };
            format!("left.{} {equals} right.{}", left.columns[key.left].name(), right.columns[key.right].name())
        });
        details.push(detail("keys", shown.collect::<Vec<_>>().join(" AND ")));
    }
    if let Some(residual) = residual {
        let side = |column: &RelColumn, side: &str| column.named(&format!("{side}.{}", column.name()));
        let columns: Vec<RelColumn> =
            left.columns.iter().map(|c| side(c, "left")).chain(right.columns.iter().map(|c| side(c, "right"))).collect();
        details.push(detail("and", show(residual, &columns)));
    }
    details
}
