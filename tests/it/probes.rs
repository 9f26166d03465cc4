//! Probes over the wire: never more than permitted, never lost for good, and what late
//! reports do.

use std::sync::Arc;

use holdoff_client::proto::{
    BreakerState, DenialReason, OutcomeKind, ReportReason, acquire_response::Verdict,
};
use tokio::sync::Barrier;

use crate::harness::*;

use OutcomeKind::{Failure, Ignored, Success};

fn half_open_policy(probes: u32) -> String {
    policy_of_d(&format!(
        "{{breaker: {{window: 10, min_calls: 5, failure_ratio: 0.5, open_for: 10s, \
           probes: {probes}, probe_lease: 5s, spread: 2s, open_multiplier: 1}}}}"
    ))
}

/// Open since t = 0, until 10.
async fn open(probes: u32, workers: usize) -> (Service, Client) {
    let policies = half_open_policy(probes);
    let service = Service::start_with(Setup {
        policies: &policies,
        workers,
        ..Setup::default()
    })
    .await;
    let mut client = service.client().await;
    client.trip("d", 5).await;
    (service, client)
}

#[tokio::test]
async fn b16a_a_probe_whose_client_crashed_comes_back_with_its_lease() {
    let (service, mut client) = open(2, 1).await;
    service.at_ms(10_000);
    let one = client.ask(first("d")).await;
    let epoch = one.epoch;
    assert!(grant_of(one).probe);
    service.at_ms(10_100);
    assert!(client.granted(first("d")).await.probe);
    service.at_ms(10_200);
    let denial = client.denied(first("d")).await;
    assert_eq!(denial.reason(), DenialReason::ProbeInProgress);
    let at = 10_200.0 + ms(denial.retry_after);
    assert!(10_200.0 < at && at <= 17_100.0, "{at}");
    service.at_ms(14_999);
    client.denied(first("d")).await;
    service.at_ms(15_000);
    let again = client.ask(first("d")).await;
    assert_eq!(
        (again.state(), again.epoch),
        (BreakerState::HalfOpen, epoch)
    );
    assert!(grant_of(again).probe);
}

#[tokio::test]
async fn b16b_whatever_clients_do_some_probe_goes_out_in_every_lease_time() {
    let (service, mut client) = open(2, 1).await;
    let mut probes = Vec::new();
    for step in 0..600 {
        let now = 10_000 + step * 100;
        service.at_ms(now);
        if let Some(Verdict::Grant(grant)) = client.ask(first("d")).await.verdict {
            assert!(grant.probe);
            probes.push(now);
        }
    }
    for pair in probes.windows(2) {
        assert!(pair[1] - pair[0] <= 5_000, "{pair:?}");
    }
    for three in probes.windows(3) {
        assert!(
            three[2] - three[0] >= 5_000,
            "more than 2 in a lease: {three:?}"
        );
    }
}

#[tokio::test]
async fn b16c_a_probe_that_reports_after_its_lease_decides_nothing() {
    let (service, mut client) = open(2, 1).await;
    service.at_ms(10_000);
    let probe = client.granted(first("d")).await;
    service.at_ms(16_000);
    let before = client.get("d").await;
    assert_eq!(
        client.reported(&probe.permit, Success).await,
        ReportReason::Expired
    );
    let after = client.get("d").await;
    assert_eq!((after.state(), after.epoch), (before.state(), before.epoch));
}

#[tokio::test]
async fn b18a_of_a_thousand_that_ask_at_once_exactly_three_probe() {
    let (service, _client) = open(3, 4).await;
    service.at_ms(10_000);
    const CONNECTIONS: usize = 20;
    const EACH: usize = 50;
    let barrier = Arc::new(Barrier::new(CONNECTIONS));
    let mut threads = Vec::new();
    for index in 0..CONNECTIONS {
        let url = service.urls[index % service.urls.len()].clone();
        let barrier = Arc::clone(&barrier);
        threads.push(std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let client = Client::connect(&url).await;
                barrier.wait().await;
                let mut asked = tokio::task::JoinSet::new();
                for _ in 0..EACH {
                    let mut client = client.clone();
                    asked.spawn(async move { client.ask(first("d")).await });
                }
                asked.join_all().await
            })
        }));
    }
    let answers: Vec<_> = threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap())
        .collect();
    assert_eq!(answers.len(), 1000);
    let mut probes = 0;
    for answer in answers {
        match answer.verdict.unwrap() {
            Verdict::Grant(grant) => {
                assert!(grant.probe);
                probes += 1;
            }
            Verdict::Denial(denial) => {
                assert_eq!(denial.reason(), DenialReason::ProbeInProgress);
                assert!(ms(denial.retry_after) > 0.0);
            }
        }
    }
    assert_eq!(probes, 3);
}

#[tokio::test]
async fn b18c_a_probe_that_is_reported_twice_gives_one_lease_back() {
    let (service, mut client) = open(3, 1).await;
    service.at_ms(10_000);
    let mut permits = Vec::new();
    for _ in 0..3 {
        permits.push(client.granted(first("d")).await.permit);
    }
    assert_eq!(
        client.reported(&permits[0], Ignored).await,
        ReportReason::Ok
    );
    assert_eq!(
        client.reported(&permits[0], Ignored).await,
        ReportReason::Duplicate
    );
    assert_eq!(client.get("d").await.probes_out, 2);
    assert!(client.granted(first("d")).await.probe);
    assert_eq!(
        reason_of(client.ask(first("d")).await),
        DenialReason::ProbeInProgress
    );
}

fn stale_policy() -> String {
    policy_of_d(
        "{breaker: {window: 10, min_calls: 5, failure_ratio: 0.5, open_for: 10s, \
          open_multiplier: 1, probes: 1, probe_successes: 1}, retry: {max_attempts: 3}, \
          budget: {floor_per_second: 10}}",
    )
}

/// Case B19: N was permitted at 0, the breaker opened at 1.
async fn opened_under_a_slow_call() -> (Service, Client, bytes::Bytes) {
    let policies = stale_policy();
    let service = Service::start(&policies).await;
    let mut client = service.client().await;
    let answer = client.ask(first("d")).await;
    assert_eq!(answer.epoch, 1);
    let slow = grant_of(answer).permit;
    service.at_ms(1_000);
    client.trip("d", 5).await;
    assert_eq!(client.get("d").await.epoch, 2);
    (service, client, slow)
}

#[tokio::test]
async fn b19a_a_late_success_from_before_the_outage_does_not_close_the_breaker() {
    let (service, mut client, slow) = opened_under_a_slow_call().await;
    service.at_ms(11_000);
    let probe = client.ask(first("d")).await;
    assert_eq!((probe.state(), probe.epoch), (BreakerState::HalfOpen, 3));
    let probe = grant_of(probe).permit;
    service.at_ms(12_000);
    assert_eq!(
        client.reported(&slow, Success).await,
        ReportReason::StaleEpoch
    );
    assert_eq!(client.get("d").await.state(), BreakerState::HalfOpen);
    service.at_ms(13_000);
    assert_eq!(client.reported(&probe, Failure).await, ReportReason::Ok);
    service.at_ms(22_999);
    assert_eq!(client.get("d").await.state(), BreakerState::Open);
    service.at_ms(23_000);
    assert_eq!(client.get("d").await.state(), BreakerState::HalfOpen);
}

#[tokio::test]
async fn b19b_a_late_failure_from_before_the_outage_does_not_reopen_it() {
    let (service, mut client, slow) = opened_under_a_slow_call().await;
    service.at_ms(11_000);
    let probe = client.granted(first("d")).await.permit;
    service.at_ms(12_000);
    assert_eq!(
        client.reported(&slow, Failure).await,
        ReportReason::StaleEpoch
    );
    service.at_ms(13_000);
    assert_eq!(client.reported(&probe, Success).await, ReportReason::Ok);
    assert_eq!(client.get("d").await.state(), BreakerState::Closed);
}

#[tokio::test]
async fn b19c_a_late_failure_while_open_prolongs_nothing_and_tells_nothing() {
    let (service, mut client, slow) = opened_under_a_slow_call().await;
    service.at_ms(5_000);
    assert_eq!(
        client.reported(&slow, Failure).await,
        ReportReason::StaleEpoch
    );
    let seen = client.get("d").await;
    assert_eq!(ms(seen.open_for), 6_000.0);
    assert_eq!((seen.trips, seen.epoch), (1, 2));
}

#[tokio::test]
async fn b19d_a_late_failure_after_the_recovery_is_not_in_the_new_window() {
    let (service, mut client, slow) = opened_under_a_slow_call().await;
    service.at_ms(11_000);
    let probe = client.granted(first("d")).await.permit;
    assert_eq!(client.reported(&probe, Success).await, ReportReason::Ok);
    assert_eq!(client.get("d").await.epoch, 4);
    assert_eq!(
        client.reported(&slow, Failure).await,
        ReportReason::StaleEpoch
    );
    // One success alone would show a ratio of 0.5 if the late failure were there.
    client.call("d", Success).await;
    assert_eq!(client.get("d").await.failure_ratio, 0.0);
}

#[tokio::test]
async fn b19e_the_late_caller_still_gets_a_decision_for_its_own_call() {
    let (service, mut client, slow) = opened_under_a_slow_call().await;
    service.at_ms(11_000);
    let probe = client.granted(first("d")).await.permit;
    client.reported(&probe, Success).await;
    let answer = client.ask(retry("d", 2, &slow, Failure)).await;
    assert_eq!(answer.previous_result(), ReportReason::StaleEpoch);
    grant_of(answer);
    let past = client.ask(retry("d", 4, &slow, Failure)).await;
    assert_ne!(past.previous_result(), ReportReason::Ok);
    denial_of(past);
}

#[tokio::test]
async fn b22a_a_repeated_question_gets_the_same_answer_and_counts_once() {
    let policy = policy_of_d(
        "{retry: {initial_delay: 900ms}, breaker: {window: 10, min_calls: 5}, budget: {floor_per_second: 10}}",
    );
    let service = Service::start(&policy).await;
    let mut client = service.client().await;
    let permit = client.granted(first("d")).await.permit;
    let asked = retry("d", 2, &permit, Failure);
    let one = client.granted(asked.clone()).await;
    let between = client.get("d").await;
    service.at_ms(200);
    let answer = client.ask(asked).await;
    assert_eq!(answer.previous_result(), ReportReason::Duplicate);
    let two = grant_of(answer);
    assert_eq!(two.permit, one.permit);
    assert!((ms(two.delay) - (ms(one.delay) - 200.0).max(0.0)).abs() < 1e-5);
    let seen = client.get("d").await;
    assert_eq!((seen.retries, seen.budget_left), (1, between.budget_left));
}

#[tokio::test]
async fn b22b_the_first_report_wins() {
    let service = Service::start(&stale_policy()).await;
    let mut client = service.client().await;
    let permit = client.granted(first("d")).await.permit;
    assert_eq!(client.reported(&permit, Failure).await, ReportReason::Ok);
    assert_eq!(
        client.reported(&permit, Success).await,
        ReportReason::Duplicate
    );
    assert_eq!(client.get("d").await.failure_ratio, 1.0);
}

#[tokio::test]
async fn b22c_a_duplicate_after_the_permit_ended_counts_nothing() {
    let service = Service::start(&stale_policy()).await;
    let mut client = service.client().await;
    let permit = client.granted(first("d")).await.permit;
    assert_eq!(client.reported(&permit, Failure).await, ReportReason::Ok);
    service.at_ms(60_000);
    let before = client.get("d").await;
    assert_eq!(
        client.reported(&permit, Failure).await,
        ReportReason::Expired
    );
    assert_eq!(client.get("d").await.failure_ratio, before.failure_ratio);
    // The record is idle and dropped: all that could be said of the permit went with it.
    service.at_ms(3_600_000);
    assert_eq!(
        service
            .coordinator
            .drop_idle_once(holdoff_decision::Nanos::from_secs(600)),
        1
    );
    assert_eq!(
        client.reported(&permit, Failure).await,
        ReportReason::Expired
    );
    assert_eq!(service.coordinator.dependencies(), 0);
}

#[tokio::test]
async fn b22d_a_local_timeout_and_the_late_answer_are_one_timeout() {
    let service = Service::start(&stale_policy()).await;
    let mut client = service.client().await;
    let permit = client.granted(first("d")).await.permit;
    assert_eq!(
        client.reported(&permit, OutcomeKind::Timeout).await,
        ReportReason::Ok
    );
    assert_eq!(
        client.reported(&permit, Success).await,
        ReportReason::Duplicate
    );
    let seen = client.get("d").await;
    assert_eq!((seen.failure_ratio, seen.permits_out), (1.0, 0));
}
