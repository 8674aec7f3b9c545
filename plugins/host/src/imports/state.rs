//! `state`: keyed buckets. Writes of a call lie over the stored entries until the call returns; then they are applied
//! all at once, or forgotten if it trapped.

use std::{collections::BTreeMap, sync::Arc};

use wasmtime::{
    Result,
    component::{Linker, Resource, ResourceType},
};

use crate::{
    guest::{CallTime, Guest},
    imports::enter,
    limits::state::{
        BUCKETS_MAX, KEY_BYTES_MAX, NAME_BYTES_MAX, PAGE_BYTES_MAX, PAGE_ENTRIES_MAX, QUOTA_BYTES, VALUE_BYTES_MAX,
    },
    state::{Changes, Entry, PluginState, stored_key},
    wire::{StateEntry, StateError, StatePage, interface},
};

type Outcome<T> = std::result::Result<T, StateError>;

/// An open bucket; the guest holds its number.
pub(crate) struct Bucket(String);

/// An instance's state with the writes of the running call over it.
#[derive(Default)]
pub(crate) struct StateView {
    stored: Option<Arc<dyn PluginState>>,
    changes: Changes,
    /// Bytes of keys and values in `changes`: what the call may add at most.
    changed_bytes: u64,
    open_buckets: usize,
    /// Whether a call of the plugin's kind runs (not `init`).
    in_call: bool,
}

impl StateView {
    pub(crate) fn new(stored: Option<Arc<dyn PluginState>>) -> Self {
        Self { stored, ..Self::default() }
    }

    /// A call of the plugin's kind begins.
    pub(crate) fn begin(&mut self) {
        self.in_call = true;
    }

    /// The call is over: its writes count, or not.
    pub(crate) fn end(&mut self, keep: bool) {
        let changes = std::mem::take(&mut self.changes);
        self.changed_bytes = 0;
        if keep
            && !changes.is_empty()
            && let Some(stored) = &self.stored
        {
            stored.apply(changes);
        }
    }

    fn stored(&self) -> Outcome<&dyn PluginState> {
        match &self.stored {
            Some(stored) if self.in_call => Ok(stored.as_ref()),
            _ => Err(StateError::AccessDenied),
        }
    }

    fn get(&self, bucket: &Bucket, key: &[u8], time: CallTime) -> Outcome<Option<Entry>> {
        let key = stored_key(&bucket.0, key);
        let entry = match self.changes.get(&key) {
            Some(changed) => changed.clone(),
            None => self.stored()?.get(&key),
        };
        Ok(entry.filter(|entry| entry.expires_ms > time.processing_ms))
    }

    fn set(&mut self, bucket: &Bucket, key: &[u8], entry: Option<Entry>) -> Outcome<()> {
        let size = entry.as_ref().map_or(0, |entry| entry.value.len());
        if key.len() > KEY_BYTES_MAX || size > VALUE_BYTES_MAX {
            return Err(StateError::TooLarge);
        }
        let added = (1 + bucket.0.len() + key.len() + size) as u64;
        if entry.is_some() && self.stored()?.byte_len() + self.changed_bytes + added > QUOTA_BYTES {
            return Err(StateError::QuotaExceeded);
        }
        self.changed_bytes += added;
        self.changes.insert(stored_key(&bucket.0, key), entry);
        Ok(())
    }

    fn scan(&self, bucket: &Bucket, prefix: &[u8], cursor: Option<&[u8]>, limit: u32, time: CallTime) -> Outcome<StatePage> {
        let bucket_prefix = stored_key(&bucket.0, b"").len();
        let prefix = stored_key(&bucket.0, prefix);
        let cursor = cursor.map(|cursor| stored_key(&bucket.0, cursor)).filter(|cursor| *cursor >= prefix);
        let limit = limit.clamp(1, PAGE_ENTRIES_MAX) as usize;
        // What the call changed in this range, taken in as the stored entries pass by.
        let overlay: BTreeMap<&[u8], Option<&Entry>> = self
            .changes
            .range(prefix.clone()..)
            .take_while(|(key, _)| key.starts_with(&prefix))
            .filter(|(key, _)| cursor.as_ref().is_none_or(|cursor| *key > cursor))
            .map(|(key, entry)| (key.as_slice(), entry.as_ref()))
            .collect();
        let mut overlay = overlay.into_iter().peekable();
        let mut page = Page { entries: Vec::new(), bytes: 0, limit, skip: bucket_prefix, now_ms: time.processing_ms };
        self.stored()?.scan(&prefix, cursor.as_deref(), &mut |key, entry| {
            while let Some((changed, new)) = overlay.next_if(|(changed, _)| *changed <= key) {
                if let Some(new) = new
                    && !page.push(changed, new)
                {
                    return false;
                }
                if changed == key {
                    return true;
                }
            }
            page.push(key, entry)
        });
        if !page.is_full() {
            for (key, entry) in overlay {
                if let Some(entry) = entry
                    && !page.push(key, entry)
                {
                    break;
                }
            }
        }
        let cursor = page.is_full().then(|| page.entries.last().map(|entry| entry.key.clone())).flatten();
        Ok(StatePage { entries: page.entries, cursor })
    }
}

/// A page being filled.
struct Page {
    entries: Vec<StateEntry>,
    bytes: usize,
    limit: usize,
    /// Bytes of the bucket's name in front of each stored key.
    skip: usize,
    now_ms: i64,
}

impl Page {
    /// Takes an entry unless it has expired; `false` once the page is full.
    fn push(&mut self, key: &[u8], entry: &Entry) -> bool {
        if entry.expires_ms > self.now_ms {
            self.bytes += key.len() + entry.value.len();
            self.entries.push(StateEntry { key: key[self.skip..].to_vec(), value: entry.value.clone() });
        }
        !self.is_full()
    }

    fn is_full(&self) -> bool {
        self.entries.len() >= self.limit || self.bytes >= PAGE_BYTES_MAX
    }
}

impl Guest {
    fn open_bucket(&mut self, name: String) -> Result<Outcome<Resource<Bucket>>> {
        if let Err(error) = self.state.stored() {
            return Ok(Err(error));
        }
        if name.is_empty() || name.len() > NAME_BYTES_MAX || self.state.open_buckets >= BUCKETS_MAX {
            return Ok(Err(StateError::TooLarge));
        }
        self.state.open_buckets += 1;
        Ok(Ok(self.resources.push(Bucket(name))?))
    }

    /// The state and one of its buckets. A number the guest made up is an error, which traps.
    fn bucket(&mut self, bucket: &Resource<Bucket>) -> Result<(&mut StateView, &Bucket)> {
        let bucket = self.resources.get(bucket)?;
        Ok((&mut self.state, bucket))
    }
}

fn increment(state: &mut StateView, bucket: &Bucket, key: &[u8], delta: i64, time: CallTime) -> Outcome<i64> {
    let (old, expires_ms) = match state.get(bucket, key, time)? {
        None => (0, i64::MAX),
        Some(entry) => {
            let bytes = <[u8; 8]>::try_from(entry.value.as_slice())
                .map_err(|_| StateError::Other(format!("the value has {} bytes, a number has 8", entry.value.len())))?;
            (i64::from_le_bytes(bytes), entry.expires_ms)
        }
    };
    let sum = old.saturating_add(delta);
    state.set(bucket, key, Some(Entry { value: sum.to_le_bytes().to_vec(), expires_ms }))?;
    Ok(sum)
}

fn set_many(state: &mut StateView, bucket: &Bucket, entries: Vec<StateEntry>) -> Outcome<()> {
    // All or none: the writes so far are put back if one does not fit.
    let (changes, bytes) = (state.changes.clone(), state.changed_bytes);
    for entry in entries {
        let outcome = state.set(bucket, &entry.key, Some(Entry { value: entry.value, expires_ms: i64::MAX }));
        if outcome.is_err() {
            (state.changes, state.changed_bytes) = (changes, bytes);
            return outcome;
        }
    }
    Ok(())
}

pub(crate) fn add(linker: &mut Linker<Guest>) -> Result<()> {
    let name = interface("state");
    let mut instance = linker.instance(&name)?;
    instance.resource("bucket", ResourceType::host::<Bucket>(), |mut store, number| {
        let guest = store.data_mut();
        guest.resources.delete(Resource::<Bucket>::new_own(number))?;
        guest.state.open_buckets = guest.state.open_buckets.saturating_sub(1);
        Ok(())
    })?;
    instance.func_wrap("open", |mut store, (name,): (String,)| Ok((enter(&mut store)?.open_bucket(name)?,)))?;
    instance.func_wrap("[method]bucket.get", |mut store, (this, key): (Resource<Bucket>, Vec<u8>)| {
        let guest = enter(&mut store)?;
        let time = guest.time;
        let (state, bucket) = guest.bucket(&this)?;
        Ok((state.get(bucket, &key, time).map(|entry| entry.map(|entry| entry.value)),))
    })?;
    instance.func_wrap(
        "[method]bucket.set",
        |mut store, (this, key, value, ttl_ms): (Resource<Bucket>, Vec<u8>, Vec<u8>, Option<u64>)| {
            let guest = enter(&mut store)?;
            let now_ms = guest.time.processing_ms;
            let expires_ms = ttl_ms.map_or(i64::MAX, |ttl| now_ms.saturating_add_unsigned(ttl));
            let (state, bucket) = guest.bucket(&this)?;
            Ok((state.set(bucket, &key, Some(Entry { value, expires_ms })),))
        },
    )?;
    instance.func_wrap("[method]bucket.delete", |mut store, (this, key): (Resource<Bucket>, Vec<u8>)| {
        let (state, bucket) = enter(&mut store)?.bucket(&this)?;
        Ok((state.set(bucket, &key, None),))
    })?;
    instance.func_wrap(
        "[method]bucket.increment",
        |mut store, (this, key, delta): (Resource<Bucket>, Vec<u8>, i64)| {
            let guest = enter(&mut store)?;
            let time = guest.time;
            let (state, bucket) = guest.bucket(&this)?;
            Ok((increment(state, bucket, &key, delta, time),))
        },
    )?;
    instance.func_wrap("[method]bucket.get-many", |mut store, (this, keys): (Resource<Bucket>, Vec<Vec<u8>>)| {
        let guest = enter(&mut store)?;
        let time = guest.time;
        let (state, bucket) = guest.bucket(&this)?;
        let values: Outcome<Vec<_>> =
            keys.iter().map(|key| state.get(bucket, key, time).map(|entry| entry.map(|entry| entry.value))).collect();
        Ok((values,))
    })?;
    instance.func_wrap(
        "[method]bucket.set-many",
        |mut store, (this, entries): (Resource<Bucket>, Vec<StateEntry>)| {
            let (state, bucket) = enter(&mut store)?.bucket(&this)?;
            Ok((set_many(state, bucket, entries),))
        },
    )?;
    instance.func_wrap(
        "[method]bucket.scan-prefix",
        |mut store, (this, prefix, cursor, limit): (Resource<Bucket>, Vec<u8>, Option<Vec<u8>>, u32)| {
            let guest = enter(&mut store)?;
            let time = guest.time;
            let (state, bucket) = guest.bucket(&this)?;
            Ok((state.scan(bucket, &prefix, cursor.as_deref(), limit, time),))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::MemoryState;

    fn entry(value: &[u8]) -> Option<Entry> {
        Some(Entry { value: value.to_vec(), expires_ms: i64::MAX })
    }

    /// A view over stored a, b, c with changes over them: b gone, bb new, c changed, d expired.
    fn view() -> (StateView, Bucket) {
        let stored = Arc::new(MemoryState::default());
        let mut view = StateView::new(Some(Arc::clone(&stored) as Arc<dyn PluginState>));
        let bucket = Bucket("x".to_owned());
        view.begin();
        for key in [&b"a"[..], b"b", b"c"] {
            view.set(&bucket, key, entry(b"old")).expect("set");
        }
        view.set(&Bucket("xx".to_owned()), b"a", entry(b"other")).expect("set");
        view.end(true);
        view.set(&bucket, b"b", None).expect("delete");
        view.set(&bucket, b"bb", entry(b"new")).expect("set");
        view.set(&bucket, b"c", entry(b"newer")).expect("set");
        view.set(&bucket, b"d", Some(Entry { value: vec![], expires_ms: 0 })).expect("set");
        (view, bucket)
    }

    fn keys(page: &StatePage) -> Vec<String> {
        page.entries.iter().map(|e| format!("{}={}", String::from_utf8_lossy(&e.key), String::from_utf8_lossy(&e.value))).collect()
    }

    #[test]
    fn scans_see_the_calls_own_writes_in_key_order_and_go_on_from_a_cursor() {
        let (view, bucket) = view();
        let time = CallTime::default();
        let all = view.scan(&bucket, b"", None, 100, time).expect("page");
        assert_eq!(keys(&all), ["a=old", "bb=new", "c=newer"]);
        assert_eq!(all.cursor, None);
        let mut seen = Vec::new();
        let mut cursor: Option<Vec<u8>> = None;
        loop {
            let page = view.scan(&bucket, b"", cursor.as_deref(), 1, time).expect("page");
            seen.extend(keys(&page));
            match page.cursor {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, keys(&all));
        assert_eq!(keys(&view.scan(&bucket, b"b", None, 100, time).expect("page")), ["bb=new"]);
    }

    #[test]
    fn a_trapped_calls_writes_are_forgotten() {
        let (mut view, bucket) = view();
        view.end(false);
        let all = view.scan(&bucket, b"", None, 100, CallTime::default()).expect("page");
        assert_eq!(keys(&all), ["a=old", "b=old", "c=old"]);
    }

    #[test]
    fn nothing_is_written_past_the_quota() {
        struct Full;
        impl PluginState for Full {
            fn get(&self, _key: &[u8]) -> Option<Entry> {
                None
            }
            fn scan(&self, _prefix: &[u8], _after: Option<&[u8]>, _visit: &mut dyn FnMut(&[u8], &Entry) -> bool) {}
            fn apply(&self, _changes: Changes) {}
            fn byte_len(&self) -> u64 {
                QUOTA_BYTES - 5
            }
        }
        let mut view = StateView::new(Some(Arc::new(Full)));
        view.begin();
        let bucket = Bucket("x".to_owned());
        assert_eq!(view.set(&bucket, b"k", entry(b"123")), Err(StateError::QuotaExceeded));
        assert_eq!(view.set(&bucket, b"k", entry(b"12")), Ok(()));
        assert_eq!(view.set(&bucket, b"j", entry(b"")), Err(StateError::QuotaExceeded));
        assert_eq!(view.set(&bucket, b"j", None), Ok(()));
        let many = vec![StateEntry { key: b"l".to_vec(), value: b"1".to_vec() }];
        assert_eq!(set_many(&mut view, &bucket, many), Err(StateError::QuotaExceeded));
    }

    #[test]
    fn counts_saturate_and_refuse_what_is_no_number() {
        let (mut view, bucket) = view();
        let time = CallTime::default();
        assert_eq!(increment(&mut view, &bucket, b"n", i64::MAX, time), Ok(i64::MAX));
        assert_eq!(increment(&mut view, &bucket, b"n", 1, time), Ok(i64::MAX));
        assert!(matches!(increment(&mut view, &bucket, b"a", 1, time), Err(StateError::Other(_))));
    }
}
