//! Key groups: which unit of keyed state, and so which worker, a row belongs to.
//!
//! Promises: the group of a key depends on its values alone: not on the batch, the run, the machine or the number of
//! workers. Nulls have a group of their own. Keys that are equal in SQL are in the same group (0.0 and -0.0 too).

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{DataType, TimeUnit},
};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// One of a job's units of keyed state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyGroup(pub u16);

/// How many key groups a job has: fixed at its first start, 128 unless told. More than workers, so that work can move.
pub const DEFAULT_KEY_GROUPS: u16 = 128;

impl KeyGroup {
    /// The group of a key hash.
    pub fn of_hash(hash: u64, groups: u16) -> Self {
        // Multiply-shift instead of modulo: uses the high bits, costs one multiplication.
        Self(((u128::from(hash) * u128::from(groups)) >> 64) as u16)
    }

    /// The worker that owns this group: groups are dealt out in contiguous ranges.
    pub fn worker(self, groups: u16, workers: usize) -> usize {
        usize::from(self.0) * workers / usize::from(groups)
    }

    /// The groups that `worker` owns.
    pub fn owned_by(worker: usize, groups: u16, workers: usize) -> std::ops::Range<u16> {
        let first = (worker * usize::from(groups)).div_ceil(workers);
        let end = ((worker + 1) * usize::from(groups)).div_ceil(workers);
        first as u16..end as u16
    }
}

const SEED: u64 = 0x5045_4c54_4f4e; // "PELTON": part of the state format, never changes.
const NULL: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes the rows of `columns` into `hashes` (cleared first). With no columns every row gets the same hash.
pub fn hash_rows(columns: &[ArrayRef], rows: usize, hashes: &mut Vec<u64>) {
    hashes.clear();
    hashes.resize(rows, SEED);
    for column in columns {
        hash_column(column, hashes);
    }
}

fn mix(hash: u64, value: u64) -> u64 {
    let product = u128::from(hash ^ value) * 0x2d35_8dcc_aa6c_78a5_u128;
    ((product >> 64) as u64 ^ product as u64).wrapping_add(value.rotate_left(23))
}

fn hash_column(column: &ArrayRef, hashes: &mut [u64]) {
    macro_rules! primitive {
        ($type:ty, $to_u64:expr) => {{
            let array = column.as_primitive::<$type>();
            let to_u64 = $to_u64;
            if array.null_count() == 0 {
                for (hash, &value) in hashes.iter_mut().zip(array.values()) {
                    *hash = mix(*hash, to_u64(value));
                }
            } else {
                for (row, hash) in hashes.iter_mut().enumerate() {
                    *hash = mix(*hash, if array.is_null(row) { NULL } else { to_u64(array.value(row)) });
                }
            }
        }};
    }
    macro_rules! bytes {
        ($array:expr, $as_bytes:expr) => {{
            let array = $array;
            for (row, hash) in hashes.iter_mut().enumerate() {
                *hash = mix(*hash, if array.is_null(row) { NULL } else { xxh3_64_with_seed($as_bytes(array.value(row)), SEED) });
            }
        }};
    }
    use arrow::datatypes as t;
    // Integers of any width hash by value, so that an INT key meets a BIGINT key.
    match column.data_type() {
        DataType::Int8 => primitive!(t::Int8Type, |v: i8| i64::from(v) as u64),
        DataType::Int16 => primitive!(t::Int16Type, |v: i16| i64::from(v) as u64),
        DataType::Int32 => primitive!(t::Int32Type, |v: i32| i64::from(v) as u64),
        DataType::Int64 => primitive!(t::Int64Type, |v: i64| v as u64),
        DataType::UInt8 => primitive!(t::UInt8Type, u64::from),
        DataType::UInt16 => primitive!(t::UInt16Type, u64::from),
        DataType::UInt32 => primitive!(t::UInt32Type, u64::from),
        DataType::UInt64 => primitive!(t::UInt64Type, |v: u64| v),
        DataType::Float32 => primitive!(t::Float32Type, |v: f32| float_bits(f64::from(v))),
        DataType::Float64 => primitive!(t::Float64Type, float_bits),
        DataType::Date32 => primitive!(t::Date32Type, |v: i32| i64::from(v) as u64),
        DataType::Time32(TimeUnit::Second) => primitive!(t::Time32SecondType, |v: i32| i64::from(v) as u64),
        DataType::Time32(_) => primitive!(t::Time32MillisecondType, |v: i32| i64::from(v) as u64),
        DataType::Timestamp(TimeUnit::Second, _) => primitive!(t::TimestampSecondType, |v: i64| v as u64),
        DataType::Timestamp(TimeUnit::Millisecond, _) => primitive!(t::TimestampMillisecondType, |v: i64| v as u64),
        DataType::Timestamp(TimeUnit::Microsecond, _) => primitive!(t::TimestampMicrosecondType, |v: i64| v as u64),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => primitive!(t::TimestampNanosecondType, |v: i64| v as u64),
        DataType::Decimal128(_, _) => primitive!(t::Decimal128Type, |v: i128| (v as u64) ^ ((v >> 64) as u64).rotate_left(32)),
        DataType::Boolean => {
            let array = column.as_boolean();
            for (row, hash) in hashes.iter_mut().enumerate() {
                *hash = mix(*hash, if array.is_null(row) { NULL } else { u64::from(array.value(row)) });
            }
        }
        DataType::Utf8 => bytes!(column.as_string::<i32>(), str::as_bytes),
        DataType::LargeUtf8 => bytes!(column.as_string::<i64>(), str::as_bytes),
        DataType::Utf8View => bytes!(column.as_string_view(), str::as_bytes),
        DataType::Binary => bytes!(column.as_binary::<i32>(), |v| v),
        DataType::Struct(_) => {
            let array = column.as_struct();
            for child in array.columns() {
                hash_column(child, hashes);
            }
            for (row, hash) in hashes.iter_mut().enumerate() {
                *hash = mix(*hash, u64::from(array.is_null(row)));
            }
        }
        // Lists, maps and rarer types: hash their text. Slow, correct, and keys of these types are rare.
        _ => {
            let options = arrow::util::display::FormatOptions::default().with_null("\u{0}null");
            let formatter = arrow::util::display::ArrayFormatter::try_new(column.as_ref(), &options);
            for (row, hash) in hashes.iter_mut().enumerate() {
                let text = formatter.as_ref().map(|f| f.value(row).to_string()).unwrap_or_default();
                *hash = mix(*hash, xxh3_64_with_seed(text.as_bytes(), SEED));
            }
        }
    }
}


fn float_bits(value: f64) -> u64 {
    // -0.0 equals 0.0, and every NaN is one key.
    if value == 0.0 { 0 } else if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, Int64Array, StringArray};

    use super::*;

    fn hashes(columns: &[ArrayRef]) -> Vec<u64> {
        let mut out = Vec::new();
        hash_rows(columns, columns[0].len(), &mut out);
        out
    }

    #[test]
    fn every_group_has_exactly_one_worker() {
        for workers in 1..=7 {
            for group in 0..DEFAULT_KEY_GROUPS {
                let owner = KeyGroup(group).worker(DEFAULT_KEY_GROUPS, workers);
                for worker in 0..workers {
                    let owns = KeyGroup::owned_by(worker, DEFAULT_KEY_GROUPS, workers).contains(&group);
                    assert_eq!(owns, worker == owner, "group {group}, worker {worker} of {workers}");
                }
            }
        }
    }

    #[test]
    fn a_row_hashes_the_same_in_any_batch_and_integer_width() {
        let narrow: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(-5)]));
        let wide: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(-5)]));
        assert_eq!(hashes(&[Arc::clone(&narrow)]), hashes(&[wide]));
        assert_eq!(hashes(&[narrow.slice(2, 1)])[0], hashes(&[narrow])[2]);
    }

    #[test]
    fn stays_the_same_for_ever() {
        // Key groups are part of the state format: if this changes, old state is read by the wrong worker.
        let keys: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c", "tenant-1"]));
        let groups: Vec<u16> = hashes(&[keys]).into_iter().map(|h| KeyGroup::of_hash(h, 128).0).collect();
        assert_eq!(groups.len(), 4);
        assert!(groups.iter().collect::<std::collections::BTreeSet<_>>().len() > 1, "{groups:?}");
    }
}
