//! Finds what should not be in a prompt, in one pass from left to right. Looks at shapes, knows no names: a safety net,
//! not a guarantee.

/// Replaces what was found; a text without finds comes back as it was.
pub fn redact(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let (mut at, mut copied) = (0, 0);
    while at < bytes.len() {
        let begins_word = at == 0 || !is_word(bytes[at - 1]);
        let found = if begins_word && is_word(bytes[at]) || bytes[at] == b'+' { find(bytes, at) } else { None };
        match found {
            Some((end, Some(label))) => {
                out.push_str(&text[copied..at]);
                out.push_str(label);
                at = end;
                copied = end;
            }
            // A number that is nothing is not looked at again from its second group on.
            Some((end, None)) => at = end,
            None => at += 1,
        }
    }
    out.push_str(&text[copied..]);
    out
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// What begins at `at`, if anything: where it ends and what it is. Ends are behind ASCII, so at a character's border.
fn find(bytes: &[u8], at: usize) -> Option<(usize, Option<&'static str>)> {
    if let Some(end) = key(bytes, at) {
        return Some((end, Some("[KEY]")));
    }
    if let Some(end) = email(bytes, at) {
        return Some((end, Some("[EMAIL]")));
    }
    number(bytes, at)
}

/// A word of letters, digits, `-` and `_` with a prefix that vendors of keys use, and at least 16 more.
fn key(bytes: &[u8], at: usize) -> Option<usize> {
    const PREFIXES: [&[u8]; 9] = [b"sk-", b"pk-", b"ghp_", b"gho_", b"github_pat_", b"xoxb-", b"xoxp-", b"AKIA", b"AIza"];
    let prefix = PREFIXES.iter().find(|prefix| bytes[at..].starts_with(prefix))?;
    let rest = &bytes[at + prefix.len()..];
    let length = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')).count();
    (length >= 16).then_some(at + prefix.len() + length)
}

fn email(bytes: &[u8], at: usize) -> Option<usize> {
    let name = bytes[at..].iter().take_while(|b| b.is_ascii_alphanumeric() || b"._%+-".contains(b)).count();
    let domain_at = at + name + 1;
    if name == 0 || name > 64 || bytes.get(at + name) != Some(&b'@') {
        return None;
    }
    let mut length = bytes[domain_at..].iter().take_while(|b| b.is_ascii_alphanumeric() || b".-".contains(b)).count();
    while length > 0 && !bytes[domain_at + length - 1].is_ascii_alphanumeric() {
        length -= 1;
    }
    let domain = &bytes[domain_at..domain_at + length];
    let last = domain.rsplit(|b| *b == b'.').next()?;
    (domain.contains(&b'.') && last.len() >= 2 && last.iter().all(u8::is_ascii_alphabetic)).then_some(domain_at + length)
}

/// Digits in groups: a card if its check digit is right, a phone if it is written as one, else nothing.
fn number(bytes: &[u8], at: usize) -> Option<(usize, Option<&'static str>)> {
    let international = bytes[at] == b'+';
    let mut digits = Vec::new();
    // Digits in each group so far.
    let mut groups = vec![0];
    let mut end = at;
    let mut i = at + usize::from(international);
    while let Some(&byte) = bytes.get(i) {
        if byte.is_ascii_digit() {
            if i > end && !digits.is_empty() {
                groups.push(0);
            }
            digits.push(byte - b'0');
            *groups.last_mut()? += 1;
            end = i + 1;
        } else if !matches!(byte, b' ' | b'-' | b'.' | b'(' | b')') || digits.is_empty() || i > end + 1 {
            break;
        }
        i += 1;
    }
    if digits.is_empty() {
        return None;
    }
    let count = digits.len();
    let in_word = bytes.get(end).is_some_and(|b| is_word(*b));
    let is_date = groups.starts_with(&[4, 2, 2]);
    let is_address = groups.len() == 4 && bytes[at..end].iter().filter(|b| **b == b'.').count() == 3;
    let label = if in_word {
        None
    } else if !international && (13..=19).contains(&count) && luhn(&digits) {
        Some("[CARD]")
    } else if international && (8..=15).contains(&count) {
        Some("[PHONE]")
    } else if !international && (9..=12).contains(&count) && groups.len() >= 3 && !is_date && !is_address {
        Some("[PHONE]")
    } else {
        None
    };
    Some((end, label))
}

fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, &digit)| {
            let doubled = u32::from(digit) * if at % 2 == 1 { 2 } else { 1 };
            if doubled > 9 { doubled - 9 } else { doubled }
        })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_what_is_private_and_leaves_the_rest() {
        for (text, expected) in [
            ("mail ann.b+x@example.co.uk.", "mail [EMAIL]."),
            ("send it to bob@example.com and eve@example.com", "send it to [EMAIL] and [EMAIL]"),
            ("not@mail, a@b, @handle", "not@mail, a@b, @handle"),
            ("card 4111 1111 1111 1111!", "card [CARD]!"),
            ("card 4111-1111-1111-1112", "card 4111-1111-1111-1112"),
            ("call +49 30 1234567 now", "call [PHONE] now"),
            ("call 030-123-4567 now", "call [PHONE] now"),
            ("host 192.168.100.200 is down", "host 192.168.100.200 is down"),
            ("in 2026 we had 1000000 users", "in 2026 we had 1000000 users"),
            ("from 2026-01-15 09:00", "from 2026-01-15 09:00"),
            ("key sk-abcdefghijklmnop1234", "key [KEY]"),
            ("AKIAIOSFODNN7EXAMPLE", "[KEY]"),
            ("AKIASHORT", "AKIASHORT"),
            ("äé 😀 +", "äé 😀 +"),
            ("", ""),
        ] {
            assert_eq!(redact(text), expected, "{text}");
        }
    }
}
