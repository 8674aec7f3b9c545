//! pelton-engine
