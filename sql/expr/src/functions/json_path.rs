//! Paths into JSON: `$.a.b[0]['c d'].*`, `[*]`, `..name`, in `lax` or `strict` mode (strict is the default, as in Flink).

use serde_json::Value;

/// A path, compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path {
    /// What is missing is empty, not an error.
    pub(super) lax: bool,
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(String),
    /// From 0; negative from the end.
    Index(i64),
    All,
    /// Fields of that name at any depth.
    Deep(String),
}

impl Path {
    /// Reads a path.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let mode = |word: &str| trimmed.get(..word.len()).filter(|start| start.eq_ignore_ascii_case(word)).and_then(|_| trimmed[word.len()..].strip_prefix(' '));
        let (lax, spec) = match (mode("lax"), mode("strict")) {
            (Some(rest), _) => (true, rest.trim()),
            (_, Some(rest)) => (false, rest.trim()),
            _ => (false, trimmed),
        };
        let wrong = |why: &str| format!("'{text}' is no path into JSON: {why}, expected a path such as $.a.b[0]");
        let mut rest = spec.strip_prefix('$').ok_or_else(|| wrong("it does not begin with $"))?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("..") {
                let end = name_end(after);
                if end == 0 {
                    return Err(wrong("a name is missing behind `..`"));
                }
                steps.push(Step::Deep(after[..end].to_owned()));
                rest = &after[end..];
            } else if let Some(after) = rest.strip_prefix('.') {
                if let Some(after) = after.strip_prefix('*') {
                    steps.push(Step::All);
                    rest = after;
                    continue;
                }
                let end = name_end(after);
                if end == 0 {
                    return Err(wrong("a name is missing behind `.`"));
                }
                steps.push(Step::Field(after[..end].to_owned()));
                rest = &after[end..];
            } else if let Some(after) = rest.strip_prefix('[') {
                let after = after.trim_start();
                if let Some(quote) = after.chars().next().filter(|c| matches!(c, '\'' | '"')) {
                    let inner = &after[1..];
                    let end = inner.find(quote).ok_or_else(|| wrong("a name in quotes does not end"))?;
                    steps.push(Step::Field(inner[..end].to_owned()));
                    rest = inner[end + 1..].trim_start().strip_prefix(']').ok_or_else(|| wrong("`]` is missing"))?;
                } else {
                    let (inside, behind) = after.split_once(']').ok_or_else(|| wrong("`]` is missing"))?;
                    steps.push(match inside.trim() {
                        "*" => Step::All,
                        number => Step::Index(number.parse().map_err(|_| wrong(&format!("[{number}] is neither a position nor *")))?),
                    });
                    rest = behind;
                }
            } else {
                return Err(wrong(&format!("`{rest}` does not continue it")));
            }
        }
        Ok(Self { lax, steps })
    }

    /// What stands there: `None` if nothing. A path with `*` or `..` gives an array of all that stands there.
    pub(super) fn find(&self, value: &Value) -> Option<Value> {
        let many = self.steps.iter().any(|step| matches!(step, Step::All | Step::Deep(_)));
        let mut found = vec![value];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in found {
                step.follow(value, &mut next);
            }
            found = next;
        }
        if many { Some(Value::Array(found.into_iter().cloned().collect())) } else { found.first().map(|value| (*value).clone()) }
    }
}

fn name_end(text: &str) -> usize {
    text.find(['.', '[', ' ']).unwrap_or(text.len())
}

impl Step {
    fn follow<'a>(&self, value: &'a Value, out: &mut Vec<&'a Value>) {
        match (self, value) {
            (Self::Field(name), Value::Object(fields)) => out.extend(fields.get(name)),
            (Self::Index(index), Value::Array(items)) => {
                let index = if *index < 0 { index + items.len() as i64 } else { *index };
                out.extend(usize::try_from(index).ok().and_then(|index| items.get(index)));
            }
            (Self::All, Value::Array(items)) => out.extend(items),
            (Self::All, Value::Object(fields)) => out.extend(fields.values()),
            (Self::Deep(name), Value::Object(fields)) => {
                out.extend(fields.get(name));
                fields.values().for_each(|value| self.follow(value, out));
            }
            (Self::Deep(_), Value::Array(items)) => items.iter().for_each(|value| self.follow(value, out)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_values() {
        let json: Value = serde_json::from_str(r#"{"a": {"b": [1, 2, {"c d": "x"}]}, "n": null}"#).expect("JSON");
        let check = |path: &str, expected: &str| {
            let found = Path::parse(path).map(|path| path.find(&json).map_or("nothing".to_owned(), |value| value.to_string()));
            assert_eq!(found.as_deref(), Ok(expected), "{path}");
        };
        check("$.a.b[0]", "1");
        check("lax $.a.b[2]['c d']", "\"x\"");
        check("$.a.b[-2]", "2");
        check("$.a.b[*]", r#"[1,2,{"c d":"x"}]"#);
        check("$..b", r#"[[1,2,{"c d":"x"}]]"#);
        check("$.n", "null");
        check("strict $.z", "nothing");
        assert!(Path::parse("a.b").is_err() && Path::parse("$.").is_err() && Path::parse("$[x]").is_err());
    }
}
