//! Swaps on their way: when a desk's draft leaves, and what becomes of it. What is in it, and what an
//! answer means, is the desk's.

use std::sync::{Arc, Mutex, atomic::Ordering};

use tokio::time::Instant;

use super::{Act, Counted, Departure, Desk, NOT_ASKED, Outcome, Shared, StoreError, locked};
use crate::permit::DependencyId;

impl Shared {
    /// Sends the draft of a desk, unless one is on its way or a group gathers.
    pub(super) fn dispatch(
        self: &Arc<Self>,
        id: DependencyId,
        desk: &Arc<Mutex<Desk>>,
        at: &mut Desk,
    ) {
        if at.gathers() || !at.has_draft() {
            return;
        }
        if let Some(departure) = at.depart(self.lifetimes(), self.clock.now()) {
            let flight = fly(Arc::clone(self), id, Arc::clone(desk), departure);
            self.home.spawn(flight);
        }
    }

    /// A copy was taken of what the store has.
    pub(super) fn note_copy(&self, id: DependencyId, at: &Desk) {
        let slot = at.slot();
        self.count.note(id, slot.map(|slot| &slot.name));
        if let Some(slot) = slot {
            let epoch = slot.record.breaker.epoch;
            self.highest_epoch.fetch_max(epoch, Ordering::Relaxed);
        }
    }

    /// A group leaves at this time.
    pub(super) fn depart_later(
        self: &Arc<Self>,
        id: DependencyId,
        desk: &Arc<Mutex<Desk>>,
        at: &mut Desk,
        when: Instant,
    ) {
        if at.begin_gathering() {
            let (shared, desk) = (Arc::clone(self), Arc::clone(desk));
            self.home.spawn(async move {
                tokio::time::sleep_until(when).await;
                let mut at = locked(&desk);
                at.end_gathering();
                shared.dispatch(id, &desk, &mut at);
            });
        }
    }
}

/// Carries drafts to the store until none is left.
async fn fly(shared: Arc<Shared>, id: DependencyId, desk: Arc<Mutex<Desk>>, first: Departure) {
    let place = shared.keys.record(id);
    let mut next = Some(first);
    while let Some(departure) = next {
        let Departure {
            expected,
            act,
            epoch,
            tells,
        } = &departure;
        if let Act::Put { .. } = act {
            locked(&desk).group_until(crate::clock::instant() + shared.timing.grouped_for);
        }
        let asked = shared.ask_and_tell(&place, expected, act, *epoch, *tells);
        let reply = asked.await;
        let was_lost = matches!(&reply, Ok(reply) if !matches!(reply.outcome, Outcome::Done(_)));
        if was_lost && matches!(act, Act::Put { .. }) {
            shared.counts.add(Counted::SwapLost);
        }
        if let Ok(reply) = &reply
            && let Outcome::Absent { highest_epoch } = reply.outcome
        {
            shared
                .highest_epoch
                .fetch_max(highest_epoch, Ordering::Relaxed);
        }
        let mut at = locked(&desk);
        let now = shared.clock.now();
        match reply {
            Err(StoreError::Unavailable(why)) if why.starts_with(NOT_ASKED) => {
                at.stay(StoreError::Unavailable(why), now);
            }
            reply => at.land(reply.map(|reply| reply.outcome), now),
        }
        shared.note_copy(id, &at);
        shared.tell_news(id, &mut at);
        next = at.depart(shared.lifetimes(), now);
    }
}
