//! What operators have put over the API, as one value: policies, and candidates that are tried.
//! Replicas that share a store share it whole, since one entry may only make sense beside another.
//!
//! Nothing is checked here; what it comes to with a replica's own files is `policies`' matter.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    durable::{Change, Key, Restored, StoredPolicy},
    policy::Overlay,
};

/// All of them together as bytes; a store swaps them in one piece.
pub const BYTES_MAX: usize = 1 << 20;

type Entries = BTreeMap<Key, StoredPolicy>;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutPolicies {
    /// Rises by one with each change; of two values the higher one is the newer.
    pub revision: u64,
    pub policies: Entries,
    pub candidates: Entries,
}

#[derive(Deserialize, Serialize)]
struct Written {
    revision: u64,
    policies: Vec<Entry>,
    candidates: Vec<Entry>,
}

#[derive(Deserialize, Serialize)]
struct Entry {
    namespace: String,
    name: String,
    stored: StoredPolicy,
}

impl PutPolicies {
    /// What a data directory has kept.
    pub fn of(state: &Restored) -> Self {
        Self {
            revision: 0,
            policies: state.policies.iter().cloned().collect(),
            candidates: state.candidates.iter().cloned().collect(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.candidates.is_empty()
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let written = Written {
            revision: self.revision,
            policies: entries(&self.policies),
            candidates: entries(&self.candidates),
        };
        // Texts, numbers and lists have a form; there is nothing else in it.
        serde_json::to_vec(&written).unwrap_or_default()
    }

    /// # Errors
    /// In plain words: they are not what [`Self::to_bytes`] makes.
    pub fn of_bytes(bytes: &[u8]) -> Result<Self, String> {
        let written: Written =
            serde_json::from_slice(bytes).map_err(|problem| problem.to_string())?;
        let map = |entries: Vec<Entry>| {
            let keyed = |it: Entry| (Key::new(it.namespace, it.name), it.stored);
            entries.into_iter().map(keyed).collect()
        };
        Ok(Self {
            revision: written.revision,
            policies: map(written.policies),
            candidates: map(written.candidates),
        })
    }

    /// The same after a change.
    pub fn with(&self, change: &Change) -> Self {
        let mut next = self.clone();
        next.revision += 1;
        match change {
            Change::PutPolicy(key, stored) => {
                next.policies.insert(key.clone(), stored.clone());
            }
            Change::DeletePolicy(key) => {
                next.policies.remove(key);
            }
            Change::PutCandidate(key, stored) => {
                next.candidates.insert(key.clone(), stored.clone());
            }
            Change::DeleteCandidate(key) => {
                next.candidates.remove(key);
            }
            Change::PromoteCandidate(key, stored) => {
                next.candidates.remove(key);
                next.policies.insert(key.clone(), stored.clone());
            }
            Change::SetOverride(..)
            | Change::ClearOverride(_)
            | Change::ForgetBreaker(_)
            | Change::ForgetHold(_)
            | Change::RecordOnly => {}
        }
        next
    }

    /// Who has changed, between this and `newer`, what `change` is about; `None`: nobody has.
    pub fn rival<'a>(&self, newer: &'a Self, change: &Change) -> Option<Rival<'a>> {
        let (policy, candidate, key) = match change {
            Change::PutPolicy(key, _) | Change::DeletePolicy(key) => (true, false, key),
            Change::PutCandidate(key, _) | Change::DeleteCandidate(key) => (false, true, key),
            Change::PromoteCandidate(key, _) => (true, true, key),
            Change::SetOverride(..)
            | Change::ClearOverride(_)
            | Change::ForgetBreaker(_)
            | Change::ForgetHold(_)
            | Change::RecordOnly => return None,
        };
        let changed = |ours: &Entries, theirs: &'a Entries| {
            let theirs = theirs.get(key);
            (ours.get(key) != theirs).then_some(match theirs {
                Some(stored) => Rival::Put(&stored.owner),
                None => Rival::Deleted,
            })
        };
        let policy = policy.then(|| changed(&self.policies, &newer.policies));
        let candidate = candidate.then(|| changed(&self.candidates, &newer.candidates));
        policy.flatten().or(candidate.flatten())
    }

    /// What leads from this to `after`, one change an entry.
    pub fn changes_to(&self, after: &Self) -> Vec<Change> {
        let policies = differing(&self.policies, &after.policies);
        let candidates = differing(&self.candidates, &after.candidates);
        let policies = policies.map(|(key, stored)| match stored {
            Some(stored) => Change::PutPolicy(key, stored),
            None => Change::DeletePolicy(key),
        });
        let candidates = candidates.map(|(key, stored)| match stored {
            Some(stored) => Change::PutCandidate(key, stored),
            None => Change::DeleteCandidate(key),
        });
        policies.chain(candidates).collect()
    }

    pub fn overlays(&self) -> Vec<Overlay> {
        let overlay = |(key, stored): (&Key, &StoredPolicy)| Overlay {
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            text: stored.document.clone(),
        };
        self.policies.iter().map(overlay).collect()
    }
}

/// Who was faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival<'a> {
    /// This owner has put something there.
    Put(&'a str),
    Deleted,
}

fn entries(of: &Entries) -> Vec<Entry> {
    let entry = |(key, stored): (&Key, &StoredPolicy)| Entry {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        stored: stored.clone(),
    };
    of.iter().map(entry).collect()
}

fn differing<'a>(
    before: &'a Entries,
    after: &'a Entries,
) -> impl Iterator<Item = (Key, Option<StoredPolicy>)> + 'a {
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    let gone = gone.map(|key| (key.clone(), None));
    let put = after
        .iter()
        .filter(|(key, stored)| before.get(*key) != Some(stored));
    gone.chain(put.map(|(key, stored)| (key.clone(), Some(stored.clone()))))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn stored(document: &str, owner: &str) -> StoredPolicy {
        StoredPolicy {
            document: document.to_owned(),
            owner: owner.to_owned(),
            put_at: UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789),
        }
    }

    fn key(name: &str) -> Key {
        Key::new("default", name)
    }

    #[test]
    fn what_was_put_reads_back_from_its_bytes() {
        let put = PutPolicies::default()
            .with(&Change::PutPolicy(key("payments"), stored("a: 1", "ana")))
            .with(&Change::PutCandidate(key(""), stored("b: \"ü\"", "ben")));
        assert_eq!(put.revision, 2);
        assert_eq!(PutPolicies::of_bytes(&put.to_bytes()), Ok(put));
        assert!(PutPolicies::of_bytes(b"[]").is_err());
    }

    #[test]
    fn the_changes_between_two_values_lead_from_one_to_the_other() {
        let one = PutPolicies::default()
            .with(&Change::PutPolicy(key("gone"), stored("a", "ana")))
            .with(&Change::PutPolicy(key("other"), stored("a", "ana")))
            .with(&Change::PutPolicy(key("same"), stored("a", "ana")))
            .with(&Change::PutCandidate(key("tried"), stored("c", "ana")));
        let two = one
            .with(&Change::DeletePolicy(key("gone")))
            .with(&Change::PutPolicy(key("other"), stored("b", "ben")))
            .with(&Change::PromoteCandidate(key("tried"), stored("c", "ben")));
        let changes = one.changes_to(&two);
        let led = changes.iter().fold(one, |put, change| put.with(change));
        assert_eq!(
            (led.policies, led.candidates),
            (two.policies, two.candidates)
        );
    }

    #[test]
    fn only_who_changed_the_same_entry_is_a_rival() {
        let before = PutPolicies::default();
        let theirs = before.with(&Change::PutPolicy(key("payments"), stored("a", "ben")));
        let ours = Change::PutPolicy(key("payments"), stored("b", "ana"));
        assert_eq!(before.rival(&theirs, &ours), Some(Rival::Put("ben")));
        let elsewhere = Change::PutPolicy(key("search"), stored("b", "ana"));
        assert_eq!(before.rival(&theirs, &elsewhere), None);
        let gone = theirs.with(&Change::DeletePolicy(key("payments")));
        assert_eq!(theirs.rival(&gone, &ours), Some(Rival::Deleted));
    }
}
