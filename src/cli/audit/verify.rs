//! Whether the record of who did what is whole. Nothing is asked for here.

use holdoff_client::proto::{AuditChain, AuditRecord, ListAuditResponse};
use sha2::{Digest, Sha256};

use super::super::{escape::escape, hex};

/// What a check of the record found.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Verdict {
    pub whole: bool,
    /// The first thing that is wrong, or that could not be checked.
    pub problem: Option<String>,
    /// Records of all namespaces that the service itself found to hold.
    pub log_records: u64,
    pub namespace: String,
    /// Records of this namespace.
    pub records: usize,
    /// Those of them whose hash was computed again here, and holds.
    pub checked: usize,
    /// The newest record of all: keep both elsewhere, and a later log can be held against them.
    pub head_sequence: u64,
    pub head_hash: String,
}

/// Holds the records of a namespace against what they follow, here rather than let the service vouch
/// for itself, and against the service's own walk along the whole log, which alone sees what is
/// missing and what other namespaces have.
pub fn verify(namespace: &str, page: &ListAuditResponse) -> Verdict {
    let records = &page.records;
    let chain = page.chain.clone().unwrap_or_default();
    let mut verdict = Verdict {
        whole: false,
        problem: None,
        log_records: chain.intact,
        namespace: escape(namespace).into_owned(),
        records: records.len(),
        checked: 0,
        head_sequence: chain.head_sequence,
        head_hash: escape(&chain.head_hash).into_owned(),
    };
    verdict.problem = match &page.chain {
        None => Some("the service does not look through its log; it is too old".to_owned()),
        Some(chain) if !chain.broken.is_empty() => Some(escape(&chain.broken).into_owned()),
        Some(chain) => recompute(records, &mut verdict.checked)
            .and_then(|()| ends_as(chain, records))
            .err(),
    };
    verdict.whole = verdict.problem.is_none();
    verdict
}

fn recompute(records: &[AuditRecord], checked: &mut usize) -> Result<(), String> {
    let mut last: Option<&AuditRecord> = None;
    for record in records {
        let number = record.sequence;
        let after = last.map_or(0, |last| last.sequence);
        if number <= after {
            return Err(format!("record {number} comes after record {after}"));
        }
        if record.hash.len() != 64 || hex::read(&record.hash).is_none() {
            return Err(format!("record {number}: its hash is no SHA-256"));
        }
        let before = match hex::read(&record.hash_before) {
            Some(before) if before.len() == 32 => before,
            Some(_) | None => {
                return Err(format!(
                    "record {number} could not be checked: what it follows was not told"
                ));
            }
        };
        let follows = match last {
            Some(last) if last.sequence + 1 == number => last.hash == record.hash_before,
            None if number == 1 => before == [0; 32],
            Some(_) | None => true,
        };
        if !follows || chained(&before, record) != record.hash {
            return Err(format!(
                "record {number} is not what was written, or does not follow the one before it"
            ));
        }
        *checked += 1;
        last = Some(record);
    }
    Ok(())
}

/// Records after the head were written since it was told.
fn ends_as(chain: &AuditChain, records: &[AuditRecord]) -> Result<(), String> {
    let head = chain.head_sequence;
    let known = records.iter().filter(|record| record.sequence <= head);
    let (known, all) = (known.count() as u64, chain.intact_of_namespace);
    if known != all {
        return Err(format!("{known} of {all} records are listed"));
    }
    match records.iter().find(|record| record.sequence == head) {
        Some(record) if record.hash != chain.head_hash => Err(format!(
            "record {head} is not the one that the log ends with"
        )),
        Some(_) | None => Ok(()),
    }
}

/// The hash of a record after the hash before it; see `durable` for the formula.
fn chained(before: &[u8], record: &AuditRecord) -> String {
    let mut hasher = Sha256::new();
    put(&mut hasher, b"holdoff audit 1");
    put(&mut hasher, before);
    hasher.update(record.sequence.to_le_bytes());
    hasher.update(millis(record).to_le_bytes());
    let texts = [
        &record.owner,
        &record.action,
        &record.namespace,
        &record.dependency,
        &record.detail,
    ];
    for text in texts {
        put(&mut hasher, text.as_bytes());
    }
    hex::write(&hasher.finalize())
}

fn put(hasher: &mut Sha256, part: &[u8]) {
    hasher.update((part.len() as u64).to_le_bytes());
    hasher.update(part);
}

fn millis(record: &AuditRecord) -> u64 {
    let time = record.time.unwrap_or_default();
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    let millis = u64::try_from(time.nanos / 1_000_000).unwrap_or(0);
    seconds.saturating_mul(1_000).saturating_add(millis)
}

/// The verdict in words.
pub fn verified(verdict: &Verdict) -> String {
    if let Some(problem) = &verdict.problem {
        return format!("Not whole: {problem}.\n");
    }
    let Verdict {
        log_records,
        records,
        namespace,
        head_sequence,
        head_hash,
        ..
    } = verdict;
    let mut text = format!(
        "Whole: {log_records} records of all namespaces, by the service; {records} of {namespace}, \
         computed again here.\n"
    );
    if *head_sequence > 0 {
        text.push_str(&format!(
            "The newest is record {head_sequence}: {head_hash}\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a service would send what it recorded, each record of the next of two namespaces.
    async fn recorded(details: &[&str]) -> ListAuditResponse {
        use crate::durable::{AuditEntry, Change, Durable, PermitKey, Start};
        let opened = Durable::in_memory(Start {
            wall_now: std::time::UNIX_EPOCH,
            fresh_permit_key: PermitKey([0; 16]),
        });
        for (index, detail) in details.iter().enumerate() {
            let entry = AuditEntry {
                time: std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_796_066_143_250),
                owner: "alice".into(),
                action: "SetOverride".into(),
                namespace: ["default", "shop"][index % 2].into(),
                dependency: "payments".into(),
                detail: (*detail).to_owned(),
            };
            let committed = opened.durable.commit(Change::RecordOnly, entry);
            committed.await.unwrap();
        }
        let links = opened.durable.audit_page(Some("default"), 0, 100).await;
        let chain = opened.durable.audit_verify("default").await.unwrap();
        ListAuditResponse {
            records: links.unwrap().into_iter().map(sent).collect(),
            chain: Some(AuditChain {
                intact: chain.intact,
                intact_of_namespace: chain.intact_of_namespace,
                head_sequence: chain.head.sequence,
                head_hash: chain.head.hash.to_string(),
                broken: String::new(),
            }),
            next_page_token: String::new(),
        }
    }

    fn sent(link: crate::durable::AuditLink) -> AuditRecord {
        let stored = link.record;
        AuditRecord {
            sequence: stored.sequence,
            time: Some(prost_types::Timestamp {
                seconds: i64::try_from(stored.time_ms / 1_000).unwrap(),
                nanos: i32::try_from(stored.time_ms % 1_000).unwrap() * 1_000_000,
            }),
            owner: stored.owner,
            action: stored.action,
            namespace: stored.namespace,
            dependency: stored.dependency,
            detail: stored.detail,
            hash: stored.hash.to_string(),
            hash_before: link.before.unwrap().to_string(),
        }
    }

    #[tokio::test]
    async fn what_the_service_recorded_is_whole_also_among_records_of_others() {
        let page = recorded(&["one", "theirs", "two", "theirs", "three"]).await;
        let verdict = verify("default", &page);
        assert_eq!((verdict.whole, verdict.checked), (true, 3), "{verdict:?}");
        let text = verified(&verdict);
        assert!(
            text.starts_with(
                "Whole: 5 records of all namespaces, by the service; 3 of default, computed again \
                 here.\nThe newest is record 5: "
            ),
            "{text}"
        );
        let none = verified(&verify("default", &recorded(&[]).await));
        assert!(none.starts_with("Whole: 0 records") && !none.contains("newest"));
    }

    #[tokio::test]
    async fn any_field_that_was_changed_of_any_record_is_found_also_among_records_of_others() {
        let page = recorded(&["one", "theirs", "two", "theirs", "three"]).await;
        let changes: [fn(&mut AuditRecord); 9] = [
            |it| it.sequence += 1,
            |it| it.time.as_mut().unwrap().nanos += 1_000_000,
            |it| it.owner.push('!'),
            |it| it.action.push('!'),
            |it| it.namespace.push('!'),
            |it| it.dependency.push('!'),
            |it| it.detail.push('!'),
            |it| it.hash = "ab".repeat(32),
            |it| it.hash_before = "cd".repeat(32),
        ];
        for index in 0..page.records.len() {
            for (which, change) in changes.iter().enumerate() {
                let mut changed = page.clone();
                change(&mut changed.records[index]);
                let verdict = verify("default", &changed);
                assert!(!verdict.whole, "field {which} of {index}: {verdict:?}");
            }
        }
    }

    #[tokio::test]
    async fn any_record_that_is_gone_moved_or_there_twice_is_found() {
        let page = recorded(&["one", "theirs", "two", "theirs", "three"]).await;
        for index in 0..3 {
            let mut gone = page.clone();
            gone.records.remove(index);
            let text = verified(&verify("default", &gone));
            assert_eq!(text, "Not whole: 2 of 3 records are listed.\n");
            let mut twice = page.clone();
            twice.records.insert(index, page.records[index].clone());
            assert!(!verify("default", &twice).whole);
            let mut moved = page.clone();
            moved.records.swap(index, (index + 1) % 3);
            assert!(!verify("default", &moved).whole);
        }
    }

    #[tokio::test]
    async fn what_was_not_checked_is_not_whole() {
        let page = recorded(&["one", "theirs", "two"]).await;
        let old = ListAuditResponse {
            chain: None,
            ..page.clone()
        };
        assert!(!verify("default", &old).whole);
        let mut untold = page.clone();
        untold.records[1].hash_before.clear();
        let verdict = verify("default", &untold);
        assert_eq!((verdict.whole, verdict.checked), (false, 1));
        let mut broken = page.clone();
        broken.chain.as_mut().unwrap().broken = "record 2 is missing".into();
        assert_eq!(
            verified(&verify("default", &broken)),
            "Not whole: record 2 is missing.\n"
        );
        let mut other_end = page.clone();
        other_end.chain.as_mut().unwrap().head_hash = "ab".repeat(32);
        assert!(!verify("default", &other_end).whole);
    }

    /// What is written while the pages are read is no fault.
    #[tokio::test]
    async fn a_record_after_the_head_is_a_new_one() {
        let mut page = recorded(&["one", "theirs", "two"]).await;
        let before = recorded(&["one"]).await;
        page.chain = before.chain;
        assert!(verify("default", &page).whole);
    }

    #[test]
    fn a_hash_that_is_none_is_not_whole() {
        let cut = ListAuditResponse {
            records: vec![AuditRecord {
                sequence: 1,
                hash: "ab".into(),
                ..AuditRecord::default()
            }],
            chain: Some(AuditChain::default()),
            ..ListAuditResponse::default()
        };
        assert_eq!(
            verified(&verify("default", &cut)),
            "Not whole: record 1: its hash is no SHA-256.\n"
        );
    }
}
