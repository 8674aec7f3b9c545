//! Plans as text: each `plans/NAME.sql` is planned and shown as EXPLAIN shows it; the answer stands in `NAME.plan`.
//!
//! A script that must be refused has the refusal (`line:column: message`) as its answer. A script with a line `---`
//! holds many queries, one a paragraph, each planned by itself behind what stands above that line. `UPDATE=1 cargo test
//! -p pelton-sql --test plans` writes the answers; read them before you commit them.

use std::{collections::BTreeMap, fs, path::Path};

use arrow::datatypes::SchemaRef;
use pelton_core::{
    error::{Result, RuntimeError},
    options::{ConnectorInfo, FormatInfo, OptionSpec},
    plugin::{PluginCatalog, PluginFunction, PluginSpec},
};
use pelton_sql::job::{Action, Environment, ScriptError};

const fn option(key: &'static str) -> OptionSpec {
    OptionSpec { key, required: false, default: "", doc: "" }
}

const CONNECTOR: ConnectorInfo = ConnectorInfo {
    name: "filesystem",
    options: &[option("path")],
    readable_metadata: &[("file.path", "STRING NOT NULL"), ("offset", "BIGINT NOT NULL")],
    writable_metadata: &[("headers.*", "STRING")],
    is_source: true,
    is_sink: true,
    needs_format: true,
};

const CONNECTORS: &[ConnectorInfo] = &[
    CONNECTOR,
    ConnectorInfo { name: "blackhole", options: &[], needs_format: false, ..CONNECTOR },
    ConnectorInfo { name: "datagen", options: &[option("number-of-rows"), option("fields.*")], needs_format: false, is_sink: false, ..CONNECTOR },
];

const FORMATS: &[FormatInfo] = &[FormatInfo { name: "json", options: &[option("json.*")] }];

const SETTINGS: &[OptionSpec] = &[option("table.local-time-zone"), option("pipeline.name"), option("parallelism.default")];

struct NoPlugins;

impl PluginCatalog for NoPlugins {
    fn functions(&self, plugin: &PluginSpec) -> Result<Vec<PluginFunction>> {
        Err(RuntimeError::Script(format!("there is no plugin {}", plugin.name)))
    }

    fn check_kind(&self, plugin: &PluginSpec, _kind: &str) -> Result<()> {
        self.functions(plugin).map(|_| ())
    }

    fn infer_schema(&self, _plugin: Option<&PluginSpec>, subject: &str, _samples: &[Vec<u8>]) -> Result<SchemaRef> {
        Err(RuntimeError::Script(format!("there are no samples of {subject}")))
    }
}

fn actions(text: &str) -> Result<Vec<Action>, ScriptError> {
    let environment = Environment {
        variables: &|name| Some(format!("<{name}>")),
        connectors: CONNECTORS,
        formats: FORMATS,
        table_options: &[],
        settings: SETTINGS,
        plugins: &NoPlugins,
        samples: &|_: &BTreeMap<String, String>| Ok(Vec::new()),
        pinned_schema: &|_, _| Ok(None),
    };
    pelton_sql::plan_script(text, &environment)
}

/// The script's plan as text, or its refusal.
fn plan(text: &str) -> String {
    if let Some((tables, queries)) = text.split_once("\n---\n") {
        let each = |query: &str| {
            let query = query.trim();
            let lines = tables.lines().count() + 1;
            format!("{query}\n{}\n", relative(&plan(&format!("{tables}\n{query}")), lines))
        };
        return queries.split("\n\n").filter(|query| !query.trim().is_empty()).map(each).collect();
    }
    match actions(text) {
        Ok(actions) => actions.iter().map(shown).collect::<Vec<_>>().join("\n"),
        Err(error) => format!("{error}\n"),
    }
}

/// A refusal's position counted from the query's own first line.
fn relative(text: &str, lines: usize) -> String {
    match text.split_once(':').and_then(|(line, rest)| Some((line.parse::<usize>().ok()?, rest))) {
        Some((line, rest)) => format!("{}:{rest}", line.saturating_sub(lines - 1)),
        None => text.to_owned(),
    }
}

fn shown(action: &Action) -> String {
    match action {
        Action::Rows(batch) => format!("{} rows\n", batch.num_rows()),
        Action::Text(text) => text.clone(),
        Action::Run(job) => job.graph.render(),
    }
}

#[test]
fn plans_are_as_they_were_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    let mut names: Vec<_> = fs::read_dir(&folder)
        .expect("the folder of plans")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.strip_suffix(".sql").map(str::to_owned))
        .collect();
    names.sort();
    assert!(!names.is_empty());
    let update = std::env::var_os("UPDATE").is_some();
    let mut wrong = Vec::new();
    for name in names {
        let script = fs::read_to_string(folder.join(format!("{name}.sql"))).expect("a script");
        let got = plan(&script);
        let answer = folder.join(format!("{name}.plan"));
        if update {
            fs::write(&answer, &got).expect("write the answer");
        } else if fs::read_to_string(&answer).unwrap_or_default() != got {
            wrong.push(format!("== {name}\n{got}"));
        }
    }
    assert!(wrong.is_empty(), "plans differ from their answers:\n{}", wrong.join("\n"));
}

#[test]
fn ids_are_the_same_in_every_run() {
    let ids = || -> Vec<u32> {
        let actions = actions(include_str!("plans/nexmark_q5.sql")).expect("q5 is planned");
        let jobs = actions.iter().filter_map(|action| match action {
            Action::Run(job) => Some(job),
            _ => None,
        });
        jobs.flat_map(|job| job.graph.nodes.iter().map(|node| node.id.0)).collect()
    };
    assert!(!ids().is_empty());
    assert_eq!(ids(), ids());
}
