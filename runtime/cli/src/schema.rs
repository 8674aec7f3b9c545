//! `pelton schema infer`: columns or a JSON Schema from the first records of a file or topic.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::Arc,
};

use arrow::datatypes::FieldRef;
use pelton_core::{error::RuntimeError, plugin::PluginSpec};
use pelton_engine::{StandardConnectors, SystemClock, samples};
use pelton_formats::sql_type;
use pelton_plugin_host::{InferredSchema, PluginHost};

use crate::{
    arguments::{InferOptions, SchemaOutput},
    fault::Fault,
    run::print_text,
    script::host_settings,
};

pub(crate) fn infer(options: &InferOptions) -> Result<(), Fault> {
    if options.format != "json" && options.plugin.is_none() {
        return Err(Fault::Usage(format!("schemas are inferred from json; for '{}' name a plugin with --plugin", options.format)));
    }
    let (subject, table) = table(options)?;
    let records = samples(&StandardConnectors::default(), &table, options.samples)?;
    if records.is_empty() {
        return Err(Fault::Usage(format!("{subject} has no records to infer a schema from")));
    }
    let text = match &options.plugin {
        Some(plugin) => ask_plugin(plugin, &subject, &records, options.output)?,
        None => {
            let schema = pelton_formats::infer::infer(&records).map_err(|error| Fault::Usage(format!("{subject}: {error}")))?;
            let iso = schema.prefers_iso();
            for (index, reason) in schema.rejected.iter().chain(&schema.check(&records, iso)?) {
                eprintln!("record {index} does not fit: {reason}");
            }
            match options.output {
                SchemaOutput::Columns => schema.ddl(iso),
                SchemaOutput::JsonSchema => schema.json_schema(&subject),
            }
        }
    };
    print_text(&text)
}

/// What the records are called, and the options of a table that reads them.
fn table(options: &InferOptions) -> Result<(String, BTreeMap<String, String>), Fault> {
    let pairs = match (&options.file, &options.topic, &options.brokers) {
        (Some(file), _, _) => {
            let path = file.to_string_lossy().into_owned();
            let subject = file.file_stem().map_or_else(|| path.clone(), |stem| stem.to_string_lossy().into_owned());
            return Ok((subject, owned(&[("connector", "filesystem"), ("path", &path), ("format", "raw")])));
        }
        (None, Some(topic), Some(brokers)) => {
            (topic.clone(), owned(&[("connector", "kafka"), ("topic", topic), ("properties.bootstrap.servers", brokers), ("format", "raw")]))
        }
        _ => return Err(Fault::Usage("name a file, or --topic and --brokers".to_owned())),
    };
    Ok(pairs)
}

fn owned(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn ask_plugin(path: &Path, subject: &str, records: &[Vec<u8>], output: SchemaOutput) -> Result<String, Fault> {
    let host = PluginHost::new(host_settings(), Arc::new(SystemClock))?;
    let spec = PluginSpec {
        name: path.file_stem().map_or_else(|| "plugin".to_owned(), |stem| stem.to_string_lossy().into_owned()),
        options: owned(&[("path", &path.to_string_lossy())]),
        line: 0,
    };
    let plugin = host.load(&spec, Path::new("."))?;
    let inferred = plugin.infer(subject, records, &[])?;
    for note in &inferred.notes {
        eprintln!("{note}");
    }
    let wrong = |reason: String| Fault::Runtime { file: None, error: RuntimeError::Plugin { plugin: spec.name.clone(), reason } };
    match (output, &inferred.schema) {
        (SchemaOutput::JsonSchema, InferredSchema::JsonSchema(text)) => Ok(text.clone()),
        (SchemaOutput::JsonSchema, _) => Err(wrong("it gave no JSON Schema; ask for --output columns".to_owned())),
        (SchemaOutput::Columns, _) => {
            let schema = inferred.columns().map_err(wrong)?;
            pelton_plugin_host::check_samples(schema.fields(), records).map_err(wrong)?;
            let column = |field: &FieldRef| format!("  `{}` {}", field.name().replace('`', "``"), sql_type(field.data_type()));
            Ok(schema.fields().iter().map(column).collect::<Vec<_>>().join(",\n"))
        }
    }
}
