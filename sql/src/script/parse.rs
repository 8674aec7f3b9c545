//! Reads a script: statements of Flink's SQL, and the synonyms that are accepted beside them.
//!
//! Promises: every fault has a place and says what was found and what is expected; no input makes it panic, and nesting
//! is bounded. Queries and expressions are read by sqlparser with Flink's dialect; the statements around them here and
//! in `create`.

use datafusion::sql::sqlparser::{
    ast::Query,
    parser::Parser,
    tokenizer::{Location, Token},
};
use pelton_sql_expr::FlinkDialect;

use super::{
    cursor::{Cursor, Fault, is_word},
    source::Source,
    statement::{Explained, Insert, ObjectKind, OptionText, Show, Spanned, Statement},
    tokens::{self, DEPTH},
};
use crate::{job::ScriptError, plan::fault::nearest};

const STATEMENTS: [&str; 14] =
    ["SELECT", "WITH", "VALUES", "INSERT", "CREATE", "DROP", "SET", "RESET", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "EXECUTE", "BEGIN"];

/// All statements of a script.
///
/// # Errors
/// The first fault.
pub(crate) fn parse(source: &Source) -> Result<Vec<Spanned>, ScriptError> {
    let dialect = FlinkDialect::default();
    let tokens = tokens::read(&dialect, &source.text).map_err(|(at, message)| source.error(at, message))?;
    let parser = Parser::new(&dialect).with_recursion_limit(DEPTH).with_tokens_with_locations(tokens);
    let mut cursor = Cursor { parser, source };
    cursor.statements().map_err(|(at, message)| source.error(at, message))
}

impl Cursor<'_> {
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
            if !self.at_end() {
                return Err(self.expected("`;` or the end of the script"));
            }
        }
    }

    fn statement(&mut self) -> Result<Statement, Fault> {
        let at = self.here();
        if self.peek() == &Token::LParen {
            return Ok(Statement::Query(self.query_with_emit()?));
        }
        let Some(word) = self.word() else { return Err(self.expected("a statement")) };
        match word.as_str() {
            "SELECT" | "WITH" | "VALUES" | "TABLE" => Ok(Statement::Query(self.query_with_emit()?)),
            "INSERT" => Ok(Statement::Insert(Box::new(self.insert()?))),
            "CREATE" => self.create(),
            "DROP" => self.drop_object(),
            "SET" => self.set(),
            "RESET" => {
                self.skip();
                let key = if self.at_end() { None } else { Some(self.key()?) };
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
                if self.is_word("STATEMENT") {
                    return Ok(Statement::StatementSet(self.statement_set()?));
                }
                if self.is_word("INSERT") {
                    return Ok(Statement::Insert(Box::new(self.insert()?)));
                }
                Err(self.expected("STATEMENT SET or INSERT INTO"))
            }
            "BEGIN" => {
                self.skip();
                self.require("STATEMENT")?;
                self.require("SET")?;
                self.require_token(&Token::SemiColon, "`;`")?;
                Ok(Statement::StatementSet(self.inserts()?))
            }
            "END" => Err((at, "END closes a statement set, and none is open: EXECUTE STATEMENT SET BEGIN … END".to_owned())),
            "USE" | "CATALOG" => Err((at, format!("{word} is not built: the tables of a script stand side by side, without catalogs"))),
            "ALTER" => Err((at, "ALTER is not built yet: write the CREATE statement as the table shall be, or DROP and CREATE".to_owned())),
            "UPDATE" | "DELETE" | "MERGE" | "TRUNCATE" => {
                Err((at, format!("{word} is for tables at rest: a job writes with INSERT INTO")))
            }
            "CALL" | "ADD" | "REMOVE" | "LOAD" | "UNLOAD" | "ANALYZE" | "COMPILE" => {
                Err((at, format!("{word} is not built: functions come from plugins (CREATE PLUGIN, CREATE FUNCTION), settings from SET")))
            }
            _ => Err((at, format!("`{}` begins no statement{}", self.peek(), nearest(&word, STATEMENTS)))),
        }
    }

    /// A query and the EMIT behind it.
    pub(crate) fn query_with_emit(&mut self) -> Result<Box<Query>, Fault> {
        let query = self.query()?;
        let at = self.here();
        if !self.accept("EMIT") {
            return Ok(query);
        }
        if self.accept("ON") {
            // What windows do anyway.
            self.require("WINDOW")?;
            self.require("CLOSE")?;
            return Ok(query);
        }
        self.require("CHANGES")?;
        Err((at, "EMIT CHANGES is not built yet: windows give their rows once, when they close; leave it out".to_owned()))
    }

    fn insert(&mut self) -> Result<Insert, Fault> {
        let at = self.here();
        self.require("INSERT")?;
        if self.is_word("OVERWRITE") {
            return Err((self.here(), "INSERT OVERWRITE is for tables at rest: use INSERT INTO".to_owned()));
        }
        self.require("INTO")?;
        if is_word(self.peek(), "TABLE") && matches!(self.peek_second(), Token::Word(_)) {
            self.skip();
        }
        let table = self.name("table")?;
        if self.is_word("PARTITION") {
            return Err((self.here(), "PARTITION in INSERT is not built yet: give the partition's columns by the query".to_owned()));
        }
        let mut columns = Vec::new();
        if self.peek() == &Token::LParen && self.lists_names() {
            columns = self.names("column")?;
        }
        if self.is_word("DEFAULT") || self.is_word("SET") {
            return Err(self.expected("a query: SELECT, VALUES or WITH"));
        }
        let query = self.query_with_emit()?;
        Ok(Insert { at, table, columns, query })
    }

    /// Whether the parenthesis ahead holds names, not a query.
    fn lists_names(&self) -> bool {
        let inner = self.peek_second();
        inner != &Token::LParen && !["SELECT", "WITH", "VALUES"].iter().any(|word| is_word(inner, word))
    }

    /// `STATEMENT SET BEGIN … END`
    fn statement_set(&mut self) -> Result<Vec<Insert>, Fault> {
        self.require("STATEMENT")?;
        self.require("SET")?;
        self.require("BEGIN")?;
        self.inserts()
    }

    fn inserts(&mut self) -> Result<Vec<Insert>, Fault> {
        let mut inserts = Vec::new();
        loop {
            while self.accept_token(&Token::SemiColon) {}
            if inserts.is_empty() && self.is_word("END") {
                return Err(self.expected("at least one INSERT INTO before END"));
            }
            if self.accept("END") {
                return Ok(inserts);
            }
            if !self.is_word("INSERT") {
                return Err(self.expected("INSERT INTO or END"));
            }
            inserts.push(self.insert()?);
            if self.peek() != &Token::SemiColon && !self.is_word("END") {
                return Err(self.expected("`;` or END"));
            }
        }
    }

    fn set(&mut self) -> Result<Statement, Fault> {
        self.skip();
        if self.at_end() {
            return Ok(Statement::ShowSettings);
        }
        let (key, key_at) = self.key()?;
        self.require_token(&Token::Eq, "`=`")?;
        let value_at = self.here();
        if let Token::SingleQuotedString(text) = self.peek() {
            let value = text.clone();
            self.skip();
            return Ok(Statement::Set(OptionText { key, value, key_at, value_at }));
        }
        if self.at_end() {
            return Err(self.expected("a value"));
        }
        // Without quotes the value is what stands there, white space and all: Europe/Berlin, 10 s.
        let mut end = value_at;
        while !self.at_end() {
            end = self.parser.peek_token_ref().span.end;
            self.skip();
        }
        Ok(Statement::Set(OptionText { key, value: self.source.between(value_at, end), key_at, value_at }))
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
        if key.is_empty() { Err(self.expected("the key of a setting")) } else { Ok((key, at)) }
    }

    fn explain(&mut self) -> Result<Statement, Fault> {
        const DETAILS: [&str; 6] = ["PLAN", "FOR", "ESTIMATED_COST", "CHANGELOG_MODE", "JSON_EXECUTION_PLAN", "PLAN_ADVICE"];
        self.skip();
        while DETAILS.iter().any(|word| self.accept(word)) || self.accept_token(&Token::Comma) {}
        if self.is_word("EXECUTE") && is_word(self.peek_second(), "STATEMENT") {
            self.skip();
        }
        let explained = match self.word().as_deref() {
            Some("INSERT") => Explained::Inserts(vec![self.insert()?]),
            Some("STATEMENT") => Explained::Inserts(self.statement_set()?),
            Some("SELECT" | "WITH" | "VALUES" | "TABLE") => Explained::Query(self.query_with_emit()?),
            _ if self.peek() == &Token::LParen => Explained::Query(self.query_with_emit()?),
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
                if !self.accept("IN") {
                    self.require("FROM")?;
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
            word => {
                let hint = nearest(word.unwrap_or_default(), ["TABLES", "VIEWS", "FUNCTIONS", "PLUGINS", "COLUMNS", "CREATE"]);
                return Err((at, format!("SHOW knows TABLES, VIEWS, FUNCTIONS, PLUGINS, COLUMNS FROM t and CREATE TABLE t{hint}")));
            }
        };
        Ok(Statement::Show(show))
    }

    fn drop_object(&mut self) -> Result<Statement, Fault> {
        self.skip();
        if self.accept("TEMPORARY") {
            self.accept("SYSTEM");
        }
        self.accept("MATERIALIZED");
        let what = match self.word().as_deref() {
            Some("TABLE" | "SOURCE" | "SINK") => ObjectKind::Table,
            Some("VIEW") => ObjectKind::View,
            Some("FUNCTION") => ObjectKind::Function,
            Some("PLUGIN") => ObjectKind::Plugin,
            _ => return Err(self.expected("TABLE, VIEW, FUNCTION or PLUGIN")),
        };
        self.skip();
        let if_exists = self.accept("IF");
        if if_exists {
            self.require("EXISTS")?;
        }
        Ok(Statement::Drop { what, name: self.name(what.word())?, if_exists })
    }
}
