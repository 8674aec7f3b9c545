//! The coordinator: one per job, on the thread that called `run`. Starts barriers, commits epochs, ends the job.
//!
//! An epoch: order `Checkpoint` to every worker → each hands in its [`Part`] once the barrier has passed all its nodes,
//! and goes on with rows → all parts are applied in one write → order `Commit`: sinks make the epoch visible, sources
//! learn that it is durable → the next epoch may start. With transactions: prepare → commit the transaction → settle.
//!
//! Promises: a crash at any of the failpoints named here loses and doubles nothing.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use pelton_core::{
    dead_letter::DeadLetter,
    error::{Result, RuntimeError},
    position::{Epoch, OperatorId, SplitId},
    sink::{Prepared, TransactionCoordinator},
    source::SplitPosition,
    state::{ChangeSet, StateBackend},
    time::Clock,
};

use crate::{
    control::{Control, Progress},
    exchange::Threads,
    failpoint::Failpoints,
    letters::letter_to_json,
    state::{StoredJob, put_job, put_letter, put_letter_file, put_prepared},
    table_options::LetterBox,
};

/// One worker's share of an epoch.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) worker: usize,
    pub(crate) epoch: Epoch,
    pub(crate) changes: Vec<Arc<ChangeSet>>,
    pub(crate) positions: Vec<(SplitId, SplitPosition)>,
    pub(crate) prepared: Vec<(OperatorId, Prepared)>,
    pub(crate) letters: Vec<(LetterBox, DeadLetter)>,
}

impl Part {
    pub(crate) fn new(worker: usize) -> Self {
        Self { worker, ..Self::default() }
    }
}

/// What workers are told.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Order {
    /// Let a barrier go; after the last one poll no sources any more.
    Checkpoint { epoch: Epoch, is_last: bool },
    /// The epoch is durable.
    Commit(Epoch),
    /// Close sinks and end.
    Close,
}

/// What workers say.
pub(crate) enum Event {
    Part(Box<Part>),
    /// Every node of the worker has ended.
    Ended,
    /// Changes or operators take more memory than they may.
    NeedsCheckpoint,
    Committed,
    /// Dead letters of a job that keeps nothing: written at once.
    Letters(Vec<(LetterBox, DeadLetter)>),
    Closed,
    Failed(RuntimeError),
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Finished,
    Stopped,
}

/// See the module.
pub(crate) struct Coordinator {
    // Fixed at start.
    pub(crate) workers: usize,
    pub(crate) backend: Arc<dyn StateBackend>,
    /// Whether the state outlives the run.
    pub(crate) is_durable: bool,
    /// Operators with preparations of sinks.
    pub(crate) sinks: Vec<OperatorId>,
    pub(crate) interval: Option<Duration>,
    pub(crate) shutdown_timeout: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) failpoints: Failpoints,
    pub(crate) state_bytes: Box<dyn Fn() -> u64>,
    // Handles.
    pub(crate) transactions: Option<Box<dyn TransactionCoordinator>>,
    pub(crate) events: Receiver<Event>,
    pub(crate) orders: Vec<Sender<Order>>,
    pub(crate) threads: Threads,
    pub(crate) control: Control,
    pub(crate) progress: Arc<Progress>,
    // Changing.
    pub(crate) job: StoredJob,
    pub(crate) applied: Arc<AtomicU64>,
    pub(crate) epoch: Epoch,
    /// The first letters, for showing.
    pub(crate) letters: Vec<DeadLetter>,
}

/// Letters kept for showing at the end.
const LETTERS_SHOWN: usize = 5;

/// How often the coordinator looks at its clock when nothing happens.
const LOOK_EVERY: Duration = Duration::from_millis(20);

enum Phase {
    Running,
    Collecting { parts: Vec<Part>, is_last: bool },
    Committing { missing: usize, is_last: bool },
    Closing { missing: usize },
}

impl Coordinator {
    /// Runs until every worker has closed. An error means that workers must be torn down.
    pub(crate) fn run(&mut self) -> Result<Ending> {
        let mut phase = Phase::Running;
        let mut ended = 0;
        let mut needs_checkpoint = false;
        let mut last_begin = Instant::now();
        let mut stopping_since: Option<Instant> = None;
        loop {
            let timeout = match (&phase, self.interval) {
                (Phase::Running, Some(interval)) => interval.saturating_sub(last_begin.elapsed()).min(LOOK_EVERY),
                _ => LOOK_EVERY,
            };
            match self.events.recv_timeout(timeout) {
                Ok(Event::Failed(error)) => return Err(error),
                Ok(Event::Ended) => ended += 1,
                Ok(Event::NeedsCheckpoint) => needs_checkpoint = true,
                Ok(Event::Letters(letters)) => self.write_letters(letters)?,
                Ok(Event::Part(part)) => {
                    if let Phase::Collecting { parts, is_last } = &mut phase {
                        parts.push(*part);
                        if parts.len() == self.workers {
                            let (parts, is_last) = (std::mem::take(parts), *is_last);
                            self.commit(parts, is_last, is_last && ended == self.workers)?;
                            phase = Phase::Committing { missing: self.workers, is_last };
                            self.order(Order::Commit(self.epoch));
                        }
                    }
                }
                Ok(Event::Committed) => {
                    if let Phase::Committing { missing, is_last } = &mut phase {
                        *missing -= 1;
                        if *missing == 0 {
                            phase = if *is_last {
                                self.order(Order::Close);
                                Phase::Closing { missing: self.workers }
                            } else {
                                Phase::Running
                            };
                        }
                    }
                }
                Ok(Event::Closed) => {
                    if let Phase::Closing { missing } = &mut phase {
                        *missing -= 1;
                        if *missing == 0 {
                            return Ok(if self.job.finished { Ending::Finished } else { Ending::Stopped });
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(RuntimeError::Bug { operator: OperatorId(0), what: "every worker left without a word".to_owned() });
                }
            }
            if self.control.is_stopping() {
                let since = *stopping_since.get_or_insert_with(Instant::now);
                if since.elapsed() > self.shutdown_timeout {
                    let reason = format!("the last checkpoint took longer than 'pelton.shutdown-timeout' ({:?})", self.shutdown_timeout);
                    return Err(RuntimeError::Unavailable { action: "stop the job".to_owned(), reason });
                }
            }
            if matches!(phase, Phase::Running) {
                let is_last = ended == self.workers || stopping_since.is_some();
                let is_due = self.interval.is_some_and(|interval| last_begin.elapsed() >= interval);
                if is_last || is_due || needs_checkpoint {
                    needs_checkpoint = false;
                    last_begin = Instant::now();
                    self.epoch = self.epoch.next();
                    self.order(Order::Checkpoint { epoch: self.epoch, is_last });
                    phase = Phase::Collecting { parts: Vec::with_capacity(self.workers), is_last };
                }
            }
        }
    }

    fn order(&self, order: Order) {
        for (sender, thread) in self.orders.iter().zip(self.threads.iter()) {
            // A worker that is gone has said why.
            let _ = sender.send(order);
            if let Some(thread) = thread.get() {
                thread.unpark();
            }
        }
    }

    /// Makes an epoch durable.
    fn commit(&mut self, parts: Vec<Part>, is_last: bool, is_finished: bool) -> Result<()> {
        let epoch = self.epoch;
        let mut own = ChangeSet::default();
        let mut changes = vec![Arc::new(ChangeSet::default())];
        let (mut prepared, mut positions, mut letters) = (Vec::new(), Vec::new(), Vec::new());
        let mut parts = parts;
        parts.sort_by_key(|part| part.worker);
        for part in parts {
            debug_assert_eq!(part.epoch, epoch, "a part of another epoch");
            changes.extend(part.changes);
            positions.extend(part.positions);
            prepared.extend(part.prepared.into_iter().map(|(operator, prepared)| (operator, part.worker, prepared)));
            letters.extend(part.letters);
        }
        put_prepared(&self.sinks, prepared, &mut own);
        let files = self.sort_letters(letters, epoch, &mut own)?;
        self.job.finished = is_finished;
        put_job(&self.job, &mut own);
        changes[0] = Arc::new(own);
        // What nobody will read again is not written.
        let keeps = self.is_durable || !is_last;
        self.failpoints.reach("before-prepare")?;
        if let Some(transactions) = &mut self.transactions {
            if keeps {
                self.backend.prepare(epoch, &changes)?;
            }
            self.failpoints.reach("after-prepare")?;
            transactions.commit(epoch, &positions)?;
            self.failpoints.reach("after-transaction")?;
            if keeps {
                self.backend.settle(epoch, true)?;
            }
        } else if keeps {
            self.backend.apply(epoch, &changes)?;
        }
        self.failpoints.reach("after-apply")?;
        for (path, lines) in files {
            append(&path, &lines)?;
        }
        self.failpoints.reach("after-letters")?;
        self.applied.store(epoch.0, Ordering::Release);
        self.progress.epoch.store(epoch.0, Ordering::Relaxed);
        self.progress.checkpoint_at_ms.store(self.clock.now().as_millis(), Ordering::Relaxed);
        self.progress.state_bytes.store((self.state_bytes)(), Ordering::Relaxed);
        tracing::debug!(epoch = epoch.0, "checkpoint done");
        Ok(())
    }

    /// Puts letters into the epoch; what files get is returned, to be appended once the epoch is durable.
    fn sort_letters(&mut self, letters: Vec<(LetterBox, DeadLetter)>, epoch: Epoch, own: &mut ChangeSet) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
        let mut files: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        let mut number = 0;
        for (to, letter) in letters {
            let mut line = letter_to_json(&letter);
            match to {
                LetterBox::File(path) => {
                    line.push(b'\n');
                    files.entry(path).or_default().extend_from_slice(&line);
                }
                LetterBox::Store | LetterBox::Topic(_) => {
                    put_letter(epoch, number, line, own);
                    number += 1;
                }
            }
            if self.letters.len() < LETTERS_SHOWN {
                self.letters.push(letter);
            }
        }
        for (path, lines) in &files {
            let before = fs::metadata(path).map_or(0, |data| data.len());
            put_letter_file(path, before, lines, own);
        }
        Ok(files)
    }

    fn write_letters(&mut self, letters: Vec<(LetterBox, DeadLetter)>) -> Result<()> {
        let files = self.sort_letters(letters, self.epoch, &mut ChangeSet::default())?;
        files.iter().try_for_each(|(path, lines)| append(path, lines))
    }
}

fn append(path: &Path, lines: &[u8]) -> Result<()> {
    let write = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(lines)?;
        file.sync_data()
    };
    write().map_err(|error| RuntimeError::Storage { action: format!("write dead letters to {}", path.display()), reason: error.to_string() })
}

/// After a restart: what the last epoch appended to its files stands there once, whether or not the crash came first.
pub(crate) fn repair_letter_files(files: &[(PathBuf, u64, Vec<u8>)]) -> Result<()> {
    for (path, before, lines) in files {
        let length = fs::metadata(path).map_or(0, |data| data.len());
        // Shorter than it was: somebody took it away. Longer than expected: later lines are those of an epoch that is lost.
        if length < *before {
            continue;
        }
        let cut = OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(*before));
        if let Err(error) = cut
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(RuntimeError::Storage { action: format!("write dead letters to {}", path.display()), reason: error.to_string() });
        }
        append(path, lines)?;
    }
    Ok(())
}
