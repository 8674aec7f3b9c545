//! Running a job: opens its state, settles what a crash left, makes the workers, and waits for their end.
//!
//! On start, in this order: transactions are settled → the pending epoch is kept or dropped → the state must fit the
//! graph → sinks finish the last durable epoch → sources go on from its positions → operators open on its state.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize},
    },
    thread,
    time::Duration,
};

use crossbeam_channel::{Receiver, unbounded};
use pelton_core::{
    dead_letter::DeadLetter,
    error::{Result, RuntimeError},
    graph::{Graph, NodeKind, TableSpec},
    key_group::KeyGroup,
    position::{Epoch, OperatorId},
    sink::{Sink, TransactionCoordinator},
    source::RecordParts,
    state::{ChangeSet, StateBackend, StateHandle},
    time::Clock,
};
use pelton_plugin_host::LoadedPlugin;
use pelton_sql::job::Job;

use crate::{
    chain::{Chain, EnvStart, Stage},
    components::Components,
    connectors::Place,
    control::{Control, Progress, ProgressReport},
    coordinator::{Coordinator, Ending, Event, repair_letter_files},
    exchange::{Limits, Threads, queues},
    failpoint::Failpoints,
    letters::Letters,
    plan::Plan,
    settings::Settings,
    sink::{SinkDriver, SinkStart, letter_sink, letter_sink::LetterSink, select::SelectSink},
    source::{RowMaker, SourceDriver, SourceStart, record_parts},
    state::{Restored, StoredJob, put_job, stored_job},
    state_open::{State, settle},
    table_options::{LetterBox, connector, letter_box},
    worker::{Worker, panic_error},
};

/// What to do with the state of an earlier run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateChoice {
    /// Go on from it.
    Resume,
    /// Drop it.
    Fresh,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Its inputs have ended.
    Finished,
    /// It was stopped at a checkpoint and can go on from there.
    Stopped,
    /// It was done before: nothing ran.
    AlreadyDone,
}

/// What there is to say of a run.
#[derive(Debug)]
pub struct RunReport {
    /// How it ended.
    pub outcome: Outcome,
    /// Counters at the end.
    pub progress: ProgressReport,
    /// The first dead letters.
    pub letters: Vec<DeadLetter>,
    /// Folder of the state, if it outlives the run.
    pub state_dir: Option<PathBuf>,
}

/// Runs a job until it is done, stopped or failed. `notice` is told what people should know before the first row.
///
/// # Errors
/// Everything that stops a job; the variant says what to do.
pub fn run(
    job: Job,
    settings: Settings,
    choice: StateChoice,
    components: &Components,
    control: &Control,
    progress: &Arc<Progress>,
    notice: &dyn Fn(&str),
) -> Result<RunReport> {
    let settings = Arc::new(settings);
    let workers = settings.workers.get();
    let is_bounded = all_bounded(&job.graph, components)?;
    components.output.set_live(!is_bounded);
    let state = State::open(&settings, is_bounded, choice, components, notice)?;
    let plugins = Plugins::load(&job, components)?;
    let stored = stored_job(state.backend.as_ref())?;
    let job_facts = match &stored {
        Some(stored) => {
            stored.check_fits(&job.graph)?;
            StoredJob { plugins: plugins.identities(), ..stored.clone() }
        }
        None => StoredJob {
            name: settings.name.clone(),
            run: new_run(&settings.name, components.clock.as_ref()),
            key_groups: settings.key_groups,
            operators: StoredJob::operators_of(&job.graph),
            finished: false,
            plugins: plugins.identities(),
        },
    };
    let plan = Plan::new(job.graph.clone(), workers, job_facts.key_groups);
    let place = Place { job: &settings.name, run: &job_facts.run, worker: 0, workers, needs_all: plan.is_keyed() };
    let mut transactions = components.connectors.transactions(&tables_read(&plan), &tables_written(&plan), place)?;
    let committed = settle(state.backend.as_ref(), transactions.as_deref_mut(), stored.is_some())?;
    if stored.is_none() {
        let mut first = ChangeSet::default();
        put_job(&job_facts, &mut first);
        if state.dir.is_some() || components.backend.is_some() {
            // The run's name must be known again even if the first checkpoint is never reached.
            state.backend.apply(Epoch(0), &[Arc::new(first)])?;
        }
    }
    let restored = Restored::read(state.backend.as_ref(), &plan.graph)?;
    if job_facts.finished {
        notice(&format!("job '{}' is done: its input ended at checkpoint {}; --fresh runs it again", settings.name, restored.epoch));
    } else if restored.epoch > Epoch(0) {
        let place = state.dir.as_ref().map_or_else(String::new, |dir| format!(" of {}", dir.display()));
        notice(&format!("going on from checkpoint {}{place}", restored.epoch));
    }
    repair_letter_files(&restored.files)?;
    if plan.is_keyed() && workers > usize::from(plan.key_groups) {
        return Err(RuntimeError::Script(format!("{workers} workers are more than the job's {} key groups", plan.key_groups)));
    }

    let start = Start {
        plan: &plan,
        settings: &settings,
        components,
        plugins: &plugins,
        restored: &restored,
        backend: &state.backend,
        facts: &job_facts,
        epoch: restored.epoch.max(committed),
        is_durable: state.is_durable(),
        applied: Arc::new(AtomicU64::new(restored.epoch.0)),
        failpoints: Failpoints::at(components.fail_at),
        progress,
    };
    if job_facts.finished {
        // The last run may have died before its sinks showed the last epoch.
        start.finish_sinks()?;
        return Ok(RunReport { outcome: Outcome::AlreadyDone, progress: progress.report(), letters: Vec::new(), state_dir: state.dir });
    }
    let (coordinator, running) = start.workers(transactions, control, is_bounded, state.size_bytes())?;
    let (ending, letters) = supervise(coordinator, running)?;
    components.output.finish()?;
    Ok(RunReport {
        outcome: if ending == Ending::Finished { Outcome::Finished } else { Outcome::Stopped },
        progress: progress.report(),
        letters,
        state_dir: state.dir,
    })
}

fn tables_read(plan: &Plan) -> Vec<Arc<TableSpec>> {
    plan.sources().map(|(_, source)| Arc::clone(&source.table)).collect()
}

fn tables_written(plan: &Plan) -> Vec<Arc<TableSpec>> {
    plan.sinks().map(|(_, sink)| Arc::clone(&sink.table)).collect()
}

fn all_bounded(graph: &Graph, components: &Components) -> Result<bool> {
    for node in &graph.nodes {
        if let NodeKind::Source(source) = &node.kind
            && !components.connectors.is_bounded(&source.table)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A name that no other fresh start has.
fn new_run(name: &str, clock: &dyn Clock) -> String {
    let moment = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let text = format!("{name}|{}|{moment}|{}", clock.now().as_millis(), std::process::id());
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
}

/// The plugins that the graph's tables name.
struct Plugins(BTreeMap<String, Arc<LoadedPlugin>>);

impl Plugins {
    fn load(job: &Job, components: &Components) -> Result<Self> {
        let mut loaded = BTreeMap::new();
        for node in &job.graph.nodes {
            let (table, option) = match &node.kind {
                NodeKind::Source(source) => (&source.table, "pelton.transform"),
                NodeKind::Sink(sink) => (&sink.table, "pelton.router"),
                NodeKind::Operator(_) => continue,
            };
            let Some(name) = table.options.get(option).filter(|name| !name.is_empty()) else { continue };
            let refuse = |reason: &str| RuntimeError::Script(format!("table '{}': option '{option}': {reason}", table.name));
            let spec = job.plugins.get(name).ok_or_else(|| refuse(&format!("no plugin '{name}' was created")))?;
            let host = components.plugins.as_ref().ok_or_else(|| refuse("plugins cannot be run here"))?;
            loaded.insert(name.clone(), host.load(spec, &components.base_dir)?);
        }
        Ok(Self(loaded))
    }

    fn of(&self, table: &TableSpec, option: &str) -> Option<Arc<LoadedPlugin>> {
        self.0.get(table.options.get(option)?).cloned()
    }

    fn identities(&self) -> BTreeMap<String, String> {
        self.0.iter().map(|(name, plugin)| (name.clone(), plugin.identity().to_owned())).collect()
    }
}

/// Everything workers are made from.
struct Start<'a> {
    plan: &'a Arc<Plan>,
    settings: &'a Arc<Settings>,
    components: &'a Components,
    plugins: &'a Plugins,
    restored: &'a Restored,
    backend: &'a Arc<dyn StateBackend>,
    facts: &'a StoredJob,
    /// Epochs begin after this one.
    epoch: Epoch,
    is_durable: bool,
    applied: Arc<AtomicU64>,
    failpoints: Failpoints,
    progress: &'a Arc<Progress>,
}

/// The running threads.
struct Running {
    handles: Vec<thread::JoinHandle<()>>,
}

impl Start<'_> {
    fn place(&self, worker: usize) -> Place<'_> {
        Place { job: &self.settings.name, run: &self.facts.run, worker, workers: self.plan.workers, needs_all: self.plan.is_keyed() }
    }

    /// Lets sinks finish the last epoch, and nothing else.
    fn finish_sinks(&self) -> Result<()> {
        for worker in 0..self.plan.workers {
            self.stages(worker)?;
            self.letter_sinks(worker)?;
        }
        Ok(())
    }

    /// Makes all workers and starts them.
    fn workers(
        self,
        transactions: Option<Box<dyn TransactionCoordinator>>,
        control: &Control,
        is_bounded: bool,
        state_bytes: Box<dyn Fn() -> u64>,
    ) -> Result<(Coordinator, Running)> {
        let workers = self.plan.workers;
        let threads: Threads = Arc::new((0..workers).map(|_| OnceLock::new()).collect());
        let limits = Limits { rows: self.settings.exchange_rows, bytes: self.settings.exchange_bytes };
        let started = Arc::new(AtomicUsize::new(0));
        let (events, heard) = unbounded();
        let mut orders = Vec::new();
        let mut made = Vec::new();
        let mut letter_operators = Vec::new();
        for (worker, ends) in queues(self.plan, limits, &threads).into_iter().enumerate() {
            let (order, ordered) = unbounded();
            orders.push(order);
            let letters = Letters::new(self.plan, self.settings.fail_on_error)?;
            let env = EnvStart {
                plan: Arc::clone(self.plan),
                worker,
                clock: Arc::clone(&self.components.clock),
                progress: Arc::clone(self.progress),
                letters,
                completed: self.epoch,
            };
            let letter_sinks = self.letter_sinks(worker)?;
            letter_operators.extend(letter_sinks.iter().map(|sink| sink.id));
            let chain = Chain::new(env, self.stages(worker)?, ends);
            let now = self.components.clock.now();
            made.push(Worker {
                worker,
                workers,
                settings: Arc::clone(self.settings),
                clock: Arc::clone(&self.components.clock),
                failpoints: self.failpoints.clone(),
                is_durable: self.is_durable,
                memory: self.settings.state_memory / 2 / workers,
                orders: ordered,
                events: events.clone(),
                threads: Arc::clone(&threads),
                started: Arc::clone(&started),
                chain,
                sources: self.sources(worker)?,
                letter_sinks,
                barrier: None,
                is_stopped: false,
                said_ended: false,
                asked_checkpoint: false,
                last_barrier_at: now,
                rounds: 0,
                reported_at: now,
                turn: worker,
            });
        }
        let mut sinks: Vec<OperatorId> = self.plan.sinks().map(|(node, _)| self.plan.nodes[node].id).collect();
        sinks.extend(letter_operators);
        sinks.sort_unstable();
        sinks.dedup();
        let default_interval = (!is_bounded).then_some(Duration::from_secs(10));
        let coordinator = Coordinator {
            workers,
            backend: Arc::clone(self.backend),
            is_durable: self.is_durable,
            sinks,
            interval: self.settings.checkpoint_interval.or(default_interval),
            shutdown_timeout: self.settings.shutdown_timeout,
            clock: Arc::clone(&self.components.clock),
            failpoints: self.failpoints.clone(),
            state_bytes,
            transactions,
            events: heard,
            orders,
            threads,
            control: control.clone(),
            progress: Arc::clone(self.progress),
            job: self.facts.clone(),
            applied: Arc::clone(&self.applied),
            epoch: self.epoch,
            letters: Vec::new(),
        };
        let mut handles = Vec::new();
        for worker in made {
            let number = worker.worker;
            let events = events.clone();
            let body = move || {
                let failed = match catch_unwind(AssertUnwindSafe(|| worker.run())) {
                    Ok(result) => result.err(),
                    Err(panic) => Some(panic_error(number, panic.as_ref())),
                };
                if let Some(error) = failed {
                    // Nobody listens only when another worker failed first.
                    let _ = events.send(Event::Failed(error));
                }
            };
            let spawned = thread::Builder::new().name(format!("worker-{number}")).stack_size(8 << 20).spawn(body);
            let failed = |error: std::io::Error| RuntimeError::Unavailable { action: "start a worker thread".to_owned(), reason: error.to_string() };
            handles.push(spawned.map_err(failed)?);
        }
        Ok((coordinator, Running { handles }))
    }

    /// The operators and sinks of a worker. Sinks have finished the last epoch when this returns.
    fn stages(&self, worker: usize) -> Result<Vec<Stage>> {
        let mut stages = Vec::new();
        for (index, node) in self.plan.graph.nodes.iter().enumerate() {
            stages.push(match &node.kind {
                NodeKind::Source(_) => Stage::Source,
                NodeKind::Operator(factory) => {
                    let groups = KeyGroup::owned_by(worker, self.plan.key_groups, self.plan.workers);
                    let state = StateHandle::new(node.id, Arc::clone(self.backend), groups, self.plan.key_groups, Arc::clone(&self.applied));
                    Stage::Operator { operator: factory.create(worker, self.plan.workers)?, state }
                }
                NodeKind::Sink(spec) => {
                    let sink: Box<dyn Sink> = match connector(&spec.table) {
                        "select" => Box::new(SelectSink(Arc::clone(&self.components.output))),
                        _ => self.components.connectors.sink(&spec.table, self.place(worker))?,
                    };
                    let mut driver = SinkDriver::new(SinkStart {
                        node: index,
                        id: node.id,
                        worker,
                        spec,
                        schema: &node.schema,
                        sink,
                        router: self.plugins.of(&spec.table, "pelton.router"),
                        plugin_state: self.restored.plugins.get(&node.id).map_or(&[], Vec::as_slice),
                        clock: Arc::clone(&self.components.clock),
                    })?;
                    driver.recover(self.epoch, self.prepared_for(node.id, worker))?;
                    Stage::Sink(Box::new(driver))
                }
            });
        }
        Ok(stages)
    }

    /// What a sink's workers prepared for the last epoch: worker 0 gets it all.
    fn prepared_for(&self, operator: OperatorId, worker: usize) -> &[pelton_core::sink::Prepared] {
        match (worker, self.restored.prepared.get(&operator)) {
            (0, Some(prepared)) => prepared,
            _ => &[],
        }
    }

    fn letter_sinks(&self, worker: usize) -> Result<Vec<LetterSink>> {
        let mut sinks = Vec::new();
        for (node, source) in self.plan.sources() {
            let LetterBox::Topic(topic) = letter_box(&source.table) else { continue };
            if sinks.iter().any(|sink: &LetterSink| sink.topic == topic) {
                continue;
            }
            let id = self.plan.nodes[node].id;
            let mut sink = self.components.connectors.sink(&letter_sink::table(&source.table, &topic), self.place(worker))?;
            sink.recover(self.epoch, self.prepared_for(id, worker))?;
            sinks.push(LetterSink::new(&topic, id, sink, &self.settings.name));
        }
        Ok(sinks)
    }

    fn sources(&self, worker: usize) -> Result<Vec<SourceDriver>> {
        let mut sources = Vec::new();
        for (node, spec) in self.plan.sources() {
            let id = self.plan.nodes[node].id;
            let transform = self.plugins.of(&spec.table, "pelton.transform");
            let parts: RecordParts = record_parts(spec, transform.as_deref())?;
            let start = SourceStart {
                node,
                id,
                spec: spec.clone(),
                source: self.components.connectors.source(&spec.table, parts, self.place(worker))?,
                rows: Arc::new(RowMaker::new(spec, Arc::clone(&self.components.connectors))?),
                transform,
                restored: self.restored.positions.get(&id).cloned().unwrap_or_default(),
                plugin_state: self.restored.plugins.get(&id).cloned().unwrap_or_default(),
            };
            sources.push(SourceDriver::new(start, Arc::clone(self.settings), self.components.clock.now())?);
        }
        Ok(sources)
    }
}

/// Runs the coordinator to its end and waits for the workers.
fn supervise(mut coordinator: Coordinator, running: Running) -> Result<(Ending, Vec<DeadLetter>)> {
    let ending = coordinator.run();
    let letters = std::mem::take(&mut coordinator.letters);
    let heard: Receiver<Event> = coordinator.events.clone();
    // Without orders' senders every worker leaves at its next round.
    drop(coordinator);
    for handle in running.handles {
        // A panic was caught inside and sent as an event.
        let _ = handle.join();
    }
    drop(heard);
    ending.map(|ending| (ending, letters))
}
