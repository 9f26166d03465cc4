//! The breaker of one process: the service's states with a single caller.
//!
//! Half-open has one probe at a time, leased: a lease that ends unreported is no verdict and
//! the next attempt may probe. Open periods are spread upwards by the policy's spread, so
//! that processes that lost the service together do not probe together.

use holdoff_decision::{Nanos, Time, detector::Detector, policy};

use super::{is_failure, local};
use crate::{
    denied::{DenialReason, Denied},
    outcome::Outcome,
};

#[derive(Debug, Default)]
pub(super) struct Breaker {
    detector: Detector,
    state: State,
    /// Rises with each transition.
    epoch: u64,
    /// Openings without a healthy time between them.
    trips: u32,
    /// Drawn with each opening, in [0, 1).
    spread: f64,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// Since then.
    #[default]
    New,
    ClosedSince(Time),
    OpenUntil(Time),
    HalfOpen {
        lease_ends: Time,
        successes: u32,
    },
}

/// Under what an attempt was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    Counted {
        epoch: u64,
    },
    Probe {
        epoch: u64,
    },
    /// Its outcome changes nothing.
    Uncounted,
}

impl Admitted {
    pub(super) fn is_probe(self) -> bool {
        matches!(self, Self::Probe { .. })
    }
}

impl Breaker {
    /// Whether an attempt may pass. Changes nothing but the draw for the next opening.
    pub(super) fn look(
        &mut self,
        policy: &policy::Breaker,
        now: Time,
        unit: f64,
    ) -> Result<Admitted, Denied> {
        self.spread = unit;
        if policy.mode != policy::Mode::Enforce {
            return Ok(Admitted::Uncounted);
        }
        match self.state {
            State::New | State::ClosedSince(_) => Ok(Admitted::Counted { epoch: self.epoch }),
            State::OpenUntil(until) if now < until => {
                let left = now.until(until);
                let detail = format!("it opened here without holdoff; a probe in {left}");
                Err(local(DenialReason::BreakerOpen, detail).after(Some(left.into())))
            }
            State::HalfOpen { lease_ends, .. } if now < lease_ends => {
                let left = now.until(lease_ends);
                let detail = format!("its lease ends in {left}");
                Err(local(DenialReason::ProbeInProgress, detail).after(Some(left.into())))
            }
            State::OpenUntil(_) => Ok(Admitted::Probe {
                epoch: self.epoch.saturating_add(1),
            }),
            State::HalfOpen { .. } => Ok(Admitted::Probe { epoch: self.epoch }),
        }
    }

    /// The attempt that [`Self::look`] let pass is made.
    pub(super) fn admit(&mut self, policy: &policy::Breaker, admitted: Admitted, now: Time) {
        let Admitted::Probe { epoch } = admitted else {
            return;
        };
        self.epoch = epoch;
        let successes = match self.state {
            State::HalfOpen { successes, .. } => successes,
            State::New | State::ClosedSince(_) | State::OpenUntil(_) => 0,
        };
        self.state = State::HalfOpen {
            lease_ends: now + policy.probe_lease,
            successes,
        };
    }

    /// What was let through in another epoch says nothing about this one.
    pub(super) fn record(
        &mut self,
        policy: &policy::Breaker,
        admitted: Admitted,
        outcome: &Outcome,
        now: Time,
    ) {
        match admitted {
            Admitted::Counted { epoch } if epoch == self.epoch => {
                self.record_counted(policy, outcome, now);
            }
            Admitted::Probe { epoch } if epoch == self.epoch => {
                self.record_probe(policy, outcome, now);
            }
            Admitted::Counted { .. } | Admitted::Probe { .. } | Admitted::Uncounted => {}
        }
    }

    fn record_counted(&mut self, policy: &policy::Breaker, outcome: &Outcome, now: Time) {
        let Some(failed) = is_failure(outcome) else {
            return;
        };
        if matches!(self.state, State::New) {
            self.state = State::ClosedSince(now);
        }
        if self
            .detector
            .record(u32::from(!failed), u32::from(failed), now)
        {
            self.open(policy, now);
        }
    }

    fn record_probe(&mut self, policy: &policy::Breaker, outcome: &Outcome, now: Time) {
        let State::HalfOpen {
            lease_ends,
            successes,
        } = self.state
        else {
            return;
        };
        if now >= lease_ends {
            return;
        }
        match is_failure(outcome) {
            Some(true) => self.open(policy, now),
            Some(false) if successes + 1 >= policy.probe_successes => {
                self.epoch = self.epoch.saturating_add(1);
                self.detector.clear();
                self.state = State::ClosedSince(now);
            }
            Some(false) => self.free_lease(now, successes + 1),
            None => self.free_lease(now, successes),
        }
    }

    fn free_lease(&mut self, now: Time, successes: u32) {
        self.state = State::HalfOpen {
            lease_ends: now,
            successes,
        };
    }

    fn open(&mut self, policy: &policy::Breaker, now: Time) {
        if let State::ClosedSince(since) = self.state
            && now.since(since) >= policy.healthy_reset
        {
            self.trips = 0;
        }
        let exponent = i32::try_from(self.trips).unwrap_or(i32::MAX);
        let grown = policy.open_for.0 as f64 * policy.open_multiplier.max(1.0).powi(exponent);
        let lasts = Nanos(grown as u64).min(policy.open_max.max(policy.open_for));
        self.trips = self.trips.saturating_add(1);
        self.epoch = self.epoch.saturating_add(1);
        self.detector.clear();
        self.state =
            State::OpenUntil(now + lasts.saturating_add(policy.spread.scaled(self.spread)));
    }
}
