//! Gives fewer results than records, or more.

pub(crate) fn attack<T>(results: &mut Vec<T>) {
    results.pop();
}
