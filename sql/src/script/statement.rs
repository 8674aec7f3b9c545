//! The statements of a script.

use arrow::datatypes::FieldRef;
use datafusion::sql::sqlparser::{
    ast::{Expr, Ident, Query},
    tokenizer::Location,
};

/// A statement and where it begins.
#[derive(Debug, Clone)]
pub(crate) struct Spanned {
    pub(crate) at: Location,
    pub(crate) statement: Statement,
}

/// What a script can say.
#[derive(Debug, Clone)]
pub(crate) enum Statement {
    CreateTable(Box<CreateTable>),
    CreateView { name: Ident, columns: Vec<Ident>, query: Box<Query>, if_not_exists: bool },
    CreateFunction { name: Ident, export: String, plugin: Ident, if_not_exists: bool },
    CreatePlugin { name: Ident, options: Vec<OptionText>, if_not_exists: bool },
    Insert(Box<Insert>),
    StatementSet(Vec<Insert>),
    Query(Box<Query>),
    Explain(Box<Explained>),
    Set(OptionText),
    ShowSettings,
    /// One key and where it stands, or all.
    Reset(Option<(String, Location)>),
    Show(Show),
    Describe(Ident),
    Drop { what: ObjectKind, name: Ident, if_exists: bool },
}

/// What EXPLAIN stands before.
#[derive(Debug, Clone)]
pub(crate) enum Explained {
    Query(Box<Query>),
    Inserts(Vec<Insert>),
}

/// INSERT INTO.
#[derive(Debug, Clone)]
pub(crate) struct Insert {
    pub(crate) at: Location,
    pub(crate) table: Ident,
    pub(crate) columns: Vec<Ident>,
    pub(crate) query: Box<Query>,
}

/// SHOW.
#[derive(Debug, Clone)]
pub(crate) enum Show {
    Tables,
    Views,
    Functions,
    Plugins,
    CreateTable(Ident),
    Columns(Ident),
}

/// Kinds of things that have names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Table,
    View,
    Function,
    Plugin,
}

impl ObjectKind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::View => "view",
            Self::Function => "function",
            Self::Plugin => "plugin",
        }
    }
}

/// `'key' = 'value'` of a WITH clause or of SET.
#[derive(Debug, Clone)]
pub(crate) struct OptionText {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) key_at: Location,
    pub(crate) value_at: Location,
}

/// CREATE TABLE.
#[derive(Debug, Clone)]
pub(crate) struct CreateTable {
    pub(crate) name: Ident,
    pub(crate) if_not_exists: bool,
    pub(crate) columns: Vec<ColumnDef>,
    /// The column and its WATERMARK expression.
    pub(crate) watermark: Option<(Ident, Expr)>,
    pub(crate) primary_key: Vec<Ident>,
    pub(crate) partition_by: Vec<Ident>,
    pub(crate) options: Vec<OptionText>,
    /// Its text, for SHOW CREATE TABLE.
    pub(crate) text: String,
}

/// A column of CREATE TABLE.
#[derive(Debug, Clone)]
pub(crate) struct ColumnDef {
    pub(crate) name: Ident,
    pub(crate) kind: ColumnKind,
}

/// Where its values come from.
#[derive(Debug, Clone)]
pub(crate) enum ColumnKind {
    /// In the record.
    Physical(FieldRef),
    /// `name TYPE METADATA [FROM 'key'] [VIRTUAL]`.
    Metadata { field: FieldRef, key: String, is_virtual: bool, at: Location },
    /// `name AS expr`.
    Computed(Box<Expr>),
}
