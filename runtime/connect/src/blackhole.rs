//! Blackhole: takes rows and forgets them, for measuring and for trying out.

use arrow::array::RecordBatch;
use pelton_core::{
    error::Result,
    options::ConnectorInfo,
    position::Epoch,
    records::OutputRecords,
    sink::{Prepared, Sink},
};

/// See the module.
pub(crate) const INFO: ConnectorInfo = ConnectorInfo {
    name: "blackhole",
    options: &[],
    readable_metadata: &[],
    writable_metadata: &[],
    is_source: false,
    is_sink: true,
    needs_format: false,
};

/// See the module.
pub(crate) struct BlackholeSink;

impl Sink for BlackholeSink {
    fn takes_records(&self) -> bool {
        false
    }

    fn recover(&mut self, _epoch: Epoch, _prepared: &[Prepared]) -> Result<()> {
        Ok(())
    }

    fn write_batch(&mut self, _batch: &RecordBatch) -> Result<()> {
        Ok(())
    }

    fn write_records(&mut self, _records: &OutputRecords) -> Result<Vec<(u32, String)>> {
        Ok(Vec::new())
    }

    fn prepare(&mut self, _epoch: Epoch) -> Result<Prepared> {
        Ok(Prepared(Vec::new()))
    }

    fn commit(&mut self, _epoch: Epoch) -> Result<()> {
        Ok(())
    }
}
