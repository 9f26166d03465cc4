//! What is told of a set: where values are from, entries, differences, and what cannot work.

use super::*;

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
            super::super::fields::SECTIONS
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
