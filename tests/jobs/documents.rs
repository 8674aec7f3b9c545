//! The documents' own commands: every shown command runs here, and what is shown below it is what it prints.
//!
//! In README.md and docs/**: a block behind `<!-- file: NAME -->` is written to NAME; a block behind `<!-- run -->` holds
//! `$ command` lines and below each what it prints (both streams). All blocks of a document run in one folder, in order.
//! `…` in an expected line stands for any text, alone on a line for any lines. Machine figures are shown that way.

use std::{fs, path::PathBuf, process::Command};

use crate::harness::{Place, binary, text};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

enum Block {
    File(String, String),
    Run(Vec<(String, Vec<String>)>),
}

fn blocks(document: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        let Some(mark) = line.trim().strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->")).map(str::trim) else { continue };
        if mark != "run" && !mark.starts_with("file:") {
            continue;
        }
        assert!(lines.next().is_some_and(|fence| fence.starts_with("```")), "a block must follow <!-- {mark} -->");
        let body: Vec<_> = lines.by_ref().take_while(|line| !line.starts_with("```")).map(str::to_owned).collect();
        match mark.strip_prefix("file:") {
            Some(name) => blocks.push(Block::File(name.trim().to_owned(), body.join("\n") + "\n")),
            None => {
                let mut commands: Vec<(String, Vec<String>)> = Vec::new();
                for line in body {
                    match (line.strip_prefix("$ "), commands.last_mut()) {
                        (Some(command), _) => commands.push((command.to_owned(), Vec::new())),
                        (None, Some((_, expected))) => expected.push(line),
                        (None, None) => panic!("a run block starts with a `$ ` line, found: {line}"),
                    }
                }
                blocks.push(Block::Run(commands));
            }
        }
    }
    blocks
}

/// Whether `got` is `expected`, `…` standing for any text in a line or, alone, for any lines.
fn matches(expected: &[String], got: &[&str]) -> bool {
    match expected.split_first() {
        None => got.is_empty(),
        Some((any, rest)) if any.trim() == "…" => (0..=got.len()).any(|skip| matches(rest, &got[skip..])),
        Some((line, rest)) => got.split_first().is_some_and(|(first, tail)| line_matches(line.trim_end(), first.trim_end()) && matches(rest, tail)),
    }
}

fn line_matches(expected: &str, got: &str) -> bool {
    let parts: Vec<_> = expected.split('…').collect();
    if parts.len() == 1 {
        return expected == got;
    }
    let (first, last) = (parts[0], parts[parts.len() - 1]);
    if got.len() < first.len() + last.len() || !got.starts_with(first) || !got.ends_with(last) {
        return false;
    }
    let mut middle = &got[first.len()..got.len() - last.len()];
    parts[1..parts.len() - 1].iter().all(|part| match middle.find(part) {
        Some(at) => {
            middle = &middle[at + part.len()..];
            true
        }
        None => false,
    })
}

fn check(name: &str) -> usize {
    let document = fs::read_to_string(root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let place = Place::new();
    let bin = binary();
    let path = format!("{}:{}", bin.parent().expect("a folder").display(), std::env::var("PATH").unwrap_or_default());
    let mut ran = 0;
    for block in blocks(&document) {
        match block {
            Block::File(file, body) => {
                place.write(&file, body);
            }
            Block::Run(commands) => {
                for (command, expected) in commands {
                    let output = Command::new("bash")
                        .args(["-c", &format!("exec 2>&1; {command}")])
                        .current_dir(place.path())
                        .env("PATH", &path)
                        .env("PELTON_ROOT", root())
                        .output()
                        .expect("bash runs");
                    let printed = text(&output.stdout);
                    let lines: Vec<_> = printed.trim_end().lines().collect();
                    assert!(
                        matches(&expected, &lines),
                        "{name}: `{command}` prints\n{printed}\nbut the document shows\n{}",
                        expected.join("\n")
                    );
                    ran += 1;
                }
            }
        }
    }
    ran
}

#[test]
fn the_readme_shows_what_its_commands_print() {
    assert!(check("README.md") >= 2, "the README shows no tested command");
}

#[test]
fn each_page_of_the_docs_shows_what_its_commands_print() {
    let mut pages = 0;
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("docs exist").map(|entry| entry.expect("read docs")) {
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                check(&path.to_string_lossy());
                pages += 1;
            }
        }
    }
    assert!(pages > 0);
}

#[test]
fn wildcards_stand_for_text_and_lines() {
    let expected: Vec<String> = ["a … c", "…", "end"].map(str::to_owned).to_vec();
    assert!(matches(&expected, &["a b c", "x", "y", "end"]));
    assert!(matches(&expected, &["a  c", "end"]));
    assert!(!matches(&expected, &["a b", "end"]));
}
