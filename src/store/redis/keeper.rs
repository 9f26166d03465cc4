//! What a replica does for the store without a caller: it looks at the clock once a second,
//! finds what others have made, and renews what must not lapse. While the store is away it tries
//! it, and when it is back it brings what was decided meanwhile.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use holdoff_decision::{Nanos, Time, tickets::REPLICAS_MAX};

use super::{
    Act, Board, By, Call, Counted, Ended, Outcome, PROTECTED, SHARD_KEPT, Shared, StoreError,
    Tells, Version, keys::Keys, link::Link, locked, millis, sweep::Swept,
};
use crate::{
    clock::fleet::{Kept, Look},
    permit::DependencyId,
    store::stored,
};

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// While it is away, and after a look that failed.
const TRY_EVERY: Duration = Duration::from_millis(50);
const SWEEP_EVERY: u32 = 5;
/// A replica that was not seen for so long is not there any more.
const SEEN_WITHIN: Duration = Duration::from_secs(60);
/// All who are there show themselves within so long of a return.
const SHOWN_WITHIN: Nanos = Nanos::from_secs(10);
const ALIVE_KEPT: Duration = Duration::from_secs(3_600);
/// The first who return wait for so long at most, each for another time.
const RETURN_WITHIN: Duration = Duration::from_millis(250);
/// Where changes are told with their bytes.
const SWEEP_LEASED_EVERY: u32 = 300;
/// No permit of a replica that is gone lives longer.
const NUMBER_KEPT: Duration = Duration::from_secs(2 * 86_400);
const CLAIM_EVERY: u32 = 3_600;
/// Longer than from one look at the store to the next.
const KEY_TRIES: u32 = 30;
const KEY_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Rounds between looks at the oldest entries of an index: of one shard each time.
const TIDY_EVERY: u32 = 5;

/// Keeps, until the store is no longer used.
pub async fn keep(shared: Weak<Shared>) {
    let (mut swept, mut has_all) = (Swept::default(), false);
    for round in 0_u32.. {
        if !stay_with(&shared).await {
            return;
        }
        let Some(strong) = shared.upgrade() else {
            return;
        };
        // Where it fails, the next round tries it at once; until then the own clock goes on.
        let looked = strong.look_at_clock().await;
        let sweep_every = match strong.is_leased() {
            true => SWEEP_LEASED_EVERY,
            false => SWEEP_EVERY,
        };
        let is_emptied = looked == Ok(Looked::Emptied);
        let seen = match round % SWEEP_EVERY == 0 || is_emptied {
            // As with the clock.
            true => strong.show_oneself(By::Question).await,
            false => Ok(Seen::Before),
        };
        if is_emptied || seen == Ok(Seen::Anew) {
            strong.claim_again(&looked).await;
            strong.bring_back(Seen::Anew).await;
        }
        if round % sweep_every == 0 || !has_all {
            has_all = strong.sweep(&mut swept).await;
            strong.counts.add_many(Counted::Keep, 2);
            strong.keep_key().await;
        }
        if round % TIDY_EVERY == TIDY_EVERY - 1 {
            strong.tidy_index(&mut swept).await;
        }
        if round % CLAIM_EVERY == CLAIM_EVERY - 1 {
            strong.keep_number().await;
            Board::of(&strong).keep_policies().await;
        }
        drop(strong);
        tokio::time::sleep(match looked {
            Ok(_) => LOOK_EVERY,
            Err(_) => TRY_EVERY,
        })
        .await;
    }
}

/// Where the store is away, waits until it is back and has what was decided meanwhile. False: the
/// store is no longer used.
async fn stay_with(shared: &Weak<Shared>) -> bool {
    let (mut was_away, mut seen) = (false, Seen::Before);
    loop {
        let Some(strong) = shared.upgrade() else {
            return false;
        };
        if !strong.is_away() {
            if was_away {
                tokio::time::sleep(RETURN_WITHIN.mul_f64(strong.unit)).await;
                // Time has passed; what waits is told by it.
                let looked = strong.look_at_clock().await;
                if looked == Ok(Looked::Emptied) {
                    seen = Seen::Anew;
                    strong.claim_again(&looked).await;
                }
                strong.bring_back(seen).await;
            }
            return true;
        }
        was_away = true;
        // What fails is tried again at the guard's next time.
        if strong.show_oneself(By::Keeper).await == Ok(Seen::Anew) {
            seen = Seen::Anew;
            let looked = strong.look_at_clock().await;
            strong.claim_again(&looked).await;
        }
        strong.try_shards().await;
        drop(strong);
        tokio::time::sleep(TRY_EVERY).await;
    }
}

/// Whether the store knew this replica when it showed itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Before,
    /// At the start; later it says that the store has lost what it had, or that this replica was
    /// away for long.
    Anew,
}

/// Whether the store is the one that it was at the look before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    Same,
    /// It was emptied since, or lost the last of what it had; or there was no look before and it is
    /// empty.
    Emptied,
}

impl Shared {
    /// Looks at the store's clock and keeps what it comes to.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn look_at_clock(&self) -> Result<Looked, StoreError> {
        let place = self.keys.clock();
        let sent = self.clock.own();
        let nobody: Version = Some("?".into());
        let reply = self.ask(&place, &nobody, &Act::Look, 0).await?;
        let received = self.clock.own();
        let (version, kept) = match reply.outcome {
            Outcome::Other { version, bytes } => (Some(version), Kept::of_bytes(&bytes)),
            Outcome::Done(version) => (version, None),
            Outcome::Absent { .. } => (None, None),
        };
        let was_kept = kept.is_some();
        let keeps = self.clock.take(&Look {
            sent,
            received,
            store: reply.time,
            kept: kept.unwrap_or_default(),
        });
        let put = Act::Put {
            bytes: keeps.to_bytes(),
            kept_for_ms: millis(SHARD_KEPT),
        };
        // Who is slower leaves it to the next second.
        let put = self.ask(&place, &version, &put, 0).await?;
        let after = match &put.outcome {
            Outcome::Done(after) => after,
            Outcome::Other { .. } | Outcome::Absent { .. } => &version,
        };
        let lacks_writes = self.doubts.lacks_writes(&version, after);
        let is_known = was_kept || matches!(put.outcome, Outcome::Done(_));
        let begun = if is_known { keeps.begun } else { Time::ORIGIN };
        let before = Time(self.begun.swap(begun.0, Ordering::Relaxed));
        let is_same = was_kept && !lacks_writes && (before == Time::ORIGIN || before == begun);
        Ok(if is_same {
            Looked::Same
        } else {
            Looked::Emptied
        })
    }

    /// What this replica alone can put back into a store that was emptied. Its copies must know of
    /// it before another replica that finds the key can begin anew what is protected.
    async fn claim_again(&self, looked: &Result<Looked, StoreError>) {
        // It may have been emptied just after that look.
        let is_emptied =
            *looked == Ok(Looked::Emptied) || self.look_at_clock().await == Ok(Looked::Emptied);
        if is_emptied {
            for desk in &self.desks {
                locked(&desk).mark_lost();
            }
        }
        self.keep_number().await;
        self.counts.add_many(Counted::Keep, 2);
        self.keep_key().await;
    }

    /// Writes down that this replica is there, and reads how many are.
    ///
    /// # Errors
    /// The store does not answer, or takes no writes.
    pub async fn show_oneself(&self, by: By) -> Result<Seen, StoreError> {
        let (key, now) = (self.keys.alive(), self.clock.now().0 / 1_000_000);
        let since = now.saturating_sub(millis(SEEN_WITHIN));
        let mut show = ::redis::cmd("ZADD");
        show.arg(&key).arg(now).arg(self.number);
        let mut count = ::redis::cmd("ZCOUNT");
        count.arg(&key).arg(format!("({since}")).arg("+inf");
        let mut keep = ::redis::cmd("PEXPIRE");
        keep.arg(&key).arg(millis(ALIVE_KEPT));
        let showing = async {
            self.counts.add_many(Counted::Keep, 4);
            let added = self.link.command::<i64>(&show).await?;
            self.link.command::<i64>(&keep).await?;
            let replicas = self.link.command::<u32>(&count).await?;
            Ok((added, replicas))
        };
        let swapping = async {
            match by {
                By::Question => Ok(()),
                By::Keeper => self.try_script().await,
            }
        };
        let asked = async {
            let (shown, ()) = tokio::try_join!(showing, swapping)?;
            Ok(shown)
        };
        let guard = self.guard(0);
        let (added, replicas) = self.guarded(guard, by, Ended::Answered, asked).await?;
        let seen = match added {
            0 => Seen::Before,
            _ => Seen::Anew,
        };
        self.note_replicas(replicas, by, seen);
        let mut forget = ::redis::cmd("ZREMRANGEBYSCORE");
        forget.arg(&key).arg("-inf").arg(since);
        // Who is gone is not counted anyway.
        let forgotten = self.link.command::<i64>(&forget);
        let _ = tokio::time::timeout(self.timing.answer_within, forgotten).await;
        Ok(seen)
    }

    /// Whether the script runs and swaps: a user may have lost the right to that alone.
    async fn try_script(&self) -> ::redis::RedisResult<()> {
        let (place, nobody) = (self.keys.clock(), Some("?".into()));
        let call = |expected, act| Call {
            place: &place,
            expected,
            act,
            epoch: 0,
            shard_kept_for_ms: millis(SHARD_KEPT),
            by: self.number,
            tells: Tells::Nothing,
        };
        self.counts.add(Counted::Look);
        let found = call(&nobody, &Act::Look).run(&self.link).await?;
        if let Outcome::Other { version, bytes } = found.outcome {
            let (version, kept_for_ms) = (Some(version), millis(SHARD_KEPT));
            let same = Act::Put { bytes, kept_for_ms };
            self.counts.add(Counted::Swap);
            call(&version, &same).run(&self.link).await?;
        }
        Ok(())
    }

    /// Where the store was away or has lost who is there, the others show themselves in the next
    /// seconds: until then there are as many as before, or one that is alone again would take the
    /// parts of all.
    fn note_replicas(&self, counted: u32, by: By, seen: Seen) {
        let now = self.clock.own();
        if by == By::Keeper || seen == Seen::Anew {
            self.recounts_from
                .store((now + SHOWN_WITHIN).0, Ordering::Relaxed);
        }
        match now.0 < self.recounts_from.load(Ordering::Relaxed) {
            true => self.replicas.fetch_max(counted, Ordering::Relaxed),
            false => self.replicas.swap(counted, Ordering::Relaxed),
        };
    }

    /// Puts the key of permits where the store has lost it, and renews it.
    async fn keep_key(&self) {
        let key = permit_key(&self.link, &self.keys, self.permit_key);
        // What fails is done again with the next sweep.
        if let Ok(Ok(key)) = tokio::time::timeout(LOOK_EVERY, key).await {
            let is_other = key != self.permit_key;
            self.doubts.note_key(is_other);
            if is_other {
                tracing::error!(
                    "the store has the permit key of another fleet: it was emptied and taken by \
                     others while this replica was away; restart this replica"
                );
            }
        }
    }

    /// Of the shards of a cluster some may be away that nobody asks.
    async fn try_shards(&self) {
        let nobody: Version = Some("?".into());
        for shard in 1..self.guards.len() as u64 {
            if self.guard(shard).is_open() {
                let place = self.keys.record(DependencyId(shard));
                // As with the first.
                let _ = self.ask(&place, &nobody, &Act::Look, 0).await;
            }
        }
    }

    /// At least 1: this one.
    pub fn known_replicas(&self) -> u32 {
        self.replicas.load(Ordering::Relaxed).max(1)
    }

    /// Looks at all records again, and takes what was decided alone into the store: one after the
    /// other, what nobody may do without first, and each replica in another order.
    async fn bring_back(self: &Arc<Self>, seen: Seen) {
        let looks_at_all = self.is_leased() || seen == Seen::Anew;
        let unsent = std::mem::take(&mut *locked(&self.unsent));
        for number in unsent {
            // Where it fails again, it is known here.
            let _ = self.note_number(number, self.clock.now()).await;
        }
        let now = self.clock.now();
        let (mut first, mut others) = (Vec::new(), Vec::new());
        for desk in &self.desks {
            let is_protected =
                (locked(&desk).slot()).is_some_and(|slot| stored::is_protected(&slot.record, now));
            match is_protected {
                true => first.push(*desk.key()),
                false => others.push(*desk.key()),
            }
        }
        for some in [&mut first, &mut others] {
            let from = (self.unit * some.len() as f64) as usize;
            some.sort_unstable_by_key(|id| id.0);
            some.rotate_left(from);
        }
        for id in first.into_iter().chain(others) {
            if self.is_away() {
                return;
            }
            let was_alone = {
                let desk = self.desk(id);
                let mut at = locked(&desk);
                if looks_at_all {
                    // What others told meanwhile is lost, or the record is.
                    at.doubt();
                }
                at.is_alone()
            };
            if was_alone || looks_at_all {
                self.load(id).await;
            }
            if was_alone {
                // What the store has is known now, and is built on.
                self.load(id).await;
            }
            let desk = self.desk(id);
            let mut at = locked(&desk);
            at.put_back(self.clock.now());
            self.dispatch(id, &desk, &mut at);
        }
    }

    async fn keep_number(&self) {
        // Also where the store has lost it.
        let mut command = ::redis::cmd("SET");
        command.arg(self.keys.replica(self.number)).arg(1);
        command.arg("PX").arg(millis(NUMBER_KEPT));
        // It is kept for days, and claimed every hour.
        self.counts.add(Counted::Keep);
        let claimed = self.link.command::<::redis::Value>(&command);
        let _ = tokio::time::timeout(LOOK_EVERY, claimed).await;
    }

    /// Lets a record live on that must not lapse.
    pub async fn renew(&self, id: DependencyId) {
        let mut command = ::redis::cmd("PEXPIRE");
        command
            .arg(self.keys.record(id).record)
            .arg(millis(PROTECTED));
        self.counts.add(Counted::Keep);
        let renewed = self.link.command::<bool>(&command);
        if let Ok(Ok(true)) = tokio::time::timeout(LOOK_EVERY, renewed).await
            && let Some(desk) = self.desks.get(&id)
        {
            locked(&desk).keep_since(self.clock.now());
        }
    }
}

/// A number that no other replica has, from 1: `fresh` or one behind it.
///
/// # Errors
/// The store cannot be reached, or all numbers are taken.
pub async fn replica_number(
    link: &Link,
    keys: &Keys,
    fresh: u64,
) -> Result<u16, ::redis::RedisError> {
    let all = u64::from(REPLICAS_MAX);
    for at in 0..all {
        let number = 1 + (fresh.wrapping_add(at) % all) as u16;
        let mut set = ::redis::cmd("SET");
        set.arg(keys.replica(number)).arg(1).arg("NX");
        set.arg("PX").arg(millis(NUMBER_KEPT));
        if let ::redis::Value::Okay = link.command::<::redis::Value>(&set).await? {
            return Ok(number);
        }
    }
    let what = (
        ::redis::ErrorKind::Client,
        "4,095 replicas have been there in two days",
    );
    Err(::redis::RedisError::from(what))
}

/// As [`permit_key`], for a replica that starts: where there is none and others are there, the store
/// was emptied, and they put theirs back with their next look.
///
/// # Errors
/// As there.
pub async fn first_permit_key(
    link: &Link,
    keys: &Keys,
    fresh: [u8; 16],
) -> Result<[u8; 16], ::redis::RedisError> {
    let mut exists = ::redis::cmd("EXISTS");
    exists.arg(keys.permit_key());
    let mut listens = ::redis::cmd("PUBSUB");
    listens.arg("NUMSUB").arg(keys.told());
    for _ in 0..KEY_TRIES {
        let is_there = link.command::<u32>(&exists).await? > 0;
        // A store that does not tell is taken to be new.
        let listening = link.command::<(String, u32)>(&listens).await;
        if is_there || listening.map_or(true, |(_, many)| many == 0) {
            break;
        }
        tokio::time::sleep(KEY_AGAIN_AFTER).await;
    }
    permit_key(link, keys, fresh).await
}

/// The key of the fleet's permits: the one that was there first. It is kept for another while.
///
/// # Errors
/// The store cannot be reached, or has something else there.
pub async fn permit_key(
    link: &Link,
    keys: &Keys,
    fresh: [u8; 16],
) -> Result<[u8; 16], ::redis::RedisError> {
    let key = keys.permit_key();
    let mut set = ::redis::cmd("SET");
    set.arg(&key).arg(&fresh[..]).arg("NX");
    set.arg("PX").arg(millis(SHARD_KEPT));
    link.command::<::redis::Value>(&set).await?;
    let mut get = ::redis::cmd("GETEX");
    get.arg(&key).arg("PX").arg(millis(SHARD_KEPT));
    let bytes = link.command::<Vec<u8>>(&get).await?;
    <[u8; 16]>::try_from(bytes).map_err(|_| {
        let what = (
            ::redis::ErrorKind::UnexpectedReturnType,
            "the permit key is damaged",
        );
        ::redis::RedisError::from(what)
    })
}

/// What an operator should know of how a store is set up.
pub async fn warnings(link: &Link) -> Vec<String> {
    let mut get = ::redis::cmd("CONFIG");
    get.arg("GET").arg("maxmemory-policy");
    // A store that does not tell is not blamed.
    let Ok(told) = link.command::<Vec<String>>(&get).await else {
        return Vec::new();
    };
    let evicts = told.get(1).filter(|policy| *policy != "noeviction");
    let warning = |policy: &String| {
        format!(
            "the store drops keys when its memory is full (maxmemory-policy {policy}); \
             with noeviction it would refuse writes instead, which is told apart from a \
             dependency that nobody has used"
        )
    };
    evicts.map(warning).into_iter().collect()
}
