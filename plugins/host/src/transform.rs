//! Transforms: a record in, zero or more out, between a source and its decoder.

use std::sync::Arc;

use pelton_core::{
    error::Result,
    plugin::Transform,
    position::{Offset, Partition},
    records::Records,
    time::{EventTime, Watermark},
};
use wasmtime::component::ComponentExportIndex;

use crate::{
    loaded::{LoadedPlugin, Parts, Place},
    router::HeaderLists,
    settle::{Worker, call_time},
    wire::{BatchContext, Failure, Message, Output},
};

pub(crate) struct PluginTransform {
    worker: Worker,
    process: ComponentExportIndex,
    flush: ComponentExportIndex,
    needs: Parts,
    /// Where the last batch came from, for `flush`.
    last: LastBatch,
}

struct LastBatch {
    topic: Arc<str>,
    partition: Partition,
    offset: Offset,
    newest_ms: Option<i64>,
    columns: Columns,
}

/// Columns that are filled: those that the input's source fills.
#[derive(Debug, Clone, Copy, Default)]
struct Columns {
    keys: bool,
    headers: bool,
    timestamps: bool,
}

impl PluginTransform {
    pub(crate) fn open(plugin: &LoadedPlugin, place: Place) -> Result<Self> {
        let last = LastBatch {
            topic: place.topic,
            partition: Partition(-1),
            offset: Offset(-1),
            newest_ms: None,
            columns: Columns::default(),
        };
        Ok(Self {
            worker: Worker::start(plugin, place.state)?,
            process: plugin.export("transform", "process")?,
            flush: plugin.export("transform", "flush")?,
            needs: plugin.needs(),
            last,
        })
    }
}

impl Transform for PluginTransform {
    fn process(
        &mut self,
        records: &Records,
        watermark: Option<Watermark>,
        into: &mut Records,
        refused: &mut Vec<(u32, String)>,
    ) -> Result<()> {
        let columns = Columns {
            keys: !records.keys.is_empty(),
            headers: !records.headers.is_empty(),
            timestamps: !records.timestamps.is_empty(),
        };
        let headers = HeaderLists::from_column(&records.headers, self.needs.headers);
        let with_keys = self.needs.keys && columns.keys;
        let message = |row: usize| Message {
            key: if with_keys { records.keys.get(row) } else { None },
            value: records.values.get(row),
            headers: headers.row(row),
            timestamp: records.timestamp(row).map_or(-1, EventTime::as_millis),
            partition: records.partition.0,
            offset: records.offsets[row].0,
        };
        let newest_ms = records.timestamps.iter().max().map(|time| time.as_millis());
        let watermark = watermark.map(|watermark| watermark.time().as_millis());
        let time = call_time(newest_ms, watermark, self.worker.processing_ms());
        let process = self.process;
        let outcomes = self.worker.settle(records.len(), &mut |instance, rows, limit| {
            let first_offset = rows.first().map_or(-1, |&row| records.offsets[row as usize].0);
            let context =
                BatchContext { topic: &records.topic, partition: records.partition.0, first_offset, watermark, attributes: &[] };
            let batch: Vec<Message<'_>> = rows.iter().map(|&row| message(row as usize)).collect();
            let (answer,): (Vec<std::result::Result<Vec<Output>, Failure>>,) =
                instance.call(&process, (&context, batch.as_slice()), time, limit)?;
            Ok(answer)
        })?;
        into.topic = Arc::clone(&records.topic);
        into.partition = records.partition;
        for (row, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                Ok(outputs) => {
                    let timestamp = records.timestamp(row);
                    for output in outputs {
                        append(into, columns, output, records.offsets[row], timestamp);
                    }
                }
                Err(reason) => refused.push((row as u32, reason)),
            }
        }
        if let Some(&offset) = records.offsets.last() {
            self.last = LastBatch { topic: Arc::clone(&records.topic), partition: records.partition, offset, newest_ms, columns };
        }
        Ok(())
    }

    fn flush(&mut self, watermark: Option<Watermark>, into: &mut Records) -> Result<()> {
        let last = &self.last;
        let watermark = watermark.map(|watermark| watermark.time().as_millis());
        let time = call_time(last.newest_ms, watermark, self.worker.processing_ms());
        let context = BatchContext {
            topic: &last.topic,
            partition: last.partition.0,
            first_offset: last.offset.0,
            watermark,
            attributes: &[],
        };
        let (flush, limit) = (self.flush, self.worker.limit());
        let outcome = self.worker.attempt(limit, |instance, limit| {
            let (outputs,): (std::result::Result<Vec<Output>, Failure>,) = instance.call(&flush, (&context,), time, limit)?;
            Ok(outputs)
        })?;
        // What was held back cannot be found by halving: it would be lost, so the task stops.
        let outputs = match outcome {
            Ok(Ok(outputs)) => outputs,
            Ok(Err(Failure::InvalidInput(reason) | Failure::Retryable(reason) | Failure::Fatal(reason))) => {
                return Err(self.worker.broken(format!("flush: {reason}")));
            }
            Err(fault) => return Err(self.worker.broken(format!("flush: {fault}"))),
        };
        into.topic = Arc::clone(&last.topic);
        into.partition = last.partition;
        let newest = last.newest_ms.map(EventTime::from_millis);
        for output in outputs {
            append(into, last.columns, output, last.offset, newest);
        }
        Ok(())
    }

    fn identity(&self) -> &str {
        &self.worker.identity
    }
}

/// Appends an output in the columns that are filled; its topic means nothing before a decoder.
fn append(into: &mut Records, columns: Columns, output: Output, offset: Offset, timestamp: Option<EventTime>) {
    into.offsets.push(offset);
    into.values.push(output.value.as_deref());
    if columns.keys {
        into.keys.push(output.key.as_deref());
    }
    if columns.headers {
        for (name, value) in &output.headers {
            into.headers.push(name, value.as_deref());
        }
        into.headers.finish_row();
    }
    if columns.timestamps {
        let own = output.timestamp.map(EventTime::from_millis);
        into.timestamps.push(own.or(timestamp).unwrap_or(EventTime::from_millis(-1)));
    }
}
