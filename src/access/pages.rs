//! The pages of the HTTP side. Each is a [`Page`] with what it needs; the router is made from a
//! list of them, so a page without a row cannot be served.
//!
//! Who may is looked at before a page's handler runs. A page that needs a role in a namespace is
//! reached by whoever holds that role anywhere: its handler knows the namespace and asks
//! [`Access::authorize`]. The [`Principal`] is in the request's extensions, for every page that
//! needs anything. Who knows a caller by other means than a header (a cookie) puts a principal
//! there in a layer around this router.

use std::sync::Arc;

use axum::{
    Router,
    extract::{ConnectInfo, Request, State},
    http::{
        StatusCode,
        header::{AUTHORIZATION, CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE},
    },
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::MethodRouter,
};

use super::{Access, Forbidden, Needs, Peer, Principal, Unauthenticated};

/// A page, its handler with its state already in it.
#[derive(Clone, Debug)]
pub struct Page {
    pub path: &'static str,
    pub needs: Needs,
    pub handler: MethodRouter,
    /// How it tells that somebody may not see it.
    refuse: fn(&Refusal) -> Response,
}

/// Why somebody may not see a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    Unauthenticated(Unauthenticated),
    Forbidden(Forbidden),
}

impl Page {
    pub fn new(path: &'static str, needs: Needs, handler: MethodRouter) -> Self {
        Self {
            path,
            needs,
            handler,
            refuse: told,
        }
    }

    /// Tells it in another way than as a line of text.
    #[must_use]
    pub fn refusing_by(mut self, refuse: fn(&Refusal) -> Response) -> Self {
        self.refuse = refuse;
        self
    }
}

/// All pages, each behind what it needs.
pub fn router(pages: Vec<Page>, access: &Arc<Access>) -> Router {
    pages.into_iter().fold(Router::new(), |router, page| {
        let guard = Guard {
            access: Arc::clone(access),
            needs: page.needs,
            refuse: page.refuse,
        };
        let guarded = page
            .handler
            .layer(middleware::from_fn_with_state(guard, admit));
        router.route(page.path, guarded)
    })
}

#[derive(Clone)]
struct Guard {
    access: Arc<Access>,
    needs: Needs,
    refuse: fn(&Refusal) -> Response,
}

async fn admit(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let access = &guard.access;
    let peer = request.extensions().get::<ConnectInfo<Peer>>();
    if let Some(crowded) = peer.and_then(|peer| peer.0.crowded()) {
        let how = [(CONNECTION, "close"), (RETRY_AFTER, "1")];
        let told = format!("{crowded}\n");
        return (StatusCode::TOO_MANY_REQUESTS, how, told).into_response();
    }
    if guard.needs == Needs::Nothing {
        return next.run(request).await;
    }
    // A header that came along decides, also where a cookie came along too.
    let has_header = request.headers().contains_key(AUTHORIZATION);
    let seen = match request.extensions().get::<Principal>() {
        Some(principal) if !has_header => Ok(principal.clone()),
        Some(_) | None => {
            let peer = request.extensions().get::<ConnectInfo<Peer>>();
            access.authenticate(peer.map(|peer| &peer.0), request.headers())
        }
    };
    let principal = match seen {
        Ok(principal) => principal,
        Err(refused) => return (guard.refuse)(&Refusal::Unauthenticated(refused)),
    };
    if let Err(forbidden) = access.admit(&principal, guard.needs) {
        return (guard.refuse)(&Refusal::Forbidden(forbidden));
    }
    request.extensions_mut().insert(principal);
    next.run(request).await
}

/// A line of text under 401 or 403.
fn told(refusal: &Refusal) -> Response {
    match refusal {
        Refusal::Unauthenticated(refused) => {
            let how = [(WWW_AUTHENTICATE, "Bearer")];
            (StatusCode::UNAUTHORIZED, how, format!("{refused}\n")).into_response()
        }
        Refusal::Forbidden(forbidden) => {
            (StatusCode::FORBIDDEN, format!("{forbidden}\n")).into_response()
        }
    }
}
