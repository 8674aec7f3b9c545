//! Names: which column a name in a query stands for.
//!
//! Names are case-sensitive, as in Flink. `a.b.c` is tried as *table a, column b, field c* first, then as *column a,
//! field b, field c*. What is found is written back into the syntax tree as the positional name `$3`, so that nothing
//! behind this step looks at names again.

use std::ops::ControlFlow;

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::{
    ast::{AccessExpr, Expr, Ident, ObjectName, Query, Spanned, Subscript, Value, ValueWithSpan, VisitMut, VisitorMut},
    tokenizer::Span,
};

use super::{
    fault::{Fault, Planned, nearest, not_built},
    rel::RelColumn,
};

/// A column that a query can name.
#[derive(Debug, Clone)]
pub(crate) struct ScopeColumn {
    /// The table's alias or name, if the columns stand under one.
    pub(crate) qualifier: Option<String>,
    pub(crate) name: String,
    pub(crate) column: RelColumn,
    /// Merged away by USING: reachable with its qualifier only, and not part of `*`.
    pub(crate) hidden: bool,
}

/// The columns that names in one place of a query can stand for; position in the list = position in the relation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope {
    pub(crate) columns: Vec<ScopeColumn>,
    /// Columns of the query around this one; their positions come after those of `columns`.
    pub(crate) outer: Vec<ScopeColumn>,
}

impl Scope {
    /// The columns of a relation under one qualifier.
    pub(crate) fn of(columns: &[RelColumn], qualifier: Option<&str>) -> Self {
        let columns = columns
            .iter()
            .map(|column| ScopeColumn {
                qualifier: qualifier.map(str::to_owned),
                name: column.name().to_owned(),
                column: column.clone(),
                hidden: false,
            })
            .collect();
        Self { columns, outer: Vec::new() }
    }

    /// These columns, then those.
    pub(crate) fn then(mut self, other: Self) -> Self {
        self.columns.extend(other.columns);
        self
    }

    /// All columns by position.
    pub(crate) fn rel_columns(&self) -> Vec<RelColumn> {
        self.columns.iter().chain(&self.outer).map(|column| column.column.clone()).collect()
    }

    /// Finds the column that starts `path`, and how many parts of the path its name takes.
    pub(crate) fn find(&self, path: &[Ident]) -> Planned<(usize, usize)> {
        let levels = [(self.columns.as_slice(), 0), (self.outer.as_slice(), self.columns.len())];
        for (columns, first) in levels {
            let qualified = (path.len() > 1)
                .then(|| matches(columns, |c| c.qualifier.as_deref() == Some(path[0].value.as_str()) && c.name == path[1].value))
                .unwrap_or_default();
            let (found, used) = if qualified.is_empty() {
                (matches(columns, |c| !c.hidden && c.name == path[0].value), 1)
            } else {
                (qualified, 2)
            };
            match found.as_slice() {
                [] => {}
                [index] => return Ok((first + index, used)),
                _ => {
                    let owners: Vec<_> = found.iter().filter_map(|&i| columns[i].qualifier.as_deref()).collect();
                    let hint = match owners.first() {
                        Some(owner) if owners.len() == found.len() => {
                            format!(": it is in {}; write `{owner}`.`{}`", owners.join(" and "), path[used - 1].value)
                        }
                        _ => ": give each an alias".to_owned(),
                    };
                    return Err(Fault::at(path[0].span, format!("column `{}` is ambiguous{hint}", path[used - 1].value)));
                }
            }
        }
        Err(self.unknown(path))
    }

    fn unknown(&self, path: &[Ident]) -> Fault {
        let all = || self.columns.iter().chain(&self.outer);
        let (first, last) = (&path[0], &path[path.len().min(2) - 1]);
        if path.len() > 1 && all().any(|c| c.qualifier.as_deref() == Some(first.value.as_str())) {
            let names = all().filter(|c| c.qualifier.as_deref() == Some(first.value.as_str())).map(|c| c.name.as_str());
            let hint = nearest(&last.value, names);
            return Fault::at(last.span, format!("table `{}` has no column `{}`{hint}", first.value, last.value));
        }
        if path.len() > 1 {
            let hint = nearest(&first.value, all().filter_map(|c| c.qualifier.as_deref()).chain(all().map(|c| c.name.as_str())));
            return Fault::at(first.span, format!("neither a table nor a column `{}` is known here{hint}", first.value));
        }
        let hint = nearest(&first.value, all().map(|c| c.name.as_str()));
        let hint = if hint.is_empty() && all().next().is_some() && all().count() <= 20 {
            format!("; known are {}", all().map(|c| format!("`{}`", c.name)).collect::<Vec<_>>().join(", "))
        } else {
            hint
        };
        Fault::at(first.span, format!("column `{}` not found{hint}", first.value))
    }

    /// Replaces every name in `expr` by its position.
    pub(crate) fn resolve(&self, expr: &mut Expr) -> Planned<()> {
        match VisitMut::visit(expr, &mut Resolver { scope: self }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(fault) => Err(fault),
        }
    }

    /// `path` as an expression: the column, then access to its fields, each of which must exist.
    fn access(&self, path: &[Ident]) -> Planned<(Expr, Vec<AccessExpr>, DataType)> {
        let (index, used) = self.find(path)?;
        let column = self.columns.get(index).or_else(|| self.outer.get(index - self.columns.len()));
        let mut data_type = column.map_or(DataType::Null, |c| c.column.field.data_type().clone());
        let mut chain = Vec::new();
        for (position, part) in path.iter().enumerate().skip(used) {
            data_type = field_type(&data_type, part, &path[position - 1].value)?;
            chain.push(named_field(part));
        }
        let mut name = Ident::new(format!("${index}"));
        name.span = path.iter().fold(path[0].span, |span, part| span.union(&part.span));
        Ok((Expr::Identifier(name), chain, data_type))
    }
}

fn matches(columns: &[ScopeColumn], test: impl Fn(&ScopeColumn) -> bool) -> Vec<usize> {
    columns.iter().enumerate().filter(|(_, column)| test(column)).map(|(index, _)| index).collect()
}

fn field_type(data_type: &DataType, part: &Ident, owner: &str) -> Planned<DataType> {
    let DataType::Struct(fields) = data_type else {
        return Err(Fault::at(part.span, format!("`{owner}` is no ROW and has no field `{}`", part.value)));
    };
    let found = fields.iter().find(|field| field.name() == &part.value);
    found.map(|field| field.data_type().clone()).ok_or_else(|| {
        let hint = nearest(&part.value, fields.iter().map(|field| field.name().as_str()));
        Fault::at(part.span, format!("`{owner}` has no field `{}`{hint}", part.value))
    })
}

/// `.part`, written as `['part']`: what DataFusion's planner takes for a field whatever stands around it.
fn named_field(part: &Ident) -> AccessExpr {
    let value = ValueWithSpan { value: Value::SingleQuotedString(part.value.clone()), span: part.span };
    AccessExpr::Subscript(Subscript::Index { index: Expr::Value(value) })
}

/// Whether `ident` was put in by [`Scope::resolve`]: a user cannot write it without backticks.
pub(crate) fn is_resolved(ident: &Ident) -> bool {
    ident.quote_style.is_none() && ident.value.starts_with('$')
}

struct Resolver<'a> {
    scope: &'a Scope,
}

impl Resolver<'_> {
    fn resolve(&self, expr: &mut Expr) -> Planned<()> {
        match expr {
            Expr::Identifier(ident) if !is_resolved(ident) => {
                *expr = self.scope.access(std::slice::from_ref(ident))?.0;
            }
            Expr::CompoundIdentifier(path) => {
                let (root, chain, _) = self.scope.access(path)?;
                *expr = with_chain(root, chain);
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                let mut rest = std::mem::take(access_chain).into_iter().peekable();
                let mut chain = Vec::new();
                if let Expr::Identifier(ident) = root.as_ref()
                    && !is_resolved(ident)
                {
                    let mut path = vec![ident.clone()];
                    while let Some(AccessExpr::Dot(Expr::Identifier(part))) =
                        rest.next_if(|access| matches!(access, AccessExpr::Dot(Expr::Identifier(_))))
                    {
                        path.push(part);
                    }
                    let (resolved, fields, _) = self.scope.access(&path)?;
                    **root = resolved;
                    chain.extend(fields);
                }
                chain.extend(rest.map(|access| match access {
                    AccessExpr::Dot(Expr::Identifier(part)) => named_field(&part),
                    other => other,
                }));
                *access_chain = chain;
            }
            _ => {}
        }
        Ok(())
    }
}

fn with_chain(root: Expr, access_chain: Vec<AccessExpr>) -> Expr {
    if access_chain.is_empty() {
        return root;
    }
    Expr::CompoundFieldAccess { root: Box::new(root), access_chain }
}

impl VisitorMut for Resolver<'_> {
    type Break = Fault;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Fault> {
        match self.resolve(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(fault) => ControlFlow::Break(fault),
        }
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Fault> {
        ControlFlow::Break(sub_query_refused(query.span()))
    }
}

/// The refusal of a query inside an expression.
pub(crate) fn sub_query_refused(span: Span) -> Fault {
    not_built(
        span,
        "a query inside an expression is",
        "Write it as a join; EXISTS, NOT EXISTS and IN (SELECT …) are possible in WHERE between sides of the same windows",
    )
}

/// The parts of a table's name, without the default catalog and database.
pub(crate) fn table_name(name: &ObjectName) -> Planned<String> {
    let parts: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
    let plain: Vec<&str> = parts.iter().map(|part| part.value.as_str()).collect();
    match plain.as_slice() {
        [table] | ["default_database", table] | ["default_catalog", "default_database", table] => Ok((*table).to_owned()),
        _ => Err(Fault::at(name.span(), format!("table `{name}`: there is one catalog and one database, so a table has a single name"))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Field;

    use super::*;
    use crate::plan::rel::Role;

    fn column(name: &str, data_type: DataType) -> RelColumn {
        RelColumn::new(Arc::new(Field::new(name, data_type, true)), Role::Plain)
    }

    fn scope() -> Scope {
        let row = DataType::Struct(vec![Field::new("auction", DataType::Int64, true)].into());
        Scope::of(&[column("bid", row), column("ts", DataType::Utf8)], Some("events"))
            .then(Scope::of(&[column("ts", DataType::Utf8)], Some("bid")))
    }

    fn found(path: &[&str]) -> Result<(usize, usize), String> {
        let path: Vec<Ident> = path.iter().map(|part| Ident::new(*part)).collect();
        scope().find(&path).map_err(|fault| fault.message)
    }

    #[test]
    fn a_table_goes_before_a_column_of_the_same_name() {
        assert_eq!(found(&["bid", "ts"]), Ok((2, 2)));
        assert_eq!(found(&["bid", "auction"]), Ok((0, 1)));
    }

    #[test]
    fn an_ambiguous_name_is_refused_with_its_owners() {
        assert_eq!(found(&["ts"]), Err("column `ts` is ambiguous: it is in events and bid; write `events`.`ts`".to_owned()));
    }

    #[test]
    fn an_unknown_name_comes_with_the_nearest() {
        assert_eq!(found(&["event", "ts"]), Err("neither a table nor a column `event` is known here; did you mean `events`?".to_owned()));
        assert_eq!(found(&["events", "tss"]), Err("table `events` has no column `tss`; did you mean `ts`?".to_owned()));
    }
}
