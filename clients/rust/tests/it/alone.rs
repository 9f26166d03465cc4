//! The policy and the allowance that the service pushed, kept to when it is away.

use std::time::Duration;

use holdoff_client::{Client, DenialReason, DeniedBy, Outcome, Question, Safety, proto};

use crate::server::{Scripted, deny, go, wire};

fn idempotent() -> Question {
    Question::new("payments").safety(Safety::Idempotent)
}

fn policy() -> proto::ClientPolicy {
    proto::ClientPolicy {
        max_attempts: 5,
        strategy: proto::Strategy::Fixed.into(),
        initial_delay: Some(wire(Duration::from_secs(3))),
        multiplier: 1.0,
        max_delay: Some(wire(Duration::from_secs(3))),
        jitter: proto::Jitter::None.into(),
        pushback_max: Some(wire(Duration::from_secs(5))),
        budget_ratio: 0.0,
        budget_ttl: Some(wire(Duration::from_secs(10))),
        open_for: Some(wire(Duration::from_secs(7))),
        open_multiplier: 1.0,
        open_max: Some(wire(Duration::from_secs(7))),
        ..Default::default()
    }
}

/// A share of a floor of one retry a second.
fn allowance(clients: u32) -> proto::OfflineAllowance {
    proto::OfflineAllowance {
        retries_per_second: 1.0 / f64::from(clients),
        known_clients: clients,
    }
}

fn update(policy: proto::ClientPolicy, allowance: proto::OfflineAllowance) -> proto::Update {
    proto::Update {
        policy: Some(policy),
        offline_allowance: Some(allowance),
        ..go(1)
    }
}

/// A client that has heard this, long after the service has gone.
async fn left_alone(update: proto::Update) -> Client {
    let service = Scripted::granting();
    service.pushes(update);
    let client = service.client();
    assert!(client.connect(Duration::from_secs(1)).await);
    tokio::time::sleep(Duration::from_millis(1)).await;
    service.kill();
    tokio::time::sleep(Duration::from_secs(60)).await;
    client
}

#[tokio::test(start_paused = true)]
async fn the_last_policy_says_how_long_and_how_often() {
    let client = left_alone(update(policy(), allowance(1))).await;
    let mut permit = client.acquire(idempotent()).await.unwrap();
    assert!(permit.is_local());
    for _ in 2..=4 {
        permit = permit.retry(Outcome::throttled_once()).await.unwrap();
        assert_eq!(permit.delay(), Duration::from_secs(3));
        permit = permit.wait().await.unwrap();
    }
    permit = permit.retry(Outcome::throttled_once()).await.unwrap();
    let denied = permit.retry(Outcome::throttled_once()).await.unwrap_err();
    assert_eq!(denied.reason, DenialReason::AttemptsExhausted);
}

trait Throttled {
    fn throttled_once() -> Self;
}

impl Throttled for Outcome {
    /// Nothing that trips a breaker.
    fn throttled_once() -> Self {
        Self::new(holdoff_client::OutcomeKind::Throttled)
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_policy_says_which_pushback_is_too_long_and_how_long_a_breaker_is_open() {
    let client = left_alone(update(policy(), allowance(1))).await;
    let permit = client.acquire(idempotent()).await.unwrap();
    let long = Outcome::throttled_once().pushback(Duration::from_secs(6));
    let denied = permit.retry(long).await.unwrap_err();
    assert_eq!(denied.reason, DenialReason::PushbackTooLong);
    let denied = loop {
        match client.acquire("payments").await {
            Ok(permit) => permit.report(Outcome::failure()),
            Err(denied) => break denied,
        }
    };
    assert_eq!(denied.reason, DenialReason::BreakerOpen);
    let open_for = denied.retry_after.unwrap();
    // The policy's own spread, two seconds, comes on top.
    assert!(open_for >= Duration::from_secs(7) && open_for < Duration::from_secs(9));
}

/// Retries that a client on its own grants at one instant.
async fn retries_at_once(client: &Client) -> u32 {
    let mut granted = 0;
    for _ in 0..40 {
        let permit = client.acquire(idempotent()).await.unwrap();
        if let Ok(retry) = permit.retry(Outcome::throttled_once()).await {
            granted += 1;
            retry.report(Outcome::success());
        }
    }
    granted
}

#[tokio::test(start_paused = true)]
async fn clients_alone_add_up_to_the_fleets_floor() {
    // Ten retries in any ten seconds.
    for clients in [1, 2, 5, 10] {
        let mut sum = 0;
        for _ in 0..clients {
            let client = left_alone(update(policy(), allowance(clients))).await;
            sum += retries_at_once(&client).await;
        }
        assert_eq!(sum, 10, "{clients} clients");
    }
    let mut sum = 0;
    for _ in 0..4 {
        let client = left_alone(update(policy(), allowance(4))).await;
        sum += retries_at_once(&client).await;
    }
    assert_eq!(sum, 8, "a share of two and a half is two");
}

#[tokio::test(start_paused = true)]
async fn a_share_of_the_own_first_attempts_comes_on_top() {
    let policy = proto::ClientPolicy {
        budget_ratio: 0.25,
        ..policy()
    };
    let client = left_alone(update(policy, allowance(10))).await;
    // 40 first attempts, and one of the floor.
    assert_eq!(retries_at_once(&client).await, 11);
}

#[tokio::test(start_paused = true)]
async fn cl4_an_absurd_policy_leaves_the_clients_own() {
    let minus = Some(prost_types::Duration {
        seconds: -1,
        nanos: -1,
    });
    let absurd = proto::ClientPolicy {
        max_attempts: u32::MAX,
        strategy: 77,
        initial_delay: minus,
        multiplier: f64::NAN,
        max_delay: minus,
        jitter: -1,
        budget_ratio: f64::INFINITY,
        budget_ttl: minus,
        open_for: minus,
        open_multiplier: -8.0,
        ..Default::default()
    };
    let allowance = proto::OfflineAllowance {
        retries_per_second: f64::NAN,
        known_clients: u32::MAX,
    };
    let client = left_alone(update(absurd, allowance)).await;
    // A tenth of 40 and one a second, as documented.
    assert_eq!(retries_at_once(&client).await, 14);
}

#[tokio::test(start_paused = true)]
async fn the_callers_own_limit_binds_where_the_policy_has_none() {
    let unlimited = proto::ClientPolicy {
        max_attempts: 0,
        budget_ratio: 10.0,
        ..policy()
    };
    let client = left_alone(update(unlimited, allowance(1))).await;
    let call = client
        .call(idempotent())
        .classify(|_: &Result<(), ()>| Outcome::throttled_once());
    let error = call.run(|_| async { Err(()) }).await.unwrap_err();
    assert_eq!((error.attempts, error.why.by), (10, DeniedBy::Caller));
}

#[tokio::test(start_paused = true)]
async fn a_denial_is_forgotten_once_first_attempts_were_let_go_after_it() {
    let wait = Some(Duration::from_secs(200));
    for (let_go, is_granted) in [(true, true), (false, false)] {
        let service = Scripted::new(move |_| deny(proto::DenialReason::BreakerOpen, wait));
        let client = service.client();
        client.acquire("payments").await.unwrap_err();
        tokio::time::sleep(Duration::from_millis(1)).await;
        if let_go {
            service.pushes_now(go(2)).await;
        }
        service.kill();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let answer = client.acquire("payments").await;
        assert_eq!(answer.is_ok(), is_granted);
    }
}
