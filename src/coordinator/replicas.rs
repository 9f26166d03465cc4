//! The replicas that share a store: who is there, and how each is doing as it sees it itself.
//!
//! Each tells of itself every few seconds. One that is silent is shown as such for a while, since
//! that is the first sign of most troubles, and then forgotten.

use std::{
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use holdoff_decision::{Nanos, Time};
use serde::{Deserialize, Serialize};

use super::Coordinator;
use crate::store::{
    Store,
    redis::{Board, Enrolled},
};

const TELL_EVERY: Duration = Duration::from_secs(3);
/// Policies that others have put are told; this finds what was not heard.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const SILENT_AFTER: Nanos = Nanos::from_secs(10);
const FORGOTTEN_AFTER: Nanos = Nanos::from_secs(60);

/// What does not change while a replica runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct About {
    /// The machine and the port.
    pub name: String,
    /// Where gRPC listens.
    pub address: String,
    /// Where the dashboard is; empty: nowhere.
    #[serde(default)]
    pub http: String,
    pub version: String,
    /// How it decides: `memory`, `strict` or `leased`.
    pub decisions: String,
}

/// A replica as it was seen last.
#[derive(Clone, Debug, PartialEq)]
pub struct Replica {
    /// 0 where no store is shared.
    pub number: u16,
    pub about: About,
    /// Since when it runs.
    pub since: SystemTime,
    pub seen_ago: Nanos,
    /// What is wrong, in plain words; empty: nothing is.
    pub troubles: Vec<String>,
    /// Of the policies that were put, as it has them.
    pub policies: u64,
    /// Whether it is the one that answers.
    pub is_here: bool,
}

#[derive(Deserialize, Serialize)]
struct Written {
    about: About,
    since_ms: u64,
    seen_ns: u64,
    troubles: Vec<String>,
    policies: u64,
}

/// What a replica knows of all of them.
#[derive(Debug, Default)]
pub struct Replicas {
    about: OnceLock<(About, SystemTime)>,
    /// As the store had them last.
    seen: Mutex<Vec<Enrolled>>,
}

impl<S: Store> Coordinator<S> {
    /// Says what this replica is, once.
    pub fn introduce_replica(&self, about: About) {
        // The first word stands.
        let _ = self.replicas.about.set((about, self.clock.wall()));
    }

    /// All replicas that were seen lately, this one first.
    pub async fn replicas(&self) -> Vec<Replica> {
        if let Some(board) = self.store.board()
            && let Ok(roll) = board.roll().await
        {
            *self.seen() = roll;
        }
        self.replicas_seen()
    }

    /// The same, as of the last look at the store.
    pub fn replicas_seen(&self) -> Vec<Replica> {
        let mut all = vec![self.replica_here()];
        let Some(board) = self.store.board() else {
            return all;
        };
        let now = self.clock.now();
        let seen = self.seen();
        let others = seen.iter().filter(|it| it.number != board.number());
        all.extend(others.filter_map(|enrolled| read(enrolled, now)));
        all[1..].sort_by(|a, b| {
            a.about
                .name
                .cmp(&b.about.name)
                .then(a.number.cmp(&b.number))
        });
        all
    }

    /// How many share the store, as of the last look; silent ones for a minute.
    pub(super) fn replicas_known(&self) -> u32 {
        u32::try_from(self.seen().len().max(1)).unwrap_or(u32::MAX)
    }

    fn replica_here(&self) -> Replica {
        let introduced = self.replicas.about.get().cloned();
        let (about, since) = introduced.unwrap_or_else(|| (About::default(), self.clock.wall()));
        Replica {
            number: self.store.board().map_or(0, |board| board.number()),
            about,
            since,
            seen_ago: Nanos::ZERO,
            troubles: self.troubles(),
            policies: self.known().put.revision,
            is_here: true,
        }
    }

    fn troubles(&self) -> Vec<String> {
        let mut troubles = Vec::new();
        if self.store.board().is_some_and(|board| board.is_away()) {
            troubles.push("the store does not answer".to_owned());
        }
        troubles.extend(self.store.troubles().into_iter().map(str::to_owned));
        if self.durability_degraded() {
            troubles.push("the data directory cannot be written".to_owned());
        }
        if let Some(why) = &self.known().refused {
            troubles.push(format!(
                "the policies that were put are refused here: {why}"
            ));
        }
        troubles
    }

    /// Follows what other replicas do and is seen by them, for ever.
    pub async fn follow_replicas(&self) {
        let Some(board) = self.store.board() else {
            return std::future::pending().await;
        };
        tokio::join!(
            self.follow_events(&board),
            self.follow_policies(&board),
            self.be_seen(&board),
        );
    }

    async fn follow_policies(&self, board: &Board) {
        loop {
            // Told or not, it is looked at.
            let _ = tokio::time::timeout(LOOK_EVERY, board.new_policies()).await;
            let _one_at_a_time = self.changing.lock().await;
            // A store that does not answer is looked at again.
            let _ = self.catch_up().await;
        }
    }

    async fn be_seen(&self, board: &Board) {
        loop {
            let here = self.replica_here();
            let since = here.since.duration_since(UNIX_EPOCH).unwrap_or_default();
            let now = self.clock.now();
            let written = Written {
                about: here.about,
                since_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
                seen_ns: now.0,
                troubles: here.troubles,
                policies: here.policies,
            };
            let bytes = serde_json::to_vec(&written).unwrap_or_default();
            // Who cannot say that it is there is missed by the others, as it should be.
            let _ = board.enrol(&bytes).await;
            self.forget_silent(board, now).await;
            tokio::time::sleep(TELL_EVERY).await;
        }
    }

    async fn forget_silent(&self, board: &Board, now: Time) {
        let Ok(roll) = board.roll().await else {
            return;
        };
        for enrolled in &roll {
            if read(enrolled, now).is_none() {
                // Another does it too, or it is done with the next look.
                let _ = board.strike(enrolled.number).await;
            }
        }
        *self.seen() = roll;
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Vec<Enrolled>> {
        self.replicas
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// `None`: it was silent for so long that it is forgotten, or cannot be read.
fn read(enrolled: &Enrolled, now: Time) -> Option<Replica> {
    let written: Written = serde_json::from_slice(&enrolled.bytes).ok()?;
    let seen_ago = now.since(Time(written.seen_ns));
    if seen_ago > FORGOTTEN_AFTER {
        return None;
    }
    let mut troubles = written.troubles;
    if seen_ago > SILENT_AFTER {
        let seconds = seen_ago.0 / 1_000_000_000;
        troubles.push(format!("not heard of for {seconds} s"));
    }
    Some(Replica {
        number: enrolled.number,
        about: written.about,
        since: UNIX_EPOCH.checked_add(Duration::from_millis(written.since_ms))?,
        seen_ago,
        troubles,
        policies: written.policies,
        is_here: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_replica_is_shown_as_degraded_and_then_forgotten() {
        let written = Written {
            about: About::default(),
            since_ms: 5,
            seen_ns: 1_000_000_000_000,
            troubles: Vec::new(),
            policies: 3,
        };
        let enrolled = Enrolled {
            number: 9,
            bytes: serde_json::to_vec(&written).unwrap(),
        };
        let after = |seconds: u64| Time((1_000 + seconds) * 1_000_000_000);
        let troubles = |seconds| read(&enrolled, after(seconds)).map(|it| it.troubles);
        assert_eq!(troubles(10), Some(Vec::new()));
        assert_eq!(troubles(11), Some(vec!["not heard of for 11 s".to_owned()]));
        assert_eq!(troubles(61), None);
        let broken = Enrolled {
            number: 9,
            bytes: b"{".to_vec(),
        };
        assert_eq!(read(&broken, after(0)), None);
    }
}
