//! First attempts on pushed state: no question, tallies, failing fast, and what ends it.

use std::{
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    time::Duration,
};

use holdoff_client::{
    Client, DenialReason, DeniedBy, OnDenied, OnNoDecision, Outcome, OutcomeKind, Question, Safety,
    proto,
};
use tokio::time::Instant;

use crate::server::{
    Arrival, Reply, Scripted, answer, deny, go, grant, granted, refuse, sum, wire,
};

const SECOND: Duration = Duration::from_secs(1);

fn idempotent() -> Question {
    Question::new("payments").safety(Safety::Idempotent)
}

/// A service that pushes this, and a client that has heard it.
async fn pushing(update: proto::Update) -> (Scripted, Client) {
    let service = Scripted::granting();
    service.pushes(update);
    let client = service.client();
    assert!(client.connect(SECOND).await);
    tokio::time::sleep(Duration::from_micros(1)).await;
    (service, client)
}

async fn succeed(client: &Client) {
    let call = client.call(idempotent());
    call.run(|_| async { Ok::<_, ()>(()) }).await.unwrap();
}

async fn report(client: &Client, outcome: Outcome) {
    client.acquire("payments").await.unwrap().report(outcome);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_successful_calls_ask_nothing_and_their_tallies_sum_up_exactly() {
    let (service, client) = pushing(go(7)).await;
    for _ in 0..1_000 {
        let call = client.call(idempotent());
        let run = call.run(|attempt| async move {
            assert_eq!((attempt.number, attempt.limit), (1, None));
            assert!(!attempt.is_local && !attempt.is_probe);
            tokio::time::sleep(Duration::from_millis(2)).await;
            Ok::<_, ()>(())
        });
        run.await.unwrap();
    }
    assert!(client.flush(SECOND).await);
    assert_eq!(service.questions(), []);
    let tallies = service.tallies();
    assert!(
        tallies
            .iter()
            .all(|t| (&*t.dependency, t.epoch) == ("payments", 7))
    );
    let expected = proto::Tally {
        first_attempts: 1_000,
        successes: 1_000,
        latency_sum: Some(wire(Duration::from_secs(2))),
        ..Default::default()
    };
    assert_eq!(sum(&tallies), expected);
    let batches = service.reports().len();
    assert!((2..=21).contains(&batches), "{batches} in two seconds");
    let counters = client.counters();
    assert_eq!((counters.asked, counters.pushed_grants), (0, 1_000));
}

#[tokio::test(start_paused = true)]
async fn a_tally_waits_a_tenth_of_a_second_to_a_second_jittered() {
    let mut waits = Vec::new();
    for _ in 0..40 {
        let (service, client) = pushing(go(1)).await;
        let begun = Instant::now();
        succeed(&client).await;
        while service.reports().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        waits.push(begun.elapsed().as_millis());
    }
    assert!(
        waits.iter().all(|ms| (100..=1_003).contains(ms)),
        "{waits:?}"
    );
    let early = waits.iter().filter(|ms| **ms < 550).count();
    assert!((5..=35).contains(&early), "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn each_way_to_end_is_tallied_and_slow_ones_again() {
    let update = proto::Update {
        policy: Some(proto::ClientPolicy {
            slow_after: Some(wire(Duration::from_millis(100))),
            ..Default::default()
        }),
        ..go(2)
    };
    let (service, client) = pushing(update).await;
    for (kind, ms) in [
        (OutcomeKind::Success, 99),
        (OutcomeKind::Success, 100),
        (OutcomeKind::Failure, 10),
        (OutcomeKind::NotSent, 0),
        (OutcomeKind::Timeout, 1_000),
        (OutcomeKind::Throttled, 1),
        (OutcomeKind::Rejected, 1),
        (OutcomeKind::Ignored, 1),
        (OutcomeKind::Cancelled, 1),
    ] {
        let latency = Duration::from_millis(ms);
        report(&client, Outcome::new(kind).latency(latency)).await;
    }
    drop(client.acquire("payments").await.unwrap());
    assert!(client.flush(SECOND).await);
    let expected = proto::Tally {
        first_attempts: 10,
        successes: 2,
        failures: 2,
        timeouts: 1,
        throttled: 1,
        rejected: 1,
        slow: 2,
        ignored: 3,
        latency_sum: Some(wire(Duration::from_millis(1_213))),
        ..Default::default()
    };
    assert_eq!(sum(&service.tallies()), expected);
    assert_eq!(service.questions(), []);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_is_asked_about_comes_after_the_tally_and_is_not_in_it() {
    let (service, client) = pushing(go(5)).await;
    for _ in 0..3 {
        succeed(&client).await;
    }
    let call = client.call(idempotent());
    let run = call.run(|attempt| async move { if attempt.number == 1 { Err(()) } else { Ok(()) } });
    run.await.unwrap();
    let expected = [
        Arrival::Report {
            tallies: 1,
            permits: 0,
        },
        Arrival::Question { attempt: 2 },
    ];
    assert_eq!(service.arrivals(), expected);
    let told = service.questions()[0].previous.clone().unwrap();
    assert_eq!(told.made_under, Some(proto::previous::MadeUnder::Epoch(5)));
    let outcome = told.outcome.unwrap();
    assert_eq!(outcome.kind(), proto::OutcomeKind::Failure);
    assert!(client.flush(SECOND).await);
    let tally = sum(&service.tallies());
    assert_eq!(
        (tally.first_attempts, tally.successes, tally.failures),
        (3, 3, 0)
    );
    assert_eq!(service.reports().len(), 2, "the retry's permit");
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_wants_no_retry_is_tallied_at_once() {
    let (service, client) = pushing(go(5)).await;
    succeed(&client).await;
    let call = client.call("payments");
    let error = call.run(|_| async { Err::<(), _>(()) }).await.unwrap_err();
    assert_eq!(error.why.reason, DenialReason::RetryUnsafe);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let tally = sum(&service.tallies());
    assert_eq!(
        (tally.first_attempts, tally.successes, tally.failures),
        (2, 1, 1)
    );
    assert_eq!(service.questions(), []);
}

#[tokio::test(start_paused = true)]
async fn tallies_go_before_the_permits_of_the_same_batch() {
    let service = Scripted::granting();
    let client = service.client();
    let permit = client.acquire("payments").await.unwrap();
    service.pushes_now(go(1)).await;
    succeed(&client).await;
    permit.report(Outcome::failure());
    assert!(client.flush(SECOND).await);
    let report = &service.reports()[0];
    assert_eq!(report.entries.len(), 2);
    let first = report.entries[0].entry.as_ref().unwrap();
    assert!(matches!(first, proto::report_entry::Entry::Tally(_)));
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_question_tells_a_first_attempt_once_and_an_unsent_one_is_tallied() {
    for (odd, failures) in [
        (Reply::Never, 0),
        (Reply::Fail(tonic::Code::ResourceExhausted), 1),
    ] {
        let (service, client) = pushing(go(5)).await;
        let mut odd = Some(odd);
        service.script(move |_| odd.take().unwrap_or(Reply::Never));
        let permit = client.acquire(idempotent()).await.unwrap();
        drop(permit.retry(Outcome::failure()).await);
        assert!(client.flush(SECOND).await);
        assert_eq!(sum(&service.tallies()).failures, failures);
        assert_eq!(service.questions().len(), 1);
    }
    let (service, client) = pushing(go(5)).await;
    let permit = client.acquire(idempotent()).await.unwrap();
    assert!(!permit.is_local());
    service.kill();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let retry = permit.retry(Outcome::failure()).await.unwrap();
    assert!(retry.is_local());
    service.start();
    assert!(client.flush(Duration::from_secs(20)).await);
    let tally = sum(&service.tallies());
    assert_eq!((tally.first_attempts, tally.failures), (0, 1), "of before");
}

#[tokio::test(start_paused = true)]
async fn ask_is_asked_each_time_and_so_is_what_nobody_pushed() {
    let ask = proto::Update {
        first_attempts: proto::FirstAttempts::Ask.into(),
        ..go(1)
    };
    let (service, client) = pushing(ask).await;
    for _ in 0..3 {
        succeed(&client).await;
    }
    drop(client.acquire("search").await.unwrap());
    assert_eq!(service.questions().len(), 4);
    assert_eq!(client.counters().pushed_grants, 0);
}

#[tokio::test(start_paused = true)]
async fn refuse_fails_fast_without_a_question_and_is_asked_about_when_it_ends() {
    let (service, client) = pushing(refuse(4, Duration::from_secs(10))).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let begun = Instant::now();
    for _ in 0..100 {
        let call = client.call(idempotent());
        let run = call.run(|_| async { panic!("not to be called") as Result<(), ()> });
        let why = run.await.unwrap_err().why;
        assert_eq!(
            (why.reason, why.by),
            (DenialReason::BreakerOpen, DeniedBy::Fleet)
        );
        let left = why.retry_after.unwrap();
        assert!(left > Duration::from_millis(5_990) && left <= Duration::from_secs(6));
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(service.questions(), []);
    assert_eq!(client.counters().pushed_denials, 100);

    let call = client.call(idempotent()).on_denied(OnDenied::Wait);
    call.run(|_| async { Ok::<_, ()>(()) }).await.unwrap();
    let waited = begun.elapsed().as_millis();
    assert!((5_990..=6_001).contains(&waited), "for the end: {waited}");
    assert_eq!(service.questions().len(), 1, "and then asked");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_why() {
    use proto::BreakerState::{Closed, ForcedOpen, HalfOpen, Open};
    for (state, reason) in [
        (Open, DenialReason::BreakerOpen),
        (ForcedOpen, DenialReason::ForcedOpen),
        (Closed, DenialReason::Held),
        (HalfOpen, DenialReason::Held),
    ] {
        let update = proto::Update {
            state: state.into(),
            ..refuse(4, SECOND)
        };
        let (_service, client) = pushing(update).await;
        let denied = client.acquire("payments").await.unwrap_err();
        assert_eq!(denied.reason, reason);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_renewed_lapses_and_is_asked_for() {
    let (service, client) = pushing(go(1)).await;
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_secs(14)).await;
        succeed(&client).await;
        assert_eq!(service.questions().len(), 0);
        service.pushes_now(go(1)).await;
    }
    tokio::time::sleep(Duration::from_secs(15)).await;
    succeed(&client).await;
    assert_eq!(service.questions().len(), 1, "nobody renewed it");
    service.pushes_now(go(1)).await;
    succeed(&client).await;
    assert_eq!(service.questions().len(), 1, "late is better than never");
}

#[tokio::test(start_paused = true)]
async fn an_open_state_that_nobody_refreshes_lapses_after_five_minutes() {
    let (service, client) = pushing(refuse(4, Duration::from_secs(86_400))).await;
    tokio::time::sleep(Duration::from_secs(299)).await;
    client.acquire("payments").await.unwrap_err();
    tokio::time::sleep(SECOND).await;
    drop(client.acquire("payments").await.unwrap());
    assert_eq!(service.questions().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_broken_session_ends_nothing_before_its_time() {
    for (update, goes) in [(go(1), true), (refuse(4, Duration::from_secs(15)), false)] {
        let service = Scripted::granting();
        service.pushes(update);
        // A GO that lapsed is no decision.
        let builder = service.builder().on_no_decision(OnNoDecision::Deny);
        let client = builder.build().unwrap();
        assert!(client.connect(SECOND).await);
        service.kill();
        tokio::time::sleep(Duration::from_secs(14)).await;
        let answer = client.acquire("payments").await;
        assert_eq!(answer.is_ok(), goes);
        tokio::time::sleep(SECOND).await;
        let denied = client.acquire("payments").await.unwrap_err();
        assert_eq!(denied.reason, DenialReason::NoDecision);
    }
}

#[tokio::test(start_paused = true)]
async fn a_next_session_follows_what_is_called() {
    let service = Scripted::granting();
    service.pushes(go(1));
    let client = service.builder().follow(["search"]).build().unwrap();
    succeed(&client).await;
    assert_eq!(service.hellos()[0].subscribe, ["search"]);
    service.kill();
    tokio::time::sleep(Duration::from_millis(1)).await;
    service.start();
    tokio::time::sleep(Duration::from_secs(16)).await;
    succeed(&client).await;
    assert_eq!(service.hellos()[1].subscribe, ["payments", "search"]);
}

#[tokio::test(start_paused = true)]
async fn many_dependencies_are_subscribed_in_messages_that_the_service_takes() {
    let service = Scripted::granting();
    let names: Vec<String> = (0..1_000)
        .map(|n| format!("d{n}-{}", "x".repeat(190)))
        .collect();
    let client = service.builder().follow(names).build().unwrap();
    assert!(client.connect(SECOND).await);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let subscriptions = service.subscriptions();
    let first = service.hellos()[0].subscribe.len();
    let rest: usize = subscriptions.iter().map(|s| s.add.len()).sum();
    assert_eq!(first + rest, 1_000);
    assert!(subscriptions.iter().all(|s| s.add.len() <= 200));
}

#[tokio::test(start_paused = true)]
async fn each_epoch_is_tallied_apart_and_an_attempt_counts_for_the_one_it_began_in() {
    let (service, client) = pushing(go(1)).await;
    let old = client.acquire("payments").await.unwrap();
    succeed(&client).await;
    service.pushes_now(go(2)).await;
    succeed(&client).await;
    old.report(Outcome::success());
    assert!(client.flush(SECOND).await);
    let mut counts: Vec<_> = service
        .tallies()
        .iter()
        .map(|tally| (tally.epoch, tally.first_attempts, tally.successes))
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, [(1, 2, 2), (2, 1, 1)]);
}

#[tokio::test(start_paused = true)]
async fn sums_are_exact_over_reconnects_that_lose_answers() {
    let (service, client) = pushing(go(1)).await;
    let (mut calls, mut away) = (0, 0);
    for round in 0..10 {
        service.takes_reports(round % 2 == 1);
        for _ in 0..7 {
            succeed(&client).await;
            calls += 1;
        }
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        let under_way = client.acquire("payments").await.unwrap();
        service.kill();
        tokio::time::sleep(Duration::from_millis(1)).await;
        under_way.report(Outcome::success());
        (calls, away) = (calls + 1, away + 1);
        succeed(&client).await;
        service.start();
        service.takes_reports(true);
        tokio::time::sleep(Duration::from_secs(6)).await;
    }
    assert!(client.flush(Duration::from_secs(10)).await);
    let reports = service.reports();
    let repeated = reports.iter().enumerate().any(|(at, report)| {
        let before = &reports[..at];
        before.iter().any(|other| other.sequence == report.sequence)
    });
    assert!(repeated, "an answer was lost");
    let tally = sum(&service.tallies());
    let counts = (tally.first_attempts, tally.successes);
    assert_eq!(counts, (calls - away, calls), "alone nothing deposits");
    assert_eq!(client.counters().reports_dropped, 0);
    assert_eq!(client.counters().local_grants, 10, "and are told to nobody");
}

#[tokio::test(start_paused = true)]
async fn a_trip_that_is_pushed_during_a_delay_drops_the_attempt_at_once() {
    let (service, client) = pushing(go(1)).await;
    service.script(|_| {
        answer(proto::Grant {
            confirm: true,
            ..granted(Duration::from_secs(5))
        })
    });
    let calls = AtomicU32::new(0);
    let begun = Instant::now();
    let call = client.call(idempotent()).run(|_| {
        calls.fetch_add(1, SeqCst);
        async { Err::<(), _>("503") }
    });
    let trip = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        service.pushes_now(refuse(2, Duration::from_secs(10))).await;
    };
    let (error, ()) = tokio::join!(call, trip);
    let error = error.unwrap_err();
    assert_eq!(
        (error.last, error.why.reason),
        (Some("503"), DenialReason::BreakerOpen)
    );
    assert_eq!(error.why.by, DeniedBy::Fleet);
    assert_eq!(
        begun.elapsed().as_secs(),
        2,
        "it does not wait for the rest"
    );
    assert_eq!(calls.load(SeqCst), 1);
    assert_eq!(service.questions().len(), 1, "and does not confirm");
    assert!(client.flush(SECOND).await);
    let permits = service
        .reports()
        .into_iter()
        .flat_map(|report| report.entries);
    let kinds: Vec<_> = permits
        .map(|entry| crate::server::kind_of(&entry))
        .collect();
    assert_eq!(
        kinds,
        [proto::OutcomeKind::Cancelled],
        "its place goes back"
    );
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_the_pushed_state_stands_by_needs_no_confirmation() {
    for (renewed, confirmations) in [(Some(go(1)), 0), (Some(go(3)), 1), (None, 1)] {
        let (service, client) = pushing(go(1)).await;
        service.script(|question| match question.confirm.is_empty() {
            true => answer(proto::Grant {
                confirm: true,
                ..granted(Duration::from_secs(20))
            }),
            false => grant(Duration::ZERO),
        });
        let call = client.call(idempotent()).max_attempts(2);
        let run =
            call.run(|attempt| async move { if attempt.number == 1 { Err(()) } else { Ok(()) } });
        let renew = async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            if let Some(update) = renewed {
                service.pushes_now(update).await;
            }
        };
        let (result, ()) = tokio::join!(run, renew);
        result.unwrap();
        assert_eq!(service.questions().len(), 1 + confirmations);
    }
}

#[tokio::test(start_paused = true)]
async fn cl4_hostile_updates_let_no_call_go_and_break_none() {
    let odd = |change: fn(&mut proto::Update)| {
        let mut update = go(1);
        change(&mut update);
        update
    };
    for update in [
        odd(|update| update.first_attempts = 77),
        odd(|update| update.first_attempts = i32::MIN),
        odd(|update| update.state = 99),
        odd(|update| update.valid_for = None),
        odd(|update| {
            update.valid_for = Some(prost_types::Duration {
                seconds: -5,
                nanos: 0,
            })
        }),
        odd(|update| {
            update.valid_for = Some(prost_types::Duration {
                seconds: 0,
                nanos: i32::MAX,
            })
        }),
        odd(|update| update.dependency = String::new()),
        odd(|update| update.dependency = "x".repeat(1 << 16)),
        proto::Update::default(),
    ] {
        let (service, client) = pushing(update).await;
        succeed(&client).await;
        assert_eq!(service.questions().len(), 1);
    }
    let (service, client) = pushing(odd(|update| {
        update.epoch = u64::MAX;
        update.valid_for = Some(prost_types::Duration {
            seconds: 315_576_000_000,
            nanos: 0,
        });
    }))
    .await;
    succeed(&client).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    succeed(&client).await;
    assert_eq!(service.questions().len(), 1, "five minutes are the longest");
}

#[tokio::test(start_paused = true)]
async fn a_hedge_of_an_attempt_on_pushed_state_is_asked_for() {
    let (service, client) = pushing(go(1)).await;
    let original = client.acquire(idempotent()).await.unwrap();
    let hedge = original.hedge().await.unwrap();
    let asked = &service.questions()[0];
    assert!(asked.hedge && asked.previous.is_none() && asked.attempt == 1);
    assert!(!asked.call_id.is_empty());
    hedge.report(Outcome::success());
    original.report(Outcome::cancelled());
    assert!(client.flush(SECOND).await);
    assert_eq!(sum(&service.tallies()).ignored, 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_never_waits_leaves_others_their_turn() {
    let (_service, client) = pushing(go(1)).await;
    let other = tokio::spawn(async {});
    for _ in 0..1_000 {
        succeed(&client).await;
    }
    assert!(other.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_denied_retry_of_a_first_attempt_on_pushed_state_is_told_once() {
    let (service, client) = pushing(go(1)).await;
    service.script(|_| deny(proto::DenialReason::BudgetExhausted, None));
    let call = client.call(idempotent());
    call.run(|_| async { Err::<(), _>(()) }).await.unwrap_err();
    assert!(client.flush(SECOND).await);
    assert_eq!(service.questions().len(), 1);
    assert_eq!(service.tallies(), []);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_caller_never_uses_a_grant_again_that_was_given_back() {
    let (service, client) = pushing(go(1)).await;
    service.script(|_| grant(Duration::from_secs(5)));
    let trip = async {
        tokio::time::sleep(SECOND).await;
        service.pushes_now(refuse(2, SECOND)).await;
    };
    let call = client.call(idempotent()).on_denied(OnDenied::Wait);
    let (result, ()) = tokio::join!(call.run(|_| async { Err::<(), _>(()) }), trip);
    assert_eq!(result.unwrap_err().why.reason, DenialReason::BreakerOpen);
    assert_eq!(service.questions().len(), 1, "a retry ends the call");

    service.pushes_now(refuse(3, Duration::ZERO)).await;
    let trip = async {
        tokio::time::sleep(SECOND).await;
        service.pushes_now(refuse(4, SECOND)).await;
    };
    let call = client.call(idempotent()).on_denied(OnDenied::Wait);
    let (result, ()) = tokio::join!(call.run(|_| async { Ok::<_, ()>(()) }), trip);
    result.unwrap();
    let [_, first, again] = &service.questions()[..] else {
        panic!("{:?}", service.questions());
    };
    assert_eq!((first.attempt, again.attempt), (1, 1));
    assert_ne!(first.call_id, again.call_id);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_the_dependency_asked_for_reaches_the_fleet_though_no_retry_is_wanted() {
    let (service, client) = pushing(go(5)).await;
    service.script(|question| {
        assert_eq!(question.safety(), proto::Safety::Unsafe);
        deny(proto::DenialReason::RetryUnsafe, None)
    });
    let throttled = Outcome::new(OutcomeKind::Throttled).pushback(Duration::from_secs(20));
    succeed(&client).await;
    report(&client, throttled.clone()).await;
    assert!(client.flush(SECOND).await);
    let told = service.questions()[0].previous.clone().unwrap();
    assert_eq!(told.made_under, Some(proto::previous::MadeUnder::Epoch(5)));
    let outcome = told.outcome.unwrap();
    assert_eq!(outcome.pushback, Some(wire(Duration::from_secs(20))));
    assert_eq!(service.arrivals().len(), 2, "the tally before it");
    let tally = sum(&service.tallies());
    assert_eq!((tally.first_attempts, tally.throttled), (1, 0));

    let permit = client.acquire("payments").await.unwrap();
    service.kill();
    tokio::time::sleep(Duration::from_millis(1)).await;
    permit.report(throttled);
    service.start();
    assert!(client.flush(Duration::from_secs(20)).await);
    assert_eq!(sum(&service.tallies()).throttled, 1, "better than nothing");
}

/// A state that lets first attempts go in a fleet of so many.
fn go_in_fleet(epoch: u64, known_clients: u32) -> proto::Update {
    proto::Update {
        offline_allowance: Some(proto::OfflineAllowance {
            retries_per_second: 0.0,
            known_clients,
        }),
        ..go(epoch)
    }
}

/// Calls that all fail now, on a state that is there; how each ends, and when its retry began.
fn fail_together(client: &Client, calls: usize) -> tokio::task::JoinSet<Ended> {
    let mut failing = tokio::task::JoinSet::new();
    for _ in 0..calls {
        let call = client.call(idempotent());
        failing.spawn(async move {
            let begun = Instant::now();
            let run = call.run(|attempt| async move {
                match attempt.number {
                    1 => Err(()),
                    _ => Ok(begun.elapsed()),
                }
            });
            run.await.map_err(|error| error.why)
        });
    }
    failing
}

type Ended = Result<Duration, holdoff_client::Denied>;

#[tokio::test(start_paused = true)]
async fn a_huge_fleet_asks_within_a_second_and_its_retries_are_no_later_for_it() {
    for (clients, at_once) in [(5_000, 200), (100_000, 0)] {
        let (service, client) = pushing(go_in_fleet(7, clients)).await;
        service.script(|_| grant(Duration::from_millis(1_200)));
        let failing = fail_together(&client, 200);
        let mut asked = Vec::new();
        for _ in 0..=10 {
            tokio::time::sleep(Duration::from_micros(100)).await;
            asked.push(service.questions().len());
            tokio::time::sleep(Duration::from_millis(99)).await;
        }
        assert!(asked[0] <= at_once + 2, "{asked:?}");
        if at_once == 0 {
            assert!((70..=130).contains(&asked[5]), "{asked:?}");
        }
        assert_eq!(asked[10], 200);
        for began in failing.join_all().await {
            let ms = began.unwrap().as_millis();
            assert!((1_200..=1_204).contains(&ms), "{ms}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_trip_answers_the_questions_that_a_huge_fleet_holds_back() {
    let (service, client) = pushing(go_in_fleet(7, 100_000)).await;
    service.script(|_| deny(proto::DenialReason::BudgetExhausted, None));
    let (valid, failing) = (Duration::from_secs(5), fail_together(&client, 100));
    tokio::time::sleep(Duration::from_millis(300)).await;
    // The same epoch answers nothing, a later one does.
    service.pushes_now(refuse(7, valid)).await;
    let asked = service.questions().len();
    assert!((10..60).contains(&asked), "{asked}");
    service.pushes_now(refuse(8, valid)).await;
    let mut denied = 0;
    for ended in failing.join_all().await {
        let why = ended.unwrap_err();
        if why.reason != DenialReason::BudgetExhausted {
            let retry_after = why.retry_after.unwrap();
            let said = (why.reason, why.by);
            assert_eq!(said, (DenialReason::BreakerOpen, DeniedBy::Fleet));
            assert!(retry_after <= valid && retry_after > valid - SECOND / 10);
            denied += 1;
        }
    }
    assert_eq!(denied + service.questions().len(), 100);
    // Those of the very millisecond of the push.
    let more = service.questions().len() - asked;
    assert!(more <= 5, "{more} after it");
    tokio::time::sleep(SECOND + Duration::from_millis(2)).await;
    let tally = sum(&service.tallies());
    let counts = (tally.first_attempts as usize, tally.failures as usize);
    assert_eq!(counts, (denied, denied));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_that_a_trip_answered_tells_its_failure_once_with_the_next_question() {
    let (service, client) = pushing(go_in_fleet(7, 4_000_000_000)).await;
    let calling = tokio::spawn(async move {
        let call = client.call(idempotent()).on_denied(OnDenied::Wait);
        let run = call.run(|attempt| async move {
            match attempt.number {
                1 => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    Err(())
                }
                _ => Ok(()),
            }
        });
        run.await.unwrap();
        assert!(client.flush(SECOND).await);
    });
    tokio::time::sleep(Duration::from_millis(5)).await;
    service.pushes_now(refuse(8, SECOND)).await;
    calling.await.unwrap();
    let told = service.questions();
    assert_eq!(told.len(), 1);
    let made_under = told[0].previous.clone().unwrap().made_under;
    assert_eq!(made_under, Some(proto::previous::MadeUnder::Epoch(7)));
    assert_eq!(service.tallies(), []);
}

#[tokio::test(start_paused = true)]
async fn a_huge_fleet_holds_nothing_back_while_the_service_is_away() {
    let update = proto::Update {
        policy: Some(proto::ClientPolicy {
            max_attempts: 3,
            jitter: proto::Jitter::None.into(),
            initial_delay: Some(wire(Duration::from_millis(20))),
            budget_ratio: 10.0,
            breaker_off: true,
            ..Default::default()
        }),
        ..go_in_fleet(7, 100_000)
    };
    let (service, client) = pushing(update).await;
    service.kill();
    tokio::time::sleep(Duration::from_millis(1)).await;
    for began in fail_together(&client, 20).join_all().await {
        let ms = began.unwrap().as_millis();
        assert!((20..=22).contains(&ms), "{ms}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_huge_fleet_holds_no_question_beyond_its_callers_time() {
    let (service, client) = pushing(go_in_fleet(7, 100_000)).await;
    let begun = Instant::now();
    for _ in 0..50 {
        let question = idempotent().deadline(Duration::from_millis(50));
        let permit = client.acquire(question).await.unwrap();
        drop(permit.retry(Outcome::failure()).await);
    }
    assert!(begun.elapsed() <= 50 * Duration::from_millis(51));
    assert!(
        service.questions().len() >= 45,
        "{}",
        service.questions().len()
    );
}

#[tokio::test(start_paused = true)]
async fn connecting_waits_for_the_state_of_what_is_followed_but_not_for_long() {
    let service = Scripted::granting();
    service.pushes(go(1));
    let client = service.builder().follow(["payments"]).build().unwrap();
    assert!(client.connect(SECOND).await);
    succeed(&client).await;
    assert_eq!(client.counters().asked, 0);

    let client = service.builder().follow(["unheard"]).build().unwrap();
    let begun = Instant::now();
    assert!(client.connect(SECOND).await);
    assert_eq!(begun.elapsed().as_millis(), 50);
}

#[tokio::test(start_paused = true)]
async fn what_is_called_no_longer_is_left_and_followed_again_when_it_is_called() {
    let service = Scripted::granting();
    service.pushes(go(1));
    let client = service.builder().follow(["search"]).build().unwrap();
    succeed(&client).await;
    tokio::time::sleep(Duration::from_secs(599)).await;
    assert_eq!(service.subscriptions(), []);
    tokio::time::sleep(Duration::from_secs(62)).await;
    let left = service.subscriptions().pop().unwrap();
    assert_eq!((left.remove, left.add), (vec!["payments".into()], vec![]));

    for _ in 0..2 {
        succeed(&client).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(service.subscriptions().len(), 2);
    }
    let again = service.subscriptions().pop().unwrap();
    assert_eq!((again.remove, again.add), (vec![], vec!["payments".into()]));
}

/// Real threads, and therefore real time.
#[tokio::test]
async fn sums_are_exact_over_many_threads() {
    const THREADS: u32 = 4;
    const CALLS: u32 = 2_000;
    let (service, client) = pushing(go(1)).await;
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let client = client.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread();
                let runtime = { runtime }.enable_all().build().unwrap();
                runtime.block_on(async {
                    for number in 0..CALLS {
                        let outcome = match number % 10 {
                            0 => Outcome::failure(),
                            _ => Outcome::success(),
                        };
                        report(&client, outcome).await;
                    }
                });
            })
        })
        .collect();
    while !threads.iter().all(std::thread::JoinHandle::is_finished) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(client.flush(Duration::from_secs(10)).await);
    let tally = sum(&service.tallies());
    let all = THREADS * CALLS;
    assert_eq!(
        (tally.first_attempts, tally.successes, tally.failures),
        (all, all / 10 * 9, all / 10)
    );
    assert_eq!(client.counters().reports_dropped, 0);
}
