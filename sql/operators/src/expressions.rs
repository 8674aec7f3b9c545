//! Evaluates expressions over batches, and finds the rows that make them fail.
//!
//! A failing row costs itself, never its batch: the batch is halved until the failing rows stand alone. Without failures
//! there is one evaluation per expression and batch.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array},
    compute::{cast, concat_batches, filter_record_batch, prep_null_mask_filter, take_record_batch},
    datatypes::{DataType, SchemaRef},
};
use datafusion::{common::DataFusionError, logical_expr::ColumnarValue, physical_expr::PhysicalExpr};
use pelton_core::error::{Result, RuntimeError};

/// An expression over an input's columns.
pub type Expression = Arc<dyn PhysicalExpr>;

/// A row whose expression failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFailure {
    /// Its index in the input batch.
    pub row: u32,
    /// What was found and what is expected.
    pub reason: String,
}

/// What an expression says of one batch, as an array of its length.
pub(crate) fn evaluate(expression: &Expression, batch: &RecordBatch) -> Result<ArrayRef, DataFusionError> {
    match expression.evaluate(batch)? {
        ColumnarValue::Array(array) => Ok(array),
        ColumnarValue::Scalar(scalar) => scalar.to_array_of_size(batch.num_rows()),
    }
}

/// The reason for people: no prefixes, one line.
fn reason(error: &DataFusionError) -> String {
    let root = error.find_root();
    let text = match root {
        DataFusionError::Execution(text) | DataFusionError::Plan(text) => text.clone(),
        DataFusionError::External(inner) => inner.to_string(),
        DataFusionError::ArrowError(inner, _) => inner.to_string(),
        other => other.strip_backtrace(),
    };
    text.lines().next().unwrap_or_default().to_owned()
}

/// Filters and projects. Built once, used for every batch.
#[derive(Debug, Clone)]
pub(crate) struct Projector {
    pub(crate) predicate: Option<Expression>,
    pub(crate) exprs: Vec<Expression>,
    pub(crate) schema: SchemaRef,
}

/// What a projector made of a batch.
pub(crate) struct Projected {
    pub(crate) batch: RecordBatch,
    /// Row `i` came from input row `origin[i]`; `None` if all rows were kept.
    pub(crate) origin: Option<UInt32Array>,
    pub(crate) failures: Vec<RowFailure>,
}

impl Projector {
    pub(crate) fn apply(&self, input: &RecordBatch) -> Result<Projected> {
        match self.try_apply(input) {
            Ok((batch, origin)) => Ok(Projected { batch, origin, failures: Vec::new() }),
            Err(_) => self.isolate(input),
        }
    }

    fn try_apply(&self, input: &RecordBatch) -> Result<(RecordBatch, Option<UInt32Array>), DataFusionError> {
        let mut kept = None;
        let filtered = match &self.predicate {
            None => None,
            Some(predicate) => {
                let mask = evaluate(predicate, input)?;
                let mask = mask.as_any().downcast_ref::<BooleanArray>().ok_or_else(|| DataFusionError::Internal("a predicate is no boolean".to_owned()))?;
                if mask.null_count() == 0 && mask.true_count() == input.num_rows() {
                    None
                } else {
                    let mask = if mask.null_count() > 0 { prep_null_mask_filter(mask) } else { mask.clone() };
                    kept = Some(mask.values().set_indices_u32().collect::<UInt32Array>());
                    Some(filter_record_batch(input, &mask)?)
                }
            }
        };
        let batch = filtered.as_ref().unwrap_or(input);
        let columns = self.exprs.iter().zip(self.schema.fields()).map(|(expr, field)| conform(evaluate(expr, batch)?, field.data_type())).collect::<Result<Vec<_>, DataFusionError>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok((RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?, kept))
    }

    /// Halves until every failing row stands alone.
    fn isolate(&self, input: &RecordBatch) -> Result<Projected> {
        let (mut good, mut origin, mut failures) = (Vec::new(), Vec::new(), Vec::new());
        let mut ranges = vec![(0, input.num_rows())];
        while let Some((begin, length)) = ranges.pop() {
            if length == 0 {
                continue;
            }
            match self.try_apply(&input.slice(begin, length)) {
                Ok((batch, kept)) => {
                    match kept {
                        Some(rows) => origin.extend(rows.values().iter().map(|row| row + begin as u32)),
                        None => origin.extend(begin as u32..(begin + length) as u32),
                    }
                    good.push(batch);
                }
                Err(error) if length == 1 => failures.push(RowFailure { row: begin as u32, reason: reason(&error) }),
                Err(_) => {
                    let half = length / 2;
                    ranges.push((begin + half, length - half));
                    ranges.push((begin, half));
                }
            }
        }
        let batch = concat_batches(&self.schema, &good).map_err(|error| internal("project", &error))?;
        Ok(Projected { batch, origin: Some(origin.into()), failures })
    }
}

/// The array as exactly the wanted type: expressions may give a type that differs in nested names or nullability.
pub(crate) fn conform(array: ArrayRef, wanted: &DataType) -> Result<ArrayRef, DataFusionError> {
    if array.data_type() == wanted { Ok(array) } else { Ok(cast(&array, wanted)?) }
}

/// An error of Arrow's that only a fault of ours can cause.
pub(crate) fn internal(step: &str, error: &dyn std::fmt::Display) -> RuntimeError {
    RuntimeError::Data { step: step.to_owned(), reason: error.to_string(), topic: String::new(), partition: None, offset: None }
}

/// Rows of a batch by index.
pub(crate) fn take_rows(batch: &RecordBatch, rows: &UInt32Array) -> Result<RecordBatch> {
    take_record_batch(batch, rows).map_err(|error| internal("take rows", &error))
}
