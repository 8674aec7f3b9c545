//! Window join: rows of both sides that share a window and a key, when the window closes.
//!
//! Promises: a window's pairs come once, when the watermark reaches its last millisecond; rows without a partner come
//! with them, padded with nulls. A row whose window has fired is late. Rows leave by window end, key group, key, then in
//! the order in which they came. Leaves to others: which windows a row is in (it carries them).
//!
//! Rows wait in memory and, from barrier to barrier, in state (`rows`, the window's end standing as their time). After a
//! restart, and over the memory budget, stored rows stay in state until their window fires, and are then read one key
//! group after the other.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, RecordBatch, UInt32Array},
    compute::concat_batches,
    datatypes::SchemaRef,
    row::{RowConverter, SortField},
};
use hashbrown::HashMap;
use pelton_core::{
    error::Result,
    key_group::KeyGroup,
    operator::{Collector, Operator, OperatorContext, OperatorFactory},
    position::Epoch,
    state::{StateHandle, StateKind},
    time::{EventTime, Watermark},
};

use crate::{
    expressions::{Expression, conform, internal, take_rows},
    groups::Groups,
    join_output::{JoinKey, JoinKind, Residual, key_columns, masked, padded, pair_schema, pairs, shaped},
    rows::{RowCodec, StoredAt, bytes_of, delete_between, groups_of, key_rows, stored},
    window::WindowSpec,
    window_assign::times_of,
};

/// Joins rows of the same window.
#[derive(Debug, Clone)]
pub struct WindowJoin {
    /// Which rows survive alone.
    pub kind: JoinKind,
    /// Equalities besides the window's. The exchanges in front go by the same.
    pub keys: Vec<JoinKey>,
    /// `window_start` and `window_end` columns of the left side.
    pub left_window: (usize, usize),
    /// Those of the right side.
    pub right_window: (usize, usize),
    /// The windows: their zone says when an end has passed.
    pub window: WindowSpec,
    /// A condition over left and right columns together.
    pub residual: Option<Expression>,
    /// Left columns.
    pub left: SchemaRef,
    /// Right columns.
    pub right: SchemaRef,
    /// Columns it emits: left and right ones, or the left ones (semi, anti).
    pub schema: SchemaRef,
}

impl OperatorFactory for WindowJoin {
    fn create(&self, _worker: usize, _workers: usize) -> Result<Box<dyn Operator>> {
        // A window is its start and its end: rows wait by end, and starts are compared as a key is.
        let mut key_types: Vec<_> = self.keys.iter().map(|key| self.left.field(key.left).data_type().clone()).collect();
        key_types.push(self.left.field(self.left_window.0).data_type().clone());
        let fields = key_types.iter().map(|data_type| SortField::new(data_type.clone())).collect();
        Ok(Box::new(Joiner {
            codecs: [RowCodec::new(&self.left)?, RowCodec::new(&self.right)?],
            converter: RowConverter::new(fields).map_err(|error| internal("window join", &error))?,
            key_types,
            residual: self.residual.clone().map(|expr| Residual::new(expr, "window join")),
            pair_schema: pair_schema(&self.left, &self.right),
            budget: usize::MAX,
            step: self.clone(),
            windows: BTreeMap::new(),
            watermark: Watermark::MIN,
            written: None,
            number: 0,
            doomed: Groups::default(),
            fired_to: i64::MIN,
            deleted_to: i64::MIN,
            paged_to: u64::MAX,
            bytes: 0,
        }))
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Rows that wait for the same window end.
#[derive(Default)]
struct Waiting {
    sides: [Vec<RecordBatch>; 2],
    /// How many of each side's batches are in state already.
    written: [usize; 2],
    /// Key groups with rows in state.
    stored: Groups,
    /// Those of them of which rows are not in memory.
    paged: Groups,
}

struct Joiner {
    // Fixed at start.
    step: WindowJoin,
    codecs: [RowCodec; 2],
    converter: RowConverter,
    key_types: Vec<arrow::datatypes::DataType>,
    residual: Option<Residual>,
    pair_schema: SchemaRef,
    budget: usize,
    // Changing.
    /// By window end.
    windows: BTreeMap<i64, Waiting>,
    watermark: Watermark,
    /// The watermark that the last barrier wrote.
    written: Option<Watermark>,
    /// Counts stored rows, so that no two have the same key.
    number: u32,
    /// Key groups with rows in state of windows that have fired.
    doomed: Groups,
    fired_to: i64,
    /// What the last barrier deleted ends here: nothing is written there any more.
    deleted_to: i64,
    /// Rows in state of later epochs are in memory too.
    paged_to: u64,
    bytes: usize,
}

/// Key (kind `timers`, every owned group) of the watermark (8).
const WATERMARK: &[u8] = b"watermark";
/// Pairs that are built at once.
const CHUNK: usize = 8192;

impl Operator for Joiner {
    fn open(&mut self, context: &mut OperatorContext<'_>) -> Result<()> {
        for group in context.state.groups().map(KeyGroup) {
            if let Some(value) = context.state.get(StateKind::Timers, group, WATERMARK)?
                && let Some((millis, _)) = value.split_first_chunk::<8>()
            {
                self.watermark = self.watermark.max(Watermark::at(EventTime::from_millis(i64::from_be_bytes(*millis))));
            }
            let windows = &mut self.windows;
            let mut last = None;
            stored(context.state, group, None, |at, _| {
                if last != Some(at.time) {
                    let waiting = windows.entry(at.time).or_default();
                    waiting.stored.insert(group);
                    waiting.paged.insert(group);
                    last = Some(at.time);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn process(&mut self, port: usize, batch: RecordBatch, context: &mut OperatorContext<'_>, _out: &mut dyn Collector) -> Result<()> {
        let (start, end) = if port == 0 { self.step.left_window } else { self.step.right_window };
        let ends = times_of(batch.column(end))?;
        let starts = batch.column(start);
        let mut by_end: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
        let mut late = Vec::new();
        let watermark = self.watermark.max(context.input_watermark);
        for row in 0..batch.num_rows() {
            let is_late = starts.is_null(row) || ends.is_null(row) || self.step.window.fired(ends.value(row), watermark);
            if is_late { late.push(row as u32) } else { by_end.entry(ends.value(row)).or_default().push(row as u32) }
        }
        for (end, rows) in by_end {
            let part = if rows.len() == batch.num_rows() { batch.clone() } else { take_rows(&batch, &UInt32Array::from(rows))? };
            self.bytes += bytes_of(&part);
            self.windows.entry(end).or_default().sides[port].push(part);
        }
        if !late.is_empty() {
            context.late.push(take_rows(&batch, &UInt32Array::from(late))?);
        }
        Ok(())
    }

    fn watermark(&mut self, watermark: Watermark, context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<()> {
        self.watermark = self.watermark.max(watermark);
        while let Some(entry) = self.windows.first_entry() {
            let end = *entry.key();
            if !self.step.window.fired(end, self.watermark) {
                break;
            }
            let waiting = entry.remove();
            self.bytes -= waiting.sides.iter().flatten().map(bytes_of).sum::<usize>();
            self.fired_to = self.fired_to.max(end);
            self.doomed.extend(&waiting.stored);
            self.fire(end, waiting, context, out)?;
        }
        out.watermark(watermark)
    }

    fn barrier(&mut self, epoch: Epoch, context: &mut OperatorContext<'_>, _out: &mut dyn Collector) -> Result<()> {
        if self.paged_to == u64::MAX {
            // The first barrier of this run: what is paged was written by an earlier one.
            self.paged_to = epoch.0.saturating_sub(1);
        }
        for group in std::mem::take(&mut self.doomed).iter() {
            for side in 0..2 {
                delete_between(context.state, group, side, self.deleted_to, self.fired_to.saturating_add(1));
            }
        }
        self.deleted_to = self.fired_to;
        self.write(epoch, context.state)?;
        if self.written != Some(self.watermark) {
            let millis = self.watermark.time().as_millis().to_be_bytes().to_vec();
            for group in context.state.groups() {
                context.state.put(StateKind::Timers, KeyGroup(group), WATERMARK, millis.clone());
            }
            self.written = Some(self.watermark);
        }
        if self.bytes > self.budget {
            for waiting in self.windows.values_mut() {
                waiting.sides = Default::default();
                waiting.written = [0; 2];
                let stored = waiting.stored.clone();
                waiting.paged.extend(&stored);
            }
            self.paged_to = epoch.0;
            self.bytes = 0;
        }
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        self.bytes + self.windows.len() * size_of::<Waiting>()
    }

    fn set_memory_budget(&mut self, bytes: usize) {
        self.budget = bytes;
    }
}

impl Joiner {
    /// Writes the batches that came since the last barrier.
    fn write(&mut self, epoch: Epoch, state: &mut StateHandle) -> Result<()> {
        for (&time, waiting) in &mut self.windows {
            for side in 0..2 {
                for batch in &waiting.sides[side][waiting.written[side]..] {
                    let (keys, _) = key_columns(batch, &self.step.keys, side);
                    let groups = groups_of(&keys, batch.num_rows(), state.group_count());
                    let rows = self.codecs[side].encode(batch, std::iter::repeat(false))?;
                    for (group, row) in groups.into_iter().zip(rows) {
                        let at = StoredAt { side: side as u8, time, epoch: epoch.0, number: self.number };
                        state.put(StateKind::JoinRows, group, &at.to_bytes(), row);
                        waiting.stored.insert(group);
                        self.number = self.number.wrapping_add(1);
                    }
                }
                waiting.written[side] = waiting.sides[side].len();
            }
        }
        Ok(())
    }

    fn fire(&self, end: i64, waiting: Waiting, context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<()> {
        let [left, right] = &waiting.sides;
        let resident = [self.concat(0, left)?, self.concat(1, right)?];
        if waiting.paged.is_empty() {
            return self.join(&resident, context, out);
        }
        // Group by group, so that only one of them must be in memory at once.
        let mut rows: BTreeMap<KeyGroup, [Vec<u32>; 2]> = waiting.paged.iter().map(|group| (group, Default::default())).collect();
        for (side, batch) in resident.iter().enumerate() {
            let (keys, _) = key_columns(batch, &self.step.keys, side);
            let groups = groups_of(&keys, batch.num_rows(), context.state.group_count());
            for (row, group) in groups.into_iter().enumerate() {
                rows.entry(group).or_default()[side].push(row as u32);
            }
        }
        for (group, rows) in rows {
            let side = |side: usize, rows: Vec<u32>| {
                let stored = self.read(group, side, end, context.state)?;
                self.concat(side, &[stored, take_rows(&resident[side], &UInt32Array::from(rows))?])
            };
            let [left, right] = rows;
            let sides = [side(0, left)?, side(1, right)?];
            self.join(&sides, context, out)?;
        }
        Ok(())
    }

    fn schema_of(&self, side: usize) -> &SchemaRef {
        if side == 0 { &self.step.left } else { &self.step.right }
    }

    fn concat(&self, side: usize, batches: &[RecordBatch]) -> Result<RecordBatch> {
        concat_batches(self.schema_of(side), batches).map_err(|error| internal("window join", &error))
    }

    /// What state has of a side and window end that is not in memory.
    fn read(&self, group: KeyGroup, side: usize, end: i64, state: &StateHandle) -> Result<RecordBatch> {
        let mut values = Vec::new();
        stored(state, group, Some((side as u8, end)), |at, value| {
            if at.epoch <= self.paged_to {
                values.push(value.to_vec());
            }
            Ok(())
        })?;
        let (batch, _) = self.codecs[side].decode(values.iter().map(Vec::as_slice))?;
        Ok(batch)
    }

    /// Emits what the rows of one window end make.
    fn join(&self, sides: &[RecordBatch; 2], context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<()> {
        let keys = [self.keys_of(&sides[0], 0)?, self.keys_of(&sides[1], 1)?];
        let order = [keys[0].order(context.state.group_count()), keys[1].order(context.state.group_count())];
        let mut matched = [vec![false; sides[0].num_rows()], vec![false; sides[1].num_rows()]];
        let mut by_key: HashMap<&[u8], Vec<u32>> = HashMap::new();
        for row in (0..sides[1].num_rows()).filter(|&row| keys[1].joinable[row]) {
            by_key.entry(keys[1].rows.row(row).data()).or_default().push(row as u32);
        }
        // All pairs of a window may be many more than its rows: they are made and sent in parts.
        let mut found: [Vec<u32>; 2] = Default::default();
        for &row in order[0].iter().filter(|&&row| keys[0].joinable[row as usize]) {
            for &partner in by_key.get(keys[0].rows.row(row as usize).data()).into_iter().flatten() {
                found[0].push(row);
                found[1].push(partner);
                if found[0].len() == CHUNK {
                    self.emit_pairs(sides, std::mem::take(&mut found), &mut matched, context, out)?;
                }
            }
        }
        self.emit_pairs(sides, found, &mut matched, context, out)?;
        for side in 0..2 {
            let wanted = if self.step.kind == JoinKind::Semi && side == 0 { Some(true) } else { self.step.kind.keeps(side).then_some(false) };
            let Some(wanted) = wanted else { continue };
            let alone: Vec<u32> = order[side].iter().copied().filter(|&row| matched[side][row as usize] == wanted).collect();
            for rows in alone.chunks(CHUNK) {
                let rows = take_rows(&sides[side], &UInt32Array::from(rows.to_vec()))?;
                out.batch(match self.step.kind {
                    JoinKind::Semi | JoinKind::Anti => shaped(rows.columns().to_vec(), rows.num_rows(), &self.step.schema)?,
                    _ => padded(&rows, side, self.schema_of(1 - side), &self.step.schema)?,
                })?;
            }
        }
        Ok(())
    }

    /// Emits pairs of a left and a right row, those that the condition keeps, and notes who found a partner.
    fn emit_pairs(&self, sides: &[RecordBatch; 2], found: [Vec<u32>; 2], matched: &mut [Vec<bool>; 2], context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<()> {
        let found = found.map(UInt32Array::from);
        if found[0].is_empty() {
            return Ok(());
        }
        let is_half = matches!(self.step.kind, JoinKind::Semi | JoinKind::Anti);
        let mut mask = None;
        if !is_half || self.residual.is_some() {
            let (left, right) = (take_rows(&sides[0], &found[0])?, take_rows(&sides[1], &found[1])?);
            let (batch, kept) = pairs(&left, &right, self.residual.as_ref(), &self.pair_schema, context.dead_letters)?;
            let rows = masked(&batch, kept.as_ref())?;
            if !is_half && rows.num_rows() > 0 {
                out.batch(shaped(rows.columns().to_vec(), rows.num_rows(), &self.step.schema)?)?;
            }
            mask = kept;
        }
        for index in (0..found[0].len()).filter(|&index| mask.as_ref().is_none_or(|mask| mask.is_valid(index) && mask.value(index))) {
            for side in 0..2 {
                matched[side][found[side].value(index) as usize] = true;
            }
        }
        Ok(())
    }

    fn keys_of(&self, batch: &RecordBatch, side: usize) -> Result<SideKeys> {
        let (keys, joinable) = key_columns(batch, &self.step.keys, side);
        let start = if side == 0 { self.step.left_window.0 } else { self.step.right_window.0 };
        let columns = keys.iter().chain([batch.column(start)]).zip(&self.key_types).map(|(column, wanted)| conform(Arc::clone(column), wanted));
        let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>().map_err(|error| internal("window join", &error))?;
        Ok(SideKeys { rows: key_rows(&self.converter, &columns)?, keys, joinable })
    }
}

/// The keys of one side's rows.
struct SideKeys {
    keys: Vec<ArrayRef>,
    rows: arrow::row::Rows,
    joinable: Vec<bool>,
}

impl SideKeys {
    /// Rows by key group, then key; equal ones as they came.
    fn order(&self, group_count: u16) -> Vec<u32> {
        let groups = groups_of(&self.keys, self.joinable.len(), group_count);
        let mut order: Vec<u32> = (0..self.joinable.len() as u32).collect();
        order.sort_by(|&a, &b| groups[a as usize].cmp(&groups[b as usize]).then_with(|| self.rows.row(a as usize).cmp(&self.rows.row(b as usize))));
        order
    }
}
