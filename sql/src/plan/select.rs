//! SELECT: from the clauses to a relation, in SQL's order: FROM, WHERE, GROUP BY, HAVING, SELECT.

use std::{collections::HashSet, sync::Arc};

use datafusion::{
    logical_expr::Expr,
    sql::sqlparser::{
        ast::{
            BinaryOperator, Distinct, Expr as Ast, GroupByExpr, Query, Select, SelectFlavor, SelectItem, SelectItemQualifiedWildcardKind,
            SetExpr, Spanned, UnaryOperator, WildcardAdditionalOptions,
        },
        tokenizer::Span,
    },
};

use super::{
    fault::{Fault, Planned, nearest, not_built},
    from::From,
    query::{Ctes, Planner, unnamed},
    rel::{JoinKind, Rel, at, columns_of, conjunction, conjuncts, remap},
    scope::{Scope, sub_query_refused, table_name},
    translate::Clause,
};

/// One column of a SELECT list.
pub(crate) struct OutputColumn {
    pub(crate) ast: Ast,
    pub(crate) name: String,
    /// Set for the columns that `*` stands for.
    pub(crate) index: Option<usize>,
}

impl Planner<'_> {
    /// Plans a SELECT.
    pub(crate) fn select(&self, select: &Select, ctes: &Ctes) -> Planned<Arc<Rel>> {
        refuse_clauses(select)?;
        let (mut from, scope) = self.from(&select.from, ctes)?;
        let mut partners = Vec::new();
        let mut conditions = Vec::new();
        if let Some(selection) = &select.selection {
            for part in split_and(selection) {
                match partner_query(part) {
                    Some(partner) => partners.push(partner),
                    None => conditions.extend(conjuncts(self.translator.expr(part, &scope, Clause::Where)?)),
                }
            }
        }
        let rest = from.push(conditions);
        let mut rel = self.decide(from)?;
        if let Some(predicate) = conjunction(rest) {
            rel = Rel::filter(rel, predicate);
        }
        for partner in partners {
            rel = self.with_partner(rel, &scope, &partner, ctes)?;
        }
        // Joins and filters may have changed what a column means in time.
        let scope = refreshed(scope, &rel);
        let columns = output_columns(select, &scope)?;
        let grouped = match &select.group_by {
            GroupByExpr::All(_) => return Err(not_built(select.group_by.span(), "GROUP BY ALL is", "Name the columns")),
            GroupByExpr::Expressions(items, modifiers) => {
                if !modifiers.is_empty() {
                    return Err(Fault::at(select.group_by.span(), "WITH ROLLUP is not Flink SQL: use ROLLUP (…)"));
                }
                !items.is_empty()
            }
        };
        let aggregated = grouped
            || select.having.is_some()
            || columns.iter().any(|column| column.index.is_none() && self.translator.has_aggregate(&column.ast));
        let rel = if aggregated {
            self.aggregate(rel, &scope, select, &columns)?
        } else {
            let exprs = columns
                .iter()
                .map(|column| {
                    let expr = match column.index {
                        Some(index) => at(index),
                        None => self.translator.expr(&column.ast, &scope, Clause::Select)?,
                    };
                    let field = self.translator.field(&expr, &rel.columns, &column.name, &column.ast)?;
                    Ok((expr, field))
                })
                .collect::<Planned<Vec<_>>>()?;
            Rel::project(rel, exprs)
        };
        match &select.distinct {
            None | Some(Distinct::All) => Ok(rel),
            Some(Distinct::Distinct) => self.distinct(rel, select.select_token.0.span),
            Some(Distinct::On(_)) => Err(Fault::at(select.select_token.0.span, "DISTINCT ON is not Flink SQL")),
        }
    }

    /// Keeps the rows that have (or do not have) a partner in the sub-query of EXISTS or IN.
    fn with_partner(&self, rel: Arc<Rel>, scope: &Scope, partner: &Partner<'_>, ctes: &Ctes) -> Planned<Arc<Rel>> {
        let SetExpr::Select(select) = partner.query.body.as_ref() else { return Err(sub_query_refused(partner.span)) };
        let plain = matches!(&select.group_by, GroupByExpr::Expressions(items, _) if items.is_empty()) && select.having.is_none();
        let simple = plain && partner.query.with.is_none() && partner.query.order_by.is_none() && partner.query.limit_clause.is_none();
        if !simple {
            return Err(not_built(partner.span, "GROUP BY, WITH, ORDER BY or LIMIT inside EXISTS or IN is", "Move it into a sub-select of the inner FROM"));
        }
        refuse_clauses(select)?;
        let (mut from, inner) = self.from(&select.from, ctes)?;
        let width = inner.columns.len();
        let both = Scope { columns: inner.columns.clone(), outer: scope.columns.clone() };
        let mut conditions = Vec::new();
        if let Some(selection) = &select.selection {
            conditions.extend(conjuncts(self.translator.expr(selection, &both, Clause::Where)?));
        }
        if let Some(ast) = partner.equal_to {
            let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] = select.projection.as_slice() else {
                return Err(Fault::at(partner.span, "IN (SELECT …) compares with exactly one column"));
            };
            // Names of the left side of IN mean the outer query only.
            let outside = Scope { columns: scope.columns.clone(), outer: Vec::new() };
            let mut left = ast.clone();
            outside.resolve(&mut left)?;
            shift_resolved(&mut left, width);
            let equal = Ast::BinaryOp { left: left.into(), op: BinaryOperator::Eq, right: item.clone().into() };
            conditions.extend(conjuncts(self.translator.expr(&equal, &both, Clause::Where)?));
        }
        let (own, correlated): (Vec<_>, Vec<_>) = conditions.into_iter().partition(|c| columns_of(c).iter().all(|&i| i < width));
        let rest = from.push(own);
        let mut right = self.decide(from)?;
        if let Some(predicate) = conjunction(rest) {
            right = Rel::filter(right, predicate);
        }
        let left_width = rel.columns.len();
        let on = correlated.iter().map(|c| remap(c, &|i| if i < width { left_width + i } else { i - width })).collect();
        let kind = if partner.negated { JoinKind::Anti } else { JoinKind::Semi };
        let mut join = From::Join { left: From::Leaf(rel).into(), right: From::Leaf(right).into(), kind, on, span: partner.span };
        join.push(Vec::new());
        self.decide(join)
    }
}

/// A sub-query of WHERE in which a row must have (or lack) a partner.
struct Partner<'q> {
    query: &'q Query,
    /// Left side of IN.
    equal_to: Option<&'q Ast>,
    negated: bool,
    span: Span,
}

fn partner_query(ast: &Ast) -> Option<Partner<'_>> {
    match ast {
        Ast::Exists { subquery, negated } => Some(Partner { query: subquery, equal_to: None, negated: *negated, span: subquery.span() }),
        // NOT IN is another thing than an anti join as soon as there are nulls: it stays, and is refused.
        Ast::InSubquery { expr, subquery, negated: false } => {
            Some(Partner { query: subquery, equal_to: Some(expr), negated: false, span: subquery.span() })
        }
        Ast::UnaryOp { op: UnaryOperator::Not, expr } => match partner_query(expr) {
            Some(partner) if partner.equal_to.is_none() => Some(Partner { negated: !partner.negated, ..partner }),
            _ => None,
        },
        Ast::Nested(inner) => partner_query(inner),
        _ => None,
    }
}

fn split_and(ast: &Ast) -> Vec<&Ast> {
    match ast {
        Ast::BinaryOp { left, op: BinaryOperator::And, right } => split_and(left).into_iter().chain(split_and(right)).collect(),
        Ast::Nested(inner) => split_and(inner),
        other => vec![other],
    }
}

/// Moves resolved names of `ast` by `by` columns.
fn shift_resolved(ast: &mut Ast, by: usize) {
    use std::ops::ControlFlow;

    use datafusion::sql::sqlparser::ast::visit_expressions_mut;
    let _ = visit_expressions_mut(ast, |expr| {
        if let Ast::Identifier(ident) = expr
            && super::scope::is_resolved(ident)
            && let Ok(index) = ident.value[1..].parse::<usize>()
        {
            ident.value = format!("${}", index + by);
        }
        ControlFlow::<()>::Continue(())
    });
}

fn refreshed(mut scope: Scope, rel: &Rel) -> Scope {
    for (named, column) in scope.columns.iter_mut().zip(&rel.columns) {
        named.column = column.clone();
    }
    scope
}

/// The SELECT list with `*` expanded and every column named as Flink names it.
fn output_columns(select: &Select, scope: &Scope) -> Planned<Vec<OutputColumn>> {
    let mut columns = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::UnnamedExpr(ast) => {
                let name = derived_name(ast).unwrap_or_else(|| unnamed(columns.len()));
                columns.push(OutputColumn { ast: ast.clone(), name, index: None });
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                columns.push(OutputColumn { ast: expr.clone(), name: alias.value.clone(), index: None });
            }
            SelectItem::ExprWithAliases { expr, .. } => {
                return Err(Fault::at(expr.span(), "a column has one alias"));
            }
            SelectItem::Wildcard(options) => {
                refuse_wildcard_options(options, item.span())?;
                if scope.columns.is_empty() {
                    return Err(Fault::at(item.span(), "`*` without FROM stands for nothing"));
                }
                expand(scope, |_| true, &mut columns);
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                refuse_wildcard_options(options, item.span())?;
                let table = table_name(name)?;
                let owned = |qualifier: &Option<String>| qualifier.as_deref() == Some(table.as_str());
                if !scope.columns.iter().any(|column| owned(&column.qualifier)) {
                    let known = scope.columns.iter().filter_map(|column| column.qualifier.as_deref());
                    return Err(Fault::at(name.span(), format!("`{table}.*`: no table `{table}` in FROM{}", nearest(&table, known))));
                }
                expand(scope, |index| owned(&scope.columns[index].qualifier), &mut columns);
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(expr), _) => {
                return Err(not_built(expr.span(), "`.*` behind an expression is", "Name the fields"));
            }
        }
    }
    let mut taken: HashSet<String> = HashSet::new();
    for column in &mut columns {
        let mut name = column.name.clone();
        let mut counter = 0;
        while !taken.insert(name.clone()) {
            name = format!("{}{counter}", column.name);
            counter += 1;
        }
        column.name = name;
    }
    Ok(columns)
}

fn expand(scope: &Scope, wanted: impl Fn(usize) -> bool, columns: &mut Vec<OutputColumn>) {
    for (index, column) in scope.columns.iter().enumerate() {
        if !column.hidden && wanted(index) {
            let ast = Ast::Identifier(datafusion::sql::sqlparser::ast::Ident::new(format!("${index}")));
            columns.push(OutputColumn { ast, name: column.name.clone(), index: Some(index) });
        }
    }
}

/// The name that a column reference or field access passes on.
fn derived_name(ast: &Ast) -> Option<String> {
    match ast {
        Ast::Identifier(ident) => Some(ident.value.clone()),
        Ast::CompoundIdentifier(parts) => parts.last().map(|ident| ident.value.clone()),
        Ast::Nested(inner) => derived_name(inner),
        _ => None,
    }
}

fn refuse_wildcard_options(options: &WildcardAdditionalOptions, span: Span) -> Planned<()> {
    let plain = WildcardAdditionalOptions { wildcard_token: options.wildcard_token.clone(), ..Default::default() };
    if *options == plain {
        return Ok(());
    }
    Err(Fault::at(span, "EXCLUDE, EXCEPT, REPLACE and RENAME behind `*` are not Flink SQL: name the columns"))
}

fn refuse_clauses(select: &Select) -> Planned<()> {
    let span = select.select_token.0.span;
    if let Some(qualify) = &select.qualify {
        return Err(not_built(qualify.span(), "QUALIFY is", "Over windows have an issue of their own"));
    }
    if let Some(window) = select.named_window.first() {
        return Err(not_built(window.span(), "WINDOW … AS is", "Over windows have an issue of their own"));
    }
    let foreign = [
        (select.top.is_some(), "TOP"),
        (select.into.is_some(), "SELECT INTO"),
        (!select.lateral_views.is_empty(), "LATERAL VIEW"),
        (select.prewhere.is_some(), "PREWHERE"),
        (!select.connect_by.is_empty(), "CONNECT BY"),
        (!select.cluster_by.is_empty(), "CLUSTER BY"),
        (!select.distribute_by.is_empty(), "DISTRIBUTE BY"),
        (!select.sort_by.is_empty(), "SORT BY"),
        (select.exclude.is_some(), "EXCLUDE"),
        (select.value_table_mode.is_some(), "SELECT AS"),
        (select.flavor != SelectFlavor::Standard, "FROM before SELECT"),
    ];
    match foreign.iter().find(|(there, _)| *there) {
        Some((_, what)) => Err(Fault::at(span, format!("{what} is not Flink SQL"))),
        None => Ok(()),
    }
}

/// Whether two expressions compute the same.
pub(crate) fn position_of(exprs: &[Expr], expr: &Expr) -> Option<usize> {
    exprs.iter().position(|known| known == expr)
}
