//! Settings of a job: the SET keys that exist, and their values, typed and checked together.

use std::{collections::BTreeMap, num::NonZeroUsize, path::PathBuf, time::Duration};

use pelton_core::{
    error::{Result, RuntimeError},
    key_group::DEFAULT_KEY_GROUPS,
    options::{OptionReader, OptionSpec},
    time::EventTime,
};

const fn setting(key: &'static str, default: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec { key, required: false, default, doc }
}

/// The SET keys there are. Flink's where Flink has one; ours start with `pelton.`.
pub const SETTINGS: &[OptionSpec] = &[
    setting("pipeline.name", "", "Name of the job: names its state folder; the script's name without it."),
    setting("parallelism.default", "", "Workers, threads with a copy of the graph each; the machine's cores without it."),
    setting("pipeline.max-parallelism", "128", "Key groups, the units of keyed state: fixed at the first start."),
    setting("pipeline.auto-watermark-interval", "200 ms", "A new watermark is sent once it moved by more than this."),
    setting("execution.runtime-mode", "streaming", "Accepted for Flink scripts: streaming. Bounded inputs end by themselves."),
    setting("execution.checkpointing.interval", "", "Time between checkpoints: 10 s for unbounded jobs, only at the end for bounded ones without it."),
    setting("execution.checkpointing.mode", "EXACTLY_ONCE", "Accepted for Flink scripts: EXACTLY_ONCE; sinks say their own guarantee."),
    setting("table.local-time-zone", "UTC", "Zone in which TIMESTAMP_LTZ is shown and cast."),
    setting("table.exec.state.ttl", "0 ms", "How long state without another bound is kept; 0 keeps it for ever and such queries are refused."),
    setting("table.exec.source.idle-timeout", "0 ms", "A split without records for this long no longer holds the watermark back; 0 never."),
    setting("table.exec.mini-batch.enabled", "false", "Accepted for Flink scripts: batches form by backlog."),
    setting("table.exec.mini-batch.allow-latency", "0 ms", "Accepted for Flink scripts: batches form by backlog."),
    setting("table.exec.mini-batch.size", "", "Accepted for Flink scripts: batches form by backlog."),
    setting("table.optimizer.agg-phase-strategy", "AUTO", "Accepted for Flink scripts: without effect."),
    setting("table.dml-sync", "false", "Accepted for Flink scripts: INSERTs are waited for."),
    setting("sql-client.execution.result-mode", "", "Accepted for Flink scripts: without effect."),
    setting("state.backend.type", "rocksdb", "Accepted for Flink scripts: state is in RocksDB."),
    setting("pelton.batch.rows", "8192", "Most rows of a batch. Small: overhead per row; large: memory."),
    setting("pelton.state.dir", "", "Folder of the state. Without it pelton-state/<pipeline.name> beside the script if a source is unbounded, else a temporary one."),
    setting("pelton.state.memory", "", "Memory for state, operators and RocksDB together; a quarter of the container's memory without it."),
    setting("pelton.checkpoint.dirty-bytes", "", "Changes in memory that bring the next checkpoint forward; an eighth of pelton.state.memory without it."),
    setting("pelton.watermark.wall-clock-advance", "false", "When every split is idle, the watermark goes on with the wall clock."),
    setting("pelton.event-time.earliest-ms", "86400000", "On unbounded sources, earlier event times (ms since 1970) are dead letters."),
    setting("pelton.event-time.ahead-max", "1 d", "On unbounded sources, event times further ahead of the clock are dead letters."),
    setting("pelton.source.rows-per-second", "0", "Most records a second each worker reads of a table; 0 is no limit. For tests and replays."),
    setting("pelton.on-error", "dead-letter", "What a bad record does where its table does not say: dead-letter or fail."),
    setting("pelton.exchange", "memory", "How rows move between workers: memory."),
    setting("pelton.exchange.rows", "65536", "Rows that may wait in one queue between two workers."),
    setting("pelton.exchange.bytes", "16 mb", "Bytes that may wait in one queue between two workers."),
    setting("pelton.shutdown-timeout", "30 s", "How long a stopped job may take for its last checkpoint."),
];

/// A job's settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Name of the job.
    pub name: String,
    /// Worker threads.
    pub workers: NonZeroUsize,
    /// Units of keyed state.
    pub key_groups: u16,
    /// A new watermark is due once it moved by more than this.
    pub watermark_interval: Duration,
    /// Time between checkpoints, if the script says one.
    pub checkpoint_interval: Option<Duration>,
    /// A split without records for this long is left out of the watermark.
    pub idle_timeout: Option<Duration>,
    /// Most rows of a batch.
    pub batch_rows: NonZeroUsize,
    /// Folder of the state, if the script or the command line names one.
    pub state_dir: Option<PathBuf>,
    /// Bytes for state: operators and RocksDB together.
    pub state_memory: usize,
    /// Changes in memory that bring the next checkpoint forward, in bytes.
    pub dirty_bytes: usize,
    /// Whether an all-idle source's watermark goes on with the clock.
    pub wall_clock_advance: bool,
    /// Earliest plausible event time of unbounded sources.
    pub earliest: EventTime,
    /// How far ahead of the clock an event time of an unbounded source may be.
    pub ahead_max: Duration,
    /// Most records a second per table and worker.
    pub rows_per_second: Option<u64>,
    /// Whether a bad record stops the job, where its table does not say.
    pub fail_on_error: bool,
    /// Rows that may wait in one queue between two workers.
    pub exchange_rows: usize,
    /// Bytes that may wait in one queue between two workers.
    pub exchange_bytes: usize,
    /// Time for the last checkpoint of a stopped job.
    pub shutdown_timeout: Duration,
}

impl Settings {
    /// Reads the SET keys of a job. The error lists every fault, one a line.
    pub fn read(set: &BTreeMap<String, String>, default_name: &str) -> Result<Self> {
        let mut faults = Vec::new();
        let reader = OptionReader(set);
        let mut or = Faults(&mut faults);
        let memory = or.take(reader.bytes("pelton.state.memory")).and_then(as_usize).unwrap_or_else(default_state_memory);
        let count = |key: &str, or: &mut Faults<'_>, most: i64, default: usize| -> NonZeroUsize {
            let number = or.take(reader.number(key));
            if number.is_some_and(|n| !(1..=most).contains(&n)) {
                or.0.push(format!("option '{key}': must be between 1 and {most}"));
            }
            let number = number.and_then(|n| usize::try_from(n).ok()).unwrap_or(default);
            NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN)
        };
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(64);
        let key_groups = count("pipeline.max-parallelism", &mut or, 32_768, usize::from(DEFAULT_KEY_GROUPS));
        let settings = Self {
            name: reader.text("pipeline.name").filter(|name| !name.is_empty()).unwrap_or(default_name).to_owned(),
            workers: count("parallelism.default", &mut or, 1_024, cores),
            key_groups: u16::try_from(key_groups.get()).unwrap_or(DEFAULT_KEY_GROUPS),
            watermark_interval: or.take(reader.duration("pipeline.auto-watermark-interval")).unwrap_or(Duration::from_millis(200)),
            checkpoint_interval: or.take(reader.duration("execution.checkpointing.interval")).filter(|d| !d.is_zero()),
            idle_timeout: or.take(reader.duration("table.exec.source.idle-timeout")).filter(|d| !d.is_zero()),
            batch_rows: count("pelton.batch.rows", &mut or, 1 << 20, 8_192),
            state_dir: reader.text("pelton.state.dir").filter(|dir| !dir.is_empty()).map(PathBuf::from),
            state_memory: memory,
            dirty_bytes: or.take(reader.bytes("pelton.checkpoint.dirty-bytes")).and_then(as_usize).unwrap_or(memory / 8).max(1 << 10),
            wall_clock_advance: or.take_plain(reader.flag("pelton.watermark.wall-clock-advance", false)).unwrap_or(false),
            earliest: EventTime::from_millis(or.take(reader.number("pelton.event-time.earliest-ms")).unwrap_or(86_400_000)),
            ahead_max: or.take(reader.duration("pelton.event-time.ahead-max")).unwrap_or(Duration::from_secs(86_400)),
            rows_per_second: or.take(reader.number("pelton.source.rows-per-second")).and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0),
            fail_on_error: or.take(reader.choice("pelton.on-error", &["dead-letter", "fail"])) == Some("fail"),
            exchange_rows: count("pelton.exchange.rows", &mut or, 1 << 30, 65_536).get(),
            exchange_bytes: or.take(reader.bytes("pelton.exchange.bytes")).and_then(as_usize).unwrap_or(16 << 20),
            shutdown_timeout: or.take(reader.duration("pelton.shutdown-timeout")).unwrap_or(Duration::from_secs(30)),
        };
        or.take(reader.choice("execution.runtime-mode", &["streaming"]));
        or.take(reader.choice("execution.checkpointing.mode", &["EXACTLY_ONCE"]));
        or.take(reader.choice("pelton.exchange", &["memory"]));
        or.take(reader.duration("table.exec.state.ttl"));
        if settings.workers.get() > key_groups.get() {
            or.0.push(format!("parallelism.default {} is more than pipeline.max-parallelism {key_groups}", settings.workers));
        }
        for key in set.keys() {
            if pelton_core::options::find(SETTINGS, key).is_none() {
                or.0.push(format!("unknown setting '{key}'"));
            }
        }
        if faults.is_empty() { Ok(settings) } else { Err(RuntimeError::Script(faults.join("\n"))) }
    }
}

struct Faults<'a>(&'a mut Vec<String>);

impl Faults<'_> {
    fn take<T>(&mut self, read: std::result::Result<Option<T>, String>) -> Option<T> {
        self.take_plain(read).flatten()
    }

    fn take_plain<T>(&mut self, read: std::result::Result<T, String>) -> Option<T> {
        read.map_err(|fault| self.0.push(fault)).ok()
    }
}

fn as_usize(bytes: u64) -> Option<usize> {
    usize::try_from(bytes).ok()
}

/// A quarter of the memory that this process may use: the cgroup's limit, else the machine's memory.
fn default_state_memory() -> usize {
    let number = |path: &str| std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let group = number("/sys/fs/cgroup/memory.max").or_else(|| number("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?.to_owned();
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
    });
    let machine = machine.unwrap_or(4 << 30);
    let memory = group.filter(|limit| *limit < machine).unwrap_or(machine);
    usize::try_from(memory / 4).unwrap_or(1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings> {
        Settings::read(&pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(), "job")
    }

    #[test]
    fn every_fault_is_listed_not_only_the_first() {
        let error = read(&[("pelton.batch.rows", "0"), ("pelton.state.memory", "much"), ("execution.runtime-mode", "batch")])
            .expect_err("three faults")
            .to_string();
        for part in ["pelton.batch.rows", "pelton.state.memory", "execution.runtime-mode"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn values_are_read_with_their_units() {
        let settings = read(&[("execution.checkpointing.interval", "5 s"), ("pelton.state.memory", "512 mb"), ("parallelism.default", "3")]).expect("fits");
        assert_eq!(settings.checkpoint_interval, Some(Duration::from_secs(5)));
        assert_eq!(settings.state_memory, 512 << 20);
        assert_eq!(settings.dirty_bytes, 64 << 20);
        assert_eq!(settings.workers.get(), 3);
        assert_eq!(settings.name, "job");
    }
}
