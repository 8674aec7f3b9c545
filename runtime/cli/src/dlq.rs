//! `pelton dlq`: the dead letters that a job keeps in its state.

use pelton_core::{dead_letter::DeadLetter, position::Epoch};
use pelton_engine::{letter_to_json, stored_letters};
use pelton_state::{StateSettings, Store};

use crate::{
    arguments::DlqOptions,
    fault::Fault,
    run::{line, print_text},
};

/// Memory for looking into a state.
const MEMORY_BYTES: usize = 32 << 20;

fn letters(options: &DlqOptions) -> Result<Vec<(Epoch, DeadLetter)>, Fault> {
    if !options.state_dir.join("rocksdb").exists() {
        return Err(Fault::Usage(format!("{} holds no state of a job", options.state_dir.display())));
    }
    let store = Store::open(&StateSettings { dir: options.state_dir.clone(), memory_bytes: MEMORY_BYTES })?;
    let mut letters = stored_letters(&store)?;
    letters.retain(|(_, letter)| options.table.as_ref().is_none_or(|table| *table == letter.table));
    Ok(letters)
}

pub(crate) fn list(options: &DlqOptions) -> Result<(), Fault> {
    letters(options)?.iter().try_for_each(|(_, letter)| print_text(&line(letter)))
}

pub(crate) fn show(options: &DlqOptions) -> Result<(), Fault> {
    letters(options)?.iter().try_for_each(|(_, letter)| print_text(&String::from_utf8_lossy(&letter_to_json(letter))))
}
