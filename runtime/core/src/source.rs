//! Sources: where records come from. Implementations live in `runtime/connect` and `runtime/kafka`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    error::Result,
    position::{Epoch, SplitId},
    records::Records,
};

/// Which parts of a record somebody needs; the others are not copied. Values and offsets always are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct RecordParts {
    /// Record keys.
    pub keys: bool,
    /// Record headers.
    pub headers: bool,
    /// Record timestamps.
    pub timestamps: bool,
}

/// Where a split stands: opaque to the engine, stored with every checkpoint under the split's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitPosition(pub Vec<u8>);

/// A change of the set of splits this worker reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SplitChange {
    /// A new split; reading begins where `restore` said, else at the table's start mode.
    Added(SplitId),
    /// The split was taken away (rebalance). Its position is no longer ours to store.
    Revoked(SplitId),
}

/// Outcome of one poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polled {
    /// At least one record was appended.
    Records,
    /// Nothing there now; more may come.
    Pending,
    /// This split is at its end for good.
    End,
}

/// One table's source on one worker.
///
/// Call order: `restore` once with the positions of the last checkpoint (all splits of the table, also those of other
/// workers: a split finds its own); then, until the end, `changes`, `poll` per split, and `wait` when every split is
/// pending. `positions` is called at a barrier and must describe exactly the records handed out so far;
/// `committed` follows once that checkpoint is durable. Nothing here blocks except `wait`.
pub trait Source: Send {
    /// Where each split was at the checkpoint we start from; empty on a first start.
    fn restore(&mut self, positions: &[(SplitId, SplitPosition)]) -> Result<()>;

    /// Splits gained or lost since the last call. The first call returns the initial ones.
    fn changes(&mut self) -> Result<Vec<SplitChange>>;

    /// Appends up to `max_rows` records of `split` to `into` (which the caller has cleared) and sets its topic and
    /// partition. Never blocks.
    fn poll(&mut self, split: &SplitId, max_rows: usize, into: &mut Records) -> Result<Polled>;

    /// Blocks until something may have come, or for `timeout`.
    fn wait(&mut self, timeout: Duration);

    /// The position after the last record handed out, for each split.
    fn positions(&mut self) -> Result<Vec<(SplitId, SplitPosition)>>;

    /// The checkpoint `epoch` is durable; `positions` are those that were given for it.
    fn committed(&mut self, epoch: Epoch, positions: &[(SplitId, SplitPosition)]) -> Result<()>;

    /// Whether no split will ever be added any more (a bounded source): with all splits at their end it is done.
    fn is_bounded(&self) -> bool;

    /// Whether the first set of splits is known. Until it is, a worker without splits is not idle: its share may hold
    /// rows that are earlier than all others'.
    fn is_assigned(&self) -> bool {
        true
    }

    /// Records that are waiting behind the position of each split, summed, if the source can tell (consumer lag).
    fn lag(&self) -> Option<u64> {
        None
    }
}
