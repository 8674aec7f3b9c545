//! The first step behind a decoder: computed columns, event time, filter and projection in one pass.
//!
//! Rows without an event time, or with one outside the plausible range, are refused here, while their record is still at
//! hand. A filter does not keep rows from moving the watermark: times of filtered rows are given too.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, TimestampMillisecondArray, UInt32Array},
    compute::cast,
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit, TimestampMillisecondType},
};
use pelton_core::{
    error::Result,
    source_step::{RowTimes, SourceRows, SourceStep, SourceStepFactory},
};

use crate::expressions::{Expression, Projector, internal, take_rows};

/// The time attribute of a table.
#[derive(Debug, Clone)]
pub struct TimeAttribute {
    /// Column of input and computed columns together that holds the event time.
    pub column: usize,
    /// The WATERMARK expression, over input and computed columns.
    pub watermark: Expression,
    /// Event times in ms that are believed; others are refused. `None`: all.
    pub plausible_ms: Option<Range<i64>>,
}

/// Computed columns, event time, filter, projection.
#[derive(Debug, Clone)]
pub struct SourceCalc {
    /// Decoded and metadata columns.
    pub input: SchemaRef,
    /// Computed columns over the input's; appended to them in this order.
    pub computed: Vec<(Expression, Arc<Field>)>,
    /// The time attribute, if the table has a WATERMARK.
    pub time: Option<TimeAttribute>,
    /// Over input and computed columns.
    pub predicate: Option<Expression>,
    /// One per output column, over input and computed columns.
    pub exprs: Vec<Expression>,
    /// Output columns.
    pub schema: SchemaRef,
}

impl SourceStepFactory for SourceCalc {
    fn create(&self) -> Result<Box<dyn SourceStep>> {
        let pass = (0..self.input.fields().len()).map(|index| {
            Arc::new(datafusion::physical_expr::expressions::Column::new(self.input.field(index).name(), index)) as Expression
        });
        let fields: Vec<_> = self.input.fields().iter().cloned().chain(self.computed.iter().map(|(_, field)| nullable(field))).collect();
        let computing = (!self.computed.is_empty()).then(|| Projector {
            predicate: None,
            exprs: pass.chain(self.computed.iter().map(|(expr, _)| Arc::clone(expr))).collect(),
            schema: Arc::new(Schema::new(fields)),
        });
        let output = Projector { predicate: self.predicate.clone(), exprs: self.exprs.clone(), schema: Arc::clone(&self.schema) };
        Ok(Box::new(Step { computing, time: self.time.clone(), output }))
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

fn nullable(field: &Field) -> Arc<Field> {
    Arc::new(field.clone().with_nullable(true))
}

struct Step {
    computing: Option<Projector>,
    time: Option<TimeAttribute>,
    output: Projector,
}

impl SourceStep for Step {
    fn apply(&mut self, decoded: RecordBatch) -> Result<SourceRows> {
        let mut bad: Vec<(u32, &'static str, String)> = Vec::new();
        // Which decoded row each row of `rows` is.
        let mut origin: Option<UInt32Array> = None;
        let mut rows = decoded;
        if let Some(computing) = &self.computing {
            let computed = computing.apply(&rows)?;
            bad.extend(computed.failures.into_iter().map(|failure| (failure.row, "compute", failure.reason)));
            rows = computed.batch;
            origin = computed.origin;
        }
        let mut times = None;
        if let Some(time) = &self.time {
            let (kept, refused, event_time, watermark) = event_times(time, &rows)?;
            let name = |row: u32| origin.as_ref().map_or(row, |origin| origin.value(row as usize));
            bad.extend(refused.into_iter().map(|(row, reason)| (name(row), "event-time", reason)));
            if let Some(kept) = kept {
                rows = take_rows(&rows, &kept)?;
                origin = Some(kept.values().iter().map(|&row| name(row)).collect());
            }
            times = Some((event_time, watermark));
        }
        let projected = self.output.apply(&rows)?;
        let name = |row: u32| origin.as_ref().map_or(row, |origin| origin.value(row as usize));
        bad.extend(projected.failures.iter().map(|failure| (name(failure.row), "project", failure.reason.clone())));
        let times = times.map(|(event_time, watermark)| RowTimes { batch_position: positions(projected.origin.as_ref(), rows.num_rows()), event_time, watermark });
        let final_origin = match (&projected.origin, &origin) {
            (None, None) => None,
            (None, Some(origin)) => Some(origin.values().to_vec()),
            (Some(kept), _) => Some(kept.values().iter().map(|&row| name(row)).collect()),
        };
        bad.sort_by_key(|(row, ..)| *row);
        Ok(SourceRows { batch: projected.batch, origin: final_origin, times, bad })
    }
}

/// For each of `rows` rows, how many of the kept ones come before it.
fn positions(kept: Option<&UInt32Array>, rows: usize) -> Vec<u32> {
    let Some(kept) = kept else { return (0..rows as u32).collect() };
    let mut positions = Vec::with_capacity(rows);
    let mut before = 0;
    for row in 0..rows as u32 {
        positions.push(before);
        if kept.values().get(before as usize) == Some(&row) {
            before += 1;
        }
    }
    positions
}

type Times = (Option<UInt32Array>, Vec<(u32, String)>, TimestampMillisecondArray, TimestampMillisecondArray);

/// Rows with a believable time (`None`: all), the refused ones, and the good rows' times and watermarks.
fn event_times(time: &TimeAttribute, rows: &RecordBatch) -> Result<Times> {
    let event_time = milliseconds(rows.column(time.column))?;
    let believed = |value: i64| time.plausible_ms.as_ref().is_none_or(|range| range.contains(&value));
    let all_good = event_time.null_count() == 0 && event_time.values().iter().all(|&value| believed(value));
    let (kept, refused, rows) = if all_good {
        (None, Vec::new(), rows.clone())
    } else {
        let (mut kept, mut refused) = (Vec::new(), Vec::new());
        for row in 0..event_time.len() {
            if event_time.is_null(row) {
                refused.push((row as u32, format!("`{}` is null, but it is the event time", rows.schema().field(time.column).name())));
            } else if !believed(event_time.value(row)) {
                refused.push((row as u32, format!("event time {} ms since 1970 is outside what is believed", event_time.value(row))));
            } else {
                kept.push(row as u32);
            }
        }
        let kept = UInt32Array::from(kept);
        let good = take_rows(rows, &kept)?;
        (Some(kept), refused, good)
    };
    let event_time = milliseconds(rows.column(time.column))?;
    let watermark = crate::expressions::evaluate(&time.watermark, &rows).map_err(|error| internal("watermark", &error))?;
    let watermark = milliseconds(&watermark)?;
    // A null watermark says nothing: it must not move anything.
    let watermark = if watermark.null_count() == 0 { watermark } else { watermark.iter().map(|value| Some(value.unwrap_or(i64::MIN))).collect() };
    Ok((kept, refused, event_time, watermark))
}

fn milliseconds(array: &ArrayRef) -> Result<TimestampMillisecondArray> {
    let wanted = DataType::Timestamp(TimeUnit::Millisecond, None);
    let array = match array.data_type() {
        DataType::Timestamp(TimeUnit::Millisecond, _) => Arc::clone(array),
        _ => cast(array, &wanted).map_err(|error| internal("event time", &error))?,
    };
    let array = array.as_primitive::<TimestampMillisecondType>().clone();
    Ok(TimestampMillisecondArray::new(array.values().clone(), array.nulls().cloned()))
}

