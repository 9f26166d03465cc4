//! What changed in a record is told: to the data directory, to events and to watchers, also where
//! another replica changed it.

use std::sync::{Arc, PoisonError};

use holdoff_decision::{Nanos, Time, record::Change};

use super::{Coordinator, Event, Who, events, evidence, restore};
use crate::{
    clock, durable,
    permit::DependencyId,
    store::{Run, Slot, Store, Told},
    telemetry::Counter,
};

/// Calls that fail together are told the same wait one after the other: what makes a hold last so
/// little longer is the same hold.
const SAME_HOLD: Nanos = Nanos::from_secs(1);

impl<S: Store> Coordinator<S> {
    /// Tells what other replicas do to those who listen here.
    pub fn follow_store(self: &Arc<Self>) {
        let this = Arc::downgrade(self);
        self.store.tell(Told(Box::new(move |id, slot| {
            if let Some(this) = this.upgrade() {
                this.tell_news(id, slot);
            }
        })));
    }

    fn tell_news(&self, id: DependencyId, slot: &mut Slot) {
        if slot.record.is_unshared() {
            // It is told when it is the fleet's; who follows it here goes by it now.
            self.watchers.changed(id, &slot.name);
            return;
        }
        let now = self.clock.now();
        let held = Some(slot.record.held_until()).filter(|until| now < *until);
        self.note_expiry(held, id);
        self.note_expiry(slot.record.order().and_then(|order| order.expires), id);
        evidence::settle(slot, now);
        self.tell_changes(id, slot, Who::Nobody, now);
        // Whatever another replica made of it has been told by that one.
        if !slot.record.has_changes() {
            slot.set_told_held(held);
        }
        self.watchers.changed(id, &slot.name);
    }

    /// Tells what has changed in a record: to the data directory, to events and to watchers.
    /// Called while the record is held, so that its changes are told in their order.
    pub(super) fn tell_changes(&self, id: DependencyId, slot: &mut Slot, who: Who<'_>, now: Time) {
        let waits = match slot.notes.run() {
            Run::Rehearsal => true,
            // It is told when it is the fleet's.
            Run::InPlace | Run::Alone => slot.record.is_unshared(),
            Run::Counts => false,
        };
        if !slot.record.has_changes() {
            return;
        }
        evidence::settle(slot, now);
        if waits {
            return;
        }
        self.keep(slot, now);
        for change in slot.record.take_changes() {
            if let Some(shadow) = slot.shadow_mut() {
                shadow.judge.note_live(&change, now);
            }
            if let Change::Held(_) = change {
                self.note_expiry(Some(slot.record.held_until()), id);
                if !is_news(slot, now) {
                    continue;
                }
                slot.set_told_held(Some(slot.record.held_until()));
            }
            self.count_change(slot, &change);
            self.hand_over(events::of_change(slot, change, who, clock::to_wall(now)));
        }
        self.watchers.changed(id, &slot.name);
    }

    /// Hands what is to outlive the process to the data directory.
    pub(super) fn keep(&self, slot: &Slot, now: Time) {
        if slot.notes.run() == Run::Rehearsal {
            return;
        }
        let key = durable::Key::new(slot.name.namespace.as_str(), &*slot.name.dependency);
        self.durable
            .checkpoint(key, restore::kept_of(&slot.record, &self.clock, now));
    }

    pub(super) fn hand_over(&self, event: Event) {
        if !self.events.hand_over(event) {
            self.telemetry.add(Counter::EventsLost);
        }
    }

    pub(super) fn note_expiry(&self, expires: Option<Time>, id: DependencyId) {
        if let Some(expires) = expires {
            let mut expiries = self.expiries.lock().unwrap_or_else(PoisonError::into_inner);
            expiries.insert((expires, id));
        }
    }
}

/// Whether a hold lasts longer than others have been told. What was told stays, so that many small
/// steps are told at last.
fn is_news(slot: &Slot, now: Time) -> bool {
    let told = slot.told_held().filter(|told| now < *told);
    told.is_none_or(|told| slot.record.held_until() >= told + SAME_HOLD)
}
