//! The host over the bundled plugins: one binary, since each links the engine once more.

mod support;
mod contract;
mod plugins;
mod hostile;
