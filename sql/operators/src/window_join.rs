//! Window join: rows of both sides that share a window and a key, when the window closes.
//!
//! Promises: a window's pairs come once, when the watermark reaches its last millisecond; rows without a partner come
//! with them, padded with nulls. A row whose window has fired is late. Rows wait in memory and, from barrier to barrier,
//! in state (`rows`, the window's end standing as their time).

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{Array, RecordBatch, UInt32Array},
    compute::concat_batches,
    datatypes::SchemaRef,
    row::{RowConverter, SortField},
};
use hashbrown::{HashMap, HashSet};
use pelton_core::{
    error::Result,
    key_group::KeyGroup,
    operator::{Collector, Operator, OperatorContext, OperatorFactory},
    position::Epoch,
    state::StateKind,
    time::{EventTime, Watermark},
};

use crate::{
    expressions::{Expression, internal, take_rows},
    join_output::{JoinKey, JoinKind, key_columns, masked, padded, pairs},
    panes::Pane,
    rows::{RowCodec, delete_before, groups_of, stored, suffix},
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
        let pair_fields: Vec<_> = self.left.fields().iter().chain(self.right.fields()).map(|field| field.as_ref().clone().with_nullable(true)).collect();
        Ok(Box::new(Joiner {
            codecs: [RowCodec::new(&self.left)?, RowCodec::new(&self.right)?],
            pair_schema: Arc::new(arrow::datatypes::Schema::new(pair_fields)),
            step: self.clone(),
            windows: BTreeMap::new(),
            watermark: Watermark::MIN,
            number: 0,
            stored_groups: HashSet::new(),
            fired_to: i64::MIN,
            deleted_to: i64::MIN,
        }))
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Rows of a window that wait, and how many of each side's batches are in state already.
#[derive(Default)]
struct Waiting {
    sides: [Vec<RecordBatch>; 2],
    stored: [usize; 2],
}

struct Joiner {
    step: WindowJoin,
    codecs: [RowCodec; 2],
    pair_schema: SchemaRef,
    windows: BTreeMap<Pane, Waiting>,
    watermark: Watermark,
    /// Counts stored rows, so that no two have the same key.
    number: u32,
    stored_groups: HashSet<u16>,
    fired_to: i64,
    deleted_to: i64,
}

const WATERMARK: &[u8] = b"watermark";
/// Pairs that are built at once.
const CHUNK: usize = 8192;

impl Operator for Joiner {
    fn open(&mut self, context: &mut OperatorContext<'_>) -> Result<()> {
        let mut values: [Vec<Vec<u8>>; 2] = Default::default();
        let groups = &mut self.stored_groups;
        stored(context.state, |row| {
            groups.insert(row.group.0);
            values[usize::from(row.side.min(1))].push(row.value);
            Ok(())
        })?;
        for side in 0..2 {
            for chunk in std::mem::take(&mut values[side]).chunks(CHUNK) {
                let (batch, _) = self.codecs[side].decode(chunk)?;
                self.add(side, &batch, true)?;
            }
        }
        for group in context.state.groups() {
            if let Some(value) = context.state.get(StateKind::Timers, KeyGroup(group), WATERMARK)?
                && let Some((millis, _)) = value.split_first_chunk::<8>()
            {
                self.watermark = self.watermark.max(Watermark::at(EventTime::from_millis(i64::from_be_bytes(*millis))));
            }
        }
        Ok(())
    }

    fn process(&mut self, port: usize, batch: RecordBatch, context: &mut OperatorContext<'_>, _out: &mut dyn Collector) -> Result<()> {
        if let Some(late) = self.add(port, &batch, false)? {
            context.late.push(late);
        }
        Ok(())
    }

    fn watermark(&mut self, watermark: Watermark, _context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<()> {
        self.watermark = self.watermark.max(watermark);
        while let Some(entry) = self.windows.first_entry() {
            if !self.step.window.fired(entry.key().end, self.watermark) {
                break;
            }
            let (pane, waiting) = entry.remove_entry();
            self.fired_to = self.fired_to.max(pane.end);
            self.fire(waiting, out)?;
        }
        out.watermark(watermark)
    }

    fn barrier(&mut self, epoch: Epoch, context: &mut OperatorContext<'_>, _out: &mut dyn Collector) -> Result<()> {
        if self.fired_to > self.deleted_to {
            for &group in &self.stored_groups {
                for side in 0..2 {
                    delete_before(context.state, KeyGroup(group), side, self.fired_to.saturating_add(1));
                }
            }
            self.deleted_to = self.fired_to;
        }
        for (pane, waiting) in &mut self.windows {
            for side in 0..2 {
                for batch in &waiting.sides[side][waiting.stored[side]..] {
                    let (keys, _) = key_columns(batch, &self.step.keys, side);
                    let groups = groups_of(&keys, batch.num_rows(), context.state.group_count());
                    let rows = self.codecs[side].encode(batch, &vec![false; batch.num_rows()])?;
                    for (group, row) in groups.into_iter().zip(rows) {
                        context.state.put(StateKind::JoinRows, group, &suffix(side as u8, pane.end, epoch, self.number), row);
                        self.stored_groups.insert(group.0);
                        self.number = self.number.wrapping_add(1);
                    }
                }
                waiting.stored[side] = waiting.sides[side].len();
            }
        }
        let millis = self.watermark.time().as_millis().to_be_bytes().to_vec();
        for group in context.state.groups() {
            context.state.put(StateKind::Timers, KeyGroup(group), WATERMARK, millis.clone());
        }
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        self.windows.values().flat_map(|waiting| waiting.sides.iter().flatten()).map(RecordBatch::get_array_memory_size).sum()
    }
}

impl Joiner {
    /// Puts rows to their windows; gives the late ones.
    fn add(&mut self, side: usize, batch: &RecordBatch, is_stored: bool) -> Result<Option<RecordBatch>> {
        let (start, end) = if side == 0 { self.step.left_window } else { self.step.right_window };
        let (starts, ends) = (times_of(batch.column(start))?, times_of(batch.column(end))?);
        let mut by_window: BTreeMap<Pane, Vec<u32>> = BTreeMap::new();
        let mut late = Vec::new();
        for row in 0..batch.num_rows() {
            let pane = Pane { start: starts.value(row), end: ends.value(row) };
            let is_late = starts.is_null(row) || ends.is_null(row) || (!is_stored && self.step.window.fired(pane.end, self.watermark));
            if is_late { late.push(row as u32) } else { by_window.entry(pane).or_default().push(row as u32) }
        }
        for (pane, rows) in by_window {
            let part = if rows.len() == batch.num_rows() { batch.clone() } else { take_rows(batch, &UInt32Array::from(rows))? };
            let waiting = self.windows.entry(pane).or_default();
            waiting.sides[side].push(part);
            if is_stored {
                waiting.stored[side] = waiting.sides[side].len();
            }
        }
        if late.is_empty() { Ok(None) } else { take_rows(batch, &UInt32Array::from(late)).map(Some) }
    }

    fn fire(&self, waiting: Waiting, out: &mut dyn Collector) -> Result<()> {
        let [left, right] = waiting.sides;
        let left = concat_batches(&self.step.left, &left).map_err(|error| internal("window join", &error))?;
        let right = concat_batches(&self.step.right, &right).map_err(|error| internal("window join", &error))?;
        let mut matched = [vec![false; left.num_rows()], vec![false; right.num_rows()]];
        let candidates = self.candidates(&left, &right)?;
        for chunk in candidates.chunks(CHUNK) {
            let (l, r): (Vec<u32>, Vec<u32>) = chunk.iter().copied().unzip();
            let (left_rows, right_rows) = (take_rows(&left, &UInt32Array::from(l))?, take_rows(&right, &UInt32Array::from(r))?);
            let (batch, mask) = pairs(&left_rows, &right_rows, self.step.residual.as_ref(), &self.pair_schema)?;
            for (index, (l, r)) in chunk.iter().enumerate() {
                if mask.as_ref().is_none_or(|mask| mask.is_valid(index) && mask.value(index)) {
                    matched[0][*l as usize] = true;
                    matched[1][*r as usize] = true;
                }
            }
            if !matches!(self.step.kind, JoinKind::Semi | JoinKind::Anti) {
                let rows = masked(&batch, mask.as_ref())?;
                if rows.num_rows() > 0 {
                    out.batch(rows.with_schema(Arc::clone(&self.step.schema)).map_err(|error| internal("window join", &error))?)?;
                }
            }
        }
        for (side, (rows, other)) in [(&left, &self.step.right), (&right, &self.step.left)].into_iter().enumerate() {
            let wanted = if self.step.kind == JoinKind::Semi && side == 0 { Some(true) } else { self.step.kind.keeps(side).then_some(false) };
            let Some(wanted) = wanted else { continue };
            let alone: UInt32Array = (0..rows.num_rows() as u32).filter(|&row| matched[side][row as usize] == wanted).collect();
            if !alone.is_empty() {
                out.batch(padded(&take_rows(rows, &alone)?, side, other, &self.step.schema)?)?;
            }
        }
        Ok(())
    }

    /// Pairs of rows with equal keys.
    fn candidates(&self, left: &RecordBatch, right: &RecordBatch) -> Result<Vec<(u32, u32)>> {
        let ((left_keys, left_ok), (right_keys, right_ok)) = (key_columns(left, &self.step.keys, 0), key_columns(right, &self.step.keys, 1));
        if self.step.keys.is_empty() {
            return Ok((0..left.num_rows() as u32).flat_map(|l| (0..right.num_rows() as u32).map(move |r| (l, r))).collect());
        }
        let fields = left_keys.iter().map(|column| SortField::new(column.data_type().clone())).collect();
        let fault = |error| internal("window join", &error);
        let converter = RowConverter::new(fields).map_err(fault)?;
        let right_keys = right_keys.into_iter().zip(&left_keys).map(|(column, like)| crate::expressions::conform(column, like.data_type())).collect::<Result<Vec<_>, _>>().map_err(|error| internal("window join", &error))?;
        let (left_rows, right_rows) = (converter.convert_columns(&left_keys).map_err(fault)?, converter.convert_columns(&right_keys).map_err(fault)?);
        let mut by_key: HashMap<&[u8], Vec<u32>> = HashMap::new();
        for row in (0..right.num_rows()).filter(|&row| right_ok[row]) {
            by_key.entry(right_rows.row(row).data()).or_default().push(row as u32);
        }
        let mut found = Vec::new();
        for row in (0..left.num_rows()).filter(|&row| left_ok[row]) {
            if let Some(partners) = by_key.get(left_rows.row(row).data()) {
                found.extend(partners.iter().map(|&partner| (row as u32, partner)));
            }
        }
        Ok(found)
    }
}
