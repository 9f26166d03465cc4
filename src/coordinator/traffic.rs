//! What is asked of a dependency and by whom, counted while somebody follows it.
//!
//! A record has no room for this, and most dependencies never need it: the counts of one that
//! is not followed cost a decision one relaxed load. Those of one that is cost a short lock.
//! Nothing is decided by them.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use holdoff_decision::{Answer, DenialReason, Outcome, OutcomeKind, Reported, Tally, Time};

use super::{Caller, Coordinator, Inquiry, Key, Subject};
use crate::{permit::DependencyId, store::Store};

/// Reasons of denials; a test holds it to the last of them.
pub const REASONS: usize = DenialReason::PermitVoid as usize + 1;
/// Instances that are remembered of one dependency; the one that was silent longest goes.
const REPORTERS_MAX: usize = 64;

/// What was counted since the dependency is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// First attempts: granted here, or made on pushed state and tallied.
    pub first_attempts: u64,
    pub retries_granted: u64,
    pub probes_granted: u64,
    /// By `DenialReason as usize`.
    pub first_attempts_denied: [u64; REASONS],
    /// By `DenialReason as usize`; hedges and confirmations among them.
    pub retries_denied: [u64; REASONS],
    pub succeeded: u64,
    /// Failures and timeouts.
    pub failed: u64,
    /// Neither: throttled, rejected, not sent, ignored, cancelled.
    pub other: u64,
}

/// One caller instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reporter {
    pub service: String,
    pub instance: String,
    pub heard: Time,
    pub granted: u64,
    pub denied: u64,
    pub succeeded: u64,
    pub failed: u64,
}

/// The counts of one dependency. Dropping the last handle does not end them: see
/// [`Coordinator::unfollow_traffic`].
#[derive(Debug, Default)]
pub struct Followed {
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    traffic: Traffic,
    reporters: HashMap<u64, Reporter>,
}

/// All that are followed.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    any: AtomicBool,
    followed: ArcSwap<HashMap<DependencyId, Arc<Followed>>>,
    changing: Mutex<()>,
}

impl<S: Store> Coordinator<S> {
    /// Counts what is asked of a dependency from now on; counts that go on are handed out.
    pub fn follow_traffic(&self, key: Key<'_>) -> Arc<Followed> {
        self.traffic.follow(self.id(key))
    }

    /// Ends the counting.
    pub fn unfollow_traffic(&self, key: Key<'_>) {
        self.traffic.unfollow(self.id(key));
    }
}

impl Followed {
    pub fn traffic(&self) -> Traffic {
        self.locked().traffic
    }

    /// Those heard of, the latest first.
    pub fn reporters(&self) -> Vec<Reporter> {
        let mut reporters: Vec<Reporter> = self.locked().reporters.values().cloned().collect();
        reporters.sort_by(|a, b| (b.heard, &a.instance).cmp(&(a.heard, &b.instance)));
        reporters
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tracks {
    fn follow(&self, id: DependencyId) -> Arc<Followed> {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(followed) = self.followed.load().get(&id) {
            return Arc::clone(followed);
        }
        let mut next = HashMap::clone(&self.followed.load());
        let followed = Arc::<Followed>::default();
        next.insert(id, Arc::clone(&followed));
        self.followed.store(Arc::new(next));
        self.any.store(true, Ordering::Relaxed);
        followed
    }

    fn unfollow(&self, id: DependencyId) {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = HashMap::clone(&self.followed.load());
        next.remove(&id);
        self.any.store(!next.is_empty(), Ordering::Relaxed);
        self.followed.store(Arc::new(next));
    }

    pub(super) fn answered(
        &self,
        id: DependencyId,
        instance: u64,
        inquiry: &Inquiry<'_>,
        answer: &Answer,
        now: Time,
    ) {
        self.count(id, instance, inquiry.caller, now, |traffic, reporter| {
            if let (Subject::Retry { outcome, .. }, Some(Reported::Ok)) =
                (&inquiry.subject, answer.previous)
            {
                note_outcome(traffic, reporter, outcome.kind);
            }
            match (&answer.verdict, &inquiry.subject) {
                (Ok(grant), _) if grant.probe => traffic.probes_granted += 1,
                (Ok(_), Subject::First) => traffic.first_attempts += 1,
                (Ok(_), Subject::Retry { .. } | Subject::Hedge { .. }) => {
                    traffic.retries_granted += 1;
                }
                // Its retry was counted when it was promised.
                (Ok(_), Subject::Confirm(_)) => return,
                (Err(denial), Subject::First) => {
                    traffic.first_attempts_denied[denial.reason as usize] += 1;
                }
                (
                    Err(denial),
                    Subject::Retry { .. } | Subject::Hedge { .. } | Subject::Confirm(_),
                ) => traffic.retries_denied[denial.reason as usize] += 1,
            }
            match answer.verdict {
                Ok(_) => reporter.granted += 1,
                Err(_) => reporter.denied += 1,
            }
        });
    }

    pub(super) fn ended(
        &self,
        id: DependencyId,
        instance: u64,
        caller: Caller<'_>,
        outcome: &Outcome,
        reported: Reported,
        now: Time,
    ) {
        if reported == Reported::Ok {
            self.count(id, instance, caller, now, |traffic, reporter| {
                note_outcome(traffic, reporter, outcome.kind);
            });
        }
    }

    pub(super) fn tallied(
        &self,
        id: DependencyId,
        instance: u64,
        caller: Caller<'_>,
        tally: &Tally,
        reported: Reported,
        now: Time,
    ) {
        if !matches!(reported, Reported::Ok | Reported::StaleEpoch) {
            return;
        }
        self.count(id, instance, caller, now, |traffic, reporter| {
            let failed = u64::from(tally.failures) + u64::from(tally.timeouts);
            traffic.first_attempts += u64::from(tally.first_attempts);
            traffic.succeeded += u64::from(tally.successes);
            traffic.failed += failed;
            traffic.other +=
                u64::from(tally.throttled) + u64::from(tally.rejected) + u64::from(tally.ignored);
            reporter.granted += u64::from(tally.first_attempts);
            reporter.succeeded += u64::from(tally.successes);
            reporter.failed += failed;
        });
    }

    fn count(
        &self,
        id: DependencyId,
        instance: u64,
        caller: Caller<'_>,
        now: Time,
        note: impl FnOnce(&mut Traffic, &mut Reporter),
    ) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let followed = self.followed.load();
        let Some(followed) = followed.get(&id) else {
            return;
        };
        let mut counted = followed.locked();
        let Counted { traffic, reporters } = &mut *counted;
        if !reporters.contains_key(&instance) && reporters.len() >= REPORTERS_MAX {
            let longest = reporters.iter().min_by_key(|(_, reporter)| reporter.heard);
            if let Some(silent) = longest.map(|(silent, _)| *silent) {
                reporters.remove(&silent);
            }
        }
        let reporter = reporters.entry(instance).or_insert_with(|| Reporter {
            service: caller.service.to_owned(),
            instance: caller.instance.to_owned(),
            heard: now,
            granted: 0,
            denied: 0,
            succeeded: 0,
            failed: 0,
        });
        reporter.heard = now;
        note(traffic, reporter);
    }
}

fn note_outcome(traffic: &mut Traffic, reporter: &mut Reporter, kind: OutcomeKind) {
    match kind {
        OutcomeKind::Success => {
            traffic.succeeded += 1;
            reporter.succeeded += 1;
        }
        OutcomeKind::Failure | OutcomeKind::Timeout => {
            traffic.failed += 1;
            reporter.failed += 1;
        }
        OutcomeKind::NotSent
        | OutcomeKind::Throttled
        | OutcomeKind::Rejected
        | OutcomeKind::Ignored
        | OutcomeKind::Cancelled => traffic.other += 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally_of(tracks: &Tracks, instance: u64, at: u64) {
        let name = instance.to_string();
        let caller = Caller {
            service: "shop",
            instance: &name,
        };
        let tally = Tally {
            first_attempts: 3,
            successes: 2,
            failures: 1,
            ..Tally::default()
        };
        let id = DependencyId(7);
        tracks.tallied(id, instance, caller, &tally, Reported::Ok, Time(at));
    }

    #[test]
    fn nothing_is_counted_of_what_nobody_follows() {
        let tracks = Tracks::default();
        tally_of(&tracks, 1, 1);
        let followed = tracks.follow(DependencyId(7));
        assert_eq!(followed.traffic(), Traffic::default());
        tally_of(&tracks, 1, 2);
        assert_eq!(followed.traffic().first_attempts, 3);
        tracks.unfollow(DependencyId(7));
        tally_of(&tracks, 1, 3);
        assert_eq!(followed.traffic().first_attempts, 3);
        assert!(!tracks.any.load(Ordering::Relaxed));
    }

    #[test]
    fn so_many_reporters_are_remembered_and_the_longest_silent_one_goes() {
        let tracks = Tracks::default();
        let followed = tracks.follow(DependencyId(7));
        for instance in 0..200 {
            tally_of(&tracks, instance, instance);
        }
        let reporters = followed.reporters();
        assert_eq!(reporters.len(), REPORTERS_MAX);
        assert_eq!(reporters[0].instance, "199");
        assert_eq!(reporters[63].instance, "136");
        assert_eq!(followed.traffic().first_attempts, 600);
    }
}
