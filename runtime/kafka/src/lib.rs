//! pelton-kafka
