//! State of plugins: where the host keeps what guests write through the `state` import.
//!
//! Promises: changes arrive here only after the call that made them returned; a trapped call leaves nothing. Leaves to
//! the engine: durability. [`MemoryState`] collects what changed since the last barrier for it.
//!
//! Entry in the store: key `bucket length (1 byte) · bucket · key`, value `expiry in ms (8 bytes, little endian, i64::MAX
//! for never) · value`. Byte order of keys within a bucket is the guest's order.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A value and when it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What the guest wrote.
    pub value: Vec<u8>,
    /// Processing time in ms from which on it is gone; `i64::MAX` for never.
    pub expires_ms: i64,
}

/// Changes of one call, by stored key; `None` removes.
pub type Changes = BTreeMap<Vec<u8>, Option<Entry>>;

/// Where an instance's state lives. Called from the instance's worker only, apart from the engine at barriers.
pub trait PluginState: Send + Sync {
    /// The entry under a stored key, expired or not.
    fn get(&self, key: &[u8]) -> Option<Entry>;

    /// Entries in key order from after `after` (or from `prefix` itself) as long as keys start with `prefix`, until
    /// `visit` says `false`.
    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, visit: &mut dyn FnMut(&[u8], &Entry) -> bool);

    /// Makes the changes of a call that returned, all at once.
    fn apply(&self, changes: Changes);

    /// Bytes of keys and values held.
    fn byte_len(&self) -> u64;
}

/// The key under which a bucket's entry is stored. Bucket names are at most 64 bytes.
pub(crate) fn stored_key(bucket: &str, key: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(1 + bucket.len() + key.len());
    stored.push(u8::try_from(bucket.len()).unwrap_or(u8::MAX));
    stored.extend_from_slice(bucket.as_bytes());
    stored.extend_from_slice(key);
    stored
}

/// State in memory that remembers what changed since the last barrier.
#[derive(Debug, Default)]
pub struct MemoryState(Mutex<Contents>);

#[derive(Debug, Default)]
struct Contents {
    entries: BTreeMap<Vec<u8>, Entry>,
    bytes: u64,
    /// Keys changed since `take_changes`.
    changed: BTreeMap<Vec<u8>, ()>,
}

impl Contents {
    fn set(&mut self, key: Vec<u8>, entry: Option<Entry>) {
        let length = key.len() as u64;
        let old = match entry {
            Some(entry) => {
                self.bytes += length + entry.value.len() as u64;
                self.entries.insert(key, entry)
            }
            None => self.entries.remove(&key),
        };
        if let Some(old) = old {
            self.bytes -= length + old.value.len() as u64;
        }
    }
}

impl MemoryState {
    /// At a barrier: every key that changed since the last one, with its new stored value or `None` if it is gone.
    pub fn take_changes(&self) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let mut contents = self.contents();
        let changed = std::mem::take(&mut contents.changed);
        changed.into_keys().map(|key| (key.clone(), contents.entries.get(&key).map(encode))).collect()
    }

    /// On a restart, before the first batch: an entry as `take_changes` gave it. One that cannot be read is refused.
    pub fn restore_entry(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let entry = decode(value).ok_or_else(|| format!("plugin state of {} bytes cannot be read", value.len()))?;
        self.contents().set(key.to_vec(), Some(entry));
        Ok(())
    }

    /// Removes what has expired at processing time `now_ms`; the removals count as changes. Called at barriers.
    pub fn expire(&self, now_ms: i64) {
        let mut contents = self.contents();
        let gone: Vec<_> =
            contents.entries.iter().filter(|(_, e)| e.expires_ms <= now_ms).map(|(key, _)| key.clone()).collect();
        for key in gone {
            contents.set(key.clone(), None);
            contents.changed.insert(key, ());
        }
    }

    /// Everything in one piece, for tests and for engines that store it whole.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (key, entry) in &self.contents().entries {
            let value = encode(entry);
            for part in [key, &value] {
                bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
                bytes.extend_from_slice(part);
            }
        }
        bytes
    }

    /// Replaces everything by a snapshot.
    pub fn restore(&self, mut snapshot: &[u8]) -> Result<(), String> {
        *self.contents() = Contents::default();
        while !snapshot.is_empty() {
            let key = take_part(&mut snapshot).ok_or("plugin state snapshot is cut")?;
            let value = take_part(&mut snapshot).ok_or("plugin state snapshot is cut")?;
            self.restore_entry(key, value)?;
        }
        Ok(())
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PluginState for MemoryState {
    fn get(&self, key: &[u8]) -> Option<Entry> {
        self.contents().entries.get(key).cloned()
    }

    fn scan(&self, prefix: &[u8], after: Option<&[u8]>, visit: &mut dyn FnMut(&[u8], &Entry) -> bool) {
        let start = after.map_or(Bound::Included(prefix), Bound::Excluded);
        for (key, entry) in self.contents().entries.range::<[u8], _>((start, Bound::Unbounded)) {
            if !key.starts_with(prefix) || !visit(key, entry) {
                break;
            }
        }
    }

    fn apply(&self, changes: Changes) {
        let mut contents = self.contents();
        for (key, entry) in changes {
            contents.changed.insert(key.clone(), ());
            contents.set(key, entry);
        }
    }

    fn byte_len(&self) -> u64 {
        self.contents().bytes
    }
}

fn encode(entry: &Entry) -> Vec<u8> {
    let mut bytes = entry.expires_ms.to_le_bytes().to_vec();
    bytes.extend_from_slice(&entry.value);
    bytes
}

fn decode(bytes: &[u8]) -> Option<Entry> {
    let (expires, value) = bytes.split_first_chunk::<8>()?;
    Some(Entry { value: value.to_vec(), expires_ms: i64::from_le_bytes(*expires) })
}

fn take_part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *bytes = rest;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(value: &[u8]) -> Entry {
        Entry { value: value.to_vec(), expires_ms: i64::MAX }
    }

    #[test]
    fn hands_over_changes_once_and_restores_them() {
        let state = MemoryState::default();
        state.apply(Changes::from([(stored_key("b", b"x"), Some(entry(b"1"))), (stored_key("b", b"y"), Some(entry(b"2")))]));
        state.apply(Changes::from([(stored_key("b", b"y"), None)]));
        let changes = state.take_changes();
        assert_eq!(changes.len(), 2);
        assert!(state.take_changes().is_empty());
        let restored = MemoryState::default();
        for (key, value) in changes {
            if let Some(value) = value {
                restored.restore_entry(&key, &value).expect("readable");
            }
        }
        assert_eq!(restored.get(&stored_key("b", b"x")), Some(entry(b"1")));
        assert_eq!(restored.byte_len(), state.byte_len());
        assert_eq!(restored.snapshot(), state.snapshot());
        assert!(restored.restore(&[1, 2]).is_err());
    }

    #[test]
    fn one_buckets_keys_are_no_other_buckets_whatever_their_bytes() {
        assert_ne!(stored_key("a", b"bc"), stored_key("ab", b"c"));
        let state = MemoryState::default();
        state.apply(Changes::from([(stored_key("a", b"bc"), Some(entry(b"1"))), (stored_key("ab", b"c"), Some(entry(b"2")))]));
        let mut seen = Vec::new();
        state.scan(&stored_key("a", b""), None, &mut |_, entry| {
            seen.push(entry.value.clone());
            true
        });
        assert_eq!(seen, [b"1"]);
    }

    #[test]
    fn forgets_expired_entries_at_a_barrier() {
        let state = MemoryState::default();
        state.apply(Changes::from([(b"k".to_vec(), Some(Entry { value: vec![1], expires_ms: 10 }))]));
        state.take_changes();
        state.expire(9);
        assert!(state.take_changes().is_empty());
        state.expire(10);
        assert_eq!(state.take_changes(), [(b"k".to_vec(), None)]);
        assert_eq!(state.byte_len(), 0);
    }
}
