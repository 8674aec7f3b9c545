//! Looks for anything that differs from run to run: clocks, random numbers, the environment.

use crate::bindings::{
    pelton::plugin::clock,
    wasi::{cli::environment, clocks, random},
};

pub(crate) fn attack() -> String {
    let wall = clocks::wall_clock::now();
    let monotonic = clocks::monotonic_clock::now();
    // Time must stand still, however long this takes.
    let mut n = 0_u64;
    for i in 0..1_000_000_u64 {
        n = core::hint::black_box(n.wrapping_mul(31).wrapping_add(i));
    }
    let moved = clocks::monotonic_clock::now() - monotonic;
    format!(
        "event {} processing {} wall {}.{:09} monotonic {monotonic} moved {moved} random {} {:?} environment {}",
        clock::event_time(),
        clock::processing_time(),
        wall.seconds,
        wall.nanoseconds,
        random::random::get_random_u64(),
        random::random::get_random_bytes(4),
        environment::get_environment().len(),
    )
}

/// Asks for a network, which is not there.
pub(crate) fn network() {
    let _ = crate::bindings::wasi::sockets::instance_network::instance_network();
}
