//! Columns of single values: numbers, booleans, byte strings.

use arrow::{
    array::{BooleanArray, BooleanBufferBuilder, NullBufferBuilder, PrimitiveArray, StringArray},
    buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer},
    datatypes::{ArrowNativeType, ArrowPrimitiveType},
    error::ArrowError,
};

/// Values of one width.
#[derive(Debug)]
pub(crate) struct Fixed<T> {
    values: Vec<T>,
    valid: NullBufferBuilder,
}

/// Booleans.
#[derive(Debug)]
pub(crate) struct Bits {
    values: BooleanBufferBuilder,
    valid: NullBufferBuilder,
}

/// Byte strings.
#[derive(Debug)]
pub(crate) struct Bytes {
    data: Vec<u8>,
    /// One more than there are rows.
    offsets: Vec<i32>,
    valid: NullBufferBuilder,
}

/// Decoders refuse larger batches up front, see `check_size`.
pub(super) fn offset(length: usize) -> i32 {
    i32::try_from(length).expect("decoders refuse batches that could grow beyond 32-bit offsets")
}

impl<T: ArrowNativeType> Fixed<T> {
    pub(super) fn with_capacity(rows: usize) -> Self {
        Self { values: Vec::with_capacity(rows), valid: NullBufferBuilder::new(rows) }
    }

    /// Writes a value at `row`, whatever was there before.
    #[inline]
    pub(crate) fn set(&mut self, row: usize, value: T) {
        if self.values.len() != row {
            self.reach(row);
        }
        self.values.push(value);
        self.valid.append_non_null();
    }

    #[cold]
    pub(super) fn reach(&mut self, row: usize) {
        if self.values.len() > row {
            self.values.truncate(row);
            self.valid.truncate(row);
        } else {
            self.valid.append_n_nulls(row - self.values.len());
            self.values.resize(row, T::default());
        }
    }

    pub(super) fn cut(&mut self, rows: usize) {
        if self.values.len() > rows {
            self.reach(rows);
        }
    }

    pub(super) fn finish<A: ArrowPrimitiveType<Native = T>>(&mut self, rows: usize) -> PrimitiveArray<A> {
        if self.values.len() != rows {
            self.reach(rows);
        }
        // The next batch will be about as large.
        let values = std::mem::replace(&mut self.values, Vec::with_capacity(rows));
        PrimitiveArray::new(ScalarBuffer::from(values), self.valid.finish())
    }
}

impl Bits {
    pub(super) fn with_capacity(rows: usize) -> Self {
        Self { values: BooleanBufferBuilder::new(rows), valid: NullBufferBuilder::new(rows) }
    }

    /// Writes a value at `row`, whatever was there before.
    #[inline]
    pub(crate) fn set(&mut self, row: usize, value: bool) {
        self.reach(row);
        self.values.append(value);
        self.valid.append_non_null();
    }

    pub(super) fn reach(&mut self, row: usize) {
        let length = self.values.len();
        if length > row {
            self.values.truncate(row);
            self.valid.truncate(row);
        } else if length < row {
            self.valid.append_n_nulls(row - length);
            self.values.append_n(row - length, false);
        }
    }

    pub(super) fn cut(&mut self, rows: usize) {
        if self.values.len() > rows {
            self.reach(rows);
        }
    }

    pub(super) fn finish(&mut self, rows: usize) -> BooleanArray {
        self.reach(rows);
        BooleanArray::new(self.values.finish(), self.valid.finish())
    }
}

impl Bytes {
    pub(super) fn with_capacity(rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self { data: Vec::new(), offsets, valid: NullBufferBuilder::new(rows) }
    }

    pub(super) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Writes a value at `row`, whatever was there before.
    #[inline]
    pub(crate) fn set(&mut self, row: usize, value: &[u8]) {
        self.begin(row).extend_from_slice(value);
        self.end();
    }

    /// The buffer to append the value of `row` to; [`Bytes::end`] ends it, [`Bytes::give_up`] takes it back.
    #[inline]
    pub(crate) fn begin(&mut self, row: usize) -> &mut Vec<u8> {
        if self.len() != row {
            self.reach(row);
        }
        &mut self.data
    }

    #[inline]
    pub(crate) fn end(&mut self) {
        self.offsets.push(offset(self.data.len()));
        self.valid.append_non_null();
    }

    pub(crate) fn give_up(&mut self) {
        self.data.truncate(self.last());
    }

    pub(super) fn last(&self) -> usize {
        self.offsets.last().map_or(0, |&end| end as usize)
    }

    pub(super) fn get(&self, row: usize) -> &[u8] {
        &self.data[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    #[cold]
    pub(super) fn reach(&mut self, row: usize) {
        let length = self.len();
        if length > row {
            self.offsets.truncate(row + 1);
            self.data.truncate(self.last());
            self.valid.truncate(row);
        } else {
            self.valid.append_n_nulls(row - length);
            self.offsets.resize(row + 1, offset(self.last()));
        }
    }

    pub(super) fn cut(&mut self, rows: usize) {
        if self.len() > rows {
            self.reach(rows);
        }
    }

    pub(super) fn parts(&mut self, rows: usize) -> (OffsetBuffer<i32>, Buffer, Option<NullBuffer>) {
        if self.len() != rows {
            self.reach(rows);
        }
        // The next batch will be about as large.
        let next = Self::with_capacity(rows).offsets;
        let offsets = std::mem::replace(&mut self.offsets, next);
        let room = self.data.len() + self.data.len() / 8;
        let data = std::mem::replace(&mut self.data, Vec::with_capacity(room));
        (OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(data), self.valid.finish())
    }

    pub(super) fn finish_text(&mut self, rows: usize) -> Result<StringArray, ArrowError> {
        let (offsets, data, valid) = self.parts(rows);
        StringArray::try_new(offsets, data, valid)
    }
}
