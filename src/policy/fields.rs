//! Every field of a policy, once: its name, what is allowed, what it means, and where the
//! rules keep it.
//!
//! Reading, refusing, `policy show`, `policy diff`, the YAML that is printed and the JSON
//! Schema all walk this one table, so none of them can forget a field or tell another range.
//! The order is that of the documentation.

use holdoff_decision::Nanos;
use holdoff_decision::policy::*;

use super::value::{Form, Value};
use super::written::Written;

/// A field of a policy.
pub struct Field {
    pub section: &'static str,
    /// Empty for the section itself, where that can be `off`.
    pub name: &'static str,
    /// One of them has to take what is written.
    pub forms: &'static [Form],
    pub meaning: &'static str,
    /// `None`: this policy has no such field, since what it belongs to is off.
    pub get: fn(&Policy) -> Option<Value>,
    pub set: fn(&mut Policy, Value),
}

impl Field {
    /// `retry.max_delay`.
    pub fn path(&self) -> String {
        match self.name.is_empty() {
            true => self.section.to_owned(),
            false => format!("{}.{}", self.section, self.name),
        }
    }

    /// Whether the field is a threshold of `detect: window`.
    pub fn of_window(&self) -> bool {
        self.section == "breaker" && WINDOW_FIELDS.contains(&self.name)
    }
}

/// The sections, in order.
pub const SECTIONS: [&str; 8] = [
    "retry", "pushback", "breaker", "ramp", "budget", "calendar", "rate", "check",
];

/// The index in [`FIELDS`] of a field.
pub fn position(section: &str, name: &str) -> Option<usize> {
    FIELDS
        .iter()
        .position(|field| field.section == section && field.name == name)
}

const WINDOW_FIELDS: [&str; 5] = [
    "window",
    "min_calls",
    "failure_ratio",
    "consecutive_failures",
    "slow_ratio",
];

const MS: Nanos = Nanos::from_millis(1);
const HOUR: Nanos = Nanos::from_secs(3_600);
const DAY: Nanos = Nanos::from_secs(86_400);
const MONTH: Nanos = Nanos::from_secs(30 * 86_400);

/// From zero up to the given span.
const fn up_to(most: Nanos) -> Form {
    Form::Span(Nanos::ZERO, most)
}

/// A share that cannot be nothing.
const PART: Form = Form::Share(1, 1_000_000);

macro_rules! field {
    ($section:ident . $name:ident, [$($form:expr),+], $meaning:literal) => {
        field!(@ $section, $name, [$($form),+], $meaning,
            |p: &Policy| Some(p.$section.$name.to_value()),
            |p: &mut Policy, v: Value| if let Some(x) = Written::from_value(v) { p.$section.$name = x })
    };
    ($section:ident ? $off:path, $name:ident, [$($form:expr),+], $meaning:literal) => {
        field!(@ $section, $name, [$($form),+], $meaning,
            |p: &Policy| p.$section.as_ref().map(|s| s.$name.to_value()),
            |p: &mut Policy, v: Value| if let Some(x) = Written::from_value(v) {
                p.$section.get_or_insert_with($off).$name = x;
            })
    };
    (window $name:ident = $inner:ident, [$($form:expr),+], $meaning:literal) => {
        field!(@ breaker, $name, [$($form),+], $meaning,
            |p: &Policy| match &p.breaker.detect {
                Detect::Window(window) => Some(window.$inner.to_value()),
                Detect::Adaptive => None,
            },
            |p: &mut Policy, v: Value| if let Some(x) = Written::from_value(v) {
                window_of(p).$inner = x;
            })
    };
    (@ $section:ident, $name:ident, [$($form:expr),+], $meaning:literal, $get:expr, $set:expr) => {
        Field {
            section: stringify!($section),
            name: stringify!($name),
            forms: &[$($form),+],
            meaning: $meaning,
            get: $get,
            set: $set,
        }
    };
}

/// The switch of a section that may be off.
macro_rules! switch {
    ($section:ident, $unset:path, $meaning:literal) => {
        Field {
            section: stringify!($section),
            name: "",
            forms: &[Form::Words(&["off"])],
            meaning: $meaning,
            get: |p| p.$section.is_none().then_some(Value::Word("off")),
            set: |p, v| match v {
                Value::Word("off") => p.$section = None,
                _ => drop(p.$section.get_or_insert_with($unset)),
            },
        }
    };
}

/// All fields, in the order of the documentation.
pub static FIELDS: &[Field] = &[
    field!(
        retry.max_attempts,
        [Form::Count(1, 1_000), Form::Words(&["unlimited"])],
        "Attempts of a call, the first included. `unlimited` is for supervisors."
    ),
    field!(
        retry.strategy,
        [Form::Words(&["fixed", "linear", "exponential"])],
        "How the ceiling of the delay grows: `initial_delay`; times n; times `multiplier` to the power n - 1, for retry n."
    ),
    field!(
        retry.initial_delay,
        [up_to(DAY)],
        "The ceiling of the first delay; not above `max_delay`."
    ),
    field!(
        retry.multiplier,
        [Form::Number(1.0, 100.0)],
        "The growth per retry of `exponential`."
    ),
    field!(
        retry.max_delay,
        [up_to(DAY)],
        "No backoff delay is longer. There is always a cap."
    ),
    field!(
        retry.min_delay,
        [up_to(DAY)],
        "No backoff delay is shorter; not above `max_delay`."
    ),
    field!(
        retry.jitter,
        [
            Form::Words(&["none", "full", "equal", "decorrelated"]),
            Form::Proportional
        ],
        "How the delay is drawn below its ceiling. Never above `max_delay`."
    ),
    field!(
        retry.min_attempt_time,
        [up_to(DAY)],
        "The time that an attempt needs at least; one that would have less is not granted."
    ),
    field!(
        pushback.scope,
        [Form::Words(&["caller", "dependency"])],
        "Whom a wait that the dependency asks for binds: the caller that was told, or the whole fleet."
    ),
    field!(
        pushback.max,
        [Form::Span(MS, DAY)],
        "A longer pushback ends the call."
    ),
    field!(
        pushback.spread,
        [up_to(HOUR)],
        "Callers that were told the same time come back spread over so long after it."
    ),
    field!(
        breaker.mode,
        [Form::Words(&["enforce", "shadow", "off"])],
        "`enforce` refuses; `shadow` records what it would have done and lets everything through; `off` keeps no evidence."
    ),
    field!(
        breaker.applies_to,
        [Form::Words(&["all", "retries", "auto"])],
        "Which attempts an open breaker refuses. `auto`: retries, until nearly everything fails and calls time out; then all."
    ),
    Field {
        section: "breaker",
        name: "detect",
        forms: &[Form::Words(&["adaptive", "window"])],
        meaning: "What trips the breaker: a learned sum of evidence, or thresholds over a window. `window` where one of its fields is given.",
        get: |p| {
            Some(Value::Word(match p.breaker.detect {
                Detect::Adaptive => "adaptive",
                Detect::Window(_) => "window",
            }))
        },
        set: |p, v| match v {
            Value::Word("adaptive") => p.breaker.detect = Detect::Adaptive,
            _ => drop(window_of(p)),
        },
    },
    field!(window window = size, [Form::Span(Nanos::from_millis(100), DAY), Form::Calls(1, 10_000)],
        "The window: a duration, or a number of calls."),
    field!(window min_calls = min_calls, [Form::Count(1, 1_000_000)],
        "No ratio is looked at below so many counted calls; not above a window of calls, which an unset one follows down."),
    field!(window failure_ratio = failure_ratio, [PART],
        "The share of failures that trips."),
    field!(window consecutive_failures = consecutive_failures, [Form::Count(0, 10_000)],
        "So many failures in a row trip; 0 switches this off."),
    field!(
        breaker.slow_after,
        [up_to(DAY)],
        "A call that takes at least so long is slow; 0s: none is."
    ),
    field!(window slow_ratio = slow_ratio, [PART],
        "The share of slow calls that trips, where `slow_after` is above 0s."),
    field!(
        breaker.open_for,
        [Form::Span(MS, DAY)],
        "The first open period."
    ),
    field!(
        breaker.open_multiplier,
        [Form::Number(1.0, 100.0)],
        "The growth of the open period with each trip that follows."
    ),
    field!(
        breaker.open_max,
        [Form::Span(MS, DAY)],
        "The longest open period; not below `open_for`, which it follows where it is not given."
    ),
    field!(
        breaker.healthy_reset,
        [up_to(DAY)],
        "Closed for so long, the next trip is a first one again."
    ),
    field!(
        breaker.spread,
        [up_to(HOUR)],
        "Callers that are refused are told to come back spread over so long."
    ),
    field!(
        breaker.probes,
        [Form::Count(1, 100)],
        "Probes that may be out at once over the whole fleet."
    ),
    field!(
        breaker.probe_lease,
        [Form::Span(MS, HOUR)],
        "How long a probe may take to report; after it, it was no verdict."
    ),
    field!(
        breaker.probe_successes,
        [Form::Count(1, 100)],
        "Successful probes that close the breaker."
    ),
    field!(
        breaker.permit_ttl,
        [Form::Span(MS, DAY)],
        "How long a permit lives after its delay. Silence until then counts as a slow call or a timeout."
    ),
    field!(
        breaker.min_reporters,
        [Form::Count(1, 64)],
        "Caller instances that must see failures before a trip; never more than are active."
    ),
    field!(
        breaker.max_reporter_share,
        [PART],
        "The most that one instance can add to what a trip needs."
    ),
    field!(
        breaker.count_rejected,
        [Form::Flag],
        "Whether rejected requests count as failures; else they count as nothing."
    ),
    field!(
        breaker.count_throttled,
        [Form::Flag],
        "Whether throttled requests count as failures; else they count as nothing."
    ),
    field!(
        breaker.slow_counts_as_failure,
        [Form::Flag],
        "Whether a slow success counts as a failure."
    ),
    field!(
        ramp.start,
        [PART],
        "The share of the throughput before the outage that is admitted at first; 1 switches the ramp off."
    ),
    field!(
        ramp.step,
        [Form::Span(MS, HOUR)],
        "The time between two steps of the ramp."
    ),
    field!(
        ramp.max_duration,
        [Form::Span(MS, DAY)],
        "The ramp ends after so long at most."
    ),
    field!(
        ramp.horizon,
        [Form::Span(MS, HOUR)],
        "How far ahead places are promised during the ramp."
    ),
    field!(
        budget.ratio,
        [Form::Share(0, 10_000_000)],
        "Retries that may be made, as a share of first attempts within `ttl`."
    ),
    Field {
        section: "budget",
        name: "floor_per_second",
        forms: &[Form::Number(0.0, 1e6)],
        meaning: "Retries on top, per second, for the whole fleet; read to six decimals.",
        get: |p| Some(Value::Number(p.budget.floor_micros_per_second as f64 / 1e6)),
        set: |p, v| {
            if let Value::Number(floor) = v {
                p.budget.floor_micros_per_second = (floor * 1e6).round() as u64;
            }
        },
    },
    field!(
        budget.ttl,
        [Form::Span(Nanos::from_millis(100), DAY)],
        "The trailing window of the budget."
    ),
    field!(
        budget.max_caller_share,
        [PART],
        "The most that one instance may take of what is left, while others ask."
    ),
    field!(
        calendar.retry_rate,
        [Form::Words(&["auto", "off"]), Form::Number(0.001, 1e6)],
        "Retries per second that are planned: learned (`auto`), a number, or `off` for no calendar. Times `slot` at most 65535."
    ),
    field!(
        calendar.slot,
        [Form::Span(MS, Nanos::from_secs(10))],
        "The length of a slot."
    ),
    field!(
        calendar.horizon,
        [Form::Span(MS, DAY)],
        "How far ahead places are given; at least one `slot`, at most a million."
    ),
    switch!(
        rate,
        unset_rate,
        "A limit on calls. Off where it is absent or `off`."
    ),
    field!(rate ? unset_rate, per_second, [Form::Number(0.001, 1e6)],
        "Calls per second; has to be given."),
    field!(rate ? unset_rate, burst, [Form::Count(1, 1_000_000)],
        "Calls that may come at once; a tenth of a second's where it is not given."),
    field!(rate ? unset_rate, max_wait, [up_to(HOUR)],
        "The longest wait for room; 0s refuses at once."),
    field!(rate ? unset_rate, per_caller, [Form::Flag],
        "One limit for each caller service, instead of one for all."),
    switch!(
        check,
        Check::default,
        "Coordinated health checks. Off where it is absent or `off`."
    ),
    field!(check ? Check::default, period, [Form::Span(MS, DAY)],
        "The time between two checks by one checker."),
    field!(check ? Check::default, offset, [up_to(DAY)],
        "Jitter of each run after its place on the grid; below `period`."),
    field!(check ? Check::default, phase, [Form::Words(&["hash", "spread"])],
        "How checkers are placed within a period: by a hash, or evenly."),
    field!(check ? Check::default, first_within, [up_to(DAY)],
        "The first check runs within so long."),
    field!(check ? Check::default, timeout, [Form::Span(MS, HOUR)],
        "How long one check may take."),
    field!(check ? Check::default, unhealthy_after, [Form::Count(1, 1_000)],
        "Failed checks in a row that make it unhealthy."),
    field!(check ? Check::default, max_concurrent, [Form::Count(1, 1_000_000)],
        "Checks that may run at once."),
    field!(check ? Check::default, detection_budget, [Form::Span(MS, MONTH)],
        "How soon a fault has to be found, in the worst case."),
    field!(check ? Check::default, observers, [Form::Count(0, 1_000_000)],
        "Checkers that check in each period; the others share their verdict. 0: all check."),
];

fn window_of(policy: &mut Policy) -> &mut Window {
    if policy.breaker.detect == Detect::Adaptive {
        policy.breaker.detect = Detect::Window(Window::default());
    }
    match &mut policy.breaker.detect {
        Detect::Window(window) => window,
        Detect::Adaptive => unreachable!("made a window above"),
    }
}

/// A rate of which nothing is said yet. Zeros cannot be written, so they tell what is missing.
fn unset_rate() -> Rate {
    Rate {
        per_second: 0.0,
        burst: 0,
        max_wait: Nanos::ZERO,
        per_caller: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_place_and_every_default_is_allowed() {
        let mut policy = Policy {
            rate: Some(Rate {
                per_second: 500.0,
                burst: 50,
                ..unset_rate()
            }),
            check: Some(Check::default()),
            ..Policy::default()
        };
        policy.breaker.detect = Detect::Window(Window::default());
        for (index, field) in FIELDS.iter().enumerate() {
            assert_eq!(position(field.section, field.name), Some(index));
            let Some(value) = (field.get)(&policy) else {
                continue;
            };
            let written = super::super::tree::parse("f", &value.to_string())
                .unwrap()
                .unwrap();
            assert_eq!(
                super::super::value::read(field.forms, &written.value),
                Some(value),
                "{}",
                field.path()
            );
            let mut same = policy.clone();
            (field.set)(&mut same, value);
            assert_eq!(same, policy, "{}", field.path());
        }
    }

    #[test]
    fn fields_stand_together_in_the_order_of_the_sections() {
        let mut sections: Vec<&str> = FIELDS.iter().map(|field| field.section).collect();
        sections.dedup();
        assert_eq!(sections, SECTIONS);
    }
}
