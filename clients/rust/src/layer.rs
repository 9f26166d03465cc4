//! A tower layer: each request of a service becomes a guarded call.
//!
//! The service under it is cloned for each attempt and waited for inside of the call, so
//! readiness of the layer itself says nothing. A request must be `Clone`, since an attempt
//! may be repeated. Requests of gRPC are streams, which are not: [`GrpcLayer`] is for them.

mod grpc;
#[cfg(feature = "reqwest")]
mod reqwest;

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tower::{Layer, Service, ServiceExt};

pub use grpc::{GrpcLayer, GuardedChannel};
#[cfg(feature = "reqwest")]
pub use reqwest::HoldoffMiddleware;
#[cfg(all(test, feature = "reqwest"))]
pub(crate) use reqwest::question_of;

use crate::{
    call::OnDenied,
    classify::{Classify, Http, Plain},
    client::Client,
    denied::CallError,
    question::Question,
};

/// Guards a service. `question` names, for each request, the dependency, or a whole
/// [`Question`]; a request is taken for unsafe unless that says otherwise.
#[derive(Clone)]
pub struct HoldoffLayer<F, C = Http> {
    client: Client,
    question: Arc<F>,
    classify: C,
    on_denied: OnDenied,
}

impl<F> HoldoffLayer<F> {
    /// For services of HTTP responses.
    pub fn new(client: Client, question: F) -> Self {
        Self {
            client,
            question: Arc::new(question),
            classify: Http,
            on_denied: OnDenied::default(),
        }
    }
}

impl<F, C> HoldoffLayer<F, C> {
    /// How a result is read: as HTTP unless said.
    #[must_use]
    pub fn classify<D>(self, classify: D) -> HoldoffLayer<F, D> {
        HoldoffLayer {
            client: self.client,
            question: self.question,
            classify,
            on_denied: self.on_denied,
        }
    }

    /// `Ok` is success and `Err` failure, whatever they hold.
    #[must_use]
    pub fn plain(self) -> HoldoffLayer<F, Plain> {
        self.classify(Plain)
    }

    /// What happens when the answer is no.
    #[must_use]
    pub fn on_denied(mut self, on_denied: OnDenied) -> Self {
        self.on_denied = on_denied;
        self
    }
}

impl<F, C> fmt::Debug for HoldoffLayer<F, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldoffLayer").finish_non_exhaustive()
    }
}

impl<S, F, C: Clone> Layer<S> for HoldoffLayer<F, C> {
    type Service = Guarded<S, F, C>;

    fn layer(&self, inner: S) -> Self::Service {
        Guarded {
            inner,
            client: self.client.clone(),
            question: Arc::clone(&self.question),
            classify: self.classify.clone(),
            on_denied: self.on_denied,
        }
    }
}

/// A service whose requests are guarded calls.
pub struct Guarded<S, F, C> {
    inner: S,
    client: Client,
    question: Arc<F>,
    classify: C,
    on_denied: OnDenied,
}

impl<S: Clone, F, C: Clone> Clone for Guarded<S, F, C> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            client: self.client.clone(),
            question: Arc::clone(&self.question),
            classify: self.classify.clone(),
            on_denied: self.on_denied,
        }
    }
}

impl<S, F, C> fmt::Debug for Guarded<S, F, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").finish_non_exhaustive()
    }
}

impl<S, R, F, Q, C> Service<R> for Guarded<S, F, C>
where
    S: Service<R> + Clone + Send + 'static,
    S::Future: Send,
    S::Response: Send,
    S::Error: Send,
    R: Clone + Send + 'static,
    F: Fn(&R) -> Q,
    Q: Into<Question>,
    C: Classify<S::Response, S::Error> + Clone + Send + Sync + 'static,
{
    type Response = S::Response;
    type Error = CallError<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let question = (self.question)(&request).into();
        let inner = self.inner.clone();
        let call = self
            .client
            .call(question)
            .classify(self.classify.clone())
            .on_denied(self.on_denied);
        Box::pin(call.run(move |_| inner.clone().oneshot(request.clone())))
    }
}
