//! Who may ask, seen from the browser's side: the headers of every answer, the names that the
//! service answers to, and what a request that changes something must show.
//!
//! A page of somebody else may make a browser send requests, but not read the answers. So what
//! only reads needs a name of ours in `Host` (a foreign name that was pointed at us reads
//! nothing), and what changes something needs in addition: `Sec-Fetch-Site` and `Origin` of our
//! own page, a content type that a foreign page cannot send unasked, and a token that only our
//! page has been given.

use std::net::IpAddr;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use sha2::{Digest, Sha256};

use super::{Dashboard, Place, Scheme, act::Refused};
use crate::{entropy::Entropy, store::Store};

/// Carries the token of a page.
pub const TOKEN: &str = "x-holdoff-token";
const TOKEN_FOR_MS: u64 = 24 * 3_600_000;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=()",
    ),
];

/// See the module.
#[derive(Debug)]
pub struct Guard {
    place: Place,
}

/// Lets a request through or answers it; see the module.
pub async fn guard<S: Store>(
    State(dashboard): State<Dashboard<S>>,
    request: Request,
    next: Next,
) -> Response {
    let guard = &dashboard.inner.guard;
    let now = super::row::millis(dashboard.inner.coordinator.now());
    match guard.admits(request.method(), request.headers(), request.uri(), now) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

/// Metrics name dependencies, too. Whoever reaches a loopback address is on this machine, or a
/// page of somebody else under a name that was pointed at it; other addresses are reached by
/// names that are not known here, and have access settings.
pub async fn named<S: Store>(
    State(dashboard): State<Dashboard<S>>,
    request: Request,
    next: Next,
) -> Response {
    let guard = &dashboard.inner.guard;
    if request.uri().path() == "/metrics"
        && guard.place.address.is_loopback()
        && let Err(refused) = guard.own_name(request.headers(), request.uri())
    {
        return refused.into_response();
    }
    next.run(request).await
}

/// Puts the headers on an answer.
pub async fn with_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

impl Guard {
    pub fn new(place: Place) -> Self {
        Self { place }
    }

    pub fn scheme(&self) -> Scheme {
        self.place.scheme
    }

    /// A number that no other run and no other feed has.
    pub fn nonce(&self) -> u64 {
        Entropy::System.bits()
    }

    /// # Errors
    /// Why not.
    fn admits(
        &self,
        method: &Method,
        headers: &HeaderMap,
        uri: &axum::http::Uri,
        now_ms: u64,
    ) -> Result<(), Refused> {
        let host = self.own_name(headers, uri)?;
        let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        let own_site = matches!(site, None | Some(b"same-origin" | b"none"));
        let page = matches!(uri.path(), "/" | "/dashboard" | "/dashboard/");
        let navigates = headers
            .get("sec-fetch-mode")
            .is_some_and(|mode| mode == "navigate");
        // A link in a chat may lead to the page; nothing else is asked for from outside.
        let navigated = page && navigates && method == Method::GET;
        if !own_site && !navigated {
            return Err(forbidden("Sec-Fetch-Site: not a request of this page"));
        }
        match *method {
            Method::GET | Method::HEAD => Ok(()),
            Method::POST => self.admits_change(headers, host, now_ms),
            _ => Err(Refused::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET and POST are answered here".to_owned(),
            )),
        }
    }

    /// The name that a request is for.
    ///
    /// # Errors
    /// It is for another, or for two at once.
    fn own_name<'a>(
        &self,
        headers: &'a HeaderMap,
        uri: &'a axum::http::Uri,
    ) -> Result<&'a str, Refused> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (host, another) = (hosts.next(), hosts.next());
        if another.is_some() {
            let problem = "Host: stands twice; one is allowed".to_owned();
            return Err(Refused::new(StatusCode::BAD_REQUEST, problem));
        }
        // Where the request line has one too, both must be ours.
        let host = host.map(|host| host.to_str().unwrap_or_default());
        let named = [host, uri.authority().map(|authority| authority.as_str())];
        let foreign = named.iter().flatten().find(|name| !self.is_ours(name));
        match (foreign, named) {
            (None, [Some(host), _] | [None, Some(host)]) => Ok(host),
            (foreign, _) => {
                let name = foreign.copied().unwrap_or_default();
                Err(Refused::new(
                    StatusCode::MISDIRECTED_REQUEST,
                    format!(
                        "Host: {name:?} is not a name of this service; add it with --http-host NAME"
                    ),
                ))
            }
        }
    }

    fn admits_change(&self, headers: &HeaderMap, host: &str, now_ms: u64) -> Result<(), Refused> {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        if text(header::CONTENT_TYPE) != Some("application/json") {
            return Err(Refused::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "Content-Type: must be application/json".to_owned(),
            ));
        }
        // Browsers send it with every POST; what is no browser may leave it out.
        if let Some(origin) = headers.get(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            // Without TLS of its own there may be a proxy that has it.
            let schemes = match self.place.scheme {
                Scheme::Http => &["http://", "https://"][..],
                Scheme::Https => &["https://"],
            };
            let ours = (schemes.iter()).any(|scheme| origin.strip_prefix(scheme) == Some(host));
            if !ours {
                return Err(forbidden("Origin: not this page"));
            }
        }
        let token = text(HeaderName::from_static(TOKEN)).unwrap_or_default();
        match self.is_token(token, now_ms) {
            true => Ok(()),
            false => Err(forbidden(
                "X-Holdoff-Token: missing, too old or not ours; load the page anew",
            )),
        }
    }

    /// An address cannot be pointed elsewhere by a name server; a name can.
    fn is_ours(&self, host: &str) -> bool {
        let name = without_port(host);
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse::<IpAddr>() {
            let everywhere = self.place.address.is_unspecified();
            return address.is_loopback() || everywhere || address == self.place.address;
        }
        let name = name.trim_end_matches('.');
        name.eq_ignore_ascii_case("localhost")
            || (self.place.hosts.iter()).any(|host| host.eq_ignore_ascii_case(name))
    }

    /// A token for a page that is loaded now: when, and a tag that only this run can make.
    pub fn token(&self, now_ms: u64) -> String {
        format!("{now_ms:x}.{}", self.tag(now_ms))
    }

    fn is_token(&self, token: &str, now_ms: u64) -> bool {
        let Some((made, tag)) = token.split_once('.') else {
            return false;
        };
        let Ok(made) = u64::from_str_radix(made, 16) else {
            return false;
        };
        let fresh = made <= now_ms && now_ms - made <= TOKEN_FOR_MS;
        fresh && same(tag.as_bytes(), self.tag(made).as_bytes())
    }

    fn tag(&self, made: u64) -> String {
        let mut hash = Sha256::new();
        // The secret and the number have a fixed length, so nothing can be appended.
        hash.update(self.place.secret);
        hash.update(made.to_le_bytes());
        let hash = hash.finalize();
        hash.iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// Takes the same time wherever they differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.is_empty() => {
            // Of an address of version 6 only what stands in brackets has a port.
            match name.contains(':') && !name.ends_with(']') {
                true => host,
                false => name,
            }
        }
        Some(_) | None => host,
    }
}

fn forbidden(why: &str) -> Refused {
    Refused::new(StatusCode::FORBIDDEN, why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(address: &str) -> Guard {
        Guard::new(Place {
            address: address.parse().unwrap(),
            hosts: vec!["holdoff.example.org".into()],
            pages_max: 1,
            secret: [7; 32],
            scheme: Scheme::Http,
        })
    }

    #[test]
    fn only_its_own_names_are_answered() {
        let local = guard("127.0.0.1");
        let ours = [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:7461",
            "[::1]:7461",
            "[::1]",
            "holdoff.example.org",
            "Holdoff.Example.Org.:443",
        ];
        for host in ours {
            assert!(local.is_ours(host), "{host}");
        }
        let foreign = [
            "",
            "evil.example",
            "localhost.evil.example",
            "10.0.0.1",
            "127.0.0.1.nip.io",
            "localhost@evil.example",
            "xlocalhost",
            "[::2]:1",
        ];
        for host in foreign {
            assert!(!local.is_ours(host), "{host}");
        }
        let exposed = guard("0.0.0.0");
        assert!(exposed.is_ours("10.0.0.1:7461") && exposed.is_ours("[fd00::1]:7461"));
        assert!(!exposed.is_ours("evil.example"));
    }

    #[test]
    fn a_token_holds_for_a_day_and_for_this_run() {
        let guard = guard("127.0.0.1");
        let token = guard.token(1_000);
        assert!(guard.is_token(&token, 1_000));
        assert!(guard.is_token(&token, 1_000 + TOKEN_FOR_MS));
        assert!(!guard.is_token(&token, 1_001 + TOKEN_FOR_MS));
        assert!(!guard.is_token(&token, 999), "made in the future");
        for bad in ["", ".", "3e8", "3e8.", "3e9.00", &token[..token.len() - 1]] {
            assert!(!guard.is_token(bad, 1_000), "{bad}");
        }
        let other = Guard::new(Place {
            secret: [8; 32],
            ..guard.place.clone()
        });
        assert!(!other.is_token(&token, 1_000));
    }
}
