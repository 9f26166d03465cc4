//! Who asks, and what they may do.
//!
//! A [`Principal`] is a caller with a name and with roles in namespaces. [`matrix`] says which
//! role each RPC needs, [`pages`] which each page of the HTTP side needs. Without access settings
//! everybody who reaches the service may do everything: it then listens on loopback alone, unless
//! somebody insisted.
//!
//! What is not here: gRPC statuses and the transport. Nothing here decides about a dependency.

mod matrix;
mod pages;
mod principal;

pub use matrix::{Method, Needs};
pub use pages::{Page, router};
pub use principal::{Forbidden, Grants, Principal, Role};

/// The service's knowledge of who may do what.
#[derive(Debug)]
pub struct Access {
    rules: Rules,
}

#[derive(Debug)]
enum Rules {
    /// Everybody may do everything.
    Open,
}

impl Access {
    /// Without settings: everybody may do everything.
    pub fn open() -> Self {
        Self { rules: Rules::Open }
    }

    /// Who sent a request: what the listener has found out and left in its extensions.
    ///
    /// # Errors
    /// Nobody has been found out, and that is needed.
    pub fn seen(&self, extensions: &http::Extensions) -> Result<Principal, Unauthenticated> {
        match (&self.rules, extensions.get::<Principal>()) {
            (Rules::Open, None) => Ok(Principal::anonymous()),
            (Rules::Open, Some(principal)) => Ok(principal.clone()),
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
        principal.authorize(needs.into(), namespace)
    }
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
