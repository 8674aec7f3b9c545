//! CROSS JOIN UNNEST: each row once per element of an array or map.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Int32Array, RecordBatch, UInt32Array},
    compute::take,
    datatypes::{DataType, SchemaRef},
};
use pelton_core::{
    error::Result,
    operator::{Collector, Operator, OperatorContext, OperatorFactory},
};

use crate::{
    calc::row_letter,
    expressions::{Expression, Projector, conform, internal, take_rows},
};

/// Appends an element's columns to each row: one for plain elements, the fields of a ROW, key and value of a map.
#[derive(Debug, Clone)]
pub struct Unnest {
    /// The array or map.
    pub list: Expression,
    /// Its type.
    pub list_type: DataType,
    /// Whether a row without elements stays, with nulls (LEFT JOIN … ON TRUE).
    pub outer: bool,
    /// Whether the element's position, from 1, is appended too (WITH ORDINALITY).
    pub ordinality: bool,
    /// Output columns.
    pub schema: SchemaRef,
}

impl OperatorFactory for Unnest {
    fn create(&self, _worker: usize, _workers: usize) -> Result<Box<dyn Operator>> {
        let field = arrow::datatypes::Field::new("list", self.list_type.clone(), true);
        let schema = Arc::new(arrow::datatypes::Schema::new(vec![field]));
        Ok(Box::new(Unnester { step: self.clone(), list: Projector { predicate: None, exprs: vec![Arc::clone(&self.list)], schema } }))
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

struct Unnester {
    step: Unnest,
    list: Projector,
}

impl Operator for Unnester {
    fn process(&mut self, _port: usize, batch: RecordBatch, context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<()> {
        let lists = self.list.apply(&batch)?;
        for failure in lists.failures {
            context.dead_letters.push(row_letter("unnest", &batch.slice(failure.row as usize, 1), failure.reason));
        }
        let batch = match &lists.origin {
            Some(kept) => take_rows(&batch, kept)?,
            None => batch,
        };
        let list = lists.batch.column(0);
        let (offsets, elements): (Vec<i32>, Vec<ArrayRef>) = match list.data_type() {
            DataType::Map(..) => {
                let map = list.as_map();
                (map.offsets().to_vec(), map.entries().columns().to_vec())
            }
            DataType::List(item) => {
                let array = list.as_list::<i32>();
                let values = match item.data_type() {
                    DataType::Struct(_) => fields_of(array.values()),
                    _ => vec![Arc::clone(array.values())],
                };
                (array.offsets().to_vec(), values)
            }
            other => return Err(internal("unnest", &format!("{other} is neither array nor map"))),
        };
        let mut found = Found::default();
        for row in 0..list.len() {
            let range = if list.is_null(row) { 0..0 } else { offsets[row]..offsets[row + 1] };
            if range.is_empty() && self.step.outer {
                found.push(row, None, None);
            }
            for (position, element) in range.enumerate() {
                found.push(row, Some(element as u32), Some(position as i32 + 1));
                // A row may have thousands of elements: what goes on is cut.
                if found.rows.len() >= BATCH_ROWS {
                    self.send(&batch, &elements, std::mem::take(&mut found), out)?;
                }
            }
        }
        self.send(&batch, &elements, found, out)
    }
}

/// Rows, and the element and its position for each; columns side by side.
#[derive(Default)]
struct Found {
    rows: Vec<u32>,
    elements: Vec<Option<u32>>,
    positions: Vec<Option<i32>>,
}

impl Found {
    fn push(&mut self, row: usize, element: Option<u32>, position: Option<i32>) {
        self.rows.push(row as u32);
        self.elements.push(element);
        self.positions.push(position);
    }
}

/// Rows of one output batch at most.
const BATCH_ROWS: usize = 8192;

impl Unnester {
    fn send(&self, batch: &RecordBatch, elements: &[ArrayRef], found: Found, out: &mut dyn Collector) -> Result<()> {
        if found.rows.is_empty() {
            return Ok(());
        }
        let mut columns = take_rows(batch, &UInt32Array::from(found.rows))?.columns().to_vec();
        let picks = UInt32Array::from(found.elements);
        for element in elements {
            columns.push(take(element, &picks, None).map_err(|error| internal("unnest", &error))?);
        }
        if self.step.ordinality {
            columns.push(Arc::new(Int32Array::from(found.positions)));
        }
        let columns = columns.into_iter().zip(self.step.schema.fields()).map(|(column, field)| conform(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(|error| internal("unnest", &error))?;
        out.batch(RecordBatch::try_new(Arc::clone(&self.step.schema), columns).map_err(|error| internal("unnest", &error))?)
    }
}

/// The fields of rows, null where the whole row is.
fn fields_of(rows: &ArrayRef) -> Vec<ArrayRef> {
    let rows = rows.as_struct();
    let fields = rows.columns().iter();
    match rows.nulls() {
        None => fields.cloned().collect(),
        Some(nulls) => fields
            .map(|field| {
                let both = arrow::buffer::NullBuffer::union(Some(nulls), field.nulls());
                field.to_data().into_builder().nulls(both).build().map_or_else(|_| Arc::clone(field), arrow::array::make_array)
            })
            .collect(),
    }
}
