//! Stops in the middle, with a last word on stderr.

use crate::bindings::wasi::cli::stderr::get_stderr;

pub(crate) fn attack() {
    let _ = get_stderr().blocking_write_and_flush(b"these were my last words\n");
    core::arch::wasm32::unreachable()
}
