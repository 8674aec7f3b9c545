//! A batch against a plugin that may trap: halved until each poison record stands alone.
//!
//! Promises: one outcome per record, in order; a record's outcome does not depend on its neighbours, as long as the
//! plugin's does not. Works on an instance that it replaces after each fault. Writes to state count for the parts that
//! came back. Records the plugin calls `retryable` are tried again a few times.
//!
//! ```text
//! call 0..8 → trap    call 0..4 → ok    call 4..8 → trap    call 4..6 → ok    call 6..8 → trap
//! call 6..7 → trap: record 6 is refused        call 7..8 → ok
//! ```

use std::{ops::Range, sync::Arc, thread, time::Duration};

use pelton_core::error::{Result, RuntimeError};

use crate::{
    guest::CallTime,
    imports::state::StateView,
    instance::{Fault, Instance, StartError},
    limits::breaker::Breaker,
    loaded::{Component, LoadedPlugin},
    state::PluginState,
    wire::Failure,
};

/// Pauses before a record is tried again. After the last try it is refused.
const BACK_OFF: [Duration; 3] = [Duration::from_millis(5), Duration::from_millis(20), Duration::from_millis(80)];

/// An instance that is replaced when it breaks, for one worker.
pub(crate) struct Worker {
    component: Arc<Component>,
    pub(crate) identity: Arc<str>,
    state: Option<Arc<dyn PluginState>>,
    /// `None` after a fault, until it is needed again.
    instance: Option<Instance>,
    breaker: Breaker,
}

/// What became of one record.
pub(crate) type Outcome<T> = std::result::Result<T, String>;

impl Worker {
    /// Starts an instance.
    pub(crate) fn start(plugin: &LoadedPlugin, state: Option<Arc<dyn PluginState>>) -> Result<Self> {
        let instance = Instance::start(&plugin.component, StateView::new(state.clone())).map_err(|e| plugin.start_error(e))?;
        Ok(Self {
            component: Arc::clone(&plugin.component),
            identity: plugin.identity_arc(),
            state,
            instance: Some(instance),
            breaker: Breaker::default(),
        })
    }

    /// Runs `call` with an instance and its time limit; a fault costs the instance.
    pub(crate) fn attempt<T>(
        &mut self,
        limit: Duration,
        call: impl FnOnce(&mut Instance, Duration) -> std::result::Result<T, Fault>,
    ) -> Result<std::result::Result<T, Fault>> {
        let mut instance = match self.instance.take() {
            Some(instance) => instance,
            None => self.restart()?,
        };
        let outcome = call(&mut instance, limit);
        instance.settle_state(outcome.is_ok());
        if outcome.is_ok() {
            self.instance = Some(instance);
        }
        Ok(outcome)
    }

    fn restart(&self) -> Result<Instance> {
        let state = StateView::new(self.state.clone());
        Instance::start(&self.component, state).map_err(|error| match error {
            StartError::Refused(_) => self.broken(format!("after a trap it {error}")),
            StartError::Fault(_) => self.broken(error),
        })
    }

    pub(crate) fn limit(&self) -> Duration {
        self.component.limits().timeout
    }

    pub(crate) fn processing_ms(&self) -> i64 {
        self.component.clock.now().as_millis()
    }

    pub(crate) fn broken(&self, reason: impl std::fmt::Display) -> RuntimeError {
        RuntimeError::Plugin { plugin: self.identity.to_string(), reason: reason.to_string() }
    }

    /// One outcome per record in `0..count`. `call` is given a range of records and answers one result for each.
    pub(crate) fn settle<T>(
        &mut self,
        count: usize,
        call: &mut dyn FnMut(&mut Instance, &[u32], Duration) -> std::result::Result<Vec<std::result::Result<T, Failure>>, Fault>,
    ) -> Result<Vec<Outcome<T>>> {
        let rows: Vec<u32> = (0..u32::try_from(count).unwrap_or(u32::MAX)).collect();
        let mut results = self.halve(&rows, call)?;
        for (attempt, pause) in BACK_OFF.iter().enumerate() {
            let again: Vec<u32> = rows.iter().copied().filter(|&row| is_retryable(&results[row as usize])).collect();
            if again.is_empty() {
                break;
            }
            tracing::debug!(plugin = %self.identity, records = again.len(), attempt, "plugin asked to be called again");
            thread::sleep(*pause);
            for (row, result) in again.iter().zip(self.halve(&again, call)?) {
                results[*row as usize] = result;
            }
        }
        results.into_iter().map(|result| self.outcome(result)).collect()
    }

    fn outcome<T>(&self, result: Tried<T>) -> Result<Outcome<T>> {
        match result {
            Tried::Done(Ok(value)) => Ok(Ok(value)),
            Tried::Done(Err(Failure::InvalidInput(reason))) => Ok(Err(reason)),
            Tried::Done(Err(Failure::Retryable(reason))) => Ok(Err(format!("still failing after {} tries: {reason}", BACK_OFF.len() + 1))),
            Tried::Done(Err(Failure::Fatal(reason))) => Err(self.broken(reason)),
            Tried::Trapped(fault) => Ok(Err(format!("plugin {}: {fault}", self.identity))),
        }
    }

    fn halve<T>(
        &mut self,
        rows: &[u32],
        call: &mut dyn FnMut(&mut Instance, &[u32], Duration) -> std::result::Result<Vec<std::result::Result<T, Failure>>, Fault>,
    ) -> Result<Vec<Tried<T>>> {
        let mut results = Vec::with_capacity(rows.len());
        let full = self.limit();
        // Ranges still to do, the next one last; and how long each may take.
        let mut todo: Vec<(Range<usize>, Duration)> = if rows.is_empty() { Vec::new() } else { vec![(0..rows.len(), full)] };
        while let Some((range, limit)) = todo.pop() {
            let part = &rows[range.clone()];
            let answer = self.attempt(limit, |instance, limit| {
                let answer = call(instance, part, limit)?;
                if answer.len() == part.len() {
                    Ok(answer)
                } else {
                    Err(Fault::contract(format!("gave {} results for {} records", answer.len(), part.len())))
                }
            })?;
            match answer {
                Ok(answer) => {
                    self.breaker.close();
                    results.extend(answer.into_iter().map(Tried::Done));
                }
                Err(fault) if range.len() == 1 => {
                    if self.breaker.trap() {
                        return Err(self.broken(format!("{fault} (the last of many records in a row)")));
                    }
                    results.push(Tried::Trapped(fault));
                }
                Err(fault) => {
                    let limit = if fault.is_timeout { shorter(limit, full) } else { limit };
                    let middle = range.start + range.len() / 2;
                    todo.push((middle..range.end, limit));
                    todo.push((range.start..middle, limit));
                }
            }
        }
        Ok(results)
    }
}

/// Time for each half of a part that ran out of time: half as much, so that finding one endless record in thousands
/// takes about three times the limit in all, but not so little that an honest record is blamed.
fn shorter(limit: Duration, full: Duration) -> Duration {
    (limit / 2).max(full / 8).max(Duration::from_millis(20)).min(full)
}

enum Tried<T> {
    Done(std::result::Result<T, Failure>),
    Trapped(Fault),
}

fn is_retryable<T>(tried: &Tried<T>) -> bool {
    matches!(tried, Tried::Done(Err(Failure::Retryable(_))))
}

/// The times a batch sees: event time is its newest record's, else the watermark's.
pub(crate) fn call_time(newest_ms: Option<i64>, watermark_ms: Option<i64>, processing_ms: i64) -> CallTime {
    CallTime { event_ms: newest_ms.or(watermark_ms).unwrap_or(0), processing_ms }
}
