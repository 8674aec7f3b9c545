//! One attack a test: the process lives, the attack ends within its limit, only the poison record is lost, and the next
//! batch works. The attacks are in `plugins/hostile`, one module each.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::array::{ArrayRef, StringArray};
use pelton_core::error::RuntimeError;
use pelton_plugin_host::{MemoryState, Place, PluginState};
use crate::support::{Fixture, outgoing, show};

/// Runs an attack on one record between good ones; gives what became of it.
fn check(attack: &str, options: &[(&str, &str)]) -> String {
    let fixture = Fixture::new();
    let plugin = fixture.hostile(attack, options);
    let place = Place { state: Some(Arc::new(MemoryState::default())), ..Place::default() };
    let mut router = plugin.router(place).expect("router");
    let routed = router.route(&outgoing(&["a", "b", "bad", "c", "d"]), None).expect("the job goes on");
    let shown: Vec<_> = routed.iter().map(show).collect();
    assert_eq!([&shown[..2], &shown[3..]].concat(), ["fine"; 4], "{attack} harmed its neighbours: {shown:?}");
    let next = router.route(&outgoing(&["e"]), None).expect("the next batch works");
    assert_eq!(show(&next[0]), "fine", "{attack}");
    shown[2].clone()
}

/// As `check`, for records that must be refused with this in the reason.
fn check_refused(attack: &str, options: &[(&str, &str)], expected: &str) {
    let found = check(attack, options);
    assert!(found.starts_with("refused: plugin hostile 0.1.0 sha256:"), "{attack}: {found}");
    assert!(found.contains(expected), "{attack}: {found}");
}

#[test]
fn endless_loop_ends_at_the_time_limit() {
    check_refused("loops", &[("timeout", "50 ms")], "ran past its time limit");
}

#[test]
fn endless_loop_in_init_is_refused_at_start() {
    let fixture = Fixture::new();
    let plugin = fixture.hostile("init-loops", &[("timeout", "10 ms")]);
    let error = plugin.check_config().expect_err("refused");
    assert!(error.to_string().contains("could not start: ran past its time limit of 200 ms"), "{error}");
}

#[test]
fn memory_bomb_stops_at_the_memory_limit() {
    check_refused("memory", &[("memory", "16 mb")], "more than its limit of 16777216");
}

#[test]
fn table_bomb_of_handles_stops_at_the_hosts_limit() {
    assert_eq!(check("table", &[]), "refused after 100");
}

#[test]
fn stack_bomb_stops_at_the_stacks_end() {
    let found = check("stack", &[]);
    assert!(found.contains("used up its stack") || found.contains("out of bounds"), "{found}");
}

#[test]
fn huge_output_stops_at_the_output_limit() {
    check_refused("output", &[("max-output", "1 mb")], "handed over more than 1048576 bytes");
}

#[test]
fn wrong_count_is_found_at_the_record_that_causes_it() {
    check_refused("count", &[], "gave 0 results for 1 records");
}

#[test]
fn trap_on_one_record_tells_its_last_words() {
    check_refused("trap", &[], "stderr: these were my last words");
}

#[test]
fn log_flood_is_cut() {
    let start = Instant::now();
    assert_eq!(check("log", &[("log-lines", "5")]), "survived");
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn host_calls_without_end_are_counted() {
    let found = check("host-calls", &[("timeout", "30 s")]);
    assert!(found.contains("called the host more than 1000000 times"), "{found}");
}

#[test]
fn metric_names_without_end_are_ignored() {
    let fixture = Fixture::new();
    let plugin = fixture.hostile("metrics", &[]);
    let mut router = plugin.router(Place::default()).expect("router");
    router.route(&outgoing(&["bad"]), None).expect("routed");
    assert_eq!(plugin.metrics().len(), 100);
}

#[test]
fn state_keys_cannot_reach_another_bucket() {
    assert_eq!(check("escape", &[]), "stayed inside");
}

#[test]
fn state_is_denied_where_there_is_none() {
    let fixture = Fixture::new();
    let mut router = fixture.hostile("escape", &[]).router(Place::default()).expect("router");
    let routed = router.route(&outgoing(&["bad"]), None).expect("routed");
    assert!(show(&routed[0]).contains("AccessDenied"), "{}", show(&routed[0]));
}

#[test]
fn a_trapped_call_leaves_no_state() {
    let fixture = Fixture::new();
    let state = Arc::new(MemoryState::default());
    let place = Place { state: Some(Arc::clone(&state) as Arc<dyn PluginState>), ..Place::default() };
    let mut router = fixture.hostile("count-state", &[]).router(place).expect("router");
    let routed = router.route(&outgoing(&["a", "bad", "b", "c"]), None).expect("routed");
    let shown: Vec<_> = routed.iter().map(show).collect();
    // The bad record counted itself and trapped: its count is gone.
    assert_eq!([&shown[0], &shown[2], &shown[3]], ["1", "2", "3"]);
    assert!(shown[1].starts_with("refused"));
    let changes = state.take_changes();
    assert_eq!(changes.len(), 1);
    // A restart goes on from it.
    let restored = Arc::new(MemoryState::default());
    for (key, value) in changes {
        restored.restore_entry(&key, &value.expect("an entry")).expect("readable");
    }
    let place = Place { state: Some(restored), ..Place::default() };
    let mut router = fixture.hostile("count-state", &[]).router(place).expect("router");
    assert_eq!(show(&router.route(&outgoing(&["d"]), None).expect("routed")[0]), "4");
}

#[test]
fn clocks_stand_still_and_random_numbers_are_the_same_on_every_run() {
    let first = check("probe", &[]);
    let second = check("probe", &[]);
    assert_eq!(first, second);
    assert!(first.contains("processing 1000 wall 1.000000000 monotonic 1000000000 moved 0"), "{first}");
    assert!(first.contains("environment 0"), "{first}");
}

#[test]
fn there_is_no_network() {
    check_refused("network", &[], "wasi:sockets/instance-network");
}

#[test]
fn refusals_are_answers_and_fatal_stops() {
    assert_eq!(check("invalid", &[]), "refused: this is no prompt");
    let fixture = Fixture::new();
    let mut router = fixture.hostile("fatal", &[]).router(Place::default()).expect("router");
    let error = router.route(&outgoing(&["a", "bad"]), None).expect_err("stops");
    assert!(matches!(&error, RuntimeError::Plugin { plugin, reason } if plugin.starts_with("hostile 0.1.0 sha256:") && reason == "the model is gone"), "{error}");
}

#[test]
fn retryable_records_are_tried_again_and_given_up() {
    assert_eq!(check("retry", &[]), "at last");
    assert_eq!(check("retry-always", &[]), "refused: still failing after 4 tries: never");
}

#[test]
fn traps_on_every_record_open_the_breaker_whatever_the_batch() {
    for batch in [1, 7, 64] {
        let fixture = Fixture::new();
        let mut router = fixture.hostile("trap", &[]).router(Place::default()).expect("router");
        let mut refused = 0;
        let error = loop {
            match router.route(&outgoing(&vec!["bad"; batch]), None) {
                Ok(routed) => refused += routed.len(),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, RuntimeError::Plugin { .. }), "{error}");
        assert!(refused < 10, "batch {batch}: {refused}");
    }
}

#[test]
fn a_refused_configuration_is_the_scripts_fault() {
    let fixture = Fixture::new();
    let error = fixture.hostile("refuse", &[]).check_config().expect_err("refused");
    assert!(matches!(&error, RuntimeError::Script(text) if text.contains("I do not want to")), "{error}");
}

#[test]
fn wrong_arrow_is_an_error_of_the_call_and_the_next_call_works() {
    let fixture = Fixture::new();
    let functions = fixture.hostile("none", &[]).functions().expect("functions");
    let column: ArrayRef = Arc::new(StringArray::from(vec![Some("one"), None, Some("three")]));
    let good = functions[0].call.invoke(std::slice::from_ref(&column), 3).expect("an honest answer");
    assert_eq!(&good, &column);
    for function in &functions[1..] {
        let error = function.call.invoke(std::slice::from_ref(&column), 3).expect_err("a wrong column");
        assert!(matches!(&error, RuntimeError::Data { reason, .. } if reason.contains("wrong column")), "{}: {error}", function.name);
        let again = functions[0].call.invoke(std::slice::from_ref(&column), 3).expect("the next call works");
        assert_eq!(&again, &column);
    }
}
