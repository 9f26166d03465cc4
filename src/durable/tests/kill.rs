//! `kill -9` at random instants: what was acknowledged is there, what was not is there whole or
//! not at all.
//!
//! The child is this test binary itself, told by an environment variable to run [`child`]. Its
//! writers take numbered steps, and print a line for each acknowledgement; what a step leaves
//! behind follows from its number, so the parent can tell from the audit log what must be there.

use std::{
    io::{Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use tempfile::tempdir;

use super::*;
use crate::durable::{AuditLink, DurableError, Restored};

const DIRECTORY: &str = "HOLDOFF_TEST_KILL_DIRECTORY";
const NEXT_STEPS: &str = "HOLDOFF_TEST_KILL_STEPS";
const WRITERS: usize = 8;
const KILLS: usize = 40;
const SEED: u64 = 0x6b69_6c6c;

type Steps = [u64; WRITERS];

fn name(writer: usize) -> String {
    format!("w{writer}")
}

/// Step n of a writer: its override is set, its policy is put, its override is cleared, and so on.
fn change(writer: usize, step: u64) -> Change {
    let key = key(&name(writer));
    match step % 3 {
        0 => Change::SetOverride(
            key,
            Override {
                reason: step.to_string(),
                ..forced_open(None)
            },
        ),
        1 => Change::PutPolicy(key, policy(&step.to_string())),
        _ => Change::ClearOverride(key),
    }
}

/// What must be there after a step: the override's reason, and the policy's document.
fn expected(step: u64) -> (Option<String>, Option<String>) {
    let newest_override = step - step % 3;
    let set = step % 3 < 2 && newest_override > 0;
    let reason = set.then(|| newest_override.to_string());
    let newest_policy = (1..=step).rev().find(|step| step % 3 == 1);
    (reason, newest_policy.map(|step| step.to_string()))
}

#[test]
fn child() {
    let (Ok(path), Ok(steps)) = (std::env::var(DIRECTORY), std::env::var(NEXT_STEPS)) else {
        return;
    };
    let steps = steps.split(',').map(|step| step.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let Opened { durable, state } = open(Path::new(&path));
    say(&format!("\nboot {}", state.boot));
    let durable = Arc::new(durable);
    let work = tokio::task::LocalSet::new();
    for (writer, first) in steps.enumerate() {
        work.spawn_local(write_for_ever(durable.clone(), writer, first));
    }
    runtime.block_on(work);
}

async fn write_for_ever(
    durable: Arc<Durable>,
    writer: usize,
    first: u64,
) -> Result<(), DurableError> {
    for step in first.. {
        let entry = AuditEntry {
            detail: step.to_string(),
            ..entry("Step", &name(writer))
        };
        durable.commit(change(writer, step), entry).await.unwrap();
        say(&format!("step {writer} {step}"));
        let checkpoint = breaker(BreakerPhase::Open, step, Duration::from_secs(60));
        durable.checkpoint(key(&name(writer)), checkpoint);
        durable.flushed().await.unwrap();
        say(&format!("trip {writer} {step}"));
    }
    Ok(())
}

/// Straight to the pipe: whatever a kill leaves in a buffer was not acknowledged to anybody.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

fn spawn(directory: &Path, next: &Steps) -> Child {
    let next: Vec<_> = next.iter().map(u64::to_string).collect();
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "durable::tests::kill::child", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(NEXT_STEPS, next.join(","))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// What the child acknowledged before it was killed.
#[derive(Debug, Default)]
struct Acknowledged {
    boot: u64,
    steps: Steps,
    trips: Steps,
}

fn parse(said: &str) -> Acknowledged {
    let mut acknowledged = Acknowledged::default();
    let whole_lines = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
    for line in whole_lines.lines() {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["boot", boot] => acknowledged.boot = boot.parse().unwrap(),
            ["step", writer, step] => {
                acknowledged.steps[writer.parse::<usize>().unwrap()] = step.parse().unwrap();
            }
            ["trip", writer, step] => {
                acknowledged.trips[writer.parse::<usize>().unwrap()] = step.parse().unwrap();
            }
            _ => {}
        }
    }
    acknowledged
}

#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "a real process is killed at real instants"
)]
fn what_was_acknowledged_survives_a_kill_at_any_instant() {
    let home = tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut random = StdRng::seed_from_u64(SEED);
    let (mut done, mut boot, mut total) = (Steps::default(), 0, 0);
    for round in 0..KILLS {
        let mut child = spawn(home.path(), &done.map(|step| step + 1));
        std::thread::sleep(Duration::from_micros(random.random_range(2_000..120_000)));
        child.kill().unwrap();
        let mut said = String::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        child.wait().unwrap();

        let acknowledged = parse(&said);
        let Opened { durable, state } = open(home.path());
        assert!(
            acknowledged.boot == 0 || acknowledged.boot > boot,
            "round {round}"
        );
        assert!(state.boot > boot.max(acknowledged.boot), "round {round}");
        boot = state.boot;
        assert!(!state.rolled_back, "round {round}");
        total += acknowledged.steps.iter().filter(|step| **step > 0).count();
        let found = runtime.block_on(steps_in_the_log(&durable));
        for writer in 0..WRITERS {
            check(writer, &acknowledged, done[writer], found[writer], &state);
        }
        done = found;
    }
    assert!(
        total > KILLS,
        "too few acknowledgements to mean anything: {total}"
    );
}

/// The newest step of each writer in the log, after a look at all of it.
async fn steps_in_the_log(durable: &Durable) -> Steps {
    let verdict = durable.audit_verify("default").await.unwrap();
    assert_eq!(
        (verdict.broken, verdict.intact),
        (None, verdict.head.sequence)
    );
    let mut found = Steps::default();
    for AuditLink { record, .. } in durable.audit_page(None, 0, usize::MAX).await.unwrap() {
        let writer: usize = record.dependency[1..].parse().unwrap();
        let step = record.detail.parse().unwrap();
        assert_eq!(step, found[writer] + 1, "no step is missing or there twice");
        found[writer] = step;
    }
    found
}

fn check(writer: usize, acknowledged: &Acknowledged, before: u64, found: u64, state: &Restored) {
    let acked = acknowledged.steps[writer].max(before);
    assert!(
        found == acked || found == acked + 1,
        "writer {writer}: {acked} acknowledged, {found} there"
    );
    let key = key(&name(writer));
    let reason = state
        .overrides
        .iter()
        .find(|(of, _)| *of == key)
        .map(|(_, order)| order.reason.clone());
    let document = state
        .policies
        .iter()
        .find(|(of, _)| *of == key)
        .map(|(_, put)| put.document.clone());
    assert_eq!(
        (reason, document),
        expected(found),
        "record and effect agree at step {found}"
    );
    let epoch = state
        .breakers
        .iter()
        .find(|(of, _)| *of == key)
        .map_or(0, |(_, saved)| saved.epoch);
    let tripped = acknowledged.trips[writer];
    assert!(
        epoch >= tripped && epoch <= found,
        "writer {writer}: trip {tripped}, {epoch} there"
    );
}
