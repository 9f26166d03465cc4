//! Whatever is sent: a status that names the thing, and a state that has not moved.

#![allow(
    clippy::needless_update,
    reason = "messages with one field and messages with many are made by one macro"
)]

use std::io::{Read, Write};

use holdoff_client::proto::{
    AcquireRequest, Caller, ClearHoldRequest, ClearOverrideRequest, DeletePolicyRequest,
    DenialReason, GetDependencyRequest, GetPolicyRequest, ListAuditRequest,
    ListDependenciesRequest, ListEventsRequest, ListPoliciesRequest, Outcome, OutcomeKind,
    PermitResult, Previous, PutPolicyRequest, ReportEntry, ReportReason, ReportRequest,
    ResetDependencyRequest, Safety, Tally, WatchDependenciesRequest, WatchEventsRequest,
    previous::MadeUnder, report_entry::Entry,
};
use prost_types::Duration;
use tonic::Code;
use tonic_types::StatusExt;

use crate::{harness::*, overrides::forced};

use OutcomeKind::{Failure, Success};

/// Names that are none: empty, too long, other letters, letters that look like ours.
fn bad_names() -> Vec<String> {
    let mut names: Vec<String> = [
        "",
        " ",
        "a b",
        "a\n",
        "a\0b",
        "päyments",
        "a*",
        "*",
        "a,b",
        "a?",
        "{}",
        "а",
        "\u{202e}a",
    ]
    .map(Into::into)
    .to_vec();
    names.push("n".repeat(201));
    names.push("n".repeat(100_000));
    names
}

/// Spans that are none, or none that a deadline can be.
fn bad_spans() -> Vec<Duration> {
    [
        (-1, 0),
        (0, -1),
        (-1, -999_999_999),
        (1, -1),
        (-1, 1),
        (0, 1_000_000_000),
        (0, i32::MAX),
        (0, i32::MIN),
        (i64::MIN, 0),
        (i64::MIN, i32::MIN),
    ]
    .map(|(seconds, nanos)| Duration { seconds, nanos })
    .to_vec()
}

fn good_retry(permit: &[u8]) -> AcquireRequest {
    AcquireRequest {
        caller: caller("one"),
        ..retry("d", 2, permit, Failure)
    }
}

/// Every way in which one field of a question makes no sense.
fn bad_questions(permit: &[u8]) -> Vec<(&'static str, AcquireRequest)> {
    let good = good_retry(permit);
    let with_outcome = |outcome: Option<Outcome>| {
        let mut asked = good.clone();
        asked.previous.as_mut().unwrap().outcome = outcome;
        asked
    };
    let with_permit = |bytes: &[u8]| {
        let mut asked = good.clone();
        asked.previous.as_mut().unwrap().made_under =
            Some(MadeUnder::Permit(bytes.to_vec().into()));
        asked
    };
    let of = |kind: i32| Outcome {
        kind,
        ..Outcome::default()
    };
    let mut bad = vec![
        (
            "attempt",
            AcquireRequest {
                attempt: 0,
                ..good.clone()
            },
        ),
        (
            "previous",
            AcquireRequest {
                previous: None,
                ..good.clone()
            },
        ),
        (
            "previous",
            AcquireRequest {
                attempt: 1,
                ..good.clone()
            },
        ),
        (
            "previous",
            AcquireRequest {
                hedge: true,
                ..good.clone()
            },
        ),
        (
            "previous",
            AcquireRequest {
                confirm: permit.to_vec().into(),
                ..good.clone()
            },
        ),
        ("previous.outcome", with_outcome(None)),
        (
            "previous.outcome.kind",
            with_outcome(Some(of(OutcomeKind::Success.into()))),
        ),
        (
            "cost",
            AcquireRequest {
                cost: 1_000_001,
                ..good.clone()
            },
        ),
        (
            "cost",
            AcquireRequest {
                cost: u32::MAX,
                ..good.clone()
            },
        ),
        (
            "call_id",
            AcquireRequest {
                call_id: "c".repeat(129),
                ..good.clone()
            },
        ),
        (
            "confirm",
            AcquireRequest {
                hedge: true,
                previous: None,
                confirm: permit.to_vec().into(),
                ..good.clone()
            },
        ),
        (
            "caller.service",
            AcquireRequest {
                caller: Some(Caller {
                    service: "s".repeat(201),
                    instance: "i".into(),
                }),
                ..good.clone()
            },
        ),
        (
            "caller.instance",
            AcquireRequest {
                caller: Some(Caller {
                    service: "s".into(),
                    instance: "i".repeat(201),
                }),
                ..good.clone()
            },
        ),
        ("previous.permit", with_permit(b"")),
    ];
    for name in bad_names() {
        bad.push((
            "dependency",
            AcquireRequest {
                dependency: name.clone(),
                ..good.clone()
            },
        ));
        if !name.is_empty() {
            bad.push((
                "namespace",
                AcquireRequest {
                    namespace: name,
                    ..good.clone()
                },
            ));
        }
    }
    for value in [-1, 4, i32::MIN, i32::MAX] {
        bad.push((
            "safety",
            AcquireRequest {
                safety: value,
                ..good.clone()
            },
        ));
        bad.push((
            "priority",
            AcquireRequest {
                priority: value,
                ..good.clone()
            },
        ));
    }
    for value in [-1, 0, 9, i32::MIN, i32::MAX] {
        bad.push(("previous.outcome.kind", with_outcome(Some(of(value)))));
    }
    for span in bad_spans() {
        bad.push((
            "time_left",
            AcquireRequest {
                time_left: Some(span),
                ..good.clone()
            },
        ));
        bad.push((
            "previous.outcome.latency",
            with_outcome(Some(Outcome {
                latency: Some(span),
                ..outcome(Failure)
            })),
        ));
        bad.push((
            "previous.outcome.pushback",
            with_outcome(Some(Outcome {
                pushback: Some(span),
                ..outcome(Failure)
            })),
        ));
    }
    for seconds in [24 * 3600 + 1, i64::MAX] {
        bad.push((
            "previous.outcome.latency",
            with_outcome(Some(Outcome {
                latency: Some(Duration { seconds, nanos: 0 }),
                ..outcome(Failure)
            })),
        ));
    }
    bad
}

#[tokio::test]
async fn every_question_that_makes_no_sense_names_its_field_and_changes_nothing() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let permit = client.granted(first("d")).await.permit;
    let before = client.get("d").await;
    for (field, asked) in bad_questions(&permit) {
        let shown = format!("{field}: {asked:?}");
        let status = client.refused(asked).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{shown}");
        assert_refused(&status, field);
        assert!(
            status.message().len() < 2_000,
            "a message is for people: {field}"
        );
        assert_eq!(client.get("d").await, before, "{shown}");
    }
    assert_eq!(service.coordinator.dependencies(), 1);
    client.granted(good_retry(&permit)).await;
}

#[tokio::test]
async fn the_largest_values_that_are_allowed_are_taken_and_nothing_overflows() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let for_ever = Duration {
        seconds: i64::MAX,
        nanos: 999_999_999,
    };
    let permit = client
        .granted(AcquireRequest {
            time_left: Some(for_ever),
            call_id: "c".repeat(128),
            cost: 1_000_000,
            caller: Some(Caller {
                service: "s".repeat(200),
                instance: "i".repeat(200),
            }),
            ..first(&"n".repeat(200))
        })
        .await
        .permit;
    let too_long = Outcome {
        pushback: Some(for_ever),
        status_code: u32::MAX,
        ..outcome(Failure)
    };
    let denial = client
        .denied(retry_after(&"n".repeat(200), 2, &permit, too_long))
        .await;
    assert!(ms(denial.retry_after) > 1e12);
    let permit = client.granted(first("d")).await.permit;
    let denial = client.denied(retry("d", u32::MAX, &permit, Failure)).await;
    assert_eq!(denial.retry_after, None);
    let zero = AcquireRequest {
        time_left: Some(Duration::default()),
        ..first("d")
    };
    let denial = client.denied(zero).await;
    assert_eq!(
        denial.reason(),
        holdoff_client::proto::DenialReason::Deadline
    );
}

fn bad_entries(permit: &[u8]) -> Vec<(&'static str, ReportEntry)> {
    let result = |permit: &[u8], outcome: Option<Outcome>| ReportEntry {
        entry: Some(Entry::Result(PermitResult {
            permit: permit.to_vec().into(),
            outcome,
        })),
    };
    let tally = |tally: Tally| ReportEntry {
        entry: Some(Entry::Tally(tally)),
    };
    let mut bad = vec![
        ("entries[1]", ReportEntry { entry: None }),
        (
            "entries[1].result.permit",
            result(b"", Some(outcome(Failure))),
        ),
        ("entries[1].result.outcome", result(permit, None)),
    ];
    for kind in [-1, 0, 9, i32::MAX] {
        let outcome = Outcome {
            kind,
            ..Outcome::default()
        };
        bad.push((
            "entries[1].result.outcome.kind",
            result(permit, Some(outcome)),
        ));
    }
    for span in bad_spans() {
        let latency = Outcome {
            latency: Some(span),
            ..outcome(Failure)
        };
        bad.push((
            "entries[1].result.outcome.latency",
            result(permit, Some(latency)),
        ));
        let pushback = Outcome {
            pushback: Some(span),
            ..outcome(Failure)
        };
        bad.push((
            "entries[1].result.outcome.pushback",
            result(permit, Some(pushback)),
        ));
        let sum = Tally {
            dependency: "d".into(),
            latency_sum: Some(span),
            ..Tally::default()
        };
        bad.push(("entries[1].tally.latency_sum", tally(sum)));
    }
    for dependency in bad_names() {
        let named = Tally {
            dependency,
            ..Tally::default()
        };
        bad.push(("entries[1].tally.dependency", tally(named)));
    }
    bad
}

#[tokio::test]
async fn one_bad_entry_refuses_a_whole_report_and_nothing_of_it_is_counted() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let permit = client.granted(first("d")).await.permit;
    let before = client.get("d").await;
    let good = result(&permit, outcome(Failure));
    for (field, entry) in bad_entries(&permit) {
        let report = ReportRequest {
            entries: vec![good.clone(), entry],
            sequence: 1,
            ..ReportRequest::default()
        };
        let status = client.asks.report(report).await.unwrap_err();
        assert_refused(&status, field);
        assert_eq!(client.get("d").await, before, "{field}");
    }
    for count in [0, 1001] {
        let report = ReportRequest {
            entries: vec![good.clone(); count],
            sequence: 1,
            ..ReportRequest::default()
        };
        assert_refused(&client.asks.report(report).await.unwrap_err(), "entries");
    }
    // The number of a refused report is not used up.
    let report = ReportRequest {
        entries: vec![good],
        sequence: 1,
        ..ReportRequest::default()
    };
    let answered = client
        .asks
        .report(report.clone())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answered.results[0].reason(), ReportReason::Ok);
    let again = client.asks.report(report).await.unwrap().into_inner();
    assert_eq!(again.results[0].reason(), ReportReason::Duplicate);
}

#[tokio::test]
async fn a_report_that_cannot_be_taken_whole_is_not_taken_at_all() {
    let service = Service::start(
        "version: 1\nnamespaces: {default: {max_dependencies: 1, defaults: {breaker: {window: 10s, min_calls: 100}}}}",
    )
    .await;
    let mut client = service.client().await;
    let permit = client.granted(first("d")).await.permit;
    let before = client.get("d").await;
    let tally = |dependency: &str| ReportEntry {
        entry: Some(Entry::Tally(Tally {
            dependency: dependency.into(),
            epoch: 1,
            first_attempts: 3,
            failures: 3,
            ..Tally::default()
        })),
    };
    let mut report = ReportRequest {
        entries: vec![
            tally("d"),
            result(&permit, outcome(Failure)),
            tally("no-room"),
        ],
        sequence: 7,
        ..ReportRequest::default()
    };
    let status = client.asks.report(report.clone()).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(client.get("d").await, before);
    // What was refused can be sent again, without what was wrong with it.
    report.entries.pop();
    let answered = client.asks.report(report).await.unwrap().into_inner();
    assert!(
        answered.results.iter().all(|result| result.applied),
        "{answered:?}"
    );
    assert_eq!(client.get("d").await.first_attempts, 4);
}

#[tokio::test]
async fn what_is_no_permit_of_ours_is_told_apart_and_counts_nothing() {
    let service = Service::start("version: 1\nnamespaces: {default: {}, other: {}}").await;
    let mut client = service.client().await;
    let permit = client.granted(first("d")).await.permit;
    let before = client.get("d").await;
    let mut tinkered = permit.to_vec();
    tinkered[20] ^= 1;
    for bytes in [
        &b"x"[..],
        &[0; 65],
        &[0xFF; 65],
        &[7; 100_000],
        &tinkered,
        &permit[1..],
    ] {
        assert_eq!(
            client.reported(bytes, Failure).await,
            ReportReason::UnknownPermit
        );
    }
    // A permit of another namespace, reported here.
    let foreign = AcquireRequest {
        namespace: "other".into(),
        ..first("d")
    };
    let foreign = client.granted(foreign).await.permit;
    assert_eq!(
        client.reported(&foreign, Failure).await,
        ReportReason::UnknownPermit
    );
    let asked = AcquireRequest {
        safety: Safety::Idempotent.into(),
        previous: Some(Previous {
            made_under: Some(MadeUnder::Permit(foreign.to_vec().into())),
            outcome: Some(outcome(Failure)),
        }),
        attempt: 2,
        ..first("d")
    };
    let answer = client.ask(asked).await;
    assert_eq!(answer.previous_result(), ReportReason::UnknownPermit);
    assert_eq!(client.get("d").await.failure_ratio, before.failure_ratio);
    // A permit of another service: its key is another one.
    let elsewhere = Service::start_with(Setup {
        entropy: holdoff::entropy::Entropy::seeded(99),
        ..Setup::default()
    })
    .await;
    let theirs = elsewhere.client().await.granted(first("d")).await.permit;
    assert_eq!(
        client.reported(&theirs, Failure).await,
        ReportReason::UnknownPermit
    );
    let answer = client.ask(retry("d", 2, &theirs, Failure)).await;
    assert_eq!(answer.previous_result(), ReportReason::UnknownPermit);
    assert_eq!(client.get("d").await.failure_ratio, before.failure_ratio);
}

/// As `Report` says it: whoever holds the wrong bytes gets its decision all the same.
#[tokio::test]
async fn what_is_no_permit_of_the_dependency_is_an_unknown_permit_and_confirms_nothing() {
    let service = Service::start(&policy_of_d("{}")).await;
    let mut client = service.client().await;
    let of_another = client.granted(first("other")).await.permit;
    for bytes in [
        &b"x"[..],
        &[0xFF; 65],
        &[0; 10_000],
        &[0x11; 57],
        &of_another,
    ] {
        let answer = client.ask(retry("d", 2, bytes, Failure)).await;
        assert_eq!(answer.previous_result(), ReportReason::UnknownPermit);
        assert!(grant_of(answer).delay.is_some());
        assert_eq!(
            client.reported(bytes, Failure).await,
            if bytes == of_another {
                ReportReason::Ok
            } else {
                ReportReason::UnknownPermit
            }
        );
        let denial = client.denied(confirm("d", bytes)).await;
        assert_eq!(denial.reason(), DenialReason::PermitVoid);
    }
}

#[tokio::test]
async fn an_unknown_namespace_is_not_found_everywhere() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let namespace = || "nowhere".to_owned();
    let asked = AcquireRequest {
        namespace: namespace(),
        ..first("d")
    };
    let mut statuses = vec![("Acquire", client.refused(asked).await)];
    let tally = Tally {
        dependency: "d".into(),
        ..Tally::default()
    };
    let report = ReportRequest {
        namespace: namespace(),
        entries: vec![ReportEntry {
            entry: Some(Entry::Tally(tally)),
        }],
        ..ReportRequest::default()
    };
    statuses.push(("Report", client.asks.report(report).await.unwrap_err()));
    let permit = client.granted(first("d")).await.permit;
    for permit in [&permit[..], b"none"] {
        let report = ReportRequest {
            namespace: namespace(),
            entries: vec![result(permit, outcome(Failure))],
            ..ReportRequest::default()
        };
        statuses.push(("Report", client.asks.report(report).await.unwrap_err()));
    }
    let operates = &mut client.operates;
    macro_rules! refused {
        ($rpc:ident, $request:ident { $($field:ident: $value:expr),* }) => {{
            let request = $request { namespace: namespace(), $($field: $value.into(),)* ..Default::default() };
            statuses.push((stringify!($rpc), operates.$rpc(request).await.map(|_| ()).unwrap_err()));
        }};
    }
    use holdoff_client::proto::SetOverrideRequest;
    refused!(list_dependencies, ListDependenciesRequest {});
    refused!(get_dependency, GetDependencyRequest { dependency: "d" });
    refused!(watch_dependencies, WatchDependenciesRequest {});
    refused!(watch_events, WatchEventsRequest {});
    refused!(list_events, ListEventsRequest {});
    refused!(
        set_override,
        SetOverrideRequest {
            dependency: "d",
            kind: 1,
            owner: "o",
            reason: "r"
        }
    );
    refused!(
        clear_override,
        ClearOverrideRequest {
            dependency: "d",
            owner: "o"
        }
    );
    refused!(
        reset_dependency,
        ResetDependencyRequest {
            dependency: "d",
            owner: "o"
        }
    );
    refused!(
        clear_hold,
        ClearHoldRequest {
            dependency: "d",
            owner: "o"
        }
    );
    refused!(list_audit, ListAuditRequest {});
    refused!(list_policies, ListPoliciesRequest {});
    refused!(get_policy, GetPolicyRequest { dependency: "d" });
    refused!(
        put_policy,
        PutPolicyRequest {
            name: "d",
            document: "{}",
            owner: "o"
        }
    );
    for (rpc, status) in statuses {
        assert_eq!(status.code(), Code::NotFound, "{rpc}");
        assert!(
            status.message().contains("nowhere"),
            "{rpc}: {}",
            status.message()
        );
        assert!(status.get_error_details().error_info().is_some(), "{rpc}");
    }
    assert_eq!(service.coordinator.dependencies(), 1);
}

#[tokio::test]
async fn every_operator_request_that_makes_no_sense_names_its_field() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    client.call("d", Success).await;
    let before = client.get("d").await;
    let operates = &mut client.operates;
    macro_rules! refused {
        ($field:expr, $rpc:ident, $request:ident { $($name:ident: $value:expr),* }) => {{
            let request = $request { $($name: $value.into(),)* ..Default::default() };
            let status = operates.$rpc(request).await.map(|_| ()).unwrap_err();
            assert_refused(&status, $field);
        }};
    }
    for name in bad_names() {
        refused!(
            "dependency",
            get_dependency,
            GetDependencyRequest {
                dependency: name.clone()
            }
        );
        refused!(
            "dependency",
            clear_override,
            ClearOverrideRequest {
                dependency: name.clone(),
                owner: "o"
            }
        );
        refused!(
            "dependency",
            reset_dependency,
            ResetDependencyRequest {
                dependency: name.clone(),
                owner: "o"
            }
        );
        refused!(
            "dependency",
            clear_hold,
            ClearHoldRequest {
                dependency: name.clone(),
                owner: "o"
            }
        );
        refused!(
            "dependency",
            get_policy,
            GetPolicyRequest {
                dependency: name.clone()
            }
        );
        let mut order = forced("d", holdoff_client::proto::OverrideKind::ForceOpen);
        order.dependency = name.clone();
        assert_refused(
            &operates.set_override(order).await.unwrap_err(),
            "dependency",
        );
        if name.is_empty() {
            continue;
        }
        refused!(
            "namespace",
            list_dependencies,
            ListDependenciesRequest {
                namespace: name.clone()
            }
        );
        refused!(
            "namespace",
            watch_dependencies,
            WatchDependenciesRequest {
                namespace: name.clone()
            }
        );
        refused!(
            "namespace",
            watch_events,
            WatchEventsRequest {
                namespace: name.clone()
            }
        );
        refused!(
            "namespace",
            list_events,
            ListEventsRequest {
                namespace: name.clone()
            }
        );
        refused!(
            "namespace",
            list_audit,
            ListAuditRequest {
                namespace: name.clone()
            }
        );
        refused!(
            "namespace",
            list_policies,
            ListPoliciesRequest {
                namespace: name.clone()
            }
        );
        refused!(
            "dependency",
            list_events,
            ListEventsRequest {
                dependency: name.clone()
            }
        );
        refused!(
            "dependency",
            watch_events,
            WatchEventsRequest {
                dependency: name.clone()
            }
        );
        if !name.ends_with('*') {
            refused!(
                "name",
                put_policy,
                PutPolicyRequest {
                    name: name.clone(),
                    document: "{}",
                    owner: "o"
                }
            );
            refused!(
                "name",
                delete_policy,
                DeletePolicyRequest {
                    name: name.clone(),
                    owner: "o"
                }
            );
        }
    }
    for size in [1001, u32::MAX] {
        refused!(
            "page_size",
            list_dependencies,
            ListDependenciesRequest { page_size: size }
        );
        refused!(
            "page_size",
            list_events,
            ListEventsRequest { page_size: size }
        );
        refused!(
            "page_size",
            list_audit,
            ListAuditRequest { page_size: size }
        );
        refused!(
            "page_size",
            list_policies,
            ListPoliciesRequest { page_size: size }
        );
    }
    for token in [
        "x",
        "-1",
        "1.5",
        "99999999999999999999999",
        "after:two words",
    ] {
        refused!(
            "page_token",
            list_audit,
            ListAuditRequest { page_token: token }
        );
        refused!(
            "page_token",
            list_policies,
            ListPoliciesRequest { page_token: token }
        );
    }
    for state in [-1, 7, 0, i32::MAX] {
        refused!(
            "states",
            list_dependencies,
            ListDependenciesRequest {
                states: vec![state]
            }
        );
    }
    for span in bad_spans() {
        refused!("since", list_events, ListEventsRequest { since: span });
        refused!("since", watch_events, WatchEventsRequest { since: span });
    }
    for (field, owner, reason) in [
        ("owner", "o".repeat(201), String::new()),
        ("reason", "o".to_owned(), "r".repeat(1001)),
    ] {
        refused!(
            field,
            clear_override,
            ClearOverrideRequest {
                dependency: "d",
                owner: owner.clone(),
                reason: reason.clone()
            }
        );
        refused!(
            field,
            reset_dependency,
            ResetDependencyRequest {
                dependency: "d",
                owner: owner.clone(),
                reason: reason.clone()
            }
        );
        refused!(
            field,
            clear_hold,
            ClearHoldRequest {
                dependency: "d",
                owner: owner.clone(),
                reason: reason.clone()
            }
        );
        refused!(
            field,
            put_policy,
            PutPolicyRequest {
                document: "{}",
                owner: owner.clone(),
                reason: reason.clone()
            }
        );
        refused!(
            field,
            delete_policy,
            DeletePolicyRequest {
                name: "d",
                owner: owner.clone(),
                reason: reason.clone()
            }
        );
    }
    refused!(
        "document",
        put_policy,
        PutPolicyRequest {
            document: "x".repeat(64 * 1024 + 1),
            owner: "o"
        }
    );
    use holdoff_client::proto::CheckPolicyRequest;
    refused!(
        "document",
        check_policy,
        CheckPolicyRequest {
            document: "x".repeat(200 * 1024 + 1)
        }
    );
    assert_eq!(client.get("d").await, before);
}

#[tokio::test]
async fn a_message_beyond_the_limit_is_refused_with_the_limit_and_the_connection_lives() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let asked = AcquireRequest {
        call_id: "c".repeat(300 * 1024),
        ..first("d")
    };
    assert_names_the_limit(&client.refused(asked).await);
    // One byte more than the limit, one less, and in a request of a stream of answers.
    let sized = |bytes: usize| AcquireRequest {
        call_id: "c".repeat(bytes),
        ..first("d")
    };
    use prost::Message;
    let beside = sized(200_000).encoded_len() - 200_000;
    assert_names_the_limit(&client.refused(sized(262_145 - beside)).await);
    let fits = client.refused(sized(262_144 - beside)).await;
    assert_refused(&fits, "call_id");
    let watch = WatchEventsRequest {
        dependency: "d".repeat(300_000),
        ..Default::default()
    };
    assert_names_the_limit(&client.operates.watch_events(watch).await.unwrap_err());
    client.granted(first("d")).await;
}

/// Raw bytes to the port; whatever happens to them, real clients are served.
#[tokio::test]
async fn garbage_on_the_port_never_takes_the_service_down() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let address = service.urls[0].trim_start_matches("http://").to_owned();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut noise = Vec::new();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..20_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        noise.push(state as u8);
    }
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let mut bytes = preface.to_vec();
        bytes.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
        bytes.extend(&(payload.len() as u32).to_be_bytes()[1..]);
        bytes.extend([kind, flags]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
        bytes
    };
    for bytes in [
        b"".to_vec(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        preface[..10].to_vec(),
        noise.clone(),
        [preface, &noise[..]].concat(),
        frame(1, 4, 1, &noise[..4096]),
        frame(0, 1, 0, b"data on stream 0"),
        frame(8, 0, 1, &[0x7F, 0xFF, 0xFF, 0xFF]),
        frame(3, 0, 0, &[0; 4]),
        frame(0xFF, 0xFF, u32::MAX, &noise[..100]),
    ] {
        let mut socket = std::net::TcpStream::connect(&address).unwrap();
        socket
            .set_read_timeout(Some(std::time::Duration::from_millis(50)))
            .unwrap();
        // It may be cut off at any byte.
        let _ = socket.write_all(&bytes);
        let _ = socket.read(&mut [0; 1024]);
        drop(socket);
        client.granted(first("d")).await;
    }
}

/// A right path and a body that is no message: an error of that call alone.
#[tokio::test]
async fn a_body_that_is_no_message_is_an_error_of_that_call_alone() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let channel = tonic::transport::Endpoint::from_shared(service.urls[0].clone())
        .unwrap()
        .connect()
        .await
        .unwrap();
    let mut raw = tonic::client::Grpc::new(channel);
    for body in [
        &b"\xFF\xFF\xFF\xFF"[..],
        b"\x0A\xFF",
        b"\x12\x02\xC3\x28",
        b"\x08",
    ] {
        raw.ready().await.unwrap();
        let path =
            axum::http::uri::PathAndQuery::from_static("/holdoff.v1.CoordinatorService/Acquire");
        let request = tonic::Request::new(bytes::Bytes::from_static(body));
        let answered: Result<tonic::Response<bytes::Bytes>, _> =
            raw.unary(request, path, Raw).await;
        let code = answered.unwrap_err().code();
        assert!(
            matches!(code, Code::Internal | Code::InvalidArgument),
            "{body:?}: {code:?}"
        );
    }
    client.granted(first("d")).await;
    assert_eq!(service.coordinator.dependencies(), 1);
}

/// Sends bytes as they are.
struct Raw;

impl tonic::codec::Codec for Raw {
    type Encode = bytes::Bytes;
    type Decode = bytes::Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl tonic::codec::Encoder for Raw {
    type Item = bytes::Bytes;
    type Error = tonic::Status;

    fn encode(
        &mut self,
        item: bytes::Bytes,
        into: &mut tonic::codec::EncodeBuf<'_>,
    ) -> Result<(), tonic::Status> {
        bytes::BufMut::put(into, item);
        Ok(())
    }
}

impl tonic::codec::Decoder for Raw {
    type Item = bytes::Bytes;
    type Error = tonic::Status;

    fn decode(
        &mut self,
        from: &mut tonic::codec::DecodeBuf<'_>,
    ) -> Result<Option<bytes::Bytes>, tonic::Status> {
        use bytes::Buf;
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
