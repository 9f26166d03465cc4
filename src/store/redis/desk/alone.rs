//! A desk while the store is away: rules are applied to the copy, alone, and what happened is taken
//! into the store when it is back.
//!
//! On the leased path the copy is the replica's own record and goes on. On the strict path another
//! copy goes on beside it, so that it is known what the store had. When the store is back it is
//! looked at first; then what happened is drafted on what it has, before whatever is asked next.
//!
//! A name that no replica has told of begins here, as a record that the store may not have: when it is
//! back it is looked at first, as after any doubt.
//!
//! A swap that nobody answered may have arrived, also much later: its bytes are kept until another
//! swap has made it impossible. What is found to be those bytes has arrived; where others have
//! changed the record since nobody can tell, and then nothing counts twice.

use holdoff_decision::{Nanos, Policy, Time, alone::Terms, record::Arrived};

use super::{Copy, Desk, Draft, Flight, Known, Landing, Path, leased::AGAIN_AFTER};
use crate::store::{Run, Slot, StoreError};

/// Swaps whose fate is not known; each is followed by a look, so there are hardly two.
const SENT_MAX: usize = 8;
/// A copy that is so much older than the loss of the store, of the budget's window, may lack what
/// others were granted.
const NEWEST_WITHIN: u64 = 10;

/// How a rule is applied alone.
#[derive(Clone, Copy, Debug)]
pub struct Alone {
    pub terms: Terms,
    /// This replica's.
    pub number: u16,
    pub next_look: Nanos,
    /// The rule was sent, and may be in the store.
    pub is_doubted: bool,
}

impl Desk {
    /// Whether nothing is known of a record, and nothing is on its way.
    pub fn is_blank(&self) -> bool {
        self.is_idle() && !matches!(self.known, Known::Held(_))
    }

    /// A record of a name that is new, as far as is known here.
    pub fn begin_here(&mut self, mut slot: Slot) {
        self.path.begin(&mut slot);
        self.known = Known::Held(Copy {
            slot: Box::new(slot),
            version: None,
            bytes: Vec::new(),
            is_doubtful: true,
            kept_since: None,
            confirmed: Time::ORIGIN,
            is_new: true,
            is_lost: false,
            sent: Vec::new(),
            alone: None,
        });
    }

    /// Applies a rule alone. `None`: nothing is known of the record, or something is on its way.
    pub fn apply_alone<R>(&mut self, how: Alone, rule: impl FnOnce(&mut Slot) -> R) -> Option<R> {
        if !self.is_idle() {
            return None;
        }
        let from = self.alone_from;
        let Known::Held(copy) = &mut self.known else {
            return None;
        };
        copy.is_doubtful = true;
        let window = copy.slot.policy.budget.ttl;
        let newest = Nanos(window.0 / NEWEST_WITHIN);
        let knows_all = match self.path {
            // Each change is told.
            Path::Leased(_) => !copy.is_new,
            Path::Strict => how.terms.since.since(copy.confirmed) <= newest,
        };
        let terms = Terms {
            knows_all,
            ..how.terms
        };
        let slot = match self.path {
            Path::Leased(_) => {
                copy.slot.record.begin_alone(terms);
                &mut copy.slot
            }
            Path::Strict => copy.alone.get_or_insert_with(|| {
                let mut slot = Box::new(copy.slot.copy());
                slot.record.become_alone(how.number, from, terms);
                slot
            }),
        };
        slot.record.look_again_in(how.next_look);
        slot.record.doubt_call(how.is_doubted);
        slot.notes.set_run(Run::Alone);
        let epoch = slot.record.breaker.epoch;
        let result = rule(slot);
        // Callers of here see it at once; it is told as the fleet's when it is.
        self.has_news |= slot.record.breaker.epoch != epoch;
        slot.notes.set_run(Run::Counts);
        slot.record.doubt_call(false);
        self.alone_from = slot.record.tickets.next_serial();
        Some(result)
    }

    /// Whether something has happened here that the store has not got.
    pub fn is_alone(&self) -> bool {
        match &self.known {
            Known::Held(copy) => copy.alone.is_some() || copy.slot.record.is_alone(),
            Known::Nothing | Known::Absent { .. } => false,
        }
    }

    /// Drafts what happened alone, where it is known what the store has.
    pub fn rejoin(&mut self) {
        if !self.is_idle() {
            return;
        }
        let Known::Held(copy) = &self.known else {
            return;
        };
        if copy.is_doubtful {
            return;
        }
        let mut slot = Box::new(copy.slot.copy());
        match &copy.alone {
            Some(alone) => slot.record.take_alone(&alone.policy, &alone.record),
            None if slot.record.is_alone() => {
                let policy = slot.policy.clone();
                slot.record.end_alone(&policy);
            }
            None => return,
        }
        let changes = slot.record.take_changes();
        self.draft = Some(Draft {
            slot: Some(slot),
            waiting: Vec::new(),
            rejoins: Some(changes),
        });
    }
}

impl Desk {
    /// What was on its way was not sent.
    pub fn stay(&mut self, error: StoreError, now: Time) {
        if let Some(flight) = &mut self.flight {
            flight.writes = false;
        }
        self.land(Err(error), now);
    }

    /// Nothing came of what was on its way; if it was to write, it may be in the store.
    pub(super) fn lose(&mut self, mut flight: Flight, error: StoreError) {
        self.shares_from = Some(crate::clock::instant() + AGAIN_AFTER);
        if let Known::Held(copy) = &mut self.known {
            copy.is_doubtful = true;
            if flight.writes {
                copy.doubt(std::mem::take(&mut flight.bytes), flight.rejoins.is_some());
            }
        } else {
            self.known = Known::Nothing;
        }
        if flight.writes {
            let doubtful = Landing::Doubtful(error.clone());
            for waiting in std::mem::take(&mut flight.waiting) {
                // Who is gone need not be told.
                let _ = waiting.told.send(doubtful.clone());
            }
        }
        self.everybody(flight, &Landing::Failed(error));
    }
}

impl Copy {
    /// These bytes were sent, and no answer came. `rejoins`: with what happened alone.
    pub(super) fn doubt(&mut self, bytes: Vec<u8>, rejoins: bool) {
        if self.sent.len() >= SENT_MAX {
            self.sent.remove(0);
        }
        self.sent.push(bytes);
        let policy = self.slot.policy.clone();
        match &mut self.alone {
            Some(alone) if rejoins => alone.record.doubt(&policy),
            Some(_) => {}
            None => self.slot.record.doubt(&policy),
        }
    }

    /// The store has another version than expected, with these bytes.
    pub(super) fn settle_doubt(&mut self, bytes: &[u8], policy: &Policy) {
        if self.sent.is_empty() {
            return;
        }
        let arrived = match self.sent.iter().any(|sent| sent == bytes) {
            true => Arrived::Yes,
            false => Arrived::Unknown,
        };
        self.sent.clear();
        match &mut self.alone {
            Some(alone) => alone.record.settle_doubt(policy, arrived),
            None => self.slot.record.settle_doubt(policy, arrived),
        }
    }
}

#[cfg(test)]
mod tests;
