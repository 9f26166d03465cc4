//! The breaker around the store: the rule that everybody else's breaker goes by.
//!
//! A store that does not answer would cost every caller the whole of its deadline. After three
//! failures in a row nobody waits for it any more; then one call at a time tries it, a quarter
//! of a second apart at first and never more than two.

use std::sync::{Mutex, PoisonError};

use holdoff_decision::{
    Nanos, Outcome, OutcomeKind, Time,
    breaker::{Admission, Asker, Breaker, Trips},
    evidence::Heard,
    policy::{self, Detect, Window, WindowSize},
    window::Counts,
};

/// See the module.
#[derive(Debug)]
pub struct Guard {
    policy: policy::Breaker,
    breaker: Mutex<Breaker>,
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
    Failed,
}

impl Guard {
    pub fn new(now: Time) -> Self {
        let policy = policy::Breaker {
            detect: Detect::Window(Window {
                size: WindowSize::Calls(10),
                min_calls: u32::MAX,
                consecutive_failures: 3,
                ..Window::default()
            }),
            open_for: Nanos::from_millis(250),
            open_multiplier: 2.0,
            open_max: Nanos::from_secs(2),
            probes: 1,
            probe_successes: 1,
            probe_lease: Nanos::from_secs(1),
            ..policy::Breaker::default()
        };
        Self {
            policy,
            breaker: Mutex::new(Breaker::new(1, now)),
        }
    }

    /// `None`: the store is taken to be away.
    pub fn enter(&self, now: Time) -> Option<Pass> {
        let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        match breaker.admit(&self.policy, Asker::FirstAttempt, Time::ORIGIN, now) {
            Admission::Pass => Some(Pass::Call),
            Admission::Probe => {
                breaker.begin_probing(now);
                let serial = breaker.epoch;
                breaker.lease(serial, now + self.policy.probe_lease, now);
                Some(Pass::Probe(serial))
            }
            Admission::Open(_) | Admission::ProbesOut { .. } | Admission::Quarantine(_) => None,
        }
    }

    pub fn leave(&self, pass: Pass, ended: Ended, now: Time) {
        let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = match ended {
            Ended::Answered => OutcomeKind::Success,
            Ended::Failed => OutcomeKind::Timeout,
        };
        match pass {
            Pass::Probe(serial) => {
                if breaker.end_lease(serial, now) {
                    breaker.end_probe(&self.policy, &Outcome::of(kind), now);
                }
            }
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
    }

    /// Whether nobody may try it now.
    pub fn refuses(&self, now: Time) -> bool {
        let breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        let admission = breaker.admit(&self.policy, Asker::FirstAttempt, Time::ORIGIN, now);
        matches!(admission, Admission::Open(_))
    }

    pub fn is_open(&self, now: Time) -> bool {
        let breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        let admission = breaker.admit(&self.policy, Asker::FirstAttempt, Time::ORIGIN, now);
        admission != Admission::Pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_failures_in_a_row_close_the_door_and_one_probe_opens_it() {
        let second = |tenths: u64| Time(1_000_000_000_000 + tenths * 100_000_000);
        let guard = Guard::new(second(0));
        for ended in [Ended::Failed, Ended::Failed, Ended::Answered, Ended::Failed] {
            let pass = guard.enter(second(0)).unwrap();
            guard.leave(pass, ended, second(0));
        }
        for _ in 0..2 {
            let pass = guard.enter(second(1)).unwrap();
            guard.leave(pass, Ended::Failed, second(1));
        }
        assert_eq!(guard.enter(second(2)), None);
        let probe = guard.enter(second(4)).unwrap();
        assert_eq!(guard.enter(second(4)), None, "one probe at a time");
        guard.leave(probe, Ended::Failed, second(4));
        assert_eq!(guard.enter(second(7)), None, "longer now");
        let probe = guard.enter(second(10)).unwrap();
        guard.leave(probe, Ended::Answered, second(10));
        assert_eq!(guard.enter(second(10)), Some(Pass::Call));
        assert!(!guard.is_open(second(10)));
    }
}
