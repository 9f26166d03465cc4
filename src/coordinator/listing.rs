//! What readers are shown. Reading takes no permit and changes no epoch.
//!
//! A page is by name although the store has no order: the names that follow the last page are
//! sifted through a heap of one page. A page costs as much as there are dependencies; nothing
//! else does.

use std::{collections::BTreeSet, sync::Arc};

use holdoff_decision::{
    Nanos, Policy, Reach, Record, State, Time,
    breaker::{Cause, Phase},
    check::{Checks, Summary},
    record::{Context, Override, Sample},
    view::{View, view},
    window::Counts,
};

use super::{Coordinator, Key, Refusal, Watcher, evidence};
use crate::store::{Denied, Slot, Store, StoreError, by_here};

/// One dependency, as of now.
#[derive(Clone, Debug)]
pub struct Shown {
    pub namespace: String,
    pub name: String,
    pub view: View,
    pub order: Option<Override>,
    /// False: only a policy names it.
    pub live: bool,
    /// `None`: its policy plans no health checks.
    pub check: Option<ShownCheck>,
    /// What was denied, where anything was.
    pub denied: Option<Box<Denied>>,
    /// Sessions that follow its state.
    pub followers: u32,
    /// The window of its budget.
    pub budget_ttl: Nanos,
    /// Whether its breaker is closed, whatever an operator or the mode makes of it.
    pub breaker: Phase,
    /// The calls that opened its breaker, while it is open and where they are known.
    pub opened: Option<Counts>,
    /// How long nothing has happened to it.
    pub quiet_for: Nanos,
    pub now: Time,
}

/// A budget's window begins up to a tenth of it late, since it is counted in buckets.
const WINDOW_AT_LEAST: f64 = 0.9;
/// Above this share of failures the average of successes stands still.
const AVERAGE_STANDS: f32 = 0.5;

impl Shown {
    /// Share of the calls that failed, 0 to 1. While the breaker is closed: of the window, or of
    /// the last outcomes where the detector has none. While it is not: of those that opened it;
    /// `None` where they are not known.
    pub fn failing(&self) -> Option<f64> {
        self.judged().map(|counts| failing(&self.view, counts))
    }

    /// Share of the same calls that were slow, 0 to 1; 0 where there is no window.
    pub fn slow(&self) -> Option<f64> {
        match self.judged()? {
            Counts { calls: 0, .. } => Some(0.0),
            counts => Some(f64::from(counts.slow) / f64::from(counts.calls)),
        }
    }

    /// The calls of which these are the shares; none where the detector has no window.
    pub fn judged(&self) -> Option<Counts> {
        judged(self.breaker, self.view.counts, self.opened)
    }

    /// Why it is in its state, with the numbers.
    pub fn why(&self) -> String {
        evidence::told(self.view.cause, self.opened)
    }

    /// First attempts a second, over the window of the budget: 0 where none came.
    ///
    /// A window with `n` calls says `n` to `n + 1`. In between it is what the average of
    /// successes says, where that goes on: a call in twenty seconds is none in most windows.
    pub fn calls_per_second(&self) -> f64 {
        let view = &self.view;
        let calls = view.budget.first_attempts as f64;
        // A young record has not counted for a whole window yet.
        let counted_for = match view.cause {
            Cause::New | Cause::Restored => self.budget_ttl.min(view.in_state_for),
            _ => self.budget_ttl,
        };
        let counted_for = counted_for.as_secs_f64().max(1.0);
        let least = calls / counted_for;
        if self.breaker != Phase::Closed || view.failing > AVERAGE_STANDS {
            return least;
        }
        let within = (counted_for * WINDOW_AT_LEAST).max(self.quiet_for.as_secs_f64());
        let average = view.throughput.unwrap_or(0.0);
        average.min((calls + 1.0) / within).max(least)
    }

    /// First attempts a second as they were before an outage that lasts, or as they are.
    pub fn usual_calls_per_second(&self) -> f64 {
        match self.breaker {
            Phase::Closed => self.calls_per_second(),
            Phase::Open | Phase::HalfOpen => self.view.calls_per_second(self.budget_ttl),
        }
    }
}

/// The health checks of a dependency.
#[derive(Clone, Copy, Debug)]
pub struct ShownCheck {
    /// The policy's.
    pub period: Nanos,
    pub summary: Summary,
}

/// Which dependencies.
#[derive(Clone, Copy, Debug)]
pub struct Filter<'a> {
    pub namespace: &'a str,
    pub name_prefix: &'a str,
    /// Only names after this one.
    pub after: &'a str,
    /// Empty: all states.
    pub states: &'a [State],
    /// At least 1.
    pub limit: usize,
}

/// A page.
#[derive(Clone, Debug)]
pub struct Listing {
    pub shown: Vec<Shown>,
    pub more: bool,
}

impl<S: Store> Coordinator<S> {
    /// One page of dependencies, live or only named by a policy. What it shows is durable.
    ///
    /// # Errors
    /// Where there is no such namespace.
    pub async fn list(&self, filter: Filter<'_>) -> Result<Listing, Refusal> {
        let in_force = self.policies.in_force();
        let settings = in_force.set.namespace(filter.namespace);
        let settings = settings.ok_or(Refusal::UnknownNamespace(filter.namespace.to_owned()))?;
        let context = self.reading();
        let mut page: BTreeSet<Box<str>> = BTreeSet::new();
        self.store.visit(&mut |_, slot| {
            let state = slot.record.state(&slot.policy, context.now);
            let wanted = *slot.name.namespace == *filter.namespace
                && filter.wants(&slot.name.dependency, state);
            if wanted {
                keep_smallest(&mut page, &slot.name.dependency, filter.limit + 1);
            }
        });
        for name in settings
            .names()
            .iter()
            .filter(|name| filter.wants(name, State::Closed))
        {
            let dead = !self.is_live(filter.namespace, name).await;
            if dead {
                keep_smallest(&mut page, name, filter.limit + 1);
            }
        }
        let more = page.len() > filter.limit;
        let mut shown = Vec::with_capacity(page.len().min(filter.limit));
        for dependency in page.iter().take(filter.limit) {
            shown.extend(
                self.show(Key {
                    namespace: filter.namespace,
                    dependency,
                })
                .await
                .ok(),
            );
        }
        self.durable_so_far().await;
        Ok(Listing { shown, more })
    }

    /// One dependency. What it shows is durable.
    ///
    /// # Errors
    /// Where it is neither live nor named by a policy.
    pub async fn get(&self, key: Key<'_>) -> Result<Shown, Refusal> {
        let shown = self.show(key).await?;
        self.durable_so_far().await;
        Ok(shown)
    }

    pub(super) async fn show(&self, key: Key<'_>) -> Result<Shown, Refusal> {
        self.show_by(key, by_here).await
    }

    /// As [`Self::show`]; `reach` says who is asked.
    pub(super) async fn show_by(
        &self,
        key: Key<'_>,
        reach: impl Fn(&Slot) -> Reach + Send,
    ) -> Result<Shown, Refusal> {
        let context = self.reading();
        let seen = self
            .store
            .transact(
                self.id(key),
                key.namespace,
                |_| Err(StoreError::Unknown),
                reach,
                |slot| {
                    self.renew(slot);
                    shown(slot, &context)
                },
            )
            .await;
        match seen {
            Ok(shown) => Ok(Shown {
                followers: self.watchers.followers(self.id(key)),
                ..shown
            }),
            Err(StoreError::Unknown) => self.show_named(key, &context),
            Err(refused) => Err(Refusal::Store(refused)),
        }
    }

    /// A dependency that no call has touched, as its policy would have it.
    fn show_named(&self, key: Key<'_>, context: &Context) -> Result<Shown, Refusal> {
        let in_force = self.policies.in_force();
        let settings = in_force.set.namespace(key.namespace);
        let settings = settings.ok_or(Refusal::UnknownNamespace(key.namespace.to_owned()))?;
        let names = settings.names();
        if names
            .binary_search_by(|name| (**name).cmp(key.dependency))
            .is_err()
        {
            return Err(Refusal::UnknownDependency {
                namespace: key.namespace.to_owned(),
                dependency: key.dependency.to_owned(),
            });
        }
        let (policy, _) = settings.resolve(key.dependency);
        let blank = Record::new(1, context.now);
        Ok(Shown {
            namespace: key.namespace.to_owned(),
            name: key.dependency.to_owned(),
            view: view(policy, &blank, context),
            order: None,
            live: false,
            check: shown_check(policy, None, context.now),
            denied: None,
            followers: 0,
            budget_ttl: policy.budget.ttl,
            breaker: blank.breaker.phase,
            opened: None,
            quiet_for: Nanos::ZERO,
            now: context.now,
        })
    }

    /// Tells which dependencies of a namespace change from now on.
    pub fn watch(&self, namespace: &str, name_prefix: &str) -> Arc<Watcher> {
        self.watchers.watch(namespace, name_prefix)
    }

    async fn is_live(&self, namespace: &str, dependency: &str) -> bool {
        let id = self.id(Key {
            namespace,
            dependency,
        });
        let seen = self
            .store
            .transact(id, namespace, |_| Err(StoreError::Unknown), by_here, |_| ())
            .await;
        seen.is_ok()
    }

    /// A trip is listed only when it is durable. While the disk is in trouble, or hangs, it is
    /// listed all the same: hiding it would help nobody.
    pub async fn durable_so_far(&self) {
        let flushed = self.durable.flushed();
        let _ = tokio::time::timeout(super::operators::DURABLE_WITHIN, flushed).await;
    }

    pub(super) fn reading(&self) -> Context {
        Context {
            now: self.clock.now(),
            sample: Sample::default(),
            restarted: self.predecessor.restarted(),
        }
    }
}

impl Filter<'_> {
    fn wants(&self, name: &str, state: State) -> bool {
        name > self.after
            && name.starts_with(self.name_prefix)
            && (self.states.is_empty() || self.states.contains(&state))
    }
}

pub(super) fn shown(slot: &Slot, context: &Context) -> Shown {
    Shown {
        namespace: slot.name.namespace.to_string(),
        name: slot.name.dependency.to_string(),
        view: view(&slot.policy, &slot.record, context),
        order: slot.record.order_at(context.now).cloned(),
        live: true,
        check: shown_check(&slot.policy, slot.checks(), context.now),
        denied: slot.denied().map(|denied| Box::new(denied.clone())),
        followers: 0,
        budget_ttl: slot.policy.budget.ttl,
        breaker: slot.record.breaker.phase,
        opened: slot.evidence().and_then(|evidence| evidence.opened),
        quiet_for: context.now.since(slot.record.touched),
        now: context.now,
    }
}

/// The share that failed of what the slot shows, 0 to 1; 0 where it is not known.
pub(super) fn failing_of(slot: &Slot, view: &View) -> f64 {
    let opened = slot.evidence().and_then(|evidence| evidence.opened);
    let judged = judged(slot.record.breaker.phase, view.counts, opened);
    judged.map_or(0.0, |counts| failing(view, counts))
}

fn judged(breaker: Phase, window: Counts, opened: Option<Counts>) -> Option<Counts> {
    match breaker {
        Phase::Closed => Some(window),
        Phase::Open | Phase::HalfOpen => opened,
    }
}

fn failing(view: &View, judged: Counts) -> f64 {
    match judged {
        Counts { calls: 0, .. } => f64::from(view.failing),
        counts => f64::from(counts.failures) / f64::from(counts.calls),
    }
}

fn shown_check(policy: &Policy, checks: Option<&Checks>, now: Time) -> Option<ShownCheck> {
    let check = policy.check.as_ref()?;
    let summary = checks.map_or(Summary::NOTHING, |checks| checks.summary(check, now));
    Some(ShownCheck {
        period: check.period,
        summary,
    })
}

fn keep_smallest(page: &mut BTreeSet<Box<str>>, name: &str, limit: usize) {
    let has_room = page.len() < limit;
    if has_room || page.last().is_some_and(|last| name < &**last) {
        page.insert(name.into());
        if page.len() > limit {
            page.pop_last();
        }
    }
}
