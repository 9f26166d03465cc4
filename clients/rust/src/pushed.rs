//! The state that the service pushes: what to do with first attempts, and what to keep to
//! when it is away.
//!
//! The service says what a first attempt does (go, ask, refuse) and for how long that may be
//! relied on; the client obeys and derives nothing from the state of the breaker. What is
//! unknown, unsaid or out of range is "ask". Nothing is forgotten when a session breaks, nor
//! when a dependency is called no longer: what was said holds to its own end, and the policy
//! for as long as the client lives. Only where there are too many do those that are not called
//! make room.
//!
//! | part | |
//! |---|---|
//! | [`update`] | reading one update, strictly |
//! | [`policy`] | reading the policy and the allowance in it |

pub(crate) mod policy;
mod update;

use std::{
    collections::HashMap,
    sync::{
        Arc, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use holdoff_decision::{Nanos, Policy, Time};
use tokio::sync::{Notify, futures::Notified};

use self::update::Heard;
use crate::{
    clock::Clock,
    denied::{DenialReason, Denied, DeniedBy},
    local::Policies,
    proto,
};

/// A client subscribes to what it calls; more than this was not asked for.
const DEPENDENCIES_MAX: usize = 10_000;
const NAME_BYTES_MAX: usize = 200;
/// A dependency that was not called for so long is followed no longer.
const IDLE: Nanos = Nanos::from_secs(600);

#[derive(Debug)]
pub(crate) struct Pushed {
    clock: Clock,
    /// Where the service says nothing, or nothing that can be.
    base: Policy,
    /// Wanted from the beginning.
    wished: Vec<String>,
    heard: RwLock<HashMap<Arc<str>, Entry>>,
    tripped: Notify,
    /// A dependency is heard of for the first time.
    appeared: Notify,
}

#[derive(Debug)]
struct Entry {
    heard: Heard,
    /// The last question about it, as a [`Time`].
    used: AtomicU64,
    /// It was left when this was its last question.
    left: Option<Time>,
}

/// What to do with a first attempt.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Word {
    /// Make it, without a permit.
    Go(OnState),
    Refuse(Denied),
    Ask,
}

/// The state that an attempt was made on, without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnState {
    pub(crate) epoch: u64,
    /// Zero: no call is slow.
    pub(crate) slow_after: Nanos,
}

/// What is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sought {
    First,
    /// A retry or a hedge.
    Extra,
}

/// What a process on its own keeps to.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) policies: Arc<Policies>,
    /// When the service last let first attempts go.
    pub(crate) let_go_at: Option<Time>,
}

impl Pushed {
    pub(crate) fn new(clock: Clock, base: Policy, wished: Vec<String>) -> Self {
        Self {
            clock,
            base,
            wished,
            heard: RwLock::default(),
            tripped: Notify::new(),
            appeared: Notify::new(),
        }
    }

    pub(crate) fn store(&self, update: proto::Update) {
        if update.dependency.len() > NAME_BYTES_MAX {
            return;
        }
        let now = self.clock.time();
        let mut entries = self.write();
        let is_new = !entries.contains_key(&*update.dependency);
        if is_new && entries.len() >= DEPENDENCIES_MAX {
            entries.retain(|name, entry| now.since(entry.used()) < IDLE || self.is_wished(name));
            if entries.len() >= DEPENDENCIES_MAX {
                return;
            }
        }
        let before = entries.get(&*update.dependency).map(|entry| &entry.heard);
        let heard = Heard::read(&update, before, &self.base, now);
        let says = |heard: &Heard| (heard.is_open(), heard.refuses(), heard.epoch);
        let has_tripped = heard.refuses() && before.map(says) != Some(says(&heard));
        match entries.get_mut(&*update.dependency) {
            Some(entry) => {
                entry.heard = heard;
                entry.left = None;
            }
            None => {
                let used = AtomicU64::new(now.0);
                let entry = Entry {
                    heard,
                    used,
                    left: None,
                };
                entries.insert(update.dependency.into(), entry);
            }
        }
        drop(entries);
        if has_tripped {
            self.tripped.notify_waiters();
        }
        if is_new {
            self.appeared.notify_waiters();
        }
    }

    /// Returns when something was said about all that is wanted from the beginning.
    pub(crate) async fn heard_all_wished(&self) {
        loop {
            let mut appeared = std::pin::pin!(self.appeared.notified());
            appeared.as_mut().enable();
            let has_all = {
                let entries = self.read();
                self.wished.iter().all(|name| entries.contains_key(&**name))
            };
            if has_all {
                return;
            }
            appeared.await;
        }
    }

    /// What the service says about a first attempt now.
    pub(crate) fn word(&self, dependency: &str) -> Word {
        let entries = self.read();
        let Some(entry) = entries.get(dependency) else {
            return Word::Ask;
        };
        let now = self.clock.time();
        entry.used.store(now.0, Relaxed);
        let heard = &entry.heard;
        if now >= heard.valid_until {
            return Word::Ask;
        }
        match heard.first_attempts {
            proto::FirstAttempts::Go => Word::Go(heard.on_state()),
            proto::FirstAttempts::Refuse => Word::Refuse(heard.denied(now)),
            proto::FirstAttempts::Ask | proto::FirstAttempts::Unspecified => Word::Ask,
        }
    }

    /// Resolves when the service next refuses all of anything; to be made before
    /// [`Self::tripped_since`] or [`Self::refused_since`] is looked at.
    pub(crate) fn trip(&self) -> Notified<'_> {
        self.tripped.notified()
    }

    /// Why an attempt granted in `epoch` may not be made any more. `None`: the service has
    /// not said so, or not said it validly.
    pub(crate) fn tripped_since(
        &self,
        dependency: &str,
        epoch: u64,
        attempt: u32,
    ) -> Option<Denied> {
        let entries = self.read();
        let heard = &entries.get(dependency)?.heard;
        let now = self.clock.time();
        let binds = attempt > 1 || heard.first_attempts == proto::FirstAttempts::Refuse;
        let has_tripped = heard.is_open() && heard.epoch > epoch && now < heard.valid_until;
        (has_tripped && binds).then(|| heard.denied(now))
    }

    /// Why there is no retry of an attempt made on the state of `epoch`. `None`: the service
    /// has not said so since, or not said it validly.
    pub(crate) fn refused_since(&self, dependency: &str, epoch: u64) -> Option<Denied> {
        let entries = self.read();
        let heard = &entries.get(dependency)?.heard;
        let now = self.clock.time();
        let is_later = heard.epoch > epoch && now < heard.valid_until;
        (heard.refuses() && is_later).then(|| heard.denied(now))
    }

    /// Why a question that the service does not answer is denied all the same: what it said
    /// before still stands. `since`: only what was said in this epoch or later counts. `None`:
    /// this process decides.
    pub(crate) fn refused_alone(
        &self,
        dependency: &str,
        sought: Sought,
        since: Option<u64>,
    ) -> Option<Denied> {
        let entries = self.read();
        let heard = &entries.get(dependency)?.heard;
        let now = self.clock.time();
        let stands = now < heard.valid_until && since.is_none_or(|epoch| heard.epoch >= epoch);
        let is_let_go = match sought {
            Sought::First => heard.first_attempts == proto::FirstAttempts::Go,
            Sought::Extra => false,
        };
        (stands && heard.refuses() && !is_let_go).then(|| heard.denied(now))
    }

    /// How many clients the fleet had when the service last said so; 0: it has not.
    pub(crate) fn known_clients(&self, dependency: &str) -> u32 {
        let entries = self.read();
        entries
            .get(dependency)
            .map_or(0, |entry| entry.heard.known_clients())
    }

    /// Whether the service is known to stand by what it granted in `epoch`.
    pub(crate) fn stands_by(&self, dependency: &str, epoch: u64) -> bool {
        let entries = self.read();
        entries.get(dependency).is_some_and(|entry| {
            let heard = &entry.heard;
            heard.is_closed()
                && heard.epoch == epoch
                && heard.first_attempts != proto::FirstAttempts::Refuse
                && self.clock.time() < heard.valid_until
        })
    }

    /// The state last heard of, valid or not.
    pub(crate) fn last(&self, dependency: &str) -> Option<OnState> {
        let entries = self.read();
        entries.get(dependency).map(|entry| entry.heard.on_state())
    }

    /// What was last said to be kept to.
    pub(crate) fn kept(&self, dependency: &str) -> Option<Kept> {
        let entries = self.read();
        entries.get(dependency).map(|entry| Kept {
            policies: Arc::clone(&entry.heard.policies),
            let_go_at: entry.heard.let_go_at,
        })
    }

    /// What a new session subscribes to.
    pub(crate) fn followed(&self) -> Vec<String> {
        let now = self.clock.time();
        let entries = self.read();
        let mut names = self.wished.clone();
        let in_use = entries
            .iter()
            .filter(|(_, entry)| now.since(entry.used()) < IDLE)
            .map(|(name, _)| name.to_string());
        names.extend(in_use);
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What is called no longer, unless it was wanted from the beginning; each once.
    pub(crate) fn leave_idle(&self) -> Vec<String> {
        let now = self.clock.time();
        let mut entries = self.write();
        let mut idle = Vec::new();
        for (name, entry) in entries.iter_mut() {
            let used = entry.used();
            if now.since(used) >= IDLE && entry.left != Some(used) && !self.is_wished(name) {
                entry.left = Some(used);
                idle.push(name.to_string());
            }
        }
        idle
    }

    fn is_wished(&self, name: &str) -> bool {
        self.wished.iter().any(|wished| wished == name)
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<Arc<str>, Entry>> {
        self.heard
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Arc<str>, Entry>> {
        self.heard
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Entry {
    fn used(&self) -> Time {
        Time(self.used.load(Relaxed))
    }
}

impl Heard {
    fn on_state(&self) -> OnState {
        OnState {
            epoch: self.epoch,
            slow_after: self.slow_after,
        }
    }

    /// A refusal that nobody explains otherwise is a hold.
    fn denied(&self, now: Time) -> Denied {
        let reason = match self.state {
            proto::BreakerState::Open => DenialReason::BreakerOpen,
            proto::BreakerState::ForcedOpen => DenialReason::ForcedOpen,
            proto::BreakerState::Unspecified
            | proto::BreakerState::Closed
            | proto::BreakerState::HalfOpen
            | proto::BreakerState::Recovering
            | proto::BreakerState::ForcedClosed => DenialReason::Held,
        };
        let left = now.until(self.valid_until);
        let detail = format!("as pushed to this client; ask again in {left}");
        Denied::new(DeniedBy::Fleet, reason, detail).after(Some(Duration::from(left)))
    }
}

#[cfg(test)]
mod tests;
