//! CREATE statements: tables with physical, metadata and computed columns, watermarks and keys; views; functions; plugins.
//!
//! Promises: what a table says of its own columns is checked here (names that stand twice, keys of columns that are not
//! there), so that positions are those of the names. Leaves to others: expressions (`plan`), what connectors offer
//! (`options`).

use datafusion::sql::sqlparser::{
    ast::Ident,
    tokenizer::{Location, Token},
};

use super::{
    cursor::{Cursor, Fault},
    statement::{ColumnDef, ColumnKind, CreateTable, Statement},
    types,
};
use crate::plan::fault::nearest;

impl Cursor<'_> {
    pub(crate) fn create(&mut self) -> Result<Statement, Fault> {
        let begin = self.here();
        self.skip();
        if self.is_word("OR") {
            return Err((self.here(), "CREATE OR REPLACE is not built yet: DROP … IF EXISTS first".to_owned()));
        }
        if self.accept("TEMPORARY") {
            self.accept("SYSTEM");
        }
        let what = self.word();
        match what.as_deref() {
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
            Some(word @ ("CATALOG" | "DATABASE" | "MODEL" | "CONNECTION")) => {
                Err((self.here(), format!("CREATE {word} is not built: the tables of a script stand side by side")))
            }
            _ => {
                let (at, message) = self.expected("TABLE, VIEW, FUNCTION or PLUGIN");
                let hint = nearest(what.as_deref().unwrap_or_default(), ["TABLE", "VIEW", "FUNCTION", "PLUGIN"]);
                Err((at, format!("{message}{hint}")))
            }
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
        let mut columns = Vec::new();
        if self.accept_token(&Token::LParen) {
            loop {
                columns.push(self.name("column")?);
                self.comment()?;
                if !self.accept_token(&Token::Comma) {
                    break;
                }
            }
            self.require_token(&Token::RParen, "`,` or `)`")?;
            no_doubles(&columns)?;
        }
        self.comment()?;
        self.require("AS")?;
        Ok(Statement::CreateView { name, columns, query: self.query_with_emit()?, if_not_exists })
    }

    fn create_function(&mut self) -> Result<Statement, Fault> {
        const HOW: &str = "functions come from plugins: CREATE FUNCTION f AS 'name' LANGUAGE WASM USING PLUGIN p";
        let if_not_exists = self.if_not_exists()?;
        let name = self.name("function")?;
        self.require("AS")?;
        let export = self.string("the name the plugin exports")?;
        for word in ["LANGUAGE", "WASM", "USING", "PLUGIN"] {
            if !self.accept(word) {
                let (at, message) = self.expected(word);
                return Err((at, format!("{message}: {HOW}")));
            }
        }
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
            self.require_token(&Token::RParen, "`,` or `)` in the columns")?;
        }
        self.comment()?;
        if self.is_word("DISTRIBUTED") {
            return Err((self.here(), "DISTRIBUTED BY is not built: 'key.fields' says how a topic is keyed".to_owned()));
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
            Some("FROM") => return Err((here, "a sink is a table: CREATE TABLE … WITH (…), then INSERT INTO it".to_owned())),
            Some("FORMAT") => return Err((here, "the format is an option: WITH (…, 'format' = 'json')".to_owned())),
            _ => {}
        }
        table.text = self.source.between(begin, here);
        check_columns(&table)?;
        Ok(Statement::CreateTable(Box::new(table)))
    }

    fn element(&mut self, table: &mut CreateTable) -> Result<(), Fault> {
        let at = self.here();
        // A column may have any of these names too: then a type stands behind it.
        let second = self.peek_second();
        let is_clause = |word: &str| super::cursor::is_word(second, word);
        match self.word().as_deref() {
            Some("WATERMARK") if is_clause("FOR") => {
                self.skip();
                self.skip();
                if table.watermark.is_some() {
                    return Err((at, "a table has one WATERMARK".to_owned()));
                }
                let column = self.name("column")?;
                self.require("AS")?;
                table.watermark = Some((column, self.expr()?));
                Ok(())
            }
            Some("CONSTRAINT") => {
                self.skip();
                self.name("constraint")?;
                if self.is_word("UNIQUE") {
                    return Err((self.here(), "UNIQUE is not built: PRIMARY KEY (…) NOT ENFORCED is".to_owned()));
                }
                self.primary_key(table)
            }
            Some("PRIMARY") => self.primary_key(table),
            Some("UNIQUE") if second == &Token::LParen => Err((at, "UNIQUE is not built: PRIMARY KEY (…) NOT ENFORCED is".to_owned())),
            Some("LIKE") => Err((at, "LIKE is not built yet: repeat the columns".to_owned())),
            _ => self.column(table),
        }
    }

    fn primary_key(&mut self, table: &mut CreateTable) -> Result<(), Fault> {
        let at = self.here();
        self.require("PRIMARY")?;
        self.require("KEY")?;
        let names = self.names("column")?;
        self.keyed(table, names, at)
    }

    fn keyed(&mut self, table: &mut CreateTable, names: Vec<Ident>, at: Location) -> Result<(), Fault> {
        if !table.primary_key.is_empty() {
            return Err((at, "a table has one PRIMARY KEY".to_owned()));
        }
        table.primary_key = names;
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
            if matches!(self.peek(), Token::Comma | Token::RParen | Token::EOF) {
                return Err(self.expected(&format!("the type of `{}`", name.value)));
            }
            let field = types::parse_field(&mut self.parser, &name.value).map_err(|(at, message)| (self.placed(at), message))?;
            let at = self.here();
            if self.accept("METADATA") {
                let key = if self.accept("FROM") { self.string("the metadata's key")? } else { name.value.clone() };
                let is_virtual = self.accept("VIRTUAL");
                ColumnKind::Metadata { field, key, is_virtual, at }
            } else {
                if self.accept("PRIMARY") {
                    self.require("KEY")?;
                    self.keyed(table, vec![name.clone()], at)?;
                }
                ColumnKind::Physical(field)
            }
        };
        self.comment()?;
        if table.columns.iter().any(|column| column.name.value == name.value) {
            return Err((name.span.start, format!("column `{}` stands twice", name.value)));
        }
        for word in ["DEFAULT", "UNIQUE", "CHECK", "REFERENCES", "GENERATED"] {
            if self.is_word(word) {
                return Err((self.here(), format!("{word} of a column is not built: compute values in the query that writes them")));
            }
        }
        table.columns.push(ColumnDef { name, kind });
        Ok(())
    }

    fn placed(&self, at: Location) -> Location {
        if at.line == 0 { self.source.end() } else { at }
    }

    fn comment(&mut self) -> Result<(), Fault> {
        if self.accept("COMMENT") {
            self.string("the comment")?;
        }
        Ok(())
    }
}

fn no_doubles(names: &[Ident]) -> Result<(), Fault> {
    for (index, name) in names.iter().enumerate() {
        if names[..index].iter().any(|other| other.value == name.value) {
            return Err((name.span.start, format!("column `{}` stands twice", name.value)));
        }
    }
    Ok(())
}

/// Keys and partitions name columns of the record. Columns that are inferred are not known here.
fn check_columns(table: &CreateTable) -> Result<(), Fault> {
    let is_physical = |column: &ColumnDef| matches!(column.kind, ColumnKind::Physical(_));
    let inferred = table.options.iter().any(|option| option.key == "pelton.schema.infer");
    for (what, names) in [("PRIMARY KEY", &table.primary_key), ("PARTITIONED BY", &table.partition_by)] {
        for name in names {
            match table.columns.iter().find(|column| column.name.value == name.value) {
                Some(column) if is_physical(column) => {}
                Some(_) => {
                    let message = format!("`{}` cannot stand in {what}: only columns that are in the record can", name.value);
                    return Err((name.span.start, message));
                }
                None if inferred => {}
                None => {
                    let hint = nearest(&name.value, table.columns.iter().filter(|column| is_physical(column)).map(|column| column.name.value.as_str()));
                    return Err((name.span.start, format!("column `{}` of {what} not found{hint}", name.value)));
                }
            }
        }
    }
    if !table.columns.is_empty() || inferred {
        return Ok(());
    }
    let message = format!("table `{}` has no columns: list them, or let 'pelton.schema.infer' find them", table.name.value);
    Err((table.name.span.start, message))
}
