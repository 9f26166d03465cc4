//! Tells those that look on what happened to a record: the judge of a candidate.
//!
//! One check on the path of a decision where nobody looks on. What is told is put together
//! while the record is held, so that it is told in its order.

use std::sync::Arc;

use holdoff_decision::{Context, Policy, Record, Sample, Time, record::Override};

use super::{Coordinator, Event, EventKind};
use crate::{
    candidate::{Before, Happening, Opening, Shadow},
    clock,
    store::{Slot, Store},
};

/// A record just before something happens to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    pub record: Before,
}

/// What an operator orders.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ordered<'a> {
    Forced(&'a Override),
    Released,
    Reset,
    HoldCleared,
}

impl<S: Store> Coordinator<S> {
    /// `None`: nobody looks on.
    pub(super) fn before(&self, slot: &Slot, caller: u64, context: &Context) -> Option<Watched> {
        slot.shadow()?;
        Some(Watched {
            record: Before::of(&slot.policy, &slot.record, caller, context),
        })
    }

    pub(super) fn observe(
        &self,
        slot: &mut Slot,
        happening: Happening,
        _before: &Watched,
        context: &Context,
    ) {
        let Some(shadow) = slot.shadow_mut() else {
            return;
        };
        let opening = shadow.judge.take(&shadow.policy, &happening, context);
        if let Some(opening) = opening.filter(|opening| !opening.again) {
            let event = tripped(slot, &opening);
            self.telemetry.add(crate::telemetry::Counter::CandidateTrip);
            self.hand_over(event);
        }
    }

    /// Called just before the order is carried out.
    pub(super) fn observed_order(&self, slot: &mut Slot, ordered: Ordered<'_>, now: Time) {
        let context = Context {
            now,
            sample: Sample::default(),
            restarted: self.restarted,
        };
        if let Some(before) = self.before(slot, 0, &context) {
            let happening = match ordered {
                Ordered::Forced(order) => Happening::Forced(order.clone()),
                Ordered::Released => Happening::Released,
                Ordered::Reset => Happening::Reset,
                Ordered::HoldCleared => Happening::HoldCleared,
            };
            self.observe(slot, happening, &before, &context);
        }
    }

    /// Begins, goes on with or ends the trial of a candidate beside a record.
    pub(super) fn try_beside(&self, slot: &mut Slot, candidate: Option<(u64, Arc<Policy>)>) {
        match (slot.shadow_mut(), candidate) {
            (None, None) => {}
            (Some(shadow), Some((number, policy))) if shadow.candidate == number => {
                shadow.policy = policy;
            }
            (_, candidate) => {
                let live: &Record = &slot.record;
                let shadow = candidate
                    .and_then(|(number, policy)| Shadow::begin(&self.trials, number, policy, live));
                slot.put_shadow(shadow);
            }
        }
    }
}

fn tripped(slot: &Slot, opening: &Opening) -> Event {
    Event {
        sequence: 0,
        time: clock::to_wall(opening.at),
        kind: EventKind::CandidateTripped,
        namespace: slot.name.namespace.to_string(),
        dependency: slot.name.dependency.to_string(),
        states: None,
        epoch: slot.record.breaker.epoch,
        detail: format!("the candidate would have opened: {}", opening.cause),
        owner: String::new(),
    }
}
