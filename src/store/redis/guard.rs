//! The breaker around the store: the rule that everybody else's breaker goes by.
//!
//! A store that does not answer would cost every caller the whole of its deadline. After three
//! failures in a row, the second and third of which are waited for less long, nobody waits for it
//! any more; then one call at a time tries it, about a quarter of a second apart at first and
//! never more than about two. Each replica has times of its own, so that they do not return
//! together.
//!
//! A store that only reads (it is full, or a replica) is away, too: what was only read does not
//! count as an answer.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use holdoff_decision::{
    Nanos, Outcome, OutcomeKind, Time,
    breaker::{Admission, Asker, Breaker, Trips},
    evidence::Heard,
    policy::{self, Detect, Window, WindowSize},
    window::Counts,
};

const OPEN_FOR: Nanos = Nanos::from_millis(250);
const OPEN_MAX: Nanos = Nanos::from_secs(2);

/// See the module.
#[derive(Debug)]
pub struct Guard {
    policy: policy::Breaker,
    triers: Triers,
    breaker: Mutex<Breaker>,
    /// As the breaker says, for those in a hurry.
    is_shut: AtomicBool,
    is_suspect: AtomicBool,
    /// By the own clock.
    answered: AtomicU64,
}

/// Who tries a store that is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Triers {
    /// Whoever asks: of many shards nobody else would.
    All,
    /// The keeper alone, so that no question waits.
    Keeper,
}

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Question,
    Keeper,
}

/// Whether a call may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    Call,
    Probe(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Answered,
    /// Answered, but nothing was written.
    Read,
    Failed,
}

impl Guard {
    /// `unit`: this replica's own, in [0, 1).
    pub fn new(triers: Triers, unit: f64, now: Time) -> Self {
        let spread = |span: Nanos| Nanos(span.0 / 4 * 3).saturating_add(span.scaled(unit / 2.0));
        let policy = policy::Breaker {
            detect: Detect::Window(Window {
                size: WindowSize::Calls(10),
                min_calls: u32::MAX,
                consecutive_failures: 3,
                ..Window::default()
            }),
            open_for: spread(OPEN_FOR),
            open_multiplier: 2.0,
            open_max: spread(OPEN_MAX),
            probes: 1,
            probe_successes: 1,
            probe_lease: Nanos::from_secs(1),
            ..policy::Breaker::default()
        };
        Self {
            policy,
            triers,
            breaker: Mutex::new(Breaker::new(1, now)),
            is_shut: AtomicBool::new(false),
            is_suspect: AtomicBool::new(false),
            answered: AtomicU64::new(now.0),
        }
    }

    /// `None`: the store is taken to be away.
    pub fn enter(&self, by: By, now: Time) -> Option<Pass> {
        let mut breaker = self.locked();
        match breaker.admit(&self.policy, Asker::FirstAttempt, Time::ORIGIN, now) {
            Admission::Pass => Some(Pass::Call),
            Admission::Probe if self.may_try(by) => {
                breaker.begin_probing(now);
                let serial = breaker.epoch;
                breaker.lease(serial, now + self.policy.probe_lease, now);
                Some(Pass::Probe(serial))
            }
            Admission::Probe
            | Admission::Open(_)
            | Admission::ProbesOut { .. }
            | Admission::Quarantine(_) => None,
        }
    }

    fn may_try(&self, by: By) -> bool {
        match (self.triers, by) {
            (Triers::All, _) | (_, By::Keeper) => true,
            (Triers::Keeper, By::Question) => false,
        }
    }

    pub fn leave(&self, pass: Pass, ended: Ended, now: Time) {
        let mut breaker = self.locked();
        if ended != Ended::Failed {
            self.answered.fetch_max(now.0, Ordering::Relaxed);
        }
        let kind = match ended {
            Ended::Answered | Ended::Read => OutcomeKind::Success,
            Ended::Failed => OutcomeKind::Timeout,
        };
        match pass {
            Pass::Probe(serial) => {
                if breaker.end_lease(serial, now) {
                    breaker.end_probe(&self.policy, &Outcome::of(kind), now);
                }
            }
            Pass::Call if ended == Ended::Read => {}
            Pass::Call => {
                let heard = Heard {
                    reporter: Some(0),
                    counts: Counts {
                        calls: 1,
                        failures: u32::from(ended == Ended::Failed),
                        slow: 0,
                    },
                    at: now,
                };
                breaker.count(&self.policy, &heard, now, Trips::WhenReached);
            }
        }
        let admission = breaker.admit(&self.policy, Asker::FirstAttempt, Time::ORIGIN, now);
        let is_shut = admission != Admission::Pass;
        self.is_shut.store(is_shut, Ordering::Release);
        let is_suspect = ended == Ended::Failed && !is_shut;
        self.is_suspect.store(is_suspect, Ordering::Relaxed);
    }

    /// When the store is tried again; `None`: it is not away.
    pub fn shut_for(&self, now: Time) -> Option<Nanos> {
        if !self.is_open() {
            return None;
        }
        match (self.locked()).admit(&self.policy, Asker::FirstAttempt, Time::ORIGIN, now) {
            Admission::Pass => None,
            Admission::Probe => Some(Nanos::ZERO),
            Admission::Open(left) | Admission::Quarantine(left) => Some(left),
            Admission::ProbesOut { first_end, .. } => Some(first_end.min(OPEN_FOR)),
        }
    }

    pub fn is_open(&self) -> bool {
        self.is_shut.load(Ordering::Acquire)
    }

    /// Whether nobody may try it now.
    pub fn refuses(&self, now: Time) -> bool {
        self.shut_for(now).is_some_and(|left| left > Nanos::ZERO)
    }

    /// Whether a question may try a store whose time has come.
    pub fn is_tried_by_questions(&self) -> bool {
        self.triers == Triers::All
    }

    /// So that three failures of one call do not cost it three times as much.
    pub fn patience(&self, usual: Duration) -> Duration {
        match self.is_suspect.load(Ordering::Relaxed) {
            true => usual * 2 / 5,
            false => usual,
        }
    }

    /// When the store answered last, by the own clock.
    pub fn answered(&self) -> Time {
        Time(self.answered.load(Ordering::Relaxed))
    }

    fn locked(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tenths: u64) -> Time {
        Time(1_000_000_000_000 + tenths * 100_000_000)
    }

    fn shut(triers: Triers) -> Guard {
        let guard = Guard::new(triers, 0.5, at(0));
        for _ in 0..3 {
            let pass = guard.enter(By::Question, at(1)).unwrap();
            guard.leave(pass, Ended::Failed, at(1));
        }
        guard
    }

    #[test]
    fn three_failures_in_a_row_close_the_door_and_one_probe_opens_it() {
        let guard = Guard::new(Triers::All, 0.5, at(0));
        for ended in [Ended::Failed, Ended::Failed, Ended::Answered, Ended::Failed] {
            let pass = guard.enter(By::Question, at(0)).unwrap();
            guard.leave(pass, ended, at(0));
        }
        assert_eq!(guard.shut_for(at(0)), None);
        for _ in 0..2 {
            let pass = guard.enter(By::Question, at(1)).unwrap();
            guard.leave(pass, Ended::Failed, at(1));
        }
        assert_eq!(guard.enter(By::Question, at(2)), None);
        let probe = guard.enter(By::Question, at(4)).unwrap();
        assert_eq!(
            guard.enter(By::Question, at(4)),
            None,
            "one probe at a time"
        );
        guard.leave(probe, Ended::Failed, at(4));
        assert_eq!(guard.enter(By::Question, at(7)), None, "longer now");
        let probe = guard.enter(By::Question, at(10)).unwrap();
        guard.leave(probe, Ended::Answered, at(10));
        assert_eq!(guard.enter(By::Question, at(10)), Some(Pass::Call));
        assert!(!guard.is_open());
    }

    #[test]
    fn a_question_never_tries_a_store_that_the_keeper_tries() {
        let guard = shut(Triers::Keeper);
        assert_eq!(guard.enter(By::Question, at(100)), None);
        assert_eq!(guard.shut_for(at(100)), Some(Nanos::ZERO));
        let probe = guard.enter(By::Keeper, at(100)).unwrap();
        guard.leave(probe, Ended::Answered, at(100));
        assert_eq!(guard.enter(By::Question, at(100)), Some(Pass::Call));
    }

    #[test]
    fn a_store_that_only_reads_is_away() {
        let guard = Guard::new(Triers::All, 0.5, at(0));
        for ended in [
            Ended::Failed,
            Ended::Read,
            Ended::Failed,
            Ended::Read,
            Ended::Failed,
        ] {
            let pass = guard.enter(By::Question, at(0)).unwrap();
            guard.leave(pass, ended, at(0));
        }
        assert!(guard.is_open());
    }

    #[test]
    fn a_call_that_fails_three_times_costs_less_than_two_deadlines() {
        let (guard, usual) = (
            Guard::new(Triers::All, 0.5, at(0)),
            Duration::from_millis(50),
        );
        let mut cost = Duration::ZERO;
        while let Some(pass) = guard.enter(By::Question, at(0)) {
            cost += guard.patience(usual);
            guard.leave(pass, Ended::Failed, at(0));
        }
        assert_eq!(cost, Duration::from_millis(90));
    }

    #[test]
    fn no_two_replicas_return_at_the_same_time() {
        let times = [0.0, 0.3, 0.6, 0.9].map(|unit| {
            let guard = Guard::new(Triers::Keeper, unit, at(0));
            for _ in 0..3 {
                let pass = guard.enter(By::Question, at(1)).unwrap();
                guard.leave(pass, Ended::Failed, at(1));
            }
            guard.shut_for(at(1)).unwrap()
        });
        assert!(times.is_sorted_by(|one, other| one < other), "{times:?}");
    }
}
