//! Compiled code on disk, so that a plugin is compiled once per machine and engine version.
//!
//! File `<sha256 of the component>-<engine fingerprint>.cwasm`: 8 bytes magic, sha256 of the rest, the engine's
//! serialised code. A file that is cut, changed or of another engine is compiled anew and replaced. Trust: whoever can
//! write this directory can run code in this process, so it is made readable and writable by its owner only.

use std::{
    fs,
    hash::{Hash, Hasher},
    io::Write,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};
use wasmtime::{Engine, component::Component};

const MAGIC: &[u8; 8] = b"PELTONC1";

/// The component as machine code, from `dir` if a valid entry is there; else compiled, and stored if `dir` is given.
pub(crate) fn compile(engine: &Engine, dir: Option<&Path>, sha256: &str, bytes: &[u8]) -> wasmtime::Result<Component> {
    let Some(dir) = dir else { return Component::from_binary(engine, bytes) };
    let path = entry(engine, dir, sha256);
    if let Some(component) = read(engine, &path) {
        return Ok(component);
    }
    let component = Component::from_binary(engine, bytes)?;
    if let Err(error) = write(&path, &component.serialize()?) {
        tracing::warn!(path = %path.display(), %error, "compiled plugin not stored");
    }
    Ok(component)
}

fn entry(engine: &Engine, dir: &Path, sha256: &str) -> PathBuf {
    let mut fingerprint = Fingerprint(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut fingerprint);
    let engine = hex::encode(&fingerprint.0.finalize()[..8]);
    dir.join(format!("{sha256}-{engine}.cwasm"))
}

fn read(engine: &Engine, path: &Path) -> Option<Component> {
    let bytes = fs::read(path).ok()?;
    let (magic, rest) = bytes.split_at_checked(MAGIC.len())?;
    let (digest, code) = rest.split_at_checked(32)?;
    if magic != MAGIC || digest != Sha256::digest(code).as_slice() {
        tracing::warn!(path = %path.display(), "compiled plugin is damaged, compiling again");
        return None;
    }
    // SAFETY: the code is what `write` stored: its digest matches, the engine checks its own version and settings in
    // the header, and only the directory's owner, who is who we run as, could have forged both.
    #[expect(unsafe_code, reason = "the only way to load compiled code")]
    let component = unsafe { Component::deserialize(engine, code) };
    component.ok()
}

/// Through a temporary file, so that another process never sees half an entry.
fn write(path: &Path, code: &[u8]) -> std::io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    make_private(dir)?;
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut file = fs::File::create(&temporary)?;
    file.write_all(MAGIC)?;
    file.write_all(&Sha256::digest(code))?;
    file.write_all(code)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

#[cfg(unix)]
fn make_private(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

#[cfg(not(unix))]
fn make_private(dir: &Path) -> std::io::Result<()> {
    fs::create_dir_all(dir)
}

/// A hasher whose result is the same on every run, unlike the standard one's promise.
struct Fingerprint(Sha256);

impl Hasher for Fingerprint {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}
