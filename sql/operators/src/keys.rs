//! Keys as small numbers: each distinct key of a step gets an id that is reused once the key is gone.
//!
//! Ids say nothing about order and are never stored; state stores the key's bytes in Arrow's row format, which is also
//! how keys come back as columns.

use std::hash::BuildHasher as _;

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array},
    datatypes::{DataType, Int64Type},
    row::{RowConverter, Rows, SortField},
};
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use pelton_core::error::Result;

use crate::expressions::internal;

/// The keys of one step on one worker.
pub(crate) struct KeyTable {
    converter: RowConverter,
    lookup: Lookup,
    free: Vec<u32>,
    count: u32,
    bytes: usize,
}

enum Lookup {
    /// One BIGINT column: values themselves are the keys.
    Int64 { ids: HashMap<Option<i64>, u32>, values: Vec<Option<i64>> },
    /// Anything else: bytes in row format.
    Rows { ids: HashTable<u32>, keys: Vec<Box<[u8]>>, hasher: DefaultHashBuilder },
}

impl KeyTable {
    pub(crate) fn new(types: &[DataType]) -> Result<Self> {
        let fields = types.iter().map(|data_type| SortField::new(data_type.clone())).collect();
        let converter = RowConverter::new(fields).map_err(|error| internal("keys", &error))?;
        let lookup = match types {
            [DataType::Int64] => Lookup::Int64 { ids: HashMap::new(), values: Vec::new() },
            _ => Lookup::Rows { ids: HashTable::new(), keys: Vec::new(), hasher: DefaultHashBuilder::default() },
        };
        Ok(Self { converter, lookup, free: Vec::new(), count: 0, bytes: 0 })
    }

    /// Ids that were ever given: every id is below.
    pub(crate) fn capacity(&self) -> usize {
        self.count as usize
    }

    /// Estimate of the memory it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes + self.count as usize * 32
    }

    /// The id of each row's key, new ones for new keys.
    pub(crate) fn ids(&mut self, columns: &[ArrayRef], rows: usize, ids: &mut Vec<u32>) -> Result<()> {
        ids.clear();
        if let (Lookup::Int64 { .. }, [column]) = (&self.lookup, columns) {
            let column = column.as_primitive::<Int64Type>().clone();
            for row in 0..rows {
                let value = column.is_valid(row).then(|| column.value(row));
                ids.push(self.id_of_value(value));
            }
            return Ok(());
        }
        if columns.is_empty() {
            let id = self.id_of_bytes(b"");
            ids.resize(rows, id);
            return Ok(());
        }
        let converted = self.convert(columns)?;
        ids.extend(converted.iter().map(|row| self.id_of_bytes(row.as_ref())));
        Ok(())
    }

    fn convert(&self, columns: &[ArrayRef]) -> Result<Rows> {
        self.converter.convert_columns(columns).map_err(|error| internal("keys", &error))
    }

    fn id_of_value(&mut self, value: Option<i64>) -> u32 {
        let Lookup::Int64 { ids, values } = &mut self.lookup else { return 0 };
        *ids.entry(value).or_insert_with(|| match self.free.pop() {
            Some(id) => {
                values[id as usize] = value;
                id
            }
            None => {
                values.push(value);
                self.count += 1;
                self.count - 1
            }
        })
    }

    fn id_of_bytes(&mut self, key: &[u8]) -> u32 {
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
                self.count += 1;
                self.count - 1
            }
        };
        ids.insert_unique(hash, id, |id| hasher.hash_one(keys[*id as usize].as_ref()));
        id
    }

    /// Forgets a key: its id may be given to another.
    pub(crate) fn release(&mut self, id: u32) {
        match &mut self.lookup {
            Lookup::Int64 { ids, values } => {
                ids.remove(&values[id as usize]);
            }
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

    /// Keys as columns again.
    pub(crate) fn columns(&self, ids: &[u32]) -> Result<Vec<ArrayRef>> {
        match &self.lookup {
            Lookup::Int64 { values, .. } => Ok(vec![std::sync::Arc::new(ids.iter().map(|id| values[*id as usize]).collect::<Int64Array>())]),
            Lookup::Rows { keys, .. } => {
                let parser = self.converter.parser();
                let rows = ids.iter().map(|id| parser.parse(&keys[*id as usize]));
                self.converter.convert_rows(rows).map_err(|error| internal("keys", &error))
            }
        }
    }

    /// A key's bytes as state stores them.
    pub(crate) fn bytes(&self, id: u32) -> Result<Vec<u8>> {
        match &self.lookup {
            Lookup::Int64 { values, .. } => {
                let column: ArrayRef = std::sync::Arc::new(Int64Array::from(vec![values[id as usize]]));
                Ok(self.convert(&[column])?.row(0).as_ref().to_vec())
            }
            Lookup::Rows { keys, .. } => Ok(keys[id as usize].to_vec()),
        }
    }

    /// The id of a key that state stored.
    pub(crate) fn id_of_stored(&mut self, key: &[u8]) -> Result<u32> {
        if matches!(self.lookup, Lookup::Rows { .. }) {
            return Ok(self.id_of_bytes(key));
        }
        let columns = self.converter.convert_rows([self.converter.parser().parse(key)]).map_err(|error| internal("keys", &error))?;
        let mut ids = Vec::new();
        self.ids(&columns, 1, &mut ids)?;
        Ok(ids[0])
    }
}
