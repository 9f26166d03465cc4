//! The real binary as a process: what it refuses to start with, and what a kill leaves.
//!
//! Real time and real disks here, since they are what is tested. What is waited for is the
//! process: its first line, a message of its own, or its end.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use holdoff_client::proto::{
    BreakerState, DenialReason, EventKind, GetPolicyRequest, ListEventsRequest, OutcomeKind,
    OverrideKind, PutPolicyRequest, ReportReason, WatchEventsRequest,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tonic::Code;

use crate::{harness::*, overrides::forced};

use OutcomeKind::Failure;

pub const BINARY: &str = env!("CARGO_BIN_EXE_holdoff");
/// Far longer than a start takes on a busy machine.
const START_WITHIN: Duration = Duration::from_secs(30);

pub fn serve(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command
        .args(["serve", "--http", "off", "--workers", "2"])
        .args(arguments);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HOLDOFF_")) {
        command.env_remove(name);
    }
    command
}

/// With what a service begins the line that says where it listens.
pub const LISTENS: &str = "holdoff: gRPC on ";

/// The rest of the next line, which begins with `what`. Where it does not, the test ends with the
/// service's log.
pub fn said(out: &mut impl BufRead, what: &str, log: impl FnOnce() -> String) -> String {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let said = line.trim().strip_prefix(what).map(str::to_owned);
    said.unwrap_or_else(|| panic!("it says {line:?} and not {what:?}: {}", log()))
}

/// A service that runs until it is killed, at the latest when it is dropped.
pub struct Running {
    child: Child,
    pub url: String,
}

impl Running {
    pub fn start(data_dir: &Path, policies: &Path) -> Self {
        Self::start_at("127.0.0.1:0", data_dir, policies)
    }

    /// On this address; it returns when the service listens.
    pub fn start_at(listen: &str, data_dir: &Path, policies: &Path) -> Self {
        let (data_dir, policies) = (data_dir.to_str().unwrap(), policies.to_str().unwrap());
        Self::of(serve(&[
            "--listen",
            listen,
            "--data-dir",
            data_dir,
            "--policies",
            policies,
        ]))
    }

    pub fn of(mut command: Command) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(log.reopen().unwrap())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let logged = || std::fs::read_to_string(log.path()).unwrap();
        let address = said(&mut out, LISTENS, logged);
        let url = format!("http://{address}");
        Self { child, url }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end by itself.
    pub fn ended(&mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }

    /// SIGTERM: it is asked to stop, and not waited for.
    pub fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// SIGKILL: nothing of it runs any more when this returns.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a process that should refuse to start says, and its exit code.
fn refuses(arguments: &[&str]) -> (i32, String) {
    let mut child = serve(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > START_WITHIN {
            let _ = child.kill();
            panic!("it started: {arguments:?}");
        }
        std::thread::yield_now();
    };
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(!said.contains("panicked"), "{said}");
    (status.code().expect("it exits by itself"), said)
}

pub fn written(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn what_it_cannot_start_with_is_refused_at_once_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy_at = busy.local_addr().unwrap().to_string();
    let bad = written(
        dir.path(),
        "bad.yaml",
        "version: 1\nnamespaces:\n  default:\n    defaults:\n      retry: {max_attempts: 0}\n",
    );
    let bad = bad.to_str().unwrap();
    let missing = dir.path().join("missing.yaml");
    let missing = missing.to_str().unwrap();
    let file = written(dir.path(), "file", "");
    let file = file.to_str().unwrap();
    for (arguments, names) in [
        (vec!["--listen", &*busy_at], &*busy_at),
        (
            vec!["--listen", "127.0.0.1:0", "--policies", missing],
            missing,
        ),
        (
            vec!["--listen", "127.0.0.1:0", "--policies", bad],
            "bad.yaml:5",
        ),
        (
            vec!["--listen", "127.0.0.1:0", "--policies", bad],
            "max_attempts",
        ),
        (vec!["--listen", "127.0.0.1:0", "--data-dir", file], file),
        (vec!["--listen", "0.0.0.0:0"], "--insecure"),
        (vec!["--listen", "[::]:0"], "--insecure"),
        (vec!["--listen", "nonsense"], "--listen"),
        (
            vec!["--listen", "127.0.0.1:0", "--workers", "0"],
            "--workers",
        ),
        (
            vec!["--listen", "127.0.0.1:0", "--unheard-of"],
            "--unheard-of",
        ),
    ] {
        let (code, said) = refuses(&arguments);
        assert!(code == 1 || code == 2, "{arguments:?}: {code}");
        assert!(said.contains(names), "{arguments:?}: {said}");
    }
    drop(busy);
}

#[test]
fn a_data_directory_in_use_is_refused_with_the_number_of_its_user() {
    let dir = tempfile::tempdir().unwrap();
    let policies = written(dir.path(), "policies.yaml", "version: 1\n");
    let data = dir.path().join("data");
    let mut first = Running::start(&data, &policies);
    let (code, said) = refuses(&[
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        data.to_str().unwrap(),
    ]);
    assert_eq!(code, 1);
    assert!(said.contains(data.to_str().unwrap()), "{said}");
    assert!(said.contains(&first.child.id().to_string()), "{said}");
    first.kill();
    drop(Running::start(&data, &policies));
}

#[tokio::test]
async fn a_port_in_use_by_another_holdoff_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let policies = written(dir.path(), "policies.yaml", "version: 1\n");
    let running = Running::start(&dir.path().join("data"), &policies);
    let at = running.url.strip_prefix("http://").unwrap();
    let (code, said) = refuses(&["--listen", at]);
    assert_eq!(code, 1);
    assert!(said.contains(at), "{said}");
    Client::connect(&running.url)
        .await
        .granted(first("d"))
        .await;
}

/// Everything that was acknowledged, by name.
#[derive(Default)]
struct Acknowledged {
    /// What holds, and what was on its way when the service died: either may be there.
    overrides: BTreeMap<String, (Option<OverrideKind>, Option<OverrideKind>)>,
    policies: BTreeMap<String, (Option<u32>, Option<u32>)>,
    trips: BTreeMap<String, Trip>,
    /// Trips that somebody who watches events was told of.
    told: Vec<(String, u64)>,
    permits: Vec<bytes::Bytes>,
    boot: u64,
}

struct Trip {
    epoch: u64,
    left_ms: f64,
    seen: Instant,
}

const POLICIES: &str = "
version: 1
namespaces:
  default:
    defaults:
      breaker: {window: 10, min_calls: 5, open_for: 10m, open_max: 10m, probe_lease: 10m, permit_ttl: 10m}
      budget: {ratio: 0, floor_per_second: 1, ttl: 60s}
    dependencies:
      brief: {breaker: {window: 10, min_calls: 5, open_for: 1ms, probe_lease: 10m}}
";

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill_at_any_instant() {
    const ROUNDS: usize = 18;
    let seed =
        std::env::var("SEED").map_or_else(|_| rand::rng().random(), |seed| seed.parse().unwrap());
    eprintln!("SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let policies = written(dir.path(), "policies.yaml", POLICIES);
    let data = dir.path().join("data");
    let mut known = Acknowledged::default();
    for round in 0..ROUNDS {
        let mut running = Running::start(&data, &policies);
        let mut client = Client::connect(&running.url).await;
        check(&mut client, &mut known, round).await;
        let deadline = Duration::from_millis(random.random_range(5..250));
        let watched = client.operates.watch_events(WatchEventsRequest::default());
        let mut watched = watched.await.unwrap().into_inner();
        let watching = tokio::spawn(async move {
            let mut told = Vec::new();
            while let Ok(Some(message)) = watched.message().await {
                let event = message.event.unwrap();
                if event.kind() == EventKind::Tripped {
                    told.push((event.dependency.clone(), event.epoch));
                }
            }
            told
        });
        let (url, work_seed) = (running.url.clone(), random.random());
        #[allow(clippy::disallowed_methods, reason = "a real process is killed")]
        let killer = tokio::task::spawn_blocking(move || {
            std::thread::sleep(deadline);
            running.kill();
        });
        work(&url, &mut known, round, work_seed).await;
        killer.await.unwrap();
        known.told.extend(watching.await.unwrap());
    }
    let mut running = Running::start(&data, &policies);
    let mut client = Client::connect(&running.url).await;
    check(&mut client, &mut known, ROUNDS).await;
    assert!(
        known.trips.len() > ROUNDS / 2,
        "{} trips",
        known.trips.len()
    );
    assert!(known.overrides.len() > 2 && known.policies.len() > 2);
    running.kill();
}

/// Operates the service until it is gone.
async fn work(url: &str, known: &mut Acknowledged, round: usize, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut client = Client::connect(url).await;
    for n in 0.. {
        let going_on = match random.random_range(0..4) {
            0 => order(&mut client, known, &mut random).await,
            1 => put(&mut client, known, &mut random).await,
            2 => trip(&mut client, known, &format!("trip-{round}-{n}")).await,
            _ => ask(&mut client, known).await,
        };
        if going_on.is_none() {
            return;
        }
    }
}

async fn order(client: &mut Client, known: &mut Acknowledged, random: &mut StdRng) -> Option<()> {
    let name = format!("forced-{}", random.random_range(0..6));
    let wanted = match random.random_range(0..3) {
        0 => None,
        1 => Some(OverrideKind::ForceOpen),
        _ => Some(OverrideKind::ForceClosed),
    };
    let entry = known.overrides.entry(name.clone()).or_default();
    if wanted.is_none() && entry.0.is_none() {
        return Some(());
    }
    entry.1 = wanted;
    let answered = match wanted {
        Some(kind) => client.force(forced(&name, kind)).await,
        None => client.release(&name).await,
    };
    answered.ok()?;
    entry.0 = wanted;
    Some(())
}

async fn put(client: &mut Client, known: &mut Acknowledged, random: &mut StdRng) -> Option<()> {
    let name = format!("policy-{}", random.random_range(0..6));
    let attempts = random.random_range(4..900);
    let entry = known.policies.entry(name.clone()).or_default();
    entry.1 = Some(attempts);
    let request = PutPolicyRequest {
        name,
        document: format!("retry: {{max_attempts: {attempts}}}"),
        owner: "ada".into(),
        ..Default::default()
    };
    client.operates.put_policy(request).await.ok()?;
    entry.0 = Some(attempts);
    Some(())
}

async fn trip(client: &mut Client, known: &mut Acknowledged, name: &str) -> Option<()> {
    for _ in 0..5 {
        let answer = client.asks.acquire(first(name)).await.ok()?.into_inner();
        let permit = grant_of(answer).permit;
        let report = holdoff_client::proto::ReportRequest {
            entries: vec![result(&permit, outcome(Failure))],
            ..Default::default()
        };
        client.asks.report(report).await.ok()?;
    }
    let request = holdoff_client::proto::GetDependencyRequest {
        dependency: name.into(),
        ..Default::default()
    };
    let seen = client.operates.get_dependency(request).await.ok()?;
    let seen = seen.into_inner().dependency.unwrap();
    assert_eq!(seen.state(), BreakerState::Open);
    let trip = Trip {
        epoch: seen.epoch,
        left_ms: ms(seen.open_for),
        seen: Instant::now(),
    };
    known.trips.insert(name.to_owned(), trip);
    Some(())
}

async fn ask(client: &mut Client, known: &mut Acknowledged) -> Option<()> {
    let answer = client.asks.acquire(first("asked")).await.ok()?.into_inner();
    known.permits.push(grant_of(answer).permit);
    Some(())
}

/// Looks at all that was acknowledged, as the first thing after a start.
async fn check(client: &mut Client, known: &mut Acknowledged, round: usize) {
    let boot = boot(client).await;
    assert!(boot > known.boot, "boot {boot} after {}", known.boot);
    known.boot = boot;
    for (name, allowed) in &mut known.overrides {
        let request = holdoff_client::proto::GetDependencyRequest {
            dependency: name.clone(),
            ..Default::default()
        };
        let seen = match client.operates.get_dependency(request).await {
            Ok(seen) => seen.into_inner().dependency.unwrap().r#override,
            Err(status) => {
                assert_eq!(status.code(), tonic::Code::NotFound);
                None
            }
        };
        let seen = seen.map(|order| order.kind());
        assert!(
            seen == allowed.0 || seen == allowed.1,
            "{name}: {seen:?}, not {allowed:?}"
        );
        *allowed = (seen, seen);
    }
    for (name, allowed) in &mut known.policies {
        let request = GetPolicyRequest {
            dependency: name.clone(),
            ..Default::default()
        };
        let policy = client
            .operates
            .get_policy(request)
            .await
            .unwrap()
            .into_inner();
        let value = policy
            .values
            .into_iter()
            .find(|value| value.field == "retry.max_attempts")
            .unwrap();
        let seen = (value.origin != "built-in").then(|| value.value.parse().unwrap());
        assert!(
            seen == allowed.0 || seen == allowed.1,
            "{name}: {seen:?}, not {allowed:?}"
        );
        *allowed = (seen, seen);
    }
    for (name, trip) in &mut known.trips {
        let asked = Instant::now();
        let seen = client.get(name).await;
        assert_eq!(
            (seen.state(), seen.epoch),
            (BreakerState::Open, trip.epoch),
            "{name}"
        );
        let left = ms(seen.open_for);
        assert!(
            left <= trip.left_ms,
            "{name}: {left} ms after {} ms",
            trip.left_ms
        );
        let longest = (asked - trip.seen).as_secs_f64() * 1e3 + 2_000.0;
        assert!(
            left >= trip.left_ms - longest,
            "{name}: {left} ms is much too short"
        );
        (trip.left_ms, trip.seen) = (left, Instant::now());
    }
    for (name, epoch) in std::mem::take(&mut known.told) {
        let seen = client.get(&name).await;
        if name != "brief" {
            assert_eq!(
                (seen.state(), seen.epoch),
                (BreakerState::Open, epoch),
                "{name}"
            );
        }
    }
    for permit in known.permits.drain(..) {
        let reason = client.reported(&permit, Failure).await;
        assert!(
            matches!(reason, ReportReason::StaleEpoch | ReportReason::Expired),
            "{reason:?}"
        );
    }
    budget_and_probes(client, round).await;
}

/// A restart never raises a budget, and leases no probe for one lease time.
async fn budget_and_probes(client: &mut Client, round: usize) {
    let permit = client.granted(first("budgeted")).await.permit;
    let answer = client.ask(retry("budgeted", 2, &permit, Failure)).await;
    match round {
        0 => drop(grant_of(answer)),
        _ => assert_eq!(reason_of(answer), DenialReason::BudgetExhausted),
    }
    if round == 0 {
        client.trip_soon("brief").await;
        return;
    }
    let denial = client.denied(first("brief")).await;
    assert_eq!(denial.reason(), DenialReason::ProbeInProgress);
    assert!(denial.retry_after.is_some());
}

impl Client {
    /// Fails until the breaker opens, which may be half-open by the time anybody looks.
    async fn trip_soon(&mut self, dependency: &str) {
        for _ in 0..5 {
            self.call(dependency, Failure).await;
        }
        assert_ne!(self.get(dependency).await.state(), BreakerState::Closed);
    }
}

/// The boot epoch, which the first event of a run tells.
async fn boot(client: &mut Client) -> u64 {
    loop {
        let request = ListEventsRequest {
            page_size: 1000,
            ..Default::default()
        };
        let events = client
            .operates
            .list_events(request)
            .await
            .unwrap()
            .into_inner()
            .events;
        // It is published in a moment.
        if let Some(started) = events
            .iter()
            .find(|event| event.kind() == EventKind::Started)
        {
            let number = started.detail.trim_start_matches("boot ");
            return number.split(';').next().unwrap().parse().unwrap();
        }
    }
}

/// One request over plain HTTP: the status line's code and the body.
fn http(address: &str, request: &str) -> (u16, String) {
    use std::io::Write;
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
    (code.expect("a status line"), body.to_owned())
}

fn terminate(child: &Child) {
    let sent = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

#[tokio::test]
async fn health_and_metrics_are_served_over_http_and_sigterm_ends_it_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut child = Command::new(BINARY)
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
            "--drain",
            "60s",
        ])
        .args(["--data-dir", data.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut says = |what: &str| said(&mut out, what, String::new);
    let (grpc, at) = (says(LISTENS), says("holdoff: HTTP on "));
    let running = Running {
        child,
        url: format!("http://{grpc}"),
    };
    let get = |path: &str| {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        http(&at, &request)
    };
    assert_eq!(get("/healthz").0, 200);
    assert_eq!(get("/readyz").0, 200);
    assert_eq!(get("/nothing").0, 404);
    // As a page asks whose name was pointed at this machine.
    let foreign = "GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(http(&at, foreign).0, 421);
    assert_eq!(http(&at, "\0\x01\x02 garbage\r\n\r\n").0, 400);
    let mut client = Client::connect(&running.url).await;
    client.granted(first("d")).await;
    let (code, metrics) = get("/metrics");
    assert_eq!(code, 200);
    assert!(
        metrics.contains("holdoff_decisions_total{verdict=\"granted\",reason=\"first\"} 1"),
        "{metrics}"
    );
    let state = "holdoff_dependency_state{namespace=\"default\",dependency=\"d\"} 0";
    assert!(metrics.contains(state), "{metrics}");
    client
        .force(forced("d", OverrideKind::ForceOpen))
        .await
        .unwrap();
    // A stream that never ends by itself is ended, and does not hold the stop up.
    let mut watched = client
        .operates
        .watch_events(WatchEventsRequest::default())
        .await
        .unwrap()
        .into_inner();
    let stopped_at = Instant::now();
    terminate(&running.child);
    let mut running = running;
    let status = tokio::task::spawn_blocking(move || running.child.wait().unwrap())
        .await
        .unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(stopped_at.elapsed() < Duration::from_secs(30));
    // The order may have been told to the stream first.
    let told = loop {
        match watched.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the stream ended without a word"),
            Err(told) => break told,
        }
    };
    assert_eq!(told.code(), Code::Unavailable, "{told:?}");
    let policies = written(dir.path(), "policies.yaml", "version: 1\n");
    let again = Running::start(&data, &policies);
    let mut client = Client::connect(&again.url).await;
    assert_eq!(client.get("d").await.state(), BreakerState::ForcedOpen);
}

#[tokio::test]
async fn policy_files_that_change_are_taken_and_bad_ones_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("policies");
    std::fs::create_dir(&folder).unwrap();
    let of = |attempts: u32| policy_of_d(&format!("{{retry: {{max_attempts: {attempts}}}}}"));
    written(&folder, "a.yaml", &of(4));
    let running = Running::start(&dir.path().join("data"), &folder);
    let mut client = Client::connect(&running.url).await;
    let watched = client.operates.watch_events(WatchEventsRequest::default());
    let mut watched = watched.await.unwrap().into_inner();
    let mut told = async |kind: EventKind| {
        loop {
            let event = watched.message().await.unwrap().unwrap().event.unwrap();
            if event.kind() == kind {
                return event.detail;
            }
        }
    };
    // Atomically, as editors and deployments do.
    let next = written(dir.path(), "next", &of(9));
    std::fs::rename(next, folder.join("a.yaml")).unwrap();
    told(EventKind::PoliciesReloaded).await;
    let request = GetPolicyRequest {
        dependency: "d".into(),
        ..Default::default()
    };
    let attempts = async |client: &mut Client| {
        let policy = client
            .operates
            .get_policy(request.clone())
            .await
            .unwrap()
            .into_inner();
        let value = policy
            .values
            .into_iter()
            .find(|value| value.field == "retry.max_attempts");
        value.unwrap().value
    };
    assert_eq!(attempts(&mut client).await, "9");
    written(
        &folder,
        "a.yaml",
        "version: 1\nnamespaces: {default: {unheard_of: 1}}\n",
    );
    let detail = told(EventKind::PoliciesRefused).await;
    assert!(
        detail.contains("a.yaml") && detail.contains("unheard_of"),
        "{detail}"
    );
    assert_eq!(attempts(&mut client).await, "9");
    client.granted(first("d")).await;
}

/// The lines that the service logs until it has been asked to stop.
fn logged(arguments: &[&str], variables: &[(&str, &str)]) -> Vec<String> {
    let mut command = serve(arguments);
    command
        .env_remove("RUST_LOG")
        .envs(variables.iter().copied());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    terminate(&child);
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    said.lines().map(str::to_owned).collect()
}

#[test]
fn the_service_logs_in_the_format_and_at_the_level_that_was_asked_for() {
    let at = ["--listen", "127.0.0.1:0"];
    let text = logged(&at, &[]);
    assert!(
        text.iter().any(|line| line.ends_with("INFO stopping")),
        "{text:?}"
    );
    let json = logged(&[&at[..], &["--log-format", "json"]].concat(), &[]);
    let stopping = json.iter().any(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["level"] == "INFO" && line["message"] == "stopping"
    });
    assert!(stopping, "{json:?}");
    assert_eq!(logged(&at, &[("RUST_LOG", "error")]), [""; 0]);
}

#[test]
fn policy_files_that_are_refused_while_it_runs_are_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let file = written(dir.path(), "a.yaml", "version: 1\n");
    let at = ["--listen", "127.0.0.1:0", "--policies"];
    let mut command = serve(&[&at[..], &[file.to_str().unwrap()]].concat());
    let mut child = command
        .env_remove("RUST_LOG")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    written(dir.path(), "a.yaml", "version: 1\nunheard_of: 1\n");
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let refused = said.find_map(|line| line.ok().filter(|line| line.contains("unheard_of")));
    assert!(refused.unwrap().contains(" WARN "));
    terminate(&child);
    assert!(child.wait().unwrap().success());
}
