//! Under a generated gRPC client: each call of a tonic channel becomes a guarded call.
//!
//! A request that is there at once and whole, as that of a unary method is, can be repeated.
//! One that is still being written (client streaming) is asked for and reported, and never
//! repeated. What counts is the status that comes in the headers, where a method that fails
//! before its first message puts it; one that comes after messages is not seen.

use std::{
    collections::VecDeque,
    error::Error,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, request::Parts};
use http_body::{Body as _, Frame};
use tonic::{Code, Status, body::Body};
use tower::{Layer, Service, ServiceExt};

use crate::{
    call::OnDenied,
    classify,
    client::Client,
    denied::{CallError, DenialReason, Denied},
    outcome::Outcome,
    question::Question,
};

/// Messages larger than this are not kept to be repeated.
const REPEATED_BYTES_MAX: usize = 1024 * 1024;

/// Guards a channel. `question` names, by the path and headers of each request, the
/// dependency, or a whole [`Question`]. A denied call ends with a [`Status`], as any other.
/// A request's own timeout (`grpc-timeout`) is the deadline of the whole call, its attempts and
/// delays together, unless the question has one.
///
/// ```no_run
/// # use holdoff_client::{Client, GrpcLayer, Question, Safety, operator::OperatorServiceClient};
/// # use tower::Layer;
/// # fn example(client: Client, channel: tonic::transport::Channel) {
/// let layer = GrpcLayer::new(client, |request: &http::request::Parts| {
///     let is_safe = request.uri.path().contains("/Get");
///     let safety = if is_safe { Safety::Idempotent } else { Safety::Unsafe };
///     Question::new("ledger").safety(safety)
/// });
/// let mut ledger = OperatorServiceClient::new(layer.layer(channel));
/// # }
/// ```
#[derive(Clone)]
pub struct GrpcLayer<F> {
    client: Client,
    question: Arc<F>,
    on_denied: OnDenied,
}

impl<F> GrpcLayer<F> {
    /// Nothing is waited for when the answer is no, unless [`Self::on_denied`] says so.
    pub fn new(client: Client, question: F) -> Self {
        Self {
            client,
            question: Arc::new(question),
            on_denied: OnDenied::default(),
        }
    }

    /// What happens when the answer is no.
    #[must_use]
    pub fn on_denied(mut self, on_denied: OnDenied) -> Self {
        self.on_denied = on_denied;
        self
    }
}

impl<F> fmt::Debug for GrpcLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcLayer").finish_non_exhaustive()
    }
}

impl<S, F> Layer<S> for GrpcLayer<F> {
    type Service = GuardedChannel<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        GuardedChannel {
            inner,
            client: self.client.clone(),
            question: Arc::clone(&self.question),
            on_denied: self.on_denied,
        }
    }
}

/// A channel whose calls are guarded.
pub struct GuardedChannel<S, F> {
    inner: S,
    client: Client,
    question: Arc<F>,
    on_denied: OnDenied,
}

impl<S: Clone, F> Clone for GuardedChannel<S, F> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            client: self.client.clone(),
            question: Arc::clone(&self.question),
            on_denied: self.on_denied,
        }
    }
}

impl<S, F> fmt::Debug for GuardedChannel<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedChannel").finish_non_exhaustive()
    }
}

impl<S, B, F, Q> Service<Request<Body>> for GuardedChannel<S, F>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Error + Send + 'static,
    B: Default + Send + 'static,
    F: Fn(&Parts) -> Q,
    Q: Into<Question>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let question: Question = (self.question)(&parts).into();
        let question = match (question.deadline, timeout_of(&parts.headers)) {
            (None, Some(timeout)) => question.deadline(timeout),
            (Some(_), _) | (None, None) => question,
        };
        let (frames, mut rest) = take_what_is_there(body);
        let question = match rest {
            None => question,
            Some(_) => question.max_attempts(1),
        };
        let inner = self.inner.clone();
        let call = self
            .client
            .call(question)
            .on_denied(self.on_denied)
            .classify(read::<B, S::Error>);
        let run = call.run(move |_| {
            let message = Message {
                frames: frames.clone(),
                rest: rest.take(),
            };
            let request = Request::from_parts(parts.clone(), Body::new(message));
            inner.clone().oneshot(request)
        });
        Box::pin(async move {
            match run.await {
                Ok(response) => Ok(response),
                Err(CallError {
                    last: Some(error), ..
                }) => Err(error),
                Err(error) if error.is_timeout() => {
                    let status = Status::deadline_exceeded(error.why.to_string());
                    Ok(status.into_http())
                }
                Err(CallError { why, .. }) => Ok(status_of(&why).into_http()),
            }
        })
    }
}

fn read<B, E: Error + 'static>(result: &Result<Response<B>, E>) -> Outcome {
    match result {
        Ok(response) => match Status::from_header_map(response.headers()) {
            Some(status) => classify::grpc(&status),
            None if response.status() == StatusCode::OK => Outcome::success(),
            None => classify::http(response.status(), response.headers()),
        },
        Err(error) => classify::transport(error),
    }
}

fn status_of(why: &Denied) -> Status {
    let code = match why.reason {
        DenialReason::Deadline => Code::DeadlineExceeded,
        DenialReason::RateLimited => Code::ResourceExhausted,
        _ => Code::Unavailable,
    };
    Status::new(code, why.to_string())
}

/// One to eight digits and a unit, as gRPC over HTTP/2 has it; tonic's `set_timeout` writes it.
fn timeout_of(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if !(1..=8).contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

/// The data of a request that can be had without waiting, and what is not yet written.
fn take_what_is_there(mut body: Body) -> (VecDeque<Bytes>, Option<Body>) {
    let mut frames = VecDeque::new();
    let mut bytes = 0;
    // The real waker is registered when the body is polled to be sent.
    let mut context = Context::from_waker(Waker::noop());
    while bytes <= REPEATED_BYTES_MAX {
        match Pin::new(&mut body).poll_frame(&mut context) {
            Poll::Ready(None) => return (frames, None),
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => {
                    bytes += data.len();
                    frames.push_back(data);
                }
                // A gRPC request has no trailers.
                Err(_) => return (frames, None),
            },
            // The error comes back when it is sent.
            Poll::Ready(Some(Err(status))) => {
                return (frames, Some(Body::new(Failing(Some(status)))));
            }
            Poll::Pending => break,
        }
    }
    (frames, Some(body))
}

/// A request: what was there, then the rest.
struct Message {
    frames: VecDeque<Bytes>,
    rest: Option<Body>,
}

impl http_body::Body for Message {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(data) = self.frames.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        match &mut self.rest {
            Some(rest) => Pin::new(rest).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        let rest_is_over = self.rest.as_ref().is_none_or(Body::is_end_stream);
        self.frames.is_empty() && rest_is_over
    }
}

/// A request that could not be written.
struct Failing(Option<Status>);

impl http_body::Body for Failing {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready(self.0.take().map(Err))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Duration> {
        timeout_of(&HeaderMap::from_iter([(
            http::HeaderName::from_static("grpc-timeout"),
            text.parse().unwrap(),
        )]))
    }

    #[test]
    fn a_timeout_is_read_in_each_unit_and_in_no_other_form() {
        let nanos = |text| read(text).map(|timeout| timeout.as_nanos());
        let units = ["1n", "2u", "3m", "4S", "5M", "6H"].map(nanos);
        let secs = 1_000_000_000;
        let expected = [1, 2_000, 3_000_000, 4 * secs, 300 * secs, 21_600 * secs];
        assert_eq!(units, expected.map(Some));
        assert_eq!(nanos("99999999H"), Some(359_999_996_400 * secs));
        for bad in [
            "",
            "S",
            "123456789m",
            "1",
            "-1S",
            "+1S",
            "1s",
            "1.5S",
            "1 S",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
