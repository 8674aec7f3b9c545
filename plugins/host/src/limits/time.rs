//! Time: wall time of one call, from the job's `timeout`, 1 s by default.
//!
//! Kept by epochs: a thread moves the engine's epoch on every [`TICK`]; compiled code looks at it at loops and calls, and
//! once it has moved asks [`check`], which reads the real time: so a starved thread makes a limit late, never early. A
//! call ends at most a few ticks after its limit. Does not cover time inside the host (`hostcalls` does).

use std::{
    thread,
    time::{Duration, Instant},
};

use pelton_core::error::{Result, RuntimeError};
use wasmtime::{Engine, Result as WasmResult, Store, StoreContextMut, Trap, UpdateDeadline};

use crate::guest::Guest;

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

/// When a call must have ended.
#[derive(Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn none_yet() -> Self {
        Self(Instant::now())
    }
}

/// A new store's calls are checked at each tick.
pub(crate) fn watch(store: &mut Store<Guest>) {
    store.epoch_deadline_callback(check);
}

/// A call begins that may take `limit`.
pub(crate) fn begin(store: &mut Store<Guest>, limit: Duration) {
    store.data_mut().deadline = Deadline(Instant::now() + limit);
    store.set_epoch_deadline(1);
}

fn check(store: StoreContextMut<'_, Guest>) -> WasmResult<UpdateDeadline> {
    if Instant::now() >= store.data().deadline.0 {
        Err(Trap::Interrupt.into())
    } else {
        Ok(UpdateDeadline::Continue(1))
    }
}
