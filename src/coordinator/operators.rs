//! What operators do. A mutation is on disk, with its audit record, before it takes effect.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use holdoff_decision::{
    Nanos, operate,
    record::{Override, OverrideKind},
};

use super::{
    Actor, Coordinator, Event, EventKind, Key, Refusal, Shown, Who, altering::Alteration,
    candidates::Candidate, checked_policy::not_checked, events::Teller, observing::Ordered,
    policies::InForce,
};
use crate::{
    durable::{
        self, AuditEntry, AuditLink, AuditVerdict, Change, DurableError, StoredPolicy, TimeLeft,
    },
    permit::DependencyId,
    policy::{EntryView, Explained, Finding, Overlay, watch::Reading},
    store::{Slot, Store, StoreError, by_store},
    telemetry::{Counter, Refused, Timed},
};

/// The longest that a mutation waits for the disk.
pub(super) const DURABLE_WITHIN: Duration = Duration::from_secs(5);

impl<S: Store> Coordinator<S> {
    /// Forces a breaker until it is cleared or `expires_in` is over.
    ///
    /// # Errors
    /// Nothing was forced; see [`Refusal`].
    pub async fn set_override(
        &self,
        key: Key<'_>,
        kind: OverrideKind,
        actor: Actor<'_>,
        expires_in: Option<Nanos>,
    ) -> Result<Shown, Refusal> {
        let id = self.id(key);
        let _one_at_a_time = self.ordering(id).await;
        // A dependency that may not appear is refused before anything is written.
        self.transact(id, key, self.clock.now(), by_store, |_| ())
            .await?;
        let wall = self.clock.wall();
        let kept = durable::Override {
            kind: match kind {
                OverrideKind::ForceOpen => durable::OverrideKind::ForceOpen,
                OverrideKind::ForceClosed => durable::OverrideKind::ForceClosed,
            },
            owner: actor.owner.to_owned(),
            reason: actor.reason.to_owned(),
            set_at: wall,
            expires: expires_in.map(|left| TimeLeft {
                left: left.into(),
                at: wall,
            }),
        };
        let what = match (kind, expires_in) {
            (OverrideKind::ForceOpen, None) => "force open".to_owned(),
            (OverrideKind::ForceClosed, None) => "force closed".to_owned(),
            (OverrideKind::ForceOpen, Some(left)) => format!("force open for {left}"),
            (OverrideKind::ForceClosed, Some(left)) => format!("force closed for {left}"),
        };
        let change = Change::SetOverride(durable_key(key), kept);
        self.commit(
            change,
            "SetOverride",
            key.namespace,
            key.dependency,
            actor,
            &what,
        )
        .await?;
        let now = self.clock.now();
        let order = Override {
            kind,
            owner: actor.owner.to_owned(),
            reason: actor.reason.to_owned(),
            set_at: now,
            expires: expires_in.map(|left| now + left),
        };
        self.note_expiry(order.expires, id);
        self.transact(id, key, now, by_store, |slot| {
            self.observed_order(id, slot, Ordered::Forced(&order), now);
            operate::set_override(&mut slot.record, order.clone(), now);
            self.tell_changes(id, slot, Who::Operator(actor), now);
        })
        .await?;
        self.get(key).await
    }

    /// Ends an override.
    ///
    /// # Errors
    /// [`Refusal::NothingToClear`] where there is none.
    pub async fn clear_override(&self, key: Key<'_>, actor: Actor<'_>) -> Result<Shown, Refusal> {
        let _one_at_a_time = self.ordering(self.id(key)).await;
        if self.show_by(key, by_store).await?.order.is_none() {
            return Err(nothing(key, "override"));
        }
        let change = Change::ClearOverride(durable_key(key));
        self.commit(
            change,
            "ClearOverride",
            key.namespace,
            key.dependency,
            actor,
            "clear",
        )
        .await?;
        self.change(key, actor, |slot, now| {
            self.observed_order(self.id(key), slot, Ordered::Released, now);
            operate::clear_override(&mut slot.record, now);
        })
        .await?;
        self.get(key).await
    }

    /// Forgets what was learned of a dependency.
    ///
    /// # Errors
    /// Where there is no such dependency, or it could not be recorded.
    pub async fn reset(&self, key: Key<'_>, actor: Actor<'_>) -> Result<Shown, Refusal> {
        self.show_by(key, by_store).await?;
        let change = Change::ForgetBreaker(durable_key(key));
        self.commit(
            change,
            "ResetDependency",
            key.namespace,
            key.dependency,
            actor,
            "reset",
        )
        .await?;
        self.change(key, actor, |slot, now| {
            self.observed_order(self.id(key), slot, Ordered::Reset, now);
            operate::reset(&mut slot.record, now)
        })
        .await?;
        self.get(key).await
    }

    /// Ends a dependency-wide hold.
    ///
    /// # Errors
    /// [`Refusal::NothingToClear`] where there is none.
    pub async fn clear_hold(&self, key: Key<'_>, actor: Actor<'_>) -> Result<Shown, Refusal> {
        let seen = self.show_by(key, by_store).await?;
        if seen.view.held_for.is_none() {
            return Err(nothing(key, "hold"));
        }
        let change = Change::ForgetHold(durable_key(key));
        self.commit(
            change,
            "ClearHold",
            key.namespace,
            key.dependency,
            actor,
            "clear",
        )
        .await?;
        self.change(key, actor, |slot, now| {
            self.observed_order(self.id(key), slot, Ordered::HoldCleared, now);
            operate::clear_hold(&mut slot.record, now);
            slot.set_told_held(None);
            // What was handed over since the commit has the hold still.
            self.keep(slot, now);
        })
        .await?;
        self.hand_over(self.event(EventKind::HoldCleared, key.namespace, key.dependency, actor));
        self.get(key).await
    }

    /// Stores a policy and puts it in force.
    ///
    /// # Errors
    /// [`Refusal::BadPolicy`] with all that is wrong; nothing was stored.
    pub async fn put_policy(
        &self,
        namespace: &str,
        name: &str,
        document: &str,
        actor: Actor<'_>,
    ) -> Result<EntryView, Refusal> {
        let _one_at_a_time = self.changing.lock().await;
        if !self.policies.has_namespace(namespace) {
            return Err(Refusal::UnknownNamespace(namespace.to_owned()));
        }
        Box::pin(self.catch_up()).await?;
        let stored = StoredPolicy {
            document: document.to_owned(),
            owner: actor.owner.to_owned(),
            put_at: self.clock.wall(),
        };
        let put = Alteration {
            change: Change::PutPolicy(durable::Key::new(namespace, name), stored),
            action: "PutPolicy",
            namespace,
            name,
            actor,
            what: document,
        };
        Box::pin(self.alter(&put, |_| Ok(()))).await?;
        self.hand_over(self.event(EventKind::PolicyPut, namespace, name, actor));
        self.entry(namespace, name)
    }

    /// Removes a stored policy.
    ///
    /// # Errors
    /// [`Refusal::UnknownPolicy`] where none is stored under this name.
    pub async fn delete_policy(
        &self,
        namespace: &str,
        name: &str,
        actor: Actor<'_>,
    ) -> Result<(), Refusal> {
        let _one_at_a_time = self.changing.lock().await;
        Box::pin(self.catch_up()).await?;
        let key = durable::Key::new(namespace, name);
        if !self.put().policies.contains_key(&key) {
            return Err(unknown_policy(namespace, name));
        }
        let delete = Alteration {
            change: Change::DeletePolicy(key),
            action: "DeletePolicy",
            namespace,
            name,
            actor,
            what: "delete",
        };
        Box::pin(self.alter(&delete, |_| Ok(()))).await?;
        self.hand_over(self.event(EventKind::PolicyDeleted, namespace, name, actor));
        Ok(())
    }

    /// Takes changed policy files, or says what is wrong with them and keeps the former ones.
    pub async fn reload(&self, reading: Reading) {
        let _one_at_a_time = self.changing.lock().await;
        let in_force = self.policies.in_force();
        let put = self.put();
        let loaded = match reading {
            Ok(sources) => self.loaded(&put, sources).await,
            Err(findings) => Err(findings),
        };
        let nobody = Actor {
            owner: "",
            reason: "",
        };
        let (kind, result, detail) = match loaded {
            Ok(next) => {
                let changes = crate::policy::diff(&in_force.set, &next.set).len();
                self.known().refused = None;
                self.exchange(next);
                (
                    EventKind::PoliciesReloaded,
                    Ok(()),
                    format!("{changes} values changed"),
                )
            }
            Err(findings) => (EventKind::PoliciesRefused, Err(()), first_of(&findings)),
        };
        self.telemetry.policy_files(result);
        self.hand_over(Event {
            detail,
            ..self.event(kind, "", "", nobody)
        });
    }

    /// The entries of a namespace, the defaults first.
    ///
    /// # Errors
    /// Where there is no such namespace.
    pub fn entries(&self, namespace: &str) -> Result<Vec<EntryView>, Refusal> {
        let entries = self.policies.in_force().set.entries(namespace);
        entries.ok_or_else(|| Refusal::UnknownNamespace(namespace.to_owned()))
    }

    /// The policy that a dependency gets, as YAML and value by value.
    ///
    /// # Errors
    /// Where there is no such namespace.
    pub fn explain_policy(&self, key: Key<'_>) -> Result<(String, Vec<Explained>), Refusal> {
        let in_force = self.policies.in_force();
        let resolved = in_force.set.resolve(key.namespace, key.dependency);
        let values = in_force.set.explain(key.namespace, key.dependency);
        match (resolved, values) {
            (Some((policy, _)), Some(values)) => Ok((crate::policy::to_yaml(&policy), values)),
            _ => Err(Refusal::UnknownNamespace(key.namespace.to_owned())),
        }
    }

    /// A page of audit records.
    ///
    /// # Errors
    /// Where the data directory cannot be read.
    pub async fn audit(
        &self,
        namespace: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditLink>, Refusal> {
        Ok(self
            .durable
            .audit_page(Some(namespace), after, limit)
            .await?)
    }

    /// Whether the audit log, of all namespaces, is whole.
    ///
    /// # Errors
    /// Where the data directory cannot be read.
    pub async fn audit_chain(&self, namespace: &str) -> Result<AuditVerdict, Refusal> {
        Ok(self.durable.audit_verify(namespace).await?)
    }

    /// Two orders for one dependency must come into force in the order in which they are
    /// written down, or a restart would bring back the one that lost.
    async fn ordering(&self, id: DependencyId) -> tokio::sync::MutexGuard<'_, ()> {
        self.ordering[(id.0 % super::ORDERINGS as u64) as usize]
            .lock()
            .await
    }

    async fn change(
        &self,
        key: Key<'_>,
        actor: Actor<'_>,
        mut change: impl FnMut(&mut Slot, holdoff_decision::Time) + Send,
    ) -> Result<(), Refusal> {
        let (id, now) = (self.id(key), self.clock.now());
        let changed = self
            .store
            .transact(
                id,
                key.namespace,
                |_| Err(StoreError::Unknown),
                by_store,
                |slot| {
                    change(slot, now);
                    self.tell_changes(id, slot, Who::Operator(actor), now);
                },
            )
            .await;
        match changed {
            // A dependency that only a policy names has nothing to be changed.
            Ok(()) | Err(StoreError::Unknown) => Ok(()),
            Err(other) => Err(Refusal::Store(other)),
        }
    }

    pub(super) async fn commit(
        &self,
        change: Change,
        action: &str,
        namespace: &str,
        name: &str,
        actor: Actor<'_>,
        what: &str,
    ) -> Result<(), Refusal> {
        if let Err(away) = self.store.confirm().await {
            // What cannot take effect is not written down either.
            self.telemetry
                .add(Counter::Refused(Refused::StoreUnavailable));
            return Err(Refusal::Store(away));
        }
        self.write_down(change, action, namespace, name, actor, what)
            .await
    }

    /// As [`Self::commit`], of what is so already.
    pub(super) async fn write_down(
        &self,
        change: Change,
        action: &str,
        namespace: &str,
        name: &str,
        actor: Actor<'_>,
        what: &str,
    ) -> Result<(), Refusal> {
        let detail = match actor.reason {
            "" => what.to_owned(),
            reason => format!("{what}: {reason}"),
        };
        let entry = AuditEntry {
            time: self.clock.wall(),
            owner: actor.owner.to_owned(),
            action: action.to_owned(),
            namespace: namespace.to_owned(),
            dependency: name.to_owned(),
            detail,
        };
        let began = self.clock.now();
        let committed = self.durable.commit(change, entry);
        let refused = match tokio::time::timeout(DURABLE_WITHIN, committed).await {
            Ok(Ok(_)) => {
                let took = began.until(self.clock.now());
                self.telemetry.time(Timed::Commit, took.into());
                return Ok(());
            }
            Ok(Err(error)) => Refusal::Durable(error),
            Err(_) => Refusal::TooSlow(DURABLE_WITHIN),
        };
        self.telemetry.add(Counter::Refused(match &refused {
            Refusal::Durable(DurableError::Busy { .. }) => Refused::DiskBusy,
            Refusal::TooSlow(_) => Refused::DiskSlow,
            _ => Refused::DiskUnavailable,
        }));
        Err(refused)
    }

    pub(super) fn exchange(&self, next: InForce) {
        self.policies.exchange(next);
        self.telemetry.policies_taken(self.clock.wall());
        self.generation.fetch_add(1, Ordering::Release);
        self.watchers.all_changed();
    }

    pub(super) fn entry(&self, namespace: &str, name: &str) -> Result<EntryView, Refusal> {
        let entry = self
            .entries(namespace)?
            .into_iter()
            .find(|entry| entry.name == name);
        entry.ok_or_else(|| unknown_policy(namespace, name))
    }

    pub(super) fn event(
        &self,
        kind: EventKind,
        namespace: &str,
        name: &str,
        actor: Actor<'_>,
    ) -> Event {
        Event {
            sequence: 0,
            time: self.clock.wall(),
            kind,
            namespace: namespace.to_owned(),
            dependency: name.to_owned(),
            states: None,
            epoch: 0,
            detail: actor.reason.to_owned(),
            owner: actor.owner.to_owned(),
            teller: Teller::default(),
        }
    }
}

/// Checks policies on a thread of its own: a large file takes a while, and this one decides.
pub(super) async fn load(
    sources: Vec<crate::policy::Source>,
    overlays: Vec<Overlay>,
    candidates: Vec<Arc<Candidate>>,
) -> Result<InForce, Vec<Finding>> {
    let loaded =
        tokio::task::spawn_blocking(move || InForce::load(sources, overlays, candidates)).await;
    loaded.unwrap_or_else(|failed| Err(not_checked(failed)))
}

fn durable_key(key: Key<'_>) -> durable::Key {
    durable::Key::new(key.namespace, key.dependency)
}

pub(super) fn without(overlays: &[Overlay], namespace: &str, name: &str) -> Vec<Overlay> {
    let other = |overlay: &&Overlay| overlay.namespace != namespace || overlay.name != name;
    overlays.iter().filter(other).cloned().collect()
}

fn nothing(key: Key<'_>, what: &'static str) -> Refusal {
    Refusal::NothingToClear {
        dependency: key.dependency.to_owned(),
        what,
    }
}

fn unknown_policy(namespace: &str, name: &str) -> Refusal {
    Refusal::UnknownPolicy {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

pub(super) fn first_of(findings: &[Finding]) -> String {
    match findings {
        [] => "no reason is known".to_owned(),
        [one] => one.to_string(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}
