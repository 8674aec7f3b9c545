//! Reads a script: statements of Flink's SQL, and the synonyms that are accepted beside them.
//!
//! Promises: every fault has a place and says what was found and what is expected; no input makes it panic, and nesting
//! is bounded. Queries and expressions are read by sqlparser with Flink's dialect; CREATE statements here, because
//! WATERMARK, METADATA and Flink's types are not SQL's.

use datafusion::sql::sqlparser::{
    ast::{Ident, Query, Spanned as _},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Location, Token, TokenWithSpan, Tokenizer},
};
use pelton_sql_expr::FlinkDialect;

use super::{
    source::Source,
    statement::{ColumnDef, ColumnKind, CreateTable, Explained, Insert, ObjectKind, OptionText, Show, Spanned, Statement},
    types,
};
use crate::{job::ScriptError, plan::fault::nearest};

const STATEMENTS: [&str; 17] = [
    "SELECT", "WITH", "VALUES", "INSERT", "CREATE", "DROP", "SET", "RESET", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "EXECUTE", "BEGIN", "USE", "ALTER", "TABLE",
];

/// How deep queries and expressions may nest.
const DEPTH: usize = 60;

type Fault = (Location, String);

/// All statements of a script.
///
/// # Errors
/// The first fault.
pub(crate) fn parse(source: &Source) -> Result<Vec<Spanned>, ScriptError> {
    let dialect = FlinkDialect::default();
    let tokens = Tokenizer::new(&dialect, &source.text)
        .tokenize_with_location()
        .map_err(|error| source.error(error.location, error.message))?;
    let tokens: Vec<_> = tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let mut script = Script { parser: Parser::new(&dialect).with_recursion_limit(DEPTH).with_tokens_with_locations(tokens), source };
    script.statements().map_err(|(at, message)| source.error(at, message))
}

/// sqlparser's message and place: `Expected: x, found: y at Line: 1, Column: 2`.
fn located(error: &ParserError, fallback: Location) -> Fault {
    let text = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text.clone(),
        ParserError::RecursionLimitExceeded => format!("queries and expressions nest deeper than {DEPTH}"),
    };
    let (message, at) = match text.rsplit_once(" at Line: ") {
        Some((message, place)) => {
            let mut numbers = place.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok());
            let at = numbers.next().zip(numbers.next()).map_or(fallback, |(line, column)| Location { line, column });
            (message.to_owned(), at)
        }
        None => (text, fallback),
    };
    let message = message.replace("Expected: ", "expected ").replace(", found: EOF", ", found the end of the script").replace("found: ", "found ");
    (if at.line == 0 { fallback } else { at }, message.trim_start_matches("sql parser error: ").to_owned())
}

struct Script<'a> {
    parser: Parser<'a>,
    source: &'a Source,
}

impl Script<'_> {
    fn statements(&mut self) -> Result<Vec<Spanned>, Fault> {
        let mut statements = Vec::new();
        loop {
            while self.accept_token(&Token::SemiColon) {}
            if self.peek() == &Token::EOF {
                return Ok(statements);
            }
            let at = self.here();
            let statement = self.statement()?;
            statements.push(Spanned { at, statement });
            if self.peek() != &Token::EOF && !self.accept_token(&Token::SemiColon) {
                return Err(self.expected("`;` or the end of the script"));
            }
        }
    }

    fn statement(&mut self) -> Result<Statement, Fault> {
        let at = self.here();
        let Some(word) = self.word() else { return Err(self.expected("a statement")) };
        match word.as_str() {
            "SELECT" | "WITH" | "VALUES" | "TABLE" => Ok(Statement::Query(self.query()?)),
            "INSERT" => Ok(Statement::Insert(Box::new(self.insert()?))),
            "CREATE" => self.create(),
            "DROP" => self.drop_object(),
            "SET" => self.set(),
            "RESET" => {
                self.skip();
                let key = if self.at_end() { None } else { Some(self.key()?.0) };
                Ok(Statement::Reset(key))
            }
            "SHOW" => self.show(),
            "DESCRIBE" | "DESC" => {
                self.skip();
                self.accept("EXTENDED");
                Ok(Statement::Describe(self.name("table or view")?))
            }
            "EXPLAIN" => self.explain(),
            "EXECUTE" => {
                self.skip();
                if self.accept("STATEMENT") {
                    self.require("SET")?;
                    self.require("BEGIN")?;
                    return Ok(Statement::StatementSet(self.inserts()?));
                }
                Ok(Statement::Insert(Box::new(self.insert()?)))
            }
            "BEGIN" => {
                self.skip();
                self.require("STATEMENT")?;
                self.require("SET")?;
                self.accept_token(&Token::SemiColon);
                Ok(Statement::StatementSet(self.inserts()?))
            }
            "USE" | "ALTER" | "ANALYZE" | "UPDATE" | "DELETE" | "MERGE" | "TRUNCATE" | "CALL" | "ADD" | "REMOVE" | "LOAD" | "UNLOAD" => {
                Err((at, format!("{word} is not built yet: write what the table, view or setting shall be with CREATE and SET")))
            }
            _ if self.peek() == &Token::LParen => Ok(Statement::Query(self.query()?)),
            _ => Err((at, format!("`{word}` begins no statement{}", nearest(&word, STATEMENTS)))),
        }
    }

    fn query(&mut self) -> Result<Box<Query>, Fault> {
        let at = self.here();
        let query = self.parser.parse_query().map_err(|error| located(&error, at))?;
        self.emit()?;
        Ok(query)
    }

    /// `EMIT ON WINDOW CLOSE` is what windows do; anything else is refused.
    fn emit(&mut self) -> Result<(), Fault> {
        let at = self.here();
        if !self.accept("EMIT") {
            return Ok(());
        }
        if self.accept("ON") {
            self.require("WINDOW")?;
            return self.require("CLOSE");
        }
        self.accept("CHANGES");
        Err((at, "EMIT CHANGES is not built yet: windows give their rows once, when they close".to_owned()))
    }

    fn insert(&mut self) -> Result<Insert, Fault> {
        let at = self.here();
        self.require("INSERT")?;
        if self.accept("OVERWRITE") {
            return Err((at, "INSERT OVERWRITE is for batch tables: use INSERT INTO".to_owned()));
        }
        self.require("INTO")?;
        self.accept("TABLE");
        let table = self.name("table")?;
        if self.word().is_some_and(|word| word == "PARTITION") {
            return Err((self.here(), "PARTITION in INSERT is not built yet: give the partition columns by the query".to_owned()));
        }
        let mut columns = Vec::new();
        if self.peek() == &Token::LParen && self.lists_names() {
            columns = self.names("column")?;
        }
        let query = self.query()?;
        Ok(Insert { at, table, columns, query })
    }

    /// Whether the parenthesis ahead holds names, not a query.
    fn lists_names(&self) -> bool {
        let inner = &self.parser.peek_nth_token_ref(1).token;
        !matches!(inner, Token::Word(word) if word.quote_style.is_none() && ["SELECT", "WITH", "VALUES"].iter().any(|k| word.value.eq_ignore_ascii_case(k)))
            && inner != &Token::LParen
    }

    fn inserts(&mut self) -> Result<Vec<Insert>, Fault> {
        let mut inserts = Vec::new();
        loop {
            while self.accept_token(&Token::SemiColon) {}
            if self.accept("END") {
                break;
            }
            if self.word().is_none_or(|word| word != "INSERT") {
                return Err(self.expected("INSERT INTO or END"));
            }
            inserts.push(self.insert()?);
            if self.peek() != &Token::SemiColon && self.word().is_none_or(|word| word != "END") {
                return Err(self.expected("`;`"));
            }
        }
        if inserts.is_empty() { Err(self.expected("at least one INSERT INTO before END")) } else { Ok(inserts) }
    }

    fn set(&mut self) -> Result<Statement, Fault> {
        self.skip();
        if self.at_end() {
            return Ok(Statement::ShowSettings);
        }
        let (key, key_at) = self.key()?;
        if !self.accept_token(&Token::Eq) {
            return Err(self.expected("`=`"));
        }
        let mut value = String::new();
        if let Token::SingleQuotedString(text) = self.peek() {
            value.clone_from(text);
            self.skip();
        } else {
            while !self.at_end() {
                if !value.is_empty() {
                    value.push(' ');
                }
                value.push_str(&self.peek().to_string());
                self.skip();
            }
        }
        Ok(Statement::Set { key, value, key_at })
    }

    /// `'a.b'` or a.b.
    fn key(&mut self) -> Result<(String, Location), Fault> {
        let at = self.here();
        if let Token::SingleQuotedString(text) = self.peek() {
            let text = text.clone();
            self.skip();
            return Ok((text, at));
        }
        let mut key = String::new();
        while !self.at_end() && self.peek() != &Token::Eq {
            key.push_str(&self.peek().to_string());
            self.skip();
        }
        if key.is_empty() { Err((at, "expected a key".to_owned())) } else { Ok((key, at)) }
    }

    fn explain(&mut self) -> Result<Statement, Fault> {
        self.skip();
        while ["PLAN", "FOR", "ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE"].iter().any(|word| self.accept(word)) || self.accept_token(&Token::Comma) {}
        let explained = match self.word().as_deref() {
            Some("INSERT") => Explained::Inserts(vec![self.insert()?]),
            Some("STATEMENT") => {
                self.skip();
                self.require("SET")?;
                self.require("BEGIN")?;
                Explained::Inserts(self.inserts()?)
            }
            Some("SELECT" | "WITH" | "VALUES") => Explained::Query(self.query()?),
            _ if self.peek() == &Token::LParen => Explained::Query(self.query()?),
            _ => return Err(self.expected("a query, INSERT INTO or STATEMENT SET")),
        };
        Ok(Statement::Explain(Box::new(explained)))
    }

    fn show(&mut self) -> Result<Statement, Fault> {
        self.skip();
        let at = self.here();
        let show = match self.word().as_deref() {
            Some("TABLES") => self.then(Show::Tables),
            Some("VIEWS") => self.then(Show::Views),
            Some("FUNCTIONS") => self.then(Show::Functions),
            Some("USER") => {
                self.skip();
                self.require("FUNCTIONS")?;
                Show::Functions
            }
            Some("PLUGINS") => self.then(Show::Plugins),
            Some("COLUMNS") => {
                self.skip();
                if !self.accept("FROM") {
                    self.require("IN")?;
                }
                Show::Columns(self.name("table or view")?)
            }
            Some("CREATE") => {
                self.skip();
                if !self.accept("VIEW") {
                    self.require("TABLE")?;
                }
                Show::CreateTable(self.name("table")?)
            }
            _ => return Err((at, "SHOW knows TABLES, VIEWS, FUNCTIONS, PLUGINS, COLUMNS FROM t and CREATE TABLE t".to_owned())),
        };
        Ok(Statement::Show(show))
    }

    fn then<T>(&mut self, value: T) -> T {
        self.skip();
        value
    }

    fn drop_object(&mut self) -> Result<Statement, Fault> {
        self.skip();
        if self.accept("TEMPORARY") {
            self.accept("SYSTEM");
        }
        if self.accept("MATERIALIZED") {
            self.require("VIEW")?;
            return self.dropped(ObjectKind::View);
        }
        let what = match self.word().as_deref() {
            Some("TABLE" | "SOURCE" | "SINK") => ObjectKind::Table,
            Some("VIEW") => ObjectKind::View,
            Some("FUNCTION") => ObjectKind::Function,
            Some("PLUGIN") => ObjectKind::Plugin,
            _ => return Err(self.expected("TABLE, VIEW, FUNCTION or PLUGIN")),
        };
        self.skip();
        self.dropped(what)
    }

    fn dropped(&mut self, what: ObjectKind) -> Result<Statement, Fault> {
        let if_exists = self.accept("IF");
        if if_exists {
            self.require("EXISTS")?;
        }
        Ok(Statement::Drop { what, name: self.name(what.word())?, if_exists })
    }

    fn create(&mut self) -> Result<Statement, Fault> {
        let begin = self.here();
        self.skip();
        if self.accept("OR") {
            return Err((begin, "CREATE OR REPLACE is not built yet: DROP … IF EXISTS first".to_owned()));
        }
        if self.accept("TEMPORARY") {
            self.accept("SYSTEM");
        }
        match self.word().as_deref() {
            Some("TABLE" | "SOURCE" | "SINK") => {
                self.skip();
                self.create_table(begin)
            }
            Some("MATERIALIZED") => {
                self.skip();
                self.require("VIEW")?;
                self.create_view()
            }
            Some("VIEW") => {
                self.skip();
                self.create_view()
            }
            Some("FUNCTION") => {
                self.skip();
                self.create_function()
            }
            Some("PLUGIN") => {
                self.skip();
                let if_not_exists = self.if_not_exists()?;
                let name = self.name("plugin")?;
                self.require("WITH")?;
                Ok(Statement::CreatePlugin { name, options: self.options()?, if_not_exists })
            }
            Some(word @ ("CATALOG" | "DATABASE" | "MODEL" | "CONNECTION")) => Err((begin, format!("CREATE {word} is not built: tables of a script stand side by side"))),
            _ => Err(self.expected("TABLE, VIEW, FUNCTION or PLUGIN")),
        }
    }

    fn if_not_exists(&mut self) -> Result<bool, Fault> {
        if !self.accept("IF") {
            return Ok(false);
        }
        self.require("NOT")?;
        self.require("EXISTS")?;
        Ok(true)
    }

    fn create_view(&mut self) -> Result<Statement, Fault> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name("view")?;
        let columns = if self.peek() == &Token::LParen { self.names("column")? } else { Vec::new() };
        self.comment()?;
        self.require("AS")?;
        Ok(Statement::CreateView { name, columns, query: self.query()?, if_not_exists })
    }

    fn create_function(&mut self) -> Result<Statement, Fault> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name("function")?;
        self.require("AS")?;
        let export = self.string("the exported name, in quotes")?;
        self.require("LANGUAGE")?;
        if !self.accept("WASM") {
            return Err((self.here(), "functions are plugins: LANGUAGE WASM USING PLUGIN name".to_owned()));
        }
        self.require("USING")?;
        self.require("PLUGIN")?;
        let plugin = self.name("plugin")?;
        Ok(Statement::CreateFunction { name, export, plugin, if_not_exists })
    }

    fn create_table(&mut self, begin: Location) -> Result<Statement, Fault> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.name("table")?;
        let mut table = CreateTable {
            name,
            if_not_exists,
            columns: Vec::new(),
            watermark: None,
            primary_key: Vec::new(),
            partition_by: Vec::new(),
            options: Vec::new(),
            text: String::new(),
        };
        if self.accept_token(&Token::LParen) && !self.accept_token(&Token::RParen) {
            loop {
                self.element(&mut table)?;
                if !self.accept_token(&Token::Comma) {
                    break;
                }
            }
            if !self.accept_token(&Token::RParen) {
                return Err(self.expected("`,` or `)` in the columns"));
            }
        }
        self.comment()?;
        if self.word().is_some_and(|word| word == "DISTRIBUTED") {
            return Err((self.here(), "DISTRIBUTED BY is not built: key.fields says how a topic is keyed".to_owned()));
        }
        if self.accept("PARTITIONED") {
            self.require("BY")?;
            table.partition_by = self.names("column")?;
        }
        if self.accept("WITH") {
            table.options = self.options()?;
        }
        let here = self.here();
        match self.word().as_deref() {
            Some("LIKE") => return Err((here, "LIKE is not built yet: repeat the columns".to_owned())),
            Some("AS") => return Err((here, "CREATE TABLE … AS is not built yet: create the table, then INSERT INTO it".to_owned())),
            _ => {}
        }
        table.text = self.text_between(begin, self.here());
        Ok(Statement::CreateTable(Box::new(table)))
    }

    fn text_between(&self, begin: Location, end: Location) -> String {
        let offset = |at: Location| -> usize {
            let line_start: usize = self.source.text.split_inclusive('\n').take(usize::try_from(at.line.saturating_sub(1)).unwrap_or(0)).map(str::len).sum();
            let column = usize::try_from(at.column.saturating_sub(1)).unwrap_or(0);
            let line = self.source.text.get(line_start..).unwrap_or_default();
            line_start + line.char_indices().nth(column).map_or(line.len(), |(index, _)| index)
        };
        let end = if end.line == 0 { self.source.text.len() } else { offset(end) };
        self.source.text.get(offset(begin)..end).unwrap_or_default().trim().to_owned()
    }

    fn element(&mut self, table: &mut CreateTable) -> Result<(), Fault> {
        let at = self.here();
        match self.word().as_deref() {
            Some("WATERMARK") => {
                self.skip();
                if table.watermark.is_some() {
                    return Err((at, "a table has one WATERMARK".to_owned()));
                }
                self.require("FOR")?;
                let column = self.name("column")?;
                self.require("AS")?;
                table.watermark = Some((column, self.expr()?));
                Ok(())
            }
            Some("CONSTRAINT") => {
                self.skip();
                self.name("constraint")?;
                self.primary_key(table)
            }
            Some("PRIMARY") => self.primary_key(table),
            Some("UNIQUE") => Err((at, "UNIQUE is not built: PRIMARY KEY (…) NOT ENFORCED is".to_owned())),
            _ => self.column(table),
        }
    }

    fn primary_key(&mut self, table: &mut CreateTable) -> Result<(), Fault> {
        self.require("PRIMARY")?;
        self.require("KEY")?;
        table.primary_key = self.names("column")?;
        self.not_enforced()
    }

    fn not_enforced(&mut self) -> Result<(), Fault> {
        let at = self.here();
        if self.accept("NOT") && self.accept("ENFORCED") {
            return Ok(());
        }
        Err((at, "a stream cannot enforce a key: write PRIMARY KEY … NOT ENFORCED".to_owned()))
    }

    fn column(&mut self, table: &mut CreateTable) -> Result<(), Fault> {
        let name = self.name("column")?;
        let kind = if self.accept("AS") {
            ColumnKind::Computed(Box::new(self.expr()?))
        } else {
            let field = types::parse_field(&mut self.parser, &name.value)?;
            if self.word().is_some_and(|word| word == "METADATA") {
                let at = self.here();
                self.skip();
                let key = if self.accept("FROM") { self.string("the metadata's key, in quotes")? } else { name.value.clone() };
                let is_virtual = self.accept("VIRTUAL");
                ColumnKind::Metadata { field, key, is_virtual, at }
            } else {
                if self.accept("PRIMARY") {
                    self.require("KEY")?;
                    self.not_enforced()?;
                    table.primary_key = vec![name.clone()];
                }
                ColumnKind::Physical(field)
            }
        };
        self.comment()?;
        table.columns.push(ColumnDef { name, kind });
        Ok(())
    }

    fn comment(&mut self) -> Result<(), Fault> {
        if self.accept("COMMENT") {
            self.string("the comment, in quotes")?;
        }
        Ok(())
    }

    fn options(&mut self) -> Result<Vec<OptionText>, Fault> {
        if !self.accept_token(&Token::LParen) {
            return Err(self.expected("`(`"));
        }
        let mut options: Vec<OptionText> = Vec::new();
        while !self.accept_token(&Token::RParen) {
            let key_at = self.here();
            let key = self.string("an option's key, in quotes")?;
            if !self.accept_token(&Token::Eq) {
                return Err(self.expected("`=`"));
            }
            let value_at = self.here();
            let value = self.string("the option's value, in quotes")?;
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

    fn expr(&mut self) -> Result<datafusion::sql::sqlparser::ast::Expr, Fault> {
        let at = self.here();
        let expr = self.parser.parse_expr().map_err(|error| located(&error, at))?;
        let _ = expr.span();
        Ok(expr)
    }

    fn names(&mut self, what: &str) -> Result<Vec<Ident>, Fault> {
        if !self.accept_token(&Token::LParen) {
            return Err(self.expected("`(`"));
        }
        let mut names = vec![self.name(what)?];
        while self.accept_token(&Token::Comma) {
            names.push(self.name(what)?);
        }
        if self.accept_token(&Token::RParen) { Ok(names) } else { Err(self.expected("`,` or `)`")) }
    }

    fn name(&mut self, what: &str) -> Result<Ident, Fault> {
        let TokenWithSpan { token, span } = self.parser.peek_token_ref().clone();
        let Token::Word(word) = token else { return Err(self.expected(&format!("the name of a {what}"))) };
        let reserved = word.quote_style.is_none() && matches!(word.keyword, Keyword::SELECT | Keyword::FROM | Keyword::WITH | Keyword::WHERE | Keyword::AS | Keyword::INTO | Keyword::ON);
        if reserved {
            return Err((span.start, format!("expected the name of a {what}, found the reserved word {}: put it into backticks", word.value)));
        }
        self.skip();
        if self.peek() == &Token::Period {
            return Err((span.start, format!("names of a {what} have no catalog or database here: write the last part alone")));
        }
        Ok(word.into_ident(span))
    }

    fn string(&mut self, what: &str) -> Result<String, Fault> {
        match self.peek() {
            Token::SingleQuotedString(text) => {
                let text = text.clone();
                self.skip();
                Ok(text)
            }
            _ => Err(self.expected(what)),
        }
    }

    fn peek(&self) -> &Token {
        &self.parser.peek_token_ref().token
    }

    fn here(&self) -> Location {
        self.parser.peek_token_ref().span.start
    }

    fn at_end(&self) -> bool {
        matches!(self.peek(), Token::EOF | Token::SemiColon)
    }

    fn skip(&mut self) {
        self.parser.advance_token();
    }

    /// The word ahead in capitals, if it is one without quotes.
    fn word(&self) -> Option<String> {
        match self.peek() {
            Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_ascii_uppercase()),
            _ => None,
        }
    }

    fn accept(&mut self, wanted: &str) -> bool {
        let there = self.word().is_some_and(|word| word == wanted);
        if there {
            self.skip();
        }
        there
    }

    fn accept_token(&mut self, wanted: &Token) -> bool {
        let there = self.peek() == wanted;
        if there {
            self.skip();
        }
        there
    }

    fn require(&mut self, wanted: &str) -> Result<(), Fault> {
        if self.accept(wanted) { Ok(()) } else { Err(self.expected(wanted)) }
    }

    fn expected(&self, what: &str) -> Fault {
        let found = match self.peek() {
            Token::EOF => "the end of the script".to_owned(),
            token => format!("`{token}`"),
        };
        let at = self.here();
        (if at.line == 0 { self.end() } else { at }, format!("expected {what}, found {found}"))
    }

    /// The last place of the script, for faults at its end.
    fn end(&self) -> Location {
        let lines = self.source.text.lines().count().max(1) as u64;
        let column = self.source.text.lines().last().map_or(1, |line| line.chars().count() as u64 + 1);
        Location { line: lines, column }
    }
}
