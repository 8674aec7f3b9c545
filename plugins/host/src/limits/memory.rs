//! Memory: bytes of all linear memories of an instance together, from the job's `memory`, 64 MiB by default.
//!
//! At the limit `memory.grow` says no, as on a machine without memory; most guests then abort, which is a trap. What the
//! host keeps for the guest is bounded by `output`, `state` and `log`. Table elements are counted in `tables`.

use wasmtime::{ResourceLimiter, Result};

use crate::limits::tables;

/// Counts what one instance holds.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    bytes_max: usize,
    bytes: usize,
    elements: usize,
    /// The limit that was hit last, for the message of the trap that follows.
    hit: Option<String>,
}

impl MemoryLimit {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, elements: 0, hit: None }
    }

    /// The limit hit since the last call of this.
    pub(crate) fn take_hit(&mut self) -> Option<String> {
        self.hit.take()
    }
}

impl ResourceLimiter for MemoryLimit {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        let total = self.bytes.saturating_add(desired.saturating_sub(current));
        if total > self.bytes_max {
            self.hit = Some(format!("needs {total} bytes of memory, more than its limit of {}", self.bytes_max));
            return Ok(false);
        }
        self.bytes = total;
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        let total = self.elements.saturating_add(desired.saturating_sub(current));
        if total > tables::ELEMENTS_MAX {
            self.hit = Some(format!("needs {total} table elements, more than the limit of {}", tables::ELEMENTS_MAX));
            return Ok(false);
        }
        self.elements = total;
        Ok(true)
    }

    fn instances(&self) -> usize {
        tables::INSTANCES_MAX
    }

    fn tables(&self) -> usize {
        tables::TABLES_MAX
    }

    fn memories(&self) -> usize {
        tables::MEMORIES_MAX
    }
}
