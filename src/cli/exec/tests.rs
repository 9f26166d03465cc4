//! The loop with real commands, against a scripted coordinator, a service that is not
//! there, and one that never answers. Times are real, since processes are; all are short.

use std::{collections::VecDeque, path::Path, time::Instant};

use bytes::Bytes;
use holdoff_client::proto::OutcomeKind;

use super::{
    coordination::{Answer, Coordination, End, Go, Question, Stop, locally},
    *,
};

#[derive(Debug, Default)]
struct Script {
    answers: VecDeque<Answer>,
    asked: Vec<Question>,
    reported: Vec<End>,
}

impl Coordination for Script {
    async fn acquire(&mut self, question: Question) -> Answer {
        self.asked.push(question);
        self.answers
            .pop_front()
            .unwrap_or_else(|| stop("BUDGET_EXHAUSTED", None))
    }

    async fn report(&mut self, end: End) {
        self.reported.push(end);
    }
}

fn script(answers: impl IntoIterator<Item = Answer>) -> Script {
    Script {
        answers: answers.into_iter().collect(),
        ..Script::default()
    }
}

fn go(permit: u8) -> Answer {
    Answer::Go(Go {
        permit: Some(Bytes::from(vec![permit])),
        ..Go::default()
    })
}

fn stop(reason: &str, retry_after: Option<Duration>) -> Answer {
    Answer::Stop(Stop {
        reason: reason.into(),
        detail: "numbers".into(),
        retry_after,
    })
}

fn plan(command: &str) -> Plan {
    Plan {
        command: ["sh", "-c", command].map(String::from).to_vec(),
        timeout: None,
        attempt_timeout: None,
        max_attempts: 10,
        rule: Rule::Exit,
        success_codes: vec![0],
        headers: None,
        patience: Patience::FailFast,
    }
}

async fn run_plan(plan: &Plan, script: &mut Script) -> Ended {
    let (_sender, mut signals) = Signals::scripted();
    attempts::run(plan, script, &mut Stdin::Nothing, &mut signals).await
}

/// Fails until it has run `times` times.
fn flaky(folder: &Path, times: u32) -> String {
    format!(
        "cd {}; echo x >> runs; test $(wc -l < runs) -ge {times}",
        folder.display()
    )
}

fn kinds(ends: impl IntoIterator<Item = End>) -> Vec<OutcomeKind> {
    ends.into_iter().map(|end| end.outcome.kind()).collect()
}

#[tokio::test]
async fn a_command_is_run_again_until_it_works() {
    let folder = tempfile::tempdir().unwrap();
    let mut script = script([go(1), go(2), go(3)]);
    let ended = run_plan(&plan(&flaky(folder.path(), 3)), &mut script).await;
    assert_eq!(
        ended,
        Ended {
            why: Why::Succeeded,
            attempts: 3,
            code: Some(0)
        }
    );
    assert_eq!(exit(&ended), Exit::Done);
    let permits: Vec<_> = script
        .asked
        .iter()
        .map(|q| q.previous.clone()?.permit)
        .collect();
    assert_eq!(
        permits,
        [
            None,
            Some(Bytes::from_static(&[1])),
            Some(Bytes::from_static(&[2]))
        ]
    );
    assert_eq!(kinds(script.reported), [OutcomeKind::Success]);
}

#[tokio::test]
async fn a_denied_retry_ends_with_the_commands_code_and_says_why() {
    let mut script = script([go(1), go(2)]);
    let ended = run_plan(&plan("exit 7"), &mut script).await;
    assert_eq!(exit(&ended), Exit::Command(7));
    assert_eq!(
        epitaph(&ended).unwrap(),
        "gave up after 2 attempts: BUDGET_EXHAUSTED: numbers"
    );
    assert_eq!(
        kinds(script.asked.into_iter().filter_map(|q| q.previous)),
        [OutcomeKind::Failure; 2]
    );
}

#[tokio::test]
async fn a_denial_before_the_first_run_is_exit_1_and_nothing_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut script = script([stop("BREAKER_OPEN", Some(Duration::from_secs(7)))]);
    let ended = run_plan(&plan(&flaky(folder.path(), 1)), &mut script).await;
    assert_eq!(exit(&ended), Exit::No);
    assert_eq!(
        epitaph(&ended).unwrap(),
        "not run: BREAKER_OPEN: numbers; ask again in 7.0 s"
    );
    assert!(!folder.path().join("runs").exists());
}

#[tokio::test]
async fn waiting_asks_again_when_the_denial_says_so_and_only_within_the_timeout() {
    let mut script = script([stop("HELD", Some(Duration::from_millis(30))), go(1)]);
    let patient = Plan {
        patience: Patience::Wait,
        timeout: Some(Duration::from_secs(20)),
        ..plan("true")
    };
    let ended = run_plan(&patient, &mut script).await;
    assert_eq!((ended.why, ended.attempts), (Why::Succeeded, 1));

    let mut script = self::script([stop("HELD", Some(Duration::from_secs(60)))]);
    let ended = run_plan(&patient, &mut script).await;
    assert!(matches!(ended.why, Why::Denied(_)));
}

#[tokio::test]
async fn a_grant_that_says_so_is_confirmed_just_before_the_call() {
    let confirm = Answer::Go(Go {
        delay: Duration::from_millis(5),
        permit: Some(Bytes::from_static(&[9])),
        confirm: true,
    });
    let mut script = script([confirm, go(10)]);
    let ended = run_plan(&plan("true"), &mut script).await;
    assert_eq!(ended.why, Why::Succeeded);
    assert_eq!(script.asked[1].confirm.as_deref(), Some([9].as_slice()));
    assert_eq!(script.reported[0].permit.as_deref(), Some([10].as_slice()));
}

#[tokio::test]
async fn our_own_limit_holds_whatever_the_service_grants() {
    let mut script = script((0..20).map(go));
    let ended = run_plan(
        &Plan {
            max_attempts: 2,
            ..plan("exit 3")
        },
        &mut script,
    )
    .await;
    assert_eq!(exit(&ended), Exit::Command(3));
    assert_eq!(
        epitaph(&ended).unwrap(),
        "gave up after 2 attempts: --max-attempts: 2 allowed"
    );
    assert_eq!(
        kinds(script.reported),
        [OutcomeKind::Failure],
        "the last one is still told"
    );
}

#[tokio::test]
async fn an_attempt_over_its_limit_is_stopped_with_all_it_started() {
    let mut script = script([go(1)]);
    let slow = Plan {
        attempt_timeout: Some(Duration::from_millis(100)),
        ..plan("sleep 30 | sleep 30")
    };
    let begun = Instant::now();
    let ended = run_plan(&slow, &mut script).await;
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(exit(&ended), Exit::Command(124));
    assert_eq!(
        kinds(script.asked.into_iter().filter_map(|q| q.previous)),
        [OutcomeKind::Timeout]
    );
}

#[tokio::test]
async fn the_timeout_ends_it_all() {
    let mut script = script((0..20).map(go));
    let slow = Plan {
        timeout: Some(Duration::from_millis(150)),
        ..plan("sleep 30")
    };
    let ended = run_plan(&slow, &mut script).await;
    assert_eq!(exit(&ended), Exit::Command(124));
    assert_eq!(
        epitaph(&ended).unwrap(),
        "gave up after 1 attempt: --timeout: 150 ms are over"
    );
    assert_eq!(kinds(script.reported), [OutcomeKind::Timeout]);
}

#[tokio::test]
async fn a_delay_beyond_the_timeout_is_given_back_not_waited_for() {
    let later = Answer::Go(Go {
        delay: Duration::from_secs(60),
        permit: Some(Bytes::from_static(&[2])),
        confirm: false,
    });
    let mut script = script([go(1), later]);
    let short = Plan {
        timeout: Some(Duration::from_secs(5)),
        ..plan("exit 4")
    };
    let ended = run_plan(&short, &mut script).await;
    assert_eq!((exit(&ended), ended.attempts), (Exit::Command(4), 1));
    assert_eq!(kinds(script.reported), [OutcomeKind::Cancelled]);
}

#[tokio::test]
async fn a_signal_is_passed_on_and_told_as_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let command = format!(
        "trap 'exit 42' TERM; touch {}; while :; do sleep 0.01; done",
        ready.display()
    );
    let plan = plan(&command);
    let mut script = script([go(1)]);
    let (sender, mut signals) = Signals::scripted();
    let mut stdin = Stdin::Nothing;
    let running = attempts::run(&plan, &mut script, &mut stdin, &mut signals);
    let (ended, ()) = tokio::join!(running, async {
        while !ready.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        sender.send(rustix::process::Signal::TERM).unwrap();
    });
    assert_eq!(
        ended,
        Ended {
            why: Why::Cancelled,
            attempts: 1,
            code: Some(42)
        }
    );
    assert_eq!(kinds(script.reported), [OutcomeKind::Cancelled]);
}

#[tokio::test]
async fn a_command_that_is_not_there_is_127_and_gives_its_permit_back() {
    let mut script = script([go(1)]);
    let missing = Plan {
        command: vec!["/no/such/command".into()],
        ..plan("")
    };
    let ended = run_plan(&missing, &mut script).await;
    assert_eq!(exit(&ended), Exit::Command(127));
    assert_eq!(ended.attempts, 0);
    assert_eq!(kinds(script.reported), [OutcomeKind::Cancelled]);
}

#[tokio::test]
async fn a_retry_after_in_a_headers_file_becomes_a_pushback_and_old_headers_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("h");
    let dump = "printf 'HTTP/1.1 429 Too Many\\r\\nRetry-After: 20\\r\\n\\r\\n' > h; exit 22";
    let command = format!(
        "cd {}; if test -e h; then exit 22; fi; {dump}",
        folder.path().display()
    );
    let mut script = script([go(1), go(2)]);
    let curl = Plan {
        rule: Rule::Curl,
        headers: Some(HeaderSource::File(file)),
        ..plan(&command)
    };
    run_plan(&curl, &mut script).await;
    let ends: Vec<_> = script
        .asked
        .into_iter()
        .filter_map(|q| q.previous)
        .collect();
    assert_eq!(
        kinds(ends.clone()),
        [OutcomeKind::Throttled, OutcomeKind::Failure]
    );
    assert_eq!(
        ends[0].outcome.pushback.as_ref().map(|wait| wait.seconds),
        Some(20)
    );
    assert_eq!(ends[0].outcome.status_code, 429);
    assert_eq!(
        ends[1].outcome.pushback, None,
        "the second run wrote nothing"
    );
}

#[tokio::test]
async fn headers_on_an_output_are_read_while_it_is_passed_on() {
    for (source, redirect) in [(HeaderSource::Stdout, ""), (HeaderSource::Stderr, " >&2")] {
        let mut script = script([go(1)]);
        let http = Plan {
            rule: Rule::Http,
            headers: Some(source),
            ..plan(&format!(
                "printf 'HTTP/2 503\\nretry-after: 2\\n\\n'{redirect}"
            ))
        };
        run_plan(&http, &mut script).await;
        let end = script.asked.pop().unwrap().previous.unwrap();
        assert_eq!(end.outcome.kind(), OutcomeKind::Failure);
        assert_eq!(end.outcome.pushback.map(|wait| wait.seconds), Some(2));
    }
}

fn previous(kind: OutcomeKind, attempt: u32, pushback: Option<Duration>) -> Question {
    let outcome = holdoff_client::proto::Outcome {
        kind: kind.into(),
        pushback: pushback.map(span::to_wire),
        ..Default::default()
    };
    Question {
        attempt,
        previous: Some(End {
            permit: None,
            outcome,
        }),
        time_left: Some(Duration::from_secs(5)),
        confirm: None,
    }
}

fn reason(answer: Answer) -> String {
    match answer {
        Answer::Stop(stop) => stop.reason,
        Answer::Go(go) => format!("{:?}", go.delay),
    }
}

#[test]
fn alone_the_same_rules_hold_on_a_small_scale() {
    let ask = |kind, attempt, safety| reason(locally(&previous(kind, attempt, None), safety, 0.5));
    assert_eq!(ask(OutcomeKind::Failure, 2, Safety::Idempotent), "50ms");
    assert_eq!(ask(OutcomeKind::Failure, 3, Safety::Keyed), "100ms");
    assert_eq!(
        ask(OutcomeKind::Failure, 4, Safety::Idempotent),
        "ATTEMPTS_EXHAUSTED"
    );
    assert_eq!(ask(OutcomeKind::Timeout, 2, Safety::Unsafe), "RETRY_UNSAFE");
    assert_eq!(ask(OutcomeKind::NotSent, 2, Safety::Unsafe), "50ms");
    assert_eq!(
        ask(OutcomeKind::Rejected, 2, Safety::Idempotent),
        "NOT_RETRYABLE"
    );
}

#[test]
fn alone_a_pushback_is_a_floor_and_is_never_shortened() {
    let told = |wait| previous(OutcomeKind::Throttled, 2, Some(Duration::from_secs(wait)));
    let ask = |wait, sample| reason(locally(&told(wait), Safety::Idempotent, sample));
    assert_eq!(ask(2, 0.0), "2s");
    assert_eq!(ask(2, 0.5), "2.5s");
    assert_eq!(ask(20, 0.0), "DEADLINE");
    assert_eq!(ask(61, 0.0), "PUSHBACK_TOO_LONG");
}

fn service(server: &str) -> Service {
    let subject = Subject {
        namespace: "default".into(),
        dependency: "d".into(),
        caller: Caller::default(),
        safety: Safety::Idempotent,
        call_id: String::new(),
    };
    let channel = connection::endpoint(server).unwrap().connect_lazy();
    let client = CoordinatorServiceClient::new(channel);
    Service::new(client, subject, Duration::from_millis(400), |_| {})
}

async fn with_server(server: &str) -> (Ended, Duration) {
    let folder = tempfile::tempdir().unwrap();
    let (_sender, mut signals) = Signals::scripted();
    let plan = plan(&flaky(folder.path(), 2));
    let begun = Instant::now();
    let mut service = service(server);
    let ended = attempts::run(&plan, &mut service, &mut Stdin::Nothing, &mut signals).await;
    (ended, begun.elapsed())
}

#[tokio::test]
async fn a_service_that_is_down_or_silent_delays_the_command_by_little() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", listener.local_addr().unwrap());
    for _ in 0..2 {
        let (ended, took) = with_server(&silent).await;
        assert_eq!((ended.why, ended.attempts), (Why::Succeeded, 2));
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
    drop(listener);
    let (ended, _) = with_server(&silent).await;
    assert_eq!((ended.why, ended.attempts), (Why::Succeeded, 2));
}

#[test]
fn names_that_no_service_would_take_are_wrong_use() {
    for wrong in ["", "a b", "é", &"x".repeat(201)] {
        assert_eq!(
            coordination::check_name(wrong).unwrap_err().code(),
            2,
            "{wrong}"
        );
    }
    assert!(coordination::check_name("openai:gpt/account-7@eu.1_x").is_ok());
}

#[tokio::test]
async fn the_service_decides_and_is_told_what_became_of_it() {
    let fake = super::super::fake::Fake::default();
    let (ended, _) = with_server(&fake.serve().await).await;
    assert_eq!((ended.why, ended.attempts), (Why::Succeeded, 2));
    let asked = fake.asked.lock().unwrap();
    assert_eq!(asked.iter().map(|a| a.attempt).collect::<Vec<_>>(), [1, 2]);
    let previous = asked[1].previous.as_ref().unwrap();
    assert_eq!(
        previous.outcome.as_ref().unwrap().kind,
        i32::from(OutcomeKind::Failure)
    );
    assert!(previous.outcome.as_ref().unwrap().latency.is_some());
    assert_eq!(asked[0].call_id, asked[1].call_id);
    assert_eq!(fake.reported.lock().unwrap().len(), 1);
}
