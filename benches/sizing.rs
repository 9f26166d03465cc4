//! What a fleet costs its shared store, by size: the real replicas on the leased path, over a store in
//! this process that counts (`store::redis::here`), on a clock that is paused. docs/sizing.md goes by
//! its tables; tests/it/sizing.rs holds the count against a real server.
//!
//!     cargo bench --bench sizing

#![recursion_limit = "256"]

#[allow(dead_code, reason = "the test uses what is not used here")]
#[path = "../tests/it/sizing/load.rs"]
mod load;

use std::{sync::Arc, time::Duration};

use holdoff::proto::{
    Caller, ClientPolicy, OfflineAllowance, ReportEntry, ReportRequest, SessionRequest,
    SessionResponse, Tally, Update, report_entry::Entry, session_request, session_response,
};
use holdoff::store::{
    RedisStore,
    redis::{
        Decisions, Timing,
        here::{Cost, Here},
    },
};
use holdoff_decision::Time;
use prost::Message as _;

use self::load::{Load, replica};

const ROUND_TRIP: Duration = Duration::from_micros(500);
const LASTS: Duration = Duration::from_secs(3);
/// What a start costs is over then.
const SETTLED: Duration = Duration::from_secs(2);
/// A fleet: replicas, dependencies, first attempts a second in all.
struct Size {
    replicas: u32,
    dependencies: u32,
    pairs_per_second: u32,
    fails_one_in: u32,
}

struct Seen {
    cost: Cost,
    decisions: u64,
    record: usize,
}

/// gRPC's and HTTP/2's heads of one message, and a packet's.
const HEADS: usize = 5 + 9 + 66;

fn main() {
    let (report, update) = (report().encoded_len(), update().encoded_len());
    println!(
        "a report of one dependency: {} bytes on the wire; a pushed state: {}",
        report + HEADS,
        update + HEADS
    );
    println!(
        "| replicas | dependencies | pairs/s | fail | commands/s | swaps/s | lost | received KB/s | told KB/s | bytes a record |"
    );
    println!("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let of = |replicas, dependencies, pairs_per_second, fails_one_in| Size {
        replicas,
        dependencies,
        pairs_per_second,
        fails_one_in,
    };
    let mut sizes = Vec::new();
    for replicas in [1, 2, 4, 8, 16, 32] {
        sizes.push(of(replicas, 1, 10_000, 0));
    }
    for replicas in [1, 4, 16] {
        sizes.push(of(replicas, 1_000, 20_000, 0));
        sizes.push(of(replicas, 1_000, 20_000, 100));
        sizes.push(of(replicas, 1_000, 20_000, 20));
    }
    sizes.push(of(4, 10_000, 50_000, 100));
    sizes.push(of(16, 1_000, 200_000, 100));
    for size in sizes {
        let seen = see(&size);
        let seconds = LASTS.as_secs_f64();
        let a_second = |count: u64| count as f64 / seconds;
        println!(
            "| {} | {} | {:.0} | {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {} |",
            size.replicas,
            size.dependencies,
            a_second(seen.decisions),
            match size.fails_one_in {
                0 => "none".to_owned(),
                one_in => format!("{} %", 100.0 / f64::from(one_in)),
            },
            a_second(seen.cost.commands()),
            a_second(seen.cost.swapped),
            a_second(seen.cost.lost),
            a_second(seen.cost.received) / 1e3,
            a_second(seen.cost.told) / 1e3,
            seen.record,
        );
    }
}

fn see(size: &Size) -> Seen {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let here = Arc::new(Here::new(Time(1_700_000_000_000_000_000), ROUND_TRIP));
        let mut replicas = Vec::new();
        for number in 1..=size.replicas {
            let store = RedisStore::over(
                &here,
                Timing::default(),
                Decisions::Leased,
                [number as u8; 16],
            );
            replicas.push(replica(store.await.expect("it is here")).await);
        }
        let load = Load {
            dependencies: size.dependencies,
            pairs_per_second: size.pairs_per_second / size.replicas,
            fails_one_in: size.fails_one_in,
            lasts: SETTLED,
        };
        put(load, &replicas).await;
        let before = here.cost();
        let decisions = put(
            Load {
                lasts: LASTS,
                ..load
            },
            &replicas,
        )
        .await;
        let cost = here.cost().since(&before);
        let (bytes, records) = here.held();
        Seen {
            cost,
            decisions,
            record: bytes / records.max(1),
        }
    })
}

async fn put(load: Load, replicas: &[load::Replica]) -> u64 {
    let tasks: Vec<_> = (1..)
        .zip(replicas.iter().cloned())
        .map(|(number, replica)| tokio::spawn(load.put_on(replica, number)))
        .collect();
    let mut decisions = 0;
    for task in tasks {
        decisions += task.await.expect("no task panics");
    }
    decisions
}

/// What a client sends that makes first attempts on a pushed state: once a second.
fn report() -> SessionRequest {
    let tally = Tally {
        dependency: "payments-eu-west-1".to_owned(),
        epoch: 7,
        first_attempts: 120,
        successes: 119,
        failures: 1,
        latency_sum: Some(prost_types::Duration {
            seconds: 3,
            nanos: 141_592_653,
        }),
        ..Tally::default()
    };
    let report = ReportRequest {
        namespace: "default".to_owned(),
        caller: Some(Caller {
            service: "checkout".to_owned(),
            instance: "checkout-6f7c9d8b5-x2x4q".to_owned(),
        }),
        entries: vec![ReportEntry {
            entry: Some(Entry::Tally(tally)),
        }],
        sequence: 4_711,
    };
    SessionRequest {
        id: 4_711,
        message: Some(session_request::Message::Report(report)),
    }
}

/// What it is told when the state changes, and every five seconds.
fn update() -> SessionResponse {
    let span = |nanos| Some(prost_types::Duration { seconds: 1, nanos });
    let policy = ClientPolicy {
        max_attempts: 3,
        strategy: 3,
        initial_delay: span(100_000_000),
        multiplier: 2.0,
        max_delay: span(0),
        min_delay: span(0),
        jitter: 2,
        jitter_proportion: 0.0,
        min_attempt_time: span(0),
        pushback_max: span(0),
        pushback_spread: span(0),
        budget_ratio: 0.2,
        budget_ttl: span(0),
        open_for: span(0),
        open_multiplier: 2.0,
        open_max: span(0),
        slow_after: span(0),
        breaker_off: false,
    };
    let update = Update {
        dependency: "payments-eu-west-1".to_owned(),
        state: 2,
        epoch: 7,
        first_attempts: 3,
        valid_for: span(500_000_000),
        policy: Some(policy),
        offline_allowance: Some(OfflineAllowance {
            retries_per_second: 0.01,
            known_clients: 100,
        }),
    };
    SessionResponse {
        id: 0,
        message: Some(session_response::Message::Update(update)),
    }
}
