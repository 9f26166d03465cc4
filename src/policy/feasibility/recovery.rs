//! Recoveries that take longer than they may.
//!
//! ```text
//! waiting    open_for, after the first trip; open_max at worst after many
//! probing    ceil(probe_successes / probes) attempts, one after the other, and no faster
//!            than callers ask
//! climbing   the steps of the ramp from start to all of the calls
//! ```
//!
//! The worst fault ends just after a trip. The climb is that of the ramp itself, with
//! everything going well.

use holdoff_decision::breaker::open_period;
use holdoff_decision::policy::Mode;
use holdoff_decision::ramp::{Progress, Ramp, Usual};
use holdoff_decision::{Nanos, Policy, Time};

use super::super::traffic::Facts;
use super::super::value::Value;
use super::doubt::{Doubt, rounded_down, seconds, shown_span};

/// The ramp falls to a sixty-fourth at the lowest, and doubles.
const STEPS_MAX: u32 = 64;

const FIELDS: &[&str] = &[
    "breaker.open_for",
    "breaker.probe_successes",
    "breaker.probes",
    "ramp.step",
    "ramp.start",
    "ramp.max_duration",
];

pub fn too_slow(policy: &Policy, facts: &Facts) -> Vec<Doubt> {
    let Some(goal) = facts.recovery_goal else {
        return Vec::new();
    };
    if policy.breaker.mode != Mode::Enforce {
        return Vec::new();
    }
    let (probing, climbing) = (probing(policy, facts), climbing(policy, facts));
    let rest = probing.saturating_add(climbing);
    let numbers = |doubt: Doubt| {
        doubt
            .span("probing_seconds", probing)
            .span("climbing_seconds", climbing)
            .span("recovery_goal_seconds", goal)
    };
    // What is left for being open; where that is nothing, half of it is taken from the rest.
    let left = rounded_down(goal.saturating_sub(rest));
    let short = rounded_down(goal.scaled(0.5)).max(Nanos::from_millis(1));
    let mut doubts = Vec::new();
    let first = open_period(&policy.breaker, 0);
    if first.saturating_add(rest) > goal {
        let message = format!(
            "all calls pass again after {}, the goal is {}: open for {}, probing {}, climbing {}",
            shown_span(first.saturating_add(rest)),
            shown_span(goal),
            shown_span(first),
            shown_span(probing),
            shown_span(climbing)
        );
        let doubt = Doubt::warning("recovery-above-goal", FIELDS, message);
        let doubt = numbers(doubt.span("open_seconds", first));
        let both = [("breaker.open_for", left), ("breaker.open_max", left)];
        let doubt = with_candidates(doubt, &both[..1], short);
        doubts.push(with_candidates(doubt, &both, short));
    }
    let longest = open_period(&policy.breaker, u32::MAX);
    if longest > first && longest.saturating_add(rest) > goal {
        let message = format!(
            "after repeated trips the breaker is open for {}: all calls pass again after {}, the goal is {}",
            shown_span(longest),
            shown_span(longest.saturating_add(rest)),
            shown_span(goal)
        );
        let fields = &[
            "breaker.open_max",
            "breaker.open_multiplier",
            "breaker.open_for",
        ];
        let doubt = Doubt::warning("escalation-above-goal", fields, message);
        let doubt = numbers(doubt.span("open_seconds", longest));
        let both = [
            ("breaker.open_max", left),
            ("breaker.open_for", left.min(first)),
        ];
        let doubt = with_candidates(doubt, &both[..1], short);
        doubts.push(with_candidates(doubt, &both, short));
    }
    doubts
}

/// Adds shorter open periods, at last together with the quickest way through the rest.
fn with_candidates(doubt: Doubt, periods: &[(&'static str, Nanos)], short: Nanos) -> Doubt {
    let spans = |of: &dyn Fn(Nanos) -> Nanos| -> Vec<_> {
        let each = periods.iter();
        each.map(|(path, span)| (*path, Value::Span(of(*span))))
            .collect()
    };
    let quick = [
        ("breaker.probe_successes", Value::Count(1)),
        ("ramp.start", Value::Number(1.0)),
    ];
    let cut = spans(&|_| short);
    doubt
        .or(spans(&|span| span))
        .or([&cut[..], &quick[1..]].concat())
        .or([&cut[..], &quick[..]].concat())
        .or([&spans(&|_| Nanos::from_millis(1))[..], &quick[..]].concat())
}

/// As many probes one after the other as are needed.
fn probing(policy: &Policy, facts: &Facts) -> Nanos {
    let breaker = &policy.breaker;
    let needed = u64::from(breaker.probe_successes.max(1));
    let rounds = needed.div_ceil(u64::from(breaker.probes.max(1)));
    let takes = facts.attempt_time.unwrap_or_default();
    let asked = facts.calls_per_second.map_or(Nanos::ZERO, |rate| {
        // The first is asked for when the open period is over.
        seconds((needed - 1) as f64 / rate)
    });
    Nanos(takes.0.saturating_mul(rounds)).max(asked)
}

/// From the close to the end of the ramp's climb.
fn climbing(policy: &Policy, facts: &Facts) -> Nanos {
    let usual = Usual {
        per_second: facts.calls_per_second.unwrap_or(1_000.0),
        latency: None,
        failing: 0.0,
    };
    let began = Time(Nanos::from_secs(1).0);
    let Some(mut ramp) = Ramp::begin(&policy.ramp, Some(usual), began) else {
        return Nanos::ZERO;
    };
    let mut now = began;
    for _ in 0..STEPS_MAX {
        let curve = ramp.curve(now);
        let whole = curve.per_second >= curve.target;
        if whole || ramp.advance(&policy.ramp, now) == Progress::Done {
            break;
        }
        now = now + policy.ramp.step;
        ramp.advance(&policy.ramp, now);
    }
    now.since(began).min(policy.ramp.max_duration)
}
