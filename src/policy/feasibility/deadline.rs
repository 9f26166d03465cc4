//! Attempts that can never run: the least waits before them already reach the deadline.
//!
//! ```text
//! attempt n begins at the earliest after    sum of the lower ends of n - 1 delays
//! it is granted                             while that + min_attempt_time < deadline
//! ```
//!
//! Where it is known how long an attempt takes, those before it take that long each.

use holdoff_decision::policy::{MaxAttempts, Retry};
use holdoff_decision::{Nanos, Policy, backoff};

use super::super::duration::written;
use super::super::traffic::Facts;
use super::super::value::Value;
use super::doubt::{Doubt, rounded_down};

/// Attempts that are looked at.
const FAR: u32 = 1_000;

pub fn beyond(policy: &Policy, facts: &Facts) -> Vec<Doubt> {
    let (Some(deadline), MaxAttempts::Limited(attempts)) =
        (facts.deadline, policy.retry.max_attempts)
    else {
        return Vec::new();
    };
    let takes = facts.attempt_time.unwrap_or_default();
    let fitting = attempts_that_fit(&policy.retry, deadline, takes);
    if fitting >= attempts {
        return Vec::new();
    }
    let needed =
        begins(&policy.retry, attempts - 1, takes).saturating_add(policy.retry.min_attempt_time);
    let never = match fitting + 1 == attempts {
        true => format!("attempt {attempts} can never run"),
        false => format!("attempts {} to {attempts} can never run", fitting + 1),
    };
    let message = format!(
        "{never} within {}: the last needs {} at least",
        written(deadline),
        written(needed)
    );
    let fields = &[
        "retry.max_attempts",
        "retry.initial_delay",
        "retry.jitter",
        "retry.min_delay",
        "retry.min_attempt_time",
    ];
    let part = deadline.scaled(0.5 / f64::from(attempts));
    let delay = rounded_down(part);
    let doubt = Doubt::warning("attempts-beyond-deadline", fields, message)
        .with("max_attempts", f64::from(attempts))
        .with("attempts_that_fit", f64::from(fitting))
        .span("needed_seconds", needed)
        .span("deadline_seconds", deadline)
        .or([("retry.max_attempts", Value::Count(fitting))])
        .or([
            ("retry.min_delay", Value::Span(Nanos::ZERO)),
            ("retry.initial_delay", Value::Span(delay)),
        ]);
    vec![doubt]
}

/// How many attempts can begin before `deadline`, with the shortest delays there can be;
/// no more than 1,000 are looked at. The first always can.
pub fn attempts_that_fit(retry: &Retry, deadline: Nanos, takes: Nanos) -> u32 {
    let limit = match retry.max_attempts {
        MaxAttempts::Limited(attempts) => attempts.min(FAR),
        MaxAttempts::Unlimited => FAR,
    };
    let mut begin = Nanos::ZERO;
    for attempts in 1..limit {
        begin = next(retry, begin, attempts, takes);
        if begin.saturating_add(retry.min_attempt_time) >= deadline {
            return attempts;
        }
    }
    limit
}

/// When the attempt after so many retries begins at the earliest.
fn begins(retry: &Retry, retries: u32, takes: Nanos) -> Nanos {
    let numbers = 1..=retries.min(FAR);
    numbers.fold(Nanos::ZERO, |begin, number| {
        next(retry, begin, number, takes)
    })
}

fn next(retry: &Retry, begin: Nanos, number: u32, takes: Nanos) -> Nanos {
    let least = backoff::delay(retry, number, Nanos::ZERO, 0.0);
    begin.saturating_add(takes).saturating_add(least)
}
