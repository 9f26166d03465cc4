//! Overrides, resets, holds: what operators order outranks automation until it is released.

use std::time::Duration;

use holdoff::policy::Source;
use holdoff_client::proto::{
    BreakerState, ClearHoldRequest, ClearOverrideRequest, DenialReason, Dependency, Outcome,
    OutcomeKind, OverrideKind, ReportReason, ResetDependencyRequest, SetOverrideRequest,
};
use tonic::{Code, Status};

use crate::harness::*;

use OutcomeKind::{Failure, Success, Throttled};

const OPENS_FOR_TEN: &str = "{breaker: {window: 10, min_calls: 5, failure_ratio: 0.5, \
    open_for: 10s, open_multiplier: 1, probe_successes: 1}}";

pub fn forced(dependency: &str, kind: OverrideKind) -> SetOverrideRequest {
    SetOverrideRequest {
        dependency: dependency.into(),
        kind: kind.into(),
        owner: "ada".into(),
        reason: "maintenance".into(),
        ..Default::default()
    }
}

impl Client {
    pub async fn force(&mut self, request: SetOverrideRequest) -> Result<Dependency, Status> {
        let response = self.operates.set_override(request).await?;
        Ok(response.into_inner().dependency.unwrap())
    }

    pub async fn release(&mut self, dependency: &str) -> Result<Dependency, Status> {
        let request = ClearOverrideRequest {
            dependency: dependency.into(),
            owner: "ada".into(),
            ..Default::default()
        };
        let response = self.operates.clear_override(request).await?;
        Ok(response.into_inner().dependency.unwrap())
    }

    pub async fn reset(&mut self, dependency: &str) -> Result<Dependency, Status> {
        let request = ResetDependencyRequest {
            dependency: dependency.into(),
            owner: "ada".into(),
            ..Default::default()
        };
        let response = self.operates.reset_dependency(request).await?;
        Ok(response.into_inner().dependency.unwrap())
    }

    pub async fn clear_hold(&mut self, dependency: &str) -> Result<Dependency, Status> {
        let request = ClearHoldRequest {
            dependency: dependency.into(),
            owner: "ada".into(),
            ..Default::default()
        };
        let response = self.operates.clear_hold(request).await?;
        Ok(response.into_inner().dependency.unwrap())
    }
}

#[tokio::test]
async fn b29a_a_forced_open_breaker_stays_open_past_its_own_open_period() {
    let service = Service::start(&policy_of_d(OPENS_FOR_TEN)).await;
    let mut client = service.client().await;
    client.trip("d", 5).await;
    service.at_ms(5_000);
    client
        .force(forced("d", OverrideKind::ForceOpen))
        .await
        .unwrap();
    for at in [10_000, 1_000_000, 10_000_000_000] {
        service.at_ms(at);
        let answer = client.ask(first("d")).await;
        assert_eq!(answer.state(), BreakerState::ForcedOpen);
        let denial = denial_of(answer);
        assert_eq!(denial.reason(), DenialReason::ForcedOpen);
        assert_eq!(
            denial.retry_after, None,
            "without an expiry there is no time"
        );
        assert_eq!(client.get("d").await.probes_out, 0);
    }
}

#[tokio::test]
async fn b29b_a_trip_after_a_reset_gets_its_whole_open_period() {
    let service = Service::start(&policy_of_d(OPENS_FOR_TEN)).await;
    let mut client = service.client().await;
    client.trip("d", 5).await;
    service.at_ms(2_000);
    let seen = client.reset("d").await.unwrap();
    assert_eq!((seen.state(), seen.epoch), (BreakerState::Closed, 3));
    service.at_ms(3_000);
    client.trip("d", 5).await;
    service.at_ms(10_500);
    assert_eq!(client.get("d").await.state(), BreakerState::Open);
    assert_eq!(
        reason_of(client.ask(first("d")).await),
        DenialReason::BreakerOpen
    );
    service.at_ms(12_999);
    assert_eq!(client.get("d").await.state(), BreakerState::Open);
    service.at_ms(13_000);
    assert!(client.granted(first("d")).await.probe);
}

#[tokio::test]
async fn b29c_forced_closed_counts_for_display_never_opens_and_is_released_empty() {
    let service = Service::start(&policy_of_d(OPENS_FOR_TEN)).await;
    let mut client = service.client().await;
    let set = client
        .force(forced("d", OverrideKind::ForceClosed))
        .await
        .unwrap();
    for _ in 0..50 {
        client.call("d", Failure).await;
    }
    let seen = client.get("d").await;
    assert_eq!(
        (seen.state(), seen.failure_ratio),
        (BreakerState::ForcedClosed, 1.0)
    );
    assert_eq!((seen.epoch, seen.trips), (set.epoch, 0));
    let released = client.release("d").await.unwrap();
    assert_eq!(released.state(), BreakerState::Closed);
    assert_eq!((released.failure_ratio, released.r#override), (0.0, None));
    assert_eq!(released.epoch, set.epoch + 1);
    // Four more failures are below min_calls: nothing of before is in the window.
    for _ in 0..4 {
        client.call("d", Failure).await;
    }
    assert_eq!(client.get("d").await.state(), BreakerState::Closed);
}

#[tokio::test]
async fn b29d_a_probe_that_was_out_at_a_reset_is_of_another_epoch() {
    let service = Service::start(&policy_of_d(OPENS_FOR_TEN)).await;
    let mut client = service.client().await;
    client.trip("d", 5).await;
    service.at_ms(10_000);
    let probe = client.granted(first("d")).await.permit;
    let reset = client.reset("d").await.unwrap();
    assert_eq!(
        client.reported(&probe, Success).await,
        ReportReason::StaleEpoch
    );
    let seen = client.get("d").await;
    assert_eq!(
        (seen.epoch, seen.state()),
        (reset.epoch, BreakerState::Closed)
    );
}

#[tokio::test]
async fn b29e_an_override_survives_a_restart_and_a_reload_and_its_expiry_is_honoured() {
    let dir = tempfile::tempdir().unwrap();
    let policies = policy_of_d(OPENS_FOR_TEN);
    let setup = |at_ms| Setup {
        policies: &policies,
        data_dir: Some(dir.path()),
        at_ms,
        ..Setup::default()
    };
    let service = Service::start_with(setup(0)).await;
    let mut client = service.client().await;
    let order = SetOverrideRequest {
        expires_in: Some(seconds(100)),
        ..forced("d", OverrideKind::ForceOpen)
    };
    client.force(order).await.unwrap();
    client
        .force(forced("for-ever", OverrideKind::ForceClosed))
        .await
        .unwrap();
    drop(client);
    service.end().await;

    let service = Service::start_with(setup(30_000)).await;
    let mut client = service.client().await;
    let sources: Vec<Source> = vec![source(&policy_of_d("{retry: {max_attempts: 5}}"))];
    service.coordinator.reload(Ok(sources)).await;
    let seen = client.get("d").await;
    assert_eq!(seen.state(), BreakerState::ForcedOpen);
    let order = seen.r#override.unwrap();
    assert_eq!(
        (order.owner.as_str(), order.reason.as_str()),
        ("ada", "maintenance")
    );
    assert_eq!(
        order.set_time.unwrap().seconds as u64,
        ORIGIN / 1_000_000_000
    );
    assert_eq!(ms(order.expires_in), 70_000.0);
    let denial = client.denied(first("d")).await;
    assert_eq!(denial.reason(), DenialReason::ForcedOpen);
    assert!(ms(denial.retry_after) >= 70_000.0);
    assert_eq!(
        client.get("for-ever").await.state(),
        BreakerState::ForcedClosed
    );

    service.at_ms(99_999);
    assert_eq!(client.get("d").await.state(), BreakerState::ForcedOpen);
    service.at_ms(100_000);
    let seen = client.get("d").await;
    assert_eq!(
        (seen.state(), seen.r#override),
        (BreakerState::Closed, None)
    );
    client.granted(first("d")).await;
    assert_eq!(
        client.release("d").await.unwrap_err().code(),
        Code::FailedPrecondition
    );
}

#[tokio::test]
async fn an_override_names_its_owner_and_its_reason_and_what_is_wrong_changes_nothing() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    client.call("d", Success).await;
    let before = client.get("d").await;
    let good = forced("d", OverrideKind::ForceOpen);
    let expiring = |seconds, nanos| SetOverrideRequest {
        expires_in: Some(prost_types::Duration { seconds, nanos }),
        ..good.clone()
    };
    for (field, request) in [
        (
            "owner",
            SetOverrideRequest {
                owner: "".into(),
                ..good.clone()
            },
        ),
        (
            "owner",
            SetOverrideRequest {
                owner: " \t\u{a0}".into(),
                ..good.clone()
            },
        ),
        (
            "owner",
            SetOverrideRequest {
                owner: "o".repeat(201),
                ..good.clone()
            },
        ),
        (
            "reason",
            SetOverrideRequest {
                reason: "".into(),
                ..good.clone()
            },
        ),
        (
            "reason",
            SetOverrideRequest {
                reason: "  ".into(),
                ..good.clone()
            },
        ),
        (
            "reason",
            SetOverrideRequest {
                reason: "r".repeat(1001),
                ..good.clone()
            },
        ),
        (
            "kind",
            SetOverrideRequest {
                kind: 0,
                ..good.clone()
            },
        ),
        (
            "kind",
            SetOverrideRequest {
                kind: 3,
                ..good.clone()
            },
        ),
        (
            "kind",
            SetOverrideRequest {
                kind: -1,
                ..good.clone()
            },
        ),
        ("expires_in", expiring(0, 0)),
        ("expires_in", expiring(0, 999_999)),
        ("expires_in", expiring(-5, 0)),
        ("expires_in", expiring(5, -1)),
        ("expires_in", expiring(5, 1_000_000_000)),
        ("expires_in", expiring(365 * 24 * 3600 + 1, 0)),
        ("expires_in", expiring(i64::MAX, 0)),
    ] {
        assert_refused(&client.force(request).await.unwrap_err(), field);
    }
    assert_eq!(client.get("d").await, before);
}

/// Every change but an override may leave both out.
#[tokio::test]
async fn whoever_changes_something_and_does_not_say_who_is_written_down_as_anonymous() {
    use holdoff_client::proto::{DeletePolicyRequest, ListAuditRequest, PutPolicyRequest};
    let service = Service::start(&policy_of_d("{pushback: {scope: dependency}}")).await;
    let mut client = service.client().await;
    let permit = client.granted(first("d")).await.permit;
    let told = Outcome {
        pushback: Some(seconds(30)),
        ..outcome(Throttled)
    };
    client.report(&permit, told).await;
    client
        .force(forced("d", OverrideKind::ForceOpen))
        .await
        .unwrap();
    let operates = &mut client.operates;
    macro_rules! changed {
        ($rpc:ident, $request:ident { $($field:ident),* }) => {{
            let request = $request { $($field: "d".into(),)* ..Default::default() };
            operates.$rpc(request).await.unwrap();
        }};
    }
    changed!(clear_override, ClearOverrideRequest { dependency });
    changed!(clear_hold, ClearHoldRequest { dependency });
    changed!(reset_dependency, ResetDependencyRequest { dependency });
    let put = PutPolicyRequest {
        name: "d".into(),
        document: "{}".into(),
        owner: " ".into(),
        ..Default::default()
    };
    operates.put_policy(put).await.unwrap();
    changed!(delete_policy, DeletePolicyRequest { name });
    let audit = operates.list_audit(ListAuditRequest::default());
    let records = audit.await.unwrap().into_inner().records;
    let said: Vec<_> = records
        .iter()
        .map(|record| (&*record.action, &*record.owner))
        .collect();
    assert_eq!(
        said,
        [
            ("SetOverride", "ada"),
            ("ClearOverride", "anonymous"),
            ("ClearHold", "anonymous"),
            ("ResetDependency", "anonymous"),
            ("PutPolicy", "anonymous"),
            ("DeletePolicy", "anonymous"),
        ]
    );
}

#[tokio::test]
async fn an_override_may_be_as_short_as_a_millisecond() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let short = SetOverrideRequest {
        expires_in: Some(prost_types::Duration {
            seconds: 0,
            nanos: 1_000_000,
        }),
        ..forced("d", OverrideKind::ForceOpen)
    };
    let seen = client.force(short).await.unwrap();
    assert_eq!(seen.state(), BreakerState::ForcedOpen);
    service.at_ms(1);
    client.granted(first("d")).await;
}

#[tokio::test]
async fn a_pushback_above_its_longest_ends_the_call_and_holds_the_fleet_for_as_long_as_was_asked() {
    let service = Service::start(&policy_of_d(
        "{pushback: {scope: dependency, max: 60s, spread: 0s}, breaker: {mode: off}}",
    ))
    .await;
    let mut client = service.client().await;
    for (asked, held) in [(600, 600.0), (90_000, 86_400.0)] {
        let permit = client.granted(first("d")).await.permit;
        let told = Outcome {
            pushback: Some(seconds(asked)),
            ..outcome(Throttled)
        };
        let denial = client.denied(retry_after("d", 2, &permit, told)).await;
        assert_eq!(denial.reason(), DenialReason::PushbackTooLong);
        assert_eq!(ms(denial.retry_after), asked as f64 * 1e3);
        assert_eq!(ms(client.get("d").await.held_for), held * 1e3);
        let mut hurried = first_of("d", "another");
        hurried.time_left = Some(seconds(asked / 2));
        let denial = client.denied(hurried).await;
        assert_eq!(denial.reason(), DenialReason::Held);
        client.clear_hold("d").await.unwrap();
    }
}

#[tokio::test]
async fn a_hold_binds_the_fleet_until_it_ends_or_is_cleared() {
    let service = Service::start(&policy_of_d(
        "{pushback: {scope: dependency, max: 60s, spread: 1s}, breaker: {mode: off}}",
    ))
    .await;
    let mut client = service.client().await;
    assert_eq!(
        client.clear_hold("d").await.unwrap_err().code(),
        Code::FailedPrecondition
    );
    let permit = client.granted(first("d")).await.permit;
    let told = Outcome {
        pushback: Some(seconds(30)),
        ..outcome(Throttled)
    };
    assert!(client.report(&permit, told).await.applied);
    assert_eq!(ms(client.get("d").await.held_for), 30_000.0);
    let patient = client.granted(first_of("d", "another")).await;
    assert!((30_000.0..31_000.0).contains(&ms(patient.delay)));
    let mut hurried = first_of("d", "third");
    hurried.time_left = Some(seconds(5));
    let denial = client.denied(hurried.clone()).await;
    assert_eq!(denial.reason(), DenialReason::Held);
    assert!((30_000.0..31_000.0).contains(&ms(denial.retry_after)));
    let seen = client.clear_hold("d").await.unwrap();
    assert_eq!(seen.held_for, None);
    client.granted(hurried).await;
}

#[tokio::test]
async fn orders_that_come_at_once_are_in_force_as_they_are_written_down() {
    let dir = tempfile::tempdir().unwrap();
    let setup = |at_ms| Setup {
        data_dir: Some(dir.path()),
        workers: 2,
        at_ms,
        ..Setup::default()
    };
    const NAMES: usize = 1_000;
    let service = Service::start_with(setup(0)).await;
    let on_each = [
        Client::connect(&service.urls[0]).await,
        Client::connect(&service.urls[1]).await,
    ];
    // Two workers are given opposite orders for each name, and the disk decides which is last.
    let mut orders = tokio::task::JoinSet::new();
    for n in 0..NAMES {
        for (client, kind) in [
            (&on_each[n % 2], OverrideKind::ForceOpen),
            (&on_each[1 - n % 2], OverrideKind::ForceClosed),
        ] {
            let mut client = client.clone();
            orders.spawn(async move { client.force(forced(&format!("d{n}"), kind)).await });
        }
    }
    for ended in orders.join_all().await {
        ended.unwrap();
    }
    let mut client = service.client().await;
    let mut in_force = Vec::new();
    for n in 0..NAMES {
        in_force.push(client.get(&format!("d{n}")).await.state());
    }
    drop((client, on_each));
    service.end().await;
    let service = Service::start_with(setup(1_000)).await;
    let mut client = service.client().await;
    for (n, state) in in_force.into_iter().enumerate() {
        assert_eq!(client.get(&format!("d{n}")).await.state(), state, "d{n}");
    }
}

#[tokio::test]
async fn an_order_whose_caller_went_away_is_in_force_where_it_is_on_record() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start_with(Setup {
        data_dir: Some(dir.path()),
        ..Setup::default()
    })
    .await;
    let mut client = service.client().await;
    for n in 0..60 {
        let mut request = tonic::Request::new(forced(&format!("d{n}"), OverrideKind::ForceOpen));
        request.set_timeout(Duration::from_micros(200 + n * 100));
        let _ = client.operates.set_override(request).await;
    }
    // The last one is waited for, so all that came before it has been written.
    client
        .force(forced("last", OverrideKind::ForceOpen))
        .await
        .unwrap();
    let records = service
        .coordinator
        .audit("default", 0, 1_000)
        .await
        .unwrap();
    assert!(records.len() > 1);
    for link in records {
        let seen = client.get(&link.record.dependency).await;
        assert_eq!(
            seen.state(),
            BreakerState::ForcedOpen,
            "{}",
            link.record.dependency
        );
    }
}
