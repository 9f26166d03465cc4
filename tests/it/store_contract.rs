//! What every store promises, by one body on each of them: memory, Redis, Valkey, a cluster.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use holdoff::{
    permit::DependencyId,
    store::{
        Limits, MemoryStore, Numbered, Run, Seed, Slot, Store, StoreError, by_fleet,
        redis::Decisions,
    },
};
use holdoff_decision::{Nanos, Policy, Record, Time};

use crate::{
    harness::ORIGIN,
    stores::{Cluster, Make, Server, connect, connect_with},
};

const ROOM: Limits = Limits {
    in_namespace: 1_000,
    in_all: 1_000,
    namespaces: 1_000,
};

fn seed(id: u64, epoch: u64, limits: Limits) -> Seed {
    Seed {
        dependency: format!("d{id}").into(),
        policy: Arc::new(Policy::default()),
        generation: 1,
        record: Record::new(epoch, Time(ORIGIN)),
        limits,
    }
}

async fn epoch_of<S: Store>(store: &S, id: u64, limits: Limits) -> Result<u64, StoreError> {
    let make = |epoch| Ok(seed(id, epoch, limits));
    let rule = |slot: &mut Slot| slot.record.breaker.epoch;
    store
        .transact(DependencyId(id), "space", make, by_fleet, rule)
        .await
}

async fn contract<S: Store>(store: S) {
    let store = Arc::new(store);
    a_record_is_made_once_and_a_refused_seed_makes_none(&*store).await;
    rules_that_race_are_each_applied_once(Arc::clone(&store)).await;
    what_a_rule_changes_is_there_for_the_next(&*store).await;
    limits_refuse_new_names_and_keep_the_old(&*store).await;
    a_dropped_record_begins_above_every_epoch_it_had(&*store).await;
    a_numbered_report_counts_once(&*store).await;
    a_number_whose_report_was_not_taken_is_new_once_more(&*store).await;
}

async fn a_record_is_made_once_and_a_refused_seed_makes_none<S: Store>(store: &S) {
    let refuse = |_| Err(StoreError::Unknown);
    let refused = store
        .transact(DependencyId(1), "space", refuse, by_fleet, |_| ())
        .await;
    assert_eq!(refused, Err(StoreError::Unknown));
    assert_eq!(store.len(), 0);
    assert!(epoch_of(store, 1, ROOM).await.unwrap() >= 1);
    let name = store
        .transact(DependencyId(1), "space", refuse, by_fleet, |slot| {
            slot.name.clone()
        })
        .await
        .unwrap();
    assert_eq!(
        (name.namespace.as_str(), &*name.dependency),
        ("space", "d1")
    );
    assert_eq!((store.len(), store.is_empty()), (1, false));
}

/// Each sees what all before it made, and tells others once.
async fn rules_that_race_are_each_applied_once<S: Store>(store: Arc<S>) {
    let told = Arc::new(AtomicU32::new(0));
    let tasks = (0..200).map(|_| {
        let (store, told) = (Arc::clone(&store), Arc::clone(&told));
        tokio::spawn(async move {
            let make = |epoch| Ok(seed(2, epoch, ROOM));
            let rule = |slot: &mut Slot| {
                slot.record.breaker.past_mut().trips += 1;
                if slot.notes.run() == Run::Counts {
                    told.fetch_add(1, Ordering::SeqCst);
                }
                slot.record.breaker.past().trips
            };
            let seen = store.transact(DependencyId(2), "space", make, by_fleet, rule);
            seen.await.unwrap()
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let mut seen = Vec::new();
    for task in tasks {
        seen.push(task.await.unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=200).collect::<Vec<u32>>());
    assert_eq!(told.load(Ordering::SeqCst), 200);
}

async fn what_a_rule_changes_is_there_for_the_next<S: Store>(store: &S) {
    let unknown = |_| Err(StoreError::Unknown);
    let until = Time(ORIGIN) + Nanos::from_secs(5);
    let hold = |slot: &mut Slot| slot.record.hold_until(until);
    let id = DependencyId(2);
    store
        .transact(id, "space", unknown, by_fleet, hold)
        .await
        .unwrap();
    let held = store
        .transact(id, "space", unknown, by_fleet, |slot| {
            slot.record.held_until()
        })
        .await;
    assert_eq!(held, Ok(until));
    let mut visited = 0;
    store.visit(&mut |id, slot| {
        visited += 1;
        assert_eq!(format!("d{}", id.0), *slot.name.dependency);
    });
    assert_eq!(visited, store.len());
}

async fn limits_refuse_new_names_and_keep_the_old<S: Store>(store: &S) {
    let limits = |in_namespace, in_all, namespaces| Limits {
        in_namespace,
        in_all,
        namespaces,
    };
    let full = epoch_of(store, 3, limits(2, 9, 9)).await;
    let namespace = "space".to_owned();
    let limit = 2;
    assert_eq!(full, Err(StoreError::NamespaceFull { namespace, limit }));
    let full = epoch_of(store, 3, limits(9, 2, 9)).await;
    assert_eq!(full, Err(StoreError::Full { limit: 2 }));
    let make = |epoch| Ok(seed(3, epoch, limits(9, 9, 1)));
    let other = store
        .transact(DependencyId(3), "other", make, by_fleet, |_| ())
        .await;
    assert_eq!(other, Err(StoreError::NamespacesFull { limit: 1 }));
    assert!(epoch_of(store, 1, limits(1, 1, 1)).await.is_ok());
    assert_eq!(store.len(), 2);
}

async fn a_dropped_record_begins_above_every_epoch_it_had<S: Store>(store: &S) {
    let make = |epoch| Ok(seed(4, epoch, ROOM));
    let raise = |slot: &mut Slot| slot.record.breaker.epoch += 40;
    let id = DependencyId(4);
    store
        .transact(id, "space", make, by_fleet, raise)
        .await
        .unwrap();
    let had = epoch_of(store, 4, ROOM).await.unwrap();
    let dropped = store.evict(&mut |slot| *slot.name.dependency == *"d4");
    assert_eq!(dropped.len(), 1);
    assert_eq!(store.len(), 2);
    // A drop may be on its way for a moment; the record is then still there, with its epoch.
    for _ in 0..1_000 {
        let now = epoch_of(store, 4, ROOM).await.unwrap();
        if now > had {
            return;
        }
        assert_eq!(now, had);
        store.evict(&mut |slot| *slot.name.dependency == *"d4");
        tokio::task::yield_now().await;
    }
    panic!("it was never dropped");
}

async fn a_numbered_report_counts_once<S: Store>(store: &S) {
    for (instance, sequence, new) in [
        (1, 5, true),
        (1, 5, false),
        (1, 7, true),
        (1, 6, true),
        (1, 6, false),
        (1, 300, true),
        (1, 7, false),
        (2, 5, true),
    ] {
        let noted = store.note_sequence(instance, sequence, Time(ORIGIN)).await;
        assert_eq!(noted, Ok(new), "{instance} {sequence}");
    }
}

async fn a_number_whose_report_was_not_taken_is_new_once_more<S: Store>(store: &S) {
    let note = async |sequence| {
        let noted = store.note_sequence(3, sequence, Time(ORIGIN)).await;
        noted.unwrap()
    };
    assert!(note(8).await && note(9).await);
    for round in 0..20 {
        assert!(!note(9).await, "round {round}");
        store.end_sequence(3, 9, Numbered::NotTaken);
        assert!(note(9).await, "round {round}");
        store.end_sequence(3, 9, Numbered::Taken);
    }
    assert!(!note(8).await && !note(9).await);
}

#[tokio::test]
async fn the_leased_path_takes_numbers_back_too() {
    let server = Server::start(Make::Redis, &[]);
    let store = connect_with(&server.url(), Decisions::Leased).await;
    a_numbered_report_counts_once(&store).await;
    a_number_whose_report_was_not_taken_is_new_once_more(&store).await;
}

#[tokio::test]
async fn memory_keeps_the_contract() {
    contract(MemoryStore::default()).await;
}

#[tokio::test]
async fn redis_keeps_the_contract() {
    let server = Server::start(Make::Redis, &[]);
    contract(connect(&server.url()).await).await;
}

#[tokio::test]
async fn valkey_keeps_the_contract() {
    let server = Server::start(Make::Valkey, &[]);
    contract(connect(&server.url()).await).await;
}

#[tokio::test]
async fn a_cluster_keeps_the_contract() {
    let cluster = Cluster::start();
    contract(connect(&cluster.url()).await).await;
}

/// A store that has lost its scripts, or all it had, is used as before.
#[tokio::test]
async fn a_flushed_store_gets_back_what_this_replica_knows() {
    let server = Server::start(Make::Redis, &[]);
    let store = connect(&server.url()).await;
    let make = |epoch| Ok(seed(1, epoch, ROOM));
    let hold = |slot: &mut Slot| slot.record.hold_until(Time(u64::MAX));
    let id = DependencyId(1);
    store
        .transact(id, "space", make, by_fleet, hold)
        .await
        .unwrap();
    for flush in ["SCRIPT", "FLUSHALL"] {
        let mut command = redis::cmd(flush);
        if flush == "SCRIPT" {
            command.arg("FLUSH");
        }
        command.query::<()>(&mut server.connection()).unwrap();
        let held = |slot: &mut Slot| slot.record.held_until();
        let unknown = |_| Err(StoreError::Unknown);
        let seen = store.transact(id, "space", unknown, by_fleet, held).await;
        assert_eq!(seen, Ok(Time(u64::MAX)), "after {flush}");
    }
}

/// Every key has a lifetime.
#[tokio::test]
async fn no_key_is_kept_for_ever() {
    let server = Server::start(Make::Redis, &[]);
    contract(connect(&server.url()).await).await;
    let mut connection = server.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    assert!(keys.len() > 5, "{keys:?}");
    for key in keys {
        let left: i64 = redis::cmd("PTTL").arg(&key).query(&mut connection).unwrap();
        assert!(left > 0, "{key} has no lifetime");
        assert!(key.starts_with("holdoff:{"), "{key}");
    }
}
