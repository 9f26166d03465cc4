//! Breakers that never open, however long everything fails.
//!
//! Judged by running the service's rules ([`drive`]):
//!
//! ```text
//! opens     it opens on nine tenths of the first attempts alone (adaptive: on four fifths)
//! never     it does not on the calls, nor on a tenth fewer or more, with every retry that the
//!           policy grants
//! barely    in between: it takes retries, or luck
//! ```
//!
//! A window of time that could be filled by other draws than those that were tried counts as
//! "barely". So an even stream that comes a little earlier or later, or other draws, do not make
//! this a lie. Where supervisors retry for ever (`max_attempts: unlimited`) and no rate of
//! calls is known, the calls are one a caller and its retries.

use holdoff_decision::policy::{Detect, MaxAttempts, Mode, Window, WindowSize};
use holdoff_decision::{Nanos, Policy, Share};

use super::super::duration::written;
use super::super::traffic::Facts;
use super::super::value::Value;
use super::doubt::{Change, Doubt, number_down, rounded_up, seconds, shown, shown_span};
use super::drive::{self, Calls, Ended};

/// What each delay draws, in runs with retries.
const DRAWS: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 0.999];

const FIELDS: &[&str] = &[
    "breaker.min_calls",
    "breaker.window",
    "breaker.failure_ratio",
    "breaker.consecutive_failures",
    "breaker.detect",
    "breaker.min_reporters",
    "breaker.max_reporter_share",
    "breaker.mode",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Opens,
    Barely,
    Never,
}

pub fn never(policy: &Policy, facts: &Facts) -> Vec<Doubt> {
    let (code, doubt): (_, fn(_, _, _) -> _) = match verdict(policy, facts) {
        None | Some(Verdict::Opens) => return Vec::new(),
        Some(Verdict::Never) => ("breaker-never-opens", Doubt::warning),
        Some(Verdict::Barely) => ("breaker-barely-opens", Doubt::hint),
    };
    let found = Found::of(policy, facts);
    let message = match code {
        "breaker-never-opens" => format!("the breaker can never open: {}", found.why(policy)),
        _ => format!(
            "first attempts alone do not open the breaker, it depends on retries: {}",
            found.why(policy)
        ),
    };
    let mut doubt = found.numbers(doubt(code, FIELDS, message), policy);
    doubt.candidates = candidates(policy, facts);
    vec![doubt]
}

/// `None`: the breaker is off, or too little is known of the calls.
pub fn verdict(policy: &Policy, facts: &Facts) -> Option<Verdict> {
    if policy.breaker.mode == Mode::Off {
        return None;
    }
    let forever = policy.retry.max_attempts == MaxAttempts::Unlimited;
    let Some(rate) = facts.calls_per_second else {
        let calls = Calls {
            callers: u64::from(facts.clients.filter(|_| forever)?),
            ..calls(facts, None)
        };
        let ends = DRAWS.map(|unit| drive::with_retries(policy, &calls, unit));
        return Some(
            match ends.iter().filter(|end| **end == Ended::Opened).count() {
                opened if opened == DRAWS.len() => Verdict::Opens,
                0 if !ends.contains(&Ended::TooLong) => Verdict::Never,
                _ => Verdict::Barely,
            },
        );
    };
    // What decays between two calls is more at the mercy of when they come.
    let sure = match policy.breaker.detect {
        Detect::Adaptive => 0.8,
        Detect::Window(_) => 0.9,
    };
    let fewer = calls(facts, Some(rate * sure));
    if drive::without_retries(policy, &fewer).opened {
        return Some(Verdict::Opens);
    }
    // More calls are not always more evidence: fewer of them may leave the budget more to give.
    if may_fill(policy, facts, rate) {
        return Some(Verdict::Barely);
    }
    // Counted, there is nothing that a run could add.
    if row(policy) == 0 && cannot_fill(policy, rate * 1.1) {
        return Some(Verdict::Never);
    }
    let near = [0.9, 1.0, 1.1].map(|part| rate * part);
    let never = near.into_iter().all(|rate| {
        let calls = calls(facts, Some(rate));
        let mut ends = DRAWS
            .iter()
            .map(|unit| drive::with_retries(policy, &calls, *unit));
        ends.all(|end| match end {
            Ended::Opened => false,
            Ended::Never => true,
            Ended::TooLong => cannot_fill(policy, rate) && row(policy) == 0,
        })
    });
    Some(if never {
        Verdict::Never
    } else {
        Verdict::Barely
    })
}

/// Failures in a row that trip; 0: none do.
fn row(policy: &Policy) -> u32 {
    match &policy.breaker.detect {
        Detect::Window(window) => window.consecutive_failures,
        Detect::Adaptive => 0,
    }
}

fn calls(facts: &Facts, per_second: Option<f64>) -> Calls {
    Calls {
        interval: per_second.map(|rate| seconds(1.0 / rate)),
        // Nothing holds a single caller's evidence back.
        callers: u64::from(facts.clients.unwrap_or(1)),
        failing: facts.failure_ratio.unwrap_or(Share::ONE),
        takes: facts.attempt_time,
        deadline: facts.deadline,
    }
}

/// Whether a window of time never holds `min_calls`, whatever is drawn.
fn cannot_fill(policy: &Policy, per_second: f64) -> bool {
    let Detect::Window(window) = &policy.breaker.detect else {
        return false;
    };
    match window.size {
        WindowSize::Time(span) => {
            let first = (per_second * span.as_secs_f64()).floor() + 1.0;
            first + retries(policy, per_second, span) < f64::from(window.min_calls)
        }
        WindowSize::Calls(_) => false,
    }
}

/// Whether other draws than those of a run could fill a window all the same.
fn may_fill(policy: &Policy, facts: &Facts, per_second: f64) -> bool {
    match &policy.breaker.detect {
        Detect::Window(window) => {
            let of_time = matches!(window.size, WindowSize::Time(_));
            let failing = facts.failure_ratio.unwrap_or(Share::ONE);
            let fails = failing >= window.failure_ratio;
            of_time && fails && !cannot_fill(policy, per_second)
        }
        Detect::Adaptive => false,
    }
}

/// The most retries that can fall in `span`.
fn retries(policy: &Policy, per_second: f64, span: Nanos) -> f64 {
    let ttl = policy.budget.ttl;
    let allowed = policy.budget.ratio.as_ratio() * (per_second * ttl.as_secs_f64() + 1.0)
        + policy.budget.floor_micros_per_second as f64 / 1e6 * ttl.as_secs_f64();
    // So many windows of the budget cover it.
    let of_budget = allowed.floor() * span.0.div_ceil(ttl.0.max(1)) as f64;
    match policy.retry.max_attempts {
        MaxAttempts::Unlimited => of_budget,
        MaxAttempts::Limited(attempts) => {
            let of_calls = f64::from(attempts - 1) * (per_second * span.as_secs_f64() + 1.0);
            of_budget.min(of_calls)
        }
    }
}

/// What the messages are made of.
struct Found {
    per_second: Option<f64>,
    failing: Share,
    /// Of what the adaptive detector needs.
    suspicion: f32,
}

impl Found {
    fn of(policy: &Policy, facts: &Facts) -> Self {
        let calls = calls(facts, facts.calls_per_second);
        Self {
            per_second: facts.calls_per_second,
            failing: calls.failing,
            suspicion: match policy.breaker.detect {
                Detect::Adaptive => drive::without_retries(policy, &calls).suspicion,
                Detect::Window(_) => 0.0,
            },
        }
    }

    fn why(&self, policy: &Policy) -> String {
        let Some(rate) = self.per_second else {
            return "the retries of so few callers are too far apart".to_owned();
        };
        let apart = shown_span(seconds(1.0 / rate));
        let window = match &policy.breaker.detect {
            Detect::Adaptive => {
                let seen = shown(f64::from(self.suspicion) * 100.0);
                return format!(
                    "calls come {apart} apart, of which {} fail; evidence halves every 30s and reaches {seen} % of what a trip needs",
                    self.failing
                );
            }
            Detect::Window(window) => window,
        };
        let row = match window.consecutive_failures {
            0 => String::new(),
            row => format!(", nor are {row} failures a row"),
        };
        match window.size {
            _ if self.failing < window.failure_ratio => format!(
                "{} of the calls fail, failure_ratio is {}{row}",
                self.failing, window.failure_ratio
            ),
            WindowSize::Time(span) => format!(
                "{} calls fall in window {} and {} retries at most, min_calls is {}{row}",
                shown(rate * span.as_secs_f64()),
                written(span),
                shown(retries(policy, rate, span)),
                window.min_calls
            ),
            WindowSize::Calls(calls) => {
                format!(
                    "min_calls {} of {calls} calls are never enough{row}",
                    window.min_calls
                )
            }
        }
    }

    fn numbers(&self, mut doubt: Doubt, policy: &Policy) -> Doubt {
        if let Some(rate) = self.per_second {
            doubt = doubt.with("calls_per_second", rate);
        }
        doubt = doubt.with("failure_ratio", self.failing.as_ratio());
        match &policy.breaker.detect {
            Detect::Adaptive => doubt.with("evidence_share", f64::from(self.suspicion)),
            Detect::Window(window) => {
                doubt = doubt.with("min_calls", f64::from(window.min_calls)).with(
                    "consecutive_failures",
                    f64::from(window.consecutive_failures),
                );
                match (window.size, self.per_second) {
                    (WindowSize::Time(span), Some(rate)) => doubt
                        .span("window_seconds", span)
                        .with("calls_per_window", rate * span.as_secs_f64())
                        .with("retries_per_window", retries(policy, rate, span)),
                    (WindowSize::Time(span), None) => doubt.span("window_seconds", span),
                    (WindowSize::Calls(calls), _) => doubt.with("window_calls", f64::from(calls)),
                }
            }
        }
    }
}

/// Fewer calls, a longer window, a lower ratio, a row of failures: alone and together.
fn candidates(policy: &Policy, facts: &Facts) -> Vec<Vec<Change>> {
    let rate = facts.calls_per_second;
    let adaptive = policy.breaker.detect == Detect::Adaptive;
    let window = match &policy.breaker.detect {
        Detect::Window(window) => window.clone(),
        Detect::Adaptive => Window::default(),
    };
    let mut basic: Vec<Vec<Change>> = Vec::new();
    let count = |calls: u32| ("breaker.min_calls", Value::Count(calls.max(1)));
    if let (WindowSize::Time(span), Some(rate)) = (window.size, rate) {
        let fits = (rate * 0.85 * span.as_secs_f64()) as u32;
        let wider = |calls: f64| {
            let wide = rounded_up(seconds(calls / (0.8 * rate)));
            ("breaker.window", Value::Span(wide.max(span)))
        };
        let most = window.min_calls.saturating_sub(1);
        match fits {
            5.. => basic.extend([vec![count(fits.min(most))], vec![count(fits / 2)]]),
            _ => basic.extend([vec![wider(5.0), count(5)], vec![wider(2.0), count(2)]]),
        }
        basic.push(vec![wider(f64::from(window.min_calls))]);
    }
    basic.push(vec![count(window.min_calls / 2)]);
    basic.push(vec![count(1)]);
    let row = |failures: u32| vec![("breaker.consecutive_failures", Value::Count(failures))];
    basic.extend([row(5), row(2), row(1)]);
    let failing = facts.failure_ratio.unwrap_or(Share::ONE);
    let lower = (
        "breaker.failure_ratio",
        Value::Number(number_down(failing.as_ratio() * 0.9)),
    );
    if failing < Share::ONE {
        let with_lower = basic
            .iter()
            .map(|changes| [&changes[..], &[lower]].concat());
        let with_lower: Vec<_> = with_lower.collect();
        basic.insert(0, vec![lower]);
        basic.extend(with_lower);
    }
    let alone = ("breaker.min_reporters", Value::Count(1));
    let whole = ("breaker.max_reporter_share", Value::Number(1.0));
    let fewer = basic
        .iter()
        .map(|changes| [&changes[..], &[alone, whole]].concat());
    let fewer: Vec<_> = fewer.collect();
    basic.extend(fewer);
    let detect = ("breaker.detect", Value::Word("window"));
    match adaptive {
        true => basic
            .iter()
            .map(|changes| [&[detect], &changes[..]].concat())
            .collect(),
        false => basic,
    }
}

/// More reporters are asked for than there are clients. Never more than are active are
/// needed, so the breaker opens all the same; but every one of them has to fail.
pub fn reporters(policy: &Policy, facts: &Facts) -> Vec<Doubt> {
    let asked = policy.breaker.min_reporters;
    let Some(clients) = facts
        .clients
        .filter(|clients| *clients > 1 && asked > *clients)
    else {
        return Vec::new();
    };
    if policy.breaker.mode == Mode::Off {
        return Vec::new();
    }
    let message = format!(
        "min_reporters {asked} is above the {clients} clients: it opens only when each of them fails"
    );
    let doubt = Doubt::hint(
        "reporters-above-clients",
        &["breaker.min_reporters"],
        message,
    )
    .with("min_reporters", f64::from(asked))
    .with("clients", f64::from(clients))
    .or([(
        "breaker.min_reporters",
        Value::Count(clients.div_ceil(2).max(2).min(clients)),
    )]);
    vec![doubt]
}
