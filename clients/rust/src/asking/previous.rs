//! The attempt before, on its way to whoever answers the question about the next one.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use holdoff_decision::{self as decision, MadeUnder};

use super::Made;
use crate::{
    client::{Client, Mode},
    outcome::Outcome,
    proto::{self, previous::MadeUnder as WireMadeUnder},
    wire,
};

/// How the attempt before ended. It is told once, at the latest when nobody asks any more.
#[derive(Debug)]
pub(super) struct Previous {
    client: Client,
    dependency: Arc<str>,
    made: Made,
    pub(super) outcome: Outcome,
    is_told: AtomicBool,
    /// The question with it was held back once.
    was_held_back: AtomicBool,
    /// The service has pushed a later state: its tally is in no hurry.
    is_late: AtomicBool,
    /// This process has counted a first attempt that the service had granted.
    is_counted_here: AtomicBool,
}

impl Previous {
    pub(super) fn new(client: Client, dependency: Arc<str>, made: Made, outcome: Outcome) -> Self {
        Self {
            client,
            dependency,
            made,
            outcome,
            is_told: AtomicBool::new(false),
            was_held_back: AtomicBool::new(false),
            is_late: AtomicBool::new(false),
            is_counted_here: AtomicBool::new(false),
        }
    }

    /// Nobody asks about it.
    pub(super) fn tell(&self) {
        if self.is_told.swap(true, Relaxed) {
            return;
        }
        if !self.is_counted_here.swap(true, Relaxed) {
            let client = &self.client;
            client.count_here(&self.dependency, &self.made, &self.outcome);
        }
        self.report();
    }

    /// The service was not asked about it. Who decides instead counts it with the question.
    pub(super) fn tell_unasked(&self) {
        if !self.is_told.swap(true, Relaxed) {
            self.report();
        }
    }

    fn report(&self) {
        match (&self.made, &self.client.inner().mode) {
            (Made::OnState(on), Mode::Fleet(link))
                if self.is_late.load(Relaxed) && self.outcome.pushback.is_none() =>
            {
                let reports = &link.shared().reports;
                reports.tally_late(&self.dependency, *on, &self.outcome);
            }
            (made, _) => self.client.report(&self.dependency, made, &self.outcome),
        }
    }

    /// The epoch of the pushed state it was made on, once.
    pub(super) fn epoch_to_hold_back(&self) -> Option<u64> {
        match self.made {
            Made::OnState(on) if !self.was_held_back.swap(true, Relaxed) => Some(on.epoch),
            Made::OnState(_) | Made::Fleet(_) | Made::Local { .. } => None,
        }
    }

    /// It says nothing about what comes now. A call that ends so has it tallied with the
    /// rest; one that asks again tells it with the question.
    pub(super) fn is_late(&self) {
        self.is_late.store(true, Relaxed);
    }

    /// The service has taken it with a question. What was decided here is told here.
    pub(super) fn told_to_fleet(&self) {
        if matches!(self.made, Made::Fleet(_) | Made::OnState(_)) {
            self.is_told.store(true, Relaxed);
        }
    }

    /// A question with it may have arrived. Nothing tells an outcome without a permit from
    /// another one, while a permit counts once whatever is said of it.
    pub(super) fn may_be_told(&self) {
        if matches!(self.made, Made::OnState(_)) {
            self.is_told.store(true, Relaxed);
        }
    }

    /// For the service. An attempt without a permit of its own is told by an epoch: the one
    /// whose state it was made on, or the one last heard of when an attempt that was decided
    /// here began. So a call that has gone on alone is with the fleet again at its next
    /// question, and what failed before a transition does not count after it.
    pub(super) fn on_the_wire(&self) -> proto::Previous {
        let made_under = match &self.made {
            Made::Fleet(permit) => WireMadeUnder::Permit(permit.clone()),
            Made::OnState(on) => WireMadeUnder::Epoch(on.epoch),
            Made::Local { begun_in, .. } => WireMadeUnder::Epoch(*begun_in),
        };
        proto::Previous {
            made_under: Some(made_under),
            outcome: Some(wire::write_outcome(&self.outcome)),
        }
    }

    /// For this process's own record. A first attempt that the service let go is unknown
    /// there, and is counted once.
    pub(super) fn here(&self, attempt: u32) -> decision::Previous {
        let made_under = match &self.made {
            Made::Local { permit, .. } => MadeUnder::Permit(*permit),
            Made::Fleet(_) | Made::OnState(_)
                if attempt == 2 && !self.is_counted_here.swap(true, Relaxed) =>
            {
                let inner = self.client.inner();
                let now = inner.clock.time();
                MadeUnder::Epoch(inner.local.epoch(&self.dependency, now))
            }
            Made::Fleet(_) | Made::OnState(_) => MadeUnder::Unknown,
        };
        decision::Previous {
            made_under,
            outcome: self.outcome.as_decision(),
        }
    }
}

/// A caller that gives up while it asks has still seen how the attempt ended.
impl Drop for Previous {
    fn drop(&mut self) {
        self.tell();
    }
}
