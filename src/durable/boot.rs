//! The first transactions of a run: the boot epoch rises, and what was kept is read back.

use std::time::SystemTime;

use redb::{ReadableTable, WriteTransaction};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    audit::AuditHead,
    datafile::{DataFile, Fault, Kept, META, meta, seal, set_meta, unseal},
    encoding::VERSION,
    mark::Mark,
    record::{BreakerCheckpoint, Key, LastWrite, Override, PermitKey, StoredPolicy},
};

/// So many transitions of one dependency fit in a run.
pub const EPOCHS_OF_A_RUN: u64 = 10_000;

/// The two things a start takes from outside: this part reads no clock and draws no number.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    pub wall_now: SystemTime,
    /// Sixteen random bytes, kept where this is the first start and ignored otherwise.
    pub fresh_permit_key: PermitKey,
}

/// What was kept. Times left are as of the start's wall clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Restored {
    /// Rises by at least one with every start; the first is 1.
    pub boot: u64,
    pub first_start: bool,
    pub permit_key: PermitKey,
    /// Those that still hold; a lapsed one is gone from the file too.
    pub overrides: Vec<(Key, Override)>,
    /// Open and half-open ones, and those of dependencies that are held.
    pub breakers: Vec<(Key, BreakerCheckpoint)>,
    pub policies: Vec<(Key, StoredPolicy)>,
    /// Policies that are tried beside the live ones.
    pub candidates: Vec<(Key, StoredPolicy)>,
    pub audit_head: AuditHead,
    /// Of the run before; absent at the first start. Unless it is clean, the gap since is unknown.
    pub last_write: Option<LastWrite>,
    /// The file is older than what was acknowledged: the newest writes are lost, by damage or
    /// because an older copy was put in its place.
    pub rolled_back: bool,
}

impl Restored {
    /// Epochs of this run are above it, so that what was counted under an epoch of the run
    /// before is stale in this one.
    pub fn epochs_before(&self) -> u64 {
        const RUNS: u64 = 1_000_000;
        self.boot.saturating_sub(1) % RUNS * EPOCHS_OF_A_RUN
    }

    pub(super) fn first(boot: u64, start: Start) -> Self {
        Self {
            boot,
            first_start: true,
            permit_key: start.fresh_permit_key,
            overrides: Vec::new(),
            breakers: Vec::new(),
            policies: Vec::new(),
            candidates: Vec::new(),
            audit_head: AuditHead::EMPTY,
            last_write: None,
            rolled_back: false,
        }
    }
}

/// Fills an empty database: boot 0, so that [`boot`] makes it 1.
pub(super) fn initialize(file: &DataFile, start: Start) -> Result<(), Fault> {
    file.transact(|transaction| {
        set_meta(transaction, "format", &u32::from(VERSION))?;
        set_meta(transaction, "boot", &0u64)?;
        set_meta(transaction, "write", &0u64)?;
        set_meta(transaction, "permit_key", &start.fresh_permit_key)?;
        set_meta(transaction, "audit_head", &AuditHead::EMPTY)?;
        transaction.open_table(super::datafile::AUDIT)?;
        transaction.open_table(super::datafile::AUDIT_OF)?;
        for kept in Kept::ALL {
            transaction.open_table(kept.table())?;
        }
        Ok(())
    })
}

/// Raises the boot epoch and reads everything back.
///
/// Two commits: redb keeps the two newest, and falls back to the older one where the newest is
/// unreadable. With the new epoch in both, not even that gives an epoch out twice.
pub(super) fn boot(
    file: &DataFile,
    start: Start,
    witnessed: Option<Mark>,
) -> Result<(Restored, Mark), Fault> {
    let (restored, mark) = file.transact(|transaction| restore(transaction, start, witnessed))?;
    file.transact(|transaction| set_meta(transaction, "boot", &mark.boot))?;
    Ok((restored, mark))
}

fn restore(
    transaction: &WriteTransaction,
    start: Start,
    witnessed: Option<Mark>,
) -> Result<(Restored, Mark), Fault> {
    let (mut restored, mark) = read_meta(transaction, start, witnessed)?;
    restored.policies = read_all(transaction, Kept::Policies)?;
    restored.candidates = read_all(transaction, Kept::Candidates)?;
    restored.overrides = read_all::<Override>(transaction, Kept::Overrides)?
        .into_iter()
        .map(|(key, order)| (key, rebased_override(order, start.wall_now)))
        .collect();
    let lapsed = |order: &Override| order.expires.is_some_and(|expires| expires.left.is_zero());
    rewrite(transaction, Kept::Overrides, &restored.overrides, lapsed)?;
    restored.overrides.retain(|(_, order)| !lapsed(order));
    restored.breakers = read_all(transaction, Kept::Breakers)?;
    for (_, checkpoint) in &mut restored.breakers {
        *checkpoint = checkpoint.rebased(start.wall_now);
    }
    let over = |checkpoint: &BreakerCheckpoint| !checkpoint.is_worth_keeping();
    rewrite(transaction, Kept::Breakers, &restored.breakers, over)?;
    restored
        .breakers
        .retain(|(_, checkpoint)| !over(checkpoint));
    set_meta(transaction, "boot", &mark.boot)?;
    set_meta(transaction, "write", &mark.write)?;
    let last_write = LastWrite {
        at: start.wall_now,
        clean: false,
    };
    set_meta(transaction, "last_write", &last_write)?;
    Ok((restored, mark))
}

fn rebased_override(order: Override, now: SystemTime) -> Override {
    Override {
        expires: order.expires.map(|expires| expires.rebased(now)),
        ..order
    }
}

fn read_meta(
    transaction: &WriteTransaction,
    start: Start,
    witnessed: Option<Mark>,
) -> Result<(Restored, Mark), Fault> {
    let table = transaction.open_table(META)?;
    let absent = |name| move || Fault::Damaged(format!("it has no {name}"));
    let format: u32 = meta(&table, "format")?.ok_or_else(absent("format"))?;
    if format > u32::from(VERSION) {
        return Err(Fault::Newer(format));
    }
    let found = Mark {
        boot: meta(&table, "boot")?.ok_or_else(absent("boot epoch"))?,
        write: meta(&table, "write")?.ok_or_else(absent("write number"))?,
    };
    let seen = witnessed.unwrap_or_default();
    let next = |found: u64, seen: u64| {
        let next = found.max(seen).checked_add(1);
        next.ok_or_else(|| Fault::Damaged("one of its counters is out of range".to_owned()))
    };
    let mark = Mark {
        boot: next(found.boot, seen.boot)?,
        write: next(found.write, seen.write)?,
    };
    let restored = Restored {
        first_start: mark.boot == 1,
        permit_key: meta(&table, "permit_key")?.ok_or_else(absent("permit key"))?,
        audit_head: meta(&table, "audit_head")?.ok_or_else(absent("audit head"))?,
        last_write: meta(&table, "last_write")?,
        rolled_back: found.write < seen.write,
        ..Restored::first(mark.boot, start)
    };
    Ok((restored, mark))
}

fn read_all<T: DeserializeOwned>(
    transaction: &WriteTransaction,
    kept: Kept,
) -> Result<Vec<(Key, T)>, Fault> {
    let table = transaction.open_table(kept.table())?;
    let mut all = Vec::new();
    for entry in table.iter()? {
        let (key, sealed) = entry?;
        let (namespace, name) = key.value();
        let parts = [namespace.as_bytes(), name.as_bytes()];
        let value = unseal(kept.name(), &parts, sealed.value(), (namespace, name))?;
        all.push((Key::new(namespace, name), value));
    }
    Ok(all)
}

/// Writes back entries whose time left was rebased: were they left as they are, a wall clock that
/// has stepped back would give the whole time anew at each start.
fn rewrite<T: Serialize>(
    transaction: &WriteTransaction,
    kept: Kept,
    entries: &[(Key, T)],
    gone: impl Fn(&T) -> bool,
) -> Result<(), Fault> {
    let mut table = transaction.open_table(kept.table())?;
    for (key, value) in entries {
        let place = (&*key.namespace, &*key.name);
        if gone(value) {
            table.remove(place)?;
        } else {
            table.insert(place, seal(kept, key, value)?.as_slice())?;
        }
    }
    Ok(())
}
