//! Routes prompts by meaning: to the topic of the nearest labelled examples, over hashed words and letter groups; before
//! that by rules over headers and fields.
//!
//! Configuration (JSON):
//! ```json
//! { "field": "/prompt", "threshold": 0.2, "fallback": "ai.general", "add_headers": true,
//!   "rules":  [ {"header": "route", "pattern": "ai.code.>", "topic": "ai.code"},
//!               {"field": "/tenant", "pattern": "acme*", "topic": "ai.acme"} ],
//!   "routes": [ {"topic": "ai.code", "examples": ["write a function in python", "fix this bug"]} ] }
//! ```
//! `field`: JSON pointer of the prompt in the value; without it the whole value is the prompt. The first rule that
//! matches decides, and the value is not even parsed if it looks at headers. Else the prompt goes to the route that it is
//! most like, if the likeness (0 to 1) reaches `threshold`, else to `fallback`. A tombstone goes to `fallback`.
//! With `add_headers` the record gets `intent` (the topic) and `intent-score`. A value that is no JSON or has no such
//! field is refused: it becomes a dead letter.

mod config;
mod features;
mod index;
mod pattern;
#[cfg(target_arch = "wasm32")]
mod plugin;
mod route;

pub use config::Settings;
pub use route::{Record, Route, Verdict};
