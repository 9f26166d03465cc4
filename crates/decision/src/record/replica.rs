//! What one of several replicas keeps beside a record that all of them have.
//!
//! ```text
//! shared    breaker, leases, override, hold, budget, calendar, ramp, rate; outside of closed the
//!           throughput that the recovery will climb to. Changed by a swap, so it is exact
//! told      how attempts ended, by instance, and which permits were reported: a [`Summary`],
//!           at most once and a little late
//! own       all else: detector, windows, tickets, answers that may be given again
//! ```
//!
//! A rule is applied to the whole record and knows nothing of this. What it changed of the
//! shared form is swapped in; a trip that is not yet is *unshared*, and the one that was
//! swapped in first stands. First attempts that the shared budget has not got are kept apart, in
//! the bucket in which they were made, and are added to whatever budget is taken over: so
//! they count once, and late rather than twice.

use std::{collections::BTreeMap, sync::Arc};

use super::{Record, State, part};
use crate::{
    Nanos, Outcome, OutcomeKind, Permit, Policy, Tally, Time,
    alone::Alone,
    breaker::{Breaker, Phase, Verdict},
    budget::Budget,
    bytes::{fields, part as write_part},
    policy,
    rate::Rate,
    report::take_tally,
    throughput::Throughput,
    tickets::{Ticket, Tickets},
};

/// Instances that a summary names; the others are one without a name.
pub const TOLD_MAX: usize = 64;
/// Words of 64 permits whose reports are remembered; the lowest goes first, and its permits could be
/// reported again elsewhere.
const WORDS_MAX: usize = 16_384;
const FORGET_EVERY: Nanos = Nanos::from_secs(1);

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Replica {
    /// The epoch and the hold as they were shared last.
    pub(super) epoch: u64,
    pub(super) held_until: Time,
    /// First attempts that the shared budget has not got, and retries that were promised alone.
    pub(super) owed: Budget,
    /// What of them was sent and may have arrived.
    pub(super) doubted: Budget,
    /// While the store is away.
    pub(super) alone: Option<Box<Alone>>,
    gathered: Summary,
    /// Permits of other replicas that were reported. A copy of the record shares it: it may be large,
    /// and is hardly ever changed while there are two.
    others: Arc<BTreeMap<u64, Reported>>,
    forget_at: Time,
    /// What is taken now was told by another replica.
    is_hearing: bool,
}

/// What a replica tells the others of one dependency.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    epoch: u64,
    /// How attempts ended, by instance.
    ended: BTreeMap<u64, Tally>,
    /// Permits that nobody reported.
    silent: u32,
    /// By the number of their word.
    reported: BTreeMap<u64, Reported>,
}

/// Which permits of a word were reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reported {
    reported: u64,
    followed: u64,
    /// The last of them.
    expires: Time,
}

fields!(Reported { reported, followed, expires } if |word| word.followed & !word.reported == 0);
fields!(Summary {
    epoch,
    ended,
    silent,
    reported
});

impl Reported {
    fn note(&mut self, other: Self) {
        self.reported |= other.reported;
        self.followed |= other.followed;
        self.expires = self.expires.max(other.expires);
    }
}

impl Summary {
    pub fn is_empty(&self) -> bool {
        self.ended.is_empty() && self.silent == 0 && self.reported.is_empty()
    }

    /// Whether anything in it is evidence against the dependency.
    pub fn has_failures(&self) -> bool {
        let failed = |tally: &Tally| {
            let others = tally.throttled.saturating_add(tally.rejected);
            tally
                .failures
                .saturating_add(tally.timeouts)
                .saturating_add(others)
                > 0
        };
        self.silent > 0 || self.ended.values().any(failed)
    }

    fn of(&mut self, epoch: u64, reporter: u64) -> &mut Tally {
        if self.epoch != epoch {
            // What was before another epoch says nothing about it.
            (self.epoch, self.silent) = (epoch, 0);
            self.ended.clear();
        }
        let is_named = self.ended.len() < TOLD_MAX || self.ended.contains_key(&reporter);
        self.ended
            .entry(if is_named { reporter } else { 0 })
            .or_default()
    }
}

impl Replica {
    pub fn forget_old(&mut self, now: Time) {
        if now >= self.forget_at {
            self.forget_at = now + FORGET_EVERY;
            let is_over = |word: &Reported| now >= word.expires;
            if self.others.values().any(is_over) {
                Arc::make_mut(&mut self.others).retain(|_, word| !is_over(word));
            }
            self.gathered.reported.retain(|_, word| !is_over(word));
        }
    }
}

impl Record {
    /// From now on this is the record of one of several replicas, whose number nobody else has.
    pub fn become_of_replica(&mut self, number: u16) {
        self.tickets = Tickets::of_replica(number);
        let (epoch, held_until) = (self.breaker.epoch, self.held_until());
        self.rare_mut().replica = Some(Box::new(Replica {
            epoch,
            held_until,
            ..Replica::default()
        }));
    }

    pub(super) fn replica(&self) -> Option<&Replica> {
        self.rare.as_ref()?.replica.as_deref()
    }

    pub(super) fn replica_mut(&mut self) -> Option<&mut Replica> {
        self.rare.as_mut()?.replica.as_deref_mut()
    }

    /// Appends the shared form. It reads as a record of its own.
    pub fn write_shared(&self, out: &mut Vec<u8>) {
        // When it was last touched is each replica's own.
        self.write_core_as_of(Time::ORIGIN, out);
        if self.breaker.phase != Phase::Closed {
            let (throughput, unknown) = (&self.throughput, Throughput::default());
            write_part(part::THROUGHPUT, throughput, &unknown, out);
        }
        if let Some(rare) = &self.rare {
            write_part(part::CALENDAR, &rare.calendar, &None, out);
            write_part(part::RAMP, &rare.ramp, &None, out);
            write_part(part::RATE, &rare.rate, &Rate::default(), out);
        }
    }

    /// What is shared of this record has been swapped in.
    pub fn note_shared(&mut self) {
        let (epoch, held_until) = (self.breaker.epoch, self.held_until());
        if let Some(replica) = self.replica_mut() {
            (replica.epoch, replica.held_until) = (epoch, held_until);
            replica.owed = Budget::default();
            replica.doubted = Budget::default();
        }
    }

    /// Whether a trip or a hold is known here alone.
    pub fn is_unshared(&self) -> bool {
        self.replica().is_some_and(|replica| {
            replica.epoch != self.breaker.epoch || replica.held_until != self.held_until()
        })
    }

    /// Whether first attempts of here are missing where others ask for retries.
    pub fn owes_deposits(&self, now: Time) -> bool {
        self.replica()
            .is_some_and(|replica| replica.owed.bucket > 0)
            && !self.budget.is_idle(now)
    }

    /// Takes over what another replica has swapped in. True: callers see another state.
    pub fn take_shared(&mut self, policy: &Policy, mut shared: Self, now: Time) -> bool {
        let Some(replica) = self.replica() else {
            return false;
        };
        let (base, base_held) = (replica.epoch, replica.held_until);
        let owed = replica.owed.clone();
        let own_trip = self.breaker.epoch > base && shared.breaker.epoch == base;
        let own_hold = self.held_until() != base_held;
        let before = (self.breaker.epoch, self.held_until(), self.order().cloned());
        let shared_epoch = shared.breaker.epoch;
        if !own_trip {
            self.take_breaker(&mut shared, now);
        }
        let callers = self.budget.callers.take();
        self.budget = std::mem::take(&mut shared.budget);
        self.budget.callers = callers;
        self.budget.add_all(&policy.budget, &owed, now);
        let held_until = match own_hold {
            true => self.held_until().max(shared.held_until()),
            false => shared.held_until(),
        };
        let shared_held = shared.held_until();
        let mut theirs = shared.rare.take().map(|rare| *rare).unwrap_or_default();
        let rare = self.rare_mut();
        rare.order = theirs.order.take();
        rare.calendar = theirs.calendar.take();
        rare.rate = theirs.rate;
        if !own_trip {
            rare.ramp = theirs.ramp.take();
        }
        rare.held_until = held_until;
        if let Some(replica) = self.replica_mut() {
            (replica.epoch, replica.held_until) = (shared_epoch, shared_held);
        }
        before != (self.breaker.epoch, self.held_until(), self.order().cloned())
    }

    fn take_breaker(&mut self, shared: &mut Self, now: Time) {
        if shared.breaker.epoch != self.breaker.epoch {
            self.tickets.begin_epoch();
            match self.inner_state(now) {
                State::Closed => self.throughput.settle(now),
                State::Open
                | State::HalfOpen
                | State::Recovering
                | State::ForcedOpen
                | State::ForcedClosed => self.throughput.resume(now),
            }
            // A trip of here that lost the race was told to nobody.
            drop(self.take_changes());
        }
        if shared.breaker.phase != Phase::Closed {
            self.throughput = std::mem::take(&mut shared.throughput);
        }
        let theirs = std::mem::replace(&mut shared.breaker, Breaker::new(0, now));
        self.breaker.take_core(theirs);
    }

    /// Counts first attempts.
    pub(crate) fn deposit(&mut self, policy: &policy::Budget, count: u32, now: Time) {
        if self.replica().is_none() {
            return self.budget.deposit(policy, count, now);
        }
        if self.deposit_alone(policy, count, now) {
            return;
        }
        // Another replica's clock may be a little ahead.
        self.budget.deposit_made(policy, count, now);
        if let Some(replica) = self.replica_mut() {
            replica.owed.deposit_made(policy, count, now);
        }
    }

    /// What is known of a permit of any replica.
    pub(crate) fn ticket(&self, serial: u64) -> Ticket {
        let Some(replica) = self.replica().filter(|_| !self.tickets.are_of(serial)) else {
            return self.tickets.look(serial);
        };
        if let Some(known) = self.former_ticket(serial) {
            return known;
        }
        let bit = 1_u64 << (serial % 64);
        match replica.others.get(&(serial / 64)) {
            Some(word) if word.followed & bit != 0 => Ticket::Followed,
            Some(word) if word.reported & bit != 0 => Ticket::Reported,
            Some(_) | None => Ticket::Unreported,
        }
    }

    /// Notes that a permit was reported.
    pub(crate) fn report_ticket(&mut self, permit: &Permit) {
        self.tickets_note(permit, 0);
    }

    /// Notes that nothing more can come of a permit.
    pub(crate) fn settle_ticket(&mut self, permit: &Permit) {
        self.tickets_note(permit, 1 << (permit.serial % 64));
    }

    fn tickets_note(&mut self, permit: &Permit, followed: u64) {
        let number = permit.serial / 64;
        let word = Reported {
            reported: 1 << (permit.serial % 64),
            followed,
            expires: permit.expires,
        };
        self.note_reported(number, word);
        if let Some(replica) = self.replica_mut() {
            let told = replica.gathered.reported.entry(number).or_default();
            told.note(word);
        }
    }

    fn note_reported(&mut self, number: u64, word: Reported) {
        if self.note_former(number, (word.reported, word.followed)) {
            return;
        }
        if self.tickets.are_of(number.saturating_mul(64)) {
            // Mostly there is one.
            let mut reported = word.reported;
            while reported != 0 {
                let bit = reported.trailing_zeros();
                reported &= reported - 1;
                let serial = number * 64 + u64::from(bit);
                match word.followed & 1 << bit {
                    0 => self.tickets.report(serial),
                    _ => self.tickets.settle(serial),
                }
            }
        } else if let Some(replica) = self.replica_mut() {
            let others = Arc::make_mut(&mut replica.others);
            others.entry(number).or_default().note(word);
            if others.len() > WORDS_MAX {
                others.pop_first();
            }
        }
    }

    /// Gathers attempts that one instance counted.
    pub(crate) fn gather(&mut self, reporter: u64, counted: &Tally) {
        let epoch = self.breaker.epoch;
        let Some(replica) = self.replica_mut() else {
            return;
        };
        let sum = replica.gathered.of(epoch, reporter);
        for (sum, count) in [
            (&mut sum.successes, counted.successes),
            (&mut sum.failures, counted.failures),
            (&mut sum.timeouts, counted.timeouts),
            (&mut sum.throttled, counted.throttled),
            (&mut sum.rejected, counted.rejected),
            (&mut sum.slow, counted.slow),
            (&mut sum.ignored, counted.ignored),
        ] {
            *sum = sum.saturating_add(count);
        }
        sum.latency_sum = sum.latency_sum.saturating_add(counted.latency_sum);
    }

    /// Gathers one attempt that ended.
    pub(super) fn gather_one(&mut self, policy: &Policy, outcome: &Outcome, reporter: u64) {
        if self.replica().is_none() {
            return;
        }
        let slow = match Breaker::verdict(&policy.breaker, outcome) {
            Verdict::Counted(call) => u32::from(call.slow),
            Verdict::Nothing => 0,
        };
        let mut one = Tally {
            slow,
            latency_sum: outcome.latency.unwrap_or_default(),
            ..Tally::default()
        };
        match outcome.kind {
            OutcomeKind::Success => one.successes = 1,
            OutcomeKind::Failure | OutcomeKind::NotSent => one.failures = 1,
            OutcomeKind::Timeout => one.timeouts = 1,
            OutcomeKind::Throttled => one.throttled = 1,
            OutcomeKind::Rejected => one.rejected = 1,
            OutcomeKind::Ignored | OutcomeKind::Cancelled => one.ignored = 1,
        }
        self.gather(reporter, &one);
    }

    pub(super) fn gather_silence(&mut self, permits: u32) {
        let epoch = self.breaker.epoch;
        if let Some(replica) = self.replica_mut().filter(|_| permits > 0) {
            if replica.gathered.epoch != epoch {
                let reported = std::mem::take(&mut replica.gathered.reported);
                replica.gathered = Summary {
                    epoch,
                    reported,
                    ..Summary::default()
                };
            }
            replica.gathered.silent = replica.gathered.silent.saturating_add(permits);
        }
    }

    pub fn has_gathered(&self) -> bool {
        self.replica()
            .is_some_and(|replica| !replica.gathered.is_empty())
    }

    /// Whether something that has failed is to be told.
    pub fn gathered_failures(&self) -> bool {
        self.replica()
            .is_some_and(|replica| replica.gathered.has_failures())
    }

    /// What is to be told to the other replicas, since this was last called.
    pub fn take_gathered(&mut self) -> Option<Summary> {
        let gathered = std::mem::take(&mut self.replica_mut()?.gathered);
        (!gathered.is_empty()).then_some(gathered)
    }

    /// Takes what another replica tells, by the rules for tallies. A ramp is shared, so it has
    /// been told already.
    pub fn hear(&mut self, policy: &Policy, told: &Summary, now: Time) {
        for (number, word) in &told.reported {
            self.note_reported(*number, *word);
        }
        if told.epoch != self.breaker.epoch || self.replica().is_none() {
            return;
        }
        self.touched = self.touched.max(now);
        self.set_hearing(true);
        for (reporter, tally) in &told.ended {
            if told.epoch == self.breaker.epoch {
                take_tally(policy, self, tally, *reporter, now);
            }
        }
        if told.silent > 0 && told.epoch == self.breaker.epoch {
            self.take_silence(policy, told.silent, now, now);
        }
        self.set_hearing(false);
    }

    fn set_hearing(&mut self, is_hearing: bool) {
        if let Some(replica) = self.replica_mut() {
            replica.is_hearing = is_hearing;
        }
    }

    /// Whether what ended is in the shared ramp already.
    pub(super) fn was_told_the_ramp(&self) -> bool {
        self.ramp().is_some() && self.replica().is_some_and(|replica| replica.is_hearing)
    }
}
