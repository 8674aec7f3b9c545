//! The graph as all workers see it: who feeds whom over which channel. Fixed at start, shared.
//!
//! A *channel* is one feeder of one port: over a forward edge the worker's own copy of the feeder, over an exchange the
//! copies on all workers. Watermarks, ends and barriers are followed per channel.

use std::sync::Arc;

use pelton_core::{
    graph::{Exchange, Graph, NodeKind, TableSpec},
    position::OperatorId,
};

/// See the module.
pub(crate) struct Plan {
    pub(crate) graph: Graph,
    pub(crate) nodes: Vec<PlanNode>,
    pub(crate) edges: Vec<ExchangeEdge>,
    pub(crate) workers: usize,
    pub(crate) key_groups: u16,
}

/// One node.
pub(crate) struct PlanNode {
    pub(crate) id: OperatorId,
    pub(crate) outputs: Vec<Output>,
    /// For each port its first channel.
    pub(crate) port_channels: Vec<usize>,
    pub(crate) channels: usize,
    /// Exchange edges that rows of this node can reach, its own inputs not counted.
    pub(crate) reaches: Vec<usize>,
    /// Source nodes that rows of this node come from.
    pub(crate) sources: Vec<usize>,
}

/// One edge, seen from the feeder.
pub(crate) struct Output {
    pub(crate) to: usize,
    pub(crate) port: usize,
    pub(crate) route: Route,
}

/// How rows of an edge find their worker.
pub(crate) enum Route {
    /// A direct call on this worker.
    Direct,
    /// Through queues, by the key group of these columns.
    Hash { edge: usize, keys: Vec<usize> },
    /// Through queues, to worker 0.
    Single { edge: usize },
    /// Through queues, to all.
    Broadcast { edge: usize },
}

impl Route {
    pub(crate) fn edge(&self) -> Option<usize> {
        match self {
            Self::Direct => None,
            Self::Hash { edge, .. } | Self::Single { edge } | Self::Broadcast { edge } => Some(*edge),
        }
    }
}

/// An edge with queues.
pub(crate) struct ExchangeEdge {
    pub(crate) to: usize,
    pub(crate) port: usize,
}

impl Plan {
    pub(crate) fn new(graph: Graph, workers: usize, key_groups: u16) -> Arc<Self> {
        let mut nodes: Vec<PlanNode> = Vec::with_capacity(graph.nodes.len());
        let mut edges = Vec::new();
        for (to, node) in graph.nodes.iter().enumerate() {
            let (mut port_channels, mut channels, mut sources) = (Vec::new(), 0, Vec::new());
            for (port, input) in node.inputs.iter().enumerate() {
                port_channels.push(channels);
                let mut queue = || {
                    edges.push(ExchangeEdge { to, port });
                    edges.len() - 1
                };
                let route = match &input.exchange {
                    _ if workers == 1 => Route::Direct,
                    Exchange::Forward => Route::Direct,
                    Exchange::Hash { keys } => Route::Hash { edge: queue(), keys: keys.clone() },
                    Exchange::Single => Route::Single { edge: queue() },
                    Exchange::Broadcast => Route::Broadcast { edge: queue() },
                };
                channels += if matches!(route, Route::Direct) { 1 } else { workers };
                sources.extend(nodes[input.from].sources.iter().copied());
                nodes[input.from].outputs.push(Output { to, port, route });
            }
            if matches!(node.kind, NodeKind::Source(_)) {
                sources.push(to);
            }
            sources.sort_unstable();
            sources.dedup();
            nodes.push(PlanNode { id: node.id, outputs: Vec::new(), port_channels, channels, reaches: Vec::new(), sources });
        }
        // Inputs stand before users, so that a pass from the end sees every target's reach before its feeder's.
        for from in (0..nodes.len()).rev() {
            let mut reaches: Vec<usize> = Vec::new();
            for output in &nodes[from].outputs {
                reaches.extend(output.route.edge());
                reaches.extend(&nodes[output.to].reaches);
            }
            reaches.sort_unstable();
            reaches.dedup();
            nodes[from].reaches = reaches;
        }
        Arc::new(Self { graph, nodes, edges, workers, key_groups })
    }

    /// The table of a source node.
    pub(crate) fn source_table(&self, node: usize) -> Option<&Arc<TableSpec>> {
        match &self.graph.nodes[node].kind {
            NodeKind::Source(source) => Some(&source.table),
            _ => None,
        }
    }

    /// Source nodes.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (usize, &pelton_core::graph::SourceNode)> {
        self.graph.nodes.iter().enumerate().filter_map(|(index, node)| match &node.kind {
            NodeKind::Source(source) => Some((index, source)),
            _ => None,
        })
    }

    /// Sink nodes.
    pub(crate) fn sinks(&self) -> impl Iterator<Item = (usize, &pelton_core::graph::SinkNode)> {
        self.graph.nodes.iter().enumerate().filter_map(|(index, node)| match &node.kind {
            NodeKind::Sink(sink) => Some((index, sink)),
            _ => None,
        })
    }

    /// Whether rows are moved by key: such a job must see every partition of its inputs.
    pub(crate) fn is_keyed(&self) -> bool {
        self.graph.nodes.iter().flat_map(|node| &node.inputs).any(|input| input.exchange != Exchange::Forward)
    }
}
