//! What operators see and do.

use std::collections::BTreeSet;

use holdoff_client::proto::{
    BreakerState, CheckPolicyRequest, ClearHoldRequest, DeletePolicyRequest, EventKind,
    FindingSeverity, GetDependencyRequest, GetPolicyRequest, ListAuditRequest,
    ListDependenciesRequest, ListEventsRequest, ListPoliciesRequest, Outcome, OutcomeKind,
    OverrideKind, Policy, PolicySource, PutPolicyRequest, WatchDependenciesRequest,
    WatchEventsRequest, watch_dependencies_response::Change,
};
use holdoff_decision::Nanos;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::{harness::*, overrides::forced};

use OutcomeKind::Success;

const OPENS: &str = "{breaker: {window: 10, min_calls: 5, open_for: 10s}}";

impl Client {
    /// The names on all pages, and how many pages there were.
    async fn listed(&mut self, mut request: ListDependenciesRequest) -> (Vec<String>, usize) {
        let (mut names, mut pages) = (Vec::new(), 0);
        loop {
            let page = self
                .operates
                .list_dependencies(request.clone())
                .await
                .unwrap()
                .into_inner();
            names.extend(
                page.dependencies
                    .into_iter()
                    .map(|dependency| dependency.name),
            );
            pages += 1;
            if page.next_page_token.is_empty() {
                return (names, pages);
            }
            request.page_token = page.next_page_token;
        }
    }

    async fn put(&mut self, name: &str, document: &str) -> Result<Policy, Status> {
        let request = PutPolicyRequest {
            name: name.into(),
            document: document.into(),
            owner: "ada".into(),
            reason: "less load".into(),
            ..Default::default()
        };
        Ok(self
            .operates
            .put_policy(request)
            .await?
            .into_inner()
            .policy
            .unwrap())
    }

    async fn policies(&mut self) -> Vec<Policy> {
        self.policies_by(0).await.0
    }

    /// All policies, and in how many pages of this size they came.
    async fn policies_by(&mut self, page_size: u32) -> (Vec<Policy>, usize) {
        let mut request = ListPoliciesRequest {
            page_size,
            ..Default::default()
        };
        let mut policies = Vec::new();
        for pages in 1.. {
            let page = self.operates.list_policies(request.clone()).await;
            let page = page.unwrap().into_inner();
            policies.extend(page.policies);
            if page.next_page_token.is_empty() {
                return (policies, pages);
            }
            request.page_token = page.next_page_token;
        }
        panic!("pages without an end")
    }

    async fn resolved(&mut self, dependency: &str, field: &str) -> (String, String) {
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
        let value = policy
            .values
            .into_iter()
            .find(|value| value.field == field)
            .unwrap();
        (value.value, value.origin)
    }

    async fn events(&mut self) -> Vec<(EventKind, String)> {
        let request = ListEventsRequest {
            page_size: 1000,
            ..Default::default()
        };
        let events = self
            .operates
            .list_events(request)
            .await
            .unwrap()
            .into_inner()
            .events;
        events
            .into_iter()
            .map(|event| (event.kind(), event.dependency.clone()))
            .collect()
    }
}

#[tokio::test]
async fn policies_are_listed_once_each_in_pages_of_any_size_the_defaults_first() {
    let names: Vec<String> = (0..250).map(|n| format!("p-{n:03}")).collect();
    let entries: Vec<String> = names.iter().map(|name| format!("{name}: {{}}")).collect();
    let service = Service::start(&format!(
        "version: 1\nnamespaces: {{default: {{defaults: {{retry: {{max_attempts: 4}}}}, \
         dependencies: {{'p-*': {{}}, {}}}}}}}",
        entries.join(", ")
    ))
    .await;
    let mut client = service.client().await;
    let mut expected = vec![String::new(), "p-*".to_owned()];
    expected.extend(names);
    for (page_size, pages) in [(0, 3), (1, 252), (84, 3), (251, 2), (252, 1), (1000, 1)] {
        let (policies, in_pages) = client.policies_by(page_size).await;
        let listed: Vec<String> = policies.into_iter().map(|policy| policy.name).collect();
        assert_eq!((listed, in_pages), (expected.clone(), pages), "{page_size}");
    }
    // One that goes between two pages is no end of them.
    let request = ListPoliciesRequest {
        page_token: "after:p-0999".into(),
        page_size: 1,
        ..Default::default()
    };
    let page = client
        .operates
        .list_policies(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(page.policies[0].name, "p-100");
}

#[tokio::test]
async fn the_command_line_follows_the_pages_of_policies() {
    const COUNT: usize = 1_100;
    let entries: Vec<String> = (0..COUNT).map(|n| format!("p-{n}: {{}}")).collect();
    let service = Service::start(&format!(
        "version: 1\nnamespaces: {{default: {{dependencies: {{{}}}}}}}",
        entries.join(", ")
    ))
    .await;
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_holdoff"));
    command.args([
        "policy",
        "list",
        "--output",
        "json",
        "--server",
        &service.urls[0],
    ]);
    let listed = tokio::task::spawn_blocking(move || command.output().unwrap());
    let listed = listed.await.unwrap();
    assert!(listed.status.success(), "{listed:?}");
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["policies"].as_array().unwrap().len(), COUNT);
    assert_eq!(listed["nextPageToken"], "", "there is no further page");
}

#[tokio::test]
async fn large_policies_are_listed_in_pages_that_every_client_can_read() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    for n in 0..70 {
        let request = PutPolicyRequest {
            name: format!("p-{n:02}"),
            document: format!("# {}\nretry: {{max_attempts: 4}}\n", "x".repeat(64_000)),
            owner: "ada".into(),
            ..Default::default()
        };
        client.operates.put_policy(request).await.unwrap();
    }
    let (policies, pages) = client.policies_by(1000).await;
    assert_eq!((policies.len(), pages), (70, 3));
}

#[tokio::test]
async fn fifteen_hundred_dependencies_are_listed_once_each_in_pages_of_any_size() {
    let service = Service::start(
        "version: 1\nnamespaces: {default: {dependencies: {n-0001: {}, n-dead: {}, 'p:*': {}}}}",
    )
    .await;
    let mut client = service.client().await;
    let mut expected = BTreeSet::from(["n-dead".to_owned()]);
    for n in 0..1500 {
        let name = format!("{}-{n:04}", if n % 3 == 0 { "m" } else { "n" });
        client.granted(first(&name)).await;
        expected.insert(name);
    }
    let expected: Vec<String> = expected.into_iter().collect();
    for (page_size, pages) in [(100, 16), (1000, 2), (0, 16)] {
        let request = ListDependenciesRequest {
            page_size,
            ..Default::default()
        };
        assert_eq!(
            client.listed(request).await,
            (expected.clone(), pages),
            "{page_size}"
        );
    }
    let request = ListDependenciesRequest {
        page_size: 1,
        name_prefix: "m-00".into(),
        ..Default::default()
    };
    let (names, pages) = client.listed(request).await;
    assert_eq!((names.len(), pages), (34, 34));
    assert!(names.iter().all(|name| name.starts_with("m-00")));
    let none = ListDependenciesRequest {
        name_prefix: "zz".into(),
        ..Default::default()
    };
    assert_eq!(client.listed(none).await, (Vec::new(), 1));
}

#[tokio::test]
async fn a_list_is_filtered_by_state_and_shows_what_only_a_policy_names() {
    let policies = format!(
        "version: 1\nnamespaces: {{default: {{defaults: {OPENS}, dependencies: {{dead: {{}}}}}}}}"
    );
    let service = Service::start(&policies).await;
    let mut client = service.client().await;
    client.trip("open", 5).await;
    client.call("closed", Success).await;
    client
        .force(forced("shut", OverrideKind::ForceOpen))
        .await
        .unwrap();
    for (states, names) in [
        (vec![BreakerState::Open], vec!["open"]),
        (vec![BreakerState::Closed], vec!["closed", "dead"]),
        (
            vec![BreakerState::ForcedOpen, BreakerState::Open],
            vec!["open", "shut"],
        ),
        (vec![], vec!["closed", "dead", "open", "shut"]),
        (vec![BreakerState::HalfOpen], vec![]),
    ] {
        let request = ListDependenciesRequest {
            states: states.into_iter().map(Into::into).collect(),
            ..Default::default()
        };
        assert_eq!(client.listed(request).await.0, names);
    }
    let dead = client.get("dead").await;
    assert_eq!((dead.live, dead.state()), (false, BreakerState::Closed));
    let request = GetDependencyRequest {
        dependency: "none".into(),
        ..Default::default()
    };
    let status = client.operates.get_dependency(request).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}

#[tokio::test]
async fn a_page_of_the_longest_entries_can_be_read_by_every_client() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    for n in 0..1000 {
        let mut order = forced(&format!("{n:0>200}"), OverrideKind::ForceOpen);
        order.owner = "o".repeat(200);
        order.reason = "r".repeat(1000);
        client.force(order).await.unwrap();
    }
    let request = ListDependenciesRequest {
        page_size: 1000,
        ..Default::default()
    };
    assert_eq!(client.listed(request).await.0.len(), 1000);
    let request = ListEventsRequest {
        page_size: 1000,
        ..Default::default()
    };
    client.operates.list_events(request).await.unwrap();
    let filler = "#".repeat(60_000);
    for n in 0..20 {
        client
            .put(
                &format!("p{n}"),
                &format!("retry: {{max_attempts: 2}}\n{filler}"),
            )
            .await
            .unwrap();
    }
    let mut request = ListAuditRequest {
        page_size: 1000,
        ..Default::default()
    };
    let mut sequences = Vec::new();
    loop {
        let page = client
            .operates
            .list_audit(request.clone())
            .await
            .unwrap()
            .into_inner();
        sequences.extend(page.records.iter().map(|record| record.sequence));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(sequences, (1..=1020).collect::<Vec<u64>>());
    assert_eq!(client.policies().await.len(), 20);
}

#[tokio::test]
async fn a_watch_begins_with_all_there_is_and_goes_on_with_each_change() {
    let policies = format!(
        "version: 1\nnamespaces: {{default: {{defaults: {OPENS}, dependencies: {{w-dead: {{}}}}}}}}"
    );
    let service = Service::start(&policies).await;
    let mut client = service.client().await;
    client.call("w-a", Success).await;
    client.call("x", Success).await;
    let request = WatchDependenciesRequest {
        name_prefix: "w-".into(),
        ..Default::default()
    };
    let mut watched = client
        .operates
        .watch_dependencies(request)
        .await
        .unwrap()
        .into_inner();
    let mut initial = Vec::new();
    loop {
        match watched.message().await.unwrap().unwrap().change.unwrap() {
            Change::Dependency(dependency) => initial.push(dependency.name),
            Change::Synced(true) => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(initial, ["w-a", "w-dead"]);
    // Four failures after one success: five calls, of which 80 % failed.
    client.trip("x", 4).await;
    client.trip("w-a", 4).await;
    match watched.message().await.unwrap().unwrap().change.unwrap() {
        Change::Dependency(dependency) => {
            assert_eq!(
                (dependency.name.as_str(), dependency.state()),
                ("w-a", BreakerState::Open)
            );
        }
        other => panic!("{other:?}"),
    }
    // What is gone from memory is gone, unless a policy names it.
    client.reset("w-a").await.unwrap();
    client.call("w-dead", Success).await;
    service.at_ms(3_600_000);
    service.coordinator.drop_idle_once(Nanos::from_secs(600));
    let (mut removed, mut dead) = (false, false);
    while !(removed && dead) {
        match watched.message().await.unwrap().unwrap().change.unwrap() {
            Change::Removed(name) => {
                assert_eq!(name, "w-a");
                removed = true;
            }
            Change::Dependency(dependency) if dependency.name == "w-dead" => {
                assert!(!dependency.live);
                dead = true;
            }
            Change::Dependency(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_slow_watcher_gets_the_latest_state_and_not_every_step() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let mut slow = service.client().await;
    client.call("d", Success).await;
    let request = WatchDependenciesRequest::default();
    let mut watched = slow
        .operates
        .watch_dependencies(request)
        .await
        .unwrap()
        .into_inner();
    let mut last = 0;
    for _ in 0..3_000 {
        last = client.reset("d").await.unwrap().epoch;
    }
    let mut changes = 0;
    loop {
        if let Change::Dependency(dependency) =
            watched.message().await.unwrap().unwrap().change.unwrap()
        {
            changes += 1;
            if dependency.epoch == last {
                break;
            }
        }
    }
    assert!(changes <= 3_001, "{changes}");
}

#[tokio::test]
async fn events_are_listed_by_age_and_watched_and_a_slow_reader_is_told_what_it_missed() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let mut slow = service.client().await;
    let mut watched = slow
        .operates
        .watch_events(WatchEventsRequest::default())
        .await
        .unwrap()
        .into_inner();
    client
        .force(forced("old", OverrideKind::ForceOpen))
        .await
        .unwrap();
    service.at_ms(3_600_000);
    client
        .force(forced("new", OverrideKind::ForceOpen))
        .await
        .unwrap();
    let event = watched.message().await.unwrap().unwrap().event.unwrap();
    assert_eq!(
        (event.dependency.as_str(), event.owner.as_str()),
        ("old", "ada")
    );
    assert_eq!(
        (event.from(), event.to()),
        (BreakerState::Closed, BreakerState::ForcedOpen)
    );
    assert!(event.detail.contains("maintenance"));
    watched.message().await.unwrap().unwrap();
    // A listing is of what has been published, which the watch has just shown.
    let of_last = |span| ListEventsRequest {
        since: Some(seconds(span)),
        ..Default::default()
    };
    for (span, names) in [(60, vec!["new"]), (7200, vec!["", "old", "new"])] {
        let listed = client
            .operates
            .list_events(of_last(span))
            .await
            .unwrap()
            .into_inner();
        let seen: Vec<_> = listed
            .events
            .iter()
            .map(|event| event.dependency.as_str())
            .collect();
        assert_eq!(seen, names);
    }
    let newest = ListEventsRequest {
        page_size: 1,
        ..Default::default()
    };
    let newest = client
        .operates
        .list_events(newest)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(newest.events.len(), 1);
    assert_eq!(newest.events[0].dependency, "new");
    let replay = WatchEventsRequest {
        since: Some(seconds(60)),
        ..Default::default()
    };
    let mut replayed = client
        .operates
        .watch_events(replay)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        replayed
            .message()
            .await
            .unwrap()
            .unwrap()
            .event
            .unwrap()
            .dependency,
        "new"
    );

    // Far more than the transport and the queues hold, before the slow reader reads again.
    let mut order = forced("d", OverrideKind::ForceOpen);
    order.reason = "r".repeat(1000);
    for _ in 0..4_000 {
        client.force(order.clone()).await.unwrap();
    }
    let end = client
        .force(forced("end", OverrideKind::ForceOpen))
        .await
        .unwrap();
    let (mut seen, mut missed, mut sequence) = (0, 0, 0);
    loop {
        let next = watched.message().await.unwrap().unwrap();
        let event = next.event.unwrap();
        assert!(event.sequence > sequence);
        sequence = event.sequence;
        seen += 1;
        missed += next.missed;
        if event.dependency == end.name {
            break;
        }
    }
    assert_eq!(seen + missed, 4_001);
    assert!(missed > 0, "nothing was missed: the reader was not slow");
}

#[tokio::test]
async fn an_override_that_ends_is_told_without_a_caller() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let mut watched = client
        .operates
        .watch_events(WatchEventsRequest {
            dependency: "d".into(),
            ..Default::default()
        })
        .await
        .unwrap()
        .into_inner();
    let mut order = forced("d", OverrideKind::ForceOpen);
    order.expires_in = Some(seconds(10));
    client.force(order).await.unwrap();
    service.at_ms(9_999);
    service.coordinator.end_overrides_once().await;
    assert_eq!(client.get("d").await.state(), BreakerState::ForcedOpen);
    service.at_ms(10_000);
    service.coordinator.end_overrides_once().await;
    let mut kinds = Vec::new();
    for _ in 0..2 {
        kinds.push(
            watched
                .message()
                .await
                .unwrap()
                .unwrap()
                .event
                .unwrap()
                .kind(),
        );
    }
    assert_eq!(kinds, [EventKind::OverrideSet, EventKind::OverrideExpired]);
}

#[tokio::test]
async fn a_policy_that_is_put_holds_at_once_over_the_file_and_goes_when_it_is_deleted() {
    let service = Service::start(&policy_of_d("{retry: {max_attempts: 4}}")).await;
    let mut client = service.client().await;
    client.granted(first("d")).await;
    let stored = client.put("d", "{retry: {max_attempts: 7}}").await.unwrap();
    assert_eq!(
        (stored.source(), stored.name.as_str()),
        (PolicySource::Api, "d")
    );
    assert_eq!(client.resolved("d", "retry.max_attempts").await.0, "7");
    assert_eq!(client.resolved("e", "retry.max_attempts").await.0, "3");
    let sources: Vec<_> = client
        .policies()
        .await
        .iter()
        .map(|p| (p.name.clone(), p.source()))
        .collect();
    assert!(
        sources.contains(&("d".to_owned(), PolicySource::Api)),
        "{sources:?}"
    );
    let request = DeletePolicyRequest {
        name: "d".into(),
        owner: "ada".into(),
        ..Default::default()
    };
    client
        .operates
        .delete_policy(request.clone())
        .await
        .unwrap();
    let (value, origin) = client.resolved("d", "retry.max_attempts").await;
    assert_eq!(value, "4");
    assert!(origin.contains("policies.yaml:"), "{origin}");
    let status = client.operates.delete_policy(request).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    let request = ListAuditRequest::default();
    let audit = client
        .operates
        .list_audit(request)
        .await
        .unwrap()
        .into_inner()
        .records;
    let actions: Vec<_> = audit.iter().map(|record| record.action.as_str()).collect();
    assert_eq!(actions, ["PutPolicy", "DeletePolicy"]);
}

#[tokio::test]
async fn a_refused_policy_leaves_everything_as_it_was() {
    let service = Service::start(&policy_of_d("{retry: {max_attempts: 4}}")).await;
    let mut client = service.client().await;
    client.granted(first("d")).await;
    let before = (
        client.policies().await,
        client.get("d").await,
        client.events().await,
    );
    let endless = format!(
        "retry: {{{}}}",
        (0..3000)
            .map(|n| format!("f{n}: 1"))
            .collect::<Vec<_>>()
            .join(", ")
    );
    for (name, document, names) in [
        ("d", "{retry: {max_attempts: 0}}", "max_attempts"),
        ("d", "{retry: {max_attempts: 1001}}", "max_attempts"),
        ("d", "{retry: {initial_delay: 20s}}", "initial_delay"),
        ("d", "{retry: {initial_delay: -1s}}", "initial_delay"),
        ("d", "{unheard_of: 1}", "unheard_of"),
        ("d", "{budget: {ratio: .nan}}", "ratio"),
        ("d", "{budget: {ratio: -0.1}}", "ratio"),
        ("d", "{breaker: {window: 10, min_calls: 20}}", "min_calls"),
        ("", "{breaker: {probes: 0}}", "probes"),
        ("x*", "[1, 2]", ""),
        ("d", "{", ""),
        ("d", "{retry: 5}", "retry"),
        ("d", &endless, "f0"),
    ] {
        let status = client.put(name, document).await.unwrap_err();
        assert_eq!(
            status.code(),
            Code::InvalidArgument,
            "{document:.60}: {status:?}"
        );
        assert!(
            status.message().contains(names),
            "{document:.60}: {}",
            status.message()
        );
        let details = status.get_error_details();
        assert!(details.error_info().is_some(), "{document:.60}");
        assert!(
            !details.bad_request().unwrap().field_violations.is_empty(),
            "{document:.60}"
        );
    }
    let after = (
        client.policies().await,
        client.get("d").await,
        client.events().await,
    );
    assert_eq!(after, before);
    let audit = client
        .operates
        .list_audit(ListAuditRequest::default())
        .await
        .unwrap();
    assert_eq!(audit.into_inner().records, []);
}

#[tokio::test]
async fn a_good_reload_keeps_an_open_breaker_open_until_its_time() {
    let service = Service::start(&policy_of_d(OPENS)).await;
    let mut client = service.client().await;
    client.trip("d", 5).await;
    let opened = client.get("d").await;
    client
        .put(
            "d",
            "{breaker: {window: 10, min_calls: 5, open_for: 3s, probe_successes: 1}}",
        )
        .await
        .unwrap();
    service.at_ms(9_999);
    let seen = client.get("d").await;
    assert_eq!(
        (seen.state(), seen.epoch),
        (BreakerState::Open, opened.epoch)
    );
    service.at_ms(10_000);
    let probe = client.granted(first("d")).await;
    assert!(probe.probe);
    // The next period is the new one's.
    client.reported(&probe.permit, OutcomeKind::Failure).await;
    let open_for = ms(client.get("d").await.open_for);
    assert!((3_000.0..=6_000.0).contains(&open_for), "{open_for}");
}

#[tokio::test]
async fn a_bad_reload_changes_nothing_is_counted_and_shown() {
    let service = Service::start(&policy_of_d("{retry: {max_attempts: 4}}")).await;
    let mut client = service.client().await;
    let mut watched = client
        .operates
        .watch_events(WatchEventsRequest::default())
        .await
        .unwrap()
        .into_inner();
    service
        .coordinator
        .reload(Ok(vec![source("version: 1\nnamespaces: 7")]))
        .await;
    let event = watched.message().await.unwrap().unwrap().event.unwrap();
    assert_eq!(event.kind(), EventKind::PoliciesRefused);
    assert!(event.detail.contains("policies.yaml:2"), "{}", event.detail);
    assert_eq!(client.resolved("d", "retry.max_attempts").await.0, "4");
    let text = service.coordinator.telemetry().exposition();
    assert!(text.contains("holdoff_policy_reloads_total{result=\"refused\"} 1"));
}

#[tokio::test]
async fn a_check_finds_what_would_be_refused_and_stores_nothing() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let mut check = async |document: &str| {
        let request = CheckPolicyRequest {
            document: document.into(),
            ..CheckPolicyRequest::default()
        };
        client
            .operates
            .check_policy(request)
            .await
            .unwrap()
            .into_inner()
            .findings
    };
    assert_eq!(check("version: 1").await, []);
    let findings =
        check("version: 1\nnamespaces:\n  default:\n    defaults:\n      retry: {max_attempts: 0}")
            .await;
    assert_eq!(findings[0].severity(), FindingSeverity::Error);
    assert_eq!(findings[0].line, 5);
    assert!(
        findings[0].field.ends_with("retry.max_attempts"),
        "{}",
        findings[0].field
    );
    // Very many findings, each very long, are still an answer.
    let long = "x".repeat(1_000);
    let many = (0..190)
        .map(|n| format!("{long}{n}: 1"))
        .collect::<Vec<_>>()
        .join("\n");
    assert!(!check(&format!("version: 1\n{many}")).await.is_empty());
    assert_eq!(client.policies().await, []);
}

#[tokio::test]
async fn the_audit_log_is_read_in_pages_without_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::start_with(Setup {
        data_dir: Some(dir.path()),
        ..Setup::default()
    })
    .await;
    let mut client = service.client().await;
    for n in 0..25 {
        client
            .force(forced(&format!("d{n}"), OverrideKind::ForceOpen))
            .await
            .unwrap();
    }
    for page_size in [1, 10, 1000] {
        let mut request = ListAuditRequest {
            page_size,
            ..Default::default()
        };
        let mut records = Vec::new();
        loop {
            let page = client
                .operates
                .list_audit(request.clone())
                .await
                .unwrap()
                .into_inner();
            assert!(page.records.len() <= page_size as usize);
            records.extend(page.records);
            if page.next_page_token.is_empty() {
                break;
            }
            request.page_token = page.next_page_token;
        }
        let sequences: Vec<u64> = records.iter().map(|record| record.sequence).collect();
        assert_eq!(sequences, (1..=25).collect::<Vec<_>>());
        let hashes: BTreeSet<_> = records.iter().map(|record| record.hash.clone()).collect();
        assert_eq!(hashes.len(), 25);
        assert!(
            records
                .iter()
                .all(|record| record.owner == "ada" && record.action == "SetOverride")
        );
    }
}

#[tokio::test]
async fn whether_the_whole_log_holds_is_told_and_nothing_else_of_other_namespaces() {
    let service = Service::start("version: 1\nnamespaces: {shop: {}, default: {}}").await;
    let mut client = service.client().await;
    for namespace in ["default", "shop", "default", "shop", "default"] {
        let mut order = forced("d", OverrideKind::ForceOpen);
        order.namespace = namespace.into();
        client.force(order).await.unwrap();
    }
    let mut request = ListAuditRequest {
        namespace: "shop".into(),
        ..Default::default()
    };
    let plain = client.operates.list_audit(request.clone()).await.unwrap();
    assert_eq!(plain.into_inner().chain, None);
    request.verify = true;
    let told = client.operates.list_audit(request).await.unwrap();
    let told = told.into_inner();
    let sequences: Vec<u64> = told.records.iter().map(|it| it.sequence).collect();
    assert_eq!(sequences, [2, 4]);
    assert!(told.records.iter().all(|it| it.namespace == "shop"));
    let chain = told.chain.unwrap();
    assert_eq!(
        (chain.intact, chain.intact_of_namespace, chain.head_sequence),
        (5, 2, 5)
    );
    assert_eq!((chain.head_hash.len(), chain.broken.as_str()), (64, ""));
    let all = ListAuditRequest::default();
    let all = client.operates.list_audit(all).await.unwrap().into_inner();
    assert_eq!(all.records[2].hash, chain.head_hash);
    assert_eq!(told.records[0].hash_before, all.records[0].hash);
    assert_eq!(all.records[0].hash_before, "00".repeat(32));
}

/// Real time, since the socket's own behaviour is what is tested.
#[tokio::test]
async fn an_answer_of_two_packets_is_not_held_back() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let mut order = forced("d", OverrideKind::ForceOpen);
    order.reason = "r".repeat(1000);
    let began = std::time::Instant::now();
    for _ in 0..50 {
        client.force(order.clone()).await.unwrap();
    }
    // With Nagle's algorithm against delayed acknowledgements it is 40 ms each.
    assert!(began.elapsed().as_millis() < 1_000, "{:?}", began.elapsed());
}

/// One `Retry-After` of 20 s reaches several callers within a second, and each tells of it.
#[tokio::test]
async fn a_hold_is_told_once_and_again_only_where_it_lasts_a_second_longer() {
    let service = Service::start(&policy_of_d("{pushback: {scope: dependency}}")).await;
    let mut client = service.client().await;
    let throttled = |wait| Outcome {
        pushback: Some(seconds(wait)),
        ..outcome(OutcomeKind::Throttled)
    };
    let mut grants = Vec::new();
    for _ in 0..8 {
        grants.push(client.granted(first("d")).await.permit);
    }
    let holds = async |client: &mut Client| {
        let events = client.events().await;
        let held = events.iter().filter(|(kind, _)| *kind == EventKind::Held);
        held.count()
    };
    let mut grants = grants.iter();
    let mut next = || grants.next().unwrap();
    client.report(next(), throttled(20)).await;
    // The same answer, told later: by a report, and by the question for a retry.
    service.at_ms(5);
    client.report(next(), throttled(20)).await;
    service.at_ms(400);
    client.ask(retry_after("d", 2, next(), throttled(20))).await;
    assert_eq!(holds(&mut client).await, 1);
    assert!(
        ms(client.get("d").await.held_for) >= 20_000.0,
        "it is prolonged all the same"
    );
    service.at_ms(1_100);
    client.report(next(), throttled(20)).await;
    assert_eq!(holds(&mut client).await, 2, "1.1 s longer than was told");
    service.at_ms(30_000);
    client.report(next(), throttled(2)).await;
    assert_eq!(holds(&mut client).await, 3, "the one before is over");

    let clear = ClearHoldRequest {
        dependency: "d".into(),
        owner: "ada".into(),
        reason: "why".into(),
        ..Default::default()
    };
    client.operates.clear_hold(clear).await.unwrap();
    client.report(next(), throttled(2)).await;
    assert_eq!(holds(&mut client).await, 4, "the one before was ended");
}
