//! The file source: a split per file.
//!
//! Without `source.monitor-interval` the files are listed once and each is read to its end. With it the source never
//! ends: new files become new splits, and known files are read on as they grow. A file belongs to the worker that the
//! hash of its path names, so workers that look at different moments still agree.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use pelton_core::{
    error::{Result, RuntimeError},
    graph::TableSpec,
    options::OptionReader,
    position::{Epoch, Partition, SplitId},
    records::Records,
    source::{Polled, RecordParts, Source, SplitChange, SplitPosition},
};

use super::{
    find::find,
    lines::{LineRules, Lines, LinesRead},
    position::LinePosition,
};

/// See the module.
pub(crate) struct FileSource {
    // Fixed at start.
    path: String,
    parts: RecordParts,
    rules: LineRules,
    monitor: Option<Duration>,
    worker: usize,
    workers: usize,
    // Changing.
    restored: BTreeMap<SplitId, LinePosition>,
    splits: BTreeMap<SplitId, FileSplit>,
    /// Files of all workers that were seen.
    seen: BTreeSet<PathBuf>,
    listed_at: Option<Instant>,
}

/// One file of this worker.
struct FileSplit {
    path: PathBuf,
    position: LinePosition,
    /// Open while there is something to read.
    lines: Option<Lines>,
    /// Read to its end for good.
    done: bool,
}

impl FileSource {
    pub(crate) fn new(table: &TableSpec, parts: RecordParts, worker: usize, workers: usize) -> Result<Self, String> {
        let options = OptionReader(&table.options);
        let path = options.required("path")?.to_owned();
        let monitor = options.duration("source.monitor-interval")?;
        if monitor.is_some_and(|interval| interval.is_zero()) {
            return Err("option 'source.monitor-interval': must be longer than 0".to_owned());
        }
        find(&path)?;
        let is_csv = options.text("format") == Some("csv");
        let has_quotes = is_csv && !options.flag("csv.disable-quote-character", false)? && options.text("csv.escape-character").is_none();
        let quote = options.text("csv.quote-character").and_then(|text| text.bytes().next()).unwrap_or(b'"');
        let rules = LineRules {
            quote: has_quotes.then_some(quote),
            keep_empty: options.text("format") == Some("raw"),
            follow: monitor.is_some(),
        };
        Ok(Self {
            path,
            parts,
            rules,
            monitor,
            worker,
            workers: workers.max(1),
            restored: BTreeMap::new(),
            splits: BTreeMap::new(),
            seen: BTreeSet::new(),
            listed_at: None,
        })
    }

    /// The worker of a file: by its place in the list if the list is final, by the hash of its path if not.
    fn is_mine(&self, index: usize, path: &Path) -> bool {
        let owner = match self.monitor {
            None => index,
            Some(_) => {
                let hash = path.as_os_str().as_encoded_bytes().iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, &byte| {
                    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
                });
                usize::try_from(hash >> 33).unwrap_or(0)
            }
        };
        owner % self.workers == self.worker
    }

    fn fault(&self, path: &Path, error: &std::io::Error) -> RuntimeError {
        RuntimeError::Storage { action: format!("read {}", path.display()), reason: error.to_string() }
    }
}

impl Source for FileSource {
    fn restore(&mut self, positions: &[(SplitId, SplitPosition)]) -> Result<()> {
        for (split, position) in positions {
            let position = LinePosition::from_split(position).map_err(|reason| RuntimeError::Recovery(format!("file {split}: {reason}")))?;
            self.restored.insert(split.clone(), position);
        }
        Ok(())
    }

    fn changes(&mut self) -> Result<Vec<SplitChange>> {
        let is_due = match (self.listed_at, self.monitor) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(last), Some(interval)) => last.elapsed() >= interval,
        };
        if !is_due {
            return Ok(Vec::new());
        }
        self.listed_at = Some(Instant::now());
        let files = match find(&self.path) {
            Ok(files) => files,
            // A folder that is being replaced is looked at again; files that are gone stay read.
            Err(reason) if self.monitor.is_some() => {
                tracing::warn!(path = self.path, reason, "cannot list files");
                return Ok(Vec::new());
            }
            Err(reason) => return Err(RuntimeError::Storage { action: "list files".to_owned(), reason }),
        };
        let mut added = Vec::new();
        for (index, path) in files.into_iter().enumerate() {
            if !self.seen.insert(path.clone()) || !self.is_mine(index, &path) {
                continue;
            }
            let split = SplitId(Arc::from(path.to_string_lossy().as_ref()));
            let position = self.restored.get(&split).copied().unwrap_or_default();
            self.splits.insert(split.clone(), FileSplit { path, position, lines: None, done: false });
            added.push(SplitChange::Added(split));
        }
        Ok(added)
    }

    fn poll(&mut self, split: &SplitId, max_rows: usize, into: &mut Records) -> Result<Polled> {
        let (rules, parts) = (self.rules, self.parts);
        let Some(file) = self.splits.get_mut(split) else { return Ok(Polled::End) };
        into.topic = Arc::clone(&split.0);
        into.partition = Partition(0);
        if file.done {
            return Ok(Polled::End);
        }
        let lines = match &mut file.lines {
            Some(lines) => lines,
            empty => match Lines::open(&file.path, file.position, rules, parts) {
                Ok(lines) => empty.insert(lines),
                Err(error) => {
                    let path = file.path.clone();
                    return Err(self.fault(&path, &error));
                }
            },
        };
        let outcome = lines.read(max_rows, into);
        file.position = lines.position();
        match outcome {
            Ok(LinesRead::AtEnd) if !rules.follow => {
                file.done = true;
                file.lines = None;
                Ok(if into.is_empty() { Polled::End } else { Polled::Records })
            }
            Ok(_) => Ok(if into.is_empty() { Polled::Pending } else { Polled::Records }),
            Err(error) => {
                let path = file.path.clone();
                Err(self.fault(&path, &error))
            }
        }
    }

    fn wait(&mut self, timeout: Duration) {
        thread::sleep(self.monitor.map_or(timeout, |interval| interval.min(timeout)));
    }

    fn positions(&mut self) -> Result<Vec<(SplitId, SplitPosition)>> {
        Ok(self.splits.iter().map(|(split, file)| (split.clone(), file.position.to_split())).collect())
    }

    fn committed(&mut self, _epoch: Epoch, _positions: &[(SplitId, SplitPosition)]) -> Result<()> {
        Ok(())
    }

    fn is_bounded(&self) -> bool {
        self.monitor.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use arrow::datatypes::Schema;

    use super::*;

    fn table(path: &str, more: &[(&str, &str)]) -> TableSpec {
        let mut options = BTreeMap::from([("path".to_owned(), path.to_owned()), ("format".to_owned(), "json".to_owned())]);
        options.extend(more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        TableSpec {
            name: "t".to_owned(),
            options,
            physical: Arc::new(Schema::empty()),
            primary_key: Vec::new(),
            partition_by: Vec::new(),
            line: 1,
        }
    }

    fn added(source: &mut FileSource) -> Vec<SplitId> {
        let changes = source.changes().expect("changes");
        changes.into_iter().filter_map(|change| if let SplitChange::Added(split) = change { Some(split) } else { None }).collect()
    }

    fn drain(source: &mut FileSource, split: &SplitId) -> Vec<String> {
        let mut found = Vec::new();
        loop {
            let mut records = Records::default();
            let polled = source.poll(split, 2, &mut records).expect("poll");
            found.extend(records.values.iter().map(|value| String::from_utf8_lossy(value.unwrap_or_default()).into_owned()));
            if polled != Polled::Records {
                return found;
            }
        }
    }

    #[test]
    fn each_file_is_read_by_one_worker_and_goes_on_after_a_restart() {
        let folder = tempfile::tempdir().expect("temporary folder");
        for name in ["a", "b", "c"] {
            fs::write(folder.path().join(name), format!("{name}1\n{name}2\n{name}3\n")).expect("file");
        }
        let table = table(&folder.path().to_string_lossy(), &[]);
        let mut all = Vec::new();
        let mut positions = Vec::new();
        for worker in 0..2 {
            let mut source = FileSource::new(&table, RecordParts::default(), worker, 2).expect("source");
            for split in added(&mut source) {
                let mut records = Records::default();
                source.poll(&split, 2, &mut records).expect("poll");
                all.extend(records.values.iter().map(|value| String::from_utf8_lossy(value.unwrap_or_default()).into_owned()));
            }
            positions.extend(source.positions().expect("positions"));
        }
        // Another number of workers goes on with the same positions.
        let mut source = FileSource::new(&table, RecordParts::default(), 0, 1).expect("source");
        source.restore(&positions).expect("restore");
        for split in added(&mut source) {
            all.extend(drain(&mut source, &split));
        }
        all.sort();
        assert_eq!(all, ["a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3"]);
    }

    #[test]
    fn a_followed_folder_gives_new_files_and_growth() {
        let folder = tempfile::tempdir().expect("temporary folder");
        fs::write(folder.path().join("a"), "a1\n").expect("file");
        let table = table(&folder.path().to_string_lossy(), &[("source.monitor-interval", "1 ms")]);
        let mut source = FileSource::new(&table, RecordParts::default(), 0, 1).expect("source");
        assert!(!source.is_bounded());
        let splits = added(&mut source);
        assert_eq!(drain(&mut source, &splits[0]), ["a1"]);
        fs::write(folder.path().join("a"), "a1\na2\n").expect("file");
        fs::write(folder.path().join("b"), "b1\n").expect("file");
        source.listed_at = None;
        let more = added(&mut source);
        assert_eq!(more.len(), 1);
        assert_eq!(drain(&mut source, &splits[0]), ["a2"]);
        assert_eq!(drain(&mut source, &more[0]), ["b1"]);
    }

    #[test]
    fn says_which_path_is_missing() {
        let reason = FileSource::new(&table("/no/such/file", &[]), RecordParts::default(), 0, 1).err();
        assert_eq!(reason.as_deref(), Some("path '/no/such/file' does not exist"));
    }
}
