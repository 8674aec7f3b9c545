//! The file sink: part files that appear with their checkpoint, whole and once.
//!
//! While it is written a part is hidden: `.part-RUN-EPOCH-WORKER-N.ENDING`. `prepare` brings its bytes to the disk,
//! `commit` renames it to the same name without the dot. After a crash the parts that the last durable epoch prepared
//! are renamed, and every other hidden part of the same run is removed: its rows will be written again. A part that is
//! visible is never written to, replaced or removed. Records that a router sent to a topic go to parts in a sub-folder
//! of the topic's name.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use arrow::array::RecordBatch;
use pelton_core::{
    error::{Result, RuntimeError},
    options::OptionReader,
    position::Epoch,
    records::OutputRecords,
    sink::{Prepared, Sink},
};

use super::local_path;
use crate::SinkContext;

/// Default of `sink.rolling-policy.file-size`, as Flink's.
const FILE_BYTES_MAX: u64 = 128 << 20;

/// See the module.
pub(crate) struct FileSink {
    // Fixed at start.
    folder: PathBuf,
    run: String,
    worker: usize,
    workers: usize,
    ending: &'static str,
    file_bytes_max: u64,
    // Changing.
    /// The epoch that rows written now belong to.
    epoch: Epoch,
    parts_begun: u64,
    /// Parts being written, by sub-folder; the folder itself is the empty one.
    open: BTreeMap<String, Part>,
    /// Closed parts of the current epoch, by visible name, sub-folder included.
    closed: Vec<String>,
    /// Prepared, not yet committed.
    prepared: Vec<(Epoch, Vec<String>)>,
}

struct Part {
    name: String,
    writer: BufWriter<File>,
    bytes: u64,
}

impl FileSink {
    pub(crate) fn new(context: &SinkContext<'_>) -> Result<Self, String> {
        let options = OptionReader(&context.table.options);
        let path = options.required("path")?;
        let folder = PathBuf::from(local_path(path)?);
        if !context.table.partition_by.is_empty() {
            return Err("PARTITIONED BY is not supported by connector 'filesystem': write to one table per partition".to_owned());
        }
        if folder.is_file() {
            return Err(format!("path '{path}' is a file; a sink writes part files into a folder"));
        }
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if context.run.is_empty() || !context.run.bytes().all(is_word) {
            return Err(format!("'{}' cannot be part of a file name", context.run));
        }
        let ending = match options.text("format") {
            Some("json") => ".jsonl",
            Some("csv") => ".csv",
            _ => "",
        };
        Ok(Self {
            folder,
            run: context.run.to_owned(),
            worker: context.worker,
            workers: context.workers.max(1),
            ending,
            file_bytes_max: options.bytes("sink.rolling-policy.file-size")?.unwrap_or(FILE_BYTES_MAX),
            epoch: Epoch(1),
            parts_begun: 0,
            open: BTreeMap::new(),
            closed: Vec::new(),
            prepared: Vec::new(),
        })
    }

    fn hidden(&self, name: &str) -> PathBuf {
        match name.rsplit_once('/') {
            Some((sub_folder, name)) => self.folder.join(sub_folder).join(format!(".{name}")),
            None => self.folder.join(format!(".{name}")),
        }
    }

    fn fault(&self, verb: &str, path: &Path, error: &io::Error) -> RuntimeError {
        RuntimeError::Storage { action: format!("{verb} {}", path.display()), reason: error.to_string() }
    }

    fn begin_part(&mut self, sub_folder: &str) -> Result<()> {
        let folder = self.folder.join(sub_folder);
        fs::create_dir_all(&folder).map_err(|error| self.fault("create folder", &folder, &error))?;
        let slash = if sub_folder.is_empty() { "" } else { "/" };
        let name = format!("{sub_folder}{slash}part-{}-{}-{}-{}{}", self.run, self.epoch, self.worker, self.parts_begun, self.ending);
        self.parts_begun += 1;
        let path = self.hidden(&name);
        let file = File::create(&path).map_err(|error| self.fault("create", &path, &error))?;
        self.open.insert(sub_folder.to_owned(), Part { name, writer: BufWriter::with_capacity(1 << 18, file), bytes: 0 });
        Ok(())
    }

    /// Closes the open part of a sub-folder; its bytes are on the disk afterwards.
    fn close_part(&mut self, sub_folder: &str) -> Result<()> {
        let Some(part) = self.open.remove(sub_folder) else { return Ok(()) };
        let path = self.hidden(&part.name);
        let file = part.writer.into_inner().map_err(|error| self.fault("write", &path, error.error()))?;
        file.sync_all().map_err(|error| self.fault("flush", &path, &error))?;
        self.closed.push(part.name);
        Ok(())
    }

    /// Makes a part visible; nothing to do if that happened before.
    fn publish(&self, name: &str) -> Result<()> {
        let hidden = self.hidden(name);
        let visible = self.folder.join(name);
        if !hidden.exists() {
            return Ok(());
        }
        // A hidden part has not been renamed yet: a visible one of the same name comes from elsewhere and stays.
        let mut target = visible.clone();
        let mut copy = 1;
        while target.exists() {
            target = self.folder.join(format!("{}~{copy}{}", name.trim_end_matches(self.ending), self.ending));
            copy += 1;
        }
        fs::rename(&hidden, &target).map_err(|error| self.fault("rename", &hidden, &error))
    }

    fn sync_folder(&self) -> Result<()> {
        match File::open(&self.folder).and_then(|folder| folder.sync_all()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.fault("flush folder", &self.folder, &error)),
            _ => Ok(()),
        }
    }

    /// Removes hidden parts of this run that `mine` picks.
    fn remove_hidden(&self, mine: impl Fn(&str) -> bool) -> Result<()> {
        self.remove_hidden_in(&self.folder, &mine)?;
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.remove_hidden_in(&entry.path(), &mine)?;
            }
        }
        Ok(())
    }

    fn remove_hidden_in(&self, folder: &Path, mine: &impl Fn(&str) -> bool) -> Result<()> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(self.fault("list", folder, &error)),
        };
        let prefix = format!(".part-{}-", self.run);
        for entry in entries {
            let entry = entry.map_err(|error| self.fault("list", folder, &error))?;
            let name = entry.file_name();
            if let Some(rest) = name.to_string_lossy().strip_prefix(&prefix)
                && mine(rest)
            {
                fs::remove_file(entry.path()).map_err(|error| self.fault("remove", &entry.path(), &error))?;
            }
        }
        Ok(())
    }
}

impl Sink for FileSink {
    fn takes_records(&self) -> bool {
        true
    }

    /// Each worker removes what its own number left behind, worker 0 also that of numbers that are no more: the others
    /// may be writing already.
    fn recover(&mut self, epoch: Epoch, prepared: &[Prepared]) -> Result<()> {
        self.epoch = epoch.next();
        let mut names = Vec::new();
        for entry in prepared {
            let text = std::str::from_utf8(&entry.0)
                .map_err(|_| RuntimeError::Recovery(format!("the list of parts of epoch {epoch} is not text")))?;
            names.extend(text.lines());
        }
        for name in names {
            self.publish(name)?;
        }
        let (worker, workers) = (self.worker, self.workers);
        // Parts of the durable epoch are spared: another worker may be about to publish them.
        self.remove_hidden(|rest| {
            part_origin(rest).is_some_and(|(found, by)| found > epoch && (by == worker || worker == 0 && by >= workers))
        })?;
        self.sync_folder()
    }

    fn write_batch(&mut self, _batch: &RecordBatch) -> Result<()> {
        Ok(())
    }

    fn write_records(&mut self, records: &OutputRecords) -> Result<Vec<(u32, String)>> {
        let limit = self.file_bytes_max;
        for (row, value) in records.values.iter().enumerate() {
            let Some(value) = value else { continue };
            let sub_folder = records.topics.get(row).and_then(Option::as_deref).map(folder_name).unwrap_or_default();
            if self.open.get(&sub_folder).is_some_and(|part| part.bytes >= limit) {
                self.close_part(&sub_folder)?;
            }
            if !self.open.contains_key(&sub_folder) {
                self.begin_part(&sub_folder)?;
            }
            let Some(part) = self.open.get_mut(&sub_folder) else { continue };
            part.bytes += value.len() as u64 + 1;
            if let Err(error) = part.writer.write_all(value).and_then(|()| part.writer.write_all(b"\n")) {
                let path = self.folder.clone();
                return Err(self.fault("write a part in", &path, &error));
            }
        }
        Ok(Vec::new())
    }

    fn prepare(&mut self, epoch: Epoch) -> Result<Prepared> {
        let sub_folders: Vec<String> = self.open.keys().cloned().collect();
        for sub_folder in &sub_folders {
            self.close_part(sub_folder)?;
        }
        let names = std::mem::take(&mut self.closed);
        if !names.is_empty() {
            self.sync_folder()?;
        }
        let list = Prepared(names.join("\n").into_bytes());
        self.prepared.push((epoch, names));
        self.epoch = epoch.next();
        Ok(list)
    }

    fn commit(&mut self, epoch: Epoch) -> Result<()> {
        let (now, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.prepared).into_iter().partition(|(of, _)| *of <= epoch);
        self.prepared = later;
        let mut any = false;
        for name in now.iter().flat_map(|(_, names)| names) {
            self.publish(name)?;
            any = true;
        }
        if any { self.sync_folder() } else { Ok(()) }
    }
}

/// A topic as the name of a folder: what could lead elsewhere or hide it becomes `_`.
fn folder_name(topic: &str) -> String {
    let safe = |c: char| if c.is_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' };
    let name: String = topic.chars().map(safe).collect();
    match name.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None => name,
    }
}

/// Epoch and worker in a part's name behind the run: `7-0-3.jsonl` → 7, 0.
fn part_origin(rest: &str) -> Option<(Epoch, usize)> {
    let mut numbers = rest.split('-');
    Some((Epoch(numbers.next()?.parse().ok()?), numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use arrow::datatypes::Schema;
    use pelton_core::graph::TableSpec;

    use super::*;

    fn sink(folder: &Path, run: &str, more: &[(&str, &str)]) -> FileSink {
        let mut options = BTreeMap::from([
            ("path".to_owned(), folder.to_string_lossy().into_owned()),
            ("format".to_owned(), "json".to_owned()),
        ]);
        options.extend(more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        let table = TableSpec {
            name: "out".to_owned(),
            options,
            physical: Arc::new(Schema::empty()),
            primary_key: Vec::new(),
            partition_by: Vec::new(),
            line: 1,
        };
        FileSink::new(&SinkContext { table: &table, run, worker: 0, workers: 1, print_rows: |_, _| Ok(()) }).expect("sink")
    }

    fn write(sink: &mut FileSink, rows: &[&str]) {
        let mut records = OutputRecords::default();
        rows.iter().for_each(|row| records.values.push(Some(row.as_bytes())));
        assert!(sink.write_records(&records).expect("write").is_empty());
    }

    fn visible(folder: &Path) -> Vec<String> {
        let mut rows = Vec::new();
        for entry in fs::read_dir(folder).expect("folder") {
            let entry = entry.expect("entry");
            if !entry.file_name().to_string_lossy().starts_with('.') {
                rows.extend(fs::read_to_string(entry.path()).expect("part").lines().map(str::to_owned));
            }
        }
        rows.sort();
        rows
    }

    #[test]
    fn rows_appear_with_their_commit_and_not_before() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut sink = sink(folder.path(), "run", &[]);
        sink.recover(Epoch(0), &[]).expect("recover");
        write(&mut sink, &["1"]);
        sink.prepare(Epoch(1)).expect("prepare");
        write(&mut sink, &["2"]);
        assert!(visible(folder.path()).is_empty());
        sink.commit(Epoch(1)).expect("commit");
        assert_eq!(visible(folder.path()), ["1"]);
        sink.commit(Epoch(1)).expect("commit again");
        assert_eq!(visible(folder.path()), ["1"]);
        sink.prepare(Epoch(2)).expect("prepare");
        sink.commit(Epoch(2)).expect("commit");
        assert_eq!(visible(folder.path()), ["1", "2"]);
    }

    #[test]
    fn recovery_finishes_the_durable_epoch_and_removes_later_ones() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut crashed = sink(folder.path(), "run", &[]);
        crashed.recover(Epoch(0), &[]).expect("recover");
        write(&mut crashed, &["1"]);
        let durable = crashed.prepare(Epoch(1)).expect("prepare");
        write(&mut crashed, &["2"]);
        crashed.prepare(Epoch(2)).expect("prepare");
        write(&mut crashed, &["3"]);
        drop(crashed);
        fs::write(folder.path().join(".part-other-9-0-0.jsonl"), "x").expect("part of another job");
        for _ in 0..2 {
            let mut next = sink(folder.path(), "run", &[]);
            next.recover(Epoch(1), std::slice::from_ref(&durable)).expect("recover");
            assert_eq!(visible(folder.path()), ["1"]);
            let left: Vec<_> = fs::read_dir(folder.path()).expect("folder").filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
            assert_eq!(left.iter().filter(|name| name.starts_with('.')).collect::<Vec<_>>(), [".part-other-9-0-0.jsonl"]);
        }
    }

    #[test]
    fn a_second_run_of_the_same_name_replaces_nothing() {
        let folder = tempfile::tempdir().expect("temporary folder");
        for row in ["first", "second"] {
            let mut sink = sink(folder.path(), "run", &[]);
            sink.recover(Epoch(0), &[]).expect("recover");
            write(&mut sink, &[row]);
            sink.prepare(Epoch(1)).expect("prepare");
            sink.commit(Epoch(1)).expect("commit");
        }
        assert_eq!(visible(folder.path()), ["first", "second"]);
    }

    #[test]
    fn records_with_a_topic_go_to_its_folder_and_are_recovered_there() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut crashed = sink(folder.path(), "run", &[]);
        crashed.recover(Epoch(0), &[]).expect("recover");
        let mut records = OutputRecords::default();
        for (value, topic) in [("1", "ai.code"), ("2", "../x"), ("3", "ai.code")] {
            records.values.push(Some(value.as_bytes()));
            records.topics.push(Some(topic.into()));
        }
        crashed.write_records(&records).expect("write");
        let durable = crashed.prepare(Epoch(1)).expect("prepare");
        crashed.write_records(&records).expect("write");
        drop(crashed);
        sink(folder.path(), "run", &[]).recover(Epoch(1), &[durable]).expect("recover");
        assert_eq!(visible(&folder.path().join("ai.code")), ["1", "3"]);
        assert_eq!(visible(&folder.path().join("_._x")), ["2"]);
        assert_eq!(fs::read_dir(folder.path().join("ai.code")).expect("folder").count(), 1);
    }

    #[test]
    fn parts_roll_at_their_size() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let mut sink = sink(folder.path(), "run", &[("sink.rolling-policy.file-size", "4 b")]);
        write(&mut sink, &["aaa", "bbb", "ccc"]);
        sink.prepare(Epoch(1)).expect("prepare");
        sink.commit(Epoch(1)).expect("commit");
        assert_eq!(fs::read_dir(folder.path()).expect("folder").count(), 3);
    }
}
