//! Flatbuffers, as much as Arrow's messages need: tables are written before what they refer to, so every reference
//! points forward.

/// A field of a table being written.
pub(super) enum Slot {
    Absent,
    U8(u8),
    I16(i16),
    I32(i32),
    I64(i64),
    /// Filled in later; [`Writer::table`] tells where.
    Reference,
}

pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
}

impl Writer {
    /// Begins with a reference to the root table, at 0.
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; 4] }
    }

    pub(super) fn align(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    /// Writes a table and points `reference` at it. Gives the places of its references, in slot order.
    pub(super) fn table(&mut self, reference: usize, slots: &[Slot]) -> Vec<usize> {
        // Where each field lies behind the table's start, which is a multiple of 8.
        let mut offsets = Vec::with_capacity(slots.len());
        let mut end = 4_usize;
        for slot in slots {
            let size = match slot {
                Slot::Absent => {
                    offsets.push(0);
                    continue;
                }
                Slot::U8(_) => 1,
                Slot::I16(_) => 2,
                Slot::I32(_) | Slot::Reference => 4,
                Slot::I64(_) => 8,
            };
            end = end.next_multiple_of(size);
            offsets.push(end);
            end += size;
        }
        // The vtable, so placed that the table behind it begins at a multiple of 8.
        let vtable_size = 4 + 2 * slots.len();
        self.align(2);
        while !(self.bytes.len() + vtable_size).is_multiple_of(8) {
            self.bytes.push(0);
        }
        let vtable = self.bytes.len();
        self.bytes.extend_from_slice(&(vtable_size as u16).to_le_bytes());
        self.bytes.extend_from_slice(&(end as u16).to_le_bytes());
        for offset in &offsets {
            self.bytes.extend_from_slice(&(*offset as u16).to_le_bytes());
        }
        let start = self.bytes.len();
        self.point(reference, start);
        self.bytes.extend_from_slice(&((start - vtable) as i32).to_le_bytes());
        self.bytes.resize(start + end, 0);
        let mut references = Vec::new();
        for (slot, offset) in slots.iter().zip(offsets) {
            let at = start + offset;
            match slot {
                Slot::Absent => {}
                Slot::U8(value) => self.bytes[at] = *value,
                Slot::I16(value) => self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes()),
                Slot::I32(value) => self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes()),
                Slot::I64(value) => self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes()),
                Slot::Reference => references.push(at),
            }
        }
        references
    }

    /// Writes a vector of references and points `reference` at it. Gives the places of its items.
    pub(super) fn references(&mut self, reference: usize, count: usize) -> Vec<usize> {
        self.align(4);
        let start = self.bytes.len();
        self.point(reference, start);
        self.bytes.extend_from_slice(&(count as u32).to_le_bytes());
        self.bytes.resize(start + 4 + 4 * count, 0);
        (0..count).map(|i| start + 4 + 4 * i).collect()
    }

    /// Writes a vector of pairs of 64-bit numbers (Arrow's field nodes and buffers).
    pub(super) fn pairs(&mut self, reference: usize, pairs: &[(i64, i64)]) {
        self.align(8);
        self.bytes.extend_from_slice(&[0; 4]);
        let start = self.bytes.len();
        self.point(reference, start);
        self.bytes.extend_from_slice(&(pairs.len() as u32).to_le_bytes());
        for (a, b) in pairs {
            self.bytes.extend_from_slice(&a.to_le_bytes());
            self.bytes.extend_from_slice(&b.to_le_bytes());
        }
    }

    pub(super) fn string(&mut self, reference: usize, text: &str) {
        self.align(4);
        let start = self.bytes.len();
        self.point(reference, start);
        self.bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
    }

    fn point(&mut self, reference: usize, target: usize) {
        self.bytes[reference..reference + 4].copy_from_slice(&((target - reference) as u32).to_le_bytes());
    }
}

/// A table being read.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

impl<'a> Table<'a> {
    pub(super) fn root(bytes: &'a [u8]) -> Option<Self> {
        Some(Self { bytes, at: u32::from_le_bytes(number(bytes, 0)?) as usize })
    }

    /// Where a field lies, `None` if it is absent.
    fn field(&self, slot: usize) -> Option<usize> {
        let back = i32::from_le_bytes(number(self.bytes, self.at)?);
        let vtable = usize::try_from(self.at as i64 - i64::from(back)).ok()?;
        let size = u16::from_le_bytes(number(self.bytes, vtable)?) as usize;
        let entry = 4 + 2 * slot;
        if entry + 2 > size {
            return None;
        }
        match u16::from_le_bytes(number(self.bytes, vtable + entry)?) {
            0 => None,
            offset => Some(self.at + offset as usize),
        }
    }

    pub(super) fn u8(&self, slot: usize) -> Option<u8> {
        self.bytes.get(self.field(slot)?).copied()
    }

    pub(super) fn i64(&self, slot: usize) -> Option<i64> {
        number(self.bytes, self.field(slot)?).map(i64::from_le_bytes)
    }

    fn target(&self, slot: usize) -> Option<usize> {
        let at = self.field(slot)?;
        at.checked_add(u32::from_le_bytes(number(self.bytes, at)?) as usize)
    }

    pub(super) fn table(&self, slot: usize) -> Option<Table<'a>> {
        Some(Self { bytes: self.bytes, at: self.target(slot)? })
    }

    pub(super) fn pairs(&self, slot: usize) -> Option<Vec<(i64, i64)>> {
        let at = self.target(slot)?;
        let count = u32::from_le_bytes(number(self.bytes, at)?) as usize;
        let items = self.bytes.get(at + 4..(at + 4).checked_add(count.checked_mul(16)?)?)?;
        let half = |item: &[u8]| item.first_chunk::<8>().map_or(0, |bytes| i64::from_le_bytes(*bytes));
        Some(items.chunks_exact(16).map(|item| (half(item), half(&item[8..]))).collect())
    }
}
