//! The first step behind a decoder: computed columns, event time, filters and projections of one source.
//!
//! It stands apart from other operators because it runs while the raw records are still at hand, so that a row it
//! refuses becomes a dead letter with the record's own bytes and coordinates.

use arrow::{
    array::{RecordBatch, TimestampMillisecondArray},
    datatypes::SchemaRef,
};

use crate::error::Result;

/// What the step made of a decoded batch.
#[derive(Debug)]
pub struct SourceRows {
    /// Rows in input order, with the step's schema. Filters have been applied *unless* `event_times` is set, see there.
    pub batch: RecordBatch,
    /// Row `i` of `batch` came from row `origin[i]` of the input. `None`: one to one.
    pub origin: Option<Vec<u32>>,
    /// For a table with a watermark: the event time of *every* good input row, also of those a filter removed, since
    /// they move the watermark too. `None` for a table without.
    pub times: Option<RowTimes>,
    /// Input rows refused, with the step's name and the reason.
    pub bad: Vec<(u32, &'static str, String)>,
}

/// Event times of the good input rows, in input order.
#[derive(Debug)]
pub struct RowTimes {
    /// The table's time attribute, in ms; never null (null times are in `bad`).
    pub event_time: TimestampMillisecondArray,
    /// The value of the WATERMARK expression for each row: "no row at or before this is expected after this row".
    pub watermark: TimestampMillisecondArray,
    /// For each of these rows, how many rows of `batch` come before it: where to cut when a watermark must go between.
    pub batch_position: Vec<u32>,
}

/// Applied to each decoded batch by the source's worker. One per split.
pub trait SourceStep: Send {
    /// `decoded` holds the decoder's columns followed by the metadata columns that the node asked for, in that order.
    fn apply(&mut self, decoded: RecordBatch) -> Result<SourceRows>;
}

/// Makes a step per split.
pub trait SourceStepFactory: Send + Sync {
    /// A new step.
    fn create(&self) -> Result<Box<dyn SourceStep>>;

    /// Columns it emits.
    fn schema(&self) -> SchemaRef;
}
