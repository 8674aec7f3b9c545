//! Questions to the brokers: which partitions there are, and which offset a place in one has.
//!
//! Every call may block for [`REQUEST_TIMEOUT`], so they are made by threads that have nothing else to do.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::{KafkaError, KafkaResult, RDKafkaErrorCode},
    types::RDKafkaRespErr,
};

use crate::{
    client::{Context, REQUEST_TIMEOUT, consumer_config},
    options::{Place, Topics},
};

/// A topic and a partition of it.
pub(crate) type TopicPartition = (String, i32);

/// A client that only asks.
pub(crate) struct Lookup {
    pub(crate) consumer: BaseConsumer<Context>,
}

/// An offset the group committed, with its metadata text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) offset: i64,
    pub(crate) metadata: String,
}

impl Lookup {
    pub(crate) fn new(what: &str, properties: &BTreeMap<String, String>, group: Option<&str>) -> KafkaResult<Self> {
        // It never joins the group, so that a member's settings would only disturb.
        let properties = properties.iter().filter(|(key, _)| !key.starts_with("group.")).map(|(key, value)| (key.clone(), value.clone())).collect();
        let config = consumer_config(&properties, group).map_err(KafkaError::ClientCreation)?;
        Ok(Self { consumer: config.create_with_context(Context::new(what, &properties))? })
    }

    /// The partitions of the topics, in order, and the topics that there are none of.
    pub(crate) fn partitions(&self, topics: &Topics) -> KafkaResult<(Vec<TopicPartition>, Vec<String>)> {
        let (mut found, mut missing) = (BTreeSet::new(), Vec::new());
        match topics {
            Topics::Names(names) => {
                for name in names {
                    match self.partitions_of(name)? {
                        0 => missing.push(name.clone()),
                        count => found.extend((0..count).map(|partition| (name.clone(), partition))),
                    }
                }
            }
            Topics::Pattern(pattern) => {
                let metadata = self.consumer.fetch_metadata(None, REQUEST_TIMEOUT)?;
                for topic in metadata.topics().iter().filter(|topic| topic.error().is_none() && pattern.is_match(topic.name())) {
                    found.extend(topic.partitions().iter().map(|partition| (topic.name().to_owned(), partition.id())));
                }
                if found.is_empty() {
                    missing.push(pattern.to_string());
                }
            }
        }
        self.consumer.context().outage.up();
        Ok((found.into_iter().collect(), missing))
    }

    /// How many partitions a topic has, 0 if there is no such topic.
    fn partitions_of(&self, topic: &str) -> KafkaResult<i32> {
        let metadata = self.consumer.fetch_metadata(Some(topic), REQUEST_TIMEOUT)?;
        let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else { return Ok(0) };
        match found.error() {
            None => Ok(i32::try_from(found.partitions().len()).unwrap_or(i32::MAX)),
            Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART | RDKafkaRespErr::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE) => Ok(0),
            Some(error) => Err(KafkaError::MetadataFetch(error.into())),
        }
    }

    /// The offset of a place in each partition; `None` where the group has none. A time after the last record is the end.
    pub(crate) fn offsets(&self, partitions: &[TopicPartition], place: &Place) -> KafkaResult<HashMap<TopicPartition, Option<i64>>> {
        match place {
            Place::Earliest => self.list(partitions, Offset::Beginning),
            Place::Latest => self.list(partitions, Offset::End),
            Place::Timestamp(ms) => {
                let mut found = self.list(partitions, Offset::Offset(*ms))?;
                let behind: Vec<_> = found.iter().filter(|(_, offset)| offset.is_none()).map(|(partition, _)| partition.clone()).collect();
                if !behind.is_empty() {
                    found.extend(self.list(&behind, Offset::End)?);
                }
                Ok(found)
            }
            Place::Group => Ok(self.committed(partitions)?.into_iter().map(|(partition, found)| (partition, found.map(|found| found.offset))).collect()),
            // As in Flink: where the list says nothing the group's offset, else the start.
            Place::Offsets(given) => {
                let rest: Vec<_> = partitions.iter().filter(|(_, partition)| !given.contains_key(partition)).cloned().collect();
                let mut found = if rest.is_empty() { HashMap::new() } else { self.list(&rest, Offset::Beginning)? };
                if self.consumer.group_metadata().is_some() {
                    let committed = self.committed(&rest)?;
                    found.extend(committed.into_iter().filter_map(|(partition, found)| Some((partition, Some(found?.offset)))));
                }
                let given = partitions.iter().filter_map(|partition| Some((partition.clone(), Some(*given.get(&partition.1)?))));
                found.extend(given);
                Ok(found)
            }
        }
    }

    /// Asks for the offsets at a time, or the first or the last, of all partitions in one request per broker.
    fn list(&self, partitions: &[TopicPartition], at: Offset) -> KafkaResult<HashMap<TopicPartition, Option<i64>>> {
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        for (topic, partition) in partitions {
            list.add_partition_offset(topic, *partition, at)?;
        }
        let list = self.consumer.offsets_for_times(list, REQUEST_TIMEOUT)?;
        let mut found = HashMap::new();
        for element in list.elements() {
            element.error()?;
            let offset = match element.offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            };
            found.insert((element.topic().to_owned(), element.partition()), offset);
        }
        Ok(found)
    }

    /// What the group has committed.
    pub(crate) fn committed(&self, partitions: &[TopicPartition]) -> KafkaResult<HashMap<TopicPartition, Option<Committed>>> {
        let mut found = HashMap::new();
        if partitions.is_empty() {
            return Ok(found);
        }
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        for (topic, partition) in partitions {
            list.add_partition(topic, *partition);
        }
        let list = self.consumer.committed_offsets(list, REQUEST_TIMEOUT)?;
        for element in list.elements() {
            let committed = match (element.error(), element.offset()) {
                (Ok(()), Offset::Offset(offset)) => Some(Committed { offset, metadata: element.metadata().trim_end_matches('\0').to_owned() }),
                (Ok(()), _) => None,
                // Nothing can be committed of a topic that is not there.
                (Err(error), _) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::UnknownTopicOrPartition) => None,
                (Err(error), _) => return Err(error),
            };
            found.insert((element.topic().to_owned(), element.partition()), committed);
        }
        Ok(found)
    }

    /// Whether the group has members besides the one of this instance id.
    pub(crate) fn has_other_members(&self, group: &str, instance: &str) -> KafkaResult<bool> {
        let list = self.consumer.fetch_group_list(Some(group), REQUEST_TIMEOUT)?;
        Ok(list.groups().iter().filter(|found| found.name() == group).any(|found| found.members().iter().any(|member| !member.id().starts_with(instance))))
    }
}
