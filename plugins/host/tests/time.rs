//! How long attacks on time may hold a worker. Alone in its binary, one after the other, so that other tests do not starve
//! what is measured; the best of three counts, since the machine may be busy.

#[path = "all/support.rs"]
#[expect(dead_code, reason = "made for the other binary, used in part")]
mod support;

use std::time::{Duration, Instant};

use pelton_plugin_host::Place;
use support::{Fixture, outgoing, show};

const LIMIT: Duration = Duration::from_millis(200);

/// Routes the values, of which only `bad` ones loop; gives the shortest time of three.
fn check(values: &[&str]) -> Duration {
    let fixture = Fixture::new();
    let plugin = fixture.hostile("loops", &[("timeout", "200 ms")]);
    let mut router = plugin.router(Place::default()).expect("router");
    let once = |_| {
        let start = Instant::now();
        let routed = router.route(&outgoing(values), None).expect("the job goes on");
        let took = start.elapsed();
        for (value, routed) in values.iter().zip(&routed) {
            assert_eq!(show(routed) == "fine", *value != "bad");
        }
        took
    };
    (0..3).map(once).min().expect("three")
}

#[test]
fn endless_loops_hold_a_worker_for_their_limit_and_not_much_longer() {
    let alone = check(&["bad"]);
    assert!(alone >= LIMIT && alone < LIMIT + Duration::from_millis(50), "alone: {alone:?}");
    // Among a thousand it has to be found: about three limits in all.
    let mut values = vec!["good"; 1_000];
    values[777] = "bad";
    let among = check(&values);
    assert!(among < LIMIT * 5, "among a thousand: {among:?}");
}
