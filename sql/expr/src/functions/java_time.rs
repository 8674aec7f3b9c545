//! Java's date patterns (`yyyy-MM-dd HH:mm:ss.SSS`), for writing and for reading.
//!
//! Known letters: y u M L d D E e Q w H h k K m s S n a, quoted text, and zones when writing (z Z X x V). Reading
//! is smart as Java's: a day of up to 31 that the month does not have becomes its last; fields that are missing are
//! 1970-01-01 00:00:00. What a pattern cannot have is refused when the script is planned.

use std::fmt::Write as _;

use crate::civil::{DAY_MS, date_of, days_of, iso_weekday, month_length};

const MONTHS: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    Field(char, usize),
}

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pattern {
    pieces: Vec<Piece>,
}

impl Pattern {
    /// Compiles a pattern for writing or reading.
    pub(crate) fn new(pattern: &str, reading: bool) -> Result<Self, String> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut rest = pattern.chars().peekable();
        let text = |pieces: &mut Vec<Piece>, c: char| match pieces.last_mut() {
            Some(Piece::Text(text)) => text.push(c),
            _ => pieces.push(Piece::Text(c.to_string())),
        };
        while let Some(c) = rest.next() {
            match c {
                '\'' => {
                    if rest.next_if_eq(&'\'').is_some() {
                        text(&mut pieces, '\'');
                        continue;
                    }
                    loop {
                        match rest.next() {
                            Some('\'') if rest.next_if_eq(&'\'').is_some() => text(&mut pieces, '\''),
                            Some('\'') => break,
                            Some(c) => text(&mut pieces, c),
                            None => return Err(format!("date pattern '{pattern}': a quote is not closed")),
                        }
                    }
                }
                _ if c.is_ascii_alphabetic() => {
                    let mut count = 1;
                    while rest.next_if_eq(&c).is_some() {
                        count += 1;
                    }
                    let known = if reading { "yuMLdDEHhkKmsSna" } else { "yuMLdDEeQwHhkKmsSnazZXxV" };
                    if !known.contains(c) {
                        return Err(format!("date pattern '{pattern}': the letter {c} is not built, {known} are; text stands in quotes"));
                    }
                    pieces.push(Piece::Field(c, count));
                }
                '[' | ']' | '{' | '}' | '#' => return Err(format!("date pattern '{pattern}': `{c}` is not built")),
                _ => text(&mut pieces, c),
            }
        }
        Ok(Self { pieces })
    }

    /// Writes local time `ms` (and the nanoseconds behind it), `offset_ms` ahead of UTC in `zone`.
    pub(crate) fn write(&self, ms: i64, nanos: i64, offset_ms: i64, zone: &str, out: &mut String) {
        let (days, clock) = (ms.div_euclid(DAY_MS), ms.rem_euclid(DAY_MS));
        let date = date_of(days);
        let (h, m, s) = (clock / 3_600_000, clock / 60_000 % 60, clock / 1_000 % 60);
        let fraction = clock % 1_000 * 1_000_000 + nanos;
        for piece in &self.pieces {
            let (letter, count) = match piece {
                Piece::Text(text) => {
                    out.push_str(text);
                    continue;
                }
                Piece::Field(letter, count) => (*letter, *count),
            };
            let value = match letter {
                'y' | 'u' if count == 2 => date.year.rem_euclid(100),
                'y' | 'u' => date.year,
                'M' | 'L' if count >= 3 => {
                    name(&MONTHS, date.month as usize - 1, count, out);
                    continue;
                }
                'M' | 'L' => date.month.into(),
                'd' => date.day.into(),
                'D' => days - days_of(date.year, 1, 1) + 1,
                'E' => {
                    name(&DAYS, iso_weekday(days) as usize - 1, count.max(3), out);
                    continue;
                }
                'e' => iso_weekday(days) % 7 + 1,
                'Q' if count == 3 => {
                    let _ = write!(out, "Q{}", (date.month - 1) / 3 + 1);
                    continue;
                }
                'Q' => i64::from((date.month - 1) / 3 + 1),
                'w' => week_of_year(days),
                'H' => h,
                'h' => (h + 11) % 12 + 1,
                'k' => (h + 23) % 24 + 1,
                'K' => h % 12,
                'm' => m,
                's' => s,
                'n' => fraction,
                'S' => {
                    let digits = format!("{fraction:09}");
                    out.push_str(&digits[..count.min(9)]);
                    (9..count).for_each(|_| out.push('0'));
                    continue;
                }
                'a' => {
                    out.push_str(if h < 12 { "AM" } else { "PM" });
                    continue;
                }
                _ => {
                    zone_text(letter, count, offset_ms, zone, out);
                    continue;
                }
            };
            let _ = write!(out, "{value:0count$}");
        }
    }

    /// Reads a local time as milliseconds since 1970 and the nanoseconds behind them; `None` if the text does not fit.
    pub(crate) fn read(&self, text: &str) -> Option<(i64, i64)> {
        self.read_start(text).filter(|(_, rest)| rest.is_empty()).map(|(time, _)| time)
    }

    /// The same, whatever follows: also the rest of the text.
    pub(crate) fn read_start<'t>(&self, text: &'t str) -> Option<((i64, i64), &'t str)> {
        let mut found = Found::default();
        let mut rest = text;
        for (position, piece) in self.pieces.iter().enumerate() {
            let (letter, count) = match piece {
                Piece::Text(text) => {
                    rest = rest.strip_prefix(text.as_str())?;
                    continue;
                }
                Piece::Field(letter, count) => (*letter, *count),
            };
            match letter {
                'a' => {
                    let (half, tail) = (rest.get(..2)?, rest.get(2..)?);
                    found.afternoon = Some(if half.eq_ignore_ascii_case("PM") { true } else { half.eq_ignore_ascii_case("AM").then_some(false)? });
                    rest = tail;
                    continue;
                }
                'E' => {
                    rest = read_name(&DAYS, count.max(3), rest)?.1;
                    continue;
                }
                'M' | 'L' if count >= 3 => {
                    let (month, tail) = read_name(&MONTHS, count, rest)?;
                    (found.month, rest) = (Some(month as i64 + 1), tail);
                    continue;
                }
                _ => {}
            }
            // A field right before another has exactly its letters' digits, as in yyyyMMdd.
            let adjacent = matches!(self.pieces.get(position + 1), Some(Piece::Field(next, _)) if !matches!(next, 'a' | 'E'));
            let most = match letter {
                _ if adjacent => count,
                'S' => 9,
                'y' | 'u' if count == 2 => 2,
                'y' | 'u' => 9.max(count),
                'D' => 3,
                'n' => 9,
                _ if count == 1 => 2,
                _ => count,
            };
            let digits = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
            let least = match letter {
                'S' => 1,
                'y' | 'u' | 'D' | 'n' => count.min(4),
                // One digit is read where two are written, as in Flink's own parser: 2020-1-1 for yyyy-MM-dd.
                _ => 1,
            };
            if digits < least {
                return None;
            }
            let value: i64 = rest[..digits].parse().ok()?;
            match letter {
                'y' | 'u' => found.year = Some(if count == 2 { 2_000 + value } else { value }),
                'M' | 'L' => found.month = Some(value),
                'd' => found.day = Some(value),
                'D' => found.day_of_year = Some(value),
                'H' | 'k' => found.hour = Some(if letter == 'k' { value % 24 } else { value }),
                'h' | 'K' => found.half_hour = Some(value % 12),
                'm' => found.minute = Some(value),
                's' => found.second = Some(value),
                'n' => found.nanos = Some(value),
                _ => found.nanos = Some(value * 10_i64.pow(9 - digits as u32)),
            }
            rest = &rest[digits..];
        }
        Some((found.resolve()?, rest))
    }
}

#[derive(Debug, Default)]
struct Found {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    hour: Option<i64>,
    half_hour: Option<i64>,
    afternoon: Option<bool>,
    minute: Option<i64>,
    second: Option<i64>,
    nanos: Option<i64>,
}

impl Found {
    fn resolve(&self) -> Option<(i64, i64)> {
        let year = self.year.unwrap_or(1_970);
        let days = match self.day_of_year {
            Some(day) => days_of(year, 1, 1) + (day - 1),
            None => {
                let month = self.month.unwrap_or(1);
                let day = self.day.unwrap_or(1);
                if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
                    return None;
                }
                days_of(year, month as u32, day.min(month_length(year, month as u32).into()) as u32)
            }
        };
        let hour = match (self.hour, self.half_hour) {
            (Some(hour), _) => hour,
            (None, Some(hour)) => hour + if self.afternoon == Some(true) { 12 } else { 0 },
            (None, None) => 0,
        };
        let (minute, second, nanos) = (self.minute.unwrap_or(0), self.second.unwrap_or(0), self.nanos.unwrap_or(0));
        let midnight = hour == 24 && minute == 0 && second == 0 && nanos == 0;
        if !(midnight || hour < 24 && minute < 60 && second < 60) {
            return None;
        }
        let ms = days.checked_mul(DAY_MS)?.checked_add((hour * 3_600 + minute * 60 + second) * 1_000 + nanos / 1_000_000)?;
        Some((ms, nanos % 1_000_000))
    }
}

/// Weeks begin on Sunday and the first holds 1 January: the week of Java's default locale.
fn week_of_year(days: i64) -> i64 {
    let sunday_based = |days: i64| iso_weekday(days) % 7;
    let date = date_of(days);
    let next = days_of(date.year + 1, 1, 1);
    if days >= next - sunday_based(next) {
        return 1;
    }
    let first = days_of(date.year, 1, 1);
    (days - (first - sunday_based(first))) / 7 + 1
}

fn name(names: &[&str], index: usize, count: usize, out: &mut String) {
    let name = names.get(index).copied().unwrap_or_default();
    match count {
        3 => out.push_str(&name[..3]),
        5 => out.push_str(&name[..1]),
        _ => out.push_str(name),
    }
}

fn read_name<'a>(names: &[&str], count: usize, text: &'a str) -> Option<(usize, &'a str)> {
    let short = |name: &'static str| if count == 3 { &name[..3] } else { name };
    let all = if names.len() == 12 { MONTHS.as_slice() } else { DAYS.as_slice() };
    all.iter().enumerate().find_map(|(index, name)| text.strip_prefix(short(name)).map(|rest| (index, rest)))
}

fn zone_text(letter: char, count: usize, offset_ms: i64, zone: &str, out: &mut String) {
    let (sign, minutes) = (if offset_ms < 0 { '-' } else { '+' }, offset_ms.abs() / 60_000);
    let (h, m) = (minutes / 60, minutes % 60);
    let _ = match letter {
        'V' | 'z' => write!(out, "{zone}"),
        'X' if minutes == 0 => write!(out, "Z"),
        'X' | 'x' if count == 1 && m == 0 => write!(out, "{sign}{h:02}"),
        'X' | 'x' if count == 3 => write!(out, "{sign}{h:02}:{m:02}"),
        _ => write!(out, "{sign}{h:02}{m:02}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(pattern: &str, ms: i64) -> String {
        let mut out = String::new();
        Pattern::new(pattern, false).expect("a pattern").write(ms, 0, 0, "UTC", &mut out);
        out
    }

    #[test]
    fn writes_as_java_does() {
        let ms = days_of(2020, 8, 19) * DAY_MS + 49_510_567;
        let cases = [
            ("yyyy-MM-dd HH:mm:ss.SSS", "2020-08-19 13:45:10.567"), ("yy/M/d H:m:s", "20/8/19 13:45:10"), ("EEE, d MMM yyyy hh:mm a", "Wed, 19 Aug 2020 01:45 PM"),
            ("EEEE MMMM", "Wednesday August"), ("'T'yyyy''", "T2020'"), ("D w", "232 34"), ("u e", "2020 4"), ("QQQ Q", "Q3 3"), ("SSSSSS", "567000"), ("XXX", "Z"),
        ];
        for (pattern, expected) in cases {
            assert_eq!(written(pattern, ms), expected, "{pattern}");
        }
        assert_eq!(written("yyyy-MM-dd HH:mm:ss", -1_000), "1969-12-31 23:59:59");
    }

    #[test]
    fn reads_smartly() {
        let read = |pattern: &str, text: &str| Pattern::new(pattern, true).expect("a pattern").read(text).map(|(ms, _)| ms);
        assert_eq!(read("dd/MM/yyyy", "06/05/2020"), Some(days_of(2020, 5, 6) * DAY_MS));
        assert_eq!(read("yyyyMMdd", "20200506"), Some(days_of(2020, 5, 6) * DAY_MS));
        assert_eq!(read("h:mm a d MMM yyyy", "1:02 PM 6 May 2020"), Some(days_of(2020, 5, 6) * DAY_MS + 46_920_000));
        assert_eq!(read("yyyy-MM-dd'T'HH:mm:ss'Z'", "2020-05-06T07:08:09Z"), Some(days_of(2020, 5, 6) * DAY_MS + 25_689_000));
        assert_eq!(read("yyyy-MM-dd HH:mm:ss.SSS", "2020-05-06 07:08:09.12"), Some(days_of(2020, 5, 6) * DAY_MS + 25_689_120));
        assert_eq!(read("yyyy", "2020"), Some(days_of(2020, 1, 1) * DAY_MS));
        assert_eq!(read("HH:mm", "12:13"), Some(43_980_000));
        assert_eq!(read("yyyy-MM-dd", "2020-02-31"), Some(days_of(2020, 2, 29) * DAY_MS));
        assert_eq!(read("yyyy-MM-dd", "2020-13-01"), None);
        assert_eq!(read("yyyy-MM-dd", "2020-01-01 "), None);
        assert_eq!(read("yyyy-MM-dd", "999999999-01-01"), None);
        assert!(Pattern::new("yyyy-MM-ddTHH", true).is_err());
    }
}
