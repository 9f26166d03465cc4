//! Health checks that find a fault too late, or cannot all run, with so many checkers.
//!
//! The formulas are those of a load (`schedule`), which has to take one checker for granted.
//! With `observers` only so many of them check in a period.

use holdoff_decision::policy::Check;
use holdoff_decision::{Nanos, Policy};

use super::super::schedule;
use super::super::traffic::Facts;
use super::super::value::Value;
use super::doubt::{Doubt, rounded_up};

const FIELDS: &[&str] = &[
    "check.period",
    "check.max_concurrent",
    "check.detection_budget",
    "check.timeout",
    "check.unhealthy_after",
    "check.offset",
    "check.observers",
];

pub fn misses(policy: &Policy, facts: &Facts) -> Vec<Doubt> {
    let (Some(check), Some(checkers)) = (&policy.check, facts.checkers) else {
        return Vec::new();
    };
    let targets = match check.observers {
        0 => checkers,
        observers => checkers.min(observers),
    };
    let Err(message) = schedule::feasible(check, targets) else {
        return Vec::new();
    };
    let code = match schedule::fits_concurrency(check, targets) {
        true => "check-misses-budget",
        false => "check-cannot-run",
    };
    let doubt = Doubt::warning(code, FIELDS, message)
        .with("checkers", f64::from(targets))
        .span("period_seconds", check.period)
        .span("found_after_seconds", schedule::worst_case(check, targets))
        .span("detection_budget_seconds", check.detection_budget);
    vec![with_candidates(doubt, check, targets)]
}

fn with_candidates(mut doubt: Doubt, check: &Check, targets: u32) -> Doubt {
    let period = |period: Nanos| ("check.period", Value::Span(period));
    if let Some(largest) = schedule::largest_period(check, targets) {
        doubt = doubt
            .span("largest_period_seconds", largest)
            .or([period(largest)]);
    }
    let busy = check.timeout.0.saturating_mul(u64::from(targets));
    let enough = busy.div_ceil(check.period.0.max(1));
    for concurrent in [enough, u64::from(targets)] {
        let concurrent = u32::try_from(concurrent).unwrap_or(u32::MAX);
        let concurrent = concurrent.max(check.max_concurrent);
        let wider = Check {
            max_concurrent: concurrent,
            ..check.clone()
        };
        let room = ("check.max_concurrent", Value::Count(concurrent));
        doubt = doubt.or([room]);
        if let Some(largest) = schedule::largest_period(&wider, targets) {
            doubt = doubt.or([room, period(largest)]);
        }
        let longer = rounded_up(schedule::worst_case(&wider, targets));
        doubt = doubt.or([room, ("check.detection_budget", Value::Span(longer))]);
    }
    let observers = ("check.observers", Value::Count(1));
    doubt.or([observers])
}
