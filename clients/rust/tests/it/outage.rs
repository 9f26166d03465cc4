//! The service dies in the middle of an outage of a dependency, with a fleet of clients.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use holdoff_client::{Client, DenialReason, Outcome, OutcomeKind, Question, Safety, proto};
use tokio::time::Instant;

use crate::server::{Scripted, go, grant, wire};

const CLIENTS: u32 = 200;
const SECOND: Duration = Duration::from_secs(1);
/// Retries a second of the whole fleet.
const FLOOR: u32 = 40;
const TTL_SECS: usize = 10;

/// What the fleet did, by second.
#[derive(Default)]
struct Seen {
    retries_alone: Mutex<Vec<Instant>>,
    slowest_start: Mutex<Duration>,
    calls: AtomicU32,
    given_up_for_the_service: AtomicU32,
}

fn update() -> proto::Update {
    proto::Update {
        valid_for: Some(wire(15 * SECOND)),
        policy: Some(proto::ClientPolicy {
            max_attempts: 3,
            strategy: proto::Strategy::Exponential.into(),
            initial_delay: Some(wire(Duration::from_millis(100))),
            multiplier: 2.0,
            max_delay: Some(wire(10 * SECOND)),
            jitter: proto::Jitter::Full.into(),
            budget_ratio: 0.0,
            budget_ttl: Some(wire(SECOND * TTL_SECS as u32)),
            ..Default::default()
        }),
        offline_allowance: Some(proto::OfflineAllowance {
            retries_per_second: f64::from(FLOOR) / f64::from(CLIENTS),
            known_clients: CLIENTS,
        }),
        ..go(1)
    }
}

/// Calls five times a second. The dependency throttles every call, which trips no breaker, so
/// that nothing but the budget holds retries back.
async fn call(client: &Client, seen: &Seen, until: Instant) {
    while Instant::now() < until {
        let begun = Instant::now();
        let question = Question::new("payments").safety(Safety::Idempotent);
        let call = client
            .call(question)
            .classify(|_: &Result<(), ()>| Outcome::new(OutcomeKind::Throttled));
        let run = call.run(|attempt| {
            if attempt.number == 1 {
                let mut slowest = seen.slowest_start.lock().unwrap();
                *slowest = slowest.max(begun.elapsed());
            } else if attempt.is_local {
                seen.retries_alone.lock().unwrap().push(Instant::now());
            }
            async { Err(()) }
        });
        let error = run.await.unwrap_err();
        seen.calls.fetch_add(1, SeqCst);
        let is_fair = error.attempts > 0 && error.why.reason != DenialReason::NoDecision;
        seen.given_up_for_the_service
            .fetch_add(u32::from(!is_fair), SeqCst);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_killed_in_an_outage_costs_no_call_and_its_return_is_spread() {
    let service =
        Scripted::new(|question| grant(Duration::from_millis(50) * (question.attempt - 1)));
    service.pushes(update());
    let clients: Vec<Client> = (0..CLIENTS)
        .map(|n| service.builder().instance(format!("i{n}")).build().unwrap())
        .collect();
    for client in &clients {
        assert!(client.connect(SECOND).await);
    }
    let begun = Instant::now();
    let seen = Arc::<Seen>::default();
    let mut calling = tokio::task::JoinSet::new();
    for client in clients.clone() {
        let seen = Arc::clone(&seen);
        calling.spawn(async move { call(&client, &seen, begun + 50 * SECOND).await });
    }
    tokio::time::sleep(3 * SECOND).await;
    service.kill();
    tokio::time::sleep(30 * SECOND).await;
    service.start();
    let restarted = Instant::now();
    while let Some(done) = calling.join_next().await {
        done.unwrap();
    }

    let slowest = *seen.slowest_start.lock().unwrap();
    assert!(slowest <= Duration::from_millis(50), "{slowest:?}");
    assert_eq!(seen.given_up_for_the_service.load(SeqCst), 0);

    let retries = seen.retries_alone.lock().unwrap();
    let window = SECOND * TTL_SECS as u32;
    let most = (0..retries.len())
        .map(|from| retries[from..].partition_point(|at| *at < retries[from] + window))
        .max()
        .unwrap_or(0);
    let allowed = FLOOR as usize * TTL_SECS;
    // A delay of 100 ms lies between a promise and its retry.
    assert!(most <= allowed + allowed / 20, "{most} of {allowed}");
    assert!(most > allowed / 2, "and the allowance is used: {most}");

    let returns: Vec<u128> = service
        .session_times()
        .into_iter()
        .filter(|at| *at >= restarted)
        .map(|at| (at - restarted).as_millis())
        .collect();
    assert_eq!(returns.len(), CLIENTS as usize, "each once");
    let last = returns.iter().max().unwrap();
    assert!(*last <= 5_100, "{last}");
    let busiest = (0..6).map(|s| returns.iter().filter(|ms| *ms / 1_000 == s).count());
    let busiest = busiest.max().unwrap();
    let mean = CLIENTS as usize / 5;
    assert!(
        busiest <= 3 * mean,
        "{busiest} in one second, {mean} on average"
    );
    println!(
        "{} calls, slowest start {slowest:?}; {most} of {allowed} retries in the fullest 10 s \
         alone; back within {last} ms, {busiest} in the busiest second of {mean} on average",
        seen.calls.load(SeqCst)
    );
}
