//! `holdoff demo` as a newcomer runs it: the real binary, looked at from outside.

use std::{
    collections::BTreeSet,
    net::TcpListener,
    process::{Command, Stdio},
    time::Duration,
};

use holdoff_client::proto::{
    EventKind, GetDependencyRequest, ListEventsRequest,
    operator_service_client::OperatorServiceClient,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, MissedTickBehavior, interval},
};
use tonic::transport::Endpoint;

use crate::process::{BINARY, Running};

/// What a newcomer must have seen by then.
const WITHIN: Duration = Duration::from_secs(60);

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.arg("demo").args(arguments);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HOLDOFF_")) {
        command.env_remove(name);
    }
    command
}

/// A port that nobody has at this moment.
fn free() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

async fn get(address: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).await.unwrap();
    text
}

/// The sum of all series that begin so.
fn total(metrics: &str, series: &str) -> f64 {
    let lines = metrics.lines().filter(|line| line.starts_with(series));
    lines
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

#[tokio::test]
async fn within_a_minute_all_that_the_demo_is_for_has_happened_and_ctrl_c_ends_it() {
    let http = free();
    let mut running = Running::of(demo(&["--http", &http]));
    let endpoint = Endpoint::from_shared(running.url.clone()).unwrap();
    let mut operator = OperatorServiceClient::new(endpoint.connect().await.unwrap());
    let begun = Instant::now();
    let mut looks = interval(Duration::from_millis(250));
    looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (mut seen, mut planned) = (BTreeSet::new(), 0.0_f64);
    let wanted = [
        EventKind::Tripped,
        EventKind::Probing,
        EventKind::Recovered,
        EventKind::RampEnded,
        EventKind::Held,
    ];
    loop {
        looks.tick().await;
        let events = operator
            .list_events(ListEventsRequest {
                dependency: "payments".into(),
                page_size: 1_000,
                ..ListEventsRequest::default()
            })
            .await
            .unwrap();
        seen.extend(events.into_inner().events.iter().map(|event| event.kind));
        let metrics = get(&http, "/metrics").await;
        planned = planned.max(total(&metrics, "holdoff_calendar_planned "));
        let refused = total(
            &metrics,
            "holdoff_decisions_total{verdict=\"denied\",reason=\"breaker_open\"}",
        );
        let missing: Vec<_> = wanted
            .into_iter()
            .filter(|kind| !seen.contains(&i32::from(*kind)))
            .collect();
        // Attempts that wait at the same time, each in a place of its own.
        if missing.is_empty() && planned >= 5.0 && refused >= 5.0 {
            break;
        }
        assert!(
            begun.elapsed() < WITHIN,
            "not yet: {missing:?}; refused {refused}, planned {planned}"
        );
    }
    let dependency = operator
        .get_dependency(GetDependencyRequest {
            dependency: "payments".into(),
            ..GetDependencyRequest::default()
        })
        .await
        .unwrap()
        .into_inner()
        .dependency
        .unwrap();
    assert!(dependency.active_instances > 1, "{dependency:?}");
    assert!(get(&http, "/dashboard/").await.starts_with("HTTP/1.1 200"));

    let pid = rustix::process::Pid::from_raw(i32::try_from(running.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(running.ended().code(), Some(0));
    TcpListener::bind(&*http).expect("nobody has the port any more");
}

#[test]
fn what_would_be_no_demo_is_refused_by_name() {
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy_at = busy.local_addr().unwrap().to_string();
    for (arguments, bypass, code, names) in [
        (vec!["--listen", "0.0.0.0:0"], "0", 2, "--listen 0.0.0.0:0"),
        (
            vec!["--http", "192.0.2.1:80"],
            "0",
            2,
            "--http 192.0.2.1:80",
        ),
        (vec!["--clients", "3"], "0", 2, "4..=500"),
        (vec!["--once", "--duration", "1s"], "0", 2, "--duration"),
        (vec!["--listen", &*busy_at], "0", 1, &*busy_at),
        (vec![], "1", 2, "HOLDOFF_BYPASS"),
    ] {
        let mut command = demo(&arguments);
        let output = command
            .env("HOLDOFF_BYPASS", bypass)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(names), "{arguments:?}: {said}");
    }
}

#[test]
fn a_demo_of_a_second_tells_in_json_what_was_not_seen() {
    let output = demo(&["--duration", "1s", "--http", "off", "--output", "json"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(lines[0]["grpc"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert!(lines[1]["text"].as_str().unwrap().contains("is well"));
    let last = lines.last().unwrap();
    assert_eq!(last["seen"], serde_json::json!([]));
    assert_eq!(last["unseen"].as_array().unwrap().len(), 6);
}
