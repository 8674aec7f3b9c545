//! `metrics`: collected in the instance, given to the plugin's shared counters when the call returns.

use wasmtime::{Result, component::Linker};

use crate::{guest::Guest, imports::enter, limits::metrics::Metric, wire::interface};

pub(crate) fn add(linker: &mut Linker<Guest>) -> Result<()> {
    let name = interface("metrics");
    let mut instance = linker.instance(&name)?;
    instance.func_wrap("count", |mut store, (name, delta): (String, u64)| {
        enter(&mut store)?.metrics.update(&name, Metric::Count(delta));
        Ok(())
    })?;
    instance.func_wrap("gauge", |mut store, (name, value): (String, f64)| {
        enter(&mut store)?.metrics.update(&name, Metric::Gauge(value));
        Ok(())
    })?;
    instance.func_wrap("observe", |mut store, (name, value): (String, f64)| {
        let one = Metric::Distribution { count: 1, sum: value, min: value, max: value };
        enter(&mut store)?.metrics.update(&name, one);
        Ok(())
    })
}
