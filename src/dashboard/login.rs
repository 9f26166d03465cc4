//! Signing in with a token, where there are access settings.
//!
//! A browser cannot put a token into the requests of its streams and images, so it is exchanged
//! for a cookie: a random id of a session that the service keeps, which scripts cannot read and
//! foreign pages cannot make the browser send. The token itself is kept nowhere. Whether it still
//! holds is looked up with each request, so what was revoked is out at once.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use axum::{
    Json,
    body::Bytes,
    extract::{ConnectInfo, FromRequestParts, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use holdoff_decision::{Nanos, Time};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Dashboard, Scheme, act::Refused};
use crate::{
    access::{Peer, Principal},
    entropy::Entropy,
    store::Store,
};

/// A working day; then the token is asked for again.
const LASTS: Nanos = Nanos::from_secs(12 * 3_600);
/// Sessions at once; the one that began first goes.
const SESSIONS_MAX: usize = 1_000;
/// Those of one principal: nobody can sign all others out.
const SESSIONS_EACH_MAX: usize = 50;

/// Who is signed in, by a hash of what the cookie says.
#[derive(Debug, Default)]
pub struct Sessions {
    open: Mutex<HashMap<[u8; 32], Session>>,
}

#[derive(Clone, Debug)]
struct Session {
    principal: Principal,
    begun: Time,
}

/// Who connects, as far as that is known.
#[derive(Clone, Debug)]
pub struct Connected(Option<Peer>);

impl Connected {
    pub fn peer(&self) -> Option<&Peer> {
        self.0.as_ref()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Connected {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let peer = parts.extensions.get::<ConnectInfo<Peer>>();
        Ok(Self(peer.map(|peer| peer.0.clone())))
    }
}

/// What a page sends.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    token: String,
}

/// Lets whoever has signed in be known to the pages of the dashboard, and to nothing else.
pub async fn recognise<S: Store>(
    State(dashboard): State<Dashboard<S>>,
    mut request: Request,
    next: Next,
) -> Response {
    let ours = request.uri().path().starts_with("/dashboard/");
    let inner = &dashboard.inner;
    if let Some(id) = cookie(request.headers(), inner.guard.scheme()).filter(|_| ours) {
        let session = inner.sessions.find(id, inner.coordinator.now());
        let principal = session.and_then(|principal| inner.access.renew(&principal));
        if let Some(principal) = principal {
            request.extensions_mut().insert(principal);
        }
    }
    next.run(request).await
}

/// Who is asking, and whether that must be known.
pub async fn me<S: Store>(
    State(dashboard): State<Dashboard<S>>,
    Connected(peer): Connected,
    request: Request,
) -> Json<Value> {
    let access = &dashboard.inner.access;
    let signed_in = request.extensions().get::<Principal>().cloned();
    let known = match signed_in {
        Some(principal) => Some(principal),
        None => access.authenticate(peer.as_ref(), request.headers()).ok(),
    };
    Json(json!({
        "known": known.is_some(),
        "name": known.as_ref().and_then(Principal::name),
        "session": cookie(request.headers(), dashboard.inner.guard.scheme()).is_some(),
    }))
}

/// Exchanges a token for a session.
///
/// # Errors
/// The token is not known, or too many were tried.
pub async fn login<S: Store>(
    State(dashboard): State<Dashboard<S>>,
    Connected(peer): Connected,
    body: Bytes,
) -> Result<Response, Refused> {
    let inner = &dashboard.inner;
    // What was sent is not repeated: it may be a token.
    let login: Login = serde_json::from_slice(&body).map_err(|_| {
        let problem = "{\"token\": …} is what signs in";
        Refused::new(StatusCode::BAD_REQUEST, problem.to_owned())
    })?;
    let principal = inner
        .access
        .sign_in(peer.as_ref(), login.token.trim())
        .map_err(|refused| Refused::new(StatusCode::UNAUTHORIZED, refused.to_string()))?;
    let name = principal.name().map(str::to_owned);
    let id = inner.sessions.begin(principal, inner.coordinator.now());
    let lasts = LASTS.0 / 1_000_000_000;
    let cookie = set(&id, lasts, inner.guard.scheme())?;
    let about = [(header::SET_COOKIE, cookie)];
    Ok((about, Json(json!({"name": name}))).into_response())
}

/// Ends a session.
///
/// # Errors
/// None that is expected.
pub async fn logout<S: Store>(
    State(dashboard): State<Dashboard<S>>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    if let Some(id) = cookie(&headers, dashboard.inner.guard.scheme()) {
        dashboard.inner.sessions.end(id);
    }
    let cookie = set("", 0, dashboard.inner.guard.scheme())?;
    Ok(([(header::SET_COOKIE, cookie)], Json(json!({}))).into_response())
}

fn set(id: &str, lasts: u64, scheme: Scheme) -> Result<HeaderValue, Refused> {
    let secure = match scheme {
        Scheme::Https => "; Secure",
        Scheme::Http => "",
    };
    let (name, path) = named(scheme);
    let cookie =
        format!("{name}={id}; Path={path}; Max-Age={lasts}; HttpOnly; SameSite=Strict{secure}");
    cookie.parse().map_err(|_| {
        let problem = "no cookie could be made".to_owned();
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, problem)
    })
}

/// The cookie's name and path. A browser takes one of the second name only from this very host
/// over TLS, so that no neighbour can put a session of its own there.
fn named(scheme: Scheme) -> (&'static str, &'static str) {
    match scheme {
        Scheme::Http => ("holdoff-session", "/dashboard"),
        Scheme::Https => ("__Host-holdoff-session", "/"),
    }
}

fn cookie(headers: &HeaderMap, scheme: Scheme) -> Option<&str> {
    let (name, _) = named(scheme);
    let cookies = headers.get_all(header::COOKIE).iter();
    let mut pairs = cookies
        .filter_map(|cookies| cookies.to_str().ok())
        .flat_map(|cookies| cookies.split("; "));
    pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

impl Sessions {
    fn begin(&self, principal: Principal, now: Time) -> String {
        let [front, back] = [Entropy::System.key(), Entropy::System.key()];
        let id: String = [front, back]
            .concat()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let mut open = self.locked();
        open.retain(|_, session| now.since(session.begun) < LASTS);
        let name = principal.name();
        let own = |session: &Session| session.principal.name() == name;
        let many = open.values().filter(|session| own(session)).count() >= SESSIONS_EACH_MAX;
        if many || open.len() >= SESSIONS_MAX {
            let of_whom = open.iter().filter(|(_, session)| !many || own(session));
            let first = of_whom.min_by_key(|(_, session)| session.begun);
            if let Some(hash) = first.map(|(hash, _)| *hash) {
                open.remove(&hash);
            }
        }
        let session = Session {
            principal,
            begun: now,
        };
        open.insert(hash(&id), session);
        id
    }

    fn find(&self, id: &str, now: Time) -> Option<Principal> {
        let session = self.locked().get(&hash(id)).cloned()?;
        (now.since(session.begun) < LASTS).then_some(session.principal)
    }

    fn end(&self, id: &str) {
        self.locked().remove(&hash(id));
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<[u8; 32], Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looking up a hash takes no longer the nearer a guess is.
fn hash(id: &str) -> [u8; 32] {
    Sha256::digest(id.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_after_a_day_s_work_or_when_it_is_ended() {
        let sessions = Sessions::default();
        let id = sessions.begin(Principal::anonymous(), Time(0));
        assert!(sessions.find(&id, Time(LASTS.0 - 1)).is_some());
        assert!(sessions.find(&id, Time(LASTS.0)).is_none());
        assert!(sessions.find("", Time(0)).is_none());
        sessions.end(&id);
        assert!(sessions.find(&id, Time(0)).is_none());
    }

    /// Somebody with that name.
    fn named_principal(name: &str) -> Principal {
        Principal::for_test(name)
    }

    #[test]
    fn so_many_sessions_are_open_at_most() {
        let sessions = Sessions::default();
        let first = sessions.begin(named_principal("token:first"), Time(0));
        for at in 1..=SESSIONS_MAX as u64 {
            sessions.begin(named_principal(&format!("token:{at}")), Time(at));
        }
        assert_eq!(sessions.locked().len(), SESSIONS_MAX);
        assert!(sessions.find(&first, Time(1)).is_none());
    }

    #[test]
    fn nobody_signs_others_out_by_signing_in_again_and_again() {
        let sessions = Sessions::default();
        let ada = sessions.begin(named_principal("token:ada"), Time(0));
        let vic = sessions.begin(named_principal("token:vic"), Time(1));
        for at in 2..=2 * SESSIONS_MAX as u64 {
            sessions.begin(named_principal("token:vic"), Time(at));
        }
        assert!(sessions.find(&ada, Time(1)).is_some());
        assert!(
            sessions.find(&vic, Time(1)).is_none(),
            "its own first one went"
        );
        assert_eq!(sessions.locked().len(), 1 + SESSIONS_EACH_MAX);
    }

    #[test]
    fn over_tls_the_cookie_has_the_name_that_only_this_host_can_set() {
        let plain = set("id", 5, Scheme::Http).unwrap();
        let told = "holdoff-session=id; Path=/dashboard; Max-Age=5; HttpOnly; SameSite=Strict";
        assert_eq!(plain, told);
        let secure = set("id", 5, Scheme::Https).unwrap();
        let told =
            "__Host-holdoff-session=id; Path=/; Max-Age=5; HttpOnly; SameSite=Strict; Secure";
        assert_eq!(secure, told);
        let mut headers = HeaderMap::new();
        let sent = "holdoff-session=neighbour; __Host-holdoff-session=ours";
        headers.insert(header::COOKIE, sent.parse().unwrap());
        assert_eq!(cookie(&headers, Scheme::Https), Some("ours"));
        assert_eq!(cookie(&headers, Scheme::Http), Some("neighbour"));
    }
}
