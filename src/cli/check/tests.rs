//! Real commands against a coordinator over a real socket, and without one. Times are real,
//! since processes are; all are short.

use std::{path::Path, sync::Mutex as Lock, time::Instant};

use super::{super::fake::Fake, *};
use crate::proto::{
    CheckRun, CheckShared, CheckVerdict, PlanCheckResponse, plan_check_response::Plan as Wire,
};

const HEALTHY: i32 = CheckVerdict::Healthy as i32;
const UNHEALTHY: i32 = CheckVerdict::Unhealthy as i32;

fn wire(millis: i32) -> Option<prost_types::Duration> {
    Some(prost_types::Duration {
        seconds: 0,
        nanos: millis * 1_000_000,
    })
}

fn planned(plan: Wire) -> PlanCheckResponse {
    PlanCheckResponse {
        plan: Some(plan),
        verdict: HEALTHY,
        period: wire(500),
    }
}

/// Now, for so long at most.
fn run_for(millis: i32) -> PlanCheckResponse {
    planned(Wire::Run(CheckRun {
        delay: wire(0),
        permit: "plan".into(),
        timeout: wire(millis),
    }))
}

fn shared() -> PlanCheckResponse {
    planned(Wire::Shared(CheckShared {
        verdict: UNHEALTHY,
        age: None,
        ask_again: wire(10),
    }))
}

struct Trial {
    exit: Result<Exit, Failure>,
    lines: Vec<String>,
    fake: Fake,
}

fn args(flags: &[&str], command: &str) -> CheckArgs {
    let parser = <CheckArgs as Args>::augment_args(clap::Command::new("check"));
    let all = ["check", "--dependency", "d"]
        .into_iter()
        .chain(flags.iter().copied());
    let matches = parser.get_matches_from(all.chain(["--", "sh", "-c", command]));
    <CheckArgs as clap::FromArgMatches>::from_arg_matches(&matches).unwrap()
}

async fn check_at(
    context: &Context,
    args: CheckArgs,
    signals: Signals,
) -> (Result<Exit, Failure>, Vec<String>) {
    let lines = Arc::new(Lock::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let print = move |line: &str| kept.lock().unwrap().push(line.trim_end().to_owned());
    let exit = check(context, args, signals, print).await;
    let lines = lines.lock().unwrap().clone();
    (exit, lines)
}

async fn trial(
    plans: impl IntoIterator<Item = PlanCheckResponse>,
    flags: &[&str],
    command: &str,
) -> Trial {
    let fake = Fake::default();
    fake.plans.lock().unwrap().extend(plans);
    let context = Context::for_test(&fake.serve().await);
    let (sender, signals) = Signals::scripted();
    drop(sender);
    let (exit, lines) = check_at(&context, args(flags, command), signals).await;
    Trial { exit, lines, fake }
}

/// Fails at its second run.
fn second_fails(folder: &Path) -> String {
    format!(
        "cd {}; echo x >> runs; test $(wc -l < runs) -ne 2",
        folder.display()
    )
}

#[tokio::test]
async fn a_command_is_run_as_planned_and_its_exit_code_is_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let command = second_fails(folder.path());
    let plans = [run_for(900), run_for(900), shared(), run_for(900), shared()];
    let trial = trial(plans, &["--runs", "3", "--instance", "node-7"], &command).await;
    assert_eq!(trial.exit.unwrap(), Exit::Done);
    let said: Vec<_> = trial
        .lines
        .iter()
        .map(|line| line.contains("d  healthy in"))
        .collect();
    assert_eq!(said, [true, false, false, true], "{:?}", trial.lines);
    assert!(
        trial.lines[1].contains("(exit 1); fleet: healthy"),
        "{:?}",
        trial.lines
    );
    assert!(
        trial.lines[2].contains("left to others; fleet: unhealthy;"),
        "{:?}",
        trial.lines
    );
    let asked = trial.fake.checked.lock().unwrap();
    let checker = asked[0].checker.clone().unwrap();
    assert_eq!(
        (&*checker.service, &*checker.instance),
        ("holdoff-check", "node-7")
    );
    let results: Vec<_> = asked
        .iter()
        .map(|ask| ask.last_result.as_ref().map(|last| last.verdict))
        .collect();
    let expected = [None, Some(HEALTHY), Some(UNHEALTHY), None, Some(HEALTHY)];
    assert_eq!(results, expected);
}

#[tokio::test]
async fn the_last_of_the_runs_decides_the_exit_code() {
    let trial = trial([run_for(900)], &["--runs", "1", "--quiet"], "exit 3").await;
    assert_eq!(trial.exit.unwrap(), Exit::No);
    assert!(trial.lines.is_empty(), "{:?}", trial.lines);
}

#[tokio::test]
async fn a_run_that_takes_too_long_is_ended_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let command = format!(
        "(sleep 5; echo late > {}/late) & wait",
        folder.path().display()
    );
    let begun = Instant::now();
    let trial = trial([run_for(150)], &["--runs", "1"], &command).await;
    assert_eq!(trial.exit.unwrap(), Exit::No);
    assert!(
        trial.lines[0].contains("unhealthy: given up after 1"),
        "{:?}",
        trial.lines
    );
    assert!(begun.elapsed() < Duration::from_secs(4));
    let group = std::process::Command::new("pgrep")
        .args(["-f", &format!("{}/late", folder.path().display())])
        .output();
    if let Ok(found) = group {
        assert!(found.stdout.is_empty(), "something of it still runs");
    }
}

#[tokio::test]
async fn a_signal_ends_the_command_too_and_is_a_clean_end() {
    for (flags, ended) in [
        (&[][..], Exit::Done),
        (&["--runs", "9"][..], Exit::Command(143)),
    ] {
        let fake = Fake::default();
        fake.plans.lock().unwrap().push_back(run_for(900));
        let context = Context::for_test(&fake.serve().await);
        let (sender, signals) = Signals::scripted();
        let begun = Instant::now();
        let checking = check_at(&context, args(flags, "sleep 0.8; sleep 20"), signals);
        let told = async {
            while fake.checked.lock().unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
            sender.send(Signal::TERM).unwrap();
        };
        let ((exit, _), ()) = tokio::join!(checking, told);
        assert_eq!(exit.unwrap(), ended);
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}

#[tokio::test]
async fn without_a_plan_or_a_service_the_command_runs_every_period() {
    let flags = ["--runs", "3", "--period", "50ms", "--timeout", "900ms"];
    let unplanned = trial([], &flags, "true").await;
    assert_eq!(unplanned.exit.unwrap(), Exit::Done);
    assert_eq!(unplanned.lines.len(), 3, "{:?}", unplanned.lines);
    assert!(unplanned.lines[0].ends_with("fleet: not told; not planned"));
    let (sender, signals) = Signals::scripted();
    drop(sender);
    let context = Context::for_test("http://127.0.0.1:1");
    let (exit, lines) = check_at(&context, args(&flags, "true"), signals).await;
    assert_eq!((exit.unwrap(), lines.len()), (Exit::Done, 3));
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_no_result() {
    let fake = Fake::default();
    fake.plans.lock().unwrap().push_back(run_for(900));
    let context = Context::for_test(&fake.serve().await);
    let (sender, signals) = Signals::scripted();
    drop(sender);
    let mut args = args(&[], "");
    args.command = vec!["/no/such/check".to_owned()];
    let (exit, lines) = check_at(&context, args, signals).await;
    assert_eq!((exit.unwrap(), lines), (Exit::Command(127), Vec::new()));
    assert_eq!(
        fake.checked.lock().unwrap().len(),
        1,
        "nothing is handed over"
    );
}

#[tokio::test]
async fn names_that_no_service_would_take_are_wrong_use() {
    let context = Context::for_test("http://127.0.0.1:1");
    let (_sender, signals) = Signals::scripted();
    let mut wrong = args(&[], "true");
    wrong.dependency = "a b".to_owned();
    let (exit, _) = check_at(&context, wrong, signals).await;
    assert_eq!(exit.unwrap_err().code(), 2);
}
