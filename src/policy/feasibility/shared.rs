//! What is left to a client without the service.
//!
//! Alone, each of n clients has an n-th of the floor and the ratio of its own first attempts,
//! so that all of them together stay within what the fleet had. Where that never comes to a
//! whole token, no call is retried until the service is back.

use holdoff_decision::Policy;
use holdoff_decision::policy::{self, MaxAttempts};

use super::super::traffic::Facts;
use super::budget::{grants, tokens, with_more};
use super::doubt::{Doubt, shown};

pub fn alone(policy: &Policy, facts: &Facts) -> Vec<Doubt> {
    let (Some(clients), Some(rate)) = (facts.clients, facts.calls_per_second) else {
        return Vec::new();
    };
    let own = policy::Budget {
        floor_micros_per_second: policy.budget.floor_micros_per_second / u64::from(clients),
        ..policy.budget.clone()
    };
    let part = Some(rate / f64::from(clients));
    let none = policy.retry.max_attempts == MaxAttempts::Limited(1);
    if none || !grants(&policy.budget, Some(rate)) || grants(&own, part) {
        return Vec::new();
    }
    let message = format!(
        "without the service no client retries: each of {clients} has {} of a token in ttl, and tokens are whole",
        shown(tokens(&own, part))
    );
    let fields = &["budget.ttl", "budget.floor_per_second", "budget.ratio"];
    let doubt = Doubt::hint("budget-never-grants-alone", fields, message);
    let mut doubt = with_more(doubt, &own, part).with("clients", f64::from(clients));
    // A floor for each client would be the fleet's floor, n times.
    doubt.candidates.pop();
    vec![doubt]
}
