//! The store: one RocksDB, one column family per kind of state, one atomic write per epoch.
//!
//! Promises: an epoch's changes and the number of that epoch become durable together or not at all. A prepared epoch
//! survives a crash and changes nothing until it is settled. A second process on the same folder is refused. Memory of
//! caches and write buffers stays within [`StateSettings::memory_bytes`], however large the state is. What a crash of
//! the machine may have torn is the last write only; damage before it is reported, never skipped over.
//! Leaves to the engine: which epoch is settled how, and whether the state fits the job.

use std::{
    fs::{self, File, TryLockError},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use pelton_core::{
    error::{Result, RuntimeError},
    position::Epoch,
    state::{ChangeSet, StateBackend, StateKind},
};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType, DBRecoveryMode, IteratorMode,
    Options, ReadOptions, WriteBatch, WriteBufferManager, WriteOptions, checkpoint::Checkpoint,
};

use crate::{codec, settings::StateSettings};

const PENDING: &str = "pending";
const APPLIED: &[u8] = b"!applied";
/// How long another holder of the folder's lock is waited for.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const FORMAT: &str = "format";
/// Version of everything this crate writes. A store of a later one is refused.
const FORMAT_VERSION: u32 = 1;
/// Facts of the job have keys that begin with this, so that they cannot meet an operator's.
const FACT: u8 = b'#';

/// An open store.
pub struct Store {
    // Fixed at start.
    dir: PathBuf,
    /// Whether writes must survive a crash.
    is_durable: bool,
    // Handles, dropped in this order.
    database: DB,
    cache: Cache,
    /// Held while the store is open.
    _lock: File,
    /// Removed with the store, if it is a temporary one. Dropped after `database`.
    _temporary: Option<tempfile::TempDir>,
}

impl Store {
    /// Opens the store in a folder, made if it is not there.
    ///
    /// # Errors
    /// [`RuntimeError::Storage`] if another process has it open, the folder cannot be written, or the database is damaged.
    pub fn open(settings: &StateSettings) -> Result<Self> {
        Self::open_as(settings, true)
    }

    /// A store in a temporary folder that goes away with it, for bounded jobs that keep nothing: nothing is forced to
    /// the disk.
    ///
    /// # Errors
    /// [`RuntimeError::Storage`] if there is no place for temporary files.
    pub fn temporary(memory_bytes: usize) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("pelton-state-").tempdir();
        let folder = folder.map_err(|e| storage("make a temporary state folder in", &std::env::temp_dir(), e))?;
        let mut store = Self::open_as(&StateSettings { dir: folder.path().to_owned(), memory_bytes }, false)?;
        store._temporary = Some(folder);
        Ok(store)
    }

    fn open_as(settings: &StateSettings, is_durable: bool) -> Result<Self> {
        let dir = settings.dir.clone();
        fs::create_dir_all(&dir).map_err(|e| storage("make the state folder", &dir, e))?;
        let lock_path = dir.join("LOCK.pelton");
        let lock = File::create(&lock_path).map_err(|e| storage("open the lock", &lock_path, e))?;
        take_lock(&lock).map_err(|error| match error {
            TryLockError::WouldBlock => storage(
                "open the state in",
                &dir,
                "another process has it open: stop that one, or give this job a state folder of its own ('pelton.state.dir')",
            ),
            TryLockError::Error(error) => storage("lock", &lock_path, error),
        })?;
        let cache = Cache::new_lru_cache(settings.memory_bytes);
        let database = open_database(&dir.join("rocksdb"), settings.memory_bytes, &cache);
        let database = database.map_err(|e| storage("open the state in", &dir, e.into_string()))?;
        let store = Self { dir, is_durable, database, cache, _lock: lock, _temporary: None };
        store.check_format()?;
        Ok(store)
    }

    fn check_format(&self) -> Result<()> {
        let Some(bytes) = self.fact(FORMAT)? else { return self.set_fact(FORMAT, &FORMAT_VERSION.to_be_bytes()) };
        let found = bytes.first_chunk().map_or(0, |version| u32::from_be_bytes(*version));
        if found == FORMAT_VERSION {
            return Ok(());
        }
        Err(RuntimeError::Recovery(format!(
            "the state in {} has format {found}, this version reads format {FORMAT_VERSION}: use the version that wrote it, or start anew with --fresh",
            self.dir.display()
        )))
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A fact about the job (key-group count, plan fingerprint, …).
    ///
    /// # Errors
    /// [`RuntimeError::Storage`] if the database cannot be read.
    pub fn fact(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.database.get_cf(self.family(StateKind::Meta), fact_key(name)).map_err(|e| self.fault("read", e))
    }

    /// Sets a fact about the job, durably.
    ///
    /// # Errors
    /// [`RuntimeError::Storage`] if the database cannot be written.
    pub fn set_fact(&self, name: &str, value: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::default();
        batch.put_cf(self.family(StateKind::Meta), fact_key(name), value);
        self.write(batch)
    }

    /// Copies the store as of now into a folder that must not exist: files are linked where they can be.
    ///
    /// # Errors
    /// [`RuntimeError::Storage`] if the copy cannot be written.
    pub fn checkpoint_to(&self, dir: &Path) -> Result<()> {
        let copy = |database| Checkpoint::new(database)?.create_checkpoint(dir.join("rocksdb"));
        fs::create_dir_all(dir).map_err(|e| storage("make the folder", dir, e))?;
        copy(&self.database).map_err(|e| storage("copy the state to", dir, e))
    }

    /// Bytes on disk and in write buffers, as RocksDB counts them.
    pub fn size_bytes(&self) -> u64 {
        let of = |kind: StateKind, property: &str| {
            self.database.property_int_value_cf(self.family(kind), property).ok().flatten().unwrap_or(0)
        };
        StateKind::ALL.iter().map(|&kind| of(kind, "rocksdb.total-sst-files-size") + of(kind, "rocksdb.cur-size-all-mem-tables")).sum()
    }

    /// Bytes that block cache and write buffers take now, as RocksDB counts them.
    pub fn memory_bytes(&self) -> usize {
        self.cache.get_usage()
    }

    fn family(&self, kind: StateKind) -> &ColumnFamily {
        self.database.cf_handle(kind.name()).expect("every kind's column family was opened")
    }

    fn pending_family(&self) -> &ColumnFamily {
        self.database.cf_handle(PENDING).expect("the pending column family was opened")
    }

    fn add(&self, batch: &mut WriteBatch, changes: &ChangeSet) {
        for (kind, from, to) in &changes.ranges {
            batch.delete_range_cf(self.family(*kind), from, to);
        }
        for ((kind, key), value) in &changes.keys {
            match value {
                Some(value) => batch.put_cf(self.family(*kind), key, value),
                None => batch.delete_cf(self.family(*kind), key),
            }
        }
    }

    fn write(&self, batch: WriteBatch) -> Result<()> {
        let mut options = WriteOptions::default();
        options.set_sync(self.is_durable);
        options.disable_wal(!self.is_durable);
        self.database.write_opt(batch, &options).map_err(|e| self.fault("write", e))
    }

    fn fault(&self, action: &str, error: rocksdb::Error) -> RuntimeError {
        storage(&format!("{action} state in"), &self.dir, error.into_string())
    }
}

/// Takes the folder's lock. A process that was killed a moment ago may still hold it while the system takes it apart.
fn take_lock(lock: &File) -> Result<(), TryLockError> {
    let began = Instant::now();
    loop {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_WAIT => thread::sleep(Duration::from_millis(20)),
            taken => return taken,
        }
    }
}

fn fact_key(name: &str) -> Vec<u8> {
    let mut key = vec![FACT];
    key.extend_from_slice(name.as_bytes());
    key
}

fn storage(action: &str, path: &Path, reason: impl ToString) -> RuntimeError {
    RuntimeError::Storage { action: format!("{action} {}", path.display()), reason: reason.to_string() }
}

fn open_database(path: &Path, memory_bytes: usize, cache: &Cache) -> Result<DB, rocksdb::Error> {
    // Write buffers are charged to the cache, so that both together stay within the budget.
    let buffers = WriteBufferManager::new_write_buffer_manager_with_cache(memory_bytes / 3, false, cache.clone());
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_write_buffer_manager(&buffers);
    options.set_max_background_jobs(2);
    options.set_max_open_files(512);
    options.set_keep_log_file_num(2);
    options.set_max_total_wal_size(memory_bytes as u64 / 2);
    options.set_bytes_per_sync(1 << 20);
    // The default would drop everything behind damage in the middle of the log and say nothing.
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    let family_options = || {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(cache);
        table.set_block_size(16 << 10);
        table.set_cache_index_and_filter_blocks(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        // For single keys. A bloom filter on prefixes would not pay: nearly every file holds every operator and group.
        table.set_bloom_filter(10.0, false);
        let mut options = Options::default();
        options.set_block_based_table_factory(&table);
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_write_buffer_manager(&buffers);
        options.set_write_buffer_size((memory_bytes / 8).clamp(1 << 20, 64 << 20));
        options.set_level_compaction_dynamic_level_bytes(true);
        options
    };
    let names = StateKind::ALL.iter().map(|kind| kind.name()).chain([PENDING, "default"]);
    DB::open_cf_descriptors(&options, path, names.map(|name| ColumnFamilyDescriptor::new(name, family_options())))
}

impl StateBackend for Store {
    fn get(&self, kind: StateKind, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.database.get_cf(self.family(kind), key).map_err(|e| self.fault("read", e))
    }

    fn scan(
        &self,
        kind: StateKind,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut options = ReadOptions::default();
        if let Some(to) = to {
            options.set_iterate_upper_bound(to);
        }
        let mut rows = self.database.raw_iterator_cf_opt(self.family(kind), options);
        rows.seek(from);
        while let Some((key, value)) = rows.item() {
            if visit(key, value).is_break() {
                return Ok(());
            }
            rows.next();
        }
        rows.status().map_err(|e| self.fault("read", e))
    }

    fn apply(&self, epoch: Epoch, changes: &[Arc<ChangeSet>]) -> Result<()> {
        let mut batch = WriteBatch::default();
        for set in changes {
            self.add(&mut batch, set);
        }
        batch.put_cf(self.family(StateKind::Meta), APPLIED, epoch.0.to_be_bytes());
        self.write(batch)
    }

    fn prepare(&self, epoch: Epoch, changes: &[Arc<ChangeSet>]) -> Result<()> {
        let mut batch = WriteBatch::default();
        let mut part = 0;
        let nothing = [Arc::new(ChangeSet::default())];
        for set in if changes.is_empty() { &nothing } else { changes } {
            codec::encode_in_chunks(set, CHUNK_BYTES, &mut |chunk| {
                batch.put_cf(self.pending_family(), pending_key(epoch, part), chunk);
                part += 1;
            });
        }
        self.write(batch)
    }

    fn pending(&self) -> Result<Option<Epoch>> {
        match self.database.iterator_cf(self.pending_family(), IteratorMode::Start).next() {
            None => Ok(None),
            Some(Err(error)) => Err(self.fault("read", error)),
            Some(Ok((key, _))) => Ok(key.first_chunk().map(|epoch| Epoch(u64::from_be_bytes(*epoch)))),
        }
    }

    fn settle(&self, epoch: Epoch, keep: bool) -> Result<()> {
        let mut batch = WriteBatch::default();
        let mut is_found = false;
        for row in self.database.iterator_cf(self.pending_family(), IteratorMode::Start) {
            let (key, value) = row.map_err(|e| self.fault("read", e))?;
            if keep && key.starts_with(&epoch.0.to_be_bytes()) {
                let changes = codec::decode(&value).ok_or_else(|| {
                    RuntimeError::Recovery(format!(
                        "the pending checkpoint {epoch} in {} is damaged: go on from a copy of the state, or start anew with --fresh",
                        self.dir.display()
                    ))
                })?;
                self.add(&mut batch, &changes);
                is_found = true;
            }
            batch.delete_cf(self.pending_family(), key);
        }
        if keep && !is_found {
            return Err(RuntimeError::Recovery(format!("checkpoint {epoch} is not pending in {}: nothing to apply", self.dir.display())));
        }
        if keep {
            batch.put_cf(self.family(StateKind::Meta), APPLIED, epoch.0.to_be_bytes());
        }
        self.write(batch)
    }

    fn last_applied(&self) -> Result<Epoch> {
        let value = self.database.get_cf(self.family(StateKind::Meta), APPLIED).map_err(|e| self.fault("read", e))?;
        Ok(value.and_then(|bytes| bytes.first_chunk().map(|epoch| Epoch(u64::from_be_bytes(*epoch)))).unwrap_or_default())
    }
}

/// Size from which the changes of a pending epoch go on in another value.
const CHUNK_BYTES: usize = 4 << 20;

fn pending_key(epoch: Epoch, part: u32) -> Vec<u8> {
    let mut key = epoch.0.to_be_bytes().to_vec();
    key.extend_from_slice(&part.to_be_bytes());
    key
}
