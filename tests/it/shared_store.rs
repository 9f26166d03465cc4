//! Replicas over one store are one coordinator: leases, trips, permits, answers given again and
//! numbered reports.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::UNIX_EPOCH,
};

use holdoff::{
    clock::Clock,
    coordinator::{Caller, Coordinator, Decision, Entry, Inquiry, Key, Parts, Subject},
    durable::{Durable, PermitKey, Start},
    entropy::Entropy,
    store::{RedisStore, Store},
};
use holdoff_decision::{
    DenialReason, Nanos, Outcome, OutcomeKind, Priority, Reported, State, Tally, Time,
};

use crate::{
    harness::{ORIGIN, source},
    stores::{Make, Server, connect},
};

const FAIL: Outcome = Outcome::of(OutcomeKind::Failure);
const OK: Outcome = Outcome::of(OutcomeKind::Success);
pub const PERMIT_KEY: [u8; 16] = [7; 16];

/// A replica with a clock that the test moves.
pub async fn replica<S: Store>(store: S, clock: &Arc<AtomicU64>, seed: u64) -> Coordinator<S> {
    let mut opened = Durable::in_memory(Start {
        wall_now: UNIX_EPOCH,
        fresh_permit_key: PermitKey(PERMIT_KEY),
    });
    opened.state.boot = 1;
    let parts = Parts {
        store,
        clock: Clock::Manual(Arc::clone(clock)),
        entropy: Entropy::seeded(seed),
        opened,
    };
    let begun = Coordinator::start(parts, vec![source(POLICIES)]).await;
    begun.expect("the policies are valid").coordinator
}

const POLICIES: &str = "\
version: 1
namespaces:
  default:
    defaults:
      budget: {floor_per_second: 50}
      breaker: {spread: 0s}
    dependencies:
      \"window*\": {breaker: {window: 20, min_calls: 5, consecutive_failures: 6}}
      \"rated*\": {rate: {per_second: 4, burst: 2, max_wait: 200ms}}
      \"lean*\": {budget: {ratio: 0.1, floor_per_second: 1, ttl: 2s}, calendar: {retry_rate: off}}
      \"planned*\": {calendar: {retry_rate: 2, slot: 50ms, horizon: 1s}}
      \"held*\": {pushback: {scope: dependency}}
";

pub fn caller(instance: &str) -> Caller<'_> {
    Caller {
        service: "shop",
        instance,
    }
}

pub fn inquiry<'a>(dependency: &'a str, instance: &'a str, subject: Subject<'a>) -> Inquiry<'a> {
    Inquiry {
        key: Key {
            namespace: "default",
            dependency,
        },
        caller: caller(instance),
        subject,
        call_id: "",
        idempotent: true,
        time_left: None,
        cost: 1,
        priority: Priority::Normal,
    }
}

async fn first<S: Store>(on: &Coordinator<S>, dependency: &str) -> Decision {
    let asked = on
        .acquire(&inquiry(dependency, "one", Subject::First))
        .await;
    asked.unwrap()
}

async fn report<S: Store>(on: &Coordinator<S>, decision: &Decision, outcome: Outcome) -> Reported {
    let permit = decision.permit.as_ref().expect("it was granted");
    let entries = [Entry::Permit(permit, outcome)];
    on.report("default", caller("one"), &entries, 0)
        .await
        .unwrap()[0]
}

fn denied(decision: &Decision) -> Option<DenialReason> {
    let verdict = decision.answer.verdict.as_ref();
    verdict.err().map(|denial| denial.reason)
}

struct Pair {
    server: Server,
    clock: Arc<AtomicU64>,
    one: Arc<Coordinator<RedisStore>>,
    two: Arc<Coordinator<RedisStore>>,
}

impl Pair {
    async fn start(make: Make) -> Self {
        let server = Server::start(make, &[]);
        let clock = Arc::new(AtomicU64::new(ORIGIN));
        let one = replica(connect(&server.url()).await, &clock, 1).await;
        let two = replica(connect(&server.url()).await, &clock, 2).await;
        // Where nobody knows of a run before, no probe is leased for one lease time.
        let pair = Self {
            server,
            clock,
            one: Arc::new(one),
            two: Arc::new(two),
        };
        pair.pass(60_000);
        pair
    }

    fn pass(&self, ms: u64) {
        self.clock.fetch_add(ms * 1_000_000, Ordering::SeqCst);
    }

    /// Opens the breaker with failures that either replica is told of.
    async fn trip(&self, dependency: &str) {
        for at in 0..5 {
            let decision = first(&*self.one, dependency).await;
            let told = match at % 2 {
                0 => report(&*self.two, &decision, FAIL).await,
                _ => report(&*self.one, &decision, FAIL).await,
            };
            assert_eq!(told, Reported::Ok);
        }
    }
}

#[tokio::test]
async fn a_trip_at_one_replica_is_seen_by_the_other() {
    let pair = Pair::start(Make::Redis).await;
    pair.trip("payments").await;
    for decision in [
        first(&*pair.one, "payments").await,
        first(&*pair.two, "payments").await,
    ] {
        assert_eq!(denied(&decision), Some(DenialReason::BreakerOpen));
        assert_eq!(
            (decision.answer.state, decision.answer.epoch),
            (State::Open, 2)
        );
    }
}

#[tokio::test]
async fn exactly_one_probe_is_leased_over_both_replicas_in_every_race() {
    let pair = Pair::start(Make::Valkey).await;
    for round in 0..40 {
        let dependency = format!("raced-{round}");
        pair.trip(&dependency).await;
        pair.pass(10_001);
        let askers: Vec<_> = (0..16)
            .map(|asker| {
                let on = match asker % 2 {
                    0 => Arc::clone(&pair.one),
                    _ => Arc::clone(&pair.two),
                };
                let dependency = dependency.clone();
                tokio::spawn(async move { first(&*on, &dependency).await })
            })
            .collect();
        let mut granted = Vec::new();
        for asker in askers {
            let decision = asker.await.unwrap();
            match denied(&decision) {
                None => granted.push(decision),
                Some(reason) => assert_eq!(reason, DenialReason::ProbeInProgress),
            }
        }
        assert_eq!(granted.len(), 1, "round {round}");
        assert_eq!(report(&*pair.two, &granted[0], OK).await, Reported::Ok);
        let next = first(&*pair.one, &dependency).await;
        assert_eq!(denied(&next), None, "the lease is free again");
    }
}

#[tokio::test]
async fn a_permit_of_one_replica_counts_once_at_either() {
    let pair = Pair::start(Make::Redis).await;
    let decision = first(&*pair.one, "payments").await;
    assert_eq!(report(&*pair.two, &decision, FAIL).await, Reported::Ok);
    for on in [&pair.one, &pair.two] {
        assert_eq!(report(&**on, &decision, FAIL).await, Reported::Duplicate);
    }
}

#[tokio::test]
async fn an_answer_is_given_again_by_the_other_replica() {
    let pair = Pair::start(Make::Redis).await;
    let again = |on: Arc<Coordinator<RedisStore>>| async move {
        let mut asked = inquiry("payments", "one", Subject::First);
        asked.call_id = "call-7";
        on.acquire(&asked).await.unwrap()
    };
    let answer = again(Arc::clone(&pair.one)).await;
    let repeated = again(Arc::clone(&pair.two)).await;
    assert_eq!(answer.permit, repeated.permit);
    assert_eq!(answer.answer.verdict, repeated.answer.verdict);
}

#[tokio::test]
async fn a_numbered_report_counts_once_over_both_replicas() {
    let pair = Pair::start(Make::Redis).await;
    let counts = Tally {
        epoch: 1,
        first_attempts: 3,
        successes: 3,
        ..Tally::default()
    };
    let entries = [Entry::Tally("payments", counts)];
    for (on, told) in [
        (&pair.one, Reported::Ok),
        (&pair.two, Reported::Duplicate),
        (&pair.one, Reported::Duplicate),
    ] {
        let reported = on.report("default", caller("one"), &entries, 12).await;
        assert_eq!(reported.unwrap(), [told]);
    }
}

/// The store cannot give one of the two records to a replica that has no copy of it, and then it
/// can.
#[tokio::test]
async fn a_numbered_report_that_failed_half_way_is_taken_when_it_is_sent_again_and_counts_once() {
    let pair = Pair::start(Make::Redis).await;
    let permit = first(&*pair.one, "broken").await.permit.unwrap();
    let mut connection = pair.server.connection();
    let (key, version, bytes) = record_of(&mut connection, "broken");
    let put = |connection: &mut redis::Connection, version: u64, bytes: &[u8]| {
        let mut put = redis::cmd("HSET");
        put.arg(&key).arg("v").arg(version).arg("d").arg(bytes);
        put.query::<u64>(connection).unwrap();
    };
    put(&mut connection, version + 1, b"\x63nothing");
    let late = replica(connect(&pair.server.url()).await, &pair.clock, 3).await;
    // Six failures would trip, three do not.
    let counts = Tally {
        epoch: 1,
        first_attempts: 3,
        failures: 3,
        ..Tally::default()
    };
    let entries = [Entry::Tally("whole", counts), Entry::Permit(&permit, OK)];
    let failed = late.report("default", caller("one"), &entries, 12).await;
    assert!(failed.is_err(), "{failed:?}");
    put(&mut connection, version + 2, &bytes);
    let told = late.report("default", caller("one"), &entries, 12).await;
    assert_eq!(told.unwrap(), [Reported::Ok, Reported::Ok]);
    let whole = first(&*pair.two, "whole").await;
    assert_eq!((whole.answer.state, whole.answer.epoch), (State::Closed, 1));
    for on in [&*pair.one, &*pair.two, &late] {
        let told = on.report("default", caller("one"), &entries, 12).await;
        assert_eq!(told.unwrap(), [Reported::Duplicate; 2]);
    }
}

/// The key of a record, its version and its bytes.
fn record_of(connection: &mut redis::Connection, dependency: &str) -> (String, u64, Vec<u8>) {
    let keys: Vec<String> = redis::cmd("KEYS")
        .arg("holdoff:{*}r*")
        .query(connection)
        .unwrap();
    let found = keys.into_iter().find_map(|key| {
        let mut get = redis::cmd("HMGET");
        get.arg(&key).arg("v").arg("d");
        let (version, bytes): (u64, Vec<u8>) = get.query(connection).unwrap();
        let name = dependency.as_bytes();
        let is_it = bytes.windows(name.len()).any(|part| part == name);
        is_it.then_some((key, version, bytes))
    });
    found.expect("it is stored")
}

#[tokio::test]
async fn a_burst_at_both_replicas_is_one_trip_that_is_told_once() {
    let pair = Pair::start(Make::Redis).await;
    let mut permits = Vec::new();
    for _ in 0..40 {
        permits.push(first(&*pair.one, "payments").await);
    }
    let reports: Vec<_> = (permits.into_iter().enumerate())
        .map(|(at, decision)| {
            let on = match at % 2 {
                0 => Arc::clone(&pair.one),
                _ => Arc::clone(&pair.two),
            };
            tokio::spawn(async move { report(&*on, &decision, FAIL).await })
        })
        .collect();
    let mut counted = 0;
    for told in reports {
        match told.await.unwrap() {
            Reported::Ok => counted += 1,
            other => assert_eq!(other, Reported::StaleEpoch),
        }
    }
    assert_eq!(
        counted, 5,
        "five trip it, and the others are of the epoch before"
    );
    let mut trips = 0;
    for on in [&pair.one, &pair.two] {
        let told = tokio::time::timeout(std::time::Duration::ZERO, on.events().handed_over());
        let events = told.await.unwrap_or_default();
        let tripped = holdoff::coordinator::EventKind::Tripped;
        trips += events.iter().filter(|event| event.kind == tripped).count();
    }
    assert_eq!(trips, 1);
    assert_eq!(first(&*pair.two, "payments").await.answer.epoch, 2);
}

/// Times of another clock than the store's would be harmless too, as far as one replica goes.
#[tokio::test]
async fn the_fleets_clock_is_the_stores() {
    let server = Server::start(Make::Redis, &[]);
    let (one, two) = (connect(&server.url()).await, connect(&server.url()).await);
    let (secs, micros): (u64, u64) = redis::cmd("TIME").query(&mut server.connection()).unwrap();
    let of_store = Time(secs * 1_000_000_000 + micros * 1_000);
    for clock in [one.clock(), two.clock()] {
        let apart = clock.now().0.abs_diff(of_store.0);
        assert!(apart < Nanos::from_secs(2).0, "{apart} ns");
    }
    assert_eq!(one.permit_key(), two.permit_key());
    assert!(two.remembers(), "the first has been there");
}
