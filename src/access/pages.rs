//! The pages of the HTTP side. Each is a [`Page`] with what it needs; the router is made from a
//! list of them, so a page without a row cannot be served.
//!
//! Who may is looked at before a page's handler runs. A page that needs a role in a namespace is
//! reached by whoever holds that role anywhere: its handler knows the namespace and asks
//! [`Access::authorize`]. The [`Principal`] is in the request's extensions, for every page that
//! needs anything; pages that need nothing have it where a credential came along.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::MethodRouter,
};

use super::{Access, Needs};

/// A page, its handler with its state already in it.
#[derive(Clone, Debug)]
pub struct Page {
    pub path: &'static str,
    pub needs: Needs,
    pub handler: MethodRouter,
}

impl Page {
    pub fn new(path: &'static str, needs: Needs, handler: MethodRouter) -> Self {
        Self {
            path,
            needs,
            handler,
        }
    }
}

/// All pages, each behind what it needs.
pub fn router(pages: Vec<Page>, access: &Arc<Access>) -> Router {
    pages.into_iter().fold(Router::new(), |router, page| {
        let guard = Guard {
            access: Arc::clone(access),
            needs: page.needs,
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
}

async fn admit(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let seen = guard.access.seen(request.extensions());
    match (seen, guard.needs) {
        (Ok(principal), needs) => {
            if let Err(forbidden) = principal.admit(needs) {
                return (StatusCode::FORBIDDEN, format!("{forbidden}\n")).into_response();
            }
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        (Err(_), Needs::Nothing) => next.run(request).await,
        (Err(refused), _) => (StatusCode::UNAUTHORIZED, format!("{refused}\n")).into_response(),
    }
}
