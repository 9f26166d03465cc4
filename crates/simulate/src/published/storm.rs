//! The storm: the same load from ten to ten thousand clients, ten seconds in which the dependency
//! stalls or is silent, and an overload that outlives its cause. The scenario is the shipped
//! `storm.yaml`.

use holdoff_decision::Policy;

use super::{
    figure::{Compared, Effort, Figure, Measured, Published, Section, Table, number},
    fleets::{self, Ran},
    herd::short,
    storm_published::{Kind, known},
    storm_variants,
};
use crate::{
    Scenario, Strategy,
    plot::{Axis, Band, Chart, Plot, Series},
    reference,
    scenario::{Invalid, What},
};

const OTHERS: [Strategy; 9] = [
    Strategy::NoRetry,
    Strategy::None,
    Strategy::Exponential,
    Strategy::FullJitter,
    Strategy::Breaker,
    Strategy::Bucket,
    Strategy::Grpc,
    Strategy::Aws,
    Strategy::Sre,
];

pub fn section(effort: Effort, scenario: &Scenario) -> Result<Section, Vec<Invalid>> {
    let sizes: &[u32] = effort.of(&[10], &[10, 100, 1_000, 10_000]);
    let seeds = effort.of(4, 10);
    let kinds: &[Kind] = effort.of(&[Kind::Stall], &[Kind::Stall, Kind::Blackhole]);
    let (mut tables, mut plots) = (Vec::new(), Vec::new());
    for kind in kinds {
        let mut ours = Vec::new();
        for clients in sizes {
            let mut scenario = of_kind(scenario, *kind);
            scenario.clients = *clients;
            let (table, ran) = one_size(&scenario, *kind, seeds)?;
            tables.push(table);
            if *clients == 10_000 && *kind == Kind::Stall {
                plots.push(plot(&scenario, &ran));
            }
            ours.extend(
                ran.into_iter()
                    .filter(|ran| ran.result.strategy == Strategy::Holdoff),
            );
        }
        tables.push(invariance(*kind, &ours));
    }
    tables.extend(storm_variants::tables(effort, scenario)?);
    Ok(Section {
        name: "storm",
        title: "S3: the overload that outlives its cause",
        readings: storm_variants::readings(),
        tables,
        plots,
    })
}

fn of_kind(scenario: &Scenario, kind: Kind) -> Scenario {
    let mut scenario = scenario.clone();
    for event in &mut scenario.events {
        event.what = match kind {
            Kind::Stall => What::Stall,
            Kind::Blackhole => What::Blackhole,
        };
    }
    scenario
}

fn one_size(
    scenario: &Scenario,
    kind: Kind,
    seeds: u64,
) -> Result<(Table, Vec<Ran>), Vec<Invalid>> {
    let mut table = Table::new(
        format!(
            "{} for 10 s, N = {} (published)",
            what(kind),
            number(f64::from(scenario.clients), 0)
        ),
        "strategy",
    )
    .columns([
        "attempts while down",
        "peak 1 s, × C",
        "T99, s",
        "failed after, %",
        "never recovers, % of runs",
    ]);
    let mut all = Vec::new();
    for strategy in OTHERS.into_iter().chain([Strategy::Holdoff]) {
        let (policy, label) = match strategy {
            Strategy::Holdoff => (reference::storm(), "**holdoff**"),
            _ => (Policy::default(), strategy.label()),
        };
        let ran = fleets::one(scenario, strategy, &policy, seeds)?;
        table.row(label, cells(&ran, scenario, kind));
        all.push(ran);
    }
    Ok((table, all))
}

fn cells(ran: &Ran, scenario: &Scenario, kind: Kind) -> Vec<Option<Figure>> {
    let strategy = ran.result.strategy;
    let known = known(kind, strategy, scenario.clients);
    let ours = strategy == Strategy::Holdoff;
    // What all arrivals of a timeout and 50 ms send; T99 is a whole number of seconds.
    let bounds = [Some(800.0 * 1.05), None, Some(2.0), Some(1.5)];
    let compared = |at: usize, step: f64| match (ours, known) {
        (true, _) => bounds[at].map_or(Compared::Nothing, Compared::AtMost),
        (false, Some(known)) if at == 0 => {
            Compared::Reproduces(Published::new(known[at], step, 20))
        }
        (false, Some(known)) => Compared::Beside(Published::new(known[at], step, 20)),
        (false, None) => Compared::Nothing,
    };
    let failed = ran.mean(|it| it.failed_after.unwrap_or(0.0) * 100.0);
    let never = ran.mean(|it| {
        if it.recovers_within_s.is_none() {
            100.0
        } else {
            0.0
        }
    });
    vec![
        Some(Figure::new(
            ran.count(|it| it.calls_while_down),
            compared(0, 1.0),
            0,
        )),
        Some(Figure::new(ran.peak(), compared(1, 0.01), 2)),
        Some(Figure::new(ran.recovers(), compared(2, 1.0), 0)),
        Some(Figure::new(failed, compared(3, 0.1), 1)),
        Some(Figure::new(
            never,
            if ours {
                Compared::AtMost(0.0)
            } else {
                Compared::Nothing
            },
            0,
        )),
    ]
}

fn what(kind: Kind) -> &'static str {
    match kind {
        Kind::Stall => "stalled",
        Kind::Blackhole => "silent",
    }
}

/// The same from ten clients and from ten thousand.
fn invariance(kind: Kind, ours: &[Ran]) -> Table {
    let mut table = Table::new(
        format!(
            "{}: holdoff from 10 to 10,000 clients, largest less smallest, in parts of the mean",
            what(kind)
        ),
        "",
    )
    .columns(["attempts while down", "failed after"]);
    let spread = |of: fn(&Ran) -> f64| {
        let values: Vec<f64> = ours.iter().map(of).collect();
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        (most - least) / mean
    };
    let down = spread(|ran| ran.result.counters.calls_while_down);
    let failed = spread(|ran| ran.result.figures.failed_after.unwrap_or(0.0));
    table.row(
        "spread",
        vec![
            Some(Figure::new(
                Measured::exactly(down),
                Compared::AtMost(0.05),
                3,
            )),
            Some(Figure::new(Measured::exactly(failed), Compared::Nothing, 3)),
        ],
    );
    table
}

fn plot(scenario: &Scenario, ran: &[Ran]) -> Plot {
    let shown = [
        Strategy::FullJitter,
        Strategy::Breaker,
        Strategy::Bucket,
        Strategy::Grpc,
        Strategy::Holdoff,
    ];
    let of_it = ran
        .iter()
        .filter(|ran| shown.contains(&ran.result.strategy));
    let series = of_it.map(|ran| {
        let its = &ran.result.series;
        let second = (1.0 / its.bucket_s).round().max(1.0) as usize;
        let points = its
            .goodput_per_second
            .chunks(second)
            .enumerate()
            .map(|(at, good)| {
                let middle = (at as f64 + 0.5) * second as f64 * its.bucket_s;
                (middle, good.iter().sum::<f64>() / good.len() as f64)
            });
        let curve = Series::of(short(ran.result.strategy), points);
        if ran.result.strategy == Strategy::Holdoff {
            curve.emphasised()
        } else {
            curve
        }
    });
    let bands = scenario.events.first().map(|event| {
        Band::new(
            "dependency stalls",
            event.at.secs(),
            event.at.secs() + event.lasts.secs(),
        )
    });
    Chart {
        name: "storm",
        title: "10,000 clients: a stall of ten seconds need not become an outage for ever".into(),
        alt: "Operations that succeed a second over time, around a stall of ten seconds, for full jitter, local breakers, buckets, gRPC throttling and holdoff".into(),
        x: Axis::linear("seconds").within(0.0, scenario.duration.secs()),
        y: Axis::linear("operations that succeed, a second"),
        series: series.collect(),
        bands: bands.into_iter().collect(),
        ..Chart::default()
    }
    .draw()
}
