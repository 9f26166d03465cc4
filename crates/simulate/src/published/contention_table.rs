//! The published figures of the contention experiment, and ours beside them.

use holdoff_decision::Nanos;

use super::{
    contention::{Run, Wait, published_policies, run},
    figure::{Compared, Effort, Figure, Measured, Published, Section, Table},
};
use crate::plot::{Axis, Chart, Series};

/// Calls and milliseconds of none, exponential, decorrelated, equal and full jitter: means of
/// 100 runs of an independent simulation after the published source.
const PUBLISHED: [(u32, [f64; 5], [f64; 5]); 6] = [
    (
        10,
        [51.2, 50.8, 37.6, 42.4, 38.8],
        [383.0, 3_375.0, 434.0, 758.0, 476.0],
    ),
    (
        20,
        [152.7, 151.5, 101.2, 107.5, 99.8],
        [607.0, 14_755.0, 832.0, 1_595.0, 983.0],
    ),
    (
        50,
        [688.5, 626.6, 376.1, 346.7, 331.8],
        [1_144.0, 36_585.0, 2_232.0, 4_264.0, 2_815.0],
    ),
    (
        100,
        [2_423.8, 1_868.9, 1_000.5, 811.5, 797.5],
        [2_025.0, 64_207.0, 4_668.0, 6_652.0, 4_910.0],
    ),
    (
        150,
        [5_150.6, 3_555.4, 1_759.7, 1_323.0, 1_316.6],
        [2_881.0, 86_016.0, 6_551.0, 8_289.0, 6_272.0],
    ),
    (
        190,
        [7_995.1, 5_201.2, 2_433.7, 1_759.8, 1_771.5],
        [3_539.0, 102_256.0, 8_009.0, 9_395.0, 7_499.0],
    ),
];

/// Disjoint windows of a read and a write, 20 ms on average each.
const LIMIT_MS: f64 = 20.0;

/// Runs it for up to `most` clients.
pub fn section(effort: Effort, most: u32) -> Section {
    let runs = effort.of(20, 100);
    let mut calls = Table::new("calls (published)", "N").columns(names());
    let mut times = Table::new("time in ms (published)", "N").columns(names());
    // The last differs from the third in time, not in calls.
    let mut curves: Vec<Series> = names().into_iter().take(5).map(Series::new).collect();
    for (clients, published_calls, published_ms) in PUBLISHED.iter().filter(|row| row.0 <= most) {
        let (mut call_row, mut time_row) = (Vec::new(), Vec::new());
        for (at, (_, wait)) in published_policies().iter().enumerate() {
            let (of_calls, of_ms) = mean(*clients, wait, runs);
            // Behind those of the source stands one of ours, which is another formula.
            let beside = |row: &[f64; 5], step| {
                row.get(at).map_or(Compared::Nothing, |value| {
                    Compared::Reproduces(Published::new(*value, step, 100))
                })
            };
            call_row.push(Some(Figure::new(of_calls, beside(published_calls, 0.1), 1)));
            time_row.push(Some(Figure::new(of_ms, beside(published_ms, 1.0), 0)));
            if let Some(curve) = curves.get_mut(at) {
                curve.push(f64::from(*clients), of_calls.mean / f64::from(*clients));
            }
        }
        calls.row(clients.to_string(), call_row);
        times.row(clients.to_string(), time_row);
    }
    let (ours, mut curve) = coordinated(effort, most);
    curves.append(&mut curve);
    let limit = PUBLISHED.iter().filter(|row| row.0 <= most);
    curves.push(Series::dashed(
        "limit",
        limit.map(|row| (f64::from(row.0), 1.0)),
    ));
    Section {
        name: "contention",
        title: "S1: clients that contend for one row",
        readings: readings(&ours, most),
        tables: vec![calls, times, ours],
        plots: vec![
            Chart {
                name: "contention",
                title: "Asked first, holdoff needs one call a client; jitter alone eight".into(),
                alt: "Calls a client over the number of contending clients, for five ways to back off and two of holdoff".into(),
                x: Axis::linear("contending clients"),
                y: Axis::log("calls a client"),
                series: curves,
                ..Chart::default()
            }
            .draw(),
        ],
    }
}

fn names() -> [&'static str; 6] {
    published_policies().map(|(name, _)| name)
}

fn mean(clients: u32, wait: &Wait, runs: u32) -> (Measured, Measured) {
    let results = (0..runs).map(|seed| run(clients, wait, u64::from(seed) + 1));
    let (mut calls, mut millis) = (Measured::default(), Measured::default());
    results.for_each(|result| {
        calls.add(f64::from(result.calls));
        millis.add(result.millis);
    });
    (calls, millis)
}

/// A way to ask, what an idealised coordinator of virtual slots needed (calls, milliseconds and
/// questions of 100 clients), and the calls a client that holdoff may need.
type Asked = (&'static str, Wait, Option<[f64; 3]>, Option<f64>);

fn asked() -> [Asked; 5] {
    let every = Nanos::from_millis;
    [
        (
            "after a failure, 27 ms",
            Wait::Planned(every(27)),
            None,
            Some(2.1),
        ),
        (
            "after a failure, 28 ms",
            Wait::Planned(every(28)),
            Some([204.5, 2_988.0, 104.0]),
            None,
        ),
        (
            "first, 26 ms",
            Wait::AskFirst(every(26)),
            Some([112.0, 2_950.0, 112.0]),
            None,
        ),
        (
            "first, 28 ms",
            Wait::AskFirst(every(28)),
            Some([105.0, 2_973.0, 105.0]),
            Some(1.1),
        ),
        (
            "first, 30 ms",
            Wait::AskFirst(every(30)),
            Some([102.0, 3_092.0, 102.0]),
            None,
        ),
    ]
}

/// holdoff, reactive and asked first, with places every so many milliseconds.
fn coordinated(effort: Effort, most: u32) -> (Table, Vec<Series>) {
    let mut table = Table::new(
        "holdoff, N = 100 (an idealised coordinator of virtual slots)",
        "asked, places every",
    )
    .columns([
        "calls",
        "calls a client",
        "time in ms",
        "time in s",
        "questions",
        "refused for good",
    ]);
    for (name, wait, idealised, bound) in asked() {
        let runs = (0..effort.of(20, 100)).map(|seed| run(100, &wait, seed + 1));
        let runs: Vec<Run> = runs.collect();
        let of = |pick: fn(&Run) -> f64| runs.iter().map(pick).collect::<Measured>();
        let beside = |at: usize| {
            let value = idealised.and_then(|values| values.get(at).copied());
            value.map_or(Compared::Nothing, |value| {
                Compared::Beside(Published::new(value, 1.0, 100))
            })
        };
        let reach = |bound: Option<f64>| bound.map_or(Compared::Nothing, Compared::AtMost);
        let cells = [
            Figure::new(of(|run| f64::from(run.calls)), beside(0), 1),
            Figure::new(of(|run| f64::from(run.calls) / 100.0), reach(bound), 2),
            Figure::new(of(|run| run.millis), beside(1), 0),
            Figure::new(of(|run| run.millis / 1e3), reach(bound.map(|_| 3.0)), 2),
            Figure::new(of(|run| f64::from(run.questions)), beside(2), 0),
            Figure::new(of(|run| f64::from(run.refused)), Compared::AtMost(0.0), 0),
        ];
        table.row(name, cells.map(Some).into());
    }
    let space = Nanos::from_millis(28);
    let curves = [
        ("holdoff, after a failure", Wait::Planned(space)),
        ("holdoff, asked first", Wait::AskFirst(space)),
    ];
    let curves = curves.map(|(name, wait)| {
        let mut curve = Series::new(name).emphasised();
        for (clients, _, _) in PUBLISHED.iter().filter(|row| row.0 <= most) {
            let (calls, _) = mean(*clients, &wait, effort.of(5, 50));
            curve.push(f64::from(*clients), calls.mean / f64::from(*clients));
        }
        curve
    });
    (table, curves.into())
}

fn readings(ours: &Table, most: u32) -> Vec<String> {
    let limit = LIMIT_MS * 100.0;
    let mut readings = vec![format!(
        "The physical limit for 100 clients is 100 calls and {limit:.0} ms (disjoint read-to-write \
         windows of {LIMIT_MS:.0} ms on average)."
    )];
    let first = ours
        .figures()
        .find(|(row, column, _)| *row == "first, 28 ms" && *column == "calls");
    if let (Some((_, _, figure)), true) = (first, most >= 100) {
        readings.push(format!(
            "Asked first, holdoff needs {:.1} times fewer calls than full jitter, the best of the \
             published policies. It does not finish sooner than clients that never wait: they are \
             at the limit of time, at 24 calls each.",
            797.5 / figure.ours.mean
        ));
    }
    readings.push(
        "Asked after a failure, every client fails once before it has a place: two calls each are \
         the least that a reactive coordinator can do."
            .into(),
    );
    readings.push(
        "holdoff's decorrelated jitter clamps the range and not what was drawn, so no herd stands \
         on the cap; it needs as many calls, and less time where the cap is reached."
            .into(),
    );
    readings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_calls_and_times_come_out_within_sampling_error() {
        let section = section(Effort::Quick, 50);
        let reproduced = section.tables.iter().flat_map(Table::figures);
        assert!(reproduced.count() >= 30);
        assert_eq!(section.missed(), Vec::<String>::new());
    }

    #[test]
    fn full_jitter_more_than_halves_the_calls_of_a_hundred_clients() {
        let policies = published_policies();
        let calls = |at: usize| mean(100, &policies[at].1, 5).0.mean;
        assert!(calls(4) < 0.5 * calls(1), "{} {}", calls(4), calls(1));
    }

    #[test]
    fn asked_first_needs_at_most_a_tenth_more_calls_than_clients_and_three_seconds() {
        let (table, _) = coordinated(Effort::Quick, 20);
        assert_eq!(table.missed(), Vec::<String>::new());
    }

    #[test]
    fn a_run_is_repeated_by_its_seed() {
        let wait = Wait::AskFirst(Nanos::from_millis(28));
        assert_eq!(run(50, &wait, 7), run(50, &wait, 7));
        assert_ne!(run(50, &wait, 7), run(50, &wait, 8));
    }
}
