//! A middleware for `reqwest`: each request of a client becomes a guarded call.
//!
//! A request whose body is a stream cannot be sent twice, so it gets one attempt, whatever
//! its safety. Responses are read by their status, as [`classify::Http`](crate::classify::Http)
//! does, and returned as they are where there is no further attempt.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use http::{Extensions, Method};
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next};
use tokio::sync::Mutex;

use crate::{
    Client, OnDenied, Outcome, Question, Safety,
    classify::{self, Classify},
    denied::CallError,
};

/// Guards each request of a `reqwest_middleware` client. `question` names, for each, the
/// dependency, or a whole [`Question`].
///
/// The error of a request that was sent is reqwest's own. One that was refused is
/// [`Error::Middleware`] with a [`CallError`] inside, which says why and until when; so is one
/// whose attempts were all cut off ([`CallError::is_timeout`]), since nobody else can make an
/// error of reqwest.
///
/// reqwest follows redirects below this, and a connection that could not be made may have been
/// that of a second hop, after the first one has executed the request. So it counts as a
/// failure, and an unsafe request is not repeated, unless [`Self::without_redirects`] says
/// that there are no second hops.
#[derive(Clone)]
pub struct HoldoffMiddleware<F> {
    client: Client,
    question: Arc<F>,
    on_denied: OnDenied,
    reading: Reading,
}

impl HoldoffMiddleware<fn(&Request) -> Question> {
    /// The dependency is the request's host, with its port where that is not the scheme's own.
    /// What has an `Idempotency-Key` may be repeated, and GET, HEAD, OPTIONS, TRACE, PUT and
    /// DELETE (RFC 9110, 9.2.2); the others not.
    pub fn by_host(client: Client) -> Self {
        Self::new(client, question_of)
    }
}

impl<F> HoldoffMiddleware<F> {
    /// See the type.
    pub fn new(client: Client, question: F) -> Self {
        Self {
            client,
            question: Arc::new(question),
            on_denied: OnDenied::default(),
            reading: Reading::default(),
        }
    }

    /// The client below was built with `redirect::Policy::none()`: a request whose connection
    /// could not be made was certainly not sent, and even an unsafe one is repeated.
    #[must_use]
    pub fn without_redirects(mut self) -> Self {
        self.reading = Reading::OneHop;
        self
    }

    /// What happens when the answer is no.
    #[must_use]
    pub fn on_denied(mut self, on_denied: OnDenied) -> Self {
        self.on_denied = on_denied;
        self
    }
}

impl<F> fmt::Debug for HoldoffMiddleware<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldoffMiddleware").finish_non_exhaustive()
    }
}

#[async_trait]
impl<F, Q> Middleware for HoldoffMiddleware<F>
where
    F: Fn(&Request) -> Q + Send + Sync + 'static,
    Q: Into<Question>,
{
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let question = (self.question)(&request).into();
        let question = match request.try_clone() {
            Some(_) => question,
            None => question.max_attempts(1),
        };
        let (mut request, extensions) = (Some(request), Mutex::new(extensions));
        let call = self.client.call(question).on_denied(self.on_denied);
        let result = call
            .classify(self.reading)
            .run(|_| {
                let copy = request.as_ref().and_then(Request::try_clone);
                let sent = copy.or_else(|| request.take());
                let (next, extensions) = (next.clone(), &extensions);
                async move {
                    let sent = sent.ok_or_else(|| Error::middleware(SentAlready))?;
                    next.run(sent, &mut **extensions.lock().await).await
                }
            })
            .await;
        result.map_err(|stopped| match stopped {
            CallError {
                last: Some(error), ..
            } => {
                tracing::debug!(why = %stopped.why, attempts = stopped.attempts, "no further attempt");
                error
            }
            CallError { last: None, .. } => Error::middleware(stopped),
        })
    }
}

/// A stream has one attempt, so this is for a caller's own limit of attempts gone wrong.
#[derive(Debug, thiserror::Error)]
#[error("the body was sent already and cannot be repeated")]
struct SentAlready;

/// How results are read: what a connection that could not be made says depends on the hops.
#[derive(Clone, Copy, Debug, Default)]
enum Reading {
    #[default]
    ManyHops,
    OneHop,
}

impl Classify<Response, Error> for Reading {
    fn classify(&self, result: &Result<Response, Error>) -> Outcome {
        match result {
            Ok(response) => classify::http(response.status(), response.headers()),
            Err(error) => self.of_error(error),
        }
    }
}

impl Reading {
    fn of_error(self, error: &Error) -> Outcome {
        match error {
            Error::Reqwest(error) => self.of_reqwest(error),
            // Guarded below too: given up without an error of reqwest.
            Error::Middleware(error) => match error.downcast_ref::<CallError<Error>>() {
                Some(below) => below.outcome(|last| self.of_error(last)),
                None => classify::transport(error.as_ref()),
            },
        }
    }

    fn of_reqwest(self, error: &reqwest::Error) -> Outcome {
        if error.is_builder() {
            return Outcome::new(crate::OutcomeKind::Rejected);
        }
        match self {
            // Also one that timed out: nothing of the request has left.
            Self::OneHop if error.is_connect() => Outcome::not_sent(),
            Self::OneHop | Self::ManyHops if error.is_timeout() => Outcome::timeout(),
            Self::OneHop | Self::ManyHops => Outcome::failure(),
        }
    }
}

/// What [`HoldoffMiddleware::by_host`] asks.
pub(crate) fn question_of(request: &Request) -> Question {
    let url = request.url();
    // An IPv6 address stands in brackets, which no name has.
    let host = url.host_str().unwrap_or("unknown").trim_matches(['[', ']']);
    let name = match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let key = request.headers().get("idempotency-key");
    let safety = match *request.method() {
        _ if key.is_some_and(|key| !key.is_empty()) => Safety::Keyed,
        Method::GET
        | Method::HEAD
        | Method::OPTIONS
        | Method::TRACE
        | Method::PUT
        | Method::DELETE => Safety::Idempotent,
        _ => Safety::Unsafe,
    };
    Question::new(name).safety(safety)
}
