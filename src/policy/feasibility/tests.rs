//! Laws of the check: what it says is so by the rules of the service, and what it proposes
//! works.

mod codes;
mod laws;
mod proposals;

use holdoff_decision::policy::{Detect, Window, WindowSize};
use holdoff_decision::{Nanos, Policy};

use super::super::set::{PolicySet, Source};
use super::super::traffic::{Facts, Traffic};
use super::super::{Finding, to_yaml};
use super::{RULES, check, check_while};

fn facts(given: &[(&str, &str)]) -> Facts {
    let mut facts = Facts::default();
    for (name, text) in given {
        facts.give(name, text).unwrap();
    }
    facts
}

fn load(text: &str) -> PolicySet {
    let source = Source {
        name: "p.yaml".into(),
        text: text.into(),
    };
    let loaded = PolicySet::load(&[source], &[]);
    loaded.unwrap_or_else(|findings| panic!("{text}\n{findings:#?}"))
}

/// What is found of one entry with this body.
fn found(body: &str, given: &[(&str, &str)]) -> Vec<Finding> {
    let text =
        format!("version: 1\nnamespaces:\n  default:\n    dependencies:\n      payments: {body}\n");
    let mut traffic = Traffic::default();
    traffic.state("default", "payments", &facts(given));
    check(&load(&text), &traffic)
}

#[test]
fn a_check_that_is_told_to_stop_ends_before_its_next_entry_and_finds_nothing() {
    let set = load("version: 1\nnamespaces: {default: {dependencies: {a: {}, b: {}, c: {}}}}\n");
    let asked = std::cell::Cell::new(0);
    let goes_on = || {
        asked.set(asked.get() + 1);
        asked.get() < 2
    };
    let ended = check_while(&set, &Traffic::default(), goes_on);
    assert_eq!((ended, asked.get()), (None, 2));
}

/// The codes that any rule doubts a policy with.
fn codes(policy: &Policy, facts: &Facts) -> Vec<&'static str> {
    let doubts = RULES.iter().flat_map(|rule| rule(policy, facts));
    doubts.map(|doubt| doubt.code).collect()
}

fn window(size: WindowSize, min_calls: u32, row: u32) -> Policy {
    let mut policy = Policy::default();
    policy.breaker.detect = Detect::Window(Window {
        size,
        min_calls,
        consecutive_failures: row,
        ..Window::default()
    });
    policy
}

fn secs(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}

#[test]
fn the_default_policy_has_no_finding_under_ordinary_traffic() {
    for (rate, clients) in [
        ("2", "3"),
        ("50", "10"),
        ("2000", "200"),
        ("100000", "10000"),
    ] {
        let capacity = (rate.parse::<f64>().unwrap() * 1.5 + 1.0).to_string();
        let ordinary = facts(&[
            ("calls_per_second", rate),
            ("clients", clients),
            ("capacity", &capacity),
            ("deadline", "10s"),
            ("attempt_time", "50ms"),
            ("attempt_timeout", "2s"),
            ("recovery_goal", "2m"),
            ("checkers", "20"),
            ("layers", "2"),
        ]);
        let policy = Policy {
            check: Some(holdoff_decision::policy::Check::default()),
            ..Policy::default()
        };
        assert_eq!(codes(&policy, &ordinary), [""; 0], "{rate}/s of {clients}");
    }
}

#[test]
fn a_policy_file_is_checked_within_its_facts_and_each_finding_names_who_it_is_for() {
    let text = "version: 1\nnamespaces:\n  default:\n    defaults: {breaker: {window: 10s, min_calls: 50}}\n    dependencies:\n      \"openai:*\": {retry: {max_attempts: 2}}\n      busy: {}\n";
    let set = load(text);
    let mut traffic = Traffic::default();
    assert_eq!(check(&set, &traffic), []);
    traffic.state("default", "", &facts(&[("calls_per_second", "100")]));
    assert_eq!(check(&set, &traffic), []);
    // Nobody wrote an entry for it: the defaults are what has to change.
    traffic.state("default", "rare", &facts(&[("calls_per_second", "0.1")]));
    traffic.state(
        "default",
        "openai:gpt",
        &facts(&[("calls_per_second", "0.1")]),
    );
    let findings = check(&set, &traffic);
    let about: Vec<_> = findings
        .iter()
        .map(|finding| {
            (
                finding.dependency.as_str(),
                finding.field.as_str(),
                finding.code,
            )
        })
        .collect();
    assert_eq!(
        about,
        [
            (
                "rare",
                "namespaces.default.defaults.breaker.min_calls",
                "breaker-never-opens"
            ),
            (
                "openai:gpt",
                "namespaces.default.dependencies.\"openai:*\".breaker.min_calls",
                "breaker-never-opens"
            ),
        ]
    );
    assert!(
        findings[0]
            .message
            .starts_with("for rare: the breaker can never open: ")
    );
    assert_eq!((findings[0].place.line, findings[1].place.line), (4, 6));
    // The same calls for all: told once, where the fields stand.
    let everywhere = Traffic::everywhere(facts(&[("calls_per_second", "0.1")]));
    let findings = check(&set, &everywhere);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(findings[0].dependency, "");
}

#[test]
fn a_namespace_that_lets_every_call_pass_has_nothing_to_be_wrong() {
    let text = "version: 1\nnamespaces: {default: {mode: off, defaults: {breaker: {min_calls: 500, window: 1s}}}}\n";
    let rare = Traffic::everywhere(facts(&[("calls_per_second", "1")]));
    assert_eq!(check(&load(text), &rare), []);
}

#[test]
fn a_huge_file_is_looked_at_until_there_are_a_thousand_findings() {
    let entries: String = (0..1_500)
        .map(|n| format!("      d{n}: {{retry: {{jitter: none}}}}\n"))
        .collect();
    let text = format!("version: 1\nnamespaces:\n  default:\n    dependencies:\n{entries}");
    let findings = check(&load(&text), &Traffic::default());
    assert_eq!(findings.len(), super::MAX_FINDINGS + 1);
    assert!(
        findings
            .iter()
            .any(|finding| finding.code == "more-findings")
    );
}
