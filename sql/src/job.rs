//! What planning a script gives: jobs to run and texts to print, in the script's order.

use std::{collections::BTreeMap, sync::Arc};

use arrow::array::RecordBatch;
use pelton_core::{
    graph::Graph,
    options::{ConnectorInfo, FormatInfo, OptionSpec},
    plugin::{PluginCatalog, PluginSpec},
};

/// What a script sees of the world around it. Everything is passed in: planning does no I/O of its own.
pub struct Environment<'a> {
    /// Values for `${NAME}`, from `--var` and then the process environment.
    pub variables: &'a dyn Fn(&str) -> Option<String>,
    /// Connectors that exist.
    pub connectors: &'a [ConnectorInfo],
    /// Formats that exist.
    pub formats: &'a [FormatInfo],
    /// Options every table may have besides its connector's (`pelton.dlq`, `pelton.on-error`, …).
    pub table_options: &'a [OptionSpec],
    /// SET keys that exist.
    pub settings: &'a [OptionSpec],
    /// Loads plugins.
    pub plugins: &'a dyn PluginCatalog,
    /// First bytes of a table's data, split into records, for `'pelton.schema.infer'`: called with the table's options.
    pub samples: &'a dyn Fn(&BTreeMap<String, String>) -> Result<Vec<Vec<u8>>, String>,
    /// Pinned schemas: reads (`None`) or writes (`Some`) the JSON text stored for a table in `<job>.schema.json`.
    pub pinned_schema: &'a dyn Fn(&str, Option<&str>) -> Result<Option<String>, String>,
}

/// One thing to do, in the script's order.
pub enum Action {
    /// Rows of SHOW, DESCRIBE.
    Rows(RecordBatch),
    /// Text of EXPLAIN.
    Text(String),
    /// A query or the script's INSERTs: run it.
    Run(Job),
}

/// A graph with all it needs to run.
#[derive(Clone)]
pub struct Job {
    /// `pipeline.name`, else empty: the caller then names it after the file.
    pub name: String,
    /// SET keys in force, defaults not filled in.
    pub settings: BTreeMap<String, String>,
    /// Plugins that the graph's sources and sinks name, by name.
    pub plugins: BTreeMap<String, Arc<PluginSpec>>,
    /// The operators.
    pub graph: Graph,
}

/// A script that cannot be planned. Remedy: change the script. Exit code 2.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct ScriptError {
    /// Line, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
    /// What was found, what was expected, the nearest name, what to do.
    pub message: String,
    /// The script's line that holds the fault, for showing with a caret.
    pub source_line: String,
}
