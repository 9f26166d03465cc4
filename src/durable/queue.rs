//! What waits for the writer. Handing over takes a lock for a few instructions and never waits for
//! the disk; what waits is bounded: one checkpoint a dependency, [`MOST_COMMITS`] commits.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use tokio::sync::oneshot;

use super::{
    DurableError,
    audit::{AuditEntry, AuditRecord},
    batch::{Checkpoints, Ordered},
    record::{BreakerCheckpoint, Change, Key},
};

/// Operators' actions that may wait for one sync; more at once are refused.
pub(super) const MOST_COMMITS: usize = 1_024;

type Answer<T> = oneshot::Sender<Result<T, DurableError>>;

#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    wake: Condvar,
    /// A copy of `Waiting::trouble`, to be read without the lock.
    degraded: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    ticket: u64,
    commits: Vec<Ordered>,
    commit_answers: Vec<Answer<AuditRecord>>,
    checkpoints: Checkpoints,
    flushes: Vec<Answer<()>>,
    writing: bool,
    trouble: Option<Arc<str>>,
    stop: Option<Stop>,
    closed: bool,
}

/// The order to stop.
#[derive(Debug, Default)]
pub(super) struct Stop {
    /// Absent where the owner just went away: the next start then takes the gap as unknown.
    pub at: Option<SystemTime>,
    pub answer: Option<Answer<()>>,
}

/// What the writer takes at once.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub commits: Vec<Ordered>,
    pub commit_answers: Vec<Answer<AuditRecord>>,
    pub checkpoints: Checkpoints,
    pub flushes: Vec<Answer<()>>,
    pub stop: Option<Stop>,
}

impl Taken {
    pub fn has_writes(&self) -> bool {
        !self.commits.is_empty() || !self.checkpoints.is_empty()
    }
}

impl Queue {
    pub fn commit(
        &self,
        change: Change,
        entry: AuditEntry,
    ) -> Result<oneshot::Receiver<Result<AuditRecord, DurableError>>, DurableError> {
        let mut waiting = self.accepting()?;
        if waiting.commits.len() >= MOST_COMMITS {
            return Err(DurableError::Busy {
                waiting: MOST_COMMITS,
            });
        }
        let (answer, answered) = oneshot::channel();
        let ticket = waiting.next_ticket();
        waiting.commits.push(Ordered {
            ticket,
            change,
            entry,
        });
        waiting.commit_answers.push(answer);
        self.wake.notify_one();
        Ok(answered)
    }

    pub fn checkpoint(&self, key: Key, checkpoint: BreakerCheckpoint) {
        let mut waiting = self.lock();
        if waiting.closed {
            return;
        }
        let ticket = waiting.next_ticket();
        let newest = waiting
            .checkpoints
            .get(&key)
            .map_or(0, |(_, saved)| saved.epoch);
        if checkpoint.epoch >= newest {
            waiting.checkpoints.insert(key, (ticket, checkpoint));
            self.wake.notify_one();
        }
    }

    /// `None` where nothing waits and nothing is being written.
    pub fn flush(
        &self,
    ) -> Result<Option<oneshot::Receiver<Result<(), DurableError>>>, DurableError> {
        let mut waiting = self.accepting()?;
        if !waiting.writing && waiting.commits.is_empty() && waiting.checkpoints.is_empty() {
            return Ok(None);
        }
        let (answer, answered) = oneshot::channel();
        waiting.flushes.push(answer);
        self.wake.notify_one();
        Ok(Some(answered))
    }

    /// Orders the stop; an answer that is never sent means that the writer is gone already.
    pub fn stop(&self, stop: Stop) {
        let mut waiting = self.lock();
        if !waiting.closed && waiting.stop.is_none() {
            waiting.stop = Some(stop);
            self.wake.notify_one();
        }
    }

    pub fn degraded(&self) -> bool {
        self.degraded.load(Ordering::Acquire)
    }

    pub fn trouble(&self) -> Option<Arc<str>> {
        self.lock().trouble.clone()
    }

    /// Waits for work. In trouble, only a stop ends the wait before `retry` is over.
    pub fn take(&self, retry: Duration) -> Taken {
        let mut waiting = self.lock();
        waiting.writing = false;
        if waiting.trouble.is_some() {
            let asleep = |waiting: &mut Waiting| waiting.stop.is_none();
            let woken = self.wake.wait_timeout_while(waiting, retry, asleep);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        } else {
            let idle = |waiting: &mut Waiting| !waiting.has_work();
            let woken = self.wake.wait_while(waiting, idle);
            waiting = woken.unwrap_or_else(PoisonError::into_inner);
        }
        waiting.writing = true;
        Taken {
            commits: std::mem::take(&mut waiting.commits),
            commit_answers: std::mem::take(&mut waiting.commit_answers),
            checkpoints: std::mem::take(&mut waiting.checkpoints),
            flushes: std::mem::take(&mut waiting.flushes),
            stop: waiting.stop.take(),
        }
    }

    /// The disk failed: whoever waits is told now, unwritten checkpoints wait on. `true` where
    /// this is news.
    pub fn failed(&self, unwritten: Checkpoints, cause: Arc<str>) -> bool {
        let mut waiting = self.lock();
        for (key, saved) in unwritten {
            waiting.checkpoints.entry(key).or_insert(saved);
        }
        let unavailable = DurableError::Unavailable {
            cause: cause.clone(),
        };
        waiting.refuse_all(&unavailable);
        self.degraded.store(true, Ordering::Release);
        waiting.trouble.replace(cause).is_none()
    }

    /// The disk works again. `true` where this is news.
    pub fn recovered(&self) -> bool {
        let mut waiting = self.lock();
        self.degraded.store(false, Ordering::Release);
        waiting.trouble.take().is_some()
    }

    /// The writer is gone, in order or not: nobody may wait for it any more.
    pub fn closed(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        waiting.checkpoints.clear();
        waiting.stop = None;
        waiting.refuse_all(&DurableError::Closed);
    }

    fn accepting(&self) -> Result<MutexGuard<'_, Waiting>, DurableError> {
        let waiting = self.lock();
        if waiting.closed || waiting.stop.is_some() {
            return Err(DurableError::Closed);
        }
        match &waiting.trouble {
            Some(cause) => Err(DurableError::Unavailable {
                cause: cause.clone(),
            }),
            None => Ok(waiting),
        }
    }

    /// A panic cannot leave this state half-changed: each holder changes it field by field.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn next_ticket(&mut self) -> u64 {
        self.ticket += 1;
        self.ticket
    }

    fn has_work(&self) -> bool {
        !self.commits.is_empty()
            || !self.checkpoints.is_empty()
            || !self.flushes.is_empty()
            || self.stop.is_some()
    }

    fn refuse_all(&mut self, error: &DurableError) {
        self.commits.clear();
        for answer in self.commit_answers.drain(..) {
            let _ = answer.send(Err(error.clone()));
        }
        for answer in self.flushes.drain(..) {
            let _ = answer.send(Err(error.clone()));
        }
    }
}
