//! What the service tells of itself: `/metrics`, and spans and metrics to a collector.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    sync::Arc,
    time::{Duration, Instant},
};

use holdoff::{
    coordinator::{Caller, Inquiry, Key, Subject},
    server::Metrics,
    settings::MetricsDependencies,
    telemetry::table,
};
use holdoff_client::proto::{
    Hello, OutcomeKind, OverrideKind, SessionRequest, Subscribe, session_request::Message,
};
use holdoff_decision::{Nanos, calendar::Priority};
use tokio_stream::StreamExt;
use tonic::Code;

use crate::{harness::*, overrides::forced};

use OutcomeKind::Failure;

const OPENS: &str = "{breaker: {detect: window, window: 10, min_calls: 5, failure_ratio: 0.5, \
                     min_reporters: 1, open_for: 1s, spread: 0s, probes: 1, probe_successes: 1}}";

fn top(most: usize) -> MetricsDependencies {
    MetricsDependencies::Top(NonZeroUsize::new(most).unwrap())
}

fn scrape(service: &Service, shown: MetricsDependencies) -> String {
    Metrics::new(Arc::clone(&service.coordinator), shown, 100).exposition()
}

/// The value of a series, which must be there.
#[track_caller]
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find(|line| {
        let named = line.strip_prefix(series);
        named.is_some_and(|rest| rest.starts_with(' '))
    });
    let line = line.unwrap_or_else(|| panic!("no {series} in:\n{text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

async fn make(service: &Service, dependency: &str) {
    let inquiry = Inquiry {
        key: Key {
            namespace: "default",
            dependency,
        },
        caller: Caller {
            service: "tests",
            instance: "",
        },
        subject: Subject::First,
        call_id: "",
        idempotent: false,
        time_left: None,
        cost: 1,
        priority: Priority::Normal,
    };
    service.coordinator.acquire(&inquiry).await.unwrap();
}

/// A name as long and as strange as a name may be.
fn strange(number: usize) -> String {
    let start = format!("a.b_c/d:e@f-{number:05}");
    let rest = "~".repeat(200 - start.len()).replace('~', "/");
    format!("{start}{rest}")
}

#[tokio::test]
async fn metrics_of_ten_thousand_dependencies_fit_a_mebibyte() {
    let service = Service::start("version: 1").await;
    for number in 0..10_000 {
        make(&service, &strange(number)).await;
    }
    for (shown, series) in [
        (MetricsDependencies::Off, 0),
        (top(50), 50),
        (top(10_000), 100),
    ] {
        let mut took = Duration::MAX;
        let mut text = String::new();
        for _ in 0..5 {
            let began = Instant::now();
            text = scrape(&service, shown);
            took = took.min(began.elapsed());
        }
        println!(
            "/metrics at 10,000, {shown:?}: {} bytes in {took:?}",
            text.len()
        );
        assert!(text.len() < 1024 * 1024, "{} bytes", text.len());
        // A fast machine's release needs a hundredth of it.
        assert!(took < Duration::from_secs(1), "{took:?}");
        let lines = text.lines();
        let shown_of = lines.filter(|line| line.starts_with("holdoff_dependency_state{"));
        let count = shown_of.count();
        assert!(count >= series, "{count} series");
        assert_eq!(
            value(&text, "holdoff_dependencies_left_out"),
            (10_000 - count) as f64
        );
        assert_eq!(
            value(&text, "holdoff_dependencies{state=\"closed\"}"),
            10_000.0
        );
    }
}

#[tokio::test]
async fn those_most_in_trouble_come_first_and_go_with_their_dependency() {
    let service = Service::start(&policy_of_d(OPENS)).await;
    let mut client = service.client().await;
    for name in ["quiet-1", "quiet-2"] {
        make(&service, name).await;
    }
    let grant = client.granted(first("denied")).await;
    for _ in 0..2 {
        let again = retry("denied", 2, &grant.permit, OutcomeKind::Rejected);
        client.denied(again).await;
    }
    client.trip("d", 5).await;
    let text = scrape(&service, top(2));
    let of = |name: &str| {
        format!("holdoff_dependency_state{{namespace=\"default\",dependency=\"{name}\"}}")
    };
    assert_eq!(value(&text, &of("d")), 3.0);
    assert_eq!(value(&text, &of("denied")), 0.0);
    assert!(!text.contains("quiet"), "{text}");
    assert_eq!(value(&text, "holdoff_dependencies_left_out"), 2.0);
    let denials = "holdoff_dependency_denials_total{namespace=\"default\",dependency=\"denied\"}";
    assert_eq!(value(&text, denials), 2.0);
    // All but the open one are idle after a while.
    service.at_ms(3_600_000);
    assert_eq!(service.coordinator.drop_idle_once(Nanos::from_secs(600)), 3);
    let text = scrape(&service, MetricsDependencies::All);
    assert!(text.contains(&of("d")));
    assert!(!text.contains("denied\"}"), "{text}");
    assert_eq!(value(&text, "holdoff_dependencies_left_out"), 0.0);
    assert_eq!(value(&text, "holdoff_evicted_total"), 3.0);
    assert!(!scrape(&service, MetricsDependencies::Off).contains("dependency=\""));
}

#[tokio::test]
async fn no_name_that_a_client_sends_breaks_a_line() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    let lines = |text: &str| text.lines().count();
    let before = lines(&scrape(&service, MetricsDependencies::All));
    for hostile in [
        "a\"} 1\nholdoff_up 1",
        "a\\",
        "{}",
        "ü",
        " ",
        "\u{202e}",
        "a\0",
    ] {
        let refused = client.refused(first(hostile)).await;
        assert_refused(&refused, "dependency");
        let mut asked = first("fine");
        asked.namespace = hostile.into();
        client.refused(asked).await;
    }
    assert_eq!(lines(&scrape(&service, MetricsDependencies::All)), before);
    make(&service, &strange(1)).await;
    let text = scrape(&service, MetricsDependencies::All);
    // Each metric of a dependency has a line for it, and two of its own.
    assert_eq!(lines(&text), before + 3 * table::PER_DEPENDENCY.len());
    let series = format!(
        "holdoff_dependency_trips_total{{namespace=\"default\",dependency=\"{}\"}}",
        strange(1)
    );
    assert_eq!(value(&text, &series), 0.0);
}

#[tokio::test]
async fn every_metric_of_the_table_has_a_series_in_a_scrape() {
    let service = Service::start(&policy_of_d(OPENS)).await;
    make(&service, "d").await;
    let text = scrape(&service, MetricsDependencies::All);
    let mut heads = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        assert_eq!(heads.insert(name, kind), None, "{name} twice");
    }
    for metric in table::ALL.iter().flat_map(|(_, part)| part.iter()) {
        assert_eq!(
            heads.remove(metric.name),
            Some(metric.kind.word()),
            "{}",
            metric.name
        );
        assert!(text.contains(&format!("# HELP {} {}\n", metric.name, metric.help)));
    }
    assert!(heads.is_empty(), "not in the table: {heads:?}");
}

#[tokio::test]
async fn every_transition_is_counted_once_by_its_two_states() {
    let service = Service::start(&policy_of_d(OPENS)).await;
    let mut client = service.client().await;
    client.trip("d", 5).await;
    // Probes are given a while after the start.
    service.at_ms(20_000);
    client.call("d", Failure).await;
    service.at_ms(60_000);
    client.call("d", OutcomeKind::Success).await;
    let force = client.force(forced("d", OverrideKind::ForceOpen));
    force.await.unwrap();
    let text = scrape(&service, MetricsDependencies::Off);
    let count = |from: &str, to: &str| {
        let series = format!("holdoff_transitions_total{{from=\"{from}\",to=\"{to}\"}}");
        value(&text, &series)
    };
    assert_eq!(count("closed", "open"), 1.0);
    assert_eq!(count("open", "half_open"), 2.0);
    assert_eq!(count("half_open", "open"), 1.0);
    assert_eq!(
        count("half_open", "closed") + count("half_open", "recovering"),
        1.0
    );
    assert_eq!(
        count("closed", "forced_open") + count("recovering", "forced_open"),
        1.0
    );
    let all: f64 = text
        .lines()
        .filter(|line| line.starts_with("holdoff_transitions_total{"))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum();
    assert_eq!(all, 6.0);
    assert_eq!(
        value(&text, "holdoff_trips_total{cause=\"failure_ratio\"}"),
        1.0
    );
    assert_eq!(
        value(&text, "holdoff_dependencies{state=\"forced_open\"}"),
        1.0
    );
    assert_eq!(value(&text, "holdoff_dependencies_overridden"), 1.0);
    let probes = "holdoff_decisions_total{verdict=\"granted\",reason=\"probe\"}";
    assert_eq!(value(&text, probes), 2.0);
}

#[tokio::test]
async fn rpcs_are_counted_by_method_and_code_and_streams_when_they_end() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    client.granted(first("d")).await;
    client.refused(first("")).await;
    let calls = |text: &str, method: &str, code: &str| {
        let labels = format!(
            "{{rpc_method=\"holdoff.v1.CoordinatorService/{method}\",rpc_response_status_code=\"{code}\"}}"
        );
        value(text, &format!("holdoff_rpc_calls_total{labels}"))
    };
    let hello = SessionRequest {
        id: 1,
        message: Some(Message::Hello(Hello {
            subscribe: vec!["d".into(), "e".into()],
            ..Hello::default()
        })),
    };
    let (requests, asked) = tokio::sync::mpsc::channel(4);
    requests.send(hello).await.unwrap();
    let asked = tokio_stream::wrappers::ReceiverStream::new(asked);
    let mut answers = client.asks.session(asked).await.unwrap().into_inner();
    for _ in 0..2 {
        answers.next().await.unwrap().unwrap();
    }
    let text = scrape(&service, MetricsDependencies::Off);
    assert_eq!(calls(&text, "Acquire", "OK"), 1.0);
    assert_eq!(calls(&text, "Acquire", "INVALID_ARGUMENT"), 1.0);
    assert_eq!(calls(&text, "Session", "OK"), 0.0);
    let count = "rpc_server_call_duration_seconds_count{rpc_method=\"holdoff.v1.CoordinatorService/Acquire\"}";
    assert_eq!(value(&text, count), 2.0);
    for (series, expected) in [
        ("holdoff_connections", 1.0),
        ("holdoff_connections_limit", 100.0),
        ("holdoff_sessions", 1.0),
        ("holdoff_sessions_opened_total", 1.0),
        ("holdoff_subscriptions", 2.0),
        ("holdoff_pushes_total", 2.0),
    ] {
        assert_eq!(value(&text, series), expected, "{series}");
    }
    let unsubscribe = SessionRequest {
        id: 2,
        message: Some(Message::Subscribe(Subscribe {
            remove: vec!["e".into()],
            ..Subscribe::default()
        })),
    };
    requests.send(unsubscribe).await.unwrap();
    drop(requests);
    while answers.next().await.is_some() {}
    let text = scrape(&service, MetricsDependencies::Off);
    assert_eq!(calls(&text, "Session", "OK"), 1.0);
    assert_eq!(value(&text, "holdoff_subscriptions"), 0.0);
}

#[tokio::test]
async fn what_a_full_table_refuses_is_counted_by_its_reason() {
    let policies = "version: 1\nnamespaces: {default: {max_dependencies: 1}}";
    let service = Service::start(policies).await;
    let mut client = service.client().await;
    client.granted(first("d")).await;
    assert_eq!(
        client.refused(first("e")).await.code(),
        Code::ResourceExhausted
    );
    let mut elsewhere = first("d");
    elsewhere.namespace = "nowhere".into();
    assert_eq!(client.refused(elsewhere).await.code(), Code::NotFound);
    let text = scrape(&service, MetricsDependencies::Off);
    for reason in ["namespace_full", "unknown_namespace"] {
        let series = format!("holdoff_refusals_total{{reason=\"{reason}\"}}");
        assert_eq!(value(&text, &series), 1.0);
    }
}

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const BEGIN: &str = "<!-- metrics: written by a test, see tests/it/telemetry.rs -->\n";
const END: &str = "<!-- end of metrics -->\n";

fn read(path: &str) -> String {
    std::fs::read_to_string(format!("{ROOT}/{path}")).unwrap()
}

/// `BLESS=1 cargo test --test it telemetry` writes them anew.
#[test]
fn the_documentation_has_every_metric_as_the_table_has_it() {
    let mut tables = String::new();
    for (title, part) in table::ALL {
        tables.push_str(&format!(
            "\n### {title}\n\n| metric | kind | labels | is |\n|---|---|---|---|\n"
        ));
        for metric in *part {
            let labels = metric.labels.iter().map(|label| format!("`{label}`"));
            let labels = labels.collect::<Vec<_>>().join(", ");
            let (name, kind, help) = (metric.name, metric.kind.word(), metric.help);
            let row = format!(
                "| `{name}`<br>`{}` | {kind} | {labels} | {help} |\n",
                metric.otel
            );
            tables.push_str(&row);
        }
    }
    tables.push('\n');
    let page = read("docs/telemetry.md");
    let (before, rest) = page.split_once(BEGIN).expect("its begin is marked");
    let (_, after) = rest.split_once(END).expect("its end is marked");
    let written = format!("{before}{BEGIN}{tables}{END}{after}");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(format!("{ROOT}/docs/telemetry.md"), &written).unwrap();
    }
    assert!(
        written == read("docs/telemetry.md"),
        "docs/telemetry.md is not as the table; if that is meant, run with BLESS=1"
    );
}

#[test]
fn every_alert_has_its_page_and_its_page_an_alert() {
    let rules = read("deploy/prometheus/alerts.yaml");
    let after = |start: &str| -> BTreeSet<String> {
        let lines = rules
            .lines()
            .filter_map(|line| line.trim().strip_prefix(start));
        lines.map(str::to_owned).collect()
    };
    let alerts = after("- alert: ");
    assert!(alerts.len() > 10, "{alerts:?}");
    let pages = after("runbook_url: https://github.com/holdoff/holdoff/blob/main/docs/runbooks/");
    let pages: BTreeSet<String> = pages
        .iter()
        .map(|page| page.strip_suffix(".md").expect("a page").to_owned())
        .collect();
    assert_eq!(pages, alerts);
    let folder = std::fs::read_dir(format!("{ROOT}/docs/runbooks")).unwrap();
    let files = folder.map(|file| file.unwrap().file_name().into_string().unwrap());
    let files: BTreeSet<String> = files.map(|name| name.replace(".md", "")).collect();
    assert_eq!(files, alerts);
    let tests = read("deploy/prometheus/alerts.test.yaml");
    for alert in &alerts {
        let page = read(&format!("docs/runbooks/{alert}.md"));
        for part in [
            &format!("# {alert}\n"),
            "**What it means.**",
            "## Look\n\n```sh",
            "## Do\n\n1. ",
            "## Page\n\n",
        ] {
            assert!(page.contains(part), "{alert}: {part}");
        }
        assert!(
            tests.contains(&format!("name: {alert} fires")),
            "{alert} is never seen firing"
        );
        let silent = format!("alertname: {alert}}}");
        assert!(tests.contains(&silent), "{alert} is never seen silent");
    }
}

#[test]
fn the_board_and_the_rules_name_only_metrics_of_the_table() {
    let known: BTreeSet<&str> = table::ALL
        .iter()
        .flat_map(|(_, part)| part.iter().map(|metric| metric.name))
        .collect();
    let mut seen = BTreeSet::new();
    for path in [
        "deploy/grafana/holdoff.json",
        "deploy/prometheus/alerts.yaml",
    ] {
        let text = read(path);
        let word = |letter: char| !(letter.is_ascii_alphanumeric() || "_:".contains(letter));
        for name in text.split(word) {
            let ours = ["holdoff_", "rpc_server_", "process_"];
            if !ours.iter().any(|start| name.starts_with(start)) {
                continue;
            }
            let metric = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| name.strip_suffix(end).filter(|name| known.contains(name)));
            let metric = metric.unwrap_or(name);
            assert!(known.contains(metric), "{path}: {name}");
            seen.insert(metric.to_owned());
        }
    }
    let unseen: Vec<_> = known.iter().filter(|name| !seen.contains(**name)).collect();
    assert!(unseen.is_empty(), "on no panel and in no rule: {unseen:?}");
}
