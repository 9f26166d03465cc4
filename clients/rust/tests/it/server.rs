//! A service that answers as a test says, on virtual time: connections are pairs of pipes
//! within the process.

use std::{
    collections::HashSet,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use holdoff_client::{Builder, Client, proto};
use hyper_util::rt::TokioIo;
use tokio::{io::DuplexStream, sync::mpsc};
use tokio_stream::{Stream, StreamExt, wrappers::ReceiverStream};
use tonic::{
    Code, Request, Response, Status, Streaming,
    transport::{Channel, Endpoint, Server},
};

use self::stubs::coordinator_service_server::{CoordinatorService, CoordinatorServiceServer};

#[allow(clippy::all)]
mod stubs {
    include!(concat!(env!("OUT_DIR"), "/scripted/holdoff.v1.rs"));
}

/// What the service does with a question.
pub enum Reply {
    Answer(Box<proto::AcquireResponse>),
    Fail(Code),
    /// Silence.
    Never,
    /// The answer, so much later.
    Late(Duration, Box<proto::AcquireResponse>),
}

/// One thing that came over the wire.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrival {
    Question { attempt: u32 },
    Report { tallies: usize, permits: usize },
}

/// `None`: silence.
type Planner = Box<
    dyn FnMut(&proto::PlanCheckRequest) -> Option<Result<proto::PlanCheckResponse, Status>> + Send,
>;
type Script = Box<dyn FnMut(&proto::AcquireRequest) -> Reply + Send>;

#[derive(Clone)]
pub struct Scripted {
    shared: Arc<Shared>,
}

struct Shared {
    script: Mutex<Script>,
    questions: Mutex<Vec<proto::AcquireRequest>>,
    batches: Mutex<Vec<usize>>,
    reports: Mutex<Vec<proto::ReportRequest>>,
    hellos: Mutex<Vec<proto::Hello>>,
    subscriptions: Mutex<Vec<proto::Subscribe>>,
    /// Questions and reports, as they came.
    arrivals: Mutex<Vec<Arrival>>,
    live: Mutex<Vec<mpsc::Sender<Result<proto::SessionResponse, Status>>>>,
    sessions: AtomicUsize,
    begun: Mutex<Vec<tokio::time::Instant>>,
    unary_only: AtomicBool,
    takes_reports: AtomicBool,
    plans: Mutex<Planner>,
    plans_asked: Mutex<Vec<proto::PlanCheckRequest>>,
    updates: Mutex<Vec<proto::Update>>,
    /// Dropped, there is nobody to connect to.
    up: Mutex<Option<mpsc::Sender<io::Result<DuplexStream>>>>,
    wires: Mutex<Vec<tokio::task::AbortHandle>>,
}

impl Scripted {
    pub fn new(script: impl FnMut(&proto::AcquireRequest) -> Reply + Send + 'static) -> Self {
        let scripted = Self {
            shared: Arc::new(Shared {
                script: Mutex::new(Box::new(script)),
                questions: Mutex::default(),
                batches: Mutex::default(),
                reports: Mutex::default(),
                hellos: Mutex::default(),
                subscriptions: Mutex::default(),
                arrivals: Mutex::default(),
                live: Mutex::default(),
                sessions: AtomicUsize::new(0),
                begun: Mutex::default(),
                unary_only: AtomicBool::new(false),
                takes_reports: AtomicBool::new(true),
                plans: Mutex::new(Box::new(|_| Some(Err(Status::unimplemented("no plans"))))),
                plans_asked: Mutex::default(),
                updates: Mutex::default(),
                up: Mutex::default(),
                wires: Mutex::default(),
            }),
        };
        scripted.start();
        scripted
    }

    /// A service that grants everything at once.
    pub fn granting() -> Self {
        Self::new(|_| grant(Duration::ZERO))
    }

    pub fn script(&self, script: impl FnMut(&proto::AcquireRequest) -> Reply + Send + 'static) {
        *self.shared.script.lock().unwrap() = Box::new(script);
    }

    /// Plans checks so; `None` is silence.
    pub fn plan(
        &self,
        plan: impl FnMut(&proto::PlanCheckRequest) -> Option<Result<proto::PlanCheckResponse, Status>>
        + Send
        + 'static,
    ) {
        *self.shared.plans.lock().unwrap() = Box::new(plan);
    }

    pub fn plans_asked(&self) -> Vec<proto::PlanCheckRequest> {
        self.shared.plans_asked.lock().unwrap().clone()
    }

    pub fn start(&self) {
        let (up, incoming) = mpsc::channel(16);
        let serving = Server::builder()
            .add_service(CoordinatorServiceServer::new(self.clone()))
            .serve_with_incoming(ReceiverStream::new(incoming));
        tokio::spawn(async move { drop(serving.await) });
        *self.shared.up.lock().unwrap() = Some(up);
    }

    /// Serves over TLS on a real socket too, to clients that send this token.
    pub fn serve_encrypted(
        &self,
        listener: tokio::net::TcpListener,
        tls: tonic::transport::ServerTlsConfig,
        token: &'static str,
    ) {
        let expected = format!("Bearer {token}");
        let wants_token = move |request: Request<()>| match request.metadata().get("authorization")
        {
            Some(value) if value == expected.as_str() => Ok(request),
            Some(_) | None => Err(Status::unauthenticated("no token")),
        };
        let service = CoordinatorServiceServer::with_interceptor(self.clone(), wants_token);
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        let mut serving = Server::builder().tls_config(tls).unwrap();
        let serving = serving.add_service(service).serve_with_incoming(incoming);
        tokio::spawn(async move { drop(serving.await) });
    }

    /// Breaks all connections and refuses new ones.
    pub fn kill(&self) {
        self.shared.up.lock().unwrap().take();
        self.shared.live.lock().unwrap().clear();
        for wire in self.shared.wires.lock().unwrap().drain(..) {
            wire.abort();
        }
    }

    pub fn has_no_stream(&self) {
        self.shared.unary_only.store(true, SeqCst);
    }

    pub fn takes_reports(&self, takes: bool) {
        self.shared.takes_reports.store(takes, SeqCst);
    }

    /// Pushes an update at the beginning of each session.
    pub fn pushes(&self, update: proto::Update) {
        self.shared.updates.lock().unwrap().push(update);
    }

    /// Pushes an update on all sessions now. It has arrived when this returns.
    pub async fn pushes_now(&self, update: proto::Update) {
        for session in self.shared.live.lock().unwrap().iter() {
            drop(session.try_send(Ok(pushed(update.clone()))));
        }
        tokio::time::sleep(Duration::from_micros(1)).await;
    }

    pub fn arrivals(&self) -> Vec<Arrival> {
        self.shared.arrivals.lock().unwrap().clone()
    }

    pub fn subscriptions(&self) -> Vec<proto::Subscribe> {
        self.shared.subscriptions.lock().unwrap().clone()
    }

    /// All tallies, but those of reports that were repeated.
    pub fn tallies(&self) -> Vec<proto::Tally> {
        let mut seen = HashSet::new();
        let mut tallies = Vec::new();
        for report in self.reports() {
            if seen.insert(report.sequence) {
                tallies.extend(report.entries.into_iter().filter_map(tally_of));
            }
        }
        tallies
    }

    pub fn questions(&self) -> Vec<proto::AcquireRequest> {
        self.shared.questions.lock().unwrap().clone()
    }

    pub fn batches(&self) -> Vec<usize> {
        self.shared.batches.lock().unwrap().clone()
    }

    pub fn reports(&self) -> Vec<proto::ReportRequest> {
        self.shared.reports.lock().unwrap().clone()
    }

    pub fn hellos(&self) -> Vec<proto::Hello> {
        self.shared.hellos.lock().unwrap().clone()
    }

    pub fn sessions(&self) -> usize {
        self.shared.sessions.load(SeqCst)
    }

    /// When each session began.
    pub fn session_times(&self) -> Vec<tokio::time::Instant> {
        self.shared.begun.lock().unwrap().clone()
    }

    /// The kinds of all outcomes reported, in order.
    pub fn reported_kinds(&self) -> Vec<proto::OutcomeKind> {
        let outcomes = self.reports().into_iter().flat_map(|report| report.entries);
        outcomes.map(|entry| kind_of(&entry)).collect()
    }

    pub fn builder(&self) -> Builder {
        let service = self.clone();
        Client::builder()
            .service("checkout")
            .instance("test-1")
            .dial_with(move |endpoint| service.clone().dialled(endpoint))
    }

    pub async fn dialled(self, endpoint: Endpoint) -> io::Result<Channel> {
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let (near, mut near_end) = tokio::io::duplex(1 << 16);
        let (mut far_end, far) = tokio::io::duplex(1 << 16);
        let wire = tokio::spawn(async move {
            drop(tokio::io::copy_bidirectional(&mut near_end, &mut far_end).await);
        });
        self.shared.wires.lock().unwrap().push(wire.abort_handle());
        let up = self.shared.up.lock().unwrap().clone().ok_or_else(refused)?;
        up.send(Ok(far)).await.map_err(|_| refused())?;
        let mut near = Some(near);
        let connector = tower::service_fn(move |_| {
            let near = near.take().ok_or_else(refused);
            async move { near.map(TokioIo::new) }
        });
        let connected = endpoint.connect_with_connector(connector).await;
        connected.map_err(io::Error::other)
    }

    pub fn client(&self) -> Client {
        self.builder().build().unwrap()
    }

    fn answer(&self, question: &proto::AcquireRequest) -> Reply {
        self.shared.questions.lock().unwrap().push(question.clone());
        let attempt = question.attempt;
        self.arrived(Arrival::Question { attempt });
        (self.shared.script.lock().unwrap())(question)
    }

    async fn answer_all(&self, batch: proto::AcquireBatch) -> Option<proto::AcquireBatchResponse> {
        use proto::acquire_item::Result as Item;
        self.shared
            .batches
            .lock()
            .unwrap()
            .push(batch.requests.len());
        let mut items = Vec::new();
        for question in batch.requests {
            let result = match self.answer(&question) {
                Reply::Answer(response) => Item::Response(*response),
                Reply::Late(late, response) => {
                    tokio::time::sleep(late).await;
                    Item::Response(*response)
                }
                Reply::Fail(code) => Item::Status(tonic_types::Status {
                    code: code as i32,
                    ..Default::default()
                }),
                Reply::Never => return None,
            };
            items.push(proto::AcquireItem {
                result: Some(result),
            });
        }
        Some(proto::AcquireBatchResponse { items })
    }

    fn arrived(&self, arrival: Arrival) {
        self.shared.arrivals.lock().unwrap().push(arrival);
    }

    fn take_report(&self, report: proto::ReportRequest) -> Option<proto::ReportResponse> {
        let result = proto::ReportResult {
            applied: true,
            reason: proto::ReportReason::Ok.into(),
        };
        let results = vec![result; report.entries.len()];
        let entries = report.entries.iter().cloned();
        let tallies = entries.filter_map(tally_of).count();
        let permits = report.entries.len() - tallies;
        self.arrived(Arrival::Report { tallies, permits });
        self.shared.reports.lock().unwrap().push(report);
        let takes = self.shared.takes_reports.load(SeqCst);
        takes.then_some(proto::ReportResponse { results })
    }

    async fn respond(&self, request: proto::SessionRequest) -> Option<proto::SessionResponse> {
        use proto::{session_request::Message as Asked, session_response::Message as Said};
        let message = match request.message? {
            Asked::Hello(hello) => {
                self.shared.hellos.lock().unwrap().push(hello);
                return None;
            }
            Asked::Subscribe(subscribe) => {
                self.shared.subscriptions.lock().unwrap().push(subscribe);
                return None;
            }
            Asked::Acquire(batch) => Said::Acquired(self.answer_all(batch).await?),
            Asked::Report(report) => Said::Reported(self.take_report(report)?),
        };
        Some(proto::SessionResponse {
            id: request.id,
            message: Some(message),
        })
    }
}

#[tonic::async_trait]
impl CoordinatorService for Scripted {
    async fn acquire(
        &self,
        request: Request<proto::AcquireRequest>,
    ) -> Result<Response<proto::AcquireResponse>, Status> {
        match self.answer(&request.into_inner()) {
            Reply::Answer(response) => Ok(Response::new(*response)),
            Reply::Late(late, response) => {
                tokio::time::sleep(late).await;
                Ok(Response::new(*response))
            }
            Reply::Fail(code) => Err(Status::new(code, "")),
            Reply::Never => std::future::pending().await,
        }
    }

    async fn report(
        &self,
        request: Request<proto::ReportRequest>,
    ) -> Result<Response<proto::ReportResponse>, Status> {
        match self.take_report(request.into_inner()) {
            Some(response) => Ok(Response::new(response)),
            None => std::future::pending().await,
        }
    }

    async fn plan_check(
        &self,
        request: Request<proto::PlanCheckRequest>,
    ) -> Result<Response<proto::PlanCheckResponse>, Status> {
        let request = request.into_inner();
        self.shared
            .plans_asked
            .lock()
            .unwrap()
            .push(request.clone());
        let planned = (self.shared.plans.lock().unwrap())(&request);
        match planned {
            Some(planned) => planned.map(Response::new),
            None => std::future::pending().await,
        }
    }

    type SessionStream = Pin<Box<dyn Stream<Item = Result<proto::SessionResponse, Status>> + Send>>;

    async fn session(
        &self,
        request: Request<Streaming<proto::SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        if self.shared.unary_only.load(SeqCst) {
            return Err(Status::unimplemented(""));
        }
        self.shared.sessions.fetch_add(1, SeqCst);
        let now = tokio::time::Instant::now();
        self.shared.begun.lock().unwrap().push(now);
        let (out, responses) = mpsc::channel(64);
        for update in self.shared.updates.lock().unwrap().clone() {
            out.try_send(Ok(pushed(update))).unwrap();
        }
        self.shared.live.lock().unwrap().push(out.clone());
        let (service, mut requests) = (self.clone(), request.into_inner());
        tokio::spawn(async move {
            while let Some(Ok(request)) = requests.next().await {
                let (service, out) = (service.clone(), out.clone());
                // Answers may come in any order.
                tokio::spawn(async move {
                    if let Some(response) = service.respond(request).await {
                        drop(out.send(Ok(response)).await);
                    }
                });
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(responses))))
    }
}

/// A client of two services, the first of them preferred.
pub fn failover(services: [&Scripted; 2]) -> Client {
    let services = services.map(Clone::clone);
    Client::builder()
        .endpoints(["http://first:1", "http://second:2"])
        .dial_with(move |endpoint| {
            let is_first = endpoint.uri().host() == Some("first");
            let [first, second] = services.clone();
            let service = if is_first { first } else { second };
            service.dialled(endpoint)
        })
        .build()
        .unwrap()
}

pub fn kind_of(entry: &proto::ReportEntry) -> proto::OutcomeKind {
    match entry.entry.as_ref().unwrap() {
        proto::report_entry::Entry::Result(result) => result.outcome.as_ref().unwrap().kind(),
        proto::report_entry::Entry::Tally(_) => panic!("a tally: {entry:?}"),
    }
}

fn tally_of(entry: proto::ReportEntry) -> Option<proto::Tally> {
    match entry.entry {
        Some(proto::report_entry::Entry::Tally(tally)) => Some(tally),
        Some(proto::report_entry::Entry::Result(_)) | None => None,
    }
}

fn pushed(update: proto::Update) -> proto::SessionResponse {
    proto::SessionResponse {
        id: 0,
        message: Some(proto::session_response::Message::Update(update)),
    }
}

/// A closed breaker lets first attempts of `payments` go, for fifteen seconds.
pub fn go(epoch: u64) -> proto::Update {
    proto::Update {
        dependency: "payments".into(),
        state: proto::BreakerState::Closed.into(),
        epoch,
        first_attempts: proto::FirstAttempts::Go.into(),
        valid_for: Some(wire(Duration::from_secs(15))),
        ..Default::default()
    }
}

/// An open breaker refuses those of `payments`.
pub fn refuse(epoch: u64, valid_for: Duration) -> proto::Update {
    proto::Update {
        state: proto::BreakerState::Open.into(),
        first_attempts: proto::FirstAttempts::Refuse.into(),
        valid_for: Some(wire(valid_for)),
        ..go(epoch)
    }
}

/// The sum of tallies, whatever their epochs.
pub fn sum(tallies: &[proto::Tally]) -> proto::Tally {
    let mut sum = proto::Tally::default();
    let mut latency = Duration::ZERO;
    for tally in tallies {
        sum.first_attempts += tally.first_attempts;
        sum.successes += tally.successes;
        sum.failures += tally.failures;
        sum.timeouts += tally.timeouts;
        sum.throttled += tally.throttled;
        sum.rejected += tally.rejected;
        sum.slow += tally.slow;
        sum.ignored += tally.ignored;
        latency += Duration::try_from(tally.latency_sum.unwrap()).unwrap();
    }
    sum.latency_sum = Some(wire(latency));
    sum
}

pub fn wire(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration).unwrap()
}

/// Yes, with a permit that lives for a minute.
pub fn granted(delay: Duration) -> proto::Grant {
    proto::Grant {
        delay: Some(wire(delay)),
        permit: "permit".into(),
        permit_ttl: Some(wire(Duration::from_secs(60))),
        ..Default::default()
    }
}

pub fn answer(grant: proto::Grant) -> Reply {
    Reply::Answer(Box::new(proto::AcquireResponse {
        verdict: Some(proto::acquire_response::Verdict::Grant(grant)),
        state: proto::BreakerState::Closed.into(),
        epoch: 1,
        ..Default::default()
    }))
}

pub fn grant(delay: Duration) -> Reply {
    answer(granted(delay))
}

pub fn deny(reason: proto::DenialReason, retry_after: Option<Duration>) -> Reply {
    Reply::Answer(Box::new(proto::AcquireResponse {
        verdict: Some(proto::acquire_response::Verdict::Denial(proto::Denial {
            reason: reason.into(),
            retry_after: retry_after.map(wire),
            detail: "because".into(),
        })),
        ..Default::default()
    }))
}
