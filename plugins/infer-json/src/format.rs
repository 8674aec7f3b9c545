//! Formats of strings: which ones every value of a place has.

/// Formats that are still possible, one bit each, in the order of [`NAMES`].
pub(crate) type Formats = u8;

pub(crate) const ALL: Formats = 0x7f;

/// Names as JSON Schema has them (`uuid` is common though younger than draft-07).
const NAMES: [&str; 7] = ["date-time", "date", "time", "uuid", "email", "ipv4", "uri"];

/// The first format that all values had.
pub(crate) fn name(formats: Formats) -> Option<&'static str> {
    (0..NAMES.len()).find(|bit| formats >> bit & 1 == 1).map(|bit| NAMES[bit])
}

/// Which of `candidates` this value has.
pub(crate) fn narrow(candidates: Formats, text: &str) -> Formats {
    if candidates == 0 {
        return 0;
    }
    let bytes = text.as_bytes();
    let checks: [fn(&[u8]) -> bool; 7] = [is_date_time, is_date, is_time, is_uuid, is_email, is_ipv4, is_uri];
    checks.iter().enumerate().filter(|(bit, check)| candidates >> bit & 1 == 1 && check(bytes)).fold(0, |all, (bit, _)| all | 1 << bit)
}

/// Whether `text` has the shape of `pattern`: `0` for a digit, anything else for itself.
fn shaped(text: &[u8], pattern: &[u8]) -> bool {
    text.len() == pattern.len() && text.iter().zip(pattern).all(|(c, p)| if *p == b'0' { c.is_ascii_digit() } else { c == p })
}

fn is_date(text: &[u8]) -> bool {
    shaped(text, b"0000-00-00") && two(&text[5..]) <= 12 && two(&text[8..]) <= 31
}

fn two(text: &[u8]) -> u8 {
    (text[0] - b'0') * 10 + (text[1] - b'0')
}

/// `hh:mm:ss`, a fraction, and with it what follows.
fn clock(text: &[u8]) -> Option<&[u8]> {
    let (clock, rest) = text.split_at_checked(8)?;
    if !shaped(clock, b"00:00:00") || two(clock) > 23 || two(&clock[3..]) > 59 || two(&clock[6..]) > 60 {
        return None;
    }
    let Some(fraction) = rest.strip_prefix(b".") else { return Some(rest) };
    let digits = fraction.iter().take_while(|c| c.is_ascii_digit()).count();
    (digits > 0).then(|| &fraction[digits..])
}

fn is_time(text: &[u8]) -> bool {
    clock(text).is_some_and(<[u8]>::is_empty)
}

/// With `T` and a zone only: a date and a time behind a space is SQL's, not RFC 3339's.
fn is_date_time(text: &[u8]) -> bool {
    let Some((date, rest)) = text.split_at_checked(10) else { return false };
    let Some((b'T' | b't', time)) = rest.split_first() else { return false };
    is_date(date) && clock(time).is_some_and(|zone| matches!(zone, b"Z" | b"z") || shaped(zone, b"+00:00") || shaped(zone, b"-00:00"))
}

fn is_uuid(text: &[u8]) -> bool {
    text.len() == 36
        && text.iter().enumerate().all(|(at, c)| if matches!(at, 8 | 13 | 18 | 23) { *c == b'-' } else { c.is_ascii_hexdigit() })
}

fn is_email(text: &[u8]) -> bool {
    let Some(at) = text.iter().position(|c| *c == b'@') else { return false };
    let (name, domain) = (&text[..at], &text[at + 1..]);
    let word = |c: &u8| c.is_ascii_alphanumeric() || b".-_+%".contains(c);
    !name.is_empty() && name.iter().all(word) && domain.contains(&b'.') && domain.iter().all(word) && !domain.ends_with(b".")
}

fn is_ipv4(text: &[u8]) -> bool {
    let mut parts = 0;
    for part in text.split(|c| *c == b'.') {
        parts += 1;
        let number = part.iter().fold(0_u32, |n, c| if c.is_ascii_digit() { n * 10 + u32::from(c - b'0') } else { 1_000 });
        if part.is_empty() || part.len() > 3 || number > 255 {
            return false;
        }
    }
    parts == 4
}

fn is_uri(text: &[u8]) -> bool {
    let Some(at) = text.windows(3).position(|w| w == b"://") else { return false };
    at > 0 && at + 3 < text.len() && text[..at].iter().all(u8::is_ascii_alphanumeric) && !text.contains(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_formats_from_what_only_looks_like_them() {
        for (text, expected) in [
            ("2026-01-15T09:00:00Z", Some("date-time")),
            ("2026-01-15T09:00:00.123+01:00", Some("date-time")),
            ("2026-01-15 09:00:00", None),
            ("2026-01-15", Some("date")),
            ("2026-13-15", None),
            ("23:59:59.5", Some("time")),
            ("24:00:00", None),
            ("6f9619ff-8b86-d011-b42d-00c04fc964ff", Some("uuid")),
            ("ann@example.com", Some("email")),
            ("ann@localhost", None),
            ("10.0.0.255", Some("ipv4")),
            ("10.0.0.256", None),
            ("1.2.3", None),
            ("https://example.com/a?b", Some("uri")),
            ("a://", None),
            ("", None),
            ("ä", None),
        ] {
            assert_eq!(name(narrow(ALL, text)), expected, "{text}");
        }
    }
}
