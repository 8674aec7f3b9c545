//! What a plugin call costs: `cargo run -p pelton-plugin-host --example call-overhead`. Prints a figure a line.
//!
//! Cost model: a batch of n records of b bytes costs one call (0.2 µs), n × (0.2 µs + b / 10 GB/s) down, and the answers
//! up (two small allocations each). Measured against the same decision made natively (a constant topic for each record).
//! Not measured: what a plugin does with a record. Read `overhead_us_per_message` against 0.5; the best of several rounds counts.

use std::{collections::BTreeMap, hint::black_box, path::Path, sync::Arc, time::Instant};

use arrow::array::{ArrayRef, StringArray};
use pelton_core::{
    plugin::{PluginSpec, Routed},
    records::OutputRecords,
    time::{Clock, ProcessingTime},
};
use pelton_plugin_host::{HostSettings, Place, PluginHost};

struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> ProcessingTime {
        ProcessingTime::from_millis(0)
    }
}

const RECORDS: usize = 1_000;

/// The best of `rounds`, in µs.
fn best_us(rounds: usize, mut run: impl FnMut()) -> f64 {
    (0..rounds)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1e6
        })
        .fold(f64::INFINITY, f64::min)
}

fn main() -> pelton_core::error::Result<()> {
    let bundle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bundle");
    let spec = |name: &str, config: &str| PluginSpec {
        name: name.to_owned(),
        options: BTreeMap::from([("path".to_owned(), format!("{name}.wasm")), ("config".to_owned(), config.to_owned())]),
        line: 1,
    };
    let cache_dir = std::env::temp_dir().join("pelton-figures-cache");
    let settings = || HostSettings { cache_dir: Some(cache_dir.clone()) };
    let host = PluginHost::new(settings(), Arc::new(NoClock))?;

    let mut records = OutputRecords::default();
    let value = format!("{{\"prompt\":\"{:<240}\"}}", "translate the sentence into german");
    for _ in 0..RECORDS {
        records.values.push(Some(value.as_bytes()));
        records.headers.finish_row();
    }
    let topic: Arc<str> = "t".into();
    let native_us = best_us(200, || {
        let routed: Vec<Routed> = records
            .values
            .iter()
            .map(|value| {
                black_box(value);
                Routed::Targets { targets: vec![(Arc::clone(&topic), None)], add_headers: Vec::new() }
            })
            .collect();
        black_box(routed);
    });
    // A plugin that looks at nothing: what is left is the call.
    let plain = host.load(&spec("hostile", r#"{"attack":"none"}"#), &bundle)?;
    let mut router = plain.router(Place::default())?;
    let call_us = best_us(200, || drop(black_box(router.route(&records, None))));
    // Rules over headers, then meaning.
    let rules = r#"{"fallback":"f","rules":[{"header":"h","pattern":"a.>","topic":"t"}]}"#;
    let mut router = host.load(&spec("intent-router", rules), &bundle)?.router(Place::default())?;
    let rules_us = best_us(200, || drop(black_box(router.route(&records, None))));
    let meaning = r#"{"field":"/prompt","fallback":"f","routes":[{"topic":"code","examples":["write a function in python","fix this bug","explain a stack trace"]},{"topic":"translate","examples":["translate this into german","how do you say hello in french"]}]}"#;
    let mut router = host.load(&spec("intent-router", meaning), &bundle)?.router(Place::default())?;
    let meaning_us = best_us(50, || drop(black_box(router.route(&records, None))));

    let functions = host.load(&spec("text", "{}"), &bundle)?.functions()?;
    let column: ArrayRef = Arc::new(StringArray::from(vec![value.as_str(); RECORDS]));
    let redact_us = best_us(50, || drop(black_box(functions[0].call.invoke(std::slice::from_ref(&column), RECORDS))));

    let filler = "x".repeat(800);
    let samples: Vec<Vec<u8>> = (0..1_000)
        .map(|i| format!(r#"{{"id":"r{i}","ts":"2026-01-15T09:00:00Z","n":{i},"tags":["a","b"],"user":{{"age":{i},"name":"u{i}"}},"text":"{filler}"}}"#).into_bytes())
        .collect();
    let infer_us = best_us(3, || {
        // Start included: a new host, the plugin loaded from the cache of compiled code.
        let host = PluginHost::new(settings(), Arc::new(NoClock)).expect("host");
        let plugin = host.load(&spec("infer-json", "{}"), &bundle).expect("plugin");
        black_box(plugin.infer("samples", &samples, &[]).expect("schema"));
    });
    let each = |us: f64| us / RECORDS as f64;
    for (name, figure) in [
        ("overhead_us_per_message", each(call_us - native_us)),
        ("native_us_per_message", each(native_us)),
        ("rules_us_per_message", each(rules_us)),
        ("meaning_us_per_message", each(meaning_us)),
        ("redact_us_per_row", each(redact_us)),
        ("infer_1000_samples_ms", infer_us / 1e3),
    ] {
        println!("{name} {figure:.3}");
    }
    Ok(())
}
