//! Real commands against a coordinator over a real socket, a service that is not there, and
//! one that never answers. Times are real, since processes are; all are short.

use std::{path::Path, time::Instant};

use holdoff_client::proto;

use super::{
    super::fake::{self, Fake},
    *,
};
use crate::proto::{
    DenialReason as Reason, Outcome as Told, acquire_response::Verdict, report_entry::Entry,
};

const KIND_SUCCESS: i32 = proto::OutcomeKind::Success as i32;
const KIND_FAILURE: i32 = proto::OutcomeKind::Failure as i32;
const KIND_TIMEOUT: i32 = proto::OutcomeKind::Timeout as i32;
const KIND_THROTTLED: i32 = proto::OutcomeKind::Throttled as i32;
const KIND_CANCELLED: i32 = proto::OutcomeKind::Cancelled as i32;

/// One `exec`, and all that came of it.
struct Trial {
    ended: Ended,
    state: State,
    fake: Fake,
}

struct Setup {
    plan: Plan,
    question: Question,
    on_denied: OnDenied,
    signals: Signals,
}

fn setup(command: &str) -> Setup {
    let (sender, signals) = Signals::scripted();
    drop(sender);
    Setup {
        plan: Plan {
            command: ["sh", "-c", command].map(String::from).to_vec(),
            attempt_timeout: None,
            rule: Rule::Exit,
            success_codes: vec![0],
            headers: None,
            stdout: Stdout::Ours,
        },
        question: Question::new("d").safety(Safety::Idempotent),
        on_denied: OnDenied::Fail,
        signals,
    }
}

async fn run_at(server: &str, setup: Setup) -> (Ended, State) {
    let wait = Duration::from_millis(500);
    let client = Client::builder()
        .endpoints([server])
        .timeout(wait)
        .build()
        .unwrap();
    let Setup {
        plan,
        question,
        on_denied,
        mut signals,
    } = setup;
    let runner = Runner::new(plan, Stdin::Nothing, None);
    client.connect(wait).await;
    let ended = guarded(&client, question, on_denied, &runner, &mut signals).await;
    client.flush(wait).await;
    (ended, runner.state())
}

async fn trial(script: impl IntoIterator<Item = Verdict>, setup: Setup) -> Trial {
    let fake = Fake::default();
    fake.script.lock().unwrap().extend(script);
    let server = fake.serve().await;
    let (ended, state) = run_at(&server, setup).await;
    Trial { ended, state, fake }
}

impl Trial {
    fn exit(&self) -> Exit {
        exit(&self.ended, &self.state)
    }

    fn epitaph(&self) -> String {
        epitaph(&self.ended, &self.state).unwrap_or_default()
    }

    /// All outcomes, in the order of their telling.
    fn told(&self) -> Vec<Told> {
        let asked = self.fake.asked.lock().unwrap();
        let before = asked.iter().filter_map(|a| a.previous.as_ref()?.outcome);
        let reported = self.fake.reported.lock().unwrap();
        let entries = reported.iter().flat_map(|report| &report.entries);
        let after = entries.filter_map(|entry| match entry.entry.as_ref()? {
            Entry::Result(result) => result.outcome,
            Entry::Tally(_) => None,
        });
        before.chain(after).collect()
    }

    fn kinds(&self) -> Vec<i32> {
        self.told().iter().map(|outcome| outcome.kind).collect()
    }
}

/// Fails until it has run `times` times.
fn flaky(folder: &Path, times: u32) -> String {
    format!(
        "cd {}; echo x >> runs; test $(wc -l < runs) -ge {times}",
        folder.display()
    )
}

fn wire(millis: i64) -> Option<prost_types::Duration> {
    let nanos = i32::try_from(millis % 1_000 * 1_000_000).unwrap();
    Some(prost_types::Duration {
        seconds: millis / 1_000,
        nanos,
    })
}

#[tokio::test]
async fn a_command_is_run_again_until_it_works() {
    let folder = tempfile::tempdir().unwrap();
    let grants = [fake::grant(1), fake::grant(2), fake::grant(3)];
    let trial = trial(grants, setup(&flaky(folder.path(), 3))).await;
    assert_eq!((trial.exit(), trial.state.runs), (Exit::Command(0), 3));
    assert_eq!(trial.epitaph(), "succeeded at attempt 3");
    assert_eq!(trial.kinds(), [KIND_FAILURE, KIND_FAILURE, KIND_SUCCESS]);
    let asked = trial.fake.asked.lock().unwrap();
    assert_eq!(
        asked.iter().map(|a| a.attempt).collect::<Vec<_>>(),
        [1, 2, 3]
    );
}

#[tokio::test]
async fn a_denied_retry_ends_with_the_commands_code_and_says_why() {
    let script = [
        fake::grant(1),
        fake::grant(2),
        fake::denial(Reason::BudgetExhausted, None),
    ];
    let trial = trial(script, setup("exit 7")).await;
    assert_eq!(trial.exit(), Exit::Command(7));
    assert_eq!(
        trial.epitaph(),
        "gave up after 2 attempts: BUDGET_EXHAUSTED: open for 7.2 s more"
    );
}

#[tokio::test]
async fn a_denial_before_the_first_run_is_exit_1_and_nothing_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let script = [fake::denial(Reason::BreakerOpen, wire(7_400))];
    let trial = trial(script, setup(&flaky(folder.path(), 1))).await;
    assert_eq!(trial.exit(), Exit::No);
    let line = "not run: BREAKER_OPEN: open for 7.2 s more; ask again in 7.4 s";
    assert_eq!(trial.epitaph(), line);
    assert!(!folder.path().join("runs").exists());
}

#[tokio::test]
async fn waiting_asks_again_when_the_denial_says_so_and_only_within_the_timeout() {
    let patient = || Setup {
        on_denied: OnDenied::Wait,
        question: Question::new("d").deadline(Duration::from_secs(20)),
        ..setup("true")
    };
    let soon = trial([fake::denial(Reason::Held, wire(30))], patient()).await;
    assert_eq!((soon.exit(), soon.state.runs), (Exit::Command(0), 1));
    let late = trial([fake::denial(Reason::Held, wire(60_000))], patient()).await;
    assert_eq!((late.exit(), late.state.runs), (Exit::No, 0));
}

#[tokio::test]
async fn our_own_limit_holds_whatever_the_service_grants() {
    let question = Question::new("d")
        .safety(Safety::Idempotent)
        .max_attempts(2);
    let trial = trial(
        [],
        Setup {
            question,
            ..setup("exit 3")
        },
    )
    .await;
    assert_eq!((trial.exit(), trial.state.runs), (Exit::Command(3), 2));
    let line = trial.epitaph();
    assert!(
        line.starts_with("gave up after 2 attempts: ATTEMPTS_EXHAUSTED"),
        "{line}"
    );
}

#[tokio::test]
async fn without_idempotent_only_what_was_not_sent_is_run_again() {
    let curl = |code: u8| {
        let mut setup = setup(&format!("exit {code}"));
        setup.plan.rule = Rule::Curl;
        Setup {
            question: Question::new("no").safety(Safety::Unsafe),
            ..setup
        }
    };
    let script = || [fake::grant(1), fake::denial(Reason::RetryUnsafe, None)];
    let refused = trial(script(), curl(56)).await;
    assert_eq!(refused.kinds().first(), Some(&KIND_FAILURE));
    let not_sent = trial(script(), curl(7)).await;
    assert_eq!(
        not_sent.kinds().first(),
        Some(&(proto::OutcomeKind::NotSent as i32))
    );
}

#[tokio::test]
async fn an_attempt_over_its_limit_is_stopped_with_all_it_started() {
    let mut slow = setup("sleep 30 | sleep 30");
    slow.plan.attempt_timeout = Some(Duration::from_millis(100));
    let begun = Instant::now();
    let script = [fake::grant(1), fake::denial(Reason::BudgetExhausted, None)];
    let trial = trial(script, slow).await;
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(trial.exit(), Exit::Command(124));
    assert_eq!(trial.kinds(), [KIND_TIMEOUT]);
}

#[tokio::test]
async fn the_timeout_ends_it_all() {
    let question = Question::new("d").deadline(Duration::from_millis(300));
    let begun = Instant::now();
    let trial = trial(
        [],
        Setup {
            question,
            ..setup("sleep 30")
        },
    )
    .await;
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!((trial.exit(), trial.state.runs), (Exit::Command(124), 1));
    let line = trial.epitaph();
    assert!(line.starts_with("gave up after 1 attempt: "), "{line}");
    assert_eq!(trial.kinds().first(), Some(&KIND_TIMEOUT));
}

#[tokio::test]
async fn a_command_that_ignores_the_polite_end_is_made_to() {
    let folder = tempfile::tempdir().unwrap();
    let command = format!(
        "trap '' TERM; echo $$ > {}/pid; sleep 30; sleep 30",
        folder.path().display()
    );
    let question = Question::new("d").deadline(Duration::from_millis(300));
    trial(
        [],
        Setup {
            question,
            ..setup(&command)
        },
    )
    .await;
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    for _ in 0..200 {
        if rustix::process::test_kill_process(pid).is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it still lives");
}

#[tokio::test]
async fn a_signal_is_passed_on_and_told_as_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let command = format!(
        "trap 'exit 42' TERM; touch {}; while :; do sleep 0.01; done",
        ready.display()
    );
    let (sender, signals) = Signals::scripted();
    let script = [fake::grant(1), fake::denial(Reason::NotRetryable, None)];
    let running = trial(
        script,
        Setup {
            signals,
            ..setup(&command)
        },
    );
    let (trial, ()) = tokio::join!(running, async {
        while !ready.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        sender.send(Signal::TERM).unwrap();
    });
    assert_eq!((trial.exit(), trial.state.runs), (Exit::Command(42), 1));
    assert_eq!(trial.epitaph(), "");
    assert_eq!(trial.kinds(), [KIND_CANCELLED]);
}

#[tokio::test]
async fn a_signal_during_a_wait_ends_it_at_once() {
    let (sender, signals) = Signals::scripted();
    let patient = Setup {
        signals,
        on_denied: OnDenied::Wait,
        ..setup("true")
    };
    sender.send(Signal::INT).unwrap();
    let trial = trial([fake::denial(Reason::Held, wire(60_000))], patient).await;
    assert_eq!((trial.exit(), trial.state.runs), (Exit::Command(130), 0));
}

#[tokio::test]
async fn a_command_that_is_not_there_is_127_and_gives_its_permit_back() {
    let mut missing = setup("");
    missing.plan.command = vec!["/no/such/command".into()];
    let trial = trial([], missing).await;
    assert_eq!((trial.exit(), trial.state.runs), (Exit::Command(127), 0));
    assert!(trial.epitaph().starts_with("cannot run /no/such/command: "));
    assert_eq!(trial.kinds(), [KIND_CANCELLED]);
}

#[tokio::test]
async fn a_retry_after_in_a_headers_file_becomes_a_pushback_and_old_headers_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let dump = "printf 'HTTP/1.1 429 Too Many\\r\\nRetry-After: 20\\r\\n\\r\\n' > h; exit 22";
    let command = format!(
        "cd {}; if test -e h; then exit 22; fi; {dump}",
        folder.path().display()
    );
    let mut curl = setup(&command);
    curl.plan.rule = Rule::Curl;
    curl.plan.headers = Some(HeaderSource::File(folder.path().join("h")));
    let script = [
        fake::grant(1),
        fake::grant(2),
        fake::denial(Reason::BudgetExhausted, None),
    ];
    let trial = trial(script, curl).await;
    let told = trial.told();
    assert_eq!(trial.kinds(), [KIND_THROTTLED, KIND_FAILURE]);
    assert_eq!(told[0].pushback.map(|wait| wait.seconds), Some(20));
    assert_eq!(told[0].status_code, 429);
    assert_eq!(told[1].pushback, None, "the second run wrote nothing");
}

#[tokio::test]
async fn headers_on_an_output_are_read_while_it_is_passed_on() {
    for (source, redirect) in [(HeaderSource::Stdout, ""), (HeaderSource::Stderr, " >&2")] {
        let mut http = setup(&format!(
            "printf 'HTTP/2 503\\nretry-after: 2\\n\\n'{redirect}"
        ));
        http.plan.rule = Rule::Http;
        http.plan.headers = Some(source);
        let script = [fake::grant(1), fake::denial(Reason::BudgetExhausted, None)];
        let trial = trial(script, http).await;
        assert_eq!(trial.kinds(), [KIND_FAILURE]);
        assert_eq!(trial.told()[0].pushback.map(|wait| wait.seconds), Some(2));
        assert_eq!(trial.exit(), Exit::Command(0), "the command's own code");
    }
}

#[tokio::test]
async fn a_service_that_is_down_or_silent_delays_the_command_by_little() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let (silent, state) = run_at(&server, setup(&flaky(folder.path(), 2))).await;
    assert_eq!((exit(&silent, &state), state.runs), (Exit::Command(0), 2));
    assert!(
        begun.elapsed() < Duration::from_secs(6),
        "{:?}",
        begun.elapsed()
    );
    drop(listener);
    let folder = tempfile::tempdir().unwrap();
    let (down, state) = run_at(&server, setup(&flaky(folder.path(), 2))).await;
    assert_eq!((exit(&down, &state), state.runs), (Exit::Command(0), 2));
}

#[tokio::test]
async fn names_that_no_service_would_take_are_wrong_use() {
    let context = Context::for_test("http://127.0.0.1:1");
    for wrong in ["", "a b", "é"] {
        let command = <ExecArgs as Args>::augment_args(clap::Command::new("exec"));
        let matches = command.get_matches_from(["exec", "--dependency", wrong, "--", "true"]);
        let args = <ExecArgs as clap::FromArgMatches>::from_arg_matches(&matches).unwrap();
        assert_eq!(run(&context, args).await.unwrap_err().code(), 2, "{wrong}");
    }
}
