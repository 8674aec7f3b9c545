//! Log: lines a second (the job's `log-lines`, 100 by default), 1 KiB a line; and the last 4 KiB of stderr.
//!
//! A line over the limit is counted and dropped; the count is logged when the next second begins. Real time is used on
//! purpose: this protects the disk, not the result.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

const LINE_BYTES_MAX: usize = 1 << 10;
const STDERR_BYTES_MAX: usize = 4 << 10;

/// What happens to a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Written; so many were dropped before it.
    Write { dropped_before: u64 },
    Drop,
}

/// Lines of one instance.
#[derive(Debug)]
pub(crate) struct LogLimit {
    per_second: u32,
    second: Instant,
    left: u32,
    dropped: u64,
}

impl LogLimit {
    pub(crate) fn new(per_second: u32) -> Self {
        Self { per_second, second: Instant::now(), left: per_second, dropped: 0 }
    }

    /// One line arrives at `now`.
    pub(crate) fn take(&mut self, now: Instant) -> Verdict {
        if now.duration_since(self.second) >= Duration::from_secs(1) {
            self.second = now;
            self.left = self.per_second;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Verdict::Write { dropped_before: std::mem::take(&mut self.dropped) }
            }
            None => {
                self.dropped += 1;
                Verdict::Drop
            }
        }
    }
}

/// The line as it is written: one line, cut at a character's border.
pub(crate) fn cut(message: &str) -> String {
    let end = (0..=LINE_BYTES_MAX.min(message.len())).rev().find(|&at| message.is_char_boundary(at)).unwrap_or(0);
    message[..end].replace(['\n', '\r'], "⏎")
}

/// The end of what a guest wrote to stderr.
#[derive(Debug, Default)]
pub(crate) struct StderrTail(VecDeque<u8>);

impl StderrTail {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let keep = &bytes[bytes.len().saturating_sub(STDERR_BYTES_MAX)..];
        let surplus = (self.0.len() + keep.len()).saturating_sub(STDERR_BYTES_MAX);
        self.0.drain(..surplus);
        self.0.extend(keep);
    }

    pub(crate) fn text(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().copied().collect();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_lines_over_the_limit_and_says_how_many_a_second_later() {
        let mut limit = LogLimit::new(2);
        let start = limit.second;
        assert_eq!(limit.take(start), Verdict::Write { dropped_before: 0 });
        assert_eq!(limit.take(start), Verdict::Write { dropped_before: 0 });
        assert_eq!(limit.take(start), Verdict::Drop);
        assert_eq!(limit.take(start), Verdict::Drop);
        assert_eq!(limit.take(start + Duration::from_secs(1)), Verdict::Write { dropped_before: 2 });
    }

    #[test]
    fn keeps_the_end_of_stderr_and_cuts_lines_between_characters() {
        let mut tail = StderrTail::default();
        tail.push(&[b'a'; 5_000]);
        tail.push(b"end");
        assert_eq!(tail.text().len(), 4_096);
        assert!(tail.text().ends_with("aend"));
        assert_eq!(cut(&"ä".repeat(600)).len(), 1_024);
        assert_eq!(cut("a\nb"), "a⏎b");
    }
}
