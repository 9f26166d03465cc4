//! What a fleet shares, over the wire: one trip that all are told, one hold, one plan of
//! checks, one recovery, and one bad instance that is refused alone.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use holdoff_client::proto::{
    BreakerState, CheckResult, CheckVerdict, ClearHoldRequest, Denial, DenialReason, Event,
    EventKind, FirstAttempts, Hello, ListEventsRequest, Outcome, OutcomeKind, OverrideKind,
    PlanCheckRequest, PlanCheckResponse, ReportRequest, Update, acquire_response::Verdict,
    plan_check_response::Plan, session_request::Message as Asked,
};
use holdoff_client::{Finding, Verdict as Health};
use tokio::sync::mpsc;
use tonic::{Code, transport::Endpoint};

use crate::{harness::*, overrides::forced, sessions::Session};

use OutcomeKind::{Failure, Success, Throttled};

const SESSIONS: usize = 1_000;
const CONNECTIONS: usize = 20;
/// What the contract says, and how much slower a debug build on a busy machine may be.
const PUSHED_WITHIN: Duration = Duration::from_millis(250);
const GENEROSITY: u32 = 20;

/// A session of this instance, which follows `d`.
async fn follow(client: &mut Client, instance: &str) -> Session {
    let session = Session::open(client).await;
    session.send(
        1,
        Asked::Hello(Hello {
            caller: caller(instance),
            subscribe: vec!["d".into()],
            ..Hello::default()
        }),
    );
    session
}

/// The first update of `d` that is as wanted.
async fn until(session: &mut Session, wanted: impl Fn(&Update) -> bool) -> Update {
    let found = async {
        loop {
            let update = session.update("d").await;
            if wanted(&update) {
                return update;
            }
        }
    };
    tokio::time::timeout(PATIENCE, found)
        .await
        .expect("it comes")
}

fn refuses(update: &Update) -> bool {
    update.first_attempts() == FirstAttempts::Refuse
}

fn goes(update: &Update) -> bool {
    update.first_attempts() == FirstAttempts::Go
}

/// What happened, as all are told when it is durable.
pub async fn event(client: &mut Client, kind: EventKind) -> Event {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let request = ListEventsRequest {
            dependency: "d".into(),
            page_size: 1_000,
            ..Default::default()
        };
        let listed = client.operates.list_events(request).await.unwrap();
        let mut events = listed.into_inner().events.into_iter();
        if let Some(event) = events.find(|event| event.kind() == kind) {
            return event;
        }
    }
    panic!("no {kind:?}");
}

#[tokio::test]
async fn a_thousand_sessions_are_told_of_a_trip() {
    let policies = policy_of_d("{breaker: {window: 10, min_calls: 5, open_for: 10s, spread: 2s}}");
    let service = Service::start_with(Setup {
        policies: &policies,
        workers: 2,
        ..Setup::default()
    })
    .await;
    let (ready, mut are_ready) = mpsc::channel(SESSIONS);
    let mut told = tokio::task::JoinSet::new();
    for connection in 0..CONNECTIONS {
        let mut client = Client::connect(&service.urls[connection % 2]).await;
        for n in 0..SESSIONS / CONNECTIONS {
            let mut session = follow(&mut client, &format!("i-{connection}-{n}")).await;
            let ready = ready.clone();
            told.spawn(async move {
                until(&mut session, goes).await;
                ready.send(()).await.unwrap();
                let update = until(&mut session, refuses).await;
                (Instant::now(), update)
            });
        }
    }
    for _ in 0..SESSIONS {
        are_ready.recv().await.unwrap();
    }
    let mut client = service.client().await;
    for _ in 0..4 {
        client.call("d", Failure).await;
    }
    let last = client.granted(first("d")).await.permit;
    let begun = Instant::now();
    client.reported(&last, Failure).await;
    let mut times = Vec::new();
    let mut valid = Vec::new();
    while let Some(update) = told.join_next().await {
        let (at, update) = update.unwrap();
        assert_eq!(update.state(), BreakerState::Open);
        times.push(at.saturating_duration_since(begun));
        valid.push(ms(update.valid_for));
    }
    times.sort_unstable();
    println!(
        "pushed to {SESSIONS} sessions: the first after {:?}, half after {:?}, the last after {:?}",
        times[0],
        times[SESSIONS / 2],
        times[SESSIONS - 1]
    );
    assert!(times[SESSIONS - 1] <= PUSHED_WITHIN * GENEROSITY);
    // They ask again spread over `breaker.spread`, and never before the time.
    valid.sort_by(f64::total_cmp);
    assert!(
        valid[0] >= 10_000.0 && valid[SESSIONS - 1] <= 12_000.0,
        "{valid:?}"
    );
    assert!(
        valid[SESSIONS * 9 / 10] - valid[SESSIONS / 10] > 1_400.0,
        "not spread"
    );
}

#[tokio::test]
async fn a_session_that_never_reads_is_told_the_newest_state_and_not_its_history() {
    const CHANGES: usize = 1_000;
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    // A small window, so that what waits does so in the service.
    let endpoint = Endpoint::from_shared(service.urls[0].clone()).unwrap();
    let channel = endpoint.initial_stream_window_size(1_024).connect().await;
    let mut slow = Client {
        asks: holdoff_client::proto::coordinator_service_client::CoordinatorServiceClient::new(
            channel.unwrap(),
        ),
        operates: client.operates.clone(),
    };
    let mut session = follow(&mut slow, "slow").await;
    until(&mut session, goes).await;
    for change in 0..CHANGES {
        if change % 2 == 0 {
            client
                .force(forced("d", OverrideKind::ForceOpen))
                .await
                .unwrap();
        } else {
            client.release("d").await.unwrap();
        }
    }
    let newest = client.get("d").await.epoch;
    let (mut read, mut epoch) = (0, 0);
    while epoch < newest {
        epoch = session.update("d").await.epoch;
        read += 1;
    }
    println!("{CHANGES} changes, {read} updates for a session that did not read meanwhile");
    assert!(read <= 60, "{read} updates");
}

#[tokio::test]
async fn a_hold_that_one_client_was_told_binds_all_and_ends_spread() {
    const CALLERS: usize = 100;
    let service = Service::start(&policy_of_d(
        "{pushback: {scope: dependency, max: 30s, spread: 4s}}",
    ))
    .await;
    let mut client = service.client().await;
    let mut session = follow(&mut client, "follower").await;
    until(&mut session, goes).await;
    let throttled = |seconds_| Outcome {
        pushback: Some(seconds(seconds_)),
        ..outcome(Throttled)
    };
    let permit = client.granted(first_of("d", "told")).await.permit;
    let other = client.granted(first_of("d", "told-too-much")).await.permit;
    client.report(&permit, throttled(20)).await;
    assert_eq!(ms(client.get("d").await.held_for), 20_000.0);
    let update = until(&mut session, refuses).await;
    assert_eq!(
        update.state(),
        BreakerState::Closed,
        "a hold is no state of the breaker"
    );
    // Nobody passes; each is told a time of its own.
    let mut times = Vec::new();
    for n in 0..CALLERS {
        let mut asked = first_of("d", &format!("i-{n}"));
        asked.time_left = Some(seconds(2));
        let denial = client.denied(asked).await;
        assert_eq!(denial.reason(), DenialReason::Held);
        times.push(ms(denial.retry_after));
    }
    times.sort_by(f64::total_cmp);
    assert!(
        times[0] >= 20_000.0 && times[CALLERS - 1] <= 24_000.0,
        "{times:?}"
    );
    assert!(times[CALLERS - 1] - times[0] > 3_000.0, "not spread");
    // Those who can wait are given places, and no tenth of a second has many of them.
    let mut places = Vec::new();
    for n in 0..CALLERS {
        match client.ask(first_of("d", &format!("p-{n}"))).await.verdict {
            Some(Verdict::Grant(grant)) => places.push(ms(grant.delay)),
            other => panic!("{other:?}"),
        }
    }
    places.sort_by(f64::total_cmp);
    assert!(places[0] >= 20_000.0, "{places:?}");
    let crowd = (0..CALLERS).map(|from| {
        let end = places[from] + 100.0;
        places[from..].iter().take_while(|at| **at < end).count()
    });
    assert!(crowd.max().unwrap() <= 15, "{places:?}");
    // What ends a call is not too long to hold the fleet.
    client.report(&other, throttled(3_600)).await;
    assert_eq!(ms(client.get("d").await.held_for), 3_600_000.0);
    let cleared = client.operates.clear_hold(ClearHoldRequest {
        dependency: "d".into(),
        owner: "ada".into(),
        reason: "the key was raised".into(),
        ..Default::default()
    });
    let cleared = cleared.await.unwrap().into_inner().dependency.unwrap();
    assert_eq!(cleared.held_for, None);
    assert_eq!(ms(client.granted(first_of("d", "new")).await.delay), 0.0);
    until(&mut session, goes).await;
    assert_eq!(event(&mut client, EventKind::Held).await.dependency, "d");
    assert_eq!(
        event(&mut client, EventKind::HoldCleared).await.owner,
        "ada"
    );
}

impl Client {
    /// A call of `d` by this instance; `Err`: it is refused.
    async fn call_by(&mut self, instance: &str, kind: OutcomeKind) -> Result<(), Denial> {
        let grant = match self.ask(first_of("d", instance)).await.verdict {
            Some(Verdict::Grant(grant)) => grant,
            Some(Verdict::Denial(denial)) => return Err(denial),
            None => panic!("no verdict"),
        };
        let request = ReportRequest {
            caller: caller(instance),
            entries: vec![result(&grant.permit, outcome(kind))],
            ..Default::default()
        };
        let reported = self.asks.report(request).await.unwrap().into_inner();
        assert!(reported.results[0].applied);
        Ok(())
    }

    pub async fn plan(
        &mut self,
        dependency: &str,
        instance: &str,
        last_result: Option<CheckResult>,
    ) -> PlanCheckResponse {
        let request = PlanCheckRequest {
            dependency: dependency.into(),
            checker: caller(instance),
            last_result,
            ..Default::default()
        };
        self.asks.plan_check(request).await.unwrap().into_inner()
    }
}

#[tokio::test]
async fn checks_are_planned_over_the_wire_and_one_verdict_is_shared() {
    const CHECKERS: usize = 30;
    let service = Service::start(&policy_of_d(
        "{check: {period: 10s, offset: 0s, first_within: 10s, timeout: 1s, unhealthy_after: 2, \
           phase: spread, observers: 3}}",
    ))
    .await;
    let mut client = service.client().await;
    let unplanned = PlanCheckRequest {
        dependency: "other".into(),
        checker: caller("i-0"),
        ..Default::default()
    };
    let status = client.asks.plan_check(unplanned).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("check"), "{}", status.message());
    let nobody = PlanCheckRequest {
        dependency: "d".into(),
        ..Default::default()
    };
    assert_refused(
        &client.asks.plan_check(nobody).await.unwrap_err(),
        "checker",
    );

    // All start together, ask when they are told to, and run what they are told to run.
    let mut next: Vec<(u64, usize, Option<CheckResult>)> =
        (0..CHECKERS).map(|checker| (0, checker, None)).collect();
    let (mut runs, mut verdicts) = (Vec::new(), HashSet::new());
    while let Some(at) = next
        .iter()
        .map(|(at, ..)| *at)
        .min()
        .filter(|at| *at < 60_000)
    {
        let index = next.iter().position(|(due, ..)| *due == at).unwrap();
        let (_, checker, result) = next.swap_remove(index);
        service.at_ms(at);
        let name = format!("i-{checker}");
        let planned = client.plan("d", &name, result).await;
        assert_eq!(ms(planned.period), 10_000.0);
        verdicts.insert(planned.verdict());
        let due = match planned.plan.unwrap() {
            Plan::Run(run) => {
                assert_eq!(ms(run.timeout), 1_000.0);
                // The question comes as soon as the check has ended, which takes no time.
                let start = at + ms(run.delay).ceil() as u64;
                runs.push(start);
                let verdict = match start < 30_000 {
                    true => CheckVerdict::Healthy,
                    false => CheckVerdict::Unhealthy,
                };
                let result = CheckResult {
                    permit: run.permit,
                    verdict: verdict.into(),
                };
                (start.max(at + 1), checker, Some(result))
            }
            Plan::Shared(shared) => {
                let wait = ms(shared.ask_again).ceil() as u64;
                (at + wait.max(1), checker, None)
            }
        };
        next.push(due);
    }
    for period in 1..6_u64 {
        let within = |at: &&u64| (period * 10_000..(period + 1) * 10_000).contains(*at);
        let count = runs.iter().filter(within).count();
        assert!((2..=4).contains(&count), "period {period}: {count} checks");
    }
    let all = [
        CheckVerdict::Unknown,
        CheckVerdict::Healthy,
        CheckVerdict::Unhealthy,
    ];
    assert!(
        all.iter().all(|verdict| verdicts.contains(verdict)),
        "{verdicts:?}"
    );
}

#[tokio::test]
async fn the_rust_clients_checks_are_planned_and_their_results_taken() {
    let service = Service::start(&policy_of_d(
        "{check: {period: 100ms, offset: 0s, first_within: 100ms, timeout: 50ms, \
           unhealthy_after: 2}}",
    ))
    .await;
    let client = holdoff_client::Client::builder()
        .endpoints([&*service.urls[0]])
        .timeout(PATIENCE / 4)
        .build()
        .unwrap();
    let (told, mut heard) = mpsc::unbounded_channel();
    let checker = client.check("d", |_| async { false }).runs(3);
    let checked = checker.told(move |found| told.send(found.clone()).unwrap());
    assert_eq!(checked.run().await.last, Some(false));
    let mut fleet = Vec::new();
    while let Some(found) = heard.recv().await {
        match found {
            Finding::Ran {
                fleet: Some(verdict),
                is_local: false,
                ..
            } => fleet.push(verdict),
            other => panic!("{other:?}"),
        }
    }
    let expected = [Health::Unknown, Health::Unhealthy, Health::Unhealthy];
    assert_eq!(fleet, expected, "two in a row are unhealthy");
}

#[tokio::test]
async fn a_recovery_is_probed_climbs_on_one_ramp_and_says_when_it_is_over() {
    let service = Service::start(&policy_of_d(
        "{breaker: {open_for: 10s, spread: 1s, probes: 1, probe_successes: 1, probe_lease: 5s}, \
          ramp: {start: 0.5, step: 250ms, max_duration: 20s}}",
    ))
    .await;
    let mut client = service.client().await;
    let mut session = follow(&mut client, "follower").await;
    // Ten a second for a minute is what the ramp aims at.
    for tenth in 0..600 {
        service.at_ms(tenth * 100);
        client.call("d", Success).await;
    }
    service.at_ms(60_000);
    while let Some(Verdict::Grant(grant)) = client.ask(first("d")).await.verdict {
        client.reported(&grant.permit, Failure).await;
    }
    let opened = until(&mut session, refuses).await;
    assert_eq!(opened.state(), BreakerState::Open);
    service.at_ms(75_000);
    let probe = client.granted(first_of("d", "prober")).await;
    assert!(probe.probe);
    let waiting = client.denied(first_of("d", "second")).await;
    assert_eq!(waiting.reason(), DenialReason::ProbeInProgress);
    client.reported(&probe.permit, Success).await;
    let seen = client.get("d").await;
    assert_eq!(seen.state(), BreakerState::Recovering);
    let update = until(&mut session, |u| u.state() == BreakerState::Recovering).await;
    assert_eq!(update.first_attempts(), FirstAttempts::Ask);
    // A crowd comes at once: a few are placed, the others are told when to ask.
    let (mut placed, mut later) = (Vec::new(), 0);
    for n in 0..50 {
        match client.ask(first_of("d", &format!("c-{n}"))).await.verdict {
            Some(Verdict::Grant(grant)) => {
                assert!(ms(grant.delay) <= 300.0);
                placed.push(grant.permit);
            }
            Some(Verdict::Denial(denial)) => {
                assert_eq!(denial.reason(), DenialReason::Recovering);
                assert!(ms(denial.retry_after) > 0.0);
                later += 1;
            }
            None => panic!("no verdict"),
        }
    }
    println!(
        "of a crowd of 50 in the recovery: {} placed, {later} told when to ask again",
        placed.len()
    );
    assert!((1..=10).contains(&placed.len()) && later >= 40);
    service.at_ms(75_300);
    for permit in placed {
        client.reported(&permit, Success).await;
    }
    for step in 2..=80 {
        service.at_ms(75_000 + step * 250);
        if let Some(Verdict::Grant(grant)) = client.ask(first("d")).await.verdict {
            client.reported(&grant.permit, Success).await;
        }
    }
    service.at_ms(96_000);
    client.call("d", Success).await;
    assert_eq!(client.get("d").await.state(), BreakerState::Closed);
    until(&mut session, |u| {
        u.state() == BreakerState::Closed && goes(u)
    })
    .await;
    for kind in [
        EventKind::Tripped,
        EventKind::Recovered,
        EventKind::RampEnded,
    ] {
        event(&mut client, kind).await;
    }
}

#[tokio::test]
async fn one_instance_that_fails_among_ten_that_succeed_is_refused_alone() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let mut good = follow(&mut client, "i-0").await;
    let mut bad = follow(&mut client, "bad").await;
    until(&mut good, goes).await;
    until(&mut bad, goes).await;
    let mut refused = None;
    for round in 0..60_u64 {
        service.at_ms(round * 100);
        for n in 0..10 {
            client.call_by(&format!("i-{n}"), Success).await.unwrap();
        }
        if let Err(denial) = client.call_by("bad", Failure).await {
            refused = Some((round, denial));
            break;
        }
    }
    let (round, denial) = refused.expect("it is refused");
    println!("refused after {round} failures: {}", denial.detail);
    assert_eq!(denial.reason(), DenialReason::CallerFault);
    assert!(ms(denial.retry_after) > 0.0);
    assert_eq!(client.get("d").await.state(), BreakerState::Closed);
    let update = until(&mut bad, refuses).await;
    assert_eq!(update.state(), BreakerState::Closed);
    for n in 0..10 {
        client.granted(first_of("d", &format!("i-{n}"))).await;
    }
    let told = event(&mut client, EventKind::CallerRefused).await;
    assert!(told.detail.contains("bad"), "{told:?}");
    // The others are told nothing else: what comes next is an override, and before it GO.
    client
        .force(forced("d", OverrideKind::ForceClosed))
        .await
        .unwrap();
    loop {
        let update = good.update("d").await;
        assert!(goes(&update), "{update:?}");
        if update.state() == BreakerState::ForcedClosed {
            break;
        }
    }
}
