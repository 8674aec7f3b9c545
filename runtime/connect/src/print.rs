//! Print: each row as a line for people, as Flink's `print` connector shows it: `+I[1, alice, null]`.
//!
//! Rows are printed as they come, so a restart prints those of the unfinished epoch again.

use std::io::{self, Write};

use arrow::array::RecordBatch;
use pelton_core::{
    error::{Result, RuntimeError},
    options::{ConnectorInfo, OptionReader},
    position::Epoch,
    records::OutputRecords,
    sink::{Prepared, Sink},
};

use crate::{PrintRows, SinkContext, optional};

/// See the module.
pub(crate) const INFO: ConnectorInfo = ConnectorInfo {
    name: "print",
    options: &[
        optional("print-identifier", "", "Text in front of each line."),
        optional("standard-error", "false", "Print to standard error instead of standard output."),
        optional("sink.parallelism", "", "Accepted for Flink scripts; the job's parallelism holds."),
    ],
    readable_metadata: &[],
    writable_metadata: &[],
    is_source: false,
    is_sink: true,
    needs_format: false,
};

/// See the module.
pub(crate) struct PrintSink {
    prefix: String,
    to_stderr: bool,
    print_rows: PrintRows,
    lines: Vec<Vec<u8>>,
    buffer: Vec<u8>,
}

impl PrintSink {
    pub(crate) fn new(context: &SinkContext<'_>) -> Result<Self, String> {
        let options = OptionReader(&context.table.options);
        let identifier = options.text("print-identifier").unwrap_or_default();
        let worker = context.worker + 1;
        let prefix = match (identifier.is_empty(), context.workers > 1) {
            (true, false) => String::new(),
            (true, true) => format!("{worker}> "),
            (false, false) => format!("{identifier}> "),
            (false, true) => format!("{identifier}:{worker}> "),
        };
        Ok(Self {
            prefix,
            to_stderr: options.flag("standard-error", false)?,
            print_rows: context.print_rows,
            lines: Vec::new(),
            buffer: Vec::new(),
        })
    }
}

impl Sink for PrintSink {
    fn takes_records(&self) -> bool {
        false
    }

    fn recover(&mut self, _epoch: Epoch, _prepared: &[Prepared]) -> Result<()> {
        Ok(())
    }

    fn write_batch(&mut self, batch: &RecordBatch) -> Result<()> {
        self.lines.clear();
        self.buffer.clear();
        (self.print_rows)(batch, &mut self.lines)?;
        for line in &self.lines {
            self.buffer.extend_from_slice(self.prefix.as_bytes());
            self.buffer.extend_from_slice(b"+I[");
            self.buffer.extend_from_slice(line);
            self.buffer.extend_from_slice(b"]\n");
        }
        let written = if self.to_stderr {
            io::stderr().lock().write_all(&self.buffer)
        } else {
            let mut out = io::stdout().lock();
            out.write_all(&self.buffer).and_then(|()| out.flush())
        };
        written.map_err(|error| RuntimeError::Storage { action: "print rows".to_owned(), reason: error.to_string() })
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
