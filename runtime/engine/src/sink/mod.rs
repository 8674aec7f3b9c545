//! Writing a table on one worker: encode, pick the topic, hand over to the sink, and follow its epochs.
//!
//! Promises: rows reach the sink in the order they came. A row that cannot be encoded, routed or taken becomes a dead
//! letter with the row as JSON; the rows around it are written.

mod encode;
pub(crate) mod letter_sink;
pub(crate) mod select;

use std::sync::Arc;

use arrow::array::RecordBatch;
use pelton_core::{
    dead_letter::DeadLetter,
    error::Result,
    graph::SinkNode,
    position::{Epoch, Offset, OperatorId, Partition},
    sink::{Prepared, Sink},
    state::ChangeSet,
    time::{Clock, Watermark},
};
use pelton_plugin_host::LoadedPlugin;

use crate::{
    letters::Letters,
    state::{PluginEntry, put_plugin},
};

use encode::Encoding;

/// See the module.
pub(crate) struct SinkDriver {
    // Fixed at start.
    node: usize,
    id: OperatorId,
    worker: usize,
    table: String,
    clock: Arc<dyn Clock>,
    // Changing.
    sink: Box<dyn Sink>,
    /// `None` if the sink takes columns.
    encoding: Option<Encoding>,
}

/// What a driver is made from.
pub(crate) struct SinkStart<'a> {
    pub(crate) node: usize,
    pub(crate) id: OperatorId,
    pub(crate) worker: usize,
    pub(crate) spec: &'a SinkNode,
    pub(crate) schema: &'a arrow::datatypes::SchemaRef,
    pub(crate) sink: Box<dyn Sink>,
    pub(crate) router: Option<Arc<LoadedPlugin>>,
    pub(crate) plugin_state: &'a [PluginEntry],
    pub(crate) clock: Arc<dyn Clock>,
}

impl SinkDriver {
    pub(crate) fn new(start: SinkStart<'_>) -> Result<Self> {
        let encoding = match start.sink.takes_records() {
            true => Some(Encoding::new(&start)?),
            false => None,
        };
        Ok(Self {
            node: start.node,
            id: start.id,
            worker: start.worker,
            table: start.spec.table.name.clone(),
            clock: start.clock,
            sink: start.sink,
            encoding,
        })
    }

    pub(crate) fn recover(&mut self, epoch: Epoch, prepared: &[Prepared]) -> Result<()> {
        self.sink.recover(epoch, prepared)
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch, watermark: Watermark, letters: &mut Letters) -> Result<()> {
        let Some(encoding) = &mut self.encoding else { return self.sink.write_batch(batch) };
        let mut refused = Vec::new();
        let (records, rows) = encoding.encode(batch, watermark, &mut refused)?;
        if !records.is_empty() {
            for (record, reason) in self.sink.write_records(records)? {
                let row = rows.map_or(record, |rows| rows[record as usize]);
                refused.push(encode::Refused { row, step: "write".into(), reason, plugin: None });
            }
        }
        refused.sort_by_key(|refused| refused.row);
        for refused in refused {
            letters.give_up(self.node, row_letter(&self.table, batch, refused))?;
        }
        Ok(())
    }

    pub(crate) fn poll(&mut self) -> Result<()> {
        self.sink.poll()
    }

    pub(crate) fn prepare(&mut self, epoch: Epoch, _letters: &mut Letters, changes: &mut ChangeSet) -> Result<Prepared> {
        if let Some(state) = self.encoding.as_ref().and_then(Encoding::router_state) {
            state.expire(self.clock.now().as_millis());
            for (key, value) in state.take_changes() {
                put_plugin(self.id, self.worker, &key, value, changes);
            }
        }
        self.sink.prepare(epoch)
    }

    pub(crate) fn commit(&mut self, epoch: Epoch) -> Result<()> {
        self.sink.commit(epoch)
    }

    pub(crate) fn close(&mut self) -> Result<()> {
        self.sink.close()
    }
}

/// The dead letter of a row made inside the job.
fn row_letter(table: &str, batch: &RecordBatch, refused: encode::Refused) -> DeadLetter {
    DeadLetter {
        table: table.to_owned(),
        step: refused.step.into_owned(),
        reason: refused.reason,
        topic: String::new(),
        partition: Partition(0),
        offset: Offset(-1),
        timestamp_ms: None,
        key: None,
        value: pelton_formats::render::json_row(batch, refused.row as usize).ok(),
        headers: Vec::new(),
        plugin: refused.plugin,
    }
}
