//! Policies that are tried beside the live ones.

use holdoff_client::proto::{
    BreakerState, Candidate, ComparedDependency, DeleteCandidateRequest, DenialReason, EventKind,
    GetCandidateRequest, GetPolicyRequest, ListAuditRequest, ListCandidatesRequest,
    ListEventsRequest, OutcomeKind, Policy, PromoteCandidateRequest, PutCandidateRequest,
    ReportEntry, ReportRequest, Tally, report_entry::Entry,
};
use holdoff_decision::Nanos;
use tonic::{Code, Status};

use crate::harness::*;

use OutcomeKind::{Failure, Success};

const NEVER_OPENS: &str = "{breaker: {window: 100, min_calls: 100}}";
const OPENS: &str = "{breaker: {window: 10, min_calls: 5, min_reporters: 1, open_for: 10s}}";

impl Client {
    async fn tries(&mut self, name: &str, document: &str) -> Result<Candidate, Status> {
        let request = PutCandidateRequest {
            name: name.into(),
            document: document.into(),
            owner: "ada".into(),
            reason: "CHG-80".into(),
            ..Default::default()
        };
        let put = self.operates.put_candidate(request).await?.into_inner();
        Ok(put.candidate.unwrap())
    }

    async fn tried(&mut self, name: &str) -> Result<(Candidate, Vec<ComparedDependency>), Status> {
        let request = GetCandidateRequest {
            name: name.into(),
            ..Default::default()
        };
        let got = self.operates.get_candidate(request).await?.into_inner();
        Ok((got.candidate.unwrap(), got.dependencies))
    }

    async fn promotes(&mut self, name: &str) -> Result<Policy, Status> {
        let request = PromoteCandidateRequest {
            name: name.into(),
            owner: "ada".into(),
            ..Default::default()
        };
        let promoted = self.operates.promote_candidate(request).await?;
        Ok(promoted.into_inner().policy.unwrap())
    }

    async fn candidates(&mut self) -> Vec<Candidate> {
        let listed = self
            .operates
            .list_candidates(ListCandidatesRequest::default());
        listed.await.unwrap().into_inner().candidates
    }

    async fn happened(&mut self) -> Vec<EventKind> {
        let request = ListEventsRequest {
            page_size: 1_000,
            ..Default::default()
        };
        let events = self.operates.list_events(request).await.unwrap();
        events
            .into_inner()
            .events
            .iter()
            .map(|it| it.kind())
            .collect()
    }

    async fn max_attempts(&mut self, dependency: &str) -> String {
        let request = GetPolicyRequest {
            dependency: dependency.into(),
            ..Default::default()
        };
        let policy = self
            .operates
            .get_policy(request)
            .await
            .unwrap()
            .into_inner();
        let mut values = policy.values.into_iter();
        values
            .find(|it| it.field == "retry.max_attempts")
            .unwrap()
            .value
    }
}

#[tokio::test]
async fn a_candidate_counts_what_it_would_have_refused_and_changes_no_answer() {
    let service = Service::start(&policy_of_d(NEVER_OPENS)).await;
    let mut client = service.client().await;
    client.call("d", Success).await;
    client.tries("d", OPENS).await.unwrap();
    for _ in 0..9 {
        client.call("d", Failure).await;
    }
    for kind in [Success, Success, Failure] {
        client.call("d", kind).await;
    }
    let (candidate, dependencies) = client.tried("d").await.unwrap();
    assert_eq!(candidate.dependencies, 1);
    let comparison = candidate.comparison.unwrap();
    let (live, own) = (comparison.live.unwrap(), comparison.candidate.unwrap());
    assert_eq!((live.opened, own.opened), (0, 1));
    assert_eq!(live.first_attempts, 12, "each was granted as before");
    assert_eq!(own.first_attempts + own.first_attempts_refused, 12);
    let [refused] = &comparison.refused[..] else {
        panic!("one reason: {:?}", comparison.refused);
    };
    assert_eq!(refused.reason(), DenialReason::BreakerOpen);
    assert_eq!(refused.succeeded, 2);
    assert_eq!(refused.first_attempts, refused.succeeded + refused.failed);
    let of_d = &dependencies[0];
    assert_eq!(of_d.dependency, "d");
    assert_eq!(of_d.candidate_state(), BreakerState::Open);
    let opening = &of_d
        .comparison
        .as_ref()
        .unwrap()
        .candidate
        .as_ref()
        .unwrap()
        .openings[0];
    assert!(!opening.detail.is_empty() && opening.time.is_some());
    assert_eq!(client.get("d").await.state(), BreakerState::Closed);
    let trips = client.happened().await;
    let trips = trips
        .iter()
        .filter(|it| **it == EventKind::CandidateTripped);
    assert_eq!(trips.count(), 1, "one event an opening");
    drop(client);
    service.end().await;
}

#[tokio::test]
async fn a_promotion_keeps_an_open_breaker_open_and_drops_the_shadow() {
    let service = Service::start(&policy_of_d(OPENS)).await;
    let mut client = service.client().await;
    client
        .tries("d", "{retry: {max_attempts: 7}, breaker: {open_for: 30s}}")
        .await
        .unwrap();
    client.trip("d", 5).await;
    let before = client.get("d").await;
    assert_eq!(before.state(), BreakerState::Open);
    let policy = client.promotes("d").await.unwrap();
    assert!(policy.document.contains("max_attempts: 7"), "{policy:?}");
    let after = client.get("d").await;
    assert_eq!(
        (after.state(), after.epoch),
        (BreakerState::Open, before.epoch)
    );
    assert_eq!(
        after.open_for, before.open_for,
        "the next period uses the new policy"
    );
    let denial = client.denied(first("d")).await;
    assert_eq!(denial.reason(), DenialReason::BreakerOpen);
    assert_eq!(client.max_attempts("d").await, "7");
    assert_eq!(client.tried("d").await.unwrap_err().code(), Code::NotFound);
    assert_eq!(
        client.promotes("d").await.unwrap_err().code(),
        Code::NotFound
    );
    assert_eq!(client.candidates().await, []);
    drop(client);
    service.end().await;
}

#[tokio::test]
async fn the_nearest_candidate_is_tried_and_each_counts_its_own() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    client.tries("", "{budget: {ratio: 0.3}}").await.unwrap();
    client.tries("pay*", OPENS).await.unwrap();
    client.tries("payments", OPENS).await.unwrap();
    for name in ["search", "ship", "pay-out", "payments"] {
        client.call(name, Success).await;
    }
    let tried: Vec<_> = client.candidates().await;
    let tried: Vec<_> = tried
        .iter()
        .map(|it| (it.name.as_str(), it.dependencies))
        .collect();
    assert_eq!(tried, [("", 2), ("pay*", 1), ("payments", 1)]);
    drop(client);
    service.end().await;
}

#[tokio::test]
async fn tallied_first_attempts_are_compared_on_what_the_candidate_would_have_pushed() {
    let service = Service::start(&policy_of_d(NEVER_OPENS)).await;
    let mut client = service.client().await;
    client.tries("d", OPENS).await.unwrap();
    let epoch = client.ask(first("d")).await.epoch;
    for (successes, failures) in [(0, 9), (30, 5)] {
        let tally = Tally {
            dependency: "d".into(),
            epoch,
            first_attempts: successes + failures,
            successes,
            failures,
            ..Default::default()
        };
        let entries = vec![ReportEntry {
            entry: Some(Entry::Tally(tally)),
        }];
        let request = ReportRequest {
            caller: caller("i"),
            entries,
            ..Default::default()
        };
        client.asks.report(request).await.unwrap();
    }
    let (candidate, _) = client.tried("d").await.unwrap();
    let refused = &candidate.comparison.unwrap().refused[0];
    assert_eq!(
        (refused.first_attempts, refused.succeeded, refused.failed),
        (35, 30, 5)
    );
    drop(client);
    service.end().await;
}

#[tokio::test]
async fn a_candidate_outlives_a_kill_and_what_is_done_with_it_is_audited() {
    let folder = tempfile::tempdir().unwrap();
    let setup = || Setup {
        data_dir: Some(folder.path()),
        ..Setup::default()
    };
    let service = Service::start_with(setup()).await;
    let mut client = service.client().await;
    client.tries("payments", OPENS).await.unwrap();
    client.tries("search", OPENS).await.unwrap();
    let request = DeleteCandidateRequest {
        name: "search".into(),
        owner: "ada".into(),
        ..Default::default()
    };
    client
        .operates
        .delete_candidate(request.clone())
        .await
        .unwrap();
    let again = client.operates.delete_candidate(request).await.unwrap_err();
    assert_eq!(again.code(), Code::NotFound);
    drop(client);
    service.end().await;

    let service = Service::start_with(setup()).await;
    let mut client = service.client().await;
    client.call("payments", Success).await;
    let tried = client.candidates().await;
    assert_eq!(tried.len(), 1);
    assert_eq!(
        (tried[0].name.as_str(), tried[0].dependencies),
        ("payments", 1)
    );
    client.promotes("payments").await.unwrap();
    drop(client);
    service.end().await;

    let service = Service::start_with(setup()).await;
    let mut client = service.client().await;
    assert_eq!(client.candidates().await, []);
    let audit = client.operates.list_audit(ListAuditRequest::default());
    let records = audit.await.unwrap().into_inner().records;
    let actions: Vec<_> = records.iter().map(|it| it.action.as_str()).collect();
    assert_eq!(
        actions,
        [
            "PutCandidate",
            "PutCandidate",
            "DeleteCandidate",
            "PromoteCandidate"
        ]
    );
    drop(client);
    service.end().await;
}

#[tokio::test]
async fn a_bad_candidate_is_refused_with_its_field_and_nothing_is_tried() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let refused = client
        .tries("d", "{retry: {max_attempts: 0}}")
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("max_attempts"), "{refused}");
    let refused = client.tries("no good", OPENS).await.unwrap_err();
    assert_refused(&refused, "name");
    assert_eq!(client.candidates().await, []);
    drop(client);
    service.end().await;
}

#[tokio::test]
async fn after_a_restart_a_candidate_begins_where_the_open_breaker_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let policies = policy_of_d(OPENS);
    let setup = || Setup {
        policies: &policies,
        data_dir: Some(folder.path()),
        ..Setup::default()
    };
    let service = Service::start_with(setup()).await;
    let mut client = service.client().await;
    client
        .tries("d", "{retry: {max_attempts: 7}}")
        .await
        .unwrap();
    client.trip("d", 5).await;
    drop(client);
    service.end().await;

    let service = Service::start_with(setup()).await;
    let mut client = service.client().await;
    client.denied(first("d")).await;
    let (candidate, dependencies) = client.tried("d").await.unwrap();
    assert_eq!(dependencies[0].candidate_state(), BreakerState::Open);
    assert_eq!(candidate.comparison.unwrap().let_through, []);
}

#[tokio::test]
async fn a_candidate_that_no_longer_fits_is_kept_with_its_problem_and_tried_again_when_it_does() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    client
        .tries("d", "{retry: {initial_delay: 5s}}")
        .await
        .unwrap();
    client.call("d", Success).await;
    let defaults = |max: &str| {
        let text = format!(
            "version: 1\nnamespaces: {{default: {{defaults: {{retry: {{max_delay: {max}}}}}}}}}\n"
        );
        Ok(vec![source(&text)])
    };
    service.coordinator.reload(defaults("1s")).await;
    client.call("d", Success).await;
    let tried = client.candidates().await.remove(0);
    assert!(tried.problem.contains("initial_delay"), "{tried:?}");
    assert_eq!(tried.dependencies, 0);
    let refused = client.promotes("d").await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    service.coordinator.reload(defaults("9s")).await;
    client.call("d", Success).await;
    let tried = client.candidates().await.remove(0);
    assert_eq!((tried.problem.as_str(), tried.dependencies), ("", 1));
}

#[tokio::test]
async fn the_numbers_of_a_dependency_that_is_dropped_stay_in_the_sums() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    client.tries("", OPENS).await.unwrap();
    for name in ["a", "b"] {
        client.call(name, Success).await;
    }
    service.at_ms(2 * 3_600_000);
    assert_eq!(service.coordinator.drop_idle_once(Nanos::from_secs(600)), 2);
    let tried = client.candidates().await.remove(0);
    assert_eq!(tried.dependencies, 0);
    assert_eq!(tried.comparison.unwrap().live.unwrap().succeeded, 2);
}
