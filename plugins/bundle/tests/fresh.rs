//! The committed components belong to the committed sources.

#[path = "../examples/build-guests/guests.rs"]
mod guests;

use std::{collections::BTreeMap, fs, process::Command};

use sha2::{Digest, Sha256};

/// Component, its hash, its sources' hash, compiler.
fn manifest() -> BTreeMap<String, [String; 3]> {
    let text = fs::read_to_string(guests::root().join("plugins/bundle/manifest.txt")).expect("manifest");
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let mut words = line.split(' ').map(str::to_owned);
            let mut word = || words.next().expect("four words a line");
            (word(), [word(), word(), word()])
        })
        .collect()
}

#[test]
fn each_component_is_the_manifests_and_under_100_kb() {
    for (file, [component, ..]) in manifest() {
        let bytes = fs::read(guests::root().join("plugins/bundle").join(&file)).expect("component");
        assert_eq!(hex::encode(Sha256::digest(&bytes)), component, "{file} is not what the manifest says");
        assert!(bytes.len() < 100_000, "{file} has {} bytes", bytes.len());
    }
}

#[test]
fn each_components_sources_are_those_it_was_built_from() {
    let manifest = manifest();
    for guest in guests::GUESTS {
        let [_, sources, _] = &manifest[&format!("{guest}.wasm")];
        let now = guests::source_hash(&guests::root(), guest).expect("sources");
        assert_eq!(&now, sources, "{guest} changed: cargo run -p pelton-plugin-bundle --example build-guests");
    }
}

#[test]
fn building_again_gives_the_same_bytes() {
    if let Err(reason) = guests::ensure_target() {
        println!("not built again: {reason:#}");
        return;
    }
    let root = guests::root();
    let compiler = guests::compiler().expect("compiler");
    for (file, [expected, _, built_with]) in manifest() {
        let guest = file.trim_end_matches(".wasm");
        let component = guests::build(&root, guest).expect("builds");
        if built_with == compiler {
            assert_eq!(hex::encode(Sha256::digest(&component)), expected, "{file} built again differs");
        } else {
            println!("{file}: built with {compiler}, the bundle with {built_with}; only that it builds was shown");
        }
    }
}

#[test]
fn the_guests_own_tests_pass() {
    let root = guests::root();
    for package in ["pelton-plugin", "intent-router", "infer-json", "text"] {
        let output = Command::new(env!("CARGO"))
            .args(["test", "--locked", "-p", package, "--manifest-path"])
            .arg(root.join("plugins/Cargo.toml"))
            .env("CARGO_TARGET_DIR", guests::target_dir(&root))
            .env_remove("CARGO_MANIFEST_DIR")
            .output()
            .expect("run cargo");
        assert!(output.status.success(), "{package}:\n{}", String::from_utf8_lossy(&output.stdout));
    }
}
