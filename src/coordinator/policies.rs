//! The policies in force: those of files, with those put over the API laid over them, and the
//! candidates that are tried beside them.

use std::sync::Arc;

use arc_swap::ArcSwap;
use holdoff_decision::{
    Policy, Share,
    policy::{Mode, PushbackScope},
};

use super::candidates::Candidate;
use crate::{
    policy::{Finding, Named, Overlay, PolicySet, Source},
    store::Limits,
};

/// See the module. Reading takes no lock.
#[derive(Debug)]
pub struct Policies {
    in_force: ArcSwap<InForce>,
    /// What every dependency of a bypassed namespace gets: only the limits of a call itself.
    bypass: Arc<Policy>,
}

/// What was loaded, and from what.
#[derive(Debug)]
pub struct InForce {
    pub set: PolicySet,
    pub sources: Vec<Source>,
    pub candidates: Vec<Arc<Candidate>>,
}

/// What one name gets.
#[derive(Debug)]
pub struct Resolved {
    pub policy: Arc<Policy>,
    /// Whether a dependency of this name may be made.
    pub may_appear: bool,
    /// The number of the candidate that is tried beside it, and its policy.
    pub candidate: Option<(u64, Arc<Policy>)>,
    pub limits: Limits,
}

impl Policies {
    pub fn new(in_force: InForce) -> Self {
        Self {
            in_force: ArcSwap::from_pointee(in_force),
            bypass: Arc::new(bypass()),
        }
    }

    pub fn in_force(&self) -> Arc<InForce> {
        self.in_force.load_full()
    }

    pub fn exchange(&self, in_force: InForce) {
        self.in_force.store(Arc::new(in_force));
    }

    /// `None`: there is no such namespace.
    pub fn resolve(&self, namespace: &str, dependency: &str) -> Option<Resolved> {
        let in_force = self.in_force.load();
        let settings = in_force.set.namespace(namespace)?;
        let (policy, named) = settings.resolve(dependency);
        let policy = if settings.bypass() {
            &self.bypass
        } else {
            policy
        };
        let candidate = match in_force.candidates.is_empty() || settings.bypass() {
            true => None,
            false => in_force.candidate_of(namespace, dependency),
        };
        Some(Resolved {
            candidate,
            policy: Arc::clone(policy),
            may_appear: settings.auto_create() || named != Named::Defaults,
            limits: Limits {
                in_namespace: settings.max_dependencies(),
                in_all: in_force.set.max_dependencies_total(),
                namespaces: in_force.set.max_namespaces(),
            },
        })
    }

    pub fn has_namespace(&self, namespace: &str) -> bool {
        self.in_force.load().set.namespace(namespace).is_some()
    }

    /// Whether this is the policy of a namespace that lets every call through.
    pub fn bypasses(&self, policy: &Arc<Policy>) -> bool {
        Arc::ptr_eq(policy, &self.bypass)
    }
}

impl InForce {
    /// # Errors
    /// Everything that is wrong with them.
    pub fn load(
        sources: Vec<Source>,
        overlays: Vec<Overlay>,
        candidates: Vec<Arc<Candidate>>,
    ) -> Result<Self, Vec<Finding>> {
        let set = PolicySet::load(&sources, &overlays)?;
        let laid = |candidate: Arc<Candidate>| Arc::new(candidate.laid_on(&sources, &overlays));
        Ok(Self {
            candidates: candidates.into_iter().map(laid).collect(),
            set,
            sources,
        })
    }

    /// The candidate that a dependency gets: the nearest one that applies.
    fn candidate_of(&self, namespace: &str, dependency: &str) -> Option<(u64, Arc<Policy>)> {
        let applying = self.candidates.iter().filter_map(|candidate| {
            let policy = candidate.policy_of(namespace, dependency)?;
            Some((candidate, policy))
        });
        let nearest = applying.max_by_key(|(candidate, _)| {
            let is_pattern = candidate.name.ends_with('*');
            (
                !candidate.name.is_empty() && !is_pattern,
                candidate.name.len(),
            )
        });
        nearest.map(|(candidate, policy)| (candidate.number, policy))
    }
}

/// Local retries only: no breaker, no rate, no hold, and a budget that is never empty.
fn bypass() -> Policy {
    let mut policy = Policy {
        rate: None,
        ..Policy::default()
    };
    policy.breaker.mode = Mode::Off;
    policy.pushback.scope = PushbackScope::Caller;
    policy.budget.floor_micros_per_second = u64::from(u32::MAX) * 1_000_000;
    policy.budget.max_caller_share = Share::ONE;
    policy
}
