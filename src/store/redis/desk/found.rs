//! What a desk makes of a store that has something else than it expected: another replica's swap, a
//! record that was dropped, or one that the store has lost.

use holdoff_decision::{
    Nanos, Record, Time,
    breaker::{Cause, Phase},
};

use super::{Copy, Desk, Draft, Known, Landing, Path, looks_the_same};
use crate::store::{Slot, StoreError, stored};

/// A record that was used so lately was not dropped by anybody: the store has lost it.
const NOT_DROPPED_WITHIN: Nanos = Nanos::from_secs(300);

impl Desk {
    /// Somebody dropped it, or it ended; or the store has lost it, and this copy is all there is.
    pub(super) fn find_absent(&mut self, highest_epoch: u64, now: Time) {
        if let Known::Held(copy) = &mut self.known {
            let record = &copy.slot.record;
            if stored::is_protected(record, now)
                || stored::is_fresh(record, NOT_DROPPED_WITHIN, now)
            {
                // What began here while the store was away was never there.
                copy.is_lost = !copy.is_new;
                (copy.version, copy.is_doubtful) = (None, false);
                return;
            }
        }
        self.known = Known::Absent { highest_epoch };
    }

    /// # Errors
    /// What the store has cannot be read.
    pub(super) fn find_other(
        &mut self,
        version: Box<str>,
        bytes: Vec<u8>,
        now: Time,
    ) -> Result<(), StoreError> {
        // Versions only rise: what is older means that the store has lost what it had acknowledged,
        // and this copy has not.
        let is_older = self.has_newer_than(&version);
        match stored::read(&bytes) {
            Ok(theirs) if is_older || self.outranks(&theirs, now) => {
                self.keep_over(version, Some(&theirs));
            }
            Ok(theirs) => self.take_theirs(theirs, version, bytes, now),
            Err(_) if is_older => self.keep_over(version, None),
            Err(corrupt) => {
                let why = format!("a record in it cannot be read: {corrupt}");
                return Err(StoreError::Unavailable(why));
            }
        }
        Ok(())
    }

    fn has_newer_than(&self, version: &str) -> bool {
        let number = |version: &str| version.parse::<u64>().unwrap_or(u64::MAX);
        match &self.known {
            Known::Held(copy) => {
                (copy.version.as_deref()).is_some_and(|ours| number(version) < number(ours))
            }
            Known::Nothing | Known::Absent { .. } => false,
        }
    }

    /// The store was emptied: what it had of this record is lost, and what it has now was begun by
    /// others.
    pub fn mark_lost(&mut self) {
        if let Known::Held(copy) = &mut self.known {
            (copy.is_lost, copy.is_doubtful) = (!copy.is_new, true);
        }
    }

    /// Whether the store has lost this copy, and another replica that did not know it has begun
    /// `theirs` anew.
    pub(super) fn outranks(&self, theirs: &Slot, now: Time) -> bool {
        let copy = match &self.known {
            Known::Held(copy) if !copy.is_new => copy,
            Known::Held(_) | Known::Nothing | Known::Absent { .. } => return false,
        };
        let (ours, theirs) = (&copy.slot.record, &theirs.record);
        // Nobody drops what is protected, so its name only begins anew where it was lost.
        stored::is_protected(ours, now) && is_begun_anew(theirs, ours)
            || copy.is_lost && is_newer(ours, theirs, now)
    }

    /// This copy takes the place of what the store has at `version`, with its next swap.
    pub(super) fn keep_over(&mut self, version: Box<str>, theirs: Option<&Slot>) {
        if let Known::Held(copy) = &mut self.known {
            if let Some(theirs) = theirs {
                copy.rise_above(&theirs.record);
            }
            copy.version = Some(version);
            // The store has other bytes, so they are sent also where nothing is changed.
            copy.bytes.clear();
            (copy.is_doubtful, copy.is_lost) = (false, true);
        }
    }

    /// Drafts what the store has lost and nobody may do without: what is open, held or overridden
    /// must hold also at a replica that never knew it. So is whatever is newer than what the store
    /// has: an override that was released here would hold at those who know the older alone.
    pub fn put_back(&mut self, now: Time) {
        // What happened alone takes it along.
        if self.is_idle()
            && !self.is_alone()
            && let Known::Held(copy) = &self.known
            && copy.is_lost
            && !copy.is_doubtful
            && (stored::is_protected(&copy.slot.record, now) || copy.is_kept_over())
        {
            self.draft = Some(Draft {
                slot: Some(Box::new(copy.slot.copy())),
                waiting: Vec::new(),
                rejoins: None,
            });
        }
    }

    /// What another replica has made of a record.
    pub(super) fn take_theirs(&mut self, slot: Slot, version: Box<str>, bytes: Vec<u8>, now: Time) {
        match self.path {
            Path::Strict => {
                let seen = (self.slot()).is_some_and(|before| !looks_the_same(before, &slot));
                // What has gone on alone is what callers see, until it is taken in.
                if let Known::Held(copy) = &mut self.known {
                    self.has_news |= seen && copy.alone.is_none();
                    let policy = copy.slot.policy.clone();
                    copy.settle_doubt(&bytes, &policy);
                }
                self.hold(Box::new(slot), Some(version), bytes);
            }
            Path::Leased(_) => self.take_over(slot, version, bytes, now),
        }
    }
}

impl Copy {
    /// It takes the place of what the store has, and was not swapped in yet.
    pub(super) fn is_kept_over(&self) -> bool {
        self.version.is_some() && self.bytes.is_empty()
    }

    /// No permit of the other record is one of this.
    fn rise_above(&mut self, theirs: &Record) {
        let (ours, theirs) = (&mut self.slot.record, &theirs.breaker);
        let is_another = ours.breaker.epoch == theirs.epoch && ours.breaker.since != theirs.since;
        if is_another || ours.breaker.epoch < theirs.epoch {
            ours.breaker.epoch = theirs.epoch.saturating_add(1);
            ours.tickets.begin_epoch();
        }
    }
}

impl Desk {
    /// Whoever waits for the draft begins again: it was built on what is old now.
    pub(super) fn drop_draft(&mut self) {
        let draft = self.draft.take();
        for waiting in draft.into_iter().flat_map(|draft| draft.waiting) {
            // Who is gone need not be told.
            let _ = waiting.told.send(Landing::Again);
        }
    }
}

/// Nothing has happened to it yet, and it is not the beginning of `ours`.
fn is_begun_anew(theirs: &Record, ours: &Record) -> bool {
    let breaker = &theirs.breaker;
    theirs.order().is_none()
        && breaker.phase == Phase::Closed
        && breaker.past().cause == Cause::New
        && breaker.since > ours.breaker.since
}

/// Of a record that the store has lost and what others have begun or put back there. What begins
/// anew in a shard begins above all epochs of it, so an epoch alone says little.
fn is_newer(ours: &Record, theirs: &Record, now: Time) -> bool {
    let is_above = ours.breaker.epoch > theirs.breaker.epoch;
    match (ours.order_at(now), theirs.order()) {
        (Some(ours), Some(theirs)) => ours.set_at > theirs.set_at,
        (Some(order), None) => {
            let ended = matches!(
                theirs.breaker.past().cause,
                Cause::OverrideCleared | Cause::OverrideExpired
            );
            !(ended && theirs.breaker.since >= order.set_at)
        }
        (None, Some(order)) => is_above && order.set_at < ours.breaker.since,
        (None, None) => is_above,
    }
}
