//! Names of splits and positions in them, as checkpoints store them.
//!
//! A split is `topic/partition`. A position is `K · version · resume offset · end offset · group`, numbers 8 bytes big
//! endian, end −1 for an unbounded table. The group is there only if a transaction of the job carries the offset, so
//! that the coordinator needs to know nothing but positions. Read back by every later version; the version byte tells.

use pelton_core::{
    position::{Partition, ResumeOffset, SplitId},
    source::SplitPosition,
};

const MAGIC: [u8; 2] = [b'K', 1];

/// Where a partition stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaPosition {
    /// The first record not handed out.
    pub resume: ResumeOffset,
    /// The first record not to be read, for a bounded table.
    pub end: Option<ResumeOffset>,
    /// The group whose offset a transaction commits.
    pub group: Option<String>,
}

impl KafkaPosition {
    /// As stored.
    pub fn encode(&self) -> SplitPosition {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&self.resume.0.to_be_bytes());
        bytes.extend_from_slice(&self.end.map_or(-1, |end| end.0).to_be_bytes());
        bytes.extend_from_slice(self.group.as_deref().unwrap_or_default().as_bytes());
        SplitPosition(bytes)
    }

    /// Reads a stored position; `None` if it is not Kafka's.
    pub fn decode(position: &SplitPosition) -> Option<Self> {
        let (magic, rest) = position.0.split_first_chunk::<2>()?;
        let (resume, rest) = rest.split_first_chunk::<8>()?;
        let (end, group) = rest.split_first_chunk::<8>()?;
        let (resume, end) = (i64::from_be_bytes(*resume), i64::from_be_bytes(*end));
        let group = std::str::from_utf8(group).ok()?;
        (*magic == MAGIC && resume >= 0).then(|| Self {
            resume: ResumeOffset(resume),
            end: (end >= 0).then_some(ResumeOffset(end)),
            group: (!group.is_empty()).then(|| group.to_owned()),
        })
    }
}

/// The split of a partition.
pub fn split_id(topic: &str, partition: Partition) -> SplitId {
    SplitId(format!("{topic}/{}", partition.0).into())
}

/// The partition of a split.
pub fn partition_of(split: &SplitId) -> Option<(&str, Partition)> {
    let (topic, partition) = split.0.rsplit_once('/')?;
    Some((topic, Partition(partition.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_read_back_and_those_of_other_sources_are_told_apart() {
        for (end, group) in [(None, None), (Some(ResumeOffset(0)), Some("g".to_owned())), (Some(ResumeOffset(9)), None)] {
            let position = KafkaPosition { resume: ResumeOffset(7), end, group };
            assert_eq!(KafkaPosition::decode(&position.encode()), Some(position));
        }
        for other in [&b""[..], b"K\x01", b"12345678", b"12345678901234567890"] {
            assert_eq!(KafkaPosition::decode(&SplitPosition(other.to_vec())), None);
        }
        assert_eq!(partition_of(&split_id("a.b", Partition(3))), Some(("a.b", Partition(3))));
    }
}
