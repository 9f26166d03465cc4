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
    let of = |name| policy::of_scenario(&scenario::read(name, None, &[]).unwrap()).unwrap();
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
    let policy = policy::of_scenario(&added).unwrap();
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
    let policy = policy::of_files(&file, "default", "payments").unwrap();
    assert_eq!(
        policy.retry.max_attempts,
        holdoff_decision::policy::MaxAttempts::Limited(9)
    );
    let wrong = error(policy::of_files(&file, "elsewhere", "payments"));
    assert!(wrong.contains("--namespace elsewhere: not in"), "{wrong}");
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
    it.report = Some(folder.path().join("no/such/folder/out.html"));
    assert!(matches!(run(&context, &it), Err(Failure::Usage(_))));
}

#[test]
fn the_table_shows_what_was_found_and_what_was_wanted() {
    let mut results = sample();
    results.verdicts[0].holds = false;
    let text = render::results(crate::cli::output::Ink::Plain, &results);
    let expected = "\
sample: 20 clients, 100 calls/s of capacity, 60 s; seed 1
For a test.

STRATEGY  CALLS  DOWN  WASTED  PER OP  PEAK   OF CAPACITY  OPENS   RECOVERS  GOODPUT  FAILED AFTER
holdoff   1,234  5     6       1.03    110/s  1.10         0.01 s  never     99.50 %  -

STRATEGY  ASSERTION        WANTED         FOUND
holdoff   recovers_within  at most 8.0 s  never  FAILS
";
    assert_eq!(text, expected);
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
