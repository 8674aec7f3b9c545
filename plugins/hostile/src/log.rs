//! Writes more lines than anybody reads.

use crate::bindings::pelton::plugin::log::{Level, log};

pub(crate) fn attack() {
    let line = "noise ".repeat(1_000);
    for _ in 0..10_000 {
        log(Level::Error, &line);
    }
}
