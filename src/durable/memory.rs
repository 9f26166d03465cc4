//! The twin without a data directory: the same answers, nothing kept past the process.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, UNIX_EPOCH},
};

use super::{
    audit::{AuditEntry, AuditHead, AuditLink, AuditRecord, AuditVerdict, Walk},
    boot::{Restored, Start},
};

/// The newest audit records that are kept; sequences go on rising past them.
pub(super) const KEPT_RECORDS: usize = 10_000;

#[derive(Debug)]
pub(super) struct Memory {
    log: Mutex<Log>,
}

#[derive(Debug)]
struct Log {
    /// The head before the oldest record kept.
    before: AuditHead,
    records: VecDeque<AuditRecord>,
}

impl Memory {
    /// The boot epoch is the wall clock in seconds: with nothing kept, it is the only number that
    /// still rises from run to run (for as long as the clock does, and a run lasts a second).
    pub fn start(start: Start) -> (Self, Restored) {
        let since = start.wall_now.duration_since(UNIX_EPOCH);
        let boot = since.unwrap_or(Duration::ZERO).as_secs().max(1);
        let log = Log {
            before: AuditHead::EMPTY,
            records: VecDeque::new(),
        };
        let memory = Self {
            log: Mutex::new(log),
        };
        (memory, Restored::first(boot, start))
    }

    pub fn commit(&self, entry: &AuditEntry) -> AuditRecord {
        let mut log = self.lock();
        let record = log.head().next(entry);
        log.records.push_back(record.clone());
        if log.records.len() > KEPT_RECORDS
            && let Some(oldest) = log.records.pop_front()
        {
            log.before = oldest.head();
        }
        record
    }

    pub fn page(&self, namespace: Option<&str>, after: u64, limit: usize) -> Vec<AuditLink> {
        let log = self.lock();
        let heads = log.records.iter().map(AuditRecord::head);
        let before = std::iter::once(log.before).chain(heads);
        let links = log.records.iter().zip(before);
        links
            .filter(|(record, _)| record.sequence > after)
            .filter(|(record, _)| namespace.is_none_or(|namespace| record.namespace == namespace))
            .take(limit)
            .map(|(record, before)| AuditLink {
                record: record.clone(),
                before: Some(before.hash),
            })
            .collect()
    }

    pub fn verify(&self, namespace: &str) -> AuditVerdict {
        let log = self.lock();
        let mut walk = Walk::new(log.before, log.head(), namespace);
        let walked = log
            .records
            .iter()
            .try_for_each(|record| walk.step(record.sequence, Some(record)));
        walk.finish(walked)
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn head(&self) -> AuditHead {
        self.records.back().map_or(self.before, AuditRecord::head)
    }
}
