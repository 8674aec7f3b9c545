//! A WASI 0.2 with nothing in it: no arguments, environment, files, network; clocks that stand still during a call;
//! random numbers from a fixed seed; stderr kept for error messages, stdout dropped.
//!
//! Own instead of wasmtime-wasi, since that one waits inside the host (`poll`, timers), where no time limit reaches, and
//! brings tokio and fibers. What is not here (files, sockets, `poll`) traps when called.

use wasmtime::{
    Result, bail,
    component::{ComponentType, Lift, Linker, Lower, Resource, ResourceType},
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

pub(crate) fn add(linker: &mut Linker<Guest>) -> Result<()> {
    streams(linker)?;
    command_line(linker)?;
    clocks(linker)?;
    random(linker)?;
    linker
        .instance("wasi:filesystem/preopens@0.2.0")?
        .func_wrap("get-directories", |mut store, (): ()| {
            enter(&mut store)?;
            Ok((Vec::<(Resource<NoDirectory>, String)>::new(),))
        })
        .and_then(|()| {
            linker.instance("wasi:filesystem/types@0.2.0")?.resource("descriptor", ResourceType::host::<NoDirectory>(), |_, _| Ok(()))
        })
}

/// There is none.
struct NoDirectory;

fn streams(linker: &mut Linker<Guest>) -> Result<()> {
    linker.instance("wasi:io/error@0.2.0")?.resource("error", ResourceType::host::<IoError>(), |_, _| Ok(()))?;
    let mut instance = linker.instance("wasi:io/streams@0.2.0")?;
    instance.resource("output-stream", ResourceType::host::<OutputStream>(), |mut store, number| {
        store.data_mut().resources.delete(Resource::<OutputStream>::new_own(number))?;
        Ok(())
    })?;
    instance.resource("input-stream", ResourceType::host::<InputStream>(), |mut store, number| {
        store.data_mut().resources.delete(Resource::<InputStream>::new_own(number))?;
        Ok(())
    })?;
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

fn command_line(linker: &mut Linker<Guest>) -> Result<()> {
    let mut environment = linker.instance("wasi:cli/environment@0.2.0")?;
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
    linker.instance("wasi:cli/exit@0.2.0")?.func_wrap(
        "exit",
        |_store, (_status,): (std::result::Result<(), ()>,)| -> Result<()> { bail!("called exit") },
    )?;
    linker.instance("wasi:cli/stdin@0.2.0")?.func_wrap("get-stdin", |mut store, (): ()| {
        Ok((enter(&mut store)?.resources.push(InputStream)?,))
    })?;
    linker.instance("wasi:cli/stdout@0.2.0")?.func_wrap("get-stdout", |mut store, (): ()| {
        Ok((enter(&mut store)?.resources.push(OutputStream { keep: false })?,))
    })?;
    linker.instance("wasi:cli/stderr@0.2.0")?.func_wrap("get-stderr", |mut store, (): ()| {
        Ok((enter(&mut store)?.resources.push(OutputStream { keep: true })?,))
    })?;
    for stream in ["stdin", "stdout", "stderr"] {
        let kind = if stream == "stdin" { "input" } else { "output" };
        let name = format!("wasi:cli/terminal-{stream}@0.2.0");
        linker.instance(&name)?.func_wrap(&format!("get-terminal-{stream}"), |mut store, (): ()| {
            enter(&mut store)?;
            Ok((None::<Resource<NoTerminal>>,))
        })?;
        let name = format!("wasi:cli/terminal-{kind}@0.2.0");
        let mut instance = linker.instance(&name)?;
        if stream != "stderr" {
            instance.resource(&format!("terminal-{kind}"), ResourceType::host::<NoTerminal>(), |_, _| Ok(()))?;
        }
    }
    Ok(())
}

/// There is none.
struct NoTerminal;

fn clocks(linker: &mut Linker<Guest>) -> Result<()> {
    let mut wall = linker.instance("wasi:clocks/wall-clock@0.2.0")?;
    wall.func_wrap("now", |mut store, (): ()| Ok((datetime(enter(&mut store)?.time.processing_ms),)))?;
    wall.func_wrap("resolution", |mut store, (): ()| {
        enter(&mut store)?;
        Ok((datetime(1),))
    })?;
    let mut monotonic = linker.instance("wasi:clocks/monotonic-clock@0.2.0")?;
    monotonic.func_wrap("now", |mut store, (): ()| {
        let millis = u64::try_from(enter(&mut store)?.time.processing_ms).unwrap_or(0);
        Ok((millis.saturating_mul(1_000_000),))
    })?;
    monotonic.func_wrap("resolution", |mut store, (): ()| {
        enter(&mut store)?;
        Ok((1_000_000_u64,))
    })
}

fn datetime(millis: i64) -> Datetime {
    let millis = u64::try_from(millis).unwrap_or(0);
    Datetime { seconds: millis / 1_000, nanoseconds: (millis % 1_000) as u32 * 1_000_000 }
}

fn random(linker: &mut Linker<Guest>) -> Result<()> {
    for (interface, bytes, number) in [
        ("wasi:random/random@0.2.0", "get-random-bytes", "get-random-u64"),
        ("wasi:random/insecure@0.2.0", "get-insecure-random-bytes", "get-insecure-random-u64"),
    ] {
        let mut instance = linker.instance(interface)?;
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
    linker.instance("wasi:random/insecure-seed@0.2.0")?.func_wrap("insecure-seed", |mut store, (): ()| {
        let guest = enter(&mut store)?;
        Ok(((guest.next_random(), guest.next_random()),))
    })
}
