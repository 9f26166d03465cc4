//! The adaptive sum, kept by instance.

use super::{Heard, Judged, Limits, Reporters, Sketch, Sum};
use crate::{
    Time,
    detector::{HALF_LIFE, THRESHOLD},
    policy,
};

/// A smaller part of the sum is none: one failure is 1.5 to 3.2, and decays to this in two
/// and a half minutes.
const PART_MIN: f32 = 0.1;
/// Parts of a sum do not add up to the last digit.
const ENOUGH: f32 = THRESHOLD * 0.9999;

impl Reporters {
    /// Takes what one instance reported into the adaptive sum. `weights`: what one failure
    /// adds and one success takes.
    pub fn weigh(
        &mut self,
        policy: &policy::Breaker,
        weights: (f32, f32),
        heard: &Heard,
        recent: &Sketch<2>,
    ) -> Judged<Sum> {
        let at = heard.at;
        self.decay(at);
        let active = self.active(recent, at);
        let limits = Limits::new(policy, active);
        let good = heard.counts.calls.saturating_sub(heard.counts.failures);
        let net = heard.counts.failures as f32 * weights.0 - good as f32 * weights.1;
        if net > 0.0 {
            let reporter = self.tracked(heard.reporter, at);
            reporter.part = (reporter.part + net).min(THRESHOLD);
            reporter.own = (reporter.own + net).min(THRESHOLD);
        } else {
            self.take(-net, limits.part);
            if let Some(reporter) = self.find(heard.reporter) {
                reporter.own = (reporter.own + net).max(0.0);
            }
        }
        self.end_fault(heard);
        if active <= 1 {
            return Judged::Alone;
        }
        let sum = self.sum(limits.part);
        let quorum = self.has_quorum(limits, |reporter| reporter.part >= PART_MIN);
        let trips = sum >= ENOUGH && quorum;
        if !trips && heard.counts.failures > 0 {
            self.find_fault_in_sum(policy, heard.reporter, sum, limits, at);
        }
        Judged::Fleet(Sum { sum, trips })
    }

    fn decay(&mut self, at: Time) {
        let passed = at.since(self.at);
        if passed.is_zero() {
            return;
        }
        self.at = at;
        let left = (-(passed.0 as f32 / HALF_LIFE.0 as f32)).exp2();
        self.nameless *= left;
        for held in self.held.iter_mut().chain([&mut self.silence]) {
            held.part *= left;
            held.own *= left;
        }
    }

    fn sum(&self, most: f32) -> f32 {
        let held = self.held.iter().chain([&self.silence]);
        self.nameless + held.map(|held| held.part.min(most)).sum::<f32>()
    }

    /// Takes so much from the sum, from each part in proportion.
    fn take(&mut self, much: f32, most: f32) {
        let sum = self.sum(most);
        if sum <= 0.0 {
            return;
        }
        let left = ((sum - much) / sum).max(0.0);
        self.nameless *= left;
        for held in self.held.iter_mut().chain([&mut self.silence]) {
            held.part = held.part.min(most) * left;
        }
    }

    fn find_fault_in_sum(
        &mut self,
        policy: &policy::Breaker,
        name: Option<u64>,
        sum: f32,
        limits: Limits,
        at: Time,
    ) {
        let Some((name, reporter)) = name.and_then(|name| Some((name, self.find(Some(name))?)))
        else {
            return;
        };
        let without_rules = sum + reporter.part - reporter.part.min(limits.part);
        let stands_out = reporter.part >= limits.part && without_rules >= ENOUGH;
        if reporter.own >= ENOUGH || stands_out {
            self.refuse(policy, name, at);
        }
    }
}
