//! A recording of the real binary, killed in the middle, and what a replay makes of it.

use std::{
    path::Path,
    process::{Command, Output},
    time::Instant,
};

use holdoff::recording::Reader;
use holdoff_client::proto::OutcomeKind;
use serde_json::Value;

use crate::{
    harness::*,
    process::{BINARY, Running, serve, written},
};

use OutcomeKind::{Failure, Success};

const NEVER_OPENS: &str = "{breaker: {window: 100, min_calls: 100}, retry: {max_attempts: 4}}";
const NO_BREAKER: &str = "{breaker: {mode: off}}";
const OPENS: &str = "{breaker: {window: 10, min_calls: 5, min_reporters: 1, open_for: 10s}}";

fn start(folder: &Path, max: &str) -> Running {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    Running::of(serve(&[
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        &path("data"),
        "--policies",
        &path("live.yaml"),
        "--record",
        &path("recording"),
        "--record-max",
        max,
        "--record-files",
        "4",
    ]))
}

/// What is on the disk. The newest file may be in the middle of a write.
fn recorded(folder: &Path) -> usize {
    let mut reader = Reader::open(&folder.join("recording")).unwrap();
    let mut count = 0;
    while reader.next_entry().unwrap().is_some() {
        count += 1;
    }
    count
}

async fn until_recorded(folder: &Path, count: usize) {
    let begun = Instant::now();
    while recorded(folder) < count {
        assert!(
            begun.elapsed() < PATIENCE,
            "{} of {count}",
            recorded(folder)
        );
        tokio::task::yield_now().await;
    }
}

fn replay(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.args(["replay", "--output", "json", "--recording"]);
    command.arg(folder.join("recording")).args(arguments);
    command.current_dir(folder).output().unwrap()
}

fn replayed(folder: &Path, policies: &str) -> Value {
    let output = replay(folder, &["--policies", policies]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A number in protobuf's JSON mapping.
fn number(value: &Value) -> u64 {
    let text = value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is no number"));
    text.parse().unwrap()
}

/// Calls with a retry after each failure, over the socket.
async fn some_calls(url: &str, count: usize) -> usize {
    let mut client = Client::connect(url).await;
    let mut happenings = 0;
    for call in 0..count {
        let grant = client.granted(first("d")).await;
        happenings += 2;
        if call % 30 < 15 {
            let answer = client.ask(retry("d", 2, &grant.permit, Failure)).await;
            assert!(answer.verdict.is_some());
        } else {
            client.reported(&grant.permit, Success).await;
        }
    }
    happenings
}

#[tokio::test]
async fn a_killed_service_leaves_a_recording_that_a_replay_follows_to_the_last_answer() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    written(folder, "live.yaml", &policy_of_d(NEVER_OPENS));
    written(folder, "candidate.yaml", &policy_of_d(OPENS));
    let mut expected = 0;
    for _run in 0..2 {
        let mut service = start(folder, "64MiB");
        expected += some_calls(&service.url, 60).await;
        until_recorded(folder, expected).await;
        service.kill();
    }

    let live = replayed(folder, "live.yaml");
    assert_eq!(live, replayed(folder, "live.yaml"), "twice the same");
    assert_eq!(live["rerun"]["unlike"], 0, "{live:#}");
    assert_eq!(live["damage"], serde_json::json!([]));
    assert_eq!(live["happenings"], expected as u64);
    let all = &live["all"];
    assert_eq!(all["live"], all["candidate"], "{live:#}");
    assert_eq!(
        (&all["refused"], &all["letThrough"]),
        (&Value::Array(vec![]), &Value::Array(vec![]))
    );

    let other = replayed(folder, "candidate.yaml");
    let all = &other["all"];
    assert!(
        number(&all["candidate"]["opened"]) >= 2,
        "one a run: {other:#}"
    );
    assert_eq!(number(&all["live"]["opened"]), 0);
    let refused = &all["refused"].as_array().unwrap()[0];
    assert!(number(&refused["firstAttempts"]) > 10, "{other:#}");
    assert!(number(&refused["succeeded"]) > 0, "{other:#}");
    let openings = other["dependencies"][0]["comparison"]["candidate"]["openings"].as_array();
    assert!(openings.unwrap()[0]["time"].is_string());
}

#[tokio::test]
async fn a_torn_tail_is_told_with_its_place_and_what_stands_before_it_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    written(folder, "live.yaml", &policy_of_d(NEVER_OPENS));
    let mut service = start(folder, "64MiB");
    let expected = some_calls(&service.url, 20).await;
    until_recorded(folder, expected).await;
    service.kill();
    let file = folder.join("recording/00000001.holdrec");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 3]).unwrap();
    let live = replayed(folder, "live.yaml");
    assert_eq!(live["happenings"], expected as u64 - 1);
    let damage = &live["damage"][0];
    assert_eq!(damage["file"], file.to_str().unwrap());
    let offset = damage["offset"].as_u64().unwrap() as usize;
    assert!(offset < bytes.len() && offset > bytes.len() / 2, "{damage}");
    assert_eq!(live["rerun"]["unlike"], 0);
}

#[tokio::test]
async fn a_recording_is_rotated_and_stays_within_its_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    written(folder, "live.yaml", &policy_of_d(NO_BREAKER));
    let mut service = start(folder, "256KiB");
    let newest = folder.join("recording/00000006.holdrec");
    let begun = Instant::now();
    while !newest.exists() {
        some_calls(&service.url, 200).await;
        assert!(begun.elapsed() < 4 * PATIENCE);
    }
    service.kill();
    assert!(!folder.join("recording/00000001.holdrec").exists());
    let live = replayed(folder, "live.yaml");
    assert_eq!(
        live["damage"],
        serde_json::json!([]),
        "rotation tears nothing"
    );
    assert_eq!(live["leftOut"], Value::Null);
    assert_eq!(live["left_out"], 0);
}

#[test]
fn what_cannot_be_replayed_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    written(folder, "live.yaml", &policy_of_d(NEVER_OPENS));
    written(
        folder,
        "bad.yaml",
        &policy_of_d("{retry: {max_attempts: 0}}"),
    );
    let said = |policies: &str| {
        let output = replay(folder, &["--policies", policies]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), text)
    };
    let (code, text) = said("live.yaml");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("recording"), "{text}");
    std::fs::create_dir(folder.join("recording")).unwrap();
    let (code, text) = said("live.yaml");
    assert_eq!(code, Some(1));
    assert!(text.contains("no recording in it"), "{text}");
    let (code, text) = said("bad.yaml");
    assert_eq!(code, Some(1));
    assert!(text.contains("max_attempts"), "{text}");
}
