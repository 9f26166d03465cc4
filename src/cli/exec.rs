//! `holdoff exec`: coordinated retries for any command, for people without a client
//! library. The command's output and exit code are its own; what holdoff has to say is
//! one line on standard error.

use std::{io::Write, path::PathBuf, time::Duration};

use clap::{Args, builder::FalseyValueParser};
use holdoff_client::proto::{Caller, Safety, coordinator_service_client::CoordinatorServiceClient};

use self::{
    attempts::{Ended, Patience, Plan, Why},
    child::{HeaderSource, Signals},
    classify::Rule,
    coordination::{Service, Subject},
    stdin::{Stdin, StdinChoice},
};
use super::{
    Context, connection,
    exit::{Exit, Failure},
    span,
};

mod attempts;
mod child;
mod classify;
mod coordination;
mod headers;
mod stdin;
#[cfg(test)]
mod tests;

const EXAMPLES: &str = "\
Examples:
  holdoff exec --dependency payments --idempotent --classify curl -- curl -fsS https://payments.example/v1/health
  holdoff exec --dependency payments --idempotent --classify curl --retry-after-from headers.txt \\
      -- curl -fsS -D headers.txt -o answer.json https://payments.example/v1/list
  holdoff exec --dependency mirror --idempotent --timeout 10m --attempt-timeout 2m --wait -- rsync -a host::data .

What counts as what:
  --classify exit   0 (or --success-codes) is a success, all else a failure
  --classify curl   6, 7: not sent; 28: timeout; 22, 52, 55, 56: failure; 1, 2, 3, 60: rejected;
                    with --retry-after-from: by the HTTP status where there is one
  --classify http   by the HTTP status alone: 2xx and 3xx a success, 429 throttled, other 4xx
                    rejected, 408 and 504 a timeout, other 5xx a failure
  Without --idempotent or --keyed only an attempt that was certainly not sent is made again.

Standard input: a file is read again from where it stood for each attempt, a pipe is kept (up to
64 MiB) and given again, a terminal is passed on. --stdin none gives the command nothing.

With no service the command runs all the same: up to 3 attempts, with jittered delays of our own.

Exit codes: the command's own (of its last attempt), 124 where it was stopped at a time limit, 126 and
127 where it could not be started, 128 and the number where a signal ended it; 1 where it was denied
before it ever ran; 2 wrong use.";

/// Runs a command with coordinated retries; its exit code is the command's.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExecArgs {
    /// What the command calls
    #[arg(long, short, value_name = "NAME")]
    dependency: String,
    /// Executing it twice is the same as once
    #[arg(long, value_parser = FalseyValueParser::new(), action = clap::ArgAction::SetTrue)]
    idempotent: bool,
    /// It carries a key by which the dependency tells a repetition
    #[arg(long, value_parser = FalseyValueParser::new(), action = clap::ArgAction::SetTrue)]
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
    #[arg(long, value_parser = FalseyValueParser::new(), action = clap::ArgAction::SetTrue)]
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
    /// Which one of them; without it, this machine's name
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// Say nothing of our own
    #[arg(long, short, value_parser = FalseyValueParser::new(), action = clap::ArgAction::SetTrue)]
    quiet: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// # Errors
/// [`Failure::Usage`] for a wrong name or address; an unreachable service is none.
pub async fn run(context: &Context, args: ExecArgs) -> Result<Exit, Failure> {
    coordination::check_name(&args.dependency)?;
    let channel = connection::endpoint(&context.server)?.connect_lazy();
    let quiet = args.quiet;
    let notice = if quiet { |_: &str| {} } else { say };
    let safety = match (args.keyed, args.idempotent) {
        (true, _) => Safety::Keyed,
        (false, true) => Safety::Idempotent,
        (false, false) => Safety::Unsafe,
    };
    let subject = Subject {
        namespace: context.namespace.clone(),
        dependency: args.dependency,
        caller: Caller {
            service: args.service,
            instance: args.instance.unwrap_or_else(machine_name),
        },
        safety,
        call_id: format!("{:016x}", rand::random::<u64>()),
    };
    let client = CoordinatorServiceClient::new(channel);
    let mut service = Service::new(client, subject, args.ask_timeout, notice);
    let mut signals = Signals::listen()
        .map_err(|error| Failure::No(format!("cannot listen for signals: {error}")))?;
    let plan = Plan {
        command: args.command,
        timeout: args.timeout,
        attempt_timeout: args.attempt_timeout,
        max_attempts: args.max_attempts,
        rule: args.classify,
        success_codes: args.success_codes,
        headers: args.retry_after_from,
        patience: if args.wait {
            Patience::Wait
        } else {
            Patience::FailFast
        },
    };
    let mut stdin = Stdin::plan(args.stdin);
    let ended = attempts::run(&plan, &mut service, &mut stdin, &mut signals).await;
    if !quiet && let Some(line) = epitaph(&ended) {
        say(&line);
    }
    Ok(exit(&ended))
}

/// Why it stopped, where that is worth a line.
fn epitaph(ended: &Ended) -> Option<String> {
    let n = ended.attempts;
    let after = match n {
        1 => "gave up after 1 attempt".to_owned(),
        n => format!("gave up after {n} attempts"),
    };
    match &ended.why {
        Why::Succeeded if n <= 1 => None,
        Why::Succeeded => Some(format!("succeeded at attempt {n}")),
        Why::Cancelled => None,
        Why::Limit(what) if n == 0 => Some(format!("not run: {what}")),
        Why::Limit(what) => Some(format!("{after}: {what}")),
        Why::NotStarted { cause, .. } => Some(format!("cannot run {cause}")),
        Why::Denied(stop) => {
            let head = if n == 0 { "not run" } else { &after };
            let mut line = format!("{head}: {}", stop.reason);
            if !stop.detail.is_empty() {
                line.push_str(&format!(": {}", stop.detail));
            }
            if let Some(wait) = stop.retry_after {
                line.push_str(&format!("; ask again in {}", span::human(wait)));
            }
            Some(line)
        }
    }
}

fn exit(ended: &Ended) -> Exit {
    match (&ended.why, ended.code) {
        (Why::NotStarted { code, .. }, _) => Exit::Command(*code),
        (Why::Succeeded, _) => Exit::Done,
        (Why::Denied(_) | Why::Limit(_) | Why::Cancelled, Some(code)) => Exit::Command(code),
        (Why::Denied(_) | Why::Limit(_) | Why::Cancelled, None) => Exit::No,
    }
}

fn say(line: &str) {
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

/// All commands of one machine are one instance: they share its faults.
fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .or_else(|_| std::env::var("HOSTNAME"))
        .unwrap_or_default();
    name.trim()
        .chars()
        .filter(char::is_ascii)
        .take(200)
        .collect()
}
