//! What is stored, as values: overrides, breaker checkpoints, policies, and the changes to them.
//!
//! Leaves out what any of it means: whether an open breaker may close is the rules' matter, and
//! whether an operator may change it is the caller's. The types are the format on disk as well
//! (a test pins the text), since a second set of structs would only be copied to and fro.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

/// A dependency, or the name of a policy, in its namespace. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Key {
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// Time that was left when the wall clock said `at`. The monotonic clock starts anew with each
/// boot of the machine, so this pair is the only form in which time left is ever stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeLeft {
    #[serde(rename = "left_ns", with = "super::encoding::span")]
    pub left: Duration,
    #[serde(rename = "at_ns", with = "super::encoding::wall")]
    pub at: SystemTime,
}

impl TimeLeft {
    /// `clamp(left − max(0, now − at), 0, left)`: a wall clock that stepped back leaves `left`,
    /// one that leapt forward leaves zero, and nothing ever lasts longer than it had left.
    pub fn restored(self, now: SystemTime) -> Duration {
        let gone = now.duration_since(self.at).unwrap_or(Duration::ZERO);
        self.left.saturating_sub(gone)
    }

    /// The same, as of `now`.
    pub(super) fn rebased(self, now: SystemTime) -> Self {
        Self {
            left: self.restored(now),
            at: now,
        }
    }
}

/// What an override does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverrideKind {
    ForceOpen,
    ForceClosed,
}

/// An operator's order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    pub kind: OverrideKind,
    pub owner: String,
    pub reason: String,
    /// For people; nothing is decided by it.
    #[serde(rename = "set_at_ns", with = "super::encoding::wall")]
    pub set_at: SystemTime,
    /// Absent: until it is cleared.
    pub expires: Option<TimeLeft>,
}

/// The state of a breaker, as far as it outlives the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerPhase {
    /// Stored with a hold only: a dependency without an entry is closed.
    Closed,
    Open,
    HalfOpen,
}

/// A breaker, and the hold of its dependency, as of one transition or the beginning of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerCheckpoint {
    pub phase: BreakerPhase,
    pub epoch: u64,
    /// Trips in a row: the level of `open_multiplier`'s escalation.
    pub trips: u32,
    /// Until the first probe; zero unless open.
    pub open: TimeLeft,
    /// Until calls may go again, where the dependency asked its callers to wait. A program that
    /// does not know of holds ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<TimeLeft>,
    /// What the dependency did in health. A program that does not know of it begins without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<Health>,
}

/// What a recovery climbs back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Successes in a thousand seconds.
    pub per_kilosecond: u64,
    /// Of a success; zero where it is not known.
    pub latency_ns: u64,
    /// Parts per million of the calls that fail.
    pub failing_ppm: u32,
}

impl BreakerCheckpoint {
    /// Whether there is anything in it to be kept.
    pub(super) fn is_worth_keeping(&self) -> bool {
        match self.phase {
            BreakerPhase::Open | BreakerPhase::HalfOpen => true,
            BreakerPhase::Closed => self.hold.is_some(),
        }
    }

    /// The same as of `now`, without a hold that has ended.
    pub(super) fn rebased(self, now: SystemTime) -> Self {
        let hold = self.hold.map(|hold| hold.rebased(now));
        Self {
            open: self.open.rebased(now),
            hold: hold.filter(|hold| !hold.left.is_zero()),
            ..self
        }
    }
}

/// A policy put over the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPolicy {
    pub document: String,
    pub owner: String,
    /// For people; nothing is decided by it.
    #[serde(rename = "put_at_ns", with = "super::encoding::wall")]
    pub put_at: SystemTime,
}

/// What an operator's action does to the stored state. It is written in one transaction with its
/// audit record: both are there after a crash, or neither.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    SetOverride(Key, Override),
    ClearOverride(Key),
    PutPolicy(Key, StoredPolicy),
    DeletePolicy(Key),
    /// A policy that is tried beside the live one.
    PutCandidate(Key, StoredPolicy),
    DeleteCandidate(Key),
    /// A candidate becomes the policy: it is stored as one, and is a candidate no more.
    PromoteCandidate(Key, StoredPolicy),
    /// A reset: the checkpoint goes, and those of this dependency handed over before are void.
    ForgetBreaker(Key),
    /// The hold goes from the checkpoint, and from those handed over before.
    ForgetHold(Key),
    /// The action has no stored effect, or the effect is already there.
    RecordOnly,
}

/// A random key that makes permits and their tags recognisable across restarts.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermitKey(pub [u8; 16]);

/// Never printed: who knows it can forge permits.
impl fmt::Debug for PermitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PermitKey(..)")
    }
}

/// When the run before wrote last, and whether it stopped in an orderly way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastWrite {
    #[serde(rename = "at_ns", with = "super::encoding::wall")]
    pub at: SystemTime,
    pub clean: bool,
}
