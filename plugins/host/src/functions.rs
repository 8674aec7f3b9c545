//! SQL functions of a plugin: called with Arrow columns, on instances kept in a pool.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arrow::{
    array::{Array, ArrayRef, BooleanArray, UInt32Array, new_null_array},
    buffer::NullBuffer,
    compute::{filter, take},
    datatypes::{DataType, SchemaRef},
};
use pelton_core::{
    error::{Result, RuntimeError},
    plugin::{FunctionCall, PluginFunction, Volatility},
};
use wasmtime::component::ComponentExportIndex;

use crate::{
    guest::CallTime,
    imports::state::StateView,
    instance::{Fault, Instance},
    ipc,
    limits::breaker::Breaker,
    loaded::{Component, LoadedPlugin},
    wire::{Failure, Shape, Signature, Volatility as WireVolatility},
};

/// Instances and what they share. Workers take one for a call and put it back: one lock a batch, not a row.
struct Pool {
    component: Arc<Component>,
    identity: Arc<str>,
    invoke: ComponentExportIndex,
    idle: Mutex<Vec<Instance>>,
    breaker: Mutex<Breaker>,
}

/// Asks the plugin for its functions.
pub(crate) fn list(plugin: &LoadedPlugin) -> Result<Vec<PluginFunction>> {
    let mut instance = Instance::start(&plugin.component, StateView::default()).map_err(|e| plugin.start_error(e))?;
    let functions = plugin.export("functions", "functions")?;
    let limit = plugin.limits().timeout.max(Duration::from_secs(1));
    let (signatures,): (Vec<Signature>,) =
        instance.run(&functions, (), CallTime::default(), limit).map_err(|fault| plugin.broken(format!("functions: {fault}")))?;
    let pool = Arc::new(Pool {
        component: Arc::clone(&plugin.component),
        identity: plugin.identity_arc(),
        invoke: plugin.export("functions", "invoke")?,
        idle: Mutex::new(vec![instance]),
        breaker: Mutex::default(),
    });
    signatures
        .into_iter()
        .enumerate()
        .map(|(index, signature)| {
            let name = signature.name.clone();
            function(&pool, index as u32, signature).map_err(|reason| plugin.refuse(format!("function {name}: {reason}")))
        })
        .collect()
}

fn function(pool: &Arc<Pool>, index: u32, signature: Signature) -> std::result::Result<PluginFunction, String> {
    let arguments = Arc::new(ipc::read_schema(&signature.arguments).map_err(|e| format!("arguments: {e}"))?);
    let returns = Arc::new(ipc::read_schema(&signature.returns).map_err(|e| format!("returns: {e}"))?);
    let [result] = returns.fields().as_ref() else {
        return Err(format!("returns {} columns, expected one", returns.fields().len()));
    };
    let is_table = signature.shape == Shape::Table;
    let returned = match (is_table, result.data_type()) {
        (true, DataType::List(item)) => item.data_type().clone(),
        (true, other) => return Err(format!("a table function returns a list, found {other}")),
        (false, other) => other.clone(),
    };
    let call = Call { pool: Arc::clone(pool), index, arguments: Arc::clone(&arguments), returns: Arc::clone(&returns), skip_nulls: signature.null_on_null_input };
    Ok(PluginFunction {
        name: signature.name,
        arguments: arguments.fields().iter().map(|field| field.data_type().clone()).collect(),
        returns: returned,
        volatility: match signature.volatility {
            WireVolatility::Immutable => Volatility::Immutable,
            WireVolatility::Stable => Volatility::Stable,
            WireVolatility::Volatile => Volatility::Volatile,
        },
        is_table,
        null_on_null_input: signature.null_on_null_input,
        call: Arc::new(call),
    })
}

/// One function.
struct Call {
    pool: Arc<Pool>,
    index: u32,
    arguments: SchemaRef,
    returns: SchemaRef,
    skip_nulls: bool,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "function {} of plugin {}", self.index, self.pool.identity)
    }
}

impl FunctionCall for Call {
    fn invoke(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let nulls = if self.skip_nulls { rows_with_nulls(arguments) } else { None };
        let Some(nulls) = nulls else { return self.invoke_all(arguments, rows) };
        // Only the rows without nulls are handed over; the others become null without a call.
        let keep = BooleanArray::new(nulls.inner().clone(), None);
        let bug = |e: arrow::error::ArrowError| self.pool.data_error(&e.to_string());
        let kept = arguments.iter().map(|column| filter(column, &keep)).collect::<std::result::Result<Vec<_>, _>>().map_err(bug)?;
        let kept_rows = rows - nulls.null_count();
        if kept_rows == 0 {
            return Ok(new_null_array(self.returns.field(0).data_type(), rows));
        }
        let answer = self.invoke_all(&kept, kept_rows)?;
        let mut next = 0;
        let places: UInt32Array = nulls
            .iter()
            .map(|is_kept| {
                is_kept.then(|| {
                    next += 1;
                    next - 1
                })
            })
            .collect();
        take(&answer, &places, None).map_err(bug)
    }
}

impl Call {
    fn invoke_all(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        if rows == 0 {
            return Ok(new_null_array(self.returns.field(0).data_type(), 0));
        }
        let message = ipc::write_columns(&self.arguments, arguments, rows)
            .map_err(|reason| self.pool.data_error(&format!("arguments do not fit its signature: {reason}")))?;
        self.pool.call(self.index, &message, rows, &self.returns)
    }
}

/// Where a row has no null argument; `None` if no row has one.
fn rows_with_nulls(arguments: &[ArrayRef]) -> Option<NullBuffer> {
    let mut all: Option<NullBuffer> = None;
    for column in arguments {
        all = NullBuffer::union(all.as_ref(), column.logical_nulls().as_ref());
    }
    all.filter(|nulls| nulls.null_count() > 0)
}

/// Pauses before a call is tried again.
const BACK_OFF: [Duration; 3] = [Duration::from_millis(5), Duration::from_millis(20), Duration::from_millis(80)];

impl Pool {
    fn call(&self, function: u32, arguments: &[u8], rows: usize, returns: &SchemaRef) -> Result<ArrayRef> {
        let mut tries = BACK_OFF.iter();
        loop {
            match self.attempt(function, arguments, rows, returns)? {
                Ok(Ok(column)) => {
                    self.breaker.lock().unwrap_or_else(PoisonError::into_inner).close();
                    return Ok(column);
                }
                Ok(Err(Failure::Fatal(reason))) => return Err(self.broken(&reason)),
                Ok(Err(Failure::InvalidInput(reason))) => return Err(self.data_error(&reason)),
                Ok(Err(Failure::Retryable(reason))) => match tries.next() {
                    Some(pause) => std::thread::sleep(*pause),
                    None => return Err(self.data_error(&format!("still failing after {} tries: {reason}", BACK_OFF.len() + 1))),
                },
                Err(fault) => {
                    if rows == 1 && self.breaker.lock().unwrap_or_else(PoisonError::into_inner).trap() {
                        return Err(self.broken(&format!("{fault} (the last of many rows in a row)")));
                    }
                    return Err(self.data_error(&fault.to_string()));
                }
            }
        }
    }

    /// One call on one instance; the instance goes back to the pool if it is whole.
    #[expect(clippy::type_complexity, reason = "an answer, a refusal or a fault, inside what stops the task")]
    fn attempt(
        &self,
        function: u32,
        arguments: &[u8],
        rows: usize,
        returns: &SchemaRef,
    ) -> Result<std::result::Result<std::result::Result<ArrayRef, Failure>, Fault>> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut instance = match idle {
            Some(instance) => instance,
            None => Instance::start(&self.component, StateView::default()).map_err(|e| self.broken(&e.to_string()))?,
        };
        let now = self.component.clock.now().as_millis();
        let time = CallTime { event_ms: 0, processing_ms: now };
        let limit = self.component.limits().timeout;
        let rows_wire = u32::try_from(rows).map_err(|_| self.data_error("more rows than 32 bits can count"))?;
        let answer: std::result::Result<(std::result::Result<Vec<u8>, Failure>,), Fault> =
            instance.call(&self.invoke, (function, arguments, rows_wire), time, limit);
        let answer = match answer {
            Err(fault) => return Ok(Err(fault)),
            Ok((answer,)) => answer,
        };
        let column = match answer {
            Err(failure) => Err(failure),
            Ok(bytes) => match ipc::read_column(bytes, returns, rows) {
                Ok(column) => Ok(column),
                Err(reason) => return Ok(Err(Fault::contract(format!("gave a wrong column: {reason}")))),
            },
        };
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(instance);
        Ok(Ok(column))
    }

    fn data_error(&self, reason: &str) -> RuntimeError {
        RuntimeError::Data {
            step: format!("plugin {}", self.identity),
            reason: reason.to_owned(),
            topic: String::new(),
            partition: None,
            offset: None,
        }
    }

    fn broken(&self, reason: &str) -> RuntimeError {
        RuntimeError::Plugin { plugin: self.identity.to_string(), reason: reason.to_owned() }
    }
}
