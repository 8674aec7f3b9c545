//! What the outside may tell a running job, and what it may read of it.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
};

/// Stops a running job. Cheap to clone; may be used from any thread or signal handler.
#[derive(Debug, Clone, Default)]
pub struct Control {
    stop: Arc<AtomicBool>,
}

impl Control {
    /// Asks the job to stop: no more polling, a last checkpoint, then the end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was asked for.
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Counters of a running job. Written by workers once per batch, read by anyone.
#[derive(Debug, Default)]
pub struct Progress {
    pub(crate) rows_in: AtomicU64,
    pub(crate) rows_out: AtomicU64,
    pub(crate) bad: AtomicU64,
    pub(crate) late: AtomicU64,
    /// Watermark in ms and lag of each worker. A lock because it is touched some times a second only.
    workers: Mutex<Vec<(i64, u64)>>,
    pub(crate) epoch: AtomicU64,
    pub(crate) checkpoint_at_ms: AtomicI64,
    pub(crate) state_bytes: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgressReport {
    /// Records read.
    pub rows_in: u64,
    /// Rows given to sinks.
    pub rows_out: u64,
    /// Dead letters.
    pub bad: u64,
    /// Rows late for a window or join.
    pub late: u64,
    /// The lowest watermark of the sources in ms, `None` before the first.
    pub watermark_ms: Option<i64>,
    /// Records waiting behind the sources' positions, as far as sources can tell.
    pub lag: u64,
    /// Last epoch that is durable.
    pub epoch: u64,
    /// When it became so, in ms since 1970; 0 before the first.
    pub checkpoint_at_ms: i64,
    /// Bytes of the state on disk and in write buffers.
    pub state_bytes: u64,
}

impl Progress {
    /// Reads the counters.
    pub fn report(&self) -> ProgressReport {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let watermark = workers.iter().map(|(watermark, _)| *watermark).min();
        ProgressReport {
            rows_in: self.rows_in.load(Ordering::Relaxed),
            rows_out: self.rows_out.load(Ordering::Relaxed),
            bad: self.bad.load(Ordering::Relaxed),
            late: self.late.load(Ordering::Relaxed),
            watermark_ms: watermark.filter(|watermark| *watermark != i64::MAX && *watermark != i64::MIN),
            lag: workers.iter().map(|(_, lag)| lag).sum(),
            epoch: self.epoch.load(Ordering::Relaxed),
            checkpoint_at_ms: self.checkpoint_at_ms.load(Ordering::Relaxed),
            state_bytes: self.state_bytes.load(Ordering::Relaxed),
        }
    }

    /// Says how far a worker's sources are: the lowest watermark (`i64::MAX` when they have none) and the lag.
    pub(crate) fn set_worker(&self, worker: usize, watermark_ms: i64, lag: u64) {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        if workers.len() <= worker {
            workers.resize(worker + 1, (i64::MAX, 0));
        }
        workers[worker] = (watermark_ms, lag);
    }

    pub(crate) fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(count as u64, Ordering::Relaxed);
    }
}
