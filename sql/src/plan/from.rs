//! FROM: tables, views, sub-selects, window functions, UNNEST, and the joins between them.
//!
//! Joins wait in a tree until WHERE is known, because a condition there may be what bounds the join
//! (`FROM a, b WHERE a.id = b.id AND b.ts BETWEEN …`). Then `join.rs` decides what kind of join each is.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::{
    logical_expr::Expr,
    sql::sqlparser::{
        ast::{
            Expr as Ast, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Join, JoinConstraint, JoinOperator,
            Spanned, TableAlias, TableFactor, TableWithJoins,
        },
        tokenizer::Span,
    },
};

use super::{
    fault::{Fault, Planned, nearest, not_built},
    query::{Ctes, Planner, rename_columns, unnamed},
    rel::{JoinKind, Op, Rel, RelColumn, Role, columns_of, conjunction, conjuncts, remap},
    scope::{Scope, table_name},
    table::Relation,
    translate::Clause,
};

/// A FROM clause before its joins are decided.
pub(crate) enum From {
    Leaf(Arc<Rel>),
    Join { left: Box<From>, right: Box<From>, kind: JoinKind, on: Vec<Expr>, span: Span },
    Unnest { left: Box<From>, list: Expr, columns: Vec<RelColumn>, outer: bool, ordinality: bool },
}

/// One item of FROM: a relation of its own, or one computed from the columns to its left.
enum Item {
    Rel(Arc<Rel>, Scope),
    Lateral { list: Expr, columns: Vec<RelColumn>, ordinality: bool, scope: Scope },
}

impl From {
    fn width(&self) -> usize {
        match self {
            Self::Leaf(rel) => rel.columns.len(),
            Self::Join { left, right, kind, .. } => left.width() + if kind.left_only() { 0 } else { right.width() },
            Self::Unnest { left, columns, .. } => left.width() + columns.len(),
        }
    }

    /// Moves conditions as far down as they hold there; what is left must be checked above.
    pub(crate) fn push(&mut self, conditions: Vec<Expr>) -> Vec<Expr> {
        match self {
            Self::Leaf(rel) => {
                if let Some(predicate) = conjunction(conditions) {
                    *rel = Rel::filter(Arc::clone(rel), predicate);
                }
                Vec::new()
            }
            Self::Unnest { left, .. } => {
                let width = left.width();
                let (below, above): (Vec<_>, Vec<_>) = conditions.into_iter().partition(|c| columns_of(c).iter().all(|&i| i < width));
                let rest = left.push(below);
                rest.into_iter().chain(above).collect()
            }
            Self::Join { left, right, kind, on, .. } => {
                let width = left.width();
                let (mut to_left, mut to_right, mut above) = (Vec::new(), Vec::new(), Vec::new());
                for condition in conditions {
                    match (side(&condition, width), *kind) {
                        (Side::Left, JoinKind::Inner | JoinKind::Left | JoinKind::Semi | JoinKind::Anti) => to_left.push(condition),
                        (Side::Right, JoinKind::Inner | JoinKind::Right) => to_right.push(condition),
                        (Side::Both, JoinKind::Inner) => on.push(condition),
                        _ => above.push(condition),
                    }
                }
                // A condition in ON on the side that may be missing only decides who is a partner.
                let (mut keep, mut below_left, mut below_right) = (Vec::new(), Vec::new(), Vec::new());
                for condition in std::mem::take(on) {
                    match (side(&condition, width), *kind) {
                        (Side::Left, JoinKind::Inner | JoinKind::Right | JoinKind::Semi) => below_left.push(condition),
                        (Side::Right, JoinKind::Inner | JoinKind::Left | JoinKind::Semi | JoinKind::Anti) => below_right.push(condition),
                        _ => keep.push(condition),
                    }
                }
                to_left.extend(below_left);
                to_right.extend(below_right);
                on.extend(keep);
                let to_right = to_right.iter().map(|c| remap(c, &|i| i - width)).collect();
                above.extend(left.push(to_left));
                above.extend(right.push(to_right).iter().map(|c| remap(c, &|i| i + width)));
                above
            }
        }
    }
}

#[derive(PartialEq)]
enum Side {
    Left,
    Right,
    Both,
}

fn side(condition: &Expr, width: usize) -> Side {
    let columns = columns_of(condition);
    if columns.iter().all(|&i| i < width) {
        Side::Left
    } else if columns.iter().all(|&i| i >= width) {
        Side::Right
    } else {
        Side::Both
    }
}

impl Planner<'_> {
    /// Reads FROM. Without one there is one row without columns.
    pub(crate) fn from(&self, tables: &[TableWithJoins], ctes: &Ctes) -> Planned<(From, Scope)> {
        let mut all: Option<(From, Scope)> = None;
        for table in tables {
            let item = self.item(&table.relation, ctes, all.as_ref().map(|(_, scope)| scope))?;
            let span = table.relation.span();
            // `a, b` is a join without a condition; joins bind closer than commas.
            let (mut from, mut scope) = match item {
                Item::Rel(rel, scope) => (From::Leaf(rel), scope),
                lateral @ Item::Lateral { .. } => {
                    all = Some(self.lateral(all.take(), lateral, false));
                    continue;
                }
            };
            let outside = all.as_ref().map_or(0, |(from, _)| from.width());
            for join in &table.joins {
                let visible = all.as_ref().map_or_else(Scope::default, |(_, scope)| scope.clone()).then(scope.clone());
                (from, scope) = self.join(from, scope, join, ctes, &visible, outside)?;
            }
            all = Some(match all {
                None => (from, scope),
                Some((left, left_scope)) => {
                    let join = From::Join { left: left.into(), right: from.into(), kind: JoinKind::Inner, on: Vec::new(), span };
                    (join, left_scope.then(scope))
                }
            });
        }
        Ok(all.unwrap_or_else(|| (From::Leaf(one_row()), Scope::default())))
    }

    fn lateral(&self, left: Option<(From, Scope)>, item: Item, outer: bool) -> (From, Scope) {
        let (left, left_scope) = left.unwrap_or_else(|| (From::Leaf(one_row()), Scope::default()));
        match item {
            Item::Lateral { list, columns, ordinality, scope } => {
                let from = From::Unnest { left: left.into(), list, columns, outer, ordinality };
                (from, left_scope.then(scope))
            }
            Item::Rel(rel, scope) => {
                let span = Span::empty();
                let join = From::Join { left: left.into(), right: From::Leaf(rel).into(), kind: JoinKind::Inner, on: Vec::new(), span };
                (join, left_scope.then(scope))
            }
        }
    }

    fn join(
        &self,
        left: From,
        left_scope: Scope,
        join: &Join,
        ctes: &Ctes,
        visible: &Scope,
        outside: usize,
    ) -> Planned<(From, Scope)> {
        let span = join.relation.span();
        let (kind, constraint) = join_kind(&join.join_operator, span)?;
        let item = self.item(&join.relation, ctes, Some(visible))?;
        let (rel, scope) = match item {
            Item::Rel(rel, scope) => (rel, scope),
            Item::Lateral { list, columns, ordinality, scope } => {
                if columns_of(&list).iter().any(|&i| i < outside) {
                    return Err(not_built(span, "a lateral table after a comma join that reads tables before the comma is", "Write CROSS JOIN instead of the comma"));
                }
                let outer = match kind {
                    JoinKind::Inner => false,
                    JoinKind::Left => true,
                    _ => return Err(Fault::at(span, format!("a {} join cannot be lateral: use CROSS JOIN or LEFT JOIN … ON TRUE", kind.word()))),
                };
                let list = remap(&list, &|i| i - outside);
                let item = Item::Lateral { list, columns, ordinality, scope };
                let (mut from, scope) = self.lateral(Some((left, left_scope)), item, outer);
                if let JoinConstraint::On(on) = constraint
                    && !is_true(on)
                {
                    if outer {
                        return Err(not_built(on.span(), "a condition on LEFT JOIN UNNEST other than TRUE is", "Put it into WHERE"));
                    }
                    let condition = self.translator.expr(on, &scope, Clause::On)?;
                    let rest = from.push(conjuncts(condition));
                    if let Some(predicate) = conjunction(rest) {
                        let rel = self.decide(from)?;
                        from = From::Leaf(Rel::filter(rel, predicate));
                    }
                }
                return Ok((from, scope));
            }
        };
        let both = left_scope.clone().then(scope);
        let mut scope = both.clone();
        let on = match constraint {
            JoinConstraint::On(on) if is_true(on) => Vec::new(),
            JoinConstraint::On(on) => conjuncts(self.translator.expr(on, &both, Clause::On)?),
            JoinConstraint::None => Vec::new(),
            JoinConstraint::Natural => {
                return Err(not_built(span, "NATURAL JOIN is", "Name the columns: ON a.id = b.id"));
            }
            JoinConstraint::Using(names) => {
                if kind != JoinKind::Inner && kind != JoinKind::Left {
                    return Err(not_built(span, "USING with a right or full join is", "Write ON a.id = b.id and COALESCE(a.id, b.id)"));
                }
                let width = left_scope.columns.len();
                let mut on = Vec::new();
                for name in names {
                    let Some(ident) = name.0.last().and_then(|part| part.as_ident()) else {
                        return Err(Fault::at(name.span(), "expected a column name"));
                    };
                    let (left_index, _) = left_scope.find(std::slice::from_ref(ident))?;
                    let right_scope = Scope { columns: both.columns[width..].to_vec(), outer: Vec::new() };
                    let (right_index, _) = right_scope.find(std::slice::from_ref(ident))?;
                    scope.columns[width + right_index].hidden = true;
                    let [a, b] = [left_index, width + right_index].map(|i| Ident::with_span(ident.span, format!("${i}")));
                    let equal = Ast::BinaryOp {
                        left: Ast::Identifier(a).into(),
                        op: datafusion::sql::sqlparser::ast::BinaryOperator::Eq,
                        right: Ast::Identifier(b).into(),
                    };
                    on.push(self.translator.expr(&equal, &both, Clause::On)?);
                }
                on
            }
        };
        Ok((From::Join { left: left.into(), right: From::Leaf(rel).into(), kind, on, span }, scope))
    }

    fn item(&self, factor: &TableFactor, ctes: &Ctes, left: Option<&Scope>) -> Planned<Item> {
        let span = factor.span();
        match factor {
            TableFactor::Table { name, alias, args: None, version, sample, with_ordinality, .. } => {
                if version.is_some() {
                    let hint = "Temporal and lookup joins have an issue of their own";
                    return Err(not_built(span, "FOR SYSTEM_TIME AS OF is", hint));
                }
                if sample.is_some() || *with_ordinality {
                    return Err(not_built(span, "TABLESAMPLE is", "Filter with WHERE RAND() < … instead"));
                }
                let table = table_name(name)?;
                let rel = self.relation(&table, name.span(), ctes)?;
                named(rel, alias.as_ref(), Some(&table))
            }
            TableFactor::Derived { subquery, alias, lateral, .. } => {
                if *lateral {
                    return Err(not_built(span, "LATERAL (SELECT …) is", "LATERAL TABLE(f(x)) and CROSS JOIN UNNEST(…) are"));
                }
                named(self.query(subquery, ctes)?, alias.as_ref(), None)
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let (from, scope) = self.from(std::slice::from_ref(table_with_joins), ctes)?;
                let rel = self.decide(from)?;
                match alias {
                    Some(_) => named(rel, alias.as_ref(), None),
                    None => Ok(Item::Rel(rel, scope)),
                }
            }
            // TABLE(f(…)): a window function, or a plugin's table function.
            TableFactor::TableFunction { expr, alias } => match expr {
                Ast::Function(function) => self.table_function(function, alias.as_ref(), ctes, left),
                other => Err(Fault::at(other.span(), "expected TUMBLE, HOP, CUMULATE or a table function inside TABLE(…)")),
            },
            // Only some of sqlparser's dialects know UNNEST as a word of its own.
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } if name.to_string().eq_ignore_ascii_case("UNNEST") => {
                let [FunctionArg::Unnamed(FunctionArgExpr::Expr(list))] = args.args.as_slice() else {
                    return Err(not_built(span, "UNNEST of several arrays is", "Unnest one, or build an ARRAY of ROWs first"));
                };
                self.unnest(list, alias.as_ref(), *with_ordinality, left)
            }
            TableFactor::Table { name, alias, args: Some(args), .. } => {
                let function = call(name, &args.args);
                self.table_function(&function, alias.as_ref(), ctes, left)
            }
            TableFactor::Function { name, args, alias, .. } => {
                // LATERAL TABLE(f(x)) is read as a function named TABLE.
                if name.to_string().eq_ignore_ascii_case("TABLE")
                    && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Ast::Function(inner)))] = args.as_slice()
                {
                    return self.table_function(inner, alias.as_ref(), ctes, left);
                }
                self.table_function(&call(name, args), alias.as_ref(), ctes, left)
            }
            TableFactor::UNNEST { alias, array_exprs, with_offset, with_ordinality, .. } => {
                let [list] = array_exprs.as_slice() else {
                    return Err(not_built(span, "UNNEST of several arrays is", "Unnest one, or build an ARRAY of ROWs first"));
                };
                if *with_offset {
                    return Err(Fault::at(span, "WITH OFFSET is not Flink SQL: use WITH ORDINALITY"));
                }
                self.unnest(list, alias.as_ref(), *with_ordinality, left)
            }
            TableFactor::MatchRecognize { .. } => Err(not_built(span, "MATCH_RECOGNIZE is", "Interval joins can follow one event by another")),
            other => Err(Fault::at(span, format!("`{other}` is not possible in FROM"))),
        }
    }

    /// A table, view or WITH query by name.
    pub(crate) fn relation(&self, name: &str, span: Span, ctes: &Ctes) -> Planned<Arc<Rel>> {
        if let Some(rel) = ctes.get(name) {
            return Ok(Arc::clone(rel));
        }
        match self.catalog.relation(name) {
            Some(Relation::Table(table)) => Ok(table.scan()),
            Some(Relation::View { query, columns }) => {
                if self.open_views.borrow().iter().any(|open| open == name) {
                    return Err(Fault::at(span, format!("view `{name}` reads itself")));
                }
                self.open_views.borrow_mut().push(name.to_owned());
                let rel = self.query(&query, &Ctes::new()).and_then(|rel| rename_columns(&rel, &columns, span));
                self.open_views.borrow_mut().pop();
                rel
            }
            None => {
                if let Some((table, what)) = name.rsplit_once('$')
                    && (what == "late" || what == "errors")
                {
                    let hint = if what == "errors" {
                        "`pelton dlq ls` lists the records that could not be read, and 'pelton.dlq' writes them to a topic or file"
                    } else {
                        "Late rows are counted and told at the end of a run"
                    };
                    return Err(not_built(span, &format!("reading `{table}${what}` as a table is"), hint));
                }
                let known = self.catalog.names();
                let hint = nearest(name, known.iter().map(String::as_str).chain(ctes.keys().map(String::as_str)));
                Err(Fault::at(span, format!("table `{name}` not found{hint}")))
            }
        }
    }

    fn table_function(&self, function: &Function, alias: Option<&TableAlias>, ctes: &Ctes, left: Option<&Scope>) -> Planned<Item> {
        let name = function.name.to_string();
        if super::windows::is_window_function(&name) {
            return named(self.window_function(function, ctes)?, alias, None);
        }
        let span = function.name.span();
        if !self.translator.functions.is_table_function(&name) {
            let known = self.translator.functions.table_function_names();
            let names = ["TUMBLE", "HOP", "CUMULATE"].into_iter().chain(known.iter().map(String::as_str));
            return Err(Fault::at(span, format!("table function `{name}` not found{}", nearest(&name, names))));
        }
        self.unnest(&Ast::Function(function.clone()), alias, false, left)
    }

    /// The elements of an array or map (or the rows of a table function) as columns.
    fn unnest(&self, list: &Ast, alias: Option<&TableAlias>, ordinality: bool, left: Option<&Scope>) -> Planned<Item> {
        let empty = Scope::default();
        let scope = left.unwrap_or(&empty);
        let expr = self.translator.expr(list, scope, Clause::Argument)?;
        let field = self.translator.field(&expr, &scope.rel_columns(), "", list)?;
        let mut fields = match field.data_type() {
            DataType::List(item) => match item.data_type() {
                DataType::Struct(fields) => fields.iter().map(|f| f.as_ref().clone().with_nullable(true)).collect(),
                other => vec![Field::new(unnamed(0), other.clone(), true)],
            },
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(entry) if entry.len() == 2 => {
                    let [key, value] = [entry[0].data_type(), entry[1].data_type()];
                    vec![Field::new("KEY", key.clone(), true), Field::new("VALUE", value.clone(), true)]
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        if fields.is_empty() {
            let found = self.translator.functions.type_name(field.data_type());
            return Err(Fault::at(list.span(), format!("UNNEST takes an ARRAY or a MAP, not {found}")));
        }
        if ordinality {
            fields.push(Field::new("ORDINALITY", DataType::Int32, false));
        }
        if let Some(alias) = alias.filter(|alias| !alias.columns.is_empty()) {
            if alias.columns.len() != fields.len() {
                let message = format!("{} column names are given for {} columns", alias.columns.len(), fields.len());
                return Err(Fault::at(alias.name.span, message));
            }
            fields = fields.into_iter().zip(&alias.columns).map(|(field, alias)| field.with_name(&alias.name.value)).collect();
        }
        let columns: Vec<RelColumn> = fields.into_iter().map(|field| RelColumn::new(Arc::new(field), Role::Plain)).collect();
        let scope = Scope::of(&columns, alias.map(|alias| alias.name.value.as_str()));
        Ok(Item::Lateral { list: expr, columns, ordinality, scope })
    }

    /// Decides the joins of a FROM clause.
    pub(crate) fn decide(&self, from: From) -> Planned<Arc<Rel>> {
        match from {
            From::Leaf(rel) => Ok(rel),
            From::Join { left, right, kind, on, span } => {
                let (left, right) = (self.decide(*left)?, self.decide(*right)?);
                self.decide_join(left, right, kind, on, span)
            }
            From::Unnest { left, list, columns, outer, ordinality } => {
                let input = self.decide(*left)?;
                let columns = input.columns.iter().cloned().chain(columns).collect();
                Ok(Arc::new(Rel { op: Op::Unnest { input, list, outer, ordinality }, columns }))
            }
        }
    }
}

/// The relation of a query without FROM.
fn one_row() -> Arc<Rel> {
    Arc::new(Rel { op: Op::Values { rows: vec![Vec::new()] }, columns: Vec::new() })
}

fn named(rel: Arc<Rel>, alias: Option<&TableAlias>, name: Option<&str>) -> Planned<Item> {
    let Some(alias) = alias else {
        let scope = Scope::of(&rel.columns, name);
        return Ok(Item::Rel(rel, scope));
    };
    let columns: Vec<Ident> = alias.columns.iter().map(|column| column.name.clone()).collect();
    let rel = rename_columns(&rel, &columns, alias.name.span)?;
    let scope = Scope::of(&rel.columns, Some(&alias.name.value));
    Ok(Item::Rel(rel, scope))
}

fn call(name: &datafusion::sql::sqlparser::ast::ObjectName, args: &[FunctionArg]) -> Function {
    Function {
        name: name.clone(),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(datafusion::sql::sqlparser::ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: args.to_vec(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    }
}

fn is_true(on: &Ast) -> bool {
    matches!(on, Ast::Value(value) if value.value == datafusion::sql::sqlparser::ast::Value::Boolean(true))
}

fn join_kind(operator: &JoinOperator, span: Span) -> Planned<(JoinKind, &JoinConstraint)> {
    Ok(match operator {
        JoinOperator::Join(on) | JoinOperator::Inner(on) | JoinOperator::CrossJoin(on) => (JoinKind::Inner, on),
        JoinOperator::Left(on) | JoinOperator::LeftOuter(on) => (JoinKind::Left, on),
        JoinOperator::Right(on) | JoinOperator::RightOuter(on) => (JoinKind::Right, on),
        JoinOperator::FullOuter(on) => (JoinKind::Full, on),
        JoinOperator::AsOf { .. } => {
            return Err(not_built(span, "ASOF JOIN is", "An interval join with both bounds is; it gives every partner, not the nearest"));
        }
        _ => return Err(Fault::at(span, "this kind of join is not Flink SQL: INNER, LEFT, RIGHT, FULL and CROSS are")),
    })
}
