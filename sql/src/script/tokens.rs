//! A script's tokens, and the bounds that keep reading and planning within stack and time.
//!
//! Promises: what passes here is no deeper than the parser and the planner can follow: parentheses by their nesting,
//! operators by the length of their chain (`a + b + c` is a tree as deep as it is long). Comments are dropped; hints are
//! comments that must be known, because one that changes the result may not be ignored.

use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Whitespace},
};
use pelton_sql_expr::FlinkDialect;

use super::cursor::{Fault, is_word};
use crate::plan::fault::nearest;

/// How deep queries and expressions may nest.
pub(crate) const DEPTH: usize = 60;

/// How many operators, joins or unions may follow each other.
const CHAIN: usize = 1_000;

/// How many words of SQL may follow each other without a name, a value or a sign: prefixes nest (`NOT NOT NOT …`).
const PREFIXES: usize = 30;

/// Longest name or unquoted word.
const NAME: usize = 1_000;

/// Hints about how a join is run: they cannot change its rows.
const HARMLESS: [&str; 7] = ["BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "LOOKUP", "MULTI_JOIN", "STATE_TTL"];

/// The tokens of a text, without white space and comments.
pub(crate) fn read(dialect: &FlinkDialect, text: &str) -> Result<Vec<TokenWithSpan>, Fault> {
    let all = Tokenizer::new(dialect, text).tokenize_with_location().map_err(|error| (error.location, error.message))?;
    let mut tokens = Vec::with_capacity(all.len());
    let mut bounds = Bounds { levels: vec![Level::default()], prefixes: 0 };
    for token in all {
        if let Token::Whitespace(space) = &token.token {
            if let Whitespace::MultiLineComment(comment) = space
                && let Some(hint) = comment.strip_prefix('+')
            {
                check_hint(hint, token.span.start)?;
            }
            continue;
        }
        bounds.add(&token.token).map_err(|message| (token.span.start, message))?;
        tokens.push(token);
    }
    Ok(tokens)
}

/// `NAME(…), NAME(…)`
fn check_hint(hint: &str, at: Location) -> Result<(), Fault> {
    let mut depth = 0_usize;
    let mut quoted = false;
    let outer: String = hint
        .chars()
        .map(|c| {
            quoted ^= c == '\'';
            depth = match c {
                '(' if !quoted => depth + 1,
                ')' if !quoted => depth.saturating_sub(1),
                _ => depth,
            };
            if depth == 0 && (c.is_alphanumeric() || c == '_') { c } else { ' ' }
        })
        .collect();
    for name in outer.split_whitespace() {
        if name.eq_ignore_ascii_case("OPTIONS") {
            return Err((at, "the hint OPTIONS is not built yet: write the options into the table's WITH".to_owned()));
        }
        if !HARMLESS.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            return Err((at, format!("the hint `{name}` is not known{}", nearest(name, HARMLESS))));
        }
    }
    Ok(())
}

/// What is open at a token.
struct Bounds {
    levels: Vec<Level>,
    prefixes: usize,
}

/// An open parenthesis, bracket or CASE.
#[derive(Default)]
struct Level {
    is_case: bool,
    /// Operators since the last comma.
    operators: usize,
    /// Joins and unions, which commas do not separate.
    relations: usize,
    /// The longest chain of what was closed or separated by a comma.
    inner: usize,
}

impl Level {
    fn depth(&self) -> usize {
        self.operators + self.relations + self.inner
    }

    fn separate(&mut self) {
        self.inner = self.inner.max(self.operators);
        self.operators = 0;
    }
}

impl Bounds {
    fn add(&mut self, token: &Token) -> Result<(), String> {
        let mut is_prefix = true;
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                self.levels.push(Level::default());
                if self.levels.len() > DEPTH * 2 {
                    return Err(format!("parentheses nest deeper than {}", DEPTH * 2));
                }
                is_prefix = false;
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                self.close(false);
                is_prefix = false;
            }
            Token::Comma => {
                self.top().separate();
                is_prefix = false;
            }
            Token::SemiColon => {
                *self = Self { levels: vec![Level::default()], prefixes: 0 };
                return Ok(());
            }
            Token::Word(word) => {
                if word.value.len() > NAME {
                    return Err(format!("a name is longer than {NAME} bytes"));
                }
                is_prefix = word.quote_style.is_none() && word.keyword != Keyword::NoKeyword;
                self.word(token, word.keyword);
            }
            Token::Number(..) | Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) | Token::Period => is_prefix = false,
            _ => self.top().operators += 1,
        }
        self.prefixes = if is_prefix { self.prefixes + 1 } else { 0 };
        if self.prefixes > PREFIXES {
            return Err(format!("more than {PREFIXES} words and signs in a row without a name or a value"));
        }
        let chain: usize = self.levels.iter().map(Level::depth).sum();
        if chain > CHAIN {
            return Err(format!("more than {CHAIN} operators, joins or unions follow each other: cut the statement into views, or use IN (…)"));
        }
        Ok(())
    }

    fn word(&mut self, token: &Token, keyword: Keyword) {
        match keyword {
            Keyword::CASE => self.levels.push(Level { is_case: true, ..Level::default() }),
            Keyword::END => self.close(true),
            // Branches of CASE stand side by side.
            Keyword::WHEN | Keyword::THEN | Keyword::ELSE if self.top().is_case => self.top().separate(),
            Keyword::AND | Keyword::OR | Keyword::NOT | Keyword::IS | Keyword::LIKE | Keyword::SIMILAR | Keyword::IN => self.top().operators += 1,
            Keyword::BETWEEN | Keyword::COLLATE | Keyword::ESCAPE | Keyword::INTERVAL | Keyword::AT => self.top().operators += 1,
            Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT | Keyword::MINUS | Keyword::JOIN => self.top().relations += 1,
            _ if is_word(token, "APPLY") => self.top().relations += 1,
            _ => {}
        }
    }

    fn close(&mut self, case: bool) {
        if self.levels.len() > 1
            && self.top().is_case == case
            && let Some(closed) = self.levels.pop()
        {
            let outer = self.top();
            outer.inner = outer.inner.max(closed.depth());
        }
    }

    fn top(&mut self) -> &mut Level {
        if self.levels.is_empty() {
            self.levels.push(Level::default());
        }
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }
}
