//! Operators under test: a script of batches, watermarks, barriers and crashes in, all output rows out.
//!
//! The driver does what the engine does: it cuts rows into batches, deals them to workers by key group, hands state
//! over at barriers, and after a crash makes new operators over the store and replays what came since the last barrier.
//! Output since that barrier is thrown away, as an exactly-once sink would. So a script must give the same rows whatever
//! the batch size, the number of workers, the memory budget and the crashes in it.

mod aggregates;

mod joins;

mod stateless;

use std::sync::{Arc, atomic::AtomicU64};

use arrow::{
    array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray, UInt32Array},
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
    util::display::{ArrayFormatter, FormatOptions},
};
use datafusion::physical_expr::expressions::Column;
use pelton_core::{
    dead_letter::DeadLetter,
    error::Result,
    key_group::{KeyGroup, hash_rows},
    operator::{Collector, Operator, OperatorContext, OperatorFactory},
    position::{Epoch, OperatorId},
    state::{MemoryBackend, StateBackend, StateHandle, StateKind},
    time::{Clock, EventTime, ProcessingTime, Watermark},
};

use crate::Expression;

/// One step of a script.
#[derive(Clone)]
enum Step {
    Rows(usize, RecordBatch),
    /// Of all inputs.
    Watermark(i64),
    /// Of one input; the operator's is the least of all.
    InputWatermark(usize, i64),
    Barrier,
    /// The process dies and starts again with another number of workers (0: the same as before).
    Crash(usize),
}

/// How a script is run.
#[derive(Debug, Clone, Copy)]
struct Way {
    batch_rows: usize,
    workers: usize,
    /// Memory budget of each operator in bytes.
    budget: usize,
}

const PLAIN: Way = Way { batch_rows: 8192, workers: 1, budget: usize::MAX };

/// What came out.
#[derive(Debug, Default, Clone, PartialEq)]
struct Outcome {
    /// Rows and watermarks of each worker's output, in order: `a|1|null`, `W 999`.
    out: Vec<String>,
    late: Vec<String>,
    letters: Vec<DeadLetter>,
    /// What the operators say they hold in the end.
    memory: usize,
    /// Rows of panes and joins that the store has in the end.
    stored: usize,
}

impl Outcome {
    /// Rows alone, sorted.
    fn rows(&self) -> Vec<String> {
        let mut rows: Vec<String> = self.out.iter().filter(|line| !line.starts_with("W ")).cloned().collect();
        rows.sort();
        rows
    }

    fn late_rows(&self) -> Vec<String> {
        let mut late = self.late.clone();
        late.sort();
        late
    }
}

struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> ProcessingTime {
        ProcessingTime::from_millis(0)
    }
}

struct Sink<'a>(&'a mut Vec<String>);

impl Collector for Sink<'_> {
    fn batch(&mut self, batch: RecordBatch) -> Result<()> {
        self.0.extend(lines(&batch));
        Ok(())
    }

    fn watermark(&mut self, watermark: Watermark) -> Result<()> {
        self.0.push(format!("W {}", watermark.time().as_millis()));
        Ok(())
    }
}

fn lines(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let columns: Vec<_> = batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options).expect("types can be shown")).collect();
    (0..batch.num_rows()).map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|")).collect()
}

const GROUPS: u16 = 16;

struct Run<'a> {
    factory: &'a dyn OperatorFactory,
    /// Key columns of each port; none: all rows go to the first worker.
    keys: &'a [Vec<usize>],
    way: Way,
    backend: Arc<MemoryBackend>,
    applied: Arc<AtomicU64>,
    workers: Vec<(Box<dyn Operator>, StateHandle)>,
    /// Of each port.
    watermarks: Vec<Watermark>,
    epoch: Epoch,
    outcome: Outcome,
}

impl Run<'_> {
    fn start(&mut self) {
        let workers = self.way.workers;
        self.workers = (0..workers)
            .map(|worker| {
                let backend: Arc<dyn StateBackend> = Arc::<MemoryBackend>::clone(&self.backend);
                let groups = KeyGroup::owned_by(worker, GROUPS, workers);
                let state = StateHandle::new(OperatorId(7), backend, groups, GROUPS, Arc::clone(&self.applied));
                let mut operator = self.factory.create(worker, workers).expect("the factory is sound");
                operator.set_memory_budget(self.way.budget);
                (operator, state)
            })
            .collect();
        for worker in 0..workers {
            self.call(worker, Watermark::MIN, |operator, context, _| operator.open(context));
        }
    }

    fn call(&mut self, worker: usize, input_watermark: Watermark, act: impl FnOnce(&mut dyn Operator, &mut OperatorContext<'_>, &mut dyn Collector) -> Result<()>) {
        let mut late = Vec::new();
        let (operator, state) = &mut self.workers[worker];
        let mut context = OperatorContext { operator: OperatorId(7), state, input_watermark, clock: &NoClock, dead_letters: &mut self.outcome.letters, late: &mut late };
        act(operator.as_mut(), &mut context, &mut Sink(&mut self.outcome.out)).expect("operators do not fail on rows");
        self.outcome.late.extend(late.iter().flat_map(lines));
    }

    fn rows(&mut self, port: usize, batch: &RecordBatch) {
        let mut begin = 0;
        while begin < batch.num_rows() {
            let part = batch.slice(begin, self.way.batch_rows.min(batch.num_rows() - begin));
            begin += part.num_rows();
            let keys: Vec<ArrayRef> = self.keys[port].iter().map(|&key| Arc::clone(part.column(key))).collect();
            let mut hashes = Vec::new();
            hash_rows(&keys, part.num_rows(), &mut hashes);
            let owner = |hash: u64| if keys.is_empty() { 0 } else { KeyGroup::of_hash(hash, GROUPS).worker(GROUPS, self.way.workers) };
            let owners: Vec<usize> = hashes.into_iter().map(owner).collect();
            for worker in 0..self.way.workers {
                let rows: UInt32Array = (0..part.num_rows() as u32).filter(|&row| owners[row as usize] == worker).collect();
                if !rows.is_empty() {
                    let rows = arrow::compute::take_record_batch(&part, &rows).expect("rows are there");
                    self.call(worker, self.watermarks[port], |operator, context, out| operator.process(port, rows, context, out));
                }
            }
        }
    }

    fn watermark(&mut self, port: Option<usize>, millis: i64) {
        let least = |run: &Self| run.watermarks.iter().min().copied().unwrap_or(Watermark::MIN);
        let before = least(self);
        let watermark = Watermark::at(EventTime::from_millis(millis));
        for (_, of_port) in self.watermarks.iter_mut().enumerate().filter(|(index, _)| port.is_none_or(|port| port == *index)) {
            *of_port = watermark.max(*of_port);
        }
        let now = least(self);
        if now > before {
            (0..self.way.workers).for_each(|worker| self.call(worker, now, |operator, context, out| operator.watermark(now, context, out)));
        }
    }

    fn barrier(&mut self) {
        self.epoch = self.epoch.next();
        let epoch = self.epoch;
        let mut changes = Vec::new();
        for worker in 0..self.way.workers {
            self.call(worker, Watermark::MIN, |operator, context, out| operator.barrier(epoch, context, out));
            changes.push(self.workers[worker].1.hand_over(epoch));
        }
        // Every other epoch is applied one barrier late, so that reads see changes on their way too.
        self.backend.apply(epoch, &changes).expect("memory does not fail");
        if epoch.0.is_multiple_of(2) {
            self.applied.store(epoch.0, std::sync::atomic::Ordering::Release);
        }
    }
}

fn run(factory: &dyn OperatorFactory, keys: &[Vec<usize>], script: &[Step], way: Way) -> Outcome {
    let mut run = Run {
        factory,
        keys,
        way,
        backend: Arc::default(),
        applied: Arc::default(),
        workers: Vec::new(),
        watermarks: vec![Watermark::MIN; keys.len()],
        epoch: Epoch(0),
        outcome: Outcome::default(),
    };
    run.start();
    let (mut at, mut committed, mut resume, mut crashed) = (0, (Outcome::default(), run.watermarks.clone()), 0, Vec::new());
    while at < script.len() {
        match &script[at] {
            Step::Rows(port, batch) => run.rows(*port, batch),
            Step::Watermark(millis) => run.watermark(None, *millis),
            Step::InputWatermark(port, millis) => run.watermark(Some(*port), *millis),
            Step::Barrier => {
                run.barrier();
                committed = (run.outcome.clone(), run.watermarks.clone());
                resume = at + 1;
            }
            Step::Crash(workers) => {
                if !crashed.contains(&at) {
                    crashed.push(at);
                    run.way.workers = if *workers == 0 { run.way.workers } else { *workers };
                    (run.outcome, run.watermarks) = committed.clone();
                    if run.watermarks.iter().all(|watermark| *watermark == run.watermarks[0]) {
                        // The operator itself must know what all of its inputs had reached.
                        run.watermarks.fill(Watermark::MIN);
                    }
                    run.applied.store(run.epoch.0, std::sync::atomic::Ordering::Release);
                    run.start();
                    at = resume;
                    continue;
                }
            }
        }
        at += 1;
    }
    for kind in [StateKind::Panes, StateKind::JoinRows] {
        let count = &mut |_: &[u8], _: &[u8]| {
            run.outcome.stored += 1;
            std::ops::ControlFlow::Continue(())
        };
        run.backend.scan(kind, &[], None, count).expect("memory does not fail");
    }
    run.outcome.memory = run.workers.iter().map(|(operator, _)| operator.memory_bytes()).sum();
    run.outcome
}

/// Every way in which a script may be run; all must give the same rows.
fn ways() -> Vec<Way> {
    let mut ways = Vec::new();
    for batch_rows in [1, 7, 8192] {
        for workers in [1, 2, 4] {
            for budget in [usize::MAX, 0] {
                ways.push(Way { batch_rows, workers, budget });
            }
        }
    }
    ways
}

/// Random numbers that are the same in every run (splitmix64).
struct Random(u64);

impl Random {
    /// Seeds to try: `SEED`, if set, else a few.
    fn seeds() -> Vec<u64> {
        match std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
            Some(seed) => vec![seed],
            None => (1..=3).collect(),
        }
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn maybe<T>(&mut self, value: T) -> Option<T> {
        (self.below(8) > 0).then_some(value)
    }
}

fn column(index: usize) -> Expression {
    Arc::new(Column::new("column", index))
}

fn timestamps() -> DataType {
    DataType::Timestamp(TimeUnit::Millisecond, None)
}

fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
    Arc::new(Schema::new(fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect::<Vec<_>>()))
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>) -> RecordBatch {
    RecordBatch::try_new(Arc::clone(schema), columns).expect("columns fit")
}

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn ints(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn floats(values: &[Option<f64>]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

fn times(values: &[i64]) -> ArrayRef {
    Arc::new(TimestampMillisecondArray::from(values.to_vec()))
}

/// Milliseconds as the driver shows them.
fn shown(millis: i64) -> String {
    let array = times(&[millis]);
    let options = FormatOptions::default();
    ArrayFormatter::try_new(array.as_ref(), &options).expect("times can be shown").value(0).to_string()
}
