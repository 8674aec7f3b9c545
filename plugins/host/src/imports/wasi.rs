//! A WASI 0.2 with nothing in it: no arguments, environment, files, network; clocks that stand still during a call;
//! random numbers from a fixed seed; stderr kept for error messages, stdout dropped.
//!
//! Own instead of wasmtime-wasi, since that one waits inside the host (`poll`, timers), where no time limit reaches, and
//! brings tokio and fibers. What is not here (files, sockets, `poll`) traps when called.
//!
//! A component names the version it was built with (`@0.2.0`, `@0.2.6`); functions are defined under that name. Resources
//! are named again by every interface that uses them, and must be the same type everywhere.

use std::collections::BTreeMap;

use wasmtime::{
    Result, bail,
    component::{
        Component, ComponentType, Lift, Linker, LinkerInstance, Lower, Resource, ResourceType, types::ComponentItem,
    },
};

use crate::{guest::Guest, imports::enter};

/// An output stream: stderr is kept, stdout is not.
struct OutputStream {
    keep: bool,
}

/// A stream that is at its end.
struct InputStream;

struct IoError;

#[derive(ComponentType, Lift, Lower)]
#[component(variant)]
enum StreamError {
    #[component(name = "last-operation-failed")]
    LastOperationFailed(Resource<IoError>),
    #[component(name = "closed")]
    Closed,
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

/// What a guest may write in one go; more comes in further calls.
const WRITE_BYTES_MAX: u64 = 4_096;

/// Defines what `component` imports of this.
pub(crate) fn add(linker: &mut Linker<Guest>, component: &Component) -> Result<()> {
    let engine = component.engine().clone();
    let mut wasi = Wasi { linker, names: BTreeMap::new() };
    for (name, import) in component.component_type().imports(&engine) {
        let Some((interface, _)) = name.split_once("@0.2.").filter(|(interface, _)| interface.starts_with("wasi:")) else { continue };
        let ComponentItem::ComponentInstance(instance) = import.ty else { continue };
        let mut definitions = wasi.linker.instance(name)?;
        for (resource, export) in instance.exports(&engine) {
            if matches!(export.ty, ComponentItem::Resource(_)) {
                define_resource(&mut definitions, resource)?;
            }
        }
        wasi.names.insert(interface.to_owned(), name.to_owned());
    }
    streams(&mut wasi)?;
    command_line(&mut wasi)?;
    clocks(&mut wasi)?;
    random(&mut wasi)?;
    if let Some(mut preopens) = wasi.instance("wasi:filesystem/preopens")? {
        preopens.func_wrap("get-directories", |mut store, (): ()| {
            enter(&mut store)?;
            Ok((Vec::<(Resource<NoDirectory>, String)>::new(),))
        })?;
    }
    Ok(())
}

/// The interfaces a component imports, and under which full names.
struct Wasi<'a> {
    linker: &'a mut Linker<Guest>,
    names: BTreeMap<String, String>,
}

impl Wasi<'_> {
    /// Where an interface's functions go, if the component imports it.
    fn instance(&mut self, interface: &str) -> Result<Option<LinkerInstance<'_, Guest>>> {
        match self.names.get(interface) {
            None => Ok(None),
            Some(name) => self.linker.instance(name).map(Some),
        }
    }
}

/// The same type for the same name, wherever it stands. Others (sockets, pollables) cannot come to be, so any type will do.
fn define_resource(definitions: &mut LinkerInstance<'_, Guest>, name: &str) -> Result<()> {
    match name {
        "output-stream" => definitions.resource(name, ResourceType::host::<OutputStream>(), |mut store, number| {
            store.data_mut().resources.delete(Resource::<OutputStream>::new_own(number))?;
            Ok(())
        }),
        "input-stream" => definitions.resource(name, ResourceType::host::<InputStream>(), |mut store, number| {
            store.data_mut().resources.delete(Resource::<InputStream>::new_own(number))?;
            Ok(())
        }),
        "error" => definitions.resource(name, ResourceType::host::<IoError>(), |_, _| Ok(())),
        "descriptor" => definitions.resource(name, ResourceType::host::<NoDirectory>(), |_, _| Ok(())),
        "terminal-input" | "terminal-output" => definitions.resource(name, ResourceType::host::<NoTerminal>(), |_, _| Ok(())),
        _ => Ok(()),
    }
}

/// There is none.
struct NoDirectory;

fn streams(wasi: &mut Wasi<'_>) -> Result<()> {
    let Some(mut instance) = wasi.instance("wasi:io/streams")? else { return Ok(()) };
    instance.func_wrap("[method]output-stream.check-write", |mut store, (_this,): (Resource<OutputStream>,)| {
        enter(&mut store)?;
        Ok((Ok::<u64, StreamError>(WRITE_BYTES_MAX),))
    })?;
    for name in ["[method]output-stream.write", "[method]output-stream.blocking-write-and-flush"] {
        instance.func_wrap(name, |mut store, (this, bytes): (Resource<OutputStream>, Vec<u8>)| {
            let guest = enter(&mut store)?;
            if guest.resources.get(&this)?.keep {
                guest.stderr.push(&bytes);
            }
            Ok((Ok::<(), StreamError>(()),))
        })?;
    }
    for name in ["[method]output-stream.flush", "[method]output-stream.blocking-flush"] {
        instance.func_wrap(name, |mut store, (_this,): (Resource<OutputStream>,)| {
            enter(&mut store)?;
            Ok((Ok::<(), StreamError>(()),))
        })?;
    }
    for name in ["[method]input-stream.read", "[method]input-stream.blocking-read"] {
        instance.func_wrap(name, |mut store, (_this, _length): (Resource<InputStream>, u64)| {
            enter(&mut store)?;
            Ok((Err::<Vec<u8>, _>(StreamError::Closed),))
        })?;
    }
    Ok(())
}

fn command_line(wasi: &mut Wasi<'_>) -> Result<()> {
    if let Some(mut environment) = wasi.instance("wasi:cli/environment")? {
        environment.func_wrap("get-environment", |mut store, (): ()| {
            enter(&mut store)?;
            Ok((Vec::<(String, String)>::new(),))
        })?;
        environment.func_wrap("get-arguments", |mut store, (): ()| {
            enter(&mut store)?;
            Ok((Vec::<String>::new(),))
        })?;
        environment.func_wrap("initial-cwd", |mut store, (): ()| {
            enter(&mut store)?;
            Ok((None::<String>,))
        })?;
    }
    if let Some(mut exit) = wasi.instance("wasi:cli/exit")? {
        exit.func_wrap("exit", |_store, (_status,): (std::result::Result<(), ()>,)| -> Result<()> { bail!("called exit") })?;
    }
    if let Some(mut stdin) = wasi.instance("wasi:cli/stdin")? {
        stdin.func_wrap("get-stdin", |mut store, (): ()| Ok((enter(&mut store)?.resources.push(InputStream)?,)))?;
    }
    for (stream, keep) in [("stdout", false), ("stderr", true)] {
        if let Some(mut instance) = wasi.instance(&format!("wasi:cli/{stream}"))? {
            instance.func_wrap(&format!("get-{stream}"), move |mut store, (): ()| {
                Ok((enter(&mut store)?.resources.push(OutputStream { keep })?,))
            })?;
        }
    }
    for stream in ["stdin", "stdout", "stderr"] {
        if let Some(mut instance) = wasi.instance(&format!("wasi:cli/terminal-{stream}"))? {
            instance.func_wrap(&format!("get-terminal-{stream}"), |mut store, (): ()| {
                enter(&mut store)?;
                Ok((None::<Resource<NoTerminal>>,))
            })?;
        }
    }
    Ok(())
}

/// There is none.
struct NoTerminal;

fn clocks(wasi: &mut Wasi<'_>) -> Result<()> {
    if let Some(mut wall) = wasi.instance("wasi:clocks/wall-clock")? {
        wall.func_wrap("now", |mut store, (): ()| Ok((datetime(enter(&mut store)?.time.processing_ms),)))?;
        wall.func_wrap("resolution", |mut store, (): ()| {
            enter(&mut store)?;
            Ok((datetime(1),))
        })?;
    }
    if let Some(mut monotonic) = wasi.instance("wasi:clocks/monotonic-clock")? {
        monotonic.func_wrap("now", |mut store, (): ()| {
            let millis = u64::try_from(enter(&mut store)?.time.processing_ms).unwrap_or(0);
            Ok((millis.saturating_mul(1_000_000),))
        })?;
        monotonic.func_wrap("resolution", |mut store, (): ()| {
            enter(&mut store)?;
            Ok((1_000_000_u64,))
        })?;
    }
    Ok(())
}

fn datetime(millis: i64) -> Datetime {
    let millis = u64::try_from(millis).unwrap_or(0);
    Datetime { seconds: millis / 1_000, nanoseconds: (millis % 1_000) as u32 * 1_000_000 }
}

fn random(wasi: &mut Wasi<'_>) -> Result<()> {
    for (interface, bytes, number) in [
        ("wasi:random/random", "get-random-bytes", "get-random-u64"),
        ("wasi:random/insecure", "get-insecure-random-bytes", "get-insecure-random-u64"),
    ] {
        let Some(mut instance) = wasi.instance(interface)? else { continue };
        instance.func_wrap(bytes, |mut store, (length,): (u64,)| {
            let guest = enter(&mut store)?;
            let limit = guest.shared.options.limits.output_bytes as u64;
            if length > limit {
                bail!("asked for {length} random bytes, more than {limit}");
            }
            let mut bytes = Vec::with_capacity(length as usize + 8);
            while (bytes.len() as u64) < length {
                bytes.extend_from_slice(&guest.next_random().to_le_bytes());
            }
            bytes.truncate(length as usize);
            Ok((bytes,))
        })?;
        instance.func_wrap(number, |mut store, (): ()| Ok((enter(&mut store)?.next_random(),)))?;
    }
    if let Some(mut seed) = wasi.instance("wasi:random/insecure-seed")? {
        seed.func_wrap("insecure-seed", |mut store, (): ()| {
            let guest = enter(&mut store)?;
            Ok(((guest.next_random(), guest.next_random()),))
        })?;
    }
    Ok(())
}
