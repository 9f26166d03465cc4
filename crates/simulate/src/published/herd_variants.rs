//! The herd under other settings: the caps of a backoff, a dependency that is silent or cold, a
//! coordinator that is slow or gone, and fleets so small that there is nothing to coordinate.

use holdoff_decision::{Nanos, Policy};

use super::{
    figure::{Compared, Effort, Figure, Published, Section, Table, number},
    fleets::{self, Ran},
};
use crate::{
    Scenario, Strategy, reference,
    scenario::{Event, Invalid, Span, Traffic, What},
};

/// What is changed, who runs under it, and what is known: T99 in seconds, the fullest second in
/// capacities, and calls while down.
struct Variant {
    name: String,
    scenario: Scenario,
    strategy: Strategy,
    known: [Option<f64>; 3],
    /// What holdoff must reach: T99, and rejected calls.
    bounds: [Option<f64>; 2],
}

pub fn section(effort: Effort, scenario: &Scenario) -> Result<Section, Vec<Invalid>> {
    let (clients, seeds) = effort.of((100, 2), (10_000, 3));
    let mut base = scenario.clone();
    base.clients = clients;
    let tables = vec![
        table(
            "how a backoff is tuned; holdoff has no such number",
            caps(&base),
            seeds,
        )?,
        table("what else the dependency does", dependencies(&base), seeds)?,
        table("what the coordinator does", coordinators(&base), seeds)?,
        free_rejections(effort, scenario)?,
        tiny(effort, scenario)?,
    ];
    let calls = |of: &str| {
        let mut cells = tables.last().into_iter().flat_map(Table::figures);
        let found = cells.find(|cell| cell.0 == "1" && cell.1 == format!("{of}: calls"));
        found.map_or_else(String::new, |cell| number(cell.2.ours.mean, 0))
    };
    Ok(Section {
        name: "herd-settings",
        title: "S2 under other settings, and where coordination does not help",
        plots: Vec::new(),
        readings: vec![
            "**A tuned local policy is as quick.** Equal jitter with a cap of 1.5 N/C recovers \
             as soon as any coordinator can. It needs N and C to be known and to stay as they \
             are, and sends a thousand times more calls while the dependency is down."
                .into(),
            "**Where rejections cost nothing** even clients that retry at once recover near the \
             physical limit, at hundreds of times the capacity. If that is your dependency, and \
             you do not pay for those calls, you need no coordinator for this."
                .into(),
            format!(
                "**A lone client gains no calls.** Probes come at a fixed pace: one client sends \
                 {} calls while the dependency is down, and {} with a backoff of its own. What it \
                 gets for them is to hear of the recovery sooner.",
                calls("holdoff"),
                calls("full jitter")
            ),
        ],
        tables,
    })
}

fn table(title: &str, variants: Vec<Variant>, seeds: u64) -> Result<Table, Vec<Invalid>> {
    let clients = variants
        .first()
        .map_or(0, |variant| variant.scenario.clients);
    let mut table = Table::new(
        format!(
            "N = {}: {title} (published for 10,000)",
            number(f64::from(clients), 0)
        ),
        "setting",
    )
    .columns([
        "T99, s",
        "peak 1 s, × C",
        "calls while down",
        "rejected for load",
    ]);
    for variant in variants {
        let ran = ran(&variant.scenario, variant.strategy, seeds)?;
        let known = variant.known.map(|known| match known {
            Some(value) if clients == 10_000 => Compared::Beside(Published::new(value, 0.1, 10)),
            Some(_) | None => Compared::Nothing,
        });
        let [soon, rejected] = variant.bounds.map(|bound| bound.map(Compared::AtMost));
        table.row(
            variant.name,
            vec![
                Some(Figure::new(ran.recovers(), soon.unwrap_or(known[0]), 1)),
                Some(Figure::new(ran.peak(), known[1], 2)),
                Some(Figure::new(
                    ran.count(|it| it.calls_while_down),
                    known[2],
                    0,
                )),
                Some(Figure::new(
                    ran.count(|it| it.rejected_for_load),
                    rejected.unwrap_or(Compared::Nothing),
                    0,
                )),
            ],
        );
    }
    Ok(table)
}

fn ran(scenario: &Scenario, strategy: Strategy, seeds: u64) -> Result<Ran, Vec<Invalid>> {
    let policy = match strategy {
        Strategy::Holdoff => reference::herd(Nanos::from_secs(1)),
        _ => Policy::default(),
    };
    fleets::one(scenario, strategy, &policy, seeds)
}

fn variant(name: &str, scenario: &Scenario, strategy: Strategy, known: [f64; 3]) -> Variant {
    let name = match strategy {
        Strategy::Holdoff => format!("{name}: **holdoff**"),
        _ => format!("{name}: {}", strategy.label()),
    };
    Variant {
        name,
        scenario: scenario.clone(),
        strategy,
        known: known.map(|value| (!value.is_nan()).then_some(value)),
        bounds: [None, None],
    }
}

const UNKNOWN: f64 = f64::NAN;

fn caps(base: &Scenario) -> Vec<Variant> {
    let capped = |millis: u64| {
        let mut scenario = base.clone();
        scenario.baselines.cap = Span::from_millis(millis);
        scenario
    };
    let full = [
        (1_000, [8.8, 8.70, 610_347.0]),
        (3_000, [7.2, 3.07, 235_148.0]),
        (5_000, [7.7, 1.90, 163_612.0]),
        (10_000, [9.1, 1.02, 113_849.0]),
        (20_000, [18.1, 0.65, 93_869.0]),
        (60_000, [50.5, 0.56, 88_122.0]),
    ];
    let full = full.map(|(millis, known)| {
        let name = format!("cap {} s", millis / 1_000);
        variant(&name, &capped(millis), Strategy::FullJitter, known)
    });
    let mut variants: Vec<Variant> = full.into();
    let tuned = [6.9, 1.17, 101_459.0];
    variants.push(variant(
        "cap 7.5 s",
        &capped(7_500),
        Strategy::EqualJitter,
        tuned,
    ));
    variants.push(variant("none", base, Strategy::Holdoff, [UNKNOWN; 3]));
    variants
}

fn dependencies(base: &Scenario) -> Vec<Variant> {
    let mut silent = base.clone();
    for event in &mut silent.events {
        if event.what == What::Refuse {
            event.what = What::Blackhole;
        }
    }
    let mut cold = base.clone();
    (cold.dependency.cold_share, cold.dependency.cold_for) = (0.1, Span::from_secs(20));
    let mut slower = base.clone();
    slower.dependency.capacity_per_client = Some(0.05);
    slower.traffic = Traffic::Closed {
        think: Span::from_secs(40),
    };
    let of = |name: &str, scenario: &Scenario, known: &[(Strategy, [f64; 3])]| -> Vec<Variant> {
        let known = known.iter();
        known
            .map(|(strategy, known)| variant(name, scenario, *strategy, *known))
            .collect()
    };
    let mut variants = of(
        "silent, not refusing",
        &silent,
        &[
            (Strategy::Exponential, [f64::INFINITY, UNKNOWN, 72_000.0]),
            (Strategy::FullJitter, [18.9, UNKNOWN, 86_089.0]),
            (Strategy::Breaker, [48.0, UNKNOWN, 59_844.0]),
            (Strategy::BreakerJittered, [14.6, UNKNOWN, 59_480.0]),
            (Strategy::Holdoff, [UNKNOWN; 3]),
        ],
    );
    variants.extend(of(
        "cold for 20 s",
        &cold,
        &[
            (Strategy::FullJitter, [25.2, UNKNOWN, UNKNOWN]),
            (Strategy::Holdoff, [UNKNOWN; 3]),
        ],
    ));
    if let Some(ours) = variants.last_mut() {
        ours.bounds = [Some(17.5), Some(0.01 * f64::from(base.clients))];
    }
    variants.extend(of(
        "N/C = 20 s",
        &slower,
        &[
            (Strategy::FullJitter, [33.3, 2.14, UNKNOWN]),
            (Strategy::BreakerJittered, [31.4, 2.33, UNKNOWN]),
            (Strategy::Holdoff, [UNKNOWN; 3]),
        ],
    ));
    variants
}

fn coordinators(base: &Scenario) -> Vec<Variant> {
    let mut gone = base.clone();
    gone.events.push(Event {
        at: Span::from_secs(50),
        lasts: Span::from_secs(10),
        varies: Span::ZERO,
        repeat: None,
        what: What::LoseCoordinator { keeps_state: false },
    });
    // To the end of the run, or the outage would not be the last disturbance.
    let mut away = base.clone();
    away.coordinator.loss = 1.0;
    let mut far = base.clone();
    (far.coordinator.least, far.coordinator.most) = (Span::from_millis(15), Span::from_millis(25));
    far.coordinator.loss = 0.01;
    let mut variants = vec![
        variant(
            "20 ms away, 1 % of messages lost",
            &far,
            Strategy::Holdoff,
            [UNKNOWN; 3],
        ),
        variant(
            "restarts without its state as the outage begins",
            &gone,
            Strategy::Holdoff,
            [UNKNOWN; 3],
        ),
        variant("never answers", &away, Strategy::Holdoff, [UNKNOWN; 3]),
        variant(
            "there is none",
            base,
            Strategy::BreakerJittered,
            [13.7, 0.77, 64_860.0],
        ),
    ];
    // Not worse than what clients have today, and a twentieth.
    if let Some(away) = variants.get_mut(2) {
        away.bounds = [Some(13.7 * 1.05), None];
    }
    variants
}

/// Rejections that cost the dependency nothing.
fn free_rejections(effort: Effort, scenario: &Scenario) -> Result<Table, Vec<Invalid>> {
    let mut free = scenario.clone();
    free.clients = effort.of(100, 1_000);
    free.dependency.rejection_cost = 0.0;
    let mut table = Table::new(
        format!(
            "N = {}: rejections cost the dependency nothing (published for 1,000)",
            number(f64::from(free.clients), 0)
        ),
        "strategy",
    )
    .columns(["T99, s", "peak 1 s, × C", "calls while down"]);
    for (strategy, known) in [
        (Strategy::None, Some([6.4, 402.0])),
        (Strategy::FullJitter, None),
        (Strategy::Holdoff, None),
    ] {
        let ran = ran(&free, strategy, 1)?;
        let beside = |at: usize| match known {
            Some(known) if free.clients == 1_000 => {
                Compared::Beside(Published::new(known[at], 0.1, 1))
            }
            Some(_) | None => Compared::Nothing,
        };
        table.row(
            strategy.label(),
            vec![
                Some(Figure::new(ran.recovers(), beside(0), 1)),
                Some(Figure::new(ran.peak(), beside(1), 2)),
                Some(Figure::new(
                    ran.count(|it| it.calls_while_down),
                    Compared::Nothing,
                    0,
                )),
            ],
        );
    }
    Ok(table)
}

/// A few clients of a dependency that they cannot overload.
fn tiny(effort: Effort, scenario: &Scenario) -> Result<Table, Vec<Invalid>> {
    let mut table = Table::new(
        "tiny fleets, a dependency of 100 calls a second: calls while it is down, and T99",
        "clients",
    )
    .columns([
        "full jitter: calls",
        "full jitter: T99, s",
        "holdoff: calls",
        "holdoff: T99, s",
    ]);
    for clients in [1, 2, 5, 10, 20] {
        let mut few = scenario.clone();
        few.clients = clients;
        few.dependency.capacity_per_client = None;
        few.dependency.capacity_per_second = Some(100.0);
        let mut cells = Vec::new();
        for strategy in [Strategy::FullJitter, Strategy::Holdoff] {
            let ran = ran(&few, strategy, effort.of(5, 20))?;
            let down = ran.count(|it| it.calls_while_down);
            cells.push(Some(Figure::new(down, Compared::Nothing, 0)));
            cells.push(Some(Figure::new(ran.recovers(), Compared::Nothing, 1)));
        }
        table.row(clients.to_string(), cells);
    }
    Ok(table)
}
