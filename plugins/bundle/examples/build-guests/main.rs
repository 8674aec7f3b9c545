//! Builds the guests into `plugins/bundle/*.wasm` and writes the manifest:
//! `cargo run -p pelton-plugin-bundle --example build-guests`. Needs the wasm target (`plugins/build/wasm-rust.sh` tells
//! how to get one without rustup).

mod guests;

use std::fs;

fn main() -> anyhow::Result<()> {
    guests::ensure_target()?;
    let root = guests::root();
    let mut manifest = String::from(guests::MANIFEST_HEAD);
    for guest in guests::GUESTS {
        let component = guests::build(&root, guest)?;
        let file = root.join("plugins/bundle").join(format!("{guest}.wasm"));
        fs::write(&file, &component)?;
        println!("{guest}.wasm: {} bytes", component.len());
        manifest.push_str(&guests::manifest_line(&root, guest, &component)?);
    }
    fs::write(root.join("plugins/bundle/manifest.txt"), manifest)?;
    Ok(())
}
