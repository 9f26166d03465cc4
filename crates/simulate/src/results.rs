//! What a simulation found: plain values with a stable JSON form.
//!
//! Times are seconds of simulated time since the begin of the run, unless a field says from
//! where. `null` where a number is missing means that it did not happen within the run, or that
//! there is nothing to measure; no number stands for "never".

use serde::{Deserialize, Serialize};

use crate::strategy::Strategy;

/// One scenario under several strategies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    pub scenario: String,
    pub description: String,
    pub clients: u32,
    /// Calls a second that the dependency can serve in health.
    pub capacity_per_second: f64,
    pub duration_s: f64,
    /// The seeds that were run; times are medians over them, counts are means, and the series
    /// are those of the first.
    pub seeds: Vec<u64>,
    /// What happens to the dependency, to the coordinator and to clients, with the first seed.
    pub spans: Vec<Span>,
    pub strategies: Vec<StrategyResult>,
    /// Every expectation of the scenario, with the value found.
    pub verdicts: Vec<Verdict>,
}

/// Something that lasts, for shading a plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// `dependency refuses`, `coordinator is away`.
    pub label: String,
    pub from_s: f64,
    pub to_s: f64,
}

/// One strategy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrategyResult {
    pub strategy: Strategy,
    /// For people: `full jitter`.
    pub label: String,
    pub counters: Counters,
    pub figures: Figures,
    pub series: Series,
    /// Each seed alone, in the order of [`Results::seeds`].
    pub runs: Vec<Run>,
}

/// One strategy under one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    pub seed: u64,
    pub counters: Counters,
    pub figures: Figures,
}

/// Counts of one run, or their means over all seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// Operations that began; each is a success, a failure, or pending at the end.
    pub operations: f64,
    pub operations_succeeded: f64,
    pub operations_failed: f64,
    pub operations_pending: f64,
    /// Attempts that clients sent; each ended, or was in flight at the end.
    pub calls: f64,
    pub calls_succeeded: f64,
    /// Answered with an error.
    pub calls_failed: f64,
    /// No answer in time.
    pub calls_timed_out: f64,
    /// Answered with "too many".
    pub calls_throttled: f64,
    pub calls_in_flight: f64,
    /// Calls that brought no timely success.
    pub calls_wasted: f64,
    /// Sent while the dependency was down (refusing, silent or stalled).
    pub calls_while_down: f64,
    /// Calls that the dependency rejected for its backlog or quota.
    pub rejected_for_load: f64,
    /// Work that it did for nobody: the caller had gone.
    pub served_in_vain: f64,
    /// Attempts that the strategy itself refused, without a call.
    pub refused: f64,
    /// Messages from clients to the coordinator (questions and reports), and what was pushed.
    pub questions: f64,
    pub reports: f64,
    pub pushes: f64,
    /// Questions without an answer in time, answered by the client itself.
    pub decided_alone: f64,
}

/// What a strategy is judged by, of one run, or over all seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Calls per operation.
    pub amplification: Option<f64>,
    /// The fullest second, in calls a second at the dependency, after the last disturbance has
    /// ended; without one, of the whole run.
    pub peak_per_second: f64,
    /// The fullest tenth of a second, in calls a second; likewise.
    pub peak_100ms_per_second: f64,
    /// From the end of the last disturbance until nearly all operations go well for good. Where
    /// clients have one operation each: until at most 1 % of them have one that is pending for
    /// more than a second, and five seconds long. Where operations arrive by themselves: the end
    /// of the last second of arrivals of which less than 99 % succeeded. `null`: not in this run.
    pub recovers_within_s: Option<f64>,
    /// From the begin of the first disturbance until the breaker opened: the fleet's, or that
    /// of half the clients where each has its own. `null`: it did not, or there is none.
    pub opens_within_s: Option<f64>,
    /// Share of the operations that ended, which succeeded.
    pub goodput: Option<f64>,
    /// Of the operations that began after the last disturbance and ended, the share that failed.
    pub failed_after: Option<f64>,
    /// Seconds after recovery until half, and 99 %, of those that waited then had succeeded.
    pub half_served_s: Option<f64>,
    pub nearly_all_served_s: Option<f64>,
}

/// What happened when: one number a bucket. All are equally long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    pub bucket_s: f64,
    /// Calls a second at the dependency.
    pub calls_per_second: Vec<f64>,
    /// Operations that succeeded, a second.
    pub goodput_per_second: Vec<f64>,
    /// Calls a second that brought no timely success, at the time they were sent.
    pub wasted_per_second: Vec<f64>,
    /// Calls in flight, as their callers see it, on average.
    pub in_flight: Vec<f64>,
    /// Operations that have been pending for more than a second, at the end of the bucket.
    pub late: Vec<f64>,
    /// Share of the fleet that is refused by an open or probing breaker, at the end of the
    /// bucket: 0 or 1 for the fleet's own, between where each client has one.
    pub open_share: Vec<f64>,
    /// The fleet's breaker at the end of each bucket; empty where there is none.
    pub state: Vec<BreakerState>,
}

/// The fleet's breaker, as callers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    Closed,
    Open,
    HalfOpen,
    Recovering,
    /// The coordinator is away; each client goes by what it knows.
    Away,
}

/// One expectation of a scenario, and what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    pub strategy: Strategy,
    /// `opens_within`, `peak_rps`, `wasted_calls`, `recovers_within`, …
    pub assertion: String,
    /// What was wanted, with its unit: `at most 8.0 s`.
    pub wanted: String,
    /// What was found, in the same unit: `7.4 s`, `never`.
    pub found: String,
    pub holds: bool,
}

impl Results {
    /// Whether every expectation of the scenario holds.
    pub fn all_hold(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.holds)
    }

    pub fn of(&self, strategy: Strategy) -> Option<&StrategyResult> {
        self.strategies.iter().find(|it| it.strategy == strategy)
    }
}
