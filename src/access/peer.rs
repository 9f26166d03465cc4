//! The other end of a connection: where it is, and what its certificate says.

use std::{
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer, X509Certificate},
};

use super::{Crowded, file::IDENTITY_MAX};

/// One connection's other end; all its requests share it.
#[derive(Clone, Debug)]
pub struct Peer(Arc<End>);

#[derive(Debug)]
struct End {
    address: Option<SocketAddr>,
    /// Known once the handshake is over, which is before any request.
    certificate: OnceLock<Certified>,
    /// A credential held here before: strangers with the same address do not shut it out.
    proven: AtomicBool,
    /// Its address has too many connections: nothing is answered but that.
    crowded: OnceLock<Crowded>,
}

/// Whom a client certificate names, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certified {
    /// `spiffe://…`, or `dns:HOST`.
    pub name: Arc<str>,
    pub until: SystemTime,
}

/// Why a certificate names nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nameless {
    #[error("a certificate that cannot be read")]
    Unreadable,
    #[error("a certificate with {0} URI names; one is allowed")]
    Uris(usize),
    #[error("a certificate without a spiffe:// URI and without a DNS name")]
    Names,
    #[error("a certificate with a name of {0} bytes; at most {IDENTITY_MAX}")]
    Long(usize),
}

impl Peer {
    pub fn new(address: Option<SocketAddr>) -> Self {
        Self(Arc::new(End {
            address,
            certificate: OnceLock::new(),
            proven: AtomicBool::new(false),
            crowded: OnceLock::new(),
        }))
    }

    pub fn address(&self) -> Option<SocketAddr> {
        self.0.address
    }

    /// Said once, at the end of the handshake.
    pub fn certify(&self, certified: Certified) {
        let _ = self.0.certificate.set(certified);
    }

    /// Said once, before anything is read.
    pub fn crowd(&self, crowded: Crowded) {
        let _ = self.0.crowded.set(crowded);
    }

    pub fn crowded(&self) -> Option<Crowded> {
        self.0.crowded.get().copied()
    }

    pub fn has_certificate(&self) -> bool {
        self.certified().is_some()
    }

    pub(super) fn certified(&self) -> Option<&Certified> {
        self.0.certificate.get()
    }

    pub(super) fn is_proven(&self) -> bool {
        self.0.proven.load(Ordering::Relaxed)
    }

    pub(super) fn prove(&self) {
        // Written once: a line that all cores read stays shared.
        if !self.is_proven() {
            self.0.proven.store(true, Ordering::Relaxed);
        }
    }
}

/// Whom a verified certificate names: its one URI (an X.509-SVID has exactly one), else its
/// first DNS name.
///
/// # Errors
/// It names nobody, or two at once.
pub fn identity(der: &[u8]) -> Result<Certified, Nameless> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|_| Nameless::Unreadable)?;
    let alternatives = certificate
        .subject_alternative_name()
        .map_err(|_| Nameless::Unreadable)?;
    let names = alternatives.map_or(&[][..], |names| &names.value.general_names);
    let uris: Vec<&str> = names.iter().filter_map(uri).collect();
    let name = match uris.as_slice() {
        [] => names.iter().find_map(dns).ok_or(Nameless::Names)?,
        [uri] if uri.starts_with("spiffe://") => (*uri).to_owned(),
        [_] => return Err(Nameless::Names),
        more => return Err(Nameless::Uris(more.len())),
    };
    if name.len() > IDENTITY_MAX {
        return Err(Nameless::Long(name.len()));
    }
    let until = certificate.validity().not_after.timestamp();
    let until = Duration::from_secs(u64::try_from(until).unwrap_or(0));
    Ok(Certified {
        name: name.into(),
        until: SystemTime::UNIX_EPOCH + until,
    })
}

fn uri<'a>(name: &GeneralName<'a>) -> Option<&'a str> {
    match name {
        GeneralName::URI(uri) => Some(uri),
        _ => None,
    }
}

/// DNS names have no case.
fn dns(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(host) => Some(format!("dns:{}", host.to_ascii_lowercase())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType, string::Ia5String};

    use super::*;

    fn named(names: &[SanType]) -> Result<Certified, Nameless> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names.to_vec();
        let key = KeyPair::generate().unwrap();
        identity(params.self_signed(&key).unwrap().der())
    }

    fn uri(text: &str) -> SanType {
        SanType::URI(Ia5String::try_from(text).unwrap())
    }

    fn dns(text: &str) -> SanType {
        SanType::DnsName(Ia5String::try_from(text).unwrap())
    }

    #[test]
    fn a_certificate_is_its_one_uri_else_its_dns_name() {
        let name = |names: &[SanType]| named(names).unwrap().name.to_string();
        let spiffe = "spiffe://example.org/checkout";
        assert_eq!(name(&[dns("a"), uri(spiffe)]), spiffe);
        assert_eq!(name(&[dns("Host.Internal"), dns("b")]), "dns:host.internal");
    }

    #[test]
    fn a_certificate_with_two_uris_or_none_we_know_names_nobody() {
        let two = [uri("spiffe://a/b"), uri("spiffe://a/c")];
        assert_eq!(named(&two), Err(Nameless::Uris(2)));
        let other = [uri("https://a/b"), dns("a")];
        assert_eq!(named(&other), Err(Nameless::Names));
        assert_eq!(named(&[]), Err(Nameless::Names));
        let long = format!("spiffe://a/{}", "x".repeat(500));
        assert_eq!(named(&[uri(&long)]), Err(Nameless::Long(511)));
        assert_eq!(identity(b"no certificate"), Err(Nameless::Unreadable));
    }
}
