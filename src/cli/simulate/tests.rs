use holdoff_decision::Nanos;
use holdoff_simulate::reference;

use super::*;

fn error(result: Result<impl std::fmt::Debug, Failure>) -> String {
    result.unwrap_err().to_string()
}

fn set(name: &str, sets: &[&str]) -> Result<holdoff_simulate::Scenario, Failure> {
    let sets: Vec<String> = sets.iter().map(|it| (*it).to_owned()).collect();
    scenario::read(name, None, &sets)
}

#[test]
fn every_shipped_scenario_and_its_policy_are_valid_and_have_the_name_of_their_file() {
    for name in shipped::names() {
        let scenario = scenario::read(name, None, &[]).unwrap();
        assert_eq!(scenario.name, name);
        assert!(!scenario.description.is_empty(), "{name}");
        policy::of_scenario(&scenario).unwrap();
    }
}

#[test]
fn the_policies_of_the_headline_scenarios_are_those_of_the_benchmarks() {
    let of = |name| {
        policy::of_scenario(&scenario::read(name, None, &[]).unwrap())
            .unwrap()
            .policy
    };
    assert_eq!(of("herd"), reference::herd(Nanos::from_secs(1)));
    assert_eq!(of("storm"), reference::storm());
}

#[test]
fn a_field_is_put_over_by_its_path_and_a_wrong_one_is_named() {
    let it = set(
        "outage",
        &["clients=7", "events.0.for=3s", "operation.deadline=2s"],
    )
    .unwrap();
    assert_eq!(it.clients, 7);
    assert_eq!(it.events[0].lasts.to_string(), "3s");
    assert_eq!(it.operation.deadline.to_string(), "2s");
    let added = set("outage", &["policy.retry.max_attempts=4"]).unwrap();
    let policy = policy::of_scenario(&added).unwrap().policy;
    assert_eq!(
        policy.retry.max_attempts,
        holdoff_decision::policy::MaxAttempts::Limited(4)
    );
    let wrong = error(set("outage", &["operation.max_attemps=4"]));
    assert!(
        wrong.starts_with("--set operation.max_attemps=4: unknown field"),
        "{wrong}"
    );
    let wrong = error(set("outage", &["clients"]));
    assert!(wrong.contains("not FIELD=VALUE"), "{wrong}");
    let wrong = error(set("outage", &["events.9.for=1s"]));
    assert!(wrong.contains("no item 9 in that list"), "{wrong}");
}

#[test]
fn a_value_out_of_range_is_refused_with_field_value_and_range() {
    let wrong = error(set("outage", &["clients=0", "dependency.rejection_cost=3"]));
    assert_eq!(
        wrong,
        "outage: clients: 0 is not allowed; 1 to 1000000\n\
         outage: dependency.rejection_cost: 3 is not allowed; 0 to 1"
    );
}

#[test]
fn an_unknown_name_lists_the_known_ones_and_an_unknown_field_its_place() {
    let wrong = error(scenario::read("outrage", None, &[]));
    assert!(
        wrong.starts_with("outrage: no such scenario; shipped are outage, blip"),
        "{wrong}"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.yaml");
    let text = shipped::text("outage")
        .unwrap()
        .replace("clients:", "cleints:");
    std::fs::write(&file, text).unwrap();
    let wrong = error(scenario::read(file.to_str().unwrap(), None, &[]));
    assert!(
        wrong.contains("cleints") && wrong.contains("line 4"),
        "{wrong}"
    );
}

#[test]
fn a_policy_of_the_scenario_is_refused_as_one_of_a_file_is() {
    let it = set("outage", &["policy.breaker.probes=0"]).unwrap();
    let wrong = error(policy::of_scenario(&it));
    assert!(wrong.contains("breaker.probes"), "{wrong}");
}

#[test]
fn the_policy_comes_from_policy_files_as_policy_show_resolves_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policies.yaml");
    let text = "version: 1\nnamespaces: {default: {dependencies: {payments: {retry: {max_attempts: 9}}}}}\n";
    std::fs::write(&file, text).unwrap();
    let chosen = policy::of_files(&file, "default", Some("payments")).unwrap();
    assert_eq!(
        chosen.policy.retry.max_attempts,
        holdoff_decision::policy::MaxAttempts::Limited(9)
    );
    let path = file.display();
    assert_eq!(
        chosen.from,
        format!("namespaces.default.dependencies.payments of {path}")
    );
    let wrong = error(policy::of_files(&file, "elsewhere", Some("payments")));
    assert!(wrong.contains("--namespace elsewhere: not in"), "{wrong}");
    assert!(wrong.contains("known are default"), "{wrong}");
}

#[test]
fn a_name_that_no_entry_has_is_refused_and_no_name_means_the_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policies.yaml");
    let text = "version: 1\nnamespaces: {default: {dependencies: {payments: {}, 'openai:*': {}}}, plain: {}}\n";
    std::fs::write(&file, text).unwrap();
    let wrong = error(policy::of_files(&file, "default", Some("paymnets")));
    assert!(
        wrong.starts_with("--dependency paymnets: no entry of ")
            && wrong.contains("known are \"openai:*\", payments"),
        "{wrong}"
    );
    let from = |namespace, name| policy::of_files(&file, namespace, name).unwrap().from;
    let begins = |text: String, with: &str| assert!(text.starts_with(with), "{text}");
    begins(from("default", None), "namespaces.default.defaults of ");
    begins(from("plain", Some("any")), "namespaces.plain.defaults of ");
    let pattern = "namespaces.default.dependencies.\"openai:*\" of ";
    begins(from("default", Some("openai:gpt")), pattern);
}

fn args(scenario: &str) -> SimulateArgs {
    SimulateArgs {
        scenario: Some(scenario.to_owned()),
        list: false,
        show: None,
        policies: None,
        dependency: None,
        strategies: vec![Strategy::FullJitter, Strategy::Holdoff],
        clients: Some(20),
        set: vec![
            "duration=60s".to_owned(),
            "traffic.open.per_second=50".to_owned(),
        ],
        seed: 1,
        seeds: 1,
        report: None,
    }
}

#[test]
fn an_assertion_that_fails_is_exit_code_1_and_one_that_holds_is_0() {
    let context = Context::for_test("http://127.0.0.1:1");
    let mut it = args("outage");
    it.set
        .push("assertions={full_jitter: {wasted_calls: 1000000}}".to_owned());
    assert_eq!(run(&context, &it).unwrap(), Exit::Done);
    it.set
        .push("assertions.full_jitter.wasted_calls=0".to_owned());
    assert_eq!(run(&context, &it).unwrap(), Exit::No);
}

#[test]
fn a_report_is_one_page_and_one_that_cannot_be_written_is_wrong_use() {
    let context = Context::for_test("http://127.0.0.1:1");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.html");
    let mut it = args("blip");
    it.report = Some(file.clone());
    run(&context, &it).unwrap();
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(
        page.starts_with("<!") && page.contains("<svg"),
        "{}",
        &page[..200]
    );
    let again = "holdoff simulate --scenario blip --strategy full_jitter,holdoff --clients 20 \
                 --set duration=60s --set traffic.open.per_second=50 --seed 1<";
    assert!(page.contains(again));
    it.report = Some(folder.path().join("no/such/folder/out.html"));
    assert!(matches!(run(&context, &it), Err(Failure::Usage(_))));
}

#[test]
fn the_table_shows_what_was_found_and_what_was_wanted() {
    let mut results = sample();
    results.verdicts[0].holds = false;
    let text = render::results(crate::cli::output::Ink::Plain, &results, "the scenario's");
    let expected = "\
sample: 20 clients, 100 calls/s of capacity, 60 s; seed 1
For a test.
policy: the scenario's

STRATEGY  CALLS  DOWN  WASTED  PER OP  PEAK   OF CAPACITY  OPENS   RECOVERS  GOODPUT  FAILED AFTER
holdoff   1,234  5     6       1.03    110/s  1.10         0.01 s  never     99.50 %  -

STRATEGY  ASSERTION        WANTED         FOUND
holdoff   recovers_within  at most 8.0 s  never  FAILS
";
    assert_eq!(text, expected);
    results.disturbed = false;
    let text = render::results(crate::cli::output::Ink::Plain, &results, "none");
    assert!(text.contains("0.01 s  -         99.50 %"), "{text}");
    results.scenario = "a\u{1b}[2Jb\u{202e}c".to_owned();
    let text = render::results(crate::cli::output::Ink::Plain, &results, "none");
    assert!(
        text.starts_with("a\\u{1b}[2Jb\\u{202e}c: 20 clients"),
        "{text}"
    );
}

#[test]
fn where_nothing_happens_it_recovers_and_where_it_never_ends_nothing_is_measured_after() {
    let judged = |events: &str| {
        let mut it = args("outage");
        it.set.push(format!("events={events}"));
        it.set
            .push("assertions={holdoff: {recovers_within: 1s, peak_of_capacity: 100}}".to_owned());
        let scenario = scenario::read("outage", it.clients, &it.set).unwrap();
        let chosen = policy::of_scenario(&scenario).unwrap();
        let plan = Plan {
            scenario: &scenario,
            strategies: &it.strategies,
            policy: &chosen.policy,
            seeds: &[1],
            threads: 1,
        };
        let results = holdoff_simulate::run(&plan, &|_| {}).unwrap();
        let verdicts = results.verdicts.iter();
        verdicts
            .map(|it| (it.found.clone(), it.holds))
            .collect::<Vec<_>>()
    };
    let quiet = judged("[]");
    assert_eq!(quiet[0], ("nothing was wrong".to_owned(), true));
    assert!(quiet[1].1, "{quiet:?}");
    let endless = judged("[{at: 10s, for: 1h, what: refuse}]");
    assert_eq!(endless[0], ("never".to_owned(), false));
    assert_eq!(endless[1], ("nothing to measure".to_owned(), false));
}

/// Behind an open breaker nobody comes to a second attempt, so no limit of theirs shows.
#[test]
fn more_attempts_show_where_the_breaker_lets_them_and_the_lower_limit_binds() {
    let counted = |more: &[&str]| {
        let mut it = args("outage");
        let fixed = [
            "assertions={}",
            "policy.budget.ratio=10",
            "policy.calendar.retry_rate=10000",
        ];
        it.set
            .extend(fixed.iter().chain(more).map(|it| (*it).to_owned()));
        let scenario = scenario::read("outage", it.clients, &it.set).unwrap();
        let plan = Plan {
            scenario: &scenario,
            strategies: &[Strategy::Holdoff],
            policy: &policy::of_scenario(&scenario).unwrap().policy,
            seeds: &[1],
            threads: 1,
        };
        let mut results = holdoff_simulate::run(&plan, &|_| {}).unwrap();
        results.strategies.remove(0).counters
    };
    let (own, of_policy) = ("operation.max_attempts=5", "policy.retry.max_attempts=5");
    let off = "policy.breaker.mode=off";
    // Who ends it, the client or the service, shifts a draw or two.
    let near = |one: f64, other: f64| (one - other).abs() < 0.01 * other;
    let three = counted(&[off]).calls;
    assert!(
        near(counted(&[off, own]).calls, three),
        "the policy's three bind"
    );
    assert!(
        near(counted(&[off, of_policy]).calls, three),
        "the client's three bind"
    );
    let five = counted(&[off, own, of_policy]).calls;
    assert!(five > 1.3 * three, "{five} {three}");
    let open = counted(&[own, of_policy]);
    assert_eq!(
        open.refused, open.operations_failed,
        "every failure was a refusal"
    );
    assert_eq!(counted(&[]), open);
}

#[test]
fn what_is_no_file_and_what_is_too_long_is_not_read() {
    let wrong = error(scenario::read("/dev/zero", None, &[]));
    assert_eq!(wrong, "/dev/zero: not a regular file");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("long.yaml");
    std::fs::write(&file, vec![b' '; (1 << 20) + 1]).unwrap();
    let wrong = error(scenario::read(file.to_str().unwrap(), None, &[]));
    assert!(
        wrong.ends_with("a scenario has at most 1048576 bytes"),
        "{wrong}"
    );
}

#[test]
fn numbers_out_of_range_are_refused_with_the_range_and_told_short() {
    let wrong = error(set("outage", &["dependency.capacity_per_second=1e-300"]));
    assert_eq!(
        wrong,
        "outage: dependency.capacity_per_second: 1e-300 is not allowed; 0.001 to 10000000"
    );
    let wrong = error(set("outage", &["clients=1e9"]));
    assert_eq!(
        wrong,
        "outage: clients: 1000000000 is not allowed; 1 to 1000000"
    );
    let wrong = error(set("outage", &["clients=1e12"]));
    assert!(
        wrong.ends_with("; a whole number from 0 to 4294967295"),
        "{wrong}"
    );
    assert_eq!(set("outage", &["clients=1e3"]).unwrap().clients, 1_000);
}

#[test]
fn a_table_is_printed_also_where_the_report_cannot_be_written() {
    let context = Context::for_test("http://127.0.0.1:1");
    let mut it = args("blip");
    it.report = Some("/dev/full".into());
    let failure = run(&context, &it).unwrap_err();
    assert!(
        failure.to_string().starts_with("--report /dev/full"),
        "{failure}"
    );
}

fn sample() -> Results {
    use holdoff_simulate::results::{Counters, Figures, Series, StrategyResult, Verdict};
    Results {
        scenario: "sample".to_owned(),
        description: "For a test.".to_owned(),
        clients: 20,
        capacity_per_second: 100.0,
        duration_s: 60.0,
        seeds: vec![1],
        disturbed: true,
        spans: Vec::new(),
        strategies: vec![StrategyResult {
            strategy: Strategy::Holdoff,
            label: "holdoff".to_owned(),
            counters: Counters {
                calls: 1_234.0,
                calls_while_down: 5.0,
                calls_wasted: 6.0,
                ..Counters::default()
            },
            figures: Figures {
                amplification: Some(1.03),
                peak_per_second: 110.0,
                opens_within_s: Some(0.01),
                goodput: Some(0.995),
                ..Figures::default()
            },
            series: Series::default(),
            runs: Vec::new(),
        }],
        verdicts: vec![Verdict {
            strategy: Strategy::Holdoff,
            assertion: "recovers_within".to_owned(),
            wanted: "at most 8.0 s".to_owned(),
            found: "never".to_owned(),
            holds: true,
        }],
    }
}
