//! The answers to questions, over the wire.

use holdoff::entropy::Entropy;
use holdoff_client::proto::{
    AcquireRequest, BreakerState, DenialReason, Outcome, OutcomeKind, ReportReason, Safety,
    acquire_response::Verdict,
};

use crate::harness::*;

use OutcomeKind::{Cancelled, Failure, NotSent, Success, Throttled, Timeout};

/// Enough budget that no other rule is in the way.
const PLENTY: &str = "budget: {ratio: 1.0, floor_per_second: 1000}";

#[tokio::test]
async fn b02d_attempt_zero_is_refused_and_changes_nothing() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    client.call("d", Success).await;
    let before = client.get("d").await;
    let status = client
        .refused(AcquireRequest {
            attempt: 0,
            ..first("d")
        })
        .await;
    assert_refused(&status, "attempt");
    assert_eq!(client.get("d").await, before);
}

#[tokio::test]
async fn b04a_max_attempts_counts_the_first_call() {
    for (max, granted) in [(4, 4), (1, 1)] {
        let policy = policy_of_d(&format!("{{retry: {{max_attempts: {max}}}, {PLENTY}}}"));
        let service = Service::start(&policy).await;
        let mut client = service.client().await;
        let mut ran = 1;
        let mut permit = client.granted(first("d")).await.permit;
        let denial = loop {
            match client
                .ask(retry("d", ran + 1, &permit, Failure))
                .await
                .verdict
            {
                Some(Verdict::Grant(grant)) => permit = grant.permit,
                Some(Verdict::Denial(denial)) => break denial,
                None => panic!("no verdict"),
            }
            ran += 1;
        };
        assert_eq!(ran, granted);
        assert_eq!(denial.reason(), DenialReason::AttemptsExhausted);
        assert_eq!(denial.retry_after, None, "b04d: giving up carries no time");
        assert!(
            denial.detail.contains(&max.to_string()),
            "{}",
            denial.detail
        );
    }
}

#[tokio::test]
async fn b04b_the_last_attempt_that_succeeds_is_done() {
    let policy = policy_of_d(&format!("{{retry: {{max_attempts: 4}}, {PLENTY}}}"));
    let service = Service::start(&policy).await;
    let mut client = service.client().await;
    let mut permit = client.granted(first("d")).await.permit;
    for attempt in 2..=4 {
        permit = client
            .granted(retry("d", attempt, &permit, Failure))
            .await
            .permit;
    }
    assert_eq!(client.reported(&permit, Success).await, ReportReason::Ok);
}

#[tokio::test]
async fn b04c_an_attempt_past_the_last_is_never_granted_and_costs_nothing() {
    let policy = policy_of_d(&format!("{{retry: {{max_attempts: 4}}, {PLENTY}}}"));
    let service = Service::start(&policy).await;
    let mut client = service.client().await;
    let permit = client.granted(first("d")).await.permit;
    let before = client.get("d").await;
    for attempt in [5, 6, u32::MAX] {
        let denial = client.denied(retry("d", attempt, &permit, Failure)).await;
        assert_eq!(denial.reason(), DenialReason::AttemptsExhausted);
    }
    let after = client.get("d").await;
    assert_eq!(after.budget_left, before.budget_left);
    assert_eq!(after.retries, 0);
}

#[tokio::test]
async fn b06b_twenty_services_that_start_together_draw_twenty_firsts() {
    let policy = policy_of_d("{retry: {initial_delay: 10s, max_delay: 10s}}");
    let mut drawn = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let service = Service::start_with(Setup {
            policies: &policy,
            entropy: Entropy::System,
            ..Setup::default()
        })
        .await;
        let mut client = service.client().await;
        let permit = client.granted(first("d")).await.permit;
        let grant = client.granted(retry("d", 2, &permit, Failure)).await;
        drawn.insert(ms(grant.delay).to_bits());
    }
    assert_eq!(drawn.len(), 20);
}

/// A throttled attempt that brought a pushback of so many milliseconds.
fn pushed_back(wait_ms: i64) -> Outcome {
    Outcome {
        pushback: Some(prost_types::Duration {
            seconds: wait_ms / 1000,
            nanos: (wait_ms % 1000 * 1_000_000) as i32,
        }),
        ..outcome(Throttled)
    }
}

#[tokio::test]
async fn b07_a_pushback_is_a_floor_and_do_not_retry_ends_the_call() {
    let policy = policy_of_d(
        "{retry: {initial_delay: 400ms, jitter: none, max_attempts: 9}, calendar: {retry_rate: off}, \
          pushback: {max: 600s, spread: 1s}, budget: {floor_per_second: 1000}}",
    );
    let service = Service::start(&policy).await;
    let mut client = service.client().await;
    for (wait, least, most) in [
        (120_000, 120_000.0, 121_000.0),
        (60_000, 60_000.0, 61_000.0),
        (0, 400.0, 400.0),
    ] {
        let permit = client.granted(first("d")).await.permit;
        let grant = client
            .granted(retry_after("d", 2, &permit, pushed_back(wait)))
            .await;
        let delay = ms(grant.delay);
        assert!((least..=most).contains(&delay), "{wait}: {delay}");
    }
    let permit = client.granted(first("d")).await.permit;
    let never = Outcome {
        do_not_retry: true,
        ..outcome(Failure)
    };
    let denial = client.denied(retry_after("d", 2, &permit, never)).await;
    assert_eq!(denial.reason(), DenialReason::Pushback);
    assert_eq!(denial.retry_after, None);
}

#[tokio::test]
async fn b07_a_grpc_pushback_restarts_the_backoff_and_the_permit_carries_it() {
    let policy = policy_of_d(
        "{retry: {initial_delay: 100ms, multiplier: 10, max_delay: 60s, jitter: none, max_attempts: 9}, \
         calendar: {retry_rate: off}, \
          pushback: {spread: 0s}, budget: {floor_per_second: 1000}}",
    );
    let service = Service::start(&policy).await;
    let mut client = service.client().await;
    let mut permit = client.granted(first("d")).await.permit;
    let restarting = Outcome {
        pushback_restarts_backoff: true,
        ..pushed_back(1000)
    };
    for (attempt, ended, delay) in [
        (2, outcome(Failure), 100.0),
        (3, outcome(Failure), 1000.0),
        (4, restarting, 1000.0),
        (5, outcome(Failure), 1000.0),
        (6, outcome(Failure), 10_000.0),
    ] {
        let grant = client
            .granted(retry_after("d", attempt, &permit, ended))
            .await;
        assert_eq!(ms(grant.delay), delay, "attempt {attempt}");
        permit = grant.permit;
    }
}

#[tokio::test]
async fn b08_a_pushback_beyond_the_limit_is_denied_with_its_time_and_never_cut() {
    let policy = policy_of_d("{pushback: {max: 60s, spread: 1s}}");
    let service = Service::start(&policy).await;
    let mut client = service.client().await;
    let permit = client.granted(first("d")).await.permit;
    let denial = client
        .denied(retry_after("d", 2, &permit, pushed_back(3_600_000)))
        .await;
    assert_eq!(denial.reason(), DenialReason::PushbackTooLong);
    assert!((3_600_000.0..3_601_000.0).contains(&ms(denial.retry_after)));
    assert_eq!(client.get("d").await.retries, 0);
}

#[tokio::test]
async fn b08c_callers_that_are_told_the_same_time_do_not_come_back_together() {
    let policy = policy_of_d(
        "{retry: {initial_delay: 0s, jitter: none}, pushback: {max: 60s, spread: 1s}, \
         calendar: {retry_rate: off}, \
          budget: {floor_per_second: 1000}}",
    );
    let service = Service::start(&policy).await;
    let mut client = service.client().await;
    let mut buckets = [0; 10];
    for _ in 0..500 {
        let permit = client.granted(first("d")).await.permit;
        let grant = client
            .granted(retry_after("d", 2, &permit, pushed_back(5000)))
            .await;
        let late = ms(grant.delay) - 5000.0;
        assert!((0.0..1000.0).contains(&late), "{late}");
        buckets[(late / 100.0) as usize] += 1;
    }
    assert!(*buckets.iter().max().unwrap() <= 90, "{buckets:?}");
}

#[tokio::test]
async fn b12d_a_call_that_used_up_its_attempts_leaves_the_next_call_its_own() {
    let policy = policy_of_d(&format!("{{retry: {{max_attempts: 2}}, {PLENTY}}}"));
    let service = Service::start(&policy).await;
    let mut client = service.client().await;
    let a = client.granted(first_of("d", "one")).await.permit;
    let a = client.granted(retry("d", 2, &a, Failure)).await.permit;
    let denial = client.denied(retry("d", 3, &a, Failure)).await;
    assert_eq!(denial.reason(), DenialReason::AttemptsExhausted);
    let b = client.granted(first_of("d", "one")).await.permit;
    client.granted(retry("d", 2, &b, Failure)).await;
}

const HEDGED: &str = "{breaker: {window: 10s, min_calls: 1000}, \
    budget: {ratio: 0, floor_per_second: 0.1, ttl: 10s}, retry: {max_attempts: 2}}";

#[tokio::test]
async fn b13a_a_hedge_that_loses_counts_once_in_each_of_three_counters() {
    let service = Service::start(&policy_of_d(HEDGED)).await;
    let mut client = service.client().await;
    let original = client
        .granted(AcquireRequest {
            call_id: "call".into(),
            ..first("d")
        })
        .await;
    service.at_ms(50);
    let copy = client.granted(hedge("d", "call")).await;
    assert_eq!(ms(copy.delay), 0.0);
    service.at_ms(80);
    assert_eq!(
        client.reported(&original.permit, Success).await,
        ReportReason::Ok
    );
    assert_eq!(
        client.reported(&copy.permit, Cancelled).await,
        ReportReason::Ok
    );
    let seen = client.get("d").await;
    assert_eq!((seen.first_attempts, seen.retries), (1, 1));
    assert_eq!((seen.failure_ratio, seen.permits_out), (0.0, 0));
}

#[tokio::test]
async fn b13b_both_failures_are_attempts_and_one_answer_ends_the_call() {
    let service = Service::start(&policy_of_d(HEDGED)).await;
    let mut client = service.client().await;
    let original = client
        .granted(AcquireRequest {
            call_id: "call".into(),
            ..first("d")
        })
        .await;
    let copy = client.granted(hedge("d", "call")).await;
    service.at_ms(60);
    assert_eq!(
        client.reported(&copy.permit, Failure).await,
        ReportReason::Ok
    );
    service.at_ms(90);
    let denial = client
        .denied(retry("d", 2, &original.permit, Failure))
        .await;
    assert_eq!(denial.reason(), DenialReason::BudgetExhausted);
    let seen = client.get("d").await;
    assert_eq!((seen.failure_ratio, seen.retries), (1.0, 1));
}

#[tokio::test]
async fn b13c_a_hedge_without_budget_is_refused_and_the_original_goes_on() {
    let policy = policy_of_d("{budget: {ratio: 0, floor_per_second: 0}}");
    let service = Service::start(&policy).await;
    let mut client = service.client().await;
    let original = client.granted(first("d")).await;
    let reason = reason_of(client.ask(hedge("d", "call")).await);
    assert_eq!(reason, DenialReason::BudgetExhausted);
    service.at_ms(200);
    assert_eq!(
        client.reported(&original.permit, Failure).await,
        ReportReason::Ok
    );
    assert_eq!(
        client.reported(&original.permit, Failure).await,
        ReportReason::Duplicate,
        "the call ends exactly once"
    );
}

#[tokio::test]
async fn b15_only_what_is_safe_is_executed_again() {
    let policy = policy_of_d(&format!("{{breaker: {{mode: off}}, {PLENTY}}}"));
    let service = Service::start(&policy).await;
    let mut client = service.client().await;
    let unsafe_ = Some(DenialReason::RetryUnsafe);
    for (safety, ended, denied) in [
        (Safety::Unsafe, outcome(Timeout), unsafe_),
        (Safety::Unsafe, outcome(Failure), unsafe_),
        (Safety::Unsafe, pushed_back(1000), unsafe_),
        (Safety::Unsafe, outcome(NotSent), None),
        (Safety::Keyed, outcome(Timeout), None),
        (Safety::Unspecified, outcome(Timeout), unsafe_),
        (Safety::Idempotent, outcome(Timeout), None),
    ] {
        let permit = client.granted(first("d")).await.permit;
        let before = client.get("d").await;
        let asked = AcquireRequest {
            safety: safety.into(),
            ..retry_after("d", 2, &permit, ended)
        };
        let answer = client.ask(asked).await;
        let after = client.get("d").await;
        match denied {
            None => {
                grant_of(answer);
                assert_eq!(after.retries, before.retries + 1);
            }
            Some(reason) => {
                assert_eq!(reason_of(answer), reason, "{safety:?} {ended:?}");
                assert_eq!(after.retries, before.retries, "a refused retry is free");
            }
        }
        assert_eq!(after.state(), BreakerState::Closed);
    }
    let copy = AcquireRequest {
        safety: Safety::Unsafe.into(),
        ..hedge("d", "call")
    };
    assert_eq!(
        reason_of(client.ask(copy).await),
        DenialReason::HedgeRefused
    );
}
