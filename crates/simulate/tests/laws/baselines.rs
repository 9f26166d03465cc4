//! The baselines against the published figures of the herd (S2) and the storm (S3), N = 1,000,
//! within sampling error. They came from a simulation that is not this one.

use holdoff_decision::Policy;
use holdoff_simulate::{Scenario, Strategy, results::Figures};

use crate::scenarios::{shipped, simulated};

fn near(found: f64, published: f64, part: f64) -> bool {
    (found - published).abs() <= part * published
}

struct Published {
    calls_while_down: f64,
    recovers_within_s: Option<f64>,
}

fn reproduces(scenario: &Scenario, strategy: Strategy, seeds: u64, it: &Published) -> Figures {
    let (figures, counters, _) = simulated(scenario, strategy, &Policy::default(), seeds);
    let name = strategy.name();
    let calls = counters.calls_while_down;
    assert!(
        near(calls, it.calls_while_down, 0.03),
        "{name}: {calls} calls while down"
    );
    match (figures.recovers_within_s, it.recovers_within_s) {
        (Some(found), Some(published)) => {
            let near = near(found, published, 0.08) || (found - published).abs() <= 1.0;
            assert!(
                near,
                "{name}: recovers in {found} s, published {published} s"
            );
        }
        (found, published) => assert_eq!(found, published, "{name}"),
    }
    figures
}

fn herd(strategy: Strategy, calls_while_down: f64, recovers_within_s: Option<f64>) -> Figures {
    let published = Published {
        calls_while_down,
        recovers_within_s,
    };
    reproduces(&shipped("herd"), strategy, 20, &published)
}

fn storm(strategy: Strategy, calls_while_down: f64, recovers_within_s: Option<f64>) -> Figures {
    let published = Published {
        calls_while_down,
        recovers_within_s,
    };
    reproduces(&shipped("storm"), strategy, 5, &published)
}

#[test]
fn herd_under_a_fixed_second_comes_back_five_times_too_strong() {
    let figures = herd(Strategy::Fixed, 29_033.0, Some(10.2));
    assert!(near(figures.peak_per_second / 200.0, 4.97, 0.05));
}

#[test]
fn herd_without_jitter_never_recovers() {
    herd(Strategy::Exponential, 7_950.0, None);
}

#[test]
fn herd_under_full_jitter_takes_eighteen_seconds() {
    herd(Strategy::FullJitter, 9_347.0, Some(18.0));
}

#[test]
fn herd_under_breakers_of_their_own_with_a_fixed_cool_down_stays_together() {
    let figures = herd(Strategy::Breaker, 6_381.0, Some(48.7));
    assert!(near(figures.peak_per_second / 200.0, 4.86, 0.05));
    assert!(near(figures.opens_within_s.unwrap(), 0.834, 0.05));
}

#[test]
fn herd_under_breakers_of_their_own_with_jitter_spreads() {
    herd(Strategy::BreakerJittered, 6_438.0, Some(13.5));
}

#[test]
fn herd_under_buckets_of_their_own_is_as_under_full_jitter() {
    herd(Strategy::Bucket, 9_352.0, Some(17.9));
}

#[test]
fn storm_without_retries_passes() {
    let figures = storm(Strategy::NoRetry, 7_989.0, Some(10.0));
    assert!(near(figures.failed_after.unwrap(), 0.084, 0.1));
}

#[test]
fn storm_with_three_attempts_never_ends() {
    for (strategy, calls) in [
        (Strategy::None, 24_028.0),
        (Strategy::Exponential, 23_681.0),
        (Strategy::FullJitter, 23_813.0),
    ] {
        let figures = storm(strategy, calls, None);
        assert!(figures.failed_after.unwrap() > 0.999);
    }
}

#[test]
fn storm_under_breakers_of_their_own_lasts_thirteen_seconds() {
    storm(Strategy::Breaker, 16_316.0, Some(13.0));
}

#[test]
fn storm_under_quotas_of_their_own_lasts_until_they_are_used_up() {
    storm(Strategy::Bucket, 17_640.0, Some(12.0));
    storm(Strategy::Grpc, 11_361.0, Some(11.0));
    storm(Strategy::Aws, 23_747.0, Some(33.0));
}

#[test]
fn storm_of_many_clients_is_not_seen_by_any_of_their_breakers() {
    let mut scenario = shipped("storm");
    scenario.clients = 10_000;
    let published = Published {
        calls_while_down: 23_780.0,
        recovers_within_s: None,
    };
    let figures = reproduces(&scenario, Strategy::Breaker, 1, &published);
    assert_eq!(figures.opens_within_s, None);
}
