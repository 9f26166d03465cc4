//! When to check without the service.
//!
//! ```text
//! run k starts at   anchor + k * period
//! ```
//!
//! The anchor is the time that the service planned last, so a fleet that loses it stays as
//! spread as it was. Before any plan it is a hash of dependency and checker into the period,
//! as the service's own `phase: hash` has it. A run that is late or long takes the next time.

use std::time::Duration;

use holdoff_decision::check;
use tokio::time::Instant;

use super::{
    Checker,
    plan::{Next, Planned},
};
use crate::{client::Mode, entropy};

#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    anchor: Instant,
    period: Duration,
    timeout: Duration,
}

impl Schedule {
    /// Before any plan.
    pub(super) fn new<F>(checker: &Checker<F>) -> Self {
        let caller = match &checker.client.inner().mode {
            Mode::Fleet(link) => link.shared().caller(),
            Mode::Bypass | Mode::Testing => None,
        };
        let name = match caller {
            Some(who) => check::checker_name(&checker.dependency, &who.service, &who.instance),
            // It has no name that another one has not.
            None => entropy::number(),
        };
        Self {
            anchor: Instant::now() + part_of(name, checker.period),
            period: checker.period,
            timeout: checker.timeout,
        }
    }

    pub(super) fn period(&self) -> Duration {
        self.period
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Takes over what the service has planned.
    pub(super) fn follow(&mut self, planned: &Planned, now: Instant) {
        self.period = planned.period.unwrap_or(self.period);
        match planned.next {
            Next::Run { delay, timeout, .. } => {
                self.anchor = now + delay;
                self.timeout = timeout;
            }
            Next::Shared { ask_again, .. } => self.anchor = now + ask_again,
        }
    }

    /// The service plans nothing here any more: the checker's own period, on the same grid.
    pub(super) fn forget<F>(&mut self, checker: &Checker<F>) {
        (self.period, self.timeout) = (checker.period, checker.timeout);
    }

    /// The first time after `now`.
    pub(super) fn after(&self, now: Instant) -> Instant {
        let Some(past) = now.checked_duration_since(self.anchor) else {
            return self.anchor;
        };
        let period = self.period.as_nanos().max(1);
        let next = (past.as_nanos() / period + 1).saturating_mul(period);
        self.anchor + Duration::from_nanos(u64::try_from(next).unwrap_or(u64::MAX))
    }
}

/// This part of 2^64 of a period.
fn part_of(name: u64, period: Duration) -> Duration {
    let part = u128::from(name).saturating_mul(period.as_nanos()) >> 64;
    Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_grid_is_that_of_the_anchor_and_a_late_run_takes_the_next_time() {
        let begun = Instant::now();
        let schedule = Schedule {
            anchor: begun + Duration::from_secs(7),
            period: Duration::from_secs(10),
            timeout: Duration::from_secs(1),
        };
        let after = |secs| {
            let now = begun + Duration::from_secs(secs);
            schedule.after(now).duration_since(begun).as_secs()
        };
        let times = [(0, 7), (6, 7), (7, 17), (16, 17), (17, 27), (1_000, 1_007)];
        for (now, next) in times {
            assert_eq!(after(now), next, "after {now} s");
        }
    }

    #[test]
    fn a_name_is_a_part_of_the_period() {
        let period = Duration::from_secs(30);
        assert_eq!(part_of(0, period), Duration::ZERO);
        assert_eq!(part_of(1 << 63, period), period / 2);
        assert!(part_of(u64::MAX, period) < period);
    }
}
