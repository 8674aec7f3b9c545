//! How many rows a second windows and joins take on one core, without sources and sinks.
//!
//! Measured: HOP 1 h / 1 s against TUMBLE 1 h over the same million rows with 100 keys; TUMBLE with a million keys; HOP
//! with aggregates that cannot be taken away again; an interval join; a barrier over a million keys of which one in a
//! hundred changed; a restart over a million stored panes. Not measured: decoding, exchange, RocksDB (state is in memory).
//!
//! Expected cost: a row costs its key's lookup and one addition an aggregate, whatever the window. HOP adds, per slide,
//! one evaluation per live key (the rows it writes) and one merge per pane that enters and leaves: so HOP − TUMBLE should
//! be about (rows written) × (cost of a written row), and `ns per row written` the same for any size/slide.
//! How to read it: rows/s are input rows over the whole CPU time of the one thread, fires included; CPU time, so that
//! what else runs on the machine does not count (it still costs cache).

use std::{
    sync::{Arc, LazyLock, atomic::AtomicU64},
    time::{Duration, Instant},
};

use arrow::{
    array::{Int64Array, RecordBatch, TimestampMillisecondArray},
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};
use datafusion::{
    functions_aggregate::{average::avg_udaf, count::count_udaf, min_max::max_udaf, sum::sum_udaf},
    logical_expr::AggregateUDF,
    physical_expr::expressions::Column,
};
use pelton_core::{
    error::Result,
    operator::{Collector, Operator, OperatorContext, OperatorFactory},
    position::{Epoch, OperatorId},
    state::{MemoryBackend, StateBackend, StateHandle},
    time::{Clock, EventTime, ProcessingTime, Watermark},
};
use pelton_sql_operators::{AggregateCall, Expression, IntervalJoin, JoinKey, JoinKind, WindowAggregate, WindowEdge, WindowKind, WindowSpec, Windowing};

const ROWS: i64 = 1_000_000;
const BATCH: i64 = 8_192;
const HOUR: i64 = 3_600_000;

/// CPU time of this thread where Linux tells it, else the time that passed.
fn now() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told.and_then(|text| text.split(' ').next()?.parse().ok());
    nanos.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

fn since(start: Duration) -> Duration {
    now().saturating_sub(start)
}

struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> ProcessingTime {
        ProcessingTime::from_millis(0)
    }
}

#[derive(Default)]
struct Count(usize);

impl Collector for Count {
    fn batch(&mut self, batch: RecordBatch) -> Result<()> {
        self.0 += batch.num_rows();
        Ok(())
    }

    fn watermark(&mut self, _watermark: Watermark) -> Result<()> {
        Ok(())
    }
}

fn input() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("time", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new("key", DataType::Int64, true),
        Field::new("price", DataType::Int64, true),
    ]))
}

/// Rows spread evenly over `span_ms`, with `keys` keys in a scrambled order.
fn batches(keys: i64, span_ms: i64) -> Vec<RecordBatch> {
    // A multiplier that shares no factor with the number of keys meets each of them equally often.
    let row = |row: i64| (row * span_ms / ROWS, row * 7_368_787 % keys, row % 1_000);
    (0..ROWS)
        .step_by(BATCH as usize)
        .map(|begin| {
            let rows: Vec<_> = (begin..(begin + BATCH).min(ROWS)).map(row).collect();
            let times: TimestampMillisecondArray = rows.iter().map(|row| Some(row.0)).collect();
            let keys: Int64Array = rows.iter().map(|row| Some(row.1)).collect();
            let prices: Int64Array = rows.iter().map(|row| Some(row.2)).collect();
            RecordBatch::try_new(input(), vec![Arc::new(times), Arc::new(keys), Arc::new(prices)]).expect("columns fit")
        })
        .collect()
}

fn call(function: Arc<AggregateUDF>, has_arg: bool) -> AggregateCall {
    let args = if has_arg { vec![Arc::new(Column::new("price", 2)) as Expression] } else { Vec::new() };
    AggregateCall { function, args, filter: None, distinct: false, return_type: DataType::Int64, input: input() }
}

fn linear() -> Vec<AggregateCall> {
    vec![call(count_udaf(), false), call(sum_udaf(), true), call(avg_udaf(), true)]
}

fn aggregate(kind: WindowKind, aggregates: Vec<AggregateCall>) -> WindowAggregate {
    let timestamp = DataType::Timestamp(TimeUnit::Millisecond, None);
    let mut fields = vec![Field::new("key", DataType::Int64, true)];
    fields.extend((0..aggregates.len()).map(|index| Field::new(format!("a{index}"), DataType::Int64, true)));
    fields.extend(["window_start", "window_end"].map(|name| Field::new(name, timestamp.clone(), true)));
    WindowAggregate {
        window: WindowSpec { kind, offset_ms: 0, zone: None },
        windowing: Windowing::Time { column: 0 },
        keys: vec![1],
        aggregates,
        edges: vec![WindowEdge::Start, WindowEdge::End],
        input: input(),
        schema: Arc::new(Schema::new(fields)),
    }
}

struct Bench {
    operator: Box<dyn Operator>,
    state: StateHandle,
    out: Count,
}

impl Bench {
    fn new(factory: &dyn OperatorFactory, backend: &Arc<MemoryBackend>) -> Self {
        let backend: Arc<dyn StateBackend> = Arc::<MemoryBackend>::clone(backend);
        let state = StateHandle::new(OperatorId(1), backend, 0..128, 128, Arc::new(AtomicU64::new(u64::MAX)));
        let mut bench = Self { operator: factory.create(0, 1).expect("the factory is sound"), state, out: Count::default() };
        bench.call(|operator, context, _| operator.open(context));
        bench
    }

    fn call(&mut self, act: impl FnOnce(&mut dyn Operator, &mut OperatorContext<'_>, &mut dyn Collector) -> Result<()>) {
        let (mut dead_letters, mut late) = (Vec::new(), Vec::new());
        let mut context = OperatorContext { operator: OperatorId(1), state: &mut self.state, input_watermark: Watermark::MIN, clock: &NoClock, dead_letters: &mut dead_letters, late: &mut late };
        act(self.operator.as_mut(), &mut context, &mut self.out).expect("operators do not fail on rows");
        assert!(late.is_empty() && dead_letters.is_empty());
    }

    fn rows(&mut self, port: usize, batch: &RecordBatch) {
        self.call(|operator, context, out| operator.process(port, batch.clone(), context, out));
    }

    fn watermark(&mut self, millis: i64) {
        self.call(|operator, context, out| operator.watermark(Watermark::at(EventTime::from_millis(millis)), context, out));
    }
}

fn last_time(batch: &RecordBatch) -> i64 {
    arrow::array::AsArray::as_primitive::<arrow::datatypes::TimestampMillisecondType>(batch.column(0)).value(batch.num_rows() - 1)
}

/// All rows with a watermark after each batch; time and rows written.
fn run(name: &str, factory: &dyn OperatorFactory, batches: &[RecordBatch]) -> (Duration, usize) {
    let mut bench = Bench::new(factory, &Arc::default());
    let start = now();
    for batch in batches {
        bench.rows(0, batch);
        bench.watermark(last_time(batch) - 1);
    }
    bench.watermark(i64::MAX);
    let took = since(start);
    say(name, took, bench.out.0);
    (took, bench.out.0)
}

fn say(name: &str, took: Duration, written: usize) {
    println!("{name:44} {:>6.2} M rows/s {:>10} rows written, {:.0} ms", ROWS as f64 / took.as_secs_f64() / 1e6, written, took.as_secs_f64() * 1e3);
}

fn main() {
    let hop = |slide_ms, size_ms| WindowKind::Hop { slide_ms, size_ms };
    let few = batches(100, 2 * HOUR);
    let (tumble, _) = run("TUMBLE 1 h, 100 keys", &aggregate(WindowKind::Tumble { size_ms: HOUR }, linear()), &few);
    for (name, slide_ms, size_ms) in [("HOP 1 h / 1 min, 100 keys", 60_000, HOUR), ("HOP 1 min / 1 s, 100 keys", 1_000, 60_000), ("HOP 1 h / 1 s, 100 keys", 1_000, HOUR)] {
        let (took, written) = run(name, &aggregate(hop(slide_ms, size_ms), linear()), &few);
        println!("{:44} {:.0} ns more per row written than TUMBLE takes", "", (took.as_secs_f64() - tumble.as_secs_f64()) * 1e9 / written as f64);
    }
    let mut rest = linear();
    rest.push(call(max_udaf(), true));
    run("HOP 1 h / 1 s, 100 keys, with MAX", &aggregate(hop(1_000, HOUR), rest), &few);
    run("CUMULATE 1 h by 1 min, 100 keys", &aggregate(WindowKind::Cumulate { step_ms: 60_000, size_ms: HOUR }, linear()), &few);
    let many = batches(ROWS, HOUR - 1);
    run("TUMBLE 1 h, 1 M keys", &aggregate(WindowKind::Tumble { size_ms: HOUR }, linear()), &many);
    barriers(&many);
    interval_join(&batches(1_000, 100_000));
}

fn barriers(batches: &[RecordBatch]) {
    let step = aggregate(WindowKind::Tumble { size_ms: HOUR }, linear());
    let backend: Arc<MemoryBackend> = Arc::default();
    let mut bench = Bench::new(&step, &backend);
    batches.iter().for_each(|batch| bench.rows(0, batch));
    let mut barrier = |epoch: u64, what: &str| {
        let start = now();
        bench.call(|operator, context, out| operator.barrier(Epoch(epoch), context, out));
        let took = since(start);
        let changes = bench.state.hand_over(Epoch(epoch));
        println!("{what:44} {:.0} ms, {} changes", took.as_secs_f64() * 1e3, changes.keys.len());
        backend.apply(Epoch(epoch), &[changes]).expect("memory does not fail");
        batches.iter().take(1).for_each(|batch| bench.rows(0, &batch.slice(0, 8_000)));
    };
    barrier(1, "barrier, all of 1 M keys changed");
    barrier(2, "barrier, 8,000 of them changed");
    let start = now();
    let mut bench = Bench::new(&step, &backend);
    let opened = since(start);
    bench.watermark(i64::MAX);
    println!("{:44} {:.0} ms, all windows out {:.0} ms, {} rows", "restart", opened.as_secs_f64() * 1e3, since(start).as_secs_f64() * 1e3, bench.out.0);
}

fn interval_join(batches: &[RecordBatch]) {
    let fields: Vec<_> = (0..2).flat_map(|_| input().fields().iter().cloned().collect::<Vec<_>>()).collect();
    let step = IntervalJoin {
        kind: JoinKind::Left,
        keys: vec![JoinKey { left: 1, right: 1, nulls_equal: false }],
        left_time: 0,
        right_time: 0,
        lower_ms: 0,
        upper_ms: 100,
        residual: None,
        left: input(),
        right: input(),
        schema: Arc::new(Schema::new(fields)),
    };
    let mut bench = Bench::new(&step, &Arc::default());
    let start = now();
    for batch in batches {
        let half = batch.num_rows() / 2;
        bench.rows(0, &batch.slice(0, half));
        bench.rows(1, &batch.slice(half, batch.num_rows() - half));
        bench.watermark(last_time(batch) - 1_000);
    }
    bench.watermark(i64::MAX);
    say("interval join, 0 to 100 ms, 1,000 keys", since(start), bench.out.0);
}
