//! Names come from outside: what there is of them is bounded. And what readers are shown is
//! true.

use holdoff::policy::Source;
use holdoff_client::proto::{
    BreakerState, ListDependenciesRequest, OutcomeKind, OverrideKind, WatchEventsRequest,
};
use holdoff_decision::Nanos;
use tonic::Code;
use tonic_types::StatusExt;

use crate::{harness::*, overrides::forced};

use OutcomeKind::{Failure, Success};

#[tokio::test]
async fn b35a_a_flood_of_names_fills_the_table_and_no_more() {
    let service =
        Service::start("version: 1\nnamespaces: {default: {max_dependencies: 1000}}").await;
    let mut client = service.client().await;
    let (mut granted, mut refused) = (0, 0);
    for n in 0..5_000 {
        match client.asks.acquire(first(&format!("name-{n}"))).await {
            Ok(_) => granted += 1,
            Err(status) => {
                assert_eq!(status.code(), Code::ResourceExhausted);
                let details = status.get_error_details();
                assert!(details.error_info().is_some() && details.retry_info().is_some());
                assert!(status.message().contains("1000"), "{}", status.message());
                refused += 1;
            }
        }
    }
    assert_eq!((granted, refused), (1000, 4000));
    assert_eq!(service.coordinator.dependencies(), 1000);
    // Those that are there are served as before.
    client.granted(first("name-0")).await;
    service.at_ms(3_600_000);
    assert_eq!(
        service.coordinator.drop_idle_once(Nanos::from_secs(600)),
        1000
    );
    assert_eq!(service.coordinator.dependencies(), 0);
    client.granted(first("name-4999")).await;
}

#[tokio::test]
async fn b35b_only_what_is_closed_and_idle_is_dropped() {
    let service = Service::start(
        "version: 1\nnamespaces: {default: {max_dependencies: 5, defaults: {breaker: \
         {window: 10, min_calls: 5, open_for: 10s}, pushback: {scope: dependency}}}}",
    )
    .await;
    let mut client = service.client().await;
    client.trip("open", 5).await;
    client.trip("half-open", 5).await;
    client
        .force(forced("forced-open", OverrideKind::ForceOpen))
        .await
        .unwrap();
    client
        .force(forced("forced-closed", OverrideKind::ForceClosed))
        .await
        .unwrap();
    client.call("closed", Success).await;
    service.at_ms(3_600_000);
    // One of the two has its probe out.
    assert!(client.granted(first("half-open")).await.probe);
    service.at_ms(7_200_000);
    assert_eq!(service.coordinator.drop_idle_once(Nanos::from_secs(600)), 1);
    for (name, state) in [
        ("open", BreakerState::HalfOpen),
        ("half-open", BreakerState::HalfOpen),
        ("forced-open", BreakerState::ForcedOpen),
        ("forced-closed", BreakerState::ForcedClosed),
    ] {
        let seen = client.get(name).await;
        assert_eq!((seen.state(), seen.live), (state, true), "{name}");
    }
    // Its successor's epoch exceeds that of all that were dropped.
    client.granted(first("new")).await;
    assert_eq!(
        client.refused(first("newer")).await.code(),
        Code::ResourceExhausted
    );
}

#[tokio::test]
async fn b35c_no_room_at_all_is_refused_where_it_is_written() {
    for limit in ["0", "-1", "0.5", "many"] {
        let text = format!("version: 1\nnamespaces: {{default: {{max_dependencies: {limit}}}}}");
        let refused = holdoff::policy::PolicySet::load(&[source(&text)], &[]).unwrap_err();
        let finding = refused[0].to_string();
        assert!(finding.contains("max_dependencies"), "{finding}");
    }
}

const OPENS: &str = "{breaker: {window: 10, min_calls: 5, open_for: 10s}}";

#[tokio::test]
async fn b37a_reading_shows_half_open_and_changes_nothing() {
    let service = Service::start(&policy_of_d(OPENS)).await;
    let mut client = service.client().await;
    client.trip("d", 5).await;
    let opened = client.get("d").await;
    service.at_ms(60_000);
    for _ in 0..3 {
        let seen = client.get("d").await;
        assert_eq!(
            (seen.state(), seen.epoch),
            (BreakerState::HalfOpen, opened.epoch)
        );
        assert_eq!(ms(seen.in_state_for), 50_000.0, "awaiting a probe since 10");
        assert_eq!((seen.probes_out, seen.open_for), (0, None));
        let listed = client
            .operates
            .list_dependencies(ListDependenciesRequest {
                states: vec![BreakerState::HalfOpen.into()],
                ..Default::default()
            })
            .await
            .unwrap();
        assert_eq!(listed.into_inner().dependencies, [seen]);
    }
    let answer = client.ask(first("d")).await;
    assert_eq!(answer.epoch, opened.epoch + 1);
    assert!(grant_of(answer).probe);
}

#[tokio::test]
async fn b37c_an_open_period_between_two_looks_is_counted_and_told() {
    let service = Service::start(&policy_of_d(
        "{breaker: {window: 10, min_calls: 5, open_for: 50ms, probe_lease: 50ms, \
          probe_successes: 1}}",
    ))
    .await;
    let mut client = service.client().await;
    let mut told = client
        .operates
        .watch_events(WatchEventsRequest::default())
        .await
        .unwrap()
        .into_inner();
    let series = "holdoff_transitions_total{from=\"closed\",to=\"open\"}";
    let count = |service: &Service| {
        let text = service.coordinator.telemetry().exposition();
        let line = text.lines().find(|line| line.starts_with(series)).unwrap();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(count(&service), 0);
    client.trip("d", 5).await;
    service.at_ms(50);
    client.call("d", Success).await;
    assert_eq!(client.get("d").await.state(), BreakerState::Closed);
    assert_eq!(count(&service), 1);
    let mut kinds = Vec::new();
    while kinds.len() < 3 {
        let event = told.message().await.unwrap().unwrap().event.unwrap();
        if event.dependency == "d" {
            kinds.push((event.from(), event.to()));
        }
    }
    use BreakerState::{Closed, HalfOpen, Open};
    assert_eq!(
        kinds,
        [(Closed, Open), (Open, HalfOpen), (HalfOpen, Closed)]
    );
}

#[tokio::test]
async fn b37d_counters_go_on_over_a_new_policy_and_a_removed_name() {
    let service = Service::start(&policy_of_d(OPENS)).await;
    let mut client = service.client().await;
    client.trip("d", 5).await;
    let before = service.coordinator.telemetry().exposition();
    let sources: Vec<Source> = vec![source("version: 1")];
    service.coordinator.reload(Ok(sources)).await;
    let after = service.coordinator.telemetry().exposition();
    let value = |text: &str, name: &str| {
        let line = text
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap()
            .to_owned();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    for line in before.lines().filter(|line| !line.starts_with('#')) {
        let name = line.rsplit_once(' ').unwrap().0;
        assert!(value(&after, name) >= value(&before, name), "{name}");
    }
    assert_eq!(
        client.get("d").await.state(),
        BreakerState::Open,
        "the reload kept it open"
    );
}

#[tokio::test]
async fn b37e_no_name_of_a_client_is_ever_a_label() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let lines = |service: &Service| service.coordinator.telemetry().exposition().lines().count();
    let before = lines(&service);
    for n in 0..2_000 {
        let mut asked = first_of(&format!("flood-{n}"), &format!("instance-{n}"));
        asked.call_id = format!("call-{n}");
        client.granted(asked).await;
    }
    client.call("flood-1", Failure).await;
    assert_eq!(lines(&service), before);
    let text = service.coordinator.telemetry().exposition();
    for secret in ["flood", "instance-", "call-", "tests", "127.0.0.1"] {
        assert!(!text.contains(secret), "{secret}");
    }
}
