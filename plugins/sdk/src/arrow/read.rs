//! Reads a record batch message whose columns' types are known.

use super::{Type, flat::Table};

/// Columns of a batch, borrowed from its message.
pub struct Batch<'a> {
    rows: usize,
    columns: Vec<Raw<'a>>,
}

struct Raw<'a> {
    /// Empty if nothing is null.
    validity: &'a [u8],
    /// Ends of strings, empty for others.
    offsets: &'a [u8],
    data: &'a [u8],
}

/// The flatbuffer of a record batch's header.
const RECORD_BATCH: u8 = 3;

/// Reads the message; `types` are the signature's. Lists and structs are not read.
pub fn read_batch<'a>(message: &'a [u8], types: &[Type]) -> Result<Batch<'a>, String> {
    read(message, types).ok_or_else(|| "the record batch message is damaged or of other types".to_owned())
}

fn read<'a>(message: &'a [u8], types: &[Type]) -> Option<Batch<'a>> {
    let (prefix, rest) = message.split_first_chunk::<8>()?;
    if prefix[..4] != [0xff; 4] {
        return None;
    }
    let length = u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]) as usize;
    let (metadata, body) = rest.split_at_checked(length)?;
    let root = Table::root(metadata)?;
    if root.u8(1)? != RECORD_BATCH {
        return None;
    }
    let header = root.table(2)?;
    let rows = usize::try_from(header.i64(0).unwrap_or(0)).ok()?;
    let nodes = header.pairs(1)?;
    let mut buffers = header.pairs(2)?.into_iter();
    let mut next = || {
        let (offset, length) = buffers.next()?;
        let offset = usize::try_from(offset).ok()?;
        body.get(offset..offset.checked_add(usize::try_from(length).ok()?)?)
    };
    let mut columns = Vec::with_capacity(types.len());
    for (index, data_type) in types.iter().enumerate() {
        let (column_rows, nulls) = *nodes.get(index)?;
        if usize::try_from(column_rows) != Ok(rows) {
            return None;
        }
        let validity = next()?;
        let validity = if nulls == 0 { &[][..] } else { validity };
        let (offsets, data, needed) = match data_type {
            Type::Boolean => (&[][..], next()?, rows.div_ceil(8)),
            Type::Int32 => (&[][..], next()?, rows.checked_mul(4)?),
            Type::Int64 | Type::Float64 => (&[][..], next()?, rows.checked_mul(8)?),
            Type::Utf8 | Type::Binary => {
                let offsets = next()?;
                if rows > 0 && offsets.len() < (rows + 1).checked_mul(4)? {
                    return None;
                }
                (offsets, next()?, 0)
            }
            Type::List(_) | Type::Struct(_) => return None,
        };
        if data.len() < needed || (!validity.is_empty() && validity.len() < rows.div_ceil(8)) {
            return None;
        }
        columns.push(Raw { validity, offsets, data });
    }
    Some(Batch { rows, columns })
}

fn bit(bytes: &[u8], row: usize) -> bool {
    bytes.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1)
}

impl Raw<'_> {
    fn is_null(&self, row: usize) -> bool {
        !self.validity.is_empty() && !bit(self.validity, row)
    }

    fn word<const N: usize>(&self, row: usize) -> Option<[u8; N]> {
        if self.is_null(row) { None } else { self.data.get(row * N..)?.first_chunk::<N>().copied() }
    }
}

impl<'a> Batch<'a> {
    /// How many rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// A value of a Boolean column, `None` for null (or a wrong column).
    pub fn boolean(&self, column: usize, row: usize) -> Option<bool> {
        let raw = self.columns.get(column)?;
        if raw.is_null(row) { None } else { Some(bit(raw.data, row)) }
    }

    /// A value of an Int32 column.
    pub fn int32(&self, column: usize, row: usize) -> Option<i32> {
        self.columns.get(column)?.word(row).map(i32::from_le_bytes)
    }

    /// A value of an Int64 column.
    pub fn int64(&self, column: usize, row: usize) -> Option<i64> {
        self.columns.get(column)?.word(row).map(i64::from_le_bytes)
    }

    /// A value of a Float64 column.
    pub fn float64(&self, column: usize, row: usize) -> Option<f64> {
        self.columns.get(column)?.word(row).map(f64::from_le_bytes)
    }

    /// A value of a Binary or Utf8 column.
    pub fn binary(&self, column: usize, row: usize) -> Option<&'a [u8]> {
        let raw = self.columns.get(column)?;
        if raw.is_null(row) {
            return None;
        }
        let end_of = |i: usize| Some(u32::from_le_bytes(*raw.offsets.get(i * 4..)?.first_chunk::<4>()?) as usize);
        raw.data.get(end_of(row)?..end_of(row + 1)?)
    }

    /// A value of a Utf8 column.
    pub fn text(&self, column: usize, row: usize) -> Option<&'a str> {
        std::str::from_utf8(self.binary(column, row)?).ok()
    }
}
