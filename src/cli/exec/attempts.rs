//! The loop: ask, wait, run, tell, and again, until it worked or the answer is no.

use std::time::Duration;

use bytes::Bytes;
use holdoff_client::proto::{Outcome, OutcomeKind};
use rustix::process::Signal;
use tokio::time::Instant;

use super::{
    super::span,
    child::{self, HeaderSource, Run, Signals},
    classify::{Ending, Rule, classify},
    coordination::{Answer, Coordination, End, Go, Question, Stop},
    stdin::Stdin,
};

/// No delay is longer, whatever the service says.
const MAX_DELAY: Duration = Duration::from_secs(600);
/// As `timeout` of coreutils has it.
const TIMED_OUT: u8 = 124;

/// What is to be run, and how far to go.
#[derive(Debug)]
pub struct Plan {
    pub command: Vec<String>,
    /// From the beginning to the end of the last attempt.
    pub timeout: Option<Duration>,
    pub attempt_timeout: Option<Duration>,
    /// Our own limit; the service's may be lower.
    pub max_attempts: u32,
    pub rule: Rule,
    pub success_codes: Vec<u8>,
    pub headers: Option<HeaderSource>,
    pub patience: Patience,
}

/// What a denial that names a time does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Ends it.
    FailFast,
    /// Is waited for, while there is time.
    Wait,
}

/// How it all ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub why: Why,
    /// Attempts that were run.
    pub attempts: u32,
    /// The exit code of the last attempt; `None`: there was none.
    pub code: Option<u8>,
}

/// Why it stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    Succeeded,
    /// The answer was no.
    Denied(Stop),
    /// A limit of the command line.
    Limit(String),
    /// A signal.
    Cancelled,
    /// The command could not be started.
    NotStarted {
        code: u8,
        cause: String,
    },
}

/// Runs the command until it ends well or no further attempt may be made.
pub async fn run<C: Coordination>(
    plan: &Plan,
    coordination: &mut C,
    stdin: &mut Stdin,
    signals: &mut Signals,
) -> Ended {
    let deadline = plan.timeout.map(|limit| Instant::now() + limit);
    let mut state = Loop {
        plan,
        coordination,
        signals,
        deadline,
        attempt: 1,
        previous: None,
        code: None,
        runs: 0,
    };
    let why = loop {
        let go = match state.permission().await {
            Ok(go) => go,
            Err(why) => break why,
        };
        if let Err(why) = state.attempt(go, stdin).await {
            break why;
        }
    };
    Ended {
        why,
        attempts: state.runs,
        code: state.code,
    }
}

struct Loop<'a, C> {
    plan: &'a Plan,
    coordination: &'a mut C,
    signals: &'a mut Signals,
    deadline: Option<Instant>,
    /// The one that is asked for or running.
    attempt: u32,
    previous: Option<End>,
    code: Option<u8>,
    runs: u32,
}

impl<C: Coordination> Loop<'_, C> {
    /// Asks and waits until the attempt may be made now, or says why it may not.
    async fn permission(&mut self) -> Result<Go, Why> {
        let mut confirm = None;
        loop {
            let question = Question {
                attempt: self.attempt,
                previous: self.previous.clone(),
                time_left: self.time_left(),
                confirm: confirm.take(),
            };
            let confirming = question.confirm.is_some();
            match self.coordination.acquire(question).await {
                Answer::Stop(stop) => self.wait_for(stop).await?,
                Answer::Go(go) => {
                    self.wait_out(&go).await?;
                    match &go.permit {
                        Some(permit) if go.confirm && !confirming => confirm = Some(permit.clone()),
                        Some(_) | None => return Ok(go),
                    }
                }
            }
        }
    }

    /// Waits for the time that a denial names, where that is wanted and possible.
    async fn wait_for(&mut self, stop: Stop) -> Result<(), Why> {
        let wait = match (self.plan.patience, stop.retry_after) {
            (Patience::Wait, Some(wait)) => wait,
            (Patience::Wait, None) | (Patience::FailFast, _) => return Err(Why::Denied(stop)),
        };
        if wait > MAX_DELAY || self.time_left().is_some_and(|left| wait >= left) {
            return Err(Why::Denied(stop));
        }
        // A service that says "now" again and again must not be asked in a tight loop.
        let wait = wait.max(Duration::from_millis(10));
        match child::pause(wait, self.signals).await {
            None => Ok(()),
            Some(signal) => Err(self.interrupted(signal)),
        }
    }

    async fn wait_out(&mut self, go: &Go) -> Result<(), Why> {
        let delay = go.delay.min(MAX_DELAY);
        if self.time_left().is_some_and(|left| delay >= left) {
            self.give_back(go.permit.clone()).await;
            let delay = span::human(delay);
            return Err(Why::Limit(format!(
                "--timeout: the next attempt would begin in {delay}"
            )));
        }
        match child::pause(delay, self.signals).await {
            None => Ok(()),
            Some(signal) => {
                self.give_back(go.permit.clone()).await;
                Err(self.interrupted(signal))
            }
        }
    }

    async fn attempt(&mut self, go: Go, stdin: &mut Stdin) -> Result<(), Why> {
        let plan = self.plan;
        let left = self.time_left();
        let limit = [plan.attempt_timeout, left].into_iter().flatten().min();
        let ran = child::run(
            &plan.command,
            stdin,
            plan.headers.as_ref(),
            limit,
            self.signals,
        )
        .await;
        let ran = match ran {
            Ok(ran) => ran,
            Err(error) => {
                self.give_back(go.permit).await;
                return Err(not_started(&plan.command, &error));
            }
        };
        self.runs = self.runs.saturating_add(1);
        self.code = Some(if ran.ending == Ending::TimedOut {
            TIMED_OUT
        } else {
            ran.code
        });
        let end = End {
            permit: go.permit,
            outcome: outcome(plan, &ran),
        };
        let over = match (end.outcome.kind(), ran.ending) {
            (OutcomeKind::Success, _) => Some(Why::Succeeded),
            (_, Ending::Cancelled) => Some(Why::Cancelled),
            (_, Ending::TimedOut) if self.time_left() == Some(Duration::ZERO) => Some(Why::Limit(
                format!("--timeout: {} are over", limit_text(plan.timeout)),
            )),
            _ if self.attempt >= plan.max_attempts => Some(Why::Limit(format!(
                "--max-attempts: {} allowed",
                plan.max_attempts
            ))),
            _ if stdin.is_spent() => Some(Why::Limit(
                "standard input is too long to be given again".to_owned(),
            )),
            _ => None,
        };
        match over {
            Some(why) => {
                self.coordination.report(end).await;
                Err(why)
            }
            None => {
                self.previous = Some(end);
                self.attempt = self.attempt.saturating_add(1);
                Ok(())
            }
        }
    }

    /// Gives up what was granted and not used, so that a probe or a place is free again.
    async fn give_back(&mut self, permit: Option<Bytes>) {
        let outcome = Outcome {
            kind: OutcomeKind::Cancelled.into(),
            ..Outcome::default()
        };
        self.coordination.report(End { permit, outcome }).await;
    }

    fn interrupted(&mut self, signal: Signal) -> Why {
        self.code = Some(u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX));
        Why::Cancelled
    }

    fn time_left(&self) -> Option<Duration> {
        self.deadline
            .map(|at| at.saturating_duration_since(Instant::now()))
    }
}

fn outcome(plan: &Plan, ran: &Run) -> Outcome {
    let kind = classify(
        plan.rule,
        ran.ending,
        ran.response.status,
        &plan.success_codes,
    );
    let mut outcome = Outcome {
        kind: kind.into(),
        latency: Some(span::to_wire(ran.took)),
        status_code: ran.response.status.map_or(0, u32::from),
        ..Outcome::default()
    };
    match kind {
        OutcomeKind::Success
        | OutcomeKind::Rejected
        | OutcomeKind::Ignored
        | OutcomeKind::Cancelled => {}
        OutcomeKind::Unspecified
        | OutcomeKind::Failure
        | OutcomeKind::Timeout
        | OutcomeKind::NotSent
        | OutcomeKind::Throttled => {
            outcome.pushback = ran.response.retry_after.map(span::to_wire);
        }
    }
    outcome
}

fn not_started(command: &[String], error: &std::io::Error) -> Why {
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => 127,
        _ => 126,
    };
    let program = command.first().map(String::as_str).unwrap_or_default();
    Why::NotStarted {
        code,
        cause: format!("{program}: {error}"),
    }
}

fn limit_text(limit: Option<Duration>) -> String {
    limit.map(span::human).unwrap_or_default()
}
