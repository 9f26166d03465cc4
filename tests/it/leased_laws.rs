//! The laws of a fleet on the leased path, over real servers and on virtual time: four replicas that
//! answer at random and at once, one of which dies now and then. What they granted is counted
//! naively: invariants 2, 5, 6 and 7.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use holdoff::{
    coordinator::{Caller, Coordinator, Decision, Entry, Made, Subject},
    store::{RedisStore, redis::Decisions},
};
use holdoff_decision::{
    DenialReason, Grant, Nanos, Outcome, OutcomeKind, PermitKind, Reported, State, Time,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::task::JoinSet;

use crate::{
    harness::ORIGIN,
    shared_store::inquiry,
    stores::{Make, Server, connect_at, coordinate},
};

const REPLICAS: usize = 4;
const STEPS: usize = 1_500;
const AT_ONCE: usize = 12;
const PROBES: usize = 3;
const LEASE: Nanos = Nanos::from_millis(400);
const TTL: Nanos = Nanos::from_secs(1);
/// Of each window, besides a fifth of its first attempts.
const FLOOR: u64 = 4;
const SLOT: u64 = 10_000_000;

const POLICIES: &str = "\
version: 1
namespaces:
  default:
    defaults:
      retry: {initial_delay: 10ms, max_delay: 300ms, min_attempt_time: 1ms, max_attempts: 9}
      calendar: {retry_rate: off}
      budget: {ratio: 1.0, floor_per_second: 1000}
    dependencies:
      \"probed*\":
        breaker: {spread: 0s, open_for: 300ms, open_max: 600ms, probes: 3, probe_lease: 400ms, probe_successes: 4}
        ramp: {start: 1.0}
      \"budget*\":
        breaker: {mode: off}
        budget: {ratio: 0.2, floor_per_second: 4, ttl: 1s, max_caller_share: 1.0}
      \"planned*\":
        breaker: {mode: off}
        calendar: {retry_rate: 80, slot: 10ms, horizon: 2s}
";

type Replica = Arc<Coordinator<RedisStore>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_budgets_places_and_epochs_hold_over_four_replicas_on_redis() {
    Story::new(Make::Redis, 1).await.run().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_budgets_places_and_epochs_hold_over_four_replicas_on_valkey() {
    Story::new(Make::Valkey, 2).await.run().await;
}

/// What one replica is asked.
#[derive(Clone)]
enum Act {
    First,
    Retry(Open),
    Report(Open, OutcomeKind),
}

/// A permit that was granted and not reported.
#[derive(Clone)]
struct Open {
    dependency: String,
    permit: Bytes,
    grant: Grant,
}

/// What came of it.
enum Ended {
    Answered(Decision),
    Told(Reported),
}

struct Done {
    at: usize,
    dependency: String,
    act: Act,
    ended: Ended,
}

struct Story {
    server: Server,
    clock: Arc<AtomicU64>,
    random: StdRng,
    replicas: Vec<Replica>,
    names: Vec<String>,
    open: Vec<Open>,
    seen: Seen,
}

impl Story {
    async fn new(make: Make, seed: u64) -> Self {
        let server = Server::start(make, &[]);
        let clock = Arc::new(AtomicU64::new(ORIGIN));
        let mut replicas = Vec::new();
        for _ in 0..REPLICAS {
            replicas.push(replica(&server, &clock).await);
        }
        // Where nobody knows of a run before, no probe is leased for one lease time.
        clock.fetch_add(60_000_000_000, Ordering::SeqCst);
        let names = ["probed-0", "budget-0", "budget-1", "planned-0"];
        Self {
            server,
            clock,
            random: StdRng::seed_from_u64(seed),
            replicas,
            names: names.map(str::to_owned).into(),
            open: Vec::new(),
            seen: Seen::default(),
        }
    }

    async fn run(mut self) {
        for step in 0..STEPS {
            let passed = self.random.random_range(0..12);
            self.pass(passed);
            if step % 7 == 0 {
                // Messages come while the fleet's time stands still.
                pause(2).await;
            }
            if step % 100 == 50 {
                let gone = self.random.random_range(0..REPLICAS);
                self.replicas[gone] = replica(&self.server, &self.clock).await;
                self.seen.forget_replica(gone);
            }
            if step % 60 == 30 {
                self.burst(&format!("probed-{step}")).await;
            }
            let healthy = step / 150 % 2 == 0;
            let acts = (0..AT_ONCE).map(|_| self.any_act(healthy)).collect();
            self.at_once(acts).await;
        }
        self.seen.assert_eventful();
    }

    fn now(&self) -> Time {
        Time(self.clock.load(Ordering::SeqCst))
    }

    fn pass(&self, ms: u64) {
        self.clock.fetch_add(ms * 1_000_000, Ordering::SeqCst);
    }

    fn any_act(&mut self, healthy: bool) -> (usize, String, Act) {
        let at = self.random.random_range(0..REPLICAS);
        let what = self.random.random_range(0..10);
        if what < 5 || self.open.is_empty() {
            let name = &self.names[self.random.random_range(0..self.names.len())];
            return (at, name.clone(), Act::First);
        }
        let found = self.random.random_range(0..self.open.len());
        // Before its time a report would give its place back.
        let permit = &self.open[found].grant.permit;
        if self.now() < permit.issued + permit.delay {
            return (at, "budget-0".to_owned(), Act::First);
        }
        let open = self.open.swap_remove(found);
        let name = open.dependency.clone();
        match what {
            5..8 if !name.starts_with("probed") => (at, name, Act::Retry(open)),
            _ => {
                let kind = match (self.random.random_range(0..10), healthy) {
                    (0, _) => OutcomeKind::Ignored,
                    (1, true) | (1..8, false) => OutcomeKind::Failure,
                    _ => OutcomeKind::Success,
                };
                // Some say it twice, and to whom they like.
                if self.random.random_range(0..6) == 0 {
                    self.open.push(open.clone());
                }
                (at, name, Act::Report(open, kind))
            }
        }
    }

    /// All of it at the same time, in no order.
    async fn at_once(&mut self, acts: Vec<(usize, String, Act)>) -> Vec<Done> {
        let mut tasks = JoinSet::new();
        for (at, dependency, act) in acts {
            let on = Arc::clone(&self.replicas[at]);
            tasks.spawn(async move {
                let ended = carry_out(&on, &dependency, &act).await;
                Done {
                    at,
                    dependency,
                    act,
                    ended,
                }
            });
        }
        let done = tasks.join_all().await;
        self.seen.note(&done, self.now());
        for Done {
            dependency, ended, ..
        } in &done
        {
            if let Ended::Answered(decision) = ended
                && let (Ok(grant), Some(permit)) = (decision.answer.verdict, &decision.permit)
            {
                self.open.push(Open {
                    dependency: dependency.clone(),
                    permit: permit.clone(),
                    grant,
                });
            }
        }
        done
    }

    /// A trip that all have heard of, and 32 questions at once when the open period is over.
    async fn burst(&mut self, name: &str) {
        let ask = |asker| (asker % REPLICAS, name.to_owned(), Act::First);
        self.at_once((0..REPLICAS).map(ask).collect()).await;
        let from = self.random.random_range(0..REPLICAS);
        while self.is_closed(from, name).await {
            let mine = self.open.iter().rposition(|open| open.dependency == name);
            let open = self.open.remove(mine.expect("a closed breaker grants"));
            let failed = Act::Report(open, OutcomeKind::Failure);
            self.at_once(vec![(from, name.to_owned(), failed)]).await;
        }
        for at in 0..REPLICAS {
            for tries in 0.. {
                assert!(tries < 5_000, "replica {at} never hears of the trip");
                if !self.is_closed(at, name).await {
                    break;
                }
                pause(1).await;
            }
        }
        self.pass(700);
        let done = self.at_once((0..32).map(ask).collect()).await;
        let granted = done.iter().filter(|done| done.grant().is_some()).count();
        assert_eq!(granted, PROBES, "{name}");
        self.seen.bursts += 1;
        // The story goes on with the newest of them.
        self.names.retain(|name| !name.starts_with("probed"));
        self.names.push(name.to_owned());
    }

    async fn is_closed(&mut self, at: usize, name: &str) -> bool {
        let asked = vec![(at, name.to_owned(), Act::First)];
        let done = self.at_once(asked).await;
        match &done[0].ended {
            Ended::Answered(decision) => match &decision.answer.verdict {
                Ok(_) => true,
                Err(denial) => {
                    assert_eq!(denial.reason, DenialReason::BreakerOpen);
                    false
                }
            },
            Ended::Told(_) => unreachable!("it was a question"),
        }
    }
}

impl Done {
    fn grant(&self) -> Option<&Grant> {
        match &self.ended {
            Ended::Answered(decision) => decision.answer.verdict.as_ref().ok(),
            Ended::Told(_) => None,
        }
    }
}

/// What was granted, counted naively.
#[derive(Default)]
struct Seen {
    /// Leases, and when they end.
    leases: BTreeMap<(String, u64), Time>,
    most_leases: usize,
    granted: BTreeSet<(String, u64)>,
    firsts: BTreeMap<String, Vec<Time>>,
    retries: BTreeMap<String, Vec<Time>>,
    slots: BTreeMap<(String, u64), u64>,
    epochs: BTreeMap<(usize, String), u64>,
    /// Whether the breaker was closed in an epoch.
    closed: BTreeMap<(String, u64), bool>,
    /// Permits whose report counted, by replica.
    counted: BTreeSet<(usize, String, u64)>,
    bursts: u32,
}

impl Seen {
    fn forget_replica(&mut self, gone: usize) {
        self.counted.retain(|(at, ..)| *at != gone);
        self.epochs.retain(|(at, _), _| *at != gone);
    }

    fn note(&mut self, done: &[Done], now: Time) {
        self.note_epochs(done);
        self.note_leases(done, now);
        // The same answer may be given again.
        let mut is_new = |done: &&Done| match done.grant() {
            Some(grant) => {
                let permit = (done.dependency.clone(), grant.permit.serial);
                self.granted.insert(permit)
            }
            None => true,
        };
        let new: Vec<&Done> = done.iter().filter(&mut is_new).collect();
        self.note_reports(&new);
        for done in &new {
            if let Some(grant) = done.grant() {
                self.note_grant(done, grant, now);
            }
        }
        for done in new.iter().filter(|done| done.grant().is_some()) {
            if let Act::Retry(_) = done.act
                && done.dependency.starts_with("budget")
            {
                self.check_budget(&done.dependency, now);
            }
        }
    }

    /// A permit counts once at one replica.
    fn note_reports(&mut self, done: &[&Done]) {
        for done in done {
            let told = match &done.ended {
                Ended::Told(told) => Some(*told),
                Ended::Answered(decision) => decision.answer.previous,
            };
            let (Act::Report(open, _) | Act::Retry(open)) = &done.act else {
                continue;
            };
            if told == Some(Reported::Ok) {
                let permit = (done.at, done.dependency.clone(), open.grant.permit.serial);
                assert!(self.counted.insert(permit), "a permit counted twice");
            }
        }
    }

    /// At a grant over the window that ends with it. What else was granted in the same step may have
    /// been granted before it.
    fn check_budget(&mut self, name: &str, now: Time) {
        let within = |times: Option<&Vec<Time>>| {
            let times = times.into_iter().flatten();
            times.filter(|at| now.since(**at) < TTL).count() as u64
        };
        let retries = within(self.retries.get(name));
        let allowed = within(self.firsts.get(name)) / 5 + FLOOR;
        assert!(retries <= allowed, "{retries} retries of {allowed}");
    }

    fn note_grant(&mut self, done: &Done, grant: &Grant, now: Time) {
        let times = match &done.act {
            Act::First => &mut self.firsts,
            Act::Retry(_) | Act::Report(..) => &mut self.retries,
        };
        times.entry(done.dependency.clone()).or_default().push(now);
        if grant.permit.kind == PermitKind::Planned {
            let slot = (grant.permit.issued + grant.permit.delay).0 / SLOT;
            let held = self
                .slots
                .entry((done.dependency.clone(), slot))
                .or_default();
            *held += 1;
            let capacity = (slot + 1) * 8 / 10 - slot * 8 / 10;
            assert!(*held <= capacity, "{held} of {capacity} in slot {slot}");
        }
    }

    /// Never more than `PROBES` leases of a dependency. Those that are reported in this step may
    /// have come back before others were leased in it.
    fn note_leases(&mut self, done: &[Done], now: Time) {
        let mut came_back = BTreeMap::<String, usize>::new();
        for done in done {
            let (Act::Report(open, _) | Act::Retry(open)) = &done.act else {
                continue;
            };
            let lease = (open.dependency.clone(), open.grant.permit.serial);
            if self.leases.remove(&lease).is_some_and(|ends| now < ends) {
                *came_back.entry(lease.0).or_default() += 1;
            }
        }
        self.leases.retain(|_, ends| now < *ends);
        for done in done {
            if let Some(grant) = done.grant().filter(|grant| grant.probe) {
                let lease = (done.dependency.clone(), grant.permit.serial);
                assert!(
                    self.leases.insert(lease, now + LEASE).is_none(),
                    "it was leased twice"
                );
            }
        }
        let mut out = BTreeMap::<&str, usize>::new();
        for (name, _) in self.leases.keys() {
            *out.entry(name).or_default() += 1;
        }
        for (name, out) in out {
            let came_back = came_back.get(name).copied().unwrap_or(0);
            assert!(out <= PROBES + came_back, "{out} probes of {name}");
            self.most_leases = self.most_leases.max(out - came_back.min(out));
        }
    }

    /// They rise at each replica, and each is one state over the fleet.
    fn note_epochs(&mut self, done: &[Done]) {
        let before = self.epochs.clone();
        for done in done {
            let Ended::Answered(decision) = &done.ended else {
                continue;
            };
            let (name, epoch) = (&done.dependency, decision.answer.epoch);
            let key = (done.at, name.clone());
            let known = before.get(&key).copied().unwrap_or(0);
            assert!(epoch >= known, "{name} was at {known} and is at {epoch}");
            let latest = self.epochs.entry(key).or_default();
            *latest = epoch.max(*latest);
            let is_closed = match decision.answer.state {
                State::Closed | State::Recovering => true,
                State::Open | State::HalfOpen => false,
                State::ForcedOpen | State::ForcedClosed => unreachable!("nobody forces"),
            };
            let known = *(self.closed.entry((name.clone(), epoch))).or_insert(is_closed);
            assert_eq!(known, is_closed, "epoch {epoch} of {name}");
        }
    }

    fn assert_eventful(&self) {
        let retries = self.retries.keys().count();
        let (epochs, places) = (self.closed.len(), self.slots.len());
        println!(
            "{} grants, {epochs} epochs, {places} slots",
            self.granted.len()
        );
        assert_eq!(self.most_leases, PROBES);
        assert!(self.bursts >= 20 && retries >= 3, "{} bursts", self.bursts);
        assert!(epochs >= 60, "{epochs} epochs");
        assert!(places >= 50, "{places} slots were promised");
    }
}

async fn carry_out(on: &Replica, dependency: &str, act: &Act) -> Ended {
    let subject = match act {
        Act::Report(open, kind) => {
            let caller = Caller {
                service: "shop",
                instance: "one",
            };
            let entries = [Entry::Permit(&open.permit, Outcome::of(*kind))];
            let told = on.report("default", caller, &entries, 0).await.unwrap();
            return Ended::Told(told[0]);
        }
        Act::First => Subject::First,
        Act::Retry(open) => Subject::Retry {
            attempt: 2,
            made: Made::Permit(&open.permit),
            outcome: Outcome::of(OutcomeKind::NotSent),
        },
    };
    let asked = inquiry(dependency, "one", subject);
    Ended::Answered(on.acquire(&asked).await.unwrap())
}

async fn replica(server: &Server, clock: &Arc<AtomicU64>) -> Replica {
    let apart = Duration::from_millis(2);
    let store = connect_at(clock, &server.url(), Decisions::Leased, apart).await;
    coordinate(store, POLICIES).await
}

#[allow(clippy::disallowed_methods, reason = "real messages take real time")]
async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
