//! More retries than the dependency has room for.
//!
//! ```text
//! retries a second    min(ratio * calls + floor, (max_attempts - 1) * calls)
//! room                capacity - calls, that is a ratio of at most 1 / rho - 1
//! ```
//!
//! The floor is the fleet's and not each client's, so it is not multiplied by the clients;
//! without the service each of them has its part of it. A rate limit for all callers within
//! the capacity keeps the whole below it, retries included.

use holdoff_decision::Policy;
use holdoff_decision::policy::MaxAttempts;

use super::super::traffic::Facts;
use super::super::value::Value;
use super::doubt::{Change, Doubt, number_down, shown};

pub fn above(policy: &Policy, facts: &Facts) -> Vec<Doubt> {
    let Some(capacity) = facts.capacity else {
        return Vec::new();
    };
    if limit(policy).is_some_and(|limit| limit <= capacity) {
        return Vec::new();
    }
    let calls = facts.calls_per_second.unwrap_or(0.0);
    if calls > capacity {
        return vec![overloaded(calls, capacity)];
    }
    let room = capacity - calls;
    let ratio = policy.budget.ratio.as_ratio();
    let floor = policy.budget.floor_micros_per_second as f64 / 1e6;
    let retries = retries(policy, facts.calls_per_second);
    if retries <= room {
        return Vec::new();
    }
    let message = format!(
        "{} retries a second (ratio {ratio} of {} calls, floor {floor}) are above the {} that the dependency has room for",
        shown(retries),
        shown(calls),
        shown(room)
    );
    let fields = &[
        "budget.ratio",
        "budget.floor_per_second",
        "retry.max_attempts",
    ];
    let fitting = |floor: f64| match calls > 0.0 {
        true => Value::Number(number_down((room - floor).max(0.0) / calls)),
        false => Value::Number(ratio),
    };
    let floor_is = |floor: f64| ("budget.floor_per_second", Value::Number(floor));
    let small = number_down(floor.min(room / 2.0));
    let both: [Change; 2] = [("budget.ratio", fitting(small)), floor_is(small)];
    let none: [Change; 2] = [("budget.ratio", Value::Number(0.0)), floor_is(0.0)];
    let mut doubt = Doubt::warning("retries-above-spare", fields, message)
        .with("retries_per_second", retries)
        .with("room_per_second", room)
        .with("capacity_per_second", capacity)
        .with("calls_per_second", calls);
    if calls > 0.0 {
        doubt = doubt.with("highest_ratio", capacity / calls - 1.0);
    }
    if floor < room {
        doubt = doubt.or([("budget.ratio", fitting(floor))]);
    }
    vec![doubt.or(both).or(none)]
}

/// What all callers together are held to.
fn limit(policy: &Policy) -> Option<f64> {
    let rate = policy.rate.as_ref()?;
    (!rate.per_caller).then_some(rate.per_second)
}

/// A second, at most.
fn retries(policy: &Policy, calls: Option<f64>) -> f64 {
    let floor = policy.budget.floor_micros_per_second as f64 / 1e6;
    let Some(calls) = calls else {
        return match policy.retry.max_attempts {
            MaxAttempts::Limited(1) => 0.0,
            MaxAttempts::Limited(_) | MaxAttempts::Unlimited => floor,
        };
    };
    let allowed = policy.budget.ratio.as_ratio() * calls + floor;
    match policy.retry.max_attempts {
        MaxAttempts::Limited(attempts) => allowed.min(f64::from(attempts - 1) * calls),
        MaxAttempts::Unlimited => allowed,
    }
}

fn overloaded(calls: f64, capacity: f64) -> Doubt {
    let message = format!(
        "{} calls a second are above the capacity of {}, before any retry",
        shown(calls),
        shown(capacity)
    );
    let fields = &["rate.per_second", "budget.ratio"];
    Doubt::warning("traffic-above-capacity", fields, message)
        .with("calls_per_second", calls)
        .with("capacity_per_second", capacity)
        .or([("rate.per_second", Value::Number(number_down(capacity)))])
        .or([
            ("rate.per_second", Value::Number(number_down(capacity))),
            ("rate.burst", Value::Count(1)),
            ("rate.per_caller", Value::Flag(false)),
        ])
}
