//! Datagen: rows made up on the spot, as Flink's `datagen` connector does.
//!
//! Options per column are `fields.NAME.kind` (random or sequence), `min`, `max`, `start`, `end`, `length`, `var-len`,
//! `null-rate`, `max-past`; for a ROW `fields.NAME.FIELD.…`, for elements of an ARRAY `fields.NAME.element.…`, for a MAP
//! `fields.NAME.key.…` and `fields.NAME.value.…`. With `pelton.seed` row `n` is always the same, whatever the batch size
//! and however often the job is restarted; timestamps then count from 2020-01-01 instead of from now.
//! The records are JSON, decoded like any other ([`crate::implied_format`]). One split, read by worker 0, so that rows
//! come in order.

mod generate;

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use pelton_core::{
    error::{Result, RuntimeError},
    graph::TableSpec,
    options::{ConnectorInfo, OptionReader},
    position::{Epoch, Offset, Partition, SplitId},
    records::Records,
    source::{Polled, RecordParts, Source, SplitChange, SplitPosition},
    time::EventTime,
};
use rand::{SeedableRng, rngs::SmallRng};

use self::generate::Generator;
use crate::{files::fill_parts, optional};

/// See the module.
pub(crate) const INFO: ConnectorInfo = ConnectorInfo {
    name: "datagen",
    options: &[
        optional("rows-per-second", "10000", "How many rows come in a second."),
        optional("number-of-rows", "", "The source ends after so many rows; without it (and without a sequence) it never does."),
        optional("pelton.seed", "", "A number that makes the rows the same in every run."),
        optional("fields.*", "", "How a column is made up: `fields.NAME.kind` and so on."),
        optional("scan.parallelism", "", "Accepted for Flink scripts; the job's parallelism holds."),
    ],
    readable_metadata: &[("offset", "BIGINT NOT NULL")],
    writable_metadata: &[],
    is_source: true,
    is_sink: false,
    needs_format: false,
};

/// 2020-01-01 00:00:00 UTC, where seeded timestamps begin.
const SEEDED_BASE_MS: i64 = 1_577_836_800_000;
/// Most bytes made in one poll.
const POLL_BYTES_MAX: usize = 8 << 20;

/// See the module.
pub(crate) struct DatagenSource {
    // Fixed at start.
    split: SplitId,
    is_mine: bool,
    parts: RecordParts,
    generator: Generator,
    /// Number of rows after which it ends.
    rows: Option<u64>,
    rows_per_second: u64,
    seed: Option<u64>,
    /// Differs from run to run when there is no seed.
    run_seed: u64,
    // Changing.
    announced: bool,
    next: u64,
    /// When the first row was polled, and which row that was: what the rate is measured from.
    started: Option<(Instant, u64)>,
}

impl DatagenSource {
    pub(crate) fn new(table: &TableSpec, parts: RecordParts, worker: usize, _workers: usize) -> Result<Self, String> {
        let options = OptionReader(&table.options);
        let generator = Generator::row(table)?;
        let positive = |key: &str| match options.number(key)? {
            None => Ok(None),
            Some(number) => match u64::try_from(number) {
                Ok(number) if number > 0 => Ok(Some(number)),
                _ => Err(format!("option '{key}': `{number}` is not greater than 0")),
            },
        };
        let limit = match (positive("number-of-rows")?, generator.length()) {
            (Some(rows), Some(length)) => Some(rows.min(length)),
            (rows, length) => rows.or(length),
        };
        let seed = options.number("pelton.seed")?.map(i64::cast_unsigned);
        Ok(Self {
            split: SplitId(Arc::from("datagen")),
            is_mine: worker == 0,
            parts,
            generator,
            rows: limit,
            rows_per_second: positive("rows-per-second")?.unwrap_or(10_000),
            seed,
            run_seed: seed.unwrap_or_else(rand::random),
            announced: false,
            next: 0,
            started: None,
        })
    }

    fn is_done(&self) -> bool {
        self.rows.is_some_and(|rows| self.next >= rows)
    }

    /// How many rows the rate allows now.
    fn allowed(&mut self) -> u64 {
        let (since, first) = *self.started.get_or_insert_with(|| (Instant::now(), self.next));
        let passed = since.elapsed().as_nanos() * u128::from(self.rows_per_second) / 1_000_000_000;
        let due = first.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX)).saturating_add(1);
        due.saturating_sub(self.next)
    }

    /// The time that row `row` is made at.
    fn time_ms(&self, row: u64) -> i64 {
        if self.seed.is_some() {
            let passed = u128::from(row) * 1_000 / u128::from(self.rows_per_second);
            return SEEDED_BASE_MS.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
    }
}

impl Source for DatagenSource {
    fn restore(&mut self, positions: &[(SplitId, SplitPosition)]) -> Result<()> {
        if let Some((_, position)) = positions.iter().find(|(split, _)| *split == self.split) {
            let bytes: [u8; 8] = position.0.as_slice().try_into().map_err(|_| RuntimeError::Recovery("datagen's position is not 8 bytes".to_owned()))?;
            self.next = u64::from_le_bytes(bytes);
        }
        Ok(())
    }

    fn changes(&mut self) -> Result<Vec<SplitChange>> {
        let is_new = self.is_mine && !std::mem::replace(&mut self.announced, true);
        Ok(if is_new { vec![SplitChange::Added(self.split.clone())] } else { Vec::new() })
    }

    fn poll(&mut self, _split: &SplitId, max_rows: usize, into: &mut Records) -> Result<Polled> {
        into.topic = Arc::clone(&self.split.0);
        into.partition = Partition(0);
        if self.is_done() {
            return Ok(Polled::End);
        }
        let allowed = self.allowed();
        let left = self.rows.map_or(u64::MAX, |rows| rows - self.next);
        let count = allowed.min(left).min(max_rows as u64);
        for row in self.next..self.next + count {
            let time_ms = self.time_ms(row);
            // Each row has a generator of its own, so that it is the same wherever a batch or a restart begins.
            let mut random = SmallRng::seed_from_u64(self.run_seed ^ (row + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            self.generator.json(row, time_ms, &mut random, into.values.buffer());
            into.values.finish_row(false);
            into.offsets.push(Offset(i64::try_from(row).unwrap_or(i64::MAX)));
            fill_parts(self.parts, Some(EventTime::from_millis(time_ms)), into);
            self.next = row + 1;
            if into.values.byte_len() > POLL_BYTES_MAX {
                break;
            }
        }
        Ok(if into.is_empty() { Polled::Pending } else { Polled::Records })
    }

    fn wait(&mut self, timeout: Duration) {
        let one_row = Duration::from_nanos((1_000_000_000 / self.rows_per_second).max(1_000_000));
        thread::sleep(if self.is_mine && !self.is_done() { one_row.min(timeout) } else { timeout });
    }

    fn positions(&mut self) -> Result<Vec<(SplitId, SplitPosition)>> {
        let position = SplitPosition(self.next.to_le_bytes().to_vec());
        Ok(if self.is_mine { vec![(self.split.clone(), position)] } else { Vec::new() })
    }

    fn committed(&mut self, _epoch: Epoch, _positions: &[(SplitId, SplitPosition)]) -> Result<()> {
        Ok(())
    }

    fn is_bounded(&self) -> bool {
        self.rows.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

    use super::*;

    fn table(options: &[(&str, &str)]) -> TableSpec {
        let columns = vec![
            Field::new("id", DataType::Int64, true),
            Field::new("name", DataType::Utf8, true),
            Field::new("amount", DataType::Decimal128(6, 2), true),
            Field::new("tags", DataType::List(Arc::new(Field::new("item", DataType::Int32, true))), true),
            Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        ];
        TableSpec {
            name: "g".to_owned(),
            options: options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>(),
            physical: Arc::new(Schema::new(columns)),
            primary_key: Vec::new(),
            partition_by: Vec::new(),
            line: 1,
        }
    }

    const SEEDED: &[(&str, &str)] = &[
        ("pelton.seed", "7"),
        ("rows-per-second", "1000000000"),
        ("number-of-rows", "5"),
        ("fields.id.kind", "sequence"),
        ("fields.id.start", "10"),
        ("fields.id.end", "99"),
        ("fields.name.length", "3"),
        ("fields.amount.min", "1"),
        ("fields.amount.max", "2"),
        ("fields.tags.length", "2"),
        ("fields.tags.element.min", "0"),
        ("fields.tags.element.max", "1"),
    ];

    fn rows(source: &mut DatagenSource, max_rows: usize) -> Vec<String> {
        let mut found = Vec::new();
        for split in [SplitId(Arc::from("datagen"))] {
            loop {
                let mut records = Records::default();
                match source.poll(&split, max_rows, &mut records).expect("poll") {
                    Polled::End => break,
                    _ => found.extend(records.values.iter().map(|value| String::from_utf8_lossy(value.unwrap_or_default()).into_owned())),
                }
            }
        }
        found
    }

    #[test]
    fn seeded_rows_are_the_same_whatever_the_batch_size_and_after_a_restart() {
        let make = || DatagenSource::new(&table(SEEDED), RecordParts::default(), 0, 1).expect("source");
        let all = rows(&mut make(), 100);
        assert_eq!(all.len(), 5);
        assert!(all[0].starts_with("{\"id\":10,"), "{}", all[0]);
        assert!(all[4].starts_with("{\"id\":14,"), "{}", all[4]);
        assert!(all[0].contains("\"ts\":\"2020-01-01 00:00:00"), "{}", all[0]);
        assert_eq!(rows(&mut make(), 1), all);
        let mut first = make();
        first.poll(&SplitId(Arc::from("datagen")), 2, &mut Records::default()).expect("poll");
        let mut second = make();
        second.restore(&first.positions().expect("positions")).expect("restore");
        let done = usize::try_from(second.next).expect("few rows");
        assert!(done > 0);
        assert_eq!(rows(&mut second, 100), all[done..]);
    }

    #[test]
    fn refuses_options_of_unknown_columns_and_kinds() {
        for (option, expected) in [
            (("fields.nope.kind", "random"), "option 'fields.nope.kind': there is no column of that name"),
            (("fields.id.mn", "1"), "option 'fields.id.mn': there is no field option 'mn'"),
            (("fields.id.kind", "magic"), "option 'fields.id.kind': `magic` is not one of random, sequence"),
            (("fields.id.min", "x"), "option 'fields.id.min': `x` is no whole number"),
            (("rows-per-second", "0"), "option 'rows-per-second': `0` is not greater than 0"),
        ] {
            let reason = DatagenSource::new(&table(&[option]), RecordParts::default(), 0, 1).err();
            assert_eq!(reason.as_deref(), Some(expected));
        }
    }

    #[test]
    fn without_an_end_it_is_unbounded() {
        let source = DatagenSource::new(&table(&[]), RecordParts::default(), 0, 1).expect("source");
        assert!(!source.is_bounded());
    }
}
