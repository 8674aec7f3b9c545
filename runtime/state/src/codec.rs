//! Changes of a pending epoch as bytes: `version · entries`, each entry `tag · kind · …`, lengths as 4 bytes little endian.
//!
//! Entries: `0` range (`from · to`), `1` put (`key · value`), `2` delete (`key`). Ranges come before keys, as in a
//! `ChangeSet`; a large set is several chunks, each read on its own, applied in order. Read back by the version that
//! wrote it or a later one: the first byte tells.

use pelton_core::state::{ChangeSet, StateKind};

const VERSION: u8 = 1;
const RANGE: u8 = 0;
const PUT: u8 = 1;
const DELETE: u8 = 2;

/// Gives the changes to `take` in chunks of about `chunk_bytes`, at least one.
pub(crate) fn encode_in_chunks(changes: &ChangeSet, chunk_bytes: usize, take: &mut dyn FnMut(&[u8])) {
    let mut out = vec![VERSION];
    for (kind, from, to) in &changes.ranges {
        out.extend_from_slice(&[RANGE, *kind as u8]);
        bytes(from, &mut out);
        bytes(to, &mut out);
        cut(&mut out, chunk_bytes, take);
    }
    for ((kind, key), value) in &changes.keys {
        out.extend_from_slice(&[if value.is_some() { PUT } else { DELETE }, *kind as u8]);
        bytes(key, &mut out);
        if let Some(value) = value {
            bytes(value, &mut out);
        }
        cut(&mut out, chunk_bytes, take);
    }
    if out.len() > 1 || changes.is_empty() {
        take(&out);
    }
}

fn cut(out: &mut Vec<u8>, chunk_bytes: usize, take: &mut dyn FnMut(&[u8])) {
    if out.len() >= chunk_bytes {
        take(out);
        out.truncate(1);
    }
}

/// Reads a chunk; `None` if it is damaged.
pub(crate) fn decode(mut input: &[u8]) -> Option<ChangeSet> {
    let mut changes = ChangeSet::default();
    let input = &mut input;
    if byte(input)? != VERSION {
        return None;
    }
    while !input.is_empty() {
        let (tag, kind) = (byte(input)?, kind(input)?);
        let first = take_bytes(input)?;
        match tag {
            RANGE => changes.ranges.push((kind, first, take_bytes(input)?)),
            PUT => changes.put(kind, first, take_bytes(input)?),
            DELETE => changes.delete(kind, first),
            _ => return None,
        }
    }
    Some(changes)
}

fn bytes(value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&u32::try_from(value.len()).expect("keys and values stay under 4 GiB").to_le_bytes());
    out.extend_from_slice(value);
}

fn byte(input: &mut &[u8]) -> Option<u8> {
    let (first, rest) = input.split_first()?;
    *input = rest;
    Some(*first)
}

fn take_length(input: &mut &[u8]) -> Option<usize> {
    let (head, rest) = input.split_first_chunk::<4>()?;
    *input = rest;
    Some(u32::from_le_bytes(*head) as usize)
}

fn take_bytes(input: &mut &[u8]) -> Option<Vec<u8>> {
    let length = take_length(input)?;
    let (head, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(head.to_vec())
}

fn kind(input: &mut &[u8]) -> Option<StateKind> {
    let code = byte(input)?;
    StateKind::ALL.into_iter().find(|kind| *kind as u8 == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(changes: &ChangeSet, bytes: usize) -> Vec<Vec<u8>> {
        let mut chunks = Vec::new();
        encode_in_chunks(changes, bytes, &mut |chunk| chunks.push(chunk.to_vec()));
        chunks
    }

    fn sample() -> ChangeSet {
        let mut changes = ChangeSet::default();
        changes.put(StateKind::Panes, b"k".to_vec(), b"v".to_vec());
        changes.put(StateKind::Meta, b"".to_vec(), b"".to_vec());
        changes.delete(StateKind::JoinRows, b"gone".to_vec());
        changes.delete_range(StateKind::Timers, b"a".to_vec(), b"b".to_vec());
        changes
    }

    #[test]
    fn reads_what_it_wrote_whatever_the_size_of_chunks() {
        let changes = sample();
        for size in [1, 12, 1 << 20] {
            let mut back = ChangeSet::default();
            for chunk in chunks(&changes, size) {
                back.append(decode(&chunk).expect("reads back"));
            }
            assert_eq!((back.keys, back.ranges), (changes.keys.clone(), changes.ranges.clone()), "chunks of {size}");
        }
        assert_eq!(chunks(&ChangeSet::default(), 1).len(), 1, "an empty epoch is pending too");
    }

    #[test]
    fn refuses_what_is_cut_inside_an_entry_and_unknown_versions() {
        let whole = &chunks(&sample(), 1 << 20)[0];
        let whole_entries: Vec<usize> = (1..=whole.len()).filter(|&cut| decode(&whole[..cut]).is_some()).collect();
        assert_eq!(whole_entries.len(), 5, "the ends of four entries and the start: {whole_entries:?}");
        assert!(decode(&[]).is_none() && decode(&[9]).is_none() && decode(&[1, 7, 1]).is_none());
    }
}
