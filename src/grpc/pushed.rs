//! Writes what is pushed to clients.

use holdoff_decision::{
    Policy,
    policy::{Jitter, MaxAttempts, Mode, Strategy},
    standing::FirstAttempts,
};

use super::answer::{span, state};
use crate::{coordinator::Pushed, proto};

pub fn update(pushed: Pushed) -> proto::Update {
    let standing = pushed.standing;
    let first_attempts = match standing.first_attempts {
        FirstAttempts::Go => proto::FirstAttempts::Go,
        FirstAttempts::Ask => proto::FirstAttempts::Ask,
        FirstAttempts::Refuse => proto::FirstAttempts::Refuse,
    };
    proto::Update {
        dependency: pushed.dependency,
        state: state(standing.state).into(),
        epoch: standing.epoch,
        first_attempts: first_attempts.into(),
        valid_for: Some(span(standing.valid_for)),
        offline_allowance: Some(allowance(&pushed.policy, pushed.clients)),
        policy: Some(client_policy(&pushed.policy)),
    }
}

/// The floor, shared out; the share of first attempts needs no sharing.
fn allowance(policy: &Policy, clients: u32) -> proto::OfflineAllowance {
    let floor = policy.budget.floor_micros_per_second as f64 / 1e6;
    proto::OfflineAllowance {
        retries_per_second: floor / f64::from(clients),
        known_clients: clients,
    }
}

fn client_policy(policy: &Policy) -> proto::ClientPolicy {
    let retry = &policy.retry;
    let (jitter, jitter_proportion) = match retry.jitter {
        Jitter::None => (proto::Jitter::None, 0.0),
        Jitter::Full => (proto::Jitter::Full, 0.0),
        Jitter::Equal => (proto::Jitter::Equal, 0.0),
        Jitter::Proportional(share) => (proto::Jitter::Proportional, share),
        Jitter::Decorrelated => (proto::Jitter::Decorrelated, 0.0),
    };
    let strategy = match retry.strategy {
        Strategy::Fixed => proto::Strategy::Fixed,
        Strategy::Linear => proto::Strategy::Linear,
        Strategy::Exponential => proto::Strategy::Exponential,
    };
    proto::ClientPolicy {
        max_attempts: match retry.max_attempts {
            MaxAttempts::Limited(max) => max,
            MaxAttempts::Unlimited => 0,
        },
        strategy: strategy.into(),
        initial_delay: Some(span(retry.initial_delay)),
        multiplier: retry.multiplier,
        max_delay: Some(span(retry.max_delay)),
        min_delay: Some(span(retry.min_delay)),
        jitter: jitter.into(),
        jitter_proportion,
        min_attempt_time: Some(span(retry.min_attempt_time)),
        pushback_max: Some(span(policy.pushback.max)),
        pushback_spread: Some(span(policy.pushback.spread)),
        budget_ratio: policy.budget.ratio.as_ratio(),
        budget_ttl: Some(span(policy.budget.ttl)),
        open_for: Some(span(policy.breaker.open_for)),
        open_multiplier: policy.breaker.open_multiplier,
        open_max: Some(span(policy.breaker.open_max)),
        slow_after: Some(span(policy.breaker.slow_after)),
        // In shadow too nobody is refused by the breaker.
        breaker_off: matches!(policy.breaker.mode, Mode::Off | Mode::Shadow),
    }
}
