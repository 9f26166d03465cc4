//! What the numbers of a dependency say that operators look at: which share failed, and how many
//! calls there are.

use holdoff_client::proto::{
    BreakerState, EventKind, ListEventsRequest, OutcomeKind, ReportEntry, ReportRequest, Tally,
    report_entry::Entry,
};

use crate::harness::*;

use OutcomeKind::{Failure, Success};

impl Client {
    /// The share that failed, in per cent, and why the breaker is in its state.
    async fn failing(&mut self) -> (f64, String) {
        let seen = self.get("d").await;
        ((seen.failure_ratio * 100.0).round(), seen.detail)
    }

    async fn rate(&mut self) -> f64 {
        self.get("d").await.calls_per_second
    }

    /// First attempts that one instance made by itself.
    async fn tally(&mut self, successes: u32, failures: u32) {
        let epoch = self.get("d").await.epoch;
        let tally = Tally {
            dependency: "d".into(),
            epoch,
            first_attempts: successes + failures,
            successes,
            failures,
            ..Tally::default()
        };
        let request = ReportRequest {
            entries: vec![ReportEntry {
                entry: Some(Entry::Tally(tally)),
            }],
            ..ReportRequest::default()
        };
        let answer = self.asks.report(request).await.unwrap().into_inner();
        assert!(answer.results[0].applied, "{answer:?}");
    }
}

#[tokio::test]
async fn what_is_shown_to_have_failed_while_a_breaker_is_open_is_what_opened_it() {
    let service = Service::start(&policy_of_d("{breaker: {open_for: 10s}}")).await;
    let mut client = service.client().await;
    for _ in 0..20 {
        client.call("d", Success).await;
    }
    assert_eq!(client.failing().await.0, 0.0);
    client.trip("d", 5).await;
    let (share, why) = client.failing().await;
    assert_eq!(share, 100.0, "five of five failed in a row: {why}");
    assert!(why.ends_with(": 5 of 5 calls failed"), "{why}");
    let events = client.operates.list_events(ListEventsRequest::default());
    let events = events.await.unwrap().into_inner().events;
    let tripped = events.iter().find(|it| it.kind() == EventKind::Tripped);
    assert_eq!(tripped.unwrap().detail, why);

    // Half-open, and open again: still what opened it.
    service.at_ms(20_000);
    assert_eq!(client.get("d").await.state(), BreakerState::HalfOpen);
    assert_eq!(client.failing().await.0, 100.0);
    client.call("d", Failure).await;
    assert_eq!(client.get("d").await.state(), BreakerState::Open);
    assert_eq!(client.failing().await.0, 100.0);

    // Closed again, it is what fails now.
    service.at_ms(120_000);
    for _ in 0..20 {
        if client.get("d").await.state() != BreakerState::HalfOpen {
            break;
        }
        client.call("d", Success).await;
    }
    assert_ne!(client.get("d").await.state(), BreakerState::HalfOpen);
    assert_eq!(client.failing().await.0, 0.0);
}

#[tokio::test]
async fn successes_among_the_failures_that_open_a_breaker_are_part_of_the_share() {
    let service = Service::start(&policy_of_d("{}")).await;
    let mut client = service.client().await;
    client.tally(300, 0).await;
    let mut calls = 0;
    // Two of three fail.
    while client.get("d").await.state() == BreakerState::Closed {
        let failed = calls % 3 != 2;
        client
            .call("d", if failed { Failure } else { Success })
            .await;
        calls += 1;
        assert!(calls < 50, "it does not trip");
    }
    let failures = calls - calls / 3;
    let (share, why) = client.failing().await;
    assert!(
        why.ends_with(&format!(": {failures} of {calls} calls failed")),
        "{why}"
    );
    assert_eq!(
        share,
        (f64::from(failures) / f64::from(calls) * 100.0).round()
    );
}

#[tokio::test]
async fn a_tally_is_part_of_the_share_too() {
    let service = Service::start(&policy_of_d("{}")).await;
    let mut client = service.client().await;
    client.tally(100, 0).await;
    client.tally(1, 9).await;
    let (share, why) = client.failing().await;
    assert_eq!(
        (share, why.ends_with(": 9 of 10 calls failed")),
        (90.0, true),
        "{why}"
    );
}

#[tokio::test]
async fn the_share_of_a_window_is_its_own_until_it_opens_the_breaker_and_then_stays() {
    let policy = "{breaker: {window: 10s, min_calls: 10, failure_ratio: 0.5, open_for: 60s}}";
    let service = Service::start(&policy_of_d(policy)).await;
    let mut client = service.client().await;
    client.tally(7, 3).await;
    assert_eq!(client.failing().await.0, 30.0);
    client.tally(2, 8).await;
    assert_eq!(client.get("d").await.state(), BreakerState::Open);
    assert_eq!(
        client.failing().await,
        (55.0, "11 of 20 calls failed".to_owned())
    );
    service.at_ms(30_000);
    assert_eq!(
        client.failing().await.0,
        55.0,
        "the window has run out, the trip has not"
    );
}

#[tokio::test]
async fn calls_a_second_fall_to_nothing_when_none_come() {
    let service = Service::start(&policy_of_d("{}")).await;
    let mut client = service.client().await;
    for second in 0..30 {
        service.at_ms(second * 1_000);
        client.tally(50, 0).await;
    }
    let busy = client.rate().await;
    assert!((45.0..=55.0).contains(&busy), "{busy}");
    let mut before = busy;
    for second in [32, 36, 40, 60, 120, 300] {
        service.at_ms(second * 1_000);
        let rate = client.rate().await;
        assert!(rate <= before, "{second} s: {before} and then {rate}");
        before = rate;
    }
    assert!(before < 0.005, "{before}");
    service.at_ms(41_000);
    let after_a_window = client.rate().await;
    assert!(after_a_window < 0.15, "{after_a_window}");
}

#[tokio::test]
async fn calls_a_second_fall_to_nothing_once_a_breaker_refuses_them() {
    let service = Service::start(&policy_of_d("{breaker: {open_for: 60s}}")).await;
    let mut client = service.client().await;
    for second in 0..30 {
        service.at_ms(second * 1_000);
        client.tally(50, 0).await;
    }
    client.trip("d", 5).await;
    assert!(client.rate().await > 40.0);
    service.at_ms(45_000);
    client.denied(first("d")).await;
    assert_eq!(client.rate().await, 0.0);
}

#[tokio::test]
async fn a_call_in_twenty_seconds_is_no_call_in_ten_and_yet_some() {
    let service = Service::start(&policy_of_d("{}")).await;
    let mut client = service.client().await;
    for call in 0..30 {
        service.at_ms(call * 20_000);
        client.tally(1, 0).await;
    }
    for late in [1_000, 12_000, 19_000] {
        service.at_ms(29 * 20_000 + late);
        let rate = client.rate().await;
        assert!((0.02..=0.11).contains(&rate), "{late} ms later: {rate}");
    }
}

#[tokio::test]
async fn a_young_dependency_has_its_calls_counted_over_its_own_age() {
    let service = Service::start(&policy_of_d("{}")).await;
    let mut client = service.client().await;
    client.tally(20, 0).await;
    service.at_ms(2_000);
    client.tally(20, 0).await;
    let rate = client.rate().await;
    assert!((19.0..=24.0).contains(&rate), "{rate}");
}
