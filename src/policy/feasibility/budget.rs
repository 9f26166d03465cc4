//! A budget that never comes to a whole retry.
//!
//! Tokens are whole: over each `ttl` there are `floor(ratio * first attempts + floor * ttl)`.
//! With few calls and a short `ttl` that is zero, always. Judged by the budget itself, fed
//! with the stated calls.

use holdoff_decision::budget::Budget;
use holdoff_decision::policy::{self, MaxAttempts};
use holdoff_decision::{Nanos, Policy, Time};

use super::super::duration::written;
use super::super::traffic::Facts;
use super::super::value::Value;
use super::doubt::{Change, Doubt, rounded_up, seconds, shown};

const FIELDS: &[&str] = &["budget.ttl", "budget.floor_per_second", "budget.ratio"];
/// Windows that are looked at, and deposits in all of them.
const WINDOWS: u64 = 3;
const DEPOSITS: u64 = 4_000;

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
    let floor = u128::from(budget.floor_micros_per_second) * u128::from(budget.ttl.0);
    if floor >= 1_000_000 * 1_000_000_000 {
        return true;
    }
    let rate = match calls_per_second {
        _ if budget.ratio.0 == 0 => return false,
        None => return true,
        Some(rate) => rate,
    };
    let ttl = budget.ttl.as_secs_f64();
    let calls = (rate * ttl * WINDOWS as f64).ceil().min(1e15) as u64 + 2;
    let each = calls.div_ceil(DEPOSITS);
    let apart = seconds(each as f64 / rate);
    // The window moves in tenths; the calls may fall anywhere in them.
    [0, 33, 66].into_iter().any(|part| {
        let (mut filled, start) = (Budget::default(), budget.ttl.0 / 1_000 * part);
        let mut now = Time(1_000_000_000_000) + Nanos(start);
        (0..calls.div_ceil(each)).any(|_| {
            now = now + apart;
            filled.deposit(budget, u32::try_from(each).unwrap_or(u32::MAX), now);
            filled.level(budget, Time::ORIGIN, now).allowed > 0
        })
    })
}

fn why(budget: &policy::Budget, calls_per_second: Option<f64>) -> String {
    let tokens = tokens(budget, calls_per_second);
    format!(
        "no retry is ever granted: {} of a token in ttl {} (ratio {} of {} first attempts, floor {} a second), and tokens are whole",
        shown(tokens),
        written(budget.ttl),
        budget.ratio,
        calls_per_second.map_or("any".to_owned(), |rate| shown(rate * budget.ttl.as_secs_f64())),
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
        .with("floor_per_second", budget.floor_micros_per_second as f64 / 1e6)
        .or(longer(1.0))
        .or(longer(1.25))
        .or(longer(2.0))
        .or([("budget.floor_per_second", Value::Number(floor))])
}
