//! What is pushed to clients: the standing of first attempts, and what to keep to when the
//! service is away.

use std::sync::Arc;

use holdoff_decision::{
    Policy,
    standing::{Standing, standing_of},
};

use super::{Caller, Coordinator, Key, Refusal, Watcher};
use crate::{
    permit::DependencyId,
    store::{Store, StoreError, by_here},
};

/// Dependencies that one session may subscribe to.
pub const SUBSCRIPTIONS_MAX: usize = 10_000;

/// One dependency, as it is pushed.
#[derive(Clone, Debug)]
pub struct Pushed {
    pub dependency: String,
    pub standing: Standing,
    pub policy: Arc<Policy>,
    /// Clients that follow it, this one included; at least 1.
    pub clients: u32,
}

impl<S: Store> Coordinator<S> {
    /// Somebody who will follow dependencies by their names.
    pub fn subscriber(&self) -> Arc<Watcher> {
        self.watchers.subscribe()
    }

    /// Says which instance a subscriber is: one that fails alone is refused alone.
    pub fn introduce(&self, watcher: &Watcher, caller: Caller<'_>) {
        watcher.set_instance(self.instance(caller));
    }

    /// Follows one more dependency, which is made where there is none.
    ///
    /// # Errors
    /// It may not appear, or the subscriber follows too many.
    pub async fn subscribe(&self, watcher: &Watcher, key: Key<'_>) -> Result<(), Refusal> {
        let id = self.id(key);
        self.transact(id, key, self.clock.now(), by_here, |_| ())
            .await?;
        match self
            .watchers
            .follow(watcher, id, key.dependency, SUBSCRIPTIONS_MAX)
        {
            true => Ok(()),
            false => Err(Refusal::invalid(
                "subscribe",
                format!("more than {SUBSCRIPTIONS_MAX} dependencies on one session"),
            )),
        }
    }

    pub fn unsubscribe(&self, watcher: &Watcher, key: Key<'_>) {
        self.watchers.unfollow(watcher, self.id(key));
    }

    /// Ends a subscription.
    pub fn close(&self, watcher: &Watcher) {
        self.watchers.close(watcher);
    }

    /// What is pushed of a dependency now; `None`: it is gone. Each call draws a spread of its
    /// own.
    pub async fn pushed(&self, id: DependencyId, watcher: &Watcher) -> Option<Pushed> {
        let context = self.context();
        let instance = watcher.instance();
        let clients = self.watchers.followers(id).max(1);
        // Those of another replica are not counted here: each divides its part of the floor.
        let clients = clients.saturating_mul(self.replicas_known());
        self.store
            .transact(
                id,
                "",
                |_| Err(StoreError::Unknown),
                by_here,
                |slot| {
                    self.renew(slot);
                    Pushed {
                        dependency: slot.name.dependency.to_string(),
                        standing: standing_of(&slot.policy, &slot.record, instance, &context),
                        policy: Arc::clone(&slot.policy),
                        clients,
                    }
                },
            )
            .await
            .ok()
    }

    /// Waits until what has been seen so far is durable: a trip is pushed no earlier. While
    /// the disk is in trouble it is pushed all the same.
    pub async fn settled(&self) {
        let _ = self.durable.flushed().await;
    }
}
