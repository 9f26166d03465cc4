//! What health checks have found, as operators are shown and told it.

use holdoff_client::proto::{
    CheckResult, CheckRun, CheckSummary, CheckVerdict, EventKind, ListDependenciesRequest,
    ListEventsRequest, WatchDependenciesRequest, WatchDependenciesResponse,
    plan_check_response::Plan, watch_dependencies_response::Change,
};
use tonic::Streaming;

use crate::{fleet::event, harness::*};

const POLICY: &str = "{check: {period: 10s, offset: 0s, first_within: 10s, timeout: 1s, \
                       unhealthy_after: 2, detection_budget: 1m}}";

/// A checker that does what it is told.
struct Checker {
    at_ms: u64,
    run: CheckRun,
}

impl Checker {
    async fn start(client: &mut Client) -> Self {
        let run = run_of(client.plan("d", "a", None).await.plan);
        Self { at_ms: 0, run }
    }

    /// Checks when it is due and reports.
    async fn check(&mut self, service: &Service, client: &mut Client, verdict: CheckVerdict) {
        self.at_ms += ms(self.run.delay).ceil() as u64;
        service.at_ms(self.at_ms);
        let result = CheckResult {
            permit: self.run.permit.clone(),
            verdict: verdict.into(),
        };
        self.run = run_of(client.plan("d", "a", Some(result)).await.plan);
    }
}

fn run_of(plan: Option<Plan>) -> CheckRun {
    match plan {
        Some(Plan::Run(run)) => run,
        other => panic!("not a run: {other:?}"),
    }
}

async fn summary(client: &mut Client) -> CheckSummary {
    client.get("d").await.check.expect("the policy has checks")
}

/// The summary in the next change of `d`.
async fn watched(changes: &mut Streaming<WatchDependenciesResponse>) -> CheckSummary {
    loop {
        let change = changes.message().await.unwrap().unwrap().change.unwrap();
        if let Change::Dependency(d) = change
            && d.name == "d"
        {
            return d.check.expect("the policy has checks");
        }
    }
}

#[tokio::test]
async fn operators_see_the_verdict_of_health_checks_and_are_told_when_it_changes() {
    let service = Service::start(&policy_of_d(POLICY)).await;
    let mut client = service.client().await;
    client.granted(first("other")).await;
    assert_eq!(client.get("other").await.check, None);
    let before = summary(&mut client).await;
    assert_eq!(
        (before.checkers, before.verdict()),
        (0, CheckVerdict::Unknown)
    );
    assert_eq!(ms(before.period), 10_000.0);
    assert_eq!((before.age, before.next_in), (None, None));
    let watch = client
        .operates
        .watch_dependencies(WatchDependenciesRequest::default());
    let mut changes = watch.await.unwrap().into_inner();
    watched(&mut changes).await;

    let mut checker = Checker::start(&mut client).await;
    let planned = summary(&mut client).await;
    assert_eq!((planned.checkers, planned.running), (1, 0));
    assert_eq!(planned.next_in, checker.run.delay);
    checker
        .check(&service, &mut client, CheckVerdict::Healthy)
        .await;
    assert_eq!(watched(&mut changes).await.verdict(), CheckVerdict::Healthy);
    checker
        .check(&service, &mut client, CheckVerdict::Unhealthy)
        .await;
    let once = summary(&mut client).await;
    assert_eq!(
        (once.failures_in_a_row, once.verdict()),
        (1, CheckVerdict::Healthy)
    );
    checker
        .check(&service, &mut client, CheckVerdict::Unhealthy)
        .await;
    assert_eq!(
        watched(&mut changes).await.verdict(),
        CheckVerdict::Unhealthy
    );
    let told = event(&mut client, EventKind::CheckUnhealthy).await;
    assert_eq!(
        told.detail,
        "2 health checks failed in a row, the last one by instance \"a\""
    );
    checker
        .check(&service, &mut client, CheckVerdict::Unhealthy)
        .await;
    service.at_ms(checker.at_ms + 2_000);
    let listed = client
        .operates
        .list_dependencies(ListDependenciesRequest::default());
    let listed = listed.await.unwrap().into_inner().dependencies;
    let d = listed
        .into_iter()
        .find(|d| d.name == "d")
        .unwrap()
        .check
        .unwrap();
    assert_eq!(
        (d.failures_in_a_row, d.verdict()),
        (3, CheckVerdict::Unhealthy)
    );
    assert_eq!(ms(d.age), 2_000.0);

    service.at_ms(checker.at_ms);
    checker
        .check(&service, &mut client, CheckVerdict::Healthy)
        .await;
    assert_eq!(watched(&mut changes).await.verdict(), CheckVerdict::Healthy);
    let told = event(&mut client, EventKind::CheckHealthy).await;
    assert_eq!(
        told.detail,
        "a health check by instance \"a\" succeeded after 3 that failed"
    );
    verdicts_are_told_once(&mut client).await;
    let metrics = service.coordinator.telemetry().exposition();
    for line in [
        "holdoff_check_plans_total{kind=\"run\"} 6",
        "holdoff_check_plans_total{kind=\"shared\"} 0",
        "holdoff_check_results_total{result=\"healthy\"} 2",
        "holdoff_check_results_total{result=\"unhealthy\"} 3",
        "holdoff_check_verdicts_total{to=\"unhealthy\"} 1",
        "holdoff_check_verdicts_total{to=\"healthy\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    // Nobody checks any more, and what was found last is still said, with its age.
    service.at_ms(checker.at_ms + 60_000);
    let after = summary(&mut client).await;
    assert_eq!(
        (after.checkers, after.verdict()),
        (0, CheckVerdict::Healthy)
    );
    assert_eq!(ms(after.age), 60_000.0);
}

async fn verdicts_are_told_once(client: &mut Client) {
    let request = ListEventsRequest {
        dependency: "d".into(),
        ..Default::default()
    };
    let events = client
        .operates
        .list_events(request)
        .await
        .unwrap()
        .into_inner()
        .events;
    let kinds: Vec<_> = events.iter().map(|event| event.kind()).collect();
    assert_eq!(kinds, [EventKind::CheckUnhealthy, EventKind::CheckHealthy]);
}

#[tokio::test]
async fn a_result_that_is_repeated_or_forged_changes_no_verdict() {
    let service = Service::start(&policy_of_d(POLICY)).await;
    let mut client = service.client().await;
    let checker = Checker::start(&mut client).await;
    let failed = |permit: &[u8]| {
        Some(CheckResult {
            permit: permit.to_vec().into(),
            verdict: CheckVerdict::Unhealthy.into(),
        })
    };
    service.at_ms(10_000);
    client.plan("d", "a", failed(&checker.run.permit)).await;
    client.plan("d", "a", failed(&checker.run.permit)).await;
    client.plan("d", "b", failed(&checker.run.permit)).await;
    client.plan("d", "a", failed(b"nothing of ours")).await;
    let seen = summary(&mut client).await;
    assert_eq!(
        (seen.failures_in_a_row, seen.verdict()),
        (1, CheckVerdict::Unknown)
    );
    let metrics = service.coordinator.telemetry().exposition();
    assert!(metrics.contains("holdoff_check_results_total{result=\"unhealthy\"} 1"));
}
