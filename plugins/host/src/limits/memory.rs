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

#[cfg(test)]
mod tests {
    use wasmtime::{Engine, Instance, Module, Store};

    use super::*;

    /// `(module (table 1 funcref) (memory 1) (func (export "table") (param i32) (result i32) ref.null func local.get 0
    /// table.grow 0) (func (export "memory") (param i32) (result i32) local.get 0 memory.grow))`
    const GROWS: &[u8] = &[
        0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0, // magic, version
        1, 6, 1, 0x60, 1, 0x7f, 1, 0x7f, // type i32 → i32
        3, 3, 2, 0, 0, // two functions
        4, 4, 1, 0x70, 0, 1, // table
        5, 3, 1, 0, 1, // memory
        7, 18, 2, 5, b't', b'a', b'b', b'l', b'e', 0, 0, 6, b'm', b'e', b'm', b'o', b'r', b'y', 0, 1, // exports
        10, 18, 2, 9, 0, 0xd0, 0x70, 0x20, 0, 0xfc, 0x0f, 0, 0x0b, 6, 0, 0x20, 0, 0x40, 0, 0x0b, // code
    ];

    fn check(export: &str, steps: &[(i32, i32)], expected: &str) {
        let engine = Engine::default();
        let module = Module::new(&engine, GROWS).expect("module");
        let mut store = Store::new(&engine, MemoryLimit::new(10 << 16));
        store.limiter(|limit| limit);
        let instance = Instance::new(&mut store, &module, &[]).expect("instance");
        let grow = instance.get_typed_func::<i32, i32>(&mut store, export).expect("export");
        for (by, before) in steps {
            assert_eq!(grow.call(&mut store, *by).expect("grow never traps"), *before, "{export} by {by}");
        }
        assert_eq!(store.data_mut().take_hit().as_deref(), Some(expected));
    }

    #[test]
    fn tables_do_not_grow_past_their_limit() {
        check(
            "table",
            &[(99_000, 1), (1_000, -1), (999, 99_001), (i32::MAX, -1), (1, -1)],
            "needs 100001 table elements, more than the limit of 100000",
        );
    }

    #[test]
    fn memory_does_not_grow_past_its_limit() {
        check("memory", &[(9, 1), (1, -1)], "needs 720896 bytes of memory, more than its limit of 655360");
    }
}
