//! Time: event time, processing time, watermarks, windows, and the one place where lateness is decided.
//!
//! Promises: windows are half-open `[start, end)`; a window fires when the watermark reaches `end - 1 ms`, never
//! before; a row is late *for a window* when that window has fired, not as such. No arithmetic here overflows:
//! everything saturates at the ends of `i64`.
//!
//! size = 10 s      rows at 3 s, 9 s, 12 s      watermark 9.999 s → `[0 s, 10 s)` fires with two rows

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Event time: milliseconds since 1970-01-01 UTC, as Kafka stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventTime(i64);

impl EventTime {
    /// The earliest time that can be written.
    pub const MIN: Self = Self(i64::MIN);
    /// The latest time that can be written.
    pub const MAX: Self = Self(i64::MAX);

    /// From milliseconds since 1970-01-01 UTC.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01 UTC.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Moves later; stops at [`EventTime::MAX`].
    #[must_use]
    pub fn saturating_add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(millis_of(span)))
    }

    /// Moves earlier; stops at [`EventTime::MIN`].
    #[must_use]
    pub fn saturating_sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(millis_of(span)))
    }

    /// The largest multiple of `step` (shifted by `offset`) that is not after this time: rounds towards the past,
    /// also before 1970.
    #[must_use]
    pub fn floor_to(self, step_ms: i64, offset_ms: i64) -> Self {
        let shifted = self.0.saturating_sub(offset_ms);
        Self(shifted.saturating_sub(shifted.rem_euclid(step_ms)).saturating_add(offset_ms))
    }
}

fn millis_of(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// Wall-clock time in milliseconds since 1970-01-01 UTC, read from a [`Clock`] and from nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessingTime(i64);

impl ProcessingTime {
    /// From milliseconds since 1970-01-01 UTC.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01 UTC.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Time passed since `earlier`, zero if the clock went backwards.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// Where processing time comes from. Called at any time from any thread; tests move a manual one by hand.
pub trait Clock: Send + Sync {
    /// Now. May go backwards; callers measure with [`ProcessingTime::since`].
    fn now(&self) -> ProcessingTime;
}

/// `Watermark(t)`: no row with event time ≤ t is expected any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Watermark(EventTime);

impl Watermark {
    /// Before anything is known.
    pub const MIN: Self = Self(EventTime::MIN);
    /// After the last row of a bounded input: every window fires.
    pub const MAX: Self = Self(EventTime::MAX);

    /// Claims that no row with event time ≤ `time` is expected any more.
    pub const fn at(time: EventTime) -> Self {
        Self(time)
    }

    /// The time this watermark has reached.
    pub const fn time(self) -> EventTime {
        self.0
    }

    /// Whether a row at `time` comes after this watermark said that it would not.
    pub fn is_past(self, time: EventTime) -> bool {
        time <= self.0
    }
}

/// A window `[start, end)` of event time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TimeWindow {
    /// First millisecond inside.
    pub start: EventTime,
    /// First millisecond after.
    pub end: EventTime,
}

impl TimeWindow {
    /// Whether `watermark` lets this window fire: it has reached the window's last millisecond.
    pub fn fires_at(self, watermark: Watermark) -> bool {
        watermark.time().as_millis() >= self.end.as_millis().saturating_sub(1)
    }

    /// The window's last millisecond, which is the row time of its results (`window_time`).
    pub fn last_millisecond(self) -> EventTime {
        EventTime(self.end.0.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fires_when_the_watermark_reaches_the_last_millisecond() {
        let window = TimeWindow { start: EventTime(0), end: EventTime(10_000) };
        assert!(!window.fires_at(Watermark::at(EventTime(9_998))));
        assert!(window.fires_at(Watermark::at(EventTime(9_999))));
    }

    #[test]
    fn floors_towards_the_past_before_1970_and_with_offsets() {
        assert_eq!(EventTime(-1).floor_to(1_000, 0), EventTime(-1_000));
        assert_eq!(EventTime(-1_000).floor_to(1_000, 0), EventTime(-1_000));
        assert_eq!(EventTime(1_999).floor_to(1_000, 500), EventTime(1_500));
        assert_eq!(EventTime(499).floor_to(1_000, 500), EventTime(-500));
        assert_eq!(EventTime(499).floor_to(1_000, -500), EventTime(-500));
    }

    #[test]
    fn saturates_at_the_ends() {
        assert_eq!(EventTime::MAX.saturating_add(Duration::from_secs(1)), EventTime::MAX);
        assert!(TimeWindow { start: EventTime::MIN, end: EventTime::MIN }.fires_at(Watermark::MIN));
    }
}
