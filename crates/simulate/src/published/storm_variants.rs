//! The storm under other loads and outages: how near to its capacity the dependency is used, the
//! thresholds of Bronson et al., "Metastable Failures in Distributed Systems" (2021), and outages
//! so short that a breaker costs more than it saves.

use holdoff_decision::Policy;

use super::{
    figure::{Compared, Effort, Figure, Published, Table, number},
    fleets::{self, Ran},
};
use crate::{
    Scenario, Strategy, reference,
    scenario::{Invalid, Span, Traffic},
};

pub fn tables(effort: Effort, scenario: &Scenario) -> Result<Vec<Table>, Vec<Invalid>> {
    Ok(vec![
        utilisation(effort, scenario)?,
        metastable(effort, scenario)?,
        blips(effort, scenario)?,
    ])
}

pub fn readings() -> Vec<String> {
    vec![
        "Local protection is per client: at 10,000 clients a breaker never has the calls that it \
         needs to trip, and the buckets hold more tokens than the storm has retries. The same \
         settings work at ten clients."
            .into(),
        "**The price of a breaker:** a blip of a second that would have passed by itself costs \
         the operations that are refused until the probes are through. At two seconds full \
         jitter alone has lost the dependency for good."
            .into(),
        "In a silent outage a budget alone recovers at once, and a breaker costs a second. In a \
         stall it is the other way round; nobody knows beforehand which it will be."
            .into(),
    ]
}

fn ran(scenario: &Scenario, strategy: Strategy, seeds: u64) -> Result<Ran, Vec<Invalid>> {
    let policy = match strategy {
        Strategy::Holdoff => reference::storm(),
        _ => Policy::default(),
    };
    fleets::one(scenario, strategy, &policy, seeds)
}

/// A stall at several shares of the capacity, 1,000 clients.
fn utilisation(effort: Effort, scenario: &Scenario) -> Result<Table, Vec<Invalid>> {
    let mut table = Table::new("stalled for 10 s, N = 1,000: T99 in s, and failed after in %, by the share of the capacity in use (published)", "in use")
        .columns(["holdoff: T99", "failed after", "bucket per client: T99", "no retries: T99"]);
    let published = [
        (0.5, 7.0),
        (0.7, f64::NAN),
        (0.8, 12.0),
        (0.9, 22.0),
        (0.95, 41.0),
    ];
    for (share, bucket) in published.into_iter().skip(effort.of(4, 0)) {
        let mut scenario = scenario.clone();
        scenario.clients = 1_000;
        scenario.traffic = Traffic::Open {
            per_second: 1_000.0 * share,
        };
        let ours = ran(&scenario, Strategy::Holdoff, effort.of(1, 5))?;
        let others = ran(&scenario, Strategy::Bucket, effort.of(1, 5))?;
        let without = ran(&scenario, Strategy::NoRetry, effort.of(1, 5))?;
        let beside = match bucket.is_nan() {
            true => Compared::Nothing,
            false => Compared::Beside(Published::new(bucket, 1.0, 20)),
        };
        let failed = ours.mean(|it| it.failed_after.unwrap_or(0.0) * 100.0);
        table.row(
            format!("{:.0} %", share * 100.0),
            vec![
                Some(Figure::new(ours.recovers(), Compared::AtMost(2.0), 0)),
                Some(Figure::new(failed, Compared::AtMost(1.5), 1)),
                Some(Figure::new(others.recovers(), beside, 0)),
                Some(Figure::new(without.recovers(), Compared::Nothing, 0)),
            ],
        );
    }
    Ok(table)
}

/// A database good for 300 queries a second, one retry after a second, a stall of ten seconds.
fn metastable(effort: Effort, scenario: &Scenario) -> Result<Table, Vec<Invalid>> {
    let mut base = scenario.clone();
    base.clients = 1_000;
    base.dependency.capacity_per_second = Some(300.0);
    base.operation.max_attempts = 2;
    base.duration = Span::from_secs(330);
    let seeds = effort.of(1, 5);
    let mut table = Table::new("300 calls/s, one retry after a second, stalled for 10 s: T99 in s (Bronson et al.: recovers only below 150 calls/s)", "calls a second")
        .columns(["one retry: runs that never recover, %", "one retry: T99", "holdoff: T99"]);
    let cases: &[f64] = effort.of(&[145.0, 280.0], &[145.0, 149.0, 155.0, 200.0, 280.0]);
    for per_second in cases {
        let mut scenario = base.clone();
        scenario.traffic = Traffic::Open {
            per_second: *per_second,
        };
        let retrying = ran(&scenario, Strategy::Fixed, seeds)?;
        let ours = ran(&scenario, Strategy::Holdoff, seeds)?;
        let never = retrying.mean(|it| {
            if it.recovers_within_s.is_none() {
                100.0
            } else {
                0.0
            }
        });
        let expected = match per_second {
            145.0 => Compared::AtMost(0.0),
            149.0 => Compared::Beside(Published::new(80.0, 5.0, 20)),
            _ => Compared::AtLeast(100.0),
        };
        table.row(
            number(*per_second, 0),
            vec![
                Some(Figure::new(never, expected, 0)),
                Some(Figure::new(retrying.recovers(), Compared::Nothing, 0)),
                Some(Figure::new(ours.recovers(), Compared::AtMost(3.0), 0)),
            ],
        );
    }
    Ok(table)
}

/// Outages of one and two seconds.
fn blips(effort: Effort, scenario: &Scenario) -> Result<Table, Vec<Invalid>> {
    let mut table = Table::new("stalled for a moment, N = 1,000: operations that failed after it, and T99 in s (published)", "")
        .columns(["full jitter: failed", "full jitter: T99", "breaker per client: failed", "breaker per client: T99", "holdoff: failed", "holdoff: T99"]);
    for (seconds, known) in [
        (1, [Some(0.0), Some(0.0), Some(940.0)]),
        (2, [None, None, None]),
    ] {
        let mut scenario = scenario.clone();
        scenario.clients = 1_000;
        for event in &mut scenario.events {
            event.lasts = Span::from_secs(seconds);
        }
        let mut cells = Vec::new();
        let strategies = [Strategy::FullJitter, Strategy::Breaker, Strategy::Holdoff];
        for (strategy, known) in strategies.into_iter().zip(known) {
            let ran = ran(&scenario, strategy, effort.of(1, 5))?;
            let after = (scenario.duration.secs() - 20.0 - seconds as f64) * 800.0;
            let failed = ran.mean(|it| it.failed_after.unwrap_or(0.0) * after);
            let beside = known.map_or(Compared::Nothing, |known| {
                Compared::Beside(Published::new(known, 1.0, 20))
            });
            cells.push(Some(Figure::new(failed, beside, 0)));
            cells.push(Some(Figure::new(ran.recovers(), Compared::Nothing, 0)));
        }
        table.row(format!("{seconds} s"), cells);
    }
    Ok(table)
}
