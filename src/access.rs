//! Who asks, and what they may do.
//!
//! A [`Principal`] is a caller with a name and with roles in namespaces. [`Method`] says which
//! role each RPC needs, a [`Page`] which role it needs itself. Without access settings everybody
//! who reaches the service may do everything: it then listens on loopback alone, unless somebody
//! insisted.
//!
//! Credentials are looked up in the newest file on each request, so what was revoked is refused
//! at once; streams that are open end by [`Access::lapsed`]. What is not here: gRPC statuses, and
//! the handshake. Nothing here decides about a dependency.

mod failures;
mod file;
mod matrix;
mod pages;
mod peer;
mod places;
mod principal;
mod token;

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use holdoff_decision::{Nanos, Time};
use http::{HeaderMap, header::AUTHORIZATION};
use tokio::sync::watch;

use self::{failures::Failures, places::Places, principal::Credential};
use crate::{
    clock::Clock,
    policy::watch::{Watch, watch_with},
    telemetry::Counter,
};

pub use file::{Keyring, private};
pub use matrix::{Method, Needs};
pub use pages::{Page, Refusal, router};
pub use peer::{Certified, Nameless, Peer, identity};
pub use places::{Crowded, Entry, Limits, Place, Watcher};
pub use principal::{EVERYWHERE, Forbidden, Grants, Principal, Role};
pub use token::{Token, TokenHash, redacted};

/// So often it is looked whether the credential of an open stream still holds, besides when the
/// access file changes.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// That a limit is met is logged this often at most.
const WARN_EVERY: Nanos = Nanos::from_secs(60);

/// The service's knowledge of who may do what.
pub struct Access {
    /// `None`: everybody may do everything.
    keyring: Option<ArcSwap<Keyring>>,
    clock: Clock,
    failures: Failures,
    places: Places,
    /// Those of the HTTP side.
    pages: Places,
    /// When it was last said that one holds as much as it may.
    told: Mutex<Option<Time>>,
    /// Rises with each change of the keyring.
    changes: watch::Sender<u64>,
    count: Box<dyn Fn(Counter) + Send + Sync>,
}

/// A request without a credential that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unauthenticated {
    #[error("no credential: send a bearer token, or connect with a client certificate")]
    Missing,
    /// Also one that has expired or was revoked: which of them is not told.
    #[error("the credential is not known here, or no longer")]
    Refused,
    #[error("too many refused credentials from this address; wait a second")]
    TooMany,
}

/// Why a stream ends although nobody ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lapse {
    #[error("the credential has expired or was revoked")]
    Ended,
    #[error("what the credential may do has changed; connect again")]
    Changed,
}

impl Access {
    /// Without settings: everybody may do everything.
    pub fn open(clock: Clock) -> Self {
        Self {
            keyring: None,
            clock,
            failures: Failures::default(),
            places: Places::default(),
            pages: Places::default(),
            told: Mutex::default(),
            changes: watch::Sender::new(0),
            count: Box::new(|_| {}),
        }
    }

    /// With the credentials of a file.
    pub fn held_by(keyring: Keyring, clock: Clock) -> Self {
        Self {
            keyring: Some(ArcSwap::from_pointee(keyring)),
            ..Self::open(clock)
        }
    }

    /// Tells what happens to whoever counts it.
    #[must_use]
    pub fn counted_by(mut self, count: impl Fn(Counter) + Send + Sync + 'static) -> Self {
        self.count = Box::new(count);
        self
    }

    /// With other limits of what one may hold.
    #[must_use]
    pub fn limited_to(mut self, limits: Limits) -> Self {
        self.places = Places::new(limits);
        self.pages = Places::new(limits);
        self
    }

    /// A connection of a peer; `None`: its end has no address.
    pub fn enter(&self, peer: &Peer) -> Option<Entry> {
        self.entered(peer, self.places.enter(peer))
    }

    /// The same on the HTTP side, where connections have a count of their own.
    pub fn enter_pages(&self, peer: &Peer) -> Option<Entry> {
        self.entered(peer, self.pages.enter(peer))
    }

    fn entered(&self, peer: &Peer, entry: Option<Entry>) -> Option<Entry> {
        let entry = entry?;
        match &entry {
            Entry::Let(_) => {}
            Entry::Told(_, crowded) => {
                (self.count)(Counter::AddressCrowded);
                let address = peer.address().map(|address| address.ip().to_string());
                self.warn(*crowded, &address.unwrap_or_default());
            }
            Entry::Cut => (self.count)(Counter::AddressCrowded),
        }
        Some(entry)
    }

    /// Says who holds as much as it may, and what to do; once a minute at most.
    fn warn(&self, crowded: Crowded, who: &str) {
        let now = self.clock.now();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|at| now.since(at) >= WARN_EVERY) {
            *told = Some(now);
            tracing::warn!("{who}: {crowded}");
        }
    }

    /// A session of a principal; `None`: it is nobody in particular.
    ///
    /// # Errors
    /// It has as many as it may have.
    pub fn session(&self, principal: &Principal) -> Result<Option<Place<String>>, Crowded> {
        let place = self.places.session(principal);
        if let Err(crowded) = &place {
            (self.count)(Counter::PrincipalCrowded);
            self.warn(*crowded, principal.name().unwrap_or_default());
        }
        place
    }

    /// A stream or page of a principal who looks on; `None`: it is nobody, from nowhere.
    ///
    /// # Errors
    /// It has as many as it may have.
    pub fn watch(
        &self,
        principal: &Principal,
        peer: Option<&Peer>,
    ) -> Result<Option<Place<Watcher>>, Crowded> {
        let place = self.places.watch(principal, peer);
        if let Err(crowded) = &place {
            (self.count)(Counter::WatchesCrowded);
            let address = || peer?.address().map(|address| address.ip().to_string());
            let who = principal.name().map(str::to_owned).or_else(address);
            self.warn(*crowded, &who.unwrap_or_default());
        }
        place
    }

    /// Whether everybody may do everything.
    pub fn is_open(&self) -> bool {
        self.keyring.is_none()
    }

    /// Takes new credentials into force.
    pub fn exchange(&self, keyring: Keyring) {
        if let Some(held) = &self.keyring {
            held.store(keyring.into());
            self.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// Who a peer is, by the token that it sent, else by its certificate.
    ///
    /// # Errors
    /// By neither. With no credential at all that is no failed attempt.
    pub fn authenticate(
        &self,
        peer: Option<&Peer>,
        headers: &HeaderMap,
    ) -> Result<Principal, Unauthenticated> {
        let found = self.find(peer, headers);
        if let Err(refused) = found {
            (self.count)(match refused {
                Unauthenticated::Missing => Counter::CredentialMissing,
                Unauthenticated::Refused => Counter::CredentialRefused,
                Unauthenticated::TooMany => Counter::CredentialsTooMany,
            });
        }
        found
    }

    fn find(&self, peer: Option<&Peer>, headers: &HeaderMap) -> Result<Principal, Unauthenticated> {
        let certified = peer.and_then(Peer::certified);
        let Some(keyring) = &self.keyring else {
            return match certified {
                None => Ok(Principal::anonymous()),
                Some(_) => certified
                    .and_then(|certified| self.certified(None, certified))
                    .ok_or(Unauthenticated::Refused),
            };
        };
        let mut sent = headers.get_all(AUTHORIZATION).iter();
        let (token, certified) = match (sent.next(), sent.next(), certified) {
            (None, _, None) => return Err(Unauthenticated::Missing),
            (None, _, Some(certified)) => (None, Some(certified)),
            (Some(token), None, _) => (Some(token), None),
            (Some(_), Some(_), _) => (None, None),
        };
        let address = peer.and_then(Peer::address).map(|address| address.ip());
        let proven = peer.is_some_and(Peer::is_proven);
        if !proven && self.failures.too_many(address, self.clock.now()) {
            return Err(Unauthenticated::TooMany);
        }
        let keyring = keyring.load();
        let found = match (token, certified) {
            (Some(token), _) => bearer(token).and_then(|hash| self.by_token(&keyring, hash)),
            (None, Some(certified)) => self.certified(Some(&keyring), certified),
            (None, None) => None,
        };
        match (&found, peer) {
            (Some(_), Some(peer)) => peer.prove(),
            (Some(_), None) => {}
            (None, _) => self.failures.add(address, self.clock.now()),
        }
        found.ok_or(Unauthenticated::Refused)
    }

    /// Who holds a token, for those that keep one between requests; failed attempts count.
    ///
    /// # Errors
    /// Nobody, or too many were tried.
    pub fn sign_in(&self, peer: Option<&Peer>, token: &str) -> Result<Principal, Unauthenticated> {
        let mut headers = HeaderMap::new();
        if let Ok(value) = format!("Bearer {token}").parse() {
            headers.insert(AUTHORIZATION, value);
        }
        self.authenticate(peer, &headers)
    }

    fn by_token(&self, keyring: &Keyring, hash: TokenHash) -> Option<Principal> {
        let held = keyring.tokens.get(&hash)?;
        let expired = |expires| self.clock.wall() >= expires;
        if held.expires.is_some_and(expired) {
            return None;
        }
        Some(held.principal.clone())
    }

    fn certified(&self, keyring: Option<&Keyring>, certified: &Certified) -> Option<Principal> {
        if self.clock.wall() >= certified.until {
            return None;
        }
        let credential = Credential::Certificate(certified.until);
        let grants = match keyring {
            Some(keyring) => Arc::clone(keyring.certificates.get(&*certified.name)?),
            None => Arc::new(Grants::all()),
        };
        Some(Principal::new(&certified.name, &grants, credential))
    }

    /// The same principal with what it may do now; `None` where its credential is gone.
    pub fn renew(&self, principal: &Principal) -> Option<Principal> {
        let keyring = self.keyring.as_ref().map(ArcSwap::load);
        match (principal.credential(), &keyring) {
            (None, None) => Some(principal.clone()),
            (None, Some(_)) | (Some(Credential::Token { .. }), None) => None,
            (Some(Credential::Token { hash, .. }), Some(keyring)) => self.by_token(keyring, *hash),
            (Some(Credential::Certificate(until)), keyring) => {
                let certified = Certified {
                    name: principal.name()?.into(),
                    until: *until,
                };
                self.certified(keyring.as_deref().map(|keyring| &**keyring), &certified)
            }
        }
    }

    /// Ends when the credential of a principal does, or when what it may do has changed: at once
    /// after a change of the file, within two seconds after it has expired.
    pub async fn lapsed(&self, principal: &Principal) -> Lapse {
        let mut changes = self.changes.subscribe();
        loop {
            match self.renew(principal) {
                Some(now) if now == *principal => {}
                Some(_) => return Lapse::Changed,
                None => return Lapse::Ended,
            }
            tokio::select! {
                // Without a sender nothing changes any more.
                changed = changes.changed() => if changed.is_err() {
                    std::future::pending::<()>().await;
                },
                () = tokio::time::sleep(LOOK_EVERY), if principal.expires() => {}
            }
        }
    }

    /// Who sent a request: what the listener has found out and left in its extensions.
    ///
    /// # Errors
    /// Nobody has been found out, and that is needed.
    pub fn seen(&self, extensions: &http::Extensions) -> Result<Principal, Unauthenticated> {
        match (extensions.get::<Principal>(), &self.keyring) {
            (Some(principal), _) => Ok(principal.clone()),
            (None, None) => Ok(Principal::anonymous()),
            (None, Some(_)) => Err(Unauthenticated::Missing),
        }
    }

    /// Whether a principal may do this in a namespace. The same answer whether there is such a
    /// namespace or not.
    ///
    /// # Errors
    /// It may not.
    pub fn authorize(
        &self,
        principal: &Principal,
        needs: impl Into<Needs>,
        namespace: &str,
    ) -> Result<(), Forbidden> {
        self.noted(principal.authorize(needs.into(), namespace))
    }

    /// Whether it may do this in any namespace at all: what can be said before a message is read.
    ///
    /// # Errors
    /// It may not.
    pub fn admit(&self, principal: &Principal, needs: Needs) -> Result<(), Forbidden> {
        self.noted(principal.admit(needs))
    }

    fn noted(&self, admitted: Result<(), Forbidden>) -> Result<(), Forbidden> {
        if admitted.is_err() {
            (self.count)(Counter::Forbidden);
        }
        admitted
    }

    /// Takes a reading of the access file: as a whole, or not at all.
    fn reload(&self, path: &Path, reading: &file::Reading) {
        let read = reading.as_deref().map_err(Clone::clone);
        match read.and_then(Keyring::parse) {
            Ok(keyring) => {
                tracing::info!(
                    tokens = keyring.tokens.len(),
                    certificates = keyring.certificates.len(),
                    "the access file was read again"
                );
                self.exchange(keyring);
                (self.count)(Counter::AccessReload);
            }
            Err(why) => {
                tracing::warn!(
                    "the access file {} is refused; what was in force stays: {why}",
                    path.display()
                );
                (self.count)(Counter::AccessReloadRefused);
            }
        }
    }
}

/// The access file, as it was read at the start.
#[derive(Debug)]
pub struct AccessFile {
    path: std::path::PathBuf,
    reading: file::Reading,
}

impl AccessFile {
    /// # Errors
    /// In plain words: what keeps it from being taken.
    pub fn read(path: &Path) -> Result<(Self, Keyring), String> {
        let text = file::read(path)?;
        let keyring = Keyring::parse(&text).map_err(|why| format!("{}: {why}", path.display()))?;
        let file = Self {
            path: path.to_owned(),
            reading: Ok(text),
        };
        Ok((file, keyring))
    }

    /// Takes each change of the file into force, until the watch is dropped.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn watch(self, access: Arc<Access>) -> std::io::Result<Watch> {
        let (paths, path) = (vec![self.path.clone()], self.path.clone());
        watch_with(
            "access-watch",
            paths,
            move || file::read(&path),
            self.reading,
            move |reading| access.reload(&self.path, &reading),
        )
    }
}

/// The hash of the token in a header, where there is a token of ours.
fn bearer(value: &http::HeaderValue) -> Option<TokenHash> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim())?;
    Token::parse(token).map(|token| token.hash())
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("open", &self.is_open())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
