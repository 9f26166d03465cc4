//! TLS of both ports: what the certificate files say, read again when they change, and the
//! handshake, which is finished inside the connection.
//!
//! A handshake is polled by whoever reads or writes the connection, so it needs no task of its
//! own, holds the connection's place, and is cut off by the connection's own time. A new
//! certificate holds for new connections; those that are there go on.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use anyhow::anyhow;
use arc_swap::ArcSwap;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{Accept, TlsAcceptor, server::TlsStream};

use crate::{
    access::{self, Peer},
    policy::watch::{Watch, watch_with},
    settings::{ClientCertificates, TlsSettings},
    telemetry::Counter,
};

/// What one connection in the middle of its handshake counts to.
type Count = Arc<dyn Fn(Counter) + Send + Sync>;

/// TLS as it is in force now.
#[derive(Clone)]
pub struct Tls {
    current: Arc<ArcSwap<Configs>>,
    count: Count,
}

/// One certificate, and what each port speaks.
#[derive(Debug)]
struct Configs {
    grpc: Arc<ServerConfig>,
    http: Arc<ServerConfig>,
}

/// Which port a connection came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    Grpc,
    Http,
}

/// The files' bytes, or why they cannot be read.
type Reading = Result<Files, String>;

#[derive(Clone, PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Tls {
    /// Reads the files; the watch takes each change of them into force until it is dropped.
    ///
    /// # Errors
    /// In plain words: which file cannot be taken, and why.
    pub fn start(
        settings: TlsSettings,
        count: impl Fn(Counter) + Send + Sync + 'static,
    ) -> anyhow::Result<(Self, Watch)> {
        let reading = read(&settings);
        let configs = reading
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|files| configs(files, settings.clients))
            .map_err(|why| anyhow!("TLS: {why}"))?;
        let tls = Self {
            current: Arc::new(ArcSwap::from_pointee(configs)),
            count: Arc::new(count),
        };
        let paths = [Some(&settings.cert), Some(&settings.key)]
            .into_iter()
            .chain([settings.client_ca.as_ref()])
            .flatten()
            .cloned()
            .collect();
        let (taken, clients) = (tls.clone(), settings.clients);
        let watch = watch_with(
            "tls-watch",
            paths,
            move || read(&settings),
            reading,
            move |reading| taken.reload(reading, clients),
        )?;
        Ok((tls, watch))
    }

    /// Whether the files can be taken.
    ///
    /// # Errors
    /// As [`Tls::start`].
    pub fn check(settings: &TlsSettings) -> anyhow::Result<()> {
        let read = read(settings).and_then(|files| configs(&files, settings.clients));
        read.map(drop).map_err(|why| anyhow!("TLS: {why}"))
    }

    /// Takes new files into force, or keeps what is.
    fn reload(&self, reading: Reading, clients: ClientCertificates) {
        match reading.and_then(|files| configs(&files, clients)) {
            Ok(configs) => {
                self.current.store(configs.into());
                tracing::info!("the certificates were read again");
                (self.count)(Counter::CertificateReload);
            }
            Err(why) => {
                tracing::warn!("TLS: {why}; the certificate in force stays");
                (self.count)(Counter::CertificateReloadRefused);
            }
        }
    }

    fn accept(&self, stream: TcpStream, port: Port) -> Accept<TcpStream> {
        let current = self.current.load();
        let config = match port {
            Port::Grpc => &current.grpc,
            Port::Http => &current.http,
        };
        TlsAcceptor::from(Arc::clone(config)).accept(stream)
    }
}

fn read(settings: &TlsSettings) -> Reading {
    let file = |path: &Path| {
        fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
    };
    let key_mode = fs::metadata(&settings.key)
        .map_err(|error| format!("{} cannot be read: {error}", settings.key.display()))?
        .permissions()
        .mode();
    access::private(&settings.key, key_mode)?;
    Ok(Files {
        certificate: file(&settings.cert)?,
        key: file(&settings.key)?,
        client_ca: settings.client_ca.as_deref().map(file).transpose()?,
    })
}

fn configs(files: &Files, clients: ClientCertificates) -> Result<Configs, String> {
    let chain = certificates(&files.certificate, "--tls-cert")?;
    let key = PrivateKeyDer::from_pem_slice(&files.key)
        .map_err(|error| format!("--tls-key: no private key in PEM: {error}"))?;
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(pem, "--tls-client-ca")? {
                roots
                    .add(authority)
                    .map_err(|error| format!("--tls-client-ca: {error}"))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            let verifier = match clients {
                ClientCertificates::Required => verifier,
                ClientCertificates::Optional => verifier.allow_unauthenticated(),
            };
            let verifier = verifier.build();
            builder.with_client_cert_verifier(
                verifier.map_err(|error| format!("--tls-client-ca: {error}"))?,
            )
        }
    };
    let grpc = builder
        .with_single_cert(chain, key)
        .map_err(|error| format!("--tls-cert and --tls-key do not go together: {error}"))?;
    let speaking = |protocols: &[&[u8]]| {
        let mut config = grpc.clone();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    };
    Ok(Configs {
        grpc: speaking(&[b"h2"]),
        http: speaking(&[b"http/1.1"]),
    })
}

fn certificates(pem: &[u8], flag: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(found) if found.is_empty() => Err(format!("{flag}: no certificate in PEM")),
        Ok(found) => Ok(found),
        Err(error) => Err(format!("{flag}: no certificate in PEM: {error}")),
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// A connection as it is on the wire, with or without TLS.
pub struct Wire {
    state: State,
    peer: Peer,
    count: Option<Count>,
}

enum State {
    Plain(TcpStream),
    Handshake(Box<Accept<TcpStream>>),
    Secure(Box<TlsStream<TcpStream>>),
    /// The handshake failed; nothing more is read or written.
    Broken,
}

impl Wire {
    pub fn new(stream: TcpStream, tls: Option<&Tls>, port: Port) -> Self {
        let peer = Peer::new(stream.peer_addr().ok());
        let state = match tls {
            None => State::Plain(stream),
            Some(tls) => State::Handshake(Box::new(tls.accept(stream, port))),
        };
        Self {
            state,
            peer,
            count: tls.map(|tls| Arc::clone(&tls.count)),
        }
    }

    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    pub fn is_vectored(&self) -> bool {
        match &self.state {
            State::Plain(stream) => stream.is_write_vectored(),
            // rustls puts what it is given together itself.
            State::Handshake(_) | State::Secure(_) | State::Broken => true,
        }
    }

    /// Drives the handshake, where it is not over; then hands out the stream.
    fn poll_open(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Open<'_>>> {
        if let State::Handshake(handshake) = &mut self.state {
            let shaken = ready!(Pin::new(handshake.as_mut()).poll(context));
            let opened = shaken.and_then(|stream| {
                known(&stream, &self.peer)?;
                Ok(stream)
            });
            match opened {
                Ok(stream) => self.state = State::Secure(Box::new(stream)),
                Err(error) => return Poll::Ready(Err(self.broken(&error))),
            }
        }
        Poll::Ready(match &mut self.state {
            State::Plain(stream) => Ok(Open::Plain(Pin::new(stream))),
            State::Secure(stream) => Ok(Open::Secure(Pin::new(stream.as_mut()))),
            State::Handshake(_) | State::Broken => Err(io::ErrorKind::ConnectionAborted.into()),
        })
    }

    fn broken(&mut self, error: &io::Error) -> io::Error {
        self.state = State::Broken;
        if let Some(count) = &self.count {
            count(Counter::HandshakeFailed);
        }
        tracing::debug!(peer = ?self.peer.address(), "no TLS: {error}");
        io::Error::new(error.kind(), error.to_string())
    }
}

/// One that goes away before its handshake is over is a failed one, too.
impl Drop for Wire {
    fn drop(&mut self) {
        if let (State::Handshake(_), Some(count)) = (&self.state, &self.count) {
            count(Counter::HandshakeFailed);
        }
    }
}

/// Whom a verified certificate names; one that names nobody ends the connection.
fn known(stream: &TlsStream<TcpStream>, peer: &Peer) -> io::Result<()> {
    let presented = stream.get_ref().1.peer_certificates();
    if let Some(certificate) = presented.and_then(<[_]>::first) {
        peer.certify(access::identity(certificate).map_err(io::Error::other)?);
    }
    Ok(())
}

enum Open<'a> {
    Plain(Pin<&'a mut TcpStream>),
    Secure(Pin<&'a mut TlsStream<TcpStream>>),
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match ready!(self.poll_open(context))? {
            Open::Plain(stream) => stream.poll_read(context, buffer),
            Open::Secure(stream) => stream.poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match ready!(self.poll_open(context))? {
            Open::Plain(stream) => stream.poll_write(context, bytes),
            Open::Secure(stream) => stream.poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match ready!(self.poll_open(context))? {
            Open::Plain(stream) => stream.poll_write_vectored(context, bytes),
            Open::Secure(stream) => stream.poll_write_vectored(context, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.is_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(self.poll_open(context))? {
            Open::Plain(stream) => stream.poll_flush(context),
            Open::Secure(stream) => stream.poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state {
            State::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            State::Secure(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
            // There is nobody to say goodbye to.
            State::Handshake(_) | State::Broken => Poll::Ready(Ok(())),
        }
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire")
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}
