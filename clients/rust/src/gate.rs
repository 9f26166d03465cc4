//! The client's breaker on the coordinator itself: a service that is slow or fails must not
//! cost each call its timeout.
//!
//! Three questions in a row without an answer shut it for a jittered 1 to 5 s, during which
//! nothing is asked. Then one question is the trial: answered, the gate opens; not, it is
//! shut for twice as long, up to 30 s. A denial is an answer. A service that is heard of
//! meanwhile, by a stream that it takes, gets its trial at once; but once only, since one
//! that takes streams and answers nothing must not be tried more often for it.
//!
//! This is not `holdoff_decision`'s breaker: there is one client and one gate, a question
//! has no epoch, and what trips it is time lost, not a rate of failures.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use holdoff_decision::Nanos;
use tokio::time::Instant;

const FAILURES_TO_SHUT: u32 = 3;
const SHUT_MIN: Duration = Duration::from_secs(1);
const SHUT_MAX: Duration = Duration::from_secs(5);
/// Neither end of the range grows above these.
const SHUT_MIN_LONGEST: Duration = Duration::from_secs(6);
const SHUT_MAX_LONGEST: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    /// It was shut, and nothing was answered since: only then is `state` worth a look.
    was_shut: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Open { failures: u32 },
    Shut { until: Instant, past: Past },
    Trial { past: Past },
}

/// What is known since the gate was shut.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Past {
    /// Trials that failed.
    failed: u32,
    was_heard: bool,
}

/// Permission to ask one question. Dropped unsaid, it says nothing.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    gate: &'a Gate,
    /// The trial that this pass is.
    trial: Option<Past>,
    told: bool,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State::Open { failures: 0 }),
            was_shut: AtomicBool::new(false),
        }
    }

    /// `None`: decide without asking.
    pub(crate) fn enter(&self, now: Instant) -> Option<Pass<'_>> {
        let mut state = self.lock();
        let trial = match *state {
            State::Open { .. } => None,
            State::Trial { .. } => return None,
            State::Shut { until, .. } if now < until => return None,
            State::Shut { past, .. } => {
                *state = State::Trial { past };
                Some(past)
            }
        };
        Some(Pass {
            gate: self,
            trial,
            told: false,
        })
    }

    /// The service is heard of: the next question may be the trial.
    pub(crate) fn heard(&self, now: Instant) {
        if let State::Shut { until, past } = &mut *self.lock()
            && !past.was_heard
        {
            *until = now.min(*until);
            past.was_heard = true;
        }
    }

    /// Until when nothing is asked. `None`: a question may be asked now, or is the trial.
    pub(crate) fn shut_until(&self, now: Instant) -> Option<Instant> {
        match *self.lock() {
            State::Shut { until, .. } if now < until => Some(until),
            State::Shut { .. } | State::Open { .. } | State::Trial { .. } => None,
        }
    }

    /// Nothing is asked now. One load while the service answers: each first attempt looks.
    pub(crate) fn is_shut(&self) -> bool {
        self.was_shut.load(Relaxed) && self.shut_until(Instant::now()).is_some()
    }

    #[cfg(test)]
    fn is_open(&self) -> bool {
        matches!(*self.lock(), State::Open { .. })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass<'_> {
    pub(crate) fn is_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// True: it was shut and is open again.
    pub(crate) fn answered(mut self) -> bool {
        self.told = true;
        let mut state = self.gate.lock();
        match *state {
            State::Open { .. } => {
                *state = State::Open { failures: 0 };
                false
            }
            // A late answer to a question of before it was shut proves as much as a trial.
            State::Shut { .. } | State::Trial { .. } => {
                *state = State::Open { failures: 0 };
                self.gate.was_shut.store(false, Relaxed);
                true
            }
        }
    }

    /// `unit` is uniform in [0, 1). True: the gate has just been shut.
    pub(crate) fn unanswered(mut self, now: Instant, unit: f64) -> bool {
        self.told = true;
        let mut state = self.gate.lock();
        let past = match (*state, self.trial) {
            (State::Open { failures }, _) if failures + 1 < FAILURES_TO_SHUT => {
                *state = State::Open {
                    failures: failures + 1,
                };
                return false;
            }
            (State::Open { .. }, _) => Past::default(),
            (State::Trial { past }, Some(_)) => Past {
                failed: past.failed.saturating_add(1),
                ..past
            },
            (State::Trial { .. } | State::Shut { .. }, _) => return false,
        };
        let until = now + shut_for(past.failed, unit);
        *state = State::Shut { until, past };
        self.gate.was_shut.store(true, Relaxed);
        true
    }
}

impl Drop for Pass<'_> {
    /// The caller gave up a trial, or never got to ask: the next one may try.
    fn drop(&mut self) {
        if let (Some(past), false) = (self.trial, self.told) {
            let mut state = self.gate.lock();
            if matches!(*state, State::Trial { .. }) {
                let until = Instant::now();
                *state = State::Shut { until, past };
            }
        }
    }
}

pub(crate) fn shut_for(failed: u32, unit: f64) -> Duration {
    let factor = 1_u32 << failed.min(5);
    let low = (SHUT_MIN * factor).min(SHUT_MIN_LONGEST);
    let high = (SHUT_MAX * factor).min(SHUT_MAX_LONGEST);
    low + Duration::from(Nanos::from(high - low).scaled(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(gate: &Gate, now: Instant) -> bool {
        gate.enter(now).unwrap().unanswered(now, 0.5)
    }

    #[tokio::test(start_paused = true)]
    async fn three_unanswered_questions_in_a_row_shut_it_and_an_answer_between_does_not() {
        let (gate, now) = (Gate::new(), Instant::now());
        assert!(!fail(&gate, now) && !fail(&gate, now));
        gate.enter(now).unwrap().answered();
        assert!(!fail(&gate, now) && !fail(&gate, now) && fail(&gate, now));
        assert!(gate.enter(now).is_none() && gate.is_shut());
    }

    #[tokio::test(start_paused = true)]
    async fn after_its_time_one_trial_passes_and_decides() {
        let (gate, now) = (Gate::new(), Instant::now());
        for _ in 0..3 {
            fail(&gate, now);
        }
        let later = now + Duration::from_secs(3);
        let trial = gate.enter(later).unwrap();
        assert!(gate.enter(later).is_none(), "only one trial");
        assert!(trial.unanswered(later, 0.0));
        assert!(gate.enter(later + Duration::from_millis(1_999)).is_none());
        assert!(
            gate.enter(later + Duration::from_secs(2))
                .unwrap()
                .answered()
        );
        assert!(gate.is_open() && !gate.is_shut());
    }

    #[tokio::test(start_paused = true)]
    async fn a_trial_that_is_given_up_leaves_the_gate_as_it_was() {
        let (gate, now) = (Gate::new(), Instant::now());
        for _ in 0..3 {
            fail(&gate, now);
        }
        drop(gate.enter(now + Duration::from_secs(5)).unwrap());
        assert!(gate.enter(now + Duration::from_secs(5)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_is_heard_gets_one_trial_early() {
        let (gate, now) = (Gate::new(), Instant::now());
        for _ in 0..3 {
            fail(&gate, now);
        }
        gate.heard(now);
        assert!(fail(&gate, now), "the early trial");
        gate.heard(now);
        assert!(gate.enter(now).is_none(), "no second one");
    }

    #[test]
    fn it_is_shut_for_one_to_five_seconds_doubling_to_thirty() {
        let range = |times| {
            (
                shut_for(times, 0.0).as_secs(),
                shut_for(times, 1.0).as_secs(),
            )
        };
        assert_eq!(range(0), (1, 5));
        assert_eq!(range(1), (2, 10));
        assert_eq!(range(2), (4, 20));
        assert_eq!(range(3), (6, 30));
        assert_eq!(range(u32::MAX), (6, 30));
    }
}
