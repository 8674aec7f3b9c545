//! Formats of text: which ones a word may be.

use super::TextFormat;
use crate::text::{TimestampStandard, date, time_of_day, timestamp};

/// The format of one text, if it has one.
pub(super) fn format_of(text: &[u8]) -> Option<TextFormat> {
    // The first byte tells most words apart from most formats.
    match text.first()? {
        b'0'..=b'9' if text.len() >= 7 => by_digits(text),
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => by_letters(text),
        _ => None,
    }
}

fn by_digits(text: &[u8]) -> Option<TextFormat> {
    match text.get(4) {
        Some(b'-') if text.len() == 10 => return date(text).map(|_| TextFormat::Date),
        Some(b'-') if text.len() > 10 => {
            if let Some(found) = date_time(text) {
                return Some(found);
            }
        }
        _ => {}
    }
    if text.get(2) == Some(&b':') && time_of_day(text, true).is_some() {
        return Some(TextFormat::Time);
    }
    by_letters(text)
}

fn date_time(text: &[u8]) -> Option<TextFormat> {
    let is_iso = text[10] == b'T';
    let standard = if is_iso { TimestampStandard::Iso8601 } else { TimestampStandard::Sql };
    let is_utc = text.last() == Some(&b'Z');
    if timestamp(text, standard, is_utc).is_some() {
        let end = text.len() - usize::from(is_utc);
        let digits = text.iter().position(|&byte| byte == b'.').map_or(0, |point| end - point - 1);
        return Some(TextFormat::DateTime { is_iso, is_utc, digits: u8::try_from(digits).unwrap_or(9) });
    }
    // `+02:00` at the end.
    let (local, offset) = text.split_at_checked(text.len().checked_sub(6)?)?;
    let is_offset = matches!(offset, [b'+' | b'-', h1, h2, b':', m1, m2] if [h1, h2, m1, m2].iter().all(|digit| digit.is_ascii_digit()));
    (is_offset && is_iso && timestamp(local, standard, false).is_some()).then_some(TextFormat::OffsetDateTime)
}

fn by_letters(text: &[u8]) -> Option<TextFormat> {
    if text.len() == 36 && text[8] == b'-' {
        let is_uuid = text.iter().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
        return is_uuid.then_some(TextFormat::Uuid);
    }
    if is_ipv4(text) {
        return Some(TextFormat::Ipv4);
    }
    if let Some(at) = memchr::memmem::find(text, b"://") {
        let scheme = &text[..at];
        let is_uri = at > 0
            && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
            && text.len() > at + 3
            && text.iter().all(|byte| *byte > b' ' && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'));
        return is_uri.then_some(TextFormat::Uri);
    }
    is_email(text).then_some(TextFormat::Email)
}

fn is_ipv4(text: &[u8]) -> bool {
    text.len() <= 15
        && text.split(|&byte| byte == b'.').count() == 4
        && text.split(|&byte| byte == b'.').all(|part| {
            (1..=3).contains(&part.len()) && part.iter().all(u8::is_ascii_digit) && crate::text::whole(part).is_some_and(|value| value <= 255)
        })
}

fn is_email(text: &[u8]) -> bool {
    let Some(at) = memchr::memchr(b'@', text) else { return false };
    let (name, domain) = (&text[..at], &text[at + 1..]);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b".!#$%&'*+/=?^_`{|}~-".contains(byte);
    !name.is_empty()
        && name.iter().all(is_name)
        && domain.contains(&b'.')
        && domain.split(|&byte| byte == b'.').all(|label| {
            !label.is_empty() && label.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        })
}

/// What two texts' formats have in common.
pub(super) fn common(one: TextFormat, other: TextFormat) -> Option<TextFormat> {
    use TextFormat::{DateTime, OffsetDateTime};
    match (one, other) {
        (DateTime { is_iso, is_utc, digits }, DateTime { is_iso: iso, is_utc: utc, digits: more }) if is_iso == iso && is_utc == utc => {
            Some(DateTime { is_iso, is_utc, digits: digits.max(more) })
        }
        // Offsets and `Z` may be mixed: still a date-time, but no SQL type reads it.
        (DateTime { is_iso: true, is_utc: true, .. }, OffsetDateTime) | (OffsetDateTime, DateTime { is_iso: true, is_utc: true, .. }) => Some(OffsetDateTime),
        _ => (one == other).then_some(one),
    }
}
