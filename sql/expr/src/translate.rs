//! From sqlparser's tree to expressions with final types.
//!
//! Works bottom up: each node gets Flink's type and coercions where it is made, constants are evaluated at once. Names
//! are columns of the given schema; field access is `['field']`, as planners write it, or a dotted path.

use datafusion::{
    arrow::datatypes::DataType,
    common::{Column, DFSchema, DataFusionError, Result, ScalarValue, not_impl_err, plan_err},
    logical_expr::{Between, Case, Expr, Operator, expr::InList},
    sql::sqlparser::ast::{
        AccessExpr, Array, BinaryOperator, CaseWhen, CastKind, CeilFloorKind, DateTimeField, Expr as Ast, Function, FunctionArg, FunctionArgExpr,
        FunctionArguments, Ident, ObjectName, Subscript, TrimWhereField, UnaryOperator, Value,
    },
};

use crate::{
    cast::{Mode, cast_to},
    fold::fold,
    func::Typed,
    functions, literal, operators,
    session::Session,
    types::{Arithmetic, parse, type_name},
};

impl Session {
    /// `ast` over the columns of `schema`, as an expression whose type is final. Aggregates become
    /// [`Expr::AggregateFunction`]s, perhaps inside an expression that gives them Flink's type.
    ///
    /// # Errors
    /// What is wrong and what is expected, as a plan error; to find where, translate smaller parts.
    pub fn translate(&self, ast: &Ast, schema: &DFSchema) -> Result<Expr> {
        Ok(Translator { session: self, schema, guarded: 0 }.expr(ast)?.expr)
    }

    /// `expr` of type `from` cast to `to`, as an INSERT casts to its table's columns.
    ///
    /// # Errors
    /// Types between which there is no cast.
    pub fn cast(&self, expr: Expr, from: &DataType, to: &DataType) -> Result<Expr> {
        Ok(cast_to(Typed::new(expr, from.clone()), &to.clone().into(), self.mode())?.expr)
    }

    pub(crate) fn mode(&self) -> Mode {
        Mode { zone: self.zone, lenient: false }
    }
}

pub(crate) struct Translator<'a> {
    pub(crate) session: &'a Session,
    schema: &'a DFSchema,
    /// How many conditions are around: what fails there fails only for the rows that reach it.
    guarded: usize,
}

impl Translator<'_> {
    pub(crate) fn mode(&self) -> Mode {
        self.session.mode()
    }

    /// An expression, constants evaluated.
    pub(crate) fn expr(&mut self, ast: &Ast) -> Result<Typed> {
        let typed = self.node(ast)?;
        if matches!(typed.expr, Expr::Literal(..) | Expr::Column(_)) {
            return Ok(typed);
        }
        match fold(typed.expr.clone()) {
            Ok(expr) => Ok(Typed::new(expr, typed.data_type)),
            Err(_) if self.guarded > 0 => Ok(typed),
            Err(error) => Err(error),
        }
    }

    /// An expression that is only reached under a condition.
    fn guarded(&mut self, ast: &Ast) -> Result<Typed> {
        self.guarded += 1;
        let typed = self.expr(ast);
        self.guarded -= 1;
        typed
    }

    fn boolean(&mut self, ast: &Ast, what: &str) -> Result<Typed> {
        let typed = self.expr(ast)?;
        as_boolean(typed, what)
    }

    fn node(&mut self, ast: &Ast) -> Result<Typed> {
        match ast {
            Ast::Identifier(ident) => self.column(&ident.value),
            Ast::CompoundIdentifier(path) => self.path(path),
            Ast::CompoundFieldAccess { root, access_chain } => {
                let mut value = self.expr(root)?;
                for access in access_chain {
                    value = self.access(value, access)?;
                }
                Ok(value)
            }
            Ast::Nested(inner) => self.node(inner),
            Ast::Value(value) => literal::value(&value.value, false),
            Ast::TypedString(typed) => match &typed.value.value {
                Value::SingleQuotedString(text) => literal::typed(&typed.data_type.to_string(), text),
                other => plan_err!("{} {other}: expected text in single quotes", typed.data_type),
            },
            Ast::Interval(interval) => literal::interval(interval),
            Ast::UnaryOp { op, expr } => self.unary(*op, expr),
            Ast::BinaryOp { left, op, right } => self.binary(left, op, right),
            Ast::IsNull(expr) => Ok(boolean(Expr::IsNull(self.boxed(expr)?))),
            Ast::IsNotNull(expr) => Ok(boolean(Expr::IsNotNull(self.boxed(expr)?))),
            Ast::IsTrue(expr) => Ok(boolean(Expr::IsTrue(Box::new(self.boolean(expr, "IS TRUE")?.expr)))),
            Ast::IsNotTrue(expr) => Ok(boolean(Expr::IsNotTrue(Box::new(self.boolean(expr, "IS NOT TRUE")?.expr)))),
            Ast::IsFalse(expr) => Ok(boolean(Expr::IsFalse(Box::new(self.boolean(expr, "IS FALSE")?.expr)))),
            Ast::IsNotFalse(expr) => Ok(boolean(Expr::IsNotFalse(Box::new(self.boolean(expr, "IS NOT FALSE")?.expr)))),
            Ast::IsUnknown(expr) => Ok(boolean(Expr::IsNull(Box::new(self.boolean(expr, "IS UNKNOWN")?.expr)))),
            Ast::IsNotUnknown(expr) => Ok(boolean(Expr::IsNotNull(Box::new(self.boolean(expr, "IS NOT UNKNOWN")?.expr)))),
            Ast::IsDistinctFrom(left, right) => self.comparison(left, Operator::IsDistinctFrom, right),
            Ast::IsNotDistinctFrom(left, right) => self.comparison(left, Operator::IsNotDistinctFrom, right),
            Ast::Between { expr, negated, low, high } => self.between(expr, *negated, low, high),
            Ast::InList { expr, list, negated } => self.in_list(expr, list, *negated),
            Ast::Like { negated, any: false, expr, pattern, escape_char } => {
                let escape = escape(escape_char.as_ref().map(|value| &value.value))?;
                let arguments = [self.expr(expr)?, self.expr(pattern)?];
                negate(functions::like(arguments, escape, self.mode())?, *negated)
            }
            Ast::SimilarTo { negated, expr, pattern, escape_char } => {
                let escape = escape(escape_char.as_ref().map(|value| &value.value))?;
                let arguments = [self.expr(expr)?, self.expr(pattern)?];
                negate(functions::similar(arguments, escape, self.mode())?, *negated)
            }
            Ast::Cast { kind, expr, data_type, .. } => self.cast(*kind == CastKind::Cast, expr, &data_type.to_string()),
            Ast::Case { operand, conditions, else_result, .. } => self.case(operand.as_deref(), conditions, else_result.as_deref()),
            Ast::Extract { field, expr, .. } => {
                let unit = Typed::literal(ScalarValue::Utf8(Some(unit_name(field))));
                let value = self.expr(expr)?;
                self.call("EXTRACT", vec![unit, value])
            }
            Ast::Ceil { expr, field } => self.rounded("CEIL", expr, field),
            Ast::Floor { expr, field } => self.rounded("FLOOR", expr, field),
            Ast::Position { expr, r#in } => self.call_of("POSITION", &[expr, r#in]),
            Ast::Substring { expr, substring_from, substring_for, .. } => {
                let Some(from) = substring_from else { return plan_err!("SUBSTRING takes a text and a position: SUBSTRING(s FROM 2 FOR 3)") };
                let arguments: Vec<&Ast> = [Some(expr), Some(from), substring_for.as_ref()].into_iter().flatten().map(AsRef::as_ref).collect();
                self.call_of("SUBSTRING", &arguments)
            }
            Ast::Trim { expr, trim_where, trim_what, trim_characters: None } => {
                let name = match trim_where {
                    Some(TrimWhereField::Leading) => "LTRIM",
                    Some(TrimWhereField::Trailing) => "RTRIM",
                    _ => "TRIM",
                };
                let arguments: Vec<&Ast> = [Some(expr), trim_what.as_ref()].into_iter().flatten().map(AsRef::as_ref).collect();
                self.call_of(name, &arguments)
            }
            Ast::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let arguments = [Some(expr), Some(overlay_what), Some(overlay_from), overlay_for.as_ref()];
                let arguments: Vec<&Ast> = arguments.into_iter().flatten().map(AsRef::as_ref).collect();
                self.call_of("OVERLAY", &arguments)
            }
            Ast::Array(Array { elem, .. }) => {
                let values = elem.iter().map(|item| self.expr(item)).collect::<Result<Vec<_>>>()?;
                self.call("ARRAY", values)
            }
            Ast::Tuple(items) => {
                let values = items.iter().map(|item| self.expr(item)).collect::<Result<Vec<_>>>()?;
                self.call("ROW", values)
            }
            Ast::Function(function) => self.function(function),
            Ast::Subquery(_) | Ast::Exists { .. } | Ast::InSubquery { .. } => not_impl_err!("a query inside an expression is not built"),
            Ast::AtTimeZone { .. } => plan_err!("AT TIME ZONE is not Flink SQL: use CONVERT_TZ, or CAST to TIMESTAMP_LTZ"),
            other => plan_err!("`{other}` is no expression of Flink's SQL"),
        }
    }

    fn boxed(&mut self, ast: &Ast) -> Result<Box<Expr>> {
        Ok(Box::new(self.expr(ast)?.expr))
    }

    fn column(&self, name: &str) -> Result<Typed> {
        let found = self.schema.qualified_field_with_unqualified_name(name);
        let (qualifier, field) = match found {
            Ok(found) => found,
            Err(_) => return plan_err!("column `{name}` not found"),
        };
        Ok(Typed::new(Expr::Column(Column::new(qualifier.cloned(), field.name())), field.data_type().clone()))
    }

    fn path(&mut self, path: &[Ident]) -> Result<Typed> {
        let [first, rest @ ..] = path else { return plan_err!("an empty name") };
        let mut rest = rest;
        let mut value = match (self.column(&first.value), rest.first()) {
            (Ok(value), _) => value,
            (Err(error), None) => return Err(error),
            (Err(error), Some(second)) => {
                let table = datafusion::common::TableReference::bare(first.value.as_str());
                let Ok(field) = self.schema.field_with_qualified_name(&table, &second.value) else { return Err(error) };
                let data_type = field.data_type().clone();
                rest = &rest[1..];
                Typed::new(Expr::Column(Column::new(Some(table), field.name())), data_type)
            }
        };
        for part in rest {
            value = functions::field(value, &part.value)?;
        }
        Ok(value)
    }

    fn access(&mut self, value: Typed, access: &AccessExpr) -> Result<Typed> {
        match access {
            AccessExpr::Dot(Ast::Identifier(field)) => functions::field(value, &field.value),
            AccessExpr::Subscript(Subscript::Index { index }) => {
                if matches!(value.data_type, DataType::Struct(_))
                    && let Ast::Value(literal) = index
                    && let Value::SingleQuotedString(field) = &literal.value
                {
                    return functions::field(value, field);
                }
                let index = self.expr(index)?;
                self.call("ITEM", vec![value, index])
            }
            AccessExpr::Subscript(other) => plan_err!("[{other}]: expected one position or key; ARRAY_SLICE takes parts of an array"),
            AccessExpr::Dot(other) => plan_err!(".{other}: expected the name of a field"),
        }
    }

    fn unary(&mut self, op: UnaryOperator, ast: &Ast) -> Result<Typed> {
        match op {
            UnaryOperator::Not => {
                let value = self.boolean(ast, "NOT")?;
                Ok(boolean(Expr::Not(Box::new(value.expr))))
            }
            UnaryOperator::Minus => {
                if let Ast::Value(value) = ast
                    && let Value::Number(..) = &value.value
                {
                    return literal::value(&value.value, true);
                }
                operators::negative(self.expr(ast)?)
            }
            UnaryOperator::Plus => self.expr(ast),
            other => plan_err!("`{other}` is no operator of Flink's SQL"),
        }
    }

    fn binary(&mut self, left: &Ast, op: &BinaryOperator, right: &Ast) -> Result<Typed> {
        let arithmetic = match op {
            BinaryOperator::Plus => Arithmetic::Add,
            BinaryOperator::Minus => Arithmetic::Subtract,
            BinaryOperator::Multiply => Arithmetic::Multiply,
            BinaryOperator::Divide => Arithmetic::Divide,
            BinaryOperator::Modulo => Arithmetic::Modulo,
            BinaryOperator::Eq => return self.comparison(left, Operator::Eq, right),
            BinaryOperator::NotEq => return self.comparison(left, Operator::NotEq, right),
            BinaryOperator::Lt => return self.comparison(left, Operator::Lt, right),
            BinaryOperator::LtEq => return self.comparison(left, Operator::LtEq, right),
            BinaryOperator::Gt => return self.comparison(left, Operator::Gt, right),
            BinaryOperator::GtEq => return self.comparison(left, Operator::GtEq, right),
            BinaryOperator::And | BinaryOperator::Or => {
                let (name, op) = if *op == BinaryOperator::And { ("AND", Operator::And) } else { ("OR", Operator::Or) };
                let left = self.boolean(left, name)?;
                let right = as_boolean(self.guarded(right)?, name)?;
                return Ok(operators::binary(left, op, right, DataType::Boolean));
            }
            BinaryOperator::StringConcat => return self.call_of("||", &[left, right]),
            other => return plan_err!("`{other}` is no operator of Flink's SQL"),
        };
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        operators::arithmetic(arithmetic, left, right, self.mode())
    }

    fn comparison(&mut self, left: &Ast, op: Operator, right: &Ast) -> Result<Typed> {
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let compared = operators::comparison(op, left, right, self.mode())?;
        self.folded_sides(compared)
    }

    /// Casts of constants that a comparison put in are evaluated once, not for each batch.
    fn folded_sides(&self, compared: Typed) -> Result<Typed> {
        let Expr::BinaryExpr(mut sides) = compared.expr else { return Ok(compared) };
        for side in [&mut sides.left, &mut sides.right] {
            match fold(side.as_ref().clone()) {
                Ok(folded) => **side = folded,
                Err(_) if self.guarded > 0 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Typed::new(Expr::BinaryExpr(sides), compared.data_type))
    }

    fn between(&mut self, value: &Ast, negated: bool, low: &Ast, high: &Ast) -> Result<Typed> {
        let value = self.expr(value)?;
        let (low, high) = (self.expr(low)?, self.expr(high)?);
        let ((a, low), (b, high)) = (
            operators::comparable(Operator::GtEq, value.clone(), low, self.mode())?,
            operators::comparable(Operator::LtEq, value, high, self.mode())?,
        );
        let (low, high) = (fold(low.expr)?, fold(high.expr)?);
        if a.expr == b.expr {
            return Ok(boolean(Expr::Between(Between { expr: Box::new(a.expr), negated, low: Box::new(low), high: Box::new(high) })));
        }
        let both = a.expr.gt_eq(low).and(b.expr.lt_eq(high));
        Ok(boolean(if negated { Expr::Not(Box::new(both)) } else { both }))
    }

    fn in_list(&mut self, value: &Ast, list: &[Ast], negated: bool) -> Result<Typed> {
        let mut value = self.expr(value)?;
        let mut items = list.iter().map(|item| self.expr(item)).collect::<Result<Vec<_>>>()?;
        // Text in a list of numbers (or numbers in a list of texts) becomes a number, as in Flink.
        let number = items.iter().chain([&value]).find(|item| crate::types::is_numeric(&item.data_type)).map(|item| item.data_type.clone());
        if let Some(number) = number {
            let mode = self.mode();
            let cast = |item: Typed| if item.data_type == DataType::Utf8 { cast_to(item, &number.clone().into(), mode) } else { Ok(item) };
            value = cast(value)?;
            items = items.into_iter().map(cast).collect::<Result<_>>()?;
        }
        let all = std::iter::once(value).chain(items).collect::<Vec<_>>();
        let temporal = all.iter().map(|item| &item.data_type).find(|t| matches!(t, DataType::Date32 | DataType::Time32(_) | DataType::Timestamp(..))).cloned();
        let all = match temporal {
            Some(target) => all.into_iter().map(|item| if item.data_type == DataType::Utf8 { cast_to(item, &target.clone().into(), self.mode()) } else { Ok(item) }).collect::<Result<_>>()?,
            None => all,
        };
        let mut unified = operators::unified("IN", all, self.mode())?.into_iter();
        let Some(value) = unified.next() else { return plan_err!("IN takes a value and a list") };
        let list = unified.map(|item| fold(item.expr)).collect::<Result<_>>()?;
        Ok(boolean(Expr::InList(InList { expr: Box::new(value.expr), list, negated })))
    }

    fn cast(&mut self, strict: bool, ast: &Ast, target: &str) -> Result<Typed> {
        let target = parse::parse(target).map_err(DataFusionError::Plan)?;
        let lenient = !strict;
        let value = if lenient { self.guarded(ast)? } else { self.expr(ast)? };
        cast_to(value, &target, Mode { zone: self.session.zone, lenient })
    }

    fn case(&mut self, operand: Option<&Ast>, conditions: &[CaseWhen], otherwise: Option<&Ast>) -> Result<Typed> {
        let mut whens = Vec::new();
        for (position, when) in conditions.iter().enumerate() {
            whens.push(match operand {
                Some(operand) => {
                    let (left, right) = (self.expr(operand)?, self.expr(&when.condition)?);
                    let compared = operators::comparison(Operator::Eq, left, right, self.mode())?;
                    self.folded_sides(compared)?
                }
                None if position == 0 => self.boolean(&when.condition, "WHEN")?,
                None => as_boolean(self.guarded(&when.condition)?, "WHEN")?,
            });
        }
        let mut results = conditions.iter().map(|when| self.guarded(&when.result)).collect::<Result<Vec<_>>>()?;
        if let Some(otherwise) = otherwise {
            results.push(self.guarded(otherwise)?);
        }
        let results = operators::unified("CASE", results, self.mode())?;
        Ok(case_of(whens, results))
    }

    fn rounded(&mut self, name: &str, ast: &Ast, field: &CeilFloorKind) -> Result<Typed> {
        let value = self.expr(ast)?;
        match field {
            CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) => self.call(name, vec![value]),
            CeilFloorKind::DateTimeField(unit) => {
                let unit = Typed::literal(ScalarValue::Utf8(Some(unit_name(unit))));
                self.call(name, vec![value, unit])
            }
            CeilFloorKind::Scale(scale) => plan_err!("{name} takes a number, or a time TO a unit; ROUND and TRUNCATE take {scale} as digits"),
        }
    }

    fn call_of(&mut self, name: &str, arguments: &[&Ast]) -> Result<Typed> {
        let arguments = arguments.iter().map(|argument| self.expr(argument)).collect::<Result<Vec<_>>>()?;
        self.call(name, arguments)
    }

    /// A built-in function.
    fn call(&mut self, name: &str, arguments: Vec<Typed>) -> Result<Typed> {
        functions::call(name, arguments, self.session)
    }

    fn function(&mut self, function: &Function) -> Result<Typed> {
        let name = plain_name(&function.name);
        let upper = name.to_ascii_uppercase();
        if function.over.is_some() {
            return not_impl_err!("{name}(…) OVER is not built");
        }
        if self.session.is_aggregate(&name) {
            return self.aggregate(&upper, function);
        }
        let arguments = self.arguments(&name, function)?;
        if let Some(udf) = self.session.scalars.get(&upper) {
            return crate::calls::scalar(&name, udf, arguments, self.mode());
        }
        if !functions::is_function(&upper) {
            return plan_err!("function `{name}` not found");
        }
        self.call(&upper, arguments)
    }

    fn arguments(&mut self, name: &str, function: &Function) -> Result<Vec<Typed>> {
        let conditional = matches!(name.to_ascii_uppercase().as_str(), "IF" | "COALESCE" | "IFNULL" | "NULLIF");
        let list = match &function.args {
            FunctionArguments::None => return Ok(Vec::new()),
            FunctionArguments::List(list) => list,
            FunctionArguments::Subquery(_) => return not_impl_err!("a query inside an expression is not built"),
        };
        if function.filter.is_some() || list.duplicate_treatment.is_some() || !function.within_group.is_empty() {
            return plan_err!("{name} is no aggregate: DISTINCT, FILTER and WITHIN GROUP have no meaning");
        }
        let mut arguments = Vec::new();
        for argument in &list.args {
            let ast = match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(ast)) => ast,
                FunctionArg::Named { name: parameter, .. } => return plan_err!("{name} has no named parameters, found `{parameter} =>`"),
                _ => return plan_err!("{name}: expected a value as argument, found `*`"),
            };
            // Nested JSON stays JSON.
            let json = matches!(ast, Ast::Function(inner) if matches!(plain_name(&inner.name).to_ascii_uppercase().as_str(), "JSON_OBJECT" | "JSON_ARRAY" | "JSON_OBJECTAGG" | "JSON_ARRAYAGG" | "JSON"));
            let value = if conditional { self.guarded(ast)? } else { self.expr(ast)? };
            arguments.push(if json && name.to_ascii_uppercase().starts_with("JSON_") { functions::raw_json(value) } else { value });
        }
        Ok(arguments)
    }
}

/// CASE WHEN … THEN … ELSE, all of final types; one result more than conditions is the ELSE.
pub(crate) fn case_of(whens: Vec<Typed>, mut results: Vec<Typed>) -> Typed {
    let data_type = results.first().map_or(DataType::Null, |result| result.data_type.clone());
    let otherwise = if results.len() > whens.len() { results.pop() } else { None };
    let when_then_expr = whens.into_iter().zip(results).map(|(when, then)| (Box::new(when.expr), Box::new(then.expr))).collect();
    Typed::new(Expr::Case(Case { expr: None, when_then_expr, else_expr: otherwise.map(|value| Box::new(value.expr)) }), data_type)
}

pub(crate) fn boolean(expr: Expr) -> Typed {
    Typed::new(expr, DataType::Boolean)
}

pub(crate) fn as_boolean(value: Typed, what: &str) -> Result<Typed> {
    match value.data_type {
        DataType::Boolean => Ok(value),
        DataType::Null => Ok(Typed::literal(ScalarValue::Boolean(None))),
        other => plan_err!("{what} takes a condition, found {}", type_name(&other)),
    }
}

fn negate(value: Typed, negated: bool) -> Result<Typed> {
    Ok(if negated { boolean(Expr::Not(Box::new(value.expr))) } else { value })
}

fn escape(value: Option<&Value>) -> Result<Option<char>> {
    match value {
        None => Ok(None),
        Some(Value::SingleQuotedString(text)) if text.chars().count() == 1 => Ok(text.chars().next()),
        Some(other) => plan_err!("ESCAPE takes one character, found {other}"),
    }
}

fn unit_name(field: &DateTimeField) -> String {
    field.to_string().to_ascii_uppercase()
}

pub(crate) fn plain_name(name: &ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.clone()).unwrap_or_default()
}
