//! What a dependency did in health: successes a second, how long one took, and which share
//! of its calls failed.
//!
//! An exponential moving average with a half-life of 30 s, corrected for its age, so that a
//! record of two seconds does not show a twentieth of the truth. It is what the calendar
//! plans with under `retry_rate: auto`, and what the recovery ramp climbs back to.
//!
//! It stands still while the dependency is not closed, and while more than half of the last
//! sixteen or so outcomes failed: an outage must not teach that nothing can be done.
//!
//! The usual share of failures moves by a 256th with each call, while at most one in four of
//! the last sixteen or so fails. A breaker that opens takes back what the begin of the outage
//! has added: it would allow the recovery what broke it.

use crate::{
    Nanos, Time,
    bytes::{Bytes, Corrupt, Reader, fields},
};

const HALF_LIFE: Nanos = Nanos::from_secs(30);
/// Time is counted in grains of 100 ms, 0.3 % of the half-life.
const GRAIN: u64 = Nanos::from_millis(100).0;
const GRAINS_IN_A_HALF_LIFE: f64 = 300.0;
/// The average of a younger record is that of one second.
const YOUNGEST: f32 = 0.022_84;
/// How much one outcome moves the share of failures.
const RECENT: f32 = 1.0 / 16.0;
/// How much one success moves the usual latency.
const LATENCY: f32 = 1.0 / 256.0;
/// How much one call moves the usual share of failures.
const USUAL: f32 = 1.0 / 256.0;
/// Above this share of the last calls they say nothing of what is usual.
const HEALTHY: f32 = 0.25;
/// What a tally says of the usual latency moves it as so many successes do at most (by an
/// eighth), and to no more than so many times of what it was: one that lies does not undo
/// what hundreds have told, and a dependency that has become slower is believed after a few.
pub(crate) const TALLIED_MAX: u32 = 32;
const TALLIED_TIMES_MAX: f32 = 4.0;

/// The moving averages of one dependency.
#[derive(Clone, Copy, Debug, Default)]
pub struct Throughput {
    /// Successes a second, before it is corrected for age.
    per_second: f64,
    /// The grain that this is as of.
    grain: u32,
    /// How much of a full average this is, 0 to 1.
    weight: f32,
    /// Share of the last outcomes that failed.
    failing: Part,
    /// Share that fails in health.
    usual_failing: Part,
    /// Seconds; 0: not known.
    latency: f32,
}

/// What is known of a dependency in health, in whole numbers, to be written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// Successes in a thousand seconds.
    pub per_kilosecond: u64,
    /// Of a success; zero where it is not known.
    pub latency: Nanos,
    /// Parts per million of the calls that fail.
    pub failing_ppm: u32,
}

/// A share of 0 to 1 in two bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Part(u16);

impl Part {
    fn of(share: f32) -> Self {
        Self((share.clamp(0.0, 1.0) * f32::from(u16::MAX)).round() as u16)
    }

    fn share(self) -> f32 {
        f32::from(self.0) / f32::from(u16::MAX)
    }
}

impl Bytes for Part {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        u16::read(from).map(Self)
    }
}

fields!(Throughput {
    per_second,
    grain,
    weight,
    failing,
    usual_failing,
    latency
});

impl Throughput {
    /// As it was written down: a full average, which stands until something is noted.
    pub fn of(health: &Health, now: Time) -> Self {
        Self {
            per_second: health.per_kilosecond as f64 / 1e3,
            grain: grain(now),
            weight: 1.0,
            usual_failing: Part::of(health.failing_ppm as f32 / 1e6),
            latency: health.latency.as_secs_f64() as f32,
            ..Self::default()
        }
    }

    /// To be written down; `None`: nothing is known.
    pub fn health(&self) -> Option<Health> {
        self.standing().map(|per_second| Health {
            per_kilosecond: (per_second * 1e3).round() as u64,
            latency: self.latency().unwrap_or(Nanos::ZERO),
            failing_ppm: (self.usual_failing() * 1e6).round() as u32,
        })
    }

    /// Adds outcomes of a closed dependency.
    pub fn note(&mut self, successes: u32, failures: u32, now: Time) {
        self.note_share(successes, failures);
        self.learn_failing(successes, failures);
        if self.failing() > 0.5 {
            self.skip(now);
            return;
        }
        self.settle(now);
        let per_half_life = std::f64::consts::LN_2 / HALF_LIFE.as_secs_f64();
        self.per_second += f64::from(successes) * per_half_life;
    }

    /// Adds the latency of one success in health.
    pub fn note_latency(&mut self, latency: Nanos) {
        let seen = latency.as_secs_f64() as f32;
        self.latency = match self.latency {
            0.0 => seen,
            usual => usual + (seen - usual) * LATENCY,
        };
    }

    /// Adds the mean latency of so many successes in health, as one client counted them.
    pub fn note_mean_latency(&mut self, mean: Nanos, successes: u32) {
        if successes == 0 {
            return;
        }
        let seen = mean.as_secs_f64() as f32;
        self.latency = match self.latency {
            0.0 => seen,
            usual => {
                let moved = 1.0 - (1.0 - LATENCY).powf(successes.min(TALLIED_MAX) as f32);
                usual + (seen.min(usual * TALLIED_TIMES_MAX) - usual) * moved
            }
        };
    }

    /// Ages the average to `now`; from there on it may stand still.
    pub fn settle(&mut self, now: Time) {
        if self.weight == 0.0 && self.per_second == 0.0 {
            // Nothing has been seen that could age.
            self.grain = grain(now);
            return;
        }
        let passed = between(self.grain, grain(now));
        if passed == 0 {
            return;
        }
        self.grain = self.grain.wrapping_add(passed);
        let part = 0.5_f64.powf(f64::from(passed) / GRAINS_IN_A_HALF_LIFE);
        self.per_second *= part;
        self.weight = 1.0 - (1.0 - self.weight) * part as f32;
    }

    /// Share of the last sixteen or so outcomes that failed, 0 to 1.
    pub fn failing(&self) -> f32 {
        self.failing.share()
    }

    /// Share of the calls that fail in health, 0 to 1.
    pub fn usual_failing(&self) -> f32 {
        self.usual_failing.share()
    }

    /// Goes on at `now` as if no time had passed.
    pub fn resume(&mut self, now: Time) {
        self.skip(now);
        let added = self.failing().min(HEALTHY) * USUAL / RECENT;
        self.usual_failing = Part::of(self.usual_failing() - added);
        self.failing = Part::default();
    }

    fn skip(&mut self, now: Time) {
        let passed = between(self.grain, grain(now));
        self.grain = self.grain.wrapping_add(passed);
    }

    /// Successes a second as of the last outcome; `None`: none is known.
    pub fn standing(&self) -> Option<f64> {
        let known = self.per_second > 0.0;
        known.then(|| self.per_second / f64::from(self.weight.max(YOUNGEST)))
    }

    /// Successes a second at `now`; `None`: none is known.
    pub fn at(&self, now: Time) -> Option<f64> {
        let mut aged = *self;
        if self.failing() <= 0.5 {
            aged.settle(now);
        }
        aged.standing()
    }

    /// The usual latency of a success; `None`: not known.
    pub fn latency(&self) -> Option<Nanos> {
        let known = self.latency > 0.0;
        known.then(|| Nanos((f64::from(self.latency) * 1e9) as u64))
    }

    fn note_share(&mut self, successes: u32, failures: u32) {
        let all = successes.saturating_add(failures);
        let moved = match all {
            0 => return,
            1 => RECENT,
            _ => 1.0 - (1.0 - RECENT).powf(all as f32),
        };
        let seen = failures as f32 / all as f32;
        let failing = self.failing();
        self.failing = Part::of(failing + (seen - failing) * moved);
    }

    fn learn_failing(&mut self, successes: u32, failures: u32) {
        let all = successes.saturating_add(failures);
        if all > 0 && self.failing() <= HEALTHY {
            let (usual, seen) = (self.usual_failing(), failures as f32 / all as f32);
            let moved = 1.0 - (1.0 - USUAL).powf(all as f32);
            self.usual_failing = Part::of(usual + (seen - usual) * moved);
        }
    }
}

/// Modulo 2^32, which is 13 years: the clock begins in 1970, and grains since then do not fit.
fn grain(now: Time) -> u32 {
    (now.0 / GRAIN) as u32
}

/// Grains from one to the other; 0 where that is earlier.
fn between(from: u32, to: u32) -> u32 {
    let passed = to.wrapping_sub(from);
    if passed > u32::MAX / 2 { 0 } else { passed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time((seconds * 1e9) as u64)
    }

    /// So many successes a second for so many seconds, one at a time.
    fn run(throughput: &mut Throughput, per_second: u32, from: f64, seconds: u32) {
        for call in 0..per_second * seconds {
            let now = from + f64::from(call) / f64::from(per_second);
            throughput.note(1, 0, at(now));
        }
    }

    #[test]
    fn it_is_known_after_two_seconds_and_followed_over_minutes() {
        let mut throughput = Throughput::default();
        assert_eq!(throughput.at(at(1.0)), None);
        run(&mut throughput, 400, 0.0, 2);
        let early = throughput.at(at(2.0)).unwrap();
        assert!((early - 400.0).abs() < 20.0, "{early}");
        run(&mut throughput, 400, 2.0, 120);
        run(&mut throughput, 100, 122.0, 30);
        let halfway = throughput.standing().unwrap();
        assert!((halfway - 250.0).abs() < 12.0, "{halfway}");
    }

    #[test]
    fn it_is_the_same_by_a_clock_that_began_in_1970_and_where_the_grains_wrap() {
        let wraps = (1_u64 << 32) as f64 / 10.0;
        for origin in [0.0, 1_700_000_000.0, 4.0 * wraps - 60.0] {
            let mut throughput = Throughput::default();
            run(&mut throughput, 10, origin, 120);
            let now = at(origin + 120.0);
            let known = throughput.at(now).unwrap();
            assert!((known - 10.0).abs() < 1.0, "{origin}: {known}");
            throughput.note(1, 0, at(origin));
            let again = throughput.at(now).unwrap();
            assert!(
                (again - known).abs() < 0.1,
                "a clock that goes back: {again}"
            );
        }
    }

    #[test]
    fn a_million_a_second_is_counted_as_exactly_as_ten() {
        let mut throughput = Throughput::default();
        for millis in 0..60_000 {
            throughput.note(1000, 0, at(f64::from(millis) / 1e3));
        }
        let seen = throughput.standing().unwrap();
        assert!((seen - 1e6).abs() < 5e3, "{seen}");
    }

    #[test]
    fn it_stands_still_while_more_than_half_fail() {
        let mut throughput = Throughput::default();
        run(&mut throughput, 100, 0.0, 60);
        let before = throughput.standing().unwrap();
        for second in 60..600 {
            throughput.note(0, 20, at(f64::from(second)));
        }
        let after = throughput.at(at(600.0)).unwrap();
        assert!((after - before).abs() < 3.0, "{before} {after}");
    }

    #[test]
    fn it_falls_by_half_in_each_quiet_half_life() {
        let mut throughput = Throughput::default();
        run(&mut throughput, 100, 0.0, 300);
        let seen = throughput.at(at(330.0)).unwrap();
        assert!((seen - 50.0).abs() < 2.0, "{seen}");
    }

    #[test]
    fn the_usual_latency_is_that_of_hundreds_of_successes() {
        let mut throughput = Throughput::default();
        assert_eq!(throughput.latency(), None);
        for _ in 0..2000 {
            throughput.note_latency(Nanos::from_millis(10));
        }
        throughput.note_latency(Nanos::from_secs(1));
        let usual = throughput.latency().unwrap();
        assert!(usual > Nanos::from_millis(9) && usual < Nanos::from_millis(15));
    }

    #[test]
    fn a_tally_says_of_the_usual_latency_what_its_successes_would_have_said() {
        let (mut single, mut tallied) = (Throughput::default(), Throughput::default());
        for round in 0..400 {
            let latency = Nanos::from_millis(20 + round % 7);
            for _ in 0..16 {
                single.note_latency(latency);
            }
            tallied.note_mean_latency(latency, 16);
        }
        let (single, tallied) = (single.latency().unwrap(), tallied.latency().unwrap());
        let apart = single.as_secs_f64() - tallied.as_secs_f64();
        assert!(apart.abs() < 0.000_1, "{single} {tallied}");
    }

    #[test]
    fn one_tally_that_lies_moves_the_usual_latency_by_less_than_half() {
        for (lie, count) in [
            (Nanos::MAX, u32::MAX),
            (Nanos(1), u32::MAX),
            (Nanos::MAX, 1),
        ] {
            let mut throughput = Throughput::default();
            throughput.note_mean_latency(Nanos::from_millis(20), 1_000);
            throughput.note_mean_latency(lie, count);
            let usual = throughput.latency().unwrap().as_secs_f64();
            assert!(usual > 0.017 && usual < 0.028, "{usual}");
            throughput.note_mean_latency(Nanos::from_secs(1), 0);
            assert_eq!(throughput.latency().unwrap().as_secs_f64(), usual);
        }
    }

    #[test]
    fn what_fails_in_health_is_learned_and_an_outage_teaches_nothing() {
        let mut throughput = Throughput::default();
        for call in 0..2_000_u32 {
            let failed = u32::from(call % 10 == 9);
            throughput.note(1 - failed, failed, at(f64::from(call) / 100.0));
        }
        let usual = throughput.usual_failing();
        assert!((usual - 0.1).abs() < 0.02, "{usual}");
        for call in 0..11_u32 {
            throughput.note(0, 1, at(20.0 + f64::from(call) / 100.0));
        }
        throughput.resume(at(30.0));
        assert!((throughput.usual_failing() - usual).abs() < 0.02);
        let mut healthy = Throughput::default();
        healthy.note(10_000, 0, at(1.0));
        (0..5).for_each(|_| healthy.note(0, 1, at(2.0)));
        healthy.resume(at(3.0));
        let usual = healthy.usual_failing();
        assert!(usual < 0.004, "{usual}");
    }

    #[test]
    fn what_is_written_down_comes_back_within_a_thousandth() {
        let mut throughput = Throughput::default();
        run(&mut throughput, 400, 0.0, 60);
        throughput.note_latency(Nanos::from_millis(20));
        let kept = throughput.health().unwrap();
        let restored = Throughput::of(&kept, at(1e6));
        let (before, after) = (throughput.standing().unwrap(), restored.standing().unwrap());
        assert!((after - before).abs() < before / 1e3, "{before} {after}");
        assert_eq!(restored.health(), Some(kept));
        assert_eq!(Throughput::default().health(), None);
    }

    #[test]
    fn it_is_small() {
        assert!(size_of::<Throughput>() <= 24);
    }
}
