//! Delays that do not spread callers, and delays that no client waits for.
//!
//! Callers that failed together must not come back together, however long the outage lasts.
//! So what is looked at is the width of the draw where the delay has reached its cap; and before
//! the first retry, where a `min_delay` may leave nothing of it.

use holdoff_decision::policy::{Jitter, MaxAttempts, Retry};
use holdoff_decision::{Nanos, Policy, backoff};

use super::super::duration::written;
use super::super::traffic::Facts;
use super::super::value::Value;
use super::super::written::Written;
use super::doubt::Doubt;

/// A client does not wait longer for an attempt.
const LONGEST_WAIT: Nanos = Nanos::from_secs(600);
/// Retries that are looked at: far beyond where every growing delay is at its cap, but for
/// one that an operator made to grow for hours.
const FAR: u32 = 1_000;

const FIELDS: &[&str] = &[
    "retry.jitter",
    "retry.initial_delay",
    "retry.max_delay",
    "retry.min_delay",
];

pub fn lost(policy: &Policy, _: &Facts) -> Vec<Doubt> {
    let retry = &policy.retry;
    if retry.max_attempts == MaxAttempts::Limited(1) {
        return Vec::new();
    }
    // The last retry that there is; its delay is the closest to the cap.
    let last = match retry.max_attempts {
        MaxAttempts::Limited(attempts) => attempts - 1,
        MaxAttempts::Unlimited => FAR,
    };
    let (first_low, first_high) = range(retry, 1);
    let (low, high) = range(retry, last);
    let message = match retry.jitter {
        _ if first_low == first_high && high == first_high => {
            let always = written(high);
            match (retry.jitter, retry.initial_delay == retry.max_delay) {
                (Jitter::Decorrelated, true) => {
                    format!("the jitter is lost at the cap: every delay is {always}")
                }
                (Jitter::None | Jitter::Proportional(0.0), _) => drawn_from_nothing(retry),
                _ => format!(
                    "every delay is {always}: callers that fail together come back together"
                ),
            }
        }
        Jitter::None | Jitter::Proportional(0.0) => drawn_from_nothing(retry),
        _ if low == high => format!(
            "the jitter is lost from the cap on: every delay before attempt {} is {}",
            u64::from(last) + 1,
            written(high)
        ),
        _ if first_low == first_high => format!(
            "`min_delay` leaves nothing to draw at first: every delay before attempt 2 is {}",
            written(first_high)
        ),
        Jitter::Full | Jitter::Equal | Jitter::Proportional(_) | Jitter::Decorrelated => {
            return Vec::new();
        }
    };
    // Where it is lost: from the cap on, or at first alone.
    let (low, high) = match low == high {
        true => (low, high),
        false => (first_low, first_high),
    };
    let some = retry.max_delay.min(Nanos::from_millis(100));
    let full = Value::Word("full");
    let doubt = Doubt::warning("jitter-lost", FIELDS, message)
        .span("low_seconds", low)
        .span("high_seconds", high)
        .or([("retry.jitter", full)])
        .or([("retry.min_delay", Value::Span(Nanos::ZERO))])
        .or([("retry.initial_delay", Value::Span(some))])
        .or([
            ("retry.jitter", full),
            ("retry.min_delay", Value::Span(Nanos::ZERO)),
        ])
        .or([
            ("retry.jitter", full),
            ("retry.min_delay", Value::Span(Nanos::ZERO)),
            ("retry.initial_delay", Value::Span(Nanos::from_millis(100))),
            (
                "retry.max_delay",
                Value::Span(retry.max_delay.max(Nanos::from_secs(10))),
            ),
        ]);
    vec![doubt]
}

fn drawn_from_nothing(retry: &Retry) -> String {
    let jitter = retry.jitter.to_value();
    format!("jitter {jitter} draws nothing: callers that fail together come back together")
}

/// The shortest and the longest delay before a retry. Decorrelated jitter reaches as far as
/// its longest delays have carried it.
fn range(retry: &Retry, number: u32) -> (Nanos, Nanos) {
    let mut previous = Nanos::ZERO;
    if retry.jitter == Jitter::Decorrelated {
        for before in 1..number.min(FAR) {
            previous = backoff::delay(retry, before, previous, 1.0);
        }
    }
    let drawn = |unit| backoff::delay(retry, number, previous, unit);
    (drawn(0.0), drawn(1.0))
}

pub fn beyond_clients(policy: &Policy, _: &Facts) -> Vec<Doubt> {
    let retry = &policy.retry;
    if retry.max_delay <= LONGEST_WAIT || retry.max_attempts == MaxAttempts::Limited(1) {
        return Vec::new();
    }
    let message = format!(
        "delays up to {} are asked for, but clients wait {} at most",
        written(retry.max_delay),
        written(LONGEST_WAIT)
    );
    let cap = ("retry.max_delay", Value::Span(LONGEST_WAIT));
    let initial = Value::Span(retry.initial_delay.min(LONGEST_WAIT));
    let least = Value::Span(retry.min_delay.min(LONGEST_WAIT));
    let fields = &["retry.max_delay", "retry.min_delay", "retry.initial_delay"];
    let doubt = Doubt::warning("delay-beyond-clients", fields, message)
        .span("max_delay_seconds", retry.max_delay)
        .span("longest_wait_seconds", LONGEST_WAIT)
        .or([cap])
        .or([
            cap,
            ("retry.initial_delay", initial),
            ("retry.min_delay", least),
        ]);
    vec![doubt]
}
