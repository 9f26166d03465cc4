//! How an attempt ended, as the caller tells it.

use std::time::Duration;

use holdoff_decision as decision;
pub use holdoff_decision::OutcomeKind;

/// What is known of an attempt that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub(crate) kind: OutcomeKind,
    pub(crate) latency: Option<Duration>,
    pub(crate) pushback: Option<Duration>,
    pub(crate) pushback_restarts_backoff: bool,
    pub(crate) do_not_retry: bool,
    pub(crate) retried_below: bool,
    pub(crate) status_code: u32,
}

impl Outcome {
    /// It ended so, and nothing more is known.
    pub fn new(kind: OutcomeKind) -> Self {
        Self {
            kind,
            latency: None,
            pushback: None,
            pushback_restarts_backoff: false,
            do_not_retry: false,
            retried_below: false,
            status_code: 0,
        }
    }

    /// It worked.
    pub fn success() -> Self {
        Self::new(OutcomeKind::Success)
    }

    /// It failed, and a later attempt may work.
    pub fn failure() -> Self {
        Self::new(OutcomeKind::Failure)
    }

    /// No answer came in time.
    pub fn timeout() -> Self {
        Self::new(OutcomeKind::Timeout)
    }

    /// The dependency certainly never began it.
    pub fn not_sent() -> Self {
        Self::new(OutcomeKind::NotSent)
    }

    /// The caller gave it up.
    pub fn cancelled() -> Self {
        Self::new(OutcomeKind::Cancelled)
    }

    /// How long it took. [`Call::run`](crate::Call::run) measures it where this is absent.
    #[must_use]
    pub fn latency(mut self, latency: Duration) -> Self {
        self.latency = Some(latency);
        self
    }

    /// The dependency asked for so long a wait, as HTTP's `Retry-After` does.
    #[must_use]
    pub fn pushback(mut self, wait: Duration) -> Self {
        self.pushback = Some(wait);
        self
    }

    /// The dependency asked for so long a wait by gRPC, after which the backoff starts at
    /// its first delay again.
    #[must_use]
    pub fn grpc_pushback(mut self, wait: Duration) -> Self {
        self.pushback = Some(wait);
        self.pushback_restarts_backoff = true;
        self
    }

    /// The dependency said that there must be no retry.
    #[must_use]
    pub fn do_not_retry(mut self) -> Self {
        self.do_not_retry = true;
        self
    }

    /// A layer between the caller and the fault has retried already.
    #[must_use]
    pub fn retried_below(mut self) -> Self {
        self.retried_below = true;
        self
    }

    /// The HTTP status or gRPC code, for people.
    #[must_use]
    pub fn status_code(mut self, code: u32) -> Self {
        self.status_code = code;
        self
    }

    /// How it ended.
    pub fn kind(&self) -> OutcomeKind {
        self.kind
    }

    /// Whether the service should hear of it at once rather than with the next batch.
    pub(crate) fn is_urgent(&self) -> bool {
        match self.kind {
            OutcomeKind::Failure
            | OutcomeKind::Timeout
            | OutcomeKind::NotSent
            | OutcomeKind::Throttled => true,
            OutcomeKind::Success
            | OutcomeKind::Rejected
            | OutcomeKind::Ignored
            | OutcomeKind::Cancelled => false,
        }
    }

    /// As the rules read it.
    pub(crate) fn as_decision(&self) -> decision::Outcome {
        decision::Outcome {
            kind: self.kind,
            latency: self.latency.map(Into::into),
            pushback: self.pushback.map(Into::into),
            do_not_retry: self.do_not_retry,
            retried_below: self.retried_below,
            restarts_backoff: self.pushback_restarts_backoff,
        }
    }
}
