//! Windows over time: which ones a row falls into, and when they fire.
//!
//! Times are milliseconds. For a TIMESTAMP_LTZ time attribute windows are laid over local time, so that a day is a day
//! of the zone also where it has 23 or 25 hours (as Flink's window functions do); edges are then local times, and
//! firing looks at the instant an edge stands for.

use chrono::{LocalResult, NaiveDateTime, Offset as _, TimeZone as _};
use chrono_tz::Tz;
use pelton_core::time::{EventTime, TimeWindow, Watermark};

/// How windows are laid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowKind {
    /// Side by side.
    Tumble {
        /// Length.
        size_ms: i64,
    },
    /// Every slide one of a size; the size is a multiple of the slide.
    Hop {
        /// Distance of two starts.
        slide_ms: i64,
        /// Length.
        size_ms: i64,
    },
    /// From the same start, each longer by a step, up to a size that is a multiple of the step.
    Cumulate {
        /// By how much they grow.
        step_ms: i64,
        /// Length of the longest.
        size_ms: i64,
    },
}

/// Windows over a time attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowSpec {
    /// Their shape.
    pub kind: WindowKind,
    /// By how much all edges are moved.
    pub offset_ms: i64,
    /// The zone of a TIMESTAMP_LTZ time attribute; `None` for TIMESTAMP.
    pub zone: Option<Tz>,
}

impl WindowSpec {
    /// The step in which edges follow each other: a pane's length.
    pub(crate) fn pane_ms(&self) -> i64 {
        match self.kind {
            WindowKind::Tumble { size_ms } => size_ms,
            WindowKind::Hop { slide_ms, .. } => slide_ms,
            WindowKind::Cumulate { step_ms, .. } => step_ms,
        }
    }

    /// Length of the longest window.
    pub(crate) fn size_ms(&self) -> i64 {
        match self.kind {
            WindowKind::Tumble { size_ms } | WindowKind::Hop { size_ms, .. } | WindowKind::Cumulate { size_ms, .. } => size_ms,
        }
    }

    /// Time on the windows' axis of an instant.
    pub(crate) fn axis_of(&self, utc_ms: i64) -> i64 {
        let Some(zone) = self.zone else { return utc_ms };
        match chrono::DateTime::from_timestamp_millis(utc_ms) {
            Some(time) => utc_ms.saturating_add(i64::from(zone.offset_from_utc_datetime(&time.naive_utc()).fix().local_minus_utc()) * 1_000),
            None => utc_ms,
        }
    }

    /// The instant that a time of the axis stands for. A local time that comes twice in autumn is its first instant, one
    /// that is skipped in spring is as long after the change as it lies in the gap (as Java's `atZone`).
    pub(crate) fn instant_of(&self, axis_ms: i64) -> i64 {
        let Some(zone) = self.zone else { return axis_ms };
        let Some(local) = chrono::DateTime::from_timestamp_millis(axis_ms).map(|time| time.naive_utc()) else { return axis_ms };
        match zone.from_local_datetime(&local) {
            LocalResult::Single(time) | LocalResult::Ambiguous(time, _) => time.timestamp_millis(),
            LocalResult::None => skipped(zone, local).unwrap_or(axis_ms),
        }
    }

    /// The instant at which everything up to a time of the axis has been, as Flink sets its timers: the last instant of
    /// a time that comes twice, the change of clocks for a time that is skipped.
    fn completed_at(&self, axis_ms: i64) -> i64 {
        const HOUR: i64 = 3_600_000;
        if self.zone.is_none() {
            return axis_ms;
        }
        let (first, hour_later) = (self.instant_of(axis_ms), self.instant_of(axis_ms.saturating_add(HOUR)));
        if first == hour_later {
            first - first % HOUR
        } else if hour_later.saturating_sub(first) > HOUR {
            first.saturating_add(HOUR)
        } else {
            first
        }
    }

    /// Start of the pane that holds a time of the axis.
    pub(crate) fn pane_start(&self, axis_ms: i64) -> i64 {
        EventTime::from_millis(axis_ms).floor_to(self.pane_ms(), self.offset_ms).as_millis()
    }

    /// Start of the longest cumulating window that holds a time of the axis.
    pub(crate) fn long_start(&self, axis_ms: i64) -> i64 {
        EventTime::from_millis(axis_ms).floor_to(self.size_ms(), self.offset_ms).as_millis()
    }

    /// Whether a window that ends at `end` (on the axis) has fired.
    pub(crate) fn fired(&self, end: i64, watermark: Watermark) -> bool {
        if watermark == Watermark::MAX {
            return true;
        }
        let last = self.completed_at(end.saturating_sub(1));
        TimeWindow { start: EventTime::MIN, end: EventTime::from_millis(last.saturating_add(1)) }.fires_at(watermark)
    }

    /// The last edge that has fired, if `watermark` is neither before nor after everything.
    pub(crate) fn last_fired(&self, watermark: Watermark) -> Option<i64> {
        if watermark == Watermark::MIN || watermark == Watermark::MAX {
            return None;
        }
        let mut edge = self.pane_start(self.axis_of(watermark.time().as_millis()).saturating_add(1));
        while !self.fired(edge, watermark) {
            edge = edge.checked_sub(self.pane_ms())?;
        }
        Some(edge)
    }

    /// End of the last window that holds a pane: once it has fired, rows of the pane are late.
    pub(crate) fn last_end(&self, pane_start: i64) -> i64 {
        match self.kind {
            WindowKind::Tumble { size_ms } => pane_start.saturating_add(size_ms),
            WindowKind::Hop { size_ms, .. } => pane_start.saturating_add(size_ms),
            WindowKind::Cumulate { size_ms, .. } => self.long_start(pane_start).saturating_add(size_ms),
        }
    }

    /// Start and end of each window that holds a pane, the first to end first.
    pub(crate) fn windows(&self, pane_start: i64, mut each: impl FnMut(i64, i64)) {
        match self.kind {
            WindowKind::Tumble { size_ms } => each(pane_start, pane_start.saturating_add(size_ms)),
            WindowKind::Hop { slide_ms, size_ms } => {
                for back in (0..size_ms / slide_ms).rev() {
                    let start = pane_start.saturating_sub(back.saturating_mul(slide_ms));
                    each(start, start.saturating_add(size_ms));
                }
            }
            WindowKind::Cumulate { step_ms, size_ms } => {
                let start = self.long_start(pane_start);
                let mut end = pane_start.saturating_add(step_ms);
                while end <= start.saturating_add(size_ms) {
                    each(start, end);
                    end = end.saturating_add(step_ms);
                }
            }
        }
    }
}

fn skipped(zone: Tz, local: NaiveDateTime) -> Option<i64> {
    // The last local time before the gap: gaps are at most a day, and begin on a quarter of an hour.
    (1..=96).find_map(|quarters| {
        let before = local - chrono::Duration::minutes(15 * quarters);
        let instant = zone.from_local_datetime(&before).latest()?;
        Some(instant.timestamp_millis() + (local - before).num_milliseconds())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn spec(kind: WindowKind) -> WindowSpec {
        WindowSpec { kind, offset_ms: 0, zone: None }
    }

    fn windows(spec: &WindowSpec, time: i64) -> Vec<(i64, i64)> {
        let mut found = Vec::new();
        spec.windows(spec.pane_start(time), |start, end| found.push((start, end)));
        found
    }

    #[test]
    fn a_row_falls_into_each_window_that_holds_it() {
        assert_eq!(windows(&spec(WindowKind::Tumble { size_ms: 10 }), 25), [(20, 30)]);
        assert_eq!(windows(&spec(WindowKind::Hop { slide_ms: 5, size_ms: 10 }), 25), [(20, 30), (25, 35)]);
        assert_eq!(windows(&spec(WindowKind::Hop { slide_ms: 5, size_ms: 10 }), -1), [(-10, 0), (-5, 5)]);
        assert_eq!(windows(&spec(WindowKind::Cumulate { step_ms: 5, size_ms: 15 }), 6), [(0, 10), (0, 15)]);
    }

    #[test]
    fn days_follow_the_zone_over_the_change_of_clocks() {
        let day = WindowSpec { kind: WindowKind::Tumble { size_ms: 24 * HOUR }, offset_ms: 0, zone: Some(chrono_tz::Europe::Berlin) };
        // 2020-10-25 has 25 hours in Berlin: from 22:00 UTC the day before to 23:00 UTC.
        let begin = 1_603_576_800_000;
        let end = begin + 25 * HOUR;
        let start = day.pane_start(day.axis_of(begin));
        assert_eq!(day.instant_of(start), begin);
        assert_eq!(day.pane_start(day.axis_of(end - 1)), start);
        assert_eq!(day.instant_of(start + 24 * HOUR), end);
        let at = |ms: i64| Watermark::at(EventTime::from_millis(ms));
        assert!(!day.fired(start + 24 * HOUR, at(end - 2)));
        assert!(day.fired(start + 24 * HOUR, at(end - 1)));
    }

    #[test]
    fn half_hours_that_come_twice_close_after_the_second_and_skipped_ones_at_the_change() {
        let half = WindowSpec { kind: WindowKind::Tumble { size_ms: HOUR / 2 }, offset_ms: 0, zone: Some(chrono_tz::Europe::Berlin) };
        let at = |ms: i64| Watermark::at(EventTime::from_millis(ms));
        // 2020-10-25 02:00 to 03:00 comes twice: first from 00:00 UTC, then from 01:00 UTC.
        let (midnight, two) = (1_603_584_000_000, 1_603_591_200_000);
        assert!(!half.fired(two + HOUR / 2, at(midnight + HOUR / 2)));
        assert!(!half.fired(two + HOUR / 2, at(midnight + HOUR + HOUR / 2 - 2)));
        assert!(half.fired(two + HOUR / 2, at(midnight + HOUR + HOUR / 2 - 1)));
        assert_eq!(half.last_fired(at(midnight + HOUR / 2)), Some(two));
        // 2021-03-28 02:00 to 03:00 does not exist: 01:00 UTC is 03:00.
        let change = 1_616_893_200_000;
        let two = change + HOUR;
        assert!(!half.fired(two + HOUR / 2, at(change - 1)));
        assert!(half.fired(two + HOUR / 2, at(change)));
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        let hop = spec(WindowKind::Hop { slide_ms: 5, size_ms: 10 });
        for time in [i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX] {
            assert_eq!(windows(&hop, time).len(), 2);
        }
    }
}
