//! Reading a table on one worker: which split is polled, what its records become, and the watermark between the rows.
//!
//! Promises: the split whose event time is furthest behind is read first, so that inputs advance together and joins
//! keep little. A batch is cut before a row that is behind a watermark (`pelton_core::watermark`). The source's watermark
//! is the minimum over its live splits; splits without records for the idle timeout are left out, on unbounded sources
//! only: what a bounded source gives never depends on the clock.

mod metadata;
mod rows;
mod split;

use std::{collections::HashMap, sync::Arc, time::Duration};

use pelton_core::{
    error::{Result, RuntimeError},
    graph::{SourceNode, TableSpec},
    position::{Epoch, OperatorId, SplitId},
    records::Records,
    source::{Polled, RecordParts, Source, SplitChange, SplitPosition},
    state::ChangeSet,
    time::{ProcessingTime, Watermark},
    watermark::{Cut, WatermarkGenerator},
};
use pelton_plugin_host::LoadedPlugin;

use crate::{
    chain::Chain,
    control::Progress,
    exchange::{Parcel, Signal},
    letters::FIRST_RECORDS,
    settings::Settings,
    state::{PluginEntry, StoredSplit, forget_split, put_plugin},
    table_options,
};

pub(crate) use rows::{RowMaker, value_format};
pub(crate) use split::restored_state;
use split::Split;

/// What a driver is made from.
pub(crate) struct SourceStart {
    pub(crate) node: usize,
    pub(crate) id: OperatorId,
    pub(crate) spec: SourceNode,
    pub(crate) source: Box<dyn Source>,
    pub(crate) rows: Arc<RowMaker>,
    pub(crate) transform: Option<Arc<LoadedPlugin>>,
    pub(crate) restored: Vec<StoredSplit>,
    /// Stored state of transform plugins by place.
    pub(crate) plugin_state: Vec<PluginEntry>,
}

/// See the module.
pub(crate) struct SourceDriver {
    // Fixed at start.
    node: usize,
    id: OperatorId,
    spec: SourceNode,
    settings: Arc<Settings>,
    rows: Arc<RowMaker>,
    transform: Option<Arc<LoadedPlugin>>,
    is_bounded: bool,
    // Changing.
    source: Box<dyn Source>,
    restored: HashMap<SplitId, StoredSplit>,
    plugin_state: Vec<PluginEntry>,
    splits: Vec<Split>,
    /// Splits that were taken away since the last barrier.
    revoked: Vec<SplitId>,
    sent: Watermark,
    idle_since: Option<ProcessingTime>,
    told_idle: bool,
    has_ended: bool,
    flushed_at: ProcessingTime,
    /// Records read, and how many of the first [`FIRST_RECORDS`] were bad.
    seen: u64,
    bad_first: u64,
    pace: Option<Pace>,
    /// Positions of the epochs that are not yet committed.
    handed: Vec<(Epoch, Vec<(SplitId, SplitPosition)>)>,
    // Buffers.
    records: Records,
    transformed: Records,
    cuts: Vec<Cut>,
}

/// `pelton.source.rows-per-second`.
struct Pace {
    per_second: u64,
    since: ProcessingTime,
    read: u64,
}

impl Pace {
    fn allowed(&self, now: ProcessingTime) -> usize {
        let due = u128::from(self.per_second) * now.since(self.since).as_millis() / 1_000;
        usize::try_from(due.saturating_sub(u128::from(self.read))).unwrap_or(usize::MAX)
    }
}

/// Which parts of its records a table's reading needs.
pub(crate) fn record_parts(spec: &SourceNode, transform: Option<&LoadedPlugin>) -> Result<RecordParts> {
    let has = |start: &str| spec.metadata.iter().any(|column| column.key == start || column.key.starts_with(&format!("{start}.")));
    let plugin = transform.map(LoadedPlugin::needs).unwrap_or_default();
    // Dead letters carry the whole record.
    let is_kafka = table_options::connector(&spec.table) == "kafka";
    Ok(RecordParts {
        keys: is_kafka || has("key") || plugin.keys || rows::reads_keys(spec).map_err(|reason| at_table(&spec.table, &reason))?,
        headers: is_kafka || has("headers") || plugin.headers,
        timestamps: is_kafka || has("timestamp") || transform.is_some(),
    })
}

pub(crate) fn at_table(table: &TableSpec, reason: &str) -> RuntimeError {
    RuntimeError::Script(format!("table '{}': {reason}", table.name))
}

impl SourceDriver {
    pub(crate) fn new(start: SourceStart, settings: Arc<Settings>, now: ProcessingTime) -> Result<Self> {
        let mut source = start.source;
        let positions: Vec<_> = start.restored.iter().map(|stored| (stored.split.clone(), stored.position.clone())).collect();
        source.restore(&positions)?;
        let pace = settings.rows_per_second.map(|per_second| Pace { per_second, since: now, read: 0 });
        Ok(Self {
            node: start.node,
            id: start.id,
            spec: start.spec,
            rows: start.rows,
            transform: start.transform,
            is_bounded: source.is_bounded(),
            source,
            settings,
            restored: start.restored.into_iter().map(|stored| (stored.split.clone(), stored)).collect(),
            plugin_state: start.plugin_state,
            splits: Vec::new(),
            revoked: Vec::new(),
            sent: Watermark::MIN,
            idle_since: None,
            told_idle: false,
            has_ended: false,
            flushed_at: now,
            seen: 0,
            bad_first: 0,
            pace,
            handed: Vec::new(),
            records: Records::default(),
            transformed: Records::default(),
            cuts: Vec::new(),
        })
    }

    pub(crate) fn lag(&self) -> u64 {
        self.source.lag().unwrap_or(0)
    }

    pub(crate) fn watermark(&self) -> Option<Watermark> {
        (self.spec.has_watermark && !self.has_ended).then_some(self.sent)
    }

    /// Takes splits gained and lost.
    pub(crate) fn follow_changes(&mut self, chain: &mut Chain, now: ProcessingTime) -> Result<()> {
        if self.has_ended {
            return Ok(());
        }
        let changes = self.source.changes()?;
        let changed = !changes.is_empty();
        for change in changes {
            match change {
                SplitChange::Added(id) => {
                    let split = self.new_split(id, now)?;
                    self.splits.push(split);
                }
                SplitChange::Revoked(id) => {
                    self.splits.retain(|split| split.id != id);
                    self.revoked.push(id);
                }
            }
        }
        if changed {
            // What was due before a restart still holds: rows behind it are late now as they were then.
            self.follow_splits(chain, now)?;
        }
        self.end_if_done(chain)
    }

    fn new_split(&mut self, id: SplitId, now: ProcessingTime) -> Result<Split> {
        let interval = i64::try_from(self.settings.watermark_interval.as_millis()).unwrap_or(i64::MAX);
        let stored = self.restored.remove(&id);
        let generator = self.spec.has_watermark.then(|| match &stored {
            Some(stored) => WatermarkGenerator::restored(interval, stored.running, stored.due),
            None => WatermarkGenerator::new(interval),
        });
        let sent = stored.map_or(Watermark::MIN, |stored| stored.due);
        self.revoked.retain(|revoked| *revoked != id);
        Split::new(id, self.rows.open()?, generator, sent, self.transform.as_deref(), &self.plugin_state, &self.spec.table.name, now)
    }

    /// The split to poll next and how far its event time is, `None` if all have nothing or must wait.
    pub(crate) fn next(&self, now: ProcessingTime) -> Option<(Watermark, usize)> {
        if self.has_ended || self.pace.as_ref().is_some_and(|pace| pace.allowed(now) == 0) {
            return None;
        }
        let ready = self.splits.iter().enumerate().filter(|(_, split)| !split.done && !split.pending);
        ready.map(|(index, split)| (split.running(), index)).min()
    }

    /// Lets the next split have its turn, where no event time says whose it is.
    pub(crate) fn rotate(&mut self) {
        if !self.splits.is_empty() {
            self.splits.rotate_left(1);
        }
    }

    /// Whether records may be there, but too many were read already this second.
    pub(crate) fn is_held_back(&self, now: ProcessingTime) -> bool {
        !self.has_ended && self.pace.as_ref().is_some_and(|pace| pace.allowed(now) == 0)
    }

    /// Splits that had nothing are asked again.
    pub(crate) fn ask_again(&mut self) {
        self.splits.iter_mut().for_each(|split| split.pending = false);
    }

    pub(crate) fn has_watermark(&self) -> bool {
        self.spec.has_watermark
    }

    /// Whether some split may still give records.
    pub(crate) fn is_live(&self) -> bool {
        !self.has_ended
    }

    pub(crate) fn wait(&mut self, timeout: Duration) {
        self.source.wait(timeout);
    }

    /// Polls a split and pushes what its records become. Whether there were any.
    pub(crate) fn poll(&mut self, index: usize, chain: &mut Chain, now: ProcessingTime) -> Result<bool> {
        let mut max = self.settings.batch_rows.get();
        if let Some(pace) = &self.pace {
            max = max.min(pace.allowed(now));
        }
        let mut records = std::mem::take(&mut self.records);
        records.clear();
        let polled = self.source.poll(&self.splits[index].id, max, &mut records)?;
        let count = records.len();
        if count > 0 {
            if let Some(pace) = &mut self.pace {
                pace.read += count as u64;
            }
            Progress::add(&chain.env.progress.rows_in, count);
            let split = &mut self.splits[index];
            split.last_active = now;
            if std::mem::take(&mut split.idle) || self.told_idle {
                self.follow_splits(chain, now)?;
            }
            self.take(index, &mut records, chain, now)?;
        }
        self.records = records;
        match polled {
            Polled::Records => {}
            Polled::Pending => self.splits[index].pending = true,
            Polled::End => {
                self.flush_transform(index, chain, now)?;
                self.splits[index].done = true;
                self.follow_splits(chain, now)?;
                self.end_if_done(chain)?;
            }
        }
        Ok(count > 0)
    }

    fn take(&mut self, index: usize, records: &mut Records, chain: &mut Chain, now: ProcessingTime) -> Result<()> {
        if self.splits[index].transform.is_none() {
            return self.take_plain(index, records, None, chain, now);
        }
        let mut into = std::mem::take(&mut self.transformed);
        let mut refused = Vec::new();
        self.splits[index].run_transform(records, &mut into, &mut refused)?;
        let (step, identity) = self.splits[index].transform_names(&self.spec.table);
        for (row, reason) in refused {
            let mut letter = rows::letter(&self.spec.table, records, row as usize, step.clone(), reason);
            letter.plugin = Some(identity.clone());
            self.give_up(u64::from(row), letter, chain)?;
        }
        let done = self.take_plain(index, &mut into, Some(records), chain, now);
        self.transformed = into;
        done
    }

    fn give_up(&mut self, row: u64, letter: pelton_core::dead_letter::DeadLetter, chain: &mut Chain) -> Result<()> {
        if self.seen + row < FIRST_RECORDS {
            self.bad_first += 1;
        }
        let (topic, partition, offset, reason) = (letter.topic.clone(), letter.partition, letter.offset, letter.reason.clone());
        let step = letter.step.clone();
        chain.env.letters.give_up(self.node, letter)?;
        if self.bad_first > FIRST_RECORDS / 2 {
            return Err(RuntimeError::Data {
                step,
                reason: format!(
                    "more than half of the first {FIRST_RECORDS} records of table '{}' are bad, so its format or columns must be wrong; the last one: {reason}",
                    self.spec.table.name
                ),
                topic,
                partition: Some(partition),
                offset: Some(offset),
            });
        }
        Ok(())
    }

    /// Decodes records and pushes their rows, cut at watermarks. `originals` are the records before a transform.
    fn take_plain(&mut self, index: usize, records: &mut Records, originals: Option<&Records>, chain: &mut Chain, now: ProcessingTime) -> Result<()> {
        let count = records.len() as u64;
        let plausible = (!self.is_bounded).then(|| {
            let ahead = i64::try_from(self.settings.ahead_max.as_millis()).unwrap_or(i64::MAX);
            (self.settings.earliest.as_millis(), now.as_millis().saturating_add(ahead))
        });
        let made = self.splits[index].rows.make(records, plausible)?;
        for (row, step, reason) in made.bad {
            let original = originals.and_then(|all| Some((all, all.offsets.iter().position(|offset| *offset == records.offsets[row as usize])?)));
            let (of, at) = original.unwrap_or((&*records, row as usize));
            let letter = rows::letter(&self.spec.table, of, at, step.into(), reason);
            self.give_up(u64::from(row), letter, chain)?;
        }
        self.seen += count;
        let batch = made.batch;
        let (Some(times), Some(generator)) = (&made.times, &mut self.splits[index].generator) else {
            return chain.send(self.node, Parcel::Batch(batch));
        };
        let mut cuts = std::mem::take(&mut self.cuts);
        cuts.clear();
        generator.advance(times.event_time.values(), times.watermark.values(), &mut cuts);
        let mut from = 0;
        for cut in &cuts {
            self.splits[index].sent = cut.watermark;
            let Some(watermark) = self.risen() else { continue };
            let to = times.batch_position.get(cut.row).map_or(batch.num_rows(), |&position| position as usize);
            if to > from {
                chain.send(self.node, Parcel::Batch(batch.slice(from, to - from)))?;
                from = to;
            }
            self.sent = watermark;
            chain.send(self.node, Parcel::Signal(Signal::Watermark(watermark)))?;
        }
        self.cuts = cuts;
        match from {
            0 => chain.send(self.node, Parcel::Batch(batch)),
            _ if from < batch.num_rows() => chain.send(self.node, Parcel::Batch(batch.slice(from, batch.num_rows() - from))),
            _ => Ok(()),
        }
    }

    /// The minimum over the live splits, if it is above what was sent.
    fn risen(&self) -> Option<Watermark> {
        let live = self.splits.iter().filter(|split| !split.done && !split.idle).map(|split| split.sent).min();
        live.filter(|watermark| *watermark > self.sent)
    }

    /// Sends the watermark and the idleness that follow from the splits as they are.
    fn follow_splits(&mut self, chain: &mut Chain, now: ProcessingTime) -> Result<()> {
        if !self.spec.has_watermark || self.has_ended {
            return Ok(());
        }
        let none_to_wait_for = !self.splits.is_empty() || self.source.is_assigned();
        let is_idle = !self.is_bounded && none_to_wait_for && self.splits.iter().all(|split| split.done || split.idle);
        self.idle_since = if is_idle { self.idle_since.or(Some(now)) } else { None };
        let tell_idle = is_idle && !(self.settings.wall_clock_advance && self.sent > Watermark::MIN);
        if tell_idle != self.told_idle {
            self.told_idle = tell_idle;
            chain.send(self.node, Parcel::Signal(Signal::Idle(tell_idle)))?;
        }
        if let Some(watermark) = self.risen() {
            self.sent = watermark;
            chain.send(self.node, Parcel::Signal(Signal::Watermark(watermark)))?;
        }
        Ok(())
    }

    /// On unbounded sources: idleness, and the watermarks that are due by the clock.
    pub(crate) fn tick(&mut self, chain: &mut Chain, now: ProcessingTime) -> Result<()> {
        if self.is_bounded || !self.spec.has_watermark || self.has_ended || now.since(self.flushed_at) < self.settings.watermark_interval {
            return Ok(());
        }
        self.flushed_at = now;
        let idle_timeout = self.settings.idle_timeout;
        for split in self.splits.iter_mut().filter(|split| !split.done) {
            if let Some(watermark) = split.generator.as_mut().and_then(WatermarkGenerator::flush) {
                split.sent = split.sent.max(watermark);
            }
            split.idle = idle_timeout.is_some_and(|timeout| now.since(split.last_active) >= timeout);
        }
        self.follow_splits(chain, now)?;
        if let (true, Some(since)) = (self.settings.wall_clock_advance, self.idle_since)
            && self.sent > Watermark::MIN
        {
            // Counted from the last tick, so that each step is added once.
            let watermark = Watermark::at(self.sent.time().saturating_add(now.since(since)));
            self.idle_since = Some(now);
            let interval = i64::try_from(self.settings.watermark_interval.as_millis()).unwrap_or(i64::MAX);
            for split in &mut self.splits {
                split.raise(interval, watermark);
            }
            if watermark > self.sent {
                self.sent = watermark;
                chain.send(self.node, Parcel::Signal(Signal::Watermark(watermark)))?;
            }
        }
        Ok(())
    }

    fn end_if_done(&mut self, chain: &mut Chain) -> Result<()> {
        if self.has_ended || !self.is_bounded || !self.splits.iter().all(|split| split.done) {
            return Ok(());
        }
        self.has_ended = true;
        self.sent = Watermark::MAX;
        chain.send(self.node, Parcel::Signal(Signal::Watermark(Watermark::MAX)))?;
        chain.send(self.node, Parcel::Signal(Signal::End))
    }

    fn flush_transform(&mut self, index: usize, chain: &mut Chain, now: ProcessingTime) -> Result<()> {
        let mut into = std::mem::take(&mut self.transformed);
        into.clear();
        let flushed = self.splits[index].flush_transform(&mut into)?;
        if flushed && !into.is_empty() {
            self.take_plain(index, &mut into, None, chain, now)?;
        }
        self.transformed = into;
        Ok(())
    }

    /// At a barrier: puts positions and generators into the epoch's part and lets the barrier go.
    pub(crate) fn inject(&mut self, epoch: Epoch, chain: &mut Chain, now: ProcessingTime) -> Result<()> {
        for index in 0..self.splits.len() {
            self.flush_transform(index, chain, now)?;
        }
        let positions = self.source.positions()?;
        let mut changes = ChangeSet::default();
        for id in self.revoked.drain(..) {
            forget_split(self.id, &id, &mut changes);
        }
        for (id, position) in &positions {
            let split = self.splits.iter().find(|split| split.id == *id);
            let (running, due) = match (split.and_then(|split| split.generator.as_ref()), self.restored.get(id)) {
                (Some(generator), _) => generator.snapshot(),
                (None, Some(stored)) => (stored.running, stored.due),
                (None, None) => (Watermark::MIN, Watermark::MIN),
            };
            StoredSplit { split: id.clone(), position: position.clone(), running, due }.put(self.id, &mut changes);
        }
        for split in &mut self.splits {
            let place = split.place;
            for (key, value) in split.plugin_changes(now) {
                put_plugin(self.id, place as usize, &key, value, &mut changes);
            }
        }
        let part = chain.part();
        if !changes.is_empty() {
            part.changes.push(Arc::new(changes));
        }
        part.positions.extend(positions.iter().cloned());
        self.handed.push((epoch, positions));
        chain.inject(self.node, epoch)
    }

    /// The epoch is durable.
    pub(crate) fn committed(&mut self, epoch: Epoch) -> Result<()> {
        let (done, rest) = std::mem::take(&mut self.handed).into_iter().partition(|(handed, _)| *handed <= epoch);
        self.handed = rest;
        for (handed, positions) in done {
            self.source.committed(handed, &positions)?;
        }
        Ok(())
    }
}
