//! Connectors as the engine sees them: one trait, so that tests bring their own, and the standard ones behind it.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{array::ArrayRef, datatypes::DataType};
use pelton_core::{
    error::{Result, RuntimeError},
    graph::TableSpec,
    options::ConnectorInfo,
    records::Records,
    sink::{Sink, TransactionCoordinator},
    source::{RecordParts, Source},
};
use pelton_kafka::Kafka;

use crate::table_options::connector;

/// Where a source or sink works.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The job's name.
    pub job: &'a str,
    /// Identity of the job's output: the same when a job goes on from its checkpoint, new for each fresh start.
    pub run: &'a str,
    /// This worker, from 0.
    pub worker: usize,
    /// How many workers there are.
    pub workers: usize,
    /// Whether the job must read every split itself (keyed state): one that is given only a part is an error.
    pub needs_all: bool,
}

/// Makes sources and sinks. Called from one thread, before the workers start.
pub trait Connectors: Send + Sync {
    /// What there is, for the planner.
    fn infos(&self) -> Vec<ConnectorInfo>;

    /// Whether a table ends by itself when it is read.
    fn is_bounded(&self, table: &TableSpec) -> Result<bool>;

    /// The source of a table on one worker.
    fn source(&self, table: &TableSpec, parts: RecordParts, place: Place<'_>) -> Result<Box<dyn Source>>;

    /// The sink of a table on one worker.
    fn sink(&self, table: &TableSpec, place: Place<'_>) -> Result<Box<dyn Sink>>;

    /// What commits the transactions of a job that reads and writes these tables; `None` if nothing is transactional.
    /// Called before any source or sink is made.
    fn transactions(&self, sources: &[Arc<TableSpec>], sinks: &[Arc<TableSpec>], place: Place<'_>) -> Result<Option<Box<dyn TransactionCoordinator>>>;

    /// A metadata column that the record itself does not hold.
    fn metadata_column(&self, table: &TableSpec, key: &str, records: &Records, data_type: &DataType) -> Result<ArrayRef>;

    /// A table's options as they are when its first records are looked at before the job runs: from the start, to the
    /// present end, without joining the job's group.
    fn sampling_options(&self, options: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        options.clone()
    }
}

/// The connectors of `runtime/connect` and `runtime/kafka`.
#[derive(Default)]
pub struct StandardConnectors {
    kafka: Kafka,
}

fn is_kafka(table: &TableSpec) -> bool {
    connector(table) == pelton_kafka::CONNECTOR.name
}

fn kafka_place<'a>(place: Place<'a>) -> pelton_kafka::Place<'a> {
    pelton_kafka::Place { run: place.run, worker: place.worker, workers: place.workers, needs_all: place.needs_all }
}

impl Connectors for StandardConnectors {
    fn infos(&self) -> Vec<ConnectorInfo> {
        let mut infos = pelton_connect::CONNECTORS.to_vec();
        infos.push(pelton_kafka::CONNECTOR);
        infos
    }

    fn is_bounded(&self, table: &TableSpec) -> Result<bool> {
        if is_kafka(table) {
            return self.kafka.is_bounded(table);
        }
        Ok(pelton_connect::source(table, RecordParts::default(), 0, 1)?.is_bounded())
    }

    fn source(&self, table: &TableSpec, parts: RecordParts, place: Place<'_>) -> Result<Box<dyn Source>> {
        if is_kafka(table) {
            return self.kafka.source(table, parts, kafka_place(place));
        }
        pelton_connect::source(table, parts, place.worker, place.workers)
    }

    fn sink(&self, table: &TableSpec, place: Place<'_>) -> Result<Box<dyn Sink>> {
        if is_kafka(table) {
            return self.kafka.sink(table, kafka_place(place));
        }
        pelton_connect::sink(pelton_connect::SinkContext {
            table,
            run: place.run,
            worker: place.worker,
            workers: place.workers,
            print_rows: pelton_formats::render::print_rows,
        })
    }

    fn transactions(&self, sources: &[Arc<TableSpec>], sinks: &[Arc<TableSpec>], place: Place<'_>) -> Result<Option<Box<dyn TransactionCoordinator>>> {
        self.kafka.transactions(sources, sinks, place.run)
    }

    fn metadata_column(&self, table: &TableSpec, key: &str, records: &Records, data_type: &DataType) -> Result<ArrayRef> {
        pelton_connect::metadata_column(key, records, data_type).map_err(|error| match error {
            RuntimeError::Script(reason) => RuntimeError::Script(format!("table '{}': {reason}", table.name)),
            other => other,
        })
    }

    fn sampling_options(&self, options: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        match options.get("connector").map(String::as_str) {
            Some(name) if name == pelton_kafka::CONNECTOR.name => Kafka::sampling_options(options),
            _ => options.clone(),
        }
    }
}
