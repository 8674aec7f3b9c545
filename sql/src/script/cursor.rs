//! Reading tokens: what stands ahead, what is demanded, and faults that say where and what was found.
//!
//! Promises: a fault has a place of the script, also where the script ends too early; names of the parser's insides do
//! not reach messages. Leaves to others: which statements there are (`parse`, `create`).

use datafusion::sql::sqlparser::{
    ast::{Expr, Ident, Query},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Location, Token, TokenWithSpan},
};

use super::{source::Source, statement::OptionText, tokens::DEPTH};

/// What is wrong with a script, and where in the text after replacing.
pub(crate) type Fault = (Location, String);

/// A place in a script's tokens.
pub(crate) struct Cursor<'a> {
    pub(crate) parser: Parser<'a>,
    pub(crate) source: &'a Source,
}

impl Cursor<'_> {
    pub(crate) fn peek(&self) -> &Token {
        &self.parser.peek_token_ref().token
    }

    pub(crate) fn peek_second(&self) -> &Token {
        &self.parser.peek_nth_token_ref(1).token
    }

    /// The place ahead: where a fault about what stands there belongs.
    pub(crate) fn here(&self) -> Location {
        let at = self.parser.peek_token_ref().span.start;
        if at.line == 0 { self.source.end() } else { at }
    }

    pub(crate) fn at_end(&self) -> bool {
        matches!(self.peek(), Token::EOF | Token::SemiColon)
    }

    pub(crate) fn skip(&mut self) {
        self.parser.advance_token();
    }

    /// The word ahead in capitals, if it is one without quotes.
    pub(crate) fn word(&self) -> Option<String> {
        word_of(self.peek())
    }

    pub(crate) fn is_word(&self, wanted: &str) -> bool {
        is_word(self.peek(), wanted)
    }

    pub(crate) fn accept(&mut self, wanted: &str) -> bool {
        let there = self.is_word(wanted);
        if there {
            self.skip();
        }
        there
    }

    pub(crate) fn accept_token(&mut self, wanted: &Token) -> bool {
        let there = self.peek() == wanted;
        if there {
            self.skip();
        }
        there
    }

    pub(crate) fn require(&mut self, wanted: &str) -> Result<(), Fault> {
        if self.accept(wanted) { Ok(()) } else { Err(self.expected(wanted)) }
    }

    pub(crate) fn require_token(&mut self, wanted: &Token, what: &str) -> Result<(), Fault> {
        if self.accept_token(wanted) { Ok(()) } else { Err(self.expected(what)) }
    }

    pub(crate) fn expected(&self, what: &str) -> Fault {
        (self.here(), format!("expected {what}, found {}", found(self.peek())))
    }

    /// Skips the word ahead, for arms that matched it.
    pub(crate) fn then<T>(&mut self, value: T) -> T {
        self.skip();
        value
    }

    pub(crate) fn query(&mut self) -> Result<Box<Query>, Fault> {
        let at = self.here();
        let read = self.parser.parse_query();
        read.map_err(|error| self.located(&error, at))
    }

    pub(crate) fn expr(&mut self) -> Result<Expr, Fault> {
        let at = self.here();
        let read = self.parser.parse_expr();
        read.map_err(|error| self.located(&error, at))
    }

    /// `(a, b)`
    pub(crate) fn names(&mut self, what: &str) -> Result<Vec<Ident>, Fault> {
        self.require_token(&Token::LParen, "`(`")?;
        let mut names: Vec<Ident> = Vec::new();
        loop {
            let name = self.name(what)?;
            if names.contains(&name) {
                return Err((name.span.start, format!("{what} `{}` stands twice", name.value)));
            }
            names.push(name);
            if !self.accept_token(&Token::Comma) {
                break;
            }
        }
        self.require_token(&Token::RParen, "`,` or `)`")?;
        Ok(names)
    }

    /// The name of something, in backticks or not.
    pub(crate) fn name(&mut self, what: &str) -> Result<Ident, Fault> {
        const RESERVED: [Keyword; 9] = [
            Keyword::SELECT,
            Keyword::FROM,
            Keyword::WITH,
            Keyword::WHERE,
            Keyword::AS,
            Keyword::INTO,
            Keyword::ON,
            Keyword::NOT,
            Keyword::PRIMARY,
        ];
        let TokenWithSpan { token, span } = self.parser.peek_token_ref().clone();
        let word = match token {
            Token::Word(word) => word,
            Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) => {
                let (at, message) = self.expected(&format!("the name of a {what}"));
                return Err((at, format!("{message}: names stand without quotes or in backticks")));
            }
            _ => return Err(self.expected(&format!("the name of a {what}"))),
        };
        if word.quote_style.is_none() && RESERVED.contains(&word.keyword) {
            return Err((span.start, format!("expected the name of a {what}, found the reserved word {}: put it into backticks", word.value)));
        }
        if word.value.is_empty() {
            return Err((span.start, format!("the name of a {what} is empty")));
        }
        self.skip();
        if self.peek() == &Token::Period {
            let message = if what == "column" {
                "a field of a ROW cannot stand here: make a computed column of it"
            } else {
                "names have no catalog or database here: write the last part alone"
            };
            return Err((span.start, message.to_owned()));
        }
        Ok(word.into_ident(span))
    }

    /// A text in single quotes.
    pub(crate) fn string(&mut self, what: &str) -> Result<String, Fault> {
        let Token::SingleQuotedString(text) = self.peek() else { return Err(self.expected(&format!("{what}, in single quotes"))) };
        let text = text.clone();
        self.skip();
        Ok(text)
    }

    /// `('key' = 'value', …)`
    pub(crate) fn options(&mut self) -> Result<Vec<OptionText>, Fault> {
        self.require_token(&Token::LParen, "`(`")?;
        let mut options: Vec<OptionText> = Vec::new();
        while !self.accept_token(&Token::RParen) {
            let key_at = self.here();
            let key = self.string("an option's key")?;
            self.require_token(&Token::Eq, "`=`")?;
            let value_at = self.here();
            let value = self.string(&format!("the value of '{key}'"))?;
            if options.iter().any(|option| option.key == key) {
                return Err((key_at, format!("option '{key}' stands twice")));
            }
            options.push(OptionText { key, value, key_at, value_at });
            if !self.accept_token(&Token::Comma) && self.peek() != &Token::RParen {
                return Err(self.expected("`,` or `)` in the options"));
            }
        }
        Ok(options)
    }

    /// sqlparser's message and place: `Expected: x, found: y at Line: 1, Column: 2`.
    fn located(&self, error: &ParserError, fallback: Location) -> Fault {
        let text = match error {
            ParserError::TokenizerError(text) | ParserError::ParserError(text) => text.as_str(),
            ParserError::RecursionLimitExceeded => return (self.here(), format!("queries and expressions nest deeper than {DEPTH}")),
        };
        let (message, at) = match text.rsplit_once(" at Line: ") {
            Some((message, place)) => {
                let mut numbers = place.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok());
                (message, numbers.next().zip(numbers.next()).map(|(line, column)| Location { line, column }))
            }
            None => (text, None),
        };
        let at = match at {
            Some(at) => at,
            None if message.ends_with("found: EOF") => self.source.end(),
            None => fallback,
        };
        (at, in_our_words(message))
    }
}

/// The parser's message as a sentence of ours.
fn in_our_words(message: &str) -> String {
    let message = message.trim_start_matches("sql parser error: ");
    if message.starts_with("No infix parser for token") {
        return "expected an operator or the end of the expression".to_owned();
    }
    let Some((wanted, token)) = message.strip_prefix("Expected: ").and_then(|rest| rest.rsplit_once(", found: ")) else {
        return message.to_owned();
    };
    let wanted = match wanted {
        "end of statement" => "`;` or the end of the script",
        "identifier" => "a name",
        "joined table" => "a joined table",
        ")" => "`)`",
        "(" => "`(`",
        other => other,
    };
    let token = match token {
        "EOF" => "the end of the script".to_owned(),
        token => format!("`{token}`"),
    };
    format!("expected {wanted}, found {token}")
}

/// A token in a message.
pub(crate) fn found(token: &Token) -> String {
    match token {
        Token::EOF => "the end of the script".to_owned(),
        token => format!("`{token}`"),
    }
}

pub(crate) fn word_of(token: &Token) -> Option<String> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_uppercase()),
        _ => None,
    }
}

pub(crate) fn is_word(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}
