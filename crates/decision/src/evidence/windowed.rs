//! The thresholds of a window, each instance counting for its share at most.

use super::{
    Heard, Judged, Limits, Reporter, Reporters, Sketch,
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
        recent: &Sketch<2>,
        now: Time,
    ) -> Judged<Option<Reached>> {
        let slow = !policy.slow_after.is_zero();
        let place = self.count(thresholds, slow, heard);
        self.end_fault(heard);
        let active = self.active(recent, heard.at);
        if active <= 1 {
            return Judged::Alone;
        }
        let look = Look {
            thresholds,
            slow,
            limits: Limits::new(policy, active),
            place,
        };
        let raw = window.reached(thresholds, slow, now);
        let reached = raw.and_then(|_| self.reached(&look, window, now));
        if let (None, Some(name)) = (reached, heard.reporter)
            && self.stands_out(&look, name, raw.is_some(), heard.at)
        {
            self.refuse(policy, name, heard.at);
        }
        Judged::Fleet(reached)
    }

    /// Counts for a window and says where in it this was.
    fn count(&mut self, thresholds: &policy::Window, slow: bool, heard: &Heard) -> Place {
        let at = heard.at;
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
    fn reached(&self, look: &Look<'_>, window: &Window, now: Time) -> Option<Reached> {
        let (counts, thresholds) = (window.counts(now), look.thresholds);
        if self.row_reaches(look, window.in_a_row()) {
            return Some(Reached::ConsecutiveFailures(window.in_a_row()));
        }
        let reaches = |bad: u32, of: fn((u32, u32)) -> u32, ratio: crate::Share| {
            let of_each = |held: &Reporter| of(held.trail.counts(look.place));
            let pool = Pool {
                calls: counts.calls,
                bad,
                of_each: self.all().map(of_each).collect(),
            };
            pool.reaches(ratio.as_ratio(), thresholds.min_calls, look.limits.share)
                && self.has_quorum(look.limits, |held| of_each(held) > 0)
        };
        if reaches(counts.failures, |held| held.0, thresholds.failure_ratio) {
            Some(Reached::FailureRatio(counts))
        } else if look.slow && reaches(counts.slow, |held| held.1, thresholds.slow_ratio) {
            Some(Reached::SlowRatio(counts))
        } else {
            None
        }
    }

    fn row_reaches(&self, look: &Look<'_>, all: u32) -> bool {
        let asked = look.thresholds.consecutive_failures;
        let of_each = self.all().map(|held| held.in_row(self.row));
        asked > 0
            && clip::row(of_each, all, part_of(asked, look.limits.share)) >= asked
            && self.has_quorum(look.limits, |held| held.in_row(self.row) > 0)
    }

    fn all(&self) -> impl Iterator<Item = &Reporter> {
        self.held.iter().chain([&self.silence])
    }

    /// Whether an instance fails by its own window, or filled its part of what would trip
    /// the fleet.
    fn stands_out(&mut self, look: &Look<'_>, name: u64, would_trip: bool, at: Time) -> bool {
        let row = self.row;
        let Some(reporter) = self.find(Some(name)) else {
            return false;
        };
        let own = own_thresholds(look.thresholds);
        let own_trips = (reporter.own_window.as_ref())
            .is_some_and(|window| window.reached(&own, look.slow, at).is_some());
        let share = look.limits.share;
        let needed =
            look.thresholds.failure_ratio.as_ratio() * f64::from(look.thresholds.min_calls.max(1));
        let (failures, slow) = reporter.trail.counts(look.place);
        let filled = failures.max(slow) >= part_of(needed.ceil() as u32, share);
        let asked = look.thresholds.consecutive_failures;
        let filled_row = asked > 0 && reporter.in_row(row) >= part_of(asked, share);
        own_trips || (would_trip && (filled || filled_row))
    }
}

/// What a judgement looks at.
#[derive(Clone, Copy, Debug)]
struct Look<'a> {
    thresholds: &'a policy::Window,
    slow: bool,
    limits: Limits,
    place: Place,
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
