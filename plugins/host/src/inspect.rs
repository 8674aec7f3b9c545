//! What a component is, for `pelton plugin inspect`: looked at without a job around it.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use pelton_core::{
    error::Result,
    plugin::PluginSpec,
    time::{Clock, ProcessingTime},
};

use crate::{
    host::{HostSettings, PluginHost},
    wire::PACKAGE,
};

/// A component's outside.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspection {
    /// As the plugin says.
    pub name: String,
    /// As the plugin says.
    pub version: String,
    /// As the plugin says.
    pub description: String,
    /// Kinds of the contract it is of.
    pub kinds: Vec<String>,
    /// Versions of `pelton:plugin` that it speaks.
    pub contract: Vec<String>,
    /// Everything it imports.
    pub imports: Vec<String>,
    /// Everything it exports.
    pub exports: Vec<String>,
    /// Parts of a record it asks for besides value, timestamp and position.
    pub needs: Vec<String>,
    /// Bytes of the file.
    pub size_bytes: u64,
    /// Of the file, in hex; what `'hash'='sha256:…'` pins.
    pub sha256: String,
    /// Its SQL functions; empty also if it wants a configuration first.
    pub functions: Vec<FunctionSummary>,
}

/// One SQL function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionSummary {
    /// Its name.
    pub name: String,
    /// Argument types.
    pub arguments: Vec<String>,
    /// Result type, or the row type of a table function.
    pub returns: String,
    /// Whether it makes rows.
    pub is_table: bool,
}

/// No job, no time.
struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> ProcessingTime {
        ProcessingTime::from_millis(0)
    }
}

/// Looks at a component. `cache_dir` as in [`HostSettings`].
pub fn inspect(path: &Path, settings: HostSettings) -> Result<Inspection> {
    let host = PluginHost::new(settings, Arc::new(NoClock))?;
    let name = path.file_stem().map_or_else(|| "plugin".into(), |stem| stem.to_string_lossy().into_owned());
    let options = BTreeMap::from([("path".to_owned(), path.to_string_lossy().into_owned())]);
    let plugin = host.load(&PluginSpec { name, options, line: 0 }, Path::new(""))?;
    let (imports, exports) = plugin.outside();
    let (name, version, description) = plugin.described();
    let mut contract: Vec<String> = imports
        .iter()
        .chain(&exports)
        .filter(|item| item.starts_with(PACKAGE))
        .filter_map(|item| item.rsplit_once('@').map(|(_, version)| version.to_owned()))
        .collect();
    contract.sort();
    contract.dedup();
    let needs = plugin.needs();
    let functions = if plugin.check_kind("functions").is_ok() { plugin.functions().unwrap_or_default() } else { Vec::new() };
    Ok(Inspection {
        name: name.to_owned(),
        version: version.to_owned(),
        description: description.to_owned(),
        kinds: plugin.kinds().into_iter().map(str::to_owned).collect(),
        contract,
        imports,
        exports,
        needs: [(needs.keys, "key"), (needs.headers, "headers")].iter().filter(|(has, _)| *has).map(|(_, name)| (*name).to_owned()).collect(),
        size_bytes: std::fs::metadata(path).map_or(0, |metadata| metadata.len()),
        sha256: plugin.sha256().to_owned(),
        functions: functions
            .iter()
            .map(|function| FunctionSummary {
                name: function.name.clone(),
                arguments: function.arguments.iter().map(ToString::to_string).collect(),
                returns: function.returns.to_string(),
                is_table: function.is_table,
            })
            .collect(),
    })
}
