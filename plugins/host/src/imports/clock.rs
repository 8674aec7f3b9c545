//! `clock`: the times of the call, which stand still during it.

use wasmtime::{Result, component::Linker};

use crate::{guest::Guest, imports::enter, wire::interface};

pub(crate) fn add(linker: &mut Linker<Guest>) -> Result<()> {
    let name = interface("clock");
    let mut instance = linker.instance(&name)?;
    instance.func_wrap("event-time", |mut store, (): ()| Ok((enter(&mut store)?.time.event_ms,)))?;
    instance.func_wrap("processing-time", |mut store, (): ()| Ok((enter(&mut store)?.time.processing_ms,)))
}
