//! A GO that was pushed before the service was lost: first attempts go on, and all that ends
//! counts in this process's own record.

use std::time::Duration;

use holdoff_client::{
    Client, DenialReason, DeniedBy, OnNoDecision, Outcome, OutcomeKind, Permit, Question, Safety,
    proto,
};

use crate::server::{Reply, Scripted, deny, go, sum, wire};

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);

fn idempotent() -> Question {
    Question::new("payments").safety(Safety::Idempotent)
}

fn update() -> proto::Update {
    proto::Update {
        policy: Some(proto::ClientPolicy {
            max_attempts: 3,
            strategy: proto::Strategy::Fixed.into(),
            initial_delay: Some(wire(MILLISECOND)),
            max_delay: Some(wire(MILLISECOND)),
            jitter: proto::Jitter::None.into(),
            budget_ratio: 1.0,
            ..Default::default()
        }),
        ..go(7)
    }
}

/// A client that has heard that first attempts go.
async fn let_go(service: &Scripted) -> Client {
    service.pushes(update());
    let client = service.client();
    assert!(client.connect(SECOND).await);
    tokio::time::sleep(MILLISECOND).await;
    client
}

/// The same, and the service has gone.
async fn outlived() -> (Scripted, Client) {
    let service = Scripted::granting();
    let client = let_go(&service).await;
    service.kill();
    tokio::time::sleep(MILLISECOND).await;
    (service, client)
}

async fn granted(client: &Client) -> Permit {
    client.acquire(idempotent()).await.unwrap()
}

/// The first attempt fails, the second one does not.
async fn fail_once(client: &Client) -> Result<(), DenialReason> {
    let call = client.call(idempotent());
    let run = call.run(|attempt| async move {
        match attempt.number {
            1 => Err(()),
            _ => Ok(()),
        }
    });
    run.await.map_err(|error| error.why.reason)
}

#[tokio::test(start_paused = true)]
async fn a_dependency_of_which_every_eighth_call_fails_is_not_refused() {
    let (service, client) = outlived().await;
    for _ in 0..50 {
        assert_eq!(fail_once(&client).await, Ok(()));
        for _ in 0..7 {
            let permit = granted(&client).await;
            assert!(permit.is_local());
            permit.report(Outcome::success());
        }
    }
    assert_eq!(client.counters().pushed_grants, 0);
    assert!(service.questions().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dependency_that_fails_opens_the_local_breaker() {
    let (_service, client) = outlived().await;
    for _ in 0..5 {
        granted(&client).await.report(Outcome::failure());
    }
    let denied = client.acquire(idempotent()).await.unwrap_err();
    assert_eq!(
        (denied.reason, denied.by),
        (DenialReason::BreakerOpen, DeniedBy::Local)
    );
}

#[tokio::test(start_paused = true)]
async fn what_began_before_the_loss_and_ends_after_it_counts_here_and_is_told_once() {
    for kind in [OutcomeKind::Success, OutcomeKind::Failure] {
        let service = Scripted::granting();
        let client = let_go(&service).await;
        let mut under_way = Vec::new();
        for _ in 0..5 {
            under_way.push(granted(&client).await);
        }
        assert!(under_way.iter().all(|permit| !permit.is_local()));
        service.kill();
        tokio::time::sleep(MILLISECOND).await;
        for permit in under_way {
            permit.report(Outcome::new(kind));
        }
        let is_open = client.acquire(idempotent()).await.is_err();
        assert_eq!(is_open, kind == OutcomeKind::Failure);
        service.start();
        tokio::time::sleep(6 * SECOND).await;
        assert!(client.flush(SECOND).await);
        let told = sum(&service.tallies());
        assert_eq!(told.first_attempts, 0);
        assert_eq!(told.successes + told.failures, 5);
    }
}

/// Five straight failures open the breaker: four with a question, and one without.
#[tokio::test(start_paused = true)]
async fn a_failure_under_way_at_the_loss_counts_here_once_with_its_question() {
    let service = Scripted::granting();
    let client = let_go(&service).await;
    let mut under_way = Vec::new();
    for _ in 0..4 {
        under_way.push(granted(&client).await);
    }
    service.kill();
    tokio::time::sleep(MILLISECOND).await;
    for permit in under_way {
        let retry = permit.retry(Outcome::failure()).await.unwrap();
        // What says nothing of the dependency.
        retry.report(Outcome::new(OutcomeKind::Ignored));
    }
    let permit = granted(&client).await;
    permit.report(Outcome::failure());
    let denied = client.acquire(idempotent()).await.unwrap_err();
    assert_eq!(denied.reason, DenialReason::BreakerOpen, "the fifth");
}

#[tokio::test(start_paused = true)]
async fn a_silent_service_is_not_at_hand_either() {
    let service = Scripted::new(|_| Reply::Never);
    let client = let_go(&service).await;
    for asked in 1..=3 {
        let permit = granted(&client).await;
        assert!(!permit.is_local(), "{asked}");
        permit
            .retry(Outcome::failure())
            .await
            .unwrap()
            .report(Outcome::success());
    }
    assert_eq!(service.questions().len(), 3);
    let permit = granted(&client).await;
    assert!(permit.is_local());
    permit.report(Outcome::success());
    assert_eq!(service.questions().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn one_call_is_enough_to_find_the_service_again() {
    let (service, client) = outlived().await;
    service.start();
    assert!(granted(&client).await.is_local());
    tokio::time::sleep(Duration::from_millis(5_100)).await;
    assert_eq!(service.sessions(), 2);
    assert!(!granted(&client).await.is_local());
    assert!(service.questions().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_denial_of_before_binds_no_first_attempt() {
    for is_let_go_again in [false, true] {
        let service = Scripted::new(|_| deny(proto::DenialReason::BreakerOpen, Some(SECOND * 60)));
        let client = let_go(&service).await;
        let permit = granted(&client).await;
        permit.retry(Outcome::failure()).await.unwrap_err();
        if is_let_go_again {
            tokio::time::sleep(MILLISECOND).await;
            service.pushes_now(update()).await;
        }
        service.kill();
        tokio::time::sleep(MILLISECOND).await;
        let permit = granted(&client).await;
        assert!(permit.is_local());
        // But the retry, unless first attempts were let go after it.
        let retry = permit.retry(Outcome::failure()).await;
        assert_eq!(retry.is_ok(), is_let_go_again);
    }
}

#[tokio::test(start_paused = true)]
async fn a_go_is_the_fleets_decision_where_this_process_must_not_decide() {
    for on_no_decision in [OnNoDecision::Deny, OnNoDecision::Allow] {
        let service = Scripted::granting();
        service.pushes(update());
        let builder = service.builder().on_no_decision(on_no_decision);
        let client = builder.build().unwrap();
        assert!(client.connect(SECOND).await);
        service.kill();
        for _ in 0..10 {
            let permit = granted(&client).await;
            assert!(!permit.is_local());
            permit.report(Outcome::failure());
        }
        tokio::time::sleep(14 * SECOND).await;
        assert!(!granted(&client).await.is_local(), "to its end");
    }
}
