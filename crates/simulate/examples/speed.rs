//! How fast a run is: ten thousand clients for ten simulated minutes, an outage in the middle.
//! `cargo run --release -p holdoff-simulate --example speed`

use std::time::Instant;

use holdoff_decision::Nanos;
use holdoff_simulate::{Scenario, Strategy, reference, run, scenario::Span};

fn main() {
    let text = include_str!("../../../scenarios/herd.yaml");
    let mut scenario: Scenario = serde_saphyr::from_str(text).expect("a scenario");
    scenario.clients = 10_000;
    scenario.duration = Span::from_secs(600);
    let policy = reference::herd(Nanos::from_secs(1));
    for strategy in [
        Strategy::FullJitter,
        Strategy::Breaker,
        Strategy::Sre,
        Strategy::Holdoff,
    ] {
        let began = Instant::now();
        let plan = run::Plan {
            scenario: &scenario,
            strategies: &[strategy],
            policy: &policy,
            seeds: &[1],
            threads: 1,
        };
        let results = run::run(&plan, &|_| ()).expect("a valid scenario");
        let calls = results.strategies[0].counters.calls;
        println!(
            "{:12} {calls:9.0} calls in {:.2?}",
            strategy.name(),
            began.elapsed()
        );
    }
}
