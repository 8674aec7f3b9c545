//! A worker: one thread with its own copy of the graph, its own splits and its own state.
//!
//! Each round: orders → queues → sources → clock → sinks; then it waits if there was nothing to do. Sources rest while a
//! queue is full, and between injecting a barrier and its passing of the last node.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use pelton_core::{
    error::{Result, RuntimeError},
    position::Epoch,
    time::{Clock, ProcessingTime},
};

use crate::{
    chain::Chain,
    coordinator::{Event, Order, Part},
    exchange::Threads,
    failpoint::Failpoints,
    settings::Settings,
    sink::letter_sink::LetterSink,
    source::SourceDriver,
};

/// Longest sleep while records may come: the time an order or a row of another worker waits at most.
const WAIT: Duration = Duration::from_millis(5);
/// The same with several things to look at.
const WAIT_SHORT: Duration = Duration::from_millis(1);
/// Rounds between two looks at the operators' memory.
const ROUNDS_PER_LOOK: u64 = 64;
/// Time between two checkpoints asked for because operators are full: they may stay full.
const REST: Duration = Duration::from_secs(1);
/// Time between two updates of the progress.
const REPORT_EVERY: Duration = Duration::from_millis(50);

/// See the module.
pub(crate) struct Worker {
    // Fixed at start.
    pub(crate) worker: usize,
    pub(crate) workers: usize,
    pub(crate) settings: Arc<Settings>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) failpoints: Failpoints,
    /// Whether letters wait for checkpoints.
    pub(crate) is_durable: bool,
    /// Bytes that operators of this worker may hold.
    pub(crate) memory: usize,
    // Handles.
    pub(crate) orders: Receiver<Order>,
    pub(crate) events: Sender<Event>,
    pub(crate) threads: Threads,
    /// How many workers know their splits.
    pub(crate) started: Arc<AtomicUsize>,
    // Changing.
    pub(crate) chain: Chain,
    pub(crate) sources: Vec<SourceDriver>,
    pub(crate) letter_sinks: Vec<LetterSink>,
    /// The barrier under way.
    pub(crate) barrier: Option<Epoch>,
    /// No polling any more.
    pub(crate) is_stopped: bool,
    pub(crate) said_ended: bool,
    pub(crate) asked_checkpoint: bool,
    pub(crate) last_barrier_at: ProcessingTime,
    pub(crate) rounds: u64,
    pub(crate) reported_at: ProcessingTime,
    /// Source that is waited on next, and the one without watermark that is polled first next.
    pub(crate) turn: usize,
}

impl Worker {
    /// Runs until `Close`, or until the coordinator is gone.
    pub(crate) fn run(mut self) -> Result<()> {
        // Set once: each worker has its own cell.
        let _ = self.threads[self.worker].set(thread::current());
        self.chain.open(self.memory)?;
        if !self.start_together()? {
            return Ok(());
        }
        loop {
            loop {
                match self.orders.try_recv() {
                    Ok(Order::Checkpoint { epoch, is_last }) => self.begin(epoch, is_last)?,
                    Ok(Order::Commit(epoch)) => self.commit(epoch)?,
                    Ok(Order::Close) => return self.close(),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return Ok(()),
                }
            }
            let now = self.clock.now();
            let mut any = false;
            if self.workers > 1 {
                self.chain.drain();
                any |= self.chain.read_inlets()?;
            }
            if let Some(epoch) = self.barrier
                && let Some(part) = self.chain.take_part(epoch)
            {
                self.barrier = None;
                self.hand_in(part)?;
                any = true;
            }
            let may_poll = self.barrier.is_none() && !self.is_stopped && (self.workers == 1 || self.chain.drain());
            if may_poll {
                any |= self.poll_sources(now)?;
                for source in &mut self.sources {
                    source.tick(&mut self.chain, now)?;
                }
            }
            for sink in self.chain.sinks() {
                sink.poll()?;
            }
            self.look_around(now)?;
            if !any {
                self.wait(now, may_poll);
            }
        }
    }

    /// Learns the first splits and waits until every worker knows its own: sources without any have then said that they
    /// hold no watermark back, so that whether a row of a single split is late does not depend on how threads start.
    /// `false`: the job is being torn down.
    fn start_together(&mut self) -> Result<bool> {
        let now = self.clock.now();
        for source in &mut self.sources {
            source.follow_changes(&mut self.chain, now)?;
        }
        self.started.fetch_add(1, Ordering::AcqRel);
        while self.started.load(Ordering::Acquire) < self.workers {
            match self.orders.recv_timeout(WAIT_SHORT) {
                // With a short interval the first checkpoint may begin before every worker has started.
                Ok(Order::Checkpoint { epoch, is_last }) => self.begin(epoch, is_last)?,
                Ok(Order::Commit(epoch)) => self.commit(epoch)?,
                Ok(Order::Close) => return self.close().map(|()| false),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
            }
        }
        while self.chain.read_inlets()? {}
        Ok(true)
    }

    fn say(&self, event: Event) {
        // The coordinator is gone when another worker failed first; the orders' end tells.
        let _ = self.events.send(event);
    }

    /// Lets a barrier go at every source.
    fn begin(&mut self, epoch: Epoch, is_last: bool) -> Result<()> {
        self.failpoints.reach("before-barrier")?;
        let now = self.clock.now();
        self.is_stopped |= is_last;
        self.asked_checkpoint = false;
        self.last_barrier_at = now;
        self.barrier = Some(epoch);
        for source in &mut self.sources {
            source.inject(epoch, &mut self.chain, now)?;
        }
        Ok(())
    }

    fn hand_in(&mut self, mut part: Part) -> Result<()> {
        self.write_letters()?;
        for sink in &mut self.letter_sinks {
            part.prepared.push((sink.id, sink.prepare(part.epoch)?));
        }
        part.letters = self.chain.env.letters.take();
        self.failpoints.reach("before-part")?;
        self.say(Event::Part(Box::new(part)));
        Ok(())
    }

    fn commit(&mut self, epoch: Epoch) -> Result<()> {
        self.failpoints.reach("before-commit")?;
        for sink in self.chain.sinks() {
            sink.commit(epoch)?;
        }
        for sink in &mut self.letter_sinks {
            sink.sink.commit(epoch)?;
        }
        for source in &mut self.sources {
            source.committed(epoch)?;
        }
        self.failpoints.reach("after-commit")?;
        self.say(Event::Committed);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        for sink in self.chain.sinks() {
            sink.close()?;
        }
        for sink in &mut self.letter_sinks {
            sink.sink.close()?;
        }
        self.say(Event::Closed);
        Ok(())
    }

    /// Polls one split of the sources with watermarks, the one furthest behind that has something, and one split of each
    /// source without.
    fn poll_sources(&mut self, now: ProcessingTime) -> Result<bool> {
        for source in &mut self.sources {
            source.follow_changes(&mut self.chain, now)?;
        }
        let mut any = false;
        loop {
            let timed = self.sources.iter().enumerate().filter(|(_, source)| source.has_watermark());
            let next = timed.filter_map(|(index, source)| Some((source.next(now)?, index))).min();
            let Some(((_, split), index)) = next else { break };
            if self.sources[index].poll(split, &mut self.chain, now)? {
                any = true;
                break;
            }
        }
        let count = self.sources.len();
        for step in 0..count {
            let source = &mut self.sources[(self.turn + step) % count];
            if source.has_watermark() {
                continue;
            }
            while let Some((_, split)) = source.next(now) {
                if source.poll(split, &mut self.chain, now)? {
                    source.rotate();
                    any = true;
                    break;
                }
            }
        }
        self.sources.iter_mut().for_each(SourceDriver::ask_again);
        Ok(any)
    }

    /// Ends, memory, letters, progress.
    fn look_around(&mut self, now: ProcessingTime) -> Result<()> {
        self.rounds += 1;
        self.chain.count_letters();
        self.write_letters()?;
        if !self.is_durable {
            let letters = self.chain.env.letters.take();
            if !letters.is_empty() {
                self.say(Event::Letters(letters));
            }
        }
        if !self.said_ended && self.chain.has_ended() {
            self.said_ended = true;
            self.say(Event::Ended);
        }
        if !self.asked_checkpoint && self.barrier.is_none() {
            let is_dirty = self.chain.dirty_bytes() > self.settings.dirty_bytes / self.workers;
            let is_rested = now.since(self.last_barrier_at) >= REST;
            let is_full = is_rested && self.rounds.is_multiple_of(ROUNDS_PER_LOOK) && self.chain.memory_bytes() > self.memory;
            if is_dirty || is_full {
                self.asked_checkpoint = true;
                self.say(Event::NeedsCheckpoint);
            }
        }
        if now.since(self.reported_at) >= REPORT_EVERY {
            self.reported_at = now;
            let watermark = self.sources.iter().filter_map(SourceDriver::watermark).min();
            let lag = self.sources.iter().map(SourceDriver::lag).sum();
            self.chain.env.progress.set_worker(self.worker, watermark.map_or(i64::MAX, |watermark| watermark.time().as_millis()), lag);
        }
        Ok(())
    }

    /// Writes letters for topics.
    fn write_letters(&mut self) -> Result<()> {
        if self.letter_sinks.is_empty() {
            return Ok(());
        }
        let letters = self.chain.env.letters.take_for_topics();
        if !letters.is_empty() {
            for sink in &mut self.letter_sinks {
                let own: Vec<_> = letters.iter().filter(|(topic, _)| *topic == sink.topic).map(|(_, letter)| letter.clone()).collect();
                if !own.is_empty() {
                    sink.write(&own)?;
                }
            }
        }
        self.letter_sinks.iter_mut().try_for_each(|sink| sink.sink.poll())
    }

    fn wait(&mut self, now: ProcessingTime, may_poll: bool) {
        let live = self.sources.iter().filter(|source| source.is_live()).count();
        if !may_poll || live == 0 {
            thread::park_timeout(WAIT);
            return;
        }
        if self.sources.iter().any(|source| source.is_held_back(now)) {
            thread::park_timeout(WAIT_SHORT);
            return;
        }
        let timeout = if live > 1 || self.workers > 1 { WAIT_SHORT } else { WAIT };
        self.turn = self.turn.wrapping_add(1);
        let count = self.sources.len();
        let first = (0..count).map(|step| (self.turn + step) % count).find(|&index| self.sources[index].is_live());
        if let Some(index) = first {
            self.sources[index].wait(timeout);
        }
    }
}

/// A worker's panic as an error.
pub(crate) fn panic_error(worker: usize, panic: &(dyn std::any::Any + Send)) -> RuntimeError {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned()).or_else(|| panic.downcast_ref::<String>().cloned());
    RuntimeError::Bug {
        operator: pelton_core::position::OperatorId(0),
        what: format!("worker {worker} panicked: {}", text.unwrap_or_else(|| "no message".to_owned())),
    }
}
