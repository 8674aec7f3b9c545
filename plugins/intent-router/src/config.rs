//! The configuration, read and checked: what is wrong is said with its place.

use pelton_plugin::json::{self, Value};

use crate::pattern::Pattern;

/// The configuration.
pub struct Settings {
    pub(crate) field: Option<Vec<String>>,
    pub(crate) threshold: f32,
    pub(crate) fallback: String,
    pub(crate) add_headers: bool,
    pub(crate) rules: Vec<Rule>,
    /// Topic and examples.
    pub(crate) routes: Vec<(String, Vec<String>)>,
}

/// What a rule looks at.
pub(crate) enum Subject {
    Header(String),
    Field(Vec<String>),
}

pub(crate) struct Rule {
    pub(crate) subject: Subject,
    pub(crate) pattern: Pattern,
    pub(crate) topic: String,
}

/// What a configuration may hold.
const KEYS: [&str; 6] = ["field", "threshold", "fallback", "add_headers", "rules", "routes"];
const RULE_KEYS: [&str; 4] = ["header", "field", "pattern", "topic"];
const ROUTE_KEYS: [&str; 2] = ["topic", "examples"];

impl Settings {
    /// Reads the JSON text.
    pub fn read(config: &str) -> Result<Self, String> {
        let value = json::parse(config.as_bytes())?;
        known(&value, &KEYS, "the configuration")?;
        let field = match value.get("field") {
            None => None,
            Some(field) => Some(json::pointer(field.as_str().ok_or("`field` is no text")?)?),
        };
        let threshold = match value.get("threshold") {
            None => 0.15,
            Some(value) => value.as_f64().filter(|t| (0.0..=1.0).contains(t)).ok_or("`threshold` is no number from 0 to 1")?,
        };
        let rules = list(&value, "rules")?.iter().enumerate().map(|(at, rule)| read_rule(at, rule)).collect::<Result<Vec<_>, _>>()?;
        let routes = list(&value, "routes")?.iter().enumerate().map(|(at, route)| read_route(at, route)).collect::<Result<Vec<_>, _>>()?;
        if rules.is_empty() && routes.is_empty() {
            return Err("there are neither `routes` nor `rules`".to_owned());
        }
        Ok(Self {
            field,
            threshold: threshold as f32,
            fallback: topic(&value, "fallback", "the configuration")?,
            add_headers: match value.get("add_headers") {
                None => false,
                Some(value) => value.as_bool().ok_or("`add_headers` is neither true nor false")?,
            },
            rules,
            routes,
        })
    }
}

fn known(value: &Value<'_>, keys: &[&str], place: &str) -> Result<(), String> {
    let Value::Object(members) = value else { return Err(format!("{place} is no JSON object")) };
    match members.iter().find(|(name, _)| !keys.contains(&name.as_ref())) {
        Some((name, _)) => Err(format!("{place} has an unknown key `{name}`; known are {}", keys.join(", "))),
        None => Ok(()),
    }
}

fn list<'a, 'v>(value: &'v Value<'a>, key: &str) -> Result<&'v [Value<'a>], String> {
    match value.get(key) {
        None => Ok(&[]),
        Some(value) => value.as_array().ok_or_else(|| format!("`{key}` is no array")),
    }
}

fn topic(value: &Value<'_>, key: &str, place: &str) -> Result<String, String> {
    let topic = value.get(key).and_then(Value::as_str).unwrap_or_default();
    if topic.is_empty() { Err(format!("{place} has no `{key}` (a topic's name)")) } else { Ok(topic.to_owned()) }
}

fn read_rule(at: usize, rule: &Value<'_>) -> Result<Rule, String> {
    let place = format!("rule {at}");
    known(rule, &RULE_KEYS, &place)?;
    let subject = match (rule.get("header").and_then(Value::as_str), rule.get("field").and_then(Value::as_str)) {
        (Some(header), None) => Subject::Header(header.to_owned()),
        (None, Some(field)) => Subject::Field(json::pointer(field)?),
        _ => return Err(format!("{place} needs either `header` or `field`")),
    };
    let pattern = rule.get("pattern").and_then(Value::as_str).ok_or_else(|| format!("{place} has no `pattern`"))?;
    let pattern = Pattern::read(pattern).map_err(|reason| format!("{place}: {reason}"))?;
    Ok(Rule { subject, pattern, topic: topic(rule, "topic", &place)? })
}

fn read_route(at: usize, route: &Value<'_>) -> Result<(String, Vec<String>), String> {
    let place = format!("route {at}");
    known(route, &ROUTE_KEYS, &place)?;
    let examples: Option<Vec<String>> =
        list(route, "examples")?.iter().map(|example| example.as_str().map(str::to_owned)).collect();
    let examples = examples.filter(|examples| !examples.is_empty()).ok_or_else(|| format!("{place} has no `examples` (texts)"))?;
    Ok((topic(route, "topic", &place)?, examples))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_wrong_and_where() {
        for (config, expected) in [
            ("", "ends at byte 0"),
            ("[]", "no JSON object"),
            ("{}", "neither"),
            (r#"{"feild":"/x"}"#, "unknown key `feild`"),
            (r#"{"field":"x","routes":[{"topic":"a","examples":["b"]}],"fallback":"f"}"#, "no JSON pointer"),
            (r#"{"routes":[{"topic":"a","examples":["b"]}]}"#, "no `fallback`"),
            (r#"{"fallback":"f","routes":[{"topic":"a","examples":[]}]}"#, "route 0 has no `examples`"),
            (r#"{"fallback":"f","routes":[{"examples":["b"]}]}"#, "route 0 has no `topic`"),
            (r#"{"fallback":"f","threshold":2,"routes":[{"topic":"a","examples":["b"]}]}"#, "from 0 to 1"),
            (r#"{"fallback":"f","rules":[{"pattern":"a","topic":"t"}]}"#, "rule 0 needs either"),
            (r#"{"fallback":"f","rules":[{"header":"h","pattern":"a.>.b","topic":"t"}]}"#, "`>` stands at the end"),
        ] {
            let error = Settings::read(config).err().unwrap_or_default();
            assert!(error.contains(expected), "{config}: {error}");
        }
    }
}
