//! What happened: the newest events for those who ask, all of them for those who listen.
//!
//! An event is published when what it tells is durable, so nobody acts on a trip that a crash
//! would undo. Until then it waits in the outbox, which is bounded as everything here.
//!
//! Where a store is shared the fleet numbers events, and they are published as they come back
//! from it (`happened`): every replica publishes the same, in one order. While the store is away a
//! replica shows its own without numbers.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use holdoff_decision::{State, breaker::Cause, evidence::News, policy::Mode, record::Change};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, broadcast};

use super::{Who, evidence};
use crate::store::Slot;

/// Events that are remembered.
pub const KEPT: usize = 10_000;
/// Events that a listener may be behind before it loses some.
const BEHIND_MAX: usize = 1_024;
/// Events that may wait to become durable.
const WAITING_MAX: usize = 100_000;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Given when it is published.
    pub sequence: u64,
    pub time: SystemTime,
    pub kind: EventKind,
    pub namespace: String,
    pub dependency: String,
    pub states: Option<(State, State)>,
    pub epoch: u64,
    pub detail: String,
    pub owner: String,
    pub teller: Teller,
}

/// Who tells of it. Zeros where no store is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Teller {
    /// Its number.
    pub replica: u16,
    /// The run of that replica, and the run's own number of the event.
    pub run: u64,
    pub number: u64,
}

/// The newest event, by which it is known whether a store has what it had.
#[derive(Clone, Debug)]
pub struct Newest {
    /// 0: there was none.
    pub number: u64,
    /// As the store has it.
    pub bytes: Vec<u8>,
}

impl Newest {
    pub fn is(&self, number: u64, bytes: &[u8]) -> bool {
        self.number == number && *self.bytes == *bytes
    }
}

impl Event {
    /// Whether the fleet has not heard of it yet: it has no place in the order of all.
    pub fn is_pending(&self) -> bool {
        self.sequence == 0
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    Tripped,
    Probing,
    Reopened,
    Recovered,
    OverrideSet,
    OverrideCleared,
    OverrideExpired,
    Reset,
    Held,
    HoldCleared,
    PolicyPut,
    PolicyDeleted,
    PoliciesReloaded,
    PoliciesRefused,
    ShadowTripped,
    Started,
    CallerRefused,
    CallerRecovered,
    RampEnded,
    CheckUnhealthy,
    CheckHealthy,
    CandidatePut,
    CandidateDropped,
    CandidatePromoted,
    CandidateTripped,
    StoreAway,
    StoreBack,
}

/// See the module.
#[derive(Debug)]
pub struct Events {
    outbox: Mutex<VecDeque<Event>>,
    handed_over: Notify,
    unsent: Mutex<Unsent>,
    kept: Mutex<Kept>,
    listeners: broadcast::Sender<Event>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The number of the newest event.
    newest: u64,
    /// Where a store is shared: that event as it is there.
    newest_bytes: Vec<u8>,
    /// Of all that were seen: `newest` begins anew where the store has lost some.
    highest: u64,
    /// Rises with whatever changes here.
    version: u64,
    events: VecDeque<Event>,
    /// Of this replica alone so far: the store is away.
    pending: VecDeque<Event>,
    /// Of each run's own numbers the highest that came back from the store. A run's numbers rise in
    /// the store's order, so what is not above it was seen.
    heard: HashMap<u64, u64>,
    /// This run.
    own: u64,
}

/// What happened here and the fleet has not been told for sure.
#[derive(Debug, Default)]
struct Unsent {
    /// Numbers that were given.
    given: u64,
    events: VecDeque<Event>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            outbox: Mutex::default(),
            handed_over: Notify::new(),
            unsent: Mutex::default(),
            kept: Mutex::default(),
            listeners: broadcast::Sender::new(BEHIND_MAX),
        }
    }
}

impl Events {
    /// Hands an event over to be published. False: it is lost, since too many wait.
    pub fn hand_over(&self, event: Event) -> bool {
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        let room = outbox.len() < WAITING_MAX;
        if room {
            outbox.push_back(event);
            self.handed_over.notify_one();
        }
        room
    }

    /// Waits until something was handed over, and takes all of it.
    pub async fn handed_over(&self) -> Vec<Event> {
        loop {
            let waiting = self.taken();
            if !waiting.is_empty() {
                return waiting;
            }
            self.handed_over.notified().await;
        }
    }

    /// What was handed over.
    pub fn taken(&self) -> Vec<Event> {
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        outbox.drain(..).collect()
    }

    /// Numbers events, remembers them and tells the listeners.
    pub fn publish(&self, events: Vec<Event>) {
        let mut kept = self.kept();
        for mut event in events {
            event.sequence = kept.newest + 1;
            kept.keep(event.clone());
            // Nobody listens: that is no failure.
            let _ = self.listeners.send(event);
        }
    }

    /// Events of this replica, to be told to the fleet. Returns how many were lost, since too
    /// many wait.
    pub fn queue(&self, (replica, run): (u16, u64), events: Vec<Event>) -> usize {
        let mut unsent = self.unsent();
        self.kept().own = run;
        for mut event in events {
            unsent.given += 1;
            event.teller = Teller {
                replica,
                run,
                number: unsent.given,
            };
            unsent.events.push_back(event);
        }
        let lost = unsent.events.len().saturating_sub(KEPT);
        unsent.events.drain(..lost);
        lost
    }

    /// The oldest that the fleet has not been told.
    pub fn unsent_first(&self, most: usize) -> Vec<Event> {
        self.unsent().events.iter().take(most).cloned().collect()
    }

    pub fn has_unsent(&self) -> bool {
        !self.unsent().events.is_empty()
    }

    /// The fleet has been told of this run's events up to this own number.
    pub fn sent(&self, number: u64) {
        let mut unsent = self.unsent();
        unsent.events.retain(|event| event.teller.number > number);
    }

    /// What waits for the store is shown here meanwhile, once.
    pub fn publish_pending(&self) {
        let unsent = self.unsent();
        let mut kept = self.kept();
        let shown = kept.pending.back().map_or(0, |event| event.teller.number);
        let from = shown.max(kept.heard.get(&kept.own).copied().unwrap_or(0));
        for event in unsent.events.iter().filter(|it| it.teller.number > from) {
            kept.version += 1;
            if kept.pending.len() >= KEPT {
                kept.pending.pop_front();
            }
            kept.pending.push_back(event.clone());
            // Nobody listens: that is no failure.
            let _ = self.listeners.send(event.clone());
        }
    }

    /// Takes events as the fleet has numbered them, up to `newest`. What this `run` has shown
    /// already is shown no second time.
    pub fn publish_numbered(&self, run: u64, newest: Newest, events: Vec<Event>) {
        let mut kept = self.kept();
        for event in events {
            if event.sequence <= kept.newest || !kept.hear(event.teller) {
                continue;
            }
            let mut is_shown = false;
            if event.teller.run == run {
                let number = event.teller.number;
                let before = kept.pending.len();
                kept.pending.retain(|it| it.teller.number != number);
                is_shown = kept.pending.len() != before;
            }
            kept.keep(event.clone());
            if !is_shown {
                // Nobody listens: that is no failure.
                let _ = self.listeners.send(event);
            }
        }
        if newest.number >= kept.newest {
            kept.note_newest(newest.number);
            kept.newest_bytes = newest.bytes;
        }
    }

    /// The store has lost some of what happened: it is read from its beginning.
    pub fn begin_numbers_anew(&self) {
        self.kept().newest = 0;
    }

    /// No event had a higher number; 0: there was none.
    pub fn highest_number(&self) -> u64 {
        self.kept().highest
    }

    /// The newest event that has a number.
    pub fn newest(&self) -> Newest {
        let kept = self.kept();
        Newest {
            number: kept.newest,
            bytes: kept.newest_bytes.clone(),
        }
    }

    /// Rises with whatever is remembered.
    pub fn version(&self) -> u64 {
        self.kept().version
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unsent(&self) -> MutexGuard<'_, Unsent> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The remembered events that `wanted` names, oldest first, and what comes after them.
    pub fn listen(
        &self,
        wanted: impl Fn(&Event) -> bool,
    ) -> (Vec<Event>, broadcast::Receiver<Event>) {
        let kept = self.kept();
        let past = kept
            .events
            .iter()
            .chain(&kept.pending)
            .filter(|event| wanted(event))
            .cloned()
            .collect();
        (past, self.listeners.subscribe())
    }
}

impl Kept {
    fn note_newest(&mut self, number: u64) {
        self.newest = self.newest.max(number);
        self.highest = self.highest.max(number);
    }

    /// False: it was heard before.
    fn hear(&mut self, teller: Teller) -> bool {
        let last = self.heard.get(&teller.run).copied().unwrap_or(0);
        // A number of 0 was not given.
        if teller.number != 0 && teller.number <= last {
            return false;
        }
        if self.heard.len() >= KEPT {
            let kept: HashSet<u64> = self.events.iter().map(|it| it.teller.run).collect();
            let own = self.own;
            self.heard
                .retain(|run, _| *run == own || kept.contains(run));
        }
        self.heard.insert(teller.run, teller.number.max(last));
        true
    }

    fn keep(&mut self, event: Event) {
        self.note_newest(event.sequence);
        self.version += 1;
        if self.events.len() >= KEPT {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}

/// The event of a change in a record.
pub(super) fn of_change(slot: &Slot, change: Change, who: Who<'_>, time: SystemTime) -> Event {
    let (kind, states, epoch, mut detail) = match change {
        Change::Held(left) => {
            let detail = format!("the dependency asked its callers to wait for {left}");
            (EventKind::Held, None, slot.record.breaker.epoch, detail)
        }
        Change::Caller(news) => {
            let instance = match who {
                Who::Caller(caller) if !caller.instance.is_empty() => caller.instance,
                Who::Caller(_) | Who::Operator(_) | Who::Nobody => "without a name",
            };
            let epoch = slot.record.breaker.epoch;
            match news {
                News::Refused { refused_for, .. } => {
                    let detail = format!(
                        "instance {instance:?} fails while the others do not; refused for {refused_for}"
                    );
                    (EventKind::CallerRefused, None, epoch, detail)
                }
                News::Recovered { .. } => {
                    let detail = format!("instance {instance:?} works again");
                    (EventKind::CallerRecovered, None, epoch, detail)
                }
            }
        }
        Change::Transition {
            from,
            to,
            epoch,
            cause,
        } => {
            // Readers see half-open as soon as the open period is over; what the first probe
            // ends is still that period.
            let from = if cause == Cause::FirstProbe {
                State::Open
            } else {
                from
            };
            let shadow = slot.policy.breaker.mode == Mode::Shadow;
            (
                kind_of(cause, to, shadow),
                Some((from, to)),
                epoch,
                evidence::told(cause, slot.evidence().and_then(|it| it.opened)),
            )
        }
    };
    let owner = match who {
        Who::Operator(actor) => {
            if !actor.reason.is_empty() {
                detail = format!("{detail}: {}", actor.reason);
            }
            actor.owner.to_owned()
        }
        Who::Caller(_) | Who::Nobody => String::new(),
    };
    Event {
        sequence: 0,
        time,
        kind,
        namespace: slot.name.namespace.to_string(),
        dependency: slot.name.dependency.to_string(),
        states,
        epoch,
        detail,
        owner,
        teller: Teller::default(),
    }
}

fn kind_of(cause: Cause, to: State, shadow: bool) -> EventKind {
    match cause {
        Cause::Suspicion(_) | Cause::Window(_) | Cause::ProbeFailed(_) | Cause::ProbeSlow(_)
            if shadow =>
        {
            EventKind::ShadowTripped
        }
        Cause::Suspicion(_) | Cause::Window(_) => EventKind::Tripped,
        Cause::ProbeFailed(_) | Cause::ProbeSlow(_) => EventKind::Reopened,
        Cause::FirstProbe => EventKind::Probing,
        Cause::ProbesSucceeded(_) => EventKind::Recovered,
        Cause::Recovered => EventKind::RampEnded,
        Cause::Override => EventKind::OverrideSet,
        Cause::OverrideCleared => EventKind::OverrideCleared,
        Cause::OverrideExpired => EventKind::OverrideExpired,
        Cause::Reset => EventKind::Reset,
        // Neither is a transition; an exhaustive match needs an answer.
        Cause::New | Cause::Restored => match to {
            State::Open => EventKind::Tripped,
            State::Closed
            | State::HalfOpen
            | State::Recovering
            | State::ForcedOpen
            | State::ForcedClosed => EventKind::Started,
        },
    }
}
