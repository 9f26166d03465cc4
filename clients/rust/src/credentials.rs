//! How a client knows the service, and how the service knows the client: TLS, a certificate
//! of its own, a bearer token.
//!
//! Which token may do what is the service's to say. Reading certificates from files is the
//! caller's: they come as PEM.

use std::{fmt, sync::Arc};

use tonic::{
    Request, Status,
    metadata::AsciiMetadataValue,
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Certificate, Channel, ClientTlsConfig, Identity},
};

/// A connection whose requests carry the token.
pub type Route = InterceptedService<Channel, Bearer>;

/// How connections to `https://` endpoints are made. Without it they are encrypted too, and
/// the service's certificate must be one that the system trusts.
#[derive(Clone, Default)]
pub struct Tls {
    authorities: Option<String>,
    identity: Option<(String, String)>,
    server_name: Option<String>,
}

impl Tls {
    /// Trusts what the system trusts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts these authorities (PEM, one or more certificates) and no others.
    #[must_use]
    pub fn authorities(mut self, pem: impl Into<String>) -> Self {
        self.authorities = Some(pem.into());
        self
    }

    /// The client's own certificate and private key (PEM), for mutual TLS.
    #[must_use]
    pub fn identity(
        mut self,
        certificate_pem: impl Into<String>,
        key_pem: impl Into<String>,
    ) -> Self {
        self.identity = Some((certificate_pem.into(), key_pem.into()));
        self
    }

    /// The name that the service's certificate must have; the endpoint's host unless said.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    pub(crate) fn config(&self) -> ClientTlsConfig {
        let mut config = ClientTlsConfig::new();
        config = match &self.authorities {
            Some(pem) => config.ca_certificate(Certificate::from_pem(pem)),
            None => config.with_native_roots(),
        };
        if let Some((certificate, key)) = &self.identity {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        match &self.server_name {
            Some(name) => config.domain_name(name),
            None => config,
        }
    }
}

/// Shows no key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("authorities", &self.authorities.is_some())
            .field("identity", &self.identity.is_some())
            .field("server_name", &self.server_name)
            .finish()
    }
}

type Source = Arc<dyn Fn() -> String + Send + Sync>;

/// Adds `authorization: Bearer …` to each request, where there is a token.
#[derive(Clone, Default)]
pub struct Bearer(Option<Source>);

impl Bearer {
    pub(crate) fn new(source: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(source)))
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(source) = &self.0 {
            let value = AsciiMetadataValue::try_from(format!("Bearer {}", source()))
                .map_err(|_| Status::unauthenticated("the token has letters no header may have"))?;
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }
}

/// Shows no token.
impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bearer").field(&self.0.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_anew_for_each_request_and_never_shown() {
        let count = std::sync::atomic::AtomicU32::new(0);
        let mut bearer = Bearer::new(move || {
            let turn = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            format!("secret-{turn}")
        });
        for turn in 0..2 {
            let request = bearer.call(Request::new(())).unwrap();
            let expected = format!("Bearer secret-{turn}");
            assert_eq!(request.metadata().get("authorization").unwrap(), &*expected);
        }
        assert!(!format!("{bearer:?}").contains("secret"));
        let tls = Tls::new().identity("certificate", "key-secret");
        assert!(!format!("{tls:?}").contains("secret"));
    }

    #[test]
    fn a_token_that_no_header_may_carry_is_an_error_and_not_sent() {
        let mut bearer = Bearer::new(|| "line\nbreak".into());
        let refused = bearer.call(Request::new(())).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unauthenticated);
    }
}
