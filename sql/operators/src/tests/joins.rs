//! Interval and window joins against a join of all rows with all rows.

use datafusion::{logical_expr::Operator as Op, physical_expr::expressions::BinaryExpr};

use super::*;
use crate::{IntervalJoin, JoinKey, JoinKind, WindowJoin, WindowKind, WindowSpec};

const KINDS: [JoinKind; 4] = [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full];

/// A row of a side: `id, key, time, end`.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    id: i64,
    key: Option<&'static str>,
    time: i64,
    end: i64,
}

fn side() -> SchemaRef {
    schema(&[("id", DataType::Int64), ("key", DataType::Utf8), ("time", timestamps()), ("end", timestamps())])
}

fn output(kind: JoinKind) -> SchemaRef {
    let fields: Vec<_> = side().fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect();
    let sides = if matches!(kind, JoinKind::Semi | JoinKind::Anti) { 1 } else { 2 };
    let all: Vec<(&str, DataType)> = (0..sides).flat_map(|_| fields.iter().map(|(name, data_type)| (name.as_str(), data_type.clone()))).collect();
    schema(&all)
}

fn to_batch(rows: &[Row]) -> RecordBatch {
    batch(
        &side(),
        vec![
            ints(&rows.iter().map(|row| Some(row.id)).collect::<Vec<_>>()),
            texts(&rows.iter().map(|row| row.key).collect::<Vec<_>>()),
            times(&rows.iter().map(|row| row.time).collect::<Vec<_>>()),
            times(&rows.iter().map(|row| row.end).collect::<Vec<_>>()),
        ],
    )
}

#[derive(Debug, Clone)]
enum Event {
    Row(usize, Row),
    Watermark(usize, i64),
}

/// Random rows of both sides; with `window`, times are the starts of windows of that length.
fn random_events(random: &mut Random, count: usize, window: Option<i64>) -> Vec<Event> {
    let keys = ["a", "b", "c"];
    let (mut events, mut time, mut watermarks) = (Vec::new(), 0, [i64::MIN; 2]);
    for id in 0..count as i64 {
        time += random.below(4) as i64;
        let back = if random.below(6) == 0 { random.below(40) as i64 } else { random.below(6) as i64 };
        let key = keys[random.below(3) as usize];
        let at = time - back;
        // Windows of two lengths that end together, as CUMULATE has them.
        let (start, end) = match window {
            Some(length) => {
                let start = at.div_euclid(length) * length;
                (start - if random.below(3) == 0 { length } else { 0 }, start + length)
            }
            None => (at, at),
        };
        events.push(Event::Row(random.below(2) as usize, Row { id, key: random.maybe(key), time: start, end }));
        if random.below(5) == 0 {
            // One side may be far behind the other.
            let side = random.below(2) as usize;
            watermarks[side] = watermarks[side].max(time - random.below([10, 40][side]) as i64);
            events.push(Event::Watermark(side, watermarks[side]));
        }
    }
    events.extend([0, 1].map(|side| Event::Watermark(side, i64::MAX)));
    events
}

fn script(events: &[Event], mut random: Option<&mut Random>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut open: Option<(usize, Vec<Row>)> = None;
    for event in events {
        let cut = random.as_deref_mut().map_or(9, |random| random.below(40));
        let flushes = cut < 4 || !matches!((event, &open), (Event::Row(side, _), Some((same, _))) if side == same);
        if flushes && let Some((side, rows)) = open.take() {
            steps.push(Step::Rows(side, to_batch(&rows)));
        }
        match (cut, random.as_deref_mut()) {
            (0..=2, _) => steps.push(Step::Barrier),
            (3, Some(random)) => steps.push(Step::Crash([0, 1, 2, 3][random.below(4) as usize])),
            _ => {}
        }
        match event {
            Event::Row(side, row) => open.get_or_insert_with(|| (*side, Vec::new())).1.push(row.clone()),
            Event::Watermark(side, value) => steps.push(Step::InputWatermark(*side, *value)),
        }
    }
    steps.push(Step::Barrier);
    steps
}

/// Joins all rows that were in time by `is_pair`.
fn oracle(kind: JoinKind, events: &[Event], is_late: impl Fn(&Row, i64) -> bool, is_pair: impl Fn(&Row, &Row) -> bool) -> (Vec<String>, usize) {
    let (mut sides, mut watermarks, mut late): ([Vec<Row>; 2], _, _) = (Default::default(), [i64::MIN; 2], 0);
    for event in events {
        match event {
            Event::Watermark(side, value) => watermarks[*side] = watermarks[*side].max(*value),
            // Late is what is behind its own input, however far the other is.
            Event::Row(side, row) if is_late(row, watermarks[*side]) => late += 1,
            Event::Row(side, row) => sides[*side].push(row.clone()),
        }
    }
    let line = |row: &Row| lines(&to_batch(std::slice::from_ref(row))).remove(0);
    let nulls = "null|null|null|null";
    let mut found = Vec::new();
    for left in &sides[0] {
        let partners: Vec<&Row> = sides[1].iter().filter(|right| is_pair(left, right)).collect();
        match kind {
            JoinKind::Semi if !partners.is_empty() => found.push(line(left)),
            JoinKind::Anti if partners.is_empty() => found.push(line(left)),
            JoinKind::Semi | JoinKind::Anti => {}
            JoinKind::Left | JoinKind::Full if partners.is_empty() => found.push(format!("{}|{nulls}", line(left))),
            _ => found.extend(partners.into_iter().map(|right| format!("{}|{}", line(left), line(right)))),
        }
    }
    if matches!(kind, JoinKind::Right | JoinKind::Full) {
        let alone = sides[1].iter().filter(|right| !sides[0].iter().any(|left| is_pair(left, right)));
        found.extend(alone.map(|right| format!("{nulls}|{}", line(right))));
    }
    found.sort();
    (found, late)
}

/// left id < right id.
fn ids_rise() -> Expression {
    Arc::new(BinaryExpr::new(Arc::new(Column::new("id", 0)), Op::Lt, Arc::new(Column::new("id", 4))))
}

fn keys_equal(left: &Row, right: &Row, nulls_equal: bool) -> bool {
    left.key == right.key && (nulls_equal || left.key.is_some())
}

fn check(step: &dyn OperatorFactory, events: &[Event], random: &mut Random, wanted: &(Vec<String>, usize), what: &str) {
    for way in ways() {
        for crashes in [false, true] {
            let steps = script(events, crashes.then_some(&mut *random));
            let outcome = run(step, &[vec![1], vec![1]], &steps, way);
            assert_eq!(outcome.rows(), wanted.0, "{what} {way:?} crashes {crashes}");
            assert_eq!(outcome.late.len(), wanted.1, "late rows, {what} {way:?}");
            assert!(outcome.letters.is_empty());
            // The last barrier comes after the last watermark.
            assert_eq!(outcome.stored, 0, "{what} {way:?} crashes {crashes}");
        }
    }
}

fn interval(kind: JoinKind, bounds: (i64, i64), nulls_equal: bool, residual: Option<Expression>) -> IntervalJoin {
    IntervalJoin {
        kind,
        keys: vec![JoinKey { left: 1, right: 1, nulls_equal }],
        left_time: 2,
        right_time: 2,
        lower_ms: bounds.0,
        upper_ms: bounds.1,
        residual,
        left: side(),
        right: side(),
        schema: output(kind),
    }
}

fn window(kind: JoinKind, nulls_equal: bool, residual: Option<Expression>) -> WindowJoin {
    WindowJoin {
        kind,
        keys: vec![JoinKey { left: 1, right: 1, nulls_equal }],
        left_window: (2, 3),
        right_window: (2, 3),
        window: WindowSpec { kind: WindowKind::Tumble { size_ms: 10 }, offset_ms: 0, zone: None },
        residual,
        left: side(),
        right: side(),
        schema: output(kind),
    }
}

#[test]
fn interval_joins_find_the_pairs_that_a_join_of_everything_does() {
    for seed in Random::seeds() {
        let mut random = Random(seed);
        let events = random_events(&mut random, 150, None);
        for kind in KINDS {
            for (bounds, nulls_equal, has_residual) in [((-5, 10), false, false), ((0, 0), true, true), ((-20, -3), false, true), ((4, 9), true, false)] {
                let step = interval(kind, bounds, nulls_equal, has_residual.then(ids_rise));
                let wanted = oracle(
                    kind,
                    &events,
                    |row, watermark| row.time <= watermark,
                    |left, right| {
                        let apart = right.time - left.time;
                        keys_equal(left, right, nulls_equal) && bounds.0 <= apart && apart <= bounds.1 && (!has_residual || left.id < right.id)
                    },
                );
                check(&step, &events, &mut random, &wanted, &format!("SEED={seed} {kind:?} {bounds:?} nulls equal {nulls_equal} residual {has_residual}"));
            }
        }
    }
}

#[test]
fn window_joins_find_the_pairs_that_a_join_of_everything_does() {
    for seed in Random::seeds() {
        let mut random = Random(seed);
        let events = random_events(&mut random, 150, Some(10));
        for kind in [KINDS.to_vec(), vec![JoinKind::Semi, JoinKind::Anti]].concat() {
            for (nulls_equal, has_residual) in [(false, false), (true, true)] {
                let step = window(kind, nulls_equal, has_residual.then(ids_rise));
                let wanted = oracle(
                    kind,
                    &events,
                    |row, watermark| watermark >= row.end - 1,
                    |left, right| keys_equal(left, right, nulls_equal) && (left.time, left.end) == (right.time, right.end) && (!has_residual || left.id < right.id),
                );
                check(&step, &events, &mut random, &wanted, &format!("SEED={seed} {kind:?} nulls equal {nulls_equal} residual {has_residual}"));
            }
        }
    }
}

fn at(id: i64, key: &'static str, time: i64) -> Row {
    Row { id, key: Some(key), time, end: time }
}

#[test]
fn an_interval_join_pads_a_row_once_when_its_bound_has_passed_and_holds_the_watermark_back() {
    let step = interval(JoinKind::Left, (-5, 10), false, None);
    let steps = [
        Step::Rows(0, to_batch(&[at(1, "a", 20), at(2, "b", 20)])),
        Step::Rows(1, to_batch(&[at(3, "b", 15)])),
        Step::Watermark(29),
        Step::Barrier,
        Step::Crash(0),
        Step::Watermark(30),
        Step::Watermark(40),
    ];
    let outcome = run(&step, &[vec![1], vec![1]], &steps, PLAIN);
    let line = |row: &Row| lines(&to_batch(std::slice::from_ref(row))).remove(0);
    let (one, two, three) = (line(&at(1, "a", 20)), line(&at(2, "b", 20)), line(&at(3, "b", 15)));
    assert_eq!(outcome.out, [format!("{two}|{three}"), "W 19".to_owned(), format!("{one}|null|null|null|null"), "W 20".to_owned(), "W 30".to_owned()]);
}

#[test]
fn a_row_behind_the_watermark_is_late_after_a_crash_too() {
    let interval = interval(JoinKind::Full, (0, 10), false, None);
    let window = window(JoinKind::Full, false, None);
    let factories: [&dyn OperatorFactory; 2] = [&interval, &window];
    for factory in factories {
        let late = to_batch(&[at(1, "a", 20)]);
        let steps = [Step::Rows(0, to_batch(&[at(2, "b", 90)])), Step::Watermark(50), Step::Barrier, Step::Crash(2), Step::Rows(0, late.clone()), Step::Rows(1, late)];
        assert_eq!(run(factory, &[vec![1], vec![1]], &steps, PLAIN).late.len(), 2);
    }
}

#[test]
fn joins_of_rows_that_are_done_leave_no_memory() {
    let step = interval(JoinKind::Full, (-5, 5), false, None);
    let round = |round: i64| {
        let rows: Vec<Row> = (0..500).map(|id| at(id, "a", round * 100 + id % 50)).collect();
        [Step::Rows(0, to_batch(&rows[..20])), Step::Rows(1, to_batch(&rows)), Step::Barrier, Step::Watermark(round * 100 + 80), Step::Barrier]
    };
    let memory = |rounds: i64| run(&step, &[vec![1], vec![1]], &(0..rounds).flat_map(round).collect::<Vec<_>>(), PLAIN).memory;
    assert!(memory(10) <= memory(2), "{} then {}", memory(2), memory(10));
}

#[test]
fn a_condition_that_fails_on_a_pair_costs_that_pair() {
    // 1 / (left id - right id) = 1 fails where the ids are equal.
    let difference = Arc::new(BinaryExpr::new(Arc::new(Column::new("id", 0)), Op::Minus, Arc::new(Column::new("id", 4))));
    let one = || datafusion::physical_expr::expressions::lit(1_i64);
    let condition = Arc::new(BinaryExpr::new(Arc::new(BinaryExpr::new(one(), Op::Divide, difference)), Op::Eq, one()));
    let step = interval(JoinKind::Inner, (0, 0), false, Some(condition));
    let steps = [Step::Rows(0, to_batch(&[at(1, "a", 0), at(2, "a", 0)])), Step::Rows(1, to_batch(&[at(1, "a", 0)])), Step::Watermark(i64::MAX)];
    let outcome = run(&step, &[vec![1], vec![1]], &steps, PLAIN);
    assert_eq!(outcome.rows().len(), 1);
    assert_eq!(outcome.letters.len(), 1);
    assert_eq!(outcome.letters[0].step, "interval join");
    assert!(outcome.letters[0].reason.to_lowercase().contains("zero"), "{:?}", outcome.letters[0]);
}
