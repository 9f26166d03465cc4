//! Joining and returning: nobody's arrival changes what is shared, and nobody returns
//! together.

use std::time::Duration;

use holdoff_client::proto::{
    BreakerState, DenialReason, Hello, Outcome, OutcomeKind, ReportEntry, ReportReason,
    ReportRequest, SessionRequest, Tally, acquire_response::Verdict, report_entry::Entry,
    session_request::Message,
};

use crate::harness::*;

use OutcomeKind::{Failure, Success};

const OPENS: &str =
    "{breaker: {window: 10, min_calls: 5, failure_ratio: 0.5, open_for: 30s, spread: 2s}}";

/// The probe lease is longer than the open period.
const PROBES_LATE: &str =
    "{breaker: {window: 10, min_calls: 5, open_for: 1s, probe_lease: 5s, spread: 0s}}";

#[tokio::test]
async fn b21a_a_client_that_registers_changes_nothing() {
    let service = Service::start(&policy_of_d(OPENS)).await;
    let mut client = service.client().await;
    client.trip("d", 5).await;
    let opened = client.get("d").await;
    for at in [5_000, 10_000, 15_000, 29_999] {
        service.at_ms(at);
        let mut other = service.client().await;
        let hello = SessionRequest {
            id: 1,
            message: Some(Message::Hello(Hello {
                caller: caller("new"),
                ..Hello::default()
            })),
        };
        other
            .asks
            .session(tokio_stream::iter([hello]))
            .await
            .unwrap();
        assert_eq!(
            reason_of(other.ask(first("d")).await),
            DenialReason::BreakerOpen
        );
        let seen = other.get("d").await;
        assert_eq!(
            (seen.state(), seen.epoch, seen.trips),
            (BreakerState::Open, opened.epoch, 1)
        );
        assert_eq!(ms(seen.open_for), 30_000.0 - at as f64);
    }
    service.at_ms(30_000);
    assert_eq!(client.get("d").await.state(), BreakerState::HalfOpen);
}

#[tokio::test]
async fn b21c_without_a_data_directory_a_restart_begins_closed_with_nothing() {
    let policies = policy_of_d(OPENS);
    let service = Service::start(&policies).await;
    let mut client = service.client().await;
    client.trip("d", 5).await;
    drop(client);
    service.end().await;
    let service = Service::start_with(Setup {
        policies: &policies,
        at_ms: 20_000,
        ..Setup::default()
    })
    .await;
    let mut client = service.client().await;
    let seen = client.get("d").await;
    assert_eq!(
        (seen.state(), seen.failure_ratio, seen.live),
        (BreakerState::Closed, 0.0, false)
    );
    client.granted(first("d")).await;
}

#[tokio::test]
async fn b21c_with_a_data_directory_a_restart_prolongs_and_shortens_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let policies = policy_of_d(OPENS);
    let setup = |at_ms| Setup {
        policies: &policies,
        data_dir: Some(dir.path()),
        at_ms,
        ..Setup::default()
    };
    let service = Service::start_with(setup(0)).await;
    let mut client = service.client().await;
    client.trip("d", 5).await;
    let epoch = client.get("d").await.epoch;
    drop(client);
    service.end().await;
    for at in [10_000, 20_000] {
        let service = Service::start_with(setup(at)).await;
        let mut client = service.client().await;
        let seen = client.get("d").await;
        assert_eq!((seen.state(), seen.epoch), (BreakerState::Open, epoch));
        assert_eq!(ms(seen.open_for), 30_000.0 - at as f64);
        drop(client);
        service.end().await;
    }
}

#[tokio::test]
async fn b26d_a_client_whose_clock_is_an_hour_off_gets_the_same_answer() {
    // Times are relative durations in both directions: nothing of a client's clock is sent,
    // so only the length of what it says can matter.
    let service = Service::start(&policy_of_d(
        "{retry: {jitter: none, initial_delay: 1s, min_attempt_time: 500ms}, calendar: {retry_rate: off}}",
    ))
    .await;
    let mut client = service.client().await;
    for (left, granted) in [(1_501, true), (1_500, false)] {
        let permit = client.granted(first("d")).await.permit;
        let mut asked = retry("d", 2, &permit, Failure);
        asked.time_left =
            Some(prost_types::Duration::try_from(Duration::from_millis(left)).unwrap());
        match client.ask(asked).await.verdict.unwrap() {
            Verdict::Grant(grant) => {
                assert!(granted);
                assert_eq!(ms(grant.delay), 1_000.0);
            }
            Verdict::Denial(denial) => {
                assert!(!granted);
                assert_eq!(denial.reason(), DenialReason::Deadline);
            }
        }
    }
}

#[tokio::test]
async fn b26e_a_clock_that_goes_back_is_harmless() {
    let service = Service::start(&policy_of_d(OPENS)).await;
    service.at_ms(3_600_000);
    let mut client = service.client().await;
    client.trip("d", 5).await;
    service.at_ms(0);
    let denial = client.denied(first("d")).await;
    assert_eq!(denial.reason(), DenialReason::BreakerOpen);
    service.at_ms(3_630_000);
    assert!(client.granted(first("d")).await.probe);
}

#[tokio::test]
async fn b27a_those_who_were_refused_return_spread_and_none_too_early() {
    let policies = policy_of_d("{breaker: {window: 10, min_calls: 5, open_for: 10s, spread: 2s}}");
    let service = Service::start(&policies).await;
    let mut client = service.client().await;
    client.trip("d", 5).await;
    service.at_ms(3_000);
    let mut buckets = [0; 20];
    for n in 0..1000 {
        let denial = client.denied(first_of("d", &format!("i{n}"))).await;
        let at = 3_000.0 + ms(denial.retry_after);
        assert!((10_000.0..=12_000.0).contains(&at), "{at}");
        buckets[(((at - 10_000.0) / 100.0) as usize).min(19)] += 1;
    }
    assert!(*buckets.iter().max().unwrap() <= 100, "{buckets:?}");
}

#[tokio::test]
async fn b27b_those_who_come_back_to_taken_probes_are_spread_anew() {
    let policies = policy_of_d(
        "{breaker: {window: 10, min_calls: 5, open_for: 10s, spread: 2s, probe_lease: 5s}}",
    );
    let service = Service::start(&policies).await;
    let mut client = service.client().await;
    client.trip("d", 5).await;
    service.at_ms(10_000);
    assert!(client.granted(first("d")).await.probe);
    let (mut buckets, mut distinct) = ([0; 71], std::collections::BTreeSet::new());
    for n in 0..1000 {
        let denial = client.denied(first_of("d", &format!("i{n}"))).await;
        assert_eq!(denial.reason(), DenialReason::ProbeInProgress);
        let after = ms(denial.retry_after);
        assert!(0.0 < after && after <= 7_000.0, "{after}");
        buckets[(after / 100.0) as usize] += 1;
        distinct.insert(after.to_bits());
    }
    assert!(*buckets.iter().max().unwrap() <= 100, "{buckets:?}");
    assert!(distinct.len() > 990);
    // What a verdict brings is fresh too.
    client.call("elsewhere", Success).await;
}

async fn tells_epoch(client: &mut Client, epoch: u64) {
    let tally = Tally {
        dependency: "d".into(),
        epoch,
        ..Tally::default()
    };
    let report = ReportRequest {
        entries: vec![ReportEntry {
            entry: Some(Entry::Tally(tally)),
        }],
        ..ReportRequest::default()
    };
    client.asks.report(report).await.unwrap();
}

#[tokio::test]
async fn a_first_start_leases_its_probe_as_soon_as_it_is_half_open() {
    let policies = policy_of_d(PROBES_LATE);
    for data_dir in [None, Some(tempfile::tempdir().unwrap())] {
        let service = Service::start_with(Setup {
            policies: &policies,
            data_dir: data_dir.as_ref().map(|dir| dir.path()),
            ..Setup::default()
        })
        .await;
        let mut client = service.client().await;
        client.trip("d", 5).await;
        // Its own permits and epochs are no evidence of another run.
        let epoch = client.get("d").await.epoch;
        tells_epoch(&mut client, epoch).await;
        service.at_ms(1_000);
        assert!(client.granted(first("d")).await.probe);
    }
}

/// Told at the start: by a permit that is reported, retried after or confirmed, or by the epoch of
/// a tally or of an attempt that was made on pushed state.
#[tokio::test]
async fn without_a_data_directory_probes_wait_once_a_caller_shows_an_earlier_run() {
    let policies = policy_of_d(PROBES_LATE);
    let service = Service::start(&policies).await;
    let mut client = service.client().await;
    let permit = client.granted(first("d")).await.permit;
    drop(client);
    service.end().await;
    for evidence in 0..5 {
        let service = Service::start_with(Setup {
            policies: &policies,
            at_ms: 20_000,
            ..Setup::default()
        })
        .await;
        let mut client = service.client().await;
        match evidence {
            0 => drop(client.reported(&permit, Success).await),
            1 => drop(client.ask(retry("d", 2, &permit, Failure)).await),
            2 => drop(client.denied(confirm("d", &permit)).await),
            3 => tells_epoch(&mut client, 7_000_000).await,
            _ => drop(client.ask(retry_on("d", 2, 7_000_000, Failure)).await),
        }
        client.trip("d", 5).await;
        for at in [21_000, 24_999] {
            service.at_ms(at);
            let denial = client.denied(first("d")).await;
            assert_eq!(
                denial.reason(),
                DenialReason::ProbeInProgress,
                "{evidence} at {at}"
            );
        }
        service.at_ms(25_000);
        assert!(client.granted(first("d")).await.probe, "{evidence}");
    }
}

#[tokio::test]
async fn after_a_restart_no_probe_is_leased_for_one_lease_time_and_the_floor_is_spent_for_one_ttl()
{
    let dir = tempfile::tempdir().unwrap();
    let policies = policy_of_d(
        "{breaker: {window: 10, min_calls: 5, open_for: 1s, probe_lease: 5s, probe_successes: 1, spread: 2s}, \
          budget: {ratio: 0, floor_per_second: 1, ttl: 20s}}",
    );
    let setup = |at_ms| Setup {
        policies: &policies,
        data_dir: Some(dir.path()),
        at_ms,
        ..Setup::default()
    };
    let service = Service::start_with(setup(0)).await;
    let mut client = service.client().await;
    client.trip("d", 5).await;
    let before = client.get("d").await;
    assert_eq!(before.budget_left, 20);
    // The first start has nothing to wait for.
    service.at_ms(1_000);
    let probe = client.granted(first("d")).await;
    assert!(probe.probe);
    let epoch = client.get("d").await.epoch;
    drop(client);
    service.end().await;

    let service = Service::start_with(setup(5_500)).await;
    let mut client = service.client().await;
    for at in [5_500, 10_499] {
        service.at_ms(at);
        let denial = client.denied(first("d")).await;
        assert_eq!(denial.reason(), DenialReason::ProbeInProgress);
        let back = at as f64 + ms(denial.retry_after);
        assert!((10_500.0..=12_500.0).contains(&back), "{back}");
        assert_eq!(client.get("d").await.budget_left, 0);
    }
    // The probe of the run before cannot close what this run opened.
    assert_eq!(
        client.reported(&probe.permit, Success).await,
        ReportReason::Expired
    );
    service.at_ms(10_500);
    let answer = client.ask(first("d")).await;
    assert!(answer.epoch > epoch);
    let probe = grant_of(answer);
    assert!(probe.probe);
    assert_eq!(
        client.reported(&probe.permit, Success).await,
        ReportReason::Ok
    );
    let permit = client.granted(first("d")).await.permit;
    service.at_ms(25_499);
    let reason = reason_of(client.ask(retry("d", 2, &permit, Failure)).await);
    assert_eq!(reason, DenialReason::BudgetExhausted);
    service.at_ms(25_500);
    client.granted(retry("d", 2, &permit, Failure)).await;
}

#[tokio::test]
async fn a_permit_of_the_run_before_is_stale_or_expired_and_never_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let policies =
        policy_of_d("{breaker: {window: 10, min_calls: 5, permit_ttl: 60s}, budget: {ratio: 1.0}}");
    let setup = |at_ms| Setup {
        policies: &policies,
        data_dir: Some(dir.path()),
        at_ms,
        ..Setup::default()
    };
    let service = Service::start_with(setup(0)).await;
    let mut client = service.client().await;
    let permit = client.granted(first("d")).await.permit;
    drop(client);
    service.end().await;
    let service = Service::start_with(setup(1_000)).await;
    let mut client = service.client().await;
    assert_eq!(
        client.reported(&permit, Failure).await,
        ReportReason::StaleEpoch
    );
    client.granted(first("d")).await;
    let before = client.get("d").await;
    let answer = client.ask(retry("d", 2, &permit, Failure)).await;
    assert_eq!(answer.previous_result(), ReportReason::StaleEpoch);
    grant_of(answer);
    assert_eq!(client.get("d").await.failure_ratio, before.failure_ratio);
    service.at_ms(60_000);
    assert_eq!(
        client.reported(&permit, Failure).await,
        ReportReason::Expired
    );
}

#[tokio::test]
async fn what_was_counted_on_the_state_of_the_run_before_is_stale() {
    let dir = tempfile::tempdir().unwrap();
    let policies = policy_of_d("{breaker: {window: 10, min_calls: 5}, budget: {ratio: 1.0}}");
    let setup = |at_ms| Setup {
        policies: &policies,
        data_dir: Some(dir.path()),
        at_ms,
        ..Setup::default()
    };
    let service = Service::start_with(setup(0)).await;
    let mut client = service.client().await;
    let epoch = client.ask(first("d")).await.epoch;
    drop(client);
    service.end().await;
    let service = Service::start_with(setup(1_000)).await;
    let mut client = service.client().await;
    let tally = Tally {
        dependency: "d".into(),
        epoch,
        first_attempts: 20,
        failures: 20,
        ..Tally::default()
    };
    let report = ReportRequest {
        entries: vec![ReportEntry {
            entry: Some(Entry::Tally(tally)),
        }],
        ..ReportRequest::default()
    };
    let answer = client.asks.report(report).await.unwrap().into_inner();
    assert_eq!(answer.results[0].reason(), ReportReason::StaleEpoch);
    let answer = client.ask(first("d")).await;
    assert!(answer.epoch > epoch && answer.state() == BreakerState::Closed);
}

/// The second start has a clock that was set back: what was still on the disk would hold.
#[tokio::test]
async fn a_hold_that_is_over_is_forgotten_on_the_disk_without_a_caller() {
    for (ends_at_ms, is_held) in [(9_000, true), (10_000, false)] {
        let dir = tempfile::tempdir().unwrap();
        let policies = policy_of_d("{pushback: {scope: dependency, spread: 0s}}");
        let setup = || Setup {
            policies: &policies,
            data_dir: Some(dir.path()),
            ..Setup::default()
        };
        let service = Service::start_with(setup()).await;
        let mut client = service.client().await;
        let permit = client.granted(first("d")).await.permit;
        let throttled = Outcome {
            pushback: Some(seconds(10)),
            ..outcome(OutcomeKind::Throttled)
        };
        client.report(&permit, throttled).await;
        service.at_ms(ends_at_ms);
        service.coordinator.end_overrides_once().await;
        // What is shown is on the disk.
        let held = client.get("d").await.held_for;
        assert_eq!(held.is_some(), is_held);
        drop(client);
        service.end().await;
        let service = Service::start_with(setup()).await;
        let mut client = service.client().await;
        assert_eq!(client.get("d").await.held_for.is_some(), is_held);
    }
}
