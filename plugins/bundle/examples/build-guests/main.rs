//! Builds the guests into `plugins/bundle/*.wasm` and writes the manifest:
//! `cargo run -p pelton-plugin-bundle --example build-guests`. Needs the wasm target (`plugins/build/wasm-rust.sh` tells
//! how to get one without rustup).

mod guests;

use std::fs;

use sha2::{Digest, Sha256};

const MANIFEST_HEAD: &str = "# Written by `cargo run -p pelton-plugin-bundle --example build-guests`.\n\
# component · sha256 of the component · sha256 of its sources · compiler\n";

fn main() -> anyhow::Result<()> {
    guests::ensure_target()?;
    let root = guests::root();
    let mut manifest = String::from(MANIFEST_HEAD);
    for guest in guests::GUESTS {
        let component = guests::build(&root, guest)?;
        let file = root.join("plugins/bundle").join(format!("{guest}.wasm"));
        fs::write(&file, &component)?;
        println!("{guest}.wasm: {} bytes", component.len());
        let hash = hex::encode(Sha256::digest(&component));
        let line = format!("{guest}.wasm {hash} {} {}\n", guests::source_hash(&root, guest)?, guests::compiler()?);
        manifest.push_str(&line);
    }
    fs::write(root.join("plugins/bundle/manifest.txt"), manifest)?;
    Ok(())
}
