//! Loading, and each kind from end to end with the plugins that come with Pelton.

use std::{sync::Arc, time::Instant};

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, StringArray};
use pelton_core::{
    error::RuntimeError,
    plugin::{PluginCatalog, Routed},
    records::Records,
    time::{EventTime, Watermark},
};
use pelton_plugin_host::{HostSettings, Place, PluginHost, inspect};
use crate::support::{Fixture, incoming, outgoing, show, spec};

const INTENTS: &str = r#"{"field":"/prompt","threshold":0.15,"fallback":"ai.general","add_headers":true,
  "rules":[{"header":"route","pattern":"ai.>","topic":"ai.forced"}],
  "routes":[{"topic":"ai.code","examples":["write a function in python","fix the bug in this code"]},
            {"topic":"ai.translate","examples":["translate this into german","how do you say hello in french"]}]}"#;

#[test]
fn routes_prompts_by_meaning_and_rules() {
    let fixture = Fixture::new();
    let plugin = fixture.load("intent-router", &[("config", INTENTS)]).expect("loads");
    assert!(plugin.needs().headers && !plugin.needs().keys);
    let mut router = plugin.router(Place::default()).expect("router");
    let mut records = outgoing(&[
        r#"{"prompt":"please fix a bug in my python function"}"#,
        r#"{"prompt":"translate good morning into german"}"#,
        r#"{"prompt":"a lovely day"}"#,
        "broken",
        "anything",
    ]);
    for row in 0..5 {
        if row == 4 {
            records.headers.push("route", Some(b"ai.code.fast"));
        }
        records.headers.finish_row();
    }
    let routed = router.route(&records, None).expect("routed");
    let shown: Vec<_> = routed.iter().map(show).collect();
    assert_eq!(shown[..3], ["ai.code", "ai.translate", "ai.general"]);
    assert!(shown[3].starts_with("refused: the value is no JSON"), "{}", shown[3]);
    assert_eq!(shown[4], "ai.forced");
    assert!(matches!(&routed[0], Routed::Targets { add_headers, .. } if add_headers[0] == ("intent".to_owned(), b"ai.code".to_vec())));
    // Record by record gives the same.
    for (row, value) in [r#"{"prompt":"please fix a bug in my python function"}"#, r#"{"prompt":"translate good morning into german"}"#].iter().enumerate() {
        assert_eq!(router.route(&outgoing(&[value]), None).expect("routed")[0], routed[row]);
    }
}

#[test]
fn transforms_keep_coordinates_and_columns_and_flush_what_was_held() {
    let fixture = Fixture::new();
    let mut transform = fixture.hostile("invalid", &[]).transform(Place::default()).expect("transform");
    let (mut into, mut refused) = (Records::default(), Vec::new());
    let watermark = Some(Watermark::at(EventTime::from_millis(50)));
    transform.process(&incoming(&["a", "bad", "b"]), watermark, &mut into, &mut refused).expect("processed");
    let values: Vec<_> = into.values.iter().map(|value| String::from_utf8_lossy(value.expect("a value")).into_owned()).collect();
    assert_eq!(values, ["a", "a!", "b", "b!"]);
    assert_eq!(refused, [(1, "this is no prompt".to_owned())]);
    assert_eq!(into.offsets.iter().map(|offset| offset.0).collect::<Vec<_>>(), [10, 10, 12, 12]);
    assert_eq!(into.key(3), Some(&b"k2"[..]));
    assert_eq!(into.headers.last(3, "trace"), Some(&b"t"[..]));
    assert_eq!(into.timestamp(3), Some(EventTime::from_millis(102)));

    let mut transform = fixture.hostile("hold", &[]).transform(Place::default()).expect("transform");
    let mut into = Records::default();
    transform.process(&incoming(&["a", "b"]), None, &mut into, &mut refused).expect("processed");
    assert!(into.is_empty());
    transform.flush(None, &mut into).expect("flushed");
    assert_eq!(into.len(), 2);
    assert_eq!(into.offsets[0].0, 11);
}

#[test]
fn calls_functions_over_columns() {
    let fixture = Fixture::new();
    let functions = fixture.load("text", &[]).expect("loads").functions().expect("functions");
    let names: Vec<_> = functions.iter().map(|function| function.name.as_str()).collect();
    assert_eq!(names, ["redact", "prompt_hash", "xxh64", "chunk"]);
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("mail ann@example.com"), None, Some("")]));
    let redacted = functions[0].call.invoke(&[Arc::clone(&texts)], 3).expect("redacted");
    assert_eq!(redacted.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("mail [EMAIL]"), None, Some("")]);
    let hashes = functions[1].call.invoke(&[Arc::clone(&texts)], 3).expect("hashed");
    assert_eq!(hashes.as_string::<i32>().value(2), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    let numbers = functions[2].call.invoke(&[texts], 3).expect("hashed");
    assert_eq!(numbers.null_count(), 1);
    // All null: no call at all.
    let nulls: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>; 2]));
    assert_eq!(functions[0].call.invoke(&[nulls], 2).expect("nulls").null_count(), 2);
}

#[test]
fn table_functions_give_lists_of_rows() {
    let fixture = Fixture::new();
    let functions = fixture.load("text", &[]).expect("loads").functions().expect("functions");
    let chunk = &functions[3];
    assert!(chunk.is_table);
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("one two three"), None, Some("four")]));
    let sizes: ArrayRef = Arc::new(Int32Array::from(vec![8; 3]));
    let overlaps: ArrayRef = Arc::new(Int32Array::from(vec![0; 3]));
    let lists = chunk.call.invoke(&[texts, Arc::clone(&sizes), overlaps], 3).expect("chunks");
    let lists = lists.as_list::<i32>();
    assert_eq!(lists.value_length(0), 2);
    assert!(lists.is_null(1));
    let rows = lists.value(0);
    assert_eq!(rows.as_struct().column(1).as_string::<i32>().value(1), "three");
    // A refused row fails the call as data.
    let wrong: ArrayRef = Arc::new(Int32Array::from(vec![-1]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let error = chunk.call.invoke(&[text, Arc::clone(&wrong), wrong], 1).expect_err("refused");
    assert!(matches!(error, RuntimeError::Data { .. }), "{error}");
}

#[test]
fn infers_columns_from_samples_in_time() {
    let fixture = Fixture::new();
    let filler = "x".repeat(700);
    let samples: Vec<Vec<u8>> = (0..1_000)
        .map(|i| format!(r#"{{"id":"r{i}","ts":"2026-01-15 09:00:00.000","n":{i},"ratio":{i}.5,"ok":true,"tags":["a","b"],"user":{{"age":{i},"name":"u{i}"}},"text":"{filler}"}}"#).into_bytes())
        .collect();
    let native: pelton_plugin_host::NativeInference = Arc::new(|_, _| Err("no native inference here".to_owned()));
    let catalog = fixture.host.catalog(fixture.path(), native);
    let plugin = spec("infer-json", &[]);
    catalog.check_kind(&plugin, "schema-inferrer").expect("of the kind");
    // Machines that run other tests at the same time: the best of three counts.
    let mut best = u128::MAX;
    for _ in 0..3 {
        let start = Instant::now();
        let schema = catalog.infer_schema(Some(&plugin), "requests", &samples).expect("schema");
        best = best.min(start.elapsed().as_millis());
        let columns: Vec<_> = schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
        assert_eq!(columns[..5], ["id Utf8", "ts Utf8", "n Int64", "ratio Float64", "ok Boolean"]);
    }
    assert!(best < 120, "took {best} ms");
    let error = catalog.infer_schema(None, "requests", &samples).expect_err("native refuses");
    assert!(error.to_string().contains("no native inference here"));
}

#[test]
fn says_what_is_wrong_with_a_plugin() {
    let fixture = Fixture::new();
    std::fs::write(fixture.path().join("junk.wasm"), b"junk").expect("written");
    std::fs::write(fixture.path().join("module.wasm"), b"\0asm\x01\0\0\0").expect("written");
    std::fs::write(fixture.path().join("empty.wasm"), b"\0asm\x0d\0\x01\0").expect("written");
    let zeros = format!("sha256:{}", "0".repeat(64));
    for (plugin, options, expected) in [
        ("missing", &[][..], "missing.wasm: No such file"),
        ("junk", &[], "no component that can run"),
        ("module", &[], "no component that can run"),
        ("empty", &[], "does not export pelton:plugin/lifecycle@0.1.0; found: nothing"),
        ("text", &[("hash", zeros.as_str())], "expected sha256:000"),
        ("text", &[("version", "9.9.9")], "it is version 0.1.0, expected 9.9.9"),
        ("text", &[("memroy", "1 mb")], "unknown option 'memroy'; the nearest is 'memory'"),
        ("text", &[("assets.model", "nowhere.bin")], "asset model"),
    ] {
        let error = fixture.load(plugin, options).expect_err(plugin).to_string();
        assert!(error.starts_with(&format!("plugin {plugin}: ")) && error.contains(expected), "{error}");
    }
    let error = fixture.load("text", &[]).expect("loads").check_kind("router").expect_err("no router");
    assert!(error.to_string().contains("it is no router, it is a functions"), "{error}");
    let error = fixture.load("intent-router", &[]).expect("loads").check_config().expect_err("no routes");
    assert!(error.to_string().contains("there are neither `routes` nor `rules`"), "{error}");
}

#[test]
fn a_pinned_hash_loads_what_it_names() {
    let fixture = Fixture::new();
    let sha256 = fixture.load("text", &[]).expect("loads").sha256().to_owned();
    fixture.load("text", &[("hash", &format!("sha256:{sha256}"))]).expect("the same file");
}

#[test]
fn damaged_cache_entries_are_built_again() {
    let fixture = Fixture::new();
    let cache = fixture.path().join("cache");
    let load = || {
        let clock = Arc::clone(&fixture.clock) as Arc<dyn pelton_core::time::Clock>;
        let host = PluginHost::new(HostSettings { cache_dir: Some(cache.clone()) }, clock).expect("host");
        host.load(&spec("text", &[]), fixture.path()).expect("loads").functions().expect("runs").len()
    };
    assert_eq!(load(), 4);
    let entry = std::fs::read_dir(&cache).expect("cache").next().expect("one entry").expect("entry").path();
    let whole = std::fs::read(&entry).expect("entry");
    let mut changed = whole.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    for damaged in [&whole[..whole.len() / 2], &whole[..4], &[], &changed] {
        std::fs::write(&entry, damaged).expect("written");
        assert_eq!(load(), 4);
        assert_eq!(std::fs::read(&entry).expect("entry"), whole, "the entry was not replaced");
    }
}

#[test]
fn inspects_without_a_job() {
    let fixture = Fixture::new();
    let seen = inspect(&fixture.path().join("text.wasm"), HostSettings::default()).expect("inspected");
    assert_eq!((seen.name.as_str(), seen.version.as_str()), ("text", "0.1.0"));
    assert_eq!(seen.kinds, ["functions"]);
    assert_eq!(seen.contract, ["0.1.0"]);
    assert_eq!(seen.functions[0].arguments, ["Utf8"]);
    assert_eq!(seen.size_bytes, pelton_plugin_bundle::TEXT.len() as u64);
    assert!(seen.exports.contains(&"pelton:plugin/functions@0.1.0".to_owned()), "{:?}", seen.exports);
}
