//! A clock that stands still until it is told.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use pelton_core::time::{Clock, ProcessingTime};

/// See the module.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that shows `millis`.
    pub fn at(millis: i64) -> Self {
        Self(AtomicI64::new(millis))
    }

    /// Moves it on.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> ProcessingTime {
        ProcessingTime::from_millis(self.0.load(Ordering::SeqCst))
    }
}
