//! Standard input and output as tables: one record a line.
//!
//! `stdin` has one split, read by worker 0. It ends when the input ends. After a restart as many lines are skipped as
//! were done before: right for a redirected file, and the best that can be done for a pipe. `stdout` writes lines as
//! they come, so a restart writes those of the unfinished epoch again.

use std::{
    io::{self, BufRead, Write},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel},
    },
    thread,
    time::Duration,
};

use arrow::array::RecordBatch;
use pelton_core::{
    error::{Result, RuntimeError},
    graph::TableSpec,
    options::ConnectorInfo,
    position::{Epoch, Offset, SplitId},
    records::{OutputRecords, Records},
    sink::{Prepared, Sink},
    source::{Polled, RecordParts, Source, SplitChange, SplitPosition},
};

use crate::{files::{LinePosition, fill_parts}, optional};

/// Lines read ahead of the job, in chunks.
const CHUNKS_AHEAD: usize = 8;
/// Most lines in one chunk: what is there is handed over at once, so a slow input is not held back.
const CHUNK_LINES_MAX: usize = 1_024;

/// Reads lines from standard input.
pub(crate) const STDIN: ConnectorInfo = ConnectorInfo {
    name: "stdin",
    options: &[],
    readable_metadata: &[("offset", "BIGINT")],
    writable_metadata: &[],
    is_source: true,
    is_sink: false,
    needs_format: true,
};

/// Writes lines to standard output.
pub(crate) const STDOUT: ConnectorInfo = ConnectorInfo {
    name: "stdout",
    options: &[optional("sink.parallelism", "", "Accepted for Flink scripts; the job's parallelism holds.")],
    readable_metadata: &[],
    writable_metadata: &[],
    is_source: false,
    is_sink: true,
    needs_format: true,
};

type Chunk = io::Result<Vec<Vec<u8>>>;

/// See the module.
pub(crate) struct StdinSource {
    parts: RecordParts,
    keep_empty: bool,
    split: SplitId,
    /// Whether this worker reads it.
    is_mine: bool,
    announced: bool,
    ended: bool,
    /// Lines done in an earlier run, still to be skipped.
    skip: u64,
    position: LinePosition,
    /// The thread that reads; started with the first poll.
    chunks: Option<Receiver<Chunk>>,
    /// Read but not handed out, last line first.
    pending: Vec<Vec<u8>>,
    /// A read failed while nobody polled: told at the next poll.
    failed: Option<RuntimeError>,
}

impl StdinSource {
    pub(crate) fn new(table: &TableSpec, parts: RecordParts, worker: usize) -> Self {
        Self {
            parts,
            keep_empty: table.options.get("format").is_some_and(|format| format == "raw"),
            split: SplitId(Arc::from("stdin")),
            is_mine: worker == 0,
            announced: false,
            ended: false,
            skip: 0,
            position: LinePosition::default(),
            chunks: None,
            pending: Vec::new(),
            failed: None,
        }
    }

    fn take_chunk(&mut self, chunk: Chunk) -> Result<()> {
        let mut lines = chunk.map_err(|error| RuntimeError::Storage {
            action: "read standard input".to_owned(),
            reason: error.to_string(),
        })?;
        lines.reverse();
        self.pending = lines;
        Ok(())
    }

    fn receiver(&mut self) -> &Receiver<Chunk> {
        self.chunks.get_or_insert_with(|| {
            let (sender, receiver) = sync_channel(CHUNKS_AHEAD);
            thread::spawn(move || {
                let mut input = io::BufReader::with_capacity(1 << 16, io::stdin().lock());
                loop {
                    let chunk = read_chunk(&mut input);
                    let (is_end, is_fault) = (chunk.as_ref().is_ok_and(Vec::is_empty), chunk.is_err());
                    if is_end || sender.send(chunk).is_err() || is_fault {
                        return;
                    }
                }
            });
            receiver
        })
    }
}

/// One line at least (blocking), then what is in the buffer already. Empty at the end of the input.
fn read_chunk(input: &mut io::BufReader<io::StdinLock<'_>>) -> Chunk {
    let mut lines = Vec::new();
    loop {
        let mut line = Vec::new();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(lines);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
        }
        lines.push(line);
        if lines.len() == CHUNK_LINES_MAX || memchr::memchr(b'\n', input.buffer()).is_none() {
            return Ok(lines);
        }
    }
}

impl Source for StdinSource {
    fn restore(&mut self, positions: &[(SplitId, SplitPosition)]) -> Result<()> {
        if let Some((_, position)) = positions.iter().find(|(split, _)| *split == self.split) {
            self.skip = LinePosition::from_split(position).map_err(RuntimeError::Recovery)?.line;
        }
        Ok(())
    }

    fn changes(&mut self) -> Result<Vec<SplitChange>> {
        let is_new = self.is_mine && !std::mem::replace(&mut self.announced, true);
        Ok(if is_new { vec![SplitChange::Added(self.split.clone())] } else { Vec::new() })
    }

    fn poll(&mut self, _split: &SplitId, max_rows: usize, into: &mut Records) -> Result<Polled> {
        into.topic = Arc::clone(&self.split.0);
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        while into.len() < max_rows {
            let Some(line) = self.pending.pop() else {
                if self.ended {
                    break;
                }
                match self.receiver().try_recv() {
                    Ok(chunk) => self.take_chunk(chunk)?,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => self.ended = true,
                }
                continue;
            };
            let number = self.position.line;
            self.position.line += 1;
            self.position.byte += line.len() as u64 + 1;
            if number < self.skip || line.is_empty() && !self.keep_empty {
                continue;
            }
            into.values.push(Some(&line));
            into.offsets.push(Offset(i64::try_from(number).unwrap_or(i64::MAX)));
            fill_parts(self.parts, None, into);
        }
        Ok(match (into.is_empty(), self.ended) {
            (false, _) => Polled::Records,
            (true, true) => Polled::End,
            (true, false) => Polled::Pending,
        })
    }

    fn wait(&mut self, timeout: Duration) {
        if !self.is_mine || self.ended {
            return thread::sleep(timeout);
        }
        if !self.pending.is_empty() {
            return;
        }
        match self.receiver().recv_timeout(timeout) {
            Ok(chunk) => self.failed = self.take_chunk(chunk).err(),
            Err(RecvTimeoutError::Disconnected) => self.ended = true,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }

    fn positions(&mut self) -> Result<Vec<(SplitId, SplitPosition)>> {
        Ok(if self.is_mine { vec![(self.split.clone(), self.position.to_split())] } else { Vec::new() })
    }

    fn committed(&mut self, _epoch: Epoch, _positions: &[(SplitId, SplitPosition)]) -> Result<()> {
        Ok(())
    }

    fn is_bounded(&self) -> bool {
        true
    }
}

/// See the module.
pub(crate) struct StdoutSink;

impl Sink for StdoutSink {
    fn takes_records(&self) -> bool {
        true
    }

    fn recover(&mut self, _epoch: Epoch, _prepared: &[Prepared]) -> Result<()> {
        Ok(())
    }

    fn write_batch(&mut self, _batch: &RecordBatch) -> Result<()> {
        Ok(())
    }

    fn write_records(&mut self, records: &OutputRecords) -> Result<Vec<(u32, String)>> {
        let mut buffer = Vec::with_capacity(records.values.byte_len() + records.len());
        for value in records.values.iter().flatten() {
            buffer.extend_from_slice(value);
            buffer.push(b'\n');
        }
        let mut out = io::stdout().lock();
        out.write_all(&buffer)
            .and_then(|()| out.flush())
            .map_err(|error| RuntimeError::Storage { action: "write to standard output".to_owned(), reason: error.to_string() })?;
        Ok(Vec::new())
    }

    fn prepare(&mut self, _epoch: Epoch) -> Result<Prepared> {
        Ok(Prepared(Vec::new()))
    }

    fn commit(&mut self, _epoch: Epoch) -> Result<()> {
        Ok(())
    }
}
