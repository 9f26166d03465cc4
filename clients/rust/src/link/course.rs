//! Which endpoint is tried next, and when. A fleet that loses its service together must not
//! come back together: each return is drawn from a range, which grows while it fails.

use std::{collections::HashSet, fmt, future::Future, io, pin::Pin, sync::Arc, time::Duration};

use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};

use super::End;

/// The return after a loss is drawn from 0 to so long.
const SPREAD: Duration = Duration::from_secs(5);
const SPREAD_MAX: Duration = Duration::from_secs(30);
/// A dial takes at most so long, whatever the connector does.
const DIAL_MAX: Duration = Duration::from_secs(2);

/// Makes a channel of an endpoint: for sockets or encryption that the built-in one lacks.
pub type Dial = Arc<
    dyn Fn(Endpoint) -> Pin<Box<dyn Future<Output = io::Result<Channel>> + Send>> + Send + Sync,
>;

pub(crate) struct Dialer {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) dial: Option<Dial>,
}

impl Dialer {
    /// Each endpoint once, in order from `start`. `None`: none could be reached.
    pub(super) async fn dial(&self, start: usize) -> Option<(usize, Channel)> {
        let count = self.endpoints.len();
        for index in (0..count).map(|step| (start + step) % count) {
            let endpoint = self.endpoints.get(index)?.clone();
            let dialled = tokio::time::timeout(DIAL_MAX, self.dial_one(endpoint)).await;
            match dialled {
                Ok(Ok(channel)) => return Some((index, channel)),
                Ok(Err(error)) => tracing::debug!(index, %error, "holdoff is not reachable"),
                Err(_) => tracing::debug!(index, "holdoff is not reachable in time"),
            }
        }
        None
    }

    async fn dial_one(&self, endpoint: Endpoint) -> io::Result<Channel> {
        match &self.dial {
            Some(dial) => dial(endpoint).await,
            None => endpoint.connect().await.map_err(io::Error::other),
        }
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer")
            .field("endpoints", &self.endpoints.len())
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(super) struct Course {
    start: usize,
    not_before: Instant,
    failures: u32,
    /// Endpoints that have no stream.
    unary: HashSet<usize>,
}

impl Course {
    pub(super) fn new() -> Self {
        Self {
            start: 0,
            not_before: Instant::now(),
            failures: 0,
            unary: HashSet::new(),
        }
    }

    pub(super) fn start(&self) -> usize {
        self.start
    }

    pub(super) fn not_before(&self) -> Instant {
        self.not_before
    }

    pub(super) fn is_unary(&self, index: usize) -> bool {
        self.unary.contains(&index)
    }

    pub(super) fn note_unary(&mut self, index: usize) {
        self.unary.insert(index);
    }

    pub(super) fn nothing_reachable(&mut self, unit: f64) {
        self.start = 0;
        self.wait(unit);
    }

    /// `unit` is uniform in [0, 1).
    pub(super) fn ended(&mut self, index: usize, end: End, unit: f64) {
        match end {
            End::Broken { answered: true } => {
                self.failures = 0;
                self.start = 0;
                self.wait(unit);
            }
            End::Broken { answered: false } => {
                self.start = index + 1;
                self.wait(unit);
            }
            // The gate spaces these already; another endpoint may answer.
            End::Silent => self.start = index + 1,
            End::Again => {
                self.unary.remove(&index);
                self.start = 0;
            }
            End::Unwanted | End::Unimplemented => {}
        }
    }

    fn wait(&mut self, unit: f64) {
        let range = (SPREAD * (1 << self.failures.min(3))).min(SPREAD_MAX);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Instant::now() + range.mul_f64(unit.clamp(0.0, 1.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_of(course: &Course) -> Duration {
        course
            .not_before()
            .saturating_duration_since(Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn a_return_is_spread_over_five_seconds_growing_to_thirty() {
        let mut course = Course::new();
        let mut waits = Vec::new();
        for _ in 0..5 {
            course.nothing_reachable(1.0);
            waits.push(wait_of(&course).as_secs());
        }
        assert_eq!(waits, [5, 10, 20, 30, 30]);
        course.ended(0, End::Broken { answered: true }, 0.5);
        assert_eq!(wait_of(&course), Duration::from_millis(2_500));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_endpoint_is_left_for_the_next_one_without_a_wait() {
        let mut course = Course::new();
        course.ended(0, End::Silent, 0.9);
        assert_eq!((course.start(), wait_of(&course)), (1, Duration::ZERO));
    }
}
