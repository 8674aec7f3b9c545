//! Infers a JSON Schema (draft-07) from samples: nested objects, arrays, what may be null or missing, formats, enums,
//! numbers widened to what holds all of them, and maps told from records.
//!
//! Promises: the same samples in any order give the same types (names stay in the order they were first seen). Samples
//! that are no JSON objects are left out and noted; if they are more than half, that is refused.
//!
//! ```text
//! {"id": 1, "tags": ["a"], "user": {"age": 3}}      id: integer · tags: array of string (optional)
//! {"id": 2.5, "user": {"age": null}}                id → number · user.age: integer or null
//! ```

mod shape;
mod format;
mod schema;
#[cfg(target_arch = "wasm32")]
mod plugin;

pub use schema::{Options, Outcome, infer};
