//! The decision for one record: rules first, then meaning.

use std::borrow::Cow;

use pelton_plugin::json::{self, Value};

use crate::{
    config::{Settings, Subject},
    index::Index,
};

/// What is looked at of a record.
pub struct Record<'a> {
    /// `None` for a tombstone.
    pub value: Option<&'a [u8]>,
    /// In order, duplicates kept.
    pub headers: &'a [(String, Option<Vec<u8>>)],
}

/// Where a record goes, and why.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict<'a> {
    /// The topic.
    pub topic: &'a str,
    /// How like the prompt is to the route's nearest example; absent if a rule or the fallback decided.
    pub score: Option<f32>,
}

/// The router: settings and index.
pub struct Route {
    settings: Settings,
    index: Index,
}

impl Route {
    /// Indexes the examples.
    pub fn new(settings: Settings) -> Self {
        let index = Index::build(&settings.routes);
        Self { settings, index }
    }

    /// Whether records get headers.
    pub fn adds_headers(&self) -> bool {
        self.settings.add_headers
    }

    /// Decides for one record; an error is the record's fault.
    pub fn decide(&mut self, record: &Record<'_>) -> Result<Verdict<'_>, String> {
        for rule in 0..self.settings.rules.len() {
            if self.rule_matches(rule, record)? {
                return Ok(Verdict { topic: &self.settings.rules[rule].topic, score: None });
            }
        }
        let fallback = Verdict { topic: &self.settings.fallback, score: None };
        if self.settings.routes.is_empty() {
            return Ok(fallback);
        }
        let Some(value) = record.value else { return Ok(fallback) };
        let prompt = match &self.settings.field {
            None => std::str::from_utf8(value).map(Cow::Borrowed).map_err(|_| "the value is no UTF-8 text".to_owned())?,
            Some(path) => match text_at(value, path)? {
                Some(text) => text,
                None => return Err(format!("there is no text at /{}", path.join("/"))),
            },
        };
        match self.index.nearest(&prompt) {
            Some((route, score)) if score >= self.settings.threshold => {
                Ok(Verdict { topic: &self.settings.routes[route].0, score: Some(score) })
            }
            _ => Ok(fallback),
        }
    }

    fn rule_matches(&self, rule: usize, record: &Record<'_>) -> Result<bool, String> {
        let rule = &self.settings.rules[rule];
        Ok(match &rule.subject {
            Subject::Header(name) => record
                .headers
                .iter()
                .rev()
                .find(|(header, _)| header == name)
                .and_then(|(_, value)| std::str::from_utf8(value.as_deref()?).ok())
                .is_some_and(|value| rule.pattern.matches(value)),
            Subject::Field(path) => match record.value {
                None => false,
                Some(value) => text_at(value, path)?.is_some_and(|text| rule.pattern.matches(&text)),
            },
        })
    }
}

/// The text (or number, or boolean, as text) under a path; `None` if there is none, or null, or an array or object.
fn text_at<'a>(value: &'a [u8], path: &[String]) -> Result<Option<Cow<'a, str>>, String> {
    let found = json::find(value, path).map_err(|reason| format!("the value is no JSON: {reason}"))?;
    Ok(match found {
        Some(Value::String(text)) => Some(text),
        Some(Value::Number(text)) => Some(Cow::Borrowed(text)),
        Some(Value::Bool(value)) => Some(Cow::Borrowed(if value { "true" } else { "false" })),
        _ => None,
    })
}
