//! Errors that cross crates, told apart by what the caller should do about them.

use crate::position::{Offset, OperatorId, Partition};

/// What an operator, source, sink, format or state reports to the engine. Bad data is not here: it is a
/// [`crate::dead_letter::DeadLetter`].
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The script or an option asks for something that cannot be. Remedy: change the script. Exit code 2.
    #[error("{0}")]
    Script(String),
    /// A row cannot be processed and the policy is to stop (`'pelton.on-error'='fail'`), or too many were bad.
    /// Remedy: mend the data or change the policy. Exit code 1.
    #[error("{step}: {reason}{}", at(topic, partition, offset))]
    Data {
        /// The step that found it.
        step: String,
        /// What was found and what was expected.
        reason: String,
        /// Topic or file, empty when it is not known.
        topic: String,
        /// Kafka's partition.
        partition: Option<Partition>,
        /// Offset or line.
        offset: Option<Offset>,
    },
    /// Something outside does not answer (broker, disk that may come back). Remedy: try again with back-off.
    #[error("{action}: {reason}")]
    Unavailable {
        /// Verb and object: "read topic requests".
        action: String,
        /// What the other side said.
        reason: String,
    },
    /// A plugin broke its contract or its limits too often. Remedy: mend the plugin. Exit code 1.
    #[error("plugin {plugin}: {reason}")]
    Plugin {
        /// Its name in the script.
        plugin: String,
        /// Trap, limit and the tail of its stderr.
        reason: String,
    },
    /// Reading or writing failed for good (disk full, corrupt state, permission). Remedy: stop, go on from the last
    /// checkpoint once mended. Exit code 1, or 3 if it happens on recovery.
    #[error("{action}: {reason}")]
    Storage {
        /// Verb and object, with the path: "write state in /data/state".
        action: String,
        /// What the system said.
        reason: String,
    },
    /// The stored state does not fit this job. Remedy: `--fresh`, or the script it came from. Exit code 3.
    #[error("{0}")]
    Recovery(String),
    /// An invariant of ours does not hold. Remedy: report a bug. The task stops and recovery starts at the last checkpoint.
    #[error("bug in operator {}: {what}", operator.0)]
    Bug {
        /// Where.
        operator: OperatorId,
        /// What does not hold.
        what: String,
    },
}

fn at(topic: &str, partition: &Option<Partition>, offset: &Option<Offset>) -> String {
    let mut text = String::new();
    if !topic.is_empty() {
        text.push_str(&format!(" (at {topic}"));
        if let Some(Partition(partition)) = partition {
            text.push_str(&format!(", partition {partition}"));
        }
        if let Some(Offset(offset)) = offset {
            text.push_str(&format!(", offset {offset}"));
        }
        text.push(')');
    }
    text
}

/// Result of everything the engine calls.
pub type Result<T, E = RuntimeError> = std::result::Result<T, E>;
