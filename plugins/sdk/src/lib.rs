//! Write a Pelton plugin in Rust: bindings to `wit/v0.1/plugin.wit`, and the small things every plugin needs.
//!
//! Pick a kind by feature (`router`, `transform`, `schema`, `functions`), implement its two `Guest` traits, export:
//!
//! ```ignore
//! use pelton_plugin::router::{*, lifecycle::{Info, Parts}};
//! struct ToOne;
//! impl lifecycle::Guest for ToOne {
//!     fn describe() -> Info {
//!         Info { name: "to-one".into(), version: "0.1.0".into(), description: "all to `one`".into(), needs: Parts::empty() }
//!     }
//!     fn init(_config: String) -> Result<(), String> { Ok(()) }
//! }
//! impl Guest for ToOne {
//!     fn route(_: BatchContext, batch: Vec<Message>) -> Vec<Result<Decision, Failure>> {
//!         batch.iter().map(|_| Ok(Decision { targets: vec![Target { topic: "one".into(), key: None }], add_headers: vec![] })).collect()
//!     }
//! }
//! pelton_plugin::router::export_router!(ToOne with_types_in pelton_plugin::router);
//! ```
//! Small on purpose: a guest that needs no more than this has 20 to 80 kB. [`json`] reads JSON without serde, [`arrow`]
//! reads and writes the few Arrow types that functions mostly need.

pub mod json;
pub mod arrow;
mod config;

pub use config::Config;
pub use wit_bindgen;

/// Bindings for routers.
#[cfg(feature = "router")]
pub mod router {
    #![allow(missing_docs, unreachable_pub, clippy::all)]
    wit_bindgen::generate!({
        world: "router-plugin",
        path: "../../wit/v0.1",
        pub_export_macro: true,
        export_macro_name: "export_router",
        default_bindings_module: "pelton_plugin::router",
    });
    pub use exports::pelton::plugin::{
        lifecycle,
        router::{Decision, Guest, Target},
    };
    pub use pelton::plugin::{
        assets, clock, log, metrics, state,
        types::{BatchContext, Failure, Message},
    };
}

/// Bindings for transforms.
#[cfg(feature = "transform")]
pub mod transform {
    #![allow(missing_docs, unreachable_pub, clippy::all)]
    wit_bindgen::generate!({
        world: "transform-plugin",
        path: "../../wit/v0.1",
        pub_export_macro: true,
        export_macro_name: "export_transform",
        default_bindings_module: "pelton_plugin::transform",
    });
    pub use exports::pelton::plugin::{lifecycle, transform::Guest};
    pub use pelton::plugin::{
        assets, clock, log, metrics, state,
        types::{BatchContext, Failure, Message, Output},
    };
}

/// Bindings for schema inferrers.
#[cfg(feature = "schema")]
pub mod schema {
    #![allow(missing_docs, unreachable_pub, clippy::all)]
    wit_bindgen::generate!({
        world: "schema-plugin",
        path: "../../wit/v0.1",
        pub_export_macro: true,
        export_macro_name: "export_schema",
        default_bindings_module: "pelton_plugin::schema",
    });
    pub use exports::pelton::plugin::{
        lifecycle,
        schema_inferrer::{Guest, Inferred, Schema},
    };
    pub use pelton::plugin::{assets, log, types::Failure};
}

/// Bindings for SQL functions.
#[cfg(feature = "functions")]
pub mod functions {
    #![allow(missing_docs, unreachable_pub, clippy::all)]
    wit_bindgen::generate!({
        world: "function-plugin",
        path: "../../wit/v0.1",
        pub_export_macro: true,
        export_macro_name: "export_functions",
        default_bindings_module: "pelton_plugin::functions",
    });
    pub use exports::pelton::plugin::{
        functions::{Guest, Shape, Signature, Volatility},
        lifecycle,
    };
    pub use pelton::plugin::{assets, log, types::Failure};
}
