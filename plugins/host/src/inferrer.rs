//! Schema inferrers: a schema from samples, once, when a job is planned.

use std::time::Duration;

use arrow::datatypes::Schema;
use pelton_core::error::Result;

use crate::{
    guest::CallTime,
    imports::state::StateView,
    instance::Instance,
    ipc, json_schema,
    loaded::LoadedPlugin,
    wire::{self, Failure},
};

/// A schema in the language the plugin chose.
#[derive(Debug, Clone, PartialEq)]
pub enum InferredSchema {
    /// JSON Schema draft-07 text.
    JsonSchema(String),
    /// Columns.
    Arrow(Schema),
    /// Avro schema text.
    Avro(String),
    /// A serialised FileDescriptorSet.
    ProtobufDescriptorSet(Vec<u8>),
}

/// A schema and how far to trust it.
#[derive(Debug, Clone, PartialEq)]
pub struct Inferred {
    /// The schema.
    pub schema: InferredSchema,
    /// From 0 to 1.
    pub confidence: f32,
    /// How many samples counted.
    pub sampled: u32,
    /// What a person should know.
    pub notes: Vec<String>,
}

impl Inferred {
    /// The schema as columns.
    pub fn columns(&self) -> std::result::Result<Schema, String> {
        match &self.schema {
            InferredSchema::JsonSchema(text) => json_schema::arrow_fields(text).map(Schema::new),
            InferredSchema::Arrow(schema) => Ok(schema.clone()),
            InferredSchema::Avro(_) => Err("Avro schemas cannot be used as columns yet".to_owned()),
            InferredSchema::ProtobufDescriptorSet(_) => Err("Protobuf descriptors cannot be used as columns yet".to_owned()),
        }
    }
}

/// Planning may take longer than a call on the way of records.
const LIMIT_FACTOR: u32 = 10;

pub(crate) fn infer(plugin: &LoadedPlugin, subject: &str, samples: &[Vec<u8>], hints: &[(String, String)]) -> Result<Inferred> {
    let mut instance = Instance::start(&plugin.component, StateView::default()).map_err(|e| plugin.start_error(e))?;
    let infer = plugin.export("schema-inferrer", "infer")?;
    let limit: Duration = plugin.limits().timeout * LIMIT_FACTOR;
    let (answer,): (std::result::Result<wire::InferredSchema, Failure>,) = instance
        .call(&infer, (subject, samples, hints), CallTime::default(), limit)
        .map_err(|fault| plugin.broken(format!("infer: {fault}")))?;
    let answer = match answer {
        Ok(answer) => answer,
        Err(Failure::InvalidInput(reason)) => return Err(plugin.refuse(format!("samples of {subject}: {reason}"))),
        Err(Failure::Retryable(reason) | Failure::Fatal(reason)) => return Err(plugin.broken(reason)),
    };
    let schema = match answer.schema {
        wire::Schema::JsonSchema(text) => InferredSchema::JsonSchema(text),
        wire::Schema::ArrowIpc(bytes) => InferredSchema::Arrow(
            ipc::read_schema(&bytes).map_err(|reason| plugin.broken(format!("its Arrow schema: {reason}")))?,
        ),
        wire::Schema::Avro(text) => InferredSchema::Avro(text),
        wire::Schema::ProtobufDescriptorSet(bytes) => InferredSchema::ProtobufDescriptorSet(bytes),
    };
    Ok(Inferred { schema, confidence: answer.confidence, sampled: answer.sampled, notes: answer.notes })
}
