//! Candidates: policies that operators try beside the live ones, then promote or drop.
//!
//! A candidate is laid on the live policies as PutPolicy would lay it, so what is tried is what
//! a promotion puts in force. It is durable; its numbers are not, they begin with the service.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
};

use holdoff_decision::{Policy, State};

use super::{
    Actor, Coordinator, EventKind, Refusal, altering::Alteration, operators::without,
    policies::InForce, put::PutPolicies,
};
use crate::{
    candidate::{Numbers, Shadow},
    durable::{self, Change, StoredPolicy},
    policy::{EntryView, Finding, Overlay, PolicySet, Source},
    store::Store,
};

/// Each holds all policies once more.
const CANDIDATES_MAX: usize = 32;

/// A policy that is tried.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Of those of this run; another with each that is put.
    pub number: u64,
    pub namespace: String,
    /// A name, a pattern ending in `*`, or empty for the namespace's defaults.
    pub name: String,
    pub stored: StoredPolicy,
    /// All policies with this one laid over them, or why it cannot be.
    set: Result<Arc<PolicySet>, Vec<Finding>>,
    /// Of dependencies that were dropped meanwhile.
    gone: Arc<Mutex<Numbers>>,
}

/// A candidate as it is shown.
#[derive(Clone, Debug)]
pub struct Tried {
    pub namespace: String,
    pub name: String,
    pub stored: StoredPolicy,
    pub dependencies: u64,
    pub left_out: u64,
    /// Why it is not tried; empty: it is.
    pub problem: String,
    pub numbers: Numbers,
}

/// One dependency under a candidate.
#[derive(Clone, Debug)]
pub struct Compared {
    pub dependency: String,
    pub state: State,
    pub numbers: Numbers,
}

impl Candidate {
    fn new(number: u64, namespace: &str, name: &str, stored: StoredPolicy) -> Self {
        Self {
            number,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            stored,
            set: Err(Vec::new()),
            gone: Arc::default(),
        }
    }

    fn overlay(&self) -> Overlay {
        Overlay {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            text: self.stored.document.clone(),
        }
    }

    /// The same, over these policies.
    pub fn laid_on(&self, sources: &[Source], overlays: &[Overlay]) -> Self {
        let mut overlays = without(overlays, &self.namespace, &self.name);
        overlays.push(self.overlay());
        Self {
            set: PolicySet::load(sources, &overlays).map(Arc::new),
            ..self.clone()
        }
    }

    /// What a dependency gets of it; `None`: it does not apply to that.
    pub fn policy_of(&self, namespace: &str, dependency: &str) -> Option<Arc<Policy>> {
        if self.namespace != namespace {
            return None;
        }
        let settings = self.set.as_ref().ok()?.namespace(namespace)?;
        let applies = self.name.is_empty() || settings.entry_of(dependency) == self.name;
        applies.then(|| Arc::clone(settings.resolve(dependency).0))
    }

    pub(super) fn is(&self, namespace: &str, name: &str) -> bool {
        self.namespace == namespace && self.name == name
    }

    fn problem(&self) -> String {
        let findings = self.set.as_ref().err().map(Vec::as_slice);
        let lines = findings.unwrap_or_default().iter().map(Finding::to_string);
        lines.collect::<Vec<_>>().join("; ")
    }

    /// For the operator, where it cannot be tried.
    pub fn warning(&self) -> Option<String> {
        let problem = self.problem();
        (!problem.is_empty()).then(|| {
            let Self {
                namespace, name, ..
            } = self;
            format!("the candidate `{name}` of namespace `{namespace}` is not tried: {problem}")
        })
    }
}

impl InForce {
    /// Keeps what was counted of a dependency that goes.
    pub fn keep_numbers(&self, shadow: &Shadow) {
        let of = |it: &&Arc<Candidate>| it.number == shadow.candidate;
        if let Some(candidate) = self.candidates.iter().find(of) {
            let mut gone = candidate
                .gone
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            gone.add(shadow.judge.numbers());
        }
    }

    fn find(&self, namespace: &str, name: &str) -> Result<Arc<Candidate>, Refusal> {
        let found = self.candidates.iter().find(|it| it.is(namespace, name));
        found.cloned().ok_or_else(|| unknown(namespace, name))
    }
}

fn unknown(namespace: &str, name: &str) -> Refusal {
    Refusal::UnknownCandidate {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

/// Those that a replica begins with, not yet laid on anything.
pub(super) fn begun(put: &PutPolicies) -> Vec<Arc<Candidate>> {
    let candidates = put.candidates.iter().zip(0..);
    candidates
        .map(|((key, stored), number)| {
            Arc::new(Candidate::new(
                number,
                &key.namespace,
                &key.name,
                stored.clone(),
            ))
        })
        .collect()
}

impl<S: Store> Coordinator<S> {
    /// Stores a candidate and begins to try it.
    ///
    /// # Errors
    /// [`Refusal::BadPolicy`] with all that is wrong; nothing was stored.
    pub async fn put_candidate(
        &self,
        namespace: &str,
        name: &str,
        document: &str,
        actor: Actor<'_>,
    ) -> Result<Tried, Refusal> {
        let _one_at_a_time = self.changing.lock().await;
        if !self.policies.has_namespace(namespace) {
            return Err(Refusal::UnknownNamespace(namespace.to_owned()));
        }
        Box::pin(self.catch_up()).await?;
        let key = durable::Key::new(namespace, name);
        let put = self.put();
        let others = put.candidates.keys().filter(|other| **other != key);
        if others.count() >= CANDIDATES_MAX {
            return Err(Refusal::TooManyCandidates(CANDIDATES_MAX));
        }
        let stored = StoredPolicy {
            document: document.to_owned(),
            owner: actor.owner.to_owned(),
            put_at: self.clock.wall(),
        };
        let put = Alteration {
            change: Change::PutCandidate(key, stored),
            action: "PutCandidate",
            namespace,
            name,
            actor,
            what: document,
        };
        let check = |next: &InForce| match &next.find(namespace, name)?.set {
            Ok(_) => Ok(()),
            Err(findings) => Err(Refusal::BadPolicy(findings.clone())),
        };
        Box::pin(self.alter(&put, check)).await?;
        let put = self.policies.in_force().find(namespace, name)?;
        self.hand_over(self.event(EventKind::CandidatePut, namespace, name, actor));
        Ok(self.tried(&put))
    }

    /// Makes a candidate the live policy. Records stay as they are.
    ///
    /// # Errors
    /// [`Refusal::UnknownCandidate`], or [`Refusal::BadPolicy`] where it no longer fits the
    /// policies that it lies on; nothing was changed.
    pub async fn promote_candidate(
        &self,
        namespace: &str,
        name: &str,
        actor: Actor<'_>,
    ) -> Result<(EntryView, Tried), Refusal> {
        let _one_at_a_time = self.changing.lock().await;
        Box::pin(self.catch_up()).await?;
        let candidate = self.policies.in_force().find(namespace, name)?;
        let stored = StoredPolicy {
            owner: actor.owner.to_owned(),
            put_at: self.clock.wall(),
            ..candidate.stored.clone()
        };
        let promote = Alteration {
            change: Change::PromoteCandidate(durable::Key::new(namespace, name), stored),
            action: "PromoteCandidate",
            namespace,
            name,
            actor,
            what: &candidate.stored.document,
        };
        let last = self.tried(&candidate);
        Box::pin(self.alter(&promote, |_| Ok(()))).await?;
        self.hand_over(self.event(EventKind::CandidatePromoted, namespace, name, actor));
        Ok((self.entry(namespace, name)?, last))
    }

    /// Drops a candidate and its numbers.
    ///
    /// # Errors
    /// [`Refusal::UnknownCandidate`] where none was put under this name.
    pub async fn delete_candidate(
        &self,
        namespace: &str,
        name: &str,
        actor: Actor<'_>,
    ) -> Result<(), Refusal> {
        let _one_at_a_time = self.changing.lock().await;
        Box::pin(self.catch_up()).await?;
        let key = durable::Key::new(namespace, name);
        if !self.put().candidates.contains_key(&key) {
            return Err(unknown(namespace, name));
        }
        let drop = Alteration {
            change: Change::DeleteCandidate(key),
            action: "DeleteCandidate",
            namespace,
            name,
            actor,
            what: "drop",
        };
        Box::pin(self.alter(&drop, |_| Ok(()))).await?;
        self.hand_over(self.event(EventKind::CandidateDropped, namespace, name, actor));
        Ok(())
    }

    /// The candidates of a namespace, the defaults' first.
    ///
    /// # Errors
    /// Where there is no such namespace.
    pub fn list_candidates(&self, namespace: &str) -> Result<Vec<Tried>, Refusal> {
        if !self.policies.has_namespace(namespace) {
            return Err(Refusal::UnknownNamespace(namespace.to_owned()));
        }
        let in_force = self.policies.in_force();
        let of = in_force.candidates.iter();
        let mut all: Vec<Tried> = of
            .filter(|candidate| candidate.namespace == namespace)
            .map(|candidate| self.tried(candidate))
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// One candidate, and the dependencies under which it differs most.
    ///
    /// # Errors
    /// [`Refusal::UnknownCandidate`].
    pub fn get_candidate(
        &self,
        namespace: &str,
        name: &str,
        limit: usize,
    ) -> Result<(Tried, Vec<Compared>), Refusal> {
        let candidate = self.policies.in_force().find(namespace, name)?;
        // By how much they differ, so that no more are held than are shown.
        let mut most: BTreeMap<(u64, String), Compared> = BTreeMap::new();
        let now = self.clock.now();
        self.store.visit(&mut |_, slot| {
            let Some(shadow) = slot.shadow().filter(|it| it.candidate == candidate.number) else {
                return;
            };
            let numbers = shadow.judge.numbers();
            let differs = numbers.refused_in_all().attempts()
                + numbers.let_through_in_all().attempts()
                + numbers.candidate.openings.opened;
            let dependency = slot.name.dependency.to_string();
            let compared = Compared {
                dependency: dependency.clone(),
                state: shadow.judge.record().state(&shadow.policy, now),
                numbers: numbers.clone(),
            };
            most.insert((u64::MAX - differs, dependency), compared);
            if most.len() > limit {
                most.pop_last();
            }
        });
        Ok((self.tried(&candidate), most.into_values().collect()))
    }

    pub(super) fn new_candidate(&self, key: &durable::Key, stored: &StoredPolicy) -> Candidate {
        let number = self.candidates.fetch_add(1, Ordering::Relaxed);
        Candidate::new(number, &key.namespace, &key.name, stored.clone())
    }

    /// Costs as much as there are dependencies.
    fn tried(&self, candidate: &Candidate) -> Tried {
        let gone = candidate.gone.lock();
        let mut numbers = gone.unwrap_or_else(PoisonError::into_inner).clone();
        let (mut dependencies, mut left_out) = (0, 0);
        let number = Some(candidate.number);
        self.store.visit(&mut |_, slot| match slot.shadow() {
            Some(shadow) if shadow.candidate == candidate.number => {
                dependencies += 1;
                numbers.add(shadow.judge.numbers());
            }
            Some(_) => {}
            None if *slot.name.namespace == candidate.namespace => {
                let name = &slot.name;
                let resolved = self.policies.resolve(&name.namespace, &name.dependency);
                let meant = resolved.and_then(|resolved| resolved.candidate);
                let current = slot.generation == self.generation.load(Ordering::Relaxed);
                left_out += u64::from(current && meant.map(|(number, _)| number) == number);
            }
            None => {}
        });
        Tried {
            namespace: candidate.namespace.clone(),
            name: candidate.name.clone(),
            stored: candidate.stored.clone(),
            dependencies,
            left_out,
            problem: candidate.problem(),
            numbers,
        }
    }
}
