//! Calls itself without end.

pub(crate) fn attack() {
    core::hint::black_box(deeper(core::hint::black_box(0)));
}

#[inline(never)]
#[expect(unconditional_recursion, reason = "that is the attack")]
fn deeper(n: u64) -> u64 {
    let below = deeper(core::hint::black_box(n + 1));
    core::hint::black_box(below) + n
}
