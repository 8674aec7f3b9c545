//! The broker of these tests: one for all of them, started on first use, ended when the last user is gone.

use std::{
    path::PathBuf,
    process::Command,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU16, Ordering},
    },
};

use crate::harness::{Place, text};

static SHARED: Mutex<Weak<Broker>> = Mutex::new(Weak::new());

/// Every broker gets ports of its own: the ones of a broker that has just ended may still be taken.
static NEXT_PORT: AtomicU16 = AtomicU16::new(21_500);

/// A running broker.
pub(crate) struct Broker {
    servers: String,
    base_port: u16,
    data: PathBuf,
}

impl Broker {
    /// The broker all tests share.
    pub(crate) fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let broker = Arc::new(Self::start());
            *shared = Arc::downgrade(&broker);
            broker
        })
    }

    /// A broker of one's own, for tests that stop it.
    pub(crate) fn start() -> Self {
        let base_port = NEXT_PORT.fetch_add(3, Ordering::Relaxed);
        let data = std::env::temp_dir().join(format!("pelton-broker-{base_port}-{}", std::process::id()));
        let mut broker = Self { servers: String::new(), base_port, data };
        broker.servers = broker.script(&["start"]).lines().last().expect("the script prints the servers").to_owned();
        broker
    }

    pub(crate) fn servers(&self) -> &str {
        &self.servers
    }

    /// Runs the broker's script: `start`, `stop`, `kill 0`, `tool …`.
    pub(crate) fn script(&self, arguments: &[&str]) -> String {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/kafka/kafka.sh");
        let output = Command::new("bash")
            .arg(script)
            .args(arguments)
            .env("BASE_PORT", self.base_port.to_string())
            .env("BROKERS", "1")
            .env("SERVICES_HOME", &self.data)
            .output()
            .expect("bash runs");
        assert!(output.status.success(), "kafka.sh {arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Makes a topic.
    pub(crate) fn topic(&self, name: &str, partitions: u32) {
        self.script(&["tool", "topics", "--create", "--topic", name, "--partitions", &partitions.to_string()]);
    }

    /// What a read_committed reader gets of a topic now, as the rows of a raw table, sorted.
    pub(crate) fn values(&self, place: &Place, topic: &str) -> Vec<String> {
        let script = format!(
            "CREATE TABLE t (line STRING) WITH ('connector'='kafka', 'topic'='{topic}', 'properties.bootstrap.servers'='{}', \
             'properties.group.id'='reader-{topic}', 'scan.startup.mode'='earliest-offset', 'scan.bounded.mode'='latest-offset', 'format'='raw');\n\
             SELECT line FROM t;\n",
            self.servers
        );
        place.write("reader.sql", script);
        let output = place.command(&["run", "reader.sql", "--output", "jsonl"]).output().expect("the binary starts");
        assert!(output.status.success(), "read {topic}: {}", text(&output.stderr));
        let rows = text(&output.stdout);
        let mut rows: Vec<_> = rows.lines().map(|row| crate::harness::json(row)["line"].as_str().unwrap_or("null").to_owned()).collect();
        rows.sort();
        rows
    }

    /// Writes lines to a topic, in order.
    pub(crate) fn fill(&self, place: &Place, topic: &str, lines: &str) {
        place.write(&format!("{topic}.txt"), lines);
        let script = format!(
            "CREATE TABLE lines (line STRING) WITH ('connector'='filesystem', 'path'='{topic}.txt', 'format'='raw');\n\
             CREATE TABLE t (line STRING) WITH ('connector'='kafka', 'topic'='{topic}', 'properties.bootstrap.servers'='{}', 'format'='raw');\n\
             INSERT INTO t SELECT line FROM lines;\n",
            self.servers
        );
        place.write("fill.sql", script);
        let output = place.command(&["run", "fill.sql"]).output().expect("the binary starts");
        assert!(output.status.success(), "fill {topic}: {}", text(&output.stderr));
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.script(&["kill"]);
        std::fs::remove_dir_all(&self.data).ok();
    }
}
