//! What happens to the shared store, and what must hold all the same: every RPC is answered and says
//! that it is degraded, health serves, no probe goes while the store is unknown, an override holds,
//! and when it is back the fleet is one again, with nothing counted twice. Real servers and real
//! replicas, on both paths; a way in between that fails as a network does.

mod pair;
mod proxy;

use std::time::{Duration, Instant};

use holdoff::store::redis::Decisions;

use self::{
    pair::{Pair, granted, pause},
    proxy::Way,
};
use crate::stores::{Make, Server};

/// Rounds of questions to both replicas while the store is away.
const ROUNDS: usize = 24;
/// First attempts that need not be known afterwards: of swaps whose fate nobody knows. Retries are.
const DOUBTED: (u64, u32) = (4, 0);
/// And where a store has lost what only the other replica knew: what that one did last.
const LOST: (u64, u32) = (4, 5);

/// One way for a store to be away.
#[derive(Clone, Copy)]
enum Fault {
    /// `kill -9`, and an empty one in its place.
    Killed,
    /// SIGSTOP.
    Paused,
    Way(fn() -> Way),
    /// It has no memory for writes.
    Full,
    /// It has become a replica of something.
    ReadOnly,
}

impl Fault {
    fn begin(self, pair: &mut Pair) {
        match self {
            Self::Killed => pair.server.kill(),
            Self::Paused => pair.server.stop(),
            Self::Way(way) => pair.proxy.set(way()),
            Self::Full => set(&pair.server, "maxmemory", "1"),
            Self::ReadOnly => replicate(&pair.server, "127.0.0.1", "1"),
        }
    }

    fn end(self, pair: &mut Pair, make: Make) {
        match self {
            Self::Killed => pair.server = Server::start_on(pair.server.port, make, &[]),
            Self::Paused => pair.server.go_on(),
            Self::Way(_) => pair.proxy.set(Way::Pass),
            Self::Full => set(&pair.server, "maxmemory", "0"),
            Self::ReadOnly => replicate(&pair.server, "NO", "ONE"),
        }
    }
}

fn set(server: &Server, name: &str, value: &str) {
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg(name).arg(value);
    set.query::<()>(&mut server.connection()).unwrap();
}

fn replicate(server: &Server, host: &str, port: &str) {
    let mut replicate = redis::cmd("REPLICAOF");
    replicate.arg(host).arg(port);
    replicate.query::<()>(&mut server.connection()).unwrap();
}

/// Connections of replicas to a server; the one that asks is left out.
fn connections(server: &Server) -> usize {
    let told: String = redis::cmd("CLIENT")
        .arg("LIST")
        .query(&mut server.connection())
        .unwrap();
    told.lines().count() - 1
}

async fn holds_through(name: &str, fault: Fault, make: Make) {
    for path in [Decisions::Strict, Decisions::Leased] {
        let mut pair = Pair::start(make, path).await;
        fault.begin(&mut pair);
        pair.until_alone().await;
        pair.endure(ROUNDS).await;
        pair.keep_to_the_budget().await;
        pair.trip_at_the_first().await;
        fault.end(&mut pair, make);
        let took = pair.return_to_the_fleet(DOUBTED).await;
        pair.the_trip_is_the_fleets().await;
        pair.one_probe_at_most().await;
        let what = format!("{name}, {path:?}, back after {took:?}");
        pair.was_answered_in_time(&what);
        // Each asks on one and hears on the other.
        are_closed_but(&pair.server, 4, &what).await;
    }
}

/// What was given up is closed soon.
async fn are_closed_but(server: &Server, most: usize, what: &str) {
    let begun = Instant::now();
    loop {
        let open = connections(server);
        if open <= most {
            return;
        }
        let patience = Duration::from_secs(15);
        assert!(begun.elapsed() < patience, "{what}: {open} connections");
        pause(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn rd1_a_store_that_is_killed() {
    holds_through("killed", Fault::Killed, Make::Redis).await;
}

#[tokio::test]
async fn rd2_a_store_that_is_paused() {
    holds_through("paused", Fault::Paused, Make::Valkey).await;
}

#[tokio::test]
async fn rd3_a_way_that_swallows_all() {
    let both = || Way::Hold {
        to_store: true,
        to_replica: true,
    };
    holds_through("swallows all", Fault::Way(both), Make::Redis).await;
}

#[tokio::test]
async fn rd3_a_way_that_swallows_questions() {
    let questions = || Way::Hold {
        to_store: true,
        to_replica: false,
    };
    holds_through("swallows questions", Fault::Way(questions), Make::Valkey).await;
}

#[tokio::test]
async fn rd3_a_way_that_swallows_answers() {
    let answers = || Way::Hold {
        to_store: false,
        to_replica: true,
    };
    holds_through("swallows answers", Fault::Way(answers), Make::Redis).await;
}

#[tokio::test]
async fn rd4_a_way_that_is_half_a_second_long() {
    let slow = || Way::Slow(Duration::from_millis(500));
    holds_through("half a second", Fault::Way(slow), Make::Valkey).await;
}

#[tokio::test]
async fn rd5_a_store_that_talks_nonsense() {
    holds_through("nonsense", Fault::Way(|| Way::Garbage), Make::Redis).await;
}

#[tokio::test]
async fn rd5_a_store_that_stops_within_a_word() {
    holds_through("truncated", Fault::Way(|| Way::Truncate), Make::Valkey).await;
}

#[tokio::test]
async fn rd7_a_store_whose_memory_is_full() {
    holds_through("full", Fault::Full, Make::Redis).await;
}

#[tokio::test]
async fn rd9_a_store_that_only_reads() {
    holds_through("read-only", Fault::ReadOnly, Make::Valkey).await;
}

#[tokio::test]
async fn rd9_a_store_that_is_loading() {
    let loading = || Way::Refuse("LOADING Redis is loading the dataset in memory");
    holds_through("loading", Fault::Way(loading), Make::Redis).await;
}

#[tokio::test]
async fn rd6_a_fail_over_to_a_machine_that_lacks_the_last_writes() {
    for path in [Decisions::Strict, Decisions::Leased] {
        let mut pair = Pair::start(Make::Redis, path).await;
        let other = Server::start(Make::Redis, &[]);
        replicate(&other, "127.0.0.1", &pair.server.port.to_string());
        let begun = Instant::now();
        loop {
            let told: String = redis::cmd("INFO")
                .arg("replication")
                .query(&mut other.connection())
                .unwrap();
            if told.contains("master_link_status:up") {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{told}");
            pause(Duration::from_millis(50)).await;
        }
        replicate(&other, "NO", "ONE");
        // What the other lacks.
        pair.replicas[0].force_open("later").await.unwrap();
        for replica in &mut pair.replicas {
            replica.first("later").await;
        }
        pair.server.kill();
        pair.proxy.lead_to(other.port);
        pair.server = other;
        let took = pair.return_to_the_fleet(LOST).await;
        println!("{path:?}, back after {took:?}");
        for replica in &mut pair.replicas {
            let answer = replica.first("later").await;
            assert!(granted(&answer).is_none(), "an override is not lost");
        }
        pair.one_probe_at_most().await;
    }
}

/// What the fleet does not notice.
#[tokio::test]
async fn rd8_rd11_rd12_a_store_that_forgets_its_scripts_all_it_had_or_the_time() {
    for path in [Decisions::Strict, Decisions::Leased] {
        let mut pair = Pair::start(Make::Redis, path).await;
        let mut connection = pair.server.connection();
        let hour = 3_600_000_000;
        for what in [
            "scripts",
            "all",
            "an hour ahead",
            "an hour behind",
            "right again",
        ] {
            match what {
                "scripts" => redis::cmd("SCRIPT")
                    .arg("FLUSH")
                    .query::<()>(&mut connection)
                    .unwrap(),
                "all" => redis::cmd("FLUSHALL").query::<()>(&mut connection).unwrap(),
                "an hour ahead" => pair.proxy.set(Way::Ahead(hour)),
                "an hour behind" => pair.proxy.set(Way::Ahead(-hour)),
                _ => pair.proxy.set(Way::Pass),
            }
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(2_500) {
                for replica in &mut pair.replicas {
                    let answer = replica.first("closed").await;
                    assert!(granted(&answer).is_some(), "{what}: {answer:?}");
                    let forced = replica.first("forced").await;
                    assert!(granted(&forced).is_none(), "{what}: {forced:?}");
                }
                pause(Duration::from_millis(50)).await;
            }
            let took = pair.return_to_the_fleet(LOST).await;
            println!("{path:?}, {what}: {took:?}");
            pair.one_probe_at_most().await;
        }
    }
}

#[tokio::test]
async fn rd10_a_store_that_drops_keys_is_told_of_at_the_start() {
    let mut pair = Pair::start(Make::Redis, Decisions::Strict).await;
    set(&pair.server, "maxmemory-policy", "allkeys-lru");
    let late = pair.one_more().await;
    let log = late.log();
    assert!(log.contains("maxmemory-policy allkeys-lru"), "{log}");
    assert!(log.contains("noeviction"), "{log}");
    pair.until_of_the_fleet("closed").await;
}

#[tokio::test]
async fn rd13_a_herd_of_replicas_returns_spread_and_costs_the_store_little() {
    let mut pair = Pair::start(Make::Redis, Decisions::Strict).await;
    for _ in 0..4 {
        let more = pair.one_more().await;
        pair.replicas.push(more);
    }
    pair.until_of_the_fleet("closed").await;
    for at in 0..60 {
        for replica in &mut pair.replicas {
            replica.first(&format!("one-of-many-{at}")).await;
        }
    }
    pair.proxy.set(Way::Cut);
    pair.until_alone().await;
    for at in 0..60 {
        for replica in &mut pair.replicas {
            assert!(replica.first(&format!("one-of-many-{at}")).await.degraded);
        }
    }
    let commands = |server: &Server| {
        let told: String = redis::cmd("INFO")
            .arg("commandstats")
            .query(&mut server.connection())
            .unwrap();
        let calls = told.lines().filter_map(|line| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let calls = rest.split(',').next()?.parse::<u64>().ok()?;
            name.starts_with("eval").then_some(calls)
        });
        calls.sum::<u64>()
    };
    let before = commands(&pair.server);
    pair.proxy.set(Way::Pass);
    let took = pair.until_of_the_fleet("closed").await;
    pause(Duration::from_secs(2)).await;
    let cost = commands(&pair.server) - before;
    println!("six replicas are back after {took:?}: {cost} swaps");
    are_closed_but(&pair.server, 12, "six replicas").await;
    // Sixty records of six replicas, each looked at and swapped, and some races.
    assert!(cost <= 60 * 6 * 4, "{cost} swaps");
}

#[tokio::test]
async fn a_store_that_comes_and_goes_leaks_neither_connections_nor_descriptors() {
    for path in [Decisions::Strict, Decisions::Leased] {
        let mut pair = Pair::start(Make::Valkey, path).await;
        let (mut open, mut descriptors) = (0, Vec::new());
        for cycle in 0..10 {
            pair.proxy.set(match cycle % 2 {
                0 => Way::Cut,
                _ => Way::Hold {
                    to_store: true,
                    to_replica: true,
                },
            });
            pair.until_alone().await;
            pair.endure(2).await;
            pair.proxy.set(Way::Pass);
            pair.until_of_the_fleet("closed").await;
            if cycle == 1 {
                pause(Duration::from_secs(3)).await;
                open = connections(&pair.server);
                descriptors = pair.replicas.iter().map(|it| it.descriptors()).collect();
            }
        }
        // A subscription that fell silent is made again within seconds.
        let begun = Instant::now();
        loop {
            let now = connections(&pair.server);
            let all = pair.replicas.iter().zip(&descriptors);
            let is_flat = all
                .clone()
                .all(|(it, before)| it.descriptors() <= before + 2);
            if now <= open && is_flat {
                println!("{path:?}: {now} connections, as before");
                break;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(15),
                "{now} connections, {open} before"
            );
            pause(Duration::from_millis(200)).await;
        }
    }
}
