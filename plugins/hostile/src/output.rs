//! Hands over far more than it was given.

pub(crate) fn attack() -> String {
    "x".repeat(20 << 20)
}
