//! A calendar that has no place for the retries of a fleet that failed at once.
//!
//! ```text
//! herd     min(clients, ratio * first attempts + floor * ttl): what the budget lets retry
//! places   0.9 * retry_rate * (horizon + the longest first delay), at normal priority
//! ```
//!
//! With `auto` the rate is that of the successes before, ten a second at least. Who finds no
//! place is denied `CALENDAR_FULL` and told to ask later, and its call may be over by then.

use holdoff_decision::policy::{MaxAttempts, RetryRate};
use holdoff_decision::{Policy, backoff};

use super::super::duration::written;
use super::super::traffic::Facts;
use super::super::value::Value;
use super::doubt::{Doubt, number_up, rounded_up, seconds, shown};

/// Of the capacity, for calls of normal priority.
const NORMAL: f64 = 0.9;
/// A second: `auto` never plans fewer.
const LEAST: f64 = 10.0;

pub fn too_short(policy: &Policy, facts: &Facts) -> Vec<Doubt> {
    let Some(clients) = facts.clients else {
        return Vec::new();
    };
    let rate = match (policy.calendar.retry_rate, facts.calls_per_second) {
        (RetryRate::PerSecond(rate), _) => rate,
        (RetryRate::Auto, Some(calls)) => calls.max(LEAST),
        (RetryRate::Auto, None) | (RetryRate::Off, _) => return Vec::new(),
    };
    let herd = herd(policy, facts, clients);
    let first = backoff::delay(&policy.retry, 1, policy.retry.initial_delay, 1.0);
    let horizon = policy.calendar.horizon;
    let reach = horizon.saturating_add(first).as_secs_f64();
    // One place more for the slot that is begun.
    let places = NORMAL * rate * reach + 1.0;
    if herd <= places {
        return Vec::new();
    }
    let needed = herd / (NORMAL * rate);
    let message = format!(
        "{} retries of {clients} clients at {} a second take {}, horizon is {}: {} of them find no place",
        shown(herd),
        shown(rate),
        written(rounded_up(seconds(needed))),
        written(horizon),
        shown((herd - places).ceil())
    );
    let fields = &["calendar.horizon", "calendar.retry_rate", "calendar.slot"];
    let faster = herd / (NORMAL * horizon.as_secs_f64().max(1e-3));
    let mut doubt = Doubt::warning("horizon-below-herd", fields, message)
        .with("herd", herd)
        .with("retry_rate_per_second", rate)
        .with("needed_seconds", needed)
        .span("horizon_seconds", horizon)
        .or([("calendar.horizon", Value::Span(rounded_up(seconds(needed))))]);
    if facts.capacity.is_none_or(|capacity| faster <= capacity) {
        doubt = doubt.or([("calendar.retry_rate", Value::Number(number_up(faster)))]);
    }
    vec![doubt]
}

/// Retries that are granted when every client's call fails at once.
pub fn herd(policy: &Policy, facts: &Facts, clients: u32) -> f64 {
    let budget = &policy.budget;
    let ttl = budget.ttl.as_secs_f64();
    let usual = facts.calls_per_second.unwrap_or(0.0) * ttl;
    let first_attempts = usual.max(f64::from(clients));
    let floor = budget.floor_micros_per_second as f64 / 1e6;
    let allowed = (budget.ratio.as_ratio() * first_attempts + floor * ttl).floor();
    match policy.retry.max_attempts {
        MaxAttempts::Limited(1) => 0.0,
        MaxAttempts::Limited(_) | MaxAttempts::Unlimited => allowed.min(f64::from(clients)),
    }
}
