//! Restarts a task that failed, after a coordinated and jittered delay.
//!
//! A restart is a retry: it is asked for like one, with the attempts counted since the task
//! was last healthy, so that breaker, budget and calendar hold for a fleet of tasks that fall
//! together as they do for calls. A supervisor has no limit of attempts of its own. Where the
//! service allows no further one, the supervisor waits for a delay of its own (the policy's
//! ceiling, fully jittered) and begins a new chain of attempts; where it names a time, for
//! that.
//!
//! | part | |
//! |---|---|
//! | [`chain`] | when the next start may be made |
//! | this | running a start, and what its end means |
//!
//! A start is reported as a success once it has run for long enough, not when it ends: a
//! permit does not live for hours, and silence would count against the dependency. A task
//! that falls after that is told as a first attempt on the state last pushed.

mod chain;

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    time::Duration,
};

use thiserror::Error;
use tokio::{
    task::{JoinError, JoinHandle},
    time::Instant,
};

use self::chain::Chain;
use crate::{
    call::Attempt,
    client::Client,
    denied::Denied,
    outcome::Outcome,
    permit::Permit,
    question::{Question, Safety},
};

/// A run of so long ends a series of failures.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

type IsFinal<E> = dyn Fn(&Failure<E>) -> bool + Send + Sync;

/// A task that is to be kept running. See [`Client::supervise`].
#[must_use = "nothing happens before it runs"]
pub struct Supervisor<F, E> {
    client: Client,
    question: Question,
    task: F,
    healthy_after: Duration,
    is_final: Option<Box<IsFinal<E>>>,
    until: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// How a start ended.
#[derive(Debug, Error)]
pub enum Failure<E> {
    /// The task's own error.
    #[error("{0}")]
    Error(E),
    /// It panicked, with this text.
    #[error("the task panicked: {0}")]
    Panic(String),
}

/// Why a task is not restarted any more.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Stopped<E> {
    /// [`Supervisor::stop_if`] says that no restart mends this.
    #[error("{0}")]
    Final(Failure<E>),
    /// What [`Supervisor::until`] waited for has come; the task was aborted.
    #[error("the task was told to stop")]
    Told,
    /// The runtime is shutting down.
    #[error("the task was aborted")]
    Aborted,
    /// No dependency has such a name, or a client for tests gave up.
    #[error("not restarted: {why}")]
    GaveUp {
        /// The last failure.
        last: Option<Failure<E>>,
        /// Why there is no further attempt.
        why: Denied,
    },
}

impl<F, E> Supervisor<F, E> {
    pub(crate) fn new(client: Client, question: Question, task: F) -> Self {
        let mut question = question.safety(Safety::Idempotent).max_attempts(u32::MAX);
        (question.deadline, question.attempt_timeout) = (None, None);
        Self {
            client,
            question,
            task,
            healthy_after: HEALTHY_AFTER,
            is_final: None,
            until: None,
        }
    }

    /// A run of so long counts as healthy: the next failure is a first one again. 60 s
    /// unless said.
    pub fn healthy_after(mut self, run: Duration) -> Self {
        self.healthy_after = run;
        self
    }

    /// After which failures the task is not restarted: none unless said.
    pub fn stop_if(
        mut self,
        is_final: impl Fn(&Failure<E>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.is_final = Some(Box::new(is_final));
        self
    }

    /// Stops when this resolves, wherever the task is.
    pub fn until(mut self, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        self.until = Some(Box::pin(stop));
        self
    }

    /// Runs the task, in a tokio task of its own, until it returns `Ok` or is stopped. The
    /// number of an attempt is 1 for the first start and counts on with each restart; after
    /// a healthy run, which is then the first one, it counts from 2 again.
    ///
    /// Dropping the future aborts the task.
    ///
    /// # Errors
    /// The task was stopped.
    pub async fn run<T, Fut>(mut self) -> Result<T, Stopped<E>>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        match self.until.take() {
            Some(stop) => tokio::select! {
                biased;
                () = stop => Err(Stopped::Told),
                ended = self.keep_running() => ended,
            },
            None => self.keep_running().await,
        }
    }

    async fn keep_running<T, Fut>(mut self) -> Result<T, Stopped<E>>
    where
        F: FnMut(Attempt) -> Fut,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let mut chain = Chain::new(self.client.clone(), self.question.clone());
        let mut last = None;
        loop {
            let permit = match chain.permission().await {
                Ok(permit) => permit,
                Err(why) => return Err(Stopped::GaveUp { last, why }),
            };
            let attempt = Attempt {
                number: chain.number(),
                limit: None,
                suggested_timeout: permit.suggested_timeout(),
                is_probe: permit.is_probe(),
                is_local: permit.is_local(),
            };
            let running = Running(tokio::spawn((self.task)(attempt)));
            let ran = watch(running, permit, self.healthy_after).await;
            let failure = match ran.end {
                Ok(Ok(value)) => {
                    ran.permit
                        .into_iter()
                        .for_each(|permit| permit.report(Outcome::success()));
                    return Ok(value);
                }
                Ok(Err(error)) => Failure::Error(error),
                Err(error) => match panic_text(error) {
                    Some(text) => Failure::Panic(text),
                    None => return Err(Stopped::Aborted),
                },
            };
            let is_final = self.is_final.as_ref().is_some_and(|is| is(&failure));
            chain.fell(ran.permit, ran.was_healthy);
            if is_final {
                return Err(Stopped::Final(failure));
            }
            last = Some(failure);
        }
    }
}

impl<F, E, T, Fut> IntoFuture for Supervisor<F, E>
where
    F: FnMut(Attempt) -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    type Output = Result<T, Stopped<E>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl<F, E> fmt::Debug for Supervisor<F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervisor")
            .field("question", &self.question)
            .field("healthy_after", &self.healthy_after)
            .finish_non_exhaustive()
    }
}

/// A task that ends with whoever supervises it.
struct Running<T>(JoinHandle<T>);

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One start, ended.
struct Ran<R> {
    end: Result<R, JoinError>,
    /// `None`: it ran for so long that it was reported as a success.
    permit: Option<Permit>,
    was_healthy: bool,
}

async fn watch<R>(mut running: Running<R>, permit: Permit, healthy_after: Duration) -> Ran<R> {
    let begun = Instant::now();
    // Well before the permit's life ends.
    let life = permit.lives().map(|life| life - life / 10);
    let proven_after = life.map_or(healthy_after, |life| life.min(healthy_after));
    let (end, permit) = match tokio::time::timeout(proven_after, &mut running.0).await {
        Ok(end) => (end, Some(permit)),
        Err(_) => {
            permit.report(Outcome::success());
            ((&mut running.0).await, None)
        }
    };
    Ran {
        end,
        permit,
        was_healthy: begun.elapsed() >= healthy_after,
    }
}

/// `None`: it was no panic.
fn panic_text(error: JoinError) -> Option<String> {
    let payload = error.try_into_panic().ok()?;
    let text = match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => match payload.downcast::<&'static str>() {
            Ok(text) => (*text).to_owned(),
            Err(_) => String::from("(no text)"),
        },
    };
    Some(text)
}
