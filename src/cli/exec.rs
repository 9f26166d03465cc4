//! `holdoff exec`: coordinated retries for any command, for people without a client
//! library. The command's output and exit code are its own; what holdoff has to say is
//! one line on standard error.

use std::{io::Write, path::PathBuf, pin::pin, time::Duration};

use clap::Args;
use holdoff_client::{CallError, Client, DenialReason, OnDenied, Outcome, Question, Safety};
use rustix::process::Signal;

use self::{
    child::{HeaderSource, Signals, Stdout},
    classify::Rule,
    heard::Heard,
    runner::{Over, Plan, Runner, State},
    stdin::{Stdin, StdinChoice},
};
use super::{
    Context,
    escape::escape,
    exit::{Exit, Failure},
    span,
};
use crate::policy;

pub(super) mod child;
pub(super) mod classify;
mod headers;
pub(super) mod heard;
pub(super) mod runner;
pub(super) mod stdin;
#[cfg(test)]
mod tests;

const EXAMPLES: &str = "\
Examples:
  holdoff exec --dependency payments --idempotent -- curl -fsS https://payments.example/health
  holdoff exec --dependency payments --idempotent --classify curl --retry-after-from headers.txt \\
      -- curl -fsS -D headers.txt -o answer.json https://payments.example/v1/list
  holdoff exec --dependency mirror --idempotent --timeout 10m --attempt-timeout 2m --wait \\
      -- rsync -a host::data .

What counts as what:
  --classify exit   0 (or --success-codes) is a success, all else a failure
  --classify curl   6, 7: not sent; 28: timeout; 22, 52, 55, 56 and most: failure; such as 3,
                    60: rejected; with --retry-after-from: by the HTTP status where there is one
  --classify http   by the HTTP status alone: 1xx to 3xx a success, 429 throttled, 408 and 504 a
                    timeout, 421 and 425 not sent, other 4xx, 501 and 505 rejected, other 5xx a
                    failure
  Without --idempotent or --keyed only an attempt that was certainly not sent is made again.

Standard input: a file is read again from where it stood for each attempt, a pipe is kept (up to \
64 MiB) and given again, a terminal is passed on. --stdin none gives the command nothing.

With no service the command runs all the same: up to 3 attempts, with jittered delays of our own.

Exit codes: the command's own (of its last attempt), 124 where it was stopped at a time limit, 126 \
and 127 where it could not be started, 128 and the number where a signal ended it; 1 where it was \
denied before it ever ran; 2 wrong use.";

/// Runs a command with coordinated retries; its exit code is the command's.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExecArgs {
    /// What the command calls
    #[arg(long, short, value_name = "NAME")]
    dependency: String,
    /// Executing it twice is the same as once
    #[arg(long)]
    idempotent: bool,
    /// It carries a key by which the dependency tells a repetition
    #[arg(long)]
    keyed: bool,
    /// How long all attempts may take together; without it, they have no limit
    #[arg(long, value_name = "DURATION", value_parser = span::parse_positive)]
    timeout: Option<Duration>,
    /// How long one attempt may take
    #[arg(long, value_name = "DURATION", value_parser = span::parse_positive)]
    attempt_timeout: Option<Duration>,
    /// At most so many attempts, the first one included; the policy may allow fewer
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    max_attempts: u32,
    /// How exit codes are read
    #[arg(long, value_enum, default_value_t = Rule::Exit)]
    classify: Rule,
    /// Where the response's headers are: Retry-After and the HTTP status are read there
    #[arg(long, value_name = "stderr|stdout|FILE", value_parser = header_source)]
    retry_after_from: Option<HeaderSource>,
    /// The exit codes that are a success
    #[arg(long, value_name = "CODES", value_delimiter = ',', default_value = "0")]
    success_codes: Vec<u8>,
    /// Wait where the answer is "not now", while --timeout lasts; otherwise end at once
    #[arg(long)]
    wait: bool,
    /// What the command is given to read
    #[arg(long, value_enum, default_value_t = StdinChoice::Auto)]
    stdin: StdinChoice,
    /// How long the service may take for an answer before it is gone on without
    #[arg(long, value_name = "DURATION", default_value = "250ms", value_parser = span::parse_positive)]
    ask_timeout: Duration,
    /// What the caller is
    #[arg(long, value_name = "NAME", default_value = "holdoff-exec")]
    service: String,
    /// Which process of it, no two alike; without it, machine, process id and a random part
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// Say nothing of our own
    #[arg(long, short)]
    quiet: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// # Errors
/// [`Failure::Usage`] for a wrong name or address; an unreachable service is none.
pub async fn run(context: &Context, args: ExecArgs) -> Result<Exit, Failure> {
    if !policy::is_name(&args.dependency) {
        return Err(Failure::Usage(format!(
            "--dependency {:?}: must be 1 to 200 bytes of ASCII letters, digits and . _ / : @ -",
            escape(&args.dependency)
        )));
    }
    let heard = Heard::listen();
    let client = client(context, &args)?;
    let mut signals = Signals::listen()
        .map_err(|error| Failure::No(format!("cannot listen for signals: {error}")))?;
    let (question, on_denied) = (question(&args), on_denied(&args));
    let quiet = args.quiet;
    let bypassed = std::env::var_os("HOLDOFF_BYPASS").is_some_and(|value| value == "1");
    let notice = (!quiet && !bypassed).then_some(heard);
    let plan = Plan {
        command: args.command,
        attempt_timeout: args.attempt_timeout,
        rule: args.classify,
        success_codes: args.success_codes,
        headers: args.retry_after_from,
        stdout: Stdout::Ours,
    };
    let runner = Runner::new(plan, Stdin::plan(args.stdin), notice);
    client.connect(args.ask_timeout).await;
    let ended = guarded(&client, question, on_denied, &runner, &mut signals).await;
    client.flush(args.ask_timeout).await;
    let state = runner.state();
    if !quiet && let Some(line) = epitaph(&ended, &state) {
        say(&line);
    }
    Ok(exit(&ended, &state))
}

fn client(context: &Context, args: &ExecArgs) -> Result<Client, Failure> {
    let endpoint = context.server.endpoint()?.uri().to_string();
    let builder = Client::builder()
        .endpoints([endpoint.trim_end_matches('/')])
        .namespace(&context.namespace)
        .service(&args.service)
        .timeout(args.ask_timeout);
    let builder = match &args.instance {
        Some(instance) => builder.instance(instance),
        None => builder,
    };
    context
        .server
        .introduce(builder)
        .build()
        .map_err(|error| Failure::Usage(error.to_string()))
}

fn question(args: &ExecArgs) -> Question {
    let safety = match (args.keyed, args.idempotent) {
        (true, _) => Safety::Keyed,
        (false, true) => Safety::Idempotent,
        (false, false) => Safety::Unsafe,
    };
    let question = Question::new(args.dependency.as_str())
        .safety(safety)
        .max_attempts(args.max_attempts);
    match args.timeout {
        Some(timeout) => question.deadline(timeout),
        None => question,
    }
}

fn on_denied(args: &ExecArgs) -> OnDenied {
    if args.wait {
        OnDenied::Wait
    } else {
        OnDenied::Fail
    }
}

/// How it all ended.
#[derive(Debug)]
enum Ended {
    Succeeded,
    /// The client's word, which is the service's where that answered.
    GaveUp(CallError<Outcome>),
    /// While nothing ran.
    Interrupted(Signal),
}

async fn guarded(
    client: &Client,
    question: Question,
    on_denied: OnDenied,
    runner: &Runner,
    signals: &mut Signals,
) -> Ended {
    let read = |result: &Result<(), Outcome>| match result {
        Ok(()) => Outcome::success(),
        Err(outcome) => outcome.clone(),
    };
    let call = client.call(question).on_denied(on_denied).classify(read);
    let mut running = pin!(call.run(|attempt| runner.attempt(attempt)));
    let ended = loop {
        tokio::select! {
            result = &mut running => break match result {
                Ok(()) => Ended::Succeeded,
                Err(error) => Ended::GaveUp(error),
            },
            // Dropping the call gives back what it was granted.
            signal = signals.next() => if !runner.pass_on(signal) {
                break Ended::Interrupted(signal);
            },
        }
    };
    runner.clear_up().await;
    ended
}

/// Why it stopped, where that is worth a line.
fn epitaph(ended: &Ended, state: &State) -> Option<String> {
    let runs = state.runs;
    let head = match runs {
        0 => "not run".to_owned(),
        1 => "gave up after 1 attempt".to_owned(),
        n => format!("gave up after {n} attempts"),
    };
    let error = match (ended, &state.over) {
        (_, Some(Over::Cancelled)) | (Ended::Interrupted(_), _) => return None,
        (_, Some(Over::NotStarted { cause, .. })) => return Some(format!("cannot run {cause}")),
        (_, Some(Over::InputSpent)) => {
            return Some(format!(
                "{head}: standard input is too long to be given again"
            ));
        }
        (Ended::Succeeded, None) if runs <= 1 => return None,
        (Ended::Succeeded, None) => return Some(format!("succeeded at attempt {runs}")),
        (Ended::GaveUp(error), None) => error,
    };
    let mut line = format!("{head}: {}", reason(error.why.reason));
    if !error.why.detail.is_empty() {
        line.push_str(&format!(": {}", escape(&error.why.detail)));
    }
    if let Some(wait) = error.why.retry_after {
        line.push_str(&format!("; ask again in {}", span::human(wait)));
    }
    Some(line)
}

/// The reason in the capitals of the contract: `BudgetExhausted` is `BUDGET_EXHAUSTED`.
fn reason(reason: DenialReason) -> String {
    let mut text = String::new();
    for letter in format!("{reason:?}").chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_uppercase());
    }
    text
}

fn exit(ended: &Ended, state: &State) -> Exit {
    match (ended, &state.over, state.code) {
        (_, Some(Over::NotStarted { code, .. }), _) => Exit::Command(*code),
        (Ended::Interrupted(signal), _, _) => {
            Exit::Command(u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX))
        }
        (_, _, Some(code)) => Exit::Command(code),
        (Ended::Succeeded | Ended::GaveUp(_), _, None) => Exit::No,
    }
}

pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "holdoff: {line}");
}

fn header_source(text: &str) -> Result<HeaderSource, String> {
    match text {
        "" => Err("must be stderr, stdout or a file".to_owned()),
        "stdout" => Ok(HeaderSource::Stdout),
        "stderr" => Ok(HeaderSource::Stderr),
        path => Ok(HeaderSource::File(PathBuf::from(path))),
    }
}
