//! TLS, certificates and tokens of the real binary: who is let in, what a changed file does, and
//! that no secret is written anywhere.
//!
//! Real time, since real handshakes are what is tested. What is waited for is an answer.

use std::{
    fs,
    io::{BufReader, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use holdoff::access::Token;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType, date_time_ymd,
    string::Ia5String,
};
use tonic::{
    Code, Request, Status,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};

use crate::{
    harness::{PATIENCE, first},
    process::{BINARY, LISTENS, said, serve, written},
};

type Coordinator =
    holdoff_client::proto::coordinator_service_client::CoordinatorServiceClient<Channel>;

struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
struct Issued {
    cert: String,
    key: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn issue(&self, names: &[SanType], until_year: i32) -> Issued {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names = names.to_vec();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(until_year, 1, 1);
        let cert = params.signed_by(&key, &self.0).unwrap().pem();
        let key = key.serialize_pem();
        Issued { cert, key }
    }

    fn server(&self) -> Issued {
        self.issue(&[SanType::IpAddress([127, 0, 0, 1].into())], 4000)
    }
}

fn uri(text: &str) -> SanType {
    SanType::URI(Ia5String::try_from(text).unwrap())
}

/// A file that only its owner may read, put in its place at once.
fn secret(dir: &Path, name: &str, text: &str) -> PathBuf {
    let (path, made) = (dir.join(name), dir.join(format!("{name}.new")));
    fs::write(&made, text).unwrap();
    fs::set_permissions(&made, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(&made, &path).unwrap();
    path
}

/// A service with TLS, and where it listens.
struct Secure {
    child: Child,
    grpc: String,
    http: String,
    log: PathBuf,
}

impl Secure {
    fn start(dir: &Path, server: &Issued, more: &[&str]) -> Self {
        Self::start_telling("info", dir, server, more)
    }

    fn start_telling(level: &str, dir: &Path, server: &Issued, more: &[&str]) -> Self {
        secret(dir, "server.pem", &server.cert);
        secret(dir, "server.key", &server.key);
        let log = dir.join("log");
        let mut command = Command::new(BINARY);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .args([
                "--workers",
                "2",
                "--tls-cert",
                "server.pem",
                "--tls-key",
                "server.key",
            ])
            .args(more)
            .current_dir(dir)
            .env("RUST_LOG", level)
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut says = |what| said(&mut out, what, || fs::read_to_string(&log).unwrap());
        let (grpc, http) = (says(LISTENS), says("holdoff: HTTP on "));
        Self {
            child,
            grpc,
            http,
            log,
        }
    }

    async fn connect(
        &self,
        authority: &str,
        identity: Option<&Issued>,
    ) -> Result<Coordinator, String> {
        connect(&self.grpc, authority, identity).await
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Until it has said something; its own words, since nothing else tells that a file was read.
    async fn until_said(&self, words: &str) {
        let began = Instant::now();
        while !self.said().contains(words) {
            assert!(began.elapsed() < PATIENCE, "{words}: {}", self.said());
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn connect(
    at: &str,
    authority: &str,
    identity: Option<&Issued>,
) -> Result<Coordinator, String> {
    let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority));
    if let Some(issued) = identity {
        tls = tls.identity(Identity::from_pem(&issued.cert, &issued.key));
    }
    let endpoint = Endpoint::from_shared(format!("https://{at}")).unwrap();
    let endpoint = endpoint.timeout(PATIENCE).tls_config(tls).unwrap();
    let channel = endpoint
        .connect()
        .await
        .map_err(|error| format!("{error:?}"))?;
    Ok(Coordinator::new(channel))
}

/// The code of one question; a connection that was refused is `Unavailable`.
async fn asked(client: Result<Coordinator, String>, token: Option<&Token>) -> Code {
    let Ok(mut client) = client else {
        return Code::Unavailable;
    };
    let mut request = Request::new(first("d"));
    if let Some(token) = token {
        let bearer = format!("Bearer {}", token.reveal());
        let metadata = request.metadata_mut();
        metadata.insert("authorization", bearer.parse().unwrap());
    }
    match client.acquire(request).await {
        Ok(_) => Code::Ok,
        // With TLS 1.3 the client hears of a refused certificate after it has sent something.
        Err(status) if transport_failed(&status) => Code::Unavailable,
        Err(status) => status.code(),
    }
}

fn transport_failed(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
}

fn access_file(dir: &Path, tokens: &[(&str, &Token, &str)], certificates: &str) -> PathBuf {
    let tokens = tokens.iter().map(|(name, token, grants)| {
        let hash = token.hash();
        format!("  {name}: {{grants: {grants}, secrets: [{{sha256: {hash}}}]}}\n")
    });
    let tokens: String = tokens.collect();
    let text = format!("version: 1\ntokens:\n{tokens}certificates: {certificates}\n");
    secret(dir, "access.yaml", &text)
}

/// SEC-2.
#[tokio::test]
async fn a_certificate_lets_in_whom_the_file_names_and_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let (authority, stranger) = (Authority::new(), Authority::new());
    written(dir.path(), "ca.pem", &authority.pem());
    access_file(
        dir.path(),
        &[],
        "{\"spiffe://a/checkout\": {default: client}, \"spiffe://a/look\": {default: viewer}}",
    );
    let service = Secure::start(
        dir.path(),
        &authority.server(),
        &["--tls-client-ca", "ca.pem", "--access", "access.yaml"],
    );
    let checkout = [uri("spiffe://a/checkout")];
    let two = [uri("spiffe://a/checkout"), uri("spiffe://a/look")];
    let cases = [
        ("right", Some(authority.issue(&checkout, 4000)), Code::Ok),
        ("none", None, Code::Unavailable),
        (
            "of another authority",
            Some(stranger.issue(&checkout, 4000)),
            Code::Unavailable,
        ),
        (
            "expired",
            Some(authority.issue(&checkout, 2021)),
            Code::Unavailable,
        ),
        (
            "two URIs",
            Some(authority.issue(&two, 4000)),
            Code::Unavailable,
        ),
        (
            "no name",
            Some(authority.issue(&[], 4000)),
            Code::Unavailable,
        ),
        (
            "unknown",
            Some(authority.issue(&[uri("spiffe://b/checkout")], 4000)),
            Code::Unauthenticated,
        ),
        (
            "another role",
            Some(authority.issue(&[uri("spiffe://a/look")], 4000)),
            Code::PermissionDenied,
        ),
    ];
    for (case, identity, expected) in cases {
        let client = service.connect(&authority.pem(), identity.as_ref()).await;
        assert_eq!(asked(client, None).await, expected, "{case}");
    }
    // The client looks, too.
    assert!(service.connect(&stranger.pem(), None).await.is_err());
    // What speaks no TLS is not answered.
    let plain = Endpoint::from_shared(format!("http://{}", service.grpc)).unwrap();
    let plain = plain.timeout(PATIENCE).connect().await;
    let answered = match plain {
        Ok(channel) => Coordinator::new(channel).acquire(first("d")).await.is_ok(),
        Err(_) => false,
    };
    assert!(!answered);
}

#[tokio::test]
async fn with_optional_certificates_a_token_is_enough() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let token = Token::new([5; 32]);
    written(dir.path(), "ca.pem", &authority.pem());
    access_file(dir.path(), &[("t", &token, "{default: client}")], "{}");
    let service = Secure::start(
        dir.path(),
        &authority.server(),
        &[
            "--tls-client-ca",
            "ca.pem",
            "--tls-clients",
            "optional",
            "--access",
            "access.yaml",
        ],
    );
    let client = async || service.connect(&authority.pem(), None).await;
    assert_eq!(asked(client().await, Some(&token)).await, Code::Ok);
    assert_eq!(asked(client().await, None).await, Code::Unauthenticated);
}

/// Certificates change ten times while clients ask on old and new connections.
#[tokio::test]
async fn a_changed_certificate_drops_no_call_and_holds_for_new_connections() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (Authority::new(), Authority::new());
    let service = Secure::start(dir.path(), &old.server(), &[]);
    let both = format!("{}{}", old.pem(), new.pem());
    let (stop, calls) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let load: Vec<_> = (0..4)
        .map(|n| {
            let (at, both) = (service.grpc.clone(), both.clone());
            let (stop, calls) = (Arc::clone(&stop), Arc::clone(&calls));
            tokio::spawn(async move {
                let mut client = connect(&at, &both, None).await.unwrap();
                while !stop.load(Ordering::Relaxed) {
                    // Half of them connect anew for each call.
                    if n % 2 == 0 {
                        client = connect(&at, &both, None).await.unwrap();
                    }
                    client.acquire(first("d")).await.unwrap();
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for round in 1..=5 {
        for authority in [&new, &old] {
            let issued = authority.server();
            let before = service
                .said()
                .matches("certificates were read again")
                .count();
            secret(dir.path(), "server.pem", &issued.cert);
            secret(dir.path(), "server.key", &issued.key);
            let began = Instant::now();
            let called = calls.load(Ordering::Relaxed);
            // Some calls under each of them, however slow the machine is.
            while service
                .said()
                .matches("certificates were read again")
                .count()
                == before
                || calls.load(Ordering::Relaxed) < called + 11
            {
                assert!(began.elapsed() < PATIENCE, "round {round}");
                tokio::task::yield_now().await;
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    for task in load {
        task.await.expect("no call failed");
    }
    assert!(calls.load(Ordering::Relaxed) > 100);
    // The last is the old authority's: the new one's clients are refused now.
    assert!(service.connect(&old.pem(), None).await.is_ok());
    assert!(service.connect(&new.pem(), None).await.is_err());
}

#[tokio::test]
async fn a_bad_file_changes_nothing_and_is_logged_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let (token, viewer) = (Token::new([5; 32]), Token::new([6; 32]));
    let tokens: &[(&str, &Token, &str)] = &[
        ("t", &token, "{default: client}"),
        ("v", &viewer, "{\"*\": viewer}"),
    ];
    access_file(dir.path(), tokens, "{}");
    let service = Secure::start(
        dir.path(),
        &authority.server(),
        &["--access", "access.yaml"],
    );
    let client = async || service.connect(&authority.pem(), None).await;
    assert_eq!(asked(client().await, Some(&token)).await, Code::Ok);
    secret(dir.path(), "server.pem", "no certificate");
    service.until_said("the certificate in force stays").await;
    secret(
        dir.path(),
        "access.yaml",
        "version: 1\ntokens: {t: {grants: {default: boss}, secrets: []}}\n",
    );
    service
        .until_said("what was in force stays: tokens.t.grants")
        .await;
    fs::set_permissions(
        dir.path().join("access.yaml"),
        fs::Permissions::from_mode(0o644),
    )
    .unwrap();
    service
        .until_said("everybody on this machine may read or write it (mode 0644)")
        .await;
    assert_eq!(asked(client().await, Some(&token)).await, Code::Ok);
    let metrics = page(&service, &authority, "/metrics", Some(&viewer)).await;
    assert!(
        metrics.contains("holdoff_access_reloads_total{result=\"refused\"} 2"),
        "{metrics}"
    );
    // A write and a rename may be seen as two readings of the certificate and the key.
    assert!(!metrics.contains("holdoff_certificate_reloads_total{result=\"refused\"} 0"));
    for now in ["access", "certificate"] {
        let gauge = format!("\nholdoff_{now}_reload_refused 1\n");
        assert!(metrics.contains(&gauge), "{gauge}{metrics}");
    }
    let good = authority.server();
    secret(dir.path(), "server.pem", &good.cert);
    secret(dir.path(), "server.key", &good.key);
    service.until_said("the certificates were read again").await;
    access_file(dir.path(), &tokens[1..], "{}");
    service.until_said("the access file was read again").await;
    assert_eq!(
        asked(client().await, Some(&token)).await,
        Code::Unauthenticated
    );
    let metrics = page(&service, &authority, "/metrics", Some(&viewer)).await;
    for now in ["access", "certificate"] {
        let gauge = format!("\nholdoff_{now}_reload_refused 0\n");
        assert!(metrics.contains(&gauge), "{gauge}{metrics}");
    }
}

/// A page over TLS, its head first, as the command line's users would see it.
async fn page(
    service: &Secure,
    authority: &Authority,
    path: &str,
    token: Option<&Token>,
) -> String {
    let stream = encrypted(&service.http, &authority.pem()).await;
    http_get(stream, path, token).await
}

type TlsConnection = tokio_rustls::client::TlsStream<tokio::net::TcpStream>;

async fn encrypted(at: &str, authority: &str) -> TlsConnection {
    use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(at).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.unwrap()
}

async fn http_get(mut stream: TlsConnection, path: &str, token: Option<&Token>) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let bearer = token.map(|token| format!("authorization: Bearer {}\r\n", token.reveal()));
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n{}\r\n",
        bearer.unwrap_or_default()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // The peer may leave without a goodbye; what it has said counts.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

/// SEC-3: a token that is sent, one that is refused, one that stands in the file by mistake, and
/// the private key are in no log (at trace level), metric, error, command line or stored file.
#[tokio::test]
async fn a_secret_is_written_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let [good, refused, misplaced] = [0xc1, 0xc2, 0xc3].map(|n| Token::new([n; 32]));
    access_file(
        dir.path(),
        &[("ops", &good, "{\"*\": [client, operator]}")],
        "{}",
    );
    let server = authority.server();
    let service = Secure::start_telling(
        "trace",
        dir.path(),
        &server,
        &[
            "--access",
            "access.yaml",
            "--data-dir",
            "data",
            "--record",
            "recording",
        ],
    );
    let mut errors = String::new();
    for token in [&good, &refused] {
        let mut client = service.connect(&authority.pem(), None).await.unwrap();
        let mut request = Request::new(first("d"));
        let bearer = format!("Bearer {}", token.reveal());
        request
            .metadata_mut()
            .insert("authorization", bearer.parse().unwrap());
        if let Err(status) = client.acquire(request).await {
            errors.push_str(&format!("{status:?}"));
        }
    }
    let ca = written(dir.path(), "ca.pem", &authority.pem());
    let token_file = secret(dir.path(), "token", &good.reveal());
    let opened = Command::new(BINARY)
        .args(["open", "d", "--reason", "a test", "--owner", "ada"])
        .args(["--server", &format!("https://{}", service.grpc)])
        .args([
            Path::new("--ca"),
            &ca,
            Path::new("--token-file"),
            &token_file,
        ])
        .output()
        .unwrap();
    assert!(opened.status.success(), "{opened:?}");
    let verified = Command::new(BINARY)
        .args(["audit", "verify"])
        .args(["--server", &format!("https://{}", service.grpc)])
        .args([
            Path::new("--ca"),
            &ca,
            Path::new("--token-file"),
            &token_file,
        ])
        .output()
        .unwrap();
    assert!(verified.status.success(), "{verified:?}");
    secret(
        dir.path(),
        "access.yaml",
        &format!(
            "version: 1\ntokens: {{ops: {{grants: {{default: {}}}, secrets: []}}}}\n",
            misplaced.reveal()
        ),
    );
    service.until_said("what was in force stays").await;
    let metrics = page(&service, &authority, "/metrics", Some(&good)).await;
    assert!(
        metrics.contains("holdoff_access_refused_total{reason=\"credential\"} 1"),
        "{metrics}"
    );
    let pid = service.child.id();
    let mut seen = vec![
        ("errors", errors.into_bytes()),
        ("metrics", metrics.into_bytes()),
        ("log", service.said().into_bytes()),
        (
            "command line",
            fs::read(format!("/proc/{pid}/cmdline")).unwrap(),
        ),
        ("output", [opened.stdout, opened.stderr].concat()),
    ];
    for folder in ["data", "recording"] {
        let files = fs::read_dir(dir.path().join(folder)).unwrap();
        let files: Vec<_> = files
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file())
            .collect();
        assert!(!files.is_empty(), "{folder}");
        for path in files {
            let mut bytes = Vec::new();
            fs::File::open(path)
                .unwrap()
                .read_to_end(&mut bytes)
                .unwrap();
            seen.push((folder, bytes));
        }
    }
    let key: Vec<&str> = server
        .key
        .lines()
        .filter(|line| !line.starts_with('-'))
        .collect();
    let mut secrets: Vec<String> = vec![key[0].to_owned()];
    for token in [&good, &refused, &misplaced] {
        secrets.push(token.reveal()["hot_".len()..].to_owned());
    }
    for (place, bytes) in &seen {
        for canary in &secrets {
            let found = bytes
                .windows(canary.len())
                .any(|window| window == canary.as_bytes());
            assert!(!found, "a secret stands in: {place}");
        }
    }
    // What was looked through is what was written: the audit record is there, signed.
    let data = seen.iter().find(|(place, _)| *place == "data").unwrap();
    let signed = b"token:ops (ada)";
    assert!(seen.iter().any(|(place, bytes)| *place == data.0
        && bytes.windows(signed.len()).any(|window| window == signed)));
}

#[tokio::test]
async fn pages_want_a_token_and_health_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let token = Token::new([5; 32]);
    access_file(dir.path(), &[("t", &token, "{\"*\": viewer}")], "{}");
    let service = Secure::start(
        dir.path(),
        &authority.server(),
        &["--access", "access.yaml"],
    );
    let status = async |path, token| {
        let answer = page(&service, &authority, path, token).await;
        answer.split_whitespace().nth(1).map(str::to_owned)
    };
    assert_eq!(status("/healthz", None).await.as_deref(), Some("200"));
    assert_eq!(status("/readyz", None).await.as_deref(), Some("200"));
    assert_eq!(status("/metrics", None).await.as_deref(), Some("401"));
    assert_eq!(
        status("/metrics", Some(&token)).await.as_deref(),
        Some("200")
    );
}

#[test]
fn exec_goes_on_without_a_service_that_refuses_it_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let (ada, checkout) = (Token::new([5; 32]), Token::new([6; 32]));
    let tokens = [
        ("ada", &ada, "{default: operator}"),
        ("checkout", &checkout, "{default: client}"),
    ];
    access_file(dir.path(), &tokens, "{}");
    let ca = secret(dir.path(), "ca.pem", &authority.pem());
    let service = Secure::start(
        dir.path(),
        &authority.server(),
        &["--access", "access.yaml"],
    );
    let told = |token: &Token, more: &[&str]| {
        let ran = Command::new(BINARY)
            .args(["exec", "--dependency", "d", "--ask-timeout", "10s"])
            .args(["--server", &format!("https://{}", service.grpc)])
            .args(more)
            .args(["--", "true"])
            .env("HOLDOFF_CA", &ca)
            .env("HOLDOFF_TOKEN", token.reveal())
            .output()
            .unwrap();
        assert!(ran.status.success());
        String::from_utf8(ran.stderr).unwrap()
    };
    assert_eq!(told(&checkout, &[]), "");
    for (told, named) in [
        (told(&ada, &[]), "it needs the role client"),
        (
            told(&checkout, &["--namespace", "other"]),
            "namespace \"other\"",
        ),
    ] {
        assert!(told.starts_with("holdoff: going on without"), "{told}");
        assert!(told.contains(named), "{told}");
    }
}

/// A peer that begins TLS and does not finish it, on either port.
#[tokio::test]
async fn a_handshake_that_is_not_finished_is_cut_off_in_five_seconds() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let dir = tempfile::tempdir().unwrap();
    let service = Secure::start(dir.path(), &Authority::new().server(), &[]);
    let began = Instant::now();
    let mut ends = tokio::task::JoinSet::new();
    for at in [service.grpc.clone(), service.http.clone()] {
        for said in [&b""[..], &[0x16, 3, 1, 2, 0, 1, 0, 1]] {
            let at = at.clone();
            ends.spawn(async move {
                let mut stream = tokio::net::TcpStream::connect(at).await.unwrap();
                stream.write_all(said).await.unwrap();
                let mut rest = Vec::new();
                // A reset is an end, too.
                let _ = stream.read_to_end(&mut rest).await;
                began.elapsed()
            });
        }
    }
    let ended = tokio::time::timeout(PATIENCE, ends.join_all())
        .await
        .unwrap();
    for after in ended {
        assert!((4.0..8.0).contains(&after.as_secs_f64()), "{after:?}");
    }
}

#[test]
fn what_cannot_be_served_safely_is_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let (one, other) = (authority.server(), authority.server());
    let cert = written(dir.path(), "a.pem", &one.cert);
    let key = secret(dir.path(), "b.key", &other.key);
    let open = secret(dir.path(), "open.key", &one.key);
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    let tokens = written(dir.path(), "access.yaml", "version: 1\n");
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o644)).unwrap();
    let [cert, key, open, tokens] =
        [&cert, &key, &open, &tokens].map(|path| path.to_str().unwrap());
    for (arguments, told) in [
        (
            vec!["--tls-cert", cert, "--tls-key", key],
            "do not go together",
        ),
        (vec!["--tls-cert", cert, "--tls-key", open], "mode 0644"),
        (vec!["--tls-cert", cert], "--tls-key"),
        (vec!["--access", tokens], "chmod 600"),
        (vec!["--access", "nowhere.yaml"], "nowhere.yaml"),
        (vec!["--listen", "0.0.0.0:0"], "--tls-cert"),
    ] {
        let mut all = vec!["--listen", "127.0.0.1:0"];
        if arguments[0] == "--listen" {
            all.clear();
        }
        all.extend(&arguments);
        let output = serve(&all).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && said.contains(told),
            "{arguments:?}: {said}"
        );
    }
}
