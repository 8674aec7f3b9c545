//! The built plugins, for the demo (which reads the files beside this) and for tests: no wasm target is needed to use them.
//!
//! `tests/fresh.rs` holds that they belong to the sources; `examples/build-guests` builds them.

/// Routes prompts by meaning. Kind: router.
pub const INTENT_ROUTER: &[u8] = include_bytes!("../intent-router.wasm");
/// Infers a JSON Schema from samples. Kind: schema-inferrer.
pub const INFER_JSON: &[u8] = include_bytes!("../infer-json.wasm");
/// redact, prompt_hash, xxh64, chunk. Kind: functions.
pub const TEXT: &[u8] = include_bytes!("../text.wasm");
/// One attack a configuration, for the host's tests. Kinds: router, transform and functions.
pub const HOSTILE: &[u8] = include_bytes!("../hostile.wasm");
