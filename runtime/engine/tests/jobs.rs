//! Whole jobs over scripted tables: the same rows at any parallelism, any batch size, and over a crash at every step.

use std::{
    collections::BTreeMap,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use pelton_core::{error::RuntimeError, state::MemoryBackend};
use pelton_engine::{Control, Outcome, Progress, RunReport, Settings, StateChoice, run, stored_letters};
use pelton_sql::job::Job;
use pelton_testkit::{Item, ManualClock, Scripted, components, counting_job, settings};

const WINDOW_MS: i64 = 100;
const DELAY_MS: i64 = 50;

fn record(key: &str, ts: i64) -> Item {
    Item::Record(format!(r#"{{"k":"{key}","ts":{ts}}}"#))
}

/// Records that come out of order by less than the delay, over a few keys.
fn records(count: i64, seed: u64) -> Vec<Item> {
    let mut random = seed;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((random >> 33) % below).expect("small")
    };
    (0..count).map(|i| record(&format!("k{}", next(23)), i * 3 + 1_000 - next(49))).collect()
}

fn two_tables(count: i64) -> Scripted {
    Scripted::default()
        .split("left", "l0", records(count, 1))
        .split("left", "l1", records(count / 2, 2))
        .split("right", "r0", records(count, 3))
}

fn job() -> Job {
    counting_job(&["left", "right"], WINDOW_MS, DELAY_MS)
}

/// What the job must give, computed by hand.
fn expected(tables: &[(i64, u64)]) -> Vec<String> {
    let mut counts: BTreeMap<(String, i64), i64> = BTreeMap::new();
    for (count, seed) in tables {
        for item in records(*count, *seed) {
            let Item::Record(text) = item else { continue };
            let (key, ts) = text[6..text.len() - 1].split_once("\",\"ts\":").expect("a record");
            let ts: i64 = ts.parse().expect("a time");
            *counts.entry((key.to_owned(), ts.div_euclid(WINDOW_MS) * WINDOW_MS)).or_default() += 1;
        }
    }
    let mut rows: Vec<_> = counts.into_iter().map(|((key, start), n)| format!(r#"{{"k":"{key}","start":{start},"n":{n}}}"#)).collect();
    rows.sort();
    rows
}

/// Compares without printing thousands of rows.
fn check(got: &[String], wanted: &[String], what: &str) {
    let missing = wanted.iter().filter(|row| !got.contains(row)).take(3).collect::<Vec<_>>();
    let extra = got.iter().filter(|row| !wanted.contains(row)).take(3).collect::<Vec<_>>();
    assert!(got == wanted, "{what}: {} rows, wanted {}; missing e.g. {missing:?}, extra e.g. {extra:?}", got.len(), wanted.len());
}

fn start(tables: &Scripted, state: &Arc<MemoryBackend>, settings: Settings, fail_at: Option<(&'static str, u64)>) -> Result<RunReport, RuntimeError> {
    let mut components = components(tables, Arc::new(ManualClock::at(1_000_000_000)), state);
    components.fail_at = fail_at;
    run(job(), settings, StateChoice::Resume, &components, &Control::default(), &Arc::new(Progress::default()), &|_| {})
}

#[test]
fn rows_are_the_same_at_any_parallelism_and_batch_size() {
    let wanted = expected(&[(3_000, 1), (1_500, 2), (3_000, 3)]);
    for workers in [1, 2, 4] {
        for batch_rows in [1, 7, 8_192] {
            let tables = two_tables(3_000);
            let report = start(&tables, &Arc::default(), settings(workers, batch_rows), None).expect("the job ends");
            assert_eq!(report.outcome, Outcome::Finished);
            assert_eq!(report.progress.rows_in, 7_500);
            check(&tables.rows("out"), &wanted, &format!("{workers} workers, batches of {batch_rows}"));
        }
    }
}

#[test]
fn tiny_queues_slow_a_job_down_and_do_not_stop_it() {
    for workers in [2, 4] {
        let tables = two_tables(2_000);
        let mut settings = settings(workers, 16);
        settings.exchange_rows = 1;
        settings.exchange_bytes = 1;
        start(&tables, &Arc::default(), settings, None).expect("the job ends");
        check(&tables.rows("out"), &expected(&[(2_000, 1), (1_000, 2), (2_000, 3)]), &format!("{workers} workers"));
    }
}

const STEPS: [&str; 9] = [
    "before-barrier",
    "before-part",
    "before-prepare",
    "after-prepare",
    "after-transaction",
    "after-apply",
    "after-letters",
    "before-commit",
    "after-commit",
];

#[test]
fn a_crash_at_any_step_loses_and_doubles_nothing() {
    let wanted = expected(&[(1_500, 1), (750, 2), (1_500, 3)]);
    for is_transactional in [false, true] {
        for step in STEPS {
            let mut crashes = 0;
            for (time, workers) in [(1, 1), (2, 2), (3, 1)] {
                let tables = if is_transactional { two_tables(1_500).transactional() } else { two_tables(1_500) };
                let state = Arc::new(MemoryBackend::default());
                crashes += usize::from(start(&tables, &state, settings(workers, 13), Some((step, time))).is_err());
                // Goes on with another number of workers, and crashes once more on the way.
                crashes += usize::from(start(&tables, &state, settings(3 - workers, 13), Some((step, time))).is_err());
                start(&tables, &state, settings(workers, 50), None).expect("the job ends");
                check(&tables.rows("out"), &wanted, &format!("{step} the {time}. time, {workers} workers, transactional {is_transactional}"));
            }
            let is_reached = is_transactional || !matches!(step, "after-prepare" | "after-transaction");
            assert_eq!(crashes > 0, is_reached, "{step}, transactional {is_transactional}: {crashes} crashes");
        }
    }
}

#[test]
fn a_finished_job_does_not_run_again_and_another_graph_is_refused() {
    let tables = two_tables(100);
    let state = Arc::new(MemoryBackend::default());
    start(&tables, &state, settings(1, 10), None).expect("the job ends");
    let rows = tables.rows("out");
    let report = start(&tables, &state, settings(2, 10), None).expect("nothing to do");
    assert_eq!(report.outcome, Outcome::AlreadyDone);
    assert_eq!(tables.rows("out"), rows);

    let other = counting_job(&["left"], WINDOW_MS, DELAY_MS);
    let components = components(&tables, Arc::default(), &state);
    let refused = run(other, settings(1, 10), StateChoice::Resume, &components, &Control::default(), &Arc::default(), &|_| {});
    let message = refused.expect_err("another graph").to_string();
    assert!(message.contains("Source right"), "names what does not fit: {message}");
}

/// Runs a job on a thread of its own until `until` holds, then stops it.
fn run_until(tables: &Scripted, settings: Settings, clock: &Arc<ManualClock>, mut until: impl FnMut(&ManualClock) -> bool) -> RunReport {
    let control = Control::default();
    let running = {
        let (components, control) = (components(tables, Arc::clone(clock), &Arc::default()), control.clone());
        thread::spawn(move || run(job(), settings, StateChoice::Resume, &components, &control, &Arc::default(), &|_| {}))
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while !until(clock) {
        assert!(Instant::now() < deadline && !running.is_finished(), "the job never got there");
        thread::yield_now();
    }
    control.stop();
    running.join().expect("no panic").expect("the job stops")
}

#[test]
fn an_idle_split_no_longer_holds_windows_back() {
    let tables = Scripted::default()
        .split("left", "busy", (0..200_000).map(|i| record("k", 1_000_000 + i * 10)).collect())
        .split("left", "silent", Vec::new())
        .split("right", "r0", vec![record("k", 2_000_000)])
        .unbounded("left")
        .unbounded("right");
    let mut settings = settings(1, 10);
    settings.idle_timeout = Some(Duration::from_secs(5));
    settings.earliest = pelton_core::time::EventTime::from_millis(0);
    let clock = Arc::new(ManualClock::at(1_000_000_000));
    let report = run_until(&tables, settings, &clock, |clock| {
        clock.advance(Duration::from_millis(100));
        !tables.rows("out").is_empty()
    });
    assert_eq!(report.outcome, Outcome::Stopped);
}

#[test]
fn with_wall_clock_advance_windows_close_without_further_records() {
    let tables = Scripted::default()
        .split("left", "l0", vec![record("k", 1_000_000)])
        .split("right", "r0", vec![record("k", 1_000_010)])
        .unbounded("left")
        .unbounded("right");
    let mut settings = settings(2, 10);
    settings.idle_timeout = Some(Duration::from_secs(1));
    settings.wall_clock_advance = true;
    settings.earliest = pelton_core::time::EventTime::from_millis(0);
    let clock = Arc::new(ManualClock::at(1_000_000_000));
    run_until(&tables, settings, &clock, |clock| {
        clock.advance(Duration::from_millis(50));
        !tables.rows("out").is_empty()
    });
    assert_eq!(tables.rows("out"), [r#"{"k":"k","start":1000000,"n":2}"#]);
}

#[test]
fn bad_records_are_kept_with_their_place_and_a_wrong_format_stops_the_job() {
    let mut items = records(300, 1);
    items[7] = Item::Record("no json".to_owned());
    items[90] = Item::Record(r#"{"k":"a","ts":null}"#.to_owned());
    let tables = Scripted::default().split("left", "l0", items).split("right", "r0", Vec::new());
    let state = Arc::new(MemoryBackend::default());
    let report = start(&tables, &state, settings(2, 16), None).expect("the job ends");
    assert_eq!(report.progress.bad, 2);
    let letters = stored_letters(state.as_ref()).expect("memory does not fail");
    let places: Vec<_> = letters.iter().map(|(_, letter)| (letter.table.as_str(), letter.step.as_str(), letter.offset.0)).collect();
    assert_eq!(places, [("left", "decode", 7), ("left", "event-time", 90)]);

    let tables = Scripted::default().split("left", "l0", vec![Item::Record("a;b".to_owned()); 2_000]).split("right", "r0", Vec::new());
    let error = start(&tables, &Arc::default(), settings(1, 100), None).expect_err("the format is wrong");
    assert!(error.to_string().contains("more than half"), "{error}");
}

#[test]
fn a_panic_in_a_worker_stops_the_job_with_an_error() {
    let tables = Scripted::default().split("left", "l0", records(10, 1)).split("right", "r0", Vec::new());
    let mut job = job();
    job.graph.nodes[2].kind = pelton_core::graph::NodeKind::Operator(Arc::new(Panics(Arc::clone(&job.graph.nodes[2].schema))));
    let components = components(&tables, Arc::default(), &Arc::default());
    let error = run(job, settings(2, 10), StateChoice::Resume, &components, &Control::default(), &Arc::default(), &|_| {});
    assert!(error.expect_err("a panic").to_string().contains("panicked: on purpose"));
}

struct Panics(arrow::datatypes::SchemaRef);

impl pelton_core::operator::OperatorFactory for Panics {
    fn create(&self, _worker: usize, _workers: usize) -> pelton_core::error::Result<Box<dyn pelton_core::operator::Operator>> {
        Ok(Box::new(Self(Arc::clone(&self.0))))
    }

    fn schema(&self) -> arrow::datatypes::SchemaRef {
        Arc::clone(&self.0)
    }
}

impl pelton_core::operator::Operator for Panics {
    fn process(
        &mut self,
        _port: usize,
        _batch: arrow::array::RecordBatch,
        _context: &mut pelton_core::operator::OperatorContext<'_>,
        _out: &mut dyn pelton_core::operator::Collector,
    ) -> pelton_core::error::Result<()> {
        panic!("on purpose")
    }
}
