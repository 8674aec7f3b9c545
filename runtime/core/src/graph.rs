//! The operator graph: what the planner hands to the engine.
//!
//! Nodes stand in topological order: inputs before users. A node may feed several others. Every worker runs a copy of
//! the whole graph; an exchange moves rows between the copies.

use std::{collections::BTreeMap, fmt, sync::Arc};

use arrow::datatypes::SchemaRef;

use crate::{operator::OperatorFactory, position::OperatorId, source_step::SourceStepFactory};

/// A job's operators and the edges between them.
#[derive(Clone, Default)]
pub struct Graph {
    /// In topological order.
    pub nodes: Vec<Node>,
}

/// One step.
#[derive(Clone)]
pub struct Node {
    /// Stable across restarts of the same script: derived from the plan's shape.
    pub id: OperatorId,
    /// What people see: `HopAggregate`, `Source requests`.
    pub name: String,
    /// Key and value lines for EXPLAIN, in the order shown: keys, window, state, bound, changelog mode.
    pub details: Vec<(String, String)>,
    /// What it is.
    pub kind: NodeKind,
    /// One per port, in port order.
    pub inputs: Vec<Input>,
    /// Columns it emits (for a sink: columns it takes).
    pub schema: SchemaRef,
}

/// An edge, seen from the receiver.
#[derive(Clone, Debug)]
pub struct Input {
    /// Index of the feeding node.
    pub from: usize,
    /// How rows find their worker.
    pub exchange: Exchange,
}

/// How rows find their worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// They stay on the worker they are on: a direct call, no queue.
    Forward,
    /// To the owner of the key group of these columns of the feeding node; without any, all to the owner of one group.
    Hash {
        /// Column indexes.
        keys: Vec<usize>,
    },
    /// To worker 0 (global windows).
    Single,
    /// To every worker (small sides of joins).
    Broadcast,
}

/// What a node is.
#[derive(Clone)]
pub enum NodeKind {
    /// Reads a table.
    Source(SourceNode),
    /// Computes.
    Operator(Arc<dyn OperatorFactory>),
    /// Writes a table, or prints.
    Sink(SinkNode),
}

/// A table as its CREATE statement described it, options checked and defaults not yet applied.
#[derive(Debug, Clone, PartialEq)]
pub struct TableSpec {
    /// Its name.
    pub name: String,
    /// The WITH options, keys as written.
    pub options: BTreeMap<String, String>,
    /// Physical columns: those that are decoded or encoded. Not computed, not metadata.
    pub physical: SchemaRef,
    /// PRIMARY KEY … NOT ENFORCED, column names.
    pub primary_key: Vec<String>,
    /// PARTITIONED BY columns.
    pub partition_by: Vec<String>,
    /// Line of its CREATE statement, for messages.
    pub line: u64,
}

/// A metadata column that the source (or sink) provides.
#[derive(Debug, Clone, PartialEq)]
pub struct MetadataColumn {
    /// Column name.
    pub name: String,
    /// Metadata key: `topic`, `partition`, `offset`, `timestamp`, `headers`, `headers.NAME`, `file.path`, …
    pub key: String,
    /// Declared type; the source casts to it.
    pub data_type: arrow::datatypes::DataType,
}

/// A source.
#[derive(Clone)]
pub struct SourceNode {
    /// The table.
    pub table: Arc<TableSpec>,
    /// The physical columns that the plan needs: what the decoder makes, in this order.
    pub decoded: SchemaRef,
    /// Metadata columns that the plan needs: appended to the decoded columns, in this order.
    pub metadata: Vec<MetadataColumn>,
    /// Computed columns, event time, pushed-down filter and projection.
    pub step: Arc<dyn SourceStepFactory>,
    /// Whether the table has a WATERMARK.
    pub has_watermark: bool,
}

/// A sink.
#[derive(Clone)]
pub struct SinkNode {
    /// The table; for a SELECT that prints, a table named `select` with connector `select`.
    pub table: Arc<TableSpec>,
    /// Metadata columns: the last columns of the input, in this order.
    pub metadata: Vec<MetadataColumn>,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render())
    }
}

impl Graph {
    /// The graph as text: sinks on top, inputs indented below, shared nodes named once. Used by EXPLAIN and plan tests.
    pub fn render(&self) -> String {
        let mut used = vec![0_usize; self.nodes.len()];
        for node in &self.nodes {
            for input in &node.inputs {
                used[input.from] += 1;
            }
        }
        let mut shown = vec![false; self.nodes.len()];
        let mut text = String::new();
        for (index, count) in used.iter().enumerate() {
            if *count == 0 {
                self.render_node(index, 0, None, &mut shown, &used, &mut text);
            }
        }
        text
    }

    fn render_node(
        &self,
        index: usize,
        depth: usize,
        exchange: Option<&Exchange>,
        shown: &mut [bool],
        used: &[usize],
        text: &mut String,
    ) {
        let node = &self.nodes[index];
        let indent = "  ".repeat(depth);
        text.push_str(&indent);
        text.push_str(&node.name);
        if used[index] > 1 {
            text.push_str(&format!(" #{}", node.id.0));
        }
        match exchange {
            None | Some(Exchange::Forward) => {}
            Some(Exchange::Hash { keys }) if keys.is_empty() => text.push_str(" → one worker"),
            Some(Exchange::Hash { keys }) => {
                let names: Vec<_> = keys.iter().map(|&key| node.schema.field(key).name().as_str()).collect();
                text.push_str(&format!(" → hash({})", names.join(", ")));
            }
            Some(Exchange::Single) => text.push_str(" → single"),
            Some(Exchange::Broadcast) => text.push_str(" → broadcast"),
        }
        if std::mem::replace(&mut shown[index], true) {
            text.push_str(" (shown above)\n");
            return;
        }
        text.push('\n');
        for (key, value) in &node.details {
            text.push_str(&format!("{indent}    {key}: {value}\n"));
        }
        for input in &node.inputs {
            self.render_node(input.from, depth + 1, Some(&input.exchange), shown, used, text);
        }
    }
}
