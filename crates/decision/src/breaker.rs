//! The circuit breaker of one dependency: closed, open, half-open.
//!
//! ```text
//!            trip                     open_for is over, a caller asks
//!  closed ----------> open ------------------------------------> half-open
//!    ^                 ^                                          |  |
//!    |                 +------------- a probe failed -------------+  |
//!    +------------------------ probe_successes ---------------------+
//! ```
//!
//! Half-open is a function of the state and the clock, not of a timer: reading shows it and
//! does not change it; its epoch begins with its first lease. A probe is a lease: one that
//! ends unreported is no verdict, and another caller gets it, so the breaker is never stuck
//! and never has more than `probes` out. Leases outlive every transition for that reason.
//!
//! Each transition raises the epoch by one. What was permitted in another epoch cannot
//! testify about this one.

mod bytes;
mod last_second;
mod rare;
mod readings;
mod weigh;

use self::rare::{Lease, Rare};
pub use self::{last_second::Ended, rare::Past};
use crate::{
    Nanos, Time,
    detector::Detector,
    evidence::{Heard, Sketch},
    permit::{Outcome, OutcomeKind},
    policy::{self, AppliesTo, Detect, Mode},
    window::{Call, Counts, Reached},
};

/// What a transition reports on, for events and people.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cause {
    /// Nothing has happened yet.
    New,
    /// So much of what the adaptive detector needs, 1 or more.
    Suspicion(f32),
    Window(Reached),
    ProbeFailed(OutcomeKind),
    ProbeSlow(Nanos),
    FirstProbe,
    ProbesSucceeded(u32),
    /// The ramp after a recovery is over.
    Recovered,
    Override,
    OverrideCleared,
    OverrideExpired,
    Reset,
    Restored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Closed,
    Open,
    HalfOpen,
}

#[derive(Clone, Debug)]
pub struct Breaker {
    pub phase: Phase,
    pub epoch: u64,
    /// When this phase began.
    pub since: Time,
    detector: Detector,
    /// Instances that ended an attempt in the last seconds.
    recent: Sketch<2>,
    rare: Option<Box<Rare>>,
}

/// What the breaker says to an attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Admission {
    Pass,
    /// It must take a lease.
    Probe,
    /// Open for so much longer.
    Open(Nanos),
    /// So many probes are out; the first of them ends in so long.
    ProbesOut {
        out: u32,
        first_end: Nanos,
    },
    /// No probe is leased for so long after a restart.
    Quarantine(Nanos),
}

/// Who asks to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    FirstAttempt,
    Retry,
}

/// What an outcome says about the dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Counted(Call),
    /// Neither part of the fraction.
    Nothing,
}

impl Breaker {
    pub fn new(epoch: u64, now: Time) -> Self {
        Self {
            phase: Phase::Closed,
            epoch,
            since: now,
            detector: Detector::default(),
            recent: Sketch::default(),
            rare: None,
        }
    }

    /// Whether an attempt may pass now. Changes nothing. No probe is leased before
    /// `probes_from`.
    pub fn admit(
        &self,
        policy: &policy::Breaker,
        asker: Asker,
        probes_from: Time,
        now: Time,
    ) -> Admission {
        let shadowed = match policy.mode {
            Mode::Off => return Admission::Pass,
            Mode::Shadow => true,
            Mode::Enforce => false,
        };
        let answer = match self.phase {
            Phase::Closed => Admission::Pass,
            Phase::Open if now < self.past().open_until => {
                Admission::Open(now.until(self.past().open_until))
            }
            Phase::Open | Phase::HalfOpen => self.admit_probe(policy, probes_from, now),
        };
        let spared = asker == Asker::FirstAttempt && !self.binds_first_attempts(policy);
        match answer {
            Admission::Pass | Admission::Probe => answer,
            Admission::Open(_) | Admission::ProbesOut { .. } | Admission::Quarantine(_) => {
                if shadowed || spared {
                    Admission::Pass
                } else {
                    answer
                }
            }
        }
    }

    fn admit_probe(&self, policy: &policy::Breaker, probes_from: Time, now: Time) -> Admission {
        if now < probes_from {
            return Admission::Quarantine(now.until(probes_from));
        }
        let live = self.leases().iter().filter(|lease| now < lease.ends);
        match live.clone().count() as u32 {
            out if out < policy.probes => Admission::Probe,
            out => Admission::ProbesOut {
                out,
                first_end: live
                    .map(|lease| now.until(lease.ends))
                    .min()
                    .unwrap_or_default(),
            },
        }
    }

    /// Whether first attempts are refused too while this breaker is open.
    pub fn binds_first_attempts(&self, policy: &policy::Breaker) -> bool {
        match policy.applies_to {
            AppliesTo::All => true,
            AppliesTo::Retries => false,
            AppliesTo::Auto => (self.rare.as_ref())
                .and_then(|rare| rare.last_second.as_ref())
                .is_some_and(|second| second.refuses_all()),
        }
    }

    /// Raises the epoch for a probe that is about to be leased. True: this is the first
    /// lease, and half-open begins.
    pub fn begin_probing(&mut self, now: Time) -> bool {
        let first = self.phase != Phase::HalfOpen;
        if first {
            self.past_mut().probe_successes = 0;
            self.enter(Phase::HalfOpen, Cause::FirstProbe, now);
        }
        first
    }

    pub fn lease(&mut self, serial: u64, ends: Time, now: Time) {
        let leases = &mut self.rare_mut().leases;
        leases.retain(|lease| now < lease.ends);
        leases.push(Lease { serial, ends });
    }

    /// Takes a lease back. True: it was live.
    pub fn end_lease(&mut self, serial: u64, now: Time) -> bool {
        let live = self.holds_lease(serial, now);
        self.forget_rare(|rare| {
            (rare.leases).retain(|lease| lease.serial != serial && now < lease.ends);
        });
        live
    }

    /// Whether the lease of this permit is live.
    pub fn holds_lease(&self, serial: u64, now: Time) -> bool {
        self.leases()
            .iter()
            .any(|lease| lease.serial == serial && now < lease.ends)
    }

    pub fn probes_out(&self, now: Time) -> u32 {
        self.leases()
            .iter()
            .filter(|lease| now < lease.ends)
            .count() as u32
    }

    /// When the last probe lease ends; the origin of time where none is out.
    pub fn last_lease_end(&self) -> Time {
        self.leases()
            .iter()
            .map(|lease| lease.ends)
            .max()
            .unwrap_or_default()
    }

    /// What `outcome` says under this policy.
    pub fn verdict(policy: &policy::Breaker, outcome: &Outcome) -> Verdict {
        let slow = !policy.slow_after.is_zero()
            && outcome
                .latency
                .is_some_and(|latency| latency >= policy.slow_after);
        let failed = match outcome.kind {
            OutcomeKind::Success => slow && policy.slow_counts_as_failure,
            OutcomeKind::Failure | OutcomeKind::Timeout | OutcomeKind::NotSent => true,
            OutcomeKind::Throttled if policy.count_throttled => true,
            OutcomeKind::Rejected if policy.count_rejected => true,
            OutcomeKind::Throttled
            | OutcomeKind::Rejected
            | OutcomeKind::Ignored
            | OutcomeKind::Cancelled => return Verdict::Nothing,
        };
        Verdict::Counted(Call { failed, slow })
    }

    /// A probe of this epoch that held a live lease has ended. True: the phase changed.
    pub fn end_probe(&mut self, policy: &policy::Breaker, outcome: &Outcome, now: Time) -> bool {
        let Verdict::Counted(call) = Self::verdict(policy, outcome) else {
            return false;
        };
        if call.failed {
            self.open(policy, Cause::ProbeFailed(outcome.kind), now);
            true
        } else if call.slow && slowness_trips(policy) {
            let latency = outcome.latency.unwrap_or_default();
            self.open(policy, Cause::ProbeSlow(latency), now);
            true
        } else {
            let successes = self.past().probe_successes.saturating_add(1);
            self.past_mut().probe_successes = successes;
            let closes = successes >= policy.probe_successes;
            if closes {
                self.close(Cause::ProbesSucceeded(successes), now);
            }
            closes
        }
    }

    /// Counts calls of this epoch. `trips`: whether they may open the
    /// breaker. True: they did.
    pub fn count(
        &mut self,
        policy: &policy::Breaker,
        heard: &Heard,
        now: Time,
        trips: Trips,
    ) -> bool {
        if policy.mode == Mode::Off || self.phase != Phase::Closed {
            return false;
        }
        let cause = self.weigh(policy, heard, now);
        self.trip(policy, cause, now, trips)
    }

    /// Counts permits of this epoch that ended unreported at `at`. True: they opened it.
    pub fn count_silence(
        &mut self,
        policy: &policy::Breaker,
        permits: u32,
        at: Time,
        now: Time,
        trips: Trips,
    ) -> bool {
        if policy.mode == Mode::Off || self.phase != Phase::Closed {
            return false;
        }
        let failed = match &policy.detect {
            Detect::Adaptive => true,
            // Where slowness is not looked at, silence would only thin the failures out.
            Detect::Window(_) if !watches_slow(policy) && !policy.slow_counts_as_failure => {
                return false;
            }
            Detect::Window(_) => policy.slow_counts_as_failure,
        };
        let counts = Counts {
            calls: permits,
            failures: if failed { permits } else { 0 },
            slow: permits,
        };
        let heard = Heard {
            reporter: None,
            counts,
            at,
        };
        let cause = self.weigh(policy, &heard, now);
        self.trip(policy, cause, now, trips)
    }

    /// Opens for `cause`, where there is one and it may. True: it did.
    fn trip(
        &mut self,
        policy: &policy::Breaker,
        cause: Option<Cause>,
        now: Time,
        trips: Trips,
    ) -> bool {
        let Some(cause) = cause.filter(|_| trips == Trips::WhenReached) else {
            return false;
        };
        let healthy_for = now.since(self.since);
        let past = self.past_mut();
        past.trips = past.trips.saturating_add(1);
        if healthy_for >= policy.healthy_reset {
            past.level = 0;
        }
        self.open(policy, cause, now);
        true
    }

    /// Notes how attempts ended for `applies_to: auto`.
    pub fn note_second(&mut self, policy: &policy::Breaker, ended: Ended, now: Time) {
        if policy.applies_to == AppliesTo::Auto {
            let second = self.rare_mut().last_second.get_or_insert_default();
            second.turn_to(now);
            second.note(ended);
        }
    }

    /// Judges a second that is over for `applies_to: auto`.
    pub fn judge_second(&mut self, policy: &policy::Breaker, now: Time) {
        if policy.applies_to == AppliesTo::Auto {
            let second = self.rare_mut().last_second.get_or_insert_default();
            second.turn_to(now);
        }
    }

    /// Goes to open from any phase, for the first period or a longer one.
    fn open(&mut self, policy: &policy::Breaker, cause: Cause, now: Time) {
        let past = self.past_mut();
        past.open_until = now + open_period(policy, past.level);
        past.level = past.level.saturating_add(1);
        self.enter(Phase::Open, cause, now);
    }

    /// Goes to closed from any phase, with no evidence. Leases that are out stay.
    pub fn close(&mut self, cause: Cause, now: Time) {
        if let Some(rare) = &mut self.rare {
            rare.last_second = None;
        }
        self.enter(Phase::Closed, cause, now);
    }

    fn enter(&mut self, phase: Phase, cause: Cause, now: Time) {
        self.forget_evidence();
        self.past_mut().cause = cause;
        self.phase = phase;
        self.since = now;
        self.epoch = self.epoch.saturating_add(1);
    }
}

impl Breaker {
    fn forget_evidence(&mut self) {
        let rare = self.rare_mut();
        (rare.reporters, rare.window) = (None, None);
        self.detector.clear();
    }
}

/// Whether evidence may open the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trips {
    WhenReached,
    /// An operator forced it closed: outcomes are counted for display.
    Never,
}

/// The length of the open period after so many trips in a row.
pub fn open_period(policy: &policy::Breaker, level: u32) -> Nanos {
    let mut period = policy.open_for.0 as f64;
    for _ in 0..level.min(64) {
        period *= policy.open_multiplier.max(1.0);
    }
    Nanos(period as u64).min(policy.open_max.max(policy.open_for))
}

/// Whether a slow call is evidence that can open the breaker by itself: the adaptive
/// detector does not look at slowness, so under it a slow probe is a success.
fn slowness_trips(policy: &policy::Breaker) -> bool {
    match policy.detect {
        Detect::Adaptive => false,
        Detect::Window(_) => watches_slow(policy),
    }
}

/// Whether slow calls can trip a window.
fn watches_slow(policy: &policy::Breaker) -> bool {
    !policy.slow_after.is_zero()
}
