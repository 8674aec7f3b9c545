//! Checks of WITH clauses and SET keys against what exists.

use std::collections::BTreeMap;

use datafusion::sql::sqlparser::tokenizer::Location;
use pelton_core::options::{ConnectorInfo, FormatInfo, OptionSpec, find};

use super::{statement::OptionText, values};
use crate::{job::Environment, plan::fault::nearest};

/// Why a clause is refused, and where.
pub(crate) type OptionFault = (Location, String);

/// What a checked WITH clause says.
#[derive(Debug)]
pub(crate) struct Checked<'e> {
    pub(crate) connector: &'e ConnectorInfo,
    pub(crate) options: BTreeMap<String, String>,
}

/// Checks a table's options. `at` is where to point when something is missing.
pub(crate) fn check_table<'e>(options: &[OptionText], env: &Environment<'e>, at: Location) -> Result<Checked<'e>, OptionFault> {
    let get = |key: &str| options.iter().find(|option| option.key == key);
    let names = || env.connectors.iter().map(|connector| connector.name).collect::<Vec<_>>();
    let Some(connector) = get("connector") else {
        return Err((at, format!("the table has no 'connector': give one of {}", names().join(", "))));
    };
    let Some(info) = env.connectors.iter().find(|info| info.name == connector.value) else {
        let hint = nearest(&connector.value, names());
        return Err((connector.value_at, format!("connector '{}' is not known{hint}; there are {}", connector.value, names().join(", "))));
    };
    let mut formats: Vec<(&str, &FormatInfo)> = Vec::new();
    for (key, prefix) in [("format", ""), ("value.format", "value."), ("key.format", "key.")] {
        let Some(option) = get(key) else { continue };
        let Some(format) = env.formats.iter().find(|format| format.name == option.value) else {
            let known: Vec<_> = env.formats.iter().map(|format| format.name).collect();
            let hint = nearest(&option.value, known.iter().copied());
            return Err((option.value_at, format!("format '{}' is not known{hint}; there are {}", option.value, known.join(", "))));
        };
        formats.push((prefix, format));
    }
    if info.needs_format && get("format").is_none() && get("value.format").is_none() {
        let known: Vec<_> = env.formats.iter().map(|format| format.name).collect();
        return Err((connector.key_at, format!("connector '{}' needs a 'format': one of {}", info.name, known.join(", "))));
    }
    for option in options {
        check_option(option, info, &formats, env)?;
    }
    for spec in info.options.iter().filter(|spec| spec.required && get(spec.key).is_none()) {
        return Err((connector.key_at, format!("connector '{}' needs the option '{}': {}", info.name, spec.key, spec.doc)));
    }
    Ok(Checked { connector: info, options: options.iter().map(|option| (option.key.clone(), option.value.clone())).collect() })
}

fn check_option(option: &OptionText, info: &ConnectorInfo, formats: &[(&str, &FormatInfo)], env: &Environment<'_>) -> Result<(), OptionFault> {
    let key = option.key.as_str();
    let of_format = || formats.iter().find_map(|(prefix, format)| key.strip_prefix(prefix).and_then(|rest| find(format.options, rest)));
    if let Some(spec) = find(info.options, key).or_else(|| find(env.table_options, key)).or_else(of_format) {
        return values::check(spec, key, &option.value).map_err(|message| (option.value_at, message));
    }
    if matches!(key, "connector" | "format" | "value.format" | "key.format") {
        return Ok(());
    }
    // An option of a format that the table does not have.
    let other = env.formats.iter().find(|format| ["", "value.", "key."].iter().any(|prefix| key.strip_prefix(prefix).is_some_and(|rest| find(format.options, rest).is_some())));
    if let Some(other) = other {
        let given: Vec<_> = formats.iter().map(|(prefix, format)| format!("'{prefix}format' is '{}'", format.name)).collect();
        let given = if given.is_empty() { "it has none".to_owned() } else { given.join(", ") };
        return Err((option.key_at, format!("'{key}' is an option of the format '{}', which the table does not have in that place: {given}", other.name)));
    }
    let format_keys = formats.iter().flat_map(|(prefix, format)| format.options.iter().map(move |spec| format!("{prefix}{}", spec.key)));
    let all: Vec<String> = info.options.iter().chain(env.table_options).map(|spec| spec.key.to_owned()).chain(format_keys).chain(["connector".to_owned(), "format".to_owned()]).collect();
    let hint = nearest(key, all.iter().map(String::as_str));
    Err((option.key_at, format!("connector '{}' has no option '{key}'{hint}", info.name)))
}

/// Checks a metadata key against the connector.
pub(crate) fn check_metadata(info: &ConnectorInfo, key: &str, is_virtual: bool, at: Location) -> Result<(), OptionFault> {
    let knows = |keys: &[(&str, &str)]| {
        keys.iter().any(|(known, _)| match known.strip_suffix('*') {
            Some(prefix) => key.starts_with(prefix) && key.len() > prefix.len(),
            None => *known == key,
        })
    };
    if knows(info.readable_metadata) || (!is_virtual && knows(info.writable_metadata)) {
        return Ok(());
    }
    let mut known: Vec<_> = info.readable_metadata.iter().map(|(key, _)| *key).collect();
    known.extend(info.writable_metadata.iter().map(|(key, _)| *key).filter(|key| !info.readable_metadata.iter().any(|(other, _)| other == key)));
    let list = if known.is_empty() { "it has none".to_owned() } else { format!("there are {}", known.join(", ")) };
    Err((at, format!("connector '{}' has no metadata '{key}'{}; {list}", info.name, nearest(key, known.iter().copied()))))
}

/// Checks SET: its key and, as far as its kind is known, its value.
pub(crate) fn check_setting(setting: &OptionText, settings: &[OptionSpec]) -> Result<(), OptionFault> {
    let spec = known_setting(&setting.key, setting.key_at, settings)?;
    values::check(spec, &setting.key, &setting.value).map_err(|message| (setting.value_at, message))
}

/// Finds a setting.
pub(crate) fn known_setting<'e>(key: &str, at: Location, settings: &'e [OptionSpec]) -> Result<&'e OptionSpec, OptionFault> {
    find(settings, key).ok_or_else(|| {
        let hint = nearest(key, settings.iter().map(|spec| spec.key));
        (at, format!("setting '{key}' is not known{hint}"))
    })
}
