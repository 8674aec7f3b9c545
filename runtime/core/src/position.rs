//! Positions: which record, which partition, which checkpoint. Each has its own type, so that they cannot be mixed up.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// Names one split of a source: a Kafka partition (`topic/3`), a file, a generator. Stable across restarts: resume
/// positions are stored under it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SplitId(pub Arc<str>);

impl fmt::Display for SplitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A Kafka partition number, 0 for sources without partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Partition(pub i32);

/// One record: Kafka's offset, the line number (from 0) of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Offset(pub i64);

impl Offset {
    /// Where to go on once this record is done.
    pub fn resume_after(self) -> ResumeOffset {
        ResumeOffset(self.0.saturating_add(1))
    }
}

/// The first record not yet done: what is committed, and where a restart begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct ResumeOffset(pub i64);

/// Number of a checkpoint, and of the rows between it and the one before. Starts at 1; 0 means "none yet".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identity of an operator in a job's graph: part of every state key, so it must stay the same across restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OperatorId(pub u32);
