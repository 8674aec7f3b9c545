//! pelton-formats
