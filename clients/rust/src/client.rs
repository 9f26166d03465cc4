//! The client: what is shared by all its clones, and where its calls begin.

use std::{sync::Arc, time::Duration};

use holdoff_decision::{
    Nanos, Policy,
    policy::{Budget, MaxAttempts, Retry},
};

use crate::{
    asking::{Asking, Made, on_state},
    builder::Builder,
    call::{Attempt, Call},
    check::{Check, Checker, Health},
    clock::Clock,
    counters::{Counters, Counting},
    denied::Denied,
    link::Link,
    local::{self, Local},
    outcome::Outcome,
    permit::Permit,
    pushed::Kept,
    question::Question,
    supervisor::Supervisor,
};

/// What a client does when the service decides nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnNoDecision {
    /// Decides by the same rules, over what this process alone knows.
    #[default]
    Local,
    /// Lets first attempts through; retries wait and end as ever.
    Allow,
    /// Denies.
    Deny,
}

/// Asks holdoff before a call. Cheap to clone; clones share one connection.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) mode: Mode,
    pub(crate) timeout: Duration,
    pub(crate) on_no_decision: OnNoDecision,
    pub(crate) local: Local,
    pub(crate) clock: Clock,
    pub(crate) counting: Arc<Counting>,
}

impl Inner {
    /// What the service last said about being alone with a dependency.
    pub(crate) fn kept(&self, dependency: &str) -> Option<Kept> {
        match &self.mode {
            Mode::Fleet(link) => link.shared().pushed.kept(dependency),
            Mode::Bypass | Mode::Testing => None,
        }
    }

    /// The service is not at hand, and this process decides: its record is to see all that
    /// ends, what the service has let go too.
    pub(crate) fn is_alone(&self) -> bool {
        match (&self.mode, self.on_no_decision) {
            (Mode::Fleet(link), OnNoDecision::Local) => !link.shared().is_at_hand(),
            (Mode::Fleet(_), OnNoDecision::Allow | OnNoDecision::Deny) => false,
            (Mode::Bypass | Mode::Testing, _) => false,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Mode {
    /// Asks the service.
    Fleet(Link),
    /// An operator took holdoff out: all calls pass, retries are local.
    Bypass,
    /// No service and no waiting.
    Testing,
}

impl Client {
    /// Settings, to be built.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// For tests of code that makes calls: no service, no waiting, no breaker, at most three
    /// attempts a call. What can never be retried is not retried here either.
    pub fn testing() -> Self {
        const ATTEMPTS: u32 = 3;
        let policy = Policy {
            retry: Retry {
                max_attempts: MaxAttempts::Limited(ATTEMPTS),
                initial_delay: Nanos::ZERO,
                ..Retry::default()
            },
            budget: Budget {
                floor_micros_per_second: u64::MAX,
                ..Budget::default()
            },
            ..local::policy()
        };
        Self::of(Inner {
            mode: Mode::Testing,
            timeout: Duration::ZERO,
            on_no_decision: OnNoDecision::Local,
            local: Local::new(policy),
            clock: Clock::new(),
            counting: Arc::default(),
        })
    }

    pub(crate) fn of(inner: Inner) -> Self {
        Self {
            inner: Arc::new(inner),
        }
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// A call with all that belongs to it: question, delay, attempt, report, retry.
    pub fn call(&self, question: impl Into<Question>) -> Call {
        Call::new(self.clone(), question.into())
    }

    /// A task that is restarted when it fails or panics, after a coordinated and jittered
    /// delay. `name` is that of a dependency: the task's own, or what it cannot do without.
    ///
    /// ```no_run
    /// # async fn consume() -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn example(client: holdoff_client::Client) {
    /// use std::time::Duration;
    /// use holdoff_client::Stopped;
    ///
    /// let ended = client
    ///     .supervise("consumer/orders", |attempt| async move {
    ///         println!("start {}", attempt.number);
    ///         consume().await
    ///     })
    ///     .healthy_after(Duration::from_secs(30))
    ///     .until(async { drop(tokio::signal::ctrl_c().await) })
    ///     .await;
    /// if let Err(Stopped::Told) = ended {
    ///     println!("stopped");
    /// }
    /// # }
    /// ```
    pub fn supervise<T, E, F, Fut>(&self, name: impl Into<Question>, task: F) -> Supervisor<F, E>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        Supervisor::new(self.clone(), name.into(), task)
    }

    /// A health check that is run again and again, when the service says: spread over the
    /// fleet, or left to others whose verdict is told instead. Where a policy plans no checks,
    /// and without the service, it runs on a schedule of its own.
    ///
    /// ```no_run
    /// # async fn ping() -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn example(client: holdoff_client::Client) {
    /// let checked = client
    ///     .check("payments", |check| async move {
    ///         println!("checking, for {:?} at most", check.timeout);
    ///         ping().await
    ///     })
    ///     .told(|finding| println!("{finding:?}"))
    ///     .until(async { drop(tokio::signal::ctrl_c().await) })
    ///     .await;
    /// println!("{} checks, the last one: {:?}", checked.runs, checked.last);
    /// # }
    /// ```
    pub fn check<H, F, Fut>(&self, dependency: impl Into<String>, check: F) -> Checker<F>
    where
        H: Health,
        F: FnMut(Check) -> Fut,
        Fut: Future<Output = H>,
    {
        Checker::new(self.clone(), dependency.into(), check)
    }

    /// Only the question. [`Permit::wait`] before the attempt, [`Permit::report`] or
    /// [`Permit::retry`] after it.
    ///
    /// # Errors
    /// The attempt may not be made: by the service's decision, pushed or asked for, or by a
    /// local one.
    pub async fn acquire(&self, question: impl Into<Question>) -> Result<Permit, Denied> {
        Asking::first(self.clone(), question.into()).ask().await
    }

    /// Connects now rather than with the first question, which may then be answered in
    /// time, and waits for the state of what [`Builder::follow`] names, no longer than for an
    /// answer. False: the service was not reached within `timeout`.
    pub async fn connect(&self, timeout: Duration) -> bool {
        let Mode::Fleet(link) = &self.inner.mode else {
            return false;
        };
        let is_there = tokio::time::timeout(timeout, link.connect()).await;
        let is_there = is_there.unwrap_or(false);
        if is_there {
            let heard = link.shared().pushed.heard_all_wished();
            // What is not heard of is asked for.
            let _ = tokio::time::timeout(self.inner.timeout.min(timeout), heard).await;
        }
        is_there
    }

    /// Waits until the service has taken all outcomes; for a process that ends now. False:
    /// some were still on their way after `timeout`.
    pub async fn flush(&self, timeout: Duration) -> bool {
        match &self.inner.mode {
            Mode::Fleet(link) => tokio::time::timeout(timeout, link.flush()).await.is_ok(),
            Mode::Bypass | Mode::Testing => true,
        }
    }

    /// What it has done so far.
    pub fn counters(&self) -> Counters {
        self.inner.counting.read()
    }

    /// An attempt ended that no question tells of. Where it was made on pushed state and the
    /// service was lost meanwhile, it counts here too: failures are counted with the question
    /// about their retry, and must not stand alone.
    pub(crate) fn count_here(&self, dependency: &Arc<str>, made: &Made, outcome: &Outcome) {
        let inner = self.inner();
        if matches!(made, Made::OnState(_)) && inner.is_alone() {
            let (kept, now) = (inner.kept(dependency), inner.clock.time());
            inner.local.count(dependency, kept.as_ref(), outcome, now);
        }
    }

    /// How the attempt ended under this permit.
    pub(crate) fn report(&self, dependency: &Arc<str>, made: &Made, outcome: &Outcome) {
        match (made, &self.inner.mode) {
            (Made::Fleet(permit), Mode::Fleet(link)) => {
                link.shared().reports.push(permit.clone(), outcome);
            }
            (Made::Local { permit, .. }, _) => {
                let now = self.inner.clock.time();
                self.inner.local.report(dependency, permit, outcome, now);
            }
            (Made::OnState(on), Mode::Fleet(link)) => {
                on_state::tell(self, link, dependency, *on, outcome);
            }
            // Permits and states of the service exist only where there is one.
            (Made::Fleet(_) | Made::OnState(_), Mode::Bypass | Mode::Testing) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DenialReason, OutcomeKind, Safety, builder::Environment};

    #[tokio::test(start_paused = true)]
    async fn a_bypass_lets_every_call_through_with_local_retries() {
        let bypass = Environment {
            bypass: Some("1".into()),
            ..Environment::default()
        };
        let client = Client::builder().build_in(bypass).unwrap();
        for _ in 0..100 {
            let call = client.call("payments");
            let error = call.run(|_| async { Err::<(), _>(()) }).await.unwrap_err();
            assert_eq!(error.why.reason, DenialReason::RetryUnsafe);
        }
        let mut permit = client
            .acquire(Question::new("payments").safety(Safety::Idempotent))
            .await
            .unwrap();
        for attempt in 2..=3 {
            let outcome = Outcome::new(OutcomeKind::Timeout);
            permit = permit.retry(outcome).await.unwrap().wait().await.unwrap();
            assert_eq!(permit.attempt(), attempt);
        }
        let denied = permit.retry(Outcome::failure()).await.unwrap_err();
        assert_eq!(denied.reason, DenialReason::AttemptsExhausted);
        assert!(!client.connect(Duration::from_secs(1)).await);
    }
}
