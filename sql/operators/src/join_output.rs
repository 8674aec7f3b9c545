//! What joins share: kinds, keys, the residual condition, and rows with nulls on the missing side.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, new_null_array},
    compute::filter_record_batch,
    datatypes::SchemaRef,
};
use pelton_core::error::Result;

use crate::expressions::{Expression, conform, evaluate, internal};

/// Which rows survive without a partner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    /// None.
    Inner,
    /// Left ones.
    Left,
    /// Right ones.
    Right,
    /// Both sides'.
    Full,
    /// Left rows with a partner, once, left columns only.
    Semi,
    /// Left rows without one, left columns only.
    Anti,
}

impl JoinKind {
    /// Whether a row of the side without a partner is emitted.
    pub(crate) fn keeps(self, side: usize) -> bool {
        match self {
            Self::Inner | Self::Semi => false,
            Self::Left | Self::Anti => side == 0,
            Self::Right => side == 1,
            Self::Full => true,
        }
    }
}

/// An equality between a left and a right column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinKey {
    /// Left column.
    pub left: usize,
    /// Right column.
    pub right: usize,
    /// Whether null equals null (IS NOT DISTINCT FROM).
    pub nulls_equal: bool,
}

/// Key columns of a side, and for each row whether it can have a partner at all.
pub(crate) fn key_columns(batch: &RecordBatch, keys: &[JoinKey], side: usize) -> (Vec<ArrayRef>, Vec<bool>) {
    let mut joinable = vec![true; batch.num_rows()];
    let columns = keys
        .iter()
        .map(|key| {
            let column = batch.column(if side == 0 { key.left } else { key.right });
            if !key.nulls_equal && column.null_count() > 0 {
                joinable.iter_mut().enumerate().for_each(|(row, joinable)| *joinable &= column.is_valid(row));
            }
            Arc::clone(column)
        })
        .collect();
    (columns, joinable)
}

/// Pairs as rows of both sides' columns; which of them the residual condition keeps.
pub(crate) fn pairs(left: &RecordBatch, right: &RecordBatch, residual: Option<&Expression>, schema: &SchemaRef) -> Result<(RecordBatch, Option<BooleanArray>)> {
    let columns: Vec<_> = left.columns().iter().chain(right.columns()).cloned().collect();
    let batch = shaped(columns, left.num_rows(), schema)?;
    let Some(residual) = residual else { return Ok((batch, None)) };
    let mask = evaluate(residual, &batch).map_err(|error| internal("join condition", &error.find_root()))?;
    Ok((batch, Some(mask.as_boolean().clone())))
}

/// The rows that a mask keeps.
pub(crate) fn masked(batch: &RecordBatch, mask: Option<&BooleanArray>) -> Result<RecordBatch> {
    match mask {
        Some(mask) => filter_record_batch(batch, mask).map_err(|error| internal("join", &error)),
        None => Ok(batch.clone()),
    }
}

/// Rows of one side with nulls for the other, or alone if the output has only the left columns.
pub(crate) fn padded(rows: &RecordBatch, side: usize, other: &SchemaRef, schema: &SchemaRef) -> Result<RecordBatch> {
    let count = rows.num_rows();
    if schema.fields().len() == rows.num_columns() {
        return shaped(rows.columns().to_vec(), count, schema);
    }
    let nulls = other.fields().iter().map(|field| new_null_array(field.data_type(), count));
    let columns = if side == 0 { rows.columns().iter().cloned().chain(nulls).collect() } else { nulls.chain(rows.columns().iter().cloned()).collect() };
    shaped(columns, count, schema)
}

fn shaped(columns: Vec<ArrayRef>, rows: usize, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = columns.into_iter().zip(schema.fields()).map(|(column, field)| conform(column, field.data_type()));
    let columns = columns.collect::<Result<Vec<_>, _>>().map_err(|error| internal("join", &error))?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(|error| internal("join", &error))
}
