//! State on disk: the one crate that names RocksDB. Implements [`pelton_core::state::StateBackend`].
//!
//! Who writes what, one column family per [`pelton_core::state::StateKind`]:
//!
//! ```text
//! meta          #NAME             facts of the job (`Store::set_fact`, the engine): key groups, plan, run
//!               #format           version of all this (this crate)
//!               !applied          last epoch applied, 8 bytes big endian (this crate)
//! positions     operator · 0 · split name                  the engine
//! sinks         operator · 0 · worker                      the engine
//! plugins       operator · 0 · worker · the host's key     the engine
//! dead-letters  s · epoch · number, f · path               the engine
//! panes, join-rows, timers
//!               operator (4, big endian) · key group (2, big endian) · the operator's own bytes
//! pending       epoch (8, big endian) · part (4, big endian)   changes of a prepared epoch, see `codec.rs`
//! ```
//!
//! Keys are in byte order; one key group of one operator is one contiguous range.

mod settings;
mod store;
mod codec;

pub use settings::StateSettings;
pub use store::Store;
