//! The records in this process's memory.
//!
//! A sharded map of boxed slots, keyed by a hash that is already uniform, so it is not hashed
//! again. A rule runs under the lock of its shard, for some hundred nanoseconds. No lock is
//! ever held over an await or over another lock of the map.

use std::{
    collections::HashMap,
    future::{Future, ready},
    hash::{BuildHasherDefault, Hasher},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use dashmap::{DashMap, Entry};
use holdoff_decision::{Reach, Time};

use super::{Name, Notes, Numbered, Seed, Slot, Store, StoreError, Told, sequences::Sequences};
use crate::permit::DependencyId;

/// Enough that two cores rarely meet in one.
const SHARDS: usize = 256;

/// See the module.
#[derive(Debug)]
pub struct MemoryStore {
    slots: DashMap<DependencyId, Box<Slot>, BuildHasherDefault<AlreadyUniform>>,
    /// How many records each namespace has; only touched when one is made or dropped.
    namespaces: Mutex<HashMap<Arc<String>, u32>>,
    /// No dropped record had a higher epoch.
    evicted_epoch: AtomicU64,
    begins_after: u64,
    sequences: Sequences,
}

/// Takes a uniform 64-bit number for its own hash.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlreadyUniform(u64);

impl Hasher for AlreadyUniform {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self {
            slots: DashMap::with_hasher_and_shard_amount(BuildHasherDefault::default(), SHARDS),
            namespaces: Mutex::default(),
            evicted_epoch: AtomicU64::new(0),
            begins_after: 0,
            sequences: Sequences::default(),
        }
    }
}

impl MemoryStore {
    /// New records get epochs above this one.
    pub fn after_epoch(epoch: u64) -> Self {
        Self {
            evicted_epoch: AtomicU64::new(epoch),
            begins_after: epoch,
            ..Self::default()
        }
    }

    /// What the trait's verb does, without its future.
    ///
    /// # Errors
    /// As for [`Store::transact`].
    pub fn transact_now<R>(
        &self,
        id: DependencyId,
        namespace: &str,
        seed: impl FnOnce(u64) -> Result<Seed, StoreError>,
        mut rule: impl FnMut(&mut Slot) -> R,
    ) -> Result<R, StoreError> {
        if let Some(mut slot) = self.slots.get_mut(&id) {
            return Ok(rule(&mut slot));
        }
        match self.slots.entry(id) {
            Entry::Occupied(mut slot) => Ok(rule(slot.get_mut())),
            Entry::Vacant(vacant) => {
                let first_epoch = self.evicted_epoch.load(Ordering::Relaxed) + 1;
                let slot = self.admit(namespace, seed(first_epoch)?)?;
                Ok(rule(&mut vacant.insert(Box::new(slot))))
            }
        }
    }

    fn admit(&self, namespace: &str, seed: Seed) -> Result<Slot, StoreError> {
        let mut namespaces = self
            .namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let total: u64 = namespaces.values().map(|count| u64::from(*count)).sum();
        let limits = seed.limits;
        if total >= u64::from(limits.in_all) {
            return Err(StoreError::Full {
                limit: limits.in_all,
            });
        }
        let (name, count) = match namespaces.get_key_value(&namespace.to_owned()) {
            Some((name, count)) => (Arc::clone(name), *count),
            None if namespaces.len() >= limits.namespaces as usize => {
                return Err(StoreError::NamespacesFull {
                    limit: limits.namespaces,
                });
            }
            None => (Arc::new(namespace.to_owned()), 0),
        };
        if count >= limits.in_namespace {
            let (namespace, limit) = (namespace.to_owned(), limits.in_namespace);
            return Err(StoreError::NamespaceFull { namespace, limit });
        }
        namespaces.insert(Arc::clone(&name), count + 1);
        Ok(Slot {
            name: Name {
                namespace: name,
                dependency: seed.dependency,
            },
            policy: seed.policy,
            generation: seed.generation,
            notes: Notes::default(),
            record: seed.record,
            beside: None,
        })
    }

    fn release(&self, evicted: &[Name]) {
        let mut namespaces = self
            .namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for name in evicted {
            if let Some(count) = namespaces.get_mut(&name.namespace) {
                *count = count.saturating_sub(1);
            }
        }
        namespaces.retain(|_, count| *count > 0);
    }
}

impl Store for MemoryStore {
    fn transact<R: Send>(
        &self,
        id: DependencyId,
        namespace: &str,
        seed: impl FnOnce(u64) -> Result<Seed, StoreError> + Send,
        _: impl Fn(&Slot) -> Reach + Send,
        rule: impl FnMut(&mut Slot) -> R + Send,
    ) -> impl Future<Output = Result<R, StoreError>> + Send {
        ready(self.transact_now(id, namespace, seed, rule))
    }

    fn note_sequence(
        &self,
        instance: u64,
        sequence: u64,
        now: Time,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send {
        ready(Ok(self.sequences.note(instance, sequence, now)))
    }

    fn end_sequence(&self, instance: u64, sequence: u64, ended: Numbered) {
        match ended {
            Numbered::Taken => {}
            Numbered::NotTaken => self.sequences.forget(instance, sequence),
        }
    }

    fn tell(&self, _: Told) {}

    fn remembers(&self) -> bool {
        false
    }

    fn begins_after(&self) -> Option<u64> {
        Some(self.begins_after)
    }

    fn visit(&self, visit: &mut dyn FnMut(DependencyId, &Slot)) {
        for slot in &self.slots {
            visit(*slot.key(), slot.value());
        }
    }

    fn evict(&self, droppable: &mut dyn FnMut(&Slot) -> bool) -> Vec<Name> {
        let mut evicted = Vec::new();
        self.slots.retain(|_, slot| {
            let drops = droppable(slot);
            if drops {
                self.evicted_epoch
                    .fetch_max(slot.record.breaker.epoch, Ordering::Relaxed);
                evicted.push(slot.name.clone());
            }
            !drops
        });
        self.release(&evicted);
        evicted
    }

    fn len(&self) -> usize {
        let namespaces = self
            .namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        namespaces.values().map(|count| *count as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use holdoff_decision::{Policy, Record, Time};

    use super::{super::Limits, *};

    fn seed(name: &str, epoch: u64, max_dependencies: u32) -> Seed {
        Seed {
            dependency: name.into(),
            policy: Arc::new(Policy::default()),
            generation: 0,
            record: Record::new(epoch, Time(1)),
            limits: Limits {
                in_namespace: max_dependencies,
                in_all: 3,
                namespaces: 2,
            },
        }
    }

    fn touch(store: &MemoryStore, namespace: &str, id: u64, max: u32) -> Result<u64, StoreError> {
        let make = |epoch| Ok(seed(&id.to_string(), epoch, max));
        let rule = |slot: &mut Slot| slot.record.breaker.epoch;
        store.transact_now(DependencyId(id), namespace, make, rule)
    }

    #[test]
    fn b21b_a_record_is_made_once_and_joining_is_reading() {
        let store = MemoryStore::default();
        touch(&store, "a", 1, 9).unwrap();
        let made_again = |_| -> Result<Seed, StoreError> { unreachable!("it is there") };
        store
            .transact_now(DependencyId(1), "a", made_again, |_| ())
            .unwrap();
        assert_eq!(store.len(), 1);
    }

    #[test]
    fn b35a_a_full_namespace_and_a_full_table_refuse_new_names_and_keep_the_old() {
        let store = MemoryStore::default();
        touch(&store, "a", 1, 1).unwrap();
        let full = touch(&store, "a", 2, 1).unwrap_err();
        assert_eq!(
            full,
            StoreError::NamespaceFull {
                namespace: "a".into(),
                limit: 1
            }
        );
        touch(&store, "b", 3, 9).unwrap();
        touch(&store, "b", 4, 9).unwrap();
        assert_eq!(touch(&store, "b", 5, 9), Err(StoreError::Full { limit: 3 }));
        store.evict(&mut |slot| *slot.name.dependency == *"4");
        assert_eq!(
            touch(&store, "c", 6, 9),
            Err(StoreError::NamespacesFull { limit: 2 })
        );
        assert_eq!(touch(&store, "a", 1, 1), Ok(1));
    }

    #[test]
    fn a_record_made_after_an_eviction_has_a_higher_epoch_than_any_that_went() {
        let store = MemoryStore::default();
        store
            .transact_now(
                DependencyId(1),
                "a",
                |epoch| Ok(seed("1", epoch, 9)),
                |slot| {
                    slot.record.breaker.epoch = 41;
                },
            )
            .unwrap();
        assert_eq!(store.evict(&mut |_| true).len(), 1);
        assert_eq!(touch(&store, "a", 2, 9), Ok(42));
        assert_eq!(store.len(), 1);
    }
}
