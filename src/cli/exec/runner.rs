//! Runs the command when the client says so, and remembers what the end of it all needs:
//! how often it ran, with which code it ended, and whether somebody wanted it to stop.
//!
//! The client's future may be dropped at a deadline or by a signal while the command runs,
//! so what must survive that is here and not in the future.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use holdoff_client::{Attempt, Outcome, OutcomeKind};
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use tokio::time::{Instant, sleep};

use super::{
    child::{self, HeaderSource, Run, Stdout},
    classify::{Ending, Rule, classify},
    heard::Heard,
    stdin::Stdin,
};

/// As `timeout` of coreutils has it.
const TIMED_OUT: u8 = 124;

/// What is to be run, and how its end is read.
#[derive(Debug)]
pub struct Plan {
    pub command: Vec<String>,
    pub attempt_timeout: Option<Duration>,
    pub rule: Rule,
    pub success_codes: Vec<u8>,
    pub headers: Option<HeaderSource>,
    pub stdout: Stdout,
}

/// See the module.
#[derive(Debug)]
pub struct Runner {
    plan: Plan,
    stdin: tokio::sync::Mutex<Stdin>,
    state: Mutex<State>,
    notice: Option<Heard>,
}

/// What is known so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// How often the command was started.
    pub runs: u32,
    /// The exit code of its last run.
    pub code: Option<u8>,
    /// Why there is no further run, where that is not the client's word.
    pub over: Option<Over>,
    running: Option<Target>,
    /// It was asked to end and may not have done so yet.
    leftover: Option<Target>,
    told: bool,
}

/// What ends it without the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// A signal was passed on.
    Cancelled,
    /// The command could not be started.
    NotStarted { code: u8, cause: String },
    /// Its input cannot be given again.
    InputSpent,
}

/// Whom a signal is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub pid: Pid,
    pub own_group: bool,
}

impl Runner {
    /// `notice` is told once when an attempt is made without the service; without it, nothing is.
    pub fn new(plan: Plan, stdin: Stdin, notice: Option<Heard>) -> Self {
        Self {
            plan,
            stdin: stdin.into(),
            state: Mutex::default(),
            notice,
        }
    }

    pub fn state(&self) -> State {
        self.lock().clone()
    }

    /// One attempt.
    ///
    /// # Errors
    /// Every outcome but a success.
    pub async fn attempt(&self, attempt: Attempt) -> Result<(), Outcome> {
        self.tell(&attempt);
        self.run(self.plan.attempt_timeout).await
    }

    /// One run, whoever wants it.
    ///
    /// # Errors
    /// Every outcome but a success.
    pub async fn run(&self, limit: Option<Duration>) -> Result<(), Outcome> {
        let mut stdin = self.stdin.lock().await;
        if stdin.is_spent() {
            self.lock().over = Some(Over::InputSpent);
            return Err(Outcome::cancelled());
        }
        let plan = &self.plan;
        let started = match child::start(
            &plan.command,
            &mut stdin,
            plan.headers.as_ref(),
            plan.stdout,
        ) {
            Ok(started) => started,
            Err(error) => {
                self.lock().over = Some(not_started(&plan.command, &error));
                return Err(Outcome::cancelled());
            }
        };
        let guard = Running::new(self, started.target());
        let ran = started.finish(limit).await;
        guard.ended();
        match ran {
            Ok(ran) => self.ended(&ran),
            // Nothing is known of how it ended.
            Err(_) => Err(Outcome::new(OutcomeKind::Ignored)),
        }
    }

    /// Passes a signal on; false where nothing runs that could take it.
    pub fn pass_on(&self, signal: Signal) -> bool {
        let mut state = self.lock();
        let Some(target) = state.running else {
            return false;
        };
        state.over = Some(Over::Cancelled);
        // Ctrl-C on a terminal has reached a command in our own group already.
        if target.own_group || signal != Signal::INT {
            target.send(signal);
        }
        true
    }

    /// Waits for what was asked to end, and makes it end after a while.
    pub async fn clear_up(&self) {
        let Some(target) = self.lock().leftover.take() else {
            return;
        };
        let end = Instant::now() + child::GRACE;
        while target.lives() && Instant::now() < end {
            sleep(Duration::from_millis(10)).await;
        }
        target.send(Signal::KILL);
    }

    fn ended(&self, ran: &Run) -> Result<(), Outcome> {
        let mut state = self.lock();
        let ending = match ran.ending {
            _ if state.over == Some(Over::Cancelled) => Ending::Cancelled,
            Ending::Cancelled => {
                state.over = Some(Over::Cancelled);
                Ending::Cancelled
            }
            ending @ (Ending::Exited(_) | Ending::Signalled(_) | Ending::TimedOut) => ending,
        };
        state.code = Some(if ending == Ending::TimedOut {
            TIMED_OUT
        } else {
            ran.code
        });
        let (plan, status) = (&self.plan, ran.response.status);
        match classify(plan.rule, ending, status, &plan.success_codes) {
            OutcomeKind::Success => Ok(()),
            kind => Err(outcome(kind, ran)),
        }
    }

    fn tell(&self, attempt: &Attempt) {
        if let Some(heard) = &self.notice
            && attempt.is_local
            && !std::mem::replace(&mut self.lock().told, true)
        {
            super::say(&heard.notice(None));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// From the start to the end of a run. Dropped before the end, the command is asked to end.
struct Running<'a> {
    runner: &'a Runner,
    target: Option<Target>,
}

impl<'a> Running<'a> {
    fn new(runner: &'a Runner, target: Option<Target>) -> Self {
        let mut state = runner.lock();
        state.runs = state.runs.saturating_add(1);
        state.running = target;
        drop(state);
        Self { runner, target }
    }

    fn ended(mut self) {
        self.target = None;
        self.runner.lock().running = None;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(target) = self.target.take() {
            target.send(Signal::TERM);
            let mut state = self.runner.lock();
            state.running = None;
            state.leftover = Some(target);
            state.code = Some(TIMED_OUT);
        }
    }
}

impl Target {
    /// A process that has ended meanwhile is no error.
    pub fn send(self, signal: Signal) {
        let _ = if self.own_group {
            kill_process_group(self.pid, signal)
        } else {
            kill_process(self.pid, signal)
        };
    }

    fn lives(self) -> bool {
        if self.own_group {
            test_kill_process_group(self.pid).is_ok()
        } else {
            rustix::process::test_kill_process(self.pid).is_ok()
        }
    }
}

fn outcome(kind: OutcomeKind, ran: &Run) -> Outcome {
    let mut outcome = Outcome::new(kind).latency(ran.took);
    if let Some(status) = ran.response.status {
        outcome = outcome.status_code(u32::from(status));
    }
    let asks = match kind {
        OutcomeKind::Failure
        | OutcomeKind::Timeout
        | OutcomeKind::NotSent
        | OutcomeKind::Throttled => ran.response.retry_after,
        OutcomeKind::Success
        | OutcomeKind::Rejected
        | OutcomeKind::Ignored
        | OutcomeKind::Cancelled => None,
    };
    match asks {
        Some(wait) => outcome.pushback(wait),
        None => outcome,
    }
}

fn not_started(command: &[String], error: &std::io::Error) -> Over {
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => 127,
        _ => 126,
    };
    let program = command.first().map(String::as_str).unwrap_or_default();
    Over::NotStarted {
        code,
        cause: format!("{program}: {error}"),
    }
}
