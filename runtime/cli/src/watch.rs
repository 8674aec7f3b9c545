//! Watching a run: logging, signals, and a line of progress on a terminal.

use std::{
    io::{IsTerminal, Write},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use pelton_engine::{Control, Progress, ProgressReport};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use tracing_subscriber::EnvFilter;

/// Warnings and worse by default; `PELTON_LOG` says more exactly than `-v`.
pub(crate) fn start_logging(verbose: u8) {
    let level = ["warn", "info,wasmtime=warn,cranelift=warn", "debug"][usize::from(verbose.min(2))];
    let filter = EnvFilter::try_from_env("PELTON_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let started = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .try_init();
    debug_assert!(started.is_ok(), "logging is started once");
}

/// The first signal stops the job at a checkpoint, the second ends the process.
pub(crate) fn stop_on_signals(control: &Control) {
    let control = control.clone();
    let Ok(mut signals) = Signals::new([SIGTERM, SIGINT]) else { return };
    thread::spawn(move || {
        for signal in signals.forever() {
            if control.is_stopping() {
                std::process::exit(128 + signal);
            }
            control.stop();
        }
    });
}

/// Time between two progress lines of a log.
const LOG_EVERY: Duration = Duration::from_secs(10);
/// Time between two updates of a terminal's line.
const LINE_EVERY: Duration = Duration::from_millis(250);

/// Shows progress until it is stopped: on a terminal a line that is written over, else a log line now and then.
pub(crate) struct Watch {
    stop: Sender<()>,
    thread: Option<thread::JoinHandle<()>>,
    has_line: bool,
}

impl Watch {
    pub(crate) fn start(progress: &Arc<Progress>) -> Self {
        let progress = Arc::clone(progress);
        let (stop, stopped) = channel();
        // A line that is written over would tear rows that are printed to the same terminal.
        let has_line = std::io::stderr().is_terminal() && !std::io::stdout().is_terminal();
        let thread = thread::spawn(move || show(&progress, &stopped, has_line));
        Self { stop, thread: Some(thread), has_line }
    }

    pub(crate) fn say(&self, text: &str) {
        let clear = if self.has_line { "\r\x1b[K" } else { "" };
        // Nobody is left to tell if standard error is closed.
        let _ = writeln!(std::io::stderr().lock(), "{clear}{text}");
    }

    pub(crate) fn stop(mut self) {
        // The thread ends at the latest when the sender is gone.
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn show(progress: &Progress, stopped: &Receiver<()>, has_line: bool) {
    let every = if has_line { LINE_EVERY } else { LOG_EVERY };
    let (mut before, mut at) = (ProgressReport::default(), Instant::now());
    let mut shown = false;
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(every) {
        let now = progress.report();
        let rate = (now.rows_in - before.rows_in) as f64 / at.elapsed().as_secs_f64();
        (before, at) = (now, Instant::now());
        let mut line = format!("{} rows in, {} out, {rate:.0} rows/s", now.rows_in, now.rows_out);
        if let Some(watermark) = now.watermark_ms {
            line.push_str(&format!(", watermark {}", moment(watermark)));
        }
        for (name, count) in [("lag", now.lag), ("bad", now.bad), ("late", now.late), ("checkpoint", now.epoch)] {
            if count > 0 {
                line.push_str(&format!(", {name} {count}"));
            }
        }
        let (clear, end) = if has_line { ("\r\x1b[K", "") } else { ("", "\n") };
        let mut out = std::io::stderr().lock();
        let _ = write!(out, "{clear}{line}{end}").and_then(|()| out.flush());
        shown = true;
    }
    if shown && has_line {
        let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
    }
}

fn moment(millis: i64) -> String {
    let array = arrow::array::TimestampMillisecondArray::from(vec![millis]);
    arrow::util::display::array_value_to_string(&array, 0).unwrap_or_else(|_| millis.to_string())
}
