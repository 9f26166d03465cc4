//! Retries that multiply through services that call each other.
//!
//! ```text
//! one call      max_attempts ^ layers calls at the bottom, in the worst case
//! for long      min(max_attempts, 1 + ratio) ^ layers times the calls: the budgets hold
//! ```
//!
//! Where every layer reports that the one below has retried, only the lowest retries, and
//! nothing multiplies; that this is so cannot be seen here. The second line is judged:
//! against capacity / calls where both are known, else against twice the load.

use holdoff_decision::Policy;
use holdoff_decision::policy::MaxAttempts;

use super::super::traffic::Facts;
use super::super::value::Value;
use super::doubt::{Doubt, number_down, shown};

/// What a load may grow to where nothing is known of the capacity.
const TWICE: f64 = 2.0;

pub fn multiplies(policy: &Policy, facts: &Facts) -> Vec<Doubt> {
    let Some(layers) = facts.layers.filter(|layers| *layers > 1) else {
        return Vec::new();
    };
    let (layers, attempts) = (
        f64::from(layers),
        match policy.retry.max_attempts {
            MaxAttempts::Limited(attempts) => f64::from(attempts),
            MaxAttempts::Unlimited => f64::MAX,
        },
    );
    let known = facts.calls_per_second.zip(facts.capacity);
    let limit = known.map_or(TWICE, |(calls, capacity)| capacity / calls);
    // Beyond that, there is no room for anything to multiply in; another rule says so.
    let limit = limit.max(1.0);
    let load = attempts
        .min(1.0 + policy.budget.ratio.as_ratio())
        .powf(layers);
    if load <= limit {
        return Vec::new();
    }
    let worst = attempts.powf(layers).min(1e18);
    let message = format!(
        "{layers} layers that retry make {} times the calls for as long as an outage lasts, {} fit; one call becomes up to {}",
        shown(load),
        shown(limit),
        shown(worst)
    );
    let fields = &["budget.ratio", "retry.max_attempts"];
    let ratio = number_down(limit.powf(1.0 / layers) - 1.0);
    let doubt = Doubt::warning("retries-multiply", fields, message)
        .with("layers", layers)
        .with("load_factor", load)
        .with("highest_load_factor", limit)
        .with("calls_per_call", worst)
        .or([("budget.ratio", Value::Number(ratio))])
        .or([("budget.ratio", Value::Number(0.0))])
        .or([("retry.max_attempts", Value::Count(1))]);
    vec![doubt]
}
