//! What a reader is shown: the state as a function of the record and the clock. Reading
//! takes no permit and changes no epoch.

use std::fmt;

use crate::{
    Nanos, Policy, Record, Time,
    breaker::{Cause, Phase},
    budget::Level,
    policy::Mode,
    ramp::Curve,
    record::{Context, State},
    window::{Counts, Reached},
};

/// One dependency, as of `now`.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    pub state: State,
    pub epoch: u64,
    pub in_state_for: Nanos,
    /// Open: until the first probe.
    pub open_for: Option<Nanos>,
    pub cause: Cause,
    pub held_for: Option<Nanos>,
    pub probes_out: u32,
    pub permits_out: u64,
    pub budget: Level,
    pub counts: Counts,
    /// 0 to 1.
    pub suspicion: f32,
    pub trips: u64,
    /// Caller instances that have a breaker of their own.
    pub caller_faults: u32,
    /// What a breaker in shadow mode would be.
    pub shadow: Option<State>,
    /// Retries that hold a place in the calendar, and have not come to it.
    pub planned: u64,
    /// Until the first of them.
    pub next_planned: Option<Nanos>,
    /// Where the climb after a recovery stands.
    pub curve: Option<Curve>,
    /// Successes a second, as an average; `None`: none is known.
    pub throughput: Option<f64>,
    /// Share of the last sixteen or so outcomes that failed, 0 to 1.
    pub failing: f32,
    /// Caller instances that were heard of lately: at least so many.
    pub active: u32,
    /// Of a success; `None`: not known.
    pub latency: Option<Nanos>,
}

impl View {
    /// First attempts a second: as the budget with this window counted them, or where that is
    /// more as successes came. A young record has counted less than a whole window.
    pub fn calls_per_second(&self, budget_ttl: Nanos) -> f64 {
        let counted = self.budget.first_attempts as f64 / budget_ttl.as_secs_f64().max(1e-9);
        counted.max(self.throughput.unwrap_or(0.0))
    }
}

pub fn view(policy: &Policy, record: &Record, context: &Context) -> View {
    let now = context.now;
    let breaker = &record.breaker;
    let state = record.state(policy, now);
    // Closed, with nothing remembered, by the end of an override that no event has met yet.
    let order = record.order();
    let ended = order.and_then(|order| order.expires.filter(|end| now >= *end));
    let began = match (breaker.phase, record.inner_state(now)) {
        _ if let Some(end) = ended => end,
        // Awaiting its first probe since the end of the open period.
        (Phase::Open, State::HalfOpen) if state == State::HalfOpen => breaker.past().open_until,
        _ => breaker.since,
    };
    let held = now.until(record.held_until());
    let mut ahead = record.calendar().into_iter().flat_map(|it| it.ahead(now));
    let first = ahead.next();
    View {
        state,
        epoch: breaker.epoch,
        in_state_for: now.since(began),
        open_for: (state == State::Open).then(|| now.until(breaker.past().open_until)),
        cause: ended.map_or(breaker.past().cause, |_| Cause::OverrideExpired),
        held_for: (!held.is_zero()).then_some(held),
        probes_out: breaker.probes_out(now),
        permits_out: record.tickets.outstanding(),
        budget: record
            .budget
            .level(&policy.budget, context.floor_from(policy), now),
        counts: ended.map_or_else(|| breaker.counts(now), |_| Counts::default()),
        suspicion: ended.map_or_else(|| breaker.suspicion(now).min(1.0), |_| 0.0),
        trips: u64::from(breaker.past().trips),
        caller_faults: breaker.faults() as u32,
        shadow: (policy.breaker.mode == Mode::Shadow).then(|| record.inner_state(now)),
        planned: (first.into_iter().chain(ahead))
            .map(|(_, places)| u64::from(places))
            .sum(),
        next_planned: first.map(|(at, _)| now.until(at)),
        curve: (state == State::Recovering)
            .then(|| record.ramp().map(|ramp| ramp.curve(now)))
            .flatten(),
        throughput: record.usual_rate(now),
        failing: record.throughput.failing(),
        active: breaker.active(now),
        latency: record.throughput.latency(),
    }
}

/// The calendar from now on, in `parts` parts of length `step`: how many retries are planned
/// for each. The last one has no end.
pub fn ahead(record: &Record, step: Nanos, parts: usize, now: Time) -> Vec<u64> {
    let mut planned = vec![0_u64; parts];
    let slots = record.calendar().into_iter().flat_map(|it| it.ahead(now));
    for (at, places) in slots {
        let part = now.until(at).0 / step.0.max(1);
        let part = usize::try_from(part).unwrap_or(usize::MAX);
        if let Some(planned) = planned.get_mut(part.min(parts.saturating_sub(1))) {
            *planned += u64::from(places);
        }
    }
    planned
}

/// Whether the record holds nothing that a new one would not: it may be evicted.
pub fn is_idle(record: &Record, idle_for: Nanos, now: Time) -> bool {
    record.breaker.phase == Phase::Closed
        && record.order().is_none()
        && now >= record.held_until()
        && now.since(record.touched) >= idle_for
        && now >= record.tickets.last_end()
        && now >= record.breaker.last_lease_end()
        && record.calendar().is_none_or(|it| it.is_empty_at(now))
        && record.ramp().is_none_or(|ramp| !ramp.lasts(now))
        && record.has_all_room(now)
        && record.budget.is_idle(now)
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::New => write!(f, "no transition yet"),
            Self::Suspicion(share) => {
                write!(
                    f,
                    "evidence of failure at {:.0} % of the threshold",
                    share * 100.0
                )
            }
            Self::Window(Reached::ConsecutiveFailures(count)) => {
                write!(f, "{count} failures in a row")
            }
            Self::Window(Reached::FailureRatio(Counts {
                calls, failures, ..
            })) => {
                write!(f, "{failures} of {calls} calls failed")
            }
            Self::Window(Reached::SlowRatio(Counts { calls, slow, .. })) => {
                write!(f, "{slow} of {calls} calls were slow")
            }
            Self::ProbeFailed(kind) => write!(f, "a probe ended as {kind}"),
            Self::ProbeSlow(latency) => write!(f, "a probe took {latency}"),
            Self::FirstProbe => write!(f, "the open period is over; probing"),
            Self::ProbesSucceeded(count) => write!(f, "{count} probes succeeded"),
            Self::Recovered => write!(f, "recovered; the ramp is over"),
            Self::Override => write!(f, "forced by an operator"),
            Self::OverrideCleared => write!(f, "an operator ended the override"),
            Self::OverrideExpired => write!(f, "the override expired"),
            Self::Reset => write!(f, "reset by an operator"),
            Self::Restored => write!(f, "restored after a restart"),
        }
    }
}
