//! `assets`: files named in the job, read into memory when the plugin was loaded and shared by its instances.

use wasmtime::{Result, component::Linker};

use crate::{guest::Guest, imports::enter, wire::interface};

/// Bytes one call hands over at most.
const READ_BYTES_MAX: usize = 16 << 20;

pub(crate) fn add(linker: &mut Linker<Guest>) -> Result<()> {
    let name = interface("assets");
    let mut instance = linker.instance(&name)?;
    instance.func_wrap("size", |mut store, (name,): (String,)| {
        Ok((enter(&mut store)?.shared.assets.get(&name).map(|asset| asset.len() as u64),))
    })?;
    instance.func_wrap("read", |mut store, (name, offset, length): (String, u64, u32)| {
        let assets = &enter(&mut store)?.shared.assets;
        Ok((assets.get(&name).map(|asset| {
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(asset.len());
            let length = (length as usize).min(READ_BYTES_MAX).min(asset.len() - start);
            asset[start..start + length].to_vec()
        }),))
    })
}
