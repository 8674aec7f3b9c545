//! Subject patterns: words separated by dots; `*` stands for one word, or for any letters within one; `>` at the end for
//! one or more words.
//!
//! `ai.*.fast` matches `ai.code.fast`, not `ai.code.very.fast`; `ai.>` matches both, not `ai`; `gpt-*` matches `gpt-4`.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    words: Vec<String>,
    /// Ends in `>`.
    open: bool,
}

impl Pattern {
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut words: Vec<String> = text.split('.').map(str::to_owned).collect();
        let open = words.last().is_some_and(|word| word == ">");
        if open {
            words.pop();
        }
        if words.iter().any(|word| word == ">") {
            return Err(format!("pattern `{text}`: `>` stands at the end only"));
        }
        Ok(Self { words, open })
    }

    pub(crate) fn matches(&self, subject: &str) -> bool {
        let mut rest = subject.split('.');
        for word in &self.words {
            match rest.next() {
                Some(found) if word_matches(word.as_bytes(), found.as_bytes()) => {}
                _ => return false,
            }
        }
        // What `>` stands for, or nothing.
        rest.next().is_some() == self.open
    }
}

/// `*` for any letters, also none (but a `*` alone needs a word); greedy with one step back, so linear in practice and at
/// worst the product of the lengths.
fn word_matches(pattern: &[u8], word: &[u8]) -> bool {
    if pattern == b"*" {
        return !word.is_empty();
    }
    let (mut p, mut w) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while w < word.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, w));
            p += 1;
        } else if pattern.get(p) == Some(&word[w]) {
            p += 1;
            w += 1;
        } else if let Some((star_p, star_w)) = star {
            p = star_p + 1;
            w = star_w + 1;
            star = Some((star_p, w));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_words_wildcards_and_the_rest() {
        for (pattern, subject, expected) in [
            ("umbrella", "umbrella", true),
            ("umbrella", "umbrellas", false),
            ("ai.*", "ai.code", true),
            ("ai.*", "ai", false),
            ("ai.*", "ai.", false),
            ("ai.*", "ai.code.fast", false),
            ("ai.>", "ai.code.fast", true),
            ("ai.>", "ai", false),
            (">", "anything.at.all", true),
            ("*", "one", true),
            ("*", "one.two", false),
            ("gpt-*", "gpt-4", true),
            ("gpt-*-mini", "gpt-4-mini", true),
            ("gpt-*-mini", "gpt-4-maxi", false),
            ("*a*b", "xxaxxbxb", true),
            ("", "", true),
        ] {
            let pattern_read = Pattern::read(pattern).expect("pattern");
            assert_eq!(pattern_read.matches(subject), expected, "{pattern} on {subject}");
        }
    }
}
