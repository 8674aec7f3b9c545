//! Waking a thread that waits for records or for news.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// One waiter, any number of wakers. A wake-up that comes before the wait is not lost.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    is_woken: Mutex<bool>,
    condvar: Condvar,
}

impl Waker {
    pub(crate) fn wake(&self) {
        let mut is_woken = self.is_woken.lock();
        if !*is_woken {
            *is_woken = true;
            self.condvar.notify_one();
        }
    }

    /// Returns once woken, or after `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) {
        let mut is_woken = self.is_woken.lock();
        if !*is_woken {
            self.condvar.wait_for(&mut is_woken, timeout);
        }
        *is_woken = false;
    }
}
