//! Breaker: how many records in a row may end in a trap before the job stops, 10.
//!
//! Counted per record, so that it does not depend on how records were batched. Refusals (`invalid-input`) are answers,
//! not traps. Does not cover a plugin that traps on every second record: those are dead letters, counted as such.

const TRAPS_MAX: u32 = 10;

/// Traps in a row.
#[derive(Debug, Default)]
pub(crate) struct Breaker(u32);

impl Breaker {
    /// Records went well.
    pub(crate) fn close(&mut self) {
        self.0 = 0;
    }

    /// A record alone ended in a trap. `true`: enough.
    pub(crate) fn trap(&mut self) -> bool {
        self.0 += 1;
        self.0 >= TRAPS_MAX
    }
}
