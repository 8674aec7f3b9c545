//! Options of `CREATE PLUGIN name WITH (…)`: read once, checked against each other, unknown ones refused.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use pelton_core::{
    error::{Result, RuntimeError},
    options::{OptionReader, OptionSpec, find},
    plugin::{PluginLimits, PluginSpec},
};

/// Every option a plugin may have.
pub const PLUGIN_OPTIONS: &[OptionSpec] = &[
    OptionSpec { key: "path", required: true, default: "", doc: "The component's file, relative to the script." },
    OptionSpec { key: "config", required: false, default: "{}", doc: "JSON text handed to the plugin at start." },
    OptionSpec { key: "hash", required: false, default: "", doc: "`sha256:…` the file must have." },
    OptionSpec { key: "version", required: false, default: "", doc: "The version the plugin must say it has." },
    OptionSpec { key: "timeout", required: false, default: "1 s", doc: "Wall time of one call." },
    OptionSpec { key: "memory", required: false, default: "64 mb", doc: "Memory of an instance." },
    OptionSpec { key: "max-output", required: false, default: "16 mb", doc: "Bytes one call may return." },
    OptionSpec { key: "log", required: false, default: "info", doc: "Least level logged: off, error, warn, info, debug, trace." },
    OptionSpec { key: "log-lines", required: false, default: "100", doc: "Lines a second it may log." },
    OptionSpec { key: "assets.*", required: false, default: "", doc: "A file the plugin may read under this name." },
];

/// Bytes of all assets of a plugin together.
const ASSET_BYTES_MAX: u64 = 256 << 20;

/// The options, typed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PluginOptions {
    pub(crate) path: PathBuf,
    /// JSON text, known to parse.
    pub(crate) config: String,
    /// Lower-case hex.
    pub(crate) hash: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) limits: PluginLimits,
    /// Highest level of the WIT enum that is logged, counted down: 0 trace … 4 error, 5 nothing.
    pub(crate) log_from: u8,
    pub(crate) assets: BTreeMap<String, PathBuf>,
}

/// An error that names the plugin.
pub(crate) fn refuse(spec: &PluginSpec, reason: impl std::fmt::Display) -> RuntimeError {
    RuntimeError::Script(format!("plugin {}: {reason}", spec.name))
}

impl PluginOptions {
    pub(crate) fn read(spec: &PluginSpec, base_dir: &Path) -> Result<Self> {
        Self::parse(&spec.options, base_dir).map_err(|reason| refuse(spec, reason))
    }

    fn parse(options: &BTreeMap<String, String>, base_dir: &Path) -> std::result::Result<Self, String> {
        for key in options.keys() {
            if find(PLUGIN_OPTIONS, key).is_none() {
                return Err(unknown(key));
            }
        }
        let reader = OptionReader(options);
        let config = reader.text("config").unwrap_or("{}").to_owned();
        serde_json::from_str::<serde_json::Value>(&config).map_err(|e| format!("option 'config' is no JSON: {e}"))?;
        let hash = reader.text("hash").map(read_hash).transpose()?;
        let levels = ["trace", "debug", "info", "warn", "error", "off"];
        let log = reader.choice("log", &levels)?.unwrap_or("info");
        let timeout = reader.duration("timeout")?.unwrap_or(Duration::from_secs(1));
        if timeout.is_zero() || timeout > Duration::from_secs(3_600) {
            return Err("option 'timeout': between 1 ms and 1 h".to_owned());
        }
        let memory = reader.bytes("memory")?.unwrap_or(64 << 20);
        let output = reader.bytes("max-output")?.unwrap_or(16 << 20);
        let lines = reader.number("log-lines")?.unwrap_or(100);
        let assets = options
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix("assets.")?.to_owned(), base_dir.join(value))))
            .collect();
        Ok(Self {
            path: base_dir.join(reader.required("path")?),
            config,
            hash,
            version: reader.text("version").map(str::to_owned),
            limits: PluginLimits {
                timeout,
                memory_bytes: usize::try_from(memory).map_err(|_| "option 'memory' is too large")?,
                output_bytes: usize::try_from(output).map_err(|_| "option 'max-output' is too large")?,
                log_lines_per_second: u32::try_from(lines).map_err(|_| "option 'log-lines': from 0 to 4294967295")?,
            },
            log_from: levels.iter().position(|level| *level == log).map_or(2, |at| at as u8),
            assets,
        })
    }

    /// Reads the assets into memory.
    pub(crate) fn read_assets(&self, spec: &PluginSpec) -> Result<BTreeMap<String, Vec<u8>>> {
        let mut total = 0;
        let mut assets = BTreeMap::new();
        for (name, path) in &self.assets {
            let describe = |e: std::io::Error| refuse(spec, format!("asset {name}: {}: {e}", path.display()));
            total += std::fs::metadata(path).map_err(describe)?.len();
            if total > ASSET_BYTES_MAX {
                return Err(refuse(spec, format!("its assets hold more than {} MiB together", ASSET_BYTES_MAX >> 20)));
            }
            assets.insert(name.clone(), std::fs::read(path).map_err(describe)?);
        }
        Ok(assets)
    }
}

fn unknown(key: &str) -> String {
    let nearest = PLUGIN_OPTIONS
        .iter()
        .map(|spec| spec.key)
        .min_by_key(|known| strsim::damerau_levenshtein(known, key))
        .unwrap_or("path");
    format!("unknown option '{key}'; the nearest is '{nearest}'")
}

fn read_hash(text: &str) -> std::result::Result<String, String> {
    let digits = text.strip_prefix("sha256:").unwrap_or(text).to_ascii_lowercase();
    if digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        Ok(digits)
    } else {
        Err(format!("option 'hash': `{text}` is not `sha256:` and 64 hex digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: &[(&str, &str)]) -> std::result::Result<PluginOptions, String> {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        PluginOptions::parse(&options, Path::new("/job"))
    }

    #[test]
    fn fills_in_defaults_and_resolves_paths_from_the_script() {
        let options = check(&[("path", "a.wasm"), ("assets.model", "m.bin")]).expect("valid");
        assert_eq!(options.path, Path::new("/job/a.wasm"));
        assert_eq!(options.assets["model"], Path::new("/job/m.bin"));
        assert_eq!(options.limits.memory_bytes, 64 << 20);
        assert_eq!(options.limits.timeout, Duration::from_secs(1));
        assert_eq!(options.config, "{}");
    }

    #[test]
    fn refuses_what_it_does_not_know_or_cannot_read() {
        for (options, expected) in [
            (&[("path", "a"), ("timeuot", "1 s")][..], "the nearest is 'timeout'"),
            (&[("config", "{}")], "'path' is missing"),
            (&[("path", "a"), ("config", "{")], "no JSON"),
            (&[("path", "a"), ("hash", "sha256:12")], "64 hex digits"),
            (&[("path", "a"), ("timeout", "0 s")], "between 1 ms"),
            (&[("path", "a"), ("log", "loud")], "not one of"),
        ] {
            let error = check(options).expect_err("refused");
            assert!(error.contains(expected), "{error}");
        }
    }
}
