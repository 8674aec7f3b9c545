//! pelton-plugin-host
