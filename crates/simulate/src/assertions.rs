//! What a scenario expects, held against what was found.

use crate::{
    results::{Results, StrategyResult, Verdict},
    scenario::{Expectations, Scenario},
    strategy::Strategy,
    timeline::Timeline,
};

/// Every expectation about a strategy that was run, in the order of strategies and fields.
pub fn judge(scenario: &Scenario, results: &Results) -> Vec<Verdict> {
    let expected = scenario.assertions.iter();
    let afterwards = Afterwards::of(scenario, results);
    expected
        .filter_map(|(strategy, wanted)| results.of(*strategy).map(|found| (wanted, found)))
        .flat_map(|(wanted, found)| {
            judge_one(wanted, found, results.capacity_per_second, afterwards)
        })
        .collect()
}

/// What there is after the last disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Afterwards {
    /// All of the run: nothing happens.
    Everything,
    /// What follows it.
    Some,
    /// Nothing: under one seed at least it does not end within the run.
    Nothing,
}

impl Afterwards {
    fn of(scenario: &Scenario, results: &Results) -> Self {
        let mut seeds = results.seeds.iter();
        let endless = |seed: &u64| Timeline::new(scenario, *seed).last_end.is_none();
        match results.disturbed {
            false => Self::Everything,
            true if seeds.any(endless) => Self::Nothing,
            true => Self::Some,
        }
    }
}

fn judge_one(
    wanted: &Expectations,
    found: &StrategyResult,
    capacity: f64,
    afterwards: Afterwards,
) -> Vec<Verdict> {
    let (figures, counters) = (&found.figures, &found.counters);
    let strategy = found.strategy;
    let seconds = |name, wanted: Option<crate::scenario::Span>, found: Option<f64>| {
        wanted.map(|it| at_most(strategy, name, it.secs(), found, Unit::Seconds))
    };
    let number = |name, wanted: Option<f64>, found: f64, unit| {
        wanted.map(|it| at_most(strategy, name, it, Some(found), unit))
    };
    let peak = match afterwards {
        Afterwards::Everything | Afterwards::Some => Some(figures.peak_per_second),
        Afterwards::Nothing => None,
    };
    let of_peak = |name, wanted: Option<f64>, found: Option<f64>, unit| {
        wanted.map(|it| at_most(strategy, name, it, found, unit))
    };
    let recovers = |wanted: crate::scenario::Span| match afterwards {
        Afterwards::Everything => nothing_wrong(strategy, "recovers_within", wanted.secs()),
        Afterwards::Some | Afterwards::Nothing => at_most(
            strategy,
            "recovers_within",
            wanted.secs(),
            figures.recovers_within_s,
            Unit::Seconds,
        ),
    };
    let share = |name, wanted: Option<f64>, found: Option<f64>| {
        wanted.map(|it| at_most(strategy, name, it, found, Unit::Share))
    };
    [
        seconds("opens_within", wanted.opens_within, figures.opens_within_s),
        wanted.recovers_within.map(recovers),
        of_peak("peak_rps", wanted.peak_rps, peak, Unit::PerSecond),
        of_peak(
            "peak_of_capacity",
            wanted.peak_of_capacity,
            peak.map(|peak| peak / capacity),
            Unit::Times,
        ),
        number(
            "wasted_calls",
            wanted.wasted_calls,
            counters.calls_wasted,
            Unit::Calls,
        ),
        number(
            "calls_while_down",
            wanted.calls_while_down,
            counters.calls_while_down,
            Unit::Calls,
        ),
        wanted
            .goodput
            .map(|it| at_least(strategy, "goodput", it, figures.goodput)),
        share("failed_after", wanted.failed_after, figures.failed_after),
        wanted.amplification.map(|it| {
            at_most(
                strategy,
                "amplification",
                it,
                figures.amplification,
                Unit::Times,
            )
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[derive(Clone, Copy)]
enum Unit {
    Seconds,
    PerSecond,
    Calls,
    Share,
    Times,
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Self::Seconds => format!("{value:.2} s"),
            Self::PerSecond => format!("{value:.0} calls/s"),
            Self::Calls => format!("{value:.0} calls"),
            Self::Share => format!("{:.2} %", value * 100.0),
            Self::Times => format!("{value:.2}"),
        }
    }

    /// What is missing never happened, or had nothing to happen to.
    fn show_missing(self) -> &'static str {
        match self {
            Self::Seconds => "never",
            Self::PerSecond | Self::Calls | Self::Share | Self::Times => "nothing to measure",
        }
    }
}

fn at_most(strategy: Strategy, name: &str, wanted: f64, found: Option<f64>, unit: Unit) -> Verdict {
    Verdict {
        strategy,
        assertion: name.to_owned(),
        wanted: format!("at most {}", unit.show(wanted)),
        found: found.map_or_else(|| unit.show_missing().to_owned(), |it| unit.show(it)),
        holds: found.is_some_and(|it| it <= wanted),
    }
}

/// Where nothing happens, it never went badly.
fn nothing_wrong(strategy: Strategy, name: &str, wanted: f64) -> Verdict {
    Verdict {
        strategy,
        assertion: name.to_owned(),
        wanted: format!("at most {}", Unit::Seconds.show(wanted)),
        found: "nothing was wrong".to_owned(),
        holds: true,
    }
}

fn at_least(strategy: Strategy, name: &str, wanted: f64, found: Option<f64>) -> Verdict {
    let unit = Unit::Share;
    Verdict {
        strategy,
        assertion: name.to_owned(),
        wanted: format!("at least {}", unit.show(wanted)),
        found: found.map_or_else(|| unit.show_missing().to_owned(), |it| unit.show(it)),
        holds: found.is_some_and(|it| it >= wanted),
    }
}
