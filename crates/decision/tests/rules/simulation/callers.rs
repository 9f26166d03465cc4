//! Many callers at the end of one open period: exactly the probes go, and where their holders
//! die, the next ones go soon after their leases.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
};

use holdoff_decision::{DenialReason, Nanos, Permit, State, Time, policy::Detect};

use super::draws::Draws;
use crate::fleet::{FAIL, Fleet, OK, plain};

const CALLERS: u64 = 500;

/// A fleet whose breaker opened just now, and its draws.
fn opened(seed: u64, probes: u32) -> (Fleet, Draws) {
    let mut draws = Draws::of_seed(seed);
    let mut policy = plain();
    policy.breaker.detect = Detect::Adaptive;
    policy.breaker.probes = probes;
    policy.breaker.probe_successes = probes;
    policy.breaker.probe_lease = draws.millis(500, 5_000);
    policy.breaker.open_for = draws.millis(300, 10_000);
    let mut fleet = Fleet::new(policy);
    fleet.now = Time(0) + draws.millis(1, 1_000);
    let permits: Vec<Permit> = (1..=10)
        .map(|caller| fleet.by(caller).first().unwrap().permit)
        .collect();
    for (permit, caller) in permits.into_iter().zip(1..) {
        fleet.by(caller).report(permit, FAIL);
    }
    assert_eq!(fleet.state(), State::Open, "seed {seed}");
    (fleet, draws)
}

#[test]
fn five_hundred_callers_in_the_instant_an_open_period_ends_get_exactly_the_probes() {
    for seed in 0..200 {
        for probes in 1..=4 {
            let (mut fleet, mut draws) = opened(seed, probes);
            let ends = fleet.record.breaker.past().open_until;
            fleet.now = Time(ends.0 - 1);
            for caller in 0..CALLERS {
                let denied = fleet.by(caller).first().unwrap_err();
                assert_eq!(denied.reason, DenialReason::BreakerOpen, "seed {seed}");
            }
            fleet.now = ends;
            let (mut leased, mut told) = (Vec::new(), BTreeSet::new());
            for caller in 0..CALLERS {
                fleet.sample = draws.sample();
                match fleet.by(caller).first() {
                    Ok(grant) => {
                        assert!(grant.probe && grant.delay.is_zero());
                        leased.push((caller, grant.permit));
                    }
                    Err(denied) => {
                        assert_eq!(denied.reason, DenialReason::ProbeInProgress);
                        told.insert(denied.retry_after.unwrap());
                    }
                }
            }
            assert_eq!(leased.len(), probes as usize, "seed {seed}");
            // The others do not come back together.
            assert!(told.len() as u64 >= CALLERS - 50, "{} times", told.len());
            for (caller, permit) in leased {
                fleet.by(caller).report(permit, OK);
            }
            assert_eq!(fleet.state(), State::Closed, "seed {seed}");
        }
    }
}

/// Callers come back when they were told; those who get a probe die with it, so often.
#[test]
fn the_holders_die_and_the_next_lease_is_within_the_lease_and_100_ms() {
    let mut longest = Nanos::ZERO;
    for seed in 0..100 {
        for probes in [1, 3] {
            let (mut fleet, mut draws) = opened(seed, probes);
            let ends = fleet.record.breaker.past().open_until;
            let lease = fleet.policy.breaker.probe_lease;
            let mut coming: BinaryHeap<_> =
                (0..CALLERS).map(|caller| Reverse((ends, caller))).collect();
            let mut given: Vec<Time> = Vec::new();
            while given.len() < 5 * probes as usize {
                let Reverse((at, caller)) = coming.pop().unwrap();
                fleet.now = at;
                fleet.sample = draws.sample();
                match fleet.by(caller).first() {
                    Ok(grant) => {
                        assert!(grant.probe);
                        given.push(at);
                    }
                    Err(denied) => {
                        coming.push(Reverse((at + denied.retry_after.unwrap(), caller)));
                    }
                }
            }
            for (before, after) in given.iter().zip(&given[probes as usize..]) {
                let wait = before.until(*after);
                assert!(wait >= lease, "seed {seed}: {wait} of a lease of {lease}");
                let late = wait.saturating_sub(lease);
                longest = longest.max(late);
                assert!(late <= Nanos::from_millis(100), "seed {seed}: {late} late");
            }
        }
    }
    println!("{CALLERS} callers, holders that die: the next lease at most {longest} after its end");
}
