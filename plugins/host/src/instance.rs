//! One instance of a plugin: a store of its own, started with the job's configuration, called under all limits.
//!
//! Invariant: after a fault the instance is not called again; whoever owns it makes a new one ([`Instance::start`]).

use std::{sync::PoisonError, time::Duration};

use wasmtime::{
    Store, Trap,
    component::{ComponentExportIndex, ComponentNamedList, Instance as WasmInstance, Lift, Lower},
};

use crate::{
    guest::{CallTime, Guest},
    imports::state::StateView,
    limits::{hostcalls, output, time},
    loaded::Component,
};

/// Why a call did not come back as it should. The instance is of no use any more.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    /// What happened, as the end of "the plugin …".
    pub(crate) what: String,
    /// Whether it was the time limit, which a busy machine may cause.
    pub(crate) is_timeout: bool,
    /// The end of what it wrote to stderr.
    pub(crate) stderr: String,
}

impl Fault {
    /// An answer that breaks the contract.
    pub(crate) fn contract(what: impl Into<String>) -> Self {
        Self { what: what.into(), is_timeout: false, stderr: String::new() }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)?;
        if !self.stderr.is_empty() {
            write!(f, "; stderr: {}", self.stderr)?;
        }
        Ok(())
    }
}

/// What `init` said, or that it trapped.
#[derive(Debug)]
pub(crate) enum StartError {
    Refused(String),
    Fault(Fault),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(reason) => write!(f, "refused its configuration: {reason}"),
            Self::Fault(fault) => write!(f, "could not start: {fault}"),
        }
    }
}

/// A running plugin.
pub(crate) struct Instance {
    store: Store<Guest>,
    instance: WasmInstance,
}

/// Starting may take longer than a call: models are read then.
const START_FACTOR: u32 = 20;

impl Instance {
    /// A new instance that has not been asked anything.
    pub(crate) fn bare(component: &Component, state: StateView) -> Result<Self, Fault> {
        let mut store = Store::new(component.pre.engine(), Guest::new(component.shared.clone(), state));
        store.limiter(|guest| &mut guest.memory);
        output::set(&mut store, component.shared.options.limits.output_bytes);
        let limit = component.shared.options.limits.timeout * START_FACTOR;
        time::watch(&mut store);
        time::begin(&mut store, limit);
        match component.pre.instantiate(&mut store) {
            Ok(instance) => Ok(Self { store, instance }),
            Err(error) => Err(fault_of(&mut store, &error, limit)),
        }
    }

    /// A new instance with the job's configuration.
    pub(crate) fn start(component: &Component, state: StateView) -> Result<Self, StartError> {
        let mut instance = Self::bare(component, state).map_err(StartError::Fault)?;
        let config = component.shared.options.config.as_str();
        let limit = component.shared.options.limits.timeout * START_FACTOR;
        let (outcome,): (Result<(), String>,) =
            instance.run(&component.init, (config,), CallTime::default(), limit).map_err(StartError::Fault)?;
        outcome.map_err(StartError::Refused)?;
        Ok(instance)
    }

    /// Calls a function of the plugin's kind: state may be used, and what was written counts if this returns `Ok`.
    pub(crate) fn call<P, R>(&mut self, function: &ComponentExportIndex, arguments: P, time: CallTime, limit: Duration) -> Result<R, Fault>
    where
        P: ComponentNamedList + Lower,
        R: ComponentNamedList + Lift,
    {
        self.store.data_mut().state.begin();
        self.run(function, arguments, time, limit)
    }

    /// Keeps or forgets what the calls since the last settlement wrote.
    pub(crate) fn settle_state(&mut self, keep: bool) {
        self.store.data_mut().state.end(keep);
    }

    /// Calls a function of the lifecycle.
    pub(crate) fn run<P, R>(&mut self, function: &ComponentExportIndex, arguments: P, time: CallTime, limit: Duration) -> Result<R, Fault>
    where
        P: ComponentNamedList + Lower,
        R: ComponentNamedList + Lift,
    {
        let func = self
            .instance
            .get_func(&mut self.store, function)
            .ok_or_else(|| Fault::contract("does not export the function"))?;
        let func = func
            .typed::<P, R>(&self.store)
            .map_err(|e| Fault::contract(format!("exports a function of another type: {e:#}")))?;
        self.store.data_mut().time = time;
        self.store.data_mut().host_calls.reset();
        time::begin(&mut self.store, limit);
        let outcome = func.call(&mut self.store, arguments);
        self.give_metrics();
        outcome.map_err(|error| fault_of(&mut self.store, &error, limit))
    }

    fn give_metrics(&mut self) {
        let guest = self.store.data_mut();
        if !guest.metrics.is_empty() {
            let mut shared = guest.shared.metrics.lock().unwrap_or_else(PoisonError::into_inner);
            shared.absorb(&mut guest.metrics);
        }
    }
}

/// What went wrong, in words for a person who wrote the plugin.
fn fault_of(store: &mut Store<Guest>, error: &wasmtime::Error, limit: Duration) -> Fault {
    let output_max = store.data().shared.options.limits.output_bytes;
    let stderr = store.data().stderr.text();
    let hit = store.data_mut().memory.take_hit();
    let trap = error.downcast_ref::<Trap>();
    let is_timeout = trap == Some(&Trap::Interrupt);
    let what = if is_timeout {
        format!("ran past its time limit of {} ms", limit.as_millis())
    } else if trap == Some(&Trap::StackOverflow) {
        "used up its stack".to_owned()
    } else if output::is_exceeded(error) {
        format!("handed over more than {output_max} bytes in one go")
    } else if let Some(hit) = hit {
        hit
    } else if let Some(exceeded) = error.downcast_ref::<hostcalls::Exceeded>() {
        exceeded.to_string()
    } else if let Some(trap) = trap {
        format!("trapped: {trap}")
    } else {
        format!("trapped: {}", error.root_cause())
    };
    Fault { what, is_timeout, stderr }
}
