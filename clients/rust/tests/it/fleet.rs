//! The service answers, and the client obeys.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use holdoff_client::{
    Client, DenialReason, DeniedBy, OnDenied, Outcome, OutcomeKind, Question, Safety, classify,
    proto,
};
use tokio::time::Instant;

use crate::server::{Scripted, answer, deny, grant, granted};

const MS_100: Duration = Duration::from_millis(100);

fn idempotent() -> Question {
    Question::new("payments").safety(Safety::Idempotent)
}

#[tokio::test(start_paused = true)]
async fn retries_happen_after_the_granted_delays_and_carry_the_outcome_before() {
    let service = Scripted::new(|question| grant(MS_100 * (question.attempt - 1)));
    let begun = Instant::now();
    let at = Arc::new(Mutex::new(Vec::new()));
    let result = service
        .client()
        .call(idempotent())
        .run(|attempt| {
            at.lock().unwrap().push(begun.elapsed().as_millis());
            async move {
                if attempt.number < 3 {
                    Err("503")
                } else {
                    Ok(attempt.number)
                }
            }
        })
        .await;
    assert_eq!(result.unwrap(), 3);
    assert_eq!(*at.lock().unwrap(), [0, 100, 300]);
    let questions = service.questions();
    let attempts: Vec<u32> = questions.iter().map(|q| q.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
    assert!(questions.iter().all(|q| q.call_id == questions[0].call_id));
    let before = questions[1].previous.as_ref().unwrap();
    assert_eq!(
        before.outcome.as_ref().unwrap().kind(),
        proto::OutcomeKind::Failure
    );
    let permit = proto::previous::MadeUnder::Permit("permit".into());
    assert_eq!(before.made_under, Some(permit));
}

#[tokio::test(start_paused = true)]
async fn a_denied_retry_returns_the_last_real_error_and_why() {
    let service = Scripted::new(|question| match question.attempt {
        1 => grant(Duration::ZERO),
        _ => deny(proto::DenialReason::BudgetExhausted, None),
    });
    let call = service.client().call(idempotent());
    let error = call
        .run(|_| async { Err::<(), _>("503") })
        .await
        .unwrap_err();
    assert_eq!(error.last, Some("503"));
    assert_eq!(error.attempts, 1);
    assert_eq!(error.why.reason, DenialReason::BudgetExhausted);
    assert_eq!(error.why.by, DeniedBy::Fleet);
    assert_eq!(error.why.detail, "because");
}

#[tokio::test(start_paused = true)]
async fn a_denied_first_attempt_fails_fast_and_calls_nothing() {
    let wait = Duration::from_secs(7);
    let service = Scripted::new(move |_| deny(proto::DenialReason::BreakerOpen, Some(wait)));
    let call = service.client().call(idempotent());
    let run = call.run(|_| async { panic!("not to be called") as Result<(), ()> });
    let error = run.await.unwrap_err();
    assert_eq!(error.why.retry_after, Some(wait));
    assert_eq!((error.last, error.attempts), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_caller_asks_again_when_it_makes_sense_while_its_time_lasts() {
    let mut asked = 0;
    let service = Scripted::new(move |_| {
        asked += 1;
        match asked {
            1 => deny(proto::DenialReason::Held, Some(Duration::from_secs(2))),
            _ => grant(Duration::ZERO),
        }
    });
    let client = service.client();
    let begun = Instant::now();
    let call = client.call(idempotent()).on_denied(OnDenied::Wait);
    call.run(|_| async { Ok::<_, ()>(()) }).await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 2);

    service.script(|_| deny(proto::DenialReason::Held, Some(Duration::from_secs(60))));
    let call = client.call(idempotent().deadline(Duration::from_secs(5)));
    let run = call
        .on_denied(OnDenied::Wait)
        .run(|_| async { Ok::<_, ()>(()) });
    assert_eq!(run.await.unwrap_err().why.reason, DenialReason::Held);
    assert_eq!(
        begun.elapsed().as_secs(),
        2,
        "it knows now that it cannot wait"
    );
}

#[tokio::test(start_paused = true)]
async fn a_waiting_caller_does_not_wait_for_what_no_time_mends() {
    let wait = Some(Duration::from_secs(90));
    let service = Scripted::new(move |question| match question.attempt {
        1 => grant(Duration::ZERO),
        _ => deny(proto::DenialReason::PushbackTooLong, wait),
    });
    for client in [service.client(), Client::testing()] {
        let call = client
            .call(idempotent())
            .on_denied(OnDenied::Wait)
            .classify(|_: &Result<(), ()>| Outcome::failure().pushback(Duration::from_secs(90)));
        let error = call.run(|_| async { Err(()) }).await.unwrap_err();
        assert_eq!(error.why.reason, DenialReason::PushbackTooLong);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fallback_runs_where_the_call_is_given_up() {
    let service = Scripted::new(|_| deny(proto::DenialReason::ForcedOpen, None));
    let call = service.client().call(idempotent());
    let value = call
        .run_or(
            |_| async { Err::<&str, ()>(()) },
            |error| async move {
                assert_eq!(error.why.reason, DenialReason::ForcedOpen);
                Ok("cached")
            },
        )
        .await;
    assert_eq!(value.unwrap(), "cached");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_call_reports_the_attempt_as_cancelled() {
    let service = Scripted::granting();
    let client = service.client();
    let call = client
        .call(idempotent())
        .run(|_| std::future::pending::<Result<(), ()>>());
    drop(tokio::time::timeout(MS_100, call).await);
    assert!(client.flush(Duration::from_secs(1)).await);
    assert_eq!(service.reported_kinds(), [proto::OutcomeKind::Cancelled]);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_call_during_a_delay_gives_the_place_back() {
    let service = Scripted::new(|_| grant(Duration::from_secs(5)));
    let client = service.client();
    let call = client.call(idempotent()).run(|_| async { Ok::<_, ()>(()) });
    drop(tokio::time::timeout(MS_100, call).await);
    assert!(client.flush(Duration::from_secs(1)).await);
    assert_eq!(service.reported_kinds(), [proto::OutcomeKind::Cancelled]);
}

#[tokio::test(start_paused = true)]
async fn b15_an_unsafe_call_is_retried_only_when_it_certainly_was_not_sent() {
    let table = [
        (Safety::Unsafe, OutcomeKind::Timeout, 1),
        (Safety::Unsafe, OutcomeKind::Failure, 1),
        (Safety::Unsafe, OutcomeKind::Throttled, 1),
        (Safety::Unsafe, OutcomeKind::NotSent, 2),
        (Safety::Keyed, OutcomeKind::Timeout, 2),
        (Safety::Idempotent, OutcomeKind::Timeout, 2),
    ];
    for (safety, kind, calls) in table {
        // A service that would grant anything.
        let service = Scripted::granting();
        let error = service
            .client()
            .call(Question::new("payments").safety(safety).max_attempts(2))
            .classify(move |_: &Result<(), ()>| Outcome::new(kind))
            .run(|_| async { Err(()) })
            .await
            .unwrap_err();
        assert_eq!(error.attempts, calls, "{safety:?} {kind:?}");
        let reason = match calls {
            1 => DenialReason::RetryUnsafe,
            _ => DenialReason::AttemptsExhausted,
        };
        assert_eq!(error.why.reason, reason);
    }
}

#[tokio::test(start_paused = true)]
async fn unset_means_unsafe() {
    let service = Scripted::granting();
    let call = service.client().call("payments");
    let error = call.run(|_| async { Err::<(), _>(()) }).await.unwrap_err();
    assert_eq!(error.why.reason, DenialReason::RetryUnsafe);
    assert_eq!(service.questions()[0].safety(), proto::Safety::Unsafe);
}

#[tokio::test(start_paused = true)]
async fn what_a_retry_cannot_mend_ends_the_call_and_is_reported() {
    for (outcome, reason) in [
        (
            Outcome::new(OutcomeKind::Rejected),
            DenialReason::NotRetryable,
        ),
        (
            Outcome::new(OutcomeKind::Ignored),
            DenialReason::NotRetryable,
        ),
        (Outcome::cancelled(), DenialReason::NotRetryable),
        (Outcome::failure().do_not_retry(), DenialReason::Pushback),
        (
            Outcome::failure().retried_below(),
            DenialReason::RetriedBelow,
        ),
    ] {
        let service = Scripted::granting();
        let client = service.client();
        let told = outcome.clone();
        let call = client
            .call(idempotent())
            .classify(move |_: &Result<(), ()>| told.clone());
        let error = call.run(|_| async { Err(()) }).await.unwrap_err();
        assert_eq!((error.attempts, error.why.reason), (1, reason));
        assert!(client.flush(Duration::from_secs(1)).await);
        assert_eq!(service.reported_kinds().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_callers_own_limit_of_attempts_is_ten_unless_it_says_otherwise() {
    let service = Scripted::granting();
    let client = service.client();
    for (question, attempts) in [(idempotent(), 10), (idempotent().max_attempts(3), 3)] {
        let call = client.call(question);
        let error = call.run(|_| async { Err::<(), _>(()) }).await.unwrap_err();
        assert_eq!(error.attempts, attempts);
        assert_eq!(error.why.reason, DenialReason::AttemptsExhausted);
        assert_eq!(error.why.by, DeniedBy::Caller);
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_is_given_up_a_margin_before_its_lease_ends() {
    for (lease, limit) in [(5_000, 4_500), (1_000, 750), (100, 50)] {
        let service = Scripted::new(move |question| match question.attempt {
            1 => answer(proto::Grant {
                probe: true,
                permit_ttl: Some(crate::server::wire(Duration::from_millis(lease))),
                ..granted(Duration::ZERO)
            }),
            _ => deny(proto::DenialReason::BreakerOpen, None),
        });
        let begun = Instant::now();
        let call = service.client().call(idempotent());
        let run = call.run(|_| std::future::pending::<Result<(), ()>>());
        let error = run.await.unwrap_err();
        assert_eq!(begun.elapsed(), Duration::from_millis(limit));
        assert_eq!(error.why.reason, DenialReason::BreakerOpen);
        let told = service.questions()[1].previous.clone().unwrap();
        assert_eq!(told.outcome.unwrap().kind(), proto::OutcomeKind::Timeout);
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_delay_is_confirmed_just_before_the_call() {
    let service = Scripted::new(
        |question| match (question.attempt, question.confirm.is_empty()) {
            (1, _) => grant(Duration::ZERO),
            (_, true) => answer(proto::Grant {
                confirm: true,
                ..granted(Duration::from_secs(3))
            }),
            (_, false) => answer(proto::Grant {
                permit: "confirmed".into(),
                ..granted(Duration::ZERO)
            }),
        },
    );
    let client = service.client();
    let call = client.call(idempotent().max_attempts(2));
    call.run(|_| async { Err::<(), _>(()) }).await.unwrap_err();
    let confirmation = &service.questions()[2];
    assert_eq!(confirmation.confirm, "permit");
    assert_eq!((confirmation.attempt, &confirmation.previous), (2, &None));
    assert!(client.flush(Duration::from_secs(1)).await);
    let last = service.reports().pop().unwrap().entries.pop().unwrap();
    let Some(proto::report_entry::Entry::Result(result)) = last.entry else {
        panic!("{last:?}");
    };
    assert_eq!(result.permit, "confirmed");
}

#[tokio::test(start_paused = true)]
async fn a_denied_confirmation_ends_the_call_with_the_last_error_and_no_report() {
    let service = Scripted::new(
        |question| match (question.attempt, question.confirm.is_empty()) {
            (1, _) => grant(Duration::ZERO),
            (_, true) => answer(proto::Grant {
                confirm: true,
                ..granted(Duration::from_secs(3))
            }),
            (_, false) => deny(proto::DenialReason::BreakerOpen, Some(MS_100)),
        },
    );
    let client = service.client();
    let call = client.call(idempotent());
    let error = call
        .run(|_| async { Err::<(), _>("503") })
        .await
        .unwrap_err();
    assert_eq!(error.last, Some("503"));
    assert_eq!(error.why.reason, DenialReason::BreakerOpen);
    assert!(client.flush(Duration::from_secs(1)).await);
    assert_eq!(service.reported_kinds(), []);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_cuts_an_attempt_off_and_is_told_with_each_question() {
    let service = Scripted::granting();
    let begun = Instant::now();
    let question = idempotent().deadline(Duration::from_secs(2));
    let call = service.client().call(question);
    let run = call.run(|_| std::future::pending::<Result<(), ()>>());
    let error = run.await.unwrap_err();
    assert_eq!(begun.elapsed().as_secs(), 2);
    assert_eq!(error.why.reason, DenialReason::Deadline);
    let told = service.questions()[0].time_left.unwrap();
    assert_eq!(told.seconds, 2);
}

#[tokio::test(start_paused = true)]
async fn in_two_steps_a_permit_is_asked_for_waited_for_and_reported_once() {
    let service = Scripted::new(|question| grant(MS_100 * (question.attempt - 1)));
    let client = service.client();
    let permit = client.acquire(idempotent()).await.unwrap();
    let permit = permit.retry(Outcome::failure()).await.unwrap();
    assert_eq!((permit.attempt(), permit.is_local()), (2, false));
    assert!(permit.delay() > Duration::from_millis(90));
    let permit = permit.wait().await.unwrap();
    assert_eq!(permit.delay(), Duration::ZERO);
    permit.report(Outcome::success());
    drop(client.acquire("payments").await.unwrap());
    assert!(client.flush(Duration::from_secs(1)).await);
    let kinds = [proto::OutcomeKind::Success, proto::OutcomeKind::Cancelled];
    assert_eq!(service.reported_kinds(), kinds);
}

#[tokio::test(start_paused = true)]
async fn b13d_a_hedge_that_was_told_not_to_retry_ends_hedging_and_not_the_original() {
    let service = Scripted::granting();
    let client = service.client();
    let original = client.acquire(idempotent()).await.unwrap();
    let hedge = original.hedge().await.unwrap();
    let asked = &service.questions()[1];
    assert!(asked.hedge && asked.previous.is_none() && asked.attempt == 1);
    assert_eq!(asked.call_id, service.questions()[0].call_id);
    hedge.report(Outcome::failure().do_not_retry());
    let refused = original.hedge().await.unwrap_err();
    assert_eq!(refused.reason, DenialReason::HedgeRefused);
    assert_eq!(service.questions().len(), 2, "no third question");
    original.report(Outcome::success());
    assert!(client.flush(Duration::from_secs(1)).await);
    let kinds = [proto::OutcomeKind::Failure, proto::OutcomeKind::Success];
    assert_eq!(service.reported_kinds(), kinds);
}

#[tokio::test(start_paused = true)]
async fn a_hedge_of_an_unsafe_call_is_refused_without_a_question() {
    let service = Scripted::granting();
    let client = service.client();
    let original = client.acquire("payments").await.unwrap();
    let refused = original.hedge().await.unwrap_err();
    assert_eq!(refused.reason, DenialReason::HedgeRefused);
    assert_eq!(service.questions().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn b19e_a_caller_whose_outcome_was_stale_still_obeys_its_decision() {
    let service = Scripted::new(|question| match grant(MS_100) {
        crate::server::Reply::Answer(mut response) if question.attempt > 1 => {
            response.previous_result = proto::ReportReason::StaleEpoch.into();
            crate::server::Reply::Answer(response)
        }
        reply => reply,
    });
    let call = service.client().call(idempotent());
    let run = call.run(|attempt| async move { if attempt.number == 1 { Err(()) } else { Ok(()) } });
    assert!(run.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn questions_asked_together_travel_together_and_find_their_askers() {
    let service = Scripted::new(|question| {
        answer(proto::Grant {
            permit: question.dependency.clone().into(),
            delay: Some(crate::server::wire(Duration::from_millis(
                question.cost.into(),
            ))),
            ..Default::default()
        })
    });
    let client = service.client();
    assert!(client.connect(Duration::from_secs(1)).await);
    let mut asking = tokio::task::JoinSet::new();
    for number in 1..=500_u32 {
        let client = client.clone();
        asking.spawn(async move {
            let question = Question::new(format!("d{number}")).cost(number);
            let permit = client.acquire(question).await.unwrap();
            assert!(!permit.is_local());
            let own = Duration::from_millis(number.into());
            assert!(permit.delay() <= own && permit.delay() > own - Duration::from_millis(1));
        });
    }
    while let Some(done) = asking.join_next().await {
        done.unwrap();
    }
    assert!(service.batches().len() < 50, "{:?}", service.batches());
    assert_eq!(service.questions().len(), 500);
    assert_eq!(service.sessions(), 1);
    assert!(client.counters().answered == 500 && client.counters().no_decision == 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_says_once_who_speaks() {
    let service = Scripted::granting();
    let client = service.builder().namespace("shop").build().unwrap();
    drop(client.acquire("payments").await.unwrap());
    let hello = &service.hellos()[0];
    assert_eq!(hello.namespace, "shop");
    let caller = hello.caller.as_ref().unwrap();
    assert_eq!(
        (&*caller.service, &*caller.instance),
        ("checkout", "test-1")
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_without_streams_is_asked_without_one_from_the_first_question_on() {
    let service = Scripted::granting();
    service.has_no_stream();
    let client = service.builder().namespace("shop").build().unwrap();
    for _ in 0..3 {
        let permit = client.acquire("payments").await.unwrap();
        assert!(!permit.is_local());
        permit.report(Outcome::failure());
    }
    assert!(client.flush(Duration::from_secs(1)).await);
    assert_eq!(service.reported_kinds().len(), 3);
    let question = &service.questions()[0];
    assert_eq!(question.namespace, "shop");
    assert_eq!(question.caller.as_ref().unwrap().instance, "test-1");
}

#[tokio::test(start_paused = true)]
async fn an_ok_result_that_counts_as_failure_is_retried_and_returned_as_it_is() {
    let service = Scripted::granting();
    let call = service.client().call(idempotent().max_attempts(2));
    let respond = |status: u16| http::Response::builder().status(status).body(()).unwrap();
    let run = call
        .classify(classify::Http)
        .run(|_| async move { Ok::<_, std::io::Error>(respond(503)) });
    assert_eq!(run.await.unwrap().status(), 503);
    assert_eq!(service.questions().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pushed_state_is_taken_and_disturbs_nothing_even_if_it_is_unknown() {
    let service = Scripted::granting();
    service.pushes(proto::Update {
        dependency: "payments".into(),
        state: 99,
        first_attempts: 77,
        epoch: 5,
        ..Default::default()
    });
    let permit = service.client().acquire("payments").await.unwrap();
    assert!(!permit.is_local());
}

#[tokio::test(start_paused = true)]
async fn testing_mode_needs_no_service_and_no_time_and_ends_after_three_attempts() {
    let client = Client::testing();
    let begun = Instant::now();
    for _ in 0..1_000 {
        let error = client
            .call(idempotent())
            .classify(|_: &Result<(), ()>| Outcome::failure().pushback(Duration::from_secs(30)))
            .run(|_| async { Err(()) })
            .await
            .unwrap_err();
        assert_eq!(error.attempts, 3);
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
}
