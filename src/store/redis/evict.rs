//! Copies that nobody needs are given up, and what nobody may do without is renewed.

use std::sync::Arc;

use holdoff_decision::Nanos;

use super::{Act, PROTECTED, Shared, locked};
use crate::store::{Name, Slot, stored};

impl Shared {
    pub(super) fn evict(self: &Arc<Self>, droppable: &mut dyn FnMut(&Slot) -> bool) -> Vec<Name> {
        let mut dropped = Vec::new();
        let mut gone = Vec::new();
        for desk in &self.desks {
            let (id, at) = (*desk.key(), locked(desk.value()));
            if !at.is_idle() || at.is_alone() {
                continue;
            }
            match at.slot() {
                Some(slot) if droppable(slot) => {
                    dropped.push(slot.name.clone());
                    let (version, epoch) = (at.version(), slot.record.breaker.epoch);
                    gone.push((id, Some((version, epoch))));
                }
                Some(slot) if stored::is_protected(&slot.record, self.clock.now()) => {
                    let now = self.clock.now();
                    let every = Nanos::from(PROTECTED / 4);
                    if at
                        .kept_since()
                        .is_none_or(|since| now.since(since) >= every)
                    {
                        let shared = Arc::clone(self);
                        self.home.spawn(async move { shared.renew(id).await });
                    }
                }
                Some(_) => {}
                None => gone.push((id, None)),
            }
        }
        for (id, held) in gone {
            self.desks.remove(&id);
            self.count.note(id, None);
            // Others may use it in place; its lifetime ends it.
            let drops = held.filter(|_| !self.is_leased());
            if let Some((version @ Some(_), epoch)) = drops {
                let shared = Arc::clone(self);
                self.home.spawn(async move {
                    let place = shared.keys.record(id);
                    // Where it fails, its lifetime ends it.
                    let _ = shared.ask(&place, &version, &Act::Drop, epoch).await;
                });
            }
        }
        dropped
    }
}
