//! The herd: every client loses its session at once, and the dependency refuses for half a
//! minute. What is sent meanwhile, how hard the herd comes back, and how long until all are
//! served. The scenario is the shipped `herd.yaml`, for fleets of a hundred to a hundred thousand.

use holdoff_decision::{Nanos, Policy};

use super::{
    figure::{Compared, Effort, Figure, Measured, Published, Section, Table, number},
    fleets::{self, Ran},
    herd_published::{Known, known},
    limits::Herd,
};
use crate::{
    Scenario, Strategy,
    plot::{Axis, Band, Chart, Plot, Series},
    reference,
    scenario::{Invalid, Traffic},
};

/// Those that stand in every table. Clients that retry at once are run in small fleets only: their
/// calls grow with the fleet, 300 million in the largest.
const OTHERS: [Strategy; 7] = [
    Strategy::None,
    Strategy::Fixed,
    Strategy::Exponential,
    Strategy::FullJitter,
    Strategy::Breaker,
    Strategy::BreakerJittered,
    Strategy::Bucket,
];
const AT_ONCE_UP_TO: u32 = 1_000;
const PROBE_EVERY: [(&str, u64); 2] = [
    ("**holdoff**, a probe a second", 1_000),
    ("**holdoff**, four probes a second", 250),
];

/// What is kept of a run for the plots.
struct Line {
    strategy: Strategy,
    clients: u32,
    ran: Ran,
}

pub fn section(effort: Effort, scenario: &Scenario) -> Result<Section, Vec<Invalid>> {
    let sizes: &[(u32, u64)] = effort.of(
        &[(100, 12)],
        &[(100, 20), (1_000, 20), (10_000, 10), (100_000, 3)],
    );
    let (mut tables, mut lines) = (Vec::new(), Vec::new());
    let mut limits = limits_table();
    for (clients, seeds) in sizes {
        let mut scenario = scenario.clone();
        scenario.clients = *clients;
        let (table, ours, mut others) = one_size(&scenario, *seeds)?;
        limits.row(
            format!("N = {}", number(f64::from(*clients), 0)),
            against_limits(&scenario, *seeds, &ours),
        );
        tables.push(table);
        lines.append(&mut others);
        lines.push(Line {
            strategy: Strategy::Holdoff,
            clients: *clients,
            ran: ours,
        });
    }
    tables.push(limits);
    Ok(Section {
        name: "herd",
        title: "S2: the herd that comes back",
        readings: readings(&lines),
        tables,
        plots: plots(&lines, scenario),
    })
}

fn one_size(scenario: &Scenario, seeds: u64) -> Result<(Table, Ran, Vec<Line>), Vec<Invalid>> {
    let clients = scenario.clients;
    let mut table = Table::new(
        format!("N = {} (published)", number(f64::from(clients), 0)),
        "strategy",
    )
    .columns([
        "calls while down",
        "per client",
        "peak 1 s, × C",
        "peak 100 ms, × C",
        "T99, s",
        "wasted calls",
    ]);
    let mut lines = Vec::new();
    for strategy in OTHERS {
        if strategy == Strategy::None && clients > AT_ONCE_UP_TO {
            continue;
        }
        // Each of these runs is a hundred times longer than the others.
        let seeds = if strategy == Strategy::None {
            seeds.min(2)
        } else {
            seeds
        };
        let ran = fleets::one(scenario, strategy, &Policy::default(), seeds)?;
        table.row(
            strategy.label(),
            cells(&ran, clients, known(strategy, clients)),
        );
        lines.push(Line {
            strategy,
            clients,
            ran,
        });
    }
    let mut first = None;
    for (name, every_ms) in PROBE_EVERY {
        let policy = reference::herd(Nanos::from_millis(every_ms));
        let ran = fleets::one(scenario, Strategy::Holdoff, &policy, seeds)?;
        let outage = fleets::outage_s(scenario, seeds);
        let mut cells = cells(&ran, clients, None);
        let bounds = [
            Some(outage * 1e3 / every_ms as f64 + 5.0),
            None,
            (clients >= 1_000).then_some(1.15),
            None,
            Some(if every_ms == 1_000 { 8.0 } else { 7.6 }),
            None,
        ];
        for (cell, bound) in cells.iter_mut().zip(bounds) {
            if let (Some(figure), Some(bound)) = (cell, bound) {
                figure.compared = Compared::AtMost(bound);
            }
        }
        table.row(name, cells);
        first.get_or_insert(ran);
    }
    let ours = first.ok_or_else(Vec::new)?;
    Ok((table, ours, lines))
}

fn cells(ran: &Ran, clients: u32, known: Option<Known>) -> Vec<Option<Figure>> {
    let beside = |pick: fn(&Known) -> f64, step| {
        known.map_or(Compared::Nothing, |known| {
            Compared::Reproduces(Published::new(pick(&known), step, known.runs))
        })
    };
    // Without jitter the number of calls is whole, and one outage of those published was too short
    // for the last: that is a tenth of a call a client, and no deviation shows it.
    let grain = match ran.result.strategy {
        Strategy::Exponential => 0.1 * f64::from(clients),
        _ => 1.0,
    };
    let down = ran.count(|it| it.calls_while_down);
    let each = ran.count(|it| it.calls_while_down / f64::from(clients));
    vec![
        Some(Figure::new(down, beside(|it| it.down, grain), 0)),
        Some(Figure::new(each, Compared::Nothing, 2)),
        Some(Figure::new(
            ran.peak(),
            shown(beside(|it| it.peak, 0.01)),
            2,
        )),
        Some(Figure::new(
            ran.peak_100ms(),
            shown(beside(|it| it.peak_100ms, 0.01)),
            2,
        )),
        Some(Figure::new(
            ran.recovers(),
            beside(|it| it.recovers, 0.1),
            1,
        )),
        Some(Figure::new(
            ran.count(|it| it.calls_wasted),
            shown(beside(|it| it.wasted, 1.0)),
            0,
        )),
    ]
}

/// Not held: a peak has hardly any deviation, so the least difference between two simulators (how
/// a bucket waits, where a second begins) is beyond it; wasted calls follow the horizon.
fn shown(compared: Compared) -> Compared {
    match compared {
        Compared::Reproduces(published) => Compared::Beside(published),
        Compared::Nothing | Compared::Beside(_) | Compared::AtMost(_) | Compared::AtLeast(_) => {
            compared
        }
    }
}

fn limits_table() -> Table {
    Table::new(
        "holdoff, a probe a second, in parts of the lower bounds; at most 1.2 is wanted",
        "fleet",
    )
    .columns([
        "bound: calls down, K + D/P",
        "ours / bound",
        "bound: T99, s",
        "ours / bound of T99",
        "peak 1 s, × C",
        "least calls of any uncoordinated policy as soon",
    ])
}

fn against_limits(scenario: &Scenario, seeds: u64, ours: &Ran) -> Vec<Option<Figure>> {
    let think_s = match scenario.traffic {
        Traffic::Closed { think } => think.secs(),
        Traffic::Open { .. } => 0.0,
    };
    let herd = Herd {
        clients: f64::from(scenario.clients),
        capacity: scenario.capacity(),
        think_s,
        late_s: 1.0,
    };
    let outage = fleets::outage_s(scenario, seeds);
    let (calls, soon) = (
        Herd::calls_of_a_coordinator(outage, 1.0),
        herd.recovers_in(1.0),
    );
    let part = |measured: Measured, whole: f64| Measured::exactly(measured.mean / whole);
    let recovers = ours.recovers();
    let exactly = |value: f64, digits| {
        Some(Figure::new(
            Measured::exactly(value),
            Compared::Nothing,
            digits,
        ))
    };
    let within = |measured| Some(Figure::new(measured, Compared::AtMost(1.2), 2));
    vec![
        exactly(calls, 0),
        within(part(ours.count(|it| it.calls_while_down), calls)),
        exactly(soon, 2),
        within(part(recovers, soon)),
        within(Measured::exactly(ours.peak().mean)),
        exactly(herd.calls_of_any_other(outage, recovers.mean), 0),
    ]
}

fn readings(lines: &[Line]) -> Vec<String> {
    let largest = lines
        .iter()
        .map(|line| line.clients)
        .max()
        .unwrap_or_default();
    let of = |strategy| {
        lines
            .iter()
            .find(|line| line.strategy == strategy && line.clients == largest)
    };
    let mut readings = vec![
        "**Not a win:** where the capacity is the limit, nobody is served sooner than N/C, and a \
         policy whose cap happens to fit comes near it without any coordinator (next section). \
         What coordination gives is the load while the dependency is down, the same behaviour at \
         every size, and no number to tune."
            .into(),
    ];
    if let (Some(ours), Some(jitter)) = (of(Strategy::Holdoff), of(Strategy::FullJitter)) {
        let (down, theirs) = (
            ours.ran.result.counters.calls_while_down,
            jitter.ran.result.counters.calls_while_down,
        );
        readings.push(format!(
            "At N = {}: {} calls while it is down, {} with full jitter.{}",
            number(f64::from(largest), 0),
            number(down, 0),
            number(theirs, 0),
            match down > theirs {
                true =>
                    " **Here holdoff fails:** all clients report and ask within a tenth of a \
                     second, one coordinator is overrun, and those that hear nothing within \
                     50 ms decide alone.",
                false => "",
            }
        ));
    }
    readings
}

fn plots(lines: &[Line], scenario: &Scenario) -> Vec<Plot> {
    vec![down_plot(lines), load_plot(lines, scenario)]
}

fn down_plot(lines: &[Line]) -> Plot {
    let strategies = OTHERS.into_iter().chain([Strategy::Holdoff]);
    let series = strategies.map(|strategy| {
        let of_it = lines.iter().filter(|line| line.strategy == strategy);
        let points = of_it.map(|line| {
            let down = line.ran.result.counters.calls_while_down;
            (f64::from(line.clients), down)
        });
        let curve = Series::of(short(strategy), points);
        if strategy == Strategy::Holdoff {
            curve.emphasised()
        } else {
            curve
        }
    });
    Chart {
        name: "herd-down",
        title: title_of_calls(lines),
        alt: "Calls during an outage of half a minute over the number of clients, logarithmic, for seven strategies and holdoff".into(),
        x: Axis::log("clients"),
        y: Axis::log("calls while it is down"),
        series: series.collect(),
        ..Chart::default()
    }
    .draw()
}

/// What the figures say, not what they should.
fn title_of_calls(lines: &[Line]) -> String {
    let ours = lines
        .iter()
        .filter(|line| line.strategy == Strategy::Holdoff);
    let beyond = ours.filter(|line| line.ran.result.counters.calls_while_down > 100.0);
    match beyond.map(|line| line.clients).min() {
        None => "While it is down: one probe a second, whatever the size of the fleet".into(),
        Some(clients) => format!(
            "While it is down: one probe a second, but not for {} clients",
            number(f64::from(clients), 0)
        ),
    }
}

/// The load around the recovery, of the first seed.
fn load_plot(lines: &[Line], scenario: &Scenario) -> Plot {
    let clients = lines
        .iter()
        .map(|line| line.clients)
        .filter(|clients| *clients <= 10_000)
        .max();
    let clients = clients.unwrap_or_default();
    let shown = [
        Strategy::Fixed,
        Strategy::FullJitter,
        Strategy::Breaker,
        Strategy::BreakerJittered,
        Strategy::Holdoff,
    ];
    let outage = fleets::outage_s(scenario, 1);
    let begin = scenario.events.first().map_or(0.0, |event| event.at.secs());
    let (from, to) = (begin - 5.0, begin + outage + 45.0);
    let of_it = lines
        .iter()
        .filter(|line| line.clients == clients && shown.contains(&line.strategy));
    let series = of_it.map(|line| {
        let its = &line.ran.result.series;
        let second = (1.0 / its.bucket_s).round().max(1.0) as usize;
        let points = its
            .calls_per_second
            .chunks(second)
            .enumerate()
            .map(|(at, calls)| {
                let middle = (at as f64 + 0.5) * second as f64 * its.bucket_s;
                (
                    middle,
                    calls.iter().sum::<f64>() / calls.len() as f64 / line.ran.capacity,
                )
            });
        let within = points.filter(|(at, _)| (from..to).contains(at));
        let curve = Series::of(
            short(line.strategy),
            within.map(|(at, load)| (at - begin, load)),
        );
        if line.strategy == Strategy::Holdoff {
            curve.emphasised()
        } else {
            curve
        }
    });
    let mut series: Vec<Series> = series.collect();
    series.push(Series::dashed(
        "capacity",
        [(from - begin, 1.0), (to - begin, 1.0)],
    ));
    Chart {
        name: "herd-load",
        title: format!("{} clients: the load before, in and after an outage", number(f64::from(clients), 0)),
        alt: "Calls a second in capacities over time around an outage of half a minute, for fixed waits, full jitter, local breakers and holdoff".into(),
        x: Axis::linear("seconds since the outage began").within(from - begin, to - begin),
        y: Axis::log("load, in capacities").within(0.0001, 20.0),
        series,
        bands: vec![Band::new("dependency down", 0.0, outage)],
        ..Chart::default()
    }
    .draw()
}

/// As a legend has room for.
pub fn short(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::NoRetry => "no retries",
        Strategy::None => "at once",
        Strategy::Fixed => "fixed 1 s",
        Strategy::Exponential => "exponential",
        Strategy::FullJitter => "full jitter",
        Strategy::EqualJitter => "equal jitter",
        Strategy::Breaker => "+ breaker each",
        Strategy::BreakerJittered => "+ jittered breaker each",
        Strategy::Bucket => "+ bucket each",
        Strategy::Grpc => "gRPC throttling",
        Strategy::Aws => "AWS quota",
        Strategy::Sre => "SRE throttling",
        Strategy::Holdoff => "holdoff",
    }
}
