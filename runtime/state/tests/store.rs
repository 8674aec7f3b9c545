//! The store against the in-memory one on random changes, and what holds after crashes, damage and second openings.

#![expect(clippy::expect_used, reason = "a test may stop at what it cannot do")]

use std::{
    fs,
    ops::ControlFlow,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use pelton_core::{
    error::RuntimeError,
    position::Epoch,
    state::{ChangeSet, MemoryBackend, StateBackend, StateKind},
};
use pelton_state::{StateSettings, Store};
use rand::{Rng, SeedableRng, rngs::SmallRng};

fn settings(dir: &Path) -> StateSettings {
    StateSettings { dir: dir.to_owned(), memory_bytes: 8 << 20 }
}

fn open(dir: &Path) -> Store {
    Store::open(&settings(dir)).expect("the store opens")
}

fn put(key: &str, value: &str) -> Vec<Arc<ChangeSet>> {
    let mut changes = ChangeSet::default();
    changes.put(StateKind::Panes, key.as_bytes().to_vec(), value.as_bytes().to_vec());
    vec![Arc::new(changes)]
}

fn get(store: &dyn StateBackend, key: &str) -> Option<String> {
    let value = store.get(StateKind::Panes, key.as_bytes()).expect("read");
    value.map(|bytes| String::from_utf8(bytes).expect("text"))
}

fn rows(store: &dyn StateBackend, kind: StateKind, from: &[u8], to: Option<&[u8]>, most: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let visit = &mut |key: &[u8], value: &[u8]| {
        rows.push((key.to_vec(), value.to_vec()));
        if rows.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    store.scan(kind, from, to, visit).expect("scan");
    rows
}

#[derive(Debug, Clone)]
enum Change {
    Put(usize, Vec<u8>, Vec<u8>),
    Delete(usize, Vec<u8>),
    DeleteRange(usize, Vec<u8>, Vec<u8>),
}

const KINDS: [StateKind; 2] = [StateKind::Panes, StateKind::JoinRows];

/// Few short keys, so that changes meet.
fn key(random: &mut SmallRng) -> Vec<u8> {
    (0..random.random_range(0..4)).map(|_| [0, 1, 255][random.random_range(0..3)]).collect()
}

fn change(random: &mut SmallRng) -> Change {
    let kind = random.random_range(0..2);
    match random.random_range(0..5) {
        0 => Change::Delete(kind, key(random)),
        1 => {
            let (a, b) = (key(random), key(random));
            Change::DeleteRange(kind, a.clone().min(b.clone()), a.max(b))
        }
        _ => Change::Put(kind, key(random), (0..random.random_range(0..6)).map(|_| random.random()).collect()),
    }
}

fn change_set(changes: &[Change]) -> Vec<Arc<ChangeSet>> {
    let mut set = ChangeSet::default();
    for change in changes.iter().cloned() {
        match change {
            Change::Put(kind, key, value) => set.put(KINDS[kind], key, value),
            Change::Delete(kind, key) => set.delete(KINDS[kind], key),
            Change::DeleteRange(kind, from, to) => set.delete_range(KINDS[kind], from, to),
        }
    }
    vec![Arc::new(set)]
}

/// Epochs are applied at once, or prepared and kept, or prepared and dropped; some are followed by a restart.
#[test]
fn scans_give_what_the_store_in_memory_gives() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    println!("SEED={seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    for _ in 0..40 {
        random_epochs(&mut random);
    }
}

fn random_epochs(random: &mut SmallRng) {
    let (folder, memory) = (tempfile::tempdir().expect("a folder"), MemoryBackend::default());
    let mut store = open(folder.path());
    for epoch in (1..=random.random_range(1..6)).map(Epoch) {
        let changes: Vec<_> = (0..random.random_range(0..12)).map(|_| change(random)).collect();
        let (changes, is_prepared, is_kept) = (change_set(&changes), random.random_bool(0.6), random.random_bool(0.6));
        for backend in [&store as &dyn StateBackend, &memory] {
            let stored = if is_prepared { backend.prepare(epoch, &changes) } else { backend.apply(epoch, &changes) };
            stored.expect("store the epoch");
        }
        if random.random_bool(0.5) {
            drop(store);
            store = open(folder.path());
        }
        assert_eq!(store.pending().expect("pending"), is_prepared.then_some(epoch));
        if is_prepared {
            for backend in [&store as &dyn StateBackend, &memory] {
                backend.settle(epoch, is_kept).expect("settle");
            }
        }
        assert_eq!(store.pending().expect("pending"), None);
        assert_eq!(store.last_applied().expect("applied"), memory.last_applied().expect("applied"));
    }
    for kind in KINDS {
        let (a, b) = (key(random), key(random));
        let (from, to) = (a.clone().min(b.clone()), a.max(b));
        for (from, to, most) in [(&[][..], None, usize::MAX), (&from, Some(to.as_slice()), usize::MAX), (&from, None, 2)] {
            assert_eq!(rows(&store, kind, from, to, most), rows(&memory, kind, from, to, most), "{kind:?} from {from:?} to {to:?}");
        }
        for (key, value) in rows(&memory, kind, &[], None, usize::MAX) {
            assert_eq!(store.get(kind, &key).expect("get"), Some(value));
        }
    }
}

#[test]
fn a_prepared_epoch_changes_nothing_until_it_is_settled() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    store.apply(Epoch(1), &put("k", "old")).expect("apply");
    store.prepare(Epoch(2), &put("k", "new")).expect("prepare");
    assert_eq!((get(&store, "k").as_deref(), store.last_applied().expect("applied")), (Some("old"), Epoch(1)));
    store.settle(Epoch(2), true).expect("settle");
    assert_eq!((get(&store, "k").as_deref(), store.last_applied().expect("applied")), (Some("new"), Epoch(2)));
    let again = store.settle(Epoch(2), true).expect_err("nothing is pending any more");
    assert!(matches!(again, RuntimeError::Recovery(_)), "{again}");
}

#[test]
fn a_large_epoch_survives_between_prepare_and_settle() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut changes = ChangeSet::default();
    for i in 0..3_000_u32 {
        changes.put(StateKind::JoinRows, i.to_be_bytes().to_vec(), vec![i as u8; 4_000]);
    }
    open(folder.path()).prepare(Epoch(7), &[Arc::new(changes)]).expect("prepare");
    let store = open(folder.path());
    assert_eq!(store.pending().expect("pending"), Some(Epoch(7)));
    store.settle(Epoch(7), true).expect("settle");
    assert_eq!(rows(&store, StateKind::JoinRows, &[], None, usize::MAX).len(), 3_000);
}

#[test]
fn a_process_that_is_just_ending_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = open(folder.path());
    let ending = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        drop(first);
    });
    open(folder.path());
    ending.join().expect("the thread ends");
}

#[test]
fn a_second_opening_is_refused_and_names_the_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = open(folder.path());
    let text = Store::open(&settings(folder.path())).err().expect("refused").to_string();
    assert!(text.contains(&folder.path().display().to_string()) && text.contains("another process"), "{text}");
    drop(first);
    open(folder.path());
}

/// The process that is killed: this test binary itself, run again with a folder in the environment.
#[test]
fn a_process_that_is_killed_between_prepare_and_settle_leaves_both_epochs_whole() {
    const FOLDER: &str = "PELTON_TEST_STORE";
    if let Some(folder) = std::env::var_os(FOLDER) {
        let store = open(Path::new(&folder));
        store.apply(Epoch(1), &put("k", "applied")).expect("apply");
        store.prepare(Epoch(2), &put("k", "prepared")).expect("prepare");
        // Ends as by kill −9: nothing is closed, nothing is dropped.
        Command::new("kill").args(["-9", &std::process::id().to_string()]).status().expect("kill runs");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let name = "a_process_that_is_killed_between_prepare_and_settle_leaves_both_epochs_whole";
    let test = std::env::current_exe().expect("this test's path");
    let mut child = Command::new(test);
    child.args(["--exact", name]).env(FOLDER, folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = child.status().expect("the child starts");
    assert_eq!(status.code(), None, "it was killed");
    let store = open(folder.path());
    assert_eq!((get(&store, "k").as_deref(), store.pending().expect("pending")), (Some("applied"), Some(Epoch(2))));
    store.settle(Epoch(2), true).expect("settle");
    assert_eq!(get(&store, "k").as_deref(), Some("prepared"));
}

/// Files of the database with this ending, largest first.
fn files(folder: &Path, ending: &str) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder.join("rocksdb")).expect("the folder").map(|entry| entry.expect("entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == ending));
    files.sort_by_key(|path| std::cmp::Reverse(fs::metadata(path).expect("size").len()));
    files
}

#[test]
fn damage_in_the_middle_of_the_log_is_reported_not_skipped() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    for epoch in 1..=50 {
        store.apply(Epoch(epoch), &put("k", &format!("{epoch}").repeat(100))).expect("apply");
    }
    drop(store);
    let log = &files(folder.path(), "log")[0];
    let mut bytes = fs::read(log).expect("the log");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(log, bytes).expect("write");
    let error = Store::open(&settings(folder.path())).err().expect("refused");
    assert!(matches!(error, RuntimeError::Storage { .. }), "{error}");
    assert!(error.to_string().contains(&folder.path().display().to_string()), "{error}");
}

#[test]
fn a_table_file_that_is_gone_is_reported_by_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    for epoch in 1..=40_u64 {
        let mut changes = ChangeSet::default();
        for i in 0..64_u64 {
            changes.put(StateKind::Panes, (epoch * 64 + i).to_be_bytes().to_vec(), noise(epoch * 64 + i, 4_000));
        }
        store.apply(Epoch(epoch), &[Arc::new(changes)]).expect("apply");
    }
    drop(store);
    let table = &files(folder.path(), "sst")[0];
    fs::remove_file(table).expect("remove");
    let name = table.file_name().expect("name").to_string_lossy().into_owned();
    let text = Store::open(&settings(folder.path())).err().expect("refused").to_string();
    assert!(text.contains(&name), "{text}");
}

/// Bytes that do not compress.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn memory_stays_within_the_budget_with_ten_times_as_much_state() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path());
    let mut highest = 0;
    for epoch in 1..=80_u64 {
        let mut changes = ChangeSet::default();
        for i in 0..1_024_u64 {
            changes.put(StateKind::JoinRows, (i << 32 | epoch).to_be_bytes().to_vec(), noise(epoch << 20 | i, 1_000));
        }
        store.apply(Epoch(epoch), &[Arc::new(changes)]).expect("apply");
        store.get(StateKind::JoinRows, &(epoch / 2).to_be_bytes()).expect("get");
        highest = highest.max(store.memory_bytes());
    }
    let bytes: usize = rows(&store, StateKind::JoinRows, &[], None, usize::MAX).iter().map(|(key, value)| key.len() + value.len()).sum();
    highest = highest.max(store.memory_bytes());
    assert!(bytes >= 10 * (8 << 20) - (8 << 20), "{bytes} bytes of state");
    // Blocks that a scan holds at the moment and buffers that are being written out may stand above for a while.
    assert!(highest <= (8 << 20) * 5 / 4, "{highest} bytes of memory");
}

#[test]
fn a_copy_is_a_store_of_its_own_as_of_its_moment() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder.path().join("state"));
    store.set_fact("job", b"features").expect("fact");
    store.apply(Epoch(3), &put("k", "then")).expect("apply");
    let copy = folder.path().join("copies/one");
    store.checkpoint_to(&copy).expect("copy");
    store.apply(Epoch(4), &put("k", "now")).expect("apply");
    let copied = open(&copy);
    assert_eq!((get(&copied, "k").as_deref(), copied.last_applied().expect("applied")), (Some("then"), Epoch(3)));
    assert_eq!(copied.fact("job").expect("fact").as_deref(), Some(&b"features"[..]));
    assert_eq!(get(&store, "k").as_deref(), Some("now"));
    let again = store.checkpoint_to(&copy).expect_err("there is one already");
    assert!(again.to_string().contains("copies/one"), "{again}");
}

#[test]
fn a_temporary_store_leaves_nothing_behind() {
    let store = Store::temporary(4 << 20).expect("opens");
    store.apply(Epoch(1), &put("k", "v")).expect("apply");
    assert_eq!(get(&store, "k").as_deref(), Some("v"));
    let dir = store.dir().to_owned();
    assert!(dir.exists());
    drop(store);
    assert!(!dir.exists());
}

#[test]
fn a_store_of_a_later_format_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    open(folder.path()).set_fact("format", &99_u32.to_be_bytes()).expect("fact");
    let error = Store::open(&settings(folder.path())).err().expect("refused");
    assert!(matches!(error, RuntimeError::Recovery(_)) && error.to_string().contains("99"), "{error}");
}
