//! The published figures of the retry budgets, and ours beside them.

use super::{
    budgets::{Outcomes, Retrying, Rules, run},
    budgets_of_others::Local,
    figure::{Compared, Effort, Figure, Measured, Published, Section, Table, number},
};
use crate::plot::{Axis, Chart, Series};

const FAILING: [f64; 5] = [0.05, 0.1, 0.2, 0.5, 1.0];

/// A strategy, its clients, and the load and success of one run of an independent simulation.
type Row = (&'static str, u32, Retrying, [f64; 5], [Option<f64>; 5]);

const PUBLISHED: [Row; 8] = [
    (
        "3 retries",
        100,
        Retrying::Local(Local::Retries),
        [1.053, 1.113, 1.251, 1.876, 4.0],
        [Some(1.0), Some(1.0), Some(0.998), Some(0.937), Some(0.0)],
    ),
    (
        "local bucket, 10 clients",
        10,
        Retrying::Local(Local::Bucket),
        [1.053, 1.096, 1.103, 1.104, 1.104],
        [Some(1.0), Some(0.983), Some(0.884), Some(0.552), None],
    ),
    (
        "local bucket, 1,000 clients",
        1_000,
        Retrying::Local(Local::Bucket),
        [1.053, 1.110, 1.236, 1.486, 1.530],
        [Some(1.0), Some(1.0), Some(0.989), Some(0.741), None],
    ),
    (
        "local bucket, 10,000 clients",
        10_000,
        Retrying::Local(Local::Bucket),
        [1.053, 1.110, 1.248, 1.856, 3.427],
        [Some(1.0), Some(1.0), Some(0.999), Some(0.929), None],
    ),
    (
        "local breaker, 10 clients",
        10,
        Retrying::Local(Local::Breaker),
        [1.050, 1.035, 1.0, 1.0, 1.0],
        [Some(0.998), Some(0.932), Some(0.802), Some(0.496), None],
    ),
    (
        "local breaker, 1,000 clients",
        1_000,
        Retrying::Local(Local::Breaker),
        [1.005, 1.006, 1.003, 1.002, 1.0],
        [Some(0.954), Some(0.905), Some(0.803), Some(0.503), None],
    ),
    (
        "shared bucket",
        100,
        Retrying::Shared(Local::Bucket),
        [1.053, 1.094, 1.1, 1.1, 1.1],
        [Some(1.0), Some(0.983), Some(0.880), Some(0.555), None],
    ),
    (
        "shared breaker",
        100,
        Retrying::Shared(Local::Breaker),
        [1.052, 1.029, 1.0, 1.0, 1.0],
        [Some(1.0), Some(0.927), Some(0.8), Some(0.499), None],
    ),
];

/// What holdoff must reach, at any number of clients.
const LOAD_AT_MOST: f64 = 1.10;
const SUCCESS_AT_5_PERCENT: f64 = 0.9995;

pub fn section(effort: Effort) -> Section {
    let columns = || FAILING.map(|share| format!("{:.0} %", share * 100.0));
    let mut load = Table::new(
        "load: attempts a call, by the share that fails (published)",
        "strategy",
    )
    .columns(columns());
    let mut success = Table::new(
        "success: share of the calls that came through (published)",
        "strategy",
    )
    .columns(columns());
    let runs = effort.of(8, 20);
    for (name, clients, retrying, loads, successes) in PUBLISHED {
        let (mut of_load, mut of_success) = (Vec::new(), Vec::new());
        for ((failing, published_load), published_success) in
            FAILING.iter().zip(loads).zip(successes)
        {
            let (ours, came_through) = mean(clients, *failing, retrying, runs);
            let beside = |value| Compared::Reproduces(Published::new(value, 0.001, 1));
            let compared = match (name, *failing) {
                ("local breaker, 1,000 clients", 0.5) => {
                    Compared::Beside(Published::new(published_load, 0.001, 1))
                }
                _ => beside(published_load),
            };
            of_load.push(Some(Figure::new(ours, compared, 3)));
            let compared = published_success.map_or(Compared::Nothing, beside);
            of_success.push(Some(Figure::new(came_through, compared, 3)));
        }
        load.row(name, of_load);
        success.row(name, of_success);
    }
    for clients in effort.of(vec![10, 10_000], vec![10, 100, 1_000, 10_000]) {
        let budget = format!(
            "**holdoff, budget alone**, {} clients",
            number(f64::from(clients), 0)
        );
        ours(
            &mut load,
            &mut success,
            &budget,
            clients,
            Rules::Budget,
            runs,
        );
    }
    let breakers = [
        (
            "**holdoff, and a breaker for retries**",
            Rules::RetriesBroken,
        ),
        ("**holdoff, and a breaker for all calls**", Rules::AllBroken),
    ];
    for (name, rules) in breakers {
        ours(
            &mut load,
            &mut success,
            &format!("{name}, 100 clients"),
            100,
            rules,
            runs,
        );
    }
    let came_through = |name: &str, column: &str| {
        let found = success
            .figures()
            .find(|cell| cell.0.contains(name) && cell.1 == column);
        found.map_or(0.0, |(_, _, figure)| figure.ours.mean * 100.0)
    };
    let broken = format!(
        "**Here a breaker does harm.** These failures are chance, not load: refusing calls mends \
         nothing. At a steady 20 % the default breaker, which refuses first attempts too, lets \
         {:.0} % of the calls come through where no breaker lets {:.0} %, and with \
         `applies_to: retries` it is {:.0} %. A dependency that is known to fail like that wants \
         `applies_to: retries`, or a window with a ratio above its usual one.",
        came_through("all calls", "20 %"),
        came_through("3 retries", "20 %"),
        came_through("for retries", "20 %"),
    );
    Section {
        name: "budgets",
        title: "S5: what retries cost when a share of all attempts fails",
        tables: vec![load, success],
        plots: vec![chart(effort)],
        readings: vec![
            "A bucket of five tokens in each client is worth nothing to a fleet of ten thousand: \
             together they hold 50,000. One budget for the dependency is the same at any size."
                .into(),
            "Plain retries save more calls where load does not matter: at 50 % failures three \
             retries bring 94 % through, a budget of a tenth 55 %. That is what it is for."
                .into(),
            broken,
            "One figure is shown and not held: a local breaker of 1,000 clients at 50 %. Under \
             the published rule a client with ten calls may retry only if its first nine \
             succeed, one time in 512, so no 1.002 can come of it."
                .into(),
        ],
    }
}

fn ours(load: &mut Table, success: &mut Table, name: &str, clients: u32, rules: Rules, runs: u32) {
    let results = FAILING.map(|failing| mean(clients, failing, Retrying::Holdoff(rules), runs));
    let bound = |at: usize| match at {
        0 if rules == Rules::Budget => Compared::AtLeast(SUCCESS_AT_5_PERCENT),
        _ => Compared::Nothing,
    };
    let loads = results
        .iter()
        .map(|result| Some(Figure::new(result.0, Compared::AtMost(LOAD_AT_MOST), 3)));
    load.row(name, loads.collect());
    let successes = results.iter().enumerate();
    let successes = successes.map(|(at, result)| Some(Figure::new(result.1, bound(at), 4)));
    success.row(name, successes.collect());
}

fn mean(clients: u32, failing: f64, retrying: Retrying, runs: u32) -> (Measured, Measured) {
    let results: Vec<Outcomes> = (1..=runs)
        .map(|seed| run(clients, failing, retrying, u64::from(seed)))
        .collect();
    let load = results.iter().map(Outcomes::load).collect();
    (load, results.iter().map(Outcomes::success).collect())
}

fn chart(effort: Effort) -> crate::plot::Plot {
    let lines = [
        ("3 retries", 100, Retrying::Local(Local::Retries), false),
        (
            "bucket each, 10 clients",
            10,
            Retrying::Local(Local::Bucket),
            false,
        ),
        (
            "bucket each, 1,000 clients",
            1_000,
            Retrying::Local(Local::Bucket),
            false,
        ),
        (
            "bucket each, 10,000 clients",
            10_000,
            Retrying::Local(Local::Bucket),
            false,
        ),
        (
            "holdoff, 10 to 10,000 clients",
            10_000,
            Retrying::Holdoff(Rules::Budget),
            true,
        ),
    ];
    let steps: Vec<f64> = match effort {
        Effort::Quick => vec![0.05, 0.5, 1.0],
        Effort::Full => (0..=20).map(|step| f64::from(step) / 20.0).collect(),
    };
    let series = lines.map(|(name, clients, retrying, emphasised)| {
        let points = steps.iter().map(|failing| {
            let load = run(clients, *failing, retrying, 1).load();
            (failing * 100.0, load)
        });
        let line = Series::of(name, points);
        if emphasised { line.emphasised() } else { line }
    });
    Chart {
        name: "budgets",
        title: "One budget for the fleet adds a tenth, whatever fails and however many ask".into(),
        alt: "Load on the dependency over the share of attempts that fail, for local token buckets at three fleet sizes and for holdoff".into(),
        x: Axis::linear("attempts that fail, %"),
        y: Axis::linear("load, attempts a call").within(0.9, 4.1),
        series: series.into(),
        ..Chart::default()
    }
    .draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_loads_and_successes_come_out_and_ours_stay_within_a_tenth() {
        let section = section(Effort::Quick);
        assert_eq!(section.missed(), Vec::<String>::new());
    }

    #[test]
    fn local_buckets_fail_with_the_fleet_and_the_shared_budget_does_not() {
        let load = |clients, retrying| run(clients, 1.0, retrying, 1).load();
        assert!(load(10_000, Retrying::Local(Local::Bucket)) > 3.0);
        let ours = Retrying::Holdoff(Rules::Budget);
        assert!(load(10_000, ours) <= 1.1 && load(10, ours) <= 1.1);
    }
}
