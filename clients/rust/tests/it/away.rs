//! The service is down, silent or ill, and calls go on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use holdoff_client::{
    Client, DenialReason, DeniedBy, OnDenied, OnNoDecision, Outcome, Question, Safety, proto,
};
use tokio::time::Instant;
use tonic::Code;

use crate::server::{Reply, Scripted, deny, go, grant};

const TIMEOUT: Duration = Duration::from_millis(50);

fn idempotent() -> Question {
    Question::new("payments").safety(Safety::Idempotent)
}

/// How long a question took, and whether it was decided here.
async fn ask(client: &Client) -> (Duration, bool) {
    let begun = Instant::now();
    let permit = client.acquire("payments").await.unwrap();
    let is_local = permit.is_local();
    permit.report(Outcome::success());
    (begun.elapsed(), is_local)
}

#[tokio::test(start_paused = true)]
async fn cl2_a_service_absent_from_the_start_costs_nothing() {
    let service = Scripted::granting();
    service.kill();
    let client = service.client();
    for _ in 0..1_000 {
        assert_eq!(ask(&client).await, (Duration::ZERO, true));
    }
    assert_eq!(client.counters().local_grants, 1_000);
}

#[tokio::test(start_paused = true)]
async fn cl2_a_silent_service_costs_three_calls_fifty_milliseconds_and_then_none() {
    let service = Scripted::new(|_| Reply::Never);
    let client = service.client();
    let mut slow = 0;
    for _ in 0..1_000 {
        let (took, is_local) = ask(&client).await;
        assert!(is_local && took <= TIMEOUT, "{took:?}");
        slow += u32::from(!took.is_zero());
    }
    assert_eq!(slow, 3);
}

#[tokio::test(start_paused = true)]
async fn cl2_a_service_that_stays_silent_is_tried_less_and_less() {
    let service = Scripted::new(|_| Reply::Never);
    let client = service.client();
    let mut slow = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(300) {
        let at = begun.elapsed().as_secs();
        if !ask(&client).await.0.is_zero() {
            slow.push(at);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Three, one early trial, then after 2 to 10, 4 to 20, and 6 to 30 s each time.
    assert!((9..=53).contains(&slow.len()), "{slow:?}");
    let first_minute = slow.iter().filter(|at| **at < 60).count();
    assert!(first_minute <= 14, "{slow:?}");
}

#[tokio::test(start_paused = true)]
async fn cl2_all_that_wait_for_a_silent_service_are_let_go_together() {
    let service = Scripted::new(|_| Reply::Never);
    let client = service.client();
    assert!(client.connect(Duration::from_secs(1)).await);
    let took = burst(&client, 1_000).await;
    assert!(took.iter().all(|took| *took <= TIMEOUT));
    assert_eq!(ask(&client).await, (Duration::ZERO, true));
}

/// How long each of many questions took that were asked at once and decided here.
async fn burst(client: &Client, size: usize) -> Vec<Duration> {
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..size {
        let client = client.clone();
        asking.spawn(async move { ask(&client).await });
    }
    let asked = asking.join_all().await;
    assert!(asked.iter().all(|(_, is_local)| *is_local));
    asked.into_iter().map(|(took, _)| took).collect()
}

#[tokio::test(start_paused = true)]
async fn cl2_of_a_first_burst_three_wait_for_a_service_that_was_not_heard_of() {
    let service = Scripted::new(|_| Reply::Never);
    let client = service.client();
    let took = burst(&client, 1_000).await;
    let waited = took.iter().filter(|took| !took.is_zero()).count();
    assert_eq!(waited, 3, "they wait, and the others not at all");
    service.script(|_| grant(Duration::ZERO));
    let begun = Instant::now();
    while ask(&client).await.1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let away = begun.elapsed();
    assert!(away < Duration::from_millis(5_100), "it is found: {away:?}");
}

/// At whatever point of the exchange.
#[tokio::test(start_paused = true)]
async fn cl5_an_answer_that_came_while_the_process_stood_still_is_not_late() {
    let service = Scripted::granting();
    let client = service.client();
    assert!(client.connect(Duration::from_secs(1)).await);
    for turns in 0..100 {
        let asking = client.clone();
        let asked = tokio::spawn(async move { ask(&asking).await.1 });
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        tokio::time::advance(Duration::from_millis(200)).await;
        assert!(!asked.await.unwrap(), "after {turns} turns");
    }
}

#[tokio::test(start_paused = true)]
async fn cl2_a_service_that_never_takes_a_connection_costs_three_calls_in_all() {
    let dials = Arc::new(AtomicUsize::new(0));
    let dialled = Arc::clone(&dials);
    let client = Client::builder()
        .endpoints(["http://127.0.0.1:1"])
        .dial_with(move |_| {
            dialled.fetch_add(1, Relaxed);
            std::future::pending()
        })
        .build()
        .unwrap();
    let mut slow = 0;
    for _ in 0..6_000 {
        let (took, is_local) = ask(&client).await;
        assert!(is_local && took <= TIMEOUT, "{took:?}");
        slow += usize::from(!took.is_zero());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(slow, 3);
    let dials = dials.load(Relaxed);
    assert!(
        (8..=31).contains(&dials),
        "it is looked for all the time: {dials}"
    );
}

#[tokio::test(start_paused = true)]
async fn cl5_clients_that_are_opened_and_closed_leave_no_task_behind() {
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let mut before = None;
    for service in [Scripted::granting(), Scripted::new(|_| Reply::Never), {
        let killed = Scripted::granting();
        killed.kill();
        killed
    }] {
        for round in 0..100 {
            let client = service.client();
            ask(&client).await;
            drop(client);
            if round == 0 {
                tokio::time::sleep(Duration::from_secs(10)).await;
                before = Some(tasks());
            }
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(Some(tasks()), before);
    }
}

#[tokio::test(start_paused = true)]
async fn l2_it_comes_back_by_itself_when_the_service_answers_again() {
    let service = Scripted::new(|_| Reply::Never);
    let client = service.client();
    for _ in 0..5 {
        ask(&client).await;
    }
    service.script(|_| grant(Duration::ZERO));
    let begun = Instant::now();
    while ask(&client).await.1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let away = begun.elapsed();
    assert!(
        away > Duration::from_millis(900) && away < Duration::from_millis(5_100),
        "{away:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn l2_after_a_long_outage_a_client_is_back_within_five_seconds_too() {
    let service = Scripted::granting();
    let client = service.client();
    ask(&client).await;
    service.kill();
    for _ in 0..120 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(ask(&client).await, (Duration::ZERO, true));
    }
    service.start();
    let begun = Instant::now();
    while ask(&client).await.1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(
        begun.elapsed() < Duration::from_millis(5_100),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_service_is_left_for_the_next_endpoint() {
    let (first, second) = (Scripted::new(|_| Reply::Never), Scripted::granting());
    let client = crate::server::failover([&first, &second]);
    for _ in 0..3 {
        assert_eq!(ask(&client).await, (TIMEOUT, true));
    }
    let begun = Instant::now();
    while ask(&client).await.1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(
        begun.elapsed() < Duration::from_millis(5_100),
        "{:?}",
        begun.elapsed()
    );
    assert!(!second.questions().is_empty());
}

#[tokio::test(start_paused = true)]
async fn b31g_a_service_killed_midway_is_noticed_at_once_and_its_callers_go_on_alone() {
    let service = Scripted::new(|question| match question.attempt {
        1 => grant(Duration::ZERO),
        _ => Reply::Never,
    });
    let client = service.client();
    let permit = client.acquire(idempotent()).await.unwrap();
    assert!(!permit.is_local());
    let begun = Instant::now();
    let killer = service.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(10)).await;
        killer.kill();
    });
    let retry = permit.retry(Outcome::failure()).await.unwrap();
    assert!(retry.is_local());
    assert_eq!(begun.elapsed(), Duration::from_millis(10));
    assert!(
        retry.delay() <= Duration::from_millis(100),
        "the policy's first ceiling"
    );
    assert_eq!(ask(&client).await, (Duration::ZERO, true));
}

#[tokio::test(start_paused = true)]
async fn clients_that_lose_the_service_together_come_back_spread() {
    let service = Scripted::granting();
    let clients: Vec<Client> = (0..40).map(|_| service.client()).collect();
    for client in &clients {
        assert!(!ask(client).await.1);
    }
    service.kill();
    tokio::time::sleep(Duration::from_millis(1)).await;
    service.start();
    let begun = Instant::now();
    let mut waiting = tokio::task::JoinSet::new();
    for client in clients {
        waiting.spawn(async move {
            while ask(&client).await.1 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            begun.elapsed()
        });
    }
    let mut returns = Vec::new();
    while let Some(at) = waiting.join_next().await {
        returns.push(at.unwrap());
    }
    let within = |from, to| {
        let range = Duration::from_millis(from)..Duration::from_millis(to);
        returns
            .iter()
            .filter(|at| range.contains::<Duration>(at))
            .count()
    };
    assert!(within(0, 5_200) == 40, "{returns:?}");
    for fifth in 0..5 {
        assert!(
            within(fifth * 1_000, fifth * 1_000 + 1_000) < 24,
            "{returns:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn cl2_an_error_of_the_service_is_no_decision_and_is_not_asked_for_long() {
    for code in [
        Code::ResourceExhausted,
        Code::Unavailable,
        Code::Internal,
        Code::Unimplemented,
        Code::Unknown,
    ] {
        let service = Scripted::new(move |_| Reply::Fail(code));
        let client = service.client();
        for _ in 0..100 {
            assert!(ask(&client).await.1, "{code:?}");
        }
        assert_eq!(service.questions().len(), 3, "{code:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_question_is_decided_here_and_does_not_count_against_the_service() {
    for code in [
        Code::InvalidArgument,
        Code::NotFound,
        Code::PermissionDenied,
    ] {
        let service = Scripted::new(move |_| Reply::Fail(code));
        let client = service.client();
        for _ in 0..100 {
            assert!(ask(&client).await.1);
        }
        assert_eq!(service.questions().len(), 100, "{code:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_decision_allow_allows_and_deny_denies() {
    for (setting, is_granted) in [(OnNoDecision::Allow, true), (OnNoDecision::Deny, false)] {
        let service = Scripted::granting();
        service.kill();
        let client = service.builder().on_no_decision(setting).build().unwrap();
        for _ in 0..20 {
            let answer = client.acquire("payments").await;
            match answer {
                Ok(permit) => permit.report(Outcome::failure()),
                Err(denied) => {
                    assert_eq!(denied.reason, DenialReason::NoDecision);
                    assert!(!is_granted);
                    continue;
                }
            }
            assert!(is_granted);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn alone_a_dependency_that_fails_is_no_longer_called() {
    let service = Scripted::granting();
    service.kill();
    let client = service.client();
    let mut calls = 0;
    let denied = loop {
        match client.acquire("payments").await {
            Ok(permit) => permit.report(Outcome::failure()),
            Err(denied) => break denied,
        }
        calls += 1;
        assert!(calls < 100);
    };
    assert_eq!(denied.reason, DenialReason::BreakerOpen);
    assert_eq!(denied.by, DeniedBy::Local);
    assert!(denied.retry_after.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_of_the_fleet_is_kept_to_its_own_end_when_the_service_goes() {
    let open_for = Duration::from_secs(30);
    let service = Scripted::new(move |_| deny(proto::DenialReason::BreakerOpen, Some(open_for)));
    let client = service.client();
    client.acquire("payments").await.unwrap_err();
    service.kill();
    tokio::time::sleep(Duration::from_secs(29)).await;
    let denied = client.acquire("payments").await.unwrap_err();
    assert_eq!(
        (denied.reason, denied.by),
        (DenialReason::BreakerOpen, DeniedBy::Local)
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(client.acquire("payments").await.unwrap().is_local());
}

#[tokio::test(start_paused = true)]
async fn a_call_begun_alone_tells_the_service_of_its_first_attempt_once_it_is_back() {
    let service = Scripted::granting();
    service.kill();
    let client = service.client();
    let permit = client.acquire(idempotent()).await.unwrap();
    assert!(permit.is_local());
    service.start();
    tokio::time::sleep(Duration::from_secs(6)).await;
    let retry = permit.retry(Outcome::failure()).await.unwrap();
    assert!(!retry.is_local());
    let told = service.questions()[0].previous.clone().unwrap();
    assert_eq!(told.made_under, Some(proto::previous::MadeUnder::Epoch(0)));
}

/// What each question says the attempt before it was made under; `None`: nothing, or a permit.
fn epochs_told(service: &Scripted) -> Vec<(u32, Option<u64>)> {
    let told = |question: &proto::AcquireRequest| {
        let previous = question.previous.as_ref();
        match previous.and_then(|previous| previous.made_under.as_ref()) {
            Some(proto::previous::MadeUnder::Epoch(epoch)) => Some(*epoch),
            Some(proto::previous::MadeUnder::Permit(_)) | None => None,
        }
    };
    let questions = service.questions();
    let told = questions.iter().map(|one| (one.attempt, told(one)));
    told.collect()
}

/// A client that has heard of epoch 7, and that first attempts are asked for.
async fn asking_in_epoch_7(service: &Scripted) -> Client {
    service.pushes(asking(7));
    let client = service.client();
    assert!(client.connect(Duration::from_secs(1)).await);
    tokio::time::sleep(Duration::from_millis(1)).await;
    client
}

fn asking(epoch: u64) -> proto::Update {
    proto::Update {
        first_attempts: proto::FirstAttempts::Ask.into(),
        ..go(epoch)
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_went_on_alone_is_with_the_fleet_again_at_its_next_question() {
    let mut silences = 1;
    let service = Scripted::new(move |question| match question.attempt {
        2 if silences > 0 => {
            silences -= 1;
            Reply::Never
        }
        _ => grant(Duration::ZERO),
    });
    let client = asking_in_epoch_7(&service).await;
    let mut are_local = Vec::new();
    let call = client.call(idempotent());
    let run = call.run(|attempt| {
        are_local.push(attempt.is_local);
        async move { if attempt.number < 5 { Err(()) } else { Ok(()) } }
    });
    // Own attempts end at three, so that the fifth is the fleet's.
    run.await.unwrap();
    assert_eq!(are_local, [false, true, false, false, false]);
    let told = [(1, None), (2, None), (3, Some(7)), (4, None), (5, None)];
    assert_eq!(epochs_told(&service), told);
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_that_was_alone_for_any_number_of_restarts_comes_back() {
    let service = Scripted::granting();
    service.kill();
    let client = service.client();
    let (back, mut starts) = (service.clone(), 0);
    let mut were_local = Vec::new();
    let supervised = client.supervise("payments", |attempt| {
        starts += 1;
        were_local.push(attempt.is_local);
        if starts == 3 {
            back.start();
        }
        let is_done = starts > 3 && !attempt.is_local;
        async move {
            // Longer than a client takes to come back.
            tokio::time::sleep(Duration::from_secs(6)).await;
            if is_done { Ok(()) } else { Err(()) }
        }
    });
    supervised.run().await.unwrap();
    assert_eq!(were_local, [true, true, true, false]);
    assert_eq!(epochs_told(&service), [(4, Some(0))]);
}

#[tokio::test(start_paused = true)]
async fn what_failed_before_a_transition_is_told_under_the_epoch_of_its_start_however_often() {
    let mut denials = 2;
    let service = Scripted::new(move |question| match question.attempt {
        1 => Reply::Never,
        _ if denials > 0 => {
            denials -= 1;
            let wait = Some(Duration::from_secs(1));
            deny(proto::DenialReason::BreakerOpen, wait)
        }
        _ => grant(Duration::ZERO),
    });
    let client = asking_in_epoch_7(&service).await;
    let pushing = service.clone();
    tokio::spawn(async move {
        for epoch in 8..=10 {
            tokio::time::sleep(Duration::from_millis(700)).await;
            pushing.pushes_now(asking(epoch)).await;
        }
    });
    let call = client.call(idempotent()).on_denied(OnDenied::Wait);
    let run = call.run(|attempt| async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if attempt.number < 2 { Err(()) } else { Ok(()) }
    });
    run.await.unwrap();
    let told = [(1, None), (2, Some(7)), (2, Some(7)), (2, Some(7))];
    assert_eq!(epochs_told(&service), told);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_decided_alone_belongs_to_the_epoch_in_which_its_delay_ended() {
    let service = Scripted::new(|_| Reply::Never);
    let client = asking_in_epoch_7(&service).await;
    let permit = client.acquire(idempotent()).await.unwrap();
    let retry = permit.retry(Outcome::failure()).await.unwrap();
    service.pushes_now(asking(8)).await;
    let retry = retry.wait().await.unwrap();
    service.pushes_now(asking(9)).await;
    drop(retry.retry(Outcome::failure()).await);
    let told = [(1, None), (2, Some(7)), (3, Some(8))];
    assert_eq!(epochs_told(&service), told);
}

#[tokio::test(start_paused = true)]
async fn a_later_endpoint_is_used_only_while_the_first_cannot_be_reached() {
    let (first, second) = (Scripted::granting(), Scripted::granting());
    first.kill();
    let client = crate::server::failover([&first, &second]);
    assert!(!ask(&client).await.1);
    assert_eq!(second.questions().len(), 1);

    first.start();
    tokio::time::sleep(Duration::from_secs(121)).await;
    assert!(!ask(&client).await.1);
    assert_eq!(
        (first.questions().len(), second.questions().len()),
        (1, 1),
        "it is home"
    );
    assert_eq!(client.counters().no_decision, 0);
}
