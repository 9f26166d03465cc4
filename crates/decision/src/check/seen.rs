//! What operators are shown of a dependency's health checks. Looking changes nothing: a
//! checker that is due to be forgotten is left out here, whether it has been forgotten or not.

use super::{Checker, Checks, Next, Verdict, period};
use crate::{Nanos, Time, policy::Check};

/// The health checks of one dependency, as of one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Those that ask; one that has not done so for long is forgotten.
    pub checkers: u32,
    /// Checks that are out.
    pub running: u32,
    pub verdict: Verdict,
    /// The time since the last result; `None`: there was none.
    pub age: Option<Nanos>,
    /// Since the last success.
    pub failures: u32,
    /// The time until the next check that is planned; `None`: none is.
    pub next_in: Option<Nanos>,
}

impl Summary {
    /// Before any checker has asked.
    pub const NOTHING: Self = Self {
        checkers: 0,
        running: 0,
        verdict: Verdict::Unknown,
        age: None,
        failures: 0,
        next_in: None,
    };
}

impl Checks {
    /// Costs as much as there are checkers.
    pub fn summary(&self, policy: &Check, now: Time) -> Summary {
        let mut summary = Summary {
            verdict: self.verdict(),
            age: self.age(now),
            failures: self.failures(),
            ..Summary::NOTHING
        };
        let mut next: Option<Time> = None;
        let known = self.checkers.values();
        for checker in known.filter(|checker| !checker.is_gone(policy, now)) {
            summary.checkers = summary.checkers.saturating_add(1);
            let (Next::Run { start, .. }, Some(_)) = (checker.next, checker.awaited) else {
                continue;
            };
            if now < start {
                next = Some(next.map_or(start, |next| next.min(start)));
            } else if now < start + policy.timeout {
                summary.running = summary.running.saturating_add(1);
            }
        }
        summary.next_in = next.map(|start| now.until(start));
        summary
    }

    /// Failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether the result of this run is still to come.
    pub fn awaits(&self, checker: u64, serial: u64) -> bool {
        let known = self.checkers.get(&checker);
        known.is_some_and(|known| known.awaited == Some(serial))
    }
}

impl Checker {
    /// Whether it has not asked for two periods after it should have.
    fn is_gone(&self, policy: &Check, now: Time) -> bool {
        let due = match self.next {
            Next::Run { start, .. } => start + policy.timeout,
            Next::Ask { at } => at,
        };
        now >= due + Nanos(period(policy).0.saturating_mul(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Sample,
        check::{Finished, Plan, plan},
        policy::Phase,
    };

    fn policy() -> Check {
        Check {
            period: Nanos::from_secs(10),
            offset: Nanos::ZERO,
            phase: Phase::Hash,
            first_within: Nanos::from_secs(10),
            timeout: Nanos::from_secs(2),
            unhealthy_after: 2,
            max_concurrent: 10,
            detection_budget: Nanos::from_secs(60),
            observers: 0,
        }
    }

    fn ask(checks: &mut Checks, last: Option<Finished>, now: Time) -> (Time, u64) {
        match plan(&policy(), checks, 7, last, now, Sample::default()) {
            Plan::Run { delay, serial, .. } => (now + delay, serial),
            Plan::Shared { .. } => panic!("all check"),
        }
    }

    #[test]
    fn a_summary_follows_a_check_from_its_plan_to_its_result_and_forgets_who_asks_no_more() {
        let now = Time(1_700_000_003_000_000_000);
        let mut checks = Checks::default();
        assert_eq!(checks.summary(&policy(), now), Summary::NOTHING);
        let (start, serial) = ask(&mut checks, None, now);
        let planned = checks.summary(&policy(), now);
        assert_eq!((planned.checkers, planned.running), (1, 0));
        assert_eq!(planned.next_in, Some(now.until(start)));
        let running = checks.summary(&policy(), start + Nanos::from_secs(1));
        assert_eq!((running.running, running.next_in), (1, None));
        let lost = checks.summary(&policy(), start + Nanos::from_secs(2));
        assert_eq!((lost.checkers, lost.running), (1, 0), "its time has ended");

        assert!(checks.awaits(7, serial) && !checks.awaits(8, serial));
        let failed = Finished {
            serial,
            healthy: false,
        };
        let end = start + Nanos::from_secs(1);
        let (next, _) = ask(&mut checks, Some(failed), end);
        assert!(!checks.awaits(7, serial), "a result counts once");
        let seen = checks.summary(&policy(), end + Nanos::from_secs(3));
        assert_eq!((seen.failures, seen.verdict), (1, Verdict::Unknown));
        assert_eq!(seen.age, Some(Nanos::from_secs(3)));
        let gone = checks.summary(&policy(), next + Nanos::from_secs(22));
        assert_eq!(gone.checkers, 0);
    }
}
