//! Runs a health check again and again, when the service says.
//!
//! The next run is planned as soon as the one before has ended, and the question carries how
//! it ended. Where the plan is that others check, their verdict is told and the service is
//! asked again when it says. Checks are what an outage is found by, so they go on without
//! the service, on the grid that it gave last.
//!
//! | part | |
//! |---|---|
//! | [`plan`] | reading a plan strictly |
//! | [`alone`] | the schedule without the service |
//! | [`course`] | asking, waiting, and what is kept from one run to the next |
//! | this | one run after the other |
//!
//! A check runs in the task of whoever awaits it, and one at a time: the next is not looked
//! for before it has ended or its time is over.

mod alone;
mod course;
mod plan;

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    time::Duration,
};

use tokio::time::{Instant, timeout};

use self::course::{Course, Ended, Run};
use crate::{
    asking::settled,
    client::{Client, Mode},
    question,
};

/// What all checkers together have found.
pub use holdoff_decision::check::Verdict;

const PERIOD: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(2);
/// Whatever is planned, runs and questions are so far apart.
const APART_MIN: Duration = Duration::from_millis(10);

type Told = dyn FnMut(&Finding) + Send;

/// A check that is to be run again and again. See [`Client::check`].
#[must_use = "nothing happens before it runs"]
pub struct Checker<F> {
    client: Client,
    dependency: String,
    check: F,
    period: Duration,
    timeout: Duration,
    runs: u64,
    told: Option<Box<Told>>,
    until: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// It is given up after so long, which counts as unhealthy.
    pub timeout: Duration,
    /// Not planned by the service.
    pub is_local: bool,
}

/// What a check may return: `true`, or `Ok(())`, is healthy.
pub trait Health {
    /// Whether the dependency answered as it should.
    fn is_healthy(&self) -> bool;
}

impl Health for bool {
    fn is_healthy(&self) -> bool {
        *self
    }
}

impl<E> Health for Result<(), E> {
    fn is_healthy(&self) -> bool {
        self.is_ok()
    }
}

/// What a checker learns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// A run of its own has ended.
    Ran {
        /// Whether the dependency answered as it should, in time.
        healthy: bool,
        /// It was given up.
        timed_out: bool,
        /// How long it took.
        took: Duration,
        /// Not planned by the service, which does not learn of it.
        is_local: bool,
        /// What all checkers together have found. `None`: the service does not say.
        fleet: Option<Verdict>,
    },
    /// Others check.
    Shared {
        /// What they have found.
        verdict: Verdict,
        /// How long ago. `None`: nobody has checked yet.
        age: Option<Duration>,
        /// The service is asked again then.
        ask_again: Duration,
    },
    /// The service plans no checks of this dependency; they go on without. Told once, until
    /// it plans again.
    NotPlanned {
        /// Its words.
        why: String,
    },
    /// No dependency has such a name. Nothing is checked.
    BadName {
        /// The name, and what is allowed.
        why: String,
    },
    /// The service does not answer; checks go on without. Told once, until it answers.
    Away {
        /// What is known of it.
        why: String,
    },
}

/// What was done until the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// Own runs that have ended.
    pub runs: u64,
    /// Whether the last one found the dependency healthy.
    pub last: Option<bool>,
    /// [`Checker::until`] ended it.
    pub was_told: bool,
}

impl<F> Checker<F> {
    pub(crate) fn new(client: Client, dependency: String, check: F) -> Self {
        Self {
            client,
            dependency,
            check,
            period: PERIOD,
            timeout: TIMEOUT,
            runs: u64::MAX,
            told: None,
            until: None,
        }
    }

    /// The time between two runs while the service has planned none: 30 s unless said.
    pub fn period(mut self, period: Duration) -> Self {
        self.period = period.max(APART_MIN);
        self
    }

    /// How long a run may take while the service has planned none: 2 s unless said.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Ends after so many own runs: never unless said.
    pub fn runs(mut self, runs: u64) -> Self {
        self.runs = runs;
        self
    }

    /// Is told each finding; no further check is made before it returns.
    pub fn told(mut self, told: impl FnMut(&Finding) + Send + 'static) -> Self {
        self.told = Some(Box::new(told));
        self
    }

    /// Ends when this resolves; a run that is under way is dropped.
    pub fn until(mut self, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        self.until = Some(Box::pin(stop));
        self
    }

    /// Checks until it is told to end, has made its runs, or is dropped.
    ///
    /// A client for tests makes three runs at most, and does not wait between them.
    pub async fn run<H, Fut>(mut self) -> Checked
    where
        H: Health,
        F: FnMut(Check) -> Fut,
        Fut: Future<Output = H>,
    {
        let mut checked = Checked::default();
        let stop = self.until.take();
        let stop = async {
            match stop {
                Some(stop) => stop.await,
                None => std::future::pending().await,
            }
        };
        let was_told = tokio::select! {
            biased;
            () = stop => true,
            () = self.keep_checking(&mut checked) => false,
        };
        Checked {
            was_told,
            ..checked
        }
    }

    async fn keep_checking<H, Fut>(&mut self, checked: &mut Checked)
    where
        H: Health,
        F: FnMut(Check) -> Fut,
        Fut: Future<Output = H>,
    {
        let is_bypassed = matches!(self.client.inner().mode, Mode::Bypass);
        if !is_bypassed && !question::is_name(&self.dependency) {
            let why = settled::bad_name(&self.dependency).detail;
            self.tell(&Finding::BadName { why });
            return;
        }
        let mut course = Course::new(self);
        loop {
            let planned = course.ask(&self.client, &self.dependency).await;
            if let Some(ended) = course.ended.take() {
                self.tell(&ended.finding(planned.as_ref().ok().map(|plan| plan.verdict)));
            }
            if checked.runs >= course.runs {
                return;
            }
            course.note(self, &planned);
            let Some(run) = course.until_the_next_run(planned).await else {
                continue;
            };
            let ended = self.check_once(&run).await;
            checked.runs = checked.runs.saturating_add(1);
            checked.last = Some(ended.healthy);
            course.ran(run, ended);
        }
    }

    async fn check_once<H, Fut>(&mut self, run: &Run) -> Ended
    where
        H: Health,
        F: FnMut(Check) -> Fut,
        Fut: Future<Output = H>,
    {
        let begun = Instant::now();
        let check = Check {
            timeout: run.timeout,
            is_local: run.permit.is_none(),
        };
        let health = timeout(run.timeout, (self.check)(check)).await;
        Ended {
            healthy: health.as_ref().is_ok_and(Health::is_healthy),
            timed_out: health.is_err(),
            took: begun.elapsed(),
            is_local: check.is_local,
        }
    }

    fn tell(&mut self, finding: &Finding) {
        if let Some(told) = &mut self.told {
            told(finding);
        }
    }
}

impl<F, H, Fut> IntoFuture for Checker<F>
where
    H: Health + Send + 'static,
    F: FnMut(Check) -> Fut + Send + 'static,
    Fut: Future<Output = H> + Send + 'static,
{
    type Output = Checked;
    type IntoFuture = Pin<Box<dyn Future<Output = Checked> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl<F> fmt::Debug for Checker<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checker")
            .field("dependency", &self.dependency)
            .field("period", &self.period)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
