//! Dead letters: records that could not be processed, with everything needed to find, mend and replay them.

use serde::{Deserialize, Serialize};

use crate::position::{Offset, Partition};

/// A record that left the way. The original key, value and headers are unchanged; what went wrong stands beside them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The table it came from (or was going to).
    pub table: String,
    /// The step that refused it: `decode`, `event-time`, `project`, `plugin intent`, `encode`, …
    pub step: String,
    /// What was found and what was expected.
    pub reason: String,
    /// Topic or file; empty if the row was made inside the job.
    pub topic: String,
    /// Kafka's partition, 0 elsewhere.
    pub partition: Partition,
    /// Offset or line (from 0); -1 if the row was made inside the job.
    pub offset: Offset,
    /// Event time or record timestamp in ms, if known.
    pub timestamp_ms: Option<i64>,
    /// The record's key.
    pub key: Option<Vec<u8>>,
    /// The record's value; for a row made inside the job, the row as JSON.
    pub value: Option<Vec<u8>>,
    /// The record's headers.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// `name version hash` of the plugin that refused it or trapped on it.
    pub plugin: Option<String>,
}
