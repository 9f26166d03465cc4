//! Which policy a name gets: entries, patterns, namespaces, and what follows from other values.

use super::*;

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
