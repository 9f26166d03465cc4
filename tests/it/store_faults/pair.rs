//! Two real replicas over one store, with a way in between that fails: what is asked of them, and the
//! laws that hold whatever happens to the store.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use holdoff::store::redis::Decisions;
use holdoff_client::proto::{
    AcquireRequest, AcquireResponse, Caller, ClearHoldRequest, ClearOverrideRequest, DenialReason,
    Outcome, OutcomeKind, OverrideKind, PermitResult, PlanCheckRequest, Previous, ReportEntry,
    ReportReason, ReportRequest, ResetDependencyRequest, Safety, SetOverrideRequest,
    acquire_response::Verdict, previous::MadeUnder, report_entry::Entry,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt;

use super::proxy::Proxy;
use crate::{
    harness::Client,
    stores::{Make, Server},
};

/// The bound that is promised, on a machine that has time. Here nine of ten must keep it.
const ANSWERED_WITHIN: Duration = Duration::from_millis(100);
/// Here every one must keep this.
const ANSWERED_AT_LAST: Duration = Duration::from_secs(2);
/// Promised are five seconds; a loaded machine gets as much again.
const BACK_WITHIN: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(30);

const POLICIES: &str = "\
version: 1
namespaces:
  default:
    defaults:
      breaker: {spread: 0s, open_for: 700ms, open_multiplier: 1, probe_lease: 1s, probe_successes: 1}
      ramp: {start: 1.0}
      budget: {ratio: 0.2, floor_per_second: 1, ttl: 300s}
    dependencies:
      budget: {budget: {ratio: 0.2, floor_per_second: 0.1, ttl: 300s}}
      checked: {check: {period: 30s}}
";
/// Of the dependency `budget`, over its window.
const FLOOR: u32 = 30;

pub struct Replica {
    child: Child,
    pub client: Client,
    grpc: String,
    http: String,
    log: tempfile::NamedTempFile,
    /// How long each RPC took.
    took: Vec<Duration>,
}

impl Replica {
    pub async fn start(store: &str, path: Decisions, policies: &std::path::Path) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let path = match path {
            Decisions::Leased => "leased",
            Decisions::Strict => "strict",
        };
        let mut child = Command::new(env!("CARGO_BIN_EXE_holdoff"))
            .args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .args(["--workers", "1", "--store-decisions", path, "--policies"])
            .arg(policies)
            .env("HOLDOFF_STORE", store)
            .env("RUST_LOG", "info")
            .stdout(Stdio::piped())
            .stderr(log.reopen().unwrap())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut address = |head: &str| {
            let line = lines.next().and_then(Result::ok).unwrap_or_default();
            match line.strip_prefix(head) {
                Some(address) => address.to_owned(),
                None => panic!("{line:?}: {}", std::fs::read_to_string(log.path()).unwrap()),
            }
        };
        let grpc = format!("http://{}", address("holdoff: gRPC on "));
        let http = address("holdoff: HTTP on ");
        let client = Client::connect(&grpc).await;
        Self {
            child,
            client,
            grpc,
            http,
            log,
            took: Vec::new(),
        }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap()
    }

    /// Open file descriptors of the process.
    pub fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.child.id());
        std::fs::read_dir(folder).unwrap().count()
    }

    pub async fn ask(&mut self, request: AcquireRequest) -> AcquireResponse {
        let begun = Instant::now();
        let answer = self.client.ask(request).await;
        self.took.push(begun.elapsed());
        answer
    }

    pub async fn first(&mut self, dependency: &str) -> AcquireResponse {
        self.ask(question(dependency)).await
    }

    pub async fn report(&mut self, permit: &[u8], kind: OutcomeKind) -> ReportReason {
        let entry = Entry::Result(PermitResult {
            permit: permit.to_vec().into(),
            outcome: Some(outcome(kind)),
        });
        let request = ReportRequest {
            caller: Some(caller()),
            entries: vec![ReportEntry { entry: Some(entry) }],
            ..ReportRequest::default()
        };
        let begun = Instant::now();
        let told = self.client.asks.report(request).await.unwrap();
        self.took.push(begun.elapsed());
        told.into_inner().results[0].reason()
    }

    pub async fn retry(&mut self, dependency: &str, permit: &[u8]) -> AcquireResponse {
        let asked = AcquireRequest {
            attempt: 2,
            safety: Safety::Idempotent.into(),
            previous: Some(Previous {
                made_under: Some(MadeUnder::Permit(permit.to_vec().into())),
                // Neither a success nor a failure.
                outcome: Some(outcome(OutcomeKind::Throttled)),
            }),
            ..question(dependency)
        };
        self.ask(asked).await
    }

    /// So many hedges of `budget`; says how many were granted.
    pub async fn hedge(&mut self, many: u32) -> u32 {
        let mut granted_all = 0;
        for _ in 0..many {
            let asked = AcquireRequest {
                attempt: 2,
                hedge: true,
                safety: Safety::Idempotent.into(),
                ..question("budget")
            };
            granted_all += u32::from(granted(&self.ask(asked).await).is_some());
        }
        granted_all
    }

    /// Plans a check; says whether it was planned alone.
    pub async fn plan(&mut self) -> bool {
        let asked = PlanCheckRequest {
            dependency: "checked".to_owned(),
            checker: Some(caller()),
            ..PlanCheckRequest::default()
        };
        let begun = Instant::now();
        let planned = self.client.asks.plan_check(asked).await.unwrap();
        self.took.push(begun.elapsed());
        planned.metadata().contains_key("holdoff-degraded")
    }

    pub async fn force_open(&mut self, dependency: &str) -> Result<(), tonic::Status> {
        let order = SetOverrideRequest {
            namespace: String::new(),
            dependency: dependency.to_owned(),
            kind: OverrideKind::ForceOpen.into(),
            owner: "ada".to_owned(),
            reason: "drill".to_owned(),
            expires_in: None,
        };
        self.client.operates.set_override(order).await.map(drop)
    }

    pub async fn reset(&mut self, dependency: &str) -> Result<(), tonic::Status> {
        let order = ResetDependencyRequest {
            namespace: String::new(),
            dependency: dependency.to_owned(),
            owner: "ada".to_owned(),
            reason: "drill".to_owned(),
        };
        self.client.operates.reset_dependency(order).await.map(drop)
    }

    pub async fn release(&mut self, dependency: &str) -> Result<(), tonic::Status> {
        let order = ClearOverrideRequest {
            namespace: String::new(),
            dependency: dependency.to_owned(),
            owner: "ada".to_owned(),
            reason: "drill".to_owned(),
        };
        self.client.operates.clear_override(order).await.map(drop)
    }

    pub async fn clear_hold(&mut self, dependency: &str) -> Result<(), tonic::Status> {
        let order = ClearHoldRequest {
            namespace: String::new(),
            dependency: dependency.to_owned(),
            owner: "ada".to_owned(),
            reason: "drill".to_owned(),
        };
        self.client.operates.clear_hold(order).await.map(drop)
    }

    /// A page of the HTTP side: status and text.
    pub async fn page(&self, path: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(&self.http).await.unwrap();
        let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.http);
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    pub async fn is_serving(&self) -> bool {
        let channel = tonic::transport::Endpoint::from_shared(self.grpc.clone()).unwrap();
        let mut health = HealthClient::new(channel.connect().await.unwrap());
        let told = health.check(HealthCheckRequest::default()).await.unwrap();
        told.into_inner().status()
            == tonic_health::pb::health_check_response::ServingStatus::Serving
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn caller() -> Caller {
    Caller {
        service: "shop".to_owned(),
        instance: "one".to_owned(),
    }
}

pub fn question(dependency: &str) -> AcquireRequest {
    AcquireRequest {
        dependency: dependency.to_owned(),
        attempt: 1,
        caller: Some(caller()),
        ..AcquireRequest::default()
    }
}

fn outcome(kind: OutcomeKind) -> Outcome {
    Outcome {
        kind: kind.into(),
        ..Outcome::default()
    }
}

pub fn granted(answer: &AcquireResponse) -> Option<&[u8]> {
    match &answer.verdict {
        Some(Verdict::Grant(grant)) => Some(&grant.permit),
        _ => None,
    }
}

pub fn denied(answer: &AcquireResponse) -> Option<DenialReason> {
    match &answer.verdict {
        Some(Verdict::Denial(denial)) => Some(denial.reason()),
        _ => None,
    }
}

fn is_probe(answer: &AcquireResponse) -> bool {
    matches!(&answer.verdict, Some(Verdict::Grant(grant)) if grant.probe)
}

/// Two replicas, what they share, and what they were asked.
pub struct Pair {
    pub server: Server,
    pub proxy: Proxy,
    pub replicas: Vec<Replica>,
    policies: tempfile::NamedTempFile,
    path: Decisions,
    /// First attempts of `counted`.
    counted: u64,
    /// Those of `new`, a name that nobody had before the store was away.
    begun: u64,
    /// Hedges of `budget` that were granted, and its first attempts.
    hedged: (u32, u32),
}

impl Pair {
    pub async fn start(make: Make, path: Decisions) -> Self {
        let server = Server::start(make, &[]);
        let proxy = Proxy::start(server.port);
        let policies = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
        std::fs::write(policies.path(), POLICIES).unwrap();
        let mut replicas = Vec::new();
        for _ in 0..2 {
            replicas.push(Replica::start(&proxy.url(), path, policies.path()).await);
        }
        let mut pair = Self {
            server,
            proxy,
            replicas,
            policies,
            path,
            counted: 0,
            begun: 0,
            hedged: (0, 0),
        };
        pair.prepare().await;
        pair
    }

    pub async fn one_more(&self) -> Replica {
        Replica::start(&self.proxy.url(), self.path, self.policies.path()).await
    }

    /// Both know a closed breaker, an open one, a forced one, and one whose calls are counted.
    async fn prepare(&mut self) {
        // Where nobody knows of a run before, no probe is leased for one lease time.
        pause(Duration::from_millis(1_100)).await;
        self.until_of_the_fleet("closed").await;
        for at in 0..2 {
            for dependency in ["closed", "broken", "forced", "tripped"] {
                self.replicas[at].first(dependency).await;
            }
            // A busy machine may take the store for away for a moment.
            let begun = Instant::now();
            while self.replicas[at].plan().await {
                assert!(begun.elapsed() < PATIENCE, "it plans alone");
                pause(Duration::from_millis(50)).await;
            }
            self.count(at).await;
        }
        self.hedged.0 += self.replicas[0].hedge(4).await;
        assert_eq!(self.hedged.0, 4);
        for replica in &mut self.replicas {
            // The other has heard of it now.
            replica.first("budget").await;
            self.hedged.1 += 1;
        }
        self.replicas[0].force_open("forced").await.unwrap();
        for _ in 0..40 {
            let answer = self.replicas[0].first("broken").await;
            match granted(&answer) {
                Some(permit) => {
                    let permit = permit.to_vec();
                    self.replicas[0].report(&permit, OutcomeKind::Failure).await;
                }
                None => break,
            }
        }
        for (dependency, wanted) in [
            ("broken", DenialReason::BreakerOpen),
            ("forced", DenialReason::ForcedOpen),
        ] {
            let begun = Instant::now();
            for replica in &mut self.replicas {
                while denied(&replica.first(dependency).await) != Some(wanted) {
                    assert!(begun.elapsed() < PATIENCE, "{dependency} is not {wanted:?}");
                    if wanted == DenialReason::BreakerOpen {
                        // It is half-open by now: as good as open for what is tested.
                        break;
                    }
                    pause(Duration::from_millis(20)).await;
                }
            }
        }
    }

    async fn count(&mut self, at: usize) {
        let answer = self.replicas[at].first("counted").await;
        self.counted += u64::from(granted(&answer).is_some());
    }

    /// Waits until both answer with the fleet; says how long it took.
    pub async fn until_of_the_fleet(&mut self, dependency: &str) -> Duration {
        let begun = Instant::now();
        for replica in &mut self.replicas {
            loop {
                let answer = replica.client.asks.acquire(question(dependency)).await;
                if answer.is_ok_and(|answer| !answer.into_inner().degraded) {
                    break;
                }
                assert!(
                    begun.elapsed() < PATIENCE,
                    "it is not of the fleet: {}",
                    replica.log()
                );
                pause(Duration::from_millis(20)).await;
            }
        }
        begun.elapsed()
    }

    /// Waits until both say that they decide alone.
    pub async fn until_alone(&mut self) {
        for replica in &mut self.replicas {
            let begun = Instant::now();
            loop {
                // A question on the strict path, a look of the keeper on the leased one.
                let answer = replica.first("closed").await;
                let page = replica.page("/readyz").await;
                if answer.degraded && page.contains("decides alone") {
                    break;
                }
                assert!(begun.elapsed() < PATIENCE, "it is not alone: {page}");
                pause(Duration::from_millis(20)).await;
            }
            // What it took to find out is within the same bound.
        }
    }

    /// What holds while the store is away.
    pub async fn endure(&mut self, rounds: usize) {
        for round in 0..rounds {
            for at in 0..2 {
                let replica = &mut self.replicas[at];
                let answer = replica.first("closed").await;
                assert!(answer.degraded, "{answer:?}");
                let permit = granted(&answer).expect("first attempts pass").to_vec();
                let told = replica.report(&permit, OutcomeKind::Success).await;
                assert_eq!(told, ReportReason::Ok);
                let told = replica.report(&permit, OutcomeKind::Success).await;
                assert_eq!(told, ReportReason::Duplicate);

                let answer = replica.first("broken").await;
                assert!(answer.degraded && !is_probe(&answer), "{answer:?}");
                let reason = denied(&answer);
                assert!(
                    reason == Some(DenialReason::BreakerOpen)
                        || reason == Some(DenialReason::ProbeInProgress),
                    "{answer:?}"
                );
                let answer = replica.first("forced").await;
                assert_eq!(denied(&answer), Some(DenialReason::ForcedOpen));
                assert!(answer.degraded);
                self.count(at).await;
                if round % 8 == 0 {
                    self.stands(at).await;
                }
            }
            pause(Duration::from_millis(15)).await;
        }
    }

    /// Each has its part of the budget, and all have no more than it is.
    pub async fn keep_to_the_budget(&mut self) {
        for replica in &mut self.replicas {
            let granted = replica.hedge(FLOOR).await;
            assert!(granted >= 5, "{granted} are no part of {FLOOR}");
            self.hedged.0 += granted;
        }
        self.budget_holds("alone", 0);
    }

    /// `lost`: retries that the store has lost.
    fn budget_holds(&self, when: &str, lost: u32) {
        let (granted, firsts) = self.hedged;
        println!("{when}: {granted} hedges, {firsts} first attempts");
        assert!(granted <= FLOOR + firsts / 5 + lost, "{when}: {granted}");
    }

    /// The first trips its breaker: it refuses at once, and the other goes on.
    pub async fn trip_at_the_first(&mut self) {
        for _ in 0..5 {
            let answer = self.replicas[0].first("tripped").await;
            let permit = granted(&answer).expect("it is closed").to_vec();
            let told = self.replicas[0].report(&permit, OutcomeKind::Failure).await;
            assert_eq!(told, ReportReason::Ok);
        }
        let here = self.replicas[0].first("tripped").await;
        assert_eq!(denied(&here), Some(DenialReason::BreakerOpen), "{here:?}");
        let there = self.replicas[1].first("tripped").await;
        assert!(granted(&there).is_some(), "{there:?}");
    }

    /// The trip at the first is the fleet's.
    pub async fn the_trip_is_the_fleets(&mut self) {
        let begun = Instant::now();
        for replica in &mut self.replicas {
            loop {
                let epoch = replica.client.get("tripped").await.epoch;
                replica.first("tripped").await;
                if epoch > 1 {
                    break;
                }
                assert!(begun.elapsed() < PATIENCE, "it is not told");
                pause(Duration::from_millis(50)).await;
            }
        }
    }

    async fn stands(&mut self, at: usize) {
        let replica = &mut self.replicas[at];
        assert!(replica.is_serving().await);
        assert!(replica.plan().await, "a check is planned, and marked");
        let page = replica.page("/readyz").await;
        assert!(page.starts_with("HTTP/1.0 200"), "{page}");
        assert!(page.contains("decides alone"), "{page}");
        let begun = replica.first("new").await;
        assert!(begun.degraded && granted(&begun).is_some(), "{begun:?}");
        self.begun += 1;
        let refused = replica.force_open("ordered-unknown").await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
        let info = refused.get_details_error_info().expect("it says why");
        assert_eq!(info.reason, "STORE_UNAVAILABLE");
        for refused in [
            replica.force_open("closed").await,
            replica.reset("closed").await,
            replica.reset("ordered-unknown").await,
            replica.release("ordered-unknown").await,
            replica.clear_hold("ordered-unknown").await,
        ] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
        }
    }

    /// What holds when the store is back. `lost`: first attempts and retries that it need not know.
    pub async fn return_to_the_fleet(&mut self, lost: (u64, u32)) -> Duration {
        let took = self.until_of_the_fleet("closed").await;
        assert!(took < BACK_WITHIN, "{took:?}");
        for at in 0..2 {
            // A retry takes along what its replica owes.
            let answer = self.replicas[at].first("counted").await;
            self.counted += 1;
            let permit = granted(&answer).expect("first attempts pass").to_vec();
            self.replicas[at].retry("counted", &permit).await;
        }
        for replica in &mut self.replicas {
            // What each granted alone is the fleet's by then.
            replica.first("budget").await;
            self.hedged.1 += 1;
        }
        for replica in &mut self.replicas {
            self.hedged.0 += replica.hedge(5).await;
        }
        self.budget_holds("together again", lost.1);
        self.what_began_alone_is_the_fleets().await;
        let least = self.counted.saturating_sub(lost.0);
        let begun = Instant::now();
        let shown = loop {
            let mut shown = Vec::new();
            for replica in &mut self.replicas {
                shown.push(replica.client.get("counted").await.first_attempts);
            }
            let is_there = shown.iter().all(|shown| *shown >= least);
            if is_there || begun.elapsed() > Duration::from_secs(8) {
                break shown;
            }
            pause(Duration::from_millis(100)).await;
        };
        println!("{} first attempts, shown {shown:?}", self.counted);
        for replica in &mut self.replicas {
            let forced = replica.first("forced").await;
            assert_eq!(denied(&forced), Some(DenialReason::ForcedOpen));
            let closed = replica.first("closed").await;
            assert!(granted(&closed).is_some(), "no order was half applied");
        }
        for shown in shown {
            assert!(shown >= least, "{shown} of {}", self.counted);
            assert!(shown <= self.counted, "{shown}: more than {}", self.counted);
        }
        took
    }

    async fn what_began_alone_is_the_fleets(&mut self) {
        for replica in &mut self.replicas {
            let answer = replica.first("new").await;
            self.begun += 1;
            let permit = granted(&answer).expect("first attempts pass").to_vec();
            replica.retry("new", &permit).await;
        }
        let begun = Instant::now();
        for at in 0..2 {
            loop {
                let shown = self.replicas[at].client.get("new").await.first_attempts;
                assert!(shown <= self.begun, "{shown}: more than {}", self.begun);
                if shown == self.begun {
                    break;
                }
                assert!(begun.elapsed() < PATIENCE, "{shown} of {}", self.begun);
                pause(Duration::from_millis(100)).await;
            }
        }
    }

    /// At most one probe is out over both, whoever asks.
    pub async fn one_probe_at_most(&mut self) {
        let mut probes = 0;
        let begun = Instant::now();
        while probes == 0 && begun.elapsed() < PATIENCE {
            for _ in 0..3 {
                for replica in &mut self.replicas {
                    probes += usize::from(is_probe(&replica.first("broken").await));
                }
            }
            pause(Duration::from_millis(20)).await;
        }
        assert_eq!(probes, 1);
    }

    /// How long answers took: all of them, and those of ten that nine keep.
    pub fn was_answered_in_time(&self, what: &str) {
        let mut took: Vec<Duration> = (self.replicas.iter())
            .flat_map(|replica| replica.took.iter().copied())
            .collect();
        took.sort_unstable();
        let (median, most) = (took[took.len() / 2], took[took.len() - 1]);
        let late = took.iter().filter(|it| **it > ANSWERED_WITHIN).count();
        println!(
            "{what}: {} RPCs, median {median:?}, most {most:?}, {late} above 100 ms",
            took.len()
        );
        assert!(most < ANSWERED_AT_LAST, "{what}: {most:?}");
        assert!(late * 10 <= took.len(), "{what}: {late} of {}", took.len());
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "real processes and a real store are what is tested"
)]
pub async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}
