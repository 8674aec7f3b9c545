//! pelton-testkit
