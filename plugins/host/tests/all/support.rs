//! A host over the bundled plugins, and records from short texts.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use pelton_core::{
    error::Result,
    plugin::{PluginSpec, Routed},
    position::{Offset, Partition},
    records::{OutputRecords, Records},
    time::{Clock, EventTime, ProcessingTime},
};
use pelton_plugin_host::{HostSettings, LoadedPlugin, PluginHost};

/// A clock that tests move.
pub(crate) struct ManualClock(pub(crate) AtomicI64);

impl Clock for ManualClock {
    fn now(&self) -> ProcessingTime {
        ProcessingTime::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// Plugins of the bundle.
pub(crate) struct Fixture {
    pub(crate) host: Arc<PluginHost>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) dir: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("temporary directory");
        for (name, bytes) in [
            ("intent-router", pelton_plugin_bundle::INTENT_ROUTER),
            ("infer-json", pelton_plugin_bundle::INFER_JSON),
            ("text", pelton_plugin_bundle::TEXT),
            ("hostile", pelton_plugin_bundle::HOSTILE),
        ] {
            std::fs::write(dir.path().join(format!("{name}.wasm")), bytes).expect("written");
        }
        let clock = Arc::new(ManualClock(AtomicI64::new(1_000)));
        // One cache for all tests: compiling takes longer than everything else here.
        let cache_dir = Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled-plugins"));
        let host = PluginHost::new(HostSettings { cache_dir }, Arc::clone(&clock) as Arc<dyn Clock>).expect("host");
        Self { host, clock, dir }
    }

    pub(crate) fn load(&self, plugin: &str, options: &[(&str, &str)]) -> Result<Arc<LoadedPlugin>> {
        self.host.load(&spec(plugin, options), self.dir.path())
    }

    /// The hostile plugin with one attack and options.
    pub(crate) fn hostile(&self, attack: &str, options: &[(&str, &str)]) -> Arc<LoadedPlugin> {
        let config = format!("{{\"attack\":\"{attack}\"}}");
        let mut all = vec![("config", config.as_str())];
        all.extend_from_slice(options);
        self.load("hostile", &all).expect("loads")
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

pub(crate) fn spec(plugin: &str, options: &[(&str, &str)]) -> PluginSpec {
    let mut all = BTreeMap::from([("path".to_owned(), format!("{plugin}.wasm"))]);
    all.extend(options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    PluginSpec { name: plugin.to_owned(), options: all, line: 1 }
}

/// Records on their way out, with these values.
pub(crate) fn outgoing(values: &[&str]) -> OutputRecords {
    let mut records = OutputRecords::default();
    for value in values {
        records.values.push(Some(value.as_bytes()));
    }
    records
}

/// Records on their way in: keys `k<i>`, one header, times from 100 ms on.
pub(crate) fn incoming(values: &[&str]) -> Records {
    let mut records = Records { topic: "in".into(), partition: Partition(3), ..Records::default() };
    for (row, value) in values.iter().enumerate() {
        records.offsets.push(Offset(10 + row as i64));
        records.values.push(Some(value.as_bytes()));
        records.keys.push(Some(format!("k{row}").as_bytes()));
        records.headers.push("trace", Some(b"t"));
        records.headers.finish_row();
        records.timestamps.push(EventTime::from_millis(100 + row as i64));
    }
    records
}

/// A decision as text: its topics, or `refused: …`.
pub(crate) fn show(routed: &Routed) -> String {
    match routed {
        Routed::Targets { targets, .. } => targets.iter().map(|(topic, _)| topic.to_string()).collect::<Vec<_>>().join("+"),
        Routed::Refused(reason) => format!("refused: {reason}"),
    }
}
