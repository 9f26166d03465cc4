//! Many dependencies at a glance, for those who look at all of them again and again.
//!
//! One walk over the store, in no order, that looks closely only at what its reader asks for.
//! [`Coordinator::list`] is for those who want one page, in order.

use std::sync::{Arc, atomic::Ordering};

use holdoff_decision::{Nanos, State, Time, view};

use super::{Coordinator, Key, Refusal, Reporter, Shown, listing};
use crate::store::{Store, StoreError, by_here};

/// What is known of a record without a closer look.
#[derive(Clone, Copy, Debug)]
pub struct Glance<'a> {
    pub name: &'a str,
    pub state: State,
    /// When anything last happened to it.
    pub touched: Time,
    /// The dependency asked its callers to wait, until now or later.
    pub held: bool,
}

/// What is counted of a dependency while it is followed.
#[derive(Clone, Debug, PartialEq)]
pub struct Detail {
    pub now: Time,
    /// Since when.
    pub since: Time,
    /// The latest first.
    pub reporters: Vec<Reporter>,
    /// `None`: nothing is planned.
    pub ahead: Option<Ahead>,
}

/// The calendar of a dependency from now on, in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ahead {
    pub step: Nanos,
    /// Retries planned for each part; the last one has no end.
    pub planned: Vec<u64>,
}

impl<S: Store> Coordinator<S> {
    /// The clock that everything shown is as of.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// When this run began; of what was before nothing is shown.
    pub fn started(&self) -> Time {
        self.predecessor.started()
    }

    /// Rises with each change of the policies.
    pub fn policies_changed(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// The live dependencies of a namespace that `wanted` names, in no order. What it shows
    /// may not be durable yet: see [`Self::durable_so_far`].
    pub fn overview(
        &self,
        namespace: &str,
        wanted: &mut dyn FnMut(Glance<'_>) -> bool,
    ) -> Vec<Shown> {
        let context = self.reading();
        let mut seen = Vec::new();
        self.store.visit(&mut |id, slot| {
            if *slot.name.namespace != *namespace {
                return;
            }
            let glance = Glance {
                name: &slot.name.dependency,
                state: slot.record.state(&slot.policy, context.now),
                touched: slot.record.touched,
                held: slot.record.held_until() >= context.now,
            };
            if wanted(glance) {
                let followers = self.watchers.followers(id);
                seen.push(Shown {
                    followers,
                    ..listing::shown(slot, &context)
                });
            }
        });
        seen
    }

    /// The dependencies that the policies of a namespace name; none where there is no such
    /// namespace.
    pub fn named(&self, namespace: &str) -> Vec<Arc<str>> {
        let in_force = self.policies.in_force();
        let settings = in_force.set.namespace(namespace);
        settings.map_or_else(Vec::new, |settings| settings.names().to_vec())
    }

    /// One dependency, as [`Self::get`] shows it, but it may not be durable yet.
    ///
    /// # Errors
    /// Where it is neither live nor named by a policy.
    pub async fn glimpse(&self, key: Key<'_>) -> Result<Shown, Refusal> {
        self.show(key).await
    }

    /// The namespaces that have a policy or a live dependency, by name.
    pub fn namespaces(&self) -> Vec<String> {
        let in_force = self.policies.in_force();
        let written = in_force.set.namespace_names();
        let written = written.into_iter().filter(|name| *name != "*");
        let mut names: std::collections::BTreeSet<String> = written.map(str::to_owned).collect();
        self.store.visit(&mut |_, slot| {
            if !names.contains(slot.name.namespace.as_str()) {
                names.insert(slot.name.namespace.to_string());
            }
        });
        names.into_iter().collect()
    }

    /// Follows a dependency from now on, and shows what was counted so far.
    pub async fn follow(&self, key: Key<'_>, parts: usize) -> Detail {
        self.histories.want(self, key);
        let counted = self.histories.counted(key);
        let ahead = self.planned(key, parts).await;
        let now = self.clock.now();
        let (since, reporters) =
            counted.map_or_else(|| (now, Vec::new()), |it| (it.since, it.reporters));
        Detail {
            now,
            since,
            reporters,
            ahead: ahead.filter(|ahead| ahead.planned.iter().any(|count| *count > 0)),
        }
    }

    /// The calendar of a dependency over its policy's horizon; `None`: it has none, or nothing
    /// is planned.
    pub async fn planned(&self, key: Key<'_>, parts: usize) -> Option<Ahead> {
        let now = self.clock.now();
        let seen = self.store.transact(
            self.id(key),
            key.namespace,
            |_| Err(StoreError::Unknown),
            by_here,
            |slot| {
                slot.record.calendar()?;
                let horizon = slot.policy.calendar.horizon;
                let step = Nanos((horizon.0 / parts.max(1) as u64).max(1));
                let planned = view::ahead(&slot.record, step, parts, now);
                Some(Ahead { step, planned })
            },
        );
        seen.await.ok().flatten()
    }
}
