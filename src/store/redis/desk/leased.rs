//! A desk on the leased path: its copy is the replica's own record, of which a part is shared.
//!
//! While nothing is on its way, rules are applied to it in place. A swap carries a copy of it; who
//! comes meanwhile waits for the landing, a round trip at most, since what was done in place
//! to the copy would be lost with it. So a group gathers *before* it is drafted: a question that the
//! fleet must answer waits until the next group may leave, and those in place go on.

use std::time::Duration;

use holdoff_decision::{Record, Summary, Time};
use tokio::time::Instant;

use super::{Desk, Draft, Known, Path, looks_the_same};
use crate::store::{
    Run, Slot,
    redis::script::{Tells, Version},
    stored,
};

/// Summaries that wait for a landing.
const HEARD_MAX: usize = 64;
/// A trip that the store did not take is sent again.
pub const AGAIN_AFTER: Duration = Duration::from_millis(100);

impl Path {
    /// Makes a record one of this replica.
    pub fn begin(self, slot: &mut Slot) {
        match self {
            Self::Strict => {}
            Self::Leased(replica) => slot.record.become_of_replica(replica),
        }
    }

    /// What others are told of a swap: on the strict path only what callers see, for those who
    /// follow.
    pub fn tells(self, before: Option<&Slot>, after: Option<&Slot>) -> Tells {
        match (self, before, after) {
            (Self::Leased(_), ..) => Tells::Bytes,
            (Self::Strict, Some(before), Some(after)) if !looks_the_same(before, after) => {
                Tells::Bytes
            }
            (Self::Strict, None, Some(_)) => Tells::Bytes,
            (Self::Strict, ..) => Tells::Nothing,
        }
    }

    pub fn write(self, slot: &Slot, out: &mut Vec<u8>) {
        match self {
            Self::Strict => stored::write(slot, out),
            Self::Leased(_) => stored::write_shared(slot, out),
        }
    }
}

impl Desk {
    pub fn new(path: Path) -> Self {
        Self {
            path,
            ..Self::default()
        }
    }

    /// The record, where a rule may be applied to it in place: nothing is on its way.
    pub fn in_place(&mut self) -> Option<&mut Slot> {
        if self.flight.is_some() || self.draft.is_some() {
            return None;
        }
        self.slot_mut()
    }

    /// Applies a rule in place.
    pub fn apply<R>(&mut self, rule: impl FnOnce(&mut Slot) -> R) -> Option<R> {
        let slot = self.in_place()?;
        slot.notes.set_run(Run::InPlace);
        let result = rule(slot);
        slot.notes.set_run(Run::Counts);
        self.share_trip();
        Some(result)
    }

    /// A trip or a hold that is known here alone is to leave.
    pub fn share_trip(&mut self) {
        if (self.slot()).is_some_and(|slot| slot.record.is_unshared()) {
            self.share();
        }
    }

    /// Takes what another replica tells; while a flight is out, when it has landed.
    pub fn hear(&mut self, told: Summary, now: Time) {
        if self.heard.len() < HEARD_MAX {
            self.heard.push(told);
        }
        self.hear_all(now);
    }

    pub(super) fn hear_all(&mut self, now: Time) {
        if self.heard.is_empty() || !self.is_in_place() {
            return;
        }
        let heard = std::mem::take(&mut self.heard);
        if let Some(slot) = self.in_place() {
            let policy = slot.policy.clone();
            for told in &heard {
                slot.record.hear(&policy, told, now);
            }
            let has_news = slot.record.has_changes() && !slot.record.is_unshared();
            self.has_news |= has_news;
        }
        self.share_trip();
    }

    /// Whether it owes the fleet's budget something; that is drafted.
    pub fn settle_debts(&mut self, now: Time) {
        self.share_trip();
        if (self.slot()).is_some_and(|slot| slot.record.owes_deposits(now)) {
            self.share();
        }
    }

    /// The store may have another version that was not told.
    pub fn doubt(&mut self) {
        if let Known::Held(copy) = &mut self.known {
            copy.is_doubtful = true;
        }
    }

    /// Drafts what is known here, for nobody who waits.
    pub fn share(&mut self) {
        let waits = self
            .shares_from
            .is_some_and(|from| crate::clock::instant() < from);
        if let Known::Held(copy) = &self.known
            && !waits
            && !copy.slot.record.is_alone()
            && self.flight.is_none()
            && self.draft.is_none()
            && matches!(self.path, Path::Leased(_))
        {
            let slot = (!copy.is_doubtful).then(|| Box::new(copy.slot.copy()));
            let waiting = Vec::new();
            self.draft = Some(Draft {
                slot,
                waiting,
                rejoins: None,
            });
        }
    }

    /// Another replica has swapped this in.
    pub fn overhear(&mut self, version: &str, bytes: &[u8], now: Time) {
        let number = |version: &str| version.parse::<u64>().unwrap_or(0);
        let known = match &self.known {
            Known::Held(copy) => copy.version.as_deref().map_or(0, number),
            Known::Nothing | Known::Absent { .. } => 0,
        };
        if number(version) <= known {
            return;
        }
        if self.flight.is_some() {
            let newer =
                (self.overheard.as_ref()).is_none_or(|(at, _)| number(at) < number(version));
            if newer {
                self.overheard = Some((version.into(), bytes.to_vec()));
            }
            return;
        }
        // What cannot be read is told to whoever asks next.
        if let Ok(slot) = stored::read(bytes) {
            self.drop_draft();
            if self.outranks(&slot, now) {
                self.keep_over(version.into(), Some(&slot));
                self.put_back(now);
                return;
            }
            self.take_theirs(slot, version.into(), bytes.to_vec(), now);
        }
    }

    /// Takes what is shared of a record, and keeps what is this replica's own.
    pub(super) fn take_over(&mut self, slot: Slot, version: Box<str>, bytes: Vec<u8>, now: Time) {
        let version: Version = Some(version);
        let Known::Held(copy) = &mut self.known else {
            let mut slot = slot;
            self.path.begin(&mut slot);
            slot.record.touched = slot.record.touched.max(now);
            self.has_news = true;
            return self.hold(Box::new(slot), version, bytes);
        };
        let policy = copy.slot.policy.clone();
        copy.settle_doubt(&bytes, &policy);
        self.has_news |= copy.slot.record.take_shared(&policy, slot.record, now);
        let checks = slot.beside.and_then(|beside| beside.checks);
        if checks.is_some() {
            copy.slot.beside.get_or_insert_default().checks = checks;
        }
        (copy.version, copy.bytes, copy.is_doubtful) = (version, bytes, false);
        (copy.is_new, copy.is_lost) = (false, false);
        copy.sent.clear();
    }

    /// Whether callers see another state than was told.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Whether it has something to tell and was not listed for it. It is now.
    pub fn list(&mut self) -> bool {
        let lists = !self.is_listed && self.slot().is_some_and(|slot| slot.record.has_gathered());
        self.is_listed |= lists;
        lists
    }

    /// What is to be told; it is not listed any more.
    pub fn take_gathered(&mut self) -> Option<Summary> {
        self.is_listed = false;
        self.record_mut()?.take_gathered()
    }

    pub fn has_failures(&self) -> bool {
        (self.slot()).is_some_and(|slot| slot.record.gathered_failures())
    }

    /// Whether what was gathered may be taken: it goes with the copy of a flight.
    pub fn is_in_place(&mut self) -> bool {
        self.in_place().is_some()
    }

    fn record_mut(&mut self) -> Option<&mut Record> {
        self.in_place().map(|slot| &mut slot.record)
    }

    /// When the next group may leave.
    pub fn leaves_from(&self) -> Option<Instant> {
        self.leaves_from
    }

    /// Whether something is to leave.
    pub fn has_draft(&self) -> bool {
        self.draft.is_some()
    }

    pub fn group_until(&mut self, at: Instant) {
        self.leaves_from = Some(at);
    }

    /// Whether a group gathers that somebody will send.
    pub fn gathers(&self) -> bool {
        self.gathers
    }

    /// True: nobody else sends this group.
    pub fn begin_gathering(&mut self) -> bool {
        !std::mem::replace(&mut self.gathers, true)
    }

    pub fn end_gathering(&mut self) {
        self.gathers = false;
    }
}
