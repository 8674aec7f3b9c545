//! UNION ALL: all rows of all inputs.

use std::sync::Arc;

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use pelton_core::{
    error::Result,
    operator::{Collector, Operator, OperatorContext, OperatorFactory},
};

use crate::expressions::{conform, internal};

/// Passes every input on, under the output's column names.
#[derive(Debug, Clone)]
pub struct Union {
    /// Output columns; the inputs' have the same types.
    pub schema: SchemaRef,
}

impl OperatorFactory for Union {
    fn create(&self, _worker: usize, _workers: usize) -> Result<Box<dyn Operator>> {
        Ok(Box::new(Merger(Arc::clone(&self.schema))))
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

struct Merger(SchemaRef);

impl Operator for Merger {
    fn process(&mut self, _port: usize, batch: RecordBatch, _context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<()> {
        let columns = batch.columns().iter().zip(self.0.fields()).map(|(column, field)| conform(Arc::clone(column), field.data_type()));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(|error| internal("union", &error))?;
        out.batch(RecordBatch::try_new(Arc::clone(&self.0), columns).map_err(|error| internal("union", &error))?)
    }
}
