//! What a replica does for the store without a caller: it looks at the clock once a second,
//! finds what others have made, and renews what must not lapse.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use holdoff_decision::{Nanos, Time, tickets::REPLICAS_MAX};

use super::{
    Act, Board, Counted, Outcome, PROTECTED, SHARD_KEPT, SHARDS, Shared, StoreError, Version,
    keys::{self, Keys},
    link::Link,
    locked, millis,
};
use crate::{
    clock::fleet::{Kept, Look},
    permit::DependencyId,
};

const LOOK_EVERY: Duration = Duration::from_secs(1);
const SWEEP_EVERY: u32 = 5;
/// Where changes are told with their bytes.
const SWEEP_LEASED_EVERY: u32 = 300;
/// No permit of a replica that is gone lives longer.
const NUMBER_KEPT: Duration = Duration::from_secs(2 * 86_400);
const CLAIM_EVERY: u32 = 3_600;
/// Records that one sweep of one shard loads.
const SWEPT_MAX: usize = 1_000;
/// A sweep begins so long before the last one, since a shard's clock may be stepped.
const OVERLAP: Nanos = Nanos::from_secs(10);

/// Keeps, until the store is no longer used.
pub async fn keep(shared: Weak<Shared>) {
    let mut swept = Time::ORIGIN;
    for round in 0_u32.. {
        let Some(strong) = shared.upgrade() else {
            return;
        };
        // A look that fails is made again in a second; until then the own clock goes on.
        let _ = strong.look_at_clock().await;
        let sweep_every = match strong.is_leased() {
            true => SWEEP_LEASED_EVERY,
            false => SWEEP_EVERY,
        };
        if round % sweep_every == 0 {
            swept = strong.sweep(swept).await;
            strong.counts.add_many(Counted::Keep, 2);
            let key = permit_key(&strong.link, &strong.keys, strong.permit_key);
            match tokio::time::timeout(LOOK_EVERY, key).await {
                Ok(Ok(key)) if key != strong.permit_key => tracing::error!(
                    "the store has the permit key of another fleet: it was emptied and taken by \
                     others while this replica was away; restart this replica"
                ),
                // What fails is done again with the next sweep.
                Ok(_) | Err(_) => {}
            }
        }
        if round % CLAIM_EVERY == CLAIM_EVERY - 1 {
            strong.keep_number(strong.number).await;
            Board::of(&strong).keep_policies().await;
        }
        drop(strong);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

impl Shared {
    /// Looks at the store's clock and keeps what it comes to. False: nobody has kept it before.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn look_at_clock(&self) -> Result<bool, StoreError> {
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
        let bytes = self
            .clock
            .take(&Look {
                sent,
                received,
                store: reply.time,
                kept: kept.unwrap_or_default(),
            })
            .to_bytes();
        let put = Act::Put {
            bytes,
            kept_for_ms: millis(SHARD_KEPT),
        };
        // Who is slower leaves it to the next second.
        self.ask(&place, &version, &put, 0).await?;
        Ok(was_kept)
    }

    /// Loads what has changed in the store since, and says since when to sweep next.
    pub async fn sweep(self: &Arc<Self>, since: Time) -> Time {
        let now = self.clock.now();
        let from = since.0.saturating_sub(OVERLAP.0) / 1_000_000;
        for shard in 0..SHARDS {
            let mut command = ::redis::cmd("ZRANGEBYSCORE");
            command.arg(self.keys.index(shard)).arg(from).arg("+inf");
            command.arg("LIMIT").arg(0).arg(SWEPT_MAX);
            self.counts.add(Counted::Keep);
            let ids = self.link.command::<Vec<String>>(&command);
            let Ok(Ok(ids)) = tokio::time::timeout(LOOK_EVERY, ids).await else {
                return since;
            };
            for id in ids.iter().filter_map(|digits| keys::id_of(digits)) {
                if !self.desks.contains_key(&id) {
                    self.load(id).await;
                }
            }
        }
        now
    }

    /// Takes a copy of one record, for those who list.
    pub(super) async fn load(self: &Arc<Self>, id: DependencyId) {
        let desk = self.desk(id);
        let joined = {
            let mut at = locked(&desk);
            let joined = at.join(|_| Err(StoreError::Unknown), |_| ());
            self.dispatch(id, &desk, &mut at);
            joined
        };
        if let Ok(joined) = joined {
            // What came of it is at the desk.
            let _ = joined.landing.await;
        }
    }

    async fn keep_number(&self, number: u16) {
        let mut command = ::redis::cmd("PEXPIRE");
        command
            .arg(self.keys.replica(number))
            .arg(millis(NUMBER_KEPT));
        // It is kept for days, and claimed every hour.
        self.counts.add(Counted::Keep);
        let claimed = self.link.command::<bool>(&command);
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
