//! What a desk makes of a store that has something else than it expected: another replica's swap, a
//! record that was dropped, or one that the store has lost.

use holdoff_decision::{Nanos, Time};

use super::{Desk, Draft, Known, Path, looks_the_same};
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
        let number = |version: &str| version.parse::<u64>().unwrap_or(u64::MAX);
        if let Known::Held(copy) = &mut self.known
            && (copy.version.as_deref()).is_some_and(|ours| number(&version) < number(ours))
        {
            // Versions only rise: the store has lost what it had acknowledged, and this copy has
            // not.
            self.keep_over(version);
            return Ok(());
        }
        let slot = stored::read(&bytes).map_err(|corrupt| {
            StoreError::Unavailable(format!("a record in it cannot be read: {corrupt}"))
        })?;
        if self.outranks(&slot) {
            self.keep_over(version);
            return Ok(());
        }
        self.take_theirs(slot, version, bytes, now);
        Ok(())
    }

    /// Whether the store has lost this copy, and another replica that did not know it has begun
    /// `theirs` anew.
    pub(super) fn outranks(&self, theirs: &Slot) -> bool {
        let ours = match &self.known {
            Known::Held(copy) if copy.is_lost => &copy.slot,
            Known::Held(_) | Known::Nothing | Known::Absent { .. } => return false,
        };
        ours.record.breaker.epoch > theirs.record.breaker.epoch
    }

    /// This copy takes the place of what the store has at `version`, with its next swap.
    pub(super) fn keep_over(&mut self, version: Box<str>) {
        if let Known::Held(copy) = &mut self.known {
            copy.version = Some(version);
            // The store has other bytes, so they are sent also where nothing is changed.
            copy.bytes.clear();
            (copy.is_doubtful, copy.is_lost) = (false, true);
        }
    }

    /// Drafts what the store has lost and nobody may do without: what is open, held or overridden
    /// must hold also at a replica that never knew it.
    pub fn put_back(&mut self, now: Time) {
        if self.is_idle()
            && let Known::Held(copy) = &self.known
            && copy.is_lost
            && !copy.is_doubtful
            && stored::is_protected(&copy.slot.record, now)
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
