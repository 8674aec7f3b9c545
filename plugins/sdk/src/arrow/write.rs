//! Writes schema messages and record batch messages.

use super::{
    Field, Type,
    flat::{Slot, Writer},
};

/// A column's values.
#[derive(Debug, Clone)]
pub enum Column {
    /// BOOLEAN
    Boolean(Vec<Option<bool>>),
    /// INT
    Int32(Vec<Option<i32>>),
    /// BIGINT
    Int64(Vec<Option<i64>>),
    /// DOUBLE
    Float64(Vec<Option<f64>>),
    /// STRING
    Utf8(Vec<Option<String>>),
    /// BYTES
    Binary(Vec<Option<Vec<u8>>>),
    /// ARRAY: how many items each row has, and the items of all rows. No null lists.
    List(Vec<u32>, Box<Column>),
    /// ROW: as many values in each column. No null rows.
    Struct(Vec<Column>),
}

const VERSION_5: i16 = 4;
const SCHEMA: u8 = 1;
const RECORD_BATCH: u8 = 3;

/// A schema message.
pub fn schema_message(fields: &[Field]) -> Vec<u8> {
    let mut writer = Writer::new();
    let header = writer.table(0, &[Slot::I16(VERSION_5), Slot::U8(SCHEMA), Slot::Reference, Slot::I64(0)])[0];
    let list = writer.table(header, &[Slot::I16(0), Slot::Reference])[0];
    let places = writer.references(list, fields.len());
    for (place, field) in places.into_iter().zip(fields) {
        write_field(&mut writer, place, field);
    }
    encapsulate(writer, &[])
}

fn write_field(writer: &mut Writer, place: usize, field: &Field) {
    let (code, of_type): (u8, &[Slot]) = match &field.data_type {
        Type::Int32 => (2, &[Slot::I32(32), Slot::U8(1)]),
        Type::Int64 => (2, &[Slot::I32(64), Slot::U8(1)]),
        Type::Float64 => (3, &[Slot::I16(2)]),
        Type::Binary => (4, &[]),
        Type::Utf8 => (5, &[]),
        Type::Boolean => (6, &[]),
        Type::List(_) => (12, &[]),
        Type::Struct(_) => (13, &[]),
    };
    let nullable = Slot::U8(1);
    let places =
        writer.table(place, &[Slot::Reference, nullable, Slot::U8(code), Slot::Reference, Slot::Absent, Slot::Reference]);
    writer.string(places[0], &field.name);
    writer.table(places[1], of_type);
    let children: &[Field] = match &field.data_type {
        Type::List(item) => std::slice::from_ref(item),
        Type::Struct(fields) => fields,
        _ => &[],
    };
    let child_places = writer.references(places[2], children.len());
    for (place, child) in child_places.into_iter().zip(children) {
        write_field(writer, place, child);
    }
}

/// A record batch message of these columns.
pub fn write_batch(columns: &[Column]) -> Vec<u8> {
    let mut parts = Parts { nodes: Vec::new(), buffers: Vec::new(), body: Vec::new() };
    for column in columns {
        parts.column(column);
    }
    let rows = columns.first().map_or(0, Column::len);
    let mut writer = Writer::new();
    let message = [Slot::I16(VERSION_5), Slot::U8(RECORD_BATCH), Slot::Reference, Slot::I64(parts.body.len() as i64)];
    let header = writer.table(0, &message)[0];
    let places = writer.table(header, &[Slot::I64(rows as i64), Slot::Reference, Slot::Reference]);
    writer.pairs(places[0], &parts.nodes);
    writer.pairs(places[1], &parts.buffers);
    encapsulate(writer, &parts.body)
}

/// Continuation marker, metadata length, metadata padded to 8, body.
fn encapsulate(mut writer: Writer, body: &[u8]) -> Vec<u8> {
    writer.align(8);
    let mut bytes = Vec::with_capacity(8 + writer.bytes.len() + body.len());
    bytes.extend_from_slice(&[0xff; 4]);
    bytes.extend_from_slice(&(writer.bytes.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&writer.bytes);
    bytes.extend_from_slice(body);
    bytes
}

impl Column {
    /// How many rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Boolean(values) => values.len(),
            Self::Int32(values) => values.len(),
            Self::Int64(values) => values.len(),
            Self::Float64(values) => values.len(),
            Self::Utf8(values) => values.len(),
            Self::Binary(values) => values.len(),
            Self::List(counts, _) => counts.len(),
            Self::Struct(columns) => columns.first().map_or(0, Self::len),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

struct Parts {
    nodes: Vec<(i64, i64)>,
    buffers: Vec<(i64, i64)>,
    body: Vec<u8>,
}

impl Parts {
    fn buffer(&mut self, bytes: &[u8]) {
        self.buffers.push((self.body.len() as i64, bytes.len() as i64));
        self.body.extend_from_slice(bytes);
        self.body.resize(self.body.len().next_multiple_of(8), 0);
    }

    fn bits(&mut self, bits: impl ExactSizeIterator<Item = bool>) {
        let mut bytes = vec![0_u8; bits.len().div_ceil(8)];
        for (row, bit) in bits.enumerate() {
            bytes[row / 8] |= u8::from(bit) << (row % 8);
        }
        self.buffer(&bytes);
    }

    /// The node and the validity buffer.
    fn nulls<T>(&mut self, values: &[Option<T>]) {
        let nulls = values.iter().filter(|value| value.is_none()).count();
        self.nodes.push((values.len() as i64, nulls as i64));
        if nulls == 0 {
            self.buffer(&[]);
        } else {
            self.bits(values.iter().map(Option::is_some));
        }
    }

    fn numbers<T: Copy + Default, const N: usize>(&mut self, values: &[Option<T>], bytes_of: impl Fn(T) -> [u8; N]) {
        self.nulls(values);
        let bytes: Vec<u8> = values.iter().flat_map(|value| bytes_of(value.unwrap_or_default())).collect();
        self.buffer(&bytes);
    }

    fn strings<T: AsRef<[u8]>>(&mut self, values: &[Option<T>]) {
        self.nulls(values);
        let mut offsets = vec![0_u8; 4];
        let mut data = Vec::new();
        for value in values {
            data.extend_from_slice(value.as_ref().map_or(&[][..], AsRef::as_ref));
            offsets.extend_from_slice(&(data.len() as u32).to_le_bytes());
        }
        self.buffer(&offsets);
        self.buffer(&data);
    }

    fn column(&mut self, column: &Column) {
        match column {
            Column::Boolean(values) => {
                self.nulls(values);
                self.bits(values.iter().map(|value| value.unwrap_or(false)));
            }
            Column::Int32(values) => self.numbers(values, i32::to_le_bytes),
            Column::Int64(values) => self.numbers(values, i64::to_le_bytes),
            Column::Float64(values) => self.numbers(values, f64::to_le_bytes),
            Column::Utf8(values) => self.strings(values),
            Column::Binary(values) => self.strings(values),
            Column::List(counts, items) => {
                self.nodes.push((counts.len() as i64, 0));
                self.buffer(&[]);
                let mut end = 0_u32;
                let mut offsets = vec![0_u8; 4];
                for count in counts {
                    end += count;
                    offsets.extend_from_slice(&end.to_le_bytes());
                }
                self.buffer(&offsets);
                self.column(items);
            }
            Column::Struct(columns) => {
                self.nodes.push((column.len() as i64, 0));
                self.buffer(&[]);
                for column in columns {
                    self.column(column);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrow::read_batch;

    #[test]
    fn reads_back_what_it_wrote() {
        let message = write_batch(&[
            Column::Utf8(vec![Some("ab".into()), None, Some(String::new())]),
            Column::Int64(vec![Some(1), Some(-2), None]),
            Column::Boolean(vec![None, Some(true), Some(false)]),
            Column::Float64(vec![Some(0.5), None, Some(-1.0)]),
            Column::Int32(vec![Some(7), None, Some(9)]),
        ]);
        let types = [Type::Utf8, Type::Int64, Type::Boolean, Type::Float64, Type::Int32];
        let batch = read_batch(&message, &types).expect("readable");
        assert_eq!((0..3).map(|row| batch.text(0, row)).collect::<Vec<_>>(), [Some("ab"), None, Some("")]);
        assert_eq!((0..3).map(|row| batch.int64(1, row)).collect::<Vec<_>>(), [Some(1), Some(-2), None]);
        assert_eq!((0..3).map(|row| batch.boolean(2, row)).collect::<Vec<_>>(), [None, Some(true), Some(false)]);
        assert_eq!((0..3).map(|row| batch.float64(3, row)).collect::<Vec<_>>(), [Some(0.5), None, Some(-1.0)]);
        assert_eq!((0..3).map(|row| batch.int32(4, row)).collect::<Vec<_>>(), [Some(7), None, Some(9)]);
    }

    #[test]
    fn takes_a_cut_or_changed_message_for_damaged_without_a_panic() {
        let message = write_batch(&[Column::Utf8(vec![Some("abcdef".into()), None]), Column::Int64(vec![Some(1), None])]);
        for end in 0..message.len() {
            let _ = read_batch(&message[..end], &[Type::Utf8, Type::Int64]);
        }
        for at in 0..message.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = message.clone();
                changed[at] = value;
                if let Ok(batch) = read_batch(&changed, &[Type::Utf8, Type::Int64]) {
                    let _ = (batch.text(0, 0), batch.text(0, 1), batch.int64(1, 0));
                }
            }
        }
    }
}
