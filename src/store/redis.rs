//! The records in Valkey or Redis, so that any number of replicas act as one.
//!
//! The rules stay here; the store has one verb (`swap.lua`), a compare-and-swap. Each replica
//! keeps a copy of what it uses (`desk`). On the *strict* path rules are rehearsed on it; what they
//! made of it is swapped in by whoever was first, and the others begin again with that. On the
//! *leased* path what needs no other replica is decided on the copy in place (`decide`); what is
//! shared of it is swapped, and the rest is told (`feed`). While the store does not answer
//! (`guard`), each replica decides alone from its copies, and what happened then is taken into the
//! store when it is back (`desk::alone`).
//!
//! Flights run on the runtime that connected, not on their callers': a caller that hangs up
//! ends no swap that others wait for.

pub mod address;
mod asking;
mod board;
mod count;
mod counted;
mod decide;
mod desk;
mod doubts;
mod evict;
mod feed;
mod flight;
mod guard;
pub mod here;
mod keeper;
mod keys;
mod link;
mod numbers;
mod script;
mod sweep;

use std::{
    hash::BuildHasherDefault,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64},
    },
    time::Duration,
};

use dashmap::DashMap;
use holdoff_decision::{Reach, Time};
use tokio::runtime::Handle;

pub use self::{
    address::Address,
    board::{Board, Enrolled, Put, Swapped},
};
use self::{
    asking::patiently,
    board::News,
    count::Count,
    counted::{Counted, Counts},
    desk::{Departure, Desk, Joined, Landing, Lifetimes, Path},
    doubts::Doubts,
    feed::{Feed, Source},
    guard::{By, Ended, Guard, Pass, Triers},
    here::Here,
    keeper::Looked,
    keys::{Keys, SHARDS},
    link::Link,
    numbers::Untaken,
    script::{Act, Call, Outcome, Reply, Tells},
};
use super::{
    Figures, Name, Numbered, Seed, Slot, Standing, Store, StoreError, Told, memory::AlreadyUniform,
};
use crate::{clock::FleetClock, permit::DependencyId};
pub use script::Version;

/// How it begins why a store was not asked.
const NOT_ASKED: &str = "it was not asked";
/// Enough that two cores rarely meet in one.
const DESKS_SHARDS: usize = 256;
/// Swaps that one rule may lose before it is refused.
const TRIES: u32 = 100;
/// Records that nobody drops are renewed long before it, by every replica that knows them.
const PROTECTED: Duration = Duration::from_secs(7 * 86_400);
/// Longer than any permit lives.
const SHARD_KEPT: Duration = Duration::from_secs(30 * 86_400);
/// Report numbers of an instance that is silent.
const SEQUENCE_KEPT: Duration = Duration::from_secs(3_600);
/// Numbers of reports that wait for the store; the others are known here alone.
const UNSENT_MAX: usize = 4_096;

/// How a store is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// One command; then it is taken not to answer.
    pub answer_within: Duration,
    /// How long an idle record stays if nobody drops it.
    pub kept_for: Duration,
    /// On the leased path, from one swap of a record to the next of the same replica. A retry
    /// waits for its backoff anyway; a probe does not wait.
    pub grouped_for: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            answer_within: Duration::from_millis(50),
            kept_for: Duration::from_secs(1_800),
            grouped_for: Duration::from_millis(20),
        }
    }
}

/// See the module. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RedisStore {
    shared: Arc<Shared>,
}

type Desks = DashMap<DependencyId, Arc<Mutex<Desk>>, BuildHasherDefault<AlreadyUniform>>;

#[derive(Debug)]
struct Shared {
    link: Link,
    keys: Keys,
    timing: Timing,
    clock: Arc<FleetClock>,
    /// One; in a cluster one a shard, since its masters fail alone.
    guards: Vec<Guard>,
    /// Replicas that are there, this one included; 0: not known yet.
    replicas: AtomicU32,
    /// Before this, by the own clock, they may be more than the store has counted.
    recounts_from: AtomicU64,
    /// Every name that the store had was loaded; later ones are told.
    knows_names: AtomicBool,
    /// Of all that was heard of: a name that begins here goes on above it.
    highest_epoch: AtomicU64,
    /// Numbers of reports that were noted while the store was away.
    unsent: Mutex<Vec<(u64, u64)>>,
    /// Its own, in [0, 1): spreads what all replicas do.
    unit: f64,
    desks: Desks,
    count: Count,
    counts: Counts,
    home: Handle,
    permit_key: [u8; 16],
    was_empty: bool,
    /// As the clock's record says; 0: not known.
    begun: AtomicU64,
    path: Path,
    /// Of this replica, from 1.
    number: u16,
    /// Of this run of it.
    run: u64,
    feed: Feed,
    doubts: Doubts,
    untaken: Untaken,
    told: OnceLock<Told>,
    news: News,
    /// As they were at the start.
    policies: OnceLock<Put>,
}

/// How decisions are made over a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Decisions {
    /// First attempts and reports in each replica's memory; the store is asked where the
    /// fleet must agree
    #[default]
    Leased,
    /// Each is swapped into the store before it is told
    Strict,
}

impl RedisStore {
    /// Connects, looks at the store's clock, and begins to keep what must not lapse. Must be
    /// called on the runtime that the store is to live on.
    ///
    /// # Errors
    /// In plain words, and without the password: why there is no store to be had.
    pub async fn connect(
        address: &Address,
        timing: Timing,
        decisions: Decisions,
        fresh_permit_key: [u8; 16],
    ) -> Result<Self, String> {
        let clock = FleetClock::new();
        Self::connect_by(clock, address, timing, decisions, fresh_permit_key).await
    }

    /// As [`Self::connect`], by this clock.
    ///
    /// # Errors
    /// As there.
    pub async fn connect_by(
        clock: FleetClock,
        address: &Address,
        timing: Timing,
        decisions: Decisions,
        fresh_permit_key: [u8; 16],
    ) -> Result<Self, String> {
        let opened = tokio::time::timeout(2 * link::CONNECT_WITHIN, Link::open(address)).await;
        let link = opened
            .map_err(|_| format!("the store {address} does not answer{}", address.hint()))?
            .map_err(|error| format!("the store {address}: {error}{}", address.hint()))?;
        let clock = Arc::new(clock);
        let source = Source::Server(address.clone());
        Self::begin(link, source, clock, timing, decisions, fresh_permit_key).await
    }

    /// Over a store in this process, by the runtime's clock.
    ///
    /// # Errors
    /// Never yet.
    pub async fn over(
        here: &Arc<Here>,
        timing: Timing,
        decisions: Decisions,
        fresh_permit_key: [u8; 16],
    ) -> Result<Self, String> {
        let clock = Arc::new(FleetClock::of_runtime());
        let source = Source::Here(Arc::clone(here));
        let link = Link::Here(Arc::clone(here));
        Self::begin(link, source, clock, timing, decisions, fresh_permit_key).await
    }

    async fn begin(
        link: Link,
        source: Source,
        clock: Arc<FleetClock>,
        timing: Timing,
        decisions: Decisions,
        fresh_permit_key: [u8; 16],
    ) -> Result<Self, String> {
        let failed = |error: ::redis::RedisError| format!("the store {source}: {error}");
        let keys = Keys::new(source.prefix(), source.database());
        let permit_key = keeper::first_permit_key(&link, &keys, fresh_permit_key).await;
        // A place to begin at; the store tells which number is free.
        let (first_half, second_half) = halves(fresh_permit_key);
        let fresh = u64::from_le_bytes(first_half);
        let number = keeper::replica_number(&link, &keys, fresh).await;
        let number = number.map_err(failed)?;
        let path = match decisions {
            Decisions::Strict => Path::Strict,
            Decisions::Leased => Path::Leased(number),
        };
        let unit = (fresh >> 11) as f64 / (1_u64 << 53) as f64;
        let now = clock.own();
        let mut shared = Shared {
            permit_key: permit_key.map_err(failed)?,
            link,
            keys,
            timing,
            guards: match source.is_cluster() {
                true => (0..SHARDS)
                    .map(|_| Guard::new(Triers::All, unit, now))
                    .collect(),
                false => vec![Guard::new(Triers::Keeper, unit, now)],
            },
            replicas: AtomicU32::new(0),
            recounts_from: AtomicU64::new(0),
            knows_names: AtomicBool::new(false),
            highest_epoch: AtomicU64::new(0),
            unsent: Mutex::default(),
            unit,
            clock,
            desks: DashMap::with_hasher_and_shard_amount(Default::default(), DESKS_SHARDS),
            count: Count::default(),
            counts: Counts::default(),
            home: Handle::current(),
            was_empty: false,
            begun: AtomicU64::new(0),
            feed: Feed::new(number),
            doubts: Doubts::new(now),
            untaken: Untaken::default(),
            path,
            number,
            run: u64::from_le_bytes(second_half),
            told: OnceLock::new(),
            news: News::default(),
            policies: OnceLock::new(),
        };
        let first = patiently(|| Box::pin(shared.look_at_clock())).await;
        let first = first.map_err(|error| format!("the store {source}: {error}"))?;
        shared.was_empty = first == Looked::Emptied;
        let shown = patiently(|| Box::pin(shared.show_oneself(By::Question))).await;
        shown.map_err(|error| format!("the store {source}: {error}"))?;
        let shared = Arc::new(shared);
        tokio::spawn(keeper::keep(Arc::downgrade(&shared)));
        let heard = feed::follow(&shared, source.clone()).await;
        heard.map_err(failed)?;
        // Followed first: what is put from here on is told.
        let board = Board::of(&shared);
        let put = patiently(|| Box::pin(board.policies())).await;
        let put = put.map_err(|error| format!("the store {source}: {error}"))?;
        let _ = shared.policies.set(put);
        Ok(Self { shared })
    }

    /// That of the whole fleet.
    pub fn clock(&self) -> Arc<FleetClock> {
        Arc::clone(&self.shared.clock)
    }

    /// That of the whole fleet.
    pub fn permit_key(&self) -> [u8; 16] {
        self.shared.permit_key
    }

    /// Whether the store did not answer lately: for any of its shards.
    pub fn is_away(&self) -> bool {
        self.shared.is_away()
    }

    /// What an operator should know of how the store is set up.
    pub async fn warnings(&self) -> Vec<String> {
        keeper::warnings(&self.shared.link).await
    }
}

impl Shared {
    fn desk(&self, id: DependencyId) -> Arc<Mutex<Desk>> {
        if let Some(desk) = self.desks.get(&id) {
            return Arc::clone(&desk);
        }
        let new = || Arc::new(Mutex::new(Desk::new(self.path)));
        Arc::clone(&self.desks.entry(id).or_insert_with(new))
    }

    fn is_leased(&self) -> bool {
        match self.path {
            Path::Leased(_) => true,
            Path::Strict => false,
        }
    }

    /// Tells this replica's followers what others have done, or what nobody waited for.
    fn tell_news(&self, id: DependencyId, at: &mut Desk) {
        if at.take_news()
            && let (Some(Told(told)), Some(slot)) = (self.told.get(), at.slot_mut())
        {
            told(id, slot);
        }
    }

    fn keep_sequence(&self, number: (u64, u64)) {
        let mut unsent = locked(&self.unsent);
        if unsent.len() < UNSENT_MAX {
            unsent.push(number);
        }
    }

    fn lifetimes(&self) -> Lifetimes {
        Lifetimes {
            usual_ms: millis(self.timing.kept_for),
            protected_ms: millis(PROTECTED),
        }
    }
}

impl Store for RedisStore {
    fn transact<R: Send>(
        &self,
        id: DependencyId,
        namespace: &str,
        seed: impl FnOnce(u64) -> Result<Seed, StoreError> + Send,
        reach: impl Fn(&Slot) -> Reach + Send,
        rule: impl FnMut(&mut Slot) -> R + Send,
    ) -> impl Future<Output = Result<R, StoreError>> + Send {
        self.decide(id, namespace, seed, reach, rule)
    }

    async fn note_sequence(
        &self,
        instance: u64,
        sequence: u64,
        now: Time,
    ) -> Result<bool, StoreError> {
        if self.shared.is_leased() {
            return Ok(self.shared.feed.note_sequence(instance, sequence, now));
        }
        let there = self.shared.note_number((instance, sequence), now).await;
        let feed = &self.shared.feed;
        let is_new = there != Ok(false) && feed.note_sequence(instance, sequence, now);
        if is_new && there.is_err() {
            // Alone; the store is told when it is back.
            self.shared.keep_sequence((instance, sequence));
        }
        Ok(is_new)
    }

    fn end_sequence(&self, instance: u64, sequence: u64, ended: Numbered) {
        let (shared, number) = (&self.shared, (instance, sequence));
        match (shared.is_leased(), ended) {
            (true, _) => shared.feed.end_sequence(instance, sequence, ended),
            (false, Numbered::Taken) => {}
            (false, Numbered::NotTaken) => {
                shared.feed.end_sequence(instance, sequence, ended);
                locked(&shared.unsent).retain(|unsent| *unsent != number);
                shared.take_back(number);
            }
        }
    }

    fn tell(&self, told: Told) {
        // The first who asked is the coordinator of this store.
        let _ = self.shared.told.set(told);
    }

    fn standing(&self) -> Option<Standing> {
        Some(Standing {
            is_away: self.shared.is_away(),
            replicas: self.shared.known_replicas(),
        })
    }

    fn troubles(&self) -> Vec<&'static str> {
        self.shared.troubles()
    }

    async fn confirm(&self) -> Result<(), StoreError> {
        self.shared.show_oneself(By::Question).await.map(drop)
    }

    fn remembers(&self) -> bool {
        !self.shared.was_empty
    }

    /// Shows the copies of this replica: what it uses, and what a sweep has found.
    fn visit(&self, visit: &mut dyn FnMut(DependencyId, &Slot)) {
        for desk in &self.shared.desks {
            if let Some(slot) = locked(&desk).slot() {
                visit(*desk.key(), slot);
            }
        }
    }

    /// Asks the store to drop them, unless somebody has used them meanwhile; and renews those
    /// that must not lapse.
    fn evict(&self, droppable: &mut dyn FnMut(&Slot) -> bool) -> Vec<Name> {
        self.shared.evict(droppable)
    }

    fn len(&self) -> usize {
        self.shared.count.all()
    }

    fn board(&self) -> Option<Board> {
        Some(Board::of(&self.shared))
    }

    fn figures(&self) -> Figures {
        Figures {
            copies: self.shared.desks.len() as u64,
            is_away: self.is_away(),
            ..self.shared.counts.read()
        }
    }
}

fn halves(bytes: [u8; 16]) -> ([u8; 8], [u8; 8]) {
    let (mut first, mut second) = ([0; 8], [0; 8]);
    first.copy_from_slice(&bytes[..8]);
    second.copy_from_slice(&bytes[8..]);
    (first, second)
}

fn locked<T>(desk: &Mutex<T>) -> MutexGuard<'_, T> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
