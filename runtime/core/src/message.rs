//! What flows between operators.

use arrow::array::RecordBatch;

use crate::{position::Epoch, time::Watermark};

/// Pushed along every edge of the graph, in order.
#[derive(Debug, Clone)]
pub enum Message {
    /// Rows.
    Batch(RecordBatch),
    /// No row at or before this time is expected any more.
    Watermark(Watermark),
    /// Everything before belongs to the checkpoint, nothing after does.
    Barrier(Epoch),
    /// Nothing comes after. On a bounded input a `Watermark::MAX` comes before it.
    End,
}
