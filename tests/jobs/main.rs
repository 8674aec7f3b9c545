//! Whole jobs through the binary, as users run them: what it refuses, what it survives, and that nothing depends on how
//! rows were batched, spread or interrupted.
//!
//! Families, and what each can find that the others cannot: `refused` (messages and positions), `bad_records` (dead
//! letters), `independence` (batch size, parallelism, machine time zone), `restarts` (kill −9 at random moments).

#![expect(clippy::expect_used, reason = "a test may stop at what it cannot do")]

mod bad_records;
mod documents;
mod harness;
mod independence;
mod refused;
mod restarts;
