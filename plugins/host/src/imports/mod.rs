//! What guests may import: the host interfaces of the contract and a WASI with nothing in it.
//!
//! Every function goes through [`enter`], which counts the call. What a component imports beyond this is defined as a
//! trap, so that guests whose standard library mentions files or sockets load, and stop if they use them.

mod log;
mod metrics;
mod clock;
mod assets;
pub(crate) mod state;
mod wasi;

use wasmtime::{
    Engine, Result, StoreContextMut,
    component::{Component, Linker},
};

use crate::guest::Guest;

/// A linker for `component`.
pub(crate) fn linker(engine: &Engine, component: &Component) -> Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    log::add(&mut linker)?;
    metrics::add(&mut linker)?;
    clock::add(&mut linker)?;
    assets::add(&mut linker)?;
    state::add(&mut linker)?;
    wasi::add(&mut linker, component)?;
    linker.define_unknown_imports_as_traps(component)?;
    Ok(linker)
}

/// The guest's data, once this call is counted.
pub(crate) fn enter<'a>(store: &'a mut StoreContextMut<'_, Guest>) -> Result<&'a mut Guest> {
    let guest = store.data_mut();
    guest.host_calls.take()?;
    Ok(guest)
}
