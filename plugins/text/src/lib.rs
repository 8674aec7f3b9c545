//! SQL functions over text.
//!
//! | function | gives |
//! |---|---|
//! | `redact(text STRING) → STRING` | e-mail addresses, card and phone numbers, API keys replaced by `[EMAIL]`, `[CARD]`, `[PHONE]`, `[KEY]` |
//! | `prompt_hash(text STRING) → STRING` | sha256 in hex |
//! | `xxh64(text STRING) → BIGINT` | fast hash, for sampling and canaries |
//! | `chunk(text STRING, size INT, overlap INT)` | table of `(index INT, chunk STRING)`: pieces of at most `size` characters, cut at spaces where there are any, each beginning `overlap` characters before the last one's end |

mod redact;
mod chunk;
mod hash;
#[cfg(target_arch = "wasm32")]
mod plugin;

pub use chunk::chunk;
pub use hash::{sha256_hex, xxh64};
pub use redact::redact;
