//! Configured rates that do not go with the calls or with the dependency.

use holdoff_decision::Policy;
use holdoff_decision::policy::RetryRate;

use super::super::traffic::Facts;
use super::super::value::Value;
use super::doubt::{Doubt, number_down, number_up, shown};

pub fn mismatched(policy: &Policy, facts: &Facts) -> Vec<Doubt> {
    let doubts = [
        planned(policy, facts),
        low(policy, facts),
        high(policy, facts),
    ];
    doubts.into_iter().flatten().collect()
}

/// A calendar that plans more retries than can be served.
fn planned(policy: &Policy, facts: &Facts) -> Option<Doubt> {
    let (RetryRate::PerSecond(rate), capacity) = (policy.calendar.retry_rate, facts.capacity?)
    else {
        return None;
    };
    if rate <= capacity {
        return None;
    }
    let message = format!(
        "retry_rate {} is above the capacity of {}: a herd comes back faster than it can be served",
        shown(rate),
        shown(capacity)
    );
    let room = capacity - facts.calls_per_second.unwrap_or(0.0);
    let doubt = Doubt::warning(
        "retry-rate-above-capacity",
        &["calendar.retry_rate"],
        message,
    )
    .with("retry_rate_per_second", rate)
    .with("capacity_per_second", capacity)
    .or([("calendar.retry_rate", Value::Number(number_down(room)))])
    .or([("calendar.retry_rate", Value::Number(number_down(capacity)))]);
    Some(doubt)
}

/// A limit that refuses calls in health. One at the capacity is meant to.
fn low(policy: &Policy, facts: &Facts) -> Option<Doubt> {
    let (limit, calls) = (policy.rate.as_ref()?, facts.calls_per_second?);
    // At most one service a client, each with a limit of its own.
    let limits = match limit.per_caller {
        true => f64::from(facts.clients?),
        false => 1.0,
    };
    let overloaded = facts.capacity.is_some_and(|capacity| calls > capacity);
    if limit.per_second * limits >= calls || overloaded {
        return None;
    }
    let message = format!(
        "per_second {} is below the {} calls a second: {} of them are refused with nothing wrong",
        shown(limit.per_second),
        shown(calls),
        shown(calls - limit.per_second * limits)
    );
    let retries =
        policy.budget.ratio.as_ratio() * calls + policy.budget.floor_micros_per_second as f64 / 1e6;
    let fields = &["rate.per_second", "rate.per_caller"];
    let up = |rate: f64| [("rate.per_second", Value::Number(number_up(rate / limits)))];
    let doubt = Doubt::warning("rate-below-traffic", fields, message)
        .with("rate_per_second", limit.per_second)
        .with("calls_per_second", calls)
        .or(up(calls + retries))
        .or(up(calls));
    Some(doubt)
}

/// A limit that the dependency is down before.
fn high(policy: &Policy, facts: &Facts) -> Option<Doubt> {
    let (limit, capacity) = (policy.rate.as_ref()?, facts.capacity?);
    if limit.per_second <= capacity {
        return None;
    }
    let message = format!(
        "per_second {} is above the capacity of {}",
        shown(limit.per_second),
        shown(capacity)
    );
    let doubt = Doubt::hint("rate-above-capacity", &["rate.per_second"], message)
        .with("rate_per_second", limit.per_second)
        .with("capacity_per_second", capacity)
        .or([("rate.per_second", Value::Number(number_down(capacity)))]);
    Some(doubt)
}
