//! Tables as the planner sees them: what a scan gives, and what a sink takes.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow::datatypes::FieldRef;
use datafusion::{
    logical_expr::Expr,
    sql::sqlparser::ast::{Ident, Query},
};
use pelton_core::graph::{MetadataColumn, TableSpec};

use super::rel::{Op, Rel, RelColumn, Role};

/// What a name in FROM stands for.
pub(crate) enum Relation {
    /// A table.
    Table(Arc<Table>),
    /// A view: its query, and names for its columns (may be empty).
    View { query: Box<Query>, columns: Vec<Ident> },
}

/// Tables and views by name.
pub(crate) trait Catalog {
    /// The table or view of this name.
    fn relation(&self, name: &str) -> Option<Relation>;

    /// All names, for telling the nearest.
    fn names(&self) -> Vec<String>;
}

/// Where a column's values come from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Origin {
    /// Decoded from the record: this column of [`TableSpec::physical`].
    Physical(usize),
    /// Metadata of the record.
    Metadata { column: MetadataColumn, is_virtual: bool },
    /// Computed from the columns before; over all the table's columns.
    Computed(Expr),
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TableColumn {
    pub(crate) field: FieldRef,
    pub(crate) origin: Origin,
}

/// A table with every expression translated.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) spec: Arc<TableSpec>,
    /// In the order of the CREATE statement.
    pub(crate) columns: Vec<TableColumn>,
    /// The time attribute and the WATERMARK expression over the table's columns.
    pub(crate) watermark: Option<(usize, Expr)>,
}

impl Table {
    /// All its rows.
    pub(crate) fn scan(self: &Arc<Self>) -> Arc<Rel> {
        let time = self.watermark.as_ref().map(|(column, _)| *column);
        let columns = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| {
                let role = if time == Some(index) { Role::Rowtime } else { Role::Plain };
                RelColumn::new(Arc::clone(&column.field), role)
            })
            .collect();
        Arc::new(Rel { op: Op::Scan { table: Arc::clone(self) }, columns })
    }
}

// Tables are told apart by name: there is one of each name while a script's statement is planned.
impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        self.spec.name == other.spec.name
    }
}

impl Eq for Table {}

impl Hash for Table {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.spec.name.hash(state);
    }
}
