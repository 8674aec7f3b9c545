//! From expressions to what evaluates them.
//!
//! Promises: Flink's meaning of the operators that stay DataFusion's (division of whole numbers, times ± intervals), and
//! that a condition which guards another (`b <> 0 AND a / b > 1`) is evaluated first and keeps bad rows away from it.

use std::sync::Arc;

use datafusion::{
    common::{
        Column, DFSchema, Result, ScalarValue,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    execution::context::ExecutionProps,
    logical_expr::{BinaryExpr, Case, Expr, ExprSchemable, Operator, expr::ScalarFunction, lit, physical_planning_context::PhysicalPlanningContext},
    physical_expr::{PhysicalExpr, create_physical_expr},
};

use crate::{func::Bound, operators, types};

/// What evaluates `expr` over batches of `schema`. A bare column evaluates to itself without a copy.
///
/// # Errors
/// An expression that did not come from [`crate::Session::translate`] and has no types DataFusion accepts.
pub fn physical(expr: &Expr, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
    let lowered = expr.clone().transform_up(|node| lower(node, schema))?.data;
    create_physical_expr(&lowered, schema, &ExecutionProps::new(), &PhysicalPlanningContext::default())
}

/// The column that `expr` passes on unchanged, if it is nothing but a column: such projections need no evaluation.
pub fn column_of(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => column_of(&alias.expr),
        _ => None,
    }
}

/// The parts of `time ± interval`: the time, the interval, and +1 or −1. For calls; the operators `+` and `-` of times
/// are plain binary expressions.
pub fn interval_shift(call: &ScalarFunction) -> Option<(&Expr, &Expr, i64)> {
    match (call.func.name(), call.args.as_slice()) {
        (operators::SHIFT, [time, interval]) => Some((time, interval, 1)),
        (operators::SHIFT_BACK, [time, interval]) => Some((time, interval, -1)),
        _ => None,
    }
}

fn lower(node: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = node else { return Ok(Transformed::no(node)) };
    match op {
        Operator::Plus | Operator::Minus => {
            let (a, b) = (left.get_type(schema)?, right.get_type(schema)?);
            if types::is_interval(&a) != types::is_interval(&b) {
                let (time, interval, of) = if types::is_interval(&b) { (*left, *right, a) } else { (*right, *left, b) };
                return Ok(Transformed::yes(operators::shift(time, interval, &of, op == Operator::Minus)));
            }
            Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })))
        }
        Operator::Divide | Operator::Modulo => {
            let data_type = left.get_type(schema)?;
            if types::is_integer(&data_type) {
                return Ok(Transformed::yes(operators::whole_division(*left, *right, &data_type, op == Operator::Modulo)));
            }
            Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })))
        }
        // CASE evaluates the right side only for rows that the left side leaves undecided. Chains lean to the left, so
        // it is the right side, a single condition, that stands here twice.
        Operator::And | Operator::Or if can_fail(&right) => {
            let decides = op == Operator::Or;
            let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
            let otherwise = Expr::BinaryExpr(BinaryExpr { left: right.clone(), op, right: Box::new(unknown) });
            let when_then_expr =
                vec![(Box::new(lit(!decides)), right), (Box::new(lit(decides)), Box::new(lit(decides)))];
            Ok(Transformed::yes(Expr::Case(Case { expr: Some(left), when_then_expr, else_expr: Some(Box::new(otherwise)) })))
        }
        _ => Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
    }
}

/// Whether some row can be bad.
fn can_fail(expr: &Expr) -> bool {
    let mut fallible = false;
    let walked = expr.apply(|node| {
        fallible |= match node {
            Expr::ScalarFunction(call) => Bound::of(&call.func).map_or(call.func.name() != "get_field", |bound| bound.fallible),
            _ => false,
        };
        Ok(if fallible { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walked.is_err() || fallible
}
