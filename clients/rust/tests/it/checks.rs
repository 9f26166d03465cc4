//! Health checks: on the planned schedule, by others, and without the service.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use holdoff_client::{Checked, Client, Finding, Verdict, proto};
use tokio::time::{Instant, sleep};
use tonic::Status;

use crate::server::{Scripted, wire};

const SECOND: Duration = Duration::from_secs(1);
const HEALTHY: i32 = proto::CheckVerdict::Healthy as i32;
const UNHEALTHY: i32 = proto::CheckVerdict::Unhealthy as i32;
const UNKNOWN: i32 = proto::CheckVerdict::Unknown as i32;

fn planned(plan: proto::plan_check_response::Plan) -> Planned {
    Some(Ok(proto::PlanCheckResponse {
        plan: Some(plan),
        verdict: HEALTHY,
        period: Some(wire(10 * SECOND)),
    }))
}

type Planned = Option<Result<proto::PlanCheckResponse, Status>>;

fn run_in(delay: Duration) -> Planned {
    planned(proto::plan_check_response::Plan::Run(proto::CheckRun {
        delay: Some(wire(delay)),
        permit: "plan".into(),
        timeout: Some(wire(SECOND)),
    }))
}

fn shared_for(ask_again: Duration) -> Planned {
    planned(proto::plan_check_response::Plan::Shared(
        proto::CheckShared {
            verdict: UNHEALTHY,
            age: Some(wire(3 * SECOND)),
            ask_again: Some(wire(ask_again)),
        },
    ))
}

fn not_planned() -> Planned {
    Some(Err(Status::failed_precondition("no `check` in the policy")))
}

/// What a checker did, and when.
#[derive(Clone)]
struct Seen {
    begun: Instant,
    runs: Arc<Mutex<Vec<Duration>>>,
    told: Arc<Mutex<Vec<Finding>>>,
}

impl Seen {
    fn run_secs(&self) -> Vec<u64> {
        let runs = self.runs.lock().unwrap();
        runs.iter().map(Duration::as_secs).collect()
    }

    fn told(&self) -> Vec<Finding> {
        self.told.lock().unwrap().clone()
    }

    fn how_often(&self, what: impl Fn(&Finding) -> bool) -> usize {
        self.told().iter().filter(|finding| what(finding)).count()
    }
}

/// Checks for so long; each check takes so long and finds this.
async fn watched(
    client: &Client,
    time: Duration,
    takes: Duration,
    healthy: impl Fn(usize) -> bool,
) -> (Seen, Checked) {
    let seen = Seen {
        begun: Instant::now(),
        runs: Arc::default(),
        told: Arc::default(),
    };
    let (noted, told) = (seen.clone(), Arc::clone(&seen.told));
    let check = |_| {
        let mut runs = noted.runs.lock().unwrap();
        runs.push(noted.begun.elapsed());
        let is_healthy = healthy(runs.len());
        async move {
            sleep(takes).await;
            is_healthy
        }
    };
    let checker = client.check("payments", check).until(sleep(time));
    let told = move |finding: &Finding| told.lock().unwrap().push(finding.clone());
    let checked = checker.told(told).run().await;
    (seen, checked)
}

#[tokio::test(start_paused = true)]
async fn each_run_is_planned_by_the_service_and_its_result_goes_with_the_next_question() {
    let service = Scripted::granting();
    service.plan(|_| run_in(7 * SECOND));
    let client = service.builder().namespace("shop").build().unwrap();
    let (seen, checked) = watched(&client, 25 * SECOND, Duration::ZERO, |run| run != 2).await;
    assert_eq!(seen.run_secs(), [7, 14, 21]);
    assert_eq!(
        (checked.runs, checked.last, checked.was_told),
        (3, Some(true), true)
    );
    let asked = service.plans_asked();
    let results: Vec<_> = asked
        .iter()
        .map(|ask| {
            ask.last_result
                .clone()
                .map(|last| (last.permit, last.verdict))
        })
        .collect();
    let result = |verdict| Some(("plan".into(), verdict));
    let expected = [None, result(HEALTHY), result(UNHEALTHY), result(HEALTHY)];
    assert_eq!(results, expected);
    let first = &asked[0];
    assert_eq!(
        (&*first.namespace, &*first.dependency),
        ("shop", "payments")
    );
    let checker = first.checker.clone().unwrap();
    assert_eq!(
        (&*checker.service, &*checker.instance),
        ("checkout", "test-1")
    );
    assert_eq!(service.sessions(), 1, "it shares the client's connection");
    let Finding::Ran {
        fleet,
        is_local,
        healthy,
        ..
    } = seen.told()[1].clone()
    else {
        panic!("{:?}", seen.told());
    };
    assert_eq!(
        (fleet, is_local, healthy),
        (Some(Verdict::Healthy), false, false)
    );
}

#[tokio::test(start_paused = true)]
async fn what_others_found_is_told_and_nothing_is_checked() {
    let service = Scripted::granting();
    service.plan(|_| shared_for(10 * SECOND));
    let (seen, checked) = watched(&service.client(), 35 * SECOND, SECOND, |_| true).await;
    assert_eq!((checked.runs, checked.last), (0, None));
    assert_eq!(service.plans_asked().len(), 4);
    let shared = Finding::Shared {
        verdict: Verdict::Unhealthy,
        age: Some(3 * SECOND),
        ask_again: 10 * SECOND,
    };
    assert_eq!(seen.told(), vec![shared; 4]);
}

#[tokio::test(start_paused = true)]
async fn without_a_service_checks_begin_at_a_hash_and_go_on_by_the_period() {
    let mut firsts = Vec::new();
    for instance in 0..20 {
        let service = Scripted::granting();
        service.kill();
        let client = service
            .builder()
            .instance(format!("i{instance}"))
            .build()
            .unwrap();
        let (seen, _) = watched(&client, 120 * SECOND, SECOND, |_| true).await;
        let runs = seen.run_secs();
        assert!(runs.len() == 4 && runs[0] < 30, "{runs:?}");
        assert!(runs.windows(2).all(|two| two[1] - two[0] == 30), "{runs:?}");
        assert_eq!(seen.how_often(|f| matches!(f, Finding::Away { .. })), 1);
        firsts.push(runs[0]);
    }
    firsts.sort_unstable();
    firsts.dedup();
    assert!(firsts.len() > 8, "not spread: {firsts:?}");
}

#[tokio::test(start_paused = true)]
async fn when_the_service_goes_checks_stay_on_its_grid_and_when_it_returns_it_plans_again() {
    let service = Scripted::granting();
    service.plan(|ask| run_in((10 - u32::from(ask.last_result.is_some())) * SECOND));
    let outage = service.clone();
    tokio::spawn(async move {
        sleep(25 * SECOND).await;
        outage.kill();
        sleep(30 * SECOND).await;
        outage.start();
    });
    let (seen, _) = watched(&service.client(), 95 * SECOND, SECOND, |_| true).await;
    let runs = seen.run_secs();
    assert_eq!(runs[..6], [10, 20, 30, 40, 50, 60], "{runs:?}");
    assert_eq!(seen.how_often(|f| matches!(f, Finding::Away { .. })), 1);
    let local = seen.how_often(|f| matches!(f, Finding::Ran { is_local: true, .. }));
    assert!((3..=4).contains(&local), "{local} of {runs:?}");
    // A result that nobody planned is nobody's.
    let last = service.plans_asked().pop().unwrap().last_result.unwrap();
    assert_eq!(last.permit, "plan");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_returns_in_a_long_period_plans_within_a_minute_or_so() {
    let service = Scripted::granting();
    service.plan(|_| run_in(SECOND));
    service.kill();
    let outage = service.clone();
    tokio::spawn(async move {
        sleep(90 * SECOND).await;
        outage.start();
    });
    let begun = Instant::now();
    let client = service.client();
    let checker = client.check("payments", |_| async { true });
    let checked = checker.period(3600 * SECOND).runs(1).run().await;
    assert_eq!(checked.last, Some(true));
    let took = begun.elapsed();
    assert!(took > 90 * SECOND && took < 200 * SECOND, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_service_does_not_hold_up_checks() {
    let service = Scripted::granting();
    service.plan(|_| None);
    let (seen, _) = watched(&service.client(), 121 * SECOND, Duration::ZERO, |_| true).await;
    assert_eq!(seen.run_secs().len(), 4);
    assert_eq!(seen.how_often(|f| matches!(f, Finding::Away { .. })), 1);
}

#[tokio::test(start_paused = true)]
async fn a_check_that_takes_too_long_is_given_up_and_unhealthy_and_never_runs_beside_another() {
    let service = Scripted::granting();
    service.plan(|_| run_in(Duration::ZERO));
    let running = AtomicUsize::new(0);
    struct Guard<'a>(&'a AtomicUsize);
    impl Drop for Guard<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, SeqCst);
        }
    }
    let client = service.client();
    let told = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&told);
    let checked = client
        .check("payments", |check| {
            assert_eq!((check.timeout, check.is_local), (SECOND, false));
            assert_eq!(running.fetch_add(1, SeqCst), 0, "two at once");
            let guard = Guard(&running);
            async move {
                let _guard = guard;
                std::future::pending::<bool>().await
            }
        })
        .told(move |finding| noted.lock().unwrap().push(finding.clone()))
        .runs(3)
        .run()
        .await;
    assert_eq!(
        (checked.runs, checked.last, checked.was_told),
        (3, Some(false), false)
    );
    let given_up = Finding::Ran {
        healthy: false,
        timed_out: true,
        took: SECOND,
        is_local: false,
        fleet: Some(Verdict::Healthy),
    };
    assert!(
        told.lock()
            .unwrap()
            .iter()
            .all(|finding| *finding == given_up)
    );
    let handed: Vec<_> = service
        .plans_asked()
        .into_iter()
        .filter_map(|ask| Some(ask.last_result?.verdict))
        .collect();
    assert_eq!(handed, [UNHEALTHY; 3], "the last one too");
}

#[tokio::test(start_paused = true)]
async fn a_policy_without_checks_is_told_once_and_checks_go_on_with_the_default_period() {
    let service = Scripted::granting();
    service.plan(|_| not_planned());
    let (seen, _) = watched(&service.client(), 150 * SECOND, Duration::ZERO, |_| true).await;
    let runs = seen.run_secs();
    assert_eq!(runs.len(), 5);
    assert!(runs.windows(2).all(|two| two[1] - two[0] == 30), "{runs:?}");
    let said = |f: &Finding| matches!(f, Finding::NotPlanned { why } if why.contains("no `check`"));
    assert_eq!(seen.how_often(said), 1);
    // It may be planned later.
    assert!(service.plans_asked().len() >= 5);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_plans_nothing_sensible_is_no_plan() {
    let odd = |delay, timeout, verdict| {
        let run = proto::CheckRun {
            delay,
            permit: "plan".into(),
            timeout,
        };
        proto::PlanCheckResponse {
            plan: Some(proto::plan_check_response::Plan::Run(run)),
            verdict,
            period: None,
        }
    };
    let second = Some(wire(SECOND));
    let negative = Some(prost_types::Duration {
        seconds: -1,
        nanos: 0,
    });
    for answer in [
        odd(None, second, UNKNOWN),
        odd(second, None, UNKNOWN),
        odd(negative, second, UNKNOWN),
        odd(second, second, 99),
        proto::PlanCheckResponse::default(),
    ] {
        let service = Scripted::granting();
        let said = answer.clone();
        service.plan(move |_| Some(Ok(said.clone())));
        let (seen, _) = watched(&service.client(), 119 * SECOND, SECOND, |_| true).await;
        let runs = seen.run_secs();
        assert!(
            runs.windows(2).all(|two| two[1] - two[0] == 30),
            "{answer:?}: {runs:?}"
        );
        let local = seen.how_often(|f| matches!(f, Finding::Ran { is_local: true, .. }));
        assert!(local >= 3, "{answer:?}: {runs:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_always_says_now_is_not_obeyed_without_a_pause() {
    let service = Scripted::granting();
    service.plan(|_| run_in(Duration::ZERO));
    let (seen, _) = watched(&service.client(), SECOND, Duration::ZERO, |_| true).await;
    assert!(seen.run_secs().len() <= 101);
    let service = Scripted::granting();
    service.plan(|_| shared_for(Duration::ZERO));
    watched(&service.client(), SECOND, Duration::ZERO, |_| true).await;
    assert!(service.plans_asked().len() <= 102);
}

#[tokio::test(start_paused = true)]
async fn a_client_for_tests_makes_three_runs_without_waiting() {
    let begun = Instant::now();
    let checked = Client::testing()
        .check("payments", |_| async { Err::<(), _>("down") })
        .await;
    assert_eq!((checked.runs, checked.last), (3, Some(false)));
    assert_eq!(begun.elapsed(), Duration::ZERO);
}
