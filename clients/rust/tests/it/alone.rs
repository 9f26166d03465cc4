//! The policy and the allowance that the service pushed, kept to when it is away.

use std::time::Duration;

use holdoff_client::{Client, DenialReason, DeniedBy, Outcome, Question, Safety, proto};

use crate::server::{Reply, Scripted, answer, deny, go, granted, refuse, wire};

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

/// A client that has heard that first attempts go, of a service that then answers so.
async fn gone_after_go(script: impl FnMut() -> Reply + Send + 'static) -> (Scripted, Client) {
    let mut script = script;
    let service = Scripted::new(move |_| script());
    service.pushes(go(7));
    let client = service.client();
    assert!(client.connect(Duration::from_secs(1)).await);
    tokio::time::sleep(Duration::from_micros(1)).await;
    (service, client)
}

const OPEN_FOR: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn a_retry_without_an_answer_is_denied_by_the_trip_that_was_pushed() {
    let unavailable = || Reply::Fail(tonic::Code::Unavailable);
    for answers in [|| Reply::Never, unavailable] {
        let (service, client) = gone_after_go(answers).await;
        let permit = client.acquire(idempotent()).await.unwrap();
        service.pushes_now(refuse(8, OPEN_FOR)).await;
        let denied = permit.retry(Outcome::failure()).await.unwrap_err();
        assert_eq!(
            (denied.reason, denied.by),
            (DenialReason::BreakerOpen, DeniedBy::Fleet)
        );
        let first = client.acquire(idempotent()).await.unwrap_err();
        assert_eq!(denied.retry_after, first.retry_after);
        assert!(denied.retry_after <= Some(OPEN_FOR));
        tokio::time::sleep(OPEN_FOR).await;
        assert!(client.acquire(idempotent()).await.unwrap().is_local());
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_was_out_when_the_trip_came_is_denied_by_it_too() {
    let (service, client) = gone_after_go(|| Reply::Never).await;
    let permit = client.acquire(idempotent()).await.unwrap();
    let hedging = permit.hedge();
    let tripping = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        service.pushes_now(refuse(8, OPEN_FOR)).await;
    };
    let (hedged, ()) = tokio::join!(hedging, tripping);
    assert_eq!(hedged.unwrap_err().reason, DenialReason::BreakerOpen);
}

#[tokio::test(start_paused = true)]
async fn alone_the_callers_own_words_come_before_a_pushed_trip() {
    let (service, client) = gone_after_go(|| Reply::Never).await;
    let permit = client.acquire("payments").await.unwrap();
    service.pushes_now(refuse(8, OPEN_FOR)).await;
    let denied = permit.retry(Outcome::failure()).await.unwrap_err();
    assert_eq!(
        (denied.reason, denied.by),
        (DenialReason::RetryUnsafe, DeniedBy::Caller)
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_pushed_trip_denies_alone_is_evidence_of_this_process_all_the_same() {
    let (service, client) = gone_after_go(|| Reply::Never).await;
    let mut permits = Vec::new();
    for _ in 0..5 {
        permits.push(client.acquire(idempotent()).await.unwrap());
    }
    service.pushes_now(refuse(8, OPEN_FOR)).await;
    for permit in permits {
        let denied = permit.retry(Outcome::failure()).await.unwrap_err();
        assert_eq!(denied.by, DeniedBy::Fleet);
    }
    service.kill();
    tokio::time::sleep(OPEN_FOR).await;
    let denied = client.acquire(idempotent()).await.unwrap_err();
    assert_eq!(
        (denied.reason, denied.by),
        (DenialReason::BreakerOpen, DeniedBy::Local)
    );
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_confirmation_is_denied_by_a_hold_of_its_epoch_and_by_none_before() {
    for (pushed_epoch, is_denied) in [(1, true), (0, false)] {
        let delay = Duration::from_secs(3);
        let (service, client) = gone_after_go(move || {
            answer(proto::Grant {
                confirm: true,
                ..granted(delay)
            })
        })
        .await;
        let permit = client.acquire(idempotent()).await.unwrap();
        let permit = permit.retry(Outcome::throttled_once()).await.unwrap();
        let held = proto::Update {
            state: proto::BreakerState::Closed.into(),
            ..refuse(pushed_epoch, 2 * OPEN_FOR)
        };
        service.pushes_now(held).await;
        service.script(|_| Reply::Never);
        let waited = permit.wait().await;
        assert_eq!(waited.is_err(), is_denied);
        if let Err(denied) = waited {
            assert_eq!(denied.reason, DenialReason::Held);
            tokio::time::sleep(Duration::from_secs(1)).await;
            let kinds = service.reported_kinds();
            assert_eq!(kinds, [proto::OutcomeKind::Cancelled]);
        }
    }
}
