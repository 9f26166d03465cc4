//! What is refused when it is read, and in which words.

use super::*;

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
