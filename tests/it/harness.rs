//! A whole service in this process: real sockets, virtual time.
//!
//! The clock stands still until a test moves it, so nothing here waits for time to pass; what
//! is waited for is a message of the service. Each listener has a thread and a runtime of its
//! own, as in production, so that concurrent questions really are.

use std::{
    net::TcpListener,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, UNIX_EPOCH},
};

use holdoff::{
    access::{Access, Keyring, Limits},
    clock::Clock,
    coordinator::{Coordinator, Parts},
    durable::{Durable, PermitKey, Start},
    entropy::Entropy,
    policy::Source,
    server::{self, Connections, Gate},
    settings::ConnectionSettings,
    store::MemoryStore,
};
use holdoff_client::proto::{
    AcquireRequest, AcquireResponse, BreakerState, Caller, Denial, DenialReason, Dependency,
    GetDependencyRequest, Grant, Outcome, OutcomeKind, PermitResult, Previous, ReportEntry,
    ReportReason, ReportRequest, ReportResult, Safety, acquire_response::Verdict,
    coordinator_service_client::CoordinatorServiceClient,
    operator_service_client::OperatorServiceClient, previous::MadeUnder, report_entry::Entry,
};
use tokio::sync::{oneshot, watch};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt;

/// What the manual clock shows at t = 0; also what the cases call W, as good as any.
pub const ORIGIN: u64 = 1_700_000_000_000_000_000;
/// Nothing that a test waits for takes so long, unless it never comes.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Service {
    pub coordinator: Arc<Coordinator<MemoryStore>>,
    pub urls: Vec<String>,
    pub access: Arc<Access>,
    connections: Connections,
    clock: Arc<AtomicU64>,
    stop: watch::Sender<bool>,
    workers: Vec<(oneshot::Receiver<()>, thread::JoinHandle<()>)>,
}

/// How a service under test is made.
pub struct Setup<'a> {
    pub policies: &'a str,
    pub data_dir: Option<&'a Path>,
    pub workers: usize,
    pub entropy: Entropy,
    pub at_ms: u64,
    /// The text of an access file; `None`: everybody may do everything.
    pub access: Option<&'a str>,
    pub limits: Limits,
    pub connections: ConnectionSettings,
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Self {
            policies: "version: 1",
            data_dir: None,
            workers: 1,
            entropy: Entropy::seeded(7),
            at_ms: 0,
            access: None,
            limits: Limits::default(),
            connections: ConnectionSettings::default(),
        }
    }
}

pub fn source(text: &str) -> Source {
    Source {
        name: "policies.yaml".into(),
        text: text.into(),
    }
}

/// A policy file with one entry for the dependency `d`, in YAML's flow style.
pub fn policy_of_d(entry: &str) -> String {
    format!("version: 1\nnamespaces: {{default: {{dependencies: {{d: {entry}}}}}}}\n")
}

impl Service {
    pub async fn start(policies: &str) -> Self {
        Self::start_with(Setup {
            policies,
            ..Setup::default()
        })
        .await
    }

    pub async fn start_with(setup: Setup<'_>) -> Self {
        let now = ORIGIN + setup.at_ms * 1_000_000;
        let (clock, handle) = Clock::manual(holdoff_decision::Time(now));
        let start = Start {
            wall_now: UNIX_EPOCH + Duration::from_nanos(now),
            fresh_permit_key: PermitKey(setup.entropy.key()),
        };
        let opened = match setup.data_dir {
            Some(path) => Durable::open(path, start).expect("the data directory opens"),
            None => Durable::in_memory(start),
        };
        // Each start without a directory is a first one here, so that tests know the epochs.
        let store = match setup.data_dir {
            Some(_) => MemoryStore::after_epoch(opened.state.epochs_before()),
            None => MemoryStore::default(),
        };
        let access = match setup.access {
            Some(text) => Access::held_by(Keyring::parse(text).unwrap(), clock.clone()),
            None => Access::open(clock.clone()),
        };
        let access = access.limited_to(setup.limits);
        let parts = Parts {
            store,
            clock,
            entropy: setup.entropy,
            opened,
        };
        let begun = Coordinator::start(parts, vec![source(setup.policies)]).await;
        let begun = begun.unwrap_or_else(|findings| panic!("policies refused: {findings:?}"));
        assert_eq!(begun.warnings, Vec::<String>::new());
        let coordinator = Arc::new(begun.coordinator);
        let (stop, stopped) = watch::channel(false);
        let mut service = Self {
            coordinator,
            urls: Vec::new(),
            access: Arc::new(access),
            connections: Connections::new(setup.connections),
            clock: handle,
            stop,
            workers: Vec::new(),
        };
        for index in 0..setup.workers {
            service.serve(index, stopped.clone());
        }
        service
    }

    fn serve(&mut self, index: usize, stopped: watch::Receiver<bool>) {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let port = socket.local_addr().unwrap().port();
        self.urls.push(format!("http://127.0.0.1:{port}"));
        let coordinator = Arc::clone(&self.coordinator);
        let gate = Gate {
            access: Arc::clone(&self.access),
            tls: None,
            connections: self.connections.clone(),
        };
        let (done, ended) = oneshot::channel();
        let worker = thread::spawn(move || {
            let _done: oneshot::Sender<()> = done;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let publishing = Arc::clone(&coordinator);
                if index == 0 {
                    tokio::spawn(async move { publishing.publish_events().await });
                }
                server::serve_behind(gate, socket, coordinator, stopped)
                    .await
                    .unwrap();
            });
        });
        self.workers.push((ended, worker));
    }

    /// Moves the clock to so many milliseconds after t = 0; also backwards.
    pub fn at_ms(&self, ms: u64) {
        self.clock.store(ORIGIN + ms * 1_000_000, Ordering::SeqCst);
    }

    pub async fn client(&self) -> Client {
        Client::connect(&self.urls[0]).await
    }

    /// Ends the service and waits until it is gone, which its clients must be too. Nothing is
    /// closed in order: what is on disk is what was acknowledged.
    pub async fn end(mut self) {
        let _ = self.stop.send(true);
        for (done, worker) in self.workers.drain(..) {
            // Awaited first: connections end on this very runtime.
            let _ = done.await;
            worker.join().expect("a worker panicked");
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Clients of the test may still be connected: the workers end when those are gone.
        let _ = self.stop.send(true);
    }
}

/// Clients of both services on one connection.
#[derive(Clone)]
pub struct Client {
    pub asks: CoordinatorServiceClient<Channel>,
    pub operates: OperatorServiceClient<Channel>,
}

impl Client {
    pub async fn connect(url: &str) -> Self {
        let endpoint = Endpoint::from_shared(url.to_owned())
            .unwrap()
            .timeout(PATIENCE);
        let channel = endpoint.connect().await.unwrap();
        Self {
            asks: CoordinatorServiceClient::new(channel.clone())
                .max_decoding_message_size(4 * 1024 * 1024),
            operates: OperatorServiceClient::new(channel),
        }
    }

    pub async fn ask(&mut self, request: AcquireRequest) -> AcquireResponse {
        self.asks.acquire(request).await.unwrap().into_inner()
    }

    pub async fn refused(&mut self, request: AcquireRequest) -> Status {
        self.asks.acquire(request).await.unwrap_err()
    }

    pub async fn granted(&mut self, request: AcquireRequest) -> Grant {
        grant_of(self.ask(request).await)
    }

    pub async fn denied(&mut self, request: AcquireRequest) -> Denial {
        denial_of(self.ask(request).await)
    }

    /// Reports one permit of the default namespace.
    pub async fn report(&mut self, permit: &[u8], outcome: Outcome) -> ReportResult {
        let request = ReportRequest {
            entries: vec![result(permit, outcome)],
            ..ReportRequest::default()
        };
        let response = self.asks.report(request).await.unwrap().into_inner();
        assert_eq!(response.results.len(), 1);
        response.results[0]
    }

    pub async fn reported(&mut self, permit: &[u8], kind: OutcomeKind) -> ReportReason {
        let result = self.report(permit, outcome(kind)).await;
        assert_eq!(result.applied, result.reason() == ReportReason::Ok);
        result.reason()
    }

    /// One call of `dependency` from its question to its report.
    pub async fn call(&mut self, dependency: &str, kind: OutcomeKind) {
        let grant = self.granted(first(dependency)).await;
        assert_eq!(self.reported(&grant.permit, kind).await, ReportReason::Ok);
    }

    /// So many failed calls, which the caller knows to be enough for a trip.
    pub async fn trip(&mut self, dependency: &str, failures: usize) {
        for _ in 0..failures {
            self.call(dependency, OutcomeKind::Failure).await;
        }
        assert_eq!(self.get(dependency).await.state(), BreakerState::Open);
    }

    pub async fn get(&mut self, dependency: &str) -> Dependency {
        let request = GetDependencyRequest {
            dependency: dependency.into(),
            ..Default::default()
        };
        let response = self.operates.get_dependency(request).await.unwrap();
        response.into_inner().dependency.unwrap()
    }
}

pub fn first(dependency: &str) -> AcquireRequest {
    AcquireRequest {
        dependency: dependency.into(),
        attempt: 1,
        ..AcquireRequest::default()
    }
}

/// The first attempt of a named instance.
pub fn first_of(dependency: &str, instance: &str) -> AcquireRequest {
    AcquireRequest {
        caller: caller(instance),
        ..first(dependency)
    }
}

/// An idempotent attempt after one that ended as `kind`.
pub fn retry(dependency: &str, attempt: u32, permit: &[u8], kind: OutcomeKind) -> AcquireRequest {
    retry_after(dependency, attempt, permit, outcome(kind))
}

pub fn retry_after(
    dependency: &str,
    attempt: u32,
    permit: &[u8],
    outcome: Outcome,
) -> AcquireRequest {
    AcquireRequest {
        attempt,
        safety: Safety::Idempotent.into(),
        previous: Some(Previous {
            made_under: Some(MadeUnder::Permit(permit.to_vec().into())),
            outcome: Some(outcome),
        }),
        ..first(dependency)
    }
}

/// As [`retry`], after an attempt that was made on pushed state.
pub fn retry_on(dependency: &str, attempt: u32, epoch: u64, kind: OutcomeKind) -> AcquireRequest {
    let mut request = retry(dependency, attempt, b"", kind);
    if let Some(previous) = &mut request.previous {
        previous.made_under = Some(MadeUnder::Epoch(epoch));
    }
    request
}

/// Asks once more, just before the call.
pub fn confirm(dependency: &str, permit: &[u8]) -> AcquireRequest {
    AcquireRequest {
        attempt: 2,
        confirm: permit.to_vec().into(),
        ..first(dependency)
    }
}

pub fn hedge(dependency: &str, call_id: &str) -> AcquireRequest {
    AcquireRequest {
        hedge: true,
        call_id: call_id.into(),
        safety: Safety::Idempotent.into(),
        ..first(dependency)
    }
}

pub fn caller(instance: &str) -> Option<Caller> {
    Some(Caller {
        service: "tests".into(),
        instance: instance.into(),
    })
}

pub fn outcome(kind: OutcomeKind) -> Outcome {
    Outcome {
        kind: kind.into(),
        ..Outcome::default()
    }
}

pub fn result(permit: &[u8], outcome: Outcome) -> ReportEntry {
    ReportEntry {
        entry: Some(Entry::Result(PermitResult {
            permit: permit.to_vec().into(),
            outcome: Some(outcome),
        })),
    }
}

#[track_caller]
pub fn grant_of(response: AcquireResponse) -> Grant {
    match response.verdict {
        Some(Verdict::Grant(grant)) => grant,
        other => panic!("not a grant: {other:?}"),
    }
}

#[track_caller]
pub fn denial_of(response: AcquireResponse) -> Denial {
    match response.verdict {
        Some(Verdict::Denial(denial)) => denial,
        other => panic!("not a denial: {other:?}"),
    }
}

#[track_caller]
pub fn reason_of(response: AcquireResponse) -> DenialReason {
    denial_of(response).reason()
}

pub fn seconds(span: u64) -> prost_types::Duration {
    prost_types::Duration {
        seconds: span as i64,
        nanos: 0,
    }
}

/// A span of the wire in milliseconds.
#[track_caller]
pub fn ms(span: Option<prost_types::Duration>) -> f64 {
    let span = span.expect("a span");
    assert!(span.seconds >= 0 && (0..1_000_000_000).contains(&span.nanos));
    span.seconds as f64 * 1e3 + f64::from(span.nanos) / 1e6
}

/// What a message that is too large gets.
#[track_caller]
pub fn assert_names_the_limit(status: &Status) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.message().contains("262144"), "{}", status.message());
    let info = status.get_details_error_info().expect("ErrorInfo");
    assert_eq!(info.reason, "MESSAGE_TOO_LARGE");
    assert_eq!(info.metadata["limit_bytes"], "262144");
}

/// What every refused request must carry: the code, a reason for machines, and the field.
#[track_caller]
pub fn assert_refused(status: &Status, field: &str) {
    assert_eq!(status.code(), Code::InvalidArgument, "{field}: {status:?}");
    let details = status.get_error_details();
    assert!(details.error_info().is_some(), "{field}: no ErrorInfo");
    let violations = &details.bad_request().expect("BadRequest").field_violations;
    let named: Vec<_> = violations.iter().map(|v| v.field.as_str()).collect();
    assert!(named.contains(&field), "{field} is not among {named:?}");
    assert!(status.message().contains(field), "{}", status.message());
}
