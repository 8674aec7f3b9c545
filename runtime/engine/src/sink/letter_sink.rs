//! Dead letters to a topic: the record as it was, with `pelton.dlq.*` headers that say what is wrong with it.

use pelton_core::{
    dead_letter::DeadLetter,
    error::Result,
    graph::TableSpec,
    position::{Epoch, OperatorId},
    records::OutputRecords,
    sink::{Prepared, Sink},
    time::EventTime,
};

/// One topic's letters on one worker. Follows the job's epochs like any other sink.
pub(crate) struct LetterSink {
    pub(crate) topic: String,
    /// The source it belongs to: its preparations are stored under it.
    pub(crate) id: OperatorId,
    pub(crate) sink: Box<dyn Sink>,
    job: String,
    records: OutputRecords,
}

/// The letters' table: the source table's broker and producer options, raw values.
pub(crate) fn table(source: &TableSpec, topic: &str) -> TableSpec {
    let mut options: std::collections::BTreeMap<_, _> =
        source.options.iter().filter(|(key, _)| key.starts_with("properties.") && *key != "properties.group.id").map(|(k, v)| (k.clone(), v.clone())).collect();
    options.insert("connector".to_owned(), "kafka".to_owned());
    options.insert("topic".to_owned(), topic.to_owned());
    options.insert("format".to_owned(), "raw".to_owned());
    TableSpec { name: format!("{}$errors", source.name), options, ..source.clone() }
}

impl LetterSink {
    pub(crate) fn new(topic: &str, id: OperatorId, sink: Box<dyn Sink>, job: &str) -> Self {
        Self { topic: topic.to_owned(), id, sink, job: job.to_owned(), records: OutputRecords::default() }
    }

    pub(crate) fn write(&mut self, letters: &[DeadLetter]) -> Result<()> {
        self.records.clear();
        for letter in letters {
            self.records.values.push(letter.value.as_deref());
            self.records.keys.push(letter.key.as_deref());
            self.records.timestamps.push(letter.timestamp_ms.map(EventTime::from_millis));
            for (name, value) in &letter.headers {
                self.records.headers.push(name, value.as_deref());
            }
            let (partition, offset) = (letter.partition.0.to_string(), letter.offset.0.to_string());
            let facts = [
                ("reason", letter.reason.as_str()),
                ("step", &letter.step),
                ("table", &letter.table),
                ("topic", &letter.topic),
                ("partition", &partition),
                ("offset", &offset),
                ("job", &self.job),
                ("plugin", letter.plugin.as_deref().unwrap_or_default()),
            ];
            for (name, value) in facts.iter().filter(|(name, value)| *name != "plugin" || !value.is_empty()) {
                self.records.headers.push(&format!("pelton.dlq.{name}"), Some(value.as_bytes()));
            }
            self.records.headers.finish_row();
        }
        // A letter that its own topic refuses (too large) has nowhere else to go; it was counted.
        for (index, reason) in self.sink.write_records(&self.records)? {
            tracing::warn!(topic = %self.topic, offset = letters[index as usize].offset.0, reason, "dead letter not written");
        }
        Ok(())
    }

    pub(crate) fn prepare(&mut self, epoch: Epoch) -> Result<Prepared> {
        self.sink.prepare(epoch)
    }
}
