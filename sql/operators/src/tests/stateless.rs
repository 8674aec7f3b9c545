//! Steps without state: calc, source step, window functions, UNNEST, UNION ALL.

use arrow::array::{Int32Array, ListArray, MapArray, StructArray};
use arrow::{buffer::OffsetBuffer, datatypes::Int32Type};
use datafusion::{logical_expr::Operator as Op, physical_expr::expressions::{BinaryExpr, lit}};
use pelton_core::source_step::SourceStepFactory as _;

use super::*;
use crate::{Calc, SourceCalc, TimeAttribute, Union, Unnest, WindowAssign, WindowKind, WindowSpec};

fn binary(left: Expression, op: Op, right: Expression) -> Expression {
    Arc::new(BinaryExpr::new(left, op, right))
}

fn numbers(values: &[Option<i64>]) -> RecordBatch {
    batch(&schema(&[("n", DataType::Int64)]), vec![ints(values)])
}

#[test]
fn a_row_whose_expression_fails_costs_itself_alone() {
    let calc = Calc {
        predicate: Some(binary(column(0), Op::NotEq, lit(7_i64))),
        exprs: vec![binary(lit(100_i64), Op::Divide, column(0))],
        schema: schema(&[("q", DataType::Int64)]),
    };
    let rows = numbers(&[Some(1), Some(0), Some(7), None, Some(50), Some(0)]);
    for way in ways() {
        let outcome = run(&calc, &[vec![]], &[Step::Rows(0, rows.clone())], way);
        assert_eq!(outcome.rows(), ["100", "2"], "{way:?}");
        let rows: Vec<_> = outcome.letters.iter().map(|letter| String::from_utf8_lossy(letter.value.as_deref().expect("the row stands in it")).into_owned()).collect();
        assert_eq!(rows, [r#"{"n":0}"#, r#"{"n":0}"#]);
        assert!(outcome.letters[0].reason.to_lowercase().contains("zero"), "{}", outcome.letters[0].reason);
    }
}

fn source(predicate: Option<Expression>) -> SourceCalc {
    let input = schema(&[("n", DataType::Int64), ("ts", timestamps())]);
    SourceCalc {
        input,
        computed: vec![(binary(lit(60_i64), Op::Divide, column(0)), Arc::new(Field::new("c", DataType::Int64, true)))],
        time: Some(TimeAttribute { column: 1, watermark: column(1), plausible_ms: Some(0..1_000) }),
        predicate,
        exprs: vec![column(2), column(1)],
        schema: schema(&[("c", DataType::Int64), ("ts", timestamps())]),
    }
}

fn decoded(rows: &[(Option<i64>, Option<i64>)]) -> RecordBatch {
    let times = TimestampMillisecondArray::from(rows.iter().map(|row| row.1).collect::<Vec<_>>());
    batch(&schema(&[("n", DataType::Int64), ("ts", timestamps())]), vec![ints(&rows.iter().map(|row| row.0).collect::<Vec<_>>()), Arc::new(times)])
}

#[test]
fn the_source_step_refuses_rows_by_step_and_tells_where_rows_came_from() {
    let mut step = source(Some(binary(column(2), Op::Gt, lit(5_i64)))).create().expect("the step is sound");
    // Good, fails to compute, no time, filtered, from the future, good.
    let rows = step.apply(decoded(&[(Some(1), Some(10)), (Some(0), Some(20)), (Some(2), None), (Some(60), Some(30)), (Some(3), Some(1_000)), (Some(4), Some(40))]));
    let rows = rows.expect("bad rows are no error");
    assert_eq!(lines(&rows.batch), [format!("60|{}", shown(10)), format!("15|{}", shown(40))]);
    assert_eq!(rows.origin, Some(vec![0, 5]));
    assert_eq!(rows.bad.iter().map(|(row, step, _)| (*row, *step)).collect::<Vec<_>>(), [(1, "compute"), (2, "event-time"), (4, "event-time")]);
    let times = rows.times.expect("the table has a watermark");
    // The filtered row moves the watermark too; one row of the batch comes before it.
    assert_eq!(times.event_time.values().to_vec(), [10, 30, 40]);
    assert_eq!(times.watermark.values().to_vec(), [10, 30, 40]);
    assert_eq!(times.batch_position, [0, 1, 1]);
}

#[test]
fn rows_that_are_all_good_come_from_themselves() {
    let mut step = source(None).create().expect("the step is sound");
    let rows = step.apply(decoded(&[(Some(1), Some(10)), (Some(2), Some(20))])).expect("rows are good");
    assert_eq!((rows.origin, rows.bad.len(), rows.times.expect("watermark").batch_position), (None, 0, vec![0, 1]));
    let rows = step.apply(decoded(&[(None, None)])).expect("bad rows are no error");
    assert_eq!((rows.batch.num_rows(), rows.bad.len()), (0, 1));
}

#[test]
fn window_functions_give_a_row_for_each_window() {
    let input = schema(&[("n", DataType::Int64), ("ts", timestamps())]);
    let output = schema(&[("n", DataType::Int64), ("ts", timestamps()), ("window_start", timestamps()), ("window_end", timestamps()), ("window_time", timestamps())]);
    let assign = WindowAssign { window: WindowSpec { kind: WindowKind::Hop { slide_ms: 5, size_ms: 10 }, offset_ms: 0, zone: None }, time: 1, schema: output };
    let rows = batch(&input, vec![ints(&[Some(1)]), times(&[7])]);
    let outcome = run(&assign, &[vec![]], &[Step::Rows(0, rows)], PLAIN);
    let line = |start: i64| format!("1|{}|{}|{}|{}", shown(7), shown(start), shown(start + 10), shown(start + 9));
    assert_eq!(outcome.out, [line(0), line(5)]);
}

#[test]
fn unnest_takes_lists_of_rows_and_maps_apart() {
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(4)])]);
    let unnest = |list: ArrayRef, outer: bool, ordinality: bool, columns: &[(&str, DataType)]| {
        let input = schema(&[("n", DataType::Int64), ("list", list.data_type().clone())]);
        let step = Unnest { list: column(1), list_type: list.data_type().clone(), outer, ordinality, schema: schema(&[&[("n", DataType::Int64), ("list", list.data_type().clone())], columns].concat()) };
        let numbers: Vec<_> = (0..list.len() as i64).map(Some).collect();
        let outcome = run(&step, &[vec![]], &[Step::Rows(0, batch(&input, vec![ints(&numbers), list]))], PLAIN);
        // Without the list itself.
        outcome.out.iter().map(|line| { let mut parts: Vec<_> = line.split('|').collect(); parts.remove(1); parts.join("|") }).collect::<Vec<_>>()
    };
    let plain = [("e", DataType::Int32)];
    assert_eq!(unnest(Arc::new(list.clone()), false, false, &plain), ["0|1", "0|null", "3|4"]);
    let numbered = [("e", DataType::Int32), ("o", DataType::Int32)];
    assert_eq!(unnest(Arc::new(list.slice(1, 3)), true, true, &numbered), ["0|null|null", "1|null|null", "2|4|1"]);

    let fields = vec![Field::new("key", DataType::Int32, false), Field::new("value", DataType::Utf8, true)];
    let entries = StructArray::new(fields.into(), vec![Arc::new(Int32Array::from(vec![1, 2, 3])), texts(&[Some("x"), None, Some("z")])], None);
    let rows = ListArray::new(Arc::new(Field::new("item", entries.data_type().clone(), true)), OffsetBuffer::from_lengths([2, 0, 1]), Arc::new(entries.clone()), None);
    let two = [("k", DataType::Int32), ("v", DataType::Utf8)];
    assert_eq!(unnest(Arc::new(rows), false, false, &two), ["0|1|x", "0|2|null", "2|3|z"]);
    let map = MapArray::new(Arc::new(Field::new("entries", entries.data_type().clone(), false)), OffsetBuffer::from_lengths([1, 2]), entries, None, false);
    assert_eq!(unnest(Arc::new(map), false, false, &two), ["0|1|x", "1|2|null", "1|3|z"]);
}

#[test]
fn a_union_passes_every_input_on_under_its_own_names() {
    let union = Union { schema: schema(&[("m", DataType::Int64)]) };
    let outcome = run(&union, &[vec![], vec![]], &[Step::Rows(1, numbers(&[Some(2)])), Step::Rows(0, numbers(&[None])), Step::Watermark(3)], PLAIN);
    assert_eq!(outcome.out, ["2", "null", "W 3"]);
}
