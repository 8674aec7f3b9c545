//! The contract is frozen: its text, its version, and the version the host speaks belong together.

use std::{fs, path::Path};

use sha2::{Digest, Sha256};

/// Directory, package version, sha256 of the text. A changed text is a new line here, with a new directory and version.
const RELEASED: [(&str, &str, &str); 1] =
    [("v0.1", "0.1.0", "02bb4110913f1377b9e90b41166b726a5a98d57a6d013079349ff46b60812621")];

#[test]
fn released_texts_are_not_changed() {
    for (directory, version, expected) in RELEASED {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit").join(directory).join("plugin.wit");
        let text = fs::read_to_string(&path).expect("contract");
        assert!(text.contains(&format!("package pelton:plugin@{version};")), "{directory} is not version {version}");
        let found = hex::encode(Sha256::digest(&text));
        assert_eq!(found, expected, "{directory} was released and changed: make a new directory with a new version");
    }
}

#[test]
fn every_directory_of_the_contract_is_listed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
    let mut found: Vec<_> =
        fs::read_dir(root).expect("wit/").map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned()).collect();
    found.sort();
    assert_eq!(found, RELEASED.map(|(directory, ..)| directory));
}
