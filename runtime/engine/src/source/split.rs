//! One split of a source: its decoders, its watermark generator, and the instance of a transform plugin.

use std::sync::Arc;

use pelton_core::{
    error::Result,
    graph::TableSpec,
    plugin::Transform,
    position::SplitId,
    records::Records,
    time::{ProcessingTime, Watermark},
    watermark::WatermarkGenerator,
};
use pelton_plugin_host::{LoadedPlugin, MemoryState, Place, PluginState};

use super::rows::SplitRows;
use crate::state::PluginEntry;

/// See the module.
pub(super) struct Split {
    pub(super) id: SplitId,
    /// Number under which its plugin state is stored.
    pub(super) place: u32,
    pub(super) rows: SplitRows,
    /// `None` for a table without a watermark.
    pub(super) generator: Option<WatermarkGenerator>,
    /// Last watermark of this split that rows were cut for.
    pub(super) sent: Watermark,
    pub(super) done: bool,
    /// Had nothing at the last poll.
    pub(super) pending: bool,
    pub(super) idle: bool,
    pub(super) last_active: ProcessingTime,
    pub(super) transform: Option<(Box<dyn Transform>, Arc<MemoryState>)>,
}

impl Split {
    #[expect(clippy::too_many_arguments, reason = "everything a split starts from, used in one place")]
    pub(super) fn new(
        id: SplitId,
        rows: SplitRows,
        generator: Option<WatermarkGenerator>,
        sent: Watermark,
        transform: Option<&LoadedPlugin>,
        stored: &[PluginEntry],
        topic: &str,
        now: ProcessingTime,
    ) -> Result<Self> {
        let place = xxhash_rust::xxh3::xxh3_64(id.0.as_bytes()) as u32;
        let transform = match transform {
            None => None,
            Some(plugin) => {
                let state = restored_state(place, stored)?;
                let shared: Arc<dyn PluginState> = Arc::<MemoryState>::clone(&state);
                Some((plugin.transform(Place { topic: topic.into(), state: Some(shared) })?, state))
            }
        };
        Ok(Self { id, place, rows, generator, sent, done: false, pending: false, idle: false, last_active: now, transform })
    }

    /// How far its event time is.
    pub(super) fn running(&self) -> Watermark {
        self.generator.as_ref().map_or(Watermark::MIN, |generator| generator.snapshot().0)
    }

    /// Lets the watermark go on to `watermark` at least.
    pub(super) fn raise(&mut self, interval_ms: i64, watermark: Watermark) {
        if let Some(generator) = &mut self.generator {
            let (running, due) = generator.snapshot();
            *generator = WatermarkGenerator::restored(interval_ms, running.max(watermark), due.max(watermark));
            self.sent = self.sent.max(watermark);
        }
    }

    pub(super) fn run_transform(&mut self, records: &Records, into: &mut Records, refused: &mut Vec<(u32, String)>) -> Result<()> {
        let watermark = self.generator.as_ref().map(|generator| generator.snapshot().1);
        into.clear();
        into.topic = Arc::clone(&records.topic);
        into.partition = records.partition;
        match &mut self.transform {
            Some((transform, _)) => transform.process(records, watermark, into, refused),
            None => Ok(()),
        }
    }

    /// What the plugin held back. Whether there is a plugin.
    pub(super) fn flush_transform(&mut self, into: &mut Records) -> Result<bool> {
        let watermark = self.generator.as_ref().map(|generator| generator.snapshot().1);
        match &mut self.transform {
            Some((transform, _)) => transform.flush(watermark, into).map(|()| true),
            None => Ok(false),
        }
    }

    /// The step's name and the plugin's identity, for dead letters.
    pub(super) fn transform_names(&self, table: &TableSpec) -> (String, String) {
        let name = table.options.get("pelton.transform").map_or("", String::as_str);
        (format!("plugin {name}"), self.transform.as_ref().map_or_else(String::new, |(transform, _)| transform.identity().to_owned()))
    }

    pub(super) fn plugin_changes(&mut self, now: ProcessingTime) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        match &self.transform {
            Some((_, state)) => {
                state.expire(now.as_millis());
                state.take_changes()
            }
            None => Vec::new(),
        }
    }
}

/// The state of a place as of the last checkpoint.
pub(crate) fn restored_state(place: u32, stored: &[PluginEntry]) -> Result<Arc<MemoryState>> {
    let state = MemoryState::default();
    for (_, key, value) in stored.iter().filter(|(of, _, _)| *of == place) {
        state.restore_entry(key, value).map_err(pelton_core::error::RuntimeError::Recovery)?;
    }
    Ok(Arc::new(state))
}
