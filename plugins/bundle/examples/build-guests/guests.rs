//! How a guest is built: core module by cargo, component by wit-component. The same sources and compiler give the same
//! bytes, wherever the clone and cargo's home are.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use wit_component::ComponentEncoder;

/// Packages of `plugins/Cargo.toml` that become components.
pub(crate) const GUESTS: [&str; 4] = ["intent-router", "infer-json", "text", "hostile"];

const TARGET: &str = "wasm32-unknown-unknown";

/// The clone.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap_or_else(|_| PathBuf::from("."))
}

/// The compiler's version, as far as code depends on it.
pub(crate) fn compiler() -> Result<String> {
    let output = Command::new(rustc()).arg("-V").output().context("ask rustc for its version")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().take(2).collect::<Vec<_>>().join("-"))
}

fn rustc() -> String {
    env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned())
}

/// Hash of everything that goes into a component: names and bytes, in the order of names.
pub(crate) fn source_hash(root: &Path, guest: &str) -> Result<String> {
    let mut files = Vec::new();
    for place in ["plugins/Cargo.toml", "plugins/Cargo.lock", "plugins/sdk/Cargo.toml", "plugins/sdk/src", "wit/v0.1"] {
        collect(&root.join(place), &mut files)?;
    }
    for place in ["Cargo.toml", "src", "wit"] {
        let place = root.join("plugins").join(guest).join(place);
        if place.exists() {
            collect(&place, &mut files)?;
        }
    }
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().into_owned();
        let bytes = fs::read(&file).with_context(|| format!("read {}", file.display()))?;
        hash.update(format!("{name}\n{}\n", bytes.len()));
        hash.update(bytes);
    }
    Ok(hex::encode(hash.finalize()))
}

fn collect(place: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if place.is_dir() {
        for entry in fs::read_dir(place).with_context(|| format!("list {}", place.display()))? {
            collect(&entry?.path(), files)?;
        }
    } else {
        files.push(place.to_owned());
    }
    Ok(())
}

/// Whether the compiler has the target's standard library; if not, rustup is asked for it. The error says why there is none.
pub(crate) fn ensure_target() -> Result<()> {
    let sysroot = Command::new(rustc()).args(["--print", "sysroot"]).output().context("ask rustc for its sysroot")?;
    let library = Path::new(String::from_utf8_lossy(&sysroot.stdout).trim()).join("lib/rustlib").join(TARGET).join("lib");
    if library.is_dir() {
        return Ok(());
    }
    let added = Command::new("rustup").args(["target", "add", TARGET]).output().context("run rustup, which could add the target")?;
    if !added.status.success() {
        bail!("rustup cannot add {TARGET}: {}", String::from_utf8_lossy(&added.stderr).trim());
    }
    Ok(())
}

/// Builds one guest in a target directory of its own.
pub(crate) fn build(root: &Path, guest: &str) -> Result<Vec<u8>> {
    let target_dir = target_dir(root);
    let home = env::var("CARGO_HOME").or_else(|_| env::var("HOME").map(|home| format!("{home}/.cargo")));
    // Paths of this machine must not stand in messages of panics.
    let mut flags = vec![format!("--remap-path-prefix={}=", root.display())];
    if let Ok(home) = home {
        flags.push(format!("--remap-path-prefix={home}=cargo"));
    }
    let status = Command::new(env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
        .args(["rustc", "--locked", "--release", "--lib", "--crate-type", "cdylib", "--target", TARGET, "-p", guest])
        .arg("--manifest-path")
        .arg(root.join("plugins/Cargo.toml"))
        .env("CARGO_TARGET_DIR", &target_dir)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        // What cargo sets for the test that calls this is not meant for the guest.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_MANIFEST_DIR")
        .status()
        .context("run cargo")?;
    if !status.success() {
        bail!("cargo did not build {guest}");
    }
    let module = target_dir.join(TARGET).join("release").join(format!("{}.wasm", guest.replace('-', "_")));
    let module = fs::read(&module).with_context(|| format!("read {}", module.display()))?;
    ComponentEncoder::default().module(&module)?.validate(true).encode().with_context(|| format!("make a component of {guest}"))
}

/// Beside the main build's, so that neither waits for the other's lock.
pub(crate) fn target_dir(root: &Path) -> PathBuf {
    let main = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    if main.ends_with("guests") { main } else { main.join("guests") }
}
