//! Policies that are put on one replica hold on all. A change is on record here, then swapped into
//! the store, then in force; the others hear of it, or find it when they look.
//!
//! Without a shared store it is on record and then in force, and nobody can be faster.

use std::sync::{Arc, MutexGuard, PoisonError};

use super::{
    Actor, Coordinator, Event, EventKind, Refusal,
    candidates::Candidate,
    operators::{first_of, load},
    policies::InForce,
    put::{BYTES_MAX, PutPolicies, Rival},
};
use crate::{
    durable::Change,
    policy::{Finding, Source},
    store::{
        Store,
        redis::{Board, Put, Swapped, Version},
    },
};

/// Changes of others that one change may meet before it is refused.
const TRIES: u32 = 20;
/// Whose the policies are that do not come from files.
const STORE: &str = "the store";
/// What is recorded where a replica takes what another has put.
const TAKEN: &str = "TakeFromFleet";

/// What is known of the policies that were put.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Of the store; `None` without one, or where it has none.
    pub version: Version,
    pub put: Arc<PutPolicies>,
    /// Why they are not in force here.
    pub refused: Option<String>,
}

/// A change of the policies, as it was asked for.
#[derive(Debug)]
pub(super) struct Alteration<'a> {
    pub change: Change,
    pub action: &'static str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub actor: Actor<'a>,
    pub what: &'a str,
}

/// What a replica begins with.
///
/// # Errors
/// The store has what cannot be read.
pub(super) async fn at_start(
    board: Option<&Board>,
    own: PutPolicies,
) -> Result<Known, Vec<Finding>> {
    let alone = |own| Known {
        put: Arc::new(own),
        ..Known::default()
    };
    let Some((board, put)) = board.and_then(|it| Some((it, it.policies_at_start()?))) else {
        return Ok(alone(own));
    };
    let mut put = put.clone();
    if put.version.is_none() && !own.is_empty() {
        // Nobody has put anything: what the data directory has is the fleet's from here on.
        let own = PutPolicies {
            revision: 1,
            ..own.clone()
        };
        match board.swap_policies(&None, own.to_bytes()).await {
            Ok(Swapped::Done(version)) => {
                return Ok(Known {
                    version,
                    ..alone(own)
                });
            }
            Ok(Swapped::Other(theirs)) => put = theirs,
            // It is tried again while the replica runs.
            Err(_) => return Ok(alone(own)),
        }
    }
    match put.version {
        None => Ok(alone(own)),
        version => {
            let put = PutPolicies::of_bytes(&put.bytes).map_err(|problem| unreadable(&problem))?;
            Ok(Known {
                version,
                ..alone(put)
            })
        }
    }
}

fn unreadable(problem: &str) -> Vec<Finding> {
    let message = format!("what it has of policies cannot be read: {problem}");
    vec![Finding::of_file(STORE, message)]
}

impl<S: Store> Coordinator<S> {
    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is put, for the fleet as far as it is known here.
    pub(super) fn put(&self) -> Arc<PutPolicies> {
        Arc::clone(&self.known().put)
    }

    /// What these come to with the files in force.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub(super) async fn loaded(
        &self,
        put: &PutPolicies,
        sources: Vec<Source>,
    ) -> Result<InForce, Vec<Finding>> {
        let in_force = self.policies.in_force();
        let candidates = put.candidates.iter().map(|(key, stored)| {
            let same =
                |it: &&Arc<Candidate>| it.is(&key.namespace, &key.name) && it.stored == *stored;
            let tried = in_force.candidates.iter().find(same).cloned();
            tried.unwrap_or_else(|| Arc::new(self.new_candidate(key, stored)))
        });
        load(sources, put.overlays(), candidates.collect()).await
    }

    /// Carries a change through, on all replicas. `changing` is held, and what others have put is
    /// known. `check` looks at what would be in force.
    ///
    /// # Errors
    /// [`Refusal::Rival`] where somebody else has changed the same; nothing is in force then.
    pub(super) async fn alter(
        &self,
        wanted: &Alteration<'_>,
        check: impl Fn(&InForce) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let sources = self.policies.in_force().sources.clone();
        let base = self.known().clone();
        let put = base.put.with(&wanted.change);
        let next = self.loaded(&put, sources.clone()).await;
        let next = next.map_err(Refusal::BadPolicy)?;
        check(&next)?;
        let board = self.store.board();
        if board.is_some() {
            fits(&put)?;
        }
        let change = wanted.change.clone();
        let (namespace, name) = (wanted.namespace, wanted.name);
        let (actor, what) = (wanted.actor, wanted.what);
        self.commit(change, wanted.action, namespace, name, actor, what)
            .await?;
        let Some(board) = board else {
            let put = Arc::new(put);
            *self.known() = Known {
                put,
                ..Known::default()
            };
            self.exchange(next);
            return Ok(());
        };
        let recorded = put.clone();
        let swapped = Box::pin(self.swap_in(&board, wanted, base, (put, next), check)).await;
        if let Err(refusal) = &swapped {
            // What is on record did not come to be: the data directory goes back to what is.
            let why = format!("{} is not carried out: {refusal}", wanted.action);
            self.mirror(&recorded, &self.put(), &why).await;
        }
        swapped
    }

    async fn swap_in(
        &self,
        board: &Board,
        wanted: &Alteration<'_>,
        mut base: Known,
        (mut put, mut next): (PutPolicies, InForce),
        check: impl Fn(&InForce) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        for _ in 0..TRIES {
            let swapped = board.swap_policies(&base.version, put.to_bytes()).await;
            let theirs = match swapped.map_err(Refusal::Store)? {
                Swapped::Done(version) => {
                    let before = Arc::clone(&self.known().put);
                    *self.known() = Known {
                        version,
                        put: Arc::new(put),
                        refused: None,
                    };
                    self.exchange(next);
                    let taken = base.put;
                    self.mirror(&before, &taken, "put at another replica").await;
                    return Ok(());
                }
                Swapped::Other(theirs) => theirs,
            };
            if theirs.version.is_some() {
                let newer = PutPolicies::of_bytes(&theirs.bytes)
                    .map_err(|problem| Refusal::BadPolicy(unreadable(&problem)))?;
                if let Some(rival) = base.put.rival(&newer, &wanted.change) {
                    return Err(rivalled(wanted, rival));
                }
                base.put = Arc::new(newer);
            }
            base.version = theirs.version;
            put = base.put.with(&wanted.change);
            fits(&put)?;
            let sources = self.policies.in_force().sources.clone();
            let loaded = self.loaded(&put, sources).await;
            next = loaded.map_err(Refusal::BadPolicy)?;
            check(&next)?;
        }
        Err(Refusal::Rival {
            what: format!("the policies of namespace `{}`", wanted.namespace),
            who: format!("were changed {TRIES} times meanwhile"),
        })
    }

    /// Takes what others have put, if they have. `changing` is held.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) async fn catch_up(&self) -> Result<(), Refusal> {
        let Some(board) = self.store.board() else {
            return Ok(());
        };
        for _ in 0..TRIES {
            let known = self.known().clone();
            let other = board.other_policies(&known.version).await;
            let Some(theirs) = other.map_err(Refusal::Store)? else {
                return self.give(&board, &known).await;
            };
            if theirs.version.is_none() {
                // The store has lost them, and this replica has not.
                self.known().version = None;
                continue;
            }
            match PutPolicies::of_bytes(&theirs.bytes) {
                Ok(newer) if newer.revision < known.put.revision => {
                    // The store has lost what it had acknowledged.
                    let ours = known.put.to_bytes();
                    let swapped = board.swap_policies(&theirs.version, ours).await;
                    if let Swapped::Done(version) = swapped.map_err(Refusal::Store)? {
                        self.known().version = version;
                        return Ok(());
                    }
                }
                Ok(newer) => {
                    self.take_put(theirs, newer).await;
                    return Ok(());
                }
                Err(problem) => {
                    self.known().version = theirs.version;
                    self.refuse(&unreadable(&problem));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Gives the store what it has not, if there is anything.
    async fn give(&self, board: &Board, known: &Known) -> Result<(), Refusal> {
        if known.version.is_some() || known.put.is_empty() && known.put.revision == 0 {
            return Ok(());
        }
        let ours = known.put.to_bytes();
        let swapped = board.swap_policies(&None, ours).await;
        if let Swapped::Done(version) = swapped.map_err(Refusal::Store)? {
            self.known().version = version;
        }
        Ok(())
    }

    async fn take_put(&self, theirs: Put, newer: PutPolicies) {
        let before = self.put();
        let sources = self.policies.in_force().sources.clone();
        let loaded = self.loaded(&newer, sources).await;
        let put = Arc::new(newer);
        *self.known() = Known {
            version: theirs.version,
            put: Arc::clone(&put),
            refused: None,
        };
        self.mirror(&before, &put, "put at another replica").await;
        match loaded {
            Ok(next) => self.exchange(next),
            Err(findings) => self.refuse(&findings),
        }
    }

    /// The former policies stay in force here.
    fn refuse(&self, findings: &[Finding]) {
        let why = first_of(findings);
        tracing::warn!("what another replica has put is refused here: {why}");
        let actor = Actor {
            owner: "",
            reason: "",
        };
        self.hand_over(Event {
            detail: format!("put at another replica: {why}"),
            ..self.event(EventKind::PoliciesRefused, "", "", actor)
        });
        self.known().refused = Some(why);
    }

    /// Leads the data directory from one value to another. What cannot be written is the
    /// store's all the same.
    pub(super) async fn mirror(&self, before: &PutPolicies, after: &PutPolicies, why: &str) {
        for change in before.changes_to(after) {
            let (key, owner, what) = match &change {
                Change::PutPolicy(key, stored) => (key, &*stored.owner, "policy"),
                Change::PutCandidate(key, stored) => (key, &*stored.owner, "candidate"),
                Change::DeletePolicy(key) => (key, "", "no policy"),
                Change::DeleteCandidate(key) => (key, "", "no candidate"),
                Change::PromoteCandidate(..)
                | Change::SetOverride(..)
                | Change::ClearOverride(_)
                | Change::ForgetBreaker(_)
                | Change::ForgetHold(_)
                | Change::RecordOnly => continue,
            };
            let (namespace, name) = (key.namespace.to_string(), key.name.to_string());
            let actor = Actor { owner, reason: why };
            let kept = self.write_down(change.clone(), TAKEN, &namespace, &name, actor, what);
            if let Err(refusal) = kept.await {
                tracing::warn!("what another replica has put is not kept here: {refusal}");
            }
        }
    }
}

/// # Errors
/// They are too large.
fn fits(put: &PutPolicies) -> Result<(), Refusal> {
    let bytes = put.to_bytes().len();
    match bytes <= BYTES_MAX {
        true => Ok(()),
        false => Err(Refusal::invalid(
            "document",
            format!(
                "with it all that was put over the API has {bytes} bytes; at most {BYTES_MAX} \
                 over a shared store: put what seldom changes into policy files"
            ),
        )),
    }
}

fn rivalled(wanted: &Alteration<'_>, rival: Rival<'_>) -> Refusal {
    let of_policy = matches!(
        wanted.change,
        Change::PutPolicy(..) | Change::DeletePolicy(_)
    );
    let what = if of_policy { "policy" } else { "candidate" };
    let Alteration {
        name, namespace, ..
    } = wanted;
    Refusal::Rival {
        what: format!("the {what} `{name}` of namespace `{namespace}`"),
        who: match rival {
            Rival::Put(owner) => format!("was put by {owner} meanwhile, at another replica"),
            Rival::Deleted => "was deleted meanwhile, at another replica".to_owned(),
        },
    }
}
