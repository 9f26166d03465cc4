//! What two fields of a resolved policy must not say together. A single field's range is
//! `fields`'s; here every combination of defaults and entry is looked at.
//!
//! Whatever passes is safe to hand to the rules: no division by zero, no empty window, no
//! table beyond its bound.

use holdoff_decision::Nanos;
use holdoff_decision::policy::{Calendar, Detect, RetryRate, WindowSize};

use super::duration::written;
use super::fields;
use super::layers::{Origin, Resolved};
use super::schedule;

/// Fields that contradict each other.
pub struct Fault {
    /// In `FIELDS`. The one from the topmost layer is to blame, the first of several.
    pub fields: Vec<usize>,
    pub message: String,
}

/// Retries that a slot may be promised.
const MAX_PER_SLOT: f64 = 65_535.0;
const MAX_SLOTS: u64 = 1_000_000;

/// What is wrong with `resolved`, if anything.
pub fn faults(resolved: &Resolved) -> Vec<Fault> {
    let mut faults = Vec::new();
    retry(resolved, &mut faults);
    breaker(resolved, &mut faults);
    calendar(&resolved.policy.calendar, &mut faults);
    rate(resolved, &mut faults);
    check(resolved, &mut faults);
    faults
}

fn fault(section: &str, names: &[&str], message: String) -> Fault {
    let fields = names
        .iter()
        .filter_map(|name| fields::position(section, name))
        .collect();
    Fault { fields, message }
}

/// Refuses `small` above `large`.
fn ordered(section: &str, small: (&str, Nanos), large: (&str, Nanos), faults: &mut Vec<Fault>) {
    if small.1 > large.1 {
        let (small_is, large_is) = (written(small.1), written(large.1));
        let message = format!("{} {small_is} is above {} {large_is}", small.0, large.0);
        faults.push(fault(section, &[small.0, large.0], message));
    }
}

fn retry(resolved: &Resolved, faults: &mut Vec<Fault>) {
    let retry = &resolved.policy.retry;
    let cap = ("max_delay", retry.max_delay);
    ordered("retry", ("initial_delay", retry.initial_delay), cap, faults);
    ordered("retry", ("min_delay", retry.min_delay), cap, faults);
}

fn breaker(resolved: &Resolved, faults: &mut Vec<Fault>) {
    let breaker = &resolved.policy.breaker;
    ordered(
        "breaker",
        ("open_for", breaker.open_for),
        ("open_max", breaker.open_max),
        faults,
    );
    match &breaker.detect {
        Detect::Window(window) => {
            if let WindowSize::Calls(calls) = window.size
                && window.min_calls > calls
            {
                let message = format!(
                    "min_calls {} is above window {calls}: no ratio would ever be looked at",
                    window.min_calls
                );
                faults.push(fault("breaker", &["min_calls", "window"], message));
            }
        }
        Detect::Adaptive => {
            if !breaker.slow_after.is_zero() && !breaker.slow_counts_as_failure {
                let slow_after = written(breaker.slow_after);
                let message = format!(
                    "slow_after {slow_after} does nothing under detect: adaptive unless slow_counts_as_failure is true"
                );
                faults.push(fault(
                    "breaker",
                    &["slow_after", "detect", "slow_counts_as_failure"],
                    message,
                ));
            }
        }
    }
}

fn calendar(calendar: &Calendar, faults: &mut Vec<Fault>) {
    ordered(
        "calendar",
        ("slot", calendar.slot),
        ("horizon", calendar.horizon),
        faults,
    );
    if calendar.horizon.0 / calendar.slot.0.max(1) > MAX_SLOTS {
        let (horizon, slot) = (written(calendar.horizon), written(calendar.slot));
        let message = format!("horizon {horizon} holds more than {MAX_SLOTS} times slot {slot}");
        faults.push(fault("calendar", &["horizon", "slot"], message));
    }
    if let RetryRate::PerSecond(rate) = calendar.retry_rate {
        let per_slot = rate * calendar.slot.as_secs_f64();
        if per_slot > MAX_PER_SLOT {
            let slot = written(calendar.slot);
            let message = format!(
                "retry_rate {rate} times slot {slot} is {per_slot}; at most {MAX_PER_SLOT} fit a slot"
            );
            faults.push(fault("calendar", &["retry_rate", "slot"], message));
        }
    }
}

fn rate(resolved: &Resolved, faults: &mut Vec<Fault>) {
    let missing =
        resolved.policy.rate.is_some() && resolved.origin("rate", "per_second") == Origin::BuiltIn;
    if missing {
        let message = "rate has no per_second; 0.001 to 1000000".to_owned();
        faults.push(fault("rate", &[""], message));
    }
}

fn check(resolved: &Resolved, faults: &mut Vec<Fault>) {
    let Some(check) = &resolved.policy.check else {
        return;
    };
    if check.offset >= check.period {
        let (offset, period) = (written(check.offset), written(check.period));
        let message = format!("offset {offset} is not below period {period}");
        faults.push(fault("check", &["offset", "period"], message));
        return;
    }
    // How many things are checked is not known here; each has at least itself.
    if let Err(message) = schedule::feasible(check, 1) {
        let names = [
            "detection_budget",
            "period",
            "unhealthy_after",
            "timeout",
            "offset",
            "max_concurrent",
        ];
        faults.push(fault("check", &names, message));
    }
}
