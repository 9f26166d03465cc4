//! The check of policies: the same on the command line and over the wire, with what is stated
//! and with what a service sees.

use std::{path::Path, process::Command};

use holdoff_client::proto::{
    CheckPolicyRequest, Dependency, FindingSeverity, OutcomeKind, ReportRequest, TrafficFacts,
};
use serde_json::Value;

use crate::harness::*;

const RARE: &str = "version: 1\nnamespaces:\n  default:\n    dependencies:\n      payments:\n        breaker: {window: 10s, min_calls: 50}\n        retry: {max_attempts: 4, jitter: none, initial_delay: 1s}\n      \"openai:*\": {budget: {ratio: 1}}\n";
const TRAFFIC: &str = "version: 1\nnamespaces:\n  default:\n    defaults: {clients: 4, recovery_goal: 10s}\n    dependencies:\n      payments: {calls_per_second: 2, deadline: 2s, layers: 3}\n      \"openai:*\": {calls_per_second: 9, capacity: 10}\n";

fn written(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

/// The exit code, what was printed, and what was said of errors.
fn holdoff(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdoff"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HOLDOFF_")) {
        command.env_remove(name);
    }
    let ended = command
        .args(["policy", "check"])
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        ended.status.code().unwrap(),
        text(ended.stdout),
        text(ended.stderr),
    )
}

#[test]
fn a_negative_fact_is_refused_with_its_range() {
    let policies = written(RARE);
    let (code, _, error) = holdoff(&["--policies", path(&policies), "--calls-per-second", "-1"]);
    assert_eq!(code, 2, "{error}");
    assert!(
        error.contains("-1 is not allowed; 0.000001 to 1000000000"),
        "{error}"
    );
}

#[test]
fn a_traffic_file_with_a_name_that_no_policy_has_is_wrong_use() {
    let (policies, typo) = (
        written(RARE),
        written(&TRAFFIC.replace("payments", "paymnets")),
    );
    let arguments = ["--policies", path(&policies), "--traffic", path(&typo)];
    let (code, _, error) = holdoff(&arguments);
    assert_eq!(code, 2, "{error}");
    assert!(
        error.contains(":6:7: namespaces.default.dependencies.paymnets: no policy entry")
            && error.contains("known are \"openai:*\", payments"),
        "{error}"
    );
}

fn path(file: &tempfile::NamedTempFile) -> &str {
    file.path().to_str().unwrap()
}

fn facts(dependency: &str, rate: f64) -> TrafficFacts {
    TrafficFacts {
        dependency: dependency.into(),
        calls_per_second: Some(rate),
        ..TrafficFacts::default()
    }
}

/// The findings of a check on the command line, without the file's path.
fn local(arguments: &[&str], file: &Path) -> (i32, Vec<Value>) {
    let arguments = [arguments, &["--output", "json"]].concat();
    let (code, text, error) = holdoff(&arguments);
    let shown: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{error}"));
    let mut findings = shown["findings"].as_array().unwrap().clone();
    for finding in &mut findings {
        if finding["file"] == file.to_str().unwrap() {
            finding["file"] = "document".into();
        }
    }
    (code, sorted(findings))
}

/// The findings of a check over the wire, as the command line shows them.
async fn remote(client: &mut Client, request: CheckPolicyRequest) -> Vec<Value> {
    let answer = client.operates.check_policy(request).await.unwrap();
    let findings = answer.into_inner().findings.into_iter().map(|finding| {
        let severity = match finding.severity() {
            FindingSeverity::Error => "error",
            FindingSeverity::Warning => "warning",
            FindingSeverity::Hint => "hint",
            FindingSeverity::Unspecified => panic!("no severity"),
        };
        let proposal = finding.proposal.into_iter();
        let proposal = proposal
            .map(|change| serde_json::json!({"field": change.field, "value": change.value}));
        serde_json::json!({
            "severity": severity, "code": finding.code, "file": finding.file,
            "line": finding.line, "column": finding.column, "field": finding.field,
            "dependency": finding.dependency, "message": finding.message,
            "numbers": finding.numbers, "proposal": proposal.collect::<Vec<_>>(),
        })
    });
    sorted(findings.collect())
}

/// The order of a list is that of its files' names.
fn sorted(mut findings: Vec<Value>) -> Vec<Value> {
    findings.sort_by_key(|finding| format!("{} {}", finding["field"], finding["message"]));
    findings
}

#[tokio::test]
async fn the_command_line_and_the_service_find_the_same() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let (policies, traffic) = (written(RARE), written(TRAFFIC));
    let arguments = ["--policies", path(&policies), "--traffic", path(&traffic)];
    let (code, found) = local(&arguments, policies.path());
    assert_eq!(code, 1);
    let request = CheckPolicyRequest {
        document: RARE.into(),
        traffic: vec![
            TrafficFacts {
                clients: Some(4),
                recovery_goal: Some(seconds(10)),
                ..TrafficFacts::default()
            },
            TrafficFacts {
                deadline: Some(seconds(2)),
                layers: Some(3),
                ..facts("payments", 2.0)
            },
            TrafficFacts {
                capacity: Some(10.0),
                ..facts("openai:*", 9.0)
            },
        ],
        everywhere: None,
    };
    let told = remote(&mut client, request).await;
    let codes: Vec<_> = told
        .iter()
        .map(|finding| finding["code"].as_str().unwrap())
        .collect();
    for code in [
        "breaker-never-opens",
        "attempts-beyond-deadline",
        "jitter-lost",
        "recovery-above-goal",
        "retries-above-spare",
    ] {
        assert!(codes.contains(&code), "{code}: {codes:?}");
    }
    assert_eq!(told, found);
    // What a load refuses is the same too.
    let bad = written("version: 1\nnamespaces: {a: {defaults: {retry: {max_attempts: 0}}}}\n");
    let (code, found) = local(&["--policies", path(&bad)], bad.path());
    assert_eq!((code, found[0]["code"].as_str()), (1, Some("refused")));
    let request = CheckPolicyRequest {
        document: std::fs::read_to_string(bad.path()).unwrap(),
        ..CheckPolicyRequest::default()
    };
    assert_eq!(remote(&mut client, request).await, found);
}

#[tokio::test]
async fn a_fact_out_of_range_is_refused_with_its_field() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let mut refused = async |field: &str, stated: TrafficFacts, everywhere: bool| {
        let mut request = CheckPolicyRequest {
            document: "version: 1".into(),
            ..CheckPolicyRequest::default()
        };
        match everywhere {
            true => request.everywhere = Some(stated),
            false => request.traffic = vec![facts("fine", 1.0), stated],
        }
        assert_refused(
            &client.operates.check_policy(request).await.unwrap_err(),
            field,
        );
    };
    refused("traffic[1].calls_per_second", facts("a", f64::NAN), false).await;
    refused("traffic[1].calls_per_second", facts("a", 0.0), false).await;
    refused("traffic[1].dependency", facts("*a", 1.0), false).await;
    refused("everywhere.dependency", facts("a", 1.0), true).await;
    let zero = TrafficFacts {
        clients: Some(0),
        ..TrafficFacts::default()
    };
    refused("everywhere.clients", zero, true).await;
    let past = TrafficFacts {
        deadline: Some(prost_types::Duration {
            seconds: -1,
            nanos: 0,
        }),
        ..TrafficFacts::default()
    };
    refused("everywhere.deadline", past, true).await;
    let elsewhere = TrafficFacts {
        namespace: "a b".into(),
        ..TrafficFacts::default()
    };
    refused("traffic[1].namespace", elsewhere, false).await;
}

#[test]
fn the_exit_code_says_whether_a_pipeline_may_go_on() {
    let policies = written(RARE);
    let file = path(&policies);
    assert_eq!(
        holdoff(&["--policies", file]).0,
        1,
        "jitter: none is a warning"
    );
    let fine = written("version: 1\n");
    let (code, text, _) = holdoff(&["--policies", path(&fine)]);
    assert_eq!((code, text), (0, format!("{}: good\n", path(&fine))));
    let hint =
        written("version: 1\nnamespaces: {default: {defaults: {breaker: {min_reporters: 9}}}}\n");
    let hinted = ["--policies", path(&hint), "--clients", "4"];
    let (code, text, _) = holdoff(&hinted);
    assert_eq!(code, 0, "{text}");
    assert!(text.ends_with(": would be taken; 1 hint\n"), "{text}");
    assert_eq!(holdoff(&[&hinted[..], &["--strict"]].concat()).0, 1);
    let (code, _, error) = holdoff(&["--policies", file, "--clients", "0"]);
    assert_eq!(code, 2);
    assert!(
        error.contains("0 is not allowed; 1 to 100000000"),
        "{error}"
    );
    let bad = written("version: 1\nnamespaces: {default: {defaults: {callers: 3}}}\n");
    let (code, _, error) = holdoff(&["--policies", file, "--traffic", path(&bad)]);
    assert_eq!(code, 2);
    assert!(
        error.contains(":2:44: namespaces.default.defaults.callers: unknown field"),
        "{error}"
    );
    let nobody = ["--live", "--server", "http://127.0.0.1:1"];
    assert_eq!(holdoff(&nobody).0, 3);
    assert_eq!(holdoff(&[]).0, 2);
}

#[tokio::test]
async fn a_service_shows_what_it_sees_and_a_live_check_is_made_with_it() {
    let service = Service::start(
        "version: 1\nnamespaces: {default: {defaults: {breaker: {window: 1s, min_calls: 900}}}}\n",
    )
    .await;
    let mut client = service.client().await;
    let named = |dependency: &Dependency| (dependency.active_instances, dependency.usual_latency);
    service.at_ms(60_000);
    for call in 0..200_u64 {
        service.at_ms(60_000 + 50 * call);
        let grant = client
            .granted(first_of("d", &format!("i-{}", call % 3)))
            .await;
        let mut ended = outcome(OutcomeKind::Success);
        ended.latency = Some(prost_types::Duration {
            seconds: 0,
            nanos: 20_000_000,
        });
        let request = ReportRequest {
            caller: caller(&format!("i-{}", call % 3)),
            entries: vec![result(&grant.permit, ended)],
            ..ReportRequest::default()
        };
        client.asks.report(request).await.unwrap();
    }
    let seen = client.get("d").await;
    let (instances, latency) = named(&seen);
    assert_eq!(instances, 3);
    assert!((15.0..25.0).contains(&ms(latency)), "{latency:?}");
    assert!(
        (17.0..24.0).contains(&seen.calls_per_second),
        "{}",
        seen.calls_per_second
    );
    let url = service.urls[0].clone();
    let live = tokio::task::spawn_blocking(move || holdoff(&["--live", "--server", &url]));
    let (code, text, error) = live.await.unwrap();
    assert_eq!(code, 1, "{text}{error}");
    assert!(
        text.contains("for d: the breaker can never open: "),
        "{text}"
    );
}

#[tokio::test]
async fn over_the_wire_too_traffic_of_a_name_that_no_policy_is_for_is_refused_with_the_field() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let mut refusal = async |namespace: &str, dependency: &str, document: &str| {
        let request = CheckPolicyRequest {
            document: document.into(),
            traffic: vec![TrafficFacts {
                namespace: namespace.into(),
                dependency: dependency.into(),
                clients: Some(4),
                ..TrafficFacts::default()
            }],
            ..CheckPolicyRequest::default()
        };
        let answer = client.operates.check_policy(request).await;
        answer.err().map(|status| status.message().to_owned())
    };
    let typo = refusal("", "paymnets", RARE).await.unwrap();
    assert!(
        typo.contains("traffic[0].dependency") && typo.contains("known are \"openai:*\", payments"),
        "{typo}"
    );
    let other = refusal("other", "payments", RARE).await.unwrap();
    assert!(other.contains("traffic[0].namespace"), "{other}");
    for (namespace, dependency) in [("", "payments"), ("", "openai:x"), ("", ""), ("*", "x")] {
        assert_eq!(refusal(namespace, dependency, RARE).await, None);
    }
    let only_defaults = "version: 1\nnamespaces: {default: {}}\n";
    assert_eq!(refusal("", "any", only_defaults).await, None);
}
