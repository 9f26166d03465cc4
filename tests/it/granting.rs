//! What a grant is worth: confirmations, rates, repeated questions, and policies that change
//! under way.

use holdoff_client::proto::{
    AcquireRequest, BreakerState, DenialReason, OutcomeKind, OverrideKind, Previous,
    PutPolicyRequest, ReportReason, Safety, previous::MadeUnder,
};
use tonic::Code;

use crate::{harness::*, overrides::forced};

use OutcomeKind::{Failure, Success};

const SLOW_RETRIES: &str = "{retry: {initial_delay: 5s, max_delay: 5s, jitter: none}, \
     calendar: {retry_rate: off}, \
    breaker: {window: 10, min_calls: 5, open_for: 10s, permit_ttl: 60s}, \
    budget: {ratio: 0, floor_per_second: 1, ttl: 10s}}";

#[tokio::test]
async fn a_confirmation_that_still_holds_costs_and_changes_nothing() {
    let service = Service::start(&policy_of_d(SLOW_RETRIES)).await;
    let mut client = service.client().await;
    let permit = client.granted(first("d")).await.permit;
    let promised = client.granted(retry("d", 2, &permit, Failure)).await;
    assert!(promised.confirm);
    assert_eq!(ms(promised.delay), 5_000.0);
    let before = client.get("d").await;
    service.at_ms(4_000);
    for _ in 0..3 {
        let held = client.granted(confirm("d", &promised.permit)).await;
        assert_eq!(held.permit, promised.permit);
        assert_eq!(ms(held.delay), 1_000.0);
    }
    let after = client.get("d").await;
    assert_eq!(
        (after.retries, after.permits_out),
        (before.retries, before.permits_out)
    );
    service.at_ms(5_000);
    assert_eq!(
        ms(client.granted(confirm("d", &promised.permit)).await.delay),
        0.0
    );
    assert_eq!(
        client.reported(&promised.permit, Success).await,
        ReportReason::Ok
    );
}

#[tokio::test]
async fn a_confirmation_that_fails_gives_the_token_back_and_the_permit_is_void() {
    let service = Service::start(&policy_of_d(SLOW_RETRIES)).await;
    let mut client = service.client().await;
    let permit = client.granted(first("d")).await.permit;
    let promised = client.granted(retry("d", 2, &permit, Failure)).await;
    assert_eq!(client.get("d").await.budget_left, 9);
    client.trip("d", 4).await;
    service.at_ms(4_000);
    let denial = client.denied(confirm("d", &promised.permit)).await;
    assert_eq!(denial.reason(), DenialReason::BreakerOpen);
    assert_eq!(client.get("d").await.budget_left, 10);
    let denial = client.denied(confirm("d", &promised.permit)).await;
    assert_eq!(denial.reason(), DenialReason::PermitVoid);
    assert_eq!(
        client.get("d").await.budget_left,
        10,
        "it is given back once"
    );
    assert_ne!(
        client.reported(&promised.permit, Success).await,
        ReportReason::Ok
    );
}

#[tokio::test]
async fn a_confirmation_in_half_open_must_lease_a_probe() {
    let service = Service::start(&policy_of_d(SLOW_RETRIES)).await;
    let mut client = service.client().await;
    let mut promised = Vec::new();
    for _ in 0..2 {
        let permit = client.granted(first("d")).await.permit;
        promised.push(client.granted(retry("d", 2, &permit, Failure)).await.permit);
    }
    client.trip("d", 3).await;
    service.at_ms(10_000);
    let probe = client.granted(confirm("d", &promised[0])).await;
    assert!(probe.probe);
    assert_ne!(probe.permit, promised[0]);
    assert_eq!(client.get("d").await.probes_out, 1);
    let denial = client.denied(confirm("d", &promised[1])).await;
    assert_eq!(denial.reason(), DenialReason::ProbeInProgress);
    assert_eq!(
        client.reported(&probe.permit, Success).await,
        ReportReason::Ok
    );
}

#[tokio::test]
async fn after_a_denial_the_same_question_is_asked_afresh_and_counted_once() {
    let service = Service::start(&policy_of_d(
        "{breaker: {window: 10, min_calls: 5, open_for: 10s}, budget: {ratio: 0, floor_per_second: 0}}",
    ))
    .await;
    let mut client = service.client().await;
    let permit = client.granted(first("d")).await.permit;
    client.call("d", Success).await;
    let asked = retry("d", 2, &permit, Failure);
    let answer = client.ask(asked.clone()).await;
    assert_eq!(answer.previous_result(), ReportReason::Ok);
    assert_eq!(reason_of(answer), DenialReason::BudgetExhausted);
    for _ in 0..5 {
        let answer = client.ask(asked.clone()).await;
        assert_eq!(answer.previous_result(), ReportReason::Duplicate);
        assert_eq!(reason_of(answer), DenialReason::BudgetExhausted);
    }
    let seen = client.get("d").await;
    assert_eq!(
        (seen.failure_ratio, seen.state()),
        (0.5, BreakerState::Closed)
    );
}

#[tokio::test]
async fn b18_a_used_permit_grants_no_second_retry_past_the_memory_of_answers() {
    let service = Service::start(&policy_of_d(
        "{budget: {ratio: 1.0, floor_per_second: 100, ttl: 60s}}",
    ))
    .await;
    let mut client = service.client().await;
    let permit = client.granted(first("d")).await.permit;
    let asked = retry("d", 2, &permit, Failure);
    client.granted(asked.clone()).await;
    service.at_ms(9_000);
    client.granted(asked.clone()).await;
    service.at_ms(11_000);
    let answer = client.ask(asked.clone()).await;
    assert_eq!(answer.previous_result(), ReportReason::Duplicate);
    assert_eq!(reason_of(answer), DenialReason::Duplicate);
    // In another hand it is the same permit.
    let stolen = AcquireRequest {
        caller: caller("another"),
        ..asked
    };
    assert_eq!(reason_of(client.ask(stolen).await), DenialReason::Duplicate);
    assert_eq!(client.get("d").await.retries, 1);
}

#[tokio::test]
async fn a_first_attempt_made_on_pushed_state_is_counted_by_its_retry() {
    let service = Service::start(&policy_of_d(
        "{breaker: {window: 10, min_calls: 5, open_for: 10s}, budget: {ratio: 1.0, floor_per_second: 0}}",
    ))
    .await;
    let mut client = service.client().await;
    client.call("d", Success).await;
    let on_epoch = |epoch: u64, call: &str| AcquireRequest {
        attempt: 2,
        safety: Safety::Idempotent.into(),
        call_id: call.into(),
        previous: Some(Previous {
            made_under: Some(MadeUnder::Epoch(epoch)),
            outcome: Some(outcome(Failure)),
        }),
        ..first("d")
    };
    let answer = client.ask(on_epoch(1, "one")).await;
    assert_eq!(answer.previous_result(), ReportReason::Ok);
    grant_of(answer);
    let seen = client.get("d").await;
    assert_eq!(
        (seen.first_attempts, seen.retries, seen.failure_ratio),
        (2, 1, 0.5)
    );
    client.granted(on_epoch(1, "one")).await;
    assert_eq!(client.get("d").await.first_attempts, 2);
    let answer = client.ask(on_epoch(77, "two")).await;
    assert_eq!(answer.previous_result(), ReportReason::StaleEpoch);
    let seen = client.get("d").await;
    assert_eq!((seen.first_attempts, seen.failure_ratio), (3, 0.5));
}

#[tokio::test]
async fn a_rate_refuses_with_the_time_or_waits_where_it_may() {
    let service = Service::start(
        "version: 1\nnamespaces: {default: {dependencies: {\
         strict: {rate: {per_second: 10, burst: 2}}, \
         patient: {rate: {per_second: 10, burst: 1, max_wait: 250ms}}}}}",
    )
    .await;
    let mut client = service.client().await;
    client.granted(first("strict")).await;
    client.granted(first("strict")).await;
    let denial = client.denied(first("strict")).await;
    assert_eq!(denial.reason(), DenialReason::RateLimited);
    assert!(ms(denial.retry_after) >= 100.0);
    let dear = AcquireRequest {
        cost: 3,
        ..first("strict")
    };
    let denial = client.denied(dear).await;
    assert_eq!(
        (denial.reason(), denial.retry_after),
        (DenialReason::RateLimited, None)
    );
    service.at_ms(100);
    client.granted(first("strict")).await;
    let waits: Vec<f64> = {
        let mut waits = Vec::new();
        for _ in 0..3 {
            waits.push(ms(client.granted(first("patient")).await.delay));
        }
        waits
    };
    assert_eq!(waits, [0.0, 100.0, 200.0]);
    assert_eq!(
        reason_of(client.ask(first("patient")).await),
        DenialReason::RateLimited
    );
}

#[tokio::test]
async fn what_may_not_appear_is_not_found_and_an_operator_cannot_make_it_either() {
    let service = Service::start(
        "version: 1\nnamespaces: {default: {auto_create: false, dependencies: {d: {}, 'p:*': {}}}}",
    )
    .await;
    let mut client = service.client().await;
    client.granted(first("d")).await;
    client.granted(first("p:anything")).await;
    let status = client.refused(first("other")).await;
    assert_eq!(status.code(), Code::NotFound);
    assert!(status.message().contains("other"), "{}", status.message());
    assert!(
        status.message().contains("auto_create"),
        "{}",
        status.message()
    );
    let status = client
        .force(forced("other", OverrideKind::ForceOpen))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert_eq!(service.coordinator.dependencies(), 2);
    assert!(
        service
            .coordinator
            .audit("default", 0, 10)
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn a_namespace_that_is_switched_off_lets_every_call_through() {
    let on = "version: 1\nnamespaces: {default: {defaults: {breaker: {window: 10, min_calls: 5, open_for: 10s}}}}";
    let service = Service::start(on).await;
    let mut client = service.client().await;
    client.trip("d", 5).await;
    assert_eq!(
        reason_of(client.ask(first("d")).await),
        DenialReason::BreakerOpen
    );
    let off = "version: 1\nnamespaces: {default: {mode: off}}";
    service.coordinator.reload(Ok(vec![source(off)])).await;
    for _ in 0..50 {
        let permit = client.granted(first("d")).await.permit;
        let again = client.granted(retry("d", 2, &permit, Failure)).await;
        assert!(ms(again.delay) <= 10_000.0);
    }
    // Back on, the breaker is as it was.
    service.coordinator.reload(Ok(vec![source(on)])).await;
    assert_eq!(
        reason_of(client.ask(first("d")).await),
        DenialReason::BreakerOpen
    );
}

#[tokio::test]
async fn a_policy_that_is_put_holds_for_reports_and_readers_too() {
    let service = Service::start(&policy_of_d(
        "{breaker: {window: 10, min_calls: 2, open_for: 10s}}",
    ))
    .await;
    let mut client = service.client().await;
    let mut permits = Vec::new();
    for _ in 0..4 {
        permits.push(client.granted(first("d")).await.permit);
    }
    let put = |document: &str| PutPolicyRequest {
        name: "d".into(),
        document: document.into(),
        owner: "ada".into(),
        ..Default::default()
    };
    let calm = put(
        "{breaker: {window: 10, min_calls: 10, open_for: 10s}, budget: {floor_per_second: 7, ttl: 10s}}",
    );
    client.operates.put_policy(calm).await.unwrap();
    assert_eq!(client.get("d").await.budget_left, 70);
    for permit in permits {
        assert_eq!(client.reported(&permit, Failure).await, ReportReason::Ok);
    }
    let seen = client.get("d").await;
    assert_eq!(
        (seen.state(), seen.failure_ratio),
        (BreakerState::Closed, 1.0)
    );
}

#[tokio::test]
async fn a_shadow_breaker_refuses_nothing_and_shows_what_it_would_have_done() {
    let service = Service::start(&policy_of_d(
        "{breaker: {mode: shadow, window: 10, min_calls: 5, open_for: 10s}}",
    ))
    .await;
    let mut client = service.client().await;
    for _ in 0..20 {
        client.call("d", Failure).await;
    }
    let seen = client.get("d").await;
    assert_eq!(
        (seen.state(), seen.shadow_state()),
        (BreakerState::Closed, BreakerState::Open)
    );
    let answer = client.ask(first("d")).await;
    assert_eq!(answer.state(), BreakerState::Closed);
    grant_of(answer);
    let text = service.coordinator.telemetry().exposition();
    assert!(text.contains("holdoff_shadow_trips_total 1"), "{text}");
    assert!(text.contains("{from=\"closed\",to=\"open\"} 0"), "{text}");
}
