//! Output: bytes a guest may hand to the host, from the job's `max-output`, 16 MiB by default.
//!
//! Counted for each return value and for the arguments of each host call by itself, in bytes the host would allocate
//! (so a list of empty lists counts too). At the limit the call traps before anything is allocated.

use wasmtime::Store;

/// Bounds what `store`'s guest hands over in one go.
pub(crate) fn set<T: 'static>(store: &mut Store<T>, bytes: usize) {
    store.set_hostcall_fuel(bytes);
}

/// Whether this error came from the limit. The engine's own type is private, so its text is what there is to go by; a
/// test in `tests/all/hostile.rs` fails if the text changes.
pub(crate) fn is_exceeded(error: &wasmtime::Error) -> bool {
    error.root_cause().to_string().contains("fuel allocated for hostcalls")
}
