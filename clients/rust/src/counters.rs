//! What the client counts, and warnings that do not flood a log.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::Instant;

const WARN_EVERY: Duration = Duration::from_secs(60);

/// Plain atomics: each is exact, together they are no snapshot.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    pub(crate) asked: AtomicU64,
    pub(crate) answered: AtomicU64,
    pub(crate) no_decision: AtomicU64,
    pub(crate) pushed_grants: AtomicU64,
    pub(crate) pushed_denials: AtomicU64,
    pub(crate) local_grants: AtomicU64,
    pub(crate) local_denials: AtomicU64,
    pub(crate) reported: AtomicU64,
    pub(crate) reports_dropped: AtomicU64,
    pub(crate) connections: AtomicU64,
}

/// What a client has done since it was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Questions put to the connection, whether it stood or not.
    pub asked: u64,
    /// Questions that it decided, yes or no.
    pub answered: u64,
    /// Questions that it did not decide: late, lost, failed or unreadable.
    pub no_decision: u64,
    /// First attempts made on pushed state, without a question.
    pub pushed_grants: u64,
    /// First attempts refused on pushed state, without a question.
    pub pushed_denials: u64,
    /// Attempts granted without the service.
    pub local_grants: u64,
    /// Attempts denied without the service.
    pub local_denials: u64,
    /// Outcomes that the service took; a tally of many counts as one.
    pub reported: u64,
    /// Outcomes lost since the queue was full or the service was away twice.
    pub reports_dropped: u64,
    /// Streams and channels opened.
    pub connections: u64,
}

impl Counting {
    pub(crate) fn read(&self) -> Counters {
        Counters {
            asked: self.asked.load(Relaxed),
            answered: self.answered.load(Relaxed),
            no_decision: self.no_decision.load(Relaxed),
            pushed_grants: self.pushed_grants.load(Relaxed),
            pushed_denials: self.pushed_denials.load(Relaxed),
            local_grants: self.local_grants.load(Relaxed),
            local_denials: self.local_denials.load(Relaxed),
            reported: self.reported.load(Relaxed),
            reports_dropped: self.reports_dropped.load(Relaxed),
            connections: self.connections.load(Relaxed),
        }
    }
}

pub(crate) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Relaxed);
}

/// Lets one warning a minute through.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    pub(crate) fn now(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|last| last.elapsed() >= WARN_EVERY);
        if due {
            *last = Some(Instant::now());
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_warning_a_minute_passes() {
        let seldom = Seldom::default();
        assert!(seldom.now() && !seldom.now());
        tokio::time::advance(WARN_EVERY).await;
        assert!(seldom.now());
    }
}
