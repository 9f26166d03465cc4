//! What is durable, proved on real files. Faults are injected below redb; processes are killed.

use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    AuditEntry, BreakerCheckpoint, BreakerPhase, Change, Durable, Key, Opened, Override,
    OverrideKind, PermitKey, Start, StoredPolicy, TimeLeft,
};

mod chain;
mod corruption;
mod full_disk;
mod keeping;
mod kill;

/// What may be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Write,
    Grow,
    Sync,
}

/// A disk that fails when it is told to.
#[derive(Debug, Default)]
pub(super) struct Faults {
    full: AtomicBool,
    syncs_fail: AtomicBool,
    operations: AtomicU64,
    /// The operation of this number, and all after it, fail; 0: none.
    fail_from: AtomicU64,
}

impl Faults {
    pub fn before(&self, operation: Operation) -> io::Result<()> {
        let number = self.operations.fetch_add(1, Ordering::SeqCst) + 1;
        let fail_from = self.fail_from.load(Ordering::SeqCst);
        let full = self.full.load(Ordering::SeqCst) && operation != Operation::Sync;
        let sync = self.syncs_fail.load(Ordering::SeqCst) && operation == Operation::Sync;
        match full || sync || (fail_from != 0 && number >= fail_from) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

pub(super) fn start_at(wall_now: SystemTime) -> Start {
    let fresh_permit_key = PermitKey([7; 16]);
    Start {
        wall_now,
        fresh_permit_key,
    }
}

/// An arbitrary instant of 2026.
pub(super) fn noon() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_780_000_000)
}

pub(super) fn open(path: &std::path::Path) -> Opened {
    Durable::open(path, start_at(noon())).unwrap()
}

pub(super) fn key(name: &str) -> Key {
    Key::new("default", name)
}

pub(super) fn entry(action: &str, dependency: &str) -> AuditEntry {
    AuditEntry {
        time: noon(),
        owner: "ada".to_owned(),
        action: action.to_owned(),
        namespace: "default".to_owned(),
        dependency: dependency.to_owned(),
        detail: "because".to_owned(),
    }
}

pub(super) fn forced_open(expires: Option<Duration>) -> Override {
    Override {
        kind: OverrideKind::ForceOpen,
        owner: "ada".to_owned(),
        reason: "maintenance".to_owned(),
        set_at: noon(),
        expires: expires.map(|left| TimeLeft { left, at: noon() }),
    }
}

pub(super) fn policy(document: &str) -> StoredPolicy {
    StoredPolicy {
        document: document.to_owned(),
        owner: "ada".to_owned(),
        put_at: noon(),
    }
}

pub(super) fn breaker(phase: BreakerPhase, epoch: u64, left: Duration) -> BreakerCheckpoint {
    BreakerCheckpoint {
        phase,
        epoch,
        trips: 1,
        open: TimeLeft { left, at: noon() },
        hold: None,
        usual: None,
    }
}

pub(super) fn held(phase: BreakerPhase, epoch: u64, left: Duration) -> BreakerCheckpoint {
    let hold = Some(TimeLeft { left, at: noon() });
    BreakerCheckpoint {
        hold,
        ..breaker(phase, epoch, Duration::ZERO)
    }
}

pub(super) fn set_override(name: &str) -> Change {
    Change::SetOverride(key(name), forced_open(None))
}
