//! What a service is started with, after flags, environment and settings file have been
//! merged. Plain values: where each came from is the command line's matter.

use std::{
    net::{Ipv4Addr, SocketAddr},
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    thread,
    time::Duration,
};

pub use crate::{access::Limits, store::redis::Decisions};
use crate::{recording::RecordingSettings, store::redis::Address};

/// The gRPC port unless told otherwise.
pub const DEFAULT_GRPC_PORT: u16 = 7460;
/// A connection without a call for so long is told to go, unless told otherwise.
const IDLE_FOR: Duration = Duration::from_secs(600);
/// What runs on a connection that was told to go for its age has so long.
const GRACE: Duration = Duration::from_secs(30);
/// The HTTP port unless told otherwise.
pub const DEFAULT_HTTP_PORT: u16 = 7461;

/// Everything that `serve` needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeSettings {
    /// Where gRPC listens. Port 0 picks a free one.
    pub listen: SocketAddr,
    /// Where the dashboard, health, readiness and metrics are served over HTTP; `None`: nowhere.
    pub http: Option<SocketAddr>,
    /// Names that browsers may know the dashboard by, besides loopback's and the address.
    pub http_hosts: Vec<String>,
    /// A policy file or a folder of them; `None`: the built-in defaults.
    pub policies: Option<PathBuf>,
    /// Where what was acknowledged is kept; `None`: in memory, lost at the end.
    pub data_dir: Option<PathBuf>,
    /// Where the fleet's state is.
    pub store: StoreSettings,
    /// Where what happens is written down, and how much of it; `None`: nowhere.
    pub record: Option<RecordingSettings>,
    /// The certificate of both ports; `None`: no TLS.
    pub tls: Option<TlsSettings>,
    /// Which tokens and certificates may do what; `None`: everybody may do everything.
    pub access: Option<PathBuf>,
    /// Whether addresses other than loopback are allowed although there is no TLS.
    pub insecure: bool,
    pub limits: Limits,
    pub connections: ConnectionSettings,
    /// How many cores serve; each has a listener and a runtime of its own.
    pub workers: NonZeroUsize,
    /// How long running requests may take to end once a stop was asked for.
    pub drain: Duration,
    pub log_format: LogFormat,
    pub metrics_dependencies: MetricsDependencies,
}

/// Which dependencies have series of their own in `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsDependencies {
    Off,
    /// So many: first those that are not closed, then those that were denied most. All together
    /// never more than fit an answer of a mebibyte.
    Top(NonZeroUsize),
    /// All of them, however large the answer gets.
    All,
}

impl Default for MetricsDependencies {
    fn default() -> Self {
        // 50 is not zero.
        Self::Top(NonZeroUsize::MIN.saturating_add(49))
    }
}

/// Where the fleet's state is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreSettings {
    /// In this process.
    #[default]
    Memory,
    /// In a store that any number of replicas share.
    Shared(Box<Address>, Decisions),
}

/// Where the certificates are. All files are PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// The service's certificate and those between it and its authority.
    pub cert: PathBuf,
    pub key: PathBuf,
    /// The authorities of clients' certificates; `None`: clients are not asked for any.
    pub client_ca: Option<PathBuf>,
    pub clients: ClientCertificates,
}

/// Whether a client without a certificate is let in, where certificates are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ClientCertificates {
    /// None gets in without one.
    #[default]
    Required,
    /// One without is let in, and needs a token.
    Optional,
}

/// How many connections there may be to the gRPC port, and how long each of them lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// At once, over all cores; `None`: as many as the process has descriptors for.
    pub most: Option<NonZeroU32>,
    /// One without a call for so long is told to go; `None`: it may stay.
    pub idle: Option<Duration>,
    /// One that is so old is told to go; `None`: it may stay. Each draws its own within a tenth.
    pub age: Option<Duration>,
    /// What runs on one that was told to go for its age is cut off after so long.
    pub grace: Duration,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self {
            most: None,
            idle: Some(IDLE_FOR),
            age: None,
            grace: GRACE,
        }
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl Default for ServeSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_GRPC_PORT)),
            http: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_HTTP_PORT))),
            http_hosts: Vec::new(),
            policies: None,
            data_dir: None,
            store: StoreSettings::Memory,
            record: None,
            tls: None,
            access: None,
            insecure: false,
            limits: Limits::default(),
            connections: ConnectionSettings::default(),
            workers: thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            drain: Duration::from_secs(10),
            log_format: LogFormat::Text,
            metrics_dependencies: MetricsDependencies::default(),
        }
    }
}
