//! The house rules that can be checked: who may depend on whom, who may name what, and that the documents are true.
//!
//! Each test names the rule, and its message the way out.

#![expect(clippy::expect_used, reason = "a test may stop at what it cannot read")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    process::Command,
};

use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

fn tracked_files() -> Vec<PathBuf> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().expect("git runs");
    output
        .stdout
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| PathBuf::from(String::from_utf8_lossy(name).as_ref()))
        .filter(|path| root().join(path).is_file())
        .collect()
}

/// Direct dependencies of each of our crates, without those for tests.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    packages
        .iter()
        .filter(|package| package["source"].is_null())
        .map(|package| {
            let name = package["name"].as_str().expect("name").to_owned();
            let direct = package["dependencies"].as_array().expect("dependencies").iter();
            let direct = direct.filter(|d| d["kind"].is_null()).map(|d| d["name"].as_str().expect("name").to_owned());
            (name, direct.collect())
        })
        .collect()
}

#[test]
fn crates_depend_downwards_only() {
    // A crate may use those to its right. What is not listed may be used by nobody outside its own line.
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("pelton-core", &[][..]),
        ("pelton-formats", &["pelton-core"]),
        ("pelton-state", &["pelton-core"]),
        ("pelton-kafka", &["pelton-core"]),
        ("pelton-connect", &["pelton-core"]),
        ("pelton-plugin-host", &["pelton-core"]),
        ("pelton-plugin-bundle", &[]),
        ("pelton-sql-expr", &["pelton-core"]),
        ("pelton-sql-operators", &["pelton-core", "pelton-sql-expr"]),
        ("pelton-sql", &["pelton-core", "pelton-sql-expr", "pelton-sql-operators"]),
        (
            "pelton-engine",
            &["pelton-core", "pelton-formats", "pelton-state", "pelton-kafka", "pelton-connect", "pelton-plugin-host", "pelton-sql"],
        ),
        ("pelton-cli", &["pelton-core", "pelton-engine", "pelton-formats", "pelton-plugin-host", "pelton-sql", "pelton-state"]),
        ("pelton-testkit", &["pelton-core", "pelton-engine", "pelton-formats", "pelton-sql", "pelton-state"]),
        ("pelton", &[]),
    ]);
    for (name, direct) in dependencies() {
        let may = allowed.get(name.as_str()).unwrap_or_else(|| panic!("{name} is new: give it a line in this test"));
        for dependency in direct.iter().filter(|d| d.starts_with("pelton")) {
            assert!(may.contains(&dependency.as_str()), "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn each_engine_of_others_is_named_by_one_crate() {
    let owners: [(&str, &[&str]); 4] = [
        ("datafusion", &["pelton-sql", "pelton-sql-expr", "pelton-sql-operators", "pelton-testkit"]),
        ("wasmtime", &["pelton-plugin-host"]),
        ("rdkafka", &["pelton-kafka"]),
        ("rocksdb", &["pelton-state"]),
    ];
    for (name, direct) in dependencies() {
        for (engine, owner) in owners {
            if direct.iter().any(|d| d == engine || d.starts_with(&format!("{engine}-"))) {
                assert!(owner.contains(&name.as_str()), "{name} names {engine}; only {} may", owner.join(", "));
            }
        }
    }
}

#[test]
fn arrow_exists_once_and_everything_comes_from_the_registry() {
    let metadata = metadata();
    let mut arrows = BTreeSet::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("name");
        if name == "arrow" || name == "arrow-array" || name == "arrow-schema" {
            let version = package["version"].as_str().expect("version");
            arrows.insert(version.split('.').next().expect("major").to_owned());
        }
        if let Some(source) = package["source"].as_str() {
            assert!(source.starts_with("registry+"), "{name} comes from {source}; use the Rust registry");
        }
    }
    assert_eq!(arrows.into_iter().collect::<Vec<_>>(), ["59"], "arrow must exist once, at 59");
}

#[test]
fn every_source_file_says_what_it_is() {
    for path in tracked_files().iter().filter(|path| path.extension().is_some_and(|e| e == "rs")) {
        let text = fs::read_to_string(root().join(path)).expect("tracked file reads");
        assert!(text.starts_with("//!"), "{} does not open with a `//!` line that says what it is", path.display());
    }
}

#[test]
fn core_and_sql_read_no_clock_and_start_nothing() {
    let forbidden = ["SystemTime::now", "Instant::now", "thread::spawn", "thread::sleep", "rand::", "Utc::now", "Local::now", "std::fs", "std::net"];
    let homes = ["runtime/core/src", "sql/src", "sql/expr/src", "sql/operators/src"];
    for path in tracked_files() {
        let is_test = path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs");
        if is_test || !homes.iter().any(|home| path.starts_with(home)) || path.extension().is_none_or(|e| e != "rs") {
            continue;
        }
        let text = fs::read_to_string(root().join(&path)).expect("tracked file reads");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for word in forbidden {
                let named = line.match_indices(word).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
                assert!(!named, "{}:{}: `{word}`: take it from the caller", path.display(), number + 1);
            }
        }
    }
}

#[test]
fn every_path_that_the_documents_name_exists() {
    for document in ["ARCHITECTURE.md", "README.md"] {
        let text = fs::read_to_string(root().join(document)).unwrap_or_else(|e| panic!("{document}: {e}"));
        let mut named = 0;
        for word in text.split(|c: char| c.is_whitespace() || "`()[],;".contains(c)) {
            let word = word.trim_end_matches(['.', ':']);
            let is_path = word.contains('/')
                && ["runtime/", "sql/", "plugins/", "wit/", "tests/", "benches/", "examples/", "docs/", "dev/"].iter().any(|p| word.starts_with(p))
                && !word.contains(['*', '<', '{', '…', '$']);
            if is_path {
                named += 1;
                assert!(root().join(word).exists(), "{document} names {word}, which does not exist");
            }
        }
        assert!(named > 0, "{document} names no file");
    }
}

#[test]
fn no_file_carries_a_machine_path() {
    let marks = [["/ro", "ot/"].concat(), ["/wo", "rk/"].concat(), ["/ho", "me/"].concat()];
    for path in tracked_files() {
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        for mark in &marks {
            for (number, line) in text.lines().enumerate() {
                assert!(!mentions(line, mark), "{}:{}: a path of one machine: {mark}", path.display(), number + 1);
            }
        }
    }
}

/// Whether `line` holds `mark` as the beginning of an absolute path, not inside a longer one.
fn mentions(line: &str, mark: &str) -> bool {
    line.match_indices(mark).any(|(at, _)| at == 0 || !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}$".contains(c)))
}
