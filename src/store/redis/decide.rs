//! One question to the shared store: in place where this replica may answer it alone, with the
//! next swap where not.

use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use holdoff_decision::{Nanos, Reach, Record, Time, alone::Terms, breaker::Phase};
use tokio::time::Instant;

use super::{
    Count, Counted, Joined, Landing, RedisStore, Shared, TRIES,
    desk::{Alone, Desk},
    locked,
};
use crate::{
    permit::DependencyId,
    store::{Name, Notes, Seed, Slot, StoreError, stored},
};

/// Between two looks at a desk whose store is away and where others wait for it still.
const LANDS_SOON: Duration = Duration::from_millis(1);

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
        // Apart, since every question would carry the room that the few need who go this way.
        Box::pin(self.decide_with_others(id, namespace, seed, reach, rule)).await
    }

    async fn decide_with_others<R: Send>(
        &self,
        id: DependencyId,
        namespace: &str,
        seed: impl FnOnce(u64) -> Result<Seed, StoreError> + Send,
        reach: impl Fn(&Slot) -> Reach + Send,
        mut rule: impl FnMut(&mut Slot) -> R + Send,
    ) -> Result<R, StoreError> {
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
            let landed = landing.await;
            let is_doubted = matches!(landed, Ok(Landing::Doubtful(_)));
            match (landed, before) {
                (Ok(Landing::Swapped), Some(before)) => {
                    self.shared.counts.add(Counted::DecidedBySwap);
                    return Ok(for_good(&desk, *before, &mut rule));
                }
                (Ok(Landing::Swapped | Landing::Again), _) => {}
                (Ok(Landing::Failed(error) | Landing::Doubtful(error)), _) => {
                    been.doubted |= is_doubted;
                    if let Some(result) =
                        self.go_alone(id, &desk, &mut maker, &reach, &mut rule, been, error)?
                    {
                        return Ok(result);
                    }
                    // Somebody else is on the way; it lands soon.
                    tokio::time::sleep(LANDS_SOON).await;
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

    /// Alone, since the store does not answer. `None`: something is on its way at the desk.
    #[allow(
        clippy::too_many_arguments,
        reason = "they are one question, taken apart"
    )]
    fn go_alone<R>(
        &self,
        id: DependencyId,
        desk: &Mutex<Desk>,
        maker: &mut Maker<'_, impl FnOnce(u64) -> Result<Seed, StoreError>>,
        reach: &impl Fn(&Slot) -> Reach,
        rule: &mut impl FnMut(&mut Slot) -> R,
        been: Been,
        error: StoreError,
    ) -> Result<Option<R>, StoreError> {
        let mut at = locked(desk);
        self.begin_here(id, &mut at, maker, reach)?;
        if !at.slot().is_some_and(|slot| reach(slot) != Reach::Store) {
            return Err(error);
        }
        let how = self.shared.alone(id, been.doubted);
        let result = at.apply_alone(how, rule);
        if result.is_some() {
            self.shared.tell_news(id, &mut at);
        }
        Ok(result)
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
        if self.shared.guard_of(id).is_open() || at.is_alone() {
            return None;
        }
        match reach(at.in_place()?) {
            Reach::Here => self.apply_in_place(id, &desk, &mut at, rule),
            Reach::Fleet | Reach::Behind | Reach::Store => None,
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
        let guard = shared.guard_of(id);
        if let Some(left) = guard.shut_for(shared.clock.own()) {
            self.begin_here(id, at, maker, reach)?;
            let here = at.slot().map(reach);
            let waits = left > Nanos::ZERO || !guard.is_tried_by_questions();
            if here.is_some_and(|here| here != Reach::Store) && (waits || here == Some(Reach::Here))
            {
                let how = shared.alone(id, been.doubted);
                if let Some(result) = at.apply_alone(how, &mut *rule) {
                    shared.tell_news(id, at);
                    return Ok(Way::Decided(result));
                }
            }
        } else if at.is_alone() {
            at.rejoin();
        } else if shared.is_leased() {
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
                Some((Reach::Behind | Reach::Store, _)) if !been.looking => {
                    been.looking = true;
                    at.doubt();
                }
                Some((Reach::Fleet | Reach::Behind | Reach::Store, _)) | None => {}
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

    /// While the store is away a name begins at this replica, if it is sure to have heard of all
    /// that there were.
    fn begin_here(
        &self,
        id: DependencyId,
        at: &mut Desk,
        maker: &mut Maker<'_, impl FnOnce(u64) -> Result<Seed, StoreError>>,
        reach: &impl Fn(&Slot) -> Reach,
    ) -> Result<(), StoreError> {
        let shared = &self.shared;
        let knows_names = shared.knows_names.load(Ordering::Relaxed);
        if !at.is_blank() || !knows_names || asks_the_store(reach) {
            return Ok(());
        }
        let highest_epoch = shared.highest_epoch.load(Ordering::Relaxed);
        let slot = maker.make(&shared.count, highest_epoch)?;
        if reach(&slot) != Reach::Store {
            at.begin_here(slot);
            shared.count.note(id, at.slot().map(|slot| &slot.name));
        }
        Ok(())
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

impl Shared {
    /// How a rule is applied while the store is away.
    fn alone(&self, id: DependencyId, is_doubted: bool) -> Alone {
        let guard = self.guard_of(id);
        let (own, now) = (self.clock.own(), self.clock.now());
        let silent_for = own.since(guard.answered());
        Alone {
            terms: Terms {
                since: Time(now.0.saturating_sub(silent_for.0)),
                replicas: self.known_replicas(),
                knows_all: false,
            },
            number: self.number,
            next_look: guard.shut_for(own).unwrap_or_default(),
            is_doubted,
        }
    }
}

/// Whether it is an order, of which the store alone can say that there is nothing to be done: orders
/// ask it whatever the record is.
fn asks_the_store(reach: impl Fn(&Slot) -> Reach) -> bool {
    let blank = Slot {
        name: Name {
            namespace: Arc::default(),
            dependency: Box::default(),
        },
        policy: Arc::default(),
        generation: stored::UNRESOLVED,
        notes: Notes::default(),
        record: Record::new(1, Time::ORIGIN),
        beside: None,
    };
    reach(&blank) == Reach::Store
}

/// What a question has done already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Been {
    /// For its group.
    waiting: bool,
    /// At what the store has.
    looking: bool,
    /// To the store, perhaps.
    doubted: bool,
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
