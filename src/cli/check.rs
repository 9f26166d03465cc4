//! `holdoff check`: any command as a health check, run when the service plans it. What each
//! run found is one line on standard output.

use std::{pin::pin, sync::Arc, time::Duration};

use clap::Args;
use holdoff_client::{Checked, Client, Finding};
use rustix::process::Signal;
use tokio::sync::{Mutex, Notify};

use self::lines::Seen;
use super::{
    Context,
    escape::escape,
    exec::{
        child::{Signals, Stdout},
        classify::Rule,
        heard::Heard,
        runner::{Over, Plan, Runner},
        say,
        stdin::Stdin,
    },
    exit::{Exit, Failure},
    output::{self, Format},
    span,
};
use crate::policy;

mod lines;
#[cfg(test)]
mod tests;

/// How long the service may take for an answer.
const ASK_TIMEOUT: Duration = Duration::from_millis(250);

const EXAMPLES: &str = "\
Examples:
  holdoff check --dependency payments -- curl -fsS -o /dev/null https://payments.example/healthz
  holdoff check --dependency db --instance node-7 -- pg_isready -h db.internal
  holdoff check --dependency db --runs 1 --quiet -- pg_isready -h db.internal

Exit 0 of the command is healthy; anything else is not, and neither is a run that takes longer than \
the policy's check.timeout: its process group gets SIGTERM, and SIGKILL two seconds later.

Where the policy has no `check`, and with no service, the command runs all the same, every --period.

Exit codes: 0 ended by SIGINT or SIGTERM, or the last of --runs was healthy; 1 it was not; 2 wrong use; \
126 and 127 where the command could not be started; 128 and the number where a signal came before \
--runs.";

/// Runs a command as a health check, on the schedule of the whole fleet.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// What the command checks
    #[arg(long, short, value_name = "NAME")]
    dependency: String,
    /// End after so many own runs; without it, never
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    runs: Option<u64>,
    /// The time between two runs where the service has planned none
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = span::parse_positive)]
    period: Duration,
    /// How long a run may take where the service has planned none
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = span::parse_positive)]
    timeout: Duration,
    /// What the checker is
    #[arg(long, value_name = "NAME", default_value = "holdoff-check")]
    service: String,
    /// Which one of them, the same after a restart; without it, the machine's name
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// Print nothing of our own
    #[arg(long, short)]
    quiet: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// # Errors
/// [`Failure::Usage`] for a wrong name or address; an unreachable service is none.
pub async fn run(context: &Context, args: CheckArgs) -> Result<Exit, Failure> {
    let signals = Signals::listen()
        .map_err(|error| Failure::No(format!("cannot listen for signals: {error}")))?;
    check(context, args, signals, output::print).await
}

/// How it ended.
enum Ended {
    Ran(Checked),
    Signalled(Signal),
    /// The command could not be started, or somebody else ended it.
    Broken,
}

async fn check(
    context: &Context,
    args: CheckArgs,
    mut signals: Signals,
    print: impl Fn(&str) + Send + 'static,
) -> Result<Exit, Failure> {
    if !policy::is_name(&args.dependency) {
        return Err(Failure::Usage(format!(
            "--dependency {:?}: must be 1 to 200 bytes of ASCII letters, digits and . _ / : @ -",
            escape(&args.dependency)
        )));
    }
    let heard = Heard::listen();
    let client = client(context, &args)?;
    let command = Arc::new(Command::new(&args, context.format));
    let checker = client
        .check(&*args.dependency, |_| command.is_healthy())
        .period(args.period)
        .timeout(args.timeout)
        .runs(args.runs.unwrap_or(u64::MAX))
        .told(teller(context, &args, Arc::clone(&command), heard, print));
    let ended = {
        let mut checking = pin!(checker.run());
        tokio::select! {
            checked = &mut checking => Ended::Ran(checked),
            signal = signals.next() => Ended::Signalled(signal),
            () = command.broken.notified() => Ended::Broken,
        }
    };
    command.clear_up().await;
    Ok(exit(&ended, &command.runner, args.runs))
}

fn client(context: &Context, args: &CheckArgs) -> Result<Client, Failure> {
    let endpoint = context.server.endpoint()?.uri().to_string();
    let instance = args.instance.clone().unwrap_or_else(|| {
        let names = rustix::system::uname();
        names.nodename().to_string_lossy().into_owned()
    });
    let builder = Client::builder()
        .endpoints([endpoint.trim_end_matches('/')])
        .namespace(&context.namespace)
        .service(&args.service)
        .instance(instance)
        .timeout(ASK_TIMEOUT);
    context
        .server
        .introduce(builder)
        .build()
        .map_err(|error| Failure::Usage(error.to_string()))
}

/// Says each finding, and clears up after a run that was given up.
fn teller(
    context: &Context,
    args: &CheckArgs,
    command: Arc<Command>,
    heard: Heard,
    print: impl Fn(&str) + Send + 'static,
) -> impl FnMut(&Finding) + Send + 'static {
    let (format, ink, quiet) = (context.format, context.ink, args.quiet);
    let dependency = args.dependency.clone();
    move |finding| {
        if let Finding::Ran {
            timed_out: true, ..
        } = finding
        {
            let command = Arc::clone(&command);
            tokio::spawn(async move { command.clear_up().await });
        }
        if quiet {
            return;
        }
        let seen = Seen {
            at: jiff::Timestamp::now(),
            dependency: &dependency,
            code: command.runner.state().code,
            finding,
        };
        match (seen.notice(&heard), format) {
            (Some(notice), _) => say(&notice),
            (None, Format::Json) => print(&seen.json()),
            (None, Format::Table) => print(&seen.line(ink)),
        }
    }
}

/// The command, as a check.
struct Command {
    runner: Runner,
    /// One that was told to end is waited for by one at a time.
    clearing: Mutex<()>,
    broken: Notify,
}

impl Command {
    fn new(args: &CheckArgs, format: Format) -> Self {
        let plan = Plan {
            command: args.command.clone(),
            attempt_timeout: None,
            rule: Rule::Exit,
            success_codes: vec![0],
            headers: None,
            stdout: match format {
                Format::Table => Stdout::Ours,
                Format::Json => Stdout::Stderr,
            },
        };
        Self {
            runner: Runner::new(plan, Stdin::Nothing, None),
            clearing: Mutex::default(),
            broken: Notify::new(),
        }
    }

    async fn is_healthy(&self) -> bool {
        // The one before may not have ended yet.
        self.clear_up().await;
        let ran = self.runner.run(None).await;
        if self.runner.state().over.is_some() {
            // It says nothing about the dependency: there is no result.
            self.broken.notify_one();
            std::future::pending::<()>().await;
        }
        ran.is_ok()
    }

    async fn clear_up(&self) {
        let _one_at_a_time = self.clearing.lock().await;
        self.runner.clear_up().await;
    }
}

fn exit(ended: &Ended, runner: &Runner, runs: Option<u64>) -> Exit {
    let interrupted = |signal: Signal| match runs {
        None => Exit::Done,
        Some(_) => Exit::Command(u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX)),
    };
    match ended {
        Ended::Ran(checked) if checked.last == Some(true) => Exit::Done,
        Ended::Ran(_) => Exit::No,
        Ended::Signalled(signal) => interrupted(*signal),
        Ended::Broken => match runner.state().over {
            Some(Over::NotStarted { code, cause }) => {
                say(&format!("cannot run {cause}"));
                Exit::Command(code)
            }
            Some(Over::Cancelled | Over::InputSpent) | None => interrupted(Signal::INT),
        },
    }
}
