use super::*;
use crate::Share;

pub fn policy(ratio: f64, floor_per_second: u64) -> policy::Budget {
    policy::Budget {
        ratio: Share::from_ratio(ratio).unwrap(),
        floor_micros_per_second: floor_per_second * 1_000_000,
        ..policy::Budget::default()
    }
}

fn at(seconds: f64) -> Time {
    Time((seconds * 1e9) as u64)
}

fn grants(budget: &mut Budget, policy: &policy::Budget, asked: u32, now: Time) -> u32 {
    (0..asked)
        .filter(|_| {
            let granted = budget.look(policy, 1, Time::ORIGIN, now).is_ok();
            if granted {
                budget.withdraw(policy, 1, now);
            }
            granted
        })
        .count() as u32
}

#[test]
fn b09b_five_times_a_fifth_is_exactly_one() {
    let policy = policy(0.2, 0);
    let mut budget = Budget::default();
    let granted: Vec<u32> = (0..5)
        .map(|call| {
            budget.deposit(&policy, 1, at(f64::from(call)));
            grants(&mut budget, &policy, 1, at(f64::from(call)))
        })
        .collect();
    assert_eq!(granted, [0, 0, 0, 0, 1]);
}

#[test]
fn b10a_a_retry_is_charged_when_it_is_promised() {
    let policy = policy(0.2, 0);
    let mut budget = Budget::default();
    budget.deposit(&policy, 1000, at(0.0));
    assert_eq!(grants(&mut budget, &policy, 1000, at(0.01)), 200);
    budget.deposit(&policy, 100, at(5.0));
    assert_eq!(grants(&mut budget, &policy, 100, at(5.0)), 20);
}

#[test]
fn b12a_an_empty_budget_fills_again_without_a_restart() {
    let policy = policy(0.2, 0);
    let mut budget = Budget::default();
    budget.deposit(&policy, 100, at(100.0));
    assert_eq!(grants(&mut budget, &policy, 100, at(100.0)), 20);
    for call in 0..100 {
        budget.deposit(&policy, 1, at(101.0 + f64::from(call) * 0.04));
    }
    assert_eq!(grants(&mut budget, &policy, 100, at(105.0)), 20);
}

#[test]
fn b12b_a_day_of_health_pays_for_one_window() {
    let policy = policy(0.2, 0);
    let mut budget = Budget::default();
    for second in 0..1000 {
        budget.deposit(&policy, 1000, at(f64::from(second)));
    }
    assert_eq!(grants(&mut budget, &policy, 300_000, at(999.5)), 2000);
}

#[test]
fn b12c_an_idle_hour_pays_for_one_floor() {
    let policy = policy(0.2, 1);
    let mut budget = Budget::default();
    budget.deposit(&policy, 50, at(3600.0));
    assert_eq!(grants(&mut budget, &policy, 100, at(3600.0)), 20);
}

#[test]
fn the_partial_bucket_counts_for_retries_and_not_for_first_attempts() {
    let policy = policy(1.0, 0);
    let mut budget = Budget::default();
    budget.deposit(&policy, 10, at(0.1));
    budget.deposit(&policy, 1, at(9.0));
    assert_eq!(grants(&mut budget, &policy, 1, at(0.2)), 1);
    let level = budget.level(&policy, Time::ORIGIN, at(10.05));
    assert_eq!((level.first_attempts, level.retries), (1, 1));
}

#[test]
fn one_instance_gets_its_part_while_others_ask_and_all_of_it_alone() {
    let policy = policy(1.0, 0);
    let mut budget = Budget::default();
    budget.deposit(&policy, 10, at(0.0));
    assert!(budget.look(&policy, 2, Time::ORIGIN, at(0.0)).is_ok());
    assert_eq!(grants(&mut budget, &policy, 10, at(0.1)), 5);
    assert_eq!(
        grants(&mut budget, &policy, 10, at(3.0)),
        5,
        "the other asks no more"
    );
}

#[test]
fn the_floor_counts_as_spent_after_a_restart() {
    let policy = policy(0.2, 1);
    let mut budget = Budget::default();
    let from = at(10.0);
    assert!(budget.look(&policy, 1, from, at(9.9)).is_err());
    assert!(budget.look(&policy, 1, from, at(10.0)).is_ok());
}

#[test]
fn a_refund_returns_to_the_bucket_it_came_from() {
    let policy = policy(1.0, 0);
    let mut budget = Budget::default();
    budget.deposit(&policy, 1, at(1.0));
    budget.withdraw(&policy, 1, at(1.0));
    budget.refund(&policy, 1, at(1.0), at(2.0));
    assert_eq!(budget.level(&policy, Time::ORIGIN, at(2.0)).left(), 1);
    budget.withdraw(&policy, 1, at(2.0));
    budget.refund(&policy, 1, at(1.0), at(60.0));
    assert_eq!(budget.level(&policy, Time::ORIGIN, at(60.0)).retries, 0);
}

#[test]
fn a_refund_returns_to_the_part_of_its_caller() {
    let policy = policy(1.0, 0);
    let mut budget = Budget::default();
    budget.deposit(&policy, 2, at(0.0));
    assert!(budget.look(&policy, 2, Time::ORIGIN, at(0.0)).is_ok());
    assert_eq!(grants(&mut budget, &policy, 2, at(0.1)), 1);
    budget.refund(&policy, 1, at(0.1), at(0.2));
    assert_eq!(grants(&mut budget, &policy, 2, at(0.2)), 1);
}

#[test]
fn a_new_window_keeps_what_is_known_and_earns_its_longer_floor() {
    let short = policy(0.5, 1);
    let mut budget = Budget::default();
    budget.deposit(&short, 20, at(15.5));
    assert_eq!(grants(&mut budget, &short, 15, at(16.5)), 15);
    let long = policy::Budget {
        ttl: Nanos::from_secs(20),
        ..short.clone()
    };
    assert_eq!(
        grants(&mut budget, &long, 100, at(17.0)),
        5,
        "20 of 20 + 10, 10 unknown"
    );
    let level = budget.level(&long, Time::ORIGIN, at(17.0));
    assert_eq!((level.first_attempts, level.allowed), (20, 30));
    assert_eq!(grants(&mut budget, &short, 100, at(18.0)), 0);
}

#[test]
fn the_end_of_time_is_no_edge() {
    let policy = policy::Budget {
        ttl: Nanos(1),
        max_caller_share: Share(u32::MAX),
        ..policy(4_000.0, u64::MAX / 1_000_000)
    };
    let mut budget = Budget::default();
    budget.deposit(&policy, u32::MAX, Time::MAX);
    budget.withdraw(&policy, 1, Time::MAX);
    let _ = budget.look(&policy, 1, Time::MAX, Time::MAX);
    budget.refund(&policy, 1, Time::MAX, Time::MAX);
    budget.deposit(&policy, 1, Time::ORIGIN);
}
