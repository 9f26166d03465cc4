//! Entries that came over the API, above those of the files.

use super::*;

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
fn a_namespace_that_only_the_api_knows_holds_only_what_was_put_there() {
    let file = source("p.yaml", "version: 1\nnamespaces: {a: {}}\n");
    let set = PolicySet::load(&[file], &[overlay("b", "x", "{}")]).unwrap();
    assert!(!set.namespace("b").unwrap().auto_create());
    assert_eq!(set.resolve("b", "x").unwrap().1, Named::Exact);
    let set = PolicySet::load(&[], &[overlay("", "x", "{}")]).unwrap();
    assert!(set.namespace("default").unwrap().auto_create());
}
