//! Permits that nobody reported, and attempts that clients counted.

use holdoff_decision::{
    Nanos, Outcome, OutcomeKind, Reported, Share, State, Tally,
    policy::{Detect, Window, WindowSize},
};

use crate::fleet::{FAIL, Fleet, OK, at, plain, secs};

fn adaptive() -> Fleet {
    let mut policy = plain();
    policy.breaker.detect = Detect::Adaptive;
    Fleet::new(policy)
}

fn windowed() -> Fleet {
    let mut policy = plain();
    policy.breaker.detect = Detect::Window(Window {
        size: WindowSize::Time(secs(100.0)),
        min_calls: 10,
        slow_ratio: Share(500_000),
        ..Window::default()
    });
    policy.breaker.slow_after = secs(1.0);
    Fleet::new(policy)
}

#[test]
fn under_a_window_an_unreported_permit_is_slow_when_its_lifetime_ends() {
    let mut fleet = windowed();
    for _ in 0..10 {
        fleet.first().unwrap();
    }
    fleet.at(59.9).first().unwrap();
    assert_eq!(fleet.view().counts.calls, 0);
    assert!(fleet.at(60.0).first().is_err());
    assert_eq!(fleet.state(), State::Open);
}

#[test]
fn under_a_window_silence_is_a_failure_only_where_slowness_is_one() {
    let mut fleet = windowed();
    fleet.policy.breaker.slow_after = Nanos::ZERO;
    for _ in 0..10 {
        fleet.first().unwrap();
    }
    fleet.at(60.0).first().unwrap();
    let counts = fleet.view().counts;
    assert_eq!(
        counts.calls, 0,
        "and where nobody looks it does not thin failures out"
    );
    assert_eq!(fleet.state(), State::Closed);
    let mut strict = windowed();
    strict.policy.breaker.slow_after = Nanos::ZERO;
    strict.policy.breaker.slow_counts_as_failure = true;
    for _ in 0..10 {
        strict.first().unwrap();
    }
    strict.at(60.0).first().unwrap_err();
    assert_eq!(strict.state(), State::Open);
}

#[test]
fn one_instance_that_dies_with_many_calls_out_does_not_trip_the_fleet() {
    let mut fleet = adaptive();
    for _ in 0..1000 {
        fleet.first().unwrap();
    }
    fleet.at(61.0).call(OK);
    assert_eq!(fleet.state(), State::Closed);
}

#[test]
fn a_fleet_that_hangs_trips_within_three_seconds_of_silence() {
    let mut fleet = adaptive();
    fleet.policy.breaker.permit_ttl = secs(4.0);
    for step in 0..40 {
        if fleet.at(f64::from(step) * 0.25).first().is_err() {
            break;
        }
    }
    assert_eq!(fleet.state(), State::Open);
    assert!(fleet.now <= at(7.5), "{:?}", fleet.now);
}

#[test]
fn what_was_reported_in_any_way_is_not_silent() {
    let mut fleet = windowed();
    let kinds = [
        OutcomeKind::Ignored,
        OutcomeKind::Cancelled,
        OutcomeKind::Rejected,
    ];
    for kind in kinds.iter().cycle().take(30) {
        let permit = fleet.first().unwrap().permit;
        fleet.report(permit, Outcome::of(*kind));
    }
    fleet.at(120.0).first().unwrap();
    assert_eq!(fleet.view().counts.calls, 0);
}

#[test]
fn silence_from_before_a_transition_says_nothing() {
    let mut fleet = windowed();
    fleet.policy.breaker.permit_ttl = secs(30.0);
    for _ in 0..50 {
        fleet.first().unwrap();
    }
    holdoff_decision::operate::reset(&mut fleet.record, at(1.0));
    fleet.at(40.0).call(OK);
    assert_eq!(
        (fleet.state(), fleet.view().counts.calls),
        (State::Closed, 1)
    );
}

#[test]
fn a_tally_moves_the_window_by_its_numbers() {
    let mut fleet = windowed();
    fleet.policy.breaker.slow_after = Nanos::ZERO;
    let epoch = fleet.epoch();
    let tally = Tally {
        epoch,
        first_attempts: 8,
        successes: 5,
        failures: 1,
        timeouts: 1,
        throttled: 4,
        rejected: 3,
        slow: 2,
        ..Tally::default()
    };
    assert_eq!(fleet.tally(tally), Reported::Ok);
    let counts = fleet.view().counts;
    assert_eq!((counts.calls, counts.failures, counts.slow), (7, 2, 2));
    assert_eq!(fleet.view().budget.first_attempts, 8);
    fleet.policy.breaker.count_throttled = true;
    fleet.policy.breaker.count_rejected = true;
    fleet.tally(Tally {
        successes: 6,
        failures: 0,
        ..tally
    });
    let counts = fleet.view().counts;
    assert_eq!((counts.calls, counts.failures), (7 + 14, 2 + 8));
}

#[test]
fn b24f_any_success_in_a_tally_ends_a_row_of_failures() {
    let mut policy = plain();
    policy.breaker.detect = Detect::Window(Window {
        consecutive_failures: 3,
        min_calls: u32::MAX,
        ..Window::default()
    });
    let mut fleet = Fleet::new(policy);
    let epoch = fleet.epoch();
    fleet.calls(2, FAIL);
    fleet.tally(Tally {
        epoch,
        successes: 1,
        failures: 5,
        ..Tally::default()
    });
    fleet.calls(2, FAIL);
    assert_eq!(fleet.state(), State::Closed);
    fleet.call(FAIL);
    assert_eq!(fleet.state(), State::Open);
    let mut only_failures = Fleet::new(fleet.policy.clone());
    only_failures.tally(Tally {
        epoch: 1,
        failures: 3,
        ..Tally::default()
    });
    assert_eq!(only_failures.state(), State::Open);
}

#[test]
fn a_tally_of_absurd_numbers_is_taken_and_counts_never_wrap() {
    for mut fleet in [adaptive(), windowed(), Fleet::new(plain())] {
        fleet.policy.breaker.slow_counts_as_failure = true;
        fleet.policy.breaker.count_rejected = true;
        fleet.policy.breaker.count_throttled = true;
        for _ in 0..3 {
            let epoch = fleet.epoch();
            let tally = Tally {
                epoch,
                first_attempts: u32::MAX,
                successes: u32::MAX,
                failures: u32::MAX,
                timeouts: u32::MAX,
                throttled: u32::MAX,
                rejected: u32::MAX,
                slow: u32::MAX,
                ignored: u32::MAX,
                latency_sum: Nanos::MAX,
            };
            fleet.tally(tally);
        }
        let counts = fleet.view().counts;
        assert!(counts.failures <= counts.calls && counts.slow <= counts.calls);
    }
}

#[test]
fn an_empty_tally_changes_nothing() {
    for mut fleet in [adaptive(), windowed()] {
        fleet.calls(3, FAIL);
        let before = fleet.view();
        let epoch = fleet.epoch();
        fleet.tally(Tally {
            epoch,
            ..Tally::default()
        });
        assert_eq!(fleet.view(), before);
    }
}

#[test]
fn a_tally_in_half_open_gives_no_verdict() {
    let mut fleet = Fleet::new(plain());
    fleet.trip();
    fleet.at(10.0).first().unwrap();
    let epoch = fleet.epoch();
    for (successes, failures) in [(1000, 0), (0, 1000)] {
        let tally = Tally {
            epoch,
            successes,
            failures,
            ..Tally::default()
        };
        assert_eq!(fleet.tally(tally), Reported::Ok);
        assert_eq!(fleet.state(), State::HalfOpen);
    }
}

/// Tallies are all that is heard of a dependency in health whose state is pushed.
#[test]
fn the_mean_latency_of_tallies_is_what_a_recovery_is_compared_with() {
    let mut fleet = Fleet::new(plain());
    let tally = |fleet: &mut Fleet, count: Tally| {
        fleet.tally(Tally { epoch: 1, ..count });
        fleet.record.throughput.latency()
    };
    let silent = Tally {
        successes: 9,
        ..Tally::default()
    };
    assert_eq!(tally(&mut fleet, silent), None, "nothing was measured");
    let nothing_ended = Tally {
        first_attempts: 5,
        latency_sum: Nanos::from_secs(1),
        ..Tally::default()
    };
    assert_eq!(tally(&mut fleet, nothing_ended), None);
    // Those that say nothing have ended as well.
    let measured = Tally {
        successes: 9,
        ignored: 1,
        latency_sum: Nanos::from_millis(200),
        ..Tally::default()
    };
    let close = |seen: Option<Nanos>, millis: f64| {
        let seen = seen.unwrap().as_secs_f64() * 1e3;
        assert!((seen - millis).abs() < 0.001, "{seen}, not {millis}");
    };
    close(tally(&mut fleet, measured), 20.0);
    let with_failure = Tally {
        failures: 1,
        latency_sum: Nanos::from_secs(30),
        ..measured
    };
    close(tally(&mut fleet, with_failure), 20.0);
    let stale = Tally {
        latency_sum: Nanos::from_secs(30),
        ..measured
    };
    fleet.tally(Tally { epoch: 7, ..stale });
    close(fleet.record.throughput.latency(), 20.0);
    let slower = Tally {
        successes: u32::MAX,
        latency_sum: Nanos::MAX,
        ..Tally::default()
    };
    let once = tally(&mut fleet, slower).unwrap();
    assert!(
        once < Nanos::from_millis(28),
        "{once}: one tally is no proof"
    );
}
