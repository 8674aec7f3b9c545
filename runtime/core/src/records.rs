//! Records before decoding and after encoding: bytes in columns, one buffer per column and batch.
//!
//! Promises: no allocation per record. A missing key, value or header value (Kafka's null, a tombstone) is kept apart
//! from an empty one. `len()` is the same for every column that is present.

use std::sync::Arc;

use crate::{position::{Offset, Partition}, time::EventTime};

/// A column of byte strings: one buffer, the end of each string in it, and which of them are null.
#[derive(Debug, Clone, Default)]
pub struct BytesColumn {
    data: Vec<u8>,
    ends: Vec<u32>,
    /// Empty while nothing is null.
    nulls: Vec<bool>,
}

impl BytesColumn {
    /// Forgets the rows, keeps the buffers.
    pub fn clear(&mut self) {
        self.data.clear();
        self.ends.clear();
        self.nulls.clear();
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all rows together.
    pub fn byte_len(&self) -> usize {
        self.data.len()
    }

    /// Appends a row. The column must stay under 4 GiB; sources cut batches long before.
    pub fn push(&mut self, value: Option<&[u8]>) {
        if let Some(bytes) = value {
            self.data.extend_from_slice(bytes);
        }
        self.finish_row(value.is_none());
    }

    /// The buffer, for writing the next row's bytes in place; [`BytesColumn::finish_row`] ends the row.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.data
    }

    /// Ends the row whose bytes were appended to [`BytesColumn::buffer`].
    pub fn finish_row(&mut self, is_null: bool) {
        if is_null && self.nulls.is_empty() {
            self.nulls.resize(self.ends.len(), false);
        }
        if is_null || !self.nulls.is_empty() {
            self.nulls.push(is_null);
        }
        self.ends.push(u32::try_from(self.data.len()).expect("a batch of records stays under 4 GiB"));
    }

    /// Takes back the bytes appended since the last finished row.
    pub fn abandon_row(&mut self) {
        self.data.truncate(self.ends.last().map_or(0, |&end| end as usize));
    }

    /// The row's bytes, or `None` for null.
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        if self.nulls.get(row).copied().unwrap_or(false) {
            return None;
        }
        let start = if row == 0 { 0 } else { self.ends[row - 1] as usize };
        Some(&self.data[start..self.ends[row] as usize])
    }

    /// All rows' bytes behind each other, and the end of each row.
    pub fn parts(&self) -> (&[u8], &[u32]) {
        (&self.data, &self.ends)
    }

    /// Whether some row is null.
    pub fn has_nulls(&self) -> bool {
        self.nulls.contains(&true)
    }

    /// Iterates over the rows.
    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        (0..self.len()).map(|row| self.get(row))
    }
}

/// Headers of each record: names and values in order, duplicates kept.
#[derive(Debug, Clone, Default)]
pub struct HeadersColumn {
    names: BytesColumn,
    values: BytesColumn,
    /// For each record, the end of its headers in the two columns above.
    ends: Vec<u32>,
}

impl HeadersColumn {
    /// Forgets the rows, keeps the buffers.
    pub fn clear(&mut self) {
        self.names.clear();
        self.values.clear();
        self.ends.clear();
    }

    /// Adds a header to the record being built.
    pub fn push(&mut self, name: &str, value: Option<&[u8]>) {
        self.names.push(Some(name.as_bytes()));
        self.values.push(value);
    }

    /// Ends the record being built.
    pub fn finish_row(&mut self) {
        self.ends.push(u32::try_from(self.names.len()).expect("headers of a batch fit 32 bits"));
    }

    /// How many records.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The record's headers in order.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
        let start = if row == 0 { 0 } else { self.ends[row - 1] as usize };
        (start..self.ends[row] as usize).map(|i| {
            let name = self.names.get(i).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default();
            (name, self.values.get(i))
        })
    }

    /// The value of the record's last header of that name, as Kafka's `lastHeader`.
    pub fn last(&self, row: usize, name: &str) -> Option<&[u8]> {
        self.row(row).filter(|(n, _)| *n == name).last().and_then(|(_, value)| value)
    }
}

/// A batch of records from one split, before decoding. `keys`, `headers` and `timestamps` are filled only if the
/// source was asked for them ([`crate::source::RecordParts`]); a column that was not is empty.
#[derive(Debug, Clone, Default)]
pub struct Records {
    /// Topic, or the file's path.
    pub topic: Arc<str>,
    /// Kafka's partition, else 0.
    pub partition: Partition,
    /// One per record.
    pub offsets: Vec<Offset>,
    /// One per record.
    pub values: BytesColumn,
    /// One per record, or empty.
    pub keys: BytesColumn,
    /// One per record, or empty.
    pub headers: HeadersColumn,
    /// One per record, or empty. Kafka's record timestamp, whatever its type.
    pub timestamps: Vec<EventTime>,
}

impl Records {
    /// Forgets the records, keeps the buffers.
    pub fn clear(&mut self) {
        self.offsets.clear();
        self.values.clear();
        self.keys.clear();
        self.headers.clear();
        self.timestamps.clear();
    }

    /// How many records.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The record's key, `None` when it is null or was not asked for.
    pub fn key(&self, row: usize) -> Option<&[u8]> {
        if self.keys.is_empty() { None } else { self.keys.get(row) }
    }

    /// The record's timestamp, `None` when it was not asked for.
    pub fn timestamp(&self, row: usize) -> Option<EventTime> {
        self.timestamps.get(row).copied()
    }
}

/// Records after encoding, on their way to a sink. Columns that are not used stay empty.
#[derive(Debug, Clone, Default)]
pub struct OutputRecords {
    /// One per record; null is a tombstone.
    pub values: BytesColumn,
    /// One per record, or empty.
    pub keys: BytesColumn,
    /// One per record, or empty.
    pub headers: HeadersColumn,
    /// One per record, or empty.
    pub timestamps: Vec<Option<EventTime>>,
    /// One per record, or empty: everything goes to the sink's own topic.
    pub topics: Vec<Option<Arc<str>>>,
    /// One per record, or empty: the partition that the sink's partitioner chose.
    pub partitions: Vec<Option<Partition>>,
}

impl OutputRecords {
    /// Forgets the records, keeps the buffers.
    pub fn clear(&mut self) {
        self.values.clear();
        self.keys.clear();
        self.headers.clear();
        self.timestamps.clear();
        self.topics.clear();
        self.partitions.clear();
    }

    /// How many records.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_null_apart_from_empty() {
        let mut column = BytesColumn::default();
        column.push(Some(b"ab"));
        column.push(Some(b""));
        column.push(None);
        column.push(Some(b"c"));
        let rows: Vec<_> = column.iter().collect();
        assert_eq!(rows, [Some(&b"ab"[..]), Some(&b""[..]), None, Some(&b"c"[..])]);
        assert!(column.has_nulls());
    }

    #[test]
    fn keeps_header_order_and_duplicates() {
        let mut headers = HeadersColumn::default();
        headers.push("a", Some(b"1"));
        headers.push("a", None);
        headers.finish_row();
        headers.finish_row();
        headers.push("b", Some(b"2"));
        headers.finish_row();
        assert_eq!(headers.row(0).collect::<Vec<_>>(), [("a", Some(&b"1"[..])), ("a", None)]);
        assert_eq!(headers.row(1).count(), 0);
        assert_eq!(headers.last(2, "b"), Some(&b"2"[..]));
    }
}
