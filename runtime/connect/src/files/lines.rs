//! Reading one file line by line, straight into records.
//!
//! Promises: a line is what stands between two line feeds, a carriage return before the line feed not counted; the
//! last line needs no line feed, unless the file is followed: then it is not finished yet. With a quote character
//! (csv), a line feed inside quotes does not end a record. Memory is bounded: one chunk, and at most
//! [`RECORD_BYTES_MAX`] for a record.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use pelton_core::{
    position::Offset,
    records::Records,
    source::RecordParts,
    time::EventTime,
};

use super::position::{LinePosition, fill_parts};

/// Read from the file at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// A record may be this long; a longer one is a file of another kind, or a quote that is never closed.
pub(crate) const RECORD_BYTES_MAX: usize = 64 << 20;
/// Bytes of records handed out in one poll.
const POLL_BYTES_MAX: usize = 8 << 20;

/// What ends records and which are left out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineRules {
    /// Line feeds between two of these do not end a record.
    pub(crate) quote: Option<u8>,
    /// Empty lines are records.
    pub(crate) keep_empty: bool,
    /// The file may grow: its end is not the end.
    pub(crate) follow: bool,
}

/// Outcome of one reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinesRead {
    /// Stopped at a limit; more is there.
    More,
    /// At the end of what is there.
    AtEnd,
}

/// An open file.
pub(crate) struct Lines {
    input: Box<dyn Read + Send>,
    rules: LineRules,
    parts: RecordParts,
    time: Option<EventTime>,
    position: LinePosition,
    /// Bytes read; those before `start` are handed out.
    buffer: Vec<u8>,
    /// Where the current record begins.
    start: usize,
    /// Where the search for its end goes on.
    scan: usize,
    /// Line feeds inside the current record so far.
    inner_lines: u64,
    in_quotes: bool,
    /// The input gave nothing more at the last read.
    drained: bool,
}

impl Lines {
    /// Opens a file at a position that an earlier reading gave.
    pub(crate) fn open(path: &Path, position: LinePosition, rules: LineRules, parts: RecordParts) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        let mut input: Box<dyn Read + Send> = match ending.as_str() {
            "gz" | "gzip" => Box::new(flate2::read::MultiGzDecoder::new(io::BufReader::with_capacity(CHUNK_BYTES, file))),
            "zst" | "zstd" => Box::new(zstd::stream::read::Decoder::new(file)?),
            _ => {
                let length = file.metadata()?.len();
                if length < position.byte {
                    return Err(io::Error::other(format!("it has {length} bytes, but {} were read before: it was cut", position.byte)));
                }
                file.seek(SeekFrom::Start(position.byte))?;
                return Ok(Self::new(Box::new(file), position, rules, parts, path));
            }
        };
        // What is packed can only be read from its start.
        let skipped = io::copy(&mut input.by_ref().take(position.byte), &mut io::sink())?;
        if skipped < position.byte {
            return Err(io::Error::other(format!("it holds {skipped} bytes, but {} were read before: it was cut", position.byte)));
        }
        Ok(Self::new(input, position, rules, parts, path))
    }

    fn new(input: Box<dyn Read + Send>, position: LinePosition, rules: LineRules, parts: RecordParts, path: &Path) -> Self {
        let time = parts.timestamps.then(|| crate::metadata::modified_ms(path).map(EventTime::from_millis)).flatten();
        Self {
            input,
            rules,
            parts,
            time,
            position,
            buffer: Vec::new(),
            start: 0,
            scan: 0,
            inner_lines: 0,
            in_quotes: false,
            drained: false,
        }
    }

    /// After the last record handed out (and the empty lines behind it).
    pub(crate) fn position(&self) -> LinePosition {
        self.position
    }

    /// Appends records until `max_rows`, the limit in bytes, or the end of what is there.
    pub(crate) fn read(&mut self, max_rows: usize, into: &mut Records) -> io::Result<LinesRead> {
        self.drained = false;
        loop {
            if into.len() >= max_rows || into.values.byte_len() >= POLL_BYTES_MAX {
                return Ok(LinesRead::More);
            }
            if self.hand_out(max_rows, into) {
                continue;
            }
            if self.drained {
                if !self.rules.follow {
                    self.last_record(into)?;
                }
                return Ok(LinesRead::AtEnd);
            }
            self.fill()?;
        }
    }

    /// Hands out the records whose end is in the buffer; whether it stopped for another reason than the buffer's end.
    fn hand_out(&mut self, max_rows: usize, into: &mut Records) -> bool {
        let Self { buffer, rules, parts, time, position, .. } = self;
        let bytes = buffer.as_slice();
        let (mut start, mut scan) = (self.start, self.scan);
        let mut stopped = false;
        for found in memchr::memchr_iter(b'\n', &bytes[scan..]).map(|found| found + self.scan) {
            if let Some(quote) = rules.quote {
                let quotes = memchr::memchr_iter(quote, &bytes[scan..found]).count();
                self.in_quotes ^= quotes % 2 == 1;
                if self.in_quotes {
                    self.inner_lines += 1;
                    scan = found + 1;
                    continue;
                }
            }
            push(&bytes[start..found], position, self.inner_lines, rules.keep_empty, *parts, *time, into);
            position.byte += 1;
            position.line += 1;
            self.inner_lines = 0;
            start = found + 1;
            scan = start;
            if into.len() >= max_rows || into.values.byte_len() >= POLL_BYTES_MAX {
                stopped = true;
                break;
            }
        }
        self.start = start;
        if stopped {
            self.scan = start;
            return true;
        }
        if let Some(quote) = rules.quote {
            let quotes = memchr::memchr_iter(quote, &bytes[scan..]).count();
            self.in_quotes ^= quotes % 2 == 1;
        }
        self.scan = bytes.len();
        false
    }

    fn last_record(&mut self, into: &mut Records) -> io::Result<()> {
        if self.in_quotes {
            return Err(io::Error::other(format!("the quote opened in line {} is never closed", self.position.line + 1)));
        }
        if self.start < self.buffer.len() {
            let bytes = &self.buffer[self.start..];
            push(bytes, &mut self.position, self.inner_lines, self.rules.keep_empty, self.parts, self.time, into);
            self.position.line += 1;
            self.start = self.buffer.len();
            self.scan = self.start;
        }
        Ok(())
    }

    /// Reads on; what is handed out makes room first.
    fn fill(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.scan -= self.start;
            self.start = 0;
        }
        let length = self.buffer.len();
        if length > RECORD_BYTES_MAX {
            let hint = if self.in_quotes { "; a quote opened there is not closed" } else { "" };
            return Err(io::Error::other(format!("the record in line {} is longer than 64 MiB{hint}", self.position.line + 1)));
        }
        self.buffer.resize(length + CHUNK_BYTES, 0);
        let read = loop {
            match self.input.read(&mut self.buffer[length..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(length + *read.as_ref().unwrap_or(&0));
        self.drained = read? == 0;
        Ok(())
    }
}

/// Pushes one line (without its line feed) and moves the position behind it.
fn push(line: &[u8], position: &mut LinePosition, inner_lines: u64, keep_empty: bool, parts: RecordParts, time: Option<EventTime>, into: &mut Records) {
    let first_line = position.line;
    position.byte += line.len() as u64;
    position.line += inner_lines;
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() && !keep_empty {
        return;
    }
    into.values.push(Some(line));
    into.offsets.push(Offset(i64::try_from(first_line).unwrap_or(i64::MAX)));
    fill_parts(parts, time, into);
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const PLAIN: LineRules = LineRules { quote: None, keep_empty: false, follow: false };

    fn rest(path: &Path, rules: LineRules, position: LinePosition, max_rows: usize) -> (Vec<(i64, String)>, LinePosition) {
        let mut lines = Lines::open(path, position, rules, RecordParts::default()).expect("open");
        let mut found = Vec::new();
        loop {
            let mut records = Records::default();
            let outcome = lines.read(max_rows, &mut records).expect("read");
            for (value, offset) in records.values.iter().zip(&records.offsets) {
                found.push((offset.0, String::from_utf8_lossy(value.unwrap_or_default()).into_owned()));
            }
            if outcome == LinesRead::AtEnd {
                return (found, lines.position());
            }
        }
    }

    fn file(folder: &tempfile::TempDir, name: &str, content: &[u8]) -> std::path::PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("write");
        path
    }

    #[test]
    fn numbers_lines_and_leaves_empty_ones_out_whatever_the_batch_size() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = file(&folder, "a", b"one\r\n\ntwo\n\r\nthree");
        for max_rows in [1, 2, 100] {
            let (lines, position) = rest(&path, PLAIN, LinePosition::default(), max_rows);
            assert_eq!(lines, [(0, "one".to_owned()), (2, "two".to_owned()), (4, "three".to_owned())]);
            assert_eq!(position, LinePosition { byte: 17, line: 5 });
        }
        let (lines, _) = rest(&path, LineRules { keep_empty: true, ..PLAIN }, LinePosition::default(), 9);
        assert_eq!(lines.len(), 5);
    }

    #[test]
    fn goes_on_where_it_stood_also_in_packed_files() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let text = b"first\nsecond\nthird\n";
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(text).expect("gzip");
        let packed = gzip.finish().expect("gzip");
        let zstd = zstd::encode_all(&text[..], 1).expect("zstd");
        for (name, content) in [("a.jsonl", text.to_vec()), ("a.gz", packed), ("a.zst", zstd)] {
            let path = file(&folder, name, &content);
            let mut lines = Lines::open(&path, LinePosition::default(), PLAIN, RecordParts::default()).expect("open");
            let mut records = Records::default();
            assert_eq!(lines.read(1, &mut records).expect("read"), LinesRead::More);
            assert_eq!(lines.position(), LinePosition { byte: 6, line: 1 });
            let (found, _) = rest(&path, PLAIN, lines.position(), 10);
            assert_eq!(found, [(1, "second".to_owned()), (2, "third".to_owned())], "{name}");
        }
    }

    #[test]
    fn keeps_csv_records_with_line_breaks_together() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = file(&folder, "a.csv", b"1,\"two\nlines\"\n2,\"say \"\"hi\"\"\"\n3,x\n");
        let rules = LineRules { quote: Some(b'"'), ..PLAIN };
        for max_rows in [1, 10] {
            let (lines, _) = rest(&path, rules, LinePosition::default(), max_rows);
            assert_eq!(lines, [(0, "1,\"two\nlines\"".to_owned()), (2, "2,\"say \"\"hi\"\"\"".to_owned()), (3, "3,x".to_owned())]);
        }
        let path = file(&folder, "b.csv", b"1,\"never closed\n2,x\n");
        let mut lines = Lines::open(&path, LinePosition::default(), rules, RecordParts::default()).expect("open");
        let error = lines.read(10, &mut Records::default()).expect_err("quote is open");
        assert_eq!(error.to_string(), "the quote opened in line 1 is never closed");
    }

    #[test]
    fn a_followed_file_keeps_its_unfinished_line_back_until_it_is_finished() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = file(&folder, "a", b"one\ntw");
        let rules = LineRules { follow: true, ..PLAIN };
        let mut lines = Lines::open(&path, LinePosition::default(), rules, RecordParts::default()).expect("open");
        let mut records = Records::default();
        assert_eq!(lines.read(10, &mut records).expect("read"), LinesRead::AtEnd);
        assert_eq!(records.len(), 1);
        assert_eq!(lines.position(), LinePosition { byte: 4, line: 1 });
        let mut writer = std::fs::OpenOptions::new().append(true).open(&path).expect("append");
        writer.write_all(b"o\n").expect("append");
        records.clear();
        lines.read(10, &mut records).expect("read");
        assert_eq!(records.values.get(0), Some(&b"two"[..]));
    }

    #[test]
    fn long_lines_cross_chunks() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let long = "x".repeat(3 * CHUNK_BYTES + 5);
        let path = file(&folder, "a", format!("{long}\nshort\n{long}").as_bytes());
        let (lines, _) = rest(&path, PLAIN, LinePosition::default(), 100);
        assert_eq!(lines.iter().map(|(_, line)| line.len()).collect::<Vec<_>>(), [long.len(), 5, long.len()]);
    }
}
