//! What happened: the newest events for those who ask, all of them for those who listen.
//!
//! An event is published when what it tells is durable, so nobody acts on a trip that a crash
//! would undo. Until then it waits in the outbox, which is bounded as everything here.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use holdoff_decision::{State, breaker::Cause, evidence::News, policy::Mode, record::Change};
use tokio::sync::{Notify, broadcast};

use super::Who;
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
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    kept: Mutex<Kept>,
    listeners: broadcast::Sender<Event>,
}

#[derive(Debug, Default)]
struct Kept {
    newest: u64,
    events: VecDeque<Event>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            outbox: Mutex::default(),
            handed_over: Notify::new(),
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
            let waiting: Vec<Event> = {
                let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
                outbox.drain(..).collect()
            };
            if !waiting.is_empty() {
                return waiting;
            }
            self.handed_over.notified().await;
        }
    }

    /// Numbers events, remembers them and tells the listeners.
    pub fn publish(&self, events: Vec<Event>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for mut event in events {
            kept.newest += 1;
            event.sequence = kept.newest;
            if kept.events.len() >= KEPT {
                kept.events.pop_front();
            }
            kept.events.push_back(event.clone());
            // Nobody listens: that is no failure.
            let _ = self.listeners.send(event);
        }
    }

    /// The number of the newest event; 0: there was none.
    pub fn newest(&self) -> u64 {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.newest
    }

    /// The remembered events that `wanted` names, oldest first, and what comes after them.
    pub fn listen(
        &self,
        wanted: impl Fn(&Event) -> bool,
    ) -> (Vec<Event>, broadcast::Receiver<Event>) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let past = kept
            .events
            .iter()
            .filter(|event| wanted(event))
            .cloned()
            .collect();
        (past, self.listeners.subscribe())
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
                cause.to_string(),
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
