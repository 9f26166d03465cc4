//! The service lies, and the client does nothing foolish.

use std::{
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    time::Duration,
};

use holdoff_client::{
    CallError, DenialReason, DeniedBy, Finding, OnDenied, Question, Safety, proto,
};
use proptest::prelude::*;
use tokio::time::Instant;

use crate::server::{Reply, Scripted, answer, deny, grant, granted};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn idempotent() -> Question {
    Question::new("payments").safety(Safety::Idempotent)
}

/// Fails every attempt; how often it was called, and how the call ended.
async fn fail(service: &Scripted, question: Question) -> (u32, CallError<&'static str>) {
    let calls = AtomicU32::new(0);
    let call = service.client().call(question);
    let error = call
        .run(|_| {
            calls.fetch_add(1, SeqCst);
            async { Err::<(), _>("503") }
        })
        .await
        .unwrap_err();
    (calls.load(SeqCst), error)
}

fn retries_get(odd: fn() -> Reply) -> Scripted {
    Scripted::new(move |question| match question.attempt {
        1 => grant(Duration::ZERO),
        _ => odd(),
    })
}

#[tokio::test(start_paused = true)]
async fn b04d_a_thousand_retries_without_a_delay_cause_no_further_call() {
    let service = retries_get(|| {
        answer(proto::Grant {
            delay: None,
            ..granted(Duration::ZERO)
        })
    });
    let client = service.client();
    let calls = AtomicU32::new(0);
    for _ in 0..1_000 {
        let call = client.call(idempotent());
        let error = call
            .run(|_| {
                calls.fetch_add(1, SeqCst);
                async { Err::<(), _>("503") }
            })
            .await
            .unwrap_err();
        assert_eq!(error.last, Some("503"));
        assert_eq!(error.why.reason, DenialReason::Unreadable);
    }
    assert_eq!(calls.load(SeqCst), 1_000, "the first attempts alone");
}

#[tokio::test(start_paused = true)]
async fn cl4_an_unreadable_answer_to_a_first_question_is_no_decision() {
    let odd: [fn() -> Reply; 5] = [
        || Reply::Answer(Box::default()),
        || answer(proto::Grant::default()),
        || {
            answer(proto::Grant {
                delay: Some(prost_types::Duration {
                    seconds: -1,
                    nanos: 0,
                }),
                ..Default::default()
            })
        },
        || deny(proto::DenialReason::Unspecified, None),
        || match grant(Duration::ZERO) {
            Reply::Answer(mut response) => {
                response.state = 99;
                Reply::Answer(response)
            }
            other => other,
        },
    ];
    for odd in odd {
        let service = Scripted::new(move |_| odd());
        let client = service.client();
        for _ in 0..10 {
            assert!(client.acquire("payments").await.unwrap().is_local());
        }
        let counters = client.counters();
        assert_eq!((counters.answered, counters.no_decision), (0, 10));
    }
}

#[tokio::test(start_paused = true)]
async fn cl4_a_retry_that_was_not_decided_goes_on_by_the_local_policy() {
    let service = retries_get(|| deny(proto::DenialReason::Unspecified, None));
    let (calls, error) = fail(&service, idempotent()).await;
    assert_eq!(calls, 3, "the policy's attempts");
    assert_eq!(error.why.reason, DenialReason::AttemptsExhausted);
}

#[tokio::test(start_paused = true)]
async fn cl4_a_delay_of_a_year_is_not_waited_for_where_there_is_a_deadline() {
    let service = retries_get(|| grant(YEAR));
    let begun = Instant::now();
    let question = idempotent().deadline(Duration::from_secs(3600));
    let (calls, error) = fail(&service, question).await;
    assert_eq!(calls, 1);
    assert_eq!(error.why.reason, DenialReason::Deadline);
    assert_eq!(begun.elapsed(), Duration::ZERO, "it knows at once");
}

#[tokio::test(start_paused = true)]
async fn cl4_no_delay_is_waited_for_longer_than_ten_minutes() {
    let service = retries_get(|| grant(YEAR));
    let begun = Instant::now();
    let (calls, _) = fail(&service, idempotent().max_attempts(2)).await;
    assert_eq!(calls, 2);
    assert_eq!(begun.elapsed().as_secs(), 600);
}

#[tokio::test(start_paused = true)]
async fn cl4_a_longest_duration_of_the_wire_overflows_nothing() {
    const LONGEST: prost_types::Duration = prost_types::Duration {
        seconds: 315_576_000_000,
        nanos: 999_999_999,
    };
    let service = Scripted::new(|_| {
        answer(proto::Grant {
            permit_ttl: Some(LONGEST),
            attempt_timeout: Some(LONGEST),
            probe: true,
            ..granted(Duration::ZERO)
        })
    });
    let call = service.client().call(idempotent().deadline(Duration::MAX));
    call.run(|_| async { Ok::<_, ()>(()) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cl4_a_service_that_asks_for_confirmations_without_end_is_left() {
    let service = Scripted::new(|_| {
        answer(proto::Grant {
            confirm: true,
            ..granted(Duration::from_nanos(1))
        })
    });
    let (calls, error) = fail(&service, idempotent()).await;
    assert_eq!((calls, error.why.reason), (0, DenialReason::Unreadable));
}

#[tokio::test(start_paused = true)]
async fn cl4_a_text_of_a_mebibyte_is_cut() {
    let service = Scripted::new(|_| match deny(proto::DenialReason::Held, None) {
        Reply::Answer(mut response) => {
            if let Some(proto::acquire_response::Verdict::Denial(denial)) = &mut response.verdict {
                denial.detail = "x".repeat(1 << 20);
            }
            Reply::Answer(response)
        }
        other => other,
    });
    let (_, error) = fail(&service, idempotent()).await;
    assert!(error.why.detail.len() <= 1024);
}

#[tokio::test(start_paused = true)]
async fn cl4_a_permit_that_is_dead_on_arrival_is_not_fired_and_not_asked_for_without_end() {
    let service = Scripted::new(|_| {
        answer(proto::Grant {
            permit_ttl: Some(prost_types::Duration {
                seconds: 0,
                nanos: 1,
            }),
            ..granted(Duration::from_millis(1))
        })
    });
    let call = service.client().call(idempotent());
    let run = tokio::time::timeout(
        Duration::from_secs(60),
        call.run(|_| async { Ok::<_, ()>(()) }),
    );
    let ended = run.await.expect("it ends by itself");
    assert!(
        service.questions().len() <= 101,
        "{}",
        service.questions().len()
    );
    drop(ended);
}

fn any_duration() -> impl Strategy<Value = Option<prost_types::Duration>> {
    let seconds = prop_oneof![0..5_i64, -1..2_i64, any::<i64>()];
    let nanos = prop_oneof![Just(0), 0..1_000_000_000_i32, any::<i32>()];
    let some =
        (seconds, nanos).prop_map(|(seconds, nanos)| prost_types::Duration { seconds, nanos });
    proptest::option::weighted(0.9, some)
}

fn any_grant() -> impl Strategy<Value = proto::Grant> {
    let flags = (any::<bool>(), any::<bool>());
    (any_duration(), any_duration(), any_duration(), flags).prop_map(
        |(delay, permit_ttl, attempt_timeout, (probe, confirm))| proto::Grant {
            delay,
            permit: "permit".into(),
            permit_ttl,
            probe,
            confirm,
            attempt_timeout,
        },
    )
}

fn any_response() -> impl Strategy<Value = proto::AcquireResponse> {
    use proto::acquire_response::Verdict;
    let denial = (-1..25_i32, any_duration()).prop_map(|(reason, retry_after)| {
        Verdict::Denial(proto::Denial {
            reason,
            retry_after,
            detail: String::new(),
        })
    });
    let verdict = proptest::option::weighted(
        0.95,
        prop_oneof![3 => any_grant().prop_map(Verdict::Grant), 1 => denial],
    );
    (verdict, -1..9_i32).prop_map(|(verdict, state)| proto::AcquireResponse {
        verdict,
        state,
        ..Default::default()
    })
}

fn any_policy() -> impl Strategy<Value = proto::ClientPolicy> {
    let number = || prop_oneof![any::<f64>(), 0.0..10.0_f64];
    let spans = proptest::collection::vec(any_duration(), 9);
    let numbers = proptest::collection::vec(number(), 4);
    let enums = (-1..7_i32, -1..7_i32);
    (spans, numbers, any::<u32>(), enums, any::<bool>()).prop_map(
        |(spans, numbers, max_attempts, (strategy, jitter), breaker_off)| proto::ClientPolicy {
            max_attempts,
            strategy,
            initial_delay: spans[0],
            multiplier: numbers[0],
            max_delay: spans[1],
            min_delay: spans[2],
            jitter,
            jitter_proportion: numbers[1],
            min_attempt_time: spans[3],
            pushback_max: spans[4],
            pushback_spread: spans[5],
            budget_ratio: numbers[2],
            budget_ttl: spans[6],
            open_for: spans[7],
            open_multiplier: numbers[3],
            open_max: spans[8],
            slow_after: spans[0],
            breaker_off,
        },
    )
}

fn any_update() -> impl Strategy<Value = proto::Update> {
    let words = (-1..9_i32, -1..5_i32, any::<u64>());
    let allowance = proptest::option::of((any::<f64>(), any::<u32>()));
    let policy = proptest::option::of(any_policy());
    (words, any_duration(), policy, allowance).prop_map(
        |((state, first_attempts, epoch), valid_for, policy, allowance)| proto::Update {
            dependency: "payments".into(),
            state,
            epoch,
            first_attempts,
            valid_for,
            policy,
            offline_allowance: allowance.map(|(retries_per_second, known_clients)| {
                proto::OfflineAllowance {
                    retries_per_second,
                    known_clients,
                }
            }),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the service says: the call ends by its deadline, no attempt begins after it,
    /// and there are never more attempts than the caller allows.
    #[test]
    fn cl4_no_answer_makes_a_call_outlive_its_deadline_or_exceed_its_attempts(
        answers in proptest::collection::vec(any_response(), 1..20),
        update in any_update(),
        waits in any::<bool>(),
        goes_away in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut answers = answers.into_iter().cycle();
            let service = Scripted::new(move |_| {
                Reply::Answer(Box::new(answers.next().unwrap_or_default()))
            });
            service.pushes(update);
            let client = service.client();
            client.connect(Duration::from_secs(1)).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
            if goes_away {
                service.kill();
            }
            let deadline = Duration::from_secs(20);
            let on_denied = if waits { OnDenied::Wait } else { OnDenied::Fail };
            let begun = Instant::now();
            let calls = AtomicU32::new(0);
            let call = client
                .call(idempotent().deadline(deadline).max_attempts(4))
                .on_denied(on_denied);
            let result = call
                .run(|attempt| {
                    assert!(begun.elapsed() < deadline);
                    assert!(attempt.number <= 4);
                    calls.fetch_add(1, SeqCst);
                    async { Err::<(), _>("503") }
                })
                .await;
            assert!(result.is_err() && calls.load(SeqCst) <= 4);
            assert!(begun.elapsed() <= deadline + Duration::from_millis(60));
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_name_is_an_error_at_once_that_names_it_and_nothing_runs_or_is_asked() {
    let service = Scripted::granting();
    let client = service.client();
    let call = client.call("pay ments");
    let never = |_| async { panic!("it ran") };
    let error = call.run::<(), (), _, _>(never).await.unwrap_err();
    assert_eq!((error.attempts, error.is_timeout()), (0, false));
    assert_eq!(
        (error.why.reason, error.why.by),
        (DenialReason::BadName, DeniedBy::Caller)
    );
    assert!(error.why.detail.contains("\"pay ments\""), "{error:?}");

    let supervised = client.supervise("", |_| async { Ok::<_, String>(()) });
    let stopped = supervised.run().await.unwrap_err();
    assert!(stopped.to_string().contains("\"\""), "{stopped}");

    let (found, findings) = std::sync::mpsc::channel();
    let checked = client
        .check("a%", |_| async { true })
        .told(move |finding| found.send(finding.clone()).unwrap());
    assert_eq!(checked.await.runs, 0);
    let told: Vec<_> = findings.iter().collect();
    assert!(matches!(&told[..], [Finding::BadName { why }] if why.contains("\"a%\"")));
    assert_eq!(service.questions(), []);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_cut_off_each_time_is_told_from_one_that_was_never_made() {
    let service = Scripted::granting();
    let call = service.client().call("payments");
    let call = call.deadline(Duration::from_secs(1));
    let hangs = |_| std::future::pending::<Result<(), ()>>();
    let error = call.run(hangs).await.unwrap_err();
    assert!(error.is_timeout());
    assert_eq!(error.why.reason, DenialReason::Deadline);
}
