//! The broker, and a client of its own to make topics and write what the crate itself would not.

use std::{
    future::Future,
    path::PathBuf,
    pin::pin,
    process::Command,
    sync::{Arc, Mutex, PoisonError, Weak},
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    producer::{BaseProducer, BaseRecord, Producer},
};

static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());

/// A running broker.
pub(crate) struct Server {
    pub(crate) address: String,
    port: u16,
    data: PathBuf,
}

impl Server {
    /// The broker that the tests share.
    pub(crate) fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start(19_392));
            *shared = Arc::downgrade(&server);
            server
        })
    }

    /// A broker for a test that stops it.
    pub(crate) fn start(port: u16) -> Self {
        let data = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("kafka-{port}-{}", std::process::id()));
        let server = Self { address: format!("127.0.0.1:{port}"), port, data };
        server.script(&["start"]);
        server
    }

    pub(crate) fn script(&self, arguments: &[&str]) {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/kafka/kafka.sh");
        let mut command = Command::new("bash");
        command.arg(script).args(arguments).env("BASE_PORT", self.port.to_string()).env("BROKERS", "1").env("SERVICES_HOME", &self.data);
        let output = command.output().expect("bash runs");
        assert!(output.status.success(), "kafka.sh {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Makes a topic.
    pub(crate) fn topic(&self, name: &str, partitions: i32) {
        let mut config = ClientConfig::new();
        let admin: AdminClient<DefaultClientContext> = config.set("bootstrap.servers", &self.address).create().expect("admin client");
        let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
        let results = block_on(admin.create_topics([&topic], &options)).expect("create topic");
        results.into_iter().for_each(|result| drop(result.expect("create topic")));
    }

    /// A plain producer, transactional if it has an id.
    pub(crate) fn producer(&self, transactional_id: Option<&str>) -> BaseProducer {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.address).set("linger.ms", "0");
        if let Some(id) = transactional_id {
            config.set("transactional.id", id);
        }
        let producer: BaseProducer = config.create().expect("producer");
        if transactional_id.is_some() {
            producer.init_transactions(Duration::from_secs(30)).expect("init transactions");
        }
        producer
    }

    /// Writes values to one partition.
    pub(crate) fn write(&self, topic: &str, partition: i32, values: &[&str]) {
        let producer = self.producer(None);
        send(&producer, topic, partition, values);
    }
}

/// Sends values and waits until they are there.
pub(crate) fn send(producer: &BaseProducer, topic: &str, partition: i32, values: &[&str]) {
    for value in values {
        let record: BaseRecord<'_, str, str> = BaseRecord::to(topic).partition(partition).payload(value);
        producer.send(record).map_err(|(error, _)| error).expect("send");
    }
    producer.flush(Duration::from_secs(30)).expect("flush");
}

impl Drop for Server {
    fn drop(&mut self) {
        self.script(&["kill"]);
        std::fs::remove_dir_all(&self.data).ok();
    }
}

/// Runs a future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
