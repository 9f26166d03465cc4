//! Commands that go on until they are ended, and the readers of what they print: the real binary.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    time::Instant,
};

use holdoff_client::proto::{OutcomeKind, OverrideKind, SetOverrideRequest};

use crate::{harness::*, process::BINARY};

fn follow(service: &Service, arguments: &[&str]) -> Child {
    Command::new(BINARY)
        .args(arguments)
        .args(["--server", &service.urls[0]])
        .env_remove("HOLDOFF_TOKEN")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Its exit code, and what it said to standard error.
fn ended(mut child: Child) -> (Option<i32>, String) {
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it goes on although nobody reads it");
        }
        std::thread::yield_now();
    };
    let mut said = String::new();
    child.stderr.unwrap().read_to_string(&mut said).unwrap();
    (status.code(), said)
}

/// `holdoff events --follow | head -1`: nothing more happens, and still it ends.
#[tokio::test]
async fn what_follows_ends_with_its_reader_and_calls_that_no_error() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    client.granted(first("d")).await;
    for arguments in [
        &["events", "--follow", "--since", "1h"][..],
        &["events", "--follow", "--since", "1h", "--output", "json"],
        &["watch"],
        &["watch", "--output", "json"],
    ] {
        let force = SetOverrideRequest {
            dependency: "d".into(),
            kind: OverrideKind::ForceOpen.into(),
            owner: "ada".into(),
            reason: "why".into(),
            ..Default::default()
        };
        client.operates.set_override(force).await.unwrap();
        let mut child = follow(&service, arguments);
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(line.contains('d'), "{arguments:?}: {line}");
        drop(out);
        assert_eq!(ended(child), (Some(0), String::new()), "{arguments:?}");
    }
}

#[tokio::test]
async fn of_a_dependency_that_nobody_has_called_there_was_no_attempt_before() {
    let service = Service::start(&policy_of_d("{}")).await;
    let mut client = service.client().await;
    client.call("called", OutcomeKind::Success).await;
    // `d` is named by a policy alone.
    for (name, said) in [
        (
            "new",
            "outcome before  not counted: nothing is known of this dependency",
        ),
        (
            "d",
            "outcome before  not counted: nothing is known of this dependency",
        ),
        ("called", "outcome before  counted"),
    ] {
        let question = [
            "ask",
            name,
            "--attempt",
            "2",
            "--previous",
            "failure",
            "--idempotent",
        ];
        let mut child = follow(&service, &question);
        let mut answer = String::new();
        let mut out = child.stdout.take().unwrap();
        out.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(said), "{name}: {answer}");
        assert_eq!(ended(child), (Some(0), String::new()), "{name}");
    }
}

#[tokio::test]
async fn what_is_written_to_a_reader_that_has_gone_is_no_error() {
    let service = Service::start("version: 1").await;
    let mut client = service.client().await;
    for n in 0..2_000 {
        client.granted(first(&format!("d{n}"))).await;
    }
    // More than a pipe holds.
    let mut child = follow(&service, &["status", "--all", "--output", "json"]);
    drop(child.stdout.take());
    assert_eq!(ended(child), (Some(0), String::new()));
}
