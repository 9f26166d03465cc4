//! The audit log as a chain: each record's hash covers the record and the hash before it.
//!
//! It shows that a record was changed, removed or moved. It does not stop somebody who can write
//! the file from computing the whole chain anew: against that, keep a head elsewhere (the newest
//! sequence and hash, as `holdoff audit verify` prints them).
//!
//! hash(n) = SHA-256 over "holdoff audit 1", hash(n−1) (32 zero bytes for n = 1), sequence and
//! time in milliseconds since 1970 as 8 bytes each, little end first, then owner, action,
//! namespace, dependency and detail; every part but the two numbers preceded by its length.

use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use sha2::{Digest, Sha256};

use super::encoding::put;

/// What is to be recorded of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    pub time: SystemTime,
    pub owner: String,
    /// The RPC, for example `SetOverride`.
    pub action: String,
    pub namespace: String,
    /// The dependency or policy.
    pub dependency: String,
    pub detail: String,
}

/// What was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// From 1, without a gap.
    pub sequence: u64,
    pub time_ms: u64,
    pub owner: String,
    pub action: String,
    pub namespace: String,
    pub dependency: String,
    pub detail: String,
    pub hash: ChainHash,
}

/// A record, and what it follows: with it anybody can compute its hash again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditLink {
    pub record: AuditRecord,
    /// The hash of the record before it; `None`: that one cannot be read.
    pub before: Option<ChainHash>,
}

/// SHA-256, written in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ChainHash(pub [u8; 32]);

/// The end of the chain: the newest sequence and its hash; zeros where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditHead {
    pub sequence: u64,
    pub hash: ChainHash,
}

/// What a look at the whole chain found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditVerdict {
    /// Records that hold, from the oldest kept.
    pub intact: u64,
    /// Those of the namespace that was asked about.
    pub intact_of_namespace: u64,
    pub head: AuditHead,
    pub broken: Option<ChainBreak>,
}

/// Where the chain ends to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainBreak {
    #[error("record {sequence} is missing")]
    Missing { sequence: u64 },
    #[error("record {sequence} is not what was written, or does not follow the one before it")]
    Changed { sequence: u64 },
    #[error("record {sequence} was never acknowledged by this log")]
    Added { sequence: u64 },
}

impl AuditHead {
    pub(super) const EMPTY: Self = Self {
        sequence: 0,
        hash: ChainHash([0; 32]),
    };

    /// The record of `entry` that follows this head.
    pub(super) fn next(&self, entry: &AuditEntry) -> AuditRecord {
        let since = entry.time.duration_since(UNIX_EPOCH);
        let mut record = AuditRecord {
            sequence: self.sequence.saturating_add(1),
            time_ms: u64::try_from(since.unwrap_or(Duration::ZERO).as_millis()).unwrap_or(u64::MAX),
            owner: entry.owner.clone(),
            action: entry.action.clone(),
            namespace: entry.namespace.clone(),
            dependency: entry.dependency.clone(),
            detail: entry.detail.clone(),
            hash: self.hash,
        };
        record.hash = record.computed_hash(&self.hash);
        record
    }
}

impl AuditRecord {
    pub fn time(&self) -> SystemTime {
        let since = Duration::from_millis(self.time_ms);
        UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
    }

    pub fn head(&self) -> AuditHead {
        AuditHead {
            sequence: self.sequence,
            hash: self.hash,
        }
    }

    fn computed_hash(&self, before: &ChainHash) -> ChainHash {
        let mut hasher = Sha256::new();
        put(&mut hasher, b"holdoff audit 1");
        put(&mut hasher, &before.0);
        hasher.update(self.sequence.to_le_bytes());
        hasher.update(self.time_ms.to_le_bytes());
        let texts = [
            &self.owner,
            &self.action,
            &self.namespace,
            &self.dependency,
            &self.detail,
        ];
        for text in texts {
            put(&mut hasher, text.as_bytes());
        }
        ChainHash(hasher.finalize().into())
    }
}

/// A walk along the chain, record by record, so that the log is never in memory as a whole.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    at: AuditHead,
    intact: u64,
    /// Whose records are counted besides.
    namespace: &'a str,
    intact_of_namespace: u64,
    end: AuditHead,
}

impl<'a> Walk<'a> {
    /// From the record after `start` to the acknowledged `end`.
    pub fn new(start: AuditHead, end: AuditHead, namespace: &'a str) -> Self {
        Self {
            at: start,
            intact: 0,
            namespace,
            intact_of_namespace: 0,
            end,
        }
    }

    /// The next stored record; `None` where its bytes are damaged.
    ///
    /// # Errors
    /// The break, where the chain does not hold here.
    pub fn step(&mut self, sequence: u64, record: Option<&AuditRecord>) -> Result<(), ChainBreak> {
        let expected = self.at.sequence.saturating_add(1);
        if sequence > self.end.sequence {
            return match expected > self.end.sequence {
                true => Err(ChainBreak::Added { sequence }),
                false => Err(ChainBreak::Missing { sequence: expected }),
            };
        }
        if sequence != expected {
            return Err(ChainBreak::Missing { sequence: expected });
        }
        let holds = record.is_some_and(|record| {
            record.sequence == sequence && record.hash == record.computed_hash(&self.at.hash)
        });
        match record {
            Some(record) if holds => {
                self.at = record.head();
                self.intact_of_namespace += u64::from(record.namespace == self.namespace);
            }
            Some(_) | None => return Err(ChainBreak::Changed { sequence }),
        }
        self.intact += 1;
        Ok(())
    }

    pub fn finish(self, broken: Result<(), ChainBreak>) -> AuditVerdict {
        let broken = broken.err().or_else(|| {
            let expected = self.at.sequence.saturating_add(1);
            if self.at.sequence < self.end.sequence {
                Some(ChainBreak::Missing { sequence: expected })
            } else if self.at != self.end {
                let sequence = self.at.sequence;
                Some(ChainBreak::Changed { sequence })
            } else {
                None
            }
        });
        AuditVerdict {
            intact: self.intact,
            intact_of_namespace: self.intact_of_namespace,
            head: self.end,
            broken,
        }
    }
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for ChainHash {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ChainHash {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let mut hash = [0; 32];
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(D::Error::custom("not 64 hexadecimal digits"));
        }
        for (to, pair) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let pair = str::from_utf8(pair).map_err(D::Error::custom)?;
            *to = u8::from_str_radix(pair, 16).map_err(D::Error::custom)?;
        }
        Ok(Self(hash))
    }
}
