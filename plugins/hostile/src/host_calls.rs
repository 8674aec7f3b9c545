//! Spends its time inside the host, where no epoch counts.

use crate::bindings::pelton::plugin::{clock, metrics};

pub(crate) fn attack() {
    loop {
        core::hint::black_box(clock::event_time());
    }
}

/// A new metric each time.
pub(crate) fn names() {
    for n in 0..10_000 {
        metrics::count(&format!("metric-{n}"), 1);
    }
}
