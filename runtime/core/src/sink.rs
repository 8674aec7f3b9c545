//! Sinks: where results go. Implementations live in `runtime/connect` and `runtime/kafka`.

use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};

use crate::{
    error::Result,
    position::{Epoch, SplitId},
    records::OutputRecords,
    source::SplitPosition,
};

/// What a sink must remember to finish an epoch after a crash; opaque, stored in the epoch's checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared(pub Vec<u8>);

/// One table's sink on one worker.
///
/// Call order: `recover` once; then writes, each epoch closed by `prepare` → (the checkpoint becomes durable) →
/// `commit`. Writes of the next epoch may come between `prepare` and `commit`, and must not become visible with it.
/// After a crash, `recover` gets what was prepared for the last durable epoch: it finishes that epoch (again: it may
/// already be finished) and removes whatever later epochs left behind.
pub trait Sink: Send {
    /// Whether rows must be encoded before `write` (`true`: files, Kafka) or are taken as columns (print, blackhole).
    fn takes_records(&self) -> bool;

    /// Finishes or removes what a run before this one left. `prepared` holds the entries of all workers of that run:
    /// exactly one worker gets them, the others get an empty slice.
    fn recover(&mut self, epoch: Epoch, prepared: &[Prepared]) -> Result<()>;

    /// Takes a batch as columns. Called only if `takes_records` is false.
    fn write_batch(&mut self, batch: &RecordBatch) -> Result<()>;

    /// Takes a batch as records. Called only if `takes_records` is true. Records it cannot take (too large for the
    /// topic, …) come back by index with a reason; they become dead letters.
    fn write_records(&mut self, records: &OutputRecords) -> Result<Vec<(u32, String)>>;

    /// Gives what was written a chance to leave: called when the worker has nothing else to do, and after each round.
    fn poll(&mut self) -> Result<()> {
        Ok(())
    }

    /// Flushes everything written so far, so that only `commit` is missing to make it visible.
    fn prepare(&mut self, epoch: Epoch) -> Result<Prepared>;

    /// Makes the epoch visible. Must be idempotent.
    fn commit(&mut self, epoch: Epoch) -> Result<()>;

    /// The input has ended and its last epoch is committed.
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Transactions that span all workers' writes to one external system and carry the source's offsets (Kafka).
///
/// For each epoch the engine calls: every worker's `Sink::prepare` → state is stored as *pending* → `commit` here →
/// state is applied → every worker's `Sink::commit`. If the process dies in between, [`TransactionCoordinator::last_committed`]
/// tells the next start whether the pending state counts.
pub trait TransactionCoordinator: Send {
    /// Settles a dangling transaction and tells the last epoch that was committed, `None` if there is none.
    /// Called once at start, before any source or sink is opened.
    fn last_committed(&mut self) -> Result<Option<Epoch>>;

    /// Commits the epoch's records together with the positions of the sources, atomically.
    fn commit(&mut self, epoch: Epoch, positions: &[(SplitId, SplitPosition)]) -> Result<()>;
}
