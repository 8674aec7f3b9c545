//! Time: wall time of one call, from the job's `timeout`, 1 s by default.
//!
//! Counted by epochs: a thread moves the engine's epoch on every [`TICK`], compiled code looks at it at loops and calls
//! and traps once its deadline has passed; a call so ends at most two ticks after its limit. Does not cover time inside
//! the host (`hostcalls` does) and the machine's own pauses.

use std::{thread, time::Duration};

use pelton_core::error::{Result, RuntimeError};
use wasmtime::Engine;

/// How exactly time is kept.
pub(crate) const TICK: Duration = Duration::from_millis(5);

/// Starts the thread that counts epochs. It ends with the engine.
pub(crate) fn start_ticker(engine: &Engine) -> Result<()> {
    let engine = engine.weak();
    thread::Builder::new()
        .name("plugin-time".to_owned())
        .spawn(move || {
            while let Some(engine) = engine.upgrade() {
                engine.increment_epoch();
                drop(engine);
                thread::sleep(TICK);
            }
        })
        .map(drop)
        .map_err(|e| RuntimeError::Storage { action: "start the thread that keeps plugins' time".to_owned(), reason: e.to_string() })
}

/// Epochs until a call that may take `limit` is stopped. One more than the limit holds, since the current one has
/// begun already.
pub(crate) fn epochs(limit: Duration) -> u64 {
    u64::try_from(limit.as_millis().div_ceil(TICK.as_millis())).unwrap_or(u64::MAX / 2).saturating_add(1)
}
