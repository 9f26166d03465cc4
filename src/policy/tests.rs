//! Laws of whole policy sets: layers, origins, names, and that what is accepted is safe.

use std::sync::Arc;

use holdoff_decision::policy::{Check, Detect, MaxAttempts, Rate, Retry, Window, WindowSize};
use holdoff_decision::{Nanos, Policy, Share};
use proptest::prelude::*;

use super::fields::FIELDS;
use super::value::{Form, Value};
use super::*;

fn source(name: &str, text: &str) -> Source {
    Source {
        name: name.into(),
        text: text.into(),
    }
}

fn overlay(namespace: &str, name: &str, text: &str) -> Overlay {
    Overlay {
        namespace: namespace.into(),
        name: name.into(),
        text: text.into(),
    }
}

fn load(text: &str) -> PolicySet {
    PolicySet::load(&[source("p.yaml", text)], &[]).unwrap()
}

fn refused(text: &str) -> Vec<String> {
    let findings = PolicySet::load(&[source("p.yaml", text)], &[]).unwrap_err();
    findings.iter().map(Finding::to_string).collect()
}

/// A file with this body under the defaults of `default`.
fn defaults(body: &str) -> String {
    format!("version: 1\nnamespaces:\n  default:\n    defaults: {body}\n")
}

/// The policy that this body makes of the built-in one.
fn policy(body: &str) -> Policy {
    (*load(&defaults(body)).resolve("default", "any").unwrap().0).clone()
}

fn refused_defaults(body: &str) -> String {
    let findings = refused(&defaults(body));
    assert_eq!(findings.len(), 1, "{body}: {findings:?}");
    findings[0].clone()
}

/// The example of the documentation, in both detectors' fields.
const EXAMPLE: &str = r#"version: 1
namespaces:
  default:
    auto_create: true
    max_dependencies: 10000
    defaults: { }
    dependencies:
      payments:
        retry:    {max_attempts: 3, strategy: exponential, initial_delay: 100ms, multiplier: 2, max_delay: 10s, jitter: full, min_attempt_time: 0ms}
        pushback: {scope: caller, max: 60s, spread: 1s}
        breaker:  {mode: enforce, applies_to: all, detect: window, window: 10s, min_calls: 20, failure_ratio: 0.5, consecutive_failures: 0, slow_after: 0s, slow_ratio: 1.0,
                   open_for: 10s, open_multiplier: 2, open_max: 60s, healthy_reset: 60s, spread: 2s,
                   probes: 1, probe_lease: 5s, probe_successes: 2, permit_ttl: 60s,
                   min_reporters: 2, max_reporter_share: 0.5, count_rejected: false, slow_counts_as_failure: false}
        ramp:     {start: 0.5, step: 250ms, max_duration: 60s, horizon: 300ms}
        budget:   {ratio: 0.2, floor_per_second: 1, ttl: 10s, max_caller_share: 0.5}
        calendar: {retry_rate: auto, slot: 10ms, horizon: 30s}
        rate:     {per_second: 500, burst: 50, max_wait: 0s, per_caller: false}
        check:    {period: 30s, offset: 3s, phase: hash, first_within: 30s, timeout: 2s, unhealthy_after: 3, max_concurrent: 10, detection_budget: 2m, observers: 0}
      "openai:*": {pushback: {scope: dependency}}
"#;

#[test]
fn the_documented_example_is_the_built_in_policy_with_a_window_a_rate_and_a_check() {
    let (example, named) = load(EXAMPLE).resolve("default", "payments").unwrap();
    let mut expected = Policy {
        rate: Some(Rate {
            per_second: 500.0,
            burst: 50,
            max_wait: Nanos::ZERO,
            per_caller: false,
        }),
        check: Some(Check::default()),
        ..Policy::default()
    };
    expected.breaker.detect = Detect::Window(Window::default());
    assert_eq!((*example).clone(), expected);
    assert_eq!(named, Named::Exact);
}

#[test]
fn without_policy_files_there_is_the_default_namespace_with_the_built_in_policy() {
    for set in [
        PolicySet::default(),
        load("version: 1\n"),
        load("version: 1\nnamespaces:\n"),
    ] {
        let namespace = set.namespace("").unwrap();
        assert!(namespace.auto_create() && !namespace.bypass());
        assert_eq!(*set.resolve("default", "x").unwrap().0, Policy::default());
        assert!(set.namespace("other").is_none());
        assert_eq!(
            (set.max_dependencies_total(), set.max_namespaces()),
            (1_000_000, 1_000)
        );
    }
}

#[test]
fn names_that_only_the_defaults_apply_to_share_one_policy() {
    let set = load(&defaults("{retry: {max_attempts: 4}}"));
    let (first, named) = set.resolve("default", "a").unwrap();
    assert_eq!(named, Named::Defaults);
    for n in 0..1_000 {
        assert!(Arc::ptr_eq(
            &first,
            &set.resolve("default", &format!("dep-{n}")).unwrap().0
        ));
    }
}

#[test]
fn an_exact_name_wins_over_patterns_and_the_longest_prefix_among_patterns() {
    let set = load(
        "version: 1\nnamespaces:\n  default:\n    dependencies:\n      a/b: {retry: {max_attempts: 1}}\n      a/*: {retry: {max_attempts: 2}}\n      a/b/*: {retry: {max_attempts: 4}}\n      '*': {retry: {max_attempts: 5}}\n",
    );
    let attempts = |name: &str| {
        let (policy, named) = set.resolve("default", name).unwrap();
        (policy.retry.max_attempts, named)
    };
    assert_eq!(attempts("a/b"), (MaxAttempts::Limited(1), Named::Exact));
    assert_eq!(attempts("a/bc"), (MaxAttempts::Limited(2), Named::Pattern));
    assert_eq!(attempts("a/b/c"), (MaxAttempts::Limited(4), Named::Pattern));
    assert_eq!(attempts("b"), (MaxAttempts::Limited(5), Named::Pattern));
    assert_eq!(attempts("ä"), (MaxAttempts::Limited(5), Named::Pattern));
}

#[test]
fn fields_are_layered_one_by_one_and_entries_do_not_stack() {
    let set = load(
        "version: 1\nnamespaces:\n  default:\n    defaults: {retry: {max_attempts: 4, max_delay: 20s}}\n    dependencies:\n      a*: {retry: {max_attempts: 5}, budget: {ratio: 1}}\n      ab: {retry: {initial_delay: 1s}}\n",
    );
    let policy = set.resolve("default", "ab").unwrap().0;
    assert_eq!(policy.retry.max_attempts, MaxAttempts::Limited(4));
    assert_eq!(policy.retry.max_delay, Nanos::from_secs(20));
    assert_eq!(policy.retry.initial_delay, Nanos::from_secs(1));
    assert_eq!(policy.budget.ratio, Share(200_000));
}

#[test]
fn an_unknown_namespace_does_not_exist_unless_all_are_admitted() {
    let closed = load("version: 1\nnamespaces: {a: {}}\n");
    assert!(closed.namespace("b").is_none() && closed.namespace("").is_none());
    let open = load(
        "version: 1\nnamespaces: {a: {}, '*': {defaults: {retry: {max_attempts: 7}}, mode: off}}\n",
    );
    assert_eq!(
        open.resolve("b", "x").unwrap().0.retry.max_attempts,
        MaxAttempts::Limited(7)
    );
    assert_eq!(
        open.resolve("a", "x").unwrap().0.retry.max_attempts,
        MaxAttempts::Limited(3)
    );
    assert!(open.namespace("b").unwrap().bypass() && !open.namespace("a").unwrap().bypass());
    assert_eq!(open.namespace_names(), ["a"]);
    assert!(open.admits_any_namespace() && !closed.admits_any_namespace());
}

#[test]
fn b01d_a_delay_above_its_cap_is_refused_naming_both_and_where_they_come_from() {
    assert_eq!(
        refused_defaults("{retry: {initial_delay: 20s}}"),
        "p.yaml:4:39: namespaces.default.defaults.retry.initial_delay: initial_delay 20s is above max_delay 10s (retry.max_delay: built-in)"
    );
    assert_eq!(
        refused_defaults("{retry: {initial_delay: 1s, max_delay: 0}}"),
        "p.yaml:4:39: namespaces.default.defaults.retry.initial_delay: initial_delay 1s is above max_delay 0s"
    );
    let text = "version: 1\nnamespaces:\n  default:\n    defaults: {retry: {initial_delay: 5s}}\n    dependencies:\n      a.b: {retry: {max_delay: 1s}}\n";
    assert_eq!(
        refused(text),
        [
            "p.yaml:6:32: namespaces.default.dependencies.\"a.b\".retry.max_delay: initial_delay 5s is above max_delay 1s (retry.initial_delay: namespaces.default.defaults (p.yaml:4))"
        ]
    );
    assert!(
        refused_defaults("{retry: {min_delay: 11s}}")
            .contains("min_delay 11s is above max_delay 10s")
    );
}

#[test]
fn b02_zero_delays_are_accepted_and_stay_zero() {
    for strategy in ["fixed", "linear", "exponential"] {
        for jitter in ["none", "full", "equal", "decorrelated", "proportional(0.2)"] {
            for cap in ["0", "10s"] {
                let body = format!(
                    "{{retry: {{strategy: {strategy}, jitter: {jitter}, initial_delay: 0s, max_delay: {cap}}}}}"
                );
                assert_eq!(policy(&body).retry.initial_delay, Nanos::ZERO);
            }
        }
    }
}

#[test]
fn an_open_period_that_is_not_given_follows_and_one_that_is_given_is_kept() {
    assert_eq!(
        policy("{breaker: {open_for: 5m}}").breaker.open_max,
        Nanos::from_secs(300)
    );
    assert_eq!(
        policy("{breaker: {open_for: 5s}}").breaker.open_max,
        Nanos::from_secs(60)
    );
    assert!(
        refused_defaults("{breaker: {open_for: 5m, open_max: 1m}}")
            .contains("open_for 5m is above open_max 1m")
    );
}

#[test]
fn a_rate_needs_its_number_and_its_burst_follows() {
    assert_eq!(
        refused_defaults("{rate: {burst: 5}}"),
        "p.yaml:4:22: namespaces.default.defaults.rate: rate has no per_second; 0.001 to 1000000"
    );
    assert_eq!(policy("{rate: {per_second: 500}}").rate.unwrap().burst, 50);
    assert_eq!(policy("{rate: {per_second: 0.5}}").rate.unwrap().burst, 1);
    assert_eq!(policy("{rate: off}").rate, None);
    assert_eq!(policy("{rate: null, check: ~}"), Policy::default());
    let text = "version: 1\nnamespaces: {default: {defaults: {rate: {per_second: 5, burst: 3}}, dependencies: {a: {rate: off}, b: {rate: {per_second: 9}}}}}\n";
    let set = load(text);
    assert_eq!(set.resolve("default", "a").unwrap().0.rate, None);
    let rate = set.resolve("default", "b").unwrap().0.rate.clone().unwrap();
    assert_eq!((rate.per_second, rate.burst), (9.0, 3));
}

#[test]
fn thresholds_mean_a_window_and_without_them_the_detector_is_adaptive() {
    let is_window = |body: &str| matches!(policy(body).breaker.detect, Detect::Window(_));
    assert!(!is_window("{}"));
    assert!(!is_window("{breaker: {slow_after: 0s}}"));
    assert!(is_window("{breaker: {min_calls: 5}}"));
    assert!(is_window("{breaker: {slow_after: 1s}}"));
    assert!(is_window("{breaker: {detect: window}}"));
    assert!(!is_window(
        "{breaker: {detect: adaptive, slow_after: 1s, slow_counts_as_failure: true}}"
    ));
    let refusal = refused_defaults("{breaker: {detect: adaptive, slow_after: 1s}}");
    assert!(refusal.ends_with("breaker.slow_after: slow_after 1s does nothing under detect: adaptive unless slow_counts_as_failure is true (breaker.slow_counts_as_failure: built-in)"), "{refusal}");
}

#[test]
fn an_entry_may_choose_another_detector_than_its_defaults() {
    let set = load(
        "version: 1\nnamespaces:\n  default:\n    defaults: {breaker: {min_calls: 7, slow_after: 1s}}\n    dependencies:\n      a: {breaker: {detect: adaptive}}\n      b: {breaker: {failure_ratio: 0.1}}\n",
    );
    let breaker = |name: &str| set.resolve("default", name).unwrap().0.breaker.clone();
    assert_eq!(
        (breaker("a").detect, breaker("a").slow_after),
        (Detect::Adaptive, Nanos::ZERO)
    );
    let Detect::Window(window) = breaker("b").detect else {
        panic!()
    };
    assert_eq!(
        (window.min_calls, window.failure_ratio),
        (7, Share(100_000))
    );
    let set = load(
        "version: 1\nnamespaces:\n  default:\n    defaults: {breaker: {detect: adaptive}}\n    dependencies:\n      a: {breaker: {window: 100}}\n",
    );
    assert!(
        matches!(&set.resolve("default", "a").unwrap().0.breaker.detect, Detect::Window(w) if w.size == WindowSize::Calls(100))
    );
}

#[test]
fn an_unset_minimum_follows_a_smaller_window_of_calls() {
    let policy = policy("{breaker: {window: 10}}");
    let Detect::Window(window) = policy.breaker.detect else {
        panic!("a window was given");
    };
    assert_eq!(window.min_calls, 10);
}

#[test]
fn combinations_that_contradict_themselves_are_refused_with_the_numbers() {
    for (body, message) in [
        (
            "{breaker: {window: 10, min_calls: 11}}",
            "min_calls 11 is above window 10",
        ),
        (
            "{calendar: {slot: 5s, horizon: 1s}}",
            "slot 5s is above horizon 1s",
        ),
        (
            "{calendar: {slot: 1ms, horizon: 1h}}",
            "horizon 1h holds more than 1000000 times slot 1ms",
        ),
        (
            "{calendar: {slot: 10s, retry_rate: 7000}}",
            "retry_rate 7000 times slot 10s is 70000; at most 65535 fit a slot",
        ),
        (
            "{check: {offset: 30s}}",
            "offset 30s is not below period 30s",
        ),
        (
            "{check: {period: 60s}}",
            "a fault is found after 3m5s at worst, detection_budget is 2m; the largest period that fits is 38s333ms",
        ),
    ] {
        let refusal = refused_defaults(body);
        assert!(refusal.contains(message), "{refusal}");
    }
}

#[test]
fn faults_of_several_entries_are_told_at_once_and_those_of_the_defaults_once() {
    let findings = refused(
        "version: 1\nnamespaces:\n  default:\n    defaults: {retry: {initial_delay: 11s}}\n    dependencies:\n      a: {budget: {ratio: 1}}\n      b: {retry: {max_delay: 1s}}\n      c: {retry: {max_delay: 12s}, breaker: {window: 5, min_calls: 6}}\n      d: {retry: {max_attempts: 0, initial_delay: 50s}}\n",
    );
    assert_eq!(findings.len(), 4, "{findings:#?}");
    assert!(
        findings[0].starts_with("p.yaml:4:39: namespaces.default.defaults.retry.initial_delay: ")
    );
    assert!(
        findings[1].starts_with("p.yaml:7:30: namespaces.default.dependencies.b.retry.max_delay: ")
    );
    assert!(
        findings[2]
            .starts_with("p.yaml:8:68: namespaces.default.dependencies.c.breaker.min_calls: ")
    );
    assert!(findings[3].contains("d.retry.max_attempts: 0 is not allowed"));
}

#[test]
fn namespaces_merge_over_files_and_what_two_files_say_is_refused() {
    let a = source(
        "a.yaml",
        "version: 1\nmax_namespaces: 5\nnamespaces: {x: {auto_create: false, dependencies: {p: {}}}}\n",
    );
    let b = source(
        "b.yaml",
        "version: 1\nnamespaces: {x: {dependencies: {q: {}}}, y: {}}\n",
    );
    let set = PolicySet::load(&[a.clone(), b], &[]).unwrap();
    assert_eq!(set.namespace("x").unwrap().names().len(), 2);
    assert!(
        !set.namespace("x").unwrap().auto_create() && set.namespace("y").unwrap().auto_create()
    );
    let again = source(
        "b.yaml",
        "version: 1\nmax_namespaces: 5\nnamespaces:\n  x:\n    auto_create: true\n    dependencies: {p: {}}\n",
    );
    let findings = PolicySet::load(&[a, again], &[]).unwrap_err();
    let findings: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert_eq!(
        findings,
        [
            "b.yaml:2:17: max_namespaces: given twice; first in a.yaml:2",
            "b.yaml:5:18: namespaces.x.auto_create: given twice; first in a.yaml:3",
            "b.yaml:6:20: namespaces.x.dependencies.p: given twice; first in a.yaml:3",
        ]
    );
}

#[test]
fn bounds_on_what_may_be_written_hold() {
    let refusal = refused("version: 1\nmax_namespaces: 1\nnamespaces: {a: {}, b: {}}\n");
    assert_eq!(
        refusal,
        ["p.yaml:2:17: max_namespaces: 1 is below the 2 namespaces that are written down"]
    );
    let mut text = String::from("version: 1\nnamespaces:\n  default:\n    dependencies:\n");
    (0..5_000).for_each(|n| text += &format!("      d{n}: {{retry: {{max_attempts: 0}}}}\n"));
    let findings = refused(&text);
    assert_eq!(findings.len(), 1_001);
    assert_eq!(findings.last().unwrap(), "…: 4000 more findings");
}

#[test]
fn an_entry_over_the_api_replaces_the_files_entry_and_no_field_of_it_stays() {
    let file = source(
        "p.yaml",
        "version: 1\nnamespaces: {default: {defaults: {budget: {ratio: 1}}, dependencies: {a: {retry: {max_attempts: 9, max_delay: 1m}}}}}\n",
    );
    let set = PolicySet::load(
        std::slice::from_ref(&file),
        &[overlay("", "a", "retry: {max_attempts: 5}")],
    )
    .unwrap();
    let policy = set.resolve("default", "a").unwrap().0;
    assert_eq!(policy.retry.max_attempts, MaxAttempts::Limited(5));
    assert_eq!(policy.retry.max_delay, Nanos::from_secs(10));
    assert_eq!(policy.budget.ratio, Share::ONE);
    let set = PolicySet::load(
        &[file],
        &[overlay("default", "", "{\"retry\": {\"max_attempts\": 6}}")],
    )
    .unwrap();
    let policy = set.resolve("default", "b").unwrap().0;
    assert_eq!(
        (policy.retry.max_attempts, policy.budget.ratio),
        (MaxAttempts::Limited(6), Share(200_000))
    );
}

#[test]
fn a_bad_entry_over_the_api_is_refused_with_its_line() {
    let refused = |overlay| PolicySet::load(&[], &[overlay]).unwrap_err()[0].to_string();
    assert_eq!(
        refused(overlay("", "a*", "retry:\n  max_attempts: 0\n")),
        "API:2:17: namespaces.default.dependencies.\"a*\".retry.max_attempts: 0 is not allowed; 1 to 1000, or unlimited"
    );
    assert_eq!(
        refused(overlay("", "", "")),
        "API: namespaces.default.defaults: empty; {} is a policy that sets nothing"
    );
    assert!(
        refused(overlay("", "a b", "{}"))
            .starts_with("API: namespaces.default.dependencies.\"a b\": not a name; ")
    );
    assert!(
        refused(overlay("", "a", "retry: {initial_delay: 20s}"))
            .contains("initial_delay 20s is above max_delay 10s")
    );
    assert!(refused(overlay("", "a", "retry: [")).starts_with("API:1:"));
}

#[test]
fn an_entry_over_the_api_in_a_namespace_of_all_keeps_the_policies_of_all() {
    let file = source(
        "p.yaml",
        "version: 1\nnamespaces: {'*': {auto_create: false, defaults: {budget: {ratio: 1}}}}\n",
    );
    let set = PolicySet::load(&[file], &[overlay("team", "a", "{}")]).unwrap();
    assert!(!set.namespace("team").unwrap().auto_create());
    assert_eq!(set.resolve("team", "a").unwrap().0.budget.ratio, Share::ONE);
    assert_eq!(set.resolve("team", "a").unwrap().1, Named::Exact);
    assert_eq!(set.resolve("other", "a").unwrap().1, Named::Defaults);
}

#[test]
fn every_field_is_explained_with_where_it_came_from() {
    let file = source(
        "policies.yaml",
        "version: 1\nnamespaces:\n  default:\n    defaults:\n      retry: {max_delay: 30s}\n    dependencies:\n      \"openai:*\":\n        pushback: {scope: dependency}\n        breaker:\n          min_calls: 5\n          open_for: 2m\n",
    );
    let set = PolicySet::load(&[file], &[overlay("", "b", "budget: {ratio: 0.3}")]).unwrap();
    let explained = set.explain("default", "openai:x").unwrap();
    let row = |field: &str| {
        let found = explained.iter().find(|row| row.field == field).unwrap();
        (found.value.clone(), found.origin.clone())
    };
    let is = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
    assert_eq!(row("retry.max_attempts"), is("3", "built-in"));
    assert_eq!(
        row("retry.max_delay"),
        is("30s", "namespaces.default.defaults (policies.yaml:5)")
    );
    assert_eq!(
        row("pushback.scope"),
        is("dependency", "dependencies.\"openai:*\" (policies.yaml:8)")
    );
    assert_eq!(
        row("breaker.detect"),
        is("window", "dependencies.\"openai:*\" (policies.yaml:10)")
    );
    assert_eq!(
        row("breaker.open_max"),
        is("2m", "built-in (follows open_for)")
    );
    assert_eq!(row("rate"), is("off", "built-in"));
    let ratio = set
        .explain("default", "b")
        .unwrap()
        .into_iter()
        .find(|row| row.field == "budget.ratio")
        .unwrap();
    assert_eq!(
        (ratio.value.as_str(), ratio.origin.as_str()),
        ("0.3", "API")
    );
    let order: Vec<&str> = explained
        .iter()
        .map(|row| row.field.split('.').next().unwrap())
        .collect();
    assert!(order.windows(2).all(|pair| {
        let at = |name: &str| {
            super::fields::SECTIONS
                .iter()
                .position(|section| *section == name)
        };
        at(pair[0]) <= at(pair[1])
    }));
    assert!(set.explain("nowhere", "x").is_none());
}

#[test]
fn entries_are_listed_with_their_documents() {
    let set = PolicySet::load(
        &[source("p.yaml", EXAMPLE)],
        &[overlay("", "z", "# mine\nretry: {max_attempts: 2}\n")],
    )
    .unwrap();
    let entries = set.entries("default").unwrap();
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["", "openai:*", "payments", "z"]);
    assert_eq!(entries[0].document, "{}\n");
    assert_eq!(entries[1].document, "pushback:\n  scope: dependency\n");
    assert!(matches!(&entries[1].origin, ItemOrigin::File(file) if &**file == "p.yaml"));
    assert_eq!(entries[3].document, "# mine\nretry: {max_attempts: 2}\n");
    assert!(matches!(entries[3].origin, ItemOrigin::Api(_)));
    let names: Vec<&str> = set
        .namespace("default")
        .unwrap()
        .names()
        .iter()
        .map(|name| &**name)
        .collect();
    assert_eq!(names, ["payments", "z"]);
}

#[test]
fn a_diff_names_each_field_that_changes_and_nothing_else() {
    let old = load(
        "version: 1\nnamespaces: {default: {dependencies: {a: {retry: {max_attempts: 5}}, b: {}}}, gone: {}}\n",
    );
    let new = load(
        "version: 1\nnamespaces: {default: {auto_create: false, dependencies: {a: {retry: {max_attempts: 6}}, c: {rate: {per_second: 5}}}}}\n",
    );
    let shown: Vec<String> = diff(&old, &new)
        .into_iter()
        .map(|c| {
            format!(
                "{}/{} {}: {} -> {}",
                c.namespace,
                c.name,
                c.field,
                c.before.unwrap_or("-".into()),
                c.after.unwrap_or("-".into())
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "default/ auto_create: true -> false",
            "default/a retry.max_attempts: 5 -> 6",
            "default/b : present -> -",
            "default/c : - -> present",
            "default/c rate: off -> -",
            "default/c rate.per_second: - -> 5",
            "default/c rate.burst: - -> 1",
            "default/c rate.max_wait: - -> 0s",
            "default/c rate.per_caller: - -> false",
            "gone/ : present -> -",
        ]
    );
    assert_eq!(diff(&old, &old), []);
}

#[test]
fn warnings_name_what_is_legal_but_does_not_work() {
    let warnings = |body: &str| -> Vec<String> {
        check(&load(&defaults(body)), &Traffic::default())
            .iter()
            .map(Finding::to_string)
            .collect()
    };
    assert_eq!(warnings("{}"), [""; 0]);
    for (body, message) in [
        (
            "{retry: {jitter: none}}",
            "p.yaml:4:32: namespaces.default.defaults.retry.jitter: jitter none draws nothing: callers that fail together come back together",
        ),
        (
            "{retry: {jitter: proportional(0)}}",
            "jitter proportional(0) draws nothing",
        ),
        (
            "{retry: {jitter: decorrelated, initial_delay: 10s}}",
            "the jitter is lost at the cap: every delay is 10s",
        ),
        (
            "{retry: {initial_delay: 0}}",
            "every delay is 0s: callers that fail together come back together",
        ),
        (
            "{retry: {max_delay: 1h}}",
            "delays up to 1h are asked for, but clients wait 10m at most",
        ),
        (
            "{breaker: {slow_counts_as_failure: true}}",
            "no call is slow: slow_after is 0s",
        ),
        (
            "{breaker: {slow_ratio: 0.5}}",
            "slow_ratio is not looked at: slow_after is 0s",
        ),
    ] {
        let warnings = warnings(body);
        assert_eq!(warnings.len(), 1, "{body}: {warnings:?}");
        assert!(warnings[0].contains(message), "{}", warnings[0]);
    }
    let inherited = "version: 1\nnamespaces: {default: {max_dependencies: 1, defaults: {retry: {jitter: none}}, dependencies: {a: {}, b: {budget: {ratio: 1}}}}}\n";
    let warnings = check(&load(inherited), &Traffic::default());
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].to_string().contains(
        "p.yaml:2:42: namespaces.default.max_dependencies: 1 is below the 2 dependencies"
    ));
}

#[test]
fn attempts_that_never_fit_the_deadline_are_told() {
    let set = load(&defaults(
        "{retry: {max_attempts: 6, jitter: equal, initial_delay: 1s, max_delay: 10s}}",
    ));
    // The least waits are 0.5, 1, 2, 4 and 5 seconds.
    let told = |secs| {
        let facts = Facts {
            deadline: Some(Nanos::from_secs(secs)),
            ..Facts::default()
        };
        check(&set, &Traffic::everywhere(facts))
            .iter()
            .map(Finding::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        told(4),
        [
            "p.yaml:4:38: namespaces.default.defaults.retry.max_attempts: attempts 5 to 6 can never run within 4s: the last needs 12s500ms at least"
        ]
    );
    assert_eq!(told(13), [""; 0]);
    let unlimited = Retry {
        max_attempts: MaxAttempts::Unlimited,
        ..Retry::default()
    };
    assert_eq!(
        attempts_that_fit(&unlimited, Nanos::from_secs(1), Nanos::ZERO),
        1_000
    );
}

#[test]
fn json_is_a_policy_file_too_and_aliases_are_read() {
    assert_eq!(*load(r#"{"version": 1, "namespaces": {"default": {"defaults": {"retry": {"jitter": {"proportional": 0.2}}}}}}"#).resolve("", "x").unwrap().0,
        policy("{retry: {jitter: proportional(0.2)}}"));
    let set = load(
        "version: 1\nnamespaces:\n  default:\n    defaults: &d {retry: {max_attempts: 5}}\n    dependencies:\n      a: *d\n      b:\n        <<: *d\n        budget: {ratio: 1}\n",
    );
    for name in ["a", "b", "c"] {
        assert_eq!(
            set.resolve("default", name).unwrap().0.retry.max_attempts,
            MaxAttempts::Limited(5)
        );
    }
}

#[test]
fn a_namespace_that_only_the_api_knows_holds_only_what_was_put_there() {
    let file = source("p.yaml", "version: 1\nnamespaces: {a: {}}\n");
    let set = PolicySet::load(&[file], &[overlay("b", "x", "{}")]).unwrap();
    assert!(!set.namespace("b").unwrap().auto_create());
    assert_eq!(set.resolve("b", "x").unwrap().1, Named::Exact);
    let set = PolicySet::load(&[], &[overlay("", "x", "{}")]).unwrap();
    assert!(set.namespace("default").unwrap().auto_create());
}

/// Any value a form takes, and now and then one that it does not.
fn any_value(form: Form) -> BoxedStrategy<String> {
    let span = |least: Nanos, most: Nanos| {
        let near_ends = prop_oneof![
            Just(least.0),
            Just(most.0),
            least.0..=most.0,
            least.0..=most.0.min(20_000_000_000)
        ];
        near_ends.prop_map(|n| Value::Span(Nanos(n)).to_string())
    };
    match form {
        Form::Words(words) => proptest::sample::select(words)
            .prop_map(str::to_owned)
            .boxed(),
        Form::Span(least, most) => span(least, most).boxed(),
        Form::Count(least, most) | Form::Calls(least, most) => {
            prop_oneof![least..=most, least..=most.min(30)]
                .prop_map(|n| n.to_string())
                .boxed()
        }
        Form::Number(least, most) => (least..=most).prop_map(|n| n.to_string()).boxed(),
        Form::Share(least, most) => (f64::from(least)..=f64::from(most))
            .prop_map(|n| (n / 1e6).to_string())
            .boxed(),
        Form::Flag => any::<bool>().prop_map(|flag| flag.to_string()).boxed(),
        Form::Proportional => (0.0..=1.0)
            .prop_map(|share| format!("proportional({share})"))
            .boxed(),
    }
}

/// A policy's body with some of its fields.
fn any_body() -> impl Strategy<Value = String> {
    let fields = proptest::sample::subsequence((0..FIELDS.len()).collect::<Vec<_>>(), 0..12);
    let values = fields.prop_flat_map(|fields| {
        let each: Vec<_> = fields
            .into_iter()
            .map(|index| {
                let forms = FIELDS[index].forms.to_vec();
                let value = proptest::sample::select(forms).prop_flat_map(any_value);
                (Just(index), value)
            })
            .collect();
        each
    });
    values.prop_map(|values| {
        let sections = super::fields::SECTIONS.iter().filter_map(|section| {
            let own = values
                .iter()
                .filter(|(index, _)| FIELDS[*index].section == *section);
            let own: Vec<_> = own
                .map(|(index, value)| (FIELDS[*index].name, value))
                .collect();
            let inner: Vec<String> = own
                .iter()
                .map(|(name, value)| format!("{name}: {value}"))
                .collect();
            match own.as_slice() {
                [] => None,
                [("", _), ..] => Some(format!("{section}: off")),
                _ => Some(format!("{section}: {{{}}}", inner.join(", "))),
            }
        });
        format!("{{{}}}", sections.collect::<Vec<_>>().join(", "))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn what_loads_can_be_resolved_explained_and_written_back_as_the_same_policy(below in any_body(), above in any_body()) {
        let text = format!("version: 1\nnamespaces:\n  default:\n    defaults: {below}\n    dependencies:\n      a: {above}\n      p*: {above}\n");
        let Ok(set) = PolicySet::load(&[source("p.yaml", &text)], &[]) else { return Ok(()) };
        for name in ["a", "pq", "other"] {
            let (policy, _) = set.resolve("default", name).unwrap();
            let written = to_yaml(&policy);
            let back = PolicySet::load(&[], &[overlay("", "", &written)]);
            let back = back.map_err(|findings| TestCaseError::fail(format!("{findings:?}\n{written}")))?;
            prop_assert_eq!(&*back.resolve("default", name).unwrap().0, &*policy, "{}", written);
            let explained = set.explain("default", name).unwrap();
            for row in &explained {
                prop_assert!(FIELDS.iter().any(|field| field.path() == row.field));
            }
        }
        check(&set, &Traffic::default());
        prop_assert_eq!(diff(&set, &set), vec![]);
        diff(&set, &PolicySet::default());
        diff(&PolicySet::default(), &set);
        for entry in set.entries("default").unwrap() {
            let again = PolicySet::load(&[], &[overlay("", &entry.name, &entry.document)]);
            // An entry alone may contradict the built-in policy; it never fails to be read.
            if let Err(findings) = again {
                prop_assert!(!findings.iter().any(|finding| finding.message.contains("not allowed")), "{:?}", findings);
            }
        }
    }

    #[test]
    fn any_text_is_refused_or_loaded_and_never_panics(text in "[ -~\n]{0,200}") {
        let _ = PolicySet::load(&[source("p.yaml", &text)], &[]);
        let _ = PolicySet::load(&[source("p.yaml", &defaults(&text))], &[]);
        let _ = PolicySet::load(&[], &[overlay("", "a", &text)]);
    }
}

/// The row of a field in docs/policies.md.
fn row(field: &super::fields::Field) -> String {
    let unset = Rate {
        per_second: 0.0,
        burst: 0,
        max_wait: Nanos::ZERO,
        per_caller: false,
    };
    let mut all = Policy {
        rate: Some(unset),
        check: Some(Check::default()),
        ..Policy::default()
    };
    all.breaker.detect = Detect::Window(Window::default());
    let default = match field.path().as_str() {
        "rate.per_second" => "none: required".to_owned(),
        "rate.burst" => "follows".to_owned(),
        "breaker.detect" => "`adaptive`".to_owned(),
        _ => format!(
            "`{}`",
            (field.get)(&all)
                .map(|value| value.to_string())
                .unwrap_or_default()
        ),
    };
    let allowed = super::value::allowed(field.forms).replace(", such as 150ms, 2s or 1m30s", "");
    format!(
        "| `{}` | {default} | {allowed} | {} |",
        field.name, field.meaning
    )
}

#[test]
fn the_documentation_has_every_field_with_its_default_range_and_meaning() {
    let text = include_str!("../../docs/policies.md");
    let missing: Vec<String> = FIELDS
        .iter()
        .filter(|field| !field.name.is_empty())
        .map(row)
        .filter(|row| !text.contains(row))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/policies.md lacks:\n{}",
        missing.join("\n")
    );
}

#[test]
fn the_examples_of_the_documentation_load_without_a_finding() {
    let text = include_str!("../../docs/policies.md");
    let examples = text
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let examples: Vec<&str> = examples.collect();
    assert!(!examples.is_empty());
    for example in examples {
        assert_eq!(check(&load(example), &Traffic::default()), [], "{example}");
    }
}

const ENVOY: &str = "version: 1\nnamespaces:\n  shop:\n    envoy:\n      destination_cluster=payments: payments\n      \"generic_key=search, remote_address\": search/{remote_address}\n";

#[test]
fn descriptors_of_envoy_are_named_by_the_section_or_by_their_entries() {
    let set = load(ENVOY);
    let shop = set.namespace("shop").unwrap();
    let name = |entries: &[(&str, &str)]| shop.dependency_of(entries);
    assert_eq!(
        name(&[("destination_cluster", "payments")]).as_deref(),
        Some("payments")
    );
    assert_eq!(
        name(&[("generic_key", "search"), ("remote_address", "10.0.0.9")]).as_deref(),
        Some("search/10.0.0.9")
    );
    assert_eq!(name(&[("destination_cluster", "web")]), None);
    let set = load("version: 1\nnamespaces: {none: {envoy: {}}, silent: {}}\n");
    let entries = [("k", "v")];
    assert_eq!(set.namespace("none").unwrap().dependency_of(&entries), None);
    let joined = set.namespace("silent").unwrap().dependency_of(&entries);
    assert_eq!(joined.as_deref(), Some("k:v"));
}

#[test]
fn what_is_wrong_in_the_section_of_envoy_is_told_with_its_place() {
    let text = "version: 1\nnamespaces:\n  shop:\n    envoy:\n      a=1: x y\n      \"a, a\": n\n      b: {c: d}\n      c: '{d}'\n      d: n\n      \" d\": n\n";
    assert_eq!(
        refused(text),
        [
            format!(
                "p.yaml:5:12: namespaces.shop.envoy.\"a=1\": x y is not allowed; a name ({}), with {{key}} where a value goes",
                super::name::ALLOWED
            ),
            "p.yaml:6:7: namespaces.shop.envoy.\"a, a\": the key a stands twice in it".into(),
            "p.yaml:7:10: namespaces.shop.envoy.b: a map is not allowed; the name of a dependency"
                .into(),
            "p.yaml:8:10: namespaces.shop.envoy.c: {d} is no key of the descriptor; its keys: c"
                .into(),
            "p.yaml:10:7: namespaces.shop.envoy.d: given twice; first in p.yaml:9".into(),
        ]
    );
}

#[test]
fn the_section_of_envoy_is_shown_with_the_defaults_and_compared() {
    let set = load(ENVOY);
    let rows = set.explain("shop", "").unwrap();
    let shown: Vec<_> = rows
        .iter()
        .filter(|row| row.field.starts_with("envoy."))
        .map(|row| (row.field.as_str(), row.value.as_str(), row.origin.as_str()))
        .collect();
    assert_eq!(
        shown,
        [
            (
                "envoy.\"destination_cluster=payments\"",
                "payments",
                "namespaces.shop.envoy (p.yaml:5)"
            ),
            (
                "envoy.\"generic_key=search, remote_address\"",
                "search/{remote_address}",
                "namespaces.shop.envoy (p.yaml:6)"
            ),
        ]
    );
    let other = load(&ENVOY.replace(": payments", ": pay"));
    let changes = diff(&set, &other);
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0].field, "envoy.\"destination_cluster=payments\"");
    assert_eq!(changes[0].before.as_deref(), Some("payments"));
    assert_eq!(changes[0].after.as_deref(), Some("pay"));
}
