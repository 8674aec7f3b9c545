//! A loaded plugin: compiled, described, its kinds known; makes instances.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, PoisonError},
    time::Duration,
};

use pelton_core::{
    error::{Result, RuntimeError},
    plugin::{PluginFunction, PluginLimits, PluginSpec, Router, Transform},
    time::Clock,
};
use wasmtime::component::{Component as WasmComponent, ComponentExportIndex, InstancePre};

use crate::{
    functions,
    guest::{CallTime, Guest, Shared},
    imports::{self, state::StateView},
    inferrer::{self, Inferred},
    instance::{Instance, StartError},
    limits::metrics::{Metric, Metrics},
    options::{PluginOptions, refuse},
    router::PluginRouter,
    state::PluginState,
    transform::PluginTransform,
    wire::{self, Info, PACKAGE, PartFlags, VERSION, interface},
};

/// Parts of a record that a plugin reads besides value, timestamp and position.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts {
    /// Record keys.
    pub keys: bool,
    /// Record headers.
    pub headers: bool,
}

/// Where an instance works: what it is told about its records, and its state.
#[derive(Clone, Default)]
pub struct Place {
    /// Topic told to a router, whose records come from within the job: the sink table's name.
    pub topic: Arc<str>,
    /// State of this place; without it the plugin's `state.open` is denied.
    pub state: Option<Arc<dyn PluginState>>,
}

/// What an instance is made from, and the functions that every kind has.
pub(crate) struct Component {
    pub(crate) pre: InstancePre<Guest>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) init: ComponentExportIndex,
    component: WasmComponent,
}

impl Component {
    /// A function of an interface of the contract, if the component exports it.
    pub(crate) fn export(&self, interface_name: &str, function: &str) -> Option<ComponentExportIndex> {
        let instance = self.component.get_export_index(None, &interface(interface_name))?;
        self.component.get_export_index(Some(&instance), function)
    }

    pub(crate) fn limits(&self) -> &PluginLimits {
        &self.shared.options.limits
    }

    pub(crate) fn name(&self) -> &str {
        &self.shared.name
    }
}

/// A plugin, ready to be used.
pub struct LoadedPlugin {
    pub(crate) component: Arc<Component>,
    identity: Arc<str>,
    info: Info,
    sha256: String,
    functions: std::sync::OnceLock<Vec<PluginFunction>>,
}

/// Kinds in the order of the contract, with the interface's name.
pub(crate) const KINDS: [&str; 7] =
    ["router", "transform", "schema-inferrer", "decoder", "encoder", "functions", "aggregates"];

impl LoadedPlugin {
    pub(crate) fn new(
        spec: &PluginSpec,
        options: PluginOptions,
        component: WasmComponent,
        sha256: String,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let missing = |interface_name: &str| {
            let all: Vec<_> = component.component_type().exports(component.engine()).map(|(name, _)| name.to_owned()).collect();
            let found = if all.is_empty() { "nothing".to_owned() } else { all.join(", ") };
            refuse(spec, format!("it does not export {}; found: {found}", interface(interface_name)))
        };
        let lifecycle = component.get_export_index(None, &interface("lifecycle")).ok_or_else(|| missing("lifecycle"))?;
        let describe = component.get_export_index(Some(&lifecycle), "describe").ok_or_else(|| missing("lifecycle"))?;
        let init = component.get_export_index(Some(&lifecycle), "init").ok_or_else(|| missing("lifecycle"))?;
        let assets = options.read_assets(spec)?;
        let linker = imports::linker(component.engine(), &component).map_err(|e| refuse(spec, format!("its imports: {e:#}")))?;
        let pre = linker.instantiate_pre(&component).map_err(|e| {
            refuse(spec, format!("its imports are not those of {PACKAGE}@{VERSION}: {e:#}"))
        })?;
        let version = options.version.clone();
        let shared = Arc::new(Shared { name: spec.name.clone(), options, assets, metrics: Metrics::default().into() });
        let component = Component { pre, shared, clock, init, component };
        let mut probe = Instance::bare(&component, StateView::default()).map_err(|e| refuse(spec, format!("could not start: {e}")))?;
        let limit = component.limits().timeout.max(Duration::from_secs(1));
        let (info,): (Info,) =
            probe.run(&describe, (), CallTime::default(), limit).map_err(|e| refuse(spec, format!("describe: {e}")))?;
        if let Some(version) = version.filter(|version| *version != info.version) {
            return Err(refuse(spec, format!("it is version {}, expected {version}", info.version)));
        }
        let identity = format!("{} {} sha256:{sha256}", spec.name, info.version).into();
        Ok(Self { component: Arc::new(component), identity, info, sha256, functions: std::sync::OnceLock::new() })
    }

    /// `name version hash`, for dead letters and checkpoints.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The component's sha256 in hex.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Name, version and description as the plugin gives them.
    pub fn described(&self) -> (&str, &str, &str) {
        (&self.info.name, &self.info.version, &self.info.description)
    }

    /// What the plugin reads of a record: ask the source for these.
    pub fn needs(&self) -> Parts {
        let has = |flag: PartFlags| (self.info.needs & flag) == flag;
        Parts { keys: has(PartFlags::KEY), headers: has(PartFlags::HEADERS) }
    }

    /// The limits of its instances.
    pub fn limits(&self) -> &PluginLimits {
        self.component.limits()
    }

    /// What its instances have counted so far, by name.
    pub fn metrics(&self) -> BTreeMap<String, Metric> {
        self.component.shared.metrics.lock().unwrap_or_else(PoisonError::into_inner).all()
    }

    /// Kinds it is of: interfaces of the contract that it exports.
    pub fn kinds(&self) -> Vec<&'static str> {
        let exports = |kind: &&str| self.component.component.get_export_index(None, &interface(kind)).is_some();
        KINDS.into_iter().filter(exports).collect()
    }

    /// Whether it is of a kind; the error names the kinds it is of.
    pub fn check_kind(&self, kind: &str) -> Result<()> {
        let kinds = self.kinds();
        if kinds.contains(&kind) {
            return Ok(());
        }
        let found = if kinds.is_empty() { "of no kind".to_owned() } else { format!("a {}", kinds.join(" and a ")) };
        Err(self.refuse(format!("it is no {kind}, it is {found}")))
    }

    /// Starts an instance and drops it: whether the plugin accepts its configuration.
    pub fn check_config(&self) -> Result<()> {
        Instance::start(&self.component, StateView::default()).map(drop).map_err(|error| self.start_error(error))
    }

    /// An instance that routes, for one worker.
    pub fn router(&self, place: Place) -> Result<Box<dyn Router>> {
        self.check_kind("router")?;
        Ok(Box::new(PluginRouter::open(self, place)?))
    }

    /// An instance that transforms, for one worker and split.
    pub fn transform(&self, place: Place) -> Result<Box<dyn Transform>> {
        self.check_kind("transform")?;
        Ok(Box::new(PluginTransform::open(self, place)?))
    }

    /// Its SQL functions; asked of the plugin once.
    pub fn functions(&self) -> Result<Vec<PluginFunction>> {
        self.check_kind("functions")?;
        if let Some(functions) = self.functions.get() {
            return Ok(functions.clone());
        }
        let functions = functions::list(self)?;
        Ok(self.functions.get_or_init(|| functions).clone())
    }

    /// A schema from samples, on an instance made for it.
    pub fn infer(&self, subject: &str, samples: &[Vec<u8>], hints: &[(String, String)]) -> Result<Inferred> {
        self.check_kind("schema-inferrer")?;
        inferrer::infer(self, subject, samples, hints)
    }

    /// Names of everything the component imports and exports.
    pub(crate) fn outside(&self) -> (Vec<String>, Vec<String>) {
        let component = &self.component.component;
        let (types, engine) = (component.component_type(), component.engine());
        let imports = types.imports(engine).map(|(name, _)| name.to_owned()).collect();
        let exports = types.exports(engine).map(|(name, _)| name.to_owned()).collect();
        (imports, exports)
    }

    pub(crate) fn identity_arc(&self) -> Arc<str> {
        Arc::clone(&self.identity)
    }

    /// An error of the script: the plugin does not do what the script asks.
    pub(crate) fn refuse(&self, reason: impl fmt::Display) -> RuntimeError {
        RuntimeError::Script(format!("plugin {}: {reason}", self.component.name()))
    }

    /// A refused configuration is the script's fault, a trap the plugin's.
    pub(crate) fn start_error(&self, error: StartError) -> RuntimeError {
        match error {
            StartError::Refused(_) => self.refuse(error),
            StartError::Fault(_) => self.broken(error),
        }
    }

    /// The plugin cannot go on.
    pub(crate) fn broken(&self, reason: impl fmt::Display) -> RuntimeError {
        RuntimeError::Plugin { plugin: self.identity.to_string(), reason: reason.to_string() }
    }

    pub(crate) fn export(&self, interface_name: &str, function: &str) -> Result<ComponentExportIndex> {
        self.component
            .export(interface_name, function)
            .ok_or_else(|| self.refuse(format!("it does not export {}#{function}", wire::interface(interface_name))))
    }
}

impl fmt::Debug for LoadedPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LoadedPlugin").field(&self.identity).finish()
    }
}
