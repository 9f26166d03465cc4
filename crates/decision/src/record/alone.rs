//! A record that one of several replicas goes on with by itself, and what becomes of it when the
//! store is back. See [`crate::alone`] for what it may do.
//!
//! Two paths lead here. Where replicas keep records of their own ([`super::replica`]), the record goes
//! on as it is. Where the whole record is shared, a copy goes on with tickets of its own, and what
//! happened to it is taken into the stored one: budgets as sums, reports one by one and each at its
//! time, a trip only where the stored epoch is the one that it began with.

use super::Record;
use crate::{
    Nanos, Outcome, Permit, PermitKind, Policy, Reported, Tally, Time,
    alone::{Alone, Noted, Terms},
    breaker::Phase,
    budget::Empty,
    policy,
    report::{take_report, take_tally},
    tickets::{Ticket, Tickets},
};

/// Whether what was sent to a store, and not answered, has arrived there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    Yes,
    /// Others have changed the record since.
    Unknown,
}

impl Record {
    /// Goes on alone. Nothing where it is already.
    pub fn begin_alone(&mut self, terms: Terms) {
        let before = self.budget.clone();
        if let Some(replica) = self.replica_mut()
            && replica.alone.is_none()
        {
            // What is owed was made here, but the store has not got it: it is of before.
            replica.alone = Some(Box::new(Alone::new(terms, before)));
        }
    }

    /// A copy of a record that is shared as a whole goes on alone, as that of replica `number`; its
    /// tickets begin at the serial `from`.
    pub fn become_alone(&mut self, number: u16, from: u64, terms: Terms) {
        let former = std::mem::take(&mut self.tickets);
        self.become_of_replica(number);
        self.tickets = Tickets::of_replica_from(number, from);
        self.begin_alone(terms);
        if let Some(alone) = self.alone_mut() {
            alone.former = Some(Box::new(former));
        }
    }

    fn alone(&self) -> Option<&Alone> {
        self.replica()?.alone.as_deref()
    }

    fn alone_mut(&mut self) -> Option<&mut Alone> {
        self.replica_mut()?.alone.as_deref_mut()
    }

    pub fn is_alone(&self) -> bool {
        self.alone().is_some()
    }

    /// The store is looked at again in so long.
    pub fn look_again_in(&mut self, left: Nanos) {
        if let Some(alone) = self.alone_mut() {
            alone.next_look = left;
        }
    }

    /// What comes next may be in the store already, without an answer: it is counted there or
    /// not at all.
    pub fn doubt_call(&mut self, doubts: bool) {
        if let Some(alone) = self.alone_mut() {
            alone.doubts_call = doubts;
        }
    }

    /// `None`: the fleet is known.
    pub(crate) fn next_look(&self) -> Option<Nanos> {
        self.alone().map(|alone| alone.next_look)
    }

    pub(crate) fn look_at_budget(
        &mut self,
        policy: &policy::Budget,
        caller: u64,
        floor_from: Time,
        now: Time,
    ) -> Result<(), Empty> {
        if let Some(alone) = self.alone() {
            let level = alone.level(policy, floor_from, now);
            if level.left() == 0 {
                let next = Nanos(policy.ttl.0 / 10);
                return Err(Empty::Fleet { level, next });
            }
        }
        self.budget.look(policy, caller, floor_from, now)
    }

    pub(crate) fn withdraw(&mut self, policy: &policy::Budget, caller: u64, now: Time) {
        self.budget.withdraw(policy, caller, now);
        if let Some(replica) = self.replica_mut()
            && let Some(alone) = &mut replica.alone
        {
            alone.made.withdraw(policy, caller, now);
            replica.owed.withdraw(policy, caller, now);
            replica.owed.callers = None;
        }
    }

    pub(crate) fn refund(
        &mut self,
        policy: &policy::Budget,
        caller: u64,
        taken_at: Time,
        now: Time,
    ) {
        self.budget.refund(policy, caller, taken_at, now);
        if let Some(replica) = self.replica_mut()
            && let Some(alone) = &mut replica.alone
            && taken_at >= alone.terms.since
        {
            alone.made.refund(policy, caller, taken_at, now);
            replica.owed.refund(policy, caller, taken_at, now);
        }
    }

    /// True: it is not to be deposited anywhere, since it may be in the store.
    pub(super) fn deposit_alone(&mut self, policy: &policy::Budget, count: u32, now: Time) -> bool {
        let Some(alone) = self.alone_mut() else {
            return false;
        };
        if !alone.doubts_call {
            alone.made.deposit(policy, count, now);
        }
        alone.doubts_call
    }

    /// What is known of a permit from before; `None`: nothing.
    pub(super) fn former_ticket(&self, serial: u64) -> Option<Ticket> {
        let former = self.alone()?.former.as_ref()?;
        let known = former.are_of(serial).then(|| former.look(serial));
        known.filter(|known| *known != Ticket::Unknown)
    }

    /// True: they are permits from before, and noted.
    pub(super) fn note_former(&mut self, word: u64, (reported, followed): (u64, u64)) -> bool {
        let serials = || (0..64).map(|bit| (1_u64 << bit, word * 64 + bit));
        let is_known = serials()
            .filter(|(bit, _)| reported & bit != 0)
            .all(|(_, serial)| self.former_ticket(serial).is_some());
        let Some(former) = (self.alone_mut()).and_then(|alone| alone.former.as_mut()) else {
            return false;
        };
        if is_known {
            for (bit, serial) in serials().filter(|(bit, _)| reported & bit != 0) {
                match followed & bit {
                    0 => former.report(serial),
                    _ => former.settle(serial),
                }
            }
        }
        is_known
    }

    /// Notes a report for the store. True: it gives a lease of the fleet back, so it is not to
    /// be taken here.
    pub(crate) fn note_report(
        &mut self,
        permit: &Permit,
        outcome: &Outcome,
        reporter: u64,
        now: Time,
    ) -> bool {
        let holds = self.breaker.holds_lease(permit.serial, now);
        let Some(alone) = self.alone_mut() else {
            return false;
        };
        if alone.notes_all() || holds {
            alone.note(Noted::Permit(*permit, *outcome, reporter, now));
        }
        holds && permit.kind == PermitKind::Probe
    }

    pub(crate) fn note_pushed(&mut self, epoch: u64, outcome: &Outcome, reporter: u64, now: Time) {
        if let Some(alone) = self.alone_mut().filter(|alone| alone.notes_all()) {
            alone.note(Noted::Pushed(epoch, *outcome, reporter, now));
        }
    }

    pub(crate) fn note_tally(&mut self, tally: &Tally, reporter: u64, now: Time) {
        if let Some(alone) = self.alone_mut().filter(|alone| alone.notes_all()) {
            alone.note(Noted::Tally(*tally, reporter, now));
        }
    }

    /// The fleet is known again: the reports that waited are taken, and it is alone no longer.
    pub fn end_alone(&mut self, policy: &Policy) {
        let Some(alone) = self.replica_mut().and_then(|replica| replica.alone.take()) else {
            return;
        };
        for noted in alone.doubted.iter().chain(&alone.noted) {
            self.take_noted(policy, noted);
        }
    }

    /// Takes what has happened to a copy of this record that went on alone.
    pub fn take_alone(&mut self, policy: &Policy, alone: &Self) {
        let now = alone.touched;
        let Some(replica) = alone.replica() else {
            return;
        };
        // What is doubted still has not arrived: who finds that it has settles it first.
        for owed in [&replica.doubted, &replica.owed] {
            self.budget.add_all(&policy.budget, owed, now);
        }
        let since = replica.alone.as_ref().map_or(now, |it| it.terms.since);
        let noted = replica.alone.iter();
        for noted in noted.flat_map(|it| it.doubted.iter().chain(&it.noted)) {
            self.take_noted(policy, noted);
        }
        let remembered: Vec<_> = alone.remembered_since(since);
        for (key, remembered, at) in remembered {
            self.remember(key, remembered, at);
        }
        // Who reported to another replica that is alone is not silent.
        while self.tickets.expire(now).is_some() {}
        if alone.held_until() > replica.held_until && alone.held_until() > self.held_until() {
            self.hold_until(alone.held_until());
            self.note(super::Change::Held(now.until(alone.held_until())));
        }
        let tripped = alone.breaker.phase == Phase::Open && alone.breaker.epoch > replica.epoch;
        if tripped && self.breaker.epoch == replica.epoch && self.order().is_none() {
            let from = self.inner_state(now);
            self.breaker.take_trip(&alone.breaker);
            self.note_transition(from, now);
        }
        self.touched = self.touched.max(now);
    }

    fn take_noted(&mut self, policy: &Policy, noted: &Noted) {
        match noted {
            Noted::Permit(permit, outcome, reporter, at) => {
                let is_known = self.replica().is_some() || Tickets::is_of_one(permit.serial);
                if !is_known {
                    let _told: Reported =
                        take_report(policy, self, permit, outcome, *reporter, *at);
                    return;
                }
                let held = self.breaker.end_lease(permit.serial, *at);
                if permit.epoch == self.breaker.epoch {
                    self.take_outcome(policy, outcome, *reporter, held, *at);
                }
            }
            Noted::Pushed(epoch, outcome, reporter, at) if *epoch == self.breaker.epoch => {
                self.take_outcome(policy, outcome, *reporter, false, *at);
            }
            Noted::Tally(tally, reporter, at) if tally.epoch == self.breaker.epoch => {
                take_tally(policy, self, tally, *reporter, *at);
            }
            Noted::Pushed(..) | Noted::Tally(..) => {}
        }
    }

    /// What is owed was sent, and no answer came.
    pub fn doubt(&mut self, policy: &Policy) {
        let now = self.touched;
        if let Some(replica) = self.replica_mut() {
            let sent = std::mem::take(&mut replica.owed);
            replica.doubted.add_all(&policy.budget, &sent, now);
            if let Some(alone) = &mut replica.alone {
                alone.doubted.append(&mut alone.noted);
            }
        }
    }

    /// The store has another version than expected. Where nobody can tell whether what was doubted
    /// is in it, nothing counts twice: what pays for retries and what was reported may be lost,
    /// retries are not.
    pub fn settle_doubt(&mut self, policy: &Policy, arrived: Arrived) {
        let now = self.touched;
        let Some(replica) = self.replica_mut() else {
            return;
        };
        let doubted = std::mem::take(&mut replica.doubted);
        if let Some(alone) = &mut replica.alone {
            alone.doubted.clear();
        }
        match arrived {
            Arrived::Yes => {}
            Arrived::Unknown => {
                let retries = doubted.retries_alone();
                replica.owed.add_all(&policy.budget, &retries, now);
            }
        }
    }
}
