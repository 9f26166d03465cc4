//! The indexes: what others have made is found there and loaded, and what has ended is taken out.
//!
//! A record ends by its lifetime, which tells nobody; its entry in the index would stay as long as its
//! shard is used. So each replica looks at the oldest entries, of one shard after the other: the script
//! takes out those that have no record.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use holdoff_decision::{Nanos, Time};

use super::{Act, Counted, Desk, SHARDS, Shared, StoreError, Version, keys, locked};
use crate::permit::{self, DependencyId};

/// Entries that are read at once.
const READ_AT_ONCE: usize = 1_000;
/// Entries of one shard that are looked at together.
const TIDIED_AT_ONCE: usize = 100;
/// A sweep begins so long before the last one, since a shard's clock may be stepped.
const OVERLAP: Nanos = Nanos::from_secs(10);
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// How far a replica has come.
#[derive(Debug)]
pub struct Swept {
    /// All that had changed before was loaded.
    upto: Time,
    /// Whose oldest entries are looked at next.
    shard: u64,
    /// Of each shard, the entry that is looked at next, by its time in milliseconds.
    oldest: [u64; SHARDS as usize],
}

impl Default for Swept {
    fn default() -> Self {
        Self {
            upto: Time::ORIGIN,
            shard: 0,
            oldest: [0; SHARDS as usize],
        }
    }
}

/// A part of an index.
#[derive(Clone, Copy, Debug)]
struct Part {
    shard: u64,
    /// From this time on, in milliseconds.
    from: u64,
    /// Before this one; `None`: all.
    before: Option<u64>,
    /// Entries of it that were read before.
    skipped: usize,
    most: usize,
}

impl Part {
    /// What comes behind `read`; `None`: nothing is left.
    fn rest(self, read: &[(String, u64)]) -> Option<Self> {
        let (_, last) = read.last().filter(|_| read.len() >= self.most)?;
        Some(match *last == self.from {
            // Those of one millisecond fill a part.
            true => Self {
                skipped: self.skipped + read.len(),
                ..self
            },
            false => Self {
                from: *last,
                skipped: 0,
                ..self
            },
        })
    }
}

impl Shared {
    /// Loads what has changed in the store since the last sweep. False: not all of it.
    pub async fn sweep(self: &Arc<Self>, swept: &mut Swept) -> bool {
        let now = self.clock.now();
        let from = swept.upto.0.saturating_sub(OVERLAP.0) / 1_000_000;
        for shard in 0..SHARDS {
            let mut part = Some(Part {
                shard,
                from,
                before: None,
                skipped: 0,
                most: READ_AT_ONCE,
            });
            while let Some(some) = part {
                let Some(read) = self.read_index(some).await else {
                    return false;
                };
                for id in read.iter().filter_map(|(digits, _)| keys::id_of(digits)) {
                    if !self.desks.contains_key(&id) && !self.load_new(id).await {
                        return false;
                    }
                }
                part = some.rest(&read);
            }
        }
        swept.upto = now;
        self.knows_names.store(true, Ordering::Relaxed);
        true
    }

    async fn load_new(self: &Arc<Self>, id: DependencyId) -> bool {
        let is_answered = self.load(id).await;
        let desk = self.desk(id);
        if self.is_foreign(id, &locked(&desk)) {
            self.give_up(id);
        }
        is_answered
    }

    /// Looks at the oldest entries of the next shard, so that those without a record are taken out.
    pub async fn tidy_index(&self, swept: &mut Swept) {
        let shard = swept.shard;
        swept.shard = (shard + 1) % SHARDS;
        let ended = Nanos::from(self.timing.kept_for).saturating_add(OVERLAP);
        let part = Part {
            shard,
            from: swept.oldest[shard as usize],
            before: Some(self.clock.now().0.saturating_sub(ended.0) / 1_000_000),
            skipped: 0,
            most: TIDIED_AT_ONCE,
        };
        let Some(read) = self.read_index(part).await else {
            return;
        };
        let nobody: Version = Some("?".into());
        for id in read.iter().filter_map(|(digits, _)| keys::id_of(digits)) {
            let place = self.keys.record(id);
            if self.ask(&place, &nobody, &Act::Look, 0).await.is_err() {
                return;
            }
        }
        // Those that live on are passed by until the next time.
        let rest = part.rest(&read).map(|rest| match rest.skipped {
            0 => rest.from,
            _ => rest.from + 1,
        });
        swept.oldest[shard as usize] = rest.unwrap_or_default();
    }

    /// Ids as digits, the one that changed first before the others. `None`: the store does not
    /// answer.
    async fn read_index(&self, part: Part) -> Option<Vec<(String, u64)>> {
        let mut read = ::redis::cmd("ZRANGEBYSCORE");
        read.arg(self.keys.index(part.shard)).arg(part.from);
        match part.before {
            Some(before) => read.arg(format!("({before}")),
            None => read.arg("+inf"),
        };
        read.arg("WITHSCORES");
        read.arg("LIMIT").arg(part.skipped).arg(part.most);
        self.counts.add(Counted::Keep);
        let answer = self.link.command::<Vec<(String, u64)>>(&read);
        tokio::time::timeout(ANSWER_WITHIN, answer).await.ok()?.ok()
    }

    /// Takes a copy of one record, for those who list. False: the store did not answer.
    pub(super) async fn load(self: &Arc<Self>, id: DependencyId) -> bool {
        let (desk, asked) = (self.desk(id), self.clock.own());
        let joined = {
            let mut at = locked(&desk);
            at.rejoin();
            let joined = at.join(|_| Err(StoreError::Unknown), |_| ());
            self.dispatch(id, &desk, &mut at);
            joined
        };
        let Ok(joined) = joined else {
            // It is known that there is none.
            return true;
        };
        // What came of it is at the desk.
        let _ = joined.landing.await;
        self.guard_of(id).answered() >= asked
    }

    /// Whether a copy that was found is of a fleet with another key: here its name has another id, and
    /// would be there twice.
    pub(super) fn is_foreign(&self, id: DependencyId, at: &Desk) -> bool {
        at.slot().is_some_and(|slot| {
            let name = &slot.name;
            permit::dependency_id(&self.permit_key, &name.namespace, &name.dependency) != id
        })
    }

    pub(super) fn give_up(&self, id: DependencyId) {
        self.desks.remove(&id);
        self.count.note(id, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{
        Limits, RedisStore, Seed, Slot, Store as _, by_fleet,
        redis::{Decisions, Timing, here::Here},
    };
    use holdoff_decision::{Policy, Record};

    const ORIGIN: Time = Time(1_700_000_000_000_000_000);
    const KEY: [u8; 16] = [7; 16];
    const ROOM: Limits = Limits {
        in_namespace: 9_999,
        in_all: 9_999,
        namespaces: 9,
    };

    async fn replica(here: &Arc<Here>) -> RedisStore {
        let store = RedisStore::over(here, Timing::default(), Decisions::Leased, KEY);
        store.await.unwrap()
    }

    fn id(name: &str) -> DependencyId {
        permit::dependency_id(&KEY, "space", name)
    }

    async fn make(store: &RedisStore, name: &str) {
        let seed = |epoch| {
            Ok(Seed {
                dependency: name.into(),
                policy: Arc::new(Policy::default()),
                generation: 1,
                record: Record::new(epoch, ORIGIN),
                limits: ROOM,
            })
        };
        let made = store.transact(id(name), "space", seed, by_fleet, |_: &mut Slot| ());
        made.await.unwrap();
    }

    /// So many entries without a record in the index of `shard`, `at` each the time in milliseconds.
    async fn add_dead(store: &RedisStore, shard: u64, many: u64, at: impl Fn(u64) -> u64) {
        for entry in 0..many {
            let mut add = ::redis::cmd("ZADD");
            add.arg(store.shared.keys.index(shard)).arg(at(entry));
            add.arg(format!("{:016x}", entry * SHARDS + shard));
            store.shared.link.command::<i64>(&add).await.unwrap();
        }
    }

    async fn entries(store: &RedisStore, shard: u64) -> usize {
        let part = Part {
            shard,
            from: 0,
            before: None,
            skipped: 0,
            most: 100_000,
        };
        store.shared.read_index(part).await.unwrap().len()
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_known_however_many_entries_its_shard_has_before_it() {
        let here = Arc::new(Here::new(ORIGIN, Duration::ZERO));
        let one = replica(&here).await;
        make(&one, "late").await;
        let shard = id("late").0 % SHARDS;
        for (many, spread) in [(999, 1), (1_000, 1), (1_001, 0), (2_000, 700), (3_500, 3)] {
            add_dead(&one, shard, many, |entry| 1 + entry * spread / 1_000).await;
            let two = replica(&here).await;
            let is_whole = two.shared.sweep(&mut Swept::default()).await;
            assert!(is_whole && two.shared.knows_names.load(Ordering::Relaxed));
            assert_eq!(two.len(), 1, "{many} entries, {spread}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn entries_without_a_record_are_taken_out_and_those_of_others_stay() {
        let here = Arc::new(Here::new(ORIGIN, Duration::ZERO));
        let one = replica(&here).await;
        for at in 0..300 {
            make(&one, &format!("old-{at}")).await;
        }
        tokio::time::advance(2 * Timing::default().kept_for).await;
        make(&one, "young").await;
        let mut living = Vec::new();
        for shard in 0..SHARDS {
            living.push(entries(&one, shard).await);
        }
        let dead = 5 * TIDIED_AT_ONCE as u64;
        for shard in 0..SHARDS {
            add_dead(&one, shard, dead, |_| 5).await;
        }
        let mut swept = Swept::default();
        for _ in 0..8 * SHARDS {
            one.shared.tidy_index(&mut swept).await;
        }
        for shard in 0..SHARDS {
            assert_eq!(
                entries(&one, shard).await,
                living[shard as usize],
                "{shard}"
            );
        }
    }
}
