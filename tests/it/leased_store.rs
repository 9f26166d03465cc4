//! Replicas on the leased path: what it costs the store, how fast a trip travels, and what stays
//! exact. Real time and real servers, since those are what is tested.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use holdoff::{
    coordinator::{Caller, Coordinator, Decision, Entry, Inquiry, Key, Made, Subject},
    store::{RedisStore, redis::Decisions},
};
use holdoff_decision::{
    DenialReason, Nanos, Outcome, OutcomeKind, Priority, Reported, State, Tally, Time,
};

use crate::stores::{Cluster, Make, Server, connect_with, coordinate};

const FAIL: Outcome = Outcome::of(OutcomeKind::Failure);
const OK: Outcome = Outcome::of(OutcomeKind::Success);
const REPLICAS: usize = 4;

const POLICIES: &str = "\
version: 1
namespaces:
  default:
    defaults:
      breaker: {spread: 0s, open_for: 500ms, probe_successes: 1}
      ramp: {start: 1.0}
    dependencies:
      \"many*\": {breaker: {spread: 0s, open_for: 500ms, probes: 3, probe_successes: 100}}
      \"budget*\": {budget: {ratio: 0.2, floor_per_second: 2, ttl: 1s, max_caller_share: 1.0}}
";

type Replica = Arc<Coordinator<RedisStore>>;

struct Fleet {
    server: Server,
    replicas: Vec<Replica>,
}

impl Fleet {
    async fn start(make: Make) -> Self {
        let server = Server::start(make, &[]);
        let mut replicas = Vec::new();
        for _ in 0..REPLICAS {
            replicas.push(replica(&server.url()).await);
        }
        Self { server, replicas }
    }

    async fn trip(&self, dependency: &str) {
        trip(&self.replicas[0], dependency).await;
    }

    /// Waits until `holds`, and says how long it took.
    async fn until(&self, mut holds: impl AsyncFnMut() -> bool) -> Duration {
        let begun = Instant::now();
        while !holds().await {
            assert!(begun.elapsed() < Duration::from_secs(10), "it never comes");
            pause(2).await;
        }
        begun.elapsed()
    }
}

async fn trip(on: &Replica, dependency: &str) {
    for at in 0..5 {
        let decision = first(on, dependency, "one").await;
        let told = report(on, &decision, "one", FAIL).await;
        assert_eq!(told, Reported::Ok, "failure {at}");
    }
}

async fn replica(url: &str) -> Replica {
    coordinate(connect_with(url, Decisions::Leased).await, POLICIES).await
}

#[allow(clippy::disallowed_methods, reason = "what is tested takes real time")]
async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

fn inquiry<'a>(dependency: &'a str, instance: &'a str, subject: Subject<'a>) -> Inquiry<'a> {
    Inquiry {
        key: Key {
            namespace: "default",
            dependency,
        },
        caller: Caller {
            service: "shop",
            instance,
        },
        subject,
        call_id: "",
        idempotent: true,
        time_left: None,
        cost: 1,
        priority: Priority::Normal,
    }
}

async fn first(on: &Replica, dependency: &str, instance: &str) -> Decision {
    let asked = inquiry(dependency, instance, Subject::First);
    on.acquire(&asked).await.unwrap()
}

async fn report(on: &Replica, decision: &Decision, instance: &str, outcome: Outcome) -> Reported {
    let permit = decision.permit.as_ref().expect("it was granted");
    let entries = [Entry::Permit(permit, outcome)];
    let caller = Caller {
        service: "shop",
        instance,
    };
    on.report("default", caller, &entries, 0).await.unwrap()[0]
}

fn denied(decision: &Decision) -> Option<DenialReason> {
    let verdict = decision.answer.verdict.as_ref();
    verdict.err().map(|denial| denial.reason)
}

/// What the server has been asked for, by its own count. What the one script calls is not: it is
/// counted as the call of the script, but what is published there as well.
pub fn commands(server: &Server) -> u64 {
    const WITHIN_THE_SCRIPT: [&str; 7] =
        ["time", "hget", "hmget", "hset", "pexpire", "zadd", "info"];
    let told: String = redis::cmd("INFO")
        .arg("commandstats")
        .query(&mut server.connection())
        .unwrap();
    let lines = told.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let calls = rest.split(',').next()?.parse::<u64>().ok()?;
        (!WITHIN_THE_SCRIPT.contains(&name)).then_some(calls)
    });
    lines.sum()
}

#[tokio::test]
async fn ten_thousand_pairs_in_a_second_at_four_replicas_cost_fifty_store_commands_at_most() {
    let fleet = Fleet::start(Make::Redis).await;
    for replica in &fleet.replicas {
        first(replica, "hot", "warm").await;
    }
    // What a start costs is over.
    pause(1_500).await;
    let (before, begun) = (commands(&fleet.server), Instant::now());
    let asking: Vec<_> = (fleet.replicas.iter().cloned().enumerate())
        .map(|(at, replica)| {
            tokio::spawn(async move {
                for pair in 0..2_500 {
                    let instance = format!("i{at}-{}", pair % 10);
                    let decision = first(&replica, "hot", &instance).await;
                    let told = report(&replica, &decision, &instance, OK).await;
                    assert_eq!(told, Reported::Ok);
                    if pair % 25 == 24 {
                        // A hundredth of it all, in a hundredth of the second.
                        let due = begun + Duration::from_millis((pair + 1) * 2 / 5);
                        tokio::time::sleep_until(due.into()).await;
                    }
                }
            })
        })
        .collect();
    for asking in asking {
        asking.await.unwrap();
    }
    let taken = begun.elapsed().as_secs_f64().max(1.0);
    // What was gathered last is told, too.
    pause(400).await;
    let cost = commands(&fleet.server) - before;
    let allowed = 50.0 * (taken + 0.4);
    println!("{cost} store commands in {taken:.2} s");
    assert!((cost as f64) <= allowed, "{cost} commands in {taken:.2} s");
}

#[tokio::test]
async fn a_trip_reaches_all_replicas_within_250_ms() {
    let fleet = Fleet::start(Make::Valkey).await;
    let mut all = Vec::new();
    for round in 0..10 {
        let dependency = format!("tripped-{round}");
        for replica in &fleet.replicas {
            first(replica, &dependency, "one").await;
        }
        let begun = Instant::now();
        fleet.trip(&dependency).await;
        let here = first(&fleet.replicas[0], &dependency, "one").await;
        assert_eq!(
            denied(&here),
            Some(DenialReason::BreakerOpen),
            "at once where it is"
        );
        fleet
            .until(async || {
                for replica in &fleet.replicas[1..] {
                    let seen = first(replica, &dependency, "two").await;
                    if denied(&seen) != Some(DenialReason::BreakerOpen) {
                        return false;
                    }
                }
                true
            })
            .await;
        all.push(begun.elapsed());
    }
    all.sort();
    println!("median {:?}, most {:?}", all[5], all[9]);
    assert!(all[9] <= Duration::from_millis(250), "{all:?}");
}

/// What is told at one master, or at the one that Sentinels name, is heard by all.
#[tokio::test]
async fn a_trip_travels_over_a_cluster_and_by_sentinels() {
    let cluster = Cluster::start();
    let master = Server::start(Make::Redis, &[]);
    let sentinel = Server::sentinel(master.port);
    let by_sentinel = format!("redis+sentinel://127.0.0.1:{}/primary", sentinel.port);
    for url in [cluster.url(), by_sentinel] {
        let (one, two) = (replica(&url).await, replica(&url).await);
        // Of different shards, so at different masters.
        for name in ["one", "two", "three", "four", "five", "six"] {
            first(&two, name, "two").await;
            trip(&one, name).await;
            let begun = Instant::now();
            while denied(&first(&two, name, "two").await) != Some(DenialReason::BreakerOpen) {
                let waited = begun.elapsed();
                assert!(waited < Duration::from_secs(10), "{name} over {url}");
                pause(2).await;
            }
        }
    }
}

#[tokio::test]
async fn exactly_as_many_probes_as_the_policy_says_are_leased_over_four_replicas() {
    let fleet = Fleet::start(Make::Redis).await;
    // Where nobody knows of a run before, no probe is leased for one lease time.
    pause(5_100).await;
    for (dependency, probes, rounds) in [("one-probe", 1, 5), ("many-probes", 3, 1)] {
        fleet.trip(dependency).await;
        pause(550).await;
        for round in 0..rounds {
            let asking: Vec<_> = (0..32)
                .map(|asker| {
                    let replica = Arc::clone(&fleet.replicas[asker % REPLICAS]);
                    let instance = format!("i{asker}");
                    tokio::spawn(async move { first(&replica, dependency, &instance).await })
                })
                .collect();
            let mut granted = Vec::new();
            for asking in asking {
                let decision = asking.await.unwrap();
                match denied(&decision) {
                    None => granted.push(decision),
                    Some(reason) => assert_eq!(reason, DenialReason::ProbeInProgress),
                }
            }
            assert_eq!(granted.len(), probes, "{dependency}, round {round}");
            // An outcome that says nothing gives the lease back: the next round has it.
            let ignored = Outcome::of(OutcomeKind::Ignored);
            for (at, decision) in granted.iter().enumerate() {
                let on = &fleet.replicas[(round + at) % REPLICAS];
                assert_eq!(report(on, decision, "any", ignored).await, Reported::Ok);
            }
        }
    }
}

#[tokio::test]
async fn a_breaker_that_one_replica_opened_another_closes() {
    let fleet = Fleet::start(Make::Redis).await;
    pause(5_100).await;
    fleet.trip("payments").await;
    pause(550).await;
    let probe = first(&fleet.replicas[1], "payments", "one").await;
    assert_eq!(denied(&probe), None);
    assert_eq!(
        report(&fleet.replicas[2], &probe, "one", OK).await,
        Reported::Ok
    );
    let all_closed = async || {
        for replica in &fleet.replicas {
            let seen = first(replica, "payments", "one").await;
            if denied(&seen).is_some() || seen.answer.state != State::Closed {
                return false;
            }
        }
        true
    };
    fleet.until(all_closed).await;
}

#[tokio::test]
async fn failures_that_are_spread_over_the_replicas_trip_together() {
    let fleet = Fleet::start(Make::Redis).await;
    for (at, replica) in fleet.replicas.iter().enumerate() {
        let instance = format!("i{at}");
        for _ in 0..2 {
            let decision = first(replica, "spread", &instance).await;
            assert_eq!(
                report(replica, &decision, &instance, FAIL).await,
                Reported::Ok
            );
        }
        let seen = first(replica, "spread", &instance).await;
        if at == 0 {
            assert_eq!(denied(&seen), None, "two failures are too few");
        }
    }
    let all_open = async || {
        for replica in &fleet.replicas {
            if first(replica, "spread", "i9").await.answer.state == State::Closed {
                return false;
            }
        }
        true
    };
    let taken = fleet.until(all_open).await;
    assert!(taken < Duration::from_millis(600), "{taken:?}");
}

/// Invariant 5 over four replicas, by the naive window.
#[tokio::test]
async fn retries_of_four_replicas_never_pass_the_budget_of_any_window() {
    let fleet = Fleet::start(Make::Redis).await;
    let end = Instant::now() + Duration::from_secs(4);
    let asking: Vec<_> = (fleet.replicas.iter().cloned().enumerate())
        .map(|(at, replica)| {
            tokio::spawn(async move {
                let (mut firsts, mut retries) = (Vec::new(), Vec::new());
                let instance = format!("i{at}");
                while Instant::now() < end {
                    let decision = first(&replica, "budget", &instance).await;
                    let Ok(grant) = decision.answer.verdict else {
                        continue;
                    };
                    firsts.push(grant.permit.issued);
                    let permit = decision.permit.as_ref().expect("it was granted");
                    let rejected = Outcome::of(OutcomeKind::NotSent);
                    let outcome = match firsts.len() % 3 {
                        0 => rejected,
                        _ => {
                            report(&replica, &decision, &instance, OK).await;
                            pause(1).await;
                            continue;
                        }
                    };
                    let again = Subject::Retry {
                        attempt: 2,
                        made: Made::Permit(permit),
                        outcome,
                    };
                    let asked = inquiry("budget", &instance, again);
                    let retry = replica.acquire(&asked).await.unwrap();
                    if retry.answer.verdict.is_ok() {
                        // It was promised when its group left.
                        retries.push(replica.clock().now());
                        report(&replica, &retry, &instance, OK).await;
                    }
                }
                (firsts, retries)
            })
        })
        .collect();
    let (mut firsts, mut retries) = (Vec::new(), Vec::new());
    for asking in asking {
        let (some_firsts, some_retries) = asking.await.unwrap();
        firsts.extend(some_firsts);
        retries.extend(some_retries);
    }
    let ttl = Nanos::from_secs(1);
    let within = |times: &[Time], now: Time, span: Nanos| {
        let in_window = |at: &&Time| **at <= now && now.since(**at) < span;
        times.iter().filter(in_window).count() as u64
    };
    // A group waits for 20 ms, so an answer is heard so much later than it was charged.
    let sure = ttl.saturating_sub(Nanos::from_millis(30));
    let overshoot = (retries.iter())
        .map(|now| {
            let allowed = within(&firsts, *now, ttl) / 5 + 2;
            within(&retries, *now, sure) as i64 - allowed as i64
        })
        .max();
    println!(
        "{} first attempts, {} retries, overshoot {overshoot:?}",
        firsts.len(),
        retries.len()
    );
    assert!(
        retries.len() >= 8,
        "the floor alone gives as many: {}",
        retries.len()
    );
    assert!(overshoot <= Some(0), "{overshoot:?}");
}

#[tokio::test]
async fn a_permit_that_was_told_of_is_a_duplicate_everywhere() {
    let fleet = Fleet::start(Make::Redis).await;
    for replica in &fleet.replicas {
        first(replica, "payments", "one").await;
    }
    let decision = first(&fleet.replicas[0], "payments", "one").await;
    assert_eq!(
        report(&fleet.replicas[1], &decision, "one", FAIL).await,
        Reported::Ok
    );
    assert_eq!(
        report(&fleet.replicas[1], &decision, "one", FAIL).await,
        Reported::Duplicate
    );
    pause(700).await;
    for replica in &fleet.replicas {
        assert_eq!(
            report(replica, &decision, "one", FAIL).await,
            Reported::Duplicate
        );
    }
}

#[tokio::test]
async fn a_numbered_report_that_was_told_of_counts_once() {
    let fleet = Fleet::start(Make::Redis).await;
    let counts = Tally {
        epoch: 1,
        first_attempts: 3,
        successes: 3,
        ..Tally::default()
    };
    let entries = [Entry::Tally("payments", counts)];
    let caller = Caller {
        service: "shop",
        instance: "one",
    };
    let told = fleet.replicas[0]
        .report("default", caller, &entries, 12)
        .await;
    assert_eq!(told.unwrap(), [Reported::Ok]);
    pause(700).await;
    for replica in &fleet.replicas {
        let told = replica.report("default", caller, &entries, 12).await;
        assert_eq!(told.unwrap(), [Reported::Duplicate]);
    }
}

#[tokio::test]
async fn what_is_decided_here_is_decided_while_the_store_is_away_and_a_trip_is_told_later() {
    let mut fleet = Fleet::start(Make::Redis).await;
    for replica in &fleet.replicas {
        first(replica, "payments", "one").await;
    }
    fleet.server.stop();
    fleet.trip("payments").await;
    let here = first(&fleet.replicas[0], "payments", "one").await;
    assert_eq!(denied(&here), Some(DenialReason::BreakerOpen));
    let there = first(&fleet.replicas[1], "payments", "two").await;
    assert_eq!(denied(&there), None);
    fleet.server.go_on();
    let told = async || {
        let seen = first(&fleet.replicas[1], "payments", "two").await;
        seen.answer.epoch > 1
    };
    fleet.until(told).await;
}
