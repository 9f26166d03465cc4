//! What operators are told of a dependency besides its record: denials by reason, the calendar
//! ahead, and who asks.

use holdoff_client::proto::{
    DenialReason, Dependency, GetDependencyRequest, ListDependenciesRequest, OutcomeKind,
    OverrideKind, SetOverrideRequest,
};

use crate::harness::*;

async fn followed(client: &mut Client, dependency: &str) -> Dependency {
    let request = GetDependencyRequest {
        dependency: dependency.into(),
        follow: true,
        ..Default::default()
    };
    let answer = client.operates.get_dependency(request).await.unwrap();
    answer.into_inner().dependency.unwrap()
}

#[tokio::test]
async fn denials_are_counted_by_reason_whether_anybody_looks_or_not() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let grant = client.granted(first("d")).await;
    assert!(client.get("d").await.denials.is_empty());
    // An attempt that may not be repeated.
    let unsafe_ = holdoff_client::proto::AcquireRequest {
        safety: holdoff_client::proto::Safety::Unspecified.into(),
        ..retry("d", 2, &grant.permit, OutcomeKind::Failure)
    };
    assert_eq!(
        reason_of(client.ask(unsafe_).await),
        DenialReason::RetryUnsafe
    );
    let force = SetOverrideRequest {
        dependency: "d".into(),
        kind: OverrideKind::ForceOpen.into(),
        owner: "ada".into(),
        reason: "why".into(),
        ..Default::default()
    };
    client.operates.set_override(force).await.unwrap();
    for _ in 0..3 {
        assert_eq!(
            reason_of(client.ask(first("d")).await),
            DenialReason::ForcedOpen
        );
    }
    let expected = [
        (DenialReason::ForcedOpen, 3),
        (DenialReason::RetryUnsafe, 1),
    ];
    let counts = |d: &Dependency| -> Vec<_> {
        let counts = d.denials.iter();
        counts.map(|it| (it.reason(), it.count)).collect()
    };
    assert_eq!(counts(&client.get("d").await), expected);
    let list = ListDependenciesRequest::default();
    let listed = client.operates.list_dependencies(list).await.unwrap();
    assert_eq!(counts(&listed.into_inner().dependencies[0]), expected);
}

#[tokio::test]
async fn a_planned_retry_is_told_with_its_time_and_its_part_of_the_calendar() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let grant = client.granted(first("d")).await;
    assert_eq!(client.get("d").await.planned_retries, 0);
    let again = client
        .granted(retry("d", 2, &grant.permit, OutcomeKind::Failure))
        .await;
    let delay = ms(again.delay);
    assert!(delay > 0.0, "a retry waits");
    let seen = followed(&mut client, "d").await;
    assert_eq!(seen.planned_retries, 1);
    // It holds a whole slot, which begins no later than its own time.
    assert!(ms(seen.next_planned_in) <= delay, "{seen:?}");
    assert!(seen.budget_allowed > seen.budget_left, "{seen:?}");
    let followed = seen.followed.unwrap();
    assert_eq!(followed.calendar.iter().sum::<u64>(), 1);
    assert_eq!(followed.calendar.len(), 30);
    let part = ms(followed.calendar_part);
    let at = followed
        .calendar
        .iter()
        .position(|count| *count > 0)
        .unwrap();
    assert_eq!(at as f64, (ms(seen.next_planned_in) / part).floor());
    assert!(client.get("d").await.followed.is_none(), "unasked");
}

#[tokio::test]
async fn who_asks_is_known_from_when_it_is_first_looked_at() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    client.granted(first_of("d", "unseen")).await;
    let seen = followed(&mut client, "d").await.followed.unwrap();
    assert_eq!(seen.reporters, []);
    let grant = client.granted(first_of("d", "shop-1")).await;
    service.at_ms(2_000);
    client.granted(first_of("d", "shop-2")).await;
    let report = holdoff_client::proto::ReportRequest {
        caller: caller("shop-1"),
        entries: vec![result(&grant.permit, outcome(OutcomeKind::Failure))],
        ..Default::default()
    };
    client.asks.report(report).await.unwrap();
    service.at_ms(5_000);
    client.granted(first_of("d", "shop-2")).await;
    let seen = followed(&mut client, "d").await.followed.unwrap();
    assert_eq!(ms(seen.followed_for), 5_000.0);
    let told: Vec<_> = (seen.reporters.iter())
        .map(|it| {
            let names = (&*it.service, &*it.instance);
            (names, ms(it.heard_ago), (it.granted, it.failed))
        })
        .collect();
    assert_eq!(
        told,
        [
            (("tests", "shop-2"), 0.0, (2, 0)),
            (("tests", "shop-1"), 3_000.0, (1, 1)),
        ]
    );
}
