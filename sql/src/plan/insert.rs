//! INSERT INTO: a query's columns onto a table's.
//!
//! Columns go by position, as in Flink. What is wider on the table's side is widened, anything that could lose values
//! is refused. Computed and virtual columns take no values; columns that the column list leaves out get null.

use std::{collections::BTreeMap, sync::Arc};

use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::{
    common::ScalarValue,
    logical_expr::Expr,
    sql::sqlparser::{ast::Ident, tokenizer::Span},
};
use pelton_core::graph::{MetadataColumn, TableSpec};

use super::{
    fault::{Fault, Planned, nearest},
    not_null::not_null,
    query::Planner,
    rel::{Rel, at},
    table::{Origin, Table},
    translate::message,
};

/// A relation and where its rows go.
#[derive(Debug, Clone)]
pub(crate) struct SinkPlan {
    pub(crate) rel: Arc<Rel>,
    pub(crate) table: Arc<TableSpec>,
    /// The relation's last columns.
    pub(crate) metadata: Vec<MetadataColumn>,
}

impl Planner<'_> {
    /// The rows of `rel` as rows of `table`. `columns` is the column list, empty if there is none.
    pub(crate) fn insert(&self, rel: Arc<Rel>, table: &Table, columns: &[Ident], span: Span) -> Planned<SinkPlan> {
        let name = &table.spec.name;
        let written: Vec<&super::table::TableColumn> = table
            .columns
            .iter()
            .filter(|column| match &column.origin {
                Origin::Physical(_) => true,
                Origin::Metadata { is_virtual, .. } => !is_virtual,
                Origin::Computed(_) => false,
            })
            .collect();
        // For each query column, the table's column that takes it.
        let mut targets = Vec::new();
        for ident in columns {
            let Some(index) = written.iter().position(|column| column.field.name() == &ident.value) else {
                if let Some(column) = table.columns.iter().find(|column| column.field.name() == &ident.value) {
                    let what = if matches!(column.origin, Origin::Computed(_)) { "computed" } else { "virtual" };
                    return Err(Fault::at(ident.span, format!("column `{}` is {what} and takes no values", ident.value)));
                }
                let hint = nearest(&ident.value, written.iter().map(|column| column.field.name().as_str()));
                return Err(Fault::at(ident.span, format!("table `{name}` has no column `{}`{hint}", ident.value)));
            };
            if targets.contains(&index) {
                return Err(Fault::at(ident.span, format!("column `{}` stands twice", ident.value)));
            }
            targets.push(index);
        }
        if columns.is_empty() {
            targets = (0..written.len()).collect();
        }
        if targets.len() != rel.columns.len() {
            let found = rel.columns.iter().map(|c| format!("`{}` {}", c.name(), self.translator.functions.type_name(c.field.data_type())));
            let wanted = targets.iter().map(|&i| {
                format!("`{}` {}", written[i].field.name(), self.translator.functions.type_name(written[i].field.data_type()))
            });
            let message = format!(
                "the query has {} columns and `{name}` takes {}: query ({}), table ({})",
                rel.columns.len(),
                targets.len(),
                found.collect::<Vec<_>>().join(", "),
                wanted.collect::<Vec<_>>().join(", "),
            );
            return Err(Fault::at(span, message));
        }
        let mut physical = Vec::new();
        let mut metadata = Vec::new();
        for (index, column) in written.iter().enumerate() {
            let expr = match targets.iter().position(|&target| target == index) {
                Some(source) => {
                    let expr = self.widened(&rel, source, &column.field, name, span)?;
                    let may_be_null = rel.columns[source].field.is_nullable() && !column.field.is_nullable();
                    if may_be_null { not_null(expr, column.field.name()) } else { expr }
                }
                None if !column.field.is_nullable() => {
                    return Err(Fault::at(span, format!("column `{}` of `{name}` is NOT NULL and gets no value", column.field.name())));
                }
                None => Expr::Literal(ScalarValue::try_from(column.field.data_type()).unwrap_or(ScalarValue::Null), None),
            };
            match &column.origin {
                Origin::Metadata { column: meta, .. } => metadata.push(((expr, Arc::clone(&column.field)), meta.clone())),
                _ => physical.push((expr, Arc::clone(&column.field))),
            }
        }
        let (last, metadata): (Vec<_>, Vec<_>) = metadata.into_iter().unzip();
        physical.extend(last);
        Ok(SinkPlan { rel: Rel::project(rel, physical), table: Arc::clone(&table.spec), metadata })
    }

    fn widened(&self, rel: &Rel, source: usize, target: &FieldRef, table: &str, span: Span) -> Planned<Expr> {
        let (from, to) = (rel.columns[source].field.data_type(), target.data_type());
        if same_type(from, to) {
            return Ok(at(source));
        }
        if !widens(from, to) {
            let [from, to] = [from, to].map(|data_type| self.translator.functions.type_name(data_type));
            let message = format!(
                "column `{}` of `{table}` is {to}, the query's column {} (`{}`) is {from}: write CAST(… AS {to})",
                target.name(),
                source + 1,
                rel.columns[source].name(),
            );
            return Err(Fault::at(span, message));
        }
        self.translator.functions.cast(at(source), from, to).map_err(|error| Fault::at(span, message(&error, &rel.columns)))
    }
}

/// The plan of a SELECT that prints.
pub(crate) fn print(rel: Arc<Rel>, line: u64) -> SinkPlan {
    let table = TableSpec {
        name: "select".to_owned(),
        options: BTreeMap::from([("connector".to_owned(), "select".to_owned())]),
        physical: Arc::new(Schema::new(rel.columns.iter().map(|column| Arc::clone(&column.field)).collect::<Vec<_>>())),
        primary_key: Vec::new(),
        partition_by: Vec::new(),
        line,
    };
    SinkPlan { rel, table: Arc::new(table), metadata: Vec::new() }
}

/// Whether values of both types are stored alike: names of fields and nullability aside.
fn same_type(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::List(a), DataType::List(b)) => same_type(a.data_type(), b.data_type()) && a.name() == b.name(),
        _ => a == b,
    }
}

/// Flink's implicit casts: those that keep every value (times may lose digits).
fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Binary, Date32, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, List, Map, Null, Struct, Time32, Timestamp, Utf8,
    };
    let rank = |data_type: &DataType| match data_type {
        Int8 => Some(1),
        Int16 => Some(2),
        Int32 => Some(3),
        Int64 => Some(4),
        Decimal128(..) => Some(5),
        Float32 => Some(6),
        Float64 => Some(7),
        _ => None,
    };
    match (from, to) {
        (Null, _) | (Utf8, Utf8) | (Binary, Binary) => true,
        (Decimal128(..) | Float32 | Float64, Decimal128(..)) => true,
        (Timestamp(..), Timestamp(..) | Date32 | Time32(_)) | (Time32(_), Time32(_)) => true,
        (List(from), List(to)) => same_or_wider(from.data_type(), to.data_type()),
        (Map(from, _), Map(to, _)) => same_or_wider(from.data_type(), to.data_type()),
        (Struct(from), Struct(to)) => {
            from.len() == to.len() && from.iter().zip(to).all(|(from, to)| same_or_wider(from.data_type(), to.data_type()))
        }
        _ => matches!((rank(from), rank(to)), (Some(from), Some(to)) if from <= to),
    }
}

fn same_or_wider(from: &DataType, to: &DataType) -> bool {
    from == to || widens(from, to)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn widens_numbers_and_never_narrows_them() {
        assert!(widens(&DataType::Int32, &DataType::Int64));
        assert!(widens(&DataType::Int64, &DataType::Decimal128(20, 0)));
        assert!(widens(&DataType::Decimal128(23, 3), &DataType::Float64));
        assert!(!widens(&DataType::Int64, &DataType::Int32));
        assert!(!widens(&DataType::Utf8, &DataType::Int32));
        assert!(!widens(&DataType::Int32, &DataType::Utf8));
        assert!(widens(&DataType::Timestamp(TimeUnit::Microsecond, None), &DataType::Timestamp(TimeUnit::Millisecond, None)));
    }
}
