//! The dashboard: pages for operators over the same coordinator that gRPC uses.
//!
//! The page itself is static and stands in `assets/`; it gets all it shows over one stream and
//! changes things by two requests, one that says what would happen and one that does it. It
//! knows nothing of gRPC. It writes no page on the server, not of a problem either, since names and reasons are other
//! people's texts and a page that never puts text into markup cannot be made to run it.

mod act;
mod asked;
mod assets;
mod chart;
mod detail;
mod feed;
mod guard;
mod login;
mod problem;
mod producer;
mod row;
mod stream;
mod words;

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    extract::DefaultBodyLimit,
    http::StatusCode,
    middleware,
    response::Redirect,
    routing::{get, post},
};
use tokio::sync::{Semaphore, watch};

use self::{act::Refused, feed::Feed, guard::Guard, login::Sessions};
use crate::{
    access::{Access, Needs, Page, Principal, Role},
    coordinator::Coordinator,
    store::Store,
};

/// An order is short.
const ORDER_BYTES_MAX: usize = 16 * 1024;

/// What the dashboard needs to know of where it is served.
#[derive(Clone, Debug)]
pub struct Place {
    /// Where HTTP listens.
    pub address: IpAddr,
    /// Names that browsers may know it by, besides those of loopback and the address.
    pub hosts: Vec<String>,
    /// Pages that may be open at once.
    pub pages_max: usize,
    /// A secret of this run, which tokens of pages are made with.
    pub secret: [u8; 32],
    pub scheme: Scheme,
}

/// Whether what is said between a browser and the service can be heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

/// See the module. Cloning gives another handle.
#[derive(Debug)]
pub struct Dashboard<S> {
    inner: Arc<Inner<S>>,
}

#[derive(Debug)]
struct Inner<S> {
    coordinator: Arc<Coordinator<S>>,
    access: Arc<Access>,
    guard: Guard,
    sessions: Sessions,
    assets: assets::Assets,
    /// One a namespace, while a page shows it.
    feeds: Mutex<HashMap<String, Arc<Feed>>>,
    places: Arc<Semaphore>,
    stopped: watch::Receiver<bool>,
}

impl<S> Clone for Dashboard<S> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<S: Store> Dashboard<S> {
    pub fn new(
        coordinator: Arc<Coordinator<S>>,
        access: Arc<Access>,
        place: Place,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        let inner = Inner {
            places: Arc::new(Semaphore::new(place.pages_max.max(1))),
            guard: Guard::new(place),
            sessions: Sessions::default(),
            assets: assets::Assets::default(),
            feeds: Mutex::default(),
            coordinator,
            access,
            stopped,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// What it answers, behind its guard. The page and what it is made of hold nothing that is
    /// anybody's: who may see or do what is looked at where something is asked for.
    pub fn pages(&self) -> Vec<Page> {
        let home = || get(|| async { Redirect::temporary("/dashboard/") });
        let (viewer, operator) = (Needs::Role(Role::Viewer), Needs::Role(Role::Operator));
        let pages = [
            ("/", Needs::Nothing, home()),
            ("/dashboard", Needs::Nothing, home()),
            ("/dashboard/", Needs::Nothing, get(assets::page::<S>)),
            (
                "/dashboard/assets/{name}",
                Needs::Nothing,
                get(assets::asset::<S>),
            ),
            ("/dashboard/me", Needs::Nothing, get(login::me::<S>)),
            ("/dashboard/login", Needs::Nothing, post(login::login::<S>)),
            (
                "/dashboard/logout",
                Needs::Nothing,
                post(login::logout::<S>),
            ),
            ("/dashboard/stream", viewer, get(stream::stream::<S>)),
            (
                "/dashboard/namespaces",
                Needs::Somewhere(Role::Viewer),
                get(detail::namespaces::<S>),
            ),
            ("/dashboard/policy", viewer, get(detail::policy::<S>)),
            ("/dashboard/history", viewer, get(detail::history::<S>)),
            ("/dashboard/chart/{name}", viewer, get(chart::chart::<S>)),
            ("/dashboard/plan", operator, post(act::plan::<S>)),
            ("/dashboard/act", operator, post(act::act::<S>)),
        ];
        let guard = middleware::from_fn_with_state(self.clone(), guard::guard::<S>);
        let guarded = pages.into_iter().map(|(path, needs, handler)| {
            let handler = handler
                .layer(DefaultBodyLimit::max(ORDER_BYTES_MAX))
                .layer(guard.clone())
                .with_state(self.clone());
            Page::new(path, needs, handler)
        });
        guarded.collect()
    }

    /// What stands around all routes of the HTTP side: whoever has signed in is known, a browser is
    /// shown a problem as a page, and every answer carries the headers, refusals too.
    pub fn around(&self, routes: Router) -> Router {
        let known = middleware::from_fn_with_state(self.clone(), login::recognise::<S>);
        let named = middleware::from_fn_with_state(self.clone(), guard::named::<S>);
        routes
            .fallback(problem::no_such_page)
            .layer(known)
            .layer(named)
            .layer(middleware::from_fn(problem::in_style))
            .layer(middleware::map_response(guard::with_headers))
    }

    /// Whether a principal may do this in a namespace.
    ///
    /// # Errors
    /// It may not.
    fn authorize(&self, principal: &Principal, role: Role, namespace: &str) -> Result<(), Refused> {
        let needs = Needs::Role(role);
        let held = self.inner.access.authorize(principal, needs, namespace);
        held.map_err(|forbidden| Refused::new(StatusCode::FORBIDDEN, forbidden.to_string()))
    }

    /// The feed of a namespace, begun where there is none.
    fn feed(&self, namespace: &str) -> Arc<Feed> {
        let mut feeds = self.inner.feeds();
        if let Some(feed) = feeds.get(namespace) {
            return Arc::clone(feed);
        }
        let feed = Arc::new(Feed::new(namespace, self.inner.guard.nonce()));
        feeds.insert(namespace.to_owned(), Arc::clone(&feed));
        tokio::spawn(producer::produce(self.clone(), Arc::clone(&feed)));
        feed
    }

    /// Ends a feed that nobody reads; false: somebody has begun to.
    fn end_feed(&self, feed: &Arc<Feed>) -> bool {
        let mut feeds = self.inner.feeds();
        // A page takes its handle under this lock, so none can come between.
        let unread = !feed.is_read();
        if unread {
            feeds.remove(feed.namespace());
        }
        unread
    }
}

impl<S> Inner<S> {
    fn feeds(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Feed>>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
