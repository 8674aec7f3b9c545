//! The plugin around it.

use pelton_plugin::{
    arrow::{Batch, Column, Field, Type, read_batch, schema_message, write_batch},
    functions::{
        Failure, Guest, Shape, Signature, Volatility,
        lifecycle::{self, Info, Parts},
    },
};

use crate::{chunk, redact, sha256_hex, xxh64};

struct Text;

impl lifecycle::Guest for Text {
    fn describe() -> Info {
        Info {
            name: "text".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            description: "SQL functions over text: redact, prompt_hash, xxh64, chunk".to_owned(),
            needs: Parts::empty(),
        }
    }

    fn init(_config: String) -> Result<(), String> {
        Ok(())
    }
}

/// In the order of `functions`.
const NAMES: [&str; 4] = ["redact", "prompt_hash", "xxh64", "chunk"];

fn arguments(function: &str) -> Vec<Type> {
    match function {
        "chunk" => vec![Type::Utf8, Type::Int32, Type::Int32],
        _ => vec![Type::Utf8],
    }
}

fn returns(function: &str) -> Field {
    match function {
        "xxh64" => Field::new("hash", Type::Int64),
        "chunk" => Field::list_of_rows("chunks", vec![Field::new("index", Type::Int32), Field::new("chunk", Type::Utf8)]),
        name => Field::new(name, Type::Utf8),
    }
}

impl Guest for Text {
    fn functions() -> Vec<Signature> {
        NAMES
            .iter()
            .map(|name| {
                let fields: Vec<Field> = ["text", "size", "overlap"].iter().zip(arguments(name)).map(|(n, t)| Field::new(n, t)).collect();
                Signature {
                    name: (*name).to_owned(),
                    arguments: schema_message(&fields),
                    returns: schema_message(&[returns(name)]),
                    volatility: Volatility::Immutable,
                    shape: if *name == "chunk" { Shape::Table } else { Shape::Scalar },
                    null_on_null_input: true,
                }
            })
            .collect()
    }

    fn invoke(function: u32, arguments_message: Vec<u8>, _rows: u32) -> Result<Vec<u8>, Failure> {
        let name = *NAMES.get(function as usize).ok_or_else(|| Failure::Fatal(format!("there is no function {function}")))?;
        let batch = read_batch(&arguments_message, &arguments(name)).map_err(Failure::Fatal)?;
        let column = match name {
            "redact" => Column::Utf8(each(&batch, |text| redact(text))),
            "prompt_hash" => Column::Utf8(each(&batch, |text| sha256_hex(text.as_bytes()))),
            "xxh64" => Column::Int64(each(&batch, |text| xxh64(text.as_bytes()) as i64)),
            _ => chunks(&batch).map_err(Failure::InvalidInput)?,
        };
        Ok(write_batch(&[column]))
    }
}

fn each<T>(batch: &Batch<'_>, of: impl Fn(&str) -> T) -> Vec<Option<T>> {
    (0..batch.rows()).map(|row| batch.text(0, row).map(&of)).collect()
}

fn chunks(batch: &Batch<'_>) -> Result<Column, String> {
    let (mut counts, mut indexes, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..batch.rows() {
        let parts = match (batch.text(0, row), batch.int32(1, row), batch.int32(2, row)) {
            (Some(text), Some(size), Some(overlap)) => chunk(text, size, overlap)?,
            _ => Vec::new(),
        };
        counts.push(parts.len() as u32);
        for (index, part) in parts.into_iter().enumerate() {
            indexes.push(Some(index as i32));
            texts.push(Some(part));
        }
    }
    Ok(Column::List(counts, Box::new(Column::Struct(vec![Column::Int32(indexes), Column::Utf8(texts)]))))
}

pelton_plugin::functions::export_functions!(Text with_types_in pelton_plugin::functions);
