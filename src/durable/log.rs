//! Reading the audit log: a page of a namespace, and the walk along the whole chain.

use redb::{ReadOnlyTable, ReadTransaction};

use super::{
    audit::{AuditHead, AuditLink, AuditRecord, AuditVerdict, ChainHash, Walk},
    datafile::{AUDIT, AUDIT_OF, Fault, META, meta, unseal},
};

/// Records of `namespace` (of all, where absent) after a sequence, oldest first.
pub(super) fn page(
    transaction: &ReadTransaction,
    namespace: Option<&str>,
    after: u64,
    limit: usize,
) -> Result<Vec<AuditLink>, Fault> {
    let Some(first) = after.checked_add(1) else {
        return Ok(Vec::new());
    };
    let log = transaction.open_table(AUDIT)?;
    let Some(namespace) = namespace else {
        return log
            .range(first..)?
            .take(limit)
            .map(|entry| entry.map_err(Fault::from))
            .map(|entry| entry.and_then(|(key, sealed)| link(&log, key.value(), sealed.value())))
            .collect();
    };
    let index = transaction.open_table(AUDIT_OF)?;
    let mut records = Vec::new();
    for entry in index
        .range((namespace, first)..=(namespace, u64::MAX))?
        .take(limit)
    {
        let (_, sequence) = entry?.0.value();
        let sealed = log
            .get(sequence)?
            .ok_or_else(|| Fault::damaged("audit", sequence))?;
        records.push(link(&log, sequence, sealed.value())?);
    }
    Ok(records)
}

/// Walks the whole chain up to the head that the last write left.
/// Counts those of `namespace` besides.
pub(super) fn verify(
    transaction: &ReadTransaction,
    namespace: &str,
) -> Result<AuditVerdict, Fault> {
    let end: AuditHead = meta(&transaction.open_table(META)?, "audit_head")?
        .ok_or_else(|| Fault::damaged("meta", "audit_head"))?;
    let log = transaction.open_table(AUDIT)?;
    let mut walk = Walk::new(AuditHead::EMPTY, end, namespace);
    for entry in log.range::<u64>(..)? {
        let (key, sealed) = entry?;
        let read = record(key.value(), sealed.value()).ok();
        let step = walk.step(key.value(), read.as_ref());
        if step.is_err() {
            return Ok(walk.finish(step));
        }
    }
    Ok(walk.finish(Ok(())))
}

fn link(log: &ReadOnlyTable<u64, &[u8]>, sequence: u64, sealed: &[u8]) -> Result<AuditLink, Fault> {
    Ok(AuditLink {
        record: record(sequence, sealed)?,
        before: hash_before(log, sequence)?,
    })
}

/// `None` where the record before it is missing or damaged, which the walk tells.
fn hash_before(log: &ReadOnlyTable<u64, &[u8]>, sequence: u64) -> Result<Option<ChainHash>, Fault> {
    let before = match sequence.checked_sub(1) {
        Some(0) => return Ok(Some(AuditHead::EMPTY.hash)),
        Some(before) => before,
        None => return Ok(None),
    };
    let sealed = log.get(before)?;
    let read = sealed.and_then(|sealed| record(before, sealed.value()).ok());
    Ok(read.map(|record| record.hash))
}

fn record(sequence: u64, sealed: &[u8]) -> Result<AuditRecord, Fault> {
    unseal("audit", &[&sequence.to_le_bytes()], sealed, sequence)
}
