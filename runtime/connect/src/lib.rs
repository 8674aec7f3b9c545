//! Connectors that need no broker: files, standard input and output, print, datagen, blackhole.
//!
//! [`source`] and [`sink`] make what [`CONNECTORS`] lists. Sources hand out raw records with their line numbers; the
//! engine decodes them, and encodes what sinks get. Kafka stands in `runtime/kafka`.

mod blackhole;
mod datagen;
mod files;
mod metadata;
mod print;
mod stdio;

use arrow::array::RecordBatch;
use pelton_core::{
    error::{Result, RuntimeError},
    graph::TableSpec,
    options::{ConnectorInfo, OptionSpec},
    sink::Sink,
    source::{RecordParts, Source},
};

pub use metadata::metadata_column;

/// The connectors there are.
pub const CONNECTORS: &[ConnectorInfo] = &[
    files::INFO,
    stdio::STDIN,
    stdio::STDOUT,
    print::INFO,
    datagen::INFO,
    blackhole::INFO,
];

/// A short way to write an option that may be left out.
const fn optional(key: &'static str, default: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec { key, required: false, default, doc }
}

/// Turns rows into one line each, without op and line break: `pelton_formats::render::print_rows`. Handed in, because
/// connectors know no formats.
pub type PrintRows = fn(&RecordBatch, &mut Vec<Vec<u8>>) -> Result<()>;

/// What a sink is made for.
#[derive(Clone, Copy)]
pub struct SinkContext<'a> {
    /// The table written.
    pub table: &'a TableSpec,
    /// Identity of the job's output: the same when a job goes on from its checkpoint, another for every fresh start.
    /// Letters, digits, `-` and `_`. Part files carry it, so that a restart finds what its own last run left behind
    /// and never touches files of others.
    pub run: &'a str,
    /// This worker, from 0.
    pub worker: usize,
    /// How many workers there are.
    pub workers: usize,
    /// How `print` shows rows.
    pub print_rows: PrintRows,
}

/// Makes the source of `table` for `worker` of `workers`: each split is read by exactly one of them.
pub fn source(table: &TableSpec, parts: RecordParts, worker: usize, workers: usize) -> Result<Box<dyn Source>> {
    let made: Result<Box<dyn Source>, String> = match connector(table) {
        "filesystem" => files::FileSource::new(table, parts, worker, workers).map(|made| Box::new(made) as _),
        "stdin" => Ok(Box::new(stdio::StdinSource::new(table, parts, worker))),
        "datagen" => datagen::DatagenSource::new(table, parts, worker, workers).map(|made| Box::new(made) as _),
        other => Err(format!("connector '{other}' cannot be read")),
    };
    made.map_err(|reason| at_table(table, &reason))
}

/// Makes the sink of a table for one worker.
pub fn sink(context: SinkContext<'_>) -> Result<Box<dyn Sink>> {
    let made: Result<Box<dyn Sink>, String> = match connector(context.table) {
        "filesystem" => files::FileSink::new(&context).map(|made| Box::new(made) as _),
        "stdout" => Ok(Box::new(stdio::StdoutSink)),
        "print" => print::PrintSink::new(&context).map(|made| Box::new(made) as _),
        "blackhole" => Ok(Box::new(blackhole::BlackholeSink)),
        other => Err(format!("connector '{other}' cannot be written")),
    };
    made.map_err(|reason| at_table(context.table, &reason))
}

/// The format of a connector whose tables have no `format` option, yet whose source hands out bytes.
pub fn implied_format(connector: &str) -> Option<&'static str> {
    (connector == "datagen").then_some("json")
}

fn connector(table: &TableSpec) -> &str {
    table.options.get("connector").map_or("", String::as_str)
}

fn at_table(table: &TableSpec, reason: &str) -> RuntimeError {
    RuntimeError::Script(format!("table '{}': {reason}", table.name))
}
