//! pelton-connect
