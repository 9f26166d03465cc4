//! A whole comparison: every strategy under every seed, and one set of results.
//!
//! Each run is by itself, so they may use several threads; the results are the same however many
//! there are.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

use holdoff_decision::Policy;

use crate::{
    assertions,
    results::{Counters, Figures, Results, Run, Series, StrategyResult},
    scenario::{Invalid, Scenario},
    strategy::Strategy,
    timeline::Timeline,
    world::World,
};

/// How far a comparison is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// 0 to 1.
    pub done: f64,
}

/// What is to be run.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    pub scenario: &'a Scenario,
    /// In the order of the results; empty: those of the scenario, or all.
    pub strategies: &'a [Strategy],
    /// Of `holdoff`.
    pub policy: &'a Policy,
    /// At least one; the series are those of the first.
    pub seeds: &'a [u64],
    /// At least 1.
    pub threads: usize,
}

struct Outcome {
    run: Run,
    series: Option<Series>,
}

/// Runs everything. `progress` is told how far it is, from several threads.
///
/// # Errors
/// What is wrong with the scenario.
pub fn run(plan: &Plan<'_>, progress: &(dyn Fn(Progress) + Sync)) -> Result<Results, Vec<Invalid>> {
    let scenario = plan.scenario;
    scenario.check()?;
    let strategies: &[Strategy] = match (plan.strategies, &scenario.strategies[..]) {
        ([], []) => &Strategy::ALL,
        ([], named) => named,
        (asked, _) => asked,
    };
    let seeds = if plan.seeds.is_empty() {
        &[1]
    } else {
        plan.seeds
    };
    let outcomes = run_all(plan, strategies, seeds, progress);
    let mut outcomes = outcomes.into_iter();
    let timeline = Timeline::new(scenario, seeds[0]);
    let results = strategies.iter().map(|strategy| {
        let of_it: Vec<Outcome> = outcomes.by_ref().take(seeds.len()).collect();
        joined(*strategy, of_it)
    });
    let mut results = Results {
        scenario: scenario.name.clone(),
        description: scenario.description.clone(),
        clients: scenario.clients,
        capacity_per_second: scenario.capacity(),
        duration_s: scenario.duration.secs(),
        seeds: seeds.to_vec(),
        spans: timeline.spans,
        strategies: results.collect(),
        verdicts: Vec::new(),
    };
    results.verdicts = assertions::judge(scenario, &results);
    Ok(results)
}

fn run_all(
    plan: &Plan<'_>,
    strategies: &[Strategy],
    seeds: &[u64],
    progress: &(dyn Fn(Progress) + Sync),
) -> Vec<Outcome> {
    let jobs: Vec<(Strategy, u64)> = strategies
        .iter()
        .flat_map(|strategy| seeds.iter().map(|seed| (*strategy, *seed)))
        .collect();
    let all = jobs.len() as f64 * plan.scenario.duration.nanos() as f64;
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let found: Mutex<Vec<(usize, Outcome)>> = Mutex::new(Vec::with_capacity(jobs.len()));
    let work = || {
        while let Some((number, (strategy, seed))) = {
            let number = next.fetch_add(1, Relaxed);
            jobs.get(number).map(|job| (number, *job))
        } {
            let mut said = 0;
            let measure = World::new(plan.scenario, strategy, plan.policy, seed).run(|now| {
                let before = done.fetch_add(now - said, Relaxed);
                progress(Progress {
                    done: (before + now - said) as f64 / all,
                });
                said = now;
            });
            let outcome = Outcome {
                run: Run {
                    seed,
                    counters: measure.counters(),
                    figures: measure.figures(&plan.scenario.traffic),
                },
                series: (Some(seed) == seeds.first().copied()).then(|| measure.series()),
            };
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.push((number, outcome));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..plan.threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, outcome)| outcome).collect()
}

fn joined(strategy: Strategy, outcomes: Vec<Outcome>) -> StrategyResult {
    let mut series = Series::default();
    let mut runs = Vec::with_capacity(outcomes.len());
    for outcome in outcomes {
        if let Some(its) = outcome.series {
            series = its;
        }
        runs.push(outcome.run);
    }
    StrategyResult {
        strategy,
        label: strategy.label().to_owned(),
        counters: means(&runs),
        figures: medians(&runs),
        series,
        runs,
    }
}

fn means(runs: &[Run]) -> Counters {
    let mean = |of: fn(&Counters) -> f64| {
        runs.iter().map(|run| of(&run.counters)).sum::<f64>() / runs.len().max(1) as f64
    };
    Counters {
        operations: mean(|it| it.operations),
        operations_succeeded: mean(|it| it.operations_succeeded),
        operations_failed: mean(|it| it.operations_failed),
        operations_pending: mean(|it| it.operations_pending),
        calls: mean(|it| it.calls),
        calls_succeeded: mean(|it| it.calls_succeeded),
        calls_failed: mean(|it| it.calls_failed),
        calls_timed_out: mean(|it| it.calls_timed_out),
        calls_throttled: mean(|it| it.calls_throttled),
        calls_in_flight: mean(|it| it.calls_in_flight),
        calls_wasted: mean(|it| it.calls_wasted),
        calls_while_down: mean(|it| it.calls_while_down),
        rejected_for_load: mean(|it| it.rejected_for_load),
        served_in_vain: mean(|it| it.served_in_vain),
        refused: mean(|it| it.refused),
        questions: mean(|it| it.questions),
        reports: mean(|it| it.reports),
        pushes: mean(|it| it.pushes),
        decided_alone: mean(|it| it.decided_alone),
    }
}

fn medians(runs: &[Run]) -> Figures {
    let known = |of: fn(&Figures) -> f64| {
        median(runs.iter().map(|run| of(&run.figures)).collect()).unwrap_or(0.0)
    };
    // What did not happen took longer than anything.
    let some = |of: fn(&Figures) -> Option<f64>| {
        let all = runs
            .iter()
            .map(|run| of(&run.figures).unwrap_or(f64::INFINITY));
        median(all.collect()).filter(|it| it.is_finite())
    };
    Figures {
        amplification: some(|it| it.amplification),
        peak_per_second: known(|it| it.peak_per_second),
        peak_100ms_per_second: known(|it| it.peak_100ms_per_second),
        recovers_within_s: some(|it| it.recovers_within_s),
        opens_within_s: some(|it| it.opens_within_s),
        goodput: some(|it| it.goodput),
        failed_after: some(|it| it.failed_after),
        half_served_s: some(|it| it.half_served_s),
        nearly_all_served_s: some(|it| it.nearly_all_served_s),
    }
}

/// Of an even number the lower middle one, so that it is one that was found.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len().checked_sub(1)? / 2;
    values.get(middle).copied()
}
