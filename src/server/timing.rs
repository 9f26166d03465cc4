//! Counts every RPC, and how long it took: outermost, so that it sees what the client is told.
//!
//! An RPC with one answer has ended when its answer is there: an error is in the headers, and
//! what has none succeeded. A stream ends with its trailers, or when its reader goes away.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use holdoff_decision::Time;
use http::{HeaderMap, Request, Response};
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;
use tonic::{Code, Status, body::Body};
use tower::{Layer, Service};

use super::lifetime::{Life, Running};
use crate::{
    clock::Clock,
    grpc,
    telemetry::{Method, Telemetry},
};

const STATUS_HEADER: &str = "grpc-status";

/// See the module.
#[derive(Clone, Debug)]
pub struct Timing {
    /// One a listener: each call counts itself in and out here, which cores should not share.
    own: Arc<Own>,
}

/// The same for the calls of one connection.
#[derive(Clone, Debug)]
pub struct OnConnection {
    timing: Timing,
    life: Arc<Life>,
}

#[derive(Debug)]
struct Own {
    telemetry: Arc<Telemetry>,
    clock: Clock,
}

impl Timing {
    pub fn new(telemetry: Arc<Telemetry>, clock: Clock) -> Self {
        let own = Arc::new(Own { telemetry, clock });
        Self { own }
    }

    pub fn of(&self, life: Arc<Life>) -> OnConnection {
        let timing = self.clone();
        OnConnection { timing, life }
    }
}

impl<Inner> Layer<Inner> for OnConnection {
    type Service = Timed<Inner>;

    fn layer(&self, inner: Inner) -> Timed<Inner> {
        let on = self.clone();
        Timed { inner, on }
    }
}

/// A service whose RPCs are timed.
#[derive(Clone, Debug)]
pub struct Timed<Inner> {
    inner: Inner,
    on: OnConnection,
}

impl<Inner> Service<Request<Body>> for Timed<Inner>
where
    Inner: Service<Request<Body>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = Inner::Error;
    type Future = Answering<Inner::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let OnConnection { timing, life } = &self.on;
        let call = Call {
            method: Method::of(request.uri().path()),
            began: timing.own.clock.now(),
            timing: timing.clone(),
            ended: false,
            _running: life.begin(),
        };
        if call.method.streams() {
            let leaving = grpc::Leaving::new(life.leaving());
            request.extensions_mut().insert(leaving);
        }
        Answering {
            answer: self.inner.call(request),
            call: Some(call),
        }
    }
}

pin_project! {
    /// An RPC that has not been answered yet.
    pub struct Answering<Answer> {
        #[pin]
        answer: Answer,
        call: Option<Call>,
    }
}

impl<Answer, Error> Future for Answering<Answer>
where
    Answer: Future<Output = Result<Response<Body>, Error>>,
{
    type Output = Answer::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.answer.poll(context));
        Poll::Ready(match (answer, this.call.take()) {
            (Ok(response), Some(call)) => Ok(call.answered(response)),
            (answer, _) => answer,
        })
    }
}

/// One RPC, counted once: when it ends, or as cancelled when it is dropped before.
#[derive(Debug)]
struct Call {
    method: Method,
    began: Time,
    timing: Timing,
    ended: bool,
    _running: Running,
}

impl Call {
    fn answered(mut self, response: Response<Body>) -> Response<Body> {
        match code_in(response.headers()) {
            Some(code) => self.end(code),
            None if self.method.streams() => {
                return response.map(|inner| Body::new(Streaming { inner, call: self }));
            }
            None => self.end(Code::Ok),
        }
        response
    }

    fn end(&mut self, code: Code) {
        if !self.ended {
            self.ended = true;
            let Own { telemetry, clock } = &*self.timing.own;
            let took = self.began.until(clock.now());
            telemetry.rpc(self.method, code as usize, took.into());
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.end(Code::Cancelled);
    }
}

fn code_in(headers: &HeaderMap) -> Option<Code> {
    let code = headers.get(STATUS_HEADER)?;
    Some(Code::from_bytes(code.as_bytes()))
}

/// The messages of a stream that is timed.
struct Streaming {
    inner: Body,
    call: Call,
}

impl http_body::Body for Streaming {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(code) = frame.trailers_ref().and_then(code_in) {
                    self.call.end(code);
                }
            }
            Some(Err(status)) => {
                let code = status.code();
                self.call.end(code);
            }
            None => self.call.end(Code::Ok),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
