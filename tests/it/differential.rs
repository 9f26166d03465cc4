//! A store changes nothing about what is decided: one story, at the same times and with the same
//! draws, in memory and at one replica over a real server, on either path.

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
    coordinator::{Coordinator, Decision, Entry, Made, Refusal, Subject},
    permit::PermitCodec,
    store::{MemoryStore, RedisStore, redis::Decisions},
};
use holdoff_decision::{Answer, Nanos, Outcome, OutcomeKind, Tally};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::{
    harness::ORIGIN,
    shared_store::{PERMIT_KEY, caller, inquiry, replica},
    stores::{Make, Server, connect_at},
};

const PARTS: u64 = 4;
const OPERATIONS: u32 = 25_000;
/// Serials of a replica begin with its number.
const SERIAL: u64 = (1 << 36) - 1;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_operations_are_decided_on_the_strict_path_as_in_memory() {
    agree(Decisions::Strict).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_operations_are_decided_on_the_leased_path_as_in_memory() {
    agree(Decisions::Leased).await;
}

async fn agree(path: Decisions) {
    let server = Server::start(Make::Redis, &[]);
    let parts: Vec<_> = (0..PARTS)
        .map(|part| {
            let url = format!("{}?prefix=part{part}:", server.url());
            tokio::spawn(async move { Both::new(&url, path, part).await.story().await })
        })
        .collect();
    let mut kinds = BTreeSet::new();
    for part in parts {
        kinds.extend(part.await.unwrap());
    }
    println!("{path:?}: {kinds:?}");
    for kind in [
        "BreakerOpen",
        "BudgetExhausted",
        "Deadline",
        "Duplicate",
        "Held",
        "PermitVoid",
        "ProbeInProgress",
        "RateLimited",
        "Recovering",
        "probe",
        "report StaleEpoch",
        "tally Duplicate",
    ] {
        assert!(kinds.contains(kind), "the story has no {kind}: {kinds:?}");
    }
}

/// Names of different shards: there, first epochs are the same as in memory.
fn names() -> Vec<String> {
    let codec = PermitCodec::new(PERMIT_KEY, 1);
    let mut shards = BTreeSet::new();
    ["plain", "window", "rated", "held", "lean", "planned"]
        .iter()
        .flat_map(|kind| (0..20).map(move |at| format!("{kind}{at}")))
        .filter(|name| shards.insert(codec.dependency("default", name).0 % 64))
        .step_by(5)
        .collect()
}

struct Both {
    memory: Coordinator<MemoryStore>,
    server: Coordinator<RedisStore>,
    clock: Arc<AtomicU64>,
    random: StdRng,
    names: Vec<String>,
    permits: Vec<Granted>,
    epochs: BTreeMap<String, u64>,
    /// What has been answered at least once.
    kinds: BTreeSet<String>,
    operation: u32,
}

/// Permits of the one and of the other.
struct Granted {
    dependency: String,
    one: Bytes,
    two: Bytes,
}

impl Both {
    async fn new(url: &str, path: Decisions, seed: u64) -> Self {
        let clock = Arc::new(AtomicU64::new(ORIGIN));
        let shared = connect_at(&clock, url, path, Duration::ZERO).await;
        Self {
            memory: replica(MemoryStore::default(), &clock, seed).await,
            server: replica(shared, &clock, seed).await,
            clock,
            random: StdRng::seed_from_u64(seed),
            names: names(),
            permits: Vec::new(),
            epochs: BTreeMap::new(),
            kinds: BTreeSet::new(),
            operation: 0,
        }
    }

    async fn story(mut self) -> BTreeSet<String> {
        let mut healthy = true;
        for operation in 0..OPERATIONS {
            self.operation = operation;
            let passed = self.random.random_range(0..60) * 1_000_000;
            self.clock.fetch_add(passed, Ordering::SeqCst);
            if operation % 400 == 0 {
                healthy = self.random.random_range(0..3) > 0;
            }
            self.step(healthy).await;
        }
        self.kinds
    }

    async fn step(&mut self, healthy: bool) {
        let name = self.names[self.random.random_range(0..self.names.len())].clone();
        let instance = ["one", "two", "three"][self.random.random_range(0..3)];
        let outcome = outcome(&mut self.random, healthy);
        let what = self.random.random_range(0..20);
        match (what, self.take_permit()) {
            (6..12, Some(granted)) => self.report(instance, granted, outcome).await,
            (12..17, Some(granted)) => {
                let attempt = self.random.random_range(2..4);
                let retry = |made| Subject::Retry {
                    attempt,
                    made: Made::Permit(made),
                    outcome,
                };
                let name = self.mostly(&granted, name);
                let (one, two) = (retry(&granted.one), retry(&granted.two));
                self.ask(&name, instance, one, two).await;
            }
            (17, Some(granted)) => {
                let name = self.mostly(&granted, name);
                let one = Subject::Confirm(&granted.one);
                let two = Subject::Confirm(&granted.two);
                self.ask(&name, instance, one, two).await;
                self.permits.push(granted);
            }
            (18, kept) => {
                self.permits.extend(kept);
                let hedge = || Subject::Hedge { attempt: 2 };
                self.ask(&name, instance, hedge(), hedge()).await;
            }
            (19, kept) => {
                self.permits.extend(kept);
                self.tally(&name, instance, healthy).await;
            }
            (_, kept) => {
                self.permits.extend(kept);
                let first = || Subject::First;
                self.ask(&name, instance, first(), first()).await;
            }
        }
    }

    fn take_permit(&mut self) -> Option<Granted> {
        let many = self.permits.len();
        (many > 0).then(|| self.permits.swap_remove(self.random.random_range(0..many)))
    }

    /// Hardly ever a permit is handed back for another dependency.
    fn mostly(&mut self, granted: &Granted, other: String) -> String {
        match self.random.random_range(0..20) {
            0 => other,
            _ => granted.dependency.clone(),
        }
    }

    async fn report(&mut self, instance: &str, granted: Granted, outcome: Outcome) {
        let entries = |permit| [Entry::Permit(permit, outcome)];
        let (of_one, of_two) = (entries(&granted.one), entries(&granted.two));
        let by = caller(instance);
        let told = self.memory.report("default", by, &of_one, 0).await.unwrap();
        let same = self.server.report("default", by, &of_two, 0).await.unwrap();
        assert_eq!(told, same, "operation {}", self.operation);
        self.kinds.insert(format!("report {:?}", told[0]));
        if self.random.random_range(0..8) == 0 {
            // It is reported again, or retried.
            self.permits.push(granted);
        }
    }

    async fn tally(&mut self, name: &str, instance: &str, healthy: bool) {
        let failures = match healthy {
            true => 0,
            false => self.random.random_range(0..4),
        };
        let counts = Tally {
            epoch: self.epochs.get(name).copied().unwrap_or(1),
            first_attempts: 5,
            successes: 5 - failures,
            failures,
            latency_sum: Nanos::from_millis(20),
            ..Tally::default()
        };
        let entries = [Entry::Tally(name, counts)];
        // Some are sent again.
        let sequence = u64::from(self.operation) / 300 + self.random.random_range(1..4);
        let by = caller(instance);
        let told = self.memory.report("default", by, &entries, sequence).await;
        let same = self.server.report("default", by, &entries, sequence).await;
        let told = told.unwrap();
        assert_eq!(told, same.unwrap(), "operation {}", self.operation);
        self.kinds.insert(format!("tally {:?}", told[0]));
    }

    /// Some questions bear a name and are asked again.
    async fn ask(&mut self, name: &str, instance: &str, one: Subject<'_>, two: Subject<'_>) {
        let call_id = match self.random.random_range(0..6) {
            0 => format!("call-{}", self.random.random_range(0..12)),
            _ => String::new(),
        };
        let idempotent = self.random.random_range(0..8) > 0;
        let hurries = self.random.random_range(0..6) == 0;
        let time_left = hurries.then_some(Nanos::from_millis(250));
        let (mut one, mut two) = (inquiry(name, instance, one), inquiry(name, instance, two));
        for asked in [&mut one, &mut two] {
            asked.call_id = &call_id;
            asked.idempotent = idempotent;
            asked.time_left = time_left;
        }
        let one = self.memory.acquire(&one).await;
        let two = self.server.acquire(&two).await;
        self.compare(name, one, two);
    }

    fn compare(
        &mut self,
        name: &str,
        one: Result<Decision, Refusal>,
        two: Result<Decision, Refusal>,
    ) {
        let (one, two) = match (one, two) {
            (Ok(one), Ok(two)) => (one, two),
            (one, two) => {
                let (one, two) = (format!("{:?}", one.err()), format!("{:?}", two.err()));
                assert_eq!(one, two, "operation {}", self.operation);
                return;
            }
        };
        let (here, there) = (common(&one.answer), common(&two.answer));
        assert_eq!(here, there, "operation {} on {name}", self.operation);
        self.epochs.insert(name.to_owned(), here.epoch);
        self.kinds.insert(match &here.verdict {
            Ok(grant) if grant.probe => "probe".to_owned(),
            Ok(grant) => format!("grant as {:?}", grant.permit.kind),
            Err(denial) => format!("{:?}", denial.reason),
        });
        if let (Some(one), Some(two)) = (one.permit, two.permit) {
            let dependency = name.to_owned();
            self.permits.push(Granted {
                dependency,
                one,
                two,
            });
            self.permits.truncate(64);
        }
    }
}

/// But for the number of the replica.
fn common(answer: &Answer) -> Answer {
    let mut answer = *answer;
    if let Ok(grant) = &mut answer.verdict {
        grant.permit.serial &= SERIAL;
    }
    answer
}

fn outcome(random: &mut StdRng, healthy: bool) -> Outcome {
    let kind = match (random.random_range(0..20), healthy) {
        (0, _) => OutcomeKind::Timeout,
        (1, _) => OutcomeKind::Ignored,
        (2, _) => OutcomeKind::NotSent,
        (3..16, false) | (3, true) => OutcomeKind::Failure,
        _ => OutcomeKind::Success,
    };
    Outcome {
        latency: Some(Nanos::from_millis(random.random_range(1..200))),
        pushback: (random.random_range(0..40) == 0).then(|| Nanos::from_millis(400)),
        ..Outcome::of(kind)
    }
}
