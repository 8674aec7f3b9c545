//! Which attack, and on which records.

use std::cell::RefCell;

use pelton_plugin::arrow::{Field, Type, schema_message};

use crate::{
    arrow,
    bindings::{
        export,
        exports::pelton::plugin::{
            functions::{self, Shape, Signature, Volatility},
            lifecycle::{self, Info, Parts},
            router::{self, Decision, Target},
            transform,
        },
        pelton::plugin::types::{BatchContext, Failure, Message, Output},
    },
    count, host_calls, log, loops, memory, output, probe, stack, state, table, trap,
};

struct Hostile;

thread_local! {
    static ATTACK: RefCell<String> = const { RefCell::new(String::new()) };
    /// How often `retry` was asked.
    static TRIES: RefCell<u32> = const { RefCell::new(0) };
    /// What `hold` holds back.
    static HELD: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

fn attack_name() -> String {
    ATTACK.with(|attack| attack.borrow().clone())
}

impl lifecycle::Guest for Hostile {
    fn describe() -> Info {
        Info {
            name: "hostile".to_owned(),
            version: "0.1.0".to_owned(),
            description: "Attacks the host, for its tests".to_owned(),
            needs: Parts::KEY | Parts::HEADERS,
        }
    }

    fn init(config: String) -> Result<(), String> {
        let attack = config.rsplit('"').nth(1).unwrap_or_default().to_owned();
        match attack.as_str() {
            "refuse" => return Err("I do not want to".to_owned()),
            "init-loops" => loops::attack(),
            _ => {}
        }
        ATTACK.with(|cell| *cell.borrow_mut() = attack);
        Ok(())
    }
}

/// The attack with one record: what to say of it.
fn one(attack: &str, value: &[u8]) -> Result<String, Failure> {
    let is_bad = value == b"bad";
    if attack == "count-state" {
        return state::count(is_bad).map_err(Failure::InvalidInput);
    }
    if !is_bad {
        return Ok("fine".to_owned());
    }
    match attack {
        "loops" => loops::attack(),
        "memory" => memory::attack(),
        "stack" => stack::attack(),
        "trap" => trap::attack(),
        "log" => log::attack(),
        "host-calls" => host_calls::attack(),
        "metrics" => host_calls::names(),
        "network" => probe::network(),
        "table" => return table::attack().map_err(Failure::InvalidInput),
        "output" => return Ok(output::attack()),
        "escape" => return state::escape().map_err(Failure::InvalidInput),
        "probe" => return Ok(probe::attack()),
        "invalid" => return Err(Failure::InvalidInput("this is no prompt".to_owned())),
        "fatal" => return Err(Failure::Fatal("the model is gone".to_owned())),
        "retry" => {
            let tries = TRIES.with(|tries| tries.replace_with(|n| *n + 1));
            return if tries < 2 { Err(Failure::Retryable("not yet".to_owned())) } else { Ok("at last".to_owned()) };
        }
        "retry-always" => return Err(Failure::Retryable("never".to_owned())),
        _ => {}
    }
    Ok("survived".to_owned())
}

impl router::Guest for Hostile {
    fn route(_context: BatchContext, batch: Vec<Message>) -> Vec<Result<Decision, Failure>> {
        let attack = attack_name();
        let mut results: Vec<_> = batch
            .iter()
            .map(|message| {
                let topic = one(&attack, message.value.as_deref().unwrap_or_default())?;
                Ok(Decision { targets: vec![Target { topic, key: message.key.clone() }], add_headers: Vec::new() })
            })
            .collect();
        if attack == "count" && batch.iter().any(|message| message.value.as_deref() == Some(b"bad")) {
            count::attack(&mut results);
        }
        results
    }
}

impl transform::Guest for Hostile {
    fn process(_context: BatchContext, batch: Vec<Message>) -> Vec<Result<Vec<Output>, Failure>> {
        let attack = attack_name();
        batch
            .into_iter()
            .map(|message| {
                let value = message.value.clone().unwrap_or_default();
                one(&attack, &value)?;
                if attack == "hold" {
                    HELD.with(|held| held.borrow_mut().push(value));
                    return Ok(Vec::new());
                }
                // Each record twice: the second with a word behind it.
                let output = |value| Output {
                    key: message.key.clone(),
                    value,
                    headers: message.headers.clone(),
                    timestamp: None,
                    topic: None,
                };
                Ok(vec![output(message.value.clone()), output(Some([&value[..], b"!"].concat()))])
            })
            .collect()
    }

    fn flush(_context: BatchContext) -> Result<Vec<Output>, Failure> {
        let held = HELD.with(|held| std::mem::take(&mut *held.borrow_mut()));
        Ok(held
            .into_iter()
            .map(|value| Output { key: None, value: Some(value), headers: Vec::new(), timestamp: None, topic: None })
            .collect())
    }
}

impl functions::Guest for Hostile {
    fn functions() -> Vec<Signature> {
        (0..10)
            .map(|n| Signature {
                name: format!("damage{n}"),
                arguments: schema_message(&[Field::new("text", Type::Utf8)]),
                returns: schema_message(&[Field::new("text", Type::Utf8)]),
                volatility: Volatility::Volatile,
                shape: Shape::Scalar,
                null_on_null_input: false,
            })
            .collect()
    }

    fn invoke(function: u32, arguments: Vec<u8>, _rows: u32) -> Result<Vec<u8>, Failure> {
        Ok(arrow::attack(function, &arguments))
    }
}

export!(Hostile with_types_in crate::bindings);
