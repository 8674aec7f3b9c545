//! The types of `wit/v0.1/plugin.wit` in Rust: what goes down borrows (no copy before the copy into the guest), what
//! comes up is owned. Names of interfaces and functions stand here and nowhere else.

use wasmtime::component::{ComponentType, Lift, Lower, flags};

pub(crate) const PACKAGE: &str = "pelton:plugin";
pub(crate) const VERSION: &str = "0.1.0";

/// The full name of an interface of the contract.
pub(crate) fn interface(name: &str) -> String {
    format!("{PACKAGE}/{name}@{VERSION}")
}

flags! {
    PartFlags {
        #[component(name = "key")]
        const KEY;
        #[component(name = "headers")]
        const HEADERS;
    }
}

#[derive(ComponentType, Lift, Debug)]
#[component(record)]
pub(crate) struct Info {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) description: String,
    pub(crate) needs: PartFlags,
}

pub(crate) type HeaderRef<'a> = (&'a str, Option<&'a [u8]>);

#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct Message<'a> {
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: &'a [HeaderRef<'a>],
    pub(crate) timestamp: i64,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
}

#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct BatchContext<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    #[component(name = "first-offset")]
    pub(crate) first_offset: i64,
    pub(crate) watermark: Option<i64>,
    pub(crate) attributes: &'a [(&'a str, &'a str)],
}

#[derive(ComponentType, Lift, Debug, Clone)]
#[component(variant)]
pub(crate) enum Failure {
    #[component(name = "invalid-input")]
    InvalidInput(String),
    #[component(name = "retryable")]
    Retryable(String),
    #[component(name = "fatal")]
    Fatal(String),
}

#[derive(ComponentType, Lift, Debug)]
#[component(record)]
pub(crate) struct Target {
    pub(crate) topic: String,
    pub(crate) key: Option<Vec<u8>>,
}

#[derive(ComponentType, Lift, Debug)]
#[component(record)]
pub(crate) struct Decision {
    pub(crate) targets: Vec<Target>,
    #[component(name = "add-headers")]
    pub(crate) add_headers: Vec<(String, Vec<u8>)>,
}

#[derive(ComponentType, Lift, Debug)]
#[component(record)]
pub(crate) struct Output {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(crate) timestamp: Option<i64>,
    #[expect(dead_code, reason = "part of the contract; means nothing before a decoder")]
    pub(crate) topic: Option<String>,
}

#[derive(ComponentType, Lift, Debug)]
#[component(variant)]
pub(crate) enum Schema {
    #[component(name = "json-schema")]
    JsonSchema(String),
    #[component(name = "arrow-ipc")]
    ArrowIpc(Vec<u8>),
    #[component(name = "avro")]
    Avro(String),
    #[component(name = "protobuf-descriptor-set")]
    ProtobufDescriptorSet(Vec<u8>),
}

#[derive(ComponentType, Lift, Debug)]
#[component(record)]
pub(crate) struct InferredSchema {
    pub(crate) schema: Schema,
    pub(crate) confidence: f32,
    pub(crate) sampled: u32,
    pub(crate) notes: Vec<String>,
}

#[derive(ComponentType, Lift, Debug, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "made by lifting a guest's answer")]
pub(crate) enum Volatility {
    #[component(name = "immutable")]
    Immutable,
    #[component(name = "stable")]
    Stable,
    #[component(name = "volatile")]
    Volatile,
}

#[derive(ComponentType, Lift, Debug, Clone, Copy, PartialEq, Eq)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "made by lifting a guest's answer")]
pub(crate) enum Shape {
    #[component(name = "scalar")]
    Scalar,
    #[component(name = "table")]
    Table,
}

#[derive(ComponentType, Lift, Debug)]
#[component(record)]
pub(crate) struct Signature {
    pub(crate) name: String,
    pub(crate) arguments: Vec<u8>,
    pub(crate) returns: Vec<u8>,
    pub(crate) volatility: Volatility,
    pub(crate) shape: Shape,
    #[component(name = "null-on-null-input")]
    pub(crate) null_on_null_input: bool,
}

#[derive(ComponentType, Lift, Debug, Clone, Copy, PartialEq, Eq)]
#[component(enum)]
#[repr(u8)]
#[expect(dead_code, reason = "made by lifting a guest's answer")]
pub(crate) enum Level {
    #[component(name = "trace")]
    Trace,
    #[component(name = "debug")]
    Debug,
    #[component(name = "info")]
    Info,
    #[component(name = "warn")]
    Warn,
    #[component(name = "error")]
    Error,
}

#[derive(ComponentType, Lower, Debug, PartialEq)]
#[component(variant)]
pub(crate) enum StateError {
    #[component(name = "access-denied")]
    AccessDenied,
    #[component(name = "quota-exceeded")]
    QuotaExceeded,
    #[component(name = "too-large")]
    TooLarge,
    #[component(name = "other")]
    Other(String),
}

#[derive(ComponentType, Lift, Lower, Debug)]
#[component(record)]
pub(crate) struct StateEntry {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

#[derive(ComponentType, Lower, Debug)]
#[component(record)]
pub(crate) struct StatePage {
    pub(crate) entries: Vec<StateEntry>,
    pub(crate) cursor: Option<Vec<u8>>,
}
