//! A place for what `init` made and the kind's functions use.

use std::sync::OnceLock;

/// Set once in `init`, read in every call:
///
/// ```
/// static CONFIG: pelton_plugin::Config<u32> = pelton_plugin::Config::new();
/// CONFIG.set(7);
/// assert_eq!(CONFIG.get(), Some(&7));
/// ```
pub struct Config<T>(OnceLock<T>);

impl<T> Config<T> {
    /// Empty until `init`.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Keeps the first value; the host calls `init` once.
    pub fn set(&self, value: T) {
        let _ = self.0.set(value);
    }

    /// What was set.
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }
}

impl<T> Default for Config<T> {
    fn default() -> Self {
        Self::new()
    }
}
