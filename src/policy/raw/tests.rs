//! What is read of a policy file, and how each fault is told.

use super::*;

fn refused(text: &str) -> Vec<String> {
    read_file("p.yaml", text)
        .1
        .iter()
        .map(Finding::to_string)
        .collect()
}

/// What one bad setting of the defaults is answered with.
fn refused_setting(setting: &str) -> String {
    let text = format!("version: 1\nnamespaces:\n  default:\n    defaults:\n      {setting}\n");
    let findings = refused(&text);
    assert_eq!(findings.len(), 1, "{setting}: {findings:?}");
    findings[0].clone()
}

#[test]
fn a_refusal_names_file_line_column_field_value_and_range() {
    assert_eq!(
        refused_setting("retry: {max_attempts: 0}"),
        "p.yaml:5:29: namespaces.default.defaults.retry.max_attempts: 0 is not allowed; 1 to 1000, or unlimited"
    );
    assert_eq!(
        refused_setting("breaker: {window: 10001}"),
        "p.yaml:5:25: namespaces.default.defaults.breaker.window: 10001 is not allowed; a duration from 100ms to 24h, such as 150ms, 2s or 1m30s, or a number of calls from 1 to 10000"
    );
}

#[test]
fn b01d_no_cap_and_a_cap_above_a_day_are_refused_with_the_field_named() {
    for cap in [
        "null",
        "~",
        "none",
        "unlimited",
        "25h",
        "-1s",
        "inf",
        ".inf",
        "10",
    ] {
        let refusal = refused_setting(&format!("retry: {{max_delay: {cap}}}"));
        assert!(refusal.contains("retry.max_delay: "), "{refusal}");
        assert!(
            refusal
                .ends_with("is not allowed; a duration from 0s to 24h, such as 150ms, 2s or 1m30s"),
            "{refusal}"
        );
    }
}

#[test]
fn b02_a_multiplier_below_one_or_not_finite_is_refused() {
    for multiplier in ["0", "0.5", "-2", ".nan", ".inf", "101", "1e999"] {
        let refusal = refused_setting(&format!("retry: {{multiplier: {multiplier}}}"));
        assert!(refusal.ends_with("is not allowed; 1 to 100"), "{refusal}");
    }
}

#[test]
fn b04a_max_attempts_zero_is_refused() {
    for attempts in ["0", "-1", "1001", "1.5", "\"3\"", "forever"] {
        let refusal = refused_setting(&format!("retry: {{max_attempts: {attempts}}}"));
        assert!(
            refusal.ends_with("is not allowed; 1 to 1000, or unlimited"),
            "{refusal}"
        );
    }
}

#[test]
fn b06c_a_seed_is_an_unknown_field() {
    for setting in ["seed: 1", "retry: {seed: 1}", "retry: {jitter_seed: 1}"] {
        assert!(refused_setting(setting).contains(": unknown field; known here: "));
    }
}

#[test]
fn b35c_max_dependencies_zero_is_refused() {
    for text in [
        "version: 1\nmax_dependencies_total: 0\n",
        "version: 1\nmax_namespaces: 0\n",
        "version: 1\nnamespaces: {a: {max_dependencies: 0}}\n",
    ] {
        assert!(refused(text)[0].contains(": 0 is not allowed; 1 to "));
    }
}

#[test]
fn zero_limits_are_refused() {
    for setting in [
        "pushback: {max: 0s}",
        "breaker: {min_calls: 0}",
        "breaker: {window: 0}",
        "breaker: {window: 99ms}",
        "breaker: {failure_ratio: 0}",
        "breaker: {slow_ratio: 0}",
        "breaker: {open_for: 0s}",
        "breaker: {open_multiplier: 0.9}",
        "breaker: {open_max: 0s}",
        "breaker: {probes: 0}",
        "breaker: {probes: 101}",
        "breaker: {probe_lease: 0s}",
        "breaker: {probe_lease: 61m}",
        "breaker: {probe_successes: 0}",
        "breaker: {permit_ttl: 0s}",
        "breaker: {permit_ttl: 25h}",
        "breaker: {min_reporters: 0}",
        "breaker: {max_reporter_share: 0}",
        "ramp: {start: 0}",
        "ramp: {step: 0s}",
        "budget: {ratio: -0.1}",
        "budget: {ratio: 10.1}",
        "budget: {ratio: .nan}",
        "budget: {floor_per_second: -1}",
        "budget: {floor_per_second: .inf}",
        "budget: {ttl: 0s}",
        "budget: {max_caller_share: 0}",
        "budget: {max_caller_share: 1.1}",
        "calendar: {slot: 0s}",
        "calendar: {slot: 11s}",
        "calendar: {retry_rate: 0}",
        "rate: {per_second: 0}",
        "rate: {burst: 0}",
        "check: {period: 0s}",
        "check: {timeout: 0s}",
        "check: {unhealthy_after: 0}",
        "check: {max_concurrent: 0}",
        "check: {detection_budget: 0s}",
    ] {
        assert!(
            refused_setting(setting).contains(" is not allowed; "),
            "{setting}"
        );
    }
}

#[test]
fn all_findings_of_a_file_are_told() {
    let findings = refused(
        "version: 2\nnamespaces:\n  a b: {}\n  x:\n    auto_create: yes\n    dependencies:\n      '*x': {}\n      y: {retry: {initial_delay: 5, initial_delay: 1s}}\n      y: {}\n    colour: red\n",
    );
    let expected = [
        "p.yaml:1:10: version: 2 is not allowed; 1 is the only version",
        "p.yaml:3:3: namespaces.\"a b\": not a namespace; ",
        "p.yaml:5:18: namespaces.x.auto_create: yes is not allowed; true or false",
        "p.yaml:7:7: namespaces.x.dependencies.\"*x\": not a name; ",
        "p.yaml:8:34: namespaces.x.dependencies.y.retry.initial_delay: 5 is not allowed; a duration",
        "p.yaml:8:37: namespaces.x.dependencies.y.retry.initial_delay: given twice; first in line 8",
        "p.yaml:9:7: namespaces.x.dependencies.y: given twice; first in line 8",
        "p.yaml:10:5: namespaces.x.colour: unknown field; known here: auto_create, ",
    ];
    assert_eq!(findings.len(), expected.len(), "{findings:#?}");
    for expected in expected {
        assert!(
            findings.iter().any(|finding| finding.starts_with(expected)),
            "{expected}\n{findings:#?}"
        );
    }
}

#[test]
fn the_version_has_to_be_said() {
    assert_eq!(
        refused("namespaces: {}\n"),
        ["p.yaml:1:1: version: missing; 1 is the only version"]
    );
    assert_eq!(refused(""), ["p.yaml: empty; it begins with version: 1"]);
    assert_eq!(
        refused("- 1\n"),
        ["p.yaml:1:1: a list is not allowed; a map of fields"]
    );
}

#[test]
fn window_fields_beside_detect_adaptive_are_refused() {
    assert_eq!(
        refused_setting("breaker: {detect: adaptive, min_calls: 5}"),
        "p.yaml:5:46: namespaces.default.defaults.breaker.min_calls: 5 is not allowed under detect: adaptive; it belongs to detect: window"
    );
}

#[test]
fn nothing_written_is_an_empty_map() {
    assert_eq!(
        refused("version: 1\nnamespaces:\n  default:\n    dependencies:\n      payments:\n"),
        [""; 0]
    );
}
