//! Failpoints: named steps at which a test can let the process die, as `kill -9` would.
//!
//! `PELTON_FAILPOINT=name` dies the first time the step is reached, `name:3` the third time. In tests inside a process
//! [`crate::Components::fail_at`] makes the step return an error instead. The names are those in `coordinator.rs` and
//! `worker.rs`; without the variable a step costs one load.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use pelton_core::error::{Result, RuntimeError};

/// A step to fail at, shared by the threads of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failpoints(Option<Arc<Mutex<(String, u64)>>>);

impl Failpoints {
    pub(crate) fn at(step: Option<(&str, u64)>) -> Self {
        Self(step.map(|(name, times)| Arc::new(Mutex::new((name.to_owned(), times)))))
    }

    /// Fails if this is the step, and the time, that was asked for.
    pub(crate) fn reach(&self, step: &str) -> Result<()> {
        if let Some((name, left)) = from_environment()
            && name == step
            && left.fetch_sub(1, Ordering::Relaxed) == 1
        {
            std::process::abort();
        }
        if let Some(point) = &self.0 {
            let mut point = point.lock().unwrap_or_else(PoisonError::into_inner);
            if point.0 == step && point.1 > 0 {
                point.1 -= 1;
                if point.1 == 0 {
                    return Err(RuntimeError::Unavailable { action: format!("pass failpoint {step}"), reason: "a test asked for it".to_owned() });
                }
            }
        }
        Ok(())
    }
}

fn from_environment() -> Option<&'static (String, AtomicU64)> {
    static POINT: OnceLock<Option<(String, AtomicU64)>> = OnceLock::new();
    POINT
        .get_or_init(|| {
            let text = std::env::var("PELTON_FAILPOINT").ok()?;
            let (name, times) = text.split_once(':').unwrap_or((&text, "1"));
            Some((name.to_owned(), AtomicU64::new(times.parse().unwrap_or(1))))
        })
        .as_ref()
}
