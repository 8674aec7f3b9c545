//! Plugins as the rest of Pelton sees them. Implemented over wasmtime in `plugins/host`; `sql` and `engine` know no more
//! than this.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arrow::{
    array::ArrayRef,
    datatypes::{DataType, SchemaRef},
};

use crate::{error::Result, records::{OutputRecords, Records}, time::Watermark};

/// A plugin as `CREATE PLUGIN name WITH (…)` describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginSpec {
    /// Its name in the script.
    pub name: String,
    /// The WITH options: `path`, `config`, `timeout`, `memory`, `hash`, `version`, `assets.NAME`, …
    pub options: BTreeMap<String, String>,
    /// Line of its CREATE statement, for messages.
    pub line: u64,
}

/// Whether a function may be evaluated early or skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Volatility {
    /// Same arguments, same result, for ever: calls with constants are folded.
    Immutable,
    /// Same within one batch.
    Stable,
    /// May differ from call to call.
    Volatile,
}

/// A function that a plugin offers to SQL.
#[derive(Debug, Clone)]
pub struct PluginFunction {
    /// The name it exports.
    pub name: String,
    /// Argument types.
    pub arguments: Vec<DataType>,
    /// Result type; for a table function the row type of the list that the host unnests.
    pub returns: DataType,
    /// See [`Volatility`].
    pub volatility: Volatility,
    /// Whether it makes rows (`LATERAL TABLE(f(x))`) instead of a value.
    pub is_table: bool,
    /// Whether a null argument gives null without a call.
    pub null_on_null_input: bool,
    /// How to call it.
    pub call: Arc<dyn FunctionCall>,
}

/// A callable function. Shared by all workers: the host keeps an instance for each.
pub trait FunctionCall: Send + Sync + std::fmt::Debug {
    /// One value per row; for a table function a list per row. A row the plugin refuses fails the whole call with
    /// [`crate::error::RuntimeError::Data`]; callers halve the batch to find it.
    fn invoke(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef>;
}

/// What the planner asks of plugins.
pub trait PluginCatalog: Send + Sync {
    /// Loads the plugin (or finds it loaded) and lists its functions. Errors name the plugin and what is wrong with it.
    fn functions(&self, plugin: &PluginSpec) -> Result<Vec<PluginFunction>>;

    /// Checks that the plugin loads and is of the kind: `router`, `transform`, `schema-inferrer`, `functions`.
    fn check_kind(&self, plugin: &PluginSpec, kind: &str) -> Result<()>;

    /// Infers the columns of a table from samples of its data, by plugin or (`plugin == None`) natively.
    fn infer_schema(&self, plugin: Option<&PluginSpec>, subject: &str, samples: &[Vec<u8>]) -> Result<SchemaRef>;
}

/// Where one record goes.
#[derive(Debug, Clone, PartialEq)]
pub enum Routed {
    /// To these topics, with these headers added. No target: the record is dropped on purpose.
    Targets {
        /// Topic and, if it changes, key.
        targets: Vec<(Arc<str>, Option<Vec<u8>>)>,
        /// Added to the record's own headers.
        add_headers: Vec<(String, Vec<u8>)>,
    },
    /// The plugin refused or trapped on it: a dead letter with this reason.
    Refused(String),
}

/// An instance of a router plugin on one worker.
pub trait Router: Send {
    /// One decision per record of `records`, in order.
    fn route(&mut self, records: &OutputRecords, watermark: Option<Watermark>) -> Result<Vec<Routed>>;

    /// `name version hash`, for dead letters.
    fn identity(&self) -> &str;
}

/// An instance of a transform plugin on one worker and split.
pub trait Transform: Send {
    /// Appends what each record became to `into` (offset and partition of the input kept) and the refused ones, by
    /// input index, to `refused`.
    fn process(
        &mut self,
        records: &Records,
        watermark: Option<Watermark>,
        into: &mut Records,
        refused: &mut Vec<(u32, String)>,
    ) -> Result<()>;

    /// Before a checkpoint and at the end of a bounded input: what the plugin held back.
    fn flush(&mut self, watermark: Option<Watermark>, into: &mut Records) -> Result<()>;

    /// `name version hash`, for dead letters.
    fn identity(&self) -> &str;
}

/// Limits of a plugin's instances, from its options. The host's docs say what each counts and what it does not.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginLimits {
    /// Wall time of one call, 1 s by default.
    pub timeout: Duration,
    /// Bytes of linear memory, all memories of an instance together, 64 MiB by default.
    pub memory_bytes: usize,
    /// Bytes one call may return, 16 MiB by default.
    pub output_bytes: usize,
    /// Lines a second it may log, 100 by default; more are counted and dropped.
    pub log_lines_per_second: u32,
}
