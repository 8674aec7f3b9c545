//! NOT NULL of a sink's columns: a row with a null there is refused, as Flink does by default.

use arrow::{array::Array, datatypes::DataType};
use datafusion::{
    common::{DataFusionError, Result},
    logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility},
};
use pelton_sql_expr::RowError;

/// `expr`, which must not be null for `column`.
pub(crate) fn not_null(expr: Expr, column: &str) -> Expr {
    ScalarUDF::from(NotNull { column: column.to_owned(), signature: Signature::any(1, Volatility::Immutable) }).call(vec![expr])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NotNull {
    column: String,
    signature: Signature,
}

impl ScalarUDFImpl for NotNull {
    fn name(&self) -> &str {
        "NOT_NULL"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        arguments.first().cloned().ok_or_else(|| DataFusionError::Plan("NOT_NULL takes a value".to_owned()))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = args.args.pop().ok_or_else(|| DataFusionError::Plan("NOT_NULL takes a value".to_owned()))?;
        let has_null = match &value {
            ColumnarValue::Array(array) => array.null_count() > 0,
            ColumnarValue::Scalar(scalar) => scalar.is_null(),
        };
        if has_null {
            let reason = format!("column `{}` is NOT NULL and would get a null", self.column);
            return Err(DataFusionError::External(Box::new(RowError { reason })));
        }
        Ok(value)
    }
}
