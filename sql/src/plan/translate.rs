//! Expressions: from SQL syntax to DataFusion's expressions over positional columns, with Flink's types.
//!
//! Promises: every name is resolved and every function known before DataFusion sees the syntax; an error points at the
//! smallest expression that is wrong, speaks of columns by their names, and never of DataFusion. Leaves to others:
//! what functions and operators mean (`sql/expr`).

use std::ops::ControlFlow;

use arrow::datatypes::FieldRef;
use datafusion::{
    common::{DFSchema, DataFusionError},
    logical_expr::{Expr, ExprSchemable},
    sql::sqlparser::ast::{Expr as Ast, Function, ObjectName, Query, Spanned, Visit, Visitor},
};

use super::{
    fault::{Fault, Planned, nearest, not_built},
    functions::Functions,
    rel::{RelColumn, positional},
    scope::{Scope, sub_query_refused},
};

/// Where an expression stands, as messages name it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Clause {
    Where,
    On,
    GroupBy,
    /// SELECT list or HAVING: aggregates are allowed.
    Select,
    Argument,
    Values,
    ComputedColumn,
}

impl Clause {
    fn word(self) -> &'static str {
        match self {
            Self::Where => "WHERE",
            Self::On => "ON",
            Self::GroupBy => "GROUP BY",
            Self::Select => "SELECT",
            Self::Argument => "an argument",
            Self::Values => "VALUES",
            Self::ComputedColumn => "a computed column",
        }
    }
}

/// Translates expressions with a script's functions.
pub(crate) struct Translator<'a> {
    pub(crate) functions: &'a Functions,
}

impl Translator<'_> {
    /// `ast` over the columns of `scope`. Its type is final.
    pub(crate) fn expr(&self, ast: &Ast, scope: &Scope, clause: Clause) -> Planned<Expr> {
        self.check(ast, clause)?;
        let mut resolved = ast.clone();
        scope.resolve(&mut resolved)?;
        let columns = scope.rel_columns();
        let schema = positional(&columns);
        self.convert(&resolved, &schema).map_err(|error| self.locate(&resolved, error, &schema, &columns))
    }

    /// The field that `expr` makes over `columns`, under `name`.
    pub(crate) fn field(&self, expr: &Expr, columns: &[RelColumn], name: &str, at: &Ast) -> Planned<FieldRef> {
        field_of(expr, columns, name).map_err(|error| Fault::at(at.span(), message(&error, columns)))
    }

    /// Whether an aggregate function is called in `ast`.
    pub(crate) fn has_aggregate(&self, ast: &Ast) -> bool {
        let test = |function: &Function| self.is_aggregate(&function.name) && function.over.is_none();
        let mut finder = Finder { test, queries: 0 };
        Visit::visit(ast, &mut finder).is_break()
    }

    fn is_aggregate(&self, name: &ObjectName) -> bool {
        self.functions.is_aggregate(&plain(name))
    }

    fn check(&self, ast: &Ast, clause: Clause) -> Planned<()> {
        match Visit::visit(ast, &mut Checker { translator: self, clause, depth: 0 }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(fault) => Err(fault),
        }
    }

    fn convert(&self, ast: &Ast, schema: &DFSchema) -> Result<Expr, DataFusionError> {
        let expr = self.functions.translate(ast, schema)?;
        // Typing checks the calls: a wrong argument is an error of this expression, not of one around it.
        expr.to_field(schema)?;
        Ok(expr)
    }

    /// Finds the innermost expression that fails by itself.
    fn locate(&self, ast: &Ast, error: DataFusionError, schema: &DFSchema, columns: &[RelColumn]) -> Fault {
        let mut parts = Parts(Vec::new());
        let _ = Visit::visit(ast, &mut parts);
        for part in parts.0 {
            if let Err(inner) = self.convert(&part, schema) {
                return Fault::at(part.span(), message(&inner, columns)).or_at(ast.span());
            }
        }
        Fault::at(ast.span(), message(&error, columns))
    }
}

/// The field that `expr` makes over `columns`, under `name`.
pub(crate) fn field_of(expr: &Expr, columns: &[RelColumn], name: &str) -> Result<FieldRef, DataFusionError> {
    let (_, field) = expr.to_field(&positional(columns))?;
    Ok(field.as_ref().clone().with_name(name).into())
}

/// DataFusion's error as a message of ours: no prefixes, no candidate lists, columns by name.
pub(crate) fn message(error: &DataFusionError, columns: &[RelColumn]) -> String {
    let text = match error.find_root() {
        DataFusionError::Plan(text) | DataFusionError::NotImplemented(text) | DataFusionError::Execution(text) => text.clone(),
        other => other.strip_backtrace(),
    };
    let text = text.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or_default();
    let text = text.split(" No function matches").next().unwrap_or_default();
    let text = text.split("\n\tCandidate functions").next().unwrap_or_default();
    let mut rest = text
        .trim_start_matches("Error during planning: ")
        .trim_start_matches("This feature is not implemented: ")
        .trim_start_matches("Execution error: ")
        .trim();
    let mut named = String::new();
    while let Some(position) = rest.find('$') {
        let digits = rest[position + 1..].bytes().take_while(u8::is_ascii_digit).count();
        named.push_str(&rest[..position]);
        let end = position + 1 + digits;
        match rest[position + 1..end].parse::<usize>().ok().and_then(|index| columns.get(index)) {
            Some(column) => named.push_str(column.name()),
            None => named.push_str(&rest[position..end]),
        }
        rest = &rest[end..];
    }
    named + rest
}

fn plain(name: &ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.clone()).unwrap_or_default()
}

struct Checker<'a, 'b> {
    translator: &'a Translator<'b>,
    clause: Clause,
    /// How many aggregates are around the current expression.
    depth: usize,
}

impl Checker<'_, '_> {
    fn function(&mut self, function: &Function) -> Planned<()> {
        let name = plain(&function.name);
        let span = function.name.span();
        if function.over.is_some() {
            let hint = "Over windows of rows, a HOP or TUMBLE window with GROUP BY often says the same";
            return Err(not_built(span, &format!("{name}(…) OVER is"), hint));
        }
        if self.translator.functions.is_aggregate(&name) {
            if self.clause != Clause::Select {
                let hint = if self.clause == Clause::Where { ": conditions on groups stand in HAVING" } else { "" };
                return Err(Fault::at(span, format!("aggregate {name} is not allowed in {}{hint}", self.clause.word())));
            }
            if self.depth > 0 {
                return Err(Fault::at(span, format!("aggregate {name} stands inside another aggregate: aggregate in a sub-select first")));
            }
            return Ok(());
        }
        if self.translator.functions.is_table_function(&name) && self.clause != Clause::Argument {
            return Err(Fault::at(span, format!("`{name}` makes rows: write FROM t, LATERAL TABLE({name}(…))")));
        }
        if !self.translator.functions.knows(&name) {
            let known = self.translator.functions.names();
            let hint = nearest(&name, known.iter().map(String::as_str));
            return Err(Fault::at(span, format!("function `{name}` not found{hint}")));
        }
        Ok(())
    }
}

impl Visitor for Checker<'_, '_> {
    type Break = Fault;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Fault> {
        ControlFlow::Break(sub_query_refused(query.span()))
    }

    fn pre_visit_expr(&mut self, expr: &Ast) -> ControlFlow<Fault> {
        if let Ast::Function(function) = expr {
            if let Err(fault) = self.function(function) {
                return ControlFlow::Break(fault.or_at(expr.span()));
            }
            self.depth += usize::from(self.translator.functions.is_aggregate(&plain(&function.name)));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Ast) -> ControlFlow<Fault> {
        if let Ast::Function(function) = expr {
            self.depth -= usize::from(self.translator.functions.is_aggregate(&plain(&function.name)));
        }
        ControlFlow::Continue(())
    }
}

struct Finder<F> {
    test: F,
    /// How many queries are around: their aggregates are theirs.
    queries: usize,
}

impl<F: Fn(&Function) -> bool> Visitor for Finder<F> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Ast) -> ControlFlow<()> {
        match expr {
            Ast::Function(function) if self.queries == 0 && (self.test)(function) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Sub-expressions, innermost first.
struct Parts(Vec<Ast>);

impl Visitor for Parts {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &Ast) -> ControlFlow<()> {
        self.0.push(expr.clone());
        ControlFlow::Continue(())
    }
}
