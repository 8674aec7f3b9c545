//! What the host keeps for one instance: its limits' counters, its view of time, state and logs.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use wasmtime::component::ResourceTable;

use crate::{
    imports::state::StateView,
    limits::{
        hostcalls::HostCalls,
        log::{LogLimit, StderrTail},
        memory::MemoryLimit,
        metrics::Metrics,
        time::Deadline,
    },
    options::PluginOptions,
};

/// The times a call sees.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CallTime {
    pub(crate) event_ms: i64,
    pub(crate) processing_ms: i64,
}

/// What all instances of a plugin share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Its name in the script.
    pub(crate) name: String,
    pub(crate) options: PluginOptions,
    pub(crate) assets: BTreeMap<String, Vec<u8>>,
    /// What its instances counted. A lock, taken once a call and only if the guest counted something.
    pub(crate) metrics: Mutex<Metrics>,
}

/// The data of an instance's store.
pub(crate) struct Guest {
    // Fixed at start.
    pub(crate) shared: Arc<Shared>,
    // Changing with each call.
    pub(crate) time: CallTime,
    pub(crate) deadline: Deadline,
    pub(crate) host_calls: HostCalls,
    pub(crate) state: StateView,
    pub(crate) metrics: Metrics,
    // Changing with time.
    pub(crate) memory: MemoryLimit,
    pub(crate) log: LogLimit,
    pub(crate) stderr: StderrTail,
    pub(crate) random: u64,
    // Handles.
    pub(crate) resources: ResourceTable,
}

impl Guest {
    pub(crate) fn new(shared: Arc<Shared>, state: StateView) -> Self {
        let mut resources = ResourceTable::new();
        resources.set_max_capacity(RESOURCES_MAX);
        let limits = &shared.options.limits;
        Self {
            memory: MemoryLimit::new(limits.memory_bytes),
            log: LogLimit::new(limits.log_lines_per_second),
            time: CallTime::default(),
            deadline: Deadline::none_yet(),
            host_calls: HostCalls::new(),
            state,
            metrics: Metrics::default(),
            stderr: StderrTail::default(),
            random: 0x5045_4c54_4f4e,
            resources,
            shared,
        }
    }

    /// Random to the guest, the same on every run.
    pub(crate) fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Handles an instance may hold at a time: buckets, WASI streams.
const RESOURCES_MAX: usize = 1_000;
