//! How a store is opened.

use std::path::PathBuf;

/// Settings of a [`crate::Store`].
#[derive(Debug, Clone)]
pub struct StateSettings {
    /// Folder of the database; made if it is not there. One process at a time.
    pub dir: PathBuf,
    /// Bytes for block cache (with indexes and filters) and write buffers together. At the limit blocks are dropped and
    /// read again, and write buffers are written out. Not counted: the batch of the epoch that is being written
    /// (`pelton.checkpoint.dirty-bytes` bounds it), some 100 kB per open file (512 at most), and what operators hold,
    /// which the engine budgets itself. Too small: reads go to disk again and again; too large: the machine swaps.
    pub memory_bytes: usize,
}
