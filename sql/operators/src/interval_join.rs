//! Interval join: rows of two streams with equal keys whose times are near.
//!
//! `lower <= right time - left time <= upper`. Promises: each pair comes once, as soon as its second row is there; a row
//! of a kept side that finds no partner comes once, padded with nulls, when the watermark says that none can come. Rows
//! at or before the watermark are late. The watermark that goes on is held back so that rows set free later are in time.
//!
//! A left row waits until the watermark reaches its time + upper, a right row until its time − lower: then no partner
//! in time can come. Waiting rows stand in memory by key, and in state (`rows`).

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, RecordBatch, UInt32Array},
    datatypes::SchemaRef,
};
use hashbrown::HashSet;
use pelton_core::{
    error::Result,
    key_group::KeyGroup,
    operator::{Collector, Operator, OperatorContext, OperatorFactory},
    position::Epoch,
    state::StateKind,
    time::{EventTime, Watermark},
};

use crate::{
    expressions::{Expression, conform, internal, take_rows},
    join_output::{JoinKey, JoinKind, key_columns, masked, padded, pairs},
    keys::KeyTable,
    rows::{Batches, Place, RowCodec, delete_before, groups_of, stored, suffix},
    window_assign::times_of,
};

/// Joins rows whose times are near.
#[derive(Debug, Clone)]
pub struct IntervalJoin {
    /// Which rows survive alone; not semi or anti.
    pub kind: JoinKind,
    /// Equalities. The exchanges in front go by the same.
    pub keys: Vec<JoinKey>,
    /// The left time attribute.
    pub left_time: usize,
    /// The right one.
    pub right_time: usize,
    /// Least right time − left time, in ms.
    pub lower_ms: i64,
    /// Greatest right time − left time, in ms.
    pub upper_ms: i64,
    /// A condition over left and right columns together.
    pub residual: Option<Expression>,
    /// Left columns.
    pub left: SchemaRef,
    /// Right columns.
    pub right: SchemaRef,
    /// Columns it emits: left, then right.
    pub schema: SchemaRef,
}

impl OperatorFactory for IntervalJoin {
    fn create(&self, _worker: usize, _workers: usize) -> Result<Box<dyn Operator>> {
        let key_types: Vec<_> = self.keys.iter().map(|key| self.left.field(key.left).data_type().clone()).collect();
        Ok(Box::new(Joiner {
            keys: KeyTable::new(&key_types)?,
            key_types,
            codecs: [RowCodec::new(&self.left)?, RowCodec::new(&self.right)?],
            step: self.clone(),
            sides: Default::default(),
            holders: Vec::new(),
            watermark: Watermark::MIN,
            number: 0,
            stored_groups: HashSet::new(),
            evicted: [i64::MIN; 2],
            deleted: [i64::MIN; 2],
        }))
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// A row that waits.
#[derive(Debug, Clone)]
struct Row {
    time: i64,
    place: Place,
    matched: bool,
    /// Where it stands in state, once it does.
    stored: Option<(KeyGroup, Epoch, u32)>,
    /// Matched since it was stored: must be written again.
    is_dirty: bool,
}

/// One side's rows.
#[derive(Default)]
struct Side {
    batches: Batches,
    /// By key id.
    rows: Vec<Vec<Row>>,
    /// Keys of rows by time: what to look at when the watermark moves.
    by_time: BTreeMap<i64, Vec<u32>>,
    /// Keys with rows that are not in state as they are now.
    changed: HashSet<u32>,
}

struct Joiner {
    step: IntervalJoin,
    key_types: Vec<arrow::datatypes::DataType>,
    keys: KeyTable,
    codecs: [RowCodec; 2],
    sides: [Side; 2],
    /// By key id: how many rows of both sides hold it.
    holders: Vec<u32>,
    watermark: Watermark,
    number: u32,
    stored_groups: HashSet<u16>,
    /// Rows of a side before this time are gone from memory, and from state.
    evicted: [i64; 2],
    deleted: [i64; 2],
}

const WATERMARK: &[u8] = b"watermark";
const CHUNK: usize = 8192;

impl Operator for Joiner {
    fn open(&mut self, context: &mut OperatorContext<'_>) -> Result<()> {
        for group in context.state.groups() {
            if let Some(value) = context.state.get(StateKind::Timers, KeyGroup(group), WATERMARK)?
                && let Some((millis, _)) = value.split_first_chunk::<8>()
            {
                self.watermark = self.watermark.max(Watermark::at(EventTime::from_millis(i64::from_be_bytes(*millis))));
            }
        }
        let mut rows: [Vec<(Vec<u8>, KeyGroup, Vec<u8>)>; 2] = Default::default();
        let groups = &mut self.stored_groups;
        stored(context.state, |row| {
            groups.insert(row.group.0);
            rows[usize::from(row.side.min(1))].push((row.value, row.group, row.suffix));
            Ok(())
        })?;
        for side in 0..2 {
            for chunk in std::mem::take(&mut rows[side]).chunks(CHUNK) {
                self.restore(side, chunk)?;
            }
        }
        Ok(())
    }

    fn process(&mut self, port: usize, batch: RecordBatch, context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<()> {
        let time = if port == 0 { self.step.left_time } else { self.step.right_time };
        let times = times_of(batch.column(time))?;
        let (late, batch) = self.split_late(&batch, &times)?;
        context.late.extend(late);
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let times = times_of(batch.column(time))?.values().to_vec();
        let (columns, joinable) = key_columns(&batch, &self.step.keys, port);
        let ids = self.ids(columns, batch.num_rows())?;
        let matched = self.probe(port, &batch, &times, &ids, &joinable, out)?;
        self.keep(port, &batch, &times, &ids, &joinable, &matched, out)
    }

    fn watermark(&mut self, watermark: Watermark, _context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<()> {
        self.watermark = self.watermark.max(watermark);
        for side in 0..2 {
            self.evict(side, out)?;
        }
        if watermark == Watermark::MAX {
            return out.watermark(watermark);
        }
        let held = self.step.upper_ms.max(self.step.lower_ms.saturating_neg()).max(0);
        out.watermark(Watermark::at(EventTime::from_millis(watermark.time().as_millis().saturating_sub(held))))
    }

    fn barrier(&mut self, epoch: Epoch, context: &mut OperatorContext<'_>, _out: &mut dyn Collector) -> Result<()> {
        for side in 0..2 {
            if self.evicted[side] > self.deleted[side] {
                for &group in &self.stored_groups {
                    delete_before(context.state, KeyGroup(group), side as u8, self.evicted[side]);
                }
                self.deleted[side] = self.evicted[side];
            }
            self.store(side, epoch, context)?;
        }
        let millis = self.watermark.time().as_millis().to_be_bytes().to_vec();
        for group in context.state.groups() {
            context.state.put(StateKind::Timers, KeyGroup(group), WATERMARK, millis.clone());
        }
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        let rows = |side: &Side| side.batches.memory_bytes() + side.rows.iter().map(|rows| rows.capacity() * size_of::<Row>() + 24).sum::<usize>();
        rows(&self.sides[0]) + rows(&self.sides[1]) + self.keys.memory_bytes()
    }
}

impl Joiner {
    fn ids(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<Vec<u32>> {
        let columns = columns.into_iter().zip(&self.key_types).map(|(column, wanted)| conform(column, wanted)).collect::<Result<Vec<_>, _>>().map_err(|error| internal("join", &error))?;
        let mut ids = Vec::new();
        self.keys.ids(&columns, rows, &mut ids)?;
        let room = self.keys.capacity();
        if self.holders.len() < room {
            self.holders.resize(room, 0);
            self.sides.iter_mut().for_each(|side| side.rows.resize_with(room, Vec::new));
        }
        // Held while the batch is worked on, so that no id is given to another key meanwhile.
        ids.iter().for_each(|&id| self.holders[id as usize] += 1);
        Ok(ids)
    }

    fn let_go(&mut self, id: u32) {
        self.holders[id as usize] -= 1;
        if self.holders[id as usize] == 0 {
            self.keys.release(id);
        }
    }

    fn split_late(&self, batch: &RecordBatch, times: &arrow::array::TimestampMillisecondArray) -> Result<(Option<RecordBatch>, RecordBatch)> {
        let in_time = |row: usize| times.is_valid(row) && !self.watermark.is_past(EventTime::from_millis(times.value(row)));
        if self.watermark == Watermark::MIN && times.null_count() == 0 || (0..times.len()).all(in_time) {
            return Ok((None, batch.clone()));
        }
        let (kept, late): (Vec<u32>, Vec<u32>) = (0..times.len() as u32).partition(|&row| in_time(row as usize));
        Ok((Some(take_rows(batch, &UInt32Array::from(late))?), take_rows(batch, &UInt32Array::from(kept))?))
    }

    /// Times of the other side that a row of `side` at `time` meets.
    fn range(&self, side: usize, time: i64) -> (i64, i64) {
        let (lower, upper) = (self.step.lower_ms, self.step.upper_ms);
        if side == 0 { (time.saturating_add(lower), time.saturating_add(upper)) } else { (time.saturating_sub(upper), time.saturating_sub(lower)) }
    }

    /// Emits pairs of new rows with waiting ones. Whether each new row found a partner.
    fn probe(&mut self, side: usize, batch: &RecordBatch, times: &[i64], ids: &[u32], joinable: &[bool], out: &mut dyn Collector) -> Result<Vec<bool>> {
        let other = 1 - side;
        let mut matched = vec![false; ids.len()];
        // New row, key, index among the key's waiting rows.
        let mut found: Vec<(u32, u32, u32)> = Vec::new();
        for row in (0..ids.len()).filter(|&row| joinable[row]) {
            let (from, to) = self.range(side, times[row]);
            let waiting = &self.sides[other].rows[ids[row] as usize];
            found.extend(waiting.iter().enumerate().filter(|(_, w)| from <= w.time && w.time <= to).map(|(index, _)| (row as u32, ids[row], index as u32)));
        }
        for chunk in found.chunks(CHUNK) {
            let new_rows = take_rows(batch, &chunk.iter().map(|(row, ..)| *row).collect())?;
            let places: Vec<Place> = chunk.iter().map(|(_, id, index)| self.sides[other].rows[*id as usize][*index as usize].place).collect();
            let other_schema = if other == 0 { &self.step.left } else { &self.step.right };
            let waiting = self.sides[other].batches.gather(&places, other_schema)?;
            let (left, right) = if side == 0 { (&new_rows, &waiting) } else { (&waiting, &new_rows) };
            let (pairs, mask) = pairs(left, right, self.step.residual.as_ref(), &self.step.schema)?;
            for (index, (row, id, waiting)) in chunk.iter().enumerate() {
                if mask.as_ref().is_none_or(|mask| mask.is_valid(index) && mask.value(index)) {
                    matched[*row as usize] = true;
                    let keeps = self.step.kind.keeps(other);
                    let side = &mut self.sides[other];
                    let partner = &mut side.rows[*id as usize][*waiting as usize];
                    if !std::mem::replace(&mut partner.matched, true) && keeps {
                        partner.is_dirty = partner.stored.is_some();
                        side.changed.insert(*id);
                    }
                }
            }
            let rows = masked(&pairs, mask.as_ref())?;
            if rows.num_rows() > 0 {
                out.batch(rows)?;
            }
        }
        Ok(matched)
    }

    /// Lets rows wait that may still find partners; the others of a kept side are emitted alone.
    #[expect(clippy::too_many_arguments, reason = "columns of the same rows, side by side")]
    fn keep(&mut self, side: usize, batch: &RecordBatch, times: &[i64], ids: &[u32], joinable: &[bool], matched: &[bool], out: &mut dyn Collector) -> Result<()> {
        let waits = |row: usize| joinable[row] && !self.is_done(side, times[row]);
        let waiting: Vec<usize> = (0..ids.len()).filter(|&row| waits(row)).collect();
        let alone: UInt32Array = (0..ids.len() as u32).filter(|&row| !waits(row as usize) && !matched[row as usize]).collect();
        if self.step.kind.keeps(side) && !alone.is_empty() {
            out.batch(padded(&take_rows(batch, &alone)?, side, self.schema_of(1 - side), &self.step.schema)?)?;
        }
        if !waiting.is_empty() {
            let number = self.sides[side].batches.insert(batch.clone(), waiting.len() as u32);
            for &row in &waiting {
                let place = Place { batch: number, row: row as u32 };
                self.insert(side, ids[row], Row { time: times[row], place, matched: matched[row], stored: None, is_dirty: false });
            }
        }
        ids.iter().for_each(|&id| self.let_go(id));
        Ok(())
    }

    fn insert(&mut self, side: usize, id: u32, row: Row) {
        self.holders[id as usize] += 1;
        let side = &mut self.sides[side];
        side.by_time.entry(row.time).or_default().push(id);
        if row.stored.is_none() {
            side.changed.insert(id);
        }
        side.rows[id as usize].push(row);
    }

    fn schema_of(&self, side: usize) -> &SchemaRef {
        if side == 0 { &self.step.left } else { &self.step.right }
    }

    /// Whether no partner in time can come any more for a row of `side` at `time`.
    fn is_done(&self, side: usize, time: i64) -> bool {
        let (_, to) = self.range(side, time);
        self.watermark.is_past(EventTime::from_millis(to))
    }

    /// Rows of a side that are done leave; those of a kept side without partner are emitted.
    fn evict(&mut self, side: usize, out: &mut dyn Collector) -> Result<()> {
        let mut alone = Vec::new();
        let mut gone = Vec::new();
        while let Some(entry) = self.sides[side].by_time.first_entry() {
            let time = *entry.key();
            if !self.is_done(side, time) {
                break;
            }
            let Some(mut ids) = self.sides[side].by_time.remove(&time) else { break };
            ids.sort_unstable();
            ids.dedup();
            for id in ids {
                self.sides[side].rows[id as usize].retain(|row| {
                    if row.time == time {
                        gone.push((id, row.place));
                        if !row.matched {
                            alone.push(row.place);
                        }
                    }
                    row.time != time
                });
            }
            self.evicted[side] = self.evicted[side].max(time.saturating_add(1));
        }
        if self.step.kind.keeps(side) {
            for places in alone.chunks(CHUNK) {
                let rows = self.sides[side].batches.gather(places, self.schema_of(side))?;
                out.batch(padded(&rows, side, self.schema_of(1 - side), &self.step.schema)?)?;
            }
        }
        for (id, place) in gone {
            self.sides[side].batches.release(place.batch);
            self.let_go(id);
        }
        Ok(())
    }

    /// Writes the rows of a side that changed since the last barrier.
    fn store(&mut self, side: usize, epoch: Epoch, context: &mut OperatorContext<'_>) -> Result<()> {
        let changed = std::mem::take(&mut self.sides[side].changed);
        let mut wanted: Vec<(u32, usize)> = Vec::new();
        for id in changed {
            let rows = &self.sides[side].rows[id as usize];
            wanted.extend(rows.iter().enumerate().filter(|(_, row)| row.stored.is_none() || row.is_dirty).map(|(index, _)| (id, index)));
        }
        for chunk in wanted.chunks(CHUNK) {
            let rows: Vec<&Row> = chunk.iter().map(|(id, index)| &self.sides[side].rows[*id as usize][*index]).collect();
            let places: Vec<Place> = rows.iter().map(|row| row.place).collect();
            let matched: Vec<bool> = rows.iter().map(|row| row.matched).collect();
            let batch = self.sides[side].batches.gather(&places, self.schema_of(side))?;
            let (keys, _) = key_columns(&batch, &self.step.keys, side);
            let groups = groups_of(&keys, batch.num_rows(), context.state.group_count());
            for (((id, index), value), group) in chunk.iter().zip(self.codecs[side].encode(&batch, &matched)?).zip(groups) {
                let row = &mut self.sides[side].rows[*id as usize][*index];
                let (group, stored_epoch, number) = *row.stored.get_or_insert_with(|| {
                    self.number = self.number.wrapping_add(1);
                    (group, epoch, self.number)
                });
                row.is_dirty = false;
                context.state.put(StateKind::JoinRows, group, &suffix(side as u8, row.time, stored_epoch, number), value);
                self.stored_groups.insert(group.0);
            }
        }
        Ok(())
    }

    fn restore(&mut self, side: usize, rows: &[(Vec<u8>, KeyGroup, Vec<u8>)]) -> Result<()> {
        let values: Vec<Vec<u8>> = rows.iter().map(|(value, ..)| value.clone()).collect();
        let (batch, matched) = self.codecs[side].decode(&values)?;
        let times = times_of(batch.column(if side == 0 { self.step.left_time } else { self.step.right_time }))?;
        let (columns, _) = key_columns(&batch, &self.step.keys, side);
        let ids = self.ids(columns, batch.num_rows())?;
        let number = self.sides[side].batches.insert(batch.clone(), batch.num_rows() as u32);
        for (row, (_, group, suffix)) in rows.iter().enumerate() {
            let damaged = || internal("join state", &"a stored key is too short");
            let epoch = suffix.get(9..17).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes).ok_or_else(damaged)?;
            let stored_number = suffix.get(17..21).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes).ok_or_else(damaged)?;
            let place = Place { batch: number, row: row as u32 };
            let stored = Some((*group, Epoch(epoch), stored_number));
            self.insert(side, ids[row], Row { time: times.value(row), place, matched: matched[row], stored, is_dirty: false });
        }
        ids.iter().for_each(|&id| self.let_go(id));
        Ok(())
    }
}
