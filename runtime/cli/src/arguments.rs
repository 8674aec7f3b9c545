//! The command line, as clap reads it.

use std::{num::NonZeroUsize, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Flink SQL and WebAssembly plugins over Kafka and files, with state in RocksDB.
#[derive(Debug, Parser)]
#[command(version, after_help = "Example:\n  pelton run job.sql\n\nExit codes: 0 done, 1 the job failed, 2 script or settings refused, 3 recovery impossible.")]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Say more on standard error; twice for every detail.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a script: its INSERTs and SELECTs, until their inputs end or the job is stopped.
    #[command(after_help = "Examples:\n  pelton run job.sql\n  pelton run job.sql --var DAY=2026-01-15 --parallelism 2 --state-dir /data/job\n  pelton run query.sql --output jsonl | jq .\n\nA job with a state folder goes on from its last checkpoint; --fresh starts anew.")]
    Run(RunOptions),
    /// Plan a script without running it: the first fault with its place, or nothing.
    #[command(after_help = "Example:\n  pelton check job.sql && echo fine")]
    Check(ScriptOptions),
    /// Show the operators a script becomes: keys, windows, state and what bounds it.
    #[command(after_help = "Example:\n  pelton explain job.sql")]
    Explain(ScriptOptions),
    /// Look at plugins.
    Plugin {
        /// What to do.
        #[command(subcommand)]
        command: PluginCommand,
    },
    /// Find schemas.
    Schema {
        /// What to do.
        #[command(subcommand)]
        command: SchemaCommand,
    },
    /// Look at the dead letters in a job's state.
    Dlq {
        /// What to do.
        #[command(subcommand)]
        command: DlqCommand,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ScriptOptions {
    /// The SQL script.
    pub(crate) script: PathBuf,
    /// A value for `${NAME}` in the script; the environment's without it.
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) vars: Vec<(String, String)>,
    /// A setting, as SET in the script; goes before the script's.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) settings: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    #[command(flatten)]
    pub(crate) script: ScriptOptions,
    /// Drop the state of earlier runs first.
    #[arg(long)]
    pub(crate) fresh: bool,
    /// How rows of SELECT are printed: a table on a terminal, else JSON lines.
    #[arg(long)]
    pub(crate) output: Option<OutputChoice>,
    /// Workers; parallelism.default without it.
    #[arg(long)]
    pub(crate) parallelism: Option<NonZeroUsize>,
    /// Folder of the state; pelton.state.dir without it.
    #[arg(long)]
    pub(crate) state_dir: Option<PathBuf>,
}

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputChoice {
    /// A table.
    Table,
    /// One JSON object a line.
    Jsonl,
    /// A header and a line a row.
    Csv,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PluginCommand {
    /// Show what a component is: kinds, functions, imports, hash.
    #[command(after_help = "Example:\n  pelton plugin inspect plugins/bundle/text.wasm")]
    Inspect {
        /// The component's file.
        file: PathBuf,
        /// Text, or JSON for programs.
        #[arg(long, default_value = "text")]
        output: TextOrJson,
    },
}

/// Text for people or JSON for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextOrJson {
    /// For people.
    Text,
    /// For programs.
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SchemaCommand {
    /// Infer columns from the first records of a file or topic.
    #[command(after_help = "Examples:\n  pelton schema infer requests.jsonl\n  pelton schema infer requests.jsonl --plugin infer-json.wasm --output json-schema\n  pelton schema infer --topic requests --brokers localhost:9092")]
    Infer(InferOptions),
}

#[derive(Debug, Args)]
pub(crate) struct InferOptions {
    /// A file of records, one a line.
    #[arg(required_unless_present = "topic", conflicts_with = "topic")]
    pub(crate) file: Option<PathBuf>,
    /// A topic.
    #[arg(long, requires = "brokers")]
    pub(crate) topic: Option<String>,
    /// The topic's brokers.
    #[arg(long, env = "BROKERS")]
    pub(crate) brokers: Option<String>,
    /// Format of the records.
    #[arg(long, default_value = "json")]
    pub(crate) format: String,
    /// A schema-inferring plugin to ask; without it the inference that is built in.
    #[arg(long)]
    pub(crate) plugin: Option<PathBuf>,
    /// How many records to look at.
    #[arg(long, default_value_t = pelton_engine::SAMPLES)]
    pub(crate) samples: usize,
    /// What to print.
    #[arg(long, default_value = "columns")]
    pub(crate) output: SchemaOutput,
}

/// How a schema is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOutput {
    /// Columns for CREATE TABLE.
    Columns,
    /// JSON Schema, draft-07.
    JsonSchema,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DlqCommand {
    /// List dead letters, one a line.
    #[command(after_help = "Example:\n  pelton dlq ls --state-dir pelton-state/job")]
    Ls(DlqOptions),
    /// Show dead letters whole, as JSON lines: key, value and headers as they were.
    #[command(after_help = "Example:\n  pelton dlq show --state-dir pelton-state/job | jq .value")]
    Show(DlqOptions),
}

#[derive(Debug, Args)]
pub(crate) struct DlqOptions {
    /// The job's state folder.
    #[arg(long)]
    pub(crate) state_dir: PathBuf,
    /// Only those of this table.
    #[arg(long)]
    pub(crate) table: Option<String>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` has no `=`"))?;
    if name.is_empty() { Err(format!("`{text}` has no name")) } else { Ok((name.to_owned(), value.to_owned())) }
}
