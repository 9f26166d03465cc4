//! Runs of the simulator, as figures with their sampling error.

use holdoff_decision::Policy;

use super::figure::Measured;
use crate::{
    Scenario, Strategy,
    results::{Counters, Figures, StrategyResult},
    run::{Plan, run},
    scenario::Invalid,
    timeline::Timeline,
};

/// Runs of a comparison side by side.
const THREADS: usize = 2;

/// One strategy, under several seeds.
#[derive(Clone, Debug)]
pub struct Ran {
    pub result: StrategyResult,
    pub capacity: f64,
}

/// Runs one strategy under the seeds 1 to `seeds`.
///
/// # Errors
/// What is wrong with the scenario.
pub fn one(
    scenario: &Scenario,
    strategy: Strategy,
    policy: &Policy,
    seeds: u64,
) -> Result<Ran, Vec<Invalid>> {
    let seeds: Vec<u64> = (1..=seeds.max(1)).collect();
    let plan = Plan {
        scenario,
        strategies: &[strategy],
        policy,
        seeds: &seeds,
        threads: THREADS,
    };
    let mut results = run(&plan, &|_| ())?;
    let result = results.strategies.pop().unwrap_or_else(|| StrategyResult {
        strategy,
        label: strategy.label().into(),
        counters: Counters::default(),
        figures: Figures::default(),
        series: crate::results::Series::default(),
        runs: Vec::new(),
    });
    Ok(Ran {
        result,
        capacity: results.capacity_per_second,
    })
}

/// Seconds that the first disturbance lasts, on average over the seeds 1 to `seeds`.
pub fn outage_s(scenario: &Scenario, seeds: u64) -> f64 {
    let lasts = (1..=seeds.max(1)).map(|seed| {
        let spans = Timeline::new(scenario, seed).spans;
        spans.first().map_or(0.0, |span| span.to_s - span.from_s)
    });
    lasts.collect::<Measured>().mean
}

impl Ran {
    /// The mean over the runs.
    pub fn count(&self, of: impl Fn(&Counters) -> f64) -> Measured {
        self.result
            .runs
            .iter()
            .map(|run| of(&run.counters))
            .collect()
    }

    /// The mean over the runs.
    pub fn mean(&self, of: impl Fn(&Figures) -> f64) -> Measured {
        self.result
            .runs
            .iter()
            .map(|run| of(&run.figures))
            .collect()
    }

    /// The median over the runs; what did not happen is later than anything.
    pub fn time(&self, of: impl Fn(&Figures) -> Option<f64>) -> Measured {
        let times = self
            .result
            .runs
            .iter()
            .map(|run| of(&run.figures).unwrap_or(f64::INFINITY));
        Measured::median(times.collect())
    }

    /// The fullest second after the disturbance, in capacities.
    pub fn peak(&self) -> Measured {
        self.mean(|it| it.peak_per_second / self.capacity)
    }

    pub fn peak_100ms(&self) -> Measured {
        self.mean(|it| it.peak_100ms_per_second / self.capacity)
    }

    pub fn recovers(&self) -> Measured {
        self.time(|it| it.recovers_within_s)
    }
}
