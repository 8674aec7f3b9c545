//! Constant expressions, evaluated when a script is planned.

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    datatypes::Schema,
    record_batch::RecordBatchOptions,
};
use datafusion::{
    common::{DFSchema, DataFusionError, Result, ScalarValue},
    logical_expr::{ColumnarValue, Expr, Volatility},
};

use crate::{error::RowError, physical::physical};

/// `expr` as a literal if it is constant. Expressions over columns, and those that give a new value for each row, stay.
///
/// # Errors
/// What is wrong with the constant, as a plan error.
pub fn fold(expr: Expr) -> Result<Expr> {
    if matches!(expr, Expr::Literal(..)) || !is_constant(&expr) {
        return Ok(expr);
    }
    Ok(Expr::Literal(evaluate(&expr)?, None))
}

fn is_constant(expr: &Expr) -> bool {
    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
    let mut constant = true;
    let walked = expr.apply(|node| {
        constant &= match node {
            Expr::Column(_) | Expr::AggregateFunction(_) | Expr::WindowFunction(_) | Expr::Placeholder(_) => false,
            Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Volatile,
            _ => true,
        };
        Ok(if constant { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.is_ok() && constant
}

fn evaluate(expr: &Expr) -> Result<ScalarValue> {
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &RecordBatchOptions::new().with_row_count(Some(1)))?;
    let value = physical(expr, &DFSchema::empty()).and_then(|physical| physical.evaluate(&batch));
    match value {
        Ok(ColumnarValue::Scalar(value)) => Ok(value),
        Ok(ColumnarValue::Array(array)) => ScalarValue::try_from_array(&array, 0),
        Err(error) => Err(match RowError::find(&error) {
            Some(reason) => DataFusionError::Plan(reason),
            None => error,
        }),
    }
}
