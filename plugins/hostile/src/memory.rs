//! Takes all memory there is.

pub(crate) fn attack() {
    let mut held: Vec<Vec<u8>> = Vec::new();
    loop {
        held.push(core::hint::black_box(vec![1; 1 << 20]));
    }
}
