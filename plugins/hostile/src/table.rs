//! Opens buckets without closing them: the tables a Rust guest can fill are the host's handle tables. (The core `table.grow`
//! has no Rust spelling; a unit test of the host's `limits/memory.rs` has a module for it.)

use crate::bindings::pelton::plugin::state;

pub(crate) fn attack() -> Result<String, String> {
    let mut held = Vec::new();
    for n in 0..100_000_u32 {
        match state::open("same") {
            Ok(bucket) => held.push(bucket),
            Err(_) => return Ok(format!("refused after {n}")),
        }
    }
    Err("never refused".to_owned())
}
