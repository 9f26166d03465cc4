//! What a record plans: the calendar of its retries, and the climb after a recovery.
//!
//! Both are allocated on use and freed when they are over. The throughput that both go by
//! is always kept: it cannot be learned when it is needed.

use crate::{
    Nanos, Policy, Record, State, Time,
    breaker::{Cause, Phase},
    calendar::{Calendar, Pace, Place},
    permit::{Permit, PermitKind},
    policy::{Mode, RetryRate},
    ramp::{Progress, Ramp, Usual},
    throughput::TALLIED_MAX,
    window::Counts,
};

/// A calendar that learns its rate never plans fewer retries a second.
const SLOWEST_PACE: f64 = 10.0;

impl Record {
    /// Judges the steps of the ramp that are over. Its end changes no epoch.
    pub(super) fn climb(&mut self, policy: &Policy, now: Time) {
        let progress = (self.ramp_mut()).map(|ramp| ramp.advance(&policy.ramp, now));
        if progress == Some(Progress::Done) {
            self.end_ramp();
            self.throughput.resume(now);
            self.breaker.past_mut().cause = Cause::Recovered;
            self.note_change(State::Recovering, now);
        }
    }

    /// Forgets the slots that have passed and takes up the present rate.
    pub(super) fn turn_calendar(&mut self, policy: &Policy, now: Time) {
        let Some(mut calendar) = self.rare.as_mut().and_then(|rare| rare.calendar.take()) else {
            return;
        };
        calendar.advance(now);
        if calendar.is_empty_at(self.touched) {
            return;
        }
        if let Some(pace) = self.pace(policy, now) {
            calendar.adapt(policy.calendar.slot, pace, now);
        }
        self.rare_mut().calendar = Some(calendar);
    }

    /// How many retries a second are planned; `None`: there is no calendar.
    pub fn pace(&self, policy: &Policy, now: Time) -> Option<Pace> {
        let micros = |per_second: f64| (per_second * 1e6) as u64;
        match policy.calendar.retry_rate {
            RetryRate::Off => None,
            RetryRate::PerSecond(rate) => Some(Pace::Fixed(micros(rate))),
            RetryRate::Auto => {
                let usual = self.usual_rate(now).unwrap_or_default();
                Some(Pace::Learned(micros(usual.max(SLOWEST_PACE))))
            }
        }
    }

    /// Successes a second in health; it stands still outside of it.
    pub fn usual_rate(&self, now: Time) -> Option<f64> {
        match self.inner_state(now) {
            State::Closed => self.throughput.at(now),
            State::Open
            | State::HalfOpen
            | State::Recovering
            | State::ForcedOpen
            | State::ForcedClosed => self.throughput.standing(),
        }
    }

    /// The calendar, a new one where nothing is planned. `None`: the policy has none.
    pub(crate) fn calendar_now(&mut self, policy: &Policy, now: Time) -> Option<&mut Calendar> {
        let pace = self.pace(policy, now)?;
        let (slot, touched) = (policy.calendar.slot, self.touched);
        let new = || Box::new(Calendar::new(slot, pace, touched));
        Some(self.rare_mut().calendar.get_or_insert_with(new))
    }

    /// Promises a place that was found at this instant.
    pub(crate) fn take_place(&mut self, policy: &Policy, place: Place, now: Time) {
        if let Some(calendar) = self.calendar_now(policy, now) {
            calendar.take(place);
        }
    }

    /// Gives back the place of a permit whose time has not come.
    pub(crate) fn give_back(&mut self, permit: &Permit, now: Time) {
        let at = permit.issued + permit.delay;
        if permit.kind == PermitKind::Planned
            && now < at
            && let Some(calendar) = (self.rare.as_mut()).and_then(|rare| rare.calendar.as_mut())
        {
            calendar.release(at);
        }
    }

    /// Begins the climb of a breaker that has just closed.
    pub(super) fn begin_ramp(&mut self, policy: &Policy, now: Time) {
        if self.breaker.phase == Phase::Closed && policy.breaker.mode == Mode::Enforce {
            let usual = self.throughput.standing().map(|per_second| Usual {
                per_second,
                latency: self.throughput.latency(),
                failing: self.throughput.usual_failing(),
            });
            self.end_ramp();
            if let Some(ramp) = Ramp::begin(&policy.ramp, usual, now) {
                self.rare_mut().ramp = Some(Box::new(ramp));
            }
        }
    }

    pub(super) fn end_ramp(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.ramp = None;
        }
    }

    /// Notes the mean latency of so many successes that one client counted.
    pub(crate) fn note_mean_latency(&mut self, mean: Nanos, successes: u32) {
        if self.was_told_the_ramp() {
            return;
        }
        let ramp = (self.rare.as_mut()).and_then(|rare| rare.ramp.as_mut());
        match (ramp, self.breaker.phase) {
            (Some(ramp), Phase::Closed) => {
                for _ in 0..successes.min(TALLIED_MAX) {
                    ramp.note_latency(mean);
                }
            }
            (None, Phase::Closed) => self.throughput.note_mean_latency(mean, successes),
            (_, Phase::Open | Phase::HalfOpen) => {}
        }
    }

    /// Notes how attempts ended for the throughput, or for the ramp.
    pub(crate) fn note_ended(&mut self, counts: Counts, latency: Option<Nanos>, now: Time) {
        if self.was_told_the_ramp() {
            return;
        }
        let successes = counts.calls.saturating_sub(counts.failures);
        let latency = latency.filter(|_| counts.failures == 0);
        let ramp = (self.rare.as_mut()).and_then(|rare| rare.ramp.as_mut());
        match (ramp, self.breaker.phase) {
            (Some(ramp), Phase::Closed) => {
                ramp.note(successes, counts.failures);
                latency.into_iter().for_each(|it| ramp.note_latency(it));
            }
            (None, Phase::Closed) => {
                self.throughput.note(successes, counts.failures, now);
                latency
                    .into_iter()
                    .for_each(|it| self.throughput.note_latency(it));
            }
            (_, Phase::Open | Phase::HalfOpen) => {}
        }
    }
}
