//! What happens without a caller: events are published once they are durable, overrides end,
//! idle dependencies are dropped.

use std::time::Duration;

use holdoff_decision::{Nanos, view::is_idle};

use super::{Coordinator, Event, EventKind, Who, checks::may_be_dropped, happened::AGAIN_AFTER};
use crate::{
    candidate::Happening,
    store::{Store, StoreError, by_fleet},
    telemetry::{Counter, Timed},
};

/// A dependency that nobody has used for so long is dropped, if nothing hangs on it.
pub const IDLE_TTL: Nanos = Nanos::from_secs(600);
const EVICT_EVERY: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(250);

impl<S: Store> Coordinator<S> {
    /// Publishes events for ever.
    pub async fn publish_events(&self) {
        let board = self.store.board();
        loop {
            let mut events = match self.events.has_unsent() {
                false => self.events.handed_over().await,
                true => {
                    let more = self.events.handed_over();
                    let more = tokio::time::timeout(AGAIN_AFTER, more).await;
                    more.unwrap_or_default()
                }
            };
            let began = self.clock.now();
            if self.durable.flushed().await.is_err() {
                for event in &mut events {
                    event
                        .detail
                        .push_str(" (not durable: the data directory cannot be written)");
                }
            } else {
                let took = began.until(self.clock.now());
                self.telemetry.time(Timed::Commit, took.into());
            }
            events.iter().for_each(log);
            match &board {
                None => self.events.publish(events),
                Some(board) => {
                    self.queue_events(board, events);
                    self.pass_on(board).await;
                }
            }
        }
    }

    /// Ends overrides when their time comes, for ever.
    pub async fn end_overrides(&self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            self.end_overrides_once().await;
        }
    }

    /// Ends the overrides whose time has come, and forgets the holds that are over.
    pub async fn end_overrides_once(&self) {
        let context = self.context();
        let due = {
            let mut expiries = self
                .expiries
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            let later =
                expiries.split_off(&(context.now + Nanos(1), crate::permit::DependencyId(0)));
            std::mem::replace(&mut *expiries, later)
        };
        for (_, id) in due {
            // A record that is gone has no override to end.
            let _ = self
                .store
                .transact(
                    id,
                    "",
                    |_| Err(StoreError::Unknown),
                    by_fleet,
                    |slot| {
                        let before = self.before(slot, 0, &context);
                        slot.record.advance(&slot.policy, &context);
                        if let Some(before) = before {
                            self.observe(id, slot, Happening::Advanced, &before, &context);
                        }
                        self.tell_changes(id, slot, Who::Nobody, context.now);
                        if slot.record.held_until() <= context.now {
                            // Of a hold that is over nothing need be kept.
                            self.keep(slot, context.now);
                        }
                    },
                )
                .await;
        }
    }

    /// Drops idle dependencies for ever.
    pub async fn drop_idle(&self) {
        loop {
            tokio::time::sleep(EVICT_EVERY).await;
            self.drop_idle_once(IDLE_TTL);
        }
    }

    /// Drops the dependencies that were idle for so long; says how many.
    pub fn drop_idle_once(&self, idle_for: Nanos) -> usize {
        let now = self.clock.now();
        let in_force = self.policies.in_force();
        let dropped = self.store.evict(&mut |slot| {
            let drops = is_idle(&slot.record, idle_for, now) && may_be_dropped(slot, idle_for, now);
            if let Some(shadow) = slot.shadow().filter(|_| drops) {
                in_force.keep_numbers(shadow);
            }
            drops
        });
        self.telemetry
            .add_many(Counter::Evicted, dropped.len() as u64);
        for name in &dropped {
            let id = self.permits.dependency(&name.namespace, &name.dependency);
            self.watchers.changed(id, name);
        }
        dropped.len()
    }
}

/// One line an event. Files that are refused are somebody's work of tomorrow.
fn log(event: &Event) {
    let Event {
        kind,
        namespace,
        dependency,
        epoch,
        owner,
        detail,
        ..
    } = event;
    if *kind == EventKind::PoliciesRefused {
        tracing::warn!(?kind, namespace, dependency, epoch, owner, "{detail}");
    } else {
        tracing::info!(?kind, namespace, dependency, epoch, owner, "{detail}");
    }
}
