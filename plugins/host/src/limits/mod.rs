//! Limits of a plugin, one file each: what is counted, its default, what happens there, who covers what it does not.
//!
//! | limit | counts | default | covers |
//! |---|---|---|---|
//! | `time` | wall time of a call | 1 s | endless loops; not time inside the host |
//! | `hostcalls` | calls of the host within a call | 1,000,000 | time inside the host |
//! | `memory` | bytes of all linear memories | 64 MiB | memory bombs |
//! | `tables` | table elements, tables, memories, instances | 100,000 · 32 · 16 · 64 | table bombs |
//! | `stack` | bytes of stack | 512 KiB | endless recursion |
//! | `output` | bytes handed to the host in a call, return value and each host call alike | 16 MiB | huge output |
//! | `log` | lines a second, bytes a line, stderr's tail | 100 · 1 KiB · 4 KiB | log floods |
//! | `metrics` | names | 100 | label explosions |
//! | `state` | bytes of state, of keys, values, names | 256 MiB · 4 KiB · 1 MiB · 64 | state bombs |
//! | `breaker` | records in a row that end in a trap | 10 | plugins that only trap |

pub(crate) mod time;
pub(crate) mod hostcalls;
pub(crate) mod memory;
pub(crate) mod tables;
pub(crate) mod stack;
pub(crate) mod output;
pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod state;
pub(crate) mod breaker;
