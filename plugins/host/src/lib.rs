//! Runs plugins: WebAssembly components behind the traits of `pelton_core::plugin`. The only crate that names wasmtime.
//!
//! Promises: a plugin can never take the process down, stall a worker past its time limit, use more memory than it
//! may, or see anything but what `wit/v0.1/plugin.wit` hands it. A record that makes it trap is found by halving the
//! batch and comes back as refused; the records around it are processed. Same input, same output: clocks stand still
//! during a batch, random numbers come from a fixed seed.
//!
//! Leaves to others: what happens to refused records (engine), where plugin state is stored ([`PluginState`]).
//!
//! ```text
//! PluginHost::new(settings, clock)              one per process: engine, time keeper, compiled-code cache
//!   .load(&spec, base_dir) -> Arc<LoadedPlugin>  checked, compiled, described; the same plugin is loaded once
//!     .router(place) / .transform(place)         one instance per worker (and split)
//!     .functions()                               shared, with a pool of instances
//!     .infer(subject, samples, hints)
//!   .catalog(base_dir, native) -> Catalog        the planner's `PluginCatalog`
//! inspect(path) -> Inspection                    for `pelton plugin inspect`
//! ```
//! A router or transform that keeps state gets a [`MemoryState`] in its [`Place`]; the engine keeps the other `Arc`,
//! puts `take_changes()` into its `StateHandle` (kind `Plugins`) at each barrier, and calls `restore_entry` for each
//! stored entry before the first batch of a restart.

mod options;
mod cache;
mod host;
mod limits;
mod wire;
mod guest;
mod imports;
mod instance;
mod loaded;
mod settle;
mod router;
mod transform;
mod ipc;
mod functions;
mod inferrer;
mod json_schema;
mod catalog;
mod state;
mod inspect;

pub use catalog::{Catalog, NativeInference};
pub use host::{HostSettings, PluginHost};
pub use inferrer::{Inferred, InferredSchema};
pub use inspect::{FunctionSummary, Inspection, inspect};
pub use json_schema::{arrow_fields, check_samples};
pub use limits::metrics::Metric;
pub use loaded::{LoadedPlugin, Parts, Place};
pub use options::PLUGIN_OPTIONS;
pub use state::{Changes, Entry, MemoryState, PluginState};
