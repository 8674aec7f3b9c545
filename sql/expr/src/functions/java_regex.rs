//! Java's regular expressions for the `regex` crate.
//!
//! Most patterns mean the same in both. Translated: possessive and named-group spellings that differ, `\Z`, `\h`,
//! `\p{Alpha}` and its like, classes inside classes. Refused in words: look-around and back references, which the crate
//! leaves out because with them a pattern can take exponential time.

use regex::Regex;

/// `pattern` compiled.
///
/// # Errors
/// What in the pattern is not possible, for a message.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = translate(pattern)?;
    Regex::new(&translated).map_err(|error| match error {
        regex::Error::CompiledTooBig(limit) => format!("pattern '{pattern}' needs more than {limit} bytes when compiled"),
        other => {
            let text = other.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            format!("pattern '{pattern}' is no regular expression: {reason}")
        }
    })
}

fn translate(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern.chars().peekable();
    let mut class_depth = 0_usize;
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some(digit @ '1'..='9') => return Err(format!("pattern '{pattern}': back references (\\{digit}) are not possible")),
                Some('Z') => out.push_str("(?:\\n?\\z)"),
                Some('h') => out.push_str(if class_depth > 0 { " \\t\\u{A0}\\u{1680}\\u{180e}\\u{2000}-\\u{200a}\\u{202f}\\u{205f}\\u{3000}" } else { "[ \\t\\u{A0}\\u{1680}\\u{180e}\\u{2000}-\\u{200a}\\u{202f}\\u{205f}\\u{3000}]" }),
                Some('R') => out.push_str("(?:\\r\\n|[\\n-\\r\\u{85}\\u{2028}\\u{2029}])"),
                Some('e') => out.push_str("\\x1b"),
                Some('Q') => quoted(&mut rest, &mut out),
                Some('u') => {
                    let digits: String = rest.by_ref().take(4).collect();
                    out.push_str(&format!("\\u{{{digits}}}"));
                }
                Some('G' | 'X') => return Err(format!("pattern '{pattern}': \\G and \\X are not possible")),
                Some(letter @ ('p' | 'P')) if rest.peek() == Some(&'{') => {
                    rest.next();
                    let name: String = rest.by_ref().take_while(|c| *c != '}').collect();
                    out.push_str(&property(letter == 'P', &name, class_depth > 0));
                }
                // Java's \w, \d, \s and \b know ASCII only.
                Some('d') => out.push_str(if class_depth > 0 { "0-9" } else { "[0-9]" }),
                Some('w') => out.push_str(if class_depth > 0 { "a-zA-Z0-9_" } else { "[a-zA-Z0-9_]" }),
                Some('s') => out.push_str(if class_depth > 0 { " \\t\\n\\x0B\\f\\r" } else { "[ \\t\\n\\x0B\\f\\r]" }),
                Some('D') => out.push_str("[^0-9]"),
                Some('W') => out.push_str("[^a-zA-Z0-9_]"),
                Some('S') => out.push_str("[^ \\t\\n\\x0B\\f\\r]"),
                Some(other) if other.is_alphanumeric() || !other.is_ascii() => {
                    if other.is_ascii_alphanumeric() {
                        out.push('\\');
                    }
                    out.push(other);
                }
                Some(other) => out.extend(['\\', other]),
                None => return Err(format!("pattern '{pattern}' ends with a single \\")),
            },
            '[' => {
                class_depth += 1;
                out.push('[');
                if rest.peek() == Some(&'^') {
                    out.extend(rest.next());
                }
                // A `]` right behind the opening is an ordinary character.
                if rest.peek() == Some(&']') {
                    rest.next();
                    out.push_str("\\]");
                }
            }
            ']' if class_depth > 0 => {
                class_depth -= 1;
                out.push(']');
            }
            // `&&` means the same in both, `--` and `~~` only in the crate.
            '-' | '~' if class_depth > 0 && rest.peek() == Some(&c) => out.extend(['\\', c]),
            '(' if class_depth == 0 && rest.peek() == Some(&'?') => {
                let ahead: String = rest.clone().skip(1).take(2).collect();
                if ahead.starts_with(['=', '!']) || ahead == "<=" || ahead == "<!" {
                    return Err(format!("pattern '{pattern}': look-ahead and look-behind ((?{ahead}…)) are not possible"));
                }
                if ahead.starts_with('>') {
                    return Err(format!("pattern '{pattern}': atomic groups ((?>…)) are not possible"));
                }
                out.push('(');
            }
            '+' if class_depth == 0 && out.ends_with(['*', '+', '?', '}']) && !out.ends_with("\\*") && !out.ends_with("\\+") && !out.ends_with("\\?") && !out.ends_with("\\}") => {
                return Err(format!("pattern '{pattern}': possessive quantifiers (`*+`, `++`, `?+`) are not possible"));
            }
            '{' if class_depth == 0 && !rest.peek().is_some_and(char::is_ascii_digit) => out.push_str("\\{"),
            other => out.push(other),
        }
    }
    Ok(out)
}

/// `\Q…\E`.
fn quoted(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    let mut text = String::new();
    for c in rest.by_ref() {
        text.push(c);
        if text.ends_with("\\E") {
            text.truncate(text.len() - 2);
            break;
        }
    }
    out.push_str(&regex::escape(&text));
}

fn property(negated: bool, name: &str, inside: bool) -> String {
    let class = match name {
        "Lower" => "a-z",
        "Upper" => "A-Z",
        "ASCII" => "\\x00-\\x7F",
        "Alpha" => "a-zA-Z",
        "Digit" => "0-9",
        "Alnum" => "a-zA-Z0-9",
        "Punct" => "!-/:-@\\[-`{-~",
        "Graph" => "!-~",
        "Print" => " -~",
        "Blank" => " \\t",
        "Cntrl" => "\\x00-\\x1F\\x7F",
        "XDigit" => "0-9a-fA-F",
        "Space" => " \\t\\n\\x0B\\f\\r",
        other => {
            let other = other.strip_prefix("Is").unwrap_or(other);
            return format!("\\{}{{{other}}}", if negated { 'P' } else { 'p' });
        }
    };
    match (negated, inside) {
        (true, _) => format!("[^{class}]"),
        (false, true) => class.to_owned(),
        (false, false) => format!("[{class}]"),
    }
}

/// A LIKE pattern as the text of a regular expression.
pub(crate) fn like(pattern: &str, escape: Option<char>) -> Result<String, String> {
    let mut out = String::from("(?s)^");
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        if Some(c) == escape {
            match rest.next() {
                Some(next) if next == '%' || next == '_' || Some(next) == escape => out.push_str(&regex::escape(&next.to_string())),
                _ => return Err(format!("LIKE '{pattern}': ESCAPE '{c}' stands before %, _ or itself only")),
            }
            continue;
        }
        match c {
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            other => out.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
    out.push('$');
    Ok(out.trim_end_matches('$').to_owned() + "\\z")
}

/// A SIMILAR TO pattern as the text of a regular expression.
pub(crate) fn similar(pattern: &str, escape: Option<char>) -> Result<String, String> {
    let mut out = String::from("(?s)\\A(?:");
    let mut rest = pattern.chars();
    let mut class = false;
    while let Some(c) = rest.next() {
        if Some(c) == escape {
            let next = rest.next().ok_or_else(|| format!("SIMILAR TO '{pattern}' ends with its escape character"))?;
            out.push_str(&regex::escape(&next.to_string()));
            continue;
        }
        match c {
            '[' => {
                class = true;
                out.push('[');
            }
            ']' => {
                class = false;
                out.push(']');
            }
            ':' if class => out.push(':'),
            _ if class => out.push(c),
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '|' | '*' | '+' | '?' | '(' | ')' | '{' | '}' => out.push(c),
            other => out.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
    out.push_str(")\\z");
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        compile(pattern).unwrap_or_else(|error| panic!("{error}")).is_match(text)
    }

    #[test]
    fn means_what_java_means() {
        assert!(matches("^\\w+$", "abc_1") && !matches("^\\w+$", "é"));
        assert!(matches("^[\\d.]+$", "1.5") && !matches("^\\d$", "٣"));
        assert!(matches("^\\p{Alpha}\\p{IsL}$", "aé"));
        assert!(matches("^[\\p{Punct}]+$", "!]"));
        assert!(matches("^\\Qa.b\\E$", "a.b") && !matches("^\\Qa.b\\E$", "axb"));
        assert!(matches("^[]a]+$", "]a"));
        assert!(matches("a{", "a{") && matches("^a{2,3}$", "aaa"));
        assert!(matches("\\u00e9", "é"));
    }

    #[test]
    fn refuses_what_is_not_possible_in_words() {
        for (pattern, word) in [("(?=a)b", "look-ahead"), ("(a)\\1", "back references"), ("a++", "possessive"), ("(?<!a)b", "look-behind"), ("(", "no regular expression"), ("a\\", "single")] {
            let error = compile(pattern).expect_err("must be refused");
            assert!(error.contains(word), "{error}");
        }
    }
}
