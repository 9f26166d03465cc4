//! One write: the commits and checkpoints that were waiting, as one transaction; and the way back.

use std::{cmp::Ordering, collections::HashMap, time::SystemTime};

use redb::{ReadableTable, WriteTransaction};

use super::{
    audit::{AuditEntry, AuditHead, AuditRecord},
    datafile::{AUDIT, AUDIT_OF, DataFile, Fault, Kept, META, meta, seal, set_meta, unseal},
    encoding,
    record::{BreakerCheckpoint, Change, Key, LastWrite},
};

/// A commit as it waits; tickets rise in the order of the calls.
#[derive(Debug)]
pub(super) struct Ordered {
    pub ticket: u64,
    pub change: Change,
    pub entry: AuditEntry,
}

/// Checkpoints that wait, the newest of each dependency.
pub(super) type Checkpoints = HashMap<Key, (u64, BreakerCheckpoint)>;

/// What an entry was before a write: the way back, should the write turn out to have half failed.
#[derive(Debug)]
pub(super) struct Undo {
    kept: Kept,
    key: Key,
    before: Option<Vec<u8>>,
}

/// What one write is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch<'a> {
    pub commits: &'a [Ordered],
    pub checkpoints: &'a Checkpoints,
    /// The number of this write: one more than that of the newest acknowledged.
    pub number: u64,
    /// The end of the audit log as acknowledged.
    pub head: AuditHead,
    /// The last write of an orderly stop, at this time.
    pub stop: Option<SystemTime>,
}

impl Batch<'_> {
    /// Writes all or nothing. On an error it may be on the disk all the same: see [`undo`].
    pub fn write(&self, file: &DataFile, undo: &mut Vec<Undo>) -> Result<Vec<AuditRecord>, Fault> {
        file.transact(|transaction| {
            let mut head = self.head;
            let mut records = Vec::with_capacity(self.commits.len());
            for Ordered { change, entry, .. } in self.commits {
                undo.extend(apply(transaction, change)?);
                let record = head.next(entry);
                head = record.head();
                append(transaction, &record)?;
                records.push(record);
            }
            self.write_checkpoints(transaction)?;
            set_meta(transaction, "audit_head", &head)?;
            set_meta(transaction, "write", &self.number)?;
            if let Some(last_write) = self.last_write() {
                set_meta(transaction, "last_write", &last_write)?;
            }
            Ok(records)
        })
    }

    /// Checkpoints of before a reset of the same dependency are void, whichever was taken first;
    /// so are the holds of those before the end of a hold.
    fn write_checkpoints(&self, transaction: &WriteTransaction) -> Result<(), Fault> {
        let mut forgotten: HashMap<&Key, u64> = HashMap::new();
        let mut released: HashMap<&Key, u64> = HashMap::new();
        for Ordered { ticket, change, .. } in self.commits {
            match change {
                Change::ForgetBreaker(key) => drop(forgotten.insert(key, *ticket)),
                Change::ForgetHold(key) => drop(released.insert(key, *ticket)),
                Change::SetOverride(..)
                | Change::ClearOverride(_)
                | Change::PutPolicy(..)
                | Change::DeletePolicy(_)
                | Change::PutCandidate(..)
                | Change::DeleteCandidate(_)
                | Change::PromoteCandidate(..)
                | Change::RecordOnly => {}
            }
        }
        let kept = Kept::Breakers;
        let mut table = transaction.open_table(kept.table())?;
        for (key, (ticket, checkpoint)) in self.checkpoints {
            if forgotten.get(key).is_some_and(|reset| ticket < reset) {
                continue;
            }
            let mut checkpoint = *checkpoint;
            if released.get(key).is_some_and(|end| ticket < end) {
                checkpoint.hold = None;
            }
            let place = (&*key.namespace, &*key.name);
            match checkpoint.is_worth_keeping() {
                false => drop(table.remove(place)?),
                true => drop(table.insert(place, seal(kept, key, &checkpoint)?.as_slice())?),
            }
        }
        Ok(())
    }

    fn last_write(&self) -> Option<LastWrite> {
        let checkpointed = self.checkpoints.values().map(|(_, saved)| saved.open.at);
        let at = self
            .commits
            .iter()
            .map(|commit| commit.entry.time)
            .chain(checkpointed)
            .chain(self.stop)
            .max()?;
        let clean = self.stop.is_some();
        Some(LastWrite { at, clean })
    }
}

fn apply(transaction: &WriteTransaction, change: &Change) -> Result<Vec<Undo>, Fault> {
    use Kept::{Breakers, Candidates, Overrides, Policies};
    let (kept, key, value) = match change {
        Change::SetOverride(key, order) => (Overrides, key, Some(seal(Overrides, key, order)?)),
        Change::ClearOverride(key) => (Overrides, key, None),
        Change::PutPolicy(key, policy) => (Policies, key, Some(seal(Policies, key, policy)?)),
        Change::DeletePolicy(key) => (Policies, key, None),
        Change::PutCandidate(key, policy) => {
            (Candidates, key, Some(seal(Candidates, key, policy)?))
        }
        Change::DeleteCandidate(key) => (Candidates, key, None),
        Change::PromoteCandidate(key, policy) => {
            let mut undo = apply(transaction, &Change::DeleteCandidate(key.clone()))?;
            let put = Change::PutPolicy(key.clone(), policy.clone());
            undo.extend(apply(transaction, &put)?);
            return Ok(undo);
        }
        Change::ForgetBreaker(key) => (Breakers, key, None),
        Change::ForgetHold(key) => (Breakers, key, without_hold(transaction, key)?),
        Change::RecordOnly => return Ok(Vec::new()),
    };
    let before = put(transaction, kept, key, value.as_deref())?;
    let key = key.clone();
    Ok(vec![Undo { kept, key, before }])
}

/// What is left of a checkpoint without its hold.
fn without_hold(transaction: &WriteTransaction, key: &Key) -> Result<Option<Vec<u8>>, Fault> {
    let kept = Kept::Breakers;
    let table = transaction.open_table(kept.table())?;
    let place = (&*key.namespace, &*key.name);
    let Some(sealed) = table.get(place)? else {
        return Ok(None);
    };
    let parts = [key.namespace.as_bytes(), key.name.as_bytes()];
    let found: BreakerCheckpoint = unseal(kept.name(), &parts, sealed.value(), place)?;
    let left = BreakerCheckpoint {
        hold: None,
        ..found
    };
    let worth = left.is_worth_keeping();
    worth.then(|| seal(kept, key, &left)).transpose()
}

/// Sets or removes one entry and returns what it was.
fn put(
    transaction: &WriteTransaction,
    kept: Kept,
    key: &Key,
    value: Option<&[u8]>,
) -> Result<Option<Vec<u8>>, Fault> {
    let mut table = transaction.open_table(kept.table())?;
    let place = (&*key.namespace, &*key.name);
    let before = match value {
        Some(value) => table.insert(place, value)?,
        None => table.remove(place)?,
    };
    Ok(before.map(|before| before.value().to_vec()))
}

fn append(transaction: &WriteTransaction, record: &AuditRecord) -> Result<(), Fault> {
    let sequence = record.sequence;
    let sealed = encoding::seal("audit", &[&sequence.to_le_bytes()], record)?;
    transaction
        .open_table(AUDIT)?
        .insert(sequence, sealed.as_slice())?;
    transaction
        .open_table(AUDIT_OF)?
        .insert((record.namespace.as_str(), sequence), ())?;
    Ok(())
}

/// Takes back a failed write that reached the disk after all. Its callers were told that nothing
/// happened, and nobody has been shown its audit records. Checkpoints stay: they are still wanted.
///
/// # Errors
/// [`Fault::Older`] where acknowledged records are missing; nothing may be built on such a file.
pub(super) fn undo(
    file: &DataFile,
    acknowledged: u64,
    head: AuditHead,
    rows: &[Undo],
) -> Result<(), Fault> {
    let found: u64 = meta(&file.read()?.open_table(META)?, "write")?
        .ok_or_else(|| Fault::damaged("meta", "write"))?;
    match found.cmp(&acknowledged) {
        Ordering::Less => return Err(Fault::Older),
        Ordering::Equal => return Ok(()),
        Ordering::Greater => {}
    }
    file.transact(|transaction| {
        for row in rows.iter().rev() {
            put(transaction, row.kept, &row.key, row.before.as_deref())?;
        }
        let tail = head.sequence.saturating_add(1)..;
        transaction
            .open_table(AUDIT)?
            .retain_in(tail.clone(), |_, _| false)?;
        let mut index = transaction.open_table(AUDIT_OF)?;
        let mut taken_back = Vec::new();
        for entry in index.iter()? {
            let (place, _) = entry?;
            let (namespace, sequence) = place.value();
            if tail.contains(&sequence) {
                taken_back.push((namespace.to_owned(), sequence));
            }
        }
        for (namespace, sequence) in taken_back {
            index.remove((namespace.as_str(), sequence))?;
        }
        drop(index);
        set_meta(transaction, "audit_head", &head)
    })
}
