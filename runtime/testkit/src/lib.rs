//! For tests only: a clock that is moved by hand, connectors that follow a script, and a small job to run over them.
//!
//! [`Scripted`] is a set of tables in memory. Its sources hand out the records they were given; its sinks show rows only
//! once their epoch is committed, and keep what was prepared across runs, as a disk would: dropping everything but the
//! `Scripted` and the state is a crash.

mod clock;
mod job;
mod scripted;

pub use clock::ManualClock;
pub use job::{components, counting_job, settings};
pub use scripted::{Item, Scripted};
