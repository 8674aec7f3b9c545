//! Keys as small numbers: each distinct key of a step gets an id that is reused once the key is gone.
//!
//! Ids say nothing about order and are never stored; state stores the key's bytes in Arrow's row format, which is also
//! how keys come back as columns. Floats are normalised first: -0.0 is 0.0 and every NaN is one key, as in
//! [`pelton_core::key_group`]. The order of keys is that of their key groups, then of their bytes: it depends on neither
//! arrival nor hash.

use std::{cmp::Ordering, hash::BuildHasher as _, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, UInt32Array},
    compute::take,
    datatypes::{DataType, Float32Type, Float64Type, Int64Type},
    row::{RowConverter, Rows, SortField},
};
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use pelton_core::{
    error::Result,
    key_group::{KeyGroup, hash_rows},
};

use crate::expressions::internal;

/// The keys of one step on one worker.
pub(crate) struct KeyTable {
    // Fixed at start.
    converter: RowConverter,
    group_count: u16,
    // Changing.
    lookup: Lookup,
    /// By id.
    groups: Vec<u16>,
    /// By id: how many hold it.
    holders: Vec<u32>,
    free: Vec<u32>,
    bytes: usize,
    // Buffers.
    /// Rows of the current batch whose key is new.
    new_rows: Vec<u32>,
}

enum Lookup {
    /// One BIGINT column: values themselves are the keys.
    Int64 { ids: HashMap<i64, u32>, null: Option<u32>, values: Vec<Option<i64>> },
    /// Anything else: bytes in row format.
    Rows { ids: HashTable<u32>, keys: Vec<Box<[u8]>>, hasher: DefaultHashBuilder },
}

impl KeyTable {
    pub(crate) fn new(types: &[DataType], group_count: u16) -> Result<Self> {
        let fields = types.iter().map(|data_type| SortField::new(data_type.clone())).collect();
        let converter = RowConverter::new(fields).map_err(|error| internal("keys", &error))?;
        let lookup = match types {
            [DataType::Int64] => Lookup::Int64 { ids: HashMap::new(), null: None, values: Vec::new() },
            _ => Lookup::Rows { ids: HashTable::new(), keys: Vec::new(), hasher: DefaultHashBuilder::default() },
        };
        Ok(Self { converter, group_count, lookup, groups: Vec::new(), holders: Vec::new(), free: Vec::new(), bytes: 0, new_rows: Vec::new() })
    }

    /// Every id is below.
    pub(crate) fn capacity(&self) -> usize {
        self.holders.len()
    }

    /// Estimate of the memory it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let table = match &self.lookup {
            Lookup::Int64 { ids, values, .. } => ids.capacity() * 17 + values.capacity() * 16,
            Lookup::Rows { ids, keys, .. } => ids.capacity() * 5 + keys.capacity() * 32,
        };
        self.bytes + table + self.holders.capacity() * 6 + self.free.capacity() * 4
    }

    /// The id of each row's key. New keys get new ids, held by nobody yet: hold them, or they stay for ever.
    pub(crate) fn ids(&mut self, columns: &[ArrayRef], rows: usize, ids: &mut Vec<u32>) -> Result<()> {
        ids.clear();
        self.new_rows.clear();
        if columns.is_empty() {
            let id = self.id_of_bytes(b"", 0);
            ids.resize(rows, id);
        } else if let (Lookup::Int64 { .. }, [column]) = (&self.lookup, columns) {
            let column = column.as_primitive::<Int64Type>().clone();
            if column.null_count() == 0 {
                ids.extend(column.values().iter().enumerate().map(|(row, &value)| self.id_of_value(Some(value), row as u32)));
            } else {
                ids.extend(column.iter().enumerate().map(|(row, value)| self.id_of_value(value, row as u32)));
            }
        } else {
            let converted = self.convert(columns)?;
            ids.extend(converted.iter().enumerate().map(|(row, key)| self.id_of_bytes(key.as_ref(), row as u32)));
        }
        self.place_new(columns, ids)
    }

    /// Notes the key groups of the keys that were new in the last batch.
    fn place_new(&mut self, columns: &[ArrayRef], ids: &[u32]) -> Result<()> {
        if self.new_rows.is_empty() {
            return Ok(());
        }
        let new_rows = std::mem::take(&mut self.new_rows);
        if columns.is_empty() {
            // Without keys everything is in the first group, on the first worker.
            new_rows.iter().for_each(|&row| self.groups[ids[row as usize] as usize] = 0);
        } else {
            let rows = UInt32Array::from(new_rows.clone());
            let columns = columns.iter().map(|column| take(column, &rows, None)).collect::<Result<Vec<_>, _>>().map_err(|error| internal("keys", &error))?;
            let mut hashes = Vec::new();
            hash_rows(&columns, new_rows.len(), &mut hashes);
            for (&row, hash) in new_rows.iter().zip(hashes) {
                self.groups[ids[row as usize] as usize] = KeyGroup::of_hash(hash, self.group_count).0;
            }
        }
        self.new_rows = new_rows;
        Ok(())
    }

    fn convert(&self, columns: &[ArrayRef]) -> Result<Rows> {
        let columns: Vec<ArrayRef> = columns.iter().map(normalised).collect();
        self.converter.convert_columns(&columns).map_err(|error| internal("keys", &error))
    }

    fn id_of_value(&mut self, value: Option<i64>, row: u32) -> u32 {
        let Lookup::Int64 { ids, null, values } = &mut self.lookup else { return 0 };
        let found = match value {
            Some(value) => ids.get(&value).copied(),
            None => *null,
        };
        if let Some(id) = found {
            return id;
        }
        let id = match self.free.pop() {
            Some(id) => {
                values[id as usize] = value;
                id
            }
            None => {
                values.push(value);
                self.holders.push(0);
                self.groups.push(0);
                values.len() as u32 - 1
            }
        };
        match value {
            Some(value) => {
                ids.insert(value, id);
            }
            None => *null = Some(id),
        }
        self.new_rows.push(row);
        id
    }

    fn id_of_bytes(&mut self, key: &[u8], row: u32) -> u32 {
        let Lookup::Rows { ids, keys, hasher } = &mut self.lookup else { return 0 };
        let hash = hasher.hash_one(key);
        if let Some(id) = ids.find(hash, |id| keys[*id as usize].as_ref() == key) {
            return *id;
        }
        self.bytes += key.len();
        let id = match self.free.pop() {
            Some(id) => {
                keys[id as usize] = key.into();
                id
            }
            None => {
                keys.push(key.into());
                self.holders.push(0);
                self.groups.push(0);
                keys.len() as u32 - 1
            }
        };
        ids.insert_unique(hash, id, |id| hasher.hash_one(keys[*id as usize].as_ref()));
        self.new_rows.push(row);
        id
    }

    /// One more holds this key.
    pub(crate) fn hold(&mut self, id: u32) {
        self.holders[id as usize] += 1;
    }

    /// One less holds this key: the last one lets its id go to another key.
    pub(crate) fn let_go(&mut self, id: u32) {
        let holders = &mut self.holders[id as usize];
        debug_assert!(*holders > 0, "a key was let go more often than it was held");
        *holders -= 1;
        if *holders == 0 {
            self.release(id);
        }
    }

    /// One less holds each of these keys.
    pub(crate) fn let_all_go(&mut self, ids: &[u32]) {
        /// Fewer keys than this are not worth a new table.
        const WORTH_IT: usize = 1 << 12;
        if ids.len() < WORTH_IT || self.free.len() + ids.len() < self.holders.len() || ids.iter().any(|&id| self.holders[id as usize] != 1) {
            ids.iter().for_each(|&id| self.let_go(id));
            return;
        }
        // Nobody holds any key now: all of them are forgotten at once, and memory goes back.
        self.lookup = match self.lookup {
            Lookup::Int64 { .. } => Lookup::Int64 { ids: HashMap::new(), null: None, values: Vec::new() },
            Lookup::Rows { .. } => Lookup::Rows { ids: HashTable::new(), keys: Vec::new(), hasher: DefaultHashBuilder::default() },
        };
        (self.groups, self.holders, self.free, self.bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
    }

    fn release(&mut self, id: u32) {
        match &mut self.lookup {
            Lookup::Int64 { ids, null, values } => match values[id as usize] {
                Some(value) => {
                    ids.remove(&value);
                }
                None => *null = None,
            },
            Lookup::Rows { ids, keys, hasher } => {
                let hash = hasher.hash_one(keys[id as usize].as_ref());
                if let Ok(entry) = ids.find_entry(hash, |other| *other == id) {
                    entry.remove();
                }
                self.bytes -= keys[id as usize].len();
                keys[id as usize] = Box::default();
            }
        }
        self.free.push(id);
    }

    /// The key group of a key, as the exchange in front computes it.
    pub(crate) fn group(&self, id: u32) -> KeyGroup {
        KeyGroup(self.groups[id as usize])
    }

    /// Which of two keys comes first.
    pub(crate) fn compare(&self, a: u32, b: u32) -> Ordering {
        let by_group = self.groups[a as usize].cmp(&self.groups[b as usize]);
        by_group.then_with(|| match &self.lookup {
            Lookup::Int64 { values, .. } => values[a as usize].cmp(&values[b as usize]),
            Lookup::Rows { keys, .. } => keys[a as usize].cmp(&keys[b as usize]),
        })
    }

    /// Positions of `ids` in key order.
    pub(crate) fn order(&self, ids: &[u32]) -> Vec<u32> {
        // Group and the key's first bytes side by side: most comparisons end there, without a jump into memory.
        let mut order: Vec<(u16, u64, u32)> = match &self.lookup {
            Lookup::Int64 { values, .. } => ids
                .iter()
                .enumerate()
                .map(|(position, &id)| (self.groups[id as usize], values[id as usize].map_or(0, |value| value as u64 ^ (1 << 63)), position as u32))
                .collect(),
            Lookup::Rows { keys, .. } => ids
                .iter()
                .enumerate()
                .map(|(position, &id)| {
                    let mut first = [0; 8];
                    let key = &keys[id as usize];
                    let length = key.len().min(8);
                    first[..length].copy_from_slice(&key[..length]);
                    (self.groups[id as usize], u64::from_be_bytes(first), position as u32)
                })
                .collect(),
        };
        order.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then_with(|| self.compare(ids[a.2 as usize], ids[b.2 as usize])));
        order.into_iter().map(|(_, _, position)| position).collect()
    }

    /// Keys as columns again.
    pub(crate) fn columns(&self, ids: &[u32]) -> Result<Vec<ArrayRef>> {
        match &self.lookup {
            Lookup::Int64 { values, .. } => Ok(vec![Arc::new(ids.iter().map(|id| values[*id as usize]).collect::<Int64Array>())]),
            Lookup::Rows { keys, .. } => {
                let parser = self.converter.parser();
                let rows = ids.iter().map(|id| parser.parse(&keys[*id as usize]));
                self.converter.convert_rows(rows).map_err(|error| internal("keys", &error))
            }
        }
    }

    /// The bytes of keys as state stores them, in the order of `ids`.
    pub(crate) fn stored_bytes(&self, ids: &[u32], mut each: impl FnMut(usize, &[u8])) -> Result<()> {
        match &self.lookup {
            Lookup::Int64 { .. } => {
                let rows = self.convert(&self.columns(ids)?)?;
                rows.iter().enumerate().for_each(|(index, row)| each(index, row.as_ref()));
            }
            Lookup::Rows { keys, .. } => ids.iter().enumerate().for_each(|(index, id)| each(index, &keys[*id as usize])),
        }
        Ok(())
    }

    /// The ids of keys that state of one group stored.
    pub(crate) fn ids_of_stored(&mut self, group: KeyGroup, stored: &[&[u8]], ids: &mut Vec<u32>) -> Result<()> {
        ids.clear();
        self.new_rows.clear();
        if matches!(self.lookup, Lookup::Rows { .. }) {
            ids.extend(stored.iter().enumerate().map(|(row, key)| self.id_of_bytes(key, row as u32)));
        } else {
            let parser = self.converter.parser();
            let columns = self.converter.convert_rows(stored.iter().map(|key| parser.parse(key))).map_err(|error| internal("keys", &error))?;
            let column = columns[0].as_primitive::<Int64Type>();
            ids.extend(column.iter().enumerate().map(|(row, value)| self.id_of_value(value, row as u32)));
        }
        let new_rows = std::mem::take(&mut self.new_rows);
        new_rows.iter().for_each(|&row| self.groups[ids[row as usize] as usize] = group.0);
        self.new_rows = new_rows;
        Ok(())
    }
}

/// Floats of which equal ones have equal bits; other columns as they are.
pub(crate) fn normalised(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float32 => Arc::new(column.as_primitive::<Float32Type>().unary::<_, Float32Type>(|value| {
            if value == 0.0 {
                0.0
            } else if value.is_nan() {
                f32::NAN
            } else {
                value
            }
        })),
        DataType::Float64 => Arc::new(column.as_primitive::<Float64Type>().unary::<_, Float64Type>(|value| {
            if value == 0.0 {
                0.0
            } else if value.is_nan() {
                f64::NAN
            } else {
                value
            }
        })),
        _ => Arc::clone(column),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, StringArray};

    use super::*;

    fn check(columns: &[ArrayRef], wanted: &[u32]) -> KeyTable {
        let types: Vec<DataType> = columns.iter().map(|column| column.data_type().clone()).collect();
        let mut table = KeyTable::new(&types, 128).expect("types can be keys");
        let mut ids = Vec::new();
        table.ids(columns, wanted.len(), &mut ids).expect("columns fit");
        assert_eq!(ids, wanted);
        // Back as columns, and through the stored form into another table.
        let back = table.columns(&ids).expect("ids are known");
        assert_eq!(back, columns.iter().map(normalised).collect::<Vec<_>>());
        let mut other = KeyTable::new(&types, 128).expect("types can be keys");
        let mut stored = Vec::new();
        table.stored_bytes(&ids, |_, bytes| stored.push(bytes.to_vec())).expect("ids are known");
        let stored: Vec<&[u8]> = stored.iter().map(Vec::as_slice).collect();
        let mut others = Vec::new();
        other.ids_of_stored(KeyGroup(0), &stored, &mut others).expect("keys are whole");
        assert_eq!(others, wanted);
        table
    }

    #[test]
    fn equal_keys_share_an_id_nulls_zeros_and_nans_too() {
        check(&[Arc::new(Int64Array::from(vec![Some(5), None, Some(i64::MIN), None, Some(5)]))], &[0, 1, 2, 1, 0]);
        check(&[Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN]))], &[0, 0, 1, 1]);
        let words: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some(""), None, Some("a")]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 2, 1]));
        check(&[words, numbers], &[0, 1, 2, 0]);
    }

    #[test]
    fn an_id_is_given_again_once_nobody_holds_it() {
        let mut table = check(&[Arc::new(Int64Array::from(vec![7, 8]))], &[0, 1]);
        table.hold(0);
        table.hold(1);
        table.hold(1);
        table.let_go(0);
        table.let_go(1);
        let mut ids = Vec::new();
        let column: ArrayRef = Arc::new(Int64Array::from(vec![8, 9, 7]));
        table.ids(&[column], 3, &mut ids).expect("columns fit");
        assert_eq!(ids, [1, 0, 2]);
    }

    #[test]
    fn order_is_by_group_then_value_whatever_came_first() {
        let values = [9_i64, -3, 0, 77, i64::MAX, i64::MIN, 5];
        let sorted = |values: &[i64]| {
            let mut table = KeyTable::new(&[DataType::Int64], 2).expect("BIGINT can be a key");
            let mut ids = Vec::new();
            let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
            table.ids(&[column], values.len(), &mut ids).expect("columns fit");
            let order = table.order(&ids);
            assert!(order.windows(2).all(|pair| table.compare(ids[pair[0] as usize], ids[pair[1] as usize]).is_lt()));
            order.iter().map(|&position| values[position as usize]).collect::<Vec<_>>()
        };
        let mut reversed = values;
        reversed.reverse();
        assert_eq!(sorted(&values), sorted(&reversed));
    }
}
