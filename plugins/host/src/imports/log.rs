//! `log`: lines in the job's log under the plugin's name, at most so many a second.

use std::time::Instant;

use wasmtime::{Result, component::Linker};

use crate::{
    guest::Guest,
    imports::enter,
    limits::log::{Verdict, cut},
    wire::{Level, interface},
};

pub(crate) fn add(linker: &mut Linker<Guest>) -> Result<()> {
    linker.instance(&interface("log"))?.func_wrap("log", |mut store, (level, message): (Level, String)| {
        write(enter(&mut store)?, level, &message);
        Ok(())
    })
}

fn write(guest: &mut Guest, level: Level, message: &str) {
    if (level as u8) < guest.shared.options.log_from {
        return;
    }
    let Verdict::Write { dropped_before } = guest.log.take(Instant::now()) else { return };
    let plugin = guest.shared.name.as_str();
    if dropped_before > 0 {
        tracing::warn!(plugin, dropped_lines = dropped_before, "plugin logged more than it may");
    }
    let line = cut(message);
    match level {
        Level::Trace => tracing::trace!(plugin, "{line}"),
        Level::Debug => tracing::debug!(plugin, "{line}"),
        Level::Info => tracing::info!(plugin, "{line}"),
        Level::Warn => tracing::warn!(plugin, "{line}"),
        Level::Error => tracing::error!(plugin, "{line}"),
    }
}
