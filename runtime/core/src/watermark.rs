//! Watermarks of one source split: when one is sent, and where a batch is cut for it.
//!
//! Promises: whether a row is late does not depend on how rows were batched. The generator follows the watermark row by
//! row; as in Flink, a new value is *due* once it has moved by more than the interval since the last one due. A due
//! value may be sent later than its row, but never after a row that is behind it: before such a row the batch is cut.
//!
//! interval 0.2 s, watermark = time − 1 s, batch with times 1.0 s, 3.0 s, 1.5 s, 3.1 s
//!   after 3.0 s the value 2.0 s is due; 1.5 s is behind it → `Batch[1.0, 3.0]`, `Watermark(2.0)`, `Batch[1.5, 3.1]`
//!   at the batch's end `Watermark(2.0)` is not sent again; 2.1 s is not due yet

use crate::time::{EventTime, Watermark};

/// One per split with a time attribute. Its state is two watermarks, stored with the split's position.
#[derive(Debug, Clone)]
pub struct WatermarkGenerator {
    interval_ms: i64,
    /// Highest value of the watermark expression so far.
    running: Watermark,
    /// Last value that was due: rows at or before it are behind it.
    due: Watermark,
    /// Last value sent.
    sent: Watermark,
}

/// A place to cut a batch: the rows before `row` are sent, then the watermark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Index of the first row after the watermark.
    pub row: usize,
    /// What to send between.
    pub watermark: Watermark,
}

impl WatermarkGenerator {
    /// `interval_ms` is `pipeline.auto-watermark-interval`: a new watermark is due once it moved by more than this.
    pub fn new(interval_ms: i64) -> Self {
        Self { interval_ms, running: Watermark::MIN, due: Watermark::MIN, sent: Watermark::MIN }
    }

    /// Goes on from a checkpoint: nothing that was due before is forgotten.
    pub fn restored(interval_ms: i64, running: Watermark, due: Watermark) -> Self {
        Self { interval_ms, running, due, sent: Watermark::MIN }
    }

    /// `(running, due)`, for the checkpoint.
    pub fn snapshot(&self) -> (Watermark, Watermark) {
        (self.running, self.due)
    }

    /// Follows a batch given as each row's event time and watermark-expression value, in ms. Appends the cuts, in row
    /// order; a cut at `row == event_times.len()` is the watermark after the batch.
    pub fn advance(&mut self, event_times: &[i64], watermarks: &[i64], cuts: &mut Vec<Cut>) {
        for (row, (&time, &value)) in event_times.iter().zip(watermarks).enumerate() {
            if self.due > self.sent && self.due.is_past(EventTime::from_millis(time)) {
                cuts.push(Cut { row, watermark: self.due });
                self.sent = self.due;
            }
            let value = Watermark::at(EventTime::from_millis(value));
            if value > self.running {
                self.running = value;
                if self.due == Watermark::MIN || self.moved_ms() > self.interval_ms {
                    self.due = value;
                }
            }
        }
        if self.due > self.sent {
            cuts.push(Cut { row: event_times.len(), watermark: self.due });
            self.sent = self.due;
        }
    }

    /// On unbounded inputs, after the interval of processing time: the highest value is due now.
    pub fn flush(&mut self) -> Option<Watermark> {
        self.due = self.running;
        (self.due > self.sent).then(|| {
            self.sent = self.due;
            self.sent
        })
    }

    fn moved_ms(&self) -> i64 {
        self.running.time().as_millis().saturating_sub(self.due.time().as_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(times: &[i64], sizes: &[usize]) -> Vec<String> {
        let mut generator = WatermarkGenerator::new(200);
        let mut out = Vec::new();
        let mut rest = times;
        let mut size = sizes.iter().cycle();
        while !rest.is_empty() {
            let (batch, tail) = rest.split_at((*size.next().expect("cycle never ends")).min(rest.len()));
            rest = tail;
            let watermarks: Vec<i64> = batch.iter().map(|t| t - 1_000).collect();
            let mut cuts = Vec::new();
            generator.advance(batch, &watermarks, &mut cuts);
            let mut cuts = cuts.into_iter().peekable();
            for (row, time) in batch.iter().enumerate() {
                while let Some(cut) = cuts.next_if(|cut| cut.row == row) {
                    out.push(format!("W{}", cut.watermark.time().as_millis()));
                }
                out.push(time.to_string());
            }
            out.extend(cuts.map(|cut| format!("W{}", cut.watermark.time().as_millis())));
        }
        out
    }

    /// For each row, whether it is late where it stands.
    fn lateness(events: &[String]) -> Vec<bool> {
        let mut watermark = i64::MIN;
        let mut late = Vec::new();
        for event in events {
            match event.strip_prefix('W') {
                Some(value) => watermark = value.parse().expect("number"),
                None => late.push(event.parse::<i64>().expect("number") <= watermark),
            }
        }
        late
    }

    #[test]
    fn cuts_before_a_row_that_is_behind() {
        let got = events(&[1_000, 3_000, 1_500, 3_100], &[4]);
        assert_eq!(got, ["1000", "3000", "W2000", "1500", "3100"]);
    }

    #[test]
    fn lateness_does_not_depend_on_batch_size() {
        let mut times = Vec::new();
        let mut seed = 42_u64;
        for i in 0..5_000_i64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            times.push(i * 30 - ((seed >> 33) % 2_500) as i64);
        }
        let one = lateness(&events(&times, &[1]));
        assert!(one.contains(&true) && one.contains(&false));
        for sizes in [&[7][..], &[8_192], &[1, 100, 3]] {
            assert_eq!(lateness(&events(&times, sizes)), one, "batch sizes {sizes:?}");
        }
    }
}
