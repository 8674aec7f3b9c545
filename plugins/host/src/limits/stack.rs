//! Stack: bytes of native stack that guest code may use. At the limit the call traps. The guest's own shadow stack lies
//! in its memory and is counted there.

/// The engine's default, written down. Workers' threads must have more: Rust's default is 2 MiB.
pub(crate) const BYTES_MAX: usize = 512 << 10;
