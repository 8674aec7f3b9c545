//! `pelton plugin inspect`: what a component is.

use std::{fmt::Write, path::Path};

use pelton_plugin_host::{Inspection, inspect as look};
use serde_json::json;

use crate::{arguments::TextOrJson, fault::Fault, run::print_text, script::host_settings};

pub(crate) fn inspect(file: &Path, output: TextOrJson) -> Result<(), Fault> {
    let found = look(file, host_settings())?;
    print_text(&match output {
        TextOrJson::Text => text(&found),
        TextOrJson::Json => json(&found).to_string(),
    })
}

fn text(found: &Inspection) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{name:<12} {value}");
        }
    };
    line("name", &found.name);
    line("version", &found.version);
    line("description", &found.description);
    line("kinds", &found.kinds.join(", "));
    line("contract", &found.contract.join(", "));
    line("needs", &found.needs.join(", "));
    line("size", &format!("{} bytes", found.size_bytes));
    line("hash", &format!("sha256:{}", found.sha256));
    line("imports", &found.imports.join(", "));
    line("exports", &found.exports.join(", "));
    for function in &found.functions {
        let kind = if function.is_table { "table function" } else { "function" };
        line(kind, &format!("{}({}) → {}", function.name, function.arguments.join(", "), function.returns));
    }
    out
}

fn json(found: &Inspection) -> serde_json::Value {
    let functions: Vec<_> = found
        .functions
        .iter()
        .map(|function| json!({ "name": function.name, "arguments": function.arguments, "returns": function.returns, "is_table": function.is_table }))
        .collect();
    json!({
        "name": found.name, "version": found.version, "description": found.description, "kinds": found.kinds,
        "contract": found.contract, "imports": found.imports, "exports": found.exports, "needs": found.needs,
        "size_bytes": found.size_bytes, "sha256": found.sha256, "functions": functions,
    })
}
