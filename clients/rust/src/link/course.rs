//! Which endpoint is tried next, and when. A fleet that loses its service together must not
//! come back together: each return is drawn from a range. It grows where the service is
//! there but ill. Where nobody listens it does not: looking costs nobody anything, and the
//! fleet is back within the first range of a restart.

use std::{collections::HashSet, fmt, future::Future, io, pin::Pin, sync::Arc, time::Duration};

use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};

use super::End;
use crate::{
    credentials::{Bearer, Route},
    entropy,
};

/// The return after a loss is drawn from 0 to so long: with connecting and asking, all are
/// back within 5 s of the service.
const SPREAD: Duration = Duration::from_millis(4_500);
/// A service that was silent is looked for no sooner, and within [`SPREAD`].
const SEARCH_AFTER: Duration = Duration::from_secs(1);
const SPREAD_MAX: Duration = Duration::from_secs(30);
/// A dial takes at most so long, whatever the connector does.
const DIAL_MAX: Duration = Duration::from_secs(2);

/// How often a preferred endpoint is looked for.
const RETURN_TRIED_EVERY: Duration = Duration::from_secs(60);

/// Makes a channel of an endpoint: for sockets or encryption that the built-in one lacks.
pub type Dial = Arc<
    dyn Fn(Endpoint) -> Pin<Box<dyn Future<Output = io::Result<Channel>> + Send>> + Send + Sync,
>;

pub(crate) struct Dialer {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) dial: Option<Dial>,
    pub(crate) bearer: Bearer,
}

impl Dialer {
    /// Each endpoint once, in order from `start`.
    ///
    /// # Errors
    /// None could be reached; why the last one could not.
    pub(super) async fn dial(&self, start: usize) -> Result<(usize, Route), String> {
        let count = self.endpoints.len();
        let mut last = String::new();
        for index in (0..count).map(|step| (start + step) % count) {
            match self.dial_one(index).await {
                Ok(channel) => return Ok((index, channel)),
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    /// For a log: one endpoint, or all.
    pub(super) fn address(&self, index: Option<usize>) -> String {
        let uri = |endpoint: &Endpoint| endpoint.uri().to_string();
        match index.and_then(|index| self.endpoints.get(index)) {
            Some(endpoint) => uri(endpoint),
            None => self
                .endpoints
                .iter()
                .map(uri)
                .collect::<Vec<_>>()
                .join(", "),
        }
    }

    /// Returns, some time after the preferred endpoint was left, when it can be reached
    /// again. It is asked once in a jittered minute or two.
    pub(super) async fn preferred_is_back(&self, index: usize) {
        if index == 0 {
            std::future::pending::<()>().await;
        }
        loop {
            let wait = RETURN_TRIED_EVERY.mul_f64(1.0 + entropy::unit());
            tokio::time::sleep(wait).await;
            if self.dial_one(0).await.is_ok() {
                return;
            }
        }
    }

    async fn dial_one(&self, index: usize) -> Result<Route, String> {
        let endpoint = self.endpoints.get(index).cloned();
        let endpoint = endpoint.ok_or_else(|| "no endpoint".to_owned())?;
        let dialled = async {
            match &self.dial {
                Some(dial) => dial(endpoint).await,
                None => endpoint.connect().await.map_err(io::Error::other),
            }
        };
        match tokio::time::timeout(DIAL_MAX, dialled).await {
            Ok(Ok(channel)) => Ok(Route::new(channel, self.bearer.clone())),
            Ok(Err(error)) => Err(innermost(&error)),
            Err(_) => Err(format!("no connection within {DIAL_MAX:?}")),
        }
        .inspect_err(|why| tracing::debug!(index, why, "holdoff is not reachable"))
    }
}

/// "transport error" alone helps nobody.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
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
        self.failures = 0;
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
            // Another endpoint may answer.
            End::Silent => {
                self.start = index + 1;
                let spread = (SPREAD - SEARCH_AFTER).mul_f64(unit.clamp(0.0, 1.0));
                self.not_before = Instant::now() + SEARCH_AFTER + spread;
            }
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
    async fn a_return_is_spread_within_five_seconds_growing_to_thirty_where_the_service_is_ill() {
        let mut course = Course::new();
        let mut waits = Vec::new();
        for _ in 0..5 {
            course.ended(0, End::Broken { answered: false }, 1.0);
            waits.push(wait_of(&course).as_millis());
        }
        assert_eq!(waits, [4_500, 9_000, 18_000, 30_000, 30_000]);
        for _ in 0..5 {
            course.nothing_reachable(1.0);
            assert_eq!(wait_of(&course), SPREAD, "nobody listens");
        }
        course.ended(0, End::Broken { answered: true }, 0.5);
        assert_eq!(wait_of(&course), Duration::from_millis(2_250));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_endpoint_is_left_for_the_next_one_after_a_second_or_more() {
        let mut course = Course::new();
        for (unit, wait) in [(0.0, SEARCH_AFTER), (1.0, SPREAD)] {
            course.ended(0, End::Silent, unit);
            assert_eq!((course.start(), wait_of(&course)), (1, wait));
        }
    }
}
