//! A small job: counts records per key and window of event time, with its counts in keyed state.
//!
//! `{"k": "a", "ts": 1200}` → window `[1000, 2000)`, count. Late records are counted as late. It is its own oracle: the
//! same records give the same rows at any parallelism and over any crash.

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    ops::ControlFlow,
    sync::Arc,
    time::Duration,
};

use arrow::{
    array::{Array, AsArray, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray},
    compute::filter_record_batch,
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
};
use pelton_core::{
    error::{Result, RuntimeError},
    graph::{Exchange, Graph, Input, Node, NodeKind, SinkNode, SourceNode, TableSpec},
    key_group::{KeyGroup, hash_rows},
    operator::{Collector, Operator, OperatorContext, OperatorFactory},
    position::{Epoch, OperatorId},
    source_step::{RowTimes, SourceRows, SourceStep, SourceStepFactory},
    state::{MemoryBackend, StateKind},
    time::Watermark,
};
use pelton_engine::{Components, Output, OutputFormat, Settings};
use pelton_sql::job::Job;

use crate::{clock::ManualClock, scripted::Scripted};

/// The job over the tables `names` (columns `k`, `ts`, watermark `ts - delay_ms`), all counted together into table `out`.
pub fn counting_job(names: &[&str], window_ms: i64, delay_ms: i64) -> Job {
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8, true), Field::new("ts", DataType::Int64, true)]));
    let mut nodes: Vec<Node> = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let source = SourceNode {
            table: table(name, &[("connector", "scripted"), ("format", "json")], &schema),
            decoded: Arc::clone(&schema),
            metadata: Vec::new(),
            step: Arc::new(TimeStep { schema: Arc::clone(&schema), delay_ms }),
            has_watermark: true,
        };
        nodes.push(node(index as u32 + 1, &format!("Source {name}"), NodeKind::Source(source), Vec::new(), &schema));
    }
    let counted = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Utf8, true),
        Field::new("start", DataType::Int64, false),
        Field::new("n", DataType::Int64, false),
    ]));
    let inputs = (0..names.len()).map(|from| Input { from, exchange: Exchange::Hash { keys: vec![0] } }).collect();
    let count = CountFactory { schema: Arc::clone(&counted), window_ms };
    nodes.push(node(100, "Count", NodeKind::Operator(Arc::new(count)), inputs, &counted));
    let sink = SinkNode { table: table("out", &[("connector", "scripted")], &counted), metadata: Vec::new() };
    nodes.push(node(101, "Sink out", NodeKind::Sink(sink), vec![Input { from: names.len(), exchange: Exchange::Forward }], &counted));
    Job { name: "counting".to_owned(), settings: BTreeMap::new(), plugins: BTreeMap::new(), graph: Graph { nodes } }
}

fn table(name: &str, options: &[(&str, &str)], physical: &SchemaRef) -> Arc<TableSpec> {
    Arc::new(TableSpec {
        name: name.to_owned(),
        options: options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        physical: Arc::clone(physical),
        primary_key: Vec::new(),
        partition_by: Vec::new(),
        line: 1,
    })
}

fn node(id: u32, name: &str, kind: NodeKind, inputs: Vec<Input>, schema: &SchemaRef) -> Node {
    Node { id: OperatorId(id), name: name.to_owned(), details: Vec::new(), kind, inputs, schema: Arc::clone(schema) }
}

/// Settings for a test: so many workers, batches of so many rows, a checkpoint as often as can be.
pub fn settings(workers: usize, batch_rows: usize) -> Settings {
    let mut settings = Settings::read(&BTreeMap::new(), "counting").unwrap_or_else(|error| panic!("defaults fit: {error}"));
    settings.workers = NonZeroUsize::new(workers).unwrap_or(NonZeroUsize::MIN);
    settings.batch_rows = NonZeroUsize::new(batch_rows).unwrap_or(NonZeroUsize::MIN);
    settings.checkpoint_interval = Some(Duration::from_millis(1));
    settings
}

/// Components over scripted tables and a state that outlives the run.
pub fn components(tables: &Scripted, clock: Arc<ManualClock>, state: &Arc<MemoryBackend>) -> Components {
    Components {
        clock,
        connectors: Arc::new(tables.clone()),
        plugins: None,
        base_dir: ".".into(),
        output: Output::new(OutputFormat::JsonLines, Box::new(std::io::sink())),
        backend: Some(Arc::<MemoryBackend>::clone(state)),
        fail_at: None,
    }
}

struct TimeStep {
    schema: SchemaRef,
    delay_ms: i64,
}

impl SourceStepFactory for TimeStep {
    fn create(&self) -> Result<Box<dyn SourceStep>> {
        Ok(Box::new(TimeStepper { delay_ms: self.delay_ms }))
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

struct TimeStepper {
    delay_ms: i64,
}

impl SourceStep for TimeStepper {
    fn apply(&mut self, decoded: RecordBatch) -> Result<SourceRows> {
        let times = decoded.column(1).as_primitive::<Int64Type>().clone();
        let is_good = arrow::compute::is_not_null(&times).map_err(|error| RuntimeError::Script(error.to_string()))?;
        let bad = (0..times.len() as u32).filter(|row| times.is_null(*row as usize)).map(|row| (row, "event-time", "event time is null".to_owned())).collect();
        let batch = filter_record_batch(&decoded, &is_good).map_err(|error| RuntimeError::Script(error.to_string()))?;
        let times: Vec<i64> = times.iter().flatten().collect();
        let origin = (0..is_good.len() as u32).filter(|row| is_good.value(*row as usize)).collect();
        Ok(SourceRows {
            batch,
            origin: Some(origin),
            times: Some(RowTimes {
                watermark: times.iter().map(|time| Some(time - self.delay_ms)).collect::<TimestampMillisecondArray>(),
                batch_position: (0..times.len() as u32).collect(),
                event_time: TimestampMillisecondArray::from(times),
            }),
            bad,
        })
    }
}

struct CountFactory {
    schema: SchemaRef,
    window_ms: i64,
}

impl OperatorFactory for CountFactory {
    fn create(&self, _worker: usize, _workers: usize) -> Result<Box<dyn Operator>> {
        Ok(Box::new(Count { schema: Arc::clone(&self.schema), window_ms: self.window_ms, counts: BTreeMap::new(), watermark: i64::MIN, changed: Vec::new() }))
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// State: kind `panes`, key `window start (8 bytes, big endian) · key`, value the count (8 bytes); kind `timers`, empty
/// key, value the watermark.
struct Count {
    schema: SchemaRef,
    window_ms: i64,
    /// By window start and key.
    counts: BTreeMap<(i64, String), (i64, KeyGroup)>,
    watermark: i64,
    changed: Vec<(i64, String)>,
}

impl Operator for Count {
    fn open(&mut self, context: &mut OperatorContext<'_>) -> Result<()> {
        let groups = context.state.groups();
        let mut watermark: Option<i64> = None;
        for group in groups.map(KeyGroup) {
            let counts = &mut self.counts;
            context.state.scan(StateKind::Panes, group, b"", None, &mut |key, value| {
                let (start, name) = key.split_at(8);
                let number = |bytes: &[u8]| bytes.first_chunk::<8>().map_or(0, |bytes| i64::from_be_bytes(*bytes));
                counts.insert((number(start), String::from_utf8_lossy(name).into_owned()), (number(value), group));
                ControlFlow::Continue(())
            })?;
            let stored = context.state.get(StateKind::Timers, group, b"")?;
            let stored = stored.and_then(|bytes| bytes.first_chunk::<8>().map(|bytes| i64::from_be_bytes(*bytes)));
            watermark = watermark.max(stored);
        }
        self.watermark = watermark.unwrap_or(i64::MIN);
        Ok(())
    }

    fn process(&mut self, _port: usize, batch: RecordBatch, context: &mut OperatorContext<'_>, _out: &mut dyn Collector) -> Result<()> {
        let (keys, times) = (batch.column(0).as_string::<i32>(), batch.column(1).as_primitive::<Int64Type>());
        let mut hashes = Vec::new();
        hash_rows(&batch.columns()[..1], batch.num_rows(), &mut hashes);
        for (row, &hash) in hashes.iter().enumerate() {
            let start = times.value(row).div_euclid(self.window_ms) * self.window_ms;
            if self.watermark >= start + self.window_ms - 1 {
                context.late.push(batch.slice(row, 1));
                continue;
            }
            let key = (start, keys.value(row).to_owned());
            let group = KeyGroup::of_hash(hash, context.state.group_count());
            assert!(context.state.groups().contains(&group.0), "{key:?} is on the wrong worker");
            self.counts.entry(key.clone()).or_insert((0, group)).0 += 1;
            self.changed.push(key);
        }
        Ok(())
    }

    fn watermark(&mut self, watermark: Watermark, context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<()> {
        self.watermark = self.watermark.max(watermark.time().as_millis());
        let (mut keys, mut starts, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(entry) = self.counts.first_entry() {
            if self.watermark < entry.key().0 + self.window_ms - 1 {
                break;
            }
            let ((start, key), (count, group)) = entry.remove_entry();
            context.state.delete(StateKind::Panes, group, &state_key(start, &key));
            keys.push(key);
            starts.push(start);
            counts.push(count);
        }
        let columns: Vec<arrow::array::ArrayRef> =
            vec![Arc::new(StringArray::from(keys)), Arc::new(Int64Array::from(starts)), Arc::new(Int64Array::from(counts))];
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(|error| RuntimeError::Script(error.to_string()))?;
        out.batch(batch)?;
        out.watermark(watermark)
    }

    fn barrier(&mut self, _epoch: Epoch, context: &mut OperatorContext<'_>, _out: &mut dyn Collector) -> Result<()> {
        for (start, key) in self.changed.drain(..) {
            if let Some((count, group)) = self.counts.get(&(start, key.clone())) {
                context.state.put(StateKind::Panes, *group, &state_key(start, &key), count.to_be_bytes().to_vec());
            }
        }
        for group in context.state.groups().map(KeyGroup) {
            context.state.put(StateKind::Timers, group, b"", self.watermark.to_be_bytes().to_vec());
        }
        Ok(())
    }
}

fn state_key(start: i64, key: &str) -> Vec<u8> {
    [&start.to_be_bytes()[..], key.as_bytes()].concat()
}
