//! One dependency at one replica: the copy of its record, the swap that is on its way, and the
//! rules that wait for the next. Pure: it is told what the store said, and says what to ask it.
//!
//! ```text
//! known  -- rule, rule, rule -->  draft  -- departs -->  flight  -- swapped -->  known
//!   ^                               |                       |
//!   +-------- everybody again ------+---- other version ----+
//! ```
//!
//! At most one swap is on its way. Whoever comes meanwhile is applied to what that swap will
//! have made, and leaves with the next: however many callers a dependency has, it costs one
//! swap for each round trip. A swap that finds another version has changed nothing: all who
//! built on the copy are told to begin again with what the store has, and each does so in its
//! own task, so no rule outlives the caller that it borrows from.
//!
//! A rule is rehearsed on the draft and applied once more, where it counts, to the very state it
//! was rehearsed on, when the swap has landed. Rules are pure, so it comes to the same.

mod alone;
mod found;
mod leased;

use holdoff_decision::{Summary, Time, record::Change};
use tokio::{sync::oneshot, time::Instant};

pub use self::alone::Alone;
use super::script::{Act, Outcome, Tells, Version};
use crate::store::{Run, Slot, StoreError, stored};

const NO_VERSION: &str = "?";

/// See the module.
#[derive(Debug, Default)]
pub struct Desk {
    path: Path,
    known: Known,
    flight: Option<Flight>,
    draft: Option<Draft>,
    /// What another replica has swapped in while a flight was out.
    overheard: Option<(Box<str>, Vec<u8>)>,
    /// What other replicas have told while a flight was out.
    heard: Vec<Summary>,
    /// Callers see another state, by what another replica did or by a swap that nobody waited
    /// for.
    has_news: bool,
    /// It is listed among those that have something to tell.
    is_listed: bool,
    /// The next group of questions leaves no earlier.
    leaves_from: Option<Instant>,
    /// A group gathers, and will be sent.
    gathers: bool,
    /// After a failure nothing is sent for nobody before this.
    shares_from: Option<Instant>,
    /// Serials of permits that were given out alone are below it.
    alone_from: u64,
}

/// How decisions are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Path {
    /// Each by a swap of the whole record.
    #[default]
    Strict,
    /// In place where the fleet need not agree; the shared form is swapped. The number of this
    /// replica.
    Leased(u16),
}

/// What the store had when it was last asked.
#[derive(Debug, Default)]
enum Known {
    /// It was not asked, or nothing came.
    #[default]
    Nothing,
    /// No record. No epoch of its shard was higher.
    Absent {
        highest_epoch: u64,
    },
    Held(Copy),
}

#[derive(Debug)]
struct Copy {
    slot: Box<Slot>,
    version: Version,
    /// Of the slot as the store has it.
    bytes: Vec<u8>,
    /// What was sent last may have arrived or not: the store is asked before it is built on.
    is_doubtful: bool,
    /// When the store was told to keep it; `None`: by others.
    kept_since: Option<Time>,
    /// When the store had this version last, for sure.
    confirmed: Time,
    /// It began here while the store was away, and the store was not asked for it since.
    is_new: bool,
    /// The store had it and has lost it, or was emptied, and got nothing of it since.
    is_lost: bool,
    /// What was sent without an answer, and may still arrive.
    sent: Vec<Vec<u8>>,
    /// On the strict path: what has gone on while the store is away.
    alone: Option<Box<Slot>>,
}

#[derive(Debug)]
struct Draft {
    /// `None`: it only waits for what the store has.
    slot: Option<Box<Slot>>,
    waiting: Vec<Waiting>,
    /// It has what happened alone: with these changes, that were told to nobody.
    rejoins: Option<Vec<Change>>,
}

#[derive(Debug)]
struct Flight {
    slot: Option<Box<Slot>>,
    bytes: Vec<u8>,
    waiting: Vec<Waiting>,
    rejoins: Option<Vec<Change>>,
    /// It changes what the store has.
    writes: bool,
}

#[derive(Debug)]
struct Waiting {
    told: oneshot::Sender<Landing>,
    /// What this rule changed, for the case that its caller is gone.
    changes: Vec<Change>,
}

/// What became of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Landing {
    Swapped,
    /// Nothing: somebody was faster.
    Again,
    Failed(StoreError),
    /// As [`Self::Failed`], but it may be in the store.
    Doubtful(StoreError),
}

/// A rule that waits.
#[derive(Debug)]
pub struct Joined {
    /// The state that it was rehearsed on; `None`: nothing was known, and it was not.
    pub before: Option<Box<Slot>>,
    pub landing: oneshot::Receiver<Landing>,
}

/// What is to be asked of the store.
#[derive(Debug, PartialEq)]
pub struct Departure {
    pub expected: Version,
    pub act: Act,
    pub epoch: u64,
    pub tells: Tells,
}

/// How long records are kept in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    pub usual_ms: u64,
    /// Of those that no idleness may end.
    pub protected_ms: u64,
}

impl Desk {
    /// Rehearses a rule on what the next swap will make. `make` gives the slot of a record that
    /// is not there, whose first epoch is above the one that it is given.
    ///
    /// # Errors
    /// What `make` says.
    pub fn join(
        &mut self,
        make: impl FnOnce(u64) -> Result<Slot, StoreError>,
        rule: impl FnOnce(&mut Slot),
    ) -> Result<Joined, StoreError> {
        let (told, landing) = oneshot::channel();
        if self.draft.is_none() {
            let slot = match (&self.flight, &self.known) {
                (Some(flight), _) => flight.slot.as_ref().map(|slot| Box::new(slot.copy())),
                (None, Known::Nothing) => None,
                (None, Known::Absent { highest_epoch }) => {
                    let mut slot = make(*highest_epoch)?;
                    self.path.begin(&mut slot);
                    Some(Box::new(slot))
                }
                (None, Known::Held(copy)) if copy.is_doubtful => None,
                (None, Known::Held(copy)) => Some(Box::new(copy.slot.copy())),
            };
            self.draft = Some(Draft {
                slot,
                waiting: Vec::new(),
                rejoins: None,
            });
        }
        let Some(draft) = &mut self.draft else {
            return Err(StoreError::Unavailable("no draft".to_owned()));
        };
        let before = draft.slot.as_ref().map(|slot| Box::new(slot.copy()));
        let changes = match &mut draft.slot {
            Some(slot) => {
                slot.notes.set_run(Run::Rehearsal);
                rule(slot);
                slot.notes.set_run(Run::Counts);
                slot.record.take_changes()
            }
            None => Vec::new(),
        };
        draft.waiting.push(Waiting { told, changes });
        Ok(Joined { before, landing })
    }

    /// The draft leaves, if there is one and nothing is on its way.
    pub fn depart(&mut self, lifetimes: Lifetimes, now: Time) -> Option<Departure> {
        if self.flight.is_some() {
            return None;
        }
        let Draft {
            slot,
            waiting,
            rejoins,
        } = self.draft.take()?;
        let (expected, held) = match &self.known {
            // No record has it, so whatever is there is told.
            Known::Nothing => (Some(NO_VERSION.into()), &[][..]),
            Known::Absent { .. } => (None, &[][..]),
            Known::Held(copy) => (copy.version.clone(), &copy.bytes[..]),
        };
        let had = match &self.known {
            Known::Held(copy) => Some(&*copy.slot),
            Known::Nothing | Known::Absent { .. } => None,
        };
        let tells = self.path.tells(had, slot.as_deref());
        let mut bytes = Vec::with_capacity(held.len() + 64);
        let (act, epoch) = match &slot {
            None => (Act::Look, 0),
            Some(slot) => {
                self.path.write(slot, &mut bytes);
                let unchanged = bytes == held && expected.is_some();
                if unchanged && matches!(self.path, Path::Leased(_)) {
                    // Nothing that is shared was changed, or is needed.
                    let flight = Flight {
                        slot: Some(slot.clone()),
                        bytes,
                        waiting,
                        rejoins,
                        writes: false,
                    };
                    self.swapped(flight, expected);
                    return None;
                }
                let act = match bytes == held && expected.is_some() {
                    true => Act::Look,
                    false => Act::Put {
                        bytes: bytes.clone(),
                        kept_for_ms: lifetimes.of(slot, now),
                    },
                };
                (act, slot.record.breaker.epoch)
            }
        };
        self.flight = Some(Flight {
            slot,
            bytes,
            waiting,
            rejoins,
            writes: act != Act::Look,
        });
        Some(Departure {
            expected,
            act,
            epoch,
            tells,
        })
    }

    /// The store has answered, or `Err`: nothing came.
    pub fn land(&mut self, answer: Result<Outcome, StoreError>, now: Time) {
        let is_answered = answer.is_ok();
        self.take_answer(answer, now);
        if let (true, Known::Held(copy)) = (is_answered, &mut self.known) {
            copy.confirmed = copy.confirmed.max(now);
            copy.is_new = false;
        }
        if is_answered {
            // Whoever finds out that it is lost.
            self.put_back(now);
        }
        if let Some((version, bytes)) = self.overheard.take() {
            self.overhear(&version, &bytes, now);
        }
        self.hear_all(now);
        self.share_trip();
    }

    fn take_answer(&mut self, answer: Result<Outcome, StoreError>, now: Time) {
        let Some(flight) = self.flight.take() else {
            return;
        };
        match answer {
            Ok(Outcome::Done(version)) => self.swapped(flight, version),
            Ok(Outcome::Absent { highest_epoch }) => {
                self.find_absent(highest_epoch, now);
                self.everybody(flight, &Landing::Again);
            }
            Ok(Outcome::Other { version, bytes }) => {
                let landing = match self.find_other(version, bytes, now) {
                    Ok(()) => Landing::Again,
                    Err(error) => Landing::Failed(error),
                };
                self.everybody(flight, &landing);
            }
            Err(error) => self.lose(flight, error),
        }
    }

    fn swapped(&mut self, flight: Flight, version: Version) {
        let landing = match flight.slot {
            Some(mut slot) => {
                slot.record.note_shared();
                self.hold(slot, version, flight.bytes);
                if let (Some(changes), Known::Held(copy)) = (flight.rejoins, &mut self.known) {
                    copy.alone = None;
                    copy.slot.record.put_back_changes(changes);
                    self.has_news = true;
                }
                let leased = matches!(self.path, Path::Leased(_));
                self.has_news |= leased && (self.slot()).is_some_and(|it| it.record.has_changes());
                Landing::Swapped
            }
            None => {
                if let Known::Held(copy) = &mut self.known {
                    // The store has it as it is here, or still what this takes the place of.
                    (copy.is_doubtful, copy.is_lost) = (false, copy.is_kept_over());
                }
                Landing::Again
            }
        };
        for Waiting { told, changes } in flight.waiting {
            // A caller that has gone leaves what it changed to be told with the next.
            if told.send(landing.clone()).is_err()
                && let Known::Held(copy) = &mut self.known
            {
                copy.slot.record.put_back_changes(changes);
            }
        }
    }

    /// The local part of the former copy goes on: policy, candidate and counts.
    fn hold(&mut self, mut slot: Box<Slot>, version: Version, bytes: Vec<u8>) {
        let (mut alone, mut confirmed) = (None, Time::ORIGIN);
        if let Known::Held(copy) = &mut self.known {
            alone = copy.alone.take();
            confirmed = copy.confirmed;
            slot.record
                .put_back_changes(copy.slot.record.take_changes());
            copy.slot.lend(&mut slot);
            slot.name = copy.slot.name.clone();
            if slot.generation == stored::UNRESOLVED {
                slot.policy = copy.slot.policy.clone();
                slot.generation = copy.slot.generation;
            }
        }
        self.known = Known::Held(Copy {
            slot,
            version,
            bytes,
            is_doubtful: false,
            kept_since: None,
            confirmed,
            is_new: false,
            is_lost: false,
            sent: Vec::new(),
            alone,
        });
    }

    /// All who built on the copy: those on their way and those who wait for the next.
    fn everybody(&mut self, flight: Flight, landing: &Landing) {
        let waits = self.draft.take().map(|draft| draft.waiting);
        for Waiting { told, .. } in flight
            .waiting
            .into_iter()
            .chain(waits.into_iter().flatten())
        {
            // Who is gone need not be told.
            let _ = told.send(landing.clone());
        }
    }

    /// The last known state, for those that look on; it may be old.
    pub fn slot(&self) -> Option<&Slot> {
        match &self.known {
            Known::Held(copy) => Some(copy.alone.as_ref().unwrap_or(&copy.slot)),
            Known::Nothing | Known::Absent { .. } => None,
        }
    }

    /// As [`Self::slot`]. What is changed there is local: policy, candidate, changes to tell.
    pub fn slot_mut(&mut self) -> Option<&mut Slot> {
        match &mut self.known {
            Known::Held(copy) => Some(copy.alone.as_mut().unwrap_or(&mut copy.slot)),
            Known::Nothing | Known::Absent { .. } => None,
        }
    }

    pub fn version(&self) -> Version {
        match &self.known {
            Known::Held(copy) => copy.version.clone(),
            Known::Nothing | Known::Absent { .. } => None,
        }
    }

    /// Whether nobody waits here.
    pub fn is_idle(&self) -> bool {
        self.flight.is_none() && self.draft.is_none()
    }

    /// When the store was told to keep it; `None`: not by us, or there is none.
    pub fn kept_since(&self) -> Option<Time> {
        match &self.known {
            Known::Held(copy) => copy.kept_since,
            Known::Nothing | Known::Absent { .. } => None,
        }
    }

    pub fn keep_since(&mut self, now: Time) {
        if let Known::Held(copy) = &mut self.known {
            copy.kept_since = Some(now);
        }
    }
}

/// Whether callers and operators see the same of both.
fn looks_the_same(one: &Slot, two: &Slot) -> bool {
    let (one, two) = (&one.record, &two.record);
    one.breaker.epoch == two.breaker.epoch
        && one.breaker.phase == two.breaker.phase
        && one.held_until() == two.held_until()
        && one.order() == two.order()
}

impl Lifetimes {
    pub fn of(self, slot: &Slot, now: Time) -> u64 {
        match stored::is_protected(&slot.record, now) {
            true => self.protected_ms,
            false => self.usual_ms,
        }
    }
}

#[cfg(test)]
mod tests;
