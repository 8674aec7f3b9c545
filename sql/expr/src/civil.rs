//! Days, months and zones: the calendar that all time functions share.
//!
//! The proleptic Gregorian calendar over days since 1970-01-01, which is Java's `LocalDate`. Nothing here reads the
//! machine's zone. Local times that a zone skips or has twice are resolved as Java does: skipped ones move later by
//! the gap, doubled ones are the earlier instant.

use chrono::{MappedLocalTime, NaiveDateTime, Offset, TimeDelta, TimeZone};
use chrono_tz::Tz;

/// Milliseconds in a day.
pub(crate) const DAY_MS: i64 = 86_400_000;

/// A date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Date {
    pub(crate) year: i64,
    pub(crate) month: u32,
    pub(crate) day: u32,
}

/// Days since 1970-01-01 as a date.
pub(crate) fn date_of(days: i64) -> Date {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_index + 2) / 5 + 1) as u32;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 } as u32;
    Date { year: year_of_era + era * 400 + i64::from(month <= 2), month, day }
}

/// A date as days since 1970-01-01.
pub(crate) fn days_of(year: i64, month: u32, day: u32) -> i64 {
    let shifted_year = year - i64::from(month <= 2);
    let era = shifted_year.div_euclid(400);
    let year_of_era = shifted_year.rem_euclid(400);
    let month_index = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let day_of_year = (153 * month_index + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

pub(crate) fn is_leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

/// Days of a month.
pub(crate) fn month_length(year: i64, month: u32) -> u32 {
    match month {
        2 => 28 + u32::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// `days` moved by months; a day that the month does not have becomes its last.
pub(crate) fn add_months(days: i64, months: i64) -> i64 {
    let date = date_of(days);
    let total = date.year * 12 + i64::from(date.month) - 1 + months;
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) as u32 + 1);
    days_of(year, month, date.day.min(month_length(year, month)))
}

/// Day of the week, Monday is 1.
pub(crate) fn iso_weekday(days: i64) -> i64 {
    (days + 3).rem_euclid(7) + 1
}

/// ISO year and week.
pub(crate) fn iso_week(days: i64) -> (i64, i64) {
    let thursday = days + 4 - iso_weekday(days);
    let year = date_of(thursday).year;
    (year, (thursday - days_of(year, 1, 1)) / 7 + 1)
}

/// Milliseconds that local time is ahead of UTC at an instant.
pub(crate) fn offset_ms(zone: Tz, utc_ms: i64) -> i64 {
    if zone == Tz::UTC {
        return 0;
    }
    let Some(time) = chrono::DateTime::from_timestamp_millis(utc_ms) else { return 0 };
    i64::from(zone.offset_from_utc_datetime(&time.naive_utc()).fix().local_minus_utc()) * 1_000
}

/// An instant as local time in a zone, both in ms.
pub(crate) fn to_local(zone: Tz, utc_ms: i64) -> i64 {
    utc_ms.saturating_add(offset_ms(zone, utc_ms))
}

/// A local time as an instant, both in ms.
pub(crate) fn to_utc(zone: Tz, local_ms: i64) -> i64 {
    if zone == Tz::UTC {
        return local_ms;
    }
    let Some(local) = chrono::DateTime::from_timestamp_millis(local_ms).map(|time| time.naive_utc()) else { return local_ms };
    match zone.offset_from_local_datetime(&local) {
        MappedLocalTime::Single(offset) | MappedLocalTime::Ambiguous(offset, _) => {
            local_ms.saturating_sub(i64::from(offset.fix().local_minus_utc()) * 1_000)
        }
        MappedLocalTime::None => local_ms.saturating_sub(offset_before_gap(zone, local)),
    }
}

/// The offset in force before the gap that `local` falls into: with it the time lands behind the gap.
fn offset_before_gap(zone: Tz, local: NaiveDateTime) -> i64 {
    let before = local - TimeDelta::hours(24);
    let offset = match zone.offset_from_local_datetime(&before) {
        MappedLocalTime::Single(offset) | MappedLocalTime::Ambiguous(offset, _) => i64::from(offset.fix().local_minus_utc()),
        MappedLocalTime::None => 0,
    };
    offset * 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days_agree_over_four_centuries_and_before_1970() {
        for days in (-800_000..800_000).step_by(97) {
            let date = date_of(days);
            assert_eq!(days_of(date.year, date.month, date.day), days);
        }
        assert_eq!(date_of(-1), Date { year: 1969, month: 12, day: 31 });
        assert_eq!(date_of(18_321), Date { year: 2020, month: 2, day: 29 });
    }

    #[test]
    fn months_end_where_they_end() {
        let day = |y, m, d| days_of(y, m, d);
        assert_eq!(add_months(day(2020, 1, 31), 1), day(2020, 2, 29));
        assert_eq!(add_months(day(2020, 2, 29), 12), day(2021, 2, 28));
        assert_eq!(add_months(day(2020, 1, 31), -14), day(2018, 11, 30));
    }

    #[test]
    fn weeks_follow_iso() {
        assert_eq!(iso_week(days_of(2021, 1, 3)), (2020, 53));
        assert_eq!(iso_week(days_of(2018, 12, 31)), (2019, 1));
        assert_eq!(iso_weekday(days_of(2020, 8, 16)), 7);
    }

    #[test]
    fn zones_skip_and_repeat_hours_as_java_does() {
        let berlin = Tz::Europe__Berlin;
        let local = |y, m, d, h: i64| days_of(y, m, d) * DAY_MS + h * 3_600_000;
        assert_eq!(to_utc(berlin, local(2021, 3, 28, 2)), local(2021, 3, 28, 1), "2 o'clock does not exist and becomes 3 o'clock");
        assert_eq!(to_utc(berlin, local(2020, 10, 25, 2)), local(2020, 10, 25, 0), "2 o'clock comes twice, the first is meant");
        assert_eq!(to_local(berlin, local(2020, 7, 1, 0)), local(2020, 7, 1, 2));
    }
}
