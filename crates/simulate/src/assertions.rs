//! What a scenario expects, held against what was found.

use crate::{
    results::{Results, StrategyResult, Verdict},
    scenario::{Expectations, Scenario},
    strategy::Strategy,
};

/// Every expectation about a strategy that was run, in the order of strategies and fields.
pub fn judge(scenario: &Scenario, results: &Results) -> Vec<Verdict> {
    let expected = scenario.assertions.iter();
    expected
        .filter_map(|(strategy, wanted)| results.of(*strategy).map(|found| (wanted, found)))
        .flat_map(|(wanted, found)| judge_one(wanted, found, results.capacity_per_second))
        .collect()
}

fn judge_one(wanted: &Expectations, found: &StrategyResult, capacity: f64) -> Vec<Verdict> {
    let (figures, counters) = (&found.figures, &found.counters);
    let strategy = found.strategy;
    let seconds = |name, wanted: Option<crate::scenario::Span>, found: Option<f64>| {
        wanted.map(|it| at_most(strategy, name, it.secs(), found, Unit::Seconds))
    };
    let number = |name, wanted: Option<f64>, found: f64, unit| {
        wanted.map(|it| at_most(strategy, name, it, Some(found), unit))
    };
    let share = |name, wanted: Option<f64>, found: Option<f64>| {
        wanted.map(|it| at_most(strategy, name, it, found, Unit::Share))
    };
    let peak = figures.peak_per_second;
    [
        seconds("opens_within", wanted.opens_within, figures.opens_within_s),
        seconds(
            "recovers_within",
            wanted.recovers_within,
            figures.recovers_within_s,
        ),
        number("peak_rps", wanted.peak_rps, peak, Unit::PerSecond),
        number(
            "peak_of_capacity",
            wanted.peak_of_capacity,
            peak / capacity,
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
