//! The audit log: pages, the chain, and the twin in memory.

use std::path::Path;

use redb::{Database, ReadableTable, WriteTransaction};
use tempfile::{TempDir, tempdir};

use super::*;
use crate::durable::{
    AuditVerdict, ChainBreak, ChainHash,
    datafile::{AUDIT, AUDIT_OF},
    memory::KEPT_RECORDS,
};

const RECORDS: u64 = 9;

async fn written() -> TempDir {
    let home = tempdir().unwrap();
    let durable = open(home.path()).durable;
    for n in 0..RECORDS {
        let name = format!("d{n}");
        durable
            .commit(set_override(&name), entry("SetOverride", &name))
            .await
            .unwrap();
    }
    durable.close(noon()).await.unwrap();
    home
}

fn tamper(home: &Path, with: impl FnOnce(&WriteTransaction)) {
    let database = Database::open(home.join("holdoff.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    with(&transaction);
    transaction.commit().unwrap();
}

fn stored(transaction: &WriteTransaction, sequence: u64) -> Vec<u8> {
    let table = transaction.open_table(AUDIT).unwrap();
    table.get(sequence).unwrap().unwrap().value().to_vec()
}

async fn verdict(home: &Path) -> AuditVerdict {
    open(home).durable.audit_verify("default").await.unwrap()
}

#[tokio::test]
async fn an_untouched_chain_holds() {
    let home = written().await;
    let verdict = verdict(home.path()).await;
    assert_eq!(
        (verdict.intact, verdict.head.sequence, verdict.broken),
        (RECORDS, RECORDS, None)
    );
}

#[tokio::test]
async fn a_changed_record_breaks_the_chain_even_with_its_checksum_renewed() {
    for resealed in [false, true] {
        let home = written().await;
        tamper(home.path(), |transaction| {
            let sealed = stored(transaction, 5);
            let changed = String::from_utf8_lossy(&sealed[9..]).replace("ada", "eve");
            let mut record = sealed[..9].to_vec();
            record.extend_from_slice(changed.as_bytes());
            if resealed {
                let value: serde_json::Value = serde_json::from_str(&changed).unwrap();
                let key = 5u64.to_le_bytes();
                record = crate::durable::encoding::seal("audit", &[&key], &value).unwrap();
            }
            transaction
                .open_table(AUDIT)
                .unwrap()
                .insert(5, record.as_slice())
                .unwrap();
        });
        let verdict = verdict(home.path()).await;
        assert_eq!(verdict.broken, Some(ChainBreak::Changed { sequence: 5 }));
        assert_eq!(verdict.intact, 4);
    }
}

/// ADM-3: any byte of any record, not only those that a reader would look at.
#[tokio::test]
async fn a_flipped_bit_anywhere_in_any_record_is_found() {
    let home = written().await;
    let mut looked = 0;
    for sequence in 1..=RECORDS {
        let mut original = Vec::new();
        tamper(home.path(), |transaction| {
            original = stored(transaction, sequence)
        });
        for at in (0..original.len()).step_by(17) {
            let put = |bytes: &[u8]| {
                tamper(home.path(), |transaction| {
                    let mut table = transaction.open_table(AUDIT).unwrap();
                    table.insert(sequence, bytes).unwrap();
                });
            };
            let mut changed = original.clone();
            changed[at] ^= 1 << (at % 8);
            put(&changed);
            let broken = verdict(home.path()).await.broken;
            assert_eq!(broken, Some(ChainBreak::Changed { sequence }), "byte {at}");
            put(&original);
            looked += 1;
        }
    }
    assert!(looked > 100, "{looked}");
    assert_eq!(verdict(home.path()).await.broken, None);
}

#[tokio::test]
async fn a_removed_record_breaks_the_chain_wherever_it_was() {
    for sequence in [1, 4, RECORDS] {
        let home = written().await;
        tamper(home.path(), |transaction| {
            transaction
                .open_table(AUDIT)
                .unwrap()
                .remove(sequence)
                .unwrap();
        });
        let broken = verdict(home.path()).await.broken;
        assert_eq!(broken, Some(ChainBreak::Missing { sequence }));
    }
}

#[tokio::test]
async fn two_records_in_each_others_place_break_the_chain() {
    let home = written().await;
    tamper(home.path(), |transaction| {
        let (third, fourth) = (stored(transaction, 3), stored(transaction, 4));
        let mut table = transaction.open_table(AUDIT).unwrap();
        table.insert(3, fourth.as_slice()).unwrap();
        table.insert(4, third.as_slice()).unwrap();
    });
    assert_eq!(
        verdict(home.path()).await.broken,
        Some(ChainBreak::Changed { sequence: 3 })
    );
}

#[tokio::test]
async fn a_record_past_the_acknowledged_end_breaks_the_chain() {
    let home = written().await;
    tamper(home.path(), |transaction| {
        let last = stored(transaction, RECORDS);
        transaction
            .open_table(AUDIT)
            .unwrap()
            .insert(RECORDS + 1, last.as_slice())
            .unwrap();
    });
    let broken = verdict(home.path()).await.broken;
    assert_eq!(
        broken,
        Some(ChainBreak::Added {
            sequence: RECORDS + 1
        })
    );
}

#[tokio::test]
async fn a_page_holds_its_namespace_alone_oldest_first() {
    let home = tempdir().unwrap();
    let in_memory = Durable::in_memory(start_at(noon())).durable;
    for durable in [open(home.path()).durable, in_memory] {
        for n in 0..10u64 {
            let namespace = if n % 2 == 0 { "even" } else { "odd" }.to_owned();
            let entry = AuditEntry {
                namespace,
                ..entry("ClearHold", "d")
            };
            durable.commit(Change::RecordOnly, entry).await.unwrap();
        }
        let sequences = async |namespace, after, limit| {
            let page = durable.audit_page(namespace, after, limit).await.unwrap();
            page.into_iter()
                .map(|link| link.record.sequence)
                .collect::<Vec<_>>()
        };
        assert_eq!(sequences(Some("even"), 0, 3).await, [1, 3, 5]);
        assert_eq!(sequences(Some("even"), 5, 3).await, [7, 9]);
        assert_eq!(sequences(Some("odd"), 10, 3).await, [0u64; 0]);
        assert_eq!(sequences(Some("eve"), 0, 3).await, [0u64; 0]);
        assert_eq!(sequences(None, 8, 100).await, [9, 10]);
        assert_eq!(sequences(None, u64::MAX, 100).await, [0u64; 0]);
    }
}

#[tokio::test]
async fn each_record_comes_with_the_hash_before_it_of_whatever_namespace() {
    let home = tempdir().unwrap();
    let in_memory = Durable::in_memory(start_at(noon())).durable;
    for durable in [open(home.path()).durable, in_memory] {
        let mut hashes = vec![ChainHash([0; 32])];
        for n in 0..6u64 {
            let namespace = if n % 2 == 0 { "even" } else { "odd" }.to_owned();
            let entry = AuditEntry {
                namespace,
                ..entry("ClearHold", "d")
            };
            let record = durable.commit(Change::RecordOnly, entry).await.unwrap();
            hashes.push(record.hash);
        }
        for namespace in [None, Some("even"), Some("odd")] {
            for after in 0..6 {
                for link in durable.audit_page(namespace, after, 100).await.unwrap() {
                    let before = hashes[link.record.sequence as usize - 1];
                    assert_eq!(link.before, Some(before));
                }
            }
        }
        let verdict = durable.audit_verify("odd").await.unwrap();
        assert_eq!((verdict.intact, verdict.intact_of_namespace), (6, 3));
    }
}

#[tokio::test]
async fn a_record_that_is_only_hidden_from_its_namespace_is_counted_by_the_walk() {
    let home = written().await;
    tamper(home.path(), |transaction| {
        let mut index = transaction.open_table(AUDIT_OF).unwrap();
        assert!(index.remove(("default", 5)).unwrap().is_some());
    });
    let durable = open(home.path()).durable;
    let listed = durable.audit_page(Some("default"), 0, 100).await.unwrap();
    let verdict = durable.audit_verify("default").await.unwrap();
    assert_eq!(verdict.broken, None);
    assert_eq!(
        (listed.len() as u64, verdict.intact_of_namespace),
        (RECORDS - 1, RECORDS)
    );
}

#[tokio::test]
async fn in_memory_the_newest_records_are_kept_and_the_sequence_goes_on() {
    let Opened { durable, state } = Durable::in_memory(start_at(noon()));
    assert_eq!((state.boot, state.first_start), (1_780_000_000, true));
    let all = KEPT_RECORDS as u64 + 5;
    for _ in 0..all {
        durable
            .commit(Change::RecordOnly, entry("ClearHold", "d"))
            .await
            .unwrap();
    }
    let verdict = durable.audit_verify("default").await.unwrap();
    assert_eq!(
        (verdict.intact, verdict.broken),
        (KEPT_RECORDS as u64, None)
    );
    assert_eq!(verdict.head.sequence, all);
    assert_eq!(
        durable.audit_page(None, 0, 1).await.unwrap()[0]
            .record
            .sequence,
        6
    );
    assert!(!durable.degraded());
    durable.flushed().await.unwrap();
    durable.close(noon()).await.unwrap();
}
