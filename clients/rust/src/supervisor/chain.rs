//! When the next start may be made.
//!
//! A chain of attempts is what the service counts; it ends where the service allows no
//! further one, and where a start was reported as a success before it fell. The supervisor
//! counts on: while its own count is higher than that of the chain, its own delay is a floor
//! under the granted one.

use std::time::Duration;

use crate::{
    asking::{Asking, Made},
    client::{Client, Mode},
    denied::{DenialReason, Denied},
    entropy,
    outcome::Outcome,
    permit::Permit,
    pushed::OnState,
    question::Question,
};
use holdoff_decision::{
    Nanos, backoff,
    policy::{Jitter, Retry},
};

/// A denial that names a time is waited for no longer at once, and asked about no sooner.
const WAIT_MAX: Duration = Duration::from_secs(600);
const WAIT_MIN: Duration = Duration::from_millis(10);
/// A task that falls at once is not restarted at once, whatever the policy of calls says.
const FIRST_CEILING: Nanos = Nanos::from_millis(100);

pub(super) struct Chain {
    client: Client,
    question: Question,
    asking: Asking,
    /// Starts that failed since the last healthy run.
    failures: u32,
}

impl Chain {
    pub(super) fn new(client: Client, question: Question) -> Self {
        Self {
            asking: Asking::first(client.clone(), question.clone()),
            client,
            question,
            failures: 0,
        }
    }

    /// Of the next start. A healthy run is the first one of those that follow it.
    pub(super) fn number(&self) -> u32 {
        self.failures.saturating_add(1)
    }

    /// A start ended in failure. Without a permit it was told as a success before.
    pub(super) fn fell(&mut self, permit: Option<Permit>, was_healthy: bool) {
        if was_healthy {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        let next = permit.and_then(|permit| permit.next(Outcome::failure()));
        self.asking = next.unwrap_or_else(|| {
            let made = Made::OnState(self.last_state());
            self.first().next(made, Outcome::failure())
        });
    }

    /// A permit whose delay is over.
    ///
    /// # Errors
    /// No dependency has such a name; or it is a client for tests.
    pub(super) async fn permission(&mut self) -> Result<Permit, Denied> {
        let is_waiting = !matches!(self.client.inner().mode, Mode::Testing);
        let mut is_owed = is_waiting && self.asking.attempt <= self.failures;
        loop {
            let (denied, was_granted) = match self.asking.ask().await {
                Ok(permit) => match self.waited_for(permit, is_owed).await {
                    Ok(permit) => return Ok(permit),
                    Err(denied) => (denied, true),
                },
                Err(denied) => (denied, false),
            };
            if !is_waiting || denied.reason == DenialReason::BadName {
                return Err(denied);
            }
            tracing::debug!(dependency = &*self.question.dependency, %denied, "not restarted yet");
            let wait = match denied.retry_after {
                Some(wait) => wait.clamp(WAIT_MIN, WAIT_MAX),
                None => {
                    is_owed = false;
                    self.own_delay()
                }
            };
            tokio::time::sleep(wait).await;
            // A grant that was given back would be granted again, void.
            if was_granted || !may_be_granted_later(&denied) {
                self.asking = self.first();
            }
        }
    }

    /// Waits for the own delay too, where that is owed.
    async fn waited_for(&self, permit: Permit, is_owed: bool) -> Result<Permit, Denied> {
        if is_owed {
            tokio::time::sleep(self.own_delay()).await;
        }
        permit.wait().await
    }

    fn first(&self) -> Asking {
        Asking::first(self.client.clone(), self.question.clone())
    }

    /// What a first attempt without a permit is told by.
    fn last_state(&self) -> OnState {
        let last = match &self.client.inner().mode {
            Mode::Fleet(link) => link.shared().pushed.last(&self.question.dependency),
            Mode::Bypass | Mode::Testing => None,
        };
        last.unwrap_or(OnState {
            epoch: 0,
            slow_after: Nanos::ZERO,
        })
    }

    /// Uniform below the policy's ceiling for this restart.
    fn own_delay(&self) -> Duration {
        let inner = self.client.inner();
        let kept = inner.kept(&self.question.dependency);
        let policies = kept.map_or_else(|| inner.local.own().clone(), |kept| kept.policies);
        full_jitter(&policies.all.retry, self.failures, entropy::unit())
    }
}

fn full_jitter(retry: &Retry, failures: u32, unit: f64) -> Duration {
    let retry = Retry {
        jitter: Jitter::Full,
        initial_delay: retry.initial_delay.max(FIRST_CEILING),
        max_delay: retry.max_delay.max(FIRST_CEILING),
        ..retry.clone()
    };
    let delay = backoff::delay(&retry, failures, Nanos::ZERO, unit);
    Duration::from(delay).min(WAIT_MAX)
}

/// Whether the very same question may have another answer after a while.
fn may_be_granted_later(denied: &Denied) -> bool {
    let is_transient = matches!(
        denied.reason,
        DenialReason::BudgetExhausted | DenialReason::NoDecision
    );
    is_transient || denied.retry_after.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_delay_is_uniform_below_a_doubling_ceiling_that_the_policy_caps() {
        let retry = Retry::default();
        let at = |failures, unit| full_jitter(&retry, failures, unit).as_millis();
        let ceilings: Vec<u128> = (1..=9).map(|n| at(n, 1.0)).collect();
        let doubling = [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000];
        assert_eq!(ceilings, doubling);
        assert_eq!((at(5, 0.0), at(5, 0.25)), (0, 400));
        assert_eq!(at(u32::MAX, 1.0), 10_000);
    }

    #[test]
    fn a_policy_without_delays_does_not_make_a_falling_task_spin() {
        let retry = Retry {
            initial_delay: Nanos::ZERO,
            max_delay: Nanos::ZERO,
            ..Retry::default()
        };
        assert_eq!(full_jitter(&retry, 3, 0.5).as_millis(), 50);
    }
}
