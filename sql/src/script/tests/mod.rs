//! Scripts as data: good ones with what is read from them, bad ones with where and why they are refused, and mutated
//! ones, which must neither panic nor take long.

mod good;
mod bad;
mod types;
mod mutated;
mod deep;

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use pelton_core::{
    error::{Result, RuntimeError},
    options::{ConnectorInfo, FormatInfo, OptionSpec},
    plugin::{PluginCatalog, PluginFunction, PluginSpec},
};

use super::{
    parse::parse,
    source::Source,
    statement::{Spanned, Statement},
};
use crate::job::{Action, Environment, ScriptError};

const fn option(key: &'static str, default: &'static str) -> OptionSpec {
    OptionSpec { key, required: false, default, doc: "" }
}

const CONNECTORS: &[ConnectorInfo] = &[
    ConnectorInfo {
        name: "filesystem",
        options: &[
            OptionSpec { key: "path", required: true, default: "", doc: "A file or a folder." },
            option("source.monitor-interval", ""),
            option("sink.rolling-policy.file-size", "128MB"),
        ],
        readable_metadata: &[("file.path", "STRING NOT NULL"), ("offset", "BIGINT NOT NULL"), ("headers.*", "STRING")],
        writable_metadata: &[("headers.*", "STRING"), ("key", "BYTES")],
        is_source: true,
        is_sink: true,
        needs_format: true,
    },
    ConnectorInfo {
        name: "kafka",
        options: &[option("topic", ""), option("properties.*", ""), option("scan.startup.mode", "group-offsets")],
        readable_metadata: &[("offset", "BIGINT NOT NULL"), ("timestamp", "TIMESTAMP_LTZ(3)")],
        writable_metadata: &[("timestamp", "TIMESTAMP_LTZ(3)")],
        is_source: true,
        is_sink: true,
        needs_format: true,
    },
    ConnectorInfo {
        name: "blackhole",
        options: &[],
        readable_metadata: &[],
        writable_metadata: &[],
        is_source: false,
        is_sink: true,
        needs_format: false,
    },
];

const FORMATS: &[FormatInfo] = &[
    FormatInfo { name: "json", options: &[option("json.ignore-parse-errors", "false"), option("json.timestamp-format.standard", "SQL")] },
    FormatInfo { name: "csv", options: &[option("csv.field-delimiter", ","), option("csv.allow-comments", "false")] },
];

const TABLE_OPTIONS: &[OptionSpec] = &[option("pelton.schema.infer", ""), option("key.fields", ""), option("pelton.on-error", "")];

const SETTINGS: &[OptionSpec] =
    &[option("table.local-time-zone", "UTC"), option("pipeline.name", ""), option("execution.checkpointing.interval", "10 s"), option("parallelism.default", "1")];

/// One plugin, `finder`, that infers one column.
struct Plugins;

impl PluginCatalog for Plugins {
    fn functions(&self, plugin: &PluginSpec) -> Result<Vec<PluginFunction>> {
        Err(RuntimeError::Script(format!("plugin {} has no functions", plugin.name)))
    }

    fn check_kind(&self, plugin: &PluginSpec, kind: &str) -> Result<()> {
        Err(RuntimeError::Script(format!("plugin {} is no {kind}", plugin.name)))
    }

    fn infer_schema(&self, _plugin: Option<&PluginSpec>, subject: &str, samples: &[Vec<u8>]) -> Result<SchemaRef> {
        if samples.is_empty() {
            return Err(RuntimeError::Script(format!("there are no samples of {subject}")));
        }
        Ok(Schema::new(vec![Field::new("found", DataType::Utf8, true)]).into())
    }
}

/// Variables of all tests: `NAME` is `value`, `LONG` is longer than its name.
fn variable(name: &str) -> Option<String> {
    match name {
        "NAME" => Some("value".to_owned()),
        "LONG" => Some("a value longer than the name".to_owned()),
        "QUOTE" => Some("'".to_owned()),
        _ => None,
    }
}

fn plan(script: &str) -> std::result::Result<Vec<Action>, ScriptError> {
    let environment = Environment {
        variables: &variable,
        connectors: CONNECTORS,
        formats: FORMATS,
        table_options: TABLE_OPTIONS,
        settings: SETTINGS,
        plugins: &Plugins,
        samples: &|options: &BTreeMap<String, String>| {
            Ok(if options.get("path").is_some_and(|path| path == "empty") { Vec::new() } else { vec![b"{}".to_vec()] })
        },
        pinned_schema: &|_, _| Ok(None),
    };
    crate::plan_script(script, &environment)
}

fn statements(script: &str) -> std::result::Result<Vec<Statement>, ScriptError> {
    let source = Source::new(script, &variable)?;
    Ok(parse(&source)?.into_iter().map(|Spanned { statement, .. }| statement).collect())
}

/// Scripts of the case bank in tests/cases, by name.
fn cases() -> BTreeMap<String, String> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases");
    let mut cases = BTreeMap::new();
    for group in std::fs::read_dir(root).expect("tests/cases is there").flatten() {
        let Ok(entries) = std::fs::read_dir(group.path()) else { continue };
        for case in entries.flatten() {
            if let Ok(script) = std::fs::read_to_string(case.path().join("case.sql")) {
                let name = format!("{}/{}", group.file_name().to_string_lossy(), case.file_name().to_string_lossy());
                cases.insert(name, script.replace("${DIR}", "/data"));
            }
        }
    }
    assert!(!cases.is_empty());
    cases
}
