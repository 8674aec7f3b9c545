//! placeholder until the first test
