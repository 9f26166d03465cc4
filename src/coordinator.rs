//! A question becomes an answer: find the policy, read the clock and draw once, apply the
//! rule to the record, tell what changed.
//!
//! No rule is here; rules are `holdoff_decision`'s. Nothing of the wire is here either.

mod altering;
mod candidates;
mod checked_policy;
mod checks;
mod counting;
pub mod degraded;
pub mod events;
mod evidence;
mod happened;
mod history;
mod inquiry;
mod listing;
mod numbered;
mod observing;
mod operators;
mod overview;
mod passing;
mod policies;
mod predecessor;
mod push;
mod put;
mod questions;
mod refusal;
mod replicas;
mod reports;
mod restore;
mod survey;
mod telling;
mod traffic;
mod upkeep;
pub mod watchers;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

use holdoff_decision::{
    Ask, Context, MadeUnder, Policy, Question, Reach, Record, Time, acquire, reach_of_ask,
};

pub use candidates::{Compared, Tried};
pub use checks::{CheckAsk, Planned};
pub use events::{Event, EventKind, Events};
pub use history::{Histories, POINT_EVERY, Point};
pub use inquiry::{Actor, Caller, Decision, Entry, Inquiry, Key, Made, Subject, Who};
pub use listing::{Filter, Listing, Shown, ShownCheck};
pub use overview::{Ahead, Detail, Glance};
pub use passing::{Allowance, Hits, Passage, Passed, Reporting};
pub use policies::Policies;
pub use push::{Pushed, SUBSCRIPTIONS_MAX};
pub use refusal::Refusal;
pub use replicas::{About, Replica};
pub use restore::{Parts, Start};
pub use survey::{Seen, Survey};
pub use traffic::{Followed, REASONS, Reporter, Traffic};
pub use watchers::Watcher;

use crate::{
    candidate::Trials,
    clock::Clock,
    durable::Durable,
    entropy::Entropy,
    permit::{DependencyId, PermitCodec},
    recording::Recorder,
    store::{Figures, Run, Seed, Slot, Store, StoreError},
    telemetry::{Counter, Telemetry},
};

/// Orders of operators that may be written down at once.
const ORDERINGS: usize = 64;

/// Answers questions about all dependencies. Shared by every connection.
#[derive(Debug)]
pub struct Coordinator<S> {
    store: S,
    policies: Policies,
    /// Rises with each change of the policies; slots resolve theirs again when they lag.
    generation: AtomicU32,
    clock: Clock,
    entropy: Entropy,
    permits: PermitCodec,
    predecessor: predecessor::Predecessor,
    durable: Durable,
    events: Events,
    watchers: watchers::Watchers,
    /// When overrides and holds end, so that nobody has to call for it to be told or forgotten.
    expiries: Mutex<std::collections::BTreeSet<(Time, DependencyId)>>,
    telemetry: Arc<Telemetry>,
    traffic: traffic::Tracks,
    histories: Histories,
    /// Numbers candidates: each that is put gets another.
    candidates: std::sync::atomic::AtomicU64,
    trials: Trials,
    halves: numbered::Halves,
    recorder: Option<Recorder>,
    /// The policies that were put, for the fleet.
    known: Mutex<altering::Known>,
    replicas: replicas::Replicas,
    /// Held while the policies are changed.
    changing: tokio::sync::Mutex<()>,
    /// Held while a dependency is forced or released: one of them by its id.
    ordering: [tokio::sync::Mutex<()>; ORDERINGS],
}

impl<S: Store> Coordinator<S> {
    pub fn telemetry(&self) -> &Arc<Telemetry> {
        self.count_lost();
        &self.telemetry
    }

    pub fn events(&self) -> &Events {
        &self.events
    }

    pub fn histories(&self) -> &Histories {
        &self.histories
    }

    pub fn dependencies(&self) -> usize {
        self.store.len()
    }

    pub fn store_figures(&self) -> Figures {
        self.store.figures()
    }

    pub fn has_namespace(&self, namespace: &str) -> bool {
        self.policies.has_namespace(namespace)
    }

    /// For comparing with the times of events, which people are shown.
    pub fn wall_now(&self) -> std::time::SystemTime {
        self.clock.wall()
    }

    /// For spans of time that are told and decide nothing.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn durability_degraded(&self) -> bool {
        self.durable.degraded()
    }

    /// Answers one question.
    ///
    /// # Errors
    /// Nothing was decided and nothing changed; see [`Refusal`].
    pub async fn acquire(&self, inquiry: &Inquiry<'_>) -> Result<Decision, Refusal> {
        let id = self.id(inquiry.key);
        let question = self.question(id, &inquiry.subject);
        let context = self.context();
        let mut ask = Ask {
            question,
            caller: self.instance(inquiry.caller),
            service: 0,
            call: (!inquiry.call_id.is_empty()).then(|| self.permits.hash(inquiry.call_id)),
            idempotent: inquiry.idempotent,
            time_left: inquiry.time_left,
            cost: inquiry.cost,
            priority: inquiry.priority,
        };
        let asked = ask;
        let mut degraded = false;
        let reach = |slot: &Slot, policy: &Policy| {
            let (floor_from, now) = (context.floor_from(policy), context.now);
            reach_of_ask(policy, &slot.record, &asked, floor_from, now)
        };
        let mut answer = self
            .transact_under(id, inquiry.key, context.now, reach, |slot| {
                degraded = slot.notes.run() == Run::Alone;
                if slot
                    .policy
                    .rate
                    .as_ref()
                    .is_some_and(|rate| rate.per_caller)
                {
                    ask.service = self.permits.hash(inquiry.caller.service);
                }
                if self.policies.bypasses(&slot.policy) {
                    let mut blank = Record::new(slot.record.breaker.epoch, context.now);
                    return acquire(&slot.policy, &mut blank, &ask, &context);
                }
                let before = self.before(slot, ask.caller, &context);
                let answer = acquire(&slot.policy, &mut slot.record, &ask, &context);
                if let Err(denial) = &answer.verdict {
                    slot.note_denial(denial.reason);
                }
                evidence::note_asked(slot, &ask, answer.previous, context.now);
                if let Some(before) = before {
                    let asked = (&ask, inquiry.caller);
                    self.observe_asked(id, slot, asked, &answer, &before, &context);
                }
                self.tell_changes(id, slot, Who::Caller(inquiry.caller), context.now);
                answer
            })
            .await?;
        if let Question::Retry { previous, .. } = &ask.question
            && let MadeUnder::Permit(permit) = &previous.made_under
        {
            answer.previous = answer.previous.map(|reported| permit.told(reported));
        }
        self.count_answer(&answer, &ask);
        self.traffic
            .answered(id, ask.caller, inquiry, &answer, context.now);
        let permit = answer
            .verdict
            .as_ref()
            .ok()
            .map(|grant| self.permits.write(id, &grant.permit));
        if degraded {
            self.telemetry.add(Counter::Degraded);
        }
        Ok(Decision {
            answer,
            permit,
            degraded,
        })
    }

    fn id(&self, key: Key<'_>) -> DependencyId {
        self.permits.dependency(key.namespace, key.dependency)
    }

    fn context(&self) -> Context {
        Context {
            now: self.clock.now(),
            sample: self.entropy.sample(),
            restarted: self.predecessor.restarted(),
        }
    }

    /// One process: instances of different services may bear the same name, and all that have
    /// none are one.
    fn instance(&self, caller: Caller<'_>) -> u64 {
        match caller.instance {
            "" => 0,
            instance => self.permits.dependency(caller.service, instance).0,
        }
    }

    /// Applies `rule` to the record of `key`, made where there is none, under its present
    /// policy.
    fn transact<R: Send>(
        &self,
        id: DependencyId,
        key: Key<'_>,
        now: Time,
        reach: impl Fn(&Slot) -> Reach + Send,
        rule: impl FnMut(&mut Slot) -> R + Send,
    ) -> impl Future<Output = Result<R, Refusal>> + Send {
        let reach = move |slot: &Slot, _: &Policy| reach(slot);
        self.transact_under(id, key, now, reach, rule)
    }

    /// As [`Self::transact`]; `reach` is told the policy that the rule will go by.
    async fn transact_under<R: Send>(
        &self,
        id: DependencyId,
        key: Key<'_>,
        now: Time,
        reach: impl Fn(&Slot, &Policy) -> Reach + Send,
        mut rule: impl FnMut(&mut Slot) -> R + Send,
    ) -> Result<R, Refusal> {
        // Whoever sees a new generation must see its policies too.
        let generation = self.generation.load(Ordering::Acquire);
        self.store
            .transact(
                id,
                key.namespace,
                |epoch| self.seed(key, epoch, generation, now),
                move |slot| {
                    if slot.generation == generation {
                        return reach(slot, &slot.policy);
                    }
                    let resolved = self.policies.resolve(key.namespace, key.dependency);
                    // Where there is none the rule is not applied.
                    resolved.map_or(Reach::Fleet, |it| reach(slot, &it.policy))
                },
                |slot| {
                    if slot.generation != generation {
                        self.refresh(slot, generation)?;
                    }
                    Ok(self.within_part(slot, now, &mut rule))
                },
            )
            .await
            .map_err(|refused| self.explain(refused, key))?
            .map_err(|refused: StoreError| self.explain(refused, key))
    }

    fn seed(
        &self,
        key: Key<'_>,
        epoch: u64,
        generation: u32,
        now: Time,
    ) -> Result<Seed, StoreError> {
        let resolved = self.policies.resolve(key.namespace, key.dependency);
        let resolved = resolved.ok_or(StoreError::Unknown)?;
        if !resolved.may_appear {
            return Err(StoreError::Unknown);
        }
        // A candidate is taken up by the refresh that a generation before makes necessary.
        let behind = u32::from(resolved.candidate.is_some());
        Ok(Seed {
            dependency: key.dependency.into(),
            policy: resolved.policy,
            generation: generation.wrapping_sub(behind),
            record: Record::new(epoch, now),
            limits: resolved.limits,
        })
    }

    /// A good reload keeps live state: only the policy is exchanged.
    fn refresh(&self, slot: &mut Slot, generation: u32) -> Result<(), StoreError> {
        let name = &slot.name;
        let resolved = self.policies.resolve(&name.namespace, &name.dependency);
        let resolved = resolved.ok_or(StoreError::Unknown)?;
        slot.policy = resolved.policy;
        slot.generation = generation;
        self.try_beside(slot, resolved.candidate);
        Ok(())
    }

    /// As [`Self::refresh`], for those that may go on under the former policy where its
    /// namespace is gone.
    fn renew(&self, slot: &mut Slot) {
        let generation = self.generation.load(Ordering::Acquire);
        if slot.generation != generation {
            // The former policy stays.
            let _ = self.refresh(slot, generation);
        }
    }
}
