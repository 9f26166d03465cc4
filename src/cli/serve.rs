//! `holdoff serve`: reads the settings and hands them on. What it refuses here is what
//! would be unsafe whatever the service does: an open port without TLS, unasked; and what would do
//! nothing (`needs`).

mod needs;

use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
    time::Duration,
};

use clap::Args;

use super::{
    exit::{Exit, Failure},
    secret::Secret,
    size, span,
};
use crate::{
    recording::{FILE_MIN, RecordingSettings},
    server,
    settings::{
        ClientCertificates, ConnectionSettings, Decisions, Limits, LogFormat, MetricsDependencies,
        ServeSettings, StoreSettings, TlsSettings,
    },
};

const RECORD_MAX: u64 = 256 * 1024 * 1024;
const RECORD_FILES: u32 = 8;
const SECOND: Duration = Duration::from_secs(1);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);

const EXAMPLES: &str = "\
Examples:
  holdoff serve
  holdoff serve --policies policies.yaml --data-dir /var/lib/holdoff
  holdoff serve --listen 127.0.0.1:0 --http off
  holdoff serve --listen 0.0.0.0:7460 --tls-cert server.pem --tls-key server.key \\
      --access access.yaml
  holdoff serve --record /var/lib/holdoff/recording --record-max 1GiB
  holdoff serve --store redis://store:6379
  holdoff serve --settings /etc/holdoff/settings.yaml

Exit codes: 0 stopped as asked, 1 could not run (a busy port, an unreadable directory, a refused \
policy), 2 wrong use.";

/// Runs the service.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Where gRPC listens; port 0 picks a free one and prints it
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7460", value_parser = address)]
    listen: SocketAddr,
    /// Where the dashboard, /metrics, /healthz and /readyz are served; `off`: nowhere
    #[arg(long, value_name = "HOST:PORT|off", default_value = "127.0.0.1:7461", value_parser = address_or_off)]
    http: Http,
    /// A name that browsers may know the dashboard by, besides localhost and the address; repeat
    /// it, or separate them by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = host)]
    http_host: Vec<String>,
    /// A policy file or a folder of them; it is read again when it changes
    #[arg(long, value_name = "PATH")]
    policies: Option<PathBuf>,
    /// Where policies, overrides, audit records and open breakers are kept; without it, in memory
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Write down what happens, for `holdoff replay`, into this folder
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// How much is kept of that, all files together, 256MiB unless said; the oldest goes first
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    record_max: Option<u64>,
    /// In how many files, 8 unless said; 2 to 1000
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(2..=1_000))]
    record_files: Option<u32>,
    /// Where the fleet's state is: `memory`, which is the default, or a Valkey or Redis that replicas share, by its URL
    #[arg(long, value_name = "memory|URL", default_value = "memory", value_parser = Secret(store),
          hide_default_value = true)]
    store: StoreSettings,
    /// How decisions are made over a store that replicas share, leased unless said; the same at all
    /// of them
    #[arg(long, value_name = "leased|strict", value_enum)]
    store_decisions: Option<Decisions>,
    /// The certificate of both ports, and those between it and its authority (PEM)
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_key",
        help_heading = "Access"
    )]
    tls_cert: Option<PathBuf>,
    /// Its private key (PEM); nobody else may be able to read the file
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_cert",
        help_heading = "Access"
    )]
    tls_key: Option<PathBuf>,
    /// The authorities of client certificates (PEM); clients are then asked for one
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_cert",
        help_heading = "Access"
    )]
    tls_client_ca: Option<PathBuf>,
    /// Whether a client without a certificate is let in, where --tls-client-ca asks for one;
    /// required unless said
    #[arg(long, value_enum, help_heading = "Access")]
    tls_clients: Option<ClientCertificates>,
    /// Which tokens and certificates may do what; without it, everybody may do everything
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    access: Option<PathBuf>,
    /// Allow addresses other than loopback although there is no TLS
    #[arg(long)]
    insecure: bool,
    /// Connections that one address may have to each port, 1 to 1000000; an IPv6 /64 is one address
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().connections_per_address,
          value_parser = limit, help_heading = "Limits")]
    max_connections_per_address: NonZeroU32,
    /// Sessions that one token's or certificate's name may have, 2000 unless said; 1 to 1000000
    #[arg(long, value_name = "NUMBER", value_parser = limit, help_heading = "Limits")]
    max_sessions_per_principal: Option<NonZeroU32>,
    /// Watches of dependencies and events, and pages of the dashboard, that one such name may have
    /// open, or one address where nobody has a name; 1 to 1000000
    #[arg(long, value_name = "NUMBER", default_value_t = Limits::default().watches_per_principal,
          value_parser = limit, help_heading = "Limits")]
    max_watches_per_principal: NonZeroU32,
    /// gRPC connections at once over all cores, 1 to 1000000; without it, 60 % of the files that the
    /// process may open, 12000 at most. Who finds no room waits
    #[arg(long, value_name = "NUMBER", value_parser = limit, help_heading = "Limits")]
    max_connections: Option<NonZeroU32>,
    /// A gRPC connection without a call for so long is told to go (GOAWAY); `off`, or 1s to 365days
    #[arg(long, value_name = "DURATION|off", default_value = "10m", value_parser = span_or_off,
          help_heading = "Limits")]
    max_connection_idle: Lasts,
    /// A gRPC connection so old, give or take a tenth, is told to go; `off`, or 1s to 365days. For
    /// balancers that spread connections and not calls
    #[arg(long, value_name = "DURATION|off", default_value = "off", value_parser = span_or_off,
          help_heading = "Limits")]
    max_connection_age: Lasts,
    /// What still runs on a connection that was told to go for its age is cut off after so long, 30s
    /// unless said; 0s to 365days
    #[arg(long, value_name = "DURATION", value_parser = grace, help_heading = "Limits")]
    max_connection_age_grace: Option<Duration>,
    /// How many cores serve; without it, all of them
    #[arg(long, value_name = "NUMBER", value_parser = workers)]
    workers: Option<NonZeroUsize>,
    /// How long running requests may take to end once a stop was asked for
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = span::parse)]
    drain: Duration,
    /// How log lines look
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Which dependencies have metrics of their own: `off`, `top-N` (the N most in trouble), `all`;
    /// `top-50` unless said
    #[arg(long, value_name = "off|top-N|all", value_parser = metrics_dependencies)]
    metrics_dependencies: Option<MetricsDependencies>,
}

/// For how long, or for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    For(Duration),
    ForEver,
}

impl Lasts {
    fn span(self) -> Option<Duration> {
        match self {
            Self::For(span) => Some(span),
            Self::ForEver => None,
        }
    }
}

/// An address, or none. (An `Option` would mean "may be left out" to the parser.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http {
    Off,
    At(SocketAddr),
}

/// # Errors
/// [`Failure::Usage`] for unsafe settings, [`Failure::No`] where the service cannot run.
pub fn run(args: ServeArgs) -> Result<Exit, Failure> {
    let settings = settings(args)?;
    super::logging::begin(settings.log_format)?;
    match crate::server::run(settings) {
        Ok(()) => Ok(Exit::Done),
        Err(error) => Err(Failure::No(format!("{error:#}"))),
    }
}

/// # Errors
/// [`Failure::Usage`] for an address that others can reach, without `--insecure`.
pub fn settings(args: ServeArgs) -> Result<ServeSettings, Failure> {
    check_secrecy(&args.store, std::env::args())?;
    needs::check(&args, server::sends_metrics())?;
    let defaults = ServeSettings::default();
    let http = match args.http {
        Http::Off => None,
        Http::At(address) => Some(address),
    };
    for (flag, address) in [("--listen", Some(args.listen)), ("--http", http)] {
        if let Some(address) = address
            && !address.ip().is_loopback()
            && !args.insecure
            && args.tls_cert.is_none()
        {
            return Err(Failure::Usage(format!(
                "{flag} {address}: others can reach this address and there is no TLS; \
                 listen on 127.0.0.1, give --tls-cert and --tls-key, or say --insecure"
            )));
        }
    }
    let tls = args
        .tls_cert
        .zip(args.tls_key)
        .map(|(cert, key)| TlsSettings {
            cert,
            key,
            client_ca: args.tls_client_ca,
            clients: args.tls_clients.unwrap_or_default(),
        });
    let record = args.record.map(|folder| RecordingSettings {
        folder,
        max_bytes: args.record_max.unwrap_or(RECORD_MAX),
        files: args.record_files.unwrap_or(RECORD_FILES),
    });
    if let Some(record) = &record {
        check_recording(record)?;
    }
    Ok(ServeSettings {
        record,
        listen: args.listen,
        http,
        http_hosts: args.http_host,
        policies: args.policies,
        data_dir: args.data_dir,
        store: match args.store {
            StoreSettings::Shared(address, _) => {
                StoreSettings::Shared(address, args.store_decisions.unwrap_or_default())
            }
            StoreSettings::Memory => StoreSettings::Memory,
        },
        tls,
        access: args.access,
        insecure: args.insecure,
        limits: Limits {
            connections_per_address: args.max_connections_per_address,
            sessions_per_principal: args
                .max_sessions_per_principal
                .unwrap_or(defaults.limits.sessions_per_principal),
            watches_per_principal: args.max_watches_per_principal,
        },
        connections: ConnectionSettings {
            most: args.max_connections,
            idle: args.max_connection_idle.span(),
            age: args.max_connection_age.span(),
            grace: (args.max_connection_age_grace).unwrap_or(defaults.connections.grace),
        },
        workers: args.workers.unwrap_or(defaults.workers),
        drain: args.drain,
        log_format: args.log_format,
        metrics_dependencies: args.metrics_dependencies.unwrap_or_default(),
    })
}

/// # Errors
/// [`Failure::Usage`] where each file would be too small to say anything.
fn check_recording(record: &RecordingSettings) -> Result<(), Failure> {
    let least = FILE_MIN * u64::from(record.files);
    match record.max_bytes >= least {
        true => Ok(()),
        false => Err(Failure::Usage(format!(
            "--record-max {}: {} files of at least {} need {}",
            size::human(record.max_bytes),
            record.files,
            size::human(FILE_MIN),
            size::human(least),
        ))),
    }
}

/// Everybody on the machine can read a command line.
///
/// # Errors
/// [`Failure::Usage`] where the store's password is on it.
fn check_secrecy(
    store: &StoreSettings,
    mut line: impl Iterator<Item = String>,
) -> Result<(), Failure> {
    let has_password = match store {
        StoreSettings::Memory => false,
        StoreSettings::Shared(address, _) => address.has_password(),
    };
    let is_url = |word: &str| word.starts_with("--store=") || word.contains("://");
    match has_password && line.any(|word| is_url(&word) && word.contains('@')) {
        false => Ok(()),
        true => Err(Failure::Usage(
            "--store with a password on the command line, where others can read it; \
             set HOLDOFF_STORE, or `store:` in the settings file"
                .to_owned(),
        )),
    }
}

fn store(text: &str) -> Result<StoreSettings, String> {
    match text {
        "memory" => Ok(StoreSettings::Memory),
        url => url
            .parse()
            .map(|address| StoreSettings::Shared(Box::new(address), Decisions::default())),
    }
}

pub fn address(text: &str) -> Result<SocketAddr, String> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numeric
        .parse()
        .map_err(|_| "is no address such as 127.0.0.1:7460 or [::1]:7460".to_owned())
}

pub fn address_or_off(text: &str) -> Result<Http, String> {
    match text {
        "off" => Ok(Http::Off),
        text => address(text).map(Http::At),
    }
}

fn host(text: &str) -> Result<String, String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
    match !text.is_empty() && text.len() <= 253 && text.bytes().all(allowed) {
        true => Ok(text.to_owned()),
        false => {
            Err("is no host name such as holdoff.example.org; leave out scheme and port".to_owned())
        }
    }
}

fn metrics_dependencies(text: &str) -> Result<MetricsDependencies, String> {
    let top = |text: &str| text.strip_prefix("top-")?.parse().ok();
    match text {
        "off" => Ok(MetricsDependencies::Off),
        "all" => Ok(MetricsDependencies::All),
        text => match top(text).filter(|count: &NonZeroUsize| count.get() <= 10_000) {
            Some(count) => Ok(MetricsDependencies::Top(count)),
            None => Err("is neither off, all nor top-1 to top-10000".to_owned()),
        },
    }
}

fn span_or_off(text: &str) -> Result<Lasts, String> {
    match text {
        "off" => Ok(Lasts::ForEver),
        text => match span::parse(text)? {
            span if (SECOND..=YEAR).contains(&span) => Ok(Lasts::For(span)),
            _ => Err("must be off, or 1s to 365days".to_owned()),
        },
    }
}

fn grace(text: &str) -> Result<Duration, String> {
    match span::parse(text)? {
        span if span <= YEAR => Ok(span),
        _ => Err("must be 0s to 365days".to_owned()),
    }
}

fn limit(text: &str) -> Result<NonZeroU32, String> {
    text.parse::<NonZeroU32>()
        .ok()
        .filter(|most| most.get() <= 1_000_000)
        .ok_or_else(|| "must be 1 to 1000000".to_owned())
}

fn workers(text: &str) -> Result<NonZeroUsize, String> {
    text.parse::<NonZeroUsize>()
        .ok()
        .filter(|count| count.get() <= 1_024)
        .ok_or_else(|| "must be 1 to 1024".to_owned())
}
