//! A budget that never comes to a whole retry.
//!
//! Tokens are whole: over each `ttl` there are `floor(ratio * first attempts + floor * ttl)`.
//! With few calls and a short `ttl` that is zero, always. Judged by the budget itself, fed
//! with the most of the stated calls that can fall in one `ttl`.

use holdoff_decision::budget::Budget;
use holdoff_decision::policy::{self, MaxAttempts};
use holdoff_decision::{Nanos, Policy, Time};

use super::super::duration::written;
use super::super::traffic::Facts;
use super::super::value::Value;
use super::doubt::{Change, Doubt, rounded_up, seconds, shown};

const FIELDS: &[&str] = &["budget.ttl", "budget.floor_per_second", "budget.ratio"];

pub fn never_grants(policy: &Policy, facts: &Facts) -> Vec<Doubt> {
    let none = policy.retry.max_attempts == MaxAttempts::Limited(1);
    if none || grants(&policy.budget, facts.calls_per_second) {
        return Vec::new();
    }
    let (message, doubt) = (why(&policy.budget, facts.calls_per_second), Doubt::warning);
    let doubt = doubt("budget-never-grants", FIELDS, message);
    vec![with_more(doubt, &policy.budget, facts.calls_per_second)]
}

/// Whether a retry is ever granted.
pub fn grants(budget: &policy::Budget, calls_per_second: Option<f64>) -> bool {
    let now = Time(Nanos::from_secs(1_000).0);
    let mut filled = Budget::default();
    let most = match calls_per_second {
        // One call at least must be there to be retried.
        None if budget.ratio.0 > 0 => return true,
        None => 1,
        Some(rate) => (rate * budget.ttl.as_secs_f64()).min(4e9) as u32 + 1,
    };
    filled.deposit(budget, most, now);
    filled.level(budget, Time::ORIGIN, now).allowed > 0
}

fn why(budget: &policy::Budget, calls_per_second: Option<f64>) -> String {
    let tokens = tokens(budget, calls_per_second);
    format!(
        "no retry is ever granted: {} of a token in ttl {} (ratio {} of {} first attempts, floor {} a second), and tokens are whole",
        shown(tokens),
        written(budget.ttl),
        budget.ratio,
        calls_per_second.map_or("any".to_owned(), |rate| shown(
            rate * budget.ttl.as_secs_f64()
        )),
        shown(budget.floor_micros_per_second as f64 / 1e6),
    )
}

/// In one `ttl`, on average.
pub fn tokens(budget: &policy::Budget, calls_per_second: Option<f64>) -> f64 {
    per_second(budget, calls_per_second) * budget.ttl.as_secs_f64()
}

fn per_second(budget: &policy::Budget, calls_per_second: Option<f64>) -> f64 {
    let floor = budget.floor_micros_per_second as f64 / 1e6;
    budget.ratio.as_ratio() * calls_per_second.unwrap_or(0.0) + floor
}

/// A longer `ttl`, else a floor of one retry in it.
pub fn with_more(doubt: Doubt, budget: &policy::Budget, rate: Option<f64>) -> Doubt {
    let each = per_second(budget, rate);
    let longer = |factor: f64| -> [Change; 1] {
        let ttl = rounded_up(seconds(factor / each.max(1e-9)));
        [("budget.ttl", Value::Span(ttl))]
    };
    let floor = (1e6 / budget.ttl.as_secs_f64()).ceil() / 1e6;
    doubt
        .with("tokens_per_ttl", tokens(budget, rate))
        .span("ttl_seconds", budget.ttl)
        .with("ratio", budget.ratio.as_ratio())
        .with(
            "floor_per_second",
            budget.floor_micros_per_second as f64 / 1e6,
        )
        .or(longer(1.0))
        .or(longer(1.25))
        .or(longer(2.0))
        .or([("budget.floor_per_second", Value::Number(floor))])
}
