//! A script's text with `${NAME}` replaced, and the way back from positions of the result to those of the script.
//!
//! Promises: a position that is reported is one the user sees in his file; a fault inside a replaced text is reported at
//! the `${`. Comments are left alone. In the option `'topic'`, a name that is no variable stays: it is a column whose
//! value names the topic.

use std::fmt::Write as _;

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
        // The quote that is open, and where its text begins.
        let mut quote: Option<(char, usize)> = None;
        while let Some(next) = self.rest().chars().next() {
            if quote.is_none() && self.rest().starts_with("--") {
                self.copy_until("\n", 0);
            } else if quote.is_none() && self.rest().starts_with("/*") {
                self.copy_until("*/", 2);
            } else if self.rest().starts_with("${") {
                self.variable(quote.map(|(_, begin)| begin))?;
            } else {
                match quote {
                    Some((open, _)) if next == open => quote = None,
                    None if matches!(next, '\'' | '`') => quote = Some((next, self.at)),
                    _ => {}
                }
                self.copy(next);
            }
        }
        Ok(())
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

    fn copy_until(&mut self, end: &str, more: usize) {
        let stop = self.rest().find(end).map_or(self.input.len(), |found| self.at + found + more);
        while self.at < stop {
            let Some(c) = self.rest().chars().next() else { break };
            self.copy(c);
        }
    }

    fn variable(&mut self, quoted_from: Option<usize>) -> Result<(), ScriptError> {
        let Some(end) = self.rest().find('}') else {
            return Err(self.source.error_at(self.line, self.column, "`${` has no `}`: variables are written ${NAME}".to_owned()));
        };
        let name = self.rest()[2..end].to_owned();
        let value = (self.variables)(&name);
        if value.is_none() && quoted_from.is_some_and(|begin| is_topic(&self.input[..begin])) {
            for c in self.rest()[..=end].to_owned().chars() {
                self.copy(c);
            }
            return Ok(());
        }
        let Some(value) = value else {
            let mut message = format!("variable `{name}` is not set: pass --var {name}=… or set it in the environment");
            if name.is_empty() {
                message.clear();
                let _ = write!(message, "`${{}}` names no variable");
            }
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
