//! Where coordination does not help, the simulator says so; and the places in which it must not
//! do harm.

use holdoff_decision::{Nanos, Policy};
use holdoff_simulate::Strategy;

use crate::scenarios::{shipped, simulated};

fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.breaker.open_for = Nanos::from_secs(2);
    policy.breaker.open_max = Nanos::from_secs(2);
    policy.breaker.open_multiplier = 1.0;
    policy.breaker.spread = Nanos::from_millis(500);
    policy
}

#[test]
fn a_blip_is_survived_better_by_those_who_simply_go_on() {
    let blip = shipped("blip");
    let (without, ..) = simulated(&blip, Strategy::FullJitter, &policy(), 3);
    let (with, ..) = simulated(&blip, Strategy::Holdoff, &policy(), 3);
    assert!(without.goodput.unwrap() > 0.999, "{without:?}");
    assert!(with.goodput < without.goodput, "{with:?}");
    assert!(with.failed_after > without.failed_after, "{with:?}");
}

#[test]
fn a_dependency_that_is_well_sees_the_same_calls_with_and_without_holdoff() {
    let mut calm = shipped("outage");
    calm.events.clear();
    let (_, without, _) = simulated(&calm, Strategy::FullJitter, &policy(), 1);
    let (figures, with, _) = simulated(&calm, Strategy::Holdoff, &policy(), 1);
    assert_eq!(with.calls, without.calls);
    assert_eq!(with.questions, 0.0, "first attempts have no hop");
    assert_eq!(figures.recovers_within_s, None);
    assert_eq!(figures.opens_within_s, None);
}

#[test]
fn clients_without_their_coordinator_are_not_worse_than_with_breakers_of_their_own() {
    let lost = shipped("coordinator-loss");
    let (own, own_counters, _) = simulated(&lost, Strategy::BreakerJittered, &policy(), 5);
    let (alone, counters, _) = simulated(&lost, Strategy::Holdoff, &policy(), 5);
    assert!(counters.decided_alone > 0.0, "{counters:?}");
    assert!(
        alone.recovers_within_s <= own.recovers_within_s,
        "{alone:?}"
    );
    assert!(alone.goodput >= own.goodput, "{alone:?}");
    let (_, bucket, _) = simulated(&lost, Strategy::Bucket, &policy(), 5);
    assert!(
        counters.calls_while_down < bucket.calls_while_down,
        "{counters:?}"
    );
    assert!(own_counters.calls_while_down > 0.0);
}

#[test]
fn a_chain_of_services_retries_in_one_layer_only() {
    let chain = shipped("chain");
    let (without, ..) = simulated(&chain, Strategy::FullJitter, &policy(), 1);
    let (with, ..) = simulated(&chain, Strategy::Holdoff, &policy(), 1);
    assert!(without.amplification.unwrap() > 5.0, "{without:?}");
    assert!(with.amplification.unwrap() <= 1.1, "{with:?}");
}

#[test]
fn a_shared_quota_is_kept_to_by_the_fleet() {
    let throttling = shipped("throttling");
    let mut policy = Policy::default();
    policy.retry.max_attempts = holdoff_decision::policy::MaxAttempts::Limited(5);
    policy.rate = Some(holdoff_decision::policy::Rate {
        per_second: 99.0,
        burst: 20,
        max_wait: Nanos::from_secs(3),
        per_caller: false,
    });
    let (figures, counters, _) = simulated(&throttling, Strategy::Holdoff, &policy, 1);
    assert_eq!(counters.calls_throttled, 0.0);
    assert!(figures.goodput.unwrap() > 0.99, "{figures:?}");
    let (_, aws, _) = simulated(&throttling, Strategy::Aws, &policy, 1);
    assert!(aws.calls_throttled > 1_000.0, "{aws:?}");
}
