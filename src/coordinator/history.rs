//! How a dependency has been lately: a point each five seconds for ten minutes, kept only of
//! those that somebody looks at and those that got into trouble.
//!
//! At most [`FOLLOWED_MAX`] of them, of a fixed size each, so all of it is less than 16 MB; the
//! one that nobody has looked at for longest goes. The counts between two points are those of
//! [`Traffic`], which begin when a dependency is first followed.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use holdoff_decision::{Nanos, State, Time};
use tokio::{
    sync::broadcast::error::RecvError,
    time::{MissedTickBehavior, interval},
};

use super::{Coordinator, Event, EventKind, Followed, Key, Reporter, Shown, Traffic};
use crate::store::Store;

pub const POINT_EVERY: Nanos = Nanos::from_secs(5);
/// Ten minutes, and where they begin.
const POINTS_MAX: usize = 121;
const FOLLOWED_MAX: usize = 256;
/// What nobody has looked at, and what was in no trouble, for so long is forgotten.
const KEPT_FOR: Nanos = Nanos::from_secs(600);

/// A dependency at one time, and what was counted until then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub at: Time,
    pub state: State,
    pub failing: f32,
    pub slow: f32,
    pub calls: f32,
    pub left: u32,
    pub allowed: u32,
    pub planned: u32,
    pub traffic: Traffic,
}

/// What was counted of one dependency.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    pub since: Time,
    pub traffic: Traffic,
    /// The latest first.
    pub reporters: Vec<Reporter>,
}

/// All that are kept.
#[derive(Debug, Default)]
pub struct Histories {
    kept: Mutex<HashMap<Full, History>>,
}

/// Namespace and name.
type Full = (String, String);

#[derive(Debug)]
struct History {
    points: VecDeque<Point>,
    followed: Arc<Followed>,
    since: Time,
    /// When somebody looked at it, or it was in trouble.
    wanted: Time,
}

impl Histories {
    /// Takes a point of each that is followed, each five seconds, for ever.
    pub async fn keep<S: Store>(&self, coordinator: &Coordinator<S>) {
        let mut seconds = interval(POINT_EVERY.into());
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (_, mut events) = coordinator.events().listen(|_| false);
        loop {
            tokio::select! {
                _ = seconds.tick() => self.take_points(coordinator).await,
                event = events.recv() => match event {
                    Ok(event) if is_trouble(&event) => self.follow_event(coordinator, &event),
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    // Only at the end of the process.
                    Err(RecvError::Closed) => tokio::time::sleep(Duration::from_secs(60)).await,
                },
            }
        }
    }

    /// Follows a dependency for as long as it is wanted again and again.
    pub fn want<S: Store>(&self, coordinator: &Coordinator<S>, key: Key<'_>) {
        let now = coordinator.now();
        let mut kept = self.locked();
        let full = (key.namespace.to_owned(), key.dependency.to_owned());
        if let Some(history) = kept.get_mut(&full) {
            history.wanted = now;
            return;
        }
        if kept.len() >= FOLLOWED_MAX {
            let oldest = kept.iter().min_by_key(|(_, history)| history.wanted);
            if let Some(full) = oldest.map(|(full, _)| full.clone()) {
                forget(&mut kept, &full, coordinator);
            }
        }
        let history = History {
            points: VecDeque::new(),
            followed: coordinator.follow_traffic(key),
            since: now,
            wanted: now,
        };
        kept.insert(full, history);
    }

    /// Takes a point of each, and forgets those that are not wanted any more.
    pub async fn take_points<S: Store>(&self, coordinator: &Coordinator<S>) {
        let names: Vec<Full> = self.locked().keys().cloned().collect();
        for full in names {
            let key = key(&full);
            let shown = coordinator.glimpse(key).await.ok();
            let now = coordinator.now();
            let mut kept = self.locked();
            let Some(history) = kept.get_mut(&full) else {
                continue;
            };
            if let Some(shown) = &shown {
                if shown.view.state != State::Closed || shown.view.held_for.is_some() {
                    history.wanted = now;
                }
                let point = Point::of(shown, history.followed.traffic());
                history.points.push_back(point);
                if history.points.len() > POINTS_MAX {
                    history.points.pop_front();
                }
            }
            if now.since(history.wanted) > KEPT_FOR {
                forget(&mut kept, &full, coordinator);
            }
        }
    }

    /// Oldest first; none where it is not followed.
    pub fn points(&self, key: Key<'_>) -> Vec<Point> {
        let full = (key.namespace.to_owned(), key.dependency.to_owned());
        let kept = self.locked();
        kept.get(&full)
            .map_or_else(Vec::new, |history| history.points.iter().copied().collect())
    }

    /// What was counted so far, and of whom.
    pub fn counted(&self, key: Key<'_>) -> Option<Counted> {
        let full = (key.namespace.to_owned(), key.dependency.to_owned());
        let (since, followed) = {
            let kept = self.locked();
            let history = kept.get(&full)?;
            (history.since, Arc::clone(&history.followed))
        };
        Some(Counted {
            since,
            traffic: followed.traffic(),
            reporters: followed.reporters(),
        })
    }

    fn follow_event<S: Store>(&self, coordinator: &Coordinator<S>, event: &Event) {
        let key = Key {
            namespace: &event.namespace,
            dependency: &event.dependency,
        };
        self.want(coordinator, key);
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Full, History>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Point {
    fn of(shown: &Shown, traffic: Traffic) -> Self {
        let view = &shown.view;
        let whole = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            at: shown.now,
            state: view.state,
            failing: shown.failing().unwrap_or_default() as f32,
            slow: shown.slow().unwrap_or_default() as f32,
            calls: shown.calls_per_second() as f32,
            left: whole(view.budget.left()),
            allowed: whole(view.budget.allowed),
            planned: whole(view.planned),
            traffic,
        }
    }
}

fn forget<S: Store>(kept: &mut HashMap<Full, History>, full: &Full, coordinator: &Coordinator<S>) {
    kept.remove(full);
    coordinator.unfollow_traffic(key(full));
}

fn key(full: &Full) -> Key<'_> {
    Key {
        namespace: &full.0,
        dependency: &full.1,
    }
}

/// A dependency that this happened to is worth a look.
fn is_trouble(event: &Event) -> bool {
    match event.kind {
        EventKind::Tripped
        | EventKind::Reopened
        | EventKind::OverrideSet
        | EventKind::Held
        | EventKind::CallerRefused
        | EventKind::CheckUnhealthy => !event.dependency.is_empty(),
        EventKind::Probing
        | EventKind::Recovered
        | EventKind::OverrideCleared
        | EventKind::OverrideExpired
        | EventKind::Reset
        | EventKind::HoldCleared
        | EventKind::PolicyPut
        | EventKind::PolicyDeleted
        | EventKind::PoliciesReloaded
        | EventKind::PoliciesRefused
        | EventKind::ShadowTripped
        | EventKind::Started
        | EventKind::CallerRecovered
        | EventKind::RampEnded
        | EventKind::CheckHealthy
        | EventKind::CandidatePut
        | EventKind::CandidateDropped
        | EventKind::CandidatePromoted
        | EventKind::CandidateTripped
        | EventKind::StoreAway
        | EventKind::StoreBack => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::{
        clock::Clock,
        coordinator::{Actor, Parts},
        durable::{Durable, PermitKey, Start},
        entropy::Entropy,
        store::MemoryStore,
    };

    #[test]
    fn all_histories_together_are_less_than_sixteen_megabytes() {
        let points = size_of::<Point>() * POINTS_MAX.next_power_of_two();
        assert!(points * FOLLOWED_MAX < 16 << 20, "{points} bytes each");
    }

    #[tokio::test]
    async fn so_many_are_followed_at_most_and_what_nobody_wants_is_forgotten() {
        let (clock, handle) = Clock::manual(Time(1_700_000_000_000_000_000));
        let start = Start {
            wall_now: clock.wall(),
            fresh_permit_key: PermitKey([7; 16]),
        };
        let parts = Parts {
            store: MemoryStore::default(),
            clock,
            entropy: Entropy::seeded(1),
            opened: Durable::in_memory(start),
        };
        let coordinator = Coordinator::start(parts, Vec::new()).await.unwrap();
        let coordinator = coordinator.coordinator;
        let histories = Histories::default();
        let names: Vec<String> = (0..=FOLLOWED_MAX).map(|at| format!("d{at}")).collect();
        let key = |name| Key {
            namespace: "default",
            dependency: name,
        };
        for name in &names {
            handle.fetch_add(1, Ordering::Relaxed);
            histories.want(&coordinator, key(name));
        }
        assert_eq!(histories.locked().len(), FOLLOWED_MAX);
        assert!(histories.counted(key("d0")).is_none(), "the oldest went");
        let order = Actor {
            owner: "ana",
            reason: "why",
        };
        let kind = holdoff_decision::record::OverrideKind::ForceOpen;
        let forced = coordinator.set_override(key("d1"), kind, order, None);
        forced.await.unwrap();
        for _ in 0..=POINTS_MAX {
            handle.fetch_add(POINT_EVERY.0, Ordering::Relaxed);
            histories.take_points(&coordinator).await;
        }
        assert_eq!(histories.points(key("d1")).len(), POINTS_MAX);
        assert_eq!(
            histories.locked().len(),
            1,
            "only what is in trouble is left"
        );
    }
}
