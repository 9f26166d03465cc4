//! Tells a failing dependency from a healthy one by a cumulative sum of evidence (Page's
//! CUSUM): the log-likelihood ratio of "fails with p1" against "fails with p0".
//!
//! ```text
//! failure: sum += ln(p1 / p0)          success: sum -= ln((1 - p0) / (1 - p1)), at least 0
//! trip:    sum >= 13.3 (ln 600,000)
//! p0 = clamp(2 * baseline, 2 %, 20 %)  p1 = clamp(5 * p0, 50 %, 90 %)
//! ```
//!
//! At the lowest p0 five straight failures trip it (3.2 each), 50 % failures take about
//! eleven samples. It needs no minimum volume: the sum *is* the volume. Old evidence
//! decays with a half-life of 30 s. Why not a window of the last 20 calls: it takes twice
//! the samples at 50 % failures, and hundreds at 20 %.
//!
//! The baseline is learned only from stretches that ended healthy (the sum came back to
//! zero), so an outage never teaches that failing is normal.

use crate::{
    Nanos, Time,
    bytes::{Bytes, Corrupt, Reader, fields},
};

/// What the sum must reach: one false trip in 600,000 independent decisions. It moves by
/// steps of 3.2 and 0.7, so ln 10^6 = 13.8 would mean the same at five straight failures and
/// cost a quarter of a sample more at 50 %.
pub const THRESHOLD: f32 = 13.3;
pub const HALF_LIFE: Nanos = Nanos::from_secs(30);
/// Calls after which a healthy stretch moves the baseline. Shorter ones are noise: three
/// failures in 64 calls are no rare chance at 1 %, and would slow the next trip down.
const LESSON: u16 = 256;
/// How far one lesson moves the baseline. Learning is slow, some 16,000 calls, so that a
/// dependency that begins to fail is told from one that always did.
const LEARNING: f32 = 1.0 / 64.0;

/// As [`Time`], but with the alignment of its neighbours: a breaker has no gap behind it, which
/// is what lets a record fit.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed(4))]
struct Packed(Time);

/// The evidence against one dependency.
#[derive(Clone, Debug)]
pub struct Detector {
    sum: f32,
    /// The learned share of failures in health.
    baseline: f32,
    at: Packed,
    /// The stretch since the baseline last moved.
    calls: u16,
    failures: u16,
}

impl Bytes for Packed {
    fn write(&self, out: &mut Vec<u8>) {
        { self.0 }.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        Time::read(from).map(Self)
    }
}

fields!(Detector { sum, baseline, at, calls, failures } if |detector| {
    detector.sum >= 0.0 && (0.0..=1.0).contains(&detector.baseline)
});

impl Default for Detector {
    fn default() -> Self {
        Self {
            sum: 0.0,
            baseline: 0.01,
            at: Packed(Time::ORIGIN),
            calls: 0,
            failures: 0,
        }
    }
}

impl Detector {
    /// Adds outcomes that ended at `now`, as their net sum. True: it trips.
    pub fn record(&mut self, successes: u32, failures: u32, now: Time) -> bool {
        // A success on a sum of nothing is the common case, and weighs nothing.
        if self.sum > 0.0 || failures > 0 {
            let (up, down) = self.weights();
            let net = failures as f32 * up - successes as f32 * down;
            self.sum = (self.decayed(now) + net).max(0.0);
        }
        self.at = Packed({ self.at.0 }.max(now));
        self.learn(successes, failures);
        self.sum >= THRESHOLD
    }

    /// Replaces the sum by one in which no instance has more than its part.
    pub fn set(&mut self, sum: f32) {
        self.sum = sum;
    }

    /// How much of what a trip needs has been seen, from 0; above 1 it has tripped.
    pub fn suspicion(&self, now: Time) -> f32 {
        self.decayed(now) / THRESHOLD
    }

    /// The learned share of failures in health.
    pub fn baseline(&self) -> f32 {
        self.baseline
    }

    /// Forgets the evidence and keeps the baseline.
    pub fn clear(&mut self) {
        (self.sum, self.calls, self.failures) = (0.0, 0, 0);
    }

    fn decayed(&self, now: Time) -> f32 {
        let half_lives = now.since(self.at.0).0 as f32 / HALF_LIFE.0 as f32;
        self.sum * (-half_lives).exp2()
    }

    fn learn(&mut self, successes: u32, failures: u32) {
        let mut calls = u64::from(self.calls) + u64::from(successes) + u64::from(failures);
        let mut failed = u64::from(self.failures) + u64::from(failures);
        // More than can be held: their share is kept.
        if calls > u64::from(u16::MAX) {
            failed = failed * u64::from(u16::MAX) / calls;
            calls = u64::from(u16::MAX);
        }
        (self.calls, self.failures) = (calls as u16, failed as u16);
        if self.sum > 0.0 || self.calls < LESSON {
            return;
        }
        let seen = f32::from(self.failures) / f32::from(self.calls);
        let lessons = f32::from(self.calls / LESSON).min(1.0 / LEARNING);
        self.baseline += (seen.min(1.0) - self.baseline) * LEARNING * lessons;
        (self.calls, self.failures) = (0, 0);
    }

    /// What one failure adds and one success takes, at this baseline.
    pub fn weights(&self) -> (f32, f32) {
        let p0 = (2.0 * self.baseline).clamp(0.02, 0.2);
        let p1 = (5.0 * p0).clamp(0.5, 0.9);
        ((p1 / p0).ln(), ((1.0 - p0) / (1.0 - p1)).ln())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trips_after(detector: &mut Detector, outcomes: impl Iterator<Item = bool>) -> Option<usize> {
        outcomes.enumerate().find_map(|(index, failed)| {
            let (good, bad) = (u32::from(!failed), u32::from(failed));
            detector.record(good, bad, Time(1)).then_some(index + 1)
        })
    }

    /// A fixed stream in which about `per_mille` of a thousand calls fail.
    fn stream(per_mille: u64, seed: u64) -> impl Iterator<Item = bool> {
        (0..).map(move |index: u64| {
            let mut z = (index ^ (seed << 40)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            (z ^ (z >> 31)) % 1000 < per_mille
        })
    }

    #[test]
    fn five_straight_failures_trip_and_four_do_not() {
        let mut detector = Detector::default();
        assert!(!detector.record(0, 4, Time(1)));
        assert!(detector.record(0, 1, Time(1)));
    }

    #[test]
    fn half_failures_trip_after_eleven_samples_on_average() {
        let mut total = 0;
        for seed in 0..1000 {
            let mut detector = Detector::default();
            trips_after(&mut detector, stream(10, seed).take(200));
            detector.clear();
            total += trips_after(&mut detector, stream(500, seed + 5000)).unwrap();
        }
        assert!(
            total <= 11_600,
            "{} samples on average",
            f64::from(total as u32) / 1000.0
        );
    }

    #[test]
    fn two_percent_failures_never_trip_in_three_million_samples() {
        let mut detector = Detector::default();
        assert_eq!(
            trips_after(&mut detector, stream(20, 9).take(3_000_000)),
            None
        );
    }

    #[test]
    fn a_learned_baseline_tolerates_what_is_usual() {
        let mut detector = Detector::default();
        assert_eq!(
            trips_after(&mut detector, stream(30, 1).take(100_000)),
            None
        );
        assert!(detector.baseline > 0.02, "{}", detector.baseline);
    }

    #[test]
    fn old_evidence_decays() {
        let mut detector = Detector::default();
        detector.record(0, 4, Time(1));
        assert!(!detector.record(0, 1, Time(1) + Nanos::from_secs(60)));
    }

    #[test]
    fn the_baseline_is_the_share_however_many_calls_a_tally_has() {
        let mut detector = Detector::default();
        for _ in 0..100 {
            assert!(!detector.record(2_940_000, 60_000, Time(1)));
        }
        assert!(
            (detector.baseline - 0.02).abs() < 0.001,
            "{}",
            detector.baseline
        );
    }

    #[test]
    fn an_outage_teaches_nothing() {
        let mut detector = Detector::default();
        let before = detector.baseline;
        detector.record(0, 1000, Time(1));
        assert_eq!(detector.baseline, before);
    }
}
