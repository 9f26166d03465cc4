//! Who is let in to an RPC: before its message is read by the table of RPCs, and in its handler
//! by the namespace that the message names.
//!
//! A handler that forgets its half answers whoever has the role anywhere; a test calls every RPC
//! with the wrong namespace.

use std::{
    borrow::Cow,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tonic::{Status, body::Body};
use tower::{Layer, Service};

use super::{read, status};
use crate::access::{Access, Method, Needs, Peer, Place, Principal, Role, Watcher};

/// Refuses what may not be asked, and leaves the [`Principal`] of the rest in the extensions.
#[derive(Clone, Debug)]
pub struct AdmissionLayer {
    access: Arc<Access>,
}

/// See [`AdmissionLayer`].
#[derive(Clone, Debug)]
pub struct Admission<Inner> {
    access: Arc<Access>,
    inner: Inner,
}

impl AdmissionLayer {
    pub fn new(access: Arc<Access>) -> Self {
        Self { access }
    }
}

impl<Inner> Layer<Inner> for AdmissionLayer {
    type Service = Admission<Inner>;

    fn layer(&self, inner: Inner) -> Admission<Inner> {
        let access = Arc::clone(&self.access);
        Admission { access, inner }
    }
}

impl<Inner, Sent> Service<Request<Sent>> for Admission<Inner>
where
    Inner: Service<Request<Sent>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = Inner::Error;
    type Future = Admitted<Inner::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Sent>) -> Self::Future {
        match admitted(&self.access, &request) {
            Ok(None) => {}
            Ok(Some(principal)) => {
                request.extensions_mut().insert(principal);
            }
            Err(refused) => {
                let refused = Some(refused.into_http());
                return Admitted::Refused { refused };
            }
        }
        Admitted::In {
            inner: self.inner.call(request),
        }
    }
}

/// Who is let in; `None`: nobody need be known.
fn admitted<Sent>(access: &Access, request: &Request<Sent>) -> Result<Option<Principal>, Status> {
    let peer = request.extensions().get::<Peer>();
    if let Some(crowded) = peer.and_then(Peer::crowded) {
        return Err(status::crowded(crowded));
    }
    if access.is_open() && !peer.is_some_and(Peer::has_certificate) {
        return Ok(None);
    }
    let path = request.uri().path();
    let Some(method) = Method::of_path(path) else {
        return Err(Status::unimplemented(""));
    };
    let needs = method.needs();
    if needs == Needs::Nothing {
        return Ok(None);
    }
    let principal = access
        .authenticate(peer, request.headers())
        .map_err(status::unauthenticated)?;
    access
        .admit(&principal, needs)
        .map_err(|forbidden| status::forbidden(&forbidden))?;
    Ok(Some(principal))
}

pin_project! {
    /// The answer of the service, or the refusal.
    #[project = AdmittedView]
    pub enum Admitted<Inner> {
        In { #[pin] inner: Inner },
        Refused { refused: Option<Response<Body>> },
    }
}

impl<Inner, Error> Future for Admitted<Inner>
where
    Inner: Future<Output = Result<Response<Body>, Error>>,
{
    type Output = Result<Response<Body>, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            AdmittedView::In { inner } => Poll::Ready(ready!(inner.poll(context))),
            AdmittedView::Refused { refused } => match refused.take() {
                Some(refused) => Poll::Ready(Ok(refused)),
                None => Poll::Pending,
            },
        }
    }
}

/// One caller, and what decides what it may do.
#[derive(Clone, Debug)]
pub struct Guard<'a> {
    /// Borrowed for a request, so that no core writes what all of them read.
    access: Cow<'a, Arc<Access>>,
    principal: Principal,
}

impl<'a> Guard<'a> {
    /// Of the caller that the listener has found out.
    ///
    /// # Errors
    /// It has found out nobody.
    pub fn of(access: &'a Arc<Access>, extensions: &http::Extensions) -> Result<Self, Status> {
        let principal = access.seen(extensions).map_err(status::unauthenticated)?;
        let access = Cow::Borrowed(access);
        Ok(Self { access, principal })
    }

    /// For what outlives the request.
    pub fn into_owned(self) -> Guard<'static> {
        Guard {
            access: Cow::Owned(self.access.into_owned()),
            principal: self.principal,
        }
    }

    /// Whether the caller may do this in a namespace as a request names it.
    ///
    /// # Errors
    /// It may not, or that is no namespace.
    pub fn admit(&self, needs: impl Into<Needs>, namespace: &str) -> Result<(), Status> {
        if self.access.is_open() {
            return Ok(());
        }
        let namespace = read::namespace(namespace).map_err(|refusal| status::of(&refusal))?;
        self.access
            .authorize(&self.principal, needs, namespace)
            .map_err(|forbidden| status::forbidden(&forbidden))
    }

    /// Whether the caller may see what is of no namespace.
    pub fn sees_all(&self) -> bool {
        self.principal.holds(Needs::Everywhere(Role::Viewer))
    }

    /// What an action is signed with.
    ///
    /// # Errors
    /// The owner that the request names is too long.
    pub fn signature(&self, owner: &str) -> Result<String, Status> {
        const OWNER_MAX: usize = 200;
        let fits = read::limited("owner", owner, OWNER_MAX);
        fits.map_err(|refusal| status::of(&refusal))?;
        Ok(self.principal.signature(owner.trim()))
    }

    /// A place for a session.
    ///
    /// # Errors
    /// The caller has as many as it may have.
    pub fn session(&self) -> Result<Option<Place<String>>, Status> {
        self.access
            .session(&self.principal)
            .map_err(status::crowded)
    }

    /// A place for a stream to look at.
    ///
    /// # Errors
    /// The caller has as many as it may have.
    pub fn watch(&self, extensions: &http::Extensions) -> Result<Option<Place<Watcher>>, Status> {
        self.access
            .watch(&self.principal, extensions.get::<Peer>())
            .map_err(status::crowded)
    }

    /// Ends when the caller may not go on with what it holds open.
    pub fn lapse(&self) -> impl Future<Output = Status> + Send + use<> {
        let access = self.access.clone().into_owned();
        let principal = self.principal.clone();
        async move { status::lapsed(access.lapsed(&principal).await) }
    }
}
