//! Built plugins, for the demo and for tests.
