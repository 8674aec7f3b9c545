//! Windows that share panes: HOP and CUMULATE.
//!
//! Promises: the cost of a fire is that of the rows it writes and of the panes that enter and leave; it does not grow
//! with size/slide. Leaves to others: panes and slots (`panes`), rows (`window_aggregate`).
//!
//! Each key with rows in the current window has a *running total*. A pane enters when its end is an edge that fires.
//! HOP: what can be taken away again (COUNT, exact sums, sets of values) is taken from the total when the pane leaves.
//! The rest (MIN, MAX, floats, percentiles) stands in two stacks: `front` holds, for each old pane, the aggregate from
//! it up to the newest pane at the time of the flip; `back` is one running aggregate of the panes since. A window's
//! value is `front.top + back`; when the oldest pane leaves, the top is popped; when the front is empty, the panes of
//! the back are flipped over. Each pane is merged a constant number of times, whatever the size.
//! CUMULATE: nothing leaves; totals are dropped where the longest window ends.
//!
//! size 4, slide 1, panes a b c d e:   after d: back = abcd      e enters, a leaves: flip → front d, cd, bcd; back = e
//!                                     value = bcd + e           next: b leaves → front d, cd; …
//!
//! While panes of the window are paged (over the memory budget, see `panes`) there are no stacks: the rest is computed
//! from all panes of the window, group by group. That is slow, and holds as long as memory is short.

use arrow::array::{ArrayRef, UInt32Array};
use hashbrown::HashMap;
use pelton_core::{error::Result, key_group::KeyGroup, operator::Collector, state::StateHandle, time::Watermark};

use crate::{
    aggregates::{Arguments, Part},
    panes::{Latecomer, Pane, Panes},
    window::{WindowKind, WindowSpec},
    window_aggregate::{BATCH_ROWS, Emission, Fired, NO_SLOT},
};

/// The running values of a step's keys.
pub(crate) struct Sliding {
    // Fixed at start.
    spec: WindowSpec,
    cumulates: bool,
    /// Whether there are two stacks: HOP with aggregates that cannot be taken away again.
    has_stacks: bool,
    // Changing.
    /// End of the last window that fired; panes up to it have entered.
    last_end: i64,
    /// By key id: the slot of its running total.
    totals: Vec<u32>,
    /// By key id, if there are stacks.
    stacks: Vec<Stacks>,
    /// Keys whose stacks must be built anew before the next fire.
    stale: Vec<u32>,
    /// Keys with a total, in key order if `is_sorted`.
    live: Vec<u32>,
    is_sorted: bool,
    /// The live keys as columns, if they are few.
    columns: Option<Vec<ArrayRef>>,
}

/// A key's panes of the current window, for aggregates that cannot be taken away again.
#[derive(Default)]
struct Stacks {
    /// Oldest pane last: its end, and the aggregate from it up to the flip.
    front: Vec<(i64, u32)>,
    /// Running aggregate of the panes since the flip.
    back: Option<u32>,
    /// Those panes, oldest first: end, and where the key's entry stands.
    entered: Vec<(i64, u32, u32)>,
    is_stale: bool,
}

impl Sliding {
    pub(crate) fn new(spec: &WindowSpec, has_rest: bool) -> Self {
        let cumulates = matches!(spec.kind, WindowKind::Cumulate { .. });
        Self {
            spec: *spec,
            cumulates,
            has_stacks: has_rest && !cumulates,
            last_end: i64::MIN,
            totals: Vec::new(),
            stacks: Vec::new(),
            stale: Vec::new(),
            live: Vec::new(),
            is_sorted: true,
            columns: None,
        }
    }

    pub(crate) fn last_end(&self) -> i64 {
        self.last_end
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.totals.capacity() * 4 + self.live.capacity() * 4 + self.stacks.capacity() * size_of::<Stacks>()
    }

    /// What of a total is kept as it is: the rest is in stacks.
    fn part(&self) -> Part {
        if self.cumulates { Part::All } else { Part::Linear }
    }

    /// Panes that end at or before this have left the window that ends at `end`.
    fn left_of(&self, end: i64) -> i64 {
        match self.spec.kind {
            WindowKind::Cumulate { .. } => self.spec.long_start(end.saturating_sub(self.spec.pane_ms())),
            _ => end.saturating_sub(self.spec.size_ms()),
        }
    }

    fn total(&mut self, id: u32, panes: &mut Panes) -> u32 {
        if self.totals.len() <= id as usize {
            self.totals.resize(panes.keys.capacity(), NO_SLOT);
            if self.has_stacks {
                self.stacks.resize_with(panes.keys.capacity(), Stacks::default);
            }
        }
        let total = &mut self.totals[id as usize];
        if *total == NO_SLOT {
            *total = panes.set.allocate();
            panes.keys.hold(id);
            self.live.push(id);
            self.is_sorted = false;
            self.columns = None;
        }
        *total
    }

    /// Rows of panes that have entered already: they count from now on.
    pub(crate) fn add_late(&mut self, latecomers: &[Latecomer], arguments: &Arguments, panes: &mut Panes) -> Result<()> {
        let rows: UInt32Array = latecomers.iter().map(|late| late.row).collect();
        let slots: Vec<u32> = latecomers.iter().map(|late| self.total(late.key, panes)).collect();
        panes.set.update(&slots, &arguments.of_rows(&rows)?, self.part())?;
        if self.has_stacks {
            latecomers.iter().for_each(|late| self.mark_stale(late.key));
        }
        Ok(())
    }

    fn mark_stale(&mut self, id: u32) {
        if !std::mem::replace(&mut self.stacks[id as usize].is_stale, true) {
            self.stale.push(id);
        }
    }

    /// Goes on from a checkpoint at which the window that ends at `last_end` was the last to fire.
    pub(crate) fn restore(&mut self, last_end: i64, panes: &mut Panes, budget: usize, state: &mut StateHandle) -> Result<()> {
        self.last_end = last_end;
        // CUMULATE: nothing of a long window counts once that has fired.
        let next_left = self.left_of(last_end.saturating_add(self.spec.pane_ms()));
        let part = self.part();
        panes.restore(
            state,
            |panes| panes.memory_bytes() < budget / 2,
            |panes, pane, parts| {
                if pane.end > last_end || pane.end <= next_left {
                    return Ok(());
                }
                let merges: Vec<(u32, u32)> = parts.iter().map(|&(id, slot)| (self.total(id, panes), slot)).collect();
                panes.set.merge(&merges, part)
            },
        )?;
        if self.has_stacks {
            self.live.clone().into_iter().for_each(|id| self.mark_stale(id));
        }
        Ok(())
    }

    /// All entries were let go: stacks over them are of no use, and only the totals are left.
    pub(crate) fn unload(&mut self, panes: &mut Panes) -> Result<()> {
        if self.has_stacks {
            for id in self.live.clone() {
                self.empty(id, panes);
                self.mark_stale(id);
            }
        }
        if panes.set.is_sparse() {
            let totals: Vec<u32> = self.live.iter().map(|&id| self.totals[id as usize]).collect();
            let moved = panes.set.compact(&totals)?;
            self.live.iter().zip(moved).for_each(|(&id, total)| self.totals[id as usize] = total);
        }
        Ok(())
    }

    /// Every window end that has passed, edge by edge.
    pub(crate) fn fire(&mut self, watermark: Watermark, panes: &mut Panes, emission: &mut Emission<'_>, state: &StateHandle, out: &mut dyn Collector) -> Result<()> {
        loop {
            // The next edge with something to say: the one after the last if a key is live, else the first pane's end.
            let end = if self.live.is_empty() {
                match panes.first_from(self.last_end.saturating_add(1)) {
                    Some(pane) => pane.end,
                    None => break,
                }
            } else {
                self.last_end.saturating_add(self.spec.pane_ms())
            };
            if !self.spec.fired(end, watermark) || end <= self.last_end {
                break;
            }
            self.slide_to(end, panes, emission, state, out)?;
        }
        // Edges without keys have fired too: a row that comes later is late for them.
        if self.live.is_empty() {
            self.last_end = self.last_end.max(self.spec.last_fired(watermark).unwrap_or(i64::MIN));
        }
        Ok(())
    }

    /// Lets the pane that ends at `end` enter, emits the window that ends there, and lets panes leave.
    fn slide_to(&mut self, end: i64, panes: &mut Panes, emission: &mut Emission<'_>, state: &StateHandle, out: &mut dyn Collector) -> Result<()> {
        let step = self.spec.pane_ms();
        let left = self.left_of(end);
        let is_paged = self.has_stacks && panes.is_paged();
        if self.has_stacks && !is_paged {
            self.rebuild_stale(left, end.saturating_sub(step), panes)?;
        }
        self.enter(Pane { start: end.saturating_sub(step), end }, is_paged, panes, state)?;
        self.last_end = end;
        if !self.is_sorted {
            self.live.sort_by(|a, b| panes.keys.compare(*a, *b));
            self.is_sorted = true;
        }
        if is_paged {
            self.emit_paged((left, end), panes, emission, state, out)?;
        } else {
            self.emit((left, end), panes, emission, out)?;
        }
        if !self.cumulates {
            self.leave(left.saturating_add(step), is_paged, panes, state)
        } else if end == left.saturating_add(self.spec.size_ms()) {
            self.start_over(end, panes);
            Ok(())
        } else {
            Ok(())
        }
    }

    fn enter(&mut self, pane: Pane, is_paged: bool, panes: &mut Panes, state: &StateHandle) -> Result<()> {
        let parts: Vec<(u32, u32)> = panes.parts(pane).collect();
        self.merge_into_totals(&parts, panes)?;
        let paged = panes.entries(pane).map(|entries| entries.paged.clone()).unwrap_or_default();
        for group in paged.iter() {
            let read = panes.read_pane(group, pane, state)?;
            self.merge_into_totals(&read, panes)?;
            panes.give_back(read);
        }
        if !self.has_stacks {
            return Ok(());
        }
        if is_paged {
            parts.iter().for_each(|(id, _)| self.mark_stale(*id));
            return Ok(());
        }
        let mut merges = Vec::with_capacity(parts.len());
        for (id, slot) in parts {
            let back = *self.stacks[id as usize].back.get_or_insert_with(|| panes.set.allocate());
            merges.push((back, slot));
        }
        if panes.entries(pane).is_some() {
            let place = panes.place(pane);
            for (entry, &id) in panes.entries_mut(place).keys.iter().enumerate() {
                self.stacks[id as usize].entered.push((pane.end, place, entry as u32));
            }
        }
        panes.set.merge(&merges, Part::Rest)
    }

    fn merge_into_totals(&mut self, parts: &[(u32, u32)], panes: &mut Panes) -> Result<()> {
        let merges: Vec<(u32, u32)> = parts.iter().map(|&(id, slot)| (self.total(id, panes), slot)).collect();
        panes.set.merge(&merges, self.part())
    }

    fn emit(&mut self, window: (i64, i64), panes: &mut Panes, emission: &mut Emission<'_>, out: &mut dyn Collector) -> Result<()> {
        if self.columns.is_none() && self.live.len() <= BATCH_ROWS {
            self.columns = Some(panes.keys.columns(&self.live)?);
        }
        let totals: Vec<u32> = self.live.iter().map(|&id| self.totals[id as usize]).collect();
        let columns = self.columns.as_deref();
        if !self.has_stacks {
            let rows = Fired { window, keys: &self.live, linear: &totals, rest: &totals, consume: false, columns };
            return emission.emit(&rows, panes, out);
        }
        let sums: Vec<u32> = self.live.iter().map(|_| panes.set.allocate()).collect();
        let mut merges = Vec::with_capacity(2 * sums.len());
        for (&id, &sum) in self.live.iter().zip(&sums) {
            let stacks = &self.stacks[id as usize];
            merges.extend(stacks.front.last().map(|(_, top)| (sum, *top)));
            merges.extend(stacks.back.map(|back| (sum, back)));
        }
        panes.set.merge(&merges, Part::Rest)?;
        emission.emit(&Fired { window, keys: &self.live, linear: &totals, rest: &sums, consume: true, columns }, panes, out)?;
        panes.set.release(&sums);
        Ok(())
    }

    /// As `emit`, but the rest comes from all panes of the window, in memory and in the store.
    fn emit_paged(&mut self, window: (i64, i64), panes: &mut Panes, emission: &mut Emission<'_>, state: &StateHandle, out: &mut dyn Collector) -> Result<()> {
        let mut resident: HashMap<KeyGroup, Vec<(u32, u32)>> = HashMap::new();
        for pane in panes.between(window.0, window.1) {
            for (id, slot) in panes.parts(pane) {
                resident.entry(panes.keys.group(id)).or_default().push((id, slot));
            }
        }
        let mut begin = 0;
        while begin < self.live.len() {
            let group = panes.keys.group(self.live[begin]);
            let rows = self.live[begin..].iter().take_while(|id| panes.keys.group(**id) == group).count();
            let keys = &self.live[begin..begin + rows];
            begin += rows;
            let read = panes.read_between(group, window.0, window.1, state)?;
            let sums: HashMap<u32, u32> = keys.iter().map(|&id| (id, panes.set.allocate())).collect();
            let merges: Vec<(u32, u32)> = read.iter().copied().chain(resident.remove(&group).unwrap_or_default()).filter_map(|(id, slot)| sums.get(&id).map(|sum| (*sum, slot))).collect();
            panes.set.merge(&merges, Part::Rest)?;
            let (totals, sums): (Vec<u32>, Vec<u32>) = keys.iter().map(|id| (self.totals[*id as usize], sums[id])).unzip();
            emission.emit(&Fired { window, keys, linear: &totals, rest: &sums, consume: true, columns: None }, panes, out)?;
            panes.set.release(&sums);
            panes.give_back(read);
        }
        Ok(())
    }

    /// Panes that end at or before `left` leave, and with them keys that have nothing else.
    fn leave(&mut self, left: i64, is_paged: bool, panes: &mut Panes, state: &StateHandle) -> Result<()> {
        for pane in panes.between(i64::MIN, left) {
            let parts: Vec<(u32, u32)> = panes.parts(pane).collect();
            let mut touched: Vec<u32> = parts.iter().map(|(id, _)| *id).collect();
            self.take_from_totals(&parts, panes)?;
            let paged = panes.entries(pane).map(|entries| entries.paged.clone()).unwrap_or_default();
            for group in paged.iter() {
                let read = panes.read_pane(group, pane, state)?;
                self.take_from_totals(&read, panes)?;
                touched.extend(read.iter().map(|(id, _)| *id));
                // Held by their totals until `retire`.
                panes.give_back(read);
            }
            touched.sort_unstable();
            touched.dedup();
            if self.has_stacks && !is_paged {
                self.pop(&touched, left, panes)?;
            }
            panes.drop_pane(pane);
            self.retire(&touched, panes)?;
        }
        Ok(())
    }

    fn take_from_totals(&self, parts: &[(u32, u32)], panes: &mut Panes) -> Result<()> {
        let pairs: Vec<(u32, u32)> = parts
            .iter()
            .filter_map(|&(id, slot)| {
                let total = self.totals.get(id as usize).copied().filter(|total| *total != NO_SLOT)?;
                Some((total, slot))
            })
            .collect();
        panes.set.retract(&pairs)
    }

    /// Keys of which no row is left in the window have no total any more.
    fn retire(&mut self, touched: &[u32], panes: &mut Panes) -> Result<()> {
        let with_total: Vec<u32> = touched.iter().copied().filter(|&id| self.totals.get(id as usize).is_some_and(|total| *total != NO_SLOT)).collect();
        let totals: Vec<u32> = with_total.iter().map(|&id| self.totals[id as usize]).collect();
        let rows = panes.set.rows(&totals)?;
        let gone: Vec<u32> = with_total.into_iter().zip(rows.values()).filter(|(_, rows)| **rows == 0).map(|(id, _)| id).collect();
        if gone.is_empty() {
            return Ok(());
        }
        self.let_totals_go(&gone, panes);
        self.live.retain(|&id| self.totals[id as usize] != NO_SLOT);
        self.columns = None;
        // Only now: an id that nobody holds may be given to another key.
        gone.into_iter().for_each(|id| panes.keys.let_go(id));
        Ok(())
    }

    fn let_totals_go(&mut self, ids: &[u32], panes: &mut Panes) {
        let totals: Vec<u32> = ids.iter().map(|&id| std::mem::replace(&mut self.totals[id as usize], NO_SLOT)).collect();
        panes.set.release(&totals);
        if self.has_stacks {
            ids.iter().for_each(|&id| self.empty(id, panes));
        }
    }

    /// CUMULATE: the longest window has fired, nothing of it is needed.
    fn start_over(&mut self, end: i64, panes: &mut Panes) {
        let live = std::mem::take(&mut self.live);
        self.let_totals_go(&live, panes);
        live.into_iter().for_each(|id| panes.keys.let_go(id));
        self.columns = None;
        for pane in panes.between(i64::MIN, end) {
            panes.drop_pane(pane);
        }
    }

    /// Tops of stacks that have left are popped; where the front is empty, the back is flipped over.
    fn pop(&mut self, touched: &[u32], left: i64, panes: &mut Panes) -> Result<()> {
        let (mut popped, mut merges) = (Vec::new(), Vec::new());
        for &id in touched {
            let Some(stacks) = self.stacks.get_mut(id as usize).filter(|stacks| !stacks.is_stale) else { continue };
            while let Some((_, slot)) = stacks.front.pop_if(|(end, _)| *end <= left) {
                popped.push(slot);
            }
            if stacks.front.is_empty() && stacks.entered.first().is_some_and(|(end, ..)| *end <= left) {
                flip(stacks, left, panes, &mut merges);
            }
        }
        panes.set.release(&popped);
        panes.set.merge(&merges, Part::Rest)
    }

    /// Builds stale keys' stacks anew from their panes that end in `(left, to]`.
    fn rebuild_stale(&mut self, left: i64, to: i64, panes: &mut Panes) -> Result<()> {
        let stale = std::mem::take(&mut self.stale);
        if stale.is_empty() {
            return Ok(());
        }
        stale.iter().for_each(|&id| self.empty(id, panes));
        for pane in panes.between(left, to) {
            let place = panes.place(pane);
            panes.find(place, &stale, |id, entry| self.stacks[id as usize].entered.push((pane.end, place, entry)));
        }
        let mut merges = Vec::new();
        for id in stale {
            let stacks = &mut self.stacks[id as usize];
            stacks.is_stale = false;
            // The front is what the next panes to leave will pop.
            flip(stacks, left, panes, &mut merges);
        }
        panes.set.merge(&merges, Part::Rest)
    }

    fn empty(&mut self, id: u32, panes: &mut Panes) {
        let Some(stacks) = self.stacks.get_mut(id as usize) else { return };
        let mut slots: Vec<u32> = stacks.front.drain(..).map(|(_, slot)| slot).collect();
        slots.extend(stacks.back.take());
        stacks.entered = Vec::new();
        panes.set.release(&slots);
    }
}

/// Turns the back's panes that remain into the front.
fn flip(stacks: &mut Stacks, left: i64, panes: &mut Panes, merges: &mut Vec<(u32, u32)>) {
    if let Some(back) = stacks.back.take() {
        panes.set.release(&[back]);
    }
    let mut newer: Option<u32> = None;
    for (end, place, entry) in std::mem::take(&mut stacks.entered).into_iter().filter(|(end, ..)| *end > left).rev() {
        let slot = panes.set.allocate();
        merges.extend(panes.parts_of(place, entry).map(|part| (slot, part)));
        merges.extend(newer.map(|newer| (slot, newer)));
        stacks.front.push((end, slot));
        newer = Some(slot);
    }
}
