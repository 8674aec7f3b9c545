//! Printing the rows of a SELECT: a table on a terminal, else one JSON object a line, or csv.
//!
//! Rows are printed as they come, so a restart prints those of the unfinished epoch again. All workers share one
//! [`Output`]: a batch's rows stay together.

use std::{
    io::Write,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arrow::array::RecordBatch;
use pelton_core::{
    error::{Result, RuntimeError},
    position::Epoch,
    records::OutputRecords,
    sink::{Prepared, Sink},
};
use pelton_formats::render;

/// How rows are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// A frame with columns as wide as their values; rows are held until there are many or the job ends.
    Table,
    /// One JSON object a line.
    JsonLines,
    /// A header line and one line a row.
    Csv,
}

/// Rows of a table are printed when so many wait: their widths decide the columns'.
const TABLE_ROWS: usize = 10_000;

/// Where rows are printed.
pub struct Output {
    format: OutputFormat,
    inner: Mutex<Inner>,
}

struct Inner {
    writer: Box<dyn Write + Send>,
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    has_header: bool,
    /// Rows of an unbounded job are shown whenever the worker pauses.
    is_live: bool,
    buffer: Vec<u8>,
}

impl Output {
    /// Prints to `writer`.
    pub fn new(format: OutputFormat, writer: Box<dyn Write + Send>) -> Arc<Self> {
        let inner = Inner { writer, waiting: Vec::new(), waiting_rows: 0, has_header: false, is_live: false, buffer: Vec::new() };
        Arc::new(Self { format, inner: Mutex::new(inner) })
    }

    /// Prints a batch, or keeps it until there are enough for a table.
    pub fn rows(&self, batch: &RecordBatch) -> Result<()> {
        let mut inner = self.lock();
        let Inner { buffer, has_header, .. } = &mut *inner;
        buffer.clear();
        match self.format {
            OutputFormat::JsonLines => render::json_lines(batch, buffer)?,
            OutputFormat::Csv => {
                if !std::mem::replace(has_header, true) {
                    render::csv_header(batch, buffer);
                }
                render::csv_lines(batch, buffer)?;
            }
            OutputFormat::Table => {
                inner.waiting_rows += batch.num_rows();
                inner.waiting.push(batch.clone());
                return if inner.waiting_rows >= TABLE_ROWS { inner.show_table() } else { Ok(()) };
            }
        }
        inner.write()
    }

    /// Prints what waits. Called at a job's end.
    pub fn finish(&self) -> Result<()> {
        let mut inner = self.lock();
        inner.show_table()?;
        inner.has_header = false;
        Ok(())
    }

    pub(crate) fn set_live(&self, is_live: bool) {
        self.lock().is_live = is_live;
    }

    fn poll(&self) -> Result<()> {
        if self.format != OutputFormat::Table {
            return Ok(());
        }
        let mut inner = self.lock();
        if inner.is_live { inner.show_table() } else { Ok(()) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn show_table(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let text = render::table(&self.waiting)?;
        self.waiting.clear();
        self.waiting_rows = 0;
        self.buffer.clear();
        self.buffer.extend_from_slice(text.as_bytes());
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        let written = self.writer.write_all(&self.buffer).and_then(|()| self.writer.flush());
        written.map_err(|error| RuntimeError::Storage { action: "print rows".to_owned(), reason: error.to_string() })
    }
}

/// The sink of a SELECT.
pub(crate) struct SelectSink(pub(crate) Arc<Output>);

impl Sink for SelectSink {
    fn takes_records(&self) -> bool {
        false
    }

    fn recover(&mut self, _epoch: Epoch, _prepared: &[Prepared]) -> Result<()> {
        Ok(())
    }

    fn write_batch(&mut self, batch: &RecordBatch) -> Result<()> {
        self.0.rows(batch)
    }

    fn write_records(&mut self, _records: &OutputRecords) -> Result<Vec<(u32, String)>> {
        Ok(Vec::new())
    }

    fn poll(&mut self) -> Result<()> {
        self.0.poll()
    }

    fn prepare(&mut self, _epoch: Epoch) -> Result<Prepared> {
        Ok(Prepared(Vec::new()))
    }

    fn commit(&mut self, _epoch: Epoch) -> Result<()> {
        Ok(())
    }
}
