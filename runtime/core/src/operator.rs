//! Operators: one step of a job, made once per worker and called from that worker's thread only.
//!
//! Order of calls: `open` once; then `process`, `watermark` and `barrier` in the order of the input; `end` once, after
//! the last watermark of a bounded input. Nothing is called concurrently. What goes to the [`Collector`] leaves in the
//! order of the calls.

use arrow::{array::RecordBatch, datatypes::SchemaRef};

use crate::{
    dead_letter::DeadLetter,
    error::Result,
    position::{Epoch, OperatorId},
    state::StateHandle,
    time::{Clock, Watermark},
};

/// Where an operator sends what it makes.
pub trait Collector {
    /// Rows for the operators behind this one. Empty batches are dropped.
    fn batch(&mut self, batch: RecordBatch) -> Result<()>;

    /// No row at or before this time follows. Must never go backwards; an equal one is dropped.
    fn watermark(&mut self, watermark: Watermark) -> Result<()>;
}

/// What a step may use besides its input: its state, the clock, and ways to tell of rows it had to give up.
pub struct OperatorContext<'a> {
    /// Who is called.
    pub operator: OperatorId,
    /// Its state for the key groups of this worker.
    pub state: &'a mut StateHandle,
    /// During `process`: the watermark of the input the rows came from, at least the operator's own. Whether a row of a
    /// join is late is decided by it: it follows that input's rows alone, so that lateness does not depend on how
    /// far the other input has been read.
    pub input_watermark: Watermark,
    /// Processing time.
    pub clock: &'a dyn Clock,
    /// Rows that this call gave up; the engine takes them after each call.
    pub dead_letters: &'a mut Vec<DeadLetter>,
    /// Late rows of this call, whole batches with the operator's input schema; the engine counts them and feeds `` `t$late` ``.
    pub late: &'a mut Vec<RecordBatch>,
}

/// One step of a job.
pub trait Operator: Send {
    /// Before everything else. On a restart the state holds the last checkpoint: read what must be resident.
    fn open(&mut self, context: &mut OperatorContext<'_>) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Rows of input `port`. Never empty.
    fn process(
        &mut self,
        port: usize,
        batch: RecordBatch,
        context: &mut OperatorContext<'_>,
        out: &mut dyn Collector,
    ) -> Result<()>;

    /// The minimum over the operator's live inputs has moved to `watermark`. The operator forwards it (or an earlier
    /// one, if it holds rows back) after the rows that it sets free.
    fn watermark(
        &mut self,
        watermark: Watermark,
        context: &mut OperatorContext<'_>,
        out: &mut dyn Collector,
    ) -> Result<()> {
        let _ = context;
        out.watermark(watermark)
    }

    /// Everything before belongs to `epoch`: put what a restart needs into `context.state`. The engine hands the
    /// state's changes over right after. Must be quick: rows wait meanwhile.
    fn barrier(&mut self, epoch: Epoch, context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<()> {
        let _ = (epoch, context, out);
        Ok(())
    }

    /// All inputs have ended (the last watermark came before).
    fn end(&mut self, context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<()> {
        let _ = (context, out);
        Ok(())
    }

    /// Estimate of the memory it holds, state and buffers, for the memory budget and the status line.
    fn memory_bytes(&self) -> usize {
        0
    }

    /// Asks the operator to hold at most `bytes` resident from now on; what does not fit is read back from its state.
    /// Operators without state ignore it.
    fn set_memory_budget(&mut self, bytes: usize) {
        let _ = bytes;
    }
}

/// Makes an operator for each worker. Shared by all workers; knows everything fixed at plan time.
pub trait OperatorFactory: Send + Sync {
    /// A new operator for `worker` of `workers`.
    fn create(&self, worker: usize, workers: usize) -> Result<Box<dyn Operator>>;

    /// Columns it emits.
    fn schema(&self) -> SchemaRef;
}
