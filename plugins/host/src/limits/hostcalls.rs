//! Host calls: how often a plugin may call the host within one call of its own, 1,000,000 by default.
//!
//! Epochs only count inside the guest; this bounds the time inside the host. At the limit the call traps.

/// A constant: a batch of 8,192 records may use a hundred host calls a record, and each is short by itself.
const CALLS_MAX: u32 = 1_000_000;

/// Calls left.
#[derive(Debug)]
pub(crate) struct HostCalls(u32);

impl HostCalls {
    pub(crate) fn new() -> Self {
        Self(CALLS_MAX)
    }

    /// A call of the guest begins.
    pub(crate) fn reset(&mut self) {
        self.0 = CALLS_MAX;
    }

    /// The guest calls the host.
    pub(crate) fn take(&mut self) -> Result<(), Exceeded> {
        self.0 = self.0.checked_sub(1).ok_or(Exceeded)?;
        Ok(())
    }
}

/// More calls than allowed.
#[derive(Debug)]
pub(crate) struct Exceeded;

impl std::fmt::Display for Exceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "called the host more than {CALLS_MAX} times in one call")
    }
}

impl std::error::Error for Exceeded {}
