//! How a command knows the service, and how the service knows who runs it: TLS, a certificate,
//! a bearer token. A token comes from a file or the environment, never from the command line,
//! which everybody on the machine can read.

use std::{
    fmt, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use clap::Args;
use holdoff_client::Builder;
use tonic::{
    Request, Status,
    metadata::AsciiMetadataValue,
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};

use super::Failure;
use crate::access;

/// A connection whose requests carry the token.
pub type Route = InterceptedService<Channel, Bearer>;

const TOKEN: &str = "HOLDOFF_TOKEN";

/// How one begins in PEM.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";

#[derive(Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub struct CredentialArgs {
    /// The authorities that the service's certificate must be of (PEM); without it, the system's
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Our own certificate for the service (PEM)
    #[arg(long, global = true, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, global = true, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// A file that holds our token; or the token itself in HOLDOFF_TOKEN
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// Where the service is, and how to speak to it.
#[derive(Clone)]
pub struct Server {
    url: String,
    authorities: Option<String>,
    identity: Option<(String, String)>,
    token: Option<String>,
}

impl CredentialArgs {
    /// Reads the files.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a file that cannot be read, or that everybody can.
    pub fn server(self, url: String) -> Result<Server, Failure> {
        let authorities = self.ca.as_deref().map(|path| read("--ca", path));
        let identity = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some((read("--cert", cert)?, read_secret("--key", key)?)),
            (None, _) | (_, None) => None,
        };
        let in_environment = || std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
        let token = match &self.token_file {
            Some(path) => Some(read_secret("--token-file", path)?),
            None => in_environment(),
        };
        let server = Server {
            // What is none of the forms is refused where the service is needed.
            url: super::url(&url).unwrap_or(url),
            authorities: authorities.transpose()?,
            identity,
            token: token.map(|token| token.trim().to_owned()),
        };
        server.checked()
    }
}

impl Server {
    /// Without credentials.
    pub fn at(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            authorities: None,
            identity: None,
            token: None,
        }
    }

    fn is_encrypted(&self) -> bool {
        self.url.starts_with("https://")
    }

    /// Certificates that would be read and not used are a mistake.
    fn checked(self) -> Result<Self, Failure> {
        let certificates = self.authorities.is_some() || self.identity.is_some();
        if certificates && !self.is_encrypted() {
            return Err(Failure::Usage(format!(
                "--server {:?}: --ca and --cert are for TLS; its URL begins with https://",
                self.url
            )));
        }
        if self
            .token
            .as_deref()
            .is_some_and(|token| bearer(token).is_none())
        {
            return Err(Failure::Usage(
                "the token (--token-file, HOLDOFF_TOKEN) has letters that no header may have; it \
                 is one line, as `holdoff token new` prints it"
                    .to_owned(),
            ));
        }
        Ok(self)
    }

    /// # Errors
    /// [`Failure::Usage`] for what is no URL, or certificates that are none.
    pub fn endpoint(&self) -> Result<Endpoint, Failure> {
        let endpoint = super::endpoint(&self.url)?;
        if !self.is_encrypted() {
            return Ok(endpoint);
        }
        let config = match &self.authorities {
            // TLS would take nobody's certificate then, and not say why.
            Some(pem) if !pem.contains(CERTIFICATE) => {
                return Err(Failure::Usage(
                    "--ca: there is no certificate in the file; it is PEM, and begins \
                     `-----BEGIN CERTIFICATE-----`"
                        .to_owned(),
                ));
            }
            Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        let config = match &self.identity {
            Some((certificate, key)) => config.identity(Identity::from_pem(certificate, key)),
            None => config,
        };
        endpoint
            .tls_config(config)
            .map_err(|error| Failure::Usage(format!("TLS: {}", super::root_cause(&error))))
    }

    /// The channel, with the token on each request.
    pub(super) fn route(&self, channel: Channel) -> Route {
        // What makes no header was refused when it was read.
        let bearer = Bearer(self.token.as_deref().and_then(bearer));
        InterceptedService::new(channel, bearer)
    }

    /// The same for the client library.
    pub fn introduce(&self, builder: Builder) -> Builder {
        let mut tls = holdoff_client::Tls::new();
        if let Some(pem) = &self.authorities {
            tls = tls.authorities(pem.as_str());
        }
        if let Some((certificate, key)) = &self.identity {
            tls = tls.identity(certificate.as_str(), key.as_str());
        }
        let builder = match self.is_encrypted() {
            true => builder.tls(tls),
            false => builder,
        };
        match &self.token {
            Some(token) => builder.token(token.as_str()),
            None => builder,
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

/// Shows no key and no token.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// Adds the token to each request, where there is one.
#[derive(Clone)]
pub struct Bearer(Option<AsciiMetadataValue>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request
                .metadata_mut()
                .insert("authorization", token.clone());
        }
        Ok(request)
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bearer").field(&self.0.is_some()).finish()
    }
}

fn bearer(token: &str) -> Option<AsciiMetadataValue> {
    let mut value = AsciiMetadataValue::try_from(format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn read(flag: &str, path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("{flag} {}: {error}", path.display())))
}

fn read_secret(flag: &str, path: &Path) -> Result<String, Failure> {
    let refuse = |why: String| Failure::Usage(format!("{flag} {why}"));
    let metadata = fs::metadata(path);
    let metadata = metadata.map_err(|error| refuse(format!("{}: {error}", path.display())))?;
    access::private(path, metadata.permissions().mode()).map_err(refuse)?;
    read(flag, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> CredentialArgs {
        CredentialArgs {
            ca: None,
            cert: None,
            key: None,
            token_file: None,
        }
    }

    fn file(text: &str, mode: u32) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
        file
    }

    #[test]
    fn a_token_file_is_one_line_that_others_cannot_read() {
        let with = |text: &str, mode| {
            let file = file(text, mode);
            CredentialArgs {
                token_file: Some(file.path().to_owned()),
                ..args()
            }
            .server("http://h:1".into())
        };
        let server = with("hot_abc\n", 0o600).unwrap();
        assert_eq!(server.token.as_deref(), Some("hot_abc"));
        assert!(!format!("{server:?} {:?}", server.to_string()).contains("hot_"));
        for (text, mode, told) in [("hot_abc", 0o644, "mode 0644"), ("a\nb", 0o600, "one line")] {
            let failure = with(text, mode).unwrap_err();
            assert_eq!(failure.code(), 2);
            assert!(failure.to_string().contains(told), "{failure}");
        }
    }

    #[test]
    fn a_file_of_authorities_without_a_certificate_is_a_mistake() {
        let file = file("-----BEGIN PRIVATE KEY-----\n", 0o600);
        let args = CredentialArgs {
            ca: Some(file.path().to_owned()),
            ..args()
        };
        let failure = args.server("https://h:1".into()).unwrap().endpoint();
        let failure = failure.unwrap_err();
        assert_eq!(failure.code(), 2);
        assert!(failure.to_string().starts_with("--ca: "), "{failure}");
    }

    #[test]
    fn a_url_in_capitals_is_encrypted_all_the_same() {
        let file = file("x", 0o600);
        let args = CredentialArgs {
            ca: Some(file.path().to_owned()),
            ..args()
        };
        let server = args.server("HTTPS://H:1".into()).unwrap();
        assert!(server.is_encrypted());
        assert_eq!(server.to_string(), "https://h:1");
    }

    #[test]
    fn certificates_without_tls_are_a_mistake() {
        let file = file("x", 0o600);
        let args = CredentialArgs {
            ca: Some(file.path().to_owned()),
            ..args()
        };
        let failure = args.server("http://h:1".into()).unwrap_err();
        assert!(failure.to_string().contains("begins with https://"));
    }
}
