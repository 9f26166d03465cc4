//! A guarded call: asks, waits, runs, classifies, reports, retries, and returns the last
//! real error with the reason why it stopped.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    asking::Asking,
    classify::{Classify, Plain},
    client::{Client, Mode},
    denied::{CallError, DenialReason, Denied},
    outcome::Outcome,
    permit::Permit,
    question::{Priority, Question, Safety},
};

/// A denial that names a time is waited for no longer at once, and asked about no sooner.
const WAIT_MAX: Duration = Duration::from_secs(600);
const WAIT_MIN: Duration = Duration::from_millis(10);

/// What a call does when the answer is no.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDenied {
    /// Returns the error at once.
    #[default]
    Fail,
    /// Where the denial says when asking again makes sense, waits so long and asks again,
    /// while the caller's time lasts.
    Wait,
}

/// What an operation is told about its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// 1 for the first call.
    pub number: u32,
    /// The attempt is given up after so long. `None`: nothing limits it.
    pub limit: Option<Duration>,
    /// A limit that the service finds sensible; it does not bind.
    pub suggested_timeout: Option<Duration>,
    /// It tests a dependency that is thought broken.
    pub is_probe: bool,
    /// It was granted without the service.
    pub is_local: bool,
}

/// A call that is to be made. See [`Client::call`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens before it runs"]
pub struct Call<C = Plain> {
    client: Client,
    question: Question,
    classify: C,
    on_denied: OnDenied,
}

impl Call {
    pub(crate) fn new(client: Client, question: Question) -> Self {
        Self {
            client,
            question,
            classify: Plain,
            on_denied: OnDenied::default(),
        }
    }
}

impl<C> Call<C> {
    /// See [`Question::safety`].
    pub fn safety(self, safety: Safety) -> Self {
        self.asking(|question| question.safety(safety))
    }

    /// See [`Question::priority`].
    pub fn priority(self, priority: Priority) -> Self {
        self.asking(|question| question.priority(priority))
    }

    /// See [`Question::deadline`].
    pub fn deadline(self, deadline: Duration) -> Self {
        self.asking(|question| question.deadline(deadline))
    }

    /// See [`Question::max_attempts`].
    pub fn max_attempts(self, attempts: u32) -> Self {
        self.asking(|question| question.max_attempts(attempts))
    }

    /// See [`Question::attempt_timeout`].
    pub fn attempt_timeout(self, timeout: Duration) -> Self {
        self.asking(|question| question.attempt_timeout(timeout))
    }

    /// See [`Question::cost`].
    pub fn cost(self, cost: u32) -> Self {
        self.asking(|question| question.cost(cost))
    }

    /// See [`Question::call_id`].
    pub fn call_id(self, id: impl Into<Arc<str>>) -> Self {
        self.asking(|question| question.call_id(id))
    }

    /// What happens when the answer is no.
    pub fn on_denied(mut self, on_denied: OnDenied) -> Self {
        self.on_denied = on_denied;
        self
    }

    /// How a result is read: [`Plain`] unless said.
    pub fn classify<D>(self, classify: D) -> Call<D> {
        Call {
            client: self.client,
            question: self.question,
            classify,
            on_denied: self.on_denied,
        }
    }

    fn asking(mut self, set: impl FnOnce(Question) -> Question) -> Self {
        self.question = set(self.question);
        self
    }

    /// Makes the call. A result that the classifier takes for a failure although it is `Ok`
    /// (an HTTP response with status 503) is retried too, and returned as it is where there
    /// is no further attempt.
    ///
    /// Dropping the future gives the attempt up and reports it as cancelled.
    ///
    /// # Errors
    /// The last real error, and why there was no further attempt.
    pub async fn run<T, E, F, Fut>(self, mut operation: F) -> Result<T, CallError<E>>
    where
        C: Classify<T, E>,
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let mut asking = Asking::first(self.client, self.question);
        let mut last = None;
        let mut attempts = 0;
        loop {
            let permit = match obtain(&mut asking, self.on_denied).await {
                Ok(permit) => permit,
                Err(why) => return stopped(last, why, attempts),
            };
            attempts = permit.attempt();
            let (result, outcome) = attempt(&permit, &mut operation, &self.classify).await;
            last = result.or(last);
            if outcome.kind == crate::OutcomeKind::Success
                && let Some(Ok(value)) = last
            {
                permit.report(outcome);
                return Ok(value);
            }
            asking = match permit.next(outcome) {
                Some(asking) => asking,
                // A permit that was not reported always has a next question.
                None => {
                    let why = Denied::caller(DenialReason::PermitVoid, "");
                    return stopped(last, why, attempts);
                }
            };
        }
    }

    /// Makes the call, and where it is given up, with or without an attempt, what `fallback`
    /// makes of it.
    ///
    /// # Errors
    /// The fallback's.
    pub async fn run_or<T, E, F, Fut, G, Back>(
        self,
        operation: F,
        fallback: G,
    ) -> Result<T, CallError<E>>
    where
        C: Classify<T, E>,
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        G: FnOnce(CallError<E>) -> Back,
        Back: Future<Output = Result<T, CallError<E>>>,
    {
        match self.run(operation).await {
            Ok(value) => Ok(value),
            Err(error) => fallback(error).await,
        }
    }
}

/// A permit that may be used now. One that was granted and did not hold is given back; the
/// same question would be answered by the same, void grant, so that a first attempt is asked
/// for under another name, and a retry ends the call.
async fn obtain(asking: &mut Asking, on_denied: OnDenied) -> Result<Permit, Denied> {
    loop {
        let (denied, was_granted) = match asking.ask().await {
            Ok(permit) => match permit.wait().await {
                Ok(permit) => return Ok(permit),
                Err(denied) => (denied, true),
            },
            Err(denied) => (denied, false),
        };
        match time_to_ask_again(asking, on_denied, &denied) {
            Some(_) if was_granted && asking.attempt > 1 => return Err(denied),
            Some(wait) => tokio::time::sleep(wait).await,
            None => return Err(denied),
        }
        if was_granted {
            asking.rename();
        }
    }
}

/// `None`: the denial stands.
fn time_to_ask_again(asking: &Asking, on_denied: OnDenied, denied: &Denied) -> Option<Duration> {
    match on_denied {
        OnDenied::Fail => None,
        // Nothing is waited for in tests.
        OnDenied::Wait if matches!(asking.client.inner().mode, Mode::Testing) => None,
        OnDenied::Wait => wait_to_ask_again(denied, asking.time_left()),
    }
}

/// `None`: the denial stands. `left`: the caller's time, where it has an end.
pub(crate) fn wait_to_ask_again(denied: &Denied, left: Option<Duration>) -> Option<Duration> {
    let wait = denied.retry_after?;
    // The same outcome gets the same answer however late it is told.
    let is_worth_it = denied.reason != DenialReason::PushbackTooLong;
    let has_time = left.is_none_or(|left| wait < left);
    (is_worth_it && has_time).then(|| wait.clamp(WAIT_MIN, WAIT_MAX))
}

/// Runs the operation within its limit. No result: it was cut off.
async fn attempt<T, E, F, Fut, C>(
    permit: &Permit,
    operation: &mut F,
    classify: &C,
) -> (Option<Result<T, E>>, Outcome)
where
    C: Classify<T, E>,
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    let limit = permit.limit();
    let begun = Instant::now();
    let running = operation(Attempt {
        number: permit.attempt(),
        limit,
        suggested_timeout: permit.suggested_timeout(),
        is_probe: permit.is_probe(),
        is_local: permit.is_local(),
    });
    let result = match limit {
        Some(limit) => tokio::time::timeout(limit, running).await.ok(),
        None => Some(running.await),
    };
    let mut outcome = match &result {
        Some(result) => classify.classify(result),
        None => Outcome::timeout(),
    };
    outcome.latency = outcome.latency.or(Some(begun.elapsed()));
    (result, outcome)
}

fn stopped<T, E>(
    last: Option<Result<T, E>>,
    why: Denied,
    attempts: u32,
) -> Result<T, CallError<E>> {
    match last {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(CallError {
            last: Some(error),
            why,
            attempts,
        }),
        None => Err(CallError {
            last: None,
            why,
            attempts,
        }),
    }
}
