//! What clients counted, over the wire: how long calls took in health is what a recovery is
//! compared with.

use holdoff_client::proto::{
    BreakerState, Outcome, OutcomeKind, ReportEntry, ReportRequest, Tally,
    acquire_response::Verdict, report_entry::Entry,
};

use crate::harness::*;

use OutcomeKind::{Failure, Success};

const POLICY: &str = "{breaker: {open_for: 10s, spread: 0s, probes: 1, probe_successes: 1, \
    probe_lease: 5s}, ramp: {start: 0.5, step: 250ms, max_duration: 60s}}";

fn span(millis: u64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration {
        seconds: (millis / 1_000) as i64,
        nanos: (millis % 1_000 * 1_000_000) as i32,
    })
}

/// A hundred calls a second for a minute, each of so many milliseconds, counted by a client.
async fn health(service: &Service, client: &mut Client, latency_ms: Option<u64>) {
    client.granted(first("d")).await;
    let epoch = client.get("d").await.epoch;
    for tenth in 0..600 {
        service.at_ms(tenth * 100);
        let tally = Tally {
            dependency: "d".into(),
            epoch,
            first_attempts: 10,
            successes: 10,
            latency_sum: latency_ms.and_then(|latency| span(latency * 10)),
            ..Tally::default()
        };
        let entry = Some(Entry::Tally(tally));
        let request = ReportRequest {
            entries: vec![ReportEntry { entry }],
            ..ReportRequest::default()
        };
        let reported = client.asks.report(request).await.unwrap().into_inner();
        assert!(reported.results[0].applied);
    }
}

/// Calls that a recovery admits in four seconds where each takes 200 ms.
async fn admitted(latency_in_health_ms: Option<u64>) -> usize {
    let service = Service::start(&policy_of_d(POLICY)).await;
    let mut client = service.client().await;
    health(&service, &mut client, latency_in_health_ms).await;
    service.at_ms(60_000);
    while let Some(Verdict::Grant(grant)) = client.ask(first("d")).await.verdict {
        client.reported(&grant.permit, Failure).await;
    }
    service.at_ms(75_000);
    let probe = client.granted(first("d")).await;
    client.reported(&probe.permit, Success).await;
    assert_eq!(client.get("d").await.state(), BreakerState::Recovering);
    let (mut admitted, mut running) = (0, Vec::<bytes::Bytes>::new());
    for step in 0..16 {
        service.at_ms(75_000 + step * 250);
        for permit in running.drain(..) {
            let slow = Outcome {
                latency: span(200),
                ..outcome(Success)
            };
            client.report(&permit, slow).await;
        }
        for _ in 0..60 {
            if let Some(Verdict::Grant(grant)) = client.ask(first("d")).await.verdict {
                running.push(grant.permit);
            }
        }
        admitted += running.len();
    }
    admitted
}

#[tokio::test]
async fn a_recovery_that_is_slower_than_clients_have_counted_in_health_is_held_back() {
    let as_usual = admitted(Some(200)).await;
    let unmeasured = admitted(None).await;
    let slower = admitted(Some(20)).await;
    println!(
        "admitted in 4 s of a recovery with calls of 200 ms: {slower} where they took 20 ms in \
         health, {as_usual} where they took as long, {unmeasured} where nobody measured"
    );
    assert_eq!(as_usual, unmeasured);
    assert!(slower * 3 < as_usual * 2, "{slower} of {as_usual}");
}
