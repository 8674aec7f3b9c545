//! Routers: where each record goes.

use std::sync::Arc;

use pelton_core::{
    error::Result,
    plugin::{Routed, Router},
    records::OutputRecords,
    time::Watermark,
};
use wasmtime::component::ComponentExportIndex;

use crate::{
    loaded::{LoadedPlugin, Parts, Place},
    settle::{Worker, call_time},
    wire::{BatchContext, Decision, Failure, HeaderRef, Message},
};

pub(crate) struct PluginRouter {
    worker: Worker,
    route: ComponentExportIndex,
    needs: Parts,
    topic: Arc<str>,
    /// Topics seen last: most records of a batch go to few.
    topics: Vec<Arc<str>>,
}

/// Topic names kept for sharing. More than a job routes to; a plugin that makes up names does not grow it.
const TOPICS_KEPT: usize = 64;

impl PluginRouter {
    pub(crate) fn open(plugin: &LoadedPlugin, place: Place) -> Result<Self> {
        Ok(Self {
            worker: Worker::start(plugin, place.state)?,
            route: plugin.export("router", "route")?,
            needs: plugin.needs(),
            topic: place.topic,
            topics: Vec::new(),
        })
    }

    fn routed(&mut self, decision: Decision) -> Routed {
        let targets = decision.targets.into_iter().map(|target| (self.shared_topic(target.topic), target.key)).collect();
        Routed::Targets { targets, add_headers: decision.add_headers }
    }

    fn shared_topic(&mut self, topic: String) -> Arc<str> {
        if let Some(at) = self.topics.iter().position(|known| **known == *topic) {
            // Often-used names move to the front.
            self.topics.swap(at, at / 2);
            return Arc::clone(&self.topics[at / 2]);
        }
        let topic: Arc<str> = topic.into();
        if self.topics.len() < TOPICS_KEPT {
            self.topics.push(Arc::clone(&topic));
        }
        topic
    }
}

impl Router for PluginRouter {
    fn route(&mut self, records: &OutputRecords, watermark: Option<Watermark>) -> Result<Vec<Routed>> {
        let headers = HeaderLists::of(records, self.needs.headers);
        let with_keys = self.needs.keys && !records.keys.is_empty();
        let message = |row: usize| Message {
            key: if with_keys { records.keys.get(row) } else { None },
            value: records.values.get(row),
            headers: headers.row(row),
            timestamp: records.timestamps.get(row).copied().flatten().map_or(-1, |time| time.as_millis()),
            partition: -1,
            offset: -1,
        };
        let newest = records.timestamps.iter().flatten().max().map(|time| time.as_millis());
        let watermark = watermark.map(|watermark| watermark.time().as_millis());
        let time = call_time(newest, watermark, self.worker.processing_ms());
        let context = BatchContext { topic: &self.topic, partition: -1, first_offset: -1, watermark, attributes: &[] };
        let route = self.route;
        let outcomes = self.worker.settle(records.len(), &mut |instance, rows, limit| {
            let batch: Vec<Message<'_>> = rows.iter().map(|&row| message(row as usize)).collect();
            let (answer,): (Vec<std::result::Result<Decision, Failure>>,) =
                instance.call(&route, (&context, batch.as_slice()), time, limit)?;
            Ok(answer)
        })?;
        Ok(outcomes
            .into_iter()
            .map(|outcome| match outcome {
                Ok(decision) => self.routed(decision),
                Err(reason) => Routed::Refused(reason),
            })
            .collect())
    }

    fn identity(&self) -> &str {
        &self.worker.identity
    }
}

/// Headers of a batch as lists, row behind row; nothing if the plugin did not ask.
pub(crate) struct HeaderLists<'a> {
    all: Vec<HeaderRef<'a>>,
    ends: Vec<usize>,
}

impl<'a> HeaderLists<'a> {
    fn of(records: &'a OutputRecords, needed: bool) -> Self {
        Self::from_column(&records.headers, needed)
    }

    pub(crate) fn from_column(column: &'a pelton_core::records::HeadersColumn, needed: bool) -> Self {
        let (mut all, mut ends) = (Vec::new(), Vec::new());
        if needed {
            for row in 0..column.len() {
                all.extend(column.row(row));
                ends.push(all.len());
            }
        }
        Self { all, ends }
    }

    pub(crate) fn row(&self, row: usize) -> &[HeaderRef<'a>] {
        let Some(&end) = self.ends.get(row) else { return &[] };
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.all[start..end]
    }
}
