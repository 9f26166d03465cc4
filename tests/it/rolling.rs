//! Replicas as real processes over one store: what an operator orders at one holds at another,
//! and all are restarted in turn while clients call. Real time, since processes are what is tested.

use std::{
    io::BufReader,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use holdoff_client::{
    Client as Caller, Safety,
    proto::{
        BreakerState, DenialReason, Event, ListEventsRequest, ListReplicasRequest, OutcomeKind,
        OverrideKind, Replica,
    },
};

use crate::{
    harness::*,
    overrides::forced,
    process::{LISTENS, said, serve},
    stores::{Make, Server},
};

const REPLICAS: usize = 3;
const CLIENTS: usize = 12;
/// A return is drawn from five seconds; the rest is the machine's.
const RETURNED_WITHIN: Duration = Duration::from_secs(8);
/// For three restarts.
const ALL_WITHIN: Duration = Duration::from_secs(40);
const POLICIES: &str = "\
version: 1
namespaces:
  default:
    defaults:
      retry: {max_attempts: 5, initial_delay: 5ms, max_delay: 50ms}
      budget: {ratio: 1.0, floor_per_second: 1000, max_caller_share: 1.0}
      breaker: {window: 5s, min_calls: 1000, failure_ratio: 0.9, spread: 0s}
      calendar: {retry_rate: off}
";

struct Process {
    child: Child,
    listen: String,
    log: tempfile::NamedTempFile,
}

impl Process {
    fn start(store: &str, listen: &str, policies: &std::path::Path, decisions: &str) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut command: Command = serve(&["--listen", listen, "--store-decisions", decisions]);
        command.arg("--policies").arg(policies);
        let mut child = command
            .env("HOLDOFF_STORE", store)
            .stdout(Stdio::piped())
            .stderr(log.reopen().unwrap())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut this = Self {
            child,
            listen: String::new(),
            log,
        };
        this.listen = said(&mut out, LISTENS, || this.logged());
        this
    }

    fn logged(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap()
    }

    fn url(&self) -> String {
        format!("http://{}", self.listen)
    }

    async fn client(&self) -> Client {
        Client::connect(&self.url()).await
    }

    /// SIGTERM, and its end, which comes by itself.
    async fn stop(mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            pause(10).await;
        };
        let log = self.logged();
        assert!(status.success(), "{status}: {log}");
        log
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn policies() -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(file.path(), POLICIES).unwrap();
    file
}

#[allow(clippy::disallowed_methods, reason = "real processes are waited for")]
async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < PATIENCE, "it never comes: {what}");
        pause(2).await;
    }
    begun.elapsed()
}

impl Client {
    async fn reason(&mut self, dependency: &str) -> Option<DenialReason> {
        let answer = self.ask(first(dependency)).await;
        match answer.verdict {
            Some(holdoff_client::proto::acquire_response::Verdict::Denial(denial)) => {
                Some(denial.reason())
            }
            _ => None,
        }
    }

    async fn replicas(&mut self) -> Vec<Replica> {
        let listed = self.operates.list_replicas(ListReplicasRequest::default());
        listed.await.unwrap().into_inner().replicas
    }

    async fn fleet_events(&mut self) -> Vec<Event> {
        let listed = self.operates.list_events(ListEventsRequest {
            page_size: 1_000,
            ..ListEventsRequest::default()
        });
        listed.await.unwrap().into_inner().events
    }
}

#[tokio::test]
async fn an_override_a_reset_and_a_release_at_one_process_hold_at_another() {
    let (server, policies) = (Server::start(Make::Redis, &[]), policies());
    for decisions in ["strict", "leased"] {
        let start = || Process::start(&server.url(), "127.0.0.1:0", policies.path(), decisions);
        let (one, two) = (start(), start());
        let (mut here, mut there) = (one.client().await, two.client().await);
        let mut taken = Vec::new();
        for round in 0..5 {
            let name = format!("{decisions}-{round}");
            assert_eq!(there.reason(&name).await, None);
            here.force(forced(&name, OverrideKind::ForceOpen))
                .await
                .unwrap();
            let mut holds = async || there.reason(&name).await == Some(DenialReason::ForcedOpen);
            match decisions {
                "strict" => assert!(holds().await, "with the next question"),
                _ => taken.push(until("forced", holds).await),
            }
            here.release(&name).await.unwrap();
            let mut passes = async || there.reason(&name).await.is_none();
            match decisions {
                "strict" => assert!(passes().await, "with the next question"),
                _ => taken.push(until("released", passes).await),
            }
            let before = there.get(&name).await.epoch;
            here.reset(&name).await.unwrap();
            let risen = until("reset", async || there.get(&name).await.epoch > before).await;
            taken.push(risen);
        }
        taken.sort();
        let median = taken[taken.len() / 2];
        println!(
            "{decisions}: median {median:?}, most {:?}",
            taken[taken.len() - 1]
        );
        // 250 ms on a machine that has nothing else to do.
        assert!(median < Duration::from_secs(1), "{taken:?}");

        let all = here.fleet_events().await;
        assert_eq!(there.fleet_events().await, all, "the same at both");
        assert!(all.iter().all(|event| event.replica > 0 && !event.pending));
    }
}

#[tokio::test]
async fn a_hold_that_is_cleared_at_one_process_is_over_at_another() {
    let server = Server::start(Make::Redis, &[]);
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    let held = "version: 1\nnamespaces: {default: {defaults: {pushback: {scope: dependency}}}}\n";
    std::fs::write(file.path(), held).unwrap();
    for decisions in ["strict", "leased"] {
        let start = || Process::start(&server.url(), "127.0.0.1:0", file.path(), decisions);
        let (one, two) = (start(), start());
        let (mut here, mut there) = (one.client().await, two.client().await);
        let granted = there.granted(first(decisions)).await;
        let mut pushed = outcome(OutcomeKind::Throttled);
        pushed.pushback = Some(seconds(30));
        there.report(&granted.permit, pushed).await;
        let held = async || here.get(decisions).await.held_for.is_some();
        until("the hold is seen", held).await;
        here.clear_hold(decisions).await.unwrap();
        let over = async || there.get(decisions).await.held_for.is_none();
        until("the hold is over", over).await;
        assert_eq!(there.get(decisions).await.state(), BreakerState::Closed);
    }
}

#[tokio::test]
async fn a_store_that_is_away_shows_at_every_replica() {
    let (mut server, policies) = (Server::start(Make::Redis, &[]), policies());
    let start = || Process::start(&server.url(), "127.0.0.1:0", policies.path(), "strict");
    let (one, two) = (start(), start());
    let (mut here, mut there) = (one.client().await, two.client().await);
    until("both are listed", async || {
        here.replicas().await.len() == 2 && there.replicas().await.len() == 2
    })
    .await;
    let all = here.replicas().await;
    assert!(all[0].here && all[0].address == one.listen && all[1].address == two.listen);
    server.stop();
    for client in [&mut here, &mut there] {
        until("it is shown", async || {
            let all = client.replicas().await;
            all[0].troubles == ["the store does not answer"]
        })
        .await;
    }
    server.go_on();
    for client in [&mut here, &mut there] {
        until("it is well again", async || {
            let all = client.replicas().await;
            all.len() == 2 && all.iter().all(|it| it.troubles.is_empty())
        })
        .await;
    }
}

/// Clients that call until they are told to end.
struct Load {
    clients: Vec<Caller>,
    ended: Arc<AtomicBool>,
    made: Arc<AtomicU64>,
    calling: Vec<tokio::task::JoinHandle<Vec<String>>>,
}

impl Load {
    fn begin(endpoints: &[String]) -> Self {
        let mut load = Self {
            clients: Vec::new(),
            ended: Arc::default(),
            made: Arc::default(),
            calling: Vec::new(),
        };
        for at in 0..CLIENTS {
            let mut endpoints = endpoints.to_vec();
            endpoints.rotate_left(at % REPLICAS);
            let client = Caller::builder()
                .service("shop")
                .instance(format!("i{at}"))
                .endpoints(endpoints)
                .follow(["payments"])
                .build()
                .unwrap();
            load.clients.push(client);
        }
        load
    }

    /// Not before they know the policy: until then each goes by its own.
    fn call(&mut self) {
        for client in &self.clients {
            let (ended, made) = (Arc::clone(&self.ended), Arc::clone(&self.made));
            let calls = call(client.clone(), ended, made);
            self.calling.push(tokio::spawn(calls));
        }
    }

    fn connections(&self) -> Vec<u64> {
        let counters = self.clients.iter().map(|client| client.counters());
        counters.map(|it| it.connections).collect()
    }

    /// What clients decided without a replica: granted, and denied.
    fn alone(&self) -> (u64, u64) {
        let counters = self.clients.iter().map(|client| client.counters());
        counters.fold((0, 0), |(granted, denied), it| {
            (granted + it.local_grants, denied + it.local_denials)
        })
    }

    /// What failed.
    async fn end(self) -> (u64, Vec<String>) {
        self.ended.store(true, Ordering::Relaxed);
        let mut failed = Vec::new();
        for calling in self.calling {
            failed.extend(calling.await.unwrap());
        }
        (self.made.load(Ordering::Relaxed), failed)
    }
}

/// Every twentieth first attempt fails, and its retry does not.
async fn call(client: Caller, ended: Arc<AtomicBool>, made: Arc<AtomicU64>) -> Vec<String> {
    let mut failed = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        let number = made.fetch_add(1, Ordering::Relaxed);
        let called = client
            .call("payments")
            .safety(Safety::Idempotent)
            .deadline(Duration::from_secs(5))
            .run(|attempt| async move {
                match number.is_multiple_of(20) && attempt.number == 1 {
                    true => Err(std::io::Error::other("503")),
                    false => Ok(()),
                }
            })
            .await;
        failed.extend(called.err().map(|error| error.to_string()));
        pause(10).await;
    }
    failed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_are_restarted_in_turn_and_no_call_fails() {
    let (server, policies) = (Server::start(Make::Redis, &[]), policies());
    let start = |listen: &str| Process::start(&server.url(), listen, policies.path(), "strict");
    let mut replicas: Vec<Process> = (0..REPLICAS).map(|_| start("127.0.0.1:0")).collect();
    let endpoints: Vec<String> = replicas.iter().map(Process::url).collect();
    let mut load = Load::begin(&endpoints);
    for client in &load.clients {
        let connects = async || client.connect(Duration::from_secs(1)).await;
        until("it connects", connects).await;
    }
    load.call();
    pause(500).await;

    let begun = Instant::now();
    let mut returns = Vec::new();
    for at in 0..REPLICAS {
        let before = load.connections();
        let old = replicas.remove(at);
        let listen = old.listen.clone();
        let (made, stopping) = (load.made.load(Ordering::Relaxed), Instant::now());
        let log = old.stop().await;
        assert!(
            !log.contains("cut off"),
            "streams are ended in order: {log}"
        );
        replicas.insert(at, start(&listen));
        // Those that were connected there come back, each by itself.
        let mut back: Vec<Option<Duration>> = vec![None; CLIENTS];
        let were_there = CLIENTS / REPLICAS;
        while stopping.elapsed() < RETURNED_WITHIN {
            for (at, now) in load.connections().into_iter().enumerate() {
                if now > before[at] && back[at].is_none() {
                    back[at] = Some(stopping.elapsed());
                }
            }
            if back.iter().flatten().count() >= were_there {
                break;
            }
            pause(5).await;
        }
        assert!(load.made.load(Ordering::Relaxed) > made, "calls go on");
        returns.extend(back.into_iter().flatten());
    }
    let taken = begun.elapsed();
    assert!(taken < ALL_WITHIN, "{taken:?}");
    let (alone, denied_alone) = load.alone();
    let (made, failed) = load.end().await;
    returns.sort();
    println!(
        "{made} calls in {taken:.1?}, {alone} attempts alone, {denied_alone} denied, {} failed, \
         returns after {returns:.1?}",
        failed.len()
    );
    assert!(
        failed.is_empty(),
        "{} of {made}: {:?}",
        failed.len(),
        &failed[..1]
    );
    assert!(alone > 0, "clients were without a replica");
    assert_eq!(denied_alone, 0, "no breaker of a client's own opened");
    assert!(returns.len() >= CLIENTS, "all came back: {returns:?}");
    let (first, last) = (returns[0], returns[returns.len() - 1]);
    assert!(
        last - first > Duration::from_millis(500),
        "they return spread: {returns:?}"
    );

    let mut client = replicas[0].client().await;
    let all = client.replicas().await;
    assert_eq!(
        all.len(),
        REPLICAS,
        "who was stopped is not listed: {all:?}"
    );
}
