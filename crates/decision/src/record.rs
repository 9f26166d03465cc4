//! All that is remembered of one dependency, and the steps that every question and report
//! begins with.
//!
//! A record is made small, since there may be a million: what every call needs is inline,
//! everything else is in one allocation (`rare`) that is made on use and freed when it is
//! empty. It holds no policy and no name; those are shared or kept beside it.

mod alone;
mod bytes;
mod plans;
mod rare;
mod replica;

pub(crate) use self::bytes::part;
use self::rare::Rare;
pub use self::{
    alone::Arrived,
    replica::{Summary, TOLD_MAX},
};
use crate::{
    Nanos, Policy, Time,
    breaker::{Breaker, Cause, Ended, Phase, Trips, Verdict},
    budget::Budget,
    evidence::{Heard, News},
    permit::{Outcome, OutcomeKind},
    policy::{Detect, Mode},
    throughput::Throughput,
    tickets::Tickets,
    window::Counts,
};

/// No pushback holds a fleet longer.
pub const HOLD_MAX: Nanos = Nanos::from_secs(24 * 3600);

/// The state of one dependency.
#[derive(Clone, Debug)]
pub struct Record {
    pub breaker: Breaker,
    pub budget: Budget,
    pub tickets: Tickets,
    pub throughput: Throughput,
    /// When anything last happened here.
    pub touched: Time,
    rare: Option<Box<Rare>>,
}

/// An operator's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    pub kind: OverrideKind,
    pub owner: String,
    pub reason: String,
    pub set_at: Time,
    /// `None`: until it is cleared.
    pub expires: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverrideKind {
    ForceOpen,
    ForceClosed,
}

/// The state of a breaker as callers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    Closed,
    Open,
    HalfOpen,
    /// Closed, but the admitted share still climbs.
    Recovering,
    ForcedOpen,
    ForcedClosed,
}

/// Something that happened, for events, checkpoints and subscribers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    Transition {
        from: State,
        to: State,
        epoch: u64,
        cause: Cause,
    },
    /// The dependency asked the fleet to wait so long.
    Held(Nanos),
    /// One instance got a breaker of its own, or lost it; no epoch changed.
    Caller(News),
}

/// What a step may know besides the record: the clock, two draws, and the last restart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Context {
    pub now: Time,
    pub sample: Sample,
    /// The start of a run that follows another and does not know what that had promised. `None`:
    /// it is the first one, as far as anything shows, or all of that was read back.
    pub restarted: Option<Restart>,
}

/// The start of a service that has not read back the leases and budgets of the run before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    pub at: Time,
    /// What was kept says that there was a run before, so the floors of its budgets count as
    /// spent from the start. Where only callers show it, its leases are waited for, which costs
    /// little; a service that took its budgets back from them would help nobody.
    pub is_on_record: bool,
}

impl Restart {
    /// A run that is known to follow another.
    pub fn after_another(at: Time) -> Self {
        Self {
            at,
            is_on_record: true,
        }
    }
}

/// Two independent draws, each uniform in [0, 1).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Places a delay below its ceiling.
    pub jitter: f64,
    /// Spreads those that are told the same time.
    pub spread: f64,
}

impl Context {
    /// Before this time no probe is leased.
    pub fn probes_from(&self, policy: &Policy) -> Time {
        self.restarted
            .map_or(Time::ORIGIN, |start| start.at + policy.breaker.probe_lease)
    }

    /// Before this time the floor of the budget counts as spent.
    pub fn floor_from(&self, policy: &Policy) -> Time {
        self.restarted
            .filter(|start| start.is_on_record)
            .map_or(Time::ORIGIN, |start| start.at + policy.budget.ttl)
    }
}

impl Record {
    /// A closed breaker with nothing remembered. `epoch` must exceed every epoch that the
    /// name had before.
    pub fn new(epoch: u64, now: Time) -> Self {
        Self {
            breaker: Breaker::new(epoch, now),
            budget: Budget::default(),
            tickets: Tickets::default(),
            throughput: Throughput::default(),
            touched: now,
            rare: None,
        }
    }

    /// The override in force at `now`.
    pub fn order_at(&self, now: Time) -> Option<&Override> {
        let order = self.order()?;
        order.expires.is_none_or(|end| now < end).then_some(order)
    }

    /// The state at `now`, as callers see it.
    pub fn state(&self, policy: &Policy, now: Time) -> State {
        match self.order() {
            Some(_) => match self.order_at(now).map(|order| order.kind) {
                Some(OverrideKind::ForceOpen) => State::ForcedOpen,
                Some(OverrideKind::ForceClosed) => State::ForcedClosed,
                // It has ended, which leaves the breaker closed.
                None => State::Closed,
            },
            None => match policy.breaker.mode {
                Mode::Enforce => self.inner_state(now),
                Mode::Shadow | Mode::Off => State::Closed,
            },
        }
    }

    /// The state of the breaker itself, whatever its mode and override.
    pub fn inner_state(&self, now: Time) -> State {
        match self.breaker.phase {
            Phase::Closed => match self.ramp() {
                Some(ramp) if ramp.lasts(now) => State::Recovering,
                Some(_) | None => State::Closed,
            },
            Phase::Open if now < self.breaker.past().open_until => State::Open,
            Phase::Open | Phase::HalfOpen => State::HalfOpen,
        }
    }

    /// Notes a transition of the breaker that has just been made.
    pub(crate) fn note_transition(&mut self, from: State, now: Time) {
        self.tickets.begin_epoch();
        if !matches!(self.breaker.past().cause, Cause::ProbesSucceeded(_)) {
            self.end_ramp();
        }
        match from {
            State::Closed => self.throughput.settle(now),
            State::Open
            | State::HalfOpen
            | State::Recovering
            | State::ForcedOpen
            | State::ForcedClosed => self.throughput.resume(now),
        }
        self.note_change(from, now);
    }

    /// Notes that callers see another state than before.
    fn note_change(&mut self, from: State, now: Time) {
        let (to, epoch, cause) = (
            self.inner_state(now),
            self.breaker.epoch,
            self.breaker.past().cause,
        );
        let to = match self.order_at(now).map(|order| order.kind) {
            Some(OverrideKind::ForceOpen) => State::ForcedOpen,
            Some(OverrideKind::ForceClosed) => State::ForcedClosed,
            None => to,
        };
        self.note(Change::Transition {
            from,
            to,
            epoch,
            cause,
        });
    }

    /// Does what time alone has brought about: the end of an override, silence of permits
    /// that were never reported, answers too old to be given again.
    pub fn advance(&mut self, policy: &Policy, context: &Context) {
        let now = context.now;
        self.touched = self.touched.max(now);
        self.end_expired_order(now);
        self.breaker.judge_second(&policy.breaker, now);
        self.breaker.forget_quiet(now);
        while let Some(silence) = self.tickets.expire(now) {
            self.count_silence(policy, silence.permits, silence.ended, now);
        }
        self.climb(policy, now);
        self.turn_calendar(policy, now);
        self.forget_rare(policy.rate.as_ref(), now);
    }

    /// An override that has expired leaves the breaker closed since then, with no evidence.
    pub(crate) fn end_expired_order(&mut self, now: Time) {
        let end = self.order().and_then(|order| order.expires);
        if let Some(end) = end.filter(|end| now >= *end) {
            let from = self.ordered_state();
            self.take_order();
            self.breaker.forget_level();
            self.breaker.close(Cause::OverrideExpired, end);
            self.note_transition(from, now);
        }
    }

    /// The state that the override in the record stands for, whether it has ended or not.
    pub(crate) fn ordered_state(&self) -> State {
        match self.order().map(|order| order.kind) {
            Some(OverrideKind::ForceOpen) => State::ForcedOpen,
            Some(OverrideKind::ForceClosed) => State::ForcedClosed,
            None => State::Closed,
        }
    }

    fn count_silence(&mut self, policy: &Policy, permits: u32, ended: Time, now: Time) {
        if permits == 0 {
            return;
        }
        let permits = match policy.breaker.detect {
            Detect::Adaptive => self.count_silent(permits, ended),
            Detect::Window(_) => permits,
        };
        self.gather_silence(permits);
        self.take_silence(policy, permits, ended, now);
    }

    /// Counts silence, whoever it was that noticed it.
    fn take_silence(&mut self, policy: &Policy, permits: u32, ended: Time, now: Time) {
        if policy.breaker.detect == Detect::Adaptive {
            let counts = Counts {
                calls: permits,
                failures: permits,
                slow: 0,
            };
            self.note_ended(counts, None, now);
        }
        let (trips, from) = (self.trips_at(now), self.inner_state(now));
        let at = ended.min(now);
        if self
            .breaker
            .count_silence(&policy.breaker, permits, at, now, trips)
        {
            self.note_transition(from, now);
        }
    }

    /// Whether evidence may open the breaker: an operator may have forced it closed.
    fn trips_at(&self, now: Time) -> Trips {
        match self.order_at(now) {
            Some(_) => Trips::Never,
            None => Trips::WhenReached,
        }
    }

    /// Counts calls of the current epoch and notes the trip, if they bring one.
    pub(crate) fn count(&mut self, policy: &Policy, heard: &Heard, now: Time) {
        let (trips, from) = (self.trips_at(now), self.inner_state(now));
        if self.breaker.count(&policy.breaker, heard, now, trips) {
            self.note_transition(from, now);
        }
        if let Some(news) = self.breaker.take_news() {
            self.note(Change::Caller(news));
        }
    }

    /// Takes one outcome of the current epoch, of one instance, into the state. `held_lease`:
    /// it is that of a probe whose lease was live.
    pub(crate) fn take_outcome(
        &mut self,
        policy: &Policy,
        outcome: &Outcome,
        reporter: u64,
        held_lease: bool,
        now: Time,
    ) {
        self.take_hold(policy, outcome, now);
        self.gather_one(policy, outcome, reporter);
        let counts = match Breaker::verdict(&policy.breaker, outcome) {
            Verdict::Nothing => Counts::default(),
            Verdict::Counted(call) => Counts {
                calls: 1,
                failures: u32::from(call.failed),
                slow: u32::from(call.slow),
            },
        };
        let succeeded = outcome.kind == OutcomeKind::Success;
        self.note_ended(counts, outcome.latency.filter(|_| succeeded), now);
        if policy.breaker.mode == Mode::Off {
            return;
        }
        self.breaker.note_reporter(reporter, now);
        let ended = Ended::one(&policy.breaker, outcome);
        self.breaker.note_second(&policy.breaker, ended, now);
        if held_lease && self.breaker.phase == Phase::HalfOpen {
            let from = self.inner_state(now);
            if self.breaker.end_probe(&policy.breaker, outcome, now) {
                self.begin_ramp(policy, now);
                self.note_transition(from, now);
            }
        } else if counts.calls > 0 {
            let heard = Heard {
                reporter: Some(reporter),
                counts,
                at: now,
            };
            self.count(policy, &heard, now);
        }
    }

    /// A pushback of a policy whose scope is the dependency holds the fleet for as long as was
    /// asked, however soon `pushback.max` ends the call that was told: a fleet that comes back
    /// earlier is told again. [`HOLD_MAX`] at most, since what asks for more is mistaken.
    fn take_hold(&mut self, policy: &Policy, outcome: &Outcome, now: Time) {
        let Some(asked) = outcome.pushback.filter(|asked| !asked.is_zero()) else {
            return;
        };
        let binds_all = match policy.pushback.scope {
            crate::policy::PushbackScope::Caller => false,
            crate::policy::PushbackScope::Dependency => outcome.kind != OutcomeKind::Success,
        };
        let until = now + asked.min(HOLD_MAX);
        if binds_all && until > self.held_until() {
            self.hold_until(until);
            self.note(Change::Held(now.until(until)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_small_enough_for_a_million_of_them() {
        assert!(size_of::<Record>() <= 264, "{} bytes", size_of::<Record>());
    }
}
