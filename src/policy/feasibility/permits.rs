//! Permits and probe leases that end before the attempt they are for.
//!
//! A report after a permit's life counts for nothing, and the silence before it counts as a
//! timeout. A probe that outlives its lease is no verdict, however it ends.

use holdoff_decision::policy::Mode;
use holdoff_decision::{Nanos, Policy};

use super::super::duration::written;
use super::super::traffic::Facts;
use super::super::value::Value;
use super::doubt::{Doubt, rounded_up};

pub fn outlived(policy: &Policy, facts: &Facts) -> Vec<Doubt> {
    let breaker = &policy.breaker;
    let timeout = facts.attempt_timeout;
    let longest = [timeout, facts.deadline];
    let longest = longest.into_iter().flatten().min();
    let mut doubts = Vec::new();
    if let Some(longest) = longest
        && breaker.permit_ttl < longest
    {
        let message = format!(
            "permits live {}, but an attempt may take {}: what it reports then counts for nothing, and its silence as a timeout",
            written(breaker.permit_ttl),
            written(longest)
        );
        let doubt = Doubt::warning("permit-outlived", &["breaker.permit_ttl"], message)
            .span("permit_ttl_seconds", breaker.permit_ttl)
            .span("attempt_seconds", longest);
        doubts.push(doubt.or([("breaker.permit_ttl", Value::Span(rounded_up(longest)))]));
    }
    let lease = breaker.probe_lease;
    let slow = breaker.slow_after;
    let (needed, why) = match timeout {
        Some(timeout) => (timeout, "an attempt may take"),
        None => match facts.attempt_time {
            Some(takes) if takes >= slow => (Nanos(takes.0.saturating_add(1)), "an attempt takes"),
            Some(_) | None => (slow, "a call is only slow after"),
        },
    };
    if lease < needed && breaker.mode != Mode::Off {
        let message = format!(
            "a probe's lease is {}, but {why} {}: such a probe is never a verdict",
            written(lease),
            written(needed)
        );
        let fields = &["breaker.probe_lease", "breaker.slow_after"];
        let up = Value::Span(rounded_up(needed));
        let doubt = Doubt::warning("lease-outlived", fields, message)
            .span("probe_lease_seconds", lease)
            .span("needed_seconds", needed);
        doubts.push(doubt.or([("breaker.probe_lease", up)]));
    }
    doubts
}
