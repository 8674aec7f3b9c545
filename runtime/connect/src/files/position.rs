//! Where a file's reading stands, and how it is stored with a checkpoint.

use pelton_core::{
    records::Records,
    source::{RecordParts, SplitPosition},
    time::EventTime,
};

/// The place after the last record handed out. Stored as two little-endian 64-bit numbers: bytes, then lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LinePosition {
    /// Bytes done, counted after unpacking.
    pub(crate) byte: u64,
    /// Lines done.
    pub(crate) line: u64,
}

impl LinePosition {
    pub(crate) fn to_split(self) -> SplitPosition {
        SplitPosition([self.byte.to_le_bytes(), self.line.to_le_bytes()].concat())
    }

    pub(crate) fn from_split(position: &SplitPosition) -> Result<Self, String> {
        let (byte, line) = position.0.split_first_chunk::<8>().ok_or("a file's position is shorter than 16 bytes")?;
        let line: [u8; 8] = line.try_into().map_err(|_| "a file's position is not 16 bytes")?;
        Ok(Self { byte: u64::from_le_bytes(*byte), line: u64::from_le_bytes(line) })
    }
}

/// Fills the parts that somebody asked for of the record just pushed: lines have no key and no headers, and the file's
/// time for a timestamp.
pub(crate) fn fill_parts(parts: RecordParts, time: Option<EventTime>, into: &mut Records) {
    if parts.keys {
        into.keys.push(None);
    }
    if parts.headers {
        into.headers.finish_row();
    }
    if parts.timestamps {
        into.timestamps.push(time.unwrap_or(EventTime::from_millis(0)));
    }
}
