//! Planning with everything there is: connectors, formats, settings, plugins, samples, pinned schemas.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::datatypes::{Schema, SchemaRef};
use pelton_core::{
    error::{Result, RuntimeError},
    graph::TableSpec,
    plugin::{PluginCatalog, PluginFunction, PluginSpec},
    records::Records,
    source::{Polled, RecordParts, SplitChange},
};
use pelton_sql::job::{Action, Environment, ScriptError};

use crate::{
    components::Components,
    connectors::{Connectors, Place},
    settings::{SETTINGS, Settings},
    table_options::TABLE_OPTIONS,
};

/// Records that a schema is inferred from.
pub const SAMPLES: usize = 1_000;

/// Longest time to wait for samples of a table that does not end.
const SAMPLES_WAIT: Duration = Duration::from_secs(10);

/// What a script is planned with.
pub struct PlanContext<'a> {
    /// Values for `${NAME}`.
    pub variables: &'a dyn Fn(&str) -> Option<String>,
    /// Connectors, plugins, and the script's folder.
    pub components: &'a Components,
    /// Where inferred schemas are pinned (`<job>.schema.json`).
    pub schema_file: PathBuf,
}

/// Plans a script: what to do, in its order.
///
/// # Errors
/// The script's first fault, with its place.
pub fn plan(script: &str, context: &PlanContext<'_>) -> Result<Vec<Action>, ScriptError> {
    let components = context.components;
    let catalog: Box<dyn PluginCatalog> = match &components.plugins {
        Some(host) => Box::new(host.catalog(&components.base_dir, Arc::new(native_schema))),
        None => Box::new(NoPlugins),
    };
    let connectors = components.connectors.infos();
    let actions = pelton_sql::plan_script(
        script,
        &Environment {
            variables: context.variables,
            connectors: &connectors,
            formats: pelton_formats::FORMATS,
            table_options: TABLE_OPTIONS,
            settings: SETTINGS,
            plugins: catalog.as_ref(),
            samples: &|options| samples(components.connectors.as_ref(), options, SAMPLES).map_err(|error| error.to_string()),
            pinned_schema: &|table, text| pinned(&context.schema_file, table, text),
        },
    )?;
    check_values(script)?;
    Ok(actions)
}

/// Checks the values of the script's SET statements, whose keys the planner has checked; those with variables are
/// checked when a job is run with them.
fn check_values(script: &str) -> Result<(), ScriptError> {
    for (number, line) in script.lines().enumerate() {
        let is_set = line.trim_start().get(..4).is_some_and(|start| start.eq_ignore_ascii_case("set "));
        // SET 'key' = 'value': the texts between the quotes stand at the odd places.
        let parts: Vec<&str> = line.split('\'').collect();
        let (true, Some(key), Some(equals), Some(value)) = (is_set, parts.get(1), parts.get(2), parts.get(3)) else { continue };
        if equals.trim() != "=" || value.contains("${") {
            continue;
        }
        if let Err(error) = Settings::read(&BTreeMap::from([((*key).to_owned(), (*value).to_owned())]), "") {
            let before = line[..value.as_ptr() as usize - line.as_ptr() as usize].chars().count();
            return Err(ScriptError {
                line: number as u64 + 1,
                column: before as u64,
                message: error.to_string(),
                source_line: line.to_owned(),
            });
        }
    }
    Ok(())
}

/// Columns of JSON samples, found without a plugin. Timestamps in ISO-8601 stay text: the table's options decide how the
/// format reads them, and without one it reads SQL's.
fn native_schema(_subject: &str, samples: &[Vec<u8>]) -> Result<Schema, String> {
    let schema = pelton_formats::infer::infer(samples).map_err(|error| error.to_string())?;
    Ok(schema.columns(false).as_ref().clone())
}

/// The first records of a table, read as by a source of its own that commits nothing.
pub fn samples(connectors: &dyn Connectors, options: &BTreeMap<String, String>, count: usize) -> Result<Vec<Vec<u8>>> {
    let table = TableSpec {
        name: "samples".to_owned(),
        options: connectors.sampling_options(options),
        physical: Arc::new(Schema::empty()),
        primary_key: Vec::new(),
        partition_by: Vec::new(),
        line: 0,
    };
    let place = Place { job: "samples", run: "samples", worker: 0, workers: 1, needs_all: false };
    let mut source = connectors.source(&table, RecordParts::default(), place)?;
    source.restore(&[])?;
    let started = Instant::now();
    let mut splits = Vec::new();
    let mut found = Vec::new();
    let mut records = Records::default();
    while found.len() < count && started.elapsed() < SAMPLES_WAIT {
        splits.extend(source.changes()?.into_iter().filter_map(|change| match change {
            SplitChange::Added(split) => Some(split),
            SplitChange::Revoked(_) => None,
        }));
        let mut ended = Vec::new();
        let mut any = false;
        for split in &splits {
            records.clear();
            let polled = source.poll(split, count - found.len(), &mut records)?;
            any |= !records.is_empty();
            found.extend(records.values.iter().flatten().map(<[u8]>::to_vec));
            if polled == Polled::End {
                ended.push(split.clone());
            }
            if found.len() >= count {
                break;
            }
        }
        splits.retain(|split| !ended.contains(split));
        if splits.is_empty() && source.is_bounded() {
            break;
        }
        if !any {
            // An unbounded table that has given something and has no more now is sampled.
            if !found.is_empty() {
                break;
            }
            source.wait(Duration::from_millis(20));
        }
    }
    Ok(found)
}

/// Reads or writes the schema pinned for a table.
fn pinned(file: &Path, table: &str, text: Option<&str>) -> Result<Option<String>, String> {
    let fault = |verb: &str, error: &dyn std::fmt::Display| format!("{verb} {}: {error}", file.display());
    let mut all: serde_json::Map<String, serde_json::Value> = match fs::read(file) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| fault("read pinned schemas in", &error))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => serde_json::Map::new(),
        Err(error) => return Err(fault("read", &error)),
    };
    let Some(text) = text else { return Ok(all.get(table).map(ToString::to_string)) };
    let schema = serde_json::from_str(text).map_err(|error| fault("pin a schema in", &error))?;
    all.insert(table.to_owned(), schema);
    let pretty = serde_json::to_string_pretty(&all).map_err(|error| fault("write", &error))?;
    // Written beside and renamed, so that a crash leaves the old or the new file.
    let beside = file.with_extension("json.new");
    fs::write(&beside, pretty + "\n").and_then(|()| fs::rename(&beside, file)).map_err(|error| fault("write", &error))?;
    Ok(None)
}

/// A catalog for a process that runs no plugins.
struct NoPlugins;

impl NoPlugins {
    fn refuse<T>(plugin: &PluginSpec) -> Result<T> {
        Err(RuntimeError::Script(format!("plugin {}: plugins cannot be run here", plugin.name)))
    }
}

impl PluginCatalog for NoPlugins {
    fn functions(&self, plugin: &PluginSpec) -> Result<Vec<PluginFunction>> {
        Self::refuse(plugin)
    }

    fn check_kind(&self, plugin: &PluginSpec, _kind: &str) -> Result<()> {
        Self::refuse(plugin)
    }

    fn infer_schema(&self, plugin: Option<&PluginSpec>, subject: &str, samples: &[Vec<u8>]) -> Result<SchemaRef> {
        match plugin {
            Some(plugin) => Self::refuse(plugin),
            None => native_schema(subject, samples).map(Arc::new).map_err(RuntimeError::Script),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_cannot_be_is_refused_at_its_place() {
        let script = "-- SET 'pelton.batch.rows' = 'x';\nSET 'pipeline.name' = 'a';\n  set 'execution.checkpointing.interval' = 'soon';\n";
        let error = check_values(script).expect_err("soon is no duration");
        assert_eq!((error.line, error.column), (3, 44));
        assert!(error.message.contains("soon"), "{}", error.message);
        assert!(check_values("SET 'pelton.batch.rows' = '${ROWS}';").is_ok());
    }
}
