//! Columns while rows are written into them, for any nesting of ROW, ARRAY and MAP.
//!
//! Promises: a value is written at a row number; rows that were passed over are null without having been touched, and
//! a row written twice keeps the last value. So a missing field costs nothing, whatever is below it, and a broken
//! record is taken back by cutting every column to the row where it began.
//! Leaves to others: what text means (`text.rs`) and whether strings are UTF-8 (the decoders check their whole input).

mod plain;

pub(crate) use plain::{Bits, Bytes, Fixed};

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BinaryArray, ListArray, MapArray, NullBufferBuilder, PrimitiveArray, StructArray, UInt32Array,
    },
    buffer::OffsetBuffer,
    compute::take,
    datatypes::{
        DataType, Date32Type, Decimal128Type, FieldRef, Fields, Float32Type, Float64Type, Int8Type, Int16Type,
        Int32Type, Int64Type, TimeUnit, Time32MillisecondType, Time32SecondType, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType,
    },
    error::ArrowError,
};

use self::plain::offset;

/// A column of any type that a format can read.
#[derive(Debug)]
pub(crate) enum Column {
    Boolean(Bits),
    Int8(Fixed<i8>),
    Int16(Fixed<i16>),
    Int32(Fixed<i32>),
    Int64(Fixed<i64>),
    Float32(Fixed<f32>),
    Float64(Fixed<f64>),
    Decimal { values: Fixed<i128>, precision: u8, scale: i8 },
    Date(Fixed<i32>),
    /// In seconds or milliseconds.
    Time { values: Fixed<i32>, unit: TimeUnit },
    /// Without a zone, or (`zone` set) TIMESTAMP_LTZ.
    Timestamp { values: Fixed<i64>, unit: TimeUnit, zone: Option<Arc<str>> },
    Utf8(Bytes),
    Binary(Bytes),
    List(Box<List>),
    Map(Box<Map>),
    Struct(Box<Struct>),
}

/// ARRAY.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) child: Column,
    field: FieldRef,
    slots: Slots,
}

/// MAP.
#[derive(Debug)]
pub(crate) struct Map {
    pub(crate) keys: Bytes,
    pub(crate) values: Column,
    entries: FieldRef,
    sorted: bool,
    slots: Slots,
    /// Entries whose key came again later in the same map.
    dead: Vec<u32>,
}

/// ROW; the children share its row numbers.
#[derive(Debug)]
pub(crate) struct Struct {
    pub(crate) children: Vec<Column>,
    fields: Fields,
    valid: NullBufferBuilder,
}

/// Offsets and validity of lists and maps.
#[derive(Debug)]
struct Slots {
    offsets: Vec<i32>,
    valid: NullBufferBuilder,
}

impl Slots {
    fn with_capacity(rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self { offsets, valid: NullBufferBuilder::new(rows) }
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    fn items(&self) -> usize {
        self.offsets.last().map_or(0, |&end| end as usize)
    }

    fn reach(&mut self, row: usize) {
        let length = self.len();
        if length > row {
            self.offsets.truncate(row + 1);
            self.valid.truncate(row);
        } else if length < row {
            self.valid.append_n_nulls(row - length);
            self.offsets.resize(row + 1, offset(self.items()));
        }
    }

    fn end(&mut self, items: usize) {
        self.offsets.push(offset(items));
        self.valid.append_non_null();
    }

    fn finish(&mut self, rows: usize) -> (Vec<i32>, Option<arrow::buffer::NullBuffer>) {
        self.reach(rows);
        (std::mem::replace(&mut self.offsets, vec![0]), self.valid.finish())
    }
}

impl List {
    /// Begins the list at `row`; returns the row number of its first element in `child`.
    pub(crate) fn begin(&mut self, row: usize) -> usize {
        self.slots.reach(row);
        let first = self.slots.items();
        self.child.cut(first);
        first
    }

    /// Ends it; `items` is the row number after its last element.
    pub(crate) fn end(&mut self, items: usize) {
        self.slots.end(items);
    }

    fn finish(&mut self, rows: usize) -> Result<ArrayRef, ArrowError> {
        let (offsets, valid) = self.slots.finish(rows);
        let items = offsets.last().map_or(0, |&end| end as usize);
        let child = self.child.finish(items)?;
        Ok(Arc::new(ListArray::try_new(Arc::clone(&self.field), OffsetBuffer::new(offsets.into()), child, valid)?))
    }
}

impl Map {
    /// Begins the map at `row`; returns the row number of its first entry.
    pub(crate) fn begin(&mut self, row: usize) -> usize {
        self.slots.reach(row);
        let first = self.slots.items();
        self.keys.cut(first);
        self.values.cut(first);
        let first_entry = u32::try_from(first).unwrap_or(u32::MAX);
        self.dead.retain(|&entry| entry < first_entry);
        first
    }

    /// Ends it; of entries with the same key the last one counts.
    pub(crate) fn end(&mut self, first: usize, items: usize) {
        let mut seen = std::collections::HashSet::new();
        let many = items - first > 16;
        for entry in (first..items).rev() {
            let key = self.keys.get(entry);
            let again = if many { !seen.insert(key) } else { (entry + 1..items).any(|later| self.keys.get(later) == key) };
            if again {
                self.dead.push(u32::try_from(entry).unwrap_or(u32::MAX));
            }
        }
        self.slots.end(items);
    }

    fn finish(&mut self, rows: usize) -> Result<ArrayRef, ArrowError> {
        let (mut offsets, valid) = self.slots.finish(rows);
        let items = offsets.last().map_or(0, |&end| end as usize);
        let mut keys: ArrayRef = Arc::new(self.keys.finish_text(items)?);
        let mut values = self.values.finish(items)?;
        if !self.dead.is_empty() {
            self.dead.sort_unstable();
            let dead = std::mem::take(&mut self.dead);
            let live: UInt32Array = (0..offset(items) as u32).filter(|entry| dead.binary_search(entry).is_err()).collect();
            keys = take(&keys, &live, None)?;
            values = take(&values, &live, None)?;
            for end in &mut offsets {
                *end -= offset(dead.partition_point(|&entry| entry < *end as u32));
            }
        }
        let DataType::Struct(fields) = self.entries.data_type() else {
            return Err(ArrowError::SchemaError("entries of a map are a struct".to_owned()));
        };
        let entries = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
        let map = MapArray::try_new(Arc::clone(&self.entries), OffsetBuffer::new(offsets.into()), entries, valid, self.sorted)?;
        Ok(Arc::new(map))
    }
}

impl Struct {
    /// Says that the row is there (its children may still be null).
    #[inline]
    pub(crate) fn set(&mut self, row: usize) {
        let length = self.valid.len();
        if length < row {
            self.valid.append_n_nulls(row - length);
        } else if length > row {
            self.valid.truncate(row);
        }
        self.valid.append_non_null();
    }

    /// Field names in order.
    pub(crate) fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Forgets what children wrote at `row`: the row begins anew.
    #[inline]
    pub(crate) fn begin(&mut self, row: usize) {
        if self.valid.len() > row {
            self.cut(row);
        }
    }

    fn cut(&mut self, rows: usize) {
        self.valid.truncate(rows);
        self.children.iter_mut().for_each(|child| child.cut(rows));
    }

    fn finish(&mut self, rows: usize) -> Result<ArrayRef, ArrowError> {
        let missing = rows.saturating_sub(self.valid.len());
        if missing > 0 {
            self.valid.append_n_nulls(missing);
        }
        let children = self.children.iter_mut().map(|child| child.finish(rows)).collect::<Result<Vec<_>, _>>()?;
        Ok(Arc::new(StructArray::try_new_with_length(self.fields.clone(), children, self.valid.finish(), rows)?))
    }
}

impl Column {
    /// An empty column. `Err` names a type that no format reads.
    pub(crate) fn new(data_type: &DataType, rows: usize) -> Result<Self, String> {
        Ok(match data_type {
            DataType::Boolean => Self::Boolean(Bits::with_capacity(rows)),
            DataType::Int8 => Self::Int8(Fixed::with_capacity(rows)),
            DataType::Int16 => Self::Int16(Fixed::with_capacity(rows)),
            DataType::Int32 => Self::Int32(Fixed::with_capacity(rows)),
            DataType::Int64 => Self::Int64(Fixed::with_capacity(rows)),
            DataType::Float32 => Self::Float32(Fixed::with_capacity(rows)),
            DataType::Float64 => Self::Float64(Fixed::with_capacity(rows)),
            &DataType::Decimal128(precision, scale) => Self::Decimal { values: Fixed::with_capacity(rows), precision, scale },
            DataType::Date32 => Self::Date(Fixed::with_capacity(rows)),
            &DataType::Time32(unit) => Self::Time { values: Fixed::with_capacity(rows), unit },
            DataType::Timestamp(unit, zone) => {
                Self::Timestamp { values: Fixed::with_capacity(rows), unit: *unit, zone: zone.clone() }
            }
            DataType::Utf8 => Self::Utf8(Bytes::with_capacity(rows)),
            DataType::Binary => Self::Binary(Bytes::with_capacity(rows)),
            DataType::List(field) => Self::List(Box::new(List {
                child: Self::new(field.data_type(), 0)?,
                field: Arc::clone(field),
                slots: Slots::with_capacity(rows),
            })),
            DataType::Map(entries, sorted) => Self::map(entries, *sorted, rows)?,
            DataType::Struct(fields) => Self::Struct(Box::new(Struct {
                children: fields.iter().map(|field| Self::new(field.data_type(), rows)).collect::<Result<_, _>>()?,
                fields: fields.clone(),
                valid: NullBufferBuilder::new(rows),
            })),
            other => return Err(format!("type {other} cannot be read from text")),
        })
    }

    fn map(entries: &FieldRef, sorted: bool, rows: usize) -> Result<Self, String> {
        let DataType::Struct(fields) = entries.data_type() else {
            return Err("entries of a MAP are not a ROW".to_owned());
        };
        let [key, value] = fields.as_ref() else {
            return Err("entries of a MAP are not pairs".to_owned());
        };
        if key.data_type() != &DataType::Utf8 {
            return Err(format!("keys of a MAP must be STRING, not {}", key.data_type()));
        }
        Ok(Self::Map(Box::new(Map {
            keys: Bytes::with_capacity(0),
            values: Self::new(value.data_type(), 0)?,
            entries: Arc::clone(entries),
            sorted,
            slots: Slots::with_capacity(rows),
            dead: Vec::new(),
        })))
    }

    /// Takes back every row from `rows` on.
    pub(crate) fn cut(&mut self, rows: usize) {
        match self {
            Self::Boolean(column) => column.cut(rows),
            Self::Int8(values) => values.cut(rows),
            Self::Int16(values) => values.cut(rows),
            Self::Int32(values) | Self::Date(values) | Self::Time { values, .. } => values.cut(rows),
            Self::Int64(values) | Self::Timestamp { values, .. } => values.cut(rows),
            Self::Float32(values) => values.cut(rows),
            Self::Float64(values) => values.cut(rows),
            Self::Decimal { values, .. } => values.cut(rows),
            Self::Utf8(bytes) | Self::Binary(bytes) => bytes.cut(rows),
            Self::List(list) => {
                if list.slots.len() > rows {
                    list.begin(rows);
                }
            }
            Self::Map(map) => {
                if map.slots.len() > rows {
                    map.begin(rows);
                }
            }
            Self::Struct(row) => row.cut(rows),
        }
    }

    /// The array of the first `rows` rows; the column is empty afterwards.
    pub(crate) fn finish(&mut self, rows: usize) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Self::Boolean(column) => Arc::new(column.finish(rows)),
            Self::Int8(values) => Arc::new(values.finish::<Int8Type>(rows)),
            Self::Int16(values) => Arc::new(values.finish::<Int16Type>(rows)),
            Self::Int32(values) => Arc::new(values.finish::<Int32Type>(rows)),
            Self::Int64(values) => Arc::new(values.finish::<Int64Type>(rows)),
            Self::Float32(values) => Arc::new(values.finish::<Float32Type>(rows)),
            Self::Float64(values) => Arc::new(values.finish::<Float64Type>(rows)),
            Self::Decimal { values, precision, scale } => {
                Arc::new(values.finish::<Decimal128Type>(rows).with_precision_and_scale(*precision, *scale)?)
            }
            Self::Date(values) => Arc::new(values.finish::<Date32Type>(rows)),
            Self::Time { values, unit: TimeUnit::Second } => Arc::new(values.finish::<Time32SecondType>(rows)),
            Self::Time { values, .. } => Arc::new(values.finish::<Time32MillisecondType>(rows)),
            Self::Timestamp { values, unit, zone } => match unit {
                TimeUnit::Second => zoned(values.finish::<TimestampSecondType>(rows), zone),
                TimeUnit::Millisecond => zoned(values.finish::<TimestampMillisecondType>(rows), zone),
                TimeUnit::Microsecond => zoned(values.finish::<TimestampMicrosecondType>(rows), zone),
                TimeUnit::Nanosecond => zoned(values.finish::<TimestampNanosecondType>(rows), zone),
            },
            Self::Utf8(bytes) => Arc::new(bytes.finish_text(rows)?),
            Self::Binary(bytes) => {
                let (offsets, data, valid) = bytes.parts(rows);
                Arc::new(BinaryArray::try_new(offsets, data, valid)?)
            }
            Self::List(list) => list.finish(rows)?,
            Self::Map(map) => map.finish(rows)?,
            Self::Struct(row) => row.finish(rows)?,
        })
    }
}

fn zoned<T: arrow::datatypes::ArrowTimestampType>(array: PrimitiveArray<T>, zone: &Option<Arc<str>>) -> ArrayRef {
    match zone {
        Some(zone) => Arc::new(array.with_timezone(Arc::clone(zone))),
        None => Arc::new(array),
    }
}

/// A timestamp in its column's unit, fractions cut off towards the past; `None` beyond the unit's range.
#[inline]
pub(crate) fn in_unit(seconds: i64, nanos: u32, unit: TimeUnit) -> Option<i64> {
    let (per_second, nanos_per_unit) = match unit {
        TimeUnit::Second => (1, 1_000_000_000),
        TimeUnit::Millisecond => (1_000, 1_000_000),
        TimeUnit::Microsecond => (1_000_000, 1_000),
        TimeUnit::Nanosecond => (1_000_000_000, 1),
    };
    seconds.checked_mul(per_second)?.checked_add(i64::from(nanos / nanos_per_unit))
}
