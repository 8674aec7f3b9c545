//! Scripts that are read: `good.sql` holds paragraphs of a script and, behind `=>`, what is read from it.

use super::{cases, statements};
use crate::script::{
    statement::{ColumnKind, CreateTable, Explained, Insert, Statement},
    types::field_type_name,
};

fn table(table: &CreateTable) -> String {
    let mut parts: Vec<String> = table
        .columns
        .iter()
        .map(|column| {
            let name = &column.name.value;
            let typed = |field: &arrow::datatypes::Field| {
                format!("{name} {}{}", field_type_name(field), if field.is_nullable() { "" } else { " NOT NULL" })
            };
            match &column.kind {
                ColumnKind::Physical(field) => typed(field),
                ColumnKind::Metadata { field, key, is_virtual, .. } => {
                    format!("{} from '{key}'{}", typed(field), if *is_virtual { " virtual" } else { "" })
                }
                ColumnKind::Computed(expr) => format!("{name} := {expr}"),
            }
        })
        .collect();
    if let Some((column, expr)) = &table.watermark {
        parts.push(format!("watermark {} := {expr}", column.value));
    }
    for (what, names) in [("key", &table.primary_key), ("by", &table.partition_by)] {
        if !names.is_empty() {
            parts.push(format!("{what} {}", names.iter().map(|name| name.value.as_str()).collect::<Vec<_>>().join("+")));
        }
    }
    parts.extend(table.options.iter().map(|option| format!("{}={}", option.key, option.value)));
    format!("table {} ({})", table.name.value, parts.join("; "))
}

fn insert(insert: &Insert) -> String {
    let columns: Vec<_> = insert.columns.iter().map(|column| column.value.as_str()).collect();
    format!("insert {} ({}) {}", insert.table.value, columns.join(", "), insert.query)
}

fn summary(statement: &Statement) -> String {
    let inserts = |inserts: &[Insert]| inserts.iter().map(insert).collect::<Vec<_>>().join(" & ");
    match statement {
        Statement::CreateTable(create) => table(create),
        Statement::CreateView { name, columns, query, if_not_exists } => {
            let columns: Vec<_> = columns.iter().map(|column| column.value.as_str()).collect();
            format!("view {} ({}){} {query}", name.value, columns.join(", "), if *if_not_exists { " if new" } else { "" })
        }
        Statement::CreateFunction { name, export, plugin, .. } => format!("function {} = {}.{export}", name.value, plugin.value),
        Statement::CreatePlugin { name, options, .. } => {
            let options: Vec<_> = options.iter().map(|option| format!("{}={}", option.key, option.value)).collect();
            format!("plugin {} ({})", name.value, options.join("; "))
        }
        Statement::Insert(one) => insert(one),
        Statement::StatementSet(all) => format!("set of {}", inserts(all)),
        Statement::Query(query) => format!("query {query}"),
        Statement::Explain(explained) => match explained.as_ref() {
            Explained::Query(query) => format!("explain {query}"),
            Explained::Inserts(all) => format!("explain {}", inserts(all)),
        },
        Statement::Set(setting) => format!("{} = {}", setting.key, setting.value),
        Statement::Reset(Some((key, _))) => format!("reset {key}"),
        other => format!("{other:?}"),
    }
}

#[test]
fn reads_what_a_script_says() {
    let mut faults = Vec::new();
    let mut count = 0;
    for paragraph in include_str!("good.sql").split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
        let (script, expected) = paragraph.split_once("\n=> ").expect("an answer behind =>");
        let got = match statements(script) {
            Ok(statements) => statements.iter().map(summary).collect::<Vec<_>>().join("\n=> "),
            Err(error) => error.to_string(),
        };
        count += 1;
        if got != expected.trim_end() {
            faults.push(format!("{script}\ngot      => {got}\nexpected => {expected}"));
        }
    }
    assert!(count >= 30, "{count} paragraphs");
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[test]
fn every_case_of_the_bank_is_read() {
    let mut faults = Vec::new();
    for (name, script) in cases() {
        if let Err(error) = statements(&script)
            && !["errors/syntax", "errors/unbalanced"].contains(&name.as_str())
        {
            faults.push(format!("{name}: {error}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_text_of_a_table_is_its_statement_without_what_follows() {
    let script = "SELECT 1; -- ä\nCREATE  TABLE t (\n  ä INT -- first\n) WITH ('connector' = '${NAME}') -- done\n;\nSELECT 2";
    let statements = statements(script).expect("a good script");
    let Statement::CreateTable(create) = &statements[1] else { panic!("expected a table") };
    assert_eq!(create.text, "CREATE  TABLE t (\n  ä INT -- first\n) WITH ('connector' = 'value') -- done");
}
