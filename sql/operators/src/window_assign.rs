//! The window functions on their own: each row once per window it falls into.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, RecordBatch, TimestampMillisecondArray, UInt32Array},
    compute::cast,
    datatypes::{DataType, SchemaRef, TimeUnit, TimestampMillisecondType},
};
use pelton_core::{
    error::Result,
    operator::{Collector, Operator, OperatorContext, OperatorFactory},
};

use crate::{
    expressions::{internal, take_rows},
    window::WindowSpec,
};

/// Appends `window_start`, `window_end`, `window_time` to each row, once per window that holds it.
#[derive(Debug, Clone)]
pub struct WindowAssign {
    /// The windows.
    pub window: WindowSpec,
    /// The time attribute's column.
    pub time: usize,
    /// Output columns: the input's, then the three.
    pub schema: SchemaRef,
}

impl OperatorFactory for WindowAssign {
    fn create(&self, _worker: usize, _workers: usize) -> Result<Box<dyn Operator>> {
        Ok(Box::new(Assigner(self.clone())))
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

struct Assigner(WindowAssign);

impl Operator for Assigner {
    fn process(&mut self, _port: usize, batch: RecordBatch, _context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<()> {
        let spec = &self.0.window;
        let times = times_of(batch.column(self.0.time))?;
        let mut found = Found::default();
        for (row, time) in times.iter().enumerate() {
            let Some(time) = time else { continue };
            spec.windows(spec.pane_start(spec.axis_of(time)), |start, end| {
                found.rows.push(row as u32);
                found.starts.push(start);
                found.ends.push(end);
            });
            // A row may be in thousands of windows: what goes on is cut.
            if found.rows.len() >= BATCH_ROWS {
                self.send(&batch, std::mem::take(&mut found), out)?;
            }
        }
        self.send(&batch, found, out)
    }
}

/// Rows and their windows, columns side by side.
#[derive(Default)]
struct Found {
    rows: Vec<u32>,
    starts: Vec<i64>,
    ends: Vec<i64>,
}

/// Rows of one output batch, about.
const BATCH_ROWS: usize = 8192;

impl Assigner {
    fn send(&self, batch: &RecordBatch, found: Found, out: &mut dyn Collector) -> Result<()> {
        if found.rows.is_empty() {
            return Ok(());
        }
        let taken = take_rows(batch, &UInt32Array::from(found.rows))?;
        let mut columns = taken.columns().to_vec();
        columns.extend(edges(&self.0.window, &found.starts, &found.ends, &self.0.schema, columns.len()));
        out.batch(RecordBatch::try_new(Arc::clone(&self.0.schema), columns).map_err(|error| internal("windows", &error))?)
    }
}

/// The three window columns, in the types that `schema` has from column `first` on.
fn edges(spec: &WindowSpec, starts: &[i64], ends: &[i64], schema: &SchemaRef, first: usize) -> [ArrayRef; 3] {
    let time = ends.iter().map(|&end| window_time(spec, end));
    let time = typed(time.collect(), schema.field(first + 2).data_type());
    [Arc::new(TimestampMillisecondArray::from(starts.to_vec())), Arc::new(TimestampMillisecondArray::from(ends.to_vec())), time]
}

/// The last millisecond of a window that ends at `end` on the axis, as an instant.
pub(crate) fn window_time(spec: &WindowSpec, end: i64) -> i64 {
    spec.instant_of(end.saturating_sub(1))
}

/// Milliseconds as a timestamp of the wanted type (with or without zone).
pub(crate) fn typed(millis: Vec<i64>, wanted: &DataType) -> ArrayRef {
    let array = TimestampMillisecondArray::from(millis);
    match wanted {
        DataType::Timestamp(TimeUnit::Millisecond, zone) => Arc::new(array.with_timezone_opt(zone.clone())),
        _ => Arc::new(array),
    }
}

/// A time column in ms, whatever its unit.
pub(crate) fn times_of(column: &ArrayRef) -> Result<TimestampMillisecondArray> {
    let column = match column.data_type() {
        DataType::Timestamp(TimeUnit::Millisecond, _) => Arc::clone(column),
        DataType::Timestamp(_, zone) => cast(column, &DataType::Timestamp(TimeUnit::Millisecond, zone.clone())).map_err(|error| internal("event time", &error))?,
        _ => cast(column, &DataType::Timestamp(TimeUnit::Millisecond, None)).map_err(|error| internal("event time", &error))?,
    };
    Ok(column.as_primitive::<TimestampMillisecondType>().clone())
}
