//! The shipped scenarios as the tests use them, and what scenarios may not say.

use holdoff_decision::Policy;
use holdoff_simulate::{
    Results, Scenario, Strategy,
    results::{Counters, Figures},
    run,
    scenario::Span,
};

pub const SHIPPED: [&str; 12] = [
    include_str!("../../../../scenarios/outage.yaml"),
    include_str!("../../../../scenarios/blip.yaml"),
    include_str!("../../../../scenarios/brownout.yaml"),
    include_str!("../../../../scenarios/slow.yaml"),
    include_str!("../../../../scenarios/flapping.yaml"),
    include_str!("../../../../scenarios/throttling.yaml"),
    include_str!("../../../../scenarios/mass-restart.yaml"),
    include_str!("../../../../scenarios/coordinator-loss.yaml"),
    include_str!("../../../../scenarios/partition.yaml"),
    include_str!("../../../../scenarios/chain.yaml"),
    include_str!("../../../../scenarios/herd.yaml"),
    include_str!("../../../../scenarios/storm.yaml"),
];

pub fn shipped(name: &str) -> Scenario {
    let all = SHIPPED.iter().map(|text| read(text).unwrap());
    all.into_iter().find(|it| it.name == name).unwrap()
}

pub fn read(text: &str) -> Result<Scenario, serde_saphyr::Error> {
    serde_saphyr::from_str(text)
}

/// One strategy under the first so many seeds.
pub fn simulated(
    scenario: &Scenario,
    strategy: Strategy,
    policy: &Policy,
    seeds: u64,
) -> (Figures, Counters, Results) {
    let seeds: Vec<u64> = (1..=seeds).collect();
    let plan = run::Plan {
        scenario,
        strategies: &[strategy],
        policy,
        seeds: &seeds,
        threads: 1,
    };
    let results = run::run(&plan, &|_| ()).unwrap();
    let it = &results.strategies[0];
    (it.figures, it.counters, results)
}

fn refused(change: impl FnOnce(&mut Scenario)) -> String {
    let mut scenario = shipped("outage");
    change(&mut scenario);
    let wrong = scenario.check().unwrap_err();
    wrong
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn every_shipped_scenario_is_valid_and_written_as_it_is_read() {
    for text in SHIPPED {
        let scenario = read(text).unwrap();
        scenario.check().unwrap();
        let tree = serde_json::to_value(&scenario).unwrap();
        assert_eq!(serde_json::from_value::<Scenario>(tree).unwrap(), scenario);
    }
}

#[test]
fn what_is_out_of_range_is_refused_with_field_value_and_range() {
    assert_eq!(refused(|it| it.clients = 0), "clients: 0: 1 to 1000000");
    assert_eq!(
        refused(|it| it.duration = Span::from_secs(25 * 3600)),
        "duration: 1day 1h: 1s to 1day"
    );
    assert_eq!(
        refused(|it| it.dependency.capacity_per_client = Some(1.0)),
        "dependency: capacity: exactly one of capacity_per_second and capacity_per_client"
    );
    assert_eq!(
        refused(|it| it.network.loss = 1.5),
        "network.loss: 1.5: 0 to 1"
    );
    assert_eq!(
        refused(|it| it.network.loss = f64::NAN),
        "network.loss: NaN: 0 to 1"
    );
    assert_eq!(
        refused(|it| it.network.least = Span::from_secs(1)),
        "network.least: 1s: 0s to 6ms"
    );
    assert_eq!(
        refused(|it| it.events[0].at = Span::from_secs(9_999)),
        "events[0].at: 2h 46m 39s: 0s to 2m 30s"
    );
    assert_eq!(
        refused(|it| it.events[0].lasts = Span::ZERO),
        "events[0].for: 0s: 1ms to 1day"
    );
}

#[test]
fn unknown_fields_and_lengths_without_a_unit_are_refused() {
    let text = SHIPPED[0];
    let wrong = |from: &str, to: &str| read(&text.replace(from, to)).unwrap_err().to_string();
    let unknown = wrong("clients:", "cleints:");
    assert!(unknown.contains("cleints"), "{unknown}");
    let unknown = wrong("what: refuse", "what: explode");
    assert!(unknown.contains("explode"), "{unknown}");
    let unit = wrong("duration: 150s", "duration: 150");
    assert!(unit.contains("with its unit"), "{unit}");
}
