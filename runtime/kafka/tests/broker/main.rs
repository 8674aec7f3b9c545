//! The crate against a real broker: round trips, places, ends, groups, transactions, outages.
//!
//! The broker is Apache Kafka, started by `tests/kafka/kafka.sh` on a port of its own and ended by its pid with the
//! last test that uses it. Every test has topics and groups of its own. Waiting is always for something, with a limit.

#![expect(clippy::expect_used, reason = "a test may stop at what it cannot do")]

mod server;
mod tables;

mod broker_faults;
mod broker_groups;
mod broker_reads;
mod broker_transactions;
mod broker_writes;
