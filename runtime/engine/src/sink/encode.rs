//! Rows to records: value and key bytes, metadata that is written, and the topic of each record.
//!
//! Topics: fixed (the sink's own), a template (`'topic'='ai.${column}'`), or a router plugin's choice, which may also
//! send a record to several topics, to none, or add headers.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, Int32Type, Schema, TimeUnit, TimestampMillisecondType},
};
use pelton_core::{
    error::{Result, RuntimeError},
    format::Encoder,
    plugin::{Routed, Router},
    position::Partition,
    records::OutputRecords,
    time::{EventTime, Watermark},
};
use pelton_plugin_host::{MemoryState, Place, PluginState};

use super::SinkStart;
use crate::{
    source::{at_table, restored_state, value_format},
    table_options::{connector, key_fields, value_leaves_key_out},
};

/// A row that did not become a record.
pub(super) struct Refused {
    pub(super) row: u32,
    pub(super) step: Cow<'static, str>,
    pub(super) reason: String,
    pub(super) plugin: Option<String>,
}

/// See the module.
pub(super) struct Encoding {
    // Fixed at start.
    table: String,
    value_columns: Vec<usize>,
    key_columns: Vec<usize>,
    /// Column and metadata key.
    metadata: Vec<(usize, String)>,
    template: Option<Vec<Piece>>,
    router_name: String,
    // Changing.
    value: Box<dyn Encoder>,
    key: Option<Box<dyn Encoder>>,
    router: Option<(Box<dyn Router>, Arc<MemoryState>)>,
    topics: HashMap<String, Arc<str>>,
    // Buffers.
    records: OutputRecords,
    picked: OutputRecords,
    rows: Vec<u32>,
    bad: Vec<(u32, String)>,
}

/// A piece of a topic template.
enum Piece {
    Text(String),
    Column(usize),
}

impl Encoding {
    pub(super) fn new(start: &SinkStart<'_>) -> Result<Self> {
        let table = &start.spec.table;
        let wrong = |reason: String| at_table(table, &reason);
        let in_table = |error: RuntimeError| match error {
            RuntimeError::Script(reason) => at_table(table, &reason),
            other => other,
        };
        let names: Vec<&str> = table.physical.fields().iter().map(|field| field.name().as_str()).collect();
        let keys = key_fields(table);
        let key_columns = keys.iter().map(|key| names.iter().position(|name| name == key).ok_or_else(|| wrong(format!("option 'key.fields': no column '{key}'"))));
        let key_columns: Vec<usize> = key_columns.collect::<Result<_>>()?;
        let leaves_key_out = value_leaves_key_out(table).map_err(wrong)?;
        let value_columns: Vec<usize> = (0..names.len()).filter(|column| !(leaves_key_out && key_columns.contains(column))).collect();
        let schema = |columns: &[usize], prefix: &str| {
            let field = |&column: &usize| {
                let name = names[column].strip_prefix(prefix).unwrap_or(names[column]);
                start.schema.field(column).clone().with_name(name)
            };
            Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
        };
        let (format, options) = value_format(table)?;
        let value = pelton_formats::encoder(&format, &options, &schema(&value_columns, "")).map_err(in_table)?;
        let key = match (table.options.get("key.format"), key_columns.is_empty()) {
            (Some(format), false) => {
                let prefix = table.options.get("key.fields-prefix").map_or("", String::as_str);
                let options = pelton_formats::unprefixed(&table.options, "key.");
                Some(pelton_formats::encoder(format, &options, &schema(&key_columns, prefix)).map_err(in_table)?)
            }
            (None, false) => return Err(wrong("option 'key.fields' needs 'key.format'".to_owned())),
            (Some(_), true) => return Err(wrong("option 'key.format' needs 'key.fields'".to_owned())),
            (None, true) => None,
        };
        let router = match &start.router {
            Some(plugin) => {
                let state = restored_state(start.worker as u32, start.plugin_state)?;
                let shared: Arc<dyn PluginState> = Arc::<MemoryState>::clone(&state);
                Some((plugin.router(Place { topic: table.name.as_str().into(), state: Some(shared) })?, state))
            }
            None => None,
        };
        let template = match table.options.get("topic") {
            Some(topic) if connector(table) == "kafka" && topic.contains("${") => Some(template(topic, &names).map_err(wrong)?),
            _ => None,
        };
        Ok(Self {
            table: table.name.clone(),
            value_columns,
            key_columns,
            metadata: start.spec.metadata.iter().enumerate().map(|(index, column)| (names.len() + index, column.key.clone())).collect(),
            template,
            router_name: table.options.get("pelton.router").cloned().unwrap_or_default(),
            value,
            key,
            router,
            topics: HashMap::new(),
            records: OutputRecords::default(),
            picked: OutputRecords::default(),
            rows: Vec::new(),
            bad: Vec::new(),
        })
    }

    pub(super) fn router_state(&self) -> Option<&MemoryState> {
        self.router.as_ref().map(|(_, state)| state.as_ref())
    }

    /// The batch's records, and for each its row (`None`: one to one). Rows that did not become one are in `refused`.
    pub(super) fn encode(&mut self, batch: &RecordBatch, watermark: Watermark, refused: &mut Vec<Refused>) -> Result<(&OutputRecords, Option<&[u32]>)> {
        let failed = |error: arrow::error::ArrowError| RuntimeError::Script(format!("encode rows of table '{}': {error}", self.table));
        self.records.clear();
        self.bad.clear();
        let all_columns = self.value_columns.len() == batch.num_columns();
        let values = if all_columns { batch.clone() } else { batch.project(&self.value_columns).map_err(failed)? };
        self.value.encode(&values, &mut self.records.values, &mut self.bad)?;
        refused.extend(self.bad.drain(..).map(|(row, reason)| Refused { row, step: "encode".into(), reason, plugin: None }));
        if let Some(key) = &mut self.key {
            let keys = batch.project(&self.key_columns).map_err(failed)?;
            key.encode(&keys, &mut self.records.keys, &mut self.bad)?;
            refused.extend(self.bad.drain(..).map(|(row, reason)| Refused { row, step: "encode key".into(), reason, plugin: None }));
        }
        self.add_metadata(batch)?;
        self.add_template_topics(batch, refused)?;
        let mut is_bad = vec![false; if refused.is_empty() { 0 } else { batch.num_rows() }];
        refused.iter().for_each(|refused| is_bad[refused.row as usize] = true);
        let mut is_picked = false;
        if !refused.is_empty() {
            self.pick(|row, out| if !is_bad[row] { out.copy(row, None, None, &[]) });
            is_picked = true;
        }
        if self.router.is_some() && !self.records.is_empty() {
            self.route(watermark, is_picked, refused)?;
            is_picked = true;
        }
        Ok((&self.records, is_picked.then_some(self.rows.as_slice())))
    }

    /// Replaces the records by those that `choose` copies, and `rows` by the rows they come from.
    fn pick(&mut self, mut choose: impl FnMut(usize, &mut Copier<'_>)) {
        self.picked.clear();
        let mut copier = Copier { from: &self.records, to: &mut self.picked, rows: Vec::new() };
        for row in 0..self.records.len() {
            choose(row, &mut copier);
        }
        self.rows = copier.rows;
        std::mem::swap(&mut self.records, &mut self.picked);
    }

    fn route(&mut self, watermark: Watermark, is_picked: bool, refused: &mut Vec<Refused>) -> Result<()> {
        let Some((router, _)) = &mut self.router else { return Ok(()) };
        let routed = router.route(&self.records, (watermark > Watermark::MIN).then_some(watermark))?;
        let identity = router.identity().to_owned();
        if routed.len() != self.records.len() {
            let reason = format!("it decided on {} of {} records", routed.len(), self.records.len());
            return Err(RuntimeError::Plugin { plugin: self.router_name.clone(), reason });
        }
        let before = std::mem::take(&mut self.rows);
        let step = format!("plugin {}", self.router_name);
        self.pick(|row, out| match &routed[row] {
            Routed::Targets { targets, add_headers } => {
                for (topic, key) in targets {
                    out.copy(row, Some(topic), key.as_deref(), add_headers);
                }
            }
            Routed::Refused(reason) => {
                let origin = if is_picked { before[row] } else { row as u32 };
                refused.push(Refused { row: origin, step: step.clone().into(), reason: reason.clone(), plugin: Some(identity.clone()) });
            }
        });
        if is_picked {
            self.rows.iter_mut().for_each(|row| *row = before[*row as usize]);
        }
        Ok(())
    }

    fn add_metadata(&mut self, batch: &RecordBatch) -> Result<()> {
        for (column, key) in &self.metadata {
            let values = batch.column(*column);
            let failed = |error: arrow::error::ArrowError| RuntimeError::Script(format!("metadata '{key}' of table '{}': {error}", self.table));
            match key.as_str() {
                "timestamp" => {
                    let times = cast(values, &DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))).map_err(failed)?;
                    let times = times.as_primitive::<TimestampMillisecondType>();
                    self.records.timestamps.extend(times.iter().map(|time| time.map(EventTime::from_millis)));
                }
                "headers" => write_headers(values, &mut self.records).map_err(failed)?,
                "topic" => {
                    let names = cast(values, &DataType::Utf8).map_err(failed)?;
                    for name in names.as_string::<i32>() {
                        let topic = name.map(|name| interned(&mut self.topics, name));
                        self.records.topics.push(topic);
                    }
                }
                "partition" => {
                    let numbers = cast(values, &DataType::Int32).map_err(failed)?;
                    self.records.partitions.extend(numbers.as_primitive::<Int32Type>().iter().map(|number| number.map(Partition)));
                }
                _ => return Err(RuntimeError::Script(format!("table '{}': metadata '{key}' cannot be written", self.table))),
            }
        }
        Ok(())
    }

    fn add_template_topics(&mut self, batch: &RecordBatch, refused: &mut Vec<Refused>) -> Result<()> {
        let Some(template) = &self.template else { return Ok(()) };
        let mut columns: HashMap<usize, ArrayRef> = HashMap::new();
        for piece in template {
            if let Piece::Column(column) = piece {
                let text = cast(batch.column(*column), &DataType::Utf8);
                let text = text.map_err(|error| RuntimeError::Script(format!("topic of table '{}': {error}", self.table)))?;
                columns.insert(*column, text);
            }
        }
        self.records.topics.clear();
        let mut name = String::new();
        for row in 0..batch.num_rows() {
            name.clear();
            let mut is_null = false;
            for piece in template {
                match piece {
                    Piece::Text(text) => name.push_str(text),
                    Piece::Column(column) => {
                        let values = columns[column].as_string::<i32>();
                        is_null |= values.is_null(row);
                        name.push_str(values.value(row));
                    }
                }
            }
            if is_null {
                refused.push(Refused { row: row as u32, step: "route".into(), reason: "a column of the topic's name is null".to_owned(), plugin: None });
            }
            self.records.topics.push(Some(interned(&mut self.topics, &name)));
        }
        Ok(())
    }
}

/// Names of topics repeat: each is allocated once.
fn interned(topics: &mut HashMap<String, Arc<str>>, name: &str) -> Arc<str> {
    if let Some(topic) = topics.get(name) {
        return Arc::clone(topic);
    }
    let topic: Arc<str> = name.into();
    topics.insert(name.to_owned(), Arc::clone(&topic));
    topic
}

/// Copies records from one set to another.
struct Copier<'a> {
    from: &'a OutputRecords,
    to: &'a mut OutputRecords,
    rows: Vec<u32>,
}

impl Copier<'_> {
    fn copy(&mut self, row: usize, topic: Option<&Arc<str>>, key: Option<&[u8]>, add_headers: &[(String, Vec<u8>)]) {
        let (from, to) = (self.from, &mut *self.to);
        // A column that only some records have is filled up for those before.
        let before = to.values.len();
        to.values.push(from.values.get(row));
        if !from.keys.is_empty() || key.is_some() || !to.keys.is_empty() {
            while to.keys.len() < before {
                to.keys.push(None);
            }
            to.keys.push(key.or_else(|| if from.keys.is_empty() { None } else { from.keys.get(row) }));
        }
        if !from.headers.is_empty() || !add_headers.is_empty() || !to.headers.is_empty() {
            while to.headers.len() < before {
                to.headers.finish_row();
            }
            if !from.headers.is_empty() {
                from.headers.row(row).for_each(|(name, value)| to.headers.push(name, value));
            }
            add_headers.iter().for_each(|(name, value)| to.headers.push(name, Some(value)));
            to.headers.finish_row();
        }
        if !from.timestamps.is_empty() {
            to.timestamps.push(from.timestamps[row]);
        }
        if !from.topics.is_empty() || topic.is_some() {
            to.topics.push(topic.cloned().or_else(|| from.topics.get(row).cloned().flatten()));
        }
        if !from.partitions.is_empty() {
            to.partitions.push(from.partitions[row]);
        }
        self.rows.push(row as u32);
    }
}

fn write_headers(values: &ArrayRef, records: &mut OutputRecords) -> Result<(), arrow::error::ArrowError> {
    let Some(map) = values.as_map_opt() else {
        return Err(arrow::error::ArrowError::CastError("headers must be MAP<STRING, BYTES>".to_owned()));
    };
    let names = cast(map.keys(), &DataType::Utf8)?;
    let bytes = cast(map.values(), &DataType::Binary)?;
    let (names, bytes) = (names.as_string::<i32>(), bytes.as_binary::<i32>());
    let offsets = map.value_offsets();
    for row in 0..map.len() {
        if map.is_valid(row) {
            for entry in offsets[row] as usize..offsets[row + 1] as usize {
                records.headers.push(names.value(entry), bytes.is_valid(entry).then(|| bytes.value(entry)));
            }
        }
        records.headers.finish_row();
    }
    Ok(())
}

/// Reads `ai.${column}`.
fn template(text: &str, names: &[&str]) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        if start > 0 {
            pieces.push(Piece::Text(rest[..start].to_owned()));
        }
        let (name, behind) = rest[start + 2..].split_once('}').ok_or_else(|| format!("option 'topic': `{text}` has a `${{` without `}}`"))?;
        let column = names.iter().position(|column| *column == name);
        pieces.push(Piece::Column(column.ok_or_else(|| format!("option 'topic': no column '{name}', columns are {}", names.join(", ")))?));
        rest = behind;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::{
        array::{Int64Array, StringArray},
        datatypes::{Field, SchemaRef},
    };
    use pelton_core::{
        graph::{SinkNode, TableSpec},
        position::{Epoch, OperatorId},
        sink::{Prepared, Sink},
    };

    use super::*;
    use crate::components::SystemClock;

    struct Nowhere;

    impl Sink for Nowhere {
        fn takes_records(&self) -> bool {
            true
        }
        fn recover(&mut self, _epoch: Epoch, _prepared: &[Prepared]) -> Result<()> {
            Ok(())
        }
        fn write_batch(&mut self, _batch: &RecordBatch) -> Result<()> {
            Ok(())
        }
        fn write_records(&mut self, _records: &OutputRecords) -> Result<Vec<(u32, String)>> {
            Ok(Vec::new())
        }
        fn prepare(&mut self, _epoch: Epoch) -> Result<Prepared> {
            Ok(Prepared(Vec::new()))
        }
        fn commit(&mut self, _epoch: Epoch) -> Result<()> {
            Ok(())
        }
    }

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8, true), Field::new("v", DataType::Int64, true)]))
    }

    fn encoding(options: &[(&str, &str)]) -> Result<Encoding> {
        let mut all = BTreeMap::from([("connector".to_owned(), "kafka".to_owned()), ("format".to_owned(), "json".to_owned())]);
        all.extend(options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        let table = TableSpec { name: "t".to_owned(), options: all, physical: schema(), primary_key: Vec::new(), partition_by: Vec::new(), line: 1 };
        let spec = SinkNode { table: Arc::new(table), metadata: Vec::new() };
        Encoding::new(&SinkStart {
            node: 0,
            id: OperatorId(1),
            worker: 0,
            spec: &spec,
            schema: &schema(),
            sink: Box::new(Nowhere),
            router: None,
            plugin_state: &[],
            clock: Arc::new(SystemClock),
        })
    }

    fn batch() -> RecordBatch {
        let columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(vec![Some("a"), None, Some("b")])), Arc::new(Int64Array::from(vec![1, 2, 3]))];
        RecordBatch::try_new(schema(), columns).expect("two columns")
    }

    fn texts(column: &pelton_core::records::BytesColumn) -> Vec<Option<String>> {
        column.iter().map(|value| value.map(|bytes| String::from_utf8_lossy(bytes).into_owned())).collect()
    }

    #[test]
    fn keys_leave_the_value_only_if_that_was_asked_for() {
        let mut whole = encoding(&[("key.format", "raw"), ("key.fields", "k")]).expect("fits");
        let (records, rows) = whole.encode(&batch(), Watermark::MIN, &mut Vec::new()).expect("encodes");
        assert!(rows.is_none());
        assert_eq!(texts(&records.keys), [Some("a".to_owned()), None, Some("b".to_owned())]);
        assert_eq!(texts(&records.values)[0].as_deref(), Some(r#"{"k":"a","v":1}"#));
        let mut split = encoding(&[("key.format", "raw"), ("key.fields", "k"), ("value.fields-include", "EXCEPT_KEY")]).expect("fits");
        let (records, _) = split.encode(&batch(), Watermark::MIN, &mut Vec::new()).expect("encodes");
        assert_eq!(texts(&records.values)[0].as_deref(), Some(r#"{"v":1}"#));
    }

    #[test]
    fn a_template_names_each_records_topic_and_refuses_null() {
        let mut encoding = encoding(&[("topic", "by.${k}.${v}")]).expect("fits");
        let mut refused = Vec::new();
        let (records, rows) = encoding.encode(&batch(), Watermark::MIN, &mut refused).expect("encodes");
        assert_eq!(rows, Some(&[0, 2][..]));
        assert_eq!(records.topics.iter().flatten().map(|topic| topic.as_ref()).collect::<Vec<_>>(), ["by.a.1", "by.b.3"]);
        assert_eq!(refused.iter().map(|refused| refused.row).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn faults_of_a_table_name_it() {
        for (options, part) in [(&[("topic", "x.${nope}")][..], "nope"), (&[("key.fields", "k")], "key.format"), (&[("key.fields", "z")], "z")] {
            let message = encoding(options).err().expect("refused").to_string();
            assert!(message.contains("table 't'") && message.contains(part), "{message}");
        }
    }
}
