//! Reading and planning a script with everything the binary brings.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use pelton_core::time::Clock;
use pelton_engine::{Components, Output, PlanContext, StandardConnectors, SystemClock};
use pelton_plugin_host::{HostSettings, PluginHost};
use pelton_sql::job::Action;

use crate::{arguments::ScriptOptions, fault::Fault};

/// A planned script.
pub(crate) struct Planned {
    pub(crate) actions: Vec<Action>,
    pub(crate) components: Components,
    /// The script's name without its ending: a job's name where it says none.
    pub(crate) name: String,
}

/// Plans a script; rows of SELECT will go to `output`.
pub(crate) fn plan(options: &ScriptOptions, output: Arc<Output>) -> Result<Planned, Fault> {
    let path = &options.script;
    let text = fs::read_to_string(path).map_err(|error| Fault::Usage(format!("read {}: {error}", path.display())))?;
    let components = components(path, output)?;
    let vars: BTreeMap<&str, &str> = options.vars.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let variables = |name: &str| vars.get(name).map(|value| (*value).to_owned()).or_else(|| std::env::var(name).ok());
    let context = PlanContext { variables: &variables, components: &components, schema_file: path.with_extension("schema.json") };
    let actions = pelton_engine::plan(&text, &context).map_err(|error| Fault::Script { file: path.clone(), error })?;
    let name = path.file_stem().map_or_else(|| "job".to_owned(), |stem| stem.to_string_lossy().into_owned());
    Ok(Planned { actions, components, name })
}

fn components(script: &Path, output: Arc<Output>) -> Result<Components, Fault> {
    let folder = script.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let plugins = PluginHost::new(host_settings(), Arc::clone(&clock))?;
    Ok(Components {
        clock,
        connectors: Arc::new(StandardConnectors::default()),
        plugins: Some(plugins),
        base_dir: folder.to_owned(),
        output,
        backend: None,
        fail_at: None,
    })
}

/// Compiled plugins are kept in the user's cache folder.
pub(crate) fn host_settings() -> HostSettings {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    HostSettings { cache_dir: cache.map(|cache| cache.join("pelton").join("plugins")) }
}
