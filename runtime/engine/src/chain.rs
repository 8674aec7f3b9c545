//! The operators of one worker: rows pushed from node to node by direct calls, and into queues at exchanges.
//!
//! Promises: an operator sees the calls that `pelton_core::operator` says, in that order. Its watermark is the minimum
//! over its live channels; idle and ended channels are left out, and if none is left but idle ones it is idle itself. A
//! barrier passes a node once it came over every channel; a queue that delivered it is not read until every node of
//! this worker has passed it, so that no row of the new epoch mixes with the old.

use std::sync::{Arc, atomic::Ordering};

use arrow::{
    array::{RecordBatch, UInt32Array},
    compute::take_record_batch,
};
use pelton_core::{
    dead_letter::DeadLetter,
    error::{Result, RuntimeError},
    key_group::{KeyGroup, hash_rows},
    operator::{Collector, Operator, OperatorContext},
    position::{Epoch, OperatorId},
    sink::Prepared,
    state::{ChangeSet, StateHandle},
    time::{Clock, Watermark},
};

use crate::{
    control::Progress,
    coordinator::Part,
    exchange::{Ends, Inlet, Outlet, Parcel, Signal},
    letters::Letters,
    plan::{Plan, PlanNode, Route},
    sink::SinkDriver,
};

/// Parcels taken from one queue before the next queue's turn.
const PARCELS_PER_TURN: usize = 8;

/// See the module.
pub(crate) struct Chain {
    nodes: Vec<NodeState>,
    inlets: Vec<Inlet>,
    pub(crate) env: Env,
}

/// What a node runs.
pub(crate) enum Stage {
    /// Driven from outside.
    Source,
    Operator { operator: Box<dyn Operator>, state: StateHandle },
    Sink(Box<SinkDriver>),
}

struct NodeState {
    stage: Stage,
    channels: Vec<Channel>,
    /// Minimum over the live channels.
    watermark: Watermark,
    idle: bool,
    ended: bool,
    /// Last watermark sent on.
    sent: Watermark,
    // Buffers of one call.
    letters: Vec<DeadLetter>,
    late: Vec<RecordBatch>,
}

#[derive(Clone, Copy)]
struct Channel {
    watermark: Watermark,
    idle: bool,
    ended: bool,
    barrier: Epoch,
}

/// What all nodes of a worker share.
pub(crate) struct Env {
    // Fixed at start.
    pub(crate) plan: Arc<Plan>,
    pub(crate) worker: usize,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) progress: Arc<Progress>,
    // Changing.
    outlets: Vec<Vec<Option<Outlet>>>,
    pub(crate) letters: Letters,
    /// What the current epoch's barrier has collected so far.
    part: Part,
    /// How many nodes it has passed.
    passed: usize,
    /// Last epoch that passed every node.
    completed: Epoch,
    // Buffers.
    hashes: Vec<u64>,
    rows: Vec<Vec<u32>>,
}

impl Chain {
    pub(crate) fn new(env: EnvStart, stages: Vec<Stage>, ends: Ends) -> Self {
        let channel = Channel { watermark: Watermark::MIN, idle: false, ended: false, barrier: env.completed };
        let nodes = stages
            .into_iter()
            .zip(&env.plan.nodes)
            .map(|(stage, node)| NodeState {
                stage,
                channels: vec![channel; node.channels],
                watermark: Watermark::MIN,
                idle: false,
                ended: false,
                sent: Watermark::MIN,
                letters: Vec::new(),
                late: Vec::new(),
            })
            .collect();
        let rows = vec![Vec::new(); env.plan.workers];
        let env = Env {
            plan: env.plan,
            worker: env.worker,
            clock: env.clock,
            progress: env.progress,
            outlets: ends.outlets,
            letters: env.letters,
            part: Part::new(env.worker),
            passed: 0,
            completed: env.completed,
            hashes: Vec::new(),
            rows,
        };
        Self { nodes, inlets: ends.inlets, env }
    }

    /// Opens every operator, with `budget` bytes for all of them together.
    pub(crate) fn open(&mut self, budget: usize) -> Result<()> {
        let operators = self.nodes.iter().filter(|node| matches!(node.stage, Stage::Operator { .. })).count().max(1);
        for index in 0..self.nodes.len() {
            let (node, _) = self.nodes[index..].split_first_mut().expect("index is below the length");
            if let Stage::Operator { operator, state } = &mut node.stage {
                operator.set_memory_budget(budget / operators);
                let mut context = OperatorContext {
                    operator: self.env.plan.nodes[index].id,
                    state,
                    input_watermark: Watermark::MIN,
                    clock: self.env.clock.as_ref(),
                    dead_letters: &mut node.letters,
                    late: &mut node.late,
                };
                operator.open(&mut context)?;
            }
        }
        Ok(())
    }

    /// Sends what a source node made.
    pub(crate) fn send(&mut self, source: usize, parcel: Parcel) -> Result<()> {
        let node = &mut self.nodes[source];
        match parcel {
            Parcel::Signal(Signal::Watermark(watermark)) if watermark <= node.sent => return Ok(()),
            Parcel::Signal(Signal::Watermark(watermark)) => node.sent = watermark,
            Parcel::Signal(Signal::End) => node.ended = true,
            _ => {}
        }
        emit(&mut self.nodes[source + 1..], source + 1, &mut self.env, source, parcel)
    }

    /// Injects a barrier at a source node, whose own part is already in place.
    pub(crate) fn inject(&mut self, source: usize, epoch: Epoch) -> Result<()> {
        self.env.passed += 1;
        self.send(source, Parcel::Signal(Signal::Barrier(epoch)))
    }

    /// The part of the epoch under way, for sources to add to.
    pub(crate) fn part(&mut self) -> &mut Part {
        &mut self.env.part
    }

    /// The part of `epoch`, once its barrier has passed every node.
    pub(crate) fn take_part(&mut self, epoch: Epoch) -> Option<Part> {
        if self.env.passed < self.nodes.len() {
            return None;
        }
        self.env.passed = 0;
        self.env.completed = epoch;
        let mut part = std::mem::replace(&mut self.env.part, Part::new(self.env.worker));
        part.epoch = epoch;
        Some(part)
    }

    /// Takes what other workers sent. Whether there was anything.
    pub(crate) fn read_inlets(&mut self) -> Result<bool> {
        let mut any = false;
        for index in 0..self.inlets.len() {
            for _ in 0..PARCELS_PER_TURN {
                let inlet = &self.inlets[index];
                let (to, port, channel) = (inlet.node, inlet.port, inlet.channel);
                let is_blocked = self.nodes[to].channels[channel].barrier > self.env.completed;
                if is_blocked || !self.env.is_clear_behind(to) {
                    break;
                }
                let Some(parcel) = inlet.pop() else { break };
                any = true;
                deliver(&mut self.nodes, 0, &mut self.env, to, port, channel, parcel)?;
            }
        }
        Ok(any)
    }

    /// Sends what full queues left behind. Whether everything is sent.
    pub(crate) fn drain(&mut self) -> bool {
        let mut clear = true;
        for outlet in self.env.outlets.iter_mut().flatten().flatten() {
            clear &= outlet.drain();
        }
        clear
    }

    /// Whether every node of this worker has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.nodes.iter().all(|node| node.ended)
    }

    /// Bytes of changes that wait for a checkpoint.
    pub(crate) fn dirty_bytes(&self) -> usize {
        let of = |node: &NodeState| match &node.stage {
            Stage::Operator { state, .. } => state.dirty_bytes(),
            _ => 0,
        };
        self.nodes.iter().map(of).sum::<usize>() + self.env.letters.byte_len()
    }

    /// Bytes that operators hold.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of = |node: &NodeState| match &node.stage {
            Stage::Operator { operator, .. } => operator.memory_bytes(),
            _ => 0,
        };
        self.nodes.iter().map(of).sum()
    }

    /// The sinks, with their nodes.
    pub(crate) fn sinks(&mut self) -> impl Iterator<Item = &mut SinkDriver> {
        self.nodes.iter_mut().filter_map(|node| match &mut node.stage {
            Stage::Sink(sink) => Some(sink.as_mut()),
            _ => None,
        })
    }

    /// Counts the letters given up since the last call.
    pub(crate) fn count_letters(&mut self) {
        Progress::add(&self.env.progress.bad, self.env.letters.take_count());
    }
}

/// What [`Env`] starts from.
pub(crate) struct EnvStart {
    pub(crate) plan: Arc<Plan>,
    pub(crate) worker: usize,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) letters: Letters,
    pub(crate) completed: Epoch,
}

impl Env {
    /// Whether rows of `node` can move on: no full queue behind it.
    fn is_clear_behind(&mut self, node: usize) -> bool {
        let plan = Arc::clone(&self.plan);
        plan.nodes[node].reaches.iter().all(|edge| self.outlets[*edge].iter_mut().flatten().all(Outlet::drain))
    }

    fn id(&self, node: usize) -> OperatorId {
        self.plan.nodes[node].id
    }
}

/// Sends on what node `from` made; `nodes[0]` is node `base`.
fn emit(nodes: &mut [NodeState], base: usize, env: &mut Env, from: usize, parcel: Parcel) -> Result<()> {
    let plan = Arc::clone(&env.plan);
    let outputs = &plan.nodes[from].outputs;
    let Some((last, others)) = outputs.split_last() else { return Ok(()) };
    for output in others {
        route(nodes, base, env, output, parcel.clone())?;
    }
    route(nodes, base, env, last, parcel)
}

fn route(nodes: &mut [NodeState], base: usize, env: &mut Env, output: &crate::plan::Output, parcel: Parcel) -> Result<()> {
    let (to, port) = (output.to, output.port);
    let first_channel = env.plan.nodes[to].port_channels[port];
    let own_channel = first_channel + env.worker;
    let (edge, batch) = match (&output.route, parcel) {
        (Route::Direct, parcel) => return deliver(nodes, base, env, to, port, first_channel, parcel),
        (Route::Hash { edge, .. } | Route::Single { edge } | Route::Broadcast { edge }, Parcel::Batch(batch)) => (*edge, batch),
        (Route::Hash { edge, .. } | Route::Single { edge } | Route::Broadcast { edge }, signal) => {
            for outlet in env.outlets[*edge].iter_mut().flatten() {
                outlet.push(signal.clone());
            }
            return deliver(nodes, base, env, to, port, own_channel, signal);
        }
    };
    match &output.route {
        Route::Hash { keys, .. } => {
            for (worker, part) in split(env, &batch, keys)?.into_iter().enumerate() {
                let Some(part) = part else { continue };
                match &mut env.outlets[edge][worker] {
                    Some(outlet) => outlet.push(Parcel::Batch(part)),
                    None => deliver(nodes, base, env, to, port, own_channel, Parcel::Batch(part))?,
                }
            }
            Ok(())
        }
        Route::Single { .. } => match &mut env.outlets[edge][0] {
            Some(outlet) => {
                outlet.push(Parcel::Batch(batch));
                Ok(())
            }
            None => deliver(nodes, base, env, to, port, own_channel, Parcel::Batch(batch)),
        },
        Route::Direct | Route::Broadcast { .. } => {
            for outlet in env.outlets[edge].iter_mut().flatten() {
                outlet.push(Parcel::Batch(batch.clone()));
            }
            deliver(nodes, base, env, to, port, own_channel, Parcel::Batch(batch))
        }
    }
}

/// The rows of each worker, by the key group of their keys.
fn split(env: &mut Env, batch: &RecordBatch, keys: &[usize]) -> Result<Vec<Option<RecordBatch>>> {
    let (groups, workers) = (env.plan.key_groups, env.plan.workers);
    let columns: Vec<_> = keys.iter().map(|&key| Arc::clone(batch.column(key))).collect();
    hash_rows(&columns, batch.num_rows(), &mut env.hashes);
    env.rows.iter_mut().for_each(Vec::clear);
    for (row, &hash) in env.hashes.iter().enumerate() {
        env.rows[KeyGroup::of_hash(hash, groups).worker(groups, workers)].push(row as u32);
    }
    let part = |rows: &Vec<u32>| match rows.len() {
        0 => Ok(None),
        all if all == batch.num_rows() => Ok(Some(batch.clone())),
        _ => take_record_batch(batch, &UInt32Array::from(rows.clone())).map(Some),
    };
    let parts: Result<Vec<_>, _> = env.rows.iter().map(part).collect();
    parts.map_err(|error| RuntimeError::Bug { operator: OperatorId(0), what: format!("split a batch for its workers: {error}") })
}

/// Minimum over the live channels of one port.
fn input_watermark(node: &NodeState, plan: &PlanNode, port: usize) -> Watermark {
    let begin = plan.port_channels[port];
    let end = plan.port_channels.get(port + 1).copied().unwrap_or(plan.channels);
    let live = node.channels[begin..end].iter().filter(|channel| !channel.idle && !channel.ended);
    live.map(|channel| channel.watermark).min().unwrap_or(Watermark::MIN)
}

fn deliver(nodes: &mut [NodeState], base: usize, env: &mut Env, to: usize, port: usize, channel: usize, parcel: Parcel) -> Result<()> {
    let (node, rest) = nodes[to - base..].split_first_mut().expect("edges lead to later nodes");
    match parcel {
        Parcel::Batch(batch) => {
            if batch.num_rows() == 0 {
                return Ok(());
            }
            if let Stage::Sink(sink) = &mut node.stage {
                Progress::add(&env.progress.rows_out, batch.num_rows());
                return sink.write(&batch, node.watermark, &mut env.letters);
            }
            let of_input = input_watermark(node, &env.plan.nodes[to], port);
            operate(node, rest, to, env, |operator, context, out| {
                context.input_watermark = context.input_watermark.max(of_input);
                operator.process(port, batch, context, out)
            })
        }
        Parcel::Signal(Signal::Watermark(watermark)) => {
            let channel = &mut node.channels[channel];
            channel.idle = false;
            channel.watermark = channel.watermark.max(watermark);
            advance(node, rest, to, env)
        }
        Parcel::Signal(Signal::Idle(idle)) => {
            node.channels[channel].idle = idle;
            advance(node, rest, to, env)
        }
        Parcel::Signal(Signal::End) => {
            node.channels[channel].ended = true;
            advance(node, rest, to, env)?;
            if node.ended || !node.channels.iter().all(|channel| channel.ended) {
                return Ok(());
            }
            operate(node, rest, to, env, |operator, context, out| operator.end(context, out))?;
            node.ended = true;
            emit(rest, to + 1, env, to, Parcel::Signal(Signal::End))
        }
        Parcel::Signal(Signal::Barrier(epoch)) => {
            node.channels[channel].barrier = epoch;
            if node.channels.iter().all(|channel| channel.barrier == epoch) { pass_barrier(node, rest, to, env, epoch) } else { Ok(()) }
        }
    }
}

/// Follows a change of a channel's watermark, idleness or end.
fn advance(node: &mut NodeState, rest: &mut [NodeState], at: usize, env: &mut Env) -> Result<()> {
    let live = node.channels.iter().filter(|channel| !channel.idle && !channel.ended).map(|channel| channel.watermark).min();
    let is_idle = live.is_none() && node.channels.iter().any(|channel| channel.idle && !channel.ended);
    if is_idle != node.idle {
        node.idle = is_idle;
        emit(rest, at + 1, env, at, Parcel::Signal(Signal::Idle(is_idle)))?;
    }
    if is_idle {
        return Ok(());
    }
    // Ended channels sent their last watermark before.
    let watermark = live.unwrap_or_else(|| node.channels.iter().map(|channel| channel.watermark).min().unwrap_or(Watermark::MAX));
    if watermark <= node.watermark {
        return Ok(());
    }
    node.watermark = watermark;
    operate(node, rest, at, env, |operator, context, out| operator.watermark(watermark, context, out))
}

fn pass_barrier(node: &mut NodeState, rest: &mut [NodeState], at: usize, env: &mut Env, epoch: Epoch) -> Result<()> {
    operate(node, rest, at, env, |operator, context, out| operator.barrier(epoch, context, out))?;
    match &mut node.stage {
        Stage::Operator { state, .. } => {
            let changes = state.hand_over(epoch);
            if !changes.is_empty() {
                env.part.changes.push(changes);
            }
        }
        Stage::Sink(sink) => {
            let mut changes = ChangeSet::default();
            let prepared: Prepared = sink.prepare(epoch, &mut env.letters, &mut changes)?;
            if !changes.is_empty() {
                env.part.changes.push(Arc::new(changes));
            }
            env.part.prepared.push((env.id(at), prepared));
        }
        Stage::Source => {}
    }
    env.passed += 1;
    emit(rest, at + 1, env, at, Parcel::Signal(Signal::Barrier(epoch)))
}

/// Calls an operator and takes care of what it gave up.
fn operate(
    node: &mut NodeState,
    rest: &mut [NodeState],
    at: usize,
    env: &mut Env,
    call: impl FnOnce(&mut dyn Operator, &mut OperatorContext<'_>, &mut dyn Collector) -> Result<()>,
) -> Result<()> {
    let Stage::Operator { operator, state } = &mut node.stage else { return Ok(()) };
    let clock = Arc::clone(&env.clock);
    let mut context = OperatorContext {
        operator: env.id(at),
        state,
        input_watermark: node.watermark,
        clock: clock.as_ref(),
        dead_letters: &mut node.letters,
        late: &mut node.late,
    };
    let mut out = Out { at, rest, env, sent: &mut node.sent };
    call(operator.as_mut(), &mut context, &mut out)?;
    for letter in node.letters.drain(..) {
        env.letters.give_up(at, letter)?;
    }
    if !node.late.is_empty() {
        let rows: usize = node.late.drain(..).map(|batch| batch.num_rows()).sum();
        env.progress.late.fetch_add(rows as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// What an operator sends goes to the nodes behind it at once.
struct Out<'a> {
    at: usize,
    rest: &'a mut [NodeState],
    env: &'a mut Env,
    sent: &'a mut Watermark,
}

impl Collector for Out<'_> {
    fn batch(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        emit(self.rest, self.at + 1, self.env, self.at, Parcel::Batch(batch))
    }

    fn watermark(&mut self, watermark: Watermark) -> Result<()> {
        if watermark <= *self.sent {
            return Ok(());
        }
        *self.sent = watermark;
        emit(self.rest, self.at + 1, self.env, self.at, Parcel::Signal(Signal::Watermark(watermark)))
    }
}
