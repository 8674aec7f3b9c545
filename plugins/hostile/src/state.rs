//! Reaches for keys of other buckets, and writes before it traps.

use crate::bindings::pelton::plugin::state;

/// Writes under the keys another bucket might be stored under, then tries to see them from there.
pub(crate) fn escape() -> Result<String, String> {
    let mine = state::open("a").map_err(|e| format!("{e:?}"))?;
    let other = state::open("ab").map_err(|e| format!("{e:?}"))?;
    other.set(b"c", b"secret", None).map_err(|e| format!("{e:?}"))?;
    for key in [&b"bc"[..], b"\x02abc", b"/../ab/c", b"../ab/c", b"b\0c", b"", b"\0ab\0c"] {
        if mine.get(key).map_err(|e| format!("{e:?}"))?.is_some() {
            return Err(format!("saw another bucket's entry under {key:?}"));
        }
    }
    let page = mine.scan_prefix(b"", None, 100).map_err(|e| format!("{e:?}"))?;
    if !page.entries.is_empty() {
        return Err("a scan saw another bucket's entries".to_owned());
    }
    for name in ["", &"x".repeat(65)] {
        if state::open(name).is_ok() {
            return Err("a bucket's name of no or too many bytes was taken".to_owned());
        }
    }
    if mine.set(&[0; 5_000], b"", None).is_ok() || mine.set(b"k", &vec![0; 2 << 20], None).is_ok() {
        return Err("a key or value that is too large was taken".to_owned());
    }
    Ok("stayed inside".to_owned())
}

/// Counts records; `bad` ones trap after the write.
pub(crate) fn count(is_bad: bool) -> Result<String, String> {
    let bucket = state::open("counts").map_err(|e| format!("{e:?}"))?;
    let sum = bucket.increment(b"records", 1).map_err(|e| format!("{e:?}"))?;
    if is_bad {
        core::arch::wasm32::unreachable()
    }
    Ok(sum.to_string())
}
