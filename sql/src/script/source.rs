//! A script's text with `${NAME}` replaced, and the way back from positions of the result to those of the script.
//!
//! Promises: a position that is reported is one the user sees in his file; a fault inside a replaced text is reported at
//! the `${`; a quote or a comment without its end where it begins. Comments are left alone. In the option `'topic'`, a
//! name that is no variable stays: it is a column whose value names the topic.

use datafusion::sql::sqlparser::tokenizer::Location;

use crate::job::ScriptError;

/// A script, ready to be read.
#[derive(Debug)]
pub(crate) struct Source {
    lines: Vec<String>,
    /// The text after replacing.
    pub(crate) text: String,
    /// For each line of `text`: where its pieces come from, in column order.
    pieces: Vec<Vec<Piece>>,
}

/// From `column` of a line of the result on, text of the script's `line` and `from`; replaced text stays at `from`.
#[derive(Debug, Clone, Copy)]
struct Piece {
    column: u64,
    line: u64,
    from: u64,
    replaced: bool,
}

impl Source {
    /// Replaces variables.
    ///
    /// # Errors
    /// A variable that is not set, or a `${` without its end.
    pub(crate) fn new(script: &str, variables: &dyn Fn(&str) -> Option<String>) -> Result<Self, ScriptError> {
        let mut source = Self { lines: script.lines().map(str::to_owned).collect(), text: String::with_capacity(script.len()), pieces: vec![Vec::new()] };
        Replacer { input: script, at: 0, line: 1, column: 1, out_column: 1, source: &mut source, variables }.run()?;
        Ok(source)
    }

    /// An error at a place of the replaced text.
    pub(crate) fn error(&self, at: Location, message: impl Into<String>) -> ScriptError {
        let (line, column) = self.original(at);
        self.error_at(line, column, message.into())
    }

    fn error_at(&self, line: u64, column: u64, message: String) -> ScriptError {
        let index = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
        ScriptError { line, column, message, source_line: self.lines.get(index).cloned().unwrap_or_default() }
    }

    /// Behind the last character that is not white space: where something is missing at the end of the script.
    pub(crate) fn end(&self) -> Location {
        let text = self.text.trim_end();
        let line = text.matches('\n').count() as u64 + 1;
        let column = text.rsplit('\n').next().map_or(0, |last| last.chars().count()) as u64 + 1;
        Location { line, column }
    }

    /// The text from a place up to another, without white space around it.
    pub(crate) fn between(&self, begin: Location, end: Location) -> String {
        let mut text = String::new();
        let first = usize::try_from(begin.line.saturating_sub(1)).unwrap_or(usize::MAX);
        let count = usize::try_from((end.line + 1).saturating_sub(begin.line)).unwrap_or(0);
        for (line, number) in self.text.split_inclusive('\n').skip(first).take(count).zip(begin.line..) {
            let from = if number == begin.line { begin.column.saturating_sub(1) } else { 0 };
            let to = if number == end.line { end.column.saturating_sub(1) } else { u64::MAX };
            text.extend(line.chars().zip(0..to).filter(|(_, column)| *column >= from).map(|(c, _)| c));
        }
        text.trim().to_owned()
    }

    /// The script's own line and column of a place of the replaced text; its first place if that is not known.
    pub(crate) fn original(&self, at: Location) -> (u64, u64) {
        let pieces = at.line.checked_sub(1).and_then(|line| self.pieces.get(usize::try_from(line).ok()?));
        let piece = pieces.and_then(|pieces| pieces.iter().rev().find(|piece| piece.column <= at.column.max(1)));
        match piece {
            None => (1, 1),
            Some(piece) if piece.replaced => (piece.line, piece.from),
            Some(piece) => (piece.line, piece.from + at.column.max(1) - piece.column),
        }
    }
}

struct Replacer<'a> {
    input: &'a str,
    at: usize,
    line: u64,
    column: u64,
    out_column: u64,
    source: &'a mut Source,
    variables: &'a dyn Fn(&str) -> Option<String>,
}

impl Replacer<'_> {
    fn run(mut self) -> Result<(), ScriptError> {
        self.piece(false);
        // The quote that is open, where its text begins, and its line and column.
        let mut quote: Option<(char, usize, (u64, u64))> = None;
        while let Some(next) = self.rest().chars().next() {
            if quote.is_none() && self.rest().starts_with("--") {
                let end = self.rest().find('\n').unwrap_or(self.rest().len());
                self.copy_bytes(end);
            } else if quote.is_none() && self.rest().starts_with("/*") {
                let Some(end) = self.rest()[2..].find("*/") else {
                    return Err(self.source.error_at(self.line, self.column, "the comment has no end: `*/` is missing".to_owned()));
                };
                self.copy_bytes(end + 4);
            } else if self.rest().starts_with("${") {
                self.variable(quote.map(|(_, begin, _)| begin))?;
            } else {
                match quote {
                    Some((open, ..)) if next == open => quote = None,
                    None if matches!(next, '\'' | '`' | '"') => quote = Some((next, self.at, (self.line, self.column))),
                    _ => {}
                }
                self.copy(next);
            }
        }
        match quote {
            None => Ok(()),
            Some((open, _, (line, column))) => {
                let what = if open == '\'' { "text" } else { "name" };
                Err(self.source.error_at(line, column, format!("the {what} that begins here has no end: `{open}` is missing")))
            }
        }
    }

    fn rest(&self) -> &str {
        &self.input[self.at..]
    }

    fn piece(&mut self, replaced: bool) {
        let piece = Piece { column: self.out_column, line: self.line, from: self.column, replaced };
        self.source.pieces.last_mut().expect("there is always a line").push(piece);
    }

    fn emit(&mut self, c: char) {
        self.source.text.push(c);
        if c == '\n' {
            self.out_column = 1;
            self.source.pieces.push(Vec::new());
        } else {
            self.out_column += 1;
        }
    }

    fn advance(&mut self, c: char) {
        self.at += c.len_utf8();
        if c == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
    }

    fn copy(&mut self, c: char) {
        self.emit(c);
        self.advance(c);
        if c == '\n' {
            self.piece(false);
        }
    }

    fn copy_bytes(&mut self, count: usize) {
        let stop = self.at + count;
        while self.at < stop {
            let Some(c) = self.rest().chars().next() else { break };
            self.copy(c);
        }
    }

    fn variable(&mut self, quoted_from: Option<usize>) -> Result<(), ScriptError> {
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
        let end = self.rest().find('}').filter(|&end| end > 2);
        let name = end.map(|end| self.rest()[2..end].to_owned()).filter(|name| name.chars().all(is_name));
        let value = name.as_deref().and_then(self.variables);
        if value.is_none()
            && let Some(end) = end
            && quoted_from.is_some_and(|begin| is_topic(&self.input[..begin]))
        {
            self.copy_bytes(end + 1);
            return Ok(());
        }
        let (Some(end), Some(name)) = (end, name) else {
            return Err(self.source.error_at(self.line, self.column, "`${` begins no variable: they are written ${NAME}".to_owned()));
        };
        let Some(value) = value else {
            let message = format!("variable `{name}` is not set: pass --var {name}=… or set it in the environment");
            return Err(self.source.error_at(self.line, self.column, message));
        };
        self.piece(true);
        for c in value.chars() {
            self.emit(c);
            if c == '\n' {
                self.piece(true);
            }
        }
        for c in self.rest()[..=end].to_owned().chars() {
            self.advance(c);
        }
        self.piece(false);
        Ok(())
    }
}

/// Whether the text ends in `'topic' =`.
fn is_topic(before: &str) -> bool {
    before.trim_end().strip_suffix('=').is_some_and(|rest| rest.trim_end().ends_with("'topic'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(script: &str) -> Result<Source, ScriptError> {
        Source::new(script, &|name| match name {
            "X" => Some("long value".to_owned()),
            "LINES" => Some("a\nb".to_owned()),
            _ => None,
        })
    }

    #[test]
    fn replaces_and_finds_the_way_back() {
        let source = source("SELECT '${X}', nope\nFROM t").expect("X is set");
        assert_eq!(source.text, "SELECT 'long value', nope\nFROM t");
        assert_eq!(source.original(Location { line: 1, column: 22 }), (1, 16));
        assert_eq!(source.original(Location { line: 1, column: 12 }), (1, 9));
        assert_eq!(source.original(Location { line: 2, column: 6 }), (2, 6));
    }

    #[test]
    fn a_value_with_lines_does_not_shift_what_follows() {
        let source = source("'${LINES}' x\ny").expect("LINES is set");
        assert_eq!(source.original(Location { line: 2, column: 4 }), (1, 12));
        assert_eq!(source.original(Location { line: 3, column: 1 }), (2, 1));
    }

    #[test]
    fn an_unset_variable_is_an_error_outside_comments_and_topics() {
        let error = source("SELECT 1;\n '${NO}'").expect_err("NO is not set");
        assert_eq!((error.line, error.column), (2, 3));
        assert!(error.message.contains("NO"), "{error}");
        assert!(source("-- ${NO}\n/* ${NO} */ SELECT 1").is_ok());
        assert!(source("WITH ('topic' = 'ai.${model}')").is_ok());
        assert!(source("WITH ('path' = 'ai.${model}')").is_err());
        assert!(source("SELECT '${NO").is_err());
    }
}
