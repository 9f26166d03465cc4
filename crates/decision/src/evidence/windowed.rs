//! The thresholds of a window, each instance counting for its share at most.

use super::{
    Heard, Judged, Limits, Reporters,
    clip::{self, Pool},
    trail::{Place, Trail},
};
use crate::{
    Time,
    policy::{self, WindowSize},
    window::{Reached, Window},
};

/// Calls that an instance's own window holds.
const OWN_CALLS_MAX: u32 = 256;

impl Reporters {
    /// Takes what one instance reported, which `window` holds already, and says which of
    /// its thresholds is reached when no instance counts for more than its share.
    pub fn judge(
        &mut self,
        policy: &policy::Breaker,
        thresholds: &policy::Window,
        window: &Window,
        heard: &Heard,
        recent: u32,
        at: Time,
    ) -> Judged<Option<Reached>> {
        let slow = !policy.slow_after.is_zero();
        let place = self.count(thresholds, slow, heard, at);
        self.end_fault(heard, at);
        let active = self.active(recent, at);
        if active <= 1 {
            return Judged::Alone;
        }
        let limits = Limits::new(policy, active);
        let raw = window.reached(thresholds, slow, at);
        let reached = raw.and_then(|_| self.reached(thresholds, window, slow, limits, place, at));
        if reached.is_none() {
            let would = raw.is_some();
            self.find_fault_in_window(policy, thresholds, heard.reporter, would, limits, place, at);
        }
        Judged::Fleet(reached)
    }

    /// Counts for a window and says where in it this was.
    fn count(&mut self, thresholds: &policy::Window, slow: bool, heard: &Heard, at: Time) -> Place {
        if self.size != Some(thresholds.size) {
            self.size = Some(thresholds.size);
            self.calls = 0;
            for held in self.held.iter_mut().chain([&mut self.silence]) {
                (held.trail, held.own_window) = (Trail::default(), None);
            }
        }
        let counts = heard.counts;
        let place = Place::new(thresholds.size, self.calls, at);
        self.calls = self.calls.saturating_add(u64::from(counts.calls));
        // Nobody knows that a silent call succeeded.
        let good = counts.calls > counts.failures && heard.reporter.is_some();
        self.row = self.row.wrapping_add(u32::from(good));
        let row = self.row;
        if counts.failures > 0 || (slow && counts.slow > 0) {
            let reporter = self.tracked(heard.reporter, at);
            reporter.trail.add(counts.failures, counts.slow, place);
            let before = reporter.in_row(row);
            let more = if good { 0 } else { counts.failures };
            reporter.row = (row, before.saturating_add(more));
        }
        if heard.reporter.is_some()
            && let Some(reporter) = self.find(heard.reporter)
        {
            let own = reporter
                .own_window
                .get_or_insert_with(|| Box::new(Window::new(own_thresholds(thresholds).size, at)));
            own.record_all(counts, at);
        }
        place
    }

    /// The thresholds again, each instance counting for its share at most.
    fn reached(
        &self,
        thresholds: &policy::Window,
        window: &Window,
        slow: bool,
        limits: Limits,
        place: Place,
        at: Time,
    ) -> Option<Reached> {
        let (row, counts) = (self.row, window.counts(at));
        let asked = thresholds.consecutive_failures;
        let all = || self.held.iter().chain([&self.silence]);
        let in_row = all().map(|held| held.in_row(row));
        let in_a_row = clip::row(in_row, window.in_a_row(), part_of(asked, limits.share));
        if asked > 0 && in_a_row >= asked && self.has_quorum(limits, |held| held.in_row(row) > 0) {
            return Some(Reached::ConsecutiveFailures(window.in_a_row()));
        }
        let reaches = |bad: u32, of: fn((u32, u32)) -> u32, ratio: crate::Share| {
            let of_each = all().map(|held| of(held.trail.counts(place))).collect();
            let pool = Pool {
                calls: counts.calls,
                bad,
                of_each,
            };
            pool.reaches(ratio.as_ratio(), thresholds.min_calls, limits.share)
                && self.has_quorum(limits, |held| of(held.trail.counts(place)) > 0)
        };
        if reaches(counts.failures, |held| held.0, thresholds.failure_ratio) {
            Some(Reached::FailureRatio(counts))
        } else if slow && reaches(counts.slow, |held| held.1, thresholds.slow_ratio) {
            Some(Reached::SlowRatio(counts))
        } else {
            None
        }
    }

    #[allow(clippy::too_many_arguments, reason = "what a judgement is made of")]
    fn find_fault_in_window(
        &mut self,
        policy: &policy::Breaker,
        thresholds: &policy::Window,
        name: Option<u64>,
        would_trip: bool,
        limits: Limits,
        place: Place,
        at: Time,
    ) {
        let (row, slow) = (self.row, !policy.slow_after.is_zero());
        let Some(reporter) = name.and_then(|name| self.find(Some(name))) else {
            return;
        };
        let own = own_thresholds(thresholds);
        let own_trips = (reporter.own_window.as_ref())
            .is_some_and(|window| window.reached(&own, slow, at).is_some());
        let needed = thresholds.failure_ratio.as_ratio() * f64::from(thresholds.min_calls.max(1));
        let (failures, slow) = reporter.trail.counts(place);
        let asked = thresholds.consecutive_failures;
        let stands_out = failures.max(slow) >= part_of(needed.ceil() as u32, limits.share)
            || (asked > 0 && reporter.in_row(row) >= part_of(asked, limits.share));
        if own_trips || (would_trip && stands_out) {
            reporter.refuse(policy, at);
        }
    }
}

/// The whole calls that are a share of `needed`, rounded up.
fn part_of(needed: u32, share: f64) -> u32 {
    (f64::from(needed) * share).ceil() as u32
}

/// The thresholds of one instance's own window: the fleet's, over 256 calls at most.
fn own_thresholds(thresholds: &policy::Window) -> policy::Window {
    let size = match thresholds.size {
        WindowSize::Time(span) => WindowSize::Time(span),
        WindowSize::Calls(calls) => WindowSize::Calls(calls.min(OWN_CALLS_MAX)),
    };
    policy::Window {
        size,
        min_calls: thresholds.min_calls.min(OWN_CALLS_MAX),
        ..thresholds.clone()
    }
}
