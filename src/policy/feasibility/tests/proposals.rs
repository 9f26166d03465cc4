//! What is proposed works, whatever the policy and the calls.

use proptest::prelude::*;

use super::super::super::fields::FIELDS;
use super::super::super::value::Value;
use super::super::propose::{applied, first_that_works};
use super::*;

/// A fact that is mostly of a sensible size, and now and then not known.
fn some(values: &'static [&'static str]) -> impl Strategy<Value = Option<&'static str>> {
    proptest::option::weighted(0.7, proptest::sample::select(values))
}

pub fn any_facts() -> impl Strategy<Value = Facts> {
    let rates = some(&["0.001", "0.05", "0.3", "2", "7.5", "40", "900", "100000"]);
    let clients = some(&["1", "2", "3", "10", "200", "20000"]);
    let capacity = some(&["0.01", "1", "50", "1000", "1000000"]);
    let spans = || some(&["1ms", "80ms", "1s", "20s", "10m"]);
    let share = some(&["0.01", "0.3", "0.6", "1"]);
    let checkers = some(&["1", "7", "100", "5000"]);
    let layers = some(&["1", "2", "4", "10"]);
    let given = (
        rates,
        clients,
        capacity,
        spans(),
        spans(),
        spans(),
        spans(),
        share,
        checkers,
        layers,
    );
    given.prop_map(|given| {
        let mut facts = Facts::default();
        let mut give = |name: &str, text: Option<&str>| {
            if let Some(text) = text {
                facts.give(name, text).unwrap();
            }
        };
        give("calls_per_second", given.0);
        give("clients", given.1);
        give("capacity", given.2);
        give("deadline", given.3);
        give("attempt_time", given.4);
        give("attempt_timeout", given.5);
        give("recovery_goal", given.6);
        give("failure_ratio", given.7);
        give("checkers", given.8);
        give("layers", given.9);
        facts
    })
}

/// A policy that loads: the default with some fields set to values that people write.
pub fn any_policy() -> impl Strategy<Value = Policy> {
    let span = |path: &'static str, texts: &'static [u64]| {
        proptest::sample::select(texts)
            .prop_map(move |ms| (path, Value::Span(Nanos::from_millis(ms))))
            .boxed()
    };
    let count = |path: &'static str, counts: &'static [u32]| {
        proptest::sample::select(counts)
            .prop_map(move |n| (path, Value::Count(n)))
            .boxed()
    };
    let number = |path: &'static str, numbers: &'static [f64]| {
        proptest::sample::select(numbers)
            .prop_map(move |n| (path, Value::Number(n)))
            .boxed()
    };
    let word = |path: &'static str, words: &'static [&'static str]| {
        proptest::sample::select(words)
            .prop_map(move |n| (path, Value::Word(n)))
            .boxed()
    };
    let change = prop_oneof![
        count("retry.max_attempts", &[1, 2, 4, 10, 1000]),
        word("retry.max_attempts", &["unlimited"]),
        word("retry.jitter", &["none", "full", "equal", "decorrelated"]),
        word("retry.strategy", &["fixed", "linear", "exponential"]),
        span("retry.initial_delay", &[0, 1, 100, 1_000]),
        span("retry.max_delay", &[1_000, 10_000, 3_600_000]),
        span("retry.min_delay", &[0, 100, 1_000]),
        span("retry.min_attempt_time", &[0, 50, 2_000]),
        span("breaker.window", &[100, 1_000, 10_000, 600_000, 86_400_000]),
        count("breaker.window", &[1, 5, 100, 10_000]),
        count("breaker.min_calls", &[1, 3, 20, 100, 1_000_000]),
        number("breaker.failure_ratio", &[0.01, 0.5, 1.0]),
        count("breaker.consecutive_failures", &[0, 1, 5, 1_000]),
        span("breaker.slow_after", &[0, 50, 3_000]),
        number("breaker.slow_ratio", &[0.5, 1.0]),
        span("breaker.open_for", &[1, 1_000, 10_000, 60_000]),
        number("breaker.open_multiplier", &[1.0, 2.0, 100.0]),
        span("breaker.open_max", &[60_000, 600_000]),
        count("breaker.probes", &[1, 3, 100]),
        span("breaker.probe_lease", &[1, 500, 5_000]),
        count("breaker.probe_successes", &[1, 2, 100]),
        span("breaker.permit_ttl", &[1, 5_000, 600_000]),
        count("breaker.min_reporters", &[1, 2, 3, 64]),
        number("breaker.max_reporter_share", &[0.01, 0.5, 1.0]),
        number("ramp.start", &[0.000_001, 0.1, 0.5, 1.0]),
        span("ramp.step", &[1, 250, 10_000]),
        number("budget.ratio", &[0.0, 0.01, 0.2, 1.0, 10.0]),
        number("budget.floor_per_second", &[0.0, 0.01, 1.0, 500.0]),
        span("budget.ttl", &[100, 1_000, 10_000, 3_600_000]),
        number("calendar.retry_rate", &[0.001, 1.0, 100.0, 1_000_000.0]),
        span("calendar.horizon", &[1_000, 30_000]),
        number("rate.per_second", &[0.001, 5.0, 1_000.0]),
        span("check.period", &[100, 1_000, 30_000]),
        span("check.timeout", &[1, 2_000, 20_000]),
        count("check.max_concurrent", &[1, 10]),
        span("check.detection_budget", &[1_000, 120_000]),
        count("check.observers", &[0, 3]),
    ];
    let changes = proptest::collection::vec(change, 0..8);
    changes.prop_filter_map("it does not load", |changes| {
        let mut policy = applied(&Policy::default(), &changes);
        if let Some(rate) = &mut policy.rate {
            rate.burst = rate.burst.max(1);
        }
        loads(&policy).then_some(policy)
    })
}

fn loads(policy: &Policy) -> bool {
    let overlay = super::super::super::Overlay {
        namespace: String::new(),
        name: "a".into(),
        text: to_yaml(policy),
    };
    let loaded = PolicySet::load(&[], &[overlay]);
    loaded.is_ok_and(|set| *set.resolve("", "a").unwrap().0 == *policy)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_proposal_loads_and_ends_its_finding(policy in any_policy(), facts in any_facts()) {
        for rule in RULES {
            let doubts = rule(&policy, &facts);
            let before: Vec<&str> = doubts.iter().map(|doubt| doubt.code).collect();
            for doubt in &doubts {
                prop_assert!(super::super::CODES.contains(&doubt.code), "{}", doubt.code);
                prop_assert!(!doubt.numbers.is_empty(), "{doubt:?}");
                prop_assert!(doubt.numbers.iter().all(|(_, number)| number.is_finite()), "{doubt:?}");
                let paths = doubt.fields.iter().chain(doubt.candidates.iter().flatten().map(|(path, _)| path));
                for path in paths {
                    prop_assert!(FIELDS.iter().any(|field| field.path() == *path), "{path}");
                }
                let proposal = first_that_works(rule, doubt, &before, &policy, &facts);
                if proposal.is_empty() {
                    continue;
                }
                let mut changed = applied(&policy, &proposal);
                if let Some(rate) = &mut changed.rate {
                    rate.burst = rate.burst.max(1);
                }
                prop_assert!(loads(&changed), "{proposal:?}\n{}", to_yaml(&changed));
                let left = rule(&changed, &facts);
                prop_assert!(left.iter().all(|other| other.code != doubt.code), "{doubt:?}\n{proposal:?}\n{left:?}");
            }
        }
    }
}

/// Laws are also of files: the proposal is put where it says, and the check runs again.
#[test]
fn a_proposal_put_into_the_file_ends_the_finding_there() {
    let given = [
        ("calls_per_second", "2"),
        ("clients", "4"),
        ("recovery_goal", "5s"),
        ("deadline", "1s"),
    ];
    let body = "{breaker: {window: 10s, min_calls: 50}, retry: {jitter: none, initial_delay: 1s}}";
    let mut open = found(body, &given);
    let before = open.len();
    assert!(before >= 4, "{open:#?}");
    let mut text =
        format!("version: 1\nnamespaces: {{default: {{dependencies: {{payments: {body}}}}}}}\n");
    let mut steps = 0;
    while let Some(finding) = open.iter().find(|finding| !finding.proposal.is_empty()) {
        let (code, mut document): (_, serde_json::Value) = (finding.code, json(&text));
        for proposed in &finding.proposal {
            let mut node = &mut document;
            for step in proposed.field.split('.') {
                node = &mut node[step];
            }
            *node = match proposed.value.parse::<f64>() {
                Ok(number) => number.into(),
                Err(_) => proposed.value.clone().into(),
            };
        }
        text = document.to_string();
        let mut traffic = Traffic::default();
        traffic.state("default", "payments", &facts(&given));
        open = check(&load(&text), &traffic);
        assert!(
            open.iter().all(|left| left.code != code),
            "{code}: {open:#?}"
        );
        steps += 1;
        assert!(steps <= 10, "proposals chase each other: {text}");
    }
    assert_eq!(open, [], "{text}");
}

fn json(text: &str) -> serde_json::Value {
    serde_saphyr::from_str(text).unwrap()
}
