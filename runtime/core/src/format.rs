//! Formats: bytes to columns and back. Implementations live in `runtime/formats` and in plugins.

use arrow::{array::RecordBatch, datatypes::SchemaRef};

use crate::{error::Result, records::{BytesColumn, Records}};

/// What a decoder made of a batch of records.
#[derive(Debug)]
pub struct Decoded {
    /// The rows, in input order, with the decoder's schema.
    pub batch: RecordBatch,
    /// For each row of `batch`, the record it came from. `None` when every record became exactly one row.
    pub origin: Option<Vec<u32>>,
    /// Records that could not be decoded, with the reason, in input order. Never a reason to fail the call.
    pub bad: Vec<(u32, String)>,
}

/// Bytes to columns. One per source split, called from one thread, batch after batch.
pub trait Decoder: Send {
    /// The columns it makes: the table's physical columns that the plan needs, nothing more.
    fn schema(&self) -> SchemaRef;

    /// Decodes the values (or keys) of a batch. Null values (tombstones) are skipped: neither rows nor bad.
    fn decode(&mut self, records: &Records) -> Result<Decoded>;
}

/// Columns to bytes. One per sink and worker.
pub trait Encoder: Send {
    /// Appends one value per row of `batch` to `out`. A row that cannot be written gets a null and an entry in `bad`.
    fn encode(&mut self, batch: &RecordBatch, out: &mut BytesColumn, bad: &mut Vec<(u32, String)>) -> Result<()>;

    /// Bytes that open a file of this format (the header line of a csv file), empty for most.
    fn preamble(&self) -> Vec<u8> {
        Vec::new()
    }
}
