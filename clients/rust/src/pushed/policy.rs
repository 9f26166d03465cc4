//! Reads the policy that the service pushes, for the time when it says no more.
//!
//! | field | taken | otherwise |
//! |---|---|---|
//! | `max_attempts` | 0 (unlimited) to 1,000 | the client's own policy |
//! | delays, `min_attempt_time`, pushbacks, `slow_after` | 0 to 24 h | 〃 |
//! | `multiplier` | 1 to 100 | 〃 |
//! | `open_multiplier` | 1 to 1,000 | 〃 |
//! | `jitter_proportion` | 0 to 1 | 〃 |
//! | `budget_ratio` | 0 to 10 | 〃 |
//! | `budget_ttl`, `open_for`, `open_max` | above 0, to 24 h | 〃 |
//! | `breaker_off` | true: no local breaker | 〃 |
//! | `retries_per_second` | 0 to 1,000,000, rounded down to a millionth | 〃 |
//!
//! The service shares the floor out, so that clients alone add up to the fleet's: it is
//! rounded down here, and never up. A first delay above the longest one is the longest one.

use holdoff_decision::{
    Nanos, Policy, Share,
    policy::{Breaker, Budget, Jitter, MaxAttempts, Mode, Pushback, Retry, Strategy},
};

use crate::{proto, wire};

const ATTEMPTS_MAX: u32 = 1_000;
const LONGEST: Nanos = Nanos::from_secs(24 * 3600);
const FLOOR_MAX: f64 = 1e6;

pub(crate) fn read(
    said: Option<&proto::ClientPolicy>,
    allowance: Option<&proto::OfflineAllowance>,
    base: &Policy,
) -> Policy {
    let mut policy = base.clone();
    if let Some(said) = said {
        policy.retry = retry(said, &base.retry);
        policy.pushback = pushback(said, &base.pushback);
        policy.breaker = breaker(said, &base.breaker);
        policy.budget = budget(said, &base.budget);
    }
    if let Some(floor) = allowance.and_then(floor) {
        policy.budget.floor_micros_per_second = floor;
    }
    policy
}

fn retry(said: &proto::ClientPolicy, base: &Retry) -> Retry {
    let max_delay = span(said.max_delay).unwrap_or(base.max_delay);
    Retry {
        max_attempts: match said.max_attempts {
            0 => MaxAttempts::Unlimited,
            max if max <= ATTEMPTS_MAX => MaxAttempts::Limited(max),
            _ => base.max_attempts,
        },
        strategy: match said.strategy() {
            proto::Strategy::Unspecified => base.strategy,
            proto::Strategy::Fixed => Strategy::Fixed,
            proto::Strategy::Linear => Strategy::Linear,
            proto::Strategy::Exponential => Strategy::Exponential,
        },
        initial_delay: span(said.initial_delay)
            .unwrap_or(base.initial_delay)
            .min(max_delay),
        multiplier: within(said.multiplier, 1.0, 100.0).unwrap_or(base.multiplier),
        max_delay,
        min_delay: span(said.min_delay)
            .unwrap_or(base.min_delay)
            .min(max_delay),
        jitter: jitter(said).unwrap_or(base.jitter),
        min_attempt_time: span(said.min_attempt_time).unwrap_or(base.min_attempt_time),
    }
}

fn jitter(said: &proto::ClientPolicy) -> Option<Jitter> {
    match said.jitter() {
        proto::Jitter::Unspecified => None,
        proto::Jitter::None => Some(Jitter::None),
        proto::Jitter::Full => Some(Jitter::Full),
        proto::Jitter::Equal => Some(Jitter::Equal),
        proto::Jitter::Proportional => {
            within(said.jitter_proportion, 0.0, 1.0).map(Jitter::Proportional)
        }
        proto::Jitter::Decorrelated => Some(Jitter::Decorrelated),
    }
}

fn pushback(said: &proto::ClientPolicy, base: &Pushback) -> Pushback {
    Pushback {
        scope: base.scope,
        max: span(said.pushback_max).unwrap_or(base.max),
        spread: span(said.pushback_spread).unwrap_or(base.spread),
    }
}

fn breaker(said: &proto::ClientPolicy, base: &Breaker) -> Breaker {
    let open_for = some_time(said.open_for).unwrap_or(base.open_for);
    Breaker {
        mode: match said.breaker_off {
            true => Mode::Off,
            false => base.mode,
        },
        open_for,
        open_multiplier: within(said.open_multiplier, 1.0, 1_000.0).unwrap_or(base.open_multiplier),
        open_max: some_time(said.open_max)
            .unwrap_or(base.open_max)
            .max(open_for),
        slow_after: span(said.slow_after).unwrap_or(base.slow_after),
        ..base.clone()
    }
}

fn budget(said: &proto::ClientPolicy, base: &Budget) -> Budget {
    Budget {
        ratio: within(said.budget_ratio, 0.0, 10.0)
            .and_then(Share::from_ratio)
            .unwrap_or(base.ratio),
        ttl: some_time(said.budget_ttl).unwrap_or(base.ttl),
        ..base.clone()
    }
}

/// In millionths of a retry a second.
fn floor(allowance: &proto::OfflineAllowance) -> Option<u64> {
    let per_second = within(allowance.retries_per_second, 0.0, FLOOR_MAX)?;
    // In range, so nothing is cut but the fraction.
    Some((per_second * 1e6).floor() as u64)
}

/// No number is in no range.
fn within(value: f64, low: f64, high: f64) -> Option<f64> {
    (low..=high).contains(&value).then_some(value)
}

fn span(said: Option<prost_types::Duration>) -> Option<Nanos> {
    let span = Nanos::from(wire::read_duration(said).ok()??);
    (span <= LONGEST).then_some(span)
}

fn some_time(said: Option<prost_types::Duration>) -> Option<Nanos> {
    span(said).filter(|span| !span.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(secs: i64) -> Option<prost_types::Duration> {
        Some(prost_types::Duration {
            seconds: secs,
            nanos: 0,
        })
    }

    /// Everything said, and different from any default.
    fn said() -> proto::ClientPolicy {
        proto::ClientPolicy {
            max_attempts: 7,
            strategy: proto::Strategy::Linear.into(),
            initial_delay: wire(2),
            multiplier: 3.0,
            max_delay: wire(20),
            min_delay: wire(1),
            jitter: proto::Jitter::Proportional.into(),
            jitter_proportion: 0.25,
            min_attempt_time: wire(3),
            pushback_max: wire(40),
            pushback_spread: wire(5),
            budget_ratio: 0.3,
            budget_ttl: wire(30),
            open_for: wire(8),
            open_multiplier: 4.0,
            open_max: wire(80),
            slow_after: wire(6),
            breaker_off: true,
        }
    }

    fn allowance(retries_per_second: f64) -> proto::OfflineAllowance {
        proto::OfflineAllowance {
            retries_per_second,
            known_clients: 3,
        }
    }

    #[test]
    fn what_is_said_is_kept_to() {
        let policy = read(Some(&said()), Some(&allowance(0.5)), &Policy::default());
        let retry = Retry {
            max_attempts: MaxAttempts::Limited(7),
            strategy: Strategy::Linear,
            initial_delay: Nanos::from_secs(2),
            multiplier: 3.0,
            max_delay: Nanos::from_secs(20),
            min_delay: Nanos::from_secs(1),
            jitter: Jitter::Proportional(0.25),
            min_attempt_time: Nanos::from_secs(3),
        };
        assert_eq!(policy.retry, retry);
        assert_eq!(policy.pushback.max, Nanos::from_secs(40));
        assert_eq!(policy.pushback.spread, Nanos::from_secs(5));
        assert_eq!(policy.breaker.open_for, Nanos::from_secs(8));
        assert_eq!(policy.breaker.open_multiplier, 4.0);
        assert_eq!(policy.breaker.open_max, Nanos::from_secs(80));
        assert_eq!(policy.breaker.slow_after, Nanos::from_secs(6));
        assert_eq!(policy.breaker.mode, Mode::Off);
        assert_eq!(policy.budget.ratio, Share(300_000));
        assert_eq!(policy.budget.ttl, Nanos::from_secs(30));
        assert_eq!(policy.budget.floor_micros_per_second, 500_000);
    }

    #[test]
    fn cl4_what_cannot_be_leaves_the_clients_own_policy() {
        let absurd = |number: f64, span: Option<prost_types::Duration>| proto::ClientPolicy {
            max_attempts: u32::MAX,
            strategy: 99,
            initial_delay: span,
            multiplier: number,
            max_delay: span,
            min_delay: span,
            jitter: -3,
            jitter_proportion: number,
            min_attempt_time: span,
            pushback_max: span,
            pushback_spread: span,
            budget_ratio: number,
            budget_ttl: span,
            open_for: span,
            open_multiplier: number,
            open_max: span,
            slow_after: span,
            breaker_off: false,
        };
        let base = Policy::default();
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 1e300] {
            for span in [None, wire(-1), wire(i64::MAX), wire(100_000_000)] {
                let policy = absurd(number, span);
                let read = read(Some(&policy), Some(&allowance(number)), &base);
                assert_eq!(read, base, "{number} {span:?}");
            }
        }
    }

    #[test]
    fn a_first_delay_above_the_longest_is_the_longest_and_no_open_period_exceeds_its_own() {
        let odd = proto::ClientPolicy {
            initial_delay: wire(100),
            min_delay: wire(90),
            open_for: wire(100),
            ..said()
        };
        let policy = read(Some(&odd), None, &Policy::default());
        assert_eq!(policy.retry.initial_delay, Nanos::from_secs(20));
        assert_eq!(policy.retry.min_delay, Nanos::from_secs(20));
        assert_eq!(policy.breaker.open_max, Nanos::from_secs(100));
    }

    #[test]
    fn the_shares_of_any_number_of_clients_never_exceed_the_fleets_floor() {
        for fleet_micros in [1, 7, 1_000_000, 12_345_678_u64] {
            for clients in [1, 2, 3, 7, 10, 1_000, 65_537_u32] {
                let share = fleet_micros as f64 / 1e6 / f64::from(clients);
                let own = floor(&allowance(share)).unwrap();
                let sum = own * u64::from(clients);
                assert!(sum <= fleet_micros, "{clients} of {fleet_micros}: {sum}");
                assert!(sum + u64::from(clients) >= fleet_micros);
            }
        }
    }
}
