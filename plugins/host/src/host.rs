//! The plugin host: one engine per process, the thread that keeps its time, and the plugins loaded so far.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use pelton_core::{
    error::{Result, RuntimeError},
    plugin::PluginSpec,
    time::Clock,
};
use sha2::{Digest, Sha256};
use wasmtime::{Config, Engine, OptLevel, WasmBacktraceDetails};

use crate::{
    cache,
    catalog::{Catalog, NativeInference},
    limits::{stack, time},
    loaded::LoadedPlugin,
    options::{PluginOptions, refuse},
};

/// What the host needs from its process.
#[derive(Debug, Clone, Default)]
pub struct HostSettings {
    /// Where compiled plugins are kept; without it each process compiles anew (0.1 s to many seconds a plugin). Must be
    /// writable by its owner only.
    pub cache_dir: Option<PathBuf>,
}

/// Largest component that is read. Python guests have 18 MB.
const COMPONENT_BYTES_MAX: u64 = 256 << 20;

/// Loads plugins and makes instances of them. Cheap to share; lives as long as the process.
pub struct PluginHost {
    engine: Engine,
    settings: HostSettings,
    clock: Arc<dyn Clock>,
    /// Loaded plugins. A lock because workers and the planner may load at the same time; never taken per batch.
    loaded: Mutex<BTreeMap<LoadKey, Arc<LoadedPlugin>>>,
}

/// What makes two plugins the same.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LoadKey(String, BTreeMap<String, String>, PathBuf);

impl PluginHost {
    /// Starts the engine and the thread that keeps time for calls.
    pub fn new(settings: HostSettings, clock: Arc<dyn Clock>) -> Result<Arc<Self>> {
        let mut config = Config::new();
        config
            .epoch_interruption(true)
            .max_wasm_stack(stack::BYTES_MAX)
            // Same answers on every machine.
            .cranelift_nan_canonicalization(true)
            .relaxed_simd_deterministic(true)
            .cranelift_opt_level(OptLevel::Speed)
            // Guests ask for their own names of functions in traps; not for files and lines, which need debug info.
            .wasm_backtrace_details(WasmBacktraceDetails::Disable);
        let engine = Engine::new(&config).map_err(|e| RuntimeError::Script(format!("plugin engine: {e:#}")))?;
        time::start_ticker(&engine)?;
        Ok(Arc::new(Self { engine, settings, clock, loaded: Mutex::default() }))
    }

    /// Loads a plugin: reads its options, checks its hash, compiles it, asks what it is. Paths are relative to
    /// `base_dir`. The same plugin (name, options, directory) is loaded once.
    pub fn load(self: &Arc<Self>, spec: &PluginSpec, base_dir: &Path) -> Result<Arc<LoadedPlugin>> {
        let key = LoadKey(spec.name.clone(), spec.options.clone(), base_dir.to_owned());
        if let Some(found) = self.loaded.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(Arc::clone(found));
        }
        let options = PluginOptions::read(spec, base_dir)?;
        let bytes = read_component(spec, &options.path)?;
        let sha256 = hex::encode(Sha256::digest(&bytes));
        if let Some(expected) = options.hash.as_ref().filter(|expected| **expected != sha256) {
            return Err(refuse(spec, format!("{} has the hash sha256:{sha256}, expected sha256:{expected}", options.path.display())));
        }
        let component = cache::compile(&self.engine, self.settings.cache_dir.as_deref(), &sha256, &bytes)
            .map_err(|e| refuse(spec, format!("{} is no component that can run: {e:#}", options.path.display())))?;
        let plugin = Arc::new(LoadedPlugin::new(spec, options, component, sha256, Arc::clone(&self.clock))?);
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&plugin));
        Ok(plugin)
    }

    /// The planner's view of the plugins of scripts in `base_dir`. `native` infers schemas where no plugin is named.
    pub fn catalog(self: &Arc<Self>, base_dir: &Path, native: NativeInference) -> Catalog {
        Catalog::new(Arc::clone(self), base_dir.to_owned(), native)
    }
}

/// Reads a component's file, not more than can be one.
fn read_component(spec: &PluginSpec, path: &Path) -> Result<Vec<u8>> {
    let describe = |e: std::io::Error| refuse(spec, format!("read {}: {e}", path.display()));
    let length = fs::metadata(path).map_err(describe)?.len();
    if length > COMPONENT_BYTES_MAX {
        return Err(refuse(spec, format!("{} has {length} bytes, more than {COMPONENT_BYTES_MAX}", path.display())));
    }
    fs::read(path).map_err(describe)
}
