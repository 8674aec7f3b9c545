//! The engine: runs a job's graph on worker threads, with watermarks, exchanges, checkpoints and dead letters.
//!
//! An embeddable library: [`run`] takes a planned job, [`Settings`], [`Components`] and a [`Control`], and returns when
//! the job is done, was stopped, or failed. [`plan`] plans a script with all connectors, formats and plugins there are.
//!
//! Promises: rows and results do not depend on the number of workers or the size of batches; a crash at any point
//! loses and doubles nothing that goes to a transactional sink; memory between workers is bounded.
//! Leaves to others: what operators compute (`sql/operators`), bytes (`runtime/formats`), the outside (`runtime/connect`,
//! `runtime/kafka`), what is durable (`runtime/state`).
//!
//! ```text
//! run.rs          opens the state, starts workers, waits
//! coordinator.rs  one per job: barriers, the atomic commit of an epoch, stop and end
//! worker.rs       one thread: orders, inputs, sources, waiting
//! chain.rs        the operators of a worker: direct calls, watermarks per channel, alignment
//! exchange.rs     queues between workers
//! source/         poll → transform → decode → metadata → source step → cut at watermarks
//! sink/           encode → route → write; printing of results
//! ```

mod settings;
mod table_options;
mod components;
mod connectors;
mod control;
mod failpoint;
mod state;
mod state_open;
mod letters;
mod plan;
mod exchange;
mod chain;
mod source;
mod sink;
mod worker;
mod coordinator;
mod run;
mod environment;

pub use components::{Components, SystemClock};
pub use connectors::{Connectors, Place, StandardConnectors};
pub use control::{Control, Progress, ProgressReport};

pub use environment::{PlanContext, SAMPLES, plan, samples};
pub use letters::{letter_from_json, letter_to_json};
pub use run::{Outcome, RunReport, StateChoice, run};
pub use settings::{SETTINGS, Settings};
pub use sink::select::{Output, OutputFormat};
pub use state::{StoredJob, stored_job, stored_letters};
pub use table_options::TABLE_OPTIONS;
