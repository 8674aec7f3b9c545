//! Sources: what is read of a table, and what its first step computes.
//!
//! A table that one relation reads has that relation's filter and projection in its own first step, so that rows which
//! nobody wants are never built. A table that several read gives all of them the columns that any of them needs.
//! Either way only what is read is decoded, fields of ROWs included.

use std::{collections::BTreeMap, sync::Arc};

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::logical_expr::{Case, Expr, lit};
use pelton_core::graph::{MetadataColumn, SourceNode, TableSpec};

use super::{
    fault::Planned,
    fields::Reads,
    lower::{calc_details, detail, names},
    rel::{Rel, RelColumn, Role, at, remap},
    show::show,
    steps::{SourceStep, Steps},
    table::{Origin, Table},
};

/// A filter and projection right above a table, over all the table's columns.
#[derive(Debug, Clone)]
pub(crate) struct Consumer {
    pub(crate) predicate: Option<Expr>,
    pub(crate) exprs: Vec<Expr>,
}

/// A source with its lines for EXPLAIN.
pub(crate) struct Source {
    pub(crate) node: SourceNode,
    pub(crate) details: Vec<(String, String)>,
    pub(crate) layout: Layout,
}

/// Where a table's columns stand in what a source gives.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    pub(crate) columns: Vec<RelColumn>,
    positions: BTreeMap<usize, usize>,
}

impl Layout {
    fn add(&mut self, table_column: usize, column: RelColumn) {
        self.positions.insert(table_column, self.columns.len());
        self.columns.push(column);
    }

    /// An expression over the table's columns as one over this layout.
    pub(crate) fn moved(&self, expr: &Expr) -> Expr {
        // Invariant: everything that expressions read is in the layout, so the fallback is never taken.
        remap(expr, &|index| self.positions.get(&index).copied().unwrap_or(index))
    }
}

/// What is decoded, and the computed columns behind it.
struct Input {
    reads: Reads,
    decoded: Vec<Arc<Field>>,
    metadata: Vec<MetadataColumn>,
    /// Decoded columns, metadata, computed columns.
    layout: Layout,
    computed: Vec<(Expr, Arc<Field>)>,
}

impl Input {
    fn of(table: &Table, consumers: &[Consumer]) -> Self {
        let mut reads = Reads::default();
        consumers.iter().flat_map(|consumer| consumer.exprs.iter().chain(&consumer.predicate)).for_each(|expr| reads.add(expr));
        if let Some((time, watermark)) = &table.watermark {
            reads.add_whole(*time);
            reads.add(watermark);
        }
        // Computed columns read others, which stand anywhere; a computed column reads no computed one.
        for (index, column) in table.columns.iter().enumerate() {
            if let (Origin::Computed(expr), Some(_)) = (&column.origin, reads.get(index)) {
                reads.add(expr);
            }
        }
        let mut input = Self { reads, decoded: Vec::new(), metadata: Vec::new(), layout: Layout::default(), computed: Vec::new() };
        for (index, column) in table.columns.iter().enumerate() {
            if let (Origin::Physical(_), Some(part)) = (&column.origin, input.reads.get(index)) {
                let field = part.of(&column.field);
                input.decoded.push(Arc::clone(&field));
                input.layout.add(index, RelColumn::new(field, Role::Plain));
            }
        }
        for (index, column) in table.columns.iter().enumerate() {
            if let (Origin::Metadata { column: meta, .. }, Some(_)) = (&column.origin, input.reads.get(index)) {
                input.metadata.push(meta.clone());
                input.layout.add(index, RelColumn::new(Arc::clone(&column.field), Role::Plain));
            }
        }
        let raw = input.layout.clone();
        for (index, column) in table.columns.iter().enumerate() {
            if let (Origin::Computed(expr), Some(_)) = (&column.origin, input.reads.get(index)) {
                input.computed.push((raw.moved(expr), Arc::clone(&column.field)));
                input.layout.add(index, RelColumn::new(Arc::clone(&column.field), Role::Plain));
            }
        }
        input
    }

    fn node(&self, steps: &Steps, table: &Table, consumer: &Consumer, output: &[RelColumn]) -> Planned<SourceNode> {
        let raw = self.decoded.len() + self.metadata.len();
        let step = steps.source(&SourceStep {
            raw: &self.layout.columns[..raw],
            computed: &self.computed,
            columns: &self.layout.columns,
            time: table.watermark.as_ref().map(|(time, watermark)| (self.layout.positions[time], self.layout.moved(watermark))),
            predicate: consumer.predicate.as_ref().map(|predicate| self.layout.moved(predicate)),
            exprs: &consumer.exprs.iter().map(|expr| self.layout.moved(expr)).collect::<Vec<_>>(),
            output,
        })?;
        Ok(SourceNode {
            table: Arc::clone(&table.spec),
            decoded: Arc::new(Schema::new(self.decoded.clone())),
            metadata: self.metadata.clone(),
            step,
            has_watermark: table.watermark.is_some(),
        })
    }

    fn details(&self, table: &Table) -> Vec<(String, String)> {
        let connector = table.spec.options.get("connector").cloned().unwrap_or_default();
        let mut details = vec![detail("connector", connector)];
        details.push(detail("decoded", self.decoded.iter().map(|field| shape(field)).collect::<Vec<_>>().join(", ")));
        if !self.metadata.is_empty() {
            details.push(detail("metadata", self.metadata.iter().map(|meta| meta.key.clone()).collect::<Vec<_>>().join(", ")));
        }
        if let Some((time, watermark)) = &table.watermark {
            let columns: Vec<RelColumn> = table.columns.iter().map(|c| RelColumn::new(Arc::clone(&c.field), Role::Plain)).collect();
            details.push(detail("time", format!("{}, watermark {}", columns[*time].name(), show(watermark, &columns))));
        }
        details
    }
}

/// A decoded column: its name, with the fields that are decoded of a ROW.
fn shape(field: &Field) -> String {
    match field.data_type() {
        DataType::Struct(fields) => {
            format!("{}({})", field.name(), fields.iter().map(|field| shape(field)).collect::<Vec<_>>().join(", "))
        }
        _ => field.name().clone(),
    }
}

/// The source of a table that only `rel` reads: it gives `rel`'s columns.
pub(crate) fn fused(steps: &Steps, table: &Table, consumer: &Consumer, rel: &Rel) -> Planned<Source> {
    let input = Input::of(table, std::slice::from_ref(consumer));
    let node = input.node(steps, table, consumer, &rel.columns)?;
    let mut details = input.details(table);
    let columns: Vec<RelColumn> = table.columns.iter().map(|c| RelColumn::new(Arc::clone(&c.field), Role::Plain)).collect();
    details.extend(calc_details(&columns, consumer.predicate.as_ref(), &consumer.exprs, &rel.columns));
    Ok(Source { node, details, layout: Layout::default() })
}

/// The source of a table that several relations read: it gives every column that one of them reads.
pub(crate) fn shared(steps: &Steps, table: &Table, consumers: &[Consumer]) -> Planned<Source> {
    let input = Input::of(table, consumers);
    let mut layout = Layout::default();
    let mut exprs = Vec::new();
    let mut wanted = Reads::default();
    consumers.iter().flat_map(|consumer| consumer.exprs.iter().chain(&consumer.predicate)).for_each(|expr| wanted.add(expr));
    for (index, position) in &input.layout.positions {
        if wanted.get(*index).is_some() {
            exprs.push(at(*index));
            layout.add(*index, input.layout.columns[*position].clone());
        }
    }
    let node = input.node(steps, table, &Consumer { predicate: None, exprs }, &layout.columns)?;
    let mut details = input.details(table);
    details.push(detail("columns", names(&layout.columns)));
    Ok(Source { node, details, layout })
}

/// Constant rows: a generator that counts, and a projection that picks each row's constants by the count.
pub(crate) fn values(steps: &Steps, rel: &Rel, rows: &[Vec<Expr>]) -> Planned<Source> {
    let row = Arc::new(Field::new("row", DataType::Int64, false));
    let counter = [RelColumn::new(Arc::clone(&row), Role::Plain)];
    let options = [
        ("connector", "datagen".to_owned()),
        ("number-of-rows", rows.len().to_string()),
        ("fields.row.kind", "sequence".to_owned()),
        ("fields.row.start", "0".to_owned()),
        ("fields.row.end", rows.len().saturating_sub(1).to_string()),
    ];
    let spec = TableSpec {
        name: "values".to_owned(),
        options: options.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        physical: Arc::new(Schema::new(vec![Arc::clone(&row)])),
        primary_key: Vec::new(),
        partition_by: Vec::new(),
        line: 0,
    };
    let exprs: Vec<Expr> = (0..rel.columns.len())
        .map(|column| match rows {
            [only] => only[column].clone(),
            _ => {
                let when = rows.iter().enumerate().map(|(i, row)| (Box::new(at(0).eq(lit(i as i64))), Box::new(row[column].clone())));
                Expr::Case(Case::new(None, when.collect(), None))
            }
        })
        .collect();
    let step = steps.source(&SourceStep {
        raw: &counter,
        computed: &[],
        columns: &counter,
        time: None,
        predicate: None,
        exprs: &exprs,
        output: &rel.columns,
    })?;
    let node = SourceNode {
        table: Arc::new(spec),
        decoded: Arc::new(Schema::new(vec![row])),
        metadata: Vec::new(),
        step,
        has_watermark: false,
    };
    Ok(Source { node, details: calc_details(&[], None, &exprs, &rel.columns), layout: Layout::default() })
}
