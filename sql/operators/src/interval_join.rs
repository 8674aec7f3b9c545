//! Interval join: rows of two streams with equal keys whose times are near.
//!
//! `lower <= right time - left time <= upper`. Promises: each pair comes once, as soon as its second row is there; a row
//! of a kept side that finds no partner comes once, padded with nulls, when the watermark says that none can come. Rows
//! at or before the watermark are late. The watermark that goes on is held back so that rows set free later are in time.
//! Leaves to others: rows that wait (`waiting`) and their state (`rows`).
//!
//! A left row waits until the watermark reaches its time + upper, a right row until its time − lower: then no partner
//! in time can come.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, RecordBatch, UInt32Array},
    datatypes::{DataType, SchemaRef},
};
use pelton_core::{
    error::Result,
    key_group::{DEFAULT_KEY_GROUPS, KeyGroup},
    operator::{Collector, Operator, OperatorContext, OperatorFactory},
    position::Epoch,
    state::StateKind,
    time::{EventTime, Watermark},
};

use crate::{
    expressions::{Expression, conform, internal, take_rows},
    groups::Groups,
    join_output::{JoinKey, JoinKind, Residual, key_columns, masked, padded, pairs},
    keys::KeyTable,
    rows::{Place, StoredAt, delete_between, stored},
    waiting::{ABSENT, CHUNK, Row, Waiting},
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

impl IntervalJoin {
    fn key_types(&self) -> Vec<DataType> {
        self.keys.iter().map(|key| self.left.field(key.left).data_type().clone()).collect()
    }

    fn time(&self, side: usize) -> usize {
        if side == 0 { self.left_time } else { self.right_time }
    }

    fn side(&self, side: usize) -> &SchemaRef {
        if side == 0 { &self.left } else { &self.right }
    }

    /// Times of the other side that a row of `side` at `time` meets.
    fn range(&self, side: usize, time: i64) -> (i64, i64) {
        let (lower, upper) = (self.lower_ms, self.upper_ms);
        if side == 0 { (time.saturating_add(lower), time.saturating_add(upper)) } else { (time.saturating_sub(upper), time.saturating_sub(lower)) }
    }
}

impl OperatorFactory for IntervalJoin {
    fn create(&self, _worker: usize, _workers: usize) -> Result<Box<dyn Operator>> {
        Ok(Box::new(Joiner {
            residual: self.residual.clone().map(|expr| Residual::new(expr, "interval join")),
            budget: usize::MAX,
            // The number of key groups is known once the operator is opened; the keys are made anew then.
            keys: KeyTable::new(&self.key_types(), DEFAULT_KEY_GROUPS)?,
            sides: [Waiting::new(0, &self.left)?, Waiting::new(1, &self.right)?],
            step: self.clone(),
            watermark: Watermark::MIN,
            written: None,
            number: 0,
            stored_groups: Groups::default(),
            evicted: [i64::MIN; 2],
            deleted: [i64::MIN; 2],
        }))
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

struct Joiner {
    // Fixed at start.
    step: IntervalJoin,
    residual: Option<Residual>,
    budget: usize,
    // Changing.
    keys: KeyTable,
    sides: [Waiting; 2],
    watermark: Watermark,
    /// The watermark that the last barrier wrote.
    written: Option<Watermark>,
    number: u32,
    stored_groups: Groups,
    /// Rows of a side before this time are gone from memory, and from state.
    evicted: [i64; 2],
    deleted: [i64; 2],
}

/// Key (kind `timers`, every owned group) of the watermark (8).
const WATERMARK: &[u8] = b"watermark";

/// A new row and one that waits: the new row's index, its key, the index among the key's waiting rows.
#[derive(Clone, Copy)]
struct Candidate {
    row: u32,
    key: u32,
    waiting: u32,
}

/// New rows of one side, columns side by side.
struct Arrivals<'a> {
    side: usize,
    batch: &'a RecordBatch,
    times: &'a [i64],
    ids: &'a [u32],
    /// Whether a row's key can be equal to another.
    joinable: &'a [bool],
}

impl Operator for Joiner {
    fn open(&mut self, context: &mut OperatorContext<'_>) -> Result<()> {
        self.keys = KeyTable::new(&self.step.key_types(), context.state.group_count())?;
        for group in context.state.groups().map(KeyGroup) {
            if let Some(value) = context.state.get(StateKind::Timers, group, WATERMARK)?
                && let Some((millis, _)) = value.split_first_chunk::<8>()
            {
                self.watermark = self.watermark.max(Watermark::at(EventTime::from_millis(i64::from_be_bytes(*millis))));
            }
            let mut rows: [Vec<(StoredAt, Vec<u8>)>; 2] = Default::default();
            let mut is_empty = true;
            stored(context.state, group, None, |at, value| {
                is_empty = false;
                let side = usize::from(at.side);
                rows[side].push((at, value.to_vec()));
                if rows[side].len() >= CHUNK {
                    self.restore(side, std::mem::take(&mut rows[side]))?;
                }
                Ok(())
            })?;
            for (side, rows) in rows.into_iter().enumerate() {
                self.restore(side, rows)?;
            }
            if !is_empty {
                self.stored_groups.insert(group);
            }
        }
        Ok(())
    }

    fn process(&mut self, port: usize, batch: RecordBatch, context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<()> {
        let time = self.step.time(port);
        let times = times_of(batch.column(time))?;
        let (late, batch) = self.split_late(batch, &times, context.input_watermark)?;
        context.late.extend(late);
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let times = times_of(batch.column(time))?;
        let (columns, joinable) = key_columns(&batch, &self.step.keys, port);
        let ids = self.ids(columns, batch.num_rows())?;
        let arrivals = Arrivals { side: port, batch: &batch, times: times.values(), ids: &ids, joinable: &joinable };
        let matched = self.probe(&arrivals, context, out)?;
        self.keep(&arrivals, &matched, out)?;
        ids.iter().for_each(|&id| self.keys.let_go(id));
        Ok(())
    }

    fn watermark(&mut self, watermark: Watermark, context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<()> {
        self.watermark = self.watermark.max(watermark);
        for side in 0..2 {
            self.evict(side, context, out)?;
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
                for group in self.stored_groups.iter() {
                    delete_between(context.state, group, side as u8, self.deleted[side], self.evicted[side]);
                }
                self.deleted[side] = self.evicted[side];
            }
            for group in self.sides[side].write(epoch, &mut self.number, &self.keys, context.state)? {
                self.stored_groups.insert(KeyGroup(group));
            }
        }
        if self.written != Some(self.watermark) {
            let millis = self.watermark.time().as_millis().to_be_bytes().to_vec();
            for group in context.state.groups() {
                context.state.put(StateKind::Timers, KeyGroup(group), WATERMARK, millis.clone());
            }
            self.written = Some(self.watermark);
        }
        if self.memory_bytes() > self.budget {
            self.sides.iter_mut().for_each(Waiting::unload);
        }
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        self.sides.iter().map(Waiting::memory_bytes).sum::<usize>() + self.keys.memory_bytes()
    }

    fn set_memory_budget(&mut self, bytes: usize) {
        self.budget = bytes;
    }
}

impl Joiner {
    /// Key ids of rows; held once for each row, so that no id is given to another key meanwhile.
    fn ids(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<Vec<u32>> {
        let columns = columns.into_iter().zip(self.step.key_types()).map(|(column, wanted)| conform(column, &wanted));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(|error| internal("interval join", &error))?;
        let mut ids = Vec::new();
        self.keys.ids(&columns, rows, &mut ids)?;
        let keys = self.keys.capacity();
        self.sides.iter_mut().for_each(|side| side.grow(keys));
        ids.iter().for_each(|&id| self.keys.hold(id));
        Ok(ids)
    }

    fn split_late(&self, batch: RecordBatch, times: &arrow::array::TimestampMillisecondArray, of_input: Watermark) -> Result<(Option<RecordBatch>, RecordBatch)> {
        let watermark = self.watermark.max(of_input);
        let in_time = |row: usize| times.is_valid(row) && !watermark.is_past(EventTime::from_millis(times.value(row)));
        if (0..times.len()).all(in_time) {
            return Ok((None, batch));
        }
        let (kept, late): (Vec<u32>, Vec<u32>) = (0..times.len() as u32).partition(|&row| in_time(row as usize));
        Ok((Some(take_rows(&batch, &UInt32Array::from(late))?), take_rows(&batch, &UInt32Array::from(kept))?))
    }

    /// Emits pairs of new rows with waiting ones. Whether each new row found a partner.
    fn probe(&mut self, new: &Arrivals<'_>, context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<Vec<bool>> {
        let other = 1 - new.side;
        let mut matched = vec![false; new.ids.len()];
        let mut found: Vec<Candidate> = Vec::new();
        for row in (0..new.ids.len()).filter(|&row| new.joinable[row]) {
            let (from, to) = self.step.range(new.side, new.times[row]);
            let key = new.ids[row];
            let partners = self.sides[other].between(key, from, to);
            found.extend(partners.map(|waiting| Candidate { row: row as u32, key, waiting: waiting as u32 }));
            if found.len() >= CHUNK {
                self.emit_pairs(new, &found, &mut matched, context, out)?;
                found.clear();
            }
        }
        self.emit_pairs(new, &found, &mut matched, context, out)?;
        Ok(matched)
    }

    fn emit_pairs(&mut self, new: &Arrivals<'_>, found: &[Candidate], matched: &mut [bool], context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<()> {
        let other = 1 - new.side;
        for chunk in found.chunks(CHUNK) {
            let new_rows = take_rows(new.batch, &chunk.iter().map(|pair| pair.row).collect())?;
            let waiting: Vec<(u32, Row)> = chunk.iter().map(|pair| (pair.key, self.sides[other].row(pair.key, pair.waiting as usize))).collect();
            let waiting = self.sides[other].gather(&waiting, &self.keys, context.state)?;
            let (left, right) = if new.side == 0 { (&new_rows, &waiting) } else { (&waiting, &new_rows) };
            let (pairs, mask) = pairs(left, right, self.residual.as_ref(), &self.step.schema, context.dead_letters)?;
            let is_kept = self.step.kind.keeps(other);
            for (index, pair) in chunk.iter().enumerate() {
                if mask.as_ref().is_none_or(|mask| mask.is_valid(index) && mask.value(index)) {
                    matched[pair.row as usize] = true;
                    self.sides[other].mark_matched(pair.key, pair.waiting as usize, is_kept);
                }
            }
            let rows = masked(&pairs, mask.as_ref())?;
            if rows.num_rows() > 0 {
                out.batch(rows)?;
            }
        }
        Ok(())
    }

    /// Lets rows wait that may still find partners; the others of a kept side are emitted alone.
    fn keep(&mut self, new: &Arrivals<'_>, matched: &[bool], out: &mut dyn Collector) -> Result<()> {
        let side = new.side;
        let waits = |row: usize| new.joinable[row] && !self.is_done(side, new.times[row]);
        let (waiting, done): (Vec<u32>, Vec<u32>) = (0..new.ids.len() as u32).partition(|&row| waits(row as usize));
        if self.step.kind.keeps(side) {
            let alone: UInt32Array = done.into_iter().filter(|&row| !matched[row as usize]).collect();
            if !alone.is_empty() {
                out.batch(padded(&take_rows(new.batch, &alone)?, side, self.step.side(1 - side), &self.step.schema)?)?;
            }
        }
        if waiting.is_empty() {
            return Ok(());
        }
        // A batch lives as long as one of its rows: without those that do not wait, and without what it shares with others.
        let batch = if waiting.len() < new.batch.num_rows() { take_rows(new.batch, &UInt32Array::from(waiting.clone()))? } else { new.batch.clone() };
        let number = self.sides[side].batches.insert(batch, waiting.len() as u32);
        for (index, &row) in waiting.iter().enumerate() {
            let (id, time) = (new.ids[row as usize], new.times[row as usize]);
            self.keys.hold(id);
            let place = Place { batch: number, row: index as u32 };
            self.sides[side].insert(id, Row { time, place, epoch: 0, number: 0, matched: matched[row as usize], is_dirty: false });
        }
        Ok(())
    }

    /// Whether no partner in time can come any more for a row of `side` at `time`.
    fn is_done(&self, side: usize, time: i64) -> bool {
        let (_, to) = self.step.range(side, time);
        self.watermark.is_past(EventTime::from_millis(to))
    }

    /// Rows of a side that are done leave; those of a kept side without partner are emitted.
    fn evict(&mut self, side: usize, context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<()> {
        let (step, watermark) = (&self.step, self.watermark);
        let gone = self.sides[side].take_done(&self.keys, |time| watermark.is_past(EventTime::from_millis(step.range(side, time).1)));
        if self.step.kind.keeps(side) {
            let alone: Vec<(u32, Row)> = gone.iter().copied().filter(|(_, row)| !row.matched).collect();
            for rows in alone.chunks(CHUNK) {
                let rows = self.sides[side].gather(rows, &self.keys, context.state)?;
                out.batch(padded(&rows, side, self.step.side(1 - side), &self.step.schema)?)?;
            }
        }
        for (id, row) in gone {
            self.evicted[side] = self.evicted[side].max(row.time.saturating_add(1));
            self.sides[side].release(&row);
            self.keys.let_go(id);
        }
        Ok(())
    }

    fn restore(&mut self, side: usize, rows: Vec<(StoredAt, Vec<u8>)>) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let (places, values): (Vec<StoredAt>, Vec<Vec<u8>>) = rows.into_iter().unzip();
        let (batch, matched) = self.sides[side].decode(&values)?;
        let (columns, _) = key_columns(&batch, &self.step.keys, side);
        let ids = self.ids(columns, batch.num_rows())?;
        let is_kept = self.memory_bytes() < self.budget / 2;
        let number = if is_kept { self.sides[side].batches.insert(batch, ids.len() as u32) } else { ABSENT };
        for (row, (id, at)) in ids.into_iter().zip(places).enumerate() {
            let place = Place { batch: number, row: row as u32 };
            // The key stays held by the row.
            self.sides[side].insert(id, Row { time: at.time, place, epoch: at.epoch, number: at.number, matched: matched[row], is_dirty: false });
        }
        Ok(())
    }
}
