//! Jobs against a real Kafka broker, through the binary: exactly once under kill −9, a broker that goes away and comes
//! back, rebalance of a stateless job, poison records, tombstones, and a transaction that a killed producer left open.
//!
//! The broker is started by `tests/kafka/kafka.sh` on a port of its own and ended by its pid. What topics hold is read
//! back by a bounded job with read_committed isolation, and by Kafka's own tools where the reader itself is on trial.

#![expect(clippy::expect_used, reason = "a test may stop at what it cannot do")]

mod broker;
mod exactly_once;
#[path = "../jobs/harness.rs"]
#[expect(dead_code, reason = "shared with the tests of whole jobs, which use all of it")]
mod harness;
mod outage;
mod records;
