//! Calc: a filter and a projection in one step.

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    datatypes::SchemaRef,
    json::{WriterBuilder, writer::LineDelimited},
};
use pelton_core::{
    dead_letter::DeadLetter,
    error::Result,
    operator::{Collector, Operator, OperatorContext, OperatorFactory},
    position::{Offset, Partition},
};

use crate::expressions::{Expression, Projector};

/// Filters rows, then computes columns. A row whose expressions fail becomes a dead letter that holds the row as JSON.
#[derive(Debug, Clone)]
pub struct Calc {
    /// Rows for which it is true are kept; all without it.
    pub predicate: Option<Expression>,
    /// One per output column, over the input's columns.
    pub exprs: Vec<Expression>,
    /// Output columns.
    pub schema: SchemaRef,
}

impl OperatorFactory for Calc {
    fn create(&self, _worker: usize, _workers: usize) -> Result<Box<dyn Operator>> {
        Ok(Box::new(CalcOperator(Projector { predicate: self.predicate.clone(), exprs: self.exprs.clone(), schema: Arc::clone(&self.schema) })))
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

struct CalcOperator(Projector);

impl Operator for CalcOperator {
    fn process(&mut self, _port: usize, batch: RecordBatch, context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<()> {
        let projected = self.0.apply(&batch)?;
        for failure in projected.failures {
            context.dead_letters.push(row_letter("project", &batch.slice(failure.row as usize, 1), failure.reason));
        }
        if projected.batch.num_rows() > 0 { out.batch(projected.batch) } else { Ok(()) }
    }
}

/// A dead letter for a row made inside the job.
pub(crate) fn row_letter(step: &str, row: &RecordBatch, reason: String) -> DeadLetter {
    let mut json = Vec::new();
    let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(&mut json);
    let written = writer.write(row).and_then(|()| writer.finish());
    if written.is_err() {
        json.clear();
    }
    while json.last() == Some(&b'\n') {
        json.pop();
    }
    DeadLetter {
        table: String::new(),
        step: step.to_owned(),
        reason,
        topic: String::new(),
        partition: Partition(0),
        offset: Offset(-1),
        timestamp_ms: None,
        key: None,
        value: Some(json),
        headers: Vec::new(),
        plugin: None,
    }
}
