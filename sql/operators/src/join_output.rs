//! What joins share: kinds, keys, the residual condition, and rows with nulls on the missing side.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, new_null_array},
    compute::filter_record_batch,
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use pelton_core::{dead_letter::DeadLetter, error::Result};

use crate::{
    calc::row_letter,
    expressions::{Expression, Projector, conform, internal},
};

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

/// The condition of a join besides its keys and times.
#[derive(Debug, Clone)]
pub(crate) struct Residual {
    condition: Projector,
    step: &'static str,
}

impl Residual {
    pub(crate) fn new(condition: Expression, step: &'static str) -> Self {
        let schema = Arc::new(Schema::new(vec![Field::new("condition", DataType::Boolean, true)]));
        Self { condition: Projector { predicate: None, exprs: vec![condition], schema }, step }
    }

    /// Which rows it keeps. A pair on which it fails is no pair, and a dead letter.
    fn mask(&self, pairs: &RecordBatch, dead_letters: &mut Vec<DeadLetter>) -> Result<BooleanArray> {
        let found = self.condition.apply(pairs)?;
        let mask = found.batch.column(0).as_boolean();
        if found.failures.is_empty() {
            return Ok(mask.clone());
        }
        let mut all = vec![false; pairs.num_rows()];
        for (position, row) in found.origin.iter().flat_map(|origin| origin.values()).enumerate() {
            all[*row as usize] = mask.is_valid(position) && mask.value(position);
        }
        for failure in found.failures {
            dead_letters.push(row_letter(self.step, &pairs.slice(failure.row as usize, 1), failure.reason));
        }
        Ok(all.into())
    }
}

/// Left and right columns side by side, nullable.
pub(crate) fn pair_schema(left: &SchemaRef, right: &SchemaRef) -> SchemaRef {
    let fields: Vec<_> = left.fields().iter().chain(right.fields()).map(|field| field.as_ref().clone().with_nullable(true)).collect();
    Arc::new(Schema::new(fields))
}

/// Pairs as rows of both sides' columns; which of them the residual condition keeps.
pub(crate) fn pairs(
    left: &RecordBatch,
    right: &RecordBatch,
    residual: Option<&Residual>,
    schema: &SchemaRef,
    dead_letters: &mut Vec<DeadLetter>,
) -> Result<(RecordBatch, Option<BooleanArray>)> {
    let columns: Vec<_> = left.columns().iter().chain(right.columns()).cloned().collect();
    let batch = shaped(columns, left.num_rows(), schema)?;
    let mask = residual.map(|residual| residual.mask(&batch, dead_letters)).transpose()?;
    Ok((batch, mask))
}

/// The rows that a mask keeps.
pub(crate) fn masked(batch: &RecordBatch, mask: Option<&BooleanArray>) -> Result<RecordBatch> {
    match mask {
        Some(mask) => filter_record_batch(batch, mask).map_err(|error| internal("join", &error)),
        None => Ok(batch.clone()),
    }
}

/// Rows of one side with nulls for the other.
pub(crate) fn padded(rows: &RecordBatch, side: usize, other: &SchemaRef, schema: &SchemaRef) -> Result<RecordBatch> {
    let count = rows.num_rows();
    let nulls = other.fields().iter().map(|field| new_null_array(field.data_type(), count));
    let columns = if side == 0 { rows.columns().iter().cloned().chain(nulls).collect() } else { nulls.chain(rows.columns().iter().cloned()).collect() };
    shaped(columns, count, schema)
}

/// Columns under the names and types of `schema`.
pub(crate) fn shaped(columns: Vec<ArrayRef>, rows: usize, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = columns.into_iter().zip(schema.fields()).map(|(column, field)| conform(column, field.data_type()));
    let columns = columns.collect::<Result<Vec<_>, _>>().map_err(|error| internal("join", &error))?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(|error| internal("join", &error))
}
