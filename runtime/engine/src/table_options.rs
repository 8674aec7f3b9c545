//! Options that every table may have besides its connector's and formats': where bad records go, plugins, keys.

use pelton_core::{graph::TableSpec, options::{OptionReader, OptionSpec}};

const fn optional(key: &'static str, default: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec { key, required: false, default, doc }
}

/// See the module.
pub const TABLE_OPTIONS: &[OptionSpec] = &[
    optional("format", "", "Format of the values."),
    optional("value.format", "", "Format of the values; another name of 'format'. Its options stand behind `value.`."),
    optional("value.fields-include", "ALL", "ALL: the value holds every column; EXCEPT_KEY: not those of 'key.fields'."),
    optional("key.format", "", "Format of the record keys; with 'key.fields'."),
    optional("key.fields", "", "Columns of the record key, separated by `;`."),
    optional("key.fields-prefix", "", "Prefix of the key columns' names that the key format does not see."),
    optional("pelton.dlq", "", "Where the table's dead letters go: a file (JSON lines), or for kafka tables a topic."),
    optional("pelton.on-error", "", "What a bad record does: dead-letter (default) or fail."),
    optional("pelton.transform", "", "Plugin that transforms the raw records before they are decoded."),
    optional("pelton.router", "", "Plugin that picks each record's topics."),
    optional("pelton.schema.infer", "", "Columns from samples: `native`, or the name of a schema-inferring plugin."),
];

/// The column names of `key.fields`, with their prefix.
pub(crate) fn key_fields(table: &TableSpec) -> Vec<String> {
    let text = table.options.get("key.fields").map_or("", String::as_str);
    text.split(';').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Whether the value leaves the key's columns out.
pub(crate) fn value_leaves_key_out(table: &TableSpec) -> Result<bool, String> {
    let choice = OptionReader(&table.options).choice("value.fields-include", &["ALL", "EXCEPT_KEY"])?;
    Ok(choice == Some("EXCEPT_KEY"))
}

/// Whether a bad record of this table stops the job; `None` where the table does not say.
pub(crate) fn fails_on_error(table: &TableSpec) -> Result<Option<bool>, String> {
    let choice = OptionReader(&table.options).choice("pelton.on-error", &["dead-letter", "fail"])?;
    Ok(choice.map(|choice| choice == "fail"))
}

/// The table's connector.
pub(crate) fn connector(table: &TableSpec) -> &str {
    table.options.get("connector").map_or("", String::as_str)
}

/// Where dead letters of a table go.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum LetterBox {
    /// A file of JSON lines.
    File(std::path::PathBuf),
    /// A topic of the table's own broker.
    Topic(String),
    /// The job's own store.
    Store,
}

/// A name with a slash or a file's ending is a file; for a kafka table every other is a topic.
pub(crate) fn letter_box(table: &TableSpec) -> LetterBox {
    match table.options.get("pelton.dlq").map(String::as_str) {
        None | Some("") => LetterBox::Store,
        Some(name) => {
            let is_path = name.contains('/') || [".jsonl", ".json", ".ndjson"].iter().any(|ending| name.ends_with(ending));
            match name.strip_prefix("topic:") {
                Some(topic) => LetterBox::Topic(topic.to_owned()),
                None if connector(table) == "kafka" && !is_path => LetterBox::Topic(name.to_owned()),
                None => LetterBox::File(name.strip_prefix("file://").unwrap_or(name).into()),
            }
        }
    }
}
