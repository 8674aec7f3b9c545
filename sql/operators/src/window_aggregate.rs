//! Window aggregation: one row per window and key, when the window closes.
//!
//! Promises: a window is emitted when the watermark reaches its last millisecond, never before, never twice, also across
//! a restart. A row that is late for one window counts in the later ones that hold it. The cost of a fire is that of the
//! rows it writes, whatever size/slide is. Leaves to others: the meaning of aggregates (`aggregates`), storage (`panes`).
//!
//! TUMBLE and attached windows: a window is one pane; firing evaluates its entries and drops them.
//! HOP: each key keeps the panes of the current window as two stacks: `front` holds, for each old pane, the aggregate
//! from it up to the newest pane at the time of the flip; `back` is one running aggregate of the panes since. A window's
//! value is `front.top + back`; when the oldest pane leaves, the top is popped; when the front is empty, the panes of
//! the back are flipped over. Each pane is merged a constant number of times, whatever the size.
//! CUMULATE: `back` alone, emptied where the longest window ends.
//!
//! size 4, slide 1, panes a b c d e:   after d: back = abcd      e enters, a leaves: flip → front d, cd, bcd; back = e
//!                                     value = bcd + e           next: b leaves → front d, cd; …

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, RecordBatch},
    datatypes::{DataType, SchemaRef},
};
use pelton_core::{
    error::Result,
    key_group::KeyGroup,
    operator::{Collector, Operator, OperatorContext, OperatorFactory},
    position::Epoch,
    state::StateKind,
    time::{EventTime, Watermark},
};

use crate::{
    aggregates::AggregateCall,
    expressions::{conform, internal},
    panes::{Pane, Panes},
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

impl OperatorFactory for WindowAggregate {
    fn create(&self, _worker: usize, _workers: usize) -> Result<Box<dyn Operator>> {
        let key_types: Vec<DataType> = self.keys.iter().map(|&key| self.input.field(key).data_type().clone()).collect();
        // The number of key groups is known once the operator is opened; the panes are made anew then.
        let panes = Panes::new(&key_types, &self.aggregates, pelton_core::key_group::DEFAULT_KEY_GROUPS)?;
        Ok(Box::new(Aggregator {
            step: self.clone(),
            key_types,
            panes,
            watermark: Watermark::MIN,
            last_end: i64::MIN,
            sliding: Vec::new(),
            live: Vec::new(),
            stale: Vec::new(),
            pane_buffer: Vec::new(),
        }))
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// A key's panes of the current HOP or CUMULATE window.
#[derive(Debug, Default)]
struct Sliding {
    /// Oldest pane last: its end, and the aggregate from it up to the flip.
    front: Vec<(i64, u32)>,
    /// Running aggregate of the panes since the flip.
    back: Option<u32>,
    /// Ends of those panes, oldest first.
    back_panes: Vec<i64>,
    is_live: bool,
    /// A row came for a pane that had entered already: rebuild before the next fire.
    is_stale: bool,
}

struct Aggregator {
    // Fixed at start.
    step: WindowAggregate,
    key_types: Vec<DataType>,
    // Changing.
    panes: Panes,
    watermark: Watermark,
    /// HOP and CUMULATE: end of the last window that fired.
    last_end: i64,
    /// By key id.
    sliding: Vec<Sliding>,
    /// Keys whose sliding state is not empty.
    live: Vec<u32>,
    stale: Vec<u32>,
    // Buffers.
    pane_buffer: Vec<Pane>,
}

/// Rows of one output batch at most.
const BATCH_ROWS: usize = 8192;

impl Operator for Aggregator {
    fn open(&mut self, context: &mut OperatorContext<'_>) -> Result<()> {
        self.panes = Panes::new(&self.key_types, &self.step.aggregates, context.state.group_count())?;
        self.panes.restore(context.state)?;
        for group in context.state.groups() {
            if let Some(value) = context.state.get(StateKind::Timers, KeyGroup(group), WATERMARK)?
                && let Some((watermark, rest)) = value.split_first_chunk::<8>()
                && let Some((last_end, _)) = rest.split_first_chunk::<8>()
            {
                self.watermark = self.watermark.max(Watermark::at(EventTime::from_millis(i64::from_be_bytes(*watermark))));
                self.last_end = self.last_end.max(i64::from_be_bytes(*last_end));
            }
        }
        if self.is_sliding() {
            self.grow_sliding();
            for id in 0..self.panes.keys.capacity() as u32 {
                self.mark_stale(id);
            }
        }
        Ok(())
    }

    fn process(&mut self, _port: usize, batch: RecordBatch, context: &mut OperatorContext<'_>, _out: &mut dyn Collector) -> Result<()> {
        let mut panes = std::mem::take(&mut self.pane_buffer);
        let late = self.assign(&batch, &mut panes)?;
        let batch = if late.is_empty() { batch } else { self.without_late(&batch, &late, &mut panes, context)? };
        if !panes.is_empty() {
            let keys: Vec<ArrayRef> = self.step.keys.iter().map(|&key| Arc::clone(batch.column(key))).collect();
            let arguments = self.panes.set.arguments(&batch)?;
            let (sliding, last_end) = (self.is_sliding(), self.last_end);
            let mut touched = Vec::new();
            self.panes.add(&keys, &panes, &arguments, |pane| sliding && pane.end <= last_end, &mut touched)?;
            if sliding {
                self.grow_sliding();
                touched.into_iter().for_each(|id| self.mark_stale(id));
            }
        }
        self.pane_buffer = panes;
        Ok(())
    }

    fn watermark(&mut self, watermark: Watermark, _context: &mut OperatorContext<'_>, out: &mut dyn Collector) -> Result<()> {
        self.watermark = self.watermark.max(watermark);
        if self.is_sliding() { self.fire_sliding(out)? } else { self.fire_whole(out)? }
        out.watermark(watermark)
    }

    fn barrier(&mut self, epoch: Epoch, context: &mut OperatorContext<'_>, _out: &mut dyn Collector) -> Result<()> {
        self.panes.store(epoch, context.state)?;
        let mut value = self.watermark.time().as_millis().to_be_bytes().to_vec();
        value.extend_from_slice(&self.last_end.to_be_bytes());
        for group in context.state.groups() {
            context.state.put(StateKind::Timers, KeyGroup(group), WATERMARK, value.clone());
        }
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        self.panes.memory_bytes() + self.sliding.capacity() * size_of::<Sliding>()
    }
}

/// Key (kind `timers`, every owned group) of `watermark (8) · end of the last fired window (8)`.
const WATERMARK: &[u8] = b"watermark";

impl Aggregator {
    fn is_sliding(&self) -> bool {
        matches!(self.step.windowing, Windowing::Time { .. }) && !matches!(self.step.window.kind, WindowKind::Tumble { .. })
    }

    fn grow_sliding(&mut self) {
        if self.sliding.len() < self.panes.keys.capacity() {
            self.sliding.resize_with(self.panes.keys.capacity(), Sliding::default);
        }
    }

    fn mark_stale(&mut self, id: u32) {
        let sliding = &mut self.sliding[id as usize];
        if !std::mem::replace(&mut sliding.is_stale, true) {
            self.stale.push(id);
        }
        if !std::mem::replace(&mut sliding.is_live, true) {
            self.live.push(id);
        }
    }

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
                for row in 0..times.len() {
                    if times.is_null(row) {
                        late.push(row as u32);
                        panes.push(Pane { end: 0, start: 0 });
                        continue;
                    }
                    let time = spec.to_axis(times.value(row));
                    let (pane, is_late) = match last {
                        Some((pane, is_late)) if pane.start <= time && time < pane.end => (pane, is_late),
                        _ => {
                            let start = spec.pane_start(time);
                            let pane = Pane { start, end: start.saturating_add(length) };
                            (pane, spec.fired(spec.last_end(start), self.watermark))
                        }
                    };
                    last = Some((pane, is_late));
                    if is_late {
                        late.push(row as u32);
                    }
                    panes.push(pane);
                }
            }
            Windowing::Attached { start, end } => {
                let (starts, ends) = (times_of(batch.column(start))?, times_of(batch.column(end))?);
                for row in 0..starts.len() {
                    let pane = Pane { start: starts.value(row), end: ends.value(row) };
                    if starts.is_null(row) || ends.is_null(row) || spec.fired(pane.end, self.watermark) {
                        late.push(row as u32);
                    }
                    panes.push(pane);
                }
            }
        }
        Ok(late)
    }

    fn without_late(&self, batch: &RecordBatch, late: &[u32], panes: &mut Vec<Pane>, context: &mut OperatorContext<'_>) -> Result<RecordBatch> {
        let mut is_late = vec![false; batch.num_rows()];
        late.iter().for_each(|&row| is_late[row as usize] = true);
        let kept: arrow::array::UInt32Array = (0..batch.num_rows() as u32).filter(|&row| !is_late[row as usize]).collect();
        context.late.push(crate::expressions::take_rows(batch, &late.to_vec().into())?);
        let mut row = 0;
        panes.retain(|_| {
            row += 1;
            !is_late[row - 1]
        });
        crate::expressions::take_rows(batch, &kept)
    }

    /// TUMBLE and attached windows: every pane whose end has passed.
    fn fire_whole(&mut self, out: &mut dyn Collector) -> Result<()> {
        while let Some(pane) = self.panes.first().filter(|pane| self.step.window.fired(pane.end, self.watermark)) {
            let keys = self.panes.keys_in(pane).to_vec();
            let (mut slots, mut merges) = (Vec::with_capacity(keys.len()), Vec::new());
            for &id in &keys {
                let mut parts = self.panes.parts(id, pane);
                let first = parts.next().unwrap_or_default();
                merges.extend(parts.map(|other| (first, other)));
                slots.push(first);
            }
            self.panes.set.merge(&merges)?;
            self.emit(&keys, &slots, pane.start, pane.end, true, out)?;
            for id in self.panes.drop_pane(pane) {
                if self.panes.is_gone(id) {
                    self.panes.keys.release(id);
                }
            }
        }
        Ok(())
    }

    /// HOP and CUMULATE: every window end that has passed, edge by edge.
    fn fire_sliding(&mut self, out: &mut dyn Collector) -> Result<()> {
        let spec = self.step.window;
        let step = spec.pane_ms();
        loop {
            // The next edge with something to say: the one after the last if a key is live, else the first pane's end.
            let next_pane = self.panes.first_from(self.last_end.saturating_add(1)).map(|pane| pane.end);
            let end = match (self.live.is_empty(), next_pane) {
                (false, _) if self.last_end > i64::MIN => self.last_end.saturating_add(step),
                (_, Some(end)) => end,
                (_, None) => break,
            };
            if !spec.fired(end, self.watermark) {
                break;
            }
            self.slide_to(end, out)?;
            self.last_end = end;
        }
        // Edges without keys have fired too: a row that comes later is late for them.
        if self.live.is_empty() && self.watermark > Watermark::MIN && self.watermark < Watermark::MAX {
            let passed = spec.to_axis(self.watermark.time().as_millis()).saturating_add(1);
            self.last_end = self.last_end.max(spec.pane_start(passed));
        }
        Ok(())
    }

    /// Lets the pane that ends at `end` enter, old ones leave, and emits the window that ends there.
    fn slide_to(&mut self, end: i64, out: &mut dyn Collector) -> Result<()> {
        let spec = self.step.window;
        let step = spec.pane_ms();
        let pane = Pane { end, start: end.saturating_sub(step) };
        // Panes that end at or before this have left.
        let (left, window_start) = match spec.kind {
            WindowKind::Cumulate { .. } => {
                let start = spec.long_start(pane.start);
                (start, start)
            }
            _ => (end.saturating_sub(spec.size_ms()), end.saturating_sub(spec.size_ms())),
        };
        for id in std::mem::take(&mut self.stale) {
            self.rebuild(id, left, end.saturating_sub(step))?;
        }
        self.enter(pane)?;
        self.leave(left)?;
        // Value of each live key: front.top + back.
        let live = std::mem::take(&mut self.live);
        let (mut keys, mut slots, mut merges, mut temporary) = (Vec::with_capacity(live.len()), Vec::with_capacity(live.len()), Vec::new(), Vec::new());
        for id in live {
            let sliding = &mut self.sliding[id as usize];
            let slot = match (sliding.front.last(), sliding.back) {
                (Some(&(_, top)), Some(back)) => {
                    let sum = self.panes.set.allocate();
                    merges.extend([(sum, top), (sum, back)]);
                    temporary.push(sum);
                    sum
                }
                (Some(&(_, top)), None) => top,
                (None, Some(back)) => back,
                (None, None) => {
                    sliding.is_live = false;
                    continue;
                }
            };
            keys.push(id);
            slots.push(slot);
        }
        self.panes.set.merge(&merges)?;
        self.emit(&keys, &slots, window_start, end, false, out)?;
        temporary.into_iter().for_each(|slot| self.panes.set.release(slot));
        self.live = keys;
        self.forget(left, end)
    }

    fn enter(&mut self, pane: Pane) -> Result<()> {
        let keys = self.panes.keys_in(pane).to_vec();
        let mut merges = Vec::with_capacity(keys.len());
        for id in keys {
            let back = match self.sliding[id as usize].back {
                Some(back) => back,
                None => {
                    let slot = self.panes.set.allocate();
                    self.sliding[id as usize].back = Some(slot);
                    slot
                }
            };
            merges.extend(self.panes.parts(id, pane).map(|part| (back, part)));
            let sliding = &mut self.sliding[id as usize];
            sliding.back_panes.push(pane.end);
            if !std::mem::replace(&mut sliding.is_live, true) {
                self.live.push(id);
            }
        }
        self.panes.set.merge(&merges)
    }

    /// Panes that end at or before `left` leave every live key.
    fn leave(&mut self, left: i64) -> Result<()> {
        let mut merges = Vec::new();
        for index in 0..self.live.len() {
            let id = self.live[index];
            let sliding = &mut self.sliding[id as usize];
            while let Some((_, slot)) = sliding.front.pop_if(|(end, _)| *end <= left) {
                self.panes.set.release(slot);
            }
            let oldest = sliding.back_panes.first().copied();
            if sliding.front.is_empty() && oldest.is_some_and(|end| end <= left) {
                self.flip(id, left, &mut merges);
            }
        }
        self.panes.set.merge(&merges)
    }

    /// Turns the back's panes that remain into the front.
    fn flip(&mut self, id: u32, left: i64, merges: &mut Vec<(u32, u32)>) {
        let sliding = &mut self.sliding[id as usize];
        let ends: Vec<i64> = std::mem::take(&mut sliding.back_panes).into_iter().filter(|end| *end > left).collect();
        if let Some(back) = sliding.back.take() {
            self.panes.set.release(back);
        }
        let step = self.step.window.pane_ms();
        let mut newer: Option<u32> = None;
        for end in ends.into_iter().rev() {
            let slot = self.panes.set.allocate();
            let pane = Pane { end, start: end.saturating_sub(step) };
            merges.extend(self.panes.parts(id, pane).map(|part| (slot, part)));
            merges.extend(newer.map(|newer| (slot, newer)));
            self.sliding[id as usize].front.push((end, slot));
            newer = Some(slot);
        }
    }

    /// Builds a key's sliding state anew from its panes that end in `(left, to]`.
    fn rebuild(&mut self, id: u32, left: i64, to: i64) -> Result<()> {
        self.sliding[id as usize].is_stale = false;
        self.empty(id);
        let ends: Vec<i64> = self.panes.panes_of(id).map(|pane| pane.end).filter(|end| *end > left && *end <= to).collect();
        if ends.is_empty() {
            return Ok(());
        }
        let step = self.step.window.pane_ms();
        let back = self.panes.set.allocate();
        let merges: Vec<_> = ends.iter().flat_map(|&end| self.panes.parts(id, Pane { end, start: end.saturating_sub(step) })).map(|part| (back, part)).collect();
        self.panes.set.merge(&merges)?;
        let sliding = &mut self.sliding[id as usize];
        sliding.back = Some(back);
        sliding.back_panes = ends;
        Ok(())
    }

    fn empty(&mut self, id: u32) {
        let sliding = &mut self.sliding[id as usize];
        for (_, slot) in sliding.front.drain(..) {
            self.panes.set.release(slot);
        }
        if let Some(back) = sliding.back.take() {
            self.panes.set.release(back);
        }
        sliding.back_panes.clear();
    }

    /// Drops panes that no later window holds, and keys that have nothing left.
    fn forget(&mut self, left: i64, end: i64) -> Result<()> {
        let spec = self.step.window;
        // CUMULATE: once the longest window has fired, nothing of it is needed.
        let done = match spec.kind {
            WindowKind::Cumulate { size_ms, .. } if end == left.saturating_add(size_ms) => end,
            WindowKind::Cumulate { .. } => left,
            // The pane that leaves with the next edge is not needed by it.
            _ => left.saturating_add(spec.pane_ms()),
        };
        while let Some(pane) = self.panes.first().filter(|pane| pane.end <= done) {
            for id in self.panes.drop_pane(pane) {
                let sliding = &mut self.sliding[id as usize];
                if matches!(spec.kind, WindowKind::Cumulate { .. }) && end == done {
                    self.empty(id);
                } else {
                    while let Some((_, slot)) = sliding.front.pop_if(|(end, _)| *end <= done) {
                        self.panes.set.release(slot);
                    }
                    if sliding.front.is_empty() && sliding.back_panes.first().is_some_and(|end| *end <= done) {
                        let mut merges = Vec::new();
                        self.flip(id, done, &mut merges);
                        self.panes.set.merge(&merges)?;
                    }
                }
                if self.panes.is_gone(id) {
                    // The id may stay in `live`: it holds nothing, and the next edge takes it out.
                    self.empty(id);
                    self.panes.keys.release(id);
                }
            }
        }
        Ok(())
    }

    fn emit(&mut self, keys: &[u32], slots: &[u32], start: i64, end: i64, consume: bool, out: &mut dyn Collector) -> Result<()> {
        for (keys, slots) in keys.chunks(BATCH_ROWS).zip(slots.chunks(BATCH_ROWS)) {
            let mut columns = self.panes.keys.columns(keys)?;
            columns.extend(self.panes.set.evaluate(slots, consume)?);
            for edge in &self.step.edges {
                let field = self.step.schema.field(columns.len());
                let value = match edge {
                    WindowEdge::Start => start,
                    WindowEdge::End => end,
                    WindowEdge::Time => window_time(&self.step.window, end),
                };
                columns.push(typed(vec![value; keys.len()], field.data_type()));
            }
            let columns = columns.into_iter().zip(self.step.schema.fields()).map(|(column, field)| conform(column, field.data_type()));
            let columns = columns.collect::<Result<Vec<_>, _>>().map_err(|error| internal("window", &error))?;
            let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(keys.len()));
            let batch = RecordBatch::try_new_with_options(Arc::clone(&self.step.schema), columns, &options).map_err(|error| internal("window", &error))?;
            if batch.num_rows() > 0 {
                out.batch(batch)?;
            }
        }
        Ok(())
    }
}
