//! Window aggregates against a naive count over all rows.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::functions_aggregate::{
    average::avg_udaf,
    bit_and_or_xor::bit_or_udaf,
    count::count_udaf,
    median::median_udaf,
    min_max::{max_udaf, min_udaf},
    sum::sum_udaf,
};

use super::*;
use crate::{AggregateCall, WindowAggregate, WindowEdge, WindowKind, WindowSpec, Windowing};

/// A row of the input: `time, name, number, value, float, window_start, window_end`.
#[derive(Debug, Clone)]
struct Row {
    time: i64,
    name: Option<&'static str>,
    number: Option<i64>,
    value: Option<i64>,
    float: Option<f64>,
}

const TIME: usize = 0;
const NAME: usize = 1;
const NUMBER: usize = 2;
const VALUE: usize = 3;
const FLOAT: usize = 4;

fn input() -> SchemaRef {
    schema(&[
        ("time", timestamps()),
        ("name", DataType::Utf8),
        ("number", DataType::Int64),
        ("value", DataType::Int64),
        ("float", DataType::Float64),
    ])
}

fn to_batch(rows: &[Row]) -> RecordBatch {
    batch(
        &input(),
        vec![
            times(&rows.iter().map(|row| row.time).collect::<Vec<_>>()),
            texts(&rows.iter().map(|row| row.name).collect::<Vec<_>>()),
            ints(&rows.iter().map(|row| row.number).collect::<Vec<_>>()),
            ints(&rows.iter().map(|row| row.value).collect::<Vec<_>>()),
            floats(&rows.iter().map(|row| row.float).collect::<Vec<_>>()),
        ],
    )
}

fn call(function: Arc<datafusion::logical_expr::AggregateUDF>, args: &[usize], return_type: DataType) -> AggregateCall {
    AggregateCall { function, args: args.iter().map(|&arg| column_of(arg)).collect(), filter: None, distinct: false, return_type, input: input() }
}

fn column_of(index: usize) -> Expression {
    Arc::new(Column::new(input().field(index).name(), index))
}

/// Aggregates that can be taken away again: count(*), count(value), sum, avg, count(DISTINCT value).
fn linear() -> Vec<AggregateCall> {
    let mut distinct = call(count_udaf(), &[VALUE], DataType::Int64);
    distinct.distinct = true;
    vec![
        call(count_udaf(), &[], DataType::Int64),
        call(count_udaf(), &[VALUE], DataType::Int64),
        call(sum_udaf(), &[VALUE], DataType::Int64),
        call(avg_udaf(), &[VALUE], DataType::Int64),
        distinct,
    ]
}

/// The others: min, max, max of text, sum of floats, DataFusion's median and bit_or.
fn rest() -> Vec<AggregateCall> {
    vec![
        call(min_udaf(), &[VALUE], DataType::Int64),
        call(max_udaf(), &[VALUE], DataType::Int64),
        call(max_udaf(), &[NAME], DataType::Utf8),
        call(sum_udaf(), &[FLOAT], DataType::Float64),
        call(median_udaf(), &[VALUE], DataType::Int64),
        call(bit_or_udaf(), &[VALUE], DataType::Int64),
    ]
}

fn small() -> Vec<AggregateCall> {
    let mut calls = linear();
    calls.pop();
    calls.extend(rest().into_iter().take(4));
    calls
}

/// What the aggregates of `calls` give for rows.
fn naive(calls: &[AggregateCall], rows: &[&Row]) -> Vec<String> {
    let text = |value: Option<i64>| value.map_or("null".to_owned(), |value| value.to_string());
    let mut values: Vec<i64> = rows.iter().filter_map(|row| row.value).collect();
    values.sort_unstable();
    calls
        .iter()
        .map(|call| match (call.function.name(), call.args.len(), call.distinct) {
            ("count", 0, _) => rows.len().to_string(),
            ("count", _, true) => values.iter().collect::<BTreeSet<_>>().len().to_string(),
            ("count", ..) => values.len().to_string(),
            ("sum", ..) if call.return_type == DataType::Float64 => {
                let floats: Vec<f64> = rows.iter().filter_map(|row| row.float).collect();
                if floats.is_empty() { "null".to_owned() } else { lines(&batch(&schema(&[("f", DataType::Float64)]), vec![floats_of(floats.iter().sum())]))[0].clone() }
            }
            ("sum", ..) => text((!values.is_empty()).then(|| values.iter().sum())),
            ("avg", ..) => text((!values.is_empty()).then(|| values.iter().sum::<i64>() / values.len() as i64)),
            ("min", ..) => text(values.first().copied()),
            ("max", ..) if call.return_type == DataType::Utf8 => rows.iter().filter_map(|row| row.name).max().unwrap_or("null").to_owned(),
            ("max", ..) => text(values.last().copied()),
            ("median", ..) => text((!values.is_empty()).then(|| {
                let middle = values.len() / 2;
                if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2 }
            })),
            ("bit_or", ..) => text((!values.is_empty()).then(|| values.iter().fold(0, |all, value| all | value))),
            other => panic!("no naive {other:?}"),
        })
        .collect()
}

fn floats_of(value: f64) -> ArrayRef {
    floats(&[Some(value)])
}

/// Start and end of every window that holds a time.
fn windows(spec: &WindowSpec, time: i64) -> Vec<(i64, i64)> {
    let floor = |time: i64, step: i64| (time - spec.offset_ms).div_euclid(step) * step + spec.offset_ms;
    match spec.kind {
        WindowKind::Tumble { size_ms } => vec![(floor(time, size_ms), floor(time, size_ms) + size_ms)],
        WindowKind::Hop { slide_ms, size_ms } => {
            let last = floor(time, slide_ms);
            (0..size_ms / slide_ms).map(|back| last - back * slide_ms).map(|start| (start, start + size_ms)).collect()
        }
        WindowKind::Cumulate { step_ms, size_ms } => {
            let start = floor(time, size_ms);
            (1..=size_ms / step_ms).map(|steps| (start, start + steps * step_ms)).filter(|(_, end)| time < *end).collect()
        }
    }
}

fn step(spec: WindowSpec, keys: &[usize], calls: &[AggregateCall]) -> WindowAggregate {
    let mut fields: Vec<(String, DataType)> = keys.iter().map(|&key| (input().field(key).name().clone(), input().field(key).data_type().clone())).collect();
    fields.extend(calls.iter().enumerate().map(|(index, call)| (format!("a{index}"), call.return_type.clone())));
    fields.extend(["window_start", "window_end", "window_time"].map(|name| (name.to_owned(), timestamps())));
    let fields: Vec<(&str, DataType)> = fields.iter().map(|(name, data_type)| (name.as_str(), data_type.clone())).collect();
    WindowAggregate {
        window: spec,
        windowing: Windowing::Time { column: TIME },
        keys: keys.to_vec(),
        aggregates: calls.to_vec(),
        edges: vec![WindowEdge::Start, WindowEdge::End, WindowEdge::Time],
        input: input(),
        schema: schema(&fields),
    }
}

/// A script as rows and watermarks.
#[derive(Debug, Clone)]
enum Event {
    Row(Row),
    Watermark(i64),
}

/// What must come out: rows and late rows.
fn oracle(step: &WindowAggregate, events: &[Event]) -> (Vec<String>, usize) {
    let mut held: BTreeMap<(i64, i64, Vec<String>), Vec<&Row>> = BTreeMap::new();
    let (mut watermark, mut late) = (i64::MIN, 0);
    for event in events {
        match event {
            Event::Watermark(value) => watermark = watermark.max(*value),
            Event::Row(row) => {
                let line = lines(&to_batch(std::slice::from_ref(row))).remove(0);
                let parts: Vec<&str> = line.split('|').collect();
                let key: Vec<String> = step.keys.iter().map(|&key| parts[key].to_owned()).collect();
                let open: Vec<_> = windows(&step.window, row.time).into_iter().filter(|(_, end)| watermark < end - 1).collect();
                late += usize::from(open.is_empty());
                for (start, end) in open {
                    held.entry((start, end, key.clone())).or_default().push(row);
                }
            }
        }
    }
    let mut rows: Vec<String> = held
        .into_iter()
        .map(|((start, end, key), rows)| {
            let mut line = key;
            line.extend(naive(&step.aggregates, &rows));
            line.extend([shown(start), shown(end), shown(end - 1)]);
            line.join("|")
        })
        .collect();
    rows.sort();
    (rows, late)
}

fn random_events(random: &mut Random, count: usize) -> Vec<Event> {
    let names = ["a", "b", "", "long name of a key that fills more than one block"];
    let (mut events, mut time, mut watermark) = (Vec::new(), -50, i64::MIN);
    for _ in 0..count {
        time += random.below(4) as i64;
        if random.below(60) == 0 {
            // A pause longer than any window.
            time += 500;
        }
        let back = if random.below(5) == 0 { random.below(70) as i64 } else { random.below(5) as i64 };
        let value = random.below(20) as i64 - 5;
        let name = names[random.below(names.len() as u64) as usize];
        let number = random.below(5) as i64;
        events.push(Event::Row(Row {
            time: time - back,
            name: random.maybe(name),
            number: random.maybe(number),
            value: random.maybe(value),
            float: random.maybe(value as f64 / 4.0),
        }));
        if random.below(6) == 0 {
            watermark = watermark.max(time - random.below(15) as i64);
            events.push(Event::Watermark(watermark));
        }
    }
    events.push(Event::Watermark(i64::MAX));
    events
}

/// Runs of rows become batches; barriers and crashes come between.
fn script(events: &[Event], random: Option<&mut Random>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    let mut random = random;
    let flush = |rows: &mut Vec<Row>, steps: &mut Vec<Step>| {
        if !rows.is_empty() {
            steps.push(Step::Rows(0, to_batch(rows)));
            rows.clear();
        }
    };
    for event in events {
        if let Some(random) = random.as_deref_mut() {
            match random.below(40) {
                0..=2 => {
                    flush(&mut rows, &mut steps);
                    steps.push(Step::Barrier);
                }
                3 => {
                    flush(&mut rows, &mut steps);
                    steps.push(Step::Crash([0, 1, 2, 3][random.below(4) as usize]));
                }
                _ => {}
            }
        }
        match event {
            Event::Row(row) => rows.push(row.clone()),
            Event::Watermark(value) => {
                flush(&mut rows, &mut steps);
                steps.push(Step::Watermark(*value));
            }
        }
    }
    flush(&mut rows, &mut steps);
    steps.push(Step::Barrier);
    steps
}

fn plain(kind: WindowKind) -> WindowSpec {
    WindowSpec { kind, offset_ms: 0, zone: None }
}

fn check(spec: WindowSpec, keys: &[usize], calls: &[AggregateCall]) {
    let step = step(spec, keys, calls);
    for seed in Random::seeds() {
        let mut random = Random(seed);
        let events = random_events(&mut random, 300);
        let (rows, late) = oracle(&step, &events);
        for way in ways() {
            for crashes in [false, true] {
                let script = script(&events, crashes.then_some(&mut random));
                let outcome = run(&step, &[keys.to_vec()], &script, way);
                let what = format!("SEED={seed} {spec:?} keys {keys:?} {way:?} crashes {crashes}");
                assert_eq!(outcome.rows(), rows, "{what}");
                assert_eq!(outcome.late.len(), late, "late rows, {what}");
                // The last barrier comes after the last watermark.
                assert_eq!(outcome.stored, 0, "{what}");
            }
        }
    }
}

#[test]
fn tumble_counts_what_a_naive_count_does() {
    check(plain(WindowKind::Tumble { size_ms: 10 }), &[NAME, NUMBER], &small());
    check(plain(WindowKind::Tumble { size_ms: 7 }), &[NUMBER], &[linear(), rest()].concat());
}

#[test]
fn hop_counts_what_a_naive_count_does_with_what_can_be_taken_away() {
    check(plain(WindowKind::Hop { slide_ms: 10, size_ms: 30 }), &[NUMBER], &linear());
    check(plain(WindowKind::Hop { slide_ms: 3, size_ms: 60 }), &[NAME, NUMBER], &linear());
}

#[test]
fn hop_counts_what_a_naive_count_does_with_what_cannot() {
    check(plain(WindowKind::Hop { slide_ms: 10, size_ms: 30 }), &[NAME], &rest());
    check(plain(WindowKind::Hop { slide_ms: 3, size_ms: 60 }), &[NUMBER], &small());
    check(plain(WindowKind::Hop { slide_ms: 5, size_ms: 5 }), &[NUMBER], &[linear(), rest()].concat());
}

#[test]
fn cumulate_counts_what_a_naive_count_does() {
    check(plain(WindowKind::Cumulate { step_ms: 5, size_ms: 40 }), &[NAME, NUMBER], &[linear(), rest()].concat());
}

#[test]
fn offsets_move_the_edges() {
    check(WindowSpec { kind: WindowKind::Tumble { size_ms: 10 }, offset_ms: 3, zone: None }, &[NUMBER], &linear());
    check(WindowSpec { kind: WindowKind::Hop { slide_ms: 10, size_ms: 40 }, offset_ms: -4, zone: None }, &[NUMBER], &small());
    check(WindowSpec { kind: WindowKind::Cumulate { step_ms: 10, size_ms: 30 }, offset_ms: 7, zone: None }, &[NUMBER], &linear());
}

#[test]
fn without_keys_there_is_one_row_a_window_and_without_aggregates_one_a_key() {
    check(plain(WindowKind::Tumble { size_ms: 10 }), &[], &linear());
    check(plain(WindowKind::Hop { slide_ms: 5, size_ms: 20 }), &[], &[linear(), rest()].concat());
    check(plain(WindowKind::Tumble { size_ms: 10 }), &[NAME, NUMBER], &[]);
    check(plain(WindowKind::Hop { slide_ms: 5, size_ms: 20 }), &[FLOAT], &[]);
}

fn row(time: i64, number: i64, value: i64) -> Row {
    Row { time, name: None, number: Some(number), value: Some(value), float: None }
}

fn counts() -> Vec<AggregateCall> {
    vec![call(count_udaf(), &[], DataType::Int64)]
}

#[test]
fn fires_when_the_watermark_reaches_the_last_millisecond_and_only_once() {
    let step = step(plain(WindowKind::Tumble { size_ms: 10 }), &[NUMBER], &counts());
    let steps = [Step::Rows(0, to_batch(&[row(3, 1, 0), row(9, 1, 0), row(12, 1, 0)])), Step::Watermark(8), Step::Watermark(9), Step::Watermark(15)];
    let outcome = run(&step, &[vec![NUMBER]], &steps, PLAIN);
    let window = format!("1|2|{}|{}|{}", shown(0), shown(10), shown(9));
    assert_eq!(outcome.out, ["W 8".to_owned(), window, "W 9".to_owned(), "W 15".to_owned()]);
}

#[test]
fn a_row_late_for_one_window_counts_in_the_next() {
    let step = step(plain(WindowKind::Hop { slide_ms: 5, size_ms: 10 }), &[NUMBER], &counts());
    let steps = [
        Step::Rows(0, to_batch(&[row(3, 1, 0)])),
        Step::Watermark(4),
        // In time for [0, 10) only, late for [-5, 5).
        Step::Rows(0, to_batch(&[row(4, 2, 0)])),
        Step::Watermark(9),
        // Late for every window.
        Step::Rows(0, to_batch(&[row(4, 3, 0)])),
    ];
    let outcome = run(&step, &[vec![NUMBER]], &steps, PLAIN);
    let line = |number: i64, start: i64| format!("{number}|1|{}|{}|{}", shown(start), shown(start + 10), shown(start + 9));
    assert_eq!(outcome.rows(), [line(1, -5), line(1, 0), line(2, 0)]);
    assert_eq!(outcome.late_rows().len(), 1);
}

#[test]
fn rows_of_a_window_leave_in_the_same_order_with_and_without_a_crash() {
    for kind in [WindowKind::Tumble { size_ms: 10 }, WindowKind::Hop { slide_ms: 5, size_ms: 20 }, WindowKind::Cumulate { step_ms: 5, size_ms: 20 }] {
        let step = step(plain(kind), &[NAME, NUMBER], &linear());
        let mut random = Random(99);
        let events = random_events(&mut random, 200);
        let outputs: Vec<_> = [false, true]
            .into_iter()
            .flat_map(|crashes| {
                let steps: Vec<Step> = script(&events, crashes.then_some(&mut random)).into_iter().map(|step| if matches!(step, Step::Crash(_)) { Step::Crash(1) } else { step }).collect();
                [usize::MAX, 0].map(|budget| {
                    let mut out = run(&step, &[vec![NAME, NUMBER]], &steps, Way { budget, ..PLAIN }).out;
                    out.retain(|line| !line.starts_with("W "));
                    out
                })
            })
            .collect();
        assert!(outputs.windows(2).all(|pair| pair[0] == pair[1]), "{kind:?}");
    }
}

#[test]
fn keys_that_are_done_leave_no_memory() {
    for kind in [WindowKind::Tumble { size_ms: 10 }, WindowKind::Hop { slide_ms: 5, size_ms: 20 }, WindowKind::Cumulate { step_ms: 5, size_ms: 20 }] {
        let step = step(plain(kind), &[NUMBER], &[linear(), rest()].concat());
        let round = |round: i64| {
            let rows: Vec<Row> = (0..2_000).map(|key| row(round * 100, round * 2_000 + key, key)).collect();
            [Step::Rows(0, to_batch(&rows)), Step::Watermark(round * 100 + 50)]
        };
        let memory = |rounds: i64| run(&step, &[vec![NUMBER]], &(0..rounds).flat_map(round).collect::<Vec<_>>(), PLAIN).memory;
        assert!(memory(20) <= memory(2), "{kind:?}: {} then {}", memory(2), memory(20));
    }
}

#[test]
fn memory_stays_within_its_budget_with_state_ten_times_as_large() {
    const KEYS: i64 = 60_000;
    let rows: Vec<Row> = (0..2 * KEYS).map(|at| row(at % 50, at * 7_919 % KEYS, at)).collect();
    let mut steps: Vec<Step> = rows.chunks(5_000).flat_map(|rows| [Step::Rows(0, to_batch(rows)), Step::Barrier]).collect();
    let held = run(&step(plain(WindowKind::Tumble { size_ms: 50 }), &[NUMBER], &linear()), &[vec![NUMBER]], &steps, PLAIN).memory;
    let way = Way { budget: held / 10, ..PLAIN };
    for (kind, windows) in [(WindowKind::Tumble { size_ms: 50 }, 1), (WindowKind::Hop { slide_ms: 50, size_ms: 100 }, 2), (WindowKind::Cumulate { step_ms: 50, size_ms: 100 }, 2)] {
        let step = step(plain(kind), &[NUMBER], &linear());
        let outcome = run(&step, &[vec![NUMBER]], &steps, way);
        assert!(outcome.memory <= way.budget, "{kind:?}: {} of {}", outcome.memory, way.budget);
        steps.push(Step::Watermark(i64::MAX));
        let fired = run(&step, &[vec![NUMBER]], &steps, way);
        assert_eq!(fired.rows(), run(&step, &[vec![NUMBER]], &steps, PLAIN).rows());
        assert_eq!(fired.rows().len(), windows * KEYS as usize);
        steps.pop();
    }
}

#[test]
fn the_ends_of_time_are_times_too() {
    for kind in [WindowKind::Tumble { size_ms: 10 }, WindowKind::Hop { slide_ms: 5, size_ms: 20 }, WindowKind::Cumulate { step_ms: 5, size_ms: 20 }] {
        let step = step(plain(kind), &[NUMBER], &counts());
        let steps = [
            Step::Rows(0, to_batch(&[row(i64::MAX, 1, 0), row(i64::MAX - 1, 1, 0), row(0, 1, 0)])),
            Step::Watermark(1_000),
            Step::Barrier,
            Step::Crash(2),
            Step::Watermark(i64::MAX),
            Step::Rows(0, to_batch(&[row(i64::MIN, 1, 0), row(i64::MAX, 1, 0)])),
        ];
        let outcome = run(&step, &[vec![NUMBER]], &steps, PLAIN);
        assert_eq!(outcome.late.len(), 2, "{kind:?}");
        assert!(outcome.rows().len() >= 2, "{kind:?}: {:?}", outcome.rows());
    }
}

#[test]
fn attached_windows_are_taken_as_they_are() {
    let spec = plain(WindowKind::Tumble { size_ms: 10 });
    let fields = [("number", DataType::Int64), ("window_start", timestamps()), ("window_end", timestamps())];
    let input = schema(&fields);
    let count = AggregateCall { input: Arc::clone(&input), ..call(count_udaf(), &[], DataType::Int64) };
    let step = WindowAggregate {
        window: spec,
        windowing: Windowing::Attached { start: 1, end: 2 },
        keys: vec![0],
        aggregates: vec![count],
        edges: vec![WindowEdge::Start, WindowEdge::End],
        input: Arc::clone(&input),
        schema: schema(&[("number", DataType::Int64), ("count", DataType::Int64), ("window_start", timestamps()), ("window_end", timestamps())]),
    };
    // Two windows that end together, one that ends later, and a row that comes too late.
    let rows = |rows: &[(i64, i64, i64)]| {
        let number: Vec<_> = rows.iter().map(|row| Some(row.0)).collect();
        let columns = vec![ints(&number), times(&rows.iter().map(|row| row.1).collect::<Vec<_>>()), times(&rows.iter().map(|row| row.2).collect::<Vec<_>>())];
        Step::Rows(0, batch(&input, columns))
    };
    let steps = [rows(&[(1, 0, 10), (1, 5, 10), (1, 0, 10), (2, 0, 20)]), Step::Barrier, Step::Crash(0), Step::Watermark(9), rows(&[(1, 0, 10)]), Step::Watermark(19)];
    for way in ways() {
        let outcome = run(&step, &[vec![0]], &steps, way);
        let line = |number: i64, count: i64, start: i64, end: i64| format!("{number}|{count}|{}|{}", shown(start), shown(end));
        assert_eq!(outcome.rows(), [line(1, 1, 5, 10), line(1, 2, 0, 10), line(2, 1, 0, 20)], "{way:?}");
        assert_eq!(outcome.late.len(), 1);
    }
}
