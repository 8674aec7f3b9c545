//! What a job runs with besides its settings: things that live, such as the clock and the connectors.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use pelton_core::{
    state::StateBackend,
    time::{Clock, ProcessingTime},
};
use pelton_plugin_host::PluginHost;

use crate::{connectors::Connectors, sink::select::Output};

/// See the module.
#[derive(Clone)]
pub struct Components {
    /// Processing time.
    pub clock: Arc<dyn Clock>,
    /// Sources and sinks.
    pub connectors: Arc<dyn Connectors>,
    /// Loads plugins; without it a job that names one is refused.
    pub plugins: Option<Arc<PluginHost>>,
    /// The script's folder: plugin paths and the default state folder are relative to it.
    pub base_dir: PathBuf,
    /// Where rows of a SELECT are printed.
    pub output: Arc<Output>,
    /// The state to use instead of a folder on disk: durable for as long as somebody holds it. For tests.
    pub backend: Option<Arc<dyn StateBackend>>,
    /// A step at which to fail, and the how-manieth time. For tests.
    pub fail_at: Option<(&'static str, u64)>,
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> ProcessingTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        ProcessingTime::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}
