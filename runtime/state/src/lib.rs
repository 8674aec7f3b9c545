//! pelton-state
