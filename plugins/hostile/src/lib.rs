//! What plugins must not be able to do, one module an attack. The configuration says which: `{"attack": "loops"}` is
//! the text between the last two quotes. Records whose value is `bad` are attacked with, others pass; so a test sees that
//! the neighbours of a poison record are processed.

#[cfg(target_arch = "wasm32")]
mod bindings {
    #![allow(unreachable_pub, clippy::all)]
    wit_bindgen::generate!({ path: ["../../wit/v0.1", "wit"], world: "pelton:hostile/hostile", generate_all });
}

#[cfg(target_arch = "wasm32")]
mod loops;
#[cfg(target_arch = "wasm32")]
mod memory;
#[cfg(target_arch = "wasm32")]
mod table;
#[cfg(target_arch = "wasm32")]
mod stack;
#[cfg(target_arch = "wasm32")]
mod output;
#[cfg(target_arch = "wasm32")]
mod count;
#[cfg(target_arch = "wasm32")]
mod arrow;
#[cfg(target_arch = "wasm32")]
mod trap;
#[cfg(target_arch = "wasm32")]
mod log;
#[cfg(target_arch = "wasm32")]
mod state;
#[cfg(target_arch = "wasm32")]
mod probe;
#[cfg(target_arch = "wasm32")]
mod host_calls;
#[cfg(target_arch = "wasm32")]
mod plugin;
