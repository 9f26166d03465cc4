//! One question to the shared store: in place where this replica may answer it alone, with the
//! next swap where not.

use std::sync::{Arc, Mutex};

use holdoff_decision::{Reach, breaker::Phase};
use tokio::time::Instant;

use super::{Count, Counted, Joined, Landing, RedisStore, TRIES, desk::Desk, locked};
use crate::{
    permit::DependencyId,
    store::{Name, Notes, Seed, Slot, StoreError},
};

/// How a question goes on.
enum Way<R> {
    Decided(R),
    Joined(Joined),
    /// The next group leaves then.
    Waits(Instant),
}

impl RedisStore {
    pub(super) async fn decide<R: Send>(
        &self,
        id: DependencyId,
        namespace: &str,
        seed: impl FnOnce(u64) -> Result<Seed, StoreError> + Send,
        reach: impl Fn(&Slot) -> Reach + Send,
        mut rule: impl FnMut(&mut Slot) -> R + Send,
    ) -> Result<R, StoreError> {
        if self.shared.is_leased()
            && let Some(result) = self.decide_here(id, &reach, &mut rule)
        {
            return Ok(result);
        }
        let desk = self.shared.desk(id);
        let mut maker = Maker {
            namespace,
            seed: Some(seed),
            made: None,
        };
        let mut been = Been::default();
        for _ in 0..TRIES {
            let way = {
                let mut at = locked(&desk);
                self.go(id, &desk, &mut at, &mut maker, &reach, &mut rule, &mut been)
            };
            let Joined { before, landing } = match way {
                Ok(Way::Decided(result)) => return Ok(result),
                Ok(Way::Waits(until)) => {
                    tokio::time::sleep_until(until).await;
                    continue;
                }
                Ok(Way::Joined(joined)) => joined,
                Err(refused) => {
                    self.leave(id, &desk);
                    return Err(refused);
                }
            };
            match (landing.await, before) {
                (Ok(Landing::Swapped), Some(before)) => {
                    self.shared.counts.add(Counted::DecidedBySwap);
                    return Ok(for_good(&desk, *before, &mut rule));
                }
                (Ok(Landing::Swapped | Landing::Again), _) => {}
                (Ok(Landing::Failed(error)), _) => {
                    let here = locked(&desk).slot().map(&reach);
                    if !self.shared.is_leased() || here != Some(Reach::Here) {
                        return Err(error);
                    }
                }
                (Err(_), _) => {
                    let stopped = "this replica is stopping".to_owned();
                    return Err(StoreError::Unavailable(stopped));
                }
            }
        }
        let lost = format!("others were faster {TRIES} times");
        Err(StoreError::Unavailable(lost))
    }

    /// Most questions: nobody else has to agree, and nothing is on its way.
    fn decide_here<R>(
        &self,
        id: DependencyId,
        reach: &impl Fn(&Slot) -> Reach,
        rule: &mut impl FnMut(&mut Slot) -> R,
    ) -> Option<R> {
        let desk = self.shared.desks.get(&id)?;
        let mut at = locked(&desk);
        match reach(at.in_place()?) {
            Reach::Here => self.apply_in_place(id, &desk, &mut at, rule),
            Reach::Fleet | Reach::Behind => None,
        }
    }

    fn apply_in_place<R>(
        &self,
        id: DependencyId,
        desk: &Arc<Mutex<Desk>>,
        at: &mut Desk,
        rule: &mut impl FnMut(&mut Slot) -> R,
    ) -> Option<R> {
        let result = at.apply(rule)?;
        self.shared.counts.add_in_place(id);
        if at.list() {
            self.shared.feed.list(id);
        }
        self.shared.dispatch(id, desk, at);
        Some(result)
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "they are one question, taken apart"
    )]
    fn go<R>(
        &self,
        id: DependencyId,
        desk: &Arc<Mutex<Desk>>,
        at: &mut Desk,
        maker: &mut Maker<'_, impl FnOnce(u64) -> Result<Seed, StoreError>>,
        reach: &impl Fn(&Slot) -> Reach,
        rule: &mut impl FnMut(&mut Slot) -> R,
        been: &mut Been,
    ) -> Result<Way<R>, StoreError> {
        let shared = &self.shared;
        if shared.is_leased() {
            let here = at
                .in_place()
                .map(|slot| (reach(slot), slot.record.breaker.phase));
            match here {
                Some((Reach::Here, _)) => {
                    if let Some(result) = self.apply_in_place(id, desk, at, rule) {
                        return Ok(Way::Decided(result));
                    }
                }
                Some((Reach::Fleet, Phase::Closed)) if !been.waiting => {
                    let from = at
                        .leaves_from()
                        .filter(|from| *from > crate::clock::instant());
                    if let Some(from) = from {
                        been.waiting = true;
                        shared.depart_later(id, desk, at, from + shared.timing.grouped_for / 20);
                        return Ok(Way::Waits(from));
                    }
                }
                Some((Reach::Behind, _)) if !been.looking => {
                    been.looking = true;
                    at.doubt();
                }
                Some((Reach::Fleet | Reach::Behind, _)) | None => {}
            }
        }
        let count = &shared.count;
        let joined = at.join(
            |highest| maker.make(count, highest),
            |slot| drop(rule(slot)),
        )?;
        shared.dispatch(id, desk, at);
        Ok(Way::Joined(joined))
    }

    /// A name that may not be makes no desk.
    fn leave(&self, id: DependencyId, desk: &Arc<Mutex<Desk>>) {
        let at = locked(desk);
        if at.slot().is_none() && at.is_idle() {
            drop(at);
            self.shared.desks.remove(&id);
        }
    }
}

/// What a question has done already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Been {
    /// For its group.
    waiting: bool,
    /// At what the store has.
    looking: bool,
}

/// Makes the slot of a record that is not there, once.
struct Maker<'a, F> {
    namespace: &'a str,
    seed: Option<F>,
    made: Option<Slot>,
}

impl<F: FnOnce(u64) -> Result<Seed, StoreError>> Maker<'_, F> {
    fn make(&mut self, count: &Count, highest_epoch: u64) -> Result<Slot, StoreError> {
        let first_epoch = highest_epoch.saturating_add(1);
        if let Some(seed) = self.seed.take() {
            let seed = seed(first_epoch)?;
            count.has_room(self.namespace, seed.limits)?;
            self.made = Some(Slot {
                name: Name {
                    namespace: count.shared_name(self.namespace),
                    dependency: seed.dependency,
                },
                policy: seed.policy,
                generation: seed.generation,
                notes: Notes::default(),
                record: seed.record,
                beside: None,
            });
        }
        let mut slot = self.made.clone().ok_or(StoreError::Unknown)?;
        // Others may have made and lost it meanwhile.
        slot.record.breaker.epoch = slot.record.breaker.epoch.max(first_epoch);
        Ok(slot)
    }
}

/// Applies a rule where it counts, to the state that it was swapped in from. What is local to
/// this replica is lent to it: the candidate, what was counted, and what is still to be told.
fn for_good<R>(desk: &Mutex<Desk>, mut before: Slot, rule: &mut impl FnMut(&mut Slot) -> R) -> R {
    let mut at = locked(desk);
    if let Some(slot) = at.slot_mut() {
        slot.lend(&mut before);
        before.record.put_back_changes(slot.record.take_changes());
    }
    let result = rule(&mut before);
    if let Some(slot) = at.slot_mut() {
        before.lend(slot);
    }
    result
}
