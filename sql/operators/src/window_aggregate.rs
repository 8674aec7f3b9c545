//! Window aggregation: one row per window and key, when the window closes.
//!
//! Promises: a window is emitted when the watermark reaches its last millisecond, never before, never twice, also across
//! a restart. A row that is late for one window counts in the later ones that hold it; a row that is late for all of
//! them goes to the context's `late`. Rows of a window leave in key order (key group, then key), however they came.
//! Leaves to others: the meaning of aggregates (`aggregates`), panes in memory and state (`panes`, `pane_store`), windows
//! that share panes (`sliding`).
//!
//! TUMBLE and attached windows: a window is one pane; firing evaluates its entries and drops them.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array},
    compute::concat_batches,
    datatypes::{DataType, SchemaRef},
};
use pelton_core::{
    error::Result,
    key_group::{DEFAULT_KEY_GROUPS, KeyGroup},
    operator::{Collector, Operator, OperatorContext, OperatorFactory},
    position::Epoch,
    state::{StateHandle, StateKind},
    time::{EventTime, Watermark},
};

use crate::{
    aggregates::{AggregateCall, Part},
    expressions::{conform, internal, take_rows},
    panes::{Latecomer, NONE, Pane, Panes},
    sliding::Sliding,
    window::{WindowKind, WindowSpec},
    window_assign::{times_of, typed, window_time},
};

/// Where a row's window comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Windowing {
    /// From its event time.
    Time {
        /// The time attribute's column.
        column: usize,
    },
    /// It stands in the row (a join or an aggregate before this step has put it there).
    Attached {
        /// `window_start`.
        start: usize,
        /// `window_end`.
        end: usize,
    },
}

/// A window column of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowEdge {
    /// `window_start`.
    Start,
    /// `window_end`.
    End,
    /// `window_time`, the last millisecond.
    Time,
}

/// GROUP BY window and keys.
#[derive(Debug, Clone)]
pub struct WindowAggregate {
    /// The windows; of attached ones only the zone matters.
    pub window: WindowSpec,
    /// Where they come from.
    pub windowing: Windowing,
    /// Key columns of the input. The exchange in front goes by the same.
    pub keys: Vec<usize>,
    /// Aggregates over the input.
    pub aggregates: Vec<AggregateCall>,
    /// Window columns to emit.
    pub edges: Vec<WindowEdge>,
    /// Columns it takes.
    pub input: SchemaRef,
    /// Columns it emits: keys, aggregates, edges.
    pub schema: SchemaRef,
}

impl WindowAggregate {
    fn shares_panes(&self) -> bool {
        matches!(self.windowing, Windowing::Time { .. }) && !matches!(self.window.kind, WindowKind::Tumble { .. })
    }

    fn panes(&self, group_count: u16) -> Result<Panes> {
        let key_types: Vec<DataType> = self.keys.iter().map(|&key| self.input.field(key).data_type().clone()).collect();
        Panes::new(&key_types, &self.aggregates, self.shares_panes(), group_count)
    }
}

impl OperatorFactory for WindowAggregate {
    fn create(&self, _worker: usize, _workers: usize) -> Result<Box<dyn Operator>> {
        // The number of key groups is known once the operator is opened; the panes are made anew then.
        let panes = self.panes(DEFAULT_KEY_GROUPS)?;
        let sliding = self.shares_panes().then(|| Sliding::new(&self.window, panes.set.has(Part::Rest)));
        Ok(Box::new(Aggregator {
            step: self.clone(),
            budget: usize::MAX,
            panes,
            sliding,
            watermark: Watermark::MIN,
            written: None,
            pane_buffer: Vec::new(),
            latecomers: Vec::new(),
        }))
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

struct Aggregator {
    // Fixed at start.
    step: WindowAggregate,
    budget: usize,
    // Changing.
    panes: Panes,
    /// HOP and CUMULATE.
    sliding: Option<Sliding>,
    watermark: Watermark,
    /// What the last barrier wrote of the watermark and the last window.
    written: Option<[u8; 16]>,
    // Buffers.
    pane_buffer: Vec<Pane>,
    latecomers: Vec<Latecomer>,
}

/// Key (kind `timers`, every owned group) of `watermark (8) · end of the last fired window (8)`.
const WATERMARK: &[u8] = b"watermark";

impl Operator for Aggregator {
    fn open(&mut self, context: &mut OperatorContext<'_>) -> Result<()> {
        self.panes = self.step.panes(context.state.group_count())?;
        let mut last_end = i64::MIN;
        for group in context.state.groups() {
            if let Some(value) = context.state.get(StateKind::Timers, KeyGroup(group), WATERMARK)?
                && let Some((watermark, rest)) = value.split_first_chunk::<8>()
                && let Some((last, _)) = rest.split_first_chunk::<8>()
            {
                self.watermark = self.watermark.max(Watermark::at(EventTime::from_millis(i64::from_be_bytes(*watermark))));
                last_end = last_end.max(i64::from_be_bytes(*last));
            }
        }
        match &mut self.sliding {
            Some(sliding) => sliding.restore(last_end, &mut self.panes, self.budget, context.state),
            None => self.panes.register(context.state),
        }
    }

    fn process(&mut self, _port: usize, batch: RecordBatch, context: &mut OperatorContext<'_>, _out: &mut dyn Collector) -> Result<()> {
        let mut panes = std::mem::take(&mut self.pane_buffer);
        let late = self.assign(&batch, &mut panes)?;
        let batch = if late.is_empty() { batch } else { without_late(&batch, &late, &mut panes, context)? };
        if !panes.is_empty() {
            let keys: Vec<ArrayRef> = self.step.keys.iter().map(|&key| Arc::clone(batch.column(key))).collect();
            let arguments = self.panes.set.arguments(&batch)?;
            let entered = self.sliding.as_ref().map_or(i64::MIN, Sliding::last_end);
            self.latecomers.clear();
            self.panes.add(&keys, &panes, &arguments, entered, &mut self.latecomers)?;
            if let Some(sliding) = self.sliding.as_mut().filter(|_| !self.latecomers.is_empty()) {
                sliding.add_late(&self.latecomers, &arguments, &mut self.panes)?;
            }
        }
        self.pane_buffer = panes;
        Ok(())
    }

    fn watermark(&mut self, watermark: Watermark, context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<()> {
        self.watermark = self.watermark.max(watermark);
        let mut emission = Emission { step: &self.step, held: Vec::new(), rows: 0 };
        match &mut self.sliding {
            Some(sliding) => sliding.fire(self.watermark, &mut self.panes, &mut emission, context.state, out)?,
            None => fire_whole(self.watermark, &mut self.panes, &mut emission, context.state, out)?,
        }
        emission.flush(out)?;
        out.watermark(watermark)
    }

    fn barrier(&mut self, epoch: Epoch, context: &mut OperatorContext<'_>, _out: &mut dyn Collector) -> Result<()> {
        self.panes.write(epoch, context.state)?;
        let mut value = [0; 16];
        value[..8].copy_from_slice(&self.watermark.time().as_millis().to_be_bytes());
        value[8..].copy_from_slice(&self.sliding.as_ref().map_or(i64::MIN, Sliding::last_end).to_be_bytes());
        if self.written != Some(value) {
            for group in context.state.groups() {
                context.state.put(StateKind::Timers, KeyGroup(group), WATERMARK, value.to_vec());
            }
            self.written = Some(value);
        }
        if self.memory_bytes() > self.budget {
            self.panes.unload(epoch);
            if let Some(sliding) = &mut self.sliding {
                sliding.unload(&mut self.panes)?;
            }
        }
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        self.panes.memory_bytes() + self.sliding.as_ref().map_or(0, Sliding::memory_bytes)
    }

    fn set_memory_budget(&mut self, bytes: usize) {
        self.budget = bytes;
    }
}

impl Aggregator {
    /// The pane of each row; gives the rows that are late for every window that holds them.
    fn assign(&self, batch: &RecordBatch, panes: &mut Vec<Pane>) -> Result<Vec<u32>> {
        panes.clear();
        let spec = &self.step.window;
        let mut late = Vec::new();
        match self.step.windowing {
            Windowing::Time { column } => {
                let times = times_of(batch.column(column))?;
                let length = spec.pane_ms();
                // Neighbouring rows mostly share a pane: look the last one up first.
                let mut last: Option<(Pane, bool)> = None;
                for (row, &time) in times.values().iter().enumerate() {
                    let time = spec.axis_of(time);
                    let (pane, is_late) = match last {
                        Some((pane, is_late)) if pane.start <= time && time < pane.end => (pane, is_late),
                        _ => {
                            let start = spec.pane_start(time);
                            let pane = Pane { start, end: start.saturating_add(length) };
                            (pane, spec.fired(spec.last_end(start), self.watermark))
                        }
                    };
                    last = Some((pane, is_late));
                    // A row without a time is in no window.
                    if is_late || times.is_null(row) {
                        late.push(row as u32);
                    }
                    panes.push(pane);
                }
            }
            Windowing::Attached { start, end } => {
                let (starts, ends) = (times_of(batch.column(start))?, times_of(batch.column(end))?);
                let mut last: Option<(i64, bool)> = None;
                for row in 0..starts.len() {
                    let pane = Pane { start: starts.value(row), end: ends.value(row) };
                    let is_late = match last {
                        Some((end, is_late)) if end == pane.end => is_late,
                        _ => spec.fired(pane.end, self.watermark),
                    };
                    last = Some((pane.end, is_late));
                    if is_late || starts.is_null(row) || ends.is_null(row) {
                        late.push(row as u32);
                    }
                    panes.push(pane);
                }
            }
        }
        Ok(late)
    }

}

/// TUMBLE and attached windows: every pane whose end has passed.
fn fire_whole(watermark: Watermark, panes: &mut Panes, emission: &mut Emission<'_>, state: &StateHandle, out: &mut dyn Collector) -> Result<()> {
    while let Some(pane) = panes.first_from(i64::MIN).filter(|pane| emission.step.window.fired(pane.end, watermark)) {
        let paged = panes.entries(pane).map(|entries| entries.paged.clone()).unwrap_or_default();
        let resident: Vec<(u32, u32)> = panes.parts(pane).collect();
        if paged.is_empty() {
            fire_parts(resident, pane, panes, emission, out)?;
        } else {
            // Group by group, so that only one of them must be in memory at once.
            let mut by_group: BTreeMap<KeyGroup, Vec<(u32, u32)>> = paged.iter().map(|group| (group, Vec::new())).collect();
            for (id, slot) in resident {
                by_group.entry(panes.keys.group(id)).or_default().push((id, slot));
            }
            for (group, mut parts) in by_group {
                let read = panes.read_pane(group, pane, state)?;
                parts.extend_from_slice(&read);
                fire_parts(parts, pane, panes, emission, out)?;
                panes.give_back(read);
            }
        }
        panes.drop_pane(pane);
    }
    Ok(())
}

/// Emits what parts of keys make up together; uses the slots up.
fn fire_parts(mut parts: Vec<(u32, u32)>, pane: Pane, panes: &mut Panes, emission: &mut Emission<'_>, out: &mut dyn Collector) -> Result<()> {
    if parts.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
        parts.sort_by_key(|(id, _)| *id);
    }
    let (mut keys, mut slots, mut merges): (Vec<u32>, Vec<u32>, _) = (Vec::with_capacity(parts.len()), Vec::with_capacity(parts.len()), Vec::new());
    for (id, slot) in parts {
        match slots.last() {
            Some(&whole) if keys.last() == Some(&id) => merges.push((whole, slot)),
            _ => {
                keys.push(id);
                slots.push(slot);
            }
        }
    }
    panes.set.merge(&merges, Part::All)?;
    let order = panes.keys.order(&keys);
    let (keys, slots): (Vec<u32>, Vec<u32>) = order.into_iter().map(|position| (keys[position as usize], slots[position as usize])).unzip();
    let rows = Fired { window: (pane.start, pane.end), keys: &keys, linear: &slots, rest: &slots, consume: true, columns: None };
    emission.emit(&rows, panes, out)
}

fn without_late(batch: &RecordBatch, late: &[u32], panes: &mut Vec<Pane>, context: &mut OperatorContext<'_>) -> Result<RecordBatch> {
    let mut is_late = vec![false; batch.num_rows()];
    late.iter().for_each(|&row| is_late[row as usize] = true);
    let kept: UInt32Array = (0..batch.num_rows() as u32).filter(|&row| !is_late[row as usize]).collect();
    context.late.push(take_rows(batch, &late.to_vec().into())?);
    let mut row = 0;
    panes.retain(|_| {
        row += 1;
        !is_late[row - 1]
    });
    take_rows(batch, &kept)
}

/// Keys of a window that fires, and where their values are; columns side by side.
pub(crate) struct Fired<'a> {
    pub(crate) window: (i64, i64),
    pub(crate) keys: &'a [u32],
    /// Slots of linear aggregates.
    pub(crate) linear: &'a [u32],
    /// Slots of the others.
    pub(crate) rest: &'a [u32],
    /// Whether the content of `rest` may be used up: the slots are released right after.
    pub(crate) consume: bool,
    /// The keys as columns, if they are at hand.
    pub(crate) columns: Option<&'a [ArrayRef]>,
}

/// Makes output rows. Windows that fire one after the other share batches: what stands behind then works on many rows.
pub(crate) struct Emission<'a> {
    pub(crate) step: &'a WindowAggregate,
    held: Vec<RecordBatch>,
    rows: usize,
}

/// Rows of one output batch at most.
pub(crate) const BATCH_ROWS: usize = 8192;

impl Emission<'_> {
    /// One row per key.
    pub(crate) fn emit(&mut self, fired: &Fired<'_>, panes: &mut Panes, out: &mut dyn Collector) -> Result<()> {
        let mut begin = 0;
        while begin < fired.keys.len() {
            let rows = (fired.keys.len() - begin).min(BATCH_ROWS);
            let batch = self.rows_of(fired, begin, rows, panes)?;
            if self.rows + rows > BATCH_ROWS {
                self.flush(out)?;
            }
            self.held.push(batch);
            self.rows += rows;
            begin += rows;
        }
        Ok(())
    }

    fn rows_of(&self, fired: &Fired<'_>, begin: usize, rows: usize, panes: &mut Panes) -> Result<RecordBatch> {
        let range = begin..begin + rows;
        let mut columns = match fired.columns {
            Some(columns) => columns.iter().map(|column| column.slice(begin, rows)).collect(),
            None => panes.keys.columns(&fired.keys[range.clone()])?,
        };
        columns.extend(panes.set.evaluate(&fired.linear[range.clone()], fired.rest.get(range).unwrap_or_default(), fired.consume)?);
        for edge in &self.step.edges {
            let field = self.step.schema.field(columns.len());
            let value = match edge {
                WindowEdge::Start => fired.window.0,
                WindowEdge::End => fired.window.1,
                WindowEdge::Time => window_time(&self.step.window, fired.window.1),
            };
            columns.push(typed(vec![value; rows], field.data_type()));
        }
        let columns = columns.into_iter().zip(self.step.schema.fields()).map(|(column, field)| conform(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(|error| internal("window", &error))?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.step.schema), columns, &options).map_err(|error| internal("window", &error))
    }

    /// Sends what is held.
    fn flush(&mut self, out: &mut dyn Collector) -> Result<()> {
        self.rows = 0;
        let held = std::mem::take(&mut self.held);
        match held.as_slice() {
            [] => Ok(()),
            [one] => out.batch(one.clone()),
            many => out.batch(concat_batches(&self.step.schema, many).map_err(|error| internal("window", &error))?),
        }
    }
}

/// Marks a key without a running value.
pub(crate) const NO_SLOT: u32 = NONE;
