//! Dead letters on one worker: the policy of the table they belong to, and their way until the next checkpoint.
//!
//! A letter belongs to the table its row came from; a row made from several tables to the first one that says where
//! its letters go. As text a letter is one JSON object a line: key, value and header values as text where they are UTF-8,
//! else in base64 under `key_base64`, `value_base64`, and as `{"base64": …}`.

use pelton_core::{
    dead_letter::DeadLetter,
    error::{Result, RuntimeError},
    position::{Offset, Partition},
};
use serde_json::{Map, Value, json};

use crate::{
    plan::Plan,
    table_options::{LetterBox, fails_on_error, letter_box},
};

/// How many first records of a table decide whether its format is wrong.
pub(crate) const FIRST_RECORDS: u64 = 1_000;

/// Dead letters of one worker since the last checkpoint.
pub(crate) struct Letters {
    /// By node: what happens to letters of its rows.
    rules: Vec<Rule>,
    /// For topics: written as soon as the worker comes round.
    topics: Vec<(String, DeadLetter)>,
    /// For files and the store: they go with the checkpoint.
    waiting: Vec<(LetterBox, DeadLetter)>,
    bytes: usize,
    /// Given up since the last call of `take_count`.
    count: usize,
}

#[derive(Clone)]
struct Rule {
    fail: bool,
    to: LetterBox,
    /// Name of the table, for letters that name none.
    table: String,
}

impl Letters {
    pub(crate) fn new(plan: &Plan, fail_by_default: bool) -> Result<Self> {
        let mut rules = Vec::with_capacity(plan.nodes.len());
        for node in &plan.nodes {
            let mut rule = Rule { fail: fail_by_default && node.sources.is_empty(), to: LetterBox::Store, table: String::new() };
            for table in node.sources.iter().filter_map(|source| plan.source_table(*source)) {
                let fail = fails_on_error(table).map_err(|reason| RuntimeError::Script(format!("table '{}': {reason}", table.name)))?;
                rule.fail |= fail.unwrap_or(fail_by_default);
                if rule.to == LetterBox::Store {
                    rule.to = letter_box(table);
                }
                if rule.table.is_empty() {
                    rule.table.clone_from(&table.name);
                }
            }
            rules.push(rule);
        }
        Ok(Self { rules, topics: Vec::new(), waiting: Vec::new(), bytes: 0, count: 0 })
    }

    /// Takes a row that `node` gave up.
    pub(crate) fn give_up(&mut self, node: usize, mut letter: DeadLetter) -> Result<()> {
        let rule = &self.rules[node];
        if rule.fail {
            return Err(RuntimeError::Data {
                step: letter.step,
                reason: letter.reason,
                partition: (!letter.topic.is_empty()).then_some(letter.partition),
                offset: (letter.offset.0 >= 0).then_some(letter.offset),
                topic: letter.topic,
            });
        }
        if letter.table.is_empty() {
            letter.table.clone_from(&rule.table);
        }
        self.count += 1;
        if let LetterBox::Topic(topic) = &rule.to {
            self.topics.push((topic.clone(), letter));
            return Ok(());
        }
        self.bytes += 200 + letter.value.as_ref().map_or(0, Vec::len) + letter.key.as_ref().map_or(0, Vec::len);
        self.waiting.push((rule.to.clone(), letter));
        Ok(())
    }

    pub(crate) fn take_count(&mut self) -> usize {
        std::mem::take(&mut self.count)
    }

    pub(crate) fn byte_len(&self) -> usize {
        self.bytes
    }

    /// Letters for topics, in order.
    pub(crate) fn take_for_topics(&mut self) -> Vec<(String, DeadLetter)> {
        std::mem::take(&mut self.topics)
    }

    /// Letters that wait for the checkpoint, in order.
    pub(crate) fn take(&mut self) -> Vec<(LetterBox, DeadLetter)> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting)
    }
}

/// A letter as one line of JSON, without the line break.
pub fn letter_to_json(letter: &DeadLetter) -> Vec<u8> {
    let mut object = Map::new();
    object.insert("table".to_owned(), json!(letter.table));
    object.insert("step".to_owned(), json!(letter.step));
    object.insert("reason".to_owned(), json!(letter.reason));
    object.insert("topic".to_owned(), json!(letter.topic));
    object.insert("partition".to_owned(), json!(letter.partition.0));
    object.insert("offset".to_owned(), json!(letter.offset.0));
    object.insert("timestamp_ms".to_owned(), json!(letter.timestamp_ms));
    for (name, bytes) in [("key", &letter.key), ("value", &letter.value)] {
        match bytes.as_deref().map(text_or_base64) {
            None => object.insert(name.to_owned(), Value::Null),
            Some(Ok(text)) => object.insert(name.to_owned(), Value::String(text)),
            Some(Err(base64)) => object.insert(format!("{name}_base64"), Value::String(base64)),
        };
    }
    let headers: Vec<Value> = letter
        .headers
        .iter()
        .map(|(name, value)| {
            let value = match value.as_deref().map(text_or_base64) {
                None => Value::Null,
                Some(Ok(text)) => Value::String(text),
                Some(Err(base64)) => json!({ "base64": base64 }),
            };
            json!([name, value])
        })
        .collect();
    object.insert("headers".to_owned(), Value::Array(headers));
    if let Some(plugin) = &letter.plugin {
        object.insert("plugin".to_owned(), json!(plugin));
    }
    Value::Object(object).to_string().into_bytes()
}

/// Reads back what [`letter_to_json`] wrote.
pub fn letter_from_json(line: &[u8]) -> Option<DeadLetter> {
    let object: Map<String, Value> = serde_json::from_slice(line).ok()?;
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |name: &str| object.get(name).and_then(Value::as_i64);
    let bytes = |name: &str| match object.get(&format!("{name}_base64")) {
        Some(encoded) => encoded.as_str().and_then(from_base64),
        None => object.get(name).and_then(Value::as_str).map(|text| text.as_bytes().to_vec()),
    };
    let header = |pair: &Value| {
        let name = pair.get(0)?.as_str()?.to_owned();
        let value = match pair.get(1)? {
            Value::String(text) => Some(text.as_bytes().to_vec()),
            Value::Object(encoded) => encoded.get("base64").and_then(Value::as_str).and_then(from_base64),
            _ => None,
        };
        Some((name, value))
    };
    Some(DeadLetter {
        table: text("table"),
        step: text("step"),
        reason: text("reason"),
        topic: text("topic"),
        partition: Partition(number("partition").and_then(|n| i32::try_from(n).ok()).unwrap_or(0)),
        offset: Offset(number("offset").unwrap_or(-1)),
        timestamp_ms: number("timestamp_ms"),
        key: bytes("key"),
        value: bytes("value"),
        headers: object.get("headers").and_then(Value::as_array).map(|all| all.iter().filter_map(header).collect()).unwrap_or_default(),
        plugin: object.get("plugin").and_then(Value::as_str).map(str::to_owned),
    })
}

fn text_or_base64(bytes: &[u8]) -> Result<String, String> {
    use base64::Engine as _;
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| base64::engine::general_purpose::STANDARD.encode(bytes))
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_comes_back_from_its_line_bytes_and_all() {
        let letter = DeadLetter {
            table: "requests".to_owned(),
            step: "decode".to_owned(),
            reason: "expected `}`".to_owned(),
            topic: "ai".to_owned(),
            partition: Partition(3),
            offset: Offset(17),
            timestamp_ms: Some(5),
            key: None,
            value: Some(vec![0xff, 0x00]),
            headers: vec![("a".to_owned(), Some(b"1".to_vec())), ("a".to_owned(), None), ("b".to_owned(), Some(vec![0xfe]))],
            plugin: Some("intent 1 abc".to_owned()),
        };
        assert_eq!(letter_from_json(&letter_to_json(&letter)), Some(letter));
    }
}
