//! Attempts that were made on pushed state, counted by dependency and epoch, until the next
//! report takes them along.
//!
//! An attempt is counted when it ends: its start and its end together. Counted when it
//! starts, one whose failure is told with a question, which counts the start again, would
//! deposit twice in the retry budget, just when everything fails.
//!
//! Starts counted before the stream began that takes them along are told as none: a fleet
//! that was alone for a while had its own budgets of them, and told all at once they would
//! be a lump of retries just when the service is back.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::{
    outcome::{Outcome, OutcomeKind},
    proto,
    pushed::OnState,
    wire,
};

/// Counters; past it new ones are refused. Those that exist go on.
const COUNTERS_MAX: usize = 10_000;
/// As of one outcome on the wire.
const LONGEST_LATENCY: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Default)]
pub(crate) struct Tallies {
    counters: HashMap<(Arc<str>, u64), Counter>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    /// Since the present stream began.
    first_attempts: u32,
    successes: u32,
    failures: u32,
    timeouts: u32,
    throttled: u32,
    rejected: u32,
    ignored: u32,
    slow: u32,
    latency_sum: Duration,
}

impl Tallies {
    /// Counts an attempt that ended. False: there is no room.
    pub(crate) fn note(&mut self, dependency: &Arc<str>, on: OnState, outcome: &Outcome) -> bool {
        let key = (Arc::clone(dependency), on.epoch);
        if self.counters.len() >= COUNTERS_MAX && !self.counters.contains_key(&key) {
            return false;
        }
        self.counters.entry(key).or_default().note(on, outcome);
        true
    }

    /// Takes so many at most.
    pub(crate) fn take(&mut self, count: usize) -> impl Iterator<Item = proto::ReportEntry> {
        let taken = self.counters.extract_if(|_, _| true).take(count);
        taken.map(|((dependency, epoch), counter)| counter.as_entry(&dependency, epoch))
    }

    /// A stream begins: what was counted before it deposits nothing.
    pub(crate) fn forget_starts(&mut self) {
        for counter in self.counters.values_mut() {
            counter.first_attempts = 0;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.counters.is_empty()
    }
}

impl Counter {
    fn note(&mut self, on: OnState, outcome: &Outcome) {
        let counter = match outcome.kind {
            OutcomeKind::Success => &mut self.successes,
            // The dependency could not be reached: for the breaker a failure like any.
            OutcomeKind::Failure | OutcomeKind::NotSent => &mut self.failures,
            OutcomeKind::Timeout => &mut self.timeouts,
            OutcomeKind::Throttled => &mut self.throttled,
            OutcomeKind::Rejected => &mut self.rejected,
            OutcomeKind::Ignored | OutcomeKind::Cancelled => &mut self.ignored,
        };
        *counter = counter.saturating_add(1);
        self.first_attempts = self.first_attempts.saturating_add(1);
        if let Some(latency) = outcome.latency {
            let slow_after = Duration::from(on.slow_after);
            let is_slow = !slow_after.is_zero() && latency >= slow_after;
            self.slow = self.slow.saturating_add(u32::from(is_slow));
            self.latency_sum = self
                .latency_sum
                .saturating_add(latency.min(LONGEST_LATENCY));
        }
    }

    fn as_entry(&self, dependency: &str, epoch: u64) -> proto::ReportEntry {
        proto::ReportEntry {
            entry: Some(proto::report_entry::Entry::Tally(proto::Tally {
                dependency: dependency.to_owned(),
                epoch,
                first_attempts: self.first_attempts,
                successes: self.successes,
                failures: self.failures,
                timeouts: self.timeouts,
                throttled: self.throttled,
                rejected: self.rejected,
                slow: self.slow,
                ignored: self.ignored,
                latency_sum: Some(wire::write_duration(self.latency_sum)),
            })),
        }
    }
}

#[cfg(test)]
mod tests {
    use holdoff_decision::Nanos;

    use super::*;

    fn on(epoch: u64) -> OnState {
        OnState {
            epoch,
            slow_after: Nanos::from_millis(100),
        }
    }

    fn taken(tallies: &mut Tallies) -> Vec<proto::Tally> {
        let entries = tallies.take(usize::MAX).map(|entry| entry.entry);
        let mut tallies: Vec<_> = entries
            .map(|entry| match entry {
                Some(proto::report_entry::Entry::Tally(tally)) => tally,
                other => panic!("{other:?}"),
            })
            .collect();
        tallies.sort_by_key(|tally| (tally.dependency.clone(), tally.epoch));
        tallies
    }

    #[test]
    fn each_end_is_counted_once_with_its_start_and_the_slow_ones_again() {
        let mut tallies = Tallies::default();
        let ends = [
            (OutcomeKind::Success, 10),
            (OutcomeKind::Success, 100),
            (OutcomeKind::Failure, 20),
            (OutcomeKind::NotSent, 1),
            (OutcomeKind::Timeout, 500),
            (OutcomeKind::Throttled, 1),
            (OutcomeKind::Rejected, 1),
            (OutcomeKind::Ignored, 1),
            (OutcomeKind::Cancelled, 1),
        ];
        for (kind, ms) in ends {
            let outcome = Outcome::new(kind).latency(Duration::from_millis(ms));
            assert!(tallies.note(&"payments".into(), on(3), &outcome));
        }
        let expected = proto::Tally {
            dependency: "payments".into(),
            epoch: 3,
            first_attempts: 9,
            successes: 2,
            failures: 2,
            timeouts: 1,
            throttled: 1,
            rejected: 1,
            slow: 2,
            ignored: 2,
            latency_sum: Some(wire::write_duration(Duration::from_millis(635))),
        };
        assert_eq!(taken(&mut tallies), [expected]);
        assert!(tallies.is_empty());
    }

    #[test]
    fn dependencies_and_epochs_are_counted_apart() {
        let mut tallies = Tallies::default();
        for (dependency, epoch) in [("a", 1), ("a", 2), ("b", 1), ("a", 1)] {
            tallies.note(&dependency.into(), on(epoch), &Outcome::success());
        }
        let counts: Vec<_> = taken(&mut tallies)
            .into_iter()
            .map(|tally| (tally.dependency, tally.epoch, tally.successes))
            .collect();
        let expected = [("a".into(), 1, 2), ("a".into(), 2, 1), ("b".into(), 1, 1)];
        assert_eq!(counts, expected);
    }

    #[test]
    fn what_was_counted_before_a_stream_began_deposits_nothing_and_what_comes_after_does() {
        let mut tallies = Tallies::default();
        let name = "a".into();
        for _ in 0..3 {
            tallies.note(&name, on(1), &Outcome::success());
        }
        tallies.forget_starts();
        tallies.note(&name, on(1), &Outcome::failure());
        let told = taken(&mut tallies);
        let counts = (told[0].first_attempts, told[0].successes, told[0].failures);
        assert_eq!(counts, (1, 3, 1));
    }

    #[test]
    fn cl5_ten_thousand_counters_are_held_and_those_that_exist_go_on() {
        let mut tallies = Tallies::default();
        let success = Outcome::success();
        for number in 0..COUNTERS_MAX {
            assert!(tallies.note(&format!("d{number}").into(), on(1), &success));
        }
        assert!(!tallies.note(&"one more".into(), on(1), &success));
        assert!(tallies.note(&"d0".into(), on(1), &success));
        assert_eq!(taken(&mut tallies).len(), COUNTERS_MAX);
    }
}
