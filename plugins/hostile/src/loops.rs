//! Never comes back.

pub(crate) fn attack() {
    let mut n = 0_u64;
    loop {
        n = core::hint::black_box(n.wrapping_add(1));
    }
}
