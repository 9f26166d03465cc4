//! Each code once: what brings it about, its numbers, and what is proposed.

use super::*;

/// The one finding of this code, and what is proposed for its entry.
#[track_caller]
fn one(body: &str, given: &[(&str, &str)], code: &str) -> (Finding, Vec<String>) {
    let findings = found(body, given);
    let of_code: Vec<_> = findings
        .iter()
        .filter(|finding| finding.code == code)
        .collect();
    assert_eq!(of_code.len(), 1, "{code}: {findings:#?}");
    let proposal = of_code[0].proposal.iter().map(|proposed| {
        let field = proposed
            .field
            .strip_prefix("namespaces.default.dependencies.payments.");
        format!("{}: {}", field.unwrap(), proposed.value)
    });
    (of_code[0].clone(), proposal.collect())
}

#[track_caller]
fn assert_proposes(body: &str, given: &[(&str, &str)], code: &str, proposed: &[&str]) -> Finding {
    let (finding, proposal) = one(body, given, code);
    assert_eq!(proposal, proposed, "{}", finding.message);
    finding
}

#[test]
fn a_breaker_that_never_opens_is_told_with_the_calls_that_fall_in_a_window() {
    let finding = assert_proposes(
        "{breaker: {window: 10s, min_calls: 50}}",
        &[("calls_per_second", "2"), ("clients", "4")],
        "breaker-never-opens",
        &["breaker.min_calls: 17"],
    );
    assert_eq!(
        finding.message,
        "the breaker can never open: 20 calls fall in window 10s and 14 retries at most, min_calls is 50"
    );
    assert_eq!(
        finding.field,
        "namespaces.default.dependencies.payments.breaker.min_calls"
    );
    assert_eq!(finding.place.line, 5);
    assert_eq!(finding.numbers["calls_per_window"], 20.0);
    assert_eq!(finding.numbers["min_calls"], 50.0);
    assert!(
        found(
            "{breaker: {window: 10s, min_calls: 17}}",
            &[("calls_per_second", "2")]
        )
        .is_empty()
    );
}

#[test]
fn a_breaker_that_opens_only_with_retries_is_a_hint() {
    let (finding, _) = one(
        "{breaker: {window: 10s, min_calls: 24}}",
        &[("calls_per_second", "2"), ("clients", "4")],
        "breaker-barely-opens",
    );
    assert_eq!(finding.severity, super::super::super::Severity::Hint);
    assert!(!finding.proposal.is_empty());
}

#[test]
fn calls_so_rare_that_the_evidence_decays_never_open_an_adaptive_breaker() {
    let (finding, proposal) = one(
        "{retry: {max_attempts: 1}}",
        &[("calls_per_second", "0.02")],
        "breaker-never-opens",
    );
    assert!(
        finding.message.contains("calls come 50s apart"),
        "{}",
        finding.message
    );
    assert!(finding.numbers["evidence_share"] < 0.5);
    assert_eq!(proposal[0], "breaker.detect: window");
    assert!(found("{}", &[("calls_per_second", "0.2")]).is_empty());
}

#[test]
fn an_outage_that_fails_less_than_the_ratio_is_never_noticed() {
    let given = [("calls_per_second", "100"), ("failure_ratio", "0.3")];
    let (finding, proposal) = one("{breaker: {window: 10s}}", &given, "breaker-never-opens");
    assert!(
        finding
            .message
            .ends_with("0.3 of the calls fail, failure_ratio is 0.5"),
        "{}",
        finding.message
    );
    assert_eq!(proposal, ["breaker.failure_ratio: 0.27"]);
    assert!(
        found("{}", &given).is_empty(),
        "the adaptive detector notices it"
    );
}

#[test]
fn a_supervisor_alone_at_its_cap_never_fills_a_window() {
    let body = "{retry: {max_attempts: unlimited, initial_delay: 10s, max_delay: 10s, min_delay: 5s}, breaker: {window: 30s, min_calls: 20}}";
    assert_proposes(
        body,
        &[("clients", "1")],
        "breaker-never-opens",
        &["breaker.min_calls: 1"],
    );
    assert!(found(body, &[]).is_empty());
}

#[test]
fn more_reporters_than_clients_is_a_hint() {
    assert_proposes(
        "{breaker: {min_reporters: 9}}",
        &[("clients", "5")],
        "reporters-above-clients",
        &["breaker.min_reporters: 3"],
    );
}

#[test]
fn attempts_beyond_the_deadline_count_the_time_that_attempts_take() {
    let body = "{retry: {max_attempts: 4, jitter: equal, initial_delay: 1s}}";
    let finding = assert_proposes(
        body,
        &[("deadline", "3s"), ("attempt_time", "500ms")],
        "attempts-beyond-deadline",
        &["retry.max_attempts: 3"],
    );
    assert_eq!(finding.numbers["attempts_that_fit"], 3.0);
    assert_eq!(finding.numbers["needed_seconds"], 5.0);
    assert!(found(body, &[("deadline", "6s")]).is_empty());
}

#[test]
fn b03_a_cap_that_swallows_the_jitter_is_told() {
    let body = "{retry: {min_delay: 10s}}";
    assert_proposes(body, &[], "jitter-lost", &["retry.min_delay: 0s"]);
    assert_proposes(
        "{retry: {jitter: none}}",
        &[],
        "jitter-lost",
        &["retry.jitter: full"],
    );
    assert_proposes(
        "{retry: {initial_delay: 0, jitter: equal}}",
        &[],
        "jitter-lost",
        &["retry.initial_delay: 100ms"],
    );
    // A floor at the first delay leaves nothing of the range before attempt 2.
    for floor in ["100ms", "150ms"] {
        let body = format!("{{retry: {{initial_delay: 100ms, min_delay: {floor}}}}}");
        let finding = assert_proposes(&body, &[], "jitter-lost", &["retry.min_delay: 0s"]);
        assert_eq!(
            finding.numbers["low_seconds"],
            finding.numbers["high_seconds"]
        );
    }
    assert!(found("{retry: {initial_delay: 100ms, min_delay: 80ms}}", &[]).is_empty());
    // Clamped before the draw, the range at the cap is half as wide, and not empty.
    assert!(
        found(
            "{retry: {jitter: proportional(0.1), initial_delay: 10s}}",
            &[]
        )
        .is_empty()
    );
}

#[test]
fn delays_that_no_client_waits_for_are_told() {
    assert_proposes(
        "{retry: {max_delay: 1h}}",
        &[],
        "delay-beyond-clients",
        &["retry.max_delay: 10m"],
    );
}

#[test]
fn slow_settings_without_slow_calls_are_told() {
    assert_proposes(
        "{breaker: {slow_ratio: 0.5}}",
        &[],
        "slow-unseen",
        &["breaker.slow_ratio: 1"],
    );
}

#[test]
fn a_recovery_that_takes_longer_than_its_goal_is_told_part_by_part() {
    let finding = assert_proposes(
        "{breaker: {open_for: 30s, open_max: 30s}, ramp: {start: 0.1, step: 2s}}",
        &[("recovery_goal", "20s"), ("attempt_time", "100ms")],
        "recovery-above-goal",
        &["breaker.open_for: 11s", "breaker.open_max: 11s"],
    );
    let seconds = |name| finding.numbers[name];
    assert_eq!(
        [
            seconds("open_seconds"),
            seconds("probing_seconds"),
            seconds("climbing_seconds")
        ],
        [30.0, 0.2, 8.0]
    );
    assert_proposes(
        "{breaker: {open_for: 10s, open_max: 2m}}",
        &[("recovery_goal", "30s")],
        "escalation-above-goal",
        &["breaker.open_max: 29s"],
    );
}

#[test]
fn b16_a_lease_shorter_than_an_attempt_is_never_a_verdict() {
    assert_proposes(
        "{breaker: {probe_lease: 500ms}}",
        &[("attempt_timeout", "2s")],
        "lease-outlived",
        &["breaker.probe_lease: 2s"],
    );
    assert_proposes(
        "{breaker: {probe_lease: 2s, slow_after: 3s}}",
        &[],
        "lease-outlived",
        &["breaker.probe_lease: 3s"],
    );
    assert_proposes(
        "{breaker: {permit_ttl: 5s}}",
        &[("deadline", "30s")],
        "permit-outlived",
        &["breaker.permit_ttl: 30s"],
    );
}

#[test]
fn b09d_a_budget_above_the_spare_capacity_is_told_and_the_floor_is_not_multiplied() {
    let traffic = [
        ("calls_per_second", "80"),
        ("capacity", "100"),
        ("clients", "1000"),
    ];
    let finding = assert_proposes(
        "{budget: {ratio: 0.5}}",
        &traffic,
        "retries-above-spare",
        &["budget.ratio: 0.23"],
    );
    assert_eq!(finding.numbers["retries_per_second"], 41.0);
    assert_eq!(finding.numbers["room_per_second"], 20.0);
    assert_eq!(finding.numbers["highest_ratio"], 0.25);
    assert!(
        !found("{budget: {ratio: 0.23}}", &traffic)
            .iter()
            .any(|f| f.code == finding.code)
    );
    assert_proposes(
        "{budget: {floor_per_second: 50}}",
        &traffic,
        "retries-above-spare",
        &["budget.ratio: 0.12", "budget.floor_per_second: 10"],
    );
    let limited = "{budget: {ratio: 0.5}, rate: {per_second: 100}}";
    assert!(
        found(limited, &traffic[..2]).is_empty(),
        "retries pass the limit too"
    );
    assert_proposes(
        "{}",
        &[("calls_per_second", "80"), ("capacity", "50")],
        "traffic-above-capacity",
        &["rate.per_second: 50"],
    );
}

#[test]
fn rates_that_do_not_go_with_the_calls_are_told() {
    let traffic = [("calls_per_second", "80"), ("capacity", "100")];
    assert_proposes(
        "{calendar: {retry_rate: 500}}",
        &traffic,
        "retry-rate-above-capacity",
        &["calendar.retry_rate: 20"],
    );
    assert_proposes(
        "{rate: {per_second: 50}}",
        &traffic[..1],
        "rate-below-traffic",
        &["rate.per_second: 97"],
    );
    assert_proposes(
        "{rate: {per_second: 500}, budget: {ratio: 0.1}}",
        &traffic,
        "rate-above-capacity",
        &["rate.per_second: 100"],
    );
}

#[test]
fn a_herd_that_does_not_fit_the_horizon_is_told() {
    let body = "{calendar: {retry_rate: 100, horizon: 10s}, budget: {ratio: 1}}";
    let finding = assert_proposes(
        body,
        &[("clients", "9000")],
        "horizon-below-herd",
        &["calendar.horizon: 1m40s"],
    );
    assert_eq!(finding.numbers["needed_seconds"], 100.0);
    assert_eq!(
        finding.message,
        "9000 retries of 9000 clients take 1m40s at 90 a second (90 % of 100: the rest is for high priority); horizon 10s and the first delay of 100ms have 909 places: 8091 find none"
    );
    // A budget of a hundredth lets 190 of them retry.
    let small = "{calendar: {retry_rate: 100, horizon: 10s}, budget: {ratio: 0.01}}";
    assert!(found(small, &[("clients", "9000")]).is_empty());
}

#[test]
fn b09_a_budget_that_never_comes_to_a_whole_token_is_told() {
    let finding = assert_proposes(
        "{budget: {floor_per_second: 0, ttl: 1s}}",
        &[("calls_per_second", "2")],
        "budget-never-grants",
        &["budget.ttl: 2s500ms"],
    );
    assert_eq!(finding.numbers["tokens_per_ttl"], 0.4);
    assert!(
        found(
            "{budget: {floor_per_second: 0}}",
            &[("calls_per_second", "2")]
        )
        .is_empty()
    );
    let never = "{budget: {floor_per_second: 0, ratio: 0}}";
    assert_proposes(
        never,
        &[],
        "budget-never-grants",
        &["budget.floor_per_second: 0.1"],
    );
    let (finding, proposal) = one(
        "{budget: {floor_per_second: 1}}",
        &[("calls_per_second", "20"), ("clients", "100")],
        "budget-never-grants-alone",
    );
    assert!((finding.numbers["tokens_per_ttl"] - 0.5).abs() < 1e-9);
    assert_eq!(proposal, ["budget.ttl: 20s"]);
}

#[test]
fn b14_retries_that_multiply_through_layers_are_told() {
    let finding = assert_proposes(
        "{budget: {ratio: 0.5}}",
        &[("layers", "3")],
        "retries-multiply",
        &["budget.ratio: 0.25"],
    );
    assert_eq!(finding.numbers["calls_per_call"], 27.0);
    assert_eq!(finding.numbers["load_factor"], 3.375);
    assert!(found("{budget: {ratio: 0.2}}", &[("layers", "3")]).is_empty());
}

#[test]
fn b38_checks_that_are_too_many_or_find_too_late_are_told_with_the_largest_period() {
    let finding = assert_proposes(
        "{check: {period: 30s, timeout: 2s, max_concurrent: 1}}",
        &[("checkers", "14")],
        "check-misses-budget",
        &["check.period: 29s666ms"],
    );
    assert_eq!(finding.numbers["found_after_seconds"], 121.0);
    assert_proposes(
        "{check: {period: 30s, max_concurrent: 1, detection_budget: 1h}}",
        &[("checkers", "20")],
        "check-cannot-run",
        &["check.period: 19m45s666ms"],
    );
    let observed = "{check: {period: 30s, timeout: 2s, max_concurrent: 1, observers: 3}}";
    assert!(found(observed, &[("checkers", "1000")]).is_empty());
}

#[test]
fn a_limit_below_the_names_that_are_written_is_told() {
    let text =
        "version: 1\nnamespaces: {default: {max_dependencies: 1, dependencies: {a: {}, b: {}}}}\n";
    let findings = check(&load(text), &Traffic::default());
    assert_eq!(findings[0].code, "too-few-dependencies");
    assert_eq!(findings[0].proposal[0].value, "2");
}

#[test]
fn every_code_is_documented_with_an_example() {
    let text = include_str!("../../../../docs/policy-check.md");
    for code in super::super::CODES {
        assert!(
            text.contains(&format!("`{code}`")),
            "docs/policy-check.md lacks {code}"
        );
    }
    for fact in super::super::super::traffic::FACTS {
        let row = format!(
            "| `{}` | {} | {} |",
            fact.name,
            super::super::super::value::allowed(&[fact.form])
                .replace(", such as 150ms, 2s or 1m30s", ""),
            fact.meaning
        );
        assert!(text.contains(&row), "docs/policy-check.md lacks:\n{row}");
    }
}
