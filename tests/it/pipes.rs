//! Commands that go on until they are ended, and the readers of what they print: the real binary.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    time::Instant,
};

use holdoff_client::proto::{OverrideKind, SetOverrideRequest};

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
