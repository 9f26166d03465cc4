//! Windows of calls and of time, at their edges.

use super::*;
use crate::Share;

const GOOD: Call = Call {
    failed: false,
    slow: false,
};
const BAD: Call = Call {
    failed: true,
    slow: false,
};

fn at(seconds: f64) -> Time {
    Time((seconds * 1e9).round() as u64)
}

fn ten_seconds() -> Window {
    Window::new(WindowSize::Time(Nanos::from_secs(10)), Time::ORIGIN)
}

fn policy(min_calls: u32) -> policy::Window {
    policy::Window {
        min_calls,
        ..policy::Window::default()
    }
}

#[test]
fn b24a_the_window_slides() {
    let mut window = ten_seconds();
    for second in 1..=10_u32 {
        let bad = if second == 10 { 900 } else { 0 };
        window.record(GOOD, 1000 - bad, at(f64::from(second) - 0.5));
        window.record(BAD, bad, at(f64::from(second) - 0.4));
        assert_eq!(
            window.reached(&policy(10), false, at(f64::from(second) - 0.3)),
            None
        );
    }
    let counts = window.counts(at(9.9));
    assert_eq!((counts.failures, counts.calls), (900, 10_000));
}

#[test]
fn b24b_a_burst_across_an_edge_is_one_burst() {
    let mut window = ten_seconds();
    for _ in 0..6 {
        window.record(BAD, 1, at(9.9));
    }
    let mut opened_on = 6;
    while window.reached(&policy(10), false, at(10.1)).is_none() {
        window.record(BAD, 1, at(10.1));
        opened_on += 1;
    }
    assert_eq!(opened_on, 10);
}

#[test]
fn b24c_after_three_windows_every_total_is_zero() {
    let mut window = ten_seconds();
    window.record(
        Call {
            failed: true,
            slow: true,
        },
        7,
        at(1.0),
    );
    assert_eq!(window.counts(at(31.0)), Counts::default());
}

#[test]
fn b24d_a_month_of_idleness_costs_one_ring() {
    let mut window = ten_seconds();
    window.record(BAD, 1, at(1.0));
    window.record(BAD, 1, at(30.0 * 86_400.0));
    assert_eq!(window.counts(at(30.0 * 86_400.0)).calls, 1);
}

#[test]
fn b24e_the_window_is_open_at_its_old_end() {
    let mut window = ten_seconds();
    window.record(BAD, 1, at(0.0));
    assert_eq!(window.counts(at(9.999)).calls, 1);
    assert_eq!(window.counts(at(10.0)).calls, 0);
}

#[test]
fn b24f_consecutive_failures_are_consecutive() {
    let policy = policy::Window {
        consecutive_failures: 2,
        ..policy(20_000)
    };
    let mut window = ten_seconds();
    window.record(BAD, 1, at(1.0));
    window.record(GOOD, 10_000, at(1.0));
    window.record(BAD, 1, at(1.0));
    assert_eq!(window.reached(&policy, false, at(1.0)), None);
    window.record(BAD, 1, at(1.0));
    let reached = window.reached(&policy, false, at(1.0));
    assert_eq!(reached, Some(Reached::ConsecutiveFailures(2)));
}

#[test]
fn a_call_older_than_the_window_is_not_in_it() {
    let mut window = ten_seconds();
    window.record(GOOD, 1, at(20.5));
    for seconds in [10.5, 10.999, 1.0] {
        window.record(BAD, 1, at(seconds));
    }
    assert_eq!(window.counts(at(20.5)).calls, 1);
    window.record(BAD, 1, at(11.0));
    assert_eq!(window.counts(at(20.5)).failures, 1);
}

#[test]
fn a_window_of_calls_holds_the_last_ones() {
    let mut window = Window::new(WindowSize::Calls(5), Time::ORIGIN);
    window.record(BAD, 3, at(0.0));
    window.record(GOOD, 4, at(0.0));
    let counts = window.counts(at(99.0));
    assert_eq!((counts.calls, counts.failures), (5, 1));
}

#[test]
fn any_success_among_calls_of_unknown_order_ends_a_row_of_failures() {
    let policy = policy::Window {
        consecutive_failures: 2,
        ..policy(20_000)
    };
    let all = |calls, failures| Counts {
        calls,
        failures,
        slow: 0,
    };
    let mut window = ten_seconds();
    window.record_all(all(6, 5), at(1.0));
    assert_eq!(window.reached(&policy, false, at(1.0)), None);
    window.record_all(all(2, 2), at(1.0));
    assert!(window.reached(&policy, false, at(1.0)).is_some());
}

#[test]
fn a_window_of_calls_takes_a_tally_in_the_shares_it_has() {
    for (calls, failures, kept) in [(1000, 990, 10), (1000, 50, 0), (20, 10, 5), (4, 1, 1)] {
        let mut window = Window::new(WindowSize::Calls(10), Time::ORIGIN);
        let slow = 0;
        window.record_all(
            Counts {
                calls,
                failures,
                slow,
            },
            at(1.0),
        );
        let counts = window.counts(at(1.0));
        assert_eq!(
            (counts.calls, counts.failures.abs_diff(kept) <= 1),
            (calls.min(10), true)
        );
    }
}

#[test]
fn silence_does_not_end_a_row_of_failures() {
    let policy = policy::Window {
        consecutive_failures: 2,
        ..policy(20_000)
    };
    let mut window = ten_seconds();
    window.record(BAD, 1, at(1.0));
    window.record_silent(false, 3, at(1.0));
    window.record(BAD, 1, at(1.0));
    assert!(window.reached(&policy, false, at(1.0)).is_some());
    assert_eq!(window.counts(at(1.0)).slow, 3);
}

#[test]
fn a_window_of_calls_is_bounded_whatever_the_policy_says() {
    let mut window = Window::new(WindowSize::Calls(u32::MAX), Time::ORIGIN);
    assert!(window.fits(WindowSize::Calls(u32::MAX)));
    window.record(BAD, u32::MAX, at(0.0));
    assert_eq!(window.counts(at(0.0)).calls, CALLS_MAX);
}

#[test]
fn a_success_that_fills_the_minimum_is_evaluated() {
    let mut window = ten_seconds();
    window.record(BAD, 9, at(1.0));
    assert_eq!(window.reached(&policy(10), false, at(1.0)), None);
    window.record(GOOD, 1, at(1.0));
    assert!(window.reached(&policy(10), false, at(1.0)).is_some());
}

#[test]
fn slow_calls_count_where_the_policy_looks_at_them() {
    let policy = policy::Window {
        slow_ratio: Share(500_000),
        ..policy(2)
    };
    let mut window = ten_seconds();
    window.record(
        Call {
            failed: false,
            slow: true,
        },
        2,
        at(1.0),
    );
    assert_eq!(window.reached(&policy, false, at(1.0)), None);
    assert!(window.reached(&policy, true, at(1.0)).is_some());
}
