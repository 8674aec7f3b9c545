//! The plugin around it.

use pelton_plugin::{
    Config,
    schema::{
        Failure, Guest, Inferred, Schema,
        lifecycle::{self, Info, Parts},
    },
};

use crate::{Options, infer};

struct InferJson;

static OPTIONS: Config<Options> = Config::new();

impl lifecycle::Guest for InferJson {
    fn describe() -> Info {
        Info {
            name: "infer-json".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            description: "Infers a JSON Schema (draft-07) from samples".to_owned(),
            needs: Parts::empty(),
        }
    }

    fn init(config: String) -> Result<(), String> {
        OPTIONS.set(Options::read(&config)?);
        Ok(())
    }
}

impl Guest for InferJson {
    fn infer(_subject: String, samples: Vec<Vec<u8>>, _hints: Vec<(String, String)>) -> Result<Inferred, Failure> {
        let options = OPTIONS.get().copied().unwrap_or_default();
        let outcome = infer(samples.iter().map(Vec::as_slice), options).map_err(Failure::InvalidInput)?;
        Ok(Inferred {
            schema: Schema::JsonSchema(outcome.schema),
            confidence: outcome.confidence,
            sampled: outcome.sampled,
            notes: outcome.notes,
        })
    }
}

pelton_plugin::schema::export_schema!(InferJson with_types_in pelton_plugin::schema);
