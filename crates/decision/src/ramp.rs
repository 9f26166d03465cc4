//! The climb after a recovery: one curve of admitted attempts for the whole fleet.
//!
//! ```text
//! begin          start * X                       X: successes a second before the outage
//! each step      * 2 up to X, then + X / 10 where somebody waits
//!                * 0.7 after more than 1 % failures
//!                * 0.85 after a mean latency above twice the usual one
//! end            four steps at X or above in which nobody waited, or `max_duration`
//! ```
//!
//! A dependency that comes back cold is slower than it was, and nobody knows by how much.
//! So the curve is closed-loop: it goes where outcomes let it, and X is where it stops to
//! double, no limit. A trip of the breaker ends it.
//!
//! Attempts are placed on the curve by one instant, the time of the next free place (as in
//! [`crate::rate`], without a burst). Within `horizon` a place is promised, as a delay;
//! beyond it nothing is, and the caller is told when to ask again. For that the callers
//! that were told are counted, and the count falls as places pass: the next one is told the
//! time at which the curve, as it would climb, has a place behind all of them, less half a
//! horizon, so that callers a little late leave no place empty. The count decides nothing
//! but that time, so one who never comes back takes nobody's place.
//!
//! The rules that the contract leaves open: X is taken as ten a second at least; the rate
//! never falls below X / 64 nor below one a second; where more than 1 % fail in health,
//! twice that share is allowed; slowness of less than 5 ms says nothing, nor do fewer than
//! three latencies; somebody waits where a caller was refused, or was given more than half
//! the horizon.

use std::fmt;

use crate::{Nanos, Share, Time, policy};

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
/// Steps that a place in line looks ahead.
const STEPS_AHEAD: u32 = 64;
const LATENCIES_MIN: u32 = 3;
const SLOWNESS_MIN: Nanos = Nanos::from_millis(5);

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
    step: Step,
    quiet: u32,
    /// The next free place.
    next: Time,
    /// Callers that were told to ask again, as of `counted`.
    waiting: f64,
    counted: Time,
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
                let limit = usual.saturating_add(usual.max(SLOWNESS_MIN));
                limit.as_secs_f64()
            }),
            failures_allowed: match usual.failing > FAILURES_ALLOWED {
                true => 2.0 * usual.failing,
                false => FAILURES_ALLOWED,
            },
            step_began: now,
            step: Step::default(),
            quiet: 0,
            next: now,
            waiting: 0.0,
            counted: now,
        };
        ramp.set_rate(policy.start.as_ratio() * target);
        Some(ramp)
    }

    /// Whether the climb lasts at `now`.
    pub fn lasts(&self, now: Time) -> bool {
        now < self.ends
    }

    /// The wait for the next place. Takes nothing.
    ///
    /// # Errors
    /// It lies beyond the horizon.
    pub fn room(&self, policy: &policy::Ramp, unit: f64, now: Time) -> Result<Nanos, Curve> {
        let wait = now.until(self.next);
        if wait > policy.horizon {
            return Err(self.curve(now));
        }
        match wait.is_zero() {
            true => Ok(Nanos::ZERO),
            false => Ok(wait.saturating_add(self.interval().scaled(unit))),
        }
    }

    /// Takes the place that [`Self::room`] looked at.
    pub fn take(&mut self, policy: &policy::Ramp, now: Time) {
        self.step.somebody_waited |= now.until(self.next).0 > policy.horizon.0 / 2;
        self.next = self.next.max(now) + self.interval();
    }

    /// When a caller that found no place may ask again. It is counted as waiting.
    pub fn line_up(&mut self, policy: &policy::Ramp, unit: f64, now: Time) -> Nanos {
        self.count_to(now);
        self.step.somebody_waited = true;
        let turn = self.turn(policy);
        self.waiting = (self.waiting + 1.0).min(FASTEST);
        let over = now.until(self.ends);
        match now.until(turn) {
            wait if wait <= over => wait
                .saturating_sub(Nanos(policy.horizon.0 / 2))
                .max(Nanos::from_millis(1))
                .saturating_add(self.interval().scaled(unit)),
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
        if !self.lasts(now) || policy.start >= Share::ONE {
            return Progress::Done;
        }
        let length = length(policy);
        for _ in 0..STEPS_AT_ONCE {
            let end = self.step_began + length;
            if now < end {
                return Progress::Climbs;
            }
            self.count_to(end);
            self.judge();
            self.step_began = end;
            if self.quiet >= QUIET_STEPS {
                return Progress::Done;
            }
        }
        self.step_began = self.step_began.max(now);
        Progress::Climbs
    }

    pub fn curve(&self, now: Time) -> Curve {
        let mut as_of_now = self.clone();
        as_of_now.count_to(now);
        Curve {
            per_second: self.rate,
            target: self.target,
            waiting: as_of_now.waiting as u64,
        }
    }

    fn judge(&mut self) {
        let step = std::mem::take(&mut self.step);
        let ended = step.successes.saturating_add(step.failures);
        let failed = step.failures as f32 > ended as f32 * self.failures_allowed;
        let mean = step.latency_sum / f64::from(step.latencies.max(1));
        let known = step.latencies >= LATENCIES_MIN;
        let slow = known && self.too_slow.is_some_and(|limit| mean > limit);
        let waits = step.somebody_waited || self.waiting >= 1.0;
        let at_target = self.rate >= self.target;
        self.quiet = match at_target && !waits && !failed && !slow {
            true => self.quiet + 1,
            false => 0,
        };
        match (failed, slow) {
            (true, _) => self.set_rate(self.rate * 0.7),
            (false, true) => self.set_rate(self.rate * 0.85),
            (false, false) if waits || !at_target => self.set_rate(self.climbed(self.rate)),
            (false, false) => {}
        }
    }

    fn climbed(&self, rate: f64) -> f64 {
        match rate < self.target {
            true => (2.0 * rate).min(self.target),
            false => rate + self.target / 10.0,
        }
    }

    fn set_rate(&mut self, rate: f64) {
        self.rate = rate
            .max(self.target * LOWEST_PART)
            .clamp(1.0, FASTEST.max(1.0));
    }

    /// Between two places, rounded up so that the rate is never exceeded.
    fn interval(&self) -> Nanos {
        Nanos((1e9 / self.rate).ceil() as u64)
    }

    /// Lets the places pass that come before `to`.
    fn count_to(&mut self, to: Time) {
        let passed = to.since(self.counted).as_secs_f64() * self.rate;
        self.waiting = (self.waiting - passed).max(0.0);
        self.counted = self.counted.max(to);
    }

    /// When the place behind all that wait comes, if the curve climbs from here on.
    fn turn(&self, policy: &policy::Ramp) -> Time {
        let length = length(policy);
        let mut at = self.next.max(self.counted);
        let mut end = self.step_began + length;
        let (mut ahead, mut rate) = (self.waiting, self.rate);
        for _ in 0..STEPS_AHEAD {
            let places = at.until(end).as_secs_f64() * rate;
            if ahead <= places {
                break;
            }
            ahead -= places;
            at = at.max(end);
            end = end + length;
            rate = self.climbed(rate);
        }
        at + Nanos((ahead / rate * 1e9) as u64)
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

fn length(policy: &policy::Ramp) -> Nanos {
    policy.step.max(Nanos::from_millis(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Share;

    const NOW: Time = Time(7_000_000_000);

    fn usual(per_second: f64) -> Option<Usual> {
        Some(Usual {
            per_second,
            latency: Some(Nanos::from_millis(10)),
            failing: 0.001,
        })
    }

    fn begin(per_second: f64) -> Ramp {
        Ramp::begin(&policy::Ramp::default(), usual(per_second), NOW).unwrap()
    }

    fn at(millis: u64) -> Time {
        NOW + Nanos::from_millis(millis)
    }

    /// The rate after each of so many steps in which somebody waited.
    fn rates(ramp: &mut Ramp, steps: u64) -> Vec<u64> {
        let policy = policy::Ramp::default();
        let first = ramp.step_began;
        (1..=steps)
            .map(|step| {
                ramp.step.somebody_waited = true;
                ramp.advance(&policy, first + Nanos::from_millis(250 * step));
                ramp.rate.round() as u64
            })
            .collect()
    }

    #[test]
    fn the_curve_doubles_up_to_what_was_and_then_climbs_by_tenths() {
        let policy = policy::Ramp {
            start: Share(100_000),
            ..policy::Ramp::default()
        };
        let mut ramp = Ramp::begin(&policy, usual(1000.0), NOW).unwrap();
        assert_eq!(ramp.rate.round() as u64, 100);
        assert_eq!(rates(&mut ramp, 6), [200, 400, 800, 1000, 1100, 1200]);
    }

    #[test]
    fn failures_and_slowness_push_the_curve_back() {
        let mut ramp = begin(1000.0);
        rates(&mut ramp, 1);
        ramp.note(98, 2);
        assert_eq!(rates(&mut ramp, 1), [700]);
        rates(&mut ramp, 1);
        ramp.note(199, 2);
        assert_eq!(rates(&mut ramp, 1), [1100], "1 % is allowed");
        for _ in 0..5 {
            ramp.note_latency(Nanos::from_millis(21));
        }
        assert_eq!(rates(&mut ramp, 1), [935]);
        ramp.note_latency(Nanos::from_secs(9));
        assert_eq!(rates(&mut ramp, 1), [1000], "one latency says nothing");
    }

    #[test]
    fn the_curve_never_falls_to_nothing() {
        let mut ramp = begin(1000.0);
        for _ in 0..50 {
            ramp.note(0, 10);
            rates(&mut ramp, 1);
        }
        assert_eq!(ramp.rate.round() as u64, 16);
        assert_eq!(rates(&mut ramp, 3), [31, 63, 125]);
    }

    #[test]
    fn nothing_known_or_a_whole_start_means_no_ramp() {
        let policy = policy::Ramp::default();
        assert_eq!(Ramp::begin(&policy, None, NOW), None);
        assert_eq!(Ramp::begin(&policy, usual(0.0), NOW), None);
        let off = policy::Ramp {
            start: Share::ONE,
            ..policy
        };
        assert_eq!(Ramp::begin(&off, usual(100.0), NOW), None);
    }

    #[test]
    fn places_follow_each_other_at_the_rate_and_end_at_the_horizon() {
        let policy = policy::Ramp::default();
        let mut ramp = begin(200.0);
        let mut waits = Vec::new();
        while let Ok(wait) = ramp.room(&policy, 0.0, NOW) {
            ramp.take(&policy, NOW);
            waits.push(wait.0 / 1_000_000);
        }
        assert_eq!(waits.len(), 31);
        assert_eq!(waits[..3], [0, 10, 20]);
        assert_eq!(waits[30], 300);
        assert!(ramp.room(&policy, 0.0, at(10)).is_ok());
    }

    #[test]
    fn those_that_find_no_place_are_told_times_along_the_curve() {
        let policy = policy::Ramp::default();
        let mut ramp = begin(200.0);
        ramp.next = at(300);
        let told: Vec<u64> = (0..1000)
            .map(|_| ramp.line_up(&policy, 0.0, NOW).0 / 1_000_000)
            .collect();
        assert_eq!(told[0], 150);
        assert!(told.is_sorted());
        let in_second = |second: u64| {
            let within = |at: &&u64| **at / 1000 == second;
            told.iter().filter(within).count()
        };
        let per_second: Vec<usize> = (0..4).map(in_second).collect();
        assert_eq!(per_second.iter().sum::<usize>(), 1000, "{per_second:?}");
        assert!(per_second[1] > per_second[0]);
        assert_eq!(ramp.curve(NOW).waiting, 1000);
        assert_eq!(ramp.curve(at(1000)).waiting, 900);
    }

    #[test]
    fn a_quiet_ramp_is_over_soon_and_a_busy_one_at_its_longest() {
        let policy = policy::Ramp::default();
        let mut ramp = begin(200.0);
        assert_eq!(ramp.advance(&policy, at(1249)), Progress::Climbs);
        assert_eq!(ramp.advance(&policy, at(1250)), Progress::Done);
        let mut ramp = begin(200.0);
        for step in 1..240 {
            ramp.step.somebody_waited = true;
            assert_eq!(ramp.advance(&policy, at(250 * step)), Progress::Climbs);
        }
        assert_eq!(ramp.advance(&policy, at(60_000)), Progress::Done);
        assert!(!ramp.lasts(at(60_000)));
    }

    #[test]
    fn a_clock_that_goes_back_changes_nothing() {
        let policy = policy::Ramp::default();
        let mut ramp = begin(200.0);
        ramp.advance(&policy, at(600));
        let before = ramp.clone();
        assert_eq!(ramp.advance(&policy, Time(3)), Progress::Climbs);
        assert_eq!(ramp, before);
    }

    #[test]
    fn no_number_makes_it_panic() {
        for span in [0, 1, u64::MAX] {
            for per_second in [f64::MIN_POSITIVE, f64::INFINITY, 1e300, 3.0] {
                let policy = policy::Ramp {
                    start: Share(1),
                    step: Nanos(span),
                    max_duration: Nanos(u64::MAX - span),
                    horizon: Nanos(span),
                };
                let Some(mut ramp) = Ramp::begin(&policy, usual(per_second), NOW) else {
                    continue;
                };
                for now in [NOW, Time(0), at(1), Time::MAX] {
                    let _ = ramp.advance(&policy, now);
                    ramp.note(u32::MAX, u32::MAX);
                    ramp.note_latency(Nanos::MAX);
                    let _ = ramp.room(&policy, f64::NAN, now);
                    ramp.take(&policy, now);
                    let _ = ramp.line_up(&policy, f64::NAN, now);
                    let _ = ramp.curve(now);
                }
            }
        }
    }
}
