//! The climb after a recovery: one curve of admitted attempts for the whole fleet.
//!
//! ```text
//! begin          start * X                       X: successes a second before the outage
//! each step      * 2 up to X, then + X / 10 where somebody waits
//!                * 0.7 after more than 1 % failures
//!                * 0.9 after a mean latency above twice the usual one + 20 ms
//! end            four steps at X or above in which nobody waited, or `max_duration`
//! ```
//!
//! A dependency that comes back cold is slower than it was, and nobody knows by how much.
//! So the curve is closed-loop: it goes where outcomes let it, and X is where it stops to
//! double, no limit. A trip of the breaker ends it.
//!
//! What a slow step served is what the dependency can do, so the curve steps back below it,
//! to 97 % of it at most. It waits a step, since what ends in it was admitted before, and then
//! while each step is less slow than the one before: the queue drains, and less would leave the
//! dependency idle behind it. It comes near what was served by thirty-fifths. Without this it swings
//! by half around the capacity. Twenty latencies that are too slow end a step early, after a fifth
//! of it. The 20 ms are for a dependency that
//! comes back at a tenth of its speed: each call alone is slow then, and less load would not
//! make it faster.
//!
//! Attempts are placed on the curve by one instant, the time of the next free place (as in
//! [`crate::rate`], without a burst); places beyond the end of this step are as far apart as
//! the curve will have them if it climbs. Within `horizon` a place is promised, as a delay;
//! beyond it nothing is, and the caller is told when to ask again (`line`): when the curve,
//! as it would climb, has places that nobody was told yet, half a horizon early, so that
//! callers a little late leave no place empty.
//!
//! Those who come back have waited longer than those who ask for the first time, and nothing
//! tells them apart but when they come: each call has a moment of its own in each quarter of
//! a second, and is told no other. While that quarter is full of those who were told it, who
//! asks at another moment finds places only within a sixth of the horizon, and is told a time
//! behind them. So the line is nearly first come, first served, and keeps no names; the price
//! is that a tenth of the new ones happen to ask at their moment, and that who takes longer
//! than 25 ms to ask is taken for a new one. Who never comes back takes nobody's place.
//!
//! The rules that the contract leaves open: X is taken as ten a second at least; the rate
//! never falls below X / 64 nor below one a second; after a step back it doubles no further
//! than to where it fell; where more than 1 % fail in health, twice that share is allowed;
//! fewer than three latencies say nothing; somebody waits where a caller was refused, or was
//! given more than half the horizon.

mod line;
mod slope;

use std::fmt;

use self::{
    line::Line,
    slope::{Ahead, Slope},
};
use crate::{
    Nanos, Share, Time,
    bytes::{fields, variants},
    policy,
};

/// As the calendar's `auto`, X is never taken as less a second.
const SLOWEST_TARGET: f64 = 10.0;
/// Of X; the rate never falls below it.
const LOWEST_PART: f64 = 1.0 / 64.0;
const FASTEST: f64 = 1e9;
const FAILURES_ALLOWED: f32 = 0.01;
/// Steps at X or above in which nobody waited.
const QUIET_STEPS: u32 = 4;
/// Steps that are judged at once after a pause; what would come later is much the same.
const STEPS_AT_ONCE: u32 = 128;
/// What one slow step leaves of the rate at least.
const DEEPEST_CUT: f64 = 0.25;
const LATENCIES_MIN: u32 = 3;
/// So many end a step early, if they are too slow, once this part of it is over. What ends in a
/// shorter time says little of what the dependency serves in a second.
const LATENCIES_PLAIN: u32 = 20;
const PLAIN_AFTER_PARTS: u64 = 5;
/// Beyond twice the usual latency.
const SLOWNESS_MIN: Nanos = Nanos::from_millis(20);
const CUT_AFTER_FAILURES: f64 = 0.7;
const CUT_AFTER_SLOWNESS: f64 = 0.9;
/// Of what a slow step served.
const BELOW_CEILING: f64 = 0.97;
/// The part of the horizon that is open to whom no place was kept for.
const HORIZON_OF_NEW: u64 = 6;

/// One recovery.
#[derive(Clone, Debug, PartialEq)]
pub struct Ramp {
    ends: Time,
    /// X, a second.
    target: f64,
    /// Admitted a second.
    rate: f64,
    /// `None`: no latency says anything.
    too_slow: Option<f64>,
    failures_allowed: f32,
    step_began: Time,
    /// Of a step, as the policy had it last.
    length: Nanos,
    step: Step,
    /// Since a slow step: what has queued is still served.
    drains: Option<Drain>,
    quiet: u32,
    /// Up to here the rate doubles.
    doubles_to: f64,
    /// Successes a second in the last step that was slow: what the dependency can do.
    ceiling: f64,
    /// The next free place.
    next: Time,
    line: Line,
}

/// What a step has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Step {
    successes: u32,
    failures: u32,
    latencies: u32,
    /// Seconds.
    latency_sum: f64,
    somebody_waited: bool,
}

/// After a step back for slowness.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Drain {
    /// In this step ends what was admitted before.
    Begins,
    /// The mean latency of the step before, in seconds.
    Since(f64),
}

impl Drain {
    /// Whether a slow step of this mean latency says no more than that the queue is not empty yet.
    fn lasts(self, mean: f64) -> bool {
        match self {
            Self::Begins => true,
            Self::Since(before) => mean < before,
        }
    }
}

impl Step {
    /// Seconds.
    fn mean_latency(&self) -> f64 {
        self.latency_sum / f64::from(self.latencies.max(1))
    }
}

variants!(Drain { Begins = 0, Since(before) = 1 });
fields!(Step {
    successes,
    failures,
    latencies,
    latency_sum,
    somebody_waited
});
fields!(Ramp {
    ends, target, rate, too_slow, failures_allowed, step_began, length, step, drains, quiet,
    doubles_to, ceiling, next, line,
} if |ramp| ramp.quiet <= QUIET_STEPS);

/// What was usual before the outage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usual {
    /// Successes a second.
    pub per_second: f64,
    /// Of a success; `None`: not known.
    pub latency: Option<Nanos>,
    /// Share of calls that fail in health.
    pub failing: f32,
}

/// Where the curve stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    pub per_second: f64,
    /// The throughput before the outage.
    pub target: f64,
    /// Callers that were told to ask again and whose turn has not come.
    pub waiting: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Climbs,
    Done,
}

impl Ramp {
    /// Begins the climb. `None`: the policy has none, or nothing is known to climb to.
    pub fn begin(policy: &policy::Ramp, usual: Option<Usual>, now: Time) -> Option<Self> {
        let usual = usual.filter(|usual| usual.per_second > 0.0)?;
        if policy.start >= Share::ONE || policy.max_duration.is_zero() {
            return None;
        }
        let target = usual.per_second.clamp(SLOWEST_TARGET, FASTEST);
        let mut ramp = Self {
            ends: now + policy.max_duration,
            target,
            rate: 0.0,
            too_slow: usual.latency.map(|usual| {
                let twice = usual.saturating_add(usual);
                twice.saturating_add(SLOWNESS_MIN).as_secs_f64()
            }),
            failures_allowed: match usual.failing > FAILURES_ALLOWED {
                true => 2.0 * usual.failing,
                false => FAILURES_ALLOWED,
            },
            step_began: now,
            length: length(policy),
            step: Step::default(),
            drains: None,
            quiet: 0,
            doubles_to: target,
            ceiling: FASTEST,
            next: now,
            line: Line::new(now),
        };
        ramp.set_rate(policy.start.as_ratio() * target);
        Some(ramp)
    }

    /// Whether the climb lasts at `now`, also where nothing has happened since its last step:
    /// who looks need not wait for the next call to see its end.
    pub fn lasts(&self, now: Time) -> bool {
        let is_judged = now < self.step_began + self.length;
        now < self.ends && (is_judged || self.clone().judge_until(now) == Progress::Climbs)
    }

    /// The wait for the next place of a call, which goes by any number that is its own. Takes
    /// nothing.
    ///
    /// # Errors
    /// It lies beyond the horizon.
    pub fn room(
        &self,
        policy: &policy::Ramp,
        call: u64,
        unit: f64,
        now: Time,
    ) -> Result<Nanos, Curve> {
        let wait = now.until(self.next);
        let horizon = match self.line.is_kept_for_others(self.rate, call, now) {
            true => Nanos(policy.horizon.0 / HORIZON_OF_NEW),
            false => policy.horizon,
        };
        if wait > horizon {
            return Err(self.curve(now));
        }
        match wait.is_zero() {
            true => Ok(Nanos::ZERO),
            false => Ok(wait.saturating_add(interval(self.rate).scaled(unit))),
        }
    }

    /// Takes the place that [`Self::room`] looked at.
    pub fn take(&mut self, policy: &policy::Ramp, now: Time) {
        self.step.somebody_waited |= now.until(self.next).0 > policy.horizon.0 / 2;
        let place = self.next.max(now);
        let rate = match self.drains.is_some() {
            true => self.rate,
            false => Ahead::of(self, policy).rate(place),
        };
        self.next = place + interval(rate);
    }

    /// When a call that found no place may ask again. It is counted as waiting.
    pub fn line_up(&mut self, policy: &policy::Ramp, call: u64, unit: f64, now: Time) -> Nanos {
        self.step.somebody_waited = true;
        self.line.advance(now);
        let queue = now.until(self.next).0.saturating_sub(policy.horizon.0 / 2);
        let mut ahead = Ahead::hoped(self, policy);
        let told = self
            .line
            .join(now + Nanos(queue), call, unit, |at| ahead.rate(at));
        let over = now.until(self.ends);
        match now.until(told) {
            wait if wait <= over => wait.max(Nanos::from_millis(1)),
            // After the climb nobody waits; those that it would last too long for come then.
            wait => over.saturating_add(wait.saturating_sub(over).scaled(unit)),
        }
    }

    /// Notes how attempts ended.
    pub fn note(&mut self, successes: u32, failures: u32) {
        self.step.successes = self.step.successes.saturating_add(successes);
        self.step.failures = self.step.failures.saturating_add(failures);
    }

    /// Notes how long one success took.
    pub fn note_latency(&mut self, latency: Nanos) {
        self.step.latencies = self.step.latencies.saturating_add(1);
        self.step.latency_sum += latency.as_secs_f64();
    }

    /// Judges the steps that are over.
    pub fn advance(&mut self, policy: &policy::Ramp, now: Time) -> Progress {
        if now >= self.ends || policy.start >= Share::ONE {
            return Progress::Done;
        }
        self.length = length(policy);
        self.judge_until(now)
    }

    fn judge_until(&mut self, now: Time) -> Progress {
        let length = self.length;
        let since = now.since(self.step_began);
        let is_late = !since.is_zero() && since >= Nanos(length.0 / PLAIN_AFTER_PARTS);
        let is_plain = is_late && self.is_plainly_slow();
        if is_plain && self.drains.is_none() {
            self.line.advance(now);
            self.judge(since);
            self.step_began = now;
        }
        for _ in 0..STEPS_AT_ONCE {
            let end = self.step_began + length;
            if now < end {
                return Progress::Climbs;
            }
            self.line.advance(end);
            self.judge(length);
            self.step_began = end;
            if self.quiet >= QUIET_STEPS {
                return Progress::Done;
            }
        }
        self.step_began = self.step_began.max(now);
        Progress::Climbs
    }

    pub fn curve(&self, now: Time) -> Curve {
        Curve {
            per_second: self.rate,
            target: self.target,
            waiting: self.line.waiting(now),
        }
    }

    fn judge(&mut self, length: Nanos) {
        let step = std::mem::take(&mut self.step);
        let ended = step.successes.saturating_add(step.failures);
        let failed = step.failures as f32 > failures_expected(ended, self.failures_allowed);
        let slow = step.latencies >= LATENCIES_MIN && self.is_too_slow(&step);
        let waits = step.somebody_waited || self.line.waiting(self.step_began) > 0;
        let at_target = self.rate >= self.target;
        self.quiet = match at_target && !waits && !failed && !slow {
            true => self.quiet + 1,
            false => 0,
        };
        let (drains, mean) = (self.drains.take(), step.mean_latency());
        if failed {
            self.step_back(CUT_AFTER_FAILURES * self.rate);
        } else if slow && drains.is_some_and(|drain| drain.lasts(mean)) {
            self.drains = Some(Drain::Since(mean));
        } else if slow {
            self.ceiling = f64::from(step.successes) / length.as_secs_f64();
            let cut = (CUT_AFTER_SLOWNESS * self.rate).min(BELOW_CEILING * self.ceiling);
            self.step_back(cut.max(DEEPEST_CUT * self.rate));
            self.drains = Some(Drain::Begins);
        } else if drains.is_none() && (waits || !at_target) {
            self.set_rate(self.climbed(self.rate));
        }
    }

    /// Whether enough of a step that is not over has been seen.
    fn is_plainly_slow(&self) -> bool {
        self.step.latencies >= LATENCIES_PLAIN && self.is_too_slow(&self.step)
    }

    fn is_too_slow(&self, step: &Step) -> bool {
        let mean = step.mean_latency();
        self.too_slow.is_some_and(|limit| mean > limit)
    }

    fn step_back(&mut self, rate: f64) {
        self.set_rate(rate);
        self.doubles_to = self.rate.min(self.target);
    }

    fn climbed(&self, rate: f64) -> f64 {
        self.slope().climbed(rate)
    }

    fn slope(&self) -> Slope {
        Slope {
            doubles_to: self.doubles_to,
            target: self.target,
            ceiling: self.ceiling,
        }
    }

    fn set_rate(&mut self, rate: f64) {
        self.rate = rate
            .max(self.target * LOWEST_PART)
            .clamp(1.0, FASTEST.max(1.0));
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} calls a second are admitted, {:.0} before the outage; {} callers wait",
            self.per_second, self.target, self.waiting
        )
    }
}

/// Between two places, rounded up so that the rate is never exceeded.
fn interval(rate: f64) -> Nanos {
    Nanos((1e9 / rate).ceil() as u64)
}

fn length(policy: &policy::Ramp) -> Nanos {
    policy.step.max(Nanos::from_millis(1))
}

/// So many failures of so many calls are no reason to step back. Where some always fail, few
/// calls have more by mere chance: two standard deviations of a Poisson count are allowed.
fn failures_expected(calls: u32, allowed: f32) -> f32 {
    let mean = calls as f32 * allowed;
    match allowed > FAILURES_ALLOWED {
        true => mean + 2.0 * mean.sqrt(),
        false => mean,
    }
}

#[cfg(test)]
mod tests;
