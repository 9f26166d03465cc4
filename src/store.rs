//! The records of all dependencies, changed by one verb.
//!
//! A rule is a function that is handed to the store and applied while nobody else sees the
//! record, so nothing can be checked first and changed later. A store may apply it more than
//! once to the same state, if somebody else was faster; it keeps the last result.

mod denied;
mod figures;
pub mod memory;
pub mod redis;
mod sequences;
mod stored;

use std::{future::Future, sync::Arc};

use holdoff_decision::{DenialReason, Policy, Reach, Record, Time, check::Checks, window::Counts};

pub use self::{denied::Denied, figures::Figures, memory::MemoryStore, redis::RedisStore};

use crate::{candidate::Shadow, permit::DependencyId};

/// A record and what stands beside it.
#[derive(Clone, Debug)]
pub struct Slot {
    pub name: Name,
    /// As resolved at `generation`; resolved again where the policies have changed since.
    pub policy: Arc<Policy>,
    pub generation: u32,
    pub notes: Notes,
    pub record: Record,
    /// What most dependencies never need; see [`Beside`].
    pub beside: Option<Box<Beside>>,
}

/// What this replica notes of a slot, in four bytes: it has no more to spare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes(u32);

impl Notes {
    const REHEARSAL: u32 = 1;
    const IN_PLACE: u32 = 2;
    const ALONE: u32 = 4;
    const DENIAL: u32 = 8;

    /// Questions denied since the slot was made; it begins again at 2^29, as counters may.
    pub fn denials(self) -> u32 {
        self.0 / Self::DENIAL
    }

    fn add_denial(&mut self) {
        self.0 = self.0.wrapping_add(Self::DENIAL);
    }

    pub fn run(self) -> Run {
        if self.0 & Self::REHEARSAL != 0 {
            Run::Rehearsal
        } else if self.0 & Self::IN_PLACE != 0 {
            Run::InPlace
        } else if self.0 & Self::ALONE != 0 {
            Run::Alone
        } else {
            Run::Counts
        }
    }

    pub fn set_run(&mut self, run: Run) {
        let run = match run {
            Run::Counts => 0,
            Run::Rehearsal => Self::REHEARSAL,
            Run::InPlace => Self::IN_PLACE,
            Run::Alone => Self::ALONE,
        };
        self.0 = self.0 & !(Self::REHEARSAL | Self::IN_PLACE | Self::ALONE) | run;
    }
}

/// Whether what a rule does to a slot is told to others: events, counters, recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    Counts,
    /// It is done on a copy to see what would become of it, and done again where it counts.
    Rehearsal,
    /// It counts, but a trip is told only when the fleet has it: another replica may have been
    /// faster.
    InPlace,
    /// As [`Self::InPlace`], and nothing is known of the other replicas: the store is away.
    Alone,
}

/// What only some dependencies have beside their record: allocated on use.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// Since the first checker that asked.
    pub checks: Option<Checks>,
    /// While a candidate policy is tried.
    pub shadow: Option<Shadow>,
    /// Since the first denial. Of this replica alone.
    pub denied: Option<Box<Denied>>,
    /// From a failure until all is well. Of this replica alone.
    pub evidence: Option<Box<Evidence>>,
    /// Until when others have been told that it is held, since the last hold. Of this replica alone.
    pub told_held: Option<Time>,
}

/// Calls that count for or against a dependency, as this replica was told of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Since there last was none, while the breaker is closed.
    pub counts: Counts,
    /// What opened the breaker, until it is closed.
    pub opened: Option<Counts>,
}

impl Beside {
    const fn is_empty(&self) -> bool {
        self.checks.is_none()
            && self.shadow.is_none()
            && self.denied.is_none()
            && self.evidence.is_none()
            && self.told_held.is_none()
    }
}

impl Slot {
    /// Counts a denial.
    pub fn note_denial(&mut self, reason: DenialReason) {
        self.notes.add_denial();
        let beside = self.beside.get_or_insert_default();
        beside.denied.get_or_insert_default().add(reason);
    }

    pub fn denied(&self) -> Option<&Denied> {
        self.beside.as_ref()?.denied.as_deref()
    }

    pub fn evidence(&self) -> Option<Evidence> {
        self.beside.as_ref()?.evidence.as_deref().copied()
    }

    pub fn put_evidence(&mut self, evidence: Option<Evidence>) {
        if evidence.is_some() || self.beside.is_some() {
            self.beside.get_or_insert_default().evidence = evidence.map(Box::new);
        }
        self.beside.take_if(|beside| beside.is_empty());
    }

    pub fn told_held(&self) -> Option<Time> {
        self.beside.as_ref()?.told_held
    }

    pub fn set_told_held(&mut self, until: Option<Time>) {
        if until.is_some() || self.beside.is_some() {
            self.beside.get_or_insert_default().told_held = until;
        }
        self.beside.take_if(|beside| beside.is_empty());
    }

    pub fn shadow(&self) -> Option<&Shadow> {
        self.beside.as_ref()?.shadow.as_ref()
    }

    pub fn shadow_mut(&mut self) -> Option<&mut Shadow> {
        self.beside.as_mut()?.shadow.as_mut()
    }

    pub fn checks(&self) -> Option<&Checks> {
        self.beside.as_ref()?.checks.as_ref()
    }

    pub fn checks_mut(&mut self) -> &mut Checks {
        let beside = self.beside.get_or_insert_default();
        beside.checks.get_or_insert_default()
    }

    /// What is shared of it, and the policy: no candidate, no changes to be told.
    pub(crate) fn copy(&self) -> Self {
        let checks = self.beside.as_ref().and_then(|it| it.checks.clone());
        let mut record = self.record.clone();
        record.take_changes();
        Self {
            name: self.name.clone(),
            policy: Arc::clone(&self.policy),
            generation: self.generation,
            notes: Notes::default(),
            record,
            beside: checks.map(|checks| {
                Box::new(Beside {
                    checks: Some(checks),
                    ..Beside::default()
                })
            }),
        }
    }

    /// Lends another slot of the same record what is of this replica alone: the candidate, and
    /// what was counted.
    pub(crate) fn lend(&mut self, to: &mut Self) {
        to.notes = self.notes;
        let beside = self.beside.as_mut();
        let Beside {
            shadow,
            denied,
            evidence,
            told_held,
            ..
        } = beside.map_or_else(Beside::default, |it| Beside {
            checks: None,
            shadow: it.shadow.take(),
            denied: it.denied.take(),
            evidence: it.evidence.take(),
            told_held: it.told_held.take(),
        });
        to.set_told_held(told_held);
        to.put_evidence(evidence.map(|evidence| *evidence));
        to.put_shadow(shadow);
        to.put_denied(denied);
    }

    /// Begins or ends the trial of a candidate.
    pub fn put_shadow(&mut self, shadow: Option<Shadow>) {
        if shadow.is_some() || self.beside.is_some() {
            self.beside.get_or_insert_default().shadow = shadow;
        }
        self.beside.take_if(|beside| beside.is_empty());
    }

    fn put_denied(&mut self, denied: Option<Box<Denied>>) {
        if denied.is_some() || self.beside.is_some() {
            self.beside.get_or_insert_default().denied = denied;
        }
        self.beside.take_if(|beside| beside.is_empty());
    }
}

/// A dependency's full name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// Shared, and one word wide: there may be a million of these.
    pub namespace: Arc<String>,
    pub dependency: Box<str>,
}

/// What a new record begins with.
#[derive(Clone, Debug)]
pub struct Seed {
    pub dependency: Box<str>,
    pub policy: Arc<Policy>,
    pub generation: u32,
    pub record: Record,
    pub limits: Limits,
}

/// How many records there may be; each at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub in_namespace: u32,
    pub in_all: u32,
    pub namespaces: u32,
}

/// Why a record could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("there is no such dependency")]
    Unknown,
    #[error(
        "the namespace `{namespace}` has its {limit} dependencies already; raise max_dependencies or wait until an idle one is dropped"
    )]
    NamespaceFull { namespace: String, limit: u32 },
    #[error(
        "the service has its {limit} namespaces already; raise max_namespaces or wait until an idle one is dropped"
    )]
    NamespacesFull { limit: u32 },
    #[error(
        "the service has its {limit} dependencies already; raise max_dependencies_total or wait until an idle one is dropped"
    )]
    Full { limit: u32 },
    /// Nothing is known to have been decided.
    #[error("the fleet's store cannot be reached: {0}")]
    Unavailable(String),
}

/// What became of a numbered report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbered {
    Taken,
    NotTaken,
}

/// See [`Store::tell`].
pub struct Told(pub Box<Tell>);

/// Called while the record is held.
pub type Tell = dyn Fn(DependencyId, &mut Slot) + Send + Sync;

impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Told")
    }
}

/// Who has to agree to what is planned for all, whatever the record is.
pub fn by_fleet(_: &Slot) -> Reach {
    Reach::Fleet
}

/// Who has to agree to what an operator does: what another replica changed unheard is asked for
/// first, and without the store it is not done.
pub fn by_store(_: &Slot) -> Reach {
    Reach::Store
}

/// Who has to agree to what is only read.
pub fn by_here(_: &Slot) -> Reach {
    Reach::Here
}

/// A shared store as this replica sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// It does not answer, or takes no writes: decisions are made alone.
    pub is_away: bool,
    /// That share it, as was known last; at least 1.
    pub replicas: u32,
}

/// Holds the records. See the module.
pub trait Store: Send + Sync + 'static {
    /// Applies `rule` to the record of `id`, which is first made from `seed` where there is
    /// none. `seed` is given the first epoch that the name has not had.
    ///
    /// The rule may be applied any number of times to copies that are marked as
    /// [`Run::Rehearsal`], and then once to one that [counts](Run::Counts), in the state to
    /// which it was applied for good: only then may it tell others. Where the caller no longer
    /// waits for its answer, it may have been applied without that; its changes are then told
    /// with the next.
    ///
    /// `reach` says who has to agree; where a store is shared it may be decided
    /// [in place](Run::InPlace) what needs no other replica. While a shared store is away, all
    /// but [`Reach::Store`] is decided [alone](Run::Alone) where this replica has a copy.
    ///
    /// # Errors
    /// What `seed` says, or that there is no room. The store is then unchanged.
    fn transact<R: Send>(
        &self,
        id: DependencyId,
        namespace: &str,
        seed: impl FnOnce(u64) -> Result<Seed, StoreError> + Send,
        reach: impl Fn(&Slot) -> Reach + Send,
        rule: impl FnMut(&mut Slot) -> R + Send,
    ) -> impl Future<Output = Result<R, StoreError>> + Send;

    /// Whom to tell of records that others have changed, or that have something to tell. Called
    /// while the record is held. A store that nobody shares tells nobody.
    fn tell(&self, told: Told);

    /// Notes that `instance` sent a report of this number. False: it was noted before.
    ///
    /// # Errors
    /// It could not be noted.
    fn note_sequence(
        &self,
        instance: u64,
        sequence: u64,
        now: Time,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// How this store stands, where it is shared; `None`: it is in memory.
    fn standing(&self) -> Option<Standing> {
        None
    }

    /// What an operator should know of a shared store while it answers.
    fn troubles(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Makes sure that a store that is shared takes writes now.
    ///
    /// # Errors
    /// It does not.
    fn confirm(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        async { Ok(()) }
    }
    /// Says what became of the report of a number that [`Self::note_sequence`] has noted: one that
    /// was not taken may be sent again.
    fn end_sequence(&self, instance: u64, sequence: u64, ended: Numbered);

    /// Whether the leases and budgets of earlier runs are still known, so that a start need not
    /// be careful with them, nor bring back what it kept itself.
    fn remembers(&self) -> bool;

    /// The epochs of records that are made anew are above it, and those of runs before are not.
    /// `None`: an epoch does not say which run gave it; a shared store that was emptied counts from
    /// the beginning.
    fn begins_after(&self) -> Option<u64> {
        None
    }

    /// Shows every record to `visit`, in no order. Costs as much as there are records.
    fn visit(&self, visit: &mut dyn FnMut(DependencyId, &Slot));

    /// Drops the records that `droppable` names and returns their names.
    fn evict(&self, droppable: &mut dyn FnMut(&Slot) -> bool) -> Vec<Name>;

    /// What replicas share besides records; `None`: nobody else uses this store.
    fn board(&self) -> Option<redis::Board> {
        None
    }

    /// How many records there are.
    fn len(&self) -> usize;

    /// What it has counted, where it is shared.
    fn figures(&self) -> Figures {
        Figures::default()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn a_slot(namespace: &str, dependency: &str) -> Slot {
        Slot {
            name: Name {
                namespace: Arc::new(namespace.to_owned()),
                dependency: dependency.into(),
            },
            policy: Arc::new(Policy::default()),
            generation: 1,
            notes: Notes::default(),
            record: Record::new(1, Time(1_700_000_000_000_000_000)),
            beside: None,
        }
    }

    /// With its eight bytes of padding the allocator has a size of 320; the next one is 384.
    #[test]
    fn a_slot_fits_the_allocation_it_is_made_for() {
        assert!(size_of::<Slot>() <= 312, "{} bytes", size_of::<Slot>());
    }

    #[test]
    fn denials_are_counted_by_reason_and_stay_with_this_replica() {
        let mut slot = a_slot("default", "payments");
        assert!(slot.denied().is_none() && slot.beside.is_none());
        slot.note_denial(DenialReason::RateLimited);
        slot.note_denial(DenialReason::BreakerOpen);
        slot.note_denial(DenialReason::BreakerOpen);
        let counted = [
            (DenialReason::BreakerOpen, 2),
            (DenialReason::RateLimited, 1),
        ];
        assert_eq!(slot.denied().unwrap().counts(), counted);
        let mut other = slot.copy();
        assert!(other.denied().is_none(), "a rehearsal counts for nothing");
        slot.lend(&mut other);
        assert_eq!(other.denied().unwrap().counts(), counted);
        assert_eq!(other.notes.denials(), 3);
        assert!(slot.beside.as_ref().is_none_or(|beside| beside.is_empty()));
    }
}
