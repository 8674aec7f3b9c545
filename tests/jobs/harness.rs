//! Runs the binary in a folder of its own and reads back what it wrote.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;

/// The binary under test: `$PELTON`, else the one beside this test in the target directory.
pub(crate) fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("PELTON") {
        return PathBuf::from(path);
    }
    let test = std::env::current_exe().expect("a test has a path");
    let path = test.parent().and_then(Path::parent).expect("target/debug/deps").join("pelton");
    assert!(path.exists(), "{} is missing: `make build` first", path.display());
    path
}

/// A folder with a script and its input files.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("create folder");
        fs::write(&path, text).expect("write file");
        path
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(arguments).current_dir(self.path()).stdin(Stdio::null());
        command
    }

    /// Runs `pelton run job.sql` with more arguments, to its end.
    pub(crate) fn run(&self, script: &str, arguments: &[&str]) -> Output {
        self.write("job.sql", script);
        let mut all = vec!["run", "job.sql"];
        all.extend(arguments);
        self.command(&all).output().expect("the binary starts")
    }

    /// Starts `pelton run job.sql` and returns while it runs.
    pub(crate) fn start(&self, script: &str, arguments: &[&str]) -> Child {
        self.write("job.sql", script);
        let mut all = vec!["run", "job.sql"];
        all.extend(arguments);
        self.command(&all).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts")
    }

    /// Rows that `script` prints, as JSON, sorted.
    pub(crate) fn rows(&self, script: &str, arguments: &[&str]) -> Vec<String> {
        let mut all = vec!["--output", "jsonl"];
        all.extend(arguments);
        let output = self.run(script, &all);
        assert!(output.status.success(), "exit {:?}: {}", output.status.code(), text(&output.stderr));
        let mut rows: Vec<_> = text(&output.stdout).lines().map(str::to_owned).collect();
        rows.sort();
        rows
    }

    /// Lines of all visible files under a folder, sorted.
    pub(crate) fn sink_rows(&self, folder: &str) -> Vec<String> {
        let mut rows = Vec::new();
        collect(&self.path().join(folder), &mut rows);
        rows.sort();
        rows
    }
}

fn collect(folder: &Path, rows: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.map(|entry| entry.expect("read folder")) {
        let hidden = entry.file_name().to_string_lossy().starts_with(['.', '_']);
        if hidden {
            continue;
        }
        if entry.path().is_dir() {
            collect(&entry.path(), rows);
        } else {
            rows.extend(fs::read_to_string(entry.path()).expect("read sink file").lines().map(str::to_owned));
        }
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// How often each row is there.
pub(crate) fn count(rows: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for row in rows {
        *counts.entry(row.as_str()).or_default() += 1;
    }
    counts
}

pub(crate) fn json(row: &str) -> Value {
    serde_json::from_str(row).unwrap_or_else(|e| panic!("{row}: {e}"))
}

/// Seeded numbers, the same on every machine: a test prints the seed and `SEED=…` repeats it.
pub(crate) fn seed() -> u64 {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(|| {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").subsec_nanos().into()
    });
    eprintln!("SEED={seed}");
    seed
}
